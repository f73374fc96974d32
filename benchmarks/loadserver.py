"""A server for `benchmarks.serviceload`: the service, and beside it a route that does nothing.

The empty route goes through the same server, the same checks of token and body, and answers as much
JSON as a decision does. What a decision costs beyond it is the decision, and that it is durable.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
from dataclasses import replace
from typing import Any

from bridle.api.requests import Decide, DecideMany
from bridle.server.endpoints import Call, Endpoint, Reply
from bridle.server.limits import Limits
from bridle.server.service import Service
from bridle.server.table import endpoints
from bridle.store.opening import open_store
from bridle.web.app import App
from bridle.web.run import ServerSettings, _Server, collect_rarely, server_config

NOTHING = {
    "outcome": "decision",
    "id": 1_000_000,
    "arm": 42,
    "version": 2_000_000,
    "propensity": None,
    "question": None,
}


async def nothing(call: Call) -> Reply:
    """Answer at once."""
    return Reply(200, NOTHING)


async def memory(call: Call) -> Reply:
    """Answer how much memory the process has now."""
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Reply(200, {"rss": pages * resource.getpagesize(), "peak": peak * 1024})


# Beside the decisions, so that the router finds both equally fast.
EMPTY = "decisions/nothing"
ROUTES = (
    Endpoint(
        method="POST",
        path=f"/v1/agents/{{agent}}/{EMPTY}",
        roles=("agent", "admin"),
        handle=nothing,
        body=Decide | DecideMany,
        summary="Do nothing",
        replies={200: (dict[str, Any], "Nothing")},
    ),
    Endpoint(
        method="GET",
        path="/memory",
        roles=("admin",),
        handle=memory,
        summary="Memory of the process",
        replies={200: (dict[str, Any], "Bytes")},
    ),
)


async def _serve(db: str) -> None:
    store = open_store(db)
    # So many requests a second are no attack here, and kernels may be compiled first.
    limits = replace(Limits(), rate=1e6, burst=1_000_000, answer_seconds=600.0)
    service = Service(store, limits=limits)
    settings = ServerSettings(db=db, port=0, limits=limits, access_log=False)
    config = server_config(service, settings)
    config.app = App(service, (*endpoints(), *ROUTES))
    first = await service.start()
    token = "" if first is None else first.text
    server = _Server(
        config, service, lambda port: print(json.dumps([port, token, EMPTY]), flush=True)
    )
    try:
        await server.serve()
    finally:
        await service.stop()
        store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--db", required=True)
    import uvloop

    collect_rarely()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(parser.parse_args().db))
