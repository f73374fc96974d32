"""What ours must satisfy: all that `bridle.testing` asks of anybody's, and more."""

from __future__ import annotations

from typing import Any

from bridle.testing import Check, checks_for
from tests.conformance.linear import ARMS, LIMITS
from tests.conformance.policies import POLICY, SAMPLER, Law, Sampler

__all__ = ["STRICT", "Law", "Sampler"]

STRICT: dict[str, tuple[Check[Any], ...]] = {
    "arms": ARMS,
    "limits": LIMITS,
    "policy": POLICY,
    "sampler": SAMPLER,
    "agent": checks_for("agent"),
}
