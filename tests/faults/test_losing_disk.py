from __future__ import annotations

import contextlib
import random
from pathlib import Path

import apsw
import pytest

from faults.losing_disk import LosingDisk, PowerCut


def connect(disk: LosingDisk, synchronous: str = "FULL") -> apsw.Connection:
    connection = apsw.Connection("/nowhere/test.db", vfs=disk.name)
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    return connection


def lose_power(disk: LosingDisk, connection: apsw.Connection, seed: int = 1) -> None:
    disk.dark = True
    with contextlib.suppress(apsw.Error):
        connection.close(True)
    disk.power_on(random.Random(seed))


def rows(disk: LosingDisk) -> list[int]:
    connection = connect(disk)
    found = [number for (number,) in connection.execute("SELECT * FROM t ORDER BY 1")]
    connection.close()
    return found


def test_what_was_synced_is_there_after_any_cut() -> None:
    for seed in range(20):
        disk = LosingDisk()
        connection = connect(disk)
        connection.execute("CREATE TABLE t (n)")
        for number in range(10):
            connection.execute("INSERT INTO t VALUES (?)", (number,))
        lose_power(disk, connection, seed)
        assert rows(disk) == list(range(10))


def test_what_was_not_synced_may_be_lost_in_any_part() -> None:
    left = set()
    for seed in range(40):
        disk = LosingDisk()
        connection = connect(disk)
        connection.execute("CREATE TABLE t (n)")
        connection.close()
        connection = connect(disk, "NORMAL")
        for number in range(10):
            connection.execute("INSERT INTO t VALUES (?)", (number,))
        lose_power(disk, connection, seed)
        found = rows(disk)
        assert found == list(range(len(found)))
        left.add(len(found))
    assert 0 in left and 10 in left and len(left) > 3


def test_the_power_goes_at_the_operation_that_was_named_and_stays_off() -> None:
    disk = LosingDisk()
    connection = connect(disk)
    disk.cut_at = disk.operations + 3
    with pytest.raises(PowerCut):
        connection.execute("CREATE TABLE t (n)")
    assert disk.dark
    with pytest.raises(apsw.Error):
        connection.execute("CREATE TABLE t (n)")
    lose_power(disk, connection)
    assert not disk.dark
    connection = connect(disk)
    connection.execute("CREATE TABLE IF NOT EXISTS t (n)")
    connection.close()


def test_nothing_of_it_is_on_the_real_disk() -> None:
    disk = LosingDisk()
    connection = connect(disk)
    connection.execute("CREATE TABLE t (n)")
    connection.close()
    assert not Path("/nowhere").exists()
