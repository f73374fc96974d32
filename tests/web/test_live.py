from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bridle.api.requests import Decide, Reward
from bridle.errors import Busy
from bridle.server.endpoints import Call
from bridle.server.handlers import decisions as deciding
from bridle.server.problems import Problem
from bridle.store.aggregate import load
from bridle.web import live
from bridle.web import live as curves
from bridle.web.charts import Area, stack
from bridle.web.live import charts_of, history_of
from tests.web.browsing import Person, no_script
from tests.web.films import call, decide
from tests.web.streaming import stream

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def films(server, make):
    """An agent that was taught, has decided and was rewarded; `server.clock` tells the time."""
    make()
    call(
        server,
        "POST",
        "/v1/agents/films/examples",
        {
            "examples": [
                {
                    "context": {"age": age, "late": late},
                    "arm": arm,
                    "allowed": arm == "kite" or age == "25+",
                }
                for age in ("12-17", "18-24", "25+")
                for late in (True, False)
                for arm in ("night", "fog", "kite")
            ]
        },
    )
    return "films"


def events_of(body):
    return [
        json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: ")
    ]


# -- the page --------------------------------------------------------------------------------


def test_it_shows_the_last_decisions_and_the_curves(server, films, person):
    for n in range(30):
        decide(server, reward=0.5 if n % 2 else None)
    ann = person("auditor")
    shown = ann.get("/agents/films/live")
    assert shown.status == 200 and no_script(shown.html)
    assert len(re.findall(r"<li data-id=", shown.html)) == live.SLOTS
    assert "/agents/films/decisions/30" in shown.links
    assert "/agents/films/decisions/10" not in shown.links
    newest = shown.one(data_id="30")
    assert newest.data("outcome") == "decision"
    assert "earned 0.5" in newest.text and "age 25+ · not late" in newest.text
    assert (shown.value("choices"), shown.value("reward")) == ("30", "0.5")
    assert shown.html.count('class="plot"') == 4
    # Without JavaScript there is a way to see what came since.
    assert "reload" in shown.notes
    part = ann.get("/agents/films/live/curves")
    assert part.status == 200 and "<html" not in part.html and part.html.count('class="plot"') == 4


def test_who_may_not(server, films, person):
    for path in ("live", "live/curves", "live/stream"):
        assert person("teacher").get(f"/agents/films/{path}").status == 403
        assert person("auditor", ("songs",)).get(f"/agents/films/{path}").status == 403
        assert person("auditor").get(f"/agents/nothing/{path}").status == 404


def test_an_agent_that_did_nothing_yet(server, make, person):
    make()
    shown = person("admin").get("/agents/films/live")
    assert shown.status == 200 and "no-decision" in shown.notes
    assert shown.html.count("<li>") == live.SLOTS
    assert not [one for one in shown.all() if one.tag in ("polyline", "polygon", "circle")]
    assert "none-judged" in shown.notes


def test_a_time_range(server, films, person):
    server.clock.now = 1_000_000.0
    for _ in range(40):
        decide(server, reward=1.0)
    server.clock.now = 2_000_000.0
    for _ in range(40):
        decide(server, reward=0.0)
    ann = person("auditor")

    def shown(query):
        page = ann.get(f"/agents/films/live?{query}")
        return int(page.value("choices")), page.value("reward")

    assert shown("") == (80, "0.5") and shown("range=all") == (80, "0.5")
    assert shown("range=hour")[1] == "0" and shown("range=day")[0] < 60
    # 1,000,000 s are 1970-01-12T13:46:40; 40 decisions took 40 minutes.
    assert shown("from=1970-01-12T00:00&to=1970-01-13T00:00")[1] == "1"
    assert shown("from=1970-01-20T00:00")[1] == "0"
    assert shown("from=1971-01-01T00:00") == (0, "–")
    part = ann.get("/agents/films/live/curves?from=1970-01-12T00:00&to=1970-01-13T00:00")
    assert part.value("reward") == "1"


@pytest.mark.parametrize(
    "query",
    [
        "from=yesterday",
        "from=1970-02-01T00:00&to=1970-01-01T00:00",
        "range=ever",
        "from=%3Cscript%3Ealert(1)%3C/script%3E",
    ],
)
def test_a_range_that_is_none(server, films, person, query):
    shown = person("admin").get(f"/agents/films/live?{query}")
    assert shown.status == 422 and no_script(shown.html) and "must be" in shown.alert
    assert 'class="plot"' in shown.html  # the rest of the page is there all the same
    assert person("admin").get(f"/agents/films/live/curves?{query}").status == 422


def test_names_from_outside_are_only_text(server, make, person):
    arms = [{"id": SCRIPT, "label": f"{SCRIPT}!", "group": SCRIPT}, {"id": "b"}]
    features = [{"kind": "category", "name": SCRIPT, "values": [SCRIPT, "x"]}]
    make(arms=arms, features=features, policy={"kind": "Uniform"})
    for _ in range(20):
        made = server.call(
            "POST", "/v1/agents/films/decisions", {"context": {SCRIPT: SCRIPT}, "propensity": True}
        )
        assert made.status == 200
    ann = person("admin")
    for path in ("live", "live/curves"):
        shown = ann.get(f"/agents/films/{path}")
        assert no_script(shown.html) and "<script>alert" in shown.text
    came = stream(ann, "/agents/films/live/stream?after=1", until=lambda body: b"data:" in body)
    [said] = events_of(came.body)
    assert any(SCRIPT in row["said"] for row in said["rows"])


# -- the stream ------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(live, "TICK_SECONDS", 0.01)


def test_decisions_come_as_they_are_made(server, films, person, quick):
    ann = person("auditor")
    decide(server)
    context = {"context": {"age": "25+", "late": True}, "id": "ann:1"}
    handled = []

    async def during(pieces):
        if pieces == 1:  # the stream is open: something happens
            path = {"agent": "films", "id": "ann:1"}
            await deciding.decide(Call(server.service, None, path, None, Decide(**context)))
            await deciding.reward(Call(server.service, None, path, None, Reward(value=0.25)))
            handled.append(True)

    came = stream(
        ann,
        "/agents/films/live/stream",
        during=during,
        until=lambda body: b"earned 0.25" in body,
    )
    assert handled and came.status == 200
    assert came.headers["content-type"] == "text/event-stream"
    assert came.headers["cache-control"] == "no-store"
    assert came.body.startswith(b"retry: ")
    rows = [row for said in events_of(came.body) for row in said["rows"]]
    assert [row["id"] for row in rows] == ["ann:1"]
    assert rows[0]["href"] == "/agents/films/decisions/ann:1" and "late" in rows[0]["context"]
    ids = [int(line[4:]) for line in came.body.decode().splitlines() if line.startswith("id: ")]
    assert ids == sorted(ids) and ids[-1] == server.store.head("films").seq


def test_who_comes_back_gets_what_was_missed(server, films, person, quick):
    head = server.store.head("films").seq
    for _ in range(3):
        decide(server, reward=0.5)
    ann = person("auditor")
    for given in ({"last_event_id": str(head)}, {}):
        query = "?after=0" if given else f"?after={head}"
        came = stream(
            ann, f"/agents/films/live/stream{query}", until=lambda body: b"data:" in body, **given
        )
        [said] = events_of(came.body)
        assert [row["id"] for row in said["rows"]] == ["1", "2", "3"] and said["more"] == 0
        assert said["rewards"] == dict.fromkeys(("1", "2", "3"), "earned 0.5")


def test_too_much_is_passed_over_and_counted(server, films, person, quick):
    head = server.store.head("films").seq
    many = [{"context": {"age": "25+", "late": False}}] * 300
    call(server, "POST", "/v1/agents/films/decisions", {"decisions": many})
    came = stream(
        person("auditor"),
        f"/agents/films/live/stream?after={head}",
        until=lambda body: b"data:" in body,
    )
    [said] = events_of(came.body)
    added = server.store.head("films").seq - head
    assert said["more"] == added - live.AT_ONCE and len(said["rows"]) == live.SLOTS
    assert said["rows"][-1]["id"] == "300"


def test_a_place_that_is_not_in_the_log(server, films, person, quick):
    ann = person("auditor")
    assert ann.get("/agents/films/live/stream?after=-1").status == 422
    assert ann.get("/agents/films/live/stream?after=x").status == 422
    decide(server)
    for given in ({"last_event_id": "99999999"}, {"last_event_id": "nonsense"}):
        came = stream(
            ann, "/agents/films/live/stream", until=lambda body: body.startswith(b"retry"), **given
        )
        assert came.status == 200 and not events_of(came.body)


def test_it_ends_with_the_server_and_after_a_while(server, films, person, quick, monkeypatch):
    ann = person("auditor")

    async def during(pieces):
        server.service.leaving = True

    assert stream(ann, "/agents/films/live/stream", during=during).status == 200
    server.service.leaving = False
    monkeypatch.setattr(live, "STREAM_SECONDS", 0.05)
    monkeypatch.setattr(live, "BEAT_SECONDS", 0.02)
    came = stream(ann, "/agents/films/live/stream")
    assert came.status == 200 and b": still here" in came.body


def test_who_was_revoked_does_not_come_back(server, films, person):
    ann = person("auditor")
    [row] = [row for row in server.store.tokens() if row.role == "auditor"]
    server.runner.run(server.service.tokens.revoke(row.id))
    assert ann.get("/agents/films/live/stream").status == 303


def test_a_busy_service_only_makes_it_wait(server, films, person, quick, monkeypatch):
    real, tries = live._read_updates, []

    def since(*given):
        tries.append(given)
        if len(tries) < 3:
            raise Busy(9)
        return real(*given)

    monkeypatch.setattr(live, "_read_updates", since)
    decide(server)
    came = stream(
        person("auditor"), "/agents/films/live/stream?after=1", until=lambda body: b"data:" in body
    )
    assert len(tries) == 3 and len(events_of(came.body)) == 1


# -- curves ----------------------------------------------------------------------------------


def test_a_course_adds_up(server, films):
    for n in range(100):
        decide(server, "12-17" if n % 4 == 0 else "25+", reward=0.5)
    call(server, "POST", "/v1/agents/films/audit", {"q": 1.0, "delta": 0.05})
    for _ in range(50):
        made = decide(server)
        path = f"/v1/agents/films/audits/{made['id']}/answer"
        call(server, "POST", path, {"allowed": made["arm"] != "fog"})
    aggregate = load(server.store, "films")
    history = history_of(aggregate)
    assert history.choices == 150 and history.total("rewards") == 100 and history.mean_reward == 0.5
    assert history.taught == 18 and len(history.points) <= curves.MOST_POINTS
    assert all(sum(point.plays) == point.decisions for point in history.points)
    audited, meter = history.audited, aggregate.auditing.meter
    assert audited is not None and audited.share is not None and meter is not None
    bounds = meter.bounds()
    assert audited.plays == 50 and audited.judged == 50
    assert (audited.low, audited.high) == (bounds.lower / 50, bounds.upper / 50)
    assert audited.low <= audited.share <= audited.high
    assert [one.place for one in history.points] == list(range(len(history.points)))
    drawn = charts_of(history)
    assert [one.name for one in drawn] == ["Reward", "Not played", "Broken limits", "What it plays"]
    assert all("<svg" in one.chart for one in drawn)


def test_many_arms_are_the_most_played_and_all_others(server, make):
    make(arms=[{"id": f"a{n}"} for n in range(20)], policy={"kind": "Uniform"})
    many = [{"context": {"age": "25+", "late": False}}] * 500
    call(server, "POST", "/v1/agents/films/decisions", {"decisions": many})
    history = history_of(load(server.store, "films"))
    assert len(history.names) == curves.MOST_LINES and history.others == 14
    plays = [sum(point.plays[n] for point in history.points) for n in range(7)]
    assert plays[:6] == sorted(plays[:6], reverse=True) and sum(plays) == 500
    chart = charts_of(history)[3].chart
    assert chart.count("<polygon") == 7 and "all others" in chart


def test_shares_of_one_place_and_of_none():
    one = stack("shares", [0.0], [Area("a", [3], "c1"), Area("b", [1], "c2")], [(0.0, "now")])
    assert one.count("<polygon") == 2 and "nan" not in one
    assert "nothing to show yet" in stack("shares", [], [], [])
    assert "nothing to show yet" in stack("shares", [0.0], [Area("a", [0], "c1")], [])


def test_problems_are_not_swallowed(server, films, person, monkeypatch):
    async def failed(*given):
        raise Problem("store_failed", "It failed.")

    monkeypatch.setattr(server.service, "aside", failed)
    assert person("auditor").get("/agents/films/live").status == 503


def test_questions_to_be_taught_by_are_none_of_choices(server, films, person):
    decide(server)
    for n in range(3):
        body = {"context": {"age": "25+", "late": False}, "id": f"q{n}"}
        call(server, "POST", "/v1/agents/films/questions", body)
    assert history_of(load(server.store, "films")).total("questions") == 0
    assert person("auditor").get("/agents/films/live").value("questions") == "0"


def point(**counts):
    nothing = dict.fromkeys(("decisions", "abstentions", "questions", "rewards"), 0)
    return curves.Point(place=0, at=0.0, reward=0.0, plays=(), **(nothing | counts))


def test_never_more_than_all_choices_asked():
    shares = [line.points[0][1] for line in curves._idle([point(decisions=2, questions=5)])]
    assert shares == [0.0, 1.0]


@pytest.fixture
def long_log(server, films):
    """Many choices of long ago, in wide spans, and one of now in the last of them."""
    many = [{"context": {"age": "25+", "late": False}}] * 1_000
    for _ in range(2):
        call(server, "POST", "/v1/agents/films/decisions", {"decisions": many})
    server.clock.now += 1_000_000.0
    decide(server, reward=0.5)


def test_at_the_ends_of_a_time_each_is_counted(server, long_log, person):
    ann = person("auditor")
    hour = ann.get("/agents/films/live?range=hour")
    assert (hour.value("choices"), hour.value("reward")) == ("1", "0.5")
    assert "rough-ends" not in hour.notes
    assert ann.get("/agents/films/live").value("choices") == "2,001"
    now = datetime.fromtimestamp(server.clock.now - 3_600.0, UTC).isoformat()[:19]
    assert ann.get(f"/agents/films/live?to={now}").value("choices") == "2,000"
    assert ann.get(f"/agents/films/live?from={now}&to={now}").value("choices") == "0"


def test_what_is_too_much_to_count_is_said(server, long_log, person, monkeypatch):
    monkeypatch.setattr(live, "MOST_AT_EDGES", 0)
    hour = person("auditor").get("/agents/films/live?range=hour")
    assert hour.value("choices") != "1" and "rough-ends" in hour.notes


@pytest.mark.parametrize("how", ["revoked", "expired", "other"])
def test_who_lost_the_right_sees_no_more(server, films, quick, how):
    ann = Person(server, None)
    made = server.grant("auditor", expires=server.clock.now + 100.0)
    assert ann.post("/sign-in", {"token": made.text}).status == 303
    tokens = server.service.tokens

    async def during(pieces):
        if pieces > 1:
            return
        if how == "revoked":
            await tokens.revoke(made.row.id)
        elif how == "expired":
            server.clock.now += 200.0
        else:
            tokens.hold([made.row._replace(role="teacher")], 0.0)
        path = {"agent": "films"}
        form = Decide(context={"age": "25+", "late": True})
        await deciding.decide(Call(server.service, None, path, None, form))

    # It ends by itself, long before a stream does: or the helper would give up.
    came = stream(ann, "/agents/films/live/stream", during=during)
    assert came.status == 200 and not events_of(came.body)


def test_a_word_as_an_id_is_no_reward():
    script = (Path(live.__file__).parent / "static" / "live.js").read_text()
    assert "Object.hasOwn(news.rewards, row.id)" in script
