"""The fields of a form or of a query: text, and files that were sent along."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import parse_qsl

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from bridle.errors import InvalidValue
from bridle.service.problems import Problem

__all__ = ["Fields", "Upload", "read_form", "read_query"]

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
                "malformed", f"The file {self.name[:100]!r} is not text in UTF-8.",
                remedy="Save it as csv in UTF-8.",
            ) from None  # fmt: skip


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
        """Give the first value of a name, without the space around it."""
        for one, value in self._pairs:
            if one == name:
                return value.strip()
        return default

    def all(self, name: str) -> list[str]:
        """Give all values of a name."""
        return [value for one, value in self._pairs if one == name]

    def need(self, name: str) -> str:
        """Give a value that must be there."""
        value = self.get(name)
        if not value:
            raise Problem("invalid_value", f"The field {name!r} is empty.", field=name)
        return value

    def optional(self, name: str) -> str | None:
        """Give a value, or None if it is empty."""
        return self.get(name) or None

    def number(self, name: str, default: float | None = None, *, low: float, high: float) -> float:
        """Give a finite number within a range; `default` if the field is empty."""
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
        """Give a whole number within a range; `default` if the field is empty."""
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


def read_form(content_type: bytes, body: bytes) -> Fields:
    """Read the body of a form, with or without files."""
    kind, options = parse_options_header(content_type)
    if kind == URLENCODED or (not kind and not body):
        return Fields(_pairs(body))
    if kind == MULTIPART and b"boundary" in options:
        return _parts(options[b"boundary"], body)
    raise Problem("no_json", "The body is not a form.", remedy="Send it from the page.")


def _pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except (UnicodeDecodeError, ValueError):
        raise Problem("malformed", "The form is not encoded as a form.") from None


def _parts(boundary: bytes, body: bytes) -> Fields:
    """Read a form in parts, as it comes with files."""
    pairs: list[tuple[str, str]] = []
    files: dict[str, Upload] = {}
    header, value, data = bytearray(), bytearray(), bytearray()
    headers: dict[bytes, bytes] = {}

    def end_header() -> None:
        headers[bytes(header).lower()] = bytes(value)
        header.clear()
        value.clear()

    def end_part() -> None:
        _, options = parse_options_header(headers.get(b"content-disposition", b""))
        name = options.get(b"name", b"").decode(errors="replace")
        if b"filename" in options:
            filename = options[b"filename"].decode(errors="replace")
            if filename or data:
                files[name] = Upload(filename, bytes(data))
        else:
            pairs.append((name, data.decode(errors="replace")))
        headers.clear()
        data.clear()
        if len(pairs) + len(files) > MAX_FIELDS:
            raise Problem("too_large", f"A form may have {MAX_FIELDS:,} fields.")

    parser = MultipartParser(
        boundary,
        {
            "on_header_field": lambda raw, start, end: header.extend(raw[start:end]),
            "on_header_value": lambda raw, start, end: value.extend(raw[start:end]),
            "on_header_end": end_header,
            "on_part_data": lambda raw, start, end: data.extend(raw[start:end]),
            "on_part_end": end_part,
        },
    )
    try:
        parser.write(body)
        parser.finalize()
    except MultipartParseError:
        raise Problem("malformed", "The form is not encoded as a form.") from None
    return Fields(pairs, files)
