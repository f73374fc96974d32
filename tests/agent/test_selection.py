"""What an agent chooses: against the simulator in bits, and odds against frequencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from bridle import (
    Abstention,
    Agent,
    Arm,
    BehaviorConstrained,
    Category,
    Decision,
    Flag,
    Labels,
    LearnedMask,
    Number,
    Question,
    Rule,
    Tables,
    Thompson,
    When,
    register,
    registry,
)
from bridle.agent.events import Event
from bridle.limits import make_limits
from bridle.policies import Scores
from bridle.simulate import Asking, online_asking
from bridle_studies.environments import synthetic_movies
from tests.conftest import check_counts, size
from tests.histories import bits

KINDS = ["auto", "rules", "logistic", "found", "linear"]
MASKED = ["auto", "rules", "logistic", "found"]


# -- against the simulator -------------------------------------------------------------------


def movies() -> tuple[Tables, list[Arm], Any]:
    """Contexts of 0 and 1; several movies have equal contexts."""
    made = synthetic_movies(seed=1, people=9, movies=40)
    return made.tables, list(made.arms), made.tables.features


def patients() -> tuple[Tables, list[Arm], Any]:
    """Words and numbers, one with a range and one without. The limits cut the numbers."""
    rng = np.random.default_rng(4)
    schema = [Number("age", 0, 1), Number("score"), Flag("pregnant"), Category("sex", ["f", "m"])]
    sex = rng.integers(0, 2, 30)
    contexts = np.column_stack(
        [rng.random(30).round(1), rng.normal(size=30).round(1), rng.random(30) < 0.3, sex, 1 - sex]
    )
    old, ill = contexts[:, :1] > 0.6, contexts[:, 1:2] > 0.5
    allowed = np.hstack([~old, ~old, ~ill, ~(old | ill), contexts[:, 2:3] == 0.0, old | ~old])
    arms = [Arm(k, group="xxy z"[k].strip() or None) for k in range(5)] + [Arm(5, group="y")]
    return Tables(contexts, rng.random((30, 6)), allowed), arms, schema


WORLDS = {"movies": movies, "patients": patients}


def context_of(agent: Agent, row: Any) -> Any:
    return row if agent.schema.columns[0] == "x0" else agent.schema.decode(row)


def live(
    agent: Agent, tables: Tables, run: Asking, named: bool = True, change: Any = None
) -> tuple[list[int], list[tuple[int, int]], list[tuple[int, bool]]]:
    """Put an agent through the steps of a run, with the answers that were given there."""
    turn, changed = (len(run.rows), tables.allowed) if change is None else change
    later = (tables.allowed, changed)
    checked: list[tuple[int, bool]] = []
    number = {arm.id: k for k, arm in enumerate(agent.arms)}
    said, judged = iter(run.said.tolist()), iter(run.judged.tolist())
    played: list[int] = []
    asked: list[tuple[int, int]] = []
    for step, row in enumerate(run.rows.tolist()):
        context = context_of(agent, tables.contexts[row])
        item = row if named else None
        made = agent.decide(context, item=item, propensity=step % 10 == 0)
        while isinstance(made, Question):
            asked.append((step, number[made.arm]))
            then = agent.answer(made, next(said)).then
            assert then is not None
            made = then
        played.append(-1)
        if isinstance(made, Decision):
            k = number[made.arm]
            played[-1] = k
            agent.reward(made.id, tables.rewards[row, k])
            if made.check is not None:
                checked.append((step, not later[step >= turn][row, k]))
                agent.judge(made.check, next(judged))
    return played, asked, checked


def check_equal(
    kind: str,
    options: dict[str, Any],
    steps: int,
    *,
    forgiving: int = -1,
    where: str = "movies",
    identity: bool = True,
    promise: tuple[float, float] | None = None,
    change: Any = None,
) -> Asking:
    """An agent and a run of the simulator with equal settings are equal in bits."""
    tables, arms, features = WORLDS[where]()
    if forgiving >= 0:  # an arm that always may be played
        allowed = tables.allowed.copy()
        same = arms[forgiving].group
        allowed[:, [a.group == same if same else k == forgiving for k, a in enumerate(arms)]] = True
        tables = Tables(tables.contexts, tables.rewards, allowed)
    error = options.get("teacher_error", 0.001)
    policy = options.get("policy")
    empty = options.get("on_empty", "abstain")
    given = {"budget": 10**6, "seed": 3, "limits": kind, **options}
    if kind == "linear" and policy is None:
        given["policy"] = LearnedMask()
    if empty == "safe_arm":
        given["safe_arm"] = arms[forgiving].id
    agent = Agent(arms=arms, features=features, **given)
    if promise is not None:
        agent.promise(*promise, seed=3)
    run = online_asking(
        tables,
        beliefs=make_limits(
            kind, schema=agent.schema, groups=[arm.group for arm in arms], error=error, seed=3
        ),
        policy=BehaviorConstrained(sigma=policy.sigma, v=policy.v)
        if isinstance(policy, LearnedMask)
        else policy,
        budget=options.get("budget", 10**6),
        most=options.get("ask_at_most", 3),
        prior=options.get("prior", "scaled"),
        forget=options.get("forget"),
        on_empty=empty,
        safe_arm=forgiving if empty == "safe_arm" else None,
        flips=0.1 if error == 0.1 else 0.0,
        remember=error < 0.02,
        identity=identity,
        answer_price=options.get("answer_price", 0.35),
        checks=agent.settings.checks != 0,
        promise=promise,
        later=change,
        steps=steps,
        seed=3,
    )
    played, asked, checked = live(agent, tables, run, identity, change)
    assert played == run.played.tolist()
    assert checked == list(zip(run.checked_at.tolist(), run.found.tolist(), strict=True))
    wrong = int(np.count_nonzero(run.judged == run.found))
    assert wrong == 0 or error == 0.1  # who errs does so in checks, too
    assert asked == list(zip(run.asked_at.tolist(), run.asked_arms.tolist(), strict=True))
    state = agent._state
    assert state.reward_arms.means.tobytes() == run.arms.means.tobytes()
    assert state.reward_arms.covariances.tobytes() == run.arms.covariances.tobytes()
    mine, theirs = state.limits_state.limits.to_state(), run.beliefs.to_state()
    assert mine.keys() == theirs.keys()
    for name, array in mine.items():
        assert array.tobytes() == theirs[name].tobytes(), name
    return run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("identity", [True, False], ids=["items", "no items"])
def test_an_agent_is_the_simulator_bit_for_bit(kind, identity):
    run = check_equal(kind, {}, size(120, 2), identity=identity)
    # Linear limits are sure of a case once it was asked about, so they never fall silent.
    assert len(run.said) > size(5, 0)  # it did ask


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("identity", [True, False], ids=["items", "no items"])
def test_also_with_a_promise_and_limits_that_change(kind, identity):
    """Audits, freezes and fresh starts: as in the simulator, step for step."""
    tables, _, _ = movies()
    steps = size(160, 4)
    change = steps // 2, ~tables.allowed
    run = check_equal(kind, {}, steps, identity=identity, promise=(0.05, 0.2), change=change)
    assert len(run.checked_at) > size(0, -1)
    if identity and kind != "linear":
        assert len(run.anew) > size(0, -1)


@dataclass(frozen=True)
class Theirs:
    """Any of the arms that may be played, by the bits of the decision."""

    shift: int = 0
    needs_limits: ClassVar[bool] = True

    def propensities(self, scores: Scores) -> Any:
        may = np.asarray(scores.eligible)
        return may / max(int(may.sum()), 1)

    def choose(self, scores: Scores, key: int) -> int:
        may = np.flatnonzero(scores.eligible)
        return int(may[(key + self.shift) % len(may)]) if len(may) else -1


@pytest.mark.parametrize("kind", ["auto", "rules", "logistic"])
def test_also_with_a_policy_of_others(kind, monkeypatch):
    monkeypatch.setattr(registry, "_known", {})
    register("policy", "Theirs", Theirs, version="1")
    tables, _, _ = movies()
    steps = size(120, 4)
    run = check_equal(kind, {"policy": Theirs(shift=1)}, steps)
    assert len(run.said) > size(5, 0)
    change = steps // 2, ~tables.allowed
    check_equal(kind, {"policy": Theirs()}, steps, promise=(0.05, 0.2), change=change)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("identity", [True, False], ids=["items", "no items"])
def test_also_with_a_teacher_who_errs(kind, identity):
    check_equal(kind, {"teacher_error": 0.1}, size(80, 2), identity=identity)


@pytest.mark.parametrize("kind", ["auto", "rules", "logistic"])
@pytest.mark.parametrize("identity", [True, False], ids=["items", "no items"])
def test_also_with_numbers(kind, identity):
    run = check_equal(kind, {}, size(120, 2), where="patients", identity=identity)
    assert len(run.said) > size(5, 0)


OPTIONS: dict[str, dict[str, Any]] = {
    "small budget": {"budget": 7},
    "one question a decision": {"ask_at_most": 1},
    "least bad": {"on_empty": "least_bad", "budget": 5},
    "least bad, asked out": {"on_empty": "least_bad", "ask_at_most": 1},
    "paper": {"prior": "paper"},
    "centred": {"prior": "centred"},
    "never forgets": {"forget": "never"},
    "forgets soon": {"forget": 20.0},
    "blend": {"policy": LearnedMask(sigma=0.5)},
    "only limits": {"policy": LearnedMask(sigma=0.0, v=0.2), "budget": 20},
    "free answers": {"answer_price": 0.0},
    "dear answers": {"answer_price": 2.0},
}


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_also_with_other_settings(kind, options):
    check_equal(kind, options, size(60, 2))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_also_with_other_settings_and_no_items(options):
    check_equal("auto", options, size(60, 2), identity=False)


@pytest.mark.parametrize("kind", KINDS)
def test_also_with_an_arm_that_is_always_allowed(kind):
    run = check_equal(kind, {"on_empty": "safe_arm", "budget": 4}, size(60, 2), forgiving=2)
    assert run.abstentions[-1] == 0


def test_the_paper_s_spread_goes_with_the_paper_s_prior():
    agent = Agent(arms=2, features=2, prior="paper")
    assert agent.policy == LearnedMask(v=0.25)
    assert Thompson().weights.v == 0.25 and Agent(arms=2, features=2).policy == LearnedMask(v=1.0)


# -- odds ------------------------------------------------------------------------------------

FEATURES = [Labels("genres", ["Action", "Crime", "Drama", "Horror"])]
ARMS = [Arm("a", group="young"), Arm("b", group="young"), Arm("c", group="old"), Arm("d"), Arm("e")]
DRAMA = {"genres": ["Drama"]}
BOTH = {"genres": ["Drama", "Horror"]}


def taught(**options: Any) -> Agent:
    """An agent that knows a little: young may see drama, old too, of the rest it knows nothing."""
    given = {"arms": ARMS, "features": FEATURES, "seed": 5, "prior": "centred"}
    agent = Agent(**(given | options))
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
    """The odds are what happens over many ids, given that nothing is asked, nothing folded.

    Wrong once in a million. Questions are judged by draws of their own: that none came up says
    nothing about the draws of the play.
    """
    ids = tuple(arm.id for arm in agent.arms)
    first = agent.make.decided(context, id="0", propensity=True, **(options | {"ask": False}))
    odds = law(first)
    counts = np.zeros(len(odds))
    for i in range(n):
        made = agent.make.decided(context, id=str(i), propensity=i < 20, **options)
        if isinstance(made, Question):
            assert made.odds is None and made.propensity is None
            continue
        counts[outcome(made, ids)] += 1
        if i < 20:
            assert law(made).tobytes() == odds.tobytes()
            assert made.event.propensity == odds[outcome(made, ids)]
    if counts.sum() >= 100:
        check_counts(counts, odds)
    assert not odds[len(ids) : 2 * len(ids)].any()
    return odds, counts


MODES: dict[str, dict[str, Any]] = {
    "waits": {"budget": 9},
    "waits, wide": {"budget": 9, "policy": LearnedMask(v=1.0), "answer_price": 2.0},
    "waits, blend": {"budget": 9, "policy": LearnedMask(sigma=0.4, v=0.5), "answer_price": 0.6},
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
    _, counts = check_odds(agent, DRAMA)
    if "budget" not in options or options.get("on_doubt") == "play_safe":
        assert counts.sum() == size(4000, 200)


def test_odds_are_those_given_that_nothing_is_asked():
    """Some decisions ask and some do not, several arms are safe, and the odds hold all the same."""
    agent = taught(limits="rules", **MODES["waits, wide"])
    agent.teach(DRAMA, "d", True)
    agent.teach(DRAMA, "d", True)
    odds, counts = check_odds(agent, DRAMA)
    assert np.count_nonzero(odds[:5] > 0.05) >= 2
    assert size(400, 20) < counts.sum() < size(3600, 180)


@pytest.mark.parametrize("mode", ["waits, wide", "plays safe"])
@pytest.mark.parametrize("kind", MASKED)
def test_odds_are_exact_among_some_arms(kind, mode):
    agent = taught(limits=kind, **MODES[mode])
    odds, _ = check_odds(agent, DRAMA, among=["b", "c", "e"])
    assert odds[[0, 3]].tolist() == [0.0] * 2
    law(agent.make.decided(BOTH, among=["c", "d"], propensity=True, ask=False))


def test_odds_of_answers_to_the_letter():
    """What was allowed of this item runs as safe, what was denied here is gone."""
    agent = taught(limits="auto", **MODES["waits, wide"])
    agent.teach(BOTH, "d", True, item="film")
    agent.teach(BOTH, "e", False)
    odds, _ = check_odds(agent, BOTH, item="film")
    assert odds[3] == 1.0  # nothing else is safe
    other, _ = check_odds(agent, BOTH, item="another film")
    assert other[10] == 1.0


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
    odds, _ = check_odds(agent, {"genres": ["Horror"]}, n=size(2000, 200), ask=ask)
    assert odds[{"abstain": 10, "least_bad": 0, "safe_arm": 3}[empty]] == 1.0


@pytest.mark.parametrize("options", [{}, {"sigma": 0.3}, {"sigma": 0.9, "prior": "paper"}])
@pytest.mark.parametrize("kind", KINDS)
def test_odds_of_the_dial(kind, options):
    given = options if options else {"policy": BehaviorConstrained(v=0.5)}
    agent = taught(limits=kind, **given)
    odds, counts = check_odds(agent, DRAMA)
    assert not odds[5:].any() and counts.sum() == size(4000, 200)


def test_odds_where_all_is_denied():
    agent = taught(limits="rules", budget=9, rules=[Rule("closed")])
    made = agent.make.decided(DRAMA, propensity=True)
    assert isinstance(made, Abstention) and law(made)[-1] == 1.0 and made.event.propensity == 1.0
    none = taught(limits="linear").make.decided(DRAMA, among=[], propensity=True)
    assert isinstance(none, Abstention) and law(none)[-1] == 1.0


def asking_agent() -> Agent:
    """Two safe arms that differ in spread, one that is not known and looks as good as they."""
    agent = Agent(
        arms=["steady", "wild", "new"],
        features=[Flag("x")],
        limits="rules",
        budget=10**6,
        seed=8,
        policy=LearnedMask(v=1.0),
        prior="centred",
        answer_price=0.05,
    )
    for arm in ("steady", "steady", "wild", "wild"):
        agent.teach({"x": True}, arm, True)
    agent.learn([{"x": True}] * 200, ["steady"] * 200, [0.5] * 200)
    return agent


@pytest.mark.parametrize("answer", [True, False, None], ids=["allowed", "denied", "skipped"])
def test_odds_after_a_question_are_exact(answer):
    """Given that it asked, the draws of the play are any draws: questions have others.

    An answer taken back leaves the same beliefs for the next.
    """
    agent = asking_agent()
    ids = tuple(arm.id for arm in agent.arms)
    counts, odds = np.zeros(7), None
    for i in range(size(1500, 100)):
        made = agent.decide({"x": True}, id=str(i))
        if not isinstance(made, Question):
            agent.expire(str(i))
            continue
        told = agent.skip(made) if answer is None else agent.answer(made, answer)
        then = told.then
        if isinstance(then, Question):  # it asks again: about what, its own draws say
            then = agent.skip(then).then
        assert then is not None
        if odds is None:
            odds = law(then)
        assert law(then).tobytes() == odds.tobytes()
        counts[outcome(then, ids)] += 1
        if told.example is not None:
            agent.retract(told.example)
    assert counts.sum() > size(500, 20)
    check_counts(counts, odds)


# -- playing safe ----------------------------------------------------------------------------


HORROR = {"genres": ["Horror"]}


def doubting(**options: Any) -> Agent:
    given = {"arms": ARMS, "features": FEATURES, "limits": "rules", "budget": 100, "seed": 2}
    return Agent(**(given | {"on_doubt": "play_safe"} | options))


def decided(made: object) -> Decision:
    assert isinstance(made, Decision)
    return made


def safe_agent(**options: Any) -> Agent:
    """An agent to whom d looks best, and of whom c is known to be allowed."""
    agent = doubting(**options)
    for _ in range(2):
        agent.teach(DRAMA, "c", True)
    agent.learn([DRAMA] * 4, ["c"] * 2 + ["d"] * 2, [0.1, 0.1, 0.9, 0.9])
    return agent


def test_decision_and_question_are_one_commit():
    commits: list[Sequence[Event]] = []
    agent = safe_agent(sink=lambda events: commits.append(list(events)))
    made = decided(agent.decide(DRAMA, among=["c", "d"], propensity=True))
    assert made.arm == "c" and made.propensity == pytest.approx(1.0, abs=1e-9)
    assert made.question is not None
    filed = made.question
    assert filed.arm == "d" and filed.decision == made.id and filed.version == made.version
    assert filed.propensity is None and filed.context == made.context
    assert commits[-1] == [made.event, filed.event] and agent.version == made.version + 2
    assert agent.waiting == () and agent.pending == 1 and agent.budget_left == 99
    answer = agent.answer(filed, True)
    assert answer.then is None and agent.budget_left == 99
    again = decided(agent.decide(DRAMA, among=["c", "d"]))
    assert again.arm == "d" and again.question is None


def test_a_sink_that_fails_leaves_all_as_it_was():
    agent = safe_agent()

    def failing(events: Sequence[Event]) -> None:
        raise OSError("full")

    before = bits(agent)
    agent.sink = failing
    for verb in (
        lambda: agent.decide(DRAMA),
        lambda: agent.ask(DRAMA),
        lambda: agent.regroup({"a": "x"}),
        lambda: agent.decide(HORROR),
    ):
        with pytest.raises(OSError, match="full"):
            verb()
    assert bits(agent) == before


def test_an_open_question_is_not_asked_again():
    agent = safe_agent(arms=[*ARMS[:4], Arm("e", group="young")])
    made = decided(agent.decide(DRAMA, among=["c", "a"]))
    if made.question is None:  # the draws fell otherwise: let reward settle it
        agent.learn([DRAMA] * 9, ["a"] * 9, [1.0] * 9)
        made = decided(agent.decide(DRAMA, among=["c", "a"]))
    assert made.question is not None and made.question.arm == "a"
    agent.learn([DRAMA] * 18, ["b"] * 9 + ["e"] * 9, [1.0] * 18)
    # Another arm of the same unit in the same context is the same question.
    for among in (["c", "a"], ["c", "b"], ["c", "e"]):
        assert decided(agent.decide(DRAMA, among=among)).question is None
    other = agent.decide(HORROR, among=["a"])
    assert isinstance(other, Abstention) and other.question is not None  # another context is not
    assert decided(agent.decide(DRAMA, among=["c", "d"])).question is not None  # nor another unit
    agent.skip(made.question)
    assert decided(agent.decide(DRAMA, among=["c", "b"])).question is not None


def test_a_question_of_a_teaching_phase_does_not_stand_in_the_way():
    agent = safe_agent(teaching="arm")
    agent.ask(DRAMA)
    assert decided(agent.decide(DRAMA, among=["c", "d"])).question is not None
    assert agent.budget_left == 99


def test_an_abstention_files_its_question():
    log: list[Event] = []
    agent = doubting(sink=log.extend)
    made = agent.decide(HORROR, propensity=True)
    assert isinstance(made, Abstention) and made.question is not None and made.odds is not None
    assert made.odds.abstain == 1.0 and made.event.propensity == 1.0 and made.event.ask
    assert log[1:] == [made.event, made.question.event] == made.events
    assert agent.pending == 0 and agent.answer(made.question, True).then is None
    assert decided(agent.decide(HORROR, among=[made.question.arm])).question is None


def test_least_bad_is_played_while_it_asks():
    agent = doubting(on_empty="least_bad")
    made = decided(agent.decide(HORROR, propensity=True))
    assert made.propensity == 1.0 and made.question is not None


# -- batches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("empty", ["abstain", "least_bad", "safe_arm"])
def test_a_batch_chooses_as_one_by_one_and_never_asks(kind, empty):
    agent = taught(
        limits=kind,
        budget=9,
        on_empty=empty,
        safe_arm="d" if empty == "safe_arm" else None,
        policy=LearnedMask(v=1.0),
        rules=[Rule("r", when=[When("genres", has="Crime")])],
    )
    agent.teach(BOTH, "e", False)
    contexts = [DRAMA, BOTH, {"genres": []}, {"genres": ["Crime"]}, {"genres": ["Action"]}, DRAMA]
    ids = [f"d{i}" for i in range(len(contexts))]
    many = agent.make.decided_many(contexts, ids=ids, propensity=True)
    quick = agent.make.decided_many(contexts, ids=ids, details=False)
    assert many.chosen == quick.chosen and many.chosen[3] is None
    for context, id, batch in zip(contexts, ids, many, strict=True):
        one = agent.make.decided(context, id=id, propensity=True, ask=False)
        assert one.question is None and not isinstance(one, Question)  # type: ignore[union-attr]
        assert type(one) is type(batch)
        assert law(one).tobytes() == law(batch).tobytes()
        if isinstance(one, Decision) and isinstance(batch, Decision):
            assert one.arm == batch.arm and one.parts.tobytes() == batch.parts.tobytes()
            assert one.event.propensity == batch.event.propensity


def test_named_and_numbered_decisions_draw_apart():
    agent = taught(limits="rules", policy=LearnedMask(v=1.0))
    named = agent.make.decided(DRAMA, id="1")
    numbered = agent.make.decided(DRAMA)
    assert isinstance(named, Decision) and isinstance(numbered, Decision)
    assert numbered.id == 1 and named.draw.tobytes() != numbered.draw.tobytes()
