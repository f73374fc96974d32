from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from bridle.errors import InvalidValue, NotPossible
from bridle_studies.paper.published import agrees
from bridle_studies.paper.summary import (
    COLUMNS,
    Cell,
    Runs,
    beside_the_paper,
    interval,
    paired,
    summarise,
)
from tests.studies.frames import SIGMAS, make

LISTED = (
    "world, teaching, examples, agent, R, R_low, R_high, E, E_low, E_high, Rc, paper_R, paper_E"
)


def width(found):
    return found.high - found.low


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_is_that_of_scipy(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(3.0, 2.0, int(rng.integers(2, 12)))
    found = interval(values)
    low, high = stats.t.interval(0.95, len(values) - 1, values.mean(), stats.sem(values))
    assert found.mean == pytest.approx(values.mean(), rel=1e-12)
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9)
    assert found.count == len(values)


def test_an_interval_of_equal_numbers_of_one_and_of_none():
    same = interval([0.1] * 3)
    assert (same.low, same.high) == pytest.approx((0.1, 0.1))
    alone = interval([0.1])
    assert (alone.low, alone.high) == (None, None)
    assert not alone.below
    assert not alone.above
    with pytest.raises(InvalidValue, match="at least one number"):
        interval([])


def test_an_interval_stops_at_its_floor():
    assert (interval([0.0, 0.0, 9.0]).low or 0.0) < 0.0
    assert interval([0.0, 0.0, 9.0], floor=0.0).low == 0.0


def test_below_and_above_mean_all_of_it():
    assert interval([-1.0, -1.1, -0.9]).below
    assert interval([1.0, 1.1, 0.9]).above
    straddling = interval([-1.0, 1.5])
    assert not straddling.below
    assert not straddling.above


def test_the_long_form_has_the_columns_asked_for_and_a_row_a_cell():
    found = summarise(make().results)
    assert ", ".join(found.columns) == LISTED
    assert dict(found.schema) == dict(COLUMNS)
    assert len(found) == 2 * 5 * 7
    agents = ["mask", "mask-filter", *(f"sigma={s:g}" for s in SIGMAS)]
    order = [
        (t, N, a)
        for t in ("random", "thompson")
        for N in (5_000, 10_000, 50_000, 75_000, 100_000)
        for a in agents
    ]
    assert found.select("teaching", "examples", "agent").rows() == order


def test_the_numbers_are_means_over_folds():
    results = make().results
    found = summarise(results)
    chosen = (pl.col("teaching") == "thompson") & (pl.col("examples") == 10_000)
    for agent in ("sigma=0", "sigma=0.75"):
        values = results.filter(chosen & (pl.col("agent") == agent))
        row = found.filter(chosen & (pl.col("agent") == agent)).row(0, named=True)
        for measure in ("R", "E", "Rc"):
            assert row[measure] == pytest.approx(values[measure].mean())
        for measure in ("R", "E"):
            numbers = values[measure].to_numpy().astype(float)
            ends = stats.t.interval(0.95, 4, numbers.mean(), stats.sem(numbers))
            assert (row[f"{measure}_low"], row[f"{measure}_high"]) == pytest.approx(ends)


def test_what_ran_once_stands_in_every_cell():
    found = summarise(make().results)
    for agent in ("mask", "mask-filter", "sigma=1"):
        rows = found.filter(pl.col("agent") == agent)
        assert len(rows) == 10
        assert rows["R"].n_unique() == rows["E"].n_unique() == 1
        assert rows["paper_R"].n_unique() > 1


def test_ends_are_not_below_zero():
    frames = make().change("E", pl.col("agent") == "sigma=0", pl.col("fold") // 4)
    found = summarise(frames.results).filter(pl.col("agent") == "sigma=0")
    assert (found["E"] == 0.2).all()
    assert (found["E_low"] == 0.0).all()


@pytest.mark.parametrize("world", ["movies", "synthetic movies"])
def test_the_papers_numbers_stand_beside_the_movies(world):
    found = summarise(make(world, examples=(5_000, 7_000)).results)
    at = found.filter((pl.col("teaching") == "random") & (pl.col("agent") == "sigma=0.25"))
    assert at["paper_R"].to_list() == [0.275, None]
    assert at["paper_E"].to_list() == [258.4, None]
    masks = found.filter(pl.col("agent").str.starts_with("mask") & (pl.col("examples") == 5_000))
    assert masks["paper_R"].to_list() == [0.215, 0.215, 0.214, 0.214]
    assert masks["paper_E"].to_list() == [0.0] * 4


@pytest.mark.parametrize(("world", "count"), [("warfarin", 1), ("my world", 0)])
def test_other_worlds_have_what_the_paper_says_of_them(world, count):
    found = summarise(make(world).results)
    assert found["paper_R"].null_count() == len(found)
    assert found["paper_E"].drop_nulls().to_list() == [1_500.0] * count


def test_a_run_of_other_length_has_no_number_of_the_paper_beside_it():
    found = summarise(make(steps=5_000).results)
    assert found["paper_E"].null_count() == len(found)


def test_a_single_fold_has_no_ends():
    found = summarise(make(folds=1, examples=(50,), teachings=("random",)).results)
    assert found.select("R_low", "R_high", "E_low", "E_high").null_count().row(0) == (7,) * 4
    assert found["R"].null_count() == 0


def test_missing_cells_are_left_out():
    gone = (pl.col("teaching") == "random") & (pl.col("examples") == 5_000)
    frames = make().only(~gone.fill_null(False) | (pl.col("agent") == "sigma=0"))
    found = summarise(frames.results)
    here = found.filter((pl.col("teaching") == "random") & (pl.col("examples") == 5_000))
    assert here["agent"].to_list() == ["mask", "mask-filter", "sigma=0", "sigma=1"]
    frames = make().only(~gone.fill_null(False))
    assert len(summarise(frames.results)) == 63


def test_without_teaching_the_masks_and_sigma_one_stand_alone():
    found = summarise(make(teachings=(), examples=(50,)).results)
    assert found["agent"].to_list() == ["mask", "mask-filter", "sigma=1"]
    assert found["teaching"].to_list() == [None] * 3


def test_pairing_takes_out_what_the_folds_share():
    results = make().results
    one, two = Cell("random", 5_000, "sigma=0.25"), Cell("random", 5_000, "sigma=0.5")
    found = paired(results, one, two, "R")
    assert found is not None
    values = [
        results.filter(
            (pl.col("agent") == cell.agent)
            & (pl.col("examples") == 5_000)
            & (pl.col("teaching") == "random")
        )
        .sort("fold")["R"]
        .to_numpy()
        for cell in (one, two)
    ]
    ends = stats.ttest_rel(*values).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    alone = interval(values[0])
    assert width(found) < width(alone)


def test_pairing_uses_the_folds_that_both_have_and_rows_in_any_order():
    results = make().results.sample(fraction=1.0, shuffle=True, seed=1)
    one, mask = Cell("random", 5_000, "sigma=0.25"), Cell("random", 5_000, "mask")
    whole = paired(results, one, mask, "R")
    assert whole == paired(make().results, one, mask, "R")
    fewer = results.filter((pl.col("agent") != "mask") | (pl.col("fold") != 2))
    some = paired(fewer, one, mask, "R")
    assert some is not None
    assert some.count == 4
    assert paired(results, one, Cell("random", 6_000, "sigma=0"), "R") is None
    assert paired(results, one, mask, "blend_regret") is None  # null for masks


def test_agents_are_found_by_their_sigma():
    runs = Runs(make().results)
    assert runs.agent(0.25) == "sigma=0.25"
    assert runs.agent(0.3) == "sigma=0.3"
    assert runs.sigmas == SIGMAS


def test_results_that_cannot_be_are_refused():
    results = make(examples=(50,), folds=2).results
    with pytest.raises(NotPossible, match="not one run is finished"):
        summarise(results.clear())
    with pytest.raises(InvalidValue, match="one without Rc"):
        summarise(results.drop("Rc"))
    with pytest.raises(InvalidValue, match="two of fold 0"):
        summarise(pl.concat([results, results]))
    with pytest.raises(InvalidValue, match="one value of 'world'"):
        summarise(pl.concat([results, make("warfarin", steps=50_000).results]))
    with pytest.raises(InvalidValue, match="one value of 'steps'"):
        summarise(pl.concat([results, make(steps=10).results]))
    with pytest.raises(InvalidValue, match="value in every row of 'R'"):
        summarise(results.with_columns(R=pl.lit(None, pl.Float64)))
    with pytest.raises(InvalidValue, match="finite numbers in 'R'"):
        summarise(results.with_columns(R=pl.lit(float("nan"))))
    with pytest.raises(InvalidValue, match="with numbers in 'R'"):
        summarise(results.with_columns(R=pl.lit("many")))


def test_different_cells_count_what_ran_once_once():
    summary = summarise(make().results)
    cells = beside_the_paper(summary)
    assert len(cells) == 2 * 5 * 4 + 3
    (mask,) = [cell for cell in cells if cell.agent == "mask"]
    rows = summary.filter(pl.col("agent") == "mask")
    assert mask.paper.R == pytest.approx(rows["paper_R"].mean())
    assert rows["R"][0] == mask.R
    assert mask.agrees == agrees(mask.R, 0.0, mask.paper)
    assert len(beside_the_paper(summarise(make("warfarin").results))) == 1
    assert beside_the_paper(summarise(make("my shop").results)) == []
