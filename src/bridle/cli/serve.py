"""`bridle serve`: agents over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from bridle.cli.telling import told

if TYPE_CHECKING:
    from bridle.service.tokens import NewToken

__all__ = ["serve"]


def serve(
    db: Annotated[
        str,
        typer.Option("--db", metavar="DB", help="A SQLite file, or postgresql://USER@HOST/NAME."),
    ] = "bridle.db",
    host: Annotated[
        str, typer.Option(help="Where to listen. Beyond this machine, put TLS before it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any that is free.")] = 8000,
    quiet: Annotated[bool, typer.Option("--quiet", help="No line for each request.")] = False,
) -> None:
    """Serve agents over HTTP, with every event durable in the store before it is answered.

    The first start makes an admin token and prints it once. GET /openapi.json says all of it.
    """
    with told("Stopped."):
        from bridle.service.running import ServerSettings, run

        settings = ServerSettings(db=db, host=host, port=port, access_log=not quiet)
        run(settings, tell=_tell, ready=lambda taken: _ready(host, taken, db))


def _tell(token: NewToken) -> None:
    typer.echo(f"The first admin token, shown this once:\n\n    {token.text}\n", err=True)


def _ready(host: str, port: int, db: str) -> None:
    # An address of a database may hold a password.
    what = db if "://" not in db else db.partition("://")[0]
    typer.echo(f"bridle serves {what} on http://{host}:{port}", err=True)
