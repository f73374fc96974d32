"""Somebody simulated who calls the API: the same rows, rights and checks as over HTTP."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from bridle.service import guards
from bridle.service.endpoints import Call, Endpoint
from bridle.service.problems import wrong_form
from bridle.service.serving import Service
from bridle.service.table import endpoints

__all__ = ["Hand"]


class Hand:
    """Calls endpoints by their name, with a token.

    Parameters
    ----------
    service : Service
        Whose API it is.
    token : str
        Whose hand it is. When the token is revoked or expires, the hand can do no more.
    """

    def __init__(self, service: Service, token: str) -> None:
        self._service = service
        self._token = b"Bearer " + token.encode()
        self._rows = {f"{row.method} {row.path}": row for row in endpoints()}
        self._bodies: dict[str, TypeAdapter[Any]] = {}

    async def call(self, endpoint: str, body: Any = None, /, query: Any = None, **path: str) -> Any:
        """Call an endpoint: ``call("POST /v1/agents/{agent}/decisions", {...}, agent="movies")``.

        A body is plain JSON values. What it answers is given back, what it refuses is raised.
        """
        row, service = self._rows[endpoint], self._service
        await service.tokens.fresh()
        caller = service.tokens.caller(self._token)
        service.tokens.spend(caller)
        guards.check_rights(caller, frozenset(row.roles or ()), path.get("agent"))
        if row.query is not None:
            query = row.query.model_validate(query or {})
        form = None if row.body is None else self._form(endpoint, row, body)
        reply = await row.handle(Call(service, caller, path, query, form))
        return reply.body

    def _form(self, endpoint: str, row: Endpoint, body: Any) -> Any:
        adapter = self._bodies.get(endpoint)
        if adapter is None:
            adapter = self._bodies[endpoint] = TypeAdapter(row.body)
        try:
            return adapter.validate_json(to_json(body))
        except ValidationError as error:
            raise wrong_form(error) from None
