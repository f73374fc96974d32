"""`FoundLimits`: rules for classes of arms, where nobody says which arms go together.

`FoundGroup` is a class as a proposal, for a person to accept or correct.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from bridle import validation
from bridle.errors import CorruptState, InvalidValue, LimitReached, NotPossible
from bridle.kernels import found as kernel
from bridle.kernels import keys, rulesets
from bridle.kernels.types import Bools, Floats, Ints
from bridle.limits import rules
from bridle.limits.base import Answer, Beliefs, Prediction
from bridle.limits.rules import Group, Reading, Terms

__all__ = ["FoundGroup", "FoundLimits", "groups_of", "joined", "numbered"]


@dataclass(frozen=True)
class FoundGroup:
    """Arms that seem to share a rule: a proposal to a person.

    Attributes
    ----------
    name : str
        What the group will be called; `dataclasses.replace` it as you like.
    arms : tuple
        Its members: numbers, or ids where an agent proposes.
    sure : float
        Probability that two of its members have the same rule, on average.
    rule : Reading
        What the answers about all of them say of the rule, if they share it.

    Examples
    --------
    >>> print(FoundGroup("found 1", (0, 4, 7), 0.97, Reading(("Horror",), ("Crime",), ())))
    These 3 arms seem to share a rule (97 % sure): not Horror; unsure: Crime
    """

    name: str
    arms: tuple[int | str, ...]
    sure: float
    rule: Reading

    def __str__(self) -> str:
        head = f"These {len(self.arms)} arms seem to share a rule ({math.floor(100 * self.sure)} %"
        return self.rule.sentence(f"{head} sure)")


def groups_of(proposal: Iterable[FoundGroup], arms: int) -> list[str | None]:
    """Return the name of the group of each arm, None where it has none: for `RuleLimits`.

    Accepting a proposal, after a person has renamed, cut or joined its groups:
    `RuleLimits(arms=K, features=d, groups=groups_of(proposal, K))`, taught the same answers.

    >>> groups_of([FoundGroup("young", (0, 2), 1.0, Reading((), (), ()))], 4)
    ['young', None, 'young', None]
    """
    owner = "groups_of"
    out: list[str | None] = [None] * validation.COUNT.check(arms, "arms", owner)
    for group in proposal:
        if not isinstance(group, FoundGroup):
            raise InvalidValue("proposal", owner, "FoundGroups", group)
        name = validation.text(group.name, "proposal", owner)
        for arm in group.arms:
            k = validation.IntRange(0, len(out) - 1).check(cast("int", arm), "proposal", owner)
            if out[k] is not None:
                remedy = "Take it out of one of them."
                raise InvalidValue("proposal", owner, "groups without a common arm", k, remedy)
            out[k] = name
    return out


def joined(same: Floats, least: float) -> list[list[int]]:
    """Join what is most alike, until no two groups are as alike as `least` on average."""
    groups = [[i] for i in range(len(same))]
    total = same.copy()  # sums over the pairs of two groups
    np.fill_diagonal(total, -1.0)
    size = np.ones(len(same))
    while len(groups) > 1:
        mean = total / (size[:, None] * size)
        a, b = sorted(divmod(int(mean.argmax()), len(groups)))
        if mean[a, b] < least or a == b:
            break
        total[a] += total[b]
        total[:, a] = total[a]
        total[a, a] = -1.0
        total = np.delete(np.delete(total, b, 0), b, 1)
        size[a] += size[b]
        size = np.delete(size, b)
        groups[a] = sorted(groups[a] + groups.pop(b))
    return groups


def numbered(classes: Ints) -> bool:
    """Whether the classes of each row are numbered from 0 on, as they first occur."""
    if classes.shape[1] == 0:
        return True
    before = np.maximum.accumulate(classes, axis=1)
    before = np.concatenate([np.full((len(classes), 1), -1), before[:, :-1]], axis=1)
    return bool(((classes >= 0) & (classes <= before + 1)).all())


# --- Groups that are found, not declared: arms that seem to share a rule, and how sure that is


# Up to so many terms all 2^T rules are weighed; there is no other way here.
MAX_TERMS = 12
# Arms times rules: each has a count and a weight, and an answer looks at all of them.
MAX_CELLS = 2**24
DEFAULT_DOUBT = 0.005

DENSITY = validation.FloatRange(1e-6, 1.0 - 1e-6)
ERROR = validation.FloatRange(1e-6, 0.49)
DOUBT = validation.FloatRange(0.0, 0.5, open_low=True, open_high=True)
DEFER = validation.FloatRange(0.5, 1.0)
CONCENTRATION = validation.FloatRange(1e-6, 1e6)
CHAINS = validation.IntRange(1, 100_000)
OTHERS = validation.IntRange(0, 1_000_000)

SETTINGS = ("density", "error", "doubt", "dismiss", "defer", "concentration")

_FOUND = np.uint64(0x464F554E)  # what the keys are for: no other use of the seed shares bits


class FoundLimits(Beliefs):
    """Rules for classes of arms, where nobody says which arms go together.

    Each arm belongs to a class, each class has a rule: a set of denied features, and a context is
    denied if it holds any. How many classes there are, who is in them and what they deny is all
    learned from the answers: a Dirichlet process over rules. Each of `chains` samples holds a guess
    of who goes together; rules are summed over exactly. So what is believed is the same for equal
    answers with equal keys in the same order, bit for bit, and the only error of sampling is in the
    classes of the *other* arms.

    Every arm is a unit of its own. Any answer moves what is believed of all. Works up to 12
    features, as it weighs all 2^12 rules; beyond, declare groups and use `RuleLimits`.

    Parameters
    ----------
    arms, features : int
        K and d.
    density : float, default 0.33
        Prior probability that a class denies a feature.
    error : float, default 0.001
        How often the teacher errs.
    doubt : float, default 0.005
        Safe is what is allowed with probability 1 − doubt or more.
    dismiss : float, default 0.05
        What is allowed with a lower probability is not possible.
    defer : float, default 0.95
        What is allowed with a higher probability, but is not safe yet, does not count as possible
        for now: the answer would teach little, and what is asked about the arm elsewhere settles
        it. With 1.0 nothing is deferred.
    chains : int, default 60
        Samples of who goes together.
    others : int, default 20
        With each answer the class of its arm is drawn anew in every chain, and so is the class of
        so many others, picked at random in each.
    concentration : float, default 1.0
        How readily a new class is opened: among n arms about concentration · ln n are expected.
    seed : int, default 0
        With the answers' keys it gives all random numbers.
    thresholds : d floats, optional
        What a feature must be above to be held; NaN: no rule can deny it. See `Terms`.

    Examples
    --------
    >>> limits = FoundLimits(arms=4, features=2)
    >>> for arm in (0, 1, 2):
    ...     for context, allowed in (([1, 0], False), ([0, 1], True)):
    ...         _ = limits.learn(context, arm, allowed, key=arm)
    >>> print(limits.proposal(["Horror", "Drama"])[0])
    These 3 arms seem to share a rule (99 % sure): not Horror
    >>> limits.predict(3, [[1, 0], [0, 1]]).p.round(1).tolist()
    [0.2, 0.9]
    """

    terms: Terms
    shares_groups = False
    finds_groups = True
    has_sentences = True
    asks_consent = True
    knows_errors = True

    def __init__(
        self,
        *,
        arms: int,
        features: int,
        density: float = 0.33,
        error: float = 0.001,
        doubt: float = DEFAULT_DOUBT,
        dismiss: float = 0.05,
        defer: float = 0.95,
        chains: int = 60,
        others: int = 20,
        concentration: float = 1.0,
        seed: int = 0,
        thresholds: npt.ArrayLike | None = None,
    ) -> None:
        owner = "FoundLimits"
        self.terms = Terms(features, False, thresholds)
        T = len(self.terms)
        if T > MAX_TERMS:
            remedy = "Use RuleLimits, in declared groups or an arm at a time: it samples rules."
            wanted = f"at most {MAX_TERMS} features that a rule can deny"
            raise InvalidValue("features", owner, wanted, T, remedy)
        K = validation.IntRange(1, MAX_CELLS >> T).check(arms, "arms", owner)
        self.density = DENSITY.check(density, "density", owner)
        self.error = ERROR.check(error, "error", owner)
        self.doubt = DOUBT.check(doubt, "doubt", owner)
        self.dismiss = DOUBT.check(dismiss, "dismiss", owner)
        self.defer = DEFER.check(defer, "defer", owner)
        self.chains = CHAINS.check(chains, "chains", owner)
        self.others = OTHERS.check(others, "others", owner)
        self.concentration = CONCENTRATION.check(concentration, "concentration", owner)
        self.seed = validation.SEED.check(seed, "seed", owner)
        logit = math.log(self.density) - math.log1p(-self.density)
        prior = np.exp(rulesets.log_priors(np.full(T, logit)) + T * math.log1p(-self.density))
        self._prior: Floats = prior / kernel.total_of(prior)
        odds = math.log1p(-self.error) - math.log(self.error)
        power: Floats = np.exp(-odds * np.arange(math.ceil(700.0 / odds) + 1))
        power[-1] = 0.0
        self._power = power
        self._start = keys.stream(self.seed, _FOUND)
        self._forget(K)

    def _forget(self, K: int) -> None:
        N = len(self._prior)
        self._wrong: kernel.Counts = np.zeros(
            (K, N), np.int32
        )  # answers of an arm against each rule
        self._like: Floats = np.ones((K, N))  # their probability under each rule, up to a factor
        self._answers: Ints = np.zeros(K, np.int64)
        self._classes: Ints = np.full((self.chains, K), -1, np.int64)
        self._inside: Floats | None = None

    @property
    def arms(self) -> int:
        """Number of arms, K."""
        return len(self._answers)

    @property
    def features(self) -> int:
        """Length of a context, d."""
        return self.terms.features

    @property
    def classes(self) -> Ints:
        """The class of each arm in each chain, (chains, K); −1 for arms without answers.

        Classes are numbered from 0 on, as they first occur.
        """
        return self._classes.copy()

    @property
    def found(self) -> float:
        """Number of classes among the arms that were asked about, on average over the chains."""
        return float((self._classes.max(axis=1) + 1).mean())

    def learn(self, context: npt.ArrayLike, arm: int, allowed: bool, key: int = 0) -> Ints:
        """Fold one answer of the teacher; return the units whose belief changed: all of them."""
        self._fold(*self._checked(context, arm, allowed, key, "FoundLimits.learn"))
        return np.arange(self.arms)

    def refit(
        self, unit: int, contexts: npt.ArrayLike, allowed: npt.ArrayLike, keys: npt.ArrayLike
    ) -> Ints:
        """Raise `NotPossible`: a unit's answers alone cannot be taken out of what was found."""
        raise NotPossible("Found limits are refitted with all answers: see refit_all.")

    def refit_all(self, answers: Iterable[Answer]) -> Ints:
        """Forget everything and fold these answers, in order: what a retraction leaves.

        Each is (context, arm, allowed, key). Gives the units whose belief changed: all of them.
        """
        owner = "FoundLimits.refit_all"
        checked = [self._checked(*each, owner) for each in answers]
        self._forget(self.arms)
        for one in checked:
            self._fold(*one)
        return np.arange(self.arms)

    def predict(self, unit: int, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of a unit in each of n contexts, (n, d)."""
        owner = "FoundLimits.predict"
        k = validation.IntRange(0, self.arms - 1).check(unit, "unit", owner)
        return self._prediction(self._beliefs()[k, self._free(contexts, owner)])

    def predict_all(self, contexts: npt.ArrayLike) -> Prediction:
        """Return what is believed of all units: (U, n), the bits of `predict` unit by unit."""
        return self._prediction(self._beliefs()[:, self._free(contexts, "FoundLimits.predict_all")])

    def predict_answer(self, unit: int, contexts: npt.ArrayLike) -> Floats:
        """Return the probability that the teacher, who may err, says "allowed": (n,)."""
        return self.error + (1.0 - 2.0 * self.error) * self.predict(unit, contexts).p

    def marginals(self, unit: int) -> Floats:
        """Return the probability that a term is denied, for each: (T,)."""
        k = validation.IntRange(0, self.arms - 1).check(unit, "unit", "FoundLimits.marginals")
        return self._denied(self._beliefs()[k])

    def describe(self, unit: int, names: Sequence[str]) -> Reading:
        """Read an arm's rule back, in the names of the columns of a context."""
        return self._reading(self.marginals(unit), names)

    def proposal(
        self, names: Sequence[str] | None = None, threshold: float = 0.5
    ) -> list[FoundGroup]:
        """Propose groups of arms that seem to share a rule, for a person to accept or correct.

        The two arms, or groups of arms, whose members most likely have the same rule are joined,
        until that is less likely than `threshold` on average (average linkage). Arms that no answer
        was about, and arms that stay alone, are in no group.

        `names` are those of the columns of a context. The largest group comes first; `groups_of`
        turns the list into what `RuleLimits` takes.
        """
        least = validation.FRACTION.check(threshold, "threshold", "FoundLimits.proposal")
        if names is None:
            names = [f"feature {i}" for i in range(self.features)]
        self.terms.names(names)  # refuses names of another number, even if there is no group
        asked = np.flatnonzero(self._answers)
        same: Floats = np.empty((len(asked), len(asked)))
        kernel.share_rules(self._classes, asked, self._wrong, self._prior, self._power, same)
        out: list[FoundGroup] = []
        for members in sorted(joined(same, least), key=lambda group: (-len(group), group)):
            if len(members) < 2:
                continue
            pairs = same[np.ix_(members, members)][np.triu_indices(len(members), 1)]
            held: Floats = np.empty(len(self._prior))
            tally = self._wrong[asked[members]].sum(axis=0, dtype=np.int32)
            kernel.weigh_class(self._prior, tally, self._power, held)
            kernel.sum_within(held)
            rule = self._reading(self._denied(held), names)
            arms = tuple(asked[members].tolist())
            sure = min(math.fsum(pairs) / len(pairs), 1.0)
            out.append(FoundGroup(f"found {len(out) + 1}", arms, sure, rule))
        return out

    def holds_nothing(self, contexts: Floats) -> Bools:
        """Return which contexts hold none of its terms: (n,)."""
        return np.asarray(~self.terms.held_in(contexts).any(axis=1))

    @property
    def unused_columns(self) -> set[int]:
        """The columns that are no terms."""
        return set(range(self.features)) - set(self.terms.columns.tolist())

    def check_grow(self, arms: int) -> None:
        """Raise `LimitReached` if there is no room for so many arms more."""
        if arms > self._arms_left:
            remedy = "Declare groups, and make the agent with limits='rules' or 'auto'."
            raise LimitReached("arms of found limits", self.arms + self._arms_left, remedy)

    def without(self, context: Floats, arm: int, allowed: bool) -> FoundLimits:
        """Return limits with this answer out of the counts, and the groups as they were found.

        To find the groups anew takes a minute from a thousand answers on.
        """
        state = self.to_state()
        mask = int(self._masks(self.terms.held(context[None]))[0])
        allows = (np.arange(state["wrong"].shape[1]) & mask) == 0
        state["wrong"][arm] -= allows != allowed
        state["answers"][arm] -= 1
        if not state["answers"][arm]:  # it is in no group then
            state["classes"][:, arm] = -1
            for chain in state["classes"]:
                numbers: dict[int, int] = {-1: -1}
                for old in chain.tolist():
                    numbers.setdefault(old, len(numbers) - 1)
                chain[:] = [numbers[old] for old in chain.tolist()]
        return FoundLimits.from_state(state)

    def refit_seconds(self, n: int) -> float:
        """Return how long `without` takes: the groups are not found anew."""
        return 2e-3 + 1.2e-7 * (self.arms * 2.0 ** len(self.terms))

    @property
    def _arms_left(self) -> int:
        return (MAX_CELLS >> len(self.terms)) - self.arms

    def grow(self, arms: int = 1, groups: Sequence[Group] | None = None) -> None:
        """Add arms that no answer was about: any class may be theirs, by its size, or a new one.

        `groups` are not used: here they are found.
        """
        n = validation.IntRange(0, self._arms_left).check(arms, "arms", "FoundLimits.grow")
        N = len(self._prior)
        self._wrong = np.concatenate([self._wrong, np.zeros((n, N), np.int32)])
        self._like = np.concatenate([self._like, np.ones((n, N))])
        self._answers = np.concatenate([self._answers, np.zeros(n, np.int64)])
        fresh = np.full((self.chains, n), -1, np.int64)
        self._classes = np.concatenate([self._classes, fresh], axis=1)
        self._inside = None

    def copy(self) -> FoundLimits:
        """Return limits with the same knowledge that learn apart from now on."""
        twin = object.__new__(FoundLimits)
        twin.__dict__.update(self.__dict__)
        for name in ("_wrong", "_like", "_answers", "_classes"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def to_state(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known, as named arrays."""
        above = np.full(self.features, np.nan)
        above[self.terms.columns] = self.terms.above
        return {
            "thresholds": above,
            "settings": np.array([getattr(self, name) for name in SETTINGS]),
            "sampling": np.array([self.chains, self.others]),
            "seed": np.array(self.seed, np.uint64),
            "answers": self._answers.copy(),
            "wrong": self._wrong.copy(),
            "classes": self._classes.copy(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return limits as they were at `to_state`."""
        if not isinstance(state, Mapping):
            raise CorruptState(f"FoundLimits needs named arrays, not {state!r:.200}.")
        try:
            return cls._read(dict(state))
        except rules.DAMAGE as error:
            raise CorruptState(f"FoundLimits: the state is damaged: {error}") from None

    @classmethod
    def _read(cls, rest: dict[str, npt.NDArray[Any]]) -> Self:
        answers, wrong, classes = (rest.pop(name) for name in ("answers", "wrong", "classes"))
        settings = dict(zip(SETTINGS, rest.pop("settings").tolist(), strict=True))
        chains, others = rest.pop("sampling").tolist()
        above, seed = rest.pop("thresholds"), rest.pop("seed")
        if rest:
            raise CorruptState(f"FoundLimits: there is no place for the arrays {sorted(rest)}.")
        # Before anything of a size that the state only claims to have is made.
        K, T = len(answers), int((~np.isnan(above)).sum())
        if T > MAX_TERMS:
            raise CorruptState(f"FoundLimits: {T} terms are more than {MAX_TERMS}.")
        rules.check(answers, np.int64, (K,), "answers", "FoundLimits")
        rules.check(wrong, np.int32, (K, 1 << T), "wrong", "FoundLimits")
        rules.check(classes, np.int64, (chains, K), "classes", "FoundLimits")
        self = cls(
            arms=K,
            features=len(above),
            chains=chains,
            others=others,
            seed=int(seed),
            thresholds=above,
            **settings,
        )
        self._answers, self._wrong, self._classes = (
            array.copy(order="C") for array in (answers, wrong, classes)
        )
        if answers.min() < 0 or wrong.min() < 0 or (wrong > answers[:, None]).any():
            raise CorruptState("FoundLimits: 'wrong' must be counts of some of the 'answers'.")
        asked = np.flatnonzero(answers)
        if (classes[:, answers == 0] != -1).any() or not numbered(classes[:, asked]):
            raise CorruptState("FoundLimits: 'classes' are not those of arms with answers.")
        for k in asked:
            self._weigh_arm(int(k))
        return self

    def _checked(
        self, context: npt.ArrayLike, arm: int, allowed: bool, key: int, owner: str
    ) -> tuple[int, int, bool, int]:
        row = validation.vector(context, self.features, "context", owner)
        k = validation.IntRange(0, self.arms - 1).check(arm, "arm", owner)
        answer = validation.truth(allowed, "allowed", owner)
        bits = validation.SEED.check(key, "key", owner)
        return int(self._masks(self.terms.held(row[None]))[0]), k, answer, bits

    def _fold(self, mask: int, k: int, allowed: bool, key: int) -> None:
        # Which answer it is counts too: a caller who gives no keys must not get the same numbers
        # over and over.
        number = np.uint64(int(self._answers.sum()) + 1)
        bits = keys.mix(np.uint64(keys.key_of(self._start, number)) ^ np.uint64(key))
        self._wrong[k] += ((np.arange(len(self._prior)) & mask) == 0) != allowed
        self._answers[k] += 1
        self._weigh_arm(k)
        kernel.move(
            self._classes,
            np.flatnonzero(self._answers),
            k,
            self.others,
            self._wrong,
            self._like,
            self._prior,
            self._power,
            self.concentration,
            np.uint64(bits),
        )
        self._inside = None

    def _weigh_arm(self, k: int) -> None:
        against = self._wrong[k] - self._wrong[k].min()
        self._like[k] = self._power[np.minimum(against, len(self._power) - 1)]

    def _beliefs(self) -> Floats:
        """P(the rule of each arm is a set within M), for every M: (K, 2^T)."""
        if self._inside is None:
            inside: Floats = np.empty(self._like.shape)
            unseen: Floats = np.empty(len(self._prior))
            asked = np.flatnonzero(self._answers)
            kernel.believe(
                self._classes,
                asked,
                self._wrong,
                self._like,
                self._prior,
                self._power,
                self.concentration,
                inside,
                unseen,
            )
            inside[self._answers == 0] = unseen
            self._inside = inside
        return self._inside

    def _masks(self, held: Bools) -> Ints:
        out: Ints = rulesets.masks_of(held, False, len(self.terms))
        return out

    def _free(self, contexts: npt.ArrayLike, owner: str) -> Ints:
        """Return the terms that each context does not hold, as bits; a rule within allows it."""
        return (len(self._prior) - 1) ^ self._masks(self.terms.held(contexts, "contexts", owner))

    def _prediction(self, p: Floats) -> Prediction:
        q = self.error + (1.0 - 2.0 * self.error) * p
        known = rulesets.entropy(self.error)
        information = np.maximum(-q * np.log(q) - (1.0 - q) * np.log1p(-q) - known, 0.0)
        safe = p >= 1.0 - self.doubt
        possible = safe | ((p >= self.dismiss) & (p <= self.defer))
        return Prediction(p, safe, possible, information, np.sqrt(p * (1.0 - p)))

    def _denied(self, inside: Floats) -> Floats:
        out: Floats = 1.0 - inside[(len(inside) - 1) ^ (1 << np.arange(len(self.terms)))]
        return out

    def _reading(self, chance: Floats, names: Sequence[str]) -> Reading:
        every = self.terms.all()
        words = dict(zip(every, self.terms.names(names), strict=True))
        return Reading.of(words, dict(zip(every, chance.tolist(), strict=True)), self.doubt)
