from __future__ import annotations

from typing import Any

import pytest

from bridle.store.maintenance import erase
from bridle.web.dial import DialEvaluation, positions_for
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


def start_evaluation(server: Server, somebody: Any) -> Shown:
    """Have it worked out, and look at the page then."""
    begun = somebody.post(f"{HERE}/evaluate", {"budget": "0.2"})
    assert begun.status == 303 and begun.headers["location"] == f"{HERE}?budget=0.2&said=begun"
    job = jobs_of(server.service).find("evaluate films")
    assert job is not None and job.wait(60.0) and job.state == "done", job and job.error
    return somebody.follow(begun)  # type: ignore[no-any-return]


def rows(shown: Shown) -> dict[float, str]:
    """What the table says of each position."""
    found = [one for one in shown.all() if "data-sigma" in one.attrs]
    return {float(one.data("sigma")): one.text for one in found}


@pytest.mark.parametrize("kind", ["Thompson", "Uniform", "Greedy", "EpsilonGreedy", "LinUCB"])
def test_an_agent_without_a_dial(make, person, kind):
    make(policy={"kind": kind})
    admin = person("admin")
    shown = admin.get(HERE)
    assert shown.status == 200 and "no-dial" in shown.notes
    assert "way of its own" not in shown.value("instead")  # it is said which
    assert not [form for form in shown.forms if str(form["action"]).startswith("/agents")]
    assert admin.post(f"{HERE}/evaluate").status == 409
    assert admin.post(HERE, {"sigma": "0.5", "note": "x"}).status == 409


def test_what_the_dial_means_depends_on_the_agent(make, person):
    make()
    make("blend", sigma=0.3)
    auditor = person("auditor")
    assert "within-limits" in auditor.get(HERE).notes
    blend = auditor.get("/agents/blend/dial")
    assert "weighs-both" in blend.notes and blend.value("position") == "0.3"
    assert blend.one(data_value="expected-reward").data("state") == "none"
    assert "no-decision" in blend.notes and no_script(blend.html)


def test_turning_it_is_recorded_with_who_and_why(server, make, person):
    make(sigma=0.3)
    admin = person("admin")
    form = admin.get(HERE).form(HERE)
    assert form["sigma"] == "0.3" and form["note"] == ""
    turned = admin.post(HERE, {"sigma": "0.45", "note": f"why {SCRIPT}"})
    shown = admin.follow(turned)
    assert shown.said == "changed" and shown.value("position") == "0.45"
    event = server.call("GET", "/v1/agents/films/events?after=1&limit=9").json["events"][-1]
    assert event["kind"] == "SigmaChanged"
    assert event["event"]["note"] == f"why {SCRIPT}" and event["event"]["sigma"] == 0.45
    assert event["event"]["by"].startswith("a admin (token ")
    lesson(server)
    live(server, 60)
    later = start_evaluation(server, admin)
    assert "&lt;script&gt;" in later.html and no_script(later.html)
    turned = later.one(data_turn="0.45").text
    assert event["event"]["by"] in turned and f"why {SCRIPT}" in turned


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
    assert shown.status == 422 and says in shown.alert
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
    assert "turn-by-admin" in shown.notes and not shown.all(name="note")
    assert auditor.post(HERE, {"sigma": "0.9", "note": "x"}).status == 403
    assert server.call("GET", "/v1/agents/films").json["sigma"] == 0.3
    assert auditor.get(f"{HERE}?budget=2").status == 422


def test_positions_are_what_the_api_says(server, make, person):
    make(sigma=0.32)
    lesson(server)
    live(server, 150)
    shown = start_evaluation(server, person("auditor"))
    found = rows(shown)
    assert len(found) == 22 and 0.32 in found
    sigmas = [0.0, 0.3, 0.32, 0.5, 1.0]
    body = {"sigmas": sigmas, "budget": 0.2}
    answer = server.call("POST", "/v1/agents/films/evaluate", body).json
    told = {one["sigma"]: one for one in answer["evaluations"]}
    for sigma in sigmas:
        one, row = told[sigma], found[sigma]
        if one["dr"] is None:
            cells = shown.one(data_sigma=str(sigma))
            assert cells.one(data_of="reward").data("state") == "unknown"
            assert cells.has(data_evidence="lacks")
        else:
            assert row.startswith(f"{sigma:g} ") and f"{one['dr']['value']:.3g}" in row
            assert f"{one['dr']['low']:.3g} to {one['dr']['high']:.3g}" in row
    assert any(one["dr"] is None for one in told.values())
    assert any(one["dr"] is not None for one in told.values())
    assert "now" in shown.one(data_sigma="0.32").notes
    assert shown.value("evaluated-decisions") == "150"
    assert shown.one(data_value="audited").data("state") == "none"
    # Who comes next sees the same without any work.
    assert rows(person("admin").get(HERE)) == found


def test_a_recommendation_for_any_budget_is_that_of_the_api(server, make, person):
    make(sigma=0.3)
    lesson(server)
    live(server, 100)
    auditor = person("auditor")
    start_evaluation(server, auditor)
    grid = positions_for(100, 0.3)
    for budget in (0.0, 0.02, 0.1, 0.4, 1.0):
        body = {"sigmas": grid, "budget": budget}
        best = server.call("POST", "/v1/agents/films/evaluate", body).json["recommended"]
        shown = auditor.get(f"{HERE}?budget={budget}")
        assert best["basis"] == "belief"
        sigma = "none" if best["sigma"] is None else f"{best['sigma']:g}"
        assert shown.one(data_advice=sigma).data("basis") == "belief"


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
    shown = start_evaluation(server, person("auditor"))
    assert shown.value("audited").startswith("0.0 % to")
    body = {"sigmas": positions_for(60, 0.3), "budget": 0.5}
    best = server.call("POST", "/v1/agents/films/evaluate", body).json["recommended"]
    assert best["basis"] == "audits" and best["sigma"] is not None
    shown = person("auditor").get(f"{HERE}?budget=0.5")
    assert shown.one(data_advice=f"{best['sigma']:g}").data("basis") == "audits"


def test_audits_that_began_later_do_not_speak_for_the_log(server, make, person):
    make(sigma=0.3)
    lesson(server)
    live(server, 60)
    assert server.call("POST", "/v1/agents/films/audit", {"q": 1.0, "delta": 0.05}).status == 201
    live(server, 4)
    shown = start_evaluation(server, person("auditor"))
    assert shown.has(data_audits="part")
    assert shown.one(data_value="audited").data("state") == "none"


def test_a_log_without_odds_or_decisions_says_so(server, make, person):
    make(sigma=0.3)
    auditor = person("auditor")
    assert "no decision yet" in start_evaluation(server, auditor).value("no-advice")
    lesson(server)
    live(server, 20, propensity=False)
    shown = start_evaluation(server, auditor)
    assert "ask for the propensity" in shown.value("why-not")
    assert auditor.get(f"{HERE}?budget=1").has(data_basis="belief")


def test_rewards_that_are_missing(server, make, person):
    make(sigma=0.3)
    lesson(server)
    live(server, 60, rewarded=20)
    shown = start_evaluation(server, person("auditor"))
    assert any("reward is missing" in one.text for one in shown.all(data_evidence="lacks"))


def test_an_agent_that_asks_gets_no_recommendation(server, make, person):
    make(budget=5)
    lesson(server)
    live(server, 30)
    shown = start_evaluation(server, person("auditor"))
    assert "asks a teacher" in shown.value("no-advice")


def test_it_runs_once_and_is_seen_by_all(server, make, person):
    make(sigma=0.3)
    lesson(server)
    live(server, 20)
    admin = person("admin")
    jobs = jobs_of(server.service)
    job = Job("evaluate films", "Reading the whole log", 0.0)
    jobs._jobs[job.key] = job  # as one that runs
    shown = admin.get(HERE)
    box = shown.one(id="evaluation")
    assert box.data("state") == "running" and "Reading the whole log" in box.text
    assert not [one for one in shown.forms if one["action"] == f"{HERE}/evaluate"]
    assert admin.post(f"{HERE}/evaluate").status == 303
    assert jobs.find("evaluate films") is job
    job.state, job.error = "failed", f"no {SCRIPT}"
    failed = admin.get(HERE)
    assert failed.one(id="evaluation").data("state") == "failed"
    assert SCRIPT in failed.alert and no_script(failed.html)
    assert failed.form(f"{HERE}/evaluate")
    job.state = "done"
    jobs.forget(job.key)


def test_what_came_since_is_told(server, make, person):
    make(sigma=0.3)
    lesson(server)
    live(server, 30)
    admin = person("admin")
    assert not start_evaluation(server, admin).all(data_value="newer")
    admin.post(HERE, {"sigma": "0.31", "note": "finer"})
    shown = admin.get(HERE)
    assert shown.value("newer") == "1"
    # The dial stands between what was worked out: the nearest is told.
    assert shown.value("worked-out-for") == "0.3"


def test_a_certificate_answers_for_any_position():
    found = DialEvaluation(
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
    assert "0.5 already" in shown.alert
    assert server.store.head("films") == before


def test_what_was_erased_is_left_out_and_said(server, make, person):
    make(policy={"kind": "BehaviorConstrained", "sigma": 0.5})
    lesson(server)
    live(server, 80)
    erase(server.store, "films", examples=["1"])
    answer = server.call("POST", "/v1/agents/films/evaluate", {"sigmas": [0.5]})
    assert answer.status == 409 and "What 80 decisions rested on was erased" in answer.body.decode()
    shown = start_evaluation(server, person("admin"))
    assert "What 80 decisions rested on was erased" in shown.value("why-not")
    live(server, 80)
    answer = server.call("POST", "/v1/agents/films/evaluate", {"sigmas": [0.5], "budget": 1.0})
    [one] = answer.json["evaluations"]
    assert one["decisions"] == 80 and one["left_out"] == 80
    assert rows(start_evaluation(server, person("admin")))
