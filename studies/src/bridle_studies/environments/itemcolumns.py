"""What a column of a table is, by its values: a flag, a number, a category, a set of labels."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bridle.errors import InvalidValue
from bridle.kernels.types import Floats
from bridle.schema import Category, Feature, Flag, Labels, Number

__all__ = ["Column", "read_column"]

OWNER = "read_items"
# Of words, where nobody says how many are kept; a longer word is none.
MAX_WORDS, MAX_WORD = 100, 100
FLAGS, NUMBERS, CATEGORIES, SETS = "Flags", "Numbers", "Categories", "Sets of labels"
TRUTH = {"0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "false": 0.0, "true": 1.0}
# What stands for a number or a flag that is not known.
MISSING = ("", "na", "n/a", "nan", "null")
SHOWN = 4  # words in a note


@dataclass(frozen=True, eq=False)
class Column:
    """A column as it was read: its kind, its feature, the encoded values (M, width), a remark."""

    kind: str
    feature: Feature
    encoded: Floats
    about: str = ""


def read_column(name: str, values: Sequence[str], most: int | None, *, named: bool) -> Column | str:
    """Return a column, or why it is left out.

    Parameters
    ----------
    name : str
        What it is called.
    values : sequence of M str
        Its values, without blanks around them.
    most : int, optional
        How many words to keep; text only.
    named : bool
        Whether the user asked for this column: then it is refused where it would be left out.

    Examples
    --------
    >>> column = read_column("year", ["1999", "1985", "1990", "1999"], None, named=False)
    >>> column.feature.low, column.feature.high
    (1985.0, 1999.0)
    >>> read_column("title", ["Alien", "Brazil", "Casino"], None, named=False)
    'all values differ (an id or a title)'
    """
    there = [value for value in values if value.lower() not in MISSING]
    if not there:
        return _leave_out(name, "it has no values", named)
    if len(set(there)) == 1 and "" not in values:
        return _leave_out(name, f"it has one value only ({there[0][:40]})", named)
    if {value.lower() for value in there} <= TRUTH.keys():
        _no_words(name, most, "flags")
        return _flags(name, values)
    numbers = [_number(value) for value in there]
    if all(number is not None for number in numbers) and len(set(numbers)) > 2:
        _no_words(name, most, "numbers")
        whole = all(number == int(number) for number in numbers if number is not None)
        if whole and len(set(there)) == len(values) and not named:
            return "all values differ (an id); name it in --features if it is a quantity"
        return _numbers(name, values)
    return _text(name, values, most, named)


def _leave_out(name: str, why: str, named: bool) -> str:
    if named:
        remedy = "Leave it out of --features."
        raise InvalidValue("features", OWNER, "columns that can be read", f"{name}: {why}", remedy)
    return why


def _no_words(name: str, most: int | None, kind: str) -> None:
    if most is not None:
        wanted = "a number of words only for columns of text"
        raise InvalidValue("features", OWNER, wanted, f"{name}:{most}, a column of {kind}")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    # Python takes 1_000 for a number; nobody else does.
    return value if math.isfinite(value) and abs(value) <= 1e300 and "_" not in text else None


def _flags(name: str, values: Sequence[str]) -> Column:
    missing = sum(value.lower() in MISSING for value in values)
    encoded = np.array([[TRUTH.get(value.lower(), 0.0)] for value in values])
    about = f"{missing:,} missing, taken as 0" if missing else ""
    return Column(FLAGS, Flag(name, missing=False if missing else None), encoded, about)


def _numbers(name: str, values: Sequence[str]) -> Column:
    numbers = [None if value.lower() in MISSING else _number(value) for value in values]
    known = [number for number in numbers if number is not None]
    mean = math.fsum(known) / len(known)
    missing = len(numbers) - len(known)
    feature = Number(name, min(known), max(known), missing=mean if missing else None)
    filled = [mean if number is None else number for number in numbers]
    encoded = np.array([[feature.scale(number)] for number in filled])
    gaps = f", {missing:,} missing, taken as the mean {mean:.4g}" if missing else ""
    about = f"{min(known):g} to {max(known):g}{gaps}"
    return Column(NUMBERS, feature, np.clip(encoded, 0.0, 1.0), about)


def _text(name: str, values: Sequence[str], most: int | None, named: bool) -> Column | str:
    there = [value for value in values if value]
    separator = "|" if any("|" in value for value in there) else ";"
    apart = sum(separator in value for value in there)
    differ = len(set(there)) == len(there)
    # Titles may hold a separator; most sets of words do.
    if apart and (not differ or 2 * apart >= len(there) or most is not None):
        return _labels(name, values, separator, most, named)
    if differ:
        return _leave_out(name, "all values differ (an id or a title)", named)
    if max(map(len, there)) > MAX_WORD:
        return _leave_out(name, f"it is long text (over {MAX_WORD} characters)", named)
    return _category(name, values, most)


def _labels(
    name: str, values: Sequence[str], separator: str, most: int | None, named: bool
) -> Column | str:
    sets = [{word.strip() for word in value.split(separator)} - {""} for value in values]
    counts = Counter(word for words in sets for word in words)
    short = Counter({word: n for word, n in counts.items() if len(word) <= MAX_WORD})
    if not short:
        return _leave_out(name, "its words are too long", named)
    kept, about = _kept(short, most, len(counts) - len(short))
    place = {word: i for i, word in enumerate(kept)}
    encoded = np.zeros((len(values), len(kept)))
    for row, words in enumerate(sets):
        for word in words & place.keys():
            encoded[row, place[word]] = 1.0
    return Column(SETS, Labels(name, kept, missing=()), encoded, about)


def _category(name: str, values: Sequence[str], most: int | None) -> Column:
    kept, about = _kept(Counter(value for value in values if value), most, 0)
    place = {word: i for i, word in enumerate(kept)}
    encoded = np.zeros((len(values), len(kept)))
    for row, value in enumerate(values):
        if value in place:
            encoded[row, place[value]] = 1.0
    return Column(CATEGORIES, Category(name, kept, missing=()), encoded, about)


def _kept(counts: Counter[str], most: int | None, too_long: int) -> tuple[list[str], str]:
    """Return the most frequent words, ties by the alphabet, and what is left out."""
    order = sorted(counts, key=lambda word: (-counts[word], word))
    kept, others = order[: most or MAX_WORDS], order[most or MAX_WORDS :]
    about = f"{len(kept)} words"
    if others:
        few = ", ".join(word[:30] for word in others[:SHOWN])
        more = ", …" if len(others) > SHOWN else ""
        about = (
            f"the {len(kept)} most frequent of {len(order):,} words; {len(others):,} left out, "
            f"each in at most {counts[others[0]]:,} rows: {few}{more}"
        )
    if too_long:
        about += f"; {too_long:,} left out as too long"
    return sorted(kept), about
