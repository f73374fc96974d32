"""`bridle serve`: agents over HTTP. `bridle warm`: every kernel compiled beforehand."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridle.cli.console import friendly_errors

if TYPE_CHECKING:
    from bridle.server.tokens import NewToken

__all__ = ["serve", "warm"]


def serve(
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            metavar="DB",
            help="A SQLite file, or postgresql://USER@HOST/NAME. Default: bridle.db; with --demo, "
            "a temporary file.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(help="Address to listen on. Put TLS in front of it when others can reach it."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any free port.")] = 8000,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not log each request.")] = False,
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Two agents in made-up worlds, with simulated people."),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --demo: also listen where others can reach it.")
    ] = False,
    warm: Annotated[
        bool,
        typer.Option(
            "--warm/--no-warm",
            envvar="BRIDLE_WARM",
            help="Compile the kernels in the background at the start.",
        ),
    ] = True,
) -> None:
    """Serve agents over HTTP, with every event durable in the store before it is answered.

    The first start makes an admin token and prints it once. GET /openapi.json describes the API.
    With --demo, anyone who opens the address may look around.
    """
    with friendly_errors("Stopped."):
        if force and not demo:
            raise typer.BadParameter("--force goes with --demo.")
        if demo:
            _demo(db, host, port, quiet, force, warm)
            return
        _check_port(host, port)
        from bridle.web.run import ServerSettings, run

        db = "bridle.db" if db is None else db
        settings = ServerSettings(db=db, host=host, port=port, access_log=not quiet, warm=warm)
        run(settings, tell=_tell, ready=lambda taken: _ready(host, taken, db))


def _demo(db: str | None, host: str, port: int, quiet: bool, force: bool, warm: bool) -> None:
    from bridle.cli.plugins import demonstration
    from bridle.web.run import ServerSettings, run

    demo = demonstration()
    if not force:
        demo.check_host(host)
    _check_port(host, port)
    with _file_for(db) as name:
        demo.check_empty(name)
        clock = demo.DemoClock()
        settings = ServerSettings(db=name, host=host, port=port, access_log=not quiet, warm=warm)

        def ready(taken: int) -> None:
            _ready(host, taken, "a demonstration")
            typer.echo(f"\n    Open http://{_in_address(host)}:{taken}/\n", err=True)

        typer.echo("A demonstration, in made-up worlds. One moment ...", err=True)
        run(
            settings,
            tell=_tell,
            ready=ready,
            clock=clock,
            beside=lambda service: demo.demonstration(service, clock),
        )


@contextlib.contextmanager
def _file_for(db: str | None) -> Iterator[str]:
    """Yield the file of a demonstration; one that nobody named is removed at the end."""
    if db is not None:
        yield db
        return
    with tempfile.TemporaryDirectory(prefix="bridle-demo-") as folder:
        yield str(Path(folder) / "demo.db")


def _check_port(host: str, port: int) -> None:
    """Raise an error if nobody could listen there.

    The server finds out, too, but only when the store is made and the first token has been shown.
    """
    from bridle.errors import NotPossible

    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            try:
                trial = socket.socket(family, kind, protocol)
            except OSError:
                continue  # a machine without IPv6; the server, too, leaves it out
            with trial:
                # As the server does: a port whose last connections have just ended is free.
                if os.name == "posix":
                    trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                trial.bind(address)
    except UnicodeError:
        raise NotPossible(f"No host has the name {host!r}. Name another with --host.") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise NotPossible(
                f"Port {port} of {host} is taken. Stop what listens there, or name another with "
                f"--port; --port 0 takes any that is free."
            ) from None
        raise NotPossible(
            f"Nobody can listen on port {port} of {host}: {error.strerror}. Name others with "
            f"--host and --port."
        ) from None


def _tell(token: NewToken) -> None:
    typer.echo(f"The first admin token, shown this once:\n\n    {token.text}\n", err=True)


def _ready(host: str, port: int, db: str) -> None:
    # An address of a database may hold a password.
    what = db if "://" not in db else db.partition("://")[0]
    typer.echo(f"bridle serves {what} on http://{_in_address(host)}:{port}", err=True)


def _in_address(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def warm(
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Compile every kernel beforehand. They are kept, so it takes a minute or two only once."""
    with friendly_errors("Stopped. What was compiled is kept."):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from bridle.warm import STEPS
        from bridle.warm import warm as compile_kernels

        console = Console(stderr=True, quiet=quiet)
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task("compiling", total=len(STEPS))
            done = 0

            def show(name: str) -> None:
                nonlocal done
                progress.update(bar, description=f"compiling: {name}", completed=done)
                done += 1

            kernels, seconds = compile_kernels(show)
        if kernels:
            console.print(f"{kernels} kernels compiled in {seconds:.0f} s. They are kept.")
        else:
            console.print(f"All kernels were there already ({seconds:.1f} s).")
