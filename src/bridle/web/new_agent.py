"""The page that makes an agent, whose features a csv of contexts can propose.

Features are written in words, one a line:

    category age: 12-17, 18-24, 25+
    labels genres: Horror, Drama
    flag late
    number height 100 220 cm

A question mark behind a name says that it may be missing: ``flag late?``. A name that would be
misread stands in quotes.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from pydantic import ValidationError
from pydantic_core import to_json

from bridle import registry
from bridle.agent.config import DEFAULT_SIGMA, SETTINGS
from bridle.agent.teachers import ERROR, MAX_TEACHERS, PRICE
from bridle.api.base import AGENT_NAME
from bridle.api.requests import NewAgent
from bridle.errors import BridleError
from bridle.server.handlers import agents as api
from bridle.server.problems import Problem, problem_of
from bridle.validation import FloatRange
from bridle.web.csvs import TRUTHS, Line, read_lines
from bridle.web.forms import Upload
from bridle.web.page import Html, Page, Redirect, Shown, Visit
from bridle.web.rendering import url

__all__ = [
    "PAGES",
    "Proposal",
    "proposed",
    "read_arms",
    "read_features",
    "read_teachers",
    "written_feature",
]


KINDS = ("category", "labels", "flag", "number")
MOST_WRONGS = 10
MOST_WORDS = 1_000
LONGEST = 200  # of a name or a word, as in the API's forms
# Characters of a line, but for a list of words; of such a list; and how many lines there are.
LONGEST_LINE, LONGEST_LIST = 1_000, 100_000
MOST_LINES = {"features": 2_000, "choices": 20_000}
# So many words at most are a category; beyond the first number, none that hardly ever comes twice.
FEW_WORDS, MANY_WORDS = 12, 50
_NUMBER = r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = rf"\s+(?P<low>{_NUMBER})\s+(?:to\s+)?(?P<high>{_NUMBER})(?:\s+(?P<unit>\S.*))?"
_QUOTED = re.compile(r'"(?P<name>[^"]+)"(?P<rest>.*)')


class _WrongError(Exception):
    """What is wrong with a line."""


def read_features(text: str) -> list[dict[str, Any]]:
    r"""Read features, one a line, into what the API takes; or raise a `Problem`.

    Examples
    --------
    >>> read_features("flag late\nnumber heart rate 40 200 bpm")[1]
    {'kind': 'number', 'name': 'heart rate', 'low': 40.0, 'high': 200.0, 'unit': 'bpm'}
    >>> read_features("category age?: 12-17, 18-24")
    [{'kind': 'category', 'name': 'age', 'values': ['12-17', '18-24'], 'missing': []}]
    """
    return _each_line("features", text, _feature)


def read_arms(text: str) -> list[dict[str, Any]]:
    r"""Read arms, one a line: an id; or an id, a label and a group.

    Examples
    --------
    >>> read_arms("fog, Fog, Horror\nkite")
    [{'id': 'fog', 'label': 'Fog', 'group': 'Horror'}, {'id': 'kite'}]
    """
    return _each_line("choices", text, _arm)


def written_feature(feature: dict[str, Any]) -> str:
    """Write a feature as `read_features` reads it.

    Examples
    --------
    >>> written_feature({"kind": "number", "name": "room 1 2"})
    'number "room 1 2"'
    """
    line = _written(feature, feature["name"])
    try:
        same = _feature(line) == feature
    except _WrongError:
        same = False
    return line if same else _written(feature, '"{}"'.format(feature["name"].replace('"', "'")))


# -- reading ---------------------------------------------------------------------------------


def _each_line(what: str, text: str, read: Any) -> list[dict[str, Any]]:
    found, wrongs = [], []
    lines = text.splitlines()
    if len(lines) > MOST_LINES[what]:
        wrong = f"The {what} are {len(lines):,} lines. At most {MOST_LINES[what]:,} are read here."
        raise Problem("invalid_value", wrong, field=what)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(read(_check_line(line.strip())))
        except _WrongError as wrong:
            wrongs.append(f"Line {number} of the {what}: {wrong}")
            if len(wrongs) == MOST_WRONGS:
                break
    if wrongs:
        raise Problem("invalid_value", " ".join(wrongs), field=what)
    if not found:
        raise Problem("invalid_value", f"The {what} are empty: write at least one.", field=what)
    return found


def _check_line(line: str) -> str:
    most = LONGEST_LIST if line.lower().startswith(("category ", "labels ")) else LONGEST_LINE
    if len(line) > most:
        raise _WrongError(f"it has {len(line):,} characters; at most {most:,} are read.")
    return line


def _arm(line: str) -> dict[str, Any]:
    cells = _cells(line)
    if len(cells) > 3 or not cells[0]:
        raise _WrongError('write "id", or "id, label, group".')
    names = ("id", "label", "group")
    return {name: cell for name, cell in zip(names, cells, strict=False) if cell}


def _feature(line: str) -> dict[str, Any]:
    kind, _, rest = line.partition(" ")
    kind, rest = kind.lower(), rest.strip()
    if kind not in KINDS:
        raise _WrongError(f"it must begin with {', '.join(KINDS[:-1])} or {KINDS[-1]}.")
    if not rest:
        raise _WrongError(f"what is the {kind} called?")
    name, rest, quoted = _name(kind, rest)
    may_miss = rest.startswith("?") if quoted else name.endswith("?")
    if may_miss:
        name, rest = (name, rest[1:]) if quoted else (name[:-1].strip(), rest)
    if not name:
        raise _WrongError(f"what is the {kind} called?")
    _check_length(name)
    found: dict[str, Any] = {"kind": kind, "name": name}
    if kind == "number":
        found |= _range(rest)
        if may_miss:
            if "low" not in found:
                raise _WrongError("a number that may be missing needs its range.")
            found["missing"] = (found["low"] + found["high"]) / 2.0
    elif kind == "flag":
        if rest.strip():
            raise _WrongError("a flag has a name, and no more.")
        found |= {"missing": False} if may_miss else {}
    else:
        found["values"] = _values(rest, kind)
        found |= {"missing": []} if may_miss else {}
    return found


def _name(kind: str, text: str) -> tuple[str, str, bool]:
    """Return the name, the rest, and whether the name stands in quotes."""
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        return quoted["name"].strip(), quoted["rest"], True
    if kind == "flag":
        return text, "", False
    if kind == "number":
        end = _name_end(text)
        return text[:end].strip(), text[end:], False
    name, _, rest = text.partition(":")
    return name.strip(), ":" + rest, False


def _name_end(text: str) -> int:
    """Return where the name of a number ends: before the first two numbers that follow it."""
    words = list(re.finditer(r"\S+", text))
    for before, low, *after in (words[n : n + 4] for n in range(len(words) - 2)):
        high = after[1] if after[0][0] == "to" and len(after) > 1 else after[0]
        if re.fullmatch(_NUMBER, low[0]) and re.fullmatch(_NUMBER, high[0]):
            return before.end()
    return len(text)


def _range(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    match = re.fullmatch(_RANGE, text)
    if match is None:
        raise _WrongError("behind its name a number has its lowest and highest value, and a unit.")
    found: dict[str, Any] = {"low": float(match["low"]), "high": float(match["high"])}
    return found | ({"unit": match["unit"].strip()} if match["unit"] else {})


def _values(text: str, kind: str) -> list[str]:
    text = text.strip()
    values = _cells(text[1:]) if text.startswith(":") else []
    if not values or not all(values):
        raise _WrongError(f"a {kind} has a colon behind its name, and words with commas between.")
    return values


def _cells(text: str) -> list[str]:
    try:
        [cells] = csv.reader([text], skipinitialspace=True)
    except (csv.Error, ValueError):
        raise _WrongError("its quotes or commas cannot be read.") from None
    return [_check_length(cell.strip()) for cell in cells]


def _check_length(text: str) -> str:
    if len(text) > LONGEST:
        raise _WrongError(f"{text[:20]!r}… is longer than {LONGEST} characters.")
    return text


# -- writing ---------------------------------------------------------------------------------


def _written(feature: dict[str, Any], name: str) -> str:
    line = f"{feature['kind']} {name}{'?' if 'missing' in feature else ''}"
    if "values" in feature:
        line += ": " + ", ".join(_cell(value) for value in feature["values"])
    if "low" in feature:
        line += f" {feature['low']:.15g} {feature['high']:.15g}"
    return line + (f" {feature['unit']}" if feature.get("unit") else "")


def _cell(value: str) -> str:
    plain = value.replace('"', '""')
    return f'"{plain}"' if "," in value or '"' in value else value


# -- from a csv ------------------------------------------------------------------------------


class Proposal(NamedTuple):
    """What the columns of a csv suggest.

    Attributes
    ----------
    features : tuple of str
        Lines, as `read_features` reads them.
    arms : tuple of str
        What stands in the column "arm" of a csv of examples.
    notes : tuple of str
        What of it was left out, and why.
    rows : int
        How many lines it has.
    """

    features: tuple[str, ...]
    arms: tuple[str, ...]
    notes: tuple[str, ...]
    rows: int


class _Column:
    """What stands in a column: its distinct values, up to a limit, and whether some are empty."""

    def __init__(self) -> None:
        self.values: dict[str, None] = {}
        self.words: dict[str, None] = {}
        self.gaps = False
        self.bars = False
        self.filled = 0

    def take(self, cell: str) -> None:
        if not cell:
            self.gaps = True
            return
        self.filled += 1
        if cell in self.values or len(self.values) > 100_000:
            return
        self.values[cell] = None
        self.bars = self.bars or "|" in cell
        for word in cell.split("|") if len(self.words) <= MOST_WORDS else ():
            if word.strip():
                self.words[word.strip()] = None


def proposed(lines: Iterable[Line]) -> Proposal:
    """Return the features that the columns of a csv suggest."""
    columns: dict[str, _Column] = {}
    rows = 0
    for line in lines:
        rows += 1
        for name, cell in line.cells.items():
            columns.setdefault(name, _Column()).take(cell)
    features, notes, arms = [], [], []
    is_examples = {"arm", "allowed"} <= columns.keys()
    for name, column in columns.items():
        if is_examples and name in ("arm", "allowed"):
            arms = list(columns["arm"].values)
            continue
        feature = _guess(name, column)
        if isinstance(feature, str):
            notes.append(feature)
        else:
            features.append(written_feature(feature))
    return Proposal(tuple(features), tuple(map(_cell, arms)), tuple(notes), rows)


def _guess(name: str, column: _Column) -> dict[str, Any] | str:
    """Return the feature that a column suggests; or why it suggests none."""
    values = list(column.values)
    if not values:
        return f"The column {name!r:.200} is empty: it was left out."
    found: dict[str, Any] = {"kind": "flag", "name": name}
    if column.bars:
        if len(column.words) > MOST_WORDS:
            return f"The column {name!r:.200} holds more than {MOST_WORDS:,} words: left out."
        # Where nothing stands in a cell of labels, there is none: no gap.
        return found | {"kind": "labels", "values": _sorted(column.words)}
    if all(value.lower() in TRUTHS for value in values):
        return found | ({"missing": False} if column.gaps else {})
    numbers = [_float(value) for value in values]
    if all(number is not None for number in numbers):
        low, high = _around([number for number in numbers if number is not None])
        gap = {"missing": (low + high) / 2.0} if column.gaps else {}
        return found | {"kind": "number", "low": low, "high": high} | gap
    few = len(values) <= FEW_WORDS or 2 * len(values) <= column.filled
    if len(values) > MANY_WORDS or not few:
        return (
            f"The column {name!r:.200} holds {len(values):,} different texts, which is more than "
            "an agent can tell apart by examples: it was left out."
        )
    found |= {"kind": "category", "values": _sorted(values)}
    return found | ({"missing": []} if column.gaps else {})


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < 1e12 else None


def _around(numbers: list[float]) -> tuple[float, float]:
    """Return a range around numbers whose ends have few digits."""
    low, high = min(numbers), max(numbers)
    if low == high:
        return low, low + 1.0
    step = 10.0 ** (math.floor(math.log10(high - low)) - 1)
    ends = math.floor(low / step) * step, math.ceil(high / step) * step
    return float(f"{ends[0]:.12g}"), float(f"{ends[1]:.12g}")


def _sorted(words: Iterable[str]) -> list[str]:
    """Sort words, those that begin with a number by that."""

    def key(word: str) -> tuple[float, str]:
        match = re.match(_NUMBER, word)
        return (math.inf if match is None else float(match[0])), word

    return sorted(words, key=key)


# --- Teachers as a person writes them, one a line: a name, a price and how often they err -


def read_teachers(text: str) -> list[dict[str, Any]]:
    r"""Read teachers, or raise a `Problem` that names the line.

    Examples
    --------
    >>> read_teachers("editor, 0.35\nmodel, 0.01, 10 %")
    [{'name': 'editor', 'price': 0.35}, {'name': 'model', 'price': 0.01, 'error': 0.1}]
    """
    lines = [(n, line.strip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) > MAX_TEACHERS:
        raise _wrong(f"There are {len(lines):,} teachers; {MAX_TEACHERS} are the most.")
    found: list[dict[str, Any]] = []
    for n, line in lines:
        name, *rest = (part.strip() for part in line.split(","))
        if not name or len(name) > 200 or len(rest) > 2:
            raise _wrong(f"Line {n}: it needs a name, then a price and a rate, as 'model, 0.01'.")
        if any(one["name"] == name for one in found):
            raise _wrong(f"Line {n}: {name[:100]!r} stands twice.")
        one: dict[str, Any] = {"name": name}
        if rest and rest[0]:
            one["price"] = _number(n, "price", rest[0], PRICE.low, PRICE.high)
        if len(rest) == 2 and rest[1]:
            one["error"] = _share(n, rest[1])
        found.append(one)
    return found


def _share(n: int, text: str) -> float:
    """Read a share, as 0.1 or as 10 %."""
    plain = text.removesuffix("%").strip()
    per = 100.0 if text.endswith("%") else 1.0
    most = f"{per * ERROR.high:g}{' %' if per > 1 else ''}"
    return _number(n, "rate of errors", plain, 0.0, per * ERROR.high, f"0 to {most}") / per


def _number(n: int, what: str, text: str, low: float, high: float, said: str = "") -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not low <= value <= high:
        wanted = said or f"{low:g} to {high:,.0f}"
        raise _wrong(f"Line {n}: the {what} must be a number from {wanted}, not {text[:40]!r}.")
    return value


def _wrong(message: str) -> Problem:
    return Problem("invalid_value", message, field="teachers")


# --- A new agent: by a form, whose features a csv of contexts can propose -----------------


LIMITS = tuple(SETTINGS["limits"].choices.items())
# The page would rather not keep people waiting, so it names that choice first.
ON_DOUBT = tuple(reversed(tuple(SETTINGS["on_doubt"].choices.items())))
DIAL = cast("FloatRange", SETTINGS["sigma"].range)
LOWEST, HIGHEST = SETTINGS["reward_range"].default
# What stands in the form at first; beside the file these are all of its fields.
AT_FIRST = {
    "name": "",
    "arms": "",
    "features": "",
    "limits": SETTINGS["limits"].default,
    "policy": "mask",
    "sigma": "",
    "reward": registry.OURS["reward"][0],
    "budget": str(SETTINGS["budget"].default),
    "on_doubt": ON_DOUBT[0][0],
    "teachers": "",
    "reward_low": f"{LOWEST:g}",
    "reward_high": f"{HIGHEST:g}",
    "wait": "",
    "unit": "hours",
    "default_reward": "",
}
UNITS = {"minutes": 60.0, "hours": 3_600.0, "days": 86_400.0}
POLICIES = (
    ("mask", "Only what it is sure is allowed", "The dial weighs how sure it is against reward."),
    (
        "dial",
        "By a dial between limits and reward",
        "As in the paper: nothing is quite ruled out, and it never asks on its own.",
    ),
)
OTHERS = "Registered by others, with its defaults."


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
        "typed": typed,
        "problem": problem,
        "proposal": proposal,
        "units": tuple(UNITS),
        "limits": (*LIMITS, *((name, _others(name)) for name in registry.available("limits"))),
        "on_doubt": ON_DOUBT,
        "policies": (*POLICIES, *((name, name, OTHERS) for name in registry.available("policy"))),
        "rewards": [(name, _others(name)) for name in registry.available("reward")],
    }
    return Html("new-agent.html", values, 200 if problem is None else problem.status)


def _others(name: str) -> str:
    return f"{name}: {OTHERS[0].lower()}{OTHERS[1:-1]}"


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
    if not re.fullmatch(AGENT_NAME, typed["name"]):
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
        "budget": _whole("How many questions", typed["budget"] or AT_FIRST["budget"]),
        "on_doubt": typed["on_doubt"],
        "teachers": read_teachers(typed["teachers"]),
        "reward": typed["reward"],
        "reward_range": [
            _number_typed("The lowest reward", typed["reward_low"] or AT_FIRST["reward_low"]),
            _number_typed("The highest reward", typed["reward_high"] or AT_FIRST["reward_high"]),
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
        agent["wait"] = _number_typed("How long to wait", typed["wait"]) * UNITS.get(
            typed["unit"], 1.0
        )
    if typed["default_reward"]:
        reward = _number_typed(
            "What a decision learns that waited in vain", typed["default_reward"]
        )
        agent["default_reward"] = reward
    # As JSON: the same forms, read as strictly, as over HTTP.
    return NewAgent.model_validate_json(to_json({"name": typed["name"], "agent": agent}))


def _choosing(typed: dict[str, str]) -> dict[str, Any]:
    sigma = _number_typed("The dial", typed["sigma"]) if typed["sigma"] else None
    if sigma is not None and not DIAL.low <= sigma <= DIAL.high:
        wrong = f"The dial goes from {DIAL.low:g} to {DIAL.high:g}."
        raise Problem("invalid_value", wrong, field="sigma")
    if typed["policy"] == "dial":
        return {"sigma": DEFAULT_SIGMA if sigma is None else sigma}
    if typed["policy"] != "mask":
        if sigma is not None:
            wrong = f"The policy {typed['policy'][:100]!r} has no dial: leave it empty."
            raise Problem("invalid_value", wrong, field="sigma")
        return {"policy": {"kind": typed["policy"]}}
    return {"policy": {"kind": "LearnedMask", "sigma": 1.0 if sigma is None else sigma}}


def _number_typed(what: str, text: str) -> float:
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
