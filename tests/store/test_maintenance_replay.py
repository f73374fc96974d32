"""Every choice of a log comes out again; and what was erased leaves the rest in order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridle.agent.events import Erased
from bridle.errors import InvalidValue, UnknownId
from bridle.store import aggregate as kept_module
from bridle.store.aggregate import events_in, load
from bridle.store.maintenance import erase, replay, verify
from bridle.store.writer import Writer
from tests.store.lives import begin, live, state

MASKED = {"budget": 1000, "on_doubt": "wait", "wait": 60.0, "default_reward": 0.0}


@pytest.fixture
def lived(store):
    writer = Writer(store, clock=lambda: 100.0)
    begin(writer, **MASKED)
    live(writer, 12)
    writer.close()
    return store


def test_every_choice_comes_out_again(lived):
    told: list[Any] = []
    found = replay(lived, "movies", progress=lambda done, total: told.append((done, total)))
    kinds = [type(event).__name__ for event in events_in(lived, "movies")]
    choices = sum(kinds.count(kind) for kind in ("Decided", "Abstained", "Asked"))
    assert (found.choices, found.same, found.elsewhere) == (choices, choices, 0)
    assert found.agrees and told[-1] == (len(kinds), len(kinds)) and kinds[1] == "RunsOn"
    with pytest.raises(UnknownId):
        replay(lived, "nobody")


class Altered:
    """A store whose log reads otherwise: a propensity or an arm is another."""

    def __init__(self, store: Any, alter: Any) -> None:
        self._store, self._alter = store, alter

    def read(self, *args: Any) -> Any:
        return [self._altered(entry) for entry in self._store.read(*args)]

    def _altered(self, entry: Any) -> Any:
        data = json.loads(entry.payload)
        self._alter(entry.kind, data)
        return entry._replace(payload=json.dumps(data).encode())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_what_differs_is_counted_apart(lived, monkeypatch):
    def nudge(kind: str, data: Any) -> None:
        if kind == "Decided" and data["propensity"] is not None:
            data["propensity"] -= 1e-12

    made_here = replay(Altered(lived, nudge), "movies")
    assert made_here.differing > 0 and made_here.examples and not made_here.agrees
    monkeypatch.setattr("bridle.store.maintenance.platform_here", lambda: "another machine")
    elsewhere = replay(Altered(lived, nudge), "movies")
    assert elsewhere.agrees and elsewhere.near == made_here.differing
    assert elsewhere.elsewhere == elsewhere.choices

    def swap(kind: str, data: Any) -> None:
        if kind == "Decided":
            data["arm"] = "crime" if data["arm"] == "nature" else "nature"

    assert replay(Altered(lived, swap), "movies").differing > 0


def test_what_was_erased_is_gone_with_all_that_hangs_on_it(lived):
    before = list(events_in(lived, "movies"))
    asked = next(e for e in before if type(e).__name__ == "Asked" and e.decision is not None)  # type: ignore[union-attr]
    head = erase(lived, "movies", decisions=[str(asked.decision)], by="Ann", note="as asked")  # type: ignore[union-attr]
    after = list(events_in(lived, "movies"))
    gone = [seq for seq, event in enumerate(after, 1) if isinstance(event, Erased)]
    assert gone == list(after[-1].events) and len(gone) >= 3  # type: ignore[union-attr]
    assert str(asked.decision) not in json.dumps([str(e) for e in after if isinstance(e, Erased)])  # type: ignore[union-attr]
    found = verify(lived, "movies", expect=str(head))
    assert found.problems == () and found.erased == len(gone)
    again = replay(lived, "movies")
    assert again.agrees and again.choices == again.same + again.unchecked
    assert state(load(lived, "movies")) == state(load(lived, "movies", snapshots=False))
    writer = Writer(lived, clock=lambda: 100.0)
    live(writer, 3, first="later")  # it goes on
    writer.close()
    assert replay(lived, "movies").agrees
    with pytest.raises(UnknownId, match="decision"):
        erase(lived, "movies", decisions=["nobody"])
    with pytest.raises(InvalidValue, match="at least one"):
        erase(lived, "movies")


def test_who_holds_an_agent_learns_that_something_was_erased(lived, opener):
    writer = Writer(lived, clock=lambda: 100.0)
    writer.do("movies", lambda work: None)  # it is in memory now
    erase(opener(), "movies", decisions=["d1"])
    kept: Any = writer.do("movies", lambda work: work.aggregate)
    assert state(kept) == state(load(lived, "movies", snapshots=False))
    writer.close()


def test_another_platform_is_written_down(lived, monkeypatch):
    monkeypatch.setattr(kept_module, "platform_here", lambda: "another machine")
    writer = Writer(lived, clock=lambda: 100.0)
    live(writer, 2, first="later")
    writer.close()
    kinds = [type(event).__name__ for event in events_in(lived, "movies")]
    assert kinds.count("RunsOn") == 2
    found = replay(lived, "movies")
    assert found.agrees and 0 < found.elsewhere < found.choices
