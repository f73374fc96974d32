"""The kinds of limits by name, made from an agent's settings and read back from its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import registry, validation
from bridle.errors import BridleError, CorruptState, InvalidValue
from bridle.kernels.types import Floats
from bridle.limits import clustered
from bridle.limits.base import Beliefs
from bridle.limits.clustered import FoundLimits
from bridle.limits.legacy import AutoLimits
from bridle.limits.linear import LinearLimits
from bridle.limits.logistic import MAX_COLUMNS, LogisticLimits, columns
from bridle.limits.mixture import MixtureLimits
from bridle.limits.pairs import PairLimits
from bridle.limits.rules import MAX_TERMS, RuleLimits, Term, how_many, thresholds_of
from bridle.schema import Schema

__all__ = ["KINDS", "STATES", "check_kind", "limits_from_state", "make_limits"]

KINDS = ("auto", "rules", "logistic", "found", "linear")

OWNER = "Agent"
NO_TERM = "Declare flags, categories or labels, or take limits='logistic' or limits='auto'."
# What the agent calls the parameters of the limits.
NAMES = {"error": "teacher_error", "arms": "limits", "features": "limits", "thresholds": "limits"}

# By the name that states have. In a state "auto" is what it meant in logs of the first form.
READERS: dict[str, Callable[[Mapping[str, npt.NDArray[Any]]], Beliefs]] = {
    "auto": AutoLimits.from_state,
    "mixture": MixtureLimits.from_state,
    "rules": RuleLimits.from_state,
    "logistic": LogisticLimits.from_state,
    "found": FoundLimits.from_state,
    "linear": LinearLimits.from_state,
    "pairs": PairLimits.from_state,
}
STATES = tuple(READERS)


def make_limits(
    kind: str,
    *,
    schema: Schema,
    groups: Sequence[str | None],
    error: float | None = 0.001,
    doubt: float | None = None,
    crosses: bool = False,
    seed: int = 0,
    ridge: float = 1.0,
    label_coding: str = "1/0",
    known: Mapping[int, Mapping[Term, bool]] | None = None,
    legacy: bool = False,
    version: str = "",
    options: registry.Options | None = None,
) -> Beliefs:
    """Make untaught limits of a kind. Errors speak of the agent's settings.

    Parameters
    ----------
    kind : {"auto", "rules", "logistic", "found", "linear"}, or a name that is registered
        What limits are like.
    schema : Schema
        The features. What a rule can deny follows from them: see `thresholds_of`.
    groups : sequence of K str or None
        The group of each arm. Limits that are found or linear keep every arm apart.
    error : float or None
        How often the teacher errs; None: it is estimated. Of rules, alone or in "auto", and found.
    doubt : float, optional
        How sure is sure enough. Of rules, alone or in "auto", and found.
    crosses : bool
        Whether two features together can be a term or a column. "auto" tries it anyway.
    seed : int
        Of limits that sample.
    ridge, label_coding
        Of linear limits.
    known : mapping, optional
        By unit, what is known for certain. Of rules, alone or in "auto"; others cannot hold it.
    legacy : bool
        Whether "auto" is what it was in logs of the first form.
    version, options
        Of limits that are registered: the version (any if empty), and what else they are made with.

    Examples
    --------
    >>> from bridle.schema import Flag
    >>> limits = make_limits("rules", schema=Schema([Flag("horror")]), groups=["a", "a", None])
    >>> limits.units
    2
    """
    if version:
        registry.require("limits", kind, version)
    check_kind(kind, schema=schema, arms=len(groups), error=error, doubt=doubt, crosses=crosses)
    both = bool(crosses)
    if kind not in KINDS:
        return _registered(kind, len(groups), schema.width, groups, seed, options or {})
    try:
        if kind == "linear":
            return LinearLimits(
                arms=len(groups), features=schema.width, ridge=ridge, label_coding=label_coding
            )
        if kind == "logistic":
            return LogisticLimits(
                arms=len(groups), features=schema.width, groups=groups, crosses=both
            )
        above = thresholds_of(schema)
        if kind == "auto":
            alike: dict[str, Any] = {
                "arms": len(groups),
                "features": schema.width,
                "groups": groups,
                "error": error,
                "doubt": doubt,
                "seed": seed,
                "known": known,
                "thresholds": above,
            }
            return (
                AutoLimits(**alike)
                if legacy
                else MixtureLimits(**alike, unbounded=_unbounded(schema, above))
            )
        if kind == "rules":
            return RuleLimits(
                arms=len(groups),
                features=schema.width,
                groups=groups,
                pairs=both,
                error=error,
                doubt=doubt,
                seed=seed,
                known=known,
                thresholds=above,
            )
        assert error is not None  # `check_kind`
        sure = clustered.DEFAULT_DOUBT if doubt is None else doubt
        return FoundLimits(
            arms=len(groups),
            features=schema.width,
            error=error,
            doubt=sure,
            seed=seed,
            thresholds=above,
        )
    except InvalidValue as bad:
        if bad.owner == OWNER:
            raise
        name = NAMES.get(bad.name, bad.name)
        raise InvalidValue(name, OWNER, bad.expected, bad.got, bad.remedy) from None


def check_kind(
    kind: str,
    *,
    schema: Schema,
    arms: int,
    error: float | None = 0.001,
    doubt: float | None = None,
    crosses: bool = False,
) -> None:
    """Raise `InvalidValue` where limits of a kind cannot be made so: as `make_limits`, unmade.

    >>> from bridle.schema import Flag
    >>> check_kind("rules", schema=Schema([Flag("horror")]), arms=1_000_000)
    """
    if not isinstance(kind, str) or kind not in KINDS:
        if registry.find("limits", kind) is None:
            validation.one_of(kind, (*KINDS, *registry.registered("limits")), "limits", OWNER)
        if doubt is not None:
            wanted = f"left out with limits={kind!r}: give it among their options"
            raise InvalidValue("doubt", OWNER, wanted, doubt)
    both = validation.truth(crosses, "crosses", OWNER)
    if both and kind not in ("auto", "rules", "logistic"):
        raise InvalidValue("crosses", OWNER, f"left out with limits={kind!r}", crosses)
    if doubt is not None and kind in ("logistic", "linear"):
        raise InvalidValue("doubt", OWNER, f"left out with limits={kind!r}", doubt)
    if kind == "logistic":
        _check_columns(schema.width, both)
    if kind in ("rules", "found"):
        _check_terms(kind, *how_many(schema.width, thresholds_of(schema)), both, arms)
    if kind == "found" and error is None:
        wanted = "a float with limits='found', which do not estimate it"
        raise InvalidValue("teacher_error", OWNER, wanted, None)


def limits_from_state(
    kind: str, state: Mapping[str, npt.NDArray[Any]], version: str = ""
) -> Beliefs:
    """Return limits of a kind, by the name that states have, as they were at `to_state`.

    `version` is that of limits that are registered.

    >>> from bridle.schema import Flag
    >>> limits = make_limits("auto", schema=Schema([Flag("horror")]), groups=["a", None])
    >>> limits_from_state("mixture", limits.to_state()).units
    2
    """
    if not version:
        return READERS[validation.one_of(kind, STATES, "limits", OWNER)](state)
    factory = registry.require("limits", kind, version).factory
    try:
        return _checked(factory.from_state(state), kind)
    except (BridleError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CorruptState(f"The limits {kind!r} cannot be read: {error!r}") from error


def _registered(
    kind: str,
    arms: int,
    features: int,
    groups: Sequence[str | None],
    seed: int,
    options: registry.Options,
) -> Beliefs:
    """Return untaught limits of somebody else's."""
    found = registry.find("limits", kind)
    assert found is not None  # as `check_kind` says
    try:
        made = found.factory(
            arms=arms, features=features, groups=list(groups), seed=seed, **options
        )
    except BridleError:
        raise
    except (TypeError, ValueError) as error:
        wanted = f"what the limits {kind!r} take: {error}"
        raise InvalidValue("limits_options", OWNER, wanted, options) from None
    limits = _checked(made, kind)
    if (limits.arms, limits.features) != (arms, features):
        wanted = f"limits of {arms} arms and {features} features, as {kind!r} was asked for"
        raise InvalidValue("limits", OWNER, wanted, (limits.arms, limits.features))
    return limits


def _checked(limits: object, kind: str) -> Beliefs:
    if not isinstance(limits, Beliefs):
        raise InvalidValue("limits", OWNER, f"`bridle.limits.Beliefs`, as {kind!r} must be", limits)
    return limits


def _unbounded(schema: Schema, above: Floats) -> list[int]:
    """Return the columns that are numbers without a range, and no words."""
    places = [at for feature, at in schema.numbers if feature.low is None]
    return [column for column in places if np.isnan(above[column])]


def _check_columns(features: int, crosses: bool) -> None:
    D = columns(features, crosses)
    if D > MAX_COLUMNS:
        wanted = f"another kind than 'logistic' for more than {MAX_COLUMNS:,} columns"
        got = f"{features:,} features, {D:,} columns"
        if crosses:
            wanted = f"left out: logistic limits take at most {MAX_COLUMNS:,} columns"
            raise InvalidValue("crosses", OWNER, wanted, got)
        raise InvalidValue("limits", OWNER, wanted, got, "Take limits='auto' or fewer features.")


def _check_terms(kind: str, singles: int, terms: int, pairs: bool, arms: int) -> None:
    """Raise `InvalidValue` for rules that would have no term, or too many."""
    if singles == 0:
        wanted = f"another kind than {kind!r} where no feature is one that a rule can deny"
        raise InvalidValue("limits", OWNER, wanted, kind, NO_TERM)
    if kind == "rules":
        if pairs and terms > MAX_TERMS:
            wanted = f"left out: rules take at most {MAX_TERMS:,} terms"
            raise InvalidValue("crosses", OWNER, wanted, f"{terms:,} terms")
        return
    if singles > clustered.MAX_TERMS:
        wanted = (
            f"another kind than 'found' where rules can deny more than {clustered.MAX_TERMS} words"
        )
        remedy = "Declare the arms' groups and take limits='rules' or limits='auto'."
        raise InvalidValue("limits", OWNER, wanted, f"{singles} of them", remedy)
    if arms << singles > clustered.MAX_CELLS:
        most = clustered.MAX_CELLS >> singles
        wanted = f"another kind than 'found' for more than {most:,} arms with {singles} features"
        remedy = "Declare the arms' groups and take limits='rules' or limits='auto'."
        raise InvalidValue("limits", OWNER, wanted, f"{arms:,} arms", remedy)
