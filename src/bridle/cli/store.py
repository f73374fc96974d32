"""The commands on a store of logs: verify, replay, backup, restore, export, fork, erase, tokens."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridle.cli.console import friendly_errors

if TYPE_CHECKING:
    from bridle.store.opening import AnyStore

__all__ = ["add_to"]

Db = Annotated[
    str,
    typer.Option("--db", metavar="DB", help="A SQLite file, or postgresql://USER@HOST/NAME."),
]
AgentName = Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.")]
NOTHING = "Nothing was changed."
NO_AGENTS = "The store has no agents yet."
# What HTTP takes, too, said without its libraries: a fork needs no service. No note may end the
# line of a log; half a character is what the terminal could not read.
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
NOTE = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]{0,200}")
MOST_DAYS = 36_500.0


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    for command in (agents, verify, replay, backup, restore, export, fork, erase, token):
        app.command()(command)


def agents(db: Db = "bridle.db") -> None:
    """List the agents of a store, with the head of each log."""
    with friendly_errors(NOTHING), _opened(db) as store:
        rows = store.agents()
        if not rows:
            typer.echo(NO_AGENTS, err=True)
        for row in rows:
            origin = f"  (from {row.origin})" if row.origin else ""
            typer.echo(f"{row.name}  {row.head}{origin}")


def verify(
    agent: Annotated[
        str | None, typer.Argument(metavar="[AGENT]", help="Only this agent. Default: all.")
    ] = None,
    db: Db = "bridle.db",
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="SEQ:HASH",
            help="A head that the log once had, saved elsewhere. Detects a truncated log.",
        ),
    ] = None,
) -> None:
    """Check every hash of a log, and print its head.

    The chain alone cannot show that its end was cut off, or that all of it was rewritten. A head
    that you saved elsewhere, from a backup or a response, can: --expect.
    """
    from bridle.store.maintenance import verify as check

    with friendly_errors(NOTHING), _opened(db) as store:
        names = [agent] if agent is not None else [row.name for row in store.agents()]
        if expect is not None and agent is None:
            raise typer.BadParameter("It needs the name of one agent.", param_hint="--expect")
        if not names:
            typer.echo(f"{NO_AGENTS} There is nothing to verify.", err=True)
        bad = 0
        for name in names:
            with _bar(f"verifying {name}") as progress:
                found = check(store, name, expect=expect, progress=progress)
            for problem in found.problems:
                typer.echo(f"{name}: {problem.text}", err=True)
            bad += len(found.problems)
            erased = f", {found.erased:,} of them erased" if found.erased else ""
            state = "DAMAGED" if found.problems else "whole"
            typer.echo(f"{name}  {found.head}  {state}: {found.entries:,} entries{erased}")
    if bad:
        raise typer.Exit(1)


def replay(agent: AgentName, db: Db = "bridle.db") -> None:
    """Replay every decision of a log, arm and propensity, and report how many agree.

    With the same versions and platform they agree to the last bit; otherwise in the arm, and in the
    propensity to 1e-9, which is counted separately.
    """
    from bridle.store.maintenance import replay as run

    with friendly_errors(NOTHING), _opened(db) as store, _bar(f"replaying {agent}") as progress:
        found = run(store, agent, progress=progress)
    typer.echo(f"{found.choices:,} choices, {found.same:,} the same to the last bit")
    if found.elsewhere:
        typer.echo(
            f"{found.elsewhere:,} were made by other versions or on another platform: "
            f"{found.near:,} of them are the same arm with a propensity within 1e-9"
        )
    if found.unchecked:
        typer.echo(f"{found.unchecked:,} rest on what was erased since, and cannot be checked")
    if not found.agrees:
        some = ", ".join(map(str, found.examples[:10]))
        typer.echo(f"{found.differing:,} DIFFER: {some}", err=True)
        raise typer.Exit(1)


def backup(
    to: Annotated[Path, typer.Argument(metavar="FILE", help="File to write. It must not exist.")],
    db: Db = "bridle.db",
) -> None:
    """Copy a store, also one in use, into one SQLite file; print the head of each log."""
    from bridle.store.maintenance import backup as run

    with friendly_errors("There is no backup."), _opened(db) as store, _bar("copying") as progress:
        heads = run(store, to, progress=progress)
    for name, head in heads.items():
        typer.echo(f"{name}  {head}")


def restore(
    source: Annotated[
        Path, typer.Argument(metavar="FILE", help="A file that `bridle backup` wrote.")
    ],
    db: Db = "bridle.db",
) -> None:
    """Restore a backup into an empty store, of either kind; print the head of each log."""
    from bridle.store.maintenance import check_backup
    from bridle.store.maintenance import restore as run

    with friendly_errors("Nothing was restored."):
        check_backup(source)
        with _opened(db, create=True) as store, _bar("restoring") as progress:
            heads = run(source, store, progress=progress)
    for name, head in heads.items():
        typer.echo(f"{name}  {head}")


def export(
    agent: AgentName,
    to: Annotated[Path, typer.Argument(metavar="FILE.parquet", help="File to write.")],
    db: Db = "bridle.db",
) -> None:
    """Write the log of an agent as a table, for pandas, polars or DuckDB."""
    from bridle.store.maintenance import export as run

    with friendly_errors("There is no file."), _opened(db) as store:
        rows = run(store, agent, to)
    typer.echo(f"{to}: {rows:,} events")


def fork(
    agent: AgentName,
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="The name of the new agent.")],
    at: Annotated[
        int | None,
        typer.Option(metavar="VERSION", min=1, help="Up to this version. Default: the whole log."),
    ] = None,
    db: Db = "bridle.db",
) -> None:
    """Create an agent from the log of another, up to a version: to experiment, or to roll back."""
    from bridle.errors import InvalidValue
    from bridle.store.aggregate import log_head
    from bridle.store.maintenance import fork as run

    with friendly_errors(NOTHING):
        if not NAME.fullmatch(to):
            wanted = "at most 100 of a-z, 0-9, '.', '_' and '-', the first a letter or a digit"
            raise InvalidValue("--to", "bridle fork", wanted, to)
        with _opened(db) as store:
            version = log_head(store, agent).seq if at is None else at
            head = run(store, agent, version, to)
    typer.echo(f"{to}  {head}")


def erase(
    agent: AgentName,
    decision: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="A decision. Can be repeated.")
    ] = None,
    example: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="An example. Can be repeated.")
    ] = None,
    note: Annotated[str | None, typer.Option(help="The reason, which is recorded.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    db: Db = "bridle.db",
) -> None:
    """Erase all data of a decision or an example from the log. Stop the service first.

    The chain still verifies. From then on the agent is as if it had never seen them. Backups and
    forks are not changed.
    """
    from bridle.store.maintenance import erase as run

    with friendly_errors(NOTHING), _opened(db) as store:
        if not yes:
            typer.confirm("This cannot be undone. Erase it?", abort=True)
        head = run(
            store,
            agent,
            decisions=decision or (),
            examples=example or (),
            by="bridle erase",
            note=note,
            at=time.time(),
        )
    typer.echo(f"{agent}  {head}")


def token(
    role: Annotated[str, typer.Argument(help="agent, teacher, auditor or admin.")],
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", metavar="NAME", help="Only for this agent. Can be repeated."),
    ] = None,
    days: Annotated[
        float | None, typer.Option(help="How long it is valid. Default: forever.")
    ] = None,
    note: Annotated[str, typer.Option(help="Whose token it is.")] = "",
    db: Db = "bridle.db",
) -> None:
    """Create a token for the service and print it, once: only its hash is stored."""
    with friendly_errors("No token was made."):
        from bridle.errors import InvalidValue
        from bridle.server.endpoints import ROLES
        from bridle.server.tokens import make_token
        from bridle.store.aggregate import log_head
        from bridle.validation import FloatRange

        if role not in ROLES:
            raise InvalidValue("role", "bridle token", f"one of {', '.join(ROLES)}", role)
        if days is not None:
            FloatRange(0.0, MOST_DAYS, open_low=True).check(days, "--days", "bridle token")
        if not NOTE.fullmatch(note):
            wanted = "at most 200 characters, without ends of lines and the like"
            raise InvalidValue("--note", "bridle token", wanted, note)
        # The first token comes before the first start. But a new store has no agents.
        with _opened(db, create=not agent) as store:
            for name in agent or ():
                log_head(store, name)
            now = time.time()
            made = make_token(
                role,
                now=now,
                agents=None if agent is None else tuple(agent),
                note=note,
                expires=None if days is None else now + 86_400 * days,
            )
            with store.transaction() as transaction:
                transaction.add_token(made.row)
    typer.echo(made.text)


@contextmanager
def _opened(db: str, *, create: bool = False) -> Iterator[AnyStore]:
    from bridle.store.opening import open_store

    with closing(open_store(db, create=create)) as store:
        yield store


@contextmanager
def _bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show how far it is, on the error stream, if that is a terminal and it takes a while."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
