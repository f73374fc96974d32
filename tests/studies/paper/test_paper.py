from __future__ import annotations

import pytest

from bridle_studies.paper.published import (
    MOVIES,
    PAPER_EXAMPLES,
    PAPER_SIGMAS,
    Figures,
    agrees,
    paper_movies,
    paper_warfarin,
    prototype,
    prototype_movies,
    prototype_warfarin,
    published,
)

AGENTS = ("mask", *(f"sigma={sigma:g}" for sigma in PAPER_SIGMAS))

# As printed: SPEC 5, to be read beside it.
TABLES = {
    "thompson": """
5K   .214 | .310 787.4 | .279 572.0 | .240 878.0 | .204 4834.2 | .176 22006.8
10K  .216 | .274 296.0 | .240 231.8 | .212 423.2 | .191 2325.8 | .178 24706.2
50K  .220 | .288 322.2 | .242 348.6 | .224 525.0 | .212 2198.4 | .182 23390.4
75K  .213 | .316 224.2 | .248 180.0 | .235 308.4 | .227 2278.6 | .178 23611.8
100K .207 | .284 489.0 | .220 542.4 | .206 734.2 | .201 2412.6 | .171 22900.0
""",
    "random": """
5K   .215 | .293 177.2 | .275 258.4 | .241 646.2 | .201 3044.8 | .179 24155.2
10K  .224 | .283 32.2 | .263 31.2 | .228 201.8 | .187 1986.6 | .183 27502.8
50K  .222 | .289 1.0 | .245 6.6 | .205 200.2 | .183 2582.4 | .182 27541.0
75K  .220 | .284 0.2 | .229 5.8 | .204 265.8 | .179 2433.8 | .181 27499.0
100K .229 | .277 0.0 | .222 4.6 | .193 212.0 | .181 2416.6 | .181 27654.2
""",
}
# SPEC 9; sigma = 1 is printed once.
PROTOTYPE = {
    "random": """
5K   .280 410  | .257 384 | .220 594 | .190 2516
10K  .285 103  | .250 88  | .211 279 | .184 2120
50K  .288 0    | .216 1   | .190 125 | .177 1681
75K  .283 0    | .216 .8  | .191 119 | .176 1760
100K .286 0    | .214 1   | .185 124 | .177 1610
""",
    "thompson": """
5K   .292 1774 | .253 1569| .226 1864| .205 4037
10K  .291 920  | .243 807 | .217 1214| .201 3071
50K  .297 378  | .223 366 | .207 692 | .194 2351
75K  .298 358  | .220 357 | .205 661 | .193 2329
100K .298 347  | .219 356 | .204 647 | .190 2207
""",
}


def printed(text):
    for line in text.strip().splitlines():
        first, rest = line.split(maxsplit=1)
        yield (
            int(first[:-1]) * 1_000,
            [[float(x) for x in part.split()] for part in rest.split("|")],
        )


@pytest.mark.parametrize("teaching", TABLES)
def test_every_number_of_the_papers_tables_is_there(teaching):
    seen = 0
    for N, parts in printed(TABLES[teaching]):
        parts[0].append(0.0)  # the mask never errs
        for agent, (R, E) in zip(AGENTS, parts, strict=True):
            assert paper_movies(teaching, N, agent) == (R, E)
            seen += 1
        assert paper_movies(teaching, N, "mask-filter") == paper_movies(teaching, N, "mask")
    assert seen == 30


@pytest.mark.parametrize("teaching", PROTOTYPE)
def test_every_number_of_the_prototype_is_there(teaching):
    seen = 0
    for N, parts in printed(PROTOTYPE[teaching]):
        for agent, (R, E) in zip(AGENTS[1:], parts, strict=False):
            assert prototype_movies(teaching, N, agent) == (R, E)
            seen += 1
        assert prototype_movies(teaching, N, "sigma=1") == (0.166, 22_360)
        assert prototype_movies(teaching, N, "mask") == (0.168, 0)
        assert prototype_movies(teaching, N, "mask-filter") == (0.221, 0)
    assert seen == 20


@pytest.mark.parametrize(
    "cell",
    [
        ("random", 7_000, "sigma=0"),
        ("greedy", 5_000, "sigma=0"),
        (None, None, "mask"),
        ("random", 5_000, "sigma=0.1"),
        ("random", 5_000, "nobody"),
        ("random", None, "sigma=0"),
    ],
)
def test_what_was_not_printed_is_none(cell):
    assert paper_movies(*cell) is None
    assert prototype_movies(*cell) is None
    assert paper_warfarin(*cell) is None


def test_warfarin_has_one_number_of_the_paper_and_four_of_the_prototype():
    everything = [
        (t, N, a) for t in TABLES for N in PAPER_EXAMPLES for a in (*AGENTS, "mask-filter")
    ]
    said = [cell for cell in everything if paper_warfarin(*cell)]
    assert said == [("thompson", 50_000, "sigma=0.25")]
    assert paper_warfarin(*said[0]) == (None, 1_500)
    assert prototype_warfarin("thompson", 50_000, "sigma=0.25") == (0.523, 1_910)
    assert prototype_warfarin("random", 50_000, "sigma=0.25") == (0.683, 12)
    assert prototype_warfarin("random", 5_000, "sigma=1") == (0.329, 4_862)
    assert prototype_warfarin(None, None, "mask") == (0.496, 0)
    assert prototype_warfarin(None, None, "sigma=0.25") is None


def test_the_paper_stands_beside_its_own_number_of_steps_only():
    for world in MOVIES:
        assert published(world, 50_000, "random", 5_000, "sigma=0") == (0.293, 177.2)
        assert published(world, 20_000, "random", 5_000, "sigma=0") is None
    for world in ("warfarin", "synthetic patients"):
        assert published(world, 20_000, "thompson", 50_000, "sigma=0.25") == (None, 1_500)
        assert published(world, 20_000, "random", 5_000, "sigma=0") is None
    assert published("my shop", 50_000, "random", 5_000, "sigma=0") is None


@pytest.mark.parametrize(
    ("world", "data", "found"),
    [
        ("movies", "MovieLens 1M", True),
        ("movies", "ml-1m.zip", True),
        ("movies", "MovieLens 10M", False),
        ("movies", "", False),
        ("synthetic movies", "MovieLens 1M", False),
    ],
)
def test_the_prototype_stands_beside_the_data_it_ran_on(world, data, found):
    assert (prototype(world, data, 50_000, "random", 5_000, "sigma=0") is not None) == found
    assert prototype(world, data, 49_999, "random", 5_000, "sigma=0") is None


def test_the_prototype_on_warfarin():
    cell = ("thompson", 50_000, "sigma=0.25")
    assert prototype("warfarin", "IWPC", 20_000, *cell) == (0.523, 1_910)
    assert prototype("synthetic patients", "", 20_000, *cell) is None


@pytest.mark.parametrize(
    ("R", "E", "figures", "same"),
    [
        (0.308, 100, Figures(0.288, 100.0), True),  # .02 apart, up to rounding
        (0.3081, 100, Figures(0.288, 100.0), False),
        (0.288, 20, Figures(0.288, 0.0), True),
        (0.288, 21, Figures(0.288, 0.0), False),
        (0.288, 200, Figures(0.288, 100.0), True),
        (0.288, 201, Figures(0.288, 100.0), False),
        (0.288, 50, Figures(0.288, 100.0), True),
        (0.288, 49, Figures(0.288, 100.0), False),
        (0.9, 1_600, Figures(None, 1_500.0), True),
        (0.288, 10_000, Figures(0.288, None), True),
    ],
)
def test_agreement(R, E, figures, same):
    assert agrees(R, E, figures) is same
