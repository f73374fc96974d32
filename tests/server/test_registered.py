"""Agents with a policy, limits or a reward model of somebody else's, over HTTP."""

from __future__ import annotations

import runpy
from contextlib import closing
from pathlib import Path

import pytest

from bridle import registry
from tests.server.driving import Server

ROOT = Path(__file__).parents[2]
OURS = {"arms": ["a", "b"], "features": 2, "seed": 1}
NAMES = {"top_few": ("policy", "TopFew"), "logistic_reward": ("reward", "logistic")}
BODY = {
    "arms": ["a", "b", "c"],
    "features": 2,
    "seed": 1,
    "policy": {"kind": "TopFew", "options": {"few": 3}},
    "reward": "logistic",
    "reward_options": {"precision": 2.0},
}


@pytest.fixture(autouse=True)
def registered():
    for file in NAMES:
        runpy.run_path(str(ROOT / "examples" / f"{file}.py"), run_name=file)
    yield
    for kind, name in NAMES.values():
        registry.unregister(kind, name)


@pytest.fixture
def server(tmp_path):
    with closing(Server(tmp_path)) as server:
        yield server


def create(server, name, body):
    return server.call("POST", "/v1/agents", {"name": name, "agent": body})


def taught(server, name):
    assert create(server, name, BODY).status == 201
    for n in range(12):
        for arm in "abc":
            example = {"context": [float(n % 2), 1.0], "arm": arm, "allowed": True}
            assert server.call("POST", f"/v1/agents/{name}/examples", example).status in (200, 201)


def decide(server, name):
    return server.call("POST", f"/v1/agents/{name}/decisions", {"context": [1.0, 1.0]})


def test_an_agent_is_made_taught_and_decides(server):
    taught(server, "theirs")
    made = decide(server, "theirs")
    assert made.json["outcome"] == "decision" and made.json["propensity"] is None
    path = f"/v1/agents/theirs/decisions/{made.json['id']}/reward"
    assert server.call("POST", path, {"value": 1.0}).status == 200
    shown = server.call("GET", "/v1/agents/theirs").json
    assert shown["settings"]["policy"] == {"kind": "TopFew", "version": "1", "few": 3}
    assert shown["settings"]["reward_version"] == "1"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"policy": {"kind": "Nobody"}}, "policy"),
        ({"policy": {"kind": "TopFew", "options": {"fw": 1}}}, "policy"),
        ({"policy": {"kind": "TopFew", "sigma": 0.5}}, "policy"),
        ({"policy": {"kind": "KnownMask"}}, "policy"),
        ({"limits": "forest"}, "limits"),
        ({"reward": "forest"}, "reward"),
        ({"reward_options": {"ridge": 1.0}}, "reward_options"),
        ({"limits_options": {"depth": 1}}, "limits_options"),
    ],
)
def test_what_is_not_registered_is_an_invalid_value(server, change, field):
    answer = create(server, "theirs", {**BODY, **change})
    assert (answer.status, answer.code) == (422, "invalid_value")
    assert answer.json["error"]["field"].rpartition(".")[2] == field


def test_a_server_without_it_says_so_and_serves_the_others(tmp_path):
    ours = {"arms": ["a", "b"], "features": 2, "policy": {"kind": "Uniform"}}
    with closing(Server(tmp_path)) as server:
        taught(server, "theirs")
        assert create(server, "ours", ours).status == 201
    registry.unregister("policy", "TopFew")
    with closing(Server(tmp_path)) as other:
        other.token = server.token
        refused = decide(other, "theirs")
        assert (refused.status, refused.code) == (409, "conflict")
        assert "policy 'TopFew' is not registered" in refused.json["error"]["message"]
        assert "Nothing is lost" in refused.json["error"]["remedy"]
        assert decide(other, "ours").json["outcome"] == "decision"
        names = {one["name"] for one in other.call("GET", "/v1/agents").json["agents"]}
        assert names == {"ours", "theirs"}
        runpy.run_path(str(ROOT / "examples" / "top_few.py"), run_name="top_few")
        assert decide(other, "theirs").json["outcome"] == "decision"


def test_a_model_that_fails_harms_no_other_agent(server, caplog):
    """It cannot be made, or its state cannot be saved: others go on, and the server stops well."""

    class Raises:
        def __init__(self, **options):
            raise RuntimeError("no licence")

        @classmethod
        def from_state(cls, state):
            raise RuntimeError

    registry.register("reward", "raises", Raises, version="1")
    try:
        assert create(server, "ours", OURS).status == 201
        assert (
            create(server, "raises", {**BODY, "reward": "raises", "reward_options": {}}).status
            >= 400
        )
        assert decide(server, "ours").status == 200
        assert server.call("GET", "/v1/agents/raises").status == 404
    finally:
        registry.unregister("reward", "raises")


def test_a_state_that_cannot_be_saved_costs_a_snapshot_and_nothing_else(tmp_path, monkeypatch):
    def unsavable(self):
        raise TypeError("an object array")

    with closing(Server(tmp_path)) as server:
        taught(server, "theirs")
        assert create(server, "ours", OURS).status == 201
        assert decide(server, "ours").status == 200
        model = registry.require("reward", "logistic", "1").factory
        monkeypatch.setattr(model, "to_state", unsavable)
        token = server.token
    monkeypatch.undo()
    with closing(Server(tmp_path)) as server:  # it ended well, and the log is whole
        server.token = token
        assert decide(server, "theirs").status == 200
        assert decide(server, "ours").status == 200
