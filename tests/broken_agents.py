"""Agents with one flaw each, for test_checks.

Each function patches what its flaw needs, and gives how agents are then made. `BROKEN` names the
check that must fail, and no other.
"""

from __future__ import annotations

from dataclasses import replace

from bridle import Agent, BehaviorConstrained, Thompson
from bridle.agent import state
from bridle.agent.commands import Commands
from bridle.agent.events import ArmsChanged, Decided, Retracted
from bridle.agent.outcomes import Decision
from bridle.agent.selection import Selector
from bridle.agent.state import AgentState
from bridle.errors import InvalidValue


def deaf_to_its_seed(patch):
    return lambda **given: Agent(**{**given, "seed": 0})


def hasty(patch):
    """Making a reward's event already takes the decision from the pending ones."""
    rewarded = Commands.rewarded

    def too_early(self, decision, value, *, at=None):
        event = rewarded(self, decision, value, at=at)
        del self._state.pending[decision]
        return event

    def reward(self, decision, value, *, at=None):
        event = rewarded(self.make, decision, value, at=at)
        if self.sink is not None:
            self.sink([event])
        self.apply(event)

    patch.setattr(Commands, "rewarded", too_early)
    patch.setattr(Agent, "reward", reward)
    return Agent


def lazy_in_batches(patch):
    """A batch leaves out the draws that lost."""
    many = Commands.decided_many

    def decided_many(self, *args, **more):
        made = many(self, *args, **more)
        if made._parts is not None:
            made._parts[:, 6] = 0.0
        return made

    patch.setattr(Commands, "decided_many", decided_many)
    return Agent


def keyed_by_context(patch):
    """Draws are of the context and not of the decision: equal contexts always play the same."""
    one, many = Selector.decision, Commands.decided_many

    def decision(self, row, id, *rest, **more):
        made = one(self, row, row.tobytes().hex(), *rest, **more)
        return replace(made, event=replace(made.event, id=id))

    def decided_many(self, contexts, among=None, ids=None, *, propensity=False, **more):
        made = many(self, contexts, among, ids, propensity=propensity, **{**more, "details": True})
        for i, row in enumerate(made.contexts):
            again = decision(self.selector, row, made.ids[i], 0, made._among, False, None)
            if isinstance(again, Decision) and made._parts is not None:
                made.numbers[i] = again.arms.index(again.arm)
                made._parts[i] = again.parts
        return made

    patch.setattr(Selector, "decision", decision)
    patch.setattr(Commands, "decided_many", decided_many)
    return lambda **given: Agent(**{**given, "limits": "linear", "prior": "paper"})


def draws_twice_as_wide(patch):
    def make(**given):
        if isinstance(given.get("policy"), Thompson | BehaviorConstrained):
            policy = given["policy"]
            given["policy"] = replace(policy, v=2.0 * policy.weights.v)
        return Agent(**given)

    return make


def tweaked(patch, tweak):
    """`tweak` changes the parts of every decision, alone or in a batch, after it is made."""
    one, many = Selector.decision, Commands.decided_many

    def decision(self, *args, **more):
        made = one(self, *args, **more)
        if isinstance(made, Decision):
            tweak(self, made.parts)
        return made

    def decided_many(self, *args, **more):
        made = many(self, *args, **more)
        for parts in () if made._parts is None else made._parts:
            tweak(self, parts)
        return made

    patch.setattr(Selector, "decision", decision)
    patch.setattr(Commands, "decided_many", decided_many)
    return Agent


def rounds_the_third_arm_otherwise(patch):
    def tweak(maker, parts):
        parts[0, 2] *= 1.0 + 1e-13

    return tweaked(patch, tweak)


def sums_to_more(patch):
    one, many = Selector.decision, Commands.decided_many

    def decision(self, *args, **more):
        made = one(self, *args, **more)
        if not isinstance(made, Decision) or made.odds is None:
            return made
        odds = made.odds.play * (1.0 + 1e-6)
        event = replace(made.event, propensity=float(odds[made.arms.index(made.arm)]))
        return replace(made, event=event, odds=replace(made.odds, play=odds))

    def decided_many(self, *args, **more):
        made = many(self, *args, **more)
        if made._propensities is not None:
            made._propensities *= 1.0 + 1e-6
        return made

    patch.setattr(Selector, "decision", decision)
    patch.setattr(Commands, "decided_many", decided_many)
    return Agent


def forgets_when_it_grows(patch):
    add = AgentState.add_arms

    def add_arms(self, arms):
        add(self, arms)
        self.reward_arms.reset(0)

    patch.setattr(AgentState, "add_arms", add_arms)
    return Agent


def takes_denials_for_scores(patch):
    return lambda **given: Agent(**{**given, "exact_denials": False})


def keeps_what_was_retracted(patch):
    fold = AgentState.fold

    def stubborn(self, event):
        limits = self.limits_state.limits.copy()
        fold(self, event)
        if isinstance(event, Retracted):
            self.limits_state.take(limits, self.examples.values())

    patch.setattr(AgentState, "fold", stubborn)
    return Agent


class ForgetsItsQuestions(Agent):
    @classmethod
    def load(cls, path, *, sink=None):
        self = super().load(path, sink=sink)
        self._state.questions.asked = 0
        return self


def forgets_its_questions(patch):
    return ForgetsItsQuestions


def logs_without_among(patch):
    def forgetting(sink):
        def tell(events):
            sink([replace(e, among=None) if isinstance(e, Decided) else e for e in events])

        return tell

    def make(**given):
        if given.get("sink") is not None:
            given["sink"] = forgetting(given["sink"])
        return Agent(**given)

    return make


def logs_ids_as_given(patch):
    rewarded = Commands.rewarded

    def as_given(self, decision, value, *, at=None):
        return replace(rewarded(self, decision, value, at=at), decision=decision)

    patch.setattr(Commands, "rewarded", as_given)
    return Agent


def folds_before_it_tells(patch):
    def teach(self, *args, **more):
        event = self.make.taught(*args, **more)
        self.apply(event)
        if self.sink is not None:
            self.sink([event])
        return event.id

    patch.setattr(Agent, "teach", teach)
    return Agent


def hands_out_its_own_arrays(patch):
    one = Selector.decision

    def decision(self, *args, **more):
        made = one(self, *args, **more)
        if isinstance(made, Decision) and made.eligible.all():
            self._state.every.flags.writeable = True
            return replace(made, eligible=self._state.every)
        return made

    patch.setattr(Selector, "decision", decision)
    return Agent


def spends_a_decision_on_a_bad_reward(patch):
    reward = Agent.reward

    def spend(self, decision, value, *, at=None):
        try:
            reward(self, decision, value, at=at)
        except InvalidValue:
            self._state.pending.pop(decision, None)
            raise

    patch.setattr(Agent, "reward", spend)
    return Agent


def keeps_features_as_they_were(patch):
    patch.setitem(state._FOLDERS, ArmsChanged, lambda self, event: None)
    return Agent


BROKEN = [
    ("agent", "same_seed_same_agent", deaf_to_its_seed),
    ("agent", "verb_is_make_then_apply", hasty),
    ("agent", "batch_is_one_by_one", lazy_in_batches),
    ("agent", "equal_contexts_draw_independently", keyed_by_context),
    ("agent", "draws_have_the_spread_of_the_posterior", draws_twice_as_wide),
    ("agent", "propensities_are_probabilities", sums_to_more),
    ("agent", "order_of_arms_does_not_matter", rounds_the_third_arm_otherwise),
    ("agent", "new_arms_keep_the_rest", forgets_when_it_grows),
    ("agent", "exact_denial_is_obeyed", takes_denials_for_scores),
    ("agent", "retraction_leaves_what_stands", keeps_what_was_retracted),
    ("agent", "restart_is_no_restart", forgets_its_questions),
    ("agent", "replay_agrees", logs_without_among),
    ("agent", "features_of_arms_last", keeps_features_as_they_were),
    ("agent", "log_survives_json", logs_ids_as_given),
    ("agent", "sink_that_raises_changes_nothing", folds_before_it_tells),
    ("agent", "what_it_hands_out_is_a_copy", hands_out_its_own_arrays),
    ("agent", "bad_input_changes_nothing", spends_a_decision_on_a_bad_reward),
]
