"""What was taught: a belief about which arm is allowed in which context.

`LinearLimits` are the paper's. `LogisticLimits`, `RuleLimits`, `AutoLimits`, their mixture, and
`FoundLimits`, which find groups of arms that share a rule, know what they do not know.
"""

from bridle.limits.auto import AutoLimits, Surprise
from bridle.limits.base import Beliefs, Limits, Look, Relearns
from bridle.limits.found import FoundLimits
from bridle.limits.foundgroups import FoundGroup, groups_of
from bridle.limits.kinds import KINDS, limits_from_state, make_limits
from bridle.limits.linear import LABEL_CODINGS, LinearLimits
from bridle.limits.logistic import LogisticLimits
from bridle.limits.rulesets import RuleLimits
from bridle.limits.terms import Reading, Term, Terms, thresholds_of

__all__ = [
    "KINDS",
    "LABEL_CODINGS",
    "AutoLimits",
    "Beliefs",
    "FoundGroup",
    "FoundLimits",
    "Limits",
    "LinearLimits",
    "LogisticLimits",
    "Look",
    "Reading",
    "Relearns",
    "RuleLimits",
    "Surprise",
    "Term",
    "Terms",
    "groups_of",
    "limits_from_state",
    "make_limits",
    "thresholds_of",
]
