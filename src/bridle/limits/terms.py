"""What a rule can deny: single features and pairs of them; their numbers and their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.errors import InvalidValue
from bridle.features import Number, Schema
from bridle.kernels.types import Bools, Floats, Ints

__all__ = ["Reading", "Term", "Terms", "thresholds_of"]

# A feature by its column, or two of them.
Term: TypeAlias = int | tuple[int, int]

MAX_FEATURES = validate.IntRange(1, 10_000)
# Each term of each unit has a byte a sampled set, and a sweep looks at all that are active.
MAX_TERMS = 50_000
HELD_ABOVE = 0.5
# So many terms that are unsure are named in a sentence.
SHOWN = 5


def thresholds_of(schema: Schema) -> Floats:
    """Thresholds for `Terms` from a schema: columns of words and flags are terms, numbers are not.

    Where all features are numbers and none has a range, they are taken for the 0 and 1 of a context
    that someone encoded before, and all are terms.

    >>> from bridle.features import Flag
    >>> thresholds_of(Schema([Number("age", 0, 100), Flag("smoker")]))
    array([nan, 0.5])
    >>> thresholds_of(Schema([Number("c1"), Number("c2")]))
    array([0.5, 0.5])
    """
    out: Floats = np.full(schema.width, HELD_ABOVE)
    if all(isinstance(feature, Number) and feature.low is None for feature in schema.features):
        return out
    for feature in schema.features:
        if isinstance(feature, Number):
            out[schema.place(feature.name)[1]] = np.nan
    return out


def how_many(features: int, thresholds: npt.ArrayLike | None) -> tuple[int, int]:
    """Give the number of features that are terms, none perhaps, and of terms if pairs are too.

    >>> how_many(4, [0.5, 0.5, 0.5, float("nan")])
    (3, 6)
    """
    m = MAX_FEATURES.check(features, "features", "Terms")
    if thresholds is not None:
        above = validate.floats(thresholds, "thresholds", "Terms", f"{m} floats or NaN")
        if above.shape != (m,):
            raise InvalidValue("thresholds", "Terms", f"{m} floats or NaN", thresholds)
        m = int((~np.isnan(above)).sum())
    return m, m + m * (m - 1) // 2


@dataclass(frozen=True)
class Terms:
    """The terms of contexts with d features.

    A context holds a feature if its value is above the feature's threshold, and a pair if it holds
    both. So a feature that is a number (an age, a weight) is a term only where its threshold means
    something: give NaN for those that are none; `thresholds_of` does that for a schema.

    Parameters
    ----------
    features : int
        Length of a context, d.
    pairs : bool, default False
        Whether two features together are a term, too.
    thresholds : d floats, optional
        0.5 for each unless given; NaN: this feature is no term.

    Examples
    --------
    >>> terms = Terms(3, pairs=True)
    >>> len(terms), terms.of([1.0, 0.0, 1.0])
    (6, [0, 2, (0, 2)])
    >>> terms.names(["Comedy", "Drama", "Crime"])[-2:]
    ['Comedy with Crime', 'Drama with Crime']
    """

    features: int
    pairs: bool = False
    thresholds: npt.ArrayLike | None = field(default=None, compare=False)
    # Columns that are terms, and what their values must be above.
    columns: Ints = field(init=False, repr=False, compare=False)
    above: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        d = MAX_FEATURES.check(self.features, "features", "Terms")
        object.__setattr__(self, "pairs", validate.truth(self.pairs, "pairs", "Terms"))
        wanted = f"{d} floats, NaN where a feature is no term, and at least one that is none"
        above = np.full(d, HELD_ABOVE)
        if self.thresholds is not None:
            above = validate.floats(self.thresholds, "thresholds", "Terms", wanted)
        if above.shape != (d,) or np.isinf(above).any() or np.isnan(above).all():
            raise InvalidValue("thresholds", "Terms", wanted, self.thresholds)
        columns = np.flatnonzero(~np.isnan(above))
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "above", above[columns].copy())
        if len(self) > MAX_TERMS:
            remedy = "Leave pairs out, or give NaN as threshold of features that no rule needs."
            raise InvalidValue("features", "Terms", f"of at most {MAX_TERMS:,} terms", d, remedy)

    @property
    def singles(self) -> int:
        """Number of features that are terms, m."""
        return len(self.columns)

    def __len__(self) -> int:
        m = self.singles
        return m + m * (m - 1) // 2 if self.pairs else m

    def held(self, contexts: npt.ArrayLike, name: str = "contexts", owner: str = "Terms") -> Bools:
        """Say which of the m features each context holds: (n, m)."""
        return self.held_in(validate.matrix(contexts, self.features, name, owner))

    def held_in(self, contexts: Floats) -> Bools:
        """`held` for contexts that were checked before: no checks, no conversion."""
        return contexts[:, self.columns] > self.above

    def all(self) -> list[Term]:
        """Give the terms in the order of their numbers."""
        single = self.columns.tolist()
        both = [(i, j) for a, i in enumerate(single) for j in single[a + 1 :]]
        return [*single, *both] if self.pairs else single

    def of(self, context: npt.ArrayLike) -> list[Term]:
        """Give the terms that a context holds."""
        row = validate.vector(context, self.features, "context", "Terms.of")
        held = set(self.columns[self.held(row[None])[0]].tolist())
        each = ((term, term if isinstance(term, tuple) else (term,)) for term in self.all())
        return [term for term, parts in each if held.issuperset(parts)]

    def number(self, term: Term) -> int:
        """Give the number of a term; the order of a pair does not matter."""
        parts = term if isinstance(term, tuple) else (term,)
        at = {column: i for i, column in enumerate(self.columns.tolist())}
        wanted = f"a column in [0, {self.features - 1}] that is a term"
        wanted = f"{wanted}, or two of them" if self.pairs else wanted
        known = all(isinstance(part, int | np.integer) and int(part) in at for part in parts)
        if not known or len(set(parts)) != len(parts) or len(parts) > 1 + self.pairs:
            raise InvalidValue("term", "Terms.number", wanted, term)
        i, *rest = sorted(at[int(part)] for part in parts)
        m = self.singles
        return m + i * (2 * m - i - 1) // 2 + rest[0] - i - 1 if rest else i

    def names(self, columns: Sequence[str]) -> list[str]:
        """Name every term by the names of the columns, a schema's say.

        >>> Terms(2).names(["genres=Comedy", "genres=Crime"])
        ['Comedy', 'Crime']
        """
        if len(columns) != self.features:
            raise InvalidValue("columns", "Terms.names", f"{self.features} names", list(columns))
        short = [str(name).partition("=")[2] or str(name) for name in columns]
        if len(set(short)) < len(short):  # two features share a word: say which is meant
            short = [str(name) for name in columns]
        return [
            f"{short[term[0]]} with {short[term[1]]}" if isinstance(term, tuple) else short[term]
            for term in self.all()
        ]

    def known(self, given: Mapping[Term, bool]) -> dict[int, bool]:
        """Check known terms, and give them by number."""
        if not isinstance(given, Mapping):
            raise InvalidValue("known", "Terms", "a mapping from terms to True or False", given)
        return {
            self.number(term): validate.truth(denied, "known", "Terms")
            for term, denied in given.items()
        }


@dataclass(frozen=True)
class Reading:
    """A rule read back: its terms by name, as denied, unsure and allowed.

    Examples
    --------
    >>> print(Reading(("Horror", "Comedy with Crime"), ("Crime",), ("Drama",)).sentence("12-17"))
    12-17: not Horror, not Comedy with Crime; unsure: Crime
    """

    denied: tuple[str, ...]
    unsure: tuple[str, ...]
    allowed: tuple[str, ...]

    @classmethod
    def of(cls, words: Mapping[Term, str], chance: Mapping[Term, float], doubt: float) -> Reading:
        """Read a rule back from the probability that each term is denied, features before pairs.

        A pair says nothing new where one of its features is denied, and is then left out.

        >>> Reading.of({0: "a", 1: "b", (0, 1): "a with b"}, {0: 1.0, 1: 0.3, (0, 1): 0.5}, 0.01)
        Reading(denied=('a',), unsure=('b',), allowed=())
        """
        out: tuple[list[str], list[str], list[str]] = ([], [], [])
        gone: set[Term] = set()
        for term, word in words.items():
            if isinstance(term, tuple) and not gone.isdisjoint(term):
                continue
            denied = chance[term] >= 1.0 - doubt
            if denied:
                gone.add(term)
            out[0 if denied else 2 if chance[term] <= doubt else 1].append(word)
        return cls(*map(tuple, out))

    def sentence(self, unit: str) -> str:
        """Say it in a sentence; of what is unsure no more than a few."""
        parts = [", ".join(f"not {name}" for name in self.denied)] if self.denied else []
        if self.unsure:
            more = len(self.unsure) - SHOWN
            rest = f" and {more} more" if more > 0 else ""
            parts.append(f"unsure: {', '.join(self.unsure[:SHOWN])}{rest}")
        return f"{unit}: {'; '.join(parts) or 'all is allowed'}"
