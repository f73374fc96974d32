"""The online phase with questions, against a plain loop of the same rules."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridle import BehaviorConstrained, Greedy, LinearArms, Tables, Thompson, registry
from bridle.errors import InvalidValue
from bridle.kernels import doubt, keys
from bridle.limits import Beliefs, Prediction, RuleLimits
from bridle.reward.scaled import ScaledArms
from bridle.simulate import _staff, learned_mask, online, online_asking
from bridle_studies.environments import synthetic_movies
from tests.conftest import size


class Counting(Beliefs):
    """Limits by counts: (yes + 1) / (yes + no + 2) for each unit and distinct context."""

    arms = features = units = 0
    unit_of: Any = None

    def __init__(self, arms: int, features: int, groups: list[int] | None = None) -> None:
        self.arms, self.features = arms, features
        self.unit_of = np.arange(arms) if groups is None else np.array(groups)
        self.units = int(self.unit_of.max()) + 1
        self.counts: dict[tuple[int, bytes], list[int]] = {}
        self.keys: list[int] = []

    def learn(self, context: Any, arm: int, allowed: bool, key: int = 0) -> Any:
        unit = int(self.unit_of[arm])
        self.counts.setdefault((unit, np.asarray(context).tobytes()), [0, 0])[int(allowed)] += 1
        self.keys.append(key)
        return np.array([unit])

    def predict(self, unit: int, contexts: Any) -> Prediction:
        found = [self.counts.get((unit, c.tobytes()), [0, 0]) for c in np.asarray(contexts)]
        p = np.array([(yes + 1) / (yes + no + 2) for no, yes in found])
        return Prediction(p, p >= 0.6, p >= 0.4, p * (1 - p), np.sqrt(p * (1 - p)))

    def predict_all(self, contexts: Any) -> Prediction:
        looks = [self.predict(u, contexts) for u in range(self.units)]
        names = ("p", "safe", "possible", "information", "sd")
        return Prediction(*(np.array([getattr(look, name) for look in looks]) for name in names))

    def grow(self, arms: int = 1, groups: Any = None) -> None:
        raise NotImplementedError

    def copy(self) -> Counting:
        twin = Counting(self.arms, self.features, self.unit_of.tolist())
        twin.counts = {key: list(value) for key, value in self.counts.items()}
        return twin

    def refit(self, unit: int, contexts: Any, allowed: Any, keys: Any) -> Any:
        raise NotImplementedError

    def to_state(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_state(cls, state: Any) -> Counting:
        raise NotImplementedError


def world(seed: int, M: int = 9, K: int = 5, d: int = 3, share: float = 0.5) -> Tables:
    rng = np.random.default_rng(seed)
    contexts = (rng.random((M, d)) < 0.5).astype(float)
    contexts[:, 0] = 1.0
    kinds, kind = np.unique(contexts, axis=0, return_inverse=True)
    allowed = (rng.random((len(kinds), K)) < share)[kind.ravel()]  # by what the context is
    return Tables(contexts, rng.random((M, K)), allowed)


def plain(tables: Tables, beliefs: Counting, rows: Any, seed: int, **options: Any) -> Any:
    """SPEC 11.1 and 11.3, one arm and one draw after the other."""
    prior, sigma = options.get("prior", "scaled"), options.get("sigma", 1.0)
    v = {"scaled": 1.0, "centred": 0.05, "paper": 0.25}[prior]  # of five arms
    budget, most = options.get("budget", 10**6), options.get("most", 3)
    empty = options.get("empty", -1)
    remember, flips = options.get("remember", True), options.get("flips", 0.0)
    identity, price = options.get("identity", True), options.get("price", 0.35)
    items = options.get("items", range(len(tables)))
    K = tables.arms
    unit = [int(u) for u in beliefs.unit_of]
    C = tables.contexts
    if prior != "paper":
        C = np.hstack([C, np.ones((len(tables), 1))])
    arms: Any = LinearArms(arms=K, features=C.shape[1])
    if prior == "scaled":
        arms = ScaledArms(arms=K, features=C.shape[1])
    start, answers = keys.stream(seed, keys.DECIDE), keys.stream(seed, keys.ANSWER)
    ask_start = keys.stream(seed, keys.DOUBT)
    total, count = 0.5, 1.0
    said: dict[tuple[Any, int], bool] = {}
    account: dict[tuple[Any, int], float] = {}
    lessons: dict[int, float] = {}
    played: list[int] = []
    asked: list[tuple[int, int, int, bool]] = []
    for t, row in enumerate(rows):
        case = items[row] if identity else tables.contexts[row].tobytes()
        here: dict[int, bool] = {}
        looks = 0
        while True:
            mean, sd = arms.scores(C[row])
            unit_of_draws = 1.0
            if prior == "scaled":  # whose scores are complete, in rewards
                unit_of_draws = arms.unit / arms.noise
            elif prior == "centred":
                mean = mean + total / count * (arms.covariances[:, -1] @ C[row])
            looked = [beliefs.predict(u, tables.contexts[[row]]) for u in unit]
            p = np.array([look.p[0] for look in looked])
            level, spread = sigma * mean + (1 - sigma) * p, sigma * v * unit_of_draws * sd
            known = [here.get(u, said.get((case, u))) for u in unit]
            safe = [k for k in range(K) if known[k] or (known[k] is None and looked[k].safe[0])]
            unsure = [k for k in range(K) if known[k] is None and k not in safe]
            wanted, lost, lesson, pays = -1, 0.0, 0.0, False
            if unsure and budget > 0 and looks < most:
                key = doubt.look_key(np.uint64(keys.key_of(ask_start, np.uint64(t + 1))), looks)
                z = np.empty(K)
                keys.fill_normals(np.uint64(key), z)
                drawn = level + spread * z
                judged = drawn
                if prior == "scaled":
                    z = np.empty(K)
                    keys.fill_normals(np.uint64(keys.aside(np.uint64(key))), z)
                    judged = level + sigma * sd * z
                best = max(safe, key=lambda k: drawn[k], default=-1)
                base = judged[best] if best >= 0 else 0.0
                nearest = -1.0
                for u in sorted({unit[k] for k in unsure}):
                    k = max((k for k in unsure if unit[k] == u), key=lambda k: drawn[k])
                    cost = p[k] * (judged[k] - base)
                    bits_of_it = looked[k].information[0] / np.log(2.0)
                    due = price * max(0.0, 1.0 - bits_of_it)
                    so_far = account.get((case, u), 0.0) + cost
                    if cost > 0.0 and so_far / max(due, 1e-3) > nearest:
                        nearest = so_far / max(due, 1e-3)
                        wanted, lost, lesson = k, cost, cost * min(bits_of_it, 1.0)
                        pays = so_far >= due or lessons.get(u, 0.0) + lesson >= price
            if not pays:
                if wanted >= 0:
                    place = case, unit[wanted]
                    account[place] = account.get(place, 0.0) + lost
                    lessons[unit[wanted]] = lessons.get(unit[wanted], 0.0) + lesson
                z = np.empty(K)
                keys.fill_normals(np.uint64(keys.key_of(start, np.uint64(t + 1))), z)
                drawn = level + spread * z
                arm = max(safe, key=lambda k: drawn[k], default=-1)
                if arm < 0 and empty >= 0:
                    arm = empty
                elif arm < 0 and empty == doubt.LEAST_BAD:
                    left = [k for k in range(K) if known[k] is not False]
                    arm = max(left, key=lambda k: p[k], default=-1)
                break
            bits = np.uint64(keys.key_of(answers, np.uint64(len(asked) + 1)))
            answer = bool(tables.allowed[row, wanted])
            answer ^= flips > 0 and float(keys.uniform(bits)) < flips
            asked.append((t, int(row), wanted, answer))
            budget, looks = budget - 1, looks + 1
            account[case, unit[wanted]] = lessons[unit[wanted]] = 0.0
            beliefs.learn(tables.contexts[row], wanted, answer, int(bits))
            if remember:
                here[unit[wanted]] = answer
                if identity or not answer:
                    said[case, unit[wanted]] = answer
        played.append(arm)
        if arm >= 0:
            arms.update(arm, C[row], tables.rewards[row, arm])
            total, count = total + tables.rewards[row, arm], count + 1.0
    return played, asked


OPTIONS: list[dict[str, Any]] = [
    {},
    {"budget": 4},
    {"most": 1},
    {"prior": "centred"},
    {"prior": "paper"},
    {"sigma": 0.3},
    {"sigma": 0.3, "prior": "centred"},
    {"empty": 2},
    {"empty": doubt.LEAST_BAD, "budget": 3},
    {"remember": False, "flips": 0.3, "budget": 60},
    {"identity": False},
    {"identity": False, "remember": False, "flips": 0.3, "budget": 60},
    {"items": [3, 3, 1, 0, 2, 2, 5, 7, 5]},
    {"price": 0.0},
    {"price": 2.5},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_step_for_step_as_written_down(seed, options):
    tables = world(seed, share=0.35)
    rows = np.random.default_rng(seed).integers(0, len(tables), size(150, 20))
    groups = [0, 1, 1, 2, 2]
    played, asked = plain(tables, Counting(5, 3, groups), rows, seed, **options)
    sigma = options.get("sigma")
    empty = options.get("empty", -1)
    run = online_asking(
        tables,
        beliefs=Counting(5, 3, groups),
        rows=rows,
        seed=seed,
        policy=None if sigma is None else BehaviorConstrained(sigma=sigma),
        budget=options.get("budget", 10**6),
        most=options.get("most", 3),
        prior=options.get("prior", "scaled"),
        on_empty={-1: "abstain", doubt.LEAST_BAD: "least_bad"}.get(empty, "safe_arm"),
        safe_arm=empty if empty >= 0 else None,
        remember=options.get("remember", True),
        flips=options.get("flips", 0.0),
        items=options.get("items"),
        identity=options.get("identity", True),
        answer_price=options.get("price", 0.35),
    )
    assert run.played.tolist() == played
    columns = (run.asked_at, run.asked_rows, run.asked_arms, run.said)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == asked
    denied = [
        arm >= 0 and not tables.allowed[row, arm] for row, arm in zip(rows, played, strict=True)
    ]
    assert run.E[-1] == sum(denied)
    assert run.abstentions[-1] == played.count(-1)
    assert run.answers[-1] == len(asked) and f"answers={len(asked)}" in repr(run)


@pytest.mark.parametrize("prior", ["scaled", "centred", "paper"])
def test_without_a_budget_it_is_a_learned_mask(prior):
    """The same arms, bit for bit, as `online` with what is safe as the eligible arms."""
    tables = world(3, M=20, K=9)
    beliefs = Counting(9, 3)
    rng = np.random.default_rng(1)
    for _ in range(300):
        row, k = int(rng.integers(20)), int(rng.integers(9))
        beliefs.learn(tables.contexts[row], k, bool(tables.allowed[row, k]))
    safe = learned_mask(tables, beliefs)
    for k in range(9):
        assert safe[:, k].tolist() == beliefs.predict(k, tables.contexts).safe.tolist()
    policy = Thompson(v=0.5)
    masked = online(tables, policy=policy, eligible=safe, steps=300, seed=4, prior=prior)
    run = online_asking(
        tables, beliefs=beliefs, policy=policy, budget=0, steps=300, seed=4, prior=prior
    )
    assert run.played.tolist() == masked.played.tolist()
    assert len(run.said) == 0 and run.E[-1] == 0


def test_the_limits_that_were_given_stay_as_they_were():
    beliefs = Counting(5, 3)
    run = online_asking(world(0), beliefs=beliefs, steps=50, seed=1)
    assert not beliefs.counts and isinstance(run.beliefs, Counting) and run.beliefs.counts
    assert isinstance(beliefs, Beliefs)


def test_equal_seeds_give_equal_runs_and_answers_have_keys_of_their_own():
    one, two, other = (
        online_asking(world(0), beliefs=Counting(5, 3), steps=80, seed=s) for s in (5, 5, 6)
    )
    assert one.played.tolist() == two.played.tolist() != other.played.tolist()
    assert one.beliefs.keys == two.beliefs.keys  # type: ignore[attr-defined]
    assert len(set(one.beliefs.keys)) == len(one.said)  # type: ignore[attr-defined]


@given(st.integers(0, 2**32 - 1))
def test_what_was_denied_to_the_letter_is_not_played_again(seed):
    tables = world(seed, M=6, K=4)
    run = online_asking(tables, beliefs=Counting(4, 3), steps=60, seed=seed)
    for at, row, k, yes in zip(run.asked_at, run.asked_rows, run.asked_arms, run.said, strict=True):
        same = (tables.contexts[run.rows] == tables.contexts[row]).all(axis=1)
        later = same & (np.arange(60) >= at) & (run.played == k)
        assert yes or not later.any()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"beliefs": None}, "limits such as RuleLimits"),
        ({"beliefs": Counting(4, 3)}, "limits over 5 arms and 3 features"),
        ({"policy": Greedy()}, "Thompson or BehaviorConstrained"),
        ({"prior": "flat"}, "one of 'paper', 'centred', 'scaled'"),
        ({"prior": "centred", "forget": "auto"}, "'never' with prior='centred'"),
        ({"forget": 0.0}, "'forget' parameter"),
        ({"forget": 50.0, "model": LinearArms(arms=5, features=3)}, "left out with a model"),
        ({"budget": -1}, "'budget' parameter"),
        ({"most": -1}, "'most' parameter"),
        ({"flips": 2.0}, "'flips' parameter"),
        ({"on_empty": "guess"}, "one of 'abstain'"),
        ({"on_empty": "safe_arm"}, "'safe_arm' parameter"),
        ({"safe_arm": 1}, "left out, unless on_empty='safe_arm'"),
        ({"steps": None}, "given, unless rows are"),
        ({"seed": -1}, "'seed' parameter"),
    ],
)
def test_bad_input_is_refused(wrong, message):
    with pytest.raises(InvalidValue, match=message):
        online_asking(world(0), **({"beliefs": Counting(5, 3), "steps": 10} | wrong))


def test_a_world_is_needed():
    with pytest.raises(InvalidValue, match="Tables"):
        online_asking(None, beliefs=Counting(5, 3), steps=10)


def test_rules_in_groups_need_few_answers_and_do_not_err():
    """A whole run on a synthetic world: no chance is left but the seeds'."""
    movies = synthetic_movies(seed=3)
    groups = [arm.group for arm in movies.arms]
    clean = online_asking(
        movies.tables,
        beliefs=RuleLimits(arms=100, features=10, groups=groups),
        steps=size(20_000, 300),
        seed=3,
    )
    assert clean.E[-1] == 0 and len(clean.said) <= 100
    noisy = online_asking(
        movies.tables,
        beliefs=RuleLimits(arms=100, features=10, groups=groups, error=None),
        steps=size(20_000, 300),
        seed=3,
        flips=0.1,
        remember=False,
    )
    assert noisy.E[-1] <= 20 and len(noisy.said) <= 500


# -- several teachers ------------------------------------------------------------------------


def movies_by(teachers: list[tuple[float, ...]], seed: int = 1, **more: Any) -> Any:
    made = synthetic_movies(seed=seed, people=20, movies=300)
    limits = RuleLimits(
        arms=made.tables.arms, features=made.tables.features, groups=[a.group for a in made.arms]
    )
    return online_asking(
        made.tables,
        beliefs=limits,
        steps=size(2000, 100),
        seed=seed,
        teachers=teachers,
        **{"checks": True, **more},
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_who_errs_beside_one_who_does_not(seed):
    """What the good one is asked is about what it takes alone; and what is played is allowed."""
    alone, both = movies_by([], seed), movies_by([(0.0, 0.35), (0.2, 0.02)], seed)
    assert alone.words.shape == (0, 2) and alone.rates.shape == (0,)
    assert alone.heard.shape == (0, 2) and not alone.learned.size
    assert both.words[0, 0] <= 1.5 * len(alone.said)
    assert both.words[:, 0].sum() == len(both.said)
    whose, wrong = both.heard.T
    assert np.bincount(whose, minlength=2).tolist() == both.words.sum(1).tolist()
    assert both.learned.shape == (len(whose), 2) and (both.learned[-1] == both.rates).all()
    assert not wrong[whose == 0].any() and (size(0, 1) or wrong.any())
    assert both.E[-1] <= 0.002 * len(both.played)
    if size(1, 0):
        assert both.words[1, 0] > 20 and both.words[1, 1] == 0  # checks go to the good one
        assert both.rates[0] < 0.05 < both.rates[1]


def test_one_alone_is_taken_at_their_word():
    """A single teacher who is declared: the same run as with nobody declared."""
    alone, one = movies_by([]), movies_by([(0.0, 0.35)])
    assert alone.played.tolist() == one.played.tolist()
    assert alone.said.tolist() == one.said.tolist()
    assert one.words.tolist() == [[len(alone.said), len(alone.found)]]


def test_what_is_told_of_a_teacher_is_believed():
    """Two of whom it is told that they never err: the cheaper answers all, and is believed."""
    run = movies_by([(0.0, 0.35, 0.0), (0.2, 0.02, 0.0)])
    assert run.rates.tolist() == [0.0, 0.0]
    assert run.words[0].sum() == 0 < run.words[1, 0]
    if size(1, 0):
        assert run.E[-1] > 0


def test_who_errs_does_so_in_checks_too():
    run = movies_by([], flips=0.3)
    wrong = run.judged == run.found
    right = movies_by([])
    assert (right.judged != right.found).all()
    if size(1, 0):
        assert 0 < wrong.sum() < len(wrong)


def test_nobody_is_asked_who_is_not_worth_it():
    run = movies_by([(0.0, 0.5), (0.2, 0.4)])
    assert len(run.said) == 0 == run.words[:, 0].sum()
    assert run.E[-1] == 0


def test_who_is_asked_again_says_the_same():
    """A word is a function of who, item and unit, and is wrong as often as it should be."""
    voices = _staff([(0.0, 0.35), (0.2, 0.02)], 5, "test")
    assert voices is not None
    cases = [(item, unit) for item in range(500) for unit in range(4)]
    words = [voices.word(1, *case, True) for case in cases]
    assert words == [voices.word(1, *case, True) for case in cases]
    assert words == [not voices.word(1, *case, False) for case in cases]
    assert all(voices.word(0, *case, True) for case in cases)
    # 2,000 words, wrong with .2: more than 5 standard deviations (89) off has probability 6e-7.
    assert abs(words.count(False) - 400) <= 89


@pytest.mark.parametrize(
    "wrong",
    [
        {"teachers": "ab"},
        {"teachers": [(0.6, 1.0)]},
        {"teachers": [0.1]},
        {"teachers": [(0.1, -1.0)]},
        {"teachers": [(0.1, 0.1, 0.6)]},
        {"teachers": [(0.1, 0.1, 0.1, 0.1)]},
        {"teachers": [(0.1, 0.1)], "flips": 0.1},
    ],
)
def test_teachers_who_cannot_be_are_refused(wrong):
    with pytest.raises(InvalidValue):
        online_asking(world(0), beliefs=RuleLimits(arms=5, features=3), steps=5, **wrong)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"policy": BehaviorConstrained(sigma=0.5), "on_empty": "least_bad"},
        {"checks": True, "promise": (0.05, 0.3), "lag": 3, "flips": 0.1, "later": 60},
        {"teachers": [(0.0, 0.35), (0.2, 0.02)], "checks": True},
        {"budget": 4, "most": 1, "on_empty": "safe_arm", "safe_arm": 2},
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_in_plain_python_it_is_the_same_to_the_bit(seed, options):
    tables = world(seed, M=20)
    if "later" in options:
        options = options | {"later": (options["later"], ~tables.allowed)}
    given: dict[str, Any] = {"steps": 150, "seed": seed, "prior": "paper"} | options
    ours = online_asking(tables, beliefs=Counting(5, 3), **given)
    model = LinearArms(arms=5, features=3)
    plainly = online_asking(tables, beliefs=Counting(5, 3), model=model, **given)
    assert plainly.arms is model
    for name in ("played", "asked_at", "asked_arms", "said", "checked_at", "judged", "anew", "R"):
        assert np.array_equal(getattr(ours, name), getattr(plainly, name)), name
    assert ours.frozen == plainly.frozen


def test_a_policy_of_ones_own_compares_the_safe_arms():
    @dataclass(frozen=True)
    class Best:
        """Greedy, as somebody else would write it."""

        needs_limits: ClassVar[bool] = True

        def propensities(self, scores: Any) -> Any:
            return np.eye(len(scores.eligible))[self.choose(scores, 0)]

        def choose(self, scores: Any, key: int) -> int:
            mean = np.where(scores.eligible, scores.reward_mean, -np.inf)
            return int(mean.argmax())

    tables = world(3, M=20)
    given: dict[str, Any] = {"steps": 200, "seed": 2}
    theirs = online_asking(tables, beliefs=Counting(5, 3), policy=Best(), **given)
    ours = online_asking(tables, beliefs=Counting(5, 3), policy=Thompson(v=0.0), **given)
    assert len(theirs.said) and (theirs.played >= 0).any()
    assert np.array_equal(theirs.played, ours.played)
    assert np.array_equal(theirs.said, ours.said)


def test_a_reward_model_that_does_not_fit_is_refused():
    with pytest.raises(InvalidValue, match="a RewardModel of 5 arms and 3 features"):
        online_asking(
            world(0), beliefs=Counting(5, 3), steps=1, model=LinearArms(arms=5, features=2)
        )


def test_a_decision_tree_and_odds_of_others_work_together(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(registry, "_known", {})
    examples = Path(__file__).parents[1] / "examples"
    tree = runpy.run_path(str(examples / "tree_limits.py"), run_name="tree")["TreeLimits"]
    odds = runpy.run_path(str(examples / "logistic_reward.py"), run_name="odds")["LogisticReward"]
    square = runpy.run_path(str(examples / "top_few.py"), run_name="square")["TopFew"]
    tables, limits = world(1, M=20), tree(arms=5, features=3)
    run = online_asking(tables, beliefs=limits, steps=120, seed=1, checks=True)
    assert 0 < len(run.said) < 100 and run.E[-1] <= 3
    model = odds(arms=5, features=3)
    every = online_asking(
        tables, beliefs=limits, policy=square(), model=model, steps=120, seed=1, checks=True
    )
    assert len(every.said) > 0 and (every.played >= 0).any()
    assert every.arms is model
