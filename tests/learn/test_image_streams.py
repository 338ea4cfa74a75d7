"""Streams of images (r, h, w, c): as good as arrays, and checked like them."""

import numpy as np
import pytest

import phimap as pm
from tests.support.learners import FIXED


class Tiles:
    """Images and labels in tiles of a few."""

    def __init__(self, X, y, rows=7):
        self.X, self.y, self.rows = X, y, rows

    def __iter__(self):
        for start in range(0, len(self.X), self.rows):
            yield self.X[start : start + self.rows], self.y[start : start + self.rows]


@pytest.fixture
def bars(rng):
    """Images of bytes with a bar across or down, and which."""
    X = rng.integers(0, 60, (40, 5, 6, 3), dtype=np.uint8)
    y = np.where(np.arange(40) % 2, "across", "down")
    for image, label, place in zip(X, y, rng.integers(5, size=40), strict=True):
        image[(place, slice(None)) if label == "across" else (slice(None), place)] += 150
    return X, y


def classifier():
    kernel = pm.kernels.CNTK(depth=2)
    return pm.KernelClassifier(kernel, n_components=128, standardize="global", random_state=0, **FIXED)


def test_a_stream_gives_the_model_of_the_array(bars):
    X, y = bars
    streamed, whole = classifier().fit_batches(Tiles(X, y)), classifier().fit(X, y)
    assert streamed.kernel_.image_shape == streamed.image_shape_ == (5, 6, 3)
    # Moments merged in another order differ by rounding.
    np.testing.assert_allclose(streamed.decision_function(X), whole.decision_function(X), rtol=1e-3, atol=1e-4)
    predicted = np.concatenate([streamed.predict(tile) for tile, _ in Tiles(X, y, 9)])
    np.testing.assert_array_equal(predicted, whole.predict(X))
    assert (predicted == y).mean() > 0.9


def test_bytes_and_floats_are_the_same_images(bars):
    X, y = bars
    of_bytes, of_floats = (
        classifier().fit_batches(Tiles(X, y)),
        classifier().fit_batches(Tiles(X.astype(np.float32), y)),
    )
    np.testing.assert_array_equal(of_bytes.decision_function(X), of_floats.decision_function(X))


def test_kernels_on_flat_rows_take_them_too(bars):
    X, y = bars
    model = pm.KernelClassifier("gaussian", n_components=64, standardize="global", random_state=0, **FIXED)
    flat = model.fit_batches(Tiles(X.reshape(40, -1).astype(np.float32), y)).decision_function(X)
    np.testing.assert_array_equal(model.fit_batches(Tiles(X, y)).decision_function(X), flat)


def test_other_shapes_are_refused_in_mid_stream_and_in_predict(bars):
    X, y = bars
    turned = X.swapaxes(1, 2).copy()
    with pytest.raises(ValueError, match=r"images of the shape seen in fit, \(5, 6, 3\), got \(6, 5, 3\)"):
        classifier().fit_batches([(X[:20], y[:20]), (turned[20:], y[20:])])
    model = classifier().fit_batches(Tiles(X, y))
    with pytest.raises(ValueError, match=r"images of the shape seen in fit, \(5, 6, 3\), got \(6, 5, 3\)"):
        model.predict(turned)


def test_the_kernel_by_name(bars):
    X, y = bars
    model = pm.KernelClassifier("cntk", n_components=128, standardize="global", random_state=0, **FIXED).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), classifier().fit(X, y).decision_function(X))
