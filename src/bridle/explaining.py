"""What is believed of every arm in one context, and why an arm may not be played there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bridle.kernels import doubt
from bridle.kernels.types import Bools, Floats
from bridle.knowledge import Knowledge
from bridle.settings import ArmId

__all__ = ["Believed", "believed_of"]

DENIED_HERE = "denied by the teacher in this very context"
DENIED_ITEM = "denied by the teacher for this item"
NOT_CERTIFIED = "not certified"
UNSURE = "not surely allowed, by the limits"
SURELY_DENIED = "surely denied, by the limits"
EXCEPTIONS = "checks have found exceptions: what was not judged itself is in doubt here"


@dataclass(frozen=True, slots=True, eq=False)
class Believed:
    """What is believed of every arm in one context: arrays of K, in the order of `arms`.

    Attributes
    ----------
    arms : tuple of arm ids
    p : array of floats
        Probability that the arm is allowed.
    safe : array of bools
        Surely allowed, by the live limits: with what the teacher said of this very item, or of
        this very context, and what declared rules say.
    possible : array of bools
        Not surely denied: worth a question.
    certified : array of bools, or None
        What the agent's certificate lets through; None if it has none.
    playable : array of bools
        What a mask may play: safe, and certified or allowed to the letter.
    why : tuple of str or None
        Why the arm is not playable: a declared rule, the teacher, a promise that is frozen, the
        certificate or the limits, the first of them that holds. None if it is playable.
    novelty : array of floats
        How much of the context was never taught of the arm, or its group: 1 for all of it. Above
        .5 what is believed is mostly a guess of how examples carry over.
    unseen : tuple of tuples of str
        What the context holds that no example of the arm, or its group, held: flags and words,
        and numbers outside of what was taught.
    """

    arms: tuple[ArmId, ...]
    p: Floats
    safe: Bools
    possible: Bools
    certified: Bools | None
    playable: Bools
    why: tuple[str | None, ...]
    novelty: Floats
    unseen: tuple[tuple[str, ...], ...]


def believed_of(
    know: Knowledge, row: Floats, item: ArmId | None = None, allowed: Sequence[int] = ()
) -> Believed:
    """Return what is believed of every arm in an encoded context, or of this very item.

    `allowed`: arms that answers have allowed in the very decision that this is about.
    """
    seen = know.believing.seen(row.tobytes())
    said = know.said(row, know.offered(row, None, item), item)
    for k in know._with_unit(allowed):
        said[k] = doubt.SAID_YES if said[k] == doubt.UNASKED else said[k]
    letters = know.certified(row)
    certain, gone = said == doubt.SAID_YES, said == doubt.SAID_NO
    safe = ~gone & (certain | (seen.marks == doubt.SAFE))
    playable = safe if letters is None else safe & (letters | certain)
    if know.purse is not None and know.purse.frozen:  # only what is allowed in this very decision
        here = np.zeros(len(playable), np.bool_)
        here[know._with_unit(allowed)] = True
        playable = playable & here
    columns = know.settings.features.columns
    by_unit = [tuple(columns[i] for i in found) for found in know.believing.unseen(row)]
    return Believed(
        arms=know.arm_ids,
        p=np.where(gone, 0.0, np.where(certain, 1.0, seen.p)),
        safe=safe,
        possible=~gone & (certain | (seen.marks != doubt.DENIED)),
        certified=None if letters is None else letters.copy(),
        playable=playable.copy(),
        why=_reasons(know, row, playable, letters, item),
        novelty=know.believing.novelty(row),
        unseen=tuple(by_unit[unit] for unit in know.believing.unit_of.tolist()),
    )


def _reasons(
    know: Knowledge, row: Floats, playable: Bools, certified: Bools | None, item: ArmId | None
) -> tuple[str | None, ...]:
    """Say of each arm why it is not playable."""
    raw = row.tobytes()
    marks = know.believing.seen(raw).marks
    by_rule: dict[int, str] = {}
    for rule in know.compiled_rules:
        if rule.denied(row):
            for k in np.flatnonzero(rule.arms).tolist():
                by_rule.setdefault(k, f"denied by the rule {rule.rule.id!r}")
    denied = set(know.denied_here(row, item))
    by_item = denied - set(know.denied_here(row))
    frozen = know.purse.sentence() if know.purse is not None and know.purse.frozen else None
    exceptional = _exceptional(know, row)
    out: list[str | None] = []
    for k, fine in enumerate(playable.tolist()):
        if fine:
            out.append(None)
        elif k in by_rule:
            out.append(by_rule[k])
        elif k in denied:
            out.append(DENIED_ITEM if k in by_item else DENIED_HERE)
        elif frozen is not None:
            out.append(frozen)
        elif certified is not None and not certified[k]:
            out.append(NOT_CERTIFIED)
        elif exceptional[k]:
            out.append(EXCEPTIONS)
        else:
            out.append(SURELY_DENIED if marks[k] == doubt.DENIED else UNSURE)
    return tuple(out)


def _exceptional(know: Knowledge, row: Floats) -> Bools:
    """Return which arms the limits themselves call safe, but for the exceptions found: (K,)."""
    believing = know.believing
    rates, unit_of = believing.rates, believing.unit_of
    if rates is None or all(rates.holds(u) for u in range(rates.units)):
        return np.zeros(len(unit_of), np.bool_)
    doubted = np.array([not rates.holds(u) for u in range(rates.units)])
    safe = believing.limits.look_all(row[None]).safe[:, 0]
    return np.asarray((safe & doubted)[unit_of])
