"""When to try again: one rule for both clients, without any network in it."""

from __future__ import annotations

import asyncio
import functools
import json
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload
from urllib.parse import unquote, urlsplit

from bridle.client import calls
from bridle.client.answers import NO_ANSWER, UNEXPECTED, EventShown, ServiceError, refusal_of
from bridle.client.calls import Sent
from bridle.errors import InvalidValue, NotPossible
from bridle.validation import FloatRange

if TYPE_CHECKING:
    import ssl

    import httpx2

__all__ = ["AsyncClient", "Client", "Tries", "Verbs"]


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


# --- The two clients. Each verb stands once, in `Verbs`; what it sends is in calls.py -----


P = ParamSpec("P")

_SECONDS = FloatRange(0.0, 86_400.0, open_low=True)
_CLOSED = "This client is closed. Make another one."


class Verb(Generic[P, T]):
    """A method of both clients, made from the function that says what is sent."""

    def __init__(self, describe: Callable[P, Sent[T]]) -> None:
        self._describe = describe
        self.__doc__ = describe.__doc__

    @overload
    def __get__(self, client: Client, owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, client: AsyncClient, owner: object = None
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, owner: object = None) -> Callable[P, Sent[T]]: ...
    def __get__(self, client: Client | AsyncClient | None, owner: object = None) -> Any:
        describe = self._describe
        if client is None:
            return describe

        @functools.wraps(describe)
        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client._run(describe(*args, **kwargs))

        return call


class Verbs:
    """What a client can do. `Client` gives the answer, `AsyncClient` something to await."""

    create = Verb(calls.create)
    agents = Verb(calls.agents)
    agent = Verb(calls.agent)
    change = Verb(calls.change)

    teach = Verb(calls.teach)
    teach_many = Verb(calls.teach_many)
    retract = Verb(calls.retract)
    examples = Verb(calls.examples)
    ask = Verb(calls.ask)
    questions = Verb(calls.questions)
    answer = Verb(calls.answer)
    skip = Verb(calls.skip)
    teachers = Verb(calls.teachers)

    decide = Verb(calls.decide)
    decide_many = Verb(calls.decide_many)
    reward = Verb(calls.reward)
    explain = Verb(calls.explain)
    believed = Verb(calls.believed)
    shadow = Verb(calls.shadow)

    checks = Verb(calls.checks)
    judge_check = Verb(calls.judge_check)
    promise = Verb(calls.promise)
    price_of_promise = Verb(calls.price_of_promise)
    set_promise = Verb(calls.set_promise)
    drop_promise = Verb(calls.drop_promise)
    fresh_start = Verb(calls.fresh_start)
    start_anew = Verb(calls.start_anew)

    certificate = Verb(calls.certificate)
    certify = Verb(calls.certify)
    calibrate = Verb(calls.calibrate)
    drop_certificate = Verb(calls.drop_certificate)
    begin_audits = Verb(calls.begin_audits)
    audits = Verb(calls.audits)
    judge = Verb(calls.judge)
    evaluate = Verb(calls.evaluate)

    events_page = Verb(calls.events_page)
    tokens = Verb(calls.tokens)
    make_token = Verb(calls.make_token)
    revoke_token = Verb(calls.revoke_token)
    health = Verb(calls.health)
    ready = Verb(calls.ready)

    def __init__(self, url: str, token: str | None, timeout: float, deadline: float) -> None:
        self._url = _address(url)
        self._headers = _headers(token)
        owner = type(self).__name__
        self._timeout = _SECONDS.check(timeout, "timeout", owner)
        self._deadline = _SECONDS.check(deadline, "deadline", owner)
        self._httpx2 = _httpx2()
        self._heads: dict[str, str] = {}

    @property
    def heads(self) -> dict[str, str]:
        """The last head, as SEQ:HASH, that was heard of each agent's log.

        Kept elsewhere, it shows a log that was cut or rewritten: `bridle verify --expect`.
        """
        return dict(self._heads)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"  # without the token

    def _tries(self, sent: Sent[T]) -> Tries[T]:
        return Tries(sent, deadline=self._deadline, timeout=self._timeout)

    def _parts(self, sent: Sent[Any], left: float) -> dict[str, Any]:
        headers = self._headers
        if sent.body is not None:
            headers = {**headers, "Content-Type": "application/json"}
        return {
            "method": sent.method,
            "url": self._url + sent.path,
            "content": sent.body,
            "headers": headers,
            "timeout": left,
        }

    def _note_head(self, sent: Sent[Any], headers: Mapping[str, str]) -> None:
        head = headers.get("bridle-head")
        parts = sent.path.split("/")
        if head is None or len(parts) < 4:
            return
        agent = unquote(parts[3])
        # Of several calls at once an older answer may be read last.
        if _seq(head) >= _seq(self._heads.get(agent, "0:")):
            self._heads[agent] = head

    def _arrived(self, error: Exception) -> bool:
        """Say whether a call that failed so may have reached the service."""
        httpx2 = self._httpx2
        never = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
        return not isinstance(error, never)


class Client(Verbs):
    """A client that waits for each answer. It may be used by several threads at once.

    Parameters
    ----------
    url : str
        Where the service is: "http://127.0.0.1:8000".
    token : str, optional
        "brd_…". Without one, only `health` and `ready` can be called.
    timeout : float
        Seconds for one try.
    deadline : float
        Seconds for all tries of a call together, waits included.
    verify : bool or SSLContext
        How the service's certificate is checked.
    transport : httpx2.BaseTransport, optional
        Another way to the service: a proxy, a socket, a test.

    Notes
    -----
    A call that was lost is sent again, byte for byte: after a connection that failed, a time that
    ran out, a 429 or a 503. Whatever has an id is then done once. Calls without one (`create`,
    `change`, `drop_promise`, `start_anew`, `certify`, `calibrate`, `drop_certificate`,
    `begin_audits`, `make_token`) are sent again only if they surely did nothing. Errors are
    `ServiceError`; its `unknown` says whether the call may have been done. Redirects are not
    followed, and proxies and passwords of the environment are not used: a token goes to `url` and
    nowhere else.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        deadline: float = 30.0,
        verify: bool | ssl.SSLContext = True,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        super().__init__(url, token, timeout, deadline)
        self._http = self._httpx2.Client(verify=verify, transport=transport, trust_env=False)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def events(self, agent: str, *, after: int = 0, limit: int = 1_000) -> Iterator[EventShown]:
        """Give the entries of the log after a version, one by one; pages of `limit` are read."""
        next: int | None = after
        while next is not None:
            page = self.events_page(agent, after=next, limit=limit)
            yield from page.events
            next = page.next

    def _run(self, sent: Sent[T]) -> T:
        tries = self._tries(sent)
        while True:
            if self._http.is_closed:
                raise NotPossible(_CLOSED)
            try:
                wait = tries.answered(*self._try(sent, tries))
            except (self._httpx2.TransportError, _TooSlow) as error:
                wait = tries.failed(error, arrived=self._arrived(error))
            if wait is None:
                return tries.given
            time.sleep(wait)

    def _try(self, sent: Sent[Any], tries: Tries[Any]) -> tuple[int, Any, bytes]:
        body = bytearray()
        with self._http.stream(**self._parts(sent, tries.left)) as answer:
            for part in answer.iter_bytes():
                body += part
                if len(body) > MAX_ANSWER:
                    raise tries.too_large()
                if tries.is_over():
                    raise _TooSlow("The answer came too slowly")
        self._note_head(sent, answer.headers)
        return answer.status_code, answer.headers, bytes(body)


class AsyncClient(Verbs):
    """The same for asyncio: every verb is awaited, and many can be under way at once.

    The parameters are those of `Client`; `transport` is an `httpx2.AsyncBaseTransport`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        deadline: float = 30.0,
        verify: bool | ssl.SSLContext = True,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(url, token, timeout, deadline)
        self._http = self._httpx2.AsyncClient(verify=verify, transport=transport, trust_env=False)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def events(
        self, agent: str, *, after: int = 0, limit: int = 1_000
    ) -> AsyncIterator[EventShown]:
        """Give the entries of the log after a version, one by one; pages of `limit` are read."""
        next: int | None = after
        while next is not None:
            page = await self.events_page(agent, after=next, limit=limit)
            for entry in page.events:
                yield entry
            next = page.next

    async def _run(self, sent: Sent[T]) -> T:
        tries = self._tries(sent)
        while True:
            if self._http.is_closed:
                raise NotPossible(_CLOSED)
            try:
                async with asyncio.timeout(tries.left):
                    parts = await self._try(sent, tries)
                wait = tries.answered(*parts)
            except (self._httpx2.TransportError, TimeoutError) as error:
                wait = tries.failed(error, arrived=self._arrived(error))
            if wait is None:
                return tries.given
            await asyncio.sleep(wait)

    async def _try(self, sent: Sent[Any], tries: Tries[Any]) -> tuple[int, Any, bytes]:
        body = bytearray()
        async with self._http.stream(**self._parts(sent, tries.left)) as answer:
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > MAX_ANSWER:
                    raise tries.too_large()
        self._note_head(sent, answer.headers)
        return answer.status_code, answer.headers, bytes(body)


class _TooSlow(Exception):
    """The deadline passed while an answer was read."""


def _seq(head: str) -> int:
    text = head.partition(":")[0]
    return int(text) if text.isdecimal() and len(text) < 20 else -1


def _address(url: str) -> str:
    expected = "an address as 'http://127.0.0.1:8000', without a user or a query"
    if not isinstance(url, str):
        raise InvalidValue("url", "Client", expected, url)
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine or "@" in parts.netloc or parts.query or parts.fragment:
        # It may hold a password.
        raise InvalidValue("url", "Client", expected, f"{url.partition('://')[0][:10]}://…")
    return url.rstrip("/")


def _headers(token: str | None) -> dict[str, str]:
    headers = {"Accept": "application/json"}
    if token is None:
        return headers
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        # Not shown: it is nearly a secret.
        raise InvalidValue("token", "Client", "a text as 'brd_…'", "something else")
    return {**headers, "Authorization": f"Bearer {token.strip()}"}


def _httpx2() -> ModuleType:
    try:
        import httpx2
    except ModuleNotFoundError:
        raise NotPossible(
            "A client needs httpx2: pip install '.[serve]' in bridle's folder."
        ) from None
    return httpx2
