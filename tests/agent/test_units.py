"""Units of numbers: for people to read, and of no effect on what is computed."""

from __future__ import annotations

import pytest

from bridle.errors import InvalidValue
from bridle.schema import Number, Schema


def test_a_unit_is_for_people_and_changes_no_number():
    plain = Number("height", 100, 220, missing=170)
    dressed = Number("height", 100, 220, missing=170, unit="cm")
    assert plain != dressed and plain.unit is None and dressed.unit == "cm"
    for context in ({"height": 187.3}, {}, [150.0]):
        one, two = (Schema([number]).encode(context) for number in (plain, dressed))
        assert one.tobytes() == two.tobytes()
    assert Schema([dressed]).columns == ("height",)
    assert "unit='cm'" in repr(dressed)


def test_json_has_a_unit_only_where_there_is_one():
    # What has none is written as before there were units: the bytes of old logs stay theirs.
    plain, dressed = Schema([Number("height")]), Schema([Number("height", unit="cm")])
    written = {"kind": "number", "name": "height", "low": None, "high": None, "clip": False}
    assert plain.to_json() == [{**written, "missing": None}]
    assert dressed.to_json() == [{**written, "missing": None, "unit": "cm"}]
    assert Schema.from_json([{**written, "missing": None, "unit": None}]) == plain
    assert Schema.from_json(plain.to_json()) == plain
    assert Schema.from_json(dressed.to_json()) == dressed


@pytest.mark.parametrize("unit", ["", 3, b"kg", True, ["kg"], "x" * 41])
def test_a_unit_is_a_short_text(unit):
    wanted = "'unit' parameter of Number 'x' must be a string of 1 to 40 characters"
    with pytest.raises(InvalidValue, match=wanted):
        Number("x", unit=unit)
    with pytest.raises(InvalidValue, match=wanted):
        Schema.from_json([{"kind": "number", "name": "x", "unit": unit}])
    assert Number("x", unit="x" * 40).unit == "x" * 40


def test_only_numbers_have_one():
    with pytest.raises(InvalidValue, match="unexpected keyword argument 'unit'"):
        Schema.from_json([{"kind": "flag", "name": "x", "unit": "kg"}])
