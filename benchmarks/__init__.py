"""Benchmarks of bridle against its peers: ``python -m benchmarks``.

Importing this package pins every numerical library to one thread. That has to
happen before numpy, BLAS or OpenMP are loaded, so it is here and not in a
function: like-for-like figures are of one core for everybody.
"""

from __future__ import annotations

import os

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)

for _name in THREAD_VARIABLES:
    os.environ[_name] = "1"
