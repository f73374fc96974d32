"""Long work that a page begins and looks at again later: a replay, an evaluation, a backup.

It runs in a few threads of its own, so that it takes none of those that answer requests. What is
kept of it is bounded: the last jobs, each with its result.
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

__all__ = ["MOST_KEPT", "Job", "Jobs", "Progress", "Report", "jobs_of"]

MOST_KEPT = 50
MOST_UNDER_WAY = 8  # running, or waiting for a thread
THREADS = 2

Progress: TypeAlias = Callable[[int, int], None]


class Report(NamedTuple):
    """How far a job is."""

    done: int
    total: int


class _Stopped(Exception):
    """The service is stopping: nobody will ask for the result."""


class Job:
    """Some work, and what became of it. Only its own thread changes it.

    Attributes
    ----------
    key : str
        What it is found by; it names the agent, where it is about one.
    what : str
        What is being done, for people: "Replaying every choice".
    state : str
        "running" (or about to), "done" or "failed".
    progress : Report or None
        How much is done, of how much, if that is known.
    result : object
        What the work gave, once it is done.
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
        """Wait until it has ended; say whether it has."""
        return self._over.wait(seconds)

    def discard(self) -> None:
        """Give back what the result holds: a file, say."""
        if self._drop is not None and self.state == "done":
            self._drop(self.result)


class Jobs:
    """Long work in the background: one at a time for each key, and a few at all.

    Parameters
    ----------
    clock : callable
        Gives the time, in seconds since 1970.

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
        self._kept: dict[str, Job] = {}  # the latest of each key, the oldest first
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
        """Begin some work, and give its job; if it runs already under this key, that one.

        Parameters
        ----------
        key : str
            What it is found by. What ran under this key before is forgotten.
        what : str
            What is being done, for people.
        do : callable
            The work, in a thread. It gets a function to report progress with, of how much is done
            and of how much there is, and should call it now and then: that is also where it ends if
            the service stops.
        drop : callable, optional
            Takes the result when it is forgotten.

        Raises
        ------
        Busy
            If too much is under way.
        """
        with self._lock:
            old = self._kept.get(key)
            if old is not None and old.state == "running":
                return old
            under_way = sum(job.state == "running" for job in self._kept.values())
            if self._closing or under_way >= MOST_UNDER_WAY:
                raise Busy(under_way)
            job = Job(key, what, self._clock(), drop)
            self._kept.pop(key, None)
            self._kept[key] = job
            gone = [] if old is None else [old]
            gone += self._beyond()
            self._pool.submit(self._run, job, do)
        for one in gone:
            one.discard()
        return job

    def find(self, key: str) -> Job | None:
        """Give the latest job of a key; None if there was none, or it is forgotten."""
        return self._kept.get(key)

    def forget(self, key: str) -> None:
        """Forget what has ended under a key."""
        with self._lock:
            job = self._kept.get(key)
            if job is None or job.state == "running":
                return
            del self._kept[key]
        job.discard()

    def close(self) -> None:
        """End. Work that reports its progress is broken off; other work is waited for."""
        with self._lock:
            self._closing = True
        self._pool.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            kept, self._kept = list(self._kept.values()), {}
        for job in kept:
            job.discard()

    def _beyond(self) -> list[Job]:
        """Take out the oldest that have ended, down to how many are kept."""
        ended = [job for job in self._kept.values() if job.state != "running"]
        gone = ended[: max(0, len(self._kept) - MOST_KEPT)]
        for job in gone:
            del self._kept[job.key]
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
        # The state comes last: who sees that it has ended finds all the rest in place.
        job.ended = self._clock()
        job.state = state
        job._over.set()


def jobs_of(service: Service) -> Jobs:
    """Give the jobs of a service; they end with it."""
    if service.jobs is None:
        service.jobs = Jobs(clock=service.clock)
    return service.jobs
