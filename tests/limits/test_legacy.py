"""The mixture: weighed by evidence, in doubt as long as any kind of weight is, surprised aloud."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.limits.base import Beliefs, Prediction
from bridle.limits.clustered import FoundLimits
from bridle.limits.legacy import FLOOR, PRIOR, AutoLimits
from bridle.limits.logistic import LogisticLimits
from bridle.limits.rules import RuleLimits

ALL = np.array(list(itertools.product([0.0, 1.0], repeat=3)))


def bits(limits: AutoLimits) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in limits.to_state().items()}


def answers(seed: int, n: int, d: int = 3, pair: bool = True):
    """Answers of a teacher who denies features 0 and 1 together, or each of them, for all."""
    rng = np.random.default_rng(seed)
    C = (rng.random((n, d)) < 0.5).astype(float)
    both = C[:, :2].sum(axis=1)
    return C, rng.integers(0, 2, n), both < 2 if pair else both < 1, rng.integers(0, 2**63, n)


def teach(limits, told):
    for c, k, allowed, key in zip(*told, strict=True):
        limits.learn(c, k, allowed, key)
    return limits


class Stubborn(Beliefs):
    """Always gives one probability, and knows nothing beyond the protocol."""

    arms, features, units = 2, 3, 2
    unit_of = np.arange(2)

    def __init__(self, p: float) -> None:
        self.p = p

    def learn(self, context, arm, allowed, key=0):
        return np.array([arm])

    def predict(self, unit, contexts):
        p = np.full(len(contexts), self.p)
        return Prediction(p, p > 0.99, p > 0.01, np.zeros(len(p)), np.zeros(len(p)))

    def predict_all(self, contexts):
        one = np.zeros((2, len(contexts)))
        return Prediction(one + self.p, one + self.p > 0.99, one + self.p > 0.01, one, one)

    def grow(self, arms=1, groups=None):
        raise NotImplementedError

    def copy(self):
        return Stubborn(self.p)

    def refit(self, unit, contexts, allowed, keys):
        return np.array([unit])

    def to_state(self):
        return {"p": np.array(self.p)}

    @classmethod
    def from_state(cls, state):
        return cls(float(state["p"]))


def test_the_mixture_keeps_the_protocol() -> None:
    limits = AutoLimits(arms=3, features=4, groups=["b", "a", "b"])
    assert isinstance(limits, Beliefs)
    assert (limits.arms, limits.features, limits.units) == (3, 4, 2)
    assert limits.unit_of.tolist() == [0, 1, 0]
    total = math.fsum(PRIOR.values())
    assert limits.weights() == pytest.approx({k: v / total for k, v in PRIOR.items()})
    assert limits.learn(np.ones(4), 0, True).tolist() == [0, 1]


def test_weights_are_prior_times_the_probabilities_that_were_given() -> None:
    told = answers(1, 12)
    limits = AutoLimits(arms=2, features=3)
    alone: dict[str, Any] = {
        "singles": RuleLimits(arms=2, features=3),
        "pairs": RuleLimits(arms=2, features=3, pairs=True),
        "logistic": LogisticLimits(arms=2, features=3),
    }
    total = math.fsum(PRIOR.values())
    weight = {name: PRIOR[name] / total for name in alone}
    for c, k, allowed, key in zip(*told, strict=True):
        for name, member in alone.items():
            if name == "logistic":
                q = float(np.clip(member.predict(k, [c]).p[0], FLOOR, 1 - FLOOR))
            else:
                q = float(member.predict_answer(k, [c])[0])
            weight[name] *= q if allowed else 1 - q
            member.learn(c, k, allowed, key)
        limits.learn(c, k, allowed, key)
    share = math.fsum(weight.values())
    assert limits.log_evidence == pytest.approx(math.log(share), abs=1e-9)
    weight = {name: w / share for name, w in weight.items()}
    assert limits.weights() == pytest.approx(weight, abs=1e-9)
    for u in range(2):
        looks = {name: member.predict(u, ALL) for name, member in alone.items()}
        p = sum(weight[name] * looks[name].p for name in alone)
        look = limits.predict(u, ALL)
        assert look.p == pytest.approx(p, abs=1e-9)
        assert look.safe.tolist() == (look.p >= 0.99).tolist()
        assert look.possible.tolist() == (look.p >= 0.01).tolist()
        assert (look.information >= 0.0).all()


@pytest.mark.parametrize(("pair", "name"), [(True, "pairs"), (False, "singles")])
def test_the_kind_that_fits_wins_and_is_right(pair, name) -> None:
    limits = teach(AutoLimits(arms=2, features=3), answers(2, 60, pair=pair))
    before = AutoLimits(arms=2, features=3).weights()
    assert limits.weights()[name] > before[name]
    assert limits.weights()["logistic"] < 0.01
    assert limits.surprised == 0
    truth = ALL[:, :2].sum(axis=1) < (2 if pair else 1)
    for u in range(2):
        look = limits.predict(u, ALL)
        assert look.safe.tolist() == truth.tolist()
        assert look.possible.tolist() == truth.tolist()


def test_it_is_not_sure_of_what_only_one_kind_is_sure_of() -> None:
    members = {"yes": Stubborn(1.0), "no": Stubborn(0.5)}
    limits = AutoLimits(arms=2, features=3, members=members, prior={"yes": 97, "no": 3})
    assert limits.predict(0, ALL).p == pytest.approx(np.full(8, 0.985))
    assert not limits.predict(0, ALL).safe.any()
    # Two kinds that would say different things: to ask tells which is right.
    assert (limits.predict(0, ALL).information > 0.0).all()
    assert limits.predict_answer(1, ALL) == pytest.approx(np.full(8, 0.97 * (1 - FLOOR) + 0.015))


def test_a_sure_mixture_is_surprised_and_says_when() -> None:
    limits = AutoLimits(arms=2, features=3, members={"yes": Stubborn(1.0)})
    limits.learn(ALL[1], 0, True)
    limits.learn(ALL[1], 1, False)
    (surprise,) = limits.surprises
    assert (surprise.answer, surprise.unit, surprise.allowed) == (2, 1, False)
    assert surprise.probability == pytest.approx(FLOOR)
    assert (limits.answers, limits.surprised) == (2, 1)


def test_three_features_together_are_beyond_the_rules_and_surprise_them() -> None:
    """All pairs are allowed, all three are denied: no rule can say so."""
    limits = AutoLimits(arms=2, features=3)
    for _ in range(4):
        for c in ALL:
            limits.learn(c, 0, bool(c.sum() < 3))
    assert limits.surprised > 0
    assert limits.weights()["logistic"] > 0.5


def test_known_terms_bind_the_rules() -> None:
    limits = AutoLimits(arms=2, features=3, known={0: {0: True, (1, 2): True}})
    assert limits.members["pairs"].predict(0, ALL).p[[3, 4]].tolist() == [0.0, 0.0]
    assert limits.members["singles"].predict(0, ALL).p[4] == 0.0
    assert limits.members["singles"].predict(0, ALL).p[3] > 0.0


def test_known_terms_can_be_replaced() -> None:
    """As if they had been known from the start, bit for bit; the number of answers counts on."""
    C, which, allowed, key = answers(8, 20, d=6)
    settings = {"arms": 2, "features": 6, "chains": 30}
    known = {0: {3: True, (4, 5): True}, 1: {2: False}}
    limits = teach(AutoLimits(**settings, known={0: {1: True}}), (C, which, allowed, key))
    fresh = AutoLimits(**settings, known=known)
    twin = limits.copy()
    before = bits(twin)
    for u in range(2):
        mine = which == u
        limits.set_known(u, known[u])
        limits.refit(u, C[mine], allowed[mine], key[mine])
        fresh.refit(u, C[mine], allowed[mine], key[mine])
    a, b = bits(limits), bits(fresh)
    counted = {"counts", "surprises", "surprise"}
    assert {k: v for k, v in a.items() if k not in counted} == {
        k: v for k, v in b.items() if k not in counted
    }
    assert bits(twin) == before
    limits.set_known(0, {})
    limits.set_known(1, {})
    nothing = bits(AutoLimits(**settings))
    assert {k: v for k, v in bits(limits).items() if k not in counted} == {
        k: v for k, v in nothing.items() if k not in counted
    }


def test_a_bad_term_is_refused_and_changes_nothing() -> None:
    limits = teach(AutoLimits(arms=2, features=3), answers(8, 9))
    before = bits(limits)
    for unit, terms in ((2, {}), (0, {3: True}), (0, {0: "no"}), (0, {(0, 0): True}), (0, [1])):
        with pytest.raises(InvalidValue):
            limits.set_known(unit, terms)
    assert bits(limits) == before


def test_the_rule_is_read_back_from_the_members_that_are_rules() -> None:
    names = ["a", "b", "c"]
    limits = teach(AutoLimits(arms=2, features=3), answers(2, 60))
    assert limits.describe(0, names).denied == ("a with b",)
    assert limits.describe(0, names).allowed == ("a", "b", "c", "a with c", "b with c")
    limits = teach(AutoLimits(arms=2, features=3), answers(2, 60, pair=False))
    reading = limits.describe(1, names)
    assert reading.denied == ("a", "b")  # and no pair with them
    assert reading.allowed == ("c",)
    limits = AutoLimits(arms=2, features=3)
    pairs, singles = limits.members["pairs"], limits.members["singles"]
    # Weighed among themselves, .2 to .8: a pair is .8 · .1 likely, a feature .33 by both.
    assert pairs.marginals(0) == pytest.approx([0.33] * 3 + [0.1] * 3)  # type: ignore[attr-defined]
    assert singles.marginals(0) == pytest.approx([0.33] * 3)  # type: ignore[attr-defined]
    assert len(limits.describe(0, names).unsure) == 6
    limits.doubt = 0.081
    assert limits.describe(0, names).unsure == ("a", "b", "c")
    limits.doubt = 0.079
    assert len(limits.describe(0, names).unsure) == 6


def test_no_rule_can_be_read_back_where_none_is_a_member() -> None:
    limits = AutoLimits(arms=2, features=3, members={"mine": Stubborn(0.5)})
    with pytest.raises(NotPossible, match="no rules among their members"):
        limits.describe(0, ["a", "b", "c"])


def test_doubt_is_that_within_the_kinds_and_between_them() -> None:
    limits = teach(AutoLimits(arms=2, features=3), answers(1, 6))
    look = limits.predict(0, ALL)
    square = np.zeros(8)
    for name, weight in limits.weights().items():
        one = limits.members[name].predict(0, ALL)
        square += weight * (one.sd**2 + one.p**2)
    assert look.sd == pytest.approx(np.sqrt(square - look.p**2), abs=1e-9)
    two = {"yes": Stubborn(1.0), "no": Stubborn(0.0)}
    limits = AutoLimits(arms=2, features=3, members=two, prior={"yes": 3, "no": 1})
    assert limits.predict(0, ALL).sd == pytest.approx(np.full(8, math.sqrt(3 / 16)))


def test_members_of_any_kind_are_looked_at_all_at_once() -> None:
    members = {
        "found": FoundLimits(arms=2, features=3),
        "mine": Stubborn(0.7),
        "auto": AutoLimits(arms=2, features=3),
    }
    limits = teach(AutoLimits(arms=2, features=3, members=members), answers(9, 6))
    every = limits.predict_all(ALL)
    for u in range(2):
        one = limits.predict(u, ALL)
        for name in ("p", "safe", "possible", "information", "sd"):
            assert getattr(every, name)[u].tobytes() == getattr(one, name).tobytes()


def test_found_groups_cannot_forget_inside_a_mixture() -> None:
    members = {"found": FoundLimits(arms=2, features=3)}
    limits = AutoLimits(arms=2, features=3, members=members)
    limits.learn(ALL[3], 0, True)
    with pytest.raises(NotPossible, match="'found' cannot forget"):
        limits.refit(0, ALL[:1], [True], [0])
    with pytest.raises(NotPossible, match="'found' cannot forget"):
        limits.set_known(0, {})


def test_a_noisy_teacher_is_found_out() -> None:
    C, which, allowed, key = answers(3, 150, pair=False)
    flipped = allowed ^ (np.random.default_rng(3).random(150) < 0.15)
    limits = teach(AutoLimits(arms=2, features=3, error=None), (C, which, flipped, key))
    assert limits.noisy
    true = teach(AutoLimits(arms=2, features=3, error=None), (C, which, allowed, key))
    assert not true.noisy
    assert not AutoLimits(arms=2, features=3).noisy


@pytest.mark.parametrize("error", [0.001, None])
def test_relearning_leaves_the_belief_of_what_stands(error) -> None:
    C, which, allowed, key = answers(4, 20)
    settings = {"arms": 2, "features": 3, "error": error}
    limits = teach(AutoLimits(**settings), (C, which, allowed, key))
    stands = [i for i in range(20) if which[i] == 0 and i % 3]
    limits.refit(0, C[stands], allowed[stands], key[stands])
    rest = [i for i in range(20) if which[i] == 1 or i in stands]
    without = teach(AutoLimits(**settings), (C[rest], which[rest], allowed[rest], key[rest]))
    assert limits.answers == 20 + len(stands)
    assert limits.weights() == pytest.approx(without.weights(), abs=1e-9)
    for u in range(2):
        assert limits.predict(u, ALL).p == pytest.approx(without.predict(u, ALL).p, abs=1e-9)


def test_a_restart_and_a_copy_have_the_bits_of_none() -> None:
    told = answers(5, 16, d=6)
    settings = {"arms": 2, "features": 6, "chains": 30, "doubt": 0.1}
    whole = teach(AutoLimits(**settings), told)
    limits = teach(AutoLimits(**settings), [x[:7] for x in told])
    twin = limits.copy()
    limits = AutoLimits.from_state(limits.to_state())
    before = bits(twin)
    assert bits(limits) == before
    teach(limits, [x[7:] for x in told])
    assert bits(twin) == before
    teach(twin, [x[7:] for x in told])
    assert bits(limits) == bits(twin) == bits(whole)
    assert limits.surprises == whole.surprises
    assert limits.predict(0, told[0]).p.tobytes() == whole.predict(0, told[0]).p.tobytes()


def test_new_arms_know_what_their_group_knows() -> None:
    limits = AutoLimits(arms=2, features=3, groups=["x", "y"])
    for _ in range(3):
        limits.learn(ALL[4], 0, False)
    limits.grow(2, ["x", None])
    assert limits.unit_of.tolist() == [0, 1, 0, 2]
    assert limits.predict(2, ALL).p[4] > 0.1 > limits.predict(0, ALL).p[4]
    limits.learn(ALL[4], 3, True)


def test_members_of_your_own_are_read_back_by_your_own_reader() -> None:
    limits = AutoLimits(arms=2, features=3, members={"mine": Stubborn(0.7)})
    limits.learn(ALL[1], 0, True)
    state = limits.to_state()
    with pytest.raises(CorruptState):
        AutoLimits.from_state(state)
    again = AutoLimits.from_state(state, {"mine": lambda arrays: Stubborn(float(arrays["p"]))})
    assert bits(again) == bits(limits)
    limits.refit(0, ALL, np.ones(8, bool), np.zeros(8, int))
    assert limits.log_evidence == pytest.approx(8 * math.log(0.7))
    limits.set_known(0, {})
    assert limits.log_evidence == 0.0


BAD = {
    "doubt": lambda: AutoLimits(arms=2, features=3, doubt=0.7),
    "no members": lambda: AutoLimits(arms=2, features=3, members={}),
    "no limits": lambda: AutoLimits(arms=2, features=3, members={"x": 3}),  # type: ignore[dict-item]
    "other arms": lambda: AutoLimits(arms=5, features=3, members={"x": Stubborn(1.0)}),
    "a slash": lambda: AutoLimits(arms=2, features=3, members={"x/y": Stubborn(1.0)}),
    "prior": lambda: AutoLimits(arms=2, features=3, prior={"pairs": 1.0}),
    "prior of 0": lambda: AutoLimits(arms=2, features=3, prior=dict.fromkeys(PRIOR, 0.0)),
    "context": lambda: AutoLimits(arms=2, features=3).learn([1.0], 0, True),
    "arm": lambda: AutoLimits(arms=2, features=3).learn(ALL[0], 2, True),
    "answer": lambda: AutoLimits(arms=2, features=3).learn(ALL[0], 0, "yes"),
    "unit": lambda: AutoLimits(arms=2, features=3).predict(2, ALL),
    "keys": lambda: AutoLimits(arms=2, features=3).refit(0, ALL, np.ones(8, bool), [1]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_values_are_refused(name) -> None:
    with pytest.raises(InvalidValue):
        BAD[name]()


DAMAGE = {
    "no prior": lambda s: s.pop("prior"),
    "evidence": lambda s: s.update(evidence=s["evidence"] * np.inf),
    "no member": lambda s: s.update(members=np.array([])),
    "an unknown member": lambda s: s.update(members=np.array(["x"])),
    "damaged member": lambda s: s.pop("pairs/seed"),
    "an array too many": lambda s: s.update(more=np.zeros(1)),
    "counts": lambda s: s.update(counts=np.zeros(3, int)),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_state_is_refused(name) -> None:
    state = teach(AutoLimits(arms=2, features=3), answers(6, 5)).to_state()
    DAMAGE[name](state)
    with pytest.raises(CorruptState):
        AutoLimits.from_state(state)


@pytest.mark.parametrize("state", [None, 3, [], {}])
def test_what_is_no_state_is_refused(state) -> None:
    with pytest.raises(CorruptState):
        AutoLimits.from_state(state)


def test_a_declared_rate_of_error_holds_for_all_members():
    # Else logistic limits, which know of no errors, would outweigh rules that do while none comes.
    limits = AutoLimits(arms=1, features=2, error=0.1)
    before = limits.weights()["logistic"]
    for n in range(120):
        limits.learn([1.0, 0.0], 0, True, key=n)
    assert limits.weights()["logistic"] < before
    assert limits.predict(0, [[1.0, 0.0]]).safe[0]
    assert limits.predict_answer(0, [[1.0, 0.0]])[0] <= 0.9 + 1e-12
