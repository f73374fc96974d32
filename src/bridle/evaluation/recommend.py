"""The largest sigma that keeps to a budget of violations, and by what that is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from bridle import validation
from bridle.agent.events import Abstained, Certified, Created, Decided, Event, Uncertified
from bridle.audit.log import Auditing
from bridle.audit.meter import AuditMeter
from bridle.certificates.certificate import Certificate
from bridle.errors import InvalidValue, NotPossible
from bridle.evaluation.evaluate import audits_of, targets_of
from bridle.evaluation.table import events_of, mean_of, survey

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
        Violations a decision of each sigma, on this basis: by audits, bounds on what is to be
        expected in the situations of the log.
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
    audits: AuditMeter | Auditing | None = None,
) -> Recommendation:
    """Return the largest sigma whose violations, a decision, stay within a budget.

    If the agent kept to a certificate in every decision, and its α is within the budget, any sigma
    does: no policy that stays inside it violates more often. Else with audits, by a bound. With
    neither, by the model's belief, which nobody has checked. A sigma counts only if all smaller
    ones given are within the budget, too.

    The bound by audits is on the expected violations a decision in the situations of this log: each
    decision in the context and the state in which it was made, played once by the odds of that
    sigma. They are at most those that were to be expected of the log's own agent, which the audits
    bound (`AuditMeter.expected`), and the probability that the sigma plays what the agent would not
    have. With probability 1 − δ or more, the meter's delta, this holds for all sigmas at once,
    whatever the limits are and however they change. It takes the agent's draws as chance: whoever
    chooses the contexts does not foresee them. It is no bound on how many violations happened, nor
    on what comes when the sigma has led to other states.

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
        Audits of the same log, from its first decision to its last.

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
    budget = validation.FRACTION.check(budget, "budget", "recommend")
    if not isinstance(sigmas, Sequence) or isinstance(sigmas, str) or not len(sigmas):
        raise InvalidValue("sigmas", "recommend", "a list of at least one float", sigmas)
    targets, _ = targets_of(sigmas, None, "recommend")
    log = list(events_of(events, "recommend"))
    found = survey(log, targets, "recommend")
    certificate = _in_force(log)
    if not len(found):
        raise NotPossible("There is no decision in this log to judge by.")
    asked = [float(sigma) for sigma in sigmas]
    believed = {s: mean_of(found.belief[:, 1 + j]) for j, s in enumerate(asked)}
    meter = audits_of(audits, found, "recommend")
    refuted = certificate is not None and _refuted(certificate, meter)
    if certificate is not None and not refuted and certificate.alpha <= budget:
        rates, basis = dict.fromkeys(asked, float(certificate.alpha)), "certificate"
    elif meter is not None:
        # In each decision Σ_k b(k) denied(k) ≤ Σ_k a(k) denied(k) + Σ_k max(b(k) − a(k), 0).
        own = meter.expected() / len(found)
        apart = (mean_of(found.apart[:, 1 + j]) for j in range(len(asked)))
        rates = {s: min(own + a, 1.0) for s, a in zip(asked, apart, strict=True)}
        basis = "audits"
    else:
        rates, basis = believed, "belief"
    best = _largest(rates, budget)
    sentence = _advice(best, budget, basis, rates, believed, meter, certificate, len(found))
    if certificate is not None and basis != "certificate":
        why = (
            "the audits show more violations than it allows: do not trust it, and certify anew"
            if refuted
            else f"its α is {certificate.alpha:g}, more than the budget"
        )
        sentence = f"{sentence} (There is a certificate, but {why}.)"
    return Recommendation(best, budget, basis, tuple(sorted(rates.items())), sentence)


def _largest(rates: dict[float, float], budget: float) -> float | None:
    within = takewhile(lambda pair: pair[1] <= budget, sorted(rates.items()))
    return max((sigma for sigma, _ in within), default=None)


def _refuted(certificate: Certificate, meter: AuditMeter | None) -> bool:
    """Whether audits show more violations than a certificate lets happen, luck aside."""
    if meter is None or not meter.steps:
        return False
    return meter.bounds().lower > certificate.violations_bound(meter.steps, meter.delta)


def _in_force(events: Iterable[Event]) -> Certificate | None:
    """Return the certificate that binds now, if there was one at every decision so far."""
    now: Certificate | None = None
    gap = False
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
            gap = gap or now is None
    return None if gap else now


def _advice(
    best: float | None,
    budget: float,
    basis: str,
    rates: dict[float, float],
    believed: dict[float, float],
    meter: AuditMeter | None,
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
    if basis == "audits" and meter is not None:
        own = f"{meter.expected() / decisions:.4g} for the log's own agent"
        where = f"in the situations of this log's {decisions:,} decisions"
        end = (
            f"(wrong with probability {meter.delta:g} at most, for all sigmas at once). (By the "
            f"model's belief alone: {belief}.)"
        )
        if best is None:
            return (
                f"No sigma is shown to be within {budget:g} expected violations a decision: "
                f"{where} the audits leave up to {own}, and with what it would play otherwise up "
                f"to {min(rates.values()):.4g} for the best of these {end}"
            )
        return (
            f"sigma = {best:g} is within {budget:g} expected violations a decision: {where} the "
            f"audits leave at most {own}, and with what it would play otherwise at most "
            f"{rates[best]:.4g} for this one {end}"
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
