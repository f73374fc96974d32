"""Services, stopped at the end whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic", reason="the serve extra is not installed")
pytest.importorskip("prometheus_client", reason="the serve extra is not installed")

from tests.service.driving import Server


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start servers; each is stopped at the end."""
    begun: list[Server] = []

    def start(**given: Any) -> Server:
        folder = tmp_path / str(len(begun))
        folder.mkdir()
        begun.append(Server(folder, **given))
        return begun[-1]

    yield start
    for server in reversed(begun):
        server.close()


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    return serve()
