"""The settings of one agent: its declared rules, its arms and groups, its wait, and log checks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple, assert_never

from pydantic import ValidationError

from bridle.agent.config import WAIT, Arm, ArmId
from bridle.api.models import ArmForm, RuleForm, WhenForm
from bridle.api.requests import Change, Grouped, Groups, Wait
from bridle.errors import BridleError, UnknownId
from bridle.limits.declared import describe
from bridle.schema import Category, Encoded, Flag, Id, Labels, Number, Schema, known
from bridle.server.handlers import agents
from bridle.server.problems import Problem, problem_of
from bridle.store.maintenance import Verified, head_from_text, replay, verify
from bridle.store.writer import UnitOfWork
from bridle.web.forms import Fields
from bridle.web.jobs import jobs_of
from bridle.web.page import Html, Page, Redirect, Shown, Visit, said_of
from bridle.web.rendering import url

__all__ = ["PAGES", "arm_named", "arm_of_text", "groups_of"]


MOST_LOOKED_AT = 5_000  # names, for one that was meant


def arm_named(arms: Sequence[Arm], text: str) -> Arm:
    """Return the arm of that id, or the only one of that label, or raise a `Problem`."""
    labelled = []
    for arm in arms:
        if str(arm.id) == text:
            return arm
        if arm.label == text:
            labelled.append(arm)
    if len(labelled) == 1:
        return labelled[0]
    if labelled:
        some = ", ".join(repr(arm.id) for arm in labelled[:5])
        raise Problem(
            "invalid_value",
            f"{len(labelled)} arms are called {text!r:.100}.",
            field="arm",
            remedy=f"Write the id: {some}.",
        )
    names = [str(arm.id) for arm in arms[:MOST_LOOKED_AT]]
    raise Problem(
        "invalid_value", f"There is no arm {text!r:.100}.", field="arm", remedy=known(text, names)
    )


def arm_of_text(arms: Sequence[Arm], text: str) -> ArmId:
    """Return the id of a new arm: a number where the others have numbers."""
    numbered = all(isinstance(arm.id, int) for arm in arms)
    return int(text) if numbered and text.isascii() and text.isdigit() and len(text) < 16 else text


def groups_of(arms: Sequence[Arm]) -> list[str]:
    """Return the names of all groups, each once, in the order of the arms."""
    return list(dict.fromkeys(arm.group for arm in arms if arm.group is not None))


# --- Declared rules: what is never allowed, whatever was taught. To list, declare and withdraw


CHANGE = "PATCH /v1/agents/{agent}"
PER_PAGE = 50
CONDITIONS = 3  # in the form; the API takes more
MOST_BOXES = 30  # groups to tick; more are typed
MOST_FEATURES = 100  # that are shown with their values
MOST_VALUES = 30
RELATIONS = {"is": "is, or has", "at_least": "is at least", "at_most": "is at most"}
TRUTHS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


class DescribedRule(NamedTuple):
    """A rule in words."""

    id: str
    words: str
    note: str


class Seen(NamedTuple):
    """What the page shows of an agent."""

    rules: list[DescribedRule]
    total: int
    features: list[tuple[str, str]]  # and their values, in words
    names: list[str]  # of all features that a rule can speak of
    groups: list[str]


async def show_rules(visit: Visit) -> Shown:
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
    seen = await visit.service.do(visit.agent, lambda work: _seen(work, after))
    if typed is None:
        typed = Fields([])
    values: dict[str, Any] = {
        "agent": visit.agent,
        "seen": seen,
        "after": after,
        "per_page": PER_PAGE,
        "typed": typed,
        "wrong": wrong,
        "conditions": range(CONDITIONS),
        "relations": RELATIONS,
        "boxes": len(seen.groups) <= MOST_BOXES,
    }
    return Html("agent-settings-rules.html", values, 200 if wrong is None else wrong.status)


def _seen(work: UnitOfWork, after: int) -> Seen:
    state = work.aggregate.state
    # Without the Id: a rule cannot speak of it.
    features = [feature for feature, _ in work.aggregate.agent.schema.encoded]
    rules = [
        DescribedRule(rule.id, describe(rule), rule.note)
        for rule in islice(state.rules.values(), after, after + PER_PAGE)
    ]
    told = [(feature.name, _values(feature)) for feature in features[:MOST_FEATURES]]
    names = [feature.name for feature in features]
    return Seen(rules, len(state.rules), told, names, groups_of(state.arms))


def _values(feature: Encoded) -> str:
    if isinstance(feature, Flag):
        return "yes or no"
    if isinstance(feature, Number):
        ends = [f"{e:g}" for e in (feature.low, feature.high) if e is not None]
        return f"a number{' from ' + ' to '.join(ends) if len(ends) == 2 else ''}"
    if isinstance(feature, Category | Labels):
        some = ", ".join(feature.values[:MOST_VALUES])
        more = len(feature.values) - MOST_VALUES
        return f"{some} and {more} more" if more > 0 else some
    assert_never(feature)


# -- from the form ---------------------------------------------------------------------------


def _known(work: UnitOfWork) -> tuple[Schema, tuple[Arm, ...]]:
    return work.aggregate.agent.schema, tuple(work.aggregate.state.arms)


def _rule(schema: Schema, known_arms: Sequence[Arm], form: Fields) -> RuleForm:
    conditions = [_condition(schema, form, n) for n in range(CONDITIONS)]
    when = tuple(one for one in conditions if one is not None)
    arms = tuple(arm_named(known_arms, line).id for line in _lines(form.get("arms")))
    groups = tuple(dict.fromkeys([*form.all("group"), *_lines(form.get("groups"))]))
    everything = form.get("all") == "yes"
    if everything == bool(arms or groups):
        raise Problem(
            "invalid_value",
            "Say what is denied: some groups, some arms, or everything.",
            remedy="Tick everything only if no group and no arm is named.",
            field="arms",
        )
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
    if isinstance(feature, Category | Id):  # of an Id the rule says what to do instead
        return WhenForm(feature=name, equals=value)
    assert_never(feature)


def _lines(text: str) -> Sequence[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


# --- Settings of one agent: how long decisions wait, its arms, and whether its log is what it was
#
# For admins. What is changed is recorded with who and why. The dial and the declared rules have
# pages of their own.

UNITS = {"seconds": 1.0, "minutes": 60.0, "hours": 3_600.0, "days": 86_400.0}
SHORTEST, LONGEST = 1e-3, WAIT.high  # that a person can type, in any unit
MOST_PROBLEMS = 50  # of a log that are shown
MOST_GROUPS = 200  # that are offered to choose from


class Facts(NamedTuple):
    """What the page shows of an agent."""

    version: int
    arms: int
    groups: list[str]
    decisions: int
    pending: int
    examples: int
    rules: int
    budget_left: int
    asks: bool
    limits: str
    wait: float | None
    default_reward: float | None
    reward_range: tuple[float, float]


class Checked(NamedTuple):
    """A log that was verified, and against which head."""

    found: Verified
    expect: str | None


async def show_settings(visit: Visit) -> Shown:
    """Show the settings of an agent."""
    facts = await visit.service.do(visit.agent, _facts)
    head = await visit.service.aside(lambda: visit.service.store.head(visit.agent))
    jobs = jobs_of(visit.service)
    values = {
        "agent": visit.agent,
        "facts": facts,
        "head": head,
        "wait": _wait_words(facts.wait),
        "units": list(UNITS),
        "most_problems": MOST_PROBLEMS,
        "verified": jobs.find(_key("verify", visit)),
        "replayed": jobs.find(_key("replay", visit)),
    }
    return Html("agent-settings.html", values)


def _facts(work: UnitOfWork) -> Facts:
    state = work.aggregate.state
    return Facts(
        version=work.aggregate.version,
        arms=len(state.arms),
        groups=groups_of(state.arms)[:MOST_GROUPS],
        decisions=state.decisions,
        pending=len(state.pending),
        examples=len(state.examples),
        rules=len(state.rules),
        budget_left=state.questions.left,
        asks=state.settings.budget > 0,
        limits=state.limits_state.kind,
        wait=state.wait,
        default_reward=state.default_reward,
        reward_range=state.settings.reward_range,
    )


def _wait_words(wait: float | None) -> tuple[str, str]:
    """Return how long, and in which unit: the largest in which it is a whole number."""
    if wait is None:
        return "", "hours"
    unit = next((u for u in reversed(UNITS) if wait % UNITS[u] == 0.0), "seconds")
    return f"{wait / UNITS[unit]:.10g}", unit


# -- changes ---------------------------------------------------------------------------------


async def set_wait(visit: Visit) -> Shown:
    """Change how long decisions wait for a reward."""
    form = visit.form
    if form.get("how") == "ever":
        wait = Wait(seconds=None)
    else:
        unit = form.get("unit")
        if unit not in UNITS:
            raise Problem("invalid_value", "It is not said in which unit.", field="unit")
        seconds = form.number("long", low=SHORTEST, high=LONGEST) * UNITS[unit]
        reward = None
        if form.get("default_reward"):
            reward = form.number("default_reward", low=-1e300, high=1e300)
        wait = Wait(seconds=seconds, default_reward=reward)
    return await _changed(visit, "wait", wait=wait)


async def add_arm(visit: Visit) -> Shown:
    """Add an arm."""
    form = visit.form
    text = form.need("id")
    id = arm_of_text(await _arms(visit), text)
    arm = ArmForm(id=id, label=form.optional("label"), group=form.optional("group"))
    return await _changed(visit, "arms", add_arms=(arm,))


async def regroup(visit: Visit) -> Shown:
    """Put an arm into a group, or take it out of one."""
    name, group = visit.form.need("arm"), visit.form.optional("group")
    id = arm_named(await _arms(visit), name).id
    return await _changed(visit, "arms", groups=Groups(arms=(Grouped(arm=id, group=group),)))


async def _arms(visit: Visit) -> tuple[Arm, ...]:
    return await visit.service.do(visit.agent, lambda work: tuple(work.aggregate.state.arms))


async def _changed(visit: Visit, place: str, **change: Any) -> Redirect:
    await visit.api(agents.change, Change(**change, **said_of(visit)))
    return Redirect(f"{url('agents', visit.agent, 'settings', said='changed')}#{place}")


# -- is the log what it was? -----------------------------------------------------------------


async def start_verify(visit: Visit) -> Shown:
    """Compute every hash of the log again; against a head that was kept, if one is given."""
    expect = visit.form.optional("expect")
    if expect is not None:
        head_from_text(expect)  # refused now, and not by the job
    store, agent = visit.service.store, visit.agent
    await _check_known(visit)
    jobs_of(visit.service).start(
        _key("verify", visit),
        "Verifying the log",
        lambda progress: Checked(verify(store, agent, expect=expect, progress=progress), expect),
    )
    return _to_checks(visit)


async def start_replay(visit: Visit) -> Shown:
    """Make every choice of the log again."""
    store, agent = visit.service.store, visit.agent
    await _check_known(visit)
    jobs_of(visit.service).start(
        _key("replay", visit),
        "Replaying every choice",
        lambda progress: replay(store, agent, progress=progress),
    )
    return _to_checks(visit)


def _to_checks(visit: Visit) -> Redirect:
    return Redirect(f"{url('agents', visit.agent, 'settings')}#checks")


async def _check_known(visit: Visit) -> None:
    head = await visit.service.aside(lambda: visit.service.store.head(visit.agent))
    if head is None:
        raise UnknownId("agent", visit.agent, "There is none of that name.")


def _key(what: str, visit: Visit) -> str:
    return f"{what} {visit.agent}"


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/{agent}/settings/rules", handle=show_rules, like=(CHANGE,)),
    Page(method="POST", path="/agents/{agent}/settings/rules", handle=declare, like=(CHANGE,)),
    Page(
        method="POST",
        path="/agents/{agent}/settings/rules/withdraw",
        handle=withdraw,
        like=(CHANGE,),
    ),
    Page(method="GET", path="/agents/{agent}/settings", handle=show_settings, like=(CHANGE,)),
    Page(method="POST", path="/agents/{agent}/settings/wait", handle=set_wait, like=(CHANGE,)),
    Page(method="POST", path="/agents/{agent}/settings/arms", handle=add_arm, like=(CHANGE,)),
    Page(method="POST", path="/agents/{agent}/settings/groups", handle=regroup, like=(CHANGE,)),
    Page(
        method="POST", path="/agents/{agent}/settings/verify", handle=start_verify, like=(CHANGE,)
    ),
    Page(
        method="POST", path="/agents/{agent}/settings/replay", handle=start_replay, like=(CHANGE,)
    ),
)
