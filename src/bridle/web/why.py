"""An account of a decision in words: for who must judge it, and reads no formulas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bridle.agent.config import Arm, ArmId
from bridle.agent.events import Audited, Erasure, Taught
from bridle.agent.queries import DENIED_HERE, DENIED_ITEM, NOT_CERTIFIED, SURELY_DENIED, UNSURE
from bridle.api.replies import ArmBelieved, BelievedShown
from bridle.api.requests import WhatIf
from bridle.errors import InvalidValue, NotPossible, UnknownId
from bridle.schema import Number, Schema
from bridle.server.handlers.explanations import believed, explain
from bridle.server.problems import Problem
from bridle.store.aggregate import Aggregate, event_of
from bridle.store.idempotency import id_of
from bridle.store.log import Entry, Store
from bridle.store.writer import UnitOfWork
from bridle.web.forms import MOST_FIELDS, PREFIX, context_from, fields_of, is_given
from bridle.web.log import (
    Earned,
    Made,
    Naming,
    arms_like,
    by_id,
    earned,
    entries_at,
    reward_words,
    verdicts,
)
from bridle.web.page import Html, Page, Shown, Visit
from bridle.web.rendering import (
    arm_words,
    item_from,
    number_words,
    percent,
    schema_context_words,
    url,
)
from bridle.web.standing import one_in

__all__ = [
    "PAGES",
    "Given",
    "chance_words",
    "given_by",
    "guess_words",
    "is_untaught",
    "outcome_words",
    "policy_words",
    "reason_words",
    "sentence",
    "status_of",
]


# A smaller part of what features gave, or of a chance, says nothing to anyone.
LEAST = 1e-3
# What is likelier, and still not surely allowed, was hardly ever said to be allowed.
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
}


def chance_words(p: float | None) -> str:
    """Give a chance in percent, as fine as anyone wants to know it.

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
    """Give what stands in the place of a chance that only looks certain; nothing where it tells.

    Examples
    --------
    >>> guess_words(1.0, True, 1.0), guess_words(1.0, False, 1.0), guess_words(1.0, False, 0.5)
    ('', 'nobody has said', 'by guess')
    """
    if p <= GUESSED or safe:
        return ""
    return "nobody has said" if novelty >= 1.0 else "by guess"


def is_untaught(why_not: str | None, novelty: float) -> bool:
    """Whether limits judge an arm of which nothing was taught: then what they say is no finding."""
    return novelty >= 1.0 and why_not in (UNSURE, SURELY_DENIED)


def policy_words(policy: Json) -> str:
    """Say how the agent chooses."""
    return _POLICIES.get(str(policy["kind"]), str(policy["kind"]))


def reason_words(why_not: str | None, novelty: float = 0.0) -> str:
    """Say why something may not be played.

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
    """Give a class of the style sheet for how an arm stood: yes, no or warn."""
    if arm["why_not"] is None:
        return "yes"
    doubtful = arm["why_not"] in (UNSURE, NOT_CERTIFIED)
    return "warn" if doubtful or is_untaught(arm["why_not"], arm["novelty"]) else "no"


def sentence(account: Json, name: Name, on_empty: str) -> str:
    """Say in a sentence or two what came out, and why."""
    considered = _considered(account)
    if account["kind"] == "abstention":
        return _held_back(considered)
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
    """Say what came out, and not why: for what cannot be made again."""
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


def _held_back(considered: Sequence[Json]) -> str:
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
    """Count why arms may not be played."""
    counts = Counter(reason_words(one["why_not"], one["novelty"]) for one in arms)
    if len(arms) == 1:
        return next(iter(counts))
    shown = counts.most_common(4)
    parts = [f"{count:,} {reason}" for reason, count in shown]
    rest = sum(counts.values()) - sum(count for _, count in shown)
    return "; ".join([*parts, *([f"{rest:,} for other reasons"] if rest else [])])


# -- what features gave ----------------------------------------------------------------------


class Given(NamedTuple):
    """What each feature gave to one part: lines of words and numbers, the largest first.

    `left_out` are those that gave less, or next to nothing.
    """

    part: str
    title: str
    hint: str
    total: str
    base: str | None
    most: float
    shares: list[tuple[str, float]]
    left_out: int


def given_by(
    contributions: Json,
    schema: Schema,
    context: Mapping[str, object],
    reward_range: tuple[float, float],
    longest: int,
) -> Given:
    """Give what each feature gave, in words. Rewards are in the agent's own range."""
    unit = contributions["unit"]
    low, scale = 0.0, 1.0
    if unit == "reward":
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
    return Given(
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
    """Give a column, or two together, as a person would say it."""
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
    for feature in schema.features:
        if feature.name == column:
            if isinstance(feature, Number):
                unit = f" {feature.unit}" if feature.unit else ""
                return f"{column} {number_words(context[column])}{unit}"
            return column
    name, _, value = column.partition("=")
    return f"{name}: {value}"


# --- Why: the account of one decision, for who must judge it ------------------------------


A_PAGE = 20
MOST_SHARES = 20
LOOKED_AT = 20_000  # entries, for what was erased


class Since(NamedTuple):
    """What came of a decision later."""

    reward: Earned | None
    judged: Audited | None
    played: ArmId | None  # by another system, in its place
    made: Made | None  # the play itself, with its coin
    verdict: Taught | None  # of the check, if there was one


class Now(NamedTuple):
    """What is known of the agent now, and the account then was not told."""

    on_empty: str
    unit: int | None  # of the arm that it is about
    waits: bool  # for a teacher's answer
    awaited: bool  # whether the reward may still come
    like: frozenset[ArmId] | None  # the arms that were searched for


async def why(visit: Visit) -> Shown:
    """Explain a decision."""
    service, agent, id = visit.service, visit.agent, visit.path["id"]
    naming = await Naming.of(service, agent)
    try:
        account = (await visit.api(explain, id=id))["account"]
    except UnknownId:
        return _gone(visit, "unknown", 404)
    except NotPossible:
        return _gone(visit, "erased", 410)
    find = visit.query.get("find")[:200]
    now = await service.do(agent, lambda work: _now(work, account, id, find))
    since = await service.aside(lambda: _since(service.store, agent, id))
    erased = None
    if not account["agrees"]:
        erased = await service.aside(
            lambda: erasure_behind(service.store, agent, account["version"])
        )
    arms = _arms(account, now)
    page = visit.query.whole("page", 1, low=1, high=max(1, -(-len(arms) // A_PAGE)))
    shown = arms[(page - 1) * A_PAGE : page * A_PAGE]
    await naming.learn(
        service, [Made(0, "decision", None, arm=one) for one in _named(account, since, shown)]
    )
    return Html(
        "why.html",
        {
            "agent": agent,
            "id": id,
            "account": account,
            "since": since,
            "now_": now,
            "arm": naming.arm,
            "erased": erased,
            # What does not come out again tells nothing of why it came out then.
            "sentence": sentence(account, naming.arm, now.on_empty)
            if account["agrees"]
            else outcome_words(account, naming.arm),
            "policy": policy_words(account["policy"]),
            "context": schema_context_words(naming.schema, account["context"]),
            "given": [
                given_by(one, naming.schema, account["context"], naming.reward_range, MOST_SHARES)
                for one in account["contributions"]
            ],
            "arms": shown,
            "found": len(arms),
            "page": page,
            "size": A_PAGE,
            "find": find,
            "reason": reason_words,
            "status": status_of,
            "own": _own(naming),
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
    return Html("why-gone.html", values, status)


def _now(work: UnitOfWork, account: dict[str, Any], id: str, find: str) -> Now:
    kept: Aggregate = work.aggregate
    state = kept.state
    k = state.number_of.get(account["about"])
    return Now(
        on_empty=state.settings.on_empty,
        unit=None if k is None else int(state.limits_state.unit_of[k]),
        waits=id_of(id) in state.questions.waiting,
        awaited=id_of(id) in state.pending,
        like=arms_like(kept, find) if find else None,
    )


def _since(store: Store, agent: str, id: str) -> Since:
    reward = earned(store, agent, [Made(0, "decision", id)]).get(id)
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
    return Since(reward, judged if isinstance(judged, Audited) else None, played, made, verdict)


def erasure_behind(store: Store, agent: str, version: int) -> int | None:
    """Give the entry that says that something was erased on which a decision rested.

    0: something was, and the entry is not found; None: nothing was, as far as is looked. A log may
    be long, so only the entries after and before the decision, and the last, are looked at.
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


def _arms(account: dict[str, Any], now: Now) -> list[dict[str, Any]]:
    """Give the arms that are shown: the chosen one first, then by how near they came."""
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


def _named(account: dict[str, Any], since: Since, shown: list[dict[str, Any]]) -> set[ArmId]:
    """Give all arms that are named on the page."""
    named = {one["arm"] for one in (*shown, *account["sigmas"], *account["examples"]["examples"])}
    chosen = {account["arm"], account["about"], account["wanted"], since.played}
    return (named | chosen) - {None}


def _dials(account: dict[str, Any]) -> list[dict[str, Any]]:
    """Give what each position of the dial would have done, and what the one there was did."""
    number = {one["arm"]: n for n, one in enumerate(account["arms"])}
    found = []
    for one in account["sigmas"]:
        chance = one["abstain"]
        if one["kind"] != "abstention":
            odds = one["ask" if one["kind"] == "question" else "play"]
            # A question that has a price has no chance of its own.
            chance = odds[number[one["arm"]]] if any(odds) else None
        found.append({**one, "chance": chance, "own": one["sigma"] == account["sigma"]})
    if found and not any(one["own"] for one in found):
        own = {name: account[name] for name in ("sigma", "kind", "arm", "abstain")}
        found.append({**own, "chance": _chance(account), "own": True})
    return sorted(found, key=lambda one: float(one["sigma"]))


def _chance(account: dict[str, Any]) -> float | None:
    """Give the chance that it came out so, beforehand."""
    if account["propensity"] is not None or account["settled"]:
        return account["propensity"]  # type: ignore[no-any-return]
    if account["kind"] == "abstention":
        return account["abstain"]  # type: ignore[no-any-return]
    which = "ask" if account["kind"] == "question" else "play"
    chosen = next(one for one in account["arms"] if one["arm"] == account["arm"])
    return chosen[which]  # type: ignore[no-any-return]


def coin_words(made: Made | None) -> str:
    """Say how likely it was that a play is checked; nothing where none is.

    Examples
    --------
    >>> coin_words(Made(1, "decision", "7", coin=0.025)), coin_words(Made(1, "decision", "7"))
    ('1 in 40 such plays is checked.', '')
    """
    if made is None or made.coin is None:
        return ""
    said = one_in(made.coin)
    if said == "every":
        return "Every such play is checked."
    return f"{said} such plays {'is' if said.startswith('1 in') else 'are'} checked."


def _own(naming: Naming) -> Callable[[float], str]:
    """Give a reward in [0, 1] units in the agent's own range, in words."""
    low, high = naming.reward_range
    return lambda value: number_words(low + (high - low) * value)


# --- What if: a situation by hand, which arms would be allowed in it, and why -------------


ARMS = 50
FAR = 2**31
SHOWS = {"all": "All arms", "allowed": "Allowed", "doubt": "In doubt", "denied": "Not allowed"}
WHY = {
    DENIED_HERE: "A teacher said no in this very situation.",
    DENIED_ITEM: "A teacher said no to it for this item.",
    NOT_CERTIFIED: "The certificate does not cover it.",
    UNSURE: "What was taught does not make it sure.",
    SURELY_DENIED: "What was taught rules it out.",
}
# Above this what is believed is mostly a guess of how examples carry over.
MOSTLY_NEW = 0.5


class _Agent(NamedTuple):
    """What the page needs of the agent."""

    schema: Schema
    arms: Sequence[Arm]
    unit_of: list[int]
    taught: bool
    bound: bool  # whether it plays only what is surely allowed
    items: bool  # whether items have names


class Line(NamedTuple):
    """An arm, for the template; `mark` is "yes", "no" or "unsure"."""

    name: str
    unit: int
    p: float
    guess: str  # in the place of a chance that only looks certain
    mark: str
    why: str
    unseen: str


async def what_if(visit: Visit) -> Shown:
    """Show the form and, once it is filled in, what would be allowed."""
    query = visit.query
    show = query.get("show") if query.get("show") in SHOWS else "all"
    after = query.whole("after", 0, low=0, high=FAR)
    find = query.get("find")[:200]
    agent = await visit.service.do(visit.agent, _looked_up)
    given = is_given(query)
    item = query.get("item").strip()[:200]
    values: dict[str, Any] = {
        "agent": visit.agent,
        "fields": fields_of(agent.schema, query if given else None),
        "left_out": max(len(agent.schema.features) - MOST_FIELDS, 0),
        "taught": agent.taught,
        "bound": agent.bound,
        "show": show,
        "shows": SHOWS,
        "find": find,
        "item": item,
        "items": agent.items,
        "found": None,
        "wrong": None,
    }
    if not given:
        return Html("whatif.html", values)
    try:
        context = context_from(agent.schema, query)
        form = WhatIf(context=context, item=item_from(item))  # type: ignore[arg-type]
        answer: BelievedShown = await visit.api(believed, body=form)
    except (Problem, InvalidValue) as problem:
        values["wrong"] = problem
        return Html("whatif.html", values, 422)
    encoded = agent.schema.encode(context)
    pairs = schema_context_words(agent.schema, agent.schema.decode(encoded))
    lines = _lines(agent, answer.arms)
    counts = {mark: sum(line.mark == mark for line in lines) for mark in ("yes", "unsure", "no")}
    wanted = [line for line in lines if _wanted(line, show, find)]
    values |= {
        "found": wanted[after : after + ARMS],
        "total": len(wanted),
        "counts": counts,
        "of": len(lines),
        "after": after,
        "per": ARMS,
        "pairs": pairs[:MOST_FIELDS],
        "query": _carried(visit, show, find) | ({"item": item} if item else {}),
    }
    return Html("whatif.html", values)


def _looked_up(work: UnitOfWork) -> _Agent:
    state = work.aggregate.state
    return _Agent(
        state.settings.features,
        state.arms,
        state.limits_state.unit_of.tolist(),
        bool(state.examples or state.rules),
        state.policy.needs_limits,
        not state.settings.legacy,
    )


def _lines(agent: _Agent, arms: Sequence[ArmBelieved]) -> list[Line]:
    """Give the arms, those that are allowed first and then by how likely that is."""
    # An arm that came in between the two looks has no name yet.
    each = zip(arms, agent.arms, agent.unit_of, strict=False)
    found = [
        Line(
            arm_words(arm),
            unit,
            one.p,
            guess_words(one.p, one.safe, one.novelty),
            _mark(one),
            _why(one),
            _unseen(one),
        )
        for one, arm, unit in each
    ]
    return sorted(found, key=lambda line: (line.mark != "yes", -line.p))


def _mark(one: ArmBelieved) -> str:
    if one.playable:
        return "yes"
    untaught = is_untaught(one.why_not, one.novelty)
    return "unsure" if one.possible or untaught else "no"


def _why(one: ArmBelieved) -> str:
    if is_untaught(one.why_not, one.novelty):
        return "Nothing was taught of it yet."
    if one.why_not is not None:
        plain = one.why_not[:1].upper() + one.why_not[1:] + "."
        return WHY.get(one.why_not, plain)
    if one.novelty > MOSTLY_NEW:
        return "It seems sure, though little like this was taught."
    return "What was taught makes it sure."


def _unseen(one: ArmBelieved) -> str:
    return ", ".join(name.replace("=", " ", 1) for name in one.unseen[:8])


def _wanted(line: Line, show: str, find: str) -> bool:
    if find and find.casefold() not in line.name.casefold():
        return False
    return show == "all" or line.mark == {"allowed": "yes", "doubt": "unsure", "denied": "no"}[show]


def _carried(visit: Visit, show: str, find: str) -> dict[str, Any]:
    """Give what links to other parts of the list carry along."""
    query: dict[str, Any] = {}
    for name, value in visit.query:
        if name.startswith(PREFIX):
            query.setdefault(name, []).append(value)
    return query | {"show": show, "find": find}


PAGES: tuple[Page, ...] = (
    Page(
        method="GET",
        path="/agents/{agent}/decisions/{id}",
        handle=why,
        like=("GET /v1/agents/{agent}/decisions/{id}",),
    ),
    Page(
        method="GET",
        path="/agents/{agent}/limits/what-if",
        handle=what_if,
        like=("POST /v1/agents/{agent}/believed",),
    ),
)
