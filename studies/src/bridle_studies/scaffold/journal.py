"""What is finished of a study, kept file by file, so that an interrupted one goes on.

A part is an `.npz` without pickle, written beside its place and renamed: it is whole or not there.
Every part says of which study it is, by its fingerprint. A folder belongs to one study, and to one
process at a time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from bridle.errors import NotPossible
from bridle_studies.paper.work import Batch, BatchResult, Class, ClassResult, Job, Result

__all__ = ["Journal"]

FOLDER = "parts"
MANIFEST = "manifest.json"
OWNER = "study.json"
LOCK = ".lock"
# A finished study has these, and all that a study may have written is among the patterns.
OWN = ("results.parquet", "curves.parquet", "lessons.parquet", MANIFEST)
WRITTEN = (
    *OWN,
    "table1.csv",
    "table2.csv",
    "tables.csv",
    "tables.md",
    "verdict.json",
    "report.html",
    "overview.*",
    "figure1*.png",
    "figure1*.svg",
    "regret-*.*",
    "errors-*.*",
)
PARTS = ("class-*.npz", "batch-*.npz", "*.tmp", OWNER)
FACTS = ("origin", "world", "seed", "runs", "steps", "seconds", "engine", "workers")


class Journal:
    """The finished parts of a study in its output folder.

    Parameters
    ----------
    out : Path
        The study's output folder. One with files that a study would overwrite and that are of no
        study is refused.
    fingerprint : str
        What the results depend on, hashed. Parts of another study are refused.
    fresh : bool
        Forget what was finished, of whatever study.
    """

    def __init__(self, out: Path, fingerprint: str, *, fresh: bool = False) -> None:
        self.out = out
        self.folder = out / FOLDER
        self._fingerprint = fingerprint
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
                _remove(out, WRITTEN)
        except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle
            raise NotPossible(f"{out} cannot be used: {error}. Give another --out.") from None
        self.seconds = _seconds_in(self.folder / OWNER)  # spent on what is there

    def finished(self) -> bool:
        """Say whether the whole study is there already."""
        if not all((self.out / name).is_file() for name in OWN):
            return False
        manifest = _json(self.out / MANIFEST)
        return manifest.get("fingerprint") == self._fingerprint and manifest.keys() >= set(FACTS)

    def load(self, job: Job) -> Result | None:
        """Give a job's result if it is there; a damaged or foreign part counts as not there."""
        kind = ClassResult if isinstance(job, Class) else BatchResult
        names = {field.name for field in dataclasses.fields(kind)} - {"limits", "exact"}
        try:
            # Opened here, since numpy would leave a damaged one open.
            with self._path(job).open("rb") as part, np.load(part, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None
        mark = arrays.pop("fingerprint", np.empty(0))
        if mark.tobytes() != self._fingerprint.encode() or arrays.keys() != names:
            return None
        if isinstance(job, Class):
            return ClassResult(**arrays, limits={}, exact={})
        result = BatchResult(**arrays)
        return result if _whole(job, result) else None

    def save(self, job: Job, result: Result, seconds: float = 0.0) -> None:
        """Keep a job's result (of a class the curve; what was learned is taught anew if needed).

        `seconds` is what the study has taken so far, earlier sessions included.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        owner = {"fingerprint": self._fingerprint, "seconds": seconds}
        _write(self.folder / OWNER, json.dumps(owner).encode())
        arrays = {
            field.name: getattr(result, field.name)
            for field in dataclasses.fields(result)
            if field.name not in ("limits", "exact")
        }
        arrays["fingerprint"] = np.frombuffer(self._fingerprint.encode(), np.uint8)
        part = self._path(job).with_suffix(".tmp")
        with part.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path(job))

    def clear(self) -> None:
        """Remove the parts, and nothing else that may lie beside them."""
        if self.folder.is_dir():
            _remove(self.folder, PARTS)
            with contextlib.suppress(OSError):  # not empty: somebody else's files
                self.folder.rmdir()

    def close(self) -> None:
        """Let go of the folder."""
        if self._lock is not None:
            (self.out / LOCK).unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    def _path(self, job: Job) -> Path:
        return self.folder / f"{job.key}.npz"

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
            foreign = [path.name for pattern in WRITTEN for path in self.out.glob(pattern)]
            if foreign:
                raise NotPossible(
                    f"{self.out} has files that a study would overwrite, {foreign[0]!r} among "
                    "them. Give another --out, or --fresh to replace them."
                )


def _whole(job: Batch, result: BatchResult) -> bool:
    shape = (len(job.agents), len(result.t))
    rows = (result.R, result.Rc, result.E, result.abstentions, result.blend_regret)
    return all(row.shape == shape for row in rows)


def _json(path: Path) -> dict[str, object]:
    with contextlib.suppress(OSError, ValueError):
        data = json.loads(path.read_bytes())
        if isinstance(data, dict):
            return data
    return {}


def _seconds_in(path: Path) -> float:
    seconds = _json(path).get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def _remove(folder: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in folder.glob(pattern):
            if path.is_file() or path.is_symlink():
                path.unlink()


def _write(path: Path, data: bytes) -> None:
    part = path.with_suffix(".tmp")
    part.write_bytes(data)
    part.replace(path)
