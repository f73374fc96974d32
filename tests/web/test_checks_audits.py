from __future__ import annotations

from typing import Any

import pytest

from bridle.api.replies import StandingShown
from bridle.store.maintenance import erase
from bridle.web.checks import PER_PAGE, PendingAudit, _in_words, audit_words, whole_bounds
from tests.web.browsing import no_script

P = "/agents/films/promises/audits"
A = "/v1/agents/films"
SCRIPT = "<script>alert('x')</script>"
BEGIN = {"q": "100", "delta": "5", "length": "10", "sure": "yes"}


@pytest.fixture
def films(server, make):
    # Without examples nothing is denied, and the agent plays.
    make(sigma=0.5, limits="linear")
    return server


def decide(server: Any, count: int) -> None:
    for n in range(count):
        context = {"age": ("12-17", "18-24", "25+")[n % 3], "late": n % 2 == 0}
        answer = server.call("POST", f"{A}/decisions", {"context": context})
        assert answer.json["outcome"] == "decision", answer.body


def waiting(shown: Any) -> list[str]:
    return [one["action"] for one in shown.forms if str(one["action"]).startswith(f"{P}/")]


def test_before_audits_begin(films, person):
    shown = person("admin").get(P)
    assert shown.form(P)["q"] == "10"
    for role in ("teacher", "auditor"):
        shown = person(role).get(P)
        assert shown.status == 200 and "audits-by-admin" in shown.notes
        assert person(role).post(P, BEGIN).status == 403
    assert person("teacher").get("/agents/films/audits").headers["location"] == P


def test_beginning_is_for_life_and_the_form_says_so(films, person):
    ann = person("admin")
    assert ann.post(P, BEGIN | {"sure": ""}).status == 422
    for wrong in ({"q": "0"}, {"q": "101"}, {"q": "x"}, {"delta": "0"}, {"length": "9"}):
        assert ann.post(P, BEGIN | wrong).status == 422
    assert ann.post(P, BEGIN).headers["location"] == f"{P}?said=begun"
    assert ann.post(P, BEGIN).status == 409
    shown = films.call("GET", f"{A}/audit").json
    assert (shown["q"], shown["delta"]) == (1.0, 0.05)
    assert shown["windows"] == [{"length": 10, "delta": 0.05}]
    shown = ann.get(P)
    assert shown.value("decisions") == "0" and "none-waits" in shown.notes


def test_without_blocks(films, person):
    ann = person("admin")
    ann.post(P, BEGIN | {"length": ""})
    assert films.call("GET", f"{A}/audit").json["windows"] == []
    assert "blocks" not in ann.get(P).notes


def test_judging(films, person):
    ann = person("admin")
    ann.post(P, BEGIN)
    decide(films, 25)
    eve = person("teacher")
    shown = eve.get(P)
    assert shown.has(data_audit="not shown")
    assert (shown.value("at-least"), shown.value("at-most")) == ("0", "25")
    assert len(waiting(shown)) == PER_PAGE and shown.value("range") == "1 to 10 of 25"
    assert (
        "age 12-17" in shown.one(data_decision="1").text
        and "Kite Days" in shown.html + eve.get(f"{P}?after=10").html
    )
    assert no_script(shown.html) and 'data-key="n"' in shown.html
    # The last page, one after the other; then it is gone.
    last = f"{P}?after=20"
    for n in range(5):
        action = waiting(eve.get(last))[0]
        form = {"allowed": "no" if n else "yes", "after": "20", "level": "1"}
        assert eve.post(action, form).headers["location"] == f"{P}?after=20&level=1#waiting"
        assert eve.post(action, form).status == 303  # a second press
        assert eve.post(action, form | {"allowed": "no" if not n else "yes"}).status == 409
    shown = eve.get(last)
    assert shown.value("range") == "11 to 20 of 20" and len(waiting(shown)) == PER_PAGE
    audit = films.call("GET", f"{A}/audit").json
    assert (audit["total"]["found"], audit["total"]["judged"]) == (4, 5)
    events = films.call("GET", f"{A}/events?limit=1000").json["events"]
    judged = [one["event"] for one in events if one["kind"] == "Audited"]
    assert all(one["by"].startswith("a teacher (token ") for one in judged)


def test_all_judged_well_is_shown_good_and_badly_an_alarm(films, person):
    ann = person("admin")
    ann.post(P, BEGIN)
    decide(films, 20)
    for n in range(20):
        action = waiting(ann.get(P))[0]
        ann.post(action, {"allowed": "yes" if n < 10 else "no"})
    shown = ann.get(f"{P}?level=100")
    assert shown.has(data_audit="shown good") and "no-alarm" in shown.notes
    shown = ann.get(f"{P}?level=10")
    assert shown.has(data_audit="alarm") and shown.value("at-least") == "10"
    block = shown.one(data_block="11").text
    assert "11 to 20" in block and "grants only 1" in block
    assert "none-waits" in shown.notes
    assert "At least 10" in ann.get("/agents/films/promises").one(data_audit="alarm").text


def test_bad_addresses_and_answers(films, person):
    ann = person("admin")
    ann.post(P, BEGIN)
    decide(films, 1)
    for query in ("level=x", "level=-1", "level=101", "after=-1", "after=x"):
        assert ann.get(f"{P}?{query}").status == 422
    assert ann.get(f"{P}?after=1000").status == 200
    assert ann.post(f"{P}/1", {"allowed": "maybe"}).status == 422
    assert ann.post(f"{P}/1", {}).status == 422
    assert ann.post(f"{P}/99", {"allowed": "yes"}).status == 409
    bob = person("auditor")
    assert bob.post(f"{P}/1", {"allowed": "yes"}).status == 403
    assert not waiting(bob.get(P)) and bob.get(P).has(data_decision="1")


def test_names_from_outside_are_text(server, make, person):
    features = [{"kind": "category", "name": SCRIPT, "values": ["<b>1", "2"]}]
    make(
        "films", arms=[{"id": "x", "label": SCRIPT}], features=features, sigma=0.5, limits="linear"
    )
    ann = person("admin")
    ann.post(P, BEGIN)
    answer = server.call("POST", f"{A}/decisions", {"context": {SCRIPT: "<b>1"}, "id": "a~b"})
    assert answer.json["outcome"] == "decision"
    shown = ann.get(P)
    assert no_script(shown.html) and SCRIPT not in shown.html and "<b>1" not in shown.html
    assert ann.post(waiting(shown)[0], {"allowed": "yes"}).status == 303


def test_what_was_erased_waits_no_more_or_says_so(films, person):
    ann = person("admin")
    ann.post(P, BEGIN)
    decide(films, 2)
    erase(films.store, "films", decisions=["1"])
    shown = ann.get(P)
    assert shown.value("range") == "1 to 1 of 1" and waiting(shown) == [f"{P}/2"]
    # It may be erased between the two looks that the page takes.
    [gone] = films.runner.run(films.service.do("films", lambda work: _in_words(work, [1], {})))
    assert gone == PendingAudit("1", None, None, [])


@pytest.mark.parametrize(
    ("state", "lower", "upper", "said"),
    [
        ("shown good", 0.2, 7.9, "At most 7 broke"),
        ("not shown", 1.0000000001, 12.0, "Between 1 and 12 broke"),
        ("alarm", 11.1, 20.0, "At least 12 broke the limits, and a level of 0.5 % grants only 5.5"),
    ],
)
def test_bounds_are_told_as_whole_numbers_that_hold(state, lower, upper, said):
    standing = StandingShown(
        state=state,
        level=0.005,
        granted=5.5,
        lower=lower,
        upper=upper,
        first=1,
        steps=1_100,
        found=1,
        judged=10,
        pending=0,
        delta=0.05,
    )
    assert said in audit_words(standing)
    least, most = whole_bounds(standing)
    assert lower <= least + 1e-6 and most <= upper
