"""Single decisions of many callers, which are made at once: nobody can tell."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bridle.api.requests import Decide
from bridle.server.endpoints import Call
from bridle.server.handlers import decisions
from bridle.store.maintenance import replay

AGENT: dict[str, Any] = {
    "arms": ["crime", "nature", "sport"],
    "features": [{"kind": "flag", "name": "child"}, {"kind": "flag", "name": "late"}],
    "limits": "rules",
    "seed": 7,
}


def prepared(serve, **more):
    server = serve()
    made = server.call("POST", "/v1/agents", {"name": "ann", "agent": AGENT | more})
    assert made.status == 201, made.body
    for n, arm in enumerate(["crime", "nature", "sport", "nature"]):
        body = {"context": {"child": n % 2 == 0, "late": n > 1}, "arm": arm, "allowed": n > 0}
        assert server.call("POST", "/v1/agents/ann/examples", body).status == 201
    return server


def forms(n: int, **more: Any) -> list[Decide]:
    return [Decide(context={"child": i % 3 == 0, "late": i % 2 == 0}, **more) for i in range(n)]


def at_once(server, given: list[Decide]) -> list[Any]:
    """Send all before the writer can take the first."""

    async def send() -> list[Any]:
        calls = [Call(server.service, None, {"agent": "ann"}, None, form) for form in given]
        answers = asyncio.gather(*map(decisions.decide, calls), return_exceptions=True)
        return list(await answers)

    found: list[Any] = server.runner.run(send())
    return [one if isinstance(one, BaseException) else one.body for one in found]


def log(server) -> list[Any]:
    found = server.store.read("ann", 0, 1_000)
    events = [json.loads(entry.payload) for entry in found]
    return [
        {k: v for k, v in e.items() if k not in ("at", "by")}
        for e in events
        if e["event"] != "RunsOn"
    ]


@pytest.fixture
def runs(monkeypatch):
    """Count how many decisions were made at once, each time."""
    counted: list[int] = []
    together = decisions._together

    def counting(work, given):
        made = together(work, given)
        counted.append(0 if made is None else len(made))
        return made

    monkeypatch.setattr(decisions, "_together", counting)
    return counted


@pytest.mark.parametrize("propensity", [False, True])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("policy", [None, {"kind": "BehaviorConstrained", "sigma": 0.5}])
def test_the_same_bits_as_one_by_one(serve, runs, propensity, named, policy):
    more = {} if policy is None else {"policy": policy, "limits": "linear"}
    given = forms(40, propensity=propensity)
    if named:
        given = [form.model_copy(update={"id": f"d-{n}"}) for n, form in enumerate(given)]
    one, two = prepared(serve, **more), prepared(serve, **more)
    made = at_once(one, given)
    assert sum(runs) >= 38  # the first may have been taken alone
    before = len(runs)
    singly = [at_once(two, [form])[0] for form in given]
    assert len(runs) == before
    assert made == singly
    assert log(one) == log(two)
    for server in (one, two):
        replayed = replay(server.store, "ann")
        assert replayed.same == replayed.choices == 40
    if named:  # told again, and another request of the same name refused
        assert at_once(one, given) == made
        other = [form.model_copy(update={"propensity": not propensity}) for form in given[:5]]
        assert all("another request" in str(refused) for refused in at_once(one, other))


def test_what_does_not_go_together_is_done_one_by_one(serve, runs):
    server = prepared(serve, budget=50, on_doubt="play_safe")
    made = at_once(server, forms(10))  # they may ask
    assert [one["outcome"] for one in made].count("decision") > 0
    made = at_once(server, [*forms(5, ask=False), *forms(5, ask=False, propensity=True)])
    assert [one["propensity"] is None for one in made] == [True] * 5 + [False] * 5
    twice = forms(3, ask=False, id="the-same")
    first, *others = at_once(server, twice)
    assert others[0] != first and "another request" in str(others[0])
    replayed = replay(server.store, "ann")
    assert replayed.same == replayed.choices


def test_one_that_is_wrong_spoils_no_other(serve, runs):
    server = prepared(serve)
    wrong = Decide(context={"child": "perhaps", "late": True})
    good = forms(12)
    made = at_once(server, [*good[:6], wrong, *good[6:]])
    assert "child" in str(made[6]) and isinstance(made[6], Exception)
    assert all(one["outcome"] == "decision" for n, one in enumerate(made) if n != 6)
    assert 0 not in [n for n in runs if n] and len(log(server)) == 1 + 4 + 12
