"""What was taught: a belief about which arm is allowed in which context.

`LinearLimits` are the paper's. `RuleLimits`, `BoundLimits` (rules with bounds on numbers),
`LogisticLimits`, `PooledLimits`, `MixtureLimits`, which weigh all of these, and `FoundLimits`,
which find groups of arms that share a rule, know what they do not know. `PairLimits` are about
pairs of a context and an arm, where arms have features.
"""

from bridle.limits.base import Attribution, Beliefs, Limits, Prediction, Predictions
from bridle.limits.bounds import BoundLimits
from bridle.limits.clustered import FoundGroup, FoundLimits, groups_of
from bridle.limits.kinds import KINDS, STATES, check_kind, limits_from_state, make_limits
from bridle.limits.legacy import AutoLimits
from bridle.limits.linear import LABEL_CODINGS, LinearLimits
from bridle.limits.logistic import LogisticLimits, PooledLimits
from bridle.limits.mixture import MixtureLimits, Surprise
from bridle.limits.pairs import PAIR_KINDS, PairLimits, PairReading
from bridle.limits.rules import Reading, RuleLimits, Term, Terms, thresholds_of

__all__ = [
    "KINDS",
    "LABEL_CODINGS",
    "PAIR_KINDS",
    "STATES",
    "Attribution",
    "AutoLimits",
    "Beliefs",
    "BoundLimits",
    "FoundGroup",
    "FoundLimits",
    "Limits",
    "LinearLimits",
    "LogisticLimits",
    "MixtureLimits",
    "PairLimits",
    "PairReading",
    "PooledLimits",
    "Prediction",
    "Predictions",
    "Reading",
    "RuleLimits",
    "Surprise",
    "Term",
    "Terms",
    "check_kind",
    "groups_of",
    "limits_from_state",
    "make_limits",
    "thresholds_of",
]
