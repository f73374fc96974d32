from __future__ import annotations

from urllib.parse import urlencode

from tests.web.browsing import Element, Shown, no_script
from tests.web.test_limits import SCRIPT, teach

HERE = "/agents/films/limits/what-if"


def ask(**fields: object) -> str:
    query = {"f.": 1} | {f"f.{name}": value for name, value in fields.items()}
    return f"{HERE}?{urlencode(query, doseq=True)}"


def rows(shown: Shown) -> list[Element]:
    return [one for one in shown.all() if "data-arm" in one.attrs]


def counts(shown: Shown) -> tuple[str, ...]:
    """How many arms are surely allowed, in doubt and surely not."""
    answer = shown.one(aria_labelledby="answer")
    return answer.data("allowed"), answer.data("unsure"), answer.data("denied")


def test_a_form_with_a_field_for_each_feature(make, person):
    make()
    shown = person("auditor").get(HERE)
    assert shown.status == 200 and no_script(shown.html)
    form = shown.form(HERE)
    assert {"f.", "f.age", "f.late", "show", "find"} <= form.keys()
    assert "nothing-taught" in shown.notes and not rows(shown)
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
    assert counts(early)[0] == "1" and len(rows(early)) == 3
    first = rows(early)[0]
    assert (first.data("arm"), first.data("mark")) == ("Kite Days (Comedy)", "yes")
    assert first.value("chance") == "99 %" and "taught" in first.value("why")
    # Of night, and with it of fog, of the same group.
    said = [one.value("why") for one in rows(early)[1:]]
    assert len(said) == 2 and all("said no" in one for one in said)
    assert 'value="12-17" selected' in early.html
    late = auditor.get(ask(age="25+", late="yes"))
    assert counts(late)[0] == "0"
    assert "'never-late'" in late.one(data_arm="Kite Days (Comedy)").value("why")
    assert any("age 25+, late" in one.text for one in late.all(data_value="unseen"))


def test_it_says_what_the_api_says(server, make, person):
    make(limits="logistic")
    teach(server, "films", ({"age": "12-17", "late": False}, "night", False))
    shown = person("teacher").get(ask(age="12-17", late="yes"))
    asked = {"context": {"age": "12-17", "late": True}}
    answer = server.call("POST", "/v1/agents/films/believed", asked).json["arms"]
    for one in answer:
        assert f"{100 * one['p']:.0f} %" in [row.value("chance") for row in rows(shown)]
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
    assert shown.status == 422 and "'kg' is a number from 0 to 90, not 'heavy'" in shown.alert
    assert 'value="heavy"' in shown.html and 'value="b" selected' in shown.html
    assert 'aria-invalid="true"' in shown.html
    assert "'age' is never 'c'" in ann.get(ask(kg="1", age="c")).alert
    assert ann.get(f"{HERE}?after=-1").status == 422
    assert "'kg'" in ann.get(ask(age="a")).alert


def test_labels_of_which_none_is_ticked(make, person):
    make(features=[{"kind": "labels", "name": "genres", "values": ["Horror", "Drama"]}])
    ann = person("teacher")
    assert ann.get(ask()).value("context") == "genres: none"
    both = ann.get(ask(genres=["Horror", "Drama"]))
    assert both.value("context") == "genres: Horror, Drama" and both.html.count(" checked") == 2


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
    assert len(rows(first)) == 50 and first.value("range") == "1 to 50 of 120"
    further = next(link for link in first.links if "after=50" in link)
    assert "f.age=12-17" in further and "f.late=yes" in further
    last = ann.get(further.replace("after=50", "after=100"))
    assert len(rows(last)) == 20
    allowed = ann.get(ask(age="12-17", late="yes") + "&show=allowed")
    assert [one.data("arm") for one in rows(allowed)] == ["item 007"]
    denied = ann.get(ask(age="12-17", late="yes") + "&show=denied")
    assert [one.data("arm") for one in rows(denied)] == ["item 008"]
    doubt = ann.get(ask(age="12-17", late="yes") + "&show=doubt&find=ITEM+09")
    assert len(rows(doubt)) == 10
    assert "none-found" in ann.get(ask(age="12-17", late="yes") + "&find=zzz").notes


def test_what_the_agent_makes_of_it(make, person):
    make()
    make("dialled", sigma=0.3)
    ann = person("teacher")
    assert "bound" in ann.get(ask(age="25+", late="no")).notes
    dialled = ann.get(ask(age="25+", late="no").replace("films", "dialled"))
    assert "dialled" in dialled.notes


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
    assert all("%" not in one.value("chance") for one in rows(shown))
    make("lines", limits="linear", features=[{"kind": "flag", "name": "late"}])
    shown = person("auditor").get("/agents/lines/limits/what-if?f.late=yes")
    assert counts(shown) == ("0", "3", "0")
    assert all("Nothing was taught" in one.value("why") for one in rows(shown))
    body = {"context": {"late": True}, "propensity": True}
    made = server.call("POST", "/v1/agents/lines/decisions", body).json
    shown = person("auditor").get(f"/agents/lines/decisions/{made['id']}")
    assert [one.data("allowed") for one in shown.all(data_allowed="warn")] == ["warn"] * 3
    assert not shown.all(data_allowed="no")


def test_an_item_is_looked_at_by_its_name(server, make, person):
    make()
    case = {"context": {"age": "12-17", "late": False}, "arm": "night", "allowed": False}
    server.call("POST", "/v1/agents/films/examples", case | {"item": "Alien"})
    ann = person("auditor")
    assert "item" in ann.get(HERE).form(HERE)
    named = ann.get(ask(age="12-17", late="no") + "&item=Alien")
    assert any("this item" in one.value("why") for one in rows(named))
    assert named.form(HERE)["item"] == "Alien"
    other = ann.get(ask(age="12-17", late="no") + "&item=Up")
    assert not any("said no" in one.value("why") for one in rows(other))
