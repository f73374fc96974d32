"""Agents whose arms have features: choices by joint draws, inside limits over pairs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bridle import (
    Abstention,
    Agent,
    Arm,
    Category,
    Decision,
    EpsilonGreedy,
    Flag,
    Greedy,
    Labels,
    LearnedMask,
    LinUCB,
    Number,
    Question,
    Rule,
    SquareCB,
    Thompson,
    When,
)
from bridle.agent.config import Settings
from bridle.agent.events import ArmsVisited, Decided, event_from_json, event_to_text
from bridle.agent.joint import DRAWS
from bridle.agent.outcomes import SlateDecision
from bridle.errors import InvalidValue, LimitReached, NotPossible, UnknownId
from bridle.policies import Masked, PlackettLuce, Softmax
from bridle.slates import AtMost, NotBoth, SetLimits
from tests.histories import bits

FILMS = [Labels("genres", ["Horror", "Comedy", "Drama"]), Number("year", 1900, 2000)]
BANDS = [Category("band", ["child", "adult"])]
CHILD, ADULT = {"band": "child"}, {"band": "adult"}


def film(id: Any, *genres: str, year: float = 1990.0) -> Arm:
    return Arm(id, features={"genres": list(genres), "year": year})


def family(*, years: bool = True, **options: Any) -> Agent:
    """Return an agent with six films; comedies earn most."""
    films = [
        film("it", "Horror"),
        film("scream", "Horror", "Comedy"),
        film("big", "Comedy"),
        film("babe", "Comedy", "Drama"),
        film("rain", "Drama"),
        film("plain"),
    ]
    given: dict[str, Any] = {"features": BANDS, "arm_features": FILMS, "seed": 3, **options}
    if not years:
        given["arm_features"] = FILMS[:1]
        films = [Arm(one.id, features={"genres": one.features["genres"]}) for one in films]  # type: ignore[index,call-overload]
    return Agent(arms=films, **given)


def live(agent: Agent, steps: int = 60, seed: int = 0) -> Agent:
    """Let an agent that asks nobody play, and earn by genre."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        made = agent.decide(CHILD if rng.random() < 0.5 else ADULT, ask=False)
        if isinstance(made, Decision):
            agent.reward(made.id, earned(agent, made.arm, rng))
    return agent


def earned(agent: Agent, arm: Any, rng: np.random.Generator) -> float:
    features: Any = next(one for one in agent.arms if one.id == arm).features
    likes = 0.4 + 0.4 * ("Comedy" in features["genres"]) - 0.3 * ("Drama" in features["genres"])
    return float(np.clip(likes + 0.05 * rng.normal(), 0.0, 1.0))


# --- what arms are like ---------------------------------------------------------------------


def test_what_is_learned_of_one_arm_serves_another():
    agent = family()
    played = [arm.id for arm in agent.arms] * 10
    rng = np.random.default_rng(0)
    agent.learn([ADULT] * 60, played, [earned(agent, arm, rng) for arm in played])
    agent.add_arms([film("airplane", "Comedy"), film("gandhi", "Drama")])
    mean, _ = agent._state.shared.scores(agent.schema.encode(ADULT))  # type: ignore[union-attr]
    ids = [arm.id for arm in agent.arms]
    assert mean[ids.index("airplane")] > mean[ids.index("gandhi")] + 0.03


def test_settings_go_through_json():
    agent = family(interactions=[("band", "genres")], set_limits=SetLimits(at_most=[AtMost(1)]))
    data = json.loads(json.dumps(agent.settings.to_json()))
    assert Settings.from_json(data) == agent.settings
    assert agent.arms[1].features == {"genres": ("Horror", "Comedy"), "year": 1990.0}


def test_an_agent_without_features_writes_what_it_wrote_before():
    data = Agent(arms=2, features=2).settings.to_json()
    assert not data.keys() & {"arm_features", "interactions", "set_limits", "reward"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"interactions": "some"}, "interactions"),
        ({"interactions": [("band", "none")]}, "features of an arm"),
        ({"interactions": [("band",)]}, "pairs"),
        ({"arm_features": [Flag("x")]}, "it"),
        ({"arm_features": "genres"}, "arm_features"),
        ({"reward": "shared", "arm_features": None}, "features"),
        ({"prior": "paper"}, "paper"),
        ({"rules": [Rule("r", when=[When(arm="colour", equals="red")])]}, "colour"),
        ({"set_limits": SetLimits(at_most=[AtMost(1, feature="year")])}, "flag, a category"),
    ],
)
def test_what_cannot_be_is_refused(given, said):
    with pytest.raises(InvalidValue, match=said):
        family(**given)


def test_features_need_a_schema():
    with pytest.raises(InvalidValue, match="arm_features"):
        Agent(arms=[film("a", "Horror")], features=1)
    with pytest.raises(InvalidValue, match="context"):
        Agent(arms=2, features=1, rules=[Rule("r", when=[When(arm="x", equals=True)])])


def test_too_many_joint_features_are_refused_with_the_remedy():
    arms = [Arm(k, features=np.zeros(100)) for k in range(2)]
    with pytest.raises(LimitReached, match="interactions='none'"):
        Agent(arms=arms, features=30, arm_features=100)
    assert Agent(arms=arms, features=30, arm_features=100, interactions="none").arms


# --- choices --------------------------------------------------------------------------------

POLICIES = [
    Thompson(v=0.3),
    LinUCB(alpha=0.5),
    Greedy(),
    EpsilonGreedy(epsilon=0.3),
    SquareCB(),
    Softmax(),
    LearnedMask(v=0.3),
    Masked(SquareCB()),
    Masked(EpsilonGreedy(epsilon=0.2)),
    Masked(LinUCB(alpha=0.5)),
]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_choices_are_drawn_as_their_propensities_say(policy):
    agent = live(family(policy=policy), 40)
    for arm in ("big", "babe", "rain"):
        agent.teach(ADULT, arm, True, item="me")
    made = agent.make.decided(ADULT, item="me", propensity=True)
    assert isinstance(made, Decision) and made.odds is not None
    n, wins = 600, dict.fromkeys(made.arms, 0)
    for i in range(n):
        wins[agent.make.decided(ADULT, id=f"d{i}", item="me").arm] += 1  # type: ignore[union-attr]
    for arm, p in zip(made.arms, made.odds.play.tolist(), strict=True):  # type: ignore[assignment]
        # Each share is off by more than 6 of its standard deviations, that of the draws behind
        # the propensity included, with probability below 2e-9: 1e-7 for all of them.
        off = 6.0 * np.sqrt(max(p * (1 - p), 1e-3) * (1 / n + 1 / DRAWS)) + 3.0 / DRAWS
        assert abs(wins[arm] / n - p) <= off
    by_draws = isinstance(policy, Thompson | LearnedMask)
    assert made.event.draws == (DRAWS if by_draws else None)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_a_batch_and_a_replay_choose_the_same(policy):
    log: list[Any] = []
    agent = family(policy=policy, sink=log.extend)
    live(agent, 30)
    one = [agent.make.decided(c, id=f"x{i}", ask=False) for i, c in enumerate([CHILD, ADULT] * 3)]
    many = agent.decide_many([CHILD, ADULT] * 3, ids=[f"x{i}" for i in range(6)])
    assert [getattr(made, "arm", None) for made in one] == many.chosen
    again = Agent.replay([event_from_json(json.loads(event_to_text(event))) for event in log])
    assert again.agrees and again.checked == 36


def test_arms_share_a_draw():
    """Two arms with equal features have scores that go together, but for their own effects."""
    arms = [Arm(k, features=[float(k > 1)]) for k in range(4)]
    # With a prior that is set: else it finds out that arms of equal features hardly differ.
    more: dict[str, Any] = {"policy": Thompson(v=1.0), "prior": "centred"}
    agent = Agent(arms=arms, features=1, arm_features=1, seed=1, **more)
    for k in range(30):
        agent.learn([[1.0]], [arms[k % 4].id], [0.2 + 0.5 * (k % 4 > 1)])
    draws = np.array([agent.make.decided([1.0], id=f"d{i}").draw for i in range(400)])  # type: ignore[union-attr]
    same, other = np.corrcoef(draws.T)[0, 1], np.corrcoef(draws.T)[0, 2]
    # Independent draws have |r| > .25 with probability below 1e-6 at n = 400 (Fisher's z).
    assert same > 0.3 and same > other


def test_arms_that_nobody_stored_are_played_and_known_from_then_on():
    log: list[Any] = []
    agent = live(family(policy=Thompson(v=0.05), sink=log.extend), 120)
    new = film("airplane", "Comedy")
    made = agent.decide(ADULT, ["rain", new, film("gandhi", "Drama")], propensity=True)
    assert isinstance(made, Decision) and made.arm == "airplane"
    assert made.event.visitors is not None and len(made.event.visitors) == 2
    assert [arm.id for arm in agent.arms][-1] == "airplane" and len(agent.arms) == 7
    agent.reward(made.id, 1.0)
    # It is played where a request names it, and not else.
    for i in range(50):
        assert agent.make.decided(ADULT, id=f"d{i}").arm != "airplane"  # type: ignore[union-attr]
    assert agent.make.decided(ADULT, ["airplane"]).arm == "airplane"  # type: ignore[union-attr]
    assert agent.make.decided(ADULT, [new]).arm == "airplane"  # type: ignore[union-attr]
    with pytest.raises(InvalidValue, match="change_arms"):
        agent.decide(ADULT, [film("airplane", "Horror")])
    agent.restore_arms(["airplane"])
    assert agent._state.every.all()
    assert Agent.replay(log).agrees


def test_an_agent_whose_arms_learn_alone_takes_no_strangers():
    agent = Agent(arms=2, features=1)
    with pytest.raises(InvalidValue, match="arm_features"):
        agent.decide([1.0], [Arm("x", features=[1.0])])
    with pytest.raises(NotPossible, match="add_arms"):
        agent.decide([1.0], [Arm("x")])
    with pytest.raises(NotPossible, match="add_arms"):
        family(reward="linear").decide(ADULT, [film("x")])


# --- arms that come and go ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [{}, {"arm_features": None, "features": 2}])
def test_retired_arms_are_not_played_and_come_back_as_they_were(kind, tmp_path):
    if kind:
        agent = Agent(arms=["it", "big"], features=2, policy=Thompson(v=0.1))
        context: Any = [1.0, 0.0]
    else:
        agent, context = live(family(policy=Thompson(v=0.1))), ADULT
    agent.retire_arms(["big"])
    assert agent.retired == ("big",)
    made = agent.decide_many([context] * 30)
    assert "big" not in made.chosen
    assert isinstance(agent.decide(context, ["big"]), Abstention)
    agent.save(tmp_path / "a")
    assert Agent.load(tmp_path / "a").retired == ("big",)
    agent.restore_arms(["big"])
    assert agent.make.decided(context, ["big"]).arm == "big"  # type: ignore[union-attr]
    with pytest.raises(UnknownId):
        agent.retire_arms(["nobody"])


def test_the_safe_arm_is_not_retired():
    agent = Agent(arms=2, features=1, on_empty="safe_arm", safe_arm=1)
    with pytest.raises(NotPossible, match="safe arm"):
        agent.retire_arms([1])


def test_changed_features_count_from_then_on():
    agent = live(family(policy=Thompson(v=0.1)), 120)
    before = agent._state.shared.scores(agent.schema.encode(ADULT))[0]  # type: ignore[union-attr]
    agent.change_arms([film("rain", "Comedy")])
    after = agent._state.shared.scores(agent.schema.encode(ADULT))[0]  # type: ignore[union-attr]
    assert after[4] > before[4] + 0.1
    assert np.allclose(np.delete(after, 4), np.delete(before, 4), atol=1e-9)
    with pytest.raises(InvalidValue, match="regroup"):
        agent.change_arms([Arm("rain", group="new", features={"genres": [], "year": 1990})])
    with pytest.raises(InvalidValue, match="distinct"):
        agent.change_arms([film("rain"), film("rain")])


def test_the_policy_changes_on_a_live_agent(tmp_path):
    agent = live(family())
    agent.set_policy(Thompson(v=0.2), by="Ann")
    assert agent.policy == Thompson(v=0.2)
    agent.save(tmp_path / "a")
    assert Agent.load(tmp_path / "a").policy == Thompson(v=0.2)
    with pytest.raises(InvalidValue, match="policy"):
        agent.set_policy("Thompson")


# --- limits ---------------------------------------------------------------------------------


def test_a_rule_speaks_of_both_sides():
    rule = Rule("no horror", when=[When("band", equals="child"), When(arm="genres", has="Horror")])
    agent = family(policy=Thompson(v=1.0), rules=[rule])
    played = {agent.make.decided(CHILD, id=f"d{i}").arm for i in range(100)}  # type: ignore[union-attr]
    assert not played & {"it", "scream"} and len(played) > 2
    agent.add_arms([film("saw", "Horror")])
    assert isinstance(agent.decide(CHILD, ["saw"]), Abstention)
    assert isinstance(agent.decide(CHILD, [film("new", "Horror")]), Abstention)
    assert agent.make.decided(ADULT, ["saw"]).arm == "saw"  # type: ignore[union-attr]
    agent.change_arms([film("it", "Drama")])
    assert agent.make.decided(CHILD, ["it"]).arm == "it"  # type: ignore[union-attr]


def test_limits_carry_over_to_arms_that_come_later():
    agent = family(limits="rules", years=False)
    for i in range(12):
        name = f"film {i}"
        agent.add_arms([Arm(name, features={"genres": ["Horror"] if i % 2 else ["Comedy"]})])
        agent.teach(CHILD, name, i % 2 == 0, item="child")
        agent.teach(ADULT, name, True, item="adult")
    agent.add_arms([Arm("new fun", features={"genres": ["Comedy"]})])
    agent.add_arms([Arm("new fear", features={"genres": ["Horror"]})])
    child, adult = agent.believed(CHILD), agent.believed(ADULT)
    ids = list(child.arms)
    assert child.safe[ids.index("new fun")] and not child.safe[ids.index("new fear")]
    assert adult.safe[ids.index("new fear")]
    assert any("child" in line and "not Horror" in line for line in agent.describe())


def test_an_answer_is_certain_of_its_own_arm_alone():
    agent = family()
    agent.add_arms([film("it 2", "Horror")])
    agent.teach(ADULT, "it", True, item="Ann")
    assert agent._state.allowed_here(agent.schema.encode(ADULT), "Ann") == [0]
    agent.teach(ADULT, "it 2", False, item="Ann")
    made = agent.make.decided(ADULT, ["it", "it 2"], item="Ann", ask=False)
    assert isinstance(made, Decision) and made.arm == "it"


def test_it_asks_and_stays_inside_what_it_is_told():
    agent = family(budget=100, years=False, answer_price=0.1)
    rng, asked = np.random.default_rng(1), 0
    for _ in range(150):
        context = (CHILD, ADULT)[rng.integers(2)]
        made: Any = agent.decide(context, item=context["band"])
        while isinstance(made, Question):
            asked += 1
            made = agent.answer(made, not denied(agent, context, made.arm)).then
        if isinstance(made, Decision):
            assert not denied(agent, context, made.arm)
            if made.check is not None:
                agent.judge(made.check, True)
            agent.reward(made.id, earned(agent, made.arm, rng))
    assert 0 < asked <= 12


def denied(agent: Agent, context: Any, arm: Any) -> bool:
    features: Any = next(one for one in agent.arms if one.id == arm).features
    return context["band"] == "child" and "Horror" in features["genres"]


# --- slates ---------------------------------------------------------------------------------


def slated(agent: Agent, context: Any = ADULT, k: int = 3, **more: Any) -> SlateDecision:
    made = agent.decide(context, k=k, **more)
    assert isinstance(made, SlateDecision)
    return made


@pytest.mark.parametrize("policy", [Thompson(v=0.3), PlackettLuce(), EpsilonGreedy(), LinUCB()])
@pytest.mark.parametrize("features", [True, False])
def test_slates_keep_to_their_limits_and_replay(policy, features):
    log: list[Any] = []
    sets = SetLimits(at_most=[AtMost(1)], not_both=[NotBoth(arms=("a", "d"))])
    arms = [Arm(name, group="xxyyz"[i]) for i, name in enumerate("abcde")]
    more: dict[str, Any] = {"features": 2, "policy": policy, "set_limits": sets, "seed": 5}
    if features:
        arms = [Arm(one.id, "", one.group, [float(i)]) for i, one in enumerate(arms)]
        more["arm_features"] = 1
    agent = Agent(arms=arms, sink=log.extend, **more)
    rng = np.random.default_rng(2)
    for i in range(40):
        made = slated(agent, rng.random(2), 3, propensity=i % 10 == 0)
        groups = [one.group for one in agent.arms for arm in made.arms if one.id == arm]
        assert len(set(groups)) == len(groups) and not {"a", "d"} <= set(made.arms)
        agent.reward_slate(made, items=[float(rng.random()) for _ in made])
    assert agent.pending == 0
    assert Agent.replay(log).agrees


def test_a_slate_is_several_decisions():
    agent = live(family(policy=Thompson(v=0.1)), 60)
    made = slated(agent, k=4)
    assert len(made) == 4 and len(set(made.arms)) == 4
    assert [one.event.place for one in made] == [1, 2, 3, 4]
    assert {one.event.slate for one in made} == {made.id}
    agent.reward(made[1].id, 0.3)
    agent.reward_slate([made[0].id, made[2].id], 1.0)
    assert agent.pending == 1
    named = slated(agent, k=2, id="s")
    assert named.ids == ["s", "s/2"]
    with pytest.raises(InvalidValue, match="new"):
        agent.decide(ADULT, k=2, id="s")
    with pytest.raises(InvalidValue, match="k"):
        agent.decide(ADULT, k=0)


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": Thompson(v=0.3)},
        {"policy": Thompson(v=0.3), "max_pending": 4},
        {"patience": 2, "budget": 5, "on_doubt": "play_safe"},
        {"promise": (0.1, 0.3)},
    ],
)
def test_a_slate_is_folded_at_once_as_its_events_one_by_one(settings):
    given = dict(settings)
    promise = given.pop("promise", None)
    one, other = family(**given), family(**given)
    slates = 0
    for agent in (one, other):
        if promise is not None:
            agent.promise(*promise, seed=7)
        for arm in ("big", "babe", "rain"):
            agent.teach(ADULT, arm, True, item="visit")
    for _ in range(4):
        made = one.decide(ADULT, k=3, item="visit")
        for event in made.events:
            other.apply(event)
        if isinstance(made, SlateDecision):
            assert [each.id for each in made] == made.ids
            assert [each.arm for each in made] == made.arms
            slates += 1
        assert bits(one) == bits(other)
    assert slates  # a promise may freeze it after the first
    assert one.decide(ADULT, k=2).events == other.decide(ADULT, k=2).events


def test_a_slate_has_no_more_than_may_be_played():
    agent = family()
    for arm in ("big", "babe"):
        agent.teach(CHILD, arm, True, item="Ann")
    agent.teach(CHILD, "it", False, item="Ann")
    made = agent.decide(CHILD, k=5, item="Ann", ask=False)
    assert isinstance(made, SlateDecision) and {"big", "babe"} <= set(made.arms) <= {
        "big",
        "babe",
        "rain",
        "plain",
        "scream",
    }
    agent.retire_arms([arm.id for arm in agent.arms])
    assert isinstance(agent.decide(CHILD, k=5, item="Ann"), Abstention)


def test_places_are_drawn_as_their_propensities_say():
    agent = live(family(policy=Thompson(v=0.5)), 40)
    made = slated(agent, k=2, propensity=True, id="first")
    n, hits = 500, np.zeros(2)
    for i in range(n):
        other: Any = agent.make.slate(ADULT, 2, id=f"d{i}")
        hits += [a == b for a, b in zip(other.arms, made.arms, strict=True)]
    for share, one in zip(hits / n, made, strict=True):
        p = one.event.propensity
        assert p is not None and one.event.draws == DRAWS
        # As above: 6 standard deviations.
        off = 6.0 * np.sqrt(max(p * (1 - p), 1e-3) * (1 / n + 1 / DRAWS)) + 2.0 / DRAWS
        assert abs(share - p) <= off


def test_a_question_is_filed_with_a_slate():
    agent = family(budget=20, on_doubt="play_safe", answer_price=0.0)
    made = agent.decide(ADULT, k=3, item="me")
    assert made.question is not None and made.events[-1].decision == made.event.id  # type: ignore[union-attr]
    agent.answer(made.question, True)
    assert agent.open_questions == ()


# --- many arms ------------------------------------------------------------------------------


def test_scores_of_many_arms_are_computed_when_they_are_asked_for():
    rows = np.random.default_rng(0).normal(size=(3_000, 20))
    arms = [Arm(k, features=row) for k, row in enumerate(rows)]
    agent = Agent(arms=arms, features=3, arm_features=20, policy=Thompson(v=0.3))
    made = agent.decide([1.0, 0.0, 1.0])
    assert isinstance(made, Decision)
    late = agent.decide([0.0, 0.0, 1.0])
    assert isinstance(late, Decision)
    assert made.draw.argmax() == [arm.id for arm in agent.arms].index(made.arm)
    agent.reward(late.id, 0.5)
    assert made.parts.shape == (7, 3_000)
    with pytest.raises(NotPossible, match="log"):
        late.parts  # noqa: B018


def test_visited_arms_are_known_and_not_played():
    agent = family(policy=Thompson(v=1.0))
    agent.visit_arms([film("guest", "Comedy")])
    played = {agent.make.decided(ADULT, id=f"d{i}").arm for i in range(60)}  # type: ignore[union-attr]
    assert "guest" not in played
    agent.teach(CHILD, "guest", False, item="Ann")
    assert isinstance(agent.make.arms_visited([film("other")]), ArmsVisited)
    assert Decided in {type(event) for event in agent.decide(ADULT, ["guest"]).events}


def test_an_arm_that_a_request_brings_along_is_of_its_group():
    arms = [
        Arm(f"a{n}", features={"kind": ["a", "b"][n % 2]}, group="x" if n < 4 else "y")
        for n in range(8)
    ]
    child = {"band": "child"}
    agent = Agent(
        arms=arms,
        features=[Category("band", ["child", "adult"])],
        arm_features=[Category("kind", ["a", "b"])],
        share="group",
        seed=1,
    )
    for _ in range(4):
        for arm in arms:
            agent.teach(child, arm.id, arm.group == "y")
    for group, said in (("x", Abstention), ("y", Decision)):
        new = Arm("new", features={"kind": "b"}, group=group)
        assert isinstance(agent.make.decided(child, among=[new], ask=False), said)


@pytest.mark.parametrize("places", [1, 2])
def test_a_slate_of_nothing_has_a_propensity(places):
    agent = Agent(
        arms=2,
        features=[Category("band", ["child", "adult"])],
        policy=Masked(SquareCB()),
        on_empty="least_bad",
        seed=1,
    )
    agent.decide({"band": "child"}, k=places, propensity=True)
