"""The limits of an agent can be made anew at any time: rules, retractions, new arms, new groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridle import Agent, Arm, Flag, Labels, LearnedMask, Number, Rule, When
from bridle.errors import BridleError, InvalidValue, LimitReached, NotPossible, UnknownId
from bridle.limits import FoundGroup, Reading
from tests.histories import bits

KINDS = ["auto", "rules", "logistic", "found", "linear"]
FEATURES = [Labels("genres", ["Action", "Crime", "Drama", "Horror"]), Flag("late", missing=False)]
ARMS = [Arm("a", group="young"), Arm("b", group="young"), Arm("c", group="old"), Arm("d")]
NO_HORROR = Rule("no horror", when=[When("genres", has="Horror")], groups=["young"])
BOTH = Rule(
    "not both", when=[When("genres", has="Crime"), When("late", equals=True)], groups=["young"]
)


def of(*genres: str, late: bool = False) -> dict[str, Any]:
    return {"genres": list(genres), "late": late}


# Some answers about all arms, each with an id of its own.
LESSONS: list[tuple[dict[str, Any], Any, bool]] = [
    (of("Drama"), "a", True),
    (of("Horror", "Drama"), "a", False),
    (of("Crime"), "c", False),
    (of("Action", "Crime"), "b", True),
    (of("Horror"), "d", True),
    (of("Crime", late=True), "b", False),
    (of("Horror"), "b", False),
    (of("Action", late=True), "c", True),
    (of("Drama", "Crime"), "d", False),
    (of(), "c", True),
]
PROBES = [
    of(*genres, late=late)
    for late in (False, True)
    for genres in (
        (),
        ("Drama",),
        ("Horror",),
        ("Crime",),
        ("Action", "Horror"),
        ("Drama", "Crime"),
    )
]


def agent_of(**options: Any) -> Agent:
    given = {"arms": ARMS, "features": FEATURES, "limits": "rules", "seed": 4}
    if options.get("limits") == "linear":
        given["policy"] = LearnedMask()
    return Agent(**(given | options))


def teach(agent: Agent, lessons: Any = LESSONS, first: int = 0) -> Agent:
    for n, lesson in enumerate(lessons):
        agent.teach(*lesson, id=f"e{first + n}")
    return agent


def limit_bits(agent: Agent, counted: bool = True) -> bytes:
    """All that the limits are and believe; without what `auto` counts, only what they are."""
    limits = agent._state.limits_state.limits
    left_out: tuple[str, ...] = ("counts", "surprises", "surprise")
    if not counted:
        left_out += ("evidence", "tallies")
    if not limits.members:
        left_out, counted = (), True
    state = limits.to_state()
    parts = [n.encode() + a.tobytes() for n, a in sorted(state.items()) if n not in left_out]
    for probe in PROBES if counted else ():
        seen = agent._state.limits_state.seen(agent.schema.encode(probe).tobytes())
        parts += [part.tobytes() for part in seen]
    return b"\0".join(parts)


def assert_learned_anew(one: Agent, other: Agent) -> None:
    """Two agents whose limits are the same, though one of them learned a unit anew.

    A unit is learned anew by itself. What each member of `auto` knows is then the same bit for bit.
    Its evidence is the product of what it foretold, and the pooled member foretells the unit's
    answers with what other units were taught since: so the weights may differ a little.
    """
    assert limit_bits(one, counted=False) == limit_bits(other, counted=False)
    if one._state.limits_state.limits.members:
        for probe in PROBES:
            here = one.believed(probe).p - other.believed(probe).p
            assert np.abs(here).max() < 0.02


# -- rules that are known --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["auto", "rules"])
def test_a_known_rule_explains_a_denial(kind):
    """Horror and Drama was denied. If Horror is known to be, Drama is not suspected for it."""
    plain, knowing = agent_of(limits=kind), agent_of(limits=kind, rules=[NO_HORROR])
    before = knowing.believed(of("Drama")).p[0]
    for agent in (plain, knowing):
        agent.teach(of("Horror", "Drama"), "a", False)
    assert plain.believed(of("Drama")).p[0] < before - 0.1
    after = knowing.believed(of("Drama")).p
    # Of `auto` it rises, as logistic limits, which cannot know of rules, lose weight by it.
    assert after[0] == after[1] > before - 1e-3
    believed = knowing.believed(of("Horror"))
    assert believed.p[:2].tolist() == [0.0, 0.0] and not believed.possible[:2].any()
    assert believed.p[2] > 0.5  # the old are not spoken of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "rule",
    [NO_HORROR, BOTH, Rule("all", when=[When("late", equals=True)])],
    ids=lambda rule: rule.id,
)
def test_a_rule_known_later_is_as_if_known_from_the_start(kind, rule):
    start = teach(agent_of(limits=kind, rules=[rule]))
    later = teach(agent_of(limits=kind), LESSONS[:6])
    later.declare(rule)
    teach(later, LESSONS[6:], first=6)
    assert_learned_anew(later, start)
    last = teach(agent_of(limits=kind))
    last.declare(rule)
    assert_learned_anew(last, start)
    last.withdraw(rule.id)
    assert_learned_anew(last, teach(agent_of(limits=kind)))


@pytest.mark.parametrize("crosses", [False, True])
def test_two_features_together_are_a_term_where_there_are_pairs(crosses):
    plain, knowing = (agent_of(crosses=crosses, rules=rules) for rules in ([], [BOTH]))
    assert (limit_bits(plain) == limit_bits(knowing)) != crosses
    for agent in (plain, knowing):
        agent.teach(of("Crime", late=True), "a", False)
    # It explains the denial: Crime alone is less suspected than if nothing were known.
    assert (knowing.believed(of("Crime")).p[0] > plain.believed(of("Crime")).p[0]) == crosses
    assert not knowing.believed(of("Crime", late=True)).possible[:2].any()


OTHERS = {
    "no condition": Rule("r", groups=["young"]),
    "part of a unit": Rule("r", when=[When("genres", has="Horror")], arms=["a"]),
    "three": Rule("r", when=[When("genres", has=g) for g in ("Horror", "Crime", "Drama")]),
    "not": Rule("r", when=[When("late", equals=False)], groups=["young"]),
    "a number": Rule("r", when=[When("age", at_least=50)], groups=["young"]),
    "a number and a word": Rule("r", when=[When("age", at_least=50), When("genres", has="Horror")]),
}


@pytest.mark.parametrize("kind", ["auto", "rules"])
@pytest.mark.parametrize("rule", OTHERS.values(), ids=OTHERS)
def test_rules_of_other_forms_only_bind_what_may_be_played(kind, rule):
    features = [*FEATURES, Number("age", low=0, high=100)]
    context = {**of("Horror", "Crime", "Drama"), "age": 60}
    plain, knowing = (
        agent_of(limits=kind, features=features, rules=rules) for rules in ([], [rule])
    )
    for agent in (plain, knowing):
        agent.teach({**of("Drama"), "age": 10}, "a", True)
        agent.teach(context, "c", False)
    one, two = (agent._state.limits_state.limits.to_state() for agent in (plain, knowing))
    assert one.keys() == two.keys()
    assert all(array.tobytes() == two[name].tobytes() for name, array in one.items())
    assert not knowing.believed(context).possible[0] and plain.believed(context).possible[0]


def test_rules_on_an_arm_bind_it_where_arms_are_on_their_own():
    rule = Rule("r", when=[When("genres", has="Horror")], arms=["a", "d"])
    shared, apart = agent_of(rules=[rule]), agent_of(rules=[rule], share="arm")
    assert list(shared._state.limits_state._known) == [2]  # the unit of d
    assert sorted(apart._state.limits_state._known) == [0, 3]
    # A second arm in the group of one that is bound: the rule no longer holds for all of it.
    shared.regroup({"a": "alone"})
    assert len(shared._state.limits_state._known) == 2
    shared.add_arms([Arm("e", group="alone")])
    assert len(shared._state.limits_state._known) == 1
    fresh = agent_of(
        rules=[rule], arms=[Arm("a", group="alone"), *ARMS[1:], Arm("e", group="alone")]
    )
    assert limit_bits(shared) == limit_bits(fresh)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_that_is_refused_changes_nothing(kind):
    agent = teach(agent_of(limits=kind, rules=[NO_HORROR]))
    before = bits(agent)
    for bad, message in (
        (NO_HORROR, "of a new id"),
        (Rule("r", when=[When("genres", has="Horor")]), "Horror"),
        (Rule("r", when=[When("colour", equals="red")]), "colour"),
        (Rule("r", groups=["yung"]), "young"),
        (Rule("r", arms=["z"]), "arms of the agent"),
        ("no horror", "a Rule"),
    ):
        with pytest.raises(InvalidValue, match=message):
            agent.declare(bad)
    for unknown in ("r", 3, None):
        with pytest.raises(UnknownId, match="These stand"):
            agent.withdraw(unknown)
    assert bits(agent) == before


# -- retraction ------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [0.001, 0.1, None])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_taken_back_was_never_taught(kind, error):
    if kind == "found" and error is None:
        return  # found limits do not estimate it
    agent = teach(agent_of(limits=kind, teacher_error=error))
    for n in (1, 6, 3):  # of a group with others, and with others in between
        agent.retract(f"e{n}")
    never = agent_of(limits=kind, teacher_error=error)
    for n, lesson in enumerate(LESSONS):
        if n not in (1, 6, 3):
            never.teach(*lesson, id=f"e{n}")
    assert_learned_anew(agent, never)
    for probe in PROBES:
        one, two = agent.believed(probe), never.believed(probe)
        assert one.safe.tolist() == two.safe.tolist()
        assert one.p.tobytes() == two.p.tobytes() or kind == "auto"


@pytest.mark.parametrize("kind", KINDS)
def test_all_taken_back_is_nothing_taught(kind):
    agent = teach(agent_of(limits=kind))
    agent.retract_many([example.id for example in agent.examples][::-1])
    assert limit_bits(agent) == limit_bits(agent_of(limits=kind))
    assert not agent._state.denials and not agent._state.allowances


def test_one_of_two_equal_answers_taken_back_leaves_the_other():
    agent = agent_of()
    for id in ("one", "two"):
        agent.teach(of("Horror"), "a", False, id=id)
    agent.retract("one")
    assert agent.believed(of("Horror")).p[0] == 0.0
    agent.retract("two")
    assert agent.believed(of("Horror")).p[0] > 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_a_retraction_under_a_known_rule(kind):
    agent = teach(agent_of(limits=kind, rules=[NO_HORROR]))
    agent.retract("e1")
    agent.withdraw("no horror")
    never = agent_of(limits=kind)
    for n, lesson in enumerate(LESSONS):
        if n != 1:
            never.teach(*lesson, id=f"e{n}")
    assert_learned_anew(agent, never)


# -- new arms --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["auto", "rules", "logistic"])
def test_new_arms_start_with_what_their_group_knows(kind):
    agent = teach(agent_of(limits=kind))
    agent.add_arms([Arm("e", group="young"), Arm("f", group="new"), "g", Arm("h", group="old")])
    for probe in PROBES:
        seen = agent._state.limits_state.seen(agent.schema.encode(probe).tobytes())
        for part in seen:
            assert part[4] == part[0] and part[7] == part[2]
    # Without a name for the item nothing is allowed to the letter; and what is said is of a group.
    assert agent.believed(of("Drama")).p[0] == agent.believed(of("Drama")).p[4] < 1.0
    agent.teach(of("Drama"), "e", True, item="Up")
    assert agent.believed(of("Drama"), "Up").p[[0, 4]].tolist() == [1.0, 1.0]
    agent.retract(agent.examples[-1].id)
    untaught = agent_of(limits=kind).believed(of("Drama")).p[0]
    if kind != "auto":  # there what others were taught bears on the kinds' weights
        assert agent.believed(of("Drama")).p[5] == agent.believed(of("Drama")).p[6] == untaught
    whole = agent_of(limits=kind, arms=agent.arms)
    assert_learned_anew(teach(whole), agent)


@pytest.mark.parametrize("kind", KINDS)
def test_arms_that_come_later_or_were_there_from_the_start(kind):
    more = [Arm("e", group="young"), Arm("f", group="new")]
    lessons = [(of("Horror"), "e", False), (of("Crime"), "f", True)]
    later = teach(agent_of(limits=kind, rules=[NO_HORROR]))
    later.add_arms(more)
    teach(later, lessons, first=20)
    start = teach(agent_of(limits=kind, rules=[NO_HORROR], arms=[*ARMS, *more]))
    teach(start, lessons, first=20)
    assert later._state.limits_state.unit_of.tolist() == start._state.limits_state.unit_of.tolist()
    if kind != "found":  # whose chains run over the arms that there are
        assert limit_bits(later) == limit_bits(start)


# -- new groups ------------------------------------------------------------------------------

GROUPS = {"a": "x", "b": "y", "c": "x", "d": "y"}


def regrouped_arms(groups: dict[str, str | None]) -> list[Arm]:
    return [Arm(arm.id, group=groups.get(str(arm.id), arm.group)) for arm in ARMS]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("groups", [GROUPS, {"a": None}, {"d": "young"}], ids=str)
def test_learned_anew_in_new_groups(kind, groups):
    agent = teach(agent_of(limits=kind))
    agent.regroup(groups, limits=kind, by="t", note="so", at=1.0)
    assert [arm.group for arm in agent.arms] == [arm.group for arm in regrouped_arms(groups)]
    start = teach(agent_of(limits=kind, arms=regrouped_arms(groups)))
    assert limit_bits(agent) == limit_bits(start)
    # And it goes on in the same way.
    for one in (agent, start):
        teach(one, LESSONS[:4], first=30)
        one.retract("e3")
    assert limit_bits(agent) == limit_bits(start)


@pytest.mark.parametrize("kind", ["auto", "rules", "logistic"])
def test_another_kind_of_limits(kind):
    agent = teach(agent_of(limits="found", rules=[Rule("late", when=[When("late", equals=True)])]))
    agent.regroup(GROUPS, limits=kind)
    start = teach(agent_of(limits=kind, arms=regrouped_arms(GROUPS), rules=agent.rules))
    assert limit_bits(agent) == limit_bits(start)
    assert agent.settings.limits == "found" and agent._state.limits_state.kind == kind


def test_where_nothing_is_left_to_find_auto_follows():
    agent = teach(agent_of(limits="found"))
    agent.regroup(GROUPS)
    assert agent._state.limits_state.kind == "auto"
    assert limit_bits(agent) == limit_bits(
        teach(agent_of(limits="auto", arms=regrouped_arms(GROUPS)))
    )
    agent.regroup({"a": "y"})
    assert agent._state.limits_state.kind == "auto"


def test_answers_to_the_letter_outlive_new_groups():
    """What was said of an arm is said of the group that it is in now; a denial weighs more."""
    agent = teach(agent_of())
    agent.teach(of("Horror"), "d", True, item="It")
    assert agent.believed(of("Horror"), "It").p[[1, 3]].tolist() == [0.0, 1.0]
    agent.regroup(GROUPS)  # of b and d is one group
    assert agent.believed(of("Horror"), "It").p[[1, 3]].tolist() == [0.0, 0.0]
    agent.regroup({"b": None})
    assert agent.believed(of("Horror"), "It").p[[1, 3]].tolist() == [0.0, 1.0]


def found_group(name: str, arms: tuple[str, ...]) -> FoundGroup:
    return FoundGroup(name, arms, 1.0, Reading((), (), ()))


WIDE = [Labels("genres", [f"g{i}" for i in range(13)])]


@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({}, ({"z": "x"},), "No arm 'z'"),
        ({}, ({True: "x"},), "No arm True"),
        ({}, ({},), "at least one arm and its group"),
        ({}, ([],), "at least one arm and its group"),
        ({}, ({"a": 3},), "'groups' parameter of Agent.regroup"),
        ({}, ({"a": ""},), "'groups' parameter of Agent.regroup"),
        ({}, (7,), "must be a list"),
        ({}, ("ab",), "must be a list"),
        ({}, (["a"],), "list of FoundGroup"),
        ({}, ([found_group("x", ("a", "z"))],), "No arm 'z'"),
        ({}, ([found_group("x", ("a", "b")), found_group("y", ("b",))],), "distinct. Got 'b'"),
        ({}, ({"a": "x"}, "guess"), "one of 'auto'"),
        ({"rules": [NO_HORROR]}, ({"a": "x", "b": "x"},), "'young', which rule 'no horror' names"),
        ({"features": WIDE}, ({"a": "x"}, "found"), "more than 12"),
        ({"teacher_error": None}, ({"a": "x"}, "found"), "teacher_error"),
        ({"doubt": 0.1}, ({"a": "x"}, "logistic"), "'doubt' parameter"),
    ],
)
def test_groups_that_are_refused_change_nothing(options, given, message):
    agent = agent_of(**options)
    before = bits(agent)
    with pytest.raises(BridleError, match=message):
        agent.regroup(*given)
    assert bits(agent) == before


@pytest.mark.parametrize("options", [{"by": ""}, {"note": 3}, {"at": "now"}, {"by": "x" * 20_000}])
def test_words_that_are_refused_change_nothing(options):
    agent = agent_of()
    before = bits(agent)
    with pytest.raises(InvalidValue, match=next(iter(options))):
        agent.regroup({"a": "x"}, **options)
    assert bits(agent) == before


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_seen_is_not_kept_too_long(kind):
    """Every change shows at the next look, whatever was looked at before."""
    agent = agent_of(limits=kind)
    probe = of("Horror")

    def seen() -> bytes:
        return agent._state.limits_state.seen(agent.schema.encode(probe).tobytes()).p.tobytes()

    def fresh() -> bytes:
        agent._state.limits_state._seen.clear()
        return seen()

    for change in (
        lambda: agent.teach(probe, "a", False),
        lambda: agent.declare(NO_HORROR),
        lambda: agent.add_arms([Arm("e", group="young")]),
        lambda: agent.withdraw("no horror"),
        lambda: agent.regroup({"a": "old"}, "logistic" if kind == "linear" else None),
        lambda: agent.retract(1),
    ):
        seen()
        change()
        assert seen() == fresh()
    assert np.frombuffer(seen()).size == 5


def test_groups_that_would_share_nothing_are_refused():
    with pytest.raises(NotPossible, match="share='arm'"):
        agent_of(share="arm").regroup({"a": "x"})
    with pytest.raises(NotPossible, match="Arms share nothing with limits='linear'"):
        agent_of(limits="linear").regroup({"a": "x"})


@pytest.mark.parametrize("kind", ["auto", "rules", "found"])
def test_what_no_rule_can_deny_must_have_been_allowed_once(kind):
    agent = Agent(arms=2, features=[Flag("smoker"), Number("age", low=0, high=100)], limits=kind)
    nobody = {"smoker": False, "age": 30}
    assert not agent.believed(nobody).safe.any() and agent.believed(nobody).possible.all()
    agent.teach({"smoker": True, "age": 30}, 0, False)
    assert not agent.believed(nobody).safe.any()
    if kind != "auto":  # where numbers matter, too
        agent.teach({"smoker": False, "age": 31}, 0, True)
        assert agent.believed(nobody).safe.tolist() == [True, False]


def test_found_limits_refuse_arms_that_they_have_no_room_for(monkeypatch):
    monkeypatch.setattr("bridle.limits.clustered.MAX_CELLS", 16)
    log: list[Any] = []
    agent = Agent(arms=4, features=[Flag("a"), Flag("b")], limits="found", sink=log.extend)
    before = bits(agent), len(log)
    with pytest.raises(LimitReached, match="limit of 4 arms of found limits"):
        agent.add_arms(1)
    assert (bits(agent), len(log)) == before


@pytest.mark.parametrize("kind", ["auto", "logistic"])
def test_contexts_that_there_is_no_room_for_are_refused_before_they_are_told(kind, monkeypatch):
    monkeypatch.setattr("bridle.limits.logistic.MAX_ENTRIES", 12)  # 4 contexts of 3 columns
    log: list[Any] = []
    agent = Agent(arms=2, features=2, limits=kind, sink=log.extend)
    rows = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    agent.teach_many(rows, [0] * 4, [True] * 4)
    before = bits(agent), len(log)
    with pytest.raises(LimitReached, match="4 distinct contexts"):
        agent.teach_many([[0.5, 0.5], [0.25, 0.5]], [1, 0], [True, True])
    assert (bits(agent), len(log)) == before
