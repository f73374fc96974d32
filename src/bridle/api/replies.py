"""What the service answers: frozen records, written by the server and read by the clients.

Light to import: nothing of an agent is needed to read an answer.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from bridle.api.base import ArmName, Form, Id, ItemName, Role, WindowForm, later

__all__ = [
    "AgentLine",
    "AgentList",
    "AgentShown",
    "AnswerShown",
    "Answered",
    "ArmBelieved",
    "ArmList",
    "ArmShown",
    "AuditShown",
    "BelievedShown",
    "CalibrationQuestion",
    "CertificateShown",
    "CheckJudged",
    "CheckList",
    "CheckShown",
    "ChecksShown",
    "Choice",
    "Choices",
    "EvaluationList",
    "EvaluationShown",
    "EventList",
    "EventShown",
    "ExampleList",
    "ExampleShown",
    "Explained",
    "Filed",
    "Fine",
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
    "ShadowShown",
    "Slate",
    "SlateRewarded",
    "StandingShown",
    "TaughtShown",
    "TeacherShown",
    "TeachersShown",
    "TokenList",
    "TokenMade",
    "TokenShown",
    "WhomShown",
]


class Answered(Form):
    """What every change answers with."""

    version: Annotated[int, Field(ge=1, description="Events of the agent's log, this one included")]


# -- agents ------------------------------------------------------------------------------------


class ArmShown(Form):
    """An arm.

    `status`: `visiting` arms are played only where a request names them, `retired` ones never; left
    out of arms that stand.
    """

    id: ArmName
    label: str
    group: str | None
    features: dict[str, Any] | None = later("What it is like, where arms have features")
    status: Literal["visiting", "retired"] | None = later("Left out: it stands")


class ArmList(Form):
    """Arms in their order, and how many there are."""

    arms: tuple[ArmShown, ...]
    total: int


class ChecksShown(Form):
    """Plays that a coin chose to be judged: how many wait, and what was found so far."""

    open: int
    drawn: int
    judged: int
    found: Annotated[int, Field(description="Of those judged: not allowed")]


class AgentShown(Form):
    """An agent, and what it is doing."""

    name: str
    version: int
    sigma: float | None
    policy: dict[str, float | str | None]
    limits: str
    arms: tuple[ArmShown, ...]
    features: tuple[dict[str, Any], ...]
    rules: tuple[dict[str, Any], ...]
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
    reward_range: tuple[float, float]
    checks: ChecksShown
    promise: Annotated[
        Literal["playing", "cautious", "frozen"] | None,
        Field(description="Where the promise stands; null: none binds"),
    ]
    teachers: Annotated[tuple[str, ...], Field(description="The names of the declared teachers")]
    warnings: Annotated[tuple[str, ...], Field(description="What whoever made it so should know")]
    settings: Annotated[dict[str, Any], Field(description="As it was made, every one in full")]
    arm_features: tuple[dict[str, Any], ...] | None = later("What arms look like, if they have it")
    arms_total: int | None = later(
        "Where arms have features: how many there are. Above 1,000, here and in `settings` only "
        "the first 1,000 are listed: see …/arms"
    )


class AgentLine(Form):
    """An agent in a list."""

    name: str
    version: int
    hash: str
    created: float
    origin: str | None


class AgentList(Form):
    """Agents, by name."""

    agents: tuple[AgentLine, ...]


# -- decisions ---------------------------------------------------------------------------------


class Filed(Form):
    """A question to a teacher: answer it under …/questions/{id}/answer."""

    id: Id
    arm: ArmName


class Choice(Form):
    """What came of a decision.

    `decision`: play `arm`. `abstention`: play nothing. `question`: wait for the answer, and get
    the decision with it. `question` may also stand beside a decision: filed while it plays safe.
    `check`: a coin chose this play to be judged afterwards, under …/checks/{id}.
    """

    outcome: Literal["decision", "abstention", "question"]
    id: Id
    arm: ArmName | None
    version: Annotated[int, Field(ge=1, description="Of the agent when it was made")]
    propensity: Annotated[float, Field(ge=0, le=1)] | None
    question: Filed | None
    item: ItemName | None
    check: bool
    coin: Annotated[
        float | None,
        Field(ge=0, le=1, description="The probability with which it was to be judged"),
    ]
    draws: int | None = later(
        "How many draws estimated the propensity; left out: it is exact", ge=1
    )
    slate: Id | None = later("Of a play that is one of several: the id of their first decision")
    place: int | None = later("Its place among them, from 1 on", ge=1)


class Choices(Form):
    """What came of each, in order."""

    decisions: tuple[Choice, ...]


class Slate(Form):
    """Several arms to play at once, best first: each is a decision of its own.

    Reward each by its id, or all of them together under `slate`, the id of the first. There may be
    fewer than `places`, where no more may be played or stand together. `abstention`: play nothing.
    """

    outcome: Literal["slate", "abstention"]
    slate: Id
    places: Annotated[int, Field(ge=1, description="How many were asked for")]
    version: Annotated[int, Field(ge=1, description="Of the agent when it was made")]
    propensity: Annotated[
        float | None,
        Field(
            ge=0,
            le=1,
            description="Of the whole, in this order, where it was asked for and is "
            "exact; else see each",
        ),
    ]
    question: Filed | None
    decisions: tuple[Choice, ...]


class RewardShown(Answered):
    """`learned`; or `late`, if nobody waited for it any more: then it is kept and not learned."""

    outcome: Literal["learned", "late"]


class ItemRewarded(Form):
    """What a decision of a slate was credited with; null: nothing is known of it."""

    id: Id
    value: float | None
    outcome: Literal["learned", "late"] | None


class SlateRewarded(Answered):
    """What each decision of a slate was credited with, by its place."""

    items: tuple[ItemRewarded, ...]


# -- which of several teachers says so ---------------------------------------------------------


class WhomShown(Form):
    """Whom to ask, and why: the teacher whose answer is worth its price.

    `cost`: what is expected to be spent until the case is settled or given up, in rewards.
    `explores`: it is asked to learn how often a teacher errs.
    """

    teacher: str
    cost: float
    explores: bool
    reason: str


class Judgement(Form):
    """What stands of a case after the word of one of several teachers.

    `allowed`: as what it is settled, and null while it is open; then `next` is whom to ask, null if
    nobody's answer is worth its price. `p`: the probability that it is allowed, by all that was
    said. `said`: who said what.
    """

    teacher: str
    allowed: bool | None
    p: Annotated[float, Field(ge=0, le=1)]
    said: dict[str, bool]
    next: WhomShown | None
    sentence: str


class TeacherShown(Form):
    """A teacher: what an answer of theirs costs, and how often they err, as far as is known.

    `rate` is the mean of what is believed, `low` and `high` a 90 % interval; all three are what was
    told, if it was. `answers`: cases that they judged; `shared`: those that others judged, too.
    `known`: the rate is told, or learned within about 0.05. `trusted`: their word alone settles a
    case.
    """

    name: str
    price: float
    rate: Annotated[float, Field(ge=0, le=0.5)]
    low: Annotated[float, Field(ge=0, le=0.5)]
    high: Annotated[float, Field(ge=0, le=0.5)]
    answers: int
    shared: int
    told: bool
    known: bool
    trusted: bool
    sentence: str


class OpenCase(Form):
    """A case that some have judged and that is not settled.

    `question`: an open question about it. `whom`: whom to ask, null if nobody is worth it.
    """

    context: dict[str, Any]
    arm: ArmName
    item: ItemName | None
    p: Annotated[float, Field(ge=0, le=1)]
    said: dict[str, bool]
    question: Id | None
    whom: WhomShown | None


class TeachersShown(Answered):
    """The teachers, in the order in which they were declared, and what stands open.

    `doubt`: a case is settled once it is allowed, or denied, with a probability of 1 − doubt.
    `trust`: who errs in no more than this share of answers settles a case alone.
    """

    teachers: tuple[TeacherShown, ...]
    open: tuple[OpenCase, ...]
    open_total: int
    doubt: float
    trust: float


# -- teaching ----------------------------------------------------------------------------------


class TaughtShown(Answered):
    """What was taken: the id of each example.

    Where several teachers are declared, null for what does not settle its case yet, and
    `judgements` says what stands of each.
    """

    examples: tuple[Id | None, ...]
    judgements: tuple[Judgement, ...] | None


class ExampleShown(Form):
    """An example that stands."""

    id: Id
    context: dict[str, Any]
    arm: ArmName
    allowed: bool
    by: str | None
    note: str | None
    item: ItemName | None
    scope: Literal["all", "item"]
    until: float | None


class ExampleList(Form):
    """Examples that stand, in the order in which they were taught."""

    examples: tuple[ExampleShown, ...]
    total: int


class QuestionShown(Form):
    """A question that waits for its answer. `decision`: the one it came up in, if any.

    `worth`: what its answer is worth now, in rewards; null beyond the oldest 1,000 questions. Of
    agents from before answers had a price it is what the answer would teach, in nats. `whom`: whom
    of several teachers to ask; null if there are none, or if nobody's answer is worth its price.
    """

    id: Id
    context: dict[str, Any]
    arm: ArmName
    decision: Id | None
    item: ItemName | None
    worth: float | None
    whom: WhomShown | None


class QuestionList(Form):
    """Questions that wait: the most valuable first, of equals the oldest."""

    questions: tuple[QuestionShown, ...]
    total: int


class AnswerShown(Answered):
    """What became of an answer: the example that it made, and the decision that went on.

    `judgement`: what stands of the case, where several teachers are declared. While it is open the
    question is, too, and there is no example.
    """

    example: Id | None
    then: Choice | None
    judgement: Judgement | None


# -- checks ------------------------------------------------------------------------------------


class CheckShown(Form):
    """A play that waits to be judged, by the limits as they stood then.

    `coin`: the probability with which it was chosen. `whom`: who of several teachers judges it: who
    errs least and has not judged its case.
    """

    decision: Id
    context: dict[str, Any]
    arm: ArmName
    item: ItemName | None
    coin: Annotated[float, Field(ge=0, le=1)]
    whom: WhomShown | None


class CheckList(Form):
    """Plays that wait to be judged, oldest first, and how many there are."""

    checks: tuple[CheckShown, ...]
    total: int


class CheckJudged(Answered):
    """What became of a judgement: the example that it made.

    `started_anew`: it denied what a teacher had allowed, and a promise binds; so what was learned
    of the limits was begun anew. `judgement`: what stands of the case, where several teachers are
    declared. While it is open the check waits, and there is no example.
    """

    example: Id | None
    started_anew: bool
    judgement: Judgement | None


# -- the promise that acts, fresh starts -------------------------------------------------------


class MeterShown(Form):
    """What audits with varying coins say of the violations since the promise began.

    Each bound is wrong at any time with probability `delta` at most, whatever the agent does. Plays
    that the teacher allowed at that very decision are no actions here.
    """

    lower: float
    upper: float
    delta: float
    steps: int
    actions: int
    found: int
    judged: int
    pending: int


class PromiseKept(Form):
    """The promise that binds, and where it stands.

    `bound`: alpha·steps + b + 1/q, at most so many denied plays are to be expected; `sharper`: the
    same, as this purse's own coins have it; `sure`: with probability 0.95 there are no more, at any
    time. `took`: steps that answers took on average, to hold against `lag`.
    """

    alpha: float
    q: float
    lag: int
    b: float
    since: float | None
    state: Literal["playing", "cautious", "frozen"]
    frozen: bool
    sentence: str
    balance: float
    steps: int
    coins: Annotated[int, Field(description="Plays that had a coin")]
    audits: Annotated[int, Field(description="Plays whose coin fell, answered and waiting")]
    found: int
    waiting: int
    took: float | None
    thaws_in: Annotated[int, Field(description="Decisions until it plays by itself; 0: it does")]
    bound: float
    sharper: float
    sure: float
    meter: MeterShown | None
    price: Annotated[tuple[str, ...], Field(description="What it gives and costs, in sentences")]


class PromiseShown(Answered):
    """The promise that binds; null if none does."""

    promise: PromiseKept | None


class PriceShown(Form):
    """What a promise would give and cost, in sentences, and the bound over so many decisions."""

    alpha: float
    q: float
    lag: int
    b: float
    steps: int
    bound: float
    sharper: float
    sure: float
    price: tuple[str, ...]


class FreshStartProposed(Form):
    """A proposal to begin anew, in sentences."""

    why: str
    kept: str
    lost: str


class FreshStartShown(Answered):
    """What speaks for beginning anew; null if nothing does."""

    proposal: FreshStartProposed | None


# -- certificates, audits, evaluation ----------------------------------------------------------


class CalibrationQuestion(Form):
    """The question at hand, and how far the calibration is."""

    context: dict[str, Any]
    arm: ArmName
    done: int
    contexts: int
    answers: int
    at_most: Annotated[int, Field(description="Answers that may still be needed")]


class CertificateShown(Form):
    """What is promised, on what it rests and what it assumes."""

    alpha: float
    delta: float
    n: int
    threshold: float
    broken: int
    answers: int
    keeps: Annotated[float, Field(description="Share of contexts that keep an arm")]
    at: float | None
    on: str
    assumptions: tuple[str, ...]
    kind: str
    fingerprint: str
    sentence: str


class Promise(Answered):
    """The certificate that binds, and the calibration that is under way, if any."""

    certificate: CertificateShown | None
    calibration: CalibrationQuestion | None
    refused: Annotated[
        str | None, Field(description="Why the calibration that ended here gave no certificate")
    ] = None


class StandingShown(Form):
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


class PendingAudit(Form):
    """A decision that a teacher must judge: see its explanation for the context and the arm."""

    decision: Id


class AuditShown(Form):
    """The audit meter: bounds on the violations so far, which hold at any time."""

    q: float
    delta: float
    windows: tuple[WindowForm, ...]
    steps: int
    before: Annotated[int, Field(description="Decisions from before the audits")]
    total: StandingShown
    alarms: tuple[StandingShown, ...]
    pending: tuple[PendingAudit, ...]
    pending_total: int


class IntervalShown(Form):
    """An estimate and its interval."""

    value: float
    low: float
    high: float


class EvaluationShown(Form):
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
    believed: Annotated[float, Field(description="Violations, by the model's belief")]
    believed_logged: float
    audited: tuple[float, float] | None
    refused: str | None
    draws: Annotated[
        int | None, Field(description="Fewest draws behind a propensity; null if all are exact")
    ] = None
    sampling: Annotated[
        float, Field(description="Share of the variance that more draws would take away")
    ] = 0.0


class Recommended(Form):
    """The largest sigma within the budget, and by what that is known."""

    sigma: float | None
    basis: str
    sentence: str


class EvaluationList(Form):
    """What each sigma would have earned, and which is recommended."""

    version: int
    evaluations: tuple[EvaluationShown, ...]
    recommended: Recommended | None


# -- looking -----------------------------------------------------------------------------------


class EventShown(Form):
    """An entry of the log. `event` is null once it was erased."""

    seq: int
    kind: str
    hash: str
    event: dict[str, Any] | None


class EventList(Form):
    """A part of the log, in order; go on with `after` = `next`, until it is null."""

    events: tuple[EventShown, ...]
    next: int | None
    head: Annotated[str, Field(description="SEQ:HASH, for `bridle verify --expect`")]


class Explained(Form):
    """Why a decision came out as it did."""

    account: dict[str, Any]


class ArmBelieved(Form):
    """What is believed of an arm in the context."""

    arm: ArmName
    p: Annotated[float, Field(ge=0, le=1, description="Probability that it is allowed")]
    safe: bool
    possible: bool
    certified: bool | None
    playable: bool
    why_not: str | None
    novelty: float
    unseen: tuple[str, ...]


class BelievedShown(Form):
    """What is believed of every arm in a context."""

    arms: tuple[ArmBelieved, ...]
    total: int | None = later("Where arms have features: how many there are")


class ShadowShown(Form):
    """How the agent compares with the system beside which it runs."""

    decisions: int
    agreed: int
    abstained: int
    denied_ours: Annotated[int, Field(description="Plays that a rule or the teacher had denied")]
    denied_theirs: int
    believed_ours: Annotated[float, Field(description="Violations, by the model's belief")]
    believed_theirs: float


# -- tokens ------------------------------------------------------------------------------------


class TokenShown(Form):
    """A token, without its secret."""

    id: str
    role: Role
    agents: tuple[str, ...] | None
    created: float
    expires: float | None
    revoked: float | None
    note: str


class TokenMade(TokenShown):
    """A new token, with its secret: it is shown here and never again."""

    token: Annotated[str, Field(repr=False)]  # no secret in a log


class TokenList(Form):
    """All tokens, oldest first."""

    tokens: tuple[TokenShown, ...]


# -- operations --------------------------------------------------------------------------------


class Fine(Form):
    """All is well."""

    status: Literal["ok"]
