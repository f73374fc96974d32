"""The documentation is true: its Python runs, prints what it says, and names all there is."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import io
import pkgutil
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_args

import click
import pytest
import typer.main

import bridle
from bridle import registry
from bridle.agent import events
from bridle.cli import app
from bridle.client import Trial
from bridle.limits import KINDS as LIMITS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

# A block of Python and, if it stands right below, a block of text: what it prints.
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def blocks(page: Path) -> Iterator[tuple[int, str, str | None]]:
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start(1)) + 1
        yield line, found[1], found[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_runs_and_prints_what_it_says(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_known", dict(registry._known))  # pages register, too
    namespace: dict[str, object] = {}
    try:
        for line, code, expected in blocks(page):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                # Blank lines first, so that a traceback names the line of the page.
                exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
            assert printed.getvalue() == (expected or ""), f"{page.name}, line {line}"
    finally:  # a page that fails half-way leaves no server behind
        for value in namespace.values():
            if isinstance(value, Trial):
                value.stop()


def test_the_pages_have_code_to_run():
    ran = {page.name: len(list(blocks(page))) for page in PAGES}
    assert ran["README.md"] == 1
    assert ran["getting-started.md"] >= 10
    assert sum(ran.values()) >= 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "index.md" or f"({page.name})" in index


def test_the_architecture_names_every_package_and_only_files_that_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "bridle"
    named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+(?:\.py|/))`", text))
    beside = {"studies/", "tests/", "benchmarks/", "faults/", "browser/", "examples/", "tools/"}
    assert beside <= named
    for name in named - beside - {"tests/golden/"}:
        found = [ROOT / name, package / name, *package.glob(f"*/{name}")]
        assert any(path.exists() for path in found), name
    for path in package.iterdir():
        if path.is_dir() and (path / "__init__.py").exists():
            assert f"`{path.name}/`" in text, path.name
        elif path.suffix == ".py" and not path.name.startswith("__"):
            assert f"`{path.name}`" in text, path.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_source_files_that_a_page_names_exist(page):
    ours = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if ".venv" not in path.parts]
    for name in re.findall(r"`([\w/]+\.py)`", page.read_text(encoding="utf-8")):
        assert any(f"/{path}".endswith(f"/{name}") for path in ours), name


# -- the API page names everything ---------------------------------------------------------------


def documented() -> set[str]:
    """All that stands in `code` on the API page, and each word of it."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    quoted = re.findall(r"`([^`\n]+)`", text)
    return {*quoted, *(word for code in quoted for word in re.findall(r"[\w-]+", code))}


def test_every_public_name_is_documented():
    assert set(bridle.__all__) <= documented()


def test_other_modules_have_what_is_said_of_them():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    table = text.partition("## Other modules")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(bridle[\w.]*)` \| (.*) \|$", table, re.MULTILINE)
    assert len(rows) >= 15
    for module, words in rows:
        home = importlib.import_module(module)
        for name in re.findall(r"`([\w.]+)(?:\([^`]*\))?`", words):
            assert _is_there(home, name), f"{module}: {name}"


def _is_there(home: ModuleType, name: str) -> bool:
    """Whether a module, or one inside it, has this name; or a class of its own has it."""
    inside = [
        importlib.import_module(f"{home.__name__}.{one.name}")
        for one in pkgutil.iter_modules(getattr(home, "__path__", ()))
    ]
    first, *rest = name.split(".")
    for module in [home, *inside]:
        if rest and module.__name__ == f"{home.__name__}.{first}":
            return hasattr(module, rest[0])
        classes = [one for one in vars(module).values() if isinstance(one, type)]
        if any(hasattr(one, first) for one in [module, *classes]):
            return True
    return first in LIMITS


def test_every_event_and_its_fields_are_documented():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    kinds = get_args(events.Event)
    assert len(kinds) >= 12
    for kind in kinds:
        (row,) = re.findall(rf"^\| `{kind.__name__}` \|.*$", text, re.MULTILINE)
        for field in dataclasses.fields(kind):
            assert field.name == "at" or f"`{field.name}`" in row, f"{kind.__name__}.{field.name}"


def test_every_verb_and_setting_of_the_agent_is_documented():
    verbs = {name for name in dir(bridle.Agent) if not name.startswith("_")}
    settings = set(inspect.signature(bridle.Agent).parameters)
    assert verbs | settings | {"make", "sink"} <= documented()


def commands() -> dict[str, click.Command]:
    """Every command by its full name: "study movies"."""
    found: dict[str, click.Command] = {}

    def walk(group: click.Command, before: str) -> None:
        for name, command in getattr(group, "commands", {}).items():
            found[before + name] = command
            walk(command, f"{before}{name} ")

    walk(typer.main.get_command(app), "")
    return found


def test_every_command_and_option_is_documented():
    text = "".join(
        (ROOT / "docs" / page).read_text(encoding="utf-8")
        for page in ("api.md", "studies.md", "worlds.md")
    )
    assert set(commands()) >= {"demo", "version", "study movies", "data fetch"}
    for name, command in commands().items():
        assert f"`bridle {name}" in text, name
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    assert f"`{option}" in text, f"bridle {name} {option}"


def test_every_make_target_is_documented():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    for target in targets:
        assert f"`make {target}`" in page


# -- examples ------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 4


def test_the_readme_shows_every_example():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) >= 6
    for example in EXAMPLES:
        assert f"(examples/{example.name})" in readme
