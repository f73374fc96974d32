"""Agents whose contexts name their items, on the pages."""

from __future__ import annotations

import random

from bridle import Arm, Flag, Schema
from bridle.schema import Id
from bridle.web.csvs import BadCsv, example_columns, read_examples
from bridle.web.progress import sample_contexts
from tests.web.browsing import is_shown, pages_of

FEATURES = [{"kind": "id", "name": "title"}, {"kind": "flag", "name": "late"}]
SCHEMA = Schema([Id("title"), Flag("late")])


def test_a_csv_names_its_items():
    assert example_columns(SCHEMA) == ["title", "late", "arm", "allowed"]
    text = "title,late,arm,allowed\nAlien,yes,a,no\n17,no,a,yes\n,no,a,yes\n"
    rows = read_examples(SCHEMA, [Arm("a")], text)
    assert [SCHEMA.item(row.context) for row in rows] == ["Alien", 17, None]
    assert len(read_examples(SCHEMA, [Arm("a")], "late,arm,allowed\nyes,a,no")) == 1
    try:
        read_examples(SCHEMA, [Arm("a")], f"title,late,arm,allowed\n{'x' * 201},yes,a,no")
    except BadCsv as error:
        assert "longer than 200 characters" in str(error)
    else:
        raise AssertionError("it was taken")


def test_made_contexts_have_no_names():
    assert sample_contexts(SCHEMA, 4, random.Random(1)) == [{"late": False}, {"late": True}]


def test_every_page_of_such_an_agent_is_shown(server, make, person):
    make(features=FEATURES, budget=5, on_doubt="play_safe", answer_price=0.0)
    film = {"title": "Alien", "late": True}
    said = {"context": film, "arm": "night", "allowed": True}
    assert server.call("POST", "/v1/agents/films/examples", said).status == 201
    made = server.call("POST", "/v1/agents/films/decisions", {"context": film, "id": "d-1"}).json
    assert made["item"] == "Alien"
    ann = person("admin")
    for path in pages_of("films", "d-1"):
        assert is_shown(ann, path), path
    why = ann.get("/agents/films/decisions/d-1")
    assert why.value("item") == "Alien" and why.value("asking")
    assert ann.get("/agents/films/teach").all(data_item="Alien") or made["question"] is None
    saved = ann.get("/agents/films/teach/examples.csv").html
    assert "Alien,yes,night,yes" in saved


def test_rules_speak_of_all_features_but_the_name(server, make, person):
    make(features=FEATURES)
    ann = person("admin")
    shown = ann.get("/agents/films/settings/rules")
    assert [one.data("feature") for one in shown.all(data_feature="late")] == ["late"]
    assert not shown.has(data_feature="title")
    offered = [option.attrs["value"] for option in shown.one(name="feature0").children]
    assert offered == ["", "late"]
    typed = {"id": "r", "feature0": "title", "relation0": "is", "value0": "Alien", "all": "yes"}
    refused = ann.post("/agents/films/settings/rules", typed)
    assert refused.status == 422 and "An item is denied by its name" in refused.text
