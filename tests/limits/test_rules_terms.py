"""Terms: what a context holds, their numbers and names; rules read back as sentences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import InvalidValue
from bridle.limits.rules import Reading, Terms, thresholds_of
from bridle.schema import Category, Flag, Labels, Number, Schema

NAN = float("nan")


@given(st.integers(1, 9), st.booleans(), st.integers(0, 10**6))
def test_numbers_and_terms_are_two_ways_to_say_the_same(d, pairs, seed) -> None:
    rng = np.random.default_rng(seed)
    above = np.where(rng.random(d) < 0.3, NAN, rng.uniform(-1, 1, d))
    above[rng.integers(d)] = 0.5
    terms = Terms(d, pairs, above)
    every = terms.all()
    assert len(every) == len(terms)
    assert [terms.number(term) for term in every] == list(range(len(terms)))
    assert [terms.number(t[::-1]) for t in every if isinstance(t, tuple)] == list(
        range(terms.singles, len(terms))
    )
    context = rng.uniform(-1, 1, d)
    have = [i for i in range(d) if context[i] > above[i]]
    assert terms.held([context])[0].tolist() == [i in have for i in terms.columns]
    plain = have + [(i, j) for i in have for j in have if i < j] * pairs
    assert terms.of(context) == plain


def test_a_value_at_the_threshold_is_not_held() -> None:
    assert Terms(3).held([[0.5, 0.51, 1.0]]).tolist() == [[False, True, True]]


def test_numbers_of_a_schema_are_no_terms() -> None:
    schema = Schema(
        [Number("age", 0, 100), Category("sex", ["f", "m"]), Flag("smoker"), Labels("drugs", ["x"])]
    )
    above = thresholds_of(schema)
    assert np.isnan(above).tolist() == [True, False, False, False, False]
    terms = Terms(5, True, above)
    assert (terms.singles, len(terms)) == (4, 10)
    assert terms.names(schema.columns)[:5] == ["f", "m", "smoker", "x", "f with m"]


def test_two_features_that_share_a_word_keep_their_names() -> None:
    assert Terms(2).names(["liked=Drama", "seen=Drama"]) == ["liked=Drama", "seen=Drama"]


def test_known_terms_go_by_number() -> None:
    terms = Terms(3, True)
    assert terms.known({2: True, (2, 0): False}) == {2: True, 4: False}


@pytest.mark.parametrize(
    ("reading", "sentence"),
    [
        (
            Reading(("Horror", "Thriller"), ("Crime",), ("Drama",)),
            "12-17: not Horror, not Thriller; unsure: Crime",
        ),
        (Reading(("Comedy with Crime",), (), ()), "12-17: not Comedy with Crime"),
        (Reading((), ("Crime", "Drama"), ()), "12-17: unsure: Crime, Drama"),
        (Reading((), (), ("Crime",)), "12-17: all is allowed"),
    ],
)
def test_a_reading_is_a_sentence(reading, sentence) -> None:
    assert reading.sentence("12-17") == sentence


BAD = {
    "no features": lambda: Terms(0),
    "pairs": lambda: Terms(2, "yes"),
    "thresholds of another length": lambda: Terms(2, thresholds=[0.5]),
    "no term at all": lambda: Terms(2, thresholds=[NAN, NAN]),
    "infinite": lambda: Terms(2, thresholds=[0.5, float("inf")]),
    "too many": lambda: Terms(400, True),
    "no such term": lambda: Terms(2).number(2),
    "pair among singles": lambda: Terms(2).number((0, 1)),
    "pair of one": lambda: Terms(2, True).number((1, 1)),
    "three": lambda: Terms(3, True).number((0, 1, 2)),
    "a word": lambda: Terms(3, True).number("Horror"),
    "not a term": lambda: Terms(2, thresholds=[NAN, 0.5]).number(0),
    "names": lambda: Terms(2).names(["one"]),
    "known": lambda: Terms(2).known([1]),
    "known truth": lambda: Terms(2).known({0: "yes"}),  # type: ignore[dict-item]
    "context": lambda: Terms(2).of([1.0]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_values_are_refused(name) -> None:
    with pytest.raises(InvalidValue, match=r"^The '.*' parameter of "):
        BAD[name]()
