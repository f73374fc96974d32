"""An agent over HTTP: create, teach, decide, reward, explain.

``python examples/http_quickstart.py`` starts a server with a file that is thrown away, and ends
it. Your own is one command: ``bridle serve``.
"""

from __future__ import annotations

from bridle import Arm, Category, Client, Flag, Schema
from bridle.client import Trial

ARMS = [Arm("crime", "True crime", group="grim"), Arm("nature", "Wild nature")]
FEATURES = Schema([Flag("child"), Category("daypart", ["morning", "evening"])])


def lived(client: Client) -> None:
    client.create("shelf", arms=ARMS, features=FEATURES, limits="rules", seed=1)
    evening = {"child": False, "daypart": "evening"}
    bedtime = {"child": True, "daypart": "evening"}
    client.teach("shelf", bedtime, "crime", False, by="editor", note="not for children")
    client.teach_many("shelf", [evening, bedtime], ["crime", "nature"], [True, True], by="editor")

    # Each call has an id, yours or a new one: sent again, it is the same decision.
    choice = client.decide("shelf", bedtime, id="visit-1", propensity=True)
    again = client.decide("shelf", bedtime, id="visit-1", propensity=True)
    print(f"{choice.outcome}: {choice.arm}, with probability {choice.propensity:.2f}")
    print(f"sent again, the same: {again == choice}")
    rewarded = client.reward("shelf", choice.id, 1.0)
    print(f"its reward is {rewarded.outcome}; the agent is at version {rewarded.version}")

    print("why:")
    for arm in client.explain("shelf", choice.id)["arms"]:
        print(f"  {arm['arm']}: P(allowed) {arm['p']:.2f}, {arm['why_not'] or 'may be played'}")
    print("log:", ", ".join(entry.kind for entry in client.events("shelf")))


def main() -> None:
    with Trial() as server, Client(server.url, server.token) as client:
        lived(client)


if __name__ == "__main__":
    main()
