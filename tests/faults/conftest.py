"""One process that forks servers, for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("apsw", reason="apsw is not installed")
pytest.importorskip("uvicorn", reason="the serve extra is not installed")

from faults.losing_disk import expected_failures
from faults.starting import Nursery


@pytest.fixture(scope="session", autouse=True)
def unreported() -> Iterator[None]:
    """Keep pytest from finding fault with a later test: it holds what was logged, and so files."""
    with expected_failures():
        yield


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()
