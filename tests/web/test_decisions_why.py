from __future__ import annotations

import re

import pytest

from bridle.schema import Flag, Labels, Number, Schema
from bridle.store.maintenance import erase
from bridle.web import decisions
from bridle.web.decisions import contributions_of, explanation
from tests.web.browsing import no_script

SCRIPT = "<script>alert(1)</script>"


def _call(server, method, path, body=None):
    answer = server.call(method, path, body)
    assert answer.status < 300, answer.body
    return answer.json


def teach(server, allowed=lambda age, arm: arm == "kite", **more):
    ages = ("12-17", "18-24", "25+")
    _call(
        server,
        "POST",
        "/v1/agents/films/examples",
        {
            "examples": [
                {"context": {"age": age, "late": late}, "arm": arm, "allowed": allowed(age, arm)}
                for age in ages
                for late in (True, False)
                for arm in ("night", "fog", "kite")
            ],
            **more,
        },
    )


def decide(server, age="25+", **more):
    body = {"context": {"age": age, "late": False}, "propensity": True, **more}
    return _call(server, "POST", "/v1/agents/films/decisions", body)


def opened(person, id):
    shown = person.get(f"/agents/films/decisions/{id}")
    assert shown.status == 200, shown.text
    assert no_script(shown.html)
    return shown


def test_it_says_why_in_a_sentence_first(server, make, person):
    make()
    teach(server, by="Ann", note="at home")
    made = decide(server)
    _call(server, "POST", f"/v1/agents/films/decisions/{made['id']}/reward", {"value": 0.75})
    shown = opened(person("auditor"), made["id"])
    said = shown.value("explanation")
    assert "Kite Days (Comedy)" in said and "only one of 3" in said
    assert shown.text.index(said) < shown.text.index(shown.headings[1])
    assert "2 a teacher said no in this very situation" in said
    assert shown.value("reward").startswith("0.75") and shown.has(data_replay="agrees")
    assert shown.has(data_certificate="none") and "age 25+" in shown.value("context")
    # Every arm with both parts, the chosen one first.
    table = shown.html.split('class="arms"')[1].split("</table>")[0]
    names = re.findall(r'<th scope="row">([^<]+)', table)
    assert names[0].strip() == "Kite Days (Comedy)" and len(names) == 3
    assert table.count('class="bar"') == 6
    # The examples, with who taught them.
    by = [one.text for one in shown.all(data_value="taught-by")]
    assert by and all("Ann (token" in one and "“at home”" in one for one in by)
    assert "same-context" in shown.notes
    assert any(link.startswith("/agents/films/limits/cell?unit=") for link in shown.links)
    # What other positions of the dial would have done.
    assert {"other-dials", "actual-dial"} <= shown.notes


def test_nothing_was_played(server, make, person):
    make()
    teach(server)
    made = decide(server, among=["night", "fog"])
    shown = opened(person("auditor"), made["id"])
    assert "None of the 2 choices" in shown.value("explanation")
    assert shown.one(data_arm="kite").has(data_allowed="not-offered")
    assert shown.one(data_value="reward").data("state") == "nothing-played"
    one = decide(server, among=["night"])
    said = opened(person("auditor"), one["id"]).value("explanation")
    assert "only choice" in said and "not surely allowed" in said


def test_it_asked_and_then_was_answered(server, make, person):
    make(budget=5, limits="rules", ask_at_most=1)
    # Nothing is known of anything: it asks.
    made = decide(server)
    assert made["outcome"] == "question"
    ann = person("teacher")
    shown = opened(ann, made["id"])
    assert "asked a teacher" in shown.value("explanation")
    assert "waits-for-answer" in shown.notes
    assert "/agents/films/teach" in shown.links
    path = f"/v1/agents/films/questions/{made['question']['id']}/answer"
    _call(server, "POST", path, {"answer": "allowed", "by": "Ann"})
    shown = opened(ann, made["id"])
    assert "a teacher had just said" in shown.value("explanation")
    assert shown.value("asking")
    assert "waits-for-answer" not in shown.notes


def test_a_late_reward_an_audit_and_a_shadow(server, make, person):
    make(wait=60.0)
    teach(server)
    _call(server, "POST", "/v1/agents/films/audit", {"q": 1.0, "delta": 0.05})
    made = decide(server)
    path = f"/v1/agents/films/audits/{made['id']}/answer"
    _call(server, "POST", path, {"allowed": False, "by": "Bo", "note": SCRIPT})
    shadowed = decide(server, played="fog")
    ann = person("auditor")
    assert opened(ann, made["id"]).one(data_value="reward").data("state") == "awaited"
    shown = opened(ann, made["id"])
    audit = shown.one(data_audit="denied").text
    assert "by Bo (token" in audit and SCRIPT in audit
    assert "Fog (Horror)" in opened(ann, shadowed["id"]).value("shadowed")


def test_who_may_and_who_may_not(server, make, person):
    make()
    teach(server)
    made = decide(server)
    path = f"/agents/films/decisions/{made['id']}"
    teacher = person("teacher")
    shown = teacher.get(path)  # as in the API, a teacher may ask why, and may not read the log
    assert shown.status == 200 and "/agents/films/decisions" not in shown.links
    assert person("auditor", ("songs",)).get(path).status == 403
    assert "/agents/films/decisions" in person("auditor").get(path).links


def test_ids_that_are_none_and_what_was_erased(server, make, person):
    make()
    teach(server)
    decide(server, id="ann:1")
    ann = person("auditor")
    for id in ("7777", "nobody", "%3Cscript%3Ealert(1)%3C%2Fscript%3E"):
        shown = ann.get(f"/agents/films/decisions/{id}")
        assert shown.status == 404 and no_script(shown.html)
        assert shown.has(data_gone="unknown")
        assert "/agents/films/decisions" in shown.links
    assert ann.get("/agents/nothing/decisions/1").status == 404
    erase(server.store, "films", decisions=["ann:1"])
    shown = ann.get("/agents/films/decisions/ann:1")
    assert shown.status == 410 and shown.has(data_gone="erased")
    assert person("teacher").get("/agents/films/decisions/7777").status == 404


def test_many_arms_are_paged_and_found(server, make, person):
    arms = [{"id": f"a{n}", "label": f"Film {n}", "group": "G"} for n in range(65)]
    make(arms=arms, policy={"kind": "Uniform"})
    made = decide(server)
    path = f"/agents/films/decisions/{made['id']}"
    ann = person("auditor")

    def names(query):
        shown = ann.get(path + query)
        assert shown.status == 200
        table = shown.html.split('class="arms"')[1].split("</table>")[0]
        return [name.strip() for name in re.findall(r'<th scope="row">([^<]+)', table)]

    first = names("")
    assert len(first) == decisions.ARMS_A_PAGE and first[0] == f"Film {made['arm'][1:]} (G)"
    pages = [names(f"?page={n}") for n in (1, 2, 3, 4)]
    assert sorted(name for page in pages for name in page) == sorted(
        f"Film {n} (G)" for n in range(65)
    )
    assert names("?find=film+64") == ["Film 64 (G)"] and names("?find=a7") == ["Film 7 (G)"]
    assert ann.get(path + "?page=5").status == 422
    nothing = ann.get(path + "?find=%3Cscript%3Ealert(1)%3C/script%3E")
    assert nothing.status == 200 and no_script(nothing.html) and "no-such-choice" in nothing.notes


def test_text_from_outside_is_only_text(server, make, person):
    make(
        arms=[{"id": SCRIPT, "label": f"{SCRIPT}!", "group": SCRIPT}, {"id": "b"}],
        features=[
            {"kind": "labels", "name": SCRIPT, "values": [SCRIPT]},
            {"kind": "number", "name": "n", "unit": SCRIPT},
        ],
        rules=[{"id": SCRIPT, "arms": ["b"], "note": SCRIPT}],
    )
    context = {SCRIPT: [SCRIPT], "n": 1.5}
    _call(
        server,
        "POST",
        "/v1/agents/films/examples",
        {
            "examples": [{"context": context, "arm": SCRIPT, "allowed": True}],
            "by": SCRIPT,
            "note": SCRIPT,
        },
    )
    made = _call(server, "POST", "/v1/agents/films/decisions", {"context": context})
    shown = opened(person("auditor"), made["id"])
    assert f"denied by the rule '{SCRIPT}'" in shown.one(data_arm="b").text
    assert SCRIPT in shown.value("taught-by")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"policy": {"kind": "Uniform"}}, "by chance alone"),
        ({"policy": {"kind": "Thompson"}}, "What was taught has no say"),
        ({"policy": {"kind": "EpsilonGreedy"}}, "What was taught has no say"),
        ({"policy": {"kind": "LinUCB"}}, "What was taught has no say"),
        (
            {"policy": {"kind": "BehaviorConstrained", "sigma": 0.25}, "limits": "linear"},
            "what each promises (weight 0.25) and what was taught (weight 0.75)",
        ),
        ({"limits": "logistic"}, "the only one of 3"),
        ({"limits": "auto", "doubt": 0.1}, "the only one of 3"),
        ({"reward_range": [-5, 5]}, "the only one of 3"),
    ],
)
def test_every_way_to_choose_and_to_learn(server, make, person, more, said):
    make(**more)
    teach(server)
    made = decide(server)
    shown = opened(person("auditor"), made["id"])
    assert said in shown.value("explanation") and shown.has(data_replay="agrees")
    assert shown.has(data_part="reward") and shown.has(data_part="constraint")


def test_rewards_are_in_the_agents_own_range(server, make, person):
    make(reward_range=[0, 500])
    teach(server)
    for _ in range(20):
        made = decide(server)
        path = f"/v1/agents/films/decisions/{made['id']}/reward"
        _call(server, "POST", path, {"value": 400})
    shown = opened(person("auditor"), decide(server)["id"])
    found = re.search(r"([\d.]+)\.$", shown.value("reward-total"))
    assert found is not None and 300 < float(found[1]) < 450


def test_what_it_plays_when_nothing_is_allowed(server, make, person):
    make(on_empty="least_bad")  # and nothing was taught
    context = {"age": "25+", "late": False}
    shown = opened(person("auditor"), decide(server)["id"])
    said = shown.value("explanation")
    assert "most likely allowed" in said and "None of the 3 choices" in said
    assert "nothing-taught" in shown.notes
    make("other", on_empty="safe_arm", safe_arm="fog")
    made = _call(server, "POST", "/v1/agents/other/decisions", {"context": context})
    shown = person("auditor").get(f"/agents/other/decisions/{made['id']}")
    assert "set for such cases" in shown.value("explanation")


# -- words -----------------------------------------------------------------------------------


def account(kind="decision", arm="a", why_not=(None, None), **more):
    arms = [
        {"arm": name, "why_not": reason, "p": 0.9, "play": 0.5, "eligible": True, "novelty": 0.5}
        for name, reason in zip("abcdefgh", why_not, strict=False)
    ]
    given = {
        "kind": kind,
        "arm": arm,
        "arms": arms,
        "among": None,
        "settled": False,
        "sigma": 1.0,
        "propensity": None,
        "policy": {"kind": "LearnedMask"},
        "answered": [],
        "asking": None,
    }
    return given | more


def test_sentences():
    def said(**given):
        return explanation(account(**given), str, "abstain")

    for words in ("“a”", "all 2 choices", "surely allowed", "what each promises", "50 %"):
        assert words in said()
    assert "how likely each is allowed" not in said()
    assert "how likely each is allowed" in said(sigma=0.5)
    assert "1 of" not in said(why_not=(None,)) and "the only choice there was" in said(
        why_not=(None,)
    )
    many = said(
        kind="abstention", arm=None, why_not=tuple(f"denied by the rule {n}" for n in range(6))
    )
    assert many.endswith("2 for other reasons.")
    assert "the promise does not cover it" in said(why_not=(None, "not certified"))


def test_two_features_together_and_what_gave_next_to_nothing():
    schema = Schema([Flag("a & b"), Flag("c"), Number("n", 0, 10, unit="kg"), Labels("l", ["x"])])
    context = {"a & b": True, "c": True, "n": 2.5, "l": ["x"]}
    shares = [
        {"feature": "a & b", "value": 1.0, "gave": 0.1},
        {"feature": "a & b & c", "value": 1.0, "gave": -0.5},
        {"feature": "n", "value": 0.25, "gave": 0.2},
        {"feature": "l=x", "value": 1.0, "gave": 1e-7},
    ]
    one = {"part": "constraint", "unit": "log-odds", "total": 0.1, "base": 0.3, "shares": shares}
    given = contributions_of(one, schema, context, (0.0, 1.0), 20)
    assert given.shares == [("a & b together with c", -0.5), ("n 2.5 kg", 0.2), ("a & b", 0.1)]
    assert given.left_out == 1 and given.most == 0.5 and given.base == "0.3"
    assert contributions_of(one, schema, context, (0.0, 1.0), 2).left_out == 2
    assert decisions._column_words(schema, "unheard of", context) == "unheard of"
    assert decisions._column_words(schema, "l=x", context) == "l: x"


def test_what_it_rested_on_was_erased(server, make, person):
    make()
    teach(server)
    made = decide(server, "25+", among=["kite", "fog"])
    ann = person("auditor")
    assert opened(ann, made["id"]).has(data_replay="agrees")
    listed = _call(server, "GET", "/v1/agents/films/examples")["examples"]
    kites = [str(one["id"]) for one in listed if one["arm"] == "kite"]
    erase(server.store, "films", examples=kites)
    entry = server.store.head("films").seq
    shown = opened(ann, made["id"])
    assert "rests-on-erased" in shown.notes and shown.value("erased-by") == str(entry)
    said = shown.value("explanation")
    assert "Kite Days (Comedy)" in said and "None of the" not in said
    assert shown.has(data_replay="erased") and not {"arms", "examples"} & shown.notes
    # What is decided from then on does not rest on it.
    later = decide(server, "25+", among=["fog", "kite"])
    assert opened(ann, later["id"]).has(data_replay="agrees")


def test_what_was_erased_is_looked_for_near_a_decision(server, make, monkeypatch):
    monkeypatch.setattr(decisions, "LOOKED_AT", 4)
    make()
    teach(server)
    erase(server.store, "films", examples=["3"])
    entry = server.store.head("films").seq
    teach(server)
    found = lambda version: decisions.erasure_behind(server.store, "films", version)  # noqa: E731
    assert found(entry - 1) == entry and found(entry - 4) == entry
    assert found(1) is None  # before it
    assert found(5) == 0  # what was erased is seen, and not who says so
    assert found(entry + 9) is None


def test_the_example_that_decided_comes_first(server, make, person):
    make()
    _call(
        server,
        "POST",
        "/v1/agents/films/examples",
        {
            "examples": [
                {"context": {"age": "25+", "late": late}, "arm": "kite", "allowed": True}
                for late in (True, False)
            ]
        },
    )
    made = decide(server, "25+", among=["kite"])
    shown = opened(person("auditor"), made["id"])
    account = _call(server, "GET", f"/v1/agents/films/decisions/{made['id']}")["account"]
    assert [one["flips"] for one in account["examples"]["examples"]].count(True) == 0
    make("solo")
    body = {"context": {"late": True, "age": "25+"}, "arm": "kite", "allowed": True}
    _call(server, "POST", "/v1/agents/solo/examples", body)
    more = {"context": body["context"], "among": ["kite"], "propensity": True}
    one = _call(server, "POST", "/v1/agents/solo/decisions", more)
    shown = person("auditor").get(f"/agents/solo/decisions/{one['id']}")
    assert "denies-without" in shown.notes and shown.has(data_deciding="1")


def test_what_nobody_said_is_no_certainty(server, make, person):
    make(features=[{"kind": "flag", "name": "late"}])
    body = {"context": {"late": False}, "propensity": True}
    made = _call(server, "POST", "/v1/agents/films/decisions", body)
    shown = opened(person("auditor"), made["id"])
    table = shown.html.split('class="arms"')[1].split("</table>")[0]
    assert "nobody has said" in table and "100 %" not in table
