"""Crosses: pairwise products of features, for limits such as "not both".

A model that is linear in the features cannot say that a and b are denied together and allowed
alone. With the product a·b as a column of its own it can.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.errors import InvalidValue
from bridle.kernels import logistic as kernel
from bridle.kernels.types import Floats

__all__ = ["MAX_COLUMNS", "columns", "expand", "names"]

# One fit takes time with the cube of the columns (seconds at a thousand) and memory with their
# square: 32 MB a unit here.
MAX_COLUMNS = 2_000


def columns(features: int, crosses: bool) -> int:
    """Give the number of columns of x = [c, 1, crosses?].

    Examples
    --------
    >>> columns(10, crosses=False), columns(10, crosses=True), columns(41, crosses=True)
    (11, 56, 862)
    """
    return features + 1 + (features * (features - 1) // 2 if crosses else 0)


def check_columns(features: int, crosses: bool, owner: str) -> int:
    """Give the number of columns, or raise `InvalidValue` where there are too many."""
    D = columns(features, crosses)
    if D > MAX_COLUMNS:
        what = "with crosses " if crosses else ""
        raise InvalidValue(
            "features",
            owner,
            f"so many that {what}there are at most {MAX_COLUMNS:,} columns",
            f"{features} features, {D:,} columns",
            "Leave the crosses out, or take fewer features." if crosses else "Take fewer features.",
        )
    return D


def expand(contexts: npt.ArrayLike, crosses: bool = True) -> Floats:
    """Give x = [c, 1, crosses?] of each context, as the logistic limits see it.

    Examples
    --------
    >>> expand([[2.0, 3.0, 5.0]]).tolist()
    [[2.0, 3.0, 5.0, 1.0, 6.0, 10.0, 15.0]]
    """
    C = validate.matrix(contexts, None, "contexts", "expand")
    D = check_columns(C.shape[1], crosses, "expand")
    X = np.zeros((len(C), D))
    where, x = np.empty(D, np.uint32), np.empty(D)
    for row, c in zip(X, C, strict=True):
        n = kernel.expand(c, crosses, where, x)
        row[where[:n]] = x[:n]
    return X


def names(features: Sequence[str], crosses: bool = True) -> tuple[str, ...]:
    """Give a name for each column of x.

    Examples
    --------
    >>> names(["horror", "comedy"])
    ('horror', 'comedy', '1', 'horror and comedy')
    """
    d = len(features)
    pairs = ((i, j) for i in range(d) for j in range(i + 1, d)) if crosses else ()
    return (*features, "1", *(f"{features[i]} and {features[j]}" for i, j in pairs))
