"""Where jobs run: in this process, in several, or on a Ray cluster. The results are the same.

An engine is a context manager whose `run` takes jobs and yields (number, result) pairs as they are
done, in any order. Between processes plain data go: arrays and frozen records.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Protocol

from bridle import validation
from bridle.errors import NotPossible

__all__ = ["ENGINES", "Engine", "InProcess", "Processes", "Ray", "Work", "make_engine"]

ENGINES = ("processes", "in-process", "ray")
WORKERS = validation.IntRange(1, 1_000)


class Work(Protocol):
    """Does one job; what it returns depends on the job alone. It travels to each worker once."""

    def do(self, job: Any, /) -> Any:
        """Return the result of a job."""
        ...


class Engine(Protocol):
    """Runs jobs somewhere."""

    @property
    def workers(self) -> int:
        """How many jobs run at a time."""
        ...

    def __enter__(self) -> Engine: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    def run(self, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield each result with its job's number, as soon as it is there."""
        ...


class InProcess:
    """One job after the other, here."""

    workers = 1

    def __init__(self, work: Work) -> None:
        self._work = work

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run(self, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Do the jobs in order."""
        for number, job in enumerate(jobs):
            yield number, self._work.do(job)


# Set once in each worker process: what every job needs is sent there once.
_work: Work | None = None


def _begin(work: Work) -> None:
    global _work
    _work = work


def _do(job: Any) -> Any:
    if _work is None:
        raise NotPossible("This process was not made by `Processes`.")
    return _work.do(job)


class Processes:
    """Worker processes on this machine: as many as there are cores, unless said otherwise."""

    def __init__(self, work: Work, workers: int | None = None) -> None:
        self._work = work
        self.workers = _workers(workers, _cores())
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Processes:
        self._others = set(multiprocessing.active_children())
        # Forking would copy the locks of other libraries' threads (polars has some).
        self._pool = ProcessPoolExecutor(
            self.workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin,
            initargs=(self._work,),
        )
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=kind is None, cancel_futures=True)
        if kind is not None:  # nobody waits for what they are still at
            for child in set(multiprocessing.active_children()) - self._others:
                child.kill()

    def run(self, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Do the jobs, the first ones first."""
        if self._pool is None:
            raise NotPossible("Enter the engine first: with engine: ...")
        try:
            waiting = {self._pool.submit(_do, job): number for number, job in enumerate(jobs)}
            while waiting:
                done: set[Future[Any]] = wait(waiting, return_when=FIRST_COMPLETED).done
                for future in done:
                    yield waiting.pop(future), future.result()
        except BrokenProcessPool:
            raise NotPossible(
                "A worker process ended before its job did (out of memory, or killed). What was "
                "finished is kept: run the same command again, with fewer --workers or with "
                "--engine in-process."
            ) from None


class Ray:
    """A Ray cluster: the one at `address`, or one started here for the purpose."""

    def __init__(self, work: Work, workers: int | None = None, address: str | None = None) -> None:
        self._work = work
        self._address = address
        self._asked = workers
        self.workers = _workers(workers, 1)  # until the cluster has said how many there are
        self._ray: Any = None
        self._own = False

    def __enter__(self) -> Ray:
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise NotPossible(
                "This engine needs Ray: pip install '.[ray]' in bridle's folder."
            ) from None
        self._ray = ray
        _check_address(self._address)
        if not ray.is_initialized():
            local = {} if self._address else {"num_cpus": self._asked, "include_dashboard": False}
            try:
                ray.init(address=self._address, log_to_driver=False, logging_level="error", **local)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise NotPossible(f"No Ray cluster at {self._address!r}: {error}") from error
            self._own = True
        cores = int(ray.cluster_resources().get("CPU", 1))
        self.workers = min(cores, self._asked) if self._asked else cores
        self._shared = ray.put(self._work)
        self._remote = ray.remote(num_cpus=1)(_do_remotely)
        return self

    def __exit__(self, *_: object) -> None:
        if self._own:
            self._ray.shutdown()

    def run(self, jobs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Do the jobs; no more are sent than can run or are about to."""
        ray = self._ray
        if ray is None:
            raise NotPossible("Enter the engine first: with engine: ...")
        waiting: dict[Any, int] = {}
        todo = iter(enumerate(jobs))
        while True:
            while len(waiting) < 2 * self.workers and (more := next(todo, None)) is not None:
                waiting[self._remote.remote(self._shared, more[1])] = more[0]
            if not waiting:
                return
            done, _ = ray.wait(list(waiting), num_returns=1)
            for reference in done:
                yield waiting.pop(reference), ray.get(reference)


def _do_remotely(work: Work, job: Any) -> Any:
    return work.do(job)


def make_engine(
    name: str, work: Work, *, workers: int | None = None, address: str | None = None
) -> Engine:
    """Make the engine of this name, for this work."""
    validation.one_of(name, ENGINES, "engine", "study")
    _workers(workers, 1)
    if address is not None and name != "ray":
        raise NotPossible("An address is that of a Ray cluster: give --engine ray with it.")
    if name == "in-process":
        return InProcess(work)
    if name == "processes":
        return Processes(work, workers)
    return Ray(work, workers, address)


def _check_address(address: str | None) -> None:
    """Raise an error at once if nobody listens there: Ray itself would try for a minute."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10.0).close()
        except OSError as error:
            raise NotPossible(f"No Ray cluster at {address!r}: {error}.") from None


def _cores() -> int:
    # A container may have fewer than the machine; not every system can say so.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _workers(given: int | None, default: int) -> int:
    return default if given is None else WORKERS.check(given, "workers", "study")
