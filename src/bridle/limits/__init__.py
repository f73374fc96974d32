"""What was taught: a belief about which arm is allowed in which context.

`LinearLimits` are the paper's. `LogisticLimits`, `RuleLimits` and `AutoLimits`, their mixture, know
what they do not know.
"""

from bridle.limits.auto import AutoLimits, Surprise
from bridle.limits.base import Beliefs, Limits, Look
from bridle.limits.linear import LABEL_CODINGS, LinearLimits
from bridle.limits.logistic import LogisticLimits
from bridle.limits.rulesets import RuleLimits
from bridle.limits.terms import Reading, Term, Terms, thresholds_of

__all__ = [
    "LABEL_CODINGS",
    "AutoLimits",
    "Beliefs",
    "Limits",
    "LinearLimits",
    "LogisticLimits",
    "Look",
    "Reading",
    "RuleLimits",
    "Surprise",
    "Term",
    "Terms",
    "thresholds_of",
]
