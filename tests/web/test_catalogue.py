"""The pages of an agent whose arms have features, with slates, retired arms and other policies."""

from __future__ import annotations

from typing import Any

import pytest

from bridle.server.limits import Limits
from tests import catalogue
from tests.server.driving import Server
from tests.web.browsing import Person, is_shown, pages_of

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


def test_limits_over_pairs_are_said_in_sentences(admin: Person):
    page = admin.get(f"{A}/limits")
    said = [one.text for one in page.all(data_note="pair-sentence")]
    assert any("Horror" in one for one in said)
    assert len({one.data("unit") for one in page.all() if "data-unit" in one.attrs}) == 14


def test_a_teacher_sees_what_an_arm_is_like(server: Server):
    teacher = Person(server, "teacher")
    page = teacher.get(f"{A}/teach")
    if not page.all(data_likeness="genres"):
        catalogue.call(server, "POST", f"{catalogue.A}/questions", {"context": catalogue.CHILD})
        page = teacher.get(f"{A}/teach")
    assert page.one(data_likeness="genres").text and page.one(data_likeness="year").text
