"""Why: the account of one decision, for who must judge it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from bridle.errors import NotPossible, UnknownId
from bridle.events import Taught
from bridle.notes import Audited, Erasure
from bridle.service.looking import explain
from bridle.service.pages.logsearch import Earned, Made, by_id, earned, entries_at, verdicts
from bridle.service.pages.logwords import Naming, arms_like, reward_words
from bridle.service.pages.page import Html, Page, Shown, Visit
from bridle.service.pages.rendering import url
from bridle.service.pages.standing import one_in
from bridle.service.pages.whywords import (
    LEAST,
    chance_words,
    given_by,
    guess_words,
    outcome_words,
    policy_words,
    reason_words,
    sentence,
    status_of,
)
from bridle.service.pages.words import number_words, schema_context_words
from bridle.settings import ArmId
from bridle.store.kept import Kept, event_of
from bridle.store.naming import id_of
from bridle.store.records import Entry, Store
from bridle.store.writing import Desk

__all__ = ["PAGES"]

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
    now = await service.do(agent, lambda desk: _now(desk, account, id, find))
    since = await service.aside(lambda: _since(service.store, agent, id))
    erased = None
    if not account["agrees"]:
        erased = await service.aside(
            lambda: erasure_behind(service.store, agent, account["version"])
        )
    arms = _arms(account, now)
    page = visit.query.whole("page", 1, low=1, high=max(1, -(-len(arms) // A_PAGE)))
    shown = arms[(page - 1) * A_PAGE : page * A_PAGE]
    await naming.learn(service, [Made(0, "decision", None, arm=one) for one in _named(
        account, since, shown)])  # fmt: skip
    return Html("why.html", {
        "agent": agent, "id": id, "account": account, "since": since, "now_": now,
        "arm": naming.arm, "erased": erased,
        # What does not come out again tells nothing of why it came out then.
        "sentence": sentence(account, naming.arm, now.on_empty) if account["agrees"]
        else outcome_words(account, naming.arm),
        "policy": policy_words(account["policy"]), "context": schema_context_words(
            naming.schema, account["context"]),
        "given": [given_by(one, naming.schema, account["context"], naming.reward_range,
                           MOST_SHARES) for one in account["contributions"]],
        "arms": shown, "found": len(arms), "page": page, "size": A_PAGE, "find": find,
        "reason": reason_words, "status": status_of, "own": _own(naming),
        "chance": _chance(account) if erased is None else account["propensity"],
        "odds": chance_words, "guess": guess_words, "least": LEAST,
        "reward": None if since.reward is None else reward_words(since.reward),
        "coin": coin_words(since.made),
        "here": url("agents", agent, "decisions", id), "dials": _dials(account),
        "before": next(one["limit_mean"] for one in account["arms"]
                       if one["arm"] == account["about"]),
        "spread": float(account["policy"].get("v") or 1.0),
    })  # fmt: skip


def _gone(visit: Visit, how: str, status: int) -> Shown:
    values = {"agent": visit.agent, "id": visit.path["id"], "how": how}
    return Html("why-gone.html", values, status)


def _now(desk: Desk, account: dict[str, Any], id: str, find: str) -> Now:
    kept: Kept = desk.kept
    know = kept.know
    k = know.number_of.get(account["about"])
    return Now(
        on_empty=know.settings.on_empty,
        unit=None if k is None else int(know.believing.unit_of[k]),
        waits=id_of(id) in know.questions.waiting,
        awaited=id_of(id) in know.pending,
        like=arms_like(kept, find) if find else None,
    )


def _since(store: Store, agent: str, id: str) -> Since:
    reward = earned(store, agent, [Made(0, "decision", id)]).get(id)
    places = {
        space: found[id].seq
        for space in ("judgement", "shadow")
        if id in (found := store.find(agent, space, [id]))
    }
    events = {entry.seq: event_of(entry) for entry in entries_at(
        store, agent, sorted(places.values()))}  # fmt: skip
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
            one["arm"] != account["about"], not one["eligible"],
            masked and one["why_not"] is not None, -best,
        )  # fmt: skip

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


PAGES: tuple[Page, ...] = (
    Page(
        method="GET", path="/agents/{agent}/decisions/{id}", handle=why,
        like=("GET /v1/agents/{agent}/decisions/{id}",),
    ),
)  # fmt: skip
