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
    from bridle.agent.agent import Agent
    from bridle.agent.config import Arm
    from bridle.agent.outcomes import Abstention, Answer, Check, Decision, Decisions, Question
    from bridle.agent.purse import Purse
    from bridle.agent.teachers import Teacher
    from bridle.audit.meter import AuditMeter
    from bridle.catalogue import Catalogue, read_catalogue, update_catalogue
    from bridle.certificates.calibration import Calibration, Certification, certify
    from bridle.certificates.certificate import Certificate
    from bridle.client import AsyncClient, Client
    from bridle.errors import BridleError
    from bridle.evaluation.evaluate import evaluate
    from bridle.evaluation.recommend import recommend
    from bridle.limits import Limits, LinearLimits
    from bridle.limits.declared import Rule, When
    from bridle.policies import (
        BehaviorConstrained,
        EpsilonGreedy,
        Greedy,
        KnownMask,
        LearnedMask,
        LinUCB,
        Masked,
        PlackettLuce,
        Policy,
        Softmax,
        SquareCB,
        Thompson,
        Uniform,
    )
    from bridle.registry import register
    from bridle.reward.base import RewardModel
    from bridle.reward.posterior import LinearArms
    from bridle.schema import Category, Flag, Id, Labels, Number, Schema
    from bridle.simulate import Tables
    from bridle.slates import AtMost, NotBoth, SetLimits

__version__ = "0.1.0"

_HOMES = {
    "agent.agent": ("Agent",),
    "agent.config": ("Arm",),
    "agent.outcomes": ("Abstention", "Answer", "Check", "Decision", "Decisions", "Question"),
    "agent.purse": ("Purse",),
    "agent.teachers": ("Teacher",),
    "audit.meter": ("AuditMeter",),
    "catalogue": ("Catalogue", "read_catalogue", "update_catalogue"),
    "certificates.calibration": ("Calibration", "Certification", "certify"),
    "certificates.certificate": ("Certificate",),
    "client": ("AsyncClient", "Client"),
    "errors": ("BridleError",),
    "evaluation.evaluate": ("evaluate",),
    "evaluation.recommend": ("recommend",),
    "limits": ("Limits", "LinearLimits"),
    "limits.declared": ("Rule", "When"),
    "policies": (
        "BehaviorConstrained",
        "EpsilonGreedy",
        "Greedy",
        "KnownMask",
        "LearnedMask",
        "LinUCB",
        "Masked",
        "PlackettLuce",
        "Policy",
        "Softmax",
        "SquareCB",
        "Thompson",
        "Uniform",
    ),
    "registry": ("register",),
    "reward.base": ("RewardModel",),
    "reward.posterior": ("LinearArms",),
    "schema": ("Category", "Flag", "Id", "Labels", "Number", "Schema"),
    "simulate": ("Tables",),
    "slates": ("AtMost", "NotBoth", "SetLimits"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# Modules that are used by their names: bridle.simulate.online(...).
_MODULES = (
    "agent",
    "audit",
    "catalogue",
    "certificates",
    "errors",
    "evaluation",
    "explain",
    "limits",
    "policies",
    "reward",
    "schema",
    "simulate",
    "slates",
    "testing",
)

__all__ = [
    "Abstention",
    "Agent",
    "Answer",
    "Arm",
    "AsyncClient",
    "AtMost",
    "AuditMeter",
    "BehaviorConstrained",
    "BridleError",
    "Calibration",
    "Catalogue",
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
    "Masked",
    "NotBoth",
    "Number",
    "PlackettLuce",
    "Policy",
    "Purse",
    "Question",
    "RewardModel",
    "Rule",
    "Schema",
    "SetLimits",
    "Softmax",
    "SquareCB",
    "Tables",
    "Teacher",
    "Thompson",
    "Uniform",
    "When",
    "certify",
    "evaluate",
    "read_catalogue",
    "recommend",
    "register",
    "update_catalogue",
]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return importlib.import_module(f"bridle.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'bridle' has no attribute {name!r}")
    return getattr(importlib.import_module(f"bridle.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
