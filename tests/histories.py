"""Random lives of an agent, and what of an agent must stay equal in bits.

A life is a list of steps (what, which, how much) that makes sense for any agent: a step that is not
possible does nothing. Two agents that live the same life can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bridle import (
    Agent,
    Arm,
    BehaviorConstrained,
    Category,
    Decision,
    EpsilonGreedy,
    Flag,
    Greedy,
    Labels,
    LearnedMask,
    LinUCB,
    Number,
    Rule,
    Thompson,
    Uniform,
    When,
)
from bridle.agent.events import (
    AuditBegun,
    Audited,
    Calibrated,
    CalibrationBegun,
    CalibrationDropped,
    Created,
    Erasure,
    Event,
    RewardedLate,
    RunsOn,
)
from bridle.agent.outcomes import SlateDecision
from bridle.certificates.calibration import Calibration, certify
from bridle.slates import AtMost, SetLimits


def first_form(sink: Any = None, **options: Any) -> Agent:
    """Return a new agent whose log is of the first form: from before answers had a price."""
    created = Created(replace(Agent(**options).settings, form=1, answer_price=None, checks=0))
    agent = Agent.replay([created]).agent
    agent.sink = sink
    if sink is not None:
        sink([created])
    return agent


# The paper's agent: tests of it say so.
PAPER: dict[str, Any] = {"limits": "linear", "prior": "paper"}
FEATURES: dict[str, Any] = {
    "plain": 3,
    "wide": 18,
    "mixed": [
        Number("age", low=0, high=100),
        Flag("smoker", missing=False),
        Category("sky", ["clear", "grey"], missing=()),
        Labels("genres", ["Drama", "Horror"]),
    ],
}
POOLS: dict[str, list[Any]] = {
    "plain": [
        np.array([1.0, 0.0, 1.0]),
        [0.25, -0.5, 1 / 3],
        {"x0": 0.0, "x1": 0.0, "x2": 0.0},
        np.array([-0.0, 0.0, -0.0]),
        [3, 1, 2],
    ],
    "wide": [np.arange(18.0) / 7, np.eye(18)[3], np.ones(18), np.eye(18)[17] * -2.5],
    "mixed": [
        {"age": 30, "smoker": True, "sky": "grey", "genres": ["Horror"]},
        {"age": 71.3, "genres": []},
        {"age": 0, "smoker": 0, "sky": "clear", "genres": ("Drama", "Horror")},
    ],
}
POLICIES = [
    BehaviorConstrained(sigma=0.5),
    BehaviorConstrained(sigma=0.0, v=0.1, v_constraint=0.4),
    Thompson(),
    Uniform(),
    Greedy(),
    EpsilonGreedy(epsilon=0.3),
    LinUCB(alpha=0.7),
    LearnedMask(),
    LearnedMask(sigma=0.6, v=0.2),
    LearnedMask(sigma=0.0, v=0.0),
]
# What arms are like, where they have features.
ARM_FEATURES = [Flag("loud"), Category("make", ["old", "new"]), Number("price", 0, 10)]


def like(n: int) -> dict[str, Any]:
    """Return features of an arm."""
    return {"loud": n % 2 > 0, "make": ("old", "new")[n % 3 > 0], "price": n % 11}


WHEN = {"plain": "x0", "wide": "x1", "mixed": "age"}
OPS = (
    "teach",
    "teach_many",
    "teach_named",
    "retract",
    "retract_many",
    "ask",
    "ask_named",
    "ask_met",
    "ask_many",
    "answer",
    "answer_many",
    "decide",
    "decide_named",
    "decide_among",
    "abstain",
    "decide_many",
    "decide_many_named",
    "reward",
    "reward_many",
    "learn",
    "sigma",
    "add_arms",
    "declare",
    "withdraw",
    "make",
    "apply",
    "skip",
    "regroup",
    "ask_pool",
    "decide_quietly",
    "adopt",
    "drop_certificate",
    "expire",
    "shadow",
    "set_wait",
    "note",
    "teach_item",
    "decide_item",
    "decide_many_items",
    "judge",
    "promise",
    "drop_promise",
    "start_anew",
    "teach_life",
    "end_examples",
    "retire_arms",
    "restore_arms",
    "change_arms",
    "set_policy",
    "set_boldness",
    "set_forget",
    "decide_brought",
    "decide_slate",
    "reward_slate",
)

steps = st.tuples(st.sampled_from(OPS), st.integers(0, 2**16), st.floats(0.0, 1.0))
lives = st.lists(steps, min_size=12, max_size=40)


@st.composite
def settings_of_agents(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of Agent; `world` names the pool of contexts and is not one of them."""
    world = draw(st.sampled_from(sorted(FEATURES)))
    arms = [
        Arm(k if k % 2 else f"arm {k}", group="ab"[k % 2]) for k in range(draw(st.integers(2, 9)))
    ]
    kind = draw(st.sampled_from(["linear", "linear", "logistic", "rules", "auto", "found"]))
    if world == "wide" and kind in ("found", "auto"):  # too many features, and too slow
        kind = "rules"
    policy = draw(st.sampled_from(POLICIES))
    noisy: list[float | None] = [0.001, 0.001, 0.1]
    if kind in ("rules", "auto"):
        noisy.append(None)
    empty = draw(st.sampled_from(["abstain", "least_bad", "safe_arm"]))
    more: dict[str, Any] = {}
    if draw(st.integers(0, 2)) == 0:
        arms = [replace(arm, features=like(k)) for k, arm in enumerate(arms)]
        more = {
            "set_limits": SetLimits(at_most=[AtMost(1, feature="make")]),
            "arm_features": ARM_FEATURES,
            "interactions": draw(st.sampled_from(["all", "none"])),
        }
    return more | {
        "world": world,
        "arms": arms,
        "features": FEATURES[world],
        "policy": policy,
        "limits": kind,
        "prior": "centred" if more else draw(st.sampled_from(["paper", "centred", "scaled"])),
        "share": draw(st.sampled_from(["group", "arm"])),
        "crosses": kind in ("rules", "logistic") and world != "wide" and draw(st.booleans()),
        "teacher_error": draw(st.sampled_from(noisy)),
        "on_empty": empty,
        "safe_arm": arms[0].id if empty == "safe_arm" else None,
        "budget": draw(st.sampled_from([0, 2, 1000])) if policy.needs_limits else 0,
        "on_doubt": draw(st.sampled_from(["wait", "play_safe"])),
        "ask_at_most": draw(st.sampled_from([1, 3])),
        "answer_price": draw(st.sampled_from([0.0, 0.3, 2.0])),
        "patience": draw(st.sampled_from([None, 0, 4])),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "reward_range": draw(st.sampled_from([(0.0, 1.0), (-3.0, 5.0)])),
        "exact_denials": draw(st.booleans()),
        "rules": draw(st.sampled_from([[], [Rule("first", arms=[arms[1].id])]])),
        "teaching": draw(st.sampled_from(["random", "thompson", "arm", "pool"])),
        "label_coding": draw(st.sampled_from(["1/0", "1/-1", "0/-1"])),
        "ridge": draw(st.sampled_from([1.0, 0.3])),
        "max_pending": draw(st.sampled_from([1, 3, 1000])),
        "max_examples": draw(st.sampled_from([4, 1000])),
        "wait": 60.0,
        "default_reward": draw(st.sampled_from([None, 0.5])),
    }


def bits(agent: Agent) -> bytes:
    """All that an agent knows, to the bit and in order: every attribute, whatever is saved."""
    found = dict(vars(agent._state))
    parts: list[bytes] = []
    limits_state = dict(vars(found.pop("limits_state")))
    for state in (found.pop("reward_model").to_state(), limits_state.pop("limits").to_state()):
        parts += [name.encode() + array.tobytes() for name, array in sorted(state.items())]
    del limits_state["_seen"], limits_state["_settings"]  # a memory of what follows from the rest
    for name in ("unit_of", "account_of"):
        limits_state[name] = limits_state[name].tobytes()
    # How often each item was judged: the order in which they came means nothing. What has none is
    # as if it were not there.
    judged, of = limits_state["_judged"], limits_state["_of"]
    limits_state["_judged"] = [
        (unit, sorted(map(repr, each.items()))) for unit, each in sorted(judged.items()) if each
    ]
    limits_state["_of"] = [(unit, dict(mine)) for unit, mine in sorted(of.items()) if mine]
    for name in ("rates", "drift"):
        made = limits_state.pop(name)
        state = {} if made is None else made.to_state()
        parts += [name.encode() + array.tobytes() for name, array in sorted(state.items())]
    found["limits_state"] = sorted(limits_state.items())
    checks = dict(vars(found.pop("checks")))
    del checks["_settings"]
    found["checks"] = sorted(checks.items())
    purse = found.pop("purse")
    found["purse"] = None if purse is None else purse.to_state()
    about = found.pop("about_item")  # the order in which items came means nothing
    found["about_item"] = sorted((repr(item), list(each)) for item, each in about.items())
    questions = dict(vars(found.pop("questions")))
    del questions["_settings"]
    here = questions.pop("_here")  # the order in which they came means nothing
    questions["_here"] = sorted((repr(c), sorted(map(repr, ids))) for c, ids in here.items())
    found["questions"] = sorted(questions.items())
    for name in ("_certified", "unscored", "_sets", "_vouched"):  # they follow from the rest
        del found[name]
    certificate = found.pop("certificate")
    found["certificate"] = None if certificate is None else certificate.to_json()
    for name in ("denials", "allowances"):
        certain = found.pop(name)
        found[name] = sorted((repr(c), sorted(counts.items())) for c, counts in certain.items())
    found["compiled_rules"] = [
        (rule.rule, rule.arms.tobytes(), rule.conditions) for rule in found["compiled_rules"]
    ]
    for name in ("every", "every_shown", "weights", "status"):
        found[name] = found[name].tobytes()
    rows = found.pop("arm_rows")
    found["arm_rows"] = None if rows is None else rows.tobytes()
    # Nothing is left whose repr does not say all of it.
    assert not any(isinstance(value, np.ndarray) for value in found.values())
    return b"\0".join([*parts, repr(sorted(found.items())).encode()])


def seen(made: Iterable[Any]) -> list[Any]:
    """All that decisions (or questions) say, in a form that can be compared in bits."""
    return [
        (
            one.event,
            one.parts.tobytes(),
            one.eligible.tobytes(),
            np.asarray(one.propensities).tobytes(),
        )
        if isinstance(one, Decision)
        else one.event
        for one in made
    ]


@dataclass
class Life:
    """An agent that lives; with `bulk` it uses the bulk verbs where it can, else single ones."""

    agent: Any
    world: str
    bulk: bool = True
    made: list[Any] = field(default_factory=list)  # what it answered
    log: list[Event] = field(default_factory=list)
    late: list[Any] = field(default_factory=list)  # made and not yet applied
    turn: int = 0

    @classmethod
    def of(cls, arguments: dict[str, Any], *, bulk: bool = True) -> Life:
        rest = dict(arguments)
        world = rest.pop("world")
        log: list[Event] = []
        return cls(Agent(sink=log.extend, **rest), world, bulk, log=log)

    def go(self, life: Iterable[tuple[str, int, float]]) -> Life:
        for op, n, x in life:
            self.turn += 1
            getattr(self, f"_{op}")(n, x)
        return self

    def go_on_as(self, agent: Agent) -> Life:
        """The same life from here on, with another agent in its place."""
        twin = Life(agent, self.world, self.bulk, late=list(self.late), turn=self.turn)
        agent.sink = twin.log.extend
        return twin

    # What n stands for. All of it is a function of n, the turn and the agent's own state.

    def context(self, n: int) -> Any:
        pool = POOLS[self.world]
        return pool[n % len(pool)]

    def contexts(self, n: int) -> list[Any]:
        return [self.context(n + i * (n % 7)) for i in range(n % 4)]

    def arm(self, n: int) -> Any:
        return self.agent.arms[n % len(self.agent.arms)].id

    def value(self, x: float) -> Any:
        low, high = self.agent.settings.reward_range
        return low + x * (high - low)

    def some(self, ids: Iterable[Any], n: int) -> list[Any]:
        there = list(ids)
        return there[n % len(there) :: 2] if there else []

    def one(self, ids: Iterable[Any], n: int) -> list[Any]:
        return self.some(ids, n)[:1]

    def room(self, more: int) -> bool:
        return bool(len(self.agent.examples) + more <= self.agent.settings.max_examples)

    def went_on(self, told: Iterable[Any]) -> None:
        self.made += [one.then for one in told if one.then is not None]

    def each(self, many: Callable[[], Any], single: Callable[[], Any]) -> Any:
        return many() if self.bulk else single()

    # The steps.

    def _teach(self, n: int, x: float) -> None:
        if self.room(1):
            self.agent.teach(self.context(n), self.arm(n // 3), x < 0.5, by="t", at=x)

    def _teach_named(self, n: int, x: float) -> None:
        if self.room(1):
            self.agent.teach(
                self.context(n), self.arm(n // 5), x < 0.5, id=f"e{self.turn}", note="n"
            )

    def item(self, n: int) -> Any:
        return (None, "film 1", 2, "film 3")[n % 4]

    def _judge(self, n: int, x: float) -> None:
        checks = [check.id for check in self.agent.open_checks]
        if self.room(1):
            for id in self.one(checks, n):
                self.agent.judge(id, x < 0.7, by="t" if n % 2 else None)

    def _promise(self, n: int, x: float) -> None:
        if self.agent.promised is None:
            self.agent.promise(0.05 + x / 2, 0.1 + 0.9 * x, lag=n % 3, seed=n)

    def _drop_promise(self, n: int, x: float) -> None:
        if self.agent.promised is not None:
            self.agent.drop_promise(note=f"n{n}")

    def _start_anew(self, n: int, x: float) -> None:
        if x < 0.6:
            self.agent.start_anew(f"why {n}", by="t")

    def _teach_life(self, n: int, x: float) -> None:
        if self.room(1):
            scope = "item" if n % 2 else "all"
            self.agent.teach(
                self.context(n),
                self.arm(n),
                x < 0.5,
                item=f"i{n % 5}",
                scope=scope,
                until=x,
                by="tu"[n % 3 > 0],
            )

    def _end_examples(self, n: int, x: float) -> None:
        self.agent.end_examples(x)

    def _teach_item(self, n: int, x: float) -> None:
        if self.room(1):
            self.agent.teach(self.context(n), self.arm(n // 3), x < 0.7, item=self.item(n // 7))

    def _decide_item(self, n: int, x: float) -> None:
        made = self.agent.decide(self.context(n), item=self.item(n // 7), propensity=n % 2 > 0)
        self.made.append(made)

    def _decide_many_items(self, n: int, x: float) -> None:
        C = self.contexts(n)
        items = [self.item(n + i) for i in range(len(C))]
        self.made += self.each(
            lambda: self.agent.decide_many(C, items=items),
            lambda: [
                self.agent.decide(c, item=item, ask=False) for c, item in zip(C, items, strict=True)
            ],
        )

    def _teach_many(self, n: int, x: float) -> None:
        C = self.contexts(n)
        arms, said = (
            [self.arm(n + i) for i in range(len(C))],
            [(n + i) % 3 > 0 for i in range(len(C))],
        )
        if self.room(len(C)):
            self.each(
                lambda: self.agent.teach_many(C, arms, said, by="many"),
                lambda: [self.agent.teach(*e, by="many") for e in zip(C, arms, said, strict=True)],
            )

    def _retract(self, n: int, x: float) -> None:
        for example in self.one(self.agent._state.examples, n):
            self.agent.retract(example, by="t")

    def _retract_many(self, n: int, x: float) -> None:
        ids = self.some(self.agent._state.examples, n)
        self.each(
            lambda: self.agent.retract_many(ids), lambda: [self.agent.retract(id) for id in ids]
        )

    def _ask(self, n: int, x: float) -> None:
        self.made.append(self.agent.ask(self.context(n)))

    def _ask_named(self, n: int, x: float) -> None:
        self.made.append(self.agent.ask(self.context(n), id=f"q{self.turn}", at=x))

    def _ask_met(self, n: int, x: float) -> None:
        if self.agent.pending:
            self.made.append(self.agent.ask())

    def _ask_many(self, n: int, x: float) -> None:
        C = self.contexts(n)
        self.made += self.each(
            lambda: self.agent.ask_many(C), lambda: [self.agent.ask(c) for c in C]
        )

    def _answer(self, n: int, x: float) -> None:
        for question in self.one(self.agent._state.questions.open, n):
            if self.room(1):
                self.went_on([self.agent.answer(question, x < 0.5, note="so")])

    def _answer_many(self, n: int, x: float) -> None:
        ids = self.some(self.agent._state.questions.open, n)
        said = [(n + i) % 2 > 0 for i in range(len(ids))]
        if self.room(len(ids)):
            # Waiting decisions go on after the last answer of a batch, not after their own.
            told = (
                self.agent.answer_many(ids, said)
                if self.bulk or self.agent.waiting
                else [self.agent.answer(*pair) for pair in zip(ids, said, strict=True)]
            )
            self.went_on(told)

    def _skip(self, n: int, x: float) -> None:
        for question in self.one(self.agent._state.questions.open, n):
            self.went_on([self.agent.skip(question, at=x)])

    def _regroup(self, n: int, x: float) -> None:
        named = {group for rule in self.agent.rules for group in rule.groups}
        shares = self.agent.settings.share == "group"
        if not named and shares and self.agent._state.limits_state.kind != "linear":
            groups = {self.arm(n): "ab"[n % 2], self.arm(n // 3): None}
            self.agent.regroup(groups, by="t", note="so")

    def _adopt(self, n: int, x: float) -> None:
        if self.agent.settings.on_empty != "least_bad":
            rows = self.agent.schema.encode_many([self.context(n + i) for i in range(4)])
            calibration = Calibration(
                contexts=rows, allowed=np.ones((4, len(self.agent.arms)), np.bool_)
            )
            self.agent.adopt(
                certify(self.agent.limits, calibration, alpha=0.5, delta=0.5), by="officer"
            )

    def _drop_certificate(self, n: int, x: float) -> None:
        if self.agent.certificate is not None:
            self.agent.drop_certificate(note="over")

    def _ask_pool(self, n: int, x: float) -> None:
        pool = self.contexts(n | 1)
        self.made.append(self.agent.ask(pool=pool))

    def _decide_quietly(self, n: int, x: float) -> None:
        self.made.append(self.agent.decide(self.context(n), ask=False, propensity=x < 0.5))

    def _decide(self, n: int, x: float) -> None:
        self.made.append(self.agent.decide(self.context(n), propensity=n % 2 > 0))

    def _decide_named(self, n: int, x: float) -> None:
        self.made.append(self.agent.decide(self.context(n), id=f"d{self.turn}", at=x))

    def _decide_among(self, n: int, x: float) -> None:
        among = {self.arm(n), self.arm(n // 3)}
        self.made.append(self.agent.decide(self.context(n), among, propensity=True))

    def _abstain(self, n: int, x: float) -> None:
        # As a service does that was sent no arms to choose among: the verb would raise.
        made: Any = self.agent.make.decided(self.context(n), among=[])
        if self.agent.sink is not None:
            self.agent.sink(made.events)
        for event in made.events:
            self.agent.apply(event)
        self.made.append(made)

    def _decide_many(self, n: int, x: float, ids: list[str] | None = None) -> None:
        C, among = self.contexts(n), None if n % 3 else [self.arm(n), self.arm(n + 1)]
        names = [None] * len(C) if ids is None else ids
        self.made += self.each(
            lambda: self.agent.decide_many(C, among, ids, propensity=x < 0.5),
            lambda: [
                self.agent.decide(c, among, id, propensity=x < 0.5, ask=False)
                for c, id in zip(C, names, strict=True)
            ],
        )

    def _decide_many_named(self, n: int, x: float) -> None:
        self._decide_many(n, x, [f"d{self.turn}-{i}" for i in range(len(self.contexts(n)))])

    def _reward(self, n: int, x: float) -> None:
        for decision in self.one(self.agent._state.pending, n):
            self.agent.reward(decision, self.value(x), at=x)

    def _reward_many(self, n: int, x: float) -> None:
        ids = self.some(self.agent._state.pending, n)
        values = [self.value((x + i / 7) % 1.0) for i in range(len(ids))]
        self.each(
            lambda: self.agent.reward_many(ids, np.array(values)),
            lambda: [self.agent.reward(*pair) for pair in zip(ids, values, strict=True)],
        )

    def _expire(self, n: int, x: float) -> None:
        for decision in self.one(self.agent._state.pending, n):
            self.agent.expire(decision, at=x)

    def _shadow(self, n: int, x: float) -> None:
        self.made.append(self.agent.shadow(self.context(n), self.arm(n // 3), propensity=x < 0.5))

    def _set_wait(self, n: int, x: float) -> None:
        self.agent.set_wait(None if n % 3 == 0 else 1.0 + x, None if n % 3 < 2 else self.value(x))

    def _note(self, n: int, x: float) -> None:
        rows = self.agent.schema.encode_many(self.contexts(n | 1))
        self.agent.note(
            (
                RewardedLate("d", self.value(x)),
                AuditBegun(0.5, 0.1, n),
                Audited("d", x < 0.5),
                CalibrationBegun(rows, 0.1, 0.1, 0.5, ""),
                Calibrated(x < 0.5),
                CalibrationDropped(note="so"),
                Erasure((1,)),
                RunsOn("here"),
            )[n % 8]
        )

    def _learn(self, n: int, x: float) -> None:
        C = self.contexts(n)
        self.agent.learn(C, [self.arm(n + i) for i in range(len(C))], [self.value(x)] * len(C))

    def _sigma(self, n: int, x: float) -> None:
        if self.agent.sigma is not None:
            self.agent.set_sigma(x)

    def _add_arms(self, n: int, x: float) -> None:
        if len(self.agent.arms) < 12:
            self.agent.add_arms([Arm(f"new {self.turn}", "", "ab"[n % 2], self.features(n))])

    def features(self, n: int) -> Any:
        return None if self.agent.settings.arm_features is None else like(n)

    def _retire_arms(self, n: int, x: float) -> None:
        arm = self.arm(n)
        if arm != self.agent.settings.safe_arm:
            self.agent.retire_arms([arm], by="t")

    def _restore_arms(self, n: int, x: float) -> None:
        self.agent.restore_arms([self.arm(n)], note="so")

    def _change_arms(self, n: int, x: float) -> None:
        arm = self.agent.arms[n % len(self.agent.arms)]
        self.agent.change_arms([replace(arm, label=f"label {n}", features=self.features(n))])

    def _set_policy(self, n: int, x: float) -> None:
        if x < 0.3:
            self.agent.set_policy(POLICIES[n % len(POLICIES)], by="t")

    def _set_boldness(self, n: int, x: float) -> None:
        if hasattr(self.agent.policy, "v"):
            self.agent.set_boldness(x, by="t")

    def _set_forget(self, n: int, x: float) -> None:
        if self.agent.settings.prior == "scaled" and x < 0.6:
            self.agent.set_forget(("auto", "never", 10.0 + n)[n % 3], by="t")

    def _decide_slate(self, n: int, x: float) -> None:
        id = None if n % 2 else f"s{self.turn}"
        made = self.agent.decide(self.context(n), id=id, k=1 + n % 4, propensity=x < 0.1)
        self.made += list(made) if isinstance(made, SlateDecision) else [made]

    def _reward_slate(self, n: int, x: float) -> None:
        ids = self.some(self.agent._state.pending, n)[:3]
        if ids:
            self.agent.reward_slate(ids, len(ids) * self.value(x))

    def _decide_brought(self, n: int, x: float) -> None:
        limits = self.agent._state.limits_state
        if self.agent._state.shared is None:
            self.agent.make.arms_visited([f"guest {self.turn}"])
            return
        among: list[Any] = [self.arm(n)]
        if limits.pairs is not None and len(self.agent.arms) < 14:
            among += [Arm(f"guest {self.turn} {k}", features=like(n + k)) for k in range(2)]
        self.made.append(self.agent.decide(self.context(n), among, propensity=x < 0.2))
        if n % 3 == 0 and len(self.agent.arms) < 14:
            self.agent.visit_arms([Arm(f"guest {self.turn}", features=like(n))])

    def _declare(self, n: int, x: float) -> None:
        when = [When(WHEN[self.world], at_most=x)] if n % 2 else []
        there = sorted({arm.group for arm in self.agent.arms} - {None})
        who = {"groups": [there[n % len(there)]]} if n % 3 and there else {"arms": [self.arm(n)]}
        self.agent.declare(Rule(f"rule {self.turn}", when=when, **who))

    def _withdraw(self, n: int, x: float) -> None:
        for rule in self.one((rule.id for rule in self.agent.rules), n):
            self.agent.withdraw(rule)

    def _make(self, n: int, x: float) -> None:
        """Another replica makes an event from what is known now, and commits it later."""
        make, id = self.agent.make, f"late {self.turn}"
        self.late.append(
            make.asked(self.context(n), id=id)
            if n % 4 == 0
            else make.decided(self.context(n), id=id, propensity=n % 2 > 0, ask=False)
        )

    def _apply(self, n: int, x: float) -> None:
        if self.late:
            made = self.late.pop(n % len(self.late))
            self.agent.apply(made.event)
            self.log.append(made.event)
            self.made.append(made)
