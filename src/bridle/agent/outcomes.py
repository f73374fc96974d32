"""What an agent answers: a decision, a question or an abstention.

Each holds its event, made and not yet folded, so that a store can commit it first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, overload

import numpy as np

from bridle.agent.config import ArmId, ItemId
from bridle.agent.events import Abstained, Asked, Context, Decided, Event
from bridle.agent.frozen import fast
from bridle.certificates.certificate import Certificate
from bridle.errors import NotPossible
from bridle.kernels.types import Bools, Floats

if TYPE_CHECKING:
    from bridle.agent.joint import JointScoring
    from bridle.agent.scoring import Scoring

__all__ = [
    "Abstention",
    "Answer",
    "Check",
    "Decision",
    "Decisions",
    "Odds",
    "Question",
    "SlateDecision",
]


# Rows that a notebook shows of a table.
MOST_SHOWN = 20


def html_table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], n: int) -> str:
    """Return a small table for notebooks: no style, no script.

    `rows` are of HTML already, the first of `n`; title and heads are plain text.
    """
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    more = f"<p>and {n - len(rows):,} more</p>" if n > len(rows) else ""
    caption = f"<caption>{escape(title)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _about(event: Decided | Abstained | Asked) -> list[str]:
    about = [] if event.item is None else [f"for {event.item!r}"]
    return about if event.among is None else [*about, f"among {len(event.among)}"]


@dataclass(frozen=True, slots=True, eq=False)
class Odds:
    """The probability of each way in which a look can end; all of them sum to one.

    Attributes
    ----------
    play, ask : arrays of K floats
        That the arm is played, and that the teacher is asked about it.
    abstain : float
        That nothing is played.
    draws : int or None
        How many further draws they were estimated by; None if they are exact. The draw that was
        played counts as one more, so what was played has at least 1 / (draws + 1).
    """

    play: Floats
    ask: Floats
    abstain: float
    draws: int | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A play that a coin chose to be judged: give it, and the teacher's word, to `Agent.judge`.

    Attributes
    ----------
    id : int or str
        The decision whose play it is.
    context : tuple of floats
        As the agent encodes it.
    arm : arm id
        What was played.
    item : int, str or None
        The name of what the context is about, if it has one.
    coin : float
        The probability with which it was chosen.
    """

    id: ItemId
    context: Context
    arm: ArmId
    item: ArmId | None
    coin: float


@fast
@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """An arm to play, and how it came to be chosen.

    The arrays have an entry an arm, in the order of `arms`. Standard deviations of the two parts
    are the posterior's own (for v = 1); the blend's has the policy's v in it.

    Attributes
    ----------
    event : Decided
        What goes into the log.
    arms : tuple of arm ids
        All arms of the agent when it decided.
    scored : array (7, K), Scoring or JointScoring
        What `parts` are, or are computed from when they are first asked for.
    eligible : array of K bools
        Which arms were in the running.
    certified : array of K bools, or None
        What the agent's certificate let through; None if it had none.
    odds : Odds or None
        The exact probability of each outcome, if it was asked for. None also where an answer has
        settled the decision: then nothing is left to chance.
    question : Question or None
        What it would like to know, filed while it plays safe (``on_doubt="play_safe"``).

    Why an arm may not be played in a context says `Agent.believed(context).why`.
    """

    event: Decided
    arms: tuple[ArmId, ...]
    scored: Floats | Scoring | JointScoring
    eligible: Bools
    odds: Odds | None = None
    certified: Bools | None = None
    question: Question | None = None

    @property
    def events(self) -> list[Event]:
        """What goes into the log: the decision, and the question that it filed."""
        return [self.event] if self.question is None else [self.event, self.question.event]

    @property
    def check(self) -> Check | None:
        """What a teacher should judge afterwards, if the coin chose this play."""
        one = self.event
        if not one.checked or one.coin is None:
            return None
        return Check(one.id, one.context, one.arm, one.item, one.coin)

    @property
    def propensities(self) -> Floats | None:
        """The exact probability that each arm is played, if it was asked for."""
        return None if self.odds is None else self.odds.play

    def __repr__(self) -> str:
        said = [f"{self.id!r}: play {self.arm!r}", *_about(self.event)]
        if self.propensity is not None:
            said.append(f"with probability {self.propensity:.3g}")
        said += ["to be judged"] if self.event.checked else []
        said += ["asks"] if self.question is not None else []
        return f"<Decision {', '.join(said)}>"

    def _repr_html_(self) -> str:
        rows = []
        for k, arm in enumerate(self.arms[:MOST_SHOWN]):
            mark = "✓" if self.eligible[k] else "–"
            numbers = (self.reward_mean[k], self.limit_mean[k], self.draw[k])
            name = f"<b>{escape(str(arm))}</b>" if arm == self.arm else escape(str(arm))
            rows.append([name, mark, *(f"{number:.3g}" for number in numbers)])
        heads = ["arm", "may be played", "mean reward", "P(allowed)", "draw"]
        return html_table(repr(self), heads, rows, len(self.arms))

    @property
    def parts(self) -> Floats:
        """The rows that the properties below name, as they were when it was made: (7, K)."""
        scored = self.scored
        return scored if isinstance(scored, np.ndarray) else scored.parts()

    def _part(self, row: int) -> Floats:
        part: Floats = self.parts[row]
        return part

    @property
    def id(self) -> ItemId:
        """Names the decision when its reward comes."""
        return self.event.id

    @property
    def arm(self) -> ArmId:
        """The id of the arm to play."""
        return self.event.arm

    @property
    def item(self) -> ArmId | None:
        """The name of what the context is about, if it has one."""
        return self.event.item

    @property
    def version(self) -> int:
        """The number of events folded when it was made."""
        return self.event.version

    @property
    def context(self) -> Context:
        """The context as the agent encodes it."""
        return self.event.context

    @property
    def propensity(self) -> float | None:
        """The exact probability with which this arm was chosen, if it was asked for.

        Where an answer settled it: with which the agent asked about it, at its last look.
        """
        return self.event.propensity

    @property
    def reward_mean(self) -> Floats:
        """Mean of the reward part, in [0, 1] units."""
        return self._part(0)

    @property
    def reward_sd(self) -> Floats:
        """Standard deviation of the reward part."""
        return self._part(1)

    @property
    def limit_mean(self) -> Floats:
        """Mean of the constraint part: the belief, or probability, that the arm is allowed."""
        return self._part(2)

    @property
    def limit_sd(self) -> Floats:
        """Standard deviation of the constraint part: the doubt."""
        return self._part(3)

    @property
    def mean(self) -> Floats:
        """Mean of the blend."""
        return self._part(4)

    @property
    def sd(self) -> Floats:
        """Standard deviation of the blend."""
        return self._part(5)

    @property
    def draw(self) -> Floats:
        """What was drawn for each arm; the best eligible one won."""
        return self._part(6)


@fast
@dataclass(frozen=True, slots=True)
class Question:
    """What the agent would like to be told: whether this arm is allowed in this context.

    Attributes
    ----------
    event : Asked
        What goes into the log.
    odds : Odds or None
        The exact probability of each outcome of the look that asked, if it was asked for.
    """

    event: Asked
    odds: Odds | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        said = [f"{self.id!r}: is {self.arm!r} allowed?", *_about(self.event)]
        said += [] if self.decision is None else [f"decision {self.decision!r} asks"]
        return f"<Question {', '.join(said)}>"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"

    @property
    def events(self) -> list[Event]:
        """What goes into the log."""
        return [self.event]

    @property
    def decision(self) -> ItemId | None:
        """The decision that it came up in; None if the agent asked to be taught."""
        return self.event.decision

    @property
    def propensity(self) -> float | None:
        """The exact probability with which the decision asked about this arm, if asked for."""
        return self.event.propensity

    @property
    def id(self) -> ItemId:
        """Names the question when its answer comes."""
        return self.event.id

    @property
    def context(self) -> Context:
        """The context as the agent encodes it."""
        return self.event.context

    @property
    def arm(self) -> ArmId:
        """The id of the arm it asks about."""
        return self.event.arm

    @property
    def item(self) -> ArmId | None:
        """The name of what the context is about, if it has one."""
        return self.event.item

    @property
    def version(self) -> int:
        """The number of events folded when it was made."""
        return self.event.version


@fast
@dataclass(frozen=True, slots=True)
class Abstention:
    """Nothing may be played: no arm is surely allowed. It earns nothing and teaches nothing.

    Attributes
    ----------
    event : Abstained
        What goes into the log.
    odds : Odds or None
        The exact probability of each outcome, if it was asked for.
    question : Question or None
        What it would like to know, filed meanwhile (``on_doubt="play_safe"``).
    certified : array of K bools, or None
        What the agent's certificate let through; None if it had none. If that holds an arm, it was
        the live limits, rules or denials that left nothing: see `Agent.believed(context).why`.
    """

    event: Abstained
    odds: Odds | None = field(default=None, compare=False)
    certified: Bools | None = field(default=None, compare=False)
    question: Question | None = None

    def __repr__(self) -> str:
        said = [f"{self.id!r}: nothing may be played", *_about(self.event)]
        said += ["asks"] if self.question is not None else []
        return f"<Abstention {', '.join(said)}>"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"

    @property
    def events(self) -> list[Event]:
        """What goes into the log: the abstention, and the question that it filed."""
        return [self.event] if self.question is None else [self.event, self.question.event]

    @property
    def id(self) -> ItemId:
        """Names the abstention in the log."""
        return self.event.id

    @property
    def context(self) -> Context:
        """The context as the agent encodes it."""
        return self.event.context

    @property
    def item(self) -> ArmId | None:
        """The name of what the context is about, if it has one."""
        return self.event.item

    @property
    def version(self) -> int:
        """The number of events folded when it was made."""
        return self.event.version


class SlateDecision(Sequence[Decision]):
    """Several arms to play at once, best first: each is a decision of its own.

    Reward each by its id, or all of them together: `Agent.reward_slate`.

    Attributes
    ----------
    numbers : list of ints
        The number of the arm at each place.
    coins : list of (probability, whether it fell), or None
        As in `Decisions`.
    how : {"exact", "search", "greedy"}
        `exact`: taking the best that fits is exact here. `search`: it is not, and the best was
        searched for and found. `greedy`: the search was given up.
    bound : float
        The share of the best sum of draws that it has at least: 1 but for `greedy`.
    """

    def __init__(
        self,
        first: Decision,
        ids: list[ItemId],
        numbers: list[int],
        shares: list[tuple[float, int | None]] | None,
        coins: list[tuple[float | None, bool]] | None,
        how: str,
        bound: float,
    ) -> None:
        self._first = first
        self._ids = ids
        self.numbers = numbers
        self._shares = shares
        self.coins = coins
        self.how = how
        self.bound = bound

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """One for each place; made when they are first asked for."""
        return (self._first, *(self._further(n) for n in range(1, len(self._ids))))

    def _further(self, n: int) -> Decision:
        """Return the decision of a place after the first."""
        first, one = self._first, self._first.event
        share, draws = (None, None) if self._shares is None else self._shares[n]
        coin, checked = (None, False) if self.coins is None else self.coins[n]
        event = Decided(
            self._ids[n],
            one.context,
            first.arms[self.numbers[n]],
            one.version,
            one.among,
            share,
            one.at,
            one.ask,
            one.item,
            None,
            None,
            None,
            coin,
            checked,
            None,
            draws,
            one.slate,
            n + 1,
            one.places,
        )
        return Decision(event, first.arms, first.scored, first.eligible, None, first.certified)

    @property
    def id(self) -> ItemId:
        """Names the slate: the id of its first decision."""
        return self._ids[0]

    @property
    def ids(self) -> list[ItemId]:
        """The id of each decision."""
        return self._ids.copy()

    @property
    def arms(self) -> list[ArmId]:
        """The arms to play, best first."""
        every = self._first.arms
        return [every[k] for k in self.numbers]

    @property
    def events(self) -> list[Event]:
        """What goes into the log."""
        return [event for one in self.decisions for event in one.events]

    @property
    def event(self) -> Decided:
        """The event of the first place."""
        return self._first.event

    @property
    def question(self) -> Question | None:
        """What it would like to know, filed while it plays safe (``on_doubt="play_safe"``)."""
        return self._first.question

    @property
    def lost_nothing(self) -> bool:
        """Whether it would have liked to play nothing else: no question, no cost of not asking."""
        return self.question is None and self.event.wanted is None

    @property
    def propensity(self) -> float | None:
        """The probability of the whole slate, in this order, where it is exact; else None."""
        if self._shares is None or any(draws is not None for _, draws in self._shares):
            return None
        return math.prod(share for share, _ in self._shares)

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, place: int) -> Decision: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Decision]: ...
    def __getitem__(self, place: int | slice) -> Decision | Sequence[Decision]:
        return self.decisions[place]

    def __repr__(self) -> str:
        said = [f"{self.id!r}: play {', '.join(map(repr, self.arms[:5]))}"]
        said += [f"and {len(self) - 5} more"] if len(self) > 5 else []
        said += ["asks"] if self.question is not None else []
        return f"<SlateDecision {', '.join(said)}>"


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an answer.

    Attributes
    ----------
    example : id or None
        The example that it made, for `retract`; None if the question was skipped.
    then : Decision, Question, Abstention or None
        What the decision came to that waited for it; None if none did.
    """

    example: ItemId | None
    then: Decision | Question | Abstention | None = None


class Decisions(Sequence[Decision | Abstention]):
    """A batch of decisions, kept as columns; each is made into an object when it is looked at.

    Attributes
    ----------
    ids : list of ids
    chosen : list of arm ids, None where the agent abstained
    """

    def __init__(
        self,
        *,
        ids: list[ItemId],
        numbers: list[int],
        arms: tuple[ArmId, ...],
        contexts: Floats,
        first_version: int,
        parts: Floats | None,
        eligible: Bools,
        propensities: Floats | None,
        among: tuple[ArmId, ...] | None,
        at: float | None,
        certificate: Certificate | None = None,
        items: list[ArmId | None] | None = None,
        coins: list[tuple[float | None, bool]] | None = None,
        chances: list[tuple[float, int | None]] | None = None,
    ) -> None:
        self._chances = chances
        self.ids = ids
        self.numbers = numbers
        self.contexts = contexts
        self._arms = arms
        self._first_version = first_version
        self._parts = parts
        self._eligible = eligible
        self._propensities = propensities
        self._among = among
        self._at = at
        self._certificate = certificate
        self.items: list[ArmId | None] = [None] * len(ids) if items is None else items
        self.coins = coins

    @property
    def at(self) -> float | None:
        """When they were made, if that was said."""
        return self._at

    @property
    def among(self) -> tuple[ArmId, ...] | None:
        """The arms that could be had; None: all."""
        return self._among

    @property
    def first_version(self) -> int:
        """The number of events folded before the first of them."""
        return self._first_version

    def propensity(self, i: int) -> float | None:
        """The probability of what came of the i-th, if it was asked for."""
        if self._chances is not None:
            return self._chances[i][0]
        if self._propensities is None:
            return None
        k = self.numbers[i]
        return 1.0 if k < 0 else float(self._propensities[i, k])

    @property
    def chosen(self) -> list[ArmId | None]:
        """The arm of each decision, None where the agent abstained."""
        return [self._arms[k] if k >= 0 else None for k in self.numbers]

    def __repr__(self) -> str:
        return f"<Decisions of {len(self):,} contexts, {self.numbers.count(-1):,} abstentions>"

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, place: int) -> Decision | Abstention: ...
    @overload
    def __getitem__(self, place: slice) -> list[Decision | Abstention]: ...
    def __getitem__(
        self, place: int | slice
    ) -> Decision | Abstention | list[Decision | Abstention]:
        if isinstance(place, slice):
            return [self[i] for i in range(*place.indices(len(self)))]
        i = range(len(self))[place]
        event = self._event(i)
        if isinstance(event, Abstained):
            nothing = np.zeros(len(self._arms))
            sure = None if event.propensity is None else Odds(nothing, nothing, 1.0)
            return Abstention(event, sure, self._certified(i))
        if self._parts is None:
            raise NotPossible(
                "This batch was made with details=False: it has ids, chosen and events alone."
            )
        odds = None
        if self._propensities is not None:
            play = self._propensities[i]
            odds = Odds(play, np.zeros(len(play)), 0.0)
        eligible = self._eligible[i if len(self._eligible) > 1 else 0].copy()
        return Decision(event, self._arms, self._parts[i], eligible, odds, self._certified(i))

    def __iter__(self) -> Iterator[Decision | Abstention]:
        return (self[i] for i in range(len(self)))

    def events(self) -> list[Decided | Abstained]:
        """Return what goes into the log."""
        return [self._event(i) for i in range(len(self))]

    def texts(self) -> list[str]:
        """Return the JSON text of each event, without making it: as `event_to_text` has it."""
        among = "null" if self._among is None else json.dumps(self._among, ensure_ascii=False)
        at = "null" if self._at is None else repr(self._at)
        rows = self.contexts.tolist()
        arms = {
            k: json.dumps(self._arms[k], ensure_ascii=False) for k in set(self.numbers) if k >= 0
        }
        out = []
        columns = zip(self.ids, self.numbers, rows, self.items, strict=True)
        for i, (id, k, row, item) in enumerate(columns):
            about = "null" if item is None else json.dumps(item, ensure_ascii=False)
            priced = f'"item": {about}, "wanted": null, "worth": null, "lesson": null'
            coin, checked = self._coin(i)
            name = id if isinstance(id, int) else json.dumps(id, ensure_ascii=False)
            version = self._first_version + i
            if k < 0:
                sure = "null" if self.propensity(i) is None else "1.0"
                out.append(
                    f'{{"event": "Abstained", "id": {name}, "context": {row}, '
                    f'"version": {version}, "among": {among}, "at": {at}, "ask": false, '
                    f'"propensity": {sure}, {priced}}}'
                )
            else:
                chance, draws = self.propensity(i), self.draws(i)
                p = "null" if chance is None else repr(chance)
                by = "" if draws is None else f', "draws": {draws}'
                out.append(
                    f'{{"event": "Decided", "id": {name}, "context": {row}, "arm": {arms[k]}, '
                    f'"version": {version}, "among": {among}, "propensity": {p}, "at": {at}, '
                    f'"ask": false, {priced}, "coin": {"null" if coin is None else repr(coin)}, '
                    f'"checked": {"true" if checked else "false"}{by}}}'
                )
        return out

    def checked(self, i: int) -> bool:
        """Return whether the coin chose the i-th play to be judged."""
        return self._coin(i)[1]

    def draws(self, i: int) -> int | None:
        """How many draws estimated the propensity of the i-th; None: it is exact."""
        return None if self._chances is None else self._chances[i][1]

    def _coin(self, i: int) -> tuple[float | None, bool]:
        return (None, False) if self.coins is None else self.coins[i]

    def _certified(self, i: int) -> Bools | None:
        if self._certificate is None:
            return None
        return self._certificate.lets_through(self.contexts[i], len(self._arms))

    def _event(self, i: int) -> Decided | Abstained:
        context = tuple(self.contexts[i].tolist())
        version = self._first_version + i
        k = self.numbers[i]
        if k < 0:
            sure = None if self.propensity(i) is None else 1.0
            return Abstained(
                self.ids[i], context, version, self._among, self._at, False, sure, self.items[i]
            )
        odds = self.propensity(i)
        return Decided(
            self.ids[i],
            context,
            self._arms[k],
            version,
            self._among,
            odds,
            self._at,
            False,
            self.items[i],
            None,
            None,
            None,
            *self._coin(i),
            None,
            self.draws(i),
        )
