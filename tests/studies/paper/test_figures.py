from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import matplotlib
import polars as pl
import pytest

from bridle.errors import InvalidValue, NotPossible
from bridle_studies.paper.figures import (
    draw_curves,
    draw_figures,
    draw_overview,
    nearest_examples,
    sheets,
)
from bridle_studies.scaffold.canvas import agent_label, colour, number, sort_agents, spread, styled
from tests.studies.frames import make

PNG = b"\x89PNG\r\n\x1a\n"
AGENTS = ["mask", "mask-filter", "sigma=0", "sigma=0.25", "sigma=0.5", "sigma=0.75", "sigma=1"]


def thin(frames, points=3):
    """Keep few checkpoints, the last among them: drawing is what takes time."""
    last = int(frames.curves["t"].max())
    kept = [last * i // points for i in range(1, points + 1)]
    return frames.curves.filter(pl.col("t").is_in(kept))


def sheet(name, curves, *, world="movies", synthetic=False, examples=50_000):
    found = {s.name: s for s in sheets(curves, world=world, synthetic=synthetic, examples=examples)}
    return found[name]


def by_label(axes) -> dict[str, Any]:
    return {str(line.get_label()): line for line in axes.lines}


def points(line) -> Any:
    return line.get_xydata()


@pytest.fixture(scope="module")
def movies():
    return thin(make(examples=(5_000, 50_000)), points=4)


@pytest.fixture(scope="module")
def bytes_of_movies(movies, tmp_path_factory):
    drawn = draw_figures(tmp_path_factory.mktemp("1"), movies, world="movies", synthetic=False)
    return {name: path.read_bytes() for name, path in drawn.items()}


@pytest.mark.parametrize(
    ("world", "names"),
    [
        ("movies", {"figure1a", "figure1b", "figure1d", "figure1e"}),
        ("synthetic patients", {"figure1c", "figure1f", "figure1c-random", "figure1f-random"}),
        (
            "my shop",
            {f"{what}-{how}" for what in ("regret", "errors") for how in ("random", "thompson")},
        ),
    ],
)
def test_each_figure_is_a_png_and_an_svg(world, names, tmp_path):
    curves = thin(make(world, examples=(50_000,), folds=2))
    drawn = draw_figures(tmp_path / "new", curves, world=world, synthetic=False)
    assert {*drawn} == {
        f"{name}.{kind}" for name in {*names, "overview"} for kind in ("png", "svg")
    }
    for name, path in drawn.items():
        assert path == tmp_path / "new" / name
        body = path.read_bytes()
        if path.suffix == ".png":
            assert body.startswith(PNG)
        else:
            root = ElementTree.fromstring(body)
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            addresses = (v for e in root.iter() for k, v in e.attrib.items() if k.endswith("href"))
            assert all(address.startswith("#") for address in addresses)


def test_equal_frames_give_equal_bytes_whatever_the_order_of_rows(
    movies, bytes_of_movies, tmp_path
):
    shuffled = movies.sample(fraction=1.0, shuffle=True, seed=1)
    drawn = draw_figures(tmp_path, shuffled, world="movies", synthetic=False)
    assert {name: path.read_bytes() for name, path in drawn.items()} == bytes_of_movies


def test_the_users_matplotlib_settings_neither_matter_nor_change(movies, bytes_of_movies, tmp_path):
    with matplotlib.rc_context({"font.size": 31.0, "lines.linewidth": 9.0}):
        drawn = draw_figures(tmp_path, movies, world="movies", synthetic=False)
        assert matplotlib.rcParams["font.size"] == 31.0
    assert drawn["figure1a.svg"].read_bytes() == bytes_of_movies["figure1a.svg"]


def test_a_line_an_agent_with_the_mean_over_folds(movies):
    with styled():
        axes = draw_curves(sheet("figure1b", movies)).axes[0]
    lines = by_label(axes)
    assert [name for name in lines if not name.startswith("paper")] == AGENTS
    for agent in AGENTS:
        mine = movies.filter(
            (pl.col("agent") == agent)
            & (pl.col("teaching").is_null() | (pl.col("teaching") == "random"))
            & (pl.col("examples").is_null() | (pl.col("examples") == 50_000))
        )
        means = mine.group_by("t").agg(pl.col("R").mean()).sort("t")
        t, R = points(lines[agent]).T.tolist()
        assert t == means["t"].to_list()
        assert R == pytest.approx(means["R"].to_list(), abs=1e-12)
        assert matplotlib.colors.to_hex(lines[agent].get_color()) == colour(agent)
    assert lines["mask-filter"].get_linestyle() != lines["mask"].get_linestyle()
    assert axes.get_xlabel() == "t: online steps"
    assert axes.get_ylabel() == "R(t): average regret"
    assert len(axes.collections) == len(AGENTS)  # a band each
    shown = " ".join(text.get_text() for text in axes.texts)
    assert all(agent_label(agent) in shown for agent in AGENTS)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("figure1a", [0.220, 0.288, 0.242, 0.224, 0.212, 0.182]),
        ("figure1e", [0.0, 1.0, 6.6, 200.2, 2582.4, 27541.0]),
    ],
)
def test_diamonds_stand_at_the_papers_values(movies, name, values):
    shown = sheet(name, movies)
    with styled():
        axes = draw_curves(shown).axes[0]
    diamonds = [points(line) for name, line in by_label(axes).items() if name.startswith("paper")]
    assert [line.tolist() for line in diamonds] == [[[50_000, value]] for value in values]
    assert "◇ the paper at T" in shown.subtitle
    assert "Diamonds" in shown.caption


def test_no_diamonds_where_the_paper_has_no_number():
    short = thin(make(steps=4_000, examples=(50_000,)))
    other = thin(make(examples=(20_000,)))
    for curves in (short, other):
        shown = sheet("figure1a", curves)
        with styled():
            axes = draw_curves(shown).axes[0]
        assert not [name for name in by_label(axes) if name.startswith("paper")]
        assert "◇" not in shown.subtitle


def test_errors_are_on_a_scale_that_shows_few_and_many(movies):
    with styled():
        axes = draw_curves(sheet("figure1e", movies)).axes[0]
    assert axes.get_yscale() == "symlog"
    assert axes.get_ylabel() == "E(t): denied plays (linear to 10, then log)"
    assert [tick.get_text() for tick in axes.get_yticklabels()][:5] == [
        "0",
        "10",
        "100",
        "1,000",
        "10,000",
    ]
    few = thin(make(steps=100, folds=1, examples=(50_000,), sigmas=(0.0, 0.25)))
    with styled():
        axes = draw_curves(sheet("figure1e", few)).axes[0]
    assert axes.get_yscale() == "linear"


def test_the_nearest_n_is_drawn_and_said():
    curves = thin(make(examples=(10_000, 30_000)))
    shown = sheet("figure1a", curves)
    assert shown.N == 30_000
    assert "N = 30,000 examples (nearest to 50,000)" in shown.subtitle
    assert "(nearest to 50,000)" in shown.caption
    assert nearest_examples(curves, 1) == 10_000
    assert nearest_examples(curves.filter(pl.col("examples").is_null()), 50_000) is None


def test_synthetic_is_said_in_every_title_and_caption():
    for world, synthetic in (("synthetic movies", True), ("my shop", True), ("movies", False)):
        curves = thin(make(world, folds=1, examples=(50_000,)))
        for shown in sheets(curves, world=world, synthetic=synthetic, examples=50_000):
            assert ("synthetic" in shown.title.lower()) is synthetic
            assert ("not real data" in shown.caption) is synthetic


def test_random_teaching_of_warfarin_is_called_ours():
    curves = thin(make("warfarin", folds=2, examples=(50_000,)))
    assert (
        "which the paper does not show"
        in sheet("figure1c-random", curves, world="warfarin").caption
    )
    assert "Figure 1c." in sheet("figure1c", curves, world="warfarin").caption


def test_a_world_of_ones_own_has_no_figures_that_the_paper_numbers():
    curves = thin(make("my shop", folds=2, examples=(50_000,)))
    found = [*sheets(curves, world="my shop", synthetic=False, examples=50_000)]
    assert [s.name for s in found] == [
        "regret-thompson",
        "regret-random",
        "errors-thompson",
        "errors-random",
        "overview",
    ]
    for shown in found:
        assert "Figure" not in shown.caption
        assert "which the paper does not show" not in shown.caption
    assert all(s.caption.startswith("My shop, ") for s in found[:4])


def overlap(axes, figure):
    """Give pairs of names that cover each other."""
    figure.canvas.draw()
    boxes = [(t.get_text(), t.get_window_extent()) for t in axes.texts if t.get_text()]
    return [(a, b) for (a, x), (b, y) in combinations(boxes, 2) if x.overlaps(y)]


def test_points_in_a_crowd_are_named_beside_it_and_all_are_seen():
    curves = thin(make("warfarin", examples=(50_000,)))
    for agent, R, E in (
        ("sigma=0.5", 0.37, 4_700),
        ("sigma=0.75", 0.343, 4_900),
        ("sigma=1", 0.336, 4_915),
    ):
        off = pl.when(pl.col("teaching") == "random").then(-0.004).otherwise(0.0)
        this = pl.col("agent") == agent
        curves = curves.with_columns(
            R=pl.when(this).then(R + off + 0.001 * pl.col("fold")).otherwise("R"),
            E=pl.when(this).then(E).otherwise("E"),
        )
    shown = sheet("overview", curves, world="warfarin")
    with styled():
        figure = draw_overview(shown)
        axes = figure.axes[0]
        assert overlap(axes, figure) == []
        names = [text.get_text() for text in axes.texts if text.get_text()]
        assert {"σ = 0.75 (Thompson)", "σ = 0.75 (random)", "σ = 1"} <= {*names}
        # Beside the crowd, not on it, and within the figure.
        rightmost = axes.transData.transform((4_915, 0.336))[0]
        for text in (t for t in axes.texts if t.get_text() == "σ = 0.75 (Thompson)"):
            box = text.get_window_extent()
            assert rightmost < box.x0
            assert box.x1 < figure.bbox.x1
    # Drawn from the end of the dial back, each smaller than what it covers.
    sizes = [
        line.get_markersize()
        for line in axes.lines
        if str(line.get_label()) in ("_sigma=1", "_sigma=0.75")
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert len({*sizes}) == 3


def test_the_overview_has_a_path_for_each_teaching_and_both_masks(movies):
    shown = sheet("overview", movies)
    with styled():
        figure = draw_overview(shown)
    axes = figure.axes[0]
    paths = {name: line for name, line in by_label(axes).items() if not name.startswith("_")}
    assert [*paths] == ["Thompson teaching", "random teaching"]
    for line in paths.values():
        assert len(points(line)) == 5  # the five positions of the dial
    texts = [text.get_text() for text in axes.texts]
    assert texts.count("σ = 0.25") == 2
    assert texts.count("σ = 1") == 1  # it stands in both paths
    assert {"mask (argmax)", "mask (filter)"} <= {*texts}
    assert "σ = 0.5 after random teaching: R = " in shown.words


def test_small_grids_are_drawn(tmp_path):
    frames = make(folds=1, steps=50, teachings=("random",), examples=(10,), sigmas=(0.25, 1.0))
    drawn = draw_figures(tmp_path, frames.curves, world="movies", synthetic=False)
    assert {*drawn} == {
        f"{name}.{kind}" for name in ("figure1b", "figure1e", "overview") for kind in ("png", "svg")
    }
    assert "one fold" in sheet("figure1b", frames.curves).subtitle
    untaught = frames.curves.filter(pl.col("examples").is_null() & (pl.col("t") == 50))
    assert {*draw_figures(tmp_path, untaught, world="movies", synthetic=False)} == {
        "overview.png",
        "overview.svg",
    }


def test_one_fold_has_no_bands():
    curves = thin(make(folds=1, examples=(50_000,)))
    with styled():
        assert not draw_curves(sheet("figure1a", curves)).axes[0].collections


def test_the_band_of_two_folds_goes_from_one_to_the_other():
    curves = thin(make(folds=2, examples=(50_000,)))
    shown = sheet("figure1a", curves)
    assert "band: from one to the other" in shown.subtitle
    mine = curves.filter(agent="sigma=0.25", teaching="thompson").group_by("t")
    cells = shown.cells.filter(agent="sigma=0.25")
    for name, most in (("low", pl.col("R").min()), ("high", pl.col("R").max())):
        expected = mine.agg(most).sort("t")["R"].to_list()
        assert cells[f"R_{name}"].to_list() == pytest.approx(expected, abs=1e-12)


def test_wide_bands_do_not_press_the_lines_together():
    curves = thin(make(folds=4, examples=(50_000,)))
    R = curves["R"].to_list()
    away = {0: 50.0, 1: -50.0, 2: 0.0, 3: 0.0}
    apart = pl.col("fold").replace_strict(away) * (pl.col("agent") == "sigma=0.25")
    with styled():
        shown = sheet("figure1a", curves.with_columns(pl.col("R") + apart))
        low, high = draw_curves(shown).axes[0].get_ylim()
    assert high - low < 2.5 * (max(R) - min(R))


def test_names_of_worlds_are_drawn_as_they_are(tmp_path):
    world = "a $\\frac{1}{0}$ & <b> \x01 世界 " + "long " * 40
    curves = thin(make("movies", folds=1, examples=(50_000,)))
    curves = curves.with_columns(pl.lit(world).alias("world"))
    drawn = draw_figures(tmp_path, curves, world=world, synthetic=False)
    root = ElementTree.fromstring(drawn["overview.svg"].read_bytes())
    title = root.findtext("{http://www.w3.org/2000/svg}title", "")
    assert title.startswith("A $\\frac{1}{0}$ & <b>   世界 long")
    assert len(title) < 90


def test_what_cannot_be_drawn_is_said(movies, tmp_path):
    with pytest.raises(InvalidValue, match="one of the curves' \\('movies'\\)"):
        draw_figures(tmp_path, movies, world="warfarin", synthetic=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotPossible, match="cannot be written"):
        draw_figures(tmp_path / "file", movies, world="movies", synthetic=False)


def test_labels_are_moved_apart_and_stay_in_order_and_inside():
    wanted = [0.0, 0.0, 0.01, 0.5, 0.99, 1.0, 1.0]
    placed = spread(wanted, gap=0.06, low=0.0, high=1.0)
    assert placed == sorted(placed)
    assert min(b - a for a, b in pairwise(placed)) >= 0.06 - 1e-12
    assert 0.0 <= placed[0] <= placed[-1] <= 1.0 + 1e-12
    assert placed[3] == 0.5  # it has room
    many = spread([0.5] * 40, gap=0.06, low=0.0, high=1.0)  # no room for such gaps
    assert -1e-9 <= min(many) <= max(many) <= 1.0 + 1e-9
    assert spread([], gap=0.1, low=0.0, high=1.0) == []


def test_agents_have_an_order_a_label_and_a_colour():
    assert sort_agents(["sigma=1", "uniform", "sigma=0.05", "mask-filter", "mask"]) == [
        "mask",
        "mask-filter",
        "sigma=0.05",
        "sigma=1",
        "uniform",
    ]
    assert len({colour(agent) for agent in AGENTS}) == len(AGENTS)
    assert colour("sigma=0.1") not in {colour(agent) for agent in AGENTS}
    assert colour("uniform") == colour("mask")
    assert colour("TopFew@1") not in {colour(agent) for agent in AGENTS}
    assert [number(E, "E") for E in (0.0, 6.6, 348.6, 22006.8)] == ["0", "6.6", "349", "22,007"]
