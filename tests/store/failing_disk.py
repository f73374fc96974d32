"""A file system, written with apsw, whose disk fails when it is told to."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import apsw

_names = itertools.count(1)


class FailingDisk(apsw.VFS):
    """The real disk, but for what `broken` says of an operation ("write" or "sync") and a file."""

    def __init__(self) -> None:
        self.name = f"failing{next(_names)}"
        self.broken: Callable[[str, str], type[Exception] | None] = lambda operation, file: None
        super().__init__(self.name, "")

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(
        self, disk: FailingDisk, name: apsw.URIFilename | str | None, flags: list[int]
    ) -> None:
        self._disk = disk
        self._name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._fail("write")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._fail("sync")
        super().xSync(flags)

    def _fail(self, operation: str) -> None:
        error = self._disk.broken(operation, self._name)
        if error is not None:
            raise error
