"""The table: every endpoint of the API, gathered."""

from __future__ import annotations

from bridle.service import (
    acting,
    agents,
    checking,
    deciding,
    granting,
    looking,
    operations,
    promising,
    teachers,
    teaching,
)
from bridle.service.endpoints import Endpoint

__all__ = ["endpoints"]


def endpoints(*, open_metrics: bool = False) -> tuple[Endpoint, ...]:
    """Give all rows. With `open_metrics`, /metrics needs no token."""
    return (
        *agents.ENDPOINTS,
        *teaching.ENDPOINTS,
        *teachers.ENDPOINTS,
        *deciding.ENDPOINTS,
        *checking.ENDPOINTS,
        *acting.ENDPOINTS,
        *promising.ENDPOINTS,
        *looking.ENDPOINTS,
        *granting.ENDPOINTS,
        *operations.endpoints(open_metrics=open_metrics),
    )
