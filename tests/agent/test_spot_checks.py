"""Agents whose plays are checked: coins, judgements, what they find, budgets, lives of answers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridle import Abstention, Agent, Arm, Decision, Flag, LearnedMask, Question
from bridle.agent.config import Settings
from bridle.agent.events import Created, Decided, Event, Promised, StartedAnew, Taught
from bridle.agent.queries import EXCEPTIONS
from bridle.errors import InvalidValue, NotPossible, UnknownId
from tests.histories import bits

FEATURES = [Flag("comedy"), Flag("horror")]
ARMS = [Arm("ann", group="young"), Arm("bob", group="young"), Arm("eve", group="old")]
COMEDY = {"comedy": True, "horror": False}


def taught(**options: Any) -> tuple[Agent, list[Event]]:
    """An agent that is sure of comedies, and its log."""
    log: list[Event] = []
    agent = Agent(arms=ARMS, features=FEATURES, seed=3, sink=log.extend, **options)
    for n in range(40):
        for arm in ("ann", "eve"):
            agent.teach(COMEDY, arm, True, item=f"film {n}", by="Ann")
    return agent, log


def play(
    agent: Agent, n: int, judge: Callable[[Any], bool | None] = lambda check: None
) -> list[Any]:
    """Decide about n new comedies; judge each check as `judge` says."""
    made = []
    for i in range(n):
        one = agent.decide(COMEDY, item=f"new {agent.version} {i}")
        made.append(one)
        check = getattr(one, "check", None)
        said = None if check is None else judge(check)
        if said is not None:
            agent.judge(check, said)
    return made


def same_as_replayed(agent: Agent, log: list[Event]) -> None:
    found = Agent.replay(log)
    assert found.agrees and bits(found.agent) == bits(agent)


# -- coins -------------------------------------------------------------------------------------


def test_each_play_of_what_nobody_has_judged_has_a_coin_and_the_others_have_none():
    agent, log = taught()
    made = agent.decide(COMEDY, item="film 0")
    assert isinstance(made, Decision) and made.event.coin is None and made.check is None
    made = agent.decide(COMEDY, item="unheard of")
    assert isinstance(made, Decision) and made.event.coin is not None
    assert made.event.checked and made.check is not None
    assert (made.check.id, made.check.arm, made.check.item) == (made.id, made.arm, "unheard of")
    assert agent.open_checks == (made.check,)
    same_as_replayed(agent, log)


def test_the_coin_is_that_of_the_decision_whatever_is_decided_beside_it():
    agent, _ = taught()
    one = agent.make.decided(COMEDY, id="x", item="a")
    two = agent.make.decided(COMEDY, id="x", item="a")
    assert one.event == two.event
    coins = [agent.make.decided(COMEDY, id=f"n{i}", item="a").event for i in range(50)]
    assert len({event.coin for event in coins if isinstance(event, Decided)}) == 1


def test_a_batch_has_the_coins_of_one_by_one():
    agent, log = taught()
    twin = Agent.replay(log).agent
    items = [f"film {n}" if n % 3 == 0 else f"new {n}" for n in range(60)]
    many = agent.decide_many([COMEDY] * 60, items=items, propensity=True)
    for item, event in zip(items, many.events(), strict=True):
        made = twin.decide(COMEDY, item=item, propensity=True, ask=False)
        assert made.event == event
    assert 5 < sum(many.checked(i) for i in range(60)) < 60
    assert bits(agent) == bits(twin)
    same_as_replayed(agent, log)


def test_plays_that_are_checked_are_as_many_as_their_coins_say():
    """Error probability: 6 standard deviations of a sum of independent coins, below 1e-8."""
    agent, _ = taught()
    coins = [made.event.coin for made in play(agent, 2000) if isinstance(made, Decision)]
    known = [coin for coin in coins if coin is not None]
    drawn = agent._state.checks.drawn
    sd = sum(coin * (1 - coin) for coin in known) ** 0.5
    assert abs(drawn - sum(known)) < 6 * sd
    assert drawn == len(agent.open_checks) < 500


# -- judgements --------------------------------------------------------------------------------


def test_what_is_found_is_in_the_probability_of_all_that_nobody_has_judged():
    agent, log = taught()
    before = agent.believed(COMEDY, item="another")
    assert before.safe[0]
    made = play(agent, 1, judge=lambda check: False)[0]
    after = agent.believed(COMEDY, item="another")
    assert (after.p < before.p).all() and not after.safe[0]
    k = [arm.id for arm in ARMS].index(made.arm)
    assert agent.believed(COMEDY, item=made.item).p[k] == 0.0
    assert any("checks found exceptions (1 of" in sentence for sentence in agent.describe())
    assert agent.believed(COMEDY, item="film 0").p.tolist() == [1.0, 1.0, 1.0]
    found = {one.unit: one for one in agent.exceptions}[ARMS[k].group or ""]
    assert found.found == 1 and found.rate > 0.01 > found.rate / 20
    same_as_replayed(agent, log)


def test_what_the_limits_would_call_safe_says_that_it_is_the_exceptions():
    agent, _ = taught()
    limits_state = agent._state.limits_state
    assert limits_state.rates is not None
    for _ in range(2):  # as if of other things
        limits_state.rates.fold(0, allowed=False, safe=True)
    limits_state._seen.clear()
    believed = agent.believed(COMEDY, item="another")
    # The old have clean judgements of their own.
    assert believed.safe.tolist() == [False, False, True]
    assert believed.why == (EXCEPTIONS, EXCEPTIONS, None)


def test_clean_checks_say_so_and_questions_bring_it_back():
    agent, log = taught(budget=10_000)
    play(agent, 300, judge=lambda check: True)
    clean = max(one.rate for one in agent.exceptions)
    assert clean < 0.005 and agent.believed(COMEDY, item="another").safe.all()
    same_as_replayed(agent, log)


def test_a_check_is_judged_once_and_by_what_was_played():
    agent, _ = taught()
    made = play(agent, 1)[0]
    version = agent.version
    with pytest.raises(UnknownId, match="open check"):
        agent.judge("no such decision", True)
    with pytest.raises(InvalidValue, match="True or False"):
        agent.judge(made.check, "yes")
    assert agent.version == version
    agent.judge(made.id, True)
    with pytest.raises(UnknownId, match="judged already"):
        agent.judge(made.check, True)
    wrong = Taught("x", tuple(made.context), "eve", True, check=99)
    with pytest.raises(UnknownId):
        agent.apply(wrong)
    other = play(agent, 1)[0]
    arm = next(one.id for one in ARMS if one.id != other.arm)
    with pytest.raises(InvalidValue, match="'check'"):
        agent.apply(Taught("y", other.context, arm, True, item=other.item, check=other.id))


def test_checks_are_kept_as_many_as_may_wait():
    agent, log = taught(max_pending=5)
    play(agent, 40)
    assert len(agent.open_checks) == 5
    same_as_replayed(agent, log)


# -- how many ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("checks", "most"), [(3, 3), (0.05, 10), (None, 200)])
def test_a_budget_or_a_share_is_the_most_there_is(checks, most):
    agent, log = taught(checks=checks)
    play(agent, 200)
    assert 0 < agent._state.checks.drawn <= most
    many, _ = taught(checks=checks)
    many.decide_many([COMEDY] * 200, items=[f"n{i}" for i in range(200)])
    assert 0 < many._state.checks.drawn <= most
    same_as_replayed(agent, log)


def test_without_checks_there_is_a_warning_and_nothing_is_checked():
    with pytest.warns(UserWarning, match="exceptions to it are never met"):
        agent = Agent(arms=ARMS, features=FEATURES, checks=0)
    assert agent.exceptions == () and agent.open_checks == ()
    agent.teach(COMEDY, "ann", True, item="film")
    assert agent.decide(COMEDY, item="other").event.version == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Agent(arms=2, features=2, sigma=0.5)  # the paper's agent keeps to nothing
        Agent(arms=2, features=2, limits="linear", policy=LearnedMask())
        Agent(arms=2, features=2, teacher_error=None)


@pytest.mark.parametrize("checks", [-1, 1.0, 1.5, True, "many", float("nan"), 2**60])
def test_checks_that_can_not_be_are_refused(checks):
    with pytest.raises(InvalidValue, match="'checks'"):
        Agent(arms=ARMS, features=FEATURES, checks=checks)


@pytest.mark.parametrize(
    "options", [{"sigma": 0.5}, {"limits": "linear", "policy": LearnedMask()}], ids=repr
)
def test_policies_that_keep_to_nothing_have_no_checks(options):
    assert Agent(arms=2, features=2, **options).settings.checks == 0
    with pytest.raises(InvalidValue, match="'checks'"):
        Agent(arms=2, features=2, checks=5, **options)
    assert Settings.from_json(Agent(arms=2, features=2).settings.to_json()).checks is None


# -- lives of answers --------------------------------------------------------------------------


def test_a_teacher_s_later_answer_replaces_the_earlier_and_others_stand():
    agent, log = taught()
    first = agent.teach(COMEDY, "ann", False, item="odd", by="Ann")
    agent.teach(COMEDY, "eve", True, item="odd", by="Ann")
    assert agent.believed(COMEDY, item="odd").p[:2].tolist() == [0.0, 0.0]
    agent.teach(COMEDY, "bob", True, item="odd", by="Ann")  # the same group
    assert agent.believed(COMEDY, item="odd").p.tolist() == [1.0, 1.0, 1.0]
    assert first not in {example.id for example in agent.examples}
    agent.teach(COMEDY, "ann", False, item="odd", by="Ben")
    assert agent.believed(COMEDY, item="odd").p[0] == 0.0
    agent.teach(COMEDY, "ann", True, item="odd", by="Ann")  # said before: nothing to replace
    assert agent.believed(COMEDY, item="odd").p[0] == 0.0
    same_as_replayed(agent, log)


def test_it_is_as_if_what_was_replaced_had_never_been_said():
    one, two = (Agent(arms=ARMS, features=FEATURES, seed=3) for _ in range(2))
    one.teach(COMEDY, "ann", False, item="odd", id="first")
    for agent in (one, two):
        agent.teach(COMEDY, "ann", True, item="odd", id="second")
    assert one.believed(COMEDY).p.tolist() == two.believed(COMEDY).p.tolist()
    assert [e.id for e in one.examples] == ["second"]


def test_of_two_answers_in_one_call_both_stand_and_the_next_replaces_both():
    agent, log = taught()
    agent.teach_many([COMEDY] * 2, ["ann", "bob"], [False, False], items=["odd", "odd"])
    agent.teach_many([COMEDY] * 2, ["ann", "bob"], [True, True], items=["odd", "odd"])
    assert agent.believed(COMEDY, item="odd").p[0] == 1.0
    same_as_replayed(agent, log)


def test_an_answer_for_one_item_says_nothing_of_others():
    agent, log = taught()
    before = agent.believed(COMEDY).p.tolist()
    agent.teach(COMEDY, "ann", False, item="odd", scope="item")
    assert agent.believed(COMEDY).p.tolist() == before
    assert agent.believed(COMEDY, item="odd").p[0] == 0.0
    with pytest.raises(InvalidValue, match="'scope'"):
        agent.teach(COMEDY, "ann", False, scope="item")
    with pytest.raises(InvalidValue, match="'scope'"):
        agent.teach(COMEDY, "ann", False, item="odd", scope="week")
    same_as_replayed(agent, log)


def test_an_answer_ends_when_its_time_is_over():
    agent, log = taught()
    kept = agent.teach(COMEDY, "ann", False, item="odd", until=200.0)
    gone = agent.teach(COMEDY, "eve", False, item="odd", until=100.0)
    assert agent.end_examples(99.0) == []
    assert agent.end_examples(100.0) == [gone]
    believed = agent.believed(COMEDY, item="odd")
    assert believed.p[0] == 0.0 and believed.p[2] > 0.9
    assert kept in {example.id for example in agent.examples}
    with pytest.raises(InvalidValue, match="'until'"):
        agent.teach(COMEDY, "ann", False, until="tomorrow")
    same_as_replayed(agent, log)


# -- limits that have changed ------------------------------------------------------------------


def test_a_check_that_contradicts_a_teacher_proposes_a_fresh_start():
    agent, log = taught(promise=(0.5, 1.0))
    agent.drop_promise()
    assert agent.fresh_start is None
    agent.promise(0.5, 1.0, seed=1)
    made: Any = agent.decide(COMEDY, item="film 0")
    agent.drop_promise()  # what it had checked is judged all the same
    agent.judge(made.check, False)
    proposed = agent.fresh_start
    assert proposed is not None and "denied what a teacher had allowed" in proposed.why
    assert "1 answer that say" in proposed.kept or "1 answer" in proposed.kept
    agent.start_anew(str(proposed), by="Ann")
    assert agent.fresh_start is None
    assert [e.allowed for e in agent.examples] == [False]
    assert not agent.believed(COMEDY, item="film 1").safe.any()
    same_as_replayed(agent, log)


def test_answers_that_come_otherwise_than_foretold_propose_one():
    agent, log = taught()
    for n in range(30):
        agent.teach(COMEDY, "ann", False, item=f"later {n}", by="Ann")
    proposed = agent.fresh_start
    assert proposed is not None and "no longer come as expected" in proposed.why
    assert "80 answers" in proposed.lost and "30 answers" in proposed.kept
    same_as_replayed(agent, log)


# -- the promise -------------------------------------------------------------------------------


def test_a_promise_checks_also_what_is_known_and_freezes():
    agent, log = taught(promise=(0.01, 0.5))
    assert agent.promised is not None and agent.promised.b == 2.0
    for _ in range(8):
        made: Any = agent.decide(COMEDY, item="film 0")
        if isinstance(made, Abstention):
            break
        assert made.event.coin is not None and made.event.coin >= 0.5
    else:
        pytest.fail("audits that wait must freeze it")
    assert agent.promised.frozen and "frozen" in agent.promised.sentence()
    believed = agent.believed(COMEDY, item="film 0")
    assert not believed.playable.any() and believed.safe.any()
    assert {why and why[:7] for why in believed.why} == {"frozen:"}
    many = agent.decide_many([COMEDY] * 3, items=["film 1"] * 3)
    assert many.chosen == [None] * 3
    for check in agent.open_checks:
        agent.judge(check, True)
    assert not agent.promised.frozen and agent.promised.waiting == []
    assert isinstance(agent.decide(COMEDY, item="film 0"), Decision)
    same_as_replayed(agent, log)


def test_frozen_it_plays_what_is_allowed_at_that_very_decision_without_a_coin():
    agent, log = taught(promise=(0.01, 1.0), budget=100, answer_price=0.0)
    made = agent.decide(COMEDY, item="film 0")
    while not agent.promised.frozen:  # type: ignore[union-attr]
        made = agent.decide(COMEDY, item="film 0")
    made = agent.decide(COMEDY, item="film 1")
    assert isinstance(made, Question)  # also of what was allowed before
    then: Any = made
    while isinstance(then, Question):
        then = agent.answer(then, True, by="Ann").then
    assert isinstance(then, Decision) and then.event.coin is None and then.check is None
    same_as_replayed(agent, log)


def test_a_denied_audit_of_what_was_allowed_begins_anew_and_denials_stay():
    agent, log = taught(promise=(0.5, 1.0))
    agent.teach(COMEDY, "ann", False, item="bad", by="Ann")
    made: Any = agent.decide(COMEDY, item="film 0", among=["eve"])
    agent.judge(made.check, False, by="Ann")
    assert isinstance(log[-1], StartedAnew)
    assert {(e.item, e.allowed) for e in agent.examples} == {("bad", False), ("film 0", False)}
    assert agent.promised is not None and agent.promised.found == 1  # no fresh credit
    same_as_replayed(agent, log)


def test_a_promise_binds_every_policy_and_only_one_at_a_time():
    log: list[Event] = []
    agent = Agent(arms=ARMS, features=FEATURES, sigma=0.5, seed=1, sink=log.extend)
    said = agent.promise(0.01, 1.0)
    assert said[0].startswith("Promised: at most")
    with pytest.raises(NotPossible, match="keeps a promise already"):
        agent.promise(0.01, 0.5)
    for _ in range(4):
        agent.decide(COMEDY)
    assert isinstance(agent.decide(COMEDY), Abstention)
    agent.drop_promise(by="Ann", note="over")
    assert agent.promised is None and isinstance(agent.decide(COMEDY), Decision)
    with pytest.raises(NotPossible, match="keeps no promise"):
        agent.drop_promise()
    same_as_replayed(agent, log)


@pytest.mark.parametrize("promise", [(0.0, 0.5), (0.1, 0.0), (0.1, 2.0), (0.1,), 0.1, "much"])
def test_promises_that_can_not_be_are_refused(promise):
    with pytest.raises(InvalidValue):
        Agent(arms=2, features=2, promise=promise)


def test_the_coins_of_a_promise_are_keyed_by_its_own_seed():
    falls = []
    for seed in (1, 1, 2):
        agent, _ = taught()
        agent.promise(0.5, 0.5, b=1e6, seed=seed)
        made = agent.decide_many([COMEDY] * 64, items=["film 0"] * 64)
        falls.append([made.checked(i) for i in range(64)])
    assert falls[0] == falls[1] != falls[2]
    drawn = [Agent(arms=2, features=2) for _ in range(2)]
    for agent in drawn:
        agent.promise(0.1, 0.5)
    seeds = {agent._state.promise.seed for agent in drawn}  # type: ignore[union-attr]
    assert len(seeds) == 2


def test_all_of_it_is_saved(tmp_path):
    agent, _ = taught(promise=(0.01, 0.2))
    agent.teach(COMEDY, "ann", False, item="odd", scope="item", until=50.0)
    play(agent, 60, judge=lambda check: bool(np.frombuffer(repr(check.id).encode(), "u1")[0] % 5))
    path = tmp_path / "agent.bridle"
    agent.save(path)
    twin = Agent.load(path)
    assert bits(twin) == bits(agent)
    for one in (agent, twin):
        play(one, 20, judge=lambda check: True)
    assert bits(twin) == bits(agent)


# -- what must not undermine a promise ---------------------------------------------------------


def test_an_id_that_comes_again_has_another_coin():
    # Who chooses ids must not learn which of them are never judged. With q = .5 all of 60 plays
    # under one id fall alike with probability 2^-59.
    agent, log = taught(promise=(0.5, 0.5))
    fell = []
    for _ in range(60):
        made = agent.decide(COMEDY, item="film 0", id="again")
        assert isinstance(made, Decision)
        fell.append(made.check is not None)
        if made.check is not None:
            agent.judge(made.check, True)
        agent.reward("again", 1.0)
    assert len(set(fell)) == 2
    same_as_replayed(agent, log)


def test_an_id_whose_check_waits_is_not_used_again():
    agent, _ = taught(promise=(0.5, 1.0))
    made = agent.decide(COMEDY, item="film 0", id="again")
    assert isinstance(made, Decision) and made.check is not None
    agent.reward("again", 1.0)
    with pytest.raises(InvalidValue, match="waits to be judged"):
        agent.decide(COMEDY, item="film 0", id="again")
    agent.judge("again", True)
    agent.decide(COMEDY, item="film 0", id="again")


@pytest.mark.parametrize("form", [1, 2])
def test_an_agent_of_an_earlier_form_keeps_no_promise(form: int):
    made = Agent(arms=2, features=2, seed=1, budget=0, checks=None).settings.to_json()
    made |= {"form": form, "checks": 0, "answer_price": None if form == 1 else 0.3}
    agent = Agent.replay([Created(Settings.from_json(made))]).agent
    with pytest.raises(NotPossible, match="before plays could be checked"):
        agent.promise(0.01, 0.5)
    with pytest.raises(NotPossible):
        agent.apply(Promised(0.01, 0.5, 0, 10.0, 1))
    assert agent.promised is None


def test_what_was_made_before_it_was_folded_can_be_saved(tmp_path: Path):
    agent, _ = taught(promise=(0.01, 0.5))
    made = [agent.make.decided(COMEDY, item="film 0", id=f"d{n}") for n in range(60)]
    for one in made:
        for event in one.events:
            agent.apply(event)
    assert agent.promised is not None and agent.promised.balance < -10.0
    agent.save(tmp_path / "agent")
    assert bits(Agent.load(tmp_path / "agent")) == bits(agent)


def test_another_systems_play_is_not_judged():
    agent, log = taught(promise=(0.01, 1.0))
    for n in range(5):
        agent.shadow(COMEDY, "bob", item=f"film {n}")
    assert agent.promised is not None and not agent.promised.frozen
    assert not agent.open_checks and agent.promised.audits == 0
    same_as_replayed(agent, log)


def test_an_allowance_that_ends_does_not_replace_a_denial_that_stays():
    agent, _ = taught()
    agent.teach(COMEDY, "ann", False, item="X", by="Ann")
    with pytest.raises(NotPossible, match="Retract the denial first"):
        agent.teach(COMEDY, "ann", True, item="X", by="Ann", until=5.0)
    agent.teach(COMEDY, "ann", True, item="X", by="Ann")  # without an end it does
    agent.teach(COMEDY, "ann", False, item="X", by="Ann", until=5.0)
    agent.teach(COMEDY, "ann", True, item="X", by="Ann", until=4.0)  # nor was that for good
