"""Whether calibration contexts were used for teaching, as far as that can be seen."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bridle import validate
from bridle.errors import InvalidValue
from bridle.kernels.types import Floats

__all__ = ["fresh_or_not", "named"]

# If more than this share of the contexts are different from all others, equal ones are no chance.
FEW_REPEATS = 0.8
FRESH = "No calibration context was used for teaching"


def fresh_or_not(C: Floats, ids: object, teaching: object, owner: str) -> str:
    """Refuse contexts that were used for teaching; say how far that could be seen."""
    remedy = "On what taught them, limits look better than they are. Draw fresh contexts."
    wanted = "fresh, with none that was used for teaching"
    if ids is not None:
        mine = named(ids, "ids", owner)
        if len(mine) != len(C):
            raise InvalidValue("ids", owner, f"{len(C)} ints or strings", f"{len(mine)} of them")
        if len(set(mine)) != len(mine):
            raise InvalidValue("ids", owner, "distinct: a context counts once", ids)
        if teaching is None:
            return f"{FRESH} (not checked: the ids of what was taught were not given)."
        taught_by = named(teaching, "teaching", owner)
        if taught_by and not {type(id) for id in mine} & {type(id) for id in taught_by}:
            wanted = "ids of one kind in both: ints, or strings"
            got = f"{mine[0]!r} of a calibration context and {taught_by[0]!r} of a taught one"
            raise InvalidValue("ids", owner, wanted, got, "As they are, none could be the same.")
        both = sorted(map(repr, set(mine) & set(taught_by)))
        if both:
            got = f"{len(both)} that were: {both[0]}, for one"
            raise InvalidValue("contexts", owner, wanted, got, remedy)
        return f"{FRESH} (checked by their ids)."
    if teaching is None:
        return f"{FRESH} (not checked: neither ids nor what was taught were given)."
    taught = {row.tobytes() for row in validate.matrix(teaching, C.shape[1], "teaching", owner)}
    rows = [row.tobytes() for row in C]
    equal = sum(row in taught for row in rows)
    # Where contexts hardly ever repeat, this is no chance.
    if 2 * equal > len(rows) and len(set(rows)) > FEW_REPEATS * len(rows):
        more = "If they are fresh draws that happen to be equal, say so by ids."
        got = f"{equal} of {len(rows)} that equal a taught one"
        raise InvalidValue("contexts", owner, wanted, got, f"{remedy} {more}")
    return (
        f"{FRESH}: {equal:,} of {len(rows):,} equal a taught one, and must be fresh draws all the "
        f"same (not checked: no ids were given)."
    )


def named(values: object, name: str, owner: str) -> list[int | str]:
    """Give ids as a list of ints and strings."""
    wanted = "a list of ints or strings"
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidValue(name, owner, wanted, values)
    listed = [value.item() if isinstance(value, np.generic) else value for value in values]
    for value in listed:
        if type(value) is not int and type(value) is not str:
            raise InvalidValue(name, owner, wanted, value)
    return listed
