"""Arms that lack a feature: what is not known of them is in doubt, and not taken for nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridle import Abstention, Agent, Arm, Decision, Question, Rule, When
from bridle.errors import CorruptState, InvalidValue
from bridle.limits import PairLimits
from bridle.limits.joint import Side
from bridle.schema import Category, Flag, Labels, Number, Schema
from tests.histories import bits

BANDS = Schema([Category("band", ["under 13", "adult"])])
FILMS = Schema(
    [
        Labels("genres", ["Horror", "Comedy", "Drama"], optional=True),
        Category("rating", ["G", "PG", "R"], optional=True),
        Number("year", 1980, 2020, optional=True),
    ]
)
CHILD, ADULT = np.eye(2)


def film(**features: object) -> dict[str, object]:
    return {"genres": ["Comedy"], "rating": "G", "year": 2000} | features


FULL = [
    film(genres=genres, rating=rating, year=year)
    for genres in (["Horror"], ["Comedy"], ["Drama"], ["Comedy", "Drama"], [])
    for rating in ("G", "PG", "R")
    for year in (1980, 2020)
]


def may(context: np.ndarray, features: dict[str, object]) -> bool:
    return bool(context[1]) or ("Horror" not in features["genres"] and features["rating"] != "R")  # type: ignore[operator]


def taught(more: list[dict[str, object]], kind: str = "auto") -> PairLimits:
    """Limits that were taught every complete film, and know others that nobody was asked about."""
    rows = FILMS.encode_many([*FULL, *more])
    limits = PairLimits(kind=kind, context=BANDS, arm=FILMS, rows=rows)
    for key in range(3 * len(FULL)):
        k = key * 7 % len(FULL)
        for context in (CHILD, ADULT):
            limits.learn(context, k, may(context, FULL[k]), 2 * key + int(context[1]))
    return limits


def same_state(one: Any, other: Any) -> bool:
    a, b = one.to_state(), other.to_state()
    return a.keys() == b.keys() and all(a[n].tobytes() == b[n].tobytes() for n in a)


@pytest.mark.parametrize("kind", ["auto", "rules"])
def test_what_is_not_given_is_in_doubt_and_none_is_known(kind: str) -> None:
    gaps = [film(genres=None), film(rating=None), {}, film(genres=["Comedy", None])]
    limits, n = taught([*gaps, film(genres=[])], kind), len(FULL)
    child, adult = limits.predict_all([CHILD, ADULT]).safe[n:].T.tolist()
    assert child == [False, False, False, False, True]
    assert adult == [True] * 5  # whatever they are, no rule that is believed denies them
    every = limits.predict_all([CHILD])
    assert every.possible[n:].all()  # so that they are asked about
    assert (every.p[n : n + 4, 0] < 0.6).all()
    met = limits.predict_rows([CHILD], FILMS.encode_many(gaps))
    assert not met.safe.any() and met.possible.all()


def test_a_feature_on_which_nothing_hangs_may_be_missing() -> None:
    limits, n = taught([film(year=None), film(year=None, genres=None)]), len(FULL)
    assert limits.predict_all([CHILD]).safe[n:, 0].tolist() == [True, False]


def test_what_is_denied_in_any_case_stays_so() -> None:
    limits = taught([film(rating="R", genres=None)])
    prediction = limits.predict_all([CHILD])
    assert not prediction.possible[-1, 0]


@pytest.mark.parametrize("kind", ["auto", "rules"])
def test_an_answer_about_an_arm_is_about_that_arm_and_context_alone(kind: str) -> None:
    limits, n = taught([film(genres=None), film(genres=None)], kind), len(FULL)
    assert limits.kind_of[n] != limits.kind_of[n + 1]
    limits.learn(CHILD, n, True, 900)
    p = limits.predict_all([CHILD, ADULT])
    assert p.safe[n:].tolist() == [[True, True], [False, True]]
    assert limits.first_safe(CHILD, np.array([n + 1, n])) == 1
    limits.learn(CHILD, n, False, 901)
    assert not limits.predict_all([CHILD]).safe[n, 0]


def test_gaps_say_nothing_of_how_alike_equal_arms_are() -> None:
    limits = taught([film(genres=None)])
    before = limits._inner.in_common(CHILD.tobytes())
    limits.learn(CHILD, len(FULL), False, 900)
    assert limits._inner.in_common(CHILD.tobytes()) == before


def test_filling_in_what_was_missing_settles_it() -> None:
    limits, n = taught([film(genres=None), film(genres=None)]), len(FULL)
    limits.change(n, FILMS.encode(film(genres=["Comedy"])))
    limits.change(n + 1, FILMS.encode(film(genres=["Horror"])))
    p = limits.predict_all([CHILD])
    assert p.safe[n:, 0].tolist() == [True, False] and not p.possible[n + 1, 0]
    assert limits.unknown(n) == () and limits.unknown(0) == ()


def test_state_and_copies_keep_what_lacks_a_feature_apart() -> None:
    limits, n = taught([film(genres=None), film(genres=None), film(year=None)]), len(FULL)
    limits.learn(CHILD, n, True, 900)
    limits.change(n + 2, FILMS.encode(film()))  # leaves a kind of no arm
    limits.grow(1, rows=FILMS.encode_many([film(genres=None)]))
    other = PairLimits.from_state(limits.to_state())
    twin = limits.copy()
    for one in (other, twin):
        assert np.array_equal(one.predict_all([CHILD]).p, limits.predict_all([CHILD]).p)
    for one in (limits, other, twin):
        one.learn(CHILD, n + 1, False, 901)
        one.grow(1, ["new"], FILMS.encode_many([film(genres=None)]))  # a group is one more word
        one.learn(CHILD, n + 3, True, 902)
    for one in (other, twin):
        assert np.array_equal(one.predict_all([CHILD]).p, limits.predict_all([CHILD]).p)
        assert same_state(one, limits)
    assert limits.predict_all([CHILD]).safe[n:, 0].tolist() == [True, False, True, True, False]
    damaged = limits.to_state()
    damaged["kind_of"][n + 1] = damaged["kind_of"][n]
    with pytest.raises(CorruptState, match="two kinds"):
        PairLimits.from_state(damaged)


def test_an_unknown_number_tells_bounds_nothing() -> None:
    arm = Schema([Number("year", 0, 100, optional=True), Flag("loud")])
    rows = arm.encode_many([{"year": y, "loud": False} for y in (10, 40, 60, 90)])
    more = arm.encode_many([{"loud": False}, {"loud": False}])
    context = Schema([Flag("child")])
    limits = PairLimits(context=context, arm=arm, rows=np.concatenate([rows, more]))
    for key in range(40):
        k = key % 4
        limits.learn([1.0], k, k < 2, key)
    p = limits.predict_all([[1.0]])
    assert p.safe[:, 0].tolist() == [True, True, False, False, False, False]
    assert p.possible[4:].all()
    bounds = limits.members["bounds"].limits.copy()
    limits.learn([1.0], 4, False, 99)
    assert same_state(bounds, limits.members["bounds"].limits)
    refilled = limits.predict_all([[1.0]])
    assert refilled.safe[:2].all()  # the middle that stands for it was not denied


def test_all_that_an_arm_could_be_is_looked_at() -> None:
    side = Side(FILMS)
    rows, which = side.fillings(FILMS.encode(film(genres=None, year=None)))
    words = {tuple(row[:3]) for row, n in zip(rows, which, strict=True) if n == 1}
    assert words == {(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)}
    assert {row[8] for row, n in zip(rows, which, strict=True) if n == 2} == {0.0, 1.0}
    whole = [row for row, n in zip(rows, which, strict=True) if n == 0]
    assert [(*row[:3], row[8]) for row in whole] == [(1, 1, 1, 0), (1, 1, 1, 1)]
    assert side.open(rows).all()


# -- an agent --


def agent_of(**more: object) -> Agent:
    arms = [Arm(f"f{n}", features=one) for n, one in enumerate(FULL)]
    arms += [Arm("bare"), Arm("none", features={"genres": [], "rating": "G", "year": 2000})]
    given = {"on_empty": "abstain", "seed": 4} | more
    agent = Agent(arms=arms, features=BANDS, arm_features=FILMS, **given)
    for n in range(60):
        k = n * 7 % len(FULL)
        for band, context in (("under 13", CHILD), ("adult", ADULT)):
            agent.teach({"band": band}, f"f{k}", may(context, FULL[k]))
    return agent


def test_a_film_of_which_nothing_is_known_is_not_played_to_a_child() -> None:
    agent = agent_of()
    for n in range(30):
        made = agent.decide({"band": "under 13"}, among=["bare"], id=f"d{n}")
        assert isinstance(made, Abstention)
    assert isinstance(agent.decide({"band": "adult"}, among=["bare"]), Decision)
    believed = agent.believed({"band": "under 13"})
    at = believed.arms.index("bare")
    assert believed.why[at] == ("not surely allowed, by the limits: genres, rating, year not given")
    visitor = Arm("new", features={"rating": "G"})
    assert isinstance(agent.decide({"band": "under 13"}, among=[visitor]), Abstention)
    assert isinstance(agent.decide({"band": "under 13"}, among=["none"]), Decision)


def test_it_is_asked_about_and_played_once_it_is_allowed() -> None:
    agent = agent_of(budget=10, answer_price=0.0)
    for _ in range(10):  # it asks once it could be worth something
        made = agent.decide({"band": "under 13"}, among=["bare"])
        if isinstance(made, Question):
            break
    assert isinstance(made, Question) and made.arm == "bare"
    then = agent.answer(made, allowed=True).then
    assert isinstance(then, Decision)
    again = agent.decide({"band": "under 13"}, among=["bare"])
    assert isinstance(again, Decision)


def test_a_declared_rule_covers_what_may_fall_under_it() -> None:
    rules = [
        Rule("no horror", when=[When(arm="genres", has="Horror"), When("band", equals="under 13")]),
        Rule("no R", when=[When(arm="rating", equals="R")]),
        Rule("old", when=[When(arm="year", at_most=1981)]),
    ]
    arms = [
        Arm("bare"),
        Arm("known", features=film()),
        Arm("more", features=film(genres=["Comedy", None])),
        Arm("unrated", features=film(rating=None)),
    ]
    agent = Agent(arms=arms, features=BANDS, arm_features=FILMS, rules=rules, seed=1)
    assert agent.believed({"band": "under 13"}).why[:1] == ("denied by the rule 'no horror'",)
    why = agent.believed({"band": "under 13"}).why
    assert [None if one is None else "rule" in one for one in why] == [True, False, True, True]
    why = agent.believed({"band": "adult"}).why
    assert ["rule" in (one or "") for one in why] == [True, False, False, True]
    made = agent.decide({"band": "adult"}, among=[Arm("visitor", features=film(rating=None))])
    assert isinstance(made, Abstention)


def test_contexts_are_given_in_full() -> None:
    loose = Schema([Flag("child", optional=True)])
    with pytest.raises(InvalidValue, match="only arms may lack some"):
        Agent(arms=2, features=loose)


def test_settings_in_a_log_keep_what_is_optional() -> None:
    agent = agent_of()
    assert agent.settings.arm_features is not None
    again = Schema.from_json(agent.settings.arm_features.to_json())
    assert again == FILMS and again.optional == FILMS.optional
    plain = Schema([Labels("genres", ["Horror"], missing=())])
    assert plain.to_json() == [
        {"kind": "labels", "name": "genres", "values": ["Horror"], "missing": []}
    ]


def test_what_was_allowed_is_certain_no_more_once_the_arm_is_another(tmp_path) -> None:
    agent = agent_of()
    child = {"band": "under 13"}
    agent.add_arms([Arm("fixed", features=film(genres=["Comedy"], rating=None))])
    for item in ("Tom", "Ann"):
        agent.teach(child, "fixed", item == "Tom", item=item)
    number = len(agent.arms) - 1

    def certain(one: Agent, item: str) -> float:
        return float(one.believed(child, item=item).p[number])

    assert (certain(agent, "Tom"), certain(agent, "Ann")) == (1.0, 0.0)
    agent.change_arms([Arm("fixed", label="a label is nothing", features=agent.arms[-1].features)])
    assert certain(agent, "Tom") == 1.0
    agent.change_arms([Arm("fixed", features=film(genres=["Horror"], rating="R"))])
    assert certain(agent, "Tom") < 0.99 and certain(agent, "Ann") == 0.0
    agent.save(tmp_path / "saved")
    again = Agent.load(tmp_path / "saved")
    for one in (agent, again):
        assert certain(one, "Tom") < 0.99 and certain(one, "Ann") == 0.0
        one.teach(child, "fixed", True, item="Tom")  # as it is now
        assert certain(one, "Tom") == 1.0
        one.retract(next(example.id for example in one.examples if example.allowed))
        assert certain(one, "Tom") == 1.0
    assert bits(agent) == bits(again)


def test_a_gap_that_may_hide_what_was_denied_here_is_in_doubt() -> None:
    kinds = {"c": ["Comedy"], "d": ["Drama"], "h": ["Horror"]}
    arms = [Arm(name, features=film(genres=genres)) for name, genres in kinds.items()]
    both = film(genres=["Comedy", "Drama"])
    arms += [Arm("cd", features=both), Arm("gap", features=film(genres=None))]
    agent = Agent(arms=arms, features=BANDS, arm_features=FILMS, limits="rules", seed=1)
    adult = {"band": "adult"}
    for _ in range(150):
        for name in kinds:
            agent.teach(adult, name, True)
    assert isinstance(agent.make.decided(adult, among=["gap"]), Decision)
    agent.teach(adult, "cd", False)
    for one in ("gap", Arm("new", features=both)):
        assert isinstance(agent.make.decided(adult, among=[one]), Abstention)


def test_what_arms_have_in_common_is_the_same_after_a_pause(tmp_path) -> None:
    lone = Schema([Labels("g", ["Horror", "Comedy"], optional=True)])
    arms = [Arm("h", features={"g": ["Horror"]}), Arm("c", features={"g": ["Comedy"]}), Arm("gap")]
    agent = Agent(arms=arms, features=BANDS, arm_features=lone, seed=1)
    child, adult = {"band": "under 13"}, {"band": "adult"}
    agent.teach(child, "gap", True)
    for name in "hhc":
        agent.teach(adult, name, True)
    for allowed in (False, True, False):
        agent.teach(child, "h", allowed)
    agent.save(tmp_path / "saved")
    again = Agent.load(tmp_path / "saved")
    assert agent.believed(adult).p.tobytes() == again.believed(adult).p.tobytes()


def test_an_arm_that_gets_its_gap_back_is_the_same_after_a_pause(tmp_path) -> None:
    agent = agent_of()
    agent.change_arms([Arm("bare", features=film())])
    agent.save(tmp_path / "saved")
    again = Agent.load(tmp_path / "saved")
    for one in (agent, again):
        one.change_arms([Arm("bare")])
    mine, its = (one._state.limits_state.account_of for one in (agent, again))
    assert mine.tolist() == its.tolist()
    assert bits(agent) == bits(again)
