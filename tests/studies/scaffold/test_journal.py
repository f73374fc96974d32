from __future__ import annotations

import contextlib
import json

import pytest

from bridle.errors import NotPossible
from bridle_studies.paper.parts import PaperParts
from bridle_studies.paper.run import FILES
from bridle_studies.paper.work import Work, jobs
from bridle_studies.scaffold.journal import FACTS, Journal, JsonParts, file_name
from tests.studies.small import PLAN, RECIPE, bits, by_hand


def journal_of(*arguments, **options):
    return Journal(*arguments, files=FILES, parts=PaperParts(), **options)


def opened(*arguments, **options):
    return contextlib.closing(journal_of(*arguments, **options))


@pytest.fixture
def given():
    """Make journals that are closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(opened(*arguments))


@pytest.fixture(scope="module")
def results():
    taught, ran = by_hand(Work(RECIPE, PLAN))
    return {**taught, **ran}


def test_what_was_saved_comes_back(given, tmp_path, results):
    journal = given(tmp_path / "out", "mark")
    for job in (every := [job for part in jobs(PLAN) for job in part]):
        assert journal.load(job) is None
        journal.save(job, results[job.key])
    journal.close()
    again = given(tmp_path / "out", "mark")
    for job in every:
        assert bits(again.load(job)) == bits(results[job.key])
    assert not list((tmp_path / "out" / "parts").glob("*.tmp"))
    again.clear()
    assert not (tmp_path / "out" / "parts").exists()


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 nonsense", None])
def test_a_damaged_part_counts_as_not_there(given, tmp_path, results, damage):
    journal = given(tmp_path, "mark")
    classes, batches = jobs(PLAN)
    for job in (classes[0], batches[3]):
        journal.save(job, results[job.key])
        path = tmp_path / "parts" / f"job-{job.key}.npz"
        path.write_bytes(path.read_bytes()[:-50] if damage is None else damage)
        assert journal.load(job) is None


def test_a_part_of_another_shape_counts_as_not_there(given, tmp_path, results):
    journal = given(tmp_path, "mark")
    classes, batches = jobs(PLAN)
    journal.save(batches[0], results[batches[0].key])
    part = tmp_path / "parts" / f"job-{batches[0].key}.npz"
    part.rename(part.with_name(f"job-{batches[-1].key}.npz"))  # three agents for two
    assert journal.load(batches[-1]) is None
    journal.save(classes[0], results[classes[0].key])
    part = tmp_path / "parts" / f"job-{classes[0].key}.npz"
    part.rename(part.with_name(f"job-{batches[1].key}.npz"))
    assert journal.load(batches[1]) is None


def test_another_study_is_refused_until_told_otherwise(tmp_path, results):
    job = jobs(PLAN)[1][0]
    with opened(tmp_path, "mark") as journal:
        journal.save(job, results[job.key], 12.5)
    with pytest.raises(NotPossible, match=r"holds another study .*--fresh"):
        journal_of(tmp_path, "other")
    with opened(tmp_path, "mark") as journal:
        assert journal.load(job) is not None and journal.seconds == 12.5
    with opened(tmp_path, "other", fresh=True) as journal:
        assert journal.load(job) is None and journal.seconds == 0.0


def test_a_part_of_another_study_counts_as_not_there(tmp_path, results):
    job = jobs(PLAN)[1][0]
    with opened(tmp_path / "one", "mark") as one, opened(tmp_path / "two", "other") as two:
        one.save(job, results[job.key])
        two.save(job, results[job.key])
        (tmp_path / "one" / "parts" / f"job-{job.key}.npz").replace(
            tmp_path / "two" / "parts" / f"job-{job.key}.npz"
        )
        assert two.load(job) is None


def test_a_folder_belongs_to_one_process_at_a_time(tmp_path):
    with opened(tmp_path, "mark"), pytest.raises(NotPossible, match=r"writing into .* right now"):
        journal_of(tmp_path, "mark")
    with opened(tmp_path, "mark", fresh=True):
        pass
    assert not list(tmp_path.iterdir())


def test_files_of_others_are_left_alone(tmp_path, results):
    (tmp_path / "parts").mkdir()
    mine = tmp_path / "parts" / "mine.txt"
    mine.write_text("precious")
    job = jobs(PLAN)[1][0]
    with opened(tmp_path, "mark") as journal:
        journal.save(job, results[job.key])
        journal.clear()
    assert mine.read_text() == "precious" and len(list((tmp_path / "parts").iterdir())) == 1
    report = tmp_path / "report.html"
    report.write_text("mine too")
    with pytest.raises(NotPossible, match=r"would overwrite, 'report\.html' among them"):
        journal_of(tmp_path, "mark")
    assert report.read_text() == "mine too"
    with opened(tmp_path, "mark", fresh=True):
        assert not report.exists() and mine.exists()


def test_a_finished_study_is_known_by_its_manifest(tmp_path):
    with opened(tmp_path, "mark") as journal:
        assert not journal.finished()
        for name in (*FILES.results, "manifest.json"):
            (tmp_path / name).write_bytes(b"{}")
        assert not journal.finished()
        manifest: dict[str, object] = {"fingerprint": "mark"}
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        assert not journal.finished()  # of what study, it does not say
        manifest |= dict.fromkeys(FACTS)
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        assert journal.finished()
    with pytest.raises(NotPossible, match="holds another study"):
        journal_of(tmp_path, "other")
    (tmp_path / "figure1c.png").write_bytes(b"")
    with opened(tmp_path, "other", fresh=True) as fresh:
        assert not fresh.finished()
        assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_file_in_the_way_is_said(tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(NotPossible, match=r"is a file\. Give a folder"):
        journal_of(tmp_path / "out", "mark")
    with pytest.raises(NotPossible, match="cannot be used"):
        journal_of(tmp_path / "out" / "below", "mark")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(NotPossible, match="cannot be used"):
        journal_of(tmp_path / "loop" / "out", "mark")


def test_starting_anew_removes_what_another_study_says_it_wrote_and_no_more(tmp_path):
    for name in ("frontier.csv", "mine.txt", "results.parquet"):
        (tmp_path / name).write_bytes(b"")
    outside = tmp_path.parent / "outside.txt"
    outside.write_text("precious")
    written = ["frontier.csv", "../outside.txt", "manifest.json", "", 3]
    (tmp_path / "manifest.json").write_text(json.dumps({"fingerprint": "x", "written": written}))
    with opened(tmp_path, "mark", fresh=True):
        assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "mine.txt"]
    assert outside.read_text() == "precious"


def test_the_manifest_is_written_last_and_names_the_files(tmp_path, results):
    job = jobs(PLAN)[1][0]
    with opened(tmp_path, "mark") as journal:
        journal.save(job, results[job.key])
        (tmp_path / "results.parquet").write_bytes(b"")
        (tmp_path / "mine.txt").write_bytes(b"")
        journal.finish({"fingerprint": "mark"})
    manifest = json.loads((tmp_path / "manifest.json").read_bytes())
    assert manifest["written"] == ["manifest.json", "results.parquet"]
    assert not (tmp_path / "parts").exists()


class _Job(tuple):
    key = property(lambda self: file_name(*self))


def test_results_as_json_come_back_if_they_are_whole_and_of_this_study(tmp_path):
    parts = JsonParts(
        lambda job, result: result["n"] >= 0,
        to_json=lambda result: {"n": result["n"] + 1},
        from_json=lambda value: {"n": value["n"] - 1},
    )
    job = _Job(("a world", 3))
    data = parts.encode(job, {"n": 7}, "mark")
    assert parts.decode(job, data, "mark") == {"n": 7}
    assert parts.decode(job, data, "other") is None
    assert parts.decode(_Job(("a world", 4)), data, "mark") is None
    assert parts.decode(job, parts.encode(job, {"n": -2}, "mark"), "mark") is None
    for damaged in (b"", b"{", b"[]", b"{}", data.replace(b'"n"', b'"m"')):
        assert parts.decode(job, damaged, "mark") is None


def test_no_two_jobs_share_a_file():
    cases = [("a,b", "c"), ("a", "b,c"), ("a/b", "c"), ("a", "b", "c"), ("a-b", 1), ("a", "b-1")]
    names = {file_name(*case) for case in cases}
    assert len(names) == len(cases)
    assert not any("/" in name for name in names)
