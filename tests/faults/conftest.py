"""One process that forks servers, for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("apsw", reason="apsw is not installed")
pytest.importorskip("uvicorn", reason="the serve extra is not installed")

from faults.starting import Nursery


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()
