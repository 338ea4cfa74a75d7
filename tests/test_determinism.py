"""The same bits in processes that give BLAS other numbers of threads."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import hashlib
import numpy as np
import phimap as pm

rng = np.random.default_rng(0)
X = rng.standard_normal((2600, 20)).astype(np.float32)
y = np.sin(X[:, 0]) + X[:, 1]
digest = hashlib.sha256()
# Metrics are searched with features of both kinds, of spectra and of landmarks, once for each; at the widest rung once.
cases = (
    ("gaussian", 900, 2600, "auto", "normal"),
    ("ntk", 300, 2600, "auto", "fast"),
    ("polynomial", 100, 800, None, "normal"),
    ("gaussian", 3000, 2600, None, "normal"),
)
for kernel, width, rows, metric, effort in cases:
    model = pm.KernelRegressor(kernel, n_components=width, metric=metric, effort=effort, random_state=0)
    model.fit(X[:rows], y[:rows])
    digest.update(model.predict(X).tobytes())
    digest.update(np.float64(model.alpha_).tobytes())
print(digest.hexdigest())
"""


def digest(threads: int) -> str:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True, env=environment
    )
    return result.stdout.strip()


def test_threads_of_blas_change_no_bit():
    one, two = digest(1), digest(2)
    assert len(one) == 64
    assert one == two
