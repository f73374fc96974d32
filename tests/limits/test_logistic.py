"""Logistic limits: a function of the counts alone, for arms or for groups of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from bridle.errors import CorruptState, InvalidValue, LimitReached, NotPossible
from bridle.limits import Beliefs, Limits, logistic
from bridle.limits.logistic import LogisticLimits, Tally
from tests.conformance.linear import LIMITS
from tests.conftest import JIT, size

GROUPS = ["child", "adult", "child", None, None]


def bits(limits: LogisticLimits) -> dict[str, bytes]:
    """Everything that is known and everything that is made of it."""
    all_bits = {name: array.tobytes() for name, array in limits.to_state().items()}
    for u in range(limits.units):
        w, C = limits.coefficients(u)
        all_bits[f"w{u}"], all_bits[f"C{u}"] = w.tobytes(), C.tobytes()
    return all_bits


def answers(seed: int, n: int = 40, K: int = 5, d: int = 3):
    rng = np.random.default_rng(seed)
    C = (rng.random((n, d)) < 0.5) * rng.integers(1, 3, (n, d)).astype(float)
    return C, rng.integers(0, K, n), rng.random(n) < 0.5


def taught(seed: int, n: int = 40, **settings) -> LogisticLimits:
    limits = LogisticLimits(**{"arms": 5, "features": 3, "groups": GROUPS, **settings})
    limits.learn_many(*answers(seed, n))
    return limits


def test_logistic_limits_keep_both_protocols() -> None:
    limits = LogisticLimits(arms=5, features=3, groups=GROUPS)
    assert isinstance(limits, Beliefs) and isinstance(limits, Limits)
    assert (limits.arms, limits.features, limits.units, limits.columns) == (5, 3, 4, 4)
    assert limits.unit_of.tolist() == [0, 1, 0, 2, 3]
    assert limits.groups == tuple(GROUPS)
    assert LogisticLimits(arms=3, features=1).unit_of.tolist() == [0, 1, 2]


@pytest.mark.parametrize("check", LIMITS, ids=str)
@pytest.mark.skipif(not JIT, reason="slow in plain Python")
def test_the_checks_of_any_limits(check) -> None:
    check(LogisticLimits)


def test_untaught_limits_are_the_prior() -> None:
    limits = LogisticLimits(arms=2, features=2, prior_sd=2.0)
    m, s = limits.log_odds(0, [[0.0, 0.0], [3.0, 4.0]])
    assert m.tolist() == [0.0, 0.0]
    assert s == pytest.approx([2.0, 2.0 * np.sqrt(26.0)], rel=1e-15)
    look = limits.predict(0, [[0.0, 0.0], [3.0, 4.0]])
    assert look.p.tolist() == [0.5, 0.5]
    assert not look.safe.any() and look.possible.all()


@given(st.integers(0, 10**6), st.integers(1, 30), st.booleans(), st.randoms())
def test_what_is_believed_depends_on_the_counts_alone(seed, n, crosses, random) -> None:
    C, arms, allowed = answers(seed, n)
    batch = taught(seed, n, crosses=crosses)
    order = list(range(n))
    random.shuffle(order)
    one = LogisticLimits(arms=5, features=3, groups=GROUPS, crosses=crosses)
    for i in order:
        units = one.learn(C[i], int(arms[i]), bool(allowed[i]), key=i)
        assert units.tolist() == [one.unit_of[arms[i]]]
        if random.random() < 0.2:
            one.predict(int(units[0]), C)  # a fit on the way leaves nothing behind
    assert bits(one) == bits(batch)
    halves = LogisticLimits(arms=5, features=3, groups=GROUPS, crosses=crosses)
    halves.learn_many(C[n // 2 :], arms[n // 2 :], allowed[n // 2 :])
    changed = halves.learn_many(C[: n // 2], arms[: n // 2], allowed[: n // 2])
    assert changed.tolist() == sorted(set(batch.unit_of[arms[: n // 2]].tolist()))
    assert bits(halves) == bits(batch)


@given(st.integers(0, 10**6), st.integers(1, 30), st.data())
def test_what_is_forgotten_was_never_learned(seed, n, data) -> None:
    C, arms, allowed = answers(seed, n)
    gone = sorted(data.draw(st.sets(st.integers(0, n - 1))))
    stand = [i for i in range(n) if i not in gone]
    limits, without = taught(seed, n), LogisticLimits(arms=5, features=3, groups=GROUPS)
    without.learn_many(C[stand], arms[stand], allowed[stand])
    refolded = limits.copy()
    for i in gone:
        assert limits.forget(C[i], int(arms[i]), bool(allowed[i])).tolist() == [
            limits.unit_of[arms[i]]
        ]
    assert bits(limits) == bits(without)
    for u in range(refolded.units):
        mine = [i for i in stand if refolded.unit_of[arms[i]] == u]
        refolded.refit(u, C[mine], allowed[mine])
    assert bits(refolded) == bits(without)


def test_only_the_unit_of_an_answer_changes() -> None:
    limits = taught(1)
    before = bits(limits)
    assert limits.learn([1.0, 0.0, 1.0], 2, True).tolist() == [0]
    after = bits(limits)
    assert after["w0"] != before["w0"]
    for u in (1, 2, 3):
        assert (after[f"w{u}"], after[f"C{u}"]) == (before[f"w{u}"], before[f"C{u}"])


def test_a_new_arm_of_a_known_group_knows_what_the_group_knows() -> None:
    limits = taught(2)
    C = answers(3)[0]
    limits.grow(3, groups=["adult", None, "new"])
    limits.grow()
    assert limits.arms == 9 and limits.unit_of.tolist() == [0, 1, 0, 2, 3, 1, 4, 5, 6]
    p, sd = limits.scores_many(C)
    assert p[:, 5].tolist() == p[:, 1].tolist() and sd[:, 5].tolist() == sd[:, 1].tolist()
    assert (p[:, 6:] == 0.5).all()
    assert limits.learn(C[0], 5, False).tolist() == [1]
    whole = LogisticLimits(arms=9, features=3, groups=[*GROUPS, "adult", None, "new", None])
    whole.learn_many(*answers(2))
    whole.learn(C[0], 1, False)
    assert bits(limits) == bits(whole)


@given(st.integers(0, 10**6), st.booleans(), st.floats(0.0, 4.0), st.floats(0.01, 0.99))
def test_a_look_is_the_formulas_of_the_weights(seed, crosses, beta, tau) -> None:
    limits = taught(seed, crosses=crosses, beta=beta, tau=tau)
    C = answers(seed + 1, 10)[0]
    u = seed % limits.units
    w, cov = limits.coefficients(u)
    pairs = [C[:, 0] * C[:, 1], C[:, 0] * C[:, 2], C[:, 1] * C[:, 2]] if crosses else []
    X = np.column_stack([C, np.ones(10), *pairs])
    m, s = X @ w, np.sqrt(np.einsum("ni,ij,nj->n", X, cov, X))
    look = limits.predict(u, C)
    assert look.p == pytest.approx(expit(m / np.sqrt(1.0 + np.pi * s**2 / 8.0)), abs=1e-9)
    level = np.log(tau / (1.0 - tau))
    for got, edge in ((look.safe, m - beta * s), (look.possible, m + beta * s)):
        clear = np.abs(edge - level) > 1e-9
        assert got[clear].tolist() == (edge >= level)[clear].tolist()
    assert (look.safe <= look.possible).all() and (look.information >= 0.0).all()
    p, sd = limits.scores_many(C)
    arm = limits.unit_of.tolist().index(u)
    assert p[:, arm].tolist() == look.p.tolist()
    small = s < 0.3
    assert sd[small, arm] == pytest.approx((look.p * (1.0 - look.p) * s)[small], rel=0.15)
    each = [limits.scores(c) for c in C]
    assert p.tolist() == [one[0].tolist() for one in each]
    assert sd.tolist() == [one[1].tolist() for one in each]


def test_stated_limits_are_learned() -> None:
    # Denied with feature 0 or 3; every context of four taught five times.
    C = np.array([[i >> b & 1 for b in range(4)] for i in range(16)], float)
    allowed = (C[:, 0] + C[:, 3]) == 0.0
    limits = LogisticLimits(arms=2, features=4, groups=["a", "a"])
    arms = np.arange(80) % 2
    limits.learn_many(np.repeat(C, 5, axis=0), arms, np.repeat(allowed, 5))
    look = limits.predict(0, C)
    assert look.safe.tolist() == allowed.tolist()
    w, cov = limits.coefficients(0)
    assert (w[[0, 3]] < -2.0 * np.sqrt(np.diag(cov))[[0, 3]]).all()


def test_a_copy_learns_apart() -> None:
    limits = taught(4)
    before, twin = bits(limits), limits.copy()
    assert bits(twin) == before
    twin.learn([2.0, 2.0, 0.0], 0, False)
    twin.grow()
    twin.coefficients(0)[0][:] = 7.0
    assert bits(limits) == before != bits(twin)


@pytest.mark.parametrize("crosses", [False, True])
def test_a_restart_has_the_bits_of_none(crosses) -> None:
    C, arms, allowed = answers(5)
    groups = ["a", 3, "a", None, "ü"]
    settings = {"groups": groups, "crosses": crosses, "beta": 2.0, "tau": 0.9, "prior_sd": 1.5}
    whole = taught(5, **settings)
    limits = LogisticLimits(arms=5, features=3, **settings)
    for i, (c, k, answer) in enumerate(zip(C, arms, allowed, strict=True)):
        if i % 13 == 0:
            limits = LogisticLimits.from_state(limits.to_state())
        limits.learn(c, k, answer)
    assert bits(limits) == bits(whole)
    assert limits.groups == whole.groups
    assert (limits.crosses, limits.beta, limits.tau, limits.prior_sd) == (crosses, 2.0, 0.9, 1.5)


def test_counts_are_readable() -> None:
    limits = LogisticLimits(arms=1, features=1)
    for answer in (True, True, False):
        limits.learn([0.0], 0, answer)
    limits.learn([-0.0], 0, True)
    C, yes, no = limits.counts(0)
    assert (C.tolist(), yes.tolist(), no.tolist()) == ([[0.0]], [3], [1])


def test_a_tally_has_a_limit() -> None:
    tally = Tally(features=1, most=2)
    tally.add(np.array([1.0]), True)
    with pytest.raises(LimitReached, match="2 distinct contexts of one unit"):
        tally.add_many(np.array([[1.0], [2.0], [3.0]]), np.ones(3, bool))
    assert tally.allowed.tolist() == [1.0]
    tally.add(np.array([2.0]), True)
    with pytest.raises(LimitReached):
        tally.add(np.array([3.0]), True)
    assert len(tally) == 2


def test_a_batch_that_is_too_large_changes_nothing(monkeypatch) -> None:
    monkeypatch.setattr(logistic, "MAX_ENTRIES", 8)  # two contexts of four columns
    limits = LogisticLimits(arms=2, features=3)
    limits.learn(np.ones(3), 1, True)
    before = bits(limits)
    with pytest.raises(LimitReached):
        limits.learn_many(np.arange(12.0).reshape(4, 3), [0, 1, 1, 1], [1, 1, 1, 1])
    with pytest.raises(LimitReached):
        limits.refit(1, np.arange(12.0).reshape(4, 3), [1, 1, 1, 1])
    assert bits(limits) == before


# Errors


BAD_SETTINGS = [
    {"arms": 0},
    {"features": 0},
    {"prior_sd": 0.0},
    {"beta": -1.0},
    {"tau": 1.0},
    {"tau": 0.0},
    {"crosses": "yes"},
    {"groups": "abcde"},
    {"groups": ["a"]},
    {"groups": ["a", "b", "c", "d", 1.5]},
    {"groups": ["a", "b", "c", "d", True]},
    {"groups": ["a", "b", "c", "d", "x" * 201]},
]


@pytest.mark.parametrize("bad", BAD_SETTINGS, ids=str)
def test_bad_settings_are_refused(bad) -> None:
    with pytest.raises(InvalidValue, match=f"The '{next(iter(bad))}' parameter of LogisticLimits"):
        LogisticLimits(**{"arms": 5, "features": 3, **bad})


C3 = [1.0, 0.0, 2.0]
BAD_CALLS = {
    "answer": (lambda x: x.learn(C3, 0, "yes"), "'allowed' parameter of LogisticLimits.learn "),
    "arm": (lambda x: x.learn(C3, 5, True), "'arm' parameter of LogisticLimits.learn "),
    "context": (lambda x: x.learn([1.0], 0, True), "'context' parameter"),
    "many arms": (lambda x: x.learn_many([C3], [5], [True]), "LogisticLimits.learn_many"),
    "many answers": (lambda x: x.learn_many([C3], [0], [0.5]), "'allowed' parameter"),
    "look": (lambda x: x.predict(4, [C3]), "'unit' parameter of LogisticLimits.predict"),
    "weights": (lambda x: x.coefficients(-1), "'unit' parameter of LogisticLimits.coefficients"),
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


def test_an_answer_that_does_not_stand_cannot_be_forgotten() -> None:
    limits = LogisticLimits(arms=2, features=1)
    limits.learn([1.0], 0, True)
    before = bits(limits)
    for context, arm, allowed in (([1.0], 0, False), ([1.0], 1, True), ([2.0], 0, True)):
        with pytest.raises(NotPossible, match=r"No answer '(allowed|denied)'"):
            limits.forget(context, arm, allowed)
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
    "ends that fall": lambda s: s.update(ends=s["ends"][::-1].copy()),
    "ends too few": lambda s: s.update(ends=s["ends"][:-1]),
    "groups of no JSON": lambda s: s["groups"].__setitem__(0, 200),
    "groups of no bytes": lambda s: s["groups"].__setitem__(0, 300),
    "groups of no list": lambda s: s.update(groups=np.array([ord("5")])),
    "settings out of range": lambda s: s["settings"].__setitem__(2, 1.5),
    "settings of two": lambda s: s.update(settings=s["settings"][:2]),
    "crosses of three": lambda s: s.update(crosses=np.zeros(3, bool)),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_state_is_refused(name) -> None:
    state = taught(7).to_state()
    DAMAGE[name](state)
    with pytest.raises(CorruptState, match=r"^LogisticLimits"):
        LogisticLimits.from_state(state)


@pytest.mark.parametrize("state", [None, 3, [], "state"])
def test_what_is_no_state_is_refused(state) -> None:
    with pytest.raises(CorruptState):
        LogisticLimits.from_state(state)


def test_many_arms_and_features_work() -> None:
    limits = LogisticLimits(arms=3, features=size(200, 20))
    rng = np.random.default_rng(8)
    C = (rng.random((60, limits.features)) < 0.05).astype(float)
    limits.learn_many(C, np.zeros(60, int), C[:, 0] == 0.0)
    look = limits.predict(0, C)
    assert ((look.p > 0.5) == (C[:, 0] == 0.0)).mean() > 0.9


def test_a_fold_is_learning_and_returns_what_was_predicted() -> None:
    rng = np.random.default_rng(4)
    one, two = (LogisticLimits(arms=2, features=3, crosses=True) for _ in range(2))
    for i in range(8):
        c = rng.standard_normal(3)
        p = one.predict(1, [c]).p[0]
        assert two.fold(c, 1, i % 3 > 0, 0)[0][1][0] == p
        one.learn(c, 1, i % 3 > 0)
        a, b = ({k: v.tobytes() for k, v in x.to_state().items()} for x in (one, two))
        assert a == b
