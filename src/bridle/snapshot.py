"""An agent in a file: named arrays and JSON, no pickle.

The file is a zip of .npy arrays (what numpy calls .npz) and `meta.json`. Sizes and types are
checked before anything is allocated, and a sha256 over all of it shows a damaged file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bridle.arms import LinearArms
from bridle.errors import BridleError, CorruptState
from bridle.events import SigmaChanged
from bridle.knowledge import Example, Knowledge
from bridle.limits import LinearLimits
from bridle.rules import Rule
from bridle.settings import Arm, ItemId, Json, Settings

__all__ = ["knowledge_from_state", "knowledge_to_state", "read_state", "write_state"]

FORMAT = "bridle agent 1"
MAX_BYTES = 64 * 2**30
MAX_META = 2**31
DTYPES = ("<f8", "<i8", "|b1")

Arrays = dict[str, npt.NDArray[Any]]


def knowledge_to_state(know: Knowledge) -> tuple[dict[str, Json], Arrays]:
    """Give all that an agent knows as JSON and named arrays."""
    meta: dict[str, Json] = {
        "settings": know.settings.to_json(),
        "added_arms": [arm.to_json() for arm in know.arms[len(know.settings.arms) :]],
        "sigma": getattr(know.policy, "sigma", None),
        "rules": [cast("Json", rule.to_json()) for rule in know.rules.values()],
        "version": know.version,
        "decisions": know.decisions,
        "questions": know.questions,
        "taught": know.taught,
        "dropped": know.dropped,
        "pending": list(know.pending),
        "asked": list(know.asked),
        "examples": [[e.id, e.by, e.note] for e in know.examples.values()],
    }
    width = know.settings.features.width
    examples = know.examples.values()
    arrays = {
        **{f"reward.{name}": array for name, array in know.reward_arms.to_state().items()},
        **{f"limits.{name}": array for name, array in know.limits.to_state().items()},
        "pending.contexts": _rows((raw for raw, _ in know.pending.values()), width),
        "pending.arms": np.array([k for _, k in know.pending.values()], np.int64),
        "asked.contexts": _rows((raw for raw, _ in know.asked.values()), width),
        "asked.arms": np.array([k for _, k in know.asked.values()], np.int64),
        "examples.contexts": _rows((e.context for e in examples), width),
        "examples.arms": np.array([e.arm for e in examples], np.int64),
        "examples.allowed": np.array([e.allowed for e in examples], np.bool_),
    }
    return meta, arrays


def knowledge_from_state(meta: Mapping[str, Any], arrays: Arrays) -> Knowledge:
    """Give back what `knowledge_to_state` wrote, or raise `CorruptState`."""
    try:
        return _knowledge(meta, arrays)
    except CorruptState:
        raise
    except (BridleError, KeyError, TypeError, ValueError, IndexError) as error:
        raise CorruptState(f"The file is whole, but it is no agent: {error!r}") from error


def _knowledge(meta: Mapping[str, Any], arrays: Arrays) -> Knowledge:
    know = Knowledge(Settings.from_json(meta["settings"]))
    if meta["added_arms"]:
        know.add_arms(tuple(Arm(**arm) for arm in meta["added_arms"]))
    if meta["sigma"] is not None:
        know.fold(SigmaChanged(meta["sigma"]))
    know.set_rules([Rule.from_json(rule) for rule in meta["rules"]])
    know.reward_arms = LinearArms.from_state(_under("reward.", arrays))
    know.limits = LinearLimits.from_state(_under("limits.", arrays))
    shape = (len(know.arms), know.settings.features.width)
    for part in (know.reward_arms, know.limits):
        if (part.arms, part.features) != shape:
            raise CorruptState(f"Arms and features must be {shape}.")
    know.pending = _waiting(meta["pending"], arrays, "pending", shape)
    know.asked = _waiting(meta["asked"], arrays, "asked", shape)
    rows = _waiting([id for id, _, _ in meta["examples"]], arrays, "examples", shape)
    answers = arrays["examples.allowed"].tolist()
    for (id, by, note), (raw, k), allowed in zip(
        meta["examples"], rows.values(), answers, strict=True
    ):
        know.remember(Example(id, raw, k, allowed, by, note))
    for name in ("version", "decisions", "questions", "taught", "dropped"):
        if type(meta[name]) is not int or meta[name] < 0:
            raise CorruptState(f"'{name}' must be a whole number. Got {meta[name]!r} instead.")
        setattr(know, name, meta[name])
    return know


def write_state(path: str | os.PathLike[str], meta: Mapping[str, Json], arrays: Arrays) -> None:
    """Write JSON and arrays to `path`, whole or not at all."""
    target = Path(path)
    blobs = {f"{name}.npy": _npy(array) for name, array in sorted(arrays.items())}
    text = json.dumps({"format": FORMAT, "sha256": _digest(blobs, meta), "meta": meta})
    handle, scratch = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr("meta.json", text)
                for name, blob in blobs.items():
                    archive.writestr(name, blob)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Read what `write_state` wrote, or raise `CorruptState` (or OSError, if there is no file)."""
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
            stored = all(e.compress_type == zipfile.ZIP_STORED for e in archive.infolist())
            if not stored or sum(sizes.values()) > MAX_BYTES or "meta.json" not in sizes:
                raise CorruptState(f"{path} is no agent saved by bridle.")
            if sizes.pop("meta.json") > MAX_META:
                raise CorruptState(f"{path}: its JSON is larger than any agent's.")
            head = json.loads(archive.read("meta.json"))
            if not isinstance(head, dict) or head.get("format") != FORMAT:
                raise CorruptState(f"{path} is not of the form {FORMAT!r}.")
            blobs = {name: archive.read(name) for name in sizes}
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise CorruptState(f"{path} is damaged: {error}") from error
    if head.get("sha256") != _digest(blobs, head["meta"]):
        raise CorruptState(f"{path} is damaged: its sha256 does not fit what it holds.")
    return head["meta"], {name.removesuffix(".npy"): _array(blobs[name], name) for name in blobs}


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
    buffer = io.BytesIO(blob)
    try:
        if np.lib.format.read_magic(buffer) != (1, 0):
            raise CorruptState(f"{name}: not a version of .npy that bridle writes.")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(buffer)
        expected = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if fortran or dtype.str not in DTYPES or expected != len(blob) - buffer.tell():
            raise CorruptState(f"{name}: {dtype} of shape {shape} does not fit {len(blob)} bytes.")
        flat = np.frombuffer(blob, dtype, offset=buffer.tell())
    except ValueError as error:
        raise CorruptState(f"{name} is damaged: {error}") from error
    return flat.reshape(shape).astype(dtype.newbyteorder("="))


def _rows(contexts: Iterable[bytes], width: int) -> npt.NDArray[Any]:
    return np.frombuffer(b"".join(contexts)).reshape(-1, width)


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def _waiting(
    ids: list[ItemId], arrays: Arrays, name: str, shape: tuple[int, int]
) -> dict[ItemId, tuple[bytes, int]]:
    contexts, arms = arrays[f"{name}.contexts"], arrays[f"{name}.arms"]
    good = contexts.shape == (len(ids), shape[1]) and arms.shape == (len(ids),)
    if not good or len(set(ids)) != len(ids) or ((arms < 0) | (arms >= shape[0])).any():
        raise CorruptState(f"'{name}' does not fit together.")
    rows = (row.tobytes() for row in np.ascontiguousarray(contexts, np.float64))
    return dict(zip(ids, zip(rows, arms.tolist(), strict=True), strict=True))
