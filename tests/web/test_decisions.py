from __future__ import annotations

import csv
import io
import json

import pytest

from bridle.errors import Busy
from bridle.store.maintenance import erase
from bridle.web import decisions
from tests.web.browsing import no_script
from tests.web.films import call, decide
from tests.web.streaming import stream

SCRIPT = "<script>alert(1)</script>"
FORMULA = '=HYPERLINK("http://evil.test")'


@pytest.fixture
def films(server, make):
    """An agent of which kite is allowed to all, and nothing else."""
    make()
    ages = ("12-17", "18-24", "25+")
    call(
        server,
        "POST",
        "/v1/agents/films/examples",
        {
            "examples": [
                {"context": {"age": age, "late": late}, "arm": arm, "allowed": arm == "kite"}
                for age in ages
                for late in (True, False)
                for arm in ("night", "fog", "kite")
            ]
        },
    )
    return "films"


def shown_ids(shown):
    start = "/agents/films/decisions/"
    return [link.removeprefix(start) for link in shown.links if link.startswith(start)]


def exported(person, query=""):
    answer = stream(person, f"/agents/films/decisions.csv{query}")
    assert answer.status == 200
    return answer, list(csv.DictReader(io.StringIO(answer.body.decode(), newline="")))


# -- the list --------------------------------------------------------------------------------


def test_the_newest_first_page_by_page(server, films, person):
    for n in range(120):
        decide(server, reward=0.5 if n % 2 else None)
    ann = person("auditor")
    first = ann.get("/agents/films/decisions")
    assert first.status == 200 and no_script(first.html)
    assert shown_ids(first) == [str(n) for n in range(120, 70, -1)]
    one, other = first.one(data_decision="120"), first.one(data_decision="119")
    assert one.data("outcome") == "decision" and "Kite Days (Comedy)" in one.text
    assert one.one(data_name="reward").text == "0.5"
    assert other.one(data_name="reward").text != "0.5"
    [older] = [link for link in first.links if "before=" in link]
    second = ann.get(older)
    assert shown_ids(second) == [str(n) for n in range(70, 20, -1)]
    [older] = [link for link in second.links if "before=" in link]
    assert shown_ids(ann.get(older)) == [str(n) for n in range(20, 0, -1)]
    assert not [link for link in ann.get(older).links if "before=" in link]


def test_filters(server, films, person):
    decide(server, reward=0.25)  # 1
    decide(server, among=["night", "fog"])  # 2: nothing may be played
    decide(server, id="ann:1")
    decide(server, reward=0.75)  # 3 by its number
    ann = person("auditor")

    def found(query):
        shown = ann.get(f"/agents/films/decisions?{query}")
        assert shown.status == 200, shown.text
        return shown_ids(shown)

    everything = found("")
    assert len(everything) == 4 and everything[1] == "ann:1"
    assert found("id=ann:1") == ["ann:1"] and found("id=%20ann:1%20") == ["ann:1"]
    assert found("outcome=abstention") == [everything[2]]
    assert found("outcome=decision") == [everything[0], "ann:1", everything[3]]
    assert found("outcome=question") == []
    assert found("arm=kite") == found("outcome=decision") == found("arm=COMEDY")
    assert found("arm=Horror") == [] and found("arm=days&reward=no") == ["ann:1"]
    assert found("reward=yes") == [everything[0], everything[3]]
    # They came at 13:46:40, and then every minute.
    assert found("from=1970-01-12T13:48") == everything[:2]
    assert found("to=1970-01-12T13:46:40") == everything[3:]
    assert found("from=1970-01-12T13:47&to=1970-01-12T13:49") == everything[1:3]
    assert found("from=1980-01-01T00:00") == []


def test_filters_stay_in_the_form_and_in_every_link(server, films, person):
    for _ in range(60):
        decide(server)
    shown = person("auditor").get("/agents/films/decisions?arm=kite&reward=no&outcome=decision")
    assert shown.form("/agents/films/decisions")["arm"] == "kite"
    assert '<option value="no" selected>' in shown.html
    for link in shown.links:
        if "before=" in link or ".csv" in link or ".jsonl" in link:
            assert "arm=kite" in link and "reward=no" in link and "outcome=decision" in link


def test_a_search_that_finds_little_says_how_far_it_looked(server, films, person, monkeypatch):
    monkeypatch.setattr(decisions, "A_PAGE", 10)
    decide(server, among=["night"])
    many = [{"context": {"age": "25+", "late": False}}] * 1_000
    for _ in range(3):
        call(server, "POST", "/v1/agents/films/decisions", {"decisions": many})
    ann = person("auditor")
    shown = ann.get("/agents/films/decisions?outcome=abstention")
    assert not shown_ids(shown) and "none-so-far" in shown.notes
    assert shown.value("found") == "0" and shown.value("back-to")
    [further] = [link for link in shown.links if "before=" in link]
    assert shown_ids(ann.get(further)) == ["1"]


@pytest.mark.parametrize(
    "query",
    [
        "arm=nobody",
        "outcome=victory",
        "reward=maybe",
        "from=yesterday",
        "from=1970-01-02T00:00&to=1970-01-01T00:00",
        "arm=%3Cscript%3Ealert(1)%3C/script%3E",
    ],
)
def test_what_cannot_be_searched_for(server, films, person, query):
    decide(server)
    ann = person("auditor")
    shown = ann.get(f"/agents/films/decisions?{query}")
    assert shown.status == 422 and no_script(shown.html) and "must be" in shown.alert
    name = query.partition("=")[0]
    assert name in shown.form("/agents/films/decisions")  # what was typed can be mended
    for form in ("csv", "jsonl"):
        assert ann.get(f"/agents/films/decisions.{form}?{query}").status == 422
    assert ann.get("/agents/films/decisions?before=x").status == 422


def test_empty_states(server, make, person):
    make()
    ann = person("auditor")
    shown = ann.get("/agents/films/decisions")
    assert "no-decision" in shown.notes and ".csv" not in shown.html
    assert "no-such-id" in ann.get("/agents/films/decisions?id=7").notes
    assert "none-found" in ann.get("/agents/films/decisions?outcome=decision").notes


def test_who_may_not(server, films, person):
    for path in ("decisions", "decisions.csv", "decisions.jsonl"):
        assert person("teacher").get(f"/agents/films/{path}").status == 403
        assert person("auditor", ("songs",)).get(f"/agents/films/{path}").status == 403
        assert person("auditor").get(f"/agents/nothing/{path}").status == 404


def test_what_was_erased(server, serve, films, person):
    decide(server, id="ann:1", reward=0.5)
    decide(server)
    erase(server.store, "films", decisions=["ann:1"])
    shown = person("auditor").get("/agents/films/decisions")
    assert shown.one(data_decision="ann:1").data("outcome") == "erased"
    assert "ann:1" in shown_ids(shown)
    assert shown.text.count("Kite Days") == 1
    assert shown_ids(person("auditor").get("/agents/films/decisions?id=ann:1")) == ["ann:1"]


# -- exports ---------------------------------------------------------------------------------


def test_a_csv_of_all_that_matches(server, films, person):
    decide(server, reward=0.25, propensity=True)
    decide(server, among=["night"])
    decide(server, "12-17", id="ann:1")
    ann = person("auditor")
    answer, rows = exported(ann)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert 'filename="films-decisions.csv"' in answer.headers["content-disposition"]
    assert [row["id"] for row in rows] == ["1", "2", "ann:1"]  # the oldest first
    assert rows[0] == {
        "entry": rows[0]["entry"],
        "id": "1",
        "time (UTC)": "1970-01-12T13:46:40+00:00",
        "outcome": "decision",
        "arm": "kite",
        "name of the arm": "Kite Days (Comedy)",
        "item": "",
        "context: age": "25+",
        "context: late": "no",
        "chance": rows[0]["chance"],
        "version": rows[0]["version"],
        "reward": "0.25",
        "what became of the reward": "came",
        "chance of a check": rows[0]["chance of a check"],
        "check": "",
    }
    assert float(rows[0]["chance"]) == pytest.approx(1.0, abs=1e-12)
    assert 0.0 < float(rows[0]["chance of a check"]) < 1.0 and rows[1]["chance of a check"] == ""
    assert rows[1]["outcome"] == "abstention" and rows[1]["arm"] == ""
    _, rows = exported(ann, "?outcome=decision&reward=no")
    assert [row["id"] for row in rows] == ["ann:1"]
    _, rows = exported(ann, "?id=ann:1")
    assert [row["context: age"] for row in rows] == ["12-17"]
    _, rows = exported(ann, "?from=1980-01-01T00:00")
    assert rows == []


def test_json_lines(server, films, person):
    decide(server, reward=0.25)
    decide(server, among=["night"])
    answer = stream(person("auditor"), "/agents/films/decisions.jsonl")
    one, two = [json.loads(line) for line in answer.body.decode().splitlines()]
    assert one["id"] == "1" and one["context"] == {"age": "25+", "late": False}
    assert one["reward"] == 0.25 and one["reward_outcome"] == "came" and not one["erased"]
    assert 0.0 < one["coin"] < 1.0 and one["check"] is None
    assert two["outcome"] == "abstention" and two["arm"] is None and two["reward"] is None


def test_an_export_is_made_in_pieces_and_ends(server, films, person, monkeypatch):
    many = [{"context": {"age": "25+", "late": False}}] * 1_000
    call(server, "POST", "/v1/agents/films/decisions", {"decisions": many})
    monkeypatch.setattr(decisions, "A_PIECE", 100)
    pieces = []

    async def during(number):
        pieces.append(number)  # what is decided meanwhile is no part of it
        await server.service.do("films", lambda work: None)

    answer = stream(person("auditor"), "/agents/films/decisions.csv", during=during)
    assert len(answer.body.splitlines()) == 1_001 and len(pieces) > 10


def test_a_busy_service_only_makes_an_export_wait(server, films, person, monkeypatch):
    decide(server)
    real, tries = decisions.search_forward, []

    def search_forward(*given):
        tries.append(given)
        if len(tries) == 1:
            raise Busy(9)
        return real(*given)

    monkeypatch.setattr(decisions, "search_forward", search_forward)
    _, rows = exported(person("auditor"))
    assert [row["id"] for row in rows] == ["1"] and len(tries) == 2


def test_no_cell_is_a_formula_and_no_name_is_markup(server, make, person):
    arms = [{"id": "-1+1", "label": FORMULA, "group": SCRIPT}]
    features = [
        {"kind": "category", "name": "@sum", "values": ["+1", SCRIPT]},
        {"kind": "number", "name": "x"},
    ]
    make(arms=arms, features=features, policy={"kind": "Uniform"}, reward_range=[-1, 1])
    for value in ("+1", SCRIPT):
        body = {"context": {"@sum": value, "x": -2.5}, "id": f"-{len(value)}"}
        made = call(server, "POST", "/v1/agents/films/decisions", body)
        path = f"/v1/agents/films/decisions/{made['id']}/reward"
        call(server, "POST", path, {"value": -0.5})
    ann = person("auditor")
    shown = ann.get("/agents/films/decisions")
    assert no_script(shown.html) and SCRIPT in shown.text and FORMULA in shown.text
    _, rows = exported(ann)
    assert rows[0]["arm"] == "'-1+1" and rows[0]["name of the arm"].startswith("'=HYPERLINK")
    assert rows[0]["id"] == "'-2" and rows[0]["context: @sum"] == "'+1"
    # A number is a number, below zero, too.
    assert rows[0]["context: x"] == "-2.5" and rows[0]["reward"] == "-0.5"
    assert decisions._cell("  =1") == "'  =1" and decisions._cell("\t=1") == "'\t=1"


def test_an_export_holds_what_was_erased_without_its_content(server, films, person):
    decide(server, id="ann:1")
    erase(server.store, "films", decisions=["ann:1"])
    _, [row] = exported(person("auditor"))
    assert row["outcome"] == "decision, erased" and row["id"] == "ann:1" and row["arm"] == ""


@pytest.fixture
def in_doubt(server, make):
    """An agent that plays kite and files what it would like to know along with it."""
    make(budget=50, on_doubt="play_safe", answer_price=0.0)
    for late in (True, False):
        for age in ("12-17", "18-24", "25+"):
            body = {"context": {"age": age, "late": late}, "arm": "kite", "allowed": True}
            call(server, "POST", "/v1/agents/films/examples", body)
    return decide(server, reward=0.75)


def test_a_question_earns_nothing(server, in_doubt, person):
    ann = person("auditor")
    _, rows = exported(ann)
    assert {row["outcome"]: row["reward"] for row in rows} == {"decision": "0.75", "question": ""}
    came = stream(ann, "/agents/films/decisions.jsonl")
    lines = [json.loads(line) for line in came.body.decode().splitlines()]
    assert {line["outcome"]: line["reward"] for line in lines} == {
        "decision": 0.75,
        "question": None,
    }
    shown = ann.get("/agents/films/decisions")
    assert shown.text.count("0.75") == 1
    assert shown.has(data_outcome="question") and shown.has(data_outcome="decision")
    for query, outcomes in (("yes", ["decision"]), ("no", [])):
        assert [row["outcome"] for row in exported(ann, f"?reward={query}")[1]] == outcomes
    live = ann.get("/agents/films/live")
    assert live.text.count("earned 0.75") == 1 and live.has(data_outcome="question")


def test_where_the_clock_was_set_back_no_other_time_is_shown(server, films, person):
    server.clock.now = 1_000_000.0  # 1970-01-12T13:46:40
    for _ in range(20):
        decide(server)
    server.clock.now = 1_000_000.0 - 86_400.0
    for _ in range(5):
        decide(server)
    server.clock.now = 1_000_000.0 + 3_600.0
    for _ in range(20):
        decide(server)
    ann = person("auditor")
    query = "?from=1970-01-12T13:46:40&to=1970-01-12T18:00"
    found = [row["time (UTC)"] for row in exported(ann, query)[1]]
    assert found and all(when.startswith("1970-01-12") for when in found)
    assert "clock" in ann.get(f"/agents/films/decisions{query}").notes
    assert "clock" not in ann.get("/agents/films/decisions").notes
