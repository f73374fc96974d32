"""What is finished of the study of real limits, job by job, so that an interrupted one goes on.

`Journal` holds the folder and says whose it is; here are the parts of this study: a JSON file a
job, written beside its place and renamed, with the fingerprint of the study in it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from bridle_studies.real.scope import (
    DEFAULT,
    METHODS,
    OWN,
    STAFF,
    TEACHERS,
    TOLD,
    Job,
    Result,
    Scene,
    Scope,
)
from bridle_studies.real.scope import SAID as THRESHOLDS
from bridle_studies.real.teachers import VOICE
from bridle_studies.scaffold.journal import FOLDER, OWNER, Journal

__all__ = ["Parts"]

# What the study writes beside what `Journal` knows of.
WRITTEN = (
    "real.csv",
    "calibration.csv",
    "course.csv",
    "teachers.csv",
    "rates.csv",
    "teachers.json",
    *(
        f"{name}.{kind}"
        for name in ("real", "calibration", "seeds", "exceptions", "changes", "teachers")
        for kind in ("png", "svg")
    ),
)
MEASURES = {
    "answers",
    "audits",
    "E",
    "T",
    "R",
    "Rc",
    "abstentions",
    "found",
    "frozen",
    "anew",
    "E_after",
}
COURSE = {"t", "answers", "audits", "E"}


class Parts:
    """The finished jobs of a study in its output folder.

    Parameters
    ----------
    out : Path
        The study's folder. One that holds another study, or files of others that would be
        overwritten, is refused.
    fingerprint : str
        What the results depend on, hashed.
    scope : Scope
    scenes : sequence of Scene
        What a finished job has to hold.
    fresh : bool
        Forget what was finished.
    """

    def __init__(
        self,
        out: Path,
        fingerprint: str,
        scope: Scope,
        scenes: Sequence[Scene],
        *,
        fresh: bool = False,
    ) -> None:
        self._journal = Journal(out, fingerprint, fresh=fresh)
        self._folder = out / FOLDER
        self._fingerprint = fingerprint
        self._scope = scope
        self._scenes = {scene.name: scene for scene in scenes}
        if fresh:
            self.clear()
            for name in WRITTEN:
                (out / name).unlink(missing_ok=True)

    @property
    def seconds(self) -> float:
        """What was spent on what is there."""
        return self._journal.seconds

    def load(self, job: Job) -> Result | None:
        """Return a job's result if it is there; a damaged or foreign part counts as not there."""
        try:
            part = json.loads(self._path(job).read_bytes())
            same = part["fingerprint"] == self._fingerprint and part["job"] == list(job)
            result: Result = part["result"]
            return result if same and self._whole(job, result) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, job: Job, result: Result, seconds: float) -> None:
        """Keep a job's result; `seconds` is what the study has taken so far."""
        self._folder.mkdir(parents=True, exist_ok=True)
        _write(self._folder / OWNER, {"fingerprint": self._fingerprint, "seconds": seconds})
        part = {"fingerprint": self._fingerprint, "job": list(job), "result": result}
        _write(self._path(job), part)

    def clear(self) -> None:
        """Remove the parts, and nothing else that may lie beside them."""
        if self._folder.is_dir():
            for pattern in ("job-*.json", "*.tmp", OWNER):
                for path in self._folder.glob(pattern):
                    path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty: somebody else's files
                self._folder.rmdir()

    def close(self) -> None:
        """Let go of the folder."""
        self._journal.close()

    def _path(self, job: Job) -> Path:
        return self._folder / f"job-{job.key}.json"

    def _whole(self, job: Job, result: Mapping[str, object]) -> bool:
        scene = self._scenes[job.world]
        if job.part in METHODS:
            run = result["run"]
            if not isinstance(run, dict) or run.keys() != MEASURES:
                return False
            if scene.turn is not None and job.part != TOLD and not _is_course(result["course"]):
                return False
            if scene.kind == TEACHERS and job.part in STAFF and not _is_heard(job.part, result):
                return False
            if job.part != DEFAULT or not scene.calibrated:
                return True
        counts = result["calibration"]
        wanted = {OWN} if job.part in METHODS else {str(N) for N in self._scope.calibrated}
        return (
            isinstance(counts, dict)
            and counts.keys() == wanted
            and all(len(pairs) == len(THRESHOLDS) for pairs in counts.values())
        )


def _is_heard(method: str, result: Mapping[str, object]) -> bool:
    voices = result["teachers"]
    wanted = [VOICE] * len(STAFF[method])
    return isinstance(voices, list) and [voice.keys() for voice in voices] == wanted


def _is_course(course: object) -> bool:
    return (
        isinstance(course, dict)
        and course.keys() == COURSE
        and len({len(column) for column in course.values()}) == 1
    )


def _write(path: Path, value: object) -> None:
    part = path.with_suffix(".tmp")
    with part.open("wb") as file:
        file.write(json.dumps(value).encode())
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
