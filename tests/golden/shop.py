"""How the golden store was filled: a SQLite file with three agents, snapshots, names and tokens.

It was used once, by `write.py`. The golden tests do not import it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bridle import Agent, Flag, LearnedMask, Number, Question
from bridle.agent.events import (
    AuditBegun,
    Audited,
    Calibrated,
    CalibrationBegun,
    CalibrationDropped,
    Created,
    Event,
    RewardedLate,
)
from bridle.agent.outcomes import Decisions
from bridle.store.aggregate import keep_snapshot, load
from bridle.store.log import TokenRow
from bridle.store.maintenance import erase
from bridle.store.sqlite import SqliteStore
from bridle.store.writer import UnitOfWork, Writer

CONTEXTS = [{"child": c, "late": late} for c in (True, False) for late in (True, False)]
PATIENTS = [{"age": 20.0 + 7.3 * i, "smoker": i % 3 == 0} for i in range(10)]
TOKENS = [
    ("aaaaaaaaaaaa", "admin", None, None, None, "the first"),
    ("bbbbbbbbbbbb", "teacher", ("cinema",), 1_800_000_000.5, None, ""),
    ("cccccccccccc", "caller", ("cinema", "clinic"), None, 1_700_000_500.0, "revoked"),
]


def clock() -> Callable[[], float]:
    """Return a clock that goes on by a fixed step each time it is read."""
    times: Iterator[int] = iter(range(10**9))
    return lambda: 1_700_000_000.0 + 2.3 * next(times)


def digest(text: str) -> bytes:
    """Return what stands for a request."""
    return hashlib.sha256(text.encode()).digest()


class Shop:
    """Does one piece of work at a time on one agent of the store."""

    def __init__(self, writer: Writer, name: str, created: Created) -> None:
        self.writer, self.name = writer, name
        writer.do(name, lambda work: None, created=created)

    def do(self, work: Callable[[UnitOfWork], Any]) -> Any:
        """Do a piece of work."""
        return self.writer.do(self.name, work)

    def record(
        self, make: Callable[[UnitOfWork], Event | list[Event]], request: str | None = None
    ) -> Any:
        """Record what `make` makes; a request has a digest."""

        def work(work: UnitOfWork) -> Any:
            made = make(work)
            for event in made if isinstance(made, list) else [made]:
                work.aggregate.record(event, None if request is None else digest(request))
            return made

        return self.do(work)

    def teach(self, context: Any, arm: Any, allowed: bool, id: str | None = None) -> None:
        """Teach an example."""
        self.record(
            lambda work: work.aggregate.agent.make.taught(
                context, arm, allowed, id=id, by="Ann", at=work.now
            ),
            None if id is None else f"teach {id}",
        )

    def decide(self, context: Any, id: str | None, then: Callable[[Any], bool | None]) -> Any:
        """Decide; `then` answers questions, or gives None to let them lapse. Return what came."""

        def work(work: UnitOfWork) -> Any:
            made = work.aggregate.agent.make.decided(context, id=id, propensity=True, at=work.now)
            for event in made.events:
                work.aggregate.record(event, None if id is None else digest(f"decide {id}"))
            return made

        made = self.do(work)
        while isinstance(made, Question):
            said, question = then(made), made.id

            def answer(
                work: UnitOfWork, said: bool | None = said, question: Any = question
            ) -> None:
                make = work.aggregate.agent.make
                work.aggregate.record(
                    make.lapsed(question, at=work.now)
                    if said is None
                    else make.answered(question, said, by="Ann", at=work.now)
                )

            self.do(answer)
            decision = made.decision

            def resume(work: UnitOfWork, decision: Any = decision) -> Any:
                again = work.aggregate.agent.make.resumed(decision, at=work.now)
                for event in again.events:
                    work.aggregate.record(event)
                return again

            made = self.do(resume)
        return made

    def reward(self, id: Any, value: float) -> None:
        """Reward a decision, if it waits for a reward."""

        def work(work: UnitOfWork) -> None:
            if id in work.aggregate.state.pending:
                event = work.aggregate.agent.make.rewarded(id, value, at=work.now)
                work.aggregate.record(event, digest(f"reward {id}"))

        self.do(work)

    def judge(self) -> None:
        """Judge the oldest decision that the coin chose."""

        def work(work: UnitOfWork) -> None:
            waiting = list(work.aggregate.auditing.pending)
            if waiting:
                work.aggregate.record(
                    Audited(waiting[0], len(waiting) % 3 > 0, by="Cleo", at=work.now)
                )

        self.do(work)

    def batch(self, contexts: list[Any], names: list[str] | None) -> None:
        """Decide many at once, with ids of the caller or of the agent."""

        def work(work: UnitOfWork) -> None:
            made: Decisions = work.aggregate.agent.make.decided_many(
                contexts, ids=names, propensity=names is not None, at=work.now
            )
            work.aggregate.record_many(
                made, None if names is None else [digest(f"decide {name}") for name in names]
            )

        self.do(work)


def _allowed(context: Any, arm: Any) -> bool:
    return arm == "nature" or not context["child"]


def _context(event: Any) -> Any:
    return {"child": event.context[0] > 0, "late": event.context[1] > 0}


def cinema(writer: Writer) -> None:
    """Live with audits, a calibration, a certificate, shadows and late rewards."""
    settings = Agent(
        arms=["crime", "nature"],
        features=[Flag("child"), Flag("late")],
        limits="rules",
        seed=3,
        budget=1000,
        wait=60.0,
        default_reward=0.0,
    ).settings
    shop = Shop(writer, "cinema", Created(settings, 1_699_999_999.0))

    def lets(question: Any) -> bool | None:
        return None if question.id == 3 else _allowed(_context(question.event), question.arm)

    for n in range(10):
        context = CONTEXTS[n * 3 % 4]
        if n % 3 == 2:
            shop.teach(context, "crime", _allowed(context, "crime"), f"e{n}" if n % 2 else None)
        made = shop.decide(context, f"d{n}" if n % 2 else None, lets)
        if n % 4 != 3:
            shop.reward(made.id, n % 3 / 2)
        else:
            shop.record(lambda work, id=made.id: work.aggregate.agent.make.expired(id, at=work.now))  # type: ignore[misc]
            shop.record(lambda work, id=made.id: RewardedLate(id, 0.5, work.now))  # type: ignore[misc]
        if n == 3:
            shop.record(lambda work: AuditBegun(0.5, 0.05, 7, ((10, 0.05),), at=work.now))
        if n > 5:
            shop.judge()
    rows = Agent(arms=2, features=2).schema.encode_many([[0.0, 1.0], [1.0, 0.0]] * 12)
    shop.record(
        lambda work: CalibrationBegun(rows, 0.1, 0.1, 0.5, "the evening", by="Cleo", at=work.now)
    )

    def calibrate(work: UnitOfWork) -> bool:
        asking = work.aggregate.calibration.now
        assert asking is not None
        question = asking.question()
        if question is None:
            certificate = asking.certificate(at=work.now)
            make = work.aggregate.agent.make
            work.aggregate.record(make.certified(certificate, by="Cleo", at=work.now))
            return False
        index, arm = question
        context = {"child": rows[index][0] > 0, "late": rows[index][1] > 0}
        work.aggregate.record(Calibrated(_allowed(context, arm), by="Cleo", at=work.now))
        return True

    while shop.do(calibrate):
        pass
    for n in range(4):
        shop.decide(CONTEXTS[n], f"certified-{n}", lets)
    shop.record(lambda work: work.aggregate.agent.make.uncertified(by="Cleo", at=work.now))
    shop.record(lambda work: CalibrationBegun(rows, 0.2, 0.1, 0.5, "the morning", at=work.now))
    shop.record(lambda work: Calibrated(True, at=work.now))
    shop.record(lambda work: CalibrationDropped(by="Cleo", at=work.now))
    shop.record(lambda work: CalibrationBegun(rows[:23], 0.2, 0.1, 0.5, "open", at=work.now))
    shop.record(lambda work: Calibrated(True, at=work.now))
    shop.batch(CONTEXTS, None)
    shop.batch(CONTEXTS[:3], ["x1", "x2", "x3"])
    for context in CONTEXTS:

        def shadow(work: UnitOfWork, context: Any = context) -> list[Event]:
            make = work.aggregate.agent.make
            made = make.decided(context, ask=False, at=work.now)
            return [*made.events, make.shadowed(made, "crime", at=work.now)]

        shop.record(shadow)
    shop.record(
        lambda work: work.aggregate.agent.make.wait_changed(90.0, 0.5, by="Dan", at=work.now)
    )
    shop.judge()


def clinic(writer: Writer) -> None:
    """Live by limits that are mixed, with numbers, playing safe when in doubt."""
    settings = Agent(
        arms=["strong", "weak"],
        features=[Number("age", 0, 100), Flag("smoker")],
        seed=4,
        budget=6,
        on_doubt="play_safe",
        on_empty="safe_arm",
        safe_arm="weak",
        patience=3,
        policy=LearnedMask(sigma=0.8, v=0.1),
    ).settings
    shop = Shop(writer, "clinic", Created(settings, 1_699_999_999.0))
    for n in range(12):
        context = PATIENTS[n * 3 % 10]
        if n < 7:
            arm = ["strong", "weak"][n % 2]
            shop.teach(context, arm, arm == "weak" or context["age"] < 55)
        made = shop.decide(context, f"visit-{n}" if n % 3 == 0 else None, lambda question: True)
        if n % 4:
            shop.reward(made.id, n % 5 / 4)


def write_store(path: Path) -> None:
    """Write the golden store."""
    store = SqliteStore(path)
    writer = Writer(store, clock=clock())
    cinema(writer)
    clinic(writer)
    writer.close()
    keep_snapshot(store, "cinema", load(store, "cinema", 8))
    middle = load(store, "cinema").head.seq // 2
    with store.transaction() as transaction:
        transaction.fork("cinema", middle, "cinema-fork", 1_700_000_400.0)
        for id, role, agents, expires, revoked, note in TOKENS:
            row = TokenRow(id, digest(id), role, agents, 1_700_000_300.0, expires, None, note)
            transaction.add_token(row)
            if revoked is not None:
                transaction.revoke_token(id, revoked)
    erase(
        store,
        "cinema",
        decisions=["d5"],
        examples=["e5"],
        by="Dan",
        note="as asked",
        at=1_700_000_600.0,
    )
    writer = Writer(store, clock=lambda: 1_700_000_700.0)
    shop = Shop.__new__(Shop)
    shop.writer, shop.name = writer, "cinema"
    for n in range(5):
        made = shop.decide(CONTEXTS[n % 4], f"after-{n}", lambda question: question.arm == "nature")
        shop.reward(made.id, 1.0 - n / 4)
    writer.close()
    for agent in ("cinema", "clinic", "cinema-fork"):
        kept = load(store, agent)
        if agent == "cinema":
            keep_snapshot(store, agent, load(store, agent, kept.head.seq - 4))
        keep_snapshot(store, agent, kept if agent != "clinic" else load(store, agent, 20))
    store.close()
