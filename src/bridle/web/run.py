"""A server process: one event loop, one writer thread, one port.

`run` opens the store, starts the service and serves until a signal; then it answers what is under
way, does the work that waits, writes snapshots and closes the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import uvicorn
from pydantic_core import to_json
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bridle.server.limits import Limits
from bridle.server.pipeline import API_HEADERS
from bridle.server.problems import Problem
from bridle.server.service import Service
from bridle.server.tokens import NewToken
from bridle.store.opening import open_store
from bridle.warm import warm_in_background
from bridle.web.app import create_app

__all__ = ["ServerSettings", "collect_rarely", "run", "serve"]

Beside: TypeAlias = Callable[[Service], AbstractAsyncContextManager[object]]


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Where to listen, and what to serve.

    Attributes
    ----------
    db : str
        The store's address: see `open_store`.
    host, port : str, int
        Where to listen. Whoever listens on more than 127.0.0.1 should put TLS before it.
    limits : Limits
        How much is accepted.
    access_log : bool
        Whether each request gets a line in the log.
    warm : bool
        Whether kernels are compiled in the background at the start, where they are not yet.
    """

    db: str = "bridle.db"
    host: str = "127.0.0.1"
    port: int = 8000
    limits: Limits = field(default_factory=Limits)
    access_log: bool = True
    warm: bool = False


def run(
    settings: ServerSettings,
    *,
    tell: Callable[[NewToken], None],
    ready: Callable[[int], None] | None = None,
    clock: Callable[[], float] = time.time,
    beside: Beside | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    Parameters
    ----------
    settings : ServerSettings
        Where to listen, and what to serve.
    tell : callable
        Takes the first admin token if this start made it. It must not get into a log.
    ready : callable, optional
        Takes the port once connections are accepted.
    clock : callable
        Returns the time, in seconds since 1970.
    beside : callable, optional
        Returns a context that is entered before connections are accepted and left after the last:
        a demonstration.
    """
    _log_to_stderr(settings.access_log)
    collect_rarely()
    with contextlib.closing(open_store(settings.db)) as store, contextlib.ExitStack() as stack:
        if settings.warm:
            stack.callback(warm_in_background().set)
        service = Service(store, limits=settings.limits, clock=clock)
        config = server_config(service, settings)
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(serve(service, config, tell, ready, beside))


async def serve(
    service: Service,
    config: uvicorn.Config,
    tell: Callable[[NewToken], None],
    ready: Callable[[int], None] | None = None,
    beside: Beside | None = None,
) -> None:
    """Start a service, serve it, and stop it, whatever happens."""
    first = await service.start()
    try:
        if first is not None:
            tell(first)
        async with contextlib.nullcontext() if beside is None else beside(service):
            await _Server(config, service, ready).serve()
    finally:
        await service.stop()


def server_config(service: Service, settings: ServerSettings) -> uvicorn.Config:
    """Return uvicorn's configuration for a service."""
    limits = settings.limits
    return uvicorn.Config(
        create_app(service),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=protocol_for(limits),
        ws="none",
        lifespan="off",
        # We log our own, without queries.
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=limits.connections,
        backlog=2_048,
        timeout_keep_alive=max(1, round(limits.idle_seconds)),
        timeout_graceful_shutdown=max(1, round(limits.stop_seconds)),
    )


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, service: Service, ready: Callable[[int], None] | None
    ) -> None:
        super().__init__(config)
        self._service = service
        self._ready = ready

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop; pages that stream events without an end stop at once."""
        self._service.leaving = True
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on a signal. uvicorn would raise it once more, before the service has ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self._ready is not None and self.started:
            self._ready(self.servers[0].sockets[0].getsockname()[1])


def protocol_for(limits: Limits) -> type[HttpToolsProtocol]:
    """Return uvicorn's HTTP protocol with limits on a request's head, which it lacks."""

    class Guarded(HttpToolsProtocol):  # type: ignore[misc, unused-ignore]
        """HTTP/1.1 that cuts off heads that are too large or come too slowly."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._head_bytes = 0
            self._head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._head_timer = self.loop.call_later(limits.head_seconds, self._too_slow)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.scope is not None and "method" in self.scope:  # the head is complete
                if self._head_timer is not None:
                    self._stop_timer()
                    self._head_bytes = 0
                return
            self._head_bytes += len(data)
            if self.transport.is_closing():
                return
            if self._head_bytes > limits.head_bytes:
                self._refuse(Problem("head_too_large", "The headers are too large."))
            elif self._head_timer is None:
                self._head_timer = self.loop.call_later(limits.head_seconds, self._too_slow)

        def send_400_response(self, msg: str) -> None:
            self._refuse(Problem("malformed", "That is no request of HTTP/1.1."))

        def _too_slow(self) -> None:
            self._head_timer = None
            if not self.transport.is_closing():
                self._refuse(Problem("too_slow", "The headers did not come in time."))

        def _refuse(self, problem: Problem) -> None:
            body = to_json(problem.body("-"))
            head = [
                STATUS_LINE[problem.status],
                b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body),
                *(b"%s: %s\r\n" % pair for pair in API_HEADERS),
                b"connection: close\r\n\r\n",
            ]
            self.transport.write(b"".join(head) + body)
            self.transport.close()

        def _stop_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

    return Guarded


def collect_rarely() -> None:
    """Collect cyclic garbage less often: a process that holds a million contexts has little of it.

    With Python's own thresholds a third of a batch's time goes into the collector.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def _log_to_stderr(access_log: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    for name in ("bridle", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.INFO)
        logger.propagate = False
    access = logging.getLogger("bridle.access")
    access.propagate = False
    access.setLevel(logging.INFO if access_log else logging.WARNING)
    bare = logging.StreamHandler()
    bare.setFormatter(logging.Formatter("%(message)s"))
    access.handlers[:] = [bare]
