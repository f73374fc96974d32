"""What is written into a log beside: it changes nothing of what an agent knows.

Audits, calibration and late rewards belong to the same history as the decisions that they are
about, so they stand in the same log, in order. `bridle.store` folds them into meters of its own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from json.encoder import encode_basestring
from typing import TypeAlias, cast, get_args

import numpy as np

from bridle.agent.codec import FORMS, Context, Form
from bridle.agent.config import Arm, ArmId, ItemId, Json, Settings
from bridle.certificates.certificate import Certificate
from bridle.errors import BridleError, CorruptState, InvalidValue, NotRegistered
from bridle.kernels.types import Floats, Ints
from bridle.limits.declared import Rule

__all__ = [
    "Abstained",
    "ArmsAdded",
    "Asked",
    "AuditBegun",
    "Audited",
    "Calibrated",
    "CalibrationBegun",
    "CalibrationDropped",
    "Certified",
    "Created",
    "Decided",
    "Erased",
    "Erasure",
    "Event",
    "Expired",
    "Judged",
    "Lapsed",
    "Learned",
    "Note",
    "PromiseDropped",
    "Promised",
    "Regrouped",
    "Retracted",
    "Rewarded",
    "RewardedLate",
    "RuleDeclared",
    "RuleWithdrawn",
    "RunsOn",
    "Shadowed",
    "SigmaChanged",
    "StartedAnew",
    "Taught",
    "Uncertified",
    "WaitChanged",
    "check_event",
    "event_from_json",
    "event_to_json",
    "event_to_text",
]


@dataclass(frozen=True, slots=True)
class RewardedLate:
    """A reward that came when nobody waited for it any more. It is not learned."""

    decision: ItemId
    value: float
    at: float | None = None


@dataclass(frozen=True, slots=True)
class AuditBegun:
    """From here on a coin says which decisions a teacher must judge: see `AuditMeter`.

    `windows` are pairs of a length and a delta. Whoever chooses actions must not know the seed.
    """

    q: float
    delta: float
    seed: int
    windows: tuple[tuple[int, float], ...] = ()
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    """A teacher judged a decision that the coin chose."""

    decision: ItemId
    allowed: bool
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationBegun:
    """The limits as they are here are to be certified on these contexts (n, d), by questions."""

    contexts: Floats
    alpha: float
    delta: float
    lambda_min: float
    on: str
    by: str | None = None
    note: str | None = None
    at: float | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CalibrationBegun) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[object, ...]:
        rest = self.alpha, self.delta, self.lambda_min, self.on, self.by, self.note, self.at
        return (self.contexts.shape, self.contexts.tobytes(), *rest)


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A teacher answered the calibration question at hand."""

    allowed: bool
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class CalibrationDropped:
    """The calibration was given up: its answers certify nothing."""

    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Erasure:
    """What these events held was erased; from here on it is as if they had never been."""

    events: tuple[int, ...]
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class RunsOn:
    """From here on events are made by these versions, on this platform: bits depend on both."""

    platform: str
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Erased:
    """In the place of an event that was erased. It counts, and says nothing.

    `kind` is what it was; `spaces` are what it was the first to name: "decision", "example", ….
    """

    kind: str
    spaces: tuple[str, ...] = ()


Note: TypeAlias = (
    RewardedLate
    | AuditBegun
    | Audited
    | CalibrationBegun
    | Calibrated
    | CalibrationDropped
    | Erasure
    | RunsOn
    | Erased
)


# --- What can happen to an agent: frozen records with a stable form on disk ---------------
#
# An agent is the fold of its events in order. Contexts stand in them as they are encoded, arms by
# their ids; `at` is the caller's time in seconds since 1970, kept and never read.


@dataclass(frozen=True, slots=True)
class Created:
    """The agent came to be, with every setting in full. The first event of every log."""

    settings: Settings
    at: float | None = None


@dataclass(frozen=True, slots=True)
class ArmsAdded:
    """Arms that know nothing yet came after the others."""

    arms: tuple[Arm, ...]
    at: float | None = None
    by: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """The agent asked whether `arm` is allowed in `context`.

    `decision`: of which decision it came up, if it asked because it was in doubt. `propensity`: the
    probability that this decision would ask about this arm.
    """

    id: ItemId
    context: Context
    arm: ArmId
    version: int
    at: float | None = None
    decision: ItemId | None = None
    among: tuple[ArmId, ...] | None = None
    propensity: float | None = None
    item: ArmId | None = None


@dataclass(frozen=True, slots=True)
class Lapsed:
    """A question will not be answered. A decision that waits for it goes on and asks no more."""

    question: ItemId
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Taught:
    """A teacher said of an arm in a context: allowed, or not. `question`: what it answers.

    `item`: what the context is about, if it has a name. `check`: the decision whose play it judges,
    by the limits as they stood then. `scope`: "all", or "item" if it says nothing of other items.
    `until`: when it ends, in the caller's time; None: never. `replaces`: earlier answers of the
    same teacher about the same item, which no longer stand.
    """

    id: ItemId
    context: Context
    arm: ArmId
    allowed: bool
    question: ItemId | None = None
    by: str | None = None
    note: str | None = None
    at: float | None = None
    item: ArmId | None = None
    check: ItemId | None = None
    scope: str = "all"
    until: float | None = None
    replaces: tuple[ItemId, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """One of several declared teachers said of an arm in a context: allowed, or not.

    It says who errs how often, and is no example. What it settles is written as `Taught` after it.
    `prior`: the limits' own P(allowed) then. `id`: the caller's name for this word, if it has one;
    `who`: who said so in the teacher's name, if that is known. The rest as in `Taught`.
    """

    context: Context
    arm: ArmId
    allowed: bool
    by: str
    prior: float
    question: ItemId | None = None
    check: ItemId | None = None
    item: ArmId | None = None
    scope: str = "all"
    until: float | None = None
    note: str | None = None
    at: float | None = None
    id: ItemId | None = None
    who: str | None = None


@dataclass(frozen=True, slots=True)
class Retracted:
    """A teacher took an example back."""

    example: ItemId
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """The agent chose an arm. `version`: the number of events folded when it was made.

    `ask`: whether it might have asked the teacher instead. `item`: what the context is about, if it
    has a name. `wanted`: the arm in doubt whose lack cost most, and `worth` how much: it is added
    to the account of its unit and this item; `lesson`, by what an answer would have taught about
    other items, to that of its unit. `coin`: the probability with which the play was to be judged
    afterwards; `checked`: whether the coin fell so.
    """

    id: ItemId
    context: Context
    arm: ArmId
    version: int
    among: tuple[ArmId, ...] | None = None
    propensity: float | None = None
    at: float | None = None
    ask: bool = False
    item: ArmId | None = None
    wanted: ArmId | None = None
    worth: float | None = None
    lesson: float | None = None
    coin: float | None = None
    checked: bool = False


@dataclass(frozen=True, slots=True)
class Abstained:
    """The agent had nothing that it may play. What was not asked as in `Decided`."""

    id: ItemId
    context: Context
    version: int
    among: tuple[ArmId, ...] | None = None
    at: float | None = None
    ask: bool = False
    propensity: float | None = None
    item: ArmId | None = None
    wanted: ArmId | None = None
    worth: float | None = None
    lesson: float | None = None


@dataclass(frozen=True, slots=True)
class Rewarded:
    """The reward of a decision, in the agent's own reward range."""

    decision: ItemId
    value: float
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Expired:
    """Nobody waits for the reward of a decision any more. `value` is learned in its place.

    None: nothing is learned.
    """

    decision: ItemId
    value: float | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Shadowed:
    """Another system played `arm` in the place of a decision: the reward will be that arm's."""

    decision: ItemId
    context: Context
    arm: ArmId
    at: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """History from before the agent: contexts (n, d), arm numbers (n), rewards (n)."""

    contexts: Floats
    arm_numbers: Ints
    rewards: Floats
    at: float | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Learned) and event_to_json(self) == event_to_json(other)

    def __hash__(self) -> int:
        return hash((self.contexts.tobytes(), self.arm_numbers.tobytes(), self.rewards.tobytes()))


@dataclass(frozen=True, slots=True)
class SigmaChanged:
    """The dial was turned."""

    sigma: float
    at: float | None = None
    by: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class WaitChanged:
    """Decisions wait so many seconds for a reward, and then learn `default_reward` if there is one.

    None: for ever.
    """

    wait: float | None
    default_reward: float | None = None
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Regrouped:
    """A person put arms into groups: `groups` pairs an arm with its group (None: of its own).

    What was taught is learned anew, in these groups, by limits of the kind `limits`.
    """

    groups: tuple[tuple[ArmId, str | None], ...]
    limits: str
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Certified:
    """From here on the agent keeps to the certified set of this certificate."""

    certificate: Certificate
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Uncertified:
    """The certificate no longer binds, and promises nothing any more."""

    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Promised:
    """From here on the agent keeps the promise (alpha, q): see `bridle.agent.purse`.

    `seed` is that of the coins. Whoever chooses contexts, ids or limits must not know it.
    """

    alpha: float
    q: float
    lag: int
    b: float
    seed: int
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class PromiseDropped:
    """The promise no longer binds."""

    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class StartedAnew:
    """What was learned of the limits is forgotten; denials stay. `why`: in words."""

    why: str
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class RuleDeclared:
    """A rule is known, beside what is learned."""

    rule: Rule
    at: float | None = None
    by: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RuleWithdrawn:
    """A known rule no longer holds."""

    rule: str
    at: float | None = None
    by: str | None = None
    note: str | None = None


Event: TypeAlias = (
    Created
    | ArmsAdded
    | Asked
    | Lapsed
    | Taught
    | Judged
    | Retracted
    | Decided
    | Abstained
    | Rewarded
    | Expired
    | Shadowed
    | Learned
    | SigmaChanged
    | WaitChanged
    | Regrouped
    | Certified
    | Uncertified
    | Promised
    | PromiseDropped
    | StartedAnew
    | RuleDeclared
    | RuleWithdrawn
    | Note
)


def event_to_json(event: Event) -> dict[str, Json]:
    """Give an event as plain JSON values, the form it has on disk.

    Examples
    --------
    >>> event_to_json(Rewarded(decision=7, value=0.5))
    {'event': 'Rewarded', 'decision': 7, 'value': 0.5, 'at': None}
    """
    data: dict[str, Json] = {"event": type(event).__name__}
    for field in fields(event):
        data[field.name] = _plain(getattr(event, field.name))
    return data


def event_to_text(event: Event) -> str:
    """Give an event as JSON text: that of `event_to_json`, for logs that are written fast."""
    parts = [f'{{"event": "{type(event).__name__}"']
    for field in _FORMS_OF[type(event)]:
        value = getattr(event, field)
        kind = type(value)
        if kind is tuple and field == "context":
            text = repr(list(value))  # floats, which JSON writes as Python does
        elif value is None:
            text = "null"
        elif kind is bool:
            text = "true" if value else "false"
        elif kind is float or kind is int:
            text = repr(value)
        elif kind is str:
            text = encode_basestring(value)
        else:
            text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)
        parts.append(f'"{field}": {text}')
    return ", ".join(parts) + "}"


def event_from_json(data: Mapping[str, Json]) -> Event:
    """Give back the event that `event_to_json` wrote, or raise `CorruptState`."""
    if not isinstance(data, Mapping):
        raise CorruptState(f"An event is a JSON object, not {data!r:.100}.")
    name = data.get("event")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise CorruptState(f"No event is called {name!r:.100}.")
    forms = _FORMS_OF[kind]
    missing = forms.keys() - data.keys()
    known = not missing or missing in _EARLIER.get(kind, ())
    if len(data) - 1 + len(missing) != len(forms) or not known:
        wanted, got = sorted(forms), sorted(map(str, data))
        raise CorruptState(f"{name} has the fields {wanted}, not {got}."[:1000])
    try:
        return kind(**{name: form.read(data[name]) for name, form in forms.items() if name in data})
    except NotRegistered:
        raise
    except (BridleError, TypeError, ValueError, KeyError, OverflowError, RecursionError) as error:
        raise CorruptState(f"A damaged {name}: {error}") from None


def check_event(event: Event) -> None:
    """Refuse an event with a field that no event of an agent has.

    What an agent made itself needs no check; what comes from outside does, before it is folded.
    """
    forms = _FORMS_OF.get(type(event))
    if forms is None:
        raise InvalidValue("event", "Agent.apply", "one of bridle.agent.events", event)
    for field, form in forms.items():
        value = getattr(event, field)
        try:
            form.check(value)
        except (BridleError, TypeError, ValueError, OverflowError) as error:
            owner, wanted = type(event).__name__, "as in events that agents make"
            raise InvalidValue(field, owner, wanted, value, f"{error}") from None


def _plain(value: object) -> Json:
    if isinstance(value, np.ndarray):
        # 64-bit little-endian, whatever machine wrote it.
        raw = value.astype(value.dtype.newbyteorder("<")).tobytes()
        return {"shape": list(value.shape), "base64": base64.b64encode(raw).decode()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Arm | Settings | Rule | Certificate):
        return cast("Json", value.to_json())
    return cast("Json", value)


# -- the form of each field ------------------------------------------------------------------

_PRICED = {"item", "wanted", "worth", "lesson"}
_COIN = {"coin", "checked"}
_LIFE = {"check", "scope", "until", "replaces"}
# What earlier logs lack, a set for each form that there was. The defaults are what was meant then.
_EARLIER: dict[type, tuple[set[str], ...]] = {
    Asked: ({"decision", "among", "propensity", "item"}, {"item"}),
    Decided: ({"ask", *_PRICED, *_COIN}, _PRICED | _COIN, _COIN),
    Abstained: ({"ask", "propensity", *_PRICED}, _PRICED),
    Taught: ({"item", *_LIFE}, _LIFE),
    Judged: ({"id", "who"},),
    **dict.fromkeys((ArmsAdded, SigmaChanged, RuleDeclared, RuleWithdrawn), ({"by", "note"},)),
}

_KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        Created,
        ArmsAdded,
        Asked,
        Lapsed,
        Taught,
        Judged,
        Retracted,
        Decided,
        Abstained,
        Rewarded,
        Expired,
        Shadowed,
        Learned,
        SigmaChanged,
        WaitChanged,
        Regrouped,
        Certified,
        Uncertified,
        Promised,
        PromiseDropped,
        StartedAnew,
        RuleDeclared,
        RuleWithdrawn,
        *get_args(Note),
    )
}
_FORMS_OF: dict[type, dict[str, Form]] = {
    kind: {
        field.name: FORMS.get(f"{name}.{field.name}") or FORMS[field.name] for field in fields(kind)
    }
    for name, kind in _KINDS.items()
}
