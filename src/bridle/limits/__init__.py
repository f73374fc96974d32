"""What was taught: a belief about which arm is allowed in which context."""

from bridle.limits.base import Beliefs, Limits, Look
from bridle.limits.linear import LABEL_CODINGS, LinearLimits

__all__ = ["LABEL_CODINGS", "Beliefs", "Limits", "LinearLimits", "Look"]
