"""The lives of the golden agents that were written as JSON lines.

They were lived once, by `write.py`, at commit 4f134e2. The golden tests read only the files.
"""

from __future__ import annotations

from collections.abc import Callable

from bridle import Arm, BehaviorConstrained, Category, Flag, Labels, LearnedMask, Number, Rule, When
from bridle.agent.events import (
    Calibrated,
    CalibrationBegun,
    CalibrationDropped,
    Erased,
    Erasure,
    RewardedLate,
    RunsOn,
)
from tests.golden.life import PLAIN, Life, Lived, all_flags, flags, some_flags
from tests.golden.policies import (
    crowd,
    epsilon,
    first_form,
    greedy,
    linear,
    linear_minus,
    linear_signs,
    second_form,
    uniform,
)

ARMS = [Arm("thriller", group="night"), Arm("horror", "Horror!", "night"), Arm("nature")]


def everything() -> Lived:
    """Nearly every verb, once or more, by the default limits and the default policy."""
    life = Life(
        all_flags("xyz"),
        lambda c, arm: arm in ("nature", "news") or not (c["x"] or (c["y"] and c["z"])),
        arms=ARMS,
        features=flags("xyz"),
        seed=2**64 - 1,
        budget=40,
        wait=60.0,
        default_reward=0.25,
        rules=[Rule("known", when=[When("z", equals=True)], arms=["nature"])],
    )
    agent = life.agent
    agent.learn(
        life.contexts[:5],
        ["thriller", "horror", "nature"] * 1 + ["horror"] * 2,
        [0.1, 0.9, 1 / 3, 0.7, 0.2],
        at=life.tick(),
    )
    life.lessons(4)
    life.play(6, skip=[1], keep=[3])
    ids = life.teach(4)
    agent.retract(ids[0], by="Bob", note="a slip", at=life.tick())
    life.begin_audits()
    agent.withdraw("known", by="Dan", note="no more", at=life.tick())
    life.interrupted(lambda life: life.teach(1))
    life.late()
    agent.add_arms(["news"], by="Dan", note="new in May", at=life.tick())
    agent.add_arms([Arm("slasher", group="night")], at=life.tick())
    life.play(4)
    yield life
    agent.declare(
        Rule(
            "late",
            when=[When("x", equals=True), When("y", equals=True)],
            groups=["night"],
            note="the law",
        ),
        by="Dan",
        note="from the office",
        at=life.tick(),
    )
    life.teach_many(4, named=True)
    agent.retract_many([ids[1], ids[2]], by="Bob", at=life.tick())
    life.ask_many(3)
    life.batch(6)
    life.judge(3)
    agent.set_wait(30.5, 0.125, by="Dan", note="shorter", at=life.tick())
    for id in life.pending()[:2]:
        agent.expire(id, at=life.tick())
        agent.note(RewardedLate(id, 0.75, at=life.tick()))
    agent.set_wait(None, at=life.tick())
    life.play(1, keep=[0])
    agent.expire(life.pending()[-1], at=life.tick())
    for _ in range(3):
        made = agent.shadow(life.context(), "horror", propensity=True, at=life.tick())
        agent.reward(made.id, life.value(), at=life.tick())
    agent.set_sigma(0.75, by="Dan", note="more care", at=life.tick())
    life.decide_among_none(propensity=True)
    agent.decide(life.context(), ["thriller"], ask=False, propensity=True, at=life.tick())
    rows = agent.schema.encode_many(life.contexts[:6])
    agent.note(CalibrationBegun(rows, 0.3, 0.2, 0.5, "the week", by="Cleo", at=life.tick()))
    agent.note(Calibrated(True, by="Cleo", note="sure", at=life.tick()))
    agent.note(CalibrationDropped(by="Cleo", note="no time", at=life.tick()))
    agent.regroup({"thriller": "day", "news": "day"}, by="Dan", note="as it is", at=life.tick())
    agent.adopt(life.certificate(), by="Cleo", note="for a year", at=life.tick())
    life.play(3)
    life.teach(2)
    certificate = agent.certificate
    agent.drop_certificate(by="Cleo", note="over", at=life.tick())
    life.play(2)
    assert certificate is not None
    agent.adopt(certificate, learned_since=True, by="Cleo", at=life.tick())
    life.play(3, keep=[2])
    life.judge(9)
    agent.note(RunsOn("another machine", at=life.tick()))
    agent.note(Erasure((), by="Dan", note="none", at=life.tick()))
    for spaces in ("decision",), ("example", "answer"), ("decision", "question"), ():
        gone = Erased("Decided", spaces)
        life.log.append(gone)
        agent.apply(gone)
    life.play(3, keep=[1])
    agent.ask(life.context(), id="open", at=life.tick())
    yield life


WORDS = [
    Labels("genres", ["Comedy", "Drama", "Horror", "War"]),
    Category("age", ["child", "teen", "adult"], missing="adult"),
]
FILMS = [
    {"genres": genres, "age": age}
    for genres in (["Comedy"], ["Drama", "War"], ["Horror"], [], ["Comedy", "Horror"], ["War"])
    for age in ("child", "teen", "adult")
]


def labels() -> Lived:
    """Sampled rules with pairs, of a teacher whose errors are estimated; it plays safe."""
    life = Life(
        FILMS,
        lambda c, arm: arm == "weather" or not ("Horror" in c["genres"] and c["age"] != "adult"),
        arms=["tv", "cinema", "weather"],
        features=WORDS,
        seed=8,
        teacher_error=None,
        budget=9,
        on_doubt="play_safe",
        on_empty="safe_arm",
        safe_arm="weather",
        share="arm",
        patience=4,
        ask_at_most=1,
    )
    life.lessons(8, wrong=[5])
    life.play(8, keep=[2, 5])
    life.agent.answer(life.open_doubts()[-1].id, True, by="Ann", at=life.tick())
    yield life
    asked = life.agent.ask(at=life.tick())
    life.agent.answer(asked, life.said(asked.event), at=life.tick())
    asked = life.agent.ask(pool=FILMS[3:9], id="of-a-pool", at=life.tick())
    life.agent.answer(asked, life.said(asked.event), at=life.tick())
    life.agent.retract(life.agent.examples[2], at=life.tick())
    for one in life.open_doubts()[:1]:
        life.agent.skip(one.id, at=life.tick())
    rule = Rule("no war", when=[When("genres", has="War"), When("age", equals="child")])
    life.agent.declare(rule, at=life.tick())
    life.play(6)
    life.batch(5, named=True)
    yield life


PATIENTS = [
    {"age": 20.0 + 9.7 * (i % 7), "dose": 0.37 + 1.9 * (i % 5), "smoker": i % 3 == 0}
    for i in range(24)
]
MIXED = [Number("age", 0, 100), Number("dose", 0, 10, unit="mg"), Flag("smoker", missing=False)]


def numbers() -> Lived:
    """Limits by degrees, so that the logistic member of the mixture wins."""
    life = Life(
        PATIENTS,
        lambda c, arm: c["age"] / 100 + c["dose"] / 10 < (0.6 if arm == 0 else 1.3),
        arms=[Arm(0, "strong"), Arm(1, "weak")],
        features=MIXED,
        seed=3,
        policy=LearnedMask(sigma=0.6, v=0.2),
        on_empty="least_bad",
        reward_range=(-3.0, 5.0),
        budget=30,
        on_doubt="wait",
        ask_at_most=2,
    )
    life.lessons(14)
    life.play(8, skip=[2])
    yield life
    life.teach_many(20)
    life.agent.retract(life.agent.examples[-3], at=life.tick())
    life.play(8, keep=[1])
    rule = Rule("old", when=[When("age", at_least=70, at_most=90.5)], arms=[0])
    life.agent.declare(rule, at=life.tick())
    life.play(3)
    yield life


def measures() -> Lived:
    """Numbers alone: the rules are left out of the mixture. The teacher errs."""
    life = Life(
        [{"m": 0.1 * i, "w": 50.0 + i} for i in range(12)],
        lambda c, arm: (c["m"] > 0.55) == (arm == "up"),
        arms=["up", "down"],
        features=[Number("m", 0, 1.1), Number("w", 40, 70)],
        seed=12,
        teacher_error=0.1,
        teaching="arm",
        budget=6,
        on_doubt="play_safe",
        prior="paper",
    )
    life.lessons(12, wrong=[3])
    life.play(5)
    yield life
    life.teach(16)
    life.play(6)
    yield life


WIDE = "abcdefghijklmnopqrstu"


def wide() -> Lived:
    """So many features that pairs are sampled, and cleared one by one."""
    life = Life(
        some_flags(WIDE, 12, 1),
        lambda c, arm: not (c["a"] or (c["c"] and c["d"])),
        arms=[Arm(0, group="g"), Arm(1, group="g")],
        features=flags(WIDE),
        seed=1,
        budget=5,
    )
    life.lessons(5)
    life.play(4)
    yield life
    ids = life.teach(6)
    life.agent.retract(ids[1], at=life.tick())
    life.play(6)
    yield life


def rules() -> Lived:
    """Rules of single features, an arm at a time; questions lapse after two decisions."""
    life = Life(
        all_flags("pqr"),
        lambda c, arm: not c["p"] or arm == 2,
        arms=3,
        features=flags("pqr"),
        limits="rules",
        share="arm",
        teaching="arm",
        seed=5,
        policy=LearnedMask(sigma=0.0, v=0.0),
        budget=8,
        patience=2,
        max_pending=3,
        ridge=0.3,
    )
    life.lessons(3)
    for _ in range(4):
        life.agent.decide(life.context(), at=life.tick())
    life.play(4, keep=[0, 1, 2, 3])
    yield life
    life.teach(3)
    life.agent.add_arms(2, at=life.tick())
    life.play(8, skip=[2], keep=[3, 4])
    life.batch(5, propensity=False)
    life.batch(3, named=True, propensity=False, details=False)
    yield life


MANY = "abcdefghijklmn"


def crosses() -> Lived:
    """Rules with crosses over 14 features, which are sampled, of a teacher who errs."""
    life = Life(
        some_flags(MANY, 10, 2),
        lambda c, arm: not (c["b"] and c["c"]) if arm == "one" else not c["e"],
        arms=["one", "two"],
        features=flags(MANY),
        limits="rules",
        crosses=True,
        teacher_error=0.1,
        doubt=0.02,
        seed=6,
        on_doubt="play_safe",
        budget=3,
        on_empty="least_bad",
    )
    life.lessons(5, wrong=[1])
    life.play(5)
    yield life
    for one in life.open_doubts()[:1]:
        life.agent.answer(one.id, False, by="Ann", note="never", at=life.tick())
    life.agent.retract(life.agent.examples[0], at=life.tick())
    life.play(5)
    yield life


def errors() -> Lived:
    """Rules with crosses over few features, all weighed; the teacher's errors are estimated."""
    life = Life(
        all_flags("uvw"),
        lambda c, arm: not (c["u"] and c["v"]),
        arms=[Arm("s", group="g"), Arm("t", group="g"), Arm("z")],
        features=flags("uvw"),
        limits="rules",
        crosses=True,
        teacher_error=None,
        seed=8,
        prior="paper",
        policy=LearnedMask(sigma=0.5, v=0.25),
        exact_denials=False,
        teaching="random",
    )
    life.lessons(24, wrong=[2, 6])
    life.play(4)
    yield life
    life.agent.regroup({"s": None, "z": "g"}, "logistic", at=life.tick())
    life.play(4)
    life.agent.regroup({"s": "g"}, "rules", at=life.tick())
    life.teach(10)
    life.play(4)
    yield life


def logistic() -> Lived:
    """Logistic limits on plain numbers, by the paper's dial; thompson teaching."""
    life = Life(
        PLAIN,
        lambda c, arm: c[0] + c[1] > 0.2 * len(str(arm)) - 0.5,
        arms=["a", "bb", 3],
        features=3,
        limits="logistic",
        seed=9,
        prior="paper",
        policy=BehaviorConstrained(sigma=0.5, v=0.1, v_constraint=0.4),
        teaching="thompson",
        v_teaching=0.4,
    )
    life.lessons(6)
    life.play(5)
    yield life
    life.agent.set_sigma(0.1, at=life.tick())
    life.agent.retract(life.agent.examples[1], at=life.tick())
    life.teach(5)
    life.play(6)
    life.batch(4)
    yield life


def logistic_crosses() -> Lived:
    """Logistic limits with crosses, by a mask that asks."""
    life = Life(
        PATIENTS[:12],
        lambda c, arm: not (c["smoker"] and c["dose"] > 3) or arm == "weak",
        arms=["strong", "weak"],
        features=MIXED,
        limits="logistic",
        crosses=True,
        seed=10,
        teaching="arm",
        budget=20,
        on_empty="safe_arm",
        safe_arm="weak",
    )
    life.lessons(8)
    life.play(5)
    yield life
    life.teach(8)
    life.agent.adopt(life.certificate(12), at=life.tick())
    life.play(6, skip=[1])
    yield life


def found(limits: str | None = None) -> Lived:
    """Groups that are found; they are accepted if `limits` is given."""
    life = Life(
        all_flags("xyz"),
        lambda c, arm: not (c["x"] if arm < 3 else c["y"]),
        arms=5,
        features=flags("xyz"),
        limits="found",
        seed=11,
        budget=10,
        doubt=0.01,
    )
    life.lessons(9)
    life.play(4)
    if limits is None:
        yield life
    life.teach(8)
    life.agent.retract(life.agent.examples[3], at=life.tick())
    life.play(4)
    if limits is not None:
        yield life
        life.agent.regroup(life.agent.proposal(), limits, by="Dan", at=life.tick())
        life.play(4)
    else:
        life.agent.add_arms(1, at=life.tick())
        life.play(2)
    yield life


def accepted() -> Lived:
    """Groups that were found, proposed and accepted."""
    return found("auto")


LIVES: dict[str, Callable[[], Lived]] = {
    one.__name__: one
    for one in (
        everything,
        labels,
        numbers,
        measures,
        wide,
        rules,
        crosses,
        errors,
        logistic,
        logistic_crosses,
        found,
        accepted,
        linear,
        linear_signs,
        linear_minus,
        epsilon,
        crowd,
        greedy,
        uniform,
        first_form,
        second_form,
    )
}
