"""What requests and replies are made of: strict, closed and of limited length."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

__all__ = [
    "AGENT_NAME",
    "MAX_BATCH",
    "MAX_PAGE",
    "MAX_WIDTH",
    "ROLES",
    "ArmName",
    "ClientId",
    "ContextForm",
    "Form",
    "Id",
    "ItemName",
    "Note",
    "Role",
    "WindowForm",
    "Words",
    "later",
]

Role: TypeAlias = Literal["agent", "teacher", "auditor", "admin"]
ROLES: tuple[Role, ...] = ("agent", "teacher", "auditor", "admin")
AGENT_NAME = r"^[a-z0-9][a-z0-9._-]{0,99}$"
MAX_BATCH = 1_000
MAX_PAGE = 1_000
MAX_WIDTH = 10_000


class Form(BaseModel):
    """The base of all forms: nothing is guessed, nothing unknown is let pass."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)
    # Fields that name the request and are no part of what it says: see `digest_of`.
    NAMES: ClassVar[frozenset[str]] = frozenset()

    def __str__(self) -> str:
        return repr(self)


def later(description: str, **more: Any) -> Any:
    """Return a field of a reply that came later: left out where it is None.

    So replies in which nothing new is said keep their bytes.
    """
    return Field(None, description=description, exclude_if=lambda value: value is None, **more)


_Whole: TypeAlias = Annotated[int, Field(ge=-(2**53), le=2**53)]
Words: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
Note: TypeAlias = Annotated[str, Field(min_length=1, max_length=10_000)]
ArmName: TypeAlias = _Whole | Words
ItemName: TypeAlias = Annotated[
    _Whole | Words,
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
_Value: TypeAlias = bool | int | float | str | list[str] | None
ContextForm: TypeAlias = Annotated[
    dict[Words, _Value] | list[float],
    Field(
        max_length=MAX_WIDTH,
        description="The features by name; or a list, where all features are plain numbers.",
    ),
]


class WindowForm(Form):
    """Blocks of steps that are metered on their own as well."""

    length: Annotated[int, Field(ge=10, le=2**31 - 1)]
    delta: Annotated[float, Field(gt=0, lt=1)]
