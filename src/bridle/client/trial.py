"""A server to try things on, or to test code of yours against: `bridle serve`, for a while."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO

from bridle.client.client import Client
from bridle.errors import NotPossible

__all__ = ["Trial"]

_TOKEN = re.compile(r"\s+(brd_\S+)\s*")
_READY = re.compile(r"bridle serves .* on (http://\S+)\s*")
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0


class Trial:
    """A server on a free port of this machine, with a file that goes away with it.

    It has begun when it is made. End it with `stop`, or use it in a `with`.

    Attributes
    ----------
    url, token : str
        Where it is, and its admin token.
    db : str
        Its SQLite file, for the commands of `bridle`.
    """

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bridle-trial-")
        self.db = str(Path(self._folder.name) / "bridle.db")
        command = [sys.executable, "-m", "bridle", "serve", "--db", self.db, "--port", "0"]
        self._process = subprocess.Popen(
            [*command, "--quiet"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        # What does not begin in time is ended, and so says no more.
        limit = threading.Timer(_START_SECONDS, self._process.kill)
        limit.daemon = True
        limit.start()
        try:
            self.url, self.token = _address_and_token(self._process.stderr)
        except BaseException:
            self.stop()
            raise
        finally:
            limit.cancel()
        # A pipe that nobody reads would stop the server when it is full.
        self._reader = threading.Thread(target=_drain, args=(self._process.stderr,), daemon=True)
        self._reader.start()

    def client(self) -> Client:
        """Return a client with the admin token.

        It is patient: on a machine where bridle never ran, the first calls compile the kernels.
        """
        return Client(self.url, self.token, timeout=60.0, deadline=120.0)

    def stop(self) -> None:
        """Stop it, and remove its file."""
        process = self._process
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if hasattr(self, "_reader"):
            self._reader.join()
        assert process.stderr is not None
        process.stderr.close()
        self._folder.cleanup()

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _address_and_token(stream: IO[str]) -> tuple[str, str]:
    token, said = "", []
    for line in stream:
        said.append(line)
        if found := _TOKEN.fullmatch(line):
            token = found[1]
        elif found := _READY.fullmatch(line):
            return found[1], token
    raise NotPossible(f"The server did not start. It said: {''.join(said)[-500:]}")


def _drain(stream: IO[str]) -> None:
    for _ in stream:
        pass
