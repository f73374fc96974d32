"""Set-up for all tests, and the few helpers that several files share.

Everything above the import of numba must stay above it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.server.driving import Server

_ROOT = Path(__file__).resolve().parent.parent


def _kernel_cache() -> Path:
    # numba's cache on disk sees that a kernel's own file has changed, but not that one has whose
    # functions it inlined: a folder for each state of the kernels keeps old code out.
    digest = hashlib.sha256()
    for path in sorted((_ROOT / "src" / "bridle" / "kernels").glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return _ROOT / "build" / f"numba-{digest.hexdigest()[:16]}"


os.environ.setdefault("NUMBA_CACHE_DIR", str(_kernel_cache()))
# Servers that tests start compile what they need when they need it.
os.environ.setdefault("BRIDLE_WARM", "0")

import numba  # noqa: E402
import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402
from scipy.stats import chi2  # noqa: E402

from bridle import registry  # noqa: E402

# With NUMBA_DISABLE_JIT=1 the kernels run as plain Python, so that coverage can see into them:
# 100 times slower, on smaller sizes.
JIT = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]

# The same examples in every run, and no clock: a test that passed here passes there.
_NO_CLOCK = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", derandomize=True, max_examples=200 if JIT else 15, **_NO_CLOCK)
settings.register_profile("soak", max_examples=10_000, **_NO_CLOCK)
settings.load_profile("soak" if os.environ.get("BRIDLE_SOAK") else "default")


def pytest_configure(config: pytest.Config) -> None:
    if not JIT:
        # Arithmetic of keys is modulo 2**64. Compiled code says nothing of it, numpy's scalars do.
        config.addinivalue_line(
            "filterwarnings",
            "ignore:overflow encountered in scalar (multiply|add):RuntimeWarning",
        )


@pytest.fixture(autouse=True)
def _registered_as_before() -> Iterator[None]:
    """Forget what a test registers: the next one in this process may want the name."""
    before = dict(registry._known)
    yield
    registry._known.clear()
    registry._known.update(before)


def size(compiled: int, plain: int) -> int:
    """How much to try: with compiled kernels, and with kernels in plain Python."""
    return compiled if JIT else plain


def check_counts(counts: npt.ArrayLike, probabilities: npt.ArrayLike, error: float = 1e-6) -> None:
    """Assert by chi-square that `counts` come from `probabilities`; fails wrongly once in 1/error.

    Cells of few expected counts are taken together, as the law of the statistic needs it. What has
    no probability may not happen at all.
    """
    n, p = np.asarray(counts, dtype=np.float64), np.asarray(probabilities, dtype=np.float64)
    assert abs(p.sum() - 1.0) < 1e-9
    assert not n[p == 0.0].any()
    if np.count_nonzero(p) == 1:
        return
    seen, expected = _pooled(np.array([n, n.sum() * p]), by=n.sum() * p, least=25.0)
    statistic = float(((seen - expected) ** 2 / expected).sum())
    assert statistic <= chi2.isf(error, len(seen) - 1), (statistic, seen, expected)


def check_same_law(first: npt.ArrayLike, second: npt.ArrayLike, error: float = 1e-6) -> None:
    """Assert by chi-square that two rows of counts have one law; fails wrongly once in 1/error."""
    both = np.array([first, second], dtype=np.float64)
    pooled = _pooled(both, by=both.sum(axis=0), least=100.0)
    expected = np.outer(pooled.sum(axis=1), pooled.sum(axis=0)) / pooled.sum()
    statistic = float(((pooled - expected) ** 2 / expected).sum())
    assert statistic <= chi2.isf(error, pooled.shape[1] - 1), (statistic, pooled)


def _pooled(
    table: npt.NDArray[np.float64], by: npt.NDArray[np.float64], least: float
) -> npt.NDArray[np.float64]:
    """Add the columns with the smallest `by` together until each cell has `least` of it."""
    cells = [np.zeros(2)]
    total = 0.0
    for i in np.argsort(by):
        if total >= least:
            cells.append(np.zeros(2))
            total = 0.0
        cells[-1] = cells[-1] + table[:, i]
        total += by[i]
    if total < least:
        last = cells.pop()
        cells[-1] = cells[-1] + last
    assert len(cells) > 1, "too few counts to tell anything"
    return np.array(cells).T


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Start servers; each is stopped at the end, whatever happens."""
    pytest.importorskip("pydantic", reason="the serve extra is not installed")
    pytest.importorskip("prometheus_client", reason="the serve extra is not installed")
    from tests.server.driving import Server

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
