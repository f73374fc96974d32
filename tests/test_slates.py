"""Slates: the best of them, never one that breaks a limit, and with what probability."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import slates as module
from bridle.errors import InvalidValue, LimitReached, NotPossible
from bridle.kernels import keys
from bridle.kernels import slates as kernels
from bridle.kernels.compiling import njit
from bridle.kernels.keys import bits_of, key_of, uniform
from bridle.policies import (
    EpsilonGreedy,
    Greedy,
    LearnedMask,
    LinUCB,
    Masked,
    PlackettLuce,
    Scores,
    Softmax,
    SquareCB,
    Thompson,
    Uniform,
)
from bridle.slates import (
    AtMost,
    NotBoth,
    SetLimits,
    Sets,
    chain,
    choose_slate,
    drawn,
    item_rewards,
    place_odds,
)
from tests.conftest import check_counts, size

FILMS = {
    "genre": [("Horror",), ("Horror", "Comedy"), ("Comedy",), (), None, ("Drama",)],
    "rating": ["R", "R", "G", "G", "PG", None],
    "new": [True, False, True, False, True, False],
}
GROUPS = ["x", "x", "x", "y", None, "y"]
EVERY = np.ones(6, np.bool_)


def sets_of(**limits):
    return SetLimits(**limits).arrays(ids=[*"abcdef"], groups=GROUPS, features=FILMS)


# -- limits in words -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "fine", "broken"),
    [
        ({"at_most": [AtMost(1)]}, [0, 3, 4], [0, 1]),
        ({"at_most": [AtMost(2)]}, [0, 1, 3, 5], [0, 1, 2]),
        ({"at_most": [AtMost(1, value="x")]}, [0, 3, 5], [1, 2]),
        ({"at_most": [AtMost(1, feature="genre")]}, [0, 2, 5], [1, 2]),
        ({"at_most": [AtMost(1, feature="genre", value="Horror")]}, [1, 2], [0, 1]),
        ({"at_most": [AtMost(1, feature="rating")]}, [0, 2, 4, 5], [2, 3]),
        ({"at_most": [AtMost(1, feature="new", value=True)]}, [0, 1, 3], [0, 2]),
        ({"at_most": [AtMost(0, feature="rating", value="R")]}, [2, 3], [0]),
        ({"not_both": [NotBoth(arms=("a", "d", "e"))]}, [0, 1, 2], [3, 4]),
        ({"not_both": [NotBoth(values=("x", "y"))]}, [0, 1, 4], [0, 3]),
        ({"not_both": [NotBoth(feature="rating", values=("R", "G"))]}, [0, 1, 4], [1, 3]),
        ({"not_both": [NotBoth(feature="genre", values=("Horror", "Comedy"))]}, [1, 5], [0, 1]),
    ],
)
def test_what_a_limit_means(limits, fine, broken):
    sets = sets_of(**limits)
    assert sets.broken(fine) == ""
    assert sets.broken(broken) != ""
    # The kernels read them in the same way, whatever the order.
    for order in itertools.permutations(broken):
        assert not all(
            kernels.fits(arm, np.array(order), i, *sets.parts) for i, arm in enumerate(order)
        )
    for order in itertools.permutations(fine):
        assert all(
            kernels.fits(arm, np.array(order), i, *sets.parts) for i, arm in enumerate(order)
        )
    again = SetLimits.from_json(json.loads(json.dumps(SetLimits(**limits).to_json())))
    assert again == SetLimits(**limits)


def test_what_no_arm_has_is_no_error_and_what_is_no_feature_is_one():
    sets = sets_of(at_most=[AtMost(1, value="z")], not_both=[NotBoth(arms=("a", "gone"))])
    assert sets.broken([0, 1, 2]) == ""
    with pytest.raises(InvalidValue, match=r"one of the arms' features, .*Got 'price' instead"):
        sets_of(at_most=[AtMost(1, feature="price")])
    with pytest.raises(InvalidValue, match="must be 6 values"):
        SetLimits().arrays(ids=[*"abcdef"], groups=["x"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AtMost(-1), "The 'most' parameter of AtMost must be an int in the range [0, 100]"),
        (lambda: AtMost(1, feature=""), "The 'feature' parameter of AtMost must be a string"),
        (lambda: AtMost(1, value=3), "The 'value' parameter of AtMost must be a string"),
        (lambda: NotBoth(), "'arms, values' parameter of NotBoth must be given the one or"),
        (lambda: NotBoth(arms="ab"), "The 'arms' parameter of NotBoth must be a list"),
        (lambda: NotBoth(arms=("a",)), "must be 2 to 100 different arms"),
        (lambda: NotBoth(arms=("a", True)), "must be ids of arms"),
        (lambda: NotBoth(values=("x", "x")), "must be two different values"),
        (lambda: NotBoth(arms=("a", "b"), feature="g"), "given the one or the other"),
        (lambda: SetLimits(at_most=[1]), "'at_most' parameter of SetLimits must be a list of AtM"),
        (lambda: SetLimits.from_json({"at_least": []}), "with at_most and not_both alone"),
        (lambda: SetLimits.from_json({"at_most": [{"least": 1}]}), "as to_json writes it"),
        (lambda: SetLimits.from_json(3), "as to_json writes it"),
        (lambda: choose_slate(np.ones(2), np.ones(2, bool), 0), "in the range [1, 100]"),
        (lambda: item_rewards(2), "given the one or the other"),
        (lambda: item_rewards(2, slate=2.5), "must be a float in the range [0, 2]"),
        (lambda: item_rewards(2, items=[1.0]), "must be 2 rewards"),
        (lambda: item_rewards(2, items=[1.0, 3.0]), "must be a float in the range [0, 1]"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(InvalidValue) as caught:
        make()
    assert message in str(caught.value)


def test_limits_have_a_limit():
    with pytest.raises(LimitReached, match="limit of 64 limits on slates"):
        SetLimits(at_most=[AtMost(1)] * 65)


# -- the best slate --------------------------------------------------------------------------------


@st.composite
def cases(draw):
    K = draw(st.integers(1, 9))
    k = draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # Few distinct scores, some below 0, so that there are ties.
    scores = rng.integers(-3, 8, K) / 4.0 if draw(st.booleans()) else rng.normal(size=K)
    may = rng.random(K) < 0.85
    P, Q, pairs = (draw(st.integers(0, 2)) for _ in range(3))
    kinds = rng.integers(-1, 3, (P, K)).astype(np.int32)
    caps = rng.integers(0, 3, (P, 3)).astype(np.int32)
    sides = rng.choice(np.array([0, 0, 1, 2, 3], np.uint8), (Q, K))
    excluded = [
        NotBoth(arms=tuple(rng.choice(K, 2, replace=False).tolist()))
        for _ in range(pairs * (K > 1))
    ]
    named = SetLimits(not_both=excluded).arrays(ids=list(range(K)))
    sets = Sets(kinds, caps, sides, named.start, named.others)
    return scores, may, k, sets


def best_by_hand(scores, may, k, sets):
    """The most places that can be filled, and the highest sum of so many."""
    arms = np.flatnonzero(may).tolist()
    for n in range(min(k, len(arms)), 0, -1):
        sums = [
            math.fsum(scores[list(one)])
            for one in itertools.combinations(arms, n)
            if sets.broken(one) == ""
        ]
        if sums:
            return n, max(sums)
    return 0, 0.0


@given(cases())
def test_a_slate_is_the_best_one_and_breaks_no_limit(case):
    scores, may, k, sets = case
    slate = choose_slate(scores, may, k, sets, key=7)
    assert sets.broken(slate.arms) == "" and may[slate.arms].all()
    n, most = best_by_hand(scores, may, k, sets)
    assert slate.how in ("exact", "search") and slate.bound == 1.0
    assert len(slate) == n
    assert math.fsum(scores[slate.arms]) == pytest.approx(most, abs=1e-12)
    assert (np.diff(scores[slate.arms]) <= 0.0).all() or slate.how == "search"


@given(cases())
def test_without_a_search_it_breaks_no_limit_and_has_its_share_of_the_best(case):
    scores, may, k, sets = case
    scores = scores - scores.min()
    slate = choose_slate(scores, may, k, sets, key=7, steps=0)
    assert sets.broken(slate.arms) == "" and may[slate.arms].all()
    most = max(
        (
            math.fsum(scores[list(one)])
            for n in range(k + 1)
            for one in itertools.combinations(np.flatnonzero(may).tolist(), n)
            if sets.broken(one) == ""
        ),
        default=0.0,
    )
    assert math.fsum(scores[slate.arms]) >= slate.bound * most - 1e-12


@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 40))
def test_ranks_are_those_of_a_sort(seed, K, most):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 6, K) / 2.0
    may = rng.random(K) < 0.7
    key = np.uint64(seed)
    arms, bits = np.empty(most, np.int64), np.empty(most, np.uint64)
    n = kernels.ranked(scores, may, key, arms, bits)
    by_hand = sorted(
        np.flatnonzero(may).tolist(), key=lambda a: (-scores[a], -int(bits_of(key, a)))
    )
    assert arms[:n].tolist() == by_hand[:most]
    k = min(most, module.MAX_PLACES)
    slate = choose_slate(scores, may, k, None, int(key))
    assert slate.arms.tolist() == by_hand[:k]


def test_a_list_grows_until_the_slate_is_full():
    # 500 of the best arms are of one kind of which one may stand, and exclude one another too.
    scores = np.linspace(1.0, 0.0, 600)
    kind = np.where(np.arange(600) < 500, 0, -1)
    side = np.zeros((1, 600), np.uint8)
    side[0, :2] = (1, 2)
    sets = Sets(
        kind[None].astype(np.int32), np.array([[1]], np.int32), side, *Sets.none(600).parts[3:]
    )
    slate = choose_slate(scores, np.ones(600, np.bool_), 4, sets)
    assert slate.arms.tolist() == [0, 500, 501, 502]
    assert slate.how == "exact"


@given(cases(), st.integers(1, 9))
def test_the_best_few_are_enough_where_it_says_so(case, few):
    scores, may, k, sets = case
    whole = choose_slate(scores, may, k, sets, key=7)
    order = sorted(
        np.flatnonzero(may).tolist(), key=lambda a: (-scores[a], -int(bits_of(np.uint64(7), a)))
    )
    known = np.isin(np.arange(len(scores)), order[:few])
    slate = choose_slate(scores, known, k, sets, key=7, more=len(order) > few)
    if slate.how == "open":
        assert len(order) > few
    else:
        assert len(slate) == len(whole)
        assert math.fsum(scores[slate.arms]) == pytest.approx(
            math.fsum(scores[whole.arms]), abs=1e-12
        )


def test_a_hub_gives_way_where_more_places_can_be_filled():
    hub = SetLimits(not_both=[NotBoth(arms=(0, other)) for other in (1, 2, 3)])
    sets = hub.arrays(ids=[0, 1, 2, 3])
    scores = np.array([0.9, 0.5, 0.4, 0.3])
    slate = choose_slate(scores, np.ones(4, np.bool_), 2, sets)
    assert (slate.arms.tolist(), slate.how) == ([1, 2], "search")
    greedy = choose_slate(scores, np.ones(4, np.bool_), 2, sets, steps=0)
    assert (greedy.arms.tolist(), greedy.how, greedy.bound) == ([0], "greedy", 0.5)


def test_ties_fall_uniformly():
    # Chi-square over the 12 ordered slates of 2 of 4 equal arms; errs once in 1e6.
    scores, every = np.zeros(4), np.ones(4, np.bool_)
    n = size(6_000, 1_200)
    seen = Counter(tuple(choose_slate(scores, every, 2, key=key).arms.tolist()) for key in range(n))
    counts = [seen[one] for one in itertools.permutations(range(4), 2)]
    check_counts(counts, np.full(12, 1 / 12))


@njit(cache=False)
def many_slates(runs, seed):
    """Draw worlds and slates, and count those that break a limit, by a count of its own."""
    K, k = 14, 5
    broken = 0
    filled = 0
    scores = np.empty(K)
    may = np.empty(K, np.bool_)
    kinds = np.empty((2, K), np.int32)
    caps = np.empty((2, 3), np.int32)
    sides = np.empty((1, K), np.uint8)
    start = np.empty(0, np.int64)
    others = np.empty(0, np.int64)
    bits = np.empty(K, np.uint64)
    listed = np.empty(K, np.int64)
    arms = np.empty(k, np.int64)
    for run in range(runs):
        key = key_of(np.uint64(seed), np.uint64(run))
        for a in range(K):
            scores[a] = uniform(bits_of(key, a)) - 0.2
            may[a] = uniform(bits_of(key, 100 + a)) < 0.9
            for p in range(2):
                kinds[p, a] = int(uniform(bits_of(key, 200 + 50 * p + a)) * 4.0) - 1
            sides[0, a] = np.uint8(uniform(bits_of(key, 400 + a)) * 4.0)
        for p in range(2):
            for g in range(3):
                caps[p, g] = int(uniform(bits_of(key, 600 + 3 * p + g)) * 4.0)
        way = run % 3
        if way == 0:
            n = kernels.best_of_kinds(scores, may, k, kinds[0], caps[0], key, arms, bits[:k].copy())
        else:
            m = kernels.ranked(scores, may, key, listed, bits)
            n = kernels.greedy(listed, m, k, kinds, caps, sides, start, others, arms)
            if way == 2:
                n, _ = kernels.search(
                    scores, listed, m, True, k, kinds, caps, sides, start, others, 50, arms, n
                )
        filled += n
        bad = False
        for i in range(n):
            bad = bad or not may[arms[i]]
            for j in range(i):
                bad = bad or arms[i] == arms[j]
                one, other = sides[0, arms[i]], sides[0, arms[j]]
                crossed = (one & 1 and other & 2) or (one & 2 and other & 1)
                bad = bad or (way > 0 and crossed)
        for p in range(2 if way else 1):
            for g in range(3):
                held = 0
                for i in range(n):
                    held += kinds[p, arms[i]] == g
                bad = bad or held > caps[p, g]
        broken += bad
    return broken, filled


def test_a_million_slates_break_no_limit():
    runs = size(1_000_000, 100)
    broken, filled = many_slates(runs, 5)
    assert broken == 0
    assert filled > 2 * runs


# -- slates by a policy ----------------------------------------------------------------------------

SCORES = Scores(
    reward_mean=np.array([0.5, 0.45, 0.3, 0.4, 0.9]),
    reward_sd=np.full(5, 0.1),
    eligible=np.array([True, True, True, True, False]),
    allowed=np.array([True, True, True, False, True]),
    plays=4.0,
)
CHAINS = [
    PlackettLuce(temperature=0.1),
    Softmax(temperature=0.3),
    SquareCB(gamma=10.0),
    EpsilonGreedy(epsilon=0.5),
    Masked(PlackettLuce(temperature=0.1)),
    Masked(SquareCB()),
]


def all_slates(policy, k, sets):
    """Every ordered slate with its probability, by the policy's own propensities place by place."""
    may = SCORES.eligible & (SCORES.allowed if policy.needs_limits else True)  # type: ignore[operator]
    out = {}

    def grow(arms, p):
        left = [
            a
            for a in np.flatnonzero(may).tolist()
            if a not in arms and sets.broken([*arms, a]) == ""
        ]
        if len(arms) == k or not left:
            out[tuple(arms)] = p
            return
        among = np.isin(np.arange(5), left)
        seen = Scores(SCORES.reward_mean, SCORES.reward_sd, None, None, among, among, SCORES.plays)
        shares = policy.propensities(seen)
        for a in left:
            grow([*arms, a], p * shares[a])

    grow([], 1.0)
    return out


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("policy", CHAINS, ids=str)
def test_slates_have_the_probability_that_they_say(policy, limited):
    sets = Sets.none(5)
    if limited:
        limits = SetLimits(at_most=[AtMost(1, value="x")], not_both=[NotBoth(arms=(0, 2))])
        sets = limits.arrays(ids=list(range(5)), groups=["x", "x", None, "y", "y"])
    exact = all_slates(policy, 2, sets)
    assert math.fsum(exact.values()) == pytest.approx(1.0, abs=1e-12)
    seen = Counter()  # type: ignore[var-annotated]
    for key in range(size(4_000, 400)):
        slate = drawn(policy, SCORES, 2, key, sets)
        arms = tuple(slate.arms.tolist())
        assert slate.propensity == pytest.approx(exact[arms], abs=1e-12)
        assert slate.chain == pytest.approx(chain(policy, SCORES, arms, sets), abs=1e-15)
        seen[arms] += 1
    # Chi-square over all ordered slates, errs once in 1e6.
    check_counts([seen[arms] for arms in exact], list(exact.values()))


def test_a_slate_that_no_draw_gives_has_no_probability():
    assert chain(PlackettLuce(), SCORES, [4, 0], None).tolist() == [0.0, 0.0]
    found = chain(SquareCB(), SCORES, [0, 4, 1], None)
    assert found[0] > 0.0 and found[1:].tolist() == [0.0, 0.0]
    with pytest.raises(NotPossible, match="estimate them with place_odds"):
        chain(Thompson(), SCORES, [0, 1], None)


def test_far_behind_is_not_lost():
    # The best is gone after the first place; what is left is e⁻⁵⁰⁰⁰⁰⁰ of it.
    far = Scores(np.array([0.5, 0.0, 0.0]), np.zeros(3))
    found = chain(PlackettLuce(temperature=1e-6), far, [0, 1, 2], None)
    assert found.tolist() == [1.0, 0.5, 1.0]


def test_the_first_place_is_the_choice_of_one_arm():
    for policy in [*CHAINS, Thompson(v=0.5), LearnedMask(v=0.5), Uniform(), LinUCB(), Greedy()]:
        for key in range(50):
            slate = drawn(policy, SCORES, 3, key)
            assert slate.arms[0] == policy.choose(SCORES, key)  # type: ignore[attr-defined]
            assert len(slate) == 3


def test_thompson_takes_a_whole_slate_from_one_draw():
    policy, sd = Thompson(v=0.8), SCORES.reward_sd
    start, z = keys.stream(0, keys.DECIDE), np.empty(5)
    for key in range(100):
        keys.fill_normals(np.uint64(key_of(start, np.uint64(key))), z)
        by_hand = np.argsort(-np.where(SCORES.eligible, SCORES.reward_mean + 0.8 * sd * z, -9.0))
        assert drawn(policy, SCORES, 3, key).arms.tolist() == by_hand[:3].tolist()


def test_a_mask_must_be_told_what_is_allowed():
    with pytest.raises(NotPossible, match="Masked must be told which arms are allowed"):
        drawn(Masked(PlackettLuce()), Scores(np.ones(2), np.ones(2)), 2, 1)


# -- propensities of places ------------------------------------------------------------------------


def test_places_are_estimated_with_their_error():
    """Against the exact marginals of Plackett-Luce, which races give."""
    mean, temperature, every = np.array([0.3, 0.2, 0.1, 0.0]), 0.1, np.ones(4, np.bool_)
    exact = np.zeros((2, 4))
    scores = Scores(mean, np.zeros(4))
    policy = PlackettLuce(temperature=temperature)
    for arms in itertools.permutations(range(4), 2):
        p = math.prod(chain(policy, scores, arms, None).tolist())
        for place, arm in enumerate(arms):
            exact[place, arm] += p
    rng = np.random.default_rng(3)

    def draw(_):
        return mean + temperature * rng.gumbel(size=4)

    found = place_odds(draw, size(4_000, 400), [1, 0], every, 2)
    # Six standard errors: each errs once in 5e8.
    truth = np.array([exact[0, 1], exact[1, 0]])
    assert (np.abs(found.places - truth) < 6.0 * found.errors + 1e-3).all()
    inside = exact.sum(axis=0)[[1, 0]]
    assert (np.abs(found.anywhere - inside) < 0.06).all()
    assert found.places.tolist() == ((found.hits + 1) / (found.draws + 1)).tolist()


def test_a_place_that_never_came_has_a_floor():
    found = place_odds(lambda _: np.array([1.0, 0.0, -1.0]), 9, [2, 0], np.ones(3, np.bool_), 2)
    assert found.hits.tolist() == [0, 0] and found.inside.tolist() == [0, 9]
    assert found.places.tolist() == [0.1, 0.1]


# -- rewards ---------------------------------------------------------------------------------------


def test_what_items_are_credited_with():
    assert item_rewards(4, slate=2.0).tolist() == [0.5] * 4
    assert item_rewards(2, slate=-4.0, reward_range=(-2.0, 2.0)).tolist() == [-2.0, -2.0]
    given = item_rewards(3, items=[0.25, None, 1])
    assert given[[0, 2]].tolist() == [0.25, 1.0] and math.isnan(given[1])


def test_equal_shares_rank_items_right_and_show_differences_k_times_smaller():
    # Of 6 items in random slates of 3: mean credit = (own + the company's mean sum) / 3.
    rng = np.random.default_rng(4)
    earns = np.array([0.9, 0.7, 0.5, 0.4, 0.2, 0.1])
    n = size(20_000, 2_000)
    arms = np.argsort(rng.random((n, 6)), axis=1)[:, :3]
    rewards = rng.random((n, 3)) < earns[arms]
    credit, count = np.zeros(6), np.zeros(6)
    for row, slate in zip(arms, rewards.sum(axis=1), strict=True):
        credit[row] += item_rewards(3, slate=float(slate))
        count[row] += 1
    mean = credit / count
    company = (earns.sum() - earns) / 5 * 2
    # A share has a standard deviation below .29, over some n/2 slates: six errors are below .02.
    assert np.abs(mean - (earns + company) / 3).max() < size(20, 60) / 1000
    assert (np.diff(mean) < 0.0).all()


@pytest.mark.parametrize("name", module.__all__)
def test_every_public_name_is_there(name):
    assert hasattr(module, name)
