"""A server that is killed with SIGKILL at random moments, under load."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridle.store.sqlite import SqliteStore
from faults.ledger import Ledger, check, same_states
from faults.starting import Nursery, ServeProcess, nursery_or
from faults.traffic import AGENTS, Client, make_agents

CLIENTS = 8
DURING_START = 0.1  # the share of kills that come while it starts
LAST_SECONDS = 120.0  # how long the last server may take to serve every agent


def kill9(
    *,
    kills: int,
    acknowledged: int = 0,
    seconds: float = 2.0,
    batch: int = 40,
    seed: int = 1,
    plain: bool = True,
    nursery: Nursery | None = None,
    tick: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Kill a server again and again while 8 clients work with it.

    Parameters
    ----------
    kills : int
        How often, at least.
    acknowledged : int
        How many events to have acknowledged at least; it is killed on until then.
    seconds : float
        The server lives between 0 and so many seconds after each start.
    batch : int
        The mean of decisions in a batch.
    plain : bool
        Whether the first start is `python -m bridle serve` in a fresh interpreter.
    nursery : Nursery, optional
        What forks the servers, if there is one already.
    """
    rng = random.Random(f"{seed} kills")
    ledger, stop, done = Ledger(), threading.Event(), 0
    clients: list[Client] = []
    with (
        tempfile.TemporaryDirectory(prefix="bridle-kill9-") as text,
        nursery_or(nursery) as forking,
    ):
        folder = Path(text)
        server = ServeProcess(forking, str(folder / "logs.db"), folder)
        try:
            server.start(plain=plain)
            make_agents(server.port, server.token)
            clients += [
                Client(n, [server.port], server.token, ledger, stop, seed=seed, batch=batch)
                for n in range(CLIENTS)
            ]
            for client in clients:
                client.start()
            while done < kills or ledger.events < acknowledged:
                time.sleep(rng.uniform(0.0, seconds))
                server.kill()
                done += 1
                while rng.random() < DURING_START:
                    server.start(wait=False)
                    time.sleep(rng.uniform(0.0, 0.3))
                    server.kill()
                    done += 1
                server.start()
                if tick is not None:
                    tick(done, kills, f"{ledger.events:,} events acknowledged")
            _wait_for_each(ledger)
            stop.set()
            for client in clients:
                client.join()
            server.stop()
        finally:
            stop.set()
            server.kill()
        errors = [client.error for client in clients if client.error is not None]
        if errors:
            raise errors[0]
        store = SqliteStore(folder / "logs.db")
        found = check(ledger, store, list(AGENTS))
        equal, wrong = same_states(store, list(AGENTS))
        store.close()
        if "CorruptState" in server.log() or "Traceback" in server.log():
            wrong.append(f"the server's log has a failure: {server.log()[-3_000:]}")
    return {
        "kills": done,
        "acknowledged": ledger.events,
        "refused": len(ledger.refused),
        "unknown": len(ledger.unknown) + sum(ledger.unnamed.values()),
        "lost": found.lost,
        "double": found.double,
        "replay_equal": equal and found.problems == 0,
        "kinds": dict(sorted(Counter(told.what for told in ledger.acknowledged).items())),
        "statuses": {str(status): count for status, count in sorted(ledger.statuses.items())},
        "examples": [*found.examples, *wrong],
    }


def _wait_for_each(ledger: Ledger) -> None:
    """Wait until the last server has acknowledged something of each agent.

    What it never had in memory it keeps no snapshot of when it is stopped.
    """
    before, end = len(ledger.acknowledged), time.monotonic() + LAST_SECONDS
    while not {told.agent for told in ledger.acknowledged[before:]} >= set(AGENTS):
        if time.monotonic() > end:
            raise RuntimeError(f"Not every agent was acknowledged within {LAST_SECONDS:g} s.")
        time.sleep(0.02)
