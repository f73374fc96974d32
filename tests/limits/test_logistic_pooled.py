"""Pooled logistic limits: a function of the counts alone, and units that learn from each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from bridle.errors import CorruptState, InvalidValue, LimitReached
from bridle.kernels import logistic as scoring
from bridle.kernels import pooled as pooling
from bridle.limits import Beliefs, LogisticLimits, PooledLimits, logistic

GROUPS = ["child", "adult", "child", None, None]


def bits(limits: PooledLimits) -> dict[str, bytes]:
    """Everything that is known and everything that is made of it."""
    all_bits = {name: array.tobytes() for name, array in limits.to_state().items()}
    for u in range(limits.units):
        mean, cov = limits.coefficients(u)
        all_bits[f"mean{u}"], all_bits[f"cov{u}"] = mean.tobytes(), cov.tobytes()
    return all_bits


def answers(seed: int, n: int = 40, K: int = 5, d: int = 3):
    rng = np.random.default_rng(seed)
    C = (rng.random((n, d)) < 0.5) * rng.integers(1, 3, (n, d)).astype(float)
    return C, rng.integers(0, K, n), rng.random(n) < 0.5


def taught(seed: int, n: int = 40, **settings) -> PooledLimits:
    limits = PooledLimits(**{"arms": 5, "features": 3, "groups": GROUPS, **settings})
    limits.learn_many(*answers(seed, n))
    return limits


def reference(limits: PooledLimits):
    """Mean and covariance of each unit's (w + v_u, a_u), from one dense Hessian."""
    d, U = limits.features, limits.units
    size = d + U * (d + 1)
    own = [slice(d + u * (d + 1), d + (u + 1) * (d + 1)) for u in range(U)]
    rows = [np.empty((0, size))]
    yes: list[int] = []
    no: list[int] = []
    for u in range(U):
        C, allowed, denied = limits.counts(u)
        X = np.zeros((len(C), size))
        X[:, :d] = C
        X[:, own[u]] = np.column_stack([C, np.ones(len(C))])
        rows.append(X)
        yes.extend(allowed)
        no.extend(denied)
    X, y, z = np.concatenate(rows), np.array(yes, np.float64), np.array(no, np.float64)
    block = [limits.own_sd**-2] * d + [limits.intercept_sd**-2]
    precision = np.array([limits.shared_sd**-2] * d + block * U)
    t = np.zeros(size)
    for _ in range(200):
        m = X @ t
        H = (X.T * ((y + z) * expit(m) * expit(-m))) @ X + np.diag(precision)
        step = np.linalg.solve(H, X.T @ (y * expit(-m) - z * expit(m)) - precision * t)
        far = np.abs(X @ step).max(initial=0.0)
        if far < 1e-12:
            break
        t += step * min(1.0, 1.0 / far)
    cov = np.linalg.inv(H)
    for u in range(U):
        L = np.zeros((d + 1, size))
        L[:d, :d] = np.eye(d)
        L[:, own[u]] += np.eye(d + 1)
        yield L @ t, L @ cov @ L.T


def test_pooled_limits_keep_the_protocols() -> None:
    limits = PooledLimits(arms=5, features=3, groups=GROUPS)
    assert isinstance(limits, Beliefs)
    assert (limits.arms, limits.features, limits.units) == (5, 3, 4)
    assert limits.unit_of.tolist() == [0, 1, 0, 2, 3]
    assert limits.groups == tuple(GROUPS)
    assert PooledLimits(arms=3, features=1).unit_of.tolist() == [0, 1, 2]


def test_untaught_limits_are_the_prior() -> None:
    limits = PooledLimits(arms=2, features=2, shared_sd=3.0, own_sd=4.0, intercept_sd=2.0)
    m, s = limits.log_odds(0, [[0.0, 0.0], [3.0, 4.0]])
    assert m.tolist() == [0.0, 0.0]
    assert s == pytest.approx([2.0, np.sqrt(25.0 * 25.0 + 4.0)], rel=1e-15)
    look = limits.predict_all([[0.0, 0.0], [3.0, 4.0]])
    assert look.p.tolist() == [[0.5, 0.5]] * 2
    assert not look.safe.any() and look.possible.all()


@given(st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([2, 3, 12]), st.booleans())
def test_a_look_is_the_formulas_of_the_reference(seed, n, d, dense) -> None:
    C, arms, allowed = answers(seed, n, d=d)
    if dense:
        C = C * np.random.default_rng(seed + 1).standard_normal(C.shape)
    limits = PooledLimits(arms=5, features=d, groups=GROUPS, doubt=0.1)
    limits.learn_many(C, np.minimum(arms, 3), allowed)  # the last arm is never taught
    limits.grow(2, groups=[None, "adult"])
    X = np.column_stack([C, np.ones(n)])
    every = limits.predict_all(C)
    for u, (mean, cov) in enumerate(reference(limits)):
        m, s = X @ mean, np.sqrt(np.einsum("ni,ij,nj->n", X, cov, X))
        got = limits.log_odds(u, C)
        near = 3.0 * pooling.NEAR  # how near the fit comes: see kernels.pooled
        assert got[0] == pytest.approx(m, abs=near) and got[1] == pytest.approx(s, abs=near)
        look = limits.predict(u, C)
        assert look.p == pytest.approx(expit(m / np.sqrt(1.0 + np.pi * s**2 / 8.0)), abs=1e-9)
        assert look.safe.tolist() == (look.p >= 0.9).tolist()
        assert look.possible.tolist() == (look.p >= 0.1).tolist()
        nats = [scoring.information(a, b) for a, b in zip(*got, strict=True)]
        assert look.information.tolist() == nats
        for name in ("p", "safe", "possible", "information", "sd"):
            assert getattr(every, name)[u].tobytes() == getattr(look, name).tobytes()


@given(st.integers(0, 10**6), st.integers(1, 30), st.randoms())
def test_what_is_believed_depends_on_the_counts_alone(seed, n, random) -> None:
    C, arms, allowed = answers(seed, n)
    batch = taught(seed, n)
    order = list(range(n))
    random.shuffle(order)
    one = PooledLimits(arms=5, features=3, groups=GROUPS)
    for i in order:
        units = one.learn(C[i], int(arms[i]), bool(allowed[i]), key=i)
        assert units.tolist() == [0, 1, 2, 3]
        if random.random() < 0.2:
            one.predict_all(C)  # a fit on the way leaves nothing behind
    assert bits(one) == bits(batch)
    halves = PooledLimits(arms=5, features=3, groups=GROUPS)
    halves.learn_many(C[n // 2 :], arms[n // 2 :], allowed[n // 2 :])
    changed = halves.learn_many(C[: n // 2], arms[: n // 2], allowed[: n // 2])
    assert changed.tolist() == ([0, 1, 2, 3] if n // 2 else [])
    assert bits(halves) == bits(batch)


@given(st.integers(0, 10**6), st.integers(1, 30), st.data())
def test_what_is_left_out_of_relearning_was_never_learned(seed, n, data) -> None:
    C, arms, allowed = answers(seed, n)
    gone = data.draw(st.sets(st.integers(0, n - 1)))
    stand = [i for i in range(n) if i not in gone]
    limits, without = taught(seed, n), PooledLimits(arms=5, features=3, groups=GROUPS)
    without.learn_many(C[stand], arms[stand], allowed[stand])
    for u in range(limits.units):
        mine = [i for i in stand if limits.unit_of[arms[i]] == u]
        assert limits.refit(u, C[mine], allowed[mine], mine).tolist() == [0, 1, 2, 3]
    assert bits(limits) == bits(without)


def test_what_others_say_helps_a_unit_of_few_answers() -> None:
    # Four groups are taught the same rule, "not the first two of eight"; a fifth has two answers.
    rng = np.random.default_rng(3)
    C = (rng.random((60, 8)) < 0.3).astype(float)
    allowed = C[:, :2].sum(axis=1) == 0.0
    few = [int(np.flatnonzero(allowed)[0]), int(np.flatnonzero(~allowed)[0])]
    arms = np.concatenate([np.repeat(np.arange(4), 60), [4, 4]])
    rows = np.concatenate([np.tile(np.arange(60), 4), few])
    both = PooledLimits(arms=5, features=8), LogisticLimits(arms=5, features=8)
    loss = []
    test = (rng.random((500, 8)) < 0.3).astype(float)
    truth = test[:, :2].sum(axis=1) == 0.0
    for limits in both:
        limits.learn_many(C[rows], arms, allowed[rows])
        p = limits.predict(4, test).p
        loss.append(-np.log(np.where(truth, p, 1.0 - p)).mean())
        if limits is both[0]:
            assert ((p > 0.5) == truth).mean() > 0.95
    assert loss[0] < 0.3 < 0.55 < loss[1]


def test_a_unit_of_many_answers_goes_its_own_way() -> None:
    limits = PooledLimits(arms=2, features=1)
    for _ in range(100):
        for arm in (0, 1):
            limits.learn([1.0], arm, arm == 0)
            limits.learn([0.0], arm, True)
    p = limits.predict_all([[1.0]]).p[:, 0]
    assert p[0] > 0.95 and p[1] < 0.05


def test_a_new_unit_starts_from_what_all_share() -> None:
    limits = taught(2)
    C = answers(3)[0]
    limits.predict_all(C)
    limits.grow(3, groups=["adult", None, "new"])
    limits.grow()
    assert limits.arms == 9 and limits.unit_of.tolist() == [0, 1, 0, 2, 3, 1, 4, 5, 6]
    p = limits.predict_all(C).p
    assert p[4].tolist() == p[5].tolist() == p[6].tolist() != [0.5] * len(C)
    assert limits.learn(C[0], 5, False).tolist() == list(range(7))
    whole = PooledLimits(arms=9, features=3, groups=[*GROUPS, "adult", None, "new", None])
    whole.learn_many(*answers(2))
    whole.learn(C[0], 1, False)
    assert bits(limits) == bits(whole)


def test_beliefs_that_are_too_many_to_keep_are_worked_out_at_every_look(monkeypatch) -> None:
    C = answers(3)[0]
    kept = taught(4).predict_all(C)
    monkeypatch.setattr(logistic, "MAX_KEPT", 1)
    limits = taught(4)
    assert limits.predict_all(C).p.tolist() == limits.predict_all(C).p.tolist() == kept.p.tolist()


def test_a_copy_learns_apart() -> None:
    limits = taught(4)
    before, twin = bits(limits), limits.copy()
    assert bits(twin) == before
    twin.learn([2.0, 2.0, 0.0], 0, False)
    twin.grow()
    twin.coefficients(0)[0][:] = 7.0
    assert bits(limits) == before != bits(twin)
    third = limits.copy()
    limits.learn([2.0, 2.0, 0.0], 0, False)
    assert bits(third) == before


def test_a_restart_has_the_bits_of_none() -> None:
    C, arms, allowed = answers(5)
    settings = {
        "groups": ["a", 3, "a", None, "ü"],
        "shared_sd": 2.0,
        "own_sd": 0.5,
        "intercept_sd": 1.0,
        "doubt": 0.05,
    }
    whole = taught(5, **settings)
    limits = PooledLimits(arms=5, features=3, **settings)
    for i, (c, k, answer) in enumerate(zip(C, arms, allowed, strict=True)):
        if i % 13 == 0:
            limits = PooledLimits.from_state(limits.to_state())
        limits.learn(c, k, answer)
    assert bits(limits) == bits(whole)
    assert limits.groups == whole.groups
    got = limits.shared_sd, limits.own_sd, limits.intercept_sd, limits.doubt
    assert got == (2.0, 0.5, 1.0, 0.05)


def test_a_fold_is_learning_and_returns_what_was_predicted() -> None:
    rng = np.random.default_rng(4)
    one, two = (PooledLimits(arms=2, features=3) for _ in range(2))
    for i in range(8):
        c = rng.standard_normal(3)
        assert two.fold(c, i % 2, i % 3 > 0, 0)[0][1][0] == one.predict(i % 2, [c]).p[0]
        one.learn(c, i % 2, i % 3 > 0)
        assert bits(one) == bits(two)


def test_counts_are_readable() -> None:
    limits = PooledLimits(arms=1, features=1)
    for answer in (True, True, False):
        limits.learn([0.0], 0, answer)
    limits.learn([-0.0], 0, True)
    C, yes, no = limits.counts(0)
    assert (C.tolist(), yes.tolist(), no.tolist()) == ([[0.0]], [3], [1])


def test_a_batch_that_is_too_large_changes_nothing(monkeypatch) -> None:
    monkeypatch.setattr(logistic, "MAX_ENTRIES", 8)  # two contexts of four columns
    limits = PooledLimits(arms=2, features=3)
    limits.learn(np.ones(3), 1, True)
    before = bits(limits)
    limits.check_room(1, 1)
    for call in (
        lambda: limits.check_room(1, 2),
        lambda: limits.learn_many(np.arange(12.0).reshape(4, 3), [0, 1, 1, 1], [1, 1, 1, 1]),
        lambda: limits.refit(1, np.arange(12.0).reshape(4, 3), [1, 1, 1, 1]),
    ):
        with pytest.raises(LimitReached):
            call()
    assert bits(limits) == before


# Errors


BAD_SETTINGS = [
    {"arms": 0},
    {"features": 0},
    {"features": 2_000},
    {"shared_sd": 0.0},
    {"own_sd": -1.0},
    {"intercept_sd": np.inf},
    {"doubt": 0.0},
    {"doubt": 0.6},
    {"groups": "abcde"},
    {"groups": ["a"]},
    {"groups": ["a", "b", "c", "d", True]},
]


@pytest.mark.parametrize("bad", BAD_SETTINGS, ids=str)
def test_bad_settings_are_refused(bad) -> None:
    with pytest.raises(InvalidValue, match=f"The '{next(iter(bad))}' parameter of PooledLimits"):
        PooledLimits(**{"arms": 5, "features": 3, **bad})


C3 = [1.0, 0.0, 2.0]
BAD_CALLS = {
    "answer": (lambda x: x.learn(C3, 0, "yes"), "'allowed' parameter of PooledLimits.learn "),
    "arm": (lambda x: x.learn(C3, 5, True), "'arm' parameter of PooledLimits.learn "),
    "context": (lambda x: x.learn([1.0], 0, True), "'context' parameter"),
    "many arms": (lambda x: x.learn_many([C3], [5], [True]), "PooledLimits.learn_many"),
    "many answers": (lambda x: x.learn_many([C3], [0], [0.5]), "'allowed' parameter"),
    "look": (lambda x: x.predict(-1, [C3]), "'unit' parameter of PooledLimits.predict"),
    "log odds": (lambda x: x.log_odds(4, [C3]), "'unit' parameter of PooledLimits.log_odds"),
    "look all": (
        lambda x: x.predict_all([[1.0]]),
        "'contexts' parameter of PooledLimits.predict_all",
    ),
    "weights": (lambda x: x.coefficients(-1), "'unit' parameter of PooledLimits.coefficients"),
    "counts": (lambda x: x.counts(4), "'unit' parameter of PooledLimits.counts"),
    "relearn": (lambda x: x.refit(4, [C3], [True]), "'unit' parameter"),
    "grow": (lambda x: x.grow(2, groups=["a"]), "2 names of groups"),
    "grow none": (lambda x: x.grow(0), "'arms' parameter"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_says_what_is_wrong_and_changes_nothing(name) -> None:
    call, message = BAD_CALLS[name]
    limits = taught(6)
    before = bits(limits)
    with pytest.raises(InvalidValue) as caught:
        call(limits)
    assert message in str(caught.value)
    assert bits(limits) == before


DAMAGE = {
    "no counts": lambda s: s.pop("allowed"),
    "another array": lambda s: s.update(more=np.zeros(1)),
    "counts as floats": lambda s: s.update(allowed=s["allowed"].astype(float)),
    "a count below 0": lambda s: s["allowed"].__setitem__(0, -1),
    "no answers for a context": lambda s: (s["allowed"].fill(0), s["denied"].fill(0)),
    "fewer counts": lambda s: s.update(denied=s["denied"][:-1]),
    "contexts out of order": lambda s: s.update(contexts=s["contexts"][::-1].copy()),
    "contexts that are no numbers": lambda s: s["contexts"].fill(np.nan),
    "contexts as ints": lambda s: s.update(contexts=s["contexts"].astype(int)),
    "contexts in a row": lambda s: s.update(contexts=s["contexts"].ravel()),
    "contexts of a list": lambda s: s.update(contexts=s["contexts"].tolist()),
    "ends that fall": lambda s: s.update(ends=s["ends"][::-1].copy()),
    "ends below 0": lambda s: s["ends"].__setitem__(0, -1),
    "ends too few": lambda s: s.update(ends=s["ends"][:-1]),
    "ends too early": lambda s: s["ends"].__setitem__(-1, s["ends"][-1] - 1),
    "groups of no JSON": lambda s: s.update(groups=np.array(["{"] * 5)),
    "groups of a number": lambda s: s.update(groups=np.array([5])),
    "groups in one": lambda s: s.update(groups=np.array("[1, 2]")),
    "groups of a list": lambda s: s.update(groups=np.array(["[1]"] * 5)),
    "settings out of range": lambda s: s["settings"].__setitem__(3, 1.5),
    "settings of three": lambda s: s.update(settings=s["settings"][:3]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_state_is_refused(name) -> None:
    state = taught(7).to_state()
    DAMAGE[name](state)
    with pytest.raises(CorruptState, match=r"^PooledLimits"):
        PooledLimits.from_state(state)


@pytest.mark.parametrize("state", [None, 3, [], "state"])
def test_what_is_no_state_is_refused(state) -> None:
    with pytest.raises(CorruptState):
        PooledLimits.from_state(state)


def test_a_state_of_more_contexts_than_fit_is_refused(monkeypatch) -> None:
    state = taught(7).to_state()
    monkeypatch.setattr(logistic, "MAX_ENTRIES", 8)
    with pytest.raises(CorruptState):
        PooledLimits.from_state(state)
