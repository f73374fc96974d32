from __future__ import annotations

import pytest

from bridle.errors import Busy, CorruptState, StoreFailed
from bridle.server.limits import Limits
from bridle.store import aggregate
from bridle.web import agents
from bridle.web.agents import ActivityCache, activity_cache, activity_of
from tests.server.driving import Server
from tests.web.browsing import Element, Person, Shown, no_script
from tests.web.conftest import ARMS, FEATURES

YOUNG = {"age": "12-17", "late": False}


def made(server: Server, name: str, **more: object) -> str:
    agent = {"arms": ARMS, "features": FEATURES, "limits": "rules", "seed": 3} | more
    answer = server.call("POST", "/v1/agents", {"name": name, "agent": agent})
    assert answer.status == 201, answer.body
    return name


def busy(server: Server, name: str) -> None:
    """Teach an agent, and have it decide, be rewarded and ask."""
    for arm, allowed in (("kite", True), ("night", False)):
        body = {"context": YOUNG, "arm": arm, "allowed": allowed}
        assert server.call("POST", f"/v1/agents/{name}/examples", body).status == 201
    for value in (0.25, 0.5):
        choice = server.call("POST", f"/v1/agents/{name}/decisions", {"context": YOUNG}).json
        reward = f"/v1/agents/{name}/decisions/{choice['id']}/reward"
        assert server.call("POST", reward, {"value": value}).status == 200
    adult = {"age": "25+", "late": True}
    body = {"context": adult}
    assert server.call("POST", f"/v1/agents/{name}/questions", body).status == 201


def look(server: Server, seen: ActivityCache, *names: str, patience: float = 30.0) -> dict:
    pairs = [(row.name, row.head.seq) for row in server.store.agents() if row.name in names]
    return server.runner.run(seen.read(server.service, pairs, patience))


def listed(shown: Shown) -> list[Element]:
    return [one for one in shown.all() if "data-agent" in one.attrs]


def test_there_is_no_agent_yet(server, person):
    admin = person("admin").get("/agents")
    assert "no-agent" in admin.notes and "/agents/new" in admin.links
    teacher = person("teacher").get("/agents")
    assert "no-agent-for-you" in teacher.notes and "/agents/new" not in teacher.links


def test_what_an_agent_is_doing(server, make, person, monkeypatch):
    busy(server, make())
    server.clock.now += 20.0
    shown = person("teacher").get("/agents")
    assert no_script(shown.html)
    films = shown.one(data_agent="films")
    assert films.data("state") == "deciding"
    for name, value in (
        ("decisions", "2"),
        ("reward", "0.375"),
        ("examples", "2"),
        ("questions", "1"),
        ("seen", "20 s ago"),
    ):
        assert films.value(name) == value
    share = server.runner.run(
        server.service.do("films", lambda work: work.aggregate.recent.unsure())
    )
    assert films.value("unsure") == f"{100 * share:.0f} %"
    server.clock.now += 3_000.0
    films = person("admin").get("/agents").one(data_agent="films")
    assert films.data("state") == "quiet" and films.value("seen") == "50 min ago"
    server.clock.now = 1_000_002.0
    assert person("admin").get("/agents").value("seen") == "just now"

    async def stuck(*_, **__):
        raise StoreFailed("Nothing was heard of the work for 5 s.", True)

    monkeypatch.setattr(server.service, "do", stuck)
    assert person("admin").get("/agents").one(data_agent="films").data("state") == "cold"


def test_a_new_agent_has_done_nothing(server, make, person):
    make()
    shown = person("auditor").get("/agents")
    assert shown.one(data_agent="films").data("state") == "new"
    for name, value in (("decisions", "0"), ("reward", "–"), ("unsure", "–")):
        assert shown.value(name) == value
    assert "no-reward" in shown.notes


def test_links_are_by_role(server, make, person):
    make()
    pages = {
        "teacher": {"teach", "checks", "limits", "promises"},
        "auditor": {"checks", "limits", "dial", "live", "decisions", "promises"},
        "admin": {"teach", "checks", "limits", "dial", "live", "decisions", "promises", "settings"},
    }
    for role, wanted in pages.items():
        links = person(role).get("/agents").links
        found = {one.split("/")[3] for one in links if one.startswith("/agents/films/")}
        assert found == wanted, role
        assert ("/agents/new" in links) == (role == "admin")


def test_only_the_agents_of_the_token(server, make, person):
    make("films")
    make("songs")
    shown = person("teacher", ("songs",)).get("/agents")
    assert [one.data("agent") for one in listed(shown)] == ["songs"]


def test_pages_of_twenty(server, make, person):
    for n in range(23):
        make(f"agent-{n:02}")
    admin = person("admin")
    first = admin.get("/agents")
    assert [one.data("agent") for one in listed(first)][-1] == "agent-19"
    assert "/agents?after=20" in first.links
    second = admin.get("/agents?after=20")
    names = [one.data("agent") for one in listed(second)]
    assert (names[0], names[-1]) == ("agent-20", "agent-22")
    assert second.links.count("/agents") >= 1 and "/agents?after=40" not in second.links
    assert "no-more-agents" in admin.get("/agents?after=40").notes
    assert admin.get("/agents?after=x").status == 422


def test_agents_that_are_not_in_memory_are_read_beside_the_writer(serve):
    server = serve(limits=Limits(agents_held=1))
    for name in ("films", "songs"):
        busy(server, made(server, name))
    assert server.service.head_of("films") is None
    shown = Person(server, "admin").get("/agents")
    assert [one.value("decisions") for one in listed(shown)] == ["2", "2"]
    # That took no place in memory.
    assert server.service.head_of("films") is None
    seen = activity_cache(server.service)
    assert activity_cache(server.service) is seen
    # What is known is not read again, until the log says more.
    before = look(server, seen, "films")["films"]
    assert look(server, seen, "films")["films"] is before
    server.call("POST", "/v1/agents/films/decisions", {"context": YOUNG})
    server.call("POST", "/v1/agents/songs/decisions", {"context": YOUNG})
    assert look(server, seen, "films")["films"].decisions == 3


def test_nobody_waits_for_what_takes_long(serve, monkeypatch):
    server = serve(limits=Limits(agents_held=1, aside_threads=1))
    for name in ("films", "songs", "tales"):
        made(server, name)
    seen = ActivityCache()
    found = look(server, seen, "films", "songs", "tales", patience=0.0)
    assert found["films"] is None and found["songs"] is None
    assert found["tales"] is not None  # it is in memory
    # There is one thread aside: when this is done, so is what was begun before.
    server.runner.run(server.service.aside(lambda: None))
    assert look(server, seen, "films")["films"].version == 1
    monkeypatch.setattr(agents, "PATIENCE", 0.0)
    monkeypatch.setattr(ActivityCache.read, "__defaults__", (0.0,))
    shown = Person(server, "admin").get("/agents")
    cold = [one for one in listed(shown) if one.data("state") == "cold"]
    assert cold and all(one.value("entries") == "1" for one in cold)


def test_an_agent_that_cannot_be_read_does_not_hide_the_others(serve, monkeypatch):
    server = serve(limits=Limits(agents_held=1))
    for name in ("films", "songs", "tales"):
        made(server, name)
    real = aggregate.load

    def load(store, name):
        if name == "films":
            raise CorruptState("A broken log.")
        return real(store, name)

    monkeypatch.setattr(agents, "load", load)
    found = look(server, ActivityCache(), "films", "songs")
    assert found["films"] is None and found["songs"] is not None

    async def full(do):
        raise Busy(18)

    seen = ActivityCache()
    monkeypatch.setattr(server.service, "aside", full)
    assert look(server, seen, "films", "songs") == {"films": None, "songs": None}
    monkeypatch.undo()
    assert look(server, seen, "songs")["songs"] is not None


def test_what_is_kept_of_agents_is_bounded(serve, monkeypatch):
    server = serve(limits=Limits(agents_held=1))
    for name in ("films", "songs", "tales"):
        made(server, name)
    monkeypatch.setattr(agents, "MOST_CACHED", 1)
    seen = ActivityCache()
    look(server, seen, "films", "songs")
    assert [*seen._cached] == ["songs"]


@pytest.mark.parametrize("rewards", [0, 1, 30, 100])
def test_the_course_of_rewards_has_few_points(server, make, rewards):
    make()
    for n in range(rewards):
        choice = server.call("POST", "/v1/agents/films/decisions", {"context": YOUNG}).json
        if choice["arm"] is None:
            body = {"context": YOUNG, "arm": "kite", "allowed": True}
            server.call("POST", "/v1/agents/films/examples", body)
            continue
        path = f"/v1/agents/films/decisions/{choice['id']}/reward"
        assert server.call("POST", path, {"value": n / 100.0}).status == 200
    activity = server.runner.run(
        server.service.do("films", lambda work: activity_of(work.aggregate))
    )
    assert len(activity.reward_trend) <= agents.POINTS
    known = [one for one in activity.reward_trend if one is not None]
    assert known == sorted(known)
    if rewards > 1:
        assert known and activity.reward is not None and known[0] <= activity.reward <= known[-1]


def test_one_reward_is_a_reward(server, person):
    made(server, "films")
    body = {"context": YOUNG, "arm": "kite", "allowed": True}
    assert server.call("POST", "/v1/agents/films/examples", body).status == 201
    choice = server.call("POST", "/v1/agents/films/decisions", {"context": YOUNG}).json
    reward = f"/v1/agents/films/decisions/{choice['id']}/reward"
    assert server.call("POST", reward, {"value": 0.75}).status == 200
    shown = person("admin").get("/agents")
    assert shown.value("reward") == "0.75"
    assert "no-reward" not in shown.notes and "few-rewards" in shown.notes
