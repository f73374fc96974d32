"""Rules: the exact belief, the sampled one held against it, what is read back, what is noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle.errors import CorruptState, InvalidValue
from bridle.limits import rules
from bridle.limits import rules as module
from bridle.limits.base import Beliefs
from bridle.limits.rules import ERROR_GRID, RuleLimits
from tests.conftest import size


def bits(limits: RuleLimits) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in limits.to_state().items()}


def answers(seed: int, n: int, d: int, K: int = 2, flip: float = 0.0):
    """Answers of a teacher who denies features 0 and, together, 1 and 2; arm 1 nothing."""
    rng = np.random.default_rng(seed)
    C = (rng.random((n, d)) < 0.4).astype(float)
    which = rng.integers(0, K, n)
    denied = (C[:, 0] > 0) | ((C[:, 1] > 0) & (C[:, 2] > 0))
    allowed = (~denied | (which == 1)) ^ (rng.random(n) < flip)
    return C, which, allowed, rng.integers(0, 2**63, n)


def teach(limits: RuleLimits, told) -> RuleLimits:
    for c, k, allowed, key in zip(*told, strict=True):
        limits.learn(c, k, allowed, key)
    return limits


def plain(told, arm, contexts, T, prior, error, of):
    """P(allowed) by a sum over all sets, the total weight, and each term's P(denied)."""
    rows = [(of(c), a) for c, k, a, _ in zip(*told, strict=True) if k == arm]
    p, total, each = np.zeros(len(contexts)), 0.0, np.zeros(T)
    asked = [of(c) for c in contexts]
    for S in itertools.product([0, 1], repeat=T):
        w = math.prod(x if s else 1.0 - x for s, x in zip(S, prior, strict=True))
        for terms, a in rows:
            w *= 1.0 - error if (not any(S[t] for t in terms)) == a else error
        total += w
        each += w * np.array(S)
        p += [w * (not any(S[t] for t in terms)) for terms in asked]
    return p / total, total, each / total


def numbers(limits: RuleLimits):
    return lambda c: [limits.terms.number(term) for term in limits.terms.of(c)]


def test_rules_keep_the_protocol() -> None:
    limits = RuleLimits(arms=5, features=4, groups=["x", "x", 7, None, 7])
    assert isinstance(limits, Beliefs)
    assert (limits.arms, limits.features, limits.units) == (5, 4, 3)
    assert limits.unit_of.tolist() == [0, 0, 1, 2, 1]
    assert RuleLimits(arms=3, features=1).units == 3
    assert limits.learn([1, 0, 0, 0], 4, True).tolist() == [1]


def test_a_density_of_none_expects_a_short_rule() -> None:
    small = RuleLimits(arms=1, features=4, pairs=True)
    assert (small.density, small.density_pairs) == (0.33, 0.1)
    large = RuleLimits(arms=1, features=41, pairs=True)
    assert large.density == pytest.approx(3 / 41)
    assert large.density_pairs == pytest.approx(3 / 820)


@given(st.integers(0, 10**6), st.integers(0, 12), st.booleans(), st.sampled_from([0.001, 0.1]))
def test_the_exact_belief_is_the_sum_over_all_sets(seed, n, pairs, error) -> None:
    d = 3
    limits = RuleLimits(
        arms=2, features=d, pairs=pairs, error=error, density=0.3, density_pairs=0.15
    )
    told = answers(seed, n, d)
    teach(limits, told)
    contexts = list(itertools.product([0.0, 1.0], repeat=d))
    T = len(limits.terms)
    prior = [0.3] * 3 + [0.15] * (T - 3)
    evidence = []
    for u in range(2):
        p, total, each = plain(told, u, contexts, T, prior, error, numbers(limits))
        look = limits.predict(u, contexts)
        assert look.p == pytest.approx(p, abs=1e-12)
        assert look.safe.tolist() == (look.p >= 1.0 - limits.doubt).tolist()
        assert look.possible.tolist() == (look.p >= limits.doubt).tolist()
        q = p * (1 - error) + (1 - p) * error
        assert limits.predict_answer(u, contexts) == pytest.approx(q, abs=1e-12)
        h = [-x * math.log(x) - (1 - x) * math.log(1 - x) for x in [*q, error]]
        assert look.information == pytest.approx(np.array(h[:-1]) - h[-1], abs=1e-9)
        assert limits.marginals(u) == pytest.approx(each, abs=1e-12)
        evidence.append(math.log(total))
    assert limits.unit_evidence == pytest.approx(evidence, abs=1e-9)
    assert limits.log_evidence == pytest.approx(sum(evidence), abs=1e-9)


def test_an_estimated_error_is_one_rate_for_all_units() -> None:
    told = answers(3, 30, 3, flip=0.2)
    limits = teach(RuleLimits(arms=2, features=3, error=None, density=0.3), told)
    contexts = list(itertools.product([0.0, 1.0], repeat=3))
    by_rate = [
        [plain(told, u, contexts, 3, [0.3] * 3, e, numbers(limits)) for u in range(2)]
        for e in ERROR_GRID
    ]
    w = np.array([a[1] * b[1] for a, b in by_rate])
    assert limits.log_evidence == pytest.approx(math.log(w.mean()), abs=1e-9)
    w /= w.sum()
    assert limits.error == pytest.approx(np.dot(w, ERROR_GRID), abs=1e-9)
    for u in range(2):
        p = sum(x * row[u][0] for x, row in zip(w, by_rate, strict=True))
        assert limits.predict(u, contexts).p == pytest.approx(p, abs=1e-9)
    assert limits.noisy
    assert limits.learn([0, 0, 0], 0, True).tolist() == [0, 1]


def test_a_true_teacher_is_not_noisy_and_a_noisy_one_is_found_out() -> None:
    true = teach(RuleLimits(arms=2, features=3, pairs=True, error=None), answers(4, 150, 3))
    assert not true.noisy
    told = answers(4, 300, 3, flip=0.1)
    noisy = teach(RuleLimits(arms=2, features=3, pairs=True, error=None), told)
    assert noisy.noisy
    assert 0.05 < noisy.error < 0.2
    contexts = list(itertools.product([0.0, 1.0], repeat=3))
    for u in range(2):
        p, q = (limits.predict(u, contexts).p for limits in (true, noisy))
        assert p.round().tolist() == q.round().tolist()


# Sampling


def sampled(monkeypatch, clearing: bool = False, **settings) -> RuleLimits:
    monkeypatch.setattr(module, "MAX_EXACT", 0)
    monkeypatch.setattr(rules, "MAX_SAMPLED", 0 if clearing else 200)
    return RuleLimits(**settings)


@pytest.mark.parametrize("clearing", [False, True])
@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("error", [0.001, 0.1])
def test_a_sampled_belief_is_near_the_exact_one(monkeypatch, clearing, pairs, error) -> None:
    """After each of 12 answers, in all contexts.

    Redrawing makes the sets dependent. Their noise is taken as if there were a quarter of them,
    5.5 standard deviations; seen: at most half of that. Clearing leaves errors out of account that
    coincide: at a rate of .1 that shifts p by a few hundredths, at .001 by nothing that can be
    seen.
    """
    d = 4 if pairs else 10
    n = size(4_000, 200)
    settings = {"arms": 2, "features": d, "pairs": pairs, "error": error, "density": 0.25}
    exact = RuleLimits(**settings)
    assert exact.exact
    chains = sampled(monkeypatch, clearing, chains=n, **settings)
    contexts = (np.random.default_rng(0).random((40, d)) < 0.4).astype(float)
    for c, k, allowed, key in zip(*answers(11, 12, d), strict=True):
        exact.learn(c, k, allowed)
        chains.learn(c, k, allowed, int(key))
        for u in range(2):
            p = exact.predict(u, contexts).p
            far = 5.5 * np.sqrt(4 * p * (1 - p) / n) + 5 / n
            slack = 0.05 if clearing and error > 0.01 else 0.002
            assert (abs(chains.predict(u, contexts).p - p) < far + slack).all()
            assert (abs(chains.marginals(u) - exact.marginals(u)) < 0.5).all()
    # The noise of a mean of n adds up over the answers.
    assert chains.log_evidence == pytest.approx(exact.log_evidence, abs=size(0.5, 3))


@pytest.mark.parametrize("d", [11, 20])
def test_a_context_that_was_answered_is_believed(d) -> None:
    limits = RuleLimits(arms=2, features=d, pairs=True, chains=size(400, 50))
    assert not limits.exact
    C, which, allowed, key = answers(5, size(40, 8), d)
    for i, (c, k, answer) in enumerate(zip(C, which, allowed, strict=True)):
        limits.learn(c, int(k), bool(answer), int(key[i]))
        # Not always as sure as `doubt` asks for: an answer may err, if only once in a thousand.
        assert abs(limits.predict(int(k), [c]).p[0] - answer) < 0.1


def test_two_flags_among_forty_one_are_found() -> None:
    """Both together deny, as in the Warfarin world; numbers are no terms."""
    rng = np.random.default_rng(6)
    d, n = size(41, 12), size(150, 25)
    C = (rng.random((n, d)) < 0.3).astype(float)
    C[:, -2:] = rng.random((n, 2)) < 0.5
    C[:, 0] = rng.random(n)
    allowed = C[:, -2:].sum(axis=1) < 2
    above = np.full(d, 0.5)
    above[0] = np.nan
    chains = size(400, 50)
    limits = RuleLimits(arms=1, features=d, pairs=True, thresholds=above, chains=chains)
    for i in range(n):
        limits.learn(C[i], 0, bool(allowed[i]), i)
    names = [f"x{i}" for i in range(d)]
    assert limits.describe(0, names).denied == (f"x{d - 2} with x{d - 1}",)


def test_terms_in_no_answer_keep_their_prior_exactly() -> None:
    limits = RuleLimits(arms=1, features=20, density=0.2, chains=20)
    limits.learn(np.eye(20)[0], 0, False, 1)
    p = limits.predict(0, np.eye(20)[3:6].sum(axis=0)[None]).p
    assert p[0] == pytest.approx(0.8**3, abs=1e-12)


def test_many_features_fall_back_to_clearing() -> None:
    d = size(200, 25)
    limits = RuleLimits(arms=1, features=d, pairs=True, chains=20, sweeps=1)
    assert len(limits.terms) > rules.MAX_SAMPLED
    rng = np.random.default_rng(7)
    for i in range(6):
        c = (rng.random(d) < 0.1).astype(float)
        c[:2] = i % 2
        limits.learn(c, 0, i % 2 == 0, i)
    state = limits.to_state()
    assert len(state["unit0.active"]) < len(limits.terms)
    assert limits.predict(0, [c]).p[0] <= 0.05


# Known rules, readings


@pytest.mark.parametrize("d", [3, 13])
def test_known_terms_are_certain(d) -> None:
    known = {0: {0: True, 1: False}}
    limits = RuleLimits(arms=2, features=d, known=known, chains=50)
    c = np.zeros((2, d))
    c[0, 0] = c[1, 1] = 1.0
    assert limits.predict(0, c).p.tolist() == [0.0, 1.0]
    assert limits.predict(1, c).p[0] == pytest.approx(1.0 - limits.density)
    for i in range(3):  # whatever the teacher says
        limits.learn(c[0], 0, True, i)
        limits.learn(c[1], 0, False, i)
    assert limits.predict(0, c).p.tolist() == [0.0, 1.0]
    both = c.sum(axis=0)
    both[2] = 1.0
    limits.learn(both, 0, False, 9)
    assert limits.marginals(0)[:2].tolist() == [1.0, 0.0]


def test_a_rule_reads_as_a_sentence() -> None:
    names = ["Horror", "Thriller", "Crime", "Drama"]
    limits = RuleLimits(arms=1, features=4)
    for c, allowed in (([1, 0, 0, 0], 0), ([0, 1, 0, 1], 0), ([0, 0, 0, 1], 1)):
        limits.learn(c, 0, allowed)
    assert (
        limits.describe(0, names).sentence("12-17")
        == "12-17: not Horror, not Thriller; unsure: Crime"
    )
    assert limits.describe(0, names).allowed == ("Drama",)


def test_pairs_of_a_denied_feature_are_left_out_of_a_reading() -> None:
    limits = RuleLimits(arms=1, features=3, pairs=True, error=1e-4)
    for c, allowed in (([1, 0, 0], 0), ([0, 1, 0], 1), ([0, 0, 1], 1), ([0, 1, 1], 0)):
        limits.learn(c, 0, allowed)
    reading = limits.describe(0, ["a", "b", "c"])
    assert reading.sentence("all") == "all: not a, not b with c"
    assert reading.unsure == ()


# Folds


@pytest.mark.parametrize("d", [4, 13])
@pytest.mark.parametrize("error", [0.001, None])
def test_relearning_is_the_fold_of_what_stands_in_order(d, error) -> None:
    settings = {"arms": 2, "features": d, "chains": 20, "error": error, "seed": 5}
    C, which, allowed, key = answers(8, 20, d)
    limits = teach(RuleLimits(**settings), (C, which, allowed, key))
    stands = [i for i in range(20) if which[i] == 0 and i % 3]
    limits.refit(0, C[stands], allowed[stands], key[stands])
    rest = [i for i in range(20) if which[i] == 1 or i in stands]
    without = teach(RuleLimits(**settings), (C[rest], which[rest], allowed[rest], key[rest]))
    assert bits(limits) == bits(without)
    assert limits.refit(1, np.empty((0, d)), [], []).tolist() == ([1] if error else [0, 1])
    fresh = RuleLimits(**settings)
    assert limits.predict(1, C).p == pytest.approx(fresh.predict(1, C).p, abs=1e-12)


@pytest.mark.parametrize("d", [4, 13])
def test_a_restart_and_a_copy_have_the_bits_of_none(d) -> None:
    settings = {"arms": 2, "features": d, "chains": 20, "error": None, "known": {1: {2: True}}}
    told = answers(9, 16, d)
    whole = teach(RuleLimits(**settings), told)
    limits = teach(RuleLimits(**settings), [x[:7] for x in told])
    twin = limits.copy()
    limits = RuleLimits.from_state(limits.to_state())
    assert bits(limits) == bits(twin)
    for other in (limits, twin):
        before = bits(limits)
        teach(other, [x[7:] for x in told])
        assert bits(other) == bits(whole)
        if other is limits:
            assert bits(twin) == before != bits(limits)
    assert limits.predict(0, told[0]).p.tobytes() == whole.predict(0, told[0]).p.tobytes()


def test_the_seed_the_key_and_the_unit_decide_the_draws() -> None:
    def state(seed, key, arm):
        limits = RuleLimits(arms=2, features=13, chains=50, seed=seed)
        limits.learn(np.ones(13), arm, False, key)
        return limits.to_state()[f"unit{arm}.sets"].tobytes()

    assert state(1, 2, 0) == state(1, 2, 0)
    assert len({state(1, 2, 0), state(2, 2, 0), state(1, 3, 0), state(1, 2, 1)}) == 4


def test_new_arms_know_what_their_unit_knows() -> None:
    limits = RuleLimits(arms=2, features=3, groups=["x", "x"])
    limits.learn([1, 0, 0], 0, False)
    limits.grow(2, ["x", "new"])
    limits.grow()
    limits = RuleLimits.from_state(limits.to_state())
    assert limits.groups == ("x", "x", "x", "new", None)
    assert limits.unit_of.tolist() == [0, 0, 0, 1, 2]
    p = [limits.predict(u, [[1, 0, 0]]).p[0] for u in range(3)]
    assert p[0] < 0.01
    assert p[1] == p[2] == pytest.approx(0.67)


# Errors


BAD = [
    {"arms": 0},
    {"features": 0},
    {"error": 0.0},
    {"error": 0.6},
    {"doubt": 0.0},
    {"density": 1.0},
    {"density_pairs": 0.0},
    {"chains": 1},
    {"sweeps": 0},
    {"seed": -1},
    {"groups": [0]},
    {"groups": [0, True]},
    {"known": [1]},
    {"known": {5: {0: True}}},
    {"thresholds": [1.0]},
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_bad_settings_are_refused(bad) -> None:
    with pytest.raises(InvalidValue, match=f"The '{next(iter(bad))}' parameter of "):
        RuleLimits(**{"arms": 2, "features": 3, **bad})


BAD_CALLS = {
    "answer": lambda x: x.learn([1, 0, 0], 0, "yes"),
    "arm": lambda x: x.learn([1, 0, 0], 2, True),
    "context": lambda x: x.learn([1, 0], 0, True),
    "key": lambda x: x.learn([1, 0, 0], 0, True, -1),
    "unit": lambda x: x.predict(2, [[1, 0, 0]]),
    "contexts": lambda x: x.predict(0, [1, 0, 0]),
    "relearn keys": lambda x: x.refit(0, [[1, 0, 0]], [True], []),
    "relearn no keys": lambda x: x.refit(0, [[1, 0, 0]], [True], 3),
    "relearn answers": lambda x: x.refit(0, [[1, 0, 0]], [], [1]),
    "grow": lambda x: x.grow(-1),
    "grow units": lambda x: x.grow(1, [7.0]),
    "names": lambda x: x.describe(0, ["a"]),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_changes_nothing(name) -> None:
    limits = teach(RuleLimits(arms=2, features=3), answers(1, 5, 3))
    before = bits(limits)
    with pytest.raises(InvalidValue):
        BAD_CALLS[name](limits)
    assert bits(limits) == before


DAMAGE = {
    "no seed": lambda s: s.pop("seed"),
    "no doubt": lambda s: s.update(doubt=np.array(2.0)),
    "evidence": lambda s: s.update(evidence=s["evidence"][:1]),
    "evidence is not a number": lambda s: s.update(evidence=s["evidence"] * np.nan),
    "another grid": lambda s: s.update(errors=np.array([0.1, 0.2])),
    "an array too many": lambda s: s.update(more=np.zeros(1)),
    "no such unit": lambda s: s.update({"unit9.wrong": np.zeros(1)}),
    "known": lambda s: s.update(known=np.array([[0, 99, 1]])),
    "thresholds": lambda s: s.update(thresholds=np.full(3, np.nan)),
}
DAMAGE_EXACT = {
    "counts below zero": lambda s: s["unit0.wrong"].__isub__(99),
    "too few counts": lambda s: s.update({"unit0.wrong": s["unit0.wrong"][:3]}),
}
DAMAGE_SAMPLED = {
    "sets": lambda s: s.update({"unit0.sets": s["unit0.sets"][:, :3]}),
    "sets of numbers": lambda s: s.update({"unit0.sets": s["unit0.sets"] * 2}),
    "active": lambda s: s["unit0.active"].__iadd__(99),
    "active twice": lambda s: s["unit0.active"].__imul__(0),
    "no net": lambda s: s.pop("unit0.net"),
}
CASES = [
    *((name, 3) for name in DAMAGE),
    *((name, 3) for name in DAMAGE_EXACT),
    *((name, 13) for name in DAMAGE_SAMPLED),
]


@pytest.mark.parametrize(("name", "d"), CASES)
def test_a_damaged_state_is_refused(name, d) -> None:
    state = teach(RuleLimits(arms=2, features=d, chains=20), answers(1, 8, d)).to_state()
    {**DAMAGE, **DAMAGE_EXACT, **DAMAGE_SAMPLED}[name](state)
    with pytest.raises(CorruptState, match=r"^RuleLimits"):
        RuleLimits.from_state(state)


@pytest.mark.parametrize("state", [None, 3, [], {}])
def test_what_is_no_state_is_refused(state) -> None:
    with pytest.raises(CorruptState):
        RuleLimits.from_state(state)


def test_doubt_reacts_to_a_teacher_who_errs():
    def settled(**options: float | None) -> float:
        return RuleLimits(arms=1, features=3, **options).doubt

    assert settled() == settled(error=0.02) == 0.01
    assert settled(error=None) == settled(error=0.1) == 0.001
    assert settled(error=0.1, doubt=0.02) == 0.02


@pytest.mark.parametrize("settings", [{}, {"pairs": True, "chains": 40}, {"error": None}])
def test_known_terms_can_be_replaced(settings) -> None:
    """As if they had been known from the start, bit for bit."""
    rng = np.random.default_rng(3)
    C = (rng.random((12, 6)) < 0.5).astype(float)
    which, key = rng.integers(0, 3, 12), rng.integers(0, 2**63, 12)
    sizes = {"arms": 3, "features": 6, **settings}
    known = {1: {3: True, 5: False}, 0: {2: True}}
    limits = RuleLimits(**sizes, known={1: {0: True}, 2: {1: True}})
    fresh = RuleLimits(**sizes, known=known)
    for c, k, bit in zip(C, which, key, strict=True):
        limits.learn(c, int(k), bool(c[0] < 1), int(bit))
    twin = limits.copy()
    before = {name: array.tobytes() for name, array in twin.to_state().items()}
    for u in (2, 0, 1):
        mine = which == u
        limits.set_known(u, known.get(u, {}))
        for each in (limits, fresh):
            each.refit(u, C[mine], C[mine, 0] < 1, key[mine])
    a, b = ({k: v.tobytes() for k, v in x.to_state().items()} for x in (limits, fresh))
    assert a == b
    assert before == {name: array.tobytes() for name, array in twin.to_state().items()}
    with pytest.raises(InvalidValue, match=r"'unit' parameter of RuleLimits\.set_known"):
        limits.set_known(3, {})
    with pytest.raises(InvalidValue, match="'term' parameter"):
        limits.set_known(0, {7: True})


@pytest.mark.parametrize("settings", [{}, {"pairs": True, "chains": 40}, {"error": None}])
def test_a_fold_is_learning_and_returns_what_was_predicted(settings) -> None:
    rng = np.random.default_rng(4)
    one, two = (RuleLimits(arms=2, features=6, groups=["x", "x"], **settings) for _ in range(2))
    for i in range(10):
        c = (rng.random(6) < 0.5).astype(float)
        q = one.predict_answer(0, [c])[0]
        assert two.fold(c, 0, i % 3 > 0, i)[0][1][0] == q
        one.learn(c, i % 2, i % 3 > 0, i)
        a, b = ({k: v.tobytes() for k, v in x.to_state().items()} for x in (one, two))
        assert a == b


def test_allowed_given_the_rule_is_0_or_1() -> None:
    look = RuleLimits(arms=1, features=2).predict(0, [[0, 0], [1, 0]])
    assert look.sd == pytest.approx([0.0, np.sqrt(0.33 * 0.67)])
