from __future__ import annotations

import json

import pytest

from bridle.errors import InvalidValue
from bridle.policies import BehaviorConstrained, KnownMask
from bridle_studies.paper.plan import Plan, agent_name
from bridle_studies.scaffold.study import fingerprint


def test_the_default_is_the_papers_grid():
    plan = Plan()
    assert plan.examples == (5_000, 10_000, 50_000, 75_000, 100_000)
    assert plan.agents == (
        "mask",
        "mask-filter",
        "sigma=0",
        "sigma=0.25",
        "sigma=0.5",
        "sigma=0.75",
        "sigma=1",
    )
    assert (plan.folds, plan.steps, plan.v, plan.ridge, plan.label_coding) == (
        5,
        50_000,
        0.25,
        1.0,
        "1/0",
    )
    assert plan.untaught == ("mask", "mask-filter", "sigma=1")
    # 5 folds × (2 ways × 5 sizes × 4 blends + 3 that do not look at what was taught).
    assert plan.runs == 5 * (2 * 5 * 4 + 3)


def test_agents_are_policies():
    plan = Plan(v=0.1, v_constraint=0.2, sigmas=(0.3, 1.0))
    assert plan.policy("sigma=0.3") == BehaviorConstrained(sigma=0.3, v=0.1, v_constraint=0.2)
    assert plan.policy("mask-filter") == KnownMask(reading="filter", v=0.1)
    assert plan.policy("mask") == KnownMask(reading="argmax", v=0.1)


def test_names_tell_sigmas_apart():
    assert agent_name(0) == "sigma=0" and agent_name(1 / 3) != agent_name(0.333333)


def test_minus_zero_is_zero():
    assert Plan(sigmas=(-0.0,)).agents[2] == "sigma=0"


def test_lists_are_sorted_and_survive_json():
    plan = Plan(examples=[30, 10], sigmas=[1, 0.5], teaching=["thompson"])
    assert plan.examples == (10, 30) and plan.sigmas == (0.5, 1.0)
    again = json.loads(json.dumps(plan.to_json()))
    assert again["examples"] == [10, 30]
    assert Plan(**again) == plan


def test_only_sigma_one_needs_no_teaching():
    assert Plan(sigmas=(1.0,)).runs == 5 * 3


def test_contexts_are_shared_out():
    assert Plan().contexts_to_teach(1000) == 200
    assert Plan(teaching_contexts=200).contexts_to_teach(5528) == 200
    assert Plan(folds=1).contexts_to_teach(10) == 5
    with pytest.raises(InvalidValue, match=r"world of 4 contexts. Got 5 .* at most 2 folds"):
        Plan(folds=5).contexts_to_teach(4)
    for plan, contexts in (
        (Plan(teaching_contexts=300), 1000),
        (Plan(teaching_contexts=10, folds=1), 10),
    ):
        with pytest.raises(InvalidValue, match="each its own, fit into"):
            plan.contexts_to_teach(contexts)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"teaching": ("guess",)}, "one of 'random', 'thompson'"),
        ({"teaching": "random"}, "a list of 1 to 1,000 values"),
        ({"examples": ()}, "a list of 1 to 1,000"),
        ({"examples": (0,)}, "'examples' parameter of Plan must be an int in the range"),
        ({"examples": (5, 5)}, "without repetitions"),
        ({"sigmas": (1.5,)}, r"in the range \[0, 1\]. Got 1.5"),
        ({"folds": 0}, "'folds' parameter"),
        ({"steps": 1e3}, "'steps' parameter"),
        ({"seed": -1}, "'seed' parameter"),
        ({"v": -1.0}, "'v' parameter"),
        ({"v_teaching": float("nan")}, "'v_teaching' parameter"),
        ({"v_constraint": 1e9}, "'v_constraint' parameter"),
        ({"ridge": 0.0}, "'ridge' parameter"),
        ({"ridge_limits": -1}, "'ridge_limits' parameter"),
        ({"label_coding": "0/1"}, "one of '1/0'"),
        ({"exact_denials": "yes"}, "True or False"),
        ({"redraw_constraints": None}, "True or False"),
        ({"teaching_contexts": 0}, "'teaching_contexts' parameter"),
        ({"checkpoints": 0}, "'checkpoints' parameter"),
    ],
)
def test_bad_choices_are_refused(wrong, message):
    with pytest.raises(InvalidValue, match=message):
        Plan(**wrong)


def test_fingerprints_see_every_part_and_its_ends():
    marks = {
        fingerprint("a", b"bc"),
        fingerprint("ab", b"c"),
        fingerprint("a", b"bcd"),
        fingerprint({"x": 1}),
        fingerprint({"x": 2}),
    }
    assert len(marks) == 5
    assert fingerprint({"x": 1, "y": 2}) == fingerprint({"y": 2, "x": 1})
