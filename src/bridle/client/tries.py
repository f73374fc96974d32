"""When to try again: one rule for both clients, without any network in it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from bridle.client.calls import Sent
from bridle.client.refusals import NO_ANSWER, UNEXPECTED, ServiceError, refusal_of

__all__ = ["Tries"]

T = TypeVar("T")

FIRST_WAIT = 0.05  # seconds, doubled at each try
LONGEST_WAIT = 2.0
# 502 and 504 are what a gateway says when it lost the service; the service itself says 503.
TRIED_AGAIN = frozenset({429, 502, 503, 504})
MAX_ANSWER = 256 * 2**20  # bytes


class Tries(Generic[T]):
    """The tries of one call, up to a deadline.

    After each try, `answered` or `failed` says how long to wait before the next one, or raises the
    error of the last. `answered` gives None when the call is done; `given` has what came of it.

    Parameters
    ----------
    sent : Sent
        The call.
    deadline : float
        Seconds for all tries together, waits included.
    timeout : float
        Seconds for one try.
    now : callable
        A clock that is never set back.
    chance : callable
        Gives numbers in [0, 1): clients that failed together do not come back together.
    """

    given: T

    def __init__(
        self,
        sent: Sent[T],
        *,
        deadline: float,
        timeout: float,
        now: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._sent = sent
        self._deadline = deadline
        self._timeout = timeout
        self._now = now
        self._chance = chance
        self._end = now() + deadline
        self._count = 0
        self._unknown = False

    @property
    def left(self) -> float:
        """Seconds for the next try. Some are left whenever a try is begun."""
        return max(0.001, min(self._timeout, self._end - self._now()))

    def is_over(self) -> bool:
        """Say whether the deadline has passed."""
        return self._now() >= self._end

    def answered(self, status: int, headers: Mapping[str, str], body: bytes) -> float | None:
        """Take an answer."""
        if 200 <= status < 300:
            try:
                value: Any = json.loads(body)
            except ValueError:
                raise refusal_of(status, headers, body) from None
            self.given = self._sent.read(value)
            return None
        error = refusal_of(status, headers, body)
        # Below 500 it was refused; "busy" says that nothing was begun. Else: who knows?
        self._note(arrived=status >= 500 and error.code != "busy")
        return self._wait(error, status in TRIED_AGAIN)

    def failed(self, error: Exception, *, arrived: bool) -> float:
        """Take that no answer came. `arrived`: whether the call may have reached the service."""
        self._note(arrived)
        words = str(error) or type(error).__name__
        remedy = "Is it running, and is the address right?"
        if self._unknown:
            remedy = "It may have been done all the same: look, or send it again with the same id."
        told = ServiceError(None, NO_ANSWER, f"No answer came: {words}.", remedy=remedy)
        told.__cause__ = error
        return self._wait(told, True)

    def too_large(self) -> ServiceError:
        """Give the error of an answer that is too large to be read."""
        self._note(arrived=True)
        message = f"The answer has over {MAX_ANSWER:,} bytes."
        unknown = self._unknown
        return ServiceError(
            None, UNEXPECTED, message, remedy="Ask for smaller pages.", unknown=unknown
        )

    def _note(self, arrived: bool) -> None:
        if arrived and self._sent.again != "read":
            self._unknown = True

    def _wait(self, error: ServiceError, may_pass: bool) -> float:
        """Give the wait before the next try, or raise."""
        error.unknown = self._unknown
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** min(self._count, 20))
        wait = longest * (0.5 + 0.5 * self._chance())
        if error.retry_after is not None:
            wait += error.retry_after
        self._count += 1
        once = self._sent.again == "once" and self._unknown
        if not may_pass or once or self._now() + wait >= self._end:
            raise error
        return wait
