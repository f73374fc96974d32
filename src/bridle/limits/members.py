"""What `auto` mixes: which kinds by default, and what it asks of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.errors import InvalidValue
from bridle.kernels.types import Floats
from bridle.limits.base import Beliefs, Look
from bridle.limits.crosses import MAX_COLUMNS, columns
from bridle.limits.logistic import LogisticLimits
from bridle.limits.rulesets import RuleLimits
from bridle.limits.ruleunits import Group
from bridle.limits.terms import MAX_TERMS, Term, how_many

__all__ = [
    "FLOOR",
    "PRIOR",
    "PRIOR_NUMBERS",
    "Reader",
    "checked",
    "floor_of",
    "foresee",
    "hear",
    "make_members",
    "readers",
    "said",
    "singles_of",
]

# Prior weights of the kinds, before they are scaled to add up to 1. If they were even, rules of
# single features would soon have .85, and a pair that is 7 % likely to be denied pass for safe.
PRIOR = {"singles": 0.2, "pairs": 0.8, "logistic": 0.02}
# The same where some features are numbers. Rules cannot see those: had they most of the weight, the
# mixture would soon be sure of what it has not looked at, and not ask again.
PRIOR_NUMBERS = {**PRIOR, "logistic": 5.0}
# Up to so many features logistic limits then have crosses, for "not both" of a word and a number.
CROSSES_UP_TO = 24
# A member that knows nothing of errors never gives an answer less than this; or less than the
# declared rate of error, else it would outweigh rules that know of it, as long as none comes.
FLOOR = 0.001

Reader = Callable[[Mapping[str, npt.NDArray[Any]]], Beliefs]
Known = Mapping[int, Mapping[Term, bool]]


def make_members(
    *,
    arms: int,
    features: int,
    groups: Sequence[Group] | None,
    known: Known | None,
    thresholds: npt.ArrayLike | None,
    **sampling: Any,
) -> tuple[dict[str, Beliefs], dict[str, float], tuple[str, ...]]:
    """Give the kinds that can serve here, their prior, and sentences: what was left out and why."""
    members: dict[str, Beliefs] = {}
    left_out: list[str] = []
    m, T = how_many(features, thresholds)
    for name, pairs in (("singles", False), ("pairs", True)):
        if not m or (pairs and T > MAX_TERMS):
            continue
        terms = known if pairs else singles_of(known)
        rules = RuleLimits(
            arms=arms, features=features, groups=groups, pairs=pairs, known=terms,
            thresholds=thresholds, **sampling,
        )  # fmt: skip
        members[name], groups = rules, rules.groups
    if not m:
        left_out.append(
            "Rules are left out: no feature is a flag, a category or a label that one could deny."
        )
    elif T > MAX_TERMS:
        left_out.append(
            f"Rules with pairs are left out: {m:,} features make {T:,} terms, and {MAX_TERMS:,} "
            "is the most. So a limit such as 'not both' is not learned as a rule."
        )
    if columns(features, crosses=False) <= MAX_COLUMNS or not members:
        members["logistic"] = LogisticLimits(
            arms=arms, features=features, groups=groups,
            crosses=m < features <= CROSSES_UP_TO,
        )  # fmt: skip
    else:
        left_out.append(
            f"Logistic limits are left out: {features:,} features are more than the "
            f"{MAX_COLUMNS - 1:,} that they take."
        )
    return members, PRIOR_NUMBERS if m < features else PRIOR, tuple(left_out)


def singles_of(known: Known | None) -> dict[int, dict[Term, bool]]:
    """Give the known terms that rules of single features can take in."""
    return {
        unit: {term: denied for term, denied in terms.items() if not isinstance(term, tuple)}
        for unit, terms in (known or {}).items()
    }


def floor_of(members: Iterable[Beliefs]) -> float:
    """Give the least probability that a member without errors gives an answer."""
    rates = [m.errors for m in members if isinstance(m, RuleLimits) and len(m.errors) == 1]
    return max(FLOOR, *(float(rate[0]) for rate in rates), FLOOR)


def said(
    member: Beliefs, unit: int, contexts: Floats, floor: float, look: Look | None = None
) -> Floats:
    """P(the teacher says allowed) by one member; what it believes itself, if it has no errors."""
    if hasattr(member, "predict"):
        out: Floats = member.predict(unit, contexts)
        return out
    p = member.look(unit, contexts).p if look is None else look.p
    return np.clip(p, floor, 1.0 - floor)


def foresee(member: Beliefs, contexts: Floats, floor: float) -> tuple[Look, Floats]:
    """What a member believes of all units, and what `said` gives for each: (U, n)."""
    if isinstance(member, RuleLimits):
        return member.foresee(contexts)
    look = member.look_all(contexts)
    if hasattr(member, "predict"):
        return look, np.array([member.predict(u, contexts) for u in range(member.units)])
    return look, np.clip(look.p, floor, 1.0 - floor)


def hear(
    member: Beliefs, context: Floats, arm: int, unit: int, allowed: bool, key: int, floor: float
) -> float:
    """Teach a member one answer; give what `said` was until then."""
    if isinstance(member, RuleLimits | LogisticLimits):
        q = member.hear(context, unit, allowed, key)
        return q if isinstance(member, RuleLimits) else min(max(q, floor), 1.0 - floor)
    q = float(said(member, unit, context[None], floor)[0])
    member.learn(context, arm, allowed, key)
    return q


def readers() -> dict[str, Reader]:
    """How the default members are read back from their states."""
    return {
        "singles": RuleLimits.from_state,
        "pairs": RuleLimits.from_state,
        "logistic": LogisticLimits.from_state,
    }


def checked(members: Mapping[str, Beliefs], arms: int, features: int) -> dict[str, Beliefs]:
    """Give members that go together, or refuse them."""
    wanted = "a mapping from names to limits about the same arms, features and units"
    good = isinstance(members, Mapping) and len(members) > 0
    if not good or not all(isinstance(m, Beliefs) for m in members.values()):
        raise InvalidValue("members", "AutoLimits", wanted, members)
    unit_of = next(iter(members.values())).unit_of
    for name, member in members.items():
        validate.text(name, "members", "AutoLimits", 50)
        same = (member.arms, member.features) == (arms, features)
        if "/" in name or not same or not np.array_equal(member.unit_of, unit_of):
            raise InvalidValue("members", "AutoLimits", wanted, name)
    return dict(members)
