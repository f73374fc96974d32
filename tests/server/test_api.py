"""The API as clients use it: teach, decide, reward, ask, promise, look."""

from __future__ import annotations

from typing import Any

import pytest

from bridle.store.aggregate import load
from bridle.store.maintenance import replay, verify
from tests.server.driving import Answer, Server
from tests.store.lives import state

MOVIES = {
    "arms": ["crime", {"id": "nature", "label": "Nature films", "group": "calm"}],
    "features": [{"kind": "flag", "name": "child"}, {"kind": "flag", "name": "late"}],
    "limits": "rules",
    "seed": 3,
}
CHILD, ADULT = {"child": True, "late": False}, {"child": False, "late": False}
A = "/v1/agents/movies"


def make(server: Server, name: str = "movies", **more: Any) -> Answer:
    return server.call("POST", "/v1/agents", {"name": name, "agent": {**MOVIES, **more}})


def teach(server: Server) -> None:
    said = [(CHILD, "crime", False), (CHILD, "nature", True), (ADULT, "crime", True)]
    examples = [{"context": c, "arm": arm, "allowed": allowed} for c, arm, allowed in said]
    assert server.call("POST", f"{A}/examples", {"examples": examples}).status == 201


@pytest.fixture
def movies(server: Server) -> Server:
    assert make(server).status == 201
    teach(server)
    return server


def sound(server: Server, name: str = "movies") -> None:
    """What is in memory is the fold of the log, which is whole and replays."""
    assert verify(server.store, name).problems == ()
    assert replay(server.store, name).agrees
    kept = server.runner.run(server.service.do(name, lambda work: work.aggregate))
    assert state(load(server.store, name, snapshots=False)) == state(kept)


# -- agents ----------------------------------------------------------------------------------


def test_an_agent_is_made_listed_shown_and_changed(server):
    made = make(
        server,
        policy={"kind": "BehaviorConstrained", "sigma": 0.5},
        limits="linear",
        prior="paper",
        reward_range=[-1, 2],
    )
    assert made.status == 201 and made.headers["location"] == A
    assert made.json["sigma"] == 0.5 and made.json["reward_range"] == [-1.0, 2.0]
    assert "seed" not in made.json["settings"]
    assert make(server).code == "conflict"
    lines = server.call("GET", "/v1/agents").json["agents"]
    assert [line["name"] for line in lines] == ["movies"] and lines[0]["version"] == 1
    changes: list[dict[str, Any]] = [
        {"sigma": 0.25, "by": "Ann", "note": "try"},
        {"wait": {"seconds": 60.0, "default_reward": 0}},
        {"add_arms": ["new", {"id": 7, "group": "calm"}]},
        {"declare": {"id": "late", "when": [{"feature": "late", "equals": True}], "arms": [7]}},
        {"withdraw": "late"},
        {"groups": {"arms": [{"arm": "crime", "group": "hot"}], "limits": "rules"}},
    ]
    for change in changes:
        assert server.call("PATCH", A, change).status == 200, change
    now = server.call("GET", A).json
    assert now["sigma"] == 0.25 and now["wait"] == 60.0 and now["rules"] == []
    assert [arm["group"] for arm in now["arms"]] == ["hot", "calm", None, "calm"]
    assert now["limits"] == "rules" and now["version"] == 2 + len(changes)
    log = server.call("GET", f"{A}/events").json
    said = next(e["event"] for e in log["events"] if e["kind"] == "SigmaChanged")
    assert said["by"].startswith("Ann (token ") and said["note"] == "try"
    assert log["head"] == str(server.store.head("movies")) and log["next"] is None
    wrong: dict[str, Any]
    for wrong in (
        {},
        {"by": "Ann"},
        {"sigma": None},
        {"sigma": 0.5, "withdraw": "x"},
        {"sigma": 2},
        {"groups": {"arms": []}},
    ):
        assert server.call("PATCH", A, wrong).code == "invalid_value", wrong
    assert server.call("PATCH", A, {"withdraw": "never"}).status in (404, 422)
    assert server.call("GET", "/v1/agents/nobody").code == "not_found"
    sound(server)


@pytest.mark.parametrize(
    "wrong",
    [
        {"arms": []},
        {"arms": ["a", "a"]},
        {"features": []},
        {"limits": "none"},
        {"sigma": 0.5, "policy": {"kind": "Uniform"}},
        {"budget": 3, "sigma": 0.5},
        {"safe_arm": "crime"},
        {"on_empty": "safe_arm"},
        {"reward_range": [1, 1]},
        {"default_reward": 0.5},
        {"wait": 0},
        {"colour": "red"},
        {"seed": -1},
        {"features": [{"kind": "number", "name": "n", "low": 3}]},
        {"rules": [{"id": "r", "arms": ["nobody"]}]},
        {"policy": {"kind": "KnownMask"}},
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_refused_with_a_reason(server, wrong):
    answer = make(server, **wrong)
    assert answer.status in (409, 422), answer.body
    assert answer.code
    assert server.call("GET", "/v1/agents").json["agents"] == []


# -- teaching --------------------------------------------------------------------------------


def test_examples_are_taken_once_listed_and_retracted(movies):
    one = {"context": ADULT, "arm": "nature", "allowed": True, "id": "mine", "note": "fine"}
    first = movies.call("POST", f"{A}/examples", one)
    assert first.status == 201 and first.json["examples"] == ["mine"]
    assert movies.call("POST", f"{A}/examples", one).json == first.json
    other = movies.call("POST", f"{A}/examples", {**one, "allowed": False})
    assert other.code == "conflict"
    page = movies.call("GET", f"{A}/examples?limit=2&after=2").json
    assert page["total"] == 4 and [e["id"] for e in page["examples"]] == [3, "mine"]
    assert page["examples"][1]["context"] == ADULT
    gone = movies.call("DELETE", f"{A}/examples/mine")
    assert gone.status == 200 and movies.call("DELETE", f"{A}/examples/mine").json == gone.json
    assert movies.call("DELETE", f"{A}/examples/9").code == "not_found"
    assert movies.call("POST", f"{A}/examples", {**one, "id": "n", "arm": "nobody"}).status == 422
    mixed = {"examples": [one | {"id": "x"}, {k: one[k] for k in ("context", "arm", "allowed")}]}
    mixed["examples"][0].pop("note")
    assert movies.call("POST", f"{A}/examples", mixed).code == "conflict"
    before = movies.call("GET", A).json["version"]
    fine = {"context": CHILD, "arm": "crime", "allowed": False, "id": "ok"}
    bad = {"examples": [fine, {**fine, "context": {"child": 3}, "id": "no"}]}
    assert movies.call("POST", f"{A}/examples", bad).code == "invalid_value"
    assert movies.call("GET", A).json["version"] == before  # all or none
    sound(movies)


def test_what_to_ask_next_and_its_answer(movies):
    asked = movies.call("POST", f"{A}/questions", {"pool": [CHILD, ADULT], "id": "q-1"})
    assert asked.status == 201 and asked.json["decision"] is None
    again = movies.call("POST", f"{A}/questions", {"pool": [CHILD, ADULT], "id": "q-1"})
    assert again.json == asked.json
    assert movies.call("POST", f"{A}/questions", {"context": CHILD, "id": "q-1"}).code == "conflict"
    assert movies.call("POST", f"{A}/questions", {}).code == "conflict"  # nothing was met yet
    told = movies.call("POST", f"{A}/questions/q-1/answer", {"answer": "allowed", "by": "Ann"})
    assert told.status == 200 and told.json["example"] == 4 and told.json["then"] is None
    same = movies.call("POST", f"{A}/questions/q-1/answer", {"answer": "allowed", "by": "Ann"})
    assert same.json == told.json
    other = movies.call("POST", f"{A}/questions/q-1/answer", {"answer": "denied", "by": "Ann"})
    assert other.code == "conflict"
    assert movies.call("POST", f"{A}/questions/77/answer", {"answer": "skip"}).code == "not_found"
    sound(movies)


def test_a_decision_waits_for_the_teacher(server):
    make(server, budget=100)
    teach(server)
    made = server.call(
        "POST",
        f"{A}/decisions",
        {"context": {"child": False, "late": True}, "id": "d-1", "propensity": True},
    )
    assert made.json["outcome"] == "question"
    question = made.json["question"]
    inbox = server.call("GET", f"{A}/questions").json
    assert inbox["total"] == 1 and inbox["questions"][0]["decision"] == "d-1"
    assert server.call("POST", f"{A}/decisions/d-1/reward", {"value": 1}).code == "conflict"
    path = f"{A}/questions/{question['id']}/answer"
    told = server.call("POST", path, {"answer": "allowed"})
    assert told.json["then"]["outcome"] == "decision"
    assert told.json["then"]["arm"] == question["arm"] and told.json["then"]["id"] == "d-1"
    assert server.call("POST", path, {"answer": "allowed"}).json == told.json
    again = server.call(
        "POST",
        f"{A}/decisions",
        {"context": {"child": False, "late": True}, "id": "d-1", "propensity": True},
    )
    assert again.json == made.json
    assert server.call("POST", f"{A}/decisions/d-1/reward", {"value": 1}).status == 200
    account = server.call("GET", f"{A}/decisions/d-1").json["account"]
    assert account["kind"] == "decision" and account["arm"] == question["arm"]
    sound(server)


def test_what_a_policy_does_not_take_and_an_agent_that_is_not_there(server):
    policy = {"kind": "Greedy", "alpha": 9.0}
    answer = make(server, policy=policy, sigma=None)
    assert (answer.status, answer.code) == (422, "invalid_value")
    assert "alpha" in answer.json["error"]["message"]
    assert server.call("POST", "/v1/agents/nobody/evaluate", {}).code == "not_found"


def test_an_answer_after_which_it_asks_again_is_told_twice_the_same(server):
    make(server, budget=100)
    made = server.call("POST", f"{A}/decisions", {"context": {"child": True, "late": True}}).json
    asked = made["question"]
    path = f"{A}/questions/{asked['id']}/answer"
    told = server.call("POST", path, {"answer": "denied"}).json
    assert told["then"]["outcome"] == "question" and told["then"]["question"]["arm"] != asked["arm"]
    assert server.call("POST", path, {"answer": "denied"}).json == told
    following = f"{A}/questions/{told['then']['question']['id']}/answer"
    last = server.call("POST", following, {"answer": "skip"}).json
    assert last["then"]["outcome"] == "abstention" and last["example"] is None
    for again, before in ((path, told), (following, last)):
        body = {"answer": "denied" if again == path else "skip"}
        assert server.call("POST", again, body).json == before
    sound(server)


def test_doubts_are_filed_while_it_plays_safe(server):
    make(server, budget=100, on_doubt="play_safe")
    teach(server)
    filed = None
    for n in range(30):
        late = {"child": False, "late": n % 2 == 0}
        sent = {"context": late, "id": f"d-{n}"}
        made = server.call("POST", f"{A}/decisions", sent).json
        assert made["outcome"] in ("decision", "abstention")
        # With the question that it filed, if it did.
        assert server.call("POST", f"{A}/decisions", sent).json == made
        filed = filed or made["question"]
    assert filed is not None
    told = server.call("POST", f"{A}/questions/{filed['id']}/answer", {"answer": "skip"})
    assert told.json["example"] is None and told.json["then"] is None
    sound(server)


# -- deciding --------------------------------------------------------------------------------


def test_a_decision_is_made_once_and_rewarded_once(movies):
    body = {"context": CHILD, "id": "d-1", "propensity": True, "among": ["nature"]}
    made = movies.call("POST", f"{A}/decisions", body)
    assert made.json["arm"] == "nature" and made.json["propensity"] == pytest.approx(1.0)
    head = made.headers["bridle-head"]  # to be kept elsewhere
    assert head == str(movies.store.head("movies"))
    assert verify(movies.store, "movies", expect=head).problems == ()
    assert movies.call("POST", f"{A}/decisions", body).json == made.json
    assert movies.call("POST", f"{A}/decisions", {**body, "among": None}).code == "conflict"
    first = movies.call("POST", f"{A}/decisions/d-1/reward", {"value": 0.5})
    assert first.json["outcome"] == "learned"
    assert movies.call("POST", f"{A}/decisions/d-1/reward", {"value": 0.5}).json == first.json
    assert movies.call("POST", f"{A}/decisions/d-1/reward", {"value": 0.6}).code == "conflict"
    assert movies.call("POST", f"{A}/decisions/none/reward", {"value": 1}).code == "not_found"
    own = movies.call("POST", f"{A}/decisions", {"context": CHILD}).json
    assert own["id"] == 2 and own["propensity"] is None
    assert movies.call("POST", f"{A}/decisions/2/reward", {"value": 7}).code == "invalid_value"
    assert movies.call("POST", f"{A}/decisions/2/reward", {"value": 1}).status == 200
    nothing = movies.call("POST", f"{A}/decisions", {"context": CHILD, "among": []}).json
    assert nothing["outcome"] == "abstention" and nothing["arm"] is None
    refused = movies.call("POST", f"{A}/decisions/{nothing['id']}/reward", {"value": 1})
    assert refused.code == "conflict"
    sound(movies)


def test_a_batch_is_all_or_none_and_made_once(movies):
    items = [{"context": c, "id": f"b{n}"} for n, c in enumerate([CHILD, ADULT, CHILD])]
    body = {"decisions": items, "propensity": True}
    made = movies.call("POST", f"{A}/decisions", body)
    assert [one["id"] for one in made.json["decisions"]] == ["b0", "b1", "b2"]
    assert movies.call("POST", f"{A}/decisions", body).json == made.json
    some = {"decisions": [items[0], {"context": CHILD, "id": "b9"}], "propensity": True}
    assert movies.call("POST", f"{A}/decisions", some).code == "conflict"
    twice = {"decisions": [{"context": CHILD, "id": "c"}] * 2}
    assert movies.call("POST", f"{A}/decisions", twice).code == "invalid_value"
    mixed = {"decisions": [{"context": CHILD, "id": "c"}, {"context": CHILD}]}
    assert movies.call("POST", f"{A}/decisions", mixed).code == "conflict"
    wrong = {"decisions": [{"context": CHILD}, {"context": {"child": True}}]}
    assert movies.call("POST", f"{A}/decisions", wrong).code == "invalid_value"
    plain = movies.call("POST", f"{A}/decisions", {"decisions": [{"context": CHILD}] * 3})
    assert [one["id"] for one in plain.json["decisions"]] == [4, 5, 6]
    sound(movies)


def test_lists_of_numbers_are_contexts_too(server):
    make(server, features=3, limits="linear", sigma=0.5, prior="paper")
    one = server.call("POST", f"{A}/decisions", {"context": [0.5, 1, 0], "propensity": True})
    assert one.json["outcome"] == "decision"
    many = {"decisions": [{"context": [0.5, 1, 0]}, {"context": {"x0": 1, "x1": 0, "x2": 0.5}}]}
    assert server.call("POST", f"{A}/decisions", many).status == 200
    for wrong in ([0.5], [0.5, 1, None], [1e9, 0, 0], {"x0": 1}):
        assert server.call("POST", f"{A}/decisions", {"context": wrong}).code == "invalid_value"
    sound(server)


def test_what_waited_too_long_expires_and_a_late_reward_is_kept(server):
    make(server, wait=60, default_reward=0.25)
    teach(server)
    made = server.call("POST", f"{A}/decisions", {"context": CHILD, "id": "d-1"})
    assert made.json["outcome"] == "decision"
    server.clock.now += 61
    server.runner.run(server.service.ticker.tick())
    kinds = [e["kind"] for e in server.call("GET", f"{A}/events").json["events"]]
    assert kinds[-1] == "Expired"
    late = server.call("POST", f"{A}/decisions/d-1/reward", {"value": 1})
    assert late.json["outcome"] == "late"
    assert server.call("POST", f"{A}/decisions/d-1/reward", {"value": 1}).json == late.json
    assert server.call("POST", f"{A}/decisions/d-1/reward", {"value": 0}).code == "conflict"
    account = server.call("GET", f"{A}/decisions/d-1").json["account"]
    assert account["reward"] == 0.25
    sound(server)


def test_in_the_shadow_of_another_system(movies):
    agreed = 2
    for n in range(6):
        body = {"context": [CHILD, ADULT][n % 2], "id": f"s{n}", "played": "crime"}
        made = movies.call("POST", f"{A}/decisions", body)
        agreed += made.json["arm"] == "crime"
        assert movies.call("POST", f"{A}/decisions", body).json == made.json
        assert movies.call("POST", f"{A}/decisions/s{n}/reward", {"value": 1}).status == 200
    batch = {"decisions": [{"context": CHILD, "played": "nature"}] * 2}
    assert movies.call("POST", f"{A}/decisions", batch).status == 200
    found = movies.call("GET", f"{A}/shadow").json
    assert found["decisions"] == 8 and found["denied_theirs"] == 3 and found["denied_ours"] == 0
    assert found["agreed"] == agreed and found["believed_theirs"] > found["believed_ours"]
    wrong = {"context": CHILD, "played": "nobody", "id": "s9"}
    assert movies.call("POST", f"{A}/decisions", wrong).status == 422
    assert movies.call("GET", f"{A}/decisions/s9").code == "not_found"
    sound(movies)


# -- promises --------------------------------------------------------------------------------


def test_a_certificate_by_questions(movies):
    contexts = [CHILD, ADULT] * 30
    body = {"contexts": contexts, "alpha": 0.1, "delta": 0.1, "on": "a test", "by": "Ann"}
    begun = movies.call("POST", f"{A}/certificate", body)
    assert begun.status == 201 and begun.json["calibration"]["done"] == 0
    assert movies.call("POST", f"{A}/certificate", body).code == "conflict"
    answers = 0
    while (now := movies.call("GET", f"{A}/certificate").json["calibration"]) is not None:
        allowed = not (now["context"]["child"] and now["arm"] == "crime")
        told = movies.call("POST", f"{A}/certificate/answer", {"allowed": allowed})
        assert told.status == 200
        answers += 1
    certificate = movies.call("GET", f"{A}/certificate").json["certificate"]
    assert certificate["answers"] == answers and certificate["on"] == "a test"
    assert "confidence" in certificate["sentence"] and certificate["assumptions"]
    seen = movies.call("POST", f"{A}/believed", {"context": CHILD}).json["arms"]
    assert [one["certified"] for one in seen] == [False, True]
    assert seen[0]["why_not"] and seen[1]["playable"]
    movies.call("POST", f"{A}/decisions", {"context": CHILD, "id": "after"})
    account = movies.call("GET", f"{A}/decisions/after").json["account"]
    assert account["certificate"]["alpha"] == 0.1
    assert movies.call("POST", f"{A}/certificate/answer", {"allowed": True}).code == "conflict"
    assert movies.call("DELETE", f"{A}/certificate").json["certificate"] is None
    assert movies.call("DELETE", f"{A}/certificate").code == "conflict"
    assert movies.call("POST", f"{A}/certificate", {**body, "contexts": contexts[:3]}).code == (
        "conflict"
    )
    assert movies.call("POST", f"{A}/certificate", body).status == 201
    assert movies.call("DELETE", f"{A}/certificate").json["calibration"] is None
    sound(movies)


def test_audits(movies):
    assert movies.call("GET", f"{A}/audit").code == "conflict"
    windows = [{"length": 10, "delta": 0.05}]
    begun = movies.call("POST", f"{A}/audit", {"q": 0.5, "delta": 0.05, "windows": windows})
    assert begun.status == 201 and begun.json["steps"] == 0
    assert movies.call("POST", f"{A}/audit", {"q": 0.5, "delta": 0.05}).code == "conflict"
    for _ in range(20):
        movies.call("POST", f"{A}/decisions", {"context": CHILD})
    found = movies.call("GET", f"{A}/audit?level=0.5&limit=1").json
    assert found["steps"] == 20 and found["pending_total"] > 1 and len(found["pending"]) == 1
    id = found["pending"][0]["decision"]
    told = movies.call("POST", f"{A}/audits/{id}/answer", {"allowed": True, "by": "Ann"})
    assert told.status == 200
    again = movies.call("POST", f"{A}/audits/{id}/answer", {"allowed": True, "by": "Ann"})
    assert again.json == told.json
    assert movies.call("POST", f"{A}/audits/{id}/answer", {"allowed": False}).code == "conflict"
    assert movies.call("POST", f"{A}/audits/99/answer", {"allowed": False}).code == "conflict"
    log = movies.call("GET", f"{A}/events?limit=1000").json["events"]
    assert next(e for e in log if e["kind"] == "AuditBegun")["event"]["seed"] is None
    sound(movies)


def test_what_another_sigma_would_have_earned(server):
    make(server, limits="linear", sigma=0.5, prior="paper")
    refused = server.call("POST", f"{A}/evaluate", {})
    assert refused.code == "conflict"
    server.call("POST", f"{A}/audit", {"q": 0.5, "delta": 0.05})
    for n in range(80):
        body = {"context": [CHILD, ADULT][n % 2], "propensity": True}
        id = server.call("POST", f"{A}/decisions", body).json["id"]
        server.call("POST", f"{A}/decisions/{id}/reward", {"value": n % 3 / 2})
    found = server.call("POST", f"{A}/evaluate", {"sigmas": [0.5, 0.6], "budget": 0.9}).json
    own = found["evaluations"][0]
    assert own["decisions"] == 80 and own["dr"]["low"] <= own["logged"] <= own["dr"]["high"]
    assert own["audited"] is not None and found["recommended"]["basis"] in ("audits", "belief")
    sound(server)


# -- looking ---------------------------------------------------------------------------------


def test_the_log_comes_in_pages(movies):
    seen, after = [], 0
    while after is not None:
        page = movies.call("GET", f"{A}/events?after={after}&limit=2").json
        seen += [e["seq"] for e in page["events"]]
        after = page["next"]
    assert seen == list(range(1, 6))
    for wrong in ("limit=0", "limit=1001", "after=-1", "limit=x", "colour=red", "limit=1&limit=2"):
        assert movies.call("GET", f"{A}/events?{wrong}").status in (400, 422), wrong
    assert movies.call("GET", "/v1/agents/nobody/events").code == "not_found"


def test_a_decision_is_explained_as_it_was(movies):
    movies.call("POST", f"{A}/decisions", {"context": CHILD, "id": "d-1", "propensity": True})
    before = movies.call("GET", f"{A}/decisions/d-1").json["account"]
    for _ in range(5):
        movies.call("POST", f"{A}/examples", {"context": ADULT, "arm": "nature", "allowed": True})
    after = movies.call("GET", f"{A}/decisions/d-1").json["account"]
    assert after == before and after["version"] == 5 and after["context"] == CHILD
    assert movies.call("GET", f"{A}/decisions/none").code == "not_found"
