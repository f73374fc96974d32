"""One probability, wherever it is told: beliefs, pictures, what-if, sentences, plays, scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bridle import Agent, Arm, Decision, Flag, LearnedMask, Number, Rule, When
from bridle.agent.queries import believed_of
from bridle.certificates.certificate import scores_of
from bridle.kernels import doubt
from bridle.schema import Id
from bridle.server.handlers.explanations import shown_of
from bridle.web.limits import cells_of, columns_of, row_of, units_of

KINDS = ("auto", "rules", "logistic", "found", "linear")
ARMS = [Arm("a", group="g"), Arm("b", group="g"), Arm("c")]
WORDS = ("drama", "horror", "late")
ITEMS = (None, None, "Alien", "Up", 7)
# More than rounding, less than anything that matters.
CLOSE = 1e-9


class Lesson(NamedTuple):
    """What a teacher says, and whether it names the item."""

    held: int
    age: int
    arm: str
    allowed: bool
    item: Any


lessons = st.lists(
    st.builds(
        Lesson,
        held=st.integers(0, 7),
        age=st.sampled_from([0, 10, 30, 50, 80, 100]),
        arm=st.sampled_from("abc"),
        allowed=st.booleans(),
        item=st.sampled_from(ITEMS),
    ),
    max_size=14,
)
rules = st.sampled_from(
    [
        (),
        (Rule("r", when=[When("horror", equals=True)], groups=["g"]),),
        (Rule("r", when=[When("late", equals=True)], arms=["a"]),),
    ]
)


def agent_of(kind: str, numbers: bool, given: Any, taught: list[Lesson]) -> Agent:
    features: list[Any] = [Id("title"), *(Flag(word) for word in WORDS)]
    if numbers:
        features.append(Number("age", low=0, high=100))
    agent = Agent(
        arms=ARMS, features=features, limits=kind, policy=LearnedMask(v=1.0), rules=given, seed=3
    )
    for one in taught:
        agent.teach(context_of(agent, one.held, one.age), one.arm, one.allowed, item=one.item)
    return agent


def context_of(agent: Agent, held: int, age: int) -> dict[str, Any]:
    context: dict[str, Any] = {word: bool(held >> n & 1) for n, word in enumerate(WORDS)}
    return context | ({"age": age} if "age" in agent.schema.columns else {})


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(st.booleans(), rules, lessons, st.integers(0, 7), st.sampled_from(ITEMS))
def test_one_probability_is_told_everywhere(kind, numbers, given, taught, held, item):
    agent = agent_of(kind, numbers, given, taught)
    state = agent._state
    context = context_of(agent, held, 30)
    row = agent.schema.encode(context)
    believed = agent.believed(context, item)
    named = agent.believed(context | ({} if item is None else {"title": item}))
    assert named.p.tolist() == believed.p.tolist()

    # What the limits say, where nothing certain is said; and the score of a certificate.
    said = state.said(row, state.offered(row, None, item), item)
    limits: Any = agent.limits
    own = np.array([limits.predict(int(u), row[None]).p[0] for u in limits.unit_of])
    unasked = said == doubt.UNASKED
    told = own
    if state.limits_state.rates is not None:  # less the exceptions to what the limits call safe
        look = state.limits_state.rates.lower(limits.predict_all(row[None]))
        told = look.p[limits.unit_of, 0]
        assert (told <= own).all() and (told[~look.safe[limits.unit_of, 0]] < 1.0).all()
    assert believed.p[unasked] == pytest.approx(told[unasked], abs=CLOSE)
    assert (believed.p[said == doubt.SAID_NO] == 0.0).all()
    assert (believed.p[said == doubt.SAID_YES] == 1.0).all()
    if kind != "linear":  # whose score is another function of the same mean
        assert scores_of(limits, row[None])[0] == pytest.approx(own, abs=CLOSE)

    # What-if has the same rows.
    for k, shown in enumerate(shown_of(believed).arms):
        assert (shown.p, shown.playable) == (believed.p[k], believed.playable[k])

    # One bar.
    if kind == "auto":
        bar = believed.p >= 1.0 - limits.doubt
        near = np.abs(believed.p - (1.0 - limits.doubt)) < CLOSE
        assert (believed.safe == bar)[~near].all()

    # What may be played is in the running, and nothing else.
    made = agent.make.decided(context, item=item, propensity=True, ask=False)
    assert made.odds is not None
    assert (made.odds.play > 0.0).tolist() == believed.playable.tolist()
    assert isinstance(made, Decision) == believed.playable.any()
    many = agent.make.decided_many([context], items=[item], propensity=True)
    assert (many.chosen[0] is not None) == believed.playable.any()
    if many.chosen[0] is not None:
        assert believed.playable[agent._state.arm_number(many.chosen[0])]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(st.booleans(), rules, lessons)
def test_a_cell_of_the_picture_is_what_is_believed_there(kind, numbers, given, taught):
    agent = agent_of(kind, numbers, given, taught)
    state, schema = agent._state, agent.schema
    units = units_of(state)
    for column in columns_of(schema):
        row = row_of(schema, column)
        believed = believed_of(state, row)
        for unit, cell in zip(units, cells_of(state, units, [row])[0], strict=True):
            arms = np.flatnonzero(state.limits_state.unit_of == unit.number)
            told = set(believed.p[arms].tolist())
            if cell.rule == "some":  # a rule for some of its arms
                assert cell.p in told or told == {0.0}
                continue
            assert told == {cell.p}
            assert (cell.mark == "yes") == believed.safe[arms[0]]
            assert (cell.mark == "no") == (not believed.possible[arms[0]])


@pytest.mark.parametrize("kind", ["auto", "rules"])
@settings(max_examples=60)
@given(st.booleans(), rules, lessons)
def test_sentences_say_what_is_believed(kind, numbers, given, taught):
    agent = agent_of(kind, numbers, given, taught)
    state, schema = agent._state, agent.schema
    assume(kind == "auto" or not given)
    lines = agent.describe()
    for unit, line in zip(units_of(state), lines, strict=True):
        arm = int(np.flatnonzero(state.limits_state.unit_of == unit.number)[0])
        denied = [part.strip() for part in line.partition(":")[2].split(";")[0].split(",")]
        for column in columns_of(schema):
            if column.feature == "age":
                continue
            believed = believed_of(state, row_of(schema, column))
            if kind == "auto" and not believed.safe[arm]:
                assert "all is allowed" not in line
            if believed.safe[arm]:
                assert f"not {column.feature}" not in denied


def test_exceptions_are_named():
    agent = agent_of("auto", False, (), [])
    for _ in range(30):
        agent.teach(context_of(agent, 1, 0), "c", True)
        agent.teach(context_of(agent, 2, 0), "c", False)
        agent.teach(context_of(agent, 4, 0), "c", True)
    agent.teach(context_of(agent, 2, 0), "c", True, item="Alien")
    line = agent.describe()[1]
    assert line.startswith("c: not horror") and line.endswith("; exceptions: Alien allowed")
    for n in range(4):
        agent.teach(context_of(agent, 2, 0), "c", True, item=n)
    assert agent.describe()[1].endswith(
        "exceptions: Alien allowed, 0 allowed, 1 allowed and 2 more"
    )


def test_a_bound_is_said_in_the_numbers_own_unit():
    agent = Agent(arms=["x"], features=[Number("age", low=0, high=100), Flag("late")], seed=1)
    rng = np.random.default_rng(5)
    for _ in range(80):
        age = float(rng.integers(0, 100))
        agent.teach({"age": age, "late": bool(rng.random() < 0.5)}, "x", age >= 16)
    [line] = agent.describe()
    assert line.startswith("x: not age under about 1") and ", unsure from 1" in line
    assert "late" not in line
