"""CNTKSketch: its error and how it falls, images however they come, parts of images, zero windows."""

from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from sklearn.base import clone

import phimap as pm
from phimap.features.cntk.parts import ProductRecord, WindowRecord, draw_remainder
from phimap.features.cntk.pixels import Pixels
from phimap.features.cntk.powers import fitted_weights
from phimap.features.cntk.units import units_of
from phimap.kernels import LeakyReLU, kappa0, kappa1
from phimap.kernels.wide_layers import wide_layer
from phimap.ops import ops_for
from tests.support.learners import FIXED
from tests.support.memory import traced
from tests.support.statistics import is_mean, is_slope


def images(n=10, shape=(8, 8, 3), seed=0):
    """Smooth images, as pictures are: neighbouring patches are alike."""
    draws = np.random.default_rng(seed).normal(size=(n, *shape))
    return gaussian_filter(draws, (0, 1, 1, 0)) + 0.3 * np.random.default_rng(seed + 1).normal(size=(n, 1, 1, shape[2]))


def relative_error(phi, X):
    Z, K = phi.fit_transform(X), phi.kernel_(X)
    return np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)


@pytest.mark.parametrize(
    "options",
    [
        {"depth": 2},
        {"depth": 3},
        {"depth": 4},
        {"depth": 2, "filter_size": 1},
        {"depth": 3, "filter_size": 5},
        {"depth": 3, "pooling": "flatten"},
        {"depth": 3, "degree": 8},
        {"depth": 3, "degree": 8, "activation": "abs"},
        *({"depth": depth, "activation": unit} for depth in (2, 3) for unit in ("abs", LeakyReLU(0.3), "erf", "gelu")),
        {"depth": 3, "activation": "softplus"},
        {"depth": 3, "activation": np.tanh},
        {"depth": 3, "activation": "gelu", "pooling": "flatten"},
        {"depth": 3, "activation": "erf", "pooling": "flatten"},
    ],
    ids=str,
)
def test_estimates_the_kernel(options):
    """Mutants: the kernels of another depth and of another activation."""
    X = images(6)
    phi = pm.CNTKSketch(n_components=2048, random_state=0, **options)
    error = relative_error(phi, X)
    # Twice what is measured, and more without pooling, where no mean over pixels takes noise away.
    assert error < (0.2 if phi.pooling == "flatten" else 0.12)
    # Another depth, or the ReLU: the kernels of abs of depths 3 and 4 are alike.
    other = {"depth": phi.depth + 1} if phi.activation == "relu" else {"activation": "relu"}
    Z, mutant = phi.transform(X), clone(phi).set_params(**(other | {"degree": None})).fit(X).kernel_(X)
    assert np.linalg.norm(Z @ Z.T - mutant) > 1.3 * error * np.linalg.norm(mutant)


@pytest.mark.slow
def test_error_falls_like_one_over_root_of_the_width():
    """False-alarm rate 1e-6; the slope of another law, -1/4, is refused."""
    X = images(12, (5, 5, 3))
    K = pm.kernels.CNTK(3)(X)
    widths = np.repeat([256, 512, 1024, 2048, 4096], 12)
    features = (
        pm.CNTKSketch(3, n_components=int(m), random_state=seed).fit_transform(X) for seed, m in enumerate(widths)
    )
    errors = [np.linalg.norm(Z @ Z.T - K) for Z in features]
    assert is_slope(np.log(widths), np.log(errors), -0.5)
    assert not is_slope(np.log(widths), np.log(errors), -0.2)


def test_images_flat_rows_bytes_and_sparse_rows_are_one_map():
    from scipy import sparse

    X = np.random.default_rng(0).integers(0, 256, size=(5, 6, 4, 3)).astype(np.uint8)
    X[X < 100] = 0
    phi = pm.CNTKSketch(2, n_components=64, random_state=0).fit(X)
    Z = phi.transform(X)
    assert Z.dtype == np.float32
    rows = X.reshape(5, -1).astype(np.float32)
    np.testing.assert_array_equal(phi.transform(X.astype(np.float32)), Z)
    np.testing.assert_array_equal(phi.transform(rows), Z)
    np.testing.assert_array_equal(phi.transform(sparse.csr_array(rows)), Z)
    named = pm.CNTKSketch(2, n_components=64, image_shape=(6, 4, 3), random_state=0).fit(rows)
    np.testing.assert_array_equal(named.transform(rows), Z)
    np.testing.assert_array_equal(np.concatenate(list(phi.transform_batches(X, 2))), Z)
    torch = pytest.importorskip("torch")
    np.testing.assert_allclose(phi.transform(torch.tensor(X)).numpy(), Z, rtol=1e-3, atol=1e-3 * np.abs(Z).max())


def test_other_shapes_are_refused():
    X = images(4)
    phi = pm.CNTKSketch(2, n_components=16).fit(X)
    with pytest.raises(ValueError, match=r"seen in fit, \(8, 8, 3\), got \(8, 4, 6\)"):
        phi.transform(X.reshape(4, 8, 4, 6))
    for options, message in (
        ({"depth": 1}, "`depth` must be at least 2"),
        ({"filter_size": 2}, "`filter_size` must be odd"),
        ({"pooling": "max"}, "`pooling`"),
        ({"degree": 1}, "`degree` must be at least 2"),
        ({"image_shape": (2, 2)}, "`image_shape` must hold"),
    ):
        with pytest.raises(ValueError, match=message):
            pm.CNTKSketch(**options).fit(X.reshape(4, -1))


@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_parts_of_images_add_up_to_the_whole(pooling):
    """A budget too small for an image: it is worked on in parts, with the pixels that reach into them."""
    X = images(2, (24, 20, 2))
    phi = pm.CNTKSketch(2, n_components=32, pooling=pooling, random_state=0).fit(X)
    whole = phi.transform(X)
    with pm.config(memory=8 * 4 * 12 * 12 * phi.record_._stored_width * 8, n_jobs=1):
        assert len(list(phi.record_._regions(ops_for(X), 1))) > 4
        in_parts = phi.transform(X)
    np.testing.assert_allclose(in_parts, whole, atol=1e-12 * np.abs(whole).max())


def test_memory_stays_within_the_budget_for_any_size():
    phi = pm.CNTKSketch(2, n_components=64, random_state=0, n_jobs=1)
    for shape in ((32, 32, 3), (160, 160, 3)):
        X = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
        phi.fit(X).transform(X[:1])
        with pm.config(memory="24MB", n_jobs=1):
            assert traced(partial(phi.transform, X)).peak < 24 * 2**20


def test_zero_windows_and_zero_images_give_zero_not_nan():
    X = images(4, (9, 9, 2))
    X[0, :6] = 0
    X[1] = 0
    phi = pm.CNTKSketch(3, n_components=1024, random_state=0)
    Z = phi.fit_transform(X)
    assert np.isfinite(Z).all()
    assert not Z[1].any()
    assert relative_error(phi, X) < 0.2


@pytest.mark.parametrize("activation", ["relu", "abs", "erf", "gelu", "softplus"])
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_lengths_are_exact(depth, activation):
    """A pixel's features have the length that the kernel of equal pixels gives, whatever was drawn."""
    X = np.random.default_rng(0).normal(size=(5, 1, 1, 3))
    options = {"n_components": 1024, "hidden_components": 64, "random_state": 0}
    phi = pm.CNTKSketch(depth, 1, activation=activation, **options)
    Z = phi.fit_transform(X)
    # Slopes of others are those of a function smoothed over a 64th.
    tolerance = 1e-9 if activation in ("relu", "abs") else 1e-4
    np.testing.assert_allclose(np.square(Z).sum(axis=1), phi.kernel_.diag(X), rtol=tolerance)
    assert relative_error(phi, X) > 1e-3


@pytest.mark.parametrize("options", [{}, {"degree": 3}, {"pooling": "flatten"}, {"activation": "gelu"}])
def test_tensors_stay_on_their_device(options):
    """While features are computed no tensor is read by the host; what the mode sees is checked on `to_host`."""
    torch = pytest.importorskip("torch")
    from torch.overrides import TorchFunctionMode

    class Reads(TorchFunctionMode):
        found: ClassVar[set[str]] = set()
        names: ClassVar[set[str]] = {"cpu", "numpy", "item", "tolist", "__bool__", "__int__", "__float__", "__array__"}

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.found |= {func.__name__} & self.names
            return func(*args, **(kwargs or {}))

    X = torch.tensor(images(3).astype(np.float32))
    phi = pm.CNTKSketch(3, n_components=256, random_state=0, **options).fit(X)
    rows = X.reshape(3, -1)
    ops = ops_for(rows)
    record, out = phi.record_.bind(ops), ops.empty((3, 256))
    with Reads():
        record.apply(ops, rows, out)
    assert not Reads.found
    np.testing.assert_allclose(out.numpy(), phi.transform(X).numpy(), rtol=1e-5, atol=1e-5)
    with Reads():
        ops.to_host(out)
    assert "cpu" in Reads.found


def test_homogeneous():
    X = images(3).astype(np.float32)
    phi = pm.CNTKSketch(2, n_components=64, random_state=0).fit(X)
    Z = phi.transform(X)
    for scale in (2.0**60, 2.0**-60):
        np.testing.assert_allclose(phi.transform(X * np.float32(scale)) / scale, Z, rtol=1e-4, atol=1e-5)


def test_time_is_counted_in_pixels():
    """Twice the pixels, twice the calls of every step: work is linear in pixels by construction."""
    widths = [
        pm.CNTKSketch(3, n_components=256).fit(images(1, (side, side, 3))).record_.scratch_width for side in (8, 16)
    ]
    assert widths[1] == 4 * widths[0]


def test_exact_windows_are_direct_sums():
    X = images(2, (4, 5, 3)).reshape(-1, 3)
    ops = ops_for(X)
    window = WindowRecord.draw(3, 3, 3, 1000, 8, np.random.default_rng(0)).bind(ops)
    found = window.apply(ops, Pixels((4, 5), X), slice(0, 40)).reshape(2, 4, 5, 3, 3, 3)
    padded = np.pad(X.reshape(2, 4, 5, 3), ((0, 0), (1, 1), (1, 1), (0, 0)))
    for a in range(3):
        for b in range(3):
            np.testing.assert_array_equal(found[:, :, :, a, b], padded[:, a : a + 4, b : b + 5])
    some = window.apply(ops, Pixels((4, 5), X), slice(13, 29))
    np.testing.assert_array_equal(some, found.reshape(40, -1)[13:29])


def test_folded_windows_and_products_are_unbiased():
    """False-alarm rate 1e-6; mutant: one part in a hundred more."""
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(9, 6)), rng.normal(size=(9, 5))
    ops = ops_for(X)
    estimates, products = [], []
    for seed in range(1500):
        window = WindowRecord.draw(3, 2, 6, 4, 16, np.random.default_rng(seed)).bind(ops)
        folded = window.apply(ops, Pixels((3, 3), window.prepare(ops, X)), slice(0, 9))
        estimates.append(folded @ folded.T)
        product = ProductRecord.draw((6, 5), 32, 4, np.random.default_rng(seed)).bind(ops)
        first, second = product.transforms(ops, X, Y)
        linear, tensor = product.linear(first), product.products(ops, first, second)
        products.append(np.stack([linear @ linear.T, tensor @ tensor.T]))
    plain = WindowRecord.draw(3, 6, 6, 1000, 16, np.random.default_rng(0)).bind(ops)
    direct = plain.apply(ops, Pixels((3, 3), X), slice(0, 9))
    assert is_mean(np.array(estimates), direct @ direct.T)
    expected = np.stack([X @ X.T, (X @ X.T) * (Y @ Y.T)])
    assert is_mean(np.array(products), expected)
    assert not is_mean(np.array(products), 1.3 * expected)


@pytest.mark.parametrize(("order", "kappa"), [(1, kappa1), (0, kappa0)])
def test_remainder_features_are_kappa_beyond_degree_one(order, kappa):
    """False-alarm rate 1e-6; mutant: a factor."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 16))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    cosine = X @ X.T
    low = 1 / np.pi + cosine / 2 if order else 0.5 + cosine / np.pi
    ops, samples = ops_for(X), []
    for seed in range(300):
        record = draw_remainder(order, 16, 512, np.random.default_rng(seed)).bind(ops)
        out = np.empty((6, 512))
        record.apply(ops, X, out)
        samples.append(out @ out.T)
    remainder = kappa(np.clip(cosine, -1, 1)) - low
    assert is_mean(np.array(samples), remainder)
    assert not is_mean(1.1 * np.array(samples), remainder)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("activation", ["abs", LeakyReLU(0.3), "erf", "gelu", "cos"])
def test_remainder_features_of_units_are_their_duals_beyond_degree_one(activation, order):
    """Six standard errors, beyond the bias of slopes smoothed over a 64th; mutant: a factor."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 16))
    lengths = np.linspace(0.3, 2.0, 6)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    layer = wide_layer(activation)
    units, ops, samples = units_of(layer, activation), ops_for(X), []
    moments = units.moments(ops, lengths)
    for seed in range(300):
        record = units.draw(order, 16, 512, np.random.default_rng(seed)).bind(ops)
        out = np.empty((6, 512))
        record.apply(ops, units.entering(ops, unit, lengths), out)
        if order:
            units.scale_values(ops, out, lengths)
        samples.append(out @ out.T)
    angle = np.arccos(np.clip(unit @ unit.T, -1, 1))
    np.fill_diagonal(angle, 0)
    dual = layer.gain * (layer.covariance if order else layer.slopes)(lengths[:, None], lengths, angle)
    constant, linear = moments[:2] if order else moments[2:4]
    low = np.outer(constant, constant) + np.outer(linear, linear) * np.cos(angle)
    energies = moments.energy if order else moments.slope_energy
    np.testing.assert_allclose(energies, dual.diagonal(), rtol=1e-4)
    mean, spread = np.mean(samples, axis=0), np.std(samples, axis=0) / 300**0.5
    assert (np.abs(mean - (dual - low)) < 6 * spread + 1e-4 * dual.max()).all()
    assert (np.abs(1.2 * mean - (dual - low)) > 6 * spread + 1e-4 * dual.max()).any()


@pytest.mark.parametrize("activation", ["erf", "gelu"])
def test_files_hold_other_units(activation, tmp_path):
    X = images(3)
    phi = pm.CNTKSketch(3, n_components=64, activation=activation, random_state=0).fit(X)
    pm.save(phi, tmp_path / "map.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "map.phimap").transform(X), phi.transform(X))


def test_what_other_units_lack_is_refused():
    X = images(3)
    with pytest.raises(ValueError, match="`degree` must be None for activation='erf'"):
        pm.CNTKSketch(activation="erf", degree=8).fit(X)
    with pytest.raises(ValueError, match="`activation` must be 'relu' for construction='published', got 'abs'"):
        pm.CNTKSketch(activation="abs", construction="published").fit(X)
    with pytest.raises(ValueError, match="`activation` must have a derivative"):
        pm.CNTKSketch(activation="step").fit(X)


def test_fitted_weights_are_the_kappas():
    for order, kappa in ((1, kappa1), (0, kappa0)):
        for layer, low in ((1, -1.0), (2, 0.0)):
            t = np.linspace(low, 1, 201)
            weights = fitted_weights(order, layer, 12)
            assert min(weights.values()) > 0
            fitted = sum(a * t**p for p, a in weights.items()) + (1 / np.pi + t / 2 if order else 0.5 + t / np.pi)
            error = np.abs(fitted - kappa(t))
            assert error[-1] < 1e-3
            assert error.max() < (0.01 if order else 0.07)


@pytest.mark.parametrize("kernel", [pm.kernels.CNTK(2), pm.NystroemFeatures(pm.kernels.CNTK(2), 64)])
def test_classifier_takes_images(kernel, tmp_path):
    """Bars of one direction or the other anywhere: no pixel tells them apart, windows do."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(scale=0.3, size=(300, 8, 8, 1)), rng.integers(2, size=300)
    for image, label, place in zip(X, y, rng.integers(8, size=300), strict=True):
        image[(place, slice(None)) if label else (slice(None), place)] += 1.0
    model = pm.KernelClassifier(kernel, n_components=256, standardize="global", random_state=0, **FIXED)
    assert model.fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.9
    assert model.kernel_.image_shape == (8, 8, 1)
    pm.save(model, tmp_path / "model.phimap")
    loaded = pm.load(tmp_path / "model.phimap")
    np.testing.assert_array_equal(loaded.predict(X[200:]), model.predict(X[200:].reshape(100, -1)))
    linear = pm.KernelClassifier("arccosine", n_components=256, standardize="global", random_state=0, **FIXED)
    assert linear.fit(X[:200], y[:200]).score(X[200:], y[200:]) < model.score(X[200:], y[200:])
