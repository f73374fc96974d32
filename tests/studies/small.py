"""A study that takes a second, for the tests of its parts."""

from __future__ import annotations

from bridle_studies.environments import Movies, synthetic_block
from bridle_studies.paper.plan import Plan
from bridle_studies.paper.work import Batch, BatchResult, Class, ClassResult, Work, jobs

RECIPE = Movies(synthetic_block(people=12, movies=60, seed=3))
PLAN = Plan(examples=(20, 60), sigmas=(0.0, 0.5, 1.0), folds=2, steps=150, checkpoints=5)


def by_hand(work: Work) -> tuple[dict[str, ClassResult], dict[str, BatchResult]]:
    """Do all jobs in order, here, with no engine and no journal."""
    classes, batches = jobs(work.plan)
    taught = {job.key: work.teach(job) for job in classes}
    return taught, {job.key: work.run(with_limits(job, taught)) for job in batches}


def with_limits(job: Batch, taught: dict[str, ClassResult]) -> Batch:
    if job.teaching is None or job.examples is None:
        return job
    lesson = taught[Class(job.fold, job.teaching).key]
    N = job.examples
    return Batch(job.fold, job.teaching, N, job.agents, lesson.limits[N], lesson.exact.get(N))


def bits(result: ClassResult | BatchResult) -> bytes:
    names = (
        ("n", "denied", "regret")
        if isinstance(result, ClassResult)
        else ("t", "R", "Rc", "E", "abstentions", "blend_regret")
    )
    return b"".join(getattr(result, name).tobytes() for name in names)
