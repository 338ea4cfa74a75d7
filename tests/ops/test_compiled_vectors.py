"""Vectors as wide as the processor's registers: the same bits with any width."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba.core.codegen import get_host_cpu_features

PROGRAM = "from tests.ops.test_compiled_vectors import bits; print(*bits())"


def bits() -> list[str]:
    """The bytes of a vector, and hashes of what loops with vectors compute in this process."""
    import hashlib

    import numpy as np

    import phimap as pm
    from phimap.ops.compiled.vectors import BYTES

    X = np.random.default_rng(0).standard_normal((37, 45))
    names = "sorf", "ssf", "circulant"
    maps = [pm.FourierFeatures(n_components=300, projection=name, random_state=0) for name in names]
    maps += [pm.NTKFeatures(1, 300, random_state=0), pm.sketches.PolySketch(64, degree=3, random_state=0)]
    features = (phi.fit_transform(X.astype(dtype)) for phi in maps for dtype in (np.float32, np.float64))
    return [str(BYTES), *(hashlib.sha256(Z.tobytes()).hexdigest() for Z in features)]


def printed(environment: dict[str, str]) -> list[str]:
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout.split()


@pytest.mark.slow
def test_bits_do_not_depend_on_the_width_of_vectors(pytestconfig):
    features = get_host_cpu_features().split(",")
    if "+avx512f" not in features:
        pytest.skip("the processor has vectors of one width")
    # Kept for the next run: numba knows code by the features, and phimap by a hash of all sources of compiled loops.
    code = pytestconfig.cache.mkdir("narrow_vectors")
    kept = [feature for feature in features if not feature.startswith("+avx512")]
    wide = bits()
    narrow = printed({"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ",".join(kept), "NUMBA_CACHE_DIR": str(code)})
    assert (wide[0], narrow[0]) == ("64", "32")
    assert wide[1:] == narrow[1:]
