from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridle_studies.demo.demonstration import DemoClock, demonstration
from tests.server.driving import Server
from tests.web.browsing import Person, Shown, no_script

ADULT = {"age": "25-34"}


@contextlib.contextmanager
def shown_in(folder: Path) -> Iterator[Server]:
    """A server with a demonstration; its people come only while it is asked for something."""
    server = Server(folder)
    try:
        stage = demonstration(server.service, DemoClock(server.clock), share=0.1)
        server.runner.run(stage.__aenter__())
        yield server
        server.runner.run(stage.__aexit__(None, None, None))
    finally:
        server.close()


@pytest.fixture(scope="module")
def cinema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with shown_in(tmp_path_factory.mktemp("cinema")) as server:
        yield server


def head(server: Server) -> int:
    return int(server.call("GET", "/v1/agents/movies").json["version"])


def recommended(somebody: Person, **more: str) -> Shown:
    sent = somebody.post("/visit", ADULT | more)
    assert sent.headers["location"].startswith("/visit/visitor-"), sent.text
    return somebody.follow(sent)


def doubted(shown: Shown) -> list[str]:
    return [one.data("doubted") for one in shown.all() if "data-doubted" in one.attrs]


def event(server: Server, id: str, *kinds: str) -> Any:
    """Find the event of a kind about a decision."""
    after = 0
    while True:
        path = f"/v1/agents/movies/events?limit=1000&after={after}"
        some = server.call("GET", path).json
        for one in some["events"]:
            told = one["event"]
            if one["kind"] in kinds and id in (told.get("id"), told.get("decision")):
                return told
        after = some["next"]
        assert after is not None, (id, kinds)


def test_without_a_demonstration_there_is_no_such_page(server, make, person):
    admin = person("admin")
    make()
    assert "/visit" not in admin.get("/agents").links
    for path in ("/visit", "/visit/visitor-1"):
        assert admin.get(path).status == 404
        assert admin.post(path, ADULT | {"stars": "1"}).status == 404
    assert "bridle serve --demo" in admin.get("/visit").text  # how to get one


@pytest.mark.parametrize("role", ["teacher", "auditor", "admin"])
def test_whoever_has_signed_in_may_visit(cinema, role):
    somebody = Person(cinema, role)
    assert "/visit" in somebody.get("/agents").links
    start = somebody.get("/visit")
    assert start.status == 200 and no_script(start.html)
    shown = recommended(somebody)
    assert no_script(shown.html)
    assert shown.has(data_age="25-34") and len(shown.all(name="stars")) == 6
    why = next(link for link in shown.links if "/decisions/" in link)
    assert somebody.get(why).status == 200
    assert Person(cinema, None).get("/visit").status == 303


def test_the_rating_is_the_reward(cinema):
    somebody = Person(cinema, "auditor")
    sent = somebody.post("/visit", {"age": "18-24", "child": "yes"})
    place = sent.headers["location"]
    id = place.removeprefix("/visit/")
    assert somebody.get(place).has(data_child="yes")
    rated = somebody.post(place, {"stars": "4", "seen": ""})
    assert rated.status == 303
    made, reward = event(cinema, id, "Decided"), event(cinema, id, "Rewarded")
    assert reward["value"] == 0.8 and made["propensity"] is not None
    following = somebody.follow(rated)
    assert following.said == "rated" and following.has(data_rated="1")
    # The next one is another movie, for the same visitor.
    assert f"seen={made['arm']}" in rated.headers["location"]
    assert following.one(data_age="18-24").data("child") == "yes"
    next_id = rated.headers["location"].removeprefix("/visit/").partition("?")[0]
    assert made["arm"] not in event(cinema, next_id, "Decided", "Abstained")["among"]
    # The first page now says what was given, and leads on.
    before = somebody.get(place)
    assert before.has(data_stars="4") and before.form("/visit")
    assert before.form("/visit")["child"] == "yes"
    assert somebody.post(place, {"stars": "1"}).status == 409


def test_not_interested_earns_nothing(cinema):
    somebody = Person(cinema, "teacher")
    place = somebody.post("/visit", ADULT).headers["location"]
    rated = somebody.post(place, {"stars": "0"})
    assert "said=passed" in rated.headers["location"]
    assert somebody.follow(rated).said == "passed"
    assert event(cinema, place.removeprefix("/visit/"), "Rewarded")["value"] == 0.0


def test_what_it_doubts_is_told_kindly(cinema):
    teacher, auditor = Person(cinema, "teacher"), Person(cinema, "auditor")
    visiting = cinema.service.visiting
    for n in range(60):
        age = visiting.ages[n % len(visiting.ages)]
        shown = recommended(teacher, age=age, child="yes" if n % 2 else "")
        if doubted(shown):
            break
    assert doubted(shown)
    assert "/agents/movies/teach" in shown.links
    why = next(link for link in shown.links if "/decisions/" in link)
    same = auditor.get("/visit/" + why.rpartition("/")[2])
    assert doubted(same) == doubted(shown) and "/agents/movies/teach" not in same.links


def test_where_nothing_is_surely_allowed(cinema):
    somebody = Person(cinema, "teacher")
    visiting = cinema.service.visiting
    horror = [
        arm["id"]
        for arm in cinema.call("GET", "/v1/agents/movies").json["arms"]
        if "Horror" in arm["group"]
    ]
    seen = ",".join(one for one in visiting.movies if one not in horror)
    # All that is left is horror, and a child watches: a rule says no.
    sent = somebody.post("/visit", ADULT | {"child": "yes", "seen": seen})
    place = sent.headers["location"]
    shown = somebody.get(place)
    assert shown.has(data_movie="")
    assert somebody.post(place, {"stars": "3"}).status == 409
    assert somebody.follow(somebody.post("/visit", shown.form("/visit"))).status == 200


def test_what_a_visitor_may_not_say(cinema):
    somebody = Person(cinema, "admin")
    before = head(cinema)
    wrong = somebody.post("/visit", {"age": "<script>alert(1)</script>"})
    assert wrong.status == 422 and "how old" in wrong.alert
    assert "<script>alert" not in wrong.html
    assert head(cinema) - before < 10  # but for who came meanwhile
    shown = recommended(somebody, seen="nothing,<script>,,")
    assert no_script(shown.html) and not [one for one in shown.all() if "data-rated" in one.attrs]
    place = somebody.post("/visit", ADULT).headers["location"]
    for stars in ("6", "-1", "", "x"):
        assert somebody.post(place, {"stars": stars}).status == 422
    # No page for decisions of others.
    assert somebody.get("/visit/1").status == 404
    assert somebody.get("/visit/visitor-none").status == 404


def test_all_movies_once_then_from_the_start(cinema):
    somebody = Person(cinema, "admin")
    everything = ",".join(cinema.service.visiting.movies)
    shown = recommended(somebody, seen=everything)
    assert len(shown.all(name="stars")) == 6


def test_what_comes_too_late(tmp_path):
    with shown_in(tmp_path) as cinema:
        somebody = Person(cinema, "admin")
        place = somebody.post("/visit", ADULT).headers["location"]
        cinema.clock.now += 3_600.0
        assert cinema.runner.run(cinema.service.ticker.tick()) > 0
        assert "too-late" in somebody.get(place).notes
        assert somebody.post(place, {"stars": "5"}).status == 303
        # Visitors can do no more when their token is revoked.
        [row] = [row for row in cinema.store.tokens() if row.note == "Visitors"]
        assert row.role == "agent" and row.agents == ("movies",)
        cinema.runner.run(cinema.service.tokens.revoke(row.id))
        assert somebody.post("/visit", ADULT).status == 401
