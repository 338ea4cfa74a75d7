"""Landmarks of a learner's map come from as many rows as the map asks for."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.features.nystroem.nystroem import FewLandmarksWarning
from phimap.kernels import Gaussian
from tests.support.learners import FIXED


def smooth(n_rows, rng):
    """Rows (n, 6) and a target that takes many landmarks."""
    X = rng.standard_normal((n_rows, 6))
    return X, np.sin(2 * X).sum(axis=1)


def landmarks(X, y, feature_map, **options):
    model = pm.KernelRegressor(feature_map, alpha=1e-3, random_state=0, **options, **FIXED).fit(X, y)
    return model.feature_map_.record_.landmarks, model


def test_more_landmarks_than_a_sample_of_rows(rng):
    X, y = smooth(4400, rng)
    found, _ = landmarks(X, y, pm.NystroemFeatures(Gaussian(2.0), 1100, random_state=0), standardize=False)
    assert len(found) == 1100
    rows = {tuple(row) for row in X}
    assert all(tuple(row) in rows for row in found)
    # Wider than the sample of 4,096 rows that learners keep; in float32, as that many take long.
    X = X.astype(np.float32)
    found, _ = landmarks(X, y, pm.NystroemFeatures(Gaussian(0.5), 4100, random_state=0), standardize=False)
    assert len(found) == 4100
    assert len(np.unique(found, axis=0)) == 4100


def test_the_sample_that_a_learner_keeps_stays_as_it_is(rng):
    X, y = smooth(6000, rng)
    narrow, wide = (
        landmarks(X, y, pm.NystroemFeatures(Gaussian(2.0), 64, landmarks=how, random_state=0))[1]
        for how in ("uniform", "rpcholesky")
    )
    np.testing.assert_array_equal(narrow._state.sample.keys, wide._state.sample.keys)
    assert wide._state.sample.X.shape[0] == 4096


def test_too_few_rows_are_told_with_their_number(rng):
    X, y = smooth(1200, rng)
    with pytest.warns(FewLandmarksWarning, match=r"`n_components`=1300 asks .* fit got 1200 rows: 100 features"):
        landmarks(X, y, pm.NystroemFeatures(Gaussian(), 1300, random_state=0))


@pytest.mark.data
@pytest.mark.parametrize("name", ["kin40k", "elevators"])
def test_a_learner_does_as_well_as_its_map_on_all_rows(name, data_dir):
    with np.load(data_dir / "uci_regression.npz") as arrays:
        X, y, fold = (arrays[f"{name}_{part}"] for part in ("X", "y", "fold"))
    train, test = np.flatnonzero(fold != 0)[:10_000], np.flatnonzero(fold == 0)
    kernel, centre, width = Gaussian(2.0), X[train].mean(axis=0), X[train].std(axis=0)

    def score(phi):
        return pm.KernelRegressor(phi, random_state=0, **FIXED).fit(X[train], y[train]).score(X[test], y[test])

    by_hand = pm.NystroemFeatures(kernel, 2048, random_state=0).fit((X[train] - centre) / width)
    few = by_hand.record_.landmarks[:1000]
    expected, before = (
        score(pm.NystroemFeatures(kernel, 2048, landmarks=rows)) for rows in (by_hand.record_.landmarks, few)
    )
    found = score(pm.NystroemFeatures(kernel, 2048, random_state=0))
    assert found > expected - 0.01
    # Mutant: what a learner did with a thousand rows.
    assert before < expected - 0.01
