from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridle.agent.config import Arm
from bridle.errors import CorruptState, InvalidValue, LimitReached, NotPossible
from bridle.schema import Category, Flag, Labels, Number, Schema
from bridle.simulate import Tables
from bridle_studies.environments import files, tablefiles
from bridle_studies.environments.files import read_world, write_world
from bridle_studies.environments.world import Origin, World

# The example of the documentation.
CONTEXTS = "label,age,smoker\nAnn,0.25,1\nBob,0.5,0\n"
REWARDS = "low,high\n0.2,0.9\n0.3,0.1\n"
ALLOWED = "low,high\n1,0\n1,1\n"
ARMS = "arm,label,group\nlow,low dose,doses\nhigh,high dose,doses\n"


@pytest.fixture
def mine(tmp_path):
    return put(tmp_path / "mine")


def put(folder: Path, **others: str | bytes | None) -> Path:
    """Write the example, with other content for some of its files; None: no such file."""
    folder.mkdir(exist_ok=True)
    texts = {"contexts.csv": CONTEXTS, "rewards.csv": REWARDS, "allowed.csv": ALLOWED}
    texts |= {"arms.csv": ARMS}
    for name, text in (texts | {k.replace("_", "."): v for k, v in others.items()}).items():
        if text is not None:
            (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        elif (folder / name).exists():
            (folder / name).unlink()
    return folder


def said(folder: Path, **keys: object) -> Path:
    (folder / "world.json").write_text(json.dumps(keys))
    return folder


def same(one: World, two: World) -> None:
    for name in ("contexts", "rewards", "allowed"):
        first, second = getattr(one.tables, name), getattr(two.tables, name)
        assert first.tobytes() == second.tobytes()
        assert (first.shape, first.dtype) == (second.shape, second.dtype)
    for name in ("name", "schema", "arms", "labels", "groups", "reward_unit"):
        assert getattr(one, name) == getattr(two, name), name
    assert [type(arm.id) for arm in one.arms] == [type(arm.id) for arm in two.arms]
    assert (one.denied is None) == (two.denied is None)
    if one.denied is not None and two.denied is not None:
        assert np.array_equal(one.denied, two.denied)
        assert two.denied.dtype == np.bool_


# --- what goes well -----------------------------------------------------------------------


def test_the_example_of_the_documentation(mine):
    for text in (CONTEXTS, REWARDS, ALLOWED, ARMS):
        for line in text.splitlines():
            assert line in files.__doc__
    world = read_world(mine)
    assert world.name == world.origin.title == "mine"
    assert world.labels == ("Ann", "Bob")
    assert world.context(0) == {"age": 0.25, "smoker": 1.0}
    assert world.tables.rewards.tolist() == [[0.2, 0.9], [0.3, 0.1]]
    assert world.tables.allowed.tolist() == [[True, False], [True, True]]
    assert world.arms == (Arm("low", "low dose", "doses"), Arm("high", "high dose", "doses"))
    assert world.groups == ("doses",)
    assert world.denied is None
    assert world.origin.synthetic is False
    assert world.origin.notes == ()
    for name in ("contexts.csv", "rewards.csv", "allowed.csv", "arms.csv"):
        assert world.origin.files[name] == hashlib.sha256((mine / name).read_bytes()).hexdigest()
    assert len(world.origin.files) == 4


def test_every_key_is_documented():
    for key in files.KEYS:
        assert f"``{key}``" in files.__doc__
    for number in (tablefiles.MAX_ROWS, tablefiles.MAX_CELLS):
        assert f"{number:,}" in files.__doc__
    assert f"{tablefiles.MAX_FILE // 2**20} MiB" in files.__doc__


def test_tables_alone_will_do_and_ids_of_digits_are_numbers(tmp_path):
    put(
        tmp_path,
        contexts_csv="x\n1\n",
        rewards_csv="0,-3,07,1.5,9007199254740993,-\n0,0,0,0,0,1\n",
        allowed_csv="0,-3,07,1.5,9007199254740993,-\n1,1,1,1,1,1\n",
        arms_csv=None,
    )
    world = read_world(tmp_path)
    assert [arm.id for arm in world.arms] == [0, -3, "07", "1.5", "9007199254740993", "-"]
    assert world.labels == world.groups == ()


def test_columns_are_found_by_name(tmp_path, mine):
    other = put(
        tmp_path / "other",
        allowed_csv="high,low\n0,1\n1,1\n",
        arms_csv="group,arm,label\ndoses,high,high dose\ndoses,low,low dose\n",
        contexts_csv="label,smoker,age\nAnn,1,0.25\nBob,0,0.5\n",
    )
    features = Schema([Number("age"), Number("smoker")]).to_json()
    same(
        read_world(said(mine, name="it", features=features)),
        read_world(said(other, name="it", features=features)),
    )


def test_what_spreadsheets_write_is_read(tmp_path, mine):
    other = put(
        tmp_path / "mine2",
        contexts_csv=b"\xef\xbb\xbf" + CONTEXTS.replace("\n", "\r\n").encode(),
        rewards_csv='"low","high"\n 0.2,9e-1\n"0.3", .1\n',
        allowed_csv="low,high\n1.0,0.0\n1,1\n",
    )
    same(read_world(said(mine, name="it")), read_world(said(other, name="it")))


def test_a_context_without_an_allowed_arm_is_taken_as_it_is_and_noted(tmp_path, mine):
    put(mine, allowed_csv="low,high\n0,0\n1,1\n")
    world = read_world(said(mine, notes=["Rounded.", f"7 {files.ALONE}"]))
    assert world.tables.allowed.tolist() == [[False, False], [True, True]]
    assert world.origin.notes == ("Rounded.", f"1 {files.ALONE}")
    again = read_world(write_world(world, tmp_path / "again"))
    assert again.origin.notes == world.origin.notes


def test_formats_may_be_mixed_and_parquet_may_have_numbers_of_other_kinds(tmp_path, mine):
    world = read_world(mine)
    put(mine, rewards_csv=None, allowed_csv=None)
    pl.DataFrame({"low": [True, True], "high": [False, True]}).write_parquet(
        mine / "allowed.parquet"
    )
    pl.DataFrame({"low": [0.2, 0.3], "high": [1, 0]}).write_parquet(mine / "rewards.parquet")
    again = read_world(mine)
    assert again.tables.rewards.tolist() == [[0.2, 1.0], [0.3, 0.0]]
    assert np.array_equal(again.tables.allowed, world.tables.allowed)


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff"), max_size=8)
WORD = TEXT.filter(bool)
IDS = st.one_of(st.integers(-(2**53), 2**53), st.integers(0, 9).map(str), WORD)
REWARD = st.floats(0.0, 1.0)
NUMBER = st.floats(-1e6, 1e6)


@st.composite
def schemas(draw):
    features = []
    for name in draw(st.lists(WORD.filter(lambda x: x != "label"), min_size=1, max_size=3)):
        kind = draw(st.integers(0, 3))
        words = draw(st.lists(WORD, min_size=1, max_size=3, unique=True))
        low = draw(st.floats(-1e9, 1e9))
        features.append(
            [
                Number(name, low, low + 1e6),
                Flag(name, missing=True),
                Category(name, words),
                Labels(name, words, missing=words[:1]),
            ][kind]
        )
    try:
        return Schema(features)
    except InvalidValue:  # two of the same name
        return Schema(features[:1])


@st.composite
def worlds(draw):
    schema = draw(schemas())
    ids = draw(st.lists(IDS, min_size=1, max_size=4, unique_by=str))
    M, d, K = draw(st.integers(1, 4)), schema.width, len(ids)

    def table(cell, width):
        row = st.lists(cell, min_size=width, max_size=width)
        return draw(st.lists(row, min_size=M, max_size=M))

    groups = draw(st.lists(WORD, max_size=3, unique=True))
    arms = [
        Arm(id, draw(TEXT), draw(st.sampled_from([None, *groups])) if groups else None)
        for id in ids
    ]
    denied = None
    if groups and draw(st.booleans()):
        denied = np.array(draw(st.lists(st.booleans(), min_size=d, max_size=d)))
        denied = np.tile(denied, (len(groups), 1))
        denied[0] = ~denied[0]
    return World(
        name=draw(WORD),
        origin=Origin(
            title=draw(TEXT),
            synthetic=draw(st.booleans()),
            about=draw(TEXT),
            url=draw(TEXT),
            licence=draw(TEXT),
            notes=tuple(draw(st.lists(TEXT, max_size=2))),
        ),
        tables=Tables(table(NUMBER, d), table(REWARD, K), table(st.booleans(), K)),
        schema=schema,
        arms=tuple(arms),
        labels=tuple(draw(st.lists(TEXT, min_size=M, max_size=M))) if draw(st.booleans()) else (),
        groups=tuple(groups),
        denied=denied,
        reward_unit=draw(TEXT),
    )


@settings(max_examples=100)
@given(worlds(), st.sampled_from(["csv", "parquet"]))
def test_what_was_written_is_read_back_to_the_bit(world, format):
    with TemporaryDirectory() as there:
        again = read_world(write_world(world, Path(there, "it"), format=format))
        assert sorted(path.name for path in Path(there).iterdir()) == ["it"]
        # And again: nothing changes on the way, how often so ever.
        third = read_world(write_world(again, Path(there, "more"), format=format))
        assert replace(third.origin, files={}) == replace(again.origin, files={})
    same(world, again)
    same(world, third)
    one, two = world.origin, again.origin
    for name in ("title", "synthetic", "about", "url", "licence"):
        assert getattr(one, name) == getattr(two, name)
    assert two.notes[: len(one.notes)] == one.notes
    assert len(two.files) == 5


def test_a_folder_that_is_there_and_empty_is_taken(tmp_path, mine):
    (tmp_path / "empty").mkdir()
    written = write_world(read_world(mine), tmp_path / "empty")
    assert written == tmp_path / "empty"
    # Others may read what was written, as they may read the rest.
    assert written.stat().st_mode == mine.stat().st_mode
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "mine"]


def test_what_the_data_were_made_from_is_kept_as_a_note(tmp_path):
    origin = Origin(title="T", synthetic=False, files={"ratings.csv": "ab12"}, notes=("N",))
    world = World.from_tables([[1.0]], [[1.0]], [[1]], origin=origin)
    first = read_world(write_world(world, tmp_path / "a"))
    assert first.origin.notes == ("N", "Made from ratings.csv (sha256 ab12).")
    second = read_world(write_world(first, tmp_path / "b"))
    assert second.origin.notes == first.origin.notes


# --- what goes wrong ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("contexts", "label,age,smoker\nAnn,0.25,1\n", r"rewards.csv has 2 rows, but contexts.csv"),
        ("rewards", REWARDS + "0,0\n", "rewards.csv has 3 rows, but contexts.csv has 2"),
        ("allowed", "low,high\n1,1\n", "allowed.csv has 1 rows, but contexts.csv has 2"),
        ("allowed", "low,mid\n1,0\n1,1\n", "allowed.csv: the column 'mid' is not in rewards.csv"),
        ("allowed", "low\n1\n1\n", "allowed.csv: has no column 'high', which is in rewards.csv"),
        (
            "rewards",
            "low,high\n0.2,0.9\n0.3,1.5\n",
            r"rewards.csv, row 2, column 'high': must be "
            r"a number in \[0, 1\]. Got '1.5' instead",
        ),
        ("rewards", "low,high\n-1e-9,0.9\n0.3,1\n", "rewards.csv, row 1, column 'low'.*'-1e-09'"),
        ("rewards", "low,high\n0.2,0.9\nmuch,1\n", "row 2, column 'low': must be a number. Got"),
        ("rewards", "low,high\n0.2,\n0.3,1\n", "row 1, column 'high': must be a number. Got ''"),
        ("rewards", "low,high\n0.2,nan\n0.3,1\n", "row 1, column 'high'.*Got 'nan'"),
        ("rewards", "low,high\n0.2,0_1\n0.3,1\n", "row 1, column 'high'.*Got '0_1'"),
        ("contexts", "age\n1\n1e7\n", r"contexts.csv, row 2, column 'age'.*\[-1e\+06, 1e\+06\]"),
        ("contexts", "age\n1\ninf\n", "contexts.csv, row 2, column 'age'.*Got 'inf'"),
        ("allowed", "low,high\n1,0\n2,1\n", "allowed.csv, row 2, column 'low': must be 0 or 1"),
        ("allowed", "low,high\n1,yes\n1,1\n", "allowed.csv, row 1, column 'high'.*Got 'yes'"),
        ("allowed", "low,high\n1,0.5\n1,1\n", "allowed.csv, row 1, column 'high': must be 0 or 1"),
        ("rewards", "", "rewards.csv is empty"),
        ("rewards", " \n\n", "rewards.csv is empty"),
        ("rewards", "low,high\n", "rewards.csv has no rows"),
        ("contexts", "label\nAnn\nBob\n", "contexts.csv has no columns of numbers"),
        ("rewards", REWARDS[:-1], "rewards.csv: the last row has no line break.*cut off"),
        ("rewards", REWARDS[:-5] + "\n", "rewards.csv, row 2: has 1 values for 2 columns"),
        ("rewards", "low,high\n0.2,0.9\n\n0.3,1\n", "row 2: has 0 values for 2 columns"),
        ("rewards", REWARDS + "0.3,0.1,0.5\n", "row 3: has 3 values for 2 columns"),
        ("contexts", 'label,age\nAnn,1\n"Bob,2\n', "contexts.csv, after row 1: unexpected end"),
        ("contexts", b"label,age\nAnn\xe9,1\n", "contexts.csv is not UTF-8.*Save it as UTF-8"),
        ("rewards", "low,low\n0.2,0.9\n0.3,0.1\n", "rewards.csv: 2 columns are called 'low'"),
        ("contexts", "age,age\n1,2\n1,2\n", "contexts.csv: 2 columns are called 'age'"),
        ("contexts", "age,\n1,2\n1,2\n", "contexts.csv: column 2 has no name"),
        ("contexts", "age,label\n1,2\n1,2\n", "contexts.csv: column 2 is called 'label'; only the"),
        ("contexts", f"{'a' * 201}\n1\n2\n", "contexts.csv, header: The 'name' parameter"),
        ("contexts", f"label,a\n{'a' * 1001},1\nBob,2\n", "row 1, column 'label'.*at most 1,000"),
        ("rewards", f"{'a' * 201},b\n1,1\n1,1\n", "rewards.csv, header: The 'id' parameter of Arm"),
        ("arms", ARMS + "low,again,doses\n", "arms.csv, row 3, column 'arm'.*Got 'low'"),
        ("arms", ARMS + "mid,mid,doses\n", "arms.csv: the arm 'mid' is not in rewards.csv"),
        ("arms", "arm,label,group\nlow,,\n", "arms.csv: has no arm 'high', which is in"),
        ("arms", "label,group\nlow,doses\n", "arms.csv: its columns must be arm, label and group"),
        ("arms", "arm,colour\nlow,red\n", "arms.csv: its columns must be"),
        ("arms", f"arm,label\nlow,{'a' * 201}\n", "arms.csv, row 1: The 'label' parameter of Arm"),
        ("arms", "\n", "arms.csv is empty"),
        ("rewards", b"\xef\xbb\xbf\n", "rewards.csv has no columns of numbers"),
    ],
)
def test_bad_tables(mine, name, text, message):
    put(mine, **{f"{name}_csv": text})
    with pytest.raises(CorruptState, match=message) as error:
        read_world(mine)
    assert str(mine) in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"nam": "x"}', "world.json: there is no key 'nam'. Did you mean 'name'"),
        ('{"name": 5}', "world.json, 'name': must be a text. Got 5"),
        ('{"synthetic": 1}', "'synthetic': must be true or false"),
        ('{"notes": "one"}', "'notes': must be a list of"),
        ('{"groups": ["doses", "doses"]}', "'groups': must be a list of distinct texts"),
        ('{"groups": ["dose"]}', "'groups': has no 'doses', the group of arm 'low'. Did you mean"),
        ('{"text_ids": [1]}', "'text_ids': must be"),
        ('{"version": 2}', "'version': must be 1"),
        ('{"version": true}', "'version': must be 1"),
        ('{"name": "a", "name": "b"}', "world.json is not JSON .* a key stands twice"),
        ('{"name": ', "world.json is not JSON that can be read"),
        ("[" * 100_000, "world.json is not JSON that can be read"),
        ("[]", "world.json must be an object"),
        ("", "world.json is empty"),
        ('{"features": 5}', "world.json, 'features': The 'data' parameter"),
        ('{"features": [{"kind": "wheel"}]}', "world.json, 'features': The 'kind' parameter"),
        ('{"features": [{"kind": "flag", "name": "age"}]}', "column 'smoker' is not in the feat"),
        ('{"denied": [[0, 2]]}', "'denied': must be lists of 2 times 0 or 1, for each of 1 groups"),
        ('{"denied": [[0]]}', "'denied': must be lists"),
        ('{"denied": [[0, 1], [0, 1]]}', "'denied': must be lists"),
        ('{"denied": 1}', "'denied': must be lists"),
        ('{"denied": [[0, 0.0]]}', "'denied': must be lists"),
        ('{"denied": []}', "'denied': must be lists"),
    ],
)
def test_a_bad_world_json(mine, text, message):
    (mine / "world.json").write_text(text)
    with pytest.raises(CorruptState, match=message):
        read_world(mine)


@pytest.mark.parametrize("name", ["contexts", "rewards", "allowed"])
def test_a_file_that_is_missing_or_there_twice(mine, name):
    table = pl.read_csv(mine / f"{name}.csv")
    table.write_parquet(mine / f"{name}.parquet")
    with pytest.raises(NotPossible, match=f"has both {name}.csv and {name}.parquet. Remove one"):
        read_world(mine)
    (mine / f"{name}.parquet").unlink()
    (mine / f"{name}.csv").unlink()
    with pytest.raises(NotPossible, match=rf"There is no {name}.csv \(or {name}.parquet\) in"):
        read_world(mine)
    (mine / f"{name}.csv").mkdir()
    with pytest.raises(NotPossible, match=f"{name}.csv cannot be read: Is a directory"):
        read_world(mine)


def test_no_folder(mine):
    for path in (mine / "no", mine / "arms.csv"):
        with pytest.raises(NotPossible, match="There is no folder"):
            read_world(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"low": [0.1, None], "high": [0.1, 0.2]}, "row 2, column 'low'.*Got 'None'"),
        ({"low": ["a", "b"], "high": [0.1, 0.2]}, "row 1, column 'low': must be a number, not Str"),
        ({"low": [0.5, 7.0], "high": [0.1, 0.2]}, r"row 2, column 'low'.*in \[0, 1\]"),
        ({"low": [], "high": []}, "must be a number, not Null|has no rows"),
        ({}, "has no columns of numbers|not a parquet file"),
    ],
)
def test_bad_parquet(mine, columns, message):
    put(mine, rewards_csv=None)
    pl.DataFrame(columns).write_parquet(mine / "rewards.parquet")
    with pytest.raises(CorruptState, match=message) as error:
        read_world(mine)
    assert "rewards.parquet" in str(error.value)


def test_labels_in_parquet_are_texts(mine):
    put(mine, contexts_csv=None)
    pl.DataFrame({"label": [1, 2], "age": [0.1, 0.2]}).write_parquet(mine / "contexts.parquet")
    with pytest.raises(CorruptState, match="row 1, column 'label': must be a text, not Int64"):
        read_world(mine)


def test_a_damaged_parquet_is_an_error_with_its_name(tmp_path, mine):
    whole = write_world(read_world(mine), tmp_path / "whole", format="parquet")
    data = (whole / "contexts.parquet").read_bytes()
    cuts = [data[:cut] for cut in range(1, len(data), 37)]
    # Bytes changed in the middle: a checksum is not part of the format, so some can be read.
    flips = [data[:i] + bytes([data[i] ^ 255]) + data[i + 1 :] for i in range(4, len(data), 41)]
    refused = 0
    for broken in cuts + flips:
        (whole / "contexts.parquet").write_bytes(broken)
        try:
            read_world(whole)
        except (CorruptState, LimitReached) as error:
            assert "contexts.parquet" in str(error)
            refused += 1
    assert refused >= len(cuts)


def test_sizes_are_limited(mine, monkeypatch):
    parquet = mine.parent / "parquet"
    write_world(read_world(mine), parquet, format="parquet")
    for name, limit, message in (
        ("MAX_ROWS", 1, r"The limit of 1 rows in .*contexts\.(csv|parquet)"),
        ("MAX_COLUMNS", 2, "The limit of 2 columns in "),
        ("MAX_CELLS", 3, "The limit of 3 cells in "),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(tablefiles, name, limit)
            for folder in (mine, parquet):
                with pytest.raises(LimitReached, match=message):
                    read_world(folder)
    monkeypatch.setattr(files, "MAX_JSON", 10)
    with pytest.raises(LimitReached, match=r"The limit of 10 bytes in .*world\.json"):
        read_world(parquet)


def test_what_the_layout_cannot_hold_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    plain = World.from_tables([[1.0]], [[1.0]], [[1]])

    def refused(kind: type[Exception], message: str, format: str = "csv", **changed: object):
        parts = {name: getattr(plain, name) for name in plain.__dataclass_fields__}
        with pytest.raises(kind, match=message):
            write_world(World(**(parts | changed)), tmp_path / "it", format=format)
        assert [*tmp_path.iterdir()] == []

    refused(InvalidValue, "without a column 'label'", schema=Schema([Number("label")]))
    refused(InvalidValue, "'format' parameter of write_world", format="xml")
    refused(NotPossible, "cannot be written in this layout.*surrogates", labels=("\ud800",))
    refused(NotPossible, "/it/contexts.csv, row 1, column 'label'", labels=("a" * 2_000,))
    refused(NotPossible, "does not read back as it was", labels=(5,))
    refused(NotPossible, "has no 'g'", arms=(Arm(0, "", "g"),), groups=("h",))
    refused(NotPossible, "'denied'", denied=np.ones((2, 1), np.bool_), groups=("h",))
    twice = Tables([[1.0]], [[1.0, 1.0]], [[1, 1]])
    refused(InvalidValue, "of ids that read differently", tables=twice, arms=(Arm(3), Arm("3")))
    monkeypatch.setitem(sys.modules, "polars", None)
    refused(NotPossible, r"Parquet needs polars: pip install \./studies", format="parquet")


def test_csv_needs_no_polars(tmp_path, mine, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    world = read_world(mine)
    same(world, read_world(write_world(world, tmp_path / "again")))


def test_a_folder_with_something_in_it_is_left_alone(tmp_path, mine):
    before = {path: path.read_bytes() for path in mine.iterdir()}
    for target in (mine, mine / "arms.csv"):
        with pytest.raises(NotPossible, match="is there already"):
            write_world(read_world(mine), target)
    assert {path: path.read_bytes() for path in mine.iterdir()} == before
    with pytest.raises(NotPossible, match="cannot be written"):
        write_world(read_world(mine), mine / "arms.csv" / "deeper")
