"""What limits over pairs work out by words of either side has the bits of rows of all terms."""

import numpy as np
import pytest

from bridle.kernels import gibbs, logistic
from bridle.limits.joint import Grid, JointRules, Through
from bridle.limits.logistic import LogisticLimits
from bridle.limits.pairs import PairLimits
from bridle.schema import Category, Flag, Labels, Number, Schema

BANDS = Schema([Category("band", ["child", "teen", "adult"]), Flag("alone"), Number("hour", 0, 1)])
FILMS = Schema([Labels("genre", list("pqrstu")), Category("rating", ["G", "R"])])


def rows_of(schema, n, rng):
    out = np.zeros((n, schema.width))
    for feature in schema.features:
        at = schema.place(feature.name)[1]
        for row in out:
            if isinstance(feature, Category):
                row[at + rng.integers(len(feature.values))] = 1.0
            elif isinstance(feature, Labels):
                row[at : at + len(feature.values)] = rng.random(len(feature.values)) < 0.3
            else:
                row[at] = rng.random() if isinstance(feature, Number) else rng.integers(2)
    return out


def taught(kind="auto", answers=25, **given):
    rng = np.random.default_rng(4)
    arms, contexts = rows_of(FILMS, 40, rng), rows_of(BANDS, 12, rng)
    limits = PairLimits(kind=kind, context=BANDS, arm=FILMS, rows=arms, chains=70, **given)
    for t in range(answers):
        k, row = int(rng.integers(40)), contexts[rng.integers(12)]
        limits.learn(row, k, not (row[0] and arms[k, 0]), key=t)
    return limits, arms, contexts


@pytest.mark.parametrize("crosses", [False, True])
def test_shares_of_rules_are_those_of_rows_of_terms(crosses):
    limits, arms, contexts = taught("rules", crosses=crosses)
    (rules,) = limits.members.values()
    assert isinstance(rules, JointRules)
    grid = Grid(limits.space, contexts, arms)
    held = grid.held(rules.family.orders)
    np.testing.assert_array_equal(rules.predictive(grid), rules._mixed(held))


def test_sets_are_packed_bit_by_bit():
    rng = np.random.default_rng(1)
    sets = rng.random((130, 5)) < 0.4
    packed = gibbs.pack_sets(sets)
    assert packed.shape == (5, 3)
    for t in range(5):
        for c in range(130):
            assert bool(int(packed[t, c // 64]) >> (c % 64) & 1) == sets[c, t]
        words = [np.uint64(word) for word in packed[t]]
        assert sum(gibbs.count_bits(word) for word in words) == sets[:, t].sum()


def test_log_odds_of_pairs_are_those_of_joint_rows():
    limits, arms, contexts = taught("logistic")
    (member,) = limits.members.values()
    assert isinstance(member, Through) and member._scale is not None
    assert isinstance(member.limits, LogisticLimits)
    grid = Grid(limits.space, contexts, arms)
    rows = grid.phi * member._scale
    w, cov = member.limits._fit(0)
    found, wanted = np.empty((2, 2, len(rows)))
    logistic.score_pairs(contexts, arms, member._scale, w, cov, found[0], found[1])
    logistic.score_many(rows, False, w, cov, wanted[0], wanted[1])
    np.testing.assert_array_equal(found, wanted)


def test_the_first_safe_arm_is_found_whatever_is_known():
    limits, _, contexts = taught(answers=60)
    rng = np.random.default_rng(2)
    for context in contexts:
        safe = limits.copy().predict_pairs(context, np.arange(40)).safe
        for _ in range(6):
            some = rng.permutation(40)[:7]
            wanted = int(safe[some].argmax()) if safe[some].any() else -1
            hasty = limits.first_safe(context, some, ask=False)
            assert hasty in (-1, wanted)
            assert limits.first_safe(context, some) == wanted
            left = limits.unsettled(context)
            before = len(some) if wanted < 0 else wanted
            assert left[safe].all() and not left[some[:before]].any()
    limits.learn(contexts[0], 0, True)
    assert limits.unsettled(contexts[0]).all() and not limits.has_looked(contexts[1])
