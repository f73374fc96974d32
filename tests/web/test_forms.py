from __future__ import annotations

import pytest

from bridle.schema import Category, Flag, Labels, Number, Schema
from bridle.server.problems import Problem
from bridle.web.forms import Field, Fields, context_from, fields_of, is_given

SCHEMA = Schema(
    [
        Number("age", 0, 120, unit="years"),
        Number("speed"),
        Number("load", 0, 1, clip=True, missing=0.5),
        Flag("late"),
        Flag("asleep", missing=True),
        Category("sky", ["clear", "cloudy"]),
        Category("wind", ["north", "south"], missing=()),
        Labels("genres", ["Drama", "Horror", "a, b"]),
        Labels("tags", [f"tag {n}" for n in range(100)], missing=["tag 3"]),
    ]
)
CONTEXT: dict[str, object] = {
    "age": 33.25,
    "speed": -7.0,
    "load": 0.25,
    "late": True,
    "asleep": False,
    "sky": "cloudy",
    "wind": "south",
    "genres": ["Drama", "a, b"],
    "tags": ["tag 7", "tag 99"],
}


def sent(fields: list[Field]) -> Fields:
    """What a browser sends of a form."""
    pairs = [("f.", "1")]
    for field in fields:
        if field.kind == "number":
            pairs.append((field.name, field.value))
        chosen = [one.value for one in field.options if one.chosen]
        if field.kind in ("flag", "category") and not chosen:
            chosen = [field.options[0].value]
        pairs += [(field.name, value) for value in chosen]
    return Fields(pairs)


def test_a_context_comes_back_as_it_went_in():
    given = sent(fields_of(SCHEMA, CONTEXT))
    assert is_given(given)
    assert context_from(SCHEMA, given) == CONTEXT
    again = context_from(SCHEMA, sent(fields_of(SCHEMA, given)))
    assert again == CONTEXT


def test_a_form_that_nobody_filled_in_is_a_context_too():
    context = context_from(SCHEMA, sent(fields_of(SCHEMA)))
    assert "load" not in context and "wind" not in context  # the schema says what is taken
    assert context["asleep"] is True and context["tags"] == ["tag 3"]
    row = SCHEMA.decode(SCHEMA.encode(context))
    assert row["age"] == 0 and row["load"] == 0.5 and row["sky"] == "clear" and row["wind"] is None


def test_kinds_and_hints():
    by = {field.label: field for field in fields_of(SCHEMA)}
    assert [field.kind for field in by.values()] == [
        "number",
        "number",
        "number",
        "flag",
        "flag",
        "category",
        "category",
        "labels",
        "many",
    ]
    assert (by["age"].low, by["age"].high, by["age"].hint) == ("0", "120", "0 to 120 years")
    assert by["load"].low == "" and "empty: taken as 0.5" in by["load"].hint
    assert by["sky"].required and not by["wind"].required
    assert by["wind"].options[0].text == "Not known"


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("age", ["abc"], "a number from 0 to 120, not 'abc'"),
        ("age", ["1,5"], "not '1,5'"),  # or is it a thousand and five hundred?
        ("age", ["121"], "a number from 0 to 120"),
        ("age", ["nan"], "a number from 0 to 120"),
        ("age", [""], "Say what 'age' is"),
        ("age", [], "Say what 'age' is"),
        ("speed", ["inf"], "a number from -1,000,000 to"),
        ("load", ["1e999"], "a number from 0 to 1"),
        ("late", ["maybe"], "say yes or no"),
        ("sky", ["<b>"], "'sky' is never '<b>'"),
        ("genres", ["Drama", "Nothing"], "'genres' is never 'Nothing'"),
    ],
)
def test_what_is_wrong_is_named_and_kept(name, values, says):
    pairs = [pair for pair in sent(fields_of(SCHEMA, CONTEXT)) if pair[0] != f"f.{name}"]
    given = Fields([*pairs, *((f"f.{name}", value) for value in values)])
    with pytest.raises(Problem) as caught:
        context_from(SCHEMA, given)
    assert caught.value.field == name and says in caught.value.message
    if name == "age" and values:
        assert next(f for f in fields_of(SCHEMA, given) if f.label == "age").value == values[0]


def test_what_may_be_left_open_and_what_is_cut():
    pairs = sent(fields_of(SCHEMA, CONTEXT))
    given = [(n, "" if n in ("f.load", "f.wind") else v) for n, v in pairs]
    context = context_from(SCHEMA, Fields(given))
    assert "load" not in context and "wind" not in context
    beyond = [(n, "7" if n == "f.load" else v) for n, v in pairs]
    assert SCHEMA.decode(SCHEMA.encode(context_from(SCHEMA, Fields(beyond))))["load"] == 1.0


def test_a_form_has_an_end():
    wide = Schema.plain(1_000, 2.0, 4.0)
    fields = fields_of(wide)
    assert len(fields) == 200
    context = context_from(wide, Fields([*sent(fields), ("f.x900", "3")]))
    row = wide.decode(wide.encode(context))
    assert row["x0"] == 2 and row["x900"] == 3 and row["x999"] == 2
