from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

from bridle.errors import NotPossible
from bridle_studies.paper.claim import Claim
from bridle_studies.paper.report import write_report
from bridle_studies.paper.summary import summarise
from bridle_studies.paper.telling import agreement, in_greek, lead, reasons
from bridle_studies.paper.verdict import judge
from bridle_studies.theory import lemma
from tests.studies.frames import make

VOID = {"meta", "img", "link", "br", "hr", "input"}
CLAIMS = [
    Claim("a", "It holds", "They say so.", True, ("By 1 & 2.", "Said of every claim.")),
    Claim("b", "It does <not>", "They say so too.", False, ("By 3.", "Said of every claim.")),
    Claim("c", "Who knows", "", None, ("Said of every claim.",)),
]
MANIFEST: dict[str, Any] = {
    "study": "movies",
    "world": "movies",
    "bridle": "0.9",
    "python": "3.11.7",
    "platform": "Linux",
    "packages": {"numpy": "2.4", "ray": None},
    "settings": {"plan": {"v": 0.25, "examples": [5_000, 50_000]}, "world": {"limits": None}},
    "origin": {
        "title": "MovieLens 1M",
        "synthetic": False,
        "about": "Ratings.",
        "url": "https://grouplens.org/datasets/movielens/1m/",
        "licence": "Research only.",
        "files": {"ml-1m.zip": "ab" * 32},
        "notes": ["3 duplicate ratings: the last counts"],
    },
    "seed": 17,
    "runs": 215,
    "steps": 12_345_678,
    "seconds": 125.4,
    "engine": "processes",
    "workers": 2,
    "command": "bridle study movies --data ml-1m.zip --out out",
    "started": "2026-11-16T06:00:00+00:00",
    "quick": False,
}
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:dc="http://purl.org/dc/elements/1.1/">'
    "<title>A title</title><metadata><dc:description>Caption of {name}.\n\nIn words: {name}."
    "</dc:description></metadata></svg>"
)


class Page(HTMLParser):
    """What stands in a page: its elements, its text, and whether each end has its start."""

    def __init__(self, html):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text += f"{data} "

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def figures(folder, *names):
    found = {}
    for name in names:
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            path.write_text(SVG.format(name=name), encoding="utf-8")
            found[path.name] = path
    return found


def written(folder, results, *, manifest=MANIFEST, claims=CLAIMS, drawn=()):
    path = write_report(
        folder,
        manifest=manifest,
        results=results,
        summary=summarise(results),
        claims=claims,
        figures=figures(folder, *drawn),
    )
    assert path == folder / "report.html"
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def results():
    return make().results


@pytest.fixture(scope="module")
def html(results, tmp_path_factory):
    return written(tmp_path_factory.mktemp("report"), results, drawn=("overview", "figure1a"))


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def test_the_page_is_whole_and_says_its_language(html, page):
    assert html.lstrip().startswith("<!doctype html>")
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == len(page.all("title")) == len(page.all("main")) == 1
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(b <= a + 1 for a, b in zip([0, *levels], levels, strict=False))  # none left out
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len({*ids})
    inner = [a["href"][1:] for a in page.all("a") if a["href"].startswith("#")]
    assert {*inner} <= {*ids}


def test_nothing_is_fetched_and_nothing_runs(html, page):
    for tag, attrs in page.tags:
        assert tag not in {"script", "link", "iframe", "object", "embed", "base", "form"}
        assert not [name for name in attrs if name.startswith("on")]
        assert attrs.get("src", "data:image/svg+xml;").startswith("data:image/svg+xml;")
        assert "srcset" not in attrs
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    (policy,) = [m["content"] for m in page.all("meta") if "http-equiv" in m]
    assert policy.startswith("default-src 'none'")
    links = [a["href"] for a in page.all("a") if not a["href"].startswith("#")]
    assert links == [MANIFEST["origin"]["url"]]


def test_figures_stand_in_the_page_with_caption_and_words(page):
    images = page.all("img")
    assert [image["alt"] for image in images] == [
        "A title. In words: overview.",
        "A title. In words: figure1a.",
    ]
    body = base64.b64decode(images[1]["src"].split(",")[1])
    assert ElementTree.fromstring(body).tag.endswith("svg")
    assert "Caption of figure1a." in page.text


def test_tables_have_captions_scopes_and_the_papers_numbers(page, results):
    text = " ".join(page.text.split())
    assert "Table 1. Movies, Thompson teaching, T = 50,000" in text
    assert "Table 2. Movies, random teaching, T = 50,000" in text
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(th.get("scope") in {"col", "row", "rowgroup"} for th in page.all("th"))
    for paper in ("0.310", "787", "27,654", "4.6", "0.222"):
        assert f"paper {paper}" in text
    summary = summarise(results)
    cell = summary.row(
        by_predicate=(pl.col("teaching") == "random")
        & (pl.col("examples") == 50_000)
        & (pl.col("agent") == "sigma=0.25"),
        named=True,
    )
    assert f"{cell['R']:.3f} {cell['R_low']:.3f}–{cell['R_high']:.3f}" in text
    marks = [attrs["aria-label"] for attrs in page.all("i")]
    # Every cell of both tables has the paper's R and E: 5 N, 7 agents (both masks beside its one).
    assert len(marks) == 2 * 2 * 5 * 7
    assert {*marks} == {"agrees", "differs"}


def test_claims_come_with_verdict_and_folded_evidence(page):
    text = " ".join(page.text.split())
    assert "1 holds" in text and "1 does not hold" in text and "1 not judged" in text
    assert "(b) It does <not>" in text
    assert "By 1 & 2." in text
    assert text.count("Said of every claim.") == 1
    assert len(page.all("details")) == len(CLAIMS) + 1  # and the settings
    assert not [attrs for attrs in page.all("details") if "open" in attrs]


def test_how_it_was_done_is_told(page):
    text = " ".join(page.text.split())
    for fact in (
        "bridle study movies --data ml-1m.zip --out out",
        "MovieLens 1M",
        "Research only.",
        "ab" * 32,
        "3 duplicate ratings: the last counts",
        "plan.v 0.25",
        "plan.examples 5000, 50000",
        "world.limits none",
        "numpy 2.4",
        "12,345,678",
        "2 min 5 s",
        "seed 17",
        "processes",
    ):
        assert fact in text
    assert "ray" not in text.split("packages")[1]


def test_the_words_are_explained(page):
    said = page.text
    for word in ("σ (sigma)", "Rc", "mask", "teaching", "fold, interval"):
        assert word in said
    assert "R rewards breaking the limits" in said
    assert "Theorem 2" in said
    assert (
        "In an earlier prototype of ours, on MovieLens 1M, it is matched by filter (0.221)" in said
    )
    assert "its Table 2 says 4.6" in said


@pytest.mark.parametrize("world", ["synthetic movies", "synthetic patients"])
def test_synthetic_is_said_in_title_captions_and_tables(world, tmp_path):
    origin = {"title": world, "synthetic": True}
    manifest = {**MANIFEST, "world": world, "origin": origin}
    html = written(tmp_path, make(world).results, manifest=manifest)
    page = Page(html)
    assert "<title>Synthetic" in html
    assert "<h1>Synthetic" in html
    captions = re.findall(r"<caption><span>(.*?)</span></caption>", html)
    assert len(captions) == 2
    assert all("ynthetic" in caption for caption in captions)
    assert "These data are made up" in page.text


def test_warfarin_has_its_own_reasons_and_one_number(tmp_path):
    frames = make("warfarin")
    html = written(tmp_path, frames.results, manifest={**MANIFEST, "world": "warfarin"})
    page = Page(html)
    text = " ".join(page.text.split())
    assert "“Nearly 20,000” errors fit no reading that we tried" in text
    assert "Table 1." not in text
    assert text.count("paper 1,500") == 1
    assert "The one number that the paper gives (E = 1,500) agrees with ours (1,9" in text
    assert "Which mask the paper means" not in text


def test_a_worlds_name_is_not_markup(tmp_path):
    world = "<script>alert('1')</script> & \"me\""
    frames = make("movies", folds=1, examples=(10,), steps=50)
    results = frames.results.with_columns(pl.lit(world).alias("world"))
    hostile = f"{world}</title></style>"
    manifest = {
        **MANIFEST,
        "world": world,
        "command": hostile,
        "settings": {world: {world: hostile}},
        "origin": {
            "title": hostile,
            "url": "javascript:alert(1)",
            "files": {hostile: hostile},
            "notes": [hostile],
            "licence": hostile,
            "about": hostile,
        },
    }
    claims = [Claim(hostile, hostile, hostile, False, (hostile,))]
    html = written(tmp_path, results, manifest=manifest, claims=claims)
    page = Page(html)
    assert "script" not in {tag for tag, _ in page.tags}
    assert "javascript:" not in "".join(a["href"] for a in page.all("a"))
    assert world in page.text


def test_small_grids_and_bare_manifests_are_told(tmp_path):
    frames = make(folds=1, steps=50, teachings=("random",), examples=(10,), sigmas=(0.25, 1.0))
    html = written(tmp_path, frames.results, manifest={}, claims=[])
    page = Page(html)
    assert "1 fold" in page.text
    assert "T is 50 here and 50,000 in the paper" in page.text
    assert "paper 0" not in page.text  # nothing is set beside numbers of another size
    assert "Claims" not in page.text
    untaught = frames.results.filter(pl.col("examples").is_null())
    Page(written(tmp_path, untaught, manifest={"origin": None, "settings": [], "runs": None}))


def test_equal_input_gives_equal_bytes(html, results, tmp_path):
    assert written(tmp_path, results, drawn=("overview", "figure1a")) == html
    assert [p.name for p in tmp_path.glob(".report*")] == []


def test_what_cannot_be_read_or_written_is_said(results, tmp_path):
    rest = {"manifest": MANIFEST, "results": results, "summary": summarise(results), "claims": []}
    broken = tmp_path / "figure1a.svg"
    broken.write_text("<svg")
    with pytest.raises(NotPossible, match="is damaged"):
        write_report(tmp_path, figures={"figure1a.svg": broken}, **rest)
    with pytest.raises(NotPossible, match="cannot be read"):
        write_report(tmp_path, figures={"x.svg": tmp_path / "x.svg"}, **rest)
    with pytest.raises(NotPossible, match="cannot be written"):
        write_report(broken, figures={}, **rest)


def test_the_lead_tells_what_came_out(results):
    summary = summarise(results)
    asked, found, judged = lead(MANIFEST, results, summary, CLAIMS, "movies")
    assert "215 runs of 50,000 steps over 5 folds" in asked
    # In these frames σ = .75 with random teaching has 1,600 of 22,000 errors, and the least R.
    assert found.startswith("After 50,000 examples, σ = 0.75 with random teaching has the least")
    assert re.search(r"told the limits never does, at R = 0\.2\d\d \(argmax\) or 0\.2", found)
    agreed, compared = agreement(summary)
    assert compared == 43
    assert judged.startswith(f"{agreed} of 43 different cells")
    assert judged.endswith("of 2 claims that can be judged here 1 holds and 1 does not.")


def test_the_lead_without_reward_alone_takes_the_fewest_errors():
    results = make(examples=(50_000,), sigmas=(0.0, 0.5)).results
    _, found, *_ = lead({}, results, summarise(results), [], "movies")
    assert "σ = 0 with random teaching plays denied arms least of all" in found


def test_agreement_is_counted_as_the_paper_is_compared():
    row = {
        "teaching": "random",
        "examples": 1,
        "agent": "sigma=0.5",
        "R": 0.2,
        "E": 100.0,
        "paper_R": 0.215,
        "paper_E": 190.0,
    }
    mask = row | {"agent": "mask", "E": 0.0, "paper_E": 0.0}
    cells = pl.DataFrame(
        [
            row,
            row | {"R": 0.24, "examples": 2},
            row | {"E": 300.0, "paper_E": 100.0, "examples": 3},
            row | {"paper_R": None, "paper_E": None, "examples": 4},
            mask | {"paper_R": 0.230},  # .03 apart, but the mean of both is not
            mask | {"paper_R": 0.206, "examples": 2},
        ]
    )
    assert agreement(cells) == (2, 4)


def test_where_rc_does_not_punish_violations_that_is_said():
    frames = make("warfarin").change("Rc", pl.col("agent") == "sigma=1", 0.1)
    told = reasons(summarise(frames.results), world="warfarin", T=20_000, synthetic=False)
    (text,) = [reason.text for reason in told if reason.title.startswith("R rewards")]
    assert "a denied play costs nothing in Rc" in text
    usual = reasons(summarise(make().results), world="movies", T=50_000, synthetic=False)
    (text,) = [reason.text for reason in usual if reason.title.startswith("R rewards")]
    assert "the difference is bought with" in text


def test_cells_that_differ_are_counted_by_agent():
    frames = make().change("R", pl.col("agent") == "mask", 0.1)
    summary = summarise(frames.results)
    told = reasons(summary, world="movies", T=50_000, synthetic=False)
    (text,) = [reason.text for reason in told if reason.title == "Which cells differ"]
    agreed, compared = agreement(summary)
    assert text.startswith(
        f"{compared - agreed} of 43 different cells do not agree: 1 of mask (argmax), "
    )
    short = reasons(summarise(make(steps=500).results), world="movies", T=500, synthetic=False)
    assert "Which cells differ" not in {reason.title for reason in short}


def test_a_world_of_ones_own_is_called_so(tmp_path):
    frames = make("clinic", steps=20_000)
    manifest = {
        **MANIFEST,
        "world": "clinic",
        "origin": {"title": "clinic"},
        "settings": {"world": {}},
    }
    names = ("regret-thompson", "regret-random", "errors-thompson", "errors-random", "overview")
    html = written(tmp_path, frames.results, manifest=manifest, drawn=names)
    text = " ".join(Page(html).text.split())
    assert "<h1>Clinic: the paper’s experiment on a world of your own</h1>" in html
    assert "reproduced" not in text
    assert "we ran its experiment on a world of your own, clinic:" in text
    assert "its L(T) is" not in text  # nobody said what d is
    assert "Where we and the paper differ" not in text
    shown = [image["alt"].split("In words: ")[1] for image in Page(html).all("img")]
    assert shown == ["overview.", *(f"{name}." for name in names[:4])]  # as they were drawn


def test_the_lemma_is_computed_from_this_study(tmp_path):
    results = make("movies", steps=5_000).results
    manifest = {**MANIFEST, "settings": {"world": {"genres": ["a", "b", "c"]}}}
    text = " ".join(Page(written(tmp_path, results, manifest=manifest)).text.split())
    value = float(f"{lemma(5_000, 3, z=0.5, gamma=0.1).value:.2g}")
    assert f"With d = 3, T = 5,000, γ = 0.1 and z = 0.5 its L(T) is {value:,.0f}: more than" in text
    assert "1.7 million" not in text


def test_sigma_is_greek_and_numbers_have_a_digit_before_the_point(tmp_path):
    frames = make("warfarin")
    claims = judge(*frames)
    manifest = {**MANIFEST, "world": "warfarin"}
    text = Page(written(tmp_path, frames.results, manifest=manifest, claims=claims)).text
    words = text.split("Every setting")[0]
    assert words.count("sigma") == 1  # where σ is explained
    assert not re.search(r"(?<![\w.])\.\d", words)
    assert in_greek("more sigma, sigma=.5 or sigma = 0.5; 1.5") == (
        "more σ, σ = 0.5 or σ = 0.5; 1.5"
    )


def test_a_caveat_stands_beside_the_claim(tmp_path, results):
    claim = Claim("f-mask", "It does", "", False, ("By 1.",), caveat="not settled by 5 folds")
    text = " ".join(Page(written(tmp_path, results, claims=[claim])).text.split())
    assert "(f-mask) It does (not settled by 5 folds)" in text


def test_counts_are_told_as_counts():
    def told(E):
        frames = make(examples=(50_000,), sigmas=(0.5, 1.0), teachings=("random",))
        frames = frames.change("E", pl.col("agent") == "sigma=0.5", E)
        return lead({}, frames.results, summarise(frames.results), [], "movies")[1]

    odd = pl.when(pl.col("fold") == 0).then(12).otherwise(11)
    assert "plays a denied arm about 11 times in 50,000 steps" in told(odd)
    assert "plays a denied arm never in" in told(0)
    assert "plays a denied arm once in" in told(1)
    assert "plays a denied arm less than once in" in told((pl.col("fold") == 0).cast(pl.Int64))


def test_equal_masks_are_explained_on_warfarin():
    frames = make("warfarin")
    same = frames.results.filter(pl.col("agent") == "mask").sort("fold")["R"]
    equal = frames.change(
        "R",
        pl.col("agent") == "mask-filter",
        pl.col("fold").replace_strict(dict(enumerate(same)), return_dtype=pl.Float64),
    )

    def titles(given):
        told = reasons(summarise(given.results), world="warfarin", T=20_000, synthetic=False)
        return {reason.title for reason in told}

    assert "Both masks have the same numbers here" in titles(equal)
    assert "Both masks have the same numbers here" not in titles(frames)
    _, found, *_ = lead({}, equal.results, summarise(equal.results), [], "warfarin")
    assert "in both readings" in found


def test_small_screens_are_told_to_swipe(html):
    style = html[html.index("<style>") : html.index("</style>")]
    assert ".swipe { display: none;" in style
    assert html.count('class="swipe"') == 2 + 2  # figures and tables
