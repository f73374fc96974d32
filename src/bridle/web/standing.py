"""Where an agent stands: the promise and the spot checks in a line, for the head of its pages."""

from __future__ import annotations

import logging
from typing import NamedTuple

from bridle.agent.purse import Purse
from bridle.agent.queries import FreshStart, fresh_start_of
from bridle.agent.state import AgentState
from bridle.errors import BridleError
from bridle.server.problems import Problem
from bridle.server.service import Service
from bridle.store.aggregate import Aggregate
from bridle.web.rendering import percent

__all__ = ["Standing", "look", "one_in", "plays", "standing_of"]

log = logging.getLogger("bridle.server")

PATIENCE = 5.0  # seconds that a page waits for its head
ALWAYS = 0.995  # what is likelier is called "every"
OFTEN = 0.4  # what is likelier is said of 100


class Standing(NamedTuple):
    """Where an agent stands.

    Attributes
    ----------
    tone : {"yes", "warn", "no", "plain"}
        Good, to be careful with, bad; or neither.
    text : str
        In a sentence or two.
    waiting : int
        Plays that wait to be judged.
    fresh : FreshStart or None
        What speaks for starting again.
    teachers : int
        How many are declared.
    """

    tone: str
    text: str
    waiting: int
    fresh: FreshStart | None
    teachers: int = 0


async def look(service: Service, agent: str) -> Standing | None:
    """Read where an agent stands; None if that cannot be told now: the page is there all the same.

    So long as an agent is there, only its store can be in the way, and then its pages say so.
    """
    try:
        return await service.do(agent, lambda work: standing_of(work.aggregate), timeout=PATIENCE)
    except (BridleError, Problem) as error:
        log.warning("where agent %s stands is not known: %s", agent, error)
        return None


def standing_of(kept: Aggregate) -> Standing:
    """Say where an agent stands."""
    state = kept.state
    tone, text = _checked(state) if state.purse is None else _promised(state.purse)
    many = len(state.teachers.teachers)
    return Standing(tone, text, len(state.checks.open), fresh_start_of(state), many)


def one_in(coin: float) -> str:
    """Say how often a coin falls.

    Examples
    --------
    >>> one_in(0.025), one_in(1 / 3), one_in(0.6), one_in(1.0)
    ('1 in 40', '1 in 3', '60 in 100', 'every')
    """
    if coin >= ALWAYS:
        return "every"
    return f"1 in {1.0 / coin:,.0f}" if coin <= OFTEN else f"{100.0 * coin:.0f} in 100"


def plays(coin: float) -> str:
    """Say which plays a coin chooses.

    Examples
    --------
    >>> plays(0.025), plays(1.0)
    ('1 play in 40', 'every play')
    """
    if coin >= ALWAYS:
        return "every play"
    return one_in(coin).replace(" in ", " play in " if coin <= OFTEN else " plays in ")


def _promised(purse: Purse) -> tuple[str, str]:
    """Say how the promise stands."""
    judged = purse.audits - len(purse.waiting)
    found = f"checks found {purse.found:,} of {judged:,} not allowed"
    if purse.state == "frozen":
        return "no", _frozen(purse)
    if purse.state == "cautious":
        return "warn", f"Careful: checking {plays(purse.coin())} · {found}"
    level = percent(purse.alpha)
    return "yes", f"Promise: at most {level} not allowed in the long run · {found}"


def _frozen(purse: Purse) -> str:
    if purse.found:
        many = "1 play that was" if purse.found == 1 else f"{purse.found:,} plays that were"
        why = f"checks found {many} not allowed."
    else:
        why = "too many checks wait to be judged."
    left = purse.thaws_in
    until = f"{left:,} more {'decision' if left == 1 else 'decisions'}"
    sooner = ", fewer if checks are judged" if purse.waiting else ""
    return (
        f"Frozen: {why} For at most {until}{sooner}, it plays only what a person allows at that "
        "moment."
    )


def _checked(state: AgentState) -> tuple[str, str]:
    """Say how spot checks stand, where no promise binds."""
    checks = state.checks
    if not state.policy.needs_limits:
        text = "No spot checks: with its way of choosing this agent may play what is not allowed."
        return "warn", text
    if state.limits_state.rates is None:
        return "warn", "Spot checks are off: exceptions will not be noticed."
    said = f"Spot checks: {checks.judged:,} judged, "
    said += "1 was not allowed" if checks.found == 1 else f"{checks.found:,} were not allowed"
    if not checks.may(state.decisions + 1) and isinstance(state.settings.checks, int):
        return "warn", f"{said}. All are used up: exceptions will no longer be noticed."
    return "warn" if checks.found else "plain", said
