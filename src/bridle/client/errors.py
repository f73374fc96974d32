"""What the service refuses or fails at, as one error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bridle.errors import BridleError, shown

__all__ = ["NO_ANSWER", "UNEXPECTED", "ServiceError", "refusal_of"]


# Codes of our own, beside those that the service sends.
NO_ANSWER = "no_answer"
UNEXPECTED = "unexpected"


class ServiceError(BridleError):
    """The service refused a call, failed at it, or could not be reached.

    There is one class for all of it: `code` says which, as docs/http.md lists them.

    Attributes
    ----------
    status : int or None
        The HTTP status; None if no answer came.
    code : str
        For programs: "not_found", "conflict", "busy" …, or "no_answer".
    message : str
        What is wrong, in words.
    field, remedy, request : str or None
        Which value it is about; what to do; the id under which the server's log has it.
    unknown : bool
        Whether it may have been done all the same. With an id of your own the same call can simply
        be made again.
    retry_after : float or None
        When the service asked to be tried again, in seconds.

    Examples
    --------
    >>> print(ServiceError(404, "not_found", "No agent 'ann'.", remedy="See GET /v1/agents."))
    No agent 'ann'. See GET /v1/agents. (404 not_found)
    """

    def __init__(
        self,
        status: int | None,
        code: str,
        message: str,
        *,
        field: str | None = None,
        remedy: str | None = None,
        request: str | None = None,
        unknown: bool = False,
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.remedy = remedy
        self.request = request
        self.unknown = unknown
        self.retry_after = retry_after
        # The service's own messages often end with the remedy.
        more = f" {remedy}" if remedy and remedy not in message else ""
        super().__init__(f"{message}{more} ({code if status is None else f'{status} {code}'})")

    # An error that is copied, or comes back from a worker process, is made anew from its parts.
    def __reduce__(self) -> tuple[object, ...]:
        return _from_parts, (dict(self.__dict__),)


def _from_parts(facts: dict[str, Any]) -> ServiceError:
    status, code, message = facts.pop("status"), facts.pop("code"), facts.pop("message")
    return ServiceError(status, code, message, **facts)


def refusal_of(status: int, headers: Mapping[str, str], body: bytes) -> ServiceError:
    """Return the error of an answer that is no success, also of one that is not the service's."""
    wait = _seconds(headers.get("retry-after"))
    request = headers.get("x-request-id")
    try:
        said = json.loads(body)["error"]
        return ServiceError(
            status,
            str(said["code"]),
            str(said["message"]),
            field=said.get("field"),
            remedy=said.get("remedy"),
            request=said.get("request") or request,
            retry_after=wait,
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        text = shown(body[:200].decode("utf-8", "replace"))
        return ServiceError(
            status,
            UNEXPECTED,
            f"The answer is not one of bridle's: {text}.",
            remedy="Is this the address of a bridle service?",
            request=request,
            retry_after=wait,
        )


def _seconds(text: str | None) -> float | None:
    # bridle sends whole seconds; a date, as others may send, is left out.
    return float(text) if text is not None and text.isdecimal() and len(text) < 10 else None
