"""The largest sigma that keeps to a budget of violations, and by what that is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from bridle import validate
from bridle.certificates import Certificate
from bridle.errors import InvalidValue, NotPossible
from bridle.evaluating import Audited, audited_rates, targets_of
from bridle.events import Abstained, Certified, Created, Decided, Event, Uncertified
from bridle.surveying import mean_of, survey

__all__ = ["Recommendation", "recommend"]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The largest sigma within a budget of violations a decision.

    Attributes
    ----------
    sigma : float or None
        None if none of them is shown to be within the budget.
    budget : float
        Violations a decision that are tolerated.
    basis : {"certificate", "audits", "belief"}
        What it rests on.
    rates : tuple of (sigma, float)
        Violations a decision of each sigma, on this basis.
    sentence : str
        All of it in words.
    """

    sigma: float | None
    budget: float
    basis: str
    rates: tuple[tuple[float, float], ...]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def recommend(
    events: Iterable[Event],
    budget: float,
    sigmas: Sequence[float],
    audits: Audited | None = None,
) -> Recommendation:
    """Give the largest sigma whose violations, a decision, stay within a budget.

    If the agent kept to a certificate in every decision, and its α is within the budget, any sigma
    does: no policy that stays inside it violates more often. Else with audits: at most what they
    bound for the log's own plays, and one for each decision in which the sigma would have played
    otherwise, on average. With neither, by the model's belief, which nobody has checked. A sigma
    counts only if all smaller ones given are within the budget, too.

    An agent with a budget for questions is refused: what another sigma would have asked, been told
    and then played is not in its log.

    Parameters
    ----------
    events : events
        The whole log of an agent. Rewards and propensities are not needed.
    budget : float in [0, 1]
        Violations a decision that are tolerated.
    sigmas : list of floats
        Those to choose from.
    audits : AuditMeter, optional
        Audits of the same log.

    Examples
    --------
    >>> from bridle import Agent
    >>> log = []
    >>> agent = Agent(arms=2, features=1, sigma=0.5, limits="rules", sink=log.extend)
    >>> _ = [agent.teach([1.0], arm, bool(arm)) for arm in (0, 1)]
    >>> _ = [agent.decide([1.0]) for _ in range(10)]
    >>> recommend(log, 0.01, [0.25, 0.5]).sigma
    0.5
    """
    budget = validate.FRACTION.check(budget, "budget", "recommend")
    if not isinstance(sigmas, Sequence) or isinstance(sigmas, str) or not len(sigmas):
        raise InvalidValue("sigmas", "recommend", "a list of at least one float", sigmas)
    targets, _ = targets_of(sigmas, None, "recommend")
    log = list(events) if isinstance(events, Iterable) else events
    certificate = _in_force(log)
    found = survey(log, targets, "recommend")
    if not len(found):
        raise NotPossible("There is no decision in this log to judge by.")
    asked = [float(sigma) for sigma in sigmas]
    believed = {s: mean_of(found.belief[:, 1 + j]) for j, s in enumerate(asked)}
    bounds = audited_rates(audits, found, "recommend")
    if certificate is not None and certificate.alpha <= budget:
        rates, basis = dict.fromkeys(asked, float(certificate.alpha)), "certificate"
    elif bounds is not None:
        apart = (mean_of(found.apart[:, 1 + j]) for j in range(len(asked)))
        rates = {s: min(bounds[1] + a, 1.0) for s, a in zip(asked, apart, strict=True)}
        basis = "audits"
    else:
        rates, basis = believed, "belief"
    best = _largest(rates, budget)
    sentence = _advice(best, budget, basis, rates, believed, bounds, certificate, len(found))
    return Recommendation(best, budget, basis, tuple(sorted(rates.items())), sentence)


def _largest(rates: dict[float, float], budget: float) -> float | None:
    within = takewhile(lambda pair: pair[1] <= budget, sorted(rates.items()))
    return max((sigma for sigma, _ in within), default=None)


def _in_force(events: Iterable[Event]) -> Certificate | None:
    """Give the certificate that bound every decision, of several the one that promises least."""
    now: Certificate | None = None
    least: Certificate | None = None
    for event in events:
        if isinstance(event, Created) and event.settings.budget > 0:
            raise NotPossible(
                "This agent asks when in doubt. What another sigma would have asked, been told and "
                "then played is not in its log: try it in a simulation, and audit it."
            )
        if isinstance(event, Certified):
            now = event.certificate
        elif isinstance(event, Uncertified):
            now = None
        elif isinstance(event, Decided | Abstained):
            if now is None:
                return None
            least = now if least is None or now.alpha > least.alpha else least
    return least


def _advice(
    best: float | None,
    budget: float,
    basis: str,
    rates: dict[float, float],
    believed: dict[float, float],
    audited: tuple[float, float] | None,
    certificate: Certificate | None,
    decisions: int,
) -> str:
    if basis == "certificate" and certificate is not None:
        return (
            f"sigma = {best:g}: by the certificate, no policy that keeps to it violates in more "
            f"than {certificate.alpha:g} of decisions (δ = {certificate.delta:g}), and the budget "
            f"is {budget:g}."
        )
    by_belief = _largest(believed, budget)
    belief = "no sigma" if by_belief is None else f"sigma = {by_belief:g}"
    if basis == "audits" and audited is not None:
        start = "No sigma is shown to be" if best is None else f"sigma = {best:g} is"
        rate = min(rates.values()) if best is None else rates[best]
        return (
            f"{start} within {budget:g} violations a decision: by the audits at most "
            f"{audited[1]:.4g} in the log, and with what it would play otherwise at most "
            f"{rate:.4g}{' for any of them' if best is None else ''}. (By the model's belief "
            f"alone: {belief}.)"
        )
    if best is None:
        return (
            f"No sigma is within {budget:g} violations a decision: by the model's belief, the "
            f"least is {min(rates.values()):.4g}."
        )
    return (
        f"{belief} is within {budget:g} violations a decision: {rates[best]:.4g} over "
        f"{decisions:,} decisions, by the model's belief alone, which nobody has checked. Audits "
        "or a certificate would."
    )
