"""The clients against the service: every verb, lost answers, many calls at once."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

pytest.importorskip("httpx2", reason="the serve extra is not installed")
pytest.importorskip("pydantic", reason="the serve extra is not installed")
pytest.importorskip("prometheus_client", reason="the serve extra is not installed")

import httpx2
import numpy as np

from bridle import Arm, Flag, Number, Rule, Schema, When
from bridle.agent.teachers import Teacher
from bridle.api import replies
from bridle.client import AsyncClient, Client, ServiceError
from bridle.client.client import Sent, Verb, Verbs, new_id, read
from bridle.errors import InvalidValue
from bridle.policies import SquareCB, Thompson
from bridle.server.endpoints import Endpoint
from bridle.server.service import Service
from bridle.server.table import endpoints
from bridle.store.sqlite import SqliteStore
from bridle.web.app import App
from tests.server.driving import Server

URL = "http://service.test"
AGENT: dict[str, Any] = {
    "arms": [Arm("crime", group="grim"), Arm("nature")],
    "features": Schema([Flag("child"), Flag("late")]),
    "limits": "rules",
    "seed": 1,
}
CHILD = {"child": True, "late": False}
ADULT = {"child": False, "late": True}


class Through(httpx2.BaseTransport):
    """Goes to a service in this process. Of the calls in `lost` the answer is dropped."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.count = 0
        self.lost: set[int] = set()
        self.called: set[tuple[str, str]] = set()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        body = request.read()
        path = request.url.raw_path.decode()
        answer = self.server.call(
            request.method, path, body or None, token=None, headers=request.headers.items()
        )
        self.count += 1
        if self.count in self.lost:
            raise httpx2.ReadError("the answer was lost")
        return httpx2.Response(answer.status, headers=answer.headers, content=answer.body)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    yield server
    server.close()


@pytest.fixture
def through(server: Server) -> Through:
    return Through(server)


@pytest.fixture
def client(server: Server, through: Through, monkeypatch) -> Iterator[Client]:
    monkeypatch.setattr("bridle.client.client.FIRST_WAIT", 0.0)
    with Client(URL, server.token, transport=through) as client:
        yield client


# -- the table and the verbs ---------------------------------------------------------------------


def verbs() -> list[str]:
    return [name for name, value in vars(Verbs).items() if isinstance(value, Verb)]


def test_every_verb_is_in_both_clients_and_says_what_it_does():
    assert len(verbs()) >= 30
    client = Client(URL)
    for name in verbs():
        assert inspect.getdoc(getattr(Client, name)), name
        bound = inspect.signature(getattr(client, name))
        assert bound == inspect.signature(getattr(AsyncClient, name)), name


GIVEN: dict[str, Any] = {
    "name": "{agent}",
    "agent": "{agent}",
    "id": "{id}",
    "example": "{id}",
    "question": "{id}",
    "decision": "{id}",
    "contexts": [],
    "arms": [],
    "allowed": [],
    "context": {},
    "arm": 1,
    "features": 1,
    "value": 1.0,
    "k": 2,
    "slate": "{id}",
    "alpha": 0.1,
    "delta": 0.1,
    "q": 0.1,
    "role": "agent",
}


def made_up() -> Iterator[tuple[str, Any, Sent[Any], Endpoint]]:
    """Give every verb, its function, a call with made-up arguments, and the row of the table."""
    rows = {(row.method, row.path): row for row in endpoints()}
    for name in verbs():
        describe = getattr(Client, name)
        wanted = inspect.signature(describe).parameters.values()
        chosen = {
            one.name: GIVEN[one.name]
            for one in wanted
            if one.default is one.empty and one.kind is not one.VAR_KEYWORD
        }
        call = describe(**chosen)
        path = call.path.partition("?")[0].replace("%7B", "{").replace("%7D", "}")
        yield name, describe, call, rows[call.method, path]


def test_every_endpoint_has_a_verb_and_no_verb_goes_elsewhere():
    """Calls are made with made-up arguments, and looked up in the table."""
    met = set()
    for name, _, call, row in made_up():
        met.add((row.method, row.path))
        reads = call.method == "GET" or name in ("believed", "evaluate", "price_of_promise")
        assert (call.again == "read") == reads
    table = {(row.method, row.path) for row in endpoints()}
    assert table - met == {("GET", "/metrics"), ("GET", "/openapi.json")}


def test_every_verb_reads_what_its_endpoint_replies():
    checked = 0
    for name, describe, _, row in made_up():
        [answer] = get_args(get_type_hints(describe)["return"])
        if answer is type(None):
            continue
        for model, _ in row.replies.values():
            # What stands in a list is given as the list alone; an account as it is.
            kinds = set(get_args(model) or (model,))
            within = {field.annotation for one in kinds for field in one.model_fields.values()}
            assert answer in kinds | within, name
            checked += 1
    assert checked >= 35


def test_what_a_newer_service_adds_is_left_out():
    value = {"version": 3, "outcome": "postponed", "until": 5.0}
    answer: Any = read(replies.RewardShown, value)
    assert answer.outcome == "postponed"
    assert not hasattr(answer, "until")
    with pytest.raises(ServiceError, match="version"):
        read(replies.RewardShown, {"outcome": "late"})


def test_answers_are_values():
    value = {"id": 1, "label": "", "group": None}
    arm: Any = read(replies.ArmShown, value)
    assert arm == replies.ArmShown(**value) and hash(arm) == hash(replies.ArmShown(**value))
    with pytest.raises(ValueError, match="frozen"):
        arm.id = 2
    secret = read(replies.TokenMade, dict.fromkeys(replies.TokenMade.model_fields, "brd_secret"))
    assert "token" not in repr(secret) and secret.token == "brd_secret"


def test_new_ids_are_uuids_in_order_and_never_the_same():
    made = [new_id() for _ in range(1_000)]
    assert len(set(made)) == 1_000
    assert [one[:8] for one in made] == sorted(one[:8] for one in made)
    assert all(one[14] == "7" and one[19] in "89ab" and len(one) == 36 for one in made)


# -- a life over HTTP ----------------------------------------------------------------------------


def test_teach_decide_reward_explain(client: Client, server: Server):
    made = client.create("ann", **AGENT)
    assert (made.name, made.limits, [arm.group for arm in made.arms]) == (
        "ann",
        "rules",
        ["grim", None],
    )
    assert [one.name for one in client.agents()] == ["ann"]
    taught = client.teach("ann", CHILD, "crime", False, by="editor", note="not for children")
    many = client.teach_many("ann", [ADULT, CHILD], ["crime", "nature"], [True, True])
    assert len({*taught.examples, *many.examples}) == 3
    listed = client.examples("ann", limit=1)
    assert (listed.total, listed.examples[0].id) == (3, taught.examples[0])
    choice = client.decide("ann", CHILD, propensity=True)
    assert (choice.outcome, choice.arm) == ("decision", "nature")
    assert choice.propensity == pytest.approx(1.0, abs=1e-12)
    assert client.reward("ann", choice.id, 0.8).outcome == "learned"
    account = client.explain("ann", choice.id)
    assert (account["arm"], account["reward"]) == ("nature", 0.8)
    crime, nature = client.believed("ann", CHILD)
    assert (crime.playable, nature.playable) == (False, True)
    assert client.retract("ann", taught.examples[0]).version == client.agent("ann").version
    assert client.examples("ann").total == 2
    both = client.decide_many("ann", [CHILD, ADULT], among=["nature"], played=["crime", "nature"])
    assert len(both) == 2
    assert client.shadow("ann").decisions == 2
    kinds = [entry.kind for entry in client.events("ann", limit=2)]
    assert len(kinds) == client.agent("ann").version
    assert kinds.count("Decided") + kinds.count("Abstained") == 3
    assert next(client.events("ann", after=3)).seq == 4


def test_changes_of_an_agent(client: Client):
    client.create("ann", **{**AGENT, "limits": "linear"}, sigma=0.5)
    rule = Rule("night", when=[When("late", equals=True)], arms=["crime"])
    for change in (
        {"sigma": 0.25},
        {"wait": {"seconds": 60.0, "default_reward": 0.0}},
        {"add_arms": [Arm("music", "Music")]},
        {"declare": rule, "note": "by law"},
        {"withdraw": "night", "by": "ann"},
    ):
        assert client.change("ann", **change).version == client.agent("ann").version
    shown = client.agent("ann")
    assert (shown.sigma, shown.wait, len(shown.arms), shown.rules) == (0.25, 60.0, 3, ())
    with pytest.raises(ServiceError) as caught:
        client.change("ann", sigma=2.0)
    assert (caught.value.status, caught.value.field) == (422, "sigma")


def test_arms_with_features_slates_and_another_policy(client: Client):
    arms = [Arm(f"a{n}", features={"size": n / 4}) for n in range(4)]
    sizes = Schema([Number("size", 0, 1)])
    flags = AGENT["features"]
    client.create("ann", arms=arms, features=flags, arm_features=sizes, seed=1, policy=Thompson())
    slate = client.decide_slate("ann", ADULT, 2)
    assert [one.place for one in slate.decisions] == [1, 2] and slate.places == 2
    earned = client.reward_slate("ann", slate.slate, 1.0)
    assert [one.value for one in earned.items] == [0.5, 0.5]
    brought = client.decide("ann", ADULT, among=[Arm("new", features={"size": 0.5})])
    assert brought.arm == "new" and brought.slate is None
    client.change("ann", retire_arms=["a1"])
    client.change("ann", policy=SquareCB())
    client.change("ann", change_arms=[Arm("a2", "Two", features={"size": 1.0})])
    listed = client.arms("ann")
    assert [arm.status for arm in listed.arms] == [None, "retired", None, None, "visiting"]
    assert listed.arms[2].features == {"size": 1.0} and client.agent("ann").arms_total == 5
    assert client.agent("ann").policy["kind"] == "SquareCB"
    client.change("ann", restore_arms=["a1", "new"])
    assert client.arms("ann", status="standing").total == 5
    assert [one.arm for one in client.believed("ann", ADULT, arms=["a3"])] == ["a3"]


def test_questions_are_asked_answered_and_skipped(client: Client):
    client.create("ann", **AGENT, budget=10)
    asked = client.ask("ann", pool=[CHILD, ADULT])
    assert client.questions("ann").questions[0].id == asked.id
    assert client.answer("ann", asked.id, True, by="editor").then is None
    other = next(arm.id for arm in client.agent("ann").arms if arm.id != asked.arm)
    # Of a context without a name a yes is evidence, and may make it sure; of the other arm it asks.
    choice = client.decide("ann", CHILD, among=[other])
    assert choice.outcome == "question"
    assert choice.question is not None
    assert [one.decision for one in client.questions("ann").questions] == [choice.id]
    said = client.skip("ann", choice.question.id)
    assert said.example is None
    assert said.then is not None
    assert said.then.id == choice.id


def test_certificate_audits_and_evaluation(client: Client):
    client.create("ann", **AGENT)
    client.teach_many(
        "ann", [CHILD, ADULT, CHILD], ["crime", "crime", "nature"], [False, True, True]
    )
    contexts = [CHILD if i % 3 else ADULT for i in range(40)]
    promise = client.certify("ann", contexts, 0.2, 0.1, on="made up")
    while promise.calibration is not None:
        asked = promise.calibration
        allowed = not (asked.context["child"] and asked.arm == "crime")
        promise = client.calibrate("ann", allowed, by="editor")
    assert promise.certificate is not None
    assert client.certificate("ann").certificate == promise.certificate
    assert client.drop_certificate("ann").certificate is None
    begun = client.begin_audits("ann", q=1.0, delta=0.05, windows=[{"length": 10, "delta": 0.01}])
    assert begun.windows[0].length == 10
    for choice in client.decide_many("ann", [CHILD] * 5, propensity=True):
        client.reward("ann", choice.id, 0.5)
        client.judge("ann", choice.id, True, note="seen")
    audits = client.audits("ann", level=0.5)
    assert (audits.total.judged, audits.pending_total) == (5, 0)
    found = client.evaluate("ann", sigmas=[1.0], budget=0.1)
    assert [one.sigma for one in found.evaluations] == [1.0]
    assert found.recommended is not None


def test_checks_a_promise_and_a_fresh_start(client: Client):
    made = client.create("ann", **AGENT, promise=(0.5, 0.4), checks=0)
    assert made.promise == "playing" and len(made.warnings) == 1
    client.drop_promise("ann")
    priced = client.price_of_promise("ann", 0.5, 0.4, lag=2, steps=1_000)
    assert len(priced.price) >= 5 and priced.bound > 500.0
    kept = client.set_promise("ann", 0.5, 0.4, lag=2, by="officer")
    assert kept.promise is not None and kept.promise.b == priced.b
    assert client.set_promise("ann", 0.5, 0.4, lag=2) == kept
    with pytest.raises(ServiceError) as caught:
        client.set_promise("ann", 0.5, 0.3)
    assert caught.value.status == 409
    until = client.agent("ann").version * 1e6 + 2e6
    client.teach_many(
        "ann", [CHILD, ADULT] * 8, ["crime"] * 16, [True] * 16, until=until, by="editor"
    )
    client.teach("ann", CHILD, "nature", False, item="Up", scope="item", by="editor")
    lives = {(one.scope, one.until) for one in client.examples("ann").examples}
    assert lives == {("all", until), ("item", None)}
    drawn = 0
    for choice in client.decide_many("ann", [CHILD] * 20, items=[f"f{n}" for n in range(20)]):
        assert choice.outcome == "abstention" or (choice.coin or 0.0) >= 0.4
        drawn += choice.check
    waiting = client.checks("ann", limit=2)
    assert waiting.total == drawn > 2 and len(waiting.checks) == 2
    first = waiting.checks[0]
    judged = client.judge_check("ann", first.decision, True, by="editor", note="seen")
    assert not judged.started_anew
    assert client.judge_check("ann", first.decision, True, by="editor", note="seen") == judged
    with pytest.raises(ServiceError) as caught:
        client.judge_check("ann", first.decision, False)
    assert caught.value.status == 409
    shown = client.promise("ann", steps=50).promise
    assert shown is not None and shown.meter is not None and shown.steps == 20
    assert shown.meter.judged == 1 and shown.waiting == drawn - 1
    assert client.agent("ann").checks.judged == 1
    assert client.fresh_start("ann").proposal is None
    assert client.start_anew("ann", "another law", by="officer").proposal is None
    assert [one.allowed for one in client.examples("ann").examples] == [False]
    with pytest.raises(ServiceError) as caught:
        client.start_anew("ann")
    assert caught.value.status == 409
    assert client.drop_promise("ann").promise is None


STAFF = [Teacher("editor", price=0.35), Teacher("model", price=0.01)]


def test_several_teachers(client: Client, server: Server):
    made = client.create("ann", **AGENT, teachers=STAFF, budget=10)
    assert made.teachers == ("editor", "model")
    asked = client.ask("ann", CHILD, item="Up")
    assert asked.whom is not None and asked.whom.teacher == "model" and asked.whom.explores
    assert [one.id for one in client.questions("ann", teacher="model").questions] == [asked.id]
    with pytest.raises(ServiceError) as caught:
        client.answer("ann", asked.id, False)
    assert (caught.value.status, caught.value.field) == (422, "teacher")
    first = client.answer("ann", asked.id, False, teacher="model", by="a program")
    assert first.example is None and first.judgement is not None
    assert first.judgement.allowed is None and first.judgement.said == {"model": False}
    assert first.judgement.next is not None and first.judgement.next.teacher == "editor"
    assert client.questions("ann", teacher="model").total == 0
    # Another mind of the same teacher is another word.
    changed = client.answer("ann", asked.id, True, teacher="model")
    assert changed.judgement is not None and changed.judgement.said == {"model": True}
    with pytest.raises(ServiceError) as caught:
        client.answer("ann", asked.id, True, teacher="model")
    assert caught.value.status == 409
    client.answer("ann", asked.id, False, teacher="model", id="third")
    shown = client.teachers("ann")
    assert [one.name for one in shown.teachers] == ["editor", "model"] and shown.open_total == 1
    assert shown.open[0].question == asked.id and shown.open[0].item == "Up"
    last = client.answer("ann", asked.id, False, teacher="editor", scope="item", until=4e9)
    assert last.judgement is not None and last.judgement.allowed is False
    [example] = client.examples("ann").examples
    assert (example.by, example.scope, example.until) == ("editor, model", "item", 4e9)
    taught = client.teach("ann", ADULT, "nature", True, item="Saw", teacher="model")
    assert taught.examples == (None,) and taught.judgements is not None
    many = client.teach_many("ann", [ADULT], ["nature"], [True], items=["Saw"], teacher="editor")
    assert many.judgements is not None and many.judgements[0].allowed is True
    assert client.teachers("ann").teachers[0].shared == 2


def test_tokens_are_made_used_and_revoked(client: Client, through: Through):
    made = client.make_token("teacher", agents=["ann"], note="of the editor")
    assert made.token not in repr(made)
    client.create("ann", **AGENT)
    editor = Client(URL, made.token, transport=through)
    assert editor.examples("ann").total == 0
    with pytest.raises(ServiceError) as caught:
        editor.decide("ann", CHILD)
    assert (caught.value.status, caught.value.code) == (403, "forbidden")
    assert caught.value.remedy is not None
    assert client.revoke_token(made.id).revoked is not None
    with pytest.raises(ServiceError) as caught:
        editor.examples("ann")
    assert caught.value.status == 401
    assert [one.note for one in client.tokens()][1:] == ["of the editor"]


def test_a_wrong_token_and_none(server: Server, through: Through):
    for token in (None, "brd_wrong", server.token[:-1] + "~"):
        client = Client(URL, token, transport=through)
        client.health()
        client.ready()
        with pytest.raises(ServiceError) as caught:
            client.agents()
        assert (caught.value.status, caught.value.code) == (401, "no_token")
        assert server.token not in str(caught.value)


def test_contexts_of_numpy_and_odd_ids(client: Client):
    client.create("plain", arms=[1, 2], features=3, seed=1, sigma=1.0, limits="linear")
    made = client.decide("plain", np.array([0.0, 0.5, 1.0]), id="..~")
    assert client.reward("plain", "..~", np.float64(0.5)).outcome == "learned"
    assert client.explain("plain", "..~")["arm"] == made.arm
    with pytest.raises(ServiceError) as refused:  # curl and browsers would take it for a folder
        client.decide("plain", np.array([0.0, 0.5, 1.0]), id="..")
    assert refused.value.code == "invalid_value"
    client.decide_many("plain", np.eye(3))
    with pytest.raises(InvalidValue) as caught:
        client.decide_many("plain", np.eye(3), ids=["a"])
    assert caught.value.name == "ids"


def test_a_client_keeps_the_last_head_that_it_heard_of(client: Client):
    assert client.heads == {}
    for name in ("ann", "bob"):
        client.create(name, **AGENT)
        client.teach(name, CHILD, "nature", True)
    assert client.heads == {name: client.events_page(name).head for name in ("ann", "bob")}
    client.heads.clear()  # a copy
    late = client.heads["ann"]
    client.teach("ann", CHILD, "crime", False)
    now = client.heads["ann"]
    sent = Client.agent("ann")
    for head in (late, "nonsense", "-1:00"):
        client._note_head(sent, {"bridle-head": head})
        assert client.heads["ann"] == now


# -- answers that are lost -----------------------------------------------------------------------

# Each with the number of events that it makes.
NAMED: dict[str, tuple[int, Callable[[Client], object]]] = {
    "teach": (1, lambda one: one.teach("ann", CHILD, "crime", False)),
    "teach_many": (
        2,
        lambda one: one.teach_many("ann", [CHILD, ADULT], ["crime"] * 2, [False, True]),
    ),
    "ask": (1, lambda one: one.ask("ann", CHILD)),
    "decide": (1, lambda one: one.decide("ann", CHILD, propensity=True)),
    "decide, in shadow": (2, lambda one: one.decide("ann", CHILD, played="crime")),
    "decide_many": (2, lambda one: one.decide_many("ann", [CHILD, ADULT])),
}
# Their address is their id.
PLACED: dict[str, tuple[int, Callable[[Client], object]]] = {
    "retract": (1, lambda one: one.retract("ann", "first")),
    "answer": (1, lambda one: one.answer("ann", "asked", True)),
    "skip": (1, lambda one: one.skip("ann", "asked")),
    "reward": (1, lambda one: one.reward("ann", "made", 0.8)),
    "judge": (1, lambda one: one.judge("ann", "made", True)),
}


@pytest.mark.parametrize("verb", [*NAMED, *PLACED])
def test_what_was_done_and_not_heard_of_is_done_once(client: Client, through: Through, verb: str):
    client.create("ann", **AGENT)
    client.begin_audits("ann", q=1.0, delta=0.1)
    client.teach("ann", ADULT, "nature", True, id="first")
    client.teach("ann", CHILD, "nature", True)
    client.ask("ann", CHILD, id="asked")
    client.decide("ann", ADULT, id="made")
    before = client.agent("ann").version
    through.lost = {through.count + 1, through.count + 2}
    events, call = (NAMED | PLACED)[verb]
    given = call(client)
    assert through.count == max(through.lost) + 1
    assert client.agent("ann").version == before + events
    if verb in PLACED:
        assert call(client) == given
        assert client.agent("ann").version == before + events


# Each with the words and the examples that it makes: here nothing is settled by one teacher.
SPOKEN: dict[str, tuple[int, Callable[[Client], object]]] = {
    "teach": (1, lambda one: one.teach("ann", CHILD, "crime", False, item="a", teacher="model")),
    "teach_many": (
        2,
        lambda one: one.teach_many(
            "ann",
            [CHILD, ADULT],
            ["crime"] * 2,
            [False, False],
            items=["a", "b"],
            teacher="model",
        ),
    ),
    "answer": (1, lambda one: one.answer("ann", "asked", False, teacher="model")),
}


@pytest.mark.parametrize("verb", [*SPOKEN])
def test_a_word_that_settles_nothing_is_taken_once(client: Client, through: Through, verb: str):
    client.create("ann", **AGENT, teachers=STAFF)
    client.ask("ann", CHILD, id="asked")
    before = client.agent("ann").version
    through.lost = {through.count + 1, through.count + 2}
    words, call = SPOKEN[verb]
    call(client)
    assert through.count == max(through.lost) + 1
    assert client.agent("ann").version == before + words
    assert sum(one.answers for one in client.teachers("ann").teachers) == words


def test_an_id_of_the_callers_own_can_be_sent_again_much_later(client: Client):
    client.create("ann", **AGENT)
    client.teach("ann", CHILD, "nature", True)
    first = client.decide("ann", CHILD, id="order-17")
    client.teach("ann", CHILD, "crime", True)
    assert client.decide("ann", CHILD, id="order-17") == first
    with pytest.raises(ServiceError) as caught:
        client.decide("ann", ADULT, id="order-17")
    assert (caught.value.status, caught.value.code) == (409, "conflict")


# -- the async client ----------------------------------------------------------------------------


def test_many_calls_at_once_and_each_once(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("bridle.client.client.FIRST_WAIT", 0.0)

    class Losing(httpx2.AsyncBaseTransport):
        """Every third answer is lost."""

        def __init__(self, app: App) -> None:
            self.inner = httpx2.ASGITransport(app)
            self.count = 0

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            answer = await self.inner.handle_async_request(request)
            self.count += 1
            if self.count % 3 == 0:
                raise httpx2.ReadError("the answer was lost")
            return answer

    async def live() -> None:
        store = SqliteStore(tmp_path / "a.db")
        service = Service(store)
        first = await service.start(ticking=False)
        assert first is not None
        transport = Losing(App(service, endpoints()))
        async with AsyncClient(URL, first.text, transport=transport) as client:
            await client.create("ann", **AGENT)
            await client.create("eve", **AGENT, teachers=STAFF)
            await client.teach_many("ann", [CHILD, ADULT], ["nature", "nature"], [True, True])

            async def one(i: int) -> str:
                choice = await client.decide("ann", CHILD if i % 2 else ADULT)
                rewarded = await client.reward("ann", choice.id, 0.5)
                assert rewarded.outcome == "learned"
                return str(choice.id)

            word = await client.teach("eve", CHILD, "crime", False, teacher="model")
            assert word.judgements is not None and word.judgements[0].said == {"model": False}
            assert (await client.teachers("eve")).open_total == 1
            ids = await asyncio.gather(*map(one, range(100)))
            kinds = [entry.kind async for entry in client.events("ann", limit=50)]
            assert len(set(ids)) == 100
            assert kinds.count("Decided") == kinds.count("Rewarded") == 100
            assert transport.count > 240
        with pytest.raises(Exception, match="closed"):
            await client.decide("ann", CHILD)
        await service.stop()
        store.close()

    asyncio.run(live())


def test_an_async_call_is_given_up_at_its_deadline_and_when_cancelled():
    class Silent(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            await asyncio.get_running_loop().create_future()
            raise AssertionError

    async def live() -> None:
        async with AsyncClient(URL, deadline=0.05, transport=Silent()) as client:
            with pytest.raises(ServiceError) as caught:
                await client.decide("ann", CHILD)
            assert (caught.value.code, caught.value.unknown) == ("no_answer", True)
        async with AsyncClient(URL, transport=Silent()) as client:
            task = asyncio.create_task(client.decide("ann", CHILD))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(live())
