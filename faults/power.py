"""Power cuts: what was acknowledged is there afterwards, and what is there is whole.

With `synchronous=NORMAL` SQLite does not wait for the disk when it commits. The same test must lose
events then, or it proves nothing.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bridle.errors import BridleError, CorruptState, StoreFailed
from bridle.store.aggregate import load
from bridle.store.maintenance import replay, verify
from bridle.store.sql import Connection, SqlError
from bridle.store.sqlite import SqliteStore, Synchronous
from bridle.store.writer import UnitOfWork, Work, Writer
from faults.losing_disk import LosingDisk, expected_failures
from tests.store.lives import CONTEXTS, created, state

CUTS_A_DISK = 25
# In operations on the disk: a commit is a few of them.
LONGEST_LIFE = 120
_PATH = Path("/nowhere/logs.db")


class SmallStore(SqliteStore):
    """A store that checkpoints all the time: there, most can go wrong."""

    def _connect(self) -> Connection:
        connection = super()._connect()
        connection.execute("PRAGMA wal_autocheckpoint = 12")
        return connection


@expected_failures()
def power(
    *,
    cuts: int,
    synchronous: Synchronous = "FULL",
    seed: int = 1,
    tick: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Cut the power so often, each time at a random operation on the disk; look what is left."""
    rng = random.Random(f"{seed} {synchronous}")
    total = {"cuts": 0, "acknowledged": 0, "lost": 0, "corrupt": 0}
    examples: list[str] = []
    while total["cuts"] < cuts:
        life = _Life(rng, synchronous)
        for _ in range(min(CUTS_A_DISK, cuts - total["cuts"])):
            life.until_cut()
            total["cuts"] += 1
            total["acknowledged"] += life.told
            lost, damage = life.predict()
            total["lost"] += lost
            total["corrupt"] += damage is not None
            if (damage is not None or (lost and synchronous == "FULL")) and len(examples) < 20:
                examples.append(f"cut {total['cuts']}: {lost} lost; {damage}")
            if tick is not None:
                tick(total["cuts"], cuts, f"{total['acknowledged']:,} events acknowledged")
            if damage is not None:
                break
    return total | {"examples": examples}


class _Life:
    """One disk, and the store on it, through many cuts."""

    def __init__(self, rng: random.Random, synchronous: Synchronous) -> None:
        self._rng = rng
        self._synchronous = synchronous
        self.disk = LosingDisk()
        self._ids = itertools.count(1)
        self._acknowledged: dict[int, str] = {}  # what stands at a sequence
        self.told = 0  # since the last cut

    def until_cut(self) -> None:
        """Work until the power goes."""
        rng = self._rng
        self.told = 0
        self.disk.cut_at = self.disk.operations + rng.randint(1, LONGEST_LIFE)
        while not self.disk.dark:
            # Sometimes it is closed and opened again: that is another moment to be cut at.
            with_close = rng.random() < 0.3
            self._work(rng.randint(1, 30) if with_close else 10_000)

    def _work(self, rounds: int) -> None:
        writer: Writer | None = None
        store: SmallStore | None = None
        try:
            store = self._open()
            writer = Writer(store, clock=lambda: 1.0)
            if store.head("movies") is None:
                writer.do("movies", lambda unit_of_work: None, created=created(budget=20))
            for _ in range(rounds):
                if self.disk.dark:
                    break
                self._together(writer)
        except StoreFailed:
            assert self.disk.dark
        finally:
            if writer is not None:
                writer.close(snapshots=self._rng.random() < 0.5)
            if store is not None:
                store.close()

    def _together(self, writer: Writer) -> None:
        """Hand in a few pieces of work, and note what is acknowledged: they may share a commit."""
        begun, go_on = threading.Event(), threading.Event()

        def hold(unit_of_work: UnitOfWork) -> None:
            begun.set()
            go_on.wait()

        # While the writer is held up the others gather, so that each run has the same groups.
        held = writer.submit("movies", hold)
        if not _started(begun, held):
            return
        works: list[Work[list[tuple[int, str]]]] = [
            writer.submit(
                "movies", partial(step, choice=self._rng.random(), id=f"d{next(self._ids)}")
            )
            for _ in range(self._rng.randint(1, 4))
        ]
        go_on.set()
        for work in works:
            try:
                done = work.result.result()
            except StoreFailed:
                assert self.disk.dark
                continue
            self._acknowledged |= dict(done)
            self.told += len(done)

    def predict(self) -> tuple[int, str | None]:
        """Switch the power on, and say how much was lost and what is damaged."""
        self.disk.power_on(self._rng)
        try:
            store = self._open()
        except BridleError as error:
            return len(self._acknowledged), f"it does not open: {error}"
        try:
            return self._compare(store)
        except (CorruptState, StoreFailed, SqlError) as error:
            return len(self._acknowledged), f"it cannot be read: {error}"
        finally:
            store.close()

    def _compare(self, store: SmallStore) -> tuple[int, str | None]:
        whole = store._connect()
        try:
            rows = whole.execute("PRAGMA integrity_check")
        finally:
            whole.close()
        if rows != [("ok",)]:
            return 0, f"integrity_check says {rows[:3]}"
        if store.head("movies") is None:
            lost, self._acknowledged = len(self._acknowledged), {}
            return lost, None
        problems = verify(store, "movies").problems
        if problems:
            return 0, str(problems[:3])
        there: dict[int, str] = {}
        while page := store.read("movies", len(there)):
            there |= {entry.seq: (entry.payload or b"").decode() for entry in page}
        told = self._acknowledged
        lost = sum(there.get(seq) != payload for seq, payload in told.items())
        self._acknowledged = {seq: text for seq, text in told.items() if there.get(seq) == text}
        if state(load(store, "movies")) != state(load(store, "movies", snapshots=False)):
            return lost, "a snapshot is not the fold"
        if self._rng.random() < 0.05:
            replayed = replay(store, "movies")
            if replayed.same != replayed.choices:
                return lost, f"the replay differs: {replayed}"
        return lost, None

    def _open(self) -> SmallStore:
        return SmallStore(
            _PATH, library="apsw", vfs=self.disk.name, synchronous=self._synchronous, wait=0.0
        )


def _started(begun: threading.Event, held: Work[None]) -> bool:
    """Wait until the writer is held up; say no if it could not even begin."""
    while not begun.wait(0.001):
        if held.result.done():
            return False
    return True


def step(unit_of_work: UnitOfWork, choice: float, id: str) -> list[tuple[int, str]]:
    """Do something, and give what it appends: sequences and payloads."""
    kept = unit_of_work.aggregate
    before, make = len(kept.staged), kept.agent.make
    first = kept.head.seq + before + 1
    number = int(choice * 1_000)
    if choice < 0.6 or not kept.state.pending:
        made = make.decided(CONTEXTS[number % 4], id=id, ask=choice < 0.1, at=unit_of_work.now)
        for event in made.events:
            kept.record(event, b"d" * 32)
    elif choice < 0.8:
        waiting = list(kept.state.pending)
        kept.record(make.rewarded(waiting[number % len(waiting)], 0.5, at=unit_of_work.now))
    else:
        arm = ["crime", "nature"][number // 4 % 2]
        kept.record(make.taught(CONTEXTS[number % 4], arm, number % 3 > 0, at=unit_of_work.now))
    return [(seq, new.payload.decode()) for seq, new in enumerate(kept.staged[before:], first)]
