"""Disks that fail: a write, a sync, a truncation or a removal, once or until somebody mends them.

While the disk is broken nothing is acknowledged: the store says that it failed, the service answers
503. When it works again, so do they, without a restart. Afterwards the power goes, so that only
what was synced is left: all that was acknowledged is there, and nothing of which the store was sure
that it was not kept.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from bridle.errors import StoreFailed
from bridle.store.aggregate import load
from bridle.store.log import Entry
from bridle.store.maintenance import verify
from bridle.store.sqlite import SqliteStore
from bridle.store.writer import Writer
from faults.losing_disk import LosingDisk, expected_failures
from faults.power import SmallStore, step
from tests.store.lives import created, state

KINDS = ("write", "sync", "truncate", "delete", "any")
ERRORS: dict[str, type[Exception]] = {"broken": apsw.IOError, "full": apsw.FullError}
BEFORE_AND_AFTER = 6  # pieces of work
_PATH = Path("/nowhere/logs.db")


@expected_failures()
def disk(
    *,
    faults: int,
    requests: int = 20,
    seed: int = 1,
    tick: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Let so many operations fail under a writer, and some more under a service.

    Parameters
    ----------
    faults : int
        Of all kinds, at the 1st, 2nd, 3rd … operation of their kind.
    requests : int
        How many of them under a service that answers requests.
    """
    rng = random.Random(f"{seed} disk")
    total = _Total()
    kinds = itertools.cycle(
        (kind, error, lasting, checkpoints)
        for kind, error, lasting, checkpoints in itertools.product(
            KINDS, ERRORS, (True, False), (True, False)
        )
        # Without checkpoints nothing is cut or removed.
        if checkpoints or kind not in ("truncate", "delete")
    )
    for number in range(faults - requests):
        kind, error, lasting, checkpoints = next(kinds)
        fault = _Fault(kind, 1 + number // 30 % 40, ERRORS[error], lasting, checkpoints)
        _one(total, rng, fault)
        if tick is not None:
            tick(number + 1, faults, f"{total.acknowledged:,} events acknowledged")
    for number in range(requests):
        kind = ("write", "sync", "any")[number % 3]
        error = ("broken", "full")[number // 3 % 2]
        _served(total, _Fault(kind, 1 + number // 6, ERRORS[error], True, True))
        if tick is not None:
            tick(faults - requests + number + 1, faults, "requests")
    return vars(total)


class _Total:
    def __init__(self) -> None:
        self.faults = 0  # that were met
        self.not_met = 0  # the operation did not come so often
        self.acknowledged = 0
        self.false_acks = 0
        self.false_refusals = 0  # there, although the store was sure that it was not
        self.not_503 = 0
        self.not_mended = 0
        self.examples: list[str] = []

    def say(self, text: str) -> None:
        if len(self.examples) < 20:
            self.examples.append(text[:500])


class _Fault:
    """The Nth operation of a kind fails, and with `lasting` all after it, until it is mended."""

    def __init__(
        self, kind: str, nth: int, error: type[Exception], lasting: bool, checkpoints: bool
    ) -> None:
        self.kind, self.nth, self.error, self.lasting = kind, nth, error, lasting
        self.checkpoints = checkpoints  # whether they come all the time, or never
        self.seen = 0
        self.met = False
        self.mended = False

    def __call__(self, operation: str, file: str) -> type[Exception] | None:
        if self.mended or self.kind not in ("any", operation):
            return None
        self.seen += 1
        if self.seen == self.nth or (self.lasting and self.seen > self.nth):
            self.met = True
            return self.error
        return None

    def __str__(self) -> str:
        how = "lasting" if self.lasting else "once"
        return f"{self.error.__name__} at {self.kind} {self.nth}, {how}"


def _one(total: _Total, rng: random.Random, fault: _Fault) -> None:
    """Work before, during and after a fault; cut the power; look what is there."""
    losing = LosingDisk()
    store = _open(losing, fault.checkpoints)
    writer = Writer(store, clock=lambda: 1.0)
    writer.do("movies", lambda unit_of_work: None, created=created(budget=20))
    acknowledged: dict[int, str] = {}
    refused: set[str] = set()
    ids = (f"d{n}" for n in itertools.count(1))

    def work() -> bool:
        id = next(ids)
        try:
            # A decision each time, so that what was refused can be looked for by its id.
            done = writer.do("movies", partial(step, choice=rng.random() * 0.6, id=id))
        except StoreFailed as error:
            if not error.unknown:
                refused.add(id)
            return False
        acknowledged.update(done)
        return True

    for _ in range(BEFORE_AND_AFTER):
        work()
    losing.broken = fault
    for _ in range(BEFORE_AND_AFTER + 2 * fault.nth):
        work()
        if fault.checkpoints and fault.kind in ("truncate", "delete", "any") and rng.random() < 0.2:
            # With the last connection a log is cut and removed.
            store._discard_writer()
    fault.mended = True
    worked = [work() for _ in range(BEFORE_AND_AFTER)]
    if not all(worked):
        total.not_mended += 1
        total.say(f"{fault}: it does not work again")
    if fault.met:
        total.faults += 1
    else:
        total.not_met += 1
    total.acknowledged += len(acknowledged)
    losing.dark = True
    writer.close(snapshots=False)
    store.close()
    losing.power_on(rng)
    _look(total, losing, fault, acknowledged, refused)


def _look(
    total: _Total,
    losing: LosingDisk,
    fault: _Fault,
    acknowledged: dict[int, str],
    refused: set[str],
) -> None:
    store = _open(losing)
    entries: list[Entry] = []
    while page := store.read("movies", len(entries)):
        entries += page
    there = {entry.seq: (entry.payload or b"").decode() for entry in entries}
    wrong = [seq for seq, text in acknowledged.items() if there.get(seq) != text]
    total.false_acks += len(wrong)
    if wrong:
        total.say(f"{fault}: {len(wrong)} acknowledged events are not there, from {wrong[0]}")
    if fault.checkpoints:
        # SQLite passes over what fails while it checkpoints after a commit. What was raised in
        # Python comes out of apsw all the same, and then stands for a commit that was made.
        refused = set()
    found = store.find("movies", "decision", sorted(refused))
    total.false_refusals += len(found)
    if found:
        total.say(f"{fault}: {sorted(found)} were refused for sure, and are there")
    problems = verify(store, "movies").problems
    if problems or state(load(store, "movies")) != state(load(store, "movies", snapshots=False)):
        total.false_acks += 1
        total.say(f"{fault}: the log is not whole: {problems[:3]}")
    store.close()


def _served(total: _Total, fault: _Fault) -> None:
    """Break the disk under a service: 503 until it is mended, and then it goes on."""
    from tests.server.driving import Server

    losing = LosingDisk()
    body: dict[str, Any] = {"context": [1.0, 0.5]}
    agent = {"name": "movies", "agent": {"arms": ["crime", "nature"], "features": 2, "seed": 3}}
    path, acknowledged = "/v1/agents/movies/decisions", []
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder), store=_open(losing))
        try:
            assert server.call("POST", "/v1/agents", agent).status == 201
            losing.broken = fault
            for number in range(4):
                answer = server.call("POST", path, body | {"id": f"d{number}"})
                if answer.status == 200:
                    acknowledged.append(f"d{number}")
                elif (answer.status, answer.code) != (503, "store_failed"):
                    total.not_503 += 1
                    total.say(f"{fault}: {answer.status} {answer.body!r}")
            if fault.met and fault.kind == "any" and server.call("GET", "/readyz").status != 503:
                total.not_503 += 1
                total.say(f"{fault}: it says that it is ready")
            fault.mended = True
            # The same ids again: those that are there already are answered as they stand.
            for number in range(6):
                answer = server.call("POST", path, body | {"id": f"d{number}"})
                if answer.status == 200:
                    acknowledged.append(f"d{number}")
            if len(set(acknowledged)) != 6 or server.call("GET", "/readyz").status != 200:
                total.not_mended += 1
                total.say(f"{fault}: the service does not work again")
            losing.dark = True
        finally:
            server.close()
    losing.power_on(random.Random(1))
    store = _open(losing)
    missing = set(acknowledged) - store.find("movies", "decision", acknowledged).keys()
    store.close()
    total.faults += fault.met
    total.not_met += not fault.met
    total.acknowledged += len(set(acknowledged))
    total.false_acks += len(missing)
    if missing:
        total.say(f"{fault}: {sorted(missing)} are not there")


def _open(losing: LosingDisk, checkpoints: bool = True) -> SqliteStore:
    kind = SmallStore if checkpoints else SqliteStore
    return kind(_PATH, library="apsw", vfs=losing.name, wait=0.0)
