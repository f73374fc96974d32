"""From values to HTML: templates, what they can say, and the files that pages use.

Whatever comes from outside is escaped by the templates; nothing is marked as safe but what
`charts` draws out of numbers and escaped words.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined

from bridle.service.endpoints import Endpoint, Role
from bridle.service.pages import charts
from bridle.service.pages.words import context_words, number_words

__all__ = ["Rendering", "static_files"]

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
    """Templates with all that they share. One for a site; it keeps nothing of a visit."""

    def __init__(self, table: Sequence[Endpoint]) -> None:
        self.roles: dict[str, frozenset[Role]] = {
            f"{row.method} {row.path}": frozenset(row.roles or ()) for row in table
        }
        self.static = static_files()
        self._environment = Environment(
            loader=PackageLoader("bridle.service.pages"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals |= {
            "static": self.address_of, "charts": charts, "url": url, "tabs": TABS,
        }  # fmt: skip
        self._environment.filters |= {
            "context": context_words,
            "figure": number_words,
            "percent": percent,
            "time": time_words,
            "iso": iso,
        }

    def address_of(self, name: str) -> str:
        """Give the address of a file, which changes when the file does."""
        return f"/static/{name}?v={self.static[name][1]}"

    def page(self, template: str, values: Mapping[str, Any]) -> bytes:
        """Give a page."""
        return self._environment.get_template(template).render(values).encode()


def static_files() -> dict[str, tuple[bytes, str, str]]:
    """Give all files that pages use: bytes, a short hash and the media type, by name."""
    found = {}
    for one in files("bridle.service.pages").joinpath("static").iterdir():
        body = one.read_bytes()
        media = mimetypes.guess_type(one.name)[0] or "application/octet-stream"
        if media.startswith("text/"):
            media += "; charset=utf-8"
        found[one.name] = body, hashlib.sha256(body).hexdigest()[:12], media
    return found


def url(*parts: object, **query: object) -> str:
    """Give an address of this site: ``url("agents", name, "teach", after=10)``.

    Examples
    --------
    >>> url("agents", "a/b", "log", arm="x y", after=None)
    '/agents/a%2Fb/log?arm=x+y'
    """
    path = "/" + "/".join(quote(str(part), safe="~:@") for part in parts)
    given = {name: value for name, value in query.items() if value is not None and value != ""}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def percent(value: float | None, digits: int = 0) -> str:
    """Give a share in percent; a dash if there is none.

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
    """Give a time as people read it, in UTC."""
    if at is None:
        return "–"
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # a log may hold any number
        return f"{at:g} s after 1970"


def iso(at: float) -> str:
    """Give a time as programs read it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
