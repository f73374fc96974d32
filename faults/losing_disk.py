"""A disk in memory that forgets, as SQLite's file system, written with apsw.

What was written and not synced is kept apart. When the power goes, any part of it may be on the
disk and any part may not: whole writes are dropped, in any order, and others are torn. A file that
was made or removed and not synced may be there or not.

It can also fail as a disk does that is broken or full.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import apsw

SECTOR = 512
# What SQLite's own file system says of a disk: a torn write harms only what it was to write.
_POWERSAFE = apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE
_LOGS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL
_names = itertools.count(1)


class PowerCut(apsw.IOError):
    """The power went, here or before."""


class _Inode:
    """A file: what is on the disk for sure, what a reader sees, and the changes between them."""

    def __init__(self, content: bytes = b"") -> None:
        self.durable = bytearray(content)
        self.visible = bytearray(content)
        self.pending: list[tuple[int, bytes | None]] = []  # None: cut to so many bytes

    def sync(self) -> None:
        self.durable[:] = self.visible
        self.pending.clear()

    def change(self, offset: int, data: bytes | None) -> None:
        self.pending.append((offset, data))
        _apply(self.visible, offset, data)

    def after_cut(self, rng: random.Random) -> bytes:
        """Give what may be found after the power went."""
        content = bytearray(self.durable)
        how = rng.choice(["nothing", "prefix", "any", "any", "sectors"])
        count = rng.randint(0, len(self.pending))
        for number, (offset, data) in enumerate(self.pending):
            if how == "nothing" or (how == "prefix" and number > count):
                break
            if how == "prefix" and number < count:
                _apply(content, offset, data)
            elif how != "prefix" and rng.random() < 0.5:
                continue
            elif how == "any" and rng.random() < 0.8:
                _apply(content, offset, data)
            elif data is not None:
                _tear(content, offset, data, rng)
        return bytes(content)


class LosingDisk(apsw.VFS):
    """A file system whose power is cut after some operations, or whose operations fail.

    Attributes
    ----------
    operations : int
        How many writes, syncs, truncations and removals there were.
    cut_at : int or None
        At which of them the power goes.
    broken : callable
        Says of an operation ("write", "sync", "truncate", "delete") and a file's name which error
        to raise, if any.
    """

    def __init__(self) -> None:
        self.name = f"losing{next(_names)}"
        self.operations = 0
        self.cut_at: int | None = None
        self.dark = False
        self.broken: Callable[[str, str], type[Exception] | None] = lambda operation, file: None
        self._life = 0
        self._visible: dict[str, _Inode] = {}
        self._durable: dict[str, _Inode] = {}
        super().__init__(self.name, "")

    def power_on(self, rng: random.Random) -> None:
        """Go on with what is left; files that were open then are of no use any more."""
        found: dict[str, _Inode] = {}
        for name in sorted(self._visible.keys() | self._durable.keys()):
            inode = rng.choice([self._visible.get(name), self._durable.get(name)])
            if inode is not None:
                found[name] = _Inode(inode.after_cut(rng))
        self._visible, self._durable = found, dict(found)
        self._life += 1
        self.dark, self.cut_at = False, None

    def check(self, operation: str, file: str, life: int) -> None:
        """Count an operation, and raise what is to go wrong with it."""
        if life != self._life or self.dark:
            raise PowerCut("the power is off")
        self.operations += 1
        error = self.broken(operation, file)
        if error is not None:
            raise error(f"the {operation} failed")

    def goes_now(self) -> bool:
        """Say whether the power goes at this operation."""
        if self.cut_at is not None and self.operations >= self.cut_at:
            self.dark = True
        return self.dark

    # -- what SQLite calls -------------------------------------------------------------------

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> apsw.VFSFile:  # noqa: D102, N802
        if self.dark:
            raise PowerCut("the power is off")
        text = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        flags[1] = flags[0]
        if name is None:
            return _File(self, text, _Inode(), self._life, 0)
        new = text not in self._visible
        inode = self._visible.setdefault(text, _Inode())
        if new and flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            self._durable[text] = inode  # the store makes that file, and syncs its folder
        return _File(self, text, inode, self._life, flags[0])

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: D102, N802
        self.check("delete", filename, self._life)
        self._visible.pop(filename, None)
        if self.goes_now():
            raise PowerCut("the power went")
        if syncdir:
            self._durable.pop(filename, None)

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: D102, N802
        return pathname in self._visible

    def xFullPathname(self, name: str) -> str:  # noqa: D102, N802
        return name

    def sync_folder(self) -> None:
        """Make all names durable, and all removals; what is in the files is another matter."""
        self._durable = dict(self._visible)


class _File(apsw.VFSFile):
    def __init__(self, disk: LosingDisk, name: str, inode: _Inode, life: int, flags: int) -> None:
        self._disk, self._name, self._inode, self._life = disk, name, inode, life
        # As SQLite's own file system does it: with the first sync of a log, its folder is synced.
        self._folder_too = bool(flags & apsw.SQLITE_OPEN_CREATE) and bool(flags & _LOGS)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        if self._disk.dark or self._life != self._disk._life:
            raise PowerCut("the power is off")
        return bytes(self._inode.visible[offset : offset + amount])

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802
        self._disk.check("write", self._name, self._life)
        self._inode.change(offset, bytes(data))
        if self._disk.goes_now():
            raise PowerCut("the power went")

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._disk.check("truncate", self._name, self._life)
        self._inode.change(newsize, None)
        if self._disk.goes_now():
            raise PowerCut("the power went")

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.check("sync", self._name, self._life)
        if self._disk.goes_now():
            raise PowerCut("the power went")
        self._inode.sync()
        if self._folder_too:
            self._disk.sync_folder()
            self._folder_too = False

    def xFileSize(self) -> int:  # noqa: N802
        return len(self._inode.visible)

    def xClose(self) -> None:  # noqa: N802
        pass

    def xLock(self, level: int) -> None:  # noqa: N802
        pass

    def xUnlock(self, level: int) -> None:  # noqa: N802
        pass

    def xCheckReservedLock(self) -> bool:  # noqa: N802
        return False

    def xFileControl(self, op: int, ptr: int) -> bool:  # noqa: N802
        return False

    def xSectorSize(self) -> int:  # noqa: N802
        return SECTOR

    def xDeviceCharacteristics(self) -> int:  # noqa: N802
        return _POWERSAFE


@contextlib.contextmanager
def expected_failures() -> Iterator[None]:
    """Let nobody report what such disks raise where there is nobody to raise it to.

    SQLite closes files of its own accord when the last who holds a connection forgets it.
    """
    before = sys.unraisablehook

    def report(failed: sys.UnraisableHookArgs) -> None:
        if not isinstance(failed.exc_value, apsw.Error):
            before(failed)

    sys.unraisablehook = report
    try:
        yield
        gc.collect()
    finally:
        sys.unraisablehook = before


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _tear(content: bytearray, offset: int, data: bytes, rng: random.Random) -> None:
    """Write a part: a beginning of any length, or any of its sectors."""
    if rng.random() < 0.5:
        _apply(content, offset, data[: rng.randint(0, len(data))])
        return
    for start in range(0, len(data), SECTOR):
        if rng.random() < 0.5:
            _apply(content, offset + start, data[start : start + SECTOR])
