"""What any agent must do, and the histories that the checks put agents through."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from bridle.agent.agent import Agent
from bridle.agent.config import Arm, ArmFeatures, ArmId, ItemId
from bridle.agent.events import Event, event_from_json, event_to_json
from bridle.agent.outcomes import Abstention, Decision, Question
from bridle.errors import BridleError
from bridle.kernels.types import Bools, Floats, Ints
from bridle.policies import BehaviorConstrained, Thompson
from bridle.schema import Labels, Number, Schema
from bridle.testing.base import (
    Calls,
    Check,
    Fit,
    Miss,
    each,
    expect,
    expect_bits,
    expect_near,
    expect_refusal,
)

__all__ = ["AGENT", "MakeAgent", "Story"]


K, D = 4, 3
Made: TypeAlias = Decision | Question | Abstention


class MakeAgent(Protocol):
    """Makes a new agent; `bridle.Agent` itself, or a function that adds settings of its own."""

    def __call__(self, **settings: object) -> Agent:
        """Return an agent with these settings."""
        ...


def new(make: MakeAgent, **settings: object) -> Agent:
    """Return an agent of K arms over D features.

    A mask plays nothing before it is taught, so it is checked with the dial in its place.
    """
    given: dict[str, object] = {"arms": K, "features": D, "seed": 5, **settings}
    if make(**{**given, "sink": None}).policy.needs_limits:
        given |= {"policy": BehaviorConstrained(), "budget": 0}
    return make(**given)


def contexts(n: int, seed: int) -> Floats:
    """Return contexts out of few, so that some meet again."""
    return np.random.default_rng(seed).choice([0.0, 0.5, 1.0], size=(n, D))


@dataclass(frozen=True)
class History:
    """Examples of a teacher, or plays with what they earned: one row each."""

    contexts: Floats
    arms: Ints
    values: Floats

    @property
    def allowed(self) -> Bools:
        """The values as answers of a teacher."""
        return self.values > 0.5


def history(n: int, seed: int, arms: int = K) -> History:
    """Return n rows."""
    rng = np.random.default_rng(seed)
    return History(contexts(n, seed + 1), rng.integers(0, arms, n), rng.random(n))


@dataclass
class Story:
    """A life of an agent: every verb, in an order that the seed fixes."""

    seed: int
    waiting: list[ItemId] = field(default_factory=list)
    standing: list[ItemId] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def go(self, agent: Agent, steps: int) -> None:
        """Run `agent` through the next steps."""
        for _ in range(steps):
            self._step(agent, self._rng.random(), self._rng.choice([0.0, 0.5, 1.0], size=D))

    def _step(self, agent: Agent, coin: float, context: Floats) -> None:
        pick, value = int(self._rng.integers(10**6)), float(self._rng.random())
        arms = [arm.id for arm in agent.arms]
        if coin < 0.40:
            among = None if value < 0.7 else arms[: 1 + pick % len(arms)]
            made = agent.decide(context, among, propensity=value < 0.5)
            if isinstance(made, Decision):
                self.waiting.append(made.id)
        elif coin < 0.65 and agent.pending:
            del self.waiting[: -agent.pending]  # the oldest may have been dropped
            agent.reward(self.waiting.pop(pick % len(self.waiting)), value)
        elif coin < 0.80:
            self.standing.append(agent.teach(context, arms[pick % len(arms)], value < 0.6))
        elif coin < 0.90:
            told = agent.answer(agent.ask(context), value < 0.6, by="check")
            if told.example is not None:
                self.standing.append(told.example)
        elif coin < 0.95 and self.standing:
            agent.retract(self.standing.pop(pick % len(self.standing)))
        elif coin < 0.98:
            rows = history(3, pick)
            agent.learn(rows.contexts, rows.arms.tolist(), rows.values)
        elif len(arms) < K + 3:
            agent.add_arms([1_000 + len(arms)])


def seen(made: Made) -> tuple[object, ...]:
    """Return all of a decision or abstention, in a form in which equal means equal bits."""
    if not isinstance(made, Decision):
        return (made.event,)
    odds = None if made.propensities is None else made.propensities.tobytes()
    return (made.event, made.parts.tobytes(), made.eligible.tobytes(), odds)


def knows(agent: Agent) -> tuple[object, ...]:
    """Return what an agent knows, as far as it can be seen: what it would do next, and why."""
    rows = (*np.eye(D), *contexts(3, 99))
    return (
        agent.version,
        agent.pending,
        agent.dropped,
        agent.sigma,
        agent.arms,
        agent.rules,
        agent.examples,
        agent.make.asked(np.ones(D)).event,
        *(seen(agent.make.decided(row, propensity=True)) for row in rows),
    )


def numbers_of(agent: Agent, chosen: list[ArmId | None]) -> Ints:
    """Return the numbers of chosen arms, −1 for an abstention."""
    number: dict[ArmId | None, int] = {arm.id: k for k, arm in enumerate(agent.arms)}
    return np.array([number.get(arm, -1) for arm in chosen], np.int64)


def a_decision(made: Made) -> Decision:
    """Return `made`, which must be a decision."""
    if not isinstance(made, Decision):
        raise TypeError(f"a decision was expected, not {made!r}")
    return made


# --- What an agent must decide ------------------------------------------------------------


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
            Thompson(v=v)
            if sigma == 1.0
            else BehaviorConstrained(sigma=sigma, v=v, v_constraint=v_limit)
        )
        agent = new(
            make,
            arms=2,
            policy=policy,
            ridge=2.0,
            ridge_limits=0.5,
            label_coding="1/0",
            reward_range=(0.0, 1.0),
            exact_denials=False,
            limits="linear",
            prior="paper",
        )
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
    made = agent.make.decided(np.ones(D), [])
    expect(isinstance(made, Abstention), "an abstention among no arms", made)


def order_of_arms_does_not_matter(make: MakeAgent) -> None:
    """The same arms in another order have the same scores in bits and the same propensities.

    A mixture adds up what all units say, and arms that find their scale what all arms earned: a sum
    in another order has other last bits, so there it is the same to 1e-9.
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
        same = 2 if plain.limits.order_matters else 6
        if plain.settings.prior == "scaled":
            same = 0
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
    # Where the scale is found, how much an arm is in doubt depends on what the others earned.
    apart = slice(4) if paper else slice(1, 1 if agent.settings.prior == "scaled" else 2)
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
    if one.order_matters:
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


# --- What an agent must keep: its state is the fold of its log, and nothing else changes it


def same_seed_same_agent(make: MakeAgent) -> None:
    """Equal settings, seeds and calls give equal agents in bits; another seed, other draws."""
    lives = []
    for seed in (1, 1, 2):
        agent = new(make, seed=seed)
        draws = agent.decide_many(contexts(64, 12)).chosen
        Story(seed=3).go(agent, 40)
        lives.append((draws, knows(agent)))
    expect(lives[0] == lives[1], "the same agent from the same seed and calls", "another")
    expect(lives[0][0] != lives[2][0], "other choices from another seed", "the same 64")


def verb_is_make_then_apply(make: MakeAgent) -> None:
    """Making an event changes nothing, and `apply` of it is all that the verb does."""
    one, two = new(make), new(make)
    for step, context in enumerate(contexts(12, 21)):
        arm = one.arms[step % K].id
        one.teach(context, arm, step % 3 > 0)
        two.apply(two.make.taught(context, arm, step % 3 > 0))
        asked = one.ask(context)
        _untouched(two, partial(two.make.asked, context))
        two.apply(two.make.asked(context).event)
        if step % 2:
            one.answer(asked, True)
            two.apply(two.make.answered(asked.id, True))
        made = one.decide(context, propensity=True)
        _untouched(two, partial(two.make.decided, context, propensity=True))
        two.apply(two.make.decided(context, propensity=True).event)
        if isinstance(made, Decision):
            one.reward(made.id, step / 12)
            _untouched(two, partial(two.make.rewarded, made.id, step / 12))
            two.apply(two.make.rewarded(made.id, step / 12))
    one.retract(1)
    two.apply(two.make.retracted(1))
    one.learn(np.eye(D), [0] * D, np.ones(D))
    two.apply(two.make.learned(np.eye(D), [0] * D, np.ones(D)))
    one.add_arms(["late"])
    two.apply(two.make.arms_added(["late"]))
    expect(knows(one) == knows(two), "make and apply to do what the verbs do", "another agent")


def batch_is_one_by_one(make: MakeAgent) -> None:
    """Bulk verbs give the bits of the single ones, in what they answer and in what they leave."""
    taught, asked, played = history(20, 31), contexts(6, 32), contexts(30, 33)
    one, many, lean = new(make), new(make), new(make)
    for agent in (many, lean):
        agent.teach_many(taught.contexts, taught.arms.tolist(), taught.allowed)
        questions = agent.ask_many(asked)
        agent.answer_many(questions[:4], [True, False, True, True])
        agent.retract_many([1, 5, 21])
    rows = zip(taught.contexts, taught.arms.tolist(), taught.allowed.tolist(), strict=True)
    for context, arm, allowed in rows:
        one.teach(context, arm, allowed)
    singles = [one.ask(context) for context in asked]
    for question, answer in zip(singles[:4], [True, False, True, True], strict=True):
        one.answer(question, answer)
    for example in (1, 5, 21):
        one.retract(example)
    expect(singles == questions, "ask_many to ask what ask does", "other questions")
    expect(
        knows(one) == knows(many),
        "teach_many, ask_many, … to leave what one by one does",
        "another",
    )

    for among in (None, [0, 2]):
        by_one = [one.decide(context, among, propensity=True) for context in played]
        batch = many.decide_many(played, among, propensity=True)
        where = f"decide_many among {'all' if among is None else among}"
        expect(len(batch) == len(played), f"{where} to answer each context", len(batch))
        for at, (single, other) in enumerate(zip(by_one, batch, strict=True)):
            expect(
                seen(single) == seen(other), f"{where} to do what decide does", f"another at {at}"
            )
        expect(
            [d.arm if isinstance(d, Decision) else None for d in by_one]
            == lean.decide_many(played, among, details=False).chosen,
            f"{where} without details to choose what decide does",
            "other arms",
        )
        ids = [d.id for d in by_one[-one.pending :] if isinstance(d, Decision)][::-1][3:]
        values = np.linspace(0.0, 1.0, len(ids))
        for id, value in zip(ids, values.tolist(), strict=True):
            one.reward(id, value)
        many.reward_many(ids, values)
        lean.reward_many(ids, values)
        expect(knows(one) == knows(many), f"{where} and reward_many to leave the same", "another")
        expect(knows(one) == knows(lean), f"{where} without details to leave the same", "another")


def restart_is_no_restart(make: MakeAgent) -> None:
    """An agent read back from its file goes on as if there had been no pause, in bits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent"
        for steps in (0, 90):
            agent, first, second = new(make), Story(seed=101), Story(seed=101)
            first.go(agent, steps)
            second.go(new(make), steps)
            agent.save(path)
            back = type(agent).load(path)
            expect(
                knows(back) == knows(agent),
                f"what was known when saved after {steps} steps",
                "other",
            )
            for _ in range(4):
                first.go(agent, 10)
                second.go(back, 10)
                same = knows(back) == knows(agent)
                expect(same, f"the life without the restart after {steps} steps", "another")


def replay_agrees(make: MakeAgent) -> None:
    """A replay of the log makes every choice again, the same, and ends with the same agent."""
    log: list[Event] = []
    agent = new(make, sink=log.extend)
    Story(seed=111).go(agent, 150)
    batch = agent.decide_many(contexts(20, 112), propensity=True)
    agent.reward_many([d.id for d in batch if isinstance(d, Decision)][:-6:-1], [0.5] * 5)
    choices = sum(type(event).__name__ in ("Decided", "Abstained", "Asked") for event in log)
    found = type(agent).replay(log)
    expect(found.checked == choices, f"{choices} choices made again", found.checked)
    expect(
        found.agrees,
        "every choice of the log to come out the same",
        f"others: {found.differing[:5]}",
    )
    expect(knows(found.agent) == knows(agent), "the agent that wrote the log", "another")


def features_of_arms_last(make: MakeAgent) -> None:
    """What arms are like, gaps too, is as given: after a change, a restart and a replay of JSON."""
    schema = Schema([Labels("likes", ["a", "b"], optional=True), Number("x", 0, 1, optional=True)])
    told: list[dict[str, object]] = [{"likes": ["a"], "x": 0.5}, {"likes": [], "x": 1.0}, {}]
    told.append({"likes": ["b", None]})
    arms = [Arm(k, features=features) for k, features in enumerate(told)]
    log: list[Event] = []
    # Whatever the prior: some have no reward model that arms share.
    agent = new(make, arms=arms, arm_features=schema, reward="linear", sink=log.extend)
    Story(seed=115).go(agent, 40)
    agent.change_arms([Arm(2, features={"likes": ["a", "b"]}), Arm(0, features={"x": 0.0})])
    agent.add_arms([Arm("new", features={"likes": []})])
    wanted: dict[ArmId, object] = {0: (None, 0.0), 1: ((), 1.0), "new": ((), None)}
    wanted |= {2: (("a", "b"), None), 3: (("b", None), None)}
    lines = [json.dumps(event_to_json(event)) for event in log]
    with tempfile.TemporaryDirectory() as folder:
        agent.save(Path(folder) / "agent")
        back = type(agent).load(Path(folder) / "agent")
    again = type(agent).replay([event_from_json(json.loads(line)) for line in lines]).agent
    for one, where in ((agent, "as it is"), (back, "restarted"), (again, "replayed")):
        for arm in one.arms:
            features = arm.features
            if not isinstance(features, ArmFeatures):
                raise Miss(f"features of the arm {arm.id!r} of an agent {where}", features)
            got = features["likes"], features["x"]
            right = wanted.get(arm.id, (None, None))
            expect(got == right, f"the arm {arm.id!r} with {right} in an agent {where}", got)


def log_survives_json(make: MakeAgent) -> None:
    """Every event, also of ids that only look like one's own, comes back from JSON as it was."""
    log: list[Event] = []
    agent = new(make, sink=log.extend)
    Story(seed=121).go(agent, 80)
    like_one: tuple[Any, ...] = (np.int64(1), True, 1.0, np.float64(1.0))
    for one in like_one:
        own = new(make, sink=log.extend)
        own.teach(np.zeros(D), 1, False)
        own.decide(np.ones(D))
        own.ask(np.ones(D))
        for verb in (
            partial(own.teach, np.ones(D), one, True),
            partial(own.decide, np.ones(D), [one]),
            partial(own.reward, one, 0.5),
            partial(own.retract, one),
            partial(own.answer, one, True),
            partial(own.learn, [np.ones(D)], [one], [0.5]),
        ):
            with suppress(BridleError):  # refused is fine
                verb()
    for event in log:
        try:
            back = event_from_json(json.loads(json.dumps(event_to_json(event))))
        except (BridleError, TypeError, ValueError) as error:
            raise Miss("every event to survive JSON", f"{error!r} for {event!r}") from error
        expect(back == event, "every event to survive JSON", f"{back!r} for {event!r}")


def sink_that_raises_changes_nothing(make: MakeAgent) -> None:
    """If the sink raises, the verb raises the same, and nothing has changed."""
    agent = new(make)
    Story(seed=131).go(agent, 40)
    agent.decide(np.ones(D), id="pending", among=[0, 1, 2])
    agent.decide(np.ones(D), id="pending too", among=[0, 1, 2])
    question = agent.ask(np.ones(D))
    example = agent.teach(np.ones(D) / 2, 0, True)

    def refuse(events: Sequence[Event]) -> None:
        raise ConnectionError("the disk is full")

    verbs: dict[str, Callable[[], object]] = {
        "ask": lambda: agent.ask(np.ones(D)),
        "ask_many": lambda: agent.ask_many(np.ones((2, D))),
        "teach": lambda: agent.teach(np.ones(D), 0, False),
        "teach_many": lambda: agent.teach_many(np.ones((2, D)), [0, 1], [False, True]),
        "answer": lambda: agent.answer(question, False),
        "answer_many": lambda: agent.answer_many([question], [False]),
        "retract": lambda: agent.retract(example),
        "retract_many": lambda: agent.retract_many([example]),
        "decide": lambda: agent.decide(np.ones(D)),
        "decide_many": lambda: agent.decide_many(np.ones((2, D))),
        "reward": lambda: agent.reward("pending", 1.0),
        "reward_many": lambda: agent.reward_many(["pending", "pending too"], [1.0, 0.0]),
        "learn": lambda: agent.learn(np.ones((2, D)), [0, 1], [0.0, 1.0]),
        "add_arms": lambda: agent.add_arms(["one", "two"]),
    }
    if agent.sigma is not None:
        verbs["set_sigma"] = lambda: agent.set_sigma(0.875)
    before = knows(agent)
    agent.sink = refuse
    for name, verb in verbs.items():
        try:
            verb()
        except ConnectionError:
            pass
        else:
            raise Miss(f"{name} to raise what the sink raises", "no error")
        expect(knows(agent) == before, f"no change by {name} when the sink raises", "another agent")
    agent.sink = None
    for name, verb in verbs.items():
        if name not in ("answer_many", "retract_many", "reward_many"):
            verb()
            before, last = knows(agent), before
            expect(before != last, f"a change by {name} without the sink", "none")


def what_it_hands_out_is_a_copy(make: MakeAgent) -> None:
    """Changing what was given or taken afterwards changes nothing."""
    agent, twin = new(make), new(make)
    Story(seed=141).go(agent, 40)
    Story(seed=141).go(twin, 40)
    C = contexts(6, 142)
    rows, context = C.copy(), np.ones(D)
    for among in ([0, 1, 2], None):
        batch = agent.decide_many(rows, among, propensity=True)
        for made in (*batch, agent.decide(context, among, propensity=True)):
            if isinstance(made, Decision):
                _scribble(made.parts, made.eligible, made.propensities)
        waiting = [made.id for made in twin.decide_many(C, among) if isinstance(made, Decision)]
        twin.decide(np.ones(D), among)
    what = "no change by a change of "
    expect(knows(agent) == knows(twin), f"{what}a decision's arrays", "another agent")
    _scribble(rows, context)
    agent.reward_many(waiting, [0.5] * len(waiting))
    twin.reward_many(waiting, [0.5] * len(waiting))
    rows = C.copy()
    agent.learn(rows, [0] * 6, np.ones(6))
    twin.learn(C, [0] * 6, np.ones(6))
    _scribble(rows)
    expect(knows(agent) == knows(twin), f"{what}what was given", "another agent")


def bad_input_changes_nothing(make: MakeAgent) -> None:
    """What makes no sense is refused with an error of bridle, unlogged, and nothing has changed."""
    log: list[Event] = []
    agent = new(make, sink=log.extend)
    Story(seed=151).go(agent, 40)
    agent.decide(np.zeros(D), id="pending", among=[0, 1, 2])
    agent.decide(np.zeros(D), id="rewarded", among=[0, 1, 2])
    agent.reward("rewarded", 1.0)
    agent.teach(np.zeros(D), 0, True, id="example")
    before, events = knows(agent), len(log)
    for what, call in _bad_calls(agent):
        expect_refusal(call, what)
        expect(knows(agent) == before, f"the same agent after {what}", "another")
        expect(len(log) == events, f"nothing in the log of {what}", log[events:])


def _bad_calls(agent: Agent) -> Calls:
    good, two, high = np.ones(D), np.ones((2, D)), agent.settings.reward_range[1]
    arms = (-1, 10**9, "no such arm", None, 0.5, [0])
    contexts = (
        good[1:],
        [*good, 1.0],
        [*good[1:], np.nan],
        [*good[1:], np.inf],
        "abc",
        5,
        ["a"] * D,
    )
    rewards = (np.nan, np.inf, -np.inf, high + 1e6, "1", None)
    answers = (2, -1, 0.5, "yes", None, np.nan)
    unknown = ("rewarded", "never made", -1, 10**9, None, [1])
    ids = ("", "x" * 10_000, 7, True)
    return [
        *each("decide in {}", agent.decide, contexts),
        *each("decide_many in {}, last", lambda c: agent.decide_many([good, c]), contexts),
        *each("decide among {}", lambda k: agent.decide(good, [0, k]), arms[:4]),
        *each("decide_many among {}", lambda k: agent.decide_many(two, [0, k]), arms[:4]),
        *each("decide with the id {}", lambda i: agent.decide(good, id=i), (*ids, "pending")),
        *each("decide at {}", lambda at: agent.decide(good, at=at), (np.nan, "now")),
        *each(
            "decide_many with the ids {}",
            lambda i: agent.decide_many(two, ids=i),
            (["new", "pending"], ["same", "same"], ["one"], ["one", ""]),
        ),
        *each("reward {}", lambda y: agent.reward("pending", y), (*rewards, True, [high])),
        *each("reward_many {}", lambda y: agent.reward_many(["pending"], [y]), rewards),
        *each("reward for {}", lambda i: agent.reward(i, high), unknown),
        *each(
            "reward_many for {}",
            lambda i: agent.reward_many(i, [high] * 2),
            (["pending", "rewarded"], ["pending", "pending"], ["pending"]),
        ),
        *each("ask in {}", agent.ask, contexts),
        *each("teach in {}", lambda c: agent.teach(c, 0, True), contexts),
        *each("teach of the arm {}", lambda k: agent.teach(good, k, True), arms),
        *each("teach the answer {}", lambda yes: agent.teach(good, 0, yes), answers),
        *each(
            "teach with the id {}", lambda i: agent.teach(good, 0, True, id=i), (*ids, "example")
        ),
        *each(
            "teach_many in {}, last",
            lambda c: agent.teach_many([good, c], [0, 1], [True, True]),
            contexts,
        ),
        *each(
            "teach_many of the arm {}, last",
            lambda k: agent.teach_many(two, [0, k], [True, True]),
            arms,
        ),
        *each(
            "teach_many of the answer {}, last",
            lambda yes: agent.teach_many(two, [0, 1], [True, yes]),
            answers,
        ),
        *each("answer to {}", lambda i: agent.answer(i, True), unknown),
        *each("retract of {}", agent.retract, unknown),
        *each(
            "retract_many of {}", agent.retract_many, (["example", "example"], ["example", "never"])
        ),
        *each("learn in {}, last", lambda c: agent.learn([good, c], [0, 1], [high] * 2), contexts),
        *each("learn of the arm {}, last", lambda k: agent.learn(two, [0, k], [high] * 2), arms),
        *each("learn of {}, last", lambda y: agent.learn(two, [0, 1], [high, y]), rewards),
        *each("learn of the arms {}", lambda k: agent.learn(two, k, [high] * 2), ([0], "01", None)),
        *each("sigma {}", agent.set_sigma, (-0.1, 1.1, np.nan, True, "1", None)),
        *each(
            "add_arms({})", agent.add_arms, (0, -1, True, [], [None], [0], ["a", "a"], "ab", None)
        ),
        *each("withdraw({})", agent.withdraw, ("no such rule", None)),
        *each("apply({})", agent.apply, (None, "Decided", {})),
    ]


def _untouched(agent: Agent, call: Callable[[], object]) -> None:
    before = knows(agent)
    call()
    expect(knows(agent) == before, "no change by making an event", "another agent")


def _scribble(*arrays: Any) -> None:
    for array in arrays:
        if array is not None and array.flags.writeable:
            array[...] = 0


# --- What any agent must do ---------------------------------------------------------------


AGENT: tuple[Check[MakeAgent], ...] = tuple(
    Check.of("agent", run)
    for run in (
        same_seed_same_agent,
        verb_is_make_then_apply,
        batch_is_one_by_one,
        equal_contexts_draw_independently,
        draws_have_the_spread_of_the_posterior,
        propensities_are_probabilities,
        order_of_arms_does_not_matter,
        new_arms_keep_the_rest,
        exact_denial_is_obeyed,
        retraction_leaves_what_stands,
        restart_is_no_restart,
        replay_agrees,
        features_of_arms_last,
        log_survives_json,
        sink_that_raises_changes_nothing,
        what_it_hands_out_is_a_copy,
        bad_input_changes_nothing,
    )
)
