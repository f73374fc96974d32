from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bridle.errors import InvalidValue, NotPossible
from bridle_studies.paper.work import Batch, Class, Work, jobs
from bridle_studies.scaffold.engines import InProcess, Processes, Ray, make_engine
from tests.studies.small import PLAN, RECIPE, bits, by_hand, with_limits

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def expected() -> dict[str, bytes]:
    taught, ran = by_hand(Work(RECIPE, PLAN))
    return {key: bits(result) for key, result in {**taught, **ran}.items()}


def all_bits(name: str, **options) -> dict[str, bytes]:
    """Run the small study on an engine and give the bits of every result."""
    classes, batches = jobs(PLAN)
    with make_engine(name, Work(RECIPE, PLAN), **options) as engine:
        taught = {classes[i].key: result for i, result in engine.run(classes)}
        ready = [with_limits(job, taught) for job in batches]
        ran = {ready[i].key: result for i, result in engine.run(ready)}
    return {key: bits(result) for key, result in {**taught, **ran}.items()}


def test_in_process(expected):
    assert all_bits("in-process") == expected


def test_processes(expected):
    assert all_bits("processes", workers=2) == expected


def test_ray(expected):
    # In a process of its own: Ray leaves threads and sockets behind, and warnings of others.
    code = (
        "from tests.studies.scaffold.test_engines import all_bits\n"
        "import hashlib, json\n"
        "found = all_bits('ray', workers=2)\n"
        "print(json.dumps({k: hashlib.sha256(v).hexdigest() for k, v in found.items()}))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2_000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found == {key: hashlib.sha256(value).hexdigest() for key, value in expected.items()}


def test_ray_that_is_not_installed_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NotPossible, match=r"pip install '\.\[ray\]'"), Ray(Work(RECIPE, PLAN)):
        pass


def test_a_worker_that_dies_is_said():
    # A recipe that ends its process, as the system does when memory runs out.
    work = Work(Deadly(), PLAN)
    with Processes(work, 1) as engine, pytest.raises(NotPossible, match="finished is kept"):
        list(engine.run([Class(0, "random")]))


class Deadly:
    name, origin = RECIPE.name, RECIPE.origin

    def __len__(self) -> int:
        return 60

    def world(self, seed: int):
        os._exit(9)

    def settings(self):
        return {}


def test_an_error_in_a_worker_comes_back():
    with Processes(Work(RECIPE, PLAN), 1) as engine, pytest.raises(InvalidValue, match="taught"):
        list(engine.run([Batch(0, "random", 20, ("sigma=0",))]))


def test_engines_are_entered_first():
    for engine in (Processes(Work(RECIPE, PLAN), 1), Ray(Work(RECIPE, PLAN))):
        with pytest.raises(NotPossible, match="Enter the engine first"):
            list(engine.run([Class(0, "random")]))


def test_a_cluster_that_is_not_there_is_said():
    # A port that was just closed: nobody listens.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    engine = Ray(Work(RECIPE, PLAN), address=f"127.0.0.1:{port}")
    with pytest.raises(NotPossible, match="No Ray cluster at"), engine:
        pass


def test_bad_choices_are_refused():
    work = Work(RECIPE, PLAN)
    with pytest.raises(InvalidValue, match="one of 'processes', 'in-process', 'ray'"):
        make_engine("threads", work)
    with pytest.raises(NotPossible, match="give --engine ray"):
        make_engine("processes", work, address="here:1")
    with pytest.raises(InvalidValue, match="'workers' parameter"):
        make_engine("processes", work, workers=0)
    assert isinstance(make_engine("in-process", work), InProcess)
