"""Many purses over violations that may be chosen against them, to see that the promise holds.

The purse alone, without limits that are learned: what plays violate is laid down by a case. The
floats are those of `bridle.agent.purse.Purse`. Every run has coins of its own.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bridle.agent.purse import RESERVE, Purse, root_of, with_luck
from bridle.kernels import keys
from bridle.kernels import purse as kernel
from bridle.kernels.types import Floats, Uints
from bridle.validation import COUNT, FRACTION, NON_NEGATIVE, SEED, FloatRange, IntRange, one_of

__all__ = ["CASES", "PromiseTrial", "simulate_promise"]

CASES = ("clean", "always sure", "limits change", "violating pays")
ADVERSARIES = {"greedy": kernel.GREEDY, "patient": kernel.PATIENT}
FAULTS = {
    "": kernel.SOUND,
    "coins foreseen": kernel.FORESEEN,
    "never frozen": kernel.THAWED,
    "waiting counts as allowed": kernel.TRUSTING,
}
STEPS = IntRange(1, 10**7)
# A smaller one would ask for coins above 1.
BELOW = FloatRange(1.0, 1e6)
# What the coins' streams are for: "PURSE" in ASCII.
PURSE = np.uint64(0x5055525345)
_ROW = ("case", "alpha", "q", "b", "lag", "runs", "mean_E", "bound", "frozen_share_clean")


@dataclass(frozen=True)
class PromiseTrial:
    """What became of many purses in one case.

    Attributes
    ----------
    mean_E, standard_error, worst_E : float
        Denied plays of a run: the mean over runs, its standard error, and the most.
    bound, sharper_bound : float
        αT + b + 1/q, and αT + b + min(1/q, reserve).
    most_staked : float
        The most that Σ A V/q_t was in any run: surely no more than the sharper bound.
    frozen_share, frozen_share_clean : float
        Share of the steps that were frozen: in this case, and where nothing is violated.
    audits, found, questions : float
        Of a run, on average. While frozen there is one question a step.
    """

    case: str
    alpha: float
    q: float
    b: float
    lag: int
    runs: int
    steps: int
    seed: int
    reserve: float
    mean_E: float
    standard_error: float
    worst_E: float
    bound: float
    sharper_bound: float
    most_staked: float
    frozen_share: float
    frozen_share_clean: float
    audits: float
    found: float
    questions: float

    @property
    def answers(self) -> float:
        """What the teacher is asked for in a run: audits and questions."""
        return self.audits + self.questions

    def limit(self, delta: float) -> float:
        """Return what the mean passes with probability `delta` at most if the promise holds.

        The runs, one after the other, are one course: Σ A V/q_t is surely within `runs` times the
        bound, so `Purse.bound_with`'s inequality bounds what luck adds, with a θ that depends on
        the settings alone. With many runs it comes down to the bound itself.
        """
        sure = self.runs * self.sharper_bound
        theta = min(1.0, math.sqrt(2.0 * math.log(1.0 / delta) / (self.q * sure)))
        return with_luck(sure, self.q, delta, theta) / self.runs

    def row(self) -> dict[str, Any]:
        """Return the fields that `promises.json` holds."""
        return {name: value for name, value in asdict(self).items() if name in _ROW}


def simulate_promise(
    case: str,
    alpha: float = 0.01,
    q: float = 0.02,
    lag: int = 0,
    runs: int = 1000,
    steps: int = 20_000,
    seed: int = 0,
    *,
    b: float | None = None,
    rate: float = 0.3,
    adversary: str = "greedy",
    learns: float = 1.0,
    reserve: float = RESERVE,
    fault: str = "",
) -> PromiseTrial:
    """Run many purses in one case.

    Parameters
    ----------
    case : {"clean", "always sure", "limits change", "violating pays"}
        Nothing is violated; every play is believed safe, and violates with probability `rate`; the
        same from half-way on, and clean before; an adversary who knows everything but the coins to
        come chooses what violates.
    alpha, q, lag, b
        As in `Purse`. Every answer comes `lag` steps after its play.
    runs, steps : int
        How many purses, and for how long, T.
    seed : int
        Run i has the coins of seed + i.
    rate : float, default 0.3
        Probability that a play violates.
    adversary : {"greedy", "patient"}
        Violates always; only where the coin is least likely to fall.
    learns : float, default 1.0
        What a denial, by audit or by question, multiplies `rate` by; 1: nothing is learned, as the
        promise must hold even so.
    reserve : float
        How far below zero an audit may take the balance, 1 or more: that of `Purse`, or another to
        compare with. With 1/q it is q_t = q at all times.
    fault : {"", "coins foreseen", "never frozen", "waiting counts as allowed"}
        What to break, to see that trials can fail.

    Examples
    --------
    >>> made = simulate_promise("violating pays", runs=20, steps=2000, lag=50)
    >>> made.mean_E <= made.bound, made.most_staked <= made.sharper_bound
    (True, True)
    >>> made = simulate_promise("violating pays", runs=20, steps=2000, fault="never frozen")
    >>> made.mean_E <= made.bound
    False
    """
    owner = "simulate_promise"
    name = one_of(case, CASES, "case", owner)
    T = STEPS.check(steps, "steps", owner)
    purse = Purse(alpha=alpha, q=q, lag=lag, b=b)
    enemy = ADVERSARIES[one_of(adversary, ADVERSARIES, "adversary", owner)]
    who, chance, begin = {
        "clean": (kernel.RATE, 0.0, 0),
        "always sure": (kernel.RATE, FRACTION.check(rate, "rate", owner), 0),
        "limits change": (kernel.RATE, FRACTION.check(rate, "rate", owner), T // 2),
        "violating pays": (enemy, 1.0, 0),
    }[name]
    below = BELOW.check(reserve, "reserve", owner)
    broken = FAULTS[one_of(fault, FAULTS, "fault", owner)]
    learned = NON_NEGATIVE.check(learns, "learns", owner)
    starts = _starts(seed, runs, owner)
    settings: dict[str, Any] = {
        "alpha": purse.alpha,
        "q": purse.q,
        "b": purse.b,
        "root": root_of(purse.q, purse.lag, purse.b),
        "reserve": below,
        "lag": purse.lag,
        "steps": T,
    }
    made = kernel.run(
        starts, who=who, rate=chance, begin=begin, learns=learned, fault=broken, **settings
    )
    clean = made if name == "clean" and not broken else kernel.run(starts, **settings)
    n, E = len(starts), made[:, kernel.VIOLATIONS]
    return PromiseTrial(
        case=name,
        alpha=purse.alpha,
        q=purse.q,
        b=purse.b,
        lag=purse.lag,
        runs=n,
        steps=T,
        seed=seed,
        reserve=below,
        mean_E=_mean(E),
        standard_error=float(E.std(ddof=1)) / math.sqrt(n) if n > 1 else math.inf,
        worst_E=float(E.max()),
        bound=purse.bound(T),
        sharper_bound=purse.alpha * T + purse.b + min(1.0 / purse.q, below),
        most_staked=float(made[:, kernel.STAKED].max()),
        frozen_share=_mean(made[:, kernel.FROZEN]) / T,
        frozen_share_clean=_mean(clean[:, kernel.FROZEN]) / T,
        audits=_mean(made[:, kernel.AUDITS]),
        found=_mean(made[:, kernel.FOUND]),
        questions=_mean(made[:, kernel.FROZEN]),
    )


def _starts(seed: int, runs: int, owner: str) -> Uints:
    n, first = COUNT.check(runs, "runs", owner), SEED.check(seed, "seed", owner)
    SEED.check(first + n - 1, "seed + runs - 1", owner)
    return np.array([keys.stream(first + i, PURSE) for i in range(n)], np.uint64)


def _mean(column: Floats) -> float:
    return float(column.mean())
