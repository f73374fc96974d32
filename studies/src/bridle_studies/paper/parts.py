"""Results of the paper's jobs as files: arrays without pickle."""

from __future__ import annotations

import dataclasses
import io
import zipfile

import numpy as np

from bridle_studies.paper.work import Batch, BatchResult, Class, ClassResult, Job, Result

__all__ = ["PaperParts"]


class PaperParts:
    """Results as `.npz`; of a class the curve alone: what was learned is taught anew if needed."""

    suffix = ".npz"

    def encode(self, job: Job, result: Result, fingerprint: str) -> bytes:
        """Return the arrays of a result and the fingerprint, as a file's content."""
        arrays = {
            field.name: getattr(result, field.name)
            for field in dataclasses.fields(result)
            if field.name not in ("limits", "exact")
        }
        arrays["fingerprint"] = np.frombuffer(fingerprint.encode(), np.uint8)
        file = io.BytesIO()
        np.savez(file, **arrays)
        return file.getvalue()

    def decode(self, job: Job, data: bytes, fingerprint: str) -> Result | None:
        """Return the result, or None if it cannot be used."""
        kind = ClassResult if isinstance(job, Class) else BatchResult
        names = {field.name for field in dataclasses.fields(kind)} - {"limits", "exact"}
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile):
            return None
        mark = arrays.pop("fingerprint", np.empty(0))
        if mark.tobytes() != fingerprint.encode() or arrays.keys() != names:
            return None
        if isinstance(job, Class):
            return ClassResult(**arrays, limits={}, exact={})
        result = BatchResult(**arrays)
        return result if _whole(job, result) else None


def _whole(job: Batch, result: BatchResult) -> bool:
    shape = (len(job.agents), len(result.t))
    rows = (result.R, result.Rc, result.E, result.abstentions, result.blend_regret)
    return all(row.shape == shape for row in rows)
