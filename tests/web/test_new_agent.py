from __future__ import annotations

from typing import Any

import pytest

from bridle.errors import Busy
from tests.web.browsing import no_script

FORM = {
    "name": "films",
    "arms": "night, The Long Night, Horror\nfog, Fog\nkite",
    "features": "category age: 12-17, 18+\nflag late?\nnumber height 100 220 cm",
    "limits": "rules",
    "policy": "mask",
    "sigma": "",
    "budget": "5",
    "on_doubt": "wait",
    "reward_low": "1",
    "reward_high": "5",
    "wait": "2",
    "unit": "days",
    "default_reward": "1",
    "do": "make",
}
SCRIPT = "<script>alert(1)</script>"
CSV = (
    b"age,late,genres,height,who\n12-17,yes,Drama|Horror,171.2,a\n18+,no,Drama,160,a\n18+,,,155,b\n"
)


def settings(server, name: str = "films") -> Any:
    shown = server.call("GET", f"/v1/agents/{name}").json
    return shown["settings"]


@pytest.mark.parametrize("role", ["teacher", "auditor"])
def test_only_admins_make_agents(server, person, role):
    somebody = person(role)
    assert somebody.get("/agents/new").status == 403
    assert somebody.post("/agents/new", FORM).status == 403
    assert server.store.agents() == []


def test_a_form_makes_an_agent(server, person):
    admin = person("admin")
    shown = admin.get("/agents/new")
    assert shown.status == 200 and no_script(shown.html)
    made = admin.post("/agents/new", FORM)
    assert made.status == 303, made.text
    assert made.headers["location"] == "/agents/films/teach?said=made"
    given = settings(server)
    assert given["arms"] == [
        {"id": "night", "label": "The Long Night", "group": "Horror"},
        {"id": "fog", "label": "Fog", "group": None},
        {"id": "kite", "label": "kite", "group": None},
    ]
    assert [one["kind"] for one in given["features"]] == ["category", "flag", "number"]
    assert given["features"][1]["missing"] is False
    assert given["features"][2] | {"clip": 0} == {
        "kind": "number",
        "name": "height",
        "low": 100.0,
        "high": 220.0,
        "clip": 0,
        "missing": None,
        "unit": "cm",
    }
    assert given["policy"]["kind"] == "LearnedMask" and given["policy"]["sigma"] == 1.0
    assert (given["limits"], given["budget"], given["on_doubt"]) == ("rules", 5, "wait")
    assert given["reward_range"] == [1.0, 5.0]
    assert (given["wait"], given["default_reward"]) == (172_800.0, 1.0)


def test_what_is_left_empty_has_its_default(server, person):
    made = person("admin").post("/agents/new", {"name": "a", "arms": "x\ny", "features": "flag b"})
    assert made.status == 303, made.text
    given = settings(server, "a")
    assert (given["limits"], given["budget"], given["wait"]) == ("auto", 0, None)
    assert given["reward_range"] == [0.0, 1.0]


@pytest.mark.parametrize(("typed", "sigma"), [("", 0.25), ("0.6", 0.6)])
def test_the_dial_of_the_paper(server, person, typed, sigma):
    form = FORM | {"policy": "dial", "budget": "0", "sigma": typed}
    assert person("admin").post("/agents/new", form).status == 303
    given = settings(server)["policy"]
    assert (given["kind"], given["sigma"]) == ("BehaviorConstrained", sigma)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "Films!"}, "The name must have"),
        ({"name": ""}, "The name must have"),
        ({"arms": ""}, "The choices are empty"),
        ({"arms": "a, b, c, d"}, "Line 1 of the choices"),
        ({"arms": "a\na"}, "distinct"),
        ({"arms": "x" * 300}, "longer than 200 characters"),
        ({"features": "flag " + "x" * 300}, "longer than 200 characters"),
        ({"features": " \n "}, "The features are empty"),
        ({"features": "flag a\ncolour b"}, "Line 2 of the features: it must begin with"),
        ({"features": "flag a\nflag a"}, "distinct names"),
        ({"features": "number h 5 5"}, "less than high"),
        ({"limits": "magic"}, "'limits'"),
        ({"on_doubt": "magic"}, "agent.on_doubt"),
        ({"sigma": "1.5"}, "The dial goes from 0 to 1"),
        ({"sigma": "much"}, "no number"),
        ({"sigma": "nan"}, "no number"),
        ({"budget": "-1"}, "no whole number"),
        ({"budget": "5", "policy": "dial"}, "it never asks"),
        ({"reward_low": "6"}, "low < high"),
        ({"reward_high": "inf"}, "no number"),
        ({"wait": "-3"}, "greater than 0"),
        ({"wait": ""}, "Say how long"),
        ({"default_reward": "7"}, "[1, 5]"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_lost(server, person, change, words):
    form = FORM | change
    shown = person("admin").post("/agents/new", form)
    assert shown.status == 422
    assert words in shown.alert
    for name in ("name", "sigma", "budget", "reward_low", "reward_high", "wait", "default_reward"):
        assert shown.form("/agents/new")[name] == form[name]
    assert form["arms"].strip() in shown.html and form["features"].strip() in shown.html
    assert server.store.agents() == []


def test_a_name_that_is_taken(server, make, person):
    make("films")
    shown = person("admin").post("/agents/new", FORM)
    assert shown.status == 409 and "another name" in shown.alert
    assert "The Long Night" in shown.html


def test_script_in_every_field_stays_text(person):
    admin = person("admin")
    for name in FORM:
        if name == "do":
            continue
        shown = admin.post("/agents/new", FORM | {name: SCRIPT, "budget": "x"})
        assert shown.status == 422
        assert no_script(shown.html) and SCRIPT not in shown.html
    csv = f'"{SCRIPT}",late\nx,yes\n'.encode()
    shown = admin.upload("/agents/new", {"do": "propose"}, {"csv": (SCRIPT, csv)})
    assert shown.status == 200 and no_script(shown.html)
    assert "&lt;script&gt;" in shown.html


def test_a_script_as_a_label_is_taken_as_it_is(server, person):
    form = FORM | {"arms": f"a, {SCRIPT}\nb", "features": f"flag {SCRIPT}"}
    assert person("admin").post("/agents/new", form).status == 303
    given = settings(server)
    assert given["arms"][0]["label"] == SCRIPT and given["features"][0]["name"] == SCRIPT


def test_features_out_of_a_csv(server, person):
    admin = person("admin")
    typed = {"name": "films", "arms": "a\nb", "budget": "7", "do": "propose"}
    shown = admin.upload("/agents/new", typed, {"csv": ("contexts.csv", CSV)})
    assert shown.status == 200
    assert shown.value("proposal-lines") == "3"
    lines = (
        "category age: 12-17, 18+\nflag late?\nlabels genres: Drama, Horror\n"
        "number height 155 172\ncategory who: a, b"
    )
    assert lines in shown.html
    assert shown.form("/agents/new")["budget"] == "7"
    made = admin.post("/agents/new", typed | {"features": lines, "do": "make", "budget": "0"})
    assert made.status == 303, made.text


def test_who_sends_a_csv_and_no_features_gets_a_proposal(server, person):
    form = FORM | {"features": ""}
    shown = person("admin").upload("/agents/new", form, {"csv": ("contexts.csv", CSV)})
    assert shown.status == 200 and "number height 155 172" in shown.html
    assert server.store.agents() == []


def test_arms_out_of_a_csv_of_examples(person):
    csv = b'late,arm,allowed\nyes,"fog, thick",no\nno,kite,yes\n'
    shown = person("admin").upload("/agents/new", {"do": "propose"}, {"csv": ("x.csv", csv)})
    assert "&#34;fog, thick&#34;\nkite" in shown.html
    assert "flag late" in shown.html and "allowed:" not in shown.html


@pytest.mark.parametrize(
    ("csv", "words"),
    [
        (b"", "names the columns"),
        (b"age,late\n12,yes,3\n", "Line 2 has 3 cells"),
        (b"name\n\xff\xfe\n", "not text in UTF-8"),
        (b"empty,x\n,1\n,0\n", ""),
        (b"empty,other\n,\n", ""),
        (("note\n" + "".join(f"text {n}\n" for n in range(60))).encode(), "60 different texts"),
    ],
)
def test_a_csv_that_proposes_nothing(person, csv, words):
    shown = person("admin").upload("/agents/new", FORM | {"do": "propose"}, {"csv": ("x.csv", csv)})
    if b"x\n,1" in csv:
        assert "flag x" in shown.html and "left out" in shown.value("proposal-notes")
        return
    assert shown.status in (400, 422) and words in shown.alert
    assert "The Long Night" in shown.html


def test_to_propose_it_takes_a_csv(person):
    shown = person("admin").post("/agents/new", FORM | {"do": "propose"})
    assert shown.status == 422 and "Choose a csv" in shown.alert


def test_what_fails_here_is_not_told_as_a_mistake_of_the_form(server, person, monkeypatch):
    def broken(*_):
        raise RuntimeError("secret")

    monkeypatch.setattr("bridle.server.handlers.agents.settings_of", broken)
    admin = person("admin")
    shown = admin.post("/agents/new", FORM)
    assert shown.status == 500 and "secret" not in shown.text

    def full(*_):
        raise Busy(18)

    monkeypatch.setattr("bridle.server.handlers.agents.settings_of", full)
    assert admin.post("/agents/new", FORM).status == 503
