"""`Certificate`, and which threshold a calibration bears out: certified limits, on plain arrays.

In each calibration context counts w, the highest score of a denied arm; a threshold λ is broken
there if w > λ. λ̂ is the lowest threshold whose share of broken contexts is shown to be alpha or
less, there and everywhere above. So all arms above it are certified at once, as a set; the two
shortcuts, `unsound_…`, certify less than that, and do not hold.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.certificates.binomial import (
    CHANCE,
    binomial_quantile,
    contexts_needed,
    most_broken,
    upper_bound,
)
from bridle.errors import BridleError, CorruptState, InvalidValue, NotPossible
from bridle.kernels.types import Bools, Floats
from bridle.limits import (
    STATES,
    AutoLimits,
    Beliefs,
    FoundLimits,
    LinearLimits,
    LogisticLimits,
    MixtureLimits,
    PairLimits,
    RuleLimits,
    limits_from_state,
)

__all__ = [
    "DEFAULT_LAMBDA_MIN",
    "LAMBDA_MIN",
    "Certificate",
    "about_of",
    "affordable",
    "check_about",
    "fingerprint",
    "kind_of",
    "lambda_hat",
    "scores_of",
    "table_of_truths",
    "unsound_one_arm",
    "unsound_pilot",
    "worst_scores",
]


# At 1 nothing could ever be certified: no score is above it.
LAMBDA_MIN = validation.FloatRange(0.0, 1.0, open_high=True)
# What limits believe to be rather denied is not certified, and not asked about.
DEFAULT_LAMBDA_MIN = 0.5


def worst_scores(
    scores: npt.ArrayLike, allowed: npt.ArrayLike, lambda_min: float = DEFAULT_LAMBDA_MIN
) -> Floats:
    """Return w: for each context the highest score of a denied arm, −∞ if none is above lambda_min.

    Parameters
    ----------
    scores : array (n, K)
        Scores of the arms.
    allowed : array (n, K) of bools
        The truth.
    lambda_min : float
        Below it nothing matters.

    Examples
    --------
    >>> worst_scores([[0.9, 0.8], [0.7, 0.3]], [[True, False], [True, False]]).tolist()
    [0.8, -inf]
    """
    owner = "worst_scores"
    S = _scores(scores, owner)
    fine = table_of_truths(allowed, S.shape, "allowed", owner)
    low = LAMBDA_MIN.check(lambda_min, "lambda_min", owner)
    return np.asarray(np.where(~fine & (S > low), S, -np.inf).max(axis=1))


def lambda_hat(
    worst: npt.ArrayLike, alpha: float, delta: float, lambda_min: float = DEFAULT_LAMBDA_MIN
) -> float:
    """Return the threshold: the lowest at which the contexts bear alpha out, and everywhere above.

    Candidates are lambda_min and the w above it; a candidate λ is borne out if the Clopper-Pearson
    bound for #{w > λ} of n is alpha or less. As that count only falls with λ, if it is borne out
    somewhere it is so everywhere above, and λ̂ is the (k+1)-th highest w, where k is the most that
    may be broken; or lambda_min, if that is higher.

    Examples
    --------
    >>> lambda_hat([0.9] + [0.8] * 8 + [0.6] * 291, alpha=0.05, delta=0.1)
    0.6
    """
    owner = "lambda_hat"
    w = validation.floats(worst, "worst", owner, "a list of scores, -inf where no arm is denied")
    if w.ndim != 1 or not len(w) or np.isnan(w).any():
        wanted = "a list of scores, -inf where no arm is denied"
        raise InvalidValue("worst", owner, wanted, worst)
    low = LAMBDA_MIN.check(lambda_min, "lambda_min", owner)
    k = affordable(len(w), alpha, delta, owner)
    return max(low, float(np.sort(w)[len(w) - 1 - k]))


def affordable(n: int, alpha: float, delta: float, owner: str) -> int:
    """Return how many of n contexts may be broken, or raise where n is too small for any."""
    a, d = CHANCE.check(alpha, "alpha", owner), CHANCE.check(delta, "delta", owner)
    k = most_broken(n, a, d)
    if k < 0:
        raise NotPossible(
            f"{n:,} calibration contexts cannot show alpha={a:g} at delta={d:g}, whatever the "
            f"answers: at least {contexts_needed(a, d):,} are needed. Draw more, or promise less."
        )
    return k


# -- two shortcuts that do not hold ----------------------------------------------------------


def unsound_one_arm(
    scores: npt.ArrayLike,
    allowed: npt.ArrayLike,
    alpha: float,
    delta: float,
    rng: np.random.Generator,
    lambda_min: float = DEFAULT_LAMBDA_MIN,
) -> float:
    """Return the threshold of a shortcut that does NOT hold, to show that it does not.

    It asks, in each calibration context, about one random arm of the set above λ, and takes the
    share of denied ones for the risk. That is the risk of a policy that plays at random; one that
    learns finds the denied arms where they pay. `lambda_hat` counts any denied arm in the set.
    """
    owner = "unsound_one_arm"
    S = _scores(scores, owner)
    denied = ~table_of_truths(allowed, S.shape, "allowed", owner)
    low = LAMBDA_MIN.check(lambda_min, "lambda_min", owner)
    k = affordable(len(S), alpha, delta, owner)
    order = np.argsort(-S, axis=1, kind="stable")
    lots = rng.random(S.shape)
    # The arm played of a set is the one with the highest lot, so that it changes only where a
    # lower threshold lets a higher lot in.
    drawn = lots == np.maximum.accumulate(lots, axis=1)
    pick = np.maximum.accumulate(np.where(drawn, np.arange(S.shape[1]), 0), axis=1)
    loss = np.take_along_axis(np.take_along_axis(denied, order, 1), pick, 1).astype(np.int64)
    change = np.diff(loss, axis=1, prepend=0)
    values, which = np.unique(np.take_along_axis(S, order, 1), return_inverse=True)
    steps = np.bincount(which.ravel(), change.ravel(), len(values))
    above = values > low
    # From the highest score down; then lambda_min itself. count[i]: broken at candidates[i].
    candidates: list[float] = [*values[above][::-1].tolist(), low]
    count = np.concatenate([[0.0], np.cumsum(steps[above][::-1])])
    bad = np.flatnonzero(count > k)
    return candidates[int(bad[0]) - 1 if len(bad) else -1]


def unsound_pilot(
    sigmas: npt.ArrayLike, violated: npt.ArrayLike, alpha: float, delta: float
) -> float | None:
    """Return the sigma of a shortcut that does NOT hold, to show that it does not.

    It runs each sigma in a pilot and takes the largest whose violations there bear alpha out, as
    do those of every smaller one (None: none does). But the agent goes on learning what pays, and
    with the same sigma later violates more than it did.

    Parameters
    ----------
    sigmas : array (S,)
        Rising.
    violated : array (S, n) of bools
        Whether the pilot with each sigma broke the limits at each step.
    """
    owner = "unsound_pilot"
    tried = validation.floats(sigmas, "sigmas", owner, "a rising list of numbers")
    if tried.ndim != 1 or (np.diff(tried) <= 0.0).any():
        raise InvalidValue("sigmas", owner, "a rising list of numbers", sigmas)
    hits = validation.arrays(violated, "violated", owner, "a matrix of bools")
    if hits.dtype.kind != "b" or hits.ndim != 2 or len(hits) != len(tried) or not hits.size:
        raise InvalidValue("violated", owner, f"{len(tried)} rows of bools", violated)
    fine = hits.sum(axis=1) <= affordable(hits.shape[1], alpha, delta, owner)
    good = int(np.argmin([*fine, False]))
    return float(tried[good - 1]) if good else None


def _scores(value: npt.ArrayLike, owner: str) -> Floats:
    S = validation.matrix(value, None, "scores", owner)
    if not S.size:
        raise InvalidValue("scores", owner, "a matrix with rows and columns", S.shape)
    return S


def table_of_truths(value: npt.ArrayLike, shape: tuple[int, ...], name: str, owner: str) -> Bools:
    """Return `value` as bools of a shape; 0 and 1 count."""
    wanted = f"a matrix of bools of shape {shape}"
    array = validation.arrays(value, name, owner, wanted)
    if array.shape != shape:
        raise InvalidValue(name, owner, wanted, f"an array of shape {array.shape}")
    return validation.truths(array.ravel(), array.size, name, owner).reshape(shape)


# --- What a certificate of limits promises, as data: numbers, assumptions, a frozen copy of the
# score
#
# A certificate is about the *certified set*: the arms whose score is above its threshold. It
# promises that in at most a share alpha of all contexts that set holds a denied arm, so that any
# policy that stays inside, however it adapts, breaks the limits with probability at most alpha a
# step. `bridle.certificates.calibration` makes certificates; this file says what they mean and
# keeps them.


MAX_CONTEXTS = 1_000_000
MAX_TEXT = 1_000
MAX_ASSUMPTIONS = 100
FORM = "bridle certificate 2"
NAMED: dict[type, str] = {
    AutoLimits: "auto",
    MixtureLimits: "mixture",
    RuleLimits: "rules",
    LogisticLimits: "logistic",
    FoundLimits: "found",
    LinearLimits: "linear",
    PairLimits: "pairs",
}
# The types that the arrays of limits have, as numpy writes them.
_DTYPE = re.compile(r"<[fiu]8|<i4|\|[biu]1|<U[1-9][0-9]{0,3}")
# What the pieces raise when they are fed with something else.
_DAMAGE = (
    BridleError,
    AttributeError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    MemoryError,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """A promise about limits, with all that it rests on. Made by `bridle.certificates.calibration`.

    Attributes
    ----------
    alpha, delta : float
        With probability 1 − delta at most a share alpha of all contexts has a denied arm in its
        certified set.
    n : int
        Calibration contexts.
    lambda_min : float
        Fixed before any answer: no arm with this score or less is certified.
    threshold : float
        λ̂: certified are the arms with a higher score.
    broken : int
        Calibration contexts whose certified set held a denied arm.
    answers : int
        Answers of the teacher that it rests on.
    keeps : float
        Share of the calibration contexts that keep an arm. In the others a policy has none to play.
    at : float or None
        When: the caller's time in seconds since 1970, kept and never read.
    on : str
        On what: the caller's words for where the calibration contexts came from.
    assumptions : tuple of str
        What must be true for the promise to hold, in plain sentences.
    kind : str
        The kind of the limits whose P(allowed) is the score.
    state : mapping of named arrays
        Those limits as they were, frozen. What an agent learns later does not move them.
    about : str
        Of which arms and features those limits are: see `about_of`. Empty if it was not said.

    Examples
    --------
    >>> from bridle.certificates.calibration import Calibration, certify
    >>> limits = LogisticLimits(arms=2, features=1)
    >>> for _ in range(20):
    ...     units = limits.learn([1.0], 0, True), limits.learn([1.0], 1, False)
    >>> calibration = Calibration(contexts=[[1.0]] * 60, allowed=[[True, False]] * 60)
    >>> certificate = certify(limits, calibration, alpha=0.05, delta=0.1, on="a doctest")
    >>> certificate.allowed([[1.0]]).tolist(), certificate.keeps, certificate.answers
    ([[True, False]], 1.0, 60)
    >>> certificate.violations_bound(steps=1_000, delta2=0.05)
    62
    >>> Certificate.from_json(certificate.to_json()) == certificate
    True
    """

    alpha: float
    delta: float
    n: int
    lambda_min: float
    threshold: float
    broken: int
    answers: int
    keeps: float
    at: float | None
    on: str
    assumptions: tuple[str, ...]
    kind: str
    state: Mapping[str, npt.NDArray[Any]]
    about: str = ""

    def __post_init__(self) -> None:
        frozen = {name: _frozen(array) for name, array in self.state.items()}
        object.__setattr__(self, "state", MappingProxyType(frozen))

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return self._limits.arms

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return self._limits.features

    @cached_property
    def fingerprint(self) -> str:
        """The sha256 of the frozen limits: see `fingerprint`."""
        return _digest(self.kind, self.state)

    @property
    def bound(self) -> float:
        """What calibration showed of the share of broken contexts: at most this; alpha or less."""
        return upper_bound(self.broken, self.n, self.delta)

    def scores(self, contexts: npt.ArrayLike) -> Floats:
        """Return the frozen score of every arm in each context: (n, K)."""
        return scores_of(self._limits, contexts, "Certificate.scores")

    def allowed(self, contexts: npt.ArrayLike) -> Bools:
        """Return which arms are in the certified set of each context: (n, K)."""
        # Strictly above: with ≥ all contexts that tie with a denied arm would come in uncounted.
        certified: Bools = scores_of(self._limits, contexts, "Certificate.allowed") > self.threshold
        return certified

    def lets_through(self, context: Floats, arms: int) -> Bools:
        """Return which of so many arms are certified here. Arms that came later are not."""
        out = np.zeros(arms, np.bool_)
        known = self.allowed(context[None])[0]
        out[: len(known)] = known
        return out

    def check(self, limits: Beliefs) -> None:
        """Raise on limits of another size: for them this certificate says nothing.

        Limits of the same size may have learned since, or be another agent's: whether they are
        the very ones that were certified is `certificate.fingerprint == fingerprint(limits)`.
        """
        kind_of(limits, "Certificate.check")
        if (limits.arms, limits.features) != (self.arms, self.features):
            wanted = f"made for {limits.arms} arms and {limits.features} features, as the limits"
            got = f"one for {self.arms} arms and {self.features} features"
            remedy = "It is a certificate from other limits. Certify these, on fresh contexts."
            raise InvalidValue("certificate", "Certificate.check", wanted, got, remedy)

    def violations_bound(self, steps: int, delta2: float) -> int:
        """Bound the violations of so many steps: a (1 − delta2) quantile of Binomial(steps, alpha).

        Any policy that stays in the certified sets keeps to it with probability at least
        1 − delta − delta2, under the same assumptions.
        """
        return binomial_quantile(steps, self.alpha, delta2)

    def sentence(self) -> str:
        """Return what is promised, on what it rests and what it assumes, in plain words."""
        kept = math.floor(1e4 * self.keeps) / 100.0  # never 100 where some keep none
        where = f" (certified on: {self.on})" if self.on else ""
        return (
            f"With {_percent(_sure(self.delta))} confidence, at most {_percent(self.alpha)} of "
            f"future contexts have a denied arm among those that this certificate lets "
            f"through{where}. So whatever plays only what it lets through, however it learns, "
            f"breaks the limits with a probability of at most {_percent(self.alpha)} a step. "
            f"It rests on {self.n:,} calibration contexts and {self.answers:,} answers; "
            f"{self.broken:,} of those contexts had a denied arm among those let through, and "
            f"{kept:g} % keep at least one arm. "
            f"It holds only if all of this is true: {' '.join(self.assumptions)}"
        )

    def __str__(self) -> str:
        return self.sentence()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash((self.fingerprint, self.threshold, self.n, self.at))

    def to_json(self) -> dict[str, Any]:
        """Return the certificate as plain JSON values, the form it has on disk."""
        data: dict[str, Any] = {"form": FORM}
        for field in fields(self):
            data[field.name] = getattr(self, field.name)
        data["assumptions"] = list(self.assumptions)
        data["state"] = {name: _written(array) for name, array in sorted(self.state.items())}
        data["fingerprint"] = self.fingerprint
        data["sha256"] = _seal(data)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the certificate that `to_json` wrote, or raise `CorruptState`."""
        names = {"form", "fingerprint", "sha256", *(field.name for field in fields(cls))}
        if not isinstance(data, Mapping) or set(data) != names or data["form"] != FORM:
            got = sorted(map(str, data)) if isinstance(data, Mapping) else data
            raise CorruptState(f"A certificate has the fields {sorted(names)}, not {got!r:.300}.")
        try:
            if data["sha256"] != _seal({name: data[name] for name in names - {"sha256"}}):
                raise CorruptState("its sha256 does not fit what it holds")
            made = cls(**_read(data))
            _check_numbers(made)
            if data["fingerprint"] != made.fingerprint:
                raise CorruptState("the fingerprint is not that of its limits")
        except _DAMAGE as error:
            raise CorruptState(f"A damaged certificate: {error}") from None
        return made

    @cached_property
    def _limits(self) -> Beliefs:
        return limits_from_state(self.kind, self.state)


def kind_of(limits: Beliefs, owner: str = "certify") -> str:
    """Return the name of the limits' kind; raise where bridle could not read them back."""
    kind = NAMED.get(type(limits))
    if kind is None:
        wanted = f"limits of bridle ({', '.join(cls.__name__ for cls in NAMED)})"
        raise InvalidValue("limits", owner, wanted, limits)
    return kind


def scores_of(limits: Beliefs, contexts: npt.ArrayLike, owner: str = "scores_of") -> Floats:
    """Return the score of every arm in each context: (n, K), in [0, 1].

    It is the probability of "allowed". That of linear limits is a mean cut to [0, 1], which makes
    equals of all that lies beyond; their score is the mean itself, bent into (0, 1): the order is
    the mean's, and 0.5 stays 0.5.
    """
    C = validation.matrix(contexts, limits.features, "contexts", owner)
    return limits.rank_scores(C)


def fingerprint(limits: Beliefs) -> str:
    """Return the sha256 of all that limits know. Equal knowledge has equal fingerprints.

    Examples
    --------
    >>> limits = LinearLimits(arms=2, features=1)
    >>> before = fingerprint(limits)
    >>> before == fingerprint(limits.copy()), limits.learn([1.0], 0, True).tolist()
    (True, [0])
    >>> before == fingerprint(limits)
    False
    """
    return _digest(kind_of(limits, "fingerprint"), limits.to_state())


def about_of(arms: Sequence[int | str], features: object) -> str:
    """Return the sha256 of arm ids, in order, and of a schema as `Schema.to_json` gives it."""
    return _seal({"arms": list(arms), "features": features})


def check_about(about: object, owner: str) -> None:
    """Raise `InvalidValue` on what `about_of` did not return; None is fine."""
    if not isinstance(about, str) or not re.fullmatch("([0-9a-f]{64})?", about):
        raise InvalidValue("about", owner, "a sha256, as about_of or Agent.about gives it", about)


# -- on disk ---------------------------------------------------------------------------------


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    mine = np.array(array)
    mine.flags.writeable = False
    return mine


def _written(array: npt.NDArray[Any]) -> dict[str, Any]:
    # Little-endian, whatever machine wrote it.
    little = array.astype(array.dtype.newbyteorder("<"))
    text = base64.b64encode(little.tobytes()).decode()
    return {"dtype": little.dtype.str, "shape": list(array.shape), "base64": text}


def _array(value: Any) -> npt.NDArray[Any]:
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "base64"}:
        raise TypeError("an array is written as dtype, shape and base64")
    shape = value["shape"]
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise TypeError(f"the shape of an array is whole numbers, not {shape!r:.100}")
    if not isinstance(value["dtype"], str) or not _DTYPE.fullmatch(value["dtype"]):
        raise TypeError(f"no array of limits is of {value['dtype']!r:.100}")
    dtype, raw = np.dtype(value["dtype"]), base64.b64decode(value["base64"], validate=True)
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes are no array of shape {shape!r:.100}")
    return np.frombuffer(raw, dtype).reshape(shape).astype(dtype.newbyteorder("="))


def _read(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a certificate, of the right types; their ranges are checked after."""
    parts = {field.name: data[field.name] for field in fields(Certificate)}
    for name in ("alpha", "delta", "lambda_min", "threshold", "keeps", "at"):
        if type(parts[name]) is not float and not (name == "at" and parts[name] is None):
            raise TypeError(f"'{name}' is a float, not {parts[name]!r:.100}")
    for name in ("n", "broken", "answers"):
        if type(parts[name]) is not int:
            raise TypeError(f"'{name}' is a whole number, not {parts[name]!r:.100}")
    if not isinstance(parts["assumptions"], list) or not isinstance(parts["state"], dict):
        raise TypeError("'assumptions' is a list and 'state' an object")
    parts["assumptions"] = tuple(parts["assumptions"])
    parts["state"] = {name: _array(array) for name, array in parts["state"].items()}
    return parts


def _check_numbers(made: Certificate) -> None:
    """Raise `CorruptState` on a certificate that could not have been issued."""
    owner = "Certificate"
    validation.one_of(made.kind, STATES, "kind", owner)
    LAMBDA_MIN.check(made.lambda_min, "lambda_min", owner)
    validation.FloatRange(made.lambda_min, 1.0).check(made.threshold, "threshold", owner)
    validation.FRACTION.check(made.keeps, "keeps", owner)
    validation.IntRange(1, MAX_CONTEXTS).check(made.n, "n", owner)
    most = most_broken(made.n, made.alpha, made.delta)
    validation.IntRange(0, most).check(made.broken, "broken", owner)
    validation.IntRange(0, made.n * made.arms).check(made.answers, "answers", owner)
    if made.at is not None:
        validation.FloatRange().check(made.at, "at", owner)
    if len(made.assumptions) > MAX_ASSUMPTIONS:
        raise InvalidValue("assumptions", owner, f"at most {MAX_ASSUMPTIONS}", "more")
    check_about(made.about, owner)
    for words in (*made.assumptions, made.on or "-"):
        validation.text(words, "on or assumptions", owner, MAX_TEXT)


def _digest(kind: str, state: Mapping[str, npt.NDArray[Any]]) -> str:
    written = {name: _written(array) for name, array in state.items()}
    return _seal({"kind": kind, "state": written})


def _seal(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _sure(delta: float) -> float:
    """Return 1 − delta, and never 1: no promise is certain."""
    return min(1.0 - delta, 1.0 - 1e-9)


def _percent(share: float) -> str:
    return f"{100.0 * share:.10g} %"
