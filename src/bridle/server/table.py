"""The table: every endpoint of the API, gathered."""

from __future__ import annotations

from bridle.server.endpoints import Endpoint
from bridle.server.handlers import (
    agents,
    certificates,
    checks,
    decisions,
    explanations,
    operations,
    promise,
    teachers,
    teaching,
    tokens,
)

__all__ = ["endpoints"]


def endpoints(*, open_metrics: bool = False) -> tuple[Endpoint, ...]:
    """Give all rows. With `open_metrics`, /metrics needs no token."""
    return (
        *agents.ENDPOINTS,
        *teaching.ENDPOINTS,
        *teachers.ENDPOINTS,
        *decisions.ENDPOINTS,
        *checks.ENDPOINTS,
        *promise.ENDPOINTS,
        *certificates.ENDPOINTS,
        *explanations.ENDPOINTS,
        *tokens.ENDPOINTS,
        *operations.endpoints(open_metrics=open_metrics),
    )
