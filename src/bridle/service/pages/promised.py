"""The promise that acts: its price before it is switched on, where it stands, and its end."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from pydantic import ValidationError

from bridle.errors import BridleError
from bridle.kernels.purse import RECHECK
from bridle.purse import RESERVE
from bridle.service import acting
from bridle.service.acting import PriceShown, PriceWanted, PromiseDrop, PromiseKept, PromiseWanted
from bridle.service.pages.fields import Fields
from bridle.service.pages.page import Html, Page, Redirect, Shown, Visit
from bridle.service.pages.rendering import url
from bridle.service.pages.saying import said_of
from bridle.service.pages.standing import one_in, plays
from bridle.service.pages.words import number_words
from bridle.service.problems import Problem, problem_of

__all__ = ["PAGES", "Reserve", "price_words", "reserve_of"]

PRICE = "POST /v1/agents/{agent}/promise/price"
KEEP = "PUT /v1/agents/{agent}/promise"
DROP = "DELETE /v1/agents/{agent}/promise"


class Terms(NamedTuple):
    """A promise as a person writes it."""

    level: str = "1"  # in 100
    every: str = "50"  # 1 play in so many is checked
    lag: str = "0"
    steps: str = "20000"

    @classmethod
    def of(cls, form: Fields) -> Terms:
        """Read what was typed."""
        return cls(*(form.get(name)[:40] for name in cls._fields))

    def read(self) -> dict[str, Any]:
        """Give it as the API takes it; refuse what is no promise."""
        form = Fields(list(self._asdict().items()))
        return {
            "alpha": form.number("level", low=0.0001, high=100.0) / 100.0,
            "q": 1.0 / form.number("every", low=1.0, high=1e6),
            "lag": form.whole("lag", 0, low=0, high=10**6),
        }


class Reserve(NamedTuple):
    """The balance on a rail, in percent of its length, and in words."""

    zero: float
    balance: float
    words: str


async def terms(visit: Visit) -> Shown:
    """Show the form for a promise."""
    return _form(visit, Terms())


async def price(visit: Visit) -> Shown:
    """Say what a promise would give and cost. It is switched on from here, and not before."""
    typed = Terms.of(visit.form)
    try:
        steps = Fields([("steps", typed.steps)]).whole("steps", 20_000, low=1, high=10**9)
        wanted = PriceWanted(**typed.read(), steps=steps)
        shown: PriceShown = await visit.api(acting.price, wanted)
    except (Problem, BridleError, ValidationError) as error:
        return _form(visit, typed, problem_of(error))
    values = {"agent": visit.agent, "typed": typed, "price": shown, "words": price_words(shown)}
    return Html("promise-price.html", values)


async def keep(visit: Visit) -> Shown:
    """Switch a promise on."""
    typed = Terms.of(visit.form)
    try:
        await visit.api(acting.keep, PromiseWanted(**typed.read(), **said_of(visit)))
    except (Problem, BridleError, ValidationError) as error:
        return _form(visit, typed, problem_of(error))
    return Redirect(url("agents", visit.agent, "promises", said="promised"))


async def drop(visit: Visit) -> Shown:
    """Keep no promise any more."""
    said = said_of(visit)
    if said["note"] is None:
        raise Problem("invalid_value", "Say why the promise is dropped.", field="note")
    await visit.api(acting.drop, query=PromiseDrop(**said))
    return Redirect(url("agents", visit.agent, "promises", said="dropped"))


def _form(visit: Visit, typed: Terms, wrong: Problem | None = None) -> Html:
    values = {"agent": visit.agent, "typed": typed, "wrong": wrong}
    return Html("promise-keep.html", values, 200 if wrong is None else wrong.status)


# -- in words --------------------------------------------------------------------------------


def price_words(one: PriceShown) -> list[tuple[str, str]]:
    """Say what a promise gives and costs: what each sentence is about, and the sentence."""
    alpha, q, many = one.alpha, one.q, f"{one.steps:,} decisions"
    first, again = one.bound - alpha * one.steps, min(1.0, RECHECK * q)
    said = [
        (
            "You get",
            f"In {many} at most {_n(one.bound)} plays that are not allowed, on average, whatever "
            f"happens: {_n(100.0 * alpha)} in 100 decisions ({_n(alpha * one.steps)}), and "
            f"{_n(first)} once, at the start.",
        ),
        (
            "You judge",
            f"About {_n(q * one.steps)} to {_n(again * one.steps)} plays in {many}: "
            f"{plays(q)}, and {one_in(again)} of those that a person has allowed "
            "before, since limits can change.",
        ),
    ]
    if one.lag:
        said.append((
            "Late verdicts",
            f"Verdicts may come {one.lag:,} decisions late. For that it may start with "
            f"{_n(one.b)} in reserve, which is part of what is promised at most.",
        ))  # fmt: skip
    if 1.0 / q > RESERVE:
        said.append((
            "If a check finds one",
            f"It becomes careful: it checks more often, up to {plays(1.0 / RESERVE)}, and less and "
            f"less again over about {_n(1.0 / q / alpha)} decisions.",
        ))  # fmt: skip
    longest = math.ceil(round(min(1.0 / q, RESERVE) / alpha, 6))
    said += [
        (
            "If checks find too many",
            "It freezes: it plays only what a person allows at that moment, or nothing, for at "
            f"most {longest:,} decisions at a time. If nobody judges, it freezes, too.",
        ),
        (
            "It holds only if",
            "people judge rightly, by what was allowed when it was played; and nobody who chooses "
            "the cases knows beforehand which plays are checked.",
        ),
    ]
    return said


def reserve_of(one: PromiseKept) -> Reserve:
    """Show the balance: full at the left end of what it began with, frozen below 0."""
    low, high = -RESERVE, max(one.b, one.balance, 1.0)
    per = 100.0 / (high - low)
    words = (
        f"In reserve: {number_words(round(one.balance, 1))}; at the start it was "
        f"{number_words(round(one.b, 1))}. Each decision adds {number_words(one.alpha)}. A play "
        f"found not allowed takes up to {_n(1.0 / one.q)}, as does one that waits to be judged. "
        "Below 0 it is frozen."
    )
    return Reserve(-low * per, min(max(one.balance - low, 0.0) * per, 100.0), words)


def _n(value: float) -> str:
    """Say a number that is a count in the mean: whole where it is large."""
    return number_words(round(value) if value >= 20.0 else value)


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/promises/keep", handle=terms, like=(PRICE,)),
    Page(method="POST", path="/agents/{agent}/promises/price", handle=price, like=(PRICE,)),
    Page(method="POST", path="/agents/{agent}/promises/keep", handle=keep, like=(KEEP,)),
    Page(method="POST", path="/agents/{agent}/promises/unkeep", handle=drop, like=(DROP,)),
)
