"""The script that wrote the golden logs of later forms, each once, by the code of its time.

    PYTHONPATH=src:. python -m tests.golden.later FORM COMMIT

It writes `formFORM/NAME.jsonl` and `formFORM/expected.json`, what the code saw in them. As with
`write.py`: NEVER run it again to repair a failing test.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from bridle import Agent, Arm, Decision, Flag, Question
from bridle.agent.events import Event, event_to_text
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


def main(form: int, commit: str) -> None:
    """Write the golden logs of a form."""
    folder = HERE / f"form{form}"
    folder.mkdir()
    lives: dict[str, list[Event]] = {}
    for name in AGAIN:
        for life in LIVES[name]():
            last = life
        lives[name] = last.log
    if form >= 3:
        lives |= {name: make() for name, make in _third().items()}
    logs: dict[str, Any] = {}
    for name, log in lives.items():
        lines = [event_to_text(event) for event in log]
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
        own = name not in AGAIN
        contexts = CONTEXTS[1:3] if own else _contexts(name)
        logs[name] = seen_in(lines, contexts, [])
    text = json.dumps({"commit": commit, "form": form, "logs": logs})
    (folder / "expected.json").write_text(text + "\n")


def _contexts(name: str) -> list[Any]:
    for life in LIVES[name]():
        contexts = life.contexts
    return list(json.loads(json.dumps(contexts[:: max(1, len(contexts) // 2)][:2])))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
