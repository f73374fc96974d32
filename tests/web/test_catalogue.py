"""The pages of an agent whose arms have features, with slates, retired arms and other policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridle.server.limits import Limits
from tests import catalogue
from tests.server.driving import Server
from tests.web.browsing import Person, is_shown, no_script, pages_of

A = "/agents/films"


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Any:
    # Kernels may have to be compiled first.
    server = Server(tmp_path_factory.mktemp("pages"), limits=Limits(answer_seconds=600.0))
    catalogue.live(server)
    yield server
    server.close()


@pytest.fixture(scope="module")
def admin(server: Server) -> Person:
    return Person(server, "admin")


@pytest.mark.parametrize(
    "path",
    sorted(
        {
            *pages_of("films", "d1"),
            *pages_of("films", "s%2F2"),
            *pages_of("films", "brought"),
            *pages_of("films", "other"),
        }
    ),
)
def test_every_page_is_shown(admin: Person, path: str):
    assert is_shown(admin, path), admin.get(path).text[:2000]
