"""The report of a study: one page that needs nothing else, no script, no request of any kind."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import polars as pl

from bridle.errors import NotPossible
from bridle_studies.paper.claim import Claim
from bridle_studies.paper.figures import TEACHINGS
from bridle_studies.paper.published import MOVIES, WARFARIN, Figures, agrees
from bridle_studies.paper.telling import PAPER_TITLE, WORDS, in_greek, lead, reasons
from bridle_studies.scaffold.canvas import DIAL, agent_label, number, sort_agents

__all__ = ["write_report"]

REPORT = "report.html"
TABLES = {"thompson": "Table 1", "random": "Table 2"}  # the paper's, for movies
MAX_SETTINGS, MAX_VALUE = 400, 400  # rows shown, signs of a value
DESCRIPTION = "{http://purl.org/dc/elements/1.1/}description"
VERDICTS = {True: "holds", False: "does not hold", None: "not judged"}


def write_report(
    out: Path,
    *,
    manifest: Mapping[str, Any],
    results: pl.DataFrame,
    summary: pl.DataFrame,
    claims: Sequence[Claim],
    figures: Mapping[str, Path],
) -> Path:
    """Write `report.html` into the folder `out` and give its path.

    Parameters
    ----------
    out : Path
        A folder, made if it is not there.
    manifest : mapping
        How the study was made, as in `manifest.json`. What is absent is left out.
    results, summary : DataFrame
        A row a run; a row a cell, as `summarise` gives it.
    claims : list of Claim
        What became of the paper's claims.
    figures : mapping from file name to path
        As `draw_figures` gives it. The SVG files are taken into the page; titles, captions and
        alternative texts are read from them.
    """
    page = (
        environment()
        .get_template("report.html.j2")
        .render(**_view(manifest, results, summary, claims, figures))
    )
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


def environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,  # names of worlds, arms and files are not ours
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _view(
    manifest: Mapping[str, Any],
    results: pl.DataFrame,
    summary: pl.DataFrame,
    claims: Sequence[Claim],
    figures: Mapping[str, Path],
) -> dict[str, Any]:
    """Give everything that the page shows, as texts."""
    origin = mapping(manifest.get("origin"))
    world = str(manifest.get("world") or (results["world"][0] if len(results) else "a world"))
    synthetic = bool(origin.get("synthetic")) or "synthetic" in world.lower()
    named = world if "synthetic" in world.lower() or not synthetic else f"synthetic {world}"
    T = int(results["steps"].max() or 0)  # type: ignore[arg-type]
    # In the order in which they were drawn: regret before errors, Thompson before random.
    drawn = [drawing(path) for path in figures.values() if path.suffix == ".svg"]
    everywhere = _said_by_all(claims)
    own = world not in (*MOVIES, *WARFARIN)
    shown = named[:1].upper() + named[1:]
    return {
        "title": f"{shown}: the paper’s experiment on a world of your own"
        if own
        else f"{shown}: the paper, reproduced",
        "own": own,
        "paper": PAPER_TITLE,
        "synthetic": synthetic,
        "quick": bool(manifest.get("quick")),
        "dial": DIAL,
        "lead": lead(manifest, results, summary, claims, str(origin.get("title") or named)),
        "facts": _facts(manifest, results, T, synthetic),
        "overview": next((drawing for drawing in drawn if drawing.name == "overview"), None),
        "drawings": [drawing for drawing in drawn if drawing.name != "overview"],
        "words": WORDS,
        "tables": [*_tables(summary, world, named, T)],
        "compared": any(summary[f"paper_{letter}"].is_not_null().any() for letter in "RE"),
        "claims": [
            {
                "key": claim.key,
                "title": in_greek(claim.title),
                "paper": in_greek(claim.paper),
                "caveat": claim.caveat,
                "verdict": VERDICTS[claim.holds],
                "mark": {True: "✓", False: "✗", None: "?"}[claim.holds],
                "evidence": [in_greek(line) for line in claim.evidence if line not in everywhere],
            }
            for claim in claims
        ],
        "verdicts": {
            word: sum(claim.holds is value for claim in claims) for value, word in VERDICTS.items()
        },
        "everywhere": [in_greek(line) for line in everywhere],
        "reasons": reasons(
            summary, world=world, T=T, synthetic=synthetic, features=_features(manifest)
        ),
        "origin": {name: str(origin.get(name) or "") for name in ("title", "about", "licence")},
        "files": mapping(origin.get("files")),
        "notes": listed(origin.get("notes")),
        "link": link(origin.get("url")),
        "command": str(manifest.get("command") or ""),
        "settings": [*flat(mapping(manifest.get("settings")))][:MAX_SETTINGS],
        "made": made(manifest),
    }


# -- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """One number of a table: ours, its interval, the paper's, and whether they agree."""

    value: str
    interval: str = ""
    paper: str = ""
    agrees: bool | None = None


def _tables(summary: pl.DataFrame, world: str, named: str, T: int) -> Iterator[dict[str, Any]]:
    found = summary["teaching"].unique().to_list()
    known = [name for name in TEACHINGS if name in found]
    others = sorted(name for name in found if name is not None and name not in TEACHINGS)
    for teaching in [*known, *others] or [None]:
        rows = summary.filter(pl.col("teaching").eq_missing(pl.lit(teaching, pl.String)))
        agents = sort_agents(rows["agent"].to_list())
        groups = []
        for N in rows["examples"].unique().sort().to_list():
            cells = {
                row["agent"]: row
                for row in rows.filter(pl.col("examples").eq_missing(N)).iter_rows(named=True)
            }
            lines = [
                (letter, [_entry(cells.get(agent), letter) for agent in agents])
                for letter in ("R", "E", "Rc")
            ]
            groups.append({"N": "none" if N is None else f"{N:,}", "lines": lines})
        how = TEACHINGS.get(teaching or "", f"{teaching} teaching" if teaching else "no teaching")
        number_ = f"{TABLES[teaching]}. " if world in MOVIES and teaching in TABLES else ""
        yield {
            "caption": f"{number_}{named[:1].upper()}{named[1:]}, {how}, T = {T:,}",
            "agents": [agent_label(agent) for agent in agents],
            "groups": groups,
        }


def _entry(row: Mapping[str, Any] | None, letter: str) -> _Entry:
    if row is None or row.get(letter) is None:
        return _Entry(value="–")
    form = "R" if letter != "E" else "E"
    low, high = row.get(f"{letter}_low"), row.get(f"{letter}_high")
    paper = row.get(f"paper_{letter}")
    same = None
    if paper is not None:
        theirs = Figures(paper, None) if letter == "R" else Figures(None, paper)
        same = agrees(row["R"], row["E"], theirs)
    return _Entry(
        value=number(row[letter], form),
        interval="" if low is None or high is None else f"{number(low, form)}–{number(high, form)}",
        paper="" if paper is None else number(paper, form),
        agrees=same,
    )


# -- figures -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Drawing:
    """A figure, ready to stand in the page."""

    name: str
    title: str
    caption: str
    words: str  # what is seen, in words
    data: str


def drawing(path: Path) -> _Drawing:
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
    return _Drawing(
        name=path.stem,
        title=title.strip(),
        caption=caption.strip() or title.strip(),
        words=words.strip(),
        data=f"data:image/svg+xml;base64,{base64.b64encode(body).decode('ascii')}",
    )


# -- how it was done -----------------------------------------------------------------------------


def _facts(
    manifest: Mapping[str, Any], results: pl.DataFrame, T: int, synthetic: bool
) -> list[str]:
    runs = int(manifest.get("runs") or len(results))
    folds = results["fold"].n_unique()
    title = mapping(manifest.get("origin")).get("title")
    facts = [str(title)] if title and not synthetic else []
    facts += [f"{runs:,} runs", f"T = {T:,}", "1 fold" if folds == 1 else f"{folds} folds"]
    if manifest.get("seconds") is not None:
        facts.append(_duration(float(manifest["seconds"])))
    if manifest.get("started"):
        facts.append(str(manifest["started"])[:10])
    if manifest.get("bridle"):
        facts.append(f"bridle {manifest['bridle']}")
    return facts


def made(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Give when, where and with what it was made, as far as the manifest says."""
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


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Give each setting as (name, value), nested ones with a dot."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value and prefix.count(".") < 8:
            yield from flat(value, f"{prefix}{name}.")
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


def _features(manifest: Mapping[str, Any]) -> int | None:
    """Give d, the length of a context, where the settings of the world say it."""
    world = mapping(mapping(manifest.get("settings")).get("world"))
    for name in ("features", "genres"):  # a movie is its genres
        value = world.get(name)
        found = len(value) if isinstance(value, list | tuple) else value
        if isinstance(found, int) and not isinstance(found, bool) and found > 0:
            return found
    return None


def _said_by_all(claims: Sequence[Claim]) -> list[str]:
    """Give the sentences that stand in the evidence of every claim: they need be read only once."""
    if len(claims) < 2:
        return []
    first, *rest = claims
    return [line for line in first.evidence if all(line in claim.evidence for claim in rest)]


def link(url: Any) -> str:
    """Give an address that may be clicked: nothing but a web page."""
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
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list | tuple) else []
