"""Finding choices in a log without reading all of it: by id, arm, outcome, reward and time.

A log is read in pieces, from its end or from its beginning. Whoever looks back says how far at
most, and is told how far it went.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from bridle.agent.config import Arm, ArmId
from bridle.agent.events import (
    Abstained,
    Asked,
    Decided,
    Erased,
    Event,
    Expired,
    Rewarded,
    RewardedLate,
    Taught,
)
from bridle.errors import InvalidValue
from bridle.schema import Schema
from bridle.server.service import Service
from bridle.store.aggregate import Aggregate, event_of
from bridle.store.idempotency import text_of
from bridle.store.log import Entry, Store
from bridle.store.writer import UnitOfWork
from bridle.web.rendering import arm_words, context_words, iso, number_words, time_words, url

__all__ = [
    "CHECKS",
    "OUTCOMES",
    "Earned",
    "Looked",
    "Made",
    "Naming",
    "Wanted",
    "arms_like",
    "by_id",
    "check_of",
    "earned",
    "earned_by",
    "earned_words",
    "entries_at",
    "look_back",
    "look_on",
    "made_of",
    "reward_words",
    "seq_at",
    "time_of",
    "verdicts",
]


OUTCOMES = {"decision": "Decided", "abstention": "Abstained", "question": "Asked"}
# What a check of a play may have come to.
CHECKS = ("denied", "allowed", "waiting")
_KINDS = {kind: outcome for outcome, kind in OUTCOMES.items()}
# Entries that one look reads at a time, and all in all before it stops to ask.
PIECE = 250
SCAN = 2_000
# Entries that stand so near to each other are read together.
NEAR = 64
# After so many entries that do not say when they came, a search by time gives up on a stretch.
SILENT = 5_000


class Made(NamedTuple):
    """A choice as the log has it. All but `seq` and `outcome` may be None once it was erased."""

    seq: int
    outcome: str  # decision, abstention or question
    id: str | None  # of the decision; of a question, of the one that it came up in
    at: float | None = None
    arm: ArmId | None = None  # that was played, or asked about
    context: tuple[float, ...] | None = None
    propensity: float | None = None
    version: int | None = None
    erased: bool = False
    item: ArmId | None = None
    coin: float | None = None  # the probability with which it was to be checked
    checked: bool = False


class Earned(NamedTuple):
    """What became of the reward of a decision.

    `how`: it "came"; was "assumed" when nobody waited any more; came "late" and was not learned;
    or nothing is awaited any more ("none").
    """

    how: str
    value: float | None
    at: float | None


class Looked(NamedTuple):
    """What a look back found: the newest first, and how far back it looked."""

    found: list[Made]
    back_to: int  # the first entry that was looked at
    more: bool  # whether there is anything before it that could match


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which choices are looked for.

    Attributes
    ----------
    arms : frozenset of arm ids, or None
        Only of these arms.
    outcome : str or None
        One of `OUTCOMES`.
    rewarded : bool or None
        Only those for which a reward came, or for which none came.
    check : str or None
        One of `CHECKS`: only plays of which a check said so.
    first, last : int
        The entries among which to look.
    since, until : float
        Only those of this time, from the first to before the second. The entries are found as if
        times only grew; where a clock was set back, some of them are of other times.
    """

    arms: frozenset[ArmId] | None = None
    outcome: str | None = None
    rewarded: bool | None = None
    check: str | None = None
    first: int = 1
    last: int = 2**53
    since: float = -math.inf
    until: float = math.inf

    def _kind(self, entry: Entry) -> bool:
        if self.outcome is not None:
            return entry.kind == OUTCOMES[self.outcome]
        return entry.kind in _KINDS

    def among(self, store: Store, agent: str, entries: Sequence[Entry]) -> list[Made]:
        """Give the choices among entries that are wanted, in their order."""
        made = [one for entry in entries if self._kind(entry) and (one := made_of(entry))]
        made = [one for one in made if one.at is None or self.since <= one.at < self.until]
        if self.arms is not None:
            made = [one for one in made if one.arm in self.arms]
        if self.rewarded is not None:
            had = earned(store, agent, made)
            made = [
                one
                for one in made
                if not one.erased
                and one.outcome == "decision"
                and _is_rewarded(had.get(str(one.id))) == self.rewarded
            ]
        if self.check is not None:
            said = verdicts(store, agent, made)
            made = [one for one in made if check_of(one, said) == self.check]
        return _named(store, agent, made)


def look_back(
    store: Store, agent: str, wanted: Wanted, before: int, most: int, scan: int = SCAN
) -> Looked:
    """Give up to `most` choices before an entry, the newest first; read no more than `scan`."""
    found: list[Made] = []
    at = min(before, wanted.last + 1)  # all from here on is done
    end = max(wanted.first, at - scan)
    while at > end:
        start = max(end, at - PIECE)
        entries = store.read(agent, start - 1, at - start)
        for one in reversed(wanted.among(store, agent, entries)):
            found.append(one)
            if len(found) == most:
                return Looked(found, one.seq, one.seq > wanted.first)
        at = start
    return Looked(found, max(at, 1), at > wanted.first)


def look_on(
    store: Store, agent: str, wanted: Wanted, after: int, limit: int
) -> tuple[list[Made], int]:
    """Give the choices among the `limit` entries after one, and the last entry that was read."""
    start = max(after, wanted.first - 1)
    entries = store.read(agent, start, max(0, min(limit, wanted.last - start)))
    last = entries[-1].seq if entries else wanted.last
    return wanted.among(store, agent, entries), last


def by_id(store: Store, agent: str, text: str) -> list[Made]:
    """Give what the log has of a decision, or of a question, by its id; the newest first."""
    seqs = {
        found.seq
        for space in ("settled", "decision", "question")
        for found in store.find(agent, space, [text]).values()
    }
    made = [one for entry in entries_at(store, agent, sorted(seqs)) if (one := made_of(entry))]
    return _named(store, agent, made)[::-1]


def made_of(entry: Entry) -> Made | None:
    """Give the choice that an entry holds; None if it holds none.

    A question by which somebody is taught comes up in no decision, and is none.
    """
    outcome = _KINDS.get(entry.kind)
    if outcome is None:
        return None
    event: Event = event_of(entry)
    if isinstance(event, Erased):
        return Made(entry.seq, outcome, None, erased=True)
    assert isinstance(event, Decided | Abstained | Asked)
    id, arm = event.id, None if isinstance(event, Abstained) else event.arm
    if isinstance(event, Asked):
        if event.decision is None:
            return None
        id = event.decision
    return Made(
        entry.seq,
        outcome,
        text_of(id),
        event.at,
        arm,
        tuple(event.context),
        event.propensity,
        event.version,
        item=event.item,
        coin=event.coin if isinstance(event, Decided) else None,
        checked=isinstance(event, Decided) and event.checked,
    )


def earned(store: Store, agent: str, made: Sequence[Made]) -> dict[str, Earned]:
    """Give what became of the rewards of decisions, by their ids."""
    ids = [one.id for one in made if one.outcome == "decision" and one.id is not None]
    places: dict[int, str] = {}
    for space in ("outcome", "late"):
        places |= {one.seq: id for id, one in store.find(agent, space, ids).items()}
    found: dict[str, Earned] = {}
    for entry in entries_at(store, agent, sorted(places)):
        event = event_of(entry)
        if isinstance(event, Rewarded):
            had = Earned("came", event.value, event.at)
        elif isinstance(event, Expired):
            had = Earned("none" if event.value is None else "assumed", event.value, event.at)
        elif isinstance(event, RewardedLate):  # it stands after the end of waiting, and says more
            had = Earned("late", event.value, event.at)
        else:
            continue  # it was erased
        found[places[entry.seq]] = had
    return found


def verdicts(store: Store, agent: str, made: Sequence[Made]) -> dict[str, Taught]:
    """Give what people said of plays that were checked, by their ids; those that wait have none."""
    ids = [one.id for one in made if one.checked and one.id is not None]
    places = {one.seq: id for id, one in store.find(agent, "check", ids).items()} if ids else {}
    return {
        places[entry.seq]: event
        for entry in entries_at(store, agent, sorted(places))
        if isinstance(event := event_of(entry), Taught)  # else it was erased
    }


def check_of(made: Made, said: Mapping[str, Taught]) -> str | None:
    """Give what became of the check of a play: one of `CHECKS`; None if it was not checked."""
    if not made.checked:
        return None
    verdict = said.get(str(made.id))
    return "waiting" if verdict is None else "allowed" if verdict.allowed else "denied"


def earned_by(made: Made, had: Mapping[str, Earned]) -> Earned | None:
    """Give what a choice earned: what was played did, not what was asked along with it."""
    return had.get(str(made.id)) if made.outcome == "decision" else None


def entries_at(store: Store, agent: str, seqs: Sequence[int]) -> Iterator[Entry]:
    """Give entries by their sequences, which are in order."""
    wanted = set(seqs)
    for first, last in _runs(seqs):
        for entry in store.read(agent, first - 1, last - first + 1):
            if entry.seq in wanted:
                yield entry


def seq_at(store: Store, agent: str, head: int, at: float) -> int:
    """Say how many entries came before a time, by halving: a log is in the order of time."""
    low, high = 0, head
    while low < high:
        middle = (low + high) // 2
        found = _when(store, agent, middle, high)
        if found is not None and found[1] < at:
            low = found[0]
        else:
            high = middle
    return low


def time_of(text: str, name: str) -> float | None:
    """Read a time as a browser writes it, in UTC; None if there is none.

    Examples
    --------
    >>> time_of("1970-01-02T00:00", "from"), time_of("", "from")
    (86400.0, None)
    """
    if not text:
        return None
    try:
        read = datetime.fromisoformat(text)
        return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        wanted = "a day and a time, as 2026-11-17T19:30"
        raise InvalidValue(name, "the form", wanted, text[:100]) from None


def _when(store: Store, agent: str, after: int, last: int) -> tuple[int, float] | None:
    """Give the first entry after one that says when it came, and when that was."""
    at, size = after, 4
    # Nearly all of them say it; what was erased does not, nor what was made without a clock.
    while at < last and at - after < SILENT:
        entries = store.read(agent, at, min(size, last - at))
        if not entries:
            return None
        for entry in entries:
            when = None if entry.payload is None else getattr(event_of(entry), "at", None)
            if when is not None:
                return entry.seq, when
        at, size = entries[-1].seq, min(4 * size, 1_000)
    return None


def _is_rewarded(had: Earned | None) -> bool:
    return had is not None and had.value is not None


def _named(store: Store, agent: str, made: Sequence[Made]) -> list[Made]:
    """Give erased decisions their ids, which the log still knows."""
    named = [
        one._replace(id=_name_of(store, agent, one.seq)) if one.erased else one for one in made
    ]
    # A question without a decision's id was one to be taught by.
    return [one for one in named if one.id is not None or one.outcome != "question"]


def _name_of(store: Store, agent: str, seq: int) -> str | None:
    names = store.names(agent, seq - 1, 1).get(seq, ())
    mine = [name.id for name in names if name.space in ("decision", "settled")]
    return mine[0] if mine else None


def _runs(seqs: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Give the first and the last of sequences that are worth reading together."""
    first: int | None = None
    last = 0
    for seq in seqs:
        if first is None:
            first = seq
        elif seq - last > NEAR or seq - first >= 1_000:
            yield first, last
            first = seq
        last = seq
    if first is not None:
        yield first, last


# --- Choices of a log in words: what a list, a stream and an export say of each -----------


# Names of arms that are kept for those who watch.
MOST_NAMES = 1_000
LONGEST = 300


@dataclass
class Naming:
    """The features of an agent, and the names of the arms that were asked for."""

    agent: str
    schema: Schema
    reward_range: tuple[float, float]
    arms: dict[ArmId, Arm] = field(default_factory=dict)

    @classmethod
    async def of(cls, service: Service, agent: str, arms: Iterable[ArmId] = ()) -> Naming:
        """Give that of an agent; refused if there is none."""
        wanted = set(arms)

        def do(work: UnitOfWork) -> Naming:
            settings = work.aggregate.state.settings
            return cls(
                agent, settings.features, settings.reward_range, _arms(work.aggregate, wanted)
            )

        return await service.do(agent, do)

    async def learn(self, service: Service, made: Iterable[Made]) -> None:
        """Get the names of the arms of these choices, as far as they are not known."""
        wanted = {one.arm for one in made if one.arm is not None} - self.arms.keys()
        if not wanted:
            return
        if len(self.arms) > MOST_NAMES:
            self.arms.clear()
        self.arms |= await service.do(self.agent, lambda work: _arms(work.aggregate, wanted))

    def arm(self, id: ArmId | None) -> str:
        """Give an arm in words."""
        if id is None:
            return ""
        return arm_words(self.arms[id]) if id in self.arms else str(id)

    def context(self, made: Made) -> str:
        """Give the context of a choice in a line."""
        if made.context is None:
            return ""
        words = context_words(self.schema.decode(made.context))
        return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"

    def shown(
        self, made: Made, had: Earned | None = None, check: str | None = None
    ) -> dict[str, Any]:
        """Give a choice as plain values, all of them words or numbers."""
        said = {
            "decision": self.arm(made.arm),
            "abstention": "Nothing was played",
            "question": f"about {self.arm(made.arm)}",
        }[made.outcome]
        return {
            "seq": made.seq,
            "id": made.id,
            "outcome": made.outcome,
            "said": "Erased" if made.erased else said,
            "context": self.context(made),
            "clock": time_words(made.at)[11:] if made.at is not None else "–",
            "at": None if made.at is None else iso(made.at),
            "when": time_words(made.at),
            "chance": made.propensity,
            "check": check,
            "erased": made.erased,
            "reward": "" if had is None else reward_words(had),
            "href": None if made.id is None else url("agents", self.agent, "decisions", made.id),
        }


def arms_like(kept: Aggregate, text: str) -> frozenset[ArmId]:
    """Give the arm of that id, or all whose name or group holds it; on the writer's thread."""
    arms, part = kept.state.arms, text.casefold()
    exact = frozenset(arm.id for arm in arms if str(arm.id) == text)
    return exact or frozenset(
        arm.id
        for arm in arms
        if part in arm.label.casefold() or part in (arm.group or "").casefold()
    )


def reward_words(had: Earned) -> str:
    """Give what became of a reward in a few words.

    Examples
    --------
    >>> reward_words(Earned("came", 0.5, None)), reward_words(Earned("late", 1.0, None))
    ('0.5', '1 (late, not learned)')
    """
    value = number_words(had.value)
    return {
        "came": value,
        "assumed": f"{value} (assumed, none came)",
        "late": f"{value} (late, not learned)",
        "none": "none came",
    }[had.how]


def earned_words(had: Earned) -> str:
    """Give the same where no heading says that it is a reward.

    Examples
    --------
    >>> earned_words(Earned("came", 0.5, None)), earned_words(Earned("none", None, None))
    ('earned 0.5', 'no reward')
    """
    value = number_words(had.value)
    return {
        "came": f"earned {value}",
        "assumed": f"{value} assumed",
        "late": f"{value}, late",
        "none": "no reward",
    }[had.how]


def _arms(kept: Aggregate, wanted: Iterable[ArmId]) -> dict[ArmId, Arm]:
    """Give arms by their ids, on the writer's thread; those that there are not are left out."""
    state = kept.state
    return {id: state.arms[state.number_of[id]] for id in wanted if id in state.number_of}
