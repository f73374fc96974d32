from __future__ import annotations

import re
from typing import Any

import pytest

from bridle.store.maintenance import erase
from bridle.web.dial import Evaluated, positions_for
from bridle.web.jobs import Job, jobs_of
from tests.server.driving import Server
from tests.web.browsing import Shown, no_script
from tests.web.test_limits import SCRIPT, teach

HERE = "/agents/films/dial"
CONTEXTS = [{"age": age, "late": late} for age in ("12-17", "18-24") for late in (True, False)]


def live(server: Server, n: int = 80, *, propensity: bool = True, rewarded: int = 10**9) -> None:
    """Decide n times, and reward the first of them."""
    rows = [{"context": CONTEXTS[i % 4]} for i in range(n)]
    body = {"decisions": rows, "propensity": propensity}
    answer = server.call("POST", "/v1/agents/films/decisions", body)
    assert answer.status == 200, answer.body
    for i, made in enumerate(answer.json["decisions"]):
        if made["arm"] is not None and i < rewarded:
            value = {"night": 0.9, "fog": 0.6, "kite": 0.2}[made["arm"]]
            path = f"/v1/agents/films/decisions/{made['id']}/reward"
            assert server.call("POST", path, {"value": value}).status == 200


def lesson(server: Server) -> None:
    teach(
        server,
        "films",
        ({"age": "12-17", "late": False}, "night", False),
        ({"age": "12-17", "late": True}, "kite", True),
        ({"age": "18-24", "late": True}, "fog", True),
    )


def work_out(server: Server, somebody: Any) -> Shown:
    """Have it worked out, and look at the page then."""
    begun = somebody.post(f"{HERE}/evaluate", {"budget": "0.2"})
    assert begun.status == 303 and begun.headers["location"] == f"{HERE}?budget=0.2&said=begun"
    job = jobs_of(server.service).find("evaluate films")
    assert job is not None and job.wait(60.0) and job.state == "done", job and job.error
    return somebody.follow(begun)  # type: ignore[no-any-return]


def rows(shown: Shown) -> dict[float, str]:
    """What the table says of each position."""
    found = re.findall(r'<tr data-sigma="([^"]+)"[^>]*>(.*?)</tr>', shown.html, re.S)
    return {float(at): " ".join(re.sub(r"<[^>]+>", " ", row).split()) for at, row in found}


@pytest.mark.parametrize("kind", ["Thompson", "Uniform", "Greedy", "EpsilonGreedy", "LinUCB"])
def test_an_agent_without_a_dial(make, person, kind):
    make(policy={"kind": kind})
    admin = person("admin")
    shown = admin.get(HERE)
    assert shown.status == 200 and "This agent has no dial." in shown.text
    assert "way of its own" not in shown.text  # it is said which
    assert not [form for form in shown.forms if str(form["action"]).startswith("/agents")]
    assert admin.post(f"{HERE}/evaluate").status == 409
    assert admin.post(HERE, {"sigma": "0.5", "note": "x"}).status == 409


def test_what_the_dial_means_depends_on_the_agent(make, person):
    make()
    make("blend", sigma=0.3)
    auditor = person("auditor")
    assert "only what is surely allowed, wherever the dial stands" in auditor.get(HERE).text
    blend = auditor.get("/agents/blend/dial")
    assert "At 0 the agent goes only by what it was taught" in blend.text
    assert "Position: 0.3 now" in blend.text and "not worked out yet" in blend.text
    assert "has not decided anything yet" in blend.text and no_script(blend.html)


def test_turning_it_is_recorded_with_who_and_why(server, make, person):
    make(sigma=0.3)
    admin = person("admin")
    form = admin.get(HERE).form(HERE)
    assert form["sigma"] == "0.3" and form["note"] == ""
    turned = admin.post(HERE, {"sigma": "0.45", "note": f"why {SCRIPT}"})
    shown = admin.follow(turned)
    assert "It is changed, with who and why in the log." in shown.text
    assert "Position: 0.45 now" in shown.text
    event = server.call("GET", "/v1/agents/films/events?after=1&limit=9").json["events"][-1]
    assert event["kind"] == "SigmaChanged"
    assert event["event"]["note"] == f"why {SCRIPT}" and event["event"]["sigma"] == 0.45
    assert event["event"]["by"].startswith("a admin (token ")
    lesson(server)
    live(server, 60)
    later = work_out(server, admin)
    assert "&lt;script&gt;" in later.html and no_script(later.html)
    assert f"0.45 {event['event']['by']} why" in later.text


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"sigma": "1.5", "note": "because"}, "from 0 to 1"),
        ({"sigma": "", "note": "because"}, "from 0 to 1"),
        ({"sigma": "nan", "note": "because"}, "from 0 to 1"),
        ({"sigma": "0.5", "note": " "}, "Say why"),
        ({"sigma": "0.5", "note": "x" * 1_001}, "longer than 1,000 characters"),
    ],
)
def test_bad_input_loses_nothing(server, make, person, form, says):
    make(sigma=0.3)
    shown = person("admin").post(HERE, form)
    assert shown.status == 422 and says in shown.text
    kept = shown.form(HERE)
    assert kept["note"] == form["note"].strip()
    assert kept["sigma"] == ("0.5" if form["sigma"] == "0.5" else "0.3")
    assert server.call("GET", "/v1/agents/films").json["sigma"] == 0.3


def test_who_may_not(server, make, person):
    make(sigma=0.3)
    assert person("teacher").get(HERE).status == 403
    assert person("teacher").post(f"{HERE}/evaluate").status == 403
    auditor = person("auditor")
    shown = auditor.get(HERE)
    assert "Turning the dial takes an admin." in shown.text and 'name="note"' not in shown.html
    assert auditor.post(HERE, {"sigma": "0.9", "note": "x"}).status == 403
    assert server.call("GET", "/v1/agents/films").json["sigma"] == 0.3
    assert auditor.get(f"{HERE}?budget=2").status == 422


def test_positions_are_what_the_api_says(server, make, person):
    make(sigma=0.32)
    lesson(server)
    live(server, 150)
    shown = work_out(server, person("auditor"))
    found = rows(shown)
    assert len(found) == 22 and 0.32 in found
    sigmas = [0.0, 0.3, 0.32, 0.5, 1.0]
    body = {"sigmas": sigmas, "budget": 0.2}
    answer = server.call("POST", "/v1/agents/films/evaluate", body).json
    told = {one["sigma"]: one for one in answer["evaluations"]}
    for sigma in sigmas:
        one, row = told[sigma], found[sigma]
        if one["dr"] is None:
            assert "not enough evidence" in row and "not enough " in row
        else:
            assert row.startswith(f"{sigma:g} ") and f"{one['dr']['value']:.3g}" in row
            assert f"{one['dr']['low']:.3g} to {one['dr']['high']:.3g}" in row
    assert any(one["dr"] is None for one in told.values())
    assert any(one["dr"] is not None for one in told.values())
    assert found[0.32].startswith("0.32 now")
    assert "150 decisions" in shown.text and "not audited" in shown.text
    # Who comes next sees the same without any work.
    assert rows(person("admin").get(HERE)) == found


def test_a_recommendation_for_any_budget_is_that_of_the_api(server, make, person):
    make(sigma=0.3)
    lesson(server)
    live(server, 100)
    auditor = person("auditor")
    work_out(server, auditor)
    grid = positions_for(100, 0.3)
    for budget in (0.0, 0.02, 0.1, 0.4, 1.0):
        body = {"sigmas": grid, "budget": budget}
        best = server.call("POST", "/v1/agents/films/evaluate", body).json["recommended"]
        text = auditor.get(f"{HERE}?budget={budget}").text
        assert best["basis"] == "belief"
        if best["sigma"] is None:
            assert "No position is within" in text
        else:
            assert f"Position {best['sigma']:g} is the highest within" in text
            assert "by the model’s belief alone" in text


def test_audits_stand_beside_the_belief(server, make, person):
    make(sigma=0.3)
    lesson(server)
    assert server.call("POST", "/v1/agents/films/audit", {"q": 1.0, "delta": 0.05}).status == 201
    live(server, 60)
    for _ in range(60):
        waiting = server.call("GET", "/v1/agents/films/audit?limit=1").json["pending"]
        if not waiting:
            break
        path = f"/v1/agents/films/audits/{waiting[0]['decision']}/answer"
        assert server.call("POST", path, {"allowed": True}).status == 200
    shown = work_out(server, person("auditor"))
    assert "Not allowed, by audits 0.0 % to" in shown.text
    body = {"sigmas": positions_for(60, 0.3), "budget": 0.5}
    best = server.call("POST", "/v1/agents/films/evaluate", body).json["recommended"]
    assert best["basis"] == "audits" and best["sigma"] is not None
    text = person("auditor").get(f"{HERE}?budget=0.5").text
    assert f"Position {best['sigma']:g} is the highest" in text and "The audits show" in text


def test_audits_that_began_later_do_not_speak_for_the_log(server, make, person):
    make(sigma=0.3)
    lesson(server)
    live(server, 60)
    assert server.call("POST", "/v1/agents/films/audit", {"q": 1.0, "delta": 0.05}).status == 201
    live(server, 4)
    shown = work_out(server, person("auditor"))
    assert "Audits began after the first decisions" in shown.text and "not audited" in shown.text


def test_a_log_without_odds_or_decisions_says_so(server, make, person):
    make(sigma=0.3)
    auditor = person("auditor")
    assert "There is no decision yet to judge by." in work_out(server, auditor).text
    lesson(server)
    live(server, 20, propensity=False)
    shown = work_out(server, auditor)
    assert "does not say how likely each choice was" in shown.text
    assert "ask for the propensity" in shown.text and "Position" in shown.text
    assert "by the model’s belief alone" in auditor.get(f"{HERE}?budget=1").text


def test_rewards_that_are_missing(server, make, person):
    make(sigma=0.3)
    lesson(server)
    live(server, 60, rewarded=20)
    assert "The reward is missing for" in work_out(server, person("auditor")).text


def test_an_agent_that_asks_gets_no_recommendation(server, make, person):
    make(budget=5)
    lesson(server)
    live(server, 30)
    assert "asks a teacher when in doubt" in work_out(server, person("auditor")).text


def test_it_runs_once_and_is_seen_by_all(server, make, person):
    make(sigma=0.3)
    lesson(server)
    live(server, 20)
    admin = person("admin")
    jobs = jobs_of(server.service)
    job = Job("evaluate films", "Reading the whole log", 0.0)
    jobs._jobs[job.key] = job  # as one that runs
    shown = admin.get(HERE)
    assert "Reading the whole log …" in shown.text and "Look again" in shown.text
    assert "Work it out" not in shown.text
    assert admin.post(f"{HERE}/evaluate").status == 303
    assert jobs.find("evaluate films") is job
    job.state, job.error = "failed", f"no {SCRIPT}"
    failed = admin.get(HERE)
    assert "did not work: no" in failed.text and no_script(failed.html)
    assert "Work it out" in failed.text
    job.state = "done"
    jobs.forget(job.key)


def test_what_came_since_is_told(server, make, person):
    make(sigma=0.3)
    lesson(server)
    live(server, 30)
    admin = person("admin")
    assert "since" not in work_out(server, admin).text
    admin.post(HERE, {"sigma": "0.31", "note": "finer"})
    shown = admin.get(HERE)
    assert "1 entry has come since." in shown.text
    # The dial stands between what was worked out: the nearest is told.
    assert "Worked out for 0.3 " in shown.text


def test_a_certificate_answers_for_any_position():
    found = Evaluated(
        version=1,
        decisions=1,
        positions=(),
        why_not="",
        audits="none",
        turns=(),
        rates=((0.0, 0.01), (0.5, 0.2), (1.0, 0.1)),
        basis="belief",
        alpha=0.05,
        no_advice="",
    )
    sure = found.advice(0.05)
    assert sure is not None and (sure.sigma, sure.basis, sure.rate) == (1.0, "certificate", 0.05)
    less = found.advice(0.02)
    assert less is not None and (less.sigma, less.basis, less.rate) == (0.0, "belief", 0.01)
    # One position above the budget bars all beyond it.
    none = found.advice(0.001)
    assert none is not None and none.sigma is None and none.rate == 0.01


def test_fewer_positions_of_longer_logs():
    assert len(positions_for(1_000, 0.5)) == 21
    assert len(positions_for(20_000, 0.5)) == 11
    assert positions_for(10**6, 0.5) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert positions_for(10**6, 0.123)[1] == 0.123


def test_turning_to_where_it_stands_says_so_and_records_nothing(server, make, person):
    make(sigma=0.5, policy={"kind": "BehaviorConstrained", "sigma": 0.5})
    before = server.store.head("films")
    shown = person("admin").post(HERE, {"sigma": "0.5", "note": "for nothing"})
    assert "The dial stands at 0.5 already." in shown.text
    assert server.store.head("films") == before


def test_what_was_erased_is_left_out_and_said(server, make, person):
    make(policy={"kind": "BehaviorConstrained", "sigma": 0.5})
    lesson(server)
    live(server, 80)
    erase(server.store, "films", examples=["1"])
    answer = server.call("POST", "/v1/agents/films/evaluate", {"sigmas": [0.5]})
    assert answer.status == 409 and "What 80 decisions rested on was erased" in answer.body.decode()
    shown = work_out(server, person("admin"))
    assert "What 80 decisions rested on was erased" in shown.text
    live(server, 80)
    answer = server.call("POST", "/v1/agents/films/evaluate", {"sigmas": [0.5], "budget": 1.0})
    [one] = answer.json["evaluations"]
    assert one["decisions"] == 80 and one["left_out"] == 80
    assert rows(work_out(server, person("admin")))
