"""Play inside what is believed to be allowed, and ask the teacher where an answer pays.

What an arm in doubt could earn beyond the best safe one, times the probability that it is allowed,
is what not knowing costs at this decision. It is added up, by item and unit. Once it has cost as
much as an answer does, the teacher is asked (ski rental); an answer that teaches about other cases
as well is cheaper by so much.

The draws that a question is judged by are not those of the play: given that nothing is asked, the
probability of a play is that of the best draw among the safe arms.

Where rewards find their scale the draws of plays are narrower than what is known: who tries what
looks best in a wide draw tries everything. So the arms that a question could be about are those
that come first in such a draw, but what they could earn is judged by a draw of its own, as wide as
what is known. Judged by narrow draws an answer seems worth nothing, nothing is asked, and nothing
is learned of all that is in doubt.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bridle.kernels.choice import as_weights, location, spread
from bridle.kernels.compiling import njit
from bridle.kernels.doubt import fall_back, look_key
from bridle.kernels.keys import BIN_SHIFT, BIN_TOP, aside, bits_of, key_of, normal, uniform
from bridle.kernels.loop import pull_of, score_columns
from bridle.kernels.mixture import check_coin
from bridle.kernels.posterior import fold, nonzeros
from bridle.kernels.purse import RECHECK, coin_at
from bridle.kernels.scaled import FIRST, MASS, NOISE, SUM, Recent, fold_one
from bridle.kernels.slates import ranked
from bridle.kernels.types import Floats, Ints, Posterior, Uints, Weights

Marks = npt.NDArray[np.int8]


class Coins(NamedTuple):
    """What says which plays the teacher judges afterwards.

    start: the stream of the coins. zeal: (U, 2) and begin, as in `check_coin`, (0, 2) for no spot
    checks; unjudged: (U,) plays so far of what nobody had judged. purse: (7,) as in `coin_at`, (0,)
    without a promise. drawn: (2,) filled with the probability of the coin that fell, and with the
    steps at which the promise was frozen.
    """

    start: np.uint64
    zeal: Floats
    begin: float
    unjudged: Ints
    purse: Floats
    drawn: Floats


# What may be done with an arm here: nothing; ask about it, but not play it; play it. And one that
# is in doubt, but is not to be asked about: a question about it is open.
OUT, IN_DOUBT, SAFE, ASKED = 0, 1, 2, 3
# What the teacher said of this very unit about this very item, as in `kernels.doubt`.
UNASKED, SAID_NO, SAID_YES = 0, 1, 2
# Why a run stops: it is over, asks about an arm before it plays, or has played and checks it.
OVER, ASKS, CHECKS = 0, 1, 2
# Prices below this are alike: which of two free answers is asked for goes by what it is worth.
LEAST_PRICE = 1e-3
# Of the arms in a narrow draw those are weighed that come first: so many, and as long as none of
# them is safe so many times as many more.
FIRST_LOOK, MORE = 16, 4


@njit(cache=True, inline="always")
def price_of(price: float, information: float) -> float:
    """Return what an answer costs, in rewards, less what it teaches about other cases.

    information: in nats. An answer that settles a whole bit of what is not known costs nothing.
    """
    return price * max(0.0, 1.0 - information / math.log(2.0))


@njit(cache=True)
def nearest(
    loc: Floats,
    scale: Floats,
    p: Floats,
    information: Floats,
    marks: Marks,
    unit: Ints,
    costs: Floats,
    lessons: Floats,
    price: float,
    dearer: Floats,
    starved: float,
    key: np.uint64,
    judged: Floats,
    best: Floats,
    who: Ints,
) -> tuple[int, float, float, bool]:
    """Return the arm in doubt that is nearest to paying for an answer; whether it pays.

    loc, scale, p, information, marks, unit: (K,); judged: (K,) another draw, which says how much
    the arms earn that are best in this one, (0,) for this one itself. At this decision not asking
    costs P(allowed) times what the unit's best draw is above the best draw of a safe arm, or above
    0 if none is safe. costs: (U,) what it has cost of this item so far; lessons: (U,) what it has
    cost of all items, each by the bits that an answer would have taught about the others; dearer:
    (U,) of so many times the price of an answer an account must be, beside what this decision adds:
    1 where an answer settles all that the account is of. Where no arm is safe any account may be
    `starved`: what not asking has cost of all units of this item together, if one arm may stand in
    for another; else 0. An answer pays once either is what it is worth: so things that never come
    again are asked about, too. Between the two stand what is to be added to either, if nothing is
    asked.
    -1 if no arm in doubt would be better. best, who: (U,), scratch.
    """
    for u in range(best.shape[0]):
        best[u] = -math.inf
        who[u] = -1
    base = -math.inf
    first = -1
    for k in range(loc.shape[0]):
        if marks[k] != SAFE and marks[k] != IN_DOUBT:
            continue
        drawn = loc[k]
        if scale[k] > 0.0:
            drawn += scale[k] * normal(bits_of(key, k))
        if marks[k] == SAFE:
            if drawn > base:
                base = drawn
                first = k
        elif drawn > best[unit[k]]:
            best[unit[k]] = drawn
            who[unit[k]] = k
    if first < 0:
        base = 0.0
    elif judged.shape[0] > 0:
        base = judged[first]
    top = -1.0
    arm = -1
    worth = 0.0
    lesson = 0.0
    pays = False
    for u in range(best.shape[0]):
        k = who[u]
        if k >= 0:
            cost = p[k] * ((judged[k] if judged.shape[0] > 0 else best[u]) - base)
            if cost > 0.0:
                due = price_of(price, information[k])
                spent = max(costs[u] / dearer[u], starved)
                share = (spent + cost) / max(due, LEAST_PRICE)
                if share > top:
                    top = share
                    arm = k
                    worth = cost
                    lesson = cost * min(information[k] / math.log(2.0), 1.0)
                    pays = spent + cost >= due or lessons[u] / dearer[u] + lesson >= price
    return arm, worth, lesson, pays


@njit(cache=True)
def look_wide(
    loc: Floats, scale: Floats, level: Floats, wide: Floats, marks: Marks, key: np.uint64
) -> tuple[Floats, Floats, Marks]:
    """Return a draw of all arms, another as wide as what is known, and marks for `nearest`.

    loc, scale: (K,) of the first; level, wide: (K,) of the other. An arm that does not come first
    in the first draw is OUT.
    """
    K = loc.shape[0]
    drawn, judged = np.empty(K), np.empty(K)
    apart = aside(key)
    for k in range(K):
        drawn[k] = loc[k]
        judged[k] = level[k]
        if marks[k] == OUT:
            continue
        if scale[k] > 0.0:
            drawn[k] += scale[k] * normal(bits_of(key, k))
        if wide[k] > 0.0:
            judged[k] += wide[k] * normal(bits_of(apart, k))
    return drawn, judged, first_of(drawn, marks, key)


@njit(cache=True)
def first_of(drawn: Floats, marks: Marks, key: np.uint64) -> Marks:
    """Return marks, OUT where an arm does not come first in a draw: see FIRST_LOOK."""
    K = drawn.shape[0]
    may = marks != OUT
    few = FIRST_LOOK
    most = few
    while True:
        places, bits = np.empty(most, np.int64), np.empty(most, np.uint64)
        n = ranked(drawn, may, key, places, bits)
        out = np.zeros(K, np.int8)
        safe = False
        for i in range(n):
            out[places[i]] = marks[places[i]]
            safe |= marks[places[i]] == SAFE
        if safe or n < most:
            return out
        few *= MORE
        most = min(most + few, K)
        if n == K:
            return out


@njit(cache=True)
def best_safe(loc: Floats, scale: Floats, marks: Marks, key: np.uint64) -> int:
    """Return the safe arm of the highest draw, -1 if no arm is safe.

    A draw is computed only where its bound reaches the best so far; of equal draws the one with
    the higher bits wins.
    """
    arm = -1
    top = -math.inf
    tie = np.uint64(0)
    for k in range(loc.shape[0]):
        if marks[k] != SAFE:
            continue
        bits = bits_of(key, k)
        if loc[k] + scale[k] * BIN_TOP[bits >> BIN_SHIFT] >= top:
            drawn = loc[k]
            if scale[k] > 0.0:
                drawn += scale[k] * normal(bits)
            if arm < 0 or drawn > top or (drawn == top and bits > tie):
                arm = k
                top = drawn
                tie = bits
    return arm


@njit(cache=True)
def play(weights: Floats, parts: Floats, marks: Marks, start: np.uint64, number: np.uint64) -> int:
    """Blend and draw for one decision; return the safe arm of the highest draw, -1 if none is.

    parts: (7, K); rows 0 to 3 are given, rows 4 to 6 are filled.
    """
    w = as_weights(weights)
    key = key_of(start, number)
    for k in range(parts.shape[1]):
        parts[4, k] = location(w, parts[0, k], parts[1, k], parts[2, k])
        parts[5, k] = spread(w, parts[1, k], parts[3, k])
        parts[6, k] = parts[4, k]
        if parts[5, k] > 0.0:
            parts[6, k] += parts[5, k] * normal(bits_of(key, k))
    return best_safe(parts[4], parts[5], marks, key)


@njit(cache=True)
def run(
    w: Weights,
    post: Posterior,
    recent: Recent,
    prior: Floats,
    num: Floats,
    C: Floats,
    outcomes: Floats,
    kind: Ints,
    item: Ints,
    unit: Ints,
    accounts: Ints,
    dearer: Floats,
    rated: Ints,
    safe: npt.NDArray[np.bool_],
    p: Floats,
    hope: Floats,
    information: Floats,
    said: Marks,
    here: Marks,
    account: Floats,
    lessons: Floats,
    price: float,
    stand_in: bool,
    rows: Ints,
    start: np.uint64,
    ask_start: np.uint64,
    numbers: Uints,
    centred: bool,
    totals: Floats,
    on_empty: int,
    budget: int,
    most: int,
    coins: Coins,
    at: int,
    until: int,
    look: int,
    arms: Ints,
) -> tuple[int, int, int, bool]:
    """Run from step `at` on until something comes up; return (step, arm, why, due).

    why: ASKS about an arm before anything is played at this step; CHECKS what was played; OVER
    before a step, `until` at the latest. recent, prior, num: as in `scaled.fold_one`, of arms that
    find their scale, which is due to be found anew if `due`; num: (0,) of others. C: (M, d),
    outcomes: (M, K); kind and item: (M,) the number of each row's distinct context and of its item;
    unit: (K,); accounts, rated: (K,) by which account, of A, and which rate of exceptions an arm
    goes: most often its unit; safe, p, hope, information: (kinds, U), where hope is the P(allowed)
    that questions are judged by; said: (items, U) what the teacher said; account: (items, A) what
    not asking has cost; lessons: (A,) and dearer: (kinds, A) as in `nearest`; stand_in: whether
    arms of one account may stand in for those of another; here: (U,) what the teacher said at this
    very step. `look` is how often this step was looked at before. At most `most` questions a step
    are asked, and `budget` in all from here on.
    """
    K, d = post.mu.shape
    U = p.shape[1]
    where = np.empty(d, np.uint32)
    h = np.empty(max(d, K))
    g = np.empty(d)
    mean = np.zeros(K)
    sd = np.zeros(K)
    loc = np.zeros(K)
    scale = np.zeros(K)
    chance = np.zeros(K)
    teaches = np.zeros(K)
    marks = np.zeros(K, np.int8)
    best = np.empty(U)
    who = np.empty(U, np.int64)
    mu = post.mu.T.copy()
    A = np.empty((d * (d + 1) // 2, K))
    for k in range(K):
        for i in range(d):
            for j in range(i + 1):
                A[i * (i + 1) // 2 + j, k] = post.A[k, i, j]
    scaled = num.shape[0] > 0
    nothing, flat = np.empty(0), np.zeros(K)
    counted, means = np.empty(2), np.empty(2)
    for t in range(at, until):
        if scaled:
            counted[0], counted[1] = num[SUM] + FIRST, num[MASS] + 1.0
        frozen = coins.purse.shape[0] > 0 and coin_at(coins.purse, t) < 0.0
        row = rows[t]
        like = kind[row]
        own = item[row]
        c = C[row]
        n = nonzeros(c, where)
        pull = pull_of(centred, post.ridge, counted if scaled else totals)
        score_columns(mu, A, c, where, n, pull, h, mean, sd)
        doubtful, served = False, False
        for k in range(K):
            u = unit[k]
            chance[k] = hope[like, u]
            teaches[k] = information[like, u]
            loc[k] = location(w, mean[k], sd[k], p[like, u] if w.limit != 0.0 else 0.0)
            scale[k] = spread(w, sd[k], 0.0)
            if said[own, u] == SAID_NO or here[u] == SAID_NO:
                marks[k] = OUT
            elif here[u] == SAID_YES or (
                not frozen and (said[own, u] == SAID_YES or safe[like, u])
            ):
                marks[k] = SAFE
                served = True
            else:
                marks[k] = IN_DOUBT
                doubtful = True
        if doubtful and budget > 0 and look < most:
            key = look_key(key_of(ask_start, numbers[t]), look)
            drawn, width, judged, weighed = loc, scale, nothing, marks
            if scaled:
                wide = (w.reward * num[NOISE]) * sd
                drawn, judged, weighed = look_wide(loc, scale, loc, wide, marks, key)
                width = flat
            k, cost, lesson, pays = nearest(
                drawn,
                width,
                chance,
                teaches,
                weighed,
                accounts,
                account[own],
                lessons,
                price,
                dearer[like],
                0.0 if served or not stand_in else total_of(account[own]),
                key,
                judged,
                best,
                who,
            )
            if pays:
                account[own, accounts[k]] = 0.0
                lessons[accounts[k]] = 0.0
                return t, k, ASKS, False
            if k >= 0:
                account[own, accounts[k]] += cost
                lessons[accounts[k]] += lesson
        arm = best_safe(loc, scale, marks, key_of(start, numbers[t]))
        if arm < 0 and not frozen:
            for u in range(U):
                best[u] = p[like, u]
            arm = fall_back(on_empty, best, _denied(said[own], here, unit), unit)
        look = 0
        if frozen:
            coins.drawn[1] += 1.0
        coin = -1.0
        if arm >= 0 and here[unit[arm]] != SAID_YES:
            coin = coin_of(coins, rated[arm], said[own, unit[arm]] == SAID_YES, t)
        for u in range(U):
            here[u] = UNASKED
        arms[t] = arm
        due = False
        if arm >= 0:
            totals[0] += outcomes[row, arm]
            totals[1] += 1.0
            if scaled:
                due = fold_one(
                    post.gram,
                    post.gram_low,
                    post.gram_new,
                    post.f,
                    post.f_low,
                    post.f_new,
                    post.A,
                    post.mu,
                    post.times,
                    post.since,
                    post.ridge,
                    recent.gram,
                    recent.f,
                    recent.weights,
                    recent.scales,
                    recent.stamps,
                    prior,
                    num,
                    arm,
                    c,
                    outcomes[row, arm],
                    where,
                    g,
                    means,
                )
            else:
                fold(post, arm, c, outcomes[row, arm], where, n, g)
            for i in range(d):
                mu[i, arm] = post.mu[arm, i]
                for j in range(i + 1):
                    A[i * (i + 1) // 2 + j, arm] = post.A[arm, i, j]
        begin = coins.start
        if coins.purse.shape[0] > 0:  # a promise's coins go by the step, too
            begin = key_of(begin, np.uint64(t + 1))
        if coin > 0.0 and uniform(key_of(begin, numbers[t])) < coin:
            coins.drawn[0] = coin
            return t, arm, CHECKS, due
        if due:
            return t + 1, -1, OVER, True
    return until, -1, OVER, False


@njit(cache=True)
def total_of(costs: Floats) -> float:
    """Return the sum of accounts, in their order."""
    total = 0.0
    for u in range(costs.shape[0]):
        total += costs[u]
    return total


@njit(cache=True)
def coin_of(coins: Coins, u: int, judged: bool, step: int) -> float:
    """Return the probability that a play of rate u is checked, and count it if nobody judged it.

    Not of what the teacher allowed at this very step, which needs no check.
    """
    coin = 0.0
    if not judged and coins.zeal.shape[0] > 0:
        plays = 0
        for v in range(coins.unjudged.shape[0]):
            plays += coins.unjudged[v]
        coin = check_coin(coins.zeal[u], coins.begin, plays, coins.unjudged[u])
        coins.unjudged[u] += 1
    if coins.purse.shape[0] > 0:
        due = coin_at(coins.purse, step)
        coin = max(coin, min(1.0, RECHECK * due) if judged else due)
    return coin


@njit(cache=True)
def _denied(said: Marks, here: Marks, unit: Ints) -> Marks:
    """Return what `fall_back` takes: SAID_NO for each arm whose unit the teacher denied."""
    out = np.zeros(unit.shape[0], np.int8)
    for k in range(unit.shape[0]):
        if said[unit[k]] == SAID_NO or here[unit[k]] == SAID_NO:
            out[k] = SAID_NO
    return out
