"""Declared rules: what is never allowed, whatever was taught. To list, declare and withdraw."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

from pydantic import ValidationError

from bridle.errors import BridleError
from bridle.features import Category, Feature, Flag, Labels, Number, Schema
from bridle.rules import describe
from bridle.service import agents
from bridle.service.agentforms import RuleForm, WhenForm
from bridle.service.agents import Change
from bridle.service.pages.armnames import arm_named, groups_of
from bridle.service.pages.fields import Fields
from bridle.service.pages.page import Html, Page, Redirect, Shown, Visit
from bridle.service.pages.rendering import url
from bridle.service.pages.saying import said_of
from bridle.service.problems import Problem, problem_of
from bridle.settings import Arm
from bridle.store.writing import Desk

__all__ = ["PAGES"]

CHANGE = "PATCH /v1/agents/{agent}"
PER_PAGE = 50
CONDITIONS = 3  # in the form; the API takes more
MOST_BOXES = 30  # groups to tick; more are typed
MOST_FEATURES = 100  # that are told with their values
MOST_VALUES = 30
RELATIONS = {"is": "is, or has", "at_least": "is at least", "at_most": "is at most"}
TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


class Told(NamedTuple):
    """A rule in words."""

    id: str
    words: str
    note: str


class Seen(NamedTuple):
    """What the page shows of an agent."""

    rules: list[Told]
    total: int
    features: list[tuple[str, str]]  # and their values, in words
    names: list[str]  # of all features
    groups: list[str]


async def look(visit: Visit) -> Shown:
    """Show the rules, and the form to declare one."""
    return await _page(visit)


async def declare(visit: Visit) -> Shown:
    """Declare a rule."""
    form = visit.form
    try:
        said = said_of(visit)
        # What a person typed is read here and not by the writer: it may well be wrong.
        schema, arms = await visit.service.do(visit.agent, _known)
        await visit.api(agents.change, Change(declare=_rule(schema, arms, form), **said))
    except (Problem, BridleError, ValidationError) as error:
        problem = problem_of(error)
        if problem.status == 404:
            raise
        return await _page(visit, typed=form, wrong=problem)
    return Redirect(url("agents", visit.agent, "settings", "rules", said="declared"))


async def withdraw(visit: Visit) -> Shown:
    """Withdraw a rule."""
    change = Change(withdraw=visit.form.need("rule"), **said_of(visit))
    await visit.api(agents.change, change)
    return Redirect(url("agents", visit.agent, "settings", "rules", said="withdrawn"))


async def _page(visit: Visit, typed: Fields | None = None, wrong: Problem | None = None) -> Html:
    after = visit.query.whole("after", 0, low=0, high=2**53)
    seen = await visit.service.do(visit.agent, lambda desk: _seen(desk, after))
    if typed is None:
        typed = Fields([])
    values: dict[str, Any] = {
        "agent": visit.agent, "seen": seen, "after": after, "per_page": PER_PAGE, "typed": typed,
        "wrong": wrong, "conditions": range(CONDITIONS), "relations": RELATIONS,
        "boxes": len(seen.groups) <= MOST_BOXES,
    }  # fmt: skip
    return Html("agent-settings-rules.html", values, 200 if wrong is None else wrong.status)


def _seen(desk: Desk, after: int) -> Seen:
    know = desk.kept.know
    features = desk.kept.agent.schema.features
    rules = [
        Told(rule.id, describe(rule), rule.note)
        for rule in islice(know.rules.values(), after, after + PER_PAGE)
    ]
    told = [(feature.name, _values(feature)) for feature in features[:MOST_FEATURES]]
    names = [feature.name for feature in features]
    return Seen(rules, len(know.rules), told, names, groups_of(know.arms))


def _values(feature: Feature) -> str:
    if isinstance(feature, Flag):
        return "yes or no"
    if isinstance(feature, Number):
        ends = [f"{e:g}" for e in (feature.low, feature.high) if e is not None]
        return f"a number{' from ' + ' to '.join(ends) if len(ends) == 2 else ''}"
    assert isinstance(feature, Category | Labels)
    some = ", ".join(feature.values[:MOST_VALUES])
    more = len(feature.values) - MOST_VALUES
    return f"{some} and {more} more" if more > 0 else some


# -- from the form ---------------------------------------------------------------------------


def _known(desk: Desk) -> tuple[Schema, tuple[Arm, ...]]:
    return desk.kept.agent.schema, tuple(desk.kept.know.arms)


def _rule(schema: Schema, known_arms: Sequence[Arm], form: Fields) -> RuleForm:
    conditions = [_condition(schema, form, n) for n in range(CONDITIONS)]
    when = tuple(one for one in conditions if one is not None)
    arms = tuple(arm_named(known_arms, line).id for line in _lines(form.get("arms")))
    groups = tuple(dict.fromkeys([*form.all("group"), *_lines(form.get("groups"))]))
    everything = form.get("all") == "yes"
    if everything == bool(arms or groups):
        raise Problem(
            "invalid_value", "Say what is denied: some groups, some arms, or everything.",
            remedy="Tick everything only if no group and no arm is named.", field="arms",
        )  # fmt: skip
    return RuleForm(id=form.need("id"), when=when, arms=arms, groups=groups, note=form.get("note"))


def _condition(schema: Schema, form: Fields, n: int) -> WhenForm | None:
    name, value = form.get(f"feature{n}"), form.get(f"value{n}")
    relation = form.get(f"relation{n}", "is")
    if not name:
        if value:
            raise Problem(
                "invalid_value", f"Condition {n + 1} has a value, and no feature.", field="feature"
            )
        return None
    feature, _ = schema.place(name, "the form")
    if relation not in RELATIONS or (relation != "is") != isinstance(feature, Number):
        right = "at least or at most" if isinstance(feature, Number) else "is, or has"
        raise Problem(
            "invalid_value", f"Of {name!r:.100} it can be said: {right}.", field="relation"
        )
    if isinstance(feature, Number):
        number = form.number(f"value{n}", low=-1e300, high=1e300)
        if relation == "at_least":
            return WhenForm(feature=name, at_least=number)
        return WhenForm(feature=name, at_most=number)
    if isinstance(feature, Flag):
        if value.lower() not in TRUTHS:
            raise Problem("invalid_value", f"{name!r:.100} is yes or no.", field="value")
        return WhenForm(feature=name, equals=TRUTHS[value.lower()])
    if not value:
        raise Problem("invalid_value", f"{name!r:.100} has no value.", field="value")
    if isinstance(feature, Labels):
        return WhenForm(feature=name, has=value)
    return WhenForm(feature=name, equals=value)


def _lines(text: str) -> Sequence[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/settings/rules", handle=look, like=(CHANGE,)),
    Page(method="POST", path="/agents/{agent}/settings/rules", handle=declare, like=(CHANGE,)),
    Page(
        method="POST", path="/agents/{agent}/settings/rules/withdraw", handle=withdraw,
        like=(CHANGE,),
    ),
)  # fmt: skip
