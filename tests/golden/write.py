"""The script that wrote the golden files. It was run once, at commit 4f134e2.

    PYTHONPATH=src:. python -m tests.golden.write

It is kept to show where the files come from. NEVER run it again to repair a failing test: the files
are what agents of that time left on people's disks. A test that fails says that the code no longer
reads them to the same bits, and it is the code that must change. A new form of the log gets golden
files of its own, beside these.

It writes, into the folder of this file:

- `logs/NAME.jsonl`: the log of an agent, an event a line, and `logs/store-NAME.jsonl` for those of
  the store. Those of `first_form` and `second_form` have no keys that earlier logs did not have.
- `saved/NAME-VERSION.xz`: the same agent as `Agent.save` wrote it, in mid-life and at the end. The
  bytes of that file are compressed by xz, and otherwise unchanged.
- `store.db`: a SQLite store with three agents, snapshots, names, an erasure and tokens. (The salts
  of its chain are random: it cannot be written again with the same bytes.)
- `meters.json`: audit meters, surprise tests, a certification and a certificate as they are saved.
- `expected.json`: what the code saw in all of it, see `seeing.py`.
"""

from __future__ import annotations

import json
import lzma
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bridle import Agent, AuditMeter, Flag
from bridle.agent.config import LAST, LATER
from bridle.agent.drift import SurpriseTest
from bridle.agent.events import event_to_text
from bridle.audit.meter import Window
from bridle.certificates.calibration import Certification
from bridle.store.aggregate import events_in, load, platform_here
from bridle.store.maintenance import replay, verify
from bridle.store.sqlite import SqliteStore
from tests.golden import seeing
from tests.golden.agents import LIVES
from tests.golden.shop import write_store

COMMIT = "4f134e2"
# What earlier logs did not have, by event; the values of all of them are the defaults.
LATER_FIELDS = {
    "Asked": ("decision", "among", "propensity"),
    "Decided": ("ask",),
    "Abstained": ("ask", "propensity"),
    "ArmsAdded": ("by", "note"),
    "SigmaChanged": ("by", "note"),
    "RuleDeclared": ("by", "note"),
    "RuleWithdrawn": ("by", "note"),
}


def older(name: str, line: str) -> str:
    """Return a line of a log in an earlier form, if that is what the log is for."""
    data = json.loads(line)
    if name == "first_form":
        taken = [(data, field) for field in LATER_FIELDS.get(data["event"], ())]
        for holder, field in taken:
            assert holder.pop(field) in (None, False), line
    if name in ("first_form", "second_form") and data["event"] == "Created":
        gone = {**(LATER if name == "first_form" else {}), **LAST}
        for field, value in gone.items():
            assert data["settings"].pop(field) == value, field
    return json.dumps(data, ensure_ascii=False)


def write_lines(folder: Path, name: str, lines: list[str]) -> None:
    """Write a log."""
    (folder / "logs" / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def saved_bytes(agent: Agent) -> bytes:
    """Return what `Agent.save` writes."""
    with tempfile.TemporaryDirectory() as scratch:
        agent.save(Path(scratch) / "agent")
        return (Path(scratch) / "agent").read_bytes()


def write_agent(folder: Path, name: str) -> dict[str, Any]:
    """Live a life and write all of it; return what was seen."""
    saved = []
    for life in LIVES[name]():
        version = life.agent.version
        packed = lzma.compress(saved_bytes(life.agent), preset=9)
        (folder / "saved" / f"{name}-{version}.xz").write_bytes(packed)
        saved.append(version)
    assert len(life.log) == life.agent.version == saved[-1] and len(saved) == 2
    lines = [older(name, event_to_text(event)) for event in life.log]
    write_lines(folder, name, lines)
    step = max(1, len(life.contexts) // 4)
    return seen_in(lines, plain_contexts(life.contexts[::step][:4]), saved)


def plain_contexts(contexts: list[Any]) -> list[Any]:
    """Return contexts as JSON can hold them."""
    return list(seeing.plain(contexts))


def seen_in(lines: list[str], contexts: list[Any], saved: list[int]) -> dict[str, Any]:
    """Return what is seen in a log: at the versions that were saved, and at one before."""
    events = seeing.events_of(lines)
    replayed = Agent.replay(events)
    versions = sorted({max(2, len(events) // 4), *saved, len(events)})
    agent = Agent.replay(events[:1]).agent
    at: dict[str, Any] = {}
    for event in events[1:]:
        agent.apply(event)
        if agent.version in versions:
            sight = seeing.sight_of(agent, contexts)
            at[str(agent.version)] = {"state": seeing.state_of(agent), "sight": sight}
    return {
        "events": len(events),
        "checked": replayed.checked,
        "differing": list(replayed.differing),
        "saved": saved,
        "contexts": contexts,
        "audits": seeing.audits_of(events),
        "at": at,
    }


def write_shop(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write the store, and the logs in it; return what was seen of both."""
    write_store(folder / "store.db")
    store = SqliteStore(folder / "store.db")
    seen: dict[str, Any] = {"agents": {}, "tokens": []}
    logs: dict[str, Any] = {}
    for row in store.agents():
        name = row.name
        lines = [event_to_text(event) for event in events_in(store, name)]
        write_lines(folder, f"store-{name}", lines)
        at = sorted({*store.snapshots(name), row.head.seq, row.head.seq // 3})
        features = load(store, name).agent.schema.features
        young: dict[str, Any] = {
            one.name: False if isinstance(one, Flag) else 31.5 for one in features
        }
        old: dict[str, Any] = {
            one.name: True if isinstance(one, Flag) else 77.25 for one in features
        }
        logs[f"store-{name}"] = seen_in(lines, [young, old], [])
        found, again = verify(store, name), replay(store, name)
        names = store.names(name, 0, row.head.seq)
        seen["agents"][name] = {
            "head": str(row.head),
            "created": row.created,
            "origin": row.origin,
            "erased": found.erased,
            "choices": again.choices,
            "same": again.same,
            "unchecked": again.unchecked,
            "snapshots": store.snapshots(name),
            "names": {
                str(seq): [
                    [one.space, one.id, None if one.digest is None else one.digest.hex()]
                    for one in given
                ]
                for seq, given in names.items()
            },
            "at": {str(seq): seeing.kept_of(load(store, name, seq, snapshots=False)) for seq in at},
        }
    for token in store.tokens():
        seen["tokens"].append(seeing.plain([token.id, token.hash.hex(), *token[2:]]))
    store.close()
    return seen, logs


def write_meters(folder: Path) -> dict[str, Any]:
    """Write meters as they are saved; return what was seen of them."""
    files: dict[str, Any] = {}
    seen: dict[str, Any] = {}

    def put(name: str, thing: Any, sight: dict[str, Any]) -> None:
        arrays = {key: seeing.written_array(one) for key, one in thing.to_state().items()}
        files[name] = arrays
        seen[name] = sight

    audit = AuditMeter(0.3, 0.05, seed=99, windows=(Window(25, 0.1), Window(40, 0.02)))
    for first, last in (1, 60), (61, 100):
        seeing.audit_on(audit, first, last)
        put(f"audit {last}", audit, seeing.meter(audit))
    test = SurpriseTest(0.01)
    for first, last in (1, 40), (41, 80):
        seeing.surprise_on(test, first, last)
        put(f"surprise {last}", test, seeing.surprise(test))
    agent = Agent(arms=["a", "b"], features=[Flag("x"), Flag("y")], seed=1)
    for row in np.eye(2).tolist():
        for arm in ("a", "b"):
            context = {"x": row[0] > 0, "y": row[1] > 0}
            agent.teach(context, arm, arm == "a" or not context["x"])
    rows = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]] * 6)
    asking = agent.certification_of(rows, 0.1, 0.2, on="golden contexts", ids=list(range(24)))
    answers: list[bool] = []
    while (question := asking.question()) is not None:
        if len(answers) == 9:
            half = {key: array.copy() for key, array in asking.to_state().items()}
            files["certification"] = {key: seeing.written_array(one) for key, one in half.items()}
            Certification.from_state(half)
        index, arm = question
        answers.append(bool(arm == "a" or not rows[index][0]))
        asking.answer(answers[-1])
    certificate = asking.certificate(at=1_700_000_000.5)
    files["certificate"] = certificate.to_json()
    seen["certification"] = {"answers": answers[9:]}
    seen["certificate"] = seeing.certified_by(certificate, rows[:4])
    (folder / "meters.json").write_text(json.dumps(files, indent=1) + "\n")
    return seen


def main(folder: Path) -> None:
    """Write all files into a folder that has none of them."""
    if (folder / "expected.json").exists():
        sys.exit(
            "The golden files are there, and are never written again. See the top of write.py."
        )
    for part in ("logs", "saved"):
        (folder / part).mkdir(exist_ok=True)
    logs = {name: write_agent(folder, name) for name in LIVES}
    store, more = write_shop(folder)
    seen = {
        "commit": COMMIT,
        "platform": platform_here(),
        "logs": {**logs, **more},
        "store": store,
        "meters": write_meters(folder),
    }
    text = json.dumps(seeing.plain(seen), indent=0, ensure_ascii=False, separators=(",", ":"))
    (folder / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else seeing.HERE)
