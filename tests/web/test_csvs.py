from __future__ import annotations

import pytest

from bridle.agent.config import Arm
from bridle.schema import Category, Flag, Labels, Number, Schema
from bridle.web import csvs
from bridle.web.csvs import BadCsv, read_contexts, read_examples, written

SCHEMA = Schema(
    [
        Labels("genres", ["Drama", "Horror", "Sci|Fi"]),
        Category("age", ["12-17", "18+"], missing=()),
        Flag("late"),
        Number("score", 0, 10, missing=5),
    ]
)
ARMS = [Arm("night", "The Long Night"), Arm(7, "Fog"), Arm(8, "Fog"), Arm("fog 9", "Mist")]


def wrongs(text, schema=SCHEMA, arms=None):
    with pytest.raises(BadCsv) as caught:
        if arms is None:
            read_contexts(schema, text)
        else:
            read_examples(schema, arms, text)
    assert caught.value.status == 422
    return caught.value.wrongs


def test_contexts_of_every_kind_of_feature():
    text = (
        "genres,age,late,score\n"
        "Drama|Horror,12-17,yes,3.5\n"
        "\n"
        "Drama; Horror,18+,FALSE,\n"
        ",,1,0\n"
        "Sci|Fi,12-17,0,10\n"
    )
    found = read_contexts(SCHEMA, text)
    assert found == [
        {"genres": ["Drama", "Horror"], "age": "12-17", "late": True, "score": 3.5},
        {"genres": ["Drama", "Horror"], "age": "18+", "late": False, "score": None},
        {"genres": [], "age": None, "late": True, "score": 0.0},
        {"genres": ["Sci|Fi"], "age": "12-17", "late": False, "score": 10.0},
    ]
    assert SCHEMA.encode_many(found).shape == (4, 7)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_what_parts_the_cells(mark):
    text = "\ufeff" + "\r\n".join(mark.join(row) for row in (["late", "genres"], ["no", '"a;b"']))
    schema = Schema([Labels("genres", ["a", "b"]), Flag("late")])
    assert read_contexts(schema, text) == [{"late": False, "genres": ["a", "b"]}]


def test_columns_that_may_be_left_out():
    assert read_contexts(SCHEMA, "late,genres\nyes,Drama") == [{"late": True, "genres": ["Drama"]}]
    labels = Schema([Labels("genres", ["a", "b"], missing=("b",)), Flag("late")])
    found = read_contexts(labels, "late,genres\nno,")
    assert labels.decode(labels.encode(found[0])) == {"genres": ("b",), "late": False}


def test_examples_name_arms_by_id_or_label():
    text = "genres,late,arm,allowed\nDrama,no,7,yes\nHorror,no,The Long Night,Not allowed"
    first, second = read_examples(SCHEMA, ARMS, text)
    assert (first.line, first.arm, first.allowed) == (2, 7, True)
    assert (second.line, second.arm, second.allowed) == (3, "night", False)
    assert second.context == {"genres": ["Horror"], "late": False}


def test_a_feature_may_be_called_arm():
    schema = Schema([Flag("arm"), Flag("allowed")])
    assert csvs.example_columns(schema) == ["arm", "allowed", "arm_", "allowed_"]
    row = read_examples(schema, [Arm("x")], "arm,allowed,arm_,allowed_\nyes,no,x,1")[0]
    assert row.context == {"arm": True, "allowed": False} and row.arm == "x" and row.allowed


def test_what_is_wrong_is_named_by_line_and_column():
    text = (
        'genres,age,late,score\n"a\nb",12-17,yes,1\nDrama,teen,yes,1\nDrama,18+,perhaps,1\n'
        "Drama,18+,,1\nDrama,18+,no,many\nDrama,18+,no,11\nDrama,18+,no,nan\n"
    )
    found = wrongs(text)
    assert [one.split(":")[0] for one in found] == [
        "Line 2, column 'genres'",
        "Line 4, column 'age'",
        "Line 5, column 'late'",
        "Line 6, column 'late'",
        "Line 7, column 'score'",
        "Line 8, column 'score'",
        "Line 9, column 'score'",
    ]
    assert "'teen' is not one of its words" in found[1] and "12-17" in found[1]
    assert "neither yes nor no" in found[2] and "it is empty" in found[3]
    assert "11.0 is not a number from 0 to 10." in found[5]


def test_wrong_arms_and_answers():
    found = wrongs(
        "genres,late,arm,allowed\nDrama,no,Fog,yes\nDrama,no,nihgt,yes\nDrama,no,7,maybe\n",
        arms=ARMS,
    )
    assert "2 arms are called 'Fog'. Write the id: 7, 8." in found[0]
    assert "Did you mean 'night'" in found[1]
    assert "Line 4, column 'allowed'" in found[2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no line below"),
        ("late,genres\n\n", "no line below"),
        ("late,genre\nno,Drama", "Did you mean 'genres'"),
        ("genres\nDrama", "There is no column 'late'"),
        ("late,genres,late\nno,Drama,no", "two columns are called 'late'"),
        ("late,,genres\nno,x,Drama", "column 2 has no name"),
        ("late,genres\nno,Drama,more", "Line 2 has 3 cells, not 2"),
        ("late,genres\nno", "Line 2 has 1 cells"),
        ('late,genres\nno,"' + "x" * 200_000, "Line 2 is no csv"),
    ],
)
def test_what_is_no_csv_of_contexts(text, said):
    assert said in " ".join(wrongs(text))


def test_there_are_limits(monkeypatch):
    monkeypatch.setattr(csvs, "MAX_ROWS", 3)
    good = "late,genres\n" + "no,Drama\n" * 3
    assert len(read_contexts(SCHEMA, good)) == 3
    assert "more than 3 lines" in wrongs(good + "no,Drama\n")[0]
    assert len(wrongs("late,genres\n" + "x,y\n" * 3)) == 6
    monkeypatch.undo()
    assert len(wrongs("late,genres\n" + "x,y\n" * 300)) == csvs.MOST_WRONGS
    assert len(wrongs("late,genres\n" + "x\n" * 300)) == csvs.MOST_WRONGS


def test_empty_columns_of_a_spreadsheet():
    assert len(read_contexts(SCHEMA, "late,genres,,\nno,Drama,,\n,,,\n")) == 1


def test_no_cell_is_a_formula_and_what_is_written_is_read():
    schema = Schema([Labels("genres", ["=1+1", "-x"]), Number("n")])
    rows = [["genres", "n"], [["=1+1", "-x"], -0.5], [["-x"], 2]]
    text = written(rows)
    assert all(not line.startswith(csvs.FORMULA) for line in text.splitlines())
    assert read_contexts(schema, text) == [
        {"genres": ["=1+1", "-x"], "n": -0.5},
        {"genres": ["-x"], "n": 2.0},
    ]
    assert csvs.plain_cell(2.0) == "2" and csvs.plain_cell(0.25) == "0.25"
    assert csvs.plain_cell(None) == "" and csvs.plain_cell(False) == "no"


def test_many_columns_are_refused_at_once():
    names = ",".join(f"c{n}" for n in range(csvs.MAX_COLUMNS + 1))
    [said] = wrongs(f"{names}\n{names}\n")
    assert "names 2,001 columns. At most 2,000 are read." in said
    twice = ",".join([*(f"c{n}" for n in range(1_000)), "c7"])
    assert wrongs(f"{twice}\n{twice}\n") == ["Line 1: two columns are called 'c7'."]
