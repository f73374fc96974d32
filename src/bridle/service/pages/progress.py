"""How far teaching is: what one teacher said last, what is still unsure, what was learned."""

from __future__ import annotations

import hashlib
import json
from itertools import islice
from typing import NamedTuple

from bridle.believing import Example
from bridle.events import Judged, Taught
from bridle.knowledge import Knowledge
from bridle.limits import FoundLimits
from bridle.service.pages.examples import Disagreement, ExampleLine, disagreements, line_of
from bridle.service.pages.nextquestion import FEW_DECISIONS, context_form
from bridle.service.pages.picture import Row, Unit, rows_of
from bridle.service.pages.voices import said_by
from bridle.store.naming import id_of
from bridle.store.writing import Desk

__all__ = ["FROM_CSV", "Progress", "Undone", "progress_of", "undone_of", "word_said"]

FROM_CSV = "csv."  # so the ids of examples begin that came in bulk
MOST_LOOKED_AT = 5_000  # examples, the latest
MOST_DISAGREEMENTS = 5
MOST_UNITS = 6


class Undone(NamedTuple):
    """An example that was taken back, and a form to say the opposite in its place."""

    line: ExampleLine
    about: str
    key: str


class Progress(NamedTuple):
    """How far teaching is.

    Attributes
    ----------
    examples : int
        That stand.
    unsure : float or None
        The share of choices, in contexts met of late, that are unsure.
    sure : bool
        Whether none of them is, of an agent that has met somebody.
    guessed, answers : int
        Of this teacher's last answers, how many the agent would have given itself.
    last : ExampleLine or None
        What this teacher said last, to be undone.
    undone : Undone or None
        What they have just taken back.
    disagreements : list of Disagreement
        Of all teachers.
    learned : list of Row
        What is believed of the arms, or groups, that were taught about last.
    """

    examples: int
    unsure: float | None
    sure: bool
    guessed: int
    answers: int
    last: ExampleLine | None
    undone: Undone | None
    disagreements: list[Disagreement]
    learned: list[Row]


def progress_of(desk: Desk, mine: str | None, undone: str = "") -> Progress:
    """Read how far teaching is; `mine` is how the log names the teacher. It is quick."""
    kept, know = desk.kept, desk.kept.know
    unsure = kept.recent.unsure(know)
    guesses = kept.guesses.of.get(mine or "", ())
    return Progress(
        len(know.examples),
        unsure,
        unsure == 0.0 and know.decisions >= FEW_DECISIONS,
        sum(guesses),
        len(guesses),
        _last(know, mine),
        undone_of(desk, mine, undone) if undone else None,
        disagreements(know, MOST_DISAGREEMENTS),
        _learned(know),
    )


def _last(know: Knowledge, mine: str | None) -> ExampleLine | None:
    for one in islice(reversed(know.examples.values()), MOST_LOOKED_AT):
        bulk = isinstance(one.id, str) and one.id.startswith(FROM_CSV)
        if said_by(know, one.by, mine) and not bulk:
            return line_of(know, one)
    return None


def undone_of(desk: Desk, mine: str | None, text: str) -> Undone | None:
    """Give an example of this teacher that does not stand any more."""
    know, found = desk.kept.know, desk.stood("example", text)
    if found is None or not isinstance(found.event, Taught) or id_of(text) in know.examples:
        return None
    event = found.event
    if not said_by(know, event.by, mine) or event.arm not in know.number_of:
        return None
    raw = know.raw(event.context)
    about = {
        "context": context_form(know, raw), "arm": event.arm, "item": event.item,
        "scope": event.scope, "until": event.until,
    }  # fmt: skip
    example = Example(
        event.id, raw, know.arm_number(event.arm), event.allowed, event.by, event.note, event.item,
        event.scope, event.until,
    )  # fmt: skip
    return Undone(line_of(know, example), json.dumps(about), f"instead.{_key(mine, text)}")


def word_said(desk: Desk, mine: str | None, text: str) -> Undone | None:
    """Give what this one of several teachers said last, if it has not settled its case.

    There is no example to take back; but they can say the opposite.
    """
    know, found = desk.kept.know, desk.stood("word", text)
    if found is None or not isinstance(found.event, Judged) or found.event.by != mine:
        return None
    event = found.event
    if event.arm not in know.number_of:
        return None
    raw, k = know.raw(event.context), know.arm_number(event.arm)
    key = know.case_key(raw, event.item, k)
    if know.teachers.settled(*key) is not None or mine not in know.teachers.said(*key):
        return None
    allowed = know.teachers.said(*key)[mine]
    example = Example(
        event.id or "", raw, k, allowed, event.by, event.note, event.item, event.scope, event.until
    )
    about = {
        "context": context_form(know, raw), "arm": event.arm, "item": event.item,
        "scope": event.scope, "until": event.until,
    }  # fmt: skip
    return Undone(line_of(know, example), json.dumps(about), f"instead.{_key(mine, text)}")


def _key(mine: str | None, text: str) -> str:
    return hashlib.blake2b(f"{mine} {text}".encode(), digest_size=12).hexdigest()


def _learned(know: Knowledge) -> list[Row]:
    """Read back what is believed of what was taught about last; not where limits are no rules."""
    shared = know.settings.share == "group" and not isinstance(know.believing.limits, FoundLimits)
    units: dict[int, Unit] = {}
    for one in islice(reversed(know.examples.values()), MOST_LOOKED_AT):
        u, arm = int(know.believing.unit_of[one.arm]), know.arms[one.arm]
        if u not in units:
            group = arm.group if shared else None
            units[u] = Unit(u, arm.label if group is None else group, 1, group is not None)
        if len(units) == MOST_UNITS:
            break
    rows = rows_of(know, list(units.values()), ())
    return [row for row in rows if row.denied or row.unsure]
