"""What any agent must do."""

from __future__ import annotations

from bridle.checks import choices, logs
from bridle.checks.base import Check
from bridle.checks.stories import MakeAgent

__all__ = ["AGENT", "MakeAgent"]

AGENT: tuple[Check[MakeAgent], ...] = tuple(
    Check.of("agent", run)
    for run in (
        logs.same_seed_same_agent,
        logs.verb_is_make_then_apply,
        logs.batch_is_one_by_one,
        choices.equal_contexts_draw_independently,
        choices.draws_have_the_spread_of_the_posterior,
        choices.propensities_are_probabilities,
        choices.order_of_arms_does_not_matter,
        choices.new_arms_keep_the_rest,
        choices.exact_denial_is_obeyed,
        choices.retraction_leaves_what_stands,
        logs.restart_is_no_restart,
        logs.replay_agrees,
        logs.log_survives_json,
        logs.sink_that_raises_changes_nothing,
        logs.what_it_hands_out_is_a_copy,
        logs.bad_input_changes_nothing,
    )
)
