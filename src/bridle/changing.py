"""The first half of the verbs that change what an agent is: its dial, arms, groups, rules."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast, get_args

from bridle import validate
from bridle.certificates import Certificate, fingerprint
from bridle.errors import CorruptState, InvalidValue, NotPossible
from bridle.events import (
    ArmsAdded,
    Certified,
    Promised,
    PromiseDropped,
    Regrouped,
    RuleDeclared,
    RuleWithdrawn,
    SigmaChanged,
    StartedAnew,
    Uncertified,
    WaitChanged,
    check_event,
)
from bridle.fieldforms import MAX_NOTE
from bridle.knowledge import Knowledge
from bridle.limits import KINDS, FoundGroup
from bridle.notes import Erased, Note, RewardedLate
from bridle.policies import with_sigma
from bridle.purse import Purse
from bridle.rules import Rule
from bridle.settings import (
    WAIT,
    Arm,
    ArmId,
    ItemId,
    check_default,
    listed,
    the_arms,
    words,
)

__all__ = ["TIME", "Changer", "distinct", "some_words", "time_of"]

TIME = validate.FloatRange()


class Changer:
    """Makes the events of one agent that change what it is; `Maker` makes the others, too."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    def sigma_changed(
        self,
        sigma: float,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> SigmaChanged:
        """Write down another sigma."""
        by, note = some_words(by, "by"), some_words(note, "note")
        return SigmaChanged(with_sigma(self._knowledge.policy, sigma).sigma, time_of(at), by, note)

    def wait_changed(
        self,
        wait: float | None,
        default_reward: float | None = None,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> WaitChanged:
        """Write down how long decisions wait for a reward, and what they learn then."""
        owner = "Agent.set_wait"
        seconds = None if wait is None else WAIT.check(wait, "wait", owner)
        reward_range = self._knowledge.settings.reward_range
        reward = check_default(default_reward, reward_range, seconds, owner)
        by, note = some_words(by, "by"), some_words(note, "note")
        return WaitChanged(seconds, reward, by, note, time_of(at))

    def noted(self, note: Note) -> Note:
        """Write down something that changes nothing of what the agent knows."""
        if not isinstance(note, get_args(Note)) or isinstance(note, Erased):
            raise InvalidValue("note", "Agent.note", "one of bridle.notes, but no Erased", note)
        check_event(note)
        if isinstance(note, RewardedLate):
            self._knowledge.unit_reward(note.value)
        return cast("Note", note)

    def arms_added(
        self,
        arms: int | Iterable[Arm | ArmId],
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> ArmsAdded:
        """Write down new arms."""
        made = the_arms(arms, first=len(self._knowledge.arms))
        self._knowledge.check_arms(made)
        by, note = some_words(by, "by"), some_words(note, "note")
        return ArmsAdded(made, time_of(at), by, note)

    def regrouped(
        self,
        groups: Mapping[ArmId, str | None] | Iterable[FoundGroup],
        limits: str | None = None,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Regrouped:
        """Write down that arms belong to these groups, for limits of this kind from now on."""
        know, owner = self._knowledge, "Agent.regroup"
        if isinstance(groups, Mapping):
            given = list(groups.items())
        else:
            found = listed(groups, "groups", owner)
            if not all(isinstance(group, FoundGroup) for group in found):
                wanted = (
                    "a mapping from arms to groups, or a list of FoundGroup as proposal() gives"
                )
                raise InvalidValue("groups", owner, wanted, groups)
            given = [(arm, group.name) for group in found for arm in group.arms]
            distinct([know.arm_ids[know.arm_number(arm)] for arm, _ in given], "groups", owner)
        kind = know.believing.kind if limits is None else limits
        if limits is None and kind == "found":
            kind = "auto"  # groups are declared now: nothing is left to find
        if limits is None and kind == "linear":
            raise NotPossible(
                "Arms share nothing with limits='linear'. Give regroup(..., limits=) a kind that "
                "shares: 'auto', 'rules' or 'logistic'."
            )
        validate.one_of(kind, KINDS, "limits", owner)
        pairs = tuple(
            (
                know.arm_ids[know.arm_number(arm)],
                None if group is None else words(group, "groups", owner),
            )
            for arm, group in given
        )
        if not pairs:
            raise InvalidValue("groups", owner, "at least one arm and its group", groups)
        by, note, time = some_words(by, "by"), some_words(note, "note"), time_of(at)
        event = Regrouped(pairs, kind, by, note, time)
        know.check_groups(event)
        return event

    def certified(
        self,
        certificate: Certificate,
        *,
        learned_since: bool = False,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Certified:
        """Write down that the agent keeps to a certificate."""
        know, owner = self._knowledge, "Agent.adopt"
        if not isinstance(certificate, Certificate):
            raise InvalidValue("certificate", owner, "a Certificate", certificate)
        know.check_certificate(certificate)
        since = validate.truth(learned_since, "learned_since", owner)
        if since and not certificate.about:
            wanted = "one that says which arms and features it is about"
            remedy = "Begin it with agent.certification(...), or certify with about=agent.about."
            raise InvalidValue("certificate", owner, wanted, "one that does not", remedy)
        if not since and certificate.fingerprint != fingerprint(know.believing.limits):
            raise InvalidValue(
                "certificate", owner, "one of the limits that the agent has now",
                f"one of limits with the fingerprint {certificate.fingerprint[:12]}",
                "If they are this agent's own, and it has learned since, say learned_since=True.",
            )  # fmt: skip
        try:
            Certificate.from_json(certificate.to_json())
        except CorruptState as error:
            wanted = "one that certify() or a Certification made"
            raise InvalidValue(
                "certificate", owner, wanted, certificate.threshold, f"{error}"
            ) from None
        assumed = list(certificate.assumptions)
        if know.settings.safe_arm is not None:
            assumed.append(f"The safe arm {know.settings.safe_arm!r} is allowed in every context.")
        if know.remembers:
            assumed.append(
                "Every standing answer 'allowed' is right: it may be played to the letter."
            )
        certificate = replace(certificate, assumptions=tuple(dict.fromkeys(assumed)))
        by, note, time = some_words(by, "by"), some_words(note, "note"), time_of(at)
        return Certified(certificate, by, note, time)

    def uncertified(
        self, *, by: str | None = None, note: str | None = None, at: float | None = None
    ) -> Uncertified:
        """Write down that no certificate binds any more."""
        if self._knowledge.certificate is None:
            raise NotPossible("The agent keeps to no certificate.")
        return Uncertified(some_words(by, "by"), some_words(note, "note"), time_of(at))

    def promised(
        self,
        alpha: float,
        q: float,
        *,
        lag: int = 0,
        b: float | None = None,
        seed: int | None = None,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> Promised:
        """Write down a promise; its coins have a seed of their own, drawn if not given."""
        purse = Purse(alpha=alpha, q=q, lag=lag, b=b)
        if seed is None:
            seed = secrets.randbits(63)
        known = validate.SEED.check(seed, "seed", "Agent.promise")
        by, note = some_words(by, "by"), some_words(note, "note")
        event = Promised(purse.alpha, purse.q, purse.lag, purse.b, known, by, note, time_of(at))
        self._knowledge.check_promise(event)
        return event

    def promise_dropped(
        self, *, by: str | None = None, note: str | None = None, at: float | None = None
    ) -> PromiseDropped:
        """Write down that no promise binds any more."""
        if self._knowledge.promise is None:
            raise NotPossible("The agent keeps no promise.")
        return PromiseDropped(some_words(by, "by"), some_words(note, "note"), time_of(at))

    def started_anew(
        self,
        why: str,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> StartedAnew:
        """Write down that what was learned is begun anew."""
        reason = words(why, "why", "Agent.start_anew", MAX_NOTE)
        return StartedAnew(reason, some_words(by, "by"), some_words(note, "note"), time_of(at))

    def rule_declared(
        self,
        rule: Rule,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> RuleDeclared:
        """Write down a known rule."""
        if not isinstance(rule, Rule):
            raise InvalidValue("rule", "Agent.declare", "a Rule", rule)
        self._knowledge.compile(rule)
        return RuleDeclared(rule, time_of(at), some_words(by, "by"), some_words(note, "note"))

    def rule_withdrawn(
        self,
        rule: str,
        *,
        by: str | None = None,
        note: str | None = None,
        at: float | None = None,
    ) -> RuleWithdrawn:
        """Write down that a known rule no longer holds."""
        self._knowledge.check_rule(rule)
        by, note = some_words(by, "by"), some_words(note, "note")
        return RuleWithdrawn(str(rule), time_of(at), by, note)


def distinct(values: list[ItemId], name: str, owner: str) -> list[ItemId]:
    """Give ids that are all different, or refuse them."""
    if len(set(values)) != len(values):
        twice, _ = Counter(values).most_common(1)[0]
        raise InvalidValue(name, owner, "distinct", twice)
    return values


def some_words(value: str | None, name: str) -> str | None:
    """Give what a person said along with a change, if anything."""
    return None if value is None else words(value, name, "Agent", MAX_NOTE)


def time_of(at: float | None) -> float | None:
    """Give the caller's time as a float."""
    return None if at is None else TIME.check(at, "at", "Agent")
