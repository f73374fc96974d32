"""The service under load: ``python -m benchmarks.serviceload [--quick] [--out build]``.

64 connections that stay open, each with one request at a time, against an agent of 100 arms and 10
features. The measure is a ratio in one run: durable decisions a second over what an empty route
behind the same server gives. Beside it the memory at a million events, and what a restart costs.

``--against ../other`` compares with another checkout instead: two servers, driven in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import uvloop
from rich.console import Console
from rich.table import Table

CONNECTIONS = 64
ARMS, FEATURES = 100, 10
BATCH = 100
GOALS = {"single": 0.5, "batch": 10.0, "memory": 1.1, "restart": 0.05}


class Rate(NamedTuple):
    """Contexts and requests a second, the time of the slowest 1 %, and the server's CPU time."""

    contexts: float
    requests: float
    p99_ms: float
    cpu_us: float  # of the server's process for each request


class _Connection(asyncio.Protocol):
    """Sends one request after the other, and notes how long each took."""

    def __init__(self, requests: Sequence[bytes], until: float, first: int) -> None:
        self.requests, self.until, self.at = requests, until, first
        self.times: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = b""
        self._sent = 0.0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        self.transport.write(self.requests[self.at % len(self.requests)])
        self.at += CONNECTIONS

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        mark = self._buffer.index(b"content-length: ") + 16
        length = int(self._buffer[mark : self._buffer.index(b"\r\n", mark)])
        if len(self._buffer) < head + 4 + length:
            return
        if not self._buffer.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(self._buffer[:2000].decode()))
            self.transport.close()
            return
        self._buffer = self._buffer[head + 4 + length :]
        now = time.perf_counter()
        self.times.append(now - self._sent)
        if now < self.until:
            self._send()
        else:
            self.transport.close()
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server hung up"))


class Client:
    """A server process, and calls to it."""

    def __init__(self, db: Path, checkout: Path | None = None) -> None:
        command = [sys.executable, "-m", "benchmarks.loadserver", "--db", str(db)]
        environment = None if checkout is None else _environment_of(checkout, db.parent)
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=checkout, env=environment
        )
        assert self.process.stdout is not None
        self.port, self.token, *rest = json.loads(self.process.stdout.readline())
        self.empty = rest[0] if rest else "nothing"

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def raw(self, method: str, path: str, body: Any = None) -> bytes:
        data = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {self.token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
        )
        return head.encode() + data

    def call(self, method: str, path: str, body: Any = None) -> Any:
        import http.client

        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        link.request(method, path, None if body is None else json.dumps(body), headers)
        answer = link.getresponse()
        data = json.loads(answer.read())
        assert answer.status < 300, data
        link.close()
        return data

    def cpu_seconds(self) -> float:
        """Return the CPU time that the server's process has used."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def drive(self, requests: Sequence[bytes], seconds: float, contexts: int = 1) -> Rate:
        """Send requests on 64 connections for so long."""

        async def run() -> list[float]:
            loop = asyncio.get_running_loop()
            until = time.perf_counter() + seconds
            made = [
                await loop.create_connection(
                    partial(_Connection, requests, until, n), "127.0.0.1", self.port
                )
                for n in range(CONNECTIONS)
            ]
            await asyncio.gather(*(protocol.done for _, protocol in made))
            return [t for _, protocol in made for t in protocol.times]

        start, used = time.perf_counter(), self.cpu_seconds()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            times = runner.run(run())
        rate = len(times) / (time.perf_counter() - start)
        cpu = 1e6 * (self.cpu_seconds() - used) / len(times)
        return Rate(rate * contexts, rate, 1e3 * float(np.quantile(times, 0.99)), cpu)


def _environment_of(checkout: Path, folder: Path) -> dict[str, str]:
    """Return an environment in which a checkout runs that is not installed, under its own name."""
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    (info / "METADATA").write_text(text, encoding="utf-8")
    paths = [str(checkout / "src"), str(checkout), str(folder)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


AGENTS: dict[str, dict[str, Any]] = {
    "paper": {
        "arms": list(range(ARMS)),
        "features": FEATURES,
        "limits": "linear",
        "sigma": 0.25,
        "prior": "paper",
        "seed": 1,
    },
    "mask": {
        "arms": [{"id": k, "group": f"g{k % 7}"} for k in range(ARMS)],
        "features": [{"kind": "flag", "name": f"x{i}"} for i in range(FEATURES)],
        "seed": 1,
    },
}


def _contexts(kind: str, rng: np.random.Generator) -> list[Any]:
    if kind == "paper":
        values: list[list[float]] = rng.random((512, FEATURES)).round(3).tolist()
        return values
    flags = rng.random((128, FEATURES)) < 0.3
    return [{f"x{i}": bool(v) for i, v in enumerate(row)} for row in flags]


def _taught(contexts: list[Any], rng: np.random.Generator) -> list[Any]:
    arms = rng.integers(0, ARMS, 140).tolist()
    rows = rng.integers(0, len(contexts), 140).tolist()
    return [
        {"context": contexts[row], "arm": arm, "allowed": bool(n % 4)}
        for n, (row, arm) in enumerate(zip(rows, arms, strict=True))
    ]


def _prepare(client: Client, kind: str) -> tuple[list[Any], list[Any]]:
    """Make and teach an agent; return the bodies of single decisions and of batches."""
    rng = np.random.default_rng(3)
    client.call("POST", "/v1/agents", {"name": kind, "agent": AGENTS[kind]})
    contexts = _contexts(kind, rng)
    path = f"/v1/agents/{kind}"
    client.call("POST", f"{path}/examples", {"examples": _taught(contexts, rng)})
    single = [{"context": context} for context in contexts]
    batches = [
        {"decisions": [single[(i + j) % len(single)] for j in range(BATCH)]} for i in range(32)
    ]
    # Once each, so that nothing is compiled while it is measured.
    for body in (single[0], batches[0]):
        for odds in (False, True):
            client.call("POST", f"{path}/decisions", {**body, "propensity": odds})
    return single, batches


def measure(client: Client, kind: str, seconds: float) -> dict[str, Any]:
    """Drive one kind of agent: empty route, single decisions, batches; with propensity and not."""
    single, batches = _prepare(client, kind)
    path = f"/v1/agents/{kind}"
    found: dict[str, Any] = {}

    def drive(name: str, bodies: list[Any], where: str, contexts: int = 1) -> Rate:
        requests = [client.raw("POST", f"{path}/{where}", body) for body in bodies]
        rate = client.drive(requests, seconds, contexts)
        found[name] = rate._asdict()
        return rate

    drive("warm", single, "decisions")
    # The empty route before and after, as the machine is not the same all the time.
    before = drive("empty_before", single, client.empty)
    one = drive("single", single, "decisions")
    after = drive("empty_after", single, client.empty)
    many = drive("batch", batches, "decisions", BATCH)
    drive("single_propensity", [{**b, "propensity": True} for b in single], "decisions")
    drive("batch_propensity", [{**b, "propensity": True} for b in batches], "decisions", BATCH)
    del found["warm"]
    empty = (before.requests + after.requests) / 2
    found["single_over_empty"] = one.requests / empty
    found["batch_over_single"] = many.contexts / one.contexts
    return found


def against(
    checkout: Path, folder: Path, kind: str, seconds: float, rounds: int
) -> dict[str, dict[str, float]]:
    """Return the rates of this checkout and another, and their ratio, driven in turns.

    A ratio is taken within each round, of runs that follow each other; the middle one counts. On a
    busy machine the server's CPU time for each request is the steadier measure.
    """
    clients = [Client(folder / "here.db"), Client(folder / "other.db", checkout.resolve())]
    try:
        bodies = [_prepare(client, kind) for client in clients]
        rates: dict[str, list[list[Rate]]] = {"empty": [], "single": [], "batch": []}
        for turn in range(rounds + 1):
            for what in rates:
                pair: list[Any] = [None, None]
                for which in (0, 1) if turn % 2 else (1, 0):
                    client, (single, batches) = clients[which], bodies[which]
                    where = client.empty if what == "empty" else "decisions"
                    requests = [
                        client.raw("POST", f"/v1/agents/{kind}/{where}", body)
                        for body in (batches if what == "batch" else single)
                    ]
                    pair[which] = client.drive(requests, seconds)
                if turn:  # the first is to warm up
                    rates[what].append(pair)
    finally:
        for client in clients:
            client.close()
    return {
        what: {
            "here": float(np.median([here.requests for here, _ in pairs])),
            "other": float(np.median([other.requests for _, other in pairs])),
            "ratio": float(np.median([here.requests / other.requests for here, other in pairs])),
            "cpu_here": float(np.median([here.cpu_us for here, _ in pairs])),
            "cpu_other": float(np.median([other.cpu_us for _, other in pairs])),
            "cpu_ratio": float(np.median([here.cpu_us / other.cpu_us for here, other in pairs])),
        }
        for what, pairs in rates.items()
    }


def memory(client: Client, events: Sequence[int]) -> dict[str, Any]:
    """Measure the memory of the server when the log has so many events."""
    kind, path = "paper", "/v1/agents/paper"
    contexts = _contexts(kind, np.random.default_rng(4))
    body = {"decisions": [{"context": contexts[j % len(contexts)]} for j in range(500)]}
    found = {}
    for size in events:
        while (version := client.call("GET", path)["version"]) < size:
            todo = min(20, -(-(size - version) // 1_000))
            for _ in range(todo):
                made = client.call("POST", f"{path}/decisions", body)["decisions"]
                rewards = [
                    client.raw("POST", f"{path}/decisions/{one['id']}/reward", {"value": 0.5})
                    for one in made
                ]
                _all(client, rewards)
        found[str(size)] = client.call("GET", "/memory")["rss"]
    return found


def _all(client: Client, requests: list[bytes]) -> None:
    """Send each request once, on many connections."""

    async def one(part: list[bytes]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
        for request in part:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            mark = head.index(b"content-length: ") + 16
            await reader.readexactly(int(head[mark : head.index(b"\r\n", mark)]))
        writer.close()

    async def run() -> None:
        await asyncio.gather(*(one(requests[n::CONNECTIONS]) for n in range(CONNECTIONS)))

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def restart(db: Path, agent: str = "paper") -> dict[str, float]:
    """Time a restart from the last snapshot, and a full replay, of the same log."""
    from bridle.store.aggregate import load
    from bridle.store.opening import open_store

    store = open_store(db)
    try:
        load(store, agent)  # compiles what it needs
        times = {}
        for name, snapshots in (("snapshot", True), ("replay", False)):
            start = time.perf_counter()
            kept = load(store, agent, snapshots=snapshots)
            times[f"{name}_seconds"] = time.perf_counter() - start
        times["events"] = float(kept.version)
    finally:
        store.close()
    times["snapshot_over_replay"] = times["snapshot_seconds"] / times["replay_seconds"]
    return times


def fsync_ms(folder: Path) -> float:
    """Measure what a sync of this disk takes, in the middle."""
    times = []
    with (folder / "sync").open("wb") as file:
        for _ in range(30):
            file.write(b"x" * 4096)
            file.flush()
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(1e3 * (time.perf_counter() - start))
    return float(np.median(times))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write load.json; 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="seconds in the place of minutes")
    parser.add_argument("--out", type=Path, default=Path("build"))
    parser.add_argument("--db", type=Path, help="a folder on the disk to be measured")
    parser.add_argument("--against", type=Path, help="another checkout, to compare with")
    parser.add_argument("--rounds", type=int, default=7, help="with --against")
    options = parser.parse_args(arguments)
    console = Console()
    options.out.mkdir(parents=True, exist_ok=True)
    seconds = 2.0 if options.quick else 10.0
    if options.against is not None:
        return _compare(options, console)
    sizes = (2_000, 20_000) if options.quick else (100_000, 1_000_000)
    with tempfile.TemporaryDirectory(dir=options.db or options.out) as name:
        folder = Path(name)
        report: dict[str, Any] = {
            "quick": options.quick,
            "seed": 3,
            "fsync_ms": fsync_ms(folder),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        }
        client = Client(folder / "load.db")
        try:
            for kind in AGENTS:
                with console.status(f"driving the agent {kind!r} ..."):
                    report[kind] = measure(client, kind, seconds)
            with console.status(f"writing {sizes[-1]:,} events ..."):
                report["rss"] = memory(client, sizes)
        finally:
            client.close()
        with console.status("replaying the log ..."):
            report["restart"] = restart(folder / "load.db")
    small, large = (report["rss"][str(size)] for size in sizes)
    report["rss_ratio"] = large / small
    report["goals"] = {
        "single": report["paper"]["single_over_empty"] >= GOALS["single"],
        "batch": report["paper"]["batch_over_single"] >= GOALS["batch"],
        "memory": report["rss_ratio"] <= GOALS["memory"],
        "restart": report["restart"]["snapshot_over_replay"] <= GOALS["restart"],
    }
    (options.out / "load.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    _print(report, console)
    return 0 if all(report["goals"].values()) else 1


def _compare(options: argparse.Namespace, console: Console) -> int:
    seconds = 1.0 if options.quick else 4.0
    report: dict[str, Any] = {"seconds": seconds, "rounds": options.rounds}
    table = Table(title=f"requests/s, here and at {options.against}, in turns")
    for column in ("agent", "what", "here", "other", "ratio", "CPU µs", "other", "ratio"):
        table.add_column(column, justify="left" if column in ("agent", "what") else "right")
    for kind in AGENTS:
        with (
            tempfile.TemporaryDirectory(dir=options.db or options.out) as name,
            console.status(f"driving the agent {kind!r} ..."),
        ):
            folder = Path(name).resolve()
            report[kind] = against(options.against, folder, kind, seconds, options.rounds)
        for what, found in report[kind].items():
            table.add_row(
                kind,
                what,
                f"{found['here']:,.0f}",
                f"{found['other']:,.0f}",
                f"{found['ratio']:.3f}",
                f"{found['cpu_here']:,.0f}",
                f"{found['cpu_other']:,.0f}",
                f"{found['cpu_ratio']:.3f}",
            )
    (options.out / "load-against.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    console.print(table)
    return 0


def _print(report: dict[str, Any], console: Console) -> None:
    table = Table(
        title=f"{CONNECTIONS} connections, {ARMS}x{FEATURES}; a sync takes "
        f"{report['fsync_ms']:.2f} ms"
    )
    for column in ("agent", "what", "contexts/s", "requests/s", "p99 ms"):
        table.add_column(column, justify="left" if column in ("agent", "what") else "right")
    for kind in AGENTS:
        for what, rate in report[kind].items():
            if isinstance(rate, dict):
                table.add_row(
                    kind,
                    what,
                    f"{rate['contexts']:,.0f}",
                    f"{rate['requests']:,.0f}",
                    f"{rate['p99_ms']:.1f}",
                )
    console.print(table)
    for kind in AGENTS:
        found = report[kind]
        console.print(
            f"{kind}: single {found['single_over_empty']:.2f} of the empty route (goal 0.5), "
            f"batches {found['batch_over_single']:.1f} x single (goal 10)"
        )
    console.print(
        f"memory x {report['rss_ratio']:.3f} from {' to '.join(report['rss'])} events (goal 1.1); "
        f"restart {report['restart']['snapshot_over_replay']:.4f} of a replay (goal 0.05)"
    )
    console.print(", ".join(f"{k}: {'met' if v else 'MISSED'}" for k, v in report["goals"].items()))


if __name__ == "__main__":
    sys.exit(main())
