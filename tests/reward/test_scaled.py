"""ScaledArms: the scale is that of the evidence, fading is weighting, and a change is noticed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import CorruptState, InvalidValue
from bridle.kernels import scaled
from bridle.kernels.posterior import refresh_all
from bridle.reward.scaled import ScaledArms


def history(seed: int, n: int, K: int, d: int, noise: float = 0.1):
    """Draw plays of arms whose rewards are linear in contexts that end in 1."""
    rng = np.random.default_rng(seed)
    C = np.hstack([(rng.random((n, d - 1)) < 0.4).astype(float), np.ones((n, 1))])
    which, W = rng.integers(0, K, n), rng.normal(0.3, 0.2, (K, d))
    y = (C * W[which]).sum(axis=1) + rng.normal(0.0, noise, n)
    return which, C, np.clip(y, 0.0, 1.0)


def trained(forget="auto", seed: int = 3, n: int = 700, K: int = 4, d: int = 5) -> ScaledArms:
    arms = ScaledArms(arms=K, features=d, forget=forget)
    arms.update_many(*history(seed, n, K, d))
    return arms


def take_prior(arms: ScaledArms, other: ScaledArms) -> None:
    """Expect of arms what others expect."""
    scaled.change_precision(arms.kernel_state, arms.prior, *held(other))
    arms.kernel_state = arms.kernel_state._replace(ridge=other.ridge)
    scaled.change_mean(arms.kernel_state, arms.prior, other.prior[scaled.MEAN])
    refresh_all(arms.kernel_state)


def same_bits(one: ScaledArms, other: ScaledArms) -> bool:
    a, b = one.to_state(), other.to_state()
    return a.keys() == b.keys() and all(a[x].tobytes() == b[x].tobytes() for x in a)


def pooled(C, y, rate: float, hold: float):
    """Solve for what arms have in common."""
    B = C.T @ C + hold * np.eye(C.shape[1])
    return np.linalg.solve(B, C.T @ (y - rate))


def dense(which, C, y, weight, slopes: float, intercept: float, rate: float, common, K: int):
    """Solve it the plain way: log evidence but for a constant, squares left, means, inverses."""
    d, mass = C.shape[1], weight.sum()
    prior = np.full(d, slopes)
    prior[-1] = intercept
    left = y - rate - C @ common
    rest, log_det = (weight * left**2).sum(), 0.0
    means, inverses = np.zeros((K, d)), np.zeros((K, d, d))
    for k in range(K):
        w, X = weight[which == k], C[which == k]
        B = (X.T * w) @ X + np.diag(prior)
        h = (X.T * w) @ left[which == k]
        inverses[k] = np.linalg.inv(B)
        means[k] = inverses[k] @ h
        rest -= h @ means[k]
        log_det += np.linalg.slogdet(B)[1] - np.log(prior).sum()
    return -0.5 * (mass * np.log(rest / mass) + log_det), rest, means + common, inverses


def held(arms: ScaledArms) -> tuple[float, float]:
    """Return the precisions of slopes and of the intercept."""
    return float(arms.prior[scaled.PRECISION, 0]), arms.ridge


def best(found: dict[float, float], guess: float, doubt: float) -> float:
    """Return the value of the highest posterior."""
    return max(found, key=lambda x: found[x] - 0.5 * (np.log(x / guess) / doubt) ** 2)


def best_pair(found: dict[tuple[float, float], float], guess: float, doubt: float):
    """Return the precisions of slopes and of the intercept, and how much looser that is."""

    def posterior(pair: tuple[float, float]) -> float:
        off, far = np.log(pair[0] / guess) / doubt, np.log(pair[1]) / scaled.LOOSER_DOUBT
        return float(found[pair] - 0.5 * (off**2 + far**2))

    slopes, looser = max(found, key=posterior)
    return slopes, slopes * looser


@pytest.mark.parametrize("noise", [0.02, 0.3])
@pytest.mark.parametrize("at_once", [False, True])
def test_noise_and_priors_are_those_of_the_evidence(noise, at_once) -> None:
    n, K, d = 1024, 4, 5  # 1,024 is a count at which all are found
    which, C, y = history(5, n, K, d, noise)
    arms = ScaledArms(arms=K, features=d, forget="never")
    rate, one = (y.sum() + 0.5) / (n + 1), np.ones(n)
    unit = (rate * (1 - rate)) ** 2 * scaled.SCALE_GUESS
    if at_once:
        arms.fold_many(which, C, y)
        guess = (((y - rate) ** 2).sum() + 0.0625) / (n + 1) / unit
        same = np.zeros(n, np.int64)  # as if all were plays of one arm
        tight = {x: dense(same, C, y, one, x, x, rate, 0 * C[0], 1)[0] for x in scaled.RIDGES}
        hold, doubt = best(tight, guess, scaled.SCALE_DOUBT), scaled.SCALE_DOUBT
        assert arms.num[scaled.HOLD] == hold
    else:
        arms.update_many(which[:-1], C[:-1], y[:-1])
        hold, guess, doubt = arms.noise**2 / unit, scaled.RIDGE_GUESS, scaled.RIDGE_DOUBT
        arms.update_many(which[-1:], C[-1:], y[-1:])
    assert arms.rate == pytest.approx(rate, abs=1e-12)
    common = pooled(C, y, rate, hold)
    assert arms.common == pytest.approx(common, abs=1e-9)
    pairs = [(x, q) for x in scaled.RIDGES for q in scaled.LOOSER]
    found = {(x, q): dense(which, C, y, one, x, q * x, rate, common, K)[0] for x, q in pairs}
    precision = best_pair(found, guess, doubt)
    assert (arms.prior[scaled.PRECISION, 0], arms.ridge) == precision
    slopes, intercept = precision
    _, rest, means, inverses = dense(which, C, y, one, slopes, intercept, rate, common, K)
    assert arms.noise == pytest.approx(np.sqrt((rest + 0.0625) / (n + 1)), abs=1e-9)
    mean, sd = arms.scores(C[0])
    assert mean == pytest.approx(rate * C[0, -1] + means @ C[0], abs=1e-9)
    square = np.einsum("i,kij,j->k", C[0], inverses, C[0])
    assert sd == pytest.approx(arms.noise * np.sqrt(square), abs=1e-9)


def test_where_arms_differ_everywhere_alike_the_intercept_is_held_more_loosely() -> None:
    which, C, y = history(17, 1024, 40, 5)
    level = np.random.default_rng(18).uniform(0.1, 0.9, 40)
    arms, other = (ScaledArms(arms=40, features=5, forget="never") for _ in range(2))
    arms.update_many(which, C, np.clip(0.1 * (y - 0.5) + level[which], 0.0, 1.0))
    slopes, intercept = held(arms)
    assert intercept <= 0.1 * slopes
    other.update_many(which, C, y)  # here each weight varies as much as any
    slopes, intercept = held(other)
    assert intercept >= 0.3 * slopes


def test_an_untried_arm_is_expected_to_earn_what_is_earned_in_such_a_context() -> None:
    which, C, y = history(15, 1024, 4, 5)
    y = np.clip(y + 0.2 * C[:, 0], 0.0, 1.0)  # in such contexts every arm earns more
    arms = ScaledArms(arms=4, features=5, forget="never")
    arms.update_many(which, C, y)
    arms.grow(1)
    there, not_there = np.eye(5)[0] + np.eye(5)[4], np.eye(5)[4]
    lift = arms.scores(there)[0][4] - arms.scores(not_there)[0][4]
    assert lift == pytest.approx(y[C[:, 0] > 0].mean() - y[C[:, 0] == 0].mean(), abs=0.05)
    arms.reset(0)
    assert arms.scores(there)[0][0] == arms.scores(there)[0][4]


def test_draws_are_narrower_the_more_was_learned() -> None:
    which, C, y = history(16, 1024, 4, 5)
    arms = ScaledArms(arms=4, features=5, forget="never")
    assert arms.unit == arms.noise
    for n in (1, 2, 4, 1024):
        arms.update_many(*(part[int(arms.num[scaled.COUNT]) : n] for part in (which, C, y)))
        assert arms.unit == pytest.approx(arms.noise * 2.0 ** (-0.1 * np.log2(n)), rel=1e-12)


def test_the_noise_is_in_the_units_of_rewards() -> None:
    which, C, y = history(6, 1024, 3, 4)
    wide, narrow = (ScaledArms(arms=3, features=4, forget="never") for _ in range(2))
    wide.update_many(which, C, y)
    narrow.update_many(which, C, 0.01 * y)
    # The first guess, one observation, weighs .0625/1025 in the squares of both.
    assert narrow.noise**2 - 0.0625 / 1025 == pytest.approx(1e-4 * wide.noise**2, rel=0.05)


@given(st.integers(0, 2**32), st.integers(0, 150), st.sampled_from(["auto", "never", 40.0]))
def test_bits_do_not_depend_on_batches_or_pauses(seed, cut, forget) -> None:
    which, C, y = history(seed, 150, 3, 4)
    one, other = (ScaledArms(arms=3, features=4, forget=forget) for _ in range(2))
    for k, c, r in zip(which.tolist(), C, y.tolist(), strict=True):
        one.update(k, c, r)
    other.update_many(which[:cut], C[:cut], y[:cut])
    other = ScaledArms.from_state(other.to_state())
    other.update_many(which[cut:], C[cut:], y[cut:])
    assert same_bits(one, other)
    assert same_bits(one, one.copy())


def test_a_half_life_is_a_weight_for_each_block() -> None:
    n, K, d, half_life = 400, 3, 4, 80.0
    which, C, y = history(7, n, K, d)
    arms = ScaledArms(arms=K, features=d, forget=half_life)
    arms.update_many(which, C, y)
    block = int(half_life) // scaled.BLOCKS
    passed = n // block - np.arange(n) // block  # blocks that have ended since
    weight = 2.0 ** (-passed * block / half_life)
    rate = ((weight * y).sum() + 0.5) / (weight.sum() + 1.0)
    assert arms.rate == pytest.approx(rate, abs=1e-9)
    _, _, means, _ = dense(which, C, y, weight, *held(arms), rate, arms.common, K)
    assert arms.scores(C[0])[0] == pytest.approx(rate + means @ C[0], abs=1e-9)


def test_what_is_recent_is_a_weight_for_each_block() -> None:
    n, K, d = 1530, 3, 4  # the scale was found at 1,408, before the last block began
    which, C, y = history(8, n, K, d)
    arms = ScaledArms(arms=K, features=d)
    arms.update_many(which, C, y)
    every, block = scaled.BLOCK, n // scaled.BLOCK
    weight = 2.0 ** (-(block - np.arange(n) // every) * every / scaled.RECENT)
    assert arms.num[scaled.NEW_SUM] == pytest.approx((weight * y).sum(), rel=1e-9)
    # What predicts the rewards of this block is what was known as it began.
    old = np.arange(n) < block * every
    rates = [(y[old].sum() + 0.5) / (old.sum() + 1.0)]
    rates.append(((weight * y)[old].sum() + 0.5) / (weight[old].sum() + 1.0))
    e = np.eye(d)[-1]
    for k in range(K):
        assert arms.recent.stamps[k] == block
        mine = old & (which == k)
        length = (C[mine] ** 2).sum() / mine.sum()
        squares = []
        for i, w in enumerate((np.ones(n)[mine], weight[mine])):
            prior = np.diag(arms.prior[scaled.PRECISION])
            B = (C[mine].T * w) @ C[mine] + prior
            f = (C[mine].T * w) @ y[mine] + prior @ (arms.prior[scaled.MEAN] + rates[i] * e)
            assert arms.recent.weights[k, i] == pytest.approx(np.linalg.solve(B, f), abs=1e-9)
            squares.append(1.0 + length / (np.trace(B) / d))
        assert arms.recent.scales[k, :2] == pytest.approx(squares, rel=1e-9)
        assert arms.recent.scales[k, 2] == pytest.approx(np.log(squares[0] / squares[1]) / 2)
        gone = 1.0 - weight[mine]
        faded = (C[mine].T * gone) @ C[mine]
        assert arms.recent.gram[k] == pytest.approx(faded[np.tril_indices(d)], abs=1e-9)
        assert arms.recent.f[k] == pytest.approx((C[mine].T * gone) @ y[mine], abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_it_begins_anew_where_rewards_have_changed_and_not_before(seed) -> None:
    # Without a change the likelihood ratio is a martingale at best: it exceeds e^15 with
    # probability e^-15 from each start, in all below 2,000 · 3e-7 = 6e-4; the seeds are fixed.
    K, d = 4, 5
    arms = ScaledArms(arms=K, features=d)
    arms.update_many(*history(seed, 2000, K, d))
    assert arms.num[scaled.MASS] == 2000.0
    which, C, y = history(seed + 100, 1500, K, d)
    arms.update_many(which, C, y)
    assert arms.num[scaled.MASS] < 3000.0
    still = ScaledArms(arms=K, features=d, forget="never")
    still.update_many(*history(seed, 2000, K, d))
    still.update_many(which, C, y)

    def off(model: ScaledArms) -> float:
        fresh = ScaledArms(arms=K, features=d, forget="never")
        fresh.update_many(which, C, y)
        return float(np.abs(model.scores_many(C[:50])[0] - fresh.scores_many(C[:50])[0]).mean())

    assert off(arms) < 0.5 * off(still)


@pytest.mark.parametrize("K", [2, 7])
def test_a_batch_that_begins_anew_has_the_bits_of_one_by_one(K) -> None:
    # So many plays that arms are refreshed within batches, and blocks end there.
    parts = zip(history(1, 1100, K, 5), history(101, 900, K, 5), strict=True)
    which, C, y = (np.concatenate(pair) for pair in parts)
    one, many = (ScaledArms(arms=K, features=5) for _ in range(2))
    for k, c, r in zip(which.tolist(), C, y.tolist(), strict=True):
        one.update(k, c, r)
    assert one.num[scaled.MASS] < 1900.0  # it has begun anew
    first = 0
    for last in (0, 1, 40, 555, 1090, 2000):
        many.update_many(which[first:last], C[first:last], y[first:last])
        first = last
    assert same_bits(one, many)


def test_history_at_once_is_what_one_by_one_learns_but_for_the_scale() -> None:
    which, C, y = history(9, 900, 4, 5)
    many, one = (ScaledArms(arms=4, features=5) for _ in range(2))
    many.fold_many(which, C[:, :-1], y)
    one.update_many(which, C, y)
    assert many.num[: scaled.NOISE] == pytest.approx(one.num[: scaled.NOISE], rel=1e-12)
    new = slice(scaled.NEW_SUM, scaled.SURPLUS)
    assert many.num[new] == pytest.approx(one.num[new], rel=1e-12)
    assert held(many)[0] in scaled.RIDGES
    assert many.noise == pytest.approx(one.noise, rel=0.05)
    take_prior(many, one)
    assert many.means == pytest.approx(one.means, abs=1e-9)
    for arms in (one, many):
        scaled.fade_all_recent(arms.kernel_state, arms.recent, arms.prior, arms._block())
    assert many.recent.gram == pytest.approx(one.recent.gram, abs=1e-9)
    assert many.recent.f == pytest.approx(one.recent.f, abs=1e-9)


def test_two_halves_merge_to_the_whole() -> None:
    which, C, y = history(10, 600, 3, 4)
    whole, a, b = (ScaledArms(arms=3, features=4, forget="never") for _ in range(3))
    whole.update_many(which, C, y)
    a.update_many(which[:300], C[:300], y[:300])
    b.update_many(which[300:], C[300:], y[300:])
    a.merge(b)
    assert a.num[: scaled.NOISE] == pytest.approx(whole.num[: scaled.NOISE], rel=1e-12)
    take_prior(whole, a)
    assert a.means == pytest.approx(whole.means, abs=1e-9)
    both = trained()
    both.merge(trained(seed=4))
    assert both.num[scaled.COUNT] == 1400.0
    with pytest.raises(InvalidValue, match="of the same"):
        a.merge(trained())


def test_arms_come_and_are_reset() -> None:
    arms = trained()
    arms.grow(2)
    assert (arms.arms, len(arms.recent.stamps), len(arms.recent.gram)) == (6, 6, 6)
    mean, _ = arms.scores(np.ones(5))
    expected = arms.rate + arms.prior[scaled.MEAN].sum()
    assert mean[4] == mean[5] == pytest.approx(expected, rel=1e-12)
    arms.reset(0)
    assert arms.scores(np.ones(5))[0][0] == pytest.approx(expected, rel=1e-12)
    arms.update(5, np.ones(5), 0.9)


def test_forgetting_changes_on_the_way() -> None:
    arms = trained("never")
    arms.set_forget("auto")
    assert arms.forget == "auto"
    assert not arms.recent.gram.any()  # nothing has faded
    arms.update_many(*history(11, 100, 4, 5))
    arms.set_forget(100.0)
    assert arms.num[scaled.HALF_LIFE] == 100.0
    assert not arms.recent.stamps.size
    mass = arms.num[scaled.MASS]
    arms.update_many(*history(12, 100, 4, 5))
    assert arms.num[scaled.MASS] < mass
    assert same_bits(arms, ScaledArms.from_state(arms.to_state()))


@pytest.mark.parametrize("forget", ["sometimes", 0, -3.0, True, None, float("nan"), 1e10])
def test_a_way_to_forget_is_checked(forget) -> None:
    with pytest.raises(InvalidValue, match="forget"):
        ScaledArms(arms=2, features=2, forget=forget)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("num", lambda x: x[:-1]),
        ("num", lambda x: np.where(np.arange(len(x)) == scaled.NOISE, 0.0, x)),
        ("num", lambda x: np.where(np.arange(len(x)) == scaled.COUNT, 0.5, x)),
        ("num", lambda x: np.where(np.arange(len(x)) == scaled.HALF_LIFE, 3.0, x)),
        ("num", lambda x: np.where(np.arange(len(x)) == scaled.HALF_LIFE, 0.0, x)),
        ("num", lambda x: x * np.nan),
        ("num", lambda x: np.where(np.arange(len(x)) == scaled.WIDTH, 0.0, x)),
        ("prior", lambda x: x[:, :-1]),
        ("prior", lambda x: x * np.nan),
        ("prior", lambda x: np.multiply(x, [[1.0], [0.5]])),
        ("prior", lambda x: np.add(x, [[0.0], [1.0]])),
        ("recent_stamps", lambda x: x[:-1]),
        ("recent_stamps", lambda x: x + 10**9),
        ("recent_stamps", lambda x: x - 10**9),
        ("recent_gram", lambda x: x[:-1]),
        ("recent_weights", lambda x: x * np.inf),
    ],
)
def test_a_damaged_state_is_refused(name, change) -> None:
    state = trained().to_state()
    with np.errstate(invalid="ignore"):
        state[name] = change(state[name])
    with pytest.raises(CorruptState):
        ScaledArms.from_state(state)
    del state[name]
    with pytest.raises(CorruptState):
        ScaledArms.from_state(state)
