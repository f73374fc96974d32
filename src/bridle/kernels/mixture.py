"""Weigh several kinds of limits by their evidence, and mix what they predict.

Everything here is a plain loop over `math` functions: numpy's own exp and log differ in the last
bit between processors.
"""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels.compiling import njit
from bridle.kernels.rulesets import entropy
from bridle.kernels.types import Floats, Ints


@njit(cache=True, inline="always")
def log_add(a: float, b: float) -> float:
    """Return log(e^a + e^b)."""
    if a < b:
        a, b = b, a
    return a + math.log1p(math.exp(b - a))


@njit(cache=True)
def weigh(
    evidence: Floats, log_prior: Floats, deviation: float, weights: Floats, shared: Floats
) -> float:
    """Fill the weight of every member for every unit, and what all units together say.

    Return the log of the probability that all members together gave to all answers.

    evidence: (U, M) log of the probability that member m gave to the answers of unit u before they
    came; log_prior: (M,). Units are of one kind, and each deviates from it with probability
    `deviation` (η), being then of a kind of its own: with Z_u = Σ_m π_m e^{ev[u,m]}

        L_m = log π_m + Σ_u log((1−η) e^{ev[u,m]} + η Z_u),   shared ∝ e^L,
        s[u,m] = (1−η) e^{ev[u,m]} / ((1−η) e^{ev[u,m]} + η Z_u),
        weights[u,m] = shared_m s[u,m] + (Σ_k shared_k (1 − s[u,k])) π_m e^{ev[u,m]} / Z_u.
    """
    U, M = evidence.shape
    stays, leaves = math.log1p(-deviation), math.log(deviation)
    Z = np.empty(U)
    for m in range(M):
        shared[m] = log_prior[m]
    for u in range(U):
        total = log_prior[0] + evidence[u, 0]
        for m in range(1, M):
            total = log_add(total, log_prior[m] + evidence[u, m])
        Z[u] = total
        for m in range(M):
            shared[m] += log_add(stays + evidence[u, m], leaves + total)
    top = shared[0]
    for m in range(1, M):
        top = max(top, shared[m])
    total = 0.0
    for m in range(M):
        shared[m] = math.exp(shared[m] - top)
        total += shared[m]
    whole = total
    for m in range(M):
        shared[m] /= total
    for u in range(U):
        apart = 0.0
        for m in range(M):
            here = stays + evidence[u, m]
            s = math.exp(here - log_add(here, leaves + Z[u]))
            weights[u, m] = shared[m] * s
            apart += shared[m] * (1.0 - s)
        for m in range(M):
            weights[u, m] += apart * math.exp(log_prior[m] + evidence[u, m] - Z[u])
    return float(top + math.log(whole))


@njit(cache=True, inline="always")
def check_coin(zeal: Floats, start: float, plays: int, here: int) -> float:
    """Return the probability that a play is checked: see `limits.exceptions`.

    zeal: (2,) by all plays that nobody had judged, and by those of the unit.
    """
    return float(min(1.0, zeal[0] / (plays + start) + zeal[1] / (here + start)))


@njit(cache=True)
def exceptions(
    tallies: Floats, exact: float, rare: float, a: float, b: float, rates: Floats
) -> None:
    """Fill how often what a member allows is denied all the same, by member and unit: (M, U).

    Either a member holds to the letter in all units, but for one case in 1/`rare` (probability
    `exact` beforehand), or every unit has a rate of exceptions of its own, a priori Beta(a, b). So
    exceptions found in one unit are expected in the others, too. tallies: (3, M, U), by `count`.
    """
    _, M, U = tallies.shape
    for m in range(M):
        log_odds = math.log(1.0 - exact) - math.log(exact)
        for u in range(U):
            log_odds += tallies[2, m, u]
        some = 1.0 / (1.0 + math.exp(-log_odds)) if log_odds > -700.0 else 0.0
        for u in range(U):
            own = (a + tallies[1, m, u]) / (a + b + tallies[0, m, u] + tallies[1, m, u])
            rates[m, u] = some * own + (1.0 - some) * rare


@njit(cache=True)
def count(
    tallies: Floats, u: int, Q: Floats, allowed: bool, rare: float, a: float, b: float
) -> None:
    """Count one answer of unit u for and against exceptions to what members allow.

    tallies: (3, M, U) answers that were none; those that were, each by the probability that it was
    one and not what the member itself denies; and the log odds that there are exceptions in this
    unit at all. Q: (M,) P(the teacher says allowed) by each member, exceptions left aside.
    """
    for m in range(Q.shape[0]):
        rate = (a + tallies[1, m, u]) / (a + b + tallies[0, m, u] + tallies[1, m, u])
        if allowed:
            tallies[0, m, u] += 1.0
            tallies[2, m, u] += math.log1p(-rate) - math.log1p(-rare)
        else:
            denied = 1.0 - Q[m]
            tallies[1, m, u] += Q[m] * rate / (denied + Q[m] * rate)
            tallies[2, m, u] += math.log(denied + Q[m] * rate) - math.log(denied + Q[m] * rare)


@njit(cache=True)
def mix(
    P: Floats,
    Q: Floats,
    each: Floats,
    sds: Floats,
    rates: Floats,
    weights: Floats,
    least: float,
    floor: float,
    p: Floats,
    information: Floats,
    sd: Floats,
) -> None:
    """Mix what members predict of every unit: P(allowed), and what an answer would teach.

    P, Q, each, sds: (M, U, n) P(allowed), P(the teacher says so), information of an answer about
    the member's own parameters, and standard deviation of P; rates: (M, U) exceptions to what it
    allows; weights: (U, M); p, information, sd: (U, n). No member is surer than `least` of what is
    allowed, nor than `floor`, as any teacher may err, of what the teacher says. What is left of the
    answer's entropy once the member and its parameters are known is entropy(Q) − each; the variance
    is that within and between members.
    """
    M, U, n = P.shape
    for u in range(U):
        for c in range(n):
            mean, said, left, square = 0.0, 0.0, 0.0, 0.0
            for m in range(M):
                w = weights[u, m]
                here = min(max(P[m, u, c] * (1.0 - rates[m, u]), least), 1.0 - least)
                there = min(max(Q[m, u, c] * (1.0 - rates[m, u]), floor), 1.0 - floor)
                mean += w * here
                said += w * there
                left += w * max(entropy(there) - each[m, u, c], 0.0)
                square += w * (sds[m, u, c] * sds[m, u, c] + here * here)
            p[u, c] = min(mean, 1.0)
            information[u, c] = max(0.0, entropy(min(said, 1.0)) - left)
            sd[u, c] = math.sqrt(max(0.0, square - mean * mean))


@njit(cache=True, inline="always")
def beside(yes: float, no: float, p: float, own: float) -> float:
    """Return P(allowed) after answers about equal arms, beside which belief counts as `own`.

    own: infinity, if the answers about equal arms tell no more than belief does.
    """
    return p if own == math.inf else (yes + own * p) / (yes + no + own)


@njit(cache=True)
def judge(
    told: Floats,
    p: float,
    allowed: bool,
    alike: Floats,
    shares: Floats,
    floor: float,
    evidence: Floats,
) -> float:
    """Add an answer to the evidence of each way in which equal arms are alike; return its chance.

    told: (2,) answers about equal arms before, allowed and denied; alike, shares, evidence: (A,)
    the ways, their weights and what grows. An answer has no less than `floor` by any of them.
    """
    total = 0.0
    for a in range(alike.shape[0]):
        q = beside(told[0], told[1], p, alike[a])
        q = min(max(q if allowed else 1.0 - q, floor), 1.0 - floor)
        evidence[a] += math.log(q)
        total += shares[a] * q
    return total


@njit(cache=True)
def share(
    p: Floats,
    information: Floats,
    told: Floats,
    place: Ints,
    alike: Floats,
    shares: Floats,
    most: float,
    least: float,
) -> None:
    """Move P(allowed) of pairs, (n, m), by the answers about equal arms in the same context.

    told: (2, n, m) these answers, allowed and denied; place: (n, m) the row of `shares` that is
    about them, −1 where there is none; alike: (A,); shares: (U, A). Beside a denial belief counts
    as no more than `most` answers, and never rises.
    """
    n, m = p.shape
    for i in range(n):
        for j in range(m):
            u, yes, no = place[i, j], told[0, i, j], told[1, i, j]
            if yes + no == 0.0:
                continue
            mean = p[i, j]
            if u >= 0:
                mean = 0.0
                for a in range(alike.shape[0]):
                    mean += shares[u, a] * beside(yes, no, p[i, j], alike[a])
            if no > 0.0:
                mean = min(mean, beside(yes, no, p[i, j], most))
            p[i, j] = min(mean, 1.0 - least)
            information[i, j] = min(information[i, j], entropy(p[i, j]))
