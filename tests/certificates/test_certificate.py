"""A certificate is data: it holds its own limits, survives a file and says what it promises."""

from __future__ import annotations

import copy
import dataclasses
import json

import numpy as np
import pytest

from bridle.certificates.binomial import upper_bound
from bridle.certificates.calibration import Calibration, certify
from bridle.certificates.certificate import (
    Certificate,
    _seal,
    about_of,
    fingerprint,
    kind_of,
    scores_of,
)
from bridle.errors import CorruptState, InvalidValue
from bridle.limits import KINDS, LinearLimits, make_limits
from bridle.schema import Flag, Schema

SCHEMA = Schema([Flag(f"f{i}") for i in range(5)])
GROUPS = ["a", None, "a", "b"]
N = 80


def contexts(seed: int, n: int = N):
    return (np.random.default_rng(seed).random((n, 5)) < 0.4).astype(float)


def truth(C):
    """Arm 0 and 2: no f0; arm 1: neither f1 nor f2; arm 3: all."""
    clear = C[:, 0] == 0.0
    return np.column_stack([clear, C[:, 1] + C[:, 2] == 0.0, clear, np.ones(len(C), bool)])


def taught(kind: str, n: int = 80):
    limits = make_limits(kind, schema=SCHEMA, groups=GROUPS, seed=3)
    C = contexts(1, n)
    rng = np.random.default_rng(2)
    for c, fine, key in zip(C, truth(C), rng.integers(0, 2**63, n), strict=True):
        k = int(rng.integers(0, 4))
        limits.learn(c, k, bool(fine[k]), int(key))
    return limits


# What new agents call "auto" is kept under the name of what it is: "auto" is that of old logs.
NAMES = {"auto": "mixture"}


def certified(kind: str, **more):
    C = contexts(5)
    return certify(taught(kind), Calibration(C, truth(C)), 0.1, 0.2, lambda_min=0.2, **more)


@pytest.fixture(scope="module")
def one():
    return certified("rules", at=12.5, on="made-up tickets")


@pytest.mark.parametrize("kind", KINDS)
def test_it_survives_a_file_bit_by_bit(kind):
    made = certified(kind, on="é", at=1.0)
    again = Certificate.from_json(json.loads(json.dumps(made.to_json())))
    assert again == made and hash(again) == hash(made)
    assert again.kind == NAMES.get(kind, kind) and (again.arms, again.features) == (4, 5)
    C = contexts(9)
    assert again.scores(C).tobytes() == made.scores(C).tobytes()
    assert (again.allowed(C) == made.allowed(C)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_it_holds_a_frozen_copy_of_the_limits(kind):
    limits = taught(kind)
    C = contexts(5)
    made = certify(limits, Calibration(C, truth(C)), 0.1, 0.2)
    scores = scores_of(limits, C)
    assert made.fingerprint == fingerprint(limits)
    assert (made.allowed(C) == (scores > made.threshold)).all()
    before = made.scores(C).tobytes()
    assert before == scores.tobytes()
    for c in C[:20]:
        limits.learn(c, 1, False, 7)
    assert made.scores(C).tobytes() == before
    assert made.fingerprint != fingerprint(limits)
    made.check(limits)  # they may learn
    with pytest.raises(ValueError, match="read-only"):
        next(array for array in made.state.values() if array.size)[...] = 0
    with pytest.raises(TypeError):
        made.state["more"] = np.zeros(1)  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.alpha = 0.5  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_has_the_same_score_alone_as_among_others(kind):
    """Else a tie with the threshold could come undone."""
    made = certified(kind)
    C = contexts(6, 37)
    together = made.scores(C)
    for i, c in enumerate(C):
        assert made.scores(c[None]).tobytes() == together[i].tobytes()


def test_arrays_that_were_given_to_it_can_be_changed_without_it(one):
    given = {name: array.copy() for name, array in one.state.items()}
    made = dataclasses.replace(one, state=given)
    for array in given.values():
        array[...] = np.zeros((), array.dtype)
    assert made == one


def test_limits_of_another_size_are_refused(one):
    for arms, features in ((5, 5), (4, 6)):
        schema = Schema([Flag(f"f{i}") for i in range(features)])
        other = make_limits("rules", schema=schema, groups=[None] * arms)
        with pytest.raises(InvalidValue, match="a certificate from other limits"):
            one.check(other)
    with pytest.raises(InvalidValue, match=r"'contexts' parameter of Certificate\.allowed"):
        one.allowed(np.zeros((3, 6)))


def test_limits_that_could_not_be_read_back_are_refused():
    class Mine:
        pass

    with pytest.raises(InvalidValue, match="limits of bridle"):
        kind_of(Mine())
    assert [kind_of(taught(kind, 1)) for kind in KINDS] == [NAMES.get(k, k) for k in KINDS]


def test_the_bound_is_that_of_what_was_seen(one):
    assert one.bound == upper_bound(one.broken, N, 0.2) <= one.alpha


def test_the_bound_on_violations_is_the_quantile(one):
    assert one.violations_bound(1_000, 0.05) == 116  # scipy's binom.ppf(.95, 1000, .1)
    with pytest.raises(InvalidValue, match="'steps'"):
        one.violations_bound(0, 0.05)
    with pytest.raises(InvalidValue, match="'delta'"):
        one.violations_bound(10, 0.0)


def test_it_says_what_it_promises_in_words(one):
    text = str(one)
    for part in (
        "With 80 % confidence, at most 10 % of future contexts",
        "(certified on: made-up tickets)",
        f"{N} calibration contexts and {one.answers} answers",
        "keep at least one arm",
        *one.assumptions,
    ):
        assert part in text
    assert "certified on" not in certified("linear").sentence()
    # What is nearly all is not called all.
    near = dataclasses.replace(one, delta=1e-6, keeps=0.99999)
    assert "With 99.9999 % confidence" in str(near) and "99.99 % keep at least" in str(near)
    assert " 100 % keep at least" in str(dataclasses.replace(one, keeps=1.0))


def test_an_assumption_can_be_added(one):
    more = dataclasses.replace(one, assumptions=(*one.assumptions, "Arm 3 is always allowed."))
    assert more != one and more != "a certificate"
    assert Certificate.from_json(more.to_json()) == more
    assert str(more).endswith("Arm 3 is always allowed.")


def changed(data, path, value):
    new = copy.deepcopy(data)
    place = new
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return new


DAMAGE = [
    (["form"], "bridle certificate 0"),
    (["alpha"], 0.0),
    (["alpha"], 0.01),  # so many contexts cannot show it
    (["alpha"], "0.1"),
    (["alpha"], None),
    (["delta"], 1.0),
    (["n"], 0),
    (["n"], 10),
    (["n"], 80.0),
    (["n"], True),
    (["n"], 10**9),
    (["lambda_min"], 1.0),
    (["lambda_min"], -0.1),
    (["threshold"], 0.1),  # below lambda_min
    (["threshold"], 1.1),
    (["threshold"], float("nan")),
    (["threshold"], 1),
    (["broken"], -1),
    (["broken"], 79),
    (["answers"], -1),
    (["answers"], 10**6),
    (["keeps"], 1.5),
    (["at"], float("inf")),
    (["at"], "now"),
    (["on"], 5),
    (["on"], "x" * 10_000),
    (["assumptions"], "none"),
    (["assumptions"], [1]),
    (["assumptions"], [""]),
    (["assumptions"], ["x"] * 1_000),
    (["kind"], "linear"),
    (["kind"], "best"),
    (["kind"], ["rules"]),
    (["fingerprint"], "0" * 64),
    (["state"], []),
    (["state"], {}),
    (["state", "thresholds"], 5),
    (["state", "more"], {"dtype": "<f8", "shape": [0], "base64": ""}),
    (["state", "thresholds", "dtype"], "|O"),
    (["state", "thresholds", "dtype"], "<f4"),
    (["state", "thresholds", "dtype"], 8),
    (["state", "thresholds", "shape"], [7]),
    (["state", "thresholds", "shape"], [-5]),
    (["state", "thresholds", "shape"], 5),
    (["state", "thresholds", "base64"], "?"),
    (["state", "thresholds", "base64"], None),
]


@pytest.mark.parametrize(("path", "value"), DAMAGE, ids=lambda x: str(x)[:40])
def test_what_is_damaged_is_refused(one, path, value):
    data = changed(one.to_json(), path, value)
    with pytest.raises(CorruptState):
        Certificate.from_json(data)
    # And if someone made the digest fit, it is refused for what it says.
    del data["sha256"]
    data["sha256"] = _seal(data)
    with pytest.raises(CorruptState):
        Certificate.from_json(data)


def test_what_was_changed_within_its_range_is_seen_by_the_digest(one):
    for name, value in (("alpha", 0.2), ("keeps", 0.5), ("on", "elsewhere"), ("threshold", 0.99)):
        with pytest.raises(CorruptState, match="sha256"):
            Certificate.from_json(changed(one.to_json(), [name], value))


@pytest.mark.parametrize("data", [None, [], "x", {}, {"form": "bridle certificate 1"}])
def test_what_is_no_certificate_is_refused(data):
    with pytest.raises(CorruptState, match="A certificate has the fields"):
        Certificate.from_json(data)


def test_more_fields_are_refused(one):
    with pytest.raises(CorruptState, match="A certificate has the fields"):
        Certificate.from_json({**one.to_json(), "more": 1})


@pytest.mark.parametrize("coding", ["1/0", "1/-1", "0/-1"])
def test_the_score_of_linear_limits_has_the_order_of_the_mean_and_no_ties_beyond_one(coding):
    limits = LinearLimits(arms=1, features=2, label_coding=coding)
    for _ in range(50):
        limits.learn([1.0, 0.0], 0, True)
        limits.learn([0.0, 1.0], 0, False)
    C = np.array([[0.0, 2.0], [0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    scores = scores_of(limits, C)[:, 0]
    mean = limits.scores_many(C)[0][:, 0]
    assert (
        np.sign(np.subtract.outer(scores, scores)) == np.sign(np.subtract.outer(mean, mean))
    ).all()
    assert (scores > 0.0).all() and (scores < 1.0).all()
    # As with a probability, more than one half means more likely allowed than not.
    assert ((scores > 0.5) == (limits.predict(0, C).p > 0.5)).all()


def test_about_names_arms_in_their_order_and_features():
    columns = SCHEMA.to_json()
    assert about_of([0, "a"], columns) == about_of((0, "a"), columns)
    others = [about_of(["a", 0], columns), about_of(["0", "a"], columns), about_of([0, "a"], [])]
    assert len({about_of([0, "a"], columns), *others}) == 4
    with pytest.raises(InvalidValue, match="limits of bridle"):
        certified("rules").check(None)


def test_no_promise_is_certain(one):
    assert "With 100 % confidence" not in dataclasses.replace(one, delta=1e-12).sentence()
