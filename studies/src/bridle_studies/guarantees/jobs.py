"""Whether promises hold: certificates, audits, purses and evaluations, each tried many times.

The truth of these worlds is known, so it can be counted how often each promise was broken. Every
job depends on nothing but the recipe, the scope and itself, and its result is plain JSON values:
the study's engines run it anywhere, with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from bridle.agent.agent import Agent
from bridle.agent.purse import default_purse
from bridle.audit.meter import AuditMeter, Window
from bridle.certificates.binomial import binomial_quantile
from bridle.certificates.calibration import Calibration, certify
from bridle.certificates.certificate import (
    lambda_hat,
    scores_of,
    unsound_one_arm,
    unsound_pilot,
    worst_scores,
)
from bridle.evaluation.evaluate import evaluate
from bridle.kernels import wins
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import Beliefs, LinearLimits
from bridle.policies import BehaviorConstrained, KnownMask, LearnedMask, Thompson, Uniform
from bridle.simulate import Run, Tables, online, teach, teach_beliefs
from bridle_studies.environments.movies import Movies
from bridle_studies.environments.pairs import Pairs
from bridle_studies.environments.world import World
from bridle_studies.frontier.methods import CENTRED_V, make_limits
from bridle_studies.guarantees.audit_trials import simulate_alarms, simulate_cells, simulate_meters
from bridle_studies.guarantees.promise_trials import simulate_promise
from bridle_studies.guarantees.scope import (
    AFTER,
    ALPHAS,
    AUDIT_DELTA,
    BATCH,
    BEFORE,
    CASES,
    DELTA,
    FAR,
    KINDS,
    LATE,
    LEVEL,
    LOGGED,
    LOGGED_V,
    NEAR,
    PAYS,
    PLAIN,
    PROMISE_Q,
    PROMISED,
    RAISE,
    RATES,
    SIGMAS,
    SURE,
    Found,
    Job,
    Kind,
    Scope,
)

__all__ = ["Promises", "logged", "masked", "paying"]

# What streams of random numbers are for.
(
    FOR_WORLD,
    FOR_PARTS,
    FOR_CALIBRATION,
    FOR_ONE_ARM,
    FOR_STEPS,
    FOR_PILOT,
    FOR_AUDITS,
    FOR_LOGS,
    FOR_VARIED,
    FOR_PURSES,
) = range(10)
# To see what a player does without a promise takes no more runs than these.
FEW = 100


class Promises:
    """Does jobs of this study, as `Work` does those of another.

    Parameters
    ----------
    recipe : Movies
        What the worlds are drawn from.
    scope : Scope
        How much is tried.
    """

    def __init__(self, recipe: Movies, scope: Scope) -> None:
        self.recipe = recipe
        self.scope = scope

    def do(self, job: Job) -> Found:
        """Do one job."""
        parts: dict[str, Callable[[Job], Found]] = {
            "certificate": self._certificate,
            "pilot": self._pilot,
            "evaluate": self._evaluate,
            "audit": self._audit,
            "alarm": self._alarm,
            "course": self._course,
            "varied": self._varied,
            "promise": self._promise,
        }
        return {"part": job.part, **parts[job.part](job)}

    def world(self, kind: Kind, fold: int) -> tuple[World, Ints, Ints]:
        """Draw a fold's world, the contexts to teach on, and the pool of all others."""
        recipe = Pairs(self.recipe) if kind.pairs else self.recipe
        world = recipe.world(self._seed(FOR_WORLD, fold))
        order = self._rng(FOR_PARTS, fold).permutation(len(world.tables))
        cut = len(order) // 5
        return world, np.sort(order[:cut]), np.sort(order[cut:])

    def limits(self, kind: Kind, world: World, to_teach: Ints, fold: int) -> Beliefs:
        """Teach limits with random answers on the teaching contexts. Nothing moves them after."""
        seed, tables = self._seed(FOR_PARTS, fold), world.tables
        if kind.limits == "linear":
            N = self.scope.taught_linear
            rows = to_teach[self._rng(FOR_PARTS, fold, 1).integers(0, len(to_teach), N)]
            return teach(tables, examples=N, rows=rows, seed=seed).limits[N]
        blank = make_limits(kind.limits, world, grouped=kind.grouped, seed=seed)
        N = self.scope.taught
        taught = teach_beliefs(
            tables, beliefs=blank, examples=N, questions="random", pool=to_teach, seed=seed
        )
        return taught.beliefs[N]

    def _certificate(self, job: Job) -> Found:
        """Certify the same limits again and again, each time on fresh draws out of the pool."""
        kind, scope = KINDS[job.name], self.scope
        world, to_teach, pool = self.world(kind, job.number)
        limits = self.limits(kind, world, to_teach, job.number)
        here = _only(world.tables, pool)
        scores = scores_of(limits, here.contexts)
        worst = worst_scores(scores, here.allowed)
        by_alpha = []
        for alpha in ALPHAS:
            rng = self._rng(FOR_CALIBRATION, job.number)
            other = self._rng(FOR_ONE_ARM, job.number)
            shares, keeps, one_arm, runs = [], [], [], []
            for number in range(scope.recalibrations):
                rows = rng.integers(0, len(pool), scope.contexts)
                threshold = lambda_hat(worst[rows], alpha, DELTA)
                shares.append(float((worst > threshold).mean()))
                keeps.append(float((scores > threshold).any(axis=1).mean()))
                wrong = unsound_one_arm(scores[rows], here.allowed[rows], alpha, DELTA, other)
                one_arm.append(float((worst > wrong).mean()))
                if number < scope.adaptive:
                    runs += self._inside(job.number, number, limits, here, rows, alpha)
            by_alpha.append(
                {"alpha": alpha, "shares": shares, "keeps": keeps, "one_arm": one_arm, "runs": runs}
            )
        mask = KnownMask(v=CENTRED_V)
        rows = self._rng(FOR_STEPS, job.number, 0).integers(0, len(pool), scope.steps)
        best = online(here, policy=mask, rows=rows, seed=scope.seed, prior="centred")
        taught = scope.taught_linear if kind.limits == "linear" else scope.taught
        return {
            "limits": job.name,
            "fold": job.number,
            "taught": taught,
            "by_alpha": by_alpha,
            "free": self._free(job.number, here),
            "told_Rc": float(best.Rc[-1]),
        }

    def _inside(
        self, fold: int, number: int, limits: Beliefs, here: Tables, rows: Ints, alpha: float
    ) -> list[Found]:
        """Run an agent that learns what pays inside the certified sets; count its violations."""
        calibration = Calibration(here.contexts[rows], here.allowed[rows])
        certificate = certify(limits, calibration, alpha, DELTA, on="the online pool")
        inside = certificate.allowed(here.contexts)
        found = []
        for rewards, tables in ((PLAIN, here), (PAYS, paying(here))):
            run = self._run(fold, number, tables, inside)
            found.append(
                {
                    "rewards": rewards,
                    "answers": certificate.answers,
                    "E": int(run.E[-1]),
                    "steps": self.scope.steps,
                    "abstentions": int(run.abstentions[-1]),
                    "Rc": float(run.Rc[-1]),
                    "most": certificate.violations_bound(self.scope.steps, 0.05),
                }
            )
        return found

    def _free(self, fold: int, here: Tables) -> Found:
        """Do the same without any limits, to have something beside it."""
        every = np.ones(here.allowed.shape, np.bool_)
        runs = {
            PLAIN: self._run(fold, 0, here, every),
            PAYS: self._run(fold, 0, paying(here), every),
        }
        return {rewards: int(run.E[-1]) / self.scope.steps for rewards, run in runs.items()}

    def _run(self, fold: int, number: int, tables: Tables, inside: Bools) -> Run:
        rows = self._rng(FOR_STEPS, fold, number).integers(0, len(tables), self.scope.steps)
        return online(
            tables,
            policy=Thompson(v=CENTRED_V),
            rows=rows,
            eligible=inside,
            seed=self._seed(FOR_STEPS, fold, number),
            prior="centred",
        )

    def _pilot(self, job: Job) -> Found:
        """Choose sigma on a pilot, which is not sound, and see what the same agent does later."""
        kind, scope = KINDS["linear"], self.scope
        world, to_teach, pool = self.world(kind, job.number)
        limits = self.limits(kind, world, to_teach, job.number)
        here, n = _only(world.tables, pool), scope.contexts
        found = []
        for rewards, tables in ((PLAIN, here), (PAYS, paying(here))):
            for number in range(scope.recalibrations):
                rng = self._rng(FOR_PILOT, job.number, number)
                rows = rng.integers(0, len(pool), n + scope.later)
                seed = self._seed(FOR_PILOT, job.number, number)
                pilot = np.array(
                    [_violated(tables, limits, sigma, rows[:n], seed) for sigma in SIGMAS]
                )
                for alpha in ALPHAS:
                    sigma = unsound_pilot(SIGMAS, pilot, alpha, DELTA)
                    # Its first n steps are the pilot's, to the bit.
                    later = 0
                    if sigma is not None:
                        later = int(_violated(tables, limits, sigma, rows, seed)[n:].sum())
                    # More than chance would have at a rate of alpha, in 999 of 1,000 runs.
                    broken = later > binomial_quantile(scope.later, alpha, 0.001)
                    found.append(
                        {
                            "rewards": rewards,
                            "alpha": alpha,
                            "sigma": sigma,
                            "broken": broken,
                            "rate": later / scope.later,
                        }
                    )
        return {"runs": found}

    def _audit(self, job: Job) -> Found:
        """Run many meters over one course of violations, with answers that come late."""
        scope, rng = self.scope, self._rng(FOR_AUDITS, job.number)
        course = rng.random(scope.length) < job.rate
        made = simulate_meters(
            course,
            job.q,
            AUDIT_DELTA,
            sequences=scope.sequences,
            delays=self._delays(rng),
            seed=self._seed(FOR_AUDITS, job.number, int(1e6 * job.q)) >> 1,
        )
        upper, lower = made.upper_wrong > 0, made.lower_wrong > 0
        return {
            "rate": job.rate,
            "q": job.q,
            "sequences": scope.sequences,
            "violations": int(course.sum()),
            "wrong": int((upper | lower).sum()),
            "upper_wrong": int(upper.sum()),
            "lower_wrong": int(lower.sum()),
            "upper": float(np.median(made.upper)),
            "lower": float(np.median(made.lower)),
        }

    def _alarm(self, job: Job) -> Found:
        """See when windows raise the alarm, where limits change half-way."""
        scope, rng = self.scope, self._rng(FOR_AUDITS, len(RATES))
        half = scope.length // 2
        rates = np.where(np.arange(scope.length) < half, BEFORE, AFTER)
        course, window = rng.random(scope.length) < rates, Window(scope.length // 10, AUDIT_DELTA)
        alarms = simulate_alarms(
            course,
            job.q,
            window,
            LEVEL,
            sequences=scope.sequences,
            delays=self._delays(rng),
            seed=self._seed(FOR_AUDITS, len(RATES), int(1e6 * job.q)) >> 1,
        )
        return {"q": job.q, "window": window.length, "changed": half, "alarms": alarms.tolist()}

    def _course(self, job: Job) -> Found:
        """Follow one meter: both bounds, and the truth."""
        scope, rng = self.scope, self._rng(FOR_AUDITS, len(RATES) + 1)
        course, late = rng.random(scope.length) < job.rate, self._delays(rng)
        meter = AuditMeter(job.q, AUDIT_DELTA, seed=scope.seed)
        due: dict[int, list[int]] = {}
        points = []
        for t in range(scope.length):
            if meter.observe(t + 1):
                due.setdefault(t + int(late[t]), []).append(t)
            for judged in due.pop(t, []):
                meter.answer(judged + 1, allowed=not course[judged])
            if (t + 1) % max(scope.length // 200, 1) == 0:
                lower, upper = meter.bounds()
                points.append([t + 1, int(course[: t + 1].sum()), lower, upper])
        return {"q": job.q, "rate": job.rate, "points": points}

    def _varied(self, job: Job) -> Found:
        """Run many meters whose coin varies by many rules, also against who knows its odds."""
        cells = simulate_cells(
            job.q,
            AUDIT_DELTA,
            steps=self.scope.varied,
            sequences=self.scope.sequences,
            seed=self._seed(FOR_VARIED) >> 1,
        )
        return {"q": job.q, "cells": [cell._asdict() for cell in cells]}

    def _promise(self, job: Job) -> Found:
        """Run many purses, each with coins of its own, hold one player; answers come late."""
        scope, lag = self.scope, job.number
        # All players of a lag meet the same coins.
        seed = self._seed(FOR_PURSES, lag) >> 1
        how: dict[str, Any] = {"steps": scope.horizon, "seed": seed, "rate": SURE, "lag": lag}
        made = simulate_promise(job.name, PROMISED, PROMISE_Q, runs=scope.runs, **how)
        # A meter counts the same plays and does not act.
        few = min(scope.runs, FEW)
        free = simulate_promise(
            job.name, PROMISED, PROMISE_Q, runs=few, fault="never frozen", **how
        )
        at_once = default_purse(PROMISE_Q, 0)
        small = simulate_promise("clean", PROMISED, PROMISE_Q, runs=scope.runs, b=at_once, **how)
        return {
            "row": made.row(),
            "steps": made.steps,
            "standard_error": made.standard_error,
            "worst_E": made.worst_E,
            "refuted": max(made.bound, made.limit(1e-6)),
            "frozen_share": made.frozen_share,
            "audits": made.audits,
            "found": made.found,
            "without": free.mean_E,
            "b_at_once": at_once,
            "frozen_at_once": small.frozen_share,
        }

    def _delays(self, rng: np.random.Generator) -> Ints:
        return rng.integers(0, LATE, self.scope.length)

    def _evaluate(self, job: Job) -> Found:
        """Evaluate logs whose truth is known."""
        near, far, none = CASES
        found = []
        for number in range(job.number, min(job.number + BATCH, self.scope.logs)):
            log, truths = logged(self._rng(FOR_LOGS, number), (NEAR, FAR), self.scope.decisions)
            told = zip((near, far), truths, evaluate(log, sigma=(NEAR, FAR)), strict=True)
            for case, truth, said in told:
                found.append(
                    {
                        "case": case,
                        "refused": said.refused is not None,
                        "dr": said.dr is not None and truth in said.dr,
                        "ips": said.ips is not None and truth in said.ips,
                        "wide": None if said.dr is None else said.dr.high - said.dr.low,
                    }
                )
            said = evaluate(
                masked(self._rng(FOR_LOGS, number, 1), self.scope.decisions), policy=[Uniform()]
            )[0]
            refused = said.refused is not None
            found.append(
                {"case": none, "refused": refused, "dr": False, "ips": False, "wide": None}
            )
        return {"logs": found}

    def _rng(self, *parts: int) -> np.random.Generator:
        return np.random.default_rng([self.scope.seed, *parts])

    def _seed(self, *parts: int) -> int:
        words = np.random.SeedSequence([self.scope.seed, *parts]).generate_state(1, np.uint64)
        return int(words[0]) >> 1


def logged(
    rng: np.random.Generator, targets: tuple[float, ...], decisions: int
) -> tuple[list[Any], list[float]]:
    """Log decisions of the paper's agent in a small world; give what each sigma earns there.

    The truth is the mean, over the decisions and at the states of the log, of Σ_k π(k) r(c, k): by
    the paper's formula, and not by the code that evaluates.
    """
    contexts = np.hstack([np.ones((6, 1)), rng.integers(0, 2, (6, 2))])
    rewards = np.clip(0.5 + contexts @ rng.normal(0.0, 0.25, (3, 3)), 0.05, 0.95)
    allowed = rng.random((6, 3)) < 0.6
    log: list[Any] = []
    agent: Any = Agent(
        arms=3,
        features=3,
        limits="linear",
        prior="paper",
        exact_denials=False,
        policy=BehaviorConstrained(sigma=LOGGED, v=LOGGED_V),
        seed=int(rng.integers(2**32)),
        sink=log.extend,
    )
    for row, arm in zip(rng.integers(0, 6, 12), rng.integers(0, 3, 12), strict=True):
        agent.teach(contexts[row], int(arm), bool(allowed[row, arm]))
    truths = [0.0] * len(targets)
    clicks = bool(rng.integers(2))
    for part in np.array_split(np.arange(decisions), 5):  # it learns between them
        rows = rng.integers(0, 6, len(part))
        made = agent.decide_many(contexts[rows], propensity=True)
        for j, sigma in enumerate(targets):
            truths[j] += _earns(agent, made, sigma, rewards[rows]) / decisions
        earned = rewards[rows, made.numbers]
        if clicks:
            earned = (rng.random(len(part)) < earned).astype(float)
        agent.reward_many(made.ids, earned)
    return log, truths


def _earns(agent: Any, made: Any, sigma: float, rewards: Floats) -> float:
    parts, v = np.array([one.parts for one in made]), agent.policy.v
    parts[:, 4] = sigma * parts[:, 0] + (1.0 - sigma) * parts[:, 2]
    parts[:, 5] = v * np.hypot(sigma * parts[:, 1], (1.0 - sigma) * parts[:, 3])
    pi = np.empty((len(made), parts.shape[2]))
    every = np.ones((1, parts.shape[2]), np.bool_)
    wins.propensities_many(np.array(BehaviorConstrained().weights), parts, every, pi)
    return float((pi * rewards).sum())


def masked(rng: np.random.Generator, decisions: int) -> list[Any]:
    """Log an agent that never plays what it was told is denied: of that the log knows nothing."""
    log: list[Any] = []
    agent: Any = Agent(
        arms=3,
        features=1,
        limits="rules",
        exact_denials=False,
        teacher_error=0.1,
        doubt=0.2,
        policy=LearnedMask(v=0.5),
        seed=int(rng.integers(2**32)),
        sink=log.extend,
    )
    for i in range(30):
        agent.teach([1.0], i % 3, i % 3 < 2)
    for part in np.array_split(np.arange(decisions), 5):
        made = agent.decide_many(np.ones((len(part), 1)), propensity=True)
        agent.reward_many(made.ids, rng.random(len(part)))
    return log


def _violated(tables: Tables, limits: Beliefs, sigma: float, rows: Ints, seed: int) -> Bools:
    """Run the paper's agent; say at which steps it violated."""
    policy = BehaviorConstrained(sigma=sigma)
    run = online(tables, policy=policy, limits=cast(LinearLimits, limits), rows=rows, seed=seed)
    return ~tables.allowed[rows, run.played]


def _only(tables: Tables, rows: Ints) -> Tables:
    return Tables(tables.contexts[rows], tables.rewards[rows], tables.allowed[rows])


def paying(tables: Tables) -> Tables:
    """Return the same world, where violating pays."""
    raised = np.minimum(tables.rewards + RAISE, 1.0)
    return Tables(tables.contexts, np.where(tables.allowed, tables.rewards, raised), tables.allowed)
