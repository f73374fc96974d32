"""Crosses: each pair of features once, in the order of their names."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import InvalidValue
from bridle.limits import logistic as crosses
from bridle.limits.logistic import LogisticLimits


@given(st.integers(0, 10**6), st.integers(1, 7), st.booleans())
def test_columns_values_and_names_agree(seed, d, with_crosses) -> None:
    rng = np.random.default_rng(seed)
    C = rng.integers(-2, 3, (4, d)).astype(float)
    X = crosses.expand(C, with_crosses)
    names = crosses.names([f"f{i}" for i in range(d)], with_crosses)
    assert X.shape == (4, crosses.columns(d, with_crosses)) == (4, len(names))
    for column, name in zip(X.T, names, strict=True):
        value = np.ones(4)
        for part in name.split(" and ") if name != "1" else ():
            value = value * C[:, int(part[1:])]
        assert column.tolist() == value.tolist()
    assert len(set(names)) == len(names)


def test_too_many_columns_are_refused() -> None:
    assert crosses.columns(62, True) <= crosses.MAX_COLUMNS < crosses.columns(63, True)
    with pytest.raises(InvalidValue, match="Leave the crosses out, or take fewer features"):
        LogisticLimits(arms=1, features=63, crosses=True)
    with pytest.raises(InvalidValue, match="at most 2,000 columns"):
        LogisticLimits(arms=1, features=2_000)
    with pytest.raises(InvalidValue, match="'features' parameter of expand"):
        crosses.expand(np.ones((1, 100)))


def test_not_both_needs_a_cross() -> None:
    # Two denied pairs among four features; each of the 16 contexts is taught ten times.
    C = np.array([[i >> b & 1 for b in range(4)] for i in range(16)], float)
    allowed = ~((C[:, 0] * C[:, 1] + C[:, 2] * C[:, 3]) > 0.0)
    wrong = []
    for with_crosses in (False, True):
        limits = LogisticLimits(arms=1, features=4, crosses=with_crosses)
        limits.learn_many(np.repeat(C, 10, axis=0), np.zeros(160, int), np.repeat(allowed, 10))
        wrong.append(int((limits.predict(0, C).safe != allowed).sum()))
    assert wrong[1] == 0 < wrong[0]
