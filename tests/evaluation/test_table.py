"""What each of several policies would have done at every decision of a log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bridle import Agent, BehaviorConstrained, LearnedMask, Thompson, Uniform
from bridle.agent.events import Asked, Created, Decided, Erased, Erasure, Rewarded, Taught
from bridle.agent.outcomes import Decision, Question
from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.evaluation.table import (
    EARNED,
    PENDING,
    PLAYED_NOTHING,
    UNFINISHED,
    RestsOnErased,
    survey,
)
from bridle.policies import Scores, with_sigma
from tests.histories import PAPER, first_form


def turned(sigma: float) -> Any:
    return lambda policy: with_sigma(policy, sigma)


def a_log(n: int = 40, **more: Any) -> tuple[Any, list[Any], list[Any]]:
    log: list[Any] = []
    how = {**PAPER, "sigma": 0.5, "seed": 3, **more}
    agent: Any = Agent(arms=3, features=2, sink=log.extend, **how)
    rng = np.random.default_rng(4)
    made = []
    for i in range(n):
        c = rng.integers(0, 2, 2).astype(float)
        if i < 8:
            agent.teach(c, i % 3, bool(rng.random() < 0.5))
        made.append(agent.decide(c, propensity=True))
        if i % 5:
            agent.reward(made[-1].id, rng.random())
    return agent, log, made


def test_the_table_says_what_policies_say_themselves():
    _, log, made = a_log(exact_denials=False, reward_range=(-1.0, 3.0))
    policies = [BehaviorConstrained(sigma=0.7), Thompson(), Uniform()]
    targets: Any = [lambda _, p=p: p for p in policies]
    found = survey(log, targets, "evaluate")
    assert len(found) == len(made) and found.policies[1:] == policies
    assert found.reward_range == (-1.0, 3.0)
    for i, d in enumerate(made):
        scores = Scores(d.reward_mean, d.reward_sd, d.limit_mean, d.limit_sd)
        guesses = -1.0 + 4.0 * np.clip(d.reward_mean, 0.0, 1.0)
        assert found.guess[i] == pytest.approx(guesses[d.arm])
        for j, policy in enumerate(policies, start=1):
            pi, p = policy.propensities(scores), d.propensities
            seen = pi <= 10.0 * p  # √40 is less
            assert found.weight[i, j] == pytest.approx((pi / p * seen)[d.arm])
            assert found.expected[i, j] == pytest.approx(pi[seen] @ guesses[seen])
            assert found.unseen[i, j] == pytest.approx(pi[~seen] @ guesses[~seen])
            assert found.lack[i, j] == pytest.approx(pi[~seen].sum())
            assert found.square[i, j] == pytest.approx((pi**2 / p)[seen].sum())
            assert found.apart[i, j] == pytest.approx(np.abs(pi - p).sum() / 2.0)
            denied = 1.0 - np.clip(d.limit_mean, 0.0, 1.0)
            assert found.belief[i, j] == pytest.approx(pi @ denied)
            correction = found.weight[i, j] * (0.5 - guesses[d.arm])
            assert found.rest[i, j] + found.weight[i, j] * 0.5 == pytest.approx(correction)


def test_the_first_column_is_the_logs_own():
    _, log, made = a_log()
    found = survey(log, [], "evaluate")
    assert (found.weight == 1.0).all() and not found.lack.any() and not found.apart.any()
    assert found.square == pytest.approx(1.0) and not found.idle.any()
    assert found.fate.tolist() == [EARNED if i % 5 else PENDING for i in range(len(made))]
    assert found.known.all() and not found.reward[found.fate == PENDING].any()


def test_the_dial_of_the_time_is_the_logs_own():
    agent, log, _ = a_log(10)
    agent.set_sigma(0.9)
    agent.decide([1.0, 1.0], propensity=True)
    found = survey(log, [turned(0.5), turned(0.9)], "evaluate")
    assert found.weight[:10, 1] == pytest.approx(1.0) and found.weight[10, 2] == pytest.approx(1.0)
    assert found.apart[10, 1] > 1e-3 and [getattr(p, "sigma", None) for p in found.policies] == [
        0.9,
        0.5,
        0.9,
    ]


def test_an_exact_answer_is_certain():
    log: list[Any] = []
    agent = Agent(arms=2, features=1, policy=Uniform(), limits="rules", sink=log.extend)
    agent.teach([1.0], 0, True)
    agent.decide([1.0], propensity=True)
    agent.teach([1.0], 1, False)
    agent.decide([1.0], propensity=True)
    agent.teach([1.0], 0, True, item="Up")
    agent.decide([1.0], item="Up", propensity=True)
    first, second, third = survey(log, [], "evaluate").belief[:, 0]
    # "Allowed" is certain of an item that has a name, and evidence elsewhere.
    assert 0.0 < second < first < 0.5 and third == 0.0


def test_a_safe_arm_is_allowed_as_declared():
    log: list[Any] = []
    agent = Agent(
        arms=2, features=1, limits="rules", on_empty="safe_arm", safe_arm=1, sink=log.extend
    )
    agent.decide([1.0], propensity=True)
    found = survey(log, [lambda _: Uniform()], "evaluate")
    assert found.belief[0, 0] == 0.0 < found.belief[0, 1] and found.lack[0, 1] == 0.5


def test_choices_may_stand_after_their_version_and_ids_may_come_again():
    log: list[Any] = []
    agent: Any = Agent(**PAPER, sigma=0.5, arms=2, features=1, seed=1, sink=log.extend)
    for value in (0.25, 0.5):
        made = [agent.make.decided([1.0], None, name, propensity=True) for name in ("a", "b")]
        for one in made:
            agent.sink([one.event])
            agent.apply(one.event)
        agent.reward("b", value)
        agent.reward("a", 2.0 * value)
    found = survey(iter(log), [turned(0.6)], "evaluate")
    assert found.reward.tolist() == [0.5, 0.25, 1.0, 0.5]
    assert (found.fate == EARNED).all()
    assert found.belief[0, 1] == found.belief[1, 1]  # of one state


def doubtful(make: Any = Agent, **more: Any) -> tuple[Any, list[Any]]:
    log: list[Any] = []
    agent: Any = make(
        arms=4,
        features=3,
        limits="rules",
        policy=LearnedMask(sigma=0.8, v=1.0),
        budget=12,
        seed=6,
        sink=log.extend,
        **more,
    )
    return agent, log


def test_questions_with_a_price_are_taken_as_they_were_asked():
    agent, log = doubtful()
    rng = np.random.default_rng(8)
    denied = rng.random((3, 4)) < 0.3
    weights, asked = [], 0
    for i in range(40):
        c = (rng.random(3) < 0.5).astype(float)
        made: Any = agent.decide(c, item=i % 10, propensity=True)
        while isinstance(made, Question):
            asked += 1
            asked_of: Any = made.arm
            allowed = not (denied[:, asked_of] & (c > 0.0)).any()
            made = agent.answer(made, allowed).then
        weights.append(0.0)
        if isinstance(made, Decision):
            twin: Any = Agent.replay(log[: made.version]).agent
            twin.set_sigma(0.3)
            theirs = twin.make.decided(c, item=i % 10, propensity=True, ask=False)
            if made.id in twin.waiting:
                theirs = twin.make.resumed(made.id, propensity=True)
            mine: Any = made
            weights[-1] = theirs.odds.play[mine.arm] / mine.odds.play[mine.arm]
            agent.reward(made.id, 0.5)
    found = survey(log, [turned(0.3)], "evaluate")
    assert asked >= 3 and len(set(weights)) > 3
    assert found.weight[:, 1] == pytest.approx(weights)
    played = found.fate == EARNED
    assert found.weight[played, 0] == pytest.approx(1.0) and found.known.all()


def test_a_decision_that_asks_weighs_the_product_of_its_looks():
    agent, log = doubtful(first_form)
    rng = np.random.default_rng(8)
    denied = rng.random((3, 4)) < 0.3
    weights, asked = [], 0
    for _ in range(25):
        c = (rng.random(3) < 0.5).astype(float)
        looks: list[Any] = [agent.decide(c, propensity=True)]
        while isinstance(looks[-1], Question):
            asked_of: Any = looks[-1].arm
            allowed = not (denied[:, asked_of] & (c > 0.0)).any()
            looks.append(agent.answer(looks[-1], allowed).then)
        weight = 1.0
        for made in looks:
            if made.odds is None:
                continue  # the answer settled it
            # The same agent at the same state, with another dial.
            twin: Any = Agent.replay(log[: made.version]).agent
            twin.set_sigma(0.3)
            first = made is looks[0]
            make = twin.make
            theirs = make.decided(c, propensity=True) if first else make.resumed(looks[0].decision)
            if isinstance(made, Question):
                weight *= theirs.odds.ask[made.arm] / made.odds.ask[made.arm]
            elif isinstance(made, Decision):
                weight *= theirs.odds.play[made.arm] / made.odds.play[made.arm]
            else:
                weight = 0.0
        weights.append(weight)
        asked += len(looks) > 1
        if isinstance(made, Decision):
            agent.reward(made.id, 0.5)
    found = survey(log, [turned(0.3)], "evaluate")
    assert asked >= 3
    assert found.weight[:, 1] == pytest.approx(weights)
    played = found.fate == EARNED
    assert found.weight[played, 0] == pytest.approx(1.0)
    assert (found.fate[~played] == PLAYED_NOTHING).all() and found.idle[~played].min() > 0.0


def paths(sigma: float, target: float) -> dict[tuple[Any, ...], Any]:
    """Find every way in which one decision of an agent can go; arm 0 is denied.

    Gives what was asked and done: its probability, and the row of the table for the target. Agents
    differ in their seeds alone, so their states are the same.
    """
    found: dict[tuple[Any, ...], Any] = {}
    for seed in range(2_000):
        log: list[Any] = []
        agent: Any = first_form(
            arms=3,
            features=2,
            limits="rules",
            policy=LearnedMask(sigma=sigma, v=1.0),
            budget=3,
            teacher_error=0.05,
            exact_denials=False,
            doubt=0.3,
            prior="centred",
            seed=seed,
            sink=log.extend,
        )
        for arm, allowed in ((0, True), (0, False), (1, False), (1, True), (2, True)):
            agent.teach([1.0, 0.0], arm, allowed)
        made: Any = agent.decide([1.0, 0.0], propensity=True)
        way, chance = [], 1.0
        while isinstance(made, Question):
            assert made.odds is not None
            asked: Any = made.arm
            way.append(("ask", asked))
            chance *= made.odds.ask[asked]
            made = agent.answer(made, made.arm != 0).then
        played = isinstance(made, Decision)
        way.append(("play", made.arm) if played else ("nothing", -1))
        if made.odds is not None:
            chance *= made.odds.play[made.arm] if played else made.odds.abstain
        found.setdefault(tuple(way), (chance, survey(log, [turned(target)], "evaluate")))
        if sum(chance for chance, _ in found.values()) > 1.0 - 1e-9:
            return found
    raise AssertionError("a way was not met")


def test_what_follows_on_an_answer_counts_as_often_as_the_target_would_ask():
    # Exactly, over all ways of both agents: the mean of the weighted sums, by the log's chances, is
    # the mean of the plain ones by the target's own.
    logged, targets = paths(0.8, 0.3), paths(0.3, 0.3)
    assert len(logged) > 3 and any(len(way) > 1 for way in logged)
    for name in ("belief", "idle", "weight"):
        weighted = sum(chance * getattr(found, name)[0, 1] for chance, found in logged.values())
        plain = sum(chance * getattr(found, name)[0, 0] for chance, found in targets.values())
        assert weighted == pytest.approx(plain, rel=1e-6, abs=1e-9), name
    first = next(iter(logged.values()))[1]
    belief = [found.belief[0, 1] for _, found in logged.values()]
    assert not first.lack.any() and max(belief) > min(belief)  # the answers matter


def test_what_still_waits_is_there_and_a_filed_question_is_none():
    agent, log = doubtful()
    made = agent.decide([1.0, 0.0, 0.0], propensity=True)
    assert isinstance(made, Question)
    assert survey(log, [], "evaluate").fate.tolist() == [UNFINISHED]
    agent, log = doubtful(on_doubt="play_safe")
    agent.decide([1.0, 0.0, 0.0], propensity=True)
    assert any(isinstance(event, Asked) for event in log)
    found = survey(log, [], "evaluate")
    assert found.fate.tolist() == [PLAYED_NOTHING] and found.idle.tolist() == [[1.0]]


def test_a_long_log_grows_the_table():
    _, log, made = a_log(150)
    assert len(survey(log, [turned(0.4)], "evaluate")) == len(made) == 150


def test_logs_that_do_not_fit_are_refused():
    _, log, _ = a_log(12)
    place = next(i for i, event in enumerate(log) if isinstance(event, Decided))
    wrong = replace(log[place], propensity=0.123)
    with pytest.raises(CorruptState, match=f"Event {place + 1} .*not that of the state"):
        survey([*log[:place], wrong, *log[place + 1 :]], [], "evaluate")
    old = replace(log[-2], version=1)
    assert isinstance(old, Decided)
    with pytest.raises(CorruptState, match="begins with"):
        survey(log[1:], [], "evaluate")
    with pytest.raises(CorruptState, match="does not fit"):
        survey([*log, replace(log[place], version=10**6)], [], "evaluate")
    with pytest.raises(CorruptState, match="does not fit"):
        survey([*log, log[0]], [], "evaluate")
    with pytest.raises(InvalidValue, match="list of events"):
        survey(7, [], "evaluate")
    with pytest.raises(NotPossible, match="has no sigma"):
        survey([Created(replace(log[0].settings, policy=Uniform()))], [turned(0.5)], "evaluate")


def test_a_choice_too_far_after_its_version_is_refused(monkeypatch):
    monkeypatch.setattr("bridle.evaluation.table.WINDOW", 4)
    _, log, _ = a_log(12)
    assert len(survey(log, [], "evaluate")) == 12
    late = replace(log[-2] if isinstance(log[-2], Decided) else log[-1], id="late", version=2)
    with pytest.raises(CorruptState, match="before its own"):
        survey([*log, late], [], "evaluate")


def erased(log: list[Any], *places: int) -> list[Any]:
    """The log with events at these places (from 1) erased, and the erasure written down."""
    spaces = {"Taught": ("example",), "Decided": ("decision",)}
    kinds = {place: type(log[place - 1]).__name__ for place in places}
    kept = [
        Erased(kinds[seq], spaces.get(kinds[seq], ())) if seq in kinds else event
        for seq, event in enumerate(log, 1)
    ]
    return [*kept, Erasure(tuple(places))]


def test_decisions_that_rest_on_what_was_erased_are_left_out():
    _, log, _ = a_log(12)
    rewarded = next(event.decision for event in reversed(log) if isinstance(event, Rewarded))
    places = [
        seq
        for seq, event in enumerate(log, 1)
        if getattr(event, "decision", None) == rewarded
        or (isinstance(event, Decided) and event.id == rewarded)
    ]
    # Nothing came after it that would have been otherwise.
    found = survey(erased(log, *places), [], "evaluate")
    assert len(found) == 11 and found.gone == found.gone_done == 1
    # An example that all decisions but the first rest on.
    second = [seq for seq, event in enumerate(log, 1) if isinstance(event, Taught)][1]
    found = survey(erased(log, second), [], "evaluate")
    assert len(found) == 1 and found.gone == 11
    first = next(seq for seq, event in enumerate(log, 1) if isinstance(event, Taught))
    with pytest.raises(RestsOnErased, match="What 12 decisions rested on was erased"):
        survey(erased(log, first), [], "evaluate")
    with pytest.raises(RestsOnErased):  # by hand, and never written down
        survey(erased(log, first)[:-1], [], "evaluate")


def test_an_erasure_excuses_only_what_rests_on_it():
    _, log, _ = a_log(12)
    last = erased(log, next(s for s, e in enumerate(log, 1) if isinstance(e, Taught)))
    agent: Any = Agent.replay(last).agent
    made = agent.make.decided([1.0, 0.0], propensity=True).event
    assert len(survey([*last, made], [], "evaluate")) == 1
    with pytest.raises(CorruptState, match="not that of the state"):
        survey([*last, replace(made, propensity=0.123)], [], "evaluate")
