"""A proposal: arms that seem to share a rule, for a person to accept or correct."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import numpy as np

from bridle import validate
from bridle.errors import InvalidValue
from bridle.kernels.types import Floats, Ints
from bridle.limits.terms import Reading

__all__ = ["FoundGroup", "groups_of", "joined", "numbered"]


@dataclass(frozen=True)
class FoundGroup:
    """Arms that seem to share a rule: a proposal to a person.

    Attributes
    ----------
    name : str
        What the group will be called; `dataclasses.replace` it as you like.
    arms : tuple
        Its members: numbers, or ids where an agent proposes.
    sure : float
        Probability that two of its members have the same rule, on average.
    rule : Reading
        What the answers about all of them say of the rule, if they share it.

    Examples
    --------
    >>> print(FoundGroup("found 1", (0, 4, 7), 0.97, Reading(("Horror",), ("Crime",), ())))
    These 3 arms seem to share a rule (97 % sure): not Horror; unsure: Crime
    """

    name: str
    arms: tuple[int | str, ...]
    sure: float
    rule: Reading

    def __str__(self) -> str:
        head = f"These {len(self.arms)} arms seem to share a rule ({math.floor(100 * self.sure)} %"
        return self.rule.sentence(f"{head} sure)")


def groups_of(proposal: Iterable[FoundGroup], arms: int) -> list[str | None]:
    """Give the name of the group of each arm, None where it has none: for `RuleLimits`.

    Accepting a proposal, after a person has renamed, cut or joined its groups:
    `RuleLimits(arms=K, features=d, groups=groups_of(proposal, K))`, taught the same answers.

    >>> groups_of([FoundGroup("young", (0, 2), 1.0, Reading((), (), ()))], 4)
    ['young', None, 'young', None]
    """
    owner = "groups_of"
    out: list[str | None] = [None] * validate.COUNT.check(arms, "arms", owner)
    for group in proposal:
        if not isinstance(group, FoundGroup):
            raise InvalidValue("proposal", owner, "FoundGroups", group)
        name = validate.text(group.name, "proposal", owner)
        for arm in group.arms:
            k = validate.IntRange(0, len(out) - 1).check(cast("int", arm), "proposal", owner)
            if out[k] is not None:
                remedy = "Take it out of one of them."
                raise InvalidValue("proposal", owner, "groups without a common arm", k, remedy)
            out[k] = name
    return out


def joined(same: Floats, least: float) -> list[list[int]]:
    """Join what is most alike, until no two groups are as alike as `least` on average."""
    groups = [[i] for i in range(len(same))]
    total = same.copy()  # sums over the pairs of two groups
    np.fill_diagonal(total, -1.0)
    size = np.ones(len(same))
    while len(groups) > 1:
        mean = total / (size[:, None] * size)
        a, b = sorted(divmod(int(mean.argmax()), len(groups)))
        if mean[a, b] < least or a == b:
            break
        total[a] += total[b]
        total[:, a] = total[a]
        total[a, a] = -1.0
        total = np.delete(np.delete(total, b, 0), b, 1)
        size[a] += size[b]
        size = np.delete(size, b)
        groups[a] = sorted(groups[a] + groups.pop(b))
    return groups


def numbered(classes: Ints) -> bool:
    """Whether the classes of each row are numbered from 0 on, as they first occur."""
    if classes.shape[1] == 0:
        return True
    before = np.maximum.accumulate(classes, axis=1)
    before = np.concatenate([np.full((len(classes), 1), -1), before[:, :-1]], axis=1)
    return bool(((classes >= 0) & (classes <= before + 1)).all())
