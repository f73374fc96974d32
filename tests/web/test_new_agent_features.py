from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.server.problems import Problem
from bridle.web import new_agent
from bridle.web.csvs import read_lines
from bridle.web.new_agent import proposed, read_arms, read_features, written_feature


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("flag with a child", {"kind": "flag", "name": "with a child"}),
        ("FLAG late?", {"kind": "flag", "name": "late", "missing": False}),
        ("number x", {"kind": "number", "name": "x"}),
        ("number t -1.5 2e3", {"kind": "number", "name": "t", "low": -1.5, "high": 2_000.0}),
        (
            "number age? 0 to 100 years old",
            {
                "kind": "number",
                "name": "age",
                "low": 0.0,
                "high": 100.0,
                "unit": "years old",
                "missing": 50.0,
            },
        ),
        ('number "room 1 2" 0 5', {"kind": "number", "name": "room 1 2", "low": 0.0, "high": 5.0}),
        (
            'labels g?: "a, b", c',
            {"kind": "labels", "name": "g", "values": ["a, b", "c"], "missing": []},
        ),
        ('category "a: b": x', {"kind": "category", "name": "a: b", "values": ["x"]}),
    ],
)
def test_a_line(line, wanted):
    assert read_features(line) == [wanted]


@pytest.mark.parametrize(
    "line",
    [
        "flag",
        "late",
        "colour x",
        "category age",
        "category age:",
        "category age: a,,b",
        "category : a",
        "number x? ",
        "flag ?",
        'flag "a" b',
        'number "a" 5',
        'labels "g" a, b',
        "labels g: " + "x" * 200_000,
    ],
)
def test_a_line_that_is_none(line):
    with pytest.raises(Problem, match="Line 2 of the features"):
        read_features(f"flag fine\n{line}")


def test_not_more_wrongs_than_a_person_reads():
    with pytest.raises(Problem) as raised:
        read_features("wrong\n" * 50)
    assert raised.value.message.count("Line") == 10


def test_arms():
    assert read_arms("a\n\nb,,G\n'7', Seven") == [
        {"id": "a"},
        {"id": "b", "group": "G"},
        {"id": "'7'", "label": "Seven"},
    ]
    with pytest.raises(Problem, match="Line 1 of the choices"):
        read_arms(",label")


WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters='"'),
    min_size=1,
    max_size=8,
)
FLOATS = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


@given(
    st.lists(WORDS, min_size=1, max_size=3).map(" ".join),
    st.one_of(
        st.just({"kind": "flag"}),
        st.just({"kind": "flag", "missing": False}),
        st.just({"kind": "number"}),
        st.lists(WORDS, min_size=1, max_size=4).map(lambda v: {"kind": "category", "values": v}),
        st.lists(WORDS, min_size=1).map(lambda v: {"kind": "labels", "values": v, "missing": []}),
        FLOATS.map(lambda x: {"kind": "number", "low": x, "high": x + 1.0}),
    ),
)
def test_what_is_written_is_read_back(name, rest):
    feature = {"kind": rest["kind"], "name": name} | rest
    assert read_features(written_feature(feature)) == [feature]


def test_a_name_that_cannot_be_written_is_not_read_as_another():
    line = written_feature({"kind": "flag", "name": '"so" they say'})
    assert read_features(line) == [{"kind": "flag", "name": "'so' they say"}]
    long = written_feature({"kind": "flag", "name": "x" * 300})
    with pytest.raises(Problem, match="longer than 200"):
        read_features(long)


def of(text: str) -> list[str]:
    return list(proposed(read_lines(text)).features)


def test_what_columns_suggest():
    assert of("a,b\nyes,1\nNO,0\n") == ["flag a", "flag b"]
    assert of("a\n1.25\n\n-3\n") == ["number a -3 1.3"]
    assert of("a,b\n1.25,x\n,x\n3,y\n") == ["number a? 1.2 3", "category b: x, y"]
    assert of("a\n7\n7\n") == ["number a 7 8"]
    assert of("a\n65+\n18-24\n8-9\n") == ["category a: 8-9, 18-24, 65+"]
    assert of("a,b\nx|y,1\n,0\nz,0\n") == ["labels a: x, y, z", "flag b"]
    assert of("a b? c\nyes\nno\n") == ["flag a b? c"]


def test_a_number_is_no_word_and_the_end_of_all_numbers_neither():
    assert of("a\n1e400\n2\n") == ["category a: 2, 1e400"]
    assert of("a\nnan\n2\n") == ["category a: 2, nan"]


def test_too_many_words():
    many = "a\n" + "".join(f"w{n}|v{n}\n" for n in range(600))
    assert proposed(read_lines(many)).notes == (
        "The column 'a' holds more than 1,000 words: left out.",
    )
    often = "a\n" + "".join(f"w{n % 40}\n" for n in range(100))
    assert of(often)[0].startswith("category a: w0, ")
    rarely = "a\n" + "".join(f"w{n}\n" for n in range(20))
    assert not of(rarely)


@pytest.mark.parametrize(
    "line",
    ["number a" + " " * 20_000 + "x", "number " + "1 " * 20_000 + "x", "flag " + "x" * 1_000],
)
def test_a_line_that_is_too_long(line):
    with pytest.raises(Problem, match="at most 1,000 are read"):
        read_features(line)


def test_a_name_is_parted_from_its_numbers_in_one_go(monkeypatch):
    monkeypatch.setattr(new_agent, "LONGEST_LINE", 10**7)
    with pytest.raises(Problem, match="longer than 200"):
        # Each space tried as an end of the name, and all after it again, this would take hours.
        read_features("number a" + " " * 1_000_000 + "x")
    assert read_features("number a   b  1   to  2  x y")[0]["name"] == "a   b"
    assert read_features("number to 1 2")[0] == {
        "kind": "number",
        "name": "to",
        "low": 1.0,
        "high": 2.0,
    }


def test_a_list_of_words_may_be_long():
    words = [f"word {n}" for n in range(900)]
    assert read_features("labels g: " + ", ".join(words))[0]["values"] == words


def test_too_many_lines():
    with pytest.raises(Problem, match="At most 2,000 are read"):
        read_features("flag x\n" * 2_001)
    with pytest.raises(Problem, match="At most 20,000 are read"):
        read_arms("x\n" * 20_001)
