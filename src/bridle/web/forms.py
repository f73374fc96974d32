"""Forms: the fields of a form or a query, files among them, and a context as a form."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import NamedTuple, assert_never
from urllib.parse import parse_qsl

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser

from bridle.errors import InvalidValue
from bridle.schema import Category, Encoded, Flag, Id, Labels, Number, Schema
from bridle.server.problems import Problem
from bridle.web.rendering import number_words

__all__ = [
    "PREFIX",
    "Field",
    "Fields",
    "Upload",
    "context_from",
    "fields_of",
    "is_given",
    "read_form",
    "read_query",
]


MAX_FIELDS = 20_000
URLENCODED = b"application/x-www-form-urlencoded"
MULTIPART = b"multipart/form-data"


class Upload(NamedTuple):
    """A file that was sent."""

    name: str
    body: bytes

    @property
    def text(self) -> str:
        """What it says; refused if it is not UTF-8."""
        try:
            return self.body.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise Problem(
                "malformed",
                f"The file {self.name[:100]!r} is not text in UTF-8.",
                remedy="Save it as csv in UTF-8.",
            ) from None


class Fields:
    """Named values, in order; a name may stand more than once.

    Examples
    --------
    >>> fields = Fields([("arm", "a"), ("arm", "b"), ("n", "7")])
    >>> fields.get("arm"), fields.all("arm"), fields.whole("n", low=0, high=10)
    ('a', ['a', 'b'], 7)
    """

    def __init__(self, pairs: list[tuple[str, str]], files: dict[str, Upload] | None = None):
        self._pairs = pairs
        self.files = files if files is not None else {}

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __contains__(self, name: str) -> bool:
        return any(one == name for one, _ in self._pairs)

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a name, without the space around it."""
        for one, value in self._pairs:
            if one == name:
                return value.strip()
        return default

    def all(self, name: str) -> list[str]:
        """Return all values of a name."""
        return [value for one, value in self._pairs if one == name]

    def need(self, name: str) -> str:
        """Return a value that must be there."""
        value = self.get(name)
        if not value:
            raise Problem("invalid_value", f"The field {name!r} is empty.", field=name)
        return value

    def optional(self, name: str) -> str | None:
        """Return a value, or None if it is empty."""
        return self.get(name) or None

    def number(self, name: str, default: float | None = None, *, low: float, high: float) -> float:
        """Return a finite number within a range; `default` if the field is empty."""
        text = self.get(name)
        if not text and default is not None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise InvalidValue(name, "the form", f"a number in the range [{low:g}, {high:g}]", text)
        return value

    def whole(self, name: str, default: int | None = None, *, low: int, high: int) -> int:
        """Return a whole number within a range; `default` if the field is empty."""
        text = self.get(name)
        if not text and default is not None:
            return default
        plain = text.removeprefix("-")
        value = int(text) if plain.isascii() and plain.isdigit() and len(plain) < 20 else None
        if value is None or not low <= value <= high:
            wanted = f"a whole number in the range [{low}, {high}]"
            raise InvalidValue(name, "the form", wanted, text)
        return value


def read_query(raw: bytes) -> Fields:
    """Read what stands after the question mark."""
    return Fields(_pairs(raw))


async def read_form(content_type: bytes, body: bytes) -> Fields:
    """Return the fields of a form, sent with or without files."""
    kind, options = parse_options_header(content_type)
    if kind == URLENCODED or (not kind and not body):
        return Fields(_pairs(body))
    if kind == MULTIPART and b"boundary" in options:
        return await _parts(content_type, body)
    raise Problem("no_json", "The body is not a form.", remedy="Send it from the page.")


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except (UnicodeDecodeError, ValueError):
        raise Problem("malformed", "The form is not encoded as a form.") from None


async def _parts(content_type: bytes, body: bytes) -> Fields:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    headers = Headers(raw=[(b"content-type", content_type)])
    parser = MultiPartParser(
        headers,
        stream(),
        max_files=MAX_FIELDS,
        max_fields=MAX_FIELDS,
        max_part_size=len(body),
    )
    parser.spool_max_size = len(body) + 1  # the body is in memory: no file on disk
    try:
        form = await parser.parse()
    except MultiPartException as error:
        if error.message.startswith("Too many"):
            raise Problem("too_large", f"A form may have {MAX_FIELDS:,} fields.") from None
        raise Problem("malformed", "The form is not encoded as a form.") from None
    pairs: list[tuple[str, str]] = []
    files: dict[str, Upload] = {}
    for name, value in form.multi_items():
        if isinstance(value, str):
            pairs.append((name, value))
        else:
            data = await value.read()
            if value.filename or data:
                files[name] = Upload(value.filename or "", data)
    await form.close()
    return Fields(pairs, files)


# --- A form for one context, made of an agent's schema; and the context that came back in it
#
# A field is called ``f.`` and the feature's name. What was typed stays as it was, so that a page
# can show the form again with what is wrong beside it.


PREFIX = "f."
MOST_FIELDS = 200  # further features stay at rest: a form of thousands is no form for a person
MOST_CHECKS = 40  # more words than that are a list to select from
NOT_KNOWN = ""
YES, NO = "yes", "no"


class Option(NamedTuple):
    """One of the words that can be chosen."""

    value: str
    text: str
    chosen: bool


class Field(NamedTuple):
    """One field, for the template.

    Attributes
    ----------
    kind : str
        "number", "flag", "category" or "labels"; "many" for labels out of very many words.
    name, id, label : str
        What it is called in the form, in the page, and by people.
    value : str
        What stands in the field of a number.
    options : tuple of Option
        What can be chosen, of all other kinds.
    low, high : str
        The ends of a number, empty where it has none.
    hint : str
        What else there is to know.
    required : bool
        Whether it may not be left empty.
    """

    kind: str
    name: str
    id: str
    label: str
    value: str
    options: tuple[Option, ...]
    low: str
    high: str
    hint: str
    required: bool


def fields_of(schema: Schema, given: Fields | Mapping[str, object] | None = None) -> list[Field]:
    """Return the fields of a context's form.

    Parameters
    ----------
    schema : Schema
        What a context is made of. At most the first 200 features get a field.
    given : Fields or mapping, optional
        What stands in them: as it was typed, or a context. Without it, all is at rest.

    Examples
    --------
    >>> [field] = fields_of(Schema([Number("age", 0, 100, unit="years")]), {"age": 30})
    >>> field.name, field.value, field.hint
    ('f.age', '30', '0 to 100 years')
    """
    return [
        _field(feature, f"f-{n}", _raw(feature, given))
        for n, feature in enumerate(schema.features[:MOST_FIELDS])
        if not isinstance(feature, Id)
    ]


def is_given(fields: Fields) -> bool:
    """Return whether a form for a context was sent: the template adds a field of its own to it."""
    return any(name.startswith(PREFIX) for name, _ in fields)


def context_from(schema: Schema, fields: Fields) -> dict[str, object]:
    """Read a context out of a form; a `Problem` with the feature as its field if it is none.

    Examples
    --------
    >>> schema = Schema([Number("age", 0, 100), Flag("late")])
    >>> context_from(schema, Fields([("f.age", "30"), ("f.late", "yes")]))
    {'age': 30.0, 'late': True}
    """
    found: dict[str, object] = {}
    for n, feature in enumerate(schema.features):
        if isinstance(feature, Id):
            continue  # it has no column, and what it is about has a field of its own
        if n >= MOST_FIELDS and PREFIX + feature.name not in fields:
            found[feature.name] = rest_of(feature)
            continue
        value = _read(feature, fields)
        if value is not None:
            found[feature.name] = value
    return found


def rest_of(feature: Encoded) -> object:
    """Return the value of a feature that says as little as it can."""
    if feature.missing is not None:
        return None  # the schema says what that is
    if isinstance(feature, Number):
        return 0.0 if feature.low is None else feature.low
    if isinstance(feature, Flag):
        return False
    if isinstance(feature, Category):
        return feature.values[0]
    if isinstance(feature, Labels):
        return []
    assert_never(feature)


# -- to the form -----------------------------------------------------------------------------


def _raw(feature: Encoded, given: Fields | Mapping[str, object] | None) -> list[str]:
    """Return what stands in the field of a feature, as text."""
    if isinstance(given, Fields):
        return given.all(PREFIX + feature.name)
    value = rest_of(feature) if given is None else given.get(feature.name)
    if value is None:
        if isinstance(feature, Flag) and feature.missing is not None:
            return [YES if feature.missing else NO]
        if isinstance(feature, Labels) and feature.missing is not None:
            return [*feature.missing]
        return []
    if isinstance(value, bool):
        return [YES if value else NO]
    if isinstance(value, int | float):
        return [f"{value:.15g}"]
    return [value] if isinstance(value, str) else [str(one) for one in _listed(value)]


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else sorted(value)  # type: ignore[call-overload]


def _field(feature: Encoded, id: str, raw: list[str]) -> Field:
    kind = type(feature).__name__.lower()
    options: tuple[Option, ...] = ()
    low = high = hint = ""
    required = feature.missing is None
    if isinstance(feature, Number):
        low, high, hint = _ends(feature)
    elif isinstance(feature, Flag):
        options = _options([(NO, "No"), (YES, "Yes")], raw)
    elif isinstance(feature, Category):
        words = [(word, word) for word in feature.values]
        options = _options([*([] if required else [(NOT_KNOWN, "Not known")]), *words], raw)
    elif isinstance(feature, Labels):
        options, required = _options([(word, word) for word in feature.values], raw), False
        if len(options) > MOST_CHECKS:
            kind, hint = "many", "Hold Ctrl or Cmd to choose more than one."
    else:
        assert_never(feature)
    value = raw[0] if raw and isinstance(feature, Number) else ""
    return Field(
        kind, PREFIX + feature.name, id, feature.name, value, options, low, high, hint, required
    )


def _ends(feature: Number) -> tuple[str, str, str]:
    hint = feature.unit or ""
    if feature.low is None or feature.high is None:
        low = high = ""
    else:
        low, high = f"{feature.low:.15g}", f"{feature.high:.15g}"
        hint = f"{number_words(feature.low)} to {number_words(feature.high)} {hint}".rstrip()
        if feature.clip:
            low = high = ""  # what lies outside is taken as the nearer end
    if feature.missing is not None:
        empty = f"empty: taken as {number_words(feature.missing)}"
        hint = f"{hint}; {empty}" if hint else empty
    return low, high, hint


def _options(words: list[tuple[str, str]], raw: list[str]) -> tuple[Option, ...]:
    chosen = set(raw)
    return tuple(Option(value, text, value in chosen) for value, text in words)


# -- and back --------------------------------------------------------------------------------


def _read(feature: Encoded, fields: Fields) -> object:
    """Return a feature's value; None where it was left open and may be."""
    raw = fields.all(PREFIX + feature.name)
    if isinstance(feature, Labels):
        return _known(feature, [word for word in raw if word])
    text = raw[0].strip() if isinstance(feature, Number | Flag) and raw else "".join(raw[:1])
    if not text:
        if feature.missing is None:
            raise _wrong(feature, f"Say what {feature.name!r} is.")
        return None
    if isinstance(feature, Number):
        return _number(feature, text)
    if isinstance(feature, Category):
        return _known(feature, [text])[0]
    if isinstance(feature, Flag):
        if text not in (YES, NO):
            raise _wrong(feature, f"Of {feature.name!r}, say yes or no.")
        return text == YES
    assert_never(feature)


def _number(feature: Number, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    low, high = feature.low, feature.high
    if low is None or high is None:
        low, high = -1e6, 1e6
    if feature.clip and abs(value) <= 1e300:
        return value
    if not low <= value <= high:
        ends = f"from {number_words(low)} to {number_words(high)}"
        raise _wrong(feature, f"{feature.name!r} is a number {ends}, not {text[:100]!r}.")
    return value


def _known(feature: Category | Labels, words: list[str]) -> list[str]:
    known = set(feature.values)
    for word in words:
        if word not in known:
            raise _wrong(feature, f"{feature.name!r} is never {word[:100]!r}.")
    return words


def _wrong(feature: Encoded, message: str) -> Problem:
    return Problem("invalid_value", message, field=feature.name)
