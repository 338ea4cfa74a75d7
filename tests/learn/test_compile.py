"""`compile` leaves nothing to compile for the first prediction."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import phimap as pm
from tests.support.learners import GAUSSIAN

# Prints for each pair of arguments, a file and a word, how many loops the predictions of a model compile or read from
# the cache after the method `compile`, and with the word "cold" without it. Several models have a fork each: all of
# them find the libraries loaded, which takes most of the time, and no loop compiled.
SCRIPT = """
import importlib, os, pkgutil, sys
import joblib
import phimap.ops.compiled

def compiled():
    found = set()
    for module in pkgutil.iter_modules(phimap.ops.compiled.__path__):
        for name, loop in vars(importlib.import_module(f"phimap.ops.compiled.{module.name}")).items():
            found |= {(module.name, name, str(one)) for one in getattr(loop, "signatures", ())}
    return found

def n_compiled(model, rows, how):
    if how != "cold":
        assert model.compile() is model
    before = compiled()
    for X in rows:
        model.predict(X)
    return len(compiled() - before)

cases = [(*joblib.load(file), how) for file, how in zip(sys.argv[1::2], sys.argv[2::2])]
assert not compiled()
for case in cases:
    if len(cases) == 1 or not os.fork():
        print(n_compiled(*case))
        sys.exit()
    assert os.wait()[1] == 0
"""

CASES = [("fourier", "cold"), ("fourier", "warm"), ("landmarks", "warm"), ("frame", "warm"), ("csr", "warm")]


@pytest.fixture(scope="module")
def models() -> dict[str, tuple[Any, list[Any]]]:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.standard_normal(300)
    both = [X[:3], X[:3].astype(np.float32)]
    frame = pd.DataFrame({"a": X[:, 0], "b": rng.choice(["red", "green", "blue"], 300)})
    landmarks = pm.NystroemFeatures(pm.kernels.Laplacian(3.0), 64)
    rows = sparse.random(300, 40, 0.1, "csr", random_state=0)
    fixed: dict[str, Any] = {"alpha": 0.1, "random_state": 0}
    return {
        "fourier": (pm.KernelRegressor(n_components=32, **fixed, **GAUSSIAN).fit(X, y), both),
        "landmarks": (pm.KernelRegressor(landmarks, **fixed).fit(X, y), both),
        "frame": (pm.KernelClassifier(n_components=32, **fixed, **GAUSSIAN).fit(frame, y > 0), [frame[:1]]),
        "csr": (pm.KernelRegressor(n_components=32, **fixed, **GAUSSIAN).fit(rows, y), [rows[:2]]),
    }


@pytest.fixture(scope="module")
def counts(models, tmp_path_factory) -> dict[tuple[str, str], int]:
    """What the script prints for each of the cases."""
    folder = tmp_path_factory.mktemp("models")
    for name, model in models.items():
        joblib.dump(model, folder / name)
    pairs = [(str(folder / name), how) for name, how in CASES]
    runs = [list(itertools.chain(*pairs))] if sys.platform == "linux" else pairs
    told = [
        subprocess.run([sys.executable, "-c", SCRIPT, *words], capture_output=True, text=True, check=True).stdout
        for words in runs
    ]
    return dict(zip(CASES, map(int, "".join(told).split()), strict=True))


@pytest.mark.parametrize(("name", "how"), CASES)
def test_first_predictions_compile_nothing(counts, name, how):
    assert (counts[name, how] == 0) == (how == "warm")


def test_compile_changes_and_warns_of_nothing():
    X = 1e4 + np.random.default_rng(0).standard_normal((200, 3))
    model = pm.KernelRegressor(n_components=32, random_state=0, **GAUSSIAN).fit(X, X[:, 0])
    expected = joblib.hash(model.coef_), model.predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.compile()
    assert joblib.hash(model.coef_) == expected[0]
    np.testing.assert_array_equal(model.predict(X), expected[1])


def test_only_fitted_models_are_compiled():
    with pytest.raises(NotFittedError):
        pm.KernelRegressor().compile()
