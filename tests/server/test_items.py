"""Items over HTTP: what a context is about has a name, and answers are certain for it."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from bridle.api.requests import Decide, digest_of
from tests.server.driving import Server

FILM = {"horror": True, "late": False}
FEATURES = [{"kind": "flag", "name": "horror"}, {"kind": "flag", "name": "late"}]


def make(server: Server, name: str = "films", **more: Any) -> Any:
    agent = {"arms": ["x", "y"], "features": FEATURES, "limits": "rules", "seed": 1} | more
    return server.call("POST", "/v1/agents", {"name": name, "agent": agent})


def post(server: Server, what: str, body: Any, status: int = 200) -> Any:
    answer = server.call("POST", f"/v1/agents/films/{what}", body)
    assert answer.status == status, answer.body
    return answer.json


def test_an_answer_is_certain_for_its_item(server):
    make(server)
    said = {"context": FILM, "arm": "x", "allowed": True, "item": "Alien", "id": "e1"}
    for _ in range(2):  # the same again is the same
        assert post(server, "examples", said, 201)["examples"] == ["e1"]
    other = server.call("POST", "/v1/agents/films/examples", said | {"item": "Up"})
    assert other.status == 409  # another item is another example
    post(
        server,
        "examples",
        {"examples": [{"context": FILM, "arm": "x", "allowed": False, "item": 7}]},
        201,
    )
    listed = server.call("GET", "/v1/agents/films/examples").json["examples"]
    assert [one["item"] for one in listed] == ["Alien", 7]
    p = [
        post(server, "believed", {"context": FILM, "item": item})["arms"][0]["p"]
        for item in ("Alien", 7, "Up")
    ]
    assert p[:2] == [1.0, 0.0] and 0.0 < p[2] < 1.0
    why = post(server, "believed", {"context": FILM, "item": 7})["arms"][0]["why_not"]
    assert why == "denied by the teacher for this item"
    made = post(server, "decisions", {"context": FILM, "item": "Alien", "id": "d1"})
    assert (made["outcome"], made["arm"], made["item"]) == ("decision", "x", "Alien")
    assert post(server, "decisions", {"context": FILM, "item": "Alien", "id": "d1"}) == made
    account = server.call("GET", "/v1/agents/films/decisions/d1").json["account"]
    assert account["item"] == "Alien" and account["agrees"]
    many = post(
        server,
        "decisions",
        {
            "decisions": [
                {"context": FILM, "item": "Alien"},
                {"context": FILM, "item": 7},
                {"context": FILM},
            ]
        },
    )["decisions"]
    assert [one["item"] for one in many] == ["Alien", 7, None]
    assert [one["outcome"] for one in many] == ["decision", "abstention", "abstention"]
    shadow = post(server, "decisions", {"context": FILM, "item": 7, "played": "y"})
    assert (shadow["outcome"], shadow["item"]) == ("abstention", 7)


def test_a_request_without_an_item_has_the_digest_that_it_had():
    """One that was sent before there were items, and is sent again, is the same."""
    form = Decide(context={"horror": True}, id="d")
    before = (
        b'{"context":{"horror":true},"id":"d","played":null,"among":null,"propensity":false,'
        b'"ask":true}'
    )
    assert digest_of(form) == hashlib.sha256(before).digest()
    assert digest_of(form) != digest_of(form.model_copy(update={"item": "Up"}))


def test_a_feature_of_the_kind_id_names_the_item(server):
    made = make(server, features=[{"kind": "id", "name": "title"}, *FEATURES])
    assert made.status == 201
    assert made.json["features"][0] == {"kind": "id", "name": "title", "missing": None}
    context = FILM | {"title": "Alien"}
    post(server, "examples", {"context": context, "arm": "x", "allowed": True}, 201)
    made = post(server, "decisions", {"context": context, "id": "d1"})
    assert (made["arm"], made["item"]) == ("x", "Alien")
    assert post(server, "decisions", {"context": FILM})["item"] is None
    wrong = server.call("POST", "/v1/agents/films/decisions", {"context": context, "item": "Up"})
    assert wrong.status == 422 and wrong.json["error"]["field"] == "item"
    asked = post(server, "questions", {"pool": [context, FILM | {"title": "Up"}]}, 201)
    assert asked["item"] in ("Alien", "Up")
    two = [{"kind": "id", "name": "title"}, {"kind": "id", "name": "name"}, *FEATURES]
    assert make(server, "two", features=two).status == 422


@pytest.mark.parametrize("item", ["", "x" * 201, 1.5, True, ["Up"], {"a": 1}, 2**60])
def test_what_is_no_name_is_refused(server, item):
    make(server)
    for what, body in (
        ("decisions", {"context": FILM}),
        ("decisions", {"decisions": [{"context": FILM, "item": item}]}),
        ("examples", {"context": FILM, "arm": "x", "allowed": True}),
        ("questions", {"context": FILM}),
        ("believed", {"context": FILM}),
    ):
        given = body if "decisions" in body else body | {"item": item}
        assert server.call("POST", f"/v1/agents/films/{what}", given).status == 422


def test_the_most_valuable_question_comes_first(server):
    make(server, budget=20, on_doubt="play_safe", answer_price=0.0)
    for n in range(4):
        post(server, "decisions", {"context": FILM, "item": f"film {n}"})
    asked = post(server, "questions", {"context": FILM, "item": "Up", "id": "q"}, 201)
    assert asked["item"] == "Up" and asked["worth"] > 0.0
    found = server.call("GET", "/v1/agents/films/questions").json
    worth = [one["worth"] for one in found["questions"]]
    assert found["total"] == len(worth) >= 5 and worth == sorted(worth, reverse=True)
    assert {one["item"] for one in found["questions"]} >= {"film 0", "film 3", "Up"}
    # While a question about an item is open, it is not asked again.
    for _ in range(3):
        again = post(server, "decisions", {"context": FILM, "item": "film 0"})
        if again["question"] is not None:
            known = {(one["item"], one["arm"]) for one in found["questions"]}
            assert ("film 0", again["question"]["arm"]) not in known


@pytest.mark.parametrize(
    ("price", "status"), [(0.0, 201), (0.7, 201), (-0.1, 422), (1e7, 422), ("1", 422), (None, 422)]
)
def test_the_price_of_an_answer(server, price, status):
    made = make(server, answer_price=price)
    assert made.status == status
    if status == 201:
        assert made.json["settings"]["answer_price"] == price
