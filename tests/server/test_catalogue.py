"""Arms with features over HTTP: made, changed, brought along, played in slates, read in pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle.api.models import MAX_NUMBERS, AgentForm, settings_of
from bridle.errors import LimitReached
from bridle.server.limits import Limits
from bridle.store.aggregate import load
from bridle.store.maintenance import erase, replay, verify
from tests.catalogue import ADULT, AGENT, CHILD, FILMS, NEW, A, call, decide, live, make, teach
from tests.server.driving import Server
from tests.store.lives import state


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    # Kernels may have to be compiled first.
    server = Server(tmp_path, limits=Limits(answer_seconds=600.0))
    yield server
    server.close()


def sound(server: Server) -> None:
    """What is in memory is the fold of the log, which is whole and replays."""
    assert verify(server.store, "films").problems == ()
    assert replay(server.store, "films").agrees
    kept = server.runner.run(server.service.do("films", lambda work: work.aggregate))
    assert state(load(server.store, "films", snapshots=False)) == state(kept)


def test_a_life_is_recorded_shown_and_replays(server: Server):
    live(server)
    shown = call(server, "GET", A)
    assert shown["arms_total"] == 14 and shown["policy"]["kind"] == "LearnedMask"
    assert [one["name"] for one in shown["arm_features"]] == ["genres", "year"]
    listed = call(server, "GET", f"{A}/arms?after=1&limit=2")
    assert listed["total"] == 14 and "status" not in listed["arms"][0]
    assert listed["arms"][1]["label"] == "Film two"
    assert listed["arms"][1]["features"] == {"genres": ["Comedy"], "year": 1965.0}
    gone = call(server, "GET", f"{A}/arms?status=retired")
    assert [(one["id"], one["status"]) for one in gone["arms"]] == [("f4", "retired")]
    some = call(server, "POST", f"{A}/believed", {"context": CHILD, "arms": ["f3", "f2"]})["arms"]
    assert [one["arm"] for one in some] == ["f3", "f2"] and some[0]["p"] < 0.5 < some[1]["p"]
    every = call(server, "POST", f"{A}/believed", {"context": CHILD})
    assert every["total"] == 14 == len(every["arms"])
    sound(server)


def test_slates_and_their_rewards(server: Server):
    make(server)
    teach(server)
    body = {"k": 3, "id": "s", "propensity": True}
    slate = decide(server, **body)
    places = slate["decisions"]
    assert [one["id"] for one in places] == ["s", "s/2", "s/3"]
    assert [(one["slate"], one["place"]) for one in places] == [("s", 1), ("s", 2), ("s", 3)]
    assert all(one["draws"] > 1 for one in places) and slate["propensity"] is None
    assert decide(server, **body) == slate
    path = f"{A}/decisions"
    assert server.call("POST", path, {"context": ADULT, **body, "k": 2}).status == 409
    wrong: dict[str, Any]
    for wrong in ({"k": 0}, {"k": 101}, {"k": 2, "played": "f1"}, {"k": 2, "among": [NEW]}):
        assert server.call("POST", path, {"context": ADULT, **wrong}).status == 422, wrong
    for wrong in ({"k": 2}, {"among": [NEW]}):
        many = {"decisions": [{"context": ADULT}], **wrong}
        assert server.call("POST", path, many).status == 422, wrong
    # Each place has one reward, by its own id or by that of the slate.
    call(server, "POST", f"{path}/s%2F2/reward", {"value": 0.5})
    earned = call(server, "POST", f"{path}/s/reward", {"items": [0.25, 0.5, None]})
    assert [one["outcome"] for one in earned["items"]] == ["learned", "learned", None]
    assert call(server, "POST", f"{path}/s/reward", {"items": [0.25, 0.5, None]}) == earned
    assert server.call("POST", f"{path}/s/reward", {"slate": 1.5}).status == 409
    assert server.call("POST", f"{path}/s%2F2/reward", {"slate": 1.5}).status == 409
    for wrong in ({}, {"slate": 1, "items": [1]}, {"items": [1.0]}, {"slate": 4.0}, {"items": []}):
        assert server.call("POST", f"{path}/s/reward", wrong).status == 422, wrong
    assert server.call("POST", f"{path}/nobody/reward", {"slate": 1.0}).status == 404
    sound(server)


def test_a_slate_is_erased_as_a_whole(server: Server):
    make(server)
    teach(server)
    decide(server, k=2, id="s")
    decide(server, id="d")
    call(server, "POST", f"{A}/decisions/s/reward", {"slate": 1.0})
    server.runner.run(server.service.stop())
    erase(server.store, "films", decisions=["s/2"])
    kept = [entry.kind for entry in server.store.read("films", 0, 100) if entry.payload]
    assert kept.count("Decided") == 1 and "Rewarded" not in kept
    assert verify(server.store, "films").problems == ()
    assert load(server.store, "films").state.decisions == 3


def test_an_arm_that_was_brought_along_outlives_who_it_was_brought_for(server: Server):
    make(server)
    teach(server)
    decide(server, id="first", among=[NEW])
    call(server, "POST", f"{A}/examples", {"context": ADULT, "arm": "n1", "allowed": True})
    decide(server, id="second", among=["n1"])
    server.runner.run(server.service.stop())
    erase(server.store, "films", decisions=["first"])
    left = load(server.store, "films")
    assert (
        left.agent.arms[-1].id == "n1"
        and dict(left.agent.arms[-1].features or {})["year"] == 2000.0
    )
    assert verify(server.store, "films").problems == ()
    assert replay(server.store, "films").differing == 0


def test_one_change_at_a_time_and_only_what_can_be(server: Server):
    make(server)
    wrong: dict[str, Any]
    for wrong in (
        {"retire_arms": []},
        {"retire_arms": ["nobody"]},
        {"restore_arms": None},
        {"retire_arms": ["f1"], "restore_arms": ["f1"]},
        {"change_arms": [{"id": "nobody"}]},
        {"change_arms": [{"id": "f1", "group": "other"}]},
        {"change_arms": [{"id": "f1", "features": {"genres": ["Western"], "year": 1999}}]},
        {"add_arms": [{"id": "x", "features": {"colour": 1}}]},
        {"policy": {"kind": "KnownMask"}},
        {"policy": {"kind": "Nobody's"}},
        {"declare": {"id": "r", "when": [{"arm": "colour", "equals": True}]}},
        {"declare": {"id": "r", "when": [{"feature": "child", "arm": "year", "equals": True}]}},
    ):
        assert server.call("PATCH", A, wrong).status == 422, wrong
    assert call(server, "GET", A)["version"] == 1
    for body in (
        {"arm_features": [{"kind": "id", "name": "n"}]},
        {"interactions": [["child", "colour"]]},
        {"set_limits": {"at_most": [{"most": 1, "feature": "colour"}]}},
        {"arms": [{"id": "a", "features": {"genres": ["Horror"], "year": "old"}}]},
    ):
        made = server.call("POST", "/v1/agents", {"name": "x", "agent": {**AGENT, **body}})
        assert made.status == 422, body


@pytest.mark.parametrize(
    "more",
    [
        {"features": 9_000, "arm_features": 9_000, "arms": [1]},
        {"features": 150, "arm_features": 100, "arms": list(range(80_000)), "interactions": "none"},
        {"features": 30, "reward": "linear", "arm_features": 1, "arms": list(range(50_000))},
    ],
    ids=["joint", "columns", "linear"],
)
def test_sizes_are_checked_before_the_work(more: dict[str, Any]):
    with pytest.raises(LimitReached, match=f"{MAX_NUMBERS:,}"):
        settings_of(AgentForm.model_validate(more, strict=False))


def test_a_catalogue_is_listed_in_pages(server: Server):
    arms = [{**FILMS[n % 12], "id": f"a{n}"} for n in range(1_200)]
    made = make(server, arms=arms, set_limits=None)
    assert made["arms_total"] == 1_200
    assert len(made["arms"]) == len(made["settings"]["arms"]) == 1_000
    page = call(server, "GET", f"{A}/arms?after=1150&limit=1000")
    assert page["total"] == 1_200 and [one["id"] for one in page["arms"]][-1] == "a1199"


def test_agents_without_features_say_nothing_new(server: Server):
    plain = {"arms": ["x", "y"], "features": 1, "limits": "rules", "seed": 1}
    made = call(server, "POST", "/v1/agents", {"name": "plain", "agent": plain})
    assert not {"arm_features", "arms_total"} & made.keys()
    assert made["arms"][0] == {"id": "x", "label": "x", "group": None}
    said = {"context": [1.0], "arm": "x", "allowed": True, "item": "i"}
    call(server, "POST", "/v1/agents/plain/examples", said)
    body = {"context": [1.0], "item": "i", "propensity": True}
    choice = call(server, "POST", "/v1/agents/plain/decisions", body)
    assert not {"draws", "slate", "place"} & choice.keys()
    believed = call(server, "POST", "/v1/agents/plain/believed", {"context": [1.0]})
    assert believed.keys() == {"arms"}


def test_what_is_not_given_of_an_arm_is_in_doubt(server: Server):
    features = [
        {"kind": "labels", "name": "genres", "values": ["Horror", "Drama"], "optional": True},
        {"kind": "category", "name": "rating", "values": ["G", "R"], "optional": True},
        {"kind": "number", "name": "year", "low": 1950, "high": 2030, "optional": True},
        {"kind": "flag", "name": "new", "optional": True},
    ]
    whole = {"rating": "G", "year": 1990, "new": False}
    arms = [
        {"id": "horror", "features": whole | {"genres": ["Horror"]}},
        {"id": "drama", "features": whole | {"genres": ["Drama"]}},
        {"id": "none", "features": whole | {"genres": []}},
        {"id": "more", "features": whole | {"genres": ["Drama", None], "rating": []}},
        {"id": "bare", "features": {"genres": None}},
        "nothing",
    ]
    made = make(server, arms=arms, arm_features=features, set_limits=None, rules=[])
    assert made["settings"]["arm_features"][0]["optional"] is True
    shown = call(server, "GET", f"{A}/arms")["arms"]
    assert [one["features"]["genres"] for one in shown[2:]] == [[], ["Drama", None], None, None]
    assert shown[3]["features"]["rating"] == [] and shown[5]["features"]["year"] is None
    said = [
        {"context": CHILD, "arm": arm, "allowed": arm != "horror"}
        for _ in range(40)
        for arm in ("horror", "drama", "none")
    ]
    call(server, "POST", f"{A}/examples", {"examples": said, "by": "editor"})
    believed = call(server, "POST", f"{A}/believed", {"context": CHILD})["arms"]
    assert [one["playable"] for one in believed] == [False, True, True, False, False, False]
    assert believed[4]["why_not"].endswith("genres, rating, year, new not given")
    made = decide(server, context=CHILD, among=[{"id": "x", "features": {"rating": "G"}}])
    assert made["outcome"] == "abstention"
    sound(server)
    refused = server.call(
        "POST", "/v1/agents", {"name": "b", "agent": {"arms": 2, "features": features}}
    )
    assert refused.status == 422
