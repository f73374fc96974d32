"""What an agent says of its limits: beliefs, sentences, proposals, questions."""

from __future__ import annotations

import difflib
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from bridle import (
    Agent,
    Arm,
    Category,
    Decision,
    Flag,
    Labels,
    LearnedMask,
    Number,
    Question,
    Rule,
    Schema,
    Thompson,
    When,
)
from bridle.agent import config
from bridle.agent.limits_state import Example
from bridle.errors import BridleError, InvalidValue, NotPossible, UnknownId
from tests.histories import bits

KINDS = ["auto", "rules", "logistic", "found", "linear"]
WORDS = ["Action", "Crime", "Drama", "Horror"]
FEATURES = [Labels("genres", WORDS)]
ARMS = [Arm("a", group="young"), Arm("b", "Ben", group="young"), Arm("c", "Cy")]


def of(*genres: str) -> dict[str, Any]:
    return {"genres": list(genres)}


def agent_of(**options: Any) -> Agent:
    given = {"arms": ARMS, "features": FEATURES, "limits": "rules", "seed": 6}
    if options.get("limits") == "linear":
        given["policy"] = LearnedMask()
    return Agent(**(given | options))


# -- beliefs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_beliefs_are_those_that_decide(kind):
    agent = agent_of(limits=kind, rules=[Rule("r", when=[When("genres", has="Crime")], arms=["c"])])
    agent.teach(of("Horror"), "a", False)
    agent.teach(of("Drama"), "b", True)
    before = bits(agent)
    for genres in [(), *combinations(WORDS, 1), *combinations(WORDS, 2)]:
        believed = agent.believed(of(*genres))
        assert believed.arms == ("a", "b", "c")
        assert ((believed.p >= 0.0) & (believed.p <= 1.0)).all() or kind == "linear"
        assert not (believed.safe & ~believed.possible).any()
        made = agent.make.decided(of(*genres), propensity=True, ask=False)
        assert made.odds is not None
        assert ((made.odds.play > 0.0) <= believed.safe).all()
        if "Crime" in genres:
            assert believed.p[2] == 0.0 and not believed.possible[2]
    assert agent.believed(of("Horror")).p[0] == 0.0 and not agent.believed(of("Horror")).possible[0]
    assert bits(agent) == before
    # "Allowed" is certain of an item that has a name, and of its very arm or group.
    assert agent.believed(of("Drama")).p[1] < 1.0
    agent.teach(of("Drama"), "b", True, item="Up")
    named = agent.believed(of("Drama"), item="Up")
    assert named.p[1] == 1.0 and named.safe[1] and named.playable[1]
    assert agent.believed(of("Drama"), item="Us").p[1] < 1.0
    agent.teach(of("Drama"), "b", False, item="Us")
    assert agent.believed(of("Drama"), item="Us").why[1] == "denied by the teacher for this item"
    assert agent.believed(of("Drama"), item="Up").playable[1]


def test_what_may_be_written_on_is_a_copy():
    agent = agent_of()
    first = agent.believed(of("Drama"))
    p = first.p.copy()
    first.p[:] = 7.0
    first.safe[:] = True
    again = agent.believed(of("Drama"))
    assert again.p.tolist() == p.tolist() and not again.safe.any()


def test_a_denial_weighs_more_than_an_allowance():
    agent = agent_of()
    for allowed in (True, False):
        agent.teach(of("Drama"), "a", allowed)
    assert agent.believed(of("Drama")).p[0] == 0.0
    unsure = agent_of(teacher_error=0.1)
    for allowed in (True, False):
        unsure.teach(of("Drama"), "a", allowed)
    assert unsure.believed(of("Drama")).p[0] > 0.4


@pytest.mark.parametrize("bad", [None, 3, {"genre": []}, {"genres": "Horror"}, of("Horor"), [1.0]])
def test_a_context_that_is_none_is_refused(bad):
    agent = agent_of()
    with pytest.raises(BridleError):
        agent.believed(bad)


# -- sentences -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["auto", "rules", "found"])
def test_limits_in_sentences(kind):
    agent = agent_of(limits=kind)
    for arm in ("a", "c"):
        for _ in range(3):
            agent.teach(of("Action", "Crime", "Drama"), arm, True)
            agent.teach(of("Horror"), arm, arm == "c")
    lines = agent.describe()
    if kind == "found":  # every arm by itself
        assert len(lines) == 3 and lines[0].startswith("a: not Horror")
        assert lines[1].startswith("Ben: ") and lines[2] == "Cy: all is allowed"
    elif kind == "rules":
        assert lines == ["young: not Horror", "Cy: all is allowed"]
    else:  # where pairs are not ruled out
        assert len(lines) == 2 and lines[0].startswith("young: not Horror")
        assert lines[1].startswith("Cy: ") and "not Horror" not in lines[1]


def test_arms_on_their_own_are_called_by_their_own_names():
    agent = agent_of(share="arm")
    assert [line.partition(":")[0] for line in agent.describe()] == ["a", "Ben", "Cy"]
    assert agent_of().describe()[0] == "young: unsure: Action, Crime, Drama, Horror"


def test_a_known_rule_is_in_the_sentence():
    agent = agent_of(rules=[Rule("r", when=[When("genres", has="Horror")], groups=["young"])])
    assert agent.describe()[0] == "young: not Horror; unsure: Action, Crime, Drama"
    agent.withdraw("r")
    assert agent.describe()[0] == "young: unsure: Action, Crime, Drama, Horror"


@pytest.mark.parametrize("kind", ["logistic", "linear"])
def test_limits_that_are_no_sentences_say_what_to_do(kind):
    with pytest.raises(NotPossible, match=r"agent.believed\(context\)"):
        agent_of(limits=kind).describe()
    regrouped = agent_of(limits="rules")
    regrouped.regroup({"a": None}, limits=kind)
    with pytest.raises(NotPossible, match=f"kind '{kind}'"):
        regrouped.describe()


def test_numbers_alone_are_no_words():
    agent = agent_of(features=[Number("age", low=0, high=100)], limits="auto")
    assert agent.describe()[0] == "young: unsure: age"
    mixed = agent_of(features=[Number("age", low=0, high=100), Flag("smoker")])
    assert mixed.describe()[1] == "Cy: unsure: smoker"


# -- proposals -------------------------------------------------------------------------------

PEOPLE = [Arm(f"p{k}") for k in range(6)]


def two_classes(**options: Any) -> Agent:
    """Even arms may not see Horror, odd arms may not see Drama nor Crime; all of it was taught."""
    agent = agent_of(arms=PEOPLE, **options)
    for k, arm in enumerate(PEOPLE):
        denied = {"Drama", "Crime"} if k % 2 else {"Horror"}
        for _ in range(2):
            for word in WORDS:
                agent.teach(of(word), arm.id, word not in denied)
    return agent


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_found_whatever_the_kind(kind):
    agent = two_classes(limits=kind)
    before = bits(agent)
    groups = agent.proposal()
    assert bits(agent) == before
    assert sorted(group.arms for group in groups) == [("p0", "p2", "p4"), ("p1", "p3", "p5")]
    assert [group.name for group in groups] == ["found 1", "found 2"]
    assert all(group.sure > 0.9 for group in groups)
    even = next(group for group in groups if "p0" in group.arms)
    assert even.rule.denied == ("Horror",) and "not Horror" in str(even)
    # The answers that stand are the same: so is the proposal.
    assert [g.arms for g in agent.proposal()] == [g.arms for g in groups]


def test_a_proposal_accepted_as_it_is():
    agent = two_classes(limits="found")
    groups = agent.proposal()
    agent.regroup(groups, by="t")
    named = {arm: group.name for group in groups for arm in group.arms}
    assert [arm.group for arm in agent.arms] == [named[f"p{k}"] for k in range(6)]
    assert agent._state.limits_state.unit_of.tolist() == [0, 1, 0, 1, 0, 1]
    agent.add_arms([Arm("p6", group=agent.arms[0].group)])
    believed = agent.believed(of("Horror"))
    assert believed.p[6] < 0.01 and not believed.possible[6]
    # The names are taken now; the next proposal has others.
    again = agent.proposal()
    assert sorted(group.arms for group in again) == [("p0", "p2", "p4"), ("p1", "p3", "p5")]
    assert not {group.name for group in again} & {arm.group for arm in agent.arms}
    assert len({group.name for group in again}) == 2


def test_a_proposal_corrected_by_a_person():
    agent = two_classes(limits="found")
    first, second = agent.proposal()
    agent.regroup([replace(first, name="mine", arms=first.arms[:2]), second], limits="rules")
    groups = [arm.group for arm in agent.arms]
    assert groups.count("mine") == 2 and groups.count(second.name) == 3 and groups.count(None) == 1
    assert agent._state.limits_state.kind == "rules"
    assert len(agent.describe()) == 3


def test_without_answers_there_is_nothing_to_propose():
    assert agent_of(arms=PEOPLE).proposal() == []
    agent = two_classes()
    agent.retract_many([example.id for example in agent.examples])
    assert agent.proposal() == []


@pytest.mark.parametrize("bad", [-0.1, 1.5, "half", None, float("nan")])
def test_a_threshold_is_a_fraction(bad):
    with pytest.raises(InvalidValue, match="'threshold' parameter"):
        two_classes().proposal(bad)


def test_where_no_groups_can_be_found_it_says_why():
    wide = agent_of(features=[Labels("genres", [f"g{i}" for i in range(13)])])
    with pytest.raises(InvalidValue, match="more than 12"):
        wide.proposal()
    with pytest.raises(NotPossible, match="teacher_error"):
        agent_of(teacher_error=None).proposal()


# -- questions, surprises --------------------------------------------------------------------


def test_what_is_open_can_be_seen():
    agent = agent_of(budget=5)
    assert [*agent.open_questions, *agent.waiting] == [] and agent.budget_left == 5
    lesson = agent.ask(of("Drama"), id="lesson")
    doubt = agent.decide(of("Horror"), id="film")
    assert isinstance(doubt, Question)
    first, second = agent.open_questions
    assert (first.id, first.arm, first.decision) == ("lesson", lesson.arm, None)
    assert (second.id, second.arm, second.decision) == (doubt.id, doubt.arm, "film")
    assert first.context == lesson.context and second.context == doubt.context
    assert list(agent.waiting) == ["film"] and agent.budget_left == 4
    then = agent.answer(second.id, True).then
    while isinstance(then, Question):  # in doubt about another arm, too
        then = agent.answer(then, True).then
    assert isinstance(then, Decision)
    assert [one.id for one in agent.open_questions] == ["lesson"]


def test_surprises_are_kept_by_auto():
    agent = agent_of(limits="auto")
    # Exceptions are expected until enough of what is sure was confirmed.
    for _ in range(80):
        agent.teach(of("Drama"), "a", True)
    assert len(agent.surprises) == 0
    agent.teach(of("Drama"), "a", False, id="odd")
    assert len(agent.surprises) == 1
    surprise = agent.surprises[0]
    assert surprise.unit == 0 and not surprise.allowed and surprise.probability < 0.01
    assert surprise.answer == 81
    agent.retract("odd")
    assert agent.surprises == ()
    assert agent_of(limits="rules").surprises == ()


def test_what_it_was_created_with_stays_what_it_is_now_moves():
    agent = agent_of(limits="found")
    agent.regroup({"c": "young"})
    agent.add_arms(["d"])
    agent.set_sigma(0.5)
    assert agent.settings.limits == "found" and agent.settings.arms == tuple(ARMS)
    assert [arm.group for arm in agent.arms] == ["young", "young", "young", None]
    assert agent.arms[1].label == "Ben" and agent.sigma == 0.5
    v = agent.settings.default_v
    assert agent.policy == LearnedMask(sigma=0.5, v=v)
    assert agent.settings.policy == LearnedMask(v=v)
    assert agent.schema is agent.settings.features and agent.version == 4
    assert np.shape(agent.believed(of()).p) == (4,)


def test_what_was_never_taught_is_new():
    features = [Flag("fever"), Flag("pregnant"), Number("age", low=0, high=100)]
    agent = Agent(arms=2, features=features)
    young = {"fever": True, "pregnant": False, "age": 10}
    assert agent.believed(young).novelty.tolist() == [1.0, 1.0] and agent.novelty_rate() is None
    for _ in range(20):
        agent.teach(young, 0, True)
    known, other = (
        agent.believed(young).novelty,
        agent.believed({**young, "pregnant": True}).novelty,
    )
    assert known[0] < 0.05 and known[1] == 1.0
    assert 0.3 < other[0] < 0.5  # one word of it is new
    assert agent.believed(young).unseen == ((), ("fever", "age"))
    assert agent.believed({**young, "pregnant": True, "age": 80}).unseen[0] == ("pregnant", "age")
    assert agent.believed({**young, "fever": False}).unseen[0] == ()  # less, and nothing new
    X = np.array([[1.0, 0.0, 0.1, 1.0]] * 20)
    x = np.array([1.0, 1.0, 0.1, 1.0])
    expected = x @ np.linalg.inv(np.eye(4) + X.T @ X) @ x / (x @ x)
    assert other[0] == pytest.approx(expected, rel=1e-9)
    agent.decide(young)
    agent.teach({**young, "fever": False}, 0, True)
    assert agent.novelty_rate() == 0.0 and agent.novelty_rate(above=0.0) == 1.0
    free = Agent(arms=1, features=features, policy=Thompson(), limits="linear")
    for context in (young, {**young, "age": 90}, {**young, "age": 50, "fever": False}):
        free.teach(context, 0, True)
    free.decide(young)
    free.decide({**young, "pregnant": True})  # a word of it is new, if only a small part
    assert free.novelty_rate(above=0.99) == 0.5
    free.reward(1, 1.0)
    free.reward(2, 1.0)
    assert free.novelty_rate() is None  # where rewards come at once, give the contexts
    day = [young, young, {**young, "pregnant": True}, {**young, "age": 95}]
    assert free.novelty_rate(above=0.99, contexts=day) == 0.5
    assert free.novelty_rate(contexts=[]) is None
    with pytest.raises(InvalidValue, match="'above' parameter"):
        agent.novelty_rate(above=2.0)


# -- what is said of names that are none --


NAMED = [
    Arm("tt1", "Up", "Films", {"genres": ["Comedy"], "rating": "G"}),
    Arm("tt2", "Alien", "Films", {"genres": ["Horror"], "rating": "R"}),
    Arm(7, "Heat", None, {"genres": ["Crime"], "rating": "R"}),
    Arm("tt3", "Heat", None, {"genres": ["Crime"], "rating": "R"}),
]
LIKE = Schema([Labels("genres", ["Comedy", "Horror", "Crime"]), Category("rating", ["G", "R"])])


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Up", "Did you mean 'tt1', which is called 'Up'?"),
        ("heat", "Did you mean 7, which is called 'Heat'? (or one of 1 more of that name)"),
        ("TT2", "Did you mean 'tt2'?"),
        ("7", "Did you mean 7?"),
        ("Horror", "one of the words of 'genres', which arms have, and no arm."),
        ("Horror", "When(arm='genres', has='Horror')"),
        ("r", "When(arm='rating', equals='R')"),
        ("Rating", "That is a feature of arms"),
        ("films", "That is a group of arms"),
        ("Aliens", "Did you mean 'tt2' ('Alien')?"),
        ("tt4", "Did you mean 'tt"),
        ("nobody", "No arm 'nobody'. The agent has 4: 'tt1', 'tt2', 7, 'tt3'."),
        ("x" * 5_000, "The agent has 4"),
    ],
)
def test_what_an_unknown_arm_could_be(name, hint):
    agent = Agent(arms=NAMED, features=1, arm_features=LIKE, seed=1)
    for verb in (
        lambda: agent.teach([1.0], name, allowed=False),
        lambda: agent.decide([1.0], among=[name]),
    ):
        with pytest.raises(UnknownId) as caught:
            verb()
        assert hint in str(caught.value), str(caught.value)


def test_a_hint_compares_few_names(monkeypatch):
    arms = [Arm(f"film {k}", f"The film {k}") for k in range(20_000)]
    seen = []
    real = difflib.get_close_matches

    def counted(word, names, **more):
        seen.append(len(names))
        return real(word, names, **more)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    assert "'film 1'" in config.meant("film 1x", arms, None)
    assert seen and max(seen) <= config.MOST_NEAR + 1


def test_a_retired_arm_says_that_it_is():
    agent = Agent(arms=NAMED, features=1, arm_features=LIKE, seed=1)
    agent.retire_arms(["tt2"])
    assert agent.believed([1.0]).why[1] == "retired"
    agent.restore_arms(["tt2"])
    assert agent.believed([1.0]).why[1] != "retired"


def test_examples_have_their_context_in_words():
    agent = Agent(arms=["a", "b"], features=[Flag("child"), Number("hour", 0, 24)], seed=1)
    agent.teach({"child": True, "hour": 12}, "b", allowed=False, item="Up", by="Ann")
    (one,) = agent.examples
    assert one.features == {"child": True, "hour": 12.0} and one.arm_id == "b" and one.arm == 1
    assert np.frombuffer(one.context).tolist() == [1.0, 0.5]  # as ever
    assert one == agent._state.examples[1] and isinstance(one, Example)
    assert "'b' denied in {'child': True, 'hour': 12.0}, item 'Up'" in repr(one)
    agent.retract(one)
    assert agent.examples == ()
