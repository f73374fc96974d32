from __future__ import annotations

import pytest

from faults.starting import Nursery

# All of it now: pytest parses what a plugin imports, and Python 3.11 may fail at that while other
# threads run ("AST constructor recursion depth mismatch").
for name in ("engine", "hooks", "specs.openapi.schemas"):
    pytest.importorskip(f"schemathesis.{name}", reason="schemathesis is not installed")


def test_every_route_stands_requests_of_all_kinds_from_every_role(nursery: Nursery) -> None:
    from faults.fuzz import ROLES, fuzz

    found = fuzz(cases=300, nursery=nursery)
    assert found["examples"] == []
    assert found["cases"] >= 300 and set(found["roles"]) == set(ROLES)
    assert found["status_500"] == found["undocumented"] == found["invalid_accepted"] == 0
