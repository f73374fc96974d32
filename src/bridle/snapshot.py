"""An agent in a file: named arrays and JSON, no pickle.

The file is a zip of .npy arrays (what numpy calls .npz) and `meta.json`. Sizes and types are
checked before anything is allocated: what is read never takes more memory than some times the
file's own size. A sha256 over all of it shows a damaged file.
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
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from bridle.arms import LinearArms
from bridle.errors import BridleError, CorruptState
from bridle.events import Retracted, SigmaChanged, check_event
from bridle.knowledge import Example, Knowledge
from bridle.limits import LinearLimits
from bridle.rules import Rule
from bridle.settings import Arm, ItemId, Json, Settings
from bridle.validate import MAX_MAGNITUDE

__all__ = ["knowledge_from_state", "knowledge_to_state", "read_state", "write_state"]

FORMAT = "bridle agent 1"
META = "meta.json"
# The head of a .npy of version 1.0, as numpy writes it for these types.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<dtype><f8|<i8|\|b1)', 'fortran_order': False, "
    rb"'shape': \((?P<shape>[0-9]{0,15}(?:, ?[0-9]{0,15}){0,3})\), \} *\n",
    re.DOTALL,
)
_META = {
    "settings", "added_arms", "sigma", "rules", "version", "decisions", "questions", "taught",
    "dropped", "pending", "asked", "examples",
}  # fmt: skip
_ARRAYS = {
    f"{name}.{part}" for name in ("pending", "asked", "examples") for part in ("contexts", "arms")
}
_ARRAYS |= {"examples.allowed"}
# What the pieces raise when they are fed with something else.
_DAMAGE = (
    BridleError, AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError,
    RecursionError,
)  # fmt: skip

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
    except _DAMAGE as error:
        raise CorruptState(f"The file is whole, but it is no agent: {error!r}") from error


def _knowledge(meta: Mapping[str, Any], arrays: Arrays) -> Knowledge:
    others = {name for name in arrays if not name.startswith(("reward.", "limits."))}
    if meta.keys() != _META or others != _ARRAYS:
        raise CorruptState("There is more, or less, in the file than an agent.")
    settings = Settings.from_json(meta["settings"])
    added = tuple(Arm.from_json(arm) for arm in meta["added_arms"])
    K, d = len(settings.arms) + len(added), settings.features.width
    for part in ("reward", "limits"):  # so that what follows is no larger than the file
        if arrays[f"{part}.A"].shape != (K, d, d) or arrays[f"{part}.mu"].shape != (K, d):
            raise CorruptState(f"The arrays are not those of {K} arms and {d} features.")
    know = Knowledge(settings)
    know.add_arms(added)
    if meta["sigma"] is not None:
        know.fold(SigmaChanged(meta["sigma"]))
    know.set_rules([Rule.from_json(rule) for rule in meta["rules"]])
    reward_arms = LinearArms.from_state(_under("reward.", arrays))
    limits = LinearLimits.from_state(_under("limits.", arrays))
    for old, new in ((know.reward_arms, reward_arms), (know.limits.linear, limits.linear)):
        if new.ridge != old.ridge or limits.label_coding != settings.label_coding:
            raise CorruptState("The arrays do not fit the settings.")
    know.reward_arms, know.limits = reward_arms, limits
    for name in ("version", "decisions", "questions", "taught", "dropped"):
        if type(meta[name]) is not int or not (name == "version") <= meta[name] <= 2**53:
            raise CorruptState(f"'{name}' must be a whole number. Got {meta[name]!r:.100} instead.")
        setattr(know, name, meta[name])
    most = settings.max_pending
    know.pending = _waiting(meta["pending"], arrays, "pending", K, d, know.decisions, most)
    know.asked = _waiting(meta["asked"], arrays, "asked", K, d, know.questions, most)
    ids = [id for id, _, _ in meta["examples"]]
    rows = _waiting(ids, arrays, "examples", K, d, know.taught, settings.max_examples)
    allowed = _checked(arrays, "examples.allowed", "b", (len(ids),)).tolist()
    for (id, by, note), (raw, k), answer in zip(
        meta["examples"], rows.values(), allowed, strict=True
    ):
        check_event(Retracted(id, by, note))
        know.remember(Example(id, raw, k, answer, by, note))
    return know


def write_state(path: str | os.PathLike[str], meta: Mapping[str, Json], arrays: Arrays) -> None:
    """Write JSON and arrays to `path`, whole or not at all. Equal states give equal bytes."""
    target = Path(path)
    blobs = {f"{name}.npy": _npy(array) for name, array in sorted(arrays.items())}
    text = json.dumps({"format": FORMAT, "sha256": _digest(blobs, meta), "meta": meta})
    handle, scratch = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for name, blob in {META: text.encode(), **blobs}.items():
                    archive.writestr(zipfile.ZipInfo(name), blob)  # dated 1980: no clock
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Read what `write_state` wrote, or raise `CorruptState` (or OSError, if there is no file)."""
    with open(path, "rb") as file:
        try:
            meta, blobs = _read(file, os.fstat(file.fileno()).st_size)
            return meta, {name.removesuffix(".npy"): _array(blobs[name], name) for name in blobs}
        except CorruptState as error:
            raise CorruptState(f"{path} is no agent saved by bridle, or damaged: {error}") from None
        # What zipfile raises where its own tables are damaged.
        except (
            *_DAMAGE,
            zipfile.BadZipFile,
            OSError,
            EOFError,
            RuntimeError,
            struct.error,
        ) as error:
            raise CorruptState(f"{path} is damaged: {error!r}") from error


def _read(file: BinaryIO, length: int) -> tuple[dict[str, Any], dict[str, bytes]]:
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
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise CorruptState(f"It is not of the form {FORMAT!r}.")
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


def _rows(contexts: Iterable[bytes], width: int) -> npt.NDArray[Any]:
    return np.frombuffer(b"".join(contexts)).reshape(-1, width)


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def _checked(arrays: Arrays, name: str, kind: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    array = arrays[name]
    if array.dtype.kind != kind or array.shape != shape:
        raise CorruptState(f"'{name}' is {array.dtype} of shape {array.shape}, not of {shape}.")
    return array


def _waiting(
    ids: list[ItemId], arrays: Arrays, name: str, K: int, d: int, so_far: int, most: int
) -> dict[ItemId, tuple[bytes, int]]:
    n = len(ids)
    contexts = _checked(arrays, f"{name}.contexts", "f", (n, d))
    arms = _checked(arrays, f"{name}.arms", "i", (n,))
    for id in ids:
        check_event(Retracted(id))
    numbers = [id for id in ids if isinstance(id, int)]
    if n > most or len(set(ids)) != n or max(numbers, default=0) > so_far:
        raise CorruptState(f"'{name}' has ids that do not fit.")
    if ((arms < 0) | (arms >= K)).any() or not (np.abs(contexts) <= MAX_MAGNITUDE).all():
        raise CorruptState(f"'{name}' has arms or contexts that do not fit.")
    rows = (row.tobytes() for row in contexts + 0.0)
    return dict(zip(ids, zip(rows, arms.tolist(), strict=True), strict=True))
