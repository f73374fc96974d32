"""A limit on everything that comes from outside; each with its range, declared once.

How much a single body may hold (contexts of a batch, features, arms, entries of a page) is part of
its model, and so of the documented schema.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridle.validation import FloatRange, IntRange, truth

__all__ = ["Limits"]

_SECONDS = FloatRange(0.0, 86_400.0, open_low=True)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a server accepts, and how long it waits.

    Attributes
    ----------
    body_bytes : int
        Size of a request's body, counted while it is read.
    head_bytes, head_fields : int
        Size of a request's line and headers, and their number.
    in_flight : int
        Requests that are being answered; more get 503.
    connections : int
        Open connections; more get 503 from the server itself.
    waiting, together, agents_held : int
        The writer's queue, the work in one commit, and the agents in memory.
    aside_threads, aside_waiting : int
        Slow reads at a time, and their queue.
    tokens : int
        Tokens that are neither revoked nor expired.
    rate, burst : float
        Requests a second for each token, and how many at once.
    head_seconds, read_seconds, answer_seconds, idle_seconds : float
        To send the headers; to send the body; to answer; between two requests of a connection.
    token_seconds : float
        After how long a token that another process revoked is refused.
    tick_seconds : float
        How often decisions expire and examples end.
    sweep_seconds : float
        How often agents are looked for that other processes have changed.
    expired_at_once : int
        Decisions that expire and examples that end, of one agent, in one unit of work.
    stop_seconds : float
        For requests that are under way when the server is stopped.
    open_metrics : bool
        Whether /metrics needs no token.

    Examples
    --------
    >>> Limits(rate=0.0)
    Traceback (most recent call last):
    ...
    bridle.errors.InvalidValue: The 'rate' parameter of Limits must be a float in the range
    (0, 1e+09]. Got 0.0 instead.
    """

    body_bytes: int = 8 * 2**20
    head_bytes: int = 32 * 2**10
    head_fields: int = 100
    in_flight: int = 1_024
    connections: int = 4_096
    waiting: int = 1_024
    together: int = 256
    agents_held: int = 100
    aside_threads: int = 2
    aside_waiting: int = 16
    tokens: int = 10_000
    rate: float = 10_000.0
    burst: float = 10_000.0
    head_seconds: float = 10.0
    read_seconds: float = 20.0
    answer_seconds: float = 30.0
    idle_seconds: float = 75.0
    token_seconds: float = 2.0
    tick_seconds: float = 1.0
    sweep_seconds: float = 30.0
    expired_at_once: int = 500
    stop_seconds: float = 20.0
    open_metrics: bool = False

    def __post_init__(self) -> None:
        for name, allowed in _RANGES.items():
            checked = allowed.check(getattr(self, name), name, "Limits")
            object.__setattr__(self, name, checked)
        truth(self.open_metrics, "open_metrics", "Limits")


_RANGES: dict[str, IntRange | FloatRange] = {
    "body_bytes": IntRange(1_024, 2**30),
    "head_bytes": IntRange(1_024, 2**20),
    "head_fields": IntRange(10, 1_000),
    "in_flight": IntRange(1, 1_000_000),
    "connections": IntRange(1, 1_000_000),
    "waiting": IntRange(1, 1_000_000),
    "together": IntRange(1, 10_000),
    "agents_held": IntRange(1, 100_000),
    "aside_threads": IntRange(1, 64),
    "aside_waiting": IntRange(0, 10_000),
    "tokens": IntRange(1, 100_000),
    "rate": FloatRange(0.0, 1e9, open_low=True),
    "burst": FloatRange(1.0, 1e9),
    "head_seconds": _SECONDS,
    "read_seconds": _SECONDS,
    "answer_seconds": _SECONDS,
    "idle_seconds": _SECONDS,
    "token_seconds": _SECONDS,
    "tick_seconds": _SECONDS,
    "sweep_seconds": _SECONDS,
    "expired_at_once": IntRange(1, 10_000),
    "stop_seconds": _SECONDS,
}
