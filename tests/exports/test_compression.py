"""Smaller models: their size, their change, what they keep, and refusals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

import phimap as pm
from phimap.exports import compression
from phimap.learn.corrections.corrections import moved_rows
from tests.exports.conftest import model_of, numbers

TOLERANCE = 0.02


def wide() -> tuple[Any, np.ndarray]:
    """A model with more features than its smooth target needs, and new rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4))
    y = np.stack([np.sin(X[:, 0]) + X[:, 1], 100 * X[:, 2]], axis=1)
    model = pm.KernelRegressor("gaussian", 512, metric=None, length_scale=4.0, random_state=0).fit(X, y)
    return model, rng.standard_normal((500, 4))


def change(model: Any, small: Any, X: np.ndarray) -> float:
    before, after = (getattr(one, "decision_function", one.predict)(X) for one in (model, small))
    return float((np.sqrt(np.square(after - before).mean(axis=0)) / before.std(axis=0)).max())


def size(model: Any, path: Path) -> int:
    pm.save(model, path)
    return path.stat().st_size


def test_fewer_fourier_features(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    model, X = wide()
    kept = model.predict(X)
    small = pm.compress(model, TOLERANCE)
    assert 0 < change(model, small, X) < 2 * TOLERANCE
    assert small.feature_map_.record_.n_components == small.feature_map_.n_components < 128
    assert size(small, tmp_path / "small") < 0.4 * size(model, tmp_path / "whole")
    assert_array_equal(model.predict(X), kept)
    said = capsys.readouterr().err
    assert re.search(r"512 features became \d+, .*kB became .*kB; outputs change by 0\.0\d+ of", said)
    assert_array_equal(pm.load(tmp_path / "small").predict(X), small.predict(X))
    pm.export(small, tmp_path / "folder", format="numpy")


def test_a_larger_tolerance_gives_a_smaller_model() -> None:
    model, _ = wide()
    widths = [pm.compress(model, tolerance, verbose=False).coef_.shape[1] for tolerance in (0.003, 0.03, 0.3)]
    assert widths[0] > widths[1] > widths[2]


def test_fewer_landmarks(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 3))
    features = pm.NystroemFeatures(pm.kernels.Gaussian(3.0), 400)
    model = pm.KernelRegressor(features, alpha=1.0, random_state=0).fit(X, np.sin(X[:, 0]) + X[:, 1])
    small, new = pm.compress(model, TOLERANCE, verbose=False), rng.standard_normal((300, 3))
    assert len(small.feature_map_.record_.landmarks) < 100
    assert change(model, small, new) < 2 * TOLERANCE
    assert size(small, tmp_path / "small") < 0.5 * size(model, tmp_path / "whole")


def test_corrections_that_change_little_are_dropped() -> None:
    model = model_of("corrected")
    loose = pm.compress(model, 0.9, verbose=False)
    tight = pm.compress(model, 1e-4, verbose=False)
    assert loose.corrections_ is None or len(loose.corrections_.rows) < len(model.corrections_.rows)
    assert len(tight.corrections_.rows) == len(model.corrections_.rows)


def test_dropped_regions_correct_nothing_and_other_regions_as_before() -> None:
    """Regions of two partitions, so that rows of a dropped region serve the other partition."""
    record, X = model_of("corrected").corrections_, np.random.default_rng(0).uniform(-1, 1, (200, 3))
    dropped = np.zeros((len(record.models), record.n_regions), bool)
    dropped[0, 1:4], dropped[1, :6] = True, True
    small, expected = compression._without_regions(record, dropped), np.zeros((200, 1))
    for model, some in zip(record.models, dropped, strict=True):
        kept = ~some[model.partition.assign(moved_rows(X, record.root))]
        expected[kept] += record.outputs_of(model, moved_rows(X, record.root), 1)[kept]
    np.testing.assert_allclose(small.outputs(X, 1), expected, atol=1e-12)
    assert len(small.rows) < len(record.rows)
    # Without a region of the second partition, its model is left out.
    dropped[1] = True
    assert len(compression._without_regions(record, dropped).models) == len(record.models) - 1
    assert compression._without_regions(record, np.ones_like(dropped)) is None


@pytest.mark.parametrize("name", ["ntk", "ternary", "three classes", "seconds", "frame"])
def test_every_model_stays_within_the_tolerance(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    small = pm.compress(model, TOLERANCE, verbose=False)
    X = model._state.sample.first(400)[0]
    assert change(model, small, X) <= 2 * TOLERANCE
    assert size(small, tmp_path / "small") < size(model, tmp_path / "whole")
    assert type(small) is type(model)


def test_loaded_models_need_rows(tmp_path: Path) -> None:
    model, X = wide()
    pm.save(model, tmp_path / "m")
    loaded = pm.load(tmp_path / "m")
    with pytest.raises(ValueError, match="`X` must be given for a model that keeps no sample"):
        pm.compress(loaded)
    small = pm.compress(loaded, TOLERANCE, X=X, verbose=False)
    assert change(model, small, X) <= TOLERANCE
    with pytest.raises(ValueError, match="`return_std` needs the sums"):
        small.predict(X, return_std=True)


def test_refusals() -> None:
    X, _ = numbers()
    model, _ = wide()
    with pytest.raises(TypeError, match="must be a KernelRegressor"):
        pm.compress(pm.FourierFeatures())
    with pytest.raises(NotFittedError):
        pm.compress(pm.KernelRegressor())
    for tolerance in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="`tolerance`"):
            pm.compress(model, tolerance)
    with pytest.raises(ValueError, match="at least 64 rows, got 10"):
        pm.compress(model_of("gaussian"), X=X[:10])
