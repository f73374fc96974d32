"""A log as a parquet file, for whoever wants to look at it with other tools."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridle.errors import BridleError, InvalidValue, NotPossible, StoreFailed, UnknownId
from bridle.store.records import Entry, Head, Store

if TYPE_CHECKING:
    import polars as pl

__all__ = ["export"]

_PAGE = 5_000
# What an event's own id names.
_ID_OF = {
    "Decided": "decision",
    "Abstained": "decision",
    "Taught": "example",
    "Asked": "question",
}
_IDS = ("decision", "example", "question")


def export(store: Store, agent: str, path: Path | str) -> int:
    """Write the log of an agent to a parquet file, and give the number of its entries.

    The columns are seq, kind, at, decision, example, question, arm, value, propensity, coin,
    checked, allowed, by and payload, which holds the whole event as JSON, the seeds of coins among
    them: it is not for everybody. Ids and arms are text there, whatever they are in the event. An
    example that judges a play, and the word of one of several teachers on it, name its decision.
    What an event does not have is null; an erased one has only seq and kind.

    Parameters
    ----------
    store : Store
        Where the log is. It may be in use: what is appended meanwhile is left out.
    agent : str
        Whose log.
    path : Path or str
        The file to write, with a name that ends in .parquet. It takes the place of one of that name
        when it is whole.
    """
    path = Path(path)
    if not path.name.lower().endswith(".parquet"):
        # Who asks for a .csv would find out only when another program cannot read it.
        remedy = f"The table is written as Parquet: name it {path.stem + '.parquet'!r}."
        raise InvalidValue("path", "export", "a name that ends in .parquet", path.name, remedy)
    try:
        from polars.io.plugins import register_io_source
    except ImportError:
        raise NotPossible(
            "Parquet needs polars: pip install '.[study]' in bridle's folder."
        ) from None
    head = store.head(agent)
    if head is None:
        raise UnknownId("agent", agent, "The store has no log of that name.")
    failures: list[BridleError] = []

    # The order and the names of the arguments are polars'. It asks for all of it.
    def frames(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        try:
            for frame in _frames(store, agent, head):
                yield frame if with_columns is None else frame.select(with_columns)
        except BridleError as error:
            # polars would make it one of its own.
            failures.append(error)

    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            partial = Path(folder) / "partial.parquet"
            # Streamed: only some pages are in memory at a time.
            register_io_source(frames, schema=_schema()).sink_parquet(
                partial, row_group_size=_PAGE, maintain_order=True
            )
            if failures:
                raise failures[0]
            partial.replace(path)
    except OSError as error:
        raise StoreFailed(f"Could not write {path}: {error.strerror or error}.") from None
    return head.seq


def _schema() -> dict[str, Any]:
    import polars as pl

    text, number = pl.String, pl.Float64
    return {
        "seq": pl.Int64, "kind": text, "at": number,
        "decision": text, "example": text, "question": text, "arm": text,
        "value": number, "propensity": number, "coin": number, "checked": pl.Boolean,
        "allowed": pl.Boolean, "by": text, "payload": text,
    }  # fmt: skip


def _frames(store: Store, agent: str, head: Head) -> Iterator[pl.DataFrame]:
    import polars as pl

    after = 0
    while after < head.seq:
        page = store.read(agent, after, min(_PAGE, head.seq - after))
        if not page:
            return
        after = page[-1].seq
        yield pl.DataFrame([_row(entry) for entry in page], schema=_schema(), orient="row")


def _row(entry: Entry) -> tuple[object, ...]:
    event: dict[str, Any] = {}
    text = None
    if entry.payload is not None:
        text = entry.payload.decode(errors="replace")
        with contextlib.suppress(ValueError):
            read = json.loads(text)
            event = read if isinstance(read, dict) else {}
    named = _ID_OF.get(entry.kind)
    if entry.kind in ("Taught", "Judged"):
        event["decision"] = event.get("check")
    ids = (event.get("id") if name == named else event.get(name) for name in _IDS)
    return (
        entry.seq,
        entry.kind,
        _number(event.get("at")),
        *map(_text, ids),
        _text(event.get("arm")),
        _number(event.get("value")),
        _number(event.get("propensity")),
        _number(event.get("coin")),
        _truth(event.get("checked")),
        _truth(event.get("allowed")),
        _text(event.get("by")),
        text,
    )


def _number(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None  # type: ignore[arg-type]


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return str(value) if isinstance(value, int | str) else None
