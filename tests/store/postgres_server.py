"""A PostgreSQL of the tests' own: in a temporary folder, on a socket there, stopped at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal


class NoPostgres(Exception):
    """There is nothing to start; the text says what was looked for."""


def find_programs() -> Path:
    """Give the folder of PostgreSQL's programs, or raise `NoPostgres`."""
    # Debian's version first: what stands on PATH may be a wrapper.
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: (len(path.parts[4]), path.parts[4]),
    )
    on_path = shutil.which("initdb")
    if on_path:
        found.insert(0, Path(on_path).resolve())
    for path in reversed(found):
        if (path.parent / "pg_ctl").exists():
            return path.parent
    raise NoPostgres(
        "no PostgreSQL is installed: no initdb on PATH and none in /usr/lib/postgresql/*/bin"
    )


class PostgresServer:
    """A server that is started, stopped in any mode, and started again. fsync is on."""

    def __init__(self) -> None:
        self._programs = find_programs()
        # The path of a unix socket is at most some 100 characters long.
        self.folder = Path(tempfile.mkdtemp(prefix="brpg", dir="/tmp"))
        self._as: dict[str, object] = {}
        if os.getuid() == 0:
            # PostgreSQL refuses to run as root.
            user = _other_user()
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        try:
            self._run(
                "initdb",
                "-D",
                self._data,
                "-U",
                "bridle",
                "--auth=trust",
                "-E",
                "UTF8",
                "--no-locale",
                "--no-sync",
            )
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    @property
    def url(self) -> str:
        """What to connect to."""
        return f"postgresql://bridle@/postgres?host={self.folder}"

    def start(self) -> None:
        """Start it and wait until it answers; after a crash it recovers first."""
        options = (
            f"-c listen_addresses='' -c unix_socket_directories={self.folder} -c fsync=on "
            "-c shared_buffers=16MB -c max_connections=60"
        )
        self._run(
            "pg_ctl",
            "start",
            "-w",
            "-t",
            "120",
            "-D",
            self._data,
            "-l",
            str(self.folder / "log"),
            "-o",
            options,
        )

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop it and wait; "immediate" is as if it had crashed."""
        self._run("pg_ctl", "stop", "-w", "-t", "120", "-m", mode, "-D", self._data)

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop it in a mode and start it again."""
        self.stop(mode)
        self.start()

    def running(self) -> bool:
        """Say whether it runs."""
        return (self.folder / "data" / "postmaster.pid").exists()

    def close(self) -> None:
        """Stop it and remove all of it."""
        if self.running():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        # Not a pipe: the server would inherit it, and we would wait for its end.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [self._programs / program, *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                **self._as,  # type: ignore[call-overload]
            )
            output.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program} failed: {output.read().decode(errors='replace')}")


def _other_user() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise NoPostgres("PostgreSQL does not run as root, and there is no user postgres or nobody")
