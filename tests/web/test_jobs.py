from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from bridle.errors import Busy, NotPossible
from bridle.server.table import endpoints
from bridle.web import jobs as module
from bridle.web.jobs import MAX_JOBS, MAX_RUNNING, Jobs, jobs_of
from bridle.web.rendering import Rendering
from tests.web.browsing import no_script

LONG = 30.0  # seconds to wait for what takes none


@pytest.fixture
def jobs():
    made = Jobs(clock=lambda: 5.0)
    yield made
    made.close()


def test_a_job_from_its_begin_to_its_end(jobs):
    go, seen = threading.Event(), threading.Event()

    def do(progress):
        progress(3, 10)
        seen.set()
        assert go.wait(LONG)
        return "found"

    assert jobs.find("a") is None
    job = jobs.start("a", "Looking", do)
    assert seen.wait(LONG)
    assert (job.state, job.progress, job.result, job.ended) == ("running", (3, 10), None, None)
    assert jobs.find("a") is job
    go.set()
    assert job.wait(LONG)
    assert (job.state, job.result, job.error, job.began, job.ended) == (
        "done",
        "found",
        None,
        5.0,
        5.0,
    )


def test_one_at_a_time_for_each_key(jobs):
    go = threading.Event()
    first = jobs.start("a", "Looking", lambda progress: go.wait(LONG))
    assert jobs.start("a", "Looking", lambda progress: "another") is first
    go.set()
    assert first.wait(LONG)
    again = jobs.start("a", "Looking", lambda progress: "another")
    assert again is not first and again.wait(LONG) and again.result == "another"


def test_only_a_few_at_all(jobs):
    go = threading.Event()
    for n in range(MAX_RUNNING):
        jobs.start(str(n), "Looking", lambda progress: go.wait(LONG))
    with pytest.raises(Busy):
        jobs.start("one more", "Looking", lambda progress: None)
    go.set()


def test_what_fails_says_why_and_shows_no_trace(jobs):
    def refused(progress):
        raise NotPossible("The log cannot tell.")

    def broken(progress):
        raise RuntimeError("/secret/path")

    one, two = jobs.start("a", "x", refused), jobs.start("b", "x", broken)
    assert one.wait(LONG) and two.wait(LONG)
    assert (one.state, one.error) == ("failed", "The log cannot tell.")
    assert two.state == "failed" and "secret" not in two.error and "log of the server" in two.error


def test_old_ones_are_forgotten_and_give_back_what_they_hold(jobs):
    dropped: list[object] = []
    for n in range(MAX_JOBS + 5):
        job = jobs.start(str(n), "x", lambda progress, n=n: n, drop=dropped.append)
        assert job.wait(LONG)
    assert dropped == [0, 1, 2, 3, 4]
    assert jobs.find("4") is None and jobs.find("5") is not None
    assert jobs.start("5", "x", lambda progress: None).wait(LONG)  # in the place of the old one
    assert dropped[5:] == [5]
    jobs.forget("6")
    jobs.forget("no such")
    assert dropped[6:] == [6] and jobs.find("6") is None


def test_what_runs_is_not_forgotten(jobs):
    go = threading.Event()
    dropped: list[object] = []
    job = jobs.start("a", "x", lambda progress: go.wait(LONG), drop=dropped.append)
    jobs.forget("a")
    assert jobs.find("a") is job
    go.set()
    assert job.wait(LONG) and not dropped


def test_an_end_breaks_off_what_reports_and_gives_all_back():
    jobs = Jobs()
    dropped: list[object] = []
    running = threading.Event()

    def endless(progress):
        while True:
            progress(1, 2)
            running.set()

    done = jobs.start("done", "x", lambda progress: "file", drop=dropped.append)
    assert done.wait(LONG)
    job = jobs.start("endless", "x", endless, drop=dropped.append)
    assert running.wait(LONG)
    jobs.close()
    assert job.state == "failed" and "stopped" in str(job.error)
    assert dropped == ["file"] and jobs.find("done") is None
    with pytest.raises(Busy):
        jobs.start("late", "x", lambda progress: None)


def test_jobs_end_with_their_service(serve):
    server = serve()
    jobs = jobs_of(server.service)
    assert jobs_of(server.service) is jobs
    server.runner.run(server.service.stop())
    assert server.service.jobs is None
    with pytest.raises(Busy):
        jobs.start("late", "x", lambda progress: None)


def test_how_a_job_looks():
    box = Rendering(endpoints())._templates.env.from_string(
        "{% from 'jobs.html' import job_box, job_files %}{{ job_files() }}"
        "{% call job_box(job, 'it', '/there') %}<b>{{ job.result }}</b>{% endcall %}"
    )
    one = SimpleNamespace(
        what="<i>Adding</i>",
        state="running",
        progress=None,
        result=None,
        error=None,
        began=0.0,
        ended=None,
    )
    shown = box.render(job=one)
    assert 'data-from="/there"' in shown and "<progress" in shown and "value=" not in shown
    assert "<i>" not in shown and no_script(shown)
    one.progress = module.Report(1_500, 3_000)
    shown = box.render(job=one)
    assert 'max="3000" value="1500"' in shown and "1,500 of 3,000" in shown
    one.state, one.ended, one.result = "done", 60.0, "<script>1</script>"
    shown = box.render(job=one)
    assert "data-from" not in shown and "&lt;script&gt;" in shown and no_script(shown)
    one.state, one.error = "failed", "no <room>"
    assert "no &lt;room&gt;" in box.render(job=one)
    assert "Not done yet" in box.render(job=None)
