"""The log of clicks: how it is had, read, and predicted a day ahead."""

from __future__ import annotations

import csv
import io
import math
import subprocess
import zipfile

import numpy as np
import pytest

from benchmarks import openbandit, regret
from benchmarks.openbandit import CAMPAIGNS, PATH, SHOWN, USER, WORDS

ITEMS = [
    {"item_id": str(k), "item_feature_0": f"{k - 1.5}", **dict.fromkeys(WORDS, f"w{k % 2}")}
    for k in range(4)
]


def plays(clicks):
    """Return three days of plays in reverse order; `clicks` says which are clicked."""
    rows = [
        {
            "timestamp": f"2019-11-{24 + n // 4} 0{n % 4}:00:00+00:00",
            "item_id": str(n % 4),
            "position": str(1 + n % 3),
            "click": str(int(n in clicks)),
            **dict.fromkeys(USER, f"u{n % 2}"),
        }
        for n in range(12)
    ]
    return rows[::-1]


def text(rows):
    out = io.StringIO()
    writer = csv.DictWriter(out, [*rows[0]])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


@pytest.fixture
def wheel(tmp_path):
    """A package with three small campaigns."""
    path = tmp_path / "obp-0.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as package:
        for campaign in CAMPAIGNS:
            package.writestr(PATH.format(campaign, campaign), text(plays({1, 6})))
            package.writestr(PATH.format(campaign, "item_context"), text(ITEMS))
    return path


def test_what_is_there_is_not_fetched_again(wheel, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)
    assert openbandit.fetch(wheel.parent) == wheel


def test_why_it_cannot_be_had_is_said(tmp_path, monkeypatch):
    def fails(line, **given):
        assert "--no-deps" in line and line[-1] == "obp"
        return subprocess.CompletedProcess(line, 1, "", "warning\nERROR: no network\n")

    monkeypatch.setattr(subprocess, "run", fails)
    said = openbandit.fetch(tmp_path / "none")
    assert isinstance(said, str) and "no network" in said

    def waits(line, **given):
        raise subprocess.TimeoutExpired(line, 1.0)

    monkeypatch.setattr(subprocess, "run", waits)
    assert "timed out" in str(openbandit.fetch(tmp_path / "none"))


def test_a_log_is_read_in_order_by_day(wheel):
    log = openbandit.read(wheel, "men")
    assert [len(day) for day in log.days] == [4, 4, 4]
    times = [cells["timestamp"] for day in log.days for cells in day]
    assert times == sorted(times) and len(log.items) == 4
    assert [len(day) for day in log.few(2).days] == [2, 2, 2]


def test_the_loss_of_the_constant_by_hand(wheel):
    losses = openbandit.losses(openbandit.read(wheel, "all"), openbandit.Constant)
    # One click in the four plays of the first day, two in the eight of the first two.
    clicks = np.array([0, 0, 1, 0, 0, 0, 0, 0])
    assert np.allclose(losses, np.where(clicks, -math.log(0.25), -math.log(0.75)))


def test_a_prediction_is_kept_within_what_a_log_can_say(wheel):
    class Sure(openbandit.Constant):
        def predict(self, cells):
            return -1.0

    losses = openbandit.losses(openbandit.read(wheel, "all"), Sure)
    assert losses[2] == pytest.approx(-math.log(1.0 / 4.0))
    assert losses[-1] == pytest.approx(-math.log(1.0 - 1.0 / 8.0))


@pytest.mark.parametrize("who", ["bridle", "bridle-item-features"])
def test_an_agent_predicts_what_it_learned(wheel, who):
    log = openbandit.read(wheel, "women")
    model = openbandit.MODELS[who](log, 0)
    model.learn(log.days[0])
    before = [model.predict(cells) for cells in log.days[1]]
    # A day of clicks on everything: it expects more than before, wherever it is asked.
    model.learn([{**cells, "click": "1"} for cells in log.days[0]] * 5)
    after = [model.predict(cells) for cells in log.days[1]]
    assert all(np.isfinite(before)) and min(after) > max(before)
    assert set(SHOWN) <= set(log.days[0][0])


def test_a_small_run(wheel, tmp_path):
    parts = ["--quick", "--seeds", "2", "--worlds", "open-bandit", "--who", "bridle"]
    folders = ["--cache", str(wheel.parent), "--out", str(tmp_path / "out")]
    assert regret.main([*parts, *folders]) == 0
    text = (tmp_path / "out" / "regret.json").read_text(encoding="utf-8")
    assert text.count('"open-bandit"') == 6 and text.count('"constant"') == 2
