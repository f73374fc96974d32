"""The regret benchmark: the judge, who plays, and a small run of each world."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import bridle
from benchmarks import regret, regretreport, regretworlds
from benchmarks.regretpeers import PEERS
from benchmarks.regretreport import BARS, Curve, Row, judge, read
from benchmarks.regretworlds import World


class Fixed:
    """Plays one arm after the other, and remembers what came."""

    def __init__(self, arms):
        self.arms, self.heard, self.changed = arms, [], []

    def choose(self, context):
        return self.arms[len(self.heard) % len(self.arms)]

    def learn(self, context, arm, reward):
        self.heard.append((arm, reward))

    def change(self, leaving, coming):
        self.changed.append((len(self.heard), leaving.tolist(), coming.tolist()))


def test_regret_is_that_of_the_expected_rewards():
    world = regretworlds.drift(0, 40)
    player = Fixed([3, 5])
    regrets = regret.play(world, player)
    wanted = [world.means(t).max() - world.means(t)[[3, 5][t % 2]] for t in range(40)]
    assert regrets.tolist() == wanted
    heard = [world.reward(t, [3, 5][t % 2], world.means(t)[[3, 5][t % 2]]) for t in range(40)]
    assert [reward for _, reward in player.heard] == heard


def test_equal_plays_see_equal_rewards():
    world = regretworlds.clicks_high(0, 100)
    first, second = Fixed([4]), Fixed([4, 9])
    regret.play(world, first)
    regret.play(world, second)
    assert first.heard[::2] == second.heard[::2] and first.heard[1] != second.heard[1]


def test_the_best_arm_is_one_that_is_there():
    world = regretworlds.turnover(0, 100)
    (step, (leaving, coming)), *_ = world.changes.items()
    stays = int(np.setdiff1d(world.arms, leaving)[0])
    means = np.full(len(world.means(0)), 0.5)
    means[coming], means[leaving] = 0.8, 0.9
    flat = replace(world, means=lambda t: means, changes={step: (leaving, coming)})
    player = Fixed([stays])
    regrets = regret.play(flat, player)
    assert player.changed == [(step, leaving.tolist(), coming.tolist())]
    # What has not come yet is not the best, what is gone is so no more.
    assert np.allclose(regrets[:step], 0.4) and np.allclose(regrets[step:], 0.3)


def test_a_budget_stops_a_slow_contestant():
    world = regretworlds.drift(0, 100)
    regrets = regret.play(world, Fixed([1]), budget=0.0)
    assert len(regrets) < 100
    assert regret.rows_of(world, "slow", regrets[:0]) == []


def test_a_world_is_read_at_its_marks():
    world = regretworlds.bilinear(0, 10)
    regrets = np.arange(20_000.0)
    rows = regret.rows_of(world, "x", regrets)
    assert [(row.n, row.mean, row.second_half) for row in rows] == [
        (2_000, 999.5, 1_499.5),
        (20_000, 9_999.5, 14_999.5),
    ]
    assert [row.n for row in regret.rows_of(world, "x", regrets[:500])] == [500]
    assert [row.n for row in regret.rows_of(regretworlds.drift(0, 1), "x", regrets)] == [20_000]
    curve = regret.curve_of(world, "x", regrets[:150])
    assert curve.at == [100, 150] and curve.mean == [49.5, 74.5]


def test_nothing_is_set_but_what_all_is_allowed_stands_for():
    world = regretworlds.bilinear(0, 1)
    assert world.arm_features is not None
    contestant = regret.Bridle(world, 7)
    arms = [bridle.Arm(k, features=world.arm_features[k]) for k in range(500)]
    agent = bridle.Agent(arms=arms, features=8, arm_features=20, seed=7)
    theirs, ours = vars(agent.settings), vars(contestant.agent.settings)
    assert [*ours] == [*theirs] and ours["arms"][3].features == theirs["arms"][3].features
    # Checks are plays that a teacher judges: there are none where a policy keeps to no limits.
    others = [name for name in ours if name not in ("arms", "policy", "checks")]
    assert [repr(ours[name]) for name in others] == [repr(theirs[name]) for name in others]
    policy: Any = agent.policy
    assert contestant.agent.policy == bridle.Thompson(v=policy.v)
    assert policy.sigma == 1.0


def test_our_contestants_follow_a_catalogue():
    world = regretworlds.turnover(0, 40)
    for make in (regret.Bridle, regret.centred):
        player: Any = make(world, 0)
        assert len(regret.play(world, player)) == 40
        leaving, coming = world.changes[20]
        assert set(leaving.tolist()) <= set(player.agent.retired)
        assert set(coming.tolist()) <= {arm.id for arm in player.agent.arms}


@pytest.mark.parametrize("who", PEERS)
@pytest.mark.parametrize("name", ["drift", "turnover"])
def test_a_peer_plays(who, name):
    world = regretworlds.make(name, 0, 6)
    assert isinstance(world, World)
    try:
        player = PEERS[who](world, 0)
    except ImportError as error:
        pytest.skip(f"the extra `bench` is not installed: {error}")
    regrets = regret.play(world, player)
    assert len(regrets) == 6 and (regrets >= 0.0).all()


def row(world, who, n, mean, second_half=0.0, seed=0):
    return Row(world=world, who=who, seed=seed, n=n, mean=mean, second_half=second_half)


def test_bars_are_judged_on_whole_runs_of_the_default():
    rows = [row(world, "bridle", n, bar, bar) for (world, n), bar in BARS.items()]
    assert all(goal.reached for goal in judge(rows)) and len(judge(rows)) == len(BARS)
    worse = [replace(one, mean=2 * one.mean, second_half=2 * one.second_half) for one in rows]
    assert not any(goal.reached for goal in judge(worse))
    assert judge([replace(one, n=one.n - 1) for one in rows]) == []
    assert judge([replace(one, who="river") for one in rows]) == []


def test_drift_is_judged_by_its_second_half_and_the_price_of_forgetting():
    ours = [row("drift", "bridle", 20_000, 0.04, 0.05, seed) for seed in range(3)]
    free = [row("drift", "bridle-no-forgetting", 20_000, 0.08, 0.135, seed) for seed in range(3)]
    second, first = judge(ours + free)
    assert second.got == pytest.approx(0.05) and second.reached
    assert first.got == pytest.approx(0.03 / 0.025) and not first.reached


def test_a_log_is_judged_beside_the_constant():
    rows = [row("open-bandit", "bridle", 900, 0.03), row("open-bandit", "constant", 900, 0.02)]
    (goal,) = judge(rows)
    assert goal.got == pytest.approx(1.5) and not goal.reached


def test_a_column_takes_what_came_nearest_to_its_mark():
    rows = [row("bilinear", "vw", n, 0.1, seed=seed) for seed, n in ((0, 800), (1, 900))]
    assert [one.n for one in read(rows, "vw", "bilinear", 2_000)] == [800, 900]
    assert read(rows, "vw", "bilinear", 20_000) == []
    rows += [row("bilinear", "us", n, 0.2) for n in (2_000, 20_000)]
    assert [one.n for one in read(rows, "us", "bilinear", 20_000)] == [20_000]
    console = Console(width=150)
    with console.capture() as got:
        console.print(regretreport.table(rows))
    assert "0.1000 @850" in got.get() and "≤ 0.07" in got.get()


def test_a_small_run_of_each_world(tmp_path, monkeypatch):
    monkeypatch.setattr(regret, "QUICK", 60)
    worlds = [name for name in regretworlds.STEPS if name != "movies"]
    parts = ["--quick", "--seeds", "1", "--out", str(tmp_path), "--worlds", *worlds]
    assert regret.main([*parts, "--who", "bridle", "bridle-no-forgetting"]) == 0
    rows = json.loads((tmp_path / "regret.json").read_text(encoding="utf-8"))
    assert {one["world"] for one in rows if one["who"] == "bridle"} == set(worlds)
    assert {one["world"] for one in rows if one["who"] != "bridle"} == {"drift"}
    for one in rows:
        assert [*one] == ["world", "who", "seed", "n", "mean", "second_half"]
        assert one["n"] == 60 and 0.0 <= one["mean"] <= 1.0 and one["seed"] == 0
    curves = json.loads((tmp_path / "regret-curves.json").read_text(encoding="utf-8"))
    assert all(Curve(**one).at == [60] for one in curves)
    assert (tmp_path / "regret.png").stat().st_size > 10_000
