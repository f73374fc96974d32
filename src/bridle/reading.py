"""What an agent knows of its limits, for people to read. Nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bridle import validate
from bridle.certificates import Certificate
from bridle.certifying import Certification
from bridle.errors import NotPossible
from bridle.explaining import Believed, believed_of
from bridle.features import Category, Context, Schema
from bridle.kernels.types import Bools, Floats
from bridle.knowledge import Example, Knowledge
from bridle.limits import (
    AutoLimits,
    Beliefs,
    FoundGroup,
    FoundLimits,
    Reading,
    RuleLimits,
    Surprise,
    Terms,
)
from bridle.limits.auto import WON
from bridle.policies import Weighted
from bridle.rules import Rule
from bridle.settings import Arm, ArmId, ItemId, Settings
from bridle.thresholds import DEFAULT_LAMBDA_MIN

__all__ = ["Believed", "OpenQuestion", "Reader"]

# In wider contexts pairs are too many to be rules.
MAX_WIDTH = 300


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that waits for its answer."""

    id: ItemId
    context: tuple[float, ...]  # as the agent encodes it
    arm: ArmId
    decision: ItemId | None  # that it came up in; None if the agent asked to be taught


class Reader:
    """What an agent knows, to be looked at."""

    _knowledge: Knowledge

    @property
    def settings(self) -> Settings:
        """What it was created with."""
        return self._knowledge.settings

    @property
    def schema(self) -> Schema:
        """What a context looks like."""
        return self._knowledge.settings.features

    @property
    def arms(self) -> tuple[Arm, ...]:
        """All arms, in the order of every array."""
        return tuple(self._knowledge.arms)

    @property
    def policy(self) -> Weighted:
        """How scores become a choice, now."""
        return self._knowledge.policy

    @property
    def sigma(self) -> float | None:
        """The dial, if the policy has one."""
        return getattr(self._knowledge.policy, "sigma", None)

    @property
    def version(self) -> int:
        """The number of events folded, `Created` included."""
        return self._knowledge.version

    @property
    def pending(self) -> int:
        """How many decisions wait for a reward."""
        return len(self._knowledge.pending)

    @property
    def dropped(self) -> int:
        """How many decisions were dropped unrewarded, as the oldest of too many."""
        return self._knowledge.dropped

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The declared rules that stand."""
        return tuple(self._knowledge.rules.values())

    @property
    def examples(self) -> tuple[Example, ...]:
        """The examples that stand, in the order they were taught."""
        return tuple(self._knowledge.examples.values())

    @property
    def waiting(self) -> tuple[ItemId, ...]:
        """The decisions that asked and are not made yet, oldest first."""
        return tuple(self._knowledge.questions.waiting)

    @property
    def open_questions(self) -> tuple[OpenQuestion, ...]:
        """The questions that wait for an answer, oldest first."""
        know = self._knowledge
        return tuple(
            OpenQuestion(
                id, tuple(np.frombuffer(one.context).tolist()), know.arm_ids[one.arm], one.decision
            )
            for id, one in know.questions.open.items()
        )

    @property
    def budget_left(self) -> int:
        """How many questions decisions may still ask."""
        return self._knowledge.questions.left

    @property
    def surprises(self) -> tuple[Surprise, ...]:
        """Answers that the limits were sure would not come; kept by ``limits="auto"`` alone.

        If they go on coming, none of the kinds of limits fits, or the teacher errs.
        """
        limits = self._knowledge.believing.limits
        return tuple(limits.surprises) if isinstance(limits, AutoLimits) else ()

    @property
    def certificate(self) -> Certificate | None:
        """What the agent keeps to, if it was certified."""
        return self._knowledge.certificate

    def certification(
        self,
        contexts: Sequence[Context] | npt.NDArray[Any],
        alpha: float,
        delta: float,
        *,
        lambda_min: float = DEFAULT_LAMBDA_MIN,
        on: str = "",
        ids: Sequence[int | str] | None = None,
        teaching: Iterable[int | str] | npt.ArrayLike | None = None,
    ) -> Certification:
        """Begin to certify the limits as they are now: it asks its questions one by one.

        The contexts must be drawn as the future ones are, and not be those of examples. The
        parameters are those of `bridle.certifying.Certification`; `teaching` is by default what
        the agent was taught.
        """
        return self.certification_of(
            self.schema.encode_many(contexts), alpha, delta, lambda_min=lambda_min, on=on, ids=ids,
            teaching=teaching,
        )  # fmt: skip

    def certification_of(
        self,
        rows: Floats,
        alpha: float,
        delta: float,
        *,
        lambda_min: float = DEFAULT_LAMBDA_MIN,
        on: str = "",
        ids: Sequence[int | str] | None = None,
        teaching: Iterable[int | str] | npt.ArrayLike | None = None,
    ) -> Certification:
        """Begin a `certification` on contexts that are encoded already; for stores."""
        know = self._knowledge
        if know.examples and ids is None and teaching is None:
            taught = np.frombuffer(b"".join(e.context for e in know.examples.values()))
            teaching = taught.reshape(len(know.examples), -1)
        return Certification(
            self.limits, rows, alpha, delta, lambda_min=lambda_min, on=on, about=self.about,
            ids=ids, teaching=teaching, arms=know.arm_ids,
            standing=self._allowed_to_the_letter(rows),
        )  # fmt: skip

    def _allowed_to_the_letter(self, rows: Floats) -> Bools:
        know = self._knowledge
        out = np.zeros((len(rows), len(know.arms)), np.bool_)
        if know.remembers:
            for row, context in zip(out, rows, strict=True):
                row[list(know.allowances.get(context.tobytes(), ()))] = True
        return out

    @property
    def limits(self) -> Beliefs:
        """What was learned of its limits: a copy, to look at, or to `certify`."""
        return self._knowledge.believing.limits.copy()

    @property
    def about(self) -> str:
        """Names its arms and features, as a certificate does: see `bridle.certify`."""
        return self._knowledge.about

    @property
    def left_out(self) -> tuple[str, ...]:
        """What ``limits="auto"`` could not take in at this size, in sentences."""
        limits = self._knowledge.believing.limits
        return limits.left_out if isinstance(limits, AutoLimits) else ()

    def believed(self, context: Context) -> Believed:
        """Say what is believed of every arm in a context. Changes nothing."""
        return believed_of(self._knowledge, self.schema.encode(context))

    def novelty_rate(
        self,
        above: float = 0.5,
        contexts: Sequence[Context] | npt.NDArray[Any] | None = None,
    ) -> float | None:
        """Say in what share of cases contexts leave what was taught. If it rises, teach again.

        New to an arm is a context that has a novelty above this, or holds something that no example
        of the arm held.

        Parameters
        ----------
        above : float, default 0.5
            See `believed(context).novelty`.
        contexts : contexts, optional
            Those of the last day, say: counted are those that are new to every arm. By default the
            plays that wait for their reward: counted are those that are new to the arm played.

        Returns
        -------
        float or None
            None if there is nothing to look at.
        """
        least = validate.FRACTION.check(above, "above", "Agent.novelty_rate")
        know = self._knowledge
        cases: list[tuple[bytes, int | None]] = list(know.pending.values())
        if contexts is not None:
            cases = [(row.tobytes(), None) for row in self.schema.encode_many(contexts)]
        seen: dict[bytes, Bools] = {}
        new = 0
        for raw, k in cases:
            if raw not in seen:
                row = np.frombuffer(raw)
                unseen = np.array([bool(found) for found in know.believing.unseen(row)])
                far = know.believing.novelty(row) > least
                seen[raw] = far | unseen[know.believing.unit_of]
            new += bool(seen[raw].all() if k is None else seen[raw][k])
        return new / len(cases) if cases else None

    def describe(self) -> list[str]:
        """Say the limits in sentences, one for each arm or group of arms.

        Examples
        --------
        >>> from bridle import Agent, Flag
        >>> agent = Agent(arms=2, features=[Flag("horror"), Flag("drama")], limits="rules")
        >>> _ = agent.teach({"horror": True, "drama": False}, 1, False)
        >>> _ = agent.teach({"horror": False, "drama": True}, 1, True)
        >>> agent.describe()
        ['0: unsure: horror, drama', '1: not horror']
        """
        return _sentences(self._knowledge)

    def proposal(self, threshold: float = 0.5) -> list[FoundGroup]:
        """Propose groups of arms that seem to share a rule, for a person to accept or correct.

        They are found in the examples that stand, as rules of single features (up to 12 flags and
        words), whatever the kind of limits and the groups there are. `regroup` takes the list, as
        it is or corrected (`dataclasses.replace`). It takes seconds from hundreds of examples on.
        """
        return _proposal(self._knowledge, threshold)


def _sentences(know: Knowledge) -> list[str]:
    """Say the limits in sentences, one a unit."""
    limits = know.believing.limits
    if not isinstance(limits, RuleLimits | AutoLimits | FoundLimits):
        raise NotPossible(
            f"Limits of the kind {know.believing.kind!r} are no sentences. Ask what is believed of "
            "a context, agent.believed(context), or make the agent with limits='rules' or 'auto'."
        )
    names, never = know.settings.features.columns, _never_together(know.settings.features)
    out = []
    degrees = isinstance(limits, AutoLimits) and limits.weights().get("logistic", 0.0) > WON
    unread: Reading | None = None  # of units that nothing was said about: all alike
    for unit in range(limits.units):
        first = int(np.flatnonzero(limits.unit_of == unit)[0])
        arm = know.arms[first]
        shared = know.settings.share == "group" and not isinstance(limits, FoundLimits)
        name = arm.group if shared and arm.group is not None else arm.label
        if degrees:
            out.append(f"{name}: by degrees, no rule says it; see believed(context)")
            continue
        untaught = not know.believing.taught(unit)
        said = unread if untaught and unread is not None else limits.describe(unit, names)
        unread = said if untaught else unread
        unsure = tuple(term for term in said.unsure if term not in never)
        out.append(replace(said, unsure=unsure).sentence(str(name)))
    return out


def _never_together(schema: Schema) -> set[str]:
    """Name the pairs that no context holds: of two values of one category."""
    apart = [range(schema.place(f.name)[1], schema.place(f.name)[1] + len(f.values))
             for f in schema.features if isinstance(f, Category)]  # fmt: skip
    if not apart or schema.width > MAX_WIDTH:
        return set()
    terms = Terms(schema.width, pairs=True)
    named = zip(terms.all(), terms.names(schema.columns), strict=True)
    return {
        name
        for term, name in named
        if isinstance(term, tuple) and any(term[0] in one and term[1] in one for one in apart)
    }


def _proposal(know: Knowledge, threshold: float) -> list[FoundGroup]:
    """Propose groups of arms that seem to share a rule."""
    if know.settings.teacher_error is None and know.believing.kind != "found":
        raise NotPossible(
            "Groups are found for a declared rate of error: make the agent with teacher_error=0.1, "
            "say, to have a proposal."
        )
    found = know.believing.found(tuple(know.examples.values()))
    taken = {arm.group for arm in know.arms}
    out = []
    for group in found.proposal(know.settings.features.columns, threshold):
        name, n = group.name, 1
        while name in taken:  # the name of a group that was accepted before
            n += 1
            name = f"{group.name} ({n})"
        taken.add(name)
        ids = tuple(know.arm_ids[int(k)] for k in group.arms)
        out.append(replace(group, name=name, arms=ids))
    return out
