"""The belief about one unit's rule: over all sets of denied terms, or over a sample of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.errors import CorruptState, InvalidValue
from bridle.kernels import gibbs, keys
from bridle.kernels import rulesets as kernel
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits.terms import Terms

__all__ = [
    "DAMAGE",
    "MAX_SAMPLED",
    "Enumerated",
    "Group",
    "Sampled",
    "check",
    "checked_groups",
    "density_of",
    "log_mean",
    "units_of",
]

# The name of the group of an arm, None if it has none.
Group = str | int | None

# Up to so many terms all that were seen are sampled; beyond, only those once seen in a denial.
MAX_SAMPLED = 200
# Denied terms to expect, of each kind, if no density is given: people state short rules.
EXPECTED = 3.0
MOST = 0.33, 0.1
# What reading a damaged state may raise, before bridle's own checks see it.
DAMAGE = (
    KeyError,
    ValueError,
    TypeError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    StopIteration,
)
DENSITY = validate.FloatRange(0.0, 1.0, open_low=True, open_high=True)


def check(
    array: object, dtype: type, shape: tuple[int, ...], name: str, owner: str = "RuleLimits"
) -> None:
    """Refuse an array of a saved state that is not as it was saved."""
    good = isinstance(array, np.ndarray) and array.dtype == dtype and array.shape == shape
    if not good:
        got = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else array
        raise CorruptState(
            f"{owner}: array '{name}' must be {np.dtype(dtype)} of shape {shape}. "
            f"Got {got!s:.200} instead."
        )


class Enumerated:
    """All 2^T sets. What is kept is how many answers contradict each: whole numbers, in no order.

    Parameters
    ----------
    logit : array (T,)
        Prior log odds of each term.
    terms : Terms
        What the terms are.
    errors : array (G,)
        Rates of error, side by side.
    """

    def __init__(self, logit: Floats, terms: Terms, errors: Floats) -> None:
        self.terms, self.errors = terms, errors
        self.prior: Floats = kernel.log_priors(logit)
        self.wrong: Ints = np.zeros(len(self.prior), np.int64)
        self._inside: Floats | None = None

    def copy(self) -> Enumerated:
        """Give a twin that learns apart."""
        twin = object.__new__(Enumerated)
        twin.__dict__.update(self.__dict__)
        twin.wrong = self.wrong.copy()
        return twin

    def fold(self, held: Bools, allowed: bool, key: np.uint64) -> Floats:
        """Fold one answer; give the log of the probability that it had, by rate of error."""
        mask = self._masks(held[None])
        said = self.errors + (1.0 - 2.0 * self.errors) * self._shares(mask)[:, 0]
        kernel.count_wrong(self.wrong, int(mask[0]), allowed)
        self._inside = None
        out: Floats = np.log(said if allowed else 1.0 - said)
        return out

    def seen(self, held: Bools) -> Ints:
        """What `shares` needs to know of the contexts; the same for all units of the same terms."""
        return self._masks(held)

    def shares(self, seen: npt.NDArray[Any], out: Floats) -> None:
        """Fill P(allowed) for each context, by rate of error: (G, n)."""
        out[:] = self._shares(seen)

    def marginals(self) -> Floats:
        """P(denied) for each term, by rate of error: (G, T)."""
        return 1.0 - self._shares(1 << np.arange(len(self.terms)))

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that was learned, as named arrays."""
        return {"wrong": self.wrong.copy()}

    def read(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `to_state` gave."""
        wrong = state["wrong"]
        check(wrong, np.int64, self.wrong.shape, "wrong")
        if set(state) != {"wrong"} or wrong.min() < 0:
            raise CorruptState("RuleLimits: 'wrong' must be counts, and the unit's only array.")
        self.wrong = wrong.copy()

    def _masks(self, held: Bools) -> Ints:
        out: Ints = kernel.masks_of(held, self.terms.pairs, len(self.terms))
        return out

    def _shares(self, masks: Ints) -> Floats:
        if self._inside is None:
            inside: Floats = np.empty((len(self.errors), len(self.prior)))
            for g, penalty in enumerate(np.log((1.0 - self.errors) / self.errors).tolist()):
                kernel.weigh(self.prior, self.wrong, penalty, inside[g])
            self._inside = inside
        out: Floats = self._inside[:, (len(self.prior) - 1) ^ masks]
        return out


class Sampled:
    """A sample of sets for each rate of error, and the answers by distinct context.

    Parameters
    ----------
    logit, terms, errors
        As in `Enumerated`.
    chains, sweeps : int
        Sets in a sample, Gibbs sweeps an answer.
    clearing : bool
        Whether only terms that occur in a denied answer are sampled.
    """

    def __init__(
        self, logit: Floats, terms: Terms, errors: Floats, chains: int, sweeps: int, clearing: bool
    ) -> None:
        self.logit, self.terms, self.errors = logit, terms, errors
        self.sweeps, self.clearing = sweeps, clearing
        self.odds: Floats = np.log((1.0 - errors) / errors)
        self.held: Bools = np.empty((0, terms.singles), np.bool_)
        self.net: Ints = np.empty(0, np.int64)  # answers "allowed" less "denied", by context
        self.cleared: Ints = np.zeros(len(terms), np.int64)  # answers "allowed", by term
        self.active: Ints = np.empty(0, np.int64)  # the terms that are sampled
        self.sets: Bools = np.zeros((len(errors), chains, 0), np.bool_)
        self._index()

    def copy(self) -> Sampled:
        """Give a twin that learns apart."""
        twin = object.__new__(Sampled)
        twin.__dict__.update(self.__dict__)
        for name in ("net", "cleared", "sets", "log_out"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def fold(self, held: Bools, allowed: bool, key: np.uint64) -> Floats:
        """Fold one answer; give the log of the probability that it had, by rate of error."""
        scratch: Ints = np.empty(len(self.terms), np.int64)
        own = scratch[: kernel.terms_of(held, self.terms.pairs, scratch)]
        new = own[self.place[own] < 0] if not (allowed and self.clearing) else own[:0]
        if len(new):
            self._activate(new, key)
        at = np.flatnonzero((self.held == held).all(axis=1))
        if not len(at):
            self.held = np.concatenate([self.held, held[None]])
            self.net = np.append(self.net, 0)
            at = np.array([len(self.net) - 1])
        ids = self.place[own]
        rest, ids = own[ids < 0], ids[ids >= 0]
        out: Floats = np.empty(len(self.errors))
        likelihood: Floats = np.empty(self.sets.shape[1])
        self.net[at[0]] += 1 if allowed else -1
        starts, each = gibbs.index_contexts(self.held, self.terms.pairs, self.place)
        heads, contexts = gibbs.index_terms(starts, each, len(self.active))
        for g, error in enumerate(self.errors.tolist()):
            open_ = float(np.exp(self.log_out[g, rest].sum()))
            said = gibbs.foretell(self.sets[g], ids, open_, error, likelihood)
            out[g] = np.log(said if allowed else 1.0 - said)
            chance = likelihood if allowed else 1.0 - likelihood
            turn = np.uint64(keys.bits_of(key, g))
            gibbs.redraw(self.sets[g], chance, turn)
            prior = self.logit[self.active]
            gibbs.move(
                self.sets[g], starts, each, heads, contexts, self.net, float(self.odds[g]), prior,
                self.sweeps, turn,
            )  # fmt: skip
        if allowed:
            self.cleared[own] += 1
            self._weigh(own)
        return out

    def seen(self, held: Bools) -> Bools:
        """What `shares` needs to know of the contexts; the same for all units of the same terms."""
        return held

    def shares(self, seen: npt.NDArray[Any], out: Floats) -> None:
        """Fill P(allowed) for each context, by rate of error: (G, n)."""
        for g in range(len(out)):
            gibbs.share_allowing(
                self.sets[g], seen, self.terms.pairs, self.place, self.log_out[g], out[g]
            )

    def marginals(self) -> Floats:
        """P(denied) for each term, by rate of error: (G, T)."""
        out: Floats = 1.0 - np.exp(self.log_out)
        out[:, self.active] = self.sets.mean(axis=1)
        return out

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that was learned, as named arrays."""
        names = ("held", "net", "cleared", "active", "sets")
        return {name: getattr(self, name).copy() for name in names}

    def read(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `to_state` gave."""
        G, C, _ = self.sets.shape
        n, A, T = len(state["net"]), len(state["active"]), len(self.terms)
        check(state["held"], np.bool_, (n, self.terms.singles), "held")
        check(state["net"], np.int64, (n,), "net")
        check(state["cleared"], np.int64, (T,), "cleared")
        check(state["active"], np.int64, (A,), "active")
        check(state["sets"], np.bool_, (G, C, A), "sets")
        active = state["active"]
        sound = len(state) == 5 and len(set(active.tolist())) == A and state["cleared"].min() >= 0
        if not sound or (A and not (0 <= active.min() and active.max() < T)):
            raise CorruptState("RuleLimits: 'active' or 'cleared' cannot be those of a unit.")
        for name, array in state.items():
            setattr(self, name, np.array(array, order="C"))
        self._index()

    def _activate(self, new: Ints, key: np.uint64) -> None:
        """Sample more terms, from what is believed of them now: with no answer yet, the prior."""
        G, C, A = self.sets.shape
        self.active = np.concatenate([self.active, new])
        more: Bools = np.zeros((G, C, len(new)), np.bool_)
        self.sets = np.concatenate([self.sets, more], axis=2)
        for g in range(G):
            logit = self.logit[self.active] - self.cleared[self.active] * self.odds[g]
            turn = np.uint64(keys.aside(np.uint64(keys.bits_of(key, G + g))))
            gibbs.draw_terms(self.sets[g], A, logit, turn)
        self._index()

    def _index(self) -> None:
        """What follows from the rest: places of active terms, chances of those that are not."""
        self.place: Ints = np.full(len(self.terms), -1, np.int64)
        self.place[self.active] = np.arange(len(self.active))
        self.log_out: Floats = np.empty((len(self.errors), len(self.terms)))
        self._weigh(slice(None))

    def _weigh(self, which: Ints | slice) -> None:
        """Work out the log of the chance that each of these terms is not denied, if not active."""
        logit = self.logit[which] - self.cleared[which] * self.odds[:, None]
        # log(1 − sigmoid(x)); where x is that of a certain term, −∞ as near as need be.
        self.log_out[:, which] = -np.logaddexp(0.0, np.minimum(logit, 1e6))


def checked_groups(groups: object, n: int, owner: str) -> tuple[Group, ...]:
    """Give the group of each of n arms, or refuse them."""
    if groups is None:
        return (None,) * n
    given = groups.tolist() if isinstance(groups, np.ndarray) else groups
    wanted = f"{n} names of groups (strings of at most 200 characters, ints or None)"
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != n:
        raise InvalidValue("groups", owner, wanted, groups)
    for group in given:
        named = type(group) is str and len(group) <= 200  # True would be the group 1
        if group is not None and not named and type(group) is not int:
            raise InvalidValue("groups", owner, wanted, group)
    return tuple(given)


def units_of(groups: tuple[Group, ...]) -> Ints:
    """Give each arm the number of its unit: that of its group, or one of its own."""
    units: dict[object, int] = {}
    each = [(k,) if group is None else group for k, group in enumerate(groups)]
    return np.array([units.setdefault(name, len(units)) for name in each], np.int64)


def density_of(given: float | None, terms: int, kind: int, name: str) -> float:
    """Give the prior probability of a term of one kind: as declared, or for a short rule."""
    if given is not None:
        return DENSITY.check(given, name, "RuleLimits")
    return min(MOST[kind], EXPECTED / max(terms, 1))


def log_mean(logs: Sequence[float]) -> float:
    """Log of the mean of numbers that are given by their logs."""
    top = max(logs)
    return top + math.log(math.fsum(math.exp(x - top) for x in logs) / len(logs))
