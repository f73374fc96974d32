"""Where the files of a MovieLens data set are: its layout is recognised from what is there.

GroupLens has published the same tables in three layouts over the years, and people keep them as
they came (a zip), unpacked, or both. `find` takes any of these and gives `Files`: a layout, and
a way to get at each of its files. Nothing is asked of the user that a name already says.
"""

from __future__ import annotations

import hashlib
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from bridle.errors import CorruptState, InvalidValue, NotPossible

__all__ = ["LAYOUTS", "Files", "Layout", "find"]

# A limit on everything from outside. The largest set, MovieLens 32M, has 0.9 GB of ratings.
MAX_RATINGS_BYTES = 4 * 2**30
MAX_TABLE_BYTES = 64 * 2**20
MAX_ENTRIES = 10_000
PIECE = 2**20

# What a damaged or unusual archive makes zipfile raise: a bad header or checksum, a bad stream, an
# end before the end, a method that Python cannot undo (or an encrypted member).
BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How one generation of MovieLens files is laid out.

    Attributes
    ----------
    name : str
        What we call it in messages.
    ratings, movies, users : str
        Names of the files; `users` may be "" (there are none) and may be missing in any layout.
    separator, movie_separator : str
        What stands between two fields.
    header : bool
        Whether the first line has the names of the columns.
    others : tuple of str
        Further files that come with these, by which people may point at the set.
    """

    name: str
    ratings: str
    movies: str
    users: str
    separator: str
    movie_separator: str
    header: bool
    others: tuple[str, ...] = ()

    @property
    def wanted(self) -> str:
        """The two files without which nothing can be read."""
        return f"{self.ratings} with {self.movies}"


LAYOUTS = (
    Layout(
        name="csv layout",
        ratings="ratings.csv",
        movies="movies.csv",
        users="",
        separator=",",
        movie_separator=",",
        header=True,
        others=("links.csv", "tags.csv", "genome-scores.csv", "genome-tags.csv"),
    ),
    Layout(
        name="dat layout",
        ratings="ratings.dat",
        movies="movies.dat",
        users="users.dat",
        separator="::",
        movie_separator="::",
        header=False,
        others=("tags.dat",),
    ),
    Layout(
        name="u.data layout",
        ratings="u.data",
        movies="u.item",
        users="u.user",
        separator="\t",
        movie_separator="|",
        header=False,
        others=("u.genre", "u.info", "u.occupation"),
    ),
)
WANTED = ", or ".join(layout.wanted for layout in LAYOUTS)


@dataclass(frozen=True, kw_only=True)
class Files:
    """The files of one data set, in a folder or in a zip.

    Attributes
    ----------
    layout : Layout
        How they are laid out.
    home : Path
        The folder, or the zip.
    inside : str or None
        Of a zip, the folder in it that holds them ("" at its top); of a folder, None.
    has_users : bool
        Whether the layout's table of users is there.
    """

    layout: Layout
    home: Path
    inside: str | None
    has_users: bool

    def __str__(self) -> str:
        return str(self.home / self.inside) if self.inside else str(self.home)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that may tell which data set it is, the nearest to the files first."""
        if self.inside is None:
            return (self.home.resolve().name,)
        return (PurePosixPath(self.inside).name, self.home.name)

    def label(self, name: str) -> str:
        """Return the name of a file as a message should call it."""
        return str(Path(str(self), name))

    def table(self, name: str) -> bytes:
        """Return the content of one of the small files."""
        with self._refusing(name):
            if self.inside is None:
                path = self.home / name
                _limited(self.label(name), path.stat().st_size, MAX_TABLE_BYTES)
                return path.read_bytes()
            with zipfile.ZipFile(self.home) as packed:
                info = packed.getinfo(f"{self.inside}{name}")
                _limited(self.label(name), info.file_size, MAX_TABLE_BYTES)
                return packed.read(info)

    @contextmanager
    def ratings(self) -> Iterator[Path]:
        """Return the path of the ratings; out of a zip, that of a copy that goes away later."""
        name = self.layout.ratings
        if self.inside is None:
            with self._refusing(name):
                _limited(self.label(name), (self.home / name).stat().st_size, MAX_RATINGS_BYTES)
            yield self.home / name
            return
        with TemporaryDirectory(prefix="bridle-") as folder:
            copy = Path(folder, name)
            # Through a file and in pieces: the ratings of MovieLens 20M are 533 MB. zipfile
            # checks the checksum of the member when it has read the last piece.
            with self._refusing(name), zipfile.ZipFile(self.home) as packed:
                info = packed.getinfo(f"{self.inside}{name}")
                _limited(self.label(name), info.file_size, MAX_RATINGS_BYTES)
                free = shutil.disk_usage(folder).free
                if free < info.file_size:
                    raise NotPossible(
                        f"Unpacking {self.label(name)} needs {info.file_size / 1e6:,.0f} MB in "
                        f"{folder}, which has {free / 1e6:,.0f} MB. Make room, or set TMPDIR."
                    )
                with packed.open(info) as member, copy.open("wb") as out:
                    shutil.copyfileobj(member, out, PIECE)
            yield copy

    def sums(self) -> dict[str, str]:
        """Return the sha256 of what is read: of the zip, or of each file."""
        if self.inside is not None:
            return {self.home.name: _sha256(self.home)}
        names = [self.layout.ratings, self.layout.movies]
        if self.has_users:
            names.append(self.layout.users)
        return {name: _sha256(self.home / name) for name in names}

    @contextmanager
    def _refusing(self, name: str) -> Iterator[None]:
        """Turn what goes wrong while a file is fetched into an error that names it."""
        try:
            yield
        except BROKEN_ZIP as error:
            if self.inside is None:
                raise NotPossible(f"{self.label(name)} cannot be read: {error}.") from error
            raise CorruptState(
                f"{name} in {self.home} cannot be unpacked: {error}. Fetch the zip again."
            ) from error


def find(path: str | Path, owner: str) -> Files:
    """Find the data set that `path` points at: a file of it, its zip, or a folder with either."""
    try:
        place = Path(path)
        is_folder, is_file = place.is_dir(), place.is_file()
    except (TypeError, ValueError, OSError):  # no path at all, or one with a NUL or too long
        raise InvalidValue("path", owner, "a path to MovieLens files", path) from None
    if is_folder:
        return _in_folder(place, owner)
    if not is_file:
        expected = "a path to MovieLens files (a file, a zip or a folder) that exists"
        raise InvalidValue("path", owner, expected, str(place))
    for layout in LAYOUTS:
        if place.name in (layout.ratings, layout.movies, layout.users, *layout.others):
            return _beside(place, layout, owner)
    if place.suffix.lower() == ".zip" or zipfile.is_zipfile(place):
        inside = _in_zip(place)
        if not inside:
            raise InvalidValue("path", owner, f"a zip with {WANTED}", str(place))
        return _the_one(inside, place, owner)
    expected = f"a zip, a folder, or a file with the name that MovieLens gave it ({WANTED})"
    raise InvalidValue("path", owner, expected, str(place))


def _beside(place: Path, layout: Layout, owner: str) -> Files:
    """Return the files of `layout` in the folder of the file `place`."""
    folder = place.parent
    missing = [n for n in (layout.ratings, layout.movies) if not (folder / n).is_file()]
    if missing:
        expected = f"a file with its companions: {layout.wanted}"
        raise InvalidValue(
            "path", owner, expected, str(place), f"{' and '.join(missing)} not in {folder}."
        )
    return _files_in(folder, layout)


def _files_in(folder: Path, layout: Layout) -> Files:
    has_users = bool(layout.users) and (folder / layout.users).is_file()
    return Files(layout=layout, home=folder, inside=None, has_users=has_users)


def _in_folder(folder: Path, owner: str) -> Files:
    """Search the folder and in the folders that it holds, for files and for zips."""
    found: list[Files] = []
    broken: list[CorruptState] = []
    partly: list[str] = []
    for place in (folder, *(entry for entry in _entries(folder) if entry.is_dir())):
        for layout in LAYOUTS:
            there = [n for n in (layout.ratings, layout.movies) if (place / n).is_file()]
            if len(there) == 2:
                found.append(_files_in(place, layout))
            elif there:
                partly.append(f"{place / there[0]} is there without its companion")
        for entry in _entries(place):
            if entry.suffix.lower() == ".zip" and entry.is_file():
                try:
                    found += _in_zip(entry)
                except CorruptState as error:
                    broken.append(error)
    if not found and broken:
        raise broken[0]
    if not found:
        expected = f"a folder that holds (itself, in a zip, or one folder down) {WANTED}"
        remedy = f"{'; '.join(partly[:3])}." if partly else ""
        raise InvalidValue("path", owner, expected, str(folder), remedy)
    return _the_one(found, folder, owner)


def _entries(folder: Path) -> list[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise NotPossible(f"{folder} cannot be looked into: {error}.") from error
    if len(entries) > MAX_ENTRIES:
        raise NotPossible(
            f"{folder} has {len(entries):,} entries, more than {MAX_ENTRIES:,}. Point at the "
            "MovieLens folder or zip itself."
        )
    return entries


def _in_zip(path: Path) -> list[Files]:
    """Return every data set that the zip holds."""
    try:
        with zipfile.ZipFile(path) as packed:
            names = set(packed.namelist())
    except BROKEN_ZIP as error:
        raise CorruptState(
            f"{path} is no zip, or was cut short: {error}. Fetch it again."
        ) from error
    found = []
    for layout in LAYOUTS:
        for name in sorted(names):
            if PurePosixPath(name).name != layout.ratings:
                continue
            inside = name.removesuffix(layout.ratings)
            if f"{inside}{layout.movies}" in names:
                has_users = bool(layout.users) and f"{inside}{layout.users}" in names
                found.append(Files(layout=layout, home=path, inside=inside, has_users=has_users))
    return found


def _the_one(found: list[Files], place: Path, owner: str) -> Files:
    if len(found) > 1:
        listed = ", ".join(f"{files} ({files.layout.ratings})" for files in found[:10])
        remedy = f"It holds {listed}. Point at the one that you want (out of a zip, unpack it)."
        raise InvalidValue("path", owner, "one data set", str(place), remedy)
    return found[0]


def _limited(label: str, size: int, most: int) -> None:
    if size > most:
        raise NotPossible(
            f"{label} has {size / 1e6:,.0f} MB; at most {most / 1e6:,.0f} MB are read. No "
            "MovieLens file is so large: is it the right one?"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
