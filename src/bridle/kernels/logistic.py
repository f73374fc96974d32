"""Fit a logistic model to counts of answers, and say what it believes.

The order of every sum is fixed, and every fit starts from zero: the same counts give the same bits.
Zeros of a context are skipped: adding 0 changes no bit.
"""

from __future__ import annotations

import math

import numpy as np

from bridle.kernels.compiling import njit
from bridle.kernels.posterior import add_scaled
from bridle.kernels.types import Bools, Floats, Ints, Places

# A step is capped where a weight and a score would both move further; features of a thousandth need
# weights of hundreds, and features of a million scores of millions. Later steps go uncapped: the
# search along the step is enough, and nothing then can take a thousand steps of 3.
STEP_CAP = 3.0
CAPPED = 30
# Newton is done when its next step is this far, in posterior standard deviations, squared: the step
# is still taken, and as Newton squares the error what is left is nothing.
DONE = 1e-12
# … and when it moves no score further than this: the covariance is that of the point before it.
NEAR = 1e-6
# Far above what any fit needs. Where rounding keeps Newton from being done, as with features of a
# million beside features of one, the weights as they stand are as good as they get.
MAX_STEPS = 100
# Steps that move no score by more than this raise the log posterior: where x·w moves by at most u
# along the whole step, the curvature grows by at most e^u (Bach 2010), and the gain is at least
# (1 − (e^u − u − 1)/u²) of the slope: .12 at 1.5.
SURE = 1.5
# Where the answers agree, the slope falls off like e^−score and Newton's steps are too short. If
# this share of the slope is left at a step's end, it is tried longer: cheaper than a new step.
LEFT = 0.25

# Entropy of sigmoid(x) in nats as a sum of bells, Σ height·exp(−x²/(2·square)), within 2.3e-5, and
# sigmoid(−x) as a sum of normal tails, Σ share·Φ(−x/√square), within 4.9e-6, by least squares.
# Under a normal x each has its mean in closed form. Houlsby et al. (2011) use one bell and one
# tail, which is off by .061 nats at m = 4.5, s = 1.6, where the answer would teach .031.
HEIGHT = (0.07309280925235608, 0.30395803314309794, 0.26768288168393034, 0.04839143825763585)
BELL = (1.1041713233832787, 2.3986440832824116, 5.119086719090374, 10.826157725152672)
SHARE = (0.10696497783800404, 0.458659174500551, 0.37359359188191826, 0.060782255779526666)
TAIL = (0.9563934464865815, 2.0504560579380127, 4.434062831780607, 9.70681291111476)


@njit(cache=True)
def entries(c: Floats, crosses: bool) -> int:
    """Return the number of nonzero columns that `expand` makes of a context."""
    k = 0
    for i in range(c.shape[0]):
        if c[i] != 0.0:
            k += 1
    return k + 1 + (k * (k - 1) // 2 if crosses else 0)


@njit(cache=True)
def expand(c: Floats, crosses: bool, where: Places, x: Floats) -> int:
    """Write columns and values of x = [c, 1, crosses?], zeros left out; give their number.

    Columns rise: features, then the 1, then c_i·c_j for i < j, row by row.
    """
    d = c.shape[0]
    k = 0
    for i in range(d):
        if c[i] != 0.0:
            where[k] = i
            x[k] = c[i]
            k += 1
    n = k
    where[n] = d
    x[n] = 1.0
    n += 1
    if crosses:
        for a in range(k):
            f = np.int64(where[a])
            row = d + f * (2 * d - f - 1) // 2
            for b in range(a + 1, k):
                where[n] = row + np.int64(where[b]) - f
                x[n] = x[a] * x[b]
                n += 1
    return n


@njit(cache=True)
def terms(
    m: Floats, move: Floats, t: float, yes: Floats, no: Floats, rest: Floats, weight: Floats
) -> float:
    """Fill each context's residual and weight n·p(1−p) at scores m + t·move.

    Gives Σ rest·move: how fast the log likelihood rises along the move, there.
    """
    total = 0.0
    for i in range(m.shape[0]):
        z = m[i] + t * move[i]
        e = math.exp(-abs(z))
        big = 1.0 / (1.0 + e)
        small = e * big
        # p and 1 − p each to all its digits, however close p is to 0 or 1.
        p, q = (big, small) if z >= 0.0 else (small, big)
        rest[i] = yes[i] * q - no[i] * p
        weight[i] = (yes[i] + no[i]) * (p * q)
        total += rest[i] * move[i]
    return total


@njit(cache=True, inline="always")
def take_four(y: Floats, a: Floats, x0: Floats, x1: Floats, x2: Floats, x3: Floats) -> None:
    """Subtract a[0]·x0, …, a[3]·x3 from y, one after the other, with y read and written once."""
    a0, a1, a2, a3 = a[0], a[1], a[2], a[3]
    for i in range(y.shape[0]):
        y[i] = (((y[i] - a0 * x0[i]) - a1 * x1[i]) - a2 * x2[i]) - a3 * x3[i]


@njit(cache=True)
def factor(U: Floats, precision: float) -> None:
    """Turn the upper triangle of H into U with H = UᵀU (Cholesky), in place.

    H ≥ precision·I, so no pivot is below it. Where rounding has eaten one, only the prior is known
    of what is left, and the rest of its row is noise.
    """
    d = U.shape[0]
    for i in range(d):
        noise = d * 2e-15 * U[i, i]
        row = U[i, i:]
        fours = i - i % 4
        for r in range(0, fours, 4):
            a = U[r : r + 4, i]
            if a[0] != 0.0 or a[1] != 0.0 or a[2] != 0.0 or a[3] != 0.0:
                take_four(row, a, U[r, i:], U[r + 1, i:], U[r + 2, i:], U[r + 3, i:])
        for r in range(fours, i):
            add_scaled(row, -U[r, i], U[r, i:])
        if not row[0] >= max(precision, noise):
            row[0] = max(precision, row[0])
            for j in range(1, row.shape[0]):
                row[j] = 0.0
        scale = 1.0 / math.sqrt(row[0])
        for j in range(row.shape[0]):
            row[j] *= scale


@njit(cache=True)
def solve(U: Floats, g: Floats, step: Floats) -> None:
    """Write H⁻¹g, with H = UᵀU."""
    d = U.shape[0]
    for i in range(d):
        step[i] = g[i]
    for i in range(d):
        step[i] /= U[i, i]
        add_scaled(step[i + 1 :], -step[i], U[i, i + 1 :])
    for i in range(d - 1, -1, -1):
        total = step[i]
        for j in range(i + 1, d):
            total -= U[i, j] * step[j]
        step[i] = total / U[i, i]


@njit(cache=True)
def inverse(U: Floats, A: Floats) -> None:
    """Write A = H⁻¹ with H = UᵀU: V = U⁻ᵀ, A = VᵀV; every inner loop runs along a row."""
    d = U.shape[0]
    V = np.zeros((d, d))
    for i in range(d):
        V[i, i] = 1.0
        fours = i - i % 4
        for r in range(0, fours, 4):
            a = U[r : r + 4, i]
            if a[0] != 0.0 or a[1] != 0.0 or a[2] != 0.0 or a[3] != 0.0:
                end = r + 4
                take_four(V[i, :end], a, V[r, :end], V[r + 1, :end], V[r + 2, :end], V[r + 3, :end])
        for r in range(fours, i):
            add_scaled(V[i, : r + 1], -U[r, i], V[r, : r + 1])
        scale = 1.0 / U[i, i]
        for j in range(i + 1):
            V[i, j] *= scale
    # V is lower triangular: row i of A takes from rows i, i + 1, … of V.
    for i in range(d):
        row = A[i, : i + 1]
        for j in range(i + 1):
            row[j] = 0.0
        fours = d - (d - i) % 4
        for r in range(i, fours, 4):
            a = V[r : r + 4, i]
            if a[0] != 0.0 or a[1] != 0.0 or a[2] != 0.0 or a[3] != 0.0:
                end = i + 1
                take_four(row, a, V[r, :end], V[r + 1, :end], V[r + 2, :end], V[r + 3, :end])
        for r in range(fours, d):
            add_scaled(row, -V[r, i], V[r, : i + 1])
        for j in range(i + 1):
            row[j] = 0.0 - row[j]  # and no -0
    for i in range(d):
        for j in range(i):
            A[j, i] = A[i, j]


@njit(cache=True)
def curvature(
    start: Ints, where: Places, x: Floats, rest: Floats, weight: Floats, g: Floats, H: Floats
) -> None:
    """Add each context's residual to the slope g, and its weight to the upper triangle of H."""
    for i in range(rest.shape[0]):
        low, high = start[i], start[i + 1]
        r, h = rest[i], weight[i]
        dense = high - low == g.shape[0]  # the same sums without the detour by `where`
        for a in range(low, high):
            u = where[a]
            g[u] += r * x[a]
            scaled = h * x[a]
            if dense:
                add_scaled(H[u, u:], scaled, x[a:high])
            else:
                row = H[u]
                for b in range(a, high):
                    row[where[b]] += scaled * x[b]


@njit(cache=True)
def table(C: Floats, crosses: bool, D: int) -> tuple[Ints, Places, Floats, Ints]:
    """Return every context's columns and values, one after the other, and which columns occur.

    Columns are numbered among those that occur: the others have weight 0 and the prior's doubt,
    whatever else is learned.
    """
    n = C.shape[0]
    start = np.zeros(n + 1, np.int64)
    for i in range(n):
        start[i + 1] = start[i] + entries(C[i], crosses)
    where = np.empty(start[n], np.uint32)
    x = np.empty(start[n])
    for i in range(n):
        expand(C[i], crosses, where[start[i] : start[i + 1]], x[start[i] : start[i + 1]])
    place = np.zeros(D, np.int64)
    for a in range(start[n]):
        place[where[a]] = 1
    used = np.flatnonzero(place)
    for u in range(used.shape[0]):
        place[used[u]] = u
    for a in range(start[n]):
        where[a] = place[where[a]]
    return start, where, x, used


@njit(cache=True)
def fit(
    C: Floats,
    yes: Floats,
    no: Floats,
    crosses: bool,
    precision: float,
    w: Floats,
    cov: Floats,
) -> int:
    """Write the weights w (D) of the highest posterior and their covariance (D, D).

    Damped Newton from zero; gives its number of steps. The log posterior is concave, so it does not
    fall on the way to where the slope along the step is not yet negative. A step that overshoots is
    halved until it does not, or is too short to do harm (`SURE`).
    """
    D = w.shape[0]
    start, where, x, used = table(C, crosses, D)
    n, d = C.shape[0], used.shape[0]
    m, move, rest, weight = np.zeros(n), np.zeros(n), np.empty(n), np.empty(n)
    v, g, step = np.zeros(d), np.empty(d), np.empty(d)
    H = np.empty((d, d))
    for i in range(n):  # at zero p is a half
        rest[i] = 0.5 * (yes[i] - no[i])
        weight[i] = 0.25 * (yes[i] + no[i])
    steps = 0
    while steps < MAX_STEPS:
        steps += 1
        for i in range(d):
            g[i] = -precision * v[i]
            for j in range(i, d):
                H[i, j] = 0.0
            H[i, i] = precision
        curvature(start, where, x, rest, weight, g, H)
        factor(H, precision)
        solve(H, g, step)
        gain, longest, along, square = 0.0, 0.0, 0.0, 0.0
        for i in range(d):
            gain += g[i] * step[i]
            longest = max(longest, abs(step[i]))
            along += v[i] * step[i]
            square += step[i] * step[i]
        far = 0.0
        for i in range(n):
            total = 0.0
            for a in range(start[i], start[i + 1]):
                total += x[a] * step[where[a]]
            move[i] = total
            far = max(far, abs(total))
        if not gain > DONE and (far <= NEAR or not gain > DONE * DONE):
            add_scaled(v, 1.0, step)
            break
        most = STEP_CAP / max(min(longest, far), 1e-300) if steps <= CAPPED else math.inf
        t = min(1.0, most)
        slope = terms(m, move, t, yes, no, rest, weight) - precision * (along + t * square)
        while slope > LEFT * gain and t < most:
            longer = min(most, t * gain / max(gain - slope, 0.5 * gain))
            slope = terms(m, move, longer, yes, no, rest, weight)
            slope -= precision * (along + longer * square)
            if slope < 0.0:
                slope = 0.0
                terms(m, move, t, yes, no, rest, weight)
                break
            t = longer
        while slope < 0.0 and far * t > SURE:
            t *= 0.5
            slope = terms(m, move, t, yes, no, rest, weight) - precision * (along + t * square)
        add_scaled(v, t, step)
        add_scaled(m, t, move)
    small = np.empty((d, d))
    inverse(H, small)
    for i in range(D):
        w[i] = 0.0
        for j in range(D):
            cov[i, j] = 0.0
        cov[i, i] = 1.0 / precision
    for i in range(d):
        w[used[i]] = v[i]
        for j in range(d):
            cov[used[i], used[j]] = small[i, j]
    return steps


@njit(cache=True)
def information(m: float, s: float) -> float:
    """Mutual information of an answer and the weights, in nats, where x·w ~ N(m, s²).

    The entropy of the answer less the mean entropy that knowing w would leave (BALD, Houlsby et
    al. 2011), both in closed form.
    """
    left = 0.0
    q = 0.0
    for j in range(len(HEIGHT)):
        wide = BELL[j] + s * s
        left += HEIGHT[j] * math.sqrt(BELL[j] / wide) * math.exp(-0.5 * m * m / wide)
        q += 0.5 * SHARE[j] * math.erfc(abs(m) / math.sqrt(2.0 * (TAIL[j] + s * s)))
    if q <= 0.0:
        return 0.0
    return max(0.0, -q * math.log(q) - (1.0 - q) * math.log1p(-q) - left)


@njit(cache=True)
def score_many(C: Floats, crosses: bool, w: Floats, cov: Floats, mean: Floats, sd: Floats) -> None:
    """Fill mean and standard deviation of x·w for each row of C, in log odds."""
    most = 1
    for i in range(C.shape[0]):
        most = max(most, entries(C[i], crosses))
    where = np.empty(most, np.uint32)
    x = np.empty(most)
    for i in range(C.shape[0]):
        n = expand(C[i], crosses, where, x)
        m = 0.0
        total = 0.0
        for a in range(n):
            u = where[a]
            m += x[a] * w[u]
            below = 0.0
            for b in range(a):
                below += x[b] * cov[u, where[b]]
            total += x[a] * (x[a] * cov[u, u] + 2.0 * below)
        mean[i] = m
        # Rounding may leave a tiny negative number where the truth is a tiny positive one.
        sd[i] = math.sqrt(max(total, 0.0))


@njit(cache=True)
def score_pairs(
    X: Floats, A: Floats, scale: Floats, w: Floats, cov: Floats, mean: Floats, sd: Floats
) -> None:
    """Do what `score_many` does for the rows ((1, x) ⊗ (1, a) less its first)·scale: the same bits.

    X: (n, d), A: (m, p); mean, sd: (n·m,), row i·m + j is context i with arm j.
    """
    n, d = X.shape
    m, p = A.shape
    where = np.empty((1 + d) * (1 + p), np.uint32)
    value = np.empty((1 + d) * (1 + p))
    mine, its = np.empty(1 + d, np.uint32), np.empty(1 + p, np.uint32)
    x, a = np.ones(1 + d), np.ones(1 + p)
    for i in range(n):
        held = 0
        for e in range(1 + d):
            if e > 0:
                x[e] = X[i, e - 1]
            if x[e] != 0.0:
                mine[held] = e
                held += 1
        for j in range(m):
            words = 0
            for e in range(1 + p):
                if e > 0:
                    a[e] = A[j, e - 1]
                if a[e] != 0.0:
                    its[words] = e
                    words += 1
            size = 0
            for b in range(held):
                for c in range(words):
                    if mine[b] == 0 and its[c] == 0:
                        continue
                    at = np.int64(mine[b]) * (1 + p) + np.int64(its[c]) - 1
                    entry = (x[mine[b]] * a[its[c]] + 0.0) * scale[at]
                    if entry != 0.0:
                        where[size] = at
                        value[size] = entry
                        size += 1
            where[size] = (1 + d) * (1 + p) - 1  # the constant, after all columns
            value[size] = 1.0
            size += 1
            one, total = 0.0, 0.0
            for b in range(size):
                u = where[b]
                one += value[b] * w[u]
                below = 0.0
                for c in range(b):
                    below += value[c] * cov[u, where[c]]
                total += value[b] * (value[b] * cov[u, u] + 2.0 * below)
            mean[i * m + j] = one
            sd[i * m + j] = math.sqrt(max(total, 0.0))


@njit(cache=True)
def chances(mean: Floats, sd: Floats, p: Floats, spread: Floats) -> None:
    """Fill the probability of "allowed", and its standard deviation over the weights.

    The spread is p(1−p)·s (delta method) as long as s is small, and never above what a number in
    [0, 1] can have: √(p(1−p)(1 − 1/√(1 + πs²/8))).
    """
    for i in range(mean.shape[0]):
        root = math.sqrt(1.0 + math.pi / 8.0 * sd[i] * sd[i])
        e = math.exp(-abs(mean[i] / root))
        p[i] = 1.0 / (1.0 + e) if mean[i] >= 0.0 else e / (1.0 + e)
        both = e / ((1.0 + e) * (1.0 + e))
        spread[i] = min(both * sd[i], math.sqrt(both * (1.0 - 1.0 / root)))


@njit(cache=True)
def judge(
    mean: Floats,
    sd: Floats,
    beta: float,
    level: float,
    safe: Bools,
    possible: Bools,
    nats: Floats,
) -> None:
    """Fill what is surely allowed, what is not surely denied, and what an answer would teach."""
    for i in range(mean.shape[0]):
        safe[i] = mean[i] - beta * sd[i] >= level
        possible[i] = mean[i] + beta * sd[i] >= level
        nats[i] = information(mean[i], sd[i])
