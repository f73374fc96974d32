"""Propensities that were estimated by draws: what evaluation makes of them is right."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from bridle import Agent, Arm, evaluate
from bridle.agent.events import Decided
from bridle.agent.outcomes import Odds
from bridle.errors import CorruptState, NotPossible
from bridle.evaluation.estimators import doubly_robust
from bridle.evaluation.evaluate import _evaluated
from bridle.evaluation.table import EARNED, REWARD, _look_of, _sampled, _Sight, _Table
from bridle.policies import LinUCB, Softmax, SquareCB, Thompson, Uniform
from tests.conftest import size

NO_CUT = 1e9


def sight(actions, n, guesses, target=None, theirs=None):
    """A look at n + 1 draws: what the log's agent plays in each, and a target (or what it does)."""
    K, none = len(guesses), np.zeros(len(guesses))
    mine = np.bincount(actions, minlength=K) / (n + 1.0)
    if theirs is None:
        other = Odds(np.asarray(target), none, 0.0)
    else:
        other = Odds(np.bincount(theirs, minlength=K) / (n + 1.0), none, 0.0, n)
    odds = [Odds(mine, none, 0.0, n), other]
    return _Sight(odds, int(actions[0]), np.asarray(guesses), none)


# -- exactly, over all that can be drawn -----------------------------------------------------------

P = np.array([0.6, 0.3, 0.1])
PI = np.array([0.2, 0.5, 0.3])
EARNS = np.array([0.9, 0.2, 0.6])


def test_given_all_draws_the_weights_are_unbiased_and_what_was_not_met_is_known():
    n = 3
    weighed = unmet = 0.0
    for drawn in itertools.product(range(3), repeat=n + 1):
        chance = math.prod(P[list(drawn)])
        look = _look_of(sight(drawn, n, EARNS, target=PI), NO_CUT)
        weighed += chance * look.ratio[1] * EARNS[drawn[0]]
        unmet += chance * look.unseen[1]
        assert look.ratio[0] == 1.0 and look.lack[0] == 0.0
    assert weighed + unmet == pytest.approx(PI @ EARNS, abs=1e-12)
    # Without what was not met the weights fall short by π r (1 − p)^(n + 1).
    assert unmet == pytest.approx(PI @ (EARNS * (1.0 - P) ** (n + 1)), abs=1e-12)


def test_a_cut_takes_out_as_much_as_it_says():
    n, cut = 4, 1.5
    whole = 0.0
    for drawn in itertools.product(range(3), repeat=n + 1):
        look = _look_of(sight(drawn, n, EARNS, target=PI), cut)
        whole += math.prod(P[list(drawn)]) * (look.ratio[1] * EARNS[drawn[0]] + look.unseen[1])
    assert whole == pytest.approx(PI @ EARNS, abs=1e-12)


def test_a_target_that_is_shown_the_same_draws_has_its_mean():
    # Five kinds of draws: what the log's agent and the target play in each.
    both = np.array([(0, 0), (0, 1), (1, 1), (2, 1), (2, 2)])
    chances = np.array([0.4, 0.2, 0.25, 0.1, 0.05])
    n, whole = 2, 0.0
    for drawn in itertools.product(range(5), repeat=n + 1):
        mine, theirs = both[list(drawn)].T
        look = _look_of(sight(mine, n, EARNS, theirs=theirs), NO_CUT)
        seen = look.ratio[1] * EARNS[mine[0]] + look.unseen[1]
        whole += math.prod(chances[list(drawn)]) * seen
    pi = np.bincount(both[:, 1], weights=chances)
    assert whole == pytest.approx(pi @ EARNS, abs=1e-12)


def test_the_share_of_a_square_that_draws_add_is_exact():
    # E[p / p̂² (1 − share)] = 1/p, but for draws that never met it: P(Bin(n + 2, p) < 2).
    none = np.zeros(1)
    for n, p in ((12, 0.5), (40, 0.15), (200, 0.03)):
        hits = np.arange(n + 1)
        rest = 0.0
        for h, chance in zip(hits, binom.pmf(hits, n, p), strict=True):
            found = (h + 1.0) / (n + 1.0)
            odds = [Odds(none, none, 0.0, n), Odds(none, none, 0.0)]
            share, floor = _sampled(odds, found, np.array([found, 0.4]))
            assert share[0] == 0.0 and 0.0 <= share[1] < 0.5
            assert floor == (h == 0)
            rest += chance * p / found**2 * (1.0 - share[1])
        assert rest == pytest.approx(binom.sf(1, n + 2, p) / p, rel=1e-9)


def test_the_share_of_a_targets_own_draws_is_exact():
    none = np.zeros(1)
    for n, pi in ((12, 0.5), (60, 0.1)):
        hits = np.arange(1, n + 2)
        rest = 0.0
        for x, chance in zip(hits, binom.pmf(hits, n + 1, pi), strict=True):
            found = x / (n + 1.0)
            odds = [Odds(none, none, 0.0), Odds(none, none, 0.0, n)]
            share, _ = _sampled(odds, 0.3, np.array([0.3, found]))
            rest += chance * found**2 * (1.0 - share[1])
        assert rest == pytest.approx(pi**2, rel=1e-9)


def test_noise_of_guesses_widens_the_interval():
    expected, corrections = [0.7] * 100, [-0.1, 0.2] * 50
    plain = doubly_robust(expected, corrections)
    wider = doubly_robust(expected, corrections, noise=0.02**2)
    error = (plain.high - plain.value) / 1.98
    assert (wider.high - wider.value) / 1.98 == pytest.approx(math.hypot(error, 0.02), rel=0.01)


# -- over many logs --------------------------------------------------------------------------------


class World:
    """Situations in which scores are dependent: mean + v (F θ + u), as of a shared model."""

    def __init__(self, K=6, kinds=5):
        rng = np.random.default_rng(11)
        self.earns = np.linspace(0.2, 0.8, K)
        self.mean = 0.4 * self.earns
        self.F = rng.normal(size=(kinds, K, 2))
        self.soft = np.exp(self.mean / 0.1) / np.exp(self.mean / 0.1).sum()
        truth = np.random.default_rng(12)
        self.pi = np.zeros((kinds, K))
        for kind in range(kinds):
            _, theirs = self.draws(kind, size(100_000, 20_000), truth)
            self.pi[kind] = np.bincount(theirs, minlength=K) / len(theirs)

    def draws(self, kind, n, rng):
        noise = self.F[kind] @ rng.normal(size=(2, n)) + 0.5 * rng.normal(size=(len(self.mean), n))
        mine, theirs = ((self.mean[:, None] + v * noise).argmax(axis=0) for v in (0.25, 0.15))
        return mine, theirs

    def log(self, seed, steps, n, drawn):
        rng = np.random.default_rng(seed)
        table, truth = _Table(2), 0.0
        for t in range(steps):
            kind = int(rng.integers(len(self.F)))
            mine, theirs = self.draws(kind, n + 1, rng)
            pi = self.pi[kind] if drawn else self.soft
            truth += pi @ self.earns / steps
            row = table.begin(t)
            table.known[row], table.fate[row] = True, EARNED
            table.single[row, REWARD] = float(rng.random() < self.earns[mine[0]])
            other = {"theirs": theirs} if drawn else {"target": pi}
            guesses = 0.1 + 0.7 * self.earns
            cut = max(10.0, math.sqrt(t + 1.0))
            table.take(row, _look_of(sight(mine, n, guesses, **other), cut), True)
        found = table.survey([Thompson(), Softmax()], (0.0, 1.0))
        return _evaluated(found, 0, 1, 0.95, None), truth


@pytest.mark.parametrize(("drawn", "n"), [(False, 60), (True, 20)])
def test_intervals_hold_the_truth_as_often_as_they_say(drawn, n):
    # Of 100 intervals of 95 %, more than 18 miss with a probability of 1e-6 at most (binomial; of
    # 30 more than 10). The truth of drawn targets is itself known to .001.
    world, logs = World(), size(100, 30)
    misses = np.zeros(2)
    error, shares = 0.0, []
    for seed in range(logs):
        found, truth = world.log(seed, 120, n, drawn)
        assert found.refused is None and found.draws == n
        misses += (truth not in found.dr, truth not in found.ips)
        error += (found.dr.value - truth) / logs
        shares.append(found.sampling)
    assert (misses <= size(18, 10)).all()
    # Mean error: the standard deviation of one is below .06, so five of the mean's are below .03.
    assert abs(error) < size(30, 60) / 1000
    assert 0.01 < np.mean(shares) < 0.6


def test_fewer_draws_add_more():
    world = World()
    shares = [world.log(1, 200, n, True)[0].sampling for n in (20, 100, 1_000)]
    assert shares[0] > shares[1] > shares[2] > 0.0


def test_what_draws_do_not_meet_is_refused():
    found, _ = World().log(1, 200, 8, False)
    assert "of what it would do is never done in the log" in found.refused
    assert "What none of 8 draws a propensity met counts as never done" in found.refused
    assert found.dr is None


def test_weights_that_rest_on_floors_are_refused():
    table, none = _Table(2), np.zeros(20)
    guesses = np.full(20, 0.5)
    for t in range(400):
        # Draws that each meet another arm: every propensity is 1 / (draws + 1).
        mine = Odds(np.full(20, 1.0 / 20.0), none, 0.0, 19)
        look = _Sight([mine, Odds(np.full(20, 1.0 / 20.0), none, 0.0)], t % 20, guesses, none)
        row = table.begin(t)
        table.known[row], table.fate[row] = True, EARNED
        table.take(row, _look_of(look, 20.0), True)
    found = _evaluated(table.survey([Thompson(), Uniform()], (0.0, 1.0)), 0, 1, 0.95, None)
    assert "100% of the weight rests on plays that none of 19 draws met" in found.refused  # type: ignore[operator]


# -- agents ----------------------------------------------------------------------------------------

FILMS = [Arm(f"film {n}", features=[float(n % 2), n / 5.0]) for n in range(5)]


def earned(arm, context, rng):
    place = int(arm.split()[1])
    return float(rng.random() < 0.2 + 0.12 * place * context[0])


def live(steps=260, **given):
    log, rng = [], np.random.default_rng(2)  # type: ignore[var-annotated]
    settings = {"policy": Thompson(v=2.0), "seed": 5, "limits": "linear", **given}
    agent = Agent(arms=FILMS, features=2, arm_features=2, sink=log.extend, **settings)
    for t in range(steps):
        context = [float(t % 2), 1.0]
        among = [film.id for film in FILMS[:3]] if t % 5 == 0 else None
        made = agent.decide(context, among=among, propensity=True)
        agent.reward(made.id, earned(made.arm, context, rng))  # type: ignore[union-attr]
    return agent, log


@pytest.fixture(scope="module")
def told():
    return live()


def test_a_log_says_how_many_draws_its_propensities_have(told):
    _, log = told
    made = [event for event in log if isinstance(event, Decided)]
    assert {event.draws for event in made} == {1_000}
    hits = np.array([event.propensity * 1_001 for event in made])  # type: ignore[operator]
    assert np.abs(hits - np.round(hits)).max() < 1e-9 and hits.min() >= 1.0


def test_an_agent_is_evaluated_by_the_draws_of_its_log(told):
    _, log = told
    same, near, exact, ucb = evaluate(
        log,
        policy=[
            Thompson(v=2.0),
            Thompson(v=1.7),
            Softmax(temperature=0.3),
            LinUCB(alpha=0.1),
        ],
    )
    # The same policy is shown the same draws, so all its weights are 1.
    assert same.support.largest == 1.0 and same.support.choices == 1.0
    assert same.ips.value == pytest.approx(same.logged, abs=1e-12)  # type: ignore[union-attr]
    assert same.sampling < 0.5 and same.logged in same.dr  # type: ignore[operator]
    for found in (near, exact):
        assert found.refused is None and found.draws == 1_000
        assert 0.0 < found.sampling < 0.2
        assert found.logged in found.dr  # type: ignore[operator]
    assert ucb.draws == 1_000


def test_exact_propensities_have_no_error_by_draws():
    _, log = live(policy=SquareCB(gamma=10.0))
    found = evaluate(log, policy=Softmax(temperature=0.5))
    assert (found.draws, found.sampling) == (None, 0.0)
    # A target that is known by draws alone has.
    drawn = evaluate(log, policy=Thompson(v=3.0))
    assert drawn.draws is None and 0.0 < drawn.sampling < 0.2


def test_a_log_whose_draws_are_others_is_refused(told):
    _, log = told
    spoilt = list(log)
    at = next(i for i, event in enumerate(spoilt) if isinstance(event, Decided))
    event = spoilt[at]
    other = 2.0 / 1_001.0 if event.propensity != 2.0 / 1_001.0 else 3.0 / 1_001.0
    spoilt[at] = type(event)(
        **{name: getattr(event, name) for name in event.__slots__} | {"propensity": other}
    )
    with pytest.raises(CorruptState, match="is not that of the state it was made from"):
        evaluate(spoilt, policy=Softmax())


def test_places_of_slates_are_left_out():
    log, rng = [], np.random.default_rng(3)  # type: ignore[var-annotated]
    policy = Thompson(v=2.0)
    agent = Agent(arms=FILMS, features=2, arm_features=2, sink=log.extend, seed=1, policy=policy)
    for t in range(80):
        context = [float(t % 2), 1.0]
        if t % 8 == 0:
            slate = agent.decide(context, k=2, propensity=True)
            agent.reward_slate(slate, 1.0)
        made = agent.decide(context, propensity=True)
        agent.reward(made.id, earned(made.arm, context, rng))  # type: ignore[union-attr]
    found = evaluate(log, policy=policy)
    assert (found.decisions, found.left_out) == (80, 20)
    only: list[Any] = []
    agent = Agent(arms=FILMS, features=2, arm_features=2, sink=only.extend, policy=Thompson(v=2.0))
    agent.decide([1.0, 1.0], k=2, propensity=True)
    with pytest.raises(NotPossible, match="those of slates do not count"):
        evaluate(only, policy=Softmax())
