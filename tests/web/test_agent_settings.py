from __future__ import annotations

from typing import Any

import pytest

from bridle.web.jobs import jobs_of
from tests.web.browsing import no_script

S = "/agents/films/settings"
A = "/v1/agents/films"
SCRIPT = "<script>alert('x')</script>"
LONG = 30.0


def agent(server: Any) -> Any:
    return server.call("GET", A).json


def last_event(server: Any) -> Any:
    version = agent(server)["version"]
    return server.call("GET", f"{A}/events?after={version - 1}").json["events"][0]["event"]


def test_only_admins(server, make, person):
    make()
    for role in ("teacher", "auditor"):
        somebody = person(role)
        assert somebody.get(S).status == somebody.get(f"{S}/rules").status == 403
        for path in ("wait", "arms", "groups", "verify", "replay", "rules", "rules/withdraw"):
            assert somebody.post(f"{S}/{path}", {}).status == 403
    assert person("admin", ("songs",)).get(S).status == 403
    ann = person("admin")
    for path in ("", "/rules"):
        assert ann.get(f"/agents/nobody/settings{path}").status == 404
    for path in ("verify", "replay", "wait", "rules"):
        assert ann.post(f"/agents/nobody/settings/{path}", {"how": "ever"}).status == 404


def test_what_it_shows(server, make, person):
    make(budget=7, wait=7_200.0, default_reward=0.25)
    shown = person("admin").get(S)
    assert "2 hours" in shown.value("wait") and "0.25" in shown.value("wait")
    assert shown.value("budget-left") == "7" and no_script(shown.html)
    assert shown.value("head") == str(server.store.head("films"))
    assert shown.form(f"{S}/wait")["long"] == "2"


@pytest.mark.parametrize(
    ("form", "wait", "reward"),
    [
        ({"how": "long", "long": "1.5", "unit": "days", "default_reward": ""}, 129_600.0, None),
        ({"how": "long", "long": "90", "unit": "seconds", "default_reward": "0.5"}, 90.0, 0.5),
        ({"how": "ever", "long": "9", "unit": "days", "default_reward": "1"}, None, None),
    ],
)
def test_the_wait_is_changed_with_who_and_why(server, make, person, form, wait, reward):
    make()
    ann = person("admin")
    changed = ann.post(f"{S}/wait", form | {"note": "slow mail"})
    assert changed.headers["location"] == f"{S}?said=changed#wait"
    now = agent(server)
    assert (now["wait"], now["default_reward"]) == (wait, reward)
    event = last_event(server)
    assert event["note"] == "slow mail" and event["by"].startswith("a admin (token ")
    assert ann.get(S).status == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"long": "0"},
        {"long": "-1"},
        {"long": "x"},
        {"long": ""},
        {"unit": "moons"},
        {"default_reward": "7"},
        {"default_reward": "x"},
        {"note": "x" * 1_001},
    ],
)
def test_a_wrong_wait_changes_nothing(server, make, person, wrong):
    make()
    form = {"how": "long", "long": "1", "unit": "days", "default_reward": ""} | wrong
    assert person("admin").post(f"{S}/wait", form).status == 422
    assert agent(server)["wait"] is None and agent(server)["version"] == 1


def test_adding_and_moving_arms(server, make, person):
    make()
    ann = person("admin")
    form = {"id": "rain", "label": f"Rain {SCRIPT}", "group": "Comedy", "note": SCRIPT}
    assert ann.post(f"{S}/arms", form).headers["location"] == f"{S}?said=changed#arms"
    assert agent(server)["arms"][-1] == {
        "id": "rain",
        "label": f"Rain {SCRIPT}",
        "group": "Comedy",
    }
    assert ann.post(f"{S}/arms", {"id": "7"}).status == 303  # a word among words
    assert agent(server)["arms"][-1]["id"] == "7"
    assert ann.post(f"{S}/arms", {"id": "rain"}).status in (409, 422)
    assert ann.post(f"{S}/arms", {"id": ""}).status == 422
    assert ann.post(f"{S}/groups", {"arm": "Fog", "group": f"New {SCRIPT}"}).status == 303
    assert agent(server)["arms"][1]["group"] == f"New {SCRIPT}"
    assert ann.post(f"{S}/groups", {"arm": "fog", "group": ""}).status == 303
    assert agent(server)["arms"][1]["group"] is None
    wrong = ann.post(f"{S}/groups", {"arm": SCRIPT, "group": "x"})
    assert wrong.status == 422 and "There is no arm" in wrong.alert and SCRIPT not in wrong.html
    shown = ann.get(S)
    assert no_script(shown.html) and SCRIPT not in shown.html


def test_arms_with_numbers_and_one_name_for_two(server, make, person):
    make(arms=[{"id": 1, "label": "Fog"}, {"id": 2, "label": "Fog"}])
    ann = person("admin")
    ann.post(f"{S}/arms", {"id": "3"})
    assert agent(server)["arms"][-1]["id"] == 3
    wrong = ann.post(f"{S}/groups", {"arm": "Fog", "group": "x"})
    assert wrong.status == 422 and "2 arms are called 'Fog'" in wrong.alert
    assert ann.post(f"{S}/groups", {"arm": "2", "group": "x"}).status == 303


# -- checks of the log -----------------------------------------------------------------------


def checked(server: Any, ann: Any, what: str, form: dict[str, str] | None = None) -> Any:
    begun = ann.post(f"{S}/{what}", form or {})
    assert begun.headers["location"] == f"{S}#checks"
    job = jobs_of(server.service).find(f"{what} films")
    assert job is not None and job.wait(LONG), "it takes long"
    return ann.get(S)


def broken(shown: Any) -> str:
    """What of a log does not fit."""
    return " ".join(one.text for one in shown.all() if "data-break" in one.attrs)


def fill(server: Any) -> None:
    for n in range(5):
        body = {"context": {"age": "25+", "late": n % 2 == 0}, "arm": "kite", "allowed": True}
        server.call("POST", f"{A}/examples", body)
        server.call("POST", f"{A}/decisions", {"context": body["context"]})


def test_verify_with_a_head_that_was_kept(server, make, person):
    make()
    fill(server)
    ann = person("admin")
    kept = str(server.store.head("films"))
    fill(server)
    shown = checked(server, ann, "verify")
    entries = agent(server)["version"]
    assert shown.one(data_log="whole").data("entries") == str(entries)
    assert shown.value("verified-head") == str(server.store.head("films"))
    shown = checked(server, ann, "verify", {"expect": kept})
    assert shown.one(data_log="whole").data("expected") == kept
    other = kept.split(":")[0] + ":" + "0" * 64
    shown = checked(server, ann, "verify", {"expect": other})
    assert shown.has(data_log="broken") and "rewritten" in broken(shown)
    cut = f"9999:{'0' * 64}"
    assert "tail was cut off" in broken(checked(server, ann, "verify", {"expect": cut}))
    for wrong in ("x", "12", f"12:{SCRIPT}", "12:" + "0" * 63):
        refused = ann.post(f"{S}/verify", {"expect": wrong})
        assert refused.status == 422 and "SEQ:HASH" in refused.alert and SCRIPT not in refused.html


def test_replay(server, make, person):
    make()
    ann = person("admin")
    assert checked(server, ann, "replay").has(data_replay="empty")
    fill(server)
    shown = checked(server, ann, "replay")
    replayed = shown.one(data_replay="same")
    assert (replayed.data("same"), replayed.data("choices")) == ("5", "5")


def test_one_agent_does_not_see_the_checks_of_another(server, make, person):
    make()
    make("songs")
    checked(server, person("admin"), "verify")
    assert not person("admin", ("songs",)).get("/agents/songs/settings").all(data_log="whole")


# -- declared rules --------------------------------------------------------------------------

RULE = {
    "id": "young",
    "feature0": "age",
    "relation0": "is",
    "value0": "12-17",
    "group": "Horror",
    "note": "the law",
}


def test_a_rule_is_declared_and_withdrawn(server, make, person):
    make()
    ann = person("admin")
    assert "no-rule" in ann.get(f"{S}/rules").notes
    made = ann.post(f"{S}/rules", RULE)
    assert made.headers["location"] == f"{S}/rules?said=declared"
    shown = ann.follow(made)
    rule = shown.one(data_rule="young").text
    assert "Horror: not if age is 12-17" in rule and "the law" in rule
    body = {"context": {"age": "12-17", "late": True}}
    arms = server.call("POST", f"{A}/believed", body).json["arms"]
    assert [arm["playable"] for arm in arms if arm["arm"] in ("night", "fog")] == [False, False]
    event = last_event(server)
    assert event["note"] == "the law" and "a admin" in event["by"]
    twice = ann.post(f"{S}/rules", RULE)
    assert twice.status in (409, 422) and "young" in twice.html
    gone = ann.post(f"{S}/rules/withdraw", {"rule": "young", "note": "repealed"})
    assert gone.headers["location"] == f"{S}/rules?said=withdrawn"
    assert last_event(server)["note"] == "repealed" and agent(server)["rules"] == []
    assert ann.post(f"{S}/rules/withdraw", {"rule": "young"}).status == 422


@pytest.mark.parametrize(
    ("form", "when", "arms", "groups"),
    [
        (
            {"feature0": "late", "value0": "yes", "all": "yes"},
            [{"feature": "late", "equals": True}],
            [],
            [],
        ),
        (
            {"feature1": "year", "relation1": "at_least", "value1": "1990", "arms": "Fog\nkite\n"},
            [{"feature": "year", "at_least": 1990.0}],
            ["fog", "kite"],
            [],
        ),
        (
            {
                "feature0": "genres",
                "value0": "Gore",
                "feature2": "year",
                "relation2": "at_most",
                "value2": "2000",
                "group": "Comedy",
            },
            [{"feature": "genres", "has": "Gore"}, {"feature": "year", "at_most": 2000.0}],
            [],
            ["Comedy"],
        ),
        ({"arms": "night"}, [], ["night"], []),
    ],
)
def test_every_kind_of_condition(server, make, person, form, when, arms, groups):
    features = [
        {"kind": "flag", "name": "late"},
        {"kind": "number", "name": "year", "low": 1900, "high": 2100},
        {"kind": "labels", "name": "genres", "values": ["Gore", "Fun"]},
    ]
    make(features=features)
    ann = person("admin")
    made = ann.post(f"{S}/rules", {"id": "r"} | form)
    assert made.status == 303, made.text
    [rule] = agent(server)["rules"]
    assert (rule["when"], rule["arms"], rule["groups"]) == (when, arms, groups)
    assert "1900 to 2100" in ann.get(f"{S}/rules").one(data_feature="year").text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"id": ""}, "'id' is empty"),
        ({"value0": "ten"}, "age"),
        ({"value0": ""}, "has no value"),
        ({"feature0": "height"}, "height"),
        ({"feature0": ""}, "a value, and no feature"),
        ({"relation0": "at_least"}, "is, or has"),
        ({"relation0": "like"}, "is, or has"),
        ({"feature0": "late", "value0": "maybe"}, "yes or no"),
        ({"group": ""}, "Say what is denied"),
        ({"all": "yes"}, "Say what is denied"),
        ({"group": "Opera"}, "Opera"),
        ({"arms": "nobody"}, "There is no arm"),
        ({"note": "x" * 1_001}, "longer than 1,000"),
    ],
)
def test_a_wrong_rule_is_told_and_what_was_typed_stays(server, make, person, wrong, said):
    make()
    form = RULE | {"id": f"young {SCRIPT}", "arms": "fog"} | wrong
    form = {name: value for name, value in form.items() if value}
    if said == "Say what is denied" and "all" not in wrong:
        del form["arms"]
    shown = person("admin").post(f"{S}/rules", form)
    assert shown.status in (409, 422) and said in shown.alert, shown.text
    assert agent(server)["rules"] == []
    assert "young" in shown.html or "id" in wrong
    assert no_script(shown.html) and SCRIPT not in shown.html


def test_rules_are_paged(server, make, person):
    rules = [{"id": f"r{n}", "arms": ["fog"], "note": SCRIPT} for n in range(60)]
    make(rules=rules)
    ann = person("admin")
    shown = ann.get(f"{S}/rules")
    assert shown.value("range") == "1 to 50 of 60"
    assert shown.has(data_rule="r49") and not shown.all(data_rule="r50")
    assert ann.get(f"{S}/rules?after=50").value("range") == "51 to 60 of 60"
    assert "no-more-rules" in ann.get(f"{S}/rules?after=500").notes
    assert no_script(shown.html) and SCRIPT not in shown.html
