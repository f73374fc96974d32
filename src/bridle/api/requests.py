"""What a request says: bodies, and the parameters after the question mark."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, Field, model_validator

from bridle.api.base import (
    AGENT_NAME,
    MAX_BATCH,
    MAX_PAGE,
    ArmName,
    ClientId,
    ContextForm,
    Form,
    ItemName,
    Note,
    Role,
    WindowForm,
    Words,
)
from bridle.api.models import (
    MAX_ARMS,
    AgentForm,
    ArmForm,
    CandidateForm,
    PolicyForm,
    PromiseForm,
    RuleForm,
)
from bridle.reward.base import Forget
from bridle.slates import MAX_PLACES
from bridle.validation import SPREAD

__all__ = [
    "LAST_TIME",
    "STEPS",
    "Answer",
    "ArmQuery",
    "AskFor",
    "AuditForm",
    "AuditQuery",
    "Calibrate",
    "CalibrationAnswer",
    "Change",
    "CheckJudgement",
    "CheckQuery",
    "Decide",
    "DecideMany",
    "Drop",
    "Evaluate",
    "EventQuery",
    "Example",
    "Grant",
    "Grouped",
    "Groups",
    "How",
    "Item",
    "Judge",
    "Life",
    "NewAgent",
    "Page",
    "PriceWanted",
    "PromiseDrop",
    "PromiseQuery",
    "PromiseWanted",
    "QuestionQuery",
    "Reward",
    "Said",
    "SlateReward",
    "Speaks",
    "StartAnew",
    "Teach",
    "TeachMany",
    "Wait",
    "WhatIf",
    "Word",
    "digest_of",
]


class Said(Form):
    """Who says so, and why; both optional."""

    by: Words | None = None
    note: Note | None = None


class Page(Form):
    """Which part of a list."""

    after: Annotated[int, Field(ge=0, le=2**53)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100


# -- agents ------------------------------------------------------------------------------------


class NewAgent(Form):
    """A new agent, by name."""

    name: Annotated[str, Field(pattern=AGENT_NAME, description="a-z, 0-9 and ._-, at most 100")]
    agent: AgentForm


class Wait(Form):
    """How long decisions wait for a reward, in seconds (null: for ever), and what they learn."""

    seconds: Annotated[float, Field(gt=0, le=3.2e9)] | None
    default_reward: float | None = None


class Grouped(Form):
    """An arm, and its group (null: none)."""

    arm: ArmName
    group: Words | None


class Groups(Form):
    """Arms into groups; what was taught is learned anew."""

    arms: Annotated[tuple[Grouped, ...], Field(min_length=1)]
    limits: Words | None = None


class ArmQuery(Page):
    """Which part of the arms; with `status`, only those that are so."""

    status: Literal["standing", "visiting", "retired"] | None = None


ArmNames: TypeAlias = Annotated[tuple[ArmName, ...], Field(min_length=1, max_length=MAX_ARMS)]


class Change(Said):
    """One change: exactly one of the fields, beside who and why."""

    sigma: Annotated[float, Field(ge=0, le=1)] | None = None
    policy: Annotated[
        PolicyForm | None, Field(description="Choose by another; what was learned stays")
    ] = None
    boldness: Annotated[
        float | None,
        Field(ge=0, le=SPREAD.high, description="The same policy, its draws so many times as wide"),
    ] = None
    forget: Annotated[
        Forget | None,
        Field(description="How old rewards fade: `never`, `auto`, or a half-life in rewards"),
    ] = None
    wait: Wait | None = None
    add_arms: (
        Annotated[tuple[ArmForm | ArmName, ...], Field(min_length=1, max_length=MAX_ARMS)] | None
    ) = None
    change_arms: Annotated[
        tuple[ArmForm, ...] | None,
        Field(
            min_length=1,
            max_length=MAX_ARMS,
            description="Other labels or features from now on; what is left out stays. What an arm "
            "earned before counts with the old features",
        ),
    ] = None
    retire_arms: Annotated[
        ArmNames | None,
        Field(description="Play them no more, even where a request names them"),
    ] = None
    restore_arms: Annotated[
        ArmNames | None,
        Field(description="Play arms again that were retired, or that requests alone brought"),
    ] = None
    groups: Groups | None = None
    declare: RuleForm | None = None
    withdraw: Words | None = None

    @model_validator(mode="after")
    def _one(self) -> Change:
        given = self.model_fields_set - {"by", "note"}
        if len(given) != 1:
            raise ValueError(f"exactly one change at a time, not {sorted(given)}")
        if getattr(self, next(iter(given))) is None:
            raise ValueError("the change may not be null")
        return self


# -- which of several teachers says so ---------------------------------------------------------


class Speaks(Form):
    """Which of several teachers says so."""

    teacher: Annotated[
        Words | None,
        Field(
            description="Which of the agent's declared teachers says so. It must be said where "
            "there are several; where there are none it is left out."
        ),
    ] = None


class Word(Speaks):
    """The same, with an id for what they say."""

    NAMES: ClassVar[frozenset[str]] = frozenset({"id"})

    id: Annotated[
        ClientId | None,
        Field(
            description="Your own name for what one of several teachers says. The same id and body "
            "get the same answer, another body is refused with 409. Left out, a teacher says one "
            "thing of one question or play."
        ),
    ] = None


# -- teaching ----------------------------------------------------------------------------------


LAST_TIME = 253_402_300_799  # the last second of the year 9999: later ones have no name


class Example(Form):
    """What a teacher says of an arm in a context."""

    context: ContextForm
    arm: ArmName
    allowed: bool
    item: ItemName | None = None
    id: ClientId | None = None


class Life(Form):
    """Of what an example speaks, and for how long."""

    scope: Annotated[
        Literal["all", "item"],
        Field(description="Of all that looks like it, or of this very item alone"),
    ] = "all"
    until: Annotated[
        float | None,
        Field(ge=0, le=LAST_TIME, description="When it ends, in seconds since 1970; null: never"),
    ] = None


class Teach(Said, Life, Speaks, Example):
    """One example. It replaces what the same teacher said before of the same item and unit."""


class TeachMany(Said, Life, Speaks):
    """Up to 1,000 examples: all are taken, or none. `scope`, `until` and `teacher` are of all."""

    examples: Annotated[tuple[Example, ...], Field(min_length=1, max_length=MAX_BATCH)]


class QuestionQuery(Page):
    """Which part of the list; with `teacher`, only what this one of several is to be asked."""

    teacher: Words | None = None


class AskFor(Form):
    """Ask for the next question: about this context, out of this pool, or out of what was met.

    `item` is of the context; in a pool contexts name their items themselves, by an `id` feature.
    """

    context: ContextForm | None = None
    item: ItemName | None = None
    pool: Annotated[tuple[ContextForm, ...], Field(min_length=1, max_length=MAX_BATCH)] | None = (
        None
    )
    id: ClientId | None = None


class Answer(Said, Life, Word):
    """The teacher's answer; or `skip`, if nobody will answer."""

    answer: Literal["allowed", "denied", "skip"]


# -- decisions ---------------------------------------------------------------------------------


class Item(Form):
    """A context to decide in. `played`: what another system played there, in shadow mode."""

    context: ContextForm
    item: ItemName | None = None
    id: ClientId | None = None
    played: ArmName | None = None


class How(Form):
    """How to decide: among which arms, how many, and whether to say the probability."""

    among: Annotated[
        tuple[CandidateForm | ArmName, ...] | None,
        Field(
            max_length=MAX_ARMS,
            description="What can be had now: ids; and, where arms have features, arms that the "
            "agent does not have, with theirs (at most 10,000, and not in a batch)",
        ),
    ] = None
    propensity: bool = False
    k: Annotated[
        int | None,
        Field(
            ge=1,
            le=MAX_PLACES,
            description="Play so many arms at once, best first: a slate. Not in a batch, and not "
            "in shadow mode",
        ),
    ] = None


class Decide(How, Item):
    """One decision. With `ask` false it never asks, whatever it may."""

    ask: bool = True


class DecideMany(How):
    """Up to 1,000 decisions; a batch never asks."""

    decisions: Annotated[tuple[Item, ...], Field(min_length=1, max_length=MAX_BATCH)]


class Reward(Form):
    """What a decision earned, in the agent's own range."""

    value: float


class SlateReward(Form):
    """What a slate earned, under the id of its first decision: one of the two.

    `slate`: all of it together, the sum of what its items earned; each is credited with an equal
    share. `items`: each by its place; null for one of which nothing is known.
    """

    slate: float | None = None
    items: (
        Annotated[tuple[float | None, ...], Field(min_length=1, max_length=MAX_PLACES)] | None
    ) = None

    @model_validator(mode="after")
    def _one(self) -> SlateReward:
        if (self.slate is None) == (self.items is None):
            raise ValueError("give either slate or items")
        return self


# -- checks ------------------------------------------------------------------------------------


class CheckQuery(Page):
    """Which part; with `teacher`, of the oldest 1,000 those that this one of several judges."""

    teacher: Words | None = None


class CheckJudgement(Said, Word):
    """A teacher's judgement of a play, by the limits as they stood then."""

    allowed: bool


# -- the promise that acts, fresh starts -------------------------------------------------------


STEPS = 20_000  # over which a price is said, if nothing else is wished
Steps = Annotated[
    int, Field(ge=1, le=1_000_000_000, description="Decisions over which the price is said")
]


class PromiseWanted(Said, PromiseForm):
    """A promise: at most alpha denied plays a decision, by audits with probability q or more."""


class PriceWanted(PromiseForm):
    """A promise whose price is asked for; nothing is changed."""

    steps: Steps = STEPS


class PromiseQuery(Form):
    """Over how many decisions the price is said."""

    steps: Steps = STEPS


class PromiseDrop(Said):
    """Who drops it, and why."""

    # It stands in the address, where there is less room than in a body.
    note: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None


class StartAnew(Said):
    """Begin anew what was learned of the limits; denials stay.

    `why` may be left out where it is proposed: see GET.
    """

    why: Annotated[str, Field(min_length=1, max_length=10_000)] | None = None


# -- certificates, audits, evaluation ----------------------------------------------------------


MAX_CALIBRATION = 100_000


class Calibrate(Said):
    """Certify the limits as they are: on these contexts, drawn as future ones will be, and fresh.

    Then answer its questions one by one; after the last one the agent keeps to the certificate.
    """

    contexts: Annotated[tuple[ContextForm, ...], Field(min_length=1, max_length=MAX_CALIBRATION)]
    alpha: Annotated[float, Field(gt=0, lt=1)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    lambda_min: Annotated[float, Field(ge=0, lt=1)] = 0.5
    on: Annotated[str, Field(max_length=1_000, description="Where they came from")] = ""


class Judge(Said):
    """A teacher's judgement, allowed or not."""

    allowed: bool


class CalibrationAnswer(Judge):
    """A judgement of the calibration question at hand."""

    answers: Annotated[int, Field(ge=0, le=2**53)] | None = Field(
        None,
        description="How many there were when it was asked: if another came since, this is refused",
    )


class Drop(Said):
    """Who drops it, and why; and which of the two is meant, lest the other goes."""

    what: Literal["calibration", "certificate"] | None = None
    # It stands in the address, where there is less room than in a body.
    note: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None


class AuditForm(Form):
    """An audit meter: a coin chooses which decisions are judged. Fixed for life."""

    q: Annotated[float, Field(ge=1e-6, le=1)]
    delta: Annotated[float, Field(gt=0, lt=1)]
    windows: Annotated[tuple[WindowForm, ...], Field(max_length=16)] = ()


class AuditQuery(Page):
    """For which level of violations a decision; and which of the pending audits."""

    level: Annotated[float, Field(ge=0, le=1)] = 0.01


class Evaluate(Form):
    """What other positions of the dial would have earned; with a budget, which is recommended."""

    sigmas: Annotated[
        tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1, max_length=101)
    ] = (0.0, 0.25, 0.5, 0.75, 1.0)
    level: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    budget: Annotated[float, Field(ge=0, le=1)] | None = None


# -- looking -----------------------------------------------------------------------------------


class EventQuery(Form):
    """Which part of the log."""

    after: Annotated[int, Field(ge=0, le=2**53)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100


class WhatIf(Form):
    """A context by hand, and the name of what it is about."""

    context: ContextForm
    item: ItemName | None = None
    arms: Annotated[
        tuple[ArmName, ...] | None,
        Field(
            min_length=1,
            max_length=MAX_PAGE,
            description="Of these arms alone. Left out: of all; of the first 1,000 if arms have "
            "features",
        ),
    ] = None


# -- tokens ------------------------------------------------------------------------------------


class Grant(Form):
    """Who may do what, and until when."""

    role: Role
    agents: Annotated[
        tuple[Annotated[str, Field(pattern=AGENT_NAME)], ...] | None,
        Field(min_length=1, max_length=1_000, description="Whom it is for; left out: all agents"),
    ] = None
    expires: Annotated[
        float | None, Field(gt=0, le=LAST_TIME, description="In seconds since 1970")
    ] = None
    note: Annotated[
        str,
        Field(
            max_length=200,
            pattern=r"^[^\x00-\x1f\x7f]*$",
            description="Whose it is. It may be logged",
        ),
    ] = ""


# Fields that forms have not always had, and what they are if left out: see `digest_of`.
_LATER = {"item": None, "scope": "all", "until": None, "teacher": None, "k": None}


def digest_of(form: BaseModel | None, *more: Any) -> bytes:
    """Return the digest of a request, to tell whether another is the same."""
    # What came later is left out where it is not given, so that a request from before there was
    # such a thing has the digest that it had.
    unsaid = {name for name, default in _LATER.items() if getattr(form, name, 0) == default}
    unsaid |= getattr(form, "NAMES", frozenset())
    text = "" if form is None else form.model_dump_json(exclude=unsaid)
    return hashlib.sha256("\0".join([text, *map(str, more)]).encode()).digest()
