"""Errors as answers: one shape for all of them.

    {"error": {"code": "invalid_value", "message": "…", "field": "context.age", "remedy": null,
               "request": "4f1c…"}}

No trace, no path of a file and no secret gets into an answer; the log has what an operator needs.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bridle.errors import (
    BridleError,
    Busy,
    Duplicate,
    InvalidValue,
    LimitReached,
    NotPossible,
    NotRegistered,
    StoreFailed,
    UnknownId,
)

__all__ = ["CODES", "ErrorAnswer", "Problem", "problem_of", "retry_after", "wrong_form"]

log = logging.getLogger("bridle.server")

MAX_VALUE = 100  # characters of a wrong value
MAX_MESSAGE = 1_000  # characters
MAX_ERRORS = 2_000  # of one body, that are looked through for the one to report

# The status and the meaning of each code; the documentation is made from it.
CODES: dict[str, tuple[int, str]] = {
    "malformed": (400, "The request is not well formed"),
    "no_token": (401, "There is no token, or not a valid one"),
    "forbidden": (403, "The token's role or its agents do not allow it"),
    "not_found": (404, "There is no such thing"),
    "wrong_method": (405, "The address does not take this method"),
    "too_slow": (408, "The body did not come in time"),
    "conflict": (409, "It stands already, or is not possible now"),
    "too_large": (413, "The body is too large"),
    "no_json": (415, "The body is not declared as application/json"),
    "invalid_value": (422, "A value is not what is taken"),
    "limit_reached": (422, "A limit of the agent would be passed"),
    "too_often": (429, "The token is used too often"),
    "head_too_large": (431, "The headers are too large"),
    "failed": (500, "Something failed that should not"),
    "busy": (503, "Too much is waiting; nothing was begun"),
    "store_failed": (503, "The store failed; nothing was acknowledged"),
    "timed_out": (503, "It took too long; whether it was done, the log knows"),
}


class Error(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(extra="forbid")

    code: Annotated[Literal[tuple(CODES)], Field(description="For programs")]  # type: ignore[valid-type]
    message: Annotated[str, Field(description="For people")]
    field: Annotated[str | None, Field(description="Which value it is about, as a path")]
    remedy: Annotated[str | None, Field(description="What to do")]
    request: Annotated[str, Field(description="The request's id, also in X-Request-Id")]


class ErrorAnswer(BaseModel):
    """Every answer that is not a success."""

    model_config = ConfigDict(extra="forbid", title="Error answer")

    error: Error


class Problem(BridleError):
    """An error that is answered with its own status and code.

    Parameters
    ----------
    code : str
        One of `CODES`.
    message : str
        What is wrong, for people.
    field : str, optional
        The value it is about.
    remedy : str, optional
        What to do.
    headers : mapping
        Headers to send with it: Retry-After, Allow ….
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str | None = None,
        remedy: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = CODES[code][0]
        self.code = code
        self.message = _cut(message, MAX_MESSAGE)
        self.field = None if field is None else _cut(field, 2 * MAX_VALUE)
        self.remedy = remedy or None
        self.headers = dict(headers or {})

    def body(self, request: str) -> dict[str, object]:
        """Return the body of the answer."""
        error = {
            "code": self.code,
            "message": self.message,
            "field": self.field,
            "remedy": self.remedy,
            "request": request,
        }
        return {"error": error}


def problem_of(error: BaseException) -> Problem:
    """Return how an error is answered. An unexpected one is logged, and not shown to the caller."""
    match error:
        case Problem():
            return error
        case InvalidValue():
            return Problem("invalid_value", str(error), field=error.name, remedy=error.remedy)
        case UnknownId(kind="arm" | "rule"):  # these stand in bodies, never in an address
            return Problem("invalid_value", str(error), field=error.kind, remedy=error.remedy)
        case UnknownId(kind="agent"):  # which others there are is not for everybody
            return Problem("not_found", "There is no agent of that name.", field="agent")
        case UnknownId():
            return Problem("not_found", str(error), field=error.kind, remedy=error.remedy)
        case Duplicate():
            return Problem("conflict", str(error), field=error.kind, remedy=error.remedy)
        case NotPossible():
            return Problem("conflict", str(error))
        case NotRegistered():
            return Problem("conflict", str(error), field=error.kind, remedy=error.remedy)
        case LimitReached():
            return Problem("limit_reached", str(error), field=error.what, remedy=error.remedy)
        case Busy():
            return Problem("busy", str(error), headers=retry_after(error.seconds))
        case StoreFailed():
            # What exactly failed may name hosts and files.
            log.error("the store failed: %s", error)
            again = "It may have been done all the same: send it again with the same id."
            return Problem(
                "store_failed",
                "The store could not read or commit. Nothing was acknowledged.",
                remedy=again if error.unknown else "Try again.",
                headers=retry_after(1.0),
            )
        case ValidationError():
            return wrong_form(error)
    if isinstance(error, BridleError):  # CorruptState among them
        log.error("%s: %s", type(error).__name__, error)
    else:
        log.error("a request failed unexpectedly", exc_info=error)
    return Problem("failed", "Something failed here. The log of the server has it by its request.")


def wrong_form(error: ValidationError, where: str = "body") -> Problem:
    """Return what is wrong with a body or a query: one thing, and how many more there are."""
    count = error.error_count()
    if count > MAX_ERRORS:
        # To list millions of them takes seconds and gigabytes.
        message = f"{count:,} values are not what is taken. Send some of them alone to see why."
        return Problem("invalid_value", message, field=where)
    found = error.errors(include_url=False, include_context=False)
    # Of forms that a body may have, the one that it comes nearest to has the deepest error.
    first = max(found, key=lambda one: len(one["loc"]))
    if first["type"] == "json_invalid":
        return Problem("malformed", f"{first['msg']}.", field=where)
    if first["type"] == "finite_number" and where == "body":
        return Problem("malformed", "NaN and Infinity are no numbers of JSON.", field=where)
    path = ".".join(str(part) for part in first["loc"]) or where
    got = _cut(_shown(first["input"]), MAX_VALUE)
    rest = f" ({count - 1:,} more)" if count > 1 else ""
    return Problem(
        "invalid_value",
        f"'{_cut(path, MAX_VALUE)}': {first['msg']}. Got {got} instead.{rest}",
        field=path,
    )


def retry_after(seconds: float) -> dict[str, str]:
    """Return the header that says when to try again."""
    return {"Retry-After": str(max(1, math.ceil(seconds)))}


def _shown(value: object) -> str:
    # The repr of a large value is large: what would be cut is not made.
    if isinstance(value, str | bytes):
        return repr(value[:MAX_VALUE])
    if isinstance(value, dict):
        return f"an object of {len(value):,}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value):,}"
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length():,} bits"
    return repr(value)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
