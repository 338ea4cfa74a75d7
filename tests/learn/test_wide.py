"""Models of many features: what solves them within a byte budget, and how that is chosen."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

import phimap as pm
from phimap.learn.registry import choose
from phimap.learn.ridge import cost
from phimap.learn.ridge.conjugate_gradients import ConjugateGradientRidge
from phimap.learn.ridge.solver import RidgeSolver
from tests.support.learners import GAUSSIAN
from tests.support.memory import traced

PLENTY = 10**15


def digits(dtype=np.float32):
    X, y = load_digits(return_X_y=True)
    return X.astype(dtype), (y % 2).astype(float)


@pytest.fixture
def sampled(monkeypatch, streamed):
    """Make sketches of a third of the rows of small sets."""
    monkeypatch.setattr("phimap.learn.ridge.nystroem_preconditioner.SAMPLED_FROM", 0)
    for module in ("nystroem_preconditioner", "conjugate_gradients"):
        monkeypatch.setattr(f"phimap.learn.ridge.{module}.SKETCH_ROWS", 600)


@pytest.mark.parametrize("alpha", ["auto", 0.1])
def test_a_sampled_sketch_solves_what_a_factorisation_does(alpha, sampled):
    X, y = digits(np.float64)
    peer, model, formed = (
        pm.KernelRegressor(n_components=512, alpha=alpha, solver=solver, memory=memory, random_state=0, **GAUSSIAN).fit(
            X, y
        )
        for solver, memory in (("cholesky", None), ("cg", None), ("cg", "9MB"))
    )
    assert (model.solution_.form, model.solution_.status) == ("cg", "solved")
    if alpha == "auto":
        curve = np.log(peer.solution_.alphas), peer.solution_.scores
        assert np.interp(np.log(model.alpha_), *curve) < 1.005 * curve[1].min()
    given = pm.KernelRegressor(n_components=512, alpha=model.alpha_, solver="cholesky", random_state=0, **GAUSSIAN)
    expected = given.fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-6)
    # Held-out features are not held, and the sketch is of fewer directions.
    np.testing.assert_allclose(formed.predict(X), model.predict(X), atol=0.03)


def test_a_sampled_sketch_does_not_depend_on_threads(sampled):
    X, y = digits()
    one, two = (
        pm.KernelRegressor(n_components=256, solver="cg", n_jobs=n_jobs, random_state=0, **GAUSSIAN).fit(X, y)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)


def test_rows_of_a_sketch_are_no_validation_rows(sampled, monkeypatch):
    """Mutant: the rows with the smallest keys, some of which are held out."""
    seen = []
    solve = ConjugateGradientRidge.__call__

    def call(self, problem):
        seen.append(problem)
        return solve(self, problem)

    monkeypatch.setattr(ConjugateGradientRidge, "__call__", call)
    X, y = digits(np.float64)
    pm.KernelRegressor(n_components=64, alpha=1.0, solver="cg", random_state=0, **GAUSSIAN).fit(X, y)
    validation = seen[0].validation
    rows = validation.random(lazy=True), validation.extreme(lazy=True), validation.training_sample(600)
    numbers = [{*map(bytes, part.block._X)} for part in rows]
    assert len(numbers[0]) > 160
    # Some of the 112 extreme rows are conformal rows.
    assert 80 < len(numbers[1]) < 112
    assert 550 < len(numbers[2]) <= 600
    assert not numbers[2] & (numbers[0] | numbers[1])
    mutant = {*map(bytes, validation.wider_sample.first(600)[0])}
    assert mutant & numbers[0]


def test_auto_is_what_is_predicted_to_be_far_faster():
    """Mutant: whichever is predicted to be faster."""
    flops = {"n_flops": 2 * 28 * 16384}
    assert choose("squared", "auto", 200_000, 4096, PLENTY, **flops).name == "cholesky"
    wide = choose("squared", "auto", 200_000, 32_768, PLENTY, **flops)
    assert wide.name == "cg"
    assert "by factorisation" in wide.reason
    # Ten targets and a dear map cost passes more than a factorisation.
    narrow = {"n": 200_000, "m": 12_288, "memory": PLENTY}
    assert choose("squared", "auto", **narrow, n_flops=2 * 28 * 6144).name == "cg"
    assert choose("squared", "auto", **narrow, t=26, n_flops=2 * 28 * 6144).name == "cholesky"
    assert choose("squared", "auto", **narrow, n_flops=10**7).name == "cholesky"
    # Few rows are factorised among themselves.
    assert choose("squared", "auto", 2000, 100_000, PLENTY, **flops).name == "cholesky"
    m, found = 8192, choose("squared", "auto", 1_000_000, 8192, PLENTY, **flops)
    passes = cost.passes_seconds(1_000_000, m, 1, flops["n_flops"], chosen=True, sketched=16_384)
    assert found.name == "cholesky"
    assert passes < cost.factorisation_seconds(1_000_000, m, flops["n_flops"], chosen=True)


def test_auto_takes_what_fits():
    n, m = 200_000, 32_768
    member = ConjugateGradientRidge()
    assert choose("squared", "auto", n, m, member.memory(n, m, 1)).name == "cg"
    assert "over the byte budget" in choose("squared", "auto", n, m, member.memory(n, m, 1)).reason
    small = 256
    assert RidgeSolver.memory(n, small) < member.memory(n, small, 1)
    assert choose("squared", "auto", n, small, RidgeSolver.memory(n, small)).name == "cholesky"
    # A hundred thousand features, ten targets.
    assert member.memory(n, 100_000, 10) < 2.5 * 2**30


def test_the_choice_is_told():
    X, y = digits()
    X, y = X[:300], y[:300]
    for solver, reason in (("cg", "as given"), ("auto", "by conjugate gradients")):
        model = pm.KernelRegressor(n_components=64, solver=solver, random_state=0, **GAUSSIAN).fit(X, y)
        assert reason in model.solution_.choice


@pytest.mark.parametrize("n_targets", [1, 4])
def test_a_fit_in_passes_keeps_to_its_budget(sampled, n_targets):
    """All of a fit, in bytes."""
    m, memory, n = 4096, 60 * 2**20, 2500
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 4)).astype(np.float32)
    Y = np.stack([np.sin(X[:, 0] + i) for i in range(n_targets)], axis=1)
    model = pm.KernelRegressor(
        n_components=m, alpha=1.0, solver="cg", memory=memory, n_jobs=1, random_state=0, **GAUSSIAN
    )
    # What is compiled and loaded at first use belongs to the process.
    model.fit(X[:300], Y[:300])
    peak = traced(lambda: model.fit(X, Y)).peak
    assert model.solution_.status == "solved"
    # Beside the budget, a tile of the map and the rows kept.
    assert peak < memory + 6 * 2**20


@pytest.mark.slow
def test_fifty_thousand_features_fit_three_gigabytes():
    """Resident memory of a process that fits them to ten targets."""
    code = (
        "import numpy as np, warnings, phimap as pm\n"
        "from phimap._progress import peak_memory\n"
        "from phimap.learn.ridge import alpha_in_passes, conjugate_gradients as cg, nystroem_preconditioner as ny\n"
        "ny.SAMPLED_FROM = 0; ny.SKETCH_ROWS = cg.SKETCH_ROWS = 512; cg._SEARCH_PASSES = 1\n"
        # A coarse grid of alphas, of which as many are followed at a time.
        "alpha_in_passes._POINTS_PER_DECADE = 1\n"
        "warnings.simplefilter('ignore')\n"
        "X = np.random.default_rng(0).standard_normal((3000, 28)).astype('f4')\n"
        "Y = np.sin(X[:, :10])\n"
        "model = pm.KernelRegressor('gaussian', 50_000, length_scale=5.0, metric=None, memory='3GB', "
        "random_state=0, solver='cg')\n"
        "model.fit(X, Y)\n"
        "print(model.solution_.form, peak_memory() / 2**30)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    form, gigabytes = run.stdout.split()
    assert form == "cg"
    assert float(gigabytes) < 3
