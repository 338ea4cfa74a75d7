"""Low-precision features: unbiased, pure, and as small as they say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import phimap as pm
from phimap.features.low_precision.cosine_grid import cosine_grid, harmonics
from tests.support.statistics import is_mean

BITS = pytest.mark.parametrize("bits", [1, 2, 4, 8])


def rows(n=40, d=5):
    return np.random.default_rng(2).standard_normal((n, d))


def features(bits=4, width=96, **params):
    return pm.QuantizedFeatures(pm.FourierFeatures(n_components=width, random_state=0), bits, random_state=0, **params)


@BITS
def test_features_are_on_the_grid_next_to_those_of_the_map(bits):
    X = rows()
    phi = features(bits).fit(X)
    Z, exact = phi.transform(X), phi.feature_map_.transform(X)
    step = 2 * phi.scale_
    assert step == pytest.approx(2 / np.sqrt(48) / (2**bits - 1))
    codes = Z / step + (2**bits - 1) / 2
    np.testing.assert_allclose(codes, np.rint(codes), atol=1e-9)
    assert codes.min() > -0.5
    assert codes.max() < 2**bits - 0.5
    assert np.abs(Z - exact).max() <= step * (1 + 1e-9)
    packed = features(bits, packed=True).fit(X).transform(X)
    np.testing.assert_array_equal(packed.to_dense(), Z)
    assert packed.nbytes == 40 * 2 * 8 * bits
    integers = features(bits, output="integer").fit(X).transform(X)
    assert integers.dtype == (np.int16 if bits == 8 else np.int8)
    np.testing.assert_allclose(phi.scale_ * integers, Z, rtol=1e-12)


@BITS
def test_rounding_is_unbiased_and_so_is_the_kernel(bits, seed):
    """Over keys of the columns; false-alarm rate 1e-6, mutant: a shift by a quarter of a step."""
    X = rows(5)
    phi = features(bits, 8).fit(X)
    exact = phi.feature_map_.transform(X)
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(1000):
        phi.record_ = replace(phi.record_, dither=rng.integers(-(2**63), 2**63, 8))
        draws.append(phi.transform(X))
    draws = np.stack(draws)
    # Next to a point of the grid a thousand draws may all be that point.
    share = (exact / phi.scale_ + 2**bits - 1) / 2 % 1
    varied = (share > 0.05) & (share < 0.95)
    assert varied.mean() > 0.5
    assert is_mean(draws[:, varied], exact[varied])
    assert not is_mean(draws[:, varied], exact[varied] + phi.scale_ / 2)
    pairs = np.triu_indices(5, 1)
    grams = (draws @ draws.transpose(0, 2, 1))[:, pairs[0], pairs[1]]
    assert is_mean(grams, (exact @ exact.T)[pairs])


@pytest.mark.parametrize("pairing", ["pairs", "offset"])
@BITS
def test_the_nearest_points_estimate_the_kernel_and_narrow_copies_of_it(bits, pairing):
    """Over directions and phases; false-alarm rate 1e-6, mutant: the kernel alone, at one bit."""
    X = rows(6, 3) * 0.3
    reach, gain = cosine_grid(bits)
    k = np.arange(1, 400, 2)
    heights = np.square(gain * harmonics(reach, bits, 399))
    kernel = pm.kernels.Gaussian()
    wanted = sum(height * kernel(one * X) for one, height in zip(k, heights, strict=True))
    grams = []
    for seed in range(400):
        inner = pm.FourierFeatures(kernel, 64, pairing=pairing, projection="gaussian", random_state=seed)
        Z = pm.QuantizedFeatures(inner, bits, rounding="nearest", random_state=seed).fit_transform(X)
        grams.append(Z @ Z.T)
    pairs = np.triu_indices(6, 1)
    grams = np.stack(grams)[:, pairs[0], pairs[1]]
    assert is_mean(grams, wanted[pairs])
    if bits == 1:
        assert not is_mean(grams, kernel(X)[pairs])


@pytest.mark.parametrize(("bits", "excess"), [(1, np.pi**2 / 8 - 1), (2, 0.04373), (4, 0.00247), (8, 9.9e-6)])
def test_the_grid_of_cosines_is_the_best(bits, excess):
    """The oracle is a dense rule over a period, tried at other reaches."""
    reach, gain = cosine_grid(bits)
    t = (np.arange(200_000) + 0.5) * np.pi / 200_000

    def points(r):
        step = 2 * r / (2**bits - 1)
        return np.clip(np.rint((np.cos(t) + r) / step), 0, 2**bits - 1) * step - r

    def beyond(r):
        q = points(r)
        first = 2 * (q * np.cos(t)).mean()
        return 2 * np.square(q).mean() / first**2 - 1

    assert gain * 2 * (points(reach) * np.cos(t)).mean() == pytest.approx(1, rel=1e-5)
    assert beyond(reach) == pytest.approx(excess, rel=0.02)
    if bits > 1:
        assert beyond(reach) < min(beyond(reach * 0.95), beyond(min(reach * 1.05, 1.0)))
    # The series of harmonics has the same mean square as the points.
    heights = np.square(gain * harmonics(reach, bits, 4001))
    assert heights.sum() - 1 == pytest.approx(excess, rel=0.02, abs=3e-4)


def test_the_nearest_are_on_the_grid_and_packed_alike():
    X = rows()
    inner = pm.FourierFeatures(n_components=96, pairing="offset", random_state=0)
    phi = pm.QuantizedFeatures(inner, 2, rounding="nearest", random_state=0).fit(X)
    Z, exact = phi.transform(X), phi.feature_map_.transform(X)
    step = 2 * phi.scale_
    np.testing.assert_allclose(np.unique(Z), step * np.array([-1.5, -0.5, 0.5, 1.5]), rtol=1e-12)
    # None is farther than half a step but at the ends.
    reach, gain = cosine_grid(2)
    inside = np.abs(exact) <= reach / np.sqrt(48)
    assert np.abs(Z / gain - exact)[inside].max() <= step / gain / 2 * (1 + 1e-9)
    packed = pm.QuantizedFeatures(inner, 2, rounding="nearest", packed=True, random_state=0).fit_transform(X)
    np.testing.assert_array_equal(packed.to_dense(), Z)


def test_turned_pairs_have_the_inner_products_of_the_map():
    # At eight bits little is lost, and none of it is the turn's.
    X = rows()
    inner = pm.FourierFeatures(n_components=96, random_state=0)
    phi = pm.QuantizedFeatures(inner, 8, rounding="nearest", random_state=0).fit(X)
    Z, exact = phi.transform(X), phi.feature_map_.transform(X)
    np.testing.assert_allclose(Z @ Z.T, exact @ exact.T, atol=2e-3)
    assert np.abs(Z - exact).max() > 0.05


def test_a_row_is_rounded_by_its_content_alone():
    X = rows()
    phi = features(2).fit(X)
    Z = phi.transform(X)
    np.testing.assert_array_equal(phi.transform(X[::-1]), Z[::-1])
    shifted = np.where(np.abs(X) < 0.5, 0.0, X)
    np.testing.assert_array_equal(phi.transform(sparse.csr_array(shifted)), phi.transform(shifted))
    # Minus zero is zero.
    np.testing.assert_array_equal(phi.transform(np.where(shifted == 0, -0.0, shifted)), phi.transform(shifted))


def test_map_without_a_seed_takes_one_from_the_rounding():
    X = rows()
    phi = pm.QuantizedFeatures(pm.FourierFeatures(n_components=16), random_state=5)
    np.testing.assert_array_equal(phi.fit(X).transform(X), phi.fit(X).transform(X))
    assert phi.feature_map.random_state is None


@pytest.mark.parametrize(
    ("phi", "error", "message"),
    [
        (features(rounding="up"), ValueError, r"`rounding` must be one of .*, got 'up'"),
        (features(rounding="nearest", width=95), ValueError, r"`feature_map` must give cosines of one height .* Use "),
        (pm.QuantizedFeatures(pm.TernaryFeatures(), rounding="nearest"), ValueError, r"must give cosines"),
        (features(3), ValueError, r"`bits` must be 1, 2, 4 or 8, got 3"),
        (pm.QuantizedFeatures(pm.ArcCosineFeatures(1)), ValueError, r"`feature_map` must be bounded"),
        (pm.QuantizedFeatures(pm.kernels.Gaussian()), AttributeError, r"n_components"),
    ],
)
def test_bad_parameters_name_the_remedy(phi, error, message):
    with pytest.raises(error, match=message):
        phi.fit(rows())
