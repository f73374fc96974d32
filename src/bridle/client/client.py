"""The two clients: one list of verbs, one rule for when to try again.

A call says of itself what may be done when nobody knows whether it arrived: "read" changes nothing;
"named" has an id or an address of its own, so the service does it once however often it comes;
"once" has none, and is sent again only if it surely did not arrive or was refused.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
import secrets
import time
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    overload,
)
from urllib.parse import quote, unquote, urlencode, urlsplit
from uuid import UUID

from pydantic import BaseModel

from bridle.api import replies
from bridle.client.errors import NO_ANSWER, UNEXPECTED, ServiceError, refusal_of
from bridle.errors import InvalidValue, NotPossible
from bridle.validation import FloatRange

if TYPE_CHECKING:
    import ssl

    import httpx2

__all__ = ["AsyncClient", "Client", "Sent", "Tries", "Verb", "Verbs", "new_id"]


T = TypeVar("T")
Again: TypeAlias = Literal["read", "named", "once"]
Scope: TypeAlias = Literal["all", "item"]
Id: TypeAlias = int | str
Context: TypeAlias = Mapping[str, object] | Sequence[float]
Body: TypeAlias = dict[str, object]

FIRST_WAIT = 0.05  # seconds, doubled at each try
LONGEST_WAIT = 2.0
# 502 and 504 are what a gateway says when it lost the service; the service itself says 503.
TRIED_AGAIN = frozenset({429, 502, 503, 504})
MAX_ANSWER = 256 * 2**20  # bytes


@dataclass(frozen=True)
class Sent(Generic[T]):
    """One call: what is sent, whether it may be sent again, and how the answer is read."""

    method: str
    path: str
    again: Again
    read: Callable[[Any], T]
    body: bytes | None = None


def new_id() -> str:
    """Return an id that nothing else has: a UUID of version 7, so that later ones sort later."""
    at = int(time.time() * 1_000) & (2**48 - 1)
    random = secrets.randbits(74)
    number = at << 80 | 7 << 76 | (random >> 62) << 64 | 2 << 62 | random & (2**62 - 1)
    return str(UUID(int=number))


class Tries(Generic[T]):
    """The tries of one call, up to a deadline.

    After each try, `answered` or `failed` says how long to wait before the next one, or raises the
    error of the last. `answered` gives None when the call is done; `given` has what came of it.

    Parameters
    ----------
    sent : Sent
        The call.
    deadline : float
        Seconds for all tries together, waits included.
    timeout : float
        Seconds for one try.
    now : callable
        A clock that is never set back.
    chance : callable
        Returns numbers in [0, 1): clients that failed together do not come back together.
    """

    given: T

    def __init__(
        self,
        sent: Sent[T],
        *,
        deadline: float,
        timeout: float,
        now: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._sent = sent
        self._deadline = deadline
        self._timeout = timeout
        self._now = now
        self._chance = chance
        self._end = now() + deadline
        self._count = 0
        self._unknown = False

    @property
    def left(self) -> float:
        """Seconds for the next try. Some are left whenever a try is begun."""
        return max(0.001, min(self._timeout, self._end - self._now()))

    def is_over(self) -> bool:
        """Return whether the deadline has passed."""
        return self._now() >= self._end

    def answered(self, status: int, headers: Mapping[str, str], body: bytes) -> float | None:
        """Read an answer, or return the seconds to wait before the next try."""
        if 200 <= status < 300:
            try:
                value: Any = json.loads(body)
            except ValueError:
                raise refusal_of(status, headers, body) from None
            self.given = self._sent.read(value)
            return None
        error = refusal_of(status, headers, body)
        # Below 500 it was refused; "busy" says that nothing was begun. Else: who knows?
        self._note(arrived=status >= 500 and error.code != "busy")
        return self._wait(error, status in TRIED_AGAIN)

    def failed(self, error: Exception, *, arrived: bool) -> float:
        """Return the seconds to wait after a try without an answer.

        `arrived`: whether the call may have reached the service.
        """
        self._note(arrived)
        words = str(error) or type(error).__name__
        remedy = "Is it running, and is the address right?"
        if self._unknown:
            remedy = "It may have been done all the same: look, or send it again with the same id."
        refusal = ServiceError(None, NO_ANSWER, f"No answer came: {words}.", remedy=remedy)
        refusal.__cause__ = error
        return self._wait(refusal, True)

    def too_large(self) -> ServiceError:
        """Return the error of an answer that is too large to be read."""
        self._note(arrived=True)
        message = f"The answer has over {MAX_ANSWER:,} bytes."
        unknown = self._unknown
        return ServiceError(
            None, UNEXPECTED, message, remedy="Ask for smaller pages.", unknown=unknown
        )

    def _note(self, arrived: bool) -> None:
        if arrived and self._sent.again != "read":
            self._unknown = True

    def _wait(self, error: ServiceError, may_pass: bool) -> float:
        """Return the wait before the next try, or raise."""
        error.unknown = self._unknown
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self._count, 20))
        wait = longest * (0.5 + 0.5 * self._chance())
        if error.retry_after is not None:
            wait += error.retry_after
        self._count += 1
        once = self._sent.again == "once" and self._unknown
        if not may_pass or once or self._now() + wait >= self._end:
            raise error
        return wait


# --- The verbs: what each one sends, and what it answers with --------------------------------


P = ParamSpec("P")

_SECONDS = FloatRange(0.0, 86_400.0, open_low=True)
_CLOSED = "This client is closed. Make another one."


class Verb(Generic[P, T]):
    """A method of both clients, made from the function that describes the call.

    Its parameters are those of the function. `Client` returns the answer, `AsyncClient` something
    to await, and the class itself the description of the call.
    """

    def __init__(self, describe: Callable[P, Sent[T]]) -> None:
        # What a static method wraps, with its signature.
        self._describe: Callable[P, Sent[T]] = getattr(describe, "__func__", describe)
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: Client, owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, client: AsyncClient, owner: object = None
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, owner: object = None) -> Callable[P, Sent[T]]: ...
    def __get__(self, client: Client | AsyncClient | None, owner: object = None) -> Any:
        describe = self._describe
        if client is None:
            return describe

        @functools.wraps(describe)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client._run(describe(*args, **kwargs))

        return call


class Verbs:
    """What a client can do. `Client` returns the answer, `AsyncClient` something to await."""

    # -- agents ------------------------------------------------------------------------------

    @Verb
    @staticmethod
    def create(
        name: str, *, arms: Sequence[object], features: object, **settings: object
    ) -> Sent[replies.AgentShown]:
        """Make an agent, with every setting of `Agent` in the API's form.

        Arms, rules and teachers may be `Arm`, `Rule` and `Teacher`, features and `arm_features` a
        `Schema`, `set_limits` a `SetLimits`. The name is its id: if nobody knows whether it was
        made, `agent(name)` does.
        """
        agent = {"arms": arms, "features": features, **settings}
        return _sent(
            replies.AgentShown, "POST", "agents", again="once", body={"name": name, "agent": agent}
        )

    @Verb
    @staticmethod
    def agents(*, after: int = 0, limit: int = 100) -> Sent[tuple[replies.AgentLine, ...]]:
        """List agents, by name."""
        return _within(
            replies.AgentLine, "agents", "GET", "agents", query={"after": after, "limit": limit}
        )

    @Verb
    @staticmethod
    def agent(name: str) -> Sent[replies.AgentShown]:
        """Return an agent: its settings and what it is doing."""
        return _sent(replies.AgentShown, "GET", "agents", name)

    @Verb
    @staticmethod
    def arms(
        agent: str,
        *,
        status: Literal["standing", "visiting", "retired"] | None = None,
        after: int = 0,
        limit: int = 100,
    ) -> Sent[replies.ArmList]:
        """List arms with their features, in their order; with `status`, only those that are so."""
        query = _given(status=status, after=after, limit=limit)
        return _sent(replies.ArmList, "GET", "agents", agent, "arms", query=query)

    @Verb
    @staticmethod
    def change(
        agent: str,
        *,
        sigma: float | None = None,
        policy: object = None,
        boldness: float | None = None,
        forget: float | str | None = None,
        wait: Mapping[str, float | None] | None = None,
        add_arms: Sequence[object] | None = None,
        change_arms: Sequence[object] | None = None,
        retire_arms: Sequence[Id] | None = None,
        restore_arms: Sequence[Id] | None = None,
        groups: Mapping[str, object] | None = None,
        declare: object = None,
        withdraw: str | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> Sent[replies.Answered]:
        """Change one thing of an agent: its dial, policy, wait, arms, groups or rules.

        `policy` is one of `bridle.policies`, or in the API's form; `boldness` and `forget` are as
        in `Agent.set_boldness` and `set_forget`. `change_arms` gives arms other
        labels or features; `retire_arms` are played no more, until `restore_arms` names them.
        """
        body = _given(
            sigma=sigma,
            policy=policy,
            boldness=boldness,
            forget=forget,
            wait=wait,
            add_arms=add_arms,
            change_arms=change_arms,
            retire_arms=retire_arms,
            restore_arms=restore_arms,
            groups=groups,
            declare=declare,
            withdraw=withdraw,
            by=by,
            note=note,
        )
        return _sent(replies.Answered, "PATCH", "agents", agent, again="once", body=body)

    # -- teaching ----------------------------------------------------------------------------

    @Verb
    @staticmethod
    def teach(
        agent: str,
        context: Context,
        arm: Id,
        allowed: bool,
        *,
        item: Id | None = None,
        id: str | None = None,
        by: str | None = None,
        note: str | None = None,
        scope: Scope = "all",
        until: float | None = None,
        teacher: str | None = None,
    ) -> Sent[replies.TaughtShown]:
        """Teach one example. `item`: the name of what the context is about.

        It replaces what the same teacher said before of the same item and unit. `scope`: of "all"
        that looks like it, or of this very "item" alone. `until`: when it ends, in seconds since
        1970. `teacher`: which of several says so, where some are declared.
        """
        body = _given(
            context=context,
            arm=arm,
            allowed=allowed,
            item=item,
            id=id or new_id(),
            by=by,
            note=note,
            teacher=teacher,
            **_life(scope, until),
        )
        return _sent(
            replies.TaughtShown, "POST", "agents", agent, "examples", again="named", body=body
        )

    @Verb
    @staticmethod
    def teach_many(
        agent: str,
        contexts: Sequence[Context],
        arms: Sequence[Id],
        allowed: Sequence[bool],
        *,
        items: Sequence[Id | None] | None = None,
        ids: Sequence[str] | None = None,
        by: str | None = None,
        note: str | None = None,
        scope: Scope = "all",
        until: float | None = None,
        teacher: str | None = None,
    ) -> Sent[replies.TaughtShown]:
        """Teach up to 1,000 examples: all are taken, or none.

        `scope`, `until` and `teacher`, which of several says so, are of all.
        """
        rows = _rows("teach_many", contexts, arms=arms, allowed=allowed, items=items, ids=ids)
        body = _given(examples=rows, by=by, note=note, teacher=teacher, **_life(scope, until))
        return _sent(
            replies.TaughtShown, "POST", "agents", agent, "examples", again="named", body=body
        )

    @Verb
    @staticmethod
    def retract(agent: str, example: Id) -> Sent[replies.Answered]:
        """Retract an example."""
        return _sent(
            replies.Answered, "DELETE", "agents", agent, "examples", example, again="named"
        )

    @Verb
    @staticmethod
    def examples(agent: str, *, after: int = 0, limit: int = 100) -> Sent[replies.ExampleList]:
        """List the examples that stand."""
        query = {"after": after, "limit": limit}
        return _sent(replies.ExampleList, "GET", "agents", agent, "examples", query=query)

    @Verb
    @staticmethod
    def ask(
        agent: str,
        context: Context | None = None,
        *,
        pool: Sequence[Context] | None = None,
        item: Id | None = None,
        id: str | None = None,
    ) -> Sent[replies.QuestionShown]:
        """Ask what to teach next: about a context, out of a pool, or out of what was met."""
        body = _given(context=context, pool=pool, item=item, id=id or new_id())
        return _sent(
            replies.QuestionShown, "POST", "agents", agent, "questions", again="named", body=body
        )

    @Verb
    @staticmethod
    def questions(
        agent: str, *, teacher: str | None = None, after: int = 0, limit: int = 100
    ) -> Sent[replies.QuestionList]:
        """List the questions that wait: the most valuable first.

        With `teacher`, those that this one of several is to be asked.
        """
        query = _given(teacher=teacher, after=after, limit=limit)
        return _sent(replies.QuestionList, "GET", "agents", agent, "questions", query=query)

    @Verb
    @staticmethod
    def answer(
        agent: str,
        question: Id,
        allowed: bool,
        *,
        by: str | None = None,
        note: str | None = None,
        scope: Scope = "all",
        until: float | None = None,
        teacher: str | None = None,
        id: str | None = None,
    ) -> Sent[replies.AnswerShown]:
        """Answer a question; the decision that waits for it goes on, and comes back in `then`.

        `scope` and `until` are as in `teach`. `teacher`: which of several says so, and `id` is of
        what they say; then the question stays open until their words settle it: see `judgement`.
        """
        said = "allowed" if allowed else "denied"
        word = id if id is not None or teacher is None else new_id()
        more = _given(teacher=teacher, id=word, **_life(scope, until))
        return _answer(agent, question, said, by, note, **more)

    @Verb
    @staticmethod
    def skip(
        agent: str, question: Id, *, by: str | None = None, note: str | None = None
    ) -> Sent[replies.AnswerShown]:
        """Skip a question that nobody will answer; the decision that waits goes on."""
        return _answer(agent, question, "skip", by, note)

    @Verb
    @staticmethod
    def teachers(agent: str, *, after: int = 0, limit: int = 100) -> Sent[replies.TeachersShown]:
        """Show the declared teachers, how often each errs, and the cases that stand open."""
        query = {"after": after, "limit": limit}
        return _sent(replies.TeachersShown, "GET", "agents", agent, "teachers", query=query)

    # -- decisions ---------------------------------------------------------------------------

    @Verb
    @staticmethod
    def decide(
        agent: str,
        context: Context,
        *,
        among: Sequence[object] | None = None,
        propensity: bool = False,
        ask: bool = True,
        played: Id | None = None,
        item: Id | None = None,
        id: str | None = None,
    ) -> Sent[replies.Choice]:
        """Decide in a context. `played`: what another system played there, in shadow mode.

        `among`: ids of arms; and, where arms have features, `Arm` that the agent does not have.
        `item`: the name of what the context is about.
        """
        there = None if among is None else [_candidate(one) for one in among]
        body = _given(context=context, among=there, played=played, item=item, id=id or new_id())
        body |= {"propensity": propensity, "ask": ask}
        return _sent(replies.Choice, "POST", "agents", agent, "decisions", again="named", body=body)

    @Verb
    @staticmethod
    def decide_slate(
        agent: str,
        context: Context,
        k: int,
        *,
        among: Sequence[Id] | None = None,
        propensity: bool = False,
        ask: bool = True,
        item: Id | None = None,
        id: str | None = None,
    ) -> Sent[replies.Slate]:
        """Decide on several arms at once, best first; each place is a decision of its own."""
        body = _given(context=context, k=k, among=among, item=item, id=id or new_id())
        body |= {"propensity": propensity, "ask": ask}
        return _sent(replies.Slate, "POST", "agents", agent, "decisions", again="named", body=body)

    @Verb
    @staticmethod
    def decide_many(
        agent: str,
        contexts: Sequence[Context],
        *,
        among: Sequence[Id] | None = None,
        propensity: bool = False,
        played: Sequence[Id] | None = None,
        items: Sequence[Id | None] | None = None,
        ids: Sequence[str] | None = None,
    ) -> Sent[tuple[replies.Choice, ...]]:
        """Decide in up to 1,000 contexts at once. A batch never asks."""
        rows = _rows("decide_many", contexts, ids=ids, played=played, items=items)
        body = _given(decisions=rows, among=among, propensity=propensity)
        parts = ("agents", agent, "decisions")
        return _within(replies.Choice, "decisions", "POST", *parts, again="named", body=body)

    @Verb
    @staticmethod
    def reward(agent: str, decision: Id, value: float) -> Sent[replies.RewardShown]:
        """Reward a decision. It has one reward: the same again is the same."""
        parts = ("agents", agent, "decisions", decision, "reward")
        return _sent(replies.RewardShown, "POST", *parts, again="named", body={"value": value})

    @Verb
    @staticmethod
    def reward_slate(
        agent: str,
        slate: Id,
        value: float | None = None,
        *,
        items: Sequence[float | None] | None = None,
    ) -> Sent[replies.SlateRewarded]:
        """Reward a slate, by the id of its first decision: give `items`, or one `value` for all.

        Of one value each decision is credited with an equal share. None among the items: nothing
        is known of it. Each decision has one reward: the same again is the same.
        """
        parts = ("agents", agent, "decisions", slate, "reward")
        body = _given(slate=value, items=None if items is None else list(items))
        return _sent(replies.SlateRewarded, "POST", *parts, again="named", body=body)

    @Verb
    @staticmethod
    def explain(agent: str, decision: Id) -> Sent[dict[str, Any]]:
        """Explain why a decision came out as it did, as plain data."""
        path = _path("agents", agent, "decisions", decision)
        return Sent("GET", path, "read", lambda value: dict(value["account"]))

    @Verb
    @staticmethod
    def believed(
        agent: str, context: Context, *, item: Id | None = None, arms: Sequence[Id] | None = None
    ) -> Sent[tuple[replies.ArmBelieved, ...]]:
        """Return what is believed of every arm, or of `arms`, in a context or of this very item.

        Where arms have features, of the first 1,000.
        """
        parts = ("agents", agent, "believed")
        body = _given(context=context, item=item, arms=arms)
        return _within(replies.ArmBelieved, "arms", "POST", *parts, body=body)

    @Verb
    @staticmethod
    def shadow(agent: str) -> Sent[replies.ShadowShown]:
        """Compare the agent with the system beside which it runs."""
        return _sent(replies.ShadowShown, "GET", "agents", agent, "shadow")

    # -- checks, the promise that acts, fresh starts -------------------------------------------

    @Verb
    @staticmethod
    def checks(
        agent: str, *, teacher: str | None = None, after: int = 0, limit: int = 100
    ) -> Sent[replies.CheckList]:
        """List the plays that a coin chose and that wait to be judged, oldest first.

        With `teacher`, those that this one of several judges.
        """
        query = _given(teacher=teacher, after=after, limit=limit)
        return _sent(replies.CheckList, "GET", "agents", agent, "checks", query=query)

    @Verb
    @staticmethod
    def judge_check(
        agent: str,
        decision: Id,
        allowed: bool,
        *,
        by: str | None = None,
        note: str | None = None,
        teacher: str | None = None,
        id: str | None = None,
    ) -> Sent[replies.CheckJudged]:
        """Judge a play that a check's coin chose, by the limits as they stood then. It teaches.

        `teacher`: which of several says so, and `id` is of what they say; then the check waits
        until their words settle it.
        """
        word = id if id is not None or teacher is None else new_id()
        body = _given(allowed=allowed, by=by, note=note, teacher=teacher, id=word)
        parts = ("agents", agent, "checks", decision)
        return _sent(replies.CheckJudged, "POST", *parts, again="named", body=body)

    @Verb
    @staticmethod
    def promise(agent: str, *, steps: int = 20_000) -> Sent[replies.PromiseShown]:
        """Show the promise that binds; its price is said over so many steps."""
        return _sent(
            replies.PromiseShown, "GET", "agents", agent, "promise", query={"steps": steps}
        )

    @Verb
    @staticmethod
    def price_of_promise(
        agent: str,
        alpha: float,
        q: float,
        *,
        lag: int = 0,
        b: float | None = None,
        steps: int = 20_000,
    ) -> Sent[replies.PriceShown]:
        """Return what a promise would give and cost over so many steps. Nothing is changed."""
        body = _given(alpha=alpha, q=q, lag=lag, b=b, steps=steps)
        return _sent(replies.PriceShown, "POST", "agents", agent, "promise", "price", body=body)

    @Verb
    @staticmethod
    def set_promise(
        agent: str,
        alpha: float,
        q: float,
        *,
        lag: int = 0,
        b: float | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> Sent[replies.PromiseShown]:
        """Set the promise that the agent keeps; the same one again changes nothing."""
        body = _given(alpha=alpha, q=q, lag=lag, b=b, by=by, note=note)
        return _sent(
            replies.PromiseShown, "PUT", "agents", agent, "promise", again="named", body=body
        )

    @Verb
    @staticmethod
    def drop_promise(agent: str) -> Sent[replies.PromiseShown]:
        """Keep no promise any more."""
        return _sent(replies.PromiseShown, "DELETE", "agents", agent, "promise", again="once")

    @Verb
    @staticmethod
    def fresh_start(agent: str) -> Sent[replies.FreshStartShown]:
        """Show what speaks for beginning the limits anew, what would be kept and what lost."""
        return _sent(replies.FreshStartShown, "GET", "agents", agent, "fresh-start")

    @Verb
    @staticmethod
    def start_anew(
        agent: str, why: str | None = None, *, by: str | None = None, note: str | None = None
    ) -> Sent[replies.FreshStartShown]:
        """Begin the limits anew; denials stay. `why` may be left out where it is proposed."""
        body = _given(why=why, by=by, note=note)
        return _sent(
            replies.FreshStartShown, "POST", "agents", agent, "fresh-start", again="once", body=body
        )

    # -- promises ----------------------------------------------------------------------------

    @Verb
    @staticmethod
    def certificate(agent: str) -> Sent[replies.Promise]:
        """Show the certificate, and the calibration under way."""
        return _sent(replies.Promise, "GET", "agents", agent, "certificate")

    @Verb
    @staticmethod
    def certify(
        agent: str,
        contexts: Sequence[Context],
        alpha: float,
        delta: float,
        *,
        lambda_min: float = 0.5,
        on: str = "",
        by: str | None = None,
        note: str | None = None,
    ) -> Sent[replies.Promise]:
        """Begin to certify the limits, on fresh contexts; `calibrate` answers its questions."""
        body = _given(
            contexts=contexts,
            alpha=alpha,
            delta=delta,
            lambda_min=lambda_min,
            on=on,
            by=by,
            note=note,
        )
        return _sent(
            replies.Promise, "POST", "agents", agent, "certificate", again="once", body=body
        )

    @Verb
    @staticmethod
    def calibrate(
        agent: str, allowed: bool, *, by: str | None = None, note: str | None = None
    ) -> Sent[replies.Promise]:
        """Answer the calibration question at hand; return the next, or the certificate.

        It names no question: if nobody knows whether it arrived, look at `certificate` before
        another.
        """
        parts = ("agents", agent, "certificate", "answer")
        body = _given(allowed=allowed, by=by, note=note)
        return _sent(replies.Promise, "POST", *parts, again="once", body=body)

    @Verb
    @staticmethod
    def drop_certificate(agent: str) -> Sent[replies.Promise]:
        """Drop the calibration under way; or, if none is, the certificate."""
        return _sent(replies.Promise, "DELETE", "agents", agent, "certificate", again="once")

    @Verb
    @staticmethod
    def begin_audits(
        agent: str, *, q: float, delta: float, windows: Sequence[Mapping[str, float]] = ()
    ) -> Sent[replies.AuditShown]:
        """Begin audits, for life: a coin of probability `q` chooses decisions to be judged."""
        body: Body = {"q": q, "delta": delta, "windows": windows}
        return _sent(replies.AuditShown, "POST", "agents", agent, "audit", again="once", body=body)

    @Verb
    @staticmethod
    def audits(
        agent: str, *, level: float = 0.01, after: int = 0, limit: int = 100
    ) -> Sent[replies.AuditShown]:
        """Show the audit meter for a level, and the audits that wait."""
        query = {"level": level, "after": after, "limit": limit}
        return _sent(replies.AuditShown, "GET", "agents", agent, "audit", query=query)

    @Verb
    @staticmethod
    def judge(
        agent: str, decision: Id, allowed: bool, *, by: str | None = None, note: str | None = None
    ) -> Sent[replies.Answered]:
        """Judge, once, a decision that the audit meter's coin chose. It teaches nothing.

        The plays that checks, or a promise, have judged are for `judge_check`.
        """
        parts = ("agents", agent, "audits", decision, "answer")
        body = _given(allowed=allowed, by=by, note=note)
        return _sent(replies.Answered, "POST", *parts, again="named", body=body)

    @Verb
    @staticmethod
    def evaluate(
        agent: str,
        *,
        sigmas: Sequence[float] | None = None,
        level: float = 0.95,
        budget: float | None = None,
    ) -> Sent[replies.EvaluationList]:
        """Estimate from the log what other positions of the dial would have earned."""
        body = _given(sigmas=sigmas, level=level, budget=budget)
        return _sent(replies.EvaluationList, "POST", "agents", agent, "evaluate", body=body)

    # -- the log, tokens, operations ---------------------------------------------------------

    @Verb
    @staticmethod
    def events_page(agent: str, *, after: int = 0, limit: int = 1_000) -> Sent[replies.EventList]:
        """Read a page of the log."""
        query = {"after": after, "limit": limit}
        return _sent(replies.EventList, "GET", "agents", agent, "events", query=query)

    @Verb
    @staticmethod
    def tokens() -> Sent[tuple[replies.TokenShown, ...]]:
        """List tokens, without their secrets."""
        return _within(replies.TokenShown, "tokens", "GET", "tokens")

    @Verb
    @staticmethod
    def make_token(
        role: Literal["agent", "teacher", "auditor", "admin"],
        *,
        agents: Sequence[str] | None = None,
        expires: float | None = None,
        note: str = "",
    ) -> Sent[replies.TokenMade]:
        """Make a token; the answer is the only place where its secret is ever shown."""
        body = _given(role=role, agents=agents, expires=expires, note=note)
        return _sent(replies.TokenMade, "POST", "tokens", again="once", body=body)

    @Verb
    @staticmethod
    def revoke_token(id: str) -> Sent[replies.TokenShown]:
        """Revoke a token."""
        return _sent(replies.TokenShown, "DELETE", "tokens", id, again="named")

    @Verb
    @staticmethod
    def health() -> Sent[None]:
        """Return if the process lives."""
        return Sent("GET", "/healthz", "read", lambda value: None)

    @Verb
    @staticmethod
    def ready() -> Sent[None]:
        """Return as soon as requests can be served; raise if that is not so by the deadline."""
        return Sent("GET", "/readyz", "read", lambda value: None)

    # -- the connection, which each of the clients has ---------------------------------

    def __init__(self, url: str, token: str | None, timeout: float, deadline: float) -> None:
        self._url = _address(url)
        self._headers = _headers(token)
        owner = type(self).__name__
        self._timeout = _SECONDS.check(timeout, "timeout", owner)
        self._deadline = _SECONDS.check(deadline, "deadline", owner)
        self._httpx2 = _httpx2()
        self._heads: dict[str, str] = {}

    @property
    def heads(self) -> dict[str, str]:
        """The last head, as SEQ:HASH, that was received of each agent's log.

        Kept elsewhere, it shows a log that was cut or rewritten: `bridle verify --expect`.
        """
        return dict(self._heads)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"  # without the token

    def _tries(self, sent: Sent[T]) -> Tries[T]:
        return Tries(sent, deadline=self._deadline, timeout=self._timeout)

    def _parts(self, sent: Sent[Any], left: float) -> dict[str, Any]:
        headers = self._headers
        if sent.body is not None:
            headers = {**headers, "Content-Type": "application/json"}
        return {
            "method": sent.method,
            "url": self._url + sent.path,
            "content": sent.body,
            "headers": headers,
            "timeout": left,
        }

    def _note_head(self, sent: Sent[Any], headers: Mapping[str, str]) -> None:
        head = headers.get("bridle-head")
        parts = sent.path.split("/")
        if head is None or len(parts) < 4:
            return
        agent = unquote(parts[3])
        # Of several calls at once an older answer may be read last.
        if _seq(head) >= _seq(self._heads.get(agent, "0:")):
            self._heads[agent] = head

    def _arrived(self, error: Exception) -> bool:
        """Return whether a call that failed so may have reached the service."""
        httpx2 = self._httpx2
        never = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
        return not isinstance(error, never)


class Client(Verbs):
    """A client that waits for each answer. It may be used by several threads at once.

    Parameters
    ----------
    url : str
        Where the service is: "http://127.0.0.1:8000".
    token : str, optional
        "brd_…". Without one, only `health` and `ready` can be called.
    timeout : float
        Seconds for one try.
    deadline : float
        Seconds for all tries of a call together, waits included.
    verify : bool or SSLContext
        How the service's certificate is checked.
    transport : httpx2.BaseTransport, optional
        Another way to the service: a proxy, a socket, a test.

    Notes
    -----
    A call that was lost is sent again, byte for byte: after a connection that failed, a time that
    ran out, a 429 or a 503. Whatever has an id is then done once. Calls without one (`create`,
    `change`, `drop_promise`, `start_anew`, `certify`, `calibrate`, `drop_certificate`,
    `begin_audits`, `make_token`) are sent again only if they surely did nothing. Errors are
    `ServiceError`; its `unknown` says whether the call may have been done. Redirects are not
    followed, and proxies and passwords of the environment are not used: a token goes to `url` and
    nowhere else.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        deadline: float = 30.0,
        verify: bool | ssl.SSLContext = True,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        super().__init__(url, token, timeout, deadline)
        self._http = self._httpx2.Client(verify=verify, transport=transport, trust_env=False)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def events(
        self, agent: str, *, after: int = 0, limit: int = 1_000
    ) -> Iterator[replies.EventShown]:
        """Iterate over the entries of the log after a version; pages of `limit` are read."""
        next: int | None = after
        while next is not None:
            page = self.events_page(agent, after=next, limit=limit)
            yield from page.events
            next = page.next

    def _run(self, sent: Sent[T]) -> T:
        tries = self._tries(sent)
        while True:
            if self._http.is_closed:
                raise NotPossible(_CLOSED)
            try:
                wait = tries.answered(*self._try(sent, tries))
            except (self._httpx2.TransportError, _TooSlow) as error:
                wait = tries.failed(error, arrived=self._arrived(error))
            if wait is None:
                return tries.given
            time.sleep(wait)

    def _try(self, sent: Sent[Any], tries: Tries[Any]) -> tuple[int, Any, bytes]:
        body = bytearray()
        with self._http.stream(**self._parts(sent, tries.left)) as answer:
            for part in answer.iter_bytes():
                body += part
                if len(body) > MAX_ANSWER:
                    raise tries.too_large()
                if tries.is_over():
                    raise _TooSlow("The answer came too slowly")
        self._note_head(sent, answer.headers)
        return answer.status_code, answer.headers, bytes(body)


class AsyncClient(Verbs):
    """The same for asyncio: every verb is awaited, and many can be under way at once.

    The parameters are those of `Client`; `transport` is an `httpx2.AsyncBaseTransport`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        deadline: float = 30.0,
        verify: bool | ssl.SSLContext = True,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(url, token, timeout, deadline)
        self._http = self._httpx2.AsyncClient(verify=verify, transport=transport, trust_env=False)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def events(
        self, agent: str, *, after: int = 0, limit: int = 1_000
    ) -> AsyncIterator[replies.EventShown]:
        """Iterate over the entries of the log after a version; pages of `limit` are read."""
        next: int | None = after
        while next is not None:
            page = await self.events_page(agent, after=next, limit=limit)
            for entry in page.events:
                yield entry
            next = page.next

    async def _run(self, sent: Sent[T]) -> T:
        tries = self._tries(sent)
        while True:
            if self._http.is_closed:
                raise NotPossible(_CLOSED)
            try:
                async with asyncio.timeout(tries.left):
                    parts = await self._try(sent, tries)
                wait = tries.answered(*parts)
            except (self._httpx2.TransportError, TimeoutError) as error:
                wait = tries.failed(error, arrived=self._arrived(error))
            if wait is None:
                return tries.given
            await asyncio.sleep(wait)

    async def _try(self, sent: Sent[Any], tries: Tries[Any]) -> tuple[int, Any, bytes]:
        body = bytearray()
        async with self._http.stream(**self._parts(sent, tries.left)) as answer:
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > MAX_ANSWER:
                    raise tries.too_large()
        self._note_head(sent, answer.headers)
        return answer.status_code, answer.headers, bytes(body)


class _TooSlow(Exception):
    """The deadline passed while an answer was read."""


def _seq(head: str) -> int:
    text = head.partition(":")[0]
    return int(text) if text.isdecimal() and len(text) < 20 else -1


def _address(url: str) -> str:
    expected = "an address as 'http://127.0.0.1:8000', without a user or a query"
    if not isinstance(url, str):
        raise InvalidValue("url", "Client", expected, url)
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine or "@" in parts.netloc or parts.query or parts.fragment:
        # It may hold a password.
        raise InvalidValue("url", "Client", expected, f"{url.partition('://')[0][:10]}://…")
    return url.rstrip("/")


def _headers(token: str | None) -> dict[str, str]:
    headers = {"Accept": "application/json"}
    if token is None:
        return headers
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        # Not shown: it is nearly a secret.
        raise InvalidValue("token", "Client", "a text as 'brd_…'", "something else")
    return {**headers, "Authorization": f"Bearer {token.strip()}"}


def _httpx2() -> ModuleType:
    try:
        import httpx2
    except ModuleNotFoundError:
        raise NotPossible(
            "A client needs httpx2: pip install '.[client]' in bridle's folder."
        ) from None
    return httpx2


# --- How a call is put together ---


def _answer(
    agent: str, question: Id, said: str, by: str | None, note: str | None, **more: object
) -> Sent[replies.AnswerShown]:
    parts = ("agents", agent, "questions", question, "answer")
    body = _given(answer=said, by=by, note=note, **more)
    return _sent(replies.AnswerShown, "POST", *parts, again="named", body=body)


def _sent(
    kind: type[T],
    method: str,
    *parts: Id,
    again: Again = "read",
    body: Body | None = None,
    query: Mapping[str, object] | None = None,
) -> Sent[T]:
    def reader(value: Any) -> T:
        return read(kind, value)

    return Sent(method, _path(*parts, query=query), again, reader, _json(body))


def _within(
    kind: type[T],
    name: str,
    method: str,
    *parts: Id,
    again: Again = "read",
    body: Body | None = None,
    query: Mapping[str, object] | None = None,
) -> Sent[tuple[T, ...]]:
    """The same for a list that stands under a name."""

    def reader(value: Any) -> tuple[T, ...]:
        return tuple(read(kind, one) for one in _listed(value, name))

    return Sent(method, _path(*parts, query=query), again, reader, _json(body))


def _path(*parts: Id, query: Mapping[str, object] | None = None) -> str:
    # Dots too: an id may be "..", and must not lead up.
    path = "/".join(quote(str(part), safe="").replace(".", "%2E") for part in parts)
    return f"/v1/{path}?{urlencode(query)}" if query else f"/v1/{path}"


def _life(scope: Scope, until: float | None) -> Body:
    # What is left out has its default, so that older services take it.
    return _given(scope=None if scope == "all" else scope, until=until)


def _candidate(value: Any) -> object:
    """Return an arm that a request brings along: a group would say nothing of it."""
    if not hasattr(value, "features"):
        return value
    return {name: one for name, one in _arm(value).items() if name != "group"}


def _arm(value: Any) -> Body:
    body: Body = {"id": value.id, "label": value.label, "group": value.group}
    if value.features is not None:
        features = value.features
        body["features"] = dict(features) if isinstance(features, Mapping) else features
    return body


def _given(**values: object) -> Body:
    return {name: value for name, value in values.items() if value is not None}


def _rows(
    owner: str, contexts: Sequence[Context], *, ids: Sequence[str] | None, **columns: Any
) -> list[Body]:
    """Return the items of a batch; each has an id, its own or a new one."""
    named = {"arms": "arm", "items": "item"}
    rows: list[Body] = [{"context": context} for context in contexts]
    every = {**columns, "ids": [new_id() for _ in rows] if ids is None else ids}
    for name, values in every.items():
        if values is None:
            continue
        if len(values) != len(rows):
            raise InvalidValue(name, owner, f"one for each of {len(rows)} contexts", values)
        key = "id" if name == "ids" else named.get(name, name)
        for row, value in zip(rows, values, strict=True):
            row[key] = value
    return rows


def _json(body: Body | None) -> bytes | None:
    """Write a body. The same bytes are sent at every try."""
    if body is None:
        return None
    try:
        text = json.dumps(body, default=_plain, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        expected = "finite numbers, texts, truth values, lists and mappings of them"
        raise InvalidValue("body", "Client", expected, body, f"({error}.)") from None


def _plain(value: Any) -> object:
    """Return what JSON can hold of a `Schema`, an `Arm`, a `Rule`, a number or array of numpy."""
    if hasattr(value, "features") and hasattr(value, "group"):  # an arm, as it was given
        return _arm(value)
    if hasattr(value, "needs_limits"):
        from bridle.policies import policy_to_json

        # What is left out has its default.
        return {key: one for key, one in policy_to_json(value).items() if one is not None}
    for name in ("to_json", "tolist"):
        if hasattr(value, name):
            return getattr(value, name)()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} cannot be sent")


# --- How an answer is read ----------------------------------------------------------------------
#
# What a newer service says beyond a model is left out, and values are not checked against it, so
# that an older client still reads the rest.


def read(kind: type[T], value: Any) -> T:
    """Return a reply out of what JSON gave, or raise `ServiceError`."""
    try:
        return cast(T, _reader(cast(Any, kind))(value))
    except (LookupError, TypeError, AttributeError) as error:
        message = f"The answer is no {kind.__name__} that this client knows: {error!r}."
        remedy = "Use a client of the service's version."
        raise ServiceError(200, UNEXPECTED, message, remedy=remedy) from None


def _listed(value: Any, name: str) -> list[Any]:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, list):
        message = f"The answer has no list {name!r}."
        remedy = "Use a client of the service's version."
        raise ServiceError(200, UNEXPECTED, message, remedy=remedy)
    return found


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """Return what makes a value of a type out of JSON's."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        make = kind.model_construct
        parts = [
            (name, _reader(cast(Any, field.annotation)), field.is_required())
            for name, field in kind.model_fields.items()
        ]
        # What has a default may be left out, by an older service among others.
        return lambda value: make(
            **{name: part(value[name]) for name, part, needed in parts if needed or name in value}
        )
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
