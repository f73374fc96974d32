from __future__ import annotations

import json
from pathlib import Path

import pytest

from faults.__main__ import NEEDED, judge, main


def test_parts_that_are_not_run_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "build" / "faults.json"
    out.parent.mkdir()
    out.write_text(json.dumps({"kill9": {"kills": 7}}))
    assert main(["--only", "power_normal", "--short", "--seed", "3", "--out", str(out)]) == 0
    written = json.loads(out.read_text())
    assert written["kill9"] == {"kills": 7}
    assert written["power_normal"]["lost"] > 0
    assert written["seed"] == 3 and written["fsync_ms"] > 0 and written["machine"]
    assert "an earlier run" in capsys.readouterr().out


def test_what_must_not_be_is_told() -> None:
    good = {"cuts": 2_000, "acknowledged": 9, "lost": 0, "corrupt": 0, "examples": []}
    assert judge("power_full", good) == []
    assert judge("power_full", good | {"lost": 1}) == ["lost is 1: []"]
    assert judge("power_full", good | {"cuts": 100}) != []
    assert judge("power_full", good | {"cuts": 100}, short=True) == []
    replayed = {"kills": 100, "acknowledged": 100_000, "lost": 0, "double": 0, "examples": []}
    assert judge("kill9", replayed | {"replay_equal": True}) == []
    assert judge("kill9", replayed | {"replay_equal": False}) != []


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
    assert "no part is called 'nothing'" in capsys.readouterr().err
    assert "kill9" in NEEDED
