# mypy: disable-error-code="valid-type,misc,no-any-return,union-attr,attr-defined,var-annotated"
# mypy: disable-error-code="index,call-overload,operator"
"""Policies, limits and reward models of others: in an agent, in its log, and on replay."""

from __future__ import annotations

import copy
import dataclasses
import json
import runpy
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import bridle
from bridle import Agent, Decision, Rule, When, registry, simulate
from bridle.agent.agent import Created
from bridle.agent.events import event_from_json, event_to_json
from bridle.errors import CorruptState, Duplicate, InvalidValue, NotPossible, NotRegistered
from bridle.limits import KINDS, STATES, make_limits
from bridle.policies import _KINDS, Scores, policy_from_json, policy_of, policy_to_json
from bridle.reward.posterior import LinearArms
from bridle.schema import Flag, Schema
from bridle.testing import CheckFailed, check_limits, check_policy, check_reward_model, checks_for

ROOT = Path(__file__).parents[1]
SCHEMA = 3  # plain numbers: a child, late, new
ROWS = np.array([[n >> 2 & 1, n >> 1 & 1, n & 1] for n in range(8)], float)


@pytest.fixture(scope="module", autouse=True)
def examples():
    """The three examples, imported: each registers its own."""
    found = {}
    for name in ("top_few", "tree_limits", "logistic_reward"):
        found |= runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name=name)
    yield found
    for kind, name in (("policy", "TopFew"), ("limits", "tree"), ("reward", "logistic")):
        registry.unregister(kind, name)


@dataclass(frozen=True)
class Last:
    """Plays the last arm that may be played."""

    needs_limits: ClassVar[bool] = False
    least: int = 0

    def choose(self, scores: Scores, key: int) -> int:
        may = np.flatnonzero(scores.eligible)
        return int(may[-1]) if len(may) else -1

    def propensities(self, scores: Scores):
        return (np.arange(len(scores.eligible)) == self.choose(scores, 0)).astype(float)


@pytest.fixture
def last():
    registry.register("policy", "Last", Last, version="1")
    yield Last
    registry.unregister("policy", "Last")


def settings(examples, what):
    return {
        "policy": {"policy": examples["TopFew"](few=3)},
        "limits": {"limits": "tree", "limits_options": {"enough": 3}},
        "reward": {"reward": "logistic", "reward_options": {"precision": 2.0}},
        "all": {
            "policy": examples["TopFew"](),
            "limits": "tree",
            "reward": "logistic",
            "budget": 5,
        },
    }[what]


def lived(given, log=None, seed=3):
    """An agent that was taught, decided, was rewarded, was corrected and grew."""
    sink = None if log is None else log.extend
    agent = Agent(arms=["a", "b", "c"], features=SCHEMA, seed=seed, sink=sink, **given)
    for n in range(24):
        row = ROWS[n % 8]
        for arm in "abc":
            agent.teach(row, arm, allowed=not (arm == "a" and row[0] > 0))
    wrong = agent.teach(ROWS[0], "b", allowed=False)
    agent.retract(wrong)
    for n in range(30):
        made = agent.decide(ROWS[n % 8], item=f"i{n}", propensity=True)
        if isinstance(made, Decision):
            agent.reward(made.id, float(n % 3 == 0))
        elif isinstance(made, bridle.Question):
            agent.answer(made.id, True)
    agent.add_arms(["d"])
    agent.decide_many(ROWS, propensity=True)
    return agent


WHAT = ("policy", "limits", "reward", "all")


# -- what is registered ----------------------------------------------------------------------


def test_the_names_of_ours_are_taken():
    assert set(registry.OURS["policy"]) == set(_KINDS)
    assert set(registry.OURS["limits"]) == {*KINDS, *STATES}
    with pytest.raises(Duplicate, match="bridle's own"):
        registry.register("policy", "Thompson", Last, version="1")


def test_what_is_no_policy_is_refused():
    class Loose:
        needs_limits = True
        choose = propensities = None

    for factory in (Loose, Loose(), 7, "Last", None):
        with pytest.raises(InvalidValue, match="factory"):
            registry.register("policy", "Loose", factory, version="1")
    with pytest.raises(InvalidValue, match="version"):
        registry.register("policy", "Last", Last, version="")
    with pytest.raises(InvalidValue, match="kind"):
        registry.register("policies", "Last", Last, version="1")
    with pytest.raises(InvalidValue, match="from_state"):
        registry.register("reward", "Last", Last, version="1")


def test_a_name_is_replaced_by_its_own_and_by_nothing_else(last):
    registry.register("policy", "Last", Last, version="2")
    assert registry.find("policy", "Last").version == "2"

    @dataclass(frozen=True)
    class Other(Last):
        pass

    with pytest.raises(Duplicate):
        registry.register("policy", "Last", Other, version="2")


def test_entry_points_are_loaded_when_their_name_is_asked_for(monkeypatch):
    asked = []

    def points(*, group, name):
        asked.append((group, name))
        found = {"Late": "tests.late_policy", "Broken": "tests.no_such_module"}
        return EntryPoints([EntryPoint(name, found[name], group)] if name in found else [])

    monkeypatch.setattr(registry, "entry_points", points)
    registry.unregister("policy", "Late")  # whoever collects doctests has imported its module
    sys.modules.pop("tests.late_policy", None)
    agent = Agent(arms=2, features=1)
    agent.decide([1.0])
    assert not asked
    try:
        assert policy_of("Late", {"shift": 2}).shift == 2
        assert asked == [("bridle.policies", "Late")]
    finally:
        registry.unregister("policy", "Late")
    with pytest.raises(NotRegistered, match="no_such_module"):
        policy_of("Broken", {})
    with pytest.raises(InvalidValue, match="registered"):
        policy_of("Nobody", {})


def test_what_is_available_has_a_name_or_an_entry_point(monkeypatch):
    monkeypatch.setattr(registry, "_known", {})
    registry.register("policy", "Last", Last, version="1")
    points = [
        EntryPoint(name, "tests.no_such_module", "bridle.policies") for name in ("B", "Greedy")
    ]
    monkeypatch.setattr(registry, "entry_points", lambda *, group: EntryPoints(points))
    assert registry.available("policy") == ("B", "Last")  # nothing is loaded, ours are left out


def test_a_policy_is_written_with_its_name_and_version(last):
    written = policy_to_json(Last(least=3))
    assert written == {"kind": "Last", "version": "1", "least": 3}
    assert policy_from_json(written) == Last(least=3)
    with pytest.raises(NotRegistered, match="Version '9' of the policy 'Last' is needed, and '1'"):
        policy_from_json({**written, "version": "9"})
    with pytest.raises(NotRegistered, match="'Gone' is not registered"):
        policy_from_json({**written, "kind": "Gone"})
    with pytest.raises(CorruptState):
        policy_from_json({**written, "strange": 1})
    with pytest.raises(InvalidValue, match="plain values"):
        policy_to_json(Last(least=np.zeros(3)))
    error = copy.copy(NotRegistered("limits", "tree", "2", "1"))
    assert (error.kind, error.name, error.version, error.found) == ("limits", "tree", "2", "1")


# -- in an agent -----------------------------------------------------------------------------


@pytest.mark.parametrize("what", WHAT)
def test_a_log_replays_to_the_same_choices_and_bits(examples, what):
    log = []
    agent = lived(settings(examples, what), log)
    read = [event_from_json(json.loads(json.dumps(event_to_json(one)))) for one in log]
    found = Agent.replay(read)
    assert found.agrees and found.checked > 20
    mine, its = (one._state.reward_model.to_state() for one in (agent, found.agent))
    assert all(mine[name].tobytes() == its[name].tobytes() for name in mine)
    assert found.agent.decide(ROWS[3]).event == agent.decide(ROWS[3]).event


@pytest.mark.parametrize("what", WHAT)
def test_a_saved_agent_goes_on_as_if_there_had_been_no_pause(examples, what, tmp_path):
    agent = lived(settings(examples, what))
    agent.save(tmp_path / "agent")
    back = Agent.load(tmp_path / "agent")
    assert back.settings == agent.settings
    for n in range(10):
        one, two = (a.decide(ROWS[n % 8], propensity=True) for a in (agent, back))
        assert one.event == two.event
        if isinstance(one, Decision):
            agent.reward(one.id, 1.0)
            back.reward(two.id, 1.0)


@pytest.mark.parametrize("what", WHAT)
def test_a_batch_chooses_as_one_by_one(examples, what):
    one, two = (lived(settings(examples, what)) for _ in range(2))
    many = one.decide_many(ROWS, propensity=True, details=True)
    for n, row in enumerate(ROWS):
        made = two.decide(row, ask=False, propensity=True)
        arm = made.arm if isinstance(made, Decision) else None
        assert many.chosen[n] == arm
        if arm is not None:
            assert many[n].propensity == pytest.approx(made.propensity, abs=1e-12)


@pytest.mark.parametrize(
    ("what", "kind", "name"),
    [
        ("policy", "policy", "TopFew"),
        ("limits", "limits", "tree"),
        ("reward", "reward", "logistic"),
    ],
)
def test_what_is_missing_is_refused_by_name_and_nothing_is_lost(
    examples, what, kind, name, tmp_path, monkeypatch
):
    log = []
    agent = lived(settings(examples, what), log)
    agent.save(tmp_path / "agent")
    texts = [json.dumps(event_to_json(one)) for one in log]
    before = (tmp_path / "agent").read_bytes()
    known = registry.find(kind, name)
    for version in (None, "2"):
        if version is None:
            monkeypatch.delitem(registry._known, (kind, name))
        else:
            monkeypatch.setitem(
                registry._known, (kind, name), registry.Registered(kind, name, "2", known.factory)
            )
        with pytest.raises(NotRegistered, match=name) as caught:
            Agent.load(tmp_path / "agent")
        assert (caught.value.kind, caught.value.version) == (kind, "1")
        assert "Nothing is lost" in caught.value.remedy
        with pytest.raises(NotRegistered, match=name):
            event_from_json(json.loads(texts[0]))
        if kind != "policy":  # which stands in the event itself
            with pytest.raises(NotRegistered, match=name):
                Agent.replay(log)
    monkeypatch.undo()
    assert Agent.replay([event_from_json(json.loads(text)) for text in texts]).agrees
    assert (tmp_path / "agent").read_bytes() == before


def test_agents_with_ours_write_what_they_did():
    written = event_to_json(Created(Agent(arms=2, features=1).settings))
    assert not [name for name in written["settings"] if name.startswith(("reward_v", "limits_"))]
    assert "reward" not in written["settings"]


def test_whoever_keeps_to_the_limits_never_leaves_them(examples):
    agent = lived(settings(examples, "policy"))
    for n in range(300):
        made = agent.decide(ROWS[4 + n % 4])
        assert not isinstance(made, Decision) or made.arm != "a"
    rule = Rule("no b", [When("x1", at_least=0.5)], arms=["b"])
    strict = Agent(arms=["a", "b"], features=SCHEMA, policy=examples["TopFew"](), rules=[rule])
    for n in range(48):
        for arm in "ab":
            strict.teach(ROWS[n % 8], arm, allowed=True)
    made = [strict.decide(ROWS[2]) for _ in range(50)]
    assert {one.arm for one in made if isinstance(one, Decision)} == {"a"}


def test_a_policy_that_needs_no_limits_keeps_to_rules_and_exact_denials(last):
    agent = Agent(arms=["a", "b", "c"], features=SCHEMA, policy=Last())
    assert agent.decide(ROWS[0]).arm == "c"
    agent.teach(ROWS[0], "c", allowed=False)
    assert agent.decide(ROWS[0]).arm == "b"
    assert agent.decide(ROWS[1]).arm == "c"
    assert agent.decide(ROWS[1], among=["a", "b"], propensity=True).propensity == 1.0


def test_a_policy_that_plays_what_it_may_not_is_stopped(last, monkeypatch):
    agent = Agent(arms=["a", "b"], features=SCHEMA, policy=Last())
    agent.teach(ROWS[0], "a", allowed=False)
    version = agent.version
    for wrong in (0, 2, -1, 1.0, None, "b"):
        monkeypatch.setattr(Last, "choose", lambda *_, wrong=wrong: wrong)
        with pytest.raises(NotPossible, match="not eligible"):
            agent.decide(ROWS[0])
    monkeypatch.undo()
    monkeypatch.setattr(Last, "propensities", lambda *_: np.array([0.5, 0.5]))
    with pytest.raises(NotPossible, match="propensities"):
        agent.decide(ROWS[0], propensity=True)
    assert agent.version == version


def test_what_others_lack_is_refused_in_words(examples):
    agent = lived(settings(examples, "all"))
    with pytest.raises(NotPossible, match="no sigma"):
        agent.set_sigma(0.5)
    with pytest.raises(NotPossible, match="reward model 'logistic'"):
        _ = agent._state.reward_arms
    base = {"arms": 2, "features": SCHEMA}
    for wrong, match in (
        ({"limits": "forest"}, "one of 'auto'.*'tree'"),
        ({"reward": "forest"}, "one of 'linear', 'shared', 'logistic'"),
        ({"limits": "tree", "limits_options": {"depht": 3}}, "limits_options.*depht"),
        ({"reward": "logistic", "reward_options": {"ridge": 3}}, "reward_options.*ridge"),
        ({"reward": "logistic", "reward_options": {"precision": [1]}}, "plain values"),
        ({"limits_options": {"depth": 3}}, "left out with limits='auto'"),
        ({"limits": "tree", "doubt": 0.1}, "doubt.*left out"),
    ):
        with pytest.raises(InvalidValue, match=match):
            Agent(**base, **wrong)


def test_choices_of_others_are_explained(examples):
    from bridle.explain.account import account_of

    agent = lived(settings(examples, "all"))
    made = agent.make.decided(ROWS[3], propensity=True)
    account = account_of(agent, made.event)
    assert sum(arm.play for arm in account.arms) == pytest.approx(1.0)
    assert agent.believed(ROWS[3]).p.shape == (4,)


# -- simulated -------------------------------------------------------------------------------


def tables():
    rng = np.random.default_rng(1)
    return simulate.Tables(ROWS, rng.random((8, 3)), np.arange(3) < 2 + np.zeros((8, 3)))


def test_a_simulation_is_what_an_agent_does(examples):
    world, policy = tables(), examples["TopFew"](few=2)
    eligible = np.ones((8, 3), bool)
    for reward in (None, "logistic"):
        more = {} if reward is None else {"reward": reward}
        model = None if reward is None else examples["LogisticReward"](arms=3, features=3)
        run = simulate.online(
            world, policy=policy, steps=60, seed=4, eligible=eligible, prior="centred", model=model
        )
        agent = Agent(arms=3, features=3, policy=policy, seed=4, prior="centred", **more)
        for k in range(3):
            for row in ROWS:
                for _ in range(4):
                    agent.teach(row, k, allowed=True)
        for row, arm in zip(run.rows, run.played, strict=True):
            made = agent.decide(ROWS[row])
            assert made.arm == arm
            agent.reward(made.id, float(world.rewards[row, arm]))


# -- the checks ------------------------------------------------------------------------------


def test_the_examples_pass_every_check(examples):
    for report, kind in (
        (check_policy(examples["TopFew"]()), "policy"),
        (check_limits(examples["TreeLimits"]), "limits"),
        (check_reward_model(examples["LogisticReward"]), "reward"),
    ):
        assert report.checks == tuple(check.name for check in checks_for(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_our_limits_pass_every_check(kind):
    def make(*, arms, features, groups, seed):
        schema = Schema([Flag(f"f{n}") for n in range(features)])
        return make_limits(kind, schema=schema, groups=groups, seed=seed)

    assert check_limits(make).ran == 9


def test_our_reward_model_passes_every_check():
    assert check_reward_model(LinearArms).ran == 8


def test_broken_ones_fail_their_check(examples):
    tree, logistic = examples["TreeLimits"], examples["LogisticReward"]

    class Forgets(tree):
        @classmethod
        def from_state(cls, state):
            return super().from_state({**state, "said": state["said"][:0]})

    class Shares(tree):
        def copy(self):
            return self

    class NeverForgets(tree):
        def refit(self, unit, contexts, allowed, keys=(), /):
            return np.array([unit])

    class CallsAllSafe(tree):
        def predict(self, unit, contexts):
            found = super().predict(unit, contexts)
            return type(found)(found.p, ~found.safe, found.safe, found.information, found.sd)

    for broken, name in (
        (Forgets, "restart_is_no_restart"),
        (Shares, "copies_learn_apart"),
        (NeverForgets, "refit_forgets_the_rest"),
        (CallsAllSafe, "fits_the_contract"),
    ):
        with pytest.raises(CheckFailed, match=f"limits.{name}"):
            check_limits(broken)

    class HandsOut(logistic):
        def to_state(self):
            return {**super().to_state(), "m": self._m}

    class Counts(logistic):
        def scores(self, context):
            self._m += 1e-9
            return super().scores(context)

    class Deaf(logistic):
        def update(self, arm, context, outcome):
            super().update(arm, context, 0.5)

    for broken, name in (
        (HandsOut, "state_is_a_copy"),
        (Counts, "scores_change_nothing"),
        (Deaf, "rewards_move_the_mean"),
    ):
        with pytest.raises(CheckFailed, match=f"reward.{name}"):
            check_reward_model(broken)


def test_what_a_policy_writes_into_its_scores_counts_for_nothing():
    @dataclass(frozen=True)
    class Greedy2:
        needs_limits: ClassVar[bool] = True

        def choose(self, scores, key):
            scores.eligible[:] = True
            scores.allowed[:] = True
            return 1

        def propensities(self, scores):
            scores.eligible[:] = True
            return np.array([0.0, 1.0, 0.0])

    registry.register("policy", "Greedy2", Greedy2, version="1")
    try:
        agent = Agent(arms=3, features=SCHEMA, policy=Greedy2(), exact_denials=True)
        agent.teach(ROWS[0], 0, True, item="Ann")
        agent.teach(ROWS[0], 1, False, item="Ann")
        for more in ({"propensity": True}, {"among": [0, 2]}, {}):
            with pytest.raises(NotPossible, match=r"not eligible|eligible arms"):
                agent.decide(ROWS[0], item="Ann", **more)
        assert agent.settings.policy == Greedy2()
    finally:
        registry.unregister("policy", "Greedy2")


def test_a_class_that_is_defined_again_is_known_by_its_place(tmp_path):
    def define():
        @dataclass(frozen=True)
        class Again:
            needs_limits: ClassVar[bool] = False

            def choose(self, scores, key):
                return int(np.argmax(scores.eligible))

            def propensities(self, scores):
                return np.eye(len(scores.eligible))[np.argmax(scores.eligible)]

        registry.register("policy", "Again", Again, version="1")
        return Again

    try:
        agent = Agent(arms=2, features=1, policy=define()())
        define()  # a cell of a notebook that is run again
        agent.decide([1.0])
        agent.save(tmp_path / "a.bridle")
        assert Agent.load(tmp_path / "a.bridle").decide([1.0]).arm == 0
    finally:
        registry.unregister("policy", "Again")


@pytest.mark.parametrize(
    "wrong",
    [
        {"p": np.nan},
        {"p": 1.5},
        {"information": -1.0},
        {"sd": np.inf},
        {"p": "high"},
    ],
    ids=str,
)
def test_limits_that_predict_what_cannot_be_are_stopped(examples, wrong):
    tree = examples["TreeLimits"]

    class Odd(tree):
        def predict(self, unit, contexts):
            made = super().predict(unit, contexts)
            name, value = next(iter(wrong.items()))
            shape = np.shape(made.p)
            kind = object if isinstance(value, str) else float
            return dataclasses.replace(made, **{name: np.full(shape, value, kind)})

    registry.register("limits", "odd", Odd, version="1")
    try:
        agent = Agent(arms=2, features=SCHEMA, limits="odd")
        before = agent.version
        with pytest.raises(NotPossible, match="check_limits"):
            agent.decide(ROWS[0])
        assert agent.version == before
    finally:
        registry.unregister("limits", "odd")


@pytest.mark.parametrize(
    "theirs", [{"limits": "tree"}, {"reward": "logistic"}, {"limits": "tree", "reward": "logistic"}]
)
def test_what_others_made_learns_arms_with_features_alone(theirs: dict[str, str]) -> None:
    films = Schema([Flag("horror")])
    arms = [bridle.Arm(f"f{i}", features={"horror": i % 2 == 0}) for i in range(4)]
    agent = Agent(
        arms=arms, features=Schema([Flag("child")]), arm_features=films, budget=9, seed=1, **theirs
    )
    for i in range(20):
        made = agent.decide({"child": i % 2 == 0}, item=f"v{i % 4}")
        while not isinstance(made, Decision | bridle.Abstention):
            then = agent.answer(made, allowed=made.arm != "f0").then
            assert then is not None
            made = then
        if isinstance(made, Decision):
            agent.reward(made.id, 0.5)
    for _ in range(9):
        agent.teach({"child": False}, "f1", allowed=True)
    agent.add_arms([bridle.Arm("new", features={"horror": False})])
    if "limits" in theirs:  # what was taught of f1, which looks the same, says nothing of it
        alike = agent.believed({"child": False})
        assert float(alike.p[-1]) != float(alike.p[1])
    if "reward" in theirs:
        assert agent._state.shared is None
