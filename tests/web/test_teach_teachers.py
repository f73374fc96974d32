"""Several teachers on the pages: who judges, whom a question is for, how often each errs."""

from __future__ import annotations

from typing import Any

import pytest

from bridle.agent.events import Judged, Lapsed, Taught
from bridle.server.problems import Problem
from bridle.store.aggregate import events_in
from bridle.web.charts import error_rate
from bridle.web.new_agent import read_teachers
from tests.web.browsing import no_script
from tests.web.films import call

P = "/agents/films"
A = "/v1/agents/films"
STAFF = [{"name": "editor", "price": 0.35}, {"name": "model", "price": 0.01}]
CASE = {"context": {"age": "12-17", "late": False}, "arm": "night"}


@pytest.fixture
def films(server: Any, make: Any) -> Any:
    make(teachers=STAFF, budget=20)
    return server


def events(server: Any, *kinds: type) -> list[Any]:
    return [event for event in events_in(server.store, "films") if isinstance(event, kinds)]


def become(ann: Any, name: str, back: str = "teach") -> Any:
    return ann.follow(ann.post(f"{P}/as", {"teacher": name, "back": back}))


def ask(server: Any, item: str) -> Any:
    return call(server, "POST", f"{A}/questions", {"context": CASE["context"], "item": item})


def said(ann: Any, answer: str, **more: str) -> Any:
    fields = ann.get(f"{P}/teach").form(f"{P}/teach/answer")
    return ann.follow(ann.post(f"{P}/teach/answer", fields | {"answer": answer} | more))


# -- who one is ----------------------------------------------------------------------------------


def test_one_says_once_who_one_is(films, person):
    ann = person("teacher")
    shown = ann.get(f"{P}/teach")
    assert "who-are-you" in shown.notes and not shown.all(data_key="n")
    assert {one.attrs["value"] for one in shown.all(name="teacher")} == {"editor", "model"}
    assert not films.store.head("films").seq > 1  # nobody is asked anything yet
    chosen = ann.post(f"{P}/as", {"teacher": "editor", "back": "teach"})
    assert chosen.headers["location"] == f"{P}/teach"
    cookie = chosen.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and f"Path={P};" in cookie
    shown = ann.follow(chosen)
    assert shown.has(data_judge="editor") and shown.has(data_key="n")
    assert ann.get(f"{P}/checks").has(data_judge="editor")
    assert ann.get(f"{P}/teach/bulk").has(data_judge="editor")
    assert become(ann, "model").has(data_judge="model")
    assert no_script(shown.html)


def test_nobody_is_whom_there_is_not(films, person):
    ann = person("teacher")
    assert ann.post(f"{P}/as", {"teacher": "Bob"}).status == 422
    ann.cookie += "; bridle-as=Bob"
    assert "who-are-you" in ann.get(f"{P}/teach").notes
    ann.cookie = ann.cookie.replace("as=Bob", "as=%FF%00")
    assert "who-are-you" in ann.get(f"{P}/teach").notes


def test_one_alone_need_not_choose_and_others_see_nothing_of_it(server, make, person):
    make(teachers=STAFF[:1])
    make("plain")
    ann = person("teacher")
    assert ann.get(f"{P}/teach").has(data_judge="editor")
    plain = ann.get("/agents/plain/teach")
    assert not [one for one in plain.all() if "data-judge" in one.attrs]
    assert "/agents/plain/teachers" not in plain.links
    assert "no-teachers" in ann.get("/agents/plain/teachers").notes


# -- what one is asked ---------------------------------------------------------------------------


def test_a_question_says_whom_it_is_for_and_why(films, person):
    ask(films, "Up")
    ann = person("teacher")
    shown = become(ann, "editor")
    whom = shown.one(data_for="others").text
    assert "model" in whom and "how often each of them errs" in whom and "all the same" in whom
    shown = become(ann, "model")
    assert "all the same" not in shown.one(data_for="you").text


def test_what_one_says_is_kept_until_it_settles(films, person):
    question = ask(films, "Up")
    ann = person("teacher")
    become(ann, "model")
    shown = said(ann, "denied", note="looks grim")
    assert shown.said == "open" and "editor" in shown.one(data_said="open").text
    assert shown.one(data_last="word").data("allowed") == "false"
    assert "not-settled" in shown.notes
    [word] = events(films, Judged)
    assert (word.by, word.allowed, word.question) == ("model", False, question["id"])
    assert word.who.startswith("a teacher (token ") and word.note == "looks grim"
    # Who has spoken is not asked again; the other is.
    assert question["id"] not in ann.get(f"{P}/teach").form(f"{P}/teach").values()
    eve = person("teacher")
    shown = become(eve, "editor")
    assert shown.has(data_for="you")
    assert shown.form(f"{P}/teach/answer")["question"] == str(question["id"])
    shown = said(eve, "denied")
    assert shown.said == "settled-no" and shown.one(data_allowed="false").data("last")
    assert shown.form(f"{P}/teach/undo")
    [taught] = events(films, Taught)
    assert taught.by == "editor, model"


def test_a_form_that_is_sent_twice_says_it_once_and_another_mind_is_another_word(films, person):
    ask(films, "Up")
    ann = person("teacher")
    become(ann, "model")
    fields = ann.get(f"{P}/teach").form(f"{P}/teach/answer")
    for _ in range(2):
        answer = ann.post(f"{P}/teach/answer", fields | {"answer": "denied"})
    assert len(events(films, Judged)) == 1
    shown = ann.follow(answer)
    instead = shown.form(f"{P}/teach/say")
    assert instead["answer"] == "allowed" and instead["teacher"] == "model"
    shown = ann.follow(ann.post(f"{P}/teach/say", instead))
    assert [word.allowed for word in events(films, Judged)] == [False, True]
    assert shown.one(data_last="word").data("allowed") == "true"
    # The first form once more, out of the browser's memory: that was said before.
    late = ann.follow(ann.post(f"{P}/teach/answer", fields | {"answer": "denied"}))
    assert late.said == "before" and len(events(films, Judged)) == 2


def test_skip_leaves_it_to_others_and_nobody_can_say_gives_it_up(films, person):
    question = ask(films, "Up")
    ann = person("teacher")
    become(ann, "model")
    fields = ann.get(f"{P}/teach").form(f"{P}/teach/answer")
    onward = ann.post(f"{P}/teach/answer", fields | {"answer": "pass"})
    assert "skipped=" in onward.headers["location"] and not events(films, Lapsed)
    other = ann.follow(onward).form(f"{P}/teach/answer")
    assert other["question"] != str(question["id"])
    ann.post(f"{P}/teach/answer", fields | {"answer": "skip"})
    assert [event.question for event in events(films, Lapsed)] == [question["id"]]


def test_an_answer_after_it_is_settled_says_so(films, person):
    ask(films, "Up")
    ann = person("teacher")
    become(ann, "model")
    fields = ann.get(f"{P}/teach").form(f"{P}/teach/answer")
    for name in ("model", "editor"):
        body = {"answer": "denied", "teacher": name}
        call(films, "POST", f"{A}/questions/{fields['question']}/answer", body)
    late = ann.follow(ann.post(f"{P}/teach/answer", fields | {"answer": "allowed"}))
    assert late.said == "closed"


def test_undo_takes_back_what_was_settled(films, person):
    ask(films, "Up")
    ann = person("teacher")
    for name in ("model", "editor"):
        become(ann, name)
        shown = said(ann, "denied")
    back = ann.post(f"{P}/teach/undo", shown.form(f"{P}/teach/undo"))
    shown = ann.follow(back)
    assert shown.one(data_allowed="false").data("undone")
    instead = shown.form(f"{P}/teach/say")
    assert instead["teacher"] == "editor"
    shown = ann.follow(ann.post(f"{P}/teach/say", instead))
    assert events(films, Judged)[-1].allowed is True


def test_a_csv_is_the_word_of_one(films, person):
    ann = person("teacher")
    assert "who-are-you" in ann.get(f"{P}/teach/bulk").notes
    shown = become(ann, "model", "bulk")
    fields = shown.form(f"{P}/teach/bulk")
    csv = "age,late,arm,allowed\n12-17,no,night,no\n25+,no,night,no\n"
    preview = ann.post(f"{P}/teach/bulk", fields | {"csv": csv})
    confirm = preview.form(f"{P}/teach/bulk/confirm")
    assert confirm["teacher"] == "model"
    done = ann.follow(ann.post(f"{P}/teach/bulk/confirm", confirm | {"csv": csv}))
    assert done.one(data_taught="2").data("by") == "model"
    assert [word.by for word in events(films, Judged)] == ["model", "model"]


# -- the teachers --------------------------------------------------------------------------------


def test_each_is_drawn_and_said_in_words(films, person):
    for n in range(3):
        for name in ("model", "editor"):
            body = CASE | {"item": f"i{n}", "allowed": name == "editor", "teacher": name}
            call(films, "POST", f"{A}/examples", body)
    for role in ("teacher", "auditor", "admin"):
        shown = person(role).get(f"{P}/teachers")
        assert shown.status == 200 and shown.html.count('class="rate"') == 2
    told = {one["name"]: one for one in call(films, "GET", f"{A}/teachers")["teachers"]}
    for one in told.values():
        card = shown.one(data_teacher=one["name"])
        assert one["sentence"] in card.text and card.data("known") == "no"
        assert f"{one['name']} errs in about {100 * one['rate']:.1f}" in shown.html
    assert shown.has(data_open="3") and shown.all(data_next="") and no_script(shown.html)
    assert f'href="{P}/teachers"' in person("auditor").get(f"{P}/checks").html


def test_open_cases_come_in_pages(films, person, monkeypatch):
    monkeypatch.setattr("bridle.web.teach.CASES_PER_PAGE", 2)
    for n in range(3):
        body = CASE | {"item": f"case {n}", "allowed": False, "teacher": "model"}
        call(films, "POST", f"{A}/examples", body)
    ann = person("auditor")
    first, second = ann.get(f"{P}/teachers"), ann.get(f"{P}/teachers?after=2")
    assert first.all(data_case="case 1") and not first.all(data_case="case 2")
    assert second.all(data_case="case 2") and second.all(rel="prev")
    assert first.all(rel="next") and not second.all(rel="next")


def test_names_are_shown_as_text(server, make, person):
    script = "<script>alert('x')</script>"
    make(teachers=[{"name": script}, {"name": 'a"b & c'}])
    ann = person("teacher")
    for path in (f"{P}/teach", f"{P}/teachers", f"{P}/teach/bulk"):
        shown = ann.get(path)
        assert script in shown.text and no_script(shown.html)
    shown = become(ann, 'a"b & c')
    assert 'a"b & c' in shown.one(data_judge='a"b & c').text
    assert script in become(ann, script).one(data_judge=script).text


def test_the_picture_keeps_within_its_scale():
    drawn = str(error_rate(0.5, 0.4, 0.9, 0.5, 0.02, "x"))
    assert drawn.count("%</text>") == 6 and ">50 %<" in drawn
    for part in drawn.split('width="')[1:]:
        assert float(part.partition('"')[0]) <= 304.0
    assert ">20 %<" in error_rate(0.01, 0.001, 0.02, 0.2, 0.02, "x")


# -- checks --------------------------------------------------------------------------------------


def test_a_check_goes_to_one_and_waits_for_the_other(server, make, person):
    make(teachers=STAFF)
    for name in ("model", "editor"):
        rows = [
            {
                "context": {"age": age, "late": late},
                "arm": "kite",
                "allowed": True,
                "item": f"{age}{late}{n}",
            }
            for age in ("12-17", "18-24", "25+")
            for late in (True, False)
            for n in range(2)
        ]
        call(server, "POST", f"{A}/examples", {"examples": rows, "teacher": name})
    for n in range(400):
        body = {"context": CASE["context"], "item": f"new {n}"}
        if call(server, "POST", f"{A}/decisions", body)["check"]:
            break
    [waiting] = call(server, "GET", f"{A}/checks")["checks"]
    first = waiting["whom"]["teacher"]
    other = "editor" if first == "model" else "model"
    ann = person("teacher")
    assert "who-are-you" in ann.get(f"{P}/checks").notes
    shown = become(ann, other, "checks")
    assert "others-wait" in shown.notes and shown.value("elsewhere") == "1"
    shown = become(ann, first, "checks")
    assert shown.one(data_check=str(waiting["decision"])).data("waiting") == "1"
    fields = shown.form(f"{P}/checks/judge")
    shown = ann.follow(ann.post(f"{P}/checks/judge", fields | {"answer": "denied"}))
    assert other in shown.one(data_said="open").text and "others-wait" in shown.notes
    shown = become(ann, other, "checks")
    fields = shown.form(f"{P}/checks/judge")
    shown = ann.follow(ann.post(f"{P}/checks/judge", fields | {"answer": "denied"}))
    assert shown.said == "settled-no" and shown.one(data_allowed="false").data("last")


# -- making one ----------------------------------------------------------------------------------


def test_the_form_of_a_new_agent_names_them(server, person):
    admin = person("admin")
    fields = admin.get("/agents/new").form("/agents/new")
    fields |= {"name": "new", "arms": "a\nb", "features": "flag late", "policy": "mask"}
    fields |= {"teachers": "editor, 0.35\n\nmodel, 0.01, 10 %\nPat", "do": "make"}
    fields |= {"limits": "auto", "on_doubt": "play_safe", "unit": "hours"}
    assert admin.post("/agents/new", fields).status == 303
    made = call(server, "GET", "/v1/agents/new")["settings"]["teachers"]
    assert made == [
        {"name": "editor", "price": 0.35, "error": None},
        {"name": "model", "price": 0.01, "error": 0.1},
        {"name": "Pat", "price": 0.35, "error": None},
    ]
    wrong = admin.post("/agents/new", fields | {"name": "other", "teachers": "model, cheap"})
    assert wrong.status == 422 and "Line 1: the price must be a number" in wrong.alert
    assert "model, cheap" in wrong.html


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a, 1, 2, 3", "Line 1: it needs a name"),
        (", 1", "Line 1: it needs a name"),
        ("a\na", "Line 2: 'a' stands twice"),
        ("a, -1", "the price must be a number"),
        ("a, 1, 60 %", "must be a number from 0 to 50 %"),
        ("a, 1, 0.6", "must be a number from 0 to 0.5"),
        ("a, 1, x", "the rate of errors must be"),
        ("\n".join(f"t{n}" for n in range(65)), "There are 65 teachers"),
    ],
)
def test_a_wrong_line_is_named(text, said):
    with pytest.raises(Problem, match=said):
        read_teachers(text)


def test_the_cards_say_where_the_promise_stands(server, make, person):
    make(promise=[0.05, 0.5])
    make("plain")
    make("staffed", teachers=STAFF)
    for name in ("films", "plain", "staffed"):
        call(server, "GET", f"/v1/agents/{name}")
    shown = person("admin").get("/agents")
    [card] = shown.all(data_promise="playing")
    assert card.data("agent") == "films" and card.all(href=f"{P}/promises")
    assert 'href="/agents/staffed/teachers"' in shown.html
    assert 'href="/agents/plain/teachers"' not in shown.html
