"""The life of the agent `films`, over the API."""

from __future__ import annotations

from typing import Any

from tests.server.driving import Server


def call(server: Server, method: str, path: str, body: Any = None) -> Any:
    answer = server.call(method, path, body)
    assert answer.status < 300, answer.body
    return answer.json


def decide(
    server: Server, age: str = "25+", reward: float | None = None, **more: Any
) -> dict[str, Any]:
    body = {"context": {"age": age, "late": False}, **more}
    made: dict[str, Any] = call(server, "POST", "/v1/agents/films/decisions", body)
    if reward is not None:
        path = f"/v1/agents/films/decisions/{made['id']}/reward"
        call(server, "POST", path, {"value": reward})
    server.clock.now += 60.0
    return made
