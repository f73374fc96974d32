"""What a score rests on where arms share a reward model, and accounts of such agents."""

from __future__ import annotations

import numpy as np
import pytest

from bridle import (
    Agent,
    Arm,
    BehaviorConstrained,
    Category,
    EpsilonGreedy,
    Greedy,
    Labels,
    LinUCB,
    Masked,
    Number,
    PlackettLuce,
    Schema,
    Softmax,
    SquareCB,
    Thompson,
    Uniform,
)
from bridle.agent.outcomes import SlateDecision
from bridle.explain.account import account_of
from bridle.explain.attribution import limit_shares, reward_shares
from bridle.explain.sharing import taught_by
from bridle.reward.shared import SharedArms

GENRES = ["Horror", "Comedy", "Drama"]
FILMS = Schema([Labels("genres", GENRES), Number("year", 1970, 2020)])
VIEWERS = Schema([Category("band", ["child", "adult"]), Number("hour", 0, 24)])
CHILD, ADULT = {"band": "child", "hour": 17}, {"band": "adult", "hour": 22}


def film(i, genre=None):
    features = {"genres": [genre or GENRES[i % 3]], "year": 1980 + i % 30}
    return Arm(f"f{i}", f"Film {i}", features=features)


def agent_of(arms=12, **given):
    return Agent(
        arms=[film(i) for i in range(arms)],
        features=VIEWERS,
        arm_features=FILMS,
        seed=1,
        **given,
    )


def lived(agent, n=40):
    """Teach and reward a little; return the plays."""
    agent.teach(CHILD, "f0", False, by="a parent")
    for arm in ("f1", "f2", "f4"):
        agent.teach(CHILD, arm, True)
    agent.teach(ADULT, "f0", True)
    rng, plays = np.random.default_rng(3), []
    for t in range(n):
        context = {"band": ["child", "adult"][t % 2], "hour": int(rng.integers(24))}
        row = tuple(agent.schema.encode(context).tolist())
        arm = f"f{int(rng.integers(1, 9))}"
        reward = float(np.round(rng.random(), 3))
        agent.learn([context], [arm], [reward])
        plays.append((arm, row, reward))
    return plays


def test_what_features_and_the_arm_itself_gave_makes_the_mean():
    agent = agent_of()
    lived(agent)
    state, row = agent._state, VIEWERS.encode(CHILD)
    mean, _ = state.shared.scores(row)
    for k in range(12):
        found = reward_shares(state, row, k)
        assert found.total == pytest.approx(mean[k], abs=1e-12)
        sides = {share.side for share in found.shares}
        assert sides == {"context", "arm", "both"} | ({"own"} if 1 <= k <= 8 else set())
        names = {share.feature for share in found.shares}
        assert {"band=child", f"genres={GENRES[k % 3]}", "hour & year"} <= names


def relearned(model, plays, without):
    """The model with the same λ and ρ that never saw the plays of an arm."""
    twin = SharedArms(
        rows=model.rows, features=model.features, lam=model.lam, rho=model.rho, noise=0.3
    )
    for arm, row, reward in plays:
        if arm != without:
            twin.update(int(arm[1:]), row, reward)
    return twin


def test_arms_that_taught_it_are_those_that_are_missed_exactly():
    agent = agent_of()
    plays = lived(agent)
    state, row, model = agent._state, VIEWERS.encode(CHILD), agent._state.shared
    given = [(int(arm[1:]), np.array(x), reward) for arm, x, reward in plays]
    for k in (1, 2, 11):  # played, and never played
        found = taught_by(state, row, k, 20, given)
        assert found.how == "without its plays"
        assert found.score == pytest.approx(model.scores(row)[0][k], abs=1e-12)
        assert {one.arm for one in found.arms} == {f"f{i}" for i in range(1, 9)} - {f"f{k}"}
        moves = [abs(one.change) for one in found.arms]
        assert moves == sorted(moves, reverse=True)
        for one in found.arms:
            want = relearned(model, plays, one.arm).scores(row)[0][k] - found.score
            assert one.change == pytest.approx(want, abs=1e-9)
            assert one.plays == sum(arm == one.arm for arm, _, _ in plays)
        if k < 9:
            want = relearned(model, plays, f"f{k}").scores(row)[0][k] - found.score
            assert found.own == pytest.approx(want, abs=1e-9)
        else:
            assert found.own == 0.0


def test_without_plays_it_is_exact_where_an_arm_was_played_in_one_context():
    agent, plays = agent_of(), []
    rng = np.random.default_rng(5)
    for t in range(60):
        i = int(rng.integers(8))
        context, reward = (CHILD, ADULT)[i % 2], float(np.round(rng.random(), 3))
        agent.learn([context], [f"f{i}"], [reward])
        plays.append((f"f{i}", tuple(VIEWERS.encode(context).tolist()), reward))
        del t
    state, row, model = agent._state, VIEWERS.encode(CHILD), agent._state.shared
    for k in (0, 3, 11):
        found = taught_by(state, row, k, 20)
        assert found.how == "without the mean of its plays"
        assert len(found.arms) == 8 - (k < 8)
        for one in found.arms:
            want = relearned(model, plays, one.arm).scores(row)[0][k] - found.score
            assert one.change == pytest.approx(want, abs=1e-9)
    # Features that have changed since: what was learned with the old ones is taken away with them.
    agent.change_arms([film(1, "Drama")])
    changed = taught_by(agent._state, row, 11, 20, [])
    assert changed.how == "without the mean of its plays"
    before = {one.arm: one.change for one in taught_by(state, row, 11, 20).arms}
    assert {one.arm: one.change for one in changed.arms} == pytest.approx(before)


POLICIES = [
    None,
    Thompson(),
    SquareCB(),
    Softmax(),
    PlackettLuce(),
    Masked(policy=SquareCB()),
    LinUCB(),
    Greedy(),
    EpsilonGreedy(epsilon=0.2),
    Uniform(),
    BehaviorConstrained(sigma=0.5),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("limits", ["rules", "linear"])
def test_every_choice_can_be_explained(policy, limits):
    if limits == "linear" and policy is None:
        policy = BehaviorConstrained(sigma=0.0)
    if limits == "linear" and isinstance(policy, Masked):
        pytest.skip("linear limits know no mask")
    asks = {"budget": 3} if policy is None else {}
    agent = agent_of(policy=policy, limits=limits, **asks)
    lived(agent, 10)
    agent.retire_arms(["f4"])
    new = Arm("new", features={"genres": ["Comedy"], "year": 2000})
    visits = [] if limits == "linear" and agent.policy.needs_limits else [["f1", new], [new]]
    if limits == "linear":
        visits = []
    for context in (CHILD, ADULT):
        for among in (None, ["f1", "f2", "f4"], *visits):
            made = agent.make.decided(context, among, propensity=True)
            account = account_of(agent, made.event, arms=["f4"])
            assert account.agrees
            assert account.of_arms == len(account.arms) == 12 + (among in visits)
            retired = next(one for one in account.arms if one.arm == "f4")
            assert not retired.eligible
            assert account.taught.arm == account.about  # type: ignore[union-attr]
            assert account.to_json()["taught"]["arm"] == account.about
            shown = {one.arm: one for one in account.arms}
            if among is not None and account.arm is not None:
                assert account.arm in [getattr(one, "id", one) for one in among]  # type: ignore[attr-defined]
            if account.arms[1].play is not None:
                total = sum(one.play for one in account.arms) + account.abstain  # type: ignore[misc,operator]
                assert total == pytest.approx(1.0)
            assert all(np.isfinite(one.reward_mean) for one in shown.values())
        slate = agent.make.slate(context, 3, ask=False)
        if isinstance(slate, SlateDecision):
            places = [account_of(agent, one.event) for one in slate]
            assert [one.arm for one in places] == slate.arms
            assert [one.place for one in places] == list(range(1, len(slate) + 1))
            assert all(one.agrees and one.slate == slate.id and one.places == 3 for one in places)


def test_examples_of_other_arms_that_taught_a_limit():
    agent = agent_of(limits="rules", arms=30)
    agent.teach(CHILD, "f0", False, by="a parent")
    for i in (1, 2, 4, 5):
        agent.teach(CHILD, f"f{i}", True)
    for i in range(6):
        agent.teach(ADULT, f"f{i}", True)
    made = agent.make.decided(CHILD)
    account = account_of(agent, made.event, arms=["f27"])  # horror, and never spoken of
    about = account_of(agent, agent.make.decided(CHILD, ["f27"]).event)
    assert about.about == "f27"
    assert about.examples.of == 11
    first = about.examples.examples[0]
    assert first.arm == "f0" and not first.allowed and first.change > 0.0
    assert not any(one.here for one in about.examples.examples)
    # What the arm's features gave is beside what the context's did.
    parts = limit_shares(agent._state, VIEWERS.encode(CHILD), 27).shares
    horror = next(share for share in parts if share.feature == "genres=Horror")
    assert horror.side == "arm" and horror.gave < -0.2
    assert {share.side for share in parts} >= {"context", "arm"}
    assert [one.arm for one in account.contributions][2:] == ["f27", "f27"]


def test_leaving_out_by_weight_is_close_to_learning_anew():
    agent = agent_of(limits="rules", arms=30)
    for i in range(0, 9, 3):
        agent.teach(CHILD, f"f{i}", False)
    for i in (1, 2, 4):
        agent.teach(CHILD, f"f{i}", True)
    limits, row = agent.limits, VIEWERS.encode(CHILD)
    examples = agent.examples
    key = agent._state.limits_state.key
    for out in examples:
        rest = [one for one in examples if one.id != out.id]
        anew = limits.copy()
        anew.refit_all([(np.frombuffer(e.context), e.arm, e.allowed, key(e.id)) for e in rest])
        weighed = limits.without(np.frombuffer(out.context), out.arm, out.allowed)
        for k in (27, 28, 29):
            # 400 chains: a share of them is known to .025 (one standard deviation) or better.
            assert abs(weighed.belief(k, row) - anew.belief(k, row)) < 0.15


def test_a_large_catalogue_shows_the_nearest(monkeypatch):
    from bridle.explain import account as module

    monkeypatch.setattr(module, "MOST_ARMS", 10)
    agent = agent_of(arms=40, policy=Thompson())
    lived(agent)
    made = agent.make.decided(CHILD)
    account = account_of(agent, made.event, arms=["f3", "f39"])
    assert account.of_arms == 40 and len(account.arms) <= 12
    shown = [one.arm for one in account.arms]
    assert {"f3", "f39", made.arm} <= set(shown)
    assert account.agrees and account.sigmas == ()
