"""A new agent: by a form, whose features a csv of contexts can propose."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_json

from bridle.errors import BridleError
from bridle.service import agents as api
from bridle.service.agents import NAME, NewAgent
from bridle.service.pages.csvs import read_lines
from bridle.service.pages.featurelines import Proposal, proposed, read_arms, read_features
from bridle.service.pages.fields import Upload
from bridle.service.pages.page import Html, Page, Redirect, Shown, Visit
from bridle.service.pages.rendering import url
from bridle.service.pages.teacherlines import read_teachers
from bridle.service.problems import Problem, problem_of

__all__ = ["PAGES"]

# What stands in the form at first; beside the file these are all of its fields.
AT_FIRST = {
    "name": "",
    "arms": "",
    "features": "",
    "limits": "auto",
    "policy": "mask",
    "sigma": "",
    "budget": "0",
    "on_doubt": "play_safe",
    "teachers": "",
    "reward_low": "0",
    "reward_high": "1",
    "wait": "",
    "unit": "hours",
    "default_reward": "",
}
UNITS = {"minutes": 60.0, "hours": 3_600.0, "days": 86_400.0}
LIMITS = (
    ("auto", "Find out: rules or degrees, whichever fits what is taught"),
    ("rules", "Rules: some words or flags are not allowed"),
    ("logistic", "Degrees: each feature makes it more or less likely"),
    ("found", "Rules, and find out which choices share them"),
    ("linear", "Linear, as in the paper"),
)
POLICIES = (
    ("mask", "Only what it is sure is allowed", "The dial weighs how sure it is against reward."),
    (
        "dial",
        "By a dial between limits and reward",
        "As in the paper: nothing is quite ruled out, and it never asks on its own.",
    ),
)


async def form(visit: Visit) -> Shown:
    """Show the empty form."""
    return _shown(dict(AT_FIRST))


async def make(visit: Visit) -> Shown:
    """Make the agent; or propose its features; or show the form again with what is wrong."""
    typed = {name: visit.form.get(name, default) for name, default in AT_FIRST.items()}
    file = visit.form.files.get("csv")
    try:
        if visit.form.get("do") == "propose" or (file is not None and not typed["features"]):
            return await _propose(visit, typed, file)
        made = _new_agent(typed)
        await visit.api(api.make, body=made)
    except (Problem, BridleError, ValidationError) as error:
        problem = problem_of(error)
        if problem.status >= 500:
            raise
        return _shown(typed, problem=problem)
    return Redirect(url("agents", made.name, "teach", said="made"))


def _shown(
    typed: dict[str, str], *, problem: Problem | None = None, proposal: Proposal | None = None
) -> Html:
    values = {
        "typed": typed, "problem": problem, "proposal": proposal, "units": tuple(UNITS),
        "limits": LIMITS, "policies": POLICIES,
    }  # fmt: skip
    return Html("new-agent.html", values, 200 if problem is None else problem.status)


async def _propose(visit: Visit, typed: dict[str, str], file: Upload | None) -> Html:
    """Put into the form what the columns of a csv suggest."""
    if file is None:
        raise Problem("invalid_value", "Choose a csv of contexts first.", field="csv")
    text = file.text
    found = await visit.service.aside(lambda: proposed(read_lines(text)))
    if not found.features:
        why = " ".join(["No column of the csv can be a feature.", *found.notes])
        raise Problem("invalid_value", why, field="csv")
    typed["features"] = "\n".join(found.features)
    if not typed["arms"]:
        typed["arms"] = "\n".join(found.arms)
    return _shown(typed, proposal=found)


def _new_agent(typed: dict[str, str]) -> NewAgent:
    """Read the form; what is wrong with it is said in words of the form."""
    if not re.fullmatch(NAME, typed["name"]):
        raise Problem(
            "invalid_value",
            "The name must have 1 to 100 of a to z, 0 to 9 and . _ -, and begin with a letter or "
            "a digit.",
            field="name",
        )
    agent: dict[str, Any] = {
        "arms": read_arms(typed["arms"]),
        "features": read_features(typed["features"]),
        "limits": typed["limits"],
        "budget": _whole("How many questions", typed["budget"] or "0"),
        "on_doubt": typed["on_doubt"],
        "teachers": read_teachers(typed["teachers"]),
        "reward_range": [
            _number("The lowest reward", typed["reward_low"] or "0"),
            _number("The highest reward", typed["reward_high"] or "1"),
        ],
        **_choosing(typed),
    }
    if typed["policy"] == "dial" and agent["budget"]:
        raise Problem(
            "invalid_value",
            "With the dial between limits and reward it never asks: set the questions to 0, or let "
            "it do only what it is sure is allowed.",
            field="budget",
        )
    if typed["wait"]:
        agent["wait"] = _number("How long to wait", typed["wait"]) * UNITS.get(typed["unit"], 1.0)
    if typed["default_reward"]:
        reward = _number("What a decision learns that waited in vain", typed["default_reward"])
        agent["default_reward"] = reward
    # As JSON: the same forms, read as strictly, as over HTTP.
    return NewAgent.model_validate_json(to_json({"name": typed["name"], "agent": agent}))


def _choosing(typed: dict[str, str]) -> dict[str, Any]:
    sigma = _number("The dial", typed["sigma"]) if typed["sigma"] else None
    if sigma is not None and not 0.0 <= sigma <= 1.0:
        raise Problem("invalid_value", "The dial goes from 0 to 1.", field="sigma")
    if typed["policy"] == "dial":
        return {"sigma": 0.25 if sigma is None else sigma}
    return {"policy": {"kind": "LearnedMask", "sigma": 1.0 if sigma is None else sigma}}


def _number(what: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) <= 1e15:
        raise Problem("invalid_value", f"{what}: {text[:100]!r} is no number. Write 3.5.")
    return value


def _whole(what: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise Problem("invalid_value", f"{what}: {text[:100]!r} is no whole number from 0 on.")
    return int(text)


PAGES: tuple[Page, ...] = (
    Page(method="GET", path="/agents/new", handle=form, like=("POST /v1/agents",)),
    Page(method="POST", path="/agents/new", handle=make, like=("POST /v1/agents",)),
)
