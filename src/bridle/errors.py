"""What can go wrong, as one small tree.

Every error says which value was met, what was expected and what to do, and carries the same facts
as attributes, so that a caller need not parse the message. An error never leaves half a change
behind: the agent is as it was before the call.
"""

from __future__ import annotations

__all__ = [
    "BridleError",
    "Busy",
    "CorruptState",
    "Duplicate",
    "InvalidValue",
    "LimitReached",
    "NotPossible",
    "NotRegistered",
    "StoreFailed",
    "UnknownId",
]


class BridleError(Exception):
    """The root of every error that bridle raises on purpose."""


class InvalidValue(BridleError, ValueError):
    """A value is not what the parameter takes.

    Parameters
    ----------
    name : str
        The parameter, as the caller writes it.
    owner : str
        The class or function whose parameter it is.
    expected : str
        What it takes, in words: "a float in the range [0, 1]".
    got : object
        What came instead.
    remedy : str, optional
        What to do, where the expectation alone does not say it.

    Examples
    --------
    >>> print(InvalidValue("sigma", "Agent", "a float in the range [0, 1]", 1.5))
    The 'sigma' parameter of Agent must be a float in the range [0, 1]. Got 1.5 instead.
    """

    def __init__(self, name: str, owner: str, expected: str, got: object, remedy: str = "") -> None:
        self.name = name
        self.owner = owner
        self.expected = expected
        self.got = got
        self.remedy = remedy
        text = f"The '{name}' parameter of {owner} must be {expected}. Got {shown(got)} instead."
        super().__init__(f"{text} {remedy}" if remedy else text)

    # An error that is copied, or comes back from a worker process, is made anew from its parts.
    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.name, self.owner, self.expected, self.got, self.remedy)


class UnknownId(BridleError, LookupError):
    """An id names nothing that the agent knows (now).

    Parameters
    ----------
    kind : str
        What the id should name: "decision", "arm", "example" ….
    id : object
        The id as it came.
    remedy : str
        Why it may be unknown and what to do.
    """

    def __init__(self, kind: str, id: object, remedy: str) -> None:
        self.kind = kind
        self.id = id
        self.remedy = remedy
        super().__init__(f"No {kind} {shown(id)}. {remedy}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kind, self.id, self.remedy)


class LimitReached(BridleError):
    """A declared limit (of examples, of rules, of arms) would be passed."""

    def __init__(self, what: str, limit: int, remedy: str) -> None:
        self.what = what
        self.limit = limit
        self.remedy = remedy
        super().__init__(f"The limit of {limit:,} {what} is reached. {remedy}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.what, self.limit, self.remedy)


class NotPossible(BridleError):
    """The call is well formed, but not in this state or with these settings."""


class NotRegistered(BridleError):
    """A log or a saved agent needs a policy, limits or a reward model that is not here.

    Parameters
    ----------
    kind : str
        What is missing: "policy", "limits" or "reward".
    name, version : str
        What it is called, and the version that is needed; "" if any would do.
    found : str
        The version that is registered in its place; "" if none is.
    remedy : str, optional
        What to do, if it is not what follows from the others.

    Examples
    --------
    >>> print(NotRegistered("policy", "TopFew", "2", "1"))
    Version '2' of the policy 'TopFew' is needed, and '1' is registered. Nothing is lost: install
    the version that it was written with, and try again.
    """

    def __init__(
        self, kind: str, name: str, version: str = "", found: str = "", remedy: str = ""
    ) -> None:
        self.kind, self.name, self.version, self.found = kind, name, version, found
        what = f"the {_KINDS.get(kind, kind)} {shown(name)}"
        needed = f"Version {shown(version)} of {what}" if version else f"T{what[1:]}"
        if found:
            text = f"{needed} is needed, and {shown(found)} is registered."
            self.remedy = "Nothing is lost: install the version that it was written with, and try "
        else:
            text = f"{needed} is not registered."
            self.remedy = (
                "Nothing is lost: install or import the package that registers it, and try "
            )
        self.remedy = remedy or f"{self.remedy}again."
        self._given = kind, name, version, found, remedy
        super().__init__(f"{text} {self.remedy}")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._given


class CorruptState(BridleError):
    """A saved file or an event is damaged, or not of a form that this version reads."""


class Busy(BridleError):
    """More waits to be done than may wait. Nothing of it was begun; it can be tried again."""

    def __init__(self, waiting: int, seconds: float = 1.0) -> None:
        self.waiting = waiting
        self.seconds = seconds
        super().__init__(f"{waiting:,} requests wait already. Try again in {seconds:g} s.")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.waiting, self.seconds)


class Duplicate(BridleError):
    """Something of that name stands already."""

    def __init__(self, kind: str, id: str, remedy: str = "") -> None:
        self.kind = kind
        self.id = id
        self.remedy = remedy
        article = "an" if kind[:1] in "aeiou" else "a"
        super().__init__(f"There is {article} {kind} {shown(id)} already. {remedy}".rstrip())

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.kind, self.id, self.remedy)


class StoreFailed(BridleError):
    """The store could not read or commit. Nothing was acknowledged.

    Parameters
    ----------
    what : str
        What was tried, and what went wrong.
    unknown : bool
        Whether a commit may have happened all the same: then only the log knows.
    """

    def __init__(self, what: str, unknown: bool = False) -> None:
        self.what = what
        self.unknown = unknown
        super().__init__(what)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.what, self.unknown)


# What people call the kinds of `bridle.registry`.
_KINDS = {"limits": "kind of limits", "reward": "reward model"}


def shown(value: object) -> str:
    """Show `value` in a message: its repr, cut where it would flood the line."""
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
