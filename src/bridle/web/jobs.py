"""Background jobs that a page starts and comes back to: a replay, an evaluation, a backup.

They run in a few threads of their own, and take none of those that answer requests. Only the last
jobs are held, each with its result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from bridle.errors import Busy
from bridle.server.problems import problem_of

if TYPE_CHECKING:
    from bridle.server.service import Service

__all__ = ["MAX_JOBS", "Job", "Jobs", "Progress", "Report", "jobs_of"]

MAX_JOBS = 50
MAX_RUNNING = 8  # running, or waiting for a thread
THREADS = 2

Progress: TypeAlias = Callable[[int, int], None]


class Report(NamedTuple):
    """How far a job is."""

    done: int
    total: int


class _Stopped(Exception):
    """The service is stopping: nobody will ask for the result."""


class Job:
    """A background job and its result. Only its own thread changes it.

    Attributes
    ----------
    key : str
        Its name; with the agent's, if it is about one.
    what : str
        What is being done, for people: "Replaying every choice".
    state : str
        "running" (or about to), "done" or "failed".
    progress : Report or None
        How much is done, of how much, if that is known.
    result : object
        The result, once it is done.
    error : str or None
        Why it failed, for people.
    began, ended : float
        In seconds since 1970; `ended` is None while it runs.
    """

    def __init__(
        self, key: str, what: str, began: float, drop: Callable[[Any], None] | None = None
    ) -> None:
        self.key = key
        self.what = what
        self.state: Literal["running", "done", "failed"] = "running"
        self.progress: Report | None = None
        self.result: Any = None
        self.error: str | None = None
        self.began = began
        self.ended: float | None = None
        self._drop = drop
        self._over = threading.Event()

    def wait(self, seconds: float) -> bool:
        """Wait until it has ended; return whether it has."""
        return self._over.wait(seconds)

    def discard(self) -> None:
        """Release what the result holds, such as a file."""
        if self._drop is not None and self.state == "done":
            self._drop(self.result)


class Jobs:
    """Background jobs: one at a time for each key, and a few in all.

    Parameters
    ----------
    clock : callable
        Returns the time, in seconds since 1970.

    Examples
    --------
    >>> jobs = Jobs()
    >>> job = jobs.start("sum", "Adding up", lambda progress: sum(range(10)))
    >>> job.wait(10.0), job.state, job.result
    (True, 'done', 45)
    >>> jobs.find("sum") is job
    True
    >>> jobs.close()
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}  # the latest of each key, the oldest first
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="bridle-job")
        self._closing = False

    def start(
        self,
        key: str,
        what: str,
        do: Callable[[Progress], Any],
        *,
        drop: Callable[[Any], None] | None = None,
    ) -> Job:
        """Start a job and return it; if one runs already under this key, that one.

        Parameters
        ----------
        key : str
            Its name. What ran under this key before is dropped.
        what : str
            What it does, for people.
        do : callable
            The work, in a thread. It takes a function to report how much is done, of how much, and
            should call it now and then: that is also where it ends if the service stops.
        drop : callable, optional
            Takes the result when the job is dropped.

        Raises
        ------
        Busy
            If too much is under way.
        """
        with self._lock:
            old = self._jobs.get(key)
            if old is not None and old.state == "running":
                return old
            under_way = sum(job.state == "running" for job in self._jobs.values())
            if self._closing or under_way >= MAX_RUNNING:
                raise Busy(under_way)
            job = Job(key, what, self._clock(), drop)
            self._jobs.pop(key, None)
            self._jobs[key] = job
            gone = [] if old is None else [old]
            gone += self._beyond()
            self._pool.submit(self._run, job, do)
        for one in gone:
            one.discard()
        return job

    def find(self, key: str) -> Job | None:
        """Return the latest job of a key; None if there was none, or it was dropped."""
        return self._jobs.get(key)

    def forget(self, key: str) -> None:
        """Drop the job of a key if it has ended."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None or job.state == "running":
                return
            del self._jobs[key]
        job.discard()

    def close(self) -> None:
        """Stop. Work that reports its progress is cancelled; other work is waited for."""
        with self._lock:
            self._closing = True
        self._pool.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            jobs, self._jobs = list(self._jobs.values()), {}
        for job in jobs:
            job.discard()

    def _beyond(self) -> list[Job]:
        """Remove and return the oldest that have ended, beyond how many are held."""
        ended = [job for job in self._jobs.values() if job.state != "running"]
        gone = ended[: max(0, len(self._jobs) - MAX_JOBS)]
        for job in gone:
            del self._jobs[job.key]
        return gone

    def _run(self, job: Job, do: Callable[[Progress], Any]) -> None:
        def progress(done: int, total: int) -> None:
            if self._closing:
                raise _Stopped
            job.progress = Report(done, total)

        state: Literal["done", "failed"] = "failed"
        try:
            if self._closing:
                raise _Stopped
            job.result = do(progress)
            state = "done"
        except _Stopped:
            job.error = "The service was stopped."
        except Exception as error:
            problem = problem_of(error)
            job.error = " ".join(filter(None, (problem.message, problem.remedy)))
        # The state comes last: whoever sees that it has ended finds all the rest in place.
        job.ended = self._clock()
        job.state = state
        job._over.set()


def jobs_of(service: Service) -> Jobs:
    """Return the jobs of a service; they end with it."""
    if service.jobs is None:
        service.jobs = Jobs(clock=service.clock)
    return service.jobs
