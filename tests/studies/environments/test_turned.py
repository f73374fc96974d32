"""Worlds turned round: the same people, items and limits, with items as arms."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from bridle.errors import InvalidValue
from bridle.limits import PairLimits
from bridle_studies.environments.ages import Ages
from bridle_studies.environments.exceptions import Exceptions
from bridle_studies.environments.turned import Turned
from bridle_studies.real.jobs import Real
from bridle_studies.real.methods import default_limits, default_run, newcomers
from bridle_studies.real.parts import is_whole
from bridle_studies.real.run import real
from bridle_studies.real.scope import DEFAULT, NEWCOMERS, TOLD, Job, Scene, Scope, jobs

RECIPE = Exceptions(rate=0.05, items=120, people=12)


def test_the_tables_are_those_of_the_other_way_round():
    base, world = RECIPE.world(3), Turned(RECIPE).world(3)
    assert np.array_equal(world.tables.rewards, base.tables.rewards.T)
    assert np.array_equal(world.tables.allowed, base.tables.allowed.T)
    assert np.array_equal(world.arm_rows, base.tables.contexts) and world.arm_schema == base.schema
    assert world.items is not None
    for row, (arm, band) in enumerate(zip(base.arms, world.items.tolist(), strict=True)):
        assert world.context(row) == {"band": arm.group} and base.groups[band] == arm.group
    # What is said of an arm to one of a band holds for all of it.
    for band in range(4):
        mine = world.tables.allowed[world.items == band]
        assert (mine == mine[0]).all()


def test_only_items_and_people_can_be_turned():
    with pytest.raises(InvalidValue, match="items and people"):
        Turned(Ages(None, viewers=30))
    world = Turned(RECIPE).world(0)
    with pytest.raises(InvalidValue, match="arm_rows"):
        dataclasses.replace(world, arm_rows=None)


def test_limits_are_over_pairs_and_a_run_repeats_to_the_bit():
    world = Turned(RECIPE).world(1)
    assert isinstance(default_limits(world, 1), PairLimits)
    rows = np.random.default_rng(1).integers(0, 12, 300)
    first, second = default_run(world, rows, 1), default_run(world, rows, 1)
    assert np.array_equal(first.played, second.played) and len(first.said) == len(second.said)
    assert len(first.said) > 0


def test_newcomers_are_counted():
    world = Turned(RECIPE).world(2)
    late = newcomers(world, np.random.default_rng(2).integers(0, 12, 600), 2)
    assert late["pairs"] == 24 * 4
    assert late["safe_right"] <= late["safe"] <= late["sure"] <= late["pairs"]
    assert late["right"] <= late["sure"]


def test_the_study_writes_what_came_of_newcomers(tmp_path: Path):
    scene = Scene(
        name="turned",
        recipe=Turned(RECIPE),
        steps=60,
        seeds=1,
        methods=(DEFAULT, TOLD),
        calibrated=False,
        newcomers=True,
    )
    scope = Scope(seeds=1, steps=60)
    assert [job.part for job in jobs([scene])] == [DEFAULT, TOLD, NEWCOMERS]
    work = Real([scene], scope)
    job = Job("turned", 0, NEWCOMERS)
    assert is_whole(job, work.do(job), work)
    assert not is_whole(job, {"newcomers": {}}, work)
    outcome = real([scene], scope, tmp_path / "out", engine="in-process")
    assert len(outcome.newcomers) == 1 and len(outcome.runs) == 2
    assert "came late" in (tmp_path / "out" / "report.html").read_text()
