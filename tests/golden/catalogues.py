"""The script that wrote the golden logs of rewards that find their scale, and of catalogues.

    PYTHONPATH=src:. python -m tests.golden.catalogues COMMIT

It writes `catalogues/NAME.jsonl.xz` and `catalogues/expected.json`, what the code saw in them. As
with `write.py`: NEVER run it again to repair a failing test.
"""

from __future__ import annotations

import itertools
import json
import lzma
import sys
from collections.abc import Callable, Iterator
from typing import Any

from bridle import (
    Agent,
    Arm,
    AtMost,
    Category,
    Decision,
    EpsilonGreedy,
    Flag,
    Labels,
    NotBoth,
    Number,
    PlackettLuce,
    Question,
    SetLimits,
    Softmax,
    SquareCB,
    Thompson,
)
from bridle.agent.events import Event, event_to_text
from bridle.agent.outcomes import SlateDecision
from tests.golden.seeing import HERE
from tests.golden.write import seen_in

FEATURES = [Flag("comedy"), Flag("horror"), Flag("late")]
CONTEXTS = [{"comedy": bool(n & 1), "horror": bool(n & 2), "late": bool(n & 4)} for n in range(8)]
GENRES, RATINGS, BANDS = ("Comedy", "Drama", "Horror"), ("G", "PG", "R"), ("child", "teen", "adult")
ABOUT = [Labels("genres", GENRES), Category("rating", RATINGS), Number("year", 1970, 2030)]
GAPS = [
    Labels("genres", GENRES, optional=True),
    Category("rating", RATINGS, optional=True),
    Number("year", 1970, 2030, optional=True),
]
VIEWERS = [{"band": band, "late": late} for band in BANDS for late in (False, True)]


def noise(seed: int) -> Iterator[float]:
    """Yield numbers in [0, 1), the same on any machine."""
    state = seed
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (state >> 40) / 2**24


def scaled(arms: int = 4, **settings: Any) -> list[Event]:
    """Live through what the scale is found in, a change of rewards, and changes by hand."""
    log: list[Event] = []
    u = noise(3)
    agent = Agent(
        arms=arms, features=FEATURES, policy=Thompson(), seed=7, sink=log.extend, **settings
    )

    def earned(arm: int, n: int, turn: int) -> float:
        good = (arm + turn) % agent.arms[-1].id == n % 3  # type: ignore[operator]
        return min(1.0, 0.1 + 0.6 * good + 0.3 * next(u))

    for turn, rounds in ((0, 30), (2, 20)):
        for batch in range(rounds):
            shown = [CONTEXTS[(n * 3 + batch) % 8] for n in range(32)]
            made = agent.decide_many(shown)
            values = [earned(int(k), n, turn) for n, k in enumerate(made.chosen)]
            agent.reward_many(made.ids, values)
    agent.set_boldness(0.2)
    agent.set_forget(60.0)
    for n in range(80):
        one: Any = agent.decide(CONTEXTS[n % 8], propensity=n % 3 == 0)
        agent.reward(one.id, earned(one.arm, n, 2))
    agent.set_policy(EpsilonGreedy(epsilon=0.1))
    agent.add_arms(2)
    agent.retire_arms([0])
    for n in range(40):
        one = agent.decide(CONTEXTS[n % 8], propensity=True)
        agent.reward(one.id, earned(one.arm, n, 2))
    agent.restore_arms([0])
    agent.set_forget("auto")
    for n in range(40):
        one = agent.decide(CONTEXTS[n % 8])
        agent.reward(one.id, earned(one.arm, n, 1))
    return log


def history() -> list[Event]:
    """Learn from a history at once, and go on."""
    log: list[Event] = []
    agent = Agent(arms=3, features=FEATURES, policy=Thompson(), seed=8, sink=log.extend)
    u = noise(4)
    rows = [CONTEXTS[n * 5 % 8] for n in range(700)]
    arms = [n * n % 3 for n in range(700)]
    agent.learn(rows, arms, [float(next(u) < 0.02 + 0.03 * k) for k in arms])
    for n in range(120):
        made: Any = agent.decide(CONTEXTS[n % 8], propensity=n % 4 == 0)
        agent.reward(made.id, float(next(u) < 0.05))
    return log


def film(number: int, gaps: bool = False) -> Arm:
    genres = [name for i, name in enumerate(GENRES) if number >> i & 1]
    features: dict[str, Any] = {
        "genres": genres,
        "rating": RATINGS[number * 7 % 3],
        "year": 1970 + number * 13 % 61,
    }
    if gaps and number % 5 == 4:
        features[("genres", "rating", "year")[number % 3]] = None
    if gaps and number % 9 == 7:
        features["genres"] = [*genres, None]
    return Arm(f"f{number}", features=features, label=f"Film {number}")


def allowed(arm: Arm, band: str) -> bool:
    """Return what is so: nothing R or with horror for a child, one exception."""
    features: Any = arm.features
    if arm.id == "f9":
        return band == "adult"
    if band == "child":
        return features["rating"] in ("G", "PG") and "Horror" not in (features["genres"] or ())
    return band == "adult" or features["rating"] != "R"


def catalogue(
    policies: bool = False, alone: bool = False, gaps: bool = False, **settings: Any
) -> list[Event]:
    """Live with films that come, go and change, slates, questions and checks."""
    log: list[Event] = []
    films = {f"f{n}": film(n, gaps) for n in range(40)}
    u, numbers = noise(5), itertools.count(40)
    given: dict[str, Any] = {"budget": 200, "answer_price": 0.2} | settings
    agent = Agent(
        arms=list(films.values()),
        features=[Category("band", BANDS), Flag("late")],
        arm_features=GAPS if gaps else ABOUT,
        seed=9,
        sink=log.extend,
        **given,
    )

    def liked(id: Any, n: int) -> float:
        features: Any = films[id].features
        taste = GENRES[(n // 150 + int(VIEWERS[n % 6]["late"])) % 3]
        return min(1.0, 0.5 * (taste in (features["genres"] or ())) + 0.4 * next(u))

    for n in range(300):
        viewer = VIEWERS[n % 6]
        if policies and n % 75 == 40:
            agent.set_policy((SquareCB(), Softmax(), PlackettLuce(), Thompson())[n // 75])
        if n % 4 == 3:
            slate: Any = agent.decide(viewer, k=4, propensity=n % 8 == 3)
            if isinstance(slate, SlateDecision):
                agent.reward_slate(slate, items=[liked(id, n) for id in slate.arms])
            continue
        among = None
        if n % 10 == 5 and not alone:  # one that nobody stored
            new = film(next(numbers), gaps)
            films[str(new.id)] = new
            among = [*list(agent.arms)[:5], new]
        made: Any = agent.decide(viewer, among, item=f"visit {n}", propensity=n % 5 == 0)
        for _ in range(6):
            if not isinstance(made, Question):
                break
            truth = allowed(films[str(made.arm)], str(viewer["band"]))
            made = agent.answer(made, truth, by="editor").then
        if isinstance(made, Decision):
            agent.reward(made.id, liked(made.arm, n))
            if made.check is not None:
                truth = allowed(films[str(made.arm)], str(viewer["band"]))
                agent.judge(made.check, truth, by="editor")
        if n % 60 == 30:
            old, new = f"f{n // 8}", film(next(numbers), gaps)
            films[str(new.id)] = new
            agent.add_arms([new])
            if not alone:
                agent.visit_arms([film(1000 + n, gaps)])
            before: Any = films[old].features
            changed = Arm(old, features={**before, "rating": "PG"}, label="changed")
            films[old] = changed
            agent.change_arms([changed])
            agent.retire_arms([f"f{n // 8 + 1}"])
        if n % 60 == 45:
            agent.restore_arms([f"f{(n - 15) // 8 + 1}"])
    agent.set_forget(100.0)
    for n in range(300, 340):
        made = agent.decide(VIEWERS[n % 6], ask=False)
        if isinstance(made, Decision):
            agent.reward(made.id, liked(made.arm, n))
    return log


LIVES: dict[str, Callable[[], list[Event]]] = {
    "scaled": scaled,
    "half_life": lambda: scaled(forget=200.0),
    "history": history,
    "catalogue": catalogue,
    "slates": lambda: catalogue(
        set_limits=SetLimits(
            at_most=[AtMost(2, feature="rating")],
            not_both=[NotBoth(feature="genres", values=("Horror", "Comedy"))],
        )
    ),
    "policies": lambda: catalogue(policies=True),
    "gaps": lambda: catalogue(gaps=True),
    "alone": lambda: catalogue(alone=True, reward="linear", prior="scaled"),
    "promise": lambda: catalogue(promise=(0.1, 0.3), limits="rules"),
}


def contexts_of(lines: list[str]) -> list[Any]:
    """Return contexts to look at an agent in."""
    return VIEWERS[:2] if "arm_features" in json.loads(lines[0])["settings"] else CONTEXTS[1:3]


def main(commit: str) -> None:
    """Write the golden logs."""
    folder = HERE / "catalogues"
    folder.mkdir()
    logs: dict[str, Any] = {}
    for name, live in LIVES.items():
        lines = [event_to_text(event) for event in live()]
        text = "".join(f"{line}\n" for line in lines)
        (folder / f"{name}.jsonl.xz").write_bytes(lzma.compress(text.encode(), preset=9))
        logs[name] = seen_in(lines, contexts_of(lines), [])
    text = json.dumps({"commit": commit, "logs": logs})
    (folder / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
