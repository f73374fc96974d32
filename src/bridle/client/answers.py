"""What a service refuses, or fails at, as one error."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from bridle.errors import BridleError, shown

__all__ = [
    "NO_ANSWER",
    "UNEXPECTED",
    "AgentLine",
    "AgentShown",
    "AnswerShown",
    "Answered",
    "ArmBelieved",
    "ArmShown",
    "AuditShown",
    "CalibrationQuestion",
    "CertificateShown",
    "CheckJudged",
    "CheckList",
    "CheckShown",
    "ChecksShown",
    "Choice",
    "EvaluationList",
    "EvaluationShown",
    "EventList",
    "EventShown",
    "ExampleList",
    "ExampleShown",
    "Filed",
    "FreshStartProposed",
    "FreshStartShown",
    "IntervalShown",
    "Judgement",
    "MeterShown",
    "OpenCase",
    "PendingAudit",
    "PriceShown",
    "Promise",
    "PromiseKept",
    "PromiseShown",
    "QuestionList",
    "QuestionShown",
    "Recommended",
    "RewardShown",
    "ServiceError",
    "ShadowShown",
    "StandingShown",
    "TaughtShown",
    "TeacherShown",
    "TeachersShown",
    "TokenMade",
    "TokenShown",
    "WhomShown",
    "WindowForm",
    "read",
    "refusal_of",
]


# Codes of our own, beside those that the service sends.
NO_ANSWER = "no_answer"
UNEXPECTED = "unexpected"


class ServiceError(BridleError):
    """The service refused a call, failed at it, or could not be reached.

    There is one class for all of it: `code` says which, as docs/http.md lists them.

    Attributes
    ----------
    status : int or None
        The HTTP status; None if no answer came.
    code : str
        For programs: "not_found", "conflict", "busy" …, or "no_answer".
    message : str
        What is wrong, in words.
    field, remedy, request : str or None
        Which value it is about; what to do; the id under which the server's log has it.
    unknown : bool
        Whether it may have been done all the same. With an id of your own the same call can simply
        be made again.
    retry_after : float or None
        When the service asked to be tried again, in seconds.

    Examples
    --------
    >>> print(ServiceError(404, "not_found", "No agent 'ann'.", remedy="See GET /v1/agents."))
    No agent 'ann'. See GET /v1/agents. (404 not_found)
    """

    def __init__(
        self,
        status: int | None,
        code: str,
        message: str,
        *,
        field: str | None = None,
        remedy: str | None = None,
        request: str | None = None,
        unknown: bool = False,
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.remedy = remedy
        self.request = request
        self.unknown = unknown
        self.retry_after = retry_after
        # The service's own messages often end with the remedy.
        more = f" {remedy}" if remedy and remedy not in message else ""
        super().__init__(f"{message}{more} ({code if status is None else f'{status} {code}'})")

    # An error that is copied, or comes back from a worker process, is made anew from its parts.
    def __reduce__(self) -> tuple[object, ...]:
        return _made_anew, (dict(self.__dict__),)


def _made_anew(facts: dict[str, Any]) -> ServiceError:
    status, code, message = facts.pop("status"), facts.pop("code"), facts.pop("message")
    return ServiceError(status, code, message, **facts)


def refusal_of(status: int, headers: Mapping[str, str], body: bytes) -> ServiceError:
    """Give the error of an answer that is no success; also of one that is not the service's own."""
    wait = _seconds(headers.get("retry-after"))
    request = headers.get("x-request-id")
    try:
        said = json.loads(body)["error"]
        return ServiceError(
            status,
            str(said["code"]),
            str(said["message"]),
            field=said.get("field"),
            remedy=said.get("remedy"),
            request=said.get("request") or request,
            retry_after=wait,
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        text = shown(body[:200].decode("utf-8", "replace"))
        return ServiceError(
            status,
            UNEXPECTED,
            f"The answer is not one of bridle's: {text}.",
            remedy="Is this the address of a bridle service?",
            request=request,
            retry_after=wait,
        )


def _seconds(text: str | None) -> float | None:
    """Read Retry-After. bridle sends whole seconds; a date, as others may send, says nothing."""
    return float(text) if text is not None and text.isdecimal() and len(text) < 10 else None


# --- What the service answers, as frozen records, under the names that the OpenAPI document has
#
# A test holds them against the service's own forms. What a newer service says beyond them is left
# out, so that an older client still reads it.


T = TypeVar("T")
Id: TypeAlias = int | str
Plain: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """What every change answers with: the agent's version, which is the length of its log."""

    version: int


# -- agents ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ArmShown:
    """An arm."""

    id: Id
    label: str
    group: str | None


@dataclass(frozen=True)
class ChecksShown:
    """Plays that a coin chose to be judged: how many wait; of those judged, how many denied."""

    open: int
    drawn: int
    judged: int
    found: int


@dataclass(frozen=True)
class AgentShown:
    """An agent, and what it is doing. `settings`: as it was made, every one in full.

    `promise`: "playing", "cautious" or "frozen"; None if it keeps none. `teachers`: the names of
    those that are declared. `warnings`: sentences.
    """

    name: str
    version: int
    sigma: float | None
    policy: Plain
    limits: str
    arms: tuple[ArmShown, ...]
    features: tuple[Plain, ...]
    rules: tuple[Plain, ...]
    decisions: int
    pending: int
    taught: int
    examples: int
    open_questions: int
    budget_left: int
    certified: bool
    audits: bool
    wait: float | None
    default_reward: float | None
    reward_range: tuple[float, ...]
    checks: ChecksShown
    promise: str | None
    teachers: tuple[str, ...]
    warnings: tuple[str, ...]
    settings: Plain


@dataclass(frozen=True)
class AgentLine:
    """An agent in a list; `hash` is of the head of its log."""

    name: str
    version: int
    hash: str
    created: float
    origin: str | None


# -- decisions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filed:
    """A question that a decision filed."""

    id: Id
    arm: Id


@dataclass(frozen=True)
class Choice:
    """What came of a decision.

    `outcome` is "decision": play `arm`; "abstention": play nothing; or "question": wait for its
    answer, and get the decision with it. `question` may also stand beside a decision: filed while
    it plays safe. `check`: a coin, of probability `coin`, chose this play to be judged afterwards:
    see `judge_check`.
    """

    outcome: str
    id: Id
    arm: Id | None
    version: int
    propensity: float | None
    question: Filed | None
    item: Id | None
    check: bool
    coin: float | None


@dataclass(frozen=True)
class RewardShown(Answered):
    """`outcome` is "learned"; or "late": it is kept and not learned."""

    outcome: str


# -- teaching --------------------------------------------------------------------------------


@dataclass(frozen=True)
class WhomShown:
    """Whom of several teachers to ask, and why.

    `cost`: what is expected to be spent until the case is settled or given up, in rewards.
    """

    teacher: str
    cost: float
    explores: bool
    reason: str


@dataclass(frozen=True)
class Judgement:
    """What stands of a case after the word of one of several teachers.

    `allowed`: as what it is settled; None while it is open, and then `next` is whom to ask, if
    anybody's answer is worth its price. `said`: who said what.
    """

    teacher: str
    allowed: bool | None
    p: float
    said: dict[str, bool]
    next: WhomShown | None
    sentence: str


@dataclass(frozen=True)
class TeacherShown:
    """A teacher, and how often they err: `rate`, with a 90 % interval; in words, `sentence`."""

    name: str
    price: float
    rate: float
    low: float
    high: float
    answers: int
    shared: int
    told: bool
    known: bool
    trusted: bool
    sentence: str


@dataclass(frozen=True)
class OpenCase:
    """A case that some have judged and that is not settled; `whom`: whom to ask about it."""

    context: Plain
    arm: Id
    item: Id | None
    p: float
    said: dict[str, bool]
    question: Id | None
    whom: WhomShown | None


@dataclass(frozen=True)
class TeachersShown(Answered):
    """The declared teachers, and a page of the cases that stand open."""

    teachers: tuple[TeacherShown, ...]
    open: tuple[OpenCase, ...]
    open_total: int
    doubt: float
    trust: float


@dataclass(frozen=True)
class TaughtShown(Answered):
    """What was taken: the ids of the examples.

    With several teachers, None for what does not settle its case yet: see `judgements`.
    """

    examples: tuple[Id | None, ...]
    judgements: tuple[Judgement, ...] | None


@dataclass(frozen=True)
class ExampleShown:
    """An example that stands. `scope`: "all", or "item" if it says nothing of other items.

    `until`: when it ends, in seconds since 1970; None: never.
    """

    id: Id
    context: Plain
    arm: Id
    allowed: bool
    by: str | None
    note: str | None
    item: Id | None
    scope: str
    until: float | None


@dataclass(frozen=True)
class ExampleList:
    """A page of the examples that stand, and how many there are."""

    examples: tuple[ExampleShown, ...]
    total: int


@dataclass(frozen=True)
class QuestionShown:
    """A question that waits for its answer. `decision`: the one it came up in, if any.

    `worth`: what its answer is worth now, in rewards. `whom`: whom of several teachers to ask.
    """

    id: Id
    context: Plain
    arm: Id
    decision: Id | None
    item: Id | None
    worth: float | None
    whom: WhomShown | None


@dataclass(frozen=True)
class QuestionList:
    """A page of the questions that wait, and how many there are."""

    questions: tuple[QuestionShown, ...]
    total: int


@dataclass(frozen=True)
class AnswerShown(Answered):
    """What became of an answer: the example that it made, and the decision that went on.

    `judgement`: with several teachers, what stands of the case; while it is open, so is the
    question.
    """

    example: Id | None
    then: Choice | None
    judgement: Judgement | None


# -- checks, the promise that acts, fresh starts -----------------------------------------------


@dataclass(frozen=True)
class CheckShown:
    """A play that waits to be judged. `coin`: the probability with which it was chosen.

    `whom`: who of several teachers judges it.
    """

    decision: Id
    context: Plain
    arm: Id
    item: Id | None
    coin: float
    whom: WhomShown | None


@dataclass(frozen=True)
class CheckList:
    """A page of the plays that wait to be judged, and how many there are."""

    checks: tuple[CheckShown, ...]
    total: int


@dataclass(frozen=True)
class CheckJudged(Answered):
    """What became of a judgement: the example that it made, and whether limits were begun anew.

    `judgement`: with several teachers, what stands of the case; while it is open, the check waits.
    """

    example: Id | None
    started_anew: bool
    judgement: Judgement | None


@dataclass(frozen=True)
class MeterShown:
    """Bounds on the violations since a promise began; each wrong with probability `delta`."""

    lower: float
    upper: float
    delta: float
    steps: int
    actions: int
    found: int
    judged: int
    pending: int


@dataclass(frozen=True)
class PromiseKept:
    """The promise that binds, and where it stands: `state`, and in words `sentence`.

    `bound`, `sharper`: how many denied plays are to be expected at most; `sure`: with probability
    0.95 there are no more, at any time. `price`: what it gives and costs, in sentences.
    """

    alpha: float
    q: float
    lag: int
    b: float
    since: float | None
    state: str
    frozen: bool
    sentence: str
    balance: float
    steps: int
    coins: int
    audits: int
    found: int
    waiting: int
    took: float | None
    thaws_in: int
    bound: float
    sharper: float
    sure: float
    meter: MeterShown | None
    price: tuple[str, ...]


@dataclass(frozen=True)
class PromiseShown(Answered):
    """The promise that binds; None if none does."""

    promise: PromiseKept | None


@dataclass(frozen=True)
class PriceShown:
    """What a promise would give and cost over so many steps, in sentences and bounds."""

    alpha: float
    q: float
    lag: int
    b: float
    steps: int
    bound: float
    sharper: float
    sure: float
    price: tuple[str, ...]


@dataclass(frozen=True)
class FreshStartProposed:
    """Why limits should be begun anew, what is kept and what is lost, in sentences."""

    why: str
    kept: str
    lost: str


@dataclass(frozen=True)
class FreshStartShown(Answered):
    """What speaks for beginning anew; None if nothing does."""

    proposal: FreshStartProposed | None


# -- promises --------------------------------------------------------------------------------


@dataclass(frozen=True)
class CalibrationQuestion:
    """The calibration question at hand, and how far the calibration is."""

    context: Plain
    arm: Id
    done: int
    contexts: int
    answers: int
    at_most: int


@dataclass(frozen=True)
class CertificateShown:
    """What is promised, on what it rests and what it assumes."""

    alpha: float
    delta: float
    n: int
    threshold: float
    broken: int
    answers: int
    keeps: float
    at: float | None
    on: str
    assumptions: tuple[str, ...]
    kind: str
    fingerprint: str
    sentence: str


@dataclass(frozen=True)
class Promise(Answered):
    """The certificate that binds, and the calibration that is under way, if any."""

    certificate: CertificateShown | None
    calibration: CalibrationQuestion | None
    refused: str | None


@dataclass(frozen=True)
class StandingShown:
    """What audits say for a level."""

    state: str
    level: float
    granted: float
    lower: float
    upper: float
    first: int
    steps: int
    found: int
    judged: int
    pending: int
    delta: float


@dataclass(frozen=True)
class PendingAudit:
    """A decision that a teacher must judge."""

    decision: Id


@dataclass(frozen=True)
class WindowForm:
    """Blocks of steps that are metered on their own as well."""

    length: int
    delta: float


@dataclass(frozen=True)
class AuditShown:
    """The audit meter: bounds on the violations so far, which hold at any time."""

    q: float
    delta: float
    windows: tuple[WindowForm, ...]
    steps: int
    before: int
    total: StandingShown
    alarms: tuple[StandingShown, ...]
    pending: tuple[PendingAudit, ...]
    pending_total: int


@dataclass(frozen=True)
class IntervalShown:
    """An estimate and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class EvaluationShown:
    """What one sigma would have earned and violated, a decision."""

    sigma: float
    decisions: int
    left_out: int
    missing: int
    logged: float
    abstains: float
    ips: IntervalShown | None
    dr: IntervalShown | None
    effective_plays: float
    support: float
    believed: float
    believed_logged: float
    audited: tuple[float, ...] | None
    refused: str | None


@dataclass(frozen=True)
class Recommended:
    """The largest sigma within the budget, and by what that is known."""

    sigma: float | None
    basis: str
    sentence: str


@dataclass(frozen=True)
class EvaluationList:
    """What each sigma would have earned, and which is recommended."""

    version: int
    evaluations: tuple[EvaluationShown, ...]
    recommended: Recommended | None


# -- looking ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class EventShown:
    """An entry of the log. `event` is None once it was erased."""

    seq: int
    kind: str
    hash: str
    event: Plain | None


@dataclass(frozen=True)
class EventList:
    """A page of the log; `next` is None at its end. `head` is for `bridle verify --expect`."""

    events: tuple[EventShown, ...]
    next: int | None
    head: str


@dataclass(frozen=True)
class ArmBelieved:
    """What is believed of an arm in a context."""

    arm: Id
    p: float
    safe: bool
    possible: bool
    certified: bool | None
    playable: bool
    why_not: str | None
    novelty: float
    unseen: tuple[str, ...]


@dataclass(frozen=True)
class ShadowShown:
    """How the agent compares with the system beside which it runs."""

    decisions: int
    agreed: int
    abstained: int
    denied_ours: int
    denied_theirs: int
    believed_ours: float
    believed_theirs: float


@dataclass(frozen=True)
class TokenShown:
    """A token, without its secret."""

    id: str
    role: str
    agents: tuple[str, ...] | None
    created: float
    expires: float | None
    revoked: float | None
    note: str


@dataclass(frozen=True, repr=False)
class TokenMade(TokenShown):
    """A new token, with its secret: it is shown here and never again."""

    token: str

    def __repr__(self) -> str:
        return f"TokenMade({self.id})"  # no secret in a log


# -- reading ---------------------------------------------------------------------------------


def read(kind: type[T], value: Any) -> T:
    """Make a record out of what JSON gave, or raise `ServiceError`."""
    try:
        return cast(T, _reader(cast(Any, kind))(value))
    except (LookupError, TypeError, AttributeError) as error:
        message = f"The answer is no {kind.__name__} that this client knows: {error!r}."
        remedy = "Use a client of the service's version."
        raise ServiceError(200, UNEXPECTED, message, remedy=remedy) from None


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Give what makes a value of a type out of JSON's; None for those that JSON has itself."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        parts = [(field.name, _reader(hints[field.name])) for field in fields(kind)]
        make = cast("Callable[..., Any]", kind)
        return lambda value: make(*[part(value[name]) for name, part in parts])
    options = get_args(kind)
    if get_origin(kind) is tuple:
        inner = _reader(options[0])
        return lambda value: tuple(map(inner, value))
    if get_origin(kind) in (Union, types.UnionType) and type(None) in options:
        rest = [option for option in options if option is not type(None)]
        if len(rest) == 1:
            inner = _reader(rest[0])
            return lambda value: None if value is None else inner(value)
    return lambda value: value
