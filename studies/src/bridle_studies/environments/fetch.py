"""Public data sets, downloaded once into the user's cache and checked each time.

A file gets its name in the cache only after it was verified: it comes into a temporary file beside
it, is checked (checksum, and every member of a zip) and then renamed. What is interrupted leaves
nothing that looks complete, and an old file stays until a new one is verified.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import re
import secrets
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import urljoin, urlsplit

from bridle.errors import CorruptState, InvalidValue, NotPossible, UnknownId
from bridle.schema import known

__all__ = ["DATASETS", "Dataset", "Progress", "cache_folder", "cached", "fetch", "how_to_get"]

MAX_BYTES = 2 * 10**9
# What a zip may hold when it is unpacked: ml-25m, the largest, has 1.2 GB in 8 files.
MAX_UNPACKED, MAX_MEMBERS = 20 * 10**9, 10_000
# Seconds to connect, and between two pieces of an answer.
TIMEOUTS = (10.0, 60.0)
PIECE = 2**16
SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)
# The first bytes of the older and of the newer kind of spreadsheet; the newer is a zip.
XLS, XLSX = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"PK\x03\x04"


class Progress(Protocol):
    """What is told how a download goes: pooch's form of a progress bar."""

    total: int

    def update(self, n: int) -> object:
        """Count `n` more bytes."""
        ...

    def reset(self) -> object:
        """Count from nothing again."""
        ...

    def close(self) -> object:
        """Be done, well or not; may be called twice."""
        ...


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A public data set and how to get it.

    Attributes
    ----------
    name, title : str
        What it is called in commands, and by those who publish it.
    page, licence : str
        Where it is described, and what may be done with it.
    url : str
        Where it is downloaded; empty where only a person can get it, from `page`.
    get : str
        What to get on the page.
    checksum : str
        "md5:…" or "sha256:…"; empty if none is known.
    checked : bool
        Whether we have held the checksum against a copy; otherwise it is as published.
    suffixes : tuple of str
        What the file may be, the usual one first.
    """

    name: str
    title: str
    page: str
    licence: str
    get: str
    url: str = ""
    checksum: str = ""
    checked: bool = False
    suffixes: tuple[str, ...] = (".zip",)

    @property
    def trust(self) -> str:
        """The checksum in words, with how far we know it."""
        if not self.checksum:
            return "no checksum known"
        how = "checked against a copy" if self.checked else "as published, not checked by us"
        return f"{self.checksum.replace(':', ' ')} ({how})"


def _movielens(name: str, title: str, checksum: str, checked: bool = False) -> Dataset:
    files = "https://files.grouplens.org/datasets/movielens/"
    readme = "txt" if name in ("ml-100k", "ml-1m") else "html"
    return Dataset(
        name=name,
        title=title,
        page="https://grouplens.org/datasets/movielens/",
        licence="GroupLens: for research, with acknowledgement; no commercial use and, for most of "
        f"its data, no redistribution without permission. Terms: {files}{name}-README.{readme}",
        get=f"the file {name}.zip",
        url=f"{files}{name}.zip",
        checksum=checksum,
        checked=checked,
    )


DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        _movielens("ml-20m", "MovieLens 20M", "md5:cd245b17a1ae2cc31bb14903e1204af3"),
        _movielens("ml-25m", "MovieLens 25M", "md5:6b51fb2759a8657d3bfcbfc42b592ada"),
        _movielens("ml-10m", "MovieLens 10M", "md5:ce571fd55effeba0271552578f2648bd"),
        _movielens("ml-1m", "MovieLens 1M", "md5:c4d9eecfca2ab87c1945afe126590906", True),
        _movielens("ml-100k", "MovieLens 100K", "md5:0e33842e24a9c977be4e0107933c0723"),
        # GroupLens may change this one; since 2018 it has been the same. TensorFlow Datasets and
        # others pin this sum.
        _movielens(
            "ml-latest-small",
            "MovieLens Latest, small",
            "sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
        ),
        Dataset(
            name="warfarin",
            title="IWPC warfarin doses",
            page="https://www.pharmgkb.org/downloads",
            licence="PharmGKB: CC BY-SA 4.0.",
            get="the data set of the International Warfarin Pharmacogenetics Consortium (IWPC), "
            "as a spreadsheet (PS206767-553247439.xls) or as csv",
            suffixes=(".csv", ".xls", ".xlsx"),
        ),
    )
}


def cache_folder(to: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of downloads: `to`, or $BRIDLE_CACHE, or the user's cache."""
    if to is not None:
        return Path(to).expanduser().absolute()
    if os.environ.get("BRIDLE_CACHE"):
        return Path(os.environ["BRIDLE_CACHE"]).expanduser().absolute()
    return Path(_pooch().os_cache("bridle"))


def cached(name: str, to: str | os.PathLike[str] | None = None) -> Path | None:
    """Return where the data set is on disk, or None. What is in it is not looked at: `fetch` does.

    Parameters
    ----------
    name : str
        One of `DATASETS`.
    to : path, optional
        The folder, if not the usual one; see `cache_folder`.
    """
    dataset, folder = _dataset(name), cache_folder(to)
    paths = (folder / f"{dataset.name}{suffix}" for suffix in dataset.suffixes)
    return next((path for path in paths if path.is_file()), None)


def fetch(
    name: str,
    *,
    to: str | os.PathLike[str] | None = None,
    file: str | os.PathLike[str] | None = None,
    url: str | None = None,
    sha256: str | None = None,
    progress: Progress | None = None,
    say: Callable[[str], object] | None = None,
) -> Path:
    """Get a data set into the cache, if it is not there already, and give its path.

    Parameters
    ----------
    name : str
        One of `DATASETS`.
    to : path, optional
        The folder, if not the usual one; see `cache_folder`.
    file : path, optional
        A file that you have: it is checked and copied into the cache instead of a download.
    url : str, optional
        Download from there instead: https, or http from this machine or with `sha256`. A redirect
        must lead to such an address too.
    sha256 : str, optional
        The checksum that the file must have, instead of the known one.
    progress : Progress, optional
        Is told how the download goes.
    say : callable, optional
        Is given what a person should read, line by line: the licence, what is there, what was not
        verified.

    Raises
    ------
    NotPossible
        There is no network, no such page, no address …: the message says what to put where.
    CorruptState
        The file that came, or `file`, is not the right one. It does not stay.
    """
    dataset = _dataset(name)
    tell: Callable[[str], object] = say or (lambda line: None)
    if file is not None and url is not None:
        raise InvalidValue("file", "fetch", "left out where 'url' is given", str(file))
    checksum = dataset.checksum if sha256 is None else _sha256(sha256)
    folder = cache_folder(to)
    if file is None and (there := cached(name, to)) is not None:
        try:
            _verify(there, dataset, checksum)
        except CorruptState as error:
            tell(f"{error} It stays there until a new one is verified.")
        else:
            right = "and right" if checksum else f"(not verified: {dataset.trust})"
            tell(f"Already there {right}: {there}")
            return there
    address = dataset.url if url is None else url
    if file is None and not address:
        raise NotPossible(f"{dataset.title} has no address that we know. {how_to_get(name, to)}")
    if file is None and (why := _refused(address, pinned=sha256 is not None)):
        raise InvalidValue("url", "fetch", "an address of https", address, why)
    tell(f"{dataset.title}. {dataset.licence}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _temporary(folder, dataset.name) as part:
            if file is not None:
                source = _copy(file, part)
            else:
                source = address
                tell(f"Downloading {address}")
                _download(address, part, sha256 is not None, progress, how_to_get(name, to))
            _verify(part, dataset, checksum, source)
            if not checksum:
                tell(
                    "Not verified, as no checksum is known. If you trust it, pin it: --sha256 "
                    + _digest(part, "sha256")
                )
            target = folder / f"{dataset.name}{_suffix(part, dataset)}"
            part.replace(target)
    except OSError as error:
        raise NotPossible(
            f"{name} cannot be written to {folder}: {_reason(error)}. Choose another folder with "
            "--to or $BRIDLE_CACHE."
        ) from error
    for suffix in dataset.suffixes:  # the same data in another form would hide the new one
        if suffix != target.suffix:
            (folder / f"{dataset.name}{suffix}").unlink(missing_ok=True)
    return target


def how_to_get(name: str, to: str | os.PathLike[str] | None = None) -> str:
    """Return what to put where if a data set cannot be downloaded."""
    dataset = _dataset(name)
    at = " or ".join(str(cache_folder(to) / f"{name}{suffix}") for suffix in dataset.suffixes)
    where = "" if to is None else f" --to {to}"
    return (
        f"Get {dataset.get} from {dataset.page}, on any machine. Then run 'bridle data fetch "
        f"{name}{where} --file PATH', or put it at {at} and run 'bridle data fetch {name}{where}'."
    )


def _dataset(name: str) -> Dataset:
    if name not in DATASETS:
        near = known(name, DATASETS)
        every = f"Known: {', '.join(DATASETS)}."
        raise UnknownId("data set", name, near if near.startswith("Did") else every)
    return DATASETS[name]


def _pooch() -> Any:
    try:
        import pooch
    except ImportError:
        raise NotPossible(
            "Data sets need pooch: pip install ./studies in bridle's folder."
        ) from None
    return pooch


def _sha256(value: object) -> str:
    match = SHA256.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise InvalidValue("sha256", "fetch", "64 hexadecimal digits", value)
    return f"sha256:{match[1].lower()}"


def _refused(address: object, *, pinned: bool) -> str:
    """Return why not to download from there, or nothing."""
    try:
        parts = urlsplit(address if isinstance(address, str) else "")
        scheme, host = parts.scheme, parts.hostname or ""
    except ValueError:  # a bracket in the host's place
        scheme, host = "", ""
    if host and scheme == "https":
        return ""
    if host and scheme == "http":
        safe = pinned or _loopback(host)
        return "" if safe else "http needs --sha256, as anyone on the way can change what comes."
    return "Write it in full: https://…"


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextlib.contextmanager
def _temporary(folder: Path, name: str) -> Iterator[Path]:
    """Return a path beside the target that no one has, and leave nothing there."""
    # Not from `tempfile`, whose files only their owner may read: a cache can be shared.
    part = folder / f".{name}.{secrets.token_hex(8)}.part"
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


class _Sink:
    """A file that takes `MAX_BYTES` and no more."""

    def __init__(self, out: BinaryIO) -> None:
        self.out = out
        self.size = 0

    def write(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > MAX_BYTES:
            raise NotPossible(f"It is larger than {MAX_BYTES:,} bytes, the limit for a download.")
        self.out.write(piece)

    def flush(self) -> None:
        """Nothing to do before the end, though pooch asks for it with every piece."""


def _copy(file: str | os.PathLike[str], part: Path) -> str:
    source = Path(file).expanduser()
    try:
        given = source.open("rb")
    except OSError as error:
        raise NotPossible(f"The file {source} cannot be read: {_reason(error)}.") from error
    with given, part.open("xb") as out:
        shutil.copyfileobj(given, _Sink(out), PIECE)
    return str(source)


def _download(
    address: str, part: Path, pinned: bool, progress: Progress | None, remedy: str
) -> None:
    pooch = _pooch()
    import requests  # comes with pooch

    answers: list[requests.Response] = []

    def check(answer: requests.Response, **options: object) -> None:
        answers.append(answer)  # to be closed: pooch does not
        if answer.is_redirect:
            to = urljoin(answer.url, answer.headers["location"])
            if why := _refused(to, pinned=pinned):
                raise NotPossible(f"{answer.url} leads to {to:.200}, which is refused. {why}")
        length = answer.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > MAX_BYTES:
            raise NotPossible(
                f"{answer.url} announces {length:.30} bytes; the limit is {MAX_BYTES:,}."
            )

    downloader = pooch.HTTPDownloader(
        progressbar=progress or False,
        chunk_size=PIECE,
        timeout=TIMEOUTS,
        hooks={"response": check},
        headers={"Accept-Encoding": "identity"},  # so that the length is that of the file
    )
    try:
        with part.open("xb") as out:
            sink = _Sink(out)
            downloader(address, sink, None)
            out.flush()
            os.fsync(out.fileno())
        # Old versions of urllib3 take an early end for the end.
        announced = int(answers[-1].headers.get("content-length", sink.size))
        if sink.size != announced and "content-encoding" not in answers[-1].headers:
            raise requests.ConnectionError(f"{sink.size:,} of {announced:,} bytes came")
    except requests.RequestException as error:
        raise NotPossible(
            f"{address} could not be downloaded: {_reason(error)}. {remedy}"
        ) from error
    finally:
        for answer in answers:
            answer.close()
        if progress is not None:
            with contextlib.suppress(Exception):  # what has gone wrong before is to be seen
                progress.close()


def _reason(error: OSError) -> str:
    answer = getattr(error, "response", None)
    if answer is not None and answer.status_code >= 400:
        return f"the server answers {answer.status_code} {answer.reason}"
    text = error.strerror or str(error) or type(error).__name__
    # Of a chain of errors in one line, "… (Caused by …([Errno 111] Connection refused))", the root.
    root = re.search(r"\[Errno -?\d+\] ([^'\")]+)", text)
    return " ".join(text.split())[:300].rstrip(".") if root is None else root[1]


def _verify(path: Path, dataset: Dataset, checksum: str, source: str = "") -> None:
    """Raise `CorruptState` unless the file has the checksum and, if it is a zip, is whole."""
    shown = source or str(path)
    with path.open("rb") as opened:
        head = opened.read(512)
    if not head:
        raise CorruptState(f"{shown} is empty.")
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise CorruptState(f"{shown} is a web page and not data. Download it by hand.")
    algorithm, _, wanted = checksum.partition(":")
    if wanted and (got := _digest(path, algorithm)) != wanted:
        raise CorruptState(
            f"{shown} is not the file that we know: its {algorithm} is {got}, not {wanted}. It is "
            "broken, or another version. If you have reason to trust it, say so with --sha256 "
            f"{_digest(path, 'sha256')}."
        )
    if head.startswith(XLSX) or dataset.suffixes == (".zip",):
        _verify_zip(path, shown)


def _verify_zip(path: Path, shown: str) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS or sum(m.file_size for m in members) > MAX_UNPACKED:
                raise CorruptState(
                    f"{shown} would unpack to more than {MAX_MEMBERS:,} files or "
                    f"{MAX_UNPACKED:,} bytes."
                )
            broken = archive.testzip()
    except CorruptState:
        raise
    except Exception as error:  # zipfile has a dozen kinds for the ways in which a zip can be bad
        raise CorruptState(
            f"{shown} is not a whole zip: {str(error) or type(error).__name__}."
        ) from error
    if broken is not None:
        raise CorruptState(f"{shown} is not a whole zip: {broken} in it has a wrong CRC.")


def _suffix(path: Path, dataset: Dataset) -> str:
    """Return, by its content, what the file is to be called."""
    with path.open("rb") as opened:
        head = opened.read(len(XLS))
    kind = ".xls" if head == XLS else ".xlsx" if head.startswith(XLSX) else dataset.suffixes[0]
    return kind if kind in dataset.suffixes else dataset.suffixes[0]


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as opened:
        # md5 is what is published; machines that forbid it for secrets allow it for this.
        made = hashlib.file_digest(opened, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return made.hexdigest()
