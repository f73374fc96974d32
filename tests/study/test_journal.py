from __future__ import annotations

import json

import pytest

from bridle.errors import NotPossible
from bridle.study.journal import OWN, Journal
from bridle.study.work import Work, jobs
from tests.study.small import PLAN, RECIPE, bits, by_hand


@pytest.fixture(scope="module")
def results():
    taught, ran = by_hand(Work(RECIPE, PLAN))
    return {**taught, **ran}


def test_what_was_saved_comes_back(tmp_path, results):
    journal = Journal(tmp_path / "out", "mark")
    for job in (every := [job for part in jobs(PLAN) for job in part]):
        assert journal.load(job) is None
        journal.save(job, results[job.key])
    again = Journal(tmp_path / "out", "mark")
    for job in every:
        assert bits(again.load(job)) == bits(results[job.key])
    assert not list((tmp_path / "out" / "parts").glob("*.tmp"))
    again.clear()
    assert not (tmp_path / "out" / "parts").exists()


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 nonsense", None])
def test_a_damaged_part_counts_as_not_there(tmp_path, results, damage):
    journal = Journal(tmp_path, "mark")
    classes, batches = jobs(PLAN)
    for job in (classes[0], batches[3]):
        journal.save(job, results[job.key])
        path = tmp_path / "parts" / f"{job.key}.npz"
        path.write_bytes(path.read_bytes()[:-50] if damage is None else damage)
        assert journal.load(job) is None


def test_a_part_of_another_shape_counts_as_not_there(tmp_path, results):
    journal = Journal(tmp_path, "mark")
    classes, batches = jobs(PLAN)
    journal.save(batches[0], results[batches[0].key])
    part = tmp_path / "parts" / f"{batches[0].key}.npz"
    part.rename(part.with_name(f"{batches[-1].key}.npz"))  # three agents for two
    assert journal.load(batches[-1]) is None
    journal.save(classes[0], results[classes[0].key])
    part = tmp_path / "parts" / f"{classes[0].key}.npz"
    part.rename(part.with_name(f"{batches[1].key}.npz"))
    assert journal.load(batches[1]) is None


def test_another_study_is_refused_until_told_otherwise(tmp_path, results):
    job = jobs(PLAN)[1][0]
    Journal(tmp_path, "mark").save(job, results[job.key])
    with pytest.raises(NotPossible, match=r"holds another study .*--fresh"):
        Journal(tmp_path, "other")
    assert Journal(tmp_path, "mark").load(job) is not None
    assert Journal(tmp_path, "other", fresh=True).load(job) is None


def test_a_finished_study_is_known_by_its_manifest(tmp_path):
    journal = Journal(tmp_path, "mark")
    assert not journal.finished()
    for name in OWN:
        (tmp_path / name).write_bytes(b"{}")
    assert not journal.finished()
    (tmp_path / "manifest.json").write_text(json.dumps({"fingerprint": "mark"}))
    assert journal.finished()
    with pytest.raises(NotPossible, match="holds another study"):
        Journal(tmp_path, "other")
    fresh = Journal(tmp_path, "other", fresh=True)
    assert not fresh.finished() and not (tmp_path / "results.parquet").exists()


def test_a_file_in_the_way_is_said(tmp_path):
    (tmp_path / "out").write_text("x")
    with pytest.raises(NotPossible, match=r"is a file\. Give a folder"):
        Journal(tmp_path / "out", "mark")
