"""Decisions: found in a log, listed, exported, and one of them explained.

A log is read in pieces, from its end or from its beginning. A search has a limit, and
returns how far it went.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, assert_never

from bridle.agent.config import Arm, ArmId
from bridle.agent.events import (
    Abstained,
    Asked,
    Audited,
    Decided,
    Erased,
    Erasure,
    Event,
    Expired,
    Rewarded,
    RewardedLate,
    Taught,
)
from bridle.agent.queries import DENIED_HERE, DENIED_ITEM, NOT_CERTIFIED, SURELY_DENIED, UNSURE
from bridle.errors import Busy, InvalidValue, NotPossible, UnknownId
from bridle.schema import Category, Flag, Labels, Number, Schema
from bridle.server.handlers.explanations import (
    explain,
)
from bridle.server.service import Service
from bridle.store.aggregate import Aggregate, event_of, log_head
from bridle.store.idempotency import id_of, text_of
from bridle.store.log import Entry, Store
from bridle.store.writer import UnitOfWork
from bridle.web.agents import one_in
from bridle.web.page import Html, Page, Shown, Stream, Visit
from bridle.web.rendering import (
    arm_words,
    context_words,
    iso,
    number_words,
    percent,
    schema_context_words,
    time_words,
    url,
)

__all__ = [
    "CHECKS",
    "OUTCOMES",
    "PAGES",
    "Choice",
    "ChoiceFilter",
    "ChoiceFormatter",
    "Contributions",
    "RewardOutcome",
    "SearchResult",
    "arms_like",
    "by_id",
    "chance_words",
    "check_of",
    "choice_of",
    "contributions_of",
    "entries_at",
    "explanation",
    "guess_words",
    "is_untaught",
    "outcome_words",
    "parse_time",
    "policy_words",
    "reason_words",
    "reward_of",
    "reward_phrase",
    "reward_words",
    "rewards_of",
    "search_back",
    "search_forward",
    "seq_at",
    "status_of",
    "verdicts",
]

OUTCOMES = {"decision": "Decided", "abstention": "Abstained", "question": "Asked"}
# States of the check of a play.
CHECKS = ("denied", "allowed", "waiting")
_KINDS = {kind: outcome for outcome, kind in OUTCOMES.items()}
# Entries that a search reads at a time, and in all before it stops.
PIECE = 250
SCAN = 2_000
# Entries that are this near to each other are read together.
NEAR = 64
# After so many entries without a time, a search by time gives up on a stretch.
SILENT = 5_000


class Choice(NamedTuple):
    """A choice in the log. All but `seq` and `outcome` may be None once it was erased."""

    seq: int
    outcome: str  # decision, abstention or question
    id: str | None  # of the decision; for a question, of the decision that raised it
    at: float | None = None
    arm: ArmId | None = None  # played, or asked about
    context: tuple[float, ...] | None = None
    propensity: float | None = None
    version: int | None = None
    erased: bool = False
    item: ArmId | None = None
    coin: float | None = None  # the probability of a check
    checked: bool = False


class RewardOutcome(NamedTuple):
    """What became of the reward of a decision.

    `how`: it "came"; was "assumed" at the deadline; came "late" and was not learned; or never came
    ("none").
    """

    how: str
    value: float | None
    at: float | None


class SearchResult(NamedTuple):
    """The choices that a search found, the newest first, and how far back it went."""

    found: list[Choice]
    back_to: int  # the first entry that was read
    more: bool  # whether there is anything before it that could match


@dataclass(frozen=True, kw_only=True)
class ChoiceFilter:
    """A filter of choices.

    Attributes
    ----------
    arms : frozenset of arm ids, or None
        Only of these arms.
    outcome : str or None
        One of `OUTCOMES`.
    rewarded : bool or None
        Only those for which a reward came, or for which none came.
    check : str or None
        One of `CHECKS`: only plays whose check is in this state.
    first, last : int
        The range of entries to search.
    since, until : float
        Only those from the first time to before the second. Entries are found as if times only
        grew; where a clock was set back, some of them have other times.
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

    def among(self, store: Store, agent: str, entries: Sequence[Entry]) -> list[Choice]:
        """Return the choices among entries that match, in their order."""
        made = [one for entry in entries if self._kind(entry) and (one := choice_of(entry))]
        made = [one for one in made if one.at is None or self.since <= one.at < self.until]
        if self.arms is not None:
            made = [one for one in made if one.arm in self.arms]
        if self.rewarded is not None:
            rewards = rewards_of(store, agent, made)
            made = [
                one
                for one in made
                if not one.erased
                and one.outcome == "decision"
                and _has_reward(rewards.get(str(one.id))) == self.rewarded
            ]
        if self.check is not None:
            said = verdicts(store, agent, made)
            made = [one for one in made if check_of(one, said) == self.check]
        return _named(store, agent, made)


def search_back(
    store: Store, agent: str, wanted: ChoiceFilter, before: int, most: int, scan: int = SCAN
) -> SearchResult:
    """Return up to `most` choices before an entry, newest first; read at most `scan` entries."""
    found: list[Choice] = []
    at = min(before, wanted.last + 1)  # all from here on was read
    end = max(wanted.first, at - scan)
    while at > end:
        start = max(end, at - PIECE)
        entries = store.read(agent, start - 1, at - start)
        for one in reversed(wanted.among(store, agent, entries)):
            found.append(one)
            if len(found) == most:
                return SearchResult(found, one.seq, one.seq > wanted.first)
        at = start
    return SearchResult(found, max(at, 1), at > wanted.first)


def search_forward(
    store: Store, agent: str, wanted: ChoiceFilter, after: int, limit: int
) -> tuple[list[Choice], int]:
    """Return the choices among the `limit` entries after one, and the last entry read."""
    start = max(after, wanted.first - 1)
    entries = store.read(agent, start, max(0, min(limit, wanted.last - start)))
    last = entries[-1].seq if entries else wanted.last
    return wanted.among(store, agent, entries), last


def by_id(store: Store, agent: str, text: str) -> list[Choice]:
    """Return what the log has of a decision or a question by its id; the newest first."""
    seqs = {
        found.seq
        for space in ("settled", "decision", "question")
        for found in store.find(agent, space, [text]).values()
    }
    made = [one for entry in entries_at(store, agent, sorted(seqs)) if (one := choice_of(entry))]
    return _named(store, agent, made)[::-1]


def choice_of(entry: Entry) -> Choice | None:
    """Return the choice that an entry holds; None if it holds none.

    A question filed for teaching belongs to no decision, and is none.
    """
    outcome = _KINDS.get(entry.kind)
    if outcome is None:
        return None
    event: Event = event_of(entry)
    if isinstance(event, Erased):
        return Choice(entry.seq, outcome, None, erased=True)
    assert isinstance(event, Decided | Abstained | Asked)
    id, arm = event.id, None if isinstance(event, Abstained) else event.arm
    if isinstance(event, Asked):
        if event.decision is None:
            return None
        id = event.decision
    return Choice(
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


def rewards_of(store: Store, agent: str, made: Sequence[Choice]) -> dict[str, RewardOutcome]:
    """Return what became of the rewards of decisions, by their ids."""
    ids = [one.id for one in made if one.outcome == "decision" and one.id is not None]
    places: dict[int, str] = {}
    for space in ("outcome", "late"):
        places |= {one.seq: id for id, one in store.find(agent, space, ids).items()}
    found: dict[str, RewardOutcome] = {}
    for entry in entries_at(store, agent, sorted(places)):
        event = event_of(entry)
        if isinstance(event, Rewarded):
            reward = RewardOutcome("came", event.value, event.at)
        elif isinstance(event, Expired):
            reward = RewardOutcome(
                "none" if event.value is None else "assumed", event.value, event.at
            )
        elif isinstance(event, RewardedLate):  # it comes after the deadline, and tells more
            reward = RewardOutcome("late", event.value, event.at)
        else:
            continue  # it was erased
        found[places[entry.seq]] = reward
    return found


def verdicts(store: Store, agent: str, made: Sequence[Choice]) -> dict[str, Taught]:
    """Return the verdicts on checked plays, by their ids; those that wait have none."""
    ids = [one.id for one in made if one.checked and one.id is not None]
    places = {one.seq: id for id, one in store.find(agent, "check", ids).items()} if ids else {}
    return {
        places[entry.seq]: event
        for entry in entries_at(store, agent, sorted(places))
        if isinstance(event := event_of(entry), Taught)  # else it was erased
    }


def check_of(made: Choice, said: Mapping[str, Taught]) -> str | None:
    """Return the state of the check of a play: one of `CHECKS`; None if it was not checked."""
    if not made.checked:
        return None
    verdict = said.get(str(made.id))
    return "waiting" if verdict is None else "allowed" if verdict.allowed else "denied"


def reward_of(made: Choice, rewards: Mapping[str, RewardOutcome]) -> RewardOutcome | None:
    """Return the reward of a choice: a play earns one, a question along with it does not."""
    return rewards.get(str(made.id)) if made.outcome == "decision" else None


def entries_at(store: Store, agent: str, seqs: Sequence[int]) -> Iterator[Entry]:
    """Yield entries by their sequence numbers, which must be in order."""
    wanted = set(seqs)
    for first, last in _runs(seqs):
        for entry in store.read(agent, first - 1, last - first + 1):
            if entry.seq in wanted:
                yield entry


def seq_at(store: Store, agent: str, head: int, at: float) -> int:
    """Return how many entries came before a time, by bisection: a log is in the order of time."""
    low, high = 0, head
    while low < high:
        middle = (low + high) // 2
        found = _when(store, agent, middle, high)
        if found is not None and found[1] < at:
            low = found[0]
        else:
            high = middle
    return low


def parse_time(text: str, name: str) -> float | None:
    """Parse a time as a browser writes it, in UTC; None if the text is empty.

    Examples
    --------
    >>> parse_time("1970-01-02T00:00", "from"), parse_time("", "from")
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
    """Return the first entry after one that has a time, and that time."""
    at, size = after, 4
    # Erased entries have no time, nor have those that were made without a clock.
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


def _has_reward(reward: RewardOutcome | None) -> bool:
    return reward is not None and reward.value is not None


def _named(store: Store, agent: str, made: Sequence[Choice]) -> list[Choice]:
    """Fill in the ids of erased decisions, which the log still knows."""
    named = [
        one._replace(id=_name_of(store, agent, one.seq)) if one.erased else one for one in made
    ]
    # A question without a decision's id was filed for teaching.
    return [one for one in named if one.id is not None or one.outcome != "question"]


def _name_of(store: Store, agent: str, seq: int) -> str | None:
    names = store.names(agent, seq - 1, 1).get(seq, ())
    mine = [name.id for name in names if name.space in ("decision", "settled")]
    return mine[0] if mine else None


def _runs(seqs: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of sequence numbers that are worth reading together."""
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


# --- Choices of a log in words: for the list, the stream and the exports -----------


# Arms that a formatter holds at most.
MOST_NAMES = 1_000
LONGEST = 300


@dataclass
class ChoiceFormatter:
    """Puts choices into words: the features of an agent, and the arms that were needed so far."""

    agent: str
    schema: Schema
    reward_range: tuple[float, float]
    arms: dict[ArmId, Arm] = field(default_factory=dict)

    @classmethod
    async def of(cls, service: Service, agent: str, arms: Iterable[ArmId] = ()) -> ChoiceFormatter:
        """Load the formatter of an agent, or raise if there is none."""
        wanted = set(arms)

        def do(work: UnitOfWork) -> ChoiceFormatter:
            settings = work.aggregate.state.settings
            return cls(
                agent, settings.features, settings.reward_range, _arms_by_id(work.aggregate, wanted)
            )

        return await service.do(agent, do)

    async def load_arms(self, service: Service, made: Iterable[Choice]) -> None:
        """Load the arms of these choices, as far as they are not known."""
        wanted = {one.arm for one in made if one.arm is not None} - self.arms.keys()
        if not wanted:
            return
        if len(self.arms) > MOST_NAMES:
            self.arms.clear()
        self.arms |= await service.do(self.agent, lambda work: _arms_by_id(work.aggregate, wanted))

    def arm(self, id: ArmId | None) -> str:
        """Return an arm in words."""
        if id is None:
            return ""
        return arm_words(self.arms[id]) if id in self.arms else str(id)

    def context(self, made: Choice) -> str:
        """Return the context of a choice in a line."""
        if made.context is None:
            return ""
        words = context_words(self.schema.decode(made.context))
        return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"

    def as_row(
        self, made: Choice, reward: RewardOutcome | None = None, check: str | None = None
    ) -> dict[str, Any]:
        """Return a choice as plain values, all of them words or numbers."""
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
            "reward": "" if reward is None else reward_words(reward),
            "href": None if made.id is None else url("agents", self.agent, "decisions", made.id),
        }


def arms_like(aggregate: Aggregate, text: str) -> frozenset[ArmId]:
    """Return the arm of that id, or all whose name or group contains it; on the writer's thread."""
    arms, part = aggregate.state.arms, text.casefold()
    exact = frozenset(arm.id for arm in arms if str(arm.id) == text)
    return exact or frozenset(
        arm.id
        for arm in arms
        if part in arm.label.casefold() or part in (arm.group or "").casefold()
    )


def reward_words(reward: RewardOutcome) -> str:
    """Return what became of a reward in a few words.

    Examples
    --------
    >>> reward_words(RewardOutcome("came", 0.5, None))
    '0.5'
    >>> reward_words(RewardOutcome("late", 1.0, None))
    '1 (late, not learned)'
    """
    value = number_words(reward.value)
    return {
        "came": value,
        "assumed": f"{value} (assumed, none came)",
        "late": f"{value} (late, not learned)",
        "none": "none came",
    }[reward.how]


def reward_phrase(reward: RewardOutcome) -> str:
    """Return the same where no heading says that it is a reward.

    Examples
    --------
    >>> reward_phrase(RewardOutcome("came", 0.5, None))
    'earned 0.5'
    >>> reward_phrase(RewardOutcome("none", None, None))
    'no reward'
    """
    value = number_words(reward.value)
    return {
        "came": f"earned {value}",
        "assumed": f"{value} assumed",
        "late": f"{value}, late",
        "none": "no reward",
    }[reward.how]


def _arms_by_id(aggregate: Aggregate, wanted: Iterable[ArmId]) -> dict[ArmId, Arm]:
    """Return arms by their ids, on the writer's thread; unknown ids are left out."""
    state = aggregate.state
    return {id: state.arms[state.number_of[id]] for id in wanted if id in state.number_of}


# --- The list of decisions: searched, filtered, page by page, and exported ---


A_PAGE = 50
# Entries in one piece of an export.
A_PIECE = 1_000
FIELDS = ("id", "arm", "outcome", "reward", "check", "from", "to")
REWARDS = {"yes": True, "no": False}
CHECK_WORDS = {"denied": "not allowed", "allowed": "allowed", "waiting": "waits"}
# A spreadsheet takes a cell that begins like this for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True)
class Filter:
    """The search form, as it was filled in."""

    given: dict[str, str]

    @property
    def query(self) -> dict[str, str]:
        """The fields that are not empty, for addresses."""
        return {name: text for name, text in self.given.items() if text}


class TimeRange(NamedTuple):
    """A range of time."""

    first: float | None
    last: float | None


async def listing(visit: Visit) -> Shown:
    """Show the list of decisions, the newest first."""
    asked = _filter(visit)
    service, store, agent = visit.service, visit.service.store, visit.agent
    formatter = await ChoiceFormatter.of(service, agent)
    rewards: dict[str, RewardOutcome] = {}
    said: dict[str, Taught] = {}
    result, wrong = SearchResult([], 1, False), None
    before = visit.query.whole("before", 2**53, low=1, high=2**53)
    try:
        arms = await _wanted_arms(visit, asked)
        times = _times(asked)

        def read() -> tuple[SearchResult, dict[str, RewardOutcome], dict[str, Taught]]:
            if asked.given["id"]:
                found = SearchResult(by_id(store, agent, asked.given["id"]), 1, False)
            else:
                wanted, head = _wanted(store, agent, asked, arms, times)
                found = search_back(store, agent, wanted, min(before, head + 1), A_PAGE)
            return (
                found,
                rewards_of(store, agent, found.found),
                verdicts(store, agent, found.found),
            )

        result, rewards, said = await service.aside(read)
    except InvalidValue as error:
        wrong = str(error)
    await formatter.load_arms(service, result.found)
    here = {"before": before} if before < 2**53 else {}
    return Html(
        "decisions.html",
        {
            "agent": agent,
            "given": asked.given,
            "query": asked.query,
            "wrong": wrong,
            "rows": [
                formatter.as_row(one, reward_of(one, rewards), check_of(one, said))
                for one in result.found
            ],
            "search": result,
            "later": bool(here),
            "size": A_PAGE,
            "csv": url("agents", agent, "decisions.csv", **asked.query),
            "lines": url("agents", agent, "decisions.jsonl", **asked.query),
        },
        200 if wrong is None else 422,
    )


async def export_csv(visit: Visit) -> Shown:
    """Stream all that the filter matches as a table, the oldest first."""
    formatter = await ChoiceFormatter.of(visit.service, visit.agent)
    head = _csv_line(
        [
            "entry",
            "id",
            "time (UTC)",
            "outcome",
            "arm",
            "name of the arm",
            "item",
            *(f"context: {feature.name}" for feature, _ in formatter.schema.encoded),
            "chance",
            "version",
            "reward",
            "what became of the reward",
            "chance of a check",
            "check",
        ]
    )
    pieces = await _export(visit, formatter, _csv_row, head)
    return Stream(pieces, "text/csv; charset=utf-8", f"{visit.agent}-decisions.csv")


async def export_lines(visit: Visit) -> Shown:
    """Stream all that the filter matches as JSON lines, the oldest first."""
    formatter = await ChoiceFormatter.of(visit.service, visit.agent)
    pieces = await _export(visit, formatter, _json_row, "")
    return Stream(pieces, "application/jsonl; charset=utf-8", f"{visit.agent}-decisions.jsonl")


# -- the filter ------------------------------------------------------------------------------


def _filter(visit: Visit) -> Filter:
    return Filter({name: visit.query.get(name)[:200] for name in FIELDS})


def _times(asked: Filter) -> TimeRange:
    times = TimeRange(parse_time(asked.given["from"], "from"), parse_time(asked.given["to"], "to"))
    if times.first is not None and times.last is not None and times.first > times.last:
        raise InvalidValue("from", "the form", "before the end", asked.given["from"])
    return times


async def _wanted_arms(visit: Visit, asked: Filter) -> frozenset[ArmId] | None:
    """Return the arms that the form names: by id, or by a part of the name or group."""
    text = asked.given["arm"]
    if not text:
        return None
    found = await visit.service.do(visit.agent, lambda work: arms_like(work.aggregate, text))
    if not found:
        wanted = "the id of an arm, or a part of its name or group"
        raise InvalidValue("arm", "the form", wanted, text)
    return found


def _wanted(
    store: Store, agent: str, asked: Filter, arms: frozenset[ArmId] | None, times: TimeRange
) -> tuple[ChoiceFilter, int]:
    """Return the filter, and the last entry of the log."""
    head = log_head(store, agent).seq
    if asked.given["id"]:
        return ChoiceFilter(last=head), head  # ids are unique: the other fields do not matter
    outcome, reward = asked.given["outcome"], asked.given["reward"]
    if outcome and outcome not in OUTCOMES:
        raise InvalidValue("outcome", "the form", f"one of {', '.join(OUTCOMES)}", outcome)
    if reward and reward not in REWARDS:
        raise InvalidValue("reward", "the form", f"one of {', '.join(REWARDS)}", reward)
    check = asked.given["check"]
    if check and check not in CHECKS:
        raise InvalidValue("check", "the form", f"one of {', '.join(CHECKS)}", check)
    wanted = ChoiceFilter(
        arms=arms,
        outcome=outcome or None,
        rewarded=REWARDS.get(reward),
        check=check or None,
        last=head,
    )
    if times.first is not None:
        first = seq_at(store, agent, head, times.first) + 1
        wanted = replace(wanted, first=first, since=times.first)
    if times.last is not None:
        until = times.last + 1.0  # the named second is included
        wanted = replace(wanted, last=seq_at(store, agent, head, until), until=until)
    return wanted, head


# -- exports ---------------------------------------------------------------------------------

Row = Callable[[ChoiceFormatter, Choice, RewardOutcome | None, str | None], str]


async def _export(
    visit: Visit, formatter: ChoiceFormatter, row: Row, head: str
) -> AsyncIterator[bytes]:
    """Begin an export. A wrong filter raises before the first byte."""
    asked = _filter(visit)
    service, store, agent = visit.service, visit.service.store, visit.agent
    arms, times = await _wanted_arms(visit, asked), _times(asked)
    wanted, _ = await service.aside(lambda: _wanted(store, agent, asked, arms, times))
    # Entries that come meanwhile are not part of the export, so that it ends.
    one = asked.given["id"]

    def read(after: int) -> tuple[list[Choice], dict[str, RewardOutcome], dict[str, Taught], int]:
        if one:
            made, last = by_id(store, agent, one)[::-1], wanted.last
        else:
            made, last = search_forward(store, agent, wanted, after, A_PIECE)
        return made, rewards_of(store, agent, made), verdicts(store, agent, made), last

    async def pieces() -> AsyncIterator[bytes]:
        yield head.encode()
        after = wanted.first - 1
        while after < wanted.last:
            try:
                made, rewards, said, after = await service.aside(partial(read, after))
            except Busy:
                await asyncio.sleep(0.25)  # requests that wait come first
                continue
            await formatter.load_arms(service, made)
            text = "".join(
                row(formatter, choice, reward_of(choice, rewards), check_of(choice, said))
                for choice in made
            )
            if text:
                yield text.encode()

    return pieces()


def _csv_row(
    formatter: ChoiceFormatter, made: Choice, reward: RewardOutcome | None, check: str | None
) -> str:
    context: Sequence[Any] = [""] * len(formatter.schema.encoded)
    if made.context is not None:
        context = [_plain(value) for value in formatter.schema.decode(made.context).values()]
    return _csv_line(
        [
            made.seq,
            made.id,
            None if made.at is None else iso(made.at),
            f"{made.outcome}, erased" if made.erased else made.outcome,
            made.arm,
            formatter.arm(made.arm),
            made.item,
            *context,
            made.propensity,
            made.version,
            None if reward is None else reward.value,
            None if reward is None else reward.how,
            made.coin,
            None if check is None else CHECK_WORDS[check],
        ]
    )


def _json_row(
    formatter: ChoiceFormatter, made: Choice, reward: RewardOutcome | None, check: str | None
) -> str:
    said = {
        "entry": made.seq,
        "id": made.id,
        "at": made.at,
        "outcome": made.outcome,
        "erased": made.erased,
        "arm": made.arm,
        "arm_name": formatter.arm(made.arm) or None,
        "item": made.item,
        "context": None if made.context is None else formatter.schema.decode(made.context),
        "propensity": made.propensity,
        "version": made.version,
        "reward": None if reward is None else reward.value,
        "reward_outcome": None if reward is None else reward.how,
        "coin": made.coin,
        "check": check,
    }
    return json.dumps(said, ensure_ascii=False) + "\n"


def _csv_line(cells: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(value: Any) -> Any:
    """Return a cell; a text that a spreadsheet would compute is marked as text.

    Examples
    --------
    >>> _cell("=1+1"), _cell(-1.5), _cell("plain")
    ("'=1+1", -1.5, 'plain')
    """
    if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA):
        return f"'{value}"
    return "" if value is None else value


def _plain(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


# --- One decision in words, without formulas ---


# A smaller contribution or probability is left out.
LEAST = 1e-3
# An arm that is likelier and still not surely allowed was hardly ever taught about.
GUESSED = 0.99

Json = Mapping[str, Any]
Name = Callable[[ArmId], str]

_REASONS = {
    DENIED_HERE: "a teacher said no in this very situation",
    DENIED_ITEM: "a teacher said no to it for this item",
    NOT_CERTIFIED: "the promise does not cover it here",
    UNSURE: "not surely allowed, by what was taught",
    SURELY_DENIED: "surely not allowed, by what was taught",
}
_POLICIES = {
    "LearnedMask": "It plays only what is surely allowed, and of that what promises most.",
    "BehaviorConstrained": "It weighs what promises most against what was taught.",
    "Thompson": "It plays what promises most. What was taught has no say.",
    "Uniform": "It plays anything, by chance alone.",
    "Greedy": "It plays what earned most so far. What was taught has no say.",
    "EpsilonGreedy": "It plays what earned most so far, and now and then anything. What was taught "
    "has no say.",
    "LinUCB": "It plays what could promise most. What was taught has no say.",
    "SquareCB": "It tries what falls behind the less often, the further it does. What was taught "
    "has no say.",
    "Softmax": "It plays what earned more the more often. What was taught has no say.",
    "PlackettLuce": "It plays what earned more the more often. What was taught has no say.",
    "Masked": "It plays only what is surely allowed, and chooses among that by reward.",
}


def chance_words(p: float | None) -> str:
    """Return a probability in percent, as fine as is useful.

    Examples
    --------
    >>> chance_words(0.5), chance_words(1e-9), chance_words(1 - 1e-9), chance_words(None)
    ('50 %', 'under 0.1 %', 'over 99.9 %', '–')
    """
    if p is None or p in (0.0, 1.0):
        return percent(p)
    if p < 0.001:
        return "under 0.1 %"
    if p > 0.999:
        return "over 99.9 %"
    return percent(p, 1 if p < 0.1 or p > 0.9 else 0)


def guess_words(p: float, safe: bool, novelty: float) -> str:
    """Return what replaces a probability that only looks certain; nothing where it is sound.

    Examples
    --------
    >>> guess_words(1.0, True, 1.0), guess_words(1.0, False, 1.0), guess_words(1.0, False, 0.5)
    ('', 'nobody has said', 'by guess')
    """
    if p <= GUESSED or safe:
        return ""
    return "nobody has said" if novelty >= 1.0 else "by guess"


def is_untaught(why_not: str | None, novelty: float) -> bool:
    """Whether limits judge an arm of which nothing was taught: then it is no finding."""
    return novelty >= 1.0 and why_not in (UNSURE, SURELY_DENIED)


def policy_words(policy: Json) -> str:
    """Return how the agent chooses, in words."""
    return _POLICIES.get(str(policy["kind"]), str(policy["kind"]))


def reason_words(why_not: str | None, novelty: float = 0.0) -> str:
    """Return why an arm may not be played, in words.

    Examples
    --------
    >>> reason_words("denied by the rule 'night'"), reason_words(None)
    ("denied by the rule 'night'", 'surely allowed')
    >>> reason_words(SURELY_DENIED, 1.0)
    'nothing was taught of it yet'
    """
    if is_untaught(why_not, novelty):
        return "nothing was taught of it yet"
    return "surely allowed" if why_not is None else _REASONS.get(why_not, why_not)


def status_of(arm: Json) -> str:
    """Return the style class of an arm: yes, no or warn."""
    if arm["why_not"] is None:
        return "yes"
    doubtful = arm["why_not"] in (UNSURE, NOT_CERTIFIED)
    return "warn" if doubtful or is_untaught(arm["why_not"], arm["novelty"]) else "no"


def explanation(account: Json, name: Name, on_empty: str) -> str:
    """Return what was chosen and why, in a sentence or two."""
    considered = _considered(account)
    if account["kind"] == "abstention":
        return _abstained(considered)
    chosen = next(one for one in account["arms"] if one["arm"] == account["arm"])
    what = f"“{name(account['arm'])}”"
    if account["kind"] == "question":
        why = "It looked good" if account["asking"] else "It looked best"
        return (
            f"It played nothing yet, and asked a teacher whether {what} is allowed here. {why}, "
            f"but its chance to be allowed was only {chance_words(chosen['p'])}."
        )
    if account["arm"] in account["answered"]:
        return (
            f"It played {what}, which a teacher had just said is allowed here"
            f"{_odds(account, chosen)}."
        )
    if account["settled"]:
        return (
            f"It played {what}, since a teacher had just said that it is allowed here. Nothing was "
            "left to chance."
        )
    kind = str(account["policy"]["kind"])
    if kind == "LearnedMask":
        return _masked(account, considered, chosen, what, on_empty)
    return _unmasked(account, kind, chosen, what)


def outcome_words(account: Json, name: Name) -> str:
    """Return what was chosen, without why: for decisions that cannot be replayed."""
    if account["kind"] == "abstention":
        return "It played nothing."
    what = f"“{name(account['arm'])}”"
    if account["kind"] == "question":
        return f"It played nothing yet, and asked a teacher whether {what} is allowed here."
    return f"It played {what}."


def _considered(account: Json) -> list[Json]:
    among = account["among"]
    offered = None if among is None else set(among)
    return [one for one in account["arms"] if offered is None or one["arm"] in offered]


def _abstained(considered: Sequence[Json]) -> str:
    n = len(considered)
    whole = "The only choice there was is not" if n == 1 else f"None of the {n:,} choices is"
    return f"It played nothing. {whole} surely allowed here: {_reasons(considered)}."


def _masked(
    account: Json, considered: Sequence[Json], chosen: Json, what: str, on_empty: str
) -> str:
    n = len(considered)
    allowed = sum(one["why_not"] is None for one in considered)
    if chosen["why_not"] is not None:
        then = {
            "safe_arm": "the one that is set for such cases",
            "least_bad": "the one that is most likely allowed",
        }.get(on_empty, "what it is set to play then")
        return f"It played {what}: {then}. None of the {n:,} choices is surely allowed here."
    if allowed == 1:
        if n == 1:
            return f"It played {what}, the only choice there was, which is surely allowed here."
        rest = _reasons([one for one in considered if one["why_not"] is not None])
        return (
            f"It played {what}, the only one of {n:,} choices that is surely allowed here. "
            f"Of the others: {rest}."
        )
    of = f"all {n:,} choices are" if allowed == n else f"{allowed:,} of {n:,} choices are"
    by = "what each promises"
    if account["sigma"] not in (None, 1.0):
        by += " and how likely each is allowed"
    return (
        f"It played {what}: {of} surely allowed here, and of these it came out best in a draw by "
        f"{by}{_odds(account, chosen)}."
    )


def _unmasked(account: Json, kind: str, chosen: Json, what: str) -> str:
    if kind == "Uniform":
        return f"It played {what}, by chance alone{_odds(account, chosen)}."
    if kind == "BehaviorConstrained":
        sigma = float(account["sigma"])
        said = (
            f"It played {what}: it came out best in a draw by what each promises (weight "
            f"{sigma:g}) and what was taught (weight {1.0 - sigma:g}){_odds(account, chosen)}."
        )
    else:
        said = (
            f"It played {what}: it came out best by what each promises{_odds(account, chosen)}. "
            "What was taught has no say in how this agent chooses."
        )
    if chosen["p"] < 0.5:
        said += f" It was only {chance_words(chosen['p'])} likely to be allowed."
    return said


def _odds(account: Json, chosen: Json) -> str:
    chance = account["propensity"] if account["propensity"] is not None else chosen["play"]
    return "" if chance is None else f", with a chance of {chance_words(chance)} beforehand"


def _reasons(arms: Sequence[Json]) -> str:
    """Return why arms may not be played, with counts."""
    counts = Counter(reason_words(one["why_not"], one["novelty"]) for one in arms)
    if len(arms) == 1:
        return next(iter(counts))
    shown = counts.most_common(4)
    parts = [f"{count:,} {reason}" for reason, count in shown]
    rest = sum(counts.values()) - sum(count for _, count in shown)
    return "; ".join([*parts, *([f"{rest:,} for other reasons"] if rest else [])])


# -- contributions of features ---


class Contributions(NamedTuple):
    """What each feature contributed to one part, the largest first.

    `left_out` counts smaller contributions.
    """

    part: str
    title: str
    hint: str
    total: str
    base: str | None
    most: float
    shares: list[tuple[str, float]]
    left_out: int


def contributions_of(
    contributions: Json,
    schema: Schema,
    context: Mapping[str, object],
    reward_range: tuple[float, float],
    longest: int,
) -> Contributions:
    """Return the contribution of each feature, in words. Rewards are in the agent's own range."""
    unit = contributions["unit"]
    low, scale = 0.0, 1.0
    if unit in ("reward", "change of the reward"):
        low, scale = reward_range[0], reward_range[1] - reward_range[0]
    shares = sorted(
        (
            (_column_words(schema, one["feature"], context), scale * one["gave"])
            for one in contributions["shares"]
        ),
        key=lambda one: -abs(one[1]),
    )
    tells = [one for one in shares if abs(one[1]) >= LEAST * scale]
    base = contributions["base"]
    title, hint, total = {
        "reward": (
            "What it promised",
            "Bars to the right raised the expected reward, bars to the left lowered it.",
            f"Expected reward: {number_words(low + scale * contributions['total'])}.",
        ),
        "change of the reward": (
            "What it promised",
            "How much of the expected reward comes from each: what would be missing without it.",
            f"Expected reward: {number_words(low + scale * contributions['total'])}.",
        ),
        "label": (
            "Whether it is allowed",
            "Bars to the right spoke for “allowed”, bars to the left against it.",
            f"All together: {number_words(contributions['total'])}.",
        ),
        "log-odds": (
            "Whether it is allowed",
            "Bars to the right spoke for “allowed”, bars to the left against it. The unit is the "
            "natural logarithm of the odds.",
            f"All together: {number_words(contributions['total'])}; above 0 it is more likely "
            "allowed than not.",
        ),
        "change of the probability": (
            "Whether it is allowed",
            "How much of the chance that it is allowed comes from each: what would be missing "
            "without it.",
            f"Likely to be allowed, by what was taught: {chance_words(contributions['total'])}.",
        ),
    }[unit]
    return Contributions(
        contributions["part"],
        title,
        hint,
        total,
        None if not base else number_words(low + scale * base),
        max((abs(gave) for _, gave in shares), default=0.0),
        tells[:longest],
        len(shares) - min(len(tells), longest),
    )


def _column_words(schema: Schema, column: str, context: Mapping[str, object]) -> str:
    """Return a column, or two together, in words."""
    columns = set(schema.columns)
    if column in columns:
        return _one_column(schema, column, context)
    parts = column.split(" & ")
    for at in range(1, len(parts)):
        one, two = " & ".join(parts[:at]), " & ".join(parts[at:])
        if one in columns and two in columns:
            words = (_one_column(schema, each, context) for each in (one, two))
            return " together with ".join(words)
    return column


def _one_column(schema: Schema, column: str, context: Mapping[str, object]) -> str:
    for feature, _ in schema.encoded:
        if feature.name == column:
            if isinstance(feature, Number):
                unit = f" {feature.unit}" if feature.unit else ""
                return f"{column} {number_words(context[column])}{unit}"
            if isinstance(feature, Flag | Category | Labels):
                return column
            assert_never(feature)
    name, _, value = column.partition("=")
    return f"{name}: {value}"


# --- The page of one decision ------------------------------


ARMS_A_PAGE = 20
MOST_SHARES = 20
LOOKED_AT = 20_000  # entries that are searched for an erasure


class Aftermath(NamedTuple):
    """What came of a decision later."""

    reward: RewardOutcome | None
    judged: Audited | None
    played: ArmId | None  # by another system instead
    made: Choice | None  # the play itself, with its coin
    verdict: Taught | None  # of the check, if there was one


class AgentNow(NamedTuple):
    """What is known of the agent now, beside the account of the decision."""

    on_empty: str
    unit: int | None  # of the arm in question
    waits: bool  # for a teacher's answer
    awaited: bool  # whether the reward may still come
    like: frozenset[ArmId] | None  # the arms that were searched for


async def why(visit: Visit) -> Shown:
    """Show why a decision was made."""
    service, agent, id = visit.service, visit.agent, visit.path["id"]
    formatter = await ChoiceFormatter.of(service, agent)
    try:
        account = (await visit.api(explain, id=id))["account"]
    except UnknownId:
        return _gone(visit, "unknown", 404)
    except NotPossible:
        return _gone(visit, "erased", 410)
    find = visit.query.get("find")[:200]
    now = await service.do(agent, lambda work: _agent_now(work, account, id, find))
    since = await service.aside(lambda: _aftermath(service.store, agent, id))
    erased = None
    if not account["agrees"]:
        erased = await service.aside(
            lambda: erasure_behind(service.store, agent, account["version"])
        )
    arms = _arms_shown(account, now)
    page = visit.query.whole("page", 1, low=1, high=max(1, -(-len(arms) // ARMS_A_PAGE)))
    shown = arms[(page - 1) * ARMS_A_PAGE : page * ARMS_A_PAGE]
    await formatter.load_arms(
        service,
        [Choice(0, "decision", None, arm=one) for one in _arms_named(account, since, shown)],
    )
    return Html(
        "decisions-why.html",
        {
            "agent": agent,
            "id": id,
            "account": account,
            "since": since,
            "now_": now,
            "arm": formatter.arm,
            "erased": erased,
            # A decision that does not replay cannot be explained.
            "sentence": explanation(account, formatter.arm, now.on_empty)
            if account["agrees"]
            else outcome_words(account, formatter.arm),
            "policy": policy_words(account["policy"]),
            "context": schema_context_words(formatter.schema, account["context"]),
            "given": [
                contributions_of(
                    one, formatter.schema, account["context"], formatter.reward_range, MOST_SHARES
                )
                for one in account["contributions"]
            ],
            "arms": shown,
            "found": len(arms),
            "page": page,
            "size": ARMS_A_PAGE,
            "find": find,
            "reason": reason_words,
            "status": status_of,
            "own": _own(formatter),
            "chance": _chance(account) if erased is None else account["propensity"],
            "odds": chance_words,
            "guess": guess_words,
            "least": LEAST,
            "reward": None if since.reward is None else reward_words(since.reward),
            "coin": coin_words(since.made),
            "here": url("agents", agent, "decisions", id),
            "dials": _dials(account),
            "before": next(
                one["limit_mean"] for one in account["arms"] if one["arm"] == account["about"]
            ),
            "spread": float(account["policy"].get("v") or 1.0),
        },
    )


def _gone(visit: Visit, how: str, status: int) -> Shown:
    values = {"agent": visit.agent, "id": visit.path["id"], "how": how}
    return Html("decisions-gone.html", values, status)


def _agent_now(work: UnitOfWork, account: dict[str, Any], id: str, find: str) -> AgentNow:
    aggregate: Aggregate = work.aggregate
    state = aggregate.state
    k = state.number_of.get(account["about"])
    return AgentNow(
        on_empty=state.settings.on_empty,
        unit=None if k is None else int(state.limits_state.unit_of[k]),
        waits=id_of(id) in state.questions.waiting,
        awaited=id_of(id) in state.pending,
        like=arms_like(aggregate, find) if find else None,
    )


def _aftermath(store: Store, agent: str, id: str) -> Aftermath:
    reward = rewards_of(store, agent, [Choice(0, "decision", id)]).get(id)
    places = {
        space: found[id].seq
        for space in ("judgement", "shadow")
        if id in (found := store.find(agent, space, [id]))
    }
    events = {
        entry.seq: event_of(entry) for entry in entries_at(store, agent, sorted(places.values()))
    }
    judged = events.get(places.get("judgement", 0))
    played = getattr(events.get(places.get("shadow", 0)), "arm", None)
    made = next((one for one in by_id(store, agent, id) if one.outcome == "decision"), None)
    verdict = None if made is None else verdicts(store, agent, [made]).get(id)
    return Aftermath(reward, judged if isinstance(judged, Audited) else None, played, made, verdict)


def erasure_behind(store: Store, agent: str, version: int) -> int | None:
    """Return the entry that erased something on which a decision rested.

    0: something was erased, and the entry is not found; None: no erasure was found. A log may be
    long, so only the entries around the decision, and the last ones, are searched.
    """
    head = store.head(agent)
    end = 0 if head is None else head.seq
    for first in (version, max(end - LOOKED_AT, version + LOOKED_AT)):
        for entry in _entries(store, agent, first, min(first + LOOKED_AT, end)):
            if entry.kind == "Erasure":
                event = event_of(entry)
                if isinstance(event, Erasure) and event.events and min(event.events) <= version:
                    return entry.seq
    before = _entries(store, agent, max(version - LOOKED_AT, 0), version)
    return 0 if any(entry.payload is None for entry in before) else None


def _entries(store: Store, agent: str, after: int, until: int) -> Iterator[Entry]:
    while after < until:
        entries = store.read(agent, after, min(1_000, until - after))
        if not entries:
            return
        yield from entries
        after = entries[-1].seq


def _arms_shown(account: dict[str, Any], now: AgentNow) -> list[dict[str, Any]]:
    """Return the arms to show: the chosen one first, then by how near they came."""
    masked = account["policy"]["kind"] == "LearnedMask"

    def place(one: dict[str, Any]) -> tuple[bool, bool, bool, float]:
        best = one["draw"] if one["draw"] is not None else one["p"]
        return (
            one["arm"] != account["about"],
            not one["eligible"],
            masked and one["why_not"] is not None,
            -best,
        )

    wanted = [one for one in account["arms"] if now.like is None or one["arm"] in now.like]
    return sorted(wanted, key=place)


def _arms_named(
    account: dict[str, Any], since: Aftermath, shown: list[dict[str, Any]]
) -> set[ArmId]:
    """Return all arms that are named on the page."""
    named = {one["arm"] for one in (*shown, *account["sigmas"], *account["examples"]["examples"])}
    chosen = {account["arm"], account["about"], account["wanted"], since.played}
    return (named | chosen) - {None}


def _dials(account: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what each position of the dial would have done, and what the actual one did."""
    number = {one["arm"]: n for n, one in enumerate(account["arms"])}
    found = []
    for one in account["sigmas"]:
        chance = one["abstain"]
        if one["kind"] != "abstention":
            odds = one["ask" if one["kind"] == "question" else "play"]
            # A question that has a price has no probability of its own.
            chance = odds[number[one["arm"]]] if any(odds) else None
        found.append({**one, "chance": chance, "own": one["sigma"] == account["sigma"]})
    if found and not any(one["own"] for one in found):
        own = {name: account[name] for name in ("sigma", "kind", "arm", "abstain")}
        found.append({**own, "chance": _chance(account), "own": True})
    return sorted(found, key=lambda one: float(one["sigma"]))


def _chance(account: dict[str, Any]) -> float | None:
    """Return the probability of this outcome beforehand."""
    if account["propensity"] is not None or account["settled"]:
        return account["propensity"]  # type: ignore[no-any-return]
    if account["kind"] == "abstention":
        return account["abstain"]  # type: ignore[no-any-return]
    which = "ask" if account["kind"] == "question" else "play"
    chosen = next(one for one in account["arms"] if one["arm"] == account["arm"])
    return chosen[which]  # type: ignore[no-any-return]


def coin_words(made: Choice | None) -> str:
    """Return the probability of a check in words; nothing where none is made.

    Examples
    --------
    >>> coin_words(Choice(1, "decision", "7", coin=0.025)), coin_words(Choice(1, "decision", "7"))
    ('1 in 40 such plays is checked.', '')
    """
    if made is None or made.coin is None:
        return ""
    said = one_in(made.coin)
    if said == "every":
        return "Every such play is checked."
    return f"{said} such plays {'is' if said.startswith('1 in') else 'are'} checked."


def _own(formatter: ChoiceFormatter) -> Callable[[float], str]:
    """Return a function that puts a reward in [0, 1] into words, in the agent's own range."""
    low, high = formatter.reward_range
    return lambda value: number_words(low + (high - low) * value)


_EVENTS = ("GET /v1/agents/{agent}/events",)
PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/decisions", handle=listing, like=_EVENTS),
    # Beside the decisions, not below: any segment below is a decision's id.
    Page(method="GET", path="/agents/{agent}/decisions.csv", handle=export_csv, like=_EVENTS),
    Page(method="GET", path="/agents/{agent}/decisions.jsonl", handle=export_lines, like=_EVENTS),
    Page(
        method="GET",
        path="/agents/{agent}/decisions/{id}",
        handle=why,
        like=("GET /v1/agents/{agent}/decisions/{id}",),
    ),
)
