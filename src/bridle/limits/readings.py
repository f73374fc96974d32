"""What limits over pairs believe, read back in words: what is denied in which contexts.

Rules that are short sentences, weighed among themselves; what the members by degrees say is in the
probabilities alone. A word is denied only where these agree: where all pairs that hold it, as far
as they are looked at, are surely denied; where rules alone deny it, it probably is. Of words that
stand together, only those that some arm has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bridle.kernels.types import Floats, Ints
from bridle.limits import joint
from bridle.limits.joint import Grid, JointRules
from bridle.limits.rules import Reading
from bridle.schema import Category

if TYPE_CHECKING:
    from bridle.limits.pairs import PairLimits, _Answer

__all__ = ["PairReading", "Reader"]

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
    """Reads limits over pairs as they are now.

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
