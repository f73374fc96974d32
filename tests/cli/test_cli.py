from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import bridle
from bridle.cli import app
from bridle_studies.demo import story

SOURCE = str(Path(bridle.__file__).parents[1])


def run(*arguments: str):
    return CliRunner().invoke(app, arguments)


def python(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, **variables}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False
    )


def test_help_names_every_command():
    shown = run("--help")
    assert shown.exit_code == 0
    for command in ("demo", "version"):
        assert command in shown.output


def test_version():
    assert run("version").output == f"bridle {bridle.__version__}\n"


def test_python_m_bridle(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bridle", "version"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(Path(SOURCE) / "bridle" / "__main__.py"), run_name="__main__")
    assert not end.value.code
    assert capsys.readouterr().out == f"bridle {bridle.__version__}\n"


def test_a_terminal_of_few_letters_gets_no_traceback():
    # The demo prints signs that ASCII lacks.
    code = "from bridle import cli\ncli.app = lambda **options: print('1 \\u00b1 0')\ncli.main()\n"
    done = python("-c", code, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "1 ? 0\n"), done.stderr


def test_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "sys.argv = ['bridle', '--help']\n"
        "from bridle.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0\n"
        "heavy = {'numpy', 'numba', 'rich', 'matplotlib', 'bridle.agent'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "No such command 'nope'"),
        (["demo", "--seed", "x"], "'--seed'"),
        (["demo", "--seed", "-1"], "'--seed'"),
        (["demo", "--loud"], "--loud"),
        (["demo", "--out", "figure.txt"], "ends in .png, .svg, .pdf. Got 'figure.txt'"),
        (["demo", "--out", "no/such/folder/figure.png"], "There is no folder"),
    ],
)
def test_a_bad_call_is_a_clear_error(arguments, message):
    done = run(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr


def test_a_figure_without_matplotlib_says_what_to_install(monkeypatch):
    util = SimpleNamespace(find_spec=lambda name: None)
    monkeypatch.setattr("bridle_studies.demo.story.importlib", SimpleNamespace(util=util))
    done = run("demo", "--out", "figure.png")
    assert done.exit_code == 2
    assert "pip install ./studies" in done.stderr


def test_demo_passes_its_options_on(monkeypatch, tmp_path):
    called = []
    monkeypatch.setattr(story, "demo", lambda **options: called.append(options))
    monkeypatch.setattr(story, "check_out", lambda path: None)
    out = tmp_path / "figure.png"
    assert run("demo", "--seed", "7", "--quick", "--out", str(out)).exit_code == 0
    assert run("demo").exit_code == 0
    assert called == [
        {"seed": 7, "quick": True, "out": out},
        {"seed": 0, "quick": False, "out": None},
    ]
