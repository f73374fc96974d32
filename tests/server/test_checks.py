"""Spot checks, the promise, lives of examples and fresh starts, over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest

from bridle.agent.agent import NO_CHECKS
from bridle.agent.commands import OVER
from bridle.agent.purse import Purse
from bridle.api.models import AgentForm, settings_of
from bridle.api.requests import Decide, Teach, digest_of
from bridle.server import service as ticking
from bridle.server.handlers.decisions import _single, _together
from bridle.server.limits import Limits
from bridle.server.table import endpoints
from bridle.store.aggregate import load
from bridle.store.maintenance import replay
from tests.server.driving import Server

FEATURES = [{"kind": "flag", "name": "horror"}, {"kind": "flag", "name": "late"}]
CONTEXTS = [{"horror": h, "late": late} for h in (True, False) for late in (True, False)]
AT = "/v1/agents/films"


def make(server: Server, status: int = 201, **more: Any) -> Any:
    """Make an agent that plays whatever it is shown."""
    agent = {"arms": ["x", "y"], "features": FEATURES, "limits": "rules", "seed": 1} | more
    answer = server.call("POST", "/v1/agents", {"name": "films", "agent": agent})
    assert answer.status == status, answer.body
    if status == 201:
        rows = [
            {"context": context, "arm": arm, "allowed": True}
            for context in CONTEXTS
            for arm in ("x", "y")
            for _ in range(2)
        ]
        call(server, "POST", "/examples", {"examples": rows, "by": "Ann"}, status=201)
    return answer.json


def call(
    server: Server, method: str, path: str, body: Any = None, *, status: int = 200, **more: Any
) -> Any:
    answer = server.call(method, AT + path, body, **more)
    assert answer.status == status, answer.body
    return answer.json if status < 300 else answer


def decide(server: Server, n: int, **more: Any) -> Any:
    body = {"context": CONTEXTS[n % 4], "item": f"film-{n}", "id": f"d{n}"} | more
    return call(server, "POST", "/decisions", body)


def until_checked(server: Server, first: int = 0, **more: Any) -> Any:
    for n in range(first, first + 400):
        made = decide(server, n, **more)
        if made["check"]:
            return made
    raise AssertionError("no coin fell")


# -- checks --------------------------------------------------------------------------------------


def test_a_decision_says_whether_it_is_checked_also_when_it_is_asked_for_again(server: Server):
    make(server, checks=0.5)
    made = [decide(server, n) for n in range(40)]
    assert any(one["check"] for one in made) and not all(one["check"] for one in made)
    assert all(not one["check"] if one["coin"] is None else 0 < one["coin"] <= 1 for one in made)
    assert [decide(server, n) for n in range(40)] == made
    rows = [{"context": CONTEXTS[n % 4], "item": f"b{n}", "id": f"b{n}"} for n in range(40)]
    batch = call(server, "POST", "/decisions", {"decisions": rows})["decisions"]
    assert {one["check"] for one in batch} == {True, False}
    assert call(server, "POST", "/decisions", {"decisions": rows})["decisions"] == batch
    # Of the batch each says what its event says.
    events = [json.loads(e.payload or b"") for e in server.store.read("films", 0)]
    told = {e["id"]: (e["coin"], e["checked"]) for e in events if e["event"] == "Decided"}
    assert {one["id"]: (one["coin"], one["check"]) for one in made + batch} == told
    nothing = call(server, "POST", "/decisions", {"context": CONTEXTS[0], "among": []})
    assert (nothing["outcome"], nothing["check"], nothing["coin"]) == ("abstention", False, None)
    open_ = [one["id"] for one in made + batch if one["check"]]
    shown = call(server, "GET", "/checks")
    assert shown["total"] == len(open_) and [c["decision"] for c in shown["checks"]] == open_
    first = shown["checks"][0]
    assert first["context"] in CONTEXTS and first["arm"] in ("x", "y") and first["coin"] > 0
    assert first["item"].startswith("film-")
    page = call(server, "GET", "/checks?after=1&limit=2")
    assert page == {"checks": shown["checks"][1:3], "total": len(open_)}
    for bad in ("limit=0", "limit=1001", "after=-1", "seed=1"):
        assert call(server, "GET", f"/checks?{bad}", status=422).code == "invalid_value"
    assert call(server, "GET", "")["checks"] == {
        "open": len(open_),
        "drawn": len(open_),
        "judged": 0,
        "found": 0,
    }


def test_a_question_has_no_coin(server: Server):
    agent = {"arms": ["x", "y"], "features": FEATURES, "budget": 5, "answer_price": 0.0}
    server.call("POST", "/v1/agents", {"name": "films", "agent": agent | {"limits": "rules"}})
    made = decide(server, 0)
    assert (made["outcome"], made["check"], made["coin"]) == ("question", False, None)
    body = {"answer": "allowed"}
    path = f"/questions/{made['question']['id']}/answer"
    then = call(server, "POST", path, body)["then"]
    assert then["check"] in (False, True) and "coin" in then
    assert call(server, "POST", path, body)["then"] == then


def test_a_check_is_judged_once(server: Server):
    make(server)
    made = until_checked(server)
    path, yes = f"/checks/{made['id']}", {"allowed": True, "by": "Eve", "note": "fine"}
    judged = call(server, "POST", path, yes)
    assert judged["started_anew"] is False
    assert call(server, "POST", path, yes) == judged  # the same again is the same
    for other in ({"allowed": False}, {"allowed": True}, yes | {"note": "another"}):
        assert call(server, "POST", path, other, status=409).code == "conflict"
    examples = call(server, "GET", "/examples")["examples"]
    mine = next(one for one in examples if one["id"] == judged["example"])
    assert (mine["arm"], mine["item"], mine["allowed"]) == (made["arm"], made["item"], True)
    assert mine["by"].startswith("Eve (token ")
    assert made["id"] not in [c["decision"] for c in call(server, "GET", "/checks")["checks"]]
    assert call(server, "GET", "")["checks"]["judged"] == 1
    unchecked = next(n for n in range(400) if not decide(server, n)["check"])
    for name in (f"d{unchecked}", "nobody", "7"):
        refused = call(server, "POST", f"/checks/{name}", {"allowed": True}, status=404)
        assert refused.json["error"]["field"] == "open check"
    for bad in ({}, {"allowed": 1}, {"allowed": True, "coin": 1.0}):
        assert call(server, "POST", path, bad, status=422).code == "invalid_value"
    assert replay(server.store, "films").agrees


@pytest.mark.parametrize("role", ["teacher", "auditor", "admin", "agent"])
def test_who_may_judge(server: Server, role: Any):
    make(server)
    made = until_checked(server)
    token = server.grant(role).text
    answer = server.call("POST", f"{AT}/checks/{made['id']}", {"allowed": True}, token=token)
    assert answer.status == (403 if role == "agent" else 200)
    assert server.call("GET", f"{AT}/checks", token=token).status == answer.status


def test_checks_are_limited_and_switched_off_with_a_warning(server: Server):
    made = make(server, checks=0)
    assert made["warnings"] == [NO_CHECKS] and made["settings"]["checks"] == 0
    assert not any(decide(server, n)["check"] for n in range(30))
    assert decide(server, 31)["coin"] is None
    assert call(server, "GET", "")["warnings"] == [NO_CHECKS]
    for checks, wanted in ((0.0, 0), (3, 3), (0.25, 0.25), (None, None)):
        form = {"arms": ["x"], "features": 1, "checks": checks}
        settings = settings_of(AgentForm.model_validate_json(json.dumps(form)))
        assert settings.checks == wanted
    for wrong in (-1, 1.5, 1.0, True, "some", 2**54):
        agent = {"arms": ["x"], "features": 1, "checks": wrong}
        answer = server.call("POST", "/v1/agents", {"name": "bad", "agent": agent})
        assert answer.status == 422, wrong
    # A policy that does not keep to what is safe has none, and needs no warning.
    agent = {"arms": ["x"], "features": 1, "sigma": 0.5}
    made = server.call("POST", "/v1/agents", {"name": "dial", "agent": agent}).json
    assert made["warnings"] == [] and made["settings"]["checks"] == 0
    refused = server.call("POST", "/v1/agents", {"name": "bad", "agent": agent | {"checks": 3}})
    assert refused.status == 422 and refused.json["error"]["field"] == "checks"


# -- the promise ---------------------------------------------------------------------------------

TERMS = {"alpha": 0.05, "q": 0.2}


def test_a_promise_is_priced_kept_shown_and_dropped(server: Server):
    make(server)
    assert call(server, "GET", "/promise")["promise"] is None
    before = call(server, "GET", "")
    priced = call(server, "POST", "/promise/price", TERMS | {"lag": 10, "steps": 5_000})
    purse = Purse(alpha=0.05, q=0.2, lag=10)
    assert priced["price"] == purse.price_in_words(5_000) and priced["b"] == purse.b
    assert priced["bound"] == purse.bound(5_000) and priced["sure"] > priced["bound"]
    assert call(server, "GET", "") == before  # nothing was changed
    made = call(server, "PUT", "/promise", TERMS | {"by": "Ada", "note": "asked for"}, status=201)
    shown = made["promise"]
    assert (shown["state"], shown["balance"], shown["steps"], shown["found"]) == (
        "playing",
        5.0,
        0,
        0,
    )
    assert shown["meter"]["upper"] == 0.0 and shown["meter"]["delta"] == 0.05
    assert shown["price"] == Purse(alpha=0.05, q=0.2).price_in_words(20_000)
    assert shown["since"] == server.clock.now
    assert call(server, "PUT", "/promise", TERMS) == made  # the same again is the same
    assert call(server, "PUT", "/promise", TERMS | {"b": 5.0, "lag": 0}) == made
    refused = call(server, "PUT", "/promise", TERMS | {"q": 0.3}, status=409)
    assert "keeps a promise already" in refused.json["error"]["message"]
    for n in range(60):
        one = decide(server, n)
        assert one["outcome"] == "abstention" or one["coin"] >= 0.2
        if one["check"]:
            call(server, "POST", f"/checks/{one['id']}", {"allowed": True})
    shown = call(server, "GET", "/promise?steps=100")["promise"]
    assert shown["steps"] == 60 == shown["meter"]["steps"]
    assert shown["audits"] == shown["meter"]["judged"] > 5 and shown["waiting"] == 0
    assert shown["bound"] == 0.05 * 60 + 5.0 + 5.0 >= shown["sharper"]
    assert 0.0 == shown["meter"]["lower"] <= shown["meter"]["upper"] < 60
    assert shown["balance"] == pytest.approx(5.0 + 0.05 * 60) and shown["took"] is not None
    assert shown["price"] == Purse(alpha=0.05, q=0.2).price_in_words(100)
    assert call(server, "GET", "")["promise"] == shown["state"]
    assert call(server, "DELETE", "/promise?by=Ada&note=enough")["promise"] is None
    assert call(server, "DELETE", "/promise", status=409).code == "conflict"
    assert call(server, "GET", "")["promise"] is None
    again = call(server, "PUT", "/promise", TERMS | {"q": 0.3}, status=201)["promise"]
    assert again["steps"] == 0 and again["meter"]["steps"] == 0
    assert replay(server.store, "films").agrees


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": 1.5}, "alpha"),
        ({"q": 0.0}, "q"),
        ({"q": 2}, "q"),
        ({"lag": -1}, "lag"),
        ({"lag": 10**7}, "lag"),
        ({"lag": 0.5}, "lag"),
        ({"b": -1.0}, "b"),
        ({"b": 1e10}, "b"),
        ({"seed": 5}, "seed"),
        ({"alpha": "0.1"}, "alpha"),
    ],
)
def test_terms_are_within_limits(server: Server, wrong: Any, field: str):
    make(server)
    for method, path in (("PUT", "/promise"), ("POST", "/promise/price")):
        refused = call(server, method, path, TERMS | wrong, status=422)
        assert refused.json["error"]["field"] == field
    for steps in (0, 10**9 + 1):
        call(server, "POST", "/promise/price", TERMS | {"steps": steps}, status=422)
        call(server, "GET", f"/promise?steps={steps}", status=422)
    assert call(server, "GET", "/promise")["promise"] is None


@pytest.mark.parametrize("given", [[0.05, 0.2], {"alpha": 0.05, "q": 0.2, "lag": 3, "b": 9.0}])
def test_an_agent_may_promise_from_the_start(server: Server, given: Any):
    made = make(server, promise=given)
    assert made["promise"] == "playing" and made["version"] == 3 and made["warnings"] == []
    kinds = [entry.kind for entry in server.store.read("films", 0)]
    assert kinds[:3] == ["Created", "RunsOn", "Promised"]
    shown = call(server, "GET", "/promise")["promise"]
    purse = Purse(alpha=0.05, q=0.2, **({"lag": 3, "b": 9.0} if isinstance(given, dict) else {}))
    assert (shown["b"], shown["lag"], shown["q"]) == (purse.b, purse.lag, purse.q)
    for bad in ([0.05], [0.05, 0.2, 0.1], [0.0, 0.1], {"alpha": 0.1}, {**TERMS, "seed": 3}, 5):
        agent = {"arms": ["x"], "features": 1, "promise": bad}
        answer = server.call("POST", "/v1/agents", {"name": "bad", "agent": agent})
        assert answer.status == 422, bad
    assert server.call("GET", "/v1/agents/bad").status == 404


def test_frozen_it_plays_nothing_until_answers_come(server: Server):
    make(server, promise={"alpha": 0.001, "q": 0.5, "b": 2.0})
    made = [decide(server, n) for n in range(60)]
    assert made[-1]["outcome"] == "abstention" and made[0]["outcome"] == "decision"
    shown = call(server, "GET", "/promise")["promise"]
    assert shown["state"] == "frozen" and shown["frozen"] and shown["thaws_in"] > 0
    assert shown["sentence"].startswith("frozen") and shown["balance"] < 0
    assert call(server, "GET", "")["promise"] == "frozen"
    waiting = call(server, "GET", "/checks")["checks"]
    assert len(waiting) == shown["waiting"] == shown["meter"]["pending"]
    for one in waiting:
        call(server, "POST", f"/checks/{one['decision']}", {"allowed": True})
    shown = call(server, "GET", "/promise")["promise"]
    assert not shown["frozen"] and shown["thaws_in"] == 0
    assert decide(server, 100)["outcome"] == "decision"
    # A batch freezes on its way, as one by one.
    rows = [{"context": CONTEXTS[n % 4], "item": f"z{n}"} for n in range(60)]
    batch = call(server, "POST", "/decisions", {"decisions": rows})["decisions"]
    assert [one["outcome"] for one in batch][-1] == "abstention"
    assert call(server, "GET", "/promise")["promise"]["frozen"]
    assert replay(server.store, "films").agrees


def test_a_contradiction_begins_anew(server: Server):
    make(server, promise=[0.5, 0.5])
    for arm in ("x", "y"):
        said = {"context": CONTEXTS[0], "arm": arm, "allowed": True, "item": "Alien", "by": "Ann"}
        call(server, "POST", "/examples", said, status=201)
    for n in range(200):
        made = decide(server, 4 * n, item="Alien")
        if made["check"]:
            break
    path = f"/checks/{made['id']}"
    judged = call(server, "POST", path, {"allowed": False})
    assert judged["started_anew"] is True
    assert call(server, "POST", path, {"allowed": False}) == judged
    assert judged["version"] == call(server, "GET", "")["version"]
    assert all(not one["allowed"] for one in call(server, "GET", "/examples")["examples"])
    assert call(server, "GET", "")["checks"]["found"] == 1
    kinds = [entry.kind for entry in server.store.read("films", 0)]
    assert kinds[-2:] == ["Taught", "StartedAnew"]
    assert replay(server.store, "films").agrees


def test_a_start_by_hand_is_not_taken_for_a_judgement_s_own(server: Server):
    make(server)
    made = until_checked(server)
    judged = call(server, "POST", f"/checks/{made['id']}", {"allowed": False})
    call(server, "POST", "/fresh-start", {"why": "another law"})
    assert judged["started_anew"] is False
    assert call(server, "POST", f"/checks/{made['id']}", {"allowed": False}) == judged


def test_no_seed_is_ever_told(server: Server):
    """Whoever knows the seed of a promise can put violations where no coin falls."""
    make(server, promise=[0.05, 0.2])
    for n in range(30):
        decide(server, n)
    [payload] = [e.payload for e in server.store.read("films", 0) if e.kind == "Promised"]
    seed = str(json.loads(payload or b"")["seed"])
    assert len(seed) > 10
    seen = 0
    for row in endpoints():
        if row.method != "GET" or row.roles is None or "{id}" in row.path or "tokens" in row.path:
            continue
        for role in row.roles:
            path = row.path.replace("{agent}", "films")
            answer = server.call("GET", path, token=server.grant(role).text)
            if answer.status == 200:
                assert seed.encode() not in answer.body, row.path
                seen += 1
    assert seen > 20
    told = call(server, "GET", "/events?limit=1000")["events"]
    [event] = [one["event"] for one in told if one["kind"] == "Promised"]
    assert event["seed"] is None and event["alpha"] == 0.05
    account = call(server, "GET", "/decisions/d3")
    assert seed not in json.dumps(account)


def test_two_agents_of_the_same_seed_have_other_coins(server: Server):
    """The coins of a promise are drawn anew for each, whatever the agent's own seed is."""
    fell = []
    for name in ("one", "two"):
        agent = {"arms": ["x"], "features": 1, "sigma": 1.0, "seed": 1, "promise": [1.0, 0.5]}
        server.call("POST", "/v1/agents", {"name": name, "agent": agent})
        rows = {"decisions": [{"context": [n / 100]} for n in range(100)]}
        made = server.call("POST", f"/v1/agents/{name}/decisions", rows).json["decisions"]
        fell.append([one["check"] for one in made])
    # Equal by chance: below 2^-50, as half of them and more have a coin of one half.
    assert fell[0] != fell[1]


# -- together ------------------------------------------------------------------------------------


def test_what_waits_in_a_row_is_decided_as_one_by_one(serve):
    """Decisions of many callers are made at once: the same coins, the same purse."""
    server = serve()
    make(server, promise={"alpha": 0.01, "q": 0.4, "b": 6.0})
    forms = [
        Decide(context=CONTEXTS[n % 4], item=f"f{n}", id=f"t{n}", ask=False) for n in range(40)
    ]

    async def at_once() -> list[Any]:
        do = server.service.do
        return await asyncio.gather(
            *(
                do("films", lambda work, one=one: _single(work, one), many=_together, item=one)
                for one in forms
            )
        )

    made = server.runner.run(at_once())
    assert {one["outcome"] for one in made} == {"decision", "abstention"}
    assert replay(server.store, "films").agrees  # which makes each again by itself
    kept = load(server.store, "films", snapshots=False)
    assert kept.state.purse is not None and kept.state.purse.steps == 40
    assert [one["id"] for one in made if one["check"]] == list(kept.state.checks.open)
    assert kept.auditing.promise_meter is not None and kept.auditing.promise_meter.steps == 40


# -- fresh starts --------------------------------------------------------------------------------


def test_a_fresh_start_is_proposed_and_taken(server: Server):
    make(server)
    assert call(server, "GET", "/fresh-start")["proposal"] is None
    refused = call(server, "POST", "/fresh-start", {}, status=409)
    assert "say why" in refused.json["error"]["message"]
    for arm in ("x", "y"):
        said = {"context": CONTEXTS[0], "arm": arm, "allowed": True, "item": "Alien", "by": "Ann"}
        call(server, "POST", "/examples", said, status=201)
    made = until_checked(server)
    said = {"context": CONTEXTS[int(made["id"][1:]) % 4], "arm": made["arm"], "allowed": True}
    call(server, "POST", "/examples", said | {"item": made["item"], "by": "Ben"}, status=201)
    call(server, "POST", f"/checks/{made['id']}", {"allowed": False, "by": "Eve"})
    proposal = call(server, "GET", "/fresh-start")["proposal"]
    assert "denied what a teacher had allowed" in proposal["why"]
    assert proposal["kept"].startswith("Kept: 1 answer") and "Forgotten" in proposal["lost"]
    done = call(server, "POST", "/fresh-start", {"by": "Ada", "note": "they are right"})
    assert done["proposal"] is None
    entry = server.store.read("films", done["version"] - 1, 1)[0]
    event = json.loads(entry.payload or b"")
    assert event["event"] == "StartedAnew" and event["why"] == proposal["why"]
    assert event["by"].startswith("Ada (token ")
    assert all(not one["allowed"] for one in call(server, "GET", "/examples")["examples"])
    for bad in ({"why": ""}, {"why": "x" * 10_001}, {"reason": "x"}):
        call(server, "POST", "/fresh-start", bad, status=422)
    assert replay(server.store, "films").agrees


# -- lives ---------------------------------------------------------------------------------------


def tick(server: Server) -> int:
    return server.runner.run(server.service.ticker.tick())


def test_an_example_has_a_scope_and_an_end(server: Server):
    make(server)
    said = {"context": CONTEXTS[0], "arm": "x", "allowed": False, "item": "Alien", "id": "e1"}
    life: dict[str, Any] = {"scope": "item", "until": server.clock.now + 60.0}
    first = call(server, "POST", "/examples", said | life, status=201)
    assert call(server, "POST", "/examples", said | life, status=201) == first
    for other in ({}, {"scope": "item"}, life | {"until": life["until"] + 1}):
        call(server, "POST", "/examples", said | other, status=409)
    many = {"examples": [said | {"id": f"m{n}", "item": f"m{n}"} for n in range(2)], **life}
    call(server, "POST", "/examples", many, status=201)
    call(server, "POST", "/examples", many, status=201)
    call(server, "POST", "/examples", {"examples": many["examples"]}, status=409)
    shown = {one["id"]: one for one in call(server, "GET", "/examples")["examples"]}
    assert (shown["e1"]["scope"], shown["e1"]["until"]) == ("item", life["until"])
    assert {one["scope"] for id, one in shown.items() if id not in ("e1", "m0", "m1")} == {"all"}
    believed = {"context": CONTEXTS[0], "item": "Alien"}
    assert call(server, "POST", "/believed", believed)["arms"][0]["p"] == 0.0
    assert tick(server) == 0
    server.clock.now += 59.0
    assert tick(server) == 0
    server.clock.now += 1.0
    assert tick(server) == 3 and tick(server) == 0
    shown = {one["id"]: one for one in call(server, "GET", "/examples")["examples"]}
    assert not {"e1", "m0", "m1"} & set(shown)
    assert call(server, "POST", "/believed", believed)["arms"][0]["p"] > 0.5
    event = json.loads(server.store.read("films", 0)[-1].payload or b"")
    assert (event["event"], event["note"], event["by"]) == ("Retracted", OVER, None)
    for bad in (
        {"scope": "once"},
        {"until": server.clock.now},
        {"until": 1e13},
        {"until": "soon"},
        {"until": -1.0},
    ):
        refused = call(server, "POST", "/examples", said | {"id": "e9"} | bad, status=422)
        assert refused.json["error"]["field"].rpartition(".")[2] == next(iter(bad))
    nameless = {"context": CONTEXTS[0], "arm": "x", "allowed": False, "scope": "item"}
    refused = call(server, "POST", "/examples", nameless, status=422)
    assert refused.json["error"]["field"] == "scope"
    assert replay(server.store, "films").agrees


def test_what_was_not_said_of_a_life_leaves_the_digest_as_it_was():
    plain = Teach(context={"late": True}, arm="x", allowed=True, id="e")
    text = plain.model_dump_json(exclude={"item", "scope", "until", "teacher"})
    assert set(json.loads(text)) == {"context", "arm", "allowed", "id", "by", "note"}
    assert digest_of(plain) == hashlib.sha256(text.encode()).digest()
    for life in ({"scope": "item"}, {"until": 5.0}):
        assert digest_of(plain.model_copy(update=life)) != digest_of(plain)


def test_ending_is_bounded_and_nothing_is_dropped(serve, monkeypatch):
    server = serve(limits=Limits(expired_at_once=3))
    make(server)
    rows = [
        {"context": CONTEXTS[n % 4], "arm": "x", "allowed": True, "item": f"u{n}", "id": f"u{n}"}
        for n in range(8)
    ]
    until = server.clock.now + 5.0
    call(server, "POST", "/examples", {"examples": rows, "until": until}, status=201)
    server.clock.now += 5.0
    assert [tick(server), tick(server)] == [3, 3]
    # Each takes a while now: one a tick is the least.
    monkeypatch.setattr(ticking, "ENDING_SECONDS", -1.0)
    assert [tick(server) for _ in range(3)] == [1, 1, 0]
    left = [one["id"] for one in call(server, "GET", "/examples")["examples"]]
    assert not any(str(id).startswith("u") for id in left)


def test_examples_that_ended_while_nothing_ran_are_found(serve):
    first = serve()
    make(first)
    said = {
        "context": CONTEXTS[0],
        "arm": "x",
        "allowed": False,
        "item": "Alien",
        "until": first.clock.now + 9.0,
    }
    call(first, "POST", "/examples", said, status=201)
    second = serve(store=first.store)
    second.clock.now += 9.0
    assert tick(second) == 0
    second.runner.run(second.service.ticker.sweep())
    assert tick(second) == 1
    assert [e.kind for e in second.store.read("films", 0)][-1] == "Retracted"


def test_it_says_the_same_as_the_library(server: Server):
    make(server)
    said = {
        "context": CONTEXTS[0],
        "arm": "x",
        "allowed": False,
        "item": "Alien",
        "until": server.clock.now + 9.0,
    }
    call(server, "POST", "/examples", said, status=201)
    server.clock.now += 9.0
    [wanted] = load(server.store, "films").agent.make.ended(server.clock.now)
    assert tick(server) == 1
    event = json.loads(server.store.read("films", 0)[-1].payload or b"")
    assert (event["example"], event["note"], event["by"], event["at"]) == (
        wanted.example,
        wanted.note,
        wanted.by,
        wanted.at,
    )
