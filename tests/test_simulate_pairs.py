"""Runs with questions over pairs: what is certain, what an account is of, what is checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridle import Agent, Arm, LearnedMask
from bridle.limits import PairLimits
from bridle.policies import BehaviorConstrained, Thompson
from bridle.reward.posterior import LinearArms
from bridle.reward.shared import SharedArms
from bridle.schema import Category, Labels, Schema
from bridle.simulate import Tables, learned_mask, online, online_asking
from tests.agent.test_selection import live
from tests.conftest import size

BANDS = Schema([Category("band", ["child", "adult"])])
FILMS = Schema([Labels("genre", ["Horror", "Comedy", "Drama"])])


def world(arms: int = 40, seed: int = 0) -> tuple[Tables, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = np.eye(3)[rng.integers(0, 3, arms)]
    allowed = np.ones((2, arms), np.bool_)
    allowed[0] = rows[:, 0] < 0.5
    allowed[0, np.flatnonzero(rows[:, 1])[0]] = False  # an exception that no feature tells
    return Tables(np.eye(2), rng.random((2, arms)), allowed), rows


def limits(rows: np.ndarray, kind: str = "auto") -> PairLimits:
    return PairLimits(kind=kind, context=BANDS, arm=FILMS, rows=rows)


@pytest.mark.parametrize("checks", [False, True])
def test_what_was_denied_is_not_played_again(checks: bool) -> None:
    tables, rows = world()
    run = online_asking(tables, beliefs=limits(rows), steps=3_000, seed=1, checks=checks)
    denied: set[tuple[int, int]] = set()
    judged = [
        *zip(run.asked_at, run.asked_rows, run.asked_arms, run.said, strict=True),
        *(
            (t, run.rows[t], run.played[t], ok)
            for t, ok in zip(run.checked_at, run.judged, strict=True)
        ),
    ]
    for step, row, arm, ok in judged:
        if not ok:
            later = (run.rows[step + 1 :] == row) & (run.played[step + 1 :] == arm)
            assert not later.any()
            denied.add((int(row), int(arm)))
    assert denied and len(run.said) < tables.allowed.size


def test_a_policy_in_plain_python_does_what_the_kernel_does() -> None:
    tables, rows = world()
    kernel = online_asking(tables, beliefs=limits(rows), steps=400, seed=2, prior="paper")
    plain = online_asking(
        tables,
        beliefs=limits(rows),
        policy=Thompson(v=0.25),
        model=LinearArms(arms=40, features=2),
        steps=400,
        seed=2,
        prior="paper",
    )
    assert np.array_equal(kernel.played, plain.played)
    assert np.array_equal(kernel.asked_arms, plain.asked_arms)


def test_an_answer_is_dearer_where_many_arms_share_an_account() -> None:
    _, rows = world()
    mine = limits(rows)
    sizes = np.bincount(mine.kind_of)
    context = np.zeros(mine.features)
    alike, told = mine._inner.in_common(context.tobytes())
    assert 0.0 <= alike < 1.0 and not told
    wanted = 1.0 + (np.sqrt(sizes) - 1.0) * (1.0 - alike)
    assert np.array_equal(mine.dearer(context), wanted)
    mine.grow(1, rows=rows[:1])
    wanted = 1.0 + (np.sqrt(sizes[0] + 1) - 1.0) * (1.0 - alike)
    assert mine.dearer(context, np.array([0]))[0] == wanted


@pytest.mark.parametrize("prior", ["scaled", "centred"])
def test_one_rate_of_exceptions_serves_all_pairs(prior: str) -> None:
    tables, rows = world(arms=60, seed=3)
    run = online_asking(tables, beliefs=limits(rows), steps=2_000, seed=3, checks=True, prior=prior)
    assert len(run.found) > 0 and run.E[-1] <= 0.05 * 2_000


def test_arms_that_share_what_is_learned_are_drawn_together() -> None:
    tables, rows = world()
    taught = limits(rows, "rules")
    for key in range(60):
        row, k = key % 2, (7 * key) % 40
        taught.learn(tables.contexts[row], k, bool(row or rows[k, 0] < 0.5), key)
    assert learned_mask(tables, taught).any(axis=1).all()
    asking = online_asking(
        tables,
        beliefs=taught,
        model=SharedArms(rows=rows, features=2),
        policy=Thompson(v=0.3),
        budget=0,
        steps=300,
        seed=4,
    )
    masked = online(
        Tables(tables.contexts, tables.rewards, tables.allowed, arm_features=rows),
        policy=Thompson(v=0.3),
        eligible=learned_mask(tables, taught),
        rows=asking.rows,
        seed=4,
    )
    assert np.array_equal(asking.played, masked.played)


def test_arms_that_share_what_is_learned_are_asked_about() -> None:
    tables, rows = world()
    model = SharedArms(rows=rows, features=2)
    given = {"policy": Thompson(v=0.3), "steps": 600, "seed": 5}
    run = online_asking(tables, beliefs=limits(rows), model=model, **given)
    again = online_asking(
        tables, beliefs=limits(rows), model=SharedArms(rows=rows, features=2), **given
    )
    assert len(run.said) > 5 and len(np.unique(run.played)) > 3
    assert np.array_equal(run.played, again.played) and np.array_equal(run.said, again.said)
    assert run.E[-1] <= 5  # exceptions that no feature tells, before a check finds them


@pytest.mark.parametrize("kind", ["auto", "rules"])
@pytest.mark.parametrize(
    ("options", "arms"),
    [
        ({}, 40),
        ({}, 150),
        ({"forget": 200.0}, 40),
        ({"sigma": 0.5}, 40),
        ({"promise": (0.05, 0.2)}, 40),
        ({"reward": "linear"}, 40),
    ],
    ids=str,
)
def test_an_agent_is_the_simulator_bit_for_bit(
    kind: str, options: dict[str, Any], arms: int
) -> None:
    """Arms with features: rewards are shared if nothing is set; it asks over pairs, and checks."""
    tables, rows = world(arms)
    given = dict(options)
    sigma, promise = given.pop("sigma", None), given.pop("promise", None)
    if sigma is not None:
        given["policy"] = LearnedMask(sigma=sigma)
    agent = Agent(
        arms=[Arm(k, features=FILMS.decode(row)) for k, row in enumerate(rows)],
        features=BANDS,
        arm_features=FILMS,
        limits=kind,
        budget=10**6,
        seed=3,
        **given,
    )
    if promise is not None:
        agent.promise(*promise, seed=3)
    run = online_asking(
        Tables(
            tables.contexts,
            tables.rewards,
            tables.allowed,
            None if "reward" in options else rows,
        ),
        beliefs=PairLimits(kind=kind, context=BANDS, arm=FILMS, rows=rows, seed=3),
        policy=None if sigma is None else BehaviorConstrained(sigma=sigma),
        forget=options.get("forget"),
        promise=promise,
        checks=True,
        steps=size(600, 5),
        seed=3,
    )
    played, asked, checked = live(agent, tables, run)
    assert played == run.played.tolist()
    assert asked == list(zip(run.asked_at.tolist(), run.asked_arms.tolist(), strict=True))
    assert checked == list(zip(run.checked_at.tolist(), run.found.tolist(), strict=True))
    assert len(asked) > size(5, 0)
    mine, theirs = agent._state.reward_model.to_state(), run.arms.to_state()
    assert {n: a.tobytes() for n, a in mine.items()} == {n: a.tobytes() for n, a in theirs.items()}
