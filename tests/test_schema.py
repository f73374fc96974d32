"""Features and schemas: what is accepted, what is refused, and that the bits agree."""

from __future__ import annotations

import copy
import json
import math
from collections import ChainMap, OrderedDict
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bridle.errors import InvalidValue
from bridle.schema import MAX_WIDTH, Category, Flag, Id, Labels, Number, Schema, known

GENRES = ("Comedy", "Drama", "Horror", "Thriller")
MIXED = Schema(
    [
        Number("age", low=18, high=89),
        Flag("smoker"),
        Category("sky", ["clear", "cloudy"], missing=()),
        Labels("genres", GENRES, missing=("Drama",)),
    ]
)

finite = st.floats(-1e6, 1e6)
names = st.text(min_size=1, max_size=8)
units = st.none() | st.text(min_size=1, max_size=40)
word_lists = st.lists(names, min_size=1, max_size=6, unique=True)


def bits(array):
    return np.ascontiguousarray(array).tobytes()


def refused(call, given, *parts):
    """The call raises InvalidValue, in the one form, with these parts in its message."""
    with pytest.raises(InvalidValue) as caught:
        call(given)
    message = str(caught.value)
    assert message.startswith("The '") and " must be " in message and " instead." in message
    for part in parts:
        assert part in message
    return caught.value


@st.composite
def ranges(draw):
    low = draw(st.floats(-1e9, 1e9))
    high = draw(st.floats(-1e9, 1e9))
    assume(low < high)
    return low, high


@st.composite
def numbers(draw, name="x"):
    if draw(st.booleans()):
        missing = draw(st.none() | finite)
        return Number(name, missing=missing, unit=draw(units))
    low, high = draw(ranges())
    missing = draw(st.none() | st.floats(low, high))
    return Number(name, low, high, draw(st.booleans()), missing, draw(units))


@st.composite
def features(draw, name):
    kind = draw(st.sampled_from(["number", "flag", "category", "labels"]))
    if kind == "number":
        found = draw(numbers(name))
        optional = found.low is not None and draw(st.booleans())
        return replace(found, optional=True) if optional else found
    if kind == "flag":
        return draw(st.sampled_from([Flag(name, optional=True), Flag(name), Flag(name, True)]))
    values = draw(word_lists)
    if draw(st.booleans()):
        return (Category if kind == "category" else Labels)(name, values, optional=True)
    if kind == "category":
        return Category(name, values, draw(st.none() | st.just(()) | st.sampled_from(values)))
    return Labels(name, values, draw(st.none() | st.lists(st.sampled_from(values))))


@st.composite
def schemas(draw):
    # The index keeps columns apart, whatever the words: "a=b" beside a category "a".
    count = draw(st.integers(1, 5))
    return Schema([draw(features(f"{i}:{draw(names)}")) for i in range(count)])


@st.composite
def value_of(draw, feature):
    if feature.optional and draw(st.booleans()):
        return None
    if isinstance(feature, Number):
        if feature.low is None or feature.clip:
            return draw(finite)
        return draw(st.floats(feature.low, feature.high))
    if isinstance(feature, Flag):
        return draw(st.booleans())
    if isinstance(feature, Category):
        none = [None] if feature.missing == () else [()] if feature.optional else []
        return draw(st.sampled_from([*feature.values, *none]))
    more = [None] if feature.optional else []
    return draw(st.lists(st.sampled_from([*feature.values, *more])))


@st.composite
def schema_and_contexts(draw):
    schema = draw(schemas())
    count = draw(st.integers(0, 4))
    contexts = [{f.name: draw(value_of(f)) for f in schema.features} for _ in range(count)]
    return schema, contexts


# --- encode -------------------------------------------------------------------------------


def test_each_kind_has_its_columns():
    context = {"age": 53.5, "smoker": True, "sky": "cloudy", "genres": {"Horror", "Comedy"}}
    genres = tuple(f"genres={genre}" for genre in GENRES)
    assert MIXED.columns == ("age", "smoker", "sky=clear", "sky=cloudy", *genres)
    assert MIXED.width == 8
    assert MIXED.encode(context).tolist() == [0.5, 1, 0, 1, 1, 0, 1, 0]


def test_views_have_each_feature_with_its_first_column():
    schema = Schema([Id("title"), *MIXED.features, Number("kg")])
    age, smoker, sky, genres, kg = schema.features[1:]
    assert schema.encoded == ((age, 0), (smoker, 1), (sky, 2), (genres, 4), (kg, 8))
    assert schema.numbers == ((age, 0), (kg, 8))
    assert all(schema.place(feature.name) == (feature, at) for feature, at in schema.encoded)
    assert Schema([Flag("x")]).numbers == ()


@pytest.mark.parametrize("make", [dict, OrderedDict, MappingProxyType, ChainMap])
def test_any_mapping_will_do(make):
    context = {"smoker": 0, "age": np.float32(18), "genres": ()}
    assert MIXED.encode(make(context)).tolist() == [0.0] * 8


def test_none_and_an_absent_key_are_missing_alike():
    absent = MIXED.encode({"age": 18, "smoker": 1})
    none = MIXED.encode({"age": 18, "smoker": 1, "sky": None, "genres": None})
    assert absent.tolist() == none.tolist() == [0, 1, 0, 0, 0, 1, 0, 0]
    schema = Schema([Number("a", 0, 10, missing=5), Flag("b", True), Category("c", ["x"], "x")])
    assert schema.encode({}).tolist() == [0.5, 1, 1]


def test_none_of_the_words_is_not_the_same_as_not_given():
    schema: Any = Schema(
        [
            Labels("genres", ["Comedy", "Horror"], optional=True),
            Category("rating", ["G", "R"], optional=True),
            Number("year", 1980, 2020, optional=True, missing=1990),
            Flag("new", optional=True),
        ]
    )
    assert schema.width == 2 + 1 + 2 + 1 + 2 + 2
    assert [(one.name, at) for one, at in schema.optional] == [
        ("genres", 2),
        ("rating", 5),
        ("year", 7),
        ("new", 9),
    ]
    assert schema.columns[2] == "genres unknown"
    assert schema.encode({}).tolist() == [0, 0, 1, 0, 0, 1, 0.25, 1, 0, 1]
    assert schema.decode(schema.encode({})) == dict.fromkeys(("genres", "rating", "year", "new"))
    none = {"genres": (), "rating": (), "year": 1980.0, "new": False}
    assert schema.encode(none).tolist() == [0.0] * 10 and schema.decode([0.0] * 10) == none
    more = schema.encode({"genres": ["Horror", None], "rating": "R"})
    assert more.tolist()[:6] == [0, 1, 1, 0, 1, 0]
    assert schema.decode(more)["genres"] == ("Horror", None)
    assert Schema.from_json(schema.to_json()) == schema
    assert [one.get("optional") for one in Schema([Flag("x")]).to_json()] == [None]
    with pytest.raises(InvalidValue, match="False where there is no range"):
        Number("x", optional=True)
    for made in (Flag, lambda *given, **more: Labels("g", ["a"], *given[1:], **more)):
        with pytest.raises(InvalidValue, match="left out where the feature is optional"):
            made("x", missing=False if made is Flag else (), optional=True)
    with pytest.raises(InvalidValue, match="of distinct names"):
        Schema([Flag("a", optional=True), Flag("a unknown")])
    strict = Schema([Labels("g", ["a"])])
    refused(strict.encode, {"g": [None]}, "'g'", "a set, list or tuple of its values")
    refused(strict.encode, {}, "'g'", "given")


def test_optional_numbers_in_a_list():
    schema: Any = Schema([Number("a", 0, 10, optional=True), Number("b")])
    assert schema.encode([None, 2]).tolist() == [0.5, 1, 2]
    assert schema.encode_many([[10, 2], [None, 3]]).tolist() == [[1, 0, 2], [0.5, 1, 3]]
    assert schema.encode(np.array([10.0, 2.0])).tolist() == [1, 0, 2]


def test_missing_numbers_in_a_list():
    schema: Any = Schema([Number("a", missing=7), Number("b")])
    assert schema.encode([None, 2]).tolist() == [7, 2]
    assert schema.encode(np.array([None, 2], dtype=object)).tolist() == [7, 2]
    refused(schema.encode, [1, None], "'b'", "given")


@given(schema_and_contexts())
def test_encoded_vectors_are_fit_for_the_mathematics(drawn):
    schema, contexts = drawn
    for context in contexts:
        row = schema.encode(context)
        assert row.shape == (schema.width,) == (len(schema.columns),)
        assert row.dtype == np.float64 and row.flags.c_contiguous and row.flags.writeable
        assert np.isfinite(row).all() and not np.signbit(row[row == 0]).any()
        assert (np.abs(row) <= 1e6).all()
    many = schema.encode_many(contexts)
    assert many.shape == (len(contexts), schema.width) and many.dtype == np.float64
    assert bits(many) == b"".join(bits(schema.encode(context)) for context in contexts)
    assert bits(many) == bits(schema.encode_many(tuple(contexts)))


@given(st.data(), st.integers(1, 4), st.integers(0, 5))
def test_arrays_lists_and_mappings_have_the_same_bits(data, width, count):
    schema = Schema([data.draw(numbers(f"x{i}")) for i in range(width)])
    rows = [[data.draw(value_of(f)) for f in schema.features] for _ in range(count)]
    table = np.array(rows, dtype=np.float64).reshape(count, width)
    expected = b"".join(
        bits(schema.encode(dict(zip(schema.columns, row, strict=True)))) for row in rows
    )
    assert b"".join(bits(schema.encode(row)) for row in rows) == expected
    assert b"".join(bits(schema.encode(row)) for row in table) == expected
    backwards = table[:, ::-1].copy()[:, ::-1]
    for many in (table, np.asfortranarray(table), backwards, rows, list(table)):
        encoded = schema.encode_many(many)
        assert encoded.shape == (count, width) and encoded.flags.c_contiguous
        assert bits(encoded) == expected


@given(ranges(), st.floats(0, 1))
def test_a_range_is_scaled_to_the_unit_interval(ends, share):
    low, high = ends
    number = Schema([Number("x", low, high)])
    x = min(max(low + share * (high - low), low), high)
    assert number.encode([low]) == 0 and number.encode([high]) == 1
    assert number.encode([x])[0] == (x - low) / (high - low)
    assert 0 <= number.encode([x])[0] <= 1


def test_minus_zero_is_zero():
    for schema in (Schema.plain(1), Schema.plain(1, 0, 1), Schema.plain(1, -0.0, 1)):
        for context in ([-0.0], np.array([-0.0]), {"x0": -0.0}):
            assert bits(schema.encode(context)) == bits(np.zeros(1))
    assert bits(Schema.plain(2).encode_many(np.array([[-0.0, 1e5]]))) == bits(np.array([[0, 1e5]]))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", "i8", "f2", "f4", "f8", ">f8", "g"])
def test_any_array_of_plain_numbers_will_do(dtype):
    for schema in (Schema.plain(2), Schema.plain(2, 0, 4)):
        array = np.array([1, 3], dtype=dtype)
        assert bits(schema.encode(array)) == bits(schema.encode([1.0, 3.0]))
        assert bits(schema.encode_many(array[np.newaxis])) == bits(schema.encode([1.0, 3.0]))
        assert bits(schema.encode(list(array))) == bits(schema.encode({"x0": Fraction(1), "x1": 3}))


def test_the_array_given_is_not_the_array_returned():
    array = np.ones(2)
    for schema in (Schema.plain(2), Schema.plain(2, 0, 4)):
        schema.encode(array)[0] = 9
        schema.encode_many(array[np.newaxis])[0, 0] = 9
    assert array.tolist() == [1, 1]


def test_masked_entries_are_missing_and_not_what_is_below_the_mask():
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    refused(Schema.plain(2).encode, masked, "'x1'", "given")


def test_clip_takes_the_nearer_end():
    schema = Schema([Number("x", 0, 10, clip=True), Number("y", 0, 10)])
    assert schema.encode({"x": 99, "y": 5}).tolist() == [1, 0.5]
    assert schema.encode(np.array([-99.0, 5])).tolist() == [0, 0.5]
    assert schema.encode_many(np.array([[99.0, 5], [5, 10]])).tolist() == [[1, 0.5], [0.5, 1]]
    for bad in (math.inf, -math.inf, math.nan, True, "1", 10**400):
        refused(schema.encode, {"x": bad, "y": 5}, "'x'", "a float")
    for bad in (math.inf, -math.inf, math.nan):
        refused(schema.encode, np.array([bad, 5]), "'x'", "a float")


# --- what is refused ----------------------------------------------------------------------


def test_a_number_outside_its_range_is_named_with_the_range():
    error = refused(MIXED.encode, {"age": 17, "smoker": 0})
    assert str(error) == (
        "The 'age' parameter of the context must be a float in the range [18, 89]. "
        "Got 17.0 instead."
    )
    schema = Schema.plain(3, 0, 1)
    refused(schema.encode, [0, 1, 2], "'x2'", "[0, 1]", "Got 2.0")
    refused(schema.encode, np.array([0, 1, 2]), "'x2'", "[0, 1]", "Got 2")
    table = np.array([[0.0, 1, 1], [0, -1, 1]])
    refused(schema.encode_many, table, "'x1' parameter of context 1", "Got -1.0")


NOT_NUMBERS = [math.nan, math.inf, -math.inf, 1e7, -1.1e6, 10**400, True, np.True_, "1", b"1", 1j]


@pytest.mark.parametrize("schema", [Schema.plain(2), Schema.plain(2, 0, 1)])
def test_what_is_not_a_number(schema):
    for bad in (*NOT_NUMBERS, [1], {}):
        refused(schema.encode, {"x0": 0, "x1": bad}, "'x1'", "a float in")
        refused(schema.encode, [0, bad], "'x1'", "a float in")
        refused(schema.encode_many, [[0, 0], [0, bad]], "'x1' parameter of context 1")
    for bad in NOT_NUMBERS:
        refused(schema.encode, np.array([bad, bad]), "'x0'", "a float in")
        refused(schema.encode_many, np.array([[bad, bad]]), "'x0' parameter of context 0")
    for dtype in ("M8[D]", "M8[s]", "m8[D]"):
        refused(schema.encode, np.ones(2, dtype="i8").astype(dtype), "'x0'", "a float in")
    refused(schema.encode, np.array([0, np.longdouble("1e400")]), "'x1'", "a float in")


def test_what_is_not_a_context():
    schema = Schema.plain(2)
    scalars: Any = (None, 1.0, "ab", b"ab", {1.0, 2.0}, np.float64(1), np.array(1.0))
    for bad in (*scalars, [1], [1, 2, 3], np.ones(3), np.ones((3, 2))):
        refused(schema.encode, bad, "'the context' parameter", "a mapping by feature")
        refused(schema.encode_many, [[0, 0], bad], "'context 1' parameter")
    refused(schema.encode, np.ones((2, 2)), "'x0'")
    for bad in (*scalars, {"x0": 1, "x1": 2}):
        refused(schema.encode_many, bad, "'contexts'", "a list or array")
    refused(schema.encode_many, np.ones(2), "'context 0'")
    refused(schema.encode_many, np.ones((1, 3)), "'context 0'")


def test_an_array_only_where_all_are_numbers():
    refused(MIXED.encode, [20, 1, 0, 0, 0, 0, 0, 0], "if all are numbers")
    refused(MIXED.encode, np.ones(8), "if all are numbers")
    refused(MIXED.encode_many, np.ones((1, 8)), "'context 0'")


def test_an_unknown_key_is_refused_with_a_close_match():
    good = {"age": 20, "smoker": 1}
    refused(MIXED.encode, {**good, "aeg": 20}, "Got 'aeg' instead. Did you mean 'age'?")
    refused(MIXED.encode, {**good, 7: 1}, "Got 7", "Known: 'age'")
    refused(MIXED.encode_many, [good, {"aeg": 20}], "of context 1", "'aeg'")


def test_a_missing_value_must_be_declared():
    refused(MIXED.encode, {"smoker": 1}, "'age'", "given", "Got None", "declare")
    refused(MIXED.encode, {"age": 20, "smoker": None}, "'smoker'", "given", "declare")
    for feature in (Category("c", ["x"]), Labels("c", ["x"])):
        refused(Schema([feature]).encode, {}, "'c' parameter of the context", "given")


def test_what_is_not_a_flag_or_a_category():
    bad: Any
    for bad in (2, -1, 0.0, 1.0, "yes", [], math.nan):
        refused(Schema([Flag("f")]).encode, {"f": bad}, "'f'", "True or False")
    for bad in ("claer", "", 0, True, ["clear"], ("clear",), {"clear"}, {}):
        refused(MIXED.encode, {"age": 20, "smoker": 1, "sky": bad}, "'sky'", "one of its values")


def test_an_unknown_value_lists_close_matches():
    schema = Schema([Category("sky", ["clear", "cloudy", "clean"])])
    refused(schema.encode, {"sky": "clera"}, "Did you mean 'clear' or 'clean'?")
    refused(schema.encode, {"sky": "?" * 10**6}, "Known: 'clear', 'cloudy', 'clean'.")


def test_no_category_at_all_only_where_declared():
    assert not Schema([Category("c", ["x"], missing=())]).encode({"c": ()}).any()
    for missing in (None, "x"):
        schema = Schema([Category("c", ["x"], missing=missing)])
        refused(schema.encode, {"c": ()}, "'c'", "one of its values")
        refused(schema.encode, {"c": []}, "'c'", "one of its values")


def test_labels_take_duplicates_but_no_bare_string():
    schema = Schema([Labels("genres", GENRES)])
    twice = schema.encode({"genres": ["Horror", "Horror"]})
    assert twice.tolist() == schema.encode({"genres": frozenset(["Horror"])}).tolist()
    refused(schema.encode, {"genres": "Horror"}, "Write ['Horror'] for one label.")
    for bad in (5, True, {"Horror": 1}, iter(["Horror"]), b"Horror"):
        refused(schema.encode, {"genres": bad}, "a set, list or tuple of its values")
    refused(schema.encode, {"genres": ["Drama", "Horor"]}, "'Horor'", "Did you mean 'Horror'?")
    refused(schema.encode, {"genres": [["Drama"]]}, "Got ['Drama']")
    refused(schema.encode, {"genres": [None, 1]}, "Got None")


# --- decode -------------------------------------------------------------------------------


def test_decode_is_readable():
    context = {"age": 33.3, "smoker": True, "sky": "cloudy", "genres": ["Horror", "Comedy"]}
    decoded = MIXED.decode(MIXED.encode(context))
    assert decoded == {**context, "genres": ("Comedy", "Horror")}
    assert type(decoded["smoker"]) is bool and type(decoded["age"]) is float
    assert MIXED.decode(MIXED.encode({"age": 18, "smoker": 0}))["sky"] is None


@given(ranges(), st.data())
# The first number with few digits is out of the range; or the way back misses by a unit.
@example((-536870913.0, -0.00390625), -0.00390625)
@example((-0.4, 21.0), 1.0121265483982365)
@example((-0.3, 6.0), 0.6751969542271057)
def test_a_number_comes_back_with_the_same_encoding(ends, data):
    schema = Schema([Number("x", *ends)])
    encoded = schema.encode([data if isinstance(data, float) else data.draw(st.floats(*ends))])
    decoded: Any = schema.decode(encoded)
    assert ends[0] <= decoded["x"] <= ends[1]
    assert bits(schema.encode(decoded)) == bits(encoded)


@given(st.integers(-1000, 1000), st.integers(1, 1000), st.data())
def test_a_number_with_few_digits_comes_back_as_it_was(low, span, data):
    number = Schema([Number("x", low, low + span)])
    x = data.draw(st.integers(100 * low, 100 * (low + span))) / 100
    assert number.decode(number.encode([x])) == {"x": x}


@given(schema_and_contexts())
def test_decode_and_encode_agree_in_every_bit(drawn):
    schema, contexts = drawn
    for context in contexts:
        encoded = schema.encode(context)
        decoded = schema.decode(encoded)
        assert list(decoded) == list(context)
        if all(f.missing == () or decoded[f.name] is not None for f in schema.features):
            assert bits(schema.encode(decoded)) == bits(encoded)


def test_decode_refuses_what_is_no_vector():
    for bad in ([1.0], np.ones((1, 8)), [math.nan] * 8, "x", None):
        refused(MIXED.decode, bad, "'encoded' parameter of Schema.decode")


# --- JSON and values ----------------------------------------------------------------------


@given(schemas())
def test_json_round_trip(schema):
    data = schema.to_json()
    again = Schema.from_json(json.loads(json.dumps(data, allow_nan=False)))
    assert again == schema and hash(again) == hash(schema)
    assert again.to_json() == data and again.columns == schema.columns
    for other in (copy.copy(schema), copy.deepcopy(schema)):
        assert other == schema and other.columns == schema.columns


def test_json_names_every_setting():
    assert MIXED.to_json() == [
        {"kind": "number", "name": "age", "low": 18, "high": 89, "clip": False, "missing": None},
        {"kind": "flag", "name": "smoker", "missing": None},
        {"kind": "category", "name": "sky", "values": ["clear", "cloudy"], "missing": []},
        {"kind": "labels", "name": "genres", "values": list(GENRES), "missing": ["Drama"]},
    ]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (None, "a list of dicts"),
        ({}, "a list of dicts"),
        (["age"], "a list of dicts"),
        ([], "columns"),
        ([{}], "'kind'"),
        ([{"kind": "numbre", "name": "x"}], "'number', 'flag', 'category', 'labels'"),
        ([{"kind": [], "name": "x"}], "'kind'"),
        ([{"kind": "number", "name": "x", "lo": 1}], "unexpected keyword argument 'lo'"),
        ([{"kind": "number", "name": "x", "_span": 1.0}], "unexpected keyword argument '_span'"),
        ([{"kind": "number"}], "missing 1 required positional argument: 'name'"),
        ([{"kind": "flag", 3: 4}], "keywords must be strings"),
        ([{"kind": "labels", "name": "x"}], "'values'"),
        ([{"kind": "labels", "name": "x", "values": "ab"}], "distinct strings"),
        ([{"kind": "number", "name": "x", "low": "0", "high": 1}], "'low'"),
        ([{"kind": "number", "name": "x", "clip": "no"}], "'clip'"),
    ],
)
def test_json_is_strict(data, part):
    refused(Schema.from_json, data, part)


def test_values_are_frozen_slotted_and_comparable():
    for value in (*MIXED.features, MIXED):
        with pytest.raises(AttributeError):
            setattr(value, "features" if value is MIXED else "name", "other")
        assert not hasattr(value, "__dict__")
    assert Number("x", 0, 1) == Number("x", low=0.0, high=np.float64(1), clip=0)
    assert type(Number("x", np.float64(0), 1).low) is float
    category: Any = Category("x", ["a"])
    assert category == Category("x", ("a",)) and category != Labels("x", ["a"])
    assert Labels("x", ["a", "b"], missing={"b", "a"}).missing == ("a", "b")
    assert Labels("x", ["a", "b"], missing=["b", "a", "b"]).missing == ("a", "b")
    assert repr(Flag("x")) == "Flag(name='x', missing=None, optional=False)"
    assert "_" not in repr(MIXED)


def test_plain():
    schema = Schema.plain(3, low=-1, high=1)
    assert schema.columns == ("x0", "x1", "x2")
    assert schema.encode([-1, 0, 1]).tolist() == [0, 0.5, 1]
    assert schema == Schema([Number(f"x{i}", -1, 1) for i in range(3)])
    assert Schema.plain(MAX_WIDTH).width == MAX_WIDTH
    assert Schema.from_json([{"kind": "number", "name": "x0"}]) == Schema.plain(1)
    for bad in (0, -1, MAX_WIDTH + 1, 1.0, True, "3", None):
        refused(Schema.plain, bad, "'width' parameter of Schema.plain")


def test_place_finds_features():
    assert MIXED.place("genres") == (MIXED.features[3], 4)
    refused(MIXED.place, "genre", "Schema.place", "Did you mean 'genres'?")


def test_known_keeps_it_short():
    assert known("x", map(str, range(9))) == "Known: '0', '1', '2', '3', '4', …."
    assert known("ab", ["abc", "abd"]) == "Did you mean 'abd' or 'abc'?"


def undeclarable(kind, name, *cases, part=""):
    for case in cases:
        error = refused(lambda case: kind(*case), case, kind.__name__, part)
        assert error.name == name, case


def test_numbers_that_cannot_be_declared():
    undeclarable(Number, "name", [""], [3], [None], ["x" * 201], part="1 to 200 characters")
    undeclarable(Number, "high", ["x", 1], part="parameter of Number 'x'")
    undeclarable(Number, "high", ["x", 0, math.inf], ["x", 0, 1e301], part="[-1e+300, 1e+300]")
    undeclarable(Number, "low", ["x", None, 1], ["x", math.nan, 1], ["x", "0", 1])
    undeclarable(Number, "low", ["x", False, True], part="Got False")
    undeclarable(Number, "low", ["x", 1, 1], ["x", 2, 1], part="less than high = 1.0")
    undeclarable(Number, "clip", ["x", None, None, True], part="False where there is no range")
    undeclarable(Number, "clip", ["x", 0, 1, 2], ["x", 0, 1, "no"], part="True or False")
    undeclarable(Number, "missing", ["x", 0, 1, False, 2], ["x", 0, 1, True, 2], part="[0, 1]")
    undeclarable(Number, "missing", ["x", None, None, False, math.nan], ["x", 0, 1, False, True])


def test_words_that_cannot_be_declared():
    undeclarable(Flag, "name", [None], [""])
    undeclarable(Flag, "missing", ["f", "no"], ["f", 2], part="parameter of Flag 'f'")
    many = [str(i) for i in range(1001)]
    for kind in (Category, Labels):
        undeclarable(kind, "name", ["", ["a"]], [3, ["a"]])
        undeclarable(kind, "values", ["c", []], ["c", "ab"], ["c", {"a"}], part="a list or tuple")
        undeclarable(kind, "values", ["c", None], ["c", many], part="1 to 1,000 distinct strings")
        undeclarable(kind, "values", ["c", ["a", "a"]], part="distinct")
        undeclarable(kind, "values", ["c", ["a", ""]], ["c", ["a", 1]], part="1 to 200 characters")
        undeclarable(kind, "missing", ["c", ["ab"], 0], ["c", ["ab"], True], ["c", ["ab"], {}])
    undeclarable(Category, "missing", ["c", ["ab"], "abc"], part="Did you mean 'ab'?")
    undeclarable(Category, "missing", ["c", ["a"], ("a",)], ["c", ["a"], [0]], part="one of its")
    undeclarable(Labels, "missing", ["g", ["a"], "a"], part="Write ['a'] for one label.")
    undeclarable(Labels, "missing", ["g", ["a"], ["b"]], part="Got 'b' instead. Known: 'a'.")


def test_schemas_that_cannot_be_declared():
    some, other = Number("x"), Category("x", ["a", "b"])
    undeclarable(
        Schema, "features", [some], [None], ["x"], [[some, None]], [[Number]], part="a list"
    )
    undeclarable(Schema, "features", [[]], part="1 to 10000 columns. Got 0 instead.")
    undeclarable(Schema, "features", [[some, other]], [[other, some]], part="of distinct names")
    undeclarable(Schema, "features", [[other, Flag("x=a")]], part="of distinct names")
    undeclarable(Schema, "features", [[Number(f"{i}") for i in range(10_001)]], part="Got 10001")
