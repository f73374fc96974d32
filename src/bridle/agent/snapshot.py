"""Snapshots: the state of an agent as JSON and named arrays, in bytes or in a file. No pickle.

It is a zip of .npy arrays (what numpy calls .npz) and `meta.json`. Sizes and types are checked
before anything is allocated: what is read never takes more memory than some times its own size. A
sha256 over all of it shows damage.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import struct
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from bridle.agent.config import Arm, ArmId, ItemId, Json, Settings, arm_id, plain_id, rows_of
from bridle.agent.drift import SurpriseTest
from bridle.agent.events import (
    Decided,
    Judged,
    Lapsed,
    Promised,
    Retracted,
    SigmaChanged,
    Taught,
    WaitChanged,
    check_event,
    event_from_json,
    event_to_json,
)
from bridle.agent.limits_state import Case, Open, Waiting
from bridle.agent.purse import Purse
from bridle.agent.state import AgentState, Example, JudgedCase, OpenCheck
from bridle.agent.teachers import Teachers
from bridle.certificates.certificate import Certificate
from bridle.errors import BridleError, CorruptState, NotRegistered
from bridle.limits.declared import Rule
from bridle.limits.kinds import limits_from_state
from bridle.limits.pairs import PairLimits
from bridle.policies import Policy, policy_to_json, with_sigma
from bridle.reward.base import DEFAULT as OUR_REWARD
from bridle.reward.base import SHARED as OUR_SHARED
from bridle.reward.base import model_from_state
from bridle.reward.posterior import LinearArms
from bridle.reward.scaled import ScaledArms
from bridle.reward.shared import SharedArms
from bridle.validation import MAX_MAGNITUDE

__all__ = [
    "DAMAGE",
    "Arrays",
    "pack",
    "read_file",
    "read_state",
    "state_from_arrays",
    "state_to_arrays",
    "unpack",
    "write_file",
    "write_state",
]


META = "meta.json"
# The head of a .npy of version 1.0, as numpy writes it for these types.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<dtype><[fiu]8|<i4|\|[biu]1|<U[1-9][0-9]{0,3})', "
    rb"'fortran_order': False, "
    rb"'shape': \((?P<shape>[0-9]{0,15}(?:, ?[0-9]{0,15}){0,3})\), \} *\n",
    re.DOTALL,
)
# What the pieces raise when they are fed with something else.
DAMAGE = (
    BridleError,
    AttributeError,
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
)

Arrays = dict[str, npt.NDArray[Any]]


def pack(form: str, meta: Mapping[str, Json], arrays: Arrays) -> bytes:
    """Return JSON and arrays as bytes. Equal states give equal bytes."""
    blobs = {f"{name}.npy": _npy(array) for name, array in sorted(arrays.items())}
    text = json.dumps({"format": form, "sha256": _digest(blobs, meta), "meta": meta})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, blob in {META: text.encode(), **blobs}.items():
            archive.writestr(zipfile.ZipInfo(name), blob)  # dated 1980: no clock
    return buffer.getvalue()


def unpack(blob: bytes, form: str) -> tuple[dict[str, Any], Arrays]:
    """Return what `pack` was given, or raise `CorruptState`."""
    return _unpacked(io.BytesIO(blob), len(blob), form)


def write_file(path: str | os.PathLike[str], blob: bytes) -> None:
    """Write bytes to `path`, whole or not at all."""
    target = Path(path)
    handle, scratch = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(blob)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def read_file(path: str | os.PathLike[str], form: str, what: str) -> tuple[dict[str, Any], Arrays]:
    """Read what was packed into a file, or raise `CorruptState` (or OSError, if there is none)."""
    with open(path, "rb") as file:
        try:
            return _unpacked(file, os.fstat(file.fileno()).st_size, form)
        except CorruptState as error:
            raise CorruptState(
                f"{path} is no {what} saved by bridle, or damaged: {error}"
            ) from None


def _unpacked(file: BinaryIO, length: int, form: str) -> tuple[dict[str, Any], Arrays]:
    try:
        meta, blobs = _read(file, length, form)
        return meta, {name.removesuffix(".npy"): _array(blobs[name], name) for name in blobs}
    except CorruptState:
        raise
    # What zipfile raises where its own tables are damaged.
    except (
        *DAMAGE,
        zipfile.BadZipFile,
        OSError,
        EOFError,
        RuntimeError,
        struct.error,
    ) as error:
        raise CorruptState(f"damaged: {error!r}") from error


def _read(file: BinaryIO, length: int, form: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        sizes = {entry.filename: entry.file_size for entry in entries}
        # Stored as they are, the parts are no larger than the file: nothing grows in memory.
        stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in entries)
        if not stored or len(sizes) != len(entries) or sum(sizes.values()) > length:
            raise CorruptState("Its parts do not fit the file.")
        names = [name for name in sizes if name != META]
        if len(names) == len(sizes) or not all(name.endswith(".npy") for name in names):
            raise CorruptState(f"It holds {sorted(sizes)}."[:1000])
        head = json.loads(archive.read(META))
        if not isinstance(head, dict) or head.get("format") != form:
            raise CorruptState(f"It is not of the form {form!r}.")
        blobs = {name: archive.read(name) for name in names}
    meta = head.get("meta")
    if not isinstance(meta, dict) or head.get("sha256") != _digest(blobs, meta):
        raise CorruptState("Its sha256 does not fit what it holds.")
    return meta, blobs


def _digest(blobs: Mapping[str, bytes], meta: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(blobs):
        digest.update(name.encode())
        digest.update(hashlib.sha256(blobs[name]).digest())
    return digest.hexdigest()


def _npy(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    little = array.astype(array.dtype.newbyteorder("<"))
    np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def _array(blob: bytes, name: str) -> npt.NDArray[Any]:
    # The header is matched, not parsed: numpy would evaluate it.
    head = _HEADER.match(blob)
    if head is None:
        raise CorruptState(f"{name}: not an array as bridle writes them.")
    dtype = np.dtype(head["dtype"].decode())
    shape = tuple(int(n) for n in head["shape"].replace(b",", b" ").split())
    if math.prod(shape) * dtype.itemsize != len(blob) - head.end():
        raise CorruptState(f"{name}: {dtype} of shape {shape!r:.100} is not {len(blob)} bytes.")
    flat = np.frombuffer(blob, dtype, offset=head.end())
    return flat.reshape(shape).astype(dtype.newbyteorder("="))


# --- The state of an agent, as JSON and named arrays -----------------------------------------


FORM = "bridle agent 3"
_COUNTS = ("version", "decisions", "taught", "dropped")
_QUESTION_COUNTS = ("asked", "answered", "lapsed")
_META = {
    "settings",
    "arms",
    "limits",
    "sigma",
    "rules",
    "counts",
    "question_counts",
    "pending",
    "questions",
    "waiting",
    "examples",
    "certificate",
    "wait",
}
# What is written only where there is something to write: an agent without it keeps its bytes.
_SPARSE = {"status", "policy", "outdated"}
# What logs of the first form have not.
_PRICED = {"costs", "lessons"}
# What those of the second form have not, either.
_CHECKED = {"checks", "check_counts", "rates", "drift", "promise", "judged"}
_ARRAYS = {
    f"{name}.{part}"
    for name in ("pending", "questions", "waiting", "examples")
    for part in ("contexts", "arms")
}
_ARRAYS |= {"examples.allowed", "totals"}
_BARE = {"by": None, "note": None, "at": None}
# Arrays that a part of an agent reads itself.
PARTS = ("reward.", "limits.", "teachers.")
# What of the limits' arrays follows from the settings, the arms and the rules.
_SETTLED = {
    "ridge",
    "coding",
    "settings",
    "crosses",
    "groups",
    "pairs",
    "thresholds",
    "density",
    "errors",
    "doubt",
    "sampling",
    "seed",
    "known",
    "members",
    "prior",
}


def state_to_arrays(state: AgentState) -> tuple[dict[str, Json], Arrays]:
    """Return the state of an agent as JSON and named arrays."""
    asked, waiting = state.questions.open, state.questions.waiting

    def named(*more: Json) -> tuple[Json, ...]:
        """What logs of the first form do not have: their states keep their form."""
        return () if state.settings.legacy else more

    def lived(example: Example) -> tuple[Json, ...]:
        """What answers have since the third form."""
        first = state.limits_state.first.get(example.id)
        return (example.scope, example.until, first) if state.settings.lives else ()

    meta: dict[str, Json] = {
        "settings": state.settings.to_json(),
        "arms": [arm.to_json() for arm in state.arms],
        "limits": state.limits_state.kind,
        "sigma": getattr(state.policy, "sigma", None),
        "rules": [cast("Json", rule.to_json()) for rule in state.rules.values()],
        "counts": [getattr(state, name) for name in _COUNTS],
        "question_counts": [getattr(state.questions, name) for name in _QUESTION_COUNTS],
        "pending": list(state.pending),
        "questions": [[id, one.decision, one.since, *named(one.item)] for id, one in asked.items()],
        "waiting": [
            [
                id,
                w.among if w.among is None else list(w.among),
                w.looks,
                w.question,
                w.asks,
                w.propensity,
                *named(w.item, list(w.allowed)),
                *(() if w.visitors is None else ([arm.to_json() for arm in w.visitors],)),
            ]
            for id, w in waiting.items()
        ],
        "examples": [
            [e.id, e.by, e.note, *named(e.item), *lived(e)] for e in state.examples.values()
        ],
        "certificate": None if state.certificate is None else state.certificate.to_json(),
        "wait": [state.wait, state.default_reward],
    }
    if not state.settings.legacy:
        meta["costs"] = [
            [_case_to_json(case), [[unit, cost] for unit, cost in here.items()]]
            for case, here in state.costs.items()
        ]
        meta["lessons"] = [[unit, cost] for unit, cost in state.lessons.items()]
    if state.settings.lives:
        meta |= _checks_to_state(state)
    if state.outdated:
        meta["outdated"] = [id for id in state.examples if id in state.outdated]
    if state.status.any():
        meta["status"] = state.status.tolist()
    if type(state.policy) is not type(state.settings.policy) or state.policy != _dialled(
        state.settings.policy, meta["sigma"]
    ):
        meta["policy"] = cast("Json", policy_to_json(state.policy))
    teachers = state.teachers.to_state() if state.settings.teachers else {}
    width = state.settings.features.width
    examples = state.examples.values()
    arrays = {
        **{f"reward.{name}": array for name, array in state.reward_model.to_state().items()},
        **{f"limits.{n}": array for n, array in state.limits_state.limits.to_state().items()},
        **{f"teachers.{name}": array for name, array in teachers.items()},
        "totals": state.totals.copy(),
        "pending.contexts": _rows((raw for raw, _ in state.pending.values()), width),
        "pending.arms": np.array([k for _, k in state.pending.values()], np.int64),
        "questions.contexts": _rows((one.context for one in asked.values()), width),
        "questions.arms": np.array([one.arm for one in asked.values()], np.int64),
        "waiting.contexts": _rows((one.context for one in waiting.values()), width),
        "waiting.arms": np.array([one.settled for one in waiting.values()], np.int64),
        "examples.contexts": _rows((e.context for e in examples), width),
        "examples.arms": np.array([e.arm for e in examples], np.int64),
        "examples.allowed": np.array([e.allowed for e in examples], np.bool_),
    }
    return meta, arrays


def state_from_arrays(meta: Mapping[str, Any], arrays: Arrays) -> AgentState:
    """Return what `state_to_arrays` wrote, or raise `CorruptState`."""
    try:
        return _state(meta, arrays)
    except (CorruptState, NotRegistered):
        raise
    except DAMAGE as error:
        raise CorruptState(f"The file is whole, but it is no agent: {error!r}") from error


def _state(meta: Mapping[str, Any], arrays: Arrays) -> AgentState:
    others = {name for name in arrays if not name.startswith(PARTS)}
    if meta.keys() - _PRICED - _CHECKED - _SPARSE != _META or others != _ARRAYS:
        raise CorruptState("There is more, or less, in the file than an agent.")
    settings = Settings.from_json(meta["settings"])
    later = (set() if settings.legacy else _PRICED) | (_CHECKED if settings.lives else set())
    if (meta.keys() & (_PRICED | _CHECKED)) != later:
        raise CorruptState("The file is of another form than its settings.")
    arms = [Arm.from_json(arm) for arm in meta["arms"]]
    K, d = len(arms), settings.features.width
    ours = settings.reward == OUR_REWARD
    D = d + (settings.prior != "paper")
    arms = [arm.encoded(settings.arm_features) for arm in arms]
    # So that what follows is no larger than the file.
    if ours and (arrays["reward.A"].shape != (K, D, D) or arrays["reward.mu"].shape != (K, D)):
        raise CorruptState(f"The arrays are not those of {K} arms and {d} features.")
    state = AgentState(settings)
    state.add_arms(arms[len(settings.arms) :])
    if state.arm_ids != tuple(arm.id for arm in arms):
        raise CorruptState("The arms are not those of the settings.")
    if settings.arm_features is not None:
        state.arm_rows = rows_of(arms, settings.arm_features.width)
    if "policy" in meta:
        changed_policy = event_from_json(
            {"event": "PolicyChanged", "policy": meta["policy"], **_BARE}
        )
        state.fold(changed_policy)
    elif meta["sigma"] is not None:
        state.fold(SigmaChanged(meta["sigma"]))
    changed = WaitChanged(*meta["wait"])
    check_event(changed)
    state.fold(changed)
    rewards = _under("reward.", arrays)
    if ours:
        _read_arms(state, rewards)
    elif settings.reward == OUR_SHARED:
        _read_shared(state, rewards)
    else:
        name, version = settings.reward, settings.reward_version
        state.reward_model = model_from_state(name, version, rewards, arms=K, features=d)
    state.totals = _checked(arrays, "totals", "f", (2,)).copy()
    if not (np.isfinite(state.totals) & (state.totals > 0)).all():
        raise CorruptState("The arrays do not fit the settings.")
    _read_counts(state, meta["counts"], _COUNTS)
    _read_counts(state.questions, meta["question_counts"], _QUESTION_COUNTS)
    most = settings.max_pending
    state.pending = _rows_of(meta["pending"], arrays, "pending", K, d, state.decisions, most)
    _read_questions(state, meta, arrays, d)
    first = _read_examples(state, meta, arrays)
    _read_limits(state, arms, meta, arrays)
    if settings.lives:
        state.limits_state.first = first
        _read_checks(state, meta, d)
    _read_judged(state, meta.get("judged", []), _under("teachers.", arrays), d)
    if meta["certificate"] is not None:
        state.certificate = Certificate.from_json(meta["certificate"])
    if "status" in meta:
        _read_status(state, meta["status"])
    units = state.limits_state.accounts
    for case, here in meta.get("costs", ()):
        state.costs[_case_from_json(case, d)] = {
            _unit(unit, units): _cost(cost) for unit, cost in here
        }
    for unit, cost in meta.get("lessons", ()):
        state.lessons[_unit(unit, units)] = _cost(cost)
    return state


def _dialled(policy: Policy, sigma: Any) -> Policy:
    """Return the policy that an agent was created with, its dial as it stands now."""
    return policy if not hasattr(policy, "sigma") else with_sigma(policy, sigma)


def _read_arms(state: AgentState, arrays: Arrays) -> None:
    """Read the reward model whose arms learn alone, or raise `CorruptState`."""
    if state.scaled is None:
        state.reward_model = LinearArms.from_state(arrays)
        if state.reward_arms.ridge == state.settings.ridge:
            return
    else:
        state.reward_model = ScaledArms.from_state(arrays)
        state.set_policy(state.policy)  # in its units
        return
    raise CorruptState("The arrays do not fit the settings.")


def _read_shared(state: AgentState, arrays: Arrays) -> None:
    """Read the reward model that arms share, or raise `CorruptState`."""
    fresh, saved = state.shared, SharedArms.from_state(arrays)
    assert fresh is not None and state.arm_rows is not None
    shape = (saved.arms, saved.features, saved.arm_features)
    if shape != (fresh.arms, fresh.features, fresh.arm_features):
        raise CorruptState("The reward model is not one of these arms and features.")
    state.reward_model = saved


def _read_status(state: AgentState, status: Any) -> None:
    """Read which arms are retired, or only known from requests."""
    known = isinstance(status, list) and all(type(one) is int and 0 <= one <= 2 for one in status)
    if not known or len(status) != len(state.arms):
        raise CorruptState(f"No arms have the status {status!r:.100}.")
    state.set_status(np.array(status, np.int8))


def _read_examples(
    state: AgentState, meta: Mapping[str, Any], arrays: Arrays
) -> dict[ItemId, bool]:
    """Read the examples; return of those that were the first of their pair what was safe then."""
    settings = state.settings
    K, d = len(state.arms), settings.features.width
    ids = [entry[0] for entry in meta["examples"]]
    rows = _rows_of(ids, arrays, "examples", K, d, state.taught, settings.max_examples)
    allowed = _checked(arrays, "examples.allowed", "b", (len(ids),)).tolist()
    first: dict[ItemId, bool] = {}
    outdated = meta.get("outdated", [])
    if not isinstance(outdated, list) or not {*map(plain_id, outdated)} <= {*ids}:
        raise CorruptState(f"No examples are {outdated!r:.100}.")
    state.outdated = set(outdated)
    for entry, (raw, k), answer in zip(meta["examples"], rows.values(), allowed, strict=True):
        id, by, note, *rest = entry
        life: Any = rest[1:] if settings.lives else ("all", None, None)
        scope, until, safe = life
        item = _item(rest[:1] if settings.lives else rest, state)
        if id in state.outdated and not answer:
            raise CorruptState(f"The denial {id!r:.100} cannot be outdated.")
        check_event(Taught(id, (), 0, answer, None, by, note, None, item, None, scope, until))
        state.remember(Example(id, raw, k, answer, by, note, item, scope, until))
        if safe is not None:
            first[id] = _truth(safe)
    return first


def _read_limits(
    state: AgentState, arms: Sequence[Arm], meta: Mapping[str, Any], arrays: Arrays
) -> None:
    """Read the rules and the limits of these arms, in the groups that they have by now."""
    settings = state.settings
    state.regroup(arms, meta["limits"], [Rule.from_json(rule) for rule in meta["rules"]])
    saved = _under("limits.", arrays)
    if state.limits_state.pairs is not None:
        _read_pairs(state, state.limits_state.pairs, saved)
        return
    for name, array in state.limits_state.limits.to_state().items():  # untaught as yet
        if name.rpartition("/")[2] in _SETTLED and not _equal(array, saved[name]):
            raise CorruptState(f"The limits do not fit the settings: '{name}' is another.")
    kind = state.limits_state.kind
    if kind == "auto" and not settings.legacy:
        kind = "mixture"
    version = settings.limits_version if kind == settings.limits else ""
    limits = limits_from_state(kind, saved, version)
    if (
        not np.array_equal(limits.unit_of, state.limits_state.unit_of)
        or limits.features != settings.features.width
    ):
        raise CorruptState("The limits do not fit the arms and features.")
    state.limits_state.take(limits, state.examples.values())


def _read_pairs(state: AgentState, fresh: PairLimits, saved: Arrays) -> None:
    """Read limits over pairs, or raise `CorruptState` where they are of another agent."""
    limits = PairLimits.from_state(saved)
    for name in ("settings", "kind_of"):
        mine, its = fresh.to_state()[name], limits.to_state()[name]
        if name == "settings" and not np.array_equal(mine, its):
            raise CorruptState("The limits do not fit the settings.")
        if mine.shape != its.shape:
            raise CorruptState("The limits do not fit the arms and features.")
    state.limits_state.take(limits, state.examples.values())


def _checks_to_state(state: AgentState) -> dict[str, Json]:
    """Return checks, what they found, and the promise, as JSON."""
    checks, rates, drift = state.checks, state.limits_state.rates, state.limits_state.drift
    tested = None if drift is None else {n: a.tolist() for n, a in drift.to_state().items()}
    return {
        "checks": [
            [id, one.arm, np.frombuffer(one.context).tolist(), one.item, one.coin]
            for id, one in checks.open.items()
        ],
        "check_counts": [checks.drawn, checks.judged, checks.found, state.contradictions],
        "rates": None
        if rates is None
        else {name: array.tolist() for name, array in rates.to_state().items()},
        "drift": cast("Json", tested),
        "promise": None
        if state.promise is None or state.purse is None
        else [event_to_json(state.promise), state.purse.to_state()],
        "judged": [
            [
                one.arm,
                np.frombuffer(one.context).tolist(),
                one.item,
                one.scope,
                one.until,
                list(one.checks),
            ]
            for one in state.judged.values()
        ],
    }


def _read_checks(state: AgentState, meta: Mapping[str, Any], d: int) -> None:
    """Read what `_checks_to_state` wrote."""
    counts = meta["check_counts"]
    names = ("drawn", "judged", "found")
    _read_counts(state.checks, counts[:3], names)
    (state.contradictions,) = counts[3:]
    if type(state.contradictions) is not int or state.contradictions < 0:
        raise CorruptState("The checks are counted as they cannot be.")
    if len(meta["checks"]) > state.settings.max_pending:
        raise CorruptState("There are more checks than may wait.")
    for id, arm, context, item, coin in meta["checks"]:
        raw = _case_from_json(context, d)
        check_event(Decided(id, (), 0, 1, item=item, coin=coin, checked=True))
        if not isinstance(raw, bytes) or coin is None or id in state.checks.open:
            raise CorruptState(f"The check of decision {id!r:.100} is none.")
        state.checks.open[id] = OpenCheck(raw, _unit(arm, len(state.arms)), item, coin)
    limits_state = state.limits_state
    if (meta["rates"] is None) != (limits_state.rates is None) or (meta["drift"] is None) != (
        limits_state.drift is None
    ):
        raise CorruptState("The file is of another form than its settings.")
    if meta["rates"] is not None:
        rates = {name: np.array(counts, np.int64) for name, counts in meta["rates"].items()}
        limits_state.take_rates(rates)
        units = limits_state.limits.units if limits_state.pairs is None else 1
        if limits_state.rates is None or limits_state.rates.units != units:
            raise CorruptState("The rates of exceptions are of other limits.")
    if meta["drift"] is not None:
        kinds = {"counts": np.int64}
        limits_state.drift = SurpriseTest.from_state(
            {n: np.array(a, kinds.get(n, np.float64)) for n, a in meta["drift"].items()}
        )
    if meta["promise"] is not None:
        event, purse = meta["promise"]
        promise = event_from_json(event)
        if not isinstance(promise, Promised):
            raise CorruptState("The promise is none.")
        state.promise, state.purse = promise, Purse.from_state(purse)


def _read_judged(state: AgentState, judged: Any, arrays: Arrays, d: int) -> None:
    """Read what declared teachers said, and of what."""
    settings = state.settings
    if not settings.teachers:
        if judged or arrays:
            raise CorruptState("Nobody is declared who could have judged a case.")
        return
    teachers = Teachers.from_state(arrays)
    fresh = state.teachers
    if (teachers.teachers, teachers.doubt, teachers.trust) != (
        settings.teachers,
        fresh.doubt,
        fresh.trust,
    ):
        raise CorruptState("The teachers are not those of the settings.")
    for arm, context, item, scope, until, checks in judged:
        raw, k = _case_from_json(context, d), _unit(arm, len(state.arms))
        about = tuple(checks)
        name = settings.teachers[0].name
        check_event(Judged((), 0, True, name, 0.5, None, None, item, scope, until))
        for id in about:
            check_event(Lapsed(id))
        if not isinstance(raw, bytes) or (scope == "item" and item is None):
            raise CorruptState("A case that was judged is none of this agent.")
        key = state.case_key(raw, item, k)
        if key in state.judged or not teachers.said(*key):
            raise CorruptState("A case stands twice, or nobody judged it.")
        state.judged[key] = JudgedCase(raw, k, item, scope, until, about)
    if len(state.judged) != len(teachers):
        raise CorruptState("There are judgements of cases that are not known.")
    state.teachers = teachers


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CorruptState(f"True or False was expected, not {value!r:.100}.")
    return value


def _case_to_json(case: Case) -> Json:
    """Return a case as JSON: an item by its name, a context as a list of its numbers."""
    return np.frombuffer(case).tolist() if isinstance(case, bytes) else case


def _case_from_json(case: Any, d: int) -> Case:
    if isinstance(case, list):
        row = np.array(case, np.float64) + 0.0
        if row.shape != (d,) or not (np.abs(row) <= MAX_MAGNITUDE).all():
            raise CorruptState("A context whose costs are kept is none of this agent.")
        return row.tobytes()
    return arm_id(case, "Agent")


def _unit(unit: Any, units: int) -> int:
    if type(unit) is not int or not 0 <= unit < units:
        raise CorruptState(f"There is no unit {unit!r:.100}.")
    return unit


def _cost(cost: Any) -> float:
    if type(cost) is not float or not 0.0 < cost < math.inf:
        raise CorruptState(f"No cost is {cost!r:.100}.")
    return cost


def _item(rest: list[Any], state: AgentState) -> ArmId | None:
    """Return the item of an entry of the state; entries of the first form have none."""
    if len(rest) != (not state.settings.legacy):
        raise CorruptState("The file is of another form than its settings.")
    return None if not rest or rest[0] is None else arm_id(rest[0], "Agent")


def _equal(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Whether two arrays hold the same; the order of what is known does not matter."""
    if one.ndim == 2:
        one, other = np.sort(one, axis=0), np.sort(other, axis=0)
    return (
        one.shape == other.shape
        and one.dtype.kind == other.dtype.kind
        and bool(
            (
                (one == other) | ((one != one) & (other != other))
            ).all()  # NaN: a feature that is no term
        )
    )


def _read_counts(into: object, counts: Any, names: Sequence[str]) -> None:
    for name, value in zip(names, counts, strict=True):
        if type(value) is not int or not (name == "version") <= value <= 2**53:
            raise CorruptState(f"'{name}' must be a whole number. Got {value!r:.100} instead.")
        setattr(into, name, value)


def _read_questions(state: AgentState, meta: Mapping[str, Any], arrays: Arrays, d: int) -> None:
    K, most = len(state.arms), state.settings.max_pending
    ids = [entry[0] for entry in meta["questions"]]
    rows = _rows_of(ids, arrays, "questions", K, d, state.questions.asked, most)
    for entry, (raw, k) in zip(meta["questions"], rows.values(), strict=True):
        id, decision, since, *rest = entry
        if decision is not None:
            check_event(Lapsed(decision))
        if type(since) is not int or not 0 <= since <= state.decisions:
            raise CorruptState(f"Question {id!r:.100} is of a time {since!r:.100}.")
        state.questions.restore(id, Open(raw, k, decision, since, _item(rest, state)))
    ids = [entry[0] for entry in meta["waiting"]]
    rows = _rows_of(ids, arrays, "waiting", K, d, state.decisions, most, lowest=-1)
    for entry, (raw, settled) in zip(meta["waiting"], rows.values(), strict=True):
        id, among, looks, question, asks, propensity, *rest = entry
        item: ArmId | None = None
        here: tuple[int, ...] = ()
        visitors: tuple[Arm, ...] | None = None
        if state.settings.arm_features is not None and len(rest) == 3:
            schema = state.settings.arm_features
            visitors = tuple(Arm.from_json(arm).encoded(schema) for arm in rest.pop())
        if not state.settings.legacy:
            here = tuple(_unit(k, K) for k in rest.pop())
            item = _item(rest, state)
        elif rest:
            raise CorruptState("The file is of another form than its settings.")
        given = None if among is None else tuple(among)
        check_event(Decided(id, (), 0, 1, given, propensity, None, asks))
        if type(looks) is not int or looks < 0:
            raise CorruptState(f"The decision {id!r:.100} has {looks!r:.100} answers.")
        if question is not None and state.questions.get(question).decision != id:
            raise CorruptState(f"The decision {id!r:.100} waits for a question of another.")
        waits = Waiting(
            raw, given, looks, question, settled, asks, propensity, item, here, visitors
        )
        state.questions.waiting[id] = waits


def write_state(path: str | os.PathLike[str], meta: Mapping[str, Json], arrays: Arrays) -> None:
    """Write an agent to a file, whole or not at all. Equal states give equal bytes."""
    write_file(path, pack(FORM, meta, arrays))


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Read what `write_state` wrote, or raise `CorruptState` (or OSError, if there is no file)."""
    return read_file(path, FORM, "agent")


def _rows(contexts: Iterable[bytes], width: int) -> npt.NDArray[Any]:
    return np.frombuffer(b"".join(contexts)).reshape(-1, width)


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def _checked(arrays: Arrays, name: str, kind: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    array = arrays[name]
    if array.dtype.kind != kind or array.shape != shape:
        raise CorruptState(f"'{name}' is {array.dtype} of shape {array.shape}, not of {shape}.")
    return array


def _rows_of(
    ids: list[ItemId],
    arrays: Arrays,
    name: str,
    K: int,
    d: int,
    so_far: int,
    most: int,
    lowest: int = 0,
) -> dict[ItemId, tuple[bytes, int]]:
    n = len(ids)
    contexts = _checked(arrays, f"{name}.contexts", "f", (n, d))
    arms = _checked(arrays, f"{name}.arms", "i", (n,))
    for id in ids:
        check_event(Retracted(id))
    numbers = [id for id in ids if isinstance(id, int)]
    if n > most or len(set(ids)) != n or max(numbers, default=0) > so_far:
        raise CorruptState(f"'{name}' has ids that do not fit.")
    if ((arms < lowest) | (arms >= K)).any() or not (np.abs(contexts) <= MAX_MAGNITUDE).all():
        raise CorruptState(f"'{name}' has arms or contexts that do not fit.")
    rows = (row.tobytes() for row in contexts + 0.0)
    return dict(zip(ids, zip(rows, arms.tolist(), strict=True), strict=True))
