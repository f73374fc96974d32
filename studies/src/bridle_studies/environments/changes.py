"""Limits that change: the tables of a world after its limits became stricter, looser, or tempting.

    before, after = world.tables, stricter(world)

Contexts and arms stay as they are, so that a run can go on with the second tables where it stopped
with the first.
"""

from __future__ import annotations

import numpy as np

from bridle import validation
from bridle.errors import InvalidValue
from bridle.kernels.types import Bools, Floats, Ints
from bridle.simulate import Tables
from bridle_studies.environments.world import World

__all__ = ["looser", "paying", "stricter"]

STEPS = validation.IntRange(0, 1_000)


def stricter(world: World, *, steps: int = 1) -> Tables:
    """Return the tables after the limits became stricter: an item of level l counts as l + 1.

    Each band keeps only what the band below it was allowed as well, and the lowest keeps nothing.
    The highest band stays as it was: in worlds of levels all is allowed to it. Where limits do not
    follow the order of the bands, nothing that was denied becomes allowed all the same.

    Parameters
    ----------
    world : World
        With `groups` in order, lowest first, and limits that are the same for all arms of a group.
    steps : int, default 1
        How often.

    Examples
    --------
    >>> from bridle.agent.config import Arm
    >>> arms = [Arm("a", group="child"), Arm("b", group="teen"), Arm("c", group="adult")]
    >>> levels = [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    >>> world = World.from_tables([[0.0], [0.5], [1.0]], [[0.5] * 3] * 3, levels, arms=arms)
    >>> stricter(world).allowed.astype(int).tolist()
    [[0, 1, 1], [0, 0, 1], [0, 0, 1]]
    >>> looser(world).allowed.astype(int).tolist()
    [[1, 1, 1], [1, 1, 1], [0, 1, 1]]
    """
    band, by_band = _by_band(world, "stricter")
    for _ in range(STEPS.check(steps, "steps", "stricter")):
        lower = np.zeros_like(by_band)
        lower[:, 1:] = by_band[:, :-1]
        lower[:, -1] = True  # the highest band stays as it was
        by_band = by_band & lower
    return _with(world.tables, by_band[:, band])


def looser(world: World, *, steps: int = 1) -> Tables:
    """Return the tables after the limits became looser: an item of level l > 0 counts as l - 1.

    Each band is allowed, beside what it was, all that the band above it was. The highest stays as
    it was. Parameters as for `stricter`.
    """
    band, by_band = _by_band(world, "looser")
    for _ in range(STEPS.check(steps, "steps", "looser")):
        higher = np.zeros_like(by_band)
        higher[:, :-1] = by_band[:, 1:]
        by_band = by_band | higher
    return _with(world.tables, by_band[:, band])


def paying(tables: Tables, bonus: float, *, contexts: Bools | None = None) -> Tables:
    """Return the tables with a bonus on whatever is denied: violating pays. Rewards stay in [0, 1].

    Parameters
    ----------
    tables : Tables
        The world's.
    bonus : float
        What a denied arm earns more, in [0, 1].
    contexts : array (M,) of bools, optional
        Where it does; in all contexts by default.

    Examples
    --------
    >>> tables = Tables([[1.0], [1.0]], [[0.5, 0.5], [0.9, 0.5]], [[True, False], [False, True]])
    >>> paying(tables, 0.3).rewards.tolist()
    [[0.5, 0.8], [1.0, 0.5]]
    """
    more = validation.FRACTION.check(bonus, "bonus", "paying")
    denied: Bools = ~tables.allowed
    if contexts is not None:
        denied &= validation.truths(contexts, len(tables), "contexts", "paying")[:, None]
    rewards: Floats = np.where(denied, np.minimum(tables.rewards + more, 1.0), tables.rewards)
    return Tables(tables.contexts, rewards, tables.allowed)


def _by_band(world: World, owner: str) -> tuple[Ints, Bools]:
    """Return the band of each arm, (K,), and what is allowed to each band, (M, G)."""
    number_of = {name: number for number, name in enumerate(world.groups)}
    wanted = "a world whose groups are bands in order, at least two, each with an arm"
    if len(number_of) < 2 or any(arm.group not in number_of for arm in world.arms):
        raise InvalidValue("world", owner, wanted, f"the groups {world.groups}")
    band: Ints = np.array([number_of[str(arm.group)] for arm in world.arms], np.int64)
    allowed = world.tables.allowed
    by_band: Bools = np.zeros((len(allowed), len(number_of)), np.bool_)
    for number, name in enumerate(world.groups):
        theirs = allowed[:, band == number]
        if not theirs.shape[1]:
            raise InvalidValue("world", owner, wanted, f"no arm in the group {name!r}")
        if not (theirs == theirs[:, :1]).all():
            wanted = "a world in which all arms of a group have the same limits"
            raise InvalidValue("world", owner, wanted, f"different limits in the group {name!r}")
        by_band[:, number] = theirs[:, 0]
    return band, by_band


def _with(tables: Tables, allowed: Bools) -> Tables:
    return Tables(tables.contexts, tables.rewards, allowed)
