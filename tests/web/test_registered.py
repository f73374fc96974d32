"""Pages of agents whose policy, limits or reward model is somebody else's."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from bridle import registry
from bridle.web.jobs import jobs_of
from tests.web.browsing import is_shown, pages_of

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = {
    "top_few": ("policy", "TopFew"),
    "tree_limits": ("limits", "tree"),
    "logistic_reward": ("reward", "logistic"),
}
PARTS: dict[str, dict[str, Any]] = {
    "policy": {"policy": {"kind": "TopFew", "options": {"few": 3}}},
    "limits": {"limits": "tree", "limits_options": {"enough": 2}},
    "reward": {"reward": "logistic"},
}
ALL = PARTS["policy"] | PARTS["limits"] | PARTS["reward"]
CONTEXT: dict[str, Any] = {"age": "25+", "late": True}


@pytest.fixture(autouse=True)
def others(monkeypatch):
    """Register the examples, and nothing else; scikit-learn may be missing."""
    pytest.importorskip("sklearn")
    monkeypatch.setattr(registry, "_known", {})
    for name in NAMES:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=name)


def live(server, name: str) -> str:
    """Teach, ask, decide and reward; return the id of a decision."""
    for n in range(6):
        for arm in ("night", "kite"):
            for late in (True, False):
                body: dict[str, Any] = {
                    "context": {"age": "25+", "late": late},
                    "arm": arm,
                    "allowed": arm == "kite" or late,
                    "item": f"{n}",
                }
                said = server.call("POST", f"/v1/agents/{name}/examples", body)
                assert said.status in (200, 201), said.body
    asked = server.call("POST", f"/v1/agents/{name}/questions", {"context": CONTEXT})
    assert asked.status in (200, 201), asked.body
    found = ""
    for n in range(5):
        body = {"context": CONTEXT, "item": f"{n}"}
        made = server.call("POST", f"/v1/agents/{name}/decisions", body)
        assert made.status in (200, 201), made.body
        if made.json.get("arm") is not None:
            found = str(made.json["id"])
            path = f"/v1/agents/{name}/decisions/{found}/reward"
            assert server.call("POST", path, {"value": 1.0}).status in (200, 201)
    assert found
    return found


@pytest.mark.parametrize("more", [*PARTS.values(), ALL], ids=[*PARTS, "all"])
def test_every_page_of_such_an_agent_is_shown(server, make, person, more):
    name = make(**({"limits": "auto", "checks": 1000} | more))
    id = live(server, name)
    admin = person("admin")
    for path in pages_of(name, id):
        assert is_shown(admin, path), path
    assert admin.get(f"/agents/{name}/limits/what-if?f.age=25%2B&f.late=yes").status == 200
    # Its own policy has no dial; with ours rewards are weighed all the same.
    evaluated = admin.post(f"/agents/{name}/dial/evaluate", {})
    assert evaluated.status == (409 if "policy" in more else 303)
    job = jobs_of(server.service).find(f"evaluate {name}")
    assert job is None or (job.wait(60.0) and job.state == "done")
    shown = admin.get(f"/agents/{name}/dial")
    assert shown.status == 200
    begun = admin.post(f"/agents/{name}/promises/begin", {"alpha": "1", "confidence": "95"})
    assert begun.status < 500


FORM = {
    "name": "films",
    "arms": "night\nkite",
    "features": "flag late",
    "limits": "tree",
    "policy": "TopFew",
    "reward": "logistic",
    "do": "make",
}


def test_the_form_offers_what_is_registered(server, person):
    admin = person("admin")
    shown = admin.get("/agents/new")
    assert len(shown.one(name="limits").all(value="tree")) == 1
    assert len(shown.one(name="reward").all(value="logistic")) == 1
    assert len(shown.all(name="policy", value="TopFew")) == 1
    made = admin.post("/agents/new", FORM)
    assert made.status == 303, made.text
    given = server.call("GET", "/v1/agents/films").json["settings"]
    assert given["policy"] == {"kind": "TopFew", "version": "1", "few": 2}
    assert (given["limits"], given["reward"]) == ("tree", "logistic")
    for wrong, said in (
        ({"sigma": "0.5"}, "no dial"),
        ({"policy": "Nobody"}, "Nobody"),
        ({"limits": "bush"}, "bush"),
        ({"reward": "odds"}, "odds"),
    ):
        refused = admin.post("/agents/new", FORM | {"name": "others"} | wrong)
        assert refused.status == 422 and said in refused.text


def test_the_form_offers_ours_alone_where_nothing_is_registered(person):
    for kind, name in NAMES.values():
        registry.unregister(kind, name)
    shown = person("admin").get("/agents/new")
    assert not shown.all(value="tree") and not shown.all(name="reward")
    assert not shown.all(name="policy", value="TopFew")
