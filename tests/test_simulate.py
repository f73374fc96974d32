"""The compiled loop does what an Agent does, to the bit, and counts as the paper counts."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import (
    Abstention,
    Agent,
    BehaviorConstrained,
    EpsilonGreedy,
    Greedy,
    KnownMask,
    LinearArms,
    LinearLimits,
    LinUCB,
    Thompson,
    Uniform,
)
from bridle.errors import BridleError, InvalidValue, NotPossible
from bridle.policies import Scores
from bridle.simulate import Lesson, Tables, online, simulate, teach
from tests import reference
from tests.conftest import size
from tests.histories import PAPER

# (arms, features): many arms over few features, few arms, many features.
SHAPES = [(12, 5), (3, 4), (9, 20)]
POLICIES = [
    BehaviorConstrained(sigma=0.5),
    BehaviorConstrained(sigma=0.0, v_constraint=0.6),
    BehaviorConstrained(sigma=1.0),
    Thompson(v=0.1),
    LinUCB(alpha=0.5),
    EpsilonGreedy(epsilon=0.2),
    Greedy(),
    Uniform(),
]


def world(K: int, d: int, *, M: int = 25, seed: int = 0, binary: bool = False) -> Tables:
    rng = np.random.default_rng([K, d, M, seed])
    contexts = rng.standard_normal((M, d)) * (rng.random((M, d)) < 0.6)
    contexts = (contexts != 0.0).astype(float) if binary else contexts
    contexts[1] = contexts[0]  # one context can stand in two rows
    return Tables(contexts, rng.random((M, K)), rng.random((M, K)) < 0.6)


def same_bits(one: Any, two: Any) -> bool:
    states = one.to_state(), two.to_state()
    return all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])


class Lived:
    """Both phases through an Agent, one step at a time."""

    def __init__(self, tables: Any, shown: Any, played: Any, **settings: Any) -> None:
        self.agent: Any = Agent(**PAPER, arms=tables.arms, features=tables.features, **settings)
        self.asked: list[Any] = []
        self.played: list[Any] = []
        for row in shown:
            question = self.agent.ask(tables.contexts[row])
            self.agent.answer(question, tables.allowed[row, question.arm])
            self.asked.append(question.arm)
        for row in played:
            made = self.agent.decide(tables.contexts[row])
            if isinstance(made, Abstention):
                self.played.append(-1)
            else:
                self.agent.reward(made.id, tables.rewards[row, made.arm])
                self.played.append(made.arm)


# -- the loop is the agent -------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize(("K", "d"), SHAPES)
def test_the_loop_is_the_agent_step_by_step(policy, K, d):
    tables = world(K, d)
    shown, played = np.random.default_rng(K).integers(0, len(tables), (2, 150))
    for seed, (teaching, exact) in enumerate(product(("random", "thompson"), (True, False))):
        lesson = teach(tables, examples=150, rows=shown, teaching=teaching, seed=seed)
        eligible = ~lesson.denials(tables, 150) if exact else None
        run = online(
            tables,
            policy=policy,
            limits=lesson.limits[150],
            rows=played,
            eligible=eligible,
            seed=seed,
        )
        lived = Lived(
            tables, shown, played, policy=policy, teaching=teaching, exact_denials=exact, seed=seed
        )
        assert lesson.arms.tolist() == lived.asked
        assert run.played.tolist() == lived.played
        state = lived.agent._state
        assert same_bits(lesson.limits[150], state.limits_state.limits)
        assert same_bits(run.arms, state.reward_arms)
        whole = simulate(
            tables,
            policy=policy,
            examples=150,
            steps=150,
            teaching=teaching,
            teach_rows=shown,
            online_rows=played,
            exact_denials=exact,
            seed=seed,
        )
        assert whole.played.tolist() == lived.played and same_bits(whole.arms, run.arms)


@pytest.mark.parametrize(("K", "d", "binary"), [(2, 3, False), (8, 16, True), (2, 17, True)])
def test_the_loop_is_the_agent_over_a_refresh(K, d, binary):
    # More than 1,000 updates of an arm: the inverse is computed anew in between.
    tables = world(K, d, binary=binary)
    N, T = size(1_200 * K, 40), size(1_500 * K, 40)
    rng = np.random.default_rng(5)
    shown, played = rng.integers(0, len(tables), N), rng.integers(0, len(tables), T)
    lesson = teach(tables, examples=N, rows=shown, seed=9, ridge=0.5, label_coding="1/-1")
    policy = BehaviorConstrained(sigma=0.6, v=0.3)
    run = online(tables, policy=policy, limits=lesson.limits[N], rows=played, seed=9, ridge=2.0)
    lived = Lived(
        tables,
        shown,
        played,
        policy=policy,
        seed=9,
        ridge=2.0,
        ridge_limits=0.5,
        label_coding="1/-1",
        exact_denials=False,
    )
    assert lesson.arms.tolist() == lived.asked and run.played.tolist() == lived.played
    state = lived.agent._state
    assert same_bits(lesson.limits[N], state.limits_state.limits)
    assert same_bits(run.arms, state.reward_arms)


@pytest.mark.parametrize("policy", [*POLICIES, KnownMask(), KnownMask(reading="filter")], ids=repr)
@pytest.mark.parametrize(("K", "d"), SHAPES)
def test_the_loop_chooses_as_the_policy_does(policy, K, d):
    # `choose` with key n has the draws of decision n of seed 0. The masks have no other judge.
    tables = world(K, d, seed=1)
    lesson = teach(tables, examples=60, seed=2)
    limits, rows = lesson.limits[60], np.random.default_rng(3).integers(0, len(tables), 150)
    may = np.random.default_rng(4).random(tables.rewards.shape) < 0.8
    run = online(tables, policy=policy, limits=limits, rows=rows, eligible=may, seed=0)
    arms, played = LinearArms(arms=K, features=d), []
    for t, row in enumerate(rows):
        c = tables.contexts[row]
        scores = Scores(*arms.scores(c), *limits.scores(c), may[row], tables.allowed[row])
        played.append(policy.choose(scores, key=t + 1))
        if played[-1] >= 0:
            arms.update(played[-1], c, tables.rewards[row, played[-1]])
    assert run.played.tolist() == played and same_bits(run.arms, arms)


def test_rows_are_drawn_when_they_are_not_given():
    tables = world(4, 3)
    one, two, other = (
        online(tables, policy=Thompson(), steps=300, seed=seed) for seed in (1, 1, 2)
    )
    assert one.rows.tobytes() == two.rows.tobytes() and one.played.tobytes() == two.played.tobytes()
    assert one.rows.tobytes() != other.rows.tobytes()
    # 300 uniform draws out of 25 miss one of them with a probability of 25 · (24/25)^300 = 1e-4
    # for any seed; these are fixed.
    assert set(one.rows.tolist()) == set(range(25))
    again = online(tables, policy=Thompson(), rows=one.rows, seed=1)
    assert again.played.tobytes() == one.played.tobytes()
    fewer = online(tables, policy=Thompson(), rows=one.rows, steps=100, seed=1)
    assert fewer.played.tolist() == one.played[:100].tolist() and len(fewer.rows) == 100
    assert teach(tables, examples=50, seed=1).rows.tolist() != one.rows[:50].tolist()


# -- teaching --------------------------------------------------------------------------------


@pytest.mark.parametrize("teaching", ["random", "thompson"])
def test_teaching_with_fewer_examples_is_a_prefix(teaching):
    tables = world(9, 4)
    rows = np.random.default_rng(1).integers(0, len(tables), 400)
    sizes = np.array([250, 7, 0, 400, 7])
    lesson = teach(tables, examples=sizes, teaching=teaching, rows=rows, seed=3)
    assert sorted(lesson.limits) == [0, 7, 250, 400] and len(lesson.arms) == 400
    for N in lesson.limits:
        alone = teach(tables, examples=N, teaching=teaching, rows=rows, seed=3)
        assert alone.arms.tolist() == lesson.arms[:N].tolist()
        assert alone.rows.tolist() == lesson.rows[:N].tolist() == rows[:N].tolist()
        assert same_bits(alone.limits[N], lesson.limits[N])
        drawn = [teach(tables, examples=n, teaching=teaching, seed=3) for n in ([N, 400], N)]
        assert drawn[0].rows[:N].tolist() == drawn[1].rows.tolist()
        assert same_bits(drawn[0].limits[N], drawn[1].limits[N])


def test_no_teaching_is_a_lesson_too():
    lesson = teach(world(3, 2), examples=[])
    assert lesson.limits == {} and len(lesson.arms) == 0
    assert same_bits(teach(world(3, 2), examples=0).limits[0], LinearLimits(arms=3, features=2))


def test_denials_are_those_of_equal_contexts():
    contexts = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [0.0, 1.0 + 1e-15]])
    allowed = np.array([[0, 1], [0, 1], [1, 0], [0, 0]], bool)
    tables = Tables(contexts, np.ones((4, 2)), allowed)
    lesson = Lesson({}, np.array([0, 2, 2, 3]), np.array([0, 0, 1, 1]))
    expected = [
        [[0, 0], [0, 0], [0, 0], [0, 0]],
        [[1, 0], [1, 0], [0, 0], [0, 0]],
        [[1, 0], [1, 0], [0, 0], [0, 0]],
        [[1, 0], [1, 0], [0, 1], [0, 0]],
        [[1, 0], [1, 0], [0, 1], [0, 1]],
    ]
    assert [lesson.denials(tables, N).astype(int).tolist() for N in range(5)] == expected
    for wrong in (-1, 5, True, None):
        with pytest.raises(InvalidValue, match="examples"):
            lesson.denials(tables, wrong)


# -- what is counted -------------------------------------------------------------------------


def counted(tables: Tables, rows: Any, played: Any, t: int) -> tuple[float, float, int, int]:
    """R(t), Rc(t), E(t) and abstentions, as SPEC 1 says it."""
    R = Rc = 0.0
    E = abstentions = 0
    for row, arm in zip(rows[:t], played[:t], strict=True):
        rewards, allowed = tables.rewards[row], tables.allowed[row]
        earned = 0.0 if arm < 0 else rewards[arm]
        R += max(rewards) - earned
        inside = arm >= 0 and allowed[arm]
        Rc += max(rewards[allowed], default=0.0) - (earned if inside else 0.0)
        E += arm >= 0 and not allowed[arm]
        abstentions += arm < 0
    return R / t, Rc / t, E, abstentions


@given(st.integers(0, 2**32), st.integers(1, 60), st.lists(st.integers(0, 60), max_size=5))
def test_measures_are_those_of_a_plain_loop(seed, T, marks):
    rng = np.random.default_rng(seed)
    tables = Tables(rng.random((6, 2)), rng.random((6, 3)), rng.random((6, 3)) < 0.5)
    marks = [mark for mark in marks if mark <= T]
    policy = KnownMask() if seed % 2 else Uniform()
    may = rng.random((6, 3)) < 0.6
    run = online(tables, policy=policy, steps=T, eligible=may, checkpoints=marks, seed=seed)
    assert run.checkpoints.tolist() == sorted({*marks, T} - {0})
    for i, t in enumerate(run.checkpoints):
        R, Rc, E, abstentions = counted(tables, run.rows, run.played, t)
        assert run.R[i] == pytest.approx(R, abs=1e-12) and run.Rc[i] == pytest.approx(Rc, abs=1e-12)
        assert (run.E[i], run.abstentions[i]) == (E, abstentions)
    assert all(may[row, k] for row, k in zip(run.rows, run.played, strict=True) if k >= 0)
    counts = [run.arms.counts[k] for k in range(3)]
    assert counts == [(run.played == k).sum() for k in range(3)]  # an abstention teaches nothing


def test_a_mask_that_allows_nothing_abstains():
    tables = Tables(np.eye(2), np.ones((2, 2)), np.array([[0, 0], [1, 0]]))
    for reading in ("argmax", "filter"):
        run = online(
            tables, policy=KnownMask(reading=reading), rows=[0, 1, 0, 0], checkpoints=[1, 2]
        )
        assert run.played.tolist() == [-1, 0, -1, -1]
        assert run.abstentions.tolist() == [1, 1, 3] and run.E.tolist() == [0, 0, 0]
        assert run.R.tolist() == [1.0, 0.5, 0.75] and run.Rc.tolist() == [0.0, 0.0, 0.0]


def test_checkpoints_are_a_hundred_unless_given():
    tables = world(3, 2)
    assert online(tables, policy=Uniform(), steps=1000).checkpoints.tolist() == list(
        range(10, 1001, 10)
    )
    assert online(tables, policy=Uniform(), steps=7).checkpoints.tolist() == list(range(1, 8))
    run = online(tables, policy=Uniform(), steps=20, checkpoints=np.array([20, 3, 3, 0]))
    assert run.checkpoints.tolist() == [3, 20]
    for given_ in (None, [], [0]):
        none = online(tables, policy=Uniform(), steps=0, checkpoints=given_)
        assert len(none.R) == len(none.played) == 0 and repr(none) == "Run(no steps)"
    assert repr(run) == (
        f"Run(T=20, R={run.R[-1]:.3f}, Rc={run.Rc[-1]:.3f}, E={run.E[-1]}, abstentions=0)"
    )


def test_tables_know_their_best():
    tables = Tables([[1, 0]] * 3, [[0.2, 0.9], [0.5, 0.4], [0.3, 0.1]], [[1, 0], [0, 0], [1, 1]])
    assert (len(tables), tables.arms, tables.features) == (3, 2, 2)
    assert tables.best.tolist() == [0.9, 0.5, 0.3] and tables.best_allowed.tolist() == [
        0.2,
        0.0,
        0.3,
    ]
    assert tables.allowed.dtype == bool and tables.contexts.dtype == float


# -- the paper's pseudo-code -----------------------------------------------------------------

# A world in which it matters how one plays: with these sizes 20 % more v, .1 more sigma, the other
# reading of the mask or the other teaching stand out by 5 to 20 standard errors.
SMALL = Tables(
    [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
    [[0.9, 0.7, 0.1, 0.0], [0.1, 0.0, 0.9, 0.7], [0.8, 0.9, 0.1, 0.1]],
    [[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 0, 1]],
)
STEPS, EXAMPLES, SEEDS, MORE = 50, 12, size(300, 3), size(1_500, 6)


def by_reference(policy: Any, teaching: str, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng([seed, 17])
    tables = reference.World(SMALL.contexts, SMALL.rewards, SMALL.allowed)
    shown, rows = rng.integers(0, len(SMALL), EXAMPLES), rng.integers(0, len(SMALL), STEPS)
    if isinstance(policy, BehaviorConstrained):
        limits = reference.teach(tables, shown, how=teaching, v=0.25, rng=rng).limits
        run = reference.bcts(tables, rows, limits, sigma=policy.sigma, v=policy.v, rng=rng)
    elif isinstance(policy, KnownMask):
        run = reference.mask(tables, rows, v=policy.v, rng=rng, reading=policy.reading)
    else:
        run = reference.cts(tables, rows, v=policy.v, rng=rng)
    return run.R, run.E


@pytest.mark.parametrize(
    ("policy", "teaching"),
    [
        (Thompson(v=0.5), "random"),
        (KnownMask(v=0.5), "random"),
        (KnownMask(reading="filter", v=0.5), "random"),
        (BehaviorConstrained(sigma=0.4, v=0.5), "random"),
        (BehaviorConstrained(sigma=0.4, v=0.5), "thompson"),
    ],
    ids=repr,
)
def test_regret_and_violations_are_those_of_the_pseudo_code(policy, teaching):
    # Two samples of runs with other draws: by the central limit theorem their means differ by more
    # than 5.4 standard errors once in 1.5e7, and once in 1.5e6 in any of the ten comparisons here.
    theirs = np.array([by_reference(policy, teaching, seed) for seed in range(SEEDS)])
    ours = np.empty((MORE, 2))
    for seed in range(MORE):
        run = simulate(
            SMALL,
            policy=policy,
            examples=EXAMPLES,
            steps=STEPS,
            teaching=teaching,
            seed=seed,
            checkpoints=[],
        )
        ours[seed] = run.R[-1], run.E[-1]
    for measure in (0, 1):
        mine, its = ours[:, measure], theirs[:, measure]
        error = math.sqrt(mine.var() / len(mine) + its.var() / len(its))
        assert abs(mine.mean() - its.mean()) <= 5.4 * error
    if isinstance(policy, KnownMask):
        assert not ours[:, 1].any() and not theirs[:, 1].any()


# -- what is refused -------------------------------------------------------------------------

JUNK: list[Any] = [
    None,
    "abc",
    5,
    -1,
    1.5,
    True,
    math.nan,
    10**400,
    [],
    [[]],
    [[1.0]],
    [[1, 2], [3]],
    {},
    [None],
    np.zeros((2, 2, 2)),
    np.full((3, 2), np.nan),
    [["a"]],
    object(),
    [[1j]],
    np.zeros(3),
    2**70,
]
GOOD_TABLES: dict[str, Any] = {
    "contexts": np.eye(3)[:, :2],
    "rewards": np.ones((3, 4)),
    "allowed": np.ones((3, 4), bool),
}


@pytest.mark.parametrize("name", GOOD_TABLES)
def test_bad_tables_are_refused(name):
    wrong: list[Any] = [*JUNK, np.zeros((2, 2)), np.full((3, 4), 2.0), np.full((3, 4), -0.1)]
    if name == "contexts":
        wrong = [*JUNK, np.zeros((2, 2)), np.zeros((3, 0)), np.full((3, 2), 1e7)]
    for value in wrong:
        with pytest.raises(InvalidValue, match="parameter of Tables"):
            Tables(**{**GOOD_TABLES, name: value})


LIMITS = LinearLimits(arms=4, features=2)
ROWS = [0, 1, 2]
CALLS: dict[str, tuple[Any, dict[str, Any]]] = {
    "teach": (
        teach,
        {
            "examples": 3,
            "teaching": "random",
            "rows": ROWS,
            "seed": 1,
            "v": 0.1,
            "ridge": 1.0,
            "label_coding": "1/0",
        },
    ),
    "online": (
        online,
        {
            "policy": BehaviorConstrained(),
            "limits": LIMITS,
            "steps": 3,
            "rows": ROWS,
            "seed": 1,
            "eligible": np.ones((3, 4)),
            "checkpoints": [1],
            "ridge": 1.0,
        },
    ),
    "simulate": (
        simulate,
        {
            "policy": Thompson(),
            "examples": 3,
            "steps": 3,
            "teaching": "thompson",
            "seed": 1,
            "teach_rows": ROWS,
            "online_rows": ROWS,
            "exact_denials": True,
            "checkpoints": [1],
            "v_teaching": 0.1,
            "ridge": 1.0,
            "ridge_limits": 1.0,
            "label_coding": "1/0",
        },
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_bad_arguments_are_refused(name):
    function, good = CALLS[name]
    tables, refused = Tables(**GOOD_TABLES), 0
    function(tables, **good)
    for key in good:
        for value in JUNK:
            try:
                function(tables, **{**good, key: value})
            except BridleError:
                refused += 1
    assert refused > 12 * len(good)
    for wrong in (None, GOOD_TABLES, tables.contexts):
        with pytest.raises(InvalidValue, match="Tables"):
            function(wrong, **good)
    for key in {"examples", "steps", "seed"} & set(good):
        with pytest.raises(InvalidValue, match=f"'{key}'"):
            function(tables, **{**good, key: 2**70})


def test_what_does_not_fit_together_is_refused():
    tables = Tables(**GOOD_TABLES)
    with pytest.raises(NotPossible, match="weighs what was taught"):
        online(tables, policy=BehaviorConstrained(), steps=3)
    with pytest.raises(InvalidValue, match="4 arms and 2 features"):
        online(
            tables, policy=BehaviorConstrained(), limits=LinearLimits(arms=4, features=3), steps=3
        )
    with pytest.raises(InvalidValue, match="given, unless rows are"):
        online(tables, policy=Thompson())
    with pytest.raises(InvalidValue, match="at least 5 of them"):
        teach(tables, examples=5, rows=[0, 1])
    with pytest.raises(InvalidValue, match="at least 5 of them"):
        online(tables, policy=Thompson(), steps=5, rows=[0, 1])
    with pytest.raises(InvalidValue, match=r"range \[0, 2\]"):
        online(tables, policy=Thompson(), rows=[0, 3])
    with pytest.raises(InvalidValue, match="checkpoints"):
        online(tables, policy=Thompson(), steps=5, checkpoints=[6])
    # What is taught is not needed by a policy that gives it no weight.
    assert online(tables, policy=BehaviorConstrained(sigma=1.0), steps=3).checkpoints.tolist() == [
        1,
        2,
        3,
    ]
