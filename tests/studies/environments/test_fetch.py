from __future__ import annotations

import hashlib
import http.server
import io
import os
import socket
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from bridle.errors import BridleError, CorruptState, InvalidValue, NotPossible, UnknownId
from bridle_studies.environments.fetch import (
    DATASETS,
    Dataset,
    cache_folder,
    cached,
    fetch,
    how_to_get,
)

module = sys.modules["bridle_studies.environments.fetch"]
REPO = Path(__file__).resolve().parents[3]


@pytest.fixture
def real_ml_1m():
    folder = Path(os.environ.get("BRIDLE_DATA") or REPO.parent / "shared" / "data")
    path = folder / "ml-1m" / "ml-1m.zip"
    if not path.is_file():
        pytest.skip(f"The real data are not here: no {path}. Set BRIDLE_DATA.")
    return path


def a_zip(text: str = "1::2::3\n") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("toy/ratings.dat", text * 50)
        archive.writestr("toy/README", "made up")
    return made.getvalue()


GOOD = a_zip()
CSV = b"\xef\xbb\xbfa,b\n1,2\n"


class Server(http.server.ThreadingHTTPServer):
    """Answers as it is told, and counts how often it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def put(self, path: str, body: bytes, status: int = 200, **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages[path] = status, {"Content-Length": str(len(body)), **named}, body
        return self.url(path)


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status, headers, body = self.server.pages.get(
            self.path, (404, {"Content-Length": "0"}, b"")
        )
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def toy(monkeypatch, server):
    """A data set with a checksum, as those of GroupLens."""
    dataset = Dataset(
        name="toy",
        title="Toy ratings",
        page="https://example.org/toys",
        licence="For play.",
        get="the file toy.zip",
        url=server.put("/toy.zip", GOOD),
        checksum=f"md5:{hashlib.md5(GOOD).hexdigest()}",
    )
    monkeypatch.setitem(DATASETS, "toy", dataset)
    return dataset


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


class Watch:
    """A progress bar that remembers; it fails after some pieces, if told so."""

    total = 0

    def __init__(self, fails: BaseException | None = None) -> None:
        self.fails = fails
        self.seen: list[int] = []
        self.closed = 0

    def update(self, n: int) -> None:
        if self.fails is not None:
            raise self.fails
        self.seen.append(n)

    def reset(self) -> None:
        self.seen.clear()

    def close(self) -> None:
        self.closed += 1


# --- what goes well -----------------------------------------------------------------------


def test_a_good_download_and_the_second_call_downloads_nothing(tmp_path, server, toy):
    lines: list[str] = []
    bar = Watch()
    path = fetch("toy", to=tmp_path / "new" / "cache", progress=bar, say=lines.append)
    assert path == tmp_path / "new" / "cache" / "toy.zip"
    assert path.read_bytes() == GOOD
    assert names(path.parent) == ["toy.zip"]
    assert (bar.total, sum(bar.seen)) == (len(GOOD), len(GOOD))
    assert bar.closed
    # The licence is shown before the download begins.
    assert "For play." in lines[0]
    assert lines[1] == f"Downloading {toy.url}"
    lines.clear()
    assert fetch("toy", to=path.parent, say=lines.append) == path
    assert lines == [f"Already there and right: {path}"]
    assert server.asked == ["/toy.zip"]


def test_a_file_that_others_may_read_stays_so(tmp_path, toy):
    (tmp_path / "plain").touch()
    path = fetch("toy", to=tmp_path)
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_folder_is_what_is_given_or_the_environment_or_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("BRIDLE_CACHE", str(tmp_path / "env"))
    assert cache_folder(tmp_path) == tmp_path
    assert cache_folder() == tmp_path / "env"
    monkeypatch.delenv("BRIDLE_CACHE")
    assert cache_folder().name == "bridle"


def test_a_redirect_to_a_good_address_is_followed(tmp_path, server, toy):
    start = server.put("/old", b"", 302, Location=toy.url)
    assert fetch("toy", to=tmp_path, url=start).read_bytes() == GOOD
    assert server.asked == ["/old", "/toy.zip"]


def test_a_wrong_file_in_the_cache_is_downloaded_anew(tmp_path, server, toy):
    (tmp_path / "toy.zip").write_bytes(a_zip("other"))
    lines: list[str] = []
    assert fetch("toy", to=tmp_path, say=lines.append).read_bytes() == GOOD
    assert "toy.zip is not the file that we know" in lines[0]
    assert "stays there until a new one is verified" in lines[0]
    assert names(tmp_path) == ["toy.zip"]


def test_the_old_file_stays_if_the_new_one_does_not_come(tmp_path, server, toy):
    old = a_zip("other")
    (tmp_path / "toy.zip").write_bytes(old)
    for page in (a_zip("third"), GOOD[:-10], b""):
        server.put("/toy.zip", page)
        with pytest.raises(CorruptState):
            fetch("toy", to=tmp_path)
        assert (tmp_path / "toy.zip").read_bytes() == old
        assert names(tmp_path) == ["toy.zip"]


def test_a_checksum_of_ones_own_takes_the_place_of_the_known_one(tmp_path, server, toy):
    other = a_zip("other")
    url = server.put("/other", other)
    for given in (sha(other), f"SHA256:{sha(other).upper()}"):
        path = fetch("toy", to=tmp_path, url=url, sha256=given)
        assert path.read_bytes() == other
    assert server.asked == ["/other"]


def test_without_a_checksum_the_download_is_said_to_be_unverified(tmp_path, server):
    lines: list[str] = []
    url = server.put("/page/iwpc.txt?download=1", CSV)
    path = fetch("warfarin", to=tmp_path, url=url, say=lines.append)
    assert path == tmp_path / "warfarin.csv"
    assert "Not verified" in lines[-1]
    assert f"--sha256 {sha(CSV)}" in lines[-1]
    lines.clear()
    assert fetch("warfarin", to=tmp_path, say=lines.append) == path
    assert lines == [f"Already there (not verified: no checksum known): {path}"]
    lines.clear()
    assert fetch("warfarin", to=tmp_path, sha256=sha(CSV), say=lines.append) == path
    assert lines == [f"Already there and right: {path}"]
    assert len(server.asked) == 1


def test_a_spreadsheet_is_known_by_its_content_and_takes_the_place_of_the_csv(tmp_path, server):
    old = module.XLS + b"\0" * 600
    for body, name in ((CSV, "warfarin.csv"), (old, "warfarin.xls"), (GOOD, "warfarin.xlsx")):
        (tmp_path / "given").write_bytes(body)
        path = fetch("warfarin", to=tmp_path / "cache", file=tmp_path / "given")
        assert names(tmp_path / "cache") == [path.name] == [name]
        assert cached("warfarin", tmp_path / "cache") == path


def test_a_file_that_one_has(tmp_path, server, toy):
    mine = tmp_path / "mine"
    mine.write_bytes(GOOD)
    path = fetch("toy", to=tmp_path / "cache", file=mine)
    assert path.read_bytes() == mine.read_bytes() == GOOD
    # Put there by hand, and given again as it lies there.
    assert fetch("toy", to=tmp_path / "cache", file=path).read_bytes() == GOOD
    assert names(path.parent) == ["toy.zip"]
    assert server.asked == []


# --- what goes wrong ----------------------------------------------------------------------


def fails(folder: Path, kind: type[BridleError], *words: str, **options: object) -> str:
    """Fetch the toy, see it fail with these words, and see that nothing is left behind."""
    with pytest.raises(kind) as error:
        fetch("toy", to=folder, **options)
    for word in words:
        assert word in str(error.value)
    assert names(folder) == []
    return str(error.value)


def test_a_connection_that_breaks_in_the_middle(tmp_path, server, toy):
    server.put("/toy.zip", GOOD[:100], Content_Length=str(len(GOOD)))
    bar = Watch()
    fails(tmp_path, NotPossible, "could not be downloaded", "--file PATH", progress=bar)
    assert bar.closed


def test_a_short_answer_that_the_library_below_takes_for_whole(tmp_path, server, toy, monkeypatch):
    # As urllib3 before its version 2 does.
    import urllib3

    monkeypatch.setattr(urllib3.HTTPResponse, "_init_length", lambda *arguments: None)
    server.put("/toy.zip", GOOD[:100], Content_Length=str(len(GOOD)))
    fails(tmp_path, NotPossible, f"100 of {len(GOOD)} bytes came")


def test_a_wrong_checksum(tmp_path, server, toy):
    other = a_zip("other")
    server.put("/toy.zip", other)
    fails(tmp_path, CorruptState, toy.url, toy.checksum[4:], f"--sha256 {sha(other)}")
    fails(tmp_path, CorruptState, "0" * 64, sha256="0" * 64)


@pytest.mark.parametrize("cut", [1, 30, len(GOOD) // 2, len(GOOD) - 4])
def test_a_truncated_zip_whose_checksum_is_right(tmp_path, server, toy, cut):
    broken = GOOD[:-cut]
    server.put("/toy.zip", broken)
    fails(tmp_path, CorruptState, "not a whole zip", sha256=sha(broken))


def test_a_zip_with_a_damaged_member(tmp_path, server, toy):
    at = GOOD.index(b"made up") if b"made up" in GOOD else 60
    broken = GOOD[:at] + bytes([GOOD[at] ^ 255]) + GOOD[at + 1 :]
    server.put("/toy.zip", broken)
    fails(tmp_path, CorruptState, "not a whole zip", sha256=sha(broken))


def test_a_zip_that_would_fill_the_disk(tmp_path, server, toy, monkeypatch):
    monkeypatch.setattr(module, "MAX_UNPACKED", 100)
    fails(tmp_path, CorruptState, "would unpack to more than")


def test_a_page_that_is_not_there(tmp_path, server, toy):
    text = fails(tmp_path, NotPossible, "404", url=server.url("/gone"))
    # It says what to put where, and how to go on.
    assert str(tmp_path / "toy.zip") in text
    assert toy.page in text
    assert f"bridle data fetch toy --to {tmp_path} --file PATH" in text


def test_no_server(tmp_path, toy):
    with socket.socket() as taken:  # bound, but nobody listens: the port stays closed
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/toy.zip"
        fails(tmp_path, NotPossible, "could not be downloaded", str(tmp_path / "toy.zip"), url=url)


@pytest.mark.parametrize(
    "target", ["ftp://127.0.0.1/toy.zip", "file:///etc/passwd", "http://files.example.org/toy.zip"]
)
def test_a_redirect_to_an_address_that_is_refused(tmp_path, server, toy, target):
    start = server.put("/old", b"", 302, Location=target)
    fails(tmp_path, NotPossible, "leads to", target, url=start)
    assert server.asked == ["/old"]


def test_a_redirect_without_end(tmp_path, server, toy):
    start = server.put("/round", b"", 302, Location="/round")
    fails(tmp_path, NotPossible, "redirects", url=start)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/a.zip",
        "ftp://example.org/a.zip",
        "file:///a.zip",
        "a.zip",
        "https://",
        "https://[",
        "http://localhost.example.org/",
        "",
        5,
    ],
)
def test_addresses_that_are_refused(tmp_path, toy, url):
    fails(tmp_path, BridleError if url == "" else InvalidValue, url=url)


def test_http_is_taken_with_a_checksum_of_ones_own(toy):
    refused = module._refused
    assert "needs --sha256" in refused("http://example.org/a.zip", pinned=False)
    for good in ("https://example.org/a", "http://localhost:8/a", "http://[::1]/a"):
        assert refused(good, pinned=False) == ""
    assert refused("http://example.org/a.zip", pinned=True) == ""
    assert refused("ftp://example.org/a.zip", pinned=True)


def test_more_than_the_limit(tmp_path, server, toy, monkeypatch):
    monkeypatch.setattr(module, "MAX_BYTES", len(GOOD) - 1)
    fails(tmp_path, NotPossible, f"announces {len(GOOD)} bytes")
    # A server that does not say how much it sends.
    server.pages["/toy.zip"] = 200, {}, GOOD
    fails(tmp_path, NotPossible, "larger than")
    (tmp_path.parent / "mine.zip").write_bytes(GOOD)
    fails(tmp_path, NotPossible, "larger than", file=tmp_path.parent / "mine.zip")


def test_a_length_that_is_none(tmp_path, server, toy):
    server.put("/toy.zip", GOOD, Content_Length="many")
    fails(tmp_path, NotPossible, "announces many bytes")


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), RuntimeError("stop"), OSError(28, "full")])
def test_an_interrupted_download_leaves_nothing_behind(tmp_path, server, toy, stop):
    bar = Watch(fails=stop)
    with pytest.raises(NotPossible if isinstance(stop, OSError) else type(stop)):
        fetch("toy", to=tmp_path, progress=bar)
    assert names(tmp_path) == []
    assert bar.closed
    assert fetch("toy", to=tmp_path).read_bytes() == GOOD


def test_a_page_of_the_web_is_no_data(tmp_path, server):
    url = server.put("/login", b"\n<!DOCTYPE html><html>Please log in</html>")
    with pytest.raises(CorruptState, match="is a web page"):
        fetch("warfarin", to=tmp_path, url=url)
    assert names(tmp_path) == []


def test_files_that_one_has_and_that_are_wrong(tmp_path, server, toy):
    (tmp_path / "other.zip").write_bytes(a_zip("other"))
    (tmp_path / "empty.zip").touch()
    cache = tmp_path / "cache"
    fails(cache, CorruptState, "other.zip is not the file", file=tmp_path / "other.zip")
    fails(cache, CorruptState, "empty.zip is empty", file=tmp_path / "empty.zip")
    fails(cache, NotPossible, "nowhere.zip cannot be read: No such", file=tmp_path / "nowhere.zip")
    fails(cache, NotPossible, "cannot be read", file=tmp_path)
    fails(cache, InvalidValue, "left out", file=tmp_path / "other.zip", url=toy.url)
    assert names(tmp_path) == ["cache", "empty.zip", "other.zip"]
    assert server.asked == []


@pytest.mark.parametrize("wrong", ["", "abc", "g" * 64, 5, "md5:" + "0" * 32])
def test_a_checksum_that_is_none(tmp_path, toy, wrong):
    fails(tmp_path, InvalidValue, "64 hexadecimal digits", sha256=wrong)


def test_a_folder_that_cannot_be_made(tmp_path, toy):
    (tmp_path / "file").touch()
    with pytest.raises(NotPossible, match="cannot be written to"):
        fetch("toy", to=tmp_path / "file" / "cache")


def test_a_data_set_that_only_a_person_can_get(tmp_path):
    with pytest.raises(NotPossible, match="has no address that we know") as error:
        fetch("warfarin", to=tmp_path)
    for word in ("https://www.pharmgkb.org/downloads", "Consortium", "--file PATH"):
        assert word in str(error.value)
    assert names(tmp_path) == []


def test_names_that_there_are_not(tmp_path):
    for call in (fetch, cached, how_to_get):
        with pytest.raises(UnknownId, match=r"Did you mean .*'ml-20m'"):
            call("ml-20")


def test_without_pooch(monkeypatch, tmp_path, toy):
    monkeypatch.setitem(sys.modules, "pooch", None)
    fails(tmp_path, NotPossible, "pip install ./studies")
    monkeypatch.delenv("BRIDLE_CACHE", raising=False)
    with pytest.raises(NotPossible, match="need pooch"):
        cache_folder()


# --- what we know -------------------------------------------------------------------------


def test_every_data_set_says_what_a_person_must_know():
    assert {"ml-20m", "ml-25m", "ml-1m", "ml-100k", "warfarin"} <= DATASETS.keys()
    for name, dataset in DATASETS.items():
        assert name == dataset.name
        assert dataset.licence
        assert dataset.page.startswith("https://")
        assert not dataset.url or dataset.url == (
            f"https://files.grouplens.org/datasets/movielens/{name}.zip"
        )
        kind, _, digits = dataset.checksum.partition(":")
        assert len(digits) == {"": 0, "md5": 32, "sha256": 64}[kind]
        words = "checked against a copy" if dataset.checked else "not checked by us"
        assert (words if digits else "no checksum known") in dataset.trust
    assert [name for name, dataset in DATASETS.items() if dataset.checked] == ["ml-1m"]


def test_the_checksum_of_ml_1m_is_that_of_a_real_copy(tmp_path, real_ml_1m):
    lines: list[str] = []
    path = fetch("ml-1m", to=tmp_path, file=real_ml_1m, say=lines.append)
    assert path.stat().st_size == real_ml_1m.stat().st_size
    assert not any("Not verified" in line for line in lines)
