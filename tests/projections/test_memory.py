"""`transform` holds the output and little else: scratch of some tiles, however many rows there are."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import phimap as pm
from phimap.projections import REGISTRY, MinimumEnergy
from tests.support.memory import traced

D, M = 784, 8192
#: What the output may be exceeded by, and what of that may depend on the number of rows.
ALLOWED, GROWTH = 64 * 2**20, 2**20
#: Rules whose number of directions follows from that of the inputs; a dense grid has more than there are atoms.
WIDTHS = {"sparse-grid": 2 * (2 * D + 1)}
#: What is measured is a transform, and so the points need no low energy.
QUICKLY_MADE = {"minimum-energy": MinimumEnergy(iterations=1)}
COMPILED = ["sorf", "fastfood", "circulant", "p-model", "sparse-sign", "ssf"]

# Resident memory at its highest during a transform, after one of fewer rows has compiled and loaded what it needs.
PROGRAM = """
import numpy as np, phimap as pm

def resident(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))

X = np.random.default_rng(0).standard_normal((3000, {d}), dtype=np.float32)
phi = pm.FourierFeatures(pm.kernels.Gaussian(28.0), {m}, projection="{name}", random_state=0, n_jobs=2).fit(X[:9])
phi.transform(X[:64])
before = resident("VmRSS")
Z = phi.transform(X)
print(resident("VmHWM") - before - Z.nbytes)
"""


def excess(phi: pm.FourierFeatures, X: np.ndarray | sparse.csr_array) -> int:
    """Most bytes that NumPy held during a transform, the output not counted."""
    phi.transform(X[:8])
    peak, Z = traced(lambda: phi.transform(X))
    return peak - Z.nbytes


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "gauss-grid"])
def test_output_and_a_few_tiles(name, rng):
    X = rng.standard_normal((3072, D), dtype=np.float32)
    X[X < 1] = 0
    width, projection = WIDTHS.get(name, M), QUICKLY_MADE.get(name, name)
    phi = pm.FourierFeatures(pm.kernels.Gaussian(28.0), width, projection=projection, random_state=0).fit(X[:9])
    for form in (np.asarray, sparse.csr_array):
        assert excess(phi.set_params(n_jobs=2), form(X)) < ALLOWED
        # On one thread: the tiles of two do not always meet at their largest.
        phi.set_params(n_jobs=1)
        few, many = (excess(phi, form(X[:rows])) for rows in (2048, 3072))
        # The rest would be 3 MB if the rows were copied once, 16 MB if all were projected before the first cosine.
        assert many - few < GROWTH


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", COMPILED)
def test_scratch_of_compiled_loops_is_small(name):
    """What they allocate is hidden from Python."""
    program = PROGRAM.format(name=name, d=D, m=M)
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert int(run.stdout) < ALLOWED
