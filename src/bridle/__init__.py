"""bridle: an online decision agent that learns its limits by example.

A teacher says of some choices "allowed" or "not allowed". The agent learns that behaviour from the
examples alone, then goes online: it chooses arms for contexts, learns from reward, and stays inside
what it was taught. One dial, `sigma`, moves it from "only what I was taught" (0) to "only reward"
(1).

Names are loaded when they are first used, so that `import bridle` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridle.advising import recommend
    from bridle.agent import Agent
    from bridle.arms import LinearArms
    from bridle.audits import AuditMeter
    from bridle.certificates import Certificate
    from bridle.certifying import Calibration, Certification, certify
    from bridle.client import AsyncClient, Client
    from bridle.decisions import Abstention, Answer, Check, Decision, Decisions, Question
    from bridle.errors import BridleError
    from bridle.evaluating import evaluate
    from bridle.features import Category, Flag, Id, Labels, Number, Schema
    from bridle.limits import Limits, LinearLimits
    from bridle.policies import (
        BehaviorConstrained,
        EpsilonGreedy,
        Greedy,
        KnownMask,
        LearnedMask,
        LinUCB,
        Thompson,
        Uniform,
    )
    from bridle.purse import Purse
    from bridle.rules import Rule, When
    from bridle.settings import Arm
    from bridle.simulate import Tables
    from bridle.teachers import Teacher

__version__ = "0.1.0"

_HOMES = {
    "advising": ("recommend",),
    "agent": ("Agent",),
    "client": ("AsyncClient", "Client"),
    "arms": ("LinearArms",),
    "audits": ("AuditMeter",),
    "certificates": ("Certificate",),
    "certifying": ("Calibration", "Certification", "certify"),
    "decisions": ("Abstention", "Answer", "Check", "Decision", "Decisions", "Question"),
    "errors": ("BridleError",),
    "evaluating": ("evaluate",),
    "features": ("Category", "Flag", "Id", "Labels", "Number", "Schema"),
    "limits": ("Limits", "LinearLimits"),
    "policies": (
        "BehaviorConstrained",
        "EpsilonGreedy",
        "Greedy",
        "KnownMask",
        "LearnedMask",
        "LinUCB",
        "Thompson",
        "Uniform",
    ),
    "purse": ("Purse",),
    "rules": ("Rule", "When"),
    "settings": ("Arm",),
    "simulate": ("Tables",),
    "teachers": ("Teacher",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# Modules that are used by their names: bridle.simulate.online(...).
_MODULES = (
    "asking",
    "audits",
    "bounds",
    "certifying",
    "checks",
    "errors",
    "evaluating",
    "events",
    "features",
    "lessons",
    "limits",
    "notices",
    "policies",
    "rules",
    "simulate",
    "worlds",
)

__all__ = [
    "Abstention",
    "Agent",
    "Answer",
    "Arm",
    "AsyncClient",
    "AuditMeter",
    "BehaviorConstrained",
    "BridleError",
    "Calibration",
    "Category",
    "Certificate",
    "Certification",
    "Check",
    "Client",
    "Decision",
    "Decisions",
    "EpsilonGreedy",
    "Flag",
    "Greedy",
    "Id",
    "KnownMask",
    "Labels",
    "LearnedMask",
    "Limits",
    "LinUCB",
    "LinearArms",
    "LinearLimits",
    "Number",
    "Purse",
    "Question",
    "Rule",
    "Schema",
    "Tables",
    "Teacher",
    "Thompson",
    "Uniform",
    "When",
    "certify",
    "evaluate",
    "recommend",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"bridle.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'bridle' has no attribute {name!r}")
    return getattr(importlib.import_module(f"bridle.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
