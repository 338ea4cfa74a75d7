"""Greedy designs: every pick against the direct formula, drift, ties, labelled rows, and that they beat chance."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

import phimap as pm
from phimap.learn.active.design import PosteriorKernel

ALPHA = 0.05


def objective(K: np.ndarray, rows: list[int], alpha: float = ALPHA) -> float:
    """J(S) as it is defined."""
    shifted = K[np.ix_(rows, rows)] + alpha * np.eye(len(rows))
    return -float(np.trace(K[:, rows] @ np.linalg.solve(shifted, K[rows])))


def direct(K: np.ndarray, n_select: int, initial: tuple[int, ...] = ()) -> list[int]:
    """Greedy picks by evaluating J for every candidate."""
    rows = list(initial)
    for _ in range(n_select):
        others = [x for x in range(len(K)) if x not in rows]
        rows.append(min(others, key=lambda x: objective(K, [*rows, x])))
    return rows[len(initial) :]


def features(n: int, m: int, dtype: type = np.float64) -> np.ndarray:
    """Features with a spectrum that falls like 1 / j."""
    return (np.random.default_rng(1).standard_normal((n, m)) / np.arange(1, m + 1)).astype(dtype)


@pytest.mark.parametrize("m", [30, 400])
def test_every_pick_is_that_of_the_direct_formula(m):
    """With fewer and with more features than rows; mutant: picks by the largest variance."""
    Z = features(300, m)
    K = Z @ Z.T
    design = pm.GreedyDesign(None, n_select=8, alpha=ALPHA)
    chosen = design.select(Z).tolist()
    assert chosen == direct(K, 8)
    assert_allclose(design.objective_, [objective(K, chosen[: j + 1]) for j in range(8)], rtol=1e-10)
    assert_allclose(-design.gains_.sum(), design.objective_[-1], rtol=1e-10)
    rows: list[int] = []
    for _ in range(8):
        left = np.diag(K).copy()
        if rows:
            shifted = K[np.ix_(rows, rows)] + ALPHA * np.eye(len(rows))
            left -= np.einsum("ij,ji->i", K[:, rows], np.linalg.solve(shifted, K[rows]))
        left[rows] = -np.inf
        rows.append(int(np.argmax(left)))
    assert rows != chosen


def test_labelled_rows_are_counted_and_not_picked():
    Z = features(120, 20)
    known = (5, 77, 13)
    design = pm.GreedyDesign(None, n_select=5, alpha=ALPHA)
    assert design.select(Z, initial=known).tolist() == direct(Z @ Z.T, 5, known)
    assert design.objective_[-1] == pytest.approx(objective(Z @ Z.T, [*known, *design.indices_]), rel=1e-10)
    assert design.select(Z).tolist() != direct(Z @ Z.T, 5, known)


def posterior_errors(posterior: PosteriorKernel, Z: np.ndarray, rows: list[int]) -> tuple[float, float]:
    """Largest errors of the updated norms and variances over the rows, relative to the norm of each column."""
    K = Z.astype(np.float64) @ Z.T.astype(np.float64)
    R = K - K[:, rows] @ np.linalg.solve(K[np.ix_(rows, rows)] + ALPHA * np.eye(len(rows)), K[rows])
    squared_norms = np.square(R).sum(axis=0)
    others = np.setdiff1d(np.arange(len(K)), rows)
    return (
        float(np.abs(posterior.squared_norms / squared_norms - 1)[others].max()),
        float(np.abs(posterior.variances - np.diag(R)).max() / np.diag(K).max()),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gains_do_not_drift(dtype, monkeypatch):
    """Five hundred picks; a large mean makes the first steps subtract most. Mutant: nothing is ever formed anew."""
    Z = features(600, 100, dtype) + dtype(3.0)

    def after_500(tolerance: float | None) -> tuple[tuple[float, float], int]:
        posterior = PosteriorKernel(Z, ALPHA, 500, n_jobs=1)
        if tolerance is not None:
            posterior._tolerance = tolerance
        free, rows = np.ones(600, dtype=bool), []
        for _ in range(500):
            row, _gain = posterior.pick(free)
            free[row] = False
            rows.append(row)
        return posterior_errors(posterior, Z, rows), posterior.n_refreshes

    (energy, variance), n_refreshes = after_500(None)
    # Half of the digits is what a pick tolerates; rows that are not picked may be off by a few times that.
    assert energy < 30 * np.sqrt(np.finfo(dtype).eps)
    assert variance < 1000 * np.finfo(dtype).eps
    assert n_refreshes < 50
    if dtype == np.float32:
        assert n_refreshes > 1
        assert after_500(np.inf)[0][0] > 30 * np.sqrt(np.finfo(dtype).eps)


def test_equal_rows_are_taken_in_their_order_and_zero_rows_last():
    Z = np.vstack([np.zeros((1, 6)), features(20, 6), features(20, 6)])
    chosen = pm.GreedyDesign(None, n_select=41, alpha=ALPHA).select(Z).tolist()
    assert sorted(chosen) == list(range(41))
    assert all(chosen.index(row) < chosen.index(row + 20) for row in range(1, 21))
    assert chosen[-1] == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_number_of_threads_changes_no_bit(dtype):
    X = np.random.default_rng(0).standard_normal((1000, 4)).astype(dtype)
    before = X.copy()
    phi = pm.FourierFeatures(n_components=150, random_state=0)
    one, two = (pm.GreedyDesign(phi, n_select=40, alpha=0.1, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert (one.select(X) == two.select(X)).all()
    assert (one.gains_ == two.gains_).all()
    np.testing.assert_array_equal(X, before)
    assert one.feature_map_.record_.n_components == 150
    assert not hasattr(phi, "record_")


def test_sparse_rows_and_packed_features():
    X = np.random.default_rng(0).standard_normal((80, 6)) * (np.random.default_rng(1).random((80, 6)) < 0.5)
    phi = pm.FourierFeatures(n_components=64, random_state=0)
    dense, csr = (pm.GreedyDesign(phi, 10, 0.1).select(rows) for rows in (X, sparse.csr_matrix(X)))
    assert (dense == csr).all()
    packed = pm.GreedyDesign(pm.TernaryFeatures(n_components=64, packed=True, random_state=0), 10, 0.1)
    assert len(set(packed.select(X).tolist())) == 10


def test_parameters_are_stored_as_they_are():
    phi = pm.FourierFeatures(n_components=16)
    design = pm.GreedyDesign(phi, 5, 0.1, n_jobs=1)
    copy = clone(design)
    assert copy.get_params(deep=False) | {"feature_map": None} == {
        "feature_map": None,
        "n_select": 5,
        "alpha": 0.1,
        "n_jobs": 1,
    }
    assert repr(design).startswith("GreedyDesign(alpha=0.1, feature_map=FourierFeatures")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_select": 0}, "`n_select` must be at least 1, got 0"),
        ({"n_select": 21}, "`n_select` must be at most the number of unlabelled rows, 20, got 21"),
        ({"alpha": 0.0}, "`alpha` must be greater than 0.0, got 0.0"),
        ({"feature_map": "ntk"}, "`feature_map` must be a feature map, got 'ntk'"),
        ({"initial": [0.5]}, "`initial` must be a vector of row numbers, got float64"),
        ({"initial": [-1]}, "`initial` must hold rows 0 to 19, got -1"),
        ({"initial": [20]}, "`initial` must hold rows 0 to 19, got 20"),
        ({"initial": [3, 3]}, "`initial` must name a row once, got 3"),
        ({"initial": list(range(18))}, "unlabelled rows, 2, got 3"),
    ],
)
def test_bad_parameters_are_named(changed, message):
    initial = changed.pop("initial", None)
    design = pm.GreedyDesign(**{"feature_map": None, "n_select": 3, "alpha": 0.1, **changed})
    with pytest.raises((ValueError, TypeError), match=message):
        design.select(np.eye(20), initial=initial)


def test_a_design_over_the_budget_is_refused_before_it_is_formed():
    X = np.zeros((2000, 3), dtype=np.float32)
    phi = pm.FourierFeatures(n_components=500)
    with pm.config(memory="2MB"), pytest.raises(MemoryError, match="a design of 10 among 2000 rows x 500 components"):
        pm.GreedyDesign(phi, 10, 0.1).select(X)


def test_labels_of_the_design_teach_more_than_random_ones():
    """On digits, ridge regression on the same features; a design at random is the mutant."""
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    phi = pm.NTKFeatures(1, 512, random_state=0).fit(X)
    Z = phi.transform(X)

    def accuracy(rows: np.ndarray) -> float:
        K = Z[rows] @ Z[rows].T + 0.01 * np.eye(len(rows))
        scores = Z @ Z[rows].T @ np.linalg.solve(K, np.eye(10)[y[rows]] - 0.1)
        return float((scores.argmax(axis=1) == y).mean())

    chosen = pm.GreedyDesign(pm.NTKFeatures(1, 512, random_state=0), 60, 0.01).select(X)
    random = [accuracy(np.random.default_rng(seed).permutation(len(X))[:60]) for seed in range(20)]
    assert accuracy(chosen) > max(random)
