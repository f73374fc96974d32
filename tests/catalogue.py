"""An agent whose arms have features, over the API, for tests of service and pages."""

from __future__ import annotations

from typing import Any

from tests.server.driving import Server

GENRES = ["Horror", "Drama", "Comedy"]
FILMS: list[dict[str, Any]] = [
    {"id": f"f{n}", "label": f"Film {n}", "features": {"genres": [GENRES[n % 3]], "year": 1960 + n}}
    for n in range(12)
]
AGENT: dict[str, Any] = {
    "arms": FILMS,
    "features": [
        {"kind": "flag", "name": "child"},
        {"kind": "number", "name": "hour", "low": 0, "high": 24},
    ],
    "arm_features": [
        {"kind": "labels", "name": "genres", "values": GENRES},
        {"kind": "number", "name": "year", "low": 1950, "high": 2030},
    ],
    "set_limits": {
        "at_most": [{"most": 1, "feature": "genres"}],
        "not_both": [{"arms": ["f1", "f2"]}],
    },
    "rules": [{"id": "by law", "when": [{"arm": "year", "at_most": 1960}]}],
    "seed": 3,
    "budget": 50,
    "on_doubt": "play_safe",
}
CHILD, ADULT = {"child": True, "hour": 12}, {"child": False, "hour": 20}
A = "/v1/agents/films"
NEW = {"id": "n1", "label": "Brought along", "features": {"genres": ["Drama"], "year": 2000}}


def call(server: Server, method: str, path: str, body: Any = None) -> Any:
    answer = server.call(method, path, body)
    assert answer.status < 300, (path, body, answer.body)
    return answer.json


def make(server: Server, **more: Any) -> Any:
    return call(server, "POST", "/v1/agents", {"name": "films", "agent": {**AGENT, **more}})


def teach(server: Server) -> None:
    """Teach that no horror is for children, and all else is allowed."""
    said = [
        {
            "context": context,
            "arm": film["id"],
            "allowed": not (context["child"] and film["features"]["genres"] == ["Horror"]),
        }
        for film in FILMS
        for context in (CHILD, ADULT)
    ]
    call(server, "POST", f"{A}/examples", {"examples": said, "by": "editor"})


def decide(server: Server, **more: Any) -> Any:
    return call(server, "POST", f"{A}/decisions", {"context": ADULT, **more})


def live(server: Server) -> None:
    """Lead a life in which every new event occurs."""
    make(server)
    teach(server)
    for n in range(6):
        made = decide(server, id=f"d{n}", propensity=True)
        call(server, "POST", f"{A}/decisions/d{n}/reward", {"value": n / 6})
        assert made["outcome"] == "decision"
    decide(server, id="s", k=3, propensity=True)
    call(server, "POST", f"{A}/decisions/s/reward", {"slate": 1.5})
    decide(server, id="brought", among=[NEW])
    decide(server, id="late", among=["f1", NEW])
    for change in (
        {"retire_arms": ["f1"], "by": "Ann", "note": "no longer licensed"},
        {"change_arms": [{"id": "f2", "label": "Film two", "features": FILMS[5]["features"]}]},
        {"add_arms": [{"id": "f12", "features": {"genres": ["Comedy"], "year": 2020}}]},
        {"policy": {"kind": "SquareCB"}, "by": "Ann"},
    ):
        call(server, "PATCH", A, change)
    decide(server, id="other", propensity=True)
    call(server, "PATCH", A, {"policy": {"kind": "LearnedMask"}})
    call(server, "PATCH", A, {"restore_arms": ["f1", "n1"]})
    call(server, "PATCH", A, {"retire_arms": ["f4"]})
