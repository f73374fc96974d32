"""A client of a running `bridle serve`, in plain and in async Python.

`Client` and `AsyncClient` have the same verbs: those of `Agent`, with the agent's name first. What
each verb sends stands once, in client.py, and answers are the models that the service itself uses
(`bridle.api.replies`). The extra `client` brings what is needed, pydantic and httpx2; `serve` has
both. `httpx2` is imported when a client is made.
"""

from __future__ import annotations

from bridle.errors import NotPossible

try:
    from bridle.api.replies import Choice
except ModuleNotFoundError as error:
    if error.name != "pydantic":
        raise
    raise NotPossible(
        "A client needs pydantic: pip install '.[client]' in bridle's folder."
    ) from None
from bridle.client.client import AsyncClient, Client
from bridle.client.errors import ServiceError
from bridle.client.trial import Trial

__all__ = ["AsyncClient", "Choice", "Client", "ServiceError", "Trial"]
