"""How far one call travels through the package: ``python -m tools.calls``.

Counts, for `decide`, `teach` and `POST …/decisions`, the modules whose Python functions are entered
and how often the module entered differs from the one entered before it. Kernels are left out. The
agent is the default one, warm, and meets a context that it has not seen.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import bridle
from bridle import Agent, Labels, Schema

ROOT = str(Path(bridle.__file__).parent) + "/"

# What one call may cost: modules, switches.
GOALS = {"decide": (14, 32), "teach": (11, 32), "POST …/decisions": (30, 75)}

SEEN, NEW = {"genres": ["Horror"]}, {"genres": ["Comedy", "Drama"]}


class Journey:
    """The modules that functions are entered in, in order, while it is installed."""

    def __init__(self) -> None:
        self.entered: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a call; `sys.setprofile` calls this."""
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(ROOT):
            module = path.removeprefix(ROOT).removesuffix(".py").replace("/", ".")
            if not module.startswith("kernels."):
                self.entered.append(module)

    @property
    def modules(self) -> list[str]:
        """The modules entered, each once."""
        return list(dict.fromkeys(self.entered))

    @property
    def switches(self) -> int:
        """How often the module entered is not the one entered before."""
        pairs = zip(self.entered, self.entered[1:], strict=False)
        return sum(one != two for one, two in pairs)


def watch(call: Callable[[], object]) -> Journey:
    """Return the journey of one call on this thread."""
    journey = Journey()
    sys.setprofile(journey)
    try:
        call()
    finally:
        sys.setprofile(None)
    return journey


def default_agent() -> Agent:
    """Return an agent with no setting given that was taught, asked and used once."""
    agent = Agent(
        arms=["children", "teens", "adults"],
        features=Schema([Labels("genres", ["Comedy", "Drama", "Horror"])]),
        seed=1,
    )
    agent.teach(SEEN, "teens", allowed=True)
    agent.decide(SEEN)
    return agent


def decide() -> Journey:
    """Return the journey of `Agent.decide` in a new context."""
    agent = default_agent()
    return watch(lambda: agent.decide(NEW))


def teach() -> Journey:
    """Return the journey of `Agent.teach` in a new context."""
    agent = default_agent()
    return watch(lambda: agent.teach(NEW, "teens", allowed=False))


async def _post() -> Journey:
    from bridle.server.service import Service
    from bridle.store.opening import open_store
    from bridle.web.app import create_app

    journey = Journey()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"{folder}/a.db")
        # The writer's thread must be watched from its beginning.
        on = False

        def profile(frame: FrameType, event: str, argument: object) -> None:
            if on:
                journey(frame, event, argument)

        threading.setprofile(profile)
        sys.setprofile(profile)
        try:
            service = Service(store)
            app = create_app(service)
            token = await service.start()
            assert token is not None

            async def post(path: str, body: Any) -> int:
                sent = json.dumps(body).encode()
                scope = {
                    "type": "http",
                    "asgi": {"version": "3.0"},
                    "http_version": "1.1",
                    "scheme": "http",
                    "method": "POST",
                    "path": path,
                    "raw_path": path.encode(),
                    "query_string": b"",
                    "root_path": "",
                    "headers": [
                        (b"authorization", f"Bearer {token.text}".encode()),
                        (b"content-type", b"application/json"),
                        (b"content-length", str(len(sent)).encode()),
                        (b"host", b"localhost"),
                    ],
                    "client": ("127.0.0.1", 1),
                    "server": ("127.0.0.1", 80),
                }
                status = 0

                async def receive() -> dict[str, Any]:
                    return {"type": "http.request", "body": sent, "more_body": False}

                async def send(message: Any) -> None:
                    nonlocal status
                    status = message.get("status", status)

                await app(scope, receive, send)
                return status

            genres = {"kind": "labels", "name": "genres", "values": ["Comedy", "Drama", "Horror"]}
            made = {"arms": ["children", "teens", "adults"], "features": [genres]}
            assert await post("/v1/agents", {"name": "a", "agent": made}) == 201
            taught = {"context": SEEN, "arm": "teens", "allowed": True}
            assert await post("/v1/agents/a/examples", taught) == 201
            assert await post("/v1/agents/a/decisions", {"context": SEEN}) == 200
            on = True
            status = await post("/v1/agents/a/decisions", {"context": NEW})
            on = False
            assert status == 200, status
            await service.stop()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            store.close()
    return journey


def post() -> Journey:
    """Return the journey of one decision over HTTP, from the application to the log and back."""
    return asyncio.run(_post())


def main() -> None:
    """Print the journeys beside their goals; `-v` names the modules."""
    for name, call in {"decide": decide, "teach": teach, "POST …/decisions": post}.items():
        journey = call()
        modules, switches = GOALS[name]
        print(
            f"{name:18} {len(journey.modules):3} modules (goal {modules}), "
            f"{journey.switches:3} switches (goal {switches})"
        )
        if "-v" in sys.argv:
            print("   ", " ".join(journey.modules))


if __name__ == "__main__":
    main()
