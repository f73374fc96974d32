"""The worlds whose features say nothing: functions of their seeds, and what is played in them."""

import numpy as np
import pytest

from benchmarks import features


@pytest.mark.parametrize("make", features.MAKERS.values())
def test_worlds_are_functions_of_their_seeds(make, monkeypatch):
    monkeypatch.setattr(features, "STEPS", 50)
    for one, again in zip(make(1, 7, 0.1), make(1, 7, 0.1), strict=True):
        np.testing.assert_array_equal(one, again)
        assert len(one) == 50 and np.isfinite(one).all()
    assert not np.array_equal(make(1, 7, 0.1)[1], make(2, 7, 0.1)[1])


def test_regrets_are_of_three_agents(monkeypatch):
    monkeypatch.setattr(features, "STEPS", 300)
    found = features.regrets(features.intercepts(100, 5, 0.1), 100)
    assert len(found) == 3 and all(0.0 < one < 0.5 for one in found)


def test_without_data_there_are_no_films(tmp_path):
    assert features.films(1, tmp_path) is None
