from __future__ import annotations

from dataclasses import fields

import pytest

from bridle.errors import InvalidValue
from bridle.server.limits import _RANGES, Limits


def test_every_limit_has_a_range_and_its_default_is_in_it():
    numbers = {field.name for field in fields(Limits) if field.name != "open_metrics"}
    assert numbers == set(_RANGES)
    Limits()


@pytest.mark.parametrize("name", sorted(_RANGES))
def test_nothing_beyond_a_range_is_taken(name: str):
    for wrong in (-1, 1e300, float("nan"), "5", True, None):
        with pytest.raises(InvalidValue, match=name):
            Limits(**{name: wrong})


def test_open_metrics_is_a_truth():
    with pytest.raises(InvalidValue, match="open_metrics"):
        Limits(open_metrics="yes")
