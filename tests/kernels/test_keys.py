"""Random bits are a function of (seed, use, number, arm), and look like nothing but chance."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy.special import ndtri
from scipy.stats import kstwo

from bridle.kernels import keys
from tests.conftest import check_counts, size

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
USES = (keys.DECIDE, keys.DECIDE_NAMED, keys.ASK, keys.ASK_NAMED)
SEEDS = st.integers(0, MASK)


# The same in plain integers.


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def unmix(x: int) -> int:
    """The inverse of `mix`: every 64 bits are the bits of some key."""
    x = x ^ (x >> 31) ^ (x >> 62)
    x = (x * pow(0x94D049BB133111EB, -1, 2**64)) & MASK
    x = x ^ (x >> 27) ^ (x >> 54)
    x = (x * pow(0xBF58476D1CE4E5B9, -1, 2**64)) & MASK
    return x ^ (x >> 30) ^ (x >> 60)


def u64(x: int) -> np.uint64:
    # A kernel gives Python an int, which the next kernel would not take for 64 bits without sign.
    return np.uint64(int(x) & MASK)


# Tables of bits and draws.


@njit(cache=True)
def fill_bits(start, first, out):
    for n in range(out.shape[0]):
        key = keys.key_of(start, np.uint64(first + n))
        for k in range(out.shape[1]):
            out[n, k] = keys.bits_of(key, k)


@njit(cache=True)
def fill_asides(start, first, out):
    for n in range(out.shape[0]):
        out[n] = keys.aside(keys.key_of(start, np.uint64(first + n)))


@njit(cache=True)
def fill_values(bits, uniforms, normals):
    for i in range(bits.shape[0]):
        uniforms[i] = keys.uniform(bits[i])
        normals[i] = keys.normal(bits[i])


def bits_table(
    numbers: int, arms: int, seed: int = 7, use: np.uint64 = keys.DECIDE, first: int = 1
):
    out = np.empty((numbers, arms), np.uint64)
    fill_bits(keys.stream(seed, use), first, out)
    return out


def values(bits):
    flat = np.ascontiguousarray(bits, np.uint64).ravel()
    uniforms, normals = np.empty(len(flat)), np.empty(len(flat))
    fill_values(flat, uniforms, normals)
    return uniforms.reshape(bits.shape), normals.reshape(bits.shape)


# What the bits are


def test_bits_of_the_arms_are_the_published_sequence_of_splitmix64() -> None:
    known = [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    assert [int(keys.bits_of(u64(1234567), k)) for k in range(5)] == known


@given(SEEDS, st.sampled_from(USES), SEEDS, st.integers(0, 10**6))
def test_bits_are_a_function_of_seed_use_number_and_arm(seed, use, number, arm) -> None:
    start = keys.stream(seed, use)
    assert isinstance(start, np.uint64)
    assert int(start) == mix((mix((seed + GOLDEN) & MASK) + int(use) * GOLDEN) & MASK)
    key = mix((int(start) + number * GOLDEN) & MASK)
    assert int(keys.key_of(start, u64(number))) == key
    bits = mix((key + (arm + 1) * GOLDEN) & MASK)
    assert int(keys.bits_of(u64(key), arm)) == bits
    assert int(keys.aside(u64(key))) == mix(key ^ 0xD1B54A32D192ED03)
    assert int(keys.mix(u64(bits))) == mix(bits)


@given(SEEDS)
def test_mixing_loses_nothing(x) -> None:
    assert unmix(mix(x)) == x


def test_uses_seeds_numbers_and_arms_never_share_bits() -> None:
    # Of 10⁶ random numbers of 64 bits two are equal once in 4e7 times; all here are one sample.
    seeds, numbers, arms = (0, 1, 2, 3, MASK), size(500, 20), size(100, 10)
    tables = [
        bits_table(numbers, arms, seed, use, first=0)
        for seed, use in itertools.product(seeds, USES)
    ]
    asides = np.empty((len(tables), numbers), np.uint64)
    for row, (seed, use) in enumerate(itertools.product(seeds, USES)):
        fill_asides(keys.stream(seed, use), 0, asides[row])
    everything = np.concatenate([asides.ravel(), *(table.ravel() for table in tables)])
    assert len(np.unique(everything)) == len(everything)


# Uniforms


@pytest.mark.parametrize(
    "bits", [0, 1, 2**11 - 1, 2**11, 2**12, 2**63 - 1, 2**63, MASK - 2**12, MASK]
)
def test_a_uniform_is_inside_the_open_interval_at_either_end(bits) -> None:
    p = keys.uniform(u64(bits))
    assert 0.0 < p < 1.0
    assert abs(p - bits / 2**64) <= 2.0**-52
    assert math.isfinite(keys.normal(u64(bits)))


def test_uniforms_grow_with_the_bits() -> None:
    ends = np.arange(size(10_000, 500), dtype=np.uint64) << np.uint64(10)
    bits = np.concatenate([ends, np.sort(bits_table(100, 100).ravel()), ~ends[::-1]])
    bits = np.sort(bits)
    uniforms, normals = values(bits)
    assert (np.diff(uniforms) >= 0.0).all()
    # The quantile is increasing but for its last bits, which the slack of BIN_TOP covers.
    assert (np.diff(normals) >= -1e-14).all()


@pytest.mark.parametrize("along", ["numbers", "arms", "seeds"])
def test_every_byte_is_uniform(along) -> None:
    # 24 chi-squares: each errs once in 1e8, all together once in 4e6.
    n = size(200_000, 8_000)
    if along == "numbers":
        bits = bits_table(n, 1)
    elif along == "arms":
        bits = bits_table(1, n)
    else:
        bits = np.concatenate([bits_table(n // 500, 1, seed) for seed in range(500)])
    for byte in range(8):
        cells = np.bincount((bits.ravel() >> np.uint64(8 * byte)) & np.uint64(255), minlength=256)
        check_counts(cells, np.full(256, 1 / 256), error=1e-8)


def test_coins_aside_are_uniform_and_apart_from_the_draws() -> None:
    n = size(500_000, 3_000)
    asides = np.empty(n, np.uint64)
    fill_asides(keys.stream(3, keys.DECIDE), 1, asides)
    coins, _ = values(asides)
    draws, _ = values(bits_table(n, 2, seed=3))
    # 64 x 64 cells of (coin, draw of an arm); errs once in 1e6.
    cells = size(64, 8)
    for arm in range(2):
        both = (coins * cells).astype(int) * cells + (draws[:, arm] * cells).astype(int)
        check_counts(np.bincount(both, minlength=cells**2), np.full(cells**2, cells**-2.0), 5e-7)


# Normals


def test_normals_are_normal() -> None:
    # Kolmogorov-Smirnov over many keys: errs once in 1e6.
    normals = np.sort(values(bits_table(size(2_000, 20), size(500, 200)))[1].ravel())
    n = len(normals)
    below = np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in normals])
    steps = np.arange(n + 1) / n
    distance = max((steps[1:] - below).max(), (below - steps[:-1]).max())
    assert distance <= kstwo.isf(1e-6, n)


def test_normal_is_the_quantile_to_the_last_digits() -> None:
    n = size(200_000, 3_000)
    spread_evenly = np.linspace(0, MASK // 2**12, n).astype(np.uint64) << np.uint64(12)
    in_the_tail = np.array(
        [int(2.0 ** (e / 64)) for e in range(12 * 64, 60 * 64, size(1, 8))], np.uint64
    )
    at_the_middle = u64(2**63) + (in_the_tail >> np.uint64(2))
    for bits in (spread_evenly, in_the_tail, ~in_the_tail, at_the_middle, ~at_the_middle):
        p, z = values(bits)
        truth = ndtri(p)
        assert (np.abs(z - truth) <= 1e-14 * np.abs(truth)).all()


def test_the_top_of_each_bin_bounds_its_normals() -> None:
    assert keys.BIN_TOP.shape == (1024,)
    bins = np.arange(1024, dtype=np.uint64)
    last = ((bins + np.uint64(1)) << keys.BIN_SHIFT) - np.uint64(1)
    _, at_the_top = values(last)
    assert (at_the_top <= keys.BIN_TOP).all()
    # It is a bound that bounds: no more slack than it says, but for the last bin, which has no end.
    assert (keys.BIN_TOP - at_the_top)[:-1].max() <= 2e-9
    assert at_the_top[-1] <= 8.3
    near = last[:, None] - np.arange(size(64, 4), dtype=np.uint64)[None, :]
    for bits in (near, bits_table(size(2_000, 40), 100)):
        _, normals = values(bits)
        assert (normals <= keys.BIN_TOP[bits >> keys.BIN_SHIFT]).all()


# Three ways to make ±1, each with probability ½, out of the bits of a draw.
SIGNS = {
    "side": lambda bits: values(bits)[1] > 0.0,
    "size": lambda bits: np.abs(values(bits)[1]) > ndtri(0.75),
    "last bit": lambda bits: (bits & np.uint64(1)) == np.uint64(1),
}


@pytest.mark.parametrize("kind", SIGNS)
def test_neighbours_are_not_correlated(kind) -> None:
    # Products of neighbours among independent ±1 are independent ±1 again, so by Hoeffding
    # P(|sum of n| > 6√n) ≤ 2 exp(-18) = 3e-8; all 24 sums together err once in 1.3e6.
    n, m = size(2_000, 80), size(500, 60)

    def signs(**how):
        return 2.0 * SIGNS[kind](bits_table(n, m, **how)) - 1.0

    z = signs()
    pairs = {
        "arm": (z[:, :-1], z[:, 1:]),
        "arm after next": (z[:, :-2], z[:, 2:]),
        "number": (z[:-1], z[1:]),
        "number after next": (z[:-2], z[2:]),
        "both": (z[:-1, :-1], z[1:, 1:]),
        "across": (z[:-1, 1:], z[1:, :-1]),
        "seed": (z, signs(seed=8)),
        "use": (z, signs(use=keys.ASK)),
    }
    for name, (x, y) in pairs.items():
        assert abs((x * y).sum()) <= 6.0 * math.sqrt(x.size), name


def test_fill_normals_gives_the_draws_of_the_arms() -> None:
    out = np.empty(7)
    key = u64(99)
    keys.fill_normals(key, out)
    assert out.tolist() == [keys.normal(u64(keys.bits_of(key, k))) for k in range(7)]


# Places


@njit(cache=True)
def count_places(start, steps, n, counts):
    for number in range(steps):
        counts[keys.place(start, np.uint64(number), n)] += 1


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_places_are_uniform(n) -> None:
    # Errs once in 1e6, each.
    counts = np.zeros(n, np.int64)
    count_places(keys.stream(5, keys.ASK), size(300_000, 5 * n + 3_000), n, counts)
    check_counts(counts, np.full(n, 1 / n))


@pytest.mark.parametrize("bits", [0, MASK // 2, MASK - 2**12, MASK])
@pytest.mark.parametrize("n", [1, 3, 10, 2**31 - 1])
def test_a_place_is_inside_whatever_the_bits(bits, n) -> None:
    key = unmix(bits) ^ 0xD1B54A32D192ED03
    number = 12
    start = u64(unmix(key) - number * GOLDEN)
    assert int(keys.aside(u64(keys.key_of(start, u64(number))))) == bits
    assert 0 <= keys.place(start, u64(number), n) < n
