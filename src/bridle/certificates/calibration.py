"""Calibration: fresh contexts and their answers, and the certificate that comes of them.

`certify` takes contexts whose answers are there; `Certification` asks for them one by one. Both
check that the contexts were not used for teaching, as far as that can be seen.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.certificates.certificate import (
    DEFAULT_LAMBDA_MIN,
    LAMBDA_MIN,
    MAX_CONTEXTS,
    MAX_TEXT,
    Certificate,
    affordable,
    check_about,
    kind_of,
    lambda_hat,
    scores_of,
    table_of_truths,
    worst_scores,
)
from bridle.errors import BridleError, CorruptState, InvalidValue, NotPossible
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import Beliefs
from bridle.limits.kinds import limits_from_state

__all__ = ["Calibration", "Certification", "Progress", "broken", "certify", "fresh_or_not", "named"]


# If more than this share of the contexts are different from all others, equal ones are no chance.
FEW_REPEATS = 0.8
FRESH = "No calibration context was used for teaching"


def fresh_or_not(C: Floats, ids: object, teaching: object, owner: str) -> str:
    """Raise `InvalidValue` on contexts used for teaching; return how far that could be checked."""
    remedy = "On what taught them, limits look better than they are. Draw fresh contexts."
    wanted = "fresh, with none that was used for teaching"
    if ids is not None:
        mine = named(ids, "ids", owner)
        if len(mine) != len(C):
            raise InvalidValue("ids", owner, f"{len(C)} ints or strings", f"{len(mine)} of them")
        if len(set(mine)) != len(mine):
            raise InvalidValue("ids", owner, "distinct: a context counts once", ids)
        if teaching is None:
            return f"{FRESH} (not checked: the ids of what was taught were not given)."
        taught_by = named(teaching, "teaching", owner)
        if taught_by and not {type(id) for id in mine} & {type(id) for id in taught_by}:
            wanted = "ids of one kind in both: ints, or strings"
            got = f"{mine[0]!r} of a calibration context and {taught_by[0]!r} of a taught one"
            raise InvalidValue("ids", owner, wanted, got, "As they are, none could be the same.")
        both = sorted(map(repr, set(mine) & set(taught_by)))
        if both:
            got = f"{len(both)} that were: {both[0]}, for one"
            raise InvalidValue("contexts", owner, wanted, got, remedy)
        return f"{FRESH} (checked by their ids)."
    if teaching is None:
        return f"{FRESH} (not checked: neither ids nor what was taught were given)."
    taught = {row.tobytes() for row in validation.matrix(teaching, C.shape[1], "teaching", owner)}
    rows = [row.tobytes() for row in C]
    equal = sum(row in taught for row in rows)
    # Where contexts hardly ever repeat, this is no chance.
    if 2 * equal > len(rows) and len(set(rows)) > FEW_REPEATS * len(rows):
        more = "If they are fresh draws that happen to be equal, say so by ids."
        got = f"{equal} of {len(rows)} that equal a taught one"
        raise InvalidValue("contexts", owner, wanted, got, f"{remedy} {more}")
    return (
        f"{FRESH}: {equal:,} of {len(rows):,} equal a taught one, and must be fresh draws all the "
        f"same (not checked: no ids were given)."
    )


def named(values: object, name: str, owner: str) -> list[int | str]:
    """Return ids as a list of ints and strings."""
    wanted = "a list of ints or strings"
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidValue(name, owner, wanted, values)
    listed = [value.item() if isinstance(value, np.generic) else value for value in values]
    for value in listed:
        if type(value) is not int and type(value) is not str:
            raise InvalidValue(name, owner, wanted, value)
    return listed


# --- How limits are certified: fresh contexts, a teacher's answers, and the threshold they bear out
#
# The score of an arm is its P(allowed) under the limits, frozen. `certify` takes answers that are
# there, `Certification` asks for them one by one; both give the same certificate. The mathematics
# is in `bridle.certificates.certificate`.


MAX_CELLS = 20_000_000
FORM = "bridle certification 2"
META = {"form", "kind", "alpha", "delta", "lambda_min", "on", "about", "fresh", "arms"}
ASSUMED = (
    "Future contexts come as the calibration contexts came: each drawn independently, from one "
    "source that does not change.",
    "What was done before has no influence on which contexts come.",
    "The answers to the calibration questions are correct.",
    "The limits and the lowest threshold were settled before any calibration answer was seen.",
)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Contexts that the limits were not taught on, and what the teacher said of them.

    Attributes
    ----------
    contexts : array (n, d)
        Drawn as future contexts will be.
    allowed : array (n, K) of bools
        Whether each arm is allowed in each context.
    asked : array (n, K) of bools, optional
        Which of `allowed` the teacher was asked; all by default. Enough is every arm down to the
        first denied one, by score, in each context: what `Certification` asks.
    ids : sequence of n ints or strings, optional
        Which draw each context is (a row of a table, a ticket's number). Contexts may be equal and
        yet be two draws; by ids it can be seen that none was used for teaching.
    """

    contexts: npt.ArrayLike
    allowed: npt.ArrayLike
    asked: npt.ArrayLike | None = None
    ids: Sequence[int | str] | None = None


class Progress(NamedTuple):
    """How far a certification is."""

    done: int  # contexts that need no more answers
    contexts: int  # of so many
    answers: int  # answers taken
    most: int  # answers that may still be needed, at most


def certify(
    limits: Beliefs,
    calibration: Calibration,
    alpha: float,
    delta: float,
    *,
    lambda_min: float = DEFAULT_LAMBDA_MIN,
    at: float | None = None,
    on: str = "",
    about: str = "",
    teaching: Iterable[int | str] | npt.ArrayLike | None = None,
) -> Certificate:
    """Certify limits on fresh contexts whose answers are there.

    With probability at least 1 − delta over the calibration contexts, at most a share alpha of
    all contexts has a denied arm in its certified set.

    Parameters
    ----------
    limits : Beliefs
        What is certified, as it is now: the certificate keeps a frozen copy.
    calibration : Calibration
        Contexts and answers.
    alpha, delta : float
        The promise.
    lambda_min : float, default 0.5
        No arm with this score or less is certified. It must be chosen before any answer is seen.
    at : float, optional
        The caller's time in seconds since 1970, kept and never read.
    on : str
        Where the calibration contexts came from, in words.
    about : str
        Of which arms and features the limits are: `Agent.about`. Without it only an agent whose
        limits have not changed since can adopt the certificate.
    teaching : optional
        What was taught, so that it can be refused: the ids, if `calibration` has ids, else the
        contexts, (m, d). Contexts alone cannot settle it: where few are possible, a fresh one may
        well equal a taught one. They are refused if most are taught and hardly any two are equal;
        how many are taught stands among the assumptions.

    Raises
    ------
    NotPossible
        If n is too small to show alpha at 1 − delta, whatever the answers; or answers are missing.

    Examples
    --------
    >>> from bridle.limits import LogisticLimits
    >>> limits = LogisticLimits(arms=1, features=1)
    >>> calibration = Calibration([[1.0]] * 30, [[True]] * 30)
    >>> certify(limits, calibration, alpha=0.05, delta=0.1)
    Traceback (most recent call last):
    bridle.errors.NotPossible: 30 calibration contexts cannot show alpha=0.05 at delta=0.1, ...
    """
    owner = "certify"
    if not isinstance(calibration, Calibration):
        raise InvalidValue("calibration", owner, "a Calibration", calibration)
    plan = _planned(limits, calibration.contexts, alpha, delta, lambda_min, on, about, owner)
    shape = plan.scores.shape
    allowed = table_of_truths(calibration.allowed, shape, "allowed", owner)
    asked = calibration.asked
    known = None if asked is None else table_of_truths(asked, shape, "asked", owner)
    fresh = fresh_or_not(plan.contexts, calibration.ids, teaching, owner)
    return _certificate(plan, allowed, known, at, (*ASSUMED, fresh), owner)


class Certification:
    """Certify limits by asking, one question at a time. It can be stopped and resumed.

    In each context the arms are asked about in the order of their scores, highest first (of equal
    ones the lower number), down to the first denied arm or to `lambda_min`. What lies below cannot
    change the certificate.

    The number of contexts is settled at the start: to stop when the answers look good would break
    the promise, so there is no certificate before the last answer.

    Parameters
    ----------
    limits, alpha, delta, lambda_min, on, about, teaching
        As in `certify`.
    contexts, ids
        As in `Calibration`.
    arms : sequence of arm ids, optional
        What questions call the arms; their numbers by default.
    standing : array (n, K) of bools, optional
        What a teacher has allowed to the letter: an answer that denies it is a disagreement, and
        the certificate says so.

    Examples
    --------
    >>> from bridle.limits import LogisticLimits
    >>> limits = LogisticLimits(arms=2, features=1)
    >>> for _ in range(20):
    ...     units = limits.learn([1.0], 0, True), limits.learn([1.0], 1, False)
    >>> asking = Certification(limits, [[1.0]] * 60, alpha=0.05, delta=0.1)
    >>> asking.question()
    (0, 0)
    >>> while asking.question() is not None:
    ...     context, arm = asking.question()
    ...     asking.answer(arm == 0)
    >>> asking.progress
    Progress(done=60, contexts=60, answers=60, most=0)
    >>> asking.certificate().keeps
    1.0
    """

    def __init__(
        self,
        limits: Beliefs,
        contexts: npt.ArrayLike,
        alpha: float,
        delta: float,
        *,
        lambda_min: float = DEFAULT_LAMBDA_MIN,
        on: str = "",
        about: str = "",
        ids: Sequence[int | str] | None = None,
        teaching: Iterable[int | str] | npt.ArrayLike | None = None,
        arms: Sequence[int | str] | None = None,
        standing: npt.ArrayLike | None = None,
    ) -> None:
        owner = "Certification"
        self._plan = _planned(limits, contexts, alpha, delta, lambda_min, on, about, owner)
        self._assumptions = (*ASSUMED, fresh_or_not(self._plan.contexts, ids, teaching, owner))
        scores = self._plan.scores
        self._order: Ints = np.argsort(-scores, axis=1, kind="stable")  # (n, K)
        self._depth: Ints = (scores > self._plan.lambda_min).sum(axis=1)  # (n,) worth a question
        self._answers: list[bool] = []
        K = scores.shape[1]
        self._names = list(range(K)) if arms is None else named(arms, "arms", owner)
        if len(self._names) != K:
            raise InvalidValue("arms", owner, f"{K} ids, one for each", arms)
        blank = np.zeros(scores.shape, np.bool_)
        self._standing = (
            blank
            if standing is None
            else table_of_truths(standing, scores.shape, "standing", owner)
        )
        self._allowed, self._asked = np.zeros((2, *scores.shape), np.bool_)
        self._context = self._place = 0
        self._skip()

    @property
    def progress(self) -> Progress:
        """How far it is."""
        most = int(self._depth[self._context :].sum()) - self._place
        return Progress(self._context, len(self._depth), len(self._answers), most)

    @property
    def calibration(self) -> Calibration:
        """The contexts, and what was answered so far."""
        return Calibration(self._plan.contexts.copy(), self._allowed.copy(), self._asked.copy())

    @property
    def disagreements(self) -> list[tuple[int, int | str]]:
        """What was denied here and allowed to the letter by an example that stands: row and arm."""
        found = np.argwhere(self._standing & self._asked & ~self._allowed).tolist()
        return [(row, self._names[k]) for row, k in found]

    def question(self) -> tuple[int, Any] | None:
        """Return the context's index and the arm to ask about; None if no answer is missing."""
        now = self._now()
        return None if now is None else (now[0], self._names[now[1]])

    def _now(self) -> tuple[int, int] | None:
        if self._context == len(self._depth):
            return None
        return self._context, int(self._order[self._context, self._place])

    def answer(self, allowed: bool) -> None:
        """Fold the teacher's answer to `question`."""
        said = validation.truth(allowed, "allowed", "Certification.answer")
        now = self._now()
        if now is None:
            raise NotPossible("No answer is missing. Take the certificate.")
        self._allowed[now], self._asked[now] = said, True
        self._answers.append(said)
        self._place += 1
        if not said:
            self._place = int(self._depth[self._context])
        self._skip()

    def certificate(self, at: float | None = None) -> Certificate:
        """Return the certificate, when every question is answered."""
        if self.question() is not None:
            done, contexts, _, most = self.progress
            raise NotPossible(
                f"Only {done:,} of {contexts:,} contexts are done: go on until question() is None "
                f"(at most {most:,} more answers). All were drawn to be used; stopping early, by "
                f"what the answers are, would break the promise."
            )
        owner = "Certification.certificate"
        assumed: tuple[str, ...] = self._assumptions
        apart = self.disagreements
        if apart:
            row, arm = apart[0]
            said = (
                f"{len(apart):,} calibration answers deny what an example that stands allows in "
                f"the very same context (arm {arm!r} in calibration context {row}, for one). That "
                f"would still be played: one of the two is wrong. Retract those examples."
            )
            assumed = (*assumed, said)
        return _certificate(self._plan, self._allowed, self._asked, at, assumed, owner)

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """All that was settled and answered, as named arrays."""
        plan = self._plan
        meta = {
            "form": FORM,
            "kind": plan.kind,
            "alpha": plan.alpha,
            "delta": plan.delta,
            "lambda_min": plan.lambda_min,
            "on": plan.on,
            "about": plan.about,
            "fresh": self._assumptions[-1],
            "arms": self._names,
        }
        return {
            "meta": np.frombuffer(json.dumps(meta).encode(), np.uint8).copy(),
            "contexts": plan.contexts.copy(),
            "answers": np.array(self._answers, np.bool_),
            "standing": self._standing.copy(),
            **{f"limits/{name}": array.copy() for name, array in plan.state.items()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return a calibration as it was at `to_state`: what follows has the bits of no pause."""
        try:
            meta = json.loads(state["meta"].tobytes())
            if set(meta) != META or meta.pop("form") != FORM:
                raise CorruptState(f"It is not of the form {FORM!r}.")
            if state["answers"].dtype != np.bool_:
                raise CorruptState("Answers are True or False.")
            under = {n[7:]: array for n, array in state.items() if n.startswith("limits/")}
            if len(under) + 4 != len(state):
                raise CorruptState("There is more in it than a certification.")
            limits = limits_from_state(meta.pop("kind"), under)
            fresh = validation.text(meta.pop("fresh"), "fresh", cls.__name__, MAX_TEXT)
            made = cls(limits, state["contexts"], standing=state["standing"], **meta)
            made._assumptions = (*ASSUMED, fresh)
            for answer in state["answers"].tolist():
                made.answer(answer)
        except (
            BridleError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
            RecursionError,
        ) as error:
            raise CorruptState(f"A damaged certification: {error}") from None
        return made

    def _skip(self) -> None:
        """Move to the next context that has a question, from one that has none left."""
        while self._context < len(self._depth) and self._place >= self._depth[self._context]:
            self._context, self._place = self._context + 1, 0


def broken(
    certificate: Certificate,
    contexts: npt.ArrayLike,
    allowed: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
) -> float:
    """Return the exact share of a world's contexts whose certified set holds a denied arm.

    Where it is above alpha the certificate's promise is broken: so it may be with probability
    delta. For worlds whose truth is known: tests and studies.

    Parameters
    ----------
    certificate : Certificate
        Whose promise.
    contexts, allowed : arrays (M, d) and (M, K)
        All contexts of the world, and the truth.
    weights : array (M,), optional
        How often each comes; all equally by default.
    """
    owner = "broken"
    S = certificate.scores(contexts)
    hit = (~table_of_truths(allowed, S.shape, "allowed", owner) & (S > certificate.threshold)).any(
        axis=1
    )
    wanted = f"{len(S)} numbers of 0 or more that are not all 0"
    w = np.ones(len(S)) if weights is None else validation.vector(weights, len(S), "weights", owner)
    total = math.fsum(w.tolist())
    if not (w >= 0.0).all() or total <= 0.0:
        raise InvalidValue("weights", owner, wanted, weights)
    return math.fsum(w[hit].tolist()) / total


class _Plan(NamedTuple):
    """What is settled before any answer."""

    contexts: Floats  # (n, d)
    alpha: float
    delta: float
    lambda_min: float
    on: str
    about: str
    kind: str
    state: Mapping[str, npt.NDArray[Any]]
    scores: Floats  # (n, K), of the limits as they will be read back


def _planned(
    limits: Beliefs,
    contexts: npt.ArrayLike,
    alpha: float,
    delta: float,
    lambda_min: float,
    on: str,
    about: str,
    owner: str,
) -> _Plan:
    kind = kind_of(limits, owner)
    C = validation.matrix(contexts, limits.features, "contexts", owner)
    most = min(MAX_CONTEXTS, MAX_CELLS // limits.arms)
    if not 1 <= len(C) <= most:
        raise InvalidValue("contexts", owner, f"1 to {most:,} of them", len(C))
    affordable(len(C), alpha, delta, owner)
    low = LAMBDA_MIN.check(lambda_min, "lambda_min", owner)
    if on != "":
        validation.text(on, "on", owner, MAX_TEXT)
    check_about(about, owner)
    state = limits.to_state()
    # Not of the live limits: those that are certified are those that will be played by.
    scores = scores_of(limits_from_state(kind, state), C, owner)
    return _Plan(C, float(alpha), float(delta), low, on, about, kind, state, scores)


def _certificate(
    plan: _Plan,
    allowed: Bools,
    asked: Bools | None,
    at: float | None,
    assumptions: tuple[str, ...],
    owner: str,
) -> Certificate:
    S, low = plan.scores, plan.lambda_min
    denied = ~allowed if asked is None else asked & ~allowed
    worst = worst_scores(S, ~denied, low)
    if asked is not None:
        missing = np.argwhere(~asked & (S > low) & (S > worst[:, None]))
        if len(missing):
            i, arm = missing[0].tolist()
            raise NotPossible(
                f"Answers are missing: of arm {arm} in calibration context {i}, for one. Ask down "
                f"to the first denied arm of each context, as Certification does."
            )
    threshold = lambda_hat(worst, plan.alpha, plan.delta, low)
    return Certificate(
        alpha=plan.alpha,
        delta=plan.delta,
        n=len(S),
        lambda_min=low,
        threshold=threshold,
        broken=int((worst > threshold).sum()),
        answers=_rests_on(S, denied, low) if asked is None else int(asked.sum()),
        keeps=float((S > threshold).any(axis=1).sum() / len(S)),
        at=None if at is None else validation.FloatRange().check(at, "at", owner),
        on=plan.on,
        assumptions=assumptions,
        kind=plan.kind,
        state=plan.state,
        about=plan.about,
    )


def _rests_on(S: Floats, denied: Bools, low: float) -> int:
    """Count the answers that asking would have taken: down to the first denied arm of each row."""
    order = np.argsort(-S, axis=1, kind="stable")
    stop = np.take_along_axis(denied, order, 1)
    before: Ints = np.cumsum(stop, axis=1) - stop  # denied arms that come earlier
    return int(((before == 0) & (np.take_along_axis(S, order, 1) > low)).sum())
