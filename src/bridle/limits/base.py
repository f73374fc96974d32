"""The contract of limits: what was taught about which arm is allowed in which context.

`Beliefs` is what every kind of limits is, ours and somebody else's: a class with nine required
methods and properties, and answers to whatever else is asked of limits, each with a default. So
nobody outside of this package needs to know which kind a set of limits is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from bridle.errors import NotPossible
from bridle.kernels.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from bridle.limits.rules import Reading, Terms
    from bridle.reward.posterior import LinearArms
    from bridle.schema import Schema

__all__ = ["Answer", "Attribution", "Beliefs", "Limits", "Parts", "Prediction", "Predictions"]

# One answer: context, arm, allowed, key.
Answer = tuple[npt.ArrayLike, int, bool, int]
# P(allowed), P(the teacher says so), information and standard deviation, in n contexts.
Parts = tuple[Floats, Floats, Floats, Floats]
# A refit of limits that say nothing about it takes so many seconds.
UNKNOWN_SECONDS = 0.6


@runtime_checkable
class Limits(Protocol):
    """What a blend of rewards and limits needs: scores. Arms are numbers 0 … K−1.

    All `Beliefs` have these methods; limits that have no more than these can be used in `online`
    and checked by `bridle.testing.check_limits`, but not in an agent.
    """

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        ...

    @property
    def features(self) -> int:
        """Length of a context, d."""
        ...

    # What the next two return is not used: limits may return the units that changed, or nothing.

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool) -> object:
        """Fold one answer of the teacher."""
        ...

    def refit(self, arm: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike, /) -> object:
        """Forget the arm's answers and fold these, in order: what a retraction leaves."""
        ...

    def scores(self, context: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation of "allowed" for every arm: two arrays of K."""
        ...

    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Mean and standard deviation for each context: two arrays (n, K)."""
        ...

    def grow(self, arms: int = 1) -> None:
        """Add arms of which nothing was taught."""
        ...

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays."""
        ...


@dataclass(frozen=True, eq=False)
class Prediction:
    """What limits believe of one unit in n contexts: arrays of n; of all U units: (U, n).

    Attributes
    ----------
    p : array
        Probability that the arm is allowed.
    safe : array of bools
        Surely allowed: a mask plays it.
    possible : array of bools
        Not surely denied. What is safe is possible.
    information : array
        What an answer would teach, in nats: mutual information of the answer and what is not yet
        known (BALD). Never below 0.
    sd : array
        Standard deviation of P(allowed) under what is not known. Where a rule settles it, allowed
        is 0 or 1 given the rule, and this is √(p(1−p)).
    """

    p: Floats
    safe: Bools
    possible: Bools
    information: Floats
    sd: Floats

    def checked(self, units: int, contexts: int, kind: str) -> Prediction:
        """Return the same as arrays of the kernels' types; raise if it cannot be one.

        For limits of others: ours are held to it by their tests.
        """
        shape, names = (units, contexts), ("p", "safe", "possible", "information", "sd")
        try:
            parts = [np.array(getattr(self, name), np.float64) for name in names]
        except (AttributeError, TypeError, ValueError):
            parts = []
        fits = len(parts) == 5 and all(
            part.shape == shape and np.isfinite(part).all() and (part >= 0.0).all()
            for part in parts
        )
        if not fits or (parts[0] > 1.0).any():
            raise NotPossible(
                f"Limits of the kind {kind!r} predict what cannot be: {self!r:.300}. "
                "bridle.testing.check_limits shows what limits must do."
            )
        p, safe, possible, information, sd = parts
        return Prediction(p, safe > 0.0, possible > 0.0, information, sd)

    def of(self, units: Ints) -> Prediction:
        """Return the prediction of some of the units that this one is of."""
        return Prediction(
            self.p[units],
            self.safe[units],
            self.possible[units],
            self.information[units],
            self.sd[units],
        )


@dataclass(frozen=True)
class Attribution:
    """What each feature of a context contributed to what is believed of a unit there.

    Attributes
    ----------
    unit : {"label", "log-odds", "change of the probability"}
        What the numbers are. The first two add up to `total`; the last is how much lower
        P(allowed), the total, would be without the feature.
    total : float
        What all of them make.
    base : float or None
        What is there before any feature; None where parts do not add up.
    parts : tuple of (columns, value, contribution)
        One column, or two for the product of two features; the encoded value; what it contributed.
    """

    unit: str
    total: float
    base: float | None
    parts: tuple[tuple[tuple[int, ...], float, float], ...]


class Beliefs(ABC):
    """Limits that know what they do not know: what any kind must, and what it may, answer.

    What is believed is held by *unit*: an arm, or a group of arms that share their limits. Contexts
    are encoded rows of d floats; arms and units are numbers from 0 on.

    Required: `arms`, `features`, `learn`, `refit`, `predict`, `grow`, `copy`, `to_state` and
    `from_state`; and `units` with `unit_of` where arms of one group share their limits. Public
    methods check their input and raise `InvalidValue`. Equal answers with equal keys, in the same
    order, must lead to equal bits.

    All else has a default. Facts are plain attributes, so that reading one costs nothing:

    Attributes
    ----------
    doubt : float
        How improbable "denied" must be before these limits call anything safe.
    shares_groups : bool
        Whether arms of one declared group are one unit.
    finds_groups : bool
        Whether they find groups of arms themselves. Then any answer moves all units, what is taken
        back is forgotten by `refit_all`, and `proposal` names the groups.
    linear : LinearArms or None
        The linear posterior of the labels that a blend weighs; None: it weighs P(allowed).
    scale : {"probability", "label"}
        What `belief` measures.
    terms : Terms or None
        What rules among them can deny; None: there are none.
    has_sentences : bool
        Whether what is believed can be described in sentences, by `describe`.
    term_size : int
        How many features a term that is known for certain may hold, see `set_known`; 0: they take
        in no known terms.
    asks_consent : bool
        Whether rules alone decide, which cannot deny what holds nothing: where `holds_nothing`, a
        unit is in doubt until something was allowed to it.
    knows_errors : bool
        Whether `predict_answer` accounts for a teacher who errs.
    floor : float
        The least probability that an answer is given.
    undoes : bool
        Whether learning the opposite answer undoes an answer, as far as rules are concerned.
    room : int or None
        How many distinct contexts one unit can hold; `check_room` is asked once there are more
        answers than that. None: any number.
    order_matters : bool
        Whether the order of arms and answers moves the last bits of what is believed.
    calibrated : bool
        Whether all goes by one P(allowed): what is safe, what sentences say (`read`), and a test
        of the answers against it, which tells when limits change.
    members : mapping from names to Beliefs
        The kinds that these limits weigh, if they are a mixture; else empty.
    winner_judges : float or None
        A member of more weight than this judges by itself what is safe; None: none does.
    left_out : tuple of str
        Sentences: which of the usual members could not take part, and why.
    surprises : sequence of Surprise
        Answers to which they had given a probability below `doubt`.
    """

    doubt: float = 0.01
    shares_groups: ClassVar[bool] = True
    finds_groups: ClassVar[bool] = False
    linear: LinearArms | None = None
    scale: ClassVar[str] = "probability"
    terms: Terms | None = None
    has_sentences: ClassVar[bool] = False
    term_size: int = 0
    asks_consent: ClassVar[bool] = False
    knows_errors: ClassVar[bool] = False
    floor: float = 0.001
    undoes: bool = False
    room: int | None = None
    order_matters: ClassVar[bool] = False
    calibrated: ClassVar[bool] = False
    members: Mapping[str, Any] = MappingProxyType({})
    winner_judges: ClassVar[float | None] = None
    left_out: tuple[str, ...] = ()
    surprises: Sequence[Any] = ()

    # -- required ----------------------------------------------------------------------------

    @property
    @abstractmethod
    def arms(self) -> int:
        """Number of arms, K."""

    @property
    @abstractmethod
    def features(self) -> int:
        """Length of a context, d."""

    @abstractmethod
    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; return the units whose belief changed.

        `key` is the answer's own random bits (64 of them), for limits that sample.
        """

    @abstractmethod
    def refit(
        self, unit: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike, keys: npt.ArrayLike
    ) -> Ints:
        """Forget a unit's answers and fold these, in order; return the units that changed.

        It is what a retraction leaves. Not called where `finds_groups`.
        """

    @abstractmethod
    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of a unit in each of n contexts, (n, d)."""

    @abstractmethod
    def grow(self, arms: int = 1, groups: Sequence[str | int | None] | None = None) -> None:
        """Add arms, after the others; one in a known group starts with what the group knows."""

    @abstractmethod
    def copy(self) -> Beliefs:
        """Return limits with the same knowledge that learn apart from now on."""

    @abstractmethod
    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return limits as they were at `to_state`, or raise `CorruptState`."""

    # -- units and predictions ---------------------------------------------------------------

    @property
    def units(self) -> int:
        """Number of units, U; by default every arm is one."""
        return self.arms

    @property
    def unit_of(self) -> Ints:
        """The unit of each arm: (K,). Units are numbered as they first occur."""
        return np.arange(self.arms)

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of all units: (U, n), the bits of `predict` unit by unit."""
        return _stacked([self.predict(unit, contexts) for unit in range(self.units)])

    def predict_answer(self, unit: int, contexts: npt.ArrayLike) -> Floats:
        """Return the probability that the teacher, who may err, says "allowed": (n,)."""
        return self.predict(unit, contexts).p

    def predictions(self, contexts: npt.ArrayLike) -> Predictions:
        """Return what is predicted in contexts that stay the same, updated after each answer."""
        return Predictions(self, contexts)

    def update(self, context: Floats, arm: int, allowed: bool, key: int) -> Prediction:
        """Fold an answer that was checked before; return what was believed there until then.

        The prediction is of the arm's unit in this one context: arrays of 1.
        """
        before = self.predict(int(self.unit_of[arm]), context[None])
        self.learn(context, arm, allowed, key)
        return before

    def hope(self, prediction: Prediction) -> Floats:
        """Return the probability of "allowed" by which the worth of a question is judged."""
        return prediction.p

    # -- scores ------------------------------------------------------------------------------

    def scores(self, context: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of "allowed" for every arm, as a blend weighs them."""
        row = np.asarray(context, np.float64)
        mean, sd = self.scores_many(row[None])
        return mean[0], sd[0]

    def scores_many(self, contexts: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return what `scores` does for each context: two arrays (n, K)."""
        prediction, unit_of = self.predict_all(contexts), self.unit_of
        return np.ascontiguousarray(prediction.p[unit_of].T), np.ascontiguousarray(
            prediction.sd[unit_of].T
        )

    def rank_scores(self, contexts: npt.ArrayLike) -> Floats:
        """Return a score in [0, 1] for every arm in each context, (n, K), as certificates rank it.

        By default the probability of "allowed".
        """
        return np.ascontiguousarray(self.predict_all(contexts).p[self.unit_of].T)

    # -- mixtures ----------------------------------------------------------------------------

    # The next three are how a mixture asks a member. Their input was checked before.

    def predictive(self, unit: int, contexts: Floats) -> Parts:
        """Return P(allowed), P(the teacher says so), information and standard deviation: (n,)."""
        prediction = self.predict(unit, contexts)
        q = self.predict_answer(unit, contexts) if self.knows_errors else prediction.p
        return prediction.p, q, prediction.information, prediction.sd

    def predictive_all(self, contexts: Floats) -> Floats:
        """Return what `predictive` does, of all units: (4, U, n), the same bits."""
        prediction, q = self.predict_all(contexts), None
        if self.knows_errors:
            q = np.array([self.predict_answer(unit, contexts) for unit in range(self.units)])
        return np.array(
            (prediction.p, prediction.p if q is None else q, prediction.information, prediction.sd)
        )

    def fold(self, context: Floats, unit: int, allowed: bool, key: int) -> tuple[Parts, Ints]:
        """Fold one answer; return what `predictive` was until then, and the units that changed."""
        before = self.predictive(unit, context[None])
        arm = int(np.flatnonzero(self.unit_of == unit)[0])
        return before, self.learn(context, arm, allowed, key)

    def weights(self, unit: int | None = None) -> dict[str, float]:
        """Return the weight of each of `members`, for a unit or for all units together."""
        return {}

    def exceptions(self, unit: int) -> dict[str, float]:
        """Return how often what each member allows is expected to be denied all the same."""
        return {}

    def by_degrees(self, unit: int) -> bool:
        """Return whether no sentence describes most of what is believed of a unit."""
        return False

    # -- rules -------------------------------------------------------------------------------

    def describe(self, unit: int, names: Sequence[str]) -> Reading:
        """Return a unit's rule read back, in the names of the columns of a context."""
        raise NotPossible("Limits of this kind have no rule to read back.")

    def read(self, unit: int, schema: Schema, alone: Floats, never: Collection[str]) -> Reading:
        """Return what is to be said of a unit in a sentence, in words of a schema.

        `alone`: P(allowed) where a context holds just one thing, by column, (d + 1,); where
        `calibrated`, a word is denied or unsure by this. `never`: pairs that no context holds.
        """
        return self.describe(unit, schema.columns)

    def holds_nothing(self, contexts: Floats) -> Bools:
        """Return which contexts hold nothing that a rule could deny: (n,)."""
        return np.zeros(len(contexts), np.bool_)

    @property
    def unused_columns(self) -> set[int]:
        """The columns of a context that play no part in what is believed."""
        return set()

    def set_known(self, unit: int, terms: Mapping[Any, bool]) -> None:
        """Replace what is known for certain of a unit, and forget its answers.

        Only called where `term_size` is not 0, with terms of no more features than that.
        """
        raise NotPossible("Limits of this kind take in no known terms.")

    # -- room --------------------------------------------------------------------------------

    def check_room(self, unit: int, more: int) -> None:
        """Raise `LimitReached` if so many answers more could be more than a unit can hold."""
        return

    def check_grow(self, arms: int) -> None:
        """Raise `LimitReached` if there is no room for so many arms more."""
        return

    # -- groups that are found ---------------------------------------------------------------

    def refit_all(self, answers: Iterable[Answer]) -> Ints:
        """Forget everything and fold these answers, in order; where `finds_groups`."""
        raise NotPossible("Limits of this kind are refitted a unit at a time.")

    def proposal(self, names: Sequence[str] | None = None, threshold: float = 0.5) -> list[Any]:
        """Return groups of arms that seem to share a rule; where `finds_groups`."""
        raise NotPossible("Limits of this kind find no groups.")

    # -- what a belief rests on --------------------------------------------------------------

    def belief(self, unit: int, context: Floats) -> float:
        """Return what is believed of a unit in one context, on `scale`."""
        return float(self.predict(unit, context[None]).p[0])

    def attribute(self, unit: int, context: Floats, absent: Floats) -> Attribution:
        """Return what each feature of a context contributed to what is believed there.

        `absent`: each column's value where its feature is not there. By default a feature is left
        out in turn.
        """
        there = np.flatnonzero(context != absent)
        rows: Floats = np.tile(context, (len(there) + 1, 1))
        rows[np.arange(len(there)) + 1, there] = absent[there]
        p = self.predict(unit, rows).p.tolist()
        parts = tuple(
            ((i,), float(context[i]), p[0] - without)
            for i, without in zip(there.tolist(), p[1:], strict=True)
        )
        return Attribution("change of the probability", p[0], None, parts)

    def noise(self, p: float) -> float:
        """Return how far a belief of p moves by chance, roughly, when it is learned anew."""
        return 0.0

    def refit_seconds(self, n: int) -> float:
        """Return how long a refit with n answers takes, roughly: by size, not by the clock."""
        return UNKNOWN_SECONDS

    def without(self, context: Floats, arm: int, allowed: bool) -> Beliefs:
        """Return limits as if this answer were not counted; where `finds_groups`."""
        raise NotPossible("Limits of this kind are refitted without an answer.")


class Predictions:
    """What limits predict in contexts that stay the same, kept up to date as they learn."""

    def __init__(self, limits: Beliefs, contexts: npt.ArrayLike) -> None:
        self._limits, self._contexts = limits, contexts
        self._now: Prediction | None = None

    def predict(self, changed: Ints | None = None) -> Prediction:
        """Return what is believed of all units now: arrays (U, n).

        `changed`: the units that may have changed since the last call; None: any.
        """
        now = self._now
        if now is None or changed is None or len(changed) > 1:  # all at once is far cheaper
            self._now = self._limits.predict_all(self._contexts)
            return self._now
        for unit in changed.tolist():
            one = self._limits.predict(unit, self._contexts)
            for name in ("p", "safe", "possible", "information", "sd"):
                getattr(now, name)[unit] = getattr(one, name)
        return now


def _stacked(predictions: Sequence[Prediction]) -> Prediction:
    return Prediction(
        p=np.array([prediction.p for prediction in predictions]),
        safe=np.array([prediction.safe for prediction in predictions]),
        possible=np.array([prediction.possible for prediction in predictions]),
        information=np.array([prediction.information for prediction in predictions]),
        sd=np.array([prediction.sd for prediction in predictions]),
    )
