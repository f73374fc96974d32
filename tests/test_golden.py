"""Logs, saved agents and a store of an earlier version read, replay and verify to the same bits.

The files in `tests/golden` were written once, by the code of commit 4f134e2 (`golden/write.py`),
and are never written again. If a test here fails, the code has changed what an old log means:
change the code, not the files. What a later version adds (keys of events and settings, arrays) is
no failure.
"""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from bridle import Agent, AuditMeter, Certificate
from bridle.agent.drift import SurpriseTest
from bridle.agent.events import Asked, Decided, Lapsed, Taught, event_from_json, event_to_json
from bridle.certificates.calibration import Certification
from bridle.errors import CorruptState
from bridle.store.aggregate import events_in, load
from bridle.store.maintenance import replay, verify
from bridle.store.sqlite import SqliteStore
from bridle.store.writer import Writer
from tests.golden import seeing
from tests.golden.seeing import HERE, differences, events_of, kept_of, lines_of, sight_of, state_of

EXPECTED: dict[str, Any] = json.loads((HERE / "expected.json").read_text())
LOGS: dict[str, Any] = EXPECTED["logs"]
SAVED = sorted(name for name in LOGS if LOGS[name]["saved"])
STORE: dict[str, Any] = EXPECTED["store"]["agents"]

# What there was at commit 4f134e2.
EVENTS = {
    "Abstained",
    "ArmsAdded",
    "Asked",
    "AuditBegun",
    "Audited",
    "Calibrated",
    "CalibrationBegun",
    "CalibrationDropped",
    "Certified",
    "Created",
    "Decided",
    "Erased",
    "Erasure",
    "Expired",
    "Lapsed",
    "Learned",
    "Regrouped",
    "Retracted",
    "Rewarded",
    "RewardedLate",
    "RuleDeclared",
    "RuleWithdrawn",
    "RunsOn",
    "Shadowed",
    "SigmaChanged",
    "Taught",
    "Uncertified",
    "WaitChanged",
}
SETTINGS: dict[str, set[Any]] = {
    "limits": {"auto", "rules", "logistic", "found", "linear"},
    "share": {"group", "arm"},
    "label_coding": {"1/0", "1/-1", "0/-1"},
    "teaching": {"random", "thompson", "arm", "pool"},
    "prior": {"centred", "paper"},
    "on_empty": {"abstain", "safe_arm", "least_bad"},
    "on_doubt": {"wait", "play_safe"},
    "crosses": {True, False},
    "exact_denials": {True, False},
    "teacher_error": {0.001, 0.1, None},
    "patience": {None, 2, 3, 4},
}
# KnownMask is told the truth: no agent takes it.
POLICIES = {
    "BehaviorConstrained",
    "EpsilonGreedy",
    "Greedy",
    "LearnedMask",
    "LinUCB",
    "Thompson",
    "Uniform",
}
FEATURES = {"category", "flag", "labels", "number"}
NAME_SPACES = {
    "answer",
    "decision",
    "example",
    "judgement",
    "late",
    "outcome",
    "question",
    "settled",
    "shadow",
}


@cache
def events(name: str) -> list[Any]:
    return events_of(lines_of(name))


def settings_of(name: str) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(lines_of(name)[0])["settings"]
    return settings


def assert_same(old: Any, new: Any) -> None:
    found = differences(old, new)
    assert not found, f"recorded on {EXPECTED['platform']}: {found[:10]}"


def check_at(agent: Agent, name: str) -> None:
    """Compare an agent with what was recorded at its version."""
    seen = LOGS[name]["at"][str(agent.version)]
    assert_same(seen["state"], state_of(agent))
    assert_same(seen["sight"], sight_of(agent, LOGS[name]["contexts"]))


# -- logs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LOGS)
def test_every_line_is_read_and_written_again(name):
    lines = lines_of(name)
    assert len(lines) == LOGS[name]["events"]
    for number, line in enumerate(lines, 1):
        assert not seeing.rewritten(line), f"line {number}"


@pytest.mark.parametrize("name", LOGS)
def test_every_choice_comes_out_again(name):
    found = Agent.replay(events(name))
    assert found.checked == LOGS[name]["checked"] > 0
    # Only a log out of which something was erased has choices that cannot be made again.
    assert list(found.differing) == LOGS[name]["differing"]
    assert found.agrees or name == "store-cinema"
    check_at(found.agent, name)


@pytest.mark.parametrize("name", LOGS)
def test_the_fold_is_the_same_on_the_way(name):
    agent = Agent.replay(events(name)[:1]).agent
    checked = 0
    for event in events(name)[1:]:
        agent.apply(event)
        if str(agent.version) in LOGS[name]["at"]:
            check_at(agent, name)
            checked += 1
    assert checked == len(LOGS[name]["at"]) >= 2


@pytest.mark.parametrize("name", LOGS)
def test_the_audits_of_a_log_show_the_same(name):
    assert_same(LOGS[name]["audits"], seeing.audits_of(events(name)))


# -- saved agents ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_agent_goes_on_as_with_no_pause(name, tmp_path):
    middle, last = LOGS[name]["saved"]
    done = Agent.load(seeing.unpacked(f"{name}-{last}", tmp_path))
    check_at(done, name)
    agent = Agent.load(seeing.unpacked(f"{name}-{middle}", tmp_path))
    check_at(agent, name)
    for event in events(name)[middle:]:
        agent.apply(event)
    check_at(agent, name)
    assert state_of(agent) == state_of(done)
    # It is saved and read again, in the form of this version.
    agent.save(tmp_path / "again")
    check_at(Agent.load(tmp_path / "again"), name)


# -- the store -------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    # A copy: opening a store may bring it to this version's form.
    shutil.copy(HERE / "store.db", tmp_path / "store.db")
    opened = SqliteStore(tmp_path / "store.db")
    yield opened
    opened.close()


def test_the_store_holds_what_it_held(store):
    rows = {row.name: row for row in store.agents()}
    assert set(rows) == set(STORE)
    for name, seen in STORE.items():
        row = rows[name]
        assert (str(row.head), row.created, row.origin) == (
            seen["head"],
            seen["created"],
            seen["origin"],
        )
        names = {
            str(seq): [[n.space, n.id, n.digest and n.digest.hex()] for n in given]
            for seq, given in store.names(name, 0, row.head.seq).items()
        }
        assert names == seen["names"]
        for given in seen["names"].values():
            for space, id, digest in given:
                found = store.find(name, space, [id])[id]
                assert (found.digest and found.digest.hex()) == digest
    tokens = [[one.id, one.hash.hex(), *one[2:]] for one in store.tokens()]
    assert_same(EXPECTED["store"]["tokens"], seeing.plain(tokens))


@pytest.mark.parametrize("name", STORE)
def test_the_chain_verifies_and_replays(store, name):
    seen = STORE[name]
    found = verify(store, name, expect=seen["head"])
    assert found.problems == () and found.erased == seen["erased"]
    again = replay(store, name)
    assert (again.choices, again.same, again.unchecked, again.near, again.differing) == (
        seen["choices"],
        seen["same"],
        seen["unchecked"],
        0,
        0,
    )
    lines = [json.loads(line) for line in lines_of(f"store-{name}")]
    written = [seeing.plain(event_to_json(event)) for event in events_in(store, name)]
    assert_same(lines, written)


@pytest.mark.parametrize("name", STORE)
def test_snapshots_are_the_fold(store, name):
    assert store.snapshots(name) == STORE[name]["snapshots"]
    for seq, seen in STORE[name]["at"].items():
        folded = load(store, name, int(seq), snapshots=False)
        assert_same(seen, kept_of(folded))
        read = load(store, name, int(seq))
        assert read.to_blob() == folded.to_blob()
        if int(seq) in STORE[name]["snapshots"]:
            assert read.snapped[0] == int(seq)  # it was used, and nothing folded


def test_the_store_goes_on(store):
    writer = Writer(store, clock=lambda: 1_700_001_000.0)

    def work(unit_of_work):
        stood = unit_of_work.find("decision", "x1")
        assert stood is not None and isinstance(stood.event, Decided) and stood.digest is not None
        made = unit_of_work.aggregate.agent.make.decided(
            {"child": False, "late": True},
            id="golden",
            propensity=True,
            ask=False,
            at=unit_of_work.now,
        )
        for event in made.events:
            unit_of_work.aggregate.record(event)

    writer.do("cinema", work)
    writer.close()
    found = verify(store, "cinema", expect=STORE["cinema"]["head"])
    assert found.problems == () and found.head.seq > int(STORE["cinema"]["head"].split(":")[0])
    again = replay(store, "cinema")
    assert again.agrees and again.same == STORE["cinema"]["same"] + 1


# -- meters ----------------------------------------------------------------------------------


@cache
def meters() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((HERE / "meters.json").read_text())
    return read


def arrays_of(name: str) -> dict[str, Any]:
    return {key: seeing.read_array(one) for key, one in meters()[name].items()}


def test_saved_meters_show_the_same():
    seen = EXPECTED["meters"]
    for step in (60, 100):
        meter = AuditMeter.from_state(arrays_of(f"audit {step}"))
        assert_same(seen[f"audit {step}"], seeing.meter(meter))
    for step in (40, 80):
        test = SurpriseTest.from_state(arrays_of(f"surprise {step}"))
        assert_same(seen[f"surprise {step}"], seeing.surprise(test))
    half = AuditMeter.from_state(arrays_of("audit 60"))
    seeing.audit_on(half, 61, 100)
    assert_same(seen["audit 100"], seeing.meter(half))
    test = SurpriseTest.from_state(arrays_of("surprise 40"))
    seeing.surprise_on(test, 41, 80)
    assert_same(seen["surprise 80"], seeing.surprise(test))
    assert seen["surprise 80"]["rejected_at"] is not None


def test_a_saved_certification_comes_to_the_same_certificate():
    seen = EXPECTED["meters"]
    asking = Certification.from_state(arrays_of("certification"))
    for answer in seen["certification"]["answers"]:
        asking.answer(answer)
    certificate = asking.certificate(at=1_700_000_000.5)
    read = Certificate.from_json(meters()["certificate"])
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    for one in (certificate, read):
        assert_same(seen["certificate"], seeing.certified_by(one, rows))
        assert one.fingerprint == meters()["certificate"]["fingerprint"]


# -- what is covered -------------------------------------------------------------------------


def test_all_that_there_was_is_covered():
    lines = {name: [json.loads(line) for line in lines_of(name)] for name in LOGS}
    kinds = {data["event"] for log in lines.values() for data in log}
    assert kinds == EVENTS
    in_store = {data["event"] for name in STORE for data in lines[f"store-{name}"]}
    assert {"Certified", "Erased", "Erasure", "RunsOn", "Audited", "Calibrated"} <= in_store
    settings = [settings_of(name) for name in LOGS]
    for key, wanted in SETTINGS.items():
        assert {one[key] for one in settings if key in one} >= wanted, key
    assert {one["policy"]["kind"] for one in settings} == POLICIES
    assert {f["kind"] for one in settings for f in one["features"]} == FEATURES
    pairs = {(one["limits"], one["crosses"]) for one in settings if "crosses" in one}
    assert pairs >= {(kind, both) for kind in ("rules", "logistic") for both in (False, True)}
    spaces = {n[0] for one in STORE.values() for given in one["names"].values() for n in given}
    assert spaces >= NAME_SPACES
    assert sum(len(one["snapshots"]) for one in STORE.values()) >= 5


def test_the_kinds_of_mixture_are_covered():
    at = {name: LOGS[name]["at"][str(LOGS[name]["events"])] for name in LOGS}
    weights = {name: one["sight"]["weights"] for name, one in at.items()}
    assert weights["everything"]["pairs"] > 0.9 and weights["numbers"]["logistic"] > 0.9
    assert set(weights["measures"]) == {"logistic"}
    assert settings_of("wide")["limits"] == "auto" and len(settings_of("wide")["features"]) == 21
    assert at["second_form"]["sight"]["surprises"]


def test_the_ways_of_doubt_are_covered():
    """A question of a decision is answered yes or no, lapses, is dropped, or is open still."""
    ways: dict[str, set[Any]] = {"wait": set(), "play_safe": set()}
    for name in LOGS:
        if "on_doubt" not in settings_of(name):
            continue
        log = events(name)
        became: dict[Any, Any] = {e.question: e.allowed for e in log if isinstance(e, Taught)}
        became |= {e.question: "lapsed" for e in log if isinstance(e, Lapsed)}
        doubts = [e.id for e in log if isinstance(e, Asked) and e.decision is not None]
        ways[settings_of(name)["on_doubt"]] |= {became.get(id) for id in doubts}
    assert ways == {
        "wait": {True, False, "lapsed", None},
        "play_safe": {True, False, "lapsed", None},
    }


def test_ids_and_batches_are_covered():
    assert any(
        {type(e.id) for e in events(name) if isinstance(e, Decided)} == {int, str} for name in LOGS
    )
    for kind in (Asked, Taught):
        assert {type(e.id) for e in events("everything") if isinstance(e, kind)} == {int, str}
    # Choices that stand some events after the version that they were made from.
    late = [e for i, e in enumerate(events("everything")) if getattr(e, "version", i) < i]
    assert len(late) >= 2


# What a log of the first form meant, where it said nothing.
MEANT: dict[str, Any] = {
    "share": "arm",
    "crosses": False,
    "doubt": None,
    "teacher_error": 0.001,
    "on_empty": "abstain",
    "safe_arm": None,
    "budget": 0,
    "on_doubt": "wait",
    "ask_at_most": 3,
    "patience": None,
    "wait": None,
    "default_reward": None,
}
MEANT_IN: dict[str, dict[str, Any]] = {
    "Asked": {"decision": None, "among": None, "propensity": None},
    "Decided": {"ask": False},
    "Abstained": {"ask": False, "propensity": None},
    "ArmsAdded": {"by": None, "note": None},
    "SigmaChanged": {"by": None, "note": None},
    "RuleDeclared": {"by": None, "note": None},
    "RuleWithdrawn": {"by": None, "note": None},
}


def test_earlier_forms_mean_what_they_meant():
    first, second = settings_of("first_form"), settings_of("second_form")
    assert not first.keys() & MEANT.keys()
    assert second.keys() & MEANT.keys() == MEANT.keys() - {"wait", "default_reward"}
    assert_same(MEANT, events("first_form")[0].settings.to_json())
    read = events("second_form")[0].settings.to_json()
    assert_same({**second, "wait": None, "default_reward": None}, read)
    seen = set()
    for line, event in zip(lines_of("first_form"), events("first_form"), strict=True):
        data = json.loads(line)
        meant = MEANT_IN.get(data["event"], {})
        assert not data.keys() & meant.keys()
        assert_same(meant, event_to_json(event))
        seen.add(data["event"])
    assert seen >= MEANT_IN.keys()


# -- the tests can fail ----------------------------------------------------------------------


def test_an_answer_that_is_another_is_noticed():
    for name in ("everything", "rules", "linear", "found"):
        log = list(events(name))
        place = next(i for i, event in enumerate(log) if isinstance(event, Taught))
        log[place] = replace(log[place], allowed=not log[place].allowed)
        found = Agent.replay(log)
        seen = LOGS[name]["at"][str(len(log))]
        assert not found.agrees or differences(seen["state"], state_of(found.agent))


@pytest.mark.parametrize("name", ["everything", "numbers", "linear", "epsilon"])
def test_the_last_bit_of_a_propensity_is_noticed(name):
    log = list(events(name))
    place, event = next(
        (i, event)
        for i, event in enumerate(log)
        if isinstance(event, Decided) and event.propensity is not None and event.propensity < 1
    )
    log[place] = replace(event, propensity=math.nextafter(event.propensity, 1.0))
    assert event.id in Agent.replay(log).differing


def test_the_last_bit_of_a_reward_or_of_an_array_is_noticed(tmp_path):
    line = next(line for line in lines_of("linear") if '"Rewarded"' in line)
    data = json.loads(line)
    other = {**data, "value": math.nextafter(data["value"], 1.0)}
    log = [
        event_from_json(other) if one == line else event_from_json(json.loads(one))
        for one in lines_of("linear")
    ]
    agent = Agent.replay(log).agent
    assert differences(LOGS["linear"]["at"][str(len(log))]["state"], state_of(agent))
    good = np.array([1.0, 2.0])
    assert differences(seeing.hashed({"a": good}), seeing.hashed({"a": np.nextafter(good, 3.0)}))
    path = seeing.unpacked(f"linear-{LOGS['linear']['saved'][1]}", tmp_path)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(CorruptState):
        Agent.load(path)


@pytest.mark.parametrize(
    ("old", "new", "good"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None, "c": 1}]}, True),
        ({"a": [1]}, {"a": [1, 2]}, False),
        (1, 1.0, False),
        (True, 1, False),
        (0.0, -0.0, False),
        (0.1, 0.1, True),
        (0.1, 0.1 + 2**-56, False),
        ("x", None, False),
    ],
)
def test_only_what_is_new_may_differ(old, new, good):
    assert (not differences(old, new)) == good


def test_a_store_that_was_tampered_with_is_noticed(tmp_path):
    shutil.copy(HERE / "store.db", tmp_path / "store.db")
    with sqlite3.connect(tmp_path / "store.db") as connection:
        [(payload, place)] = connection.execute(
            "SELECT payload, place FROM payloads "
            "WHERE CAST(payload AS TEXT) LIKE '%Rewarded%' LIMIT 1"
        ).fetchall()
        changed = payload.replace(b'"value": ', b'"value":  ')
        connection.execute("UPDATE payloads SET payload = ? WHERE place = ?", (changed, place))
    connection.close()
    store = SqliteStore(tmp_path / "store.db")
    assert any(verify(store, name).problems for name in STORE)
    store.close()
