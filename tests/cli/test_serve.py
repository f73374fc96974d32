"""`bridle serve`: what it is started with, and a demonstration as a visitor finds it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("uvicorn", reason="the serve extra is not installed")
pytest.importorskip("uvloop", reason="the serve extra is not installed")

from bridle.cli import app
from bridle.store.sqlite import SqliteStore
from bridle.store.writer import Writer
from bridle.web import run as running
from tests.store.lives import begin


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Serve nothing; give what would have been served."""
    calls: list[Any] = []

    def run(settings: Any, **given: Any) -> None:
        calls.append((settings, given))
        given["ready"](1234)

    monkeypatch.setattr(running, "run", run)
    # Another program may have the port on this machine.
    monkeypatch.setattr(sys.modules["bridle.cli.serve"], "_check_port", lambda *_: None)
    return calls


def serve(*words: str) -> Any:
    return CliRunner().invoke(app, ["serve", *words])


def test_a_store_of_ones_own(started):
    assert "on http://127.0.0.1:1234" in serve().output
    assert "on http://[::1]:1234" in serve("--db", "x.db", "--host", "::1", "--quiet").output
    (first, given), (second, _) = started
    assert (first.db, first.access_log, given.get("beside")) == ("bridle.db", True, None)
    assert (second.db, second.access_log) == ("x.db", False)
    # An address may hold a password.
    assert "secret" not in serve("--db", "postgresql://me:secret@host/name").output


def test_a_demonstration_has_a_file_that_goes_away(started):
    found = serve("--demo")
    assert found.exit_code == 0 and "Open http://127.0.0.1:1234/" in found.output
    [(settings, given)] = started
    assert settings.db.endswith("demo.db") and not Path(settings.db).parent.exists()
    assert given["beside"] is not None and given["clock"]() > 1e9


def test_a_demonstration_goes_into_an_empty_store_only(started, tmp_path):
    new = tmp_path / "new.db"
    assert serve("--demo", "--db", str(new)).exit_code == 0
    assert new.exists() and started[0][0].db == str(new)
    used = tmp_path / "used.db"
    store = SqliteStore(used)
    writer = Writer(store, clock=lambda: 100.0)
    begin(writer)
    writer.close()
    store.close()
    before = used.read_bytes()
    refused = serve("--demo", "--db", str(used))
    assert refused.exit_code == 2 and "not empty" in refused.output
    assert used.read_bytes() == before
    assert len(started) == 1


def test_a_demonstration_is_for_this_machine(started):
    refused = serve("--demo", "--host", "0.0.0.0")
    assert refused.exit_code == 2 and "--force" in refused.output
    assert not started
    assert serve("--demo", "--host", "0.0.0.0", "--force").exit_code == 0
    alone = serve("--force")
    assert alone.exit_code == 2 and len(started) == 1


def test_what_a_visitor_finds():
    process = subprocess.Popen(
        [sys.executable, "-m", "bridle", "serve", "--demo", "--port", "0", "--quiet"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = ""
        while "Open http" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        [address] = re.findall(r"Open (http://\S+)", said)
        with urllib.request.urlopen(address, timeout=60) as answer:
            page = answer.read().decode()
        assert page.count('name="token" value="brd_') == 3
    finally:
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    assert "Traceback" not in rest
