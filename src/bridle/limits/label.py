"""Count a teacher's answers by context."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import NoReturn

import numpy as np

from bridle.errors import LimitReached, NotPossible
from bridle.kernels.types import Bools, Floats, Ints

__all__ = ["Tally"]


class Tally:
    """How often each distinct context was allowed and denied, for one unit.

    Contexts are kept in the order of their bytes, so what is held depends on the answers and not on
    their order.

    Parameters
    ----------
    features : int
        Length of a context, d.
    most : int
        How many distinct contexts it takes.

    Examples
    --------
    >>> tally = Tally(features=1, most=10)
    >>> tally.add(np.array([1.0]), False)
    >>> tally.add(np.array([0.0]), True)
    >>> tally.add(np.array([0.0]), True)
    >>> tally.contexts.tolist(), tally.allowed.tolist(), tally.denied.tolist()
    ([[0.0], [1.0]], [2.0, 0.0], [0.0, 1.0])
    """

    __slots__ = ("_contexts", "_counts", "_keys", "_most")

    def __init__(self, *, features: int, most: int) -> None:
        self._most = most
        self._keys: list[bytes] = []
        self._contexts: Floats = np.empty((0, features))
        # Row 1: allowed, row 0: denied. Floats, as the fit takes them; whole up to 2**53.
        self._counts: Floats = np.empty((2, 0))

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def contexts(self) -> Floats:
        """The distinct contexts: (n, d). Not a copy."""
        return self._contexts[: len(self._keys)]

    @property
    def allowed(self) -> Floats:
        """How often each was allowed: (n,). Not a copy."""
        return self._counts[1, : len(self._keys)]

    @property
    def denied(self) -> Floats:
        """How often each was denied: (n,). Not a copy."""
        return self._counts[0, : len(self._keys)]

    def add(self, context: Floats, allowed: bool) -> None:
        """Count one answer."""
        key = context.tobytes()
        n = len(self._keys)
        at = bisect_left(self._keys, key)
        if at == n or self._keys[at] != key:
            self._check(n + 1)
            if n == len(self._contexts):
                self._room(max(8, 2 * n))
            self._contexts[at + 1 : n + 1] = self._contexts[at:n]
            self._counts[:, at + 1 : n + 1] = self._counts[:, at:n]
            self._contexts[at] = context
            self._counts[:, at] = 0.0
            self._keys.insert(at, key)
        self._counts[int(allowed), at] += 1.0

    def add_many(self, contexts: Floats, allowed: Bools) -> None:
        """Count answers; the same as one by one, but sorted once."""
        first: dict[bytes, int] = {}
        which = np.empty(len(contexts), np.int64)
        for i, context in enumerate(contexts):
            which[i] = first.setdefault(context.tobytes(), len(first))
        more = np.zeros((2, len(first)))
        np.add.at(more, (allowed.astype(np.int64), which), 1.0)
        n = len(self._keys)
        places = [bisect_left(self._keys, key) for key in first]
        old = np.array(
            [at < n and self._keys[at] == key for at, key in zip(places, first, strict=True)], bool
        )
        self._check(n + int((~old).sum()))
        at = np.array(places, np.int64)
        self._counts[:, at[old]] += more[:, old]
        if old.all():
            return
        _, rows = np.unique(which, return_index=True)  # where each first occurs
        keys = self._keys + [key for key, known in zip(first, old, strict=True) if not known]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        self._contexts = np.concatenate([self.contexts, contexts[rows[~old]]])[order]
        counts = np.concatenate([self._counts[:, :n], more[:, ~old]], axis=1)[:, order]
        self._counts = np.ascontiguousarray(counts)  # the kernels are compiled for this layout
        self._keys = [keys[i] for i in order]

    def remove(self, context: Floats, allowed: bool) -> None:
        """Take back one answer."""
        key = context.tobytes()
        n = len(self._keys)
        at = bisect_left(self._keys, key)
        if at == n or self._keys[at] != key or self._counts[int(allowed), at] == 0.0:
            word = "allowed" if allowed else "denied"
            raise NotPossible(
                f"No answer '{word}' stands for this context and unit. "
                "Forget an answer that was learned and not yet forgotten."
            )
        self._counts[int(allowed), at] -= 1.0
        if not self._counts[:, at].any():
            self._contexts[at : n - 1] = self._contexts[at + 1 : n]
            self._counts[:, at : n - 1] = self._counts[:, at + 1 : n]
            del self._keys[at]

    def copy(self) -> Tally:
        """Count on apart from here."""
        twin = object.__new__(Tally)
        twin._most = self._most
        twin._keys = self._keys.copy()
        twin._contexts = self._contexts.copy()
        twin._counts = self._counts.copy()
        return twin

    @classmethod
    def of(cls, contexts: Floats, allowed: Ints, denied: Ints, most: int) -> Tally | None:
        """Make a tally of its own arrays; None if these are not as a tally keeps them."""
        keys = [context.tobytes() for context in contexts]
        rising = all(a < b for a, b in pairwise(keys))
        counted = bool(((allowed >= 0) & (denied >= 0) & (allowed + denied > 0)).all())
        if not rising or not counted or len(keys) > most:
            return None
        self = cls(features=contexts.shape[1], most=most)
        self._keys = keys
        self._contexts = np.array(contexts, np.float64, order="C")
        self._counts = np.array([denied, allowed], np.float64)
        return self

    @property
    def most(self) -> int:
        """How many distinct contexts it takes."""
        return self._most

    def refuse(self) -> NoReturn:
        """Say that there are too many distinct contexts."""
        raise LimitReached(
            "distinct contexts of one unit",
            self._most,
            "Round or bin the features, or leave the crosses out.",
        )

    def _check(self, n: int) -> None:
        if n > self._most:
            self.refuse()

    def _room(self, rows: int) -> None:
        n, d = self._contexts.shape
        contexts, counts = np.empty((rows, d)), np.empty((2, rows))
        contexts[:n], counts[:, :n] = self._contexts, self._counts
        self._contexts, self._counts = contexts, counts
