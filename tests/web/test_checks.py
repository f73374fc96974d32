from __future__ import annotations

from typing import Any

import pytest

from bridle.agent.purse import Purse
from bridle.api.replies import PriceShown
from bridle.web.promises import price_words
from tests.web.browsing import Element, Shown, no_script
from tests.web.films import call, decide

P = "/agents/films"
A = "/v1/agents/films"
SCRIPT = "<script>alert('x')</script>"


@pytest.fixture
def films(server: Any, make: Any) -> Any:
    """An agent that believes comedies to be fine for all; what it plays has a coin."""
    make()
    taught(server)
    return server


def taught(server: Any) -> None:
    for age in ("12-17", "18-24", "25+"):
        for late in (False, True):
            for arm in ("night", "kite"):
                body = {"context": {"age": age, "late": late}, "arm": arm, "allowed": arm == "kite"}
                call(server, "POST", f"{A}/examples", {**body, "item": f"taught {age} {late}"})


def waiting(server: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call(server, "GET", f"{A}/checks")["checks"]
    return found


def play_until(server: Any, checks: int) -> None:
    """Decide about new items until so many plays wait; the agent's seed is fixed."""
    for n in range(400):
        if len(waiting(server)) >= checks:
            return
        decide(server, item=f"new {n}")
    raise AssertionError("no coin has fallen")


def promised(server: Any, alpha: float = 0.01, q: float = 0.5) -> None:
    call(server, "PUT", f"{A}/promise", {"alpha": alpha, "q": q})


def judged(ann: Any, answer: str, **more: str) -> Any:
    fields = ann.get(f"{P}/checks").form(f"{P}/checks/judge")
    return ann.post(f"{P}/checks/judge", fields | {"answer": answer} | more)


def status(shown: Shown) -> Element:
    """The line at the head of an agent's pages."""
    [line] = [one for one in shown.all() if "data-status" in one.attrs]
    return line


def test_nothing_waits(films, person):
    shown = person("auditor").get(f"{P}/checks")
    assert {"none-waits", "none-drawn"} <= shown.notes
    assert shown.has(data_unit="Comedy")
    assert no_script(shown.html)


def test_judge_the_oldest_first(films, person):
    play_until(films, 2)
    first, second = waiting(films)[:2]
    ann = person("teacher")
    shown = ann.get(f"{P}/checks")
    asked = shown.one(data_check=str(first["decision"]))
    assert asked.data("arm") == "kite" and asked.data("waiting") == "2"
    assert asked.data("item") == str(first["item"]) and "Kite Days" in asked.text
    assert " in " in shown.one(data_value="coin").data("coin")
    assert 'data-key="a y"' in shown.html and 'data-key="s"' in shown.html
    skipped = ann.get(f"{P}/checks?after=1")
    assert skipped.one(data_check=str(second["decision"])).data("item") == str(second["item"])
    assert "seen-all" in ann.get(f"{P}/checks?after=2").notes
    answer = judged(ann, "denied", note="it is a rerun")
    after = ann.follow(answer)
    assert after.one(data_allowed="false").data("last")
    assert after.one(data_check=str(second["decision"])).data("waiting") == "1"
    [event] = [
        one["event"]
        for one in call(films, "GET", f"{A}/events?limit=1000")["events"]
        if one["event"].get("check") == first["decision"]
    ]
    assert event["allowed"] is False and event["note"] == "it is a rerun"
    assert event["by"].startswith("a teacher (token ")
    assert (status(after).data("judged"), status(after).data("found")) == ("1", "1")


def test_a_second_press_changes_nothing(films, person):
    play_until(films, 2)
    ann, bob = person("teacher"), person("auditor")
    fields = ann.get(f"{P}/checks").form(f"{P}/checks/judge") | {"answer": "allowed"}
    for _ in range(2):
        assert "last=" in ann.post(f"{P}/checks/judge", fields).headers["location"]
    other = bob.post(f"{P}/checks/judge", fields | {"answer": "denied"})
    assert bob.follow(other).said == "before"
    assert call(films, "GET", A)["checks"] | {"drawn": 0} == {
        "open": 1,
        "drawn": 0,
        "judged": 1,
        "found": 0,
    }
    assert ann.post(f"{P}/checks/judge", fields | {"answer": "maybe"}).status == 422


def test_undo_and_say_otherwise(films, person):
    play_until(films, 1)
    item = waiting(films)[0]["item"]
    ann = person("teacher")
    shown = ann.follow(judged(ann, "allowed"))
    before = call(films, "GET", A)["examples"]
    shown = ann.follow(ann.post(f"{P}/teach/undo", shown.form(f"{P}/teach/undo")))
    assert shown.one(data_allowed="true").data("undone")
    assert call(films, "GET", A)["examples"] == before - 1
    shown = ann.follow(ann.post(f"{P}/teach/say", shown.form(f"{P}/teach/say")))
    last = call(films, "GET", f"{A}/examples?after={before - 1}")["examples"][-1]
    assert (last["item"], last["allowed"]) == (item, False)


def test_an_auditor_judges_and_cannot_undo(films, person):
    play_until(films, 1)
    bob = person("auditor")
    shown = bob.follow(judged(bob, "allowed"))
    assert "undo-by-teacher" in shown.notes
    assert not [form for form in shown.forms if "undo" in str(form["action"])]


# -- the line at the head ------------------------------------------------------------------------


def stands(person: Any, page: str = "limits") -> Element:
    return status(person.get(f"{P}/{page}"))


@pytest.mark.parametrize(
    "page",
    [
        "teach",
        "teach/examples",
        "teach/bulk",
        "limits",
        "limits/what-if",
        "dial",
        "live",
        "decisions",
        "promises",
        "promises/audits",
        "promises/begin",
        "promises/keep",
        "settings",
        "settings/rules",
        "checks",
        "decisions/nobody",
    ],
)
def test_every_page_of_an_agent_says_where_it_stands(films, person, page):
    line = stands(person("admin"), page)
    assert (line.data("status"), line.data("tone")) == ("checked", "plain")
    assert (line.data("judged"), line.data("found")) == ("0", "0")
    assert line.one(href=f"{P}/checks").text


def test_checks_that_are_off_are_said_to_be(server, make, person):
    make(checks=0)
    line = stands(person("admin"))
    assert (line.data("status"), line.data("tone")) == ("off", "warn")
    shown = person("teacher").get(f"{P}/checks")
    assert {"checks-off", "promise-by-admin"} <= shown.notes


def test_a_dial_has_no_checks(server, make, person):
    make(policy={"kind": "BehaviorConstrained", "sigma": 0.5, "v": 0.25})
    assert stands(person("admin")).data("status") == "unlimited"


def test_checks_that_are_used_up(server, make, person):
    make(checks=1)
    taught(server)
    play_until(server, 1)
    line = stands(person("admin"))
    assert (line.data("status"), line.data("waiting")) == ("used up", "1")


def test_a_promise_that_is_kept_careful_frozen(server, make, person):
    films = server
    make(checks=0)  # but for the promise's own
    taught(films)
    promised(films, q=0.1)
    ann = person("teacher")
    line = stands(ann)
    assert (line.data("status"), line.data("tone")) == ("playing", "yes") and "1 %" in line.text
    play_until(films, 1)
    judged(ann, "denied")
    line = stands(ann)
    assert (line.data("status"), line.data("tone")) == ("cautious", "warn")
    assert (line.data("judged"), line.data("found")) == ("1", "1") and "1 play in 3" in line.text
    # It began with 10, of which this one took 10: the next takes more than is left.
    for n in range(200):
        decide(films, item=f"more {n}")
        if call(films, "GET", A)["promise"] == "frozen":
            break
    line = stands(ann)
    assert (line.data("status"), line.data("found")) == ("frozen", "1")
    assert "fewer if checks are judged" in line.text
    judged(ann, "denied")
    line = stands(ann)
    assert (line.data("status"), line.data("tone")) == ("frozen", "no")
    assert line.data("found") == "2"
    assert "frozen" in ann.get(f"{P}/checks").notes


# -- the promise ---------------------------------------------------------------------------------


def test_the_price_comes_before_the_promise(films, person):
    ann = person("admin")
    assert f"{P}/promises/keep" in ann.get(f"{P}/promises").links
    form = ann.get(f"{P}/promises/keep").form(f"{P}/promises/price")
    shown = ann.post(f"{P}/promises/price", form | {"level": "2", "every": "40"})
    assert shown.value("level") == "2 in 100"
    # alpha T + b + 1/q = 400 + 40 + 40, and q T to 1.5 q T checks
    price = shown.one(data_value="price").text
    assert "20,000 decisions" in price and "480 plays" in price
    assert "500 to 750 plays" in price and "1 play in 40" in price
    assert "150 decisions at a time" in price and no_script(shown.html)
    assert call(films, "GET", f"{A}/promise")["promise"] is None
    answer = ann.post(f"{P}/promises/keep", shown.form(f"{P}/promises/keep") | {"note": "board"})
    shown = ann.follow(answer)
    assert shown.said == "promised" and status(shown).data("judged") == "0"
    kept = call(films, "GET", f"{A}/promise")["promise"]
    assert (kept["alpha"], kept["q"]) == (0.02, 0.025)
    assert (shown.value("promise-bound"), shown.value("promise-steps")) == ("80", "0")


def test_who_may_switch_it_on(films, person):
    ann = person("teacher")
    form = ann.get(f"{P}/promises/keep").form(f"{P}/promises/price")
    shown = ann.post(f"{P}/promises/price", form)
    assert "by-admin" in shown.notes
    assert ann.post(f"{P}/promises/keep", form).status == 403
    promised(films)
    assert ann.post(f"{P}/promises/unkeep", {"note": "x"}).status == 403
    assert call(films, "GET", f"{A}/promise")["promise"] is not None


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("level", "0", "[0.0001, 100]"),
        ("level", "many", "'many'"),
        ("every", "0.5", "[1, 1e+06]"),
        ("lag", "-1", "[0, 1000000]"),
        ("steps", SCRIPT, "&lt;script&gt;"),
    ],
)
def test_what_is_no_promise(films, person, field, value, said):
    ann = person("admin")
    form = ann.get(f"{P}/promises/keep").form(f"{P}/promises/price")
    shown = ann.post(f"{P}/promises/price", form | {field: value})
    assert shown.status == 422 and said in (shown.html if "&" in said else shown.alert)
    assert no_script(shown.html) and shown.form(f"{P}/promises/price")


def test_drop_it_with_a_reason(films, person):
    promised(films)
    ann = person("admin")
    assert ann.post(f"{P}/promises/unkeep", {}).status == 422
    shown = ann.follow(ann.post(f"{P}/promises/unkeep", {"note": "it was a trial"}))
    assert shown.said == "dropped" and "no-promise" in shown.notes
    last = call(films, "GET", f"{A}/events?limit=1000")["events"][-1]["event"]
    assert (last["event"], last["note"]) == ("PromiseDropped", "it was a trial")


def test_what_the_meter_says_stands_beside_the_promise(films, person):
    promised(films)
    ann = person("teacher")
    play_until(films, 1)
    judged(ann, "allowed")
    shown = ann.get(f"{P}/promises")
    assert shown.value("meter-lower") == "0"
    assert "In reserve: 2" in shown.value("reserve") and 'class="full yes"' in shown.html


def test_the_price_in_words_is_the_purse_own():
    purse = Purse(alpha=0.01, q=0.02, lag=50)
    one = PriceShown(
        alpha=0.01,
        q=0.02,
        lag=50,
        b=purse.b,
        steps=20_000,
        bound=purse.bound(20_000),
        sharper=purse.sharper_bound(20_000),
        sure=0.0,
        price=tuple(purse.price_in_words(20_000)),
    )
    ours, its = " ".join(text for _, text in price_words(one)), " ".join(one.price)
    for said, same in [
        ("at most 450 plays", "at most 450 denied"),
        ("About 400 to 600 plays", "400 to 600 audits"),
        ("1 in 33", "one in 33"),
        ("50 decisions late", "50 steps late"),
        ("about 5,000 decisions", "takes 5,000 steps"),
        ("300 decisions at a time", "300 steps"),
        ("1 play in 3,", "one in 3 plays"),
    ]:
        assert said in ours and same in its


# -- starting again ------------------------------------------------------------------------------


def contradicted(server: Any, ann: Any) -> None:
    """Have a check deny what a teacher had allowed, with no promise to act on it."""
    play_until(server, 1)
    one = waiting(server)[0]
    body = {"context": one["context"], "arm": one["arm"], "item": one["item"], "allowed": True}
    call(server, "POST", f"{A}/examples", body)
    judged(ann, "denied")


def test_start_again_where_it_is_proposed(films, person):
    ann = person("teacher")
    assert "fresh-start" not in ann.get(f"{P}/teach").notes
    contradicted(films, ann)
    for page in ("teach", "limits", "promises", "checks"):
        shown = ann.get(f"{P}/{page}")
        assert "fresh-start" in shown.notes, page
        assert "Kept:" in shown.value("fresh-kept") and "Forgotten:" in shown.value("fresh-lost")
    assert ann.post(f"{P}/fresh-start", {}).status == 422
    for said in ("anew", "not-anew"):
        done = ann.post(f"{P}/fresh-start", {"sure": "yes", "note": "new law"})
        assert ann.follow(done).said == said
    examples = call(films, "GET", f"{A}/examples?limit=1000")["examples"]
    assert examples and not any(one["allowed"] for one in examples)


def test_who_may_start_again(films, person):
    contradicted(films, person("teacher"))
    bob = person("auditor")
    shown = bob.get(f"{P}/limits")
    assert "fresh-start-by-teacher" in shown.notes
    assert not [form for form in shown.forms if "fresh-start" in str(form["action"])]
    assert bob.post(f"{P}/fresh-start", {"sure": "yes"}).status == 403


def test_a_promise_starts_again_by_itself(films, person):
    promised(films)
    ann = person("teacher")
    play_until(films, 1)
    one = waiting(films)[0]
    body = {"context": one["context"], "arm": one["arm"], "item": one["item"], "allowed": True}
    call(films, "POST", f"{A}/examples", body)
    shown = ann.follow(judged(ann, "denied"))
    assert shown.said == "begun-anew"


# -- answers for one item, or for a time ---------------------------------------------------------


def test_an_answer_for_one_item_until_a_day(server, make, person):
    make(budget=50, on_doubt="wait")
    asked = decide(server, item="Up")
    assert asked["outcome"] == "question"
    ann = person("teacher")
    shown = ann.get(f"{P}/teach")
    assert shown.has(name="scope") and shown.one(name="until").attrs["type"] == "date"
    fields = shown.form(f"{P}/teach/answer")
    # The clock of the tests says when it is.
    day = "2100-05-17"
    answer = ann.post(
        f"{P}/teach/answer", fields | {"answer": "allowed", "scope": "item", "until": day}
    )
    assert answer.status == 303
    [example] = call(server, "GET", f"{A}/examples")["examples"]
    assert (example["item"], example["scope"]) == ("Up", "item")
    assert example["until"] == 4_114_281_600.0  # the end of that day
    assert example["allowed"] and example["by"].startswith("a teacher")
    # The decision was made, by what was said.
    made = call(
        server,
        "POST",
        f"{A}/decisions",
        {"context": {"age": "25+", "late": False}, "item": "Up", "id": "next"},
    )
    assert made["outcome"] == "decision"
    assert {made["arm"], asked["question"]["arm"]} <= {"night", "fog"}  # one group
    listed = ann.get(f"{P}/teach/examples")
    row = listed.one(data_scope="item")
    assert "Up" in row.text and "2100-05-18 00:00:00" in row.value("until")
    assert "some-live" in listed.notes
    assert ann.get(f"{P}/teach/examples.csv").html.count("\n") == 1  # its head
    # The form once more says nothing new.
    again = ann.post(
        f"{P}/teach/answer", fields | {"answer": "allowed", "scope": "item", "until": day}
    )
    assert again.status == 303 and call(server, "GET", A)["examples"] == 1


def test_an_end_that_is_none(films, person):
    films.clock.now = 1_800_000_000.0
    ann = person("teacher")
    shown = ann.get(f"{P}/teach")
    action = next(
        str(f["action"])
        for f in shown.forms
        if "teach/" in str(f["action"]) and "pair" in f["fields"]
    )
    for until in ("tomorrow", "1999-01-01"):
        answer = ann.post(action, shown.form(action) | {"answer": "allowed", "until": until})
        assert answer.status == 422 and "until" in answer.alert
    assert not shown.all(name="scope")  # it has no name


# -- decisions -----------------------------------------------------------------------------------


def test_decisions_tell_of_their_checks(films, person):
    play_until(films, 3)
    ann = person("admin")
    ids = [str(one["decision"]) for one in waiting(films)]
    judged(ann, "denied", note="a rerun")
    judged(ann, "allowed")
    listed = ann.get(f"{P}/decisions")
    for check in ("denied", "allowed", "waiting"):
        assert listed.has(data_check=check)
    for check, id in zip(("denied", "allowed", "waiting"), ids, strict=True):
        shown = ann.get(f"{P}/decisions?check={check}")
        assert [link for link in shown.links if link.startswith(f"{P}/decisions/")] == [
            f"{P}/decisions/{id}"
        ]
    assert "'check'" in ann.get(f"{P}/decisions?check=maybe").alert
    check = ann.get(f"{P}/decisions/{ids[0]}").one(data_check="denied").text
    assert "a admin" in check and "a rerun" in check and " in " in check
    waits = ann.get(f"{P}/decisions/{ids[2]}").one(data_check="waiting")
    assert waits.has(href=f"{P}/checks")
    lines = ann.get(f"{P}/decisions.jsonl?check=denied").html
    assert '"check": "denied"' in lines and lines.count("\n") == 1
    assert "not allowed" in ann.get(f"{P}/decisions.csv?check=denied").html


def test_a_play_that_was_not_checked_says_how_likely_it_was(films, person):
    play_until(films, 1)
    checked = {one["decision"] for one in waiting(films)}
    found = call(films, "GET", f"{A}/events?limit=1000")["events"]
    spared = next(
        e["event"] for e in found if e["event"].get("coin") and e["event"]["id"] not in checked
    )
    assert (
        " in " in person("teacher").get(f"{P}/decisions/{spared['id']}").one(data_check="none").text
    )
