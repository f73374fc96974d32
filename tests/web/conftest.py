from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.server.driving import Server
from tests.web.browsing import Person

FEATURES = [
    {"kind": "category", "name": "age", "values": ["12-17", "18-24", "25+"]},
    {"kind": "flag", "name": "late"},
]
ARMS = [
    {"id": "night", "label": "The Long Night", "group": "Horror"},
    {"id": "fog", "label": "Fog", "group": "Horror"},
    {"id": "kite", "label": "Kite Days", "group": "Comedy"},
]


@pytest.fixture
def make(server: Server) -> Callable[..., str]:
    """Make an agent, of movies for viewers of some age; give its name."""

    def made(name: str = "films", **more: Any) -> str:
        agent = {"arms": ARMS, "features": FEATURES, "limits": "rules", "seed": 3} | more
        answer = server.call("POST", "/v1/agents", {"name": name, "agent": agent})
        assert answer.status == 201, answer.body
        return name

    return made


@pytest.fixture
def person(server: Server) -> Callable[..., Person]:
    """Give somebody with a role, signed in."""

    def come(role: Any, agents: tuple[str, ...] | None = None) -> Person:
        return Person(server, role, agents)

    return come
