"""What nobody should do, and some will: the API refuses it, and nobody else is harmed."""

from __future__ import annotations

import asyncio

import pytest

from bridle.certificates.calibration import Certification
from bridle.errors import NotPossible
from bridle.store.maintenance import erase
from tests.server.test_api import ADULT, CHILD, MOVIES, A, make, sound, teach


@pytest.fixture
def movies(server):
    make(server)
    teach(server)
    return server


def test_a_calibration_that_gives_no_certificate_ends_and_says_why(movies, monkeypatch):
    def refuse(self, at=None):
        raise NotPossible("something has changed meanwhile")

    monkeypatch.setattr(Certification, "certificate", refuse)
    contexts = [CHILD, ADULT] * 30
    body = {"contexts": contexts, "alpha": 0.05, "delta": 0.1}
    told = movies.call("POST", f"{A}/certificate", body)
    assert told.status == 201, told.body
    assert movies.call("PATCH", A, {"add_arms": ["news"]}).code == "conflict"
    while told.json["calibration"] is not None:
        told = movies.call("POST", f"{A}/certificate/answer", {"allowed": False})
        assert told.status == 200, told.body
    assert told.json["certificate"] is None
    assert "something has changed" in told.json["refused"]
    assert movies.call("GET", f"{A}/certificate").json["calibration"] is None
    assert movies.call("PATCH", A, {"add_arms": ["news"]}).status == 200
    sound(movies)


def test_an_agent_that_plays_the_least_bad_is_not_certified(server):
    make(server, on_empty="least_bad")
    body = {"contexts": [CHILD] * 60, "alpha": 0.1, "delta": 0.1}
    assert server.call("POST", f"{A}/certificate", body).code == "conflict"


def test_who_it_was_cannot_be_cut_off(movies):
    token = movies.grant("teacher")
    body = {"context": CHILD, "arm": "nature", "allowed": True, "by": "tom (token abc)".ljust(200)}
    assert movies.call("POST", f"{A}/examples", body, token=token.text).status == 201
    said = movies.call("GET", f"{A}/examples").json["examples"][-1]["by"]
    assert said.endswith(f"(token {token.row.id})") and len(said) <= 200


def test_ids_that_only_look_like_numbers(movies):
    for id in ("%C2%B2", "%E2%91%A0", "007", "%D9%A3"):
        assert movies.call("POST", f"{A}/decisions/{id}/reward", {"value": 1}).status == 404
        assert movies.call("DELETE", f"{A}/examples/{id}").status == 404
    for id in (".", ".."):
        answer = movies.call("POST", f"{A}/decisions", {"context": CHILD, "id": id})
        assert answer.code == "invalid_value"


def test_an_admin_of_some_agents_makes_no_others_and_hears_of_none(server):
    make(server, "hidden")
    token = server.grant("admin", ("movies", "ghost")).text
    refused = server.call("POST", "/v1/agents", {"name": "squat", "agent": MOVIES}, token=token)
    assert refused.code == "forbidden"
    made = server.call("POST", "/v1/agents", {"name": "movies", "agent": MOVIES}, token=token)
    assert made.status == 201
    for method, path, body in (
        ("POST", "evaluate", {}),
        ("GET", "events", None),
        ("GET", "examples", None),
    ):
        answer = server.call(method, f"/v1/agents/ghost/{path}", body, token=token)
        assert answer.code == "not_found" and b"hidden" not in answer.body


def test_an_agent_that_is_too_large_is_refused_at_once(server):
    answer = make(server, arms=list(range(2_000)), features=500)
    assert answer.code == "limit_reached"


def test_what_was_erased_is_neither_told_nor_taken(movies):
    sent = {"context": CHILD, "arm": "nature", "allowed": True, "id": "e-1"}
    assert movies.call("POST", f"{A}/examples", sent).status == 201
    made = {"context": CHILD, "id": "d-1"}
    assert movies.call("POST", f"{A}/decisions", made).status == 200
    assert movies.call("POST", f"{A}/decisions/d-1/reward", {"value": 1}).status == 200
    movies.runner.run(movies.service.stop())
    erase(movies.store, "movies", decisions=["d-1"], examples=["e-1"])
    movies.runner.run(movies.service.start(ticking=False))
    found = movies.store.find("movies", "example", ["e-1"])["e-1"]
    assert found.digest is None
    for guess in (sent, sent | {"allowed": False}):
        assert movies.call("POST", f"{A}/examples", guess).code == "conflict"
    assert movies.call("POST", f"{A}/decisions/d-1/reward", {"value": 1}).code == "conflict"
    assert movies.call("POST", f"{A}/decisions", made).code == "conflict"


def test_work_that_is_refused_halfway_spoils_no_other(movies):
    make(movies, "songs")

    def half(unit_of_work):
        unit_of_work.aggregate.record(
            unit_of_work.aggregate.agent.make.decided(CHILD, id="half", at=1.0).event
        )
        raise NotPossible("on second thoughts")

    async def both():
        fine = [
            movies.service.do(
                "songs",
                lambda unit_of_work, n=n: unit_of_work.aggregate.record(
                    unit_of_work.aggregate.agent.make.decided(CHILD, id=f"s-{n}", at=1.0).event
                ),
            )
            for n in range(5)
        ]
        work = [*fine[:2], movies.service.do("movies", half), *fine[2:]]
        return await asyncio.gather(*work, return_exceptions=True)

    found = movies.runner.run(both())
    assert isinstance(found[2], NotPossible)
    assert [one for n, one in enumerate(found) if n != 2] == [None] * 5
    assert movies.call("GET", "/readyz").status == 200
    assert movies.call("GET", f"{A}/decisions/half").code == "not_found"
    assert len(movies.store.find("songs", "decision", [f"s-{n}" for n in range(5)])) == 5
    sound(movies)
