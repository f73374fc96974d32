"""What a context is made of, and how it becomes the vector that the mathematics sees.

A `Schema` is a tuple of features: `Number`, `Flag`, `Category`, `Labels`, and at most one `Id`. It
alone knows scaling, encoding and missing values; past it a context is a float64 vector of fixed
width. An unknown key, an unknown value or a value out of range is an error, never a guess.

A kind of feature is a frozen dataclass in the union `Encoded`, and offers:

- `name`, its key in the context, and `missing`, the value to take where that is absent or None;
  None if it must be given. Both are checked in `__post_init__`, which raises `InvalidValue`.
- `optional`, whether it may be left out and then is not known. Its last column says that it is not
  given (`Schema.optional`): 1 there, and nothing in the others.
- `_write(value, row, at, owner)`: write a value into a row of zeros, from its first column `at` on,
  or raise `InvalidValue`. `_read(row, at)`: return the value again; `_write` makes the same bits of
  it.
- One column, called as the feature is, or one for each of its `values` (see `_Words`); and one
  more if it is optional.
- 0 and 1 in its columns, as rules take them for words; or else it is in `Schema.numbers`.
- Its fields as JSON: texts, numbers, truth values, None and tuples of texts. The name of its class
  in lower case is its kind in JSON and over HTTP, for ever.

`Id` alone has no column, so it neither writes nor reads. Callers that need the features with a
column, or the numbers, take `Schema.encoded` and `Schema.numbers`. Those that do something else for
each kind end in `assert_never`: mypy then lists what a new kind has to touch.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from typing import Any, TypeAlias, get_args

import numpy as np

from bridle.errors import InvalidValue
from bridle.validation import (
    MAX_MAGNITUDE,
    FloatRange,
    Floats,
    IntRange,
    one_of,
    text,
    truth,
    vector,
)

__all__ = ["Category", "Context", "Encoded", "Feature", "Flag", "Id", "Labels", "Number", "Schema"]

MAX_VALUES = 1_000
MAX_WIDTH = 10_000
MAX_UNIT = 40
# Features that a repr names, and that a notebook lists.
MOST_SHOWN, MOST_ROWS = 8, 50
COLLECTIONS = (list, tuple, set, frozenset)
UNSCALED = FloatRange(-MAX_MAGNITUDE, MAX_MAGNITUDE)  # without a range: what the arms can take
RAW = FloatRange(-1e300, 1e300)  # with a range: such that no difference or rounding overflows
# Rows that are copied and looked at together.
PIECE = 1_024
PLAIN = frozenset("bBhHiIlLqQefd")  # array types to take as they are; no bool, date or object

Context: TypeAlias = "Mapping[str, object] | Sequence[float] | np.ndarray[Any, Any]"


def known(word: object, options: Iterable[object]) -> str:
    """Return what could have been meant by `word`: close matches, or else what there is."""
    there = {str(option): option for option in options}
    near = difflib.get_close_matches(str(word)[:200], there)  # a longer word only costs time
    if near:
        return f"Did you mean {' or '.join(repr(there[option]) for option in near)}?"
    return f"Known: {', '.join(map(repr, [*there.values()][:5]))}{', …' * (len(there) > 5)}."


def _store(target: object, **values: object) -> None:  # into a frozen dataclass
    for name, value in values.items():
        object.__setattr__(target, name, value)


@dataclass(frozen=True, slots=True)
class Number:
    """A number, scaled to [0, 1] if it has a range.

    >>> Schema([Number("age", low=20, high=60)]).encode({"age": 30})
    array([0.25])

    Parameters
    ----------
    name : str
        Its key in the context.
    low, high : float, optional
        Both or neither: x is encoded as (x - low) / (high - low), or as it is and then must be
        within ±1e6. A value outside is an error.
    clip : bool
        Take a (finite) value outside the range as the nearer end instead.
    missing : float, optional
        The value, in raw units and in the range, to take if the key is absent or None.
    unit : str, optional
        What it is counted in, for people to read: "kg". 1 to 40 characters.
    optional : bool
        It may be left out and then is not known, which a second column says; it needs a range.
        Rewards are predicted as if it were `missing`, by default the middle of its range.
    """

    name: str
    low: float | None = None
    high: float | None = None
    clip: bool = False
    missing: float | None = None
    unit: str | None = None
    optional: bool = False
    _range: FloatRange = field(init=False, repr=False, compare=False)
    _shift: float = field(init=False, repr=False, compare=False)
    _span: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        owner = f"Number {text(self.name, 'name', 'Number')!r}"
        _store(self, clip=truth(self.clip, "clip", owner), _range=UNSCALED, _shift=0.0, _span=1.0)
        if self.low is not None or self.high is not None:
            low, high = (RAW.check(getattr(self, end), end, owner) for end in ("low", "high"))
            if low >= high:
                raise InvalidValue("low", owner, f"less than high = {high}", low)
            # x + (0 - low) has the bits of x - low, except that it is never -0.
            _store(self, low=low, high=high, _shift=0.0 - low, _span=high - low)
            _store(self, _range=FloatRange(low, high))
        elif self.clip:
            raise InvalidValue("clip", owner, "False where there is no range", True)
        if self.missing is not None:
            _store(self, missing=self._range.check(self.missing, "missing", owner))
        if self.unit is not None:
            text(self.unit, "unit", owner, MAX_UNIT)
        if truth(self.optional, "optional", owner) and self.low is None:
            remedy = "Declare low and high."
            raise InvalidValue("optional", owner, "False where there is no range", True, remedy)

    def scale(self, raw: float) -> float:
        """Map a raw value, in the range or not, to encoded units: monotone, rounding included."""
        return (raw + self._shift) / self._span

    def _write(self, value: object, row: Floats, at: int, owner: str) -> None:
        if value is None and self.optional:
            row[at] = 0.5 if self.missing is None else self.scale(self.missing)
            row[at + 1] = 1.0
            return
        if type(value) is not float or not self._range.low <= value <= self._range.high:
            wanted = RAW if self.clip else self._range
            try:
                raw = wanted.check(value, self.name, owner)
            except OverflowError:  # an int beyond every float
                raise InvalidValue(self.name, owner, str(wanted), value) from None
            value = min(max(raw, self._range.low), self._range.high)
        row[at] = (value + self._shift) / self._span

    def _read(self, row: Sequence[float], at: int) -> float | None:
        if self.optional and row[at + 1] >= 0.5:
            return None
        if self.low is None or self.high is None:
            return row[at]
        # Many raw values have this encoding: take one with few digits. Rounding on the way back
        # can miss them all by a unit in the last place, so look there too.
        raw = min(max(row[at] * self._span - self._shift, self.low), self.high)
        unit = max(math.ulp(raw), math.ulp(raw + self._shift))
        digits = -math.floor(math.log10(self._span))
        tries = [round(raw, digits + more) for more in range(18)]
        tries += [raw, raw + unit, raw - unit]
        inside = (x for x in tries if self.low <= x <= self.high)
        return next((x for x in inside if self.scale(x) == row[at]), raw)


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that is so or not: True, False, 1 or 0, in one column.

    >>> Schema([Flag("smoker"), Flag("asleep", missing=False)]).encode({"smoker": True})
    array([1., 0.])

    Parameters
    ----------
    name, missing : str, bool (optional)
        Its key in the context, and the value to take if that is absent or None.
    optional : bool
        It may be left out and then is not known, which a second column says.
    """

    name: str
    missing: bool | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        owner = f"Flag {text(self.name, 'name', 'Flag')!r}"
        if self.missing is not None:
            _store(self, missing=truth(self.missing, "missing", owner))
        _check_optional(self.optional, self.missing, owner)

    def _write(self, value: object, row: Floats, at: int, owner: str) -> None:
        if value is None and self.optional:
            row[at + 1] = 1.0
        else:
            row[at] = truth(value, self.name, owner)

    def _read(self, row: Sequence[float], at: int) -> bool | None:
        return None if self.optional and row[at + 1] >= 0.5 else row[at] >= 0.5


@dataclass(frozen=True, slots=True)
class _Words:
    """What `Category` and `Labels` share: declared words, with a column for each."""

    name: str
    values: Sequence[str]
    missing: str | Sequence[str] | None = None
    optional: bool = False
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kind = type(self).__name__
        owner = f"{kind} {text(self.name, 'name', kind)!r}"
        values = tuple(self.values) if isinstance(self.values, list | tuple) else ()
        index = {text(value, "values", owner): i for i, value in enumerate(values)}
        if not 1 <= len(index) == len(values) <= MAX_VALUES:
            expected = f"a list or tuple of 1 to {MAX_VALUES:,} distinct strings"
            raise InvalidValue("values", owner, expected, self.values)
        _store(self, values=values, _index=index)
        if self.missing is not None:
            places = self._places(self.missing, "missing", owner)
            if not isinstance(self.missing, str):
                _store(self, missing=tuple(values[i] for i in sorted(set(places))))
        _check_optional(self.optional, self.missing, owner)

    def _places(self, value: Any, name: str, owner: str) -> list[int]:
        expected = "a set, list or tuple of its values"
        if not isinstance(value, COLLECTIONS):
            remedy = f"Write [{value!r:.100}] for one label." if isinstance(value, str) else ""
            raise InvalidValue(name, owner, expected, value, remedy)
        try:
            return [self._index[label] for label in value]
        except (KeyError, TypeError):  # TypeError: a label that is, say, a list
            wrong = next(x for x in value if not isinstance(x, str) or x not in self._index)
            raise InvalidValue(name, owner, expected, wrong, known(wrong, self.values)) from None

    def _write(self, value: object, row: Floats, at: int, owner: str) -> None:
        if value is None and self.optional:
            row[at + len(self.values)] = 1.0
            return
        for place in self._places(value, self.name, owner):
            row[at + place] = 1.0

    def _read(self, row: Sequence[float], at: int) -> Any:
        there = tuple(v for i, v in enumerate(self.values) if row[at + i] >= 0.5)
        if self.optional and row[at + len(self.values)] >= 0.5:
            return (*there, None) if there else None
        return there


@dataclass(frozen=True, slots=True)
class Category(_Words):
    """One out of some words: a column each, of which one is 1.

    >>> schema = Schema([Category("sky", ["clear", "cloudy"], missing=())])
    >>> schema.encode({"sky": "cloudy"}), schema.encode({})
    (array([0., 1.]), array([0., 0.]))

    Parameters
    ----------
    name, values : str, list or tuple of str
        Its key in the context, and 1 to 1,000 distinct words.
    missing : str or (), optional
        What to take if the key is absent or None: one of `values`, or ``()`` for none of them,
        which leaves all columns zero.
    optional : bool
        It may be left out and then is not known, which one more column says; ``()`` is none of its
        values.
    """

    def _places(self, value: Any, name: str, owner: str) -> list[int]:
        if isinstance(value, str) and value in self._index:
            return [self._index[value]]
        if (
            isinstance(value, COLLECTIONS)
            and not value
            and (self.optional or isinstance(self.missing, COLLECTIONS))
        ):
            return []
        raise InvalidValue(name, owner, "one of its values", value, known(value, self.values))

    def _read(self, row: Sequence[float], at: int) -> Any:
        found = _Words._read(self, row, at)
        if self.optional and found == ():
            return ()
        return next(iter(found or ()), None)


@dataclass(frozen=True, slots=True)
class Labels(_Words):
    """Any number out of some words, as a set, list or tuple: a column each, 1 if it is there.

    >>> Schema([Labels("genres", ["Comedy", "Horror"])]).encode({"genres": ["Horror"]})
    array([0., 1.])

    Parameters
    ----------
    name, values
        As in `Category`.
    missing : set, list or tuple of str, optional
        The labels to take if the key is absent or None; may be ``()``.
    optional : bool
        It may be left out and then is not known, which one more column says. ``[]`` is none of its
        labels; None beside labels says that there may be others: ``["Comedy", None]``.

    >>> films = Schema([Labels("genres", ["Comedy", "Horror"], optional=True)])
    >>> films.columns
    ('genres=Comedy', 'genres=Horror', 'genres unknown')
    >>> films.encode({}), films.encode({"genres": []})
    (array([0., 0., 1.]), array([0., 0., 0.]))
    """

    def _write(self, value: object, row: Floats, at: int, owner: str) -> None:
        if self.optional and isinstance(value, COLLECTIONS) and None in value:
            row[at + len(self.values)] = 1.0
            value = [label for label in value if label is not None]
        _Words._write(self, value, row, at, owner)


@dataclass(frozen=True, slots=True)
class Id:
    """The name of what a context is about: a film's, a patient's. It has no column.

    What the teacher says of one item is certain for that item, and evidence for others that look
    like it. A context may leave it out.

    >>> schema = Schema([Id("title"), Flag("horror")])
    >>> schema.item({"title": "Alien", "horror": True}), schema.width
    ('Alien', 1)

    Parameters
    ----------
    name : str
        Its key in the context.
    """

    name: str
    missing: None = None

    def __post_init__(self) -> None:
        text(self.name, "name", "Id")
        if self.missing is not None:
            raise InvalidValue("missing", f"Id {self.name!r}", "left out", self.missing)


def _check_optional(optional: object, missing: object, owner: str) -> None:
    if truth(optional, "optional", owner) and missing is not None:
        raise InvalidValue("missing", owner, "left out where the feature is optional", missing)


Encoded: TypeAlias = Number | Flag | Category | Labels
Feature: TypeAlias = Encoded | Id
KINDS: dict[str, Any] = {kind.__name__.lower(): kind for kind in get_args(Feature)}


@dataclass(frozen=True, slots=True)
class Schema:
    """The features of a context, in order: encodes contexts and reads them back.

    `width` is the number of columns, d, and `columns` has a readable label for each; `names_items`
    is whether one of the features is an `Id`. `encoded` has the features with columns, all but the
    `Id`, each with its first column, and `numbers` those of them that are a `Number`. `optional`
    has those that may be left out, each with the column that says so.

    Parameters
    ----------
    features : list or tuple of Number, Flag, Category and Labels
        With distinct names, and at most 10,000 columns in all.

    Examples
    --------
    >>> schema = Schema([Number("age", 0, 100), Labels("genres", ["Drama", "Horror"])])
    >>> schema.columns
    ('age', 'genres=Drama', 'genres=Horror')
    >>> schema.encode({"age": 25, "genres": ["Horror"]})
    array([0.25, 0.  , 1.  ])
    >>> schema.decode([0.25, 0, 1])
    {'age': 25.0, 'genres': ('Horror',)}
    >>> Schema.from_json(schema.to_json()) == schema
    True
    """

    features: Sequence[Feature]
    width: int = field(init=False, repr=False, compare=False)
    columns: tuple[str, ...] = field(init=False, repr=False, compare=False)
    names_items: bool = field(init=False, repr=False, compare=False)
    encoded: tuple[tuple[Encoded, int], ...] = field(init=False, repr=False, compare=False)
    numbers: tuple[tuple[Number, int], ...] = field(init=False, repr=False, compare=False)
    optional: tuple[tuple[Encoded, int], ...] = field(init=False, repr=False, compare=False)
    _starts: dict[str, tuple[Feature, int]] = field(init=False, repr=False, compare=False)
    _scaling: _Scaling = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = self.features if isinstance(self.features, list | tuple) else [None]
        if not all(isinstance(feature, get_args(Feature)) for feature in given):
            raise InvalidValue("features", "Schema", "a list or tuple of features", self.features)
        columns: dict[str, None] = {}
        starts: dict[str, tuple[Feature, int]] = {}
        ids = sum(isinstance(feature, Id) for feature in given)
        if ids > 1:
            raise InvalidValue("features", "Schema", "with at most one Id", self.features)
        for feature in self.features:
            words = feature.values if isinstance(feature, _Words) else ()
            own = [f"{feature.name}={word}" for word in words] or [feature.name]
            if isinstance(feature, Id):
                own = []
            elif feature.optional:
                own.append(f"{feature.name} unknown")
            # Columns too: a flag "a=b" and a category "a" with the value "b" would read the same.
            if feature.name in starts or not columns.keys().isdisjoint(own):
                raise InvalidValue("features", "Schema", "of distinct names", feature)
            starts[feature.name] = feature, len(columns)
            columns |= dict.fromkeys(own)
        if not 1 <= len(columns) <= MAX_WIDTH:
            raise InvalidValue("features", "Schema", f"1 to {MAX_WIDTH} columns", len(columns))
        _store(self, features=tuple(self.features), width=len(columns), columns=tuple(columns))
        _store(self, names_items=ids > 0, _starts=starts, _scaling=_Scaling(self.features))
        encoded = tuple((one, at) for one, at in starts.values() if not isinstance(one, Id))
        numbers = tuple((one, at) for one, at in encoded if isinstance(one, Number))
        _store(self, encoded=encoded, numbers=numbers)
        optional = tuple((one, at + _wide(one)) for one, at in encoded if one.optional)
        _store(self, optional=optional)

    def __repr__(self) -> str:
        some = [_short(feature) for feature in self.features[:MOST_SHOWN]]
        more = len(self.features) - len(some)
        some += [f"and {more:,} more"] if more else []
        return f"<Schema {', '.join(some)}; {self.width:,} columns>"

    def _repr_html_(self) -> str:
        rows = "".join(f"<li>{escape(_short(one))}</li>" for one in self.features[:MOST_ROWS])
        more = len(self.features) - MOST_ROWS
        end = f"<li>and {more:,} more</li>" if more > 0 else ""
        return f"<ul>{rows}{end}</ul><p>{self.width:,} columns</p>"

    @classmethod
    def plain(cls, width: int, low: float | None = None, high: float | None = None) -> Schema:
        """Make a schema of `width` numbers x0, x1, …, all with the same range, if any.

        >>> Schema.plain(3).encode([1, 2, 3])
        array([1., 2., 3.])
        """
        width = IntRange(1, MAX_WIDTH).check(width, "width", "Schema.plain")
        return cls([Number(f"x{i}", low, high) for i in range(width)])

    def place(self, name: str, owner: str = "Schema.place") -> tuple[Feature, int]:
        """Return the feature called `name` and its first column."""
        if name not in self._starts:
            raise InvalidValue("feature", owner, "in the schema", name, known(name, self._starts))
        return self._starts[name]

    def encode(self, context: Context) -> Floats:
        """Encode a mapping or, if all features are numbers, their raw values in order: (d,)."""
        encoded = self._scaling.apply(context, 1)
        return self._encode(context, "the context") if encoded is None else encoded

    def encode_many(self, contexts: Sequence[Context] | np.ndarray[Any, Any]) -> Floats:
        """Encode each context: (n, d), with the same bits as one by one."""
        encoded = self._scaling.apply(contexts, 2)
        if encoded is not None:
            return encoded
        contexts = contexts.tolist() if isinstance(contexts, np.ndarray) else contexts
        if not isinstance(contexts, list | tuple):
            raise InvalidValue("contexts", "Schema.encode_many", "a list or array", contexts)
        rows = [self._encode(context, f"context {i}") for i, context in enumerate(contexts)]
        return np.array(rows).reshape(len(rows), self.width)

    def _encode(self, context: Context, owner: str) -> Floats:
        """Encode value by value, so that the one that is wrong can be named."""
        context = context.tolist() if isinstance(context, np.ndarray) else context
        if isinstance(context, (dict, Mapping)):  # dict first: an abstract class is slow
            if not context.keys() <= self._starts.keys():
                self.place(next(key for key in context if key not in self._starts), owner)
            values = [context.get(name) for name in self._starts]
        elif isinstance(context, list | tuple) and (len(context),) == self._scaling.row:
            values = list(context)
        else:
            expected = "a mapping by feature (or, if all are numbers, a list or array of them)"
            raise InvalidValue(owner, f"a Schema of width {self.width}", expected, context)
        row = np.zeros(self.width)
        for (feature, at), value in zip(self._starts.values(), values, strict=True):
            if isinstance(feature, Id):
                continue
            if value is None and not feature.optional:
                value = feature.missing
            if value is None and not feature.optional:
                remedy = (
                    "Give it, or declare in the schema what to take if it is missing (missing=); a "
                    "feature of arms may also be optional."
                )
                raise InvalidValue(feature.name, owner, "given", None, remedy)
            feature._write(value, row, at, owner)
        return row

    def item(self, context: Context) -> object:
        """Return the value of the `Id` in a context, None if there is none."""
        context = context.tolist() if isinstance(context, np.ndarray) else context
        for feature in self.features:
            if isinstance(feature, Id) and isinstance(context, Mapping):
                return context.get(feature.name)
        return None

    def decode(self, encoded: Sequence[float] | Floats) -> dict[str, object]:
        """Return the raw values of a context; `encode` makes the same bits of them."""
        row = vector(encoded, self.width, "encoded", "Schema.decode").tolist()
        return {feature.name: feature._read(row, at) for feature, at in self.encoded}

    def to_json(self) -> list[dict[str, object]]:
        """Return the schema as plain JSON values; unit and optional only where they are declared.

        Logs from before there were such so keep their bytes, and what has none is still read by
        the versions that wrote them.
        """
        result = []
        for feature in self.features:
            values = {f.name: getattr(feature, f.name) for f in fields(feature) if f.init}
            if values.get("unit", "") is None:
                del values["unit"]
            if values.get("optional") is False:
                del values["optional"]
            plain = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
            result.append({"kind": type(feature).__name__.lower()} | plain)
        return result

    @classmethod
    def from_json(cls, data: object) -> Schema:
        """Make the schema that `to_json` gave; an unknown kind or key is an error."""
        owner = "Schema.from_json"
        if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
            raise InvalidValue("data", owner, "a list of dicts", data)
        features = []
        for item in data:
            kind = one_of(item.get("kind"), KINDS, "kind", owner)
            rest = {key: value for key, value in item.items() if key != "kind"}
            if KINDS[kind] is Number:
                rest.setdefault("unit", None)  # as `to_json` leaves it out, whatever the default
            if KINDS[kind] is not Id:
                rest.setdefault("optional", False)
            try:
                features.append(KINDS[kind](**rest))
            except TypeError as e:  # a key too many or too few; the constructors raise no other
                raise InvalidValue("data", owner, f"settings of a {kind}", rest, f"{e}.") from None
        return cls(features)


def _wide(feature: Encoded) -> int:
    """Return how many columns the values of a feature have."""
    return len(feature.values) if isinstance(feature, _Words) else 1


def _short(feature: Feature) -> str:
    """Return a feature in a few words."""
    kind = type(feature).__name__.lower()
    if isinstance(feature, Number) and feature.low is not None:
        return f"{kind} {feature.name} {feature.low:g} to {feature.high:g}"
    if isinstance(feature, _Words):
        return f"{kind} {feature.name} of {len(feature.values):,}"
    return f"{kind} {feature.name}"


class _Scaling:
    """All values at once, if all are numbers: the operations of `Number._write`, so its bits."""

    def __init__(self, features: Sequence[Feature]) -> None:
        numbers = [feature for feature in features if isinstance(feature, Number)]
        self.row = (len(numbers),) if len(numbers) == len(features) else None
        self.gaps = any(number.optional for number in numbers)
        self.unscaled = all(number.low is None for number in numbers)
        rows = [(x._range.low, x._range.high, x._shift, x._span, x.clip) for x in numbers]
        table: list[Floats] = [*np.array(rows).reshape(-1, 5).T.copy()]
        low, high, self.shift, self.span, clip = table
        # Ends outside which a value is refused, and ends to which it is clipped.
        self.least, self.most = np.where(clip, RAW.low, low), np.where(clip, RAW.high, high)
        self.ends = (low, high) if clip.any() else None

    def apply(self, raw: object, ndim: int) -> Floats | None:
        """Scale (d,) or (n, d); None where this cannot, or a value needs a closer look."""
        if self.gaps or type(raw) is not np.ndarray or raw.shape[ndim - 1 :] != self.row:
            return None
        if raw.dtype.char not in PLAIN:
            return None
        # Of one short vector the length is found faster than the largest entry.
        if ndim == 1 and self.unscaled and math.hypot(*raw.tolist()) <= MAX_MAGNITUDE:
            return raw + self.shift  # zeros: so -0 becomes 0
        x: Floats = np.ascontiguousarray(raw, dtype=np.float64)  # for a sum keeps the order
        if self.unscaled:
            return self._unscaled(x)
        # A search through the bytes, for `all` would take longer than all the rest.
        if b"\0" in (x >= self.least).tobytes() or b"\0" in (x <= self.most).tobytes():
            return None
        if self.ends is not None:
            x = np.minimum(np.maximum(x, self.ends[0]), self.ends[1])
        return (x + self.shift) / self.span

    def _unscaled(self, x: Floats) -> Floats | None:
        """Copy numbers that need no scaling, and look at each piece while it is at hand."""
        out = np.empty_like(x)
        for at in range(0, len(x), PIECE):
            # 0, as all shifts are: one number is added at once, a row of them row by row.
            piece = np.add(x[at : at + PIECE], 0.0, out=out[at : at + PIECE])
            if not (-MAX_MAGNITUDE <= piece.min() and piece.max() <= MAX_MAGNITUDE):
                return None
        return out
