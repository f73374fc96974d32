"""docs/http.md and docs/operating.md say what is so: routes, roles, codes, limits, commands."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from bridle.agent.commands import MAX_VISITORS
from bridle.api import base, models, requests
from bridle.cli import app
from bridle.client import Client, Trial
from bridle.server.endpoints import ROLES
from bridle.server.limits import Limits
from bridle.server.problems import CODES
from bridle.server.table import document, endpoints
from bridle.slates import MAX_PLACES

ROOT = Path(__file__).parents[2]
HTTP = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
OPERATING = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")

# A block of a shell and, if it stands right below, what comes out.
SHELL = re.compile(
    r"^```sh\n(.*?)^```\n(?:\n```(?:json|text)\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)
ANY = "…"
OURS = {
    "serve",
    "agents",
    "verify",
    "replay",
    "backup",
    "restore",
    "export",
    "fork",
    "erase",
    "token",
}


def cells(page: str, heading: str) -> list[list[str]]:
    """Give the rows of the table below a heading."""
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# -- what is listed ------------------------------------------------------------------------------


def test_every_route_and_role_is_listed_as_it_is():
    said = {row[0].strip("`"): [cell == "yes" for cell in row[2:]] for row in cells(HTTP, "Roles")}
    true = {
        f"{row.method} {row.path}": [row.roles is None or role in row.roles for role in ROLES]
        for row in endpoints()
    }
    assert said == true
    assert [row[1].endswith("(no token)") for row in cells(HTTP, "Roles")] == [
        row.roles is None for row in endpoints()
    ]


def test_the_openapi_document_has_the_same_routes():
    paths = document(endpoints())["paths"]
    routes = {f"{method.upper()} {path}" for path, found in paths.items() for method in found}
    assert routes == {row[0].strip("`") for row in cells(HTTP, "Roles")}


def test_every_code_is_listed_as_it_is():
    said = {row[0].strip("`"): (int(row[1]), row[2]) for row in cells(HTTP, "Errors")}
    assert said == CODES


def test_limits_are_said_as_they_are():
    limits = Limits()
    assert {row[0]: row[1] for row in cells(HTTP, "Limits")} == {
        "body": f"{limits.body_bytes // 2**20} MiB",
        "headers": f"{limits.head_bytes // 2**10} KiB, {limits.head_fields} of them",
        "examples, decisions, contexts of a pool in one call": f"{base.MAX_BATCH:,}",
        "contexts of a calibration": f"{requests.MAX_CALIBRATION:,}",
        "entries of a page": f"{base.MAX_PAGE:,} ({requests.Page().limit} unless asked for)",
        "features of a context, of an arm": f"{base.MAX_WIDTH:,}",
        "arms of an agent": f"{models.MAX_ARMS:,}",
        "arms that a request brings along": f"{MAX_VISITORS:,}",
        "places of a slate": f"{MAX_PLACES}",
        "rules at the start": f"{models.MAX_RULES:,}",
        "id, name of an arm": "200 characters",
        "requests for each token": f"{limits.rate:,.0f} a second, and as many at once",
        "requests under way": f"{limits.in_flight:,}",
        "work that waits for the writer": f"{limits.waiting:,}",
        "time to send a body": f"{limits.read_seconds:.0f} s",
        "time to answer": f"{limits.answer_seconds:.0f} s",
    }
    assert limits.rate == limits.burst
    assert f"`bridle_waiting` near {limits.waiting:,}" in OPERATING
    assert (limits.aside_threads, limits.agents_held, limits.token_seconds) == (2, 100, 2.0)
    # A proxy and an init must wait longer than the server does.
    assert limits.stop_seconds + limits.read_seconds <= 40.0


def test_every_command_and_option_is_listed():
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    names = [name for name in commands if f"`bridle {name}" in OPERATING]
    assert set(names) >= OURS
    for name in OURS:
        for parameter in commands[name].params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    assert f"`{option}" in OPERATING, f"bridle {name} {option}"


@pytest.mark.parametrize("page", [HTTP, OPERATING, SECURITY])
def test_links_lead_to_headings(page: str):
    """Links to files are followed by tests/test_docs.py; here, what stands behind the #."""
    for target in re.findall(r"\]\(([^)\s]*#[^)\s]+)\)", page):
        file, _, heading = target.partition("#")
        name = Path(file).name
        if not name:
            text = page
        else:
            found = ROOT / name if name == "SECURITY.md" else ROOT / "docs" / name
            text = found.read_text(encoding="utf-8")
        titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
        assert heading in slugs, target


def test_no_page_names_a_token():
    for page in (HTTP, OPERATING, SECURITY):
        assert not re.search(r"brd_[a-z2-9]{12}_", page)


# -- what is run ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    with Trial() as trial:
        yield trial


def alike(said: Any, got: Any) -> bool:
    """Say whether JSON is as it is said to be; "…" stands for anything."""
    if said == ANY:
        return True
    if isinstance(said, dict) and isinstance(got, dict):
        return said.keys() == got.keys() and all(alike(said[key], got[key]) for key in said)
    if isinstance(said, list) and isinstance(got, list):
        return len(said) == len(got) and all(map(alike, said, got))
    return bool(said == got)


def test_alike_is_strict():
    assert alike({"a": [1, ANY]}, {"a": [1, {"b": 2}]})
    assert not alike({"a": 1}, {"a": 1, "b": 2})
    assert not alike({"a": [1]}, {"a": [1, 2]})
    assert not alike(1, 2)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_what_is_said_for_curl_is_answered_so(trial: Trial):
    ran = 0
    environment = {"BRIDLE": trial.url, "TOKEN": trial.token, "PATH": "/usr/bin:/bin"}
    for script, said in SHELL.findall(HTTP):
        if "curl" not in script:
            continue
        command = ["bash", "-euc", script.replace("curl -sS", "curl -sS --fail-with-body -w '\\n'")]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if said:
            assert alike(json.loads(said), json.loads(done.stdout)), done.stdout
        ran += script.count("curl ")
    assert ran >= 6


def test_metrics_are_listed(trial: Trial):
    import httpx2

    with trial.client() as client:
        client.create("counted", arms=["x"], features=1, sigma=1.0, limits="linear")
        client.decide("counted", [1.0])
    head = {"Authorization": f"Bearer {trial.token}"}
    text = httpx2.get(f"{trial.url}/metrics", headers=head, trust_env=False).text
    told = {
        name
        for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
        if not name.endswith("_created")
    }
    assert {row[0].strip("`") for row in cells(OPERATING, "Watch it")} == told


def fill(trial: Trial) -> None:
    """The small log that docs/operating.md works on: 8 entries, 2 decisions."""
    context = {"child": True}
    with Client(trial.url, trial.token) as client:
        features = [{"kind": "flag", "name": "child"}]
        client.create("shelf", arms=["crime", "nature"], features=features, limits="rules", seed=1)
        client.teach("shelf", context, "crime", False)
        client.teach("shelf", context, "nature", True)
        for id in ("visit-1", "visit-2"):
            client.decide("shelf", context, id=id, propensity=True)
            client.reward("shelf", id, 0.5)


def test_commands_print_what_is_said(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Trial() as server:
        fill(server)
        assert CliRunner().invoke(app, ["backup", "bridle.db", "--db", server.db]).exit_code == 0
    ran = 0
    for script, said in SHELL.findall(OPERATING):
        printed = ""
        for line in script.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "bridle"
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, result.output
            printed += result.stdout
            ran += 1
        wanted = r"\S+".join(map(re.escape, said.split(ANY)))
        assert re.fullmatch(wanted, printed), printed
    assert ran >= 10
