"""Certified limits keep the promise as it is stated, and it is refused where it cannot be given."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from bridle.certificates.calibration import Calibration, Certification, broken, certify
from bridle.certificates.certificate import lambda_hat, scores_of, worst_scores
from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.limits import KINDS, LinearLimits, LogisticLimits, make_limits
from bridle.schema import Flag, Schema

ALPHA, DELTA, RUNS, N = 0.05, 0.1, 300, 200
MOST = 57  # as in test_thresholds: more of 300 are broken with a probability below 1e-6
D, K = 6, 5
SCHEMA = Schema([Flag(f"f{i}") for i in range(D)])
GROUPS = ["a", None, "a", "b", None]


def flags(n: int, rng):
    return (rng.random((n, D)) < 0.4).astype(float)


def truth(C):
    """Single features, a pair, and one arm's own exception, which no group of limits can say."""
    a = (C[:, 0] == 0.0) & (C[:, 1] * C[:, 2] == 0.0)
    b = C[:, 3] == 0.0
    return np.column_stack([a, C[:, 4] == 0.0, a & (C[:, 5] == 0.0), b, b | (C[:, 0] == 1.0)])


def taught(kind: str, answers: int = 60):
    rng = np.random.default_rng(1)
    limits = make_limits(kind, schema=SCHEMA, groups=GROUPS, seed=3)
    C = flags(answers, rng)
    for c, fine in zip(C, truth(C), strict=True):
        k = int(rng.integers(0, K))
        limits.learn(c, k, bool(fine[k]), int(rng.integers(0, 2**63)))
    return limits


def world():
    """All 64 contexts, and how often each comes."""
    C = ((np.arange(2**D)[:, None] >> np.arange(D)) & 1).astype(float)
    weights = 0.4 ** C.sum(axis=1) * 0.6 ** (D - C.sum(axis=1))
    return C, truth(C), weights


def asked_through(asking, allowed):
    while (now := asking.question()) is not None:
        asking.answer(bool(allowed[now]))
    return asking


@pytest.mark.parametrize("kind", KINDS)
def test_the_promise_holds_on_discrete_contexts(kind):
    C, allowed, weights = world()
    limits = taught(kind)
    worst = worst_scores(scores_of(limits, C), allowed, 0.2)
    rng = np.random.default_rng(2)
    bad, shares = 0, []
    for _ in range(RUNS):
        rows = rng.choice(len(C), N, p=weights)
        threshold = lambda_hat(worst[rows], ALPHA, DELTA, 0.2)
        shares.append(float(weights[worst > threshold].sum()))
        bad += shares[-1] > ALPHA
    assert bad <= MOST  # error 1e-6
    # The last one as a whole: the certificate says the same.
    made = certify(limits, Calibration(C[rows], allowed[rows]), ALPHA, DELTA, lambda_min=0.2)
    assert made.threshold == threshold
    assert broken(made, C, allowed, weights) == pytest.approx(shares[-1], abs=1e-12)


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_the_promise_holds_and_is_not_wasteful_where_no_scores_tie(kind):
    rng = np.random.default_rng(3)
    M = 3_000
    C = np.column_stack([rng.uniform(-1, 1, (M, 3)), np.ones(M)])
    allowed = C @ rng.normal(0, 1, (4, 4)) + 0.3 * np.sin(5 * C[:, :1]) + 0.5 > 0.0
    limits = {"linear": LinearLimits, "logistic": LogisticLimits}[kind](arms=4, features=4)
    for row in range(60):
        k = int(rng.integers(0, 4))
        limits.learn(C[row], k, bool(allowed[row, k]))
    C, allowed = C[60:], allowed[60:]  # what comes later; the others taught
    worst = worst_scores(scores_of(limits, C), allowed, 0.2)
    assert (worst > 0.2).mean() > ALPHA  # there is something to promise
    bad = 0
    for _ in range(RUNS):
        threshold = lambda_hat(worst[rng.integers(0, len(C), N)], ALPHA, DELTA, 0.2)
        bad += (worst > threshold).mean() > ALPHA
    assert bad <= MOST  # error 1e-6
    # Nothing is given away: it is broken about as often as it may be. That at most 5 of 200 are
    # broken where ALPHA are has probability .06; never in 300 runs: 1e-8.
    assert (1 - binom.cdf(5, N, ALPHA)) ** RUNS < 1e-6
    assert bad > 0


@pytest.mark.parametrize("kind", KINDS)
def test_asking_gives_the_certificate_of_full_tables_with_fewer_answers(kind):
    limits = taught(kind)
    C = flags(N, np.random.default_rng(4))
    allowed = truth(C)
    asking = Certification(limits, C, ALPHA, DELTA, lambda_min=0.3, on="x")
    first = asking.progress
    assert (first.done, first.contexts, first.answers) == (0, N, 0)
    asked_through(asking, allowed)
    made = asking.certificate(at=3.0)
    assert made == certify(
        limits, Calibration(C, allowed), ALPHA, DELTA, lambda_min=0.3, at=3.0, on="x"
    )
    assert made == certify(limits, asking.calibration, ALPHA, DELTA, lambda_min=0.3, at=3.0, on="x")
    assert asking.progress == (N, N, made.answers, 0)
    assert made.answers <= first.most <= N * K
    scores = scores_of(limits, C)
    assert made.keeps == (scores > made.threshold).any(axis=1).mean()
    assert made.broken == (worst_scores(scores, allowed, 0.3) > made.threshold).sum()
    assert (made.n, made.alpha, made.delta, made.lambda_min) == (N, ALPHA, DELTA, 0.3)


def test_questions_go_down_by_score_and_stop_at_the_first_denied_or_the_least():
    limits = taught("rules")
    C = flags(60, np.random.default_rng(5))
    allowed, scores = truth(C), scores_of(limits, C)
    asking = Certification(limits, C, ALPHA, DELTA, lambda_min=0.4)
    questions = []
    while (now := asking.question()) is not None:
        assert asking.question() == now  # to look is not to answer
        questions.append(now)
        asking.answer(bool(allowed[now]))
    wanted = []
    for i in range(60):
        for k in sorted(range(K), key=lambda k: (-scores[i, k], k)):
            if scores[i, k] <= 0.4:
                break
            wanted.append((i, k))
            if not allowed[i, k]:
                break
    assert questions == wanted
    assert any(len(set(row)) < K for row in scores.tolist())  # there are ties
    with pytest.raises(NotPossible, match="No answer is missing"):
        asking.answer(True)


@pytest.mark.parametrize("kind", KINDS)
def test_it_can_be_stopped_and_resumed_at_any_answer(kind):
    limits = taught(kind)
    C = flags(50, np.random.default_rng(6))
    allowed = truth(C)
    straight = Certification(limits, C, ALPHA, DELTA, on="a b", ids=range(50), teaching=[50])
    wanted = asked_through(straight, allowed).certificate()
    assert wanted.assumptions[-1].endswith("(checked by their ids).")
    asking = Certification(limits, C, ALPHA, DELTA, on="a b", ids=range(50), teaching=[50])
    limits.learn(C[0], 0, False, 5)  # what is learned in between changes nothing
    steps = 0
    while (now := asking.question()) is not None:
        if steps % 7 == 0:
            state = asking.to_state()
            asking = Certification.from_state(state)
            again = asking.to_state()
            assert state.keys() == again.keys()
            assert all(state[name].tobytes() == again[name].tobytes() for name in state)
        assert asking.question() == now
        asking.answer(bool(allowed[now]))
        steps += 1
    assert Certification.from_state(asking.to_state()).certificate() == wanted


def test_there_is_no_certificate_before_the_last_answer():
    C = flags(50, np.random.default_rng(7))
    asking = Certification(taught("rules"), C, ALPHA, DELTA)
    with pytest.raises(NotPossible, match="Only 0 of 50 contexts are done"):
        asking.certificate()
    with pytest.raises(InvalidValue, match=r"'allowed' parameter of Certification\.answer"):
        asking.answer("yes")
    assert asking.progress.answers == 0


def test_nothing_to_ask_where_no_score_is_above_the_least():
    limits = LinearLimits(arms=2, features=1)  # untaught: 0 for all
    asking = Certification(limits, np.ones((50, 1)), ALPHA, DELTA)
    assert asking.question() is None and asking.progress == (50, 50, 0, 0)
    made = asking.certificate()
    assert (made.keeps, made.answers, made.threshold) == (0.0, 0, 0.5)
    assert not made.allowed([[1.0]]).any()


def test_what_ties_with_the_least_is_neither_asked_nor_kept():
    limits = LogisticLimits(arms=2, features=1)  # untaught: .5 for all
    asking = Certification(limits, np.ones((50, 1)), ALPHA, DELTA, lambda_min=0.5)
    assert asking.question() is None
    assert asking.certificate().keeps == 0.0
    asking = Certification(limits, np.ones((50, 1)), ALPHA, DELTA, lambda_min=0.49)
    assert asking.question() == (0, 0) and asking.progress.most == 100
    # All denied: the threshold is their score, and lets none of them through.
    made = asked_through(asking, np.zeros((50, 2), bool)).certificate()
    assert (made.threshold, made.keeps, made.broken, made.answers) == (0.5, 0.0, 0, 50)


def test_a_damaged_state_is_refused():
    asking = Certification(taught("rules"), flags(50, np.random.default_rng(7)), ALPHA, DELTA)
    asking.answer(True)
    state = asking.to_state()
    meta = state["meta"].tobytes().decode()

    def told(old, new):
        assert old in meta
        return {**state, "meta": np.frombuffer(meta.replace(old, new).encode(), np.uint8)}

    for bad in (
        None,
        {},
        {**state, "more": np.zeros(1)},
        {**state, "limits/more": np.zeros(1)},
        {**state, "meta": state["meta"][:-1]},
        {**state, "meta": np.frombuffer(b"[1]", np.uint8)},
        {**state, "meta": "x"},
        {**state, "contexts": state["contexts"][:9]},
        {**state, "contexts": np.zeros((50, D + 1))},
        {**state, "answers": np.ones(10**4, bool)},
        {**state, "answers": np.ones((1, 1), bool)},
        {**state, "answers": np.ones(1)},
        {name: array for name, array in state.items() if name != "limits/errors"},
        told("certification 2", "certification 0"),
        told('"kind": "rules"', '"kind": "linear"'),
        told('"alpha": 0.05', '"alpha": 5'),
        told('"alpha": 0.05', '"beta": 5'),
        told('"on": ""', '"on": 5'),
        told('"fresh": "', '"fresh": 5, "x": "'),
    ):
        with pytest.raises(CorruptState):
            Certification.from_state(bad)


def test_too_few_contexts_are_refused_before_any_question():
    limits, C = taught("rules"), flags(44, np.random.default_rng(8))
    with pytest.raises(NotPossible, match="at least 45 are needed"):
        Certification(limits, C, ALPHA, DELTA)
    with pytest.raises(NotPossible, match="at least 45 are needed"):
        certify(limits, Calibration(C, truth(C)), ALPHA, DELTA)


def test_missing_answers_are_refused_and_needless_ones_are_not():
    limits, C = taught("rules"), flags(60, np.random.default_rng(9))
    allowed = truth(C)
    asking = asked_through(Certification(limits, C, ALPHA, DELTA), allowed)
    done = asking.calibration
    with pytest.raises(NotPossible, match="Answers are missing: of arm"):
        certify(limits, Calibration(C, allowed, np.zeros((60, K), bool)), ALPHA, DELTA)
    # Of what was not asked, what stands in the table is not read.
    other = np.where(done.asked, allowed, ~allowed)
    made = certify(limits, Calibration(C, other, done.asked), ALPHA, DELTA)
    assert made == asking.certificate()
    # A denied arm that is higher than one not asked about settles the context.
    every = np.ones((60, K), bool)
    assert certify(limits, Calibration(C, allowed, every), ALPHA, DELTA).answers == 60 * K


def test_what_was_taught_is_refused_by_its_ids():
    limits, C = taught("rules"), flags(60, np.random.default_rng(10))
    calibration = Calibration(C, truth(C), ids=np.arange(60))
    with pytest.raises(
        InvalidValue, match=r"none that was used for teaching. Got .1 that were: 59, for one"
    ):
        certify(limits, calibration, ALPHA, DELTA, teaching=[59, 60, "59"])
    with pytest.raises(InvalidValue, match="none that was used for teaching"):
        Certification(limits, C, ALPHA, DELTA, ids=[f"a{i}" for i in range(60)], teaching=("a7",))
    with pytest.raises(InvalidValue, match="distinct: a context counts once"):
        Certification(limits, C, ALPHA, DELTA, ids=["a"] * 60)
    with pytest.raises(InvalidValue, match="ids of one kind in both"):
        certify(limits, calibration, ALPHA, DELTA, teaching=["59"])  # 59, perhaps
    said = certify(limits, calibration, ALPHA, DELTA, teaching=[60]).assumptions
    assert said[-1] == "No calibration context was used for teaching (checked by their ids)."
    assert "not checked" in certify(limits, calibration, ALPHA, DELTA).assumptions[-1]
    for ids in (range(59), "x" * 60, [0.5] * 60, 5, [None] * 60):
        with pytest.raises(InvalidValue, match="'ids' parameter of certify"):
            certify(limits, Calibration(C, truth(C), ids=ids), ALPHA, DELTA)


def test_equal_contexts_alone_are_no_proof_but_all_of_a_kind_are():
    limits, C = taught("rules"), flags(60, np.random.default_rng(11))
    calibration = Calibration(C, truth(C))
    # 64 contexts are possible: fresh ones equal taught ones all the time.
    said = certify(limits, calibration, ALPHA, DELTA, teaching=C).assumptions[-1]
    assert "60 of 60 equal a taught one" in said
    said = certify(limits, calibration, ALPHA, DELTA, teaching=np.zeros((0, D))).assumptions[-1]
    assert "0 of 60 equal a taught one" in said
    said = certify(limits, calibration, ALPHA, DELTA).assumptions[-1]
    assert "not checked" in said
    # Numbers that never repeat, and yet all were taught.
    line = LinearLimits(arms=1, features=1)
    numbers = np.random.default_rng(12).random((60, 1))
    calibration = Calibration(numbers, np.ones((60, 1), bool))
    with pytest.raises(InvalidValue, match=r"60 of 60 that equal a taught one.*say so by ids"):
        certify(line, calibration, ALPHA, DELTA, teaching=numbers[::-1])
    with pytest.raises(InvalidValue, match="'teaching' parameter of certify"):
        certify(line, calibration, ALPHA, DELTA, teaching=np.zeros((3, 2)))
    certify(line, calibration, ALPHA, DELTA, teaching=numbers[:30])


def test_bad_values_are_refused():
    limits, C = taught("rules"), flags(60, np.random.default_rng(13))
    good = Calibration(C, truth(C))
    for name, value in (
        ("alpha", 0.0),
        ("alpha", 1.0),
        ("delta", 0.0),
        ("delta", "x"),
        ("lambda_min", 1.0),
        ("lambda_min", -1.0),
        ("on", 5),
        ("on", "x" * 1_001),
        ("at", np.inf),
        ("at", "now"),
        ("calibration", (C, truth(C))),
        ("limits", "rules"),
    ):
        given = {"limits": limits, "calibration": good, "alpha": ALPHA, "delta": DELTA}
        with pytest.raises(InvalidValue, match=f"'{name}' parameter of certify"):
            certify(**{**given, name: value})
    for name, bad in (
        ("contexts", Calibration(C[:, 1:], truth(C))),
        ("contexts", Calibration(C[:0], truth(C))),
        ("contexts", Calibration(C * np.nan, truth(C))),
        ("allowed", Calibration(C, truth(C)[:, 1:])),
        ("allowed", Calibration(C, truth(C)[1:])),
        ("allowed", Calibration(C, truth(C) * 0.5)),
        ("asked", Calibration(C, truth(C), [True])),
    ):
        with pytest.raises(InvalidValue, match=f"'{name}' parameter of certify"):
            certify(limits, bad, ALPHA, DELTA)


def test_the_exact_share_of_broken_contexts():
    C, allowed, weights = world()
    made = certify(
        taught("linear"), Calibration(C, allowed), 0.3, DELTA, lambda_min=0.1, on="the world"
    )
    hit = (made.allowed(C) & ~allowed).any(axis=1)
    assert 0 < hit.sum() == made.broken
    assert broken(made, C, allowed) == hit.mean()
    assert broken(made, C, allowed, weights) == pytest.approx(weights[hit].sum(), abs=1e-12)
    assert broken(made, C, allowed, hit) == 1.0
    for bad in (-weights, weights[1:], weights * 0.0, "x"):
        with pytest.raises(InvalidValue, match="'weights' parameter of broken"):
            broken(made, C, allowed, bad)
    with pytest.raises(InvalidValue, match="'allowed' parameter of broken"):
        broken(made, C, allowed[1:])
