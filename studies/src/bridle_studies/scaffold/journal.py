"""The finished jobs of a study, kept file by file, so that an interrupted one goes on.

The result of a job is a file, written beside its place and renamed: it is whole or not there. Every
one holds the fingerprint of its study. A folder belongs to one study, and to one process at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol
from urllib.parse import quote

from bridle.errors import NotPossible

__all__ = [
    "MANIFEST",
    "REPORT",
    "Files",
    "Journal",
    "JsonParts",
    "Parts",
    "figure_files",
    "file_name",
]

FOLDER = "parts"
MANIFEST = "manifest.json"
REPORT = "report.html"
OWNER = "study.json"
LOCK = ".lock"
# What a manifest must say before its study counts as finished.
FACTS = ("study", "settings", "seed", "seconds", "engine", "workers")


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of a study beside its manifest and its report.

    Attributes
    ----------
    results : tuple of str
        What a finished study has, and is drawn again from.
    also : tuple of str
        Everything else that it may write, as patterns: tables and figures.
    """

    results: tuple[str, ...]
    also: tuple[str, ...] = ()

    @property
    def patterns(self) -> tuple[str, ...]:
        """All that the study may write, as patterns."""
        return (*self.results, *self.also, MANIFEST, REPORT)


class Parts(Protocol):
    """How the result of a job becomes a file, and back."""

    suffix: str

    def encode(self, job: Any, result: Any, fingerprint: str) -> bytes:
        """Return the file's content."""
        ...

    def decode(self, job: Any, data: bytes, fingerprint: str) -> Any | None:
        """Return the result, or None if the file is damaged, of another study or not whole."""
        ...


class JsonParts:
    """Results as JSON, of jobs that are named tuples.

    Parameters
    ----------
    whole : callable, optional
        Takes a job and its result; whether it holds all that it should. It may raise KeyError or
        TypeError where it does not.
    to_json, from_json : callable, optional
        For results that are not plain JSON values themselves.
    """

    suffix = ".json"

    def __init__(
        self,
        whole: Callable[[Any, Any], bool] = lambda job, result: True,
        *,
        to_json: Callable[[Any], Any] = lambda result: result,
        from_json: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        self._whole = whole
        self._to_json = to_json
        self._from_json = from_json

    def encode(self, job: Any, result: Any, fingerprint: str) -> bytes:
        """Return the job, its result and the fingerprint as JSON."""
        value = self._to_json(result)
        part = {"fingerprint": fingerprint, "job": list(job), "result": value}
        return json.dumps(part).encode()

    def decode(self, job: Any, data: bytes, fingerprint: str) -> Any | None:
        """Return the result, or None if it cannot be used."""
        try:
            part = json.loads(data)
            same = part["fingerprint"] == fingerprint and part["job"] == list(job)
            result = self._from_json(part["result"])
            return result if same and self._whole(job, result) else None
        except (ValueError, KeyError, TypeError):
            return None


class Journal:
    """The finished jobs of a study in its output folder.

    Parameters
    ----------
    out : Path
        The study's output folder. One that holds another study, or files of no study that this one
        would overwrite, raises `NotPossible`.
    fingerprint : str
        What the results depend on, hashed.
    files : Files
        What the study writes.
    parts : Parts
        How results of jobs are kept.
    fresh : bool
        Remove what was finished, of whatever study.
    """

    def __init__(
        self, out: Path, fingerprint: str, *, files: Files, parts: Parts, fresh: bool = False
    ) -> None:
        self.out = out
        self.folder = out / FOLDER
        self._fingerprint = fingerprint
        self._files = files
        self._parts = parts
        self._lock: IO[bytes] | None = None
        try:
            if out.exists() and not out.is_dir():
                raise NotPossible(f"{out} is a file. Give a folder to write into.")
            if not fresh:
                self._check_owner()
            out.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            if fresh:
                self.clear()
                _remove(out, (*_written(out), *files.patterns))
        except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
            raise NotPossible(f"{out} cannot be used: {error}. Give another --out.") from None
        self.seconds = _seconds_in(self.folder / OWNER)  # spent on what is there

    def finished(self) -> bool:
        """Whether the whole study is there already."""
        manifest = _json(self.out / MANIFEST)
        return (
            all((self.out / name).is_file() for name in self._files.results)
            and manifest.get("fingerprint") == self._fingerprint
            and manifest.keys() >= set(FACTS)
        )

    def load(self, job: Any) -> Any | None:
        """Return a job's result; None if it is not there, damaged or of another study."""
        try:
            data = self._path(job).read_bytes()
        except OSError:
            return None
        return self._parts.decode(job, data, self._fingerprint)

    def save(self, job: Any, result: Any, seconds: float = 0.0) -> None:
        """Keep a job's result; `seconds` is what the study took so far, earlier runs included."""
        self.folder.mkdir(parents=True, exist_ok=True)
        owner = {"fingerprint": self._fingerprint, "seconds": seconds}
        _write(self.folder / OWNER, json.dumps(owner).encode())
        _write(self._path(job), self._parts.encode(job, result, self._fingerprint))

    def finish(self, manifest: dict[str, Any]) -> None:
        """Write the manifest, which says that all is there, and remove the parts."""
        names = {path.name for glob in self._files.patterns for path in self.out.glob(glob)}
        manifest["written"] = sorted({*names, MANIFEST})
        data = json.dumps(manifest, indent=2) + "\n"
        (self.out / MANIFEST).write_text(data, encoding="utf-8")
        self.clear()

    def clear(self) -> None:
        """Remove the parts, and nothing else that may lie beside them."""
        if self.folder.is_dir():
            _remove(self.folder, ("job-*.npz", "job-*.json", "*.tmp", OWNER))
            with contextlib.suppress(OSError):  # not empty: somebody else's files
                self.folder.rmdir()

    def close(self) -> None:
        """Release the folder."""
        if self._lock is not None:
            (self.out / LOCK).unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def _path(self, job: Any) -> Path:
        return self.folder / f"job-{job.key}{self._parts.suffix}"

    def _take_lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # not on every system
            return
        lock = (self.out / LOCK).open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise NotPossible(
                f"Another study is writing into {self.out} right now. Wait for it, or give "
                "another --out."
            ) from None
        self._lock = lock

    def _check_owner(self) -> None:
        owners = [_json(self.folder / OWNER), _json(self.out / MANIFEST)]
        for owner in owners:
            if owner and owner.get("fingerprint") != self._fingerprint:
                raise NotPossible(
                    f"{self.out} holds another study (other options, data or version). Give "
                    "another --out, or --fresh to replace it."
                )
        if not any(owners) and self.out.is_dir():
            foreign = [path.name for glob in self._files.patterns for path in self.out.glob(glob)]
            if foreign:
                raise NotPossible(
                    f"{self.out} has files that this study would overwrite, {foreign[0]!r} among "
                    "them. Give another --out, or --fresh to replace them."
                )


def figure_files(*names: str) -> tuple[str, ...]:
    """Return the files of these figures, which are drawn as PNG and as SVG."""
    return tuple(f"{name}.{kind}" for name in names for kind in ("png", "svg"))


def file_name(*values: object) -> str:
    """Return a name for a file that no other values have.

    >>> file_name("movies, single", 3, 0.5)
    'movies%2C%20single,3,0.5'
    """
    return ",".join(quote(str(value), safe="") for value in values)


def _json(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        data = json.loads(path.read_bytes())
        if isinstance(data, dict):
            return data
    return {}


def _seconds_in(path: Path) -> float:
    seconds = _json(path).get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def _written(out: Path) -> list[str]:
    """Return the files that the study in a folder says it wrote there, and none elsewhere."""
    names = _json(out / MANIFEST).get("written")
    if not isinstance(names, list):
        return []
    return [name for name in names if isinstance(name, str) and name and Path(name).name == name]


def _remove(folder: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in folder.glob(pattern):
            if path.is_file() or path.is_symlink():
                path.unlink()


def _write(path: Path, data: bytes) -> None:
    """Write a file so that it is whole or not there, also after a power cut."""
    part = path.with_suffix(".tmp")
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
