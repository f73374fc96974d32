"""The script that wrote `form3/store.db.xz`: a SQLite store of the third form, with snapshots.

    PYTHONPATH=src:. python -m tests.golden.later_store COMMIT

It was run once, at commit c6233bd, and writes `form3/store.db.xz`, `form3/store.json` (what the
code saw in it) and `form3/NAME-VERSION.xz` (agents as `Agent.save` wrote them). As with `write.py`:
NEVER run it again to repair a failing test. The golden tests do not import it.

"salon" begins with the golden log "checks", and goes on with all that a log of the third form can
hold beside it; "studio" is the beginning of the golden log "promise_teachers".
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bridle import Agent, Arm, Rule, When
from bridle.agent.events import (
    AuditBegun,
    Audited,
    Calibrated,
    CalibrationBegun,
    CalibrationDropped,
    Event,
    RewardedLate,
    event_to_text,
)
from bridle.store.aggregate import event_of, keep_snapshot, load
from bridle.store.idempotency import names_of
from bridle.store.log import Name, New
from bridle.store.maintenance import erase, replay, verify
from bridle.store.sqlite import SqliteStore
from bridle.store.writer import UnitOfWork, Writer
from tests.golden import seeing
from tests.golden.seeing import HERE
from tests.golden.shop import Shop, clock

FOLDER = HERE / "form3"
CONTEXTS = [{"comedy": bool(n & 1), "horror": bool(n & 2), "late": bool(n & 4)} for n in range(8)]
MOST = 160  # events of "promise_teachers"
NOW = 1_700_000_900.0


def begin(store: SqliteStore, name: str, log: list[Event]) -> None:
    """Write a log that was lived without a store."""
    agent = Agent.replay(log[:1]).agent
    entries = [New("Created", event_to_text(log[0]).encode())]
    for event in log[1:]:
        names = tuple(Name(*name) for name in names_of(event, agent._state))
        entries.append(New(type(event).__name__, event_to_text(event).encode(), names))
        agent.apply(event)
    with store.transaction() as transaction:
        transaction.create(name, NOW)
        transaction.lock([name])
        transaction.append(name, entries)


def allowed(context: dict[str, bool], arm: Any) -> bool:
    """Return what is so."""
    return arm == "eve" or not context["horror"]


def context_of(row: Any) -> dict[str, bool]:
    """Return a context by its row."""
    return {name: bool(row[n] > 0) for n, name in enumerate(("comedy", "horror", "late"))}


def lets(question: Any) -> bool | None:
    """Return the answer to a question; a few lapse."""
    return None if question.id % 5 == 0 else allowed(context_of(question.context), question.arm)


def change(shop: Shop) -> None:
    """Change all that can be changed of an agent."""

    def make(name: str, *args: Any, **more: Any) -> None:
        shop.record(
            lambda work: getattr(work.aggregate.agent.make, name)(
                *args, by="Dan", note="as asked", at=work.now, **more
            )
        )

    make("sigma_changed", 0.4)
    make("wait_changed", 60.0, 0.5)
    rule = Rule("no late horror", when=(When("late", equals=True),), groups=("young",))
    make("rule_declared", rule)
    shop.decide(CONTEXTS[4], "under-a-rule", lets)
    make("rule_withdrawn", "no late horror")
    make("arms_added", [Arm("zoe", group="old")])
    make("regrouped", {"zoe": "young"})
    make("promised", 0.2, 0.4)
    for n in range(6):
        shop.decide(CONTEXTS[n], f"promised-{n}", lets)
    make("promise_dropped")
    make("started_anew", "the audience has changed")


def calibrate(shop: Shop) -> None:
    """Certify the limits, play by the certificate, drop it, and leave a calibration open."""
    rows = np.array([[n & 1, n >> 1 & 1, n >> 2 & 1] for n in range(8)] * 4, np.float64)
    begun = CalibrationBegun(rows, 0.2, 0.2, 0.5, "the evening", by="Cleo", at=NOW)
    shop.record(lambda work: begun)

    def answer(work: UnitOfWork) -> bool:
        aggregate = work.aggregate
        asking = aggregate.calibration.now
        assert asking is not None
        question = asking.question()
        if question is None:
            certificate = asking.certificate(at=work.now)
            make = aggregate.agent.make
            aggregate.record(make.certified(certificate, by="Cleo", at=work.now))
            return False
        index, arm = question
        said = allowed(context_of(rows[index]), arm)
        aggregate.record(Calibrated(said, by="Cleo", at=work.now))
        return True

    while shop.do(answer):
        pass
    for n in range(4):
        shop.decide(CONTEXTS[n], f"certified-{n}", lets)
    shop.record(lambda work: work.aggregate.agent.make.uncertified(by="Cleo", at=work.now))
    shop.record(lambda work: begun)
    shop.record(lambda work: CalibrationDropped(by="Cleo", at=work.now))
    shop.record(lambda work: begun)
    shop.record(lambda work: Calibrated(True, at=work.now))


def go_on(shop: Shop) -> None:
    """Go on with audits, shadows, rewards that come late, batches and lessons."""
    shop.record(lambda work: AuditBegun(0.5, 0.05, 7, ((10, 0.05),), at=work.now))
    for n in range(10):
        made = shop.decide(CONTEXTS[n % 8], f"audited-{n}", lets)
        if n % 3 == 0 and made.id in shop.do(lambda work: list(work.aggregate.state.pending)):
            shop.record(lambda work, id=made.id: work.aggregate.agent.make.expired(id, at=work.now))  # type: ignore[misc]
            shop.record(lambda work, id=made.id: RewardedLate(id, 0.5, work.now))  # type: ignore[misc]
        else:
            shop.reward(made.id, n % 3 / 2)
        waiting = shop.do(lambda work: list(work.aggregate.auditing.pending))
        if waiting and n % 2:
            shop.record(
                lambda work, id=waiting[0]: Audited(id, id != "audited-1", by="Cleo", at=work.now)  # type: ignore[misc]
            )
    shop.batch(CONTEXTS, None)
    shop.batch(CONTEXTS[:3], ["x1", "x2", "x3"])
    shop.record(lambda work: work.aggregate.agent.make.learned([CONTEXTS[3]], ["eve"], [0.75]))
    for context in CONTEXTS[:4]:

        def shadow(work: UnitOfWork, context: Any = context) -> list[Event]:
            make = work.aggregate.agent.make
            made = make.decided(context, ask=False, at=work.now)
            return [*made.events, make.shadowed(made, "ann", at=work.now)]

        shop.record(shadow)
    shop.teach(CONTEXTS[2], "ann", False, "told")
    shop.teach(CONTEXTS[3], "eve", True, "gone")


def write(path: Path) -> None:
    """Write the store."""
    store = SqliteStore(path)
    lines = (FOLDER / "checks.jsonl").read_text().splitlines()
    begin(store, "salon", seeing.events_of(lines))
    lines = (FOLDER / "promise_teachers.jsonl").read_text().splitlines()
    begin(store, "studio", seeing.events_of(lines[:MOST]))
    keep_snapshot(store, "salon", load(store, "salon", 100))
    shop = Shop.__new__(Shop)
    shop.writer, shop.name = Writer(store, clock=clock()), "salon"
    change(shop)
    go_on(shop)
    calibrate(shop)
    shop.writer.close(snapshots=False)
    erase(store, "salon", decisions=["audited-4"], examples=["gone"], by="Dan", at=NOW)
    with store.transaction() as transaction:
        transaction.fork("salon", 120, "salon-fork", NOW)
        transaction.lock(["salon"])
    shop.writer = Writer(store, clock=clock())
    for n in range(3):
        made = shop.decide(CONTEXTS[n], f"after-{n}", lets)
        shop.reward(made.id, 0.5)
    shop.writer.close(snapshots=False)
    for name in ("salon", "studio"):
        whole = load(store, name)
        keep_snapshot(store, name, load(store, name, whole.head.seq - 20))
    store.close()


def seen(store: SqliteStore) -> dict[str, Any]:
    """Return what the code sees in the store."""
    agents = {}
    for row in store.agents():
        name, until = row.name, row.head.seq
        found, again = verify(store, name), replay(store, name)
        assert not found.problems, found
        entries = store.read(name, 0, until)
        at = store.snapshots(name)
        agents[name] = {
            "head": str(row.head),
            "kinds": [entry.kind for entry in entries],
            "erased": [entry.seq for entry in entries if entry.payload is None],
            "names": sum(map(len, store.names(name, 0, until).values())),
            "choices": again.choices,
            "same": again.same,
            "unchecked": again.unchecked,
            "snapshots": at,
            "at": {str(seq): seeing.kept_of(load(store, name, seq)) for seq in (*at, until)},
        }
        assert event_of(entries[0]) is not None
    return agents


def main(commit: str) -> None:
    """Write the store, what is seen in it, and its agents as saved."""
    path = FOLDER / "store.db"
    write(path)
    (FOLDER / "store.db.xz").write_bytes(lzma.compress(path.read_bytes(), preset=9))
    store = SqliteStore(path)
    agents = seen(store)
    for name in ("salon", "studio"):
        with tempfile.TemporaryDirectory() as scratch:
            agent = load(store, name).agent
            agent.save(Path(scratch) / "agent")
            blob = (Path(scratch) / "agent").read_bytes()
        (FOLDER / f"{name}-{agent.version}.xz").write_bytes(lzma.compress(blob, preset=9))
        agents[name]["saved"] = agent.version
        agents[name]["state"] = seeing.state_of(agent)
    store.close()
    path.unlink()
    text = json.dumps({"commit": commit, "agents": agents})
    (FOLDER / "store.json").write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
