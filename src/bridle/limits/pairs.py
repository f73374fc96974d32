"""`PairLimits`: limits over pairs of a context and an arm, where arms have features of their own.

What is taught about one arm serves all that look like it, also those that come later. Arms with
equal features are one *kind*: what is believed is worked out once for each kind that is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import BridleError, CorruptState, InvalidValue, LimitReached
from bridle.kernels import keys
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import joint
from bridle.limits.base import Answer, Attribution, Beliefs, Prediction
from bridle.limits.joint import Grid, JointRules, Mixture, Side, Space
from bridle.limits.mixture import DEGREES, DOUBT
from bridle.limits.rules import (
    CHAINS,
    DAMAGE,
    SWEEPS,
    Reading,
    check,
    checked_groups,
    doubt_of,
)
from bridle.schema import Category, Schema

__all__ = ["PAIR_KINDS", "PairLimits", "PairReading"]

PAIR_KINDS = ("auto", "rules", "logistic")
OWNER = "PairLimits"
MAX_ARMS = 1_000_000
# Bytes that are kept of what was predicted since the last answer.
MAX_KEPT = 64_000_000
# Answers that are kept, to be folded again where one is taken back.
MAX_ANSWERS = 1_000_000
# What was believed after so many answers is kept, at a few places, to fold anew from there.
MARKED, MOST_MARKS = 16, 8


class _Answer(NamedTuple):
    """An answer as it was taught: the arm's features may have changed since."""

    context: bytes
    row: bytes  # the arm's, with its group
    arm: int
    allowed: bool
    key: int


class PairLimits(Beliefs):
    """Limits over pairs of a context and an arm: one belief for all arms.

    A pair is denied by a rule if it holds any of its terms: a word of the context, a word of the
    arm, or both ("under 13" with "Horror"); and, among other members, if its log odds say so. A
    declared group of arms is one more word of an arm. So an arm that comes later is covered by what
    was taught about the others, and is in doubt where that does not settle it.

    Every arm is a unit of its own here, since what an answer is certain of is its own arm; what is
    *believed* is the same of all arms of one kind, those with equal features (`kind_of`).

    Parameters
    ----------
    kind : {"auto", "rules", "logistic"}
        What limits are like.
    context, arm : Schema
        The features of a context, and of an arm.
    rows : array (K, p)
        The features of each arm, encoded.
    groups : sequence of K str or None, optional
        The group of each arm.
    error : float or None, default 0.001
        How often the teacher errs; None: it is estimated.
    doubt : float, optional
        Safe is what is allowed with probability 1 − doubt or more, possible with doubt or more; by
        default .01.
    crosses : bool, default False
        Of rules: whether two words of one side can stand together in a term. "auto" tries it.
    chains, sweeps : int
        Sampled rules, and Gibbs sweeps an answer.
    seed : int, default 0
        With an answer's key it gives all random numbers.

    Examples
    --------
    >>> from bridle.schema import Category, Labels
    >>> bands = Schema([Category("band", ["under 13", "adult"])])
    >>> films = Schema([Labels("genre", ["Horror", "Comedy"])])
    >>> limits = PairLimits(kind="rules", context=bands, arm=films, rows=[[1, 0], [0, 1], [1, 1]])
    >>> child, adult = [1, 0], [0, 1]
    >>> for band, film, allowed in (child, 0, False), (child, 1, True), (adult, 2, True):
    ...     _ = limits.learn(band, film, allowed)
    >>> _ = limits.learn(child, 2, False)
    >>> limits.grow(1, rows=[[1, 0]])  # another film of the kind of the first
    >>> limits.predict_all([[1.0, 0.0], [0.0, 1.0]]).safe.tolist()
    [[False, True], [True, True], [False, True], [False, True]]
    >>> print(limits.readings()[1].sentence())
    under 13: not Horror
    """

    has_sentences = True
    knows_errors = True
    order_matters = True
    calibrated = True

    def __init__(
        self,
        *,
        kind: str = "auto",
        context: Schema,
        arm: Schema,
        rows: npt.ArrayLike,
        groups: Sequence[str | None] | None = None,
        error: float | None = 0.001,
        doubt: float | None = None,
        crosses: bool = False,
        chains: int = 400,
        sweeps: int = 3,
        seed: int = 0,
    ) -> None:
        self.kind = validation.one_of(kind, PAIR_KINDS, "limits", "Agent")
        doubt_of(None, error, OWNER)  # refuses an error that can not be
        self.doubt = DOUBT if doubt is None else doubt_of(doubt, None, OWNER)
        self._given: dict[str, Any] = {
            "error": error,
            "crosses": validation.truth(crosses, "crosses", OWNER),
            "chains": CHAINS.check(chains, "chains", OWNER),
            "sweeps": SWEEPS.check(sweeps, "sweeps", OWNER),
            "seed": validation.SEED.check(seed, "seed", OWNER),
        }
        A = validation.matrix(rows, arm.width, "rows", OWNER)
        named = checked_groups(groups, len(A), OWNER)
        self._answers: list[_Answer] = []
        self._make(context, arm, [str(g) for g in dict.fromkeys(named) if g is not None])
        self._kinds: Floats = np.empty((0, self._space.arm.width))
        self._number: dict[bytes, int] = {}  # of each kind, by its name
        self._names: list[bytes] = []
        self._kind_of: Ints = np.empty(0, np.int64)
        self._kept: dict[bytes, _Kept] = {}
        self._by_kind: tuple[Ints, Ints] | None = None
        self._taught: Bools | None = None  # the terms that any answer has held
        self._dearer: Floats | None = None
        self._add(A, named)

    def _make(self, context: Schema, arm: Schema, groups: Sequence[str]) -> None:
        space = Space(Side(context), Side(arm, groups))
        joint.check_kind(self.kind, space, crosses=self._given["crosses"])
        members, prior, self.left_out = joint.make_members(
            space, self.kind, doubt=self.doubt, **self._given
        )
        self._space = space
        error = self._given["error"]
        self._mixture = Mixture(space, members, prior, doubt=self.doubt, error=error)
        # How many of the answers it holds, and what it was after some of them, the last ones last.
        self._folded, self._marks = 0, list[tuple[int, Mixture]]()
        rooms = [m.room for m in members.values() if m.room is not None]
        self.room = min(rooms, default=None)
        self.floor = self._mixture._floor

    # -- what it is about --------------------------------------------------------------------

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return len(self._kind_of)

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return self._space.context.width

    @property
    def space(self) -> Space:
        """Both sides of a pair."""
        return self._space

    @property
    def kind_of(self) -> Ints:
        """The kind of each arm: (K,). Arms of one kind have equal features and one group."""
        return self._kind_of

    @property
    def kinds(self) -> int:
        """Number of kinds of arms."""
        return len(self._kinds)

    def unknown(self, arm: int) -> tuple[str, ...]:
        """Return the names of the features of an arm that are not known."""
        row = self._kinds[self._kind_of[arm]]
        return tuple(one.name for one, gap in self._space.arm.schema.optional if row[gap] > 0.5)

    def dearer(self, context: Floats, kinds: Ints | None = None) -> Floats:
        """Return by how much an answer is dearer in a context, for kinds of arms; all by default.

        What not asking costs is summed up by kind. Where one answer settles one of m arms alone, it
        is √m: were one of them always the best, it should be asked about once that has cost an
        answer; were all alike, once it has cost m answers; √m is off by the same factor either
        way. As far as arms of a kind are allowed or denied together it is 1, as that settles all.
        """
        if self._dearer is None:
            sizes = np.bincount(self._kind_of, minlength=self.kinds)
            self._dearer = np.sqrt(np.maximum(sizes, 1).astype(np.float64))
        alike, told = self._inner.in_common((context + 0.0).tobytes())
        out: Floats = 1.0 + (self._dearer - 1.0) * (1.0 - alike)
        for arm, here in told.items():
            kind = self._number.get(arm)
            if kind is not None:
                out[kind] = 1.0 + (self._dearer[kind] - 1.0) * (1.0 - here)
        return out if kinds is None else out[kinds]

    @property
    def members(self) -> Mapping[str, Any]:  # type: ignore[override]
        """What takes part in the mixture."""
        return self._inner.members

    @property
    def surprises(self) -> Sequence[Any]:  # type: ignore[override]
        """Answers that the mixture was sure would not come."""
        return self._inner.surprises

    @property
    def noisy(self) -> bool:
        """Whether the teacher seems to err so often that one answer is not the truth."""
        return self._inner.noisy

    def weights(self, unit: int | None = None) -> dict[str, float]:
        """Return how much each member is believed by now: the same of all arms."""
        return self._inner.weights

    def exceptions(self, unit: int) -> dict[str, float]:
        """Return how often what each member allows is expected to be denied all the same."""
        return self._inner.exceptions

    def by_degrees(self, unit: int) -> bool:
        """Return whether members that no sentence describes have most of the weight."""
        weights = self._inner.weights
        return weights.get("logistic", 0.0) + weights.get("pooled", 0.0) > DEGREES

    # -- learning ----------------------------------------------------------------------------

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; return the arms whose belief changed: all."""
        owner = f"{OWNER}.learn"
        row = validation.vector(context, self.features, "context", owner)
        k = validation.IntRange(0, self.arms - 1).check(arm, "arm", owner)
        answer = validation.truth(allowed, "allowed", owner)
        self.update(row, k, answer, validation.SEED.check(key, "key", owner))
        return np.arange(self.arms)

    def update(self, context: Floats, arm: int, allowed: bool, key: int) -> Prediction:
        """Fold an answer that was checked before; return what was believed there until then."""
        if len(self._answers) >= MAX_ANSWERS:
            raise LimitReached("answers about pairs", MAX_ANSWERS, "Begin the limits anew.")
        row = self._kinds[self._kind_of[arm]]
        given = _Answer((context + 0.0).tobytes(), row.tobytes(), arm, allowed, key)
        self._forget_kept()
        self._settle()
        before = self._fold(given)
        self._answers.append(given)
        return before

    def refit(
        self, unit: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike, keys: npt.ArrayLike
    ) -> Ints:
        """Forget an arm's answers and fold these: all that was taught is folded again, in order.

        An answer whose key was taught before keeps its place, and the features that the arm had
        then. Raise `InvalidValue` before anything has changed.
        """
        owner = f"{OWNER}.refit"
        k = validation.IntRange(0, self.arms - 1).check(unit, "unit", owner)
        C = validation.matrix(contexts, self.features, "contexts", owner)
        answers = validation.truths(allowed, len(C), "allowed", owner).tolist()
        bits = [validation.SEED.check(each, "keys", owner) for each in np.asarray(keys).tolist()]
        if len(bits) != len(C):
            raise InvalidValue("keys", owner, f"{len(C)} keys", keys)
        given = [(row, k, a, b) for row, a, b in zip(C, answers, bits, strict=True)]
        mine = {(a.context, a.key): a for a in self._answers if a.arm == k}
        kept: dict[int, _Answer] = {}
        more: list[_Answer] = []
        place = {(a.context, a.key): i for i, a in enumerate(self._answers) if a.arm == k}
        for row, _, answer, bit in given:
            name = (row.tobytes(), bit)
            if name in mine and place[name] not in kept:
                kept[place[name]] = mine[name]._replace(allowed=answer)
            else:
                raw = self._kinds[self._kind_of[k]].tobytes()
                more.append(_Answer(row.tobytes(), raw, k, answer, bit))
        standing = [kept.get(i, a) for i, a in enumerate(self._answers) if a.arm != k or i in kept]
        self._refold([*standing, *more])
        return np.arange(self.arms)

    def refit_all(self, answers: Sequence[Answer]) -> Ints:  # type: ignore[override]
        """Forget everything and fold these answers, in order, with the arms' features as they are.

        An answer whose context, arm and key were taught before keeps the features of then.
        """
        had = {(a.context, a.arm, a.key): a.row for a in self._answers}
        fresh = []
        for context, arm, allowed, key in answers:
            row = validation.vector(context, self.features, "context", f"{OWNER}.refit_all")
            name = (row.tobytes(), int(arm), int(key))
            raw = had.get(name, self._kinds[self._kind_of[arm]].tobytes())
            fresh.append(_Answer(name[0], raw, name[1], bool(allowed), name[2]))
        self._refold(fresh)
        return np.arange(self.arms)

    def grow(
        self,
        arms: int = 1,
        groups: Sequence[str | int | None] | None = None,
        rows: npt.ArrayLike | None = None,
    ) -> None:
        """Add arms, after the others, with these features, (n, p); covered by what was taught.

        A group that is new is one more word: what was taught is folded again.
        """
        owner = f"{OWNER}.grow"
        n = validation.IntRange(0, MAX_ARMS - self.arms).check(arms, "arms", owner)
        if rows is None:
            wanted = "the features of each arm that is added"
            raise InvalidValue("rows", owner, wanted, None)
        A = validation.matrix(rows, self._space.arm.schema.width, "rows", owner)
        if len(A) != n:
            raise InvalidValue("rows", owner, f"{n} rows, one an arm", A.shape)
        self._add(A, checked_groups(groups, n, owner))

    def change(self, arm: int, row: npt.ArrayLike, group: str | None = None) -> None:
        """Change the features of an arm; what was taught of it before counts with the old ones."""
        owner = f"{OWNER}.change"
        k = validation.IntRange(0, self.arms - 1).check(arm, "arm", owner)
        A = validation.vector(row, self._space.arm.schema.width, "row", owner)[None]
        self._kind_of = self._kind_of.copy()
        old = int(self._kind_of[k])
        self._kind_of[k] = self._numbered(A, checked_groups([group], 1, owner), k)[0]
        if self._kind_of[k] != old and self._space.arm.open(self._kinds[old : old + 1])[0]:
            del self._number[self._names[old]]
            self._names[old] = self._kinds[old].tobytes() + _own(~old)
            self._number[self._names[old]] = old
        self._dearer = self._by_kind = None
        self._forget_kept()

    def check_room(self, unit: int, more: int) -> None:
        """Raise `LimitReached` if so many answers more could be more than there is room for."""
        if self.room is not None and len(self._answers) + more > self.room:
            raise LimitReached("answers about pairs", self.room, "Begin the limits anew.")

    def check_grow(self, arms: int) -> None:
        """Raise `LimitReached` if there is no room for so many arms more."""
        if self.arms + arms > MAX_ARMS:
            raise LimitReached("arms", MAX_ARMS, "Retire arms that are not offered any more.")

    # -- predictions -------------------------------------------------------------------------

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of an arm in each of n contexts, (n, d)."""
        owner = f"{OWNER}.predict"
        k = validation.IntRange(0, self.arms - 1).check(unit, "unit", owner)
        C = validation.matrix(contexts, self.features, "contexts", owner)
        return self._inner.predict(self._grid(C, self._kind_of[k : k + 1]))

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of all arms: (K, n); worked out once for each kind of arm."""
        return self.predict_kinds(contexts).of(self._kind_of)

    def predict_kinds(self, contexts: npt.ArrayLike, kinds: Ints | None = None) -> Prediction:
        """Return what is believed of kinds of arms, all by default: (kinds, n)."""
        C = validation.matrix(contexts, self.features, "contexts", f"{OWNER}.predict_kinds")
        which = np.arange(self.kinds) if kinds is None else kinds
        each = max(1, joint.BLOCK // max(1, len(C) * self._widest))
        blocks = [
            self._inner.predict(self._grid(C, which[at : at + each]))
            for at in range(0, len(which), each)
        ]
        shape = len(C), -1
        parts = [
            np.concatenate([getattr(b, name).reshape(shape) for b in blocks], axis=1)
            if blocks
            else np.empty((len(C), 0))
            for name in ("p", "safe", "possible", "information", "sd")
        ]
        return Prediction(*(np.ascontiguousarray(part.T) for part in parts))

    def predict_pairs(self, context: npt.ArrayLike, arms: npt.ArrayLike) -> Prediction:
        """Return what is believed of some arms in one context: arrays of as many as asked for.

        What was worked out is kept until the next answer: asking for a few of many arms costs by
        the kinds that are new, not by all that there are.
        """
        c = validation.vector(context, self.features, "context", f"{OWNER}.predict_pairs")
        which = self._kind_of[np.asarray(arms, np.int64)]
        return self.predict_pair_kinds(c, which)

    def predict_pair_kinds(self, context: Floats, kinds: Ints) -> Prediction:
        """Return what `predict_pairs` does, for kinds of arms; the context was checked before."""
        kept = self._kept_of(context)
        self._work_out(kept, kinds)
        p, information, sd = kept.parts[kept.row_of[kinds]].T
        return Prediction(p, p >= 1.0 - self.doubt, p >= self.doubt, information, sd)

    def has_looked(self, context: Floats) -> bool:
        """Return whether anything was worked out in a context since the last answer."""
        return context.tobytes() in self._kept

    def unsettled(self, context: Floats) -> Bools:
        """Return which arms are not known to be unsafe in a context: (K,). Not a copy.

        It is what `first_safe` has found of their kinds since the last answer.
        """
        return self._kept_of(context).may

    def first_safe(self, context: Floats, arms: Ints, *, ask: bool = True) -> int:
        """Return the place of the first of a few arms that is safe in a context, -1 if none is.

        Arms that are not leave `unsettled`, with all others of their kinds. Nothing is worked out
        where what is known does; and if not `ask`, it is -1 where that does not do.
        """
        kept, which = self._kept_of(context), self._kind_of[arms]
        rows = kept.row_of[which]
        least = 1.0 - self.doubt
        known = [row >= 0 and kept.parts[row, 0] >= least for row in rows.tolist()]
        first = known.index(True) if True in known else len(known)
        if (rows[:first] < 0).any():
            if not ask:
                return -1
            self._work_out(kept, which)
            known = (kept.parts[kept.row_of[which], 0] >= least).tolist()
            first = known.index(True) if True in known else len(known)
        looked = (kept.row_of[which] >= 0).tolist()
        unsafe = dict.fromkeys(
            kind
            for kind, safe, seen in zip(which.tolist(), known, looked, strict=True)
            if seen and not safe
        )
        if unsafe:
            starts, members = self._members
            for kind in unsafe:
                kept.may[members[starts[kind] : starts[kind + 1]]] = False
        return first if first < len(known) else -1

    @property
    def _members(self) -> tuple[Ints, Ints]:
        """Where the arms of each kind begin, (kinds + 1,), in a list of all arms by kind, (K,)."""
        if self._by_kind is None:
            sizes = np.bincount(self._kind_of, minlength=self.kinds)
            starts = np.concatenate([[0], np.cumsum(sizes)])
            self._by_kind = starts, np.argsort(self._kind_of, kind="stable")
        return self._by_kind

    def _kept_of(self, context: Floats) -> _Kept:
        """Return what was worked out in a context since the last answer; the newest are kept."""
        raw = context.tobytes()
        kept = self._kept.pop(raw, None)
        if kept is None:
            kept = _Kept(context, self.kinds, self.arms)
            most = max(1, MAX_KEPT // (4 * self.kinds + self.arms + 1))
            while len(self._kept) >= most:
                del self._kept[next(iter(self._kept))]
        self._kept[raw] = kept
        return kept

    def _work_out(self, kept: _Kept, kinds: Ints) -> None:
        new = np.unique(kinds[kept.row_of[kinds] < 0])
        each = max(1, joint.BLOCK // self._widest)
        for at in range(0, len(new), each):
            few = new[at : at + each]
            kept.add(few, self._inner.predict(self._grid(kept.context[None], few)))

    def predict_answer(self, unit: int, contexts: npt.ArrayLike) -> Floats:
        """Return the probability that the teacher, who may err, says "allowed": (n,)."""
        owner = f"{OWNER}.predict_answer"
        k = validation.IntRange(0, self.arms - 1).check(unit, "unit", owner)
        C = validation.matrix(contexts, self.features, "contexts", owner)
        return self._inner.predict_answer(self._grid(C, self._kind_of[k : k + 1]))

    def predict_rows(
        self,
        contexts: npt.ArrayLike,
        rows: npt.ArrayLike,
        groups: Sequence[str | int | None] | None = None,
    ) -> Prediction:
        """Return what is believed of arms that nobody stored, by features and groups: (m, n)."""
        owner = f"{OWNER}.predict_rows"
        C = validation.matrix(contexts, self.features, "contexts", owner)
        A = validation.matrix(rows, self._space.arm.schema.width, "rows", owner)
        whole = self._with_groups(A, checked_groups(groups, len(A), owner))
        found = self._inner.predict(Grid(self._space, C, whole))
        shape = len(C), len(A)
        names = ("p", "safe", "possible", "information", "sd")
        return Prediction(
            *(np.ascontiguousarray(getattr(found, name).reshape(shape).T) for name in names)
        )

    # -- in words ----------------------------------------------------------------------------

    @property
    def unused_columns(self) -> set[int]:
        """The columns of a context that play no part in what is believed: none."""
        return set()

    def readings(self) -> list[PairReading]:
        """Return what rules believe, by words of a context: first what holds in all contexts.

        See `Reader`.
        """
        return Reader(self).readings()

    def sentences(self, names: Sequence[str] = ()) -> list[str]:
        """Return what is believed in sentences; those that say nothing are left out.

        `names`: of the arms, for exceptions.
        """
        told = [reading.sentence(names) for reading in self.readings()]
        return [line for line in told if not line.endswith(": all is allowed")]

    def describe(self, unit: int, names: Sequence[str]) -> Reading:
        """Return what is believed of an arm: words of a context that deny it, may, or do not.

        `names` are those of the columns of a context.
        """
        validation.IntRange(0, self.arms - 1).check(unit, "unit", f"{OWNER}.describe")
        return Reader(self).of_arm(unit, names)

    def read(self, unit: int, schema: Schema, alone: Floats, never: Collection[str]) -> Reading:
        """Return what is to be said of an arm in a sentence."""
        return self.describe(unit, schema.columns)

    def attribute_arm(self, unit: int, context: Floats) -> Attribution:
        """Return what each feature of an arm contributed to what is believed of it in a context.

        Columns are those of an arm, its group after the features. A feature is left out in turn.
        """
        row = self._kinds[self._kind_of[unit]]
        there = np.flatnonzero(row != 0.0)
        rows: Floats = np.tile(row, (len(there) + 1, 1))
        rows[np.arange(len(there)) + 1, there] = 0.0
        names = [self._names[self._kind_of[unit]], *(one.tobytes() for one in rows[1:])]
        p = self._inner.predict(Grid(self._space, context[None] + 0.0, rows, names)).p.tolist()
        parts = tuple(
            ((i,), float(row[i]), p[0] - without)
            for i, without in zip(there.tolist(), p[1:], strict=True)
        )
        return Attribution("change of the probability", p[0], None, parts)

    def novelty(self, context: Floats, arms: Ints | None = None) -> Floats:
        """Return how much of a pair was never taught: 1: all of it, 0: nothing. (K,) or as asked.

        It is the share of the words of a pair, each of its context with each of its arm, that no
        answer has held; and of single words, where one side has none.
        """
        which = self._kind_of if arms is None else self._kind_of[arms]
        if self._taught is None:
            T = self._space.context.terms(1) * self._space.arm.terms(1) - 1
            self._taught = np.zeros(T, np.bool_)
            for answer in self._answers:
                self._taught |= self._one(answer).held((1, 1))[0]
        kinds = np.unique(which)
        held = self._grid(context[None] + 0.0, kinds).held((1, 1))
        total = held.sum(axis=1)
        new = (held & ~self._taught).sum(axis=1)
        share: Floats = np.where(total > 0, new / np.maximum(total, 1), float(not self._answers))
        return share[np.searchsorted(kinds, which)]

    def without(self, context: Floats, arm: int, allowed: bool) -> PairLimits:
        """Return limits that are weighed as if this answer had not been given: see `Mixture`."""
        raw = (context + 0.0).tobytes()
        same = (a for a in self._answers if (a.context, a.arm, a.allowed) == (raw, arm, allowed))
        row = self._kinds[self._kind_of[arm]].tobytes()
        given = next(same, _Answer(raw, row, arm, allowed, 0))
        twin = self.copy()
        bits = int(keys.aside(np.uint64(given.key)))
        twin._mixture = self._inner.without(self._one(given), allowed, bits)
        return twin

    # -- state -------------------------------------------------------------------------------

    def noise(self, p: float) -> float:
        """Return how far a belief of p moves by chance: the members' noise, by their weight."""
        each = zip(self._inner.weights.values(), self._inner.members.values(), strict=True)
        return float(sum(weight * member.noise(p) for weight, member in each))

    def refit_seconds(self, n: int) -> float:
        """Return how long a refit takes: all that was taught is folded again."""
        every = self._inner.members.values()
        return float(sum(m.refit_seconds(max(n, len(self._answers))) for m in every))

    def __deepcopy__(self, memo: object) -> PairLimits:
        return self.copy()

    def copy(self) -> PairLimits:
        """Return limits with the same knowledge that learn apart from now on."""
        self._settle()
        twin = object.__new__(PairLimits)
        twin.__dict__.update(self.__dict__)
        twin._mixture, twin._marks = self._mixture.copy(), list(self._marks)
        twin._answers = list(self._answers)
        twin._number, twin._names = dict(self._number), list(self._names)
        twin._forget_kept()
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays."""
        settings = {
            "kind": self.kind,
            "context": self._space.context.schema.to_json(),
            "arm": self._space.arm.schema.to_json(),
            "groups": list(self._space.arm.groups),
            "doubt": self.doubt,
            **self._given,
        }
        d, W = self.features, self._space.arm.width
        n = len(self._answers)
        state: dict[str, npt.NDArray[Any]] = {
            "settings": np.frombuffer(json.dumps(settings).encode(), np.uint8).copy(),
            "kinds": self._kinds.copy(),
            "kind_of": self._kind_of.copy(),
            "contexts": np.frombuffer(b"".join(a.context for a in self._answers)).reshape(n, d),
            "rows": np.frombuffer(b"".join(a.row for a in self._answers)).reshape(n, W),
            "said": np.array([(a.arm, a.allowed) for a in self._answers], np.int64).reshape(-1, 2),
            "keys": np.array([a.key for a in self._answers], np.uint64),
        }
        return state | {f"inner/{name}": a for name, a in self._inner.to_state().items()}

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return limits as they were at `to_state`, or raise `CorruptState`."""
        if not isinstance(state, Mapping):
            raise CorruptState(f"{OWNER} needs named arrays, not {state!r:.200}.")
        try:
            return cls._read(dict(state))
        except CorruptState:
            raise
        except (BridleError, *DAMAGE) as error:
            raise CorruptState(f"{OWNER}: the state is damaged: {error}") from None

    @classmethod
    def _read(cls, rest: dict[str, npt.NDArray[Any]]) -> Self:
        given = json.loads(rest.pop("settings").tobytes())
        context, arm = (Schema.from_json(given.pop(name)) for name in ("context", "arm"))
        groups, kind, doubt = given.pop("groups"), given.pop("kind"), given.pop("doubt")
        blank = np.zeros((0, arm.width))
        self = cls(kind=kind, context=context, arm=arm, rows=blank, doubt=doubt, **given)
        self._make(context, arm, groups)
        W = self._space.arm.width
        kinds, kind_of = rest.pop("kinds"), rest.pop("kind_of")
        check(kinds, np.float64, (len(kinds), W), "kinds", OWNER)
        check(kind_of, np.int64, (len(kind_of),), "kind_of", OWNER)
        inside = not len(kind_of) or (0 <= kind_of.min() and kind_of.max() < len(kinds))
        if not inside or not np.isfinite(kinds).all():
            raise CorruptState(f"{OWNER}: an arm is of a kind that cannot be.")
        self._kinds, self._kind_of = kinds.copy(), kind_of.copy()
        self._dearer = self._by_kind = None
        arm_of = {kind: k for k, kind in enumerate(kind_of.tolist())}
        lacks = self._space.arm.open(self._kinds)
        # What lacks a feature is the kind of one arm, or of none any more.
        self._names = [
            row.tobytes() + (_own(arm_of.get(i, ~i)) if lacks[i] else b"")
            for i, row in enumerate(self._kinds)
        ]
        self._number = {name: i for i, name in enumerate(self._names)}
        several = np.bincount(kind_of, minlength=len(kinds))[lacks].max(initial=0) > 1
        if len(self._number) != len(kinds) or several:
            raise CorruptState(f"{OWNER}: two kinds are the same.")
        contexts, rows = rest.pop("contexts"), rest.pop("rows")
        said, bits = rest.pop("said"), rest.pop("keys")
        n = len(bits)
        check(contexts, np.float64, (n, self.features), "contexts", OWNER)
        check(rows, np.float64, (n, W), "rows", OWNER)
        check(said, np.int64, (n, 2), "said", OWNER)
        check(bits, np.uint64, (n,), "keys", OWNER)
        if n and not (0 <= said[:, 0].min() and said[:, 0].max() < len(kind_of)):
            raise CorruptState(f"{OWNER}: an answer is about an arm that is not there.")
        if n and not ((said[:, 1] == 0) | (said[:, 1] == 1)).all():
            raise CorruptState(f"{OWNER}: an answer is neither yes nor no.")
        self._answers = [
            _Answer(c.tobytes(), r.tobytes(), k, bool(yes), key)
            for c, r, (k, yes), key in zip(
                contexts, rows, said.tolist(), bits.tolist(), strict=True
            )
        ]
        counts: dict[bytes, dict[bytes, list[int]]] = {}
        for a in self._answers:
            name = self._name(a.row, a.arm)
            counts.setdefault(a.context, {}).setdefault(name, [0, 0])[not a.allowed] += 1
        head = "inner/"
        own = {k.removeprefix(head): array for k, array in rest.items() if k.startswith(head)}
        if len(own) != len(rest):
            raise CorruptState(f"{OWNER}: no place for {sorted(rest)!r:.200}.")
        self._mixture.read(own, counts)
        self._folded = n
        self._forget_kept()
        return self

    # -- small parts -------------------------------------------------------------------------

    def _add(self, rows: Floats, groups: Sequence[str | int | None]) -> None:
        have = self._space.arm.groups
        new = [str(g) for g in dict.fromkeys(groups) if g is not None and str(g) not in have]
        if new:
            self._regroup((*have, *new))
        found = self._numbered(rows, groups, self.arms)
        self._kind_of = np.concatenate([self._kind_of, found])
        self._dearer = self._by_kind = None
        self._forget_kept()

    def _regroup(self, groups: Sequence[str]) -> None:
        """Make room for more groups: one more column each, which no arm so far has held."""
        more = np.zeros(len(groups) - len(self._space.arm.groups))
        self._make(self._space.context.schema, self._space.arm.schema, groups)
        self._kinds = np.concatenate([self._kinds, np.tile(more, (len(self._kinds), 1))], axis=1)
        tail, old = more.tobytes(), len(self._kinds[:1].tobytes()) - len(more.tobytes())
        self._names = [name[:old] + tail + name[old:] for name in self._names]
        self._number = {name: i for i, name in enumerate(self._names)}
        self._refold([a._replace(row=a.row + tail) for a in self._answers])

    def _with_groups(self, rows: Floats, groups: Sequence[str | int | None]) -> Floats:
        have = {name: i for i, name in enumerate(self._space.arm.groups)}
        flags: Floats = np.zeros((len(rows), len(have)))
        for i, group in enumerate(groups):
            if group is not None and str(group) in have:
                flags[i, have[str(group)]] = 1.0
        return np.concatenate([rows + 0.0, flags], axis=1)

    def _name(self, row: bytes, arm: int) -> bytes:
        """Return what answers about an arm are counted by: its row, or itself if it lacks any."""
        lacks = self._space.arm.open(np.frombuffer(row)[None])[0]
        return row + _own(arm) if lacks else row

    def _numbered(self, rows: Floats, groups: Sequence[str | int | None], first: int) -> Ints:
        """Return the kind of each of some arms, numbered from `first` on; those new are added.

        An arm that lacks a feature is a kind of its own: others with the same gap are unlike it.
        """
        new: list[Floats] = []
        out: Ints = np.empty(len(rows), np.int64)
        whole = self._with_groups(rows, groups)
        lacks = self._space.arm.open(whole)
        for i, row in enumerate(whole):
            name = row.tobytes() + (_own(first + i) if lacks[i] else b"")
            if name not in self._number:
                self._number[name] = len(self._number)
                self._names.append(name)
                new.append(row)
            out[i] = self._number[name]
        if new:
            self._kinds = np.concatenate([self._kinds, np.array(new)])
        return out

    def _grid(self, contexts: Floats, kinds: Ints) -> Grid:
        names = [self._names[i] for i in kinds.tolist()]
        return Grid(self._space, contexts, self._kinds[kinds], names)

    @property
    def _widest(self) -> int:
        rules = [len(m.family) for m in self._inner.members.values() if isinstance(m, JointRules)]
        return max([joint.MOST_COLUMNS, *rules])

    def _one(self, answer: _Answer) -> Grid:
        context, row = (np.frombuffer(raw)[None] + 0.0 for raw in (answer.context, answer.row))
        return Grid(self._space, context, row, [self._name(answer.row, answer.arm)])

    @property
    def _inner(self) -> Mixture:
        """What was learned from all answers."""
        self._settle()
        return self._mixture

    def _settle(self) -> None:
        while self._folded < len(self._answers):
            self._fold(self._answers[self._folded])

    def _fold(self, answer: _Answer) -> Prediction:
        before = self._mixture.fold(self._one(answer), answer.allowed, answer.key)
        self._folded += 1
        if self._folded % MARKED == 0:
            self._marks.append((self._folded, self._mixture.copy()))
            places = [0, *(at for at, _ in self._marks)]
            if len(self._marks) > MOST_MARKS:
                # The last are the nearest to one another: mostly it is late answers that change.
                gaps = [
                    (after - before) / (self._folded - at + 1)
                    for before, at, after in zip(places, places[1:], places[2:], strict=False)
                ]
                del self._marks[gaps.index(min(gaps))]
        return before

    def _refold(self, answers: Sequence[_Answer]) -> None:
        """Put these answers in the place of all others, and learn anew from the first that differs.

        Once what is believed is asked for; from the last of the places that are kept before it.
        """
        both = zip(answers, self._answers, strict=False)
        same = next((n for n, (new, old) in enumerate(both) if new != old), None)
        same = min(len(answers), len(self._answers)) if same is None else same
        self._answers = list(answers)
        if same < self._folded:
            self._marks = [mark for mark in self._marks if mark[0] <= same]
            if self._marks:
                self._folded, mixture = self._marks[-1]
                self._mixture = mixture.copy()
            else:
                self._folded = 0
                self._mixture.clear()
        self._forget_kept()

    def _forget_kept(self) -> None:
        self._kept = {}
        self._taught = None

    def _sure(self, p: float) -> bool:
        return p >= 1.0 - self.doubt


class _Kept:
    """What was predicted in one context since the last answer, by kind of arm.

    Attributes
    ----------
    row_of : array (kinds,)
        The row of `parts` of each kind, -1 where nothing was predicted.
    parts : array (n, 3)
        P(allowed), information and standard deviation.
    may : array (K,)
        Which arms are not known to be unsafe.
    """

    def __init__(self, context: Floats, kinds: int, arms: int) -> None:
        self.context = context.copy()
        self.row_of: npt.NDArray[np.int32] = np.full(kinds, -1, np.int32)
        self.parts: Floats = np.empty((0, 3))
        self.may: Bools = np.ones(arms, np.bool_)
        self._rows = 0

    def add(self, kinds: Ints, found: Prediction) -> None:
        """Keep what was predicted of n kinds."""
        n = self._rows + len(kinds)
        if n > len(self.parts):
            more = np.empty((max(n, 2 * len(self.parts)), 3))
            more[: len(self.parts)] = self.parts
            self.parts = more
        here = slice(self._rows, n)
        self.parts[here, 0] = found.p
        self.parts[here, 1] = found.information
        self.parts[here, 2] = found.sd
        self.row_of[kinds] = np.arange(self._rows, n)
        self._rows = n


def _own(arm: int) -> bytes:
    """Return what the name of an arm's own kind ends with."""
    return arm.to_bytes(8, "little", signed=True)


# --- In words -----------------------------------------------------------------------------


# So many exceptions, and words that are unsure, are named in a sentence.
SHOWN = 5
# Contexts, and kinds of arms, that are looked at before a sentence says that a word is denied.
LOOKED = 48
# What rules believe with so much is denied, or probably denied.
LIKELY = 0.5
DENIED, PROBABLY, UNSURE, ALLOWED = range(4)

# Columns of one side, that are held together.
Term = tuple[int, ...]


class PairReading(NamedTuple):
    """What is believed of pairs whose contexts share a word, read back.

    Attributes
    ----------
    where : str
        The word of the context, "under 13"; empty: all contexts.
    denied, unsure, allowed : tuple of str
        Words of an arm, or several of them together.
    exceptions : tuple of int
        Arms of which the teacher said otherwise.
    likely : tuple of str
        Words that are probably denied: rules believe it, and it is not yet sure.
    """

    where: str
    denied: tuple[str, ...]
    unsure: tuple[str, ...]
    allowed: tuple[str, ...]
    exceptions: tuple[int, ...] = ()
    likely: tuple[str, ...] = ()

    def sentence(self, names: Sequence[str] = (), everywhere: str = "all") -> str:
        """Return it as a sentence: all that is denied, exceptions, and last a few of the unsure.

        >>> reading = PairReading("under 13", ("Horror", "R"), ("Drama", "War"), (), (0,), ("PG",))
        >>> reading.sentence(["Gremlins"])
        'under 13: not Horror or R; probably not PG; exceptions: Gremlins; unsure (2): Drama, War'
        """
        parts = [f"not {_either(self.denied)}"] if self.denied else []
        if self.likely:
            parts.append(f"probably not {_either(self.likely)}")
        if self.exceptions:
            said = [str(names[k]) if k < len(names) else f"arm {k}" for k in self.exceptions]
            parts.append(f"exceptions: {_listed(said)}")
        if self.unsure:
            parts.append(f"unsure ({len(self.unsure):,}): {_listed(self.unsure)}")
        return f"{self.where or everywhere}: {'; '.join(parts) or 'all is allowed'}"


class Reader:
    """Reads limits over pairs as they are now back in words.

    Rules that are short sentences, weighed among themselves; what the members by degrees say is in
    the probabilities alone. A word is denied only where these agree: where all pairs that hold it,
    as far as they are looked at, are surely denied; where rules alone deny it, it probably is. Of
    words that stand together, only those that some arm has.

    Parameters
    ----------
    limits : PairLimits
        They are not changed.
    """

    def __init__(self, limits: PairLimits) -> None:
        self._limits, self._space = limits, limits.space

    def readings(self) -> list[PairReading]:
        """Return what rules believe, by words of a context: first what holds in all contexts.

        Exceptions are arms of which the teacher said otherwise than is said of their features.
        """
        arms, kinds = self._arms()
        where: list[Term] = [(), *((c,) for c in self._space.context.columns.tolist())]
        alone = len(where)
        # Of two words of a context only what neither says alone.
        d = self._space.context.width
        likely = (term for term, p in self._chances.items() if p >= LIKELY)
        both = dict.fromkeys(tuple(c for c in term if c < d) for term in likely)
        where += [words for words in both if len(words) > 1]
        chance = self._denial(where[:alone], arms)
        gone, doubtful = self._everywhere(chance, where, arms, kinds)
        names = _short(self._space.names)
        denied_by: dict[Term, set[Term]] = {}
        out = []
        for i, these in enumerate(where):
            told: tuple[list[str], ...] = ([], [], [], [])
            apart = self._exceptions_in(these)
            but = set(self._limits.kind_of[list(apart)].tolist())
            here = {*gone} if these else set()
            if i >= alone:
                here.update(*(denied_by[(column,)] for column in these))
            for j, arm in enumerate(arms):
                if any(set(other) <= set(arm) for other in here):
                    continue  # says nothing new
                single = i < alone and len(arm) < 2
                p = chance[i, j] if single else self._own(these, arm)
                place = DENIED if p >= LIKELY else UNSURE if p > self._limits.doubt else ALLOWED
                if not these:
                    place = PROBABLY if arm in doubtful else max(place, UNSURE)
                    place = DENIED if arm in gone else place
                elif place == DENIED:
                    looked = [kind for kind in kinds[j].tolist() if kind not in but]
                    sure = self._surely_denied(these, looked, arm)
                    place = DENIED if sure else PROBABLY
                if place <= PROBABLY:
                    here.add(arm)
                if these and place == PROBABLY and arm in doubtful:
                    continue  # as in all contexts
                word = " with ".join(names[d + column] for column in arm) or "anything"
                told[place].append(word)
            denied_by[these] = here
            if i < alone or told[DENIED]:
                denied, probably, unsure, allowed = map(tuple, told)
                word = " with ".join(names[column] for column in these)
                out.append(PairReading(word, denied, unsure, allowed, apart, probably))
        return out

    def of_arm(self, unit: int, names: Sequence[str]) -> Reading:
        """Return words of a context that deny an arm, may, or do not; `names` are of columns."""
        kind = int(self._limits.kind_of[unit])
        row = self._limits._kinds[kind]
        side, d = self._space.arm, self._space.context.width
        held = set((side.columns[row[side.columns] > side.above] + d).tolist())
        chance: dict[Term, float] = {}
        for term, p in self._chances.items():
            if {column for column in term if column >= d} <= held:
                word = tuple(column for column in term if column < d)
                chance[word] = max(chance.get(word, 0.0), p)
        short, doubt = _short(names), self._limits.doubt
        told: tuple[list[str], list[str], list[str]] = ([], [], [])
        for word, p in chance.items():
            place = 0 if p >= 1.0 - doubt else 2 if p <= doubt else 1
            if place == 0 and not self._surely_denied(word, [kind]):
                place = 1
            told[place].append(" with ".join(short[column] for column in word) or "anything")
        return Reading(*map(tuple, told))

    def _arms(self) -> tuple[list[Term], list[Ints]]:
        """Return words of arms, and those that stand together, and the kinds that hold each."""
        side, rules = self._space.arm, self._rules
        used = np.unique(self._limits.kind_of)
        held = self._limits._kinds[used] > side.thresholds
        words = side.columns[held[:, side.columns].any(axis=0)].tolist()
        arms: list[Term] = [(), *((column,) for column in words)]
        if any(rule.family.orders[1] == 2 for rule in rules.values()):
            known, first = set(words), 1 + side.words
            pairs = (side.term(t) for t in range(first, side.terms(2)))
            arms += [
                pair for pair in pairs if known.issuperset(pair) and held[:, pair].all(axis=1).any()
            ]
        return arms, [used[held[:, list(arm)].all(axis=1)] for arm in arms]

    def _own(self, where: Term, arm: Term) -> float:
        """Return the probability of the rule about just these words."""
        d = self._space.context.width
        return self._chances.get((*where, *(d + column for column in arm)), 0.0)

    @cached_property
    def _rules(self) -> dict[str, JointRules]:
        members = self._limits.members
        return {name: one for name, one in members.items() if isinstance(one, JointRules)}

    @cached_property
    def _weights(self) -> dict[str, float]:
        """How much rules are believed, among themselves."""
        raw = {name: self._limits.weights()[name] + 1e-300 for name in self._rules}
        return {name: weight / sum(raw.values()) for name, weight in raw.items()}

    def _bare(self, which: int, terms: Sequence[Term]) -> Floats:
        """Return rows of contexts (0), or arms (1), that hold some words and nothing else."""
        side = self._space.arm if which else self._space.context
        rows: Floats = np.zeros((len(terms), side.width))
        for row, term in zip(rows, terms, strict=True):
            row[list(term)] = 1.0
        return rows

    def _denial(self, where: Sequence[Term], arms: Sequence[Term]) -> Floats:
        """Return the probability that rules deny an arm with some words in a context with some.

        It is that of any rule about no more than these words: (where, arms).
        """
        rows = self._bare(1, arms)
        out: Floats = np.zeros((len(where), len(arms)))
        each = max(1, joint.BLOCK // (self._limits._widest * max(1, len(arms))))
        for at in range(0, len(where), each):
            few = where[at : at + each]
            grid = Grid(self._space, self._bare(0, few), rows)
            for name, member in self._rules.items():
                p = member.predictive(grid)[0].reshape(len(few), -1)
                out[at : at + each] += self._weights[name] * (1.0 - p)
        return out

    def _everywhere(
        self,
        chance: Floats,
        where: Sequence[Term],
        arms: Sequence[Term],
        kinds: Sequence[Ints],
    ) -> tuple[set[Term], set[Term]]:
        """Return the words of arms that are surely, and probably, denied in all contexts.

        By a rule of their own, or by one for each value of a feature.
        """
        values = [
            [where.index((column,)) for column in range(at, at + len(one.values))]
            for one, at in self._space.context.schema.encoded
            if isinstance(one, Category)
        ]
        out: set[Term] = set()
        doubtful: set[Term] = set()
        for j, arm in enumerate(arms):
            if not arm or any(set(other) <= set(arm) for other in out | doubtful):
                continue
            likely = chance[0, j] >= LIKELY or any((chance[of, j] >= LIKELY).all() for of in values)
            if likely:
                sure = self._surely_denied((), kinds[j].tolist(), arm)
                (out if sure else doubtful).add(arm)
        return out, doubtful

    def _contexts_with(self, words: Sequence[int]) -> Floats:
        """Return contexts that hold some words: those that answers were about, the newest first.

        Without words, and where there are none, contexts that hold a single word, too.
        """
        found: dict[bytes, None] = {}
        above = self._space.context.thresholds
        for answer in reversed(self._limits._answers):
            context = np.frombuffer(answer.context)
            if (context[list(words)] > above[list(words)]).all():
                found[answer.context] = None
            if len(found) == LOOKED:
                break
        rows = [np.frombuffer(raw) + 0.0 for raw in found]
        if not words:
            met = np.array(rows).reshape(-1, len(above)) > above
            new = [c for c in self._space.context.columns.tolist() if not met[:, c].any()]
            rows += list(self._bare(0, [(column,) for column in new[:LOOKED]]))
        return np.array(rows) if rows else self._bare(0, [tuple(words)])

    def _surely_denied(
        self, where: Sequence[int], kinds: Sequence[int], arm: Sequence[int] = ()
    ) -> bool:
        """Return whether all pairs of contexts with some words and kinds of arms are surely denied.

        As far as they are looked at: contexts that were taught about, and some of the kinds. Where
        there are none, of an arm that has the words `arm` and nothing else.
        """
        which = np.array(
            [kind for kind in kinds if not self._space.arm.open(self._limits._kinds[[kind]])]
        )
        contexts = self._contexts_with(where)
        if len(which):
            spread = np.linspace(0, len(which) - 1, min(len(which), LOOKED)).astype(np.int64)
            grid = self._limits._grid(contexts, which[spread])
        else:
            grid = Grid(self._space, contexts, self._bare(1, [tuple(arm)]))
        return bool((self._limits._inner.predict(grid).p < self._limits.doubt).all())

    @cached_property
    def _chances(self) -> dict[Term, float]:
        """The probability that each term is denied, by the rules, weighed among them."""
        out: dict[Term, float] = {}
        for name, member in self._rules.items():
            for number, p in enumerate(member.marginals().tolist()):
                term = member.family.term(number)
                out[term] = out.get(term, 0.0) + self._weights[name] * p
        return out

    def _exceptions_in(self, where: Term) -> tuple[int, ...]:
        """Return the arms of which the last answer in such a context differs from its features."""
        if not where:
            return ()
        last: dict[bytes, dict[int, _Answer]] = {}
        for answer in self._limits._answers:
            if all(np.frombuffer(answer.context)[column] > 0.5 for column in where):
                last.setdefault(answer.context, {})[answer.arm] = answer
        out: dict[int, None] = {}
        for context, given in last.items():
            row, each = np.frombuffer(context)[None] + 0.0, list(given.values())
            rows = np.frombuffer(b"".join(a.row for a in each)).reshape(len(each), -1) + 0.0
            names = [self._limits._name(a.row, a.arm) for a in each]
            p = self._limits._inner.predict(
                Grid(self._space, row, rows, names), alike=False
            ).p.tolist()
            for answer, q in zip(each, p, strict=True):
                if (answer.allowed and q < 0.5) or (not answer.allowed and q >= 0.5):
                    out[answer.arm] = None
        return tuple(sorted(out))


def _short(names: Sequence[str]) -> list[str]:
    """Return the words that columns stand for; the whole names where two share a word."""
    short = [str(name).partition("=")[2] or str(name) for name in names]
    return short if len(set(short)) == len(short) else [str(name) for name in names]


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _listed(words: Sequence[str]) -> str:
    more = len(words) - SHOWN
    return f"{', '.join(words[:SHOWN])}{f' and {more:,} more' if more > 0 else ''}"
