"""Agents of the first form: what old logs did, and their replays must do again.

They ask where the best arm that may be allowed is not the best that surely is, and their odds are
those of all outcomes, questions among them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridle import (
    Abstention,
    Agent,
    Arm,
    BehaviorConstrained,
    Decision,
    Flag,
    Labels,
    LearnedMask,
    Question,
    Rule,
)
from bridle.agent.events import Asked, Decided, Event, Taught, event_from_json, event_to_json
from bridle.errors import CorruptState, InvalidValue
from bridle.limits.legacy import AutoLimits
from tests.agent.test_events import LATER
from tests.conftest import check_counts, size
from tests.histories import bits, first_form

KINDS = ["auto", "rules", "logistic", "found", "linear"]
MASKED = ["auto", "rules", "logistic", "found"]

# -- odds ------------------------------------------------------------------------------------

FEATURES = [Labels("genres", ["Action", "Crime", "Drama", "Horror"])]
ARMS = [Arm("a", group="young"), Arm("b", group="young"), Arm("c", group="old"), Arm("d"), Arm("e")]
DRAMA = {"genres": ["Drama"]}
BOTH = {"genres": ["Drama", "Horror"]}


def taught(**options: Any) -> Agent:
    """An agent that knows a little: young may see drama, old too, of the rest it knows nothing."""
    agent = first_form(**({"arms": ARMS, "features": FEATURES, "seed": 5} | options))
    for arm in ("a", "c"):
        for _ in range(2):
            agent.teach(DRAMA, arm, True)
    agent.teach({"genres": ["Horror"]}, "c", False)
    history = [("a", 0.6), ("b", 0.5), ("c", 0.6), ("d", 0.65), ("d", 0.4), ("e", 0.5)]
    contexts = [DRAMA, BOTH, {"genres": ["Action"]}]
    for context in contexts:
        agent.learn([context] * 6, [arm for arm, _ in history], [value for _, value in history])
    return agent


def outcome(made: Decision | Question | Abstention, arms: tuple[Any, ...]) -> int:
    """The place of an outcome among: play each arm, ask about each, abstain."""
    if isinstance(made, Abstention):
        return 2 * len(arms)
    return arms.index(made.arm) + len(arms) * isinstance(made, Question)


def law(made: Any) -> Any:
    odds = made.odds
    assert odds is not None
    flat = np.array([*odds.play, *odds.ask, odds.abstain])
    assert (flat >= 0.0).all() and abs(flat.sum() - 1.0) < 1e-9
    return flat


def check_odds(agent: Agent, context: Any, n: int = size(4000, 200), **options: Any) -> Any:
    """The odds are what happens over many ids, nothing folded: wrong once in a million."""
    ids = tuple(arm.id for arm in agent.arms)
    first = agent.make.decided(context, id="0", propensity=True, **options)
    odds = law(first)
    counts = np.zeros(len(odds))
    for i in range(n):
        made = agent.make.decided(context, id=str(i), **options)
        counts[outcome(made, ids)] += 1
    check_counts(counts, odds)
    event = first.event
    assert event.propensity == odds[outcome(first, ids)]
    return odds


MODES: dict[str, dict[str, Any]] = {
    "waits": {"budget": 9},
    "waits, wide": {"budget": 9, "policy": LearnedMask(v=1.0)},
    "waits, blend": {"budget": 9, "policy": LearnedMask(sigma=0.4, v=0.5)},
    "plays safe": {"budget": 9, "on_doubt": "play_safe", "policy": LearnedMask(v=1.0)},
    "no budget": {"policy": LearnedMask(v=1.0)},
    "ties": {"budget": 9, "policy": LearnedMask(v=0.0, sigma=0.0)},
    "paper": {"budget": 9, "prior": "paper"},
    "errs": {"budget": 9, "teacher_error": 0.1, "policy": LearnedMask(v=1.0)},
}


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
def test_odds_are_exact(kind, options):
    agent = taught(limits=kind, **options)
    check_odds(agent, DRAMA)


@pytest.mark.parametrize("mode", ["waits, wide", "plays safe"])
@pytest.mark.parametrize("kind", MASKED)
def test_odds_are_exact_among_some_arms(kind, mode):
    agent = taught(limits=kind, **MODES[mode])
    odds = check_odds(agent, DRAMA, among=["b", "c", "e"])
    assert odds[[0, 3, 5, 8]].tolist() == [0.0] * 4
    law(agent.make.decided(BOTH, among=["c", "d"], propensity=True))


def test_odds_of_answers_to_the_letter():
    """What was allowed here runs as safe, what was denied here is gone."""
    agent = taught(limits="rules", **MODES["waits, wide"])
    agent.teach(BOTH, "d", True)
    agent.teach(BOTH, "e", False)
    odds = check_odds(agent, BOTH)
    play, ask = odds[:5], odds[5:10]
    assert play[3] > 0.0 and play[4] == ask[4] == ask[3] == 0.0
    assert ask[0] > 0.0 and ask[1] > 0.0  # of Horror nothing is known for the young
    assert play[2] == ask[2] == 0.0  # old: not Horror


@pytest.mark.parametrize("empty", ["abstain", "least_bad", "safe_arm"])
@pytest.mark.parametrize("doubt", ["wait", "play_safe"])
@pytest.mark.parametrize("ask", [True, False])
def test_odds_where_nothing_is_safe(empty, doubt, ask):
    safe_arm = "d" if empty == "safe_arm" else None
    agent = taught(
        limits="rules",
        budget=9,
        on_doubt=doubt,
        on_empty=empty,
        safe_arm=safe_arm,
        policy=LearnedMask(v=1.0),
    )
    odds = check_odds(agent, {"genres": ["Horror"]}, n=size(2000, 200), ask=ask)
    if doubt == "wait" and ask:
        assert odds[5:10].sum() == pytest.approx(1.0) and odds[7] == 0.0
    else:
        assert odds[{"abstain": 10, "least_bad": 0, "safe_arm": 3}[empty]] == 1.0


@pytest.mark.parametrize("options", [{}, {"sigma": 0.3}, {"sigma": 0.9, "prior": "paper"}])
@pytest.mark.parametrize("kind", KINDS)
def test_odds_of_the_dial(kind, options):
    given = options if options else {"policy": BehaviorConstrained(v=0.5)}
    agent = taught(limits=kind, **given)
    odds = check_odds(agent, DRAMA)
    assert not odds[5:].any()


def test_odds_where_all_is_denied():
    agent = taught(limits="rules", budget=9, rules=[Rule("closed")])
    made = agent.make.decided(DRAMA, propensity=True)
    assert isinstance(made, Abstention) and law(made)[-1] == 1.0 and made.event.propensity == 1.0
    none = taught(limits="linear").make.decided(DRAMA, among=[], propensity=True)
    assert isinstance(none, Abstention) and law(none)[-1] == 1.0


def asking_agent() -> Agent:
    """Two safe arms that differ in spread, one that is not known and looks as good as they."""
    agent = first_form(
        arms=["steady", "wild", "new"],
        features=[Flag("x")],
        limits="rules",
        budget=10**6,
        seed=8,
        policy=LearnedMask(v=1.0),
    )
    for arm in ("steady", "steady", "wild", "wild"):
        agent.teach({"x": True}, arm, True)
    agent.learn([{"x": True}] * 200, ["steady"] * 200, [0.5] * 200)
    return agent


def test_odds_after_a_denial_are_exact():
    """The second look has draws of its own. An answer taken back leaves the same beliefs."""
    agent = asking_agent()
    ids = tuple(arm.id for arm in agent.arms)
    counts, odds = np.zeros(7), None
    for i in range(size(2000, 300)):
        made = agent.decide({"x": True}, id=str(i), propensity=odds is None)
        if not isinstance(made, Question):
            continue
        answer = agent.answer(made, False)
        assert answer.then is not None and answer.example is not None
        if odds is None:
            odds = law(answer.then)
        counts[outcome(answer.then, ids)] += 1
        agent.retract(answer.example)
    assert counts.sum() > size(500, 60)
    check_counts(counts, odds)


def test_odds_after_a_skip_are_exact():
    """Given that it asked, the draws it asked with are not any draws: it has to draw anew."""
    agent = asking_agent()
    ids = tuple(arm.id for arm in agent.arms)
    counts, odds = np.zeros(7), None
    for i in range(size(3000, 300)):
        made = agent.decide({"x": True}, id=str(i), propensity=odds is None)
        if not isinstance(made, Question):
            continue
        then = agent.skip(made).then
        assert then is not None
        if odds is None:
            odds = law(then)
        counts[outcome(then, ids)] += 1
    assert counts.sum() > size(500, 50)
    check_counts(counts, odds)


# -- questions -------------------------------------------------------------------------------


def waiting(**options: Any) -> Agent:
    return first_form(**({"arms": ARMS, "features": FEATURES, "budget": 100, "seed": 2} | options))


def ask(agent: Agent, context: Any = DRAMA, **options: Any) -> Question:
    made = agent.decide(context, **options)
    assert isinstance(made, Question)
    return made


@pytest.mark.parametrize("kind", MASKED)
def test_allowed_is_played_with_the_propensity_of_its_question(kind):
    log: list[Event] = []
    agent = waiting(limits=kind, sink=log.extend)
    first = ask(agent, propensity=True)
    then = agent.answer(first, True).then
    assert isinstance(then, Decision) and then.arm == first.arm
    assert then.propensity == first.propensity is not None and then.odds is None
    assert [type(event) for event in log[1:]] == [Asked, Taught, Decided]
    again = Agent.replay(log)
    assert again.agrees and bits(again.agent) == bits(agent)


def test_an_answer_is_certain_for_its_arm_in_equal_contexts():
    agent = waiting(limits="rules")
    made = ask(agent)
    agent.answer(made, True)
    here = agent.make.decided(DRAMA, among=[made.arm], ask=False)
    assert isinstance(here, Decision)


def test_auto_is_what_it_was():
    assert type(waiting(limits="auto").limits) is AutoLimits


def test_items_and_prices_are_refused():
    agent = waiting(limits="rules")
    before = bits(agent)
    for verb in (
        lambda: agent.decide(DRAMA, item="x"),
        lambda: agent.teach(DRAMA, "a", True, item="x"),
        lambda: agent.ask(DRAMA, item="x"),
        lambda: agent.decide_many([DRAMA], items=["x"]),
        lambda: agent.teach_many([DRAMA], ["a"], [True], items=["x"]),
        lambda: agent.shadow(DRAMA, "a", item="x"),
        lambda: agent.apply(Asked(1, (0.0,) * 4, "a", 1, decision=1, item="x")),
        lambda: agent.apply(Taught(1, (0.0,) * 4, "a", True, item="x")),
        lambda: agent.apply(Decided(1, (0.0,) * 4, "a", 1, item="x")),
    ):
        with pytest.raises(InvalidValue, match="made before items had names"):
            verb()
    with pytest.raises(InvalidValue, match="not of the first form"):
        agent.apply(Decided(1, (0.0,) * 4, "a", 1, wanted="b", worth=0.1, lesson=0.0))
    assert bits(agent) == before and agent.settings.answer_price is None


def test_its_log_goes_through_json_without_the_new_fields():
    log: list[Event] = []
    agent = waiting(limits="rules", sink=log.extend)
    agent.answer(ask(agent), True)
    data = [event_to_json(event) for event in log]
    for one in data:
        for name in LATER:
            one.pop(name, None)
    settings = data[0]["settings"]
    assert isinstance(settings, dict)
    for name in ("form", "answer_price", "checks", "teachers"):
        settings.pop(name, None)
    again = Agent.replay(event_from_json(one) for one in data)
    assert again.agrees and bits(again.agent) == bits(agent)
    data[1].pop("propensity")
    with pytest.raises(CorruptState, match="has the fields"):
        event_from_json(data[1])


def test_a_file_of_it_is_read_back(tmp_path):
    agent = waiting(limits="auto")
    ask(agent, propensity=True)
    agent.answer(ask(agent, BOTH), False)
    agent.save(tmp_path / "agent")
    back = Agent.load(tmp_path / "agent")
    assert back.settings.legacy and bits(back) == bits(agent)
