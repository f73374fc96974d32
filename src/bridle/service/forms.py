"""The forms that bodies share: strict, closed and of limited length."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

__all__ = [
    "MAX_BATCH",
    "MAX_PAGE",
    "Answered",
    "ArmName",
    "ClientId",
    "ContextForm",
    "Form",
    "Id",
    "ItemName",
    "Page",
    "Said",
    "Words",
    "digest_of",
]

MAX_BATCH = 1_000
MAX_PAGE = 1_000
MAX_WIDTH = 10_000
# Fields that forms have not always had, and what they are if left out: see `digest_of`.
_LATER = {"item": None, "scope": "all", "until": None, "teacher": None}


class Form(BaseModel):
    """The base of all forms: nothing is guessed, nothing unknown is let pass."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)
    # Fields that name the request and are no part of what it says: see `digest_of`.
    NAMES: ClassVar[frozenset[str]] = frozenset()


Whole: TypeAlias = Annotated[int, Field(ge=-(2**53), le=2**53)]
Words: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Note: TypeAlias = Annotated[str, Field(min_length=1, max_length=10_000)]
ArmName: TypeAlias = Whole | Words
ItemName: TypeAlias = Annotated[
    Whole | Words,
    Field(
        description="The name of what the context is about: what a teacher says of it is certain "
        "for this very item."
    ),
]
Id: TypeAlias = Annotated[int, Field(ge=1, le=2**53)] | Words


def _no_folder(id: str) -> str:
    if id in (".", ".."):
        raise ValueError("not '.' or '..': addresses do without them")
    return id


ClientId: TypeAlias = Annotated[
    str,
    AfterValidator(_no_folder),
    Field(
        min_length=1,
        max_length=200,
        pattern=r"^[A-Za-z0-9._~:@-]*[A-Za-z._~:@-][A-Za-z0-9._~:@-]*$",
        description="Your own name for it. The same id and body get the same answer, another body "
        "is refused with 409. No whole number: those are the agent's.",
    ),
]
Value: TypeAlias = bool | int | float | str | list[str] | None
ContextForm: TypeAlias = Annotated[
    dict[Words, Value] | list[float],
    Field(
        max_length=MAX_WIDTH,
        description="The features by name; or a list, where all features are plain numbers.",
    ),
]


class Said(Form):
    """Who says so, and why; both optional."""

    by: Words | None = None
    note: Note | None = None


class Answered(Form):
    """What every change answers with."""

    version: Annotated[int, Field(ge=1, description="Events of the agent's log, this one included")]


class Page(Form):
    """Which part of a list."""

    after: Annotated[int, Field(ge=0, le=2**53)] = 0
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100


def digest_of(form: BaseModel | None, *more: Any) -> bytes:
    """Give the digest of a request, to tell whether another is the same."""
    # What came later is left out where it is not given, so that a request from before there was
    # such a thing has the digest that it had.
    unsaid = {name for name, default in _LATER.items() if getattr(form, name, 0) == default}
    unsaid |= getattr(form, "NAMES", frozenset())
    text = "" if form is None else form.model_dump_json(exclude=unsaid)
    return hashlib.sha256("\0".join([text, *map(str, more)]).encode()).digest()
