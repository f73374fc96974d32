from __future__ import annotations

from typing import Any

import pytest

from bridle.server.limits import Limits
from bridle.web import teach
from tests.server.driving import Server
from tests.web.browsing import Person, Shown, no_script

PAGE = "/agents/films/teach/bulk"
SCRIPT = "<script>alert(1)</script>"
HEAD = "age,late,arm,allowed\n"
CSV = HEAD + "12-17,yes,night,no\n12-17,no,Fog,no\n25+,no,kite,yes\n"


def standing(server: Server) -> list[dict[str, Any]]:
    return list(server.call("GET", "/v1/agents/films/examples?limit=1000").json["examples"])


def area(shown: Shown) -> str:
    """Give what stands in the hidden text area, as a browser reads it."""
    text = shown.html.split("<textarea", 1)[1].split(">", 1)[1].split("</textarea>")[0]
    return (
        text.replace("&#39;", "'")
        .replace("&#34;", '"')
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
    )


def confirm(who: Person, shown: Shown, upto: int, **more: str) -> Shown:
    form = shown.form(PAGE + "/confirm") | {"csv": area(shown), "upto": str(upto)} | more
    return who.upload(PAGE + "/confirm", form, {})


def test_a_csv_is_looked_at_and_then_taught(server, make, person):
    make()
    ann = person("teacher")
    assert ann.get("/agents/films/teach").status == 200
    shown = ann.get(PAGE)
    assert shown.status == 200 and "age,late,arm,allowed" in shown.value("sample")
    shown = ann.upload(PAGE, {"csv": "", "note": "old notes"}, {"file": ("a.csv", CSV.encode())})
    assert shown.status == 200 and no_script(shown.html)
    assert {"preview", "changes"} <= shown.notes and not standing(server)
    line = shown.one(data_line="2").text
    assert "The Long Night (Horror)" in line and "age 12-17 · late" in line
    done = confirm(ann, shown, 3)
    assert done.status == 303, done.text
    assert ann.follow(done).has(data_taught="3")
    found = standing(server)
    assert [(one["arm"], one["allowed"]) for one in found] == [
        ("night", False),
        ("fog", False),
        ("kite", True),
    ]
    assert all(one["note"] == "old notes" and "a teacher" in one["by"] for one in found)
    # A double click, or a second try.
    assert confirm(ann, shown, 3).status == 303
    assert len(standing(server)) == 3
    # What was taught in bulk is not what the button of the last answer takes back.
    teaching = ann.get("/agents/films/teach")
    assert not [one for one in teaching.all() if "data-last" in one.attrs]


def test_what_is_said_of_each_line(server, make, person):
    make(rules=[{"id": "r", "when": [{"feature": "late", "equals": True}], "arms": ["kite"]}])
    ann = person("teacher")
    taught = [
        ({"age": "12-17", "late": False}, "night", False),
        ({"age": "25+", "late": False}, "fog", True),
        ({"age": "12-17", "late": True}, "fog", False),
        ({"age": "25+", "late": True}, "fog", True),
    ]
    for context, arm, allowed in taught:
        body = {"context": context, "arm": arm, "allowed": allowed}
        assert server.call("POST", "/v1/agents/films/examples", body).status == 201
    text = HEAD + (
        "12-17,no,night,no\n"  # stands
        "25+,no,fog,no\n"  # the opposite stands
        "18-24,no,fog,yes\n18-24,no,fog,no\n"  # both ways
        "18-24,yes,kite,yes\n"  # a rule
        "12-17,no,fog,no\n"  # believed
        "12-17,no,fog,no\n"  # twice
        "25+,no,night,no\n"  # a surprise
        "18-24,no,kite,yes\n"  # new
    )
    shown = ann.post(PAGE, {"csv": text})
    for line, effect in [
        (2, "again"),
        (3, "against"),
        (4, "apart"),
        (5, "apart"),
        (6, "rule"),
        (7, "believed"),
        (8, "again"),
        (9, "surprise"),
        (10, "new"),
    ]:
        assert shown.one(data_line=str(line)).data("effect") == effect, line
    assert [one.attrs["value"] for one in shown.all(name="upto")] == ["2", "7"]
    assert confirm(ann, shown, 2).status == 303
    assert len(standing(server)) == 6
    # The rest after all: those that were taken are taken once.
    assert confirm(ann, shown, 7).status == 303
    assert len(standing(server)) == 11
    assert ann.get("/agents/films/teach").all(data_disagreement="2")


def test_nothing_new(server, make, person):
    make()
    ann = person("teacher")
    confirm(ann, ann.post(PAGE, {"csv": CSV}), 3)
    shown = ann.post(PAGE, {"csv": CSV})
    assert "nothing-new" in shown.notes


def test_what_was_taken_back_can_be_taught_again(server, make, person):
    make()
    ann = person("teacher")
    confirm(ann, ann.post(PAGE, {"csv": CSV}), 3)
    for one in standing(server):
        server.call("DELETE", f"/v1/agents/films/examples/{one['id']}")
    assert not standing(server)
    confirm(ann, ann.post(PAGE, {"csv": CSV}), 3)
    assert len(standing(server)) == 3


def test_a_long_csv_is_taught_in_parts(server, make, person, monkeypatch):
    monkeypatch.setattr(teach, "BATCH", 4)
    monkeypatch.setattr(teach, "REQUEST_SECONDS", 0.0)
    make()
    ann = person("teacher")
    rows = [
        f"{age},{late},{arm},yes\n"
        for age in ("12-17", "18-24", "25+")
        for late in ("yes", "no")
        for arm in ("night", "kite")
    ]
    shown = confirm(ann, ann.post(PAGE, {"csv": HEAD + "".join(rows)}), 12)
    parts = 0
    while shown.status == 200:
        parts += 1
        assert shown.one(data_taught=str(4 * parts)).data("total") == "12"
        assert len(standing(server)) == 4 * parts and no_script(shown.html)
        form = shown.form(PAGE + "/confirm") | {"csv": area(shown)}
        shown = ann.upload(PAGE + "/confirm", form, {})
    assert shown.status == 303 and parts == 2 and len(standing(server)) == 12


def test_a_failure_halfway_is_told(server, make, person, monkeypatch):
    monkeypatch.setattr(teach, "BATCH", 2)
    make(max_examples=2)
    ann = person("teacher")
    shown = confirm(ann, ann.post(PAGE, {"csv": CSV}), 3)
    assert shown.status == 422 and shown.one(data_taught="2").data("total") == "3"
    assert "limit of 2 examples" in shown.alert and shown.form(PAGE + "/confirm")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Choose a file, or write some lines"),
        ("   ", "Choose a file"),
        (HEAD, "no line below"),
        (HEAD + "12-17,yes,night,maybe\n13,yes,night,no\n", "Line 2, column 'allowed'"),
        (f"{SCRIPT},age\n1,2\n", SCRIPT),
        (HEAD + f"12-17,yes,{SCRIPT},no\n", SCRIPT),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_lost(server, make, person, text, said):
    make()
    shown = person("teacher").post(PAGE, {"csv": text, "note": SCRIPT})
    assert shown.status == 422 and said in shown.alert
    assert SCRIPT not in shown.html and no_script(shown.html)
    assert area(shown).strip() == text.strip()
    assert shown.form(PAGE)["note"] == SCRIPT


def test_a_file_that_is_no_text(server, make, person):
    make()
    shown = person("teacher").upload(PAGE, {"csv": ""}, {"file": ("a.csv", b"\xff\xfe\x00")})
    assert shown.status == 400 and "UTF-8" in shown.alert


def test_text_is_only_ever_text(server, make, person):
    make(arms=[{"id": "a", "label": SCRIPT, "group": SCRIPT}, "b"])
    ann = person("teacher")
    shown = ann.post(PAGE, {"csv": HEAD + f"25+,no,{SCRIPT},yes\n", "note": SCRIPT})
    assert shown.status == 200 and SCRIPT not in shown.html and SCRIPT in shown.text
    assert confirm(ann, shown, 1).status == 303
    assert standing(server)[0]["note"] == SCRIPT


def test_forms_that_the_page_did_not_make(server, make, person):
    make()
    ann = person("teacher")
    good = {"csv": CSV, "version": "2", "fine": "3", "upto": "3"}
    for wrong in (
        {"csv": ""},
        {"version": "0"},
        {"fine": "-1"},
        {"upto": "x"},
        {"at": "1e9"},
        {"csv": "nonsense"},
    ):
        assert ann.post(PAGE + "/confirm", good | wrong).status == 422, wrong
    assert not standing(server)
    assert ann.post(PAGE + "/confirm", good).status == 303
    assert len(standing(server)) == 3


def test_who_may_not(server, make, person):
    make()
    for path in (PAGE, PAGE + "/confirm"):
        assert person("auditor").post(path, {"csv": CSV}).status == 403
    assert person("auditor").get(PAGE).status == 403


def test_what_cannot_come_back_is_refused_first(serve, person):
    small = serve(limits=Limits(body_bytes=2_000))
    agent = {"arms": ["a"], "features": [{"kind": "number", "name": "x"}], "seed": 1}
    assert small.call("POST", "/v1/agents", {"name": "films", "agent": agent}).status == 201
    ann = Person(small, "teacher")
    text = "x,arm,allowed\n" + "".join(f"{n},a,1\n" for n in range(220))
    shown = ann.upload(PAGE, {"csv": ""}, {"file": ("a.csv", text.encode())})
    assert shown.status == 422 and "too large" in shown.alert


def test_many_lines_are_not_tried_out(server, make, person, monkeypatch):
    monkeypatch.setattr(teach, "MOST_LEARNED", 2)
    make()
    ann = person("teacher")
    ann.get("/agents/films/teach")
    shown = ann.post(PAGE, {"csv": CSV})
    assert "changes" not in shown.notes and "no-changes" in shown.notes
