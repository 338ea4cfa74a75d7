"""Work stays within the byte budget, as the process sees it, or is refused in one line before it begins."""

import sys

import numpy as np
import pytest

import phimap as pm
from phimap.config import parse_bytes
from phimap.io import open_table
from phimap.kernels import Gaussian
from phimap.learn.ridge.solver import RidgeSolver
from phimap.projections import REGISTRY
from tests.support.budget_cases import SMALL, parquet_file, peak
from tests.support.memory import traced

# What libraries hold that no array tells of.
SLACK = 1.1
_TRIALS = 3
LABELS = {**SMALL, "classes": 3}

# Work, budget, sizes and those of the trial before it.
WITHIN = {
    "many targets": ("regressor", "64MB", {"n": 6000, "d": 20, "m": 512, "t": 20}, {**SMALL, "t": 3}),
    "many targets, few rows": ("regressor", "64MB", {"n": 1000, "d": 20, "m": 256, "t": 60}, {**SMALL, "t": 3}),
    "many classes": ("classifier", "64MB", {"n": 6000, "d": 20, "m": 512, "classes": 50}, LABELS),
    "many classes, few rows": ("classifier", "64MB", {"n": 1500, "d": 20, "m": 512, "classes": 50}, LABELS),
    "many columns": ("regressor", "64MB", {"n": 3000, "d": 1000, "m": 256}, SMALL),
    "few rows": ("regressor", "64MB", {"n": 1500, "d": 40, "m": 1600}, SMALL),
    "sparse": ("sparse_regressor", "64MB", {"n": 5000, "d": 100_000, "m": 512}, SMALL),
    "packed": ("packed_regressor", "64MB", {"n": 20_000, "d": 200, "m": 1024}, SMALL),
    "packed map": ("packed", "64MB", {"n": 20_000, "d": 200, "m": 8192}, SMALL),
}
REFUSED = {
    "wide rows": ("regressor", "64MB", {"n": 1200, "d": 8000, "m": 64}, SMALL, "to rows of 8000 columns needs"),
    "wide rows of float32": (
        "single",
        "200MB",
        {"n": 2000, "d": 8000, "m": 512},
        SMALL,
        "a sample of 1000 rows of 31.2",
    ),
    "too many classes": (
        "classifier",
        "64MB",
        {"n": 6000, "d": 20, "m": 512, "classes": 1000},
        LABELS,
        "with 1000 targets needs",
    ),
    "wide file": ("npz", "64MB", {"n": 200, "d": 30_000, "m": 64}, SMALL, "a sample of .* over the budget"),
    "large images": (
        "images",
        "64MB",
        {"n": 6, "side": 600, "m": 8},
        {"n": 4, "side": 8, "m": 8},
        "a row of 810000 numbers is over",
    ),
}

linux = pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")


@linux
@pytest.mark.parametrize("name", WITHIN)
def test_peak_is_within_the_budget(name):
    work, budget, sizes, warm = WITHIN[name]
    # Allocators keep more or less on a busy machine; what the work itself takes, every trial takes.
    for _ in range(_TRIALS):
        n_bytes, refusal = peak(work, budget, sizes, warm)
        assert not refusal
        if n_bytes <= SLACK * parse_bytes(budget):
            return
    raise AssertionError(f"{n_bytes} bytes of a budget of {budget} in the last of {_TRIALS} trials")


@linux
@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_before_it_is_there(name):
    work, budget, sizes, warm, line = REFUSED[name]
    n_bytes, refusal = peak(work, budget, sizes, warm)
    assert "\n" not in refusal
    with pytest.raises(MemoryError, match=line):
        raise MemoryError(refusal)
    assert n_bytes <= SLACK * parse_bytes(budget)


@linux
def test_the_measure_sees_an_array_beyond_the_budget():
    # A mutant: the budget is not told to the work, which then takes what it needs.
    n_bytes, refusal = peak("unbounded", "64MB", {"n": 2040, "d": 20, "m": 512}, SMALL)
    assert not refusal
    assert n_bytes > SLACK * parse_bytes("64MB")


@pytest.mark.parametrize("name", [name for name, made in REGISTRY.items() if made.drawn_arrays])
def test_directions_are_refused_before_they_are_drawn(name):
    law, n_directions = Gaussian(3.0).spectral_law(500), 1001
    made = REGISTRY[name]()
    if made.unmet_requirement(law):
        pytest.skip("serves another law")
    needed = 8 * made.drawn_arrays * law.n_features * n_directions
    with pm.config(memory=needed - 1), pytest.raises(MemoryError, match=f"`projection`='{name}' takes"):
        made.sample(law, n_directions, np.random.default_rng(0))
    if name != "minimum-energy":
        # What it takes is what it says, and a tenth for what is no direction.
        assert traced(lambda: made.sample(law, n_directions, np.random.default_rng(0))).peak <= 1.1 * needed


def test_pages_of_parquet_are_refused(tmp_path):
    # One row group: a page of each column, as it is stored and as it is decoded, is there at a time.
    path = parquet_file(tmp_path, 2000, 1000)
    with pm.config(memory="8MB"), pytest.raises(MemoryError, match=r"pages of 1000 columns take .*, too much"):
        next(iter(open_table(path, target="y").batches(10)))
    with pm.config(memory="64MB"):
        assert len(next(iter(open_table(path, target="y").batches(10)))[0]) == 10


def test_solver_counts_targets():
    few, many = (RidgeSolver.memory(20_000, 512, t) for t in (1, 1000))
    # Recurrences of each target, and their images at 2,000 validation rows.
    assert many - few > 8 * 999 * (512 + 32 * 2000)
