"""For those who run it: is it alive, is it ready, what does it do, what does it offer."""

from __future__ import annotations

from typing import Any

from bridle.api.replies import Fine
from bridle.errors import BridleError
from bridle.server.endpoints import Call, Endpoint, Reply
from bridle.server.problems import Problem, retry_after

__all__ = ["METRICS_TYPE", "endpoints"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def healthz(call: Call) -> Reply:
    """Say that the process lives."""
    return Reply(200, {"status": "ok"})


async def readyz(call: Call) -> Reply:
    """Say whether requests can be served."""
    try:
        await call.service.check_ready()
    except BridleError as error:
        message = "The store does not answer, or does not take what is written."
        raise Problem("store_failed", message, headers=retry_after(1.0)) from error
    return Reply(200, {"status": "ok"})


async def metrics(call: Call) -> Reply:
    """Give all counts."""
    return Reply(200, call.service.metrics.text())


async def openapi(call: Call) -> Reply:
    """Give the document that says what there is."""
    return Reply(200, call.service.document)


def endpoints(*, open_metrics: bool) -> tuple[Endpoint, ...]:
    """Give the rows."""
    return (
        Endpoint(
            method="GET",
            path="/healthz",
            roles=None,
            handle=healthz,
            summary="Does the process live?",
            replies={200: (Fine, "It does")},
        ),
        Endpoint(
            method="GET",
            path="/readyz",
            roles=None,
            handle=readyz,
            summary="Can requests be served?",
            description="The store answers, and takes what is written.",
            replies={200: (Fine, "They can")},
        ),
        Endpoint(
            method="GET",
            path="/metrics",
            roles=None if open_metrics else ("auditor", "admin"),
            handle=metrics,
            summary="Counts, in the form that Prometheus reads",
            replies={200: (METRICS_TYPE, "All counts")},
        ),
        Endpoint(
            method="GET",
            path="/openapi.json",
            roles=None,
            handle=openapi,
            summary="This document",
            replies={200: (dict[str, Any], "OpenAPI 3.1")},
        ),
    )
