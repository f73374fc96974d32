"""Templates, and contexts, arms and numbers in words that a person reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, assert_never
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response
from starlette.templating import Jinja2Templates

from bridle.agent.config import Arm, ArmFeatures
from bridle.schema import Category, Flag, Labels, Number, Schema
from bridle.server.endpoints import Endpoint, Role
from bridle.web import charts

__all__ = [
    "Rendering",
    "arm_words",
    "context_words",
    "described",
    "item_from",
    "likeness",
    "number_words",
    "schema_context_words",
    "short_words",
]

# Features of an arm that stand in a line.
MOST_LIKENESS = 20


MOST_WORDS = 6  # parts of a context in a question itself


def context_words(context: Mapping[str, object]) -> str:
    """Return a decoded context in a line.

    Examples
    --------
    >>> context_words(
    ...     {"genres": ["Horror", "Thriller"], "age": "12-17", "child": True, "late": False}
    ... )
    'Horror, Thriller · age 12-17 · child · not late'
    """
    parts = [_feature_words(name, value) for name, value in context.items()]
    return " · ".join(parts) or "nothing is known"


def schema_context_words(schema: Schema, context: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return a decoded context as pairs of a feature's name and its value, in words."""
    found = []
    for feature, _ in schema.encoded:
        value = context[feature.name]
        if value is None and feature.optional:
            text = "not known"
        elif isinstance(feature, Flag):
            text = "yes" if value else "no"
        elif isinstance(feature, Category):
            text = "not known" if value is None else str(value or "none")
        elif isinstance(feature, Labels):
            text = _listed([label for label in value or () if label is not None])  # type: ignore[attr-defined]
            if feature.optional and None in (value or ()):  # type: ignore[operator]
                text += " and others that are not known"
        elif isinstance(feature, Number):
            text = f"{number_words(value)} {feature.unit or ''}".rstrip()
        else:
            assert_never(feature)
        found.append((feature.name, text))
    return found


def short_words(schema: Schema, context: dict[str, Any]) -> str:
    """Return what a context holds, without the names that go without saying.

    Examples
    --------
    >>> schema = Schema(
    ...     [Labels("genres", ["Drama", "Horror"]), Flag("late"), Category("age", ["12"])]
    ... )
    >>> short_words(schema, {"genres": ["Drama", "Horror"], "late": False, "age": "12"})
    'Drama, Horror · 12'
    """
    parts = []
    for feature, _ in schema.encoded:
        value = context.get(feature.name)
        if isinstance(feature, Flag):
            parts += [feature.name] if value else []
        elif isinstance(feature, Category):
            parts += [] if value is None else [str(value)]
        elif isinstance(feature, Labels):
            parts += [", ".join(value)] if value else []
        elif isinstance(feature, Number):
            parts.append(f"{feature.name} {number_words(value)} {feature.unit or ''}".rstrip())
        else:
            assert_never(feature)
    more = " …" if len(parts) > MOST_WORDS else ""
    return " · ".join(parts[:MOST_WORDS]) + more or "Nothing special"


def item_from(text: str) -> int | str | None:
    """Read the name of an item: a whole number or a text, as the log has them; None if empty.

    Examples
    --------
    >>> item_from("tt0499549"), item_from("17"), item_from("017"), item_from("")
    ('tt0499549', 17, '017', None)
    """
    if text.isascii() and text.isdigit() and len(text) < 16 and str(int(text)) == text:
        return int(text)
    return text or None


def arm_words(arm: Arm) -> str:
    """Return an arm: its label if it has one of its own, and its group.

    Examples
    --------
    >>> arm_words(Arm(7, "The Long Night", "Horror")), arm_words(Arm("nature"))
    ('The Long Night (Horror)', 'nature')
    """
    name = arm.label or str(arm.id)
    return name if arm.group is None or arm.group == name else f"{name} ({arm.group})"


def likeness(arm: Arm) -> list[tuple[str, str]]:
    """Return the features of an arm as pairs of a name and a value, in words; none without.

    Examples
    --------
    >>> schema = Schema([Flag("new"), Labels("genres", ["Horror", "Drama"])])
    >>> likeness(Arm("x", features={"new": False, "genres": ["Drama"]}).encoded(schema))
    [('new', 'no'), ('genres', 'Drama')]
    >>> loose = Schema([Labels("genres", ["Drama"], optional=True), Flag("new", optional=True)])
    >>> likeness(Arm("x", features={"genres": ["Drama", None]}).encoded(loose))
    [('genres', 'Drama and others that are not known'), ('new', 'not known')]
    """
    features = arm.features
    if not isinstance(features, ArmFeatures) or features.schema is None:
        return []
    return schema_context_words(features.schema, features)


def described(arm: Arm) -> str:
    """Return an arm with its features, for who is to judge it."""
    like = ", ".join(f"{name} {value}" for name, value in likeness(arm)[:MOST_LIKENESS])
    return f"{arm_words(arm)}: {like}" if like else arm_words(arm)


def number_words(value: object, digits: int = 3) -> str:
    """Return a number as short as it can be read; a dash if there is none.

    Examples
    --------
    >>> number_words(1234567), number_words(0.12345), number_words(3.0), number_words(None)
    ('1,234,567', '0.123', '3', '–')
    """
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def _feature_words(name: str, value: object) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    if value is None:
        return f"{name} not known"
    if isinstance(value, list | tuple):
        return _listed(value, f"no {name}")
    if isinstance(value, str):
        return f"{name} {value}"
    return f"{name} {number_words(value)}"


def _listed(value: object, nothing: str = "none") -> str:
    assert isinstance(value, Sequence)
    return ", ".join(map(str, value)) or nothing


# --- Templates ----------------------------------------------------------------------------
#
# Whatever comes from outside is escaped by the templates; nothing is marked as safe but what
# `charts` draws out of numbers and escaped words.


# The pages of an agent: where each is, what it is called, and whose right it takes.
TABS = (
    ("teach", "Teach", "POST /v1/agents/{agent}/examples"),
    ("teachers", "Teachers", "GET /v1/agents/{agent}/teachers"),
    ("checks", "Checks", "GET /v1/agents/{agent}/checks"),
    ("limits", "Limits", "POST /v1/agents/{agent}/believed"),
    ("dial", "Dial", "POST /v1/agents/{agent}/evaluate"),
    ("live", "Live", "GET /v1/agents/{agent}/events"),
    ("decisions", "Decisions", "GET /v1/agents/{agent}/events"),
    ("promises", "Promises", "GET /v1/agents/{agent}/certificate"),
    ("settings", "Settings", "PATCH /v1/agents/{agent}"),
)


class Rendering:
    """Templates with all that they share, and the rights of roles. It holds nothing of a visit."""

    def __init__(self, table: Sequence[Endpoint]) -> None:
        self.roles: dict[str, frozenset[Role]] = {
            f"{row.method} {row.path}": frozenset(row.roles or ()) for row in table
        }
        self.hashes = static_hashes()
        environment = Environment(
            loader=PackageLoader("bridle.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.globals |= {
            "static": self.address_of,
            "charts": charts,
            "url": url,
            "tabs": TABS,
        }
        environment.filters |= {
            "context": context_words,
            "figure": number_words,
            "likeness": likeness,
            "percent": percent,
            "time": time_words,
            "iso": iso,
        }
        self._templates = Jinja2Templates(env=environment)

    def address_of(self, name: str) -> str:
        """Return the address of a file, which changes when the file does."""
        return f"/static/{name}?v={self.hashes[name]}"

    def page(
        self, request: Request, template: str, values: Mapping[str, Any], status: int = 200
    ) -> Response:
        """Return a page as a response."""
        return self._templates.TemplateResponse(request, template, {**values}, status)


def static_hashes() -> dict[str, str]:
    """Return a short hash of each file that pages use, by name."""
    found = files("bridle.web").joinpath("static").iterdir()
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest()[:12] for file in found}


def url(*parts: object, **query: object) -> str:
    """Return an address of this site: ``url("agents", name, "teach", after=10)``.

    Examples
    --------
    >>> url("agents", "a/b", "log", arm="x y", after=None)
    '/agents/a%2Fb/log?arm=x+y'
    """
    path = "/" + "/".join(quote(str(part), safe="~:@") for part in parts)
    given = {name: value for name, value in query.items() if value is not None and value != ""}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def percent(value: float | None, digits: int = 0) -> str:
    """Return a share in percent; a dash if there is none.

    Examples
    --------
    >>> percent(0.123), percent(0.0004), percent(None)
    ('12 %', '0.04 %', '–')
    """
    if value is None:
        return "–"
    if 0 < value < 0.01:
        return f"{100 * value:.2g} %"
    return f"{100 * value:.{digits}f} %"


def time_words(at: float | None) -> str:
    """Return a time as people read it, in UTC."""
    if at is None:
        return "–"
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # a log may hold any number
        return f"{at:g} s after 1970"


def iso(at: float) -> str:
    """Return a time as programs read it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
