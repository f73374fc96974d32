"""Several teachers over HTTP: whose word it is, what it came to, whom to ask next; each once."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from bridle import Agent, Flag
from bridle.agent.events import Asked, Decided, Judged, Lapsed, StartedAnew, Taught
from bridle.agent.teachers import MAX_TEACHERS, Teacher
from bridle.api.requests import Answer, CheckJudgement, Teach, TeachMany, digest_of
from bridle.store.aggregate import events_in, load
from bridle.store.maintenance import replay
from tests.server.driving import Server

FEATURES = [{"kind": "flag", "name": "horror"}, {"kind": "flag", "name": "late"}]
CONTEXTS = [{"horror": h, "late": late} for h in (True, False) for late in (True, False)]
STAFF = [{"name": "editor", "price": 0.35}, {"name": "model", "price": 0.01, "error": None}]
AT = "/v1/agents/films"


def make(server: Server, status: int = 201, **more: Any) -> Any:
    agent = {
        "arms": ["x", "y"],
        "features": FEATURES,
        "limits": "rules",
        "seed": 1,
        "budget": 50,
        "answer_price": 0.35,
        "teachers": STAFF,
    }
    answer = server.call("POST", "/v1/agents", {"name": "films", "agent": agent | more})
    assert answer.status == status, answer.body
    return answer.json if status == 201 else answer


def call(
    server: Server, method: str, path: str, body: Any = None, *, status: int = 200, **more: Any
) -> Any:
    answer = server.call(method, AT + path, body, **more)
    assert answer.status == status, answer.body
    return answer.json if status < 300 else answer


def ask(server: Server, item: str, n: int = 0) -> Any:
    body = {"context": CONTEXTS[n], "item": item}
    return call(server, "POST", "/questions", body, status=201)


def answer(server: Server, question: Any, teacher: str | None, said: str, **more: Any) -> Any:
    body = {"answer": said} | ({} if teacher is None else {"teacher": teacher})
    status = more.pop("status", 200)
    path = f"/questions/{question['id']}/answer"
    return call(server, "POST", path, body | more, status=status)


def events(server: Server, *kinds: type) -> list[Any]:
    return [event for event in events_in(server.store, "films") if isinstance(event, kinds)]


# -- making one ----------------------------------------------------------------------------------


def test_an_agent_is_made_with_teachers(server: Server):
    made = make(server)
    assert made["teachers"] == ["editor", "model"]
    assert made["settings"]["teachers"] == [
        {"name": "editor", "price": 0.35, "error": None},
        {"name": "model", "price": 0.01, "error": None},
    ]
    shown = call(server, "GET", "/teachers")
    assert [one["name"] for one in shown["teachers"]] == ["editor", "model"]
    assert shown["open"] == [] and shown["open_total"] == 0 and shown["version"] == 1
    model = shown["teachers"][1]
    assert model["low"] <= model["rate"] <= model["high"] and not model["known"]
    assert (model["answers"], model["shared"], model["told"]) == (0, 0, False)
    want = Agent(
        arms=2, features=[Flag("a")], teachers=[Teacher("editor"), Teacher("model", price=0.01)]
    )
    assert model["sentence"] == want.teachers.sentence("model")
    assert model["rate"] == want.teachers.rates()["model"].mean


@pytest.mark.parametrize(
    "wrong",
    [
        [{"name": "a, b"}],
        [{"name": ""}],
        [{"name": "x" * 201}],
        [{"name": "a"}, {"name": "a"}],
        [{"name": "a", "price": -1}],
        [{"name": "a", "price": 1e7}],
        [{"name": "a", "error": 0.6}],
        [{"name": "a", "trust": 1}],
        [{"name": f"t{n}"} for n in range(MAX_TEACHERS + 1)],
        "editor",
    ],
)
def test_teachers_that_cannot_be_are_refused(server: Server, wrong: Any):
    assert make(server, 422, teachers=wrong).code == "invalid_value"


def test_a_rate_that_is_told_is_shown_as_told(server: Server):
    make(server, teachers=[{"name": "editor", "error": 0.001}, {"name": "model", "price": 0.01}])
    editor = call(server, "GET", "/teachers")["teachers"][0]
    assert (editor["rate"], editor["low"], editor["high"]) == (0.001, 0.001, 0.001)
    assert editor["told"] and editor["known"] and editor["trusted"]
    assert editor["sentence"] == "editor errs in 0.1 % of answers, as told."


# -- whose word it is ----------------------------------------------------------------------------


def test_it_must_be_said_who_speaks_where_there_are_several(server: Server):
    make(server)
    question = ask(server, "Up")
    for body in ({"answer": "allowed"}, {"answer": "allowed", "teacher": "Bob"}):
        path = f"/questions/{question['id']}/answer"
        refused = call(server, "POST", path, body, status=422)
        assert refused.code == "invalid_value" and refused.json["error"]["field"] == "teacher"
        assert "'editor', 'model'" in refused.json["error"]["message"]
    example = {"context": CONTEXTS[0], "arm": "x", "allowed": True}
    assert call(server, "POST", "/examples", example, status=422).code == "invalid_value"
    assert not events(server, Judged, Taught)
    # To give a question up nobody need speak.
    assert answer(server, question, None, "skip")["judgement"] is None


def test_one_alone_need_not_be_named_and_none_may_not(server: Server):
    make(server, teachers=[{"name": "model", "price": 0.01}])
    example = {"context": CONTEXTS[0], "arm": "x", "allowed": True, "item": "Up"}
    taken = call(server, "POST", "/examples", example, status=201)
    assert taken["judgements"][0]["teacher"] == "model" and taken["examples"] == [1]
    other = {"name": "plain", "agent": {"arms": ["x"], "features": FEATURES}}
    assert server.call("POST", "/v1/agents", other).status == 201
    body = example | {"teacher": "model"}
    refused = server.call("POST", "/v1/agents/plain/examples", body)
    assert refused.code == "invalid_value" and "no declared teachers" in refused.body.decode()
    taken = server.call("POST", "/v1/agents/plain/examples", example).json
    assert taken["examples"] == [1] and taken["judgements"] is None
    shown = server.call("GET", "/v1/agents/plain/teachers").json
    assert shown["teachers"] == [] and shown["open"] == []


def test_the_log_says_whose_word_it_is_and_who_sent_it(server: Server):
    make(server)
    token = server.grant("teacher", note="Ann")
    example = {"context": CONTEXTS[0], "arm": "x", "allowed": True, "item": "Up", "id": "e1"}
    body = example | {"teacher": "editor", "by": "Ann", "note": "seen it"}
    call(server, "POST", "/examples", body, status=201, token=token.text)
    [word] = events(server, Judged)
    assert (word.by, word.who, word.note) == ("editor", f"Ann (token {token.row.id})", "seen it")
    assert (word.id, word.item, word.allowed) == ("e1", "Up", True)


# -- questions -----------------------------------------------------------------------------------


def test_an_answer_says_what_came_of_it_and_whom_to_ask_next(server: Server):
    make(server)
    question = ask(server, "Up")
    assert question["whom"]["teacher"] == "model" and question["whom"]["explores"]
    assert question["whom"]["cost"] == pytest.approx(0.36) and "two" in question["whom"]["reason"]
    first = answer(server, question, "model", "denied")
    assert first["example"] is None and first["then"] is None
    said = first["judgement"]
    assert said["allowed"] is None and said["said"] == {"model": False} and 0 < said["p"] < 0.5
    assert said["next"]["teacher"] == "editor" and said["sentence"].endswith("Ask editor next.")
    [listed] = call(server, "GET", "/questions")["questions"]
    assert listed["id"] == question["id"] and listed["whom"]["teacher"] == "editor"
    [open_] = call(server, "GET", "/teachers")["open"]
    assert open_["question"] == question["id"] and open_["whom"]["teacher"] == "editor"
    assert (open_["item"], open_["said"], open_["p"]) == ("Up", {"model": False}, said["p"])
    second = answer(server, question, "editor", "denied")
    assert second["judgement"]["allowed"] is False and second["judgement"]["next"] is None
    assert second["judgement"]["sentence"] == "Settled: not allowed."
    [taught] = events(server, Taught)
    assert (taught.id, taught.by) == (second["example"], "editor, model")
    assert call(server, "GET", "/questions")["questions"] == []
    assert call(server, "GET", "/teachers")["open_total"] == 0
    rates = {one["name"]: one for one in call(server, "GET", "/teachers")["teachers"]}
    assert rates["model"]["shared"] == rates["editor"]["shared"] == 1


def test_an_inbox_is_of_one_teacher(server: Server):
    make(server)
    first, second = ask(server, "Up", 0), ask(server, "Saw", 1)
    answer(server, first, "model", "allowed")
    for teacher, want in (("model", [second["id"]]), ("editor", [first["id"]])):
        shown = call(server, "GET", f"/questions?teacher={teacher}")
        assert [one["id"] for one in shown["questions"]] == want and shown["total"] == 1
    assert call(server, "GET", "/questions")["total"] == 2
    assert call(server, "GET", "/questions?teacher=Bob", status=422).code == "invalid_value"


def test_a_decision_waits_until_its_question_is_settled(server: Server):
    make(server, answer_price=0.0, teachers=[{"name": "editor", "price": 0.0}, {"name": "model"}])
    made = call(server, "POST", "/decisions", {"context": CONTEXTS[0], "item": "Up", "id": "d"})
    assert made["outcome"] == "question"
    question = made["question"]
    assert answer(server, question, "model", "allowed")["then"] is None
    assert not events(server, Decided)
    last = answer(server, question, "editor", "allowed")
    assert last["judgement"]["allowed"] is True and last["then"]["id"] == "d"
    again = answer(server, question, "editor", "allowed")
    assert again["then"] == last["then"] and again["example"] == last["example"]
    head = server.store.head("films")
    assert head is not None and again["version"] == last["version"] == head.seq
    assert replay(server.store, "films").agrees


def test_a_question_that_words_about_others_settle_is_closed(server: Server):
    """The decision that waits for it would wait for ever: nobody is asked about it any more."""
    make(server, answer_price=0.0, teachers=[{"name": "editor", "price": 0.0}, {"name": "model"}])
    made = call(server, "POST", "/decisions", {"context": CONTEXTS[0], "item": "Up", "id": "d"})
    arm = made["question"]["arm"]
    answer(server, made["question"], "model", "allowed")
    body = {"context": CONTEXTS[0], "arm": arm, "allowed": True, "item": "Up", "teacher": "editor"}
    taken = call(server, "POST", "/examples", body, status=201)
    assert taken["judgements"][0]["allowed"] is True
    assert [event.question for event in events(server, Lapsed)] == [made["question"]["id"]]
    assert call(server, "GET", "/questions")["total"] == 0
    [decided] = events(server, Decided)
    assert (decided.id, decided.arm) == ("d", arm)


# -- once ----------------------------------------------------------------------------------------


def test_the_same_answer_is_taken_once_and_another_mind_needs_an_id(server: Server):
    make(server)
    question = ask(server, "Up")
    first = answer(server, question, "model", "denied")
    assert answer(server, question, "model", "denied") == first
    assert len(events(server, Judged)) == 1
    for other in ({"said": "allowed"}, {"said": "denied", "note": "again"}):
        said = other.pop("said")
        refused = answer(server, question, "model", said, status=409, **other)
        assert refused.code == "conflict" and "id" in refused.json["error"]["remedy"]
    changed = answer(server, question, "model", "allowed", id="second thoughts".replace(" ", "-"))
    assert changed["judgement"]["said"] == {"model": True}
    assert answer(server, question, "model", "allowed", id="second-thoughts") == changed
    assert answer(server, question, "model", "denied")["example"] is None  # the first one, again
    assert [word.allowed for word in events(server, Judged)] == [False, True]
    # The same opinion once more, under another name, says nothing new.
    refused = answer(server, question, "model", "allowed", id="third", status=409)
    assert "has said so already" in refused.json["error"]["message"]


def test_an_answer_that_comes_after_it_is_settled_is_refused(server: Server):
    make(server)
    question = ask(server, "Up")
    answer(server, question, "model", "allowed")
    answer(server, question, "editor", "allowed")
    refused = answer(server, question, "model", "denied", id="late", status=409)
    assert refused.code == "conflict"
    # What was sent before is answered as before, with what stands of it now.
    again = answer(server, question, "model", "allowed")
    assert again["example"] is None and again["judgement"]["allowed"] is True


def test_examples_with_ids_are_taken_once_whether_or_not_they_settle(server: Server):
    make(server)
    rows = [
        {"context": CONTEXTS[n], "arm": "x", "allowed": n > 0, "item": f"i{n}", "id": f"e{n}"}
        for n in range(3)
    ]
    body = {"examples": rows, "teacher": "model"}
    first = call(server, "POST", "/examples", body, status=201)
    assert first["examples"] == [None] * 3 and len(first["judgements"]) == 3
    assert call(server, "POST", "/examples", body, status=201) == first
    assert len(events(server, Judged)) == 3
    other = {"examples": rows, "teacher": "editor"}  # the same ids, of another
    assert call(server, "POST", "/examples", other, status=409).code == "conflict"
    some = {"examples": [*rows[:1], rows[1] | {"id": "e9"}], "teacher": "model"}
    assert call(server, "POST", "/examples", some, status=409).code == "conflict"
    mine = {"examples": [row | {"id": f"f{n}"} for n, row in enumerate(rows)], "teacher": "editor"}
    settled = call(server, "POST", "/examples", mine, status=201)
    assert [one["allowed"] for one in settled["judgements"]] == [False, True, True]
    assert settled["examples"] == ["f0", "f1", "f2"]
    again = call(server, "POST", "/examples", mine, status=201)
    assert again["examples"] == settled["examples"]
    assert [one["allowed"] for one in again["judgements"]] == [False, True, True]
    assert len(events(server, Taught)) == 3 and len(events(server, Judged)) == 6
    load(server.store, "films", snapshots=False)


def test_a_request_from_before_has_the_digest_that_it_had():
    """What came later is left out where it is not given, and an id is no part of what is said."""
    teach = Teach(context=[1.0], arm="x", allowed=True, id="a")
    assert digest_of(teach) == digest_of(Teach(**teach.model_dump()))
    said = Answer(answer="allowed")
    assert b"teacher" not in json.dumps(said.model_dump(exclude_none=True)).encode()
    plain = '{"by":null,"note":null,"answer":"allowed"}'
    assert digest_of(said) == hashlib.sha256(plain.encode()).digest()
    judged = '{"by":null,"note":null,"allowed":true}'
    assert digest_of(CheckJudgement(allowed=True)) == hashlib.sha256(judged.encode()).digest()
    assert digest_of(Answer(answer="allowed", id="a")) == digest_of(said)
    assert digest_of(Answer(answer="allowed", teacher="a")) != digest_of(said)
    assert digest_of(Answer(answer="allowed", scope="item")) != digest_of(said)
    assert TeachMany.NAMES == Teach.NAMES == frozenset()


# -- lives of answers ----------------------------------------------------------------------------


@pytest.mark.parametrize("teachers", [[], [{"name": "editor", "error": 0.0}]])
def test_an_answer_may_be_for_one_item_and_for_a_time(server: Server, teachers: Any):
    make(server, teachers=teachers)
    question = ask(server, "Up")
    late = answer(server, question, None, "allowed", until=server.clock.now, status=422)
    assert late.json["error"]["field"] == "until"
    until = server.clock.now + 60
    taken = answer(server, question, None, "allowed", scope="item", until=until)
    [example] = call(server, "GET", "/examples")["examples"]
    assert (example["scope"], example["until"]) == ("item", until)
    assert example["id"] == taken["example"]
    assert answer(server, question, None, "allowed", scope="item", until=until) == taken
    nameless = call(server, "POST", "/questions", {"context": CONTEXTS[0]}, status=201)
    refused = answer(server, nameless, None, "allowed", scope="item", status=422)
    assert refused.json["error"]["field"] == "scope"


# -- checks --------------------------------------------------------------------------------------


def checked(server: Server, **more: Any) -> Any:
    """An agent of several teachers with a play that waits to be judged."""
    make(server, budget=0, teachers=[{"name": "editor"}, {"name": "model", "price": 0.01}], **more)
    for teacher in ("model", "editor"):
        rows = [
            {"context": context, "arm": arm, "allowed": True, "item": f"{arm}{n}{k}"}
            for n, context in enumerate(CONTEXTS)
            for arm in ("x", "y")
            for k in range(3)
        ]
        call(server, "POST", "/examples", {"examples": rows, "teacher": teacher}, status=201)
    for n in range(400):
        body = {"context": CONTEXTS[n % 4], "item": f"film-{n}", "id": f"d{n}"}
        made = call(server, "POST", "/decisions", body)
        if made["check"]:
            return made
    raise AssertionError("no coin fell")


def test_a_check_waits_until_words_settle_it(server: Server):
    made = checked(server)
    [waiting] = call(server, "GET", "/checks")["checks"]
    who = waiting["whom"]["teacher"]
    other = "model" if who == "editor" else "editor"
    assert call(server, "GET", f"/checks?teacher={who}")["total"] == 1
    assert call(server, "GET", f"/checks?teacher={other}") == {"checks": [], "total": 0}
    path = f"/checks/{made['id']}"
    refused = call(server, "POST", path, {"allowed": False}, status=422)
    assert refused.json["error"]["field"] == "teacher"
    first = call(server, "POST", path, {"allowed": False, "teacher": who})
    assert first["example"] is None and not first["started_anew"]
    assert first["judgement"]["allowed"] is None
    assert first["judgement"]["next"]["teacher"] == other
    assert call(server, "POST", path, {"allowed": False, "teacher": who}) == first
    assert call(server, "GET", "/checks")["total"] == 1
    second = call(server, "POST", path, {"allowed": False, "teacher": other})
    assert second["judgement"]["allowed"] is False and second["example"] is not None
    again = call(server, "POST", path, {"allowed": False, "teacher": other})
    assert again["example"] == second["example"] and again["version"] == second["version"]
    assert call(server, "GET", "/checks")["total"] == 0
    assert call(server, "GET", "")["checks"]["found"] == 1
    late = call(server, "POST", path, {"allowed": True, "teacher": who, "id": "l"}, status=409)
    assert late.code == "conflict"
    assert replay(server.store, "films").agrees


def test_a_check_that_denies_what_was_allowed_begins_anew_with_a_promise(server: Server):
    staff = [{"name": "editor", "error": 0.0}, {"name": "model", "price": 0.01}]
    make(server, budget=0, teachers=staff, promise=[0.05, 1.0])
    rows = [
        {"context": c, "arm": arm, "allowed": True, "item": "Up"}
        for c in CONTEXTS
        for arm in ("x", "y")
    ]
    call(server, "POST", "/examples", {"examples": rows, "teacher": "editor"}, status=201)
    body = {"context": CONTEXTS[0], "item": "Up", "id": "d"}
    assert call(server, "POST", "/decisions", body)["check"]
    judged = call(server, "POST", "/checks/d", {"allowed": False, "teacher": "editor"})
    assert judged["started_anew"] and judged["judgement"]["allowed"] is False
    assert len(events(server, StartedAnew)) == 1
    again = call(server, "POST", "/checks/d", {"allowed": False, "teacher": "editor"})
    assert again["started_anew"] and again["example"] == judged["example"]
    assert len(events(server, StartedAnew)) == 1


# -- rights --------------------------------------------------------------------------------------


def test_who_may_see_the_teachers(server: Server):
    make(server)
    for role in ("teacher", "auditor", "admin"):
        call(server, "GET", "/teachers", token=server.grant(role).text)
    assert call(server, "GET", "/teachers", token=server.grant("agent").text, status=403)
    for bad in ("limit=0", "limit=1001", "after=-1", "teacher=model"):
        assert call(server, "GET", f"/teachers?{bad}", status=422).code == "invalid_value"


def test_open_cases_come_in_pages(server: Server):
    make(server)
    for n in range(4):
        body = {"context": CONTEXTS[n], "arm": "x", "allowed": False, "item": f"i{n}"}
        call(server, "POST", "/examples", body | {"teacher": "model"}, status=201)
    shown = call(server, "GET", "/teachers?after=1&limit=2")
    assert [one["item"] for one in shown["open"]] == ["i1", "i2"] and shown["open_total"] == 4
    assert all(one["question"] is None and one["arm"] == "x" for one in shown["open"])
    assert not events(server, Asked)


def test_an_id_of_one_word_is_no_answer_to_another_question(server: Server):
    make(server)
    first, second = ask(server, "one"), ask(server, "two", 1)
    said = answer(server, first, "editor", "allowed", id="w1")
    assert answer(server, first, "editor", "allowed", id="w1")["version"] == said["version"]
    answer(server, second, "editor", "allowed", id="w1", status=409)
    assert len(events(server, Judged)) == 1
    assert second["id"] in [one["id"] for one in call(server, "GET", "/questions")["questions"]]


def test_an_id_of_one_word_judges_no_other_check(server: Server):
    make(server, checks=None, promise=[0.5, 1.0], teachers=[STAFF[0] | {"error": 0.0}, STAFF[1]])
    for n in range(8):
        body = {
            "context": CONTEXTS[0],
            "arm": "x",
            "allowed": True,
            "item": f"i{n}",
            "teacher": "editor",
        }
        call(server, "POST", "/examples", body, status=201)
    settled = [one.item for one in events(server, Taught)]
    made = [
        call(server, "POST", "/decisions", {"context": CONTEXTS[0], "item": item, "ask": False})
        for item in settled[:2]
    ]
    one, other = (choice["id"] for choice in made if choice["check"])
    body = {"allowed": True, "teacher": "editor", "id": "w1"}
    call(server, "POST", f"/checks/{one}", body)
    call(server, "POST", f"/checks/{other}", body, status=409)
    call(server, "POST", "/checks/nonsense", body, status=409)
