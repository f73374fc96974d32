"""JSON and named arrays in one piece of bytes, or in a file. No pickle.

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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from bridle.errors import BridleError, CorruptState
from bridle.settings import Json

__all__ = ["DAMAGE", "Arrays", "pack", "read_file", "unpack", "write_file"]

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
    BridleError, AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError,
    RecursionError,
)  # fmt: skip

Arrays = dict[str, npt.NDArray[Any]]


def pack(form: str, meta: Mapping[str, Json], arrays: Arrays) -> bytes:
    """Give JSON and arrays as bytes. Equal states give equal bytes."""
    blobs = {f"{name}.npy": _npy(array) for name, array in sorted(arrays.items())}
    text = json.dumps({"format": form, "sha256": _digest(blobs, meta), "meta": meta})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, blob in {META: text.encode(), **blobs}.items():
            archive.writestr(zipfile.ZipInfo(name), blob)  # dated 1980: no clock
    return buffer.getvalue()


def unpack(blob: bytes, form: str) -> tuple[dict[str, Any], Arrays]:
    """Give back what `pack` was given, or raise `CorruptState`."""
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
