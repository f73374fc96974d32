"""Policies, kinds of limits and reward models of others, registered by name.

An agent's log holds the name and the version of each, so that a replay either runs the very same
thing or refuses. A module calls `register` when it is imported. So that nobody has to import it, a
package may name it in an entry point, in the group of its kind (`GROUPS`), which is loaded the
first time that somebody asks for the name:

    [project.entry-points."bridle.policies"]
    TopFew = "my_package.top_few"
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Literal, TypeAlias, cast

from bridle import validation
from bridle.errors import Duplicate, InvalidValue, NotRegistered

__all__ = [
    "GROUPS",
    "KINDS",
    "OURS",
    "Kind",
    "Options",
    "Registered",
    "available",
    "find",
    "of_factory",
    "options_of",
    "register",
    "registered",
    "require",
    "unregister",
]

Kind: TypeAlias = Literal["policy", "limits", "reward"]
# Plain JSON values: what stands in the log.
Options: TypeAlias = dict[str, bool | int | float | str | None]

KINDS = ("policy", "limits", "reward")
GROUPS = {"policy": "bridle.policies", "limits": "bridle.limits", "reward": "bridle.reward"}
# The names that are taken. "mixture" is what states call "auto".
OURS: dict[str, tuple[str, ...]] = {
    "policy": (
        "Thompson",
        "BehaviorConstrained",
        "KnownMask",
        "LearnedMask",
        "Uniform",
        "Greedy",
        "EpsilonGreedy",
        "LinUCB",
        "SquareCB",
        "Softmax",
        "PlackettLuce",
        "Masked",
    ),
    "limits": ("auto", "rules", "logistic", "found", "linear", "mixture", "pairs"),
    "reward": ("linear",),
}
# Names of ours that others could take before: what a log has by them with a version is theirs.
LATER = ("SquareCB", "Softmax", "PlackettLuce", "Masked")
# What an instance, or the class itself, must have.
NEEDED: dict[str, tuple[str, ...]] = {
    "policy": ("choose", "propensities", "needs_limits"),
    "limits": ("from_state",),
    "reward": ("from_state",),
}
MAX_OPTIONS = 100
LONGEST = 200

_known: dict[tuple[str, str], Registered] = {}


@dataclass(frozen=True, slots=True)
class Registered:
    """A policy, a kind of limits or a reward model that can be used by its name.

    Attributes
    ----------
    kind, name, version : str
        As in `register`, and as the log has them.
    factory : callable
        Makes a new one from keywords.
    """

    kind: str
    name: str
    version: str
    factory: Any


def register(kind: Kind, name: str, factory: Callable[..., Any], *, version: str) -> None:
    """Make a policy, a kind of limits or a reward model usable by its name.

    Parameters
    ----------
    kind : {"policy", "limits", "reward"}
        What it is: see `bridle.policies.Policy`, `bridle.limits.Beliefs` and
        `bridle.reward.base.RewardModel` for what it must do; `bridle.testing` checks it.
    name : str
        What names it in settings and in the log.
    factory : class
        A policy is a frozen dataclass whose fields are plain JSON values. Limits are made with the
        keywords ``arms``, ``features``, ``groups`` and ``seed``, a reward model with ``arms`` and
        ``features``, both with their options after these; both have a class method `from_state`.
    version : str
        Raise it whenever equal events would no longer give equal bits: a log that was written with
        another version is not replayed.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> @dataclass(frozen=True)
    ... class First:
    ...     needs_limits = True
    ...
    ...     def choose(self, scores, key):
    ...         return int(np.argmax(scores.eligible)) if scores.eligible.any() else -1
    ...
    ...     def propensities(self, scores):
    ...         return np.eye(len(scores.eligible))[0] * scores.eligible.any()
    >>> register("policy", "First", First, version="1")
    >>> find("policy", "First").version
    '1'
    >>> unregister("policy", "First")
    """
    owner = "register"
    validation.one_of(kind, KINDS, "kind", owner)
    name = validation.text(name, "name", owner, LONGEST)
    version = validation.text(version, "version", owner, LONGEST)
    if name in OURS[kind] and name not in LATER:
        raise Duplicate(kind, name, "It is one of bridle's own: take another name.")
    missing = [part for part in NEEDED[kind] if not hasattr(factory, part)]
    if not callable(factory) or missing:
        lacks = f", with {', '.join(missing)}" if missing else ""
        raise InvalidValue("factory", owner, f"a class{lacks}", factory)
    if kind == "policy":
        _check_policy(factory, owner)
    # A module that is loaded again, or a cell of a notebook that runs again, replaces its own.
    before = _known.get((kind, name))
    if before is not None and _place(before.factory) != _place(factory):
        raise Duplicate(kind, name, "Unregister that, or take another name.")
    _known[kind, name] = Registered(kind, name, version, factory)


def unregister(kind: Kind, name: str) -> None:
    """Remove what `register` made known, if it is there."""
    _known.pop((kind, name), None)


def registered(kind: Kind) -> tuple[str, ...]:
    """Return the names that are registered by now; entry points not yet asked for are left out."""
    return tuple(sorted(name for one, name in _known if one == kind))


def available(kind: Kind) -> tuple[str, ...]:
    """Return the names that are registered or have an entry point, which is not loaded for it."""
    named = {entry.name for entry in entry_points(group=GROUPS[kind])}
    return tuple(sorted(named.union(registered(kind)) - set(OURS[kind])))


def find(kind: Kind, name: object) -> Registered | None:
    """Return what is registered by that name, or has an entry point of that name; else None."""
    if not isinstance(name, str):
        return None
    if (kind, name) not in _known:
        for entry in entry_points(group=GROUPS[kind], name=name):
            try:
                entry.load()
            except Exception as error:  # whatever somebody else's module raises
                why = f"Its entry point {entry.value!r} cannot be loaded: {error!r}"
                raise NotRegistered(kind, name, remedy=why) from error
    return _known.get((kind, name))


def require(kind: Kind, name: str, version: str) -> Registered:
    """Return what is registered by that name and version, or raise `NotRegistered`."""
    found = find(kind, name)
    if found is None or version != found.version:
        raise NotRegistered(kind, name, version, "" if found is None else found.version)
    return found


def of_factory(kind: Kind, factory: object) -> Registered | None:
    """Return what was registered with this factory, or with one defined again in its place."""
    for one in _known.values():
        if one.kind == kind and one.factory is factory:
            return one
    for one in _known.values():
        if one.kind == kind and _place(one.factory) == _place(factory):
            return one
    return None


def options_of(value: object, name: str, owner: str) -> Options:
    """Return options as a dict of plain JSON values, or raise `InvalidValue`."""
    if value is None:
        return {}
    wanted = f"a mapping of at most {MAX_OPTIONS} names to plain values (numbers, text, bool, None)"
    if not isinstance(value, Mapping) or len(value) > MAX_OPTIONS:
        raise InvalidValue(name, owner, wanted, value)
    options: Options = {}
    for key, one in value.items():
        plain = _plain(one)
        if not isinstance(key, str) or not key.isidentifier() or plain is ...:
            raise InvalidValue(name, owner, wanted, {key: one})
        options[key] = plain
    return options


def _plain(value: object) -> Any:
    """Return a value as JSON's own, `...` if it is none."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value) if len(value) <= 10_000 else ...
    if isinstance(value, numbers.Integral):
        return int(value) if abs(int(value)) <= 2**53 else ...
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if abs(number) <= validation.MAX_MAGNITUDE else ...
    return ...


def _check_policy(factory: Any, owner: str) -> None:
    if not isinstance(factory, type) or not dataclasses.is_dataclass(factory):
        raise InvalidValue("factory", owner, "a frozen dataclass, as a policy is one", factory)
    frozen: bool = cast("Any", factory).__dataclass_params__.frozen
    taken = {"kind", "version"} & {field.name for field in dataclasses.fields(factory)}
    if not frozen or taken or not isinstance(cast("Any", factory).needs_limits, bool):
        wanted = "a frozen dataclass without the fields 'kind' and 'version', and with a class "
        raise InvalidValue(
            "factory", owner, f"{wanted}attribute needs_limits, True or False", factory
        )


def _place(factory: Any) -> tuple[str, str]:
    """Return where a factory is defined: its module and its name there."""
    return getattr(factory, "__module__", ""), getattr(factory, "__qualname__", repr(factory))
