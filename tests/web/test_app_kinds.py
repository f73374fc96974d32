"""An agent with a feature of every kind: made over HTTP, taught, and shown on every page."""

from __future__ import annotations

from typing import Any

import pytest

from bridle import Agent
from bridle.schema import KINDS, Schema
from tests.web.browsing import is_shown, pages_of

# By kind: a feature, and a value of it.
EACH: dict[str, tuple[dict[str, Any], object]] = {
    "number": ({"name": "height", "low": 100.0, "high": 220.0, "unit": "cm"}, 180.0),
    "flag": ({"name": "late"}, True),
    "category": ({"name": "age", "values": ["12-17", "18-24", "25+"]}, "18-24"),
    "labels": ({"name": "genres", "values": ["Drama", "Horror"]}, ["Horror"]),
    "id": ({"name": "title"}, "Alien"),
}
FEATURES = [{"kind": kind} | feature for kind, (feature, _) in EACH.items()]
CONTEXT = {feature["name"]: value for feature, value in EACH.values()}


def test_each_kind_is_here():
    assert EACH.keys() == KINDS.keys()


@pytest.mark.parametrize("limits", ["auto", "rules", "linear"])
def test_every_page_of_such_an_agent_is_shown(server, make, person, limits):
    # First without a server: what is compiled here would take longer than a request may.
    agent = Agent(arms=["a", "b"], features=Schema.from_json(FEATURES), limits=limits, seed=1)
    agent.teach(CONTEXT, "a", True)
    agent.decide(CONTEXT)
    make(features=FEATURES, limits=limits)
    shown = server.call("GET", "/v1/agents/films").json["features"]
    assert [one["kind"] for one in shown] == [*EACH]
    assert all(given.items() <= one.items() for given, one in zip(FEATURES, shown, strict=True))
    for arm, allowed in (("night", True), ("fog", False), ("kite", True)):
        said = {"context": CONTEXT, "arm": arm, "allowed": allowed}
        assert server.call("POST", "/v1/agents/films/examples", said).status == 201
    decided = server.call("POST", "/v1/agents/films/decisions", {"context": CONTEXT, "id": "d-1"})
    assert decided.status == 200 and decided.json["item"] == "Alien"
    ann = person("admin")
    for path in pages_of("films", "d-1"):
        assert is_shown(ann, path), path
    why = ann.get("/agents/films/decisions/d-1").text
    assert all(word in why for word in ("180 cm", "18-24", "Horror", "Alien"))
    asked = "f.height=180&f.late=yes&f.age=18-24&f.genres=Horror"
    assert ann.get(f"/agents/films/limits/what-if?{asked}").status == 200
    assert "Alien" in ann.get("/agents/films/teach/examples.csv").html
