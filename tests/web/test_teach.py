from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from bridle.schema import Category, Flag, Labels, Number, Schema
from bridle.web import progress, teach
from bridle.web.progress import FEW_DECISIONS, progress_of, sample_contexts
from tests.server.driving import Server
from tests.web.browsing import Element, Person, Shown, no_script

PAGE = "/agents/films/teach"
SCRIPT = "<script>alert(1)</script>"


def log(server: Server, agent: str = "films") -> list[dict[str, Any]]:
    answer = server.call("GET", f"/v1/agents/{agent}/events?limit=1000")
    assert answer.status == 200, answer.body
    return [{"kind": one["kind"], **one["event"]} for one in answer.json["events"]]


def standing(server: Server, agent: str = "films") -> list[dict[str, Any]]:
    answer = server.call("GET", f"/v1/agents/{agent}/examples?limit=1000")
    return list(answer.json["examples"])


def reply(who: Person, shown: Shown, answer: str, **more: str) -> Shown:
    """Answer the question that a page shows."""
    action = next(
        str(form["action"])
        for form in shown.forms
        if "pair" in form["fields"] and "answer" in form["fields"]
    )
    return who.follow(who.post(action, shown.form(action) | {"answer": answer} | more))


def last(shown: Shown) -> list[Element]:
    """The answer that can be undone, if there is one."""
    return [one for one in shown.all() if "data-last" in one.attrs]


def pair(shown: Shown) -> str:
    return str(next(form["fields"]["pair"] for form in shown.forms if "pair" in form["fields"]))


# -- one question at a time ----------------------------------------------------------------------


def test_a_question_in_words(server, make, person):
    make()
    shown = person("teacher").get(PAGE)
    assert shown.status == 200 and no_script(shown.html)
    asked = shown.one(data_pair=pair(shown))
    labels = {"night": "The Long Night", "fog": "Fog", "kite": "Kite Days"}
    assert labels[asked.data("arm")] in shown.headings[0]
    for key, answer in (("a y", "allowed"), ("n", "denied"), ("s", "skip")):
        assert asked.one(data_key=key).attrs["value"] == answer
    assert shown.html.count("<h1") == 1
    assert {"first-answer", "no-answer-yet"} <= shown.notes


def test_looking_again_asks_nothing_new(server, make, person):
    make()
    ann = person("teacher")
    first = ann.get(PAGE)
    before = len(log(server))
    again = ann.get(PAGE)
    assert pair(first) == pair(again)
    assert len(log(server)) == before
    assert [event["kind"] for event in log(server)].count("Asked") == 1


def test_teaching_by_forms_alone(server, make, person):
    make()
    ann = person("teacher")
    shown = ann.get(PAGE)
    for n in range(8):
        shown = reply(ann, shown, "allowed" if n % 3 else "denied", note=f"since {n}")
        assert last(shown)
    found = standing(server)
    assert len(found) == 8 and found[0]["note"] == "since 0"
    assert all(one["by"].startswith("a teacher (token ") for one in found)
    assert shown.value("guessed").endswith("of 8")
    events = log(server)
    taught = [event for event in events if event["kind"] == "Taught"]
    assert all(event["question"] is not None for event in taught)
    # A most useful question is about something that is not certain.
    pairs = {(json.dumps(one["context"], sort_keys=True), one["arm"]) for one in found}
    assert len(pairs) == 8


def test_what_is_asked_is_the_most_useful(server, make, person):
    """Rules of single words are known after a few answers: of those asked, not of any."""
    make()
    ann = person("teacher")
    shown = ann.get(PAGE)
    asked = 0
    while "nothing-left" not in shown.notes:
        asked += 1
        assert asked < 15  # of 18 that there are
        question = shown.form(PAGE + "/answer")["question"]
        event = next(e for e in log(server) if e["kind"] == "Asked" and e["id"] == question)
        denied = event["arm"] in ("night", "fog") and event["context"][0] == 1.0
        shown = reply(ann, shown, "denied" if denied else "allowed")
    for age in ("12-17", "18-24", "25+"):
        believed = server.call(
            "POST", "/v1/agents/films/believed", {"context": {"age": age, "late": False}}
        ).json
        for arm in believed["arms"]:
            wanted = not (age == "12-17" and arm["arm"] in ("night", "fog"))
            assert (arm["p"] > 0.5) == wanted, (age, arm)


def test_an_answer_sent_twice_is_taken_once(server, make, person):
    make()
    ann = person("teacher")
    form = ann.get(PAGE).form(PAGE + "/answer") | {"answer": "denied"}
    first, second = ann.post(PAGE + "/answer", form), ann.post(PAGE + "/answer", form)
    assert first.status == second.status == 303
    assert len(standing(server)) == 1
    other = ann.follow(ann.post(PAGE + "/answer", form | {"answer": "allowed"}))
    assert other.said == "before"
    assert [one["allowed"] for one in standing(server)] == [False]


def test_skipping_leads_elsewhere(server, make, person):
    make()
    ann = person("teacher")
    shown = ann.get(PAGE)
    seen = [pair(shown)]
    for _ in range(8):
        shown = reply(ann, shown, "skip")
        assert pair(shown) not in seen
        seen.append(pair(shown))
    assert not standing(server)
    shown = reply(ann, shown, "allowed")
    assert pair(shown) not in seen  # what was skipped does not come back at once
    kinds = [event["kind"] for event in log(server)]
    assert kinds.count("Lapsed") >= 1


def test_all_skipped(server, make, person):
    make("small", arms=["a", "b"], features=[{"kind": "flag", "name": "x"}])
    ann = person("teacher")
    shown = ann.get("/agents/small/teach")
    for _ in range(4):
        assert "nothing-left" not in shown.notes
        shown = reply(ann, shown, "skip")
    assert {"nothing-left", "all-skipped"} <= shown.notes
    assert "nothing-left" not in ann.get("/agents/small/teach").notes


def test_undo_one_by_one_and_the_opposite(server, make, person):
    make()
    ann, ben = person("teacher"), person("teacher")
    shown = ann.get(PAGE)
    for _ in range(3):
        shown = reply(ann, shown, "denied")
    reply(ben, ben.get(PAGE), "allowed")
    shown = ann.get(PAGE)
    undo = shown.form(PAGE + "/undo")
    assert undo["example"] == "3"  # her own last one, not Ben's
    shown = ann.follow(ann.post(PAGE + "/undo", undo))
    assert ann.post(PAGE + "/undo", undo).status == 303  # a double click
    assert len(standing(server)) == 3 and shown.has(data_undone="3")
    shown = ann.follow(ann.post(PAGE + "/say", shown.form(PAGE + "/say")))
    assert standing(server)[-1]["allowed"] is True and len(standing(server)) == 4
    for left in (3, 2, 1):
        shown = ann.follow(ann.post(PAGE + "/undo", ann.get(PAGE).form(PAGE + "/undo")))
        assert len(standing(server)) == left
    assert not last(shown)
    # Ben's is not hers to see there; an id that is none is told so.
    assert not ann.get(PAGE + "?undone=4").all(data_undone="4")
    assert ann.get(PAGE + "?undone=nonsense").status == 200
    assert ann.post(PAGE + "/undo", {"example": "99"}).status == 404


def test_after_undo_the_same_answer_can_be_given_again(server, make, person):
    make()
    ann = person("teacher")
    form = ann.get(PAGE).form(PAGE + "/answer") | {"answer": "denied"}
    ann.post(PAGE + "/answer", form)
    ann.post(PAGE + "/undo", {"example": "1"})
    assert not standing(server)
    ann.post(PAGE + "/answer", form)  # by the browser's way back
    assert [one["allowed"] for one in standing(server)] == [False]


def test_two_teachers_are_asked_different_things_and_may_disagree(server, make, person):
    make()
    ann, ben = person("teacher"), person("teacher")
    first, second = ann.get(PAGE), ben.get(PAGE)
    assert pair(first) != pair(second)
    form = first.form(PAGE + "/answer")
    ann.post(PAGE + "/answer", form | {"answer": "allowed", "note": SCRIPT})
    shown = ben.follow(ben.post(PAGE + "/answer", form | {"answer": "denied"}))
    assert shown.said == "disagree" and shown.has(data_disagreement="2")
    assert SCRIPT not in shown.html and SCRIPT in shown.text
    assert len(standing(server)) == 2
    shown = ann.get(PAGE)
    assert shown.has(data_disagreement="2")
    shown = ann.follow(ann.post(PAGE + "/retract", shown.form(PAGE + "/retract")))
    assert not shown.all(data_disagreement="2") and len(standing(server)) == 1
    # Who says the same later says it for themselves.
    late = person("teacher")
    shown = late.follow(late.post(PAGE + "/answer", form | {"answer": "allowed"}))
    assert shown.said == "late" and len(standing(server)) == 2


def test_who_is_long_gone_may_be_disagreed_with(server, make, person, monkeypatch):
    monkeypatch.setattr(progress, "MOST_LOOKED_AT", 2)
    make()
    case = {"context": {"age": "25+", "late": True}, "arm": "fog"}
    for allowed in (False, True):
        server.call("POST", "/v1/agents/films/examples", case | {"allowed": allowed})
        other = {"context": {"age": "25+", "late": False}, "arm": "kite", "allowed": True}
        server.call("POST", "/v1/agents/films/examples", other)
    shown = person("teacher").get(PAGE)
    assert shown.has(data_disagreement="older")


# -- the inbox -----------------------------------------------------------------------------------


def test_live_decisions_come_first(server, make, person):
    make(budget=50, ask_at_most=1)
    ann = person("teacher")
    ann.get(PAGE)
    made = server.call(
        "POST",
        "/v1/agents/films/decisions",
        {"context": {"age": "12-17", "late": True}, "id": "d-1"},
    ).json
    assert made["question"] is not None
    shown = ann.get(PAGE)
    assert {"live", "give-up"} <= shown.notes
    assert shown.form(PAGE + "/answer")["question"] == str(made["question"]["id"])
    shown = reply(ann, shown, "allowed")
    events = log(server)
    assert any(e["kind"] == "Decided" and e["id"] == "d-1" for e in events)
    assert "live" not in shown.notes


def test_a_live_question_can_be_skipped(server, make, person):
    make(budget=50)
    server.call(
        "POST", "/v1/agents/films/decisions", {"context": {"age": "25+", "late": True}, "id": "d-1"}
    )
    ann = person("teacher")
    shown = reply(ann, ann.get(PAGE), "skip")
    assert "live" not in shown.notes
    assert any(e["kind"] == "Abstained" for e in log(server))


def test_questions_of_an_agent_without_a_budget(server, make, person):
    make(budget=0)
    ann = person("teacher")
    reply(ann, ann.get(PAGE), "allowed")
    assert len(standing(server)) == 1


# -- other agents --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {"limits": "linear", "policy": {"kind": "BehaviorConstrained", "sigma": 0.5}},
        {"limits": "rules", "teaching": "thompson"},
        {"limits": "rules", "teaching": "arm"},
        {"limits": "logistic"},
        {"limits": "auto"},
    ],
)
def test_every_kind_of_agent_can_be_taught(server, make, person, more):
    make(**more)
    ann = person("teacher")
    shown, seen = ann.get(PAGE), set()
    for n in range(5):
        seen.add(pair(shown))
        shown = reply(ann, shown, ("allowed", "denied", "skip")[n % 3])
        assert shown.status == 200
    assert len(seen) == 5 and len(standing(server)) == 4


def test_what_is_not_filed_is_taught_once(server, make, person):
    make(limits="rules", teaching="random")
    ann = person("teacher")
    form = ann.get(PAGE).form(PAGE + "/say") | {"answer": "allowed"}
    for _ in range(2):
        assert ann.post(PAGE + "/say", form).status == 303
    assert len(standing(server)) == 1
    shown = ann.follow(ann.post(PAGE + "/say", form | {"answer": "denied"}))
    assert shown.said == "before" and len(standing(server)) == 1


def test_it_says_when_it_is_sure(server, make, person):
    make("one", arms=["a"], features=[{"kind": "flag", "name": "x"}], on_empty="least_bad")
    ann = person("teacher")
    for n in range(FEW_DECISIONS):
        server.call("POST", "/v1/agents/one/decisions", {"context": {"x": n % 2 == 0}})
    shown = ann.get("/agents/one/teach")
    for _ in range(4):
        if "nothing-left" in shown.notes:
            break
        shown = reply(ann, shown, "allowed")
    assert {"all-sure", "nothing-left"} <= shown.notes


def test_contexts_made_of_a_schema():
    schema = Schema(
        [
            Labels("genres", [f"g{i}" for i in range(40)]),
            Category("age", ["a", "b", "c"]),
            Flag("late"),
            Number("kg", 0, 10),
            Number("free"),
        ]
    )
    made = sample_contexts(schema, 64, random.Random(3))
    rows = schema.encode_many(made)
    assert len(made) == 64 and np.isfinite(rows).all()
    assert rows.max(axis=0)[40:44].tolist() == [1.0] * 4
    assert made == sample_contexts(schema, 64, random.Random(3))
    small = Schema([Flag("x"), Number("n", 0, 2)])
    assert len(sample_contexts(small, 64, random.Random(3))) == 6
    assert len(sample_contexts(schema, 3, random.Random(3))) == 3


# -- who may not, and what is wrong ----------------------------------------------------------------


def test_who_may_not_teach(server, make, person):
    make()
    auditor = person("auditor")
    assert auditor.get(PAGE).status == 403
    for path in ("answer", "say", "undo", "retract"):
        assert auditor.post(f"{PAGE}/{path}", {"example": "1"}).status == 403
    shown = auditor.get(PAGE + "/examples")
    assert shown.status == 200
    assert not [form for form in shown.forms if "retract" in str(form["action"])]
    stranger = person("teacher", ("songs",))
    assert stranger.get(PAGE).status == 403
    assert person("teacher").get("/agents/nothing/teach").status == 404


@pytest.mark.parametrize(
    ("path", "form", "status"),
    [
        ("answer", {}, 422),
        ("answer", {"question": "1"}, 422),
        ("answer", {"question": "1", "answer": "perhaps"}, 422),
        ("answer", {"question": "99", "answer": "allowed"}, 404),
        ("answer", {"question": "99", "answer": "allowed", "note": "x" * 2_000}, 422),
        ("say", {"answer": "allowed"}, 422),
        ("say", {"answer": "allowed", "about": "{", "key": "k"}, 400),
        ("say", {"answer": "allowed", "about": "[]", "key": "k"}, 400),
        ("say", {"answer": "allowed", "about": '{"context": 1, "arm": "fog"}', "key": "k"}, 422),
        ("say", {"answer": "allowed", "about": '{"context": {}, "arm": "fog"}', "key": "k"}, 422),
        ("say", {"answer": "allowed", "about": '{"context": {}, "arm": "no"}', "key": "5"}, 422),
        ("undo", {}, 422),
        ("retract", {"example": "nothing"}, 404),
    ],
)
def test_wrong_forms(server, make, person, path, form, status):
    make()
    shown = person("teacher").post(f"{PAGE}/{path}", form)
    assert shown.status == status, shown.text
    assert "<h1>" in shown.html and not standing(server)


def test_a_nonsense_query(server, make, person):
    make()
    ann = person("teacher")
    for query in ("skipped=" + "x-y." * 200, "skipped=-.-..-9-", "undone=" + "9" * 300):
        assert ann.get(f"{PAGE}?{query}").status == 200
    assert ann.get(PAGE + "/examples?after=-1").status == 422


def test_text_is_only_ever_text(server, make, person):
    arms = [{"id": SCRIPT, "label": f"{SCRIPT}l", "group": f"{SCRIPT}g"}, "b"]
    features = [
        {"kind": "flag", "name": f"{SCRIPT}f"},
        {"kind": "category", "name": f"{SCRIPT}c", "values": [f"{SCRIPT}v", "w"]},
    ]
    make("evil", arms=arms, features=features)
    ann = Person(server, None)
    token = server.grant("teacher", note=f"{SCRIPT}n").text
    ann.post("/sign-in", {"token": token})
    shown = ann.get("/agents/evil/teach")
    for n in range(4):
        shown = reply(ann, shown, "allowed" if n % 2 else "denied", note=f"{SCRIPT}w")
        assert no_script(shown.html) and SCRIPT not in shown.html
    listed = ann.get("/agents/evil/teach/examples")
    assert SCRIPT not in listed.html and f"{SCRIPT}w" in listed.text and f"{SCRIPT}n" in listed.text


# -- the examples that stand ---------------------------------------------------------------------


def test_the_list_of_examples(server, make, person):
    make()
    ann = person("teacher")
    shown = ann.get(PAGE + "/examples")
    assert "no-example" in shown.notes
    examples = [
        {"context": {"age": "25+", "late": n % 2 == 0}, "arm": "fog", "allowed": True}
        for n in range(120)
    ]
    assert server.call("POST", "/v1/agents/films/examples", {"examples": examples}).status == 201
    shown = ann.get(PAGE + "/examples")
    assert len(shown.all(data_allowed="true")) == 50 and shown.value("total") == "120"
    assert PAGE + "/examples?after=50" in shown.links
    end = ann.get(PAGE + "/examples?after=100")
    assert len(end.all(data_allowed="true")) == 20 and PAGE + "/examples?after=50" in end.links
    assert "no-more-examples" in ann.get(PAGE + "/examples?after=1000").notes
    back = ann.post(PAGE + "/retract", end.form(PAGE + "/retract"))
    assert back.headers["location"] == PAGE + "/examples?after=100&said=retracted"
    assert len(standing(server)) == 119 and ann.follow(back).said == "retracted"


def test_examples_as_a_csv(server, make, person):
    make()
    ann = person("teacher")
    form = {"context": {"age": "25+", "late": True}, "arm": "fog", "allowed": False}
    server.call("POST", "/v1/agents/films/examples", form)
    got = ann.get(PAGE + "/examples.csv")
    assert got.headers["content-type"].startswith("text/csv")
    assert got.html == "age,late,arm,allowed\n25+,yes,fog,no\n"


def test_a_page_of_a_large_agent(server, make, person):
    """1,000 arms and many examples: the page shows few of them."""
    arms = [{"id": f"a{i}", "label": f"Arm {i}", "group": f"g{i % 20}"} for i in range(1_000)]
    make("large", arms=arms)
    examples = [
        {"context": {"age": "25+", "late": False}, "arm": f"a{n}", "allowed": n % 2 == 0}
        for n in range(1_000)
    ]
    server.call("POST", "/v1/agents/large/examples", {"examples": examples})
    shown = person("teacher").get("/agents/large/teach")
    assert shown.status == 200 and len(shown.html) < 40_000


def test_after_undo_the_same_form_teaches_again(server, make, person):
    """Of a question that was not filed, and of one that was: however often."""
    make(teaching="random")
    ann = person("teacher")
    form = ann.get(PAGE).form(PAGE + "/say") | {"answer": "denied"}
    for _ in range(3):
        for _ in range(2):  # a double click teaches once
            assert ann.post(PAGE + "/say", form).status == 303
        [one] = standing(server)
        assert one["allowed"] is False
        ann.post(PAGE + "/undo", {"example": str(one["id"])})
        assert not standing(server)
    ann.post(PAGE + "/say", form | {"answer": "allowed"})
    assert [one["allowed"] for one in standing(server)] == [True]


def test_after_undo_the_same_answer_can_be_given_again_and_again(server, make, person):
    make()
    ann = person("teacher")
    form = ann.get(PAGE).form(PAGE + "/answer") | {"answer": "denied"}
    for _ in range(4):
        for _ in range(2):
            ann.post(PAGE + "/answer", form)
        [one] = standing(server)
        ann.post(PAGE + "/undo", {"example": str(one["id"])})
    assert not standing(server)


def test_an_answer_that_another_took_back_does_not_stand(server, make, person):
    make()
    ann, ben = person("teacher"), person("teacher")
    form = ann.get(PAGE).form(PAGE + "/answer")
    ann.post(PAGE + "/answer", form | {"answer": "allowed"})
    ann.post(PAGE + "/undo", {"example": "1"})
    shown = ben.follow(ben.post(PAGE + "/answer", form | {"answer": "denied"}))
    assert shown.said != "disagree" and len(standing(server)) == 1


def test_where_all_is_sure_it_says_so(server, make, person, monkeypatch):
    make()
    ann = person("teacher")
    assert "most-useful" in ann.get(PAGE).notes
    monkeypatch.setattr(
        teach, "progress_of", lambda *given: progress_of(*given)._replace(sure=True)
    )
    notes = ann.get(PAGE).notes
    assert "most-useful" not in notes and {"sure", "all-sure"} <= notes
