"""A live loop: a start page picks a shelf for each visitor, inside what an editor taught.

Run it with ``python examples/recommender.py``. The visitors, the editor and the clicks are made up.
"""

from __future__ import annotations

import random

from bridle import (
    Agent,
    Arm,
    Category,
    Decision,
    Flag,
    Labels,
    LearnedMask,
    Number,
    Question,
    Rule,
    Schema,
    When,
)

SCHEMA = Schema(
    [
        Number("age", low=0, high=100, clip=True),
        Flag("shared_screen", missing=False),
        Category("daypart", ["morning", "day", "evening"]),
        Labels("liked", ["comedy", "crime", "nature"], missing=()),
    ]
)
ARMS = [
    Arm("new", "New releases"),
    Arm("crime", "True crime", group="grim"),
    Arm("horror", "Horror night", group="grim"),
    Arm("nature", "Wild nature"),
    Arm("laughs", "Easy laughs"),
]
# What is known for certain is declared; the rest is taught by example.
RULES = [Rule("kids", when=[When("age", at_most=11)], groups=["grim"], note="by law")]


def visitor(rng: random.Random) -> dict[str, object]:
    liked = [genre for genre in ("comedy", "crime", "nature") if rng.random() < 0.4]
    return {
        "age": rng.randint(5, 90),
        "shared_screen": rng.random() < 0.3,
        "daypart": rng.choice(["morning", "day", "evening"]),
        "liked": liked,
    }


def editor_allows(visitor: dict[str, object], arm: object) -> bool:
    """The editor's taste, which the agent is never told: grim things only late and alone."""
    grim = arm in ("crime", "horror")
    return not (grim and (visitor["shared_screen"] or visitor["daypart"] != "evening"))


def clicked(visitor: dict[str, object], arm: object, rng: random.Random) -> bool:
    taste = {"crime": "crime", "horror": "crime", "nature": "nature", "laughs": "comedy"}
    liked = visitor["liked"]
    assert isinstance(liked, list)
    return rng.random() < (0.7 if taste.get(str(arm)) in liked else 0.3)


def lived(agent: Agent, visits: int, rng: random.Random) -> str:
    """Show shelves to visitors; an editor answers what the agent asks."""
    clicks = wrong = 0
    for _ in range(visits):
        someone = visitor(rng)
        made = agent.decide(someone)
        while isinstance(made, Question):  # in doubt
            answer = agent.answer(made, editor_allows(someone, made.arm), by="editor")
            assert answer.then is not None
            made = answer.then
        if not isinstance(made, Decision):  # nothing may be played
            continue
        click = clicked(someone, made.arm, rng)
        agent.reward(made.id, float(click))
        clicks += click
        wrong += not editor_allows(someone, made.arm)
    return (
        f"{len(agent.examples):>4} answers   clicks {clicks / visits:.1%}   "
        f"shelves that the editor would not have allowed: {wrong}"
    )


def main(answers: int = 600, visits: int = 4_000) -> None:
    print("taught beforehand, then a dial (the paper's agent):")
    for sigma in (0.0, 0.25, 0.5, 1.0):
        rng = random.Random(1)
        agent = Agent(
            arms=ARMS,
            features=SCHEMA,
            rules=RULES,
            sigma=sigma,
            limits="linear",
            prior="paper",
            seed=1,
        )
        for _ in range(answers):
            someone = visitor(rng)
            question = agent.ask(someone)
            agent.answer(question, editor_allows(someone, question.arm), by="editor")
        print(f"  sigma {sigma:<4} {lived(agent, visits, rng)}")
    print("taught nothing beforehand, asks when in doubt:")
    # A click is a coin, not a rating: with rewards as noisy as that, explore more than by default.
    policy = LearnedMask(v=0.25)
    agent = Agent(arms=ARMS, features=SCHEMA, rules=RULES, policy=policy, budget=200, seed=1)
    print(f"  {'':10} {lived(agent, visits, random.Random(1))}")
    for sentence in agent.describe():
        print(f"    {sentence}")


if __name__ == "__main__":
    main()
