from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from bridle.errors import NotPossible, StoreFailed
from bridle.server.limits import Limits
from bridle.server.problems import Problem
from bridle.server.tokens import Tokens, make_token
from bridle.store.sqlite import SqliteStore
from tests.server.driving import Server, endpoint, fine

FINE = endpoint("/fine", fine)


def test_the_first_start_makes_one_admin_and_the_second_none(tmp_path: Path):
    store = SqliteStore(tmp_path / "a.db")
    tokens = Tokens(store, Limits())
    first = tokens.first()
    assert first is not None
    assert re.fullmatch(r"brd_[a-z2-9]{12}_[A-Za-z0-9_-]{43}", first.text)
    assert tokens.first() is None
    assert Tokens(store, Limits()).first() is None
    [row] = store.tokens()
    assert (row.role, row.agents, row.expires) == ("admin", None, None)
    assert row.hash == hashlib.sha256(first.text.split("_", 2)[2].encode()).digest()
    assert first.text not in repr(first)
    store.close()


def test_tokens_are_all_different():
    made = [make_token("agent", now=0.0) for _ in range(1_000)]
    assert len({token.row.id for token in made}) == 1_000
    assert len({token.row.hash for token in made}) == 1_000


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic abc",
        b"brd_aaaaaaaaaaaa_" + b"a" * 43,
        b"Bearer brd_aaaaaaaaaaaa_" + b"a" * 42,
        b"Bearer brd_aaaaaaaaaaaa_" + b"a" * 44,
        b"Bearer  brd_aaaaaaaaaaaa_" + b"a" * 43,
        b"Bearer brd_AAAAAAAAAAAA_" + b"a" * 43,
        b"Bearer brd_aaaaaaaaaaaa_" + b"\xff" * 43,
        b"Bearer brd_aaaaaaaaaaaa_" + b"a" * 43 + b"\n",
    ],
)
def test_what_is_no_token(tmp_path: Path, header: bytes):
    store = SqliteStore(tmp_path / "a.db")
    with pytest.raises(Problem) as caught:
        Tokens(store, Limits()).caller(header)
    assert caught.value.status == 401
    store.close()


def test_two_authorization_headers_are_none(serve):
    server = serve(more=[FINE])
    both = [("authorization", f"Bearer {server.token}")] * 2
    assert server.call("GET", "/fine", headers=both).status == 401


def test_an_unknown_id_costs_a_hash_and_a_comparison_like_a_wrong_secret(monkeypatch, tmp_path):
    store = SqliteStore(tmp_path / "a.db")
    tokens = Tokens(store, Limits())
    first = tokens.first()
    assert first is not None
    compared: list[tuple[bytes, bytes]] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return a == b

    monkeypatch.setattr("bridle.server.tokens.hmac.compare_digest", compare)
    monkeypatch.setattr(store, "token", None)  # neither looks into the store
    monkeypatch.setattr(store, "tokens", None)
    told = []
    for text in (
        first.text[:-1] + "~",
        "brd_" + "z" * 12 + first.text[16:],
        first.text[:20] + "A" * 40,
    ):
        with pytest.raises(Problem) as caught:
            tokens.caller(f"Bearer {text[:60]}".encode())
        told.append(caught.value.message)
    assert len(compared) == 2  # the first is no token at all
    assert {len(b) for _, b in compared} == {32}
    assert told[1] == told[2]
    store.close()


def test_expiry_is_by_the_clock(serve):
    server = serve(more=[FINE])
    made = server.grant("agent", expires=server.clock.now + 5.0)
    server.clock.now += 4.9
    assert server.call("GET", "/fine", token=made.text).status == 200
    server.clock.now += 0.1
    answer = server.call("GET", "/fine", token=made.text)
    assert answer.status == 401
    assert "expired" in answer.json["error"]["message"]


def test_a_revocation_acts_here_at_once_and_elsewhere_within_two_seconds(serve):
    here = serve(more=[FINE])
    there = serve(more=[FINE], store=here.store)
    made = here.grant("agent")
    there.steady.now += 2.1
    assert there.call("GET", "/fine", token=made.text).status == 200
    assert here.call("DELETE", f"/v1/tokens/{made.row.id}").status == 200
    assert here.call("GET", "/fine", token=made.text).status == 401
    there.steady.now += 2.1
    assert there.call("GET", "/fine", token=made.text).status == 401


def test_half_old_tokens_are_read_again_while_requests_go_on(serve):
    here = serve(more=[FINE])
    there = serve(more=[FINE], store=here.store)
    made = here.grant("agent")
    there.steady.now += 1.1
    assert there.call("GET", "/fine", token=here.token).status == 200

    async def reading() -> None:
        await there.service.tokens._reading

    there.runner.run(reading())
    assert there.call("GET", "/fine", token=made.text).status == 200


def test_a_store_that_fails_lets_nobody_in_on_old_knowledge(serve, monkeypatch):
    server = serve(more=[FINE])

    def fail() -> None:
        raise StoreFailed("down")

    with monkeypatch.context() as broken:
        broken.setattr(server.store, "tokens", fail)
        server.steady.now += 1.5
        assert server.call("GET", "/fine").status == 200
        server.steady.now += 1.0
        answer = server.call("GET", "/fine")
        assert (answer.status, answer.code) == (503, "store_failed")
    assert server.call("GET", "/fine").status == 200


def test_a_reading_that_began_before_a_change_does_not_undo_it(serve):
    server = serve(more=[FINE])
    made = server.grant("agent")
    tokens = server.service.tokens
    old = server.store.tokens()

    async def race() -> None:
        server.store.tokens, real = lambda: old, server.store.tokens
        reading = tokens._read()
        step = reading.send(None)  # it is under way
        server.store.tokens = real
        await tokens.revoke(made.row.id)
        await step
        with pytest.raises(StopIteration):
            reading.send(None)

    server.runner.run(race())
    assert server.call("GET", "/fine", token=made.text).status == 401


# -- rates ---------------------------------------------------------------------------------------


def test_each_token_has_a_rate_of_its_own(serve):
    server = serve(limits=Limits(rate=0.5, burst=3.0), more=[FINE])
    other = server.grant("agent").text
    assert [server.call("GET", "/fine").status for _ in range(4)] == [200, 200, 200, 429]
    answer = server.call("GET", "/fine")
    assert answer.code == "too_often"
    assert answer.headers["retry-after"] == "2"
    assert server.call("GET", "/fine", token=other).status == 200
    server.steady.now += 1.9
    assert server.call("GET", "/fine").status == 429
    server.steady.now += 0.2
    assert [server.call("GET", "/fine").status for _ in range(2)] == [200, 429]
    server.steady.now += 1e6
    assert [server.call("GET", "/fine").status for _ in range(4)] == [200, 200, 200, 429]


def test_what_is_held_of_rates_goes_with_its_token(serve):
    server = serve(more=[FINE])
    made = server.grant("agent")
    server.call("GET", "/fine", token=made.text)
    assert made.row.id in server.service.tokens._buckets
    server.runner.run(server.service.tokens.revoke(made.row.id))
    server.steady.now += 3.0
    server.call("GET", "/fine")
    assert set(server.service.tokens._buckets) == {server.token.split("_")[1]}


# -- over HTTP -----------------------------------------------------------------------------------


def test_a_token_is_made_used_listed_and_revoked(serve):
    server = serve(more=[FINE])
    expires = server.clock.now + 60.0
    asked = {"role": "agent", "agents": ["ann"], "expires": expires, "note": "of ann"}
    made = server.call("POST", "/v1/tokens", asked)
    assert made.status == 201
    token = made.json.pop("token")
    assert {key: made.json[key] for key in asked} == asked
    assert server.call("GET", "/fine", token=token).json["caller"] == made.json["id"]
    listed = server.call("GET", "/v1/tokens").json["tokens"]
    assert [row["id"] for row in listed] == [server.token.split("_")[1], made.json["id"]]
    assert all(set(row) == set(made.json) - {"token"} for row in listed)
    gone = server.call("DELETE", f"/v1/tokens/{made.json['id']}")
    assert gone.json["revoked"] == server.clock.now
    assert server.call("GET", "/fine", token=token).status == 401
    # Again: it is revoked, and since then.
    server.clock.now += 5.0
    assert server.call("DELETE", f"/v1/tokens/{made.json['id']}").json == gone.json


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({}, "role"),
        ({"role": "root"}, "role"),
        ({"role": "agent", "agents": []}, "agents"),
        ({"role": "agent", "agents": ["Not A Name"]}, "agents.0"),
        ({"role": "agent", "expires": 5.0}, "expires"),
        ({"role": "agent", "expires": "tomorrow"}, "expires"),
        ({"role": "agent", "note": "two\nlines"}, "note"),
        ({"role": "agent", "note": "x" * 201}, "note"),
        ({"role": "agent", "hash": "x"}, "hash"),
    ],
)
def test_what_cannot_be_granted(server: Server, asked, field: str):
    answer = server.call("POST", "/v1/tokens", asked)
    assert (answer.status, answer.code) == (422, "invalid_value")
    assert answer.json["error"]["field"] == field


def test_unknown_tokens_cannot_be_revoked(server: Server):
    answer = server.call("DELETE", "/v1/tokens/aaaaaaaaaaaa")
    assert (answer.status, answer.code) == (404, "not_found")


def test_the_last_admin_of_all_cannot_be_revoked(server: Server):
    own = server.token.split("_")[1]
    server.grant("admin", expires=server.clock.now + 1.0)
    server.grant("admin", agents=("ann",))
    server.clock.now += 1.0
    answer = server.call("DELETE", f"/v1/tokens/{own}")
    assert (answer.status, answer.code) == (409, "conflict")
    other = server.grant("admin")
    assert server.call("DELETE", f"/v1/tokens/{own}").status == 200
    with pytest.raises(NotPossible):
        server.runner.run(server.service.tokens.revoke(other.row.id))


def test_an_admin_of_some_agents_grants_and_sees_no_more_than_that(server: Server):
    ann = server.grant("admin", agents=("ann", "bob")).text
    beyond = server.grant("agent", agents=("carl",))
    for agents in (None, ["carl"], ["ann", "carl"]):
        answer = server.call("POST", "/v1/tokens", {"role": "agent", "agents": agents}, token=ann)
        assert (answer.status, answer.code) == (403, "forbidden")
    made = server.call("POST", "/v1/tokens", {"role": "admin", "agents": ["bob"]}, token=ann)
    assert made.status == 201
    listed = server.call("GET", "/v1/tokens", token=ann).json["tokens"]
    assert {row["id"] for row in listed} == {ann.split("_")[1], made.json["id"]}
    for hidden in (beyond.row.id, server.token.split("_")[1]):
        assert server.call("DELETE", f"/v1/tokens/{hidden}", token=ann).status == 404
    assert server.call("DELETE", f"/v1/tokens/{made.json['id']}", token=ann).status == 200


def test_there_is_a_limit_of_tokens(serve):
    server = serve(limits=Limits(tokens=2))
    assert server.call("POST", "/v1/tokens", {"role": "agent"}).status == 201
    answer = server.call("POST", "/v1/tokens", {"role": "agent"})
    assert (answer.status, answer.code) == (422, "limit_reached")
