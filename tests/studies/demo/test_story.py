from __future__ import annotations

import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from bridle.kernels import compiling
from bridle_studies.demo import story
from bridle_studies.demo.story import ARGMAX, CONTESTANTS, FILTER, Comparison, Size
from bridle_studies.environments import synthetic_movies
from bridle_studies.scaffold.waiting import patience

SMALL = Size(worlds=3, people=30, movies=300, teaching_movies=60, examples=500, steps=200)


def told(monkeypatch, seed: int = 0, *, terminal: bool = False, **options) -> str:
    monkeypatch.setattr(story, "QUICK", SMALL)
    file = io.StringIO()
    console = Console(
        file=file, width=80, highlight=False, force_terminal=terminal, color_system=None
    )
    story.demo(seed=seed, quick=True, console=console, **options)
    return file.getvalue()


def made_up(**Rc: list[float]) -> Comparison:
    """A table in which all is .3, but for the Rc of some."""
    found = Comparison(size=SMALL)
    for name in CONTESTANTS:
        for values in (found.reward, found.R, found.Rc, found.E):
            values[name] = np.full(3, 0.3)
    names = {"half": "sigma = 0.5", "argmax": ARGMAX, "filter": FILTER}
    found.Rc.update({names[key]: np.array(values) for key, values in Rc.items()})
    return found


def test_it_tells_the_whole_story_within_80_columns(monkeypatch):
    text = told(monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    for part in ("synthetic", "1. Teaching", "2. Online", "3. One agent, live", "not allowed"):
        assert part in text
    assert "150 movies with their genres" in text.split("4. The movies are the arms")[1]
    for name in CONTESTANTS:
        assert f"│ {name} " in text
    assert "\x1b" not in text
    words = " ".join(text.split())
    assert "every number is what it was before the denial" in words
    assert "decisions and questions anew: all came out the same." in words


def test_equal_seeds_tell_the_same_story(monkeypatch):
    assert told(monkeypatch, 4) == told(monkeypatch, 4) != told(monkeypatch, 5)


def test_on_a_terminal_the_progress_is_gone_at_the_end(monkeypatch):
    text = told(monkeypatch, terminal=True)
    assert "teaching and acting online" in text
    assert "\x1b[2K" in text  # the line is erased
    assert "movies come later" in text.rsplit("\x1b[2K", 1)[1]


def test_contestants_see_the_same_contexts_and_masks_never_err():
    worlds = [synthetic_movies(people=30, movies=300, seed=s) for s in range(2)]
    ticks: list[int] = []
    found, lessons = story.compare(worlds, SMALL, 0, lambda: ticks.append(1))
    again, _ = story.compare(worlds, SMALL, 0)
    assert len(ticks) == 2 * (1 + len(CONTESTANTS))
    assert [len(lesson.rows) for lesson in lessons] == [SMALL.examples] * 2
    assert lessons[0].rows.max() < SMALL.teaching_movies
    for name in CONTESTANTS:
        assert np.array_equal(found.R[name], again.R[name])
        # The best reward is the same for all, so reward + R is too.
        total = found.reward[name] + found.R[name]
        assert total == pytest.approx(found.reward[ARGMAX] + found.R[ARGMAX])
    assert not found.E[ARGMAX].any()
    assert not found.E[FILTER].any()


def test_the_reading_follows_the_numbers():
    best = story.reading(made_up(half=[0.1, 0.11, 0.12]))
    assert "sigma = 0.5 is the best of the five" in best[2]
    assert "0.190 ± 0.006 better than its argmax" in best[3]
    behind = story.reading(made_up(half=[0.2, 0.2, 0.2], argmax=[0.1, 0.1, 0.1]))
    assert "0.100 ± 0.000 worse than its argmax" in behind[3]
    level = story.reading(made_up(half=[0.1, 0.2, 0.3], filter=[0.2, 0.1, 0.3]))
    assert "level, within two standard errors (+0.000 ± 0.058), with its filter" in level[3]


def test_a_single_world_has_no_standard_error():
    assert story._plus_minus(np.array([0.25]), ".3f") == "0.250"
    assert "level" in story._beside(np.array([0.2]), np.array([0.1]))


def test_the_figure_is_written(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib", reason="is in the extras study and bench")
    out = tmp_path / "figure.png"
    assert "The figure is in" in told(monkeypatch, out=out)
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size < 150_000


@pytest.mark.parametrize("terminal", [False, True])
def test_compiling_is_explained_and_its_time_told(monkeypatch, terminal):
    class Clock:
        perf_counter = iter([0.0, 31.0]).__next__

    class Kernels:
        """Stands for numba: a kernel of ours is compiled."""

        def __init__(self, module: str) -> None:
            def kernel() -> None: ...

            kernel.__module__ = module
            self.data = {"dispatcher": SimpleNamespace(py_func=kernel)}

    monkeypatch.setattr(compiling, "_NOTICE", notice := compiling._Notice())
    monkeypatch.setattr("bridle_studies.scaffold.waiting.time", Clock)
    file = io.StringIO()
    with patience(
        Console(file=file, width=80, force_terminal=terminal, color_system=None, highlight=False)
    ):
        notice.on_start(Kernels("bridle.kernels.loop"))
        notice.on_start(Kernels("bridle.kernels.keys"))
    assert "compiling the kernels (first run only" in file.getvalue()
    assert "2 kernels took 31 s" in file.getvalue()


def test_loading_kernels_needs_no_words(monkeypatch):
    monkeypatch.setattr(compiling, "_NOTICE", compiling._Notice())
    file = io.StringIO()
    with patience(Console(file=file, width=80)):
        pass
    assert "compil" not in file.getvalue()
