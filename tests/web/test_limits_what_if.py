from __future__ import annotations

from urllib.parse import urlencode

from tests.web.browsing import no_script
from tests.web.test_limits import SCRIPT, teach

HERE = "/agents/films/limits/what-if"


def ask(**fields: object) -> str:
    query = {"f.": 1} | {f"f.{name}": value for name, value in fields.items()}
    return f"{HERE}?{urlencode(query, doseq=True)}"


def test_a_form_with_a_field_for_each_feature(make, person):
    make()
    shown = person("auditor").get(HERE)
    assert shown.status == 200 and no_script(shown.html)
    form = shown.form(HERE)
    assert {"f.", "f.age", "f.late", "show", "find"} <= form.keys()
    assert "Nothing has been taught yet" in shown.text and "surely allowed" not in shown.text
    assert 'method="get"' in shown.html  # so that it can be kept as a bookmark


def test_what_would_be_allowed_and_why(server, make, person):
    make()
    teach(
        server,
        "films",
        ({"age": "12-17", "late": False}, "night", False),
        ({"age": "12-17", "late": False}, "kite", True),
    )
    rule = {"id": "never-late", "when": [{"feature": "late", "equals": True}], "arms": ["kite"]}
    server.call("PATCH", "/v1/agents/films", {"declare": rule})
    auditor = person("auditor")
    early = auditor.get(ask(age="12-17", late="no"))
    assert "1 of 3 arms surely allowed" in early.text
    assert "Kite Days (Comedy) ✓ surely allowed 99 % What was taught makes it sure." in early.text
    # Of night, and with it of fog, of the same group.
    assert early.text.count("A teacher said no in this very situation.") == 2
    assert early.text.index("Kite Days") < early.text.index("Fog")
    assert 'value="12-17" selected' in early.html
    late = auditor.get(ask(age="25+", late="yes"))
    assert "0 of 3 arms surely allowed" in late.text
    assert "Denied by the rule &#39;never-late&#39;." in late.html
    assert "Never taught of it: age 25+, late." in late.text


def test_it_says_what_the_api_says(server, make, person):
    make(limits="logistic")
    teach(server, "films", ({"age": "12-17", "late": False}, "night", False))
    shown = person("teacher").get(ask(age="12-17", late="yes"))
    asked = {"context": {"age": "12-17", "late": True}}
    answer = server.call("POST", "/v1/agents/films/believed", asked).json["arms"]
    for one in answer:
        assert f"{100 * one['p']:.0f} %" in shown.text
    before = server.call("GET", "/v1/agents/films").json["version"]
    person("teacher").get(ask(age="12-17", late="yes"))
    assert server.call("GET", "/v1/agents/films").json["version"] == before


def test_bad_input_loses_nothing(make, person):
    make(
        features=[
            {"kind": "number", "name": "kg", "low": 0, "high": 90},
            {"kind": "category", "name": "age", "values": ["a", "b"]},
        ]
    )
    ann = person("teacher")
    shown = ann.get(ask(kg="heavy", age="b"))
    assert shown.status == 422 and "'kg' is a number from 0 to 90, not 'heavy'" in shown.text
    assert 'value="heavy"' in shown.html and 'value="b" selected' in shown.html
    assert 'aria-invalid="true"' in shown.html
    assert "'age' is never 'c'" in ann.get(ask(kg="1", age="c")).text
    assert ann.get(f"{HERE}?after=-1").status == 422
    assert "Say what 'kg' is" in ann.get(ask(age="a")).text


def test_labels_of_which_none_is_ticked(make, person):
    make(features=[{"kind": "labels", "name": "genres", "values": ["Horror", "Drama"]}])
    ann = person("teacher")
    assert "genres: none" in ann.get(ask()).text
    both = ann.get(ask(genres=["Horror", "Drama"]))
    assert "genres: Horror, Drama" in both.text and both.html.count(" checked") == 2


def test_many_arms_come_in_parts_and_can_be_found(server, make, person):
    make(arms=[f"item {n:03}" for n in range(120)])
    teach(
        server,
        "films",
        ({"age": "12-17", "late": True}, "item 007", True),
        ({"age": "12-17", "late": True}, "item 008", False),
    )
    ann = person("teacher")
    first = ann.get(ask(age="12-17", late="yes"))
    assert first.html.count('<th scope="row">') == 50 and "1 to 50 of 120" in first.text
    further = next(link for link in first.links if "after=50" in link)
    assert "f.age=12-17" in further and "f.late=yes" in further
    last = ann.get(further.replace("after=50", "after=100"))
    assert last.html.count('<th scope="row">') == 20
    allowed = ann.get(ask(age="12-17", late="yes") + "&show=allowed")
    assert allowed.html.count('<th scope="row">') == 1 and "item 007" in allowed.text
    denied = ann.get(ask(age="12-17", late="yes") + "&show=denied")
    assert denied.html.count('<th scope="row">') == 1 and "item 008" in denied.text
    doubt = ann.get(ask(age="12-17", late="yes") + "&show=doubt&find=ITEM+09")
    assert doubt.html.count('<th scope="row">') == 10
    assert "No arm is like that" in ann.get(ask(age="12-17", late="yes") + "&find=zzz").text


def test_what_the_agent_makes_of_it(make, person):
    make()
    make("dialled", sigma=0.3)
    ann = person("teacher")
    assert "plays only what is surely allowed" in ann.get(ask(age="25+", late="no")).text
    dialled = ann.get(ask(age="25+", late="no").replace("films", "dialled"))
    assert "its dial says how much" in dialled.text


def test_script_is_text(make, person):
    word = SCRIPT.replace("/", "-")
    make(
        arms=[{"id": "a", "label": f"label{SCRIPT}", "group": f"group{SCRIPT}"}],
        features=[
            {"kind": "category", "name": f"n{word}", "values": [f"v{word}"]},
            {"kind": "labels", "name": f"m{word}", "values": [f"w{word}"]},
        ],
    )
    ann = person("teacher")
    good = {f"f.n{word}": f"v{word}", f"f.m{word}": f"w{word}", "find": SCRIPT, "show": SCRIPT}
    for fields in (good, {f"f.n{word}": SCRIPT}):
        shown = ann.get(f"{HERE}?{urlencode({'f.': 1} | fields)}")
        assert shown.status in (200, 422) and no_script(shown.html)
        assert "<script>" not in shown.html and "&lt;script&gt;" in shown.html


def test_who_may_not(server, make, person):
    make()
    assert person("teacher", ("other",)).get(HERE).status == 403
    assert person("teacher").get("/agents/nobody/limits/what-if").status == 404


def test_what_nobody_said_is_neither_certain_nor_ruled_out(server, make, person):
    make(features=[{"kind": "flag", "name": "late"}])
    shown = person("auditor").get("/agents/films/limits/what-if?f.late=no")
    assert "nobody has said" in shown.text and ">99 %" not in shown.text
    make("lines", limits="linear", features=[{"kind": "flag", "name": "late"}])
    shown = person("auditor").get("/agents/lines/limits/what-if?f.late=yes")
    assert shown.text.count("Nothing was taught of it yet.") == 3
    assert "0 surely not" in shown.text and "rules it out" not in shown.text
    body = {"context": {"late": True}, "propensity": True}
    made = server.call("POST", "/v1/agents/lines/decisions", body).json
    shown = person("auditor").get(f"/agents/lines/decisions/{made['id']}")
    assert "3 nothing was taught of it yet" in shown.text or "? nothing was taught" in shown.text
    assert "surely not allowed" not in shown.text


def test_an_item_is_looked_at_by_its_name(server, make, person):
    make()
    case = {"context": {"age": "12-17", "late": False}, "arm": "night", "allowed": False}
    server.call("POST", "/v1/agents/films/examples", case | {"item": "Alien"})
    ann = person("auditor")
    assert "item" in ann.get(HERE).form(HERE)
    named = ann.get(ask(age="12-17", late="no") + "&item=Alien")
    assert "A teacher said no to it for this item." in named.text
    assert named.form(HERE)["item"] == "Alien"
    other = ann.get(ask(age="12-17", late="no") + "&item=Up")
    assert "A teacher said no" not in other.text
