from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bridle.agent.events import Decided, Rewarded, Taught, event_to_json
from bridle.errors import InvalidValue, NotPossible, StoreFailed, UnknownId
from bridle.store import maintenance
from bridle.store.log import New, Store
from bridle.store.maintenance import export
from tests.store.filling import fill

pl = pytest.importorskip("polars", reason="polars is not installed")

EVENTS = [
    Decided(id=7, context=(0.5,), arm="x", version=1, propensity=0.25, at=3.5),
    Rewarded(decision=7, value=1.0),
    Taught(id="e1", context=(0.5,), arm=3, allowed=False, question=9, by="Ann"),
    Decided(id=8, context=(0.5,), arm="x", version=3, coin=0.5, checked=True),
    Taught(id="e2", context=(0.5,), arm="x", allowed=True, check=8),
]


@pytest.fixture
def filled(store: Store) -> Store:
    with store.transaction() as transaction:
        transaction.create("a", 0.0)
        for event in EVENTS:
            payload = json.dumps(event_to_json(event)).encode()
            transaction.append("a", [New(type(event).__name__, payload)])
        transaction.append("a", [New("Odd", b"[1"), New("Odd", b"[1]"), New("Rewarded", b"{}")])
    with store.transaction() as transaction:
        transaction.erase("a", [8])
    return store


def test_the_columns_hold_what_the_events_say(filled: Store, tmp_path: Path):
    assert export(filled, "a", tmp_path / "a.parquet") == 8
    rows = pl.read_parquet(tmp_path / "a.parquet").rows()
    assert [row[:-1] for row in rows] == [
        (1, "Decided", 3.5, "7", None, None, "x", None, 0.25, None, False, None, None),
        (2, "Rewarded", None, "7", None, None, None, 1.0, None, None, None, None, None),
        (3, "Taught", None, None, "e1", "9", "3", None, None, None, None, False, "Ann"),
        (4, "Decided", None, "8", None, None, "x", None, None, 0.5, True, None, None),
        (5, "Taught", None, "8", "e2", None, "x", None, None, None, None, True, None),
        (6, "Odd", *[None] * 11),
        (7, "Odd", *[None] * 11),
        (8, "Rewarded", *[None] * 11),
    ]
    assert json.loads(rows[0][-1]) == event_to_json(EVENTS[0])
    assert [row[-1] for row in rows[5:]] == ["[1", "[1]", None]
    # Once more in this thread: polars asks for them in threads that coverage cannot see.
    head = filled.head("a")
    assert head is not None
    assert [row for frame in maintenance._frames(filled, "a", head) for row in frame.rows()] == rows
    assert list(maintenance._frames(filled, "nobody", head)) == []
    assert [path.name for path in tmp_path.iterdir() if "parquet" in path.name] == ["a.parquet"]


def test_a_long_log_goes_in_parts(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(maintenance, "_PAGE", 7)
    fill(store, count=50)
    for _ in range(2):
        assert export(store, "a", tmp_path / "a.parquet") == 50
    frame = pl.read_parquet(tmp_path / "a.parquet")
    assert frame["seq"].to_list() == list(range(1, 51))
    assert frame["decision"][49] == "d50"


def test_an_empty_log_has_the_same_columns(store: Store, tmp_path: Path):
    fill(store, count=0)
    assert export(store, "a", tmp_path / "a.parquet") == 0
    assert len(pl.read_parquet_schema(tmp_path / "a.parquet")) == 14


def test_a_store_that_fails_leaves_no_file(filled: Store, tmp_path: Path, monkeypatch):
    def fail(*_: object) -> None:
        raise StoreFailed("no more")

    monkeypatch.setattr(maintenance, "_frames", fail)
    with pytest.raises(StoreFailed, match="no more"):
        export(filled, "a", tmp_path / "a.parquet")
    assert not (tmp_path / "a.parquet").exists()


@pytest.mark.parametrize("name", ["out.csv", "out", "out.parquet.gz", "parquet"])
def test_only_a_name_for_parquet_is_taken(filled: Store, tmp_path: Path, name: str):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InvalidValue, match=r"ends in \.parquet.*name it '.*\.parquet'"):
        export(filled, "a", tmp_path / name)
    assert sorted(tmp_path.iterdir()) == before
    assert export(filled, "a", tmp_path / "OUT.PARQUET") == 8


def test_what_cannot_be_exported_is_said(filled: Store, tmp_path: Path, monkeypatch):
    with pytest.raises(UnknownId, match="nobody"):
        export(filled, "nobody", tmp_path / "a.parquet")
    with pytest.raises(StoreFailed, match="missing"):
        export(filled, "a", tmp_path / "missing" / "a.parquet")
    monkeypatch.setitem(sys.modules, "polars.io.plugins", None)
    with pytest.raises(NotPossible, match=r"polars: pip install '\.\[study\]' in bridle's folder"):
        export(filled, "a", tmp_path / "a.parquet")
