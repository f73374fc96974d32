"""The script that wrote the golden logs of later forms, each once, by the code of its time.

    PYTHONPATH=src:. python -m tests.golden.later FORM COMMIT

FORM is 2, 3, or "3-features" for agents of form 3 whose arms have features. It writes
`formFORM/NAME.jsonl` and `formFORM/expected.json`, what the code saw in them. As with `write.py`:
NEVER run it again to repair a failing test.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

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
    Thompson,
    When,
)
from bridle.agent.events import Event, event_to_text
from bridle.agent.outcomes import Abstention, SlateDecision
from tests.golden.agents import LIVES
from tests.golden.seeing import HERE
from tests.golden.write import seen_in

FEATURES = [Flag("comedy"), Flag("horror"), Flag("late")]
ARMS = [Arm("ann", group="young"), Arm("bob", group="young"), Arm("eve", group="old")]
CONTEXTS = [{"comedy": bool(n & 1), "horror": bool(n & 2), "late": bool(n & 4)} for n in range(8)]
# Lives of the first form that are lived again, with the defaults of the later one: such as have
# the same bits with and without AVX-512 (see `seeing.py`).
AGAIN = ("numbers", "rules", "logistic", "found")


def allowed(context: dict[str, bool], arm: str, item: str, strict: bool) -> bool:
    """Return what is so: no horror for the young, an exception, and later no comedy for anybody."""
    if item == "item 3" or (strict and context["comedy"]):
        return False
    return arm == "eve" or not context["horror"]


def live(late: bool = False, **settings: Any) -> list[Event]:
    """Live a life with items, questions, checks, lives of answers and limits that change.

    `late`: half of the checks are never judged, and the oldest are dropped.
    """
    log: list[Event] = []
    agent = Agent(arms=ARMS, features=FEATURES, seed=11, budget=400, sink=log.extend, **settings)
    names = [teacher.name for teacher in agent.settings.teachers]
    for n in range(160):
        now = 1_700_000_000.0 + n
        context, item, strict = CONTEXTS[n * 3 % 8], f"item {n * 3 % 8 + 8 * (n % 3)}", n >= 100
        made: Any = agent.decide(context, item=item, propensity=True, at=now)
        for _ in range(6):
            if not isinstance(made, Question):
                break
            whom = agent.whom(made) if names else None
            by = "Ann" if whom is None else whom.teacher
            if names and whom is None:
                made = agent.skip(made, at=now)
                break
            truth = allowed(context, made.arm, item, strict)
            made = agent.answer(made, truth != (by == "model" and n % 7 == 0), by=by, at=now).then
        if isinstance(made, Decision):
            if n % 5 != 4:
                agent.reward(made.id, 0.25 + 0.5 * (n % 3 == 0), at=now)
            if made.check is not None and (n % 2 if late else n % 9 != 8):
                truth = allowed(context, str(made.arm), item, strict)
                agent.judge(made.check, truth, by=names[0] if names else "Ann", at=now)
        if n % 40 == 20:
            arm = ("ann", "eve")[n % 80 == 20]
            truth = allowed(context, arm, f"more {n}", strict)
            by = names[0] if names else "Bea"
            more: dict[str, Any] = {"scope": "item", "until": now + 30.0}
            agent.teach(context, arm, truth, item=f"more {n}", by=by, at=now, **more)
            agent.end_examples(now)
    if agent.fresh_start is not None:
        agent.start_anew("limits have changed", by="Ann", at=1_700_001_000.0)
    return log


def _third() -> dict[str, Callable[[], list[Event]]]:
    from bridle.agent.teachers import Teacher

    staff = [Teacher("editor", error=0.01), Teacher("model", price=0.05)]
    return {
        "checks": lambda: live(),
        "promise": lambda: live(promise=(0.05, 0.3)),
        "teachers": lambda: live(teachers=staff),
        "late": lambda: live(late=True, promise=(0.2, 0.5), max_pending=10),
        "promise_teachers": lambda: live(promise=(0.1, 0.5), teachers=staff),
    }


AGES = ["child", "teen", "adult"]
VIEWERS = [Category("viewer", AGES), Flag("late")]
FILMS = [Labels("genres", ["Comedy", "Drama", "Horror"]), Number("year", low=1980, high=2030)]
EVENINGS = [{"viewer": one, "late": late} for one in AGES for late in (False, True)]


def film(n: int, year: int | None = None) -> Arm:
    """Return a film; the same features come again."""
    genres = [one for i, one in enumerate(("Comedy", "Drama", "Horror")) if n >> i & 1]
    features = {"genres": genres, "year": 1980 + n * 7 % 51 if year is None else year}
    return Arm(f"film {n}", features=features)


def with_features(**settings: Any) -> list[Event]:
    """Live a life with a catalogue: slates, films that come, change, go and come back, visitors."""
    log: list[Event] = []
    agent = Agent(
        arms=[film(n) for n in range(24)],
        features=VIEWERS,
        arm_features=FILMS,
        seed=2**63 + 5,
        budget=200,
        sink=log.extend,
        **settings,
    )
    at = 1_700_000_000.0

    def fine(context: dict[str, Any], arm: Any) -> bool:
        number = int(str(arm).split()[1])
        return context["viewer"] == "adult" or not number >> 2 & 1 or number == 5

    def worth(context: dict[str, Any], arm: Any) -> float:
        number = int(str(arm).split()[1])
        return (2 * (number & 1) + int(context["late"]) * (number >> 1 & 1) + number % 5) / 7

    def one(n: int, context: dict[str, Any], among: Any = None) -> None:
        asked: dict[str, Any] = {} if among is None else {"among": among}
        made: Any = agent.decide(context, propensity=n % 8 == 0, at=at + n, **asked)
        for _ in range(4):
            if not isinstance(made, Question):
                break
            made = agent.answer(made, fine(context, made.arm), by="Ann", at=at + n).then
        if isinstance(made, Decision):
            if n % 7 != 5:
                agent.reward(made.id, worth(context, made.arm), at=at + n)
            if made.check is not None:
                agent.judge(made.check, fine(context, made.arm), by="Bea", at=at + n)

    def slate(n: int, context: dict[str, Any]) -> None:
        shown: Any = agent.decide(context, k=3, at=at + n)
        if isinstance(shown, SlateDecision) and shown.question is not None:
            agent.answer(shown.question, fine(context, shown.question.arm), by="Ann", at=at + n)
        if isinstance(shown, Abstention) or not shown.arms:
            return
        if n % 2:
            agent.reward_slate(shown, items=[worth(context, arm) for arm in shown.arms], at=at + n)
        else:
            agent.reward_slate(shown, value=sum(worth(context, arm) for arm in shown.arms))

    for n in range(16):
        context = EVENINGS[n % 6]
        arm = f"film {n * 5 % 24}"
        agent.teach(context, arm, fine(context, arm), by="Ann", at=at)
    agent.learn(EVENINGS[:4], [f"film {n}" for n in (1, 2, 3, 7)], [0.1, 0.9, 1 / 3, 0.7], at=at)
    for n in range(105):
        context = EVENINGS[n * 5 % 6]
        if n % 3 == 2:
            slate(n, context)
        elif n % 10 == 4:
            one(n, context, ["film 3", "film 8", film(33 + n % 2)])
        else:
            one(n, context)
        if n == 20:
            agent.add_arms([film(40), film(41)], by="Dan", at=at + n)
        if n == 35:
            agent.change_arms([film(3, year=1999), film(7, year=2001)], by="Dan", at=at + n)
        if n == 50:
            agent.retire_arms(["film 1", "film 9", "film 3"], by="Dan", at=at + n)
        if n == 60:
            agent.visit_arms([film(38)], at=at + n)
            agent.teach({"viewer": "child", "late": False}, "film 38", False, by="Ann", at=at + n)
        if n == 70:
            agent.restore_arms(["film 3"], by="Dan", at=at + n)
            agent.declare(Rule("law", when=[When(arm="genres", has="Horror")]), by="Dan")
            agent.withdraw("law", by="Dan")
        if n == 80:
            agent.set_policy(Thompson(v=0.5), by="Dan", at=at + n)
            agent.retract(agent.examples[0].id, by="Ann", at=at + n)
        if n == 90:
            agent.set_policy(LearnedMask(), by="Dan", at=at + n)
            agent.change_arms([film(3, year=2020)], by="Dan", at=at + n)
    return log


def _with_features() -> dict[str, Callable[[], list[Event]]]:
    return {
        "films": with_features,
        "logistic": lambda: with_features(limits="logistic", interactions="none"),
        "steady": lambda: with_features(limits="rules", prior="centred"),
    }


def main(form: str, commit: str) -> None:
    """Write the golden logs of a form."""
    folder = HERE / f"form{form}"
    folder.mkdir()
    lives: dict[str, list[Event]] = {}
    featured = form == "3-features"
    for name in () if featured else AGAIN:
        for life in LIVES[name]():
            last = life
        lives[name] = last.log
    if form == "3":
        lives |= {name: make() for name, make in _third().items()}
    if featured:
        lives |= {name: make() for name, make in _with_features().items()}
    logs: dict[str, Any] = {}
    for name, log in lives.items():
        lines = [event_to_text(event) for event in log]
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        own = featured or name not in AGAIN
        mine = EVENINGS[1:3] if featured else CONTEXTS[1:3]
        contexts = mine if own else _contexts(name)
        logs[name] = seen_in(lines, contexts, [])
    text = json.dumps({"commit": commit, "form": int(form[0]), "logs": logs})
    (folder / "expected.json").write_text(text + "\n")


def _contexts(name: str) -> list[Any]:
    for life in LIVES[name]():
        contexts = life.contexts
    return list(json.loads(json.dumps(contexts[:: max(1, len(contexts) // 2)][:2])))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
