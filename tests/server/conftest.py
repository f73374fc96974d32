"""What is tried here needs the serve extra."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic", reason="the serve extra is not installed")
pytest.importorskip("prometheus_client", reason="the serve extra is not installed")
