"""The report of a study: one page that needs nothing else, no script, no request of any kind.

Each study has a template of its own in `templates/` and a view, a mapping of texts, that fills it;
what all pages say (how it was done, with what, on which data) comes from the manifest, here.
"""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2

from bridle.errors import NotPossible
from bridle_studies.scaffold.journal import REPORT

__all__ = [
    "Drawing",
    "drawings",
    "facts",
    "link",
    "listed",
    "mapping",
    "origin_view",
    "run_view",
    "write_page",
]

MAX_SETTINGS, MAX_VALUE = 400, 400  # rows shown, signs of a value
DESCRIPTION = "{http://purl.org/dc/elements/1.1/}description"


def write_page(out: Path, template: str, view: Mapping[str, Any]) -> Path:
    """Render a template into `report.html` in the folder `out`, and return its path."""
    page = _environment().get_template(template).render(**view)
    path = Path(out) / REPORT
    draft = path.with_name(f".{REPORT}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(page, encoding="utf-8", newline="\n")
        draft.replace(path)  # never half a page
    except OSError as error:
        raise NotPossible(
            f"The report {str(path)!r} cannot be written: {error.strerror or error}."
        ) from error
    return path


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,  # names of worlds, arms and files are not ours
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


# -- what every page says ------------------------------------------------------------------------


def facts(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the head of the page says of the run, as far as the manifest does."""
    found = []
    seconds = manifest.get("seconds")
    if isinstance(seconds, int | float) and math.isfinite(seconds):
        found.append(_duration(seconds))
    if manifest.get("started"):
        found.append(str(manifest["started"])[:10])
    if manifest.get("bridle"):
        found.append(f"bridle {manifest['bridle']}")
    return found


def run_view(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what every page says of how it was done: command, settings, versions."""
    return {
        "quick": bool(manifest.get("quick")),
        "command": str(manifest.get("command") or ""),
        "settings": [*_flat(mapping(manifest.get("settings")))][:MAX_SETTINGS],
        "made": _made(manifest),
    }


def origin_view(origin: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page says of its data: title, licence, files, notes, link."""
    return {
        "origin": {name: str(origin.get(name) or "") for name in ("title", "about", "licence")},
        "files": mapping(origin.get("files")),
        "notes": listed(origin.get("notes")),
        "link": link(origin.get("url")),
    }


def _made(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return when, where and with what it was made, as far as the manifest says."""
    packages = mapping(manifest.get("packages"))
    found = {
        "started": manifest.get("started"),
        "time": None if manifest.get("seconds") is None else _duration(float(manifest["seconds"])),
        "runs made": _grouped(manifest.get("runs")),
        "steps in all": _grouped(manifest.get("steps")),
        "seed": manifest.get("seed"),
        "engine": manifest.get("engine"),
        "workers": manifest.get("workers"),
        "bridle": manifest.get("bridle"),
        "Python": manifest.get("python"),
        "platform": manifest.get("platform"),
        "packages": ", ".join(f"{name} {v}" for name, v in packages.items() if v) or None,
        "fingerprint": manifest.get("fingerprint"),
    }
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield each setting as (name, value), nested ones with a dot."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value and prefix.count(".") < 8:
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _shown(value)


def _shown(value: Any) -> str:
    if value is None:
        text = "none"
    elif isinstance(value, str):
        text = value
    elif isinstance(value, list | tuple) and not any(isinstance(v, list | dict) for v in value):
        text = ", ".join(_shown(v) for v in value)
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


def link(url: Any) -> str:
    """Return an address that may be clicked: nothing but a web page."""
    text = str(url or "")
    return text if text.startswith(("https://", "http://")) else ""


def _duration(seconds: float) -> str:
    if seconds < 90.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _grouped(value: Any) -> str | None:
    return f"{value:,}" if isinstance(value, int) else None if value is None else str(value)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a value of the manifest if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[str]:
    """Return a value of the manifest as texts if it is a list, else none."""
    return [str(item) for item in value] if isinstance(value, list | tuple) else []


# -- figures ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure, ready to stand in the page."""

    name: str
    title: str
    caption: str
    words: str  # what is seen, in words
    data: str


def drawings(figures: Mapping[str, Path]) -> list[Drawing]:
    """Return the SVG figures, ready to stand in a page, in the order in which they were drawn."""
    return [_drawing(path) for path in figures.values() if path.suffix == ".svg"]


def _drawing(path: Path) -> Drawing:
    try:
        body = path.read_bytes()
    except OSError as error:
        raise NotPossible(
            f"The figure {str(path)!r} cannot be read: {error.strerror or error}. Draw it again."
        ) from error
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise NotPossible(
            f"The figure {str(path)!r} is damaged: {error}. Draw it again."
        ) from error
    title = root.findtext("{http://www.w3.org/2000/svg}title") or path.stem
    said = next((element.text or "" for element in root.iter(DESCRIPTION)), "")
    caption, _, words = said.partition("\n\n")
    return Drawing(
        name=path.stem,
        title=title.strip(),
        caption=caption.strip() or title.strip(),
        words=words.strip(),
        data=f"data:image/svg+xml;base64,{base64.b64encode(body).decode('ascii')}",
    )
