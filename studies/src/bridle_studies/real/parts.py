"""What the result of a job of real limits must hold before it counts as finished."""

from __future__ import annotations

from collections.abc import Mapping

from bridle_studies.real.jobs import Real
from bridle_studies.real.scope import (
    CALIBRATION,
    DEFAULT,
    NEWCOMERS,
    OWN,
    STAFF,
    TEACHERS,
    TOLD,
    Job,
)
from bridle_studies.real.scope import SAID as THRESHOLDS
from bridle_studies.real.teachers import VOICE

__all__ = ["is_whole"]

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
LATE = {"pairs", "sure", "right", "safe", "safe_right"}
COURSE = {"t", "answers", "audits", "E"}


def is_whole(job: Job, result: Mapping[str, object], work: Real) -> bool:
    """Whether a result holds all that its job gives; KeyError if a piece is missing."""
    scene = work.scenes[job.world]
    if job.part == NEWCOMERS:
        late = result["newcomers"]
        return isinstance(late, dict) and late.keys() == LATE
    if job.part != CALIBRATION:
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
    wanted = {OWN} if job.part != CALIBRATION else {str(N) for N in work.scope.calibrated}
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
