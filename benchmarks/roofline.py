"""The least that the arithmetic costs: what no bookkeeping could make faster.

One decision needs K means, K quadratic forms over the features that are present and
K normal draws. This kernel does just that, over fixed tables and with arms next to
each other in memory so that the processor can take several at once. It chooses the
best arm, and that is all: no update, no check, no record.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numba import njit

from benchmarks.cases import Floats, Ints, V, World

LAYERS = 256
TAIL = 3.6541528853610088  # where the lowest layer's tail begins, for 256 layers
AREA = 0.00492867323399
STEP = np.uint64(0x9E3779B97F4A7C15)


def ziggurat_tables() -> tuple[Floats, Floats]:
    """Return the edges x of the layers and the density f(x) there (Marsaglia and Tsang)."""
    x = np.empty(LAYERS + 1)
    x[0] = AREA / math.exp(-0.5 * TAIL**2)
    x[1] = TAIL
    for i in range(2, LAYERS):
        x[i] = math.sqrt(-2.0 * math.log(AREA / x[i - 1] + math.exp(-0.5 * x[i - 1] ** 2)))
    x[LAYERS] = 0.0
    return x, np.exp(-0.5 * x**2)


@njit(cache=True)
def _bits(state: np.uint64) -> np.uint64:
    """Mix a counter into 64 random bits (splitmix64)."""
    z = state
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def _uniform(bits: np.uint64) -> float:
    # Through a signed integer: processors have an instruction for that one.
    return (float(np.int64(bits >> np.uint64(11))) + 0.5) * 2.0**-53


@njit(cache=True)
def _tail(state: np.uint64, start: float) -> tuple[float, np.uint64]:
    """Draw from beyond ``start`` (Marsaglia's method), with the next state."""
    while True:
        state += STEP
        a = -math.log(_uniform(_bits(state))) / start
        state += STEP
        b = -math.log(_uniform(_bits(state)))
        if b + b > a * a:
            return start + a, state


@njit(cache=True)
def _draws(out: Floats, state: np.uint64, x: Floats, f: Floats) -> np.uint64:
    """Fill ``out`` with normal draws and return the generator's next state."""
    for k in range(len(out)):
        while True:
            state += STEP
            bits = _bits(state)
            layer = np.int64(bits & np.uint64(255))
            # The top 53 bits as a signed fraction: the sign needs no branch of its own.
            value = float(np.int64(bits) >> 11) * 2.0**-52 * x[layer]
            if abs(value) < x[layer + 1]:
                out[k] = value
                break
            if layer == 0:
                beyond, state = _tail(state, x[1])
                out[k] = math.copysign(beyond, value)
                break
            state += STEP
            height = f[layer] + _uniform(_bits(state)) * (f[layer + 1] - f[layer])
            if height < math.exp(-0.5 * value * value):
                out[k] = value
                break
    return state


@njit(cache=True)
def _present(context: Floats, out: Ints) -> int:
    """List the features that are not zero and return how many there are."""
    n = 0
    for i in range(len(context)):
        if context[i] != 0.0:
            out[n] = i
            n += 1
    return n


@njit(cache=True)
def _best(mean: Floats, q: Floats, z: Floats, v: float) -> int:
    best, best_score = 0, -np.inf
    for k in range(len(mean)):
        score = mean[k] + v * math.sqrt(q[k]) * z[k]
        if score > best_score:
            best, best_score = k, score
    return best


@njit(cache=True)
def _many_arms(contexts: Floats, rows: Ints, mu: Floats, A: Floats, x: Floats, f: Floats) -> int:
    """Decide with arms next to each other. mu: (d, K); A: (d, d, K), upper triangle read.

    Returns the sum of the chosen arms, so that nothing is optimised away.
    """
    d, K = mu.shape
    present = np.empty(d, np.int64)
    mean, q, z = np.empty(K), np.empty(K), np.empty(K)
    state, total = np.uint64(1), 0
    for t in range(len(rows)):
        context = contexts[rows[t]]
        n = _present(context, present)
        mean[:] = 0.0
        q[:] = 0.0
        for a in range(n):
            i = present[a]
            c = context[i]
            part = mu[i]
            for k in range(K):
                mean[k] += c * part[k]
            for b in range(a, n):
                j = present[b]
                weight = c * context[j] * (1.0 if a == b else 2.0)
                block = A[i, j]
                for k in range(K):
                    q[k] += weight * block[k]
        state = _draws(z, state, x, f)
        total += _best(mean, q, z, V)
    return total


@njit(cache=True)
def _few_arms(contexts: Floats, rows: Ints, mu: Floats, A: Floats, x: Floats, f: Floats) -> int:
    """Decide with features next to each other. mu: (K, d); A: (K, d, d)."""
    K, d = mu.shape
    present = np.empty(d, np.int64)
    mean, q, z, product = np.empty(K), np.empty(K), np.empty(K), np.empty(d)
    state, total = np.uint64(1), 0
    for t in range(len(rows)):
        context = contexts[rows[t]]
        n = _present(context, present)
        for k in range(K):
            product[:] = 0.0
            for a in range(n):
                c = context[present[a]]
                row = A[k, present[a]]
                for i in range(d):
                    product[i] += c * row[i]
            total_mean, total_q = 0.0, 0.0
            for a in range(n):
                i = present[a]
                total_mean += context[i] * mu[k, i]
                total_q += context[i] * product[i]
            mean[k] = total_mean
            q[k] = total_q
        state = _draws(z, state, x, f)
        total += _best(mean, q, z, V)
    return total


def decisions_per_second(world: World, *, steps: int, repeats: int = 3) -> float:
    """Time the bare arithmetic of ``steps`` decisions: the better layout, the best repeat."""
    K, d = world.case.arms, world.case.features
    rng = np.random.default_rng(3)
    mu = rng.uniform(0.0, 1.0, (K, d))
    A = np.tile(0.1 * np.eye(d), (K, 1, 1))
    x, f = ziggurat_tables()
    rows = world.rows[:steps]
    layouts = (
        (_many_arms, np.ascontiguousarray(mu.T), np.ascontiguousarray(A.transpose(1, 2, 0))),
        (_few_arms, mu, A),
    )
    best = math.inf
    for decide, means, inverses in layouts:
        decide(world.contexts, rows[:1], means, inverses, x, f)  # compile
        for _ in range(repeats):
            start = time.perf_counter()
            decide(world.contexts, rows, means, inverses, x, f)
            best = min(best, time.perf_counter() - start)
    return len(rows) / best
