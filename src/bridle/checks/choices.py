"""What an agent must decide."""

from __future__ import annotations

import math

import numpy as np

from bridle.agent import Agent
from bridle.checks.base import Fit, expect, expect_bits, expect_near
from bridle.checks.stories import (
    D,
    History,
    K,
    MakeAgent,
    Story,
    a_decision,
    contexts,
    history,
    new,
    numbers_of,
)
from bridle.decisions import Abstention, Decision
from bridle.kernels.types import Floats
from bridle.limits import MixtureLimits
from bridle.policies import BehaviorConstrained, Thompson
from bridle.settings import Arm


def equal_contexts_draw_independently(make: MakeAgent) -> None:
    """Equal contexts in a batch get draws of their own, that fit the propensities in pairs."""
    fit = Fit()
    rows = _even_history()
    for what in ("untrained", "trained"):
        agent = new(make)
        if what == "trained":
            agent.learn(rows.contexts, rows.arms.tolist(), rows.values)
        odds = a_decision(agent.decide(np.ones(D), propensity=True)).propensities
        assert odds is not None
        if what == "untrained":
            expect(odds.max() < 0.9, "chances for every arm while nothing is known", odds)
        batch = numbers_of(agent, agent.decide_many(np.ones((6_000, D)), details=False).chosen)
        fit.add_counts(f"{what}, arm", batch, odds)
        pairs = np.where((batch[::2] < 0) | (batch[1::2] < 0), -1, batch[::2] * K + batch[1::2])
        fit.add_counts(f"{what}, arms of neighbours", pairs, np.outer(odds, odds).ravel())
    fit.judge()


def draws_have_the_spread_of_the_posterior(make: MakeAgent) -> None:
    """Between two arms the better one wins as often as the solved posteriors say."""
    played, taught = history(60, 41, arms=2), history(40, 42, arms=2)
    C = np.random.default_rng(43).normal(size=(4_000, D))
    fit = Fit()
    for sigma, v, v_limit in ((1.0, 0.8, 0.0), (0.4, 0.5, 0.9), (0.0, 0.1, 0.6)):
        policy = (
            Thompson(v=v) if sigma == 1.0
            else BehaviorConstrained(sigma=sigma, v=v, v_constraint=v_limit)
        )  # fmt: skip
        agent = new(
            make, arms=2, policy=policy, ridge=2.0, ridge_limits=0.5, label_coding="1/0",
            reward_range=(0.0, 1.0), exact_denials=False, limits="linear", prior="paper",
        )  # fmt: skip
        agent.learn(played.contexts, played.arms.tolist(), played.values)
        agent.teach_many(taught.contexts, taught.arms.tolist(), taught.allowed)
        m, s = _solved(played, played.values, C, 2.0)
        me, se = _solved(taught, taught.allowed.astype(np.float64), C, 0.5)
        mean = sigma * m + (1.0 - sigma) * me
        spread = np.hypot(sigma * v * s, (1.0 - sigma) * v_limit * se)
        z = (mean[:, 1] - mean[:, 0]) / np.hypot(spread[:, 0], spread[:, 1])
        better = (z > 0.0).astype(np.int64)
        p = np.array([0.5 * math.erfc(-abs(x) * math.sqrt(0.5)) for x in z])
        won = numbers_of(agent, agent.decide_many(C, details=False).chosen) == better
        # Apart where it is clear and where it is close: a spread that is too small in one place
        # and too large in another does not cancel.
        for name, part in (("clear", p > np.median(p)), ("close", p <= np.median(p))):
            what = f"sigma {sigma}, v {v}, the better arm where it is {name}"
            fit.add(what, int(won[part].sum()), int(part.sum()), float(p[part].mean()))
    fit.judge()


def propensities_are_probabilities(make: MakeAgent) -> None:
    """Propensities are ≥ 0, sum to one, are zero where an arm is out, and `among` is obeyed."""
    agent = new(make)
    Story(seed=51).go(agent, 60)
    ids = [arm.id for arm in agent.arms]
    looked_at = 0
    for among in (None, ids[:1], ids[1:], ids[::2]):
        for context in contexts(25, 52):
            made = agent.decide(context, among, propensity=True)
            if isinstance(made, Abstention):
                continue
            looked_at += 1
            decision = a_decision(made)
            odds = decision.propensities
            assert odds is not None
            expect((odds >= 0.0).all(), "no propensity below 0", odds)
            expect(abs(odds.sum() - 1.0) <= 1e-9, "propensities that sum to 1", float(odds.sum()))
            out = [k for k, id in enumerate(ids) if among is not None and id not in among]
            expect((odds[out] == 0.0).all(), f"propensity 0 for arms not among {among}", odds)
            expect(among is None or decision.arm in among, f"an arm among {among}", decision.arm)
            mine = odds[ids.index(decision.arm)]
            expect(
                decision.propensity == mine,
                f"{mine!r} as the propensity of the arm",
                decision.propensity,
            )
    expect(looked_at >= 50, "a decision in most of 100 contexts", f"{looked_at} decisions")
    made = agent.decide(np.ones(D), [])
    expect(isinstance(made, Abstention), "an abstention among no arms", made)


def order_of_arms_does_not_matter(make: MakeAgent) -> None:
    """The same arms in another order have the same scores in bits and the same propensities.

    A mixture adds up what all units say, and a sum in another order has other last bits: what it
    believes is the same to 1e-9.
    """
    rows, taught = history(60, 61), history(30, 62)
    plain = new(make, arms=list(range(K)))
    order = [2, 0, 3, 1]
    other = new(make, arms=order)
    for agent in (plain, other):
        agent.learn(rows.contexts, rows.arms.tolist(), rows.values)
        agent.teach_many(taught.contexts, taught.arms.tolist(), taught.allowed)
    for context in np.random.default_rng(63).normal(size=(20, D)):
        one = a_decision(plain.decide(context, propensity=True))
        two = a_decision(other.decide(context, propensity=True))
        same = 2 if isinstance(plain.limits, MixtureLimits) else 6
        what = "the same scores in another order"
        expect_bits(two.parts[:same], one.parts[:same, order], what)
        expect_near(two.parts[:6], one.parts[:6, order], 1e-9, what)
        expect_bits(two.eligible, one.eligible[order], "the same eligible arms in another order")
        assert one.propensities is not None and two.propensities is not None
        expect_near(
            two.propensities,
            one.propensities[order],
            1e-9,
            "the same propensities in another order",
        )


def new_arms_keep_the_rest(make: MakeAgent) -> None:
    """`add_arms` keeps what is known of the others and adds arms that know nothing.

    What is expected of an arm of which nothing is known may depend on what is known of the others,
    but for the paper's agent.
    """
    agent, fresh = new(make), new(make)
    Story(seed=71).go(agent, 60)
    C = np.random.default_rng(72).normal(size=(10, D))
    known = len(agent.arms)
    before = [a_decision(agent.make.decided(context)).parts[:4] for context in C]
    agent.add_arms(["late", "later"])
    paper = (agent.settings.limits, agent.settings.prior) == ("linear", "paper")
    apart = slice(4) if paper else slice(1, 2)
    for context, old in zip(C, before, strict=True):
        parts = a_decision(agent.make.decided(context)).parts
        expect_bits(parts[:4, :known], old, "what was known before add_arms")
        untrained = a_decision(fresh.make.decided(context)).parts[:, 0]
        expect_bits(parts[:4, known], parts[:4, known + 1], "new arms to know as little")
        expect_bits(parts[apart, known], untrained[apart], "a new arm to know nothing")


def exact_denial_is_obeyed(make: MakeAgent) -> None:
    """An arm that was denied in this very context is never played there, whatever sigma."""
    context, others = np.array([1.0, 0.0, 0.5]), contexts(10, 81)
    for sigma in (0.0, 0.25, 0.5, 0.75, 1.0):
        agent = new(make, policy=BehaviorConstrained(sigma=sigma), exact_denials=True)
        where = f"at sigma {sigma}"
        # Reward and other examples speak for the arm as loudly as they can.
        agent.learn(np.tile(context, (50, 1)), [1] * 50, np.ones(50))
        agent.teach_many(others, [1] * 10, [True] * 10)
        denial = agent.teach(context, 1, allowed=False)
        agent.teach_many(np.tile(context, (40, 1)), [1] * 40, [True] * 40)
        for same in (context, np.where(context == 0.0, -0.0, context), context.astype(np.float32)):
            chosen = agent.decide_many(np.tile(same, (300, 1)), details=False).chosen
            expect(1 not in chosen, f"a denied arm never to be played {where}", "it was played")
            odds = a_decision(agent.decide(same, propensity=True)).propensities
            expect(
                odds is not None and odds[1] == 0.0, f"propensity 0 of a denied arm {where}", odds
            )
        made = agent.decide(context, [1])
        expect(isinstance(made, Abstention), f"an abstention among denied arms {where}", made)
        near = context + np.array([0.0, 1e-9, 0.0])
        expect(
            1 in agent.decide_many(np.tile(near, (300, 1))).chosen,
            f"arm 1 elsewhere {where}",
            "never",
        )
        agent.retract(denial)
        back = agent.decide_many(np.tile(context, (300, 1))).chosen
        expect(1 in back, f"arm 1 again when the denial is retracted {where}", "never")


def retraction_leaves_what_stands(make: MakeAgent) -> None:
    """After a retraction limits are the fold, in order, of the examples that stand, in bits.

    In a mixture that holds for each of its members, and for all of it where there is one unit. With
    several, what pooled limits had foretold of the others' answers stays in the evidence.
    """
    _compare_retraction(new(make), new(make))
    together = [Arm(k, group="all") for k in range(K)]
    _compare_retraction(new(make, arms=together), new(make, arms=together))


def _compare_retraction(agent: Agent, never: Agent) -> None:
    rows = history(40, 91)
    gone = {0, 7, 8, 20, 39}
    ids = agent.teach_many(rows.contexts, rows.arms.tolist(), rows.allowed)
    for at in sorted(gone, reverse=True):
        agent.retract(ids[at])
    stand = [at for at in range(40) if at not in gone]
    never.teach_many(rows.contexts[stand], rows.arms[stand].tolist(), rows.allowed[stand])
    one, two = agent.limits, never.limits
    told = 7  # all of a decision's parts
    if isinstance(one, MixtureLimits) and isinstance(two, MixtureLimits):
        mine, others = one.to_state(), two.to_state()
        for name in mine:
            if "/" in name:
                expect_bits(mine[name], others[name], f"the {name} of the examples that stand")
        told = 7 if one.units == 1 else 2
    for context in (*rows.contexts, *np.random.default_rng(92).normal(size=(20, D))):
        a, b = (which.make.decided(context, id="x") for which in (agent, never))
        expect(isinstance(a, Decision) == isinstance(b, Decision), "the same arms ruled out", a)
        if isinstance(a, Decision) and isinstance(b, Decision):
            expect_bits(a.parts[:told], b.parts[:told], "the scores of the examples that stand")
            expect_bits(a.eligible, b.eligible, "the denials that stand")


def _even_history() -> History:
    """Plays from which every arm is about as good, so that all may win."""
    rows = history(40, 35)
    return History(np.tile(np.eye(D), (14, 1))[:40], np.arange(40) % K, 0.4 + 0.2 * rows.values)


def _solved(rows: History, y: Floats, C: Floats, ridge: float) -> tuple[Floats, Floats]:
    """Mean and sd of two arms for each row of C, by direct solves: two arrays (n, 2)."""
    mean, sd = np.empty((len(C), 2)), np.empty((len(C), 2))
    for arm in (0, 1):
        X, mine = rows.contexts[rows.arms == arm], y[rows.arms == arm]
        B = ridge * np.eye(D) + X.T @ X
        mean[:, arm] = C @ np.linalg.solve(B, X.T @ mine)
        sd[:, arm] = np.sqrt(np.einsum("nd,dn->n", C, np.linalg.solve(B, C.T)))
    return mean, sd
