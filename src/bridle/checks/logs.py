"""What an agent must keep: its state is the fold of its log, and nothing else changes it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bridle.agent import Agent
from bridle.checks.base import Calls, Miss, each, expect, expect_refusal
from bridle.checks.stories import (
    D,
    K,
    MakeAgent,
    Story,
    contexts,
    history,
    knows,
    new,
    seen,
)
from bridle.decisions import Decision
from bridle.errors import BridleError
from bridle.events import Event, event_from_json, event_to_json


def same_seed_same_agent(make: MakeAgent) -> None:
    """Equal settings, seeds and calls give equal agents in bits; another seed, other draws."""
    lives = []
    for seed in (1, 1, 2):
        agent = new(make, seed=seed)
        draws = agent.decide_many(contexts(64, 12)).chosen
        Story(seed=3).go(agent, 40)
        lives.append((draws, knows(agent)))
    expect(lives[0] == lives[1], "the same agent from the same seed and calls", "another")
    expect(lives[0][0] != lives[2][0], "other choices from another seed", "the same 64")


def verb_is_make_then_apply(make: MakeAgent) -> None:
    """Making an event changes nothing, and `apply` of it is all that the verb does."""
    one, two = new(make), new(make)
    for step, context in enumerate(contexts(12, 21)):
        arm = one.arms[step % K].id
        one.teach(context, arm, step % 3 > 0)
        two.apply(two.make.taught(context, arm, step % 3 > 0))
        asked = one.ask(context)
        _untouched(two, partial(two.make.asked, context))
        two.apply(two.make.asked(context).event)
        if step % 2:
            one.answer(asked, True)
            two.apply(two.make.answered(asked.id, True))
        made = one.decide(context, propensity=True)
        _untouched(two, partial(two.make.decided, context, propensity=True))
        two.apply(two.make.decided(context, propensity=True).event)
        if isinstance(made, Decision):
            one.reward(made.id, step / 12)
            _untouched(two, partial(two.make.rewarded, made.id, step / 12))
            two.apply(two.make.rewarded(made.id, step / 12))
    one.retract(1)
    two.apply(two.make.retracted(1))
    one.learn(np.eye(D), [0] * D, np.ones(D))
    two.apply(two.make.learned(np.eye(D), [0] * D, np.ones(D)))
    one.add_arms(["late"])
    two.apply(two.make.arms_added(["late"]))
    expect(knows(one) == knows(two), "make and apply to do what the verbs do", "another agent")


def batch_is_one_by_one(make: MakeAgent) -> None:
    """Bulk verbs give the bits of the single ones, in what they answer and in what they leave."""
    taught, asked, played = history(20, 31), contexts(6, 32), contexts(30, 33)
    one, many, lean = new(make), new(make), new(make)
    for agent in (many, lean):
        agent.teach_many(taught.contexts, taught.arms.tolist(), taught.allowed)
        questions = agent.ask_many(asked)
        agent.answer_many(questions[:4], [True, False, True, True])
        agent.retract_many([1, 5, 21])
    rows = zip(taught.contexts, taught.arms.tolist(), taught.allowed.tolist(), strict=True)
    for context, arm, allowed in rows:
        one.teach(context, arm, allowed)
    singles = [one.ask(context) for context in asked]
    for question, answer in zip(singles[:4], [True, False, True, True], strict=True):
        one.answer(question, answer)
    for example in (1, 5, 21):
        one.retract(example)
    expect(singles == questions, "ask_many to ask what ask does", "other questions")
    expect(
        knows(one) == knows(many),
        "teach_many, ask_many, … to leave what one by one does",
        "another",
    )

    for among in (None, [0, 2], []):
        by_one = [one.decide(context, among, propensity=True) for context in played]
        batch = many.decide_many(played, among, propensity=True)
        where = f"decide_many among {'all' if among is None else among}"
        expect(len(batch) == len(played), f"{where} to answer each context", len(batch))
        for at, (single, other) in enumerate(zip(by_one, batch, strict=True)):
            expect(
                seen(single) == seen(other), f"{where} to do what decide does", f"another at {at}"
            )
        expect(
            [d.arm if isinstance(d, Decision) else None for d in by_one]
            == lean.decide_many(played, among, details=False).chosen,
            f"{where} without details to choose what decide does",
            "other arms",
        )
        ids = [d.id for d in by_one[-one.pending :] if isinstance(d, Decision)][::-1][3:]
        values = np.linspace(0.0, 1.0, len(ids))
        for id, value in zip(ids, values.tolist(), strict=True):
            one.reward(id, value)
        many.reward_many(ids, values)
        lean.reward_many(ids, values)
        expect(knows(one) == knows(many), f"{where} and reward_many to leave the same", "another")
        expect(knows(one) == knows(lean), f"{where} without details to leave the same", "another")


def restart_is_no_restart(make: MakeAgent) -> None:
    """An agent read back from its file goes on as if there had been no pause, in bits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent"
        for steps in (0, 90):
            agent, first, second = new(make), Story(seed=101), Story(seed=101)
            first.go(agent, steps)
            second.go(new(make), steps)
            agent.save(path)
            back = type(agent).load(path)
            expect(
                knows(back) == knows(agent),
                f"what was known when saved after {steps} steps",
                "other",
            )
            for _ in range(4):
                first.go(agent, 10)
                second.go(back, 10)
                same = knows(back) == knows(agent)
                expect(same, f"the life without the restart after {steps} steps", "another")


def replay_agrees(make: MakeAgent) -> None:
    """A replay of the log makes every choice again, the same, and ends with the same agent."""
    log: list[Event] = []
    agent = new(make, sink=log.extend)
    Story(seed=111).go(agent, 150)
    batch = agent.decide_many(contexts(20, 112), propensity=True)
    agent.reward_many([d.id for d in batch if isinstance(d, Decision)][:-6:-1], [0.5] * 5)
    choices = sum(type(event).__name__ in ("Decided", "Abstained", "Asked") for event in log)
    found = type(agent).replay(log)
    expect(found.checked == choices, f"{choices} choices made again", found.checked)
    expect(
        found.agrees,
        "every choice of the log to come out the same",
        f"others: {found.differing[:5]}",
    )
    expect(knows(found.agent) == knows(agent), "the agent that wrote the log", "another")


def log_survives_json(make: MakeAgent) -> None:
    """Every event, also of ids that only look like one's own, comes back from JSON as it was."""
    log: list[Event] = []
    agent = new(make, sink=log.extend)
    Story(seed=121).go(agent, 80)
    like_one: tuple[Any, ...] = (np.int64(1), True, 1.0, np.float64(1.0))
    for one in like_one:
        own = new(make, sink=log.extend)
        own.teach(np.zeros(D), 1, False)
        own.decide(np.ones(D))
        own.ask(np.ones(D))
        for verb in (
            partial(own.teach, np.ones(D), one, True),
            partial(own.decide, np.ones(D), [one]),
            partial(own.reward, one, 0.5),
            partial(own.retract, one),
            partial(own.answer, one, True),
            partial(own.learn, [np.ones(D)], [one], [0.5]),
        ):
            with suppress(BridleError):  # refused is fine
                verb()
    for event in log:
        try:
            back = event_from_json(json.loads(json.dumps(event_to_json(event))))
        except (BridleError, TypeError, ValueError) as error:
            raise Miss("every event to survive JSON", f"{error!r} for {event!r}") from error
        expect(back == event, "every event to survive JSON", f"{back!r} for {event!r}")


def sink_that_raises_changes_nothing(make: MakeAgent) -> None:
    """If the sink raises, the verb raises the same, and nothing has changed."""
    agent = new(make)
    Story(seed=131).go(agent, 40)
    agent.decide(np.ones(D), id="pending", among=[0, 1, 2])
    agent.decide(np.ones(D), id="pending too", among=[0, 1, 2])
    question = agent.ask(np.ones(D))
    example = agent.teach(np.ones(D) / 2, 0, True)

    def refuse(events: Sequence[Event]) -> None:
        raise ConnectionError("the disk is full")

    verbs: dict[str, Callable[[], object]] = {
        "ask": lambda: agent.ask(np.ones(D)),
        "ask_many": lambda: agent.ask_many(np.ones((2, D))),
        "teach": lambda: agent.teach(np.ones(D), 0, False),
        "teach_many": lambda: agent.teach_many(np.ones((2, D)), [0, 1], [False, True]),
        "answer": lambda: agent.answer(question, False),
        "answer_many": lambda: agent.answer_many([question], [False]),
        "retract": lambda: agent.retract(example),
        "retract_many": lambda: agent.retract_many([example]),
        "decide": lambda: agent.decide(np.ones(D)),
        "decide_many": lambda: agent.decide_many(np.ones((2, D))),
        "reward": lambda: agent.reward("pending", 1.0),
        "reward_many": lambda: agent.reward_many(["pending", "pending too"], [1.0, 0.0]),
        "learn": lambda: agent.learn(np.ones((2, D)), [0, 1], [0.0, 1.0]),
        "add_arms": lambda: agent.add_arms(["one", "two"]),
    }
    if agent.sigma is not None:
        verbs["set_sigma"] = lambda: agent.set_sigma(0.875)
    before = knows(agent)
    agent.sink = refuse
    for name, verb in verbs.items():
        try:
            verb()
        except ConnectionError:
            pass
        else:
            raise Miss(f"{name} to raise what the sink raises", "no error")
        expect(knows(agent) == before, f"no change by {name} when the sink raises", "another agent")
    agent.sink = None
    for name, verb in verbs.items():
        if name not in ("answer_many", "retract_many", "reward_many"):
            verb()
            before, last = knows(agent), before
            expect(before != last, f"a change by {name} without the sink", "none")


def what_it_hands_out_is_a_copy(make: MakeAgent) -> None:
    """Changing what was given or taken afterwards changes nothing."""
    agent, twin = new(make), new(make)
    Story(seed=141).go(agent, 40)
    Story(seed=141).go(twin, 40)
    C = contexts(6, 142)
    rows, context = C.copy(), np.ones(D)
    for among in ([0, 1, 2], None):
        batch = agent.decide_many(rows, among, propensity=True)
        for made in (*batch, agent.decide(context, among, propensity=True)):
            if isinstance(made, Decision):
                _scribble(made.parts, made.eligible, made.propensities)
        waiting = [made.id for made in twin.decide_many(C, among) if isinstance(made, Decision)]
        twin.decide(np.ones(D), among)
    what = "no change by a change of "
    expect(knows(agent) == knows(twin), f"{what}a decision's arrays", "another agent")
    _scribble(rows, context)
    agent.reward_many(waiting, [0.5] * len(waiting))
    twin.reward_many(waiting, [0.5] * len(waiting))
    rows = C.copy()
    agent.learn(rows, [0] * 6, np.ones(6))
    twin.learn(C, [0] * 6, np.ones(6))
    _scribble(rows)
    expect(knows(agent) == knows(twin), f"{what}what was given", "another agent")


def bad_input_changes_nothing(make: MakeAgent) -> None:
    """What makes no sense is refused with an error of bridle, unlogged, and nothing has changed."""
    log: list[Event] = []
    agent = new(make, sink=log.extend)
    Story(seed=151).go(agent, 40)
    agent.decide(np.zeros(D), id="pending", among=[0, 1, 2])
    agent.decide(np.zeros(D), id="rewarded", among=[0, 1, 2])
    agent.reward("rewarded", 1.0)
    agent.teach(np.zeros(D), 0, True, id="example")
    before, events = knows(agent), len(log)
    for what, call in _bad_calls(agent):
        expect_refusal(call, what)
        expect(knows(agent) == before, f"the same agent after {what}", "another")
        expect(len(log) == events, f"nothing in the log of {what}", log[events:])


def _bad_calls(agent: Agent) -> Calls:
    good, two, high = np.ones(D), np.ones((2, D)), agent.settings.reward_range[1]
    arms = (-1, 10**9, "no such arm", None, 0.5, [0])
    contexts = (
        good[1:], [*good, 1.0], [*good[1:], np.nan], [*good[1:], np.inf], "abc", 5, ["a"] * D,
    )  # fmt: skip
    rewards = (np.nan, np.inf, -np.inf, high + 1e6, "1", None)
    answers = (2, -1, 0.5, "yes", None, np.nan)
    unknown = ("rewarded", "never made", -1, 10**9, None, [1])
    ids = ("", "x" * 10_000, 7, True)
    return [
        *each("decide in {}", agent.decide, contexts),
        *each("decide_many in {}, last", lambda c: agent.decide_many([good, c]), contexts),
        *each("decide among {}", lambda k: agent.decide(good, [0, k]), arms[:4]),
        *each("decide_many among {}", lambda k: agent.decide_many(two, [0, k]), arms[:4]),
        *each("decide with the id {}", lambda i: agent.decide(good, id=i), (*ids, "pending")),
        *each("decide at {}", lambda at: agent.decide(good, at=at), (np.nan, "now")),
        *each(
            "decide_many with the ids {}",
            lambda i: agent.decide_many(two, ids=i),
            (["new", "pending"], ["same", "same"], ["one"], ["one", ""]),
        ),
        *each("reward {}", lambda y: agent.reward("pending", y), (*rewards, True, [high])),
        *each("reward_many {}", lambda y: agent.reward_many(["pending"], [y]), rewards),
        *each("reward for {}", lambda i: agent.reward(i, high), unknown),
        *each(
            "reward_many for {}",
            lambda i: agent.reward_many(i, [high] * 2),
            (["pending", "rewarded"], ["pending", "pending"], ["pending"]),
        ),
        *each("ask in {}", agent.ask, contexts),
        *each("teach in {}", lambda c: agent.teach(c, 0, True), contexts),
        *each("teach of the arm {}", lambda k: agent.teach(good, k, True), arms),
        *each("teach the answer {}", lambda yes: agent.teach(good, 0, yes), answers),
        *each(
            "teach with the id {}", lambda i: agent.teach(good, 0, True, id=i), (*ids, "example")
        ),
        *each(
            "teach_many in {}, last",
            lambda c: agent.teach_many([good, c], [0, 1], [True, True]),
            contexts,
        ),
        *each(
            "teach_many of the arm {}, last",
            lambda k: agent.teach_many(two, [0, k], [True, True]),
            arms,
        ),
        *each(
            "teach_many of the answer {}, last",
            lambda yes: agent.teach_many(two, [0, 1], [True, yes]),
            answers,
        ),
        *each("answer to {}", lambda i: agent.answer(i, True), unknown),
        *each("retract of {}", agent.retract, unknown),
        *each(
            "retract_many of {}", agent.retract_many, (["example", "example"], ["example", "never"])
        ),
        *each("learn in {}, last", lambda c: agent.learn([good, c], [0, 1], [high] * 2), contexts),
        *each("learn of the arm {}, last", lambda k: agent.learn(two, [0, k], [high] * 2), arms),
        *each("learn of {}, last", lambda y: agent.learn(two, [0, 1], [high, y]), rewards),
        *each("learn of the arms {}", lambda k: agent.learn(two, k, [high] * 2), ([0], "01", None)),
        *each("sigma {}", agent.set_sigma, (-0.1, 1.1, np.nan, True, "1", None)),
        *each(
            "add_arms({})", agent.add_arms, (0, -1, True, [], [None], [0], ["a", "a"], "ab", None)
        ),
        *each("withdraw({})", agent.withdraw, ("no such rule", None)),
        *each("apply({})", agent.apply, (None, "Decided", {})),
    ]


def _untouched(agent: Agent, call: Callable[[], object]) -> None:
    before = knows(agent)
    call()
    expect(knows(agent) == before, "no change by making an event", "another agent")


def _scribble(*arrays: Any) -> None:
    for array in arrays:
        if array is not None and array.flags.writeable:
            array[...] = 0
