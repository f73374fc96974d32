"""Error rates: the exact posterior against a plain one, and the approximation against the exact."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from bridle.kernels.teachers import (
    FAULTS,
    FAULTS_PRIOR,
    RATES,
    Answer,
    Joint,
    Messages,
    mean_of,
    prior_of,
)

Case = tuple[float, list[Answer]]


def drawn(seed: int, errors: list[float], cases: int, voices: int = 2) -> list[Case]:
    """Cases, each judged by some of the teachers (the last one's rate is told)."""
    rng = random.Random(seed)
    made = []
    for _ in range(cases):
        p = rng.uniform(0.05, 0.95)
        truth = rng.random() < p
        answers: list[Answer] = []
        for place in sorted(rng.sample(range(len(errors)), voices)):
            said = truth ^ (rng.random() < errors[place])
            answers.append((place, 0.0, said))
        made.append((p, answers))
    return made


def plainly(cases: list[Case], careful: list[float]) -> list[list[float]]:
    """The posterior of each rate, from the sum over every combination: in logarithms, no arrays."""
    totals = [[0.0] * len(RATES) for _ in careful]
    cells = {}
    for fault, *rates in itertools.product(range(len(FAULTS)), *[range(len(RATES))] * len(careful)):
        log = math.log(FAULTS_PRIOR[fault])
        log += sum(math.log(prior_of(c)[r]) for c, r in zip(careful, rates, strict=True))
        for p, answers in cases:
            yes = p * (1 - FAULTS[fault]) + (1 - p) * FAULTS[fault]
            no = 1 - yes
            for place, told, said in answers:
                e = told if place < 0 else RATES[rates[place]]
                yes, no = yes * (1 - e if said else e), no * (e if said else 1 - e)
            log += math.log(yes + no)
        cells[tuple(rates), fault] = log
    most = max(cells.values())
    for (cell, _), log in cells.items():
        for place, rate in enumerate(cell):
            totals[place][rate] += math.exp(log - most)
    return totals


def test_the_prior_adds_up_and_gives_the_careful_their_share() -> None:
    assert math.isclose(sum(prior_of(0.3)), 1.0)
    assert prior_of(0.6)[0] > 0.6 > prior_of(0.1)[0]
    assert 0.09 < mean_of(prior_of(0.0), RATES) < 0.11  # that of Beta(1, 9) is .1


def test_the_joint_posterior_is_that_of_the_plain_sum() -> None:
    cases = drawn(1, [0.02, 0.2], 25)
    cases[3] = (cases[3][0], [*cases[3][1], (-1, 0.01, True)])
    joint = Joint()
    joint.add(0.6)
    joint.add(0.1)
    for p, answers in cases:
        for i in range(len(answers)):
            joint.change(p, answers[:i], answers[: i + 1])
    for ours, plain in zip(joint.marginals(), plainly(cases, [0.6, 0.1]), strict=True):
        assert [one / sum(ours) for one in ours] == pytest.approx(
            [one / sum(plain) for one in plain], rel=1e-9, abs=1e-15
        )


def test_what_is_said_of_a_case_is_averaged_over_the_rates_that_fit() -> None:
    cases = drawn(2, [0.0, 0.2], 40)
    joint = Joint()
    joint.add(0.3)
    joint.add(0.3)
    for p, answers in cases:
        joint.change(p, [], answers)
    # P(allowed) is the share of the likelihood that the case has if it is allowed: told by a
    # further voice that never errs, and put back to the odds of its own error.
    p, answers = cases[0]
    twin = [Joint(), Joint()]
    weights = []
    for said, one in zip((True, False), twin, strict=True):
        one.add(0.3)
        one.add(0.3)
        for q, others in cases[1:]:
            one.change(q, [], others)
        sums = 0.0
        # The likelihood of the answers and of this truth, over the posterior without the case; p
        # is without faults, as `posterior` takes it.
        weight = one.weights
        for index in itertools.product(*[range(n) for n in weight.shape]):
            like = (p if said else 1 - p) * float(weight[index])
            for place, _, word in answers:
                e = RATES[index[place + 1]]
                like *= 1 - e if word == said else e
            # The case itself is in the weights with the limits' faults.
            fault = FAULTS[index[0]]
            yes, no = p * (1 - fault) + (1 - p) * fault, (1 - p) * (1 - fault) + p * fault
            plain_yes, plain_no = p, 1 - p
            for place, _, word in answers:
                e = RATES[index[place + 1]]
                right, wrong = (1 - e, e) if word else (e, 1 - e)
                yes, no = yes * right, no * wrong
                plain_yes, plain_no = plain_yes * right, plain_no * wrong
            sums += like * (yes + no) / (plain_yes + plain_no)
        weights.append(sums)
    assert joint.posterior(p, answers) == pytest.approx(weights[0] / sum(weights), rel=1e-9)


def test_what_is_taken_back_leaves_nothing_and_what_is_forgotten_stays() -> None:
    joint = Joint()
    joint.add(0.3)
    before = joint.marginals()
    answers: list[Answer] = [(0, 0.0, True), (-1, 0.001, False)]
    joint.change(0.4, [], answers)
    learned = joint.marginals()
    assert mean_of(learned[0], RATES) > mean_of(before[0], RATES)
    joint.forget(0.4, answers)
    assert joint.marginals() == learned
    assert Messages.of(joint, []).marginals()[0] == pytest.approx(learned[0])
    joint.change(0.4, answers, [])
    ours, was = joint.marginals()[0], before[0]
    assert [one / sum(ours) for one in ours] == pytest.approx([one / sum(was) for one in was])


@pytest.mark.parametrize("seed", range(3))
def test_messages_come_near_the_exact_posterior_where_three_overlap(seed: int) -> None:
    cases = drawn(seed, [0.01, 0.1, 0.25], 200, voices=3)
    joint, messages = Joint(), Messages()
    for _ in range(3):
        joint.add(0.3)
        messages.add(0.3)
    for i, (p, answers) in enumerate(cases):
        joint.change(p, [], answers)
        for k in range(3):
            messages.change((i, 0), p, answers[: k + 1])
    for exact, near in zip(joint.marginals(), messages.marginals(), strict=True):
        assert abs(mean_of(exact, RATES) - mean_of(near, RATES)) < 0.015
    p, answers = cases[0]
    assert abs(joint.posterior(p, answers) - messages.posterior(p, answers)) < 0.02


def test_messages_that_are_all_taken_back_leave_the_prior() -> None:
    messages = Messages()
    messages.add(0.3)
    messages.add(0.3)
    before = messages.marginals()
    for i in range(5):
        messages.change((i, 0), 0.3, [(0, 0.0, True), (1, 0.0, False)])
    for i in range(5):
        messages.change((i, 0), 0.3, [])
    assert not messages.cases
    for ours, was in zip(messages.marginals(), before, strict=True):
        assert [one / sum(ours) for one in ours] == pytest.approx([one / sum(was) for one in was])


def test_equal_folds_have_equal_bits_however_the_weights_vanish() -> None:
    def fold() -> Joint:
        joint = Joint()
        joint.add(0.3)
        joint.add(0.3)
        for p, answers in drawn(5, [0.0, 0.4], 1500):
            joint.change(p, [], answers)
        return joint

    one, other = fold(), fold()
    assert one.weights.tobytes() == other.weights.tobytes()
    assert one.weights.max() == 1.0
    assert one.weights.min() > 0.0
