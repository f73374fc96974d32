"""What every check is made of: its name, how it fails, and how it judges bits and frequencies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from bridle.errors import BridleError, shown

__all__ = ["ERROR", "Calls", "Check", "CheckFailed", "Fit", "Report", "State"]

Subject = TypeVar("Subject")
State: TypeAlias = Mapping[str, npt.NDArray[Any]]
# What a call does, in words, and the call.
Calls: TypeAlias = list[tuple[str, Callable[[], object]]]

# The chance that a check of frequencies fails on something right, over all that it compares.
# Keys and seeds are fixed, so a check never fails now and then: it does, or it does not.
ERROR = 1e-6


class CheckFailed(BridleError, AssertionError):
    """Something does not do what its kind must.

    Parameters
    ----------
    check : str
        The check's name, with its kind: "arms.grow_keeps_the_rest".
    expected : str
        What must hold, in words.
    seen : object
        What was seen instead.

    Examples
    --------
    >>> print(CheckFailed("policy.keys_draw_independently", "a choice by the key", "always 0"))
    policy.keys_draw_independently: expected a choice by the key. Saw always 0 instead.
    """

    def __init__(self, check: str, expected: str, seen: object) -> None:
        self.check = check
        self.expected = expected
        self.seen = seen
        text = seen if isinstance(seen, str) else shown(seen)
        super().__init__(f"{check}: expected {expected}. Saw {text} instead.")


@dataclass(frozen=True, slots=True)
class Report:
    """What ran, for whoever must know that nothing was left out.

    Attributes
    ----------
    kind : str
        What was checked: "arms", "limits", "policy", "sampler" or "agent".
    checks : tuple of str
        The names of the checks that ran and held, in order.
    """

    kind: str
    checks: tuple[str, ...]

    @property
    def ran(self) -> int:
        """How many checks ran."""
        return len(self.checks)


@dataclass(frozen=True, slots=True)
class Check(Generic[Subject]):
    """One thing that must hold. Call it with the subject; it raises `CheckFailed` or is silent.

    Attributes
    ----------
    kind, name : str
        What it is for, and what it says.
    what : str
        The same in a sentence.
    """

    kind: str
    name: str
    what: str
    run: Callable[[Subject], None]

    @classmethod
    def of(cls, kind: str, run: Callable[..., None], *rest: object) -> Check[Subject]:
        """Make a check of a function, named by it; `rest` goes to it after the subject."""
        what = (run.__doc__ or "").strip().splitlines()[0]
        return cls(kind, run.__name__, what, lambda subject: run(subject, *rest))

    def __call__(self, subject: Subject) -> None:
        """Check `subject`."""
        try:
            self.run(subject)
        except Miss as miss:
            raise CheckFailed(str(self), miss.expected, miss.seen) from None
        except Exception as error:
            raise CheckFailed(str(self), "no error", repr(error)) from error

    def __str__(self) -> str:
        return f"{self.kind}.{self.name}"


class Miss(Exception):
    """What a check's own code raises; the check puts its name to it."""

    def __init__(self, expected: str, seen: object) -> None:
        self.expected = expected
        self.seen = seen
        super().__init__(expected, seen)


def expect(holds: object, expected: str, seen: object) -> None:
    """Raise `Miss` unless `holds`."""
    if not holds:
        raise Miss(expected, seen)


def expect_bits(got: npt.ArrayLike, wanted: npt.ArrayLike, expected: str) -> None:
    """Both arrays must have the same shape and bits; 0 and −0 are the same number."""
    a, b = np.asarray(got), np.asarray(wanted)
    if a.shape != b.shape or a.dtype != b.dtype:
        raise Miss(expected, f"{a.dtype} of shape {a.shape} for {b.dtype} of shape {b.shape}")
    if not np.array_equal(a, b):
        place = tuple(int(i) for i in np.argwhere(a != b)[0])
        raise Miss(expected, f"{a[place]!r} for {b[place]!r} at {place}")


def expect_near(
    got: npt.ArrayLike, wanted: npt.ArrayLike, slack: npt.ArrayLike, expected: str
) -> None:
    """Each entry must be within its `slack`; nan never is."""
    a, b = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    if a.shape != b.shape:
        raise Miss(expected, f"shape {a.shape} for {b.shape}")
    near = np.abs(a - b) <= slack
    if not near.all():
        place = tuple(int(i) for i in np.argwhere(~near)[0])
        raise Miss(expected, f"{a[place]!r} for {b[place]!r} at {place}")


def expect_same_state(got: State, wanted: State, expected: str) -> None:
    """Both states must have the same names, and the same bits under each."""
    expect(set(got) == set(wanted), expected, f"the names {sorted(got)} for {sorted(wanted)}")
    for name in wanted:
        expect_bits(got[name], wanted[name], f"{expected} (array '{name}')")


def each(what: str, call: Callable[[Any], object], values: Iterable[object]) -> Calls:
    """Return one call for each value, and its description: `what` has {} for the value."""
    return [(what.format(shown(value)), partial(call, value)) for value in values]


def expect_refusal(call: Callable[[], object], what: str, *errors: type[Exception]) -> None:
    """The call must raise an error of bridle that is one of `errors`, if any are given."""
    try:
        answer = call()
    except BridleError as error:
        if not isinstance(error, errors or BridleError):
            raise Miss(f"{what} to be refused as a ValueError", repr(error)) from error
    except Exception as error:
        raise Miss(f"{what} to be refused with a BridleError", repr(error)) from error
    else:
        raise Miss(f"{what} to be refused", f"the answer {shown(answer)}")


class Fit:
    """Holds counts against the probabilities that they should have come from.

    For a sum X of n independent coins of mean probability p, P(X/n ≥ q) ≤ exp(−n·KL(q‖p)) for
    q ≥ p, and likewise below (Chernoff; Hoeffding 1963 where the coins differ). All that is added
    to one fit is judged together: `ERROR` is divided among the comparisons, two sides each, so it
    bounds the chance of a false alarm whatever the sizes. A chi-square's tail would be an
    approximation that is worst where it matters, at 1e-6 with unequal cells.

    Examples
    --------
    >>> fit = Fit()
    >>> fit.add("heads", 5_070, 10_000, 0.5)
    >>> fit.judge()
    """

    def __init__(self) -> None:
        self._cells: list[tuple[str, int, int, float]] = []

    def add(self, what: str, count: int, n: int, p: float) -> None:
        """Compare `count` of `n` with the probability `p`."""
        self._cells.append((what, int(count), n, min(max(float(p), 0.0), 1.0)))

    def add_counts(self, what: str, seen: npt.ArrayLike, odds: npt.ArrayLike) -> None:
        """Compare the numbers 0, 1, … in `seen` with their probabilities; −1 has the rest."""
        p = np.asarray(odds, np.float64)
        numbers = np.asarray(seen)
        for k in range(len(p)):
            self.add(f"{what}: {k}", int((numbers == k).sum()), len(numbers), float(p[k]))
        rest = 1.0 - float(p.sum())
        # What rounding leaves over is no probability.
        self.add(f"{what}: -1", int((numbers < 0).sum()), len(numbers), rest * (rest > 1e-9))

    def judge(self) -> None:
        """Raise `Miss` if some count is too far from its probability."""
        limit = math.log(2.0 * max(len(self._cells), 1) / ERROR)
        for what, count, n, p in self._cells:
            if n * _divergence(count / n, p) > limit:
                raise Miss(
                    f"a share of {p:.6g} ({what}), as the probabilities say",
                    f"{count} of {n}, which has a chance below 1e-6",
                )


def _divergence(q: float, p: float) -> float:
    """Kullback-Leibler divergence of two coins."""
    total = 0.0
    for a, b in ((q, p), (1.0 - q, 1.0 - p)):
        if a > 0.0:
            if b <= 0.0:
                return math.inf
            total += a * math.log(a / b)
    return total


def as_bytes_and_back(state: State) -> dict[str, npt.NDArray[Any]]:
    """Return the state as it comes out of a file: plain arrays, nothing shared with the model."""
    back = {}
    for name, array in state.items():
        expect(
            isinstance(name, str) and isinstance(array, np.ndarray) and array.dtype.kind in "biufU",
            "a state of named arrays of numbers or text",
            f"{name!r}: {shown(array)}",
        )
        back[name] = np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape).copy()
    return back
