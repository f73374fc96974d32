"""An account of a decision in words: for who must judge it, and reads no formulas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bridle.explaining import DENIED_HERE, DENIED_ITEM, NOT_CERTIFIED, SURELY_DENIED, UNSURE
from bridle.features import Number, Schema
from bridle.service.pages.rendering import percent
from bridle.service.pages.words import number_words
from bridle.settings import ArmId

__all__ = [
    "Given",
    "chance_words",
    "given_by",
    "guess_words",
    "is_untaught",
    "outcome_words",
    "policy_words",
    "reason_words",
    "sentence",
    "status_of",
]

# A smaller part of what features gave, or of a chance, says nothing to anyone.
LEAST = 1e-3
# What is likelier, and still not surely allowed, was hardly ever said to be allowed.
GUESSED = 0.99

Json = Mapping[str, Any]
Name = Callable[[ArmId], str]

_REASONS = {
    DENIED_HERE: "a teacher said no in this very situation",
    DENIED_ITEM: "a teacher said no to it for this item",
    NOT_CERTIFIED: "the promise does not cover it here",
    UNSURE: "not surely allowed, by what was taught",
    SURELY_DENIED: "surely not allowed, by what was taught",
}
_POLICIES = {
    "LearnedMask": "It plays only what is surely allowed, and of that what promises most.",
    "BehaviorConstrained": "It weighs what promises most against what was taught.",
    "Thompson": "It plays what promises most. What was taught has no say.",
    "Uniform": "It plays anything, by chance alone.",
    "Greedy": "It plays what earned most so far. What was taught has no say.",
    "EpsilonGreedy": "It plays what earned most so far, and now and then anything. What was taught "
    "has no say.",
    "LinUCB": "It plays what could promise most. What was taught has no say.",
}


def chance_words(p: float | None) -> str:
    """Give a chance in percent, as fine as anyone wants to know it.

    Examples
    --------
    >>> chance_words(0.5), chance_words(1e-9), chance_words(1 - 1e-9), chance_words(None)
    ('50 %', 'under 0.1 %', 'over 99.9 %', '–')
    """
    if p is None or p in (0.0, 1.0):
        return percent(p)
    if p < 0.001:
        return "under 0.1 %"
    if p > 0.999:
        return "over 99.9 %"
    return percent(p, 1 if p < 0.1 or p > 0.9 else 0)


def guess_words(p: float, safe: bool, novelty: float) -> str:
    """Give what stands in the place of a chance that only looks certain; nothing where it tells.

    Examples
    --------
    >>> guess_words(1.0, True, 1.0), guess_words(1.0, False, 1.0), guess_words(1.0, False, 0.5)
    ('', 'nobody has said', 'by guess')
    """
    if p <= GUESSED or safe:
        return ""
    return "nobody has said" if novelty >= 1.0 else "by guess"


def is_untaught(why_not: str | None, novelty: float) -> bool:
    """Whether limits judge an arm of which nothing was taught: then what they say is no finding."""
    return novelty >= 1.0 and why_not in (UNSURE, SURELY_DENIED)


def policy_words(policy: Json) -> str:
    """Say how the agent chooses."""
    return _POLICIES.get(str(policy["kind"]), str(policy["kind"]))


def reason_words(why_not: str | None, novelty: float = 0.0) -> str:
    """Say why something may not be played.

    Examples
    --------
    >>> reason_words("denied by the rule 'night'"), reason_words(None)
    ("denied by the rule 'night'", 'surely allowed')
    >>> reason_words(SURELY_DENIED, 1.0)
    'nothing was taught of it yet'
    """
    if is_untaught(why_not, novelty):
        return "nothing was taught of it yet"
    return "surely allowed" if why_not is None else _REASONS.get(why_not, why_not)


def status_of(arm: Json) -> str:
    """Give a class of the style sheet for how an arm stood: yes, no or warn."""
    if arm["why_not"] is None:
        return "yes"
    doubtful = arm["why_not"] in (UNSURE, NOT_CERTIFIED)
    return "warn" if doubtful or is_untaught(arm["why_not"], arm["novelty"]) else "no"


def sentence(account: Json, name: Name, on_empty: str) -> str:
    """Say in a sentence or two what came out, and why."""
    considered = _considered(account)
    if account["kind"] == "abstention":
        return _held_back(considered)
    chosen = next(one for one in account["arms"] if one["arm"] == account["arm"])
    what = f"“{name(account['arm'])}”"
    if account["kind"] == "question":
        why = "It looked good" if account["asking"] else "It looked best"
        return (
            f"It played nothing yet, and asked a teacher whether {what} is allowed here. {why}, "
            f"but its chance to be allowed was only {chance_words(chosen['p'])}."
        )
    if account["arm"] in account["answered"]:
        return (
            f"It played {what}, which a teacher had just said is allowed here"
            f"{_odds(account, chosen)}."
        )
    if account["settled"]:
        return (
            f"It played {what}, since a teacher had just said that it is allowed here. Nothing was "
            "left to chance."
        )
    kind = str(account["policy"]["kind"])
    if kind == "LearnedMask":
        return _masked(account, considered, chosen, what, on_empty)
    return _unmasked(account, kind, chosen, what)


def outcome_words(account: Json, name: Name) -> str:
    """Say what came out, and not why: for what cannot be made again."""
    if account["kind"] == "abstention":
        return "It played nothing."
    what = f"“{name(account['arm'])}”"
    if account["kind"] == "question":
        return f"It played nothing yet, and asked a teacher whether {what} is allowed here."
    return f"It played {what}."


def _considered(account: Json) -> list[Json]:
    among = account["among"]
    offered = None if among is None else set(among)
    return [one for one in account["arms"] if offered is None or one["arm"] in offered]


def _held_back(considered: Sequence[Json]) -> str:
    n = len(considered)
    whole = "The only choice there was is not" if n == 1 else f"None of the {n:,} choices is"
    return f"It played nothing. {whole} surely allowed here: {_reasons(considered)}."


def _masked(
    account: Json, considered: Sequence[Json], chosen: Json, what: str, on_empty: str
) -> str:
    n = len(considered)
    allowed = sum(one["why_not"] is None for one in considered)
    if chosen["why_not"] is not None:
        then = {
            "safe_arm": "the one that is set for such cases",
            "least_bad": "the one that is most likely allowed",
        }.get(on_empty, "what it is set to play then")
        return f"It played {what}: {then}. None of the {n:,} choices is surely allowed here."
    if allowed == 1:
        if n == 1:
            return f"It played {what}, the only choice there was, which is surely allowed here."
        rest = _reasons([one for one in considered if one["why_not"] is not None])
        return (
            f"It played {what}, the only one of {n:,} choices that is surely allowed here. "
            f"Of the others: {rest}."
        )
    of = f"all {n:,} choices are" if allowed == n else f"{allowed:,} of {n:,} choices are"
    by = "what each promises"
    if account["sigma"] not in (None, 1.0):
        by += " and how likely each is allowed"
    return (
        f"It played {what}: {of} surely allowed here, and of these it came out best in a draw by "
        f"{by}{_odds(account, chosen)}."
    )


def _unmasked(account: Json, kind: str, chosen: Json, what: str) -> str:
    if kind == "Uniform":
        return f"It played {what}, by chance alone{_odds(account, chosen)}."
    if kind == "BehaviorConstrained":
        sigma = float(account["sigma"])
        said = (
            f"It played {what}: it came out best in a draw by what each promises (weight "
            f"{sigma:g}) and what was taught (weight {1.0 - sigma:g}){_odds(account, chosen)}."
        )
    else:
        said = (
            f"It played {what}: it came out best by what each promises{_odds(account, chosen)}. "
            "What was taught has no say in how this agent chooses."
        )
    if chosen["p"] < 0.5:
        said += f" It was only {chance_words(chosen['p'])} likely to be allowed."
    return said


def _odds(account: Json, chosen: Json) -> str:
    chance = account["propensity"] if account["propensity"] is not None else chosen["play"]
    return "" if chance is None else f", with a chance of {chance_words(chance)} beforehand"


def _reasons(arms: Sequence[Json]) -> str:
    """Count why arms may not be played."""
    counts = Counter(reason_words(one["why_not"], one["novelty"]) for one in arms)
    if len(arms) == 1:
        return next(iter(counts))
    shown = counts.most_common(4)
    parts = [f"{count:,} {reason}" for reason, count in shown]
    rest = sum(counts.values()) - sum(count for _, count in shown)
    return "; ".join([*parts, *([f"{rest:,} for other reasons"] if rest else [])])


# -- what features gave ----------------------------------------------------------------------


class Given(NamedTuple):
    """What each feature gave to one part: lines of words and numbers, the largest first.

    `left_out` are those that gave less, or next to nothing.
    """

    part: str
    title: str
    hint: str
    total: str
    base: str | None
    most: float
    shares: list[tuple[str, float]]
    left_out: int


def given_by(
    contributions: Json, schema: Schema, context: Mapping[str, object],
    reward_range: tuple[float, float], longest: int,
) -> Given:  # fmt: skip
    """Give what each feature gave, in words. Rewards are in the agent's own range."""
    unit = contributions["unit"]
    low, scale = 0.0, 1.0
    if unit == "reward":
        low, scale = reward_range[0], reward_range[1] - reward_range[0]
    shares = sorted(
        ((_column_words(schema, one["feature"], context), scale * one["gave"])
         for one in contributions["shares"]),
        key=lambda one: -abs(one[1]),
    )  # fmt: skip
    tells = [one for one in shares if abs(one[1]) >= LEAST * scale]
    base = contributions["base"]
    title, hint, total = {
        "reward": (
            "What it promised",
            "Bars to the right raised the expected reward, bars to the left lowered it.",
            f"Expected reward: {number_words(low + scale * contributions['total'])}.",
        ),
        "label": (
            "Whether it is allowed",
            "Bars to the right spoke for “allowed”, bars to the left against it.",
            f"All together: {number_words(contributions['total'])}.",
        ),
        "log-odds": (
            "Whether it is allowed",
            "Bars to the right spoke for “allowed”, bars to the left against it. The unit is the "
            "natural logarithm of the odds.",
            f"All together: {number_words(contributions['total'])}; above 0 it is more likely "
            "allowed than not.",
        ),
        "change of the probability": (
            "Whether it is allowed",
            "How much of the chance that it is allowed comes from each: what would be missing "
            "without it.",
            f"Likely to be allowed, by what was taught: {chance_words(contributions['total'])}.",
        ),
    }[unit]
    return Given(
        contributions["part"], title, hint, total,
        None if not base else number_words(low + scale * base),
        max((abs(gave) for _, gave in shares), default=0.0),
        tells[:longest], len(shares) - min(len(tells), longest),
    )  # fmt: skip


def _column_words(schema: Schema, column: str, context: Mapping[str, object]) -> str:
    """Give a column, or two together, as a person would say it."""
    columns = set(schema.columns)
    if column in columns:
        return _one_column(schema, column, context)
    parts = column.split(" & ")
    for at in range(1, len(parts)):
        one, two = " & ".join(parts[:at]), " & ".join(parts[at:])
        if one in columns and two in columns:
            words = (_one_column(schema, each, context) for each in (one, two))
            return " together with ".join(words)
    return column


def _one_column(schema: Schema, column: str, context: Mapping[str, object]) -> str:
    for feature in schema.features:
        if feature.name == column:
            if isinstance(feature, Number):
                unit = f" {feature.unit}" if feature.unit else ""
                return f"{column} {number_words(context[column])}{unit}"
            return column
    name, _, value = column.partition("=")
    return f"{name}: {value}"
