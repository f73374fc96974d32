"""What an agent chooses where arms have features and share what is learned of them.

One draw of the shared weights serves all arms of a decision, so their scores are dependent. Arms
are looked at best first, and the limits are asked only about those that could be played or asked
about: a catalogue of many thousands costs little more than its scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bridle.agent.config import Arm, ArmFeatures, ArmId, ItemId
from bridle.agent.limits_state import Case, Seen, Waiting, hashed
from bridle.agent.outcomes import Odds
from bridle.agent.state import RETIRED, AgentState
from bridle.errors import NotPossible
from bridle.kernels import choice, doubt, keys, questions, wins
from bridle.kernels.questions import FIRST_LOOK, MORE
from bridle.kernels.slates import ranked
from bridle.kernels.types import Bools, Floats, Ints, Uints, Weights
from bridle.policies import Formula, Masked, Policy, Scores, Weighted, chosen, odds_of
from bridle.slates import Slate, choose_slate, drawn, place_odds

if TYPE_CHECKING:
    from bridle.agent.selection import Selector

__all__ = ["DRAWS", "Candidates", "JointChoice", "scores_for"]

# Numbers that are multiplied for the scores of one decision before it waits until they are wanted.
LITTLE_WORK = 500_000
# Draws that a propensity is estimated by.
DRAWS = 1_000
# If none of so many is safe, best first, none is looked for further down but what was allowed by
# name.
MOST_LOOKED = 10_000
# So many arms are looked at then: blocks, each four times the one before, until that is passed.
REACH = 21_840
# How many arms are asked for where what is known of a context may do, and where the limits are to
# be asked: about many at once, as a few more cost little.
AGAIN, ANEW = 2, 24
# Arms in doubt that are weighed for one question: those of the highest draws.
MOST_WEIGHED = 2_000
REWARD, LIMIT, V, EPSILON = 0, 1, 2, 5  # places in `Weights`
_NO_PLACES: Ints = np.empty(0, np.int64)
_NO_SCORES: Floats = np.empty(0)
_NO_MARKS = np.empty(0, np.int8)


def best_few(scores: Floats, may: Bools, key: np.uint64, few: int) -> Ints:
    """Return the places of the `few` highest scores among those that may be, best first.

    Of equal scores the one with the higher bits comes first.
    """
    places, bits = np.empty(few, np.int64), np.empty(few, np.uint64)
    return places[: ranked(scores, may, key, places, bits)]


def scores_for(parts: Floats, may: Bools, plays: float = 0.0) -> Scores:
    """Return what a policy sees that is not seven numbers, in arrays of its own."""
    mean, sd, limit_mean, limit_sd = parts[:4].copy()
    return Scores(mean, sd, limit_mean, limit_sd, may.copy(), may.copy(), float(plays))


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What can be had at one decision, n of them: all arms, some, and some that nobody stored.

    Attributes
    ----------
    numbers : array of n ints, or None
        The number of each arm, those that nobody stored past all others; None: all arms, in order.
    ids : tuple of n arm ids
        Their names.
    may : array of n bools
        Which of them may be played, as far as rules, denials and a certificate say.
    rows : array (m, p)
        The features of the last m of them, which nobody stored.
    visitors : tuple of m arms
        Those.
    """

    numbers: Ints | None
    ids: tuple[ArmId, ...]
    may: Bools
    rows: Floats
    visitors: tuple[Arm, ...]

    @property
    def stored(self) -> int:
        """How many of them the agent has."""
        return len(self.may) - len(self.visitors)

    @property
    def keys(self) -> Uints:
        """What names those that nobody stored among the keys of draws."""
        return np.array([hashed(f"{arm.id!r}") for arm in self.visitors], np.uint64)

    def number(self, place: int) -> int:
        """Return the number of the arm at a place."""
        return place if self.numbers is None else int(self.numbers[place])

    def place(self, number: int) -> int:
        """Return where an arm stands, -1 if it is not among them."""
        if self.numbers is None:
            return number
        found = np.flatnonzero(self.numbers == number)
        return int(found[0]) if found.size else -1


def candidates(
    state: AgentState,
    row: Floats,
    among: Sequence[ArmId] | None,
    visitors: Sequence[Arm],
    item: ArmId | None,
    policy: Policy,
) -> Candidates:
    """Return what can be had at a decision; `visitors` are of `among`, and nobody stored them."""
    assert state.settings.arm_features is not None
    width = state.settings.arm_features.width
    rows = np.empty((0, width))
    if among is None:
        may = state.eligible(row, None, item, policy)
        return Candidates(None, state.arm_ids, may, rows, ())
    unknown = {arm.id: arm for arm in visitors if arm.id not in state.number_of}
    known = [state.arm_number(arm) for arm in among if arm not in unknown]
    may = state.eligible(row, known, item, policy)[known]
    if unknown:
        raws = [
            arm.features.raw for arm in unknown.values() if isinstance(arm.features, ArmFeatures)
        ]
        rows = np.frombuffer(b"".join(raws)).reshape(-1, width)
        new = [
            state.certificate is None
            and not any(
                rule.denied(row) and rule.speaks_of(arm.id, arm.group, one)
                for rule in state.compiled_rules
            )
            for arm, one in zip(unknown.values(), rows, strict=True)
        ]
        may = np.concatenate([may, np.array(new, np.bool_)])
    K = len(state.arms)
    numbers = np.array([*known, *range(K, K + len(unknown))], np.int64)
    ids = (*(state.arm_ids[k] for k in known), *unknown)
    return Candidates(numbers, ids, may, rows, tuple(unknown.values()))


class JointScoring:
    """The scores of a decision among many arms, computed if they are asked for in time.

    Parameters
    ----------
    choice : JointChoice
        What was chosen from, as long as the agent has learned nothing since.
    """

    def __init__(self, choice: JointChoice) -> None:
        self._choice, self._version = choice, choice.state.version
        self._parts: Floats | None = None

    def parts(self) -> Floats:
        """Return the scores, (7, n); raise `NotPossible` where it is too late for them."""
        if self._parts is None:
            # The decision itself may have been folded since: that moves no score.
            if self._choice.state.unscored.moved != self._choice.moved:
                raise NotPossible(
                    f"The scores of {len(self._choice.candidates.may):,} arms were not computed, "
                    "and the agent has learned since. Ask for them before the next event, or have "
                    "the decision explained from the log."
                )
            self._parts = self._choice.shown()
        return self._parts

    def __reduce__(self) -> tuple[Any, tuple[Floats]]:
        return np.array, (self.parts(),)  # a copy has the numbers alone


class JointChoice:
    """One decision of an agent whose arms share a reward model.

    Parameters
    ----------
    selector : Selector
        Whose keys, policy and state it takes.
    row : array
        The context, encoded.
    id : int or str
        Of the decision.
    among, visitors, item
        As in `candidates`.
    """

    def __init__(
        self,
        selector: Selector,
        row: Floats,
        id: ItemId,
        among: Sequence[ArmId] | None,
        visitors: Sequence[Arm],
        item: ArmId | None,
    ) -> None:
        state = selector.state
        model = state.shared
        assert model is not None
        self.state, self.policy, self.model = state, selector.policy, model
        self.selector, self.row, self.id, self.item = selector, row, id, item
        inner = self.policy.policy if isinstance(self.policy, Masked) else self.policy
        # Whether it blends scores and draws; else it has a formula for its probabilities.
        self.blends = isinstance(inner, Weighted)
        # One of those that need every arm's mean reward and nothing else.
        self._formula = inner if isinstance(inner, Formula) else None
        self.candidates = candidates(state, row, among, visitors, item, self.policy)
        self.weights: Floats = selector.weights
        self.key = np.uint64(keys.key_of(*selector.decide_key(id)))
        self.moved = state.unscored.moved
        self.case: Case = row.tobytes() if item is None else item
        waits = state.questions.waiting.get(id, Waiting(b"", None))
        self.waits = waits
        # What the teacher allowed: of this very item, and in this very decision.
        here = set(waits.allowed)
        self.allowed_now = {k for k in here if k < len(state.arms)}
        self.allowed = self.allowed_now | set(state.allowed_here(row, item))
        self.frozen = state.purse is not None and state.purse.frozen
        w = Weights(*self.weights.tolist())
        # Whether scores are draws of the reward and nothing else: then few of them are needed.
        alone = self.blends and w.reward == 1.0 and w.limit == 0.0
        self._plain = alone and w.bonus == 0.0
        # The same of their means and spreads, as upper bounds are: nothing is drawn.
        self._bonus = float(w.bonus) if alone and w.v == 0.0 else 0.0
        self._few = (self._plain or self._bonus != 0.0) and self.candidates.numbers is None
        self._drawn: Floats | None = None

    # -- scores ------------------------------------------------------------------------------

    @property
    def spread(self) -> float:
        """How far draws lie from their means, in posterior standard deviations of noise 1."""
        return float(self.weights[V])

    @property
    def draws(self) -> Floats:
        """The joint draw of this decision: (n,)."""
        if self._drawn is None:
            self._drawn = self._draw(self.key)
        return self._drawn

    def _draw(self, key: np.uint64, spread: float | None = None) -> Floats:
        """Return one joint draw of the reward of every candidate; their means if v is 0."""
        these = self.candidates
        if spread is None:
            spread = self.spread if self.blends else 0.0
        known = None if these.numbers is None else these.numbers[: these.stored]
        if these.visitors:
            both = (
                self.model.draw(self.row, int(key), spread, known),
                self.model.draw_rows(self.row, int(key), spread, these.rows, these.keys),
            )
            return np.concatenate(both)
        return self.model.draw(self.row, int(key), spread, known)

    def means(self) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the reward of every candidate."""
        these = self.candidates
        known = None if these.numbers is None else these.numbers[: these.stored]
        mean, sd = self.model.scores(self.row, known)
        if not these.visitors:
            return mean, sd
        more = self.model.score_rows(self.row, these.rows)
        return np.concatenate([mean, more[0]]), np.concatenate([sd, more[1]])

    def _means(self) -> Floats:
        """Return the mean of the reward of every candidate."""
        these = self.candidates
        if these.numbers is not None and 16 * len(these.numbers) < len(self.state.arms):
            return self.means()[0]
        mean = self.model.means(self.row)
        if these.numbers is not None:
            mean = mean[these.numbers[: these.stored]]
        if these.visitors:
            mean = np.concatenate([mean, self.model.score_rows(self.row, these.rows)[0]])
        return mean

    def parts(self) -> Floats:
        """Return all that a `Decision` shows of its candidates: (7, n)."""
        out = np.zeros((7, len(self.candidates.may)))
        out[0], out[1] = self.means()
        out[2], out[3] = self._limit_parts()
        w = Weights(*self.weights.tolist())
        out[4] = w.reward * out[0] + w.limit * out[2] + w.bonus * out[1]
        out[5] = np.hypot(w.reward * w.v * out[1], w.limit * w.v_limit * out[3])
        out[6] = self._blend(self.draws, self.key)
        return out

    def shown(self) -> Floats:
        """Return `parts` by the numbers of arms, where the agent has all candidates: (7, K)."""
        parts, numbers = self.parts(), self.candidates.numbers
        if numbers is None or self.candidates.visitors:
            return parts
        out = np.zeros((7, len(self.state.arms)))
        out[:, numbers] = parts
        return out

    def shown_may(self) -> Bools:
        """Return who may be played, in the order of `shown`; read only."""
        may, numbers = self.candidates.may.copy(), self.candidates.numbers
        if numbers is not None and not self.candidates.visitors:
            every = np.zeros(len(self.state.arms), np.bool_)
            every[numbers] = may
            may = every
        may.flags.writeable = False
        return may

    def scored(self) -> Floats | JointScoring:
        """Return `shown` at once where that is little work, else what computes it when asked."""
        work = len(self.candidates.may) * (self.model.arm_features + 1) ** 2
        return self.shown() if work <= LITTLE_WORK else JointScoring(self)

    def _scores(self, may: Bools) -> Scores:
        return scores_for(self.parts(), may, self.state.totals[1])

    def _top(self, may: Bools, key: np.uint64, few: int) -> tuple[Ints, Floats]:
        """Return the few best of all arms that may be played, and their scores; -1 for none."""
        return self.model.top(self.row, may, int(key), self.spread, few, self._bonus)

    def _blend(self, draws: Floats, key: np.uint64) -> Floats:
        """Return the score of every candidate: its reward draw, and what its limits add."""
        if not self.blends or self._plain:
            return draws
        w = Weights(*self.weights.tolist())
        scores = w.reward * draws
        if w.bonus != 0.0:
            scores = scores + w.bonus * self.means()[1]
        if w.limit != 0.0:
            p, sd = self._limit_parts()
            scores = scores + w.limit * p
            if w.v_limit != 0.0 and not self.policy.needs_limits:
                noise = np.empty(len(draws))
                keys.fill_normals(np.uint64(keys.aside(key)), noise)
                scores = scores + w.limit * w.v_limit * sd * noise
        return scores

    def _limit_parts(self) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of "allowed" of every candidate, as a blend weighs."""
        limits, these = self.state.limits_state.limits, self.candidates
        if limits.linear is None:
            seen = self._look(np.arange(len(these.may)))
            return seen.p, seen.sd
        mean, sd = limits.scores(self.row)
        return (mean, sd) if these.numbers is None else (mean[these.numbers], sd[these.numbers])

    # -- limits ------------------------------------------------------------------------------

    def _look(self, places: Ints) -> Seen:
        """Return what is believed of candidates, computed as far as it was not before."""
        return self.state.limits_state.look(self.row, self.candidates, places)

    def marks(self, places: Ints) -> Any:
        """Return what may be done with candidates: play them, ask about them, or neither."""
        believed = self._look(places)
        safe, these = believed.marks == doubt.SAFE, self.candidates
        said = self.allowed_now if self.frozen else self.allowed
        if said:
            numbers = places if these.numbers is None else these.numbers[places]
            by_name = np.isin(numbers, list(said))
            safe = by_name if self.frozen else safe | by_name
        elif self.frozen:
            safe = np.zeros(len(places), np.bool_)
        out = np.where(safe, questions.SAFE, questions.IN_DOUBT)
        out[~these.may[places]] = questions.OUT
        return out.astype(np.int8)

    def believed(self) -> Floats:
        """Return the probability that each candidate is allowed; what people said is certain."""
        p = self._look(np.arange(len(self.candidates.may))).p.copy()
        for place in range(len(p)):
            if not self.candidates.may[place]:
                p[place] = 0.0
            elif self.candidates.number(place) in self.allowed:
                p[place] = 1.0
        return p

    def walk(self, key: np.uint64) -> Iterator[tuple[Ints, Floats]]:
        """Yield the places of candidates that may be played and their scores in the draw of a key.

        Best first, in growing blocks.
        """
        may, few = self.candidates.may.copy(), FIRST_LOOK
        scores: Floats | None = None
        ahead: tuple[Ints, Floats] | None = None
        while True:
            if ahead is not None:
                (found, top), ahead = ahead, None
            elif self._few:
                # One draw for the first two blocks: a few more cost less than to draw again.
                both = few * (1 + MORE) if few == FIRST_LOOK else few
                both = min(both, len(may))
                found, top = self._top(may, key, both)
                found, top = found[found >= 0], top[found >= 0]
                ahead = found[few:], top[few:]
                found, top = found[:few], top[:few]
            else:
                if scores is None:
                    own = self.draws if key == self.key else self._draw(key)
                    scores = self._blend(own, key)
                found = best_few(scores, may, key, few)
                top = scores[found]
            if not found.size:
                return
            yield found, top
            may[found] = False
            few = min(few * MORE, len(may))

    def best_safe(self, key: np.uint64) -> tuple[int, Ints, Floats, Any]:
        """Return the best safe candidate in the draw of a key, -1 if none is.

        And what was looked at for it: places, scores and marks, best first.
        """
        met, scored, marked = [_NO_PLACES], [_NO_SCORES], [_NO_MARKS]
        best, looked = -1, 0
        for block, scores in self.walk(key):
            marks = self.marks(block)
            met.append(block)
            scored.append(scores)
            marked.append(marks)
            looked += len(block)
            safe = np.flatnonzero(marks == questions.SAFE)
            if safe.size:
                best = int(block[safe[0]])
                break
            if looked >= MOST_LOOKED:
                best = self._best_allowed(key)
                break
        return best, np.concatenate(met), np.concatenate(scored), np.concatenate(marked)

    def best_open(self, key: np.uint64) -> int:
        """Return what `best_safe` does first, by passing over what is known to be unsafe here.

        What an arm scores does not depend on which others may be played, so it is the same arm.
        """
        state, every = self.state, self.candidates.may
        pairs, rates = state.limits_state.pairs, state.limits_state.rates
        if pairs is None or not self._few or self.frozen:
            return self.best_safe(key)[0]
        named = [k for k in self.allowed if every[k]]
        if rates is not None and not rates.holds(0):  # nothing is safe but what was allowed by name
            return self.best_safe(key)[0] if named else -1
        may: Bools = np.empty(len(every), np.bool_)
        few = AGAIN if pairs.has_looked(self.row) else ANEW
        while True:
            np.logical_and(every, pairs.unsettled(self.row), out=may)
            may[named] = True
            gone = np.count_nonzero(every) - np.count_nonzero(may)
            if gone >= REACH:
                return self.best_safe(key)[0]  # which may not look so far down
            found, _ = self._top(may, key, min(few, len(may)))
            found = found[found >= 0]
            if not found.size:
                return -1
            if named and np.isin(found, named).any():
                return self.best_safe(key)[0]
            first = pairs.first_safe(self.row, found, ask=few > AGAIN)
            if first >= 0:
                return int(found[first])
            few = max(ANEW, few * MORE)

    def _best_allowed(self, key: np.uint64) -> int:
        """Return the best of what the teacher allowed by name, -1 if none of it may be played."""
        places = [self.candidates.place(number) for number in sorted(self.allowed)]
        here = [at for at in places if at >= 0 and self.candidates.may[at]]
        if not here or self.frozen:
            return -1
        draws = self.draws if key == self.key else self._draw(key)
        return here[int(np.argmax(self._blend(draws, key)[here]))]

    # -- choices -----------------------------------------------------------------------------

    def choose(self) -> int:
        """Return the place of the candidate to play, -1 if none may be."""
        if self.policy.needs_limits:
            return self._masked()
        may = self.candidates.may
        if self.frozen:
            may = np.zeros(len(may), np.bool_)
        return self._pick(may, self.key) if self.blends else self._of_others(may)

    def _pick(self, may: Bools, key: np.uint64) -> int:
        """Return the place that one of our policies plays, by the joint draw of a key."""
        epsilon, aside = float(self.weights[EPSILON]), np.uint64(keys.aside(key))
        if epsilon > 0.0 and keys.uniform(aside) < epsilon:
            return int(choice.random_arm(aside, may, may))
        if self._few:
            return int(self._top(may, key, 1)[0][0])
        draws = self.draws if key == self.key else self._draw(key)
        best = best_few(self._blend(draws, key), may, key, 1)
        return int(best[0]) if best.size else -1

    def _of_others(self, may: Bools) -> int:
        if self._formula is not None:
            plays = float(self.state.totals[1])
            return self._formula.choose_by(self._means(), may, plays, int(self.key))
        return chosen(self.policy, self._scores(may), int(self.key))

    def _masked(self) -> int:
        if not self.blends or self.weights[EPSILON] > 0.0:
            safe = self.marks(np.arange(len(self.candidates.may))) == questions.SAFE
            k = self._pick(safe, self.key) if self.blends else self._of_others(safe)
        else:
            k = self.best_open(self.key)
        return self.fall_back() if k < 0 and not self.frozen else k

    def fall_back(self) -> int:
        """Return what to play where no candidate is safe, or -1."""
        state, these = self.state, self.candidates
        how = state.settings.on_empty
        if how == "safe_arm":
            number = state.number_of[state.settings.safe_arm]  # type: ignore[index]
            place = these.place(number)
            if place < 0 or state.status[number] == RETIRED:
                return -1
            return place if state.offered(self.row, [number], self.item)[number] else -1
        if how == "abstain" or not these.may.any():
            return -1
        p = self._look(np.arange(len(these.may))).p
        return int(best_few(p, these.may, self.key, 1)[0])

    # -- slates ------------------------------------------------------------------------------

    def slate(self, places: int) -> Slate:
        """Return the best slate, of arms by their numbers."""
        K, these = len(self.state.arms), self.candidates
        where = slice(None) if these.numbers is None else these.numbers
        may: Bools = np.zeros(K, np.bool_)
        if not self.frozen:
            may[where] = these.may
        sets, key = self.state.sets, int(self.key)
        if self._plain and not self.weights[EPSILON]:
            return self._slate_of_few(places, may, self.key, looks=self.policy.needs_limits)
        if not self.blends or self.weights[EPSILON] > 0.0:
            if self.policy.needs_limits:
                may[where] = self.marks(np.arange(len(these.may))) == questions.SAFE
            parts = np.zeros((7, K))
            if self._formula is not None:
                parts[0, where] = self._means()
            else:
                parts[:, where] = self.parts()
            seen = scores_for(parts, may, self.state.totals[1])
            return drawn(self.policy, seen, places, key, sets)
        scores = np.zeros(K)
        scores[where] = self._blend(self.draws, self.key)
        found = choose_slate(scores, may, places, sets, key)
        while self.policy.needs_limits:
            # If the best of more than the safe arms are safe, they are the best of these.
            few = np.union1d(best_few(scores, may, self.key, 4 * places), found.arms)
            unsafe = few[self.marks(self._places(few)) != questions.SAFE]
            may[unsafe] = False
            if not np.isin(found.arms, unsafe).any():
                break
            found = choose_slate(scores, may, places, sets, key)
        return found

    def _slate_of_few(self, places: int, may: Bools, key: np.uint64, *, looks: bool) -> Slate:
        """Return the best slate of the draw of a key, from the few best arms that fill it.

        Arms past those that fill the slate change nothing, unless it says so. `looks`: only what
        the limits are sure of.
        """
        few, K, sets = max(FIRST_LOOK, 4 * places) if looks else places, len(may), self.state.sets
        if sets is None and not looks:  # then those are the best few
            found, _ = self.model.top(self.row, may, int(key), self.spread, min(few, K))
            return Slate(found[found >= 0], "exact", 1.0)
        scores, known, taken = np.zeros(K), np.zeros(K, np.bool_), may.copy()
        while True:
            found, top = self.model.top(self.row, taken, int(key), self.spread, min(few, K))
            found, top = found[found >= 0], top[found >= 0]
            taken[found] = False
            scores[found] = top
            known[found] = not looks or self.marks(self._places(found)) == questions.SAFE
            more = bool(taken.any())
            slate = choose_slate(scores, known, places, sets, int(key), more=more)
            if slate.how != "open":
                return slate
            few *= MORE

    def _places(self, numbers: Ints) -> Ints:
        """Return where arms stand among the candidates."""
        if self.candidates.numbers is None:
            return numbers
        order = np.argsort(self.candidates.numbers, kind="stable")
        return order[np.searchsorted(self.candidates.numbers, numbers, sorter=order)]

    def slate_odds(self, arms: Ints, places: int) -> Floats:
        """Return how often each arm of a slate has its place, by joint draws: p̂ of each."""
        K, these = len(self.state.arms), self.candidates
        where = slice(None) if these.numbers is None else these.numbers
        may, sets = np.zeros(K, np.bool_), self.state.sets
        may[where] = these.may
        if self.policy.needs_limits:
            may[where] = self.marks(np.arange(len(these.may))) == questions.SAFE
        aside = np.uint64(keys.aside(self.key))
        if self._plain:
            hits = np.zeros(len(arms))
            for i in range(DRAWS):
                one = np.uint64(keys.key_of(aside, np.uint64(i)))
                other = self._slate_of_few(places, may, one, looks=False).arms
                n = min(len(other), len(arms))
                hits[:n] += other[:n] == arms[:n]
            return (hits + 1.0) / (DRAWS + 1.0)

        def draw(i: int) -> Floats:
            one = np.uint64(keys.key_of(aside, np.uint64(i)))
            scores = np.zeros(K)
            scores[where] = self._blend(self._draw(one), one)
            return scores

        return place_odds(draw, DRAWS, arms, may, places, sets, int(aside)).places

    # -- questions ---------------------------------------------------------------------------

    def nearest(self) -> tuple[int, float, float, bool]:
        """Return the candidate in doubt that is nearest to paying for an answer; whether it pays.

        By draws of their own, so that given no question the play is as if none could be asked.
        """
        state, these = self.state, self.candidates
        key = np.uint64(doubt.look_key(self.selector.doubt_key(self.id), self.waits.looks))
        safe, met, draws, marks = self.best_safe(key)
        met, draws, marks = met[:MOST_WEIGHED], draws[:MOST_WEIGHED], marks[:MOST_WEIGHED]
        if safe >= 0 and not (met == safe).any():  # it came far behind these
            met, draws = np.append(met, safe), np.append(draws, draws[-1:])
            marks = np.append(marks, np.int8(questions.SAFE))
        if not (marks == questions.IN_DOUBT).any():
            return -1, 0.0, 0.0, False
        believed = self._look(met)
        kinds = state.limits_state.kinds(these, met)
        taken = set(state.questions.asked_about(self.case))
        if taken:
            asked = {int(state.limits_state.account_of[k]) for k in taken}
            here = np.array([kind in asked for kind in kinds.tolist()])
            marks = np.where(here & (marks == questions.IN_DOUBT), questions.ASKED, marks)
        names, unit = np.unique(kinds, return_inverse=True)
        price = state.settings.answer_price
        assert price is not None
        paid, learned = state.costs.get(self.case, {}), state.lessons
        # Where nothing is safe, any arm would do; summed by kind, as in a simulation.
        starved = 0.0
        if safe < 0 and state.limits_state.pairs is not None:
            starved = float(sum(paid[kind] for kind in sorted(paid)))
        k, worth, lesson, pays = questions.nearest(
            draws,
            np.zeros(len(met)),
            believed.hope,
            believed.information,
            marks.astype(np.int8),
            unit.astype(np.int64),
            np.array([paid.get(kind, 0.0) for kind in names.tolist()]),
            np.array([learned.get(kind, 0.0) for kind in names.tolist()]),
            price,
            state.limits_state.dearer(self.row, names),
            starved,
            key,
            self._judged(met, np.uint64(keys.aside(key))),
            np.empty(len(names)),
            np.empty(len(names), np.int64),
        )
        return (int(met[k]) if k >= 0 else -1), float(worth), float(lesson), bool(pays)

    def _judged(self, places: Ints, key: np.uint64) -> Floats:
        """Return what these candidates earn in a draw as wide as what is known of them."""
        numbers = self.candidates.numbers
        if self.candidates.visitors:
            draws = self._draw(key, 1.0)[places]
        else:
            which = places if numbers is None else numbers[places]
            draws = self.model.draw(self.row, int(key), 1.0, which)
        if not self.blends or self.weights[LIMIT] == 0.0:
            return draws
        p = self._limit_parts()[0][places]
        judged: Floats = self.weights[REWARD] * draws + self.weights[LIMIT] * p
        return judged

    # -- propensities ------------------------------------------------------------------------

    def odds(self, k: int, draws: int = DRAWS) -> tuple[Odds, float, int | None]:
        """Return the probability of every play, that of the play made, and by how many draws.

        By joint draws under a key of their own; exactly (None) where nothing is drawn. The play is
        a draw of the same law: given which arms won in all of them, and not in which, it is any
        one of them. So each arm's share of draws + 1 is its probability then, and evaluation can
        take them as they are.
        """
        n = len(self.candidates.may)
        may = self.candidates.may & (not self.frozen)
        if self.policy.needs_limits:
            may = self.marks(np.arange(n)) == questions.SAFE
        play = np.zeros(n)
        if not may.any():
            if k >= 0:
                play[k] = 1.0
            return Odds(play, np.zeros(n), float(k < 0)), float(k < 0) if k < 0 else 1.0, None
        exact = self._exact(may)
        if exact is not None:
            return Odds(exact, np.zeros(n), 0.0), float(exact[k]), None
        hits = self._hits(may, draws)
        hits[k] += 1.0
        play = hits / (draws + 1.0)
        return Odds(play, np.zeros(n), 0.0, draws), float(play[k]), draws

    def spread_odds(self, odds: Odds) -> Odds:
        """Return odds of the candidates by the numbers of all arms."""
        if self.candidates.numbers is None:
            return odds
        play = np.zeros(len(self.state.arms))
        play[self.candidates.numbers] = odds.play
        return Odds(play, np.zeros(len(play)), odds.abstain, odds.draws)

    def _exact(self, may: Bools) -> Floats | None:
        """Return the exact propensities of a policy that draws nothing; None of one that does."""
        if not self.blends:
            if self._formula is not None:
                plays = float(self.state.totals[1])
                return self._formula.propensities_by(self._means(), may, plays)
            return odds_of(self.policy, self._scores(may))
        w = Weights(*self.weights.tolist())
        noisy = w.limit != 0.0 and w.v_limit != 0.0 and not self.policy.needs_limits
        if (w.reward != 0.0 and w.v != 0.0) or noisy:
            return None
        scores, out = self._blend(self.draws, self.key), np.zeros(len(may))
        wins.propensities(self.weights, scores, np.zeros(len(may)), may, may, out)
        return out

    def _hits(self, may: Bools, draws: int) -> Floats:
        """Return how often each candidate wins among many joint draws."""
        key, these = np.uint64(keys.aside(self.key)), self.candidates
        if self._plain and not these.visitors and self.weights[EPSILON] == 0.0:
            every = may
            if these.numbers is not None:
                every = np.zeros(len(self.state.arms), np.bool_)
                every[these.numbers] = may
            found = self.model.win_shares(self.row, every, int(key), self.spread, draws)
            return (found if these.numbers is None else found[these.numbers]).astype(np.float64)
        hits = np.zeros(len(may))
        for draw in range(draws):
            one = np.uint64(self.model.draw_key(int(key), draw))  # as `win_shares` draws
            hits[self._pick(may, one)] += 1.0
        return hits
