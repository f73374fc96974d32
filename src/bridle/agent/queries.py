"""What an agent answers when it is asked about itself: it reads the state, and changes nothing.

What is believed of every arm in a context, and why one may not be played there; open questions;
exceptions; limits as sentences; proposals of groups and of a fresh start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bridle.agent.config import ArmId, ItemId
from bridle.agent.selection import Selector
from bridle.agent.state import RETIRED, AgentState, Example
from bridle.agent.teachers import Choice
from bridle.errors import NotPossible
from bridle.kernels import doubt
from bridle.kernels.types import Bools, Floats
from bridle.limits import Beliefs, FoundGroup, Reading, Terms
from bridle.schema import Category, Schema

__all__ = [
    "LEAST_DENIALS",
    "MATTERS",
    "MAX_WIDTH",
    "MOST_WEIGHED",
    "Believed",
    "Exceptions",
    "FreshStart",
    "OpenQuestion",
    "believed_of",
    "exceptions_of",
    "fresh_start_of",
    "open_questions",
    "printable",
    "proposal_of",
    "sentences_of",
    "unit_name",
    "whom_to_ask",
    "worth_of",
]


DENIED_HERE = "denied by the teacher in this very context"
DENIED_ITEM = "denied by the teacher for this item"
NOT_CERTIFIED = "not certified"
RETIRED_ARM = "retired"
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
        Why the arm is not playable: it is retired, a declared rule, the teacher, a promise that is
        frozen, the certificate or the limits, the first of them that holds. None if it is playable.
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
    state: AgentState, row: Floats, item: ArmId | None = None, allowed: Sequence[int] = ()
) -> Believed:
    """Return what is believed of every arm in an encoded context, or of this very item.

    `allowed`: arms that answers have allowed in the very decision that this is about.
    """
    seen = state.limits_state.seen(row.tobytes())
    said = state.said(row, state.offered(row, None, item), item)
    for k in state._with_unit(allowed):
        said[k] = doubt.SAID_YES if said[k] == doubt.UNASKED else said[k]
    letters = state.certified(row)
    certain, gone = said == doubt.SAID_YES, said == doubt.SAID_NO
    safe = ~gone & (certain | (seen.marks == doubt.SAFE))
    playable = safe if letters is None else safe & (letters | certain)
    if state.purse is not None and state.purse.frozen:  # only what is allowed in this very decision
        here = np.zeros(len(playable), np.bool_)
        here[state._with_unit(allowed)] = True
        playable = playable & here
    columns = state.settings.features.columns
    by_unit = [tuple(columns[i] for i in found) for found in state.limits_state.unseen(row)]
    return Believed(
        arms=state.arm_ids,
        p=np.where(gone, 0.0, np.where(certain, 1.0, seen.p)),
        safe=safe,
        possible=~gone & (certain | (seen.marks != doubt.DENIED)),
        certified=None if letters is None else letters.copy(),
        playable=playable.copy(),
        why=_reasons(state, row, playable, letters, item),
        novelty=state.limits_state.novelty(row),
        unseen=tuple(by_unit[unit] for unit in state.limits_state.unit_of.tolist()),
    )


def _reasons(
    state: AgentState, row: Floats, playable: Bools, certified: Bools | None, item: ArmId | None
) -> tuple[str | None, ...]:
    """Return for each arm why it is not playable, None if it is."""
    raw = row.tobytes()
    marks = state.limits_state.seen(raw).marks
    by_rule: dict[int, str] = {}
    for rule in state.compiled_rules:
        if rule.denied(row):
            for k in np.flatnonzero(rule.arms).tolist():
                by_rule.setdefault(k, f"denied by the rule {rule.rule.id!r}")
    denied = set(state.denied_here(row, item))
    by_item = denied - set(state.denied_here(row))
    frozen = state.purse.sentence() if state.purse is not None and state.purse.frozen else None
    exceptional = _exceptional(state, row)
    out: list[str | None] = []
    for k, fine in enumerate(playable.tolist()):
        if fine:
            out.append(None)
        elif state.status[k] == RETIRED:
            out.append(RETIRED_ARM)
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
        elif marks[k] == doubt.DENIED:
            out.append(SURELY_DENIED)
        else:
            pairs = state.limits_state.pairs
            unknown = () if pairs is None else pairs.unknown(k)
            out.append(f"{UNSURE}: {', '.join(unknown)} not given" if unknown else UNSURE)
    return tuple(out)


def _exceptional(state: AgentState, row: Floats) -> Bools:
    """Return which arms the limits themselves call safe, but for the exceptions found: (K,)."""
    limits_state = state.limits_state
    rates, unit_of = limits_state.rates, limits_state.unit_of
    if rates is None or all(rates.holds(u) for u in range(rates.units)):
        return np.zeros(len(unit_of), np.bool_)
    if limits_state.pairs is not None:
        return limits_state.pairs.predict_pairs(row, np.arange(len(unit_of))).safe
    doubted = np.array([not rates.holds(u) for u in range(rates.units)])
    safe = limits_state.limits.predict_all(row[None]).safe[:, 0]
    return np.asarray((safe & doubted)[unit_of])


# --- Whether what was learned of the limits should be begun anew: they seem to have changed


@dataclass(frozen=True)
class FreshStart:
    """A proposal to begin anew, in sentences. `Agent.start_anew` takes it up.

    Attributes
    ----------
    why, kept, lost : str
        What speaks for it, what stays as it is, and what is forgotten.
    """

    why: str
    kept: str
    lost: str

    def __str__(self) -> str:
        return f"{self.why} {self.kept} {self.lost}"


def fresh_start_of(state: AgentState) -> FreshStart | None:
    """Return what speaks for beginning anew; None if nothing does."""
    reasons = []
    if state.contradictions:
        many = (
            "A check has" if state.contradictions == 1 else f"{state.contradictions:,} checks have"
        )
        reasons.append(f"{many} denied what a teacher had allowed before.")
    drift = state.limits_state.drift
    if drift is not None and drift.rejected:
        reasons.append(
            f"The teacher's answers no longer come as expected: seen at answer "
            f"{drift.rejected_at:,} of {drift.answers:,}; by chance alone that happens in "
            f"{drift.level:g} of all cases at most."
        )
    if not reasons:
        return None
    allowed = sum(example.allowed for example in state.examples.values())
    denied = len(state.examples) - allowed
    return FreshStart(
        why=" ".join(reasons),
        kept=f"Kept: {_answers(denied)} that say “not allowed”, declared rules, arms, and all that "
        "was learned from rewards.",
        lost=f"Forgotten: {_answers(allowed)} that say “allowed”, and what was concluded from "
        "them. Much will be in doubt again, and asked about.",
    )


def _answers(n: int) -> str:
    return "1 answer" if n == 1 else f"{n:,} answers"


# So many denials of one unit and nothing else are said in one sentence.
LEAST_DENIALS = 10
# In wider contexts pairs are too many to be rules.
MAX_WIDTH = 300
# Open questions that are weighed by what an answer is worth.
MOST_WEIGHED = 1_000
# A feature that moves P(allowed) by less does not matter.
MATTERS = 0.05


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that waits for its answer."""

    id: ItemId
    context: tuple[float, ...]  # as the agent encodes it
    arm: ArmId
    decision: ItemId | None  # that it came up in; None if the agent asked to be taught
    item: ArmId | None  # the name of what the context is about
    worth: float | None  # what its answer is worth now, in rewards; None: not weighed
    to: str | None = None  # whom to ask, of declared teachers; None: nobody is worth it


@dataclass(frozen=True, slots=True)
class Exceptions:
    """What is known of exceptions to what is believed safe of one arm, or of a group."""

    unit: str
    judged: int  # first judgements of what was believed safe
    found: int  # of these: denied
    rate: float  # what is expected of an item not yet judged
    coin: float  # the probability with which its next play is checked


def exceptions_of(state: AgentState) -> tuple[Exceptions, ...]:
    """Return what checks and answers have found, by unit; nothing where plays are not checked."""
    rates = state.limits_state.rates
    if rates is None:
        return ()
    return tuple(
        Exceptions(
            unit_name(state, u),
            int(rates.judged[u].sum()),
            int(rates.judged[u, 1]),
            float(rates.rates[u]),
            rates.coin(u),
        )
        for u in range(rates.units)
    )


def unit_name(state: AgentState, unit: int) -> str:
    """Return what people call a unit: its group, or the label of its only arm."""
    if state.limits_state.pairs is not None:
        return "all arms"  # whose exceptions are counted together
    arm = state.arms[int(np.flatnonzero(state.limits_state.unit_of == unit)[0])]
    shared = state.settings.share == "group" and state.limits_state.limits.shares_groups
    return str(arm.group if shared and arm.group is not None else arm.label)


def worth_of(state: AgentState, row: Floats, k: int, item: ArmId | None) -> float:
    """Return what an answer about an arm is worth here and now: see `Selector.value`."""
    return float(Selector(state).value(row, item)[k])


def open_questions(state: AgentState) -> tuple[OpenQuestion, ...]:
    """Return the open questions of an agent, the most valuable first, of equals the oldest.

    Of more than 1,000 the oldest 1,000 are weighed; the others follow as they came.
    """
    selector = Selector(state)
    values: dict[tuple[bytes, ArmId | None], Floats] = {}
    out = []
    for n, (id, one) in enumerate(state.questions.open.items()):
        row, case, worth = np.frombuffer(one.context), (one.context, one.item), None
        to = None
        if n < MOST_WEIGHED:
            if case not in values:
                values[case] = selector.value(row, one.item)
            worth = float(values[case][one.arm])
            if state.settings.teachers:
                choice = whom_to_ask(state, one.context, one.item, one.arm)
                to = None if choice is None else choice.teacher
        out.append(
            OpenQuestion(
                id, tuple(row.tolist()), state.arm_ids[one.arm], one.decision, one.item, worth, to
            )
        )
    if state.settings.legacy:  # as it was: the oldest first
        return tuple(out)
    return tuple(sorted(out, key=lambda one: math.inf if one.worth is None else -one.worth))


def whom_to_ask(
    state: AgentState,
    context: bytes,
    item: ArmId | None,
    arm: int,
    among: Sequence[str] | None = None,
) -> Choice | None:
    """Return which declared teacher to ask about a case, None if nobody is worth it.

    Not to know costs what an answer is worth (`answer_price`): so much was lost before it is asked.
    """
    case, unit = state.case_key(context, item, arm)
    price = state.settings.answer_price
    assert price is not None  # agents of the first form have no declared teachers
    p = state.prior_of(context, arm)
    return state.teachers.choose(p, price, case=case, unit=unit, among=among)


def sentences_of(state: AgentState) -> list[str]:
    """Return the limits as sentences, one for each unit."""
    limits = state.limits_state.limits
    if not limits.has_sentences:
        raise NotPossible(
            f"Limits of the kind {state.limits_state.kind!r} cannot be described in sentences. Ask "
            "what is believed of a context, agent.believed(context), or make the agent with "
            "limits='rules' or 'auto'."
        )
    pairs = state.limits_state.pairs
    if pairs is not None:
        said = pairs.sentences([printable(arm.label) for arm in state.arms])
        more = _doubted(state, 0)
        return [*said, more.removeprefix("; ")] if more else said
    schema, never = state.settings.features, _never_together(state.settings.features)
    out = []
    unread: Reading | None = None  # of units that nothing was said about: all alike
    for unit in range(limits.units):
        name = unit_name(state, unit)
        if limits.calibrated:
            out.append(f"{_sentence(state, limits, unit, name, never)}{_doubted(state, unit)}")
            continue
        if limits.by_degrees(unit):
            out.append(f"{name}: by degrees, no rule says it; see believed(context)")
            continue
        untaught = not state.limits_state.taught(unit)
        if not untaught or unread is None:
            reading = limits.describe(unit, schema.columns)
        else:
            reading = unread
        unread = reading if untaught else unread
        unsure = tuple(term for term in reading.unsure if term not in never)
        out.append(replace(reading, unsure=unsure).sentence(name))
    return out


def _doubted(state: AgentState, unit: int) -> str:
    """Return a clause if exceptions put all in doubt that was not judged itself, else nothing."""
    rates = state.limits_state.rates
    if rates is None or rates.holds(unit):
        return ""
    clean, found = rates.judged[unit].tolist()
    return (
        f"; checks found exceptions ({found} of {clean + found}): what was not judged itself is "
        "in doubt"
    )


def _sentence(state: AgentState, limits: Beliefs, unit: int, name: str, never: set[str]) -> str:
    """Describe the limits of one unit: what its rules deny, and what P(allowed) doubts."""
    schema = state.settings.features
    exceptions = _exceptions(state, limits, unit)
    examples = state.limits_state.examples_of(unit)
    if len(examples) >= LEAST_DENIALS and not any(example.allowed for example in examples):
        return f"{name}: nothing was allowed so far{exceptions}"
    first = int(np.flatnonzero(state.limits_state.unit_of == unit)[0])
    p = _alone(state, limits, unit, first)
    if limits.by_degrees(unit):
        most = _most(schema, p)
        return f"{name}: by degrees, no rule says it{most}; see believed(context){exceptions}"
    return limits.read(unit, schema, p, never).sentence(name) + exceptions


def _alone(state: AgentState, limits: Beliefs, unit: int, arm: int) -> Floats:
    """Return P(allowed) of an arm where a context holds just one thing: by column, (d + 1,).

    Of a word: where it alone holds. Of a number: how much more likely at its high end than at its
    low end. The last: where nothing holds. Numbers are in the middle of their range, flags and
    words do not hold; what rules and people say of such a context counts.
    """
    schema = state.settings.features
    rest = np.zeros(schema.width)
    for feature, at in schema.numbers:
        middle = 0.0 if feature.low is None else 0.5
        rest[at] = middle if feature.missing is None else feature.scale(feature.missing)
    rows = np.repeat(rest[None], schema.width + 1, axis=0)
    columns = np.arange(schema.width)
    rows[columns, columns] = 1.0
    p: Floats = np.array(limits.predict(unit, rows).p)
    for n, row in enumerate(rows):
        if not state.offered(row, None)[arm]:
            p[n] = 0.0
    if schema.numbers:
        ends = [at for _, at in schema.numbers]
        low = rows[ends].copy()
        low[np.arange(len(ends)), ends] = 0.0
        p[ends] -= limits.predict(unit, low).p
    return p


def _most(schema: Schema, p: Floats) -> str:
    """Name up to three features that matter most, by how far each alone moves P(allowed)."""
    numbers = {at for _, at in schema.numbers}
    moved = [p[at] if at in numbers else p[at] - p[-1] for at in range(schema.width)]
    most = [
        at for at in np.argsort(-np.abs(moved), kind="stable").tolist() if abs(moved[at]) >= MATTERS
    ][:3]
    words = [
        f"{'more' if moved[at] > 0.0 else 'less'} likely with "
        f"{'higher ' if at in numbers else ''}{schema.columns[at].rpartition('=')[2]}"
        for at in most
    ]
    return f" ({', '.join(words)})" if words else ""


def printable(name: str) -> str:
    """Return a name without what would break a line, or colour a terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in name)


def _exceptions(state: AgentState, limits: Beliefs, unit: int) -> str:
    """Name items of which the teacher said otherwise than the limits would: at most three."""
    if not state.remembers:
        return ""
    last: dict[ArmId, Example] = {}
    for example in state.limits_state.examples_of(unit)[-MOST_WEIGHED:]:
        if example.item is not None and (example.item not in last or not example.allowed):
            last[example.item] = example
    if not last:
        return ""
    rows = np.frombuffer(b"".join(e.context for e in last.values())).reshape(len(last), -1)
    prediction = limits.predict(unit, rows)
    odd = [
        f"{printable(str(item))} {'allowed' if one.allowed else 'denied'}"
        for (item, one), p, safe in zip(
            last.items(), prediction.p.tolist(), prediction.safe.tolist(), strict=True
        )
        if (p < 0.5 if one.allowed else safe)
    ]
    more = f" and {len(odd) - 3:,} more" if len(odd) > 3 else ""
    return f"; exceptions: {', '.join(odd[:3])}{more}" if odd else ""


def _never_together(schema: Schema) -> set[str]:
    """Name the pairs that no context holds: of two values of one category."""
    apart = [
        range(at, at + len(feature.values))
        for feature, at in schema.encoded
        if isinstance(feature, Category)
    ]
    if not apart or schema.width > MAX_WIDTH:
        return set()
    terms = Terms(schema.width, pairs=True)
    named = zip(terms.all(), terms.names(schema.columns), strict=True)
    return {
        name
        for term, name in named
        if isinstance(term, tuple) and any(term[0] in one and term[1] in one for one in apart)
    }


def proposal_of(state: AgentState, threshold: float) -> list[FoundGroup]:
    """Propose groups of arms that seem to share a rule."""
    if state.settings.teacher_error is None and not state.limits_state.limits.finds_groups:
        raise NotPossible(
            "Groups are found for a declared rate of error: make the agent with teacher_error=0.1, "
            "say, to have a proposal."
        )
    found = state.limits_state.found(tuple(state.examples.values()))
    taken = {arm.group for arm in state.arms}
    out = []
    for group in found.proposal(state.settings.features.columns, threshold):
        name, n = group.name, 1
        while name in taken:  # the name of a group that was accepted before
            n += 1
            name = f"{group.name} ({n})"
        taken.add(name)
        ids = tuple(state.arm_ids[int(k)] for k in group.arms)
        out.append(replace(group, name=name, arms=ids))
    return out
