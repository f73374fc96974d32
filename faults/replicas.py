"""Two servers on one PostgreSQL whose backends are killed, and which itself is stopped at once."""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridle.store.aggregate import Aggregate
from bridle.store.log import Store
from bridle.store.postgres import PostgresStore
from faults.ledger import Ledger, check, same_states
from faults.starting import Nursery, ServeProcess, nursery_or
from faults.traffic import AGENTS, Client, Line, make_agents
from tests.store.lives import state
from tests.store.postgres_server import PostgresServer

CLIENTS = 8
EXAMPLE = {"context": {"child": True, "late": True, "sky": "grey"}, "arm": "sport", "allowed": True}
_KILL = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random() LIMIT 1
"""


def replicas(
    *,
    restarts: int,
    acknowledged: int = 0,
    seconds: float = 3.0,
    batch: int = 20,
    seed: int = 1,
    nursery: Nursery | None = None,
    tick: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Let two servers work on the same agents while their database dies and comes back.

    Each time a backend is killed first, and some moments later the server is stopped as in a crash
    and started again. Raises `NoPostgres` where there is none to start.
    """
    rng = random.Random(f"{seed} restarts")
    ledger, stop, done, killed = Ledger(), threading.Event(), 0, 0
    database = PostgresServer()
    with (
        tempfile.TemporaryDirectory(prefix="bridle-replicas-") as text,
        contextlib.closing(database),
        nursery_or(nursery) as forking,
    ):
        servers = [
            ServeProcess(forking, database.url, Path(text), f"replica{number}") for number in (1, 2)
        ]
        clients: list[Client] = []
        try:
            servers[0].start()
            servers[1].token = servers[0].token
            servers[1].start()
            make_agents(servers[0].port, servers[0].token)
            ports = [server.port for server in servers]
            clients += [
                Client(n, ports, servers[0].token, ledger, stop, seed=seed, batch=batch)
                for n in range(CLIENTS)
            ]
            for client in clients:
                client.start()
            while done < restarts or ledger.events < acknowledged:
                time.sleep(rng.uniform(0.0, seconds))
                killed += _kill_backend(database.url)
                time.sleep(rng.uniform(0.0, seconds))
                database.restart("immediate")
                done += 1
                if tick is not None:
                    tick(done, restarts, f"{ledger.events:,} events acknowledged")
            stop.set()
            for client in clients:
                client.join()
            wrong = _unequal(servers, database.url)
            alive = [server.alive() for server in servers]
            store = PostgresStore(database.url)
            found = check(ledger, store, list(AGENTS))
            equal, more = same_states(store, list(AGENTS))
            store.close()
        finally:
            stop.set()
            for server in servers:
                server.kill()
        errors = [client.error for client in clients if client.error is not None]
        if errors:
            raise errors[0]
        wrong += [
            f"a server's log has a failure: {server.log()[-2_000:]}"
            for server in servers
            if "CorruptState" in server.log() or "Traceback" in server.log()
        ]
    assert not any(alive)
    return {
        "restarts": done,
        "backends_killed": killed,
        "acknowledged": ledger.events,
        "refused": len(ledger.refused),
        "unknown": len(ledger.unknown) + sum(ledger.unnamed.values()),
        "lost": found.lost,
        "double": found.double,
        "replicas_equal": equal and not wrong and found.problems == 0,
        "kinds": dict(sorted(Counter(told.what for told in ledger.acknowledged).items())),
        "statuses": {str(status): count for status, count in sorted(ledger.statuses.items())},
        "examples": [*found.examples, *wrong, *more],
    }


def _kill_backend(url: str) -> int:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        return len(connection.execute(_KILL).fetchall())


def _unequal(servers: list[ServeProcess], url: str) -> list[str]:
    """Stop both servers, one after the other, and compare what each had in memory."""
    store = PostgresStore(url)
    lines = [Line(lambda port=server.port: port, server.token) for server in servers]  # type: ignore[misc]
    end = time.monotonic() + 120.0
    # Until all that can expire has, and both have seen it.
    while True:
        seen = [[_look(line, agent) for line in lines] for agent in AGENTS]
        quiet = all(one is not None and not (one["wait"] and one["pending"]) for one, _ in seen)
        if quiet and all(one == other for one, other in seen):
            snapped = [agent for agent in AGENTS if _snapped_at_end(store, agent)]
            if not snapped:
                break
            # What a server keeps when it is stopped must be told from what was kept before.
            for agent in snapped:
                lines[0].send("POST", f"/v1/agents/{agent}/examples", EXAMPLE)
        if time.monotonic() > end:
            store.close()
            return [f"the replicas do not come to the same version: {json.dumps(seen)[:1_000]}"]
        time.sleep(0.1)
    for line in lines:
        line.close()
    found: list[dict[str, list[Any]]] = []
    for server in servers:
        if found:  # so that the second keeps its own
            for agent in AGENTS:
                store.drop_snapshots(agent, store.snapshots(agent)[-1:])
        found.append(_memories(store, server))
    store.close()
    return [
        f"{agent}: the replicas differ, at {found[0][agent][1]} and {found[1][agent][1]}"
        for agent in AGENTS
        if found[0][agent] != found[1][agent]
    ]


def _look(line: Line, agent: str) -> Any:
    answer = line.send("GET", f"/v1/agents/{agent}", None)
    return answer[1] if answer is not None and answer[0] == 200 else None


def _memories(store: Store, server: ServeProcess) -> dict[str, list[Any]]:
    """Stop a server and give what it had in memory: it keeps that as its last snapshots."""
    server.stop()
    found = {}
    for agent in AGENTS:
        snapshot = store.snapshot(agent)
        assert snapshot is not None and _snapped_at_end(store, agent)
        found[agent] = state(Aggregate.from_blob(snapshot.blob, snapshot.head))
    return found


def _snapped_at_end(store: Store, agent: str) -> bool:
    head = store.head(agent)
    assert head is not None
    return head.seq in store.snapshots(agent)
