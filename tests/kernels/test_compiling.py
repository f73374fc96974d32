"""One line when kernels are compiled, none when they come from the cache."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from bridle.kernels import compiling
from tests.conftest import JIT

FIRST_CALL = """
import logging, sys
if "log" in sys.argv:
    logging.basicConfig(level=logging.INFO)
if "person" in sys.argv:
    sys.stderr.isatty = lambda: True
import numpy as np
from bridle.kernels import compiling, keys
keys.mix(np.uint64(3))
keys.key_of(np.uint64(3), np.uint64(4))
print(compiling.compiled())
"""


def first_call(cache, *words: str) -> tuple[int, list[str]]:
    """Return how many kernels a process compiled, and its lines on stderr."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALL, *words],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout), done.stderr.splitlines()


@pytest.mark.skipif(not JIT, reason="nothing is compiled without numba's compiler")
def test_a_cold_cache_is_announced_once_and_a_warm_one_never(tmp_path):
    kernels, lines = first_call(tmp_path, "log")
    assert kernels >= 2
    assert lines == [f"INFO:bridle.kernels:{compiling.NOTICE}"]
    assert first_call(tmp_path, "log") == (0, [])


@pytest.mark.skipif(not JIT, reason="nothing is compiled without numba's compiler")
def test_a_person_sees_the_line_and_a_pipe_does_not(tmp_path):
    assert first_call(tmp_path / "one", "person")[1] == [compiling.NOTICE]
    assert first_call(tmp_path / "two")[1] == []


class _Happening:
    def __init__(self, module: str) -> None:
        def kernel() -> None: ...

        kernel.__module__ = module
        self.data = {"dispatcher": type("Dispatcher", (), {"py_func": staticmethod(kernel)})}


def test_who_shows_progress_of_their_own_gets_the_line(monkeypatch):
    notice = compiling._Notice()
    monkeypatch.setattr(compiling, "_NOTICE", notice)
    heard: list[str] = []
    with compiling.notices_to(heard.append):
        notice.on_start(_Happening("somebody.else"))
        assert (compiling.compiled(), heard) == (0, [])
        for _ in range(3):
            notice.on_start(_Happening("bridle.kernels.keys"))
    assert (compiling.compiled(), heard) == (3, [compiling.NOTICE])
    assert notice.receivers == []


def test_a_logger_that_takes_no_info_gets_nothing(caplog, capsys):
    with caplog.at_level(logging.WARNING, logger="bridle.kernels"):
        compiling._announce("compiling")
    assert caplog.messages == []
    with caplog.at_level(logging.INFO, logger="bridle.kernels"):
        compiling._announce("compiling")
    assert caplog.messages == ["compiling"]
    assert capsys.readouterr().err == ""
