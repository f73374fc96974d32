"""What each verb sends, and how its answer is read. Both clients are made from this.

A call says of itself what may be done when nobody knows whether it arrived: "read" changes nothing;
"named" has an id or an address of its own, so the service does it once however often it comes;
"once" has none, and is sent again only if it surely did not arrive or was refused.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

from bridle.client import answers as a
from bridle.errors import InvalidValue

__all__ = ["Sent", "new_id"]

T = TypeVar("T")
Again: TypeAlias = Literal["read", "named", "once"]
Scope: TypeAlias = Literal["all", "item"]
Id: TypeAlias = int | str
Context: TypeAlias = Mapping[str, object] | Sequence[float]
Body: TypeAlias = dict[str, object]


@dataclass(frozen=True)
class Sent(Generic[T]):
    """One call: what is sent, whether it may be sent again, and how the answer is read."""

    method: str
    path: str
    again: Again
    read: Callable[[Any], T]
    body: bytes | None = None


def new_id() -> str:
    """Give an id that nothing else has: a UUID of version 7, so that later ones sort later."""
    at = int(time.time() * 1_000) & (2**48 - 1)
    random = secrets.randbits(74)
    number = at << 80 | 7 << 76 | (random >> 62) << 64 | 2 << 62 | random & (2**62 - 1)
    return str(UUID(int=number))


# -- agents ----------------------------------------------------------------------------------


def create(
    name: str, *, arms: Sequence[object], features: object, **settings: object
) -> Sent[a.AgentShown]:
    """Make an agent, with every setting of `Agent` in the API's form.

    Arms, rules and teachers may be `Arm`, `Rule` and `Teacher`, features a `Schema`. The name is
    its id: if nobody knows whether it was made, `agent(name)` does.
    """
    agent = {"arms": arms, "features": features, **settings}
    return _sent(a.AgentShown, "POST", "agents", again="once", body={"name": name, "agent": agent})


def agents(*, after: int = 0, limit: int = 100) -> Sent[tuple[a.AgentLine, ...]]:
    """List agents, by name."""
    return _within(a.AgentLine, "agents", "GET", "agents", query={"after": after, "limit": limit})


def agent(name: str) -> Sent[a.AgentShown]:
    """Look at an agent."""
    return _sent(a.AgentShown, "GET", "agents", name)


def change(
    agent: str,
    *,
    sigma: float | None = None,
    wait: Mapping[str, float | None] | None = None,
    add_arms: Sequence[object] | None = None,
    groups: Mapping[str, object] | None = None,
    declare: object = None,
    withdraw: str | None = None,
    by: str | None = None,
    note: str | None = None,
) -> Sent[a.Answered]:
    """Change one thing of an agent: its dial, wait, arms, groups or rules."""
    body = _given(
        sigma=sigma,
        wait=wait,
        add_arms=add_arms,
        groups=groups,
        declare=declare,
        withdraw=withdraw,
        by=by,
        note=note,
    )
    return _sent(a.Answered, "PATCH", "agents", agent, again="once", body=body)


# -- teaching --------------------------------------------------------------------------------


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
) -> Sent[a.TaughtShown]:
    """Teach one example. `item`: the name of what the context is about.

    It replaces what the same teacher said before of the same item and unit. `scope`: of "all" that
    looks like it, or of this very "item" alone. `until`: when it ends, in seconds since 1970.
    `teacher`: which of several says so, where some are declared.
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
    return _sent(a.TaughtShown, "POST", "agents", agent, "examples", again="named", body=body)


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
) -> Sent[a.TaughtShown]:
    """Teach up to 1,000 examples: all are taken, or none.

    `scope`, `until` and `teacher`, which of several says so, are of all.
    """
    rows = _rows("teach_many", contexts, arms=arms, allowed=allowed, items=items, ids=ids)
    body = _given(examples=rows, by=by, note=note, teacher=teacher, **_life(scope, until))
    return _sent(a.TaughtShown, "POST", "agents", agent, "examples", again="named", body=body)


def retract(agent: str, example: Id) -> Sent[a.Answered]:
    """Take an example back."""
    return _sent(a.Answered, "DELETE", "agents", agent, "examples", example, again="named")


def examples(agent: str, *, after: int = 0, limit: int = 100) -> Sent[a.ExampleList]:
    """List the examples that stand."""
    query = {"after": after, "limit": limit}
    return _sent(a.ExampleList, "GET", "agents", agent, "examples", query=query)


def ask(
    agent: str,
    context: Context | None = None,
    *,
    pool: Sequence[Context] | None = None,
    item: Id | None = None,
    id: str | None = None,
) -> Sent[a.QuestionShown]:
    """Ask what to teach next: about a context, out of a pool, or out of what was met."""
    body = _given(context=context, pool=pool, item=item, id=id or new_id())
    return _sent(a.QuestionShown, "POST", "agents", agent, "questions", again="named", body=body)


def questions(
    agent: str, *, teacher: str | None = None, after: int = 0, limit: int = 100
) -> Sent[a.QuestionList]:
    """List the questions that wait: the most valuable first.

    With `teacher`, those that this one of several is to be asked.
    """
    query = _given(teacher=teacher, after=after, limit=limit)
    return _sent(a.QuestionList, "GET", "agents", agent, "questions", query=query)


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
) -> Sent[a.AnswerShown]:
    """Answer a question; the decision that waits for it goes on, and comes back in `then`.

    `scope` and `until` are as in `teach`. `teacher`: which of several says so, and `id` is of what
    they say; then the question stays open until their words settle it: see `judgement`.
    """
    said = "allowed" if allowed else "denied"
    word = id if id is not None or teacher is None else new_id()
    more = _given(teacher=teacher, id=word, **_life(scope, until))
    return _answer(agent, question, said, by, note, **more)


def skip(
    agent: str, question: Id, *, by: str | None = None, note: str | None = None
) -> Sent[a.AnswerShown]:
    """Say that nobody will answer a question; the decision that waits goes on."""
    return _answer(agent, question, "skip", by, note)


def _answer(
    agent: str, question: Id, said: str, by: str | None, note: str | None, **more: object
) -> Sent[a.AnswerShown]:
    parts = ("agents", agent, "questions", question, "answer")
    body = _given(answer=said, by=by, note=note, **more)
    return _sent(a.AnswerShown, "POST", *parts, again="named", body=body)


def teachers(agent: str, *, after: int = 0, limit: int = 100) -> Sent[a.TeachersShown]:
    """Show the declared teachers, how often each errs, and the cases that stand open."""
    query = {"after": after, "limit": limit}
    return _sent(a.TeachersShown, "GET", "agents", agent, "teachers", query=query)


# -- decisions -------------------------------------------------------------------------------


def decide(
    agent: str,
    context: Context,
    *,
    among: Sequence[Id] | None = None,
    propensity: bool = False,
    ask: bool = True,
    played: Id | None = None,
    item: Id | None = None,
    id: str | None = None,
) -> Sent[a.Choice]:
    """Decide in a context. `played`: what another system played there, in shadow mode.

    `item`: the name of what the context is about.
    """
    body = _given(context=context, among=among, played=played, item=item, id=id or new_id())
    body |= {"propensity": propensity, "ask": ask}
    return _sent(a.Choice, "POST", "agents", agent, "decisions", again="named", body=body)


def decide_many(
    agent: str,
    contexts: Sequence[Context],
    *,
    among: Sequence[Id] | None = None,
    propensity: bool = False,
    played: Sequence[Id] | None = None,
    items: Sequence[Id | None] | None = None,
    ids: Sequence[str] | None = None,
) -> Sent[tuple[a.Choice, ...]]:
    """Decide in up to 1,000 contexts at once. A batch never asks."""
    rows = _rows("decide_many", contexts, ids=ids, played=played, items=items)
    body = _given(decisions=rows, among=among, propensity=propensity)
    parts = ("agents", agent, "decisions")
    return _within(a.Choice, "decisions", "POST", *parts, again="named", body=body)


def reward(agent: str, decision: Id, value: float) -> Sent[a.RewardShown]:
    """Say what a decision earned. It has one reward: the same again is the same."""
    parts = ("agents", agent, "decisions", decision, "reward")
    return _sent(a.RewardShown, "POST", *parts, again="named", body={"value": value})


def explain(agent: str, decision: Id) -> Sent[dict[str, Any]]:
    """Say why a decision came out as it did, as plain data."""
    path = _path("agents", agent, "decisions", decision)
    return Sent("GET", path, "read", lambda value: dict(value["account"]))


def believed(
    agent: str, context: Context, *, item: Id | None = None
) -> Sent[tuple[a.ArmBelieved, ...]]:
    """Say what is believed of every arm in a context, or of this very item."""
    parts = ("agents", agent, "believed")
    body = _given(context=context, item=item)
    return _within(a.ArmBelieved, "arms", "POST", *parts, body=body)


def shadow(agent: str) -> Sent[a.ShadowShown]:
    """Compare the agent with the system beside which it runs."""
    return _sent(a.ShadowShown, "GET", "agents", agent, "shadow")


# -- checks, the promise that acts, fresh starts -----------------------------------------------


def checks(
    agent: str, *, teacher: str | None = None, after: int = 0, limit: int = 100
) -> Sent[a.CheckList]:
    """List the plays that a coin chose and that wait to be judged, oldest first.

    With `teacher`, those that this one of several judges.
    """
    query = _given(teacher=teacher, after=after, limit=limit)
    return _sent(a.CheckList, "GET", "agents", agent, "checks", query=query)


def judge_check(
    agent: str,
    decision: Id,
    allowed: bool,
    *,
    by: str | None = None,
    note: str | None = None,
    teacher: str | None = None,
    id: str | None = None,
) -> Sent[a.CheckJudged]:
    """Judge a play that a check's coin chose, by the limits as they stood then. It teaches.

    `teacher`: which of several says so, and `id` is of what they say; then the check waits until
    their words settle it.
    """
    word = id if id is not None or teacher is None else new_id()
    body = _given(allowed=allowed, by=by, note=note, teacher=teacher, id=word)
    parts = ("agents", agent, "checks", decision)
    return _sent(a.CheckJudged, "POST", *parts, again="named", body=body)


def promise(agent: str, *, steps: int = 20_000) -> Sent[a.PromiseShown]:
    """Show the promise that binds; its price is said over so many steps."""
    return _sent(a.PromiseShown, "GET", "agents", agent, "promise", query={"steps": steps})


def price_of_promise(
    agent: str,
    alpha: float,
    q: float,
    *,
    lag: int = 0,
    b: float | None = None,
    steps: int = 20_000,
) -> Sent[a.PriceShown]:
    """Say what a promise would give and cost over so many steps. Nothing is changed."""
    body = _given(alpha=alpha, q=q, lag=lag, b=b, steps=steps)
    return _sent(a.PriceShown, "POST", "agents", agent, "promise", "price", body=body)


def set_promise(
    agent: str,
    alpha: float,
    q: float,
    *,
    lag: int = 0,
    b: float | None = None,
    by: str | None = None,
    note: str | None = None,
) -> Sent[a.PromiseShown]:
    """Have the agent keep a promise; the same one again changes nothing."""
    body = _given(alpha=alpha, q=q, lag=lag, b=b, by=by, note=note)
    return _sent(a.PromiseShown, "PUT", "agents", agent, "promise", again="named", body=body)


def drop_promise(agent: str) -> Sent[a.PromiseShown]:
    """Keep no promise any more."""
    return _sent(a.PromiseShown, "DELETE", "agents", agent, "promise", again="once")


def fresh_start(agent: str) -> Sent[a.FreshStartShown]:
    """Show what speaks for beginning the limits anew, what would be kept and what lost."""
    return _sent(a.FreshStartShown, "GET", "agents", agent, "fresh-start")


def start_anew(
    agent: str, why: str | None = None, *, by: str | None = None, note: str | None = None
) -> Sent[a.FreshStartShown]:
    """Begin the limits anew; denials stay. `why` may be left out where it is proposed."""
    body = _given(why=why, by=by, note=note)
    return _sent(a.FreshStartShown, "POST", "agents", agent, "fresh-start", again="once", body=body)


# -- promises --------------------------------------------------------------------------------


def certificate(agent: str) -> Sent[a.Promise]:
    """Show the certificate, and the calibration under way."""
    return _sent(a.Promise, "GET", "agents", agent, "certificate")


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
) -> Sent[a.Promise]:
    """Begin to certify the limits, on fresh contexts; `calibrate` answers its questions."""
    body = _given(
        contexts=contexts, alpha=alpha, delta=delta, lambda_min=lambda_min, on=on, by=by, note=note
    )
    return _sent(a.Promise, "POST", "agents", agent, "certificate", again="once", body=body)


def calibrate(
    agent: str, allowed: bool, *, by: str | None = None, note: str | None = None
) -> Sent[a.Promise]:
    """Answer the calibration question at hand; give the next, or the certificate.

    It names no question: if nobody knows whether it arrived, look at `certificate` before another.
    """
    parts = ("agents", agent, "certificate", "answer")
    body = _given(allowed=allowed, by=by, note=note)
    return _sent(a.Promise, "POST", *parts, again="once", body=body)


def drop_certificate(agent: str) -> Sent[a.Promise]:
    """Give up the calibration under way; or, if none is, drop the certificate."""
    return _sent(a.Promise, "DELETE", "agents", agent, "certificate", again="once")


def begin_audits(
    agent: str, *, q: float, delta: float, windows: Sequence[Mapping[str, float]] = ()
) -> Sent[a.AuditShown]:
    """Begin audits, for life: a coin of probability `q` chooses decisions to be judged."""
    body: Body = {"q": q, "delta": delta, "windows": windows}
    return _sent(a.AuditShown, "POST", "agents", agent, "audit", again="once", body=body)


def audits(
    agent: str, *, level: float = 0.01, after: int = 0, limit: int = 100
) -> Sent[a.AuditShown]:
    """Show the audit meter for a level, and the audits that wait."""
    query = {"level": level, "after": after, "limit": limit}
    return _sent(a.AuditShown, "GET", "agents", agent, "audit", query=query)


def judge(
    agent: str, decision: Id, allowed: bool, *, by: str | None = None, note: str | None = None
) -> Sent[a.Answered]:
    """Judge a decision that the audit meter's coin chose. It is judged once, and teaches nothing.

    The plays that checks, or a promise, have judged are for `judge_check`.
    """
    parts = ("agents", agent, "audits", decision, "answer")
    body = _given(allowed=allowed, by=by, note=note)
    return _sent(a.Answered, "POST", *parts, again="named", body=body)


def evaluate(
    agent: str,
    *,
    sigmas: Sequence[float] | None = None,
    level: float = 0.95,
    budget: float | None = None,
) -> Sent[a.EvaluationList]:
    """Say what other positions of the dial would have earned, from the log."""
    body = _given(sigmas=sigmas, level=level, budget=budget)
    return _sent(a.EvaluationList, "POST", "agents", agent, "evaluate", body=body)


# -- the log, tokens, operations -------------------------------------------------------------


def events_page(agent: str, *, after: int = 0, limit: int = 1_000) -> Sent[a.EventList]:
    """Read a page of the log."""
    query = {"after": after, "limit": limit}
    return _sent(a.EventList, "GET", "agents", agent, "events", query=query)


def tokens() -> Sent[tuple[a.TokenShown, ...]]:
    """List tokens, without their secrets."""
    return _within(a.TokenShown, "tokens", "GET", "tokens")


def make_token(
    role: Literal["agent", "teacher", "auditor", "admin"],
    *,
    agents: Sequence[str] | None = None,
    expires: float | None = None,
    note: str = "",
) -> Sent[a.TokenMade]:
    """Make a token; the answer is the only place where its secret is ever shown."""
    body = _given(role=role, agents=agents, expires=expires, note=note)
    return _sent(a.TokenMade, "POST", "tokens", again="once", body=body)


def revoke_token(id: str) -> Sent[a.TokenShown]:
    """Revoke a token."""
    return _sent(a.TokenShown, "DELETE", "tokens", id, again="named")


def health() -> Sent[None]:
    """Return if the process lives."""
    return Sent("GET", "/healthz", "read", lambda value: None)


def ready() -> Sent[None]:
    """Return as soon as requests can be served; raise if that is not so by the deadline."""
    return Sent("GET", "/readyz", "read", lambda value: None)


# -- how they are made -----------------------------------------------------------------------


def _sent(
    kind: type[T],
    method: str,
    *parts: Id,
    again: Again = "read",
    body: Body | None = None,
    query: Mapping[str, object] | None = None,
) -> Sent[T]:
    def reader(value: Any) -> T:
        return a.read(kind, value)

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
        return tuple(a.read(kind, one) for one in value[name])

    return Sent(method, _path(*parts, query=query), again, reader, _json(body))


def _path(*parts: Id, query: Mapping[str, object] | None = None) -> str:
    # Dots too: an id may be "..", and must not lead up.
    path = "/".join(quote(str(part), safe="").replace(".", "%2E") for part in parts)
    return f"/v1/{path}?{urlencode(query)}" if query else f"/v1/{path}"


def _life(scope: Scope, until: float | None) -> Body:
    # What is left out has its default, so that older services take it.
    return _given(scope=None if scope == "all" else scope, until=until)


def _given(**values: object) -> Body:
    return {name: value for name, value in values.items() if value is not None}


def _rows(
    owner: str, contexts: Sequence[Context], *, ids: Sequence[str] | None, **columns: Any
) -> list[Body]:
    """Give the items of a batch; each has an id, its own or a new one."""
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
    """Give what JSON can hold: of a `Schema`, an `Arm`, a `Rule`; of numpy's numbers and arrays."""
    for name in ("to_json", "tolist"):
        if hasattr(value, name):
            return getattr(value, name)()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} cannot be sent")
