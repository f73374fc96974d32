"""An agent in a file: no pickle, nothing wild, whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridle import Agent, Arm, Rule, Thompson, When
from bridle.agent.snapshot import (
    _digest,
    read_state,
    state_from_arrays,
    state_to_arrays,
    write_state,
)
from bridle.errors import CorruptState
from tests.histories import PAPER, bits

C = np.array([1.0, 0.5])


def a_life(**more: Any) -> Any:
    arms = [Arm("a", group="g"), Arm(1, label="one"), Arm("ü")]
    agent = Agent(**PAPER, arms=arms, features=2, seed=3, max_pending=50, max_examples=50, **more)
    agent.add_arms([Arm("late", group="g")])
    for i in range(8):
        made = agent.decide(C * i, id=f"d{i}" if i % 2 else None)
        if i % 3:
            agent.reward(made.id, i / 10)
        agent.teach(C * i, "late", bool(i % 2), by="Ann", note="because" if i else None)
        agent.ask(C * i)
    agent.retract(3)
    agent.declare(Rule("r", when=[When("x0", at_most=-5.0)], groups=["g"]))
    return agent


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    a_life().save(tmp_path / "agent.bridle")
    return tmp_path / "agent.bridle"


def test_an_agent_comes_back_from_its_file(saved):
    agent = a_life()
    told: list[Any] = []
    loaded: Any = Agent.load(str(saved), sink=told.extend)
    assert bits(loaded) == bits(agent)
    assert (loaded.settings, loaded.rules, loaded.arms) == (agent.settings, agent.rules, agent.arms)
    assert loaded.decide(C).parts.tobytes() == agent.decide(C).parts.tobytes()
    assert len(told) == 1


def test_what_changed_since_creation_comes_back(tmp_path):
    for agent in (a_life(sigma=0.9), a_life(policy=Thompson())):
        if agent.sigma is not None:
            agent.set_sigma(0.125)
        agent.withdraw("r")
        agent.save(tmp_path / "agent")
        loaded = Agent.load(tmp_path / "agent")
        assert (loaded.policy, loaded.rules) == (agent.policy, ())
        assert bits(loaded) == bits(agent)


def test_a_restart_near_a_refresh_changes_no_bit(tmp_path):
    # Inverses are computed anew at a fixed count of updates: before, at and after it.
    rng = np.random.default_rng(7)
    rows, values = rng.standard_normal((1300, 2)), rng.random(1300)
    for so_far in (1, 990, 999, 1000, 1001, 1290):
        agent = Agent(**PAPER, arms=1, features=2)
        agent.learn(rows[:so_far], [0] * so_far, values[:so_far])
        agent.save(tmp_path / "agent")
        loaded = Agent.load(tmp_path / "agent")
        for row, value in zip(rows[so_far:], values[so_far:], strict=True):
            loaded.reward(loaded.decide(row).id, value)
        agent.learn(rows[so_far:], [0] * (1300 - so_far), values[so_far:])
        states = [one._state.reward_arms.to_state() for one in (agent, loaded)]
        assert all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])


def test_equal_agents_give_equal_files(saved, tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 2e9)
    monkeypatch.setattr("time.localtime", lambda *_: (2030, 1, 1, 0, 0, 0, 0, 1, 0))
    a_life().save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()
    Agent.load(saved).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_the_file_is_what_numpy_calls_npz(saved):
    with np.load(saved, allow_pickle=False) as arrays:
        names = [name for name in arrays.files if name != "meta.json"]
        assert {arrays[name].dtype.str for name in names} == {"<f8", "<i8", "|b1"}
        assert arrays["examples.allowed"].tolist() == [False, True, True, False, True, False, True]


# -- whole or not at all ---------------------------------------------------------------------


@pytest.mark.parametrize("what", ["os.replace", "os.fsync", "zipfile.ZipFile.writestr"])
def test_a_write_that_fails_leaves_the_old_file(saved, tmp_path, monkeypatch, what):
    old = saved.read_bytes()
    agent = a_life()
    agent.decide(C)
    calls = []

    def fail(*_: Any, **__: Any) -> None:
        calls.append(1)
        if what != "zipfile.ZipFile.writestr" or len(calls) > 3:  # in the middle
            raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(what, fail)
        with pytest.raises(OSError, match="disk is full"):
            agent.save(saved)
    assert calls and saved.read_bytes() == old
    assert os.listdir(tmp_path) == [saved.name]  # and no scratch
    agent.save(saved)
    assert bits(Agent.load(saved)) == bits(agent)


def test_a_file_that_cannot_be_had_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        Agent.load(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        a_life().save(tmp_path / "no such folder" / "agent")
    with pytest.raises(IsADirectoryError):
        Agent.load(tmp_path)


# -- damage ----------------------------------------------------------------------------------


def corrupt(path: Path) -> None:
    with pytest.raises(CorruptState) as caught:
        Agent.load(path)
    assert str(path) in str(caught.value)


def test_a_truncated_file_is_corrupt(saved):
    whole = saved.read_bytes()
    for length in [
        *range(0, 200),
        *range(200, len(whole), 61),
        *range(len(whole) - 100, len(whole)),
    ]:
        saved.write_bytes(whole[:length])
        corrupt(saved)


def test_a_flipped_bit_is_found_or_means_nothing(saved):
    whole, expected = bytearray(saved.read_bytes()), bits(a_life())
    inside: set[int] = set()  # the parts themselves, and not the zip's own tables
    with zipfile.ZipFile(saved) as archive:
        for entry in archive.infolist():
            start = entry.header_offset + 30 + len(entry.filename)
            inside |= set(range(start, start + entry.file_size))
    tables = sorted(set(range(len(whole))) - inside)
    for place in [*tables[::4], *sorted(inside)[::11]]:
        damaged = whole.copy()
        damaged[place] ^= 1 << (place % 8)
        saved.write_bytes(damaged)
        if place in inside:
            corrupt(saved)
            continue
        try:
            agent = Agent.load(saved)
        except CorruptState:
            continue
        assert bits(agent) == expected  # a date, a version, an attribute


def test_other_files_are_corrupt(saved, tmp_path):
    other = tmp_path / "other"
    for data in (b"", b"\0" * 1000, b"PK\x05\x06" + b"\0" * 18, b"\x80\x04}\x94.", b"{}"):
        other.write_bytes(data)
        corrupt(other)
    np.savez(other, a=np.zeros(3))
    corrupt(other.with_suffix(".npz"))
    np.savez_compressed(other, a=np.zeros(3))
    corrupt(other.with_suffix(".npz"))


def repacked(
    path: Path, change: Any, *, sign: bool = True, compression: int = zipfile.ZIP_STORED
) -> None:
    """Write the file anew with other parts; with `sign` as its writer would, sha256 and all."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    head = json.loads(parts.pop("meta.json"))
    meta = head["meta"]
    change(meta, parts)
    if sign:
        head["sha256"] = _digest(parts, meta)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("meta.json", json.dumps(head))
        for name, blob in parts.items():
            archive.writestr(name, blob)


def npy(array: Any, **more: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), **more)
    return file.getvalue()


def test_what_is_repacked_unchanged_is_read(saved):
    repacked(saved, lambda meta, parts: None)
    assert bits(Agent.load(saved)) == bits(a_life())


def test_a_compressed_file_is_refused(saved):
    repacked(saved, lambda meta, parts: None, compression=zipfile.ZIP_DEFLATED)
    corrupt(saved)


def header(text: str, data: bytes = b"") -> bytes:
    raw = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(raw).to_bytes(2, "little") + raw + data


def test_an_array_of_python_objects_is_refused_and_never_read(saved, tmp_path):
    # As numpy writes objects: whoever reads this far calls os.mkdir.
    call = f"cos\nmkdir\n(S{str(tmp_path / 'owned')!r}\ntR.".encode()
    blob = header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", call)
    for sign in (True, False):
        copy = shutil.copy(saved, tmp_path / "copy")
        repacked(copy, lambda meta, parts: parts.update({"pending.arms.npy": blob}), sign=sign)
        corrupt(copy)
    assert not (tmp_path / "owned").exists()


HEADERS = [
    b"",
    b"\x93NUMPY",
    header(""),
    header("{}"),
    header("__import__('os').mkdir('owned')"),
    header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,), }"),
    header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999, 99999999, 99999999), }"),
    header("{'descr': '<f8', 'fortran_order': True, 'shape': (1, 1), }", b"\0" * 8),
    header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", b"\0" * 8),
    header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"\0" * 8),
    header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", b"\0" * 8),
    header("{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }", b"\0" * 8),
    header("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", b"\0" * 9),
    npy(np.zeros(3))[:-1],
    npy(np.zeros(3)) + b"\0",
    npy(np.zeros(3), version=(2, 0)),
]


@pytest.mark.parametrize("blob", HEADERS, ids=range(len(HEADERS)))
def test_a_wrong_array_is_corrupt_and_takes_no_memory(saved, blob):
    repacked(saved, lambda meta, parts: parts.update({"pending.arms.npy": blob}))
    tracemalloc.start()
    try:
        corrupt(saved)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 50 * saved.stat().st_size  # 1e6 bytes, and not 8e14


def test_a_small_file_cannot_ask_for_a_large_agent(saved):
    def change(meta: Any, parts: Any) -> None:
        feature = meta["settings"]["features"][0]
        features = [{**feature, "name": f"f{i}"} for i in range(400)]
        arms = [{"id": i, "label": str(i), "group": None} for i in range(1000)]
        meta["settings"] |= {"features": features, "arms": arms, "rules": []}
        meta["added_arms"], meta["rules"] = [], []
        parts.update(
            {f"{part}.mu.npy": npy(np.zeros((1000, 400))) for part in ("reward", "limits")}
        )

    repacked(saved, change)  # 1,000 × 400² numbers are 1.3 GB
    tracemalloc.start()
    try:
        corrupt(saved)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10 * saved.stat().st_size < 10**8


def settle(key: str, value: Any) -> Any:
    return lambda meta, parts: meta.update({key: value})


def place(key: str, at: int, value: Any) -> Any:
    return lambda meta, parts: meta[key].__setitem__(at, value)


def array(name: str, value: Any) -> Any:
    return lambda meta, parts: parts.update({f"{name}.npy": npy(value)})


CHANGES = {
    "a part more": lambda meta, parts: parts.update({"more.npy": npy([1.0])}),
    "a part of the limits more": lambda meta, parts: parts.update({"limits.more.npy": npy([1.0])}),
    "a part that is no array": lambda meta, parts: parts.update({"notes.txt": b"hello"}),
    "a part less": lambda meta, parts: parts.pop("questions.arms.npy"),
    "a sum less": lambda meta, parts: parts.pop("reward.f.npy"),
    "a key more": settle("more", 1),
    "a key less": lambda meta, parts: meta.pop("sigma"),
    "no settings": settle("settings", None),
    "damaged settings": lambda meta, parts: meta["settings"].update(seed=-1),
    "other sizes": lambda meta, parts: meta["arms"].pop(),
    "a damaged arm": place("arms", -1, {"id": "late"}),
    "a double arm": place("arms", -1, {"id": "a", "label": "a", "group": None}),
    "no arms": settle("arms", 5),
    "sigma": settle("sigma", 7),
    "sigma of another kind": settle("sigma", "high"),
    "a rule of nobody": settle("rules", [Rule("r", groups=["nobody"]).to_json()]),
    "a rule twice": settle("rules", [Rule("r").to_json()] * 2),
    "version 0": place("counts", 0, 0),
    "a version that is none": place("counts", 0, True),
    "a negative count": place("counts", 3, -1),
    "a count from the future": place("counts", 1, 2**60),
    "ids that are none": settle("pending", [[]] * 3),
    "ids of another kind": settle("pending", [1.5, 2, 3]),
    "ids twice": settle("pending", ["d", "d", "d"]),
    "ids from the future": settle("pending", [100, 101, 102]),
    "too many ids": settle("pending", ["a", "b", "c", "d", "e"]),
    "no ids": settle("pending", 5),
    "examples that are none": settle("examples", [5] * 7),
    "a teacher that is none": settle("examples", [[f"e{i}", 5, None] for i in range(7)]),
    "a note that is none": settle("examples", [[f"e{i}", None, ""] for i in range(7)]),
    "an arm that is not there": array("pending.arms", [4, 0, 0]),
    "a negative arm": array("questions.arms", [-1] + [0] * 7),
    "arms that are floats": array("questions.arms", [0.0] * 8),
    "contexts of other numbers": array("pending.contexts", np.full((3, 2), np.nan)),
    "contexts of another width": array("pending.contexts", np.zeros((3, 3))),
    "contexts that are whole": array("pending.contexts", np.zeros((3, 2), np.int64)),
    "answers of another type": array("examples.allowed", [1] * 7),
    "answers of another length": array("examples.allowed", [True] * 6),
    "another ridge": array("reward.ridge", np.array(2.0)),
    "another ridge of the limits": array("limits.ridge", np.array(2.0)),
    "questions of another time": lambda meta, parts: meta["questions"][0].__setitem__(2, 10**6),
    "questions of no decision": lambda meta, parts: meta["questions"][0].__setitem__(1, []),
    "a count less": lambda meta, parts: meta["counts"].pop(),
    "answers from the future": place("question_counts", 1, 2**60),
    "decisions that wait for nothing": settle("waiting", [["w", None, 0, 10**6, True, None]]),
    "another kind of limits": settle("limits", "rules"),
    "no kind of limits": settle("limits", "none"),
    "totals that are none": array("totals", np.array([np.nan, 1.0])),
    "another coding": array("limits.coding", np.array([1.0, -1.0])),
    "sums that are not finite": array("reward.f", np.full((4, 2), np.inf)),
    "a count of another type": array("reward.since", np.zeros(4)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_file_that_is_whole_but_no_agent_is_corrupt(saved, change):
    repacked(saved, change)
    corrupt(saved)


def test_another_sha256_is_corrupt(saved):
    repacked(saved, settle("version", 3), sign=False)
    corrupt(saved)


@pytest.mark.parametrize(
    "head", [None, [], {}, {"format": "bridle agent 0"}, {"format": "bridle agent 1"}]
)
def test_another_head_is_corrupt(saved, head):
    with zipfile.ZipFile(saved, "w") as archive:
        archive.writestr("meta.json", json.dumps(head))
    corrupt(saved)
    with zipfile.ZipFile(saved, "w") as archive:
        archive.writestr("meta.json", b"[" * 200_000)
    corrupt(saved)


def test_a_part_that_is_there_twice_is_corrupt(saved):
    with zipfile.ZipFile(saved, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("meta.json", "{}")
    corrupt(saved)


def test_an_encrypted_part_is_corrupt(saved):
    data = saved.read_bytes()
    place = data.index(b"PK\x01\x02") + 8  # flags of the first entry
    saved.write_bytes(data[:place] + b"\x01" + data[place + 1 :])
    corrupt(saved)


def test_state_is_plain_json_and_arrays(tmp_path):
    meta, arrays = state_to_arrays(a_life()._state)
    assert json.loads(json.dumps(meta)) == meta
    write_state(tmp_path / "state", meta, arrays)
    again, same = read_state(tmp_path / "state")
    assert again == meta and all(same[name].tobytes() == arrays[name].tobytes() for name in arrays)
    assert bits(Agent.of(state_from_arrays(again, same))) == bits(a_life())
    with pytest.raises(CorruptState):
        state_from_arrays([], {})
    digest = json.loads(zipfile.ZipFile(tmp_path / "state").read("meta.json"))["sha256"]
    assert len(digest) == len(hashlib.sha256().hexdigest())
