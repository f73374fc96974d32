from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.driving import Server
from tests.web.browsing import Person, Shown, no_script

FLAGS = [{"kind": "flag", "name": name} for name in ("horror", "late")]
SCRIPT = "<script>alert(1)</script>"


def teach(server: Server, agent: str, *examples: tuple[dict[str, Any], str, bool], **said: str):
    for context, arm, allowed in examples:
        body = {"context": context, "arm": arm, "allowed": allowed, **said}
        answer = server.call("POST", f"/v1/agents/{agent}/examples", body)
        assert answer.status == 201, answer.body


def cells(shown: Shown) -> dict[tuple[int, int], tuple[str, str]]:
    """By unit and column, the class of a cell and its text."""
    found = {}
    for cell in shown.all():
        if cell.tag == "td" and "data-mark" in cell.attrs and cell.children[0].tag == "a":
            place = re.search(r"unit=(\d+)&column=(\d+)", cell.children[0].attrs["href"])
            assert place is not None
            found[int(place[1]), int(place[2])] = cell.attrs["class"], cell.text
    assert found
    return found


@pytest.fixture
def taught(server: Server, make: Callable[..., str]) -> str:
    """The agent knows that horror is not for those of 12 to 17."""
    name = make()
    teach(
        server,
        name,
        ({"age": "12-17", "late": False}, "night", False),
        ({"age": "18-24", "late": True}, "fog", True),
        ({"age": "12-17", "late": True}, "kite", True),
        by="Ann",
        note="as agreed",
    )
    return name


def test_before_anything_is_taught_the_page_says_what_to_do(make, person):
    make()
    teacher = person("teacher").get("/agents/films/limits")
    assert "nothing-taught" in teacher.notes
    assert "/agents/films/teach" in teacher.links and "<table" not in teacher.html
    auditor = person("auditor").get("/agents/films/limits")
    assert "teach-by-teacher" in auditor.notes
    assert "no-example" in person("teacher").get("/agents/films/limits/cell").notes


def test_the_picture(taught, person):
    shown = person("auditor").get(f"/agents/{taught}/limits")
    assert shown.status == 200 and no_script(shown.html)
    assert shown.value("examples") == "3"
    assert "2 arms, 2 examples" in shown.one(data_unit="Horror").text
    found = cells(shown)
    # Units: Horror, Comedy. Columns: three ages, late.
    assert len(found) == 2 * 4
    assert found[0, 0][0] == "p0 no"
    # Exceptions may be in what is believed, before checks have looked for them.
    assert found[0, 1][0] == "p10 yes" and "99 %" in found[0, 1][1]
    assert found[0, 2][0].endswith("unsure")
    words = shown.one(data_sentence="Horror").text
    assert "not 12-17" in words and "unsure: 25+" in words


def test_a_cell_is_what_the_api_believes(server, make, person):
    for kind in ("rules", "auto", "logistic", "linear", "found"):
        name = make(f"films-{kind}", limits=kind, features=FLAGS)
        teach(
            server,
            name,
            ({"horror": True, "late": False}, "night", False),
            ({"horror": False, "late": True}, "fog", True),
            ({"horror": True, "late": True}, "kite", True),
        )
        shown = person("teacher").get(f"/agents/{name}/limits")
        found = cells(shown)
        assert ("Fog" in shown.text) == (kind in ("found", "linear"))
        for column, context in enumerate(({"horror": True}, {"late": True})):
            asked = {"context": {"horror": False, "late": False} | context}
            answer = server.call("POST", f"/v1/agents/{name}/believed", asked)
            by_arm = {one["arm"]: one for one in answer.json["arms"]}
            # Kite stands alone in its group, and where there are none.
            unit = 2 if kind in ("found", "linear") else 1
            p = by_arm["kite"]["p"]
            text = ">99" if p > 0.995 else "<1" if p < 0.005 else f"{100 * p:.0f}"
            kind_of, said = found[unit, column]
            assert f"{text} %" in said, (kind, said, p)
            if by_arm["kite"]["safe"]:
                assert kind_of.endswith("yes")


def test_declared_rules_are_told_and_shown(server, taught, person):
    rules = [
        {
            "id": "none",
            "when": [{"feature": "late", "equals": True}],
            "arms": ["kite"],
            "note": "the house rule",
        },
        {"id": "half", "when": [{"feature": "late", "equals": True}], "arms": ["fog"]},
    ]
    for rule in rules:
        changed = server.call("PATCH", f"/v1/agents/{taught}", {"declare": rule})
        assert changed.status == 200, changed.body
    shown = person("auditor").get(f"/agents/{taught}/limits")
    found = cells(shown)
    assert found[1, 3][0] == "p0 no"
    units = {name: shown.one(data_unit=name) for name in ("Comedy", "Horror")}
    assert units["Comedy"].has(data_rule="all") and units["Horror"].has(data_rule="some")
    rule = shown.one(data_rule="none").text
    assert "kite: not if late is true" in rule and "the house rule" in rule
    cell = person("auditor").get(f"/agents/{taught}/limits/cell?unit=1&column=3")
    assert cell.one(data_rule="all").data("mark") == "no"
    assert "the house rule" in cell.one(data_rule="none").text


def test_numbers_of_rules_play_no_part(server, make, person):
    features = [{"kind": "number", "name": "kg", "low": 0, "high": 90, "unit": "kg"}, FLAGS[1]]
    for kind, seen in (("rules", False), ("logistic", True)):
        name = make(f"films-{kind}", features=features, limits=kind)
        teach(server, name, ({"kg": 80, "late": True}, "kite", False))
        shown = person("teacher").get(f"/agents/{name}/limits")
        assert ("numbers-aside" in shown.notes) == (not seen)
        assert ("45 kg" in shown.text) == seen
        high = person("teacher").get(f"/agents/{name}/limits/cell?unit=1&column=2")
        low = person("teacher").get(f"/agents/{name}/limits/cell?unit=1&column=0")
        assert high.one(data_total="1").data("of") == "1" and "kg 90 kg" in high.headings[0]
        assert "no-example-here" in low.notes and "kg 0 kg" in low.headings[0]


def test_long_lists_come_in_parts(server, make, person):
    words = [f"word {n:02}" for n in range(60)]
    features = [{"kind": "labels", "name": "tags", "values": words}]
    arms = [{"id": n, "label": f"Item {n:03}"} for n in range(120)]
    name = make(features=features, arms=arms)
    teach(server, name, ({"tags": ["word 07"]}, 7, False))
    ann = person("teacher")
    first = ann.get(f"/agents/{name}/limits")
    assert len(cells(first)) == 50 * 40
    assert "1 to 50 of 120" in first.value("rows-range")
    assert "1 to 40 of 60" in first.value("columns-range")
    further = [link for link in first.links if "rows=50" in link or "columns=40" in link]
    assert len(further) == 2
    last = ann.get(f"/agents/{name}/limits?rows=100&columns=40")
    assert len(cells(last)) == 20 * 20
    # Who goes on in one way stays where they are in the other.
    assert any("rows=50" in link and "columns=40" in link for link in last.links)
    found = ann.get(f"/agents/{name}/limits?find=item+007&feature=WORD+07")
    assert [*cells(found)] == [(7, 7)] and cells(found)[7, 7][0].startswith("p0 ")
    assert "none-found" in ann.get(f"/agents/{name}/limits?find=nothing").notes


def test_the_examples_behind_a_cell(server, taught, person):
    ann = person("teacher")
    cell = ann.get(f"/agents/{taught}/limits/cell?unit=0&column=0")
    assert cell.headings[0] == "Horror × age 12-17"
    assert cell.one(data_total="1").data("of") == "2"
    row = cell.one(data_allowed="false").text
    for words in ("age 12-17 · not late", "The Long Night (Horror)", "Ann (token", "as agreed"):
        assert words in row
    whole = ann.get(f"/agents/{taught}/limits/cell?unit=0")
    assert whole.one(data_total="2").data("of") == "2"
    assert whole.text.index("Fog") < whole.text.index("The Long Night")
    nothing = ann.get(f"/agents/{taught}/limits/cell?unit=0&column=2")
    assert "no-example-here" in nothing.notes and "age 25+" in nothing.headings[0]


def test_taking_an_example_back(server, taught, person):
    ann = person("teacher")
    address = f"/agents/{taught}/limits/cell?unit=0&column=0"
    form = ann.get(address).form(f"/agents/{taught}/limits/retract")
    assert form == {"id": "1", "unit": "0", "column": "0"}
    done = ann.post(f"/agents/{taught}/limits/retract", form)
    shown = ann.follow(done)
    assert shown.said == "retracted" and "no-example-here" in shown.notes
    assert shown.has(data_mark="unsure")
    found = cells(ann.get(f"/agents/{taught}/limits"))
    assert found[0, 0][0].endswith("unsure")
    events = server.call("GET", f"/v1/agents/{taught}/events?after=0&limit=100").json["events"]
    assert events[-1]["kind"] == "Retracted" and events[-1]["event"]["by"].startswith("token ")
    assert ann.post(f"/agents/{taught}/limits/retract", form).status == 303  # as in the API
    assert ann.post(f"/agents/{taught}/limits/retract", {"id": "99"}).status == 404
    assert ann.post(f"/agents/{taught}/limits/retract", {}).status == 422


def test_who_may_not_take_back(taught, person):
    auditor = person("auditor")
    shown = auditor.get(f"/agents/{taught}/limits/cell?unit=0&column=0")
    assert not [one for one in shown.forms if "retract" in str(one["action"])]
    assert auditor.post(f"/agents/{taught}/limits/retract", {"id": "1"}).status == 403
    assert person("teacher", ("other",)).get(f"/agents/{taught}/limits").status == 403


def examples(shown: Shown) -> list[str]:
    return [one.data("example") for one in shown.all() if "data-example" in one.attrs]


def test_examples_come_in_parts(server, make, person):
    name = make()
    ages = ("12-17", "18-24", "25+")
    teach(server, name, *(({"age": ages[n % 3], "late": True}, "kite", True) for n in range(120)))
    ann = person("teacher")
    address = f"/agents/{name}/limits/cell?unit=1&column=3"
    first = ann.get(address)
    assert len(examples(first)) == 50 and examples(first)[0] == "120"
    last = ann.get(f"{address}&after=100")
    assert len(examples(last)) == 20
    assert any("after=50" in link for link in last.links)
    assert "no-more-examples" in ann.get(f"{address}&after=1000").notes


def test_addresses_that_are_none(taught, person):
    ann = person("teacher")
    assert ann.get("/agents/nobody/limits").status == 404
    for query in ("unit=2", "unit=0&column=4", "unit=99999999"):
        assert ann.get(f"/agents/{taught}/limits/cell?{query}").status == 404
    for query in ("unit=-1", "unit=x", "unit=0&column=1.5", "unit=0&after=-1"):
        assert ann.get(f"/agents/{taught}/limits/cell?{query}").status == 422
    assert ann.get(f"/agents/{taught}/limits?rows=-1").status == 422
    assert ann.get(f"/agents/{taught}/limits?rows=2000000000").status == 200


def test_script_in_every_field_is_text(server, person):
    ann = person("teacher")
    script = SCRIPT.replace("/", "-")
    agent = {
        "arms": [{"id": f"id{script}", "label": f"label{script}", "group": f"group{script}"}],
        "features": [
            {"kind": "category", "name": f"name{script}", "values": [f"word{script}", "b"]},
            {"kind": "number", "name": f"n{script}", "low": 0, "high": 1, "unit": f"u{script}"},
        ],
        "rules": [
            {
                "id": f"rule{script}",
                "groups": [f"group{script}"],
                "note": f"why{script}",
                "when": [{"feature": f"name{script}", "equals": f"word{script}"}],
            }
        ],
        "limits": "logistic",
    }
    made = server.call("POST", "/v1/agents", {"name": "films", "agent": agent})
    assert made.status == 201, made.body
    context = {f"name{script}": f"word{script}", f"n{script}": 1}
    teach(
        server,
        "films",
        (context, f"id{script}", False),
        by=f"by{SCRIPT}"[:60],
        note=f"note{SCRIPT}",
    )
    pages = [
        f"/agents/films/limits?find={SCRIPT}&feature={SCRIPT}",
        "/agents/films/limits",
        "/agents/films/limits/cell?unit=0&column=0",
    ]
    for path in pages:
        shown = ann.get(path.replace("<", "%3C").replace(">", "%3E"))
        assert shown.status == 200 and no_script(shown.html)
        assert "<script>alert" not in shown.html
        assert "&lt;script&gt;alert" in shown.html


def test_nobody_gets_there_without_signing_in(server, taught):
    nobody = Person(server, None)
    assert nobody.get(f"/agents/{taught}/limits").status == 303
    assert nobody.post(f"/agents/{taught}/limits/retract", {"id": "1"}).status == 401


@pytest.mark.parametrize("more", [{"limits": "auto"}, {"limits": "rules", "crosses": True}])
def test_what_is_denied_only_together_is_shown(server, make, person, more):
    names = ("bleeding", "surgery", SCRIPT[:20])
    name = make(
        features=[{"kind": "flag", "name": one} for one in names],
        arms=[{"id": "high", "label": "High dose"}],
        **more,
    )
    auditor = person("auditor")
    assert not [
        one for one in auditor.get(f"/agents/{name}/limits").all() if "data-pairs" in one.attrs
    ]
    for _ in range(3):
        for n in range(8):
            held = {one: bool(n >> i & 1) for i, one in enumerate(names)}
            fine = not (held["bleeding"] and held["surgery"])
            teach(server, name, (held, "high", fine))
    shown = auditor.get(f"/agents/{name}/limits")
    assert shown.status == 200 and no_script(shown.html)
    assert all(text.startswith("✓") for _, text in cells(shown).values())
    assert "no-combinations" in shown.notes
    [pair] = [one for one in shown.one(data_pairs="3").all() if "data-pair" in one.attrs]
    assert (pair.data("pair"), pair.data("mark")) == ("bleeding with surgery", "no")
    assert "High dose" in pair.text and "<1 %" in pair.text


def test_together_is_bounded_and_knows_declared_rules(server, make, person, monkeypatch):
    names = [f"f{n}" for n in range(30)]
    name = make(features=[{"kind": "flag", "name": one} for one in names], limits="logistic")
    teach(server, name, (dict.fromkeys(names, True), "kite", True))
    teach(server, name, (dict.fromkeys(names, False), "kite", True))
    shown = person("auditor").get(f"/agents/{name}/limits")
    assert "no-pair" in shown.one(data_pairs="66").notes  # of the first twelve
    when = [{"feature": one, "equals": True} for one in ("f0", "f1")]
    rule = {"declare": {"id": "both", "when": when, "arms": ["kite"]}}
    assert server.call("PATCH", f"/v1/agents/{name}", rule).status == 200
    monkeypatch.setattr("bridle.web.limits.MOST_PAIRS", 25)
    shown = person("auditor").get(f"/agents/{name}/limits")
    pair = shown.one(data_pairs="25").one(data_pair="f0 with f1")
    assert (pair.data("mark"), pair.data("rule")) == ("no", "all")
