from __future__ import annotations

import hashlib
import http.server
import io
import os
import subprocess
import sys
import threading
import zipfile
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bridle
from bridle_studies.cli.data import data
from bridle_studies.environments.fetch import DATASETS, Dataset


def run(*arguments: object):
    return CliRunner().invoke(data, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """No test here touches the user's own cache, nor asks a real host."""
    monkeypatch.setenv("BRIDLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def toy(monkeypatch, tmp_path):
    """A data set on a server of this machine; gives its content."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("toy/ratings.dat", "1::2::3\n" * 40_000)
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "toy.zip").write_bytes(made.getvalue())
    handler = partial(Quiet, directory=str(tmp_path / "served"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    dataset = Dataset(
        name="toy",
        title="Toy ratings",
        page="https://example.org/toys",
        licence="For play.",
        get="the file toy.zip",
        url=f"http://127.0.0.1:{server.server_address[1]}/toy.zip",
        checksum=f"sha256:{hashlib.sha256(made.getvalue()).hexdigest()}",
    )
    monkeypatch.setitem(DATASETS, "toy", dataset)
    yield made.getvalue()
    server.shutdown()
    thread.join()
    server.server_close()


def test_fetch_prints_the_path_alone_and_the_rest_beside_it(cache, toy):
    done = run("fetch", "toy")
    assert (done.exit_code, done.stdout) == (0, f"{cache / 'toy.zip'}\n")
    assert (cache / "toy.zip").read_bytes() == toy
    # The licence first, then the download, whose bar ends at the whole size.
    assert done.stderr.index("For play.") < done.stderr.index("Downloading http://127.0.0.1")
    assert "320.1/320.1 kB" in done.stderr
    again = run("fetch", "toy")
    assert (again.exit_code, again.stdout) == (0, done.stdout)
    assert again.stderr.strip() == f"Already there and right: {cache / 'toy.zip'}"


def test_where_and_list_say_where_it_is(cache, toy, tmp_path):
    for options, folder in (([], cache), (["--to", tmp_path / "else"], tmp_path / "else")):
        absent = run("where", "toy", *options)
        assert (absent.exit_code, absent.stdout) == (1, "")
        get = " ".join(["bridle data fetch toy", *map(str, options)])
        assert f"toy is not in {folder}. Run '{get}'." in absent.stderr
        assert f"not here  {get}\n" in run("list", *options).stdout
        assert run("fetch", "toy", *options).exit_code == 0
        there = run("where", "toy", *options)
        assert (there.exit_code, there.stdout) == (0, f"{folder / 'toy.zip'}\n")
        assert f"here      {folder / 'toy.zip'}" in run("list", *options).stdout


def test_list_has_everything_with_its_licence(cache):
    shown = run("list")
    assert shown.exit_code == 0
    for name, dataset in DATASETS.items():
        assert f"{name}: {dataset.title}" in shown.stdout
        assert dataset.licence in " ".join(shown.stdout.split())
        assert dataset.trust in shown.stdout
    assert "as published, not checked by us" in shown.stdout
    assert "no checksum known" in shown.stdout
    assert "https://www.pharmgkb.org/downloads" in shown.stdout
    assert f"put it at {cache / 'warfarin.csv'}" in shown.stdout
    assert not cache.exists()


def test_a_file_that_one_has(cache, tmp_path):
    given = tmp_path / "iwpc.csv"
    given.write_text("a,b\n1,2\n")
    nothing = run("fetch", "warfarin")
    assert (nothing.exit_code, nothing.stdout) == (1, "")
    assert "https://www.pharmgkb.org/downloads" in nothing.stderr
    assert "--file PATH" in nothing.stderr
    done = run("fetch", "warfarin", "--file", given)
    assert (done.exit_code, done.stdout) == (0, f"{cache / 'warfarin.csv'}\n")
    assert "Not verified" in done.stderr
    assert hashlib.sha256(given.read_bytes()).hexdigest() in done.stderr
    assert "CC BY-SA" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fetch", "ml-2m"], "No data set 'ml-2m'. Did you mean"),
        (["where", "ml-2m"], "No data set 'ml-2m'. Did you mean"),
        (["fetch", "toy", "--sha256", "abc"], "64 hexadecimal digits"),
        (["fetch", "toy", "--url", "http://example.org/a.zip"], "http needs --sha256"),
        (["fetch", "toy", "--url", "ftp://example.org/a.zip"], "an address of https"),
        (["fetch", "toy", "--file", "nowhere.zip"], "nowhere.zip cannot be read"),
        (["fetch", "toy", "--sha256", "0" * 64], "is not the file that we know"),
    ],
)
def test_a_bad_call_is_a_clear_error(cache, toy, arguments, message):
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not cache.exists() or [*cache.iterdir()] == []


def test_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "from bridle_studies.cli.data import data\n"
        "try:\n"
        "    data(['--help'])\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0\n"
        "heavy = {'numpy', 'numba', 'rich', 'pooch', 'requests'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)\n"
    )
    source = str(Path(bridle.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for command in ("fetch", "list", "where"):
        assert command in done.stdout
