"""Server processes that are killed and started again, in as little time as can be.

To import all of bridle takes seconds, which is not what is tested here. So one process imports it
once and then forks: each fork runs `bridle serve` as the command line does, opens the database anew
and is killed as any process is. The first start of a `ServeProcess` may be a plain
`python -m bridle serve`, imports and all.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

START_SECONDS = 120.0
_TOKEN = re.compile(r"brd_[a-z2-9]{12}_[A-Za-z0-9_-]{43}")


class Nursery:
    """A process that has imported everything, and forks servers."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "faults.starting"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._tell("ready?")

    def start(self, arguments: list[str], log: Path) -> int:
        """Fork a `bridle serve` with these arguments; give its process id."""
        return int(self._tell(json.dumps({"arguments": arguments, "log": str(log)})))

    def wait(self, pid: int) -> None:
        """Wait for the end of one."""
        self._tell(json.dumps({"wait": pid}))

    def close(self) -> None:
        """End it; servers that still run are the caller's."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _tell(self, line: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("The process that forks servers has ended.")
        return answer.strip()


@contextlib.contextmanager
def nursery_or(given: Nursery | None) -> Iterator[Nursery]:
    """Give the nursery that is there already, or one for now."""
    if given is not None:
        yield given
        return
    made = Nursery()
    try:
        yield made
    finally:
        made.close()


class ServeProcess:
    """One `bridle serve` on a database, always on the same port, killed and started at will."""

    def __init__(self, nursery: Nursery, db: str, folder: Path, name: str = "server") -> None:
        self._nursery = nursery
        self._db = db
        self._log = folder / f"{name}.log"
        self.port = _free_port()
        self.token = ""
        self.starts = 0
        self._forked: int | None = None
        self._plain: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True, plain: bool = False) -> None:
        """Start it; with `wait`, until it answers. With `plain` it is not forked."""
        arguments = ["serve", "--db", self._db, "--port", str(self.port), "--quiet", "--no-warm"]
        self.starts += 1
        if plain:
            with self._log.open("ab") as log:
                self._plain = subprocess.Popen(
                    [sys.executable, "-m", "bridle", *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
        else:
            self._forked = self._nursery.start(arguments, self._log)
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until it takes connections."""
        end = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                break
            if time.monotonic() > end or not self.alive():
                raise RuntimeError(f"No server came up. Its log ends:\n{self.log()[-2_000:]}")
            time.sleep(0.01)
        if not self.token:
            self.token = _TOKEN.findall(self.log())[-1]

    def kill(self) -> None:
        """Kill it with SIGKILL: it gets no chance to do anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Stop it as an operator would: it answers what is under way and keeps snapshots."""
        self._end(signal.SIGTERM)

    def alive(self) -> bool:
        """Say whether it runs."""
        if self._plain is not None:
            return self._plain.poll() is None
        return self._forked is not None and _running(self._forked)

    def log(self) -> str:
        """Give what it wrote."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _end(self, number: signal.Signals) -> None:
        if self._plain is not None:
            self._plain.send_signal(number)
            self._plain.wait()
            self._plain = None
        elif self._forked is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._forked, number)
            self._nursery.wait(self._forked)
            self._forked = None


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        # A zombie counts as gone: whoever forked it has not asked for it yet.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


# -- the process that forks ------------------------------------------------------------------


def main() -> None:
    """Import all, then fork a server for each line that asks for one."""
    _warm_up()
    for line in sys.stdin:
        answer = "yes" if line.startswith("ready?") else _answer(json.loads(line))
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def _answer(asked: dict[str, object]) -> str:
    if "wait" in asked:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(int(str(asked["wait"])), 0)
        return "gone"
    pid = os.fork()
    if pid:
        return str(pid)
    status = 1
    try:
        arguments = asked["arguments"]
        assert isinstance(arguments, list)
        with Path(str(asked["log"])).open("ab") as log:
            _become_server(log)
        from bridle.cli import main as bridle

        sys.argv = ["bridle", *map(str, arguments)]
        bridle()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.stderr.flush()
        os._exit(status)


def _become_server(log: IO[bytes]) -> None:
    """Leave the pipes to the parent, and write to the log."""
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)


def _warm_up() -> None:
    """Import what a server needs, and have the compiled loops read from their cache."""
    import uvloop  # noqa: F401

    import bridle.web.run  # noqa: F401
    from bridle.store.sqlite import SqliteStore
    from bridle.store.writer import Writer
    from tests.store.lives import begin, live

    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "warm.db")
        writer = Writer(store)
        begin(writer, limits="rules", budget=5)
        live(writer, 12)
        writer.close()
        store.close()


if __name__ == "__main__":
    main()
