"""Words of several teachers in a store: kept, counted, named, erased, replayed."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from bridle.agent.events import Asked, Erased, Judged, Taught, event_to_json
from bridle.agent.teachers import Teacher
from bridle.errors import Duplicate, UnknownId
from bridle.store.aggregate import Aggregate, agent_at, events_in, keep_snapshot, load
from bridle.store.maintenance import _row, erase, replay, verify
from bridle.store.writer import UnitOfWork, Writer
from tests.store.lives import CONTEXTS, begin, state

NOW = 100.0
STAFF = [Teacher("editor", price=0.35), Teacher("model", price=0.01)]


def say(
    work: UnitOfWork, n: int, by: str, allowed: bool = True, id: str | None = None, item: Any = None
) -> list[Any]:
    heard = work.aggregate.agent.make.examples_by(
        [CONTEXTS[n % 4]],
        ["crime"],
        [allowed],
        by=by,
        items=[item],
        ids=None if id is None else [id],
        at=work.now,
        who=f"{by} (token t)",
    )
    for event in heard.events:
        work.aggregate.record(event, b"w" * 32)
    return heard.events


def ask(work: UnitOfWork, n: int) -> Any:
    question = work.aggregate.agent.make.asked(CONTEXTS[n % 4], item=f"q{n}", at=work.now)
    work.aggregate.record(question.event)
    return question


def answer(work: UnitOfWork, question: Any, by: str, allowed: bool = True) -> list[Any]:
    heard = work.aggregate.agent.make.answers_by(
        [question], [allowed], by=by, words=[f"{by}.{question.id}"], at=work.now
    )
    for event in heard.events:
        work.aggregate.record(event)
    return heard.events


@pytest.fixture
def lived(store: Any) -> Any:
    """A log in which two teachers judged the same cases, and one of a few others."""
    writer = Writer(store, clock=lambda: NOW)
    begin(writer, limits="rules", budget=50, teachers=STAFF)
    for n in range(4):
        writer.do("movies", partial(say, n=n, by="model", id=f"m{n}", item=f"i{n}"))
    writer.do("movies", partial(say, n=0, by="editor", id="e0", item="i0"))
    for n in range(12):
        question = writer.do("movies", partial(ask, n=n))
        writer.do("movies", partial(answer, question=question, by="model", allowed=n != 5))
        open_ = writer.do("movies", lambda work: list(work.aggregate.state.questions.open))
        if question.id in open_:
            writer.do("movies", partial(answer, question=question, by="editor"))
    writer.close()
    return store


def words(store: Any) -> list[Judged]:
    return [event for event in events_in(store, "movies") if isinstance(event, Judged)]


def test_it_is_the_same_from_a_snapshot_and_from_the_log(lived):
    folded = load(lived, "movies", snapshots=False)
    rates = folded.agent.teachers.rates()
    said = [word.by for word in words(lived)]
    assert (rates["model"].answers, rates["editor"].answers) == (16, said.count("editor"))
    assert rates["model"].shared == rates["editor"].answers > 2
    assert folded.state.teachers.open  # not all of it is settled
    again = Aggregate.from_blob(folded.to_blob(), folded.head)
    assert state(again) == state(folded) and again.to_blob() == folded.to_blob()
    keep_snapshot(lived, "movies", folded)
    writer = Writer(lived, clock=lambda: NOW)
    writer.do("movies", partial(say, n=1, by="editor", item="i1"))
    writer.close()
    assert load(lived, "movies").to_blob() == load(lived, "movies", snapshots=False).to_blob()
    found = replay(lived, "movies")
    assert found.agrees and found.choices == found.same == 12
    assert not verify(lived, "movies").problems
    before = agent_at(lived, "movies", 3)
    assert before.teachers.rates()["model"].answers == 1


def test_words_are_counted_and_say_who_said_them(lived):
    kept = load(lived, "movies", snapshots=False)
    spans = Aggregate.from_blob(kept.to_blob(), kept.head).timeline.spans
    assert sum(span.words for span in spans) == len(words(lived)) > 15
    assert sum(span.taught for span in spans) == kept.state.taught
    # Each answer is counted for who gave it, and what they settled together for nobody.
    assert set(kept.guesses.of) == {"model", "editor"}
    answered = [word.by for word in words(lived) if word.question is not None]
    for name, guesses in kept.guesses.of.items():
        assert len(guesses) == answered.count(name)
    said = words(lived)[4]
    assert (said.by, said.who, said.id) == ("editor", "editor (token t)", "e0")


def test_a_word_has_one_name(lived):
    writer, many = Writer(lived, clock=lambda: NOW), len(words(lived))
    assert lived.find("movies", "word", ["m1", "model.1", "m9"]).keys() == {"m1", "model.1"}
    with pytest.raises(Duplicate):
        writer.do("movies", partial(say, n=1, by="model", id="m1", item="i1"))
    assert len(words(lived)) == many
    writer.close()


def test_an_export_has_a_word_as_other_answers(lived):
    rows = [_row(entry) for entry in lived.read("movies", 0, 1_000) if entry.kind == "Judged"]
    assert len(rows) == len(words(lived))
    kind, at, decision, example, question, arm, *_, allowed, by, _ = rows[5][1:]
    assert (kind, at, decision, example, question) == ("Judged", NOW, None, None, "1")
    assert (arm, allowed, by) == (words(lived)[5].arm, True, "model")
    check = Judged((1.0,), "crime", True, "model", 0.5, None, 7)
    entry = lived.read("movies", 0, 1)[0]
    made = entry._replace(kind="Judged", payload=json.dumps(event_to_json(check)).encode())
    assert _row(made)[3] == "7"


def test_erasing_an_example_takes_the_words_along_that_made_it(lived):
    [settled] = [
        event
        for event in events_in(lived, "movies")
        if isinstance(event, Taught) and event.id == "e0"
    ]
    assert settled.by == "editor, model" and settled.item == "i0"
    before = load(lived, "movies")
    left = {word.id for word in words(lived)} - {"e0", "m0"}
    many = before.agent.teachers.rates()["editor"].answers
    erase(lived, "movies", examples=["e0"])
    assert {word.id for word in words(lived)} == left
    gone = [event for event in events_in(lived, "movies") if isinstance(event, Erased)]
    assert sorted(event.kind for event in gone) == ["Judged", "Judged", "Taught"]
    after = load(lived, "movies", snapshots=False)
    assert after.state.taught == before.state.taught
    assert after.agent.teachers.rates()["editor"].answers == many - 1
    assert replay(lived, "movies").agrees


def test_a_word_that_settled_nothing_can_be_erased_by_its_own_id(lived):
    many = len(words(lived))
    erase(lived, "movies", examples=["m2"])
    assert "m2" not in {word.id for word in words(lived)} and len(words(lived)) == many - 1
    assert b"i2" not in b"".join(e.payload or b"" for e in lived.read("movies", 0, 1_000))
    with pytest.raises(UnknownId):
        erase(lived, "movies", examples=["m99"])


def test_what_was_settled_later_goes_with_the_word(store):
    """A case that one word left open and a later one, about others, settled."""
    writer = Writer(store, clock=lambda: NOW)
    begin(writer, limits="rules", teachers=STAFF)
    made: list[Any] = []
    writer.do("movies", partial(say, n=0, by="model", id="x0", item="x0"))
    for n in range(200):
        made += writer.do("movies", partial(say, n=n, by="model", id=f"m{n}", item=f"i{n}"))
        made += writer.do("movies", partial(say, n=n, by="editor", id=f"e{n}", item=f"i{n}"))
        later = [e for e in made if isinstance(e, Taught) and type(e.id) is int]
        if later:
            break
    writer.close()
    item = later[0].item  # else no case was settled later
    erase(store, "movies", examples=[str(item)])
    left = b"".join(entry.payload or b"" for entry in store.read("movies", 0, 5_000))
    assert f'"{item}"'.encode() not in left
    assert replay(store, "movies").agrees


def test_a_decision_takes_the_words_along_that_answered_it(store):
    writer = Writer(store, clock=lambda: NOW)
    begin(writer, limits="rules", budget=5, answer_price=0.0, teachers=STAFF)

    def decide(work: UnitOfWork) -> Any:
        made = work.aggregate.agent.make.decided(CONTEXTS[0], id="d", item="Ann", at=work.now)
        for event in made.events:
            work.aggregate.record(event)
        return made

    question = writer.do("movies", decide)
    writer.do("movies", partial(answer, question=question, by="model"))
    writer.do("movies", partial(say, n=1, by="model", item="Bob"))
    writer.close()
    erase(store, "movies", decisions=["d"])
    assert [word.item for word in words(store)] == ["Bob"]
    assert not any(isinstance(event, Asked) for event in events_in(store, "movies"))
    load(store, "movies", snapshots=False)
