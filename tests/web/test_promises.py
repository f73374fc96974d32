from __future__ import annotations

from typing import Any

import pytest

from bridle.web.promises import MOST_ENTRIES, latest_contexts
from tests.web.browsing import no_script

P = "/agents/films/promises"
A = "/v1/agents/films"
CSV = "age,late\n" + "12-17,yes\n18-24,no\n25+,yes\n" * 20
SCRIPT = "<script>alert('x')</script>"


@pytest.fixture
def films(server, make):
    make()
    for age in ("12-17", "18-24", "25+"):
        for arm in ("night", "kite"):
            allowed = arm == "kite" or age == "25+"
            body = {"context": {"age": age, "late": False}, "arm": arm, "allowed": allowed}
            assert server.call("POST", f"{A}/examples", body).status == 201
    return server


def begin(ann: Any, **more: str) -> Any:
    form = {"source": "csv", "csv": CSV, "alpha": "10", "delta": "10", "do": "begin"} | more
    return ann.post(f"{P}/begin", form)


def events(server: Any) -> list[dict[str, Any]]:
    found = server.call("GET", f"{A}/events?limit=1000").json["events"]
    return [one["event"] for one in found]


def answer_all(ann: Any) -> int:
    count = 0
    while (shown := ann.get(f"{P}/question")).status == 200:
        fields = shown.form(f"{P}/answer")
        allowed = "Kite" in shown.text or "25+" in shown.text
        fields["allowed"] = "yes" if allowed else "no"
        last = ann.post(f"{P}/answer", fields)
        count += 1
    assert last.headers["location"] == f"{P}?said=made"
    return count


def test_an_agent_without_promises_says_what_to_do(films, person):
    ann = person("teacher")
    shown = ann.get(P)
    assert "no-certificate" in shown.notes and f"{P}/begin" in shown.links
    assert {"no-audits", "audits-by-admin"} <= shown.notes
    bob = person("auditor").get(P)
    assert f"{P}/begin" not in bob.links and "certificate-by-teacher" in bob.notes
    assert person("admin").get("/agents/nobody/promises").status == 404


def test_a_certificate_by_answering(films, person):
    ann = person("teacher")
    assert begin(ann, on="a week", note="the board asked").headers["location"] == (
        f"{P}/question?said=begun"
    )
    shown = ann.get(f"{P}/question")
    assert (
        shown.value("cases") == "0 of 60" and 'data-key="n"' in shown.html and no_script(shown.html)
    )
    assert f"{P}/question" in ann.get(P).links
    assert ann.get(f"{P}/begin").headers["location"] == f"{P}/question"
    count = answer_all(ann)
    shown = ann.get(P)
    assert shown.value("certificate-alpha") == "10 %"
    assert shown.value("certificate-answers") == f"{count:,}"
    assert shown.value("certificate-on") == "a week"
    assert "The answers to the calibration questions" in shown.value("assumptions")
    assert ann.get(f"{P}/question").headers["location"] == P
    by = {event["event"]: event.get("by") for event in events(films)}
    assert str(by["Certified"]).startswith("a teacher (token ")
    begun = next(e for e in events(films) if e["event"] == "CalibrationBegun")
    assert begun["note"] == "the board asked"


def test_one_answer_for_one_question(films, person):
    ann, eve = person("teacher"), person("teacher")
    begin(ann)
    fields = ann.get(f"{P}/question").form(f"{P}/answer") | {"allowed": "yes"}
    assert ann.post(f"{P}/answer", fields).headers["location"] == f"{P}/question"
    for late in (ann, eve):  # a second press, and somebody who looked at the same question
        again = late.post(f"{P}/answer", fields | {"allowed": "no"})
        assert again.headers["location"] == f"{P}/question?later=1"
    assert "answered-before" in ann.get(f"{P}/question?later=1").notes
    answers = [e["allowed"] for e in events(films) if e["event"] == "Calibrated"]
    assert answers == [True]


def test_answers_that_are_none(films, person):
    ann = person("teacher")
    assert ann.post(f"{P}/answer", {"allowed": "yes", "answers": "0"}).status == 409
    begin(ann)
    for wrong in ({"allowed": "maybe"}, {"allowed": ""}, {"answers": "-1"}, {"answers": "x"}):
        form = {"allowed": "yes", "answers": "0"} | wrong
        assert ann.post(f"{P}/answer", form).status == 422


def test_giving_up_and_dropping_with_why(films, person):
    ann = person("teacher")
    assert ann.post(f"{P}/drop", {"what": "calibration"}).status == 409
    begin(ann)
    gone = ann.post(f"{P}/drop", {"what": "calibration", "note": "a wrong answer"})
    assert gone.headers["location"] == f"{P}?said=dropped"
    assert ann.follow(gone).said == "dropped"
    begin(ann)
    answer_all(ann)
    # A second press of "give up" must not drop the certificate.
    assert ann.post(f"{P}/drop", {"what": "calibration"}).status == 409
    assert ann.post(f"{P}/drop", {"what": "certificate"}).status == 422  # and why?
    assert ann.post(f"{P}/drop", {"what": "all"}).status == 422
    assert ann.post(f"{P}/drop", {"what": "certificate", "note": "drift"}).status == 303
    assert "no-certificate" in ann.get(P).notes
    last = {event["event"]: event for event in events(films)}
    assert last["CalibrationDropped"]["note"] == "a wrong answer"
    assert last["Uncertified"]["note"] == "drift" and "a teacher" in last["Uncertified"]["by"]


def test_looking_first_begins_nothing(films, person):
    ann = person("teacher")
    shown = begin(ann, do="look", on=f'"{SCRIPT}', note=SCRIPT)
    assert shown.status == 200 and shown.value("cost-cases") == "60"
    assert "12-17,yes" in shown.html and no_script(shown.html) and SCRIPT not in shown.html
    assert "CalibrationBegun" not in {event["event"] for event in events(films)}


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"csv": ""}, "There is no csv"),
        ({"csv": "age,late\nold,yes"}, "Line 2, column 'age'"),
        ({"csv": CSV[:36]}, "There are 3 cases, and 22 are the least"),
        ({"alpha": "x"}, "'alpha'"),
        ({"delta": "100"}, "'delta'"),
        ({"alpha": "nan"}, "'alpha'"),
        ({"source": "air"}, "where the contexts come from"),
        ({"on": "x" * 1_001}, "longer than 1,000"),
        ({"note": "x" * 1_001}, "longer than 1,000"),
        ({"source": "log", "number": "0"}, "'number'"),
        ({"source": "log", "number": "50"}, "There are 0 cases, and 22 are the least"),
    ],
)
def test_what_is_wrong_with_a_draft_is_said_and_nothing_is_lost(films, person, form, said):
    ann = person("teacher")
    shown = begin(ann, **form)
    assert shown.status in (409, 422) and said in shown.alert
    if "csv" not in form:
        assert "25+,yes" in shown.html
    assert f'value="{form.get("alpha", "10")}"' in shown.html


def test_a_csv_as_a_file(films, person):
    ann = person("teacher")
    form = {"source": "log", "alpha": "10", "delta": "10", "do": "begin"}
    begun = ann.upload(f"{P}/begin", form, {"file": ("week <46>.csv", CSV.encode())})
    assert begun.status == 303
    answer_all(ann)
    assert ann.get(P).value("certificate-on") == "week <46>.csv"
    broken = ann.upload(f"{P}/begin", form, {"file": ("x.csv", b"\xff\xfe\x00")})
    assert broken.status == 400 and "UTF-8" in broken.alert


def decide(server: Any, age: str, **more: Any) -> None:
    body = {"context": {"age": age, "late": True}, **more}
    assert server.call("POST", f"{A}/decisions", body).status == 200


def test_contexts_of_the_log_since_the_last_lesson(films, person):
    decide(films, "12-17")
    body = {"context": {"age": "25+", "late": True}, "arm": "fog", "allowed": True}
    assert films.call("POST", f"{A}/examples", body).status == 201
    for age in ["18-24"] * 20 + ["25+"] * 10:
        decide(films, age)
    schema = films.runner.run(films.service.do("films", lambda work: work.aggregate.agent.schema))
    found = latest_contexts(films.store, "films", schema, MOST_ENTRIES)
    assert [one["age"] for one in found] == ["18-24"] * 20 + ["25+"] * 10
    assert [one["age"] for one in latest_contexts(films.store, "films", schema, 12)] == (
        ["18-24"] * 2 + ["25+"] * 10
    )
    ann = person("teacher")
    begun = begin(ann, source="log", number="300", csv="")
    assert begun.status == 303
    assert ann.get(f"{P}/question").value("cases").endswith("of 30")
    event = next(e for e in events(films) if e["event"] == "CalibrationBegun")
    assert event["on"] == "the last 30 contexts of decisions since the last lesson"


def test_a_decision_that_asked_counts_once_and_not_after_its_lesson(server, make):
    make("films", budget=5, ask_at_most=1)
    answer = server.call(
        "POST", f"{A}/decisions", {"context": {"age": "12-17", "late": True}, "id": "d-1"}
    )
    assert answer.json["question"] is not None
    question = answer.json["question"]["id"]
    schema = server.runner.run(server.service.do("films", lambda work: work.aggregate.agent.schema))
    assert len(latest_contexts(server.store, "films", schema, 100)) == 1
    said = {"answer": "allowed"}
    told = server.call("POST", f"{A}/questions/{question}/answer", said)
    assert told.status == 200, told.body
    # It is settled after the lesson, and its context was in it.
    assert latest_contexts(server.store, "films", schema, 100) == []


def test_who_may(films, person):
    bob = person("auditor")
    begin(person("teacher"))
    assert bob.get(P).status == 200 and f"{P}/question" not in bob.get(P).links
    for path in ("begin", "question"):
        assert bob.get(f"{P}/{path}").status == 403
    for path in ("begin", "answer", "drop"):
        assert bob.post(f"{P}/{path}", {"what": "calibration"}).status == 403


def test_names_from_outside_are_text(server, make, person):
    features = [{"kind": "category", "name": SCRIPT, "values": ["<b>1", "2"]}]
    arms = [{"id": "x", "label": f"{SCRIPT}1", "group": f"{SCRIPT}2"}, "y"]
    make("films", arms=arms, features=features)
    ann = person("admin")
    rows = f'"{SCRIPT}"\n' + "<b>1\n2\n" * 40
    assert (
        ann.post(
            f"{P}/begin",
            {
                "source": "csv",
                "csv": rows,
                "alpha": "10",
                "delta": "10",
                "on": SCRIPT,
                "note": SCRIPT,
            },
        ).status
        == 303
    )
    pages = [ann.get(f"{P}/question"), ann.get(P)]
    ann.post(f"{P}/drop", {"what": "calibration", "note": SCRIPT})
    pages += [ann.get(f"{P}/begin")]
    for shown in pages:
        assert shown.status in (200, 303) and no_script(shown.html) and SCRIPT not in shown.html


def test_exact_denials_are_among_what_always_holds(make, person):
    make()
    shown = person("auditor").get("/agents/films/promises")
    assert "exact-denials" in shown.notes
    make("loose", exact_denials=False)
    shown = person("auditor").get("/agents/loose/promises")
    assert "no-exact-denials" in shown.notes
    assert "certificate-cost" in person("teacher").get("/agents/films/promises").notes
