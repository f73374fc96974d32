"""LinearArms: the reference's posterior, the same bits however the examples come, and errors."""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import CorruptState, InvalidValue
from bridle.kernels.posterior import REFRESH_AFTER
from bridle.reward.posterior import LinearArms
from tests import reference


def history(rng, n: int, K: int, d: int, filled: float = 0.7):
    C = rng.standard_normal((n, d)) * (rng.random((n, d)) < filled)
    return rng.integers(0, K, n), C, rng.random(n)


def trained(seed: int, n: int = 50, K: int = 3, d: int = 4, ridge: float = 1.0) -> LinearArms:
    arms = LinearArms(arms=K, features=d, ridge=ridge)
    arms.update_many(*history(np.random.default_rng(seed), n, K, d))
    return arms


def bits(arms: LinearArms) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {name: (str(x.dtype), x.shape, x.tobytes()) for name, x in arms.to_state().items()}


@st.composite
def histories(draw, most: int = 60):
    K, d = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    n = draw(st.integers(0, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    which, C, y = history(rng, n, K, d, draw(st.sampled_from([0.2, 0.6, 1.0])))
    C = C * draw(st.sampled_from([0.1, 1.0, 10.0]))
    return K, d, draw(st.sampled_from([0.1, 1.0, 5.0])), which, C, y


# What the posterior is


@given(histories())
def test_the_posterior_is_the_references(case) -> None:
    K, d, ridge, which, C, y = case
    arms, plain = LinearArms(arms=K, features=d, ridge=ridge), reference.Arms(K, d, ridge)
    for k, c, outcome in zip(which, C, y, strict=True):
        arms.update(k, c, outcome)
        plain.update(c, int(k), float(outcome))
    assert np.abs(arms.means - plain.mu).max() <= 1e-9
    assert np.abs(arms.covariances - plain.inverse).max() <= 1e-9
    assert np.allclose(arms.precisions, plain.B, rtol=1e-12, atol=1e-12)
    assert arms.counts.tolist() == [int((which == k).sum()) for k in range(K)]
    for c in [np.ones(d), np.zeros(d), *C[:3]]:
        mean, sd = arms.scores(c)
        assert np.abs(mean - plain.means(c)).max() <= 1e-9
        assert np.abs(sd - plain.spreads(c)).max() <= 1e-9


@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("ridge", [1e-6, 0.1, 1.0, 3.0, 1e12])
def test_untrained_arms_are_the_prior(d, ridge) -> None:
    arms = LinearArms(arms=2, features=d, ridge=ridge)
    assert (arms.arms, arms.features, arms.ridge) == (2, d, ridge)
    for A, B in zip(arms.covariances, arms.precisions, strict=True):
        assert A @ B == pytest.approx(np.eye(d), rel=1e-15)
    mean, sd = arms.scores(np.ones(d))
    assert mean.tolist() == [0.0, 0.0]
    assert sd == pytest.approx([np.sqrt(d / ridge)] * 2, rel=1e-14)


def test_scores_of_many_contexts_have_the_bits_of_each() -> None:
    arms = trained(1, K=5, d=20)
    rng = np.random.default_rng(2)
    for filled in (0.1, 1.0):
        C = history(rng, 150, 1, 20, filled)[1]
        means, sds = arms.scores_many(C)
        for t, c in enumerate(C):
            mean, sd = arms.scores(c)
            assert (means[t].tolist(), sds[t].tolist()) == (mean.tolist(), sd.tolist())
    assert arms.scores_many(np.empty((0, 20)))[0].shape == (0, 5)


def test_what_is_given_out_is_a_copy_but_for_the_kernels_state() -> None:
    arms = trained(3)
    before = bits(arms)
    for array in (arms.means, arms.covariances, arms.precisions, arms.counts):
        array[...] = 7
    for array in arms.to_state().values():
        array[...] = 7
    assert bits(arms) == before
    arms.kernel_state.mu[...] = 7.0
    assert (arms.means == 7.0).all()


def test_contexts_may_be_lists_and_bools_and_are_not_changed() -> None:
    arms, other = LinearArms(arms=1, features=2), LinearArms(arms=1, features=2)
    c = np.array([1.0, 0.0])
    arms.update(0, c, 1)
    other.update(np.int32(0), [True, False], np.float32(1.0))
    assert c.tolist() == [1.0, 0.0]
    assert bits(arms) == bits(other)


# The same bits


@given(histories(), st.lists(st.integers(0, 60), max_size=4))
def test_any_split_has_the_bits_of_one_by_one(case, cuts) -> None:
    K, d, ridge, which, C, y = case
    one, split, unchecked = (LinearArms(arms=K, features=d, ridge=ridge) for _ in range(3))
    for k, c, outcome in zip(which.tolist(), C, y.tolist(), strict=True):
        one.update(k, c, outcome)
        unchecked.fold(k, c, outcome)
    edges = sorted({0, len(which), *(min(cut, len(which)) for cut in cuts)})
    for low, high in itertools.pairwise(edges):
        split.update_many(which[low:high], C[low:high], y[low:high])
    assert bits(one) == bits(split) == bits(unchecked)


@given(histories(), st.integers(0, 60))
def test_a_restart_in_mid_stream_has_the_bits_of_none(case, cut) -> None:
    K, d, ridge, which, C, y = case
    whole = LinearArms(arms=K, features=d, ridge=ridge)
    whole.update_many(which, C, y)
    first = LinearArms(arms=K, features=d, ridge=ridge)
    first.update_many(which[:cut], C[:cut], y[:cut])
    file = io.BytesIO()
    np.savez(file, **first.to_state())
    file.seek(0)
    with np.load(file, allow_pickle=False) as state:
        second = LinearArms.from_state(dict(state))
    assert bits(second) == bits(first)
    assert second.ridge == ridge
    second.update_many(which[cut:], C[cut:], y[cut:])
    for arms in (second, whole):
        arms.grow()
        arms.reset(0)
    assert bits(second) == bits(whole)


@pytest.mark.parametrize("cut", [1, REFRESH_AFTER - 1, REFRESH_AFTER, REFRESH_AFTER + 1])
def test_a_restart_around_a_refresh_has_the_bits_of_none(cut) -> None:
    n, d = 2 * REFRESH_AFTER + 10, 5
    which, C, y = history(np.random.default_rng(4), n, 1, d)
    one = LinearArms(arms=1, features=d)
    for c, outcome in zip(C, y, strict=True):
        one.update(0, c, outcome)
    arms = LinearArms(arms=1, features=d)
    arms.update_many(which[:cut], C[:cut], y[:cut])
    arms = LinearArms.from_state(arms.to_state())
    arms.update_many(which[cut:], C[cut:], y[cut:])
    assert bits(arms) == bits(one)


def test_the_sign_of_zero_changes_no_bit() -> None:
    rng = np.random.default_rng(5)
    which, C, y = history(rng, 40, 2, 5, 0.4)
    one, other = (LinearArms(arms=2, features=5) for _ in range(2))
    signed = np.where(C == 0.0, -0.0, C)
    assert np.signbit(signed).sum() > np.signbit(C).sum()
    one.update_many(which, C, y)
    for k, c, outcome in zip(which, signed, y, strict=True):
        other.update(k, c, outcome)
    assert bits(one) == bits(other)
    assert one.scores(C[0])[1].tobytes() == other.scores(signed[0])[1].tobytes()


def test_a_context_of_zeros_teaches_nothing_but_counts() -> None:
    arms = trained(6)
    means, covariances = arms.means, arms.covariances
    arms.update(1, np.zeros(4), 1.0)
    assert arms.means.tolist() == means.tolist()
    assert arms.covariances.tolist() == covariances.tolist()
    assert arms.counts.sum() == 51
    assert [x.tolist() for x in arms.scores(np.zeros(4))] == [[0.0] * 3] * 2


def test_the_inverse_is_symmetric_in_bits() -> None:
    arms = trained(7, n=REFRESH_AFTER + 100, K=1, d=7)
    A = arms.covariances
    assert A.tobytes() == A.transpose(0, 2, 1).tobytes()


HASH_A_HISTORY = f"""
import hashlib, sys
import numpy as np
from bridle.reward.posterior import LinearArms
rng = np.random.default_rng(8)
d, n = 40, {REFRESH_AFTER} * 2 + 300
arms = LinearArms(arms=2, features=d)
C = np.round(rng.standard_normal((n, d)), 3)
arms.update_many(rng.integers(0, 2, n), C, np.round(rng.random(n), 3))
other = arms.copy()
arms.merge(other)
digest = hashlib.sha256()
for name, array in sorted(arms.to_state().items()):
    digest.update(array.tobytes())
for array in arms.scores_many(C[:200]):
    digest.update(array.tobytes())
print(digest.hexdigest())
"""


def test_any_number_of_blas_threads_gives_the_same_bits() -> None:
    digests = []
    for threads in ("1", "2"):
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        env = {**os.environ, **dict.fromkeys(names, threads)}
        run = [sys.executable, "-c", HASH_A_HISTORY]
        done = subprocess.run(run, env=env, capture_output=True, text=True, check=True, timeout=300)
        digests.append(done.stdout.strip())
    assert len(digests[0]) == hashlib.sha256().digest_size * 2
    assert digests[0] == digests[1]


# More arms, fewer examples, other arms' knowledge


def test_grown_arms_are_as_if_they_had_been_there() -> None:
    which, C, y = history(np.random.default_rng(9), 60, 2, 4)
    grown, whole = LinearArms(arms=2, features=4), LinearArms(arms=5, features=4)
    grown.update_many(which, C, y)
    whole.update_many(which, C, y)
    grown.grow()
    grown.grow(2)
    assert bits(grown) == bits(whole)
    for arms in (grown, whole):
        arms.update(4, C[0], 1.0)
    assert bits(grown) == bits(whole)


def test_reset_forgets_one_arm_and_no_other() -> None:
    arms = trained(10)
    kept = bits(arms)
    arms.reset(1)
    fresh = LinearArms(arms=3, features=4)
    for k, source in ((0, kept), (1, bits(fresh)), (2, kept)):
        for name, array in arms.to_state().items():
            if name != "ridge":
                dtype, shape, raw = source[name]
                assert array[k].tolist() == np.frombuffer(raw, dtype).reshape(shape)[k].tolist()


@given(histories(), st.integers(0, 60))
def test_a_merge_is_one_fold_of_both(case, cut) -> None:
    K, d, ridge, which, C, y = case
    whole, left, right = (LinearArms(arms=K, features=d, ridge=ridge) for _ in range(3))
    whole.update_many(which, C, y)
    left.update_many(which[:cut], C[:cut], y[:cut])
    right.update_many(which[cut:], C[cut:], y[cut:])
    untouched = bits(right)
    left.merge(right)
    assert bits(right) == untouched
    assert left.counts.tolist() == whole.counts.tolist()
    # 1e-12 relative, to the largest entry: single entries may be 0 in one and 1e-17 in the other.
    for mine, its in (
        (left.precisions, whole.precisions),
        (left.covariances, whole.covariances),
        (left.means, whole.means),
    ):
        assert np.abs(mine - its).max() <= 1e-12 * max(1.0, np.abs(its).max())


def test_a_merge_with_the_same_arms_counts_everything_twice() -> None:
    arms, other = trained(11), trained(11)
    twin = arms.copy()
    arms.merge(arms)
    other.merge(twin)
    assert arms.counts.tolist() == (2 * twin.counts).tolist() == other.counts.tolist()
    assert arms.precisions == pytest.approx(other.precisions, rel=1e-14, abs=1e-14)
    assert arms.means == pytest.approx(other.means, rel=1e-12, abs=1e-13)


def test_a_copy_learns_apart() -> None:
    arms = trained(12)
    twin = arms.copy()
    before = bits(arms)
    assert bits(twin) == before
    twin.update(0, np.ones(4), 1.0)
    assert bits(arms) == before
    assert bits(twin) != before


# Errors


@pytest.mark.parametrize(
    ("given_settings", "message"),
    [
        (
            {"arms": 0},
            "The 'arms' parameter of LinearArms must be an int in the range [1, 1000000].",
        ),
        ({"arms": 2.0}, "Got 2.0 instead."),
        ({"arms": True}, "Got True instead."),
        (
            {"features": 0},
            "The 'features' parameter of LinearArms must be an int in the range [1, 100",
        ),
        (
            {"ridge": 0.0},
            "The 'ridge' parameter of LinearArms must be a float in the range [1e-06, 1",
        ),
        ({"ridge": float("nan")}, "Got nan instead."),
        ({"ridge": "1"}, "Got '1' instead."),
    ],
)
def test_bad_settings_are_refused(given_settings, message) -> None:
    with pytest.raises(InvalidValue) as caught:
        LinearArms(**{"arms": 2, "features": 3, **given_settings})
    assert message in str(caught.value)


C4 = np.ones(4)
BAD_CALLS = {
    "arm too high": (lambda a: a.update(3, C4, 1.0), "'arm' parameter of LinearArms.update"),
    "arm negative": (lambda a: a.update(-1, C4, 1.0), "an int in the range [0, 2]. Got -1"),
    "context too short": (
        lambda a: a.update(0, [1.0], 1.0),
        "'context' parameter of LinearArms.up",
    ),
    "context not finite": (lambda a: a.update(0, [1, 2, 3, np.nan], 1.0), "4 numbers in the range"),
    "outcome": (lambda a: a.update(0, C4, np.inf), "'outcome' parameter of LinearArms.update"),
    "scores": (lambda a: a.scores([["x"]]), "'context' parameter of LinearArms.scores"),
    "scores_many": (lambda a: a.scores_many(C4), "'contexts' parameter of LinearArms.scores_many"),
    "contexts": (lambda a: a.update_many([0], [C4[:3]], [1.0]), "a matrix with 4 columns"),
    "arms": (lambda a: a.update_many([0, 3], [C4, C4], [1.0, 1.0]), "2 whole numbers in the range"),
    "arms ragged": (lambda a: a.update_many([[0], [0, 1]], [C4, C4], [1.0, 1.0]), "'arms' param"),
    "outcomes": (lambda a: a.update_many([0, 1], [C4, C4], [1.0]), "'outcomes' parameter"),
    "last outcome": (
        lambda a: a.update_many([0, 1], [C4, C4], [1.0, 1e7]),
        "2 numbers in the range",
    ),
    "grow": (lambda a: a.grow(0), "'arms' parameter of LinearArms.grow"),
    "grow too far": (lambda a: a.grow(1_000_000), "an int in the range [1, 1000000]. Got 1000003"),
    "reset": (lambda a: a.reset(3), "'arm' parameter of LinearArms.reset"),
    "merge nothing": (
        lambda a: a.merge(None),
        "'other' parameter of LinearArms.merge must be a Li",
    ),
    "merge ridge": (
        lambda a: a.merge(trained(1, ridge=2.0)),
        "of the same (arms, features, ridge)",
    ),
    "merge arms": (lambda a: a.merge(trained(1, K=2)), "Got (2, 4, 1.0) instead."),
    "merge features": (lambda a: a.merge(trained(1, d=5)), "(3, 4, 1.0). Got (3, 5, 1.0) instead."),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_says_what_is_wrong_and_changes_nothing(name) -> None:
    call, message = BAD_CALLS[name]
    arms = trained(13)
    before = bits(arms)
    with pytest.raises(InvalidValue) as caught:
        call(arms)
    assert message in str(caught.value)
    assert bits(arms) == before


DAMAGE = {
    "missing": (lambda s: s.pop("mu"), "LinearArms needs the arrays"),
    "unknown": (lambda s: s.update(extra=np.zeros(1)), "LinearArms needs the arrays"),
    "ridge shape": (
        lambda s: s.update(ridge=np.ones(1)),
        "'ridge' or 'mu' does not have its shape",
    ),
    "ridge type": (
        lambda s: s.update(ridge=np.array(1)),
        "'ridge' or 'mu' does not have its shape",
    ),
    "ridge range": (lambda s: s.update(ridge=np.array(-1.0)), "ridge"),
    "mu shape": (lambda s: s.update(mu=np.zeros(3)), "'ridge' or 'mu' does not have its shape"),
    "no arms": (lambda s: s.update(mu=np.zeros((0, 4))), ""),
    "A shape": (
        lambda s: s.update(A=s["A"][:, :3]),
        "array 'A' must be float64 of shape (3, 4, 4)",
    ),
    "f type": (lambda s: s.update(f=s["f"].astype("f4")), "Got float32 of shape (3, 4) instead."),
    "not finite": (lambda s: s["A"].fill(np.inf), "array 'A' holds numbers that are not finite"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_state_is_refused(name) -> None:
    spoil, message = DAMAGE[name]
    state = trained(14).to_state()
    spoil(state)
    with pytest.raises(CorruptState) as caught:
        LinearArms.from_state(state)
    assert message in str(caught.value)


def test_sizes_of_a_state_are_checked_before_anything_is_allocated() -> None:
    state = LinearArms(arms=1, features=2).to_state()
    state["mu"] = np.zeros((1, 3_000))  # an inverse of 72 MB, if it were believed
    tracemalloc.start()
    try:
        with pytest.raises(CorruptState):
            LinearArms.from_state(state)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
