"""Your own data: a folder of plain tables.

A world is a folder with three tables, each as csv or as parquet, and two files that may be left
out. `read_world` reads it, `write_world` writes it.

``contexts.csv``
    A row for each context. The first column may be called ``label``: a name for the context. Each
    other column is a feature, as the number that the agent's mathematics sees: scaled, one column
    of 0 and 1 for each word of a category. Numbers are in [-1e6, 1e6].
``rewards.csv``
    A row for each context, in the same order; a column for each arm, called by the arm's id: what
    the arm earns there, in [0, 1].
``allowed.csv``
    The same rows and arms: 1 where the arm is allowed, 0 where it is denied. A context without an
    allowed arm is taken as it is: the world's notes say how many there are.
``arms.csv`` (optional)
    The columns ``arm``, ``label`` and ``group``: what people call an arm, and the group that it
    belongs to; both may be empty. Every arm of ``rewards`` has one row.
``world.json`` (optional)
    What the tables cannot say; each key is optional, and an unknown key is an error:
    ``name``, ``title``, ``about``, ``url``, ``licence``, ``reward_unit`` (texts), ``synthetic``
    (true or false), ``notes`` (a list of texts), ``features`` (what `Schema.to_json` gives: without
    it each column is a plain number), ``groups`` (a list, in order), ``denied`` (for each group a
    list of 0 and 1, one for each feature column), ``text_ids`` (arms whose ids are text though they
    look like whole numbers), ``version`` (1).

A world of two contexts and two arms::

    contexts.csv          rewards.csv      allowed.csv      arms.csv
    label,age,smoker      low,high         low,high         arm,label,group
    Ann,0.25,1            0.2,0.9          1,0              low,low dose,doses
    Bob,0.5,0             0.3,0.1          1,1              high,high dose,doses

Columns are found by name, so their order may differ between files; the order of the arms is that of
``rewards``. A csv is UTF-8, with commas, a header, and a line break after the last row: without it
the file may have been cut off. Rows are counted from 1, the header not among them. Floats are
written in full: what was written is read back to the bit. A table has at most 1,000,000 rows and
20,000,000 cells, a file at most 512 MiB. Parquet needs polars; csv needs nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bridle.agent.config import ARM_NUMBER, Arm, ArmId
from bridle.errors import BridleError, CorruptState, InvalidValue, NotPossible
from bridle.kernels.types import Bools
from bridle.schema import Number, Schema, known
from bridle.simulate import Tables
from bridle.validation import one_of
from bridle_studies.environments.tablefiles import (
    FORMATS,
    TABLES,
    TableFile,
    bad_cell,
    check_header,
    check_size,
    csv_rows,
    read_bytes,
    read_table,
    same_names,
    write_csv,
    write_table,
)
from bridle_studies.environments.world import Origin, World

__all__ = ["read_world", "write_world"]

MAX_JSON = 16 * 2**20
ALONE = "context(s) without an allowed arm: taken as they are, a mask abstains there."
TEXTS = ("name", "title", "about", "url", "licence", "reward_unit")
LISTS = ("notes", "groups", "text_ids")
KEYS = (*TEXTS, *LISTS, "synthetic", "features", "denied", "version")


def read_world(folder: str | os.PathLike[str]) -> World:
    """Read a world from a folder of tables; the module's documentation describes them.

    `World.origin.files` has the sha256 of each file.

    Raises
    ------
    NotPossible
        A file is missing, or there twice (csv and parquet).
    CorruptState
        What a file says is wrong; the message has the file, the row and the column.
    LimitReached
        A table or a file is too large.

    Examples
    --------
    >>> import tempfile
    >>> world = World.from_tables([[0.1], [0.5]], [[0.2, 0.9], [0.3, 0.1]], [[1, 0], [1, 1]])
    >>> with tempfile.TemporaryDirectory() as there:
    ...     again = read_world(write_world(world, f"{there}/mine"))
    >>> again.tables.rewards.tolist(), sorted(again.origin.files)
    ([[0.2, 0.9], [0.3, 0.1]],
     ['allowed.csv', 'arms.csv', 'contexts.csv', 'rewards.csv', 'world.json'])
    """
    home = Path(folder)
    if not home.is_dir():
        raise NotPossible(f"There is no folder {home}. Give one with contexts, rewards, allowed.")
    files: dict[str, str] = {}
    about = home / "world.json"
    said = _read_json(about, files)
    contexts, rewards, allowed = (read_table(home, name, files) for name in TABLES)
    for table in (rewards, allowed):
        if len(table.numbers) != len(contexts.numbers):
            raise CorruptState(
                f"{table.path} has {len(table.numbers):,} rows, but {contexts.path.name} has "
                f"{len(contexts.numbers):,}. Each table has a row for each context."
            )
    if "features" in said:
        with _in_file(f"{about}, 'features'"):
            schema = Schema.from_json(said["features"])
    else:
        with _in_file(f"{contexts.path}, header"):
            schema = Schema([Number(name) for name in contexts.columns])
    arms = _arms(home / "arms.csv", rewards, said.get("text_ids", []), files)
    fit = allowed.ordered(rewards.columns, rewards.path.name) == 1.0
    groups = said.get("groups")
    if groups is None:
        groups = [*dict.fromkeys(arm.group for arm in arms if arm.group is not None)]
    for arm in arms:
        if groups and arm.group not in {None, *groups}:
            raise CorruptState(
                f"{about}, 'groups': has no {arm.group!r}, the group of arm {arm.id!r}. "
                f"{known(arm.group, groups)}"
            )
    name = said.get("name") or home.resolve().name or "my world"
    alone = int((~fit.any(axis=1)).sum())
    notes = [note for note in said.get("notes", []) if not note.endswith(ALONE)]
    numbers = contexts.ordered(schema.columns, "the features of world.json")
    return World(
        name=name,
        origin=Origin(
            title=said.get("title", name),
            synthetic=said.get("synthetic", False),
            about=said.get("about", "Tables of the user's own."),
            url=said.get("url", ""),
            licence=said.get("licence", ""),
            files=files,
            notes=(*notes, f"{alone:,} {ALONE}") if alone else tuple(notes),
        ),
        tables=Tables(numbers, rewards.numbers, fit),
        schema=schema,
        arms=arms,
        labels=contexts.labels,
        groups=tuple(groups),
        denied=_denied(about, said.get("denied"), len(groups), schema.width),
        reward_unit=said.get("reward_unit", ""),
    )


@contextlib.contextmanager
def _in_file(place: str) -> Iterator[None]:
    """Return in which file a value was that its owner refused."""
    try:
        yield
    except InvalidValue as error:
        raise CorruptState(f"{place}: {error}") from error


def _read_json(path: Path, files: dict[str, str]) -> dict[str, Any]:
    """Return what world.json says, keys and types checked; nothing if there is none."""
    if not path.exists():
        return {}
    data = read_bytes(path, files, MAX_JSON)

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) < len(pairs):
            raise ValueError(f"a key stands twice among {[key for key, _ in pairs]}")
        return made

    try:
        said = json.loads(data.decode("utf-8-sig"), object_pairs_hook=distinct)
    except (ValueError, RecursionError) as error:
        raise CorruptState(f"{path} is not JSON that can be read: {str(error)[:200]}.") from error
    if not isinstance(said, dict):
        raise CorruptState(f'{path} must be an object: {{"name": …}}.')
    for key, value in said.items():
        if key not in KEYS:
            raise CorruptState(f"{path}: there is no key {key[:100]!r}. {known(key, KEYS)}")
        if wanted := _not_of_kind(key, value):
            raise CorruptState(f"{path}, {key!r}: must be {wanted}. Got {value!r:.100} instead.")
    return said


def _not_of_kind(key: str, value: object) -> str:
    """Return what the value of a key must be, if it is not."""
    if key in TEXTS:
        return "" if isinstance(value, str) else "a text"
    if key in LISTS:
        words = isinstance(value, list) and all(isinstance(item, str) for item in value)
        once = key == "notes" or (isinstance(value, list) and len({*map(str, value)}) == len(value))
        return "" if words and once else "a list of distinct texts"
    if key == "synthetic":
        return "" if isinstance(value, bool) else "true or false"
    if key == "version":
        return "" if type(value) is int and value == 1 else "1, the one that this bridle reads"
    return ""  # 'features' and 'denied' are looked at when the tables are known


def _arms(
    path: Path, rewards: TableFile, text_ids: Sequence[str], files: dict[str, str]
) -> tuple[Arm, ...]:
    texts = {*text_ids}
    ids = {name: _arm_id(name, texts) for name in rewards.columns}
    with _in_file(f"{rewards.path}, header"):
        found = {name: Arm(id) for name, id in ids.items()}
    if not path.exists():
        return tuple(found.values())
    rows = csv_rows(path, read_bytes(path, files))
    columns = next(rows)
    check_header(path, columns, labelled=False)
    if "arm" not in columns or not {*columns} <= {"arm", "label", "group"}:
        got = f"Got {columns!r:.100}."
        raise CorruptState(f"{path}: its columns must be arm, label and group. {got}")
    seen: dict[str, None] = {}
    for row, cells in enumerate(rows):
        check_size(path, row + 1, len(columns))
        cell = dict(zip(columns, cells, strict=True))
        name = cell["arm"]
        if name in seen:
            raise bad_cell(path, row, "arm", "an arm that has no row yet", name)
        seen[name] = None
        with _in_file(f"{path}, row {row + 1:,}"):
            id = ids.get(name, name)
            found[name] = Arm(id, cell.get("label", ""), cell.get("group") or None)
    same_names(path, "arm", [*seen], rewards.columns, rewards.path.name)
    return tuple(found[name] for name in rewards.columns)


def _arm_id(name: str, texts: set[str]) -> ArmId:
    """Return the id that a header means: a whole number, if it is written as one."""
    digits = name.removeprefix("-")
    if name in texts or not (digits.isascii() and digits.isdigit() and len(digits) <= 16):
        return name
    number = int(name)
    plain = str(number) == name and ARM_NUMBER.low <= number <= ARM_NUMBER.high
    return number if plain else name


def _denied(path: Path, rows: object, groups: int, width: int) -> Bools | None:
    if rows is None:
        return None
    fine = isinstance(rows, list) and len(rows) == groups > 0
    for row in rows if isinstance(rows, list) else ():
        fine = fine and isinstance(row, list) and len(row) == width
        fine = fine and all(type(cell) in (int, bool) and cell in (0, 1) for cell in row)
    if not fine:
        wanted = f"{width:,} times 0 or 1, for each of {groups:,} groups"
        raise CorruptState(f"{path}, 'denied': must be lists of {wanted}. Got {rows!r:.100}.")
    return np.array(rows, np.bool_)


def write_world(world: World, folder: str | os.PathLike[str], *, format: str = "csv") -> Path:
    """Write a world as a folder of tables and give its path.

    The folder appears whole or not at all: it is written beside its place, read back, compared to
    the bit, and then renamed.

    Parameters
    ----------
    world : World
        What to write. What its data were made from is kept as a note.
    folder : path
        Must not be there yet, or be empty.
    format : "csv" or "parquet"
        Of the tables; arms are always csv.
    """
    one_of(format, FORMATS, "format", "write_world")
    home = Path(folder).absolute()
    if home.exists() and not (home.is_dir() and not any(home.iterdir())):
        raise NotPossible(f"{home} is there already. Give a new folder, or remove it first.")
    if "label" in world.schema.columns:
        remedy = "Give the feature another name."
        raise InvalidValue("schema", "World", "without a column 'label'", "label", remedy)
    ids = [str(arm.id) for arm in world.arms]
    if len({*ids}) < len(ids):
        twice = next(id for id in ids if ids.count(id) > 1)
        raise InvalidValue("arms", "World", "of ids that read differently", twice)
    part = home.with_name(f".{home.name}.{secrets.token_hex(8)}.part")
    try:
        part.mkdir(parents=True)
        _write(world, part, ids, format)
        if not _same(world, read_world(part)):
            raise NotPossible("it does not read back as it was.")
        if home.exists():
            home.rmdir()
        part.rename(home)
    except (BridleError, UnicodeError) as error:
        why = str(error).replace(str(part), str(home))
        raise NotPossible(f"The world cannot be written in this layout: {why}") from error
    except OSError as error:
        raise NotPossible(f"{home} cannot be written: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return home


def _write(world: World, part: Path, ids: list[str], format: str) -> None:
    own = {f"{name}.{kind}" for name in TABLES for kind in FORMATS} | {"arms.csv", "world.json"}
    files = {name: sha for name, sha in world.origin.files.items() if name not in own}
    sources = [f"{name} (sha256 {sha})" for name, sha in files.items()]
    notes = [*world.origin.notes, *([f"Made from {', '.join(sources)}."] if sources else [])]
    said: dict[str, Any] = {
        "version": 1,
        "name": world.name,
        "title": world.origin.title,
        "about": world.origin.about,
        "url": world.origin.url,
        "licence": world.origin.licence,
        "synthetic": world.origin.synthetic,
        "notes": notes,
        "reward_unit": world.reward_unit,
        "features": world.schema.to_json(),
        "groups": [*world.groups],
    }
    if world.denied is not None:
        said["denied"] = np.asarray(world.denied, np.int64).tolist()
    words = [arm.id for arm in world.arms if isinstance(arm.id, str)]
    if looks := [id for id in words if _arm_id(id, set()) != id]:
        said["text_ids"] = looks
    text = json.dumps(said, ensure_ascii=False, indent=1, allow_nan=False)
    (part / "world.json").write_text(f"{text}\n", encoding="utf-8", newline="")
    arms = [[id, arm.label, arm.group or ""] for id, arm in zip(ids, world.arms, strict=True)]
    write_csv(part / "arms.csv", ["arm", "label", "group"], arms)
    tables = world.tables
    columns = world.schema.columns
    write_table(part / f"contexts.{format}", columns, tables.contexts, world.labels)
    write_table(part / f"rewards.{format}", ids, tables.rewards)
    write_table(part / f"allowed.{format}", ids, tables.allowed.astype(np.uint8))


def _same(one: World, two: World) -> bool:
    """Return whether two worlds are the same, but for where they came from."""
    if (one.denied is None) != (two.denied is None):
        return False
    names = ("name", "schema", "arms", "labels", "groups", "reward_unit")
    pairs = [(getattr(one.tables, x), getattr(two.tables, x)) for x in TABLES]
    return all(getattr(one, x) == getattr(two, x) for x in names) and all(
        np.array_equal(first, second) for first, second in [*pairs, (one.denied, two.denied)]
    )
