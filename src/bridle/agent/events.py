"""What can happen to an agent: frozen records with a stable form on disk.

An agent is the fold of its events in order. Contexts stand in them as they are encoded, arms by
their ids; `at` is the caller's time in seconds since 1970, stored and never read. The type of a
field also says how it is read from JSON and checked, so an event is declared here and nowhere else.

`Note` is what is written into a log beside: audits, calibration and late rewards belong to the same
history as the decisions that they are about, and change nothing of an agent's state.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from json.encoder import encode_basestring
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from bridle import registry, validation
from bridle.agent.config import WAIT, Arm, ArmId, ItemId, Json, Settings, words
from bridle.agent.frozen import fast
from bridle.certificates.certificate import Certificate
from bridle.errors import BridleError, CorruptState, InvalidValue, NotRegistered
from bridle.kernels.types import Floats, Ints
from bridle.limits.declared import Rule
from bridle.limits.kinds import KINDS
from bridle.policies import Policy, policy_from_json, policy_to_json
from bridle.reward.base import Forget, check_forget
from bridle.validation import MAX_MAGNITUDE

__all__ = [
    "MAX_NOTE",
    "SCOPES",
    "Abstained",
    "ArmsAdded",
    "ArmsChanged",
    "ArmsRestored",
    "ArmsRetired",
    "ArmsVisited",
    "Asked",
    "AuditBegun",
    "Audited",
    "Calibrated",
    "CalibrationBegun",
    "CalibrationDropped",
    "Certified",
    "Context",
    "Created",
    "Decided",
    "Erased",
    "Erasure",
    "Event",
    "Expired",
    "ForgettingChanged",
    "Judged",
    "Lapsed",
    "Learned",
    "Note",
    "PolicyChanged",
    "PromiseDropped",
    "Promised",
    "Regrouped",
    "Retracted",
    "Rewarded",
    "RewardedLate",
    "RuleDeclared",
    "RuleWithdrawn",
    "RunsOn",
    "Scope",
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

Context: TypeAlias = tuple[float, ...]
Part: TypeAlias = Arm | Rule | Settings | Certificate
# What an answer is about: all that looks like it, or this very item alone.
Scope: TypeAlias = Literal["all", "item"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
MAX_NOTE = 10_000
COIN = validation.FloatRange(0.0, 1.0, open_low=True)
_FLOATS = frozenset({float})


# --- The forms of fields: how each is read from JSON, and how it is checked ---------------


class Form(NamedTuple):
    """How a field is read from JSON and how it is checked; both raise if it is wrong."""

    read: Callable[[Any], Any]
    check: Callable[[Any], Any]


def _arm_id(value: object) -> ArmId:
    if type(value) is int and -(2**53) <= value <= 2**53:
        return value
    return _word(value)


def _id(value: object) -> ItemId:
    if type(value) is int and 1 <= value <= 2**53:
        return value
    return _word(value)


def _word(value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"an id is a whole number or a string, not {value!r:.100}")
    return words(value, "id", "Agent")


def _number(value: object) -> float:
    if type(value) is not float and type(value) is not int:
        raise TypeError(f"a number was expected, not {value!r:.100}")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"a finite number was expected, not {value!r}")
    return number


def _check_context(value: object) -> None:
    if type(value) is not tuple:
        raise TypeError(f"a context is a tuple, not {value!r:.100}")
    for number in value:
        if type(number) is not float or not -MAX_MAGNITUDE <= number <= MAX_MAGNITUDE:
            raise ValueError(f"a context has floats within ±{MAX_MAGNITUDE:g}, not {number!r:.100}")


def _context(value: object) -> Context:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {value!r:.100}")
    context = tuple(value)
    # Nearly always all of them are floats already.
    if not _FLOATS.issuperset(map(type, context)):
        context = tuple(_number(number) for number in value)
    _check_context(context)
    return context


def _version(value: object) -> int:
    if type(value) is not int or value < 1:
        raise TypeError(f"a version is a whole number from 1 on, not {value!r:.100}")
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"true or false was expected, not {value!r:.100}")
    return value


def _kind(value: object) -> str:
    known = (*KINDS, *registry.registered("limits"))
    return validation.one_of(cast("str", value), known, "limits", "Agent")


def _grouped(value: object) -> tuple[ArmId, str | None]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise TypeError(f"an arm and its group were expected, not {value!r:.100}")
    arm, group = value
    return _arm_id(arm), None if group is None else words(group, "group", "Agent")


def _check_grouped(value: object) -> None:
    if type(value) is not tuple:
        raise TypeError(f"a tuple was expected, not {value!r:.100}")
    _grouped(value)


def _seconds(value: object) -> float:
    return WAIT.check(_number(value), "wait", "Agent")


def _share(value: object) -> float:
    return validation.FRACTION.check(_number(value), "share", "Agent")


def _coin(value: object) -> float:
    return COIN.check(_number(value), "coin", "Agent")


def _name(value: object) -> str:
    return words(value, "by", "Agent")


def _scope(value: object) -> str:
    return validation.one_of(cast("str", value), SCOPES, "scope", "Agent")


def _draws(value: object) -> int:
    if type(value) is not int or not 1 <= value <= 2**53:
        raise TypeError(f"a number of draws is a whole number from 1 on, not {value!r:.100}")
    return value


def _policy(value: object) -> Policy:
    if not isinstance(value, dict):
        raise TypeError(f"a policy is a JSON object, not {value!r:.100}")
    made = policy_from_json(value)
    if policy_to_json(made) != value:
        raise ValueError("a policy is not written in full")
    return made


def _forget(value: object) -> Forget:
    return check_forget(value if isinstance(value, str) else _number(value), "forget", "Agent")


def _lag(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"a lag is a whole number, not {value!r:.100}")
    return validation.IntRange(0, 10**6).check(value, "lag", "Agent")


def _seed(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"a seed is a whole number, not {value!r:.100}")
    return validation.SEED.check(value, "seed", "AuditMeter")


def _window(value: object) -> tuple[int, float]:
    if not isinstance(value, list | tuple) or len(value) != 2 or type(value[0]) is not int:
        raise TypeError(f"a window is a length and a delta, not {value!r:.100}")
    return value[0], _number(value[1])


def _check_window(value: object) -> None:
    if type(value) is not tuple:
        raise TypeError(f"a tuple was expected, not {value!r:.100}")
    _window(value)


def _words(value: object) -> str:
    return "" if value == "" else _text(value)


def _text(value: object) -> str:
    return words(value, "by or note", "Agent", MAX_NOTE)


def _each(one: Form) -> Form:
    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise TypeError(f"a list was expected, not {value!r:.100}")
        return tuple(one.read(item) for item in value)

    def check(value: object) -> None:
        if type(value) is not tuple:
            raise TypeError(f"a tuple was expected, not {value!r:.100}")
        for item in value:
            one.check(item)

    return Form(read, check)


def _maybe(one: Form) -> Form:
    return Form(
        lambda value: None if value is None else one.read(value),
        lambda value: None if value is None else one.check(value),
    )


def _object(kind: type[Part]) -> Form:
    def read(value: object) -> Part:
        made: Part = kind.from_json(cast("Any", value))
        # A default of today may not have been one then. (Settings see to it themselves.)
        if kind is not Settings and made.to_json() != value:
            raise ValueError(f"{kind.__name__} is not written in full")
        return made

    def check(value: object) -> None:
        if not isinstance(value, kind):
            raise TypeError(f"{kind.__name__} was expected, not {value!r:.100}")

    return Form(read, check)


def _array(dtype: str, dimensions: int) -> Form:
    def read(value: object) -> np.ndarray[Any, Any]:
        if not isinstance(value, dict) or set(value) != {"shape", "base64"}:
            raise TypeError("an array is written as shape and base64")
        raw = base64.b64decode(value["base64"], validate=True)
        shape = value["shape"]
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise TypeError(f"the shape of an array is whole numbers, not {shape!r:.100}")
        if len(shape) != dimensions or math.prod(shape) * 8 != len(raw):
            raise ValueError(f"{len(raw)} bytes are no array of shape {shape!r:.100}")
        array = np.frombuffer(raw, np.dtype(dtype)).reshape(shape)
        array = array.astype(array.dtype.newbyteorder("="))
        array.flags.writeable = False
        return array

    def check(value: object) -> None:
        if not isinstance(value, np.ndarray) or value.ndim != dimensions:
            raise TypeError(f"an array of {dimensions} dimensions was expected")
        if value.dtype != np.dtype(dtype).newbyteorder("="):
            raise TypeError(f"an array of {dtype} was expected, not of {value.dtype}")

    return Form(read, check)


def _both(form: Callable[[Any], Any]) -> Form:
    return Form(form, form)


# By the plain type of a field, and by a type of its own where that says too little.
_PLAIN: dict[type, Form] = {
    float: _both(_number),
    bool: _both(_truth),
    str: _both(_text),
    **{kind: _object(kind) for kind in get_args(Part)},
}
_Id: TypeAlias = Annotated[ItemId, _both(_id)]
_ArmId: TypeAlias = Annotated[ArmId, _both(_arm_id)]
_Encoded: TypeAlias = Annotated[Context, Form(_context, _check_context)]
_Version: TypeAlias = Annotated[int, _both(_version)]
_Share: TypeAlias = Annotated[float, _both(_share)]
_Coin: TypeAlias = Annotated[float, _both(_coin)]
_Draws: TypeAlias = Annotated[int, _both(_draws)]
_Policy: TypeAlias = Annotated[Policy, Form(_policy, policy_to_json)]
_Seconds: TypeAlias = Annotated[float, _both(_seconds)]
_Forget: TypeAlias = Annotated[Forget, _both(_forget)]
_Lag: TypeAlias = Annotated[int, _both(_lag)]
_Seed: TypeAlias = Annotated[int, _both(_seed)]
_Scope: TypeAlias = Annotated[Scope, _both(_scope)]
_Kind: TypeAlias = Annotated[str, _both(_kind)]
_Name: TypeAlias = Annotated[str, _both(_name)]
_MaybeEmpty: TypeAlias = Annotated[str, _both(_words)]
_Window: TypeAlias = Annotated[tuple[int, float], Form(_window, _check_window)]
_Grouped: TypeAlias = Annotated[tuple[ArmId, str | None], Form(_grouped, _check_grouped)]
_Rows: TypeAlias = Annotated[Floats, _array("<f8", 2)]
_Column: TypeAlias = Annotated[Floats, _array("<f8", 1)]
_Numbers: TypeAlias = Annotated[Ints, _array("<i8", 1)]


def _form_of(hint: Any) -> Form:
    """Return the form of a field by its type: a form of its own, an option, a list, or plain."""
    if get_origin(hint) is Annotated:
        return cast("Form", hint.__metadata__[0])
    arguments = get_args(hint)
    if get_origin(hint) in (Union, UnionType) and NoneType in arguments:
        (one,) = (kind for kind in arguments if kind is not NoneType)
        return _maybe(_form_of(one))
    if get_origin(hint) is tuple and arguments[1:] == (...,):
        return _each(_form_of(arguments[0]))
    return _PLAIN[hint]


# --- Notes: they change nothing of an agent's state ---------------------------------------


@dataclass(frozen=True, slots=True)
class RewardedLate:
    """A reward that came when nobody waited for it any more. It is not learned."""

    decision: _Id
    value: float
    at: float | None = None


@dataclass(frozen=True, slots=True)
class AuditBegun:
    """From here on a coin says which decisions a teacher must judge: see `AuditMeter`.

    `windows` are pairs of a length and a delta. Whoever chooses actions must not know the seed.
    """

    q: _Share
    delta: _Share
    seed: _Seed
    windows: tuple[_Window, ...] = ()
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Audited:
    """A teacher judged a decision that the coin chose."""

    decision: _Id
    allowed: bool
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationBegun:
    """The limits as they are here are to be certified on these contexts (n, d), by questions."""

    contexts: _Rows
    alpha: _Share
    delta: _Share
    lambda_min: _Share
    on: _MaybeEmpty
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

    events: tuple[_Version, ...]
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
    `arms`: those that it brought along; they are of a catalogue, and others may speak of them.
    """

    kind: str
    spaces: tuple[str, ...] = ()
    arms: tuple[Arm, ...] | None = None


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


# --- Events: what an agent is the fold of -------------------------------------------------


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
class ArmsVisited:
    """Somebody spoke of arms that the agent does not have: it knows them from here on.

    It plays them only where a request names them.
    """

    arms: tuple[Arm, ...]
    at: float | None = None


@dataclass(frozen=True, slots=True)
class ArmsChanged:
    """Arms have other labels or features from here on; what they earned counts as it was."""

    arms: tuple[Arm, ...]
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class ArmsRetired:
    """Arms are not played any more; what was learned of them stays."""

    arms: tuple[_ArmId, ...]
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class ArmsRestored:
    """Arms that were retired, or only visited, may be played again."""

    arms: tuple[_ArmId, ...]
    by: str | None = None
    note: str | None = None
    at: float | None = None


@fast
@dataclass(frozen=True, slots=True)
class Asked:
    """The agent asked whether `arm` is allowed in `context`.

    `decision`: of which decision it came up, if it asked because it was in doubt. `propensity`: the
    probability that this decision would ask about this arm. `visitors` as in `Decided`.
    """

    id: _Id
    context: _Encoded
    arm: _ArmId
    version: _Version
    at: float | None = None
    decision: _Id | None = None
    among: tuple[_ArmId, ...] | None = None
    propensity: float | None = None
    item: _ArmId | None = None
    visitors: tuple[Arm, ...] | None = None


@dataclass(frozen=True, slots=True)
class Lapsed:
    """A question will not be answered. A decision that waits for it goes on and asks no more."""

    question: _Id
    at: float | None = None


@fast
@dataclass(frozen=True, slots=True)
class Taught:
    """A teacher said of an arm in a context: allowed, or not. `question`: what it answers.

    `item`: what the context is about, if it has a name. `check`: the decision whose play it judges,
    by the limits as they stood then. `scope`: "all", or "item" if it says nothing of other items.
    `until`: when it ends, in the caller's time; None: never. `replaces`: earlier answers of the
    same teacher about the same item, which no longer stand.
    """

    id: _Id
    context: _Encoded
    arm: _ArmId
    allowed: bool
    question: _Id | None = None
    by: str | None = None
    note: str | None = None
    at: float | None = None
    item: _ArmId | None = None
    check: _Id | None = None
    scope: _Scope = "all"
    until: float | None = None
    replaces: tuple[_Id, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """One of several declared teachers said of an arm in a context: allowed, or not.

    It says who errs how often, and is no example. What it settles is written as `Taught` after it.
    `prior`: the limits' own P(allowed) then. `id`: the caller's name for this word, if it has one;
    `who`: who said so in the teacher's name, if that is known. The rest as in `Taught`.
    """

    context: _Encoded
    arm: _ArmId
    allowed: bool
    by: _Name
    prior: _Share
    question: _Id | None = None
    check: _Id | None = None
    item: _ArmId | None = None
    scope: _Scope = "all"
    until: float | None = None
    note: str | None = None
    at: float | None = None
    id: _Id | None = None
    who: str | None = None


@dataclass(frozen=True, slots=True)
class Retracted:
    """A teacher took an example back."""

    example: _Id
    by: str | None = None
    note: str | None = None
    at: float | None = None


@fast
@dataclass(frozen=True, slots=True)
class Decided:
    """The agent chose an arm. `version`: the number of events folded when it was made.

    `ask`: whether it might have asked the teacher instead. `item`: what the context is about, if it
    has a name. `wanted`: the arm in doubt whose lack cost most, and `worth` how much: it is added
    to the account of its unit and this item; `lesson`, by what an answer would have taught about
    other items, to that of its unit. `coin`: the probability with which the play was to be judged
    afterwards; `checked`: whether the coin fell so. `visitors`: those among the arms that the
    request brought along, as the agent does not have them. `draws`: how many draws the propensity
    was estimated by; None: it is exact. `slate`: of a play that is one of several, what names them
    together: the id of the first. `place`: its place among them, from 1 on; `places`: how many were
    asked for. Its propensity is that of this arm in this place: of all slates if it is estimated,
    and given the places before it if it is exact.
    """

    id: _Id
    context: _Encoded
    arm: _ArmId
    version: _Version
    among: tuple[_ArmId, ...] | None = None
    propensity: float | None = None
    at: float | None = None
    ask: bool = False
    item: _ArmId | None = None
    wanted: _ArmId | None = None
    worth: float | None = None
    lesson: float | None = None
    coin: _Coin | None = None
    checked: bool = False
    visitors: tuple[Arm, ...] | None = None
    draws: _Draws | None = None
    slate: _Id | None = None
    place: _Draws | None = None
    places: _Draws | None = None


@fast
@dataclass(frozen=True, slots=True)
class Abstained:
    """The agent had nothing that it may play. What was not asked as in `Decided`.

    `places`: how many arms were asked for, of a slate.
    """

    id: _Id
    context: _Encoded
    version: _Version
    among: tuple[_ArmId, ...] | None = None
    at: float | None = None
    ask: bool = False
    propensity: float | None = None
    item: _ArmId | None = None
    wanted: _ArmId | None = None
    worth: float | None = None
    lesson: float | None = None
    visitors: tuple[Arm, ...] | None = None
    places: _Draws | None = None


@fast
@dataclass(frozen=True, slots=True)
class Rewarded:
    """The reward of a decision, in the agent's own reward range."""

    decision: _Id
    value: float
    at: float | None = None


@fast
@dataclass(frozen=True, slots=True)
class Expired:
    """Nobody waits for the reward of a decision any more. `value` is learned in its place.

    None: nothing is learned.
    """

    decision: _Id
    value: float | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Shadowed:
    """Another system played `arm` in the place of a decision: the reward will be that arm's."""

    decision: _Id
    context: _Encoded
    arm: _ArmId
    at: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """History from before the agent: contexts (n, d), arm numbers (n), rewards (n)."""

    contexts: _Rows
    arm_numbers: _Numbers
    rewards: _Column
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
class PolicyChanged:
    """From here on this policy chooses."""

    policy: _Policy
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class ForgettingChanged:
    """From here on old rewards fade in this way: see the setting `forget`."""

    forget: _Forget
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class WaitChanged:
    """Decisions wait so many seconds for a reward, and then learn `default_reward` if there is one.

    None: for ever.
    """

    wait: _Seconds | None
    default_reward: float | None = None
    by: str | None = None
    note: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Regrouped:
    """A person put arms into groups: `groups` pairs an arm with its group (None: of its own).

    What was taught is learned anew, in these groups, by limits of the kind `limits`.
    """

    groups: tuple[_Grouped, ...]
    limits: _Kind
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

    alpha: _Share
    q: _Share
    lag: _Lag
    b: float
    seed: _Seed
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
    | ArmsVisited
    | ArmsChanged
    | ArmsRetired
    | ArmsRestored
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
    | PolicyChanged
    | ForgettingChanged
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
    """Return an event as plain JSON values, the form it has on disk.

    Examples
    --------
    >>> event_to_json(Rewarded(decision=7, value=0.5))
    {'event': 'Rewarded', 'decision': 7, 'value': 0.5, 'at': None}
    """
    data: dict[str, Json] = {"event": type(event).__name__}
    added = _ADDED.get(type(event), ())
    for field in fields(event):
        value = getattr(event, field.name)
        if value is not None or field.name not in added:
            data[field.name] = _plain(value)
    return data


def event_to_text(event: Event) -> str:
    """Return an event as JSON text: that of `event_to_json`, for logs that are written fast."""
    parts = [f'{{"event": "{type(event).__name__}"']
    added = _ADDED.get(type(event), ())
    for field in _FORMS_OF[type(event)]:
        value = getattr(event, field)
        kind = type(value)
        if kind is tuple and field == "context":
            text = repr(list(value))  # floats, which JSON writes as Python does
        elif value is None:
            if field in added:
                continue
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
    """Return the event that `event_to_json` wrote, or raise `CorruptState`."""
    if not isinstance(data, Mapping):
        raise CorruptState(f"An event is a JSON object, not {data!r:.100}.")
    name = data.get("event")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise CorruptState(f"No event is called {name!r:.100}.")
    forms = _FORMS_OF[kind]
    missing = forms.keys() - data.keys()
    added = _ADDED.get(kind, ())
    before = missing.difference(added) if added else missing
    known = not before or before in _EARLIER.get(kind, ())
    if any(data.get(name, ...) is None for name in added):
        raise CorruptState(f"{name} is written without {', '.join(added)} where it has none.")
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
    """Raise `InvalidValue` for an event with a field that no event of an agent has.

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
    if value is None or type(value) in (str, int, float, bool):
        return cast("Json", value)
    if isinstance(value, np.ndarray):
        # 64-bit little-endian, whatever machine wrote it.
        raw = value.astype(value.dtype.newbyteorder("<")).tobytes()
        return {"shape": list(value.shape), "base64": base64.b64encode(raw).decode()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Arm | Settings | Rule | Certificate):
        return cast("Json", value.to_json())
    if isinstance(value, Policy):
        return cast("Json", policy_to_json(value))
    return cast("Json", value)


# -- what earlier logs lack ------------------------------------------------------------------

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

# Fields that are left out where they are None, so that events without them keep their bytes.
_ADDED: dict[type, tuple[str, ...]] = {
    Asked: ("visitors",),
    Decided: ("visitors", "draws", "slate", "place", "places"),
    Abstained: ("visitors", "places"),
    Erased: ("arms",),
}

_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in get_args(Event)}
_FORMS_OF: dict[type, dict[str, Form]] = {}
for _kind_of_event in _KINDS.values():
    _hints = get_type_hints(_kind_of_event, include_extras=True)
    _FORMS_OF[_kind_of_event] = {
        field.name: _form_of(_hints[field.name]) for field in fields(_kind_of_event)
    }
