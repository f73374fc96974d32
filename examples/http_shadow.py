"""Shadow mode: an agent beside the system that you have, before it decides anything.

The incumbent plays; the agent says what it would have played, and learns from the incumbent's
reward. ``python examples/http_shadow.py`` has a made-up incumbent, editor and visitors.
"""

from __future__ import annotations

import random

from bridle import Category, Client, Flag, Schema
from bridle.client import Trial

ARMS = ["crime", "nature", "laughs"]
FEATURES = Schema([Flag("child"), Category("daypart", ["morning", "evening"])])
VISITS = 300


def visitor(rng: random.Random) -> dict[str, object]:
    return {"child": rng.random() < 0.4, "daypart": rng.choice(["morning", "evening"])}


def editor_allows(someone: dict[str, object], arm: object) -> bool:
    return not (arm == "crime" and someone["child"])


def incumbent(someone: dict[str, object], rng: random.Random) -> str:
    """Plays what sells in the evening, whoever watches."""
    return "crime" if someone["daypart"] == "evening" else rng.choice(ARMS)


def clicked(arm: str, rng: random.Random) -> bool:
    return rng.random() < {"crime": 0.6, "nature": 0.4, "laughs": 0.5}[arm]


def watched(client: Client, rng: random.Random) -> None:
    client.create("shadow", arms=ARMS, features=FEATURES, limits="rules", seed=1)
    everyone: list[dict[str, object]] = [
        {"child": child, "daypart": part}
        for child in (True, False)
        for part in ("morning", "evening")
    ]
    pairs = [(someone, arm) for someone in everyone for arm in ARMS]
    client.teach_many(
        "shadow",
        [someone for someone, _ in pairs],
        [arm for _, arm in pairs],
        [editor_allows(someone, arm) for someone, arm in pairs],
        by="editor",
    )
    # A hundred visits in one call; each reward is the incumbent's.
    for _ in range(VISITS // 100):
        someones = [visitor(rng) for _ in range(100)]
        played = [incumbent(someone, rng) for someone in someones]
        ours = client.decide_many("shadow", someones, played=played)
        for choice, arm in zip(ours, played, strict=True):
            client.reward("shadow", choice.id, float(clicked(arm, rng)))
    found = client.shadow("shadow")
    print(f"{found.decisions} decisions side by side")
    print(f"agreed: {found.agreed}")
    print(f"plays that the editor had denied: ours {found.denied_ours}, ", end="")
    print(f"theirs {found.denied_theirs}")
    print(f"violations, as the agent believes: ours {found.believed_ours:.1f}, ", end="")
    print(f"theirs {found.believed_theirs:.1f}")


def main() -> None:
    with Trial() as server, Client(server.url, server.token) as client:
        watched(client, random.Random(1))


if __name__ == "__main__":
    main()
