"""What the golden tests see of an agent, a store or a meter, as plain JSON values.

`write.py` recorded it, at commit 4f134e2, in `expected.json`; `tests/test_golden.py` looks again
and compares. Arrays are recorded as type, shape and sha256 of their little-endian bytes (its first
32 hexadecimal digits). Floats stand in JSON as `repr` writes them, which is exact.

Left out are words for people that may be said better one day, and what is computed by BLAS or
LAPACK, whose bits depend on the machine (`Believed.novelty`). The logarithms and exponentials of
numpy, by which rules and mixtures are weighed, may differ in the last bit between processors with
and without AVX-512. The golden lives were chosen such that both give the same bits in all of them.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bridle import Agent, AuditMeter, Decision
from bridle.agent.drift import SurpriseTest
from bridle.agent.events import Event, event_from_json, event_to_json, event_to_text
from bridle.agent.snapshot import state_to_arrays, unpack
from bridle.audit.log import audits_in
from bridle.certificates.certificate import Certificate
from bridle.errors import NotPossible
from bridle.limits import AutoLimits
from bridle.store import aggregate as keeping
from bridle.store.aggregate import Aggregate

HERE = Path(__file__).parent
# Of what is kept beside an agent: what its decisions or promises rest on.
SIDES = ("agent.", "audits.", "calibration.", "deadlines")


# -- comparing -------------------------------------------------------------------------------


def differences(old: Any, new: Any, at: str = "") -> list[str]:
    """Return where `new` is not what was recorded; keys that were not there then are no matter.

    Numbers must be equal to the bit and of the same type, lists of the same length.
    """
    if isinstance(old, dict) and isinstance(new, Mapping):
        gone = [f"{at}/{key}: gone" for key in old if key not in new]
        return gone + [
            found
            for key in old
            if key in new
            for found in differences(old[key], new[key], f"{at}/{key}")
        ]
    if isinstance(old, list) and isinstance(new, list | tuple):
        if len(old) != len(new):
            return [f"{at}: {len(old)} values became {len(new)}"]
        pairs = enumerate(zip(old, new, strict=True))
        return [found for i, (a, b) in pairs for found in differences(a, b, f"{at}/{i}")]
    same = type(old) is type(new) and (
        old.hex() == new.hex() if isinstance(old, float) else old == new
    )
    return [] if same else [f"{at}: {old!r:.200} became {new!r:.200}"]


def plain(value: Any) -> Any:
    """Return a value as it comes back from JSON: tuples as lists, keys as strings."""
    return json.loads(json.dumps(value))


# -- files -----------------------------------------------------------------------------------


def lines_of(name: str) -> list[str]:
    """Return the lines of a golden log."""
    return (HERE / "logs" / f"{name}.jsonl").read_text().splitlines()


def events_of(lines: Iterable[str]) -> list[Event]:
    """Return the events of a log's lines."""
    return [event_from_json(json.loads(line)) for line in lines]


def unpacked(name: str, folder: Path) -> Path:
    """Return a saved agent as a file that `Agent.load` reads, in a folder."""
    path = folder / name
    path.write_bytes(lzma.decompress((HERE / "saved" / f"{name}.xz").read_bytes()))
    return path


def written_array(array: Any) -> dict[str, Any]:
    """Return an array as JSON values."""
    little = np.asarray(array).astype(array.dtype.newbyteorder("<"))
    return {"dtype": little.dtype.str, "shape": list(array.shape), "hex": little.tobytes().hex()}


def read_array(data: Any) -> Any:
    """Return the array that `written_array` wrote."""
    dtype = np.dtype(data["dtype"])
    flat = np.frombuffer(bytearray.fromhex(data["hex"]), dtype)
    return flat.reshape(data["shape"]).astype(dtype.newbyteorder("="))


# -- seeing ----------------------------------------------------------------------------------


def hashed(arrays: Mapping[str, Any]) -> dict[str, str]:
    """Return type, shape and sha256 of each array."""
    out = {}
    for name, array in sorted(arrays.items()):
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
        digest = hashlib.sha256(little.tobytes()).hexdigest()[:32]
        out[name] = f"{little.dtype.str} {list(array.shape)} {digest}"
    return out


def state_of(agent: Agent) -> dict[str, Any]:
    """Return all that an agent knows: JSON in full, and hashed arrays."""
    meta, arrays = state_to_arrays(agent._state)
    return {"meta": _meta(meta), "arrays": hashed(arrays)}


def _meta(meta: Mapping[str, Any]) -> dict[str, Any]:
    # The settings and the certificate stand in the log, and are compared there. What is a row
    # becomes a mapping from places: a later version may put more at its end.
    out = {key: value for key, value in meta.items() if key not in ("settings", "certificate")}
    for key in ("counts", "question_counts", "wait"):
        out[key] = _places(out[key])
    for key in ("questions", "waiting", "examples"):
        out[key] = [_places(row) for row in out[key]]
    return dict(plain(out))


def _places(row: Iterable[Any]) -> dict[str, Any]:
    return {str(place): value for place, value in enumerate(row)}


def sight_of(agent: Agent, contexts: list[Any]) -> dict[str, Any]:
    """Return what can be seen of an agent, and what it would do next."""
    limits, certificate = agent.limits, agent.certificate
    rows = agent.schema.encode_many(contexts)
    return dict(
        plain(
            {
                "sigma": agent.sigma,
                "waiting": agent.waiting,
                "open": [[q.id, q.arm, q.decision] for q in agent.open_questions],
                "budget_left": agent.budget_left,
                "describe": _describe(agent),
                "weights": limits.weights() if isinstance(limits, AutoLimits) else None,
                "surprises": [
                    [s.answer, s.unit, s.allowed, s.probability] for s in agent.surprises
                ],
                "believed": [_believed(agent, context) for context in contexts],
                "next": [_next(agent, context) for context in contexts],
                "named": event_to_json(
                    agent.make.decided(contexts[0], id="next", propensity=True, at=1.5).events[0]
                ),
                "quiet": [
                    event_to_json(event)
                    for event in agent.make.decided_many(contexts, propensity=True).events()
                ],
                "asked": event_to_json(agent.make.asked(contexts[-1], at=2.5).event),
                "pool": event_to_json(agent.make.asked(pool=contexts, id="pool").event),
                "certified": None if certificate is None else certified_by(certificate, rows),
            }
        )
    )


def _describe(agent: Agent) -> list[str] | None:
    try:
        return agent.describe()
    except NotPossible:  # limits of a kind that is no sentence
        return None


def _believed(agent: Agent, context: Any) -> dict[str, Any]:
    found = agent.believed(context)
    return {
        "p": found.p.tolist(),
        "safe": found.safe.tolist(),
        "possible": found.possible.tolist(),
        "certified": None if found.certified is None else found.certified.tolist(),
        "playable": found.playable.tolist(),
    }


def _next(agent: Agent, context: Any) -> dict[str, Any]:
    made = agent.make.decided(context, propensity=True)
    out: dict[str, Any] = {"events": [event_to_json(event) for event in made.events]}
    odds = made.odds
    if odds is not None:
        out |= {"play": odds.play.tolist(), "ask": odds.ask.tolist(), "abstain": odds.abstain}
    if isinstance(made, Decision):
        out |= {"eligible": made.eligible.tolist(), "parts": hashed({"": made.parts})[""]}
    return out


def certified_by(certificate: Certificate, rows: Any) -> dict[str, Any]:
    """Return what a certificate promises and lets through."""
    return {
        "fingerprint": certificate.fingerprint,
        "threshold": certificate.threshold,
        "bound": certificate.bound,
        "scores": certificate.scores(rows).tolist(),
        "allowed": certificate.allowed(rows).tolist(),
        "violations_bound": certificate.violations_bound(1000, 0.05),
    }


def audits_of(events: Iterable[Event]) -> dict[str, Any] | None:
    """Return what the audits of a log show."""
    auditing = audits_in(events)
    if auditing is None or auditing.meter is None:
        return None
    pending = [[id, step] for id, step in auditing.pending.items()]
    return dict(plain({"before": auditing.before, "pending": pending, **meter(auditing.meter)}))


def meter(one: AuditMeter) -> dict[str, Any]:
    """Return what a meter shows."""
    blocks = len(one.windows) and -(-one.steps // one.windows[0].length)
    return dict(
        plain(
            {
                "q": one.q,
                "delta": one.delta,
                "steps": one.steps,
                "actions": one.actions,
                "waits": one.pending,
                "bounds": list(one.bounds()),
                "blocks": [list(one.bounds(0, block)) for block in range(1, blocks + 1)],
                "expected": one.expected(),
                "states": [one.state(level) for level in (0.01, 0.2, 0.6)],
                "draws": [one.draws(id) for id in (*range(1, 30), "a", "b", "c", "d")],
                "arrays": hashed(one.to_state()),
            }
        )
    )


def surprise(test: SurpriseTest) -> dict[str, Any]:
    """Return what a surprise test shows."""
    return {
        "level": test.level,
        "answers": test.answers,
        "wealth": test.wealth,
        "p_value": test.p_value,
        "rejected_at": test.rejected_at,
        "arrays": hashed(test.to_state()),
    }


def audit_on(one: AuditMeter, first: int, last: int) -> None:
    """Let a meter see the steps of a fixed story, from one to another."""
    for step in range(first, last + 1):
        id: int | str = step if step % 3 else f"named {step}"
        if step % 10 == 0:
            one.abstained(id)
        elif one.observe(id) and step % 7:
            one.answer(id, step % 11 > 3)


def surprise_on(test: SurpriseTest, first: int, last: int) -> None:
    """Let a surprise test see the answers of a fixed story, from one to another."""
    for step in range(first, last + 1):
        test.observe(step % 3 > 0 if step > 50 else step % 50 > 0, 0.9 + step % 5 / 60)


def kept_of(kept: Aggregate) -> dict[str, Any]:
    """Return what follows from the log of an agent in a store."""
    meta, arrays = unpack(kept.to_blob(), keeping.FORM)
    sides = {key: value for key, value in meta["sides"].items() if key != "guesses"}
    sides["shadows"] = _places(sides["shadows"])
    return {
        "meta": _meta(meta["agent"]),
        "sides": sides,
        "arrays": {n: one for n, one in hashed(arrays).items() if n.startswith(SIDES)},
    }


def rewritten(line: str) -> list[str]:
    """Return what is lost or changed of a line when its event is read and written again."""
    data = json.loads(line)
    event = event_from_json(data)
    return [
        *differences(data, json.loads(event_to_text(event)), "text"),
        *differences(data, plain(event_to_json(event)), "json"),
    ]
