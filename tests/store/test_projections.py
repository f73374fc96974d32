from __future__ import annotations

import numpy as np
import pytest

from bridle import Agent
from bridle.agent.events import (
    Abstained,
    Asked,
    Audited,
    Decided,
    Expired,
    Promised,
    PromiseDropped,
    Rewarded,
    Taught,
)
from bridle.audit.meter import AuditMeter, Tally
from bridle.errors import CorruptState
from bridle.store.projections import MOST_ARMS, MOST_SPANS, Chronicle, Span, part_of


def known(arms: int = 3):
    return Agent(arms=arms, features=1, seed=1)._state


def total(chronicle: Chronicle, name: str) -> float:
    return float(sum(getattr(span, name) for span in chronicle.spans))


def same(one: Chronicle, two: Chronicle) -> bool:
    first, second = one.to_state(), two.to_state()
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name], equal_nan=True) for name in first
    )


def test_everything_is_counted_once_whatever_the_length():
    know = known()
    for entries in (1, MOST_SPANS, MOST_SPANS + 1, 5_000):
        chronicle = Chronicle()
        for seq in range(2, entries + 2):
            event = [
                Decided(seq, (1.0,), seq % 3, 1, at=float(seq)),
                Rewarded(seq, 0.5, at=float(seq)),
                Abstained(seq, (1.0,), 1),
                Asked(seq, (1.0,), 1, 1, decision=seq),
                Taught(seq, (1.0,), 1, True),
                Expired(seq, 0.25),
                Expired(seq, None),
            ][seq % 7]
            chronicle.fold(seq, event, know, None)
        assert len(chronicle.spans) <= MOST_SPANS
        kinds = [seq % 7 for seq in range(2, entries + 2)]
        assert total(chronicle, "decisions") == kinds.count(0)
        assert total(chronicle, "rewards") == kinds.count(1) + kinds.count(5)
        assert total(chronicle, "reward") == 0.5 * kinds.count(1) + 0.25 * kinds.count(5)
        assert total(chronicle, "abstentions") == kinds.count(2)
        assert total(chronicle, "questions") == kinds.count(3)
        assert total(chronicle, "taught") == kinds.count(4)
        assert sum(int(span.plays.sum()) for span in chronicle.spans) == kinds.count(0)
        # No gap, and all spans but the last are of the same width.
        assert chronicle.spans[0].first == 2 and chronicle.spans[-1].last == entries + 1
        for one, two in zip(chronicle.spans, chronicle.spans[1:], strict=False):
            assert two.first == one.last + 1
            assert one.last - one.first + 1 == chronicle.width


@pytest.mark.parametrize("batch", [1, 3, 100, 1_000])
def test_many_at_once_are_the_same_as_one_by_one(batch: int):
    know = known()
    rng = np.random.default_rng(5)
    single, many = Chronicle(), Chronicle()
    seq = 2
    while seq < 4_000:
        arms = rng.integers(-1, 3, batch).tolist()
        at = float(seq)
        many.fold_decisions(seq, arms, at)
        for n, arm in enumerate(arms):
            made = (
                Abstained(seq + n, (1.0,), 1, at=at)
                if arm < 0
                else Decided(seq + n, (1.0,), arm, 1, at=at)
            )
            single.fold(seq + n, made, know, None)
        seq += batch
        reward = Rewarded(seq, 0.5)
        for chronicle in (single, many):
            chronicle.fold(seq, reward, know, None)
        seq += 1
        assert same(single, many)


def test_arms_beyond_the_last_are_counted_together():
    know = known(MOST_ARMS + 20)
    single, many = Chronicle(), Chronicle()
    arms = [0, MOST_ARMS, MOST_ARMS + 7, MOST_ARMS + 19]
    for n, arm in enumerate(arms):
        single.fold(2 + n, Decided(n, (1.0,), arm, 1), know, None)
    many.fold_decisions(2, arms, None)
    assert same(single, many)
    assert sum(int(span.plays[-1]) for span in many.spans[1:]) == 3


def test_audits_stand_as_they_were_at_the_end_of_each_span():
    know, meter, chronicle = known(), AuditMeter(1.0, 0.05, seed=3), Chronicle()
    for step in range(1, 41):
        meter.observe(step)
        chronicle.fold(2 * step, Decided(step, (1.0,), 1, 1), know, meter)
        meter.answer(step, step % 4 > 0)
        chronicle.fold(2 * step + 1, Audited(step, step % 4 > 0), know, meter)
    last = chronicle.spans[-1].audits
    assert last is not None
    assert (last.actions, last.found, last.clean, last.pending) == (40, 10, 30, 0)
    assert meter.bounds_at(last) == meter.bounds()
    assert total(chronicle, "judged") == 40 and total(chronicle, "violations") == 10
    early = chronicle.spans[0].audits
    assert early is not None and meter.bounds_at(early).upper <= 1.0


def test_a_promise_has_a_curve_of_its_own_with_coins_that_vary():
    know, meter, chronicle = known(), AuditMeter(0.25, 0.05, seed=3), Chronicle()
    chronicle.fold(2, Promised(0.1, 0.25, 0, 4.0, 3), know, None, meter)
    held = [meter.bounds()]
    for step in range(1, 121):
        coin, checked = 0.3 + 0.005 * step, step % 3 == 0
        meter.observe(step, coin, drawn=checked)
        made = Decided(step, (1.0,), 1, 1, coin=coin, checked=checked)
        chronicle.fold(len(held) + 2, made, know, None, meter)
        held.append(meter.bounds())
        if checked:
            meter.answer(step, step % 2 > 0)
            said = Taught(step, (1.0,), 1, step % 2 > 0, check=step)
            chronicle.fold(len(held) + 2, said, know, None, meter)
            held.append(meter.bounds())
    back = Chronicle.from_state(chronicle.to_state())
    assert same(back, chronicle)
    for one in (chronicle, back):
        assert [meter.bounds_at(span.promise) for span in one.spans if span.promise] == held
        assert all(span.audits is None for span in one.spans)
        counts = [total(one, name) for name in ("drawn", "checks", "exceptions", "taught")]
        assert counts == [40, 40, 20, 40]
    # Without what it knows of its coins it would only be wider.
    last = chronicle.spans[-1].promise
    assert last is not None and last.coins is not None
    assert meter.bounds_at(Tally(*last.counts)) != meter.bounds()
    # A curve is of one promise.
    back.fold(back.spans[-1].last + 1, PromiseDropped(), know, None, None)
    assert all(span.promise is None for span in back.spans)
    # What was kept before there were checks has neither coins nor promises.
    old = {k: v for k, v in chronicle.to_state().items() if "_coins" not in k and k != "promise"}
    old["counts"] = old["counts"][:, :9]
    again = Chronicle.from_state(old)
    assert total(again, "taught") == 40 and total(again, "checks") == 0
    assert part_of(chronicle.spans[-1], [], know).promise == last


def test_it_comes_back_as_it_was_and_not_if_it_is_damaged():
    know, chronicle = known(), Chronicle()
    for seq in range(2, 700):
        chronicle.fold(seq, Decided(seq, (1.0,), seq % 3, 1, at=float(seq)), know, None)
    state = chronicle.to_state()
    back = Chronicle.from_state(state)
    assert same(back, chronicle)
    back.fold(700, Rewarded(1, 1.0), know, None)
    chronicle.fold(700, Rewarded(1, 1.0), know, None)
    assert same(back, chronicle)
    with pytest.raises(CorruptState):
        Chronicle.from_state(state | {"width": np.array([0])})
    assert same(Chronicle.from_state(Chronicle().to_state()), Chronicle())
    assert Span(1, 1).plays.size == 0


def test_questions_are_those_of_decisions():
    know, chronicle = known(), Chronicle()
    chronicle.fold(2, Asked("taught by", (1.0,), 1, 1, at=1.0), know, None)
    chronicle.fold(3, Asked("in doubt", (1.0,), 1, 1, at=2.0, decision=7), know, None)
    assert total(chronicle, "questions") == 1


def test_a_part_of_a_span_counts_what_is_in_it():
    know = known()
    events = [Decided(n, (1.0,), n % 3, 1, at=float(n)) for n in range(1, 9)]
    whole = Span(2, 9, 1.0, 8.0, decisions=8)
    part = part_of(whole, events[2:5], know)
    assert (part.first, part.last) == (2, 9) and (part.began, part.ended) == (3.0, 5.0)
    assert part.decisions == 3 and part.plays.tolist() == [1, 1, 1]
