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

D, M = 784, 4096
#: What the output of 32 MB may be exceeded by, and what of that may depend on the number of rows.
ALLOWED, GROWTH = 24 * 2**20, 2**20
#: Rules whose number of directions follows from that of the inputs; a dense grid has more than there are atoms.
WIDTHS = {"sparse-grid": 2 * (2 * D + 1)}
#: What is measured is a transform, and so the points need no low energy.
QUICKLY_MADE = {"minimum-energy": MinimumEnergy(iterations=1)}
COMPILED = ["sorf", "fastfood", "circulant", "p-model", "sparse-sign", "ssf"]

# Resident memory at its highest during a transform, after one of fewer rows has compiled and loaded what it needs. Each
# projection has a fork of its own, whose highest memory starts at that of the parent. The parent, which starts no
# threads, has imported what all need.
PROGRAM = """
import os, sys
import numpy as np, phimap as pm

def resident(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(name))

def fitted(name, width, n_jobs):
    kernel = pm.kernels.Gaussian(28.0)
    phi = pm.FourierFeatures(kernel, width, projection=name, random_state=0, n_jobs=n_jobs).fit(X[:9])
    phi.transform(X[:64])
    return phi

def measure(name):
    phi = fitted(name, {m}, 2)
    before = resident("VmRSS")
    Z = phi.transform(X)
    print(name, resident("VmHWM") - before - Z.nbytes, flush=True)

X = np.random.default_rng(0).standard_normal((2048, {d}), dtype=np.float32)
fitted("gaussian", 64, 1)
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        measure(name)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name
"""


def excess(phi: pm.FourierFeatures, X: np.ndarray | sparse.csr_array) -> int:
    """Most bytes that NumPy held during a transform, the output not counted."""
    phi.transform(X[:8])
    peak, Z = traced(lambda: phi.transform(X))
    return peak - Z.nbytes


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "gauss-grid"])
def test_output_and_a_few_tiles(name, rng):
    X = rng.standard_normal((2048, D), dtype=np.float32)
    X[X < 1] = 0
    width, projection = WIDTHS.get(name, M), QUICKLY_MADE.get(name, name)
    phi = pm.FourierFeatures(pm.kernels.Gaussian(28.0), width, projection=projection, random_state=0).fit(X[:9])
    for form in (np.asarray, sparse.csr_array):
        assert excess(phi.set_params(n_jobs=2), form(X)) < ALLOWED
        # On one thread: the tiles of two do not always meet at their largest.
        phi.set_params(n_jobs=1)
        few, many = (excess(phi, form(X[:rows])) for rows in (1024, 2048))
        # The rest would be 3 MB if the rows were copied once, 8 MB if all were projected before the first cosine.
        assert many - few < GROWTH


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_scratch_of_compiled_loops_is_small():
    """What they allocate is hidden from Python."""
    command = [sys.executable, "-c", PROGRAM.format(d=D, m=M), *COMPILED]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    found = dict(line.split() for line in run.stdout.splitlines())
    assert list(found) == COMPILED
    assert all(int(scratch) < ALLOWED for scratch in found.values()), found
