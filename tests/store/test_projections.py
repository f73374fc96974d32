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
from bridle.audit.log import Auditing
from bridle.audit.meter import AuditMeter, Tally
from bridle.errors import CorruptState
from bridle.store.projections import MOST_COUNTED_ARMS, MOST_SPANS, Span, Timeline, part_of


def known(arms: int = 3):
    return Agent(arms=arms, features=1, seed=1)._state


def empty(know, meter: AuditMeter | None = None, promise: AuditMeter | None = None) -> Timeline:
    auditing = Auditing()
    auditing.meter, auditing.promise_meter = meter, promise
    return Timeline(know, auditing)


def back_from(know, arrays) -> Timeline:
    timeline = empty(know)
    timeline.from_arrays(arrays)
    return timeline


def total(timeline: Timeline, name: str) -> float:
    return float(sum(getattr(span, name) for span in timeline.spans))


def same(one: Timeline, two: Timeline) -> bool:
    first, second = one.to_arrays(), two.to_arrays()
    return first.keys() == second.keys() and all(
        np.array_equal(first[name], second[name], equal_nan=True) for name in first
    )


def test_everything_is_counted_once_whatever_the_length():
    know = known()
    for entries in (1, MOST_SPANS, MOST_SPANS + 1, 5_000):
        timeline = empty(know)
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
            timeline.fold(event, seq)
        assert len(timeline.spans) <= MOST_SPANS
        kinds = [seq % 7 for seq in range(2, entries + 2)]
        assert total(timeline, "decisions") == kinds.count(0)
        assert total(timeline, "rewards") == kinds.count(1) + kinds.count(5)
        assert total(timeline, "reward") == 0.5 * kinds.count(1) + 0.25 * kinds.count(5)
        assert total(timeline, "abstentions") == kinds.count(2)
        assert total(timeline, "questions") == kinds.count(3)
        assert total(timeline, "taught") == kinds.count(4)
        assert sum(int(span.plays.sum()) for span in timeline.spans) == kinds.count(0)
        # No gap, and all spans but the last are of the same width.
        assert timeline.spans[0].first == 2 and timeline.spans[-1].last == entries + 1
        for one, two in zip(timeline.spans, timeline.spans[1:], strict=False):
            assert two.first == one.last + 1
            assert one.last - one.first + 1 == timeline.width


@pytest.mark.parametrize("batch", [1, 3, 100, 1_000])
def test_many_at_once_are_the_same_as_one_by_one(batch: int):
    know = known()
    rng = np.random.default_rng(5)
    single, many = empty(know), empty(know)
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
            single.fold(made, seq + n)
        seq += batch
        reward = Rewarded(seq, 0.5)
        for timeline in (single, many):
            timeline.fold(reward, seq)
        seq += 1
        assert same(single, many)


def test_arms_beyond_the_last_are_counted_together():
    know = known(MOST_COUNTED_ARMS + 20)
    single, many = empty(know), empty(know)
    arms = [0, MOST_COUNTED_ARMS, MOST_COUNTED_ARMS + 7, MOST_COUNTED_ARMS + 19]
    for n, arm in enumerate(arms):
        single.fold(Decided(n, (1.0,), arm, 1), 2 + n)
    many.fold_decisions(2, arms, None)
    assert same(single, many)
    assert sum(int(span.plays[-1]) for span in many.spans[1:]) == 3


def test_audits_stand_as_they_were_at_the_end_of_each_span():
    know, meter = known(), AuditMeter(1.0, 0.05, seed=3)
    timeline = empty(know, meter)
    for step in range(1, 41):
        meter.observe(step)
        timeline.fold(Decided(step, (1.0,), 1, 1), 2 * step)
        meter.answer(step, step % 4 > 0)
        timeline.fold(Audited(step, step % 4 > 0), 2 * step + 1)
    last = timeline.spans[-1].audits
    assert last is not None
    assert (last.actions, last.found, last.clean, last.pending) == (40, 10, 30, 0)
    assert meter.bounds_at(last) == meter.bounds()
    assert total(timeline, "judged") == 40 and total(timeline, "violations") == 10
    early = timeline.spans[0].audits
    assert early is not None and meter.bounds_at(early).upper <= 1.0


def test_a_promise_has_a_curve_of_its_own_with_coins_that_vary():
    know, meter = known(), AuditMeter(0.25, 0.05, seed=3)
    timeline = empty(know, promise=meter)
    timeline.fold(Promised(0.1, 0.25, 0, 4.0, 3), 2)
    held = [meter.bounds()]
    for step in range(1, 121):
        coin, checked = 0.3 + 0.005 * step, step % 3 == 0
        meter.observe(step, coin, drawn=checked)
        made = Decided(step, (1.0,), 1, 1, coin=coin, checked=checked)
        timeline.fold(made, len(held) + 2)
        held.append(meter.bounds())
        if checked:
            meter.answer(step, step % 2 > 0)
            said = Taught(step, (1.0,), 1, step % 2 > 0, check=step)
            timeline.fold(said, len(held) + 2)
            held.append(meter.bounds())
    back = back_from(know, timeline.to_arrays())
    assert same(back, timeline)
    for one in (timeline, back):
        assert [meter.bounds_at(span.promise) for span in one.spans if span.promise] == held
        assert all(span.audits is None for span in one.spans)
        counts = [total(one, name) for name in ("drawn", "checks", "exceptions", "taught")]
        assert counts == [40, 40, 20, 40]
    # Without what it knows of its coins it would only be wider.
    last = timeline.spans[-1].promise
    assert last is not None and last.coins is not None
    assert meter.bounds_at(Tally(*last.counts)) != meter.bounds()
    # A curve is of one promise.
    back.fold(PromiseDropped(), back.spans[-1].last + 1)
    assert all(span.promise is None for span in back.spans)
    # What was kept before there were checks has neither coins nor promises.
    old = {k: v for k, v in timeline.to_arrays().items() if "_coins" not in k and k != "promise"}
    old["counts"] = old["counts"][:, :9]
    again = back_from(know, old)
    assert total(again, "taught") == 40 and total(again, "checks") == 0
    assert part_of(timeline.spans[-1], [], know).promise == last


def test_it_comes_back_as_it_was_and_not_if_it_is_damaged():
    know = known()
    timeline = empty(know)
    for seq in range(2, 700):
        timeline.fold(Decided(seq, (1.0,), seq % 3, 1, at=float(seq)), seq)
    state = timeline.to_arrays()
    back = back_from(know, state)
    assert same(back, timeline)
    back.fold(Rewarded(1, 1.0), 700)
    timeline.fold(Rewarded(1, 1.0), 700)
    assert same(back, timeline)
    with pytest.raises(CorruptState):
        back_from(know, state | {"width": np.array([0])})
    assert same(back_from(know, empty(know).to_arrays()), empty(know))
    assert Span(1, 1).plays.size == 0


def test_questions_are_those_of_decisions():
    know = known()
    timeline = empty(know)
    timeline.fold(Asked("taught by", (1.0,), 1, 1, at=1.0), 2)
    timeline.fold(Asked("in doubt", (1.0,), 1, 1, at=2.0, decision=7), 3)
    assert total(timeline, "questions") == 1


def test_a_part_of_a_span_counts_what_is_in_it():
    know = known()
    events = [Decided(n, (1.0,), n % 3, 1, at=float(n)) for n in range(1, 9)]
    whole = Span(2, 9, 1.0, 8.0, decisions=8)
    part = part_of(whole, events[2:5], know)
    assert (part.first, part.last) == (2, 9) and (part.began, part.ended) == (3.0, 5.0)
    assert part.decisions == 3 and part.plays.tolist() == [1, 1, 1]
