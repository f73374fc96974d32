"""Agents whose contexts name their items, on the pages."""

from __future__ import annotations

import random

from bridle import Arm, Flag, Schema
from bridle.schema import Id
from bridle.web.csvs import BadCsv, example_columns, read_examples
from bridle.web.progress import sample_contexts

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
    for page in (
        "teach",
        "teach/examples",
        "teach/bulk",
        "limits",
        "limits/what-if",
        "live",
        "decisions",
        "dial",
        "promises",
        "decisions/d-1",
        "settings",
    ):
        assert ann.get(f"/agents/films/{page}").status == 200, page
    why = ann.get("/agents/films/decisions/d-1")
    assert why.value("item") == "Alien" and why.value("asking")
    assert ann.get("/agents/films/teach").all(data_item="Alien") or made["question"] is None
    saved = ann.get("/agents/films/teach/examples.csv").html
    assert "Alien,yes,night,yes" in saved
