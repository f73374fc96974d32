"""What is finished of a study, kept file by file, so that an interrupted one goes on.

A part is an `.npz` without pickle, written beside its place and renamed: it is whole or not there.
A folder belongs to one study, known by its fingerprint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np

from bridle.errors import NotPossible
from bridle.study.work import Batch, BatchResult, Class, ClassResult, Job, Result

__all__ = ["Journal"]

FOLDER = "parts"
MANIFEST = "manifest.json"
OWN = ("results.parquet", "curves.parquet", "lessons.parquet", MANIFEST)


class Journal:
    """The finished parts of a study in its output folder.

    Parameters
    ----------
    out : Path
        The study's output folder.
    fingerprint : str
        What the results depend on, hashed. Parts of another study are refused.
    fresh : bool
        Forget what was finished, of whatever study.
    """

    def __init__(self, out: Path, fingerprint: str, *, fresh: bool = False) -> None:
        self.out = out
        self.folder = out / FOLDER
        self._fingerprint = fingerprint
        if out.exists() and not out.is_dir():
            raise NotPossible(f"{out} is a file. Give a folder to write into.")
        if fresh:
            self.clear()
            for name in OWN:
                (out / name).unlink(missing_ok=True)
        else:
            self._check_owner()
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(self.folder / "study.json", json.dumps({"fingerprint": fingerprint}).encode())

    def finished(self) -> bool:
        """Say whether the whole study is there already."""
        if not all((self.out / name).is_file() for name in OWN):
            return False
        return _fingerprint_in(self.out / MANIFEST) == self._fingerprint

    def load(self, job: Job) -> Result | None:
        """Give a job's result if it is there; a damaged part counts as not there."""
        kind = ClassResult if isinstance(job, Class) else BatchResult
        names = {field.name for field in dataclasses.fields(kind)} - {"limits", "exact"}
        path = self._path(job)
        try:
            # Opened here, since numpy would leave a damaged one open.
            with path.open("rb") as part, np.load(part, allow_pickle=False) as arrays_in:
                arrays = {name: arrays_in[name] for name in arrays_in.files}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None
        if arrays.keys() != names:
            return None
        if isinstance(job, Class):
            return ClassResult(**arrays, limits={}, exact={})
        result = BatchResult(**arrays)
        return result if _whole(job, result) else None

    def save(self, job: Job, result: Result) -> None:
        """Keep a job's result (of a class the curve; what was learned is taught anew if needed)."""
        arrays = {
            field.name: getattr(result, field.name)
            for field in dataclasses.fields(result)
            if field.name not in ("limits", "exact")
        }
        part = self._path(job).with_suffix(".tmp")
        with part.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path(job))

    def clear(self) -> None:
        """Remove the parts."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, job: Job) -> Path:
        return self.folder / f"{job.key}.npz"

    def _check_owner(self) -> None:
        for path in (self.folder / "study.json", self.out / MANIFEST):
            owner = _fingerprint_in(path)
            if owner is not None and owner != self._fingerprint:
                raise NotPossible(
                    f"{self.out} holds another study (other options, data or version). Give "
                    "another --out, or --fresh to replace it."
                )


def _whole(job: Batch, result: BatchResult) -> bool:
    shape = (len(job.agents), len(result.t))
    rows = (result.R, result.Rc, result.E, result.abstentions, result.blend_regret)
    return all(row.shape == shape for row in rows)


def _fingerprint_in(path: Path) -> str | None:
    with contextlib.suppress(OSError, ValueError):
        data = json.loads(path.read_bytes())
        if isinstance(data, dict):
            return str(data.get("fingerprint"))
    return None


def _write(path: Path, data: bytes) -> None:
    part = path.with_suffix(".tmp")
    part.write_bytes(data)
    part.replace(path)
