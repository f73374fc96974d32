"""A client of a running `bridle serve`, in plain and in async Python.

`Client` and `AsyncClient` have the same verbs: those of `Agent`, with the agent's name first. What
each verb sends stands once, in calls.py; both clients are made from it. `httpx2` is imported when a
client is made (the extra `serve` brings it).
"""

from __future__ import annotations

from bridle.client.answers import Choice, ServiceError
from bridle.client.client import AsyncClient, Client
from bridle.client.trial import Trial

__all__ = ["AsyncClient", "Choice", "Client", "ServiceError", "Trial"]
