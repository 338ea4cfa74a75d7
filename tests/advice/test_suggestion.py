"""Advice: which map and width, against what the advised map then does."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import phimap as pm


@pytest.fixture
def X(rng):
    return rng.standard_normal((400, 6))


def test_advice_is_fixed_by_its_seed(X):
    first, again, other = (pm.suggest(X, error=0.05, random_state=seed) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert first.feature_map.get_params()["n_components"] == again.n_components


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "ntk", "arccosine", "polynomial"])
def test_advised_map_reaches_what_is_promised(X, kernel):
    advice = pm.suggest(X, kernel, error=0.2)
    assert advice.reached
    assert advice.predicted_error <= 0.2
    measured = pm.metrics.relative_error(advice.feature_map, X)
    # The prediction is the root mean square of three draws, each within a factor of two of its own mean.
    assert measured < 2 * 0.2


def test_extrapolation_is_right_for_independent_features(X):
    kernel = pm.kernels.Gaussian(length_scale=2.0)
    phi = pm.FourierFeatures(kernel, projection="gaussian")
    advice = pm.suggest(X, phi, error=0.03)
    assert not advice.others
    measured = [
        pm.metrics.relative_error(
            pm.FourierFeatures(kernel, advice.n_components, projection="gaussian", random_state=seed), X
        )
        for seed in range(6)
    ]
    assert advice.n_components > 512
    assert np.sqrt(np.mean(np.square(measured))) == pytest.approx(0.03, rel=0.25)
    assert advice.chosen.rate == pytest.approx(0.5, abs=0.2)


def test_smaller_errors_take_more_components(X):
    widths = [pm.suggest(X, error=error).n_components for error in (0.2, 0.1, 0.05)]
    assert widths == sorted(widths)


def test_smooth_kernels_go_to_nystroem_and_rough_ones_do_not(rng):
    # Rows on a line have a kernel of low rank; far-apart rows have nearly the identity.
    line = np.outer(rng.standard_normal(400), np.ones(5))
    assert pm.suggest(line, pm.kernels.Gaussian(length_scale=5.0), error=0.001).chosen.method == "NystroemFeatures"
    far = 10 * rng.standard_normal((400, 20))
    assert pm.suggest(far, pm.kernels.Gaussian(), error=0.5).chosen.method == "FourierFeatures"


def test_a_budget_too_small_is_said(X):
    # 64 components of 400 rows in float64.
    advice = pm.suggest(X, pm.kernels.Laplacian(), error=0.001, memory=64 * 400 * 8)
    assert not advice.reached
    assert advice.n_components <= 64
    assert advice.chosen.n_bytes <= advice.memory
    assert "ends before the error is reached" in str(advice)


def test_text_names_map_width_error_and_law(X):
    advice = pm.suggest(X, error=0.1)
    text = str(advice)
    assert advice.chosen.method in text
    assert f"{advice.n_components:,} components" in text
    assert "1/sqrt(m)" in text
    assert "400 rows x 6 columns" in text


def test_columns_of_different_units_are_also_advised_as_learners_scale_them(X):
    kernel, units = pm.kernels.Gaussian(length_scale=2.0), np.array([0.01, 1, 5, 20, 300, 1000])
    plain = pm.suggest(X, kernel)
    assert plain.standardized is None
    assert pm.suggest(sparse.csr_matrix(X * units), kernel).standardized is None
    advice = pm.suggest(X * units, kernel)
    # The rows are so far apart that the kernel matrix is nearly the identity.
    assert advice.n_components > 20 * plain.n_components
    assert advice.standardized.n_components == pytest.approx(plain.n_components, rel=0.3)
    assert "Learners standardise them by default, which needs\n  " + str(advice.standardized) in str(advice)
    constant = np.column_stack([X, np.ones(400)])
    assert pm.suggest(constant, kernel).standardized is None


def test_layouts_agree(X):
    expected = pm.suggest(X, pm.kernels.Gaussian(length_scale=2.0))
    from_csr = pm.suggest(sparse.csr_matrix(X), pm.kernels.Gaussian(length_scale=2.0))
    assert from_csr.n_components == pytest.approx(expected.n_components, abs=2)
    halved = pm.suggest(X.astype(np.float32), pm.kernels.Gaussian(length_scale=2.0))
    assert halved.chosen.n_bytes == 4 * 400 * halved.n_components


def test_input_is_left_alone(X):
    before = X.copy()
    phi = pm.FourierFeatures(n_components=32)
    pm.suggest(X, phi)
    np.testing.assert_array_equal(X, before)
    assert phi.n_components == 32
    assert not hasattr(phi, "record_")


def test_slow_nystroem_features_are_not_promised_a_fast_rate(rng):
    # Rough kernel, scattered rows: the eigenvalues fall slowly, and so does the error.
    X = rng.standard_normal((1000, 8))
    advice = pm.suggest(X, pm.NystroemFeatures(pm.kernels.Laplacian(length_scale=2.0)), error=0.05)
    assert advice.chosen.rate < 0.4
    assert not advice.reached
    narrow, wide = advice.chosen.errors
    assert advice.predicted_error > wide * 0.5**0.5
    assert narrow > wide


def test_bad_arguments_name_the_rule(X):
    with pytest.raises(ValueError, match=r"`error` must be greater than 0.0, got 0.0"):
        pm.suggest(X, error=0)
    with pytest.raises(ValueError, match="`kernel` must be one of"):
        pm.suggest(X, "cubic")
    with pytest.raises(ValueError, match="minimum of 4 is required"):
        pm.suggest(X[:3])
    with pytest.raises(ValueError, match="`memory` must hold at least one component of all rows, 3200 bytes"):
        pm.suggest(X, memory=3000)


def test_frames_are_encoded_as_learners_encode_them(X, rng):
    frame = pd.DataFrame(X).rename(columns=str).assign(town=rng.choice(["Bern", "Chur", None], len(X)))
    frame.iloc[0, 0] = None
    found, expected = pm.suggest(frame), pm.suggest(pm.TableEncoder().fit_transform(frame))
    assert (found.chosen, found.others, found.n_rows) == (expected.chosen, expected.others, expected.n_rows)
    # The encoder has scaled the columns.
    assert found.standardized is None
    assert expected.standardized is not None
