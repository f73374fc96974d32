"""What another sigma, or another policy, would have earned and violated: from an agent's log.

The log is folded once. At every look of every decision the exact odds of all outcomes are computed
at the state that it was made from: the agent's own, and those of each target in its place. So what
is estimated is the mean over the decisions of the log, each in its own context and state: what the
target would have earned there, and not what it would have learned there and earned later.

Of a decision that asked the teacher first, the questions are taken as they were asked. (In a log of
the first form it is a chain of looks, and its weight is the product of theirs.) An abstention earns
0 for certain. What the log cannot speak of widens the intervals as far as it could matter, and
beyond declared shares there is a refusal in the place of a number.

Where arms share what is learned, propensities are estimated by draws. The intervals count the error
of that (`table` says how), and `Evaluation.sampling` says how much of their width it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np

from bridle import validation
from bridle.agent.config import ItemId
from bridle.agent.events import Event
from bridle.audit.log import Auditing
from bridle.audit.meter import AuditMeter
from bridle.errors import InvalidValue, NotPossible
from bridle.evaluation.estimators import (
    LEVEL,
    Interval,
    doubly_robust,
    effective_size,
    self_normalised,
)
from bridle.evaluation.table import (
    EARNED,
    PENDING,
    PLAYED_NOTHING,
    UNFINISHED,
    Survey,
    mean_of,
    survey,
)
from bridle.kernels.types import Bools, Floats
from bridle.policies import Policy, policy_to_json, with_sigma

__all__ = ["Evaluation", "Support", "audits_of", "evaluate", "targets_of"]

# Below so many effective plays the intervals would not hold what they say.
LEAST_SIZE = 50.0
# The share of the target's choices that the log may have nothing to say of.
MOST_UNSUPPORTED = 0.05
# The share of the weight that may rest on propensities of which the draws met nothing.
MOST_FLOORED = 0.5
# What the draws of a target add to the variance of Σ π̂q: its own, and up to twice as much by what
# it has in common with the corrections, if the model errs between arms no more than its guesses
# differ.
IN_COMMON = 3.0
# The share of decisions whose reward may be missing.
MOST_MISSING = 0.10
MAX_TARGETS = 1_000
NEVER = 1e-9
# The share of an error by few draws that is worth a word.
SAID = 0.1


@dataclass(frozen=True, slots=True)
class Support:
    """How much a log can say of a target.

    Attributes
    ----------
    size : float
        Effective number of plays, (Σw)²/Σw²: the smaller of what was met and of what the odds let
        expect, which a heavy weight that did not happen to come up cannot hide from.
    largest : float
        The largest weight of a play.
    choices : float
        Share of what the target does that the log's agent does, too, often enough to be seen.
    decisions : float
        Share of the decisions where that is all of it.
    """

    size: float
    largest: float
    choices: float
    decisions: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a target would have earned and violated, a decision, on the decisions of a log.

    Attributes
    ----------
    policy : policy
        The target, as it stood at the end of the log.
    decisions : int
        How many it is about: those that have a propensity in the log.
    left_out : int
        Those that have none; places of slates; those that were erased, or that rested on what was
        erased since.
    missing : int
        Decisions without a reward (yet), or that still wait for an answer. The lower end of each
        interval takes the lowest reward for them, the upper end the highest.
    logged : float
        What the log's own decisions earned, where that is known.
    abstains : float
        Share of decisions in which the target would play nothing. That earns 0.
    ips, dr : Interval or None
        What it would have earned: self-normalised importance sampling, and doubly robust with the
        agent's own guesses of that time. None if it is refused.
    support : Support
        How much the log can say of it.
    believed, believed_logged : float
        The model's belief, and no more: Σ_k π(k) (1 − P(allowed)) by the limits of that time, of
        the target and of the log's own agent. Of a decision that asked first, what follows on the
        answer counts as often as the target would ask it: an estimate, of which the mean is right.
        It leaves out what follows on questions that the log cannot speak of, a part of
        ``1 − support.choices``, and on those not answered yet.
    audited : (float, float) or None
        What audits show of all the log's own plays: bounds on how many were violations, a decision.
        Each is wrong with probability `delta` of the meter at most.
    refused : str or None
        Why the log cannot say what it would have earned.
    draws : int or None
        The fewest draws that a propensity was estimated by; None if all are exact.
    sampling : float
        The share of the variance of `dr` that more draws would take away, up to chance.
    """

    policy: Policy
    decisions: int
    left_out: int
    missing: int
    logged: float
    abstains: float
    ips: Interval | None
    dr: Interval | None
    support: Support
    believed: float
    believed_logged: float
    audited: tuple[float, float] | None
    refused: str | None
    draws: int | None = None
    sampling: float = 0.0

    @property
    def sigma(self) -> float | None:
        """The target's dial, if it has one."""
        return getattr(self.policy, "sigma", None)

    @property
    def earned(self) -> Interval:
        """What it would have earned: `dr`, or `NotPossible` if that is refused."""
        if self.dr is None:
            raise NotPossible(str(self.refused))
        return self.dr

    def __str__(self) -> str:
        name = _name(self.policy)
        if self.dr is None:
            return f"{name}: {self.refused}"
        said = f"{name}: earns {self.dr} a decision; violates {self.believed:.4f} by belief"
        if self.sampling >= SAID:
            said += f"; {self.sampling:.0%} of the error is by {self.draws:,} draws a propensity"
        return said


@overload
def evaluate(
    events: Iterable[Event],
    sigma: float,
    policy: Policy | None = None,
    *,
    level: float = 0.95,
    audits: AuditMeter | Auditing | None = None,
) -> Evaluation: ...
@overload
def evaluate(
    events: Iterable[Event],
    sigma: None = None,
    policy: Policy = ...,
    *,
    level: float = 0.95,
    audits: AuditMeter | Auditing | None = None,
) -> Evaluation: ...
@overload
def evaluate(
    events: Iterable[Event],
    sigma: Sequence[float] | Floats,
    policy: Policy | None = None,
    *,
    level: float = 0.95,
    audits: AuditMeter | Auditing | None = None,
) -> list[Evaluation]: ...
@overload
def evaluate(
    events: Iterable[Event],
    sigma: None = None,
    policy: Sequence[Policy] = ...,
    *,
    level: float = 0.95,
    audits: AuditMeter | Auditing | None = None,
) -> list[Evaluation]: ...
def evaluate(
    events: Iterable[Event],
    sigma: float | Sequence[float] | Floats | None = None,
    policy: Policy | Sequence[Policy] | None = None,
    *,
    level: float = 0.95,
    audits: AuditMeter | Auditing | None = None,
) -> Evaluation | list[Evaluation]:
    """Return what another sigma, or another policy, would have earned on the decisions of a log.

    Parameters
    ----------
    events : events
        The whole log of an agent that decided with ``propensity=True``.
    sigma : float or list of floats, optional
        The dial of the target; all else is as the agent had it at the time (or as in `policy`).
    policy : policy or list of policies, optional
        The target. A list, of sigmas or of policies, takes one pass over the log.
    level : float, default 0.95
        Of the intervals, each on its own.
    audits : AuditMeter, optional
        Audits of the same log, from its first decision to its last, to be shown beside the model's
        belief.

    Returns
    -------
    Evaluation, or a list of them
        One target that the log cannot speak of raises `NotPossible`. In a list it says so in
        `refused`, and does not stand in the way of the others.

    Examples
    --------
    >>> from bridle import Agent
    >>> log = []
    >>> agent = Agent(arms=2, features=1, sigma=0.5, prior="paper", sink=log.extend)
    >>> for _ in range(200):
    ...     made = agent.decide([1.0], propensity=True)
    ...     agent.reward(made.id, float(made.arm))
    >>> found = evaluate(log, sigma=0.6)
    >>> found.decisions, found.refused
    (200, None)
    """
    level = LEVEL.check(level, "level", "evaluate")
    targets, several = targets_of(sigma, policy)
    found = survey(events, targets, "evaluate")
    known = found.known
    left_out = len(found) - int(known.sum()) + found.gone
    if not known.any():
        raise NotPossible(
            "No decision of this log has its propensity (those of slates do not count: they are "
            "of places). Decide with propensity=True: agent.decide(context, propensity=True)."
        )
    bounds = _rates(audits_of(audits, found, "evaluate"))
    table = found.only(known)
    out = [_evaluated(table, left_out, 1 + j, level, bounds) for j in range(len(targets))]
    if several:
        return out
    if out[0].refused is not None:
        raise NotPossible(out[0].refused)
    return out[0]


# -- the targets -----------------------------------------------------------------------------


def targets_of(
    sigma: object, policy: object, owner: str = "evaluate"
) -> tuple[list[Callable[[Policy], Policy]], bool]:
    """Return what each target makes of the agent's policy, and whether a list was given."""
    if sigma is None and policy is None:
        remedy = "Say which sigma, or which policy, is to be evaluated."
        raise InvalidValue("sigma", owner, "a float, or a list of floats", sigma, remedy)
    several = _is_list(sigma) or (sigma is None and _is_list(policy))
    if sigma is None:
        policies = [_checked(one, owner) for one in _listed(policy, "policy", owner)]
        return [_always(one) for one in policies], several
    base = None if policy is None else _checked(policy, owner)
    name = "sigmas" if owner == "recommend" else "sigma"
    values = [validation.SIGMA.check(s, name, owner) for s in _listed(sigma, name, owner)]
    return [_turned(base, value) for value in values], several


def _always(policy: Policy) -> Callable[[Policy], Policy]:
    return lambda _: policy


def _turned(base: Policy | None, sigma: float) -> Callable[[Policy], Policy]:
    return lambda policy: with_sigma(policy if base is None else base, sigma)


def _checked(policy: object, owner: str) -> Policy:
    if not isinstance(policy, Policy):
        raise InvalidValue("policy", owner, "one of bridle.policies, or registered", policy)
    policy_to_json(policy)
    if getattr(policy, "needs_truth", False):
        remedy = "A log does not hold the truth."
        raise InvalidValue("policy", owner, "one that is not told the truth", policy, remedy)
    return policy


def _is_list(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _listed(value: object, name: str, owner: str) -> list[object]:
    values = list(value) if _is_list(value) else [value]  # type: ignore[call-overload]
    if not 1 <= len(values) <= MAX_TARGETS:
        raise InvalidValue(name, owner, f"1 to {MAX_TARGETS:,} of them", len(values))
    return values


def _name(policy: Policy) -> str:
    sigma = getattr(policy, "sigma", None)
    return repr(policy) if sigma is None else f"sigma = {sigma:g}"


# -- one target ------------------------------------------------------------------------------


def _evaluated(
    found: Survey, left_out: int, j: int, level: float, audited: tuple[float, float] | None
) -> Evaluation:
    """Evaluate target j; 0 is the log's own agent."""
    earned, missing = _known(found)
    weight = found.weight[earned, j]
    plays = math.fsum(1.0 - found.idle[:, j] - found.lack[:, j])
    squares = math.fsum(found.square[:, j])
    foreseen = plays * plays / squares if squares > 0.0 else 0.0
    idle, lack = mean_of(found.idle[:, j]), mean_of(found.lack[:, j])
    out = Evaluation(
        policy=found.policies[j],
        decisions=len(found),
        left_out=left_out,
        missing=int(missing.sum()),
        logged=mean_of(found.reward[~missing]),
        abstains=idle,
        ips=None,
        dr=None,
        support=Support(
            size=min(effective_size(weight), foreseen),
            largest=float(weight.max(initial=0.0)),
            choices=1.0 - lack,
            decisions=float((found.lack[:, j] <= NEVER).mean()),
        ),
        believed=mean_of(found.belief[:, j]),
        believed_logged=mean_of(found.belief[:, 0]),
        audited=audited,
        refused=None,
        draws=_fewest(found),
    )
    why = _refusal(out) or _floored(found, j, earned | missing)
    if why is not None:
        return replace(out, refused=f"{_name(out.policy)} cannot be evaluated from this log. {why}")
    if idle >= 1.0 - NEVER:
        nothing = Interval(0.0, 0.0, 0.0, level)
        return replace(out, ips=nothing, dr=nothing)
    ips, dr = _intervals(found, j, level, out.support.size, lack, idle)
    return replace(out, ips=ips, dr=dr, sampling=_sampling(found, j))


def _known(found: Survey) -> tuple[Bools, Bools]:
    """Return which decisions have a reward, and which lack one. Abstentions are neither."""
    return found.fate == EARNED, (found.fate == PENDING) | (found.fate == UNFINISHED)


def _refusal(found: Evaluation) -> str | None:
    """Return why a log cannot tell what a target earned, if it cannot."""
    if found.missing > MOST_MISSING * found.decisions:
        return (
            f"The reward is missing for {found.missing:,} of {found.decisions:,} decisions, more "
            f"than {MOST_MISSING:.0%}, and those that come late may be other ones. Reward them, "
            "with the lowest reward if nothing came of them."
        )
    lack, size = 1.0 - found.support.choices, found.support.size
    if lack > MOST_UNSUPPORTED:
        few = ""
        if found.draws is not None:
            few = f" What none of {found.draws:,} draws a propensity met counts as never done, too."
        return (
            f"{lack:.1%} of what it would do is never done in the log, or hardly ever; at most "
            f"{MOST_UNSUPPORTED:.0%} may be. Take a target closer to the log's own agent, or log "
            f"with one that tries more.{few}"
        )
    if size < LEAST_SIZE and found.abstains < 1.0 - NEVER:
        return (
            f"The log is worth {size:.1f} plays of its own; {LEAST_SIZE:g} are needed. Take a "
            "longer log, or a target closer to the log's own agent."
        )
    return None


def _fewest(found: Survey) -> int | None:
    drawn = found.draws[found.draws > 0.0]
    return int(drawn.min()) if len(drawn) else None


def _floored(found: Survey, j: int, played: Bools) -> str | None:
    """Return why propensities say too little: most of the weight is where draws met nothing."""
    weight = found.weight[played, j]
    total = math.fsum(weight)
    floored = math.fsum(weight * found.floor[played]) / total if total > 0.0 else 0.0
    if floored <= MOST_FLOORED:
        return None
    return (
        f"{floored:.0%} of the weight rests on plays that none of {_fewest(found):,} draws met, so "
        "that their propensities are the least that so many draws can tell. Log with more draws, "
        "or with a policy whose propensities are exact, such as SquareCB."
    )


def _sampling(found: Survey, j: int) -> float:
    """Return the share of the variance of the doubly robust estimate that is due to draws."""
    rewards = np.where(found.fate == EARNED, found.reward, found.guess)
    d = found.rest[:, j] + found.weight[:, j] * rewards
    noise = IN_COMMON * math.fsum(found.noise[:, j])
    drawn = math.fsum(d * d * found.sampled[:, j]) + noise
    whole = math.fsum((d - mean_of(d)) ** 2) + noise
    return min(drawn / whole, 1.0) if whole > 0.0 else 0.0


def _intervals(
    found: Survey, j: int, level: float, size: float, lack: float, idle: float
) -> tuple[Interval, Interval]:
    """Return both estimates, each end as if what is not known were as bad, or good, as can be."""
    earned, missing = _known(found)
    played, weight, rewards = earned | missing, found.weight[:, j], found.reward
    worst, best = found.reward_range
    bad, good = (np.where(missing, end, rewards) for end in (worst, best))

    # Σwr / Σw is what a play earns, among those that the log can speak of.
    span = found.reward_span
    low = self_normalised(weight[played], bad[played], level=level, span=span).low
    high = self_normalised(weight[played], good[played], level=level, span=span).high
    value = self_normalised(weight[earned], rewards[earned], level=level).value
    share = max(1.0 - lack - idle, 0.0)
    ends = share * low + lack * worst, share * high + lack * best
    ips = _inside((1.0 - idle) * value, *ends, found.reward_range, level)

    noise = IN_COMMON * math.fsum(found.noise[:, j]) / len(found) ** 2

    def robust(r: Floats) -> Interval:
        rest = found.rest[:, j] + weight * r
        return doubly_robust(
            found.expected[:, j], rest, level=level, size=size, span=span, noise=noise
        )

    value = robust(np.where(missing, found.guess, rewards)).value + mean_of(found.unseen[:, j])
    ends = robust(bad).low + lack * worst, robust(good).high + lack * best
    return ips, _inside(value, *ends, found.reward_range, level)


def _inside(
    value: float, low: float, high: float, ends: tuple[float, float], level: float
) -> Interval:
    value, low, high = (min(max(x, ends[0]), ends[1]) for x in (value, low, high))
    return Interval(value, low, high, level)


# -- audits of the log -----------------------------------------------------------------------


def audits_of(audits: object, found: Survey, owner: str) -> AuditMeter | None:
    """Return the meter if it has counted all that was done in this log, and nothing else."""
    if audits is None:
        return None
    if isinstance(audits, Auditing) and audits.meter is not None:
        steps = int((found.fate != UNFINISHED).sum()) + found.gone_done
        if audits.before or audits.meter.steps != steps:
            wanted = "begun before the first decision of this log"
            got = f"audits of {audits.meter.steps:,} of its {len(found):,} decisions"
            raise InvalidValue("audits", owner, wanted, got)
        return audits.meter
    if not isinstance(audits, AuditMeter):
        raise InvalidValue("audits", owner, "an AuditMeter", audits)
    done = found.fate != UNFINISHED  # what still waits for an answer has not been done
    ids = [id for id, is_done in zip(found.ids, done, strict=True) if is_done]
    plays = int((found.fate[done] != PLAYED_NOTHING).sum())
    wrong = _unlike(audits, ids, plays)
    if wrong:
        wanted = f"the AuditMeter of this log, with each of its {len(ids):,} decisions counted once"
        remedy = f"It {wrong}. Call `observe` or `abstained` for each decision, from the first on."
        raise InvalidValue("audits", owner, wanted, f"one of {audits.steps:,} steps", remedy)
    return audits


def _unlike(audits: AuditMeter, ids: Sequence[ItemId], plays: int) -> str:
    """Return in which way a meter is not that of these decisions; nothing if it is."""
    met = [audits.met(id) for id in ids]
    count = sum(met)
    if ids and not count:
        return "has met none of them: it is of another log, or was never told"
    if len(set(ids)) < len(ids):
        return "cannot be of it: an id comes twice in the log, which a meter refuses"
    if count < len(ids):
        first, last = met.index(True), len(met) - 1 - met[::-1].index(True)
        if count == last + 1 - first:  # without a gap
            parts = [f"started later, at the decision {ids[first]!r}"] if first else []
            if last + 1 < len(ids):
                parts.append(f"stopped earlier, after the decision {ids[last]!r}")
            return " and ".join(parts)
        return f"has not met the decision {ids[met.index(False, first)]!r}, which lies in between"
    if audits.steps > count:
        return f"has met {audits.steps - count:,} more, which are not in this log"
    if audits.actions != plays:
        return f"counted {audits.actions:,} actions, where the log has {plays:,}"
    return ""


def _rates(audits: AuditMeter | None) -> tuple[float, float] | None:
    """Return the bounds on the violations of the log's own plays, a decision."""
    if audits is None:
        return None
    (lower, upper), n = audits.bounds(), max(audits.steps, 1)
    return lower / n, upper / n
