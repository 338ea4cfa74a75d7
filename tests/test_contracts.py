"""What every feature map and sketch promises, tested over the registry."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import phimap as pm
from phimap import random_map
from phimap.ops import numpy_ops
from tests.support.families import BIASED_MAPS, DATA_DEPENDENT_MAPS, MAPS, ZERO_ROW_VARIES
from tests.support.statistics import FALSE_ALARM, enough_samples, is_mean, kernel_estimates

EVERY_MAP = pytest.mark.parametrize("name", MAPS)

# The first entry of each class: the checks look at what its entries have in common, and take minutes for all of them.
CHECKED = list({type(phi): phi for phi in reversed(MAPS.values())}.values())


@parametrize_with_checks(CHECKED)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def rows(n: int, d: int = 5, dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng(7).standard_normal((n, d)).astype(dtype)


def targets(X: np.ndarray) -> np.ndarray:
    """A smooth function of the rows, for the maps that learn from targets; the others ignore it."""
    return np.sin(np.asarray(X.sum(axis=1)).ravel())


def fitted(name: str, X: np.ndarray) -> random_map.RandomMap:
    return clone(MAPS[name]).fit(X, targets(X))


def width(phi: random_map.RandomMap) -> int:
    """The output width asked for."""
    return phi.output_width(phi.n_features_in_)


def rounding(Z: np.ndarray) -> float:
    """A bound on the rounding of features: a few hundred operations on values of the size of `Z`."""
    return 500 * np.finfo(Z.dtype).eps * max(1.0, float(np.abs(Z).max()))


@EVERY_MAP
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_width_and_dtype(name, dtype):
    X = rows(100, dtype=dtype)
    before = X.copy()
    phi = fitted(name, X)
    Z = phi.transform(X)
    assert Z.shape == (100, width(phi))
    assert Z.dtype == dtype
    assert np.isfinite(Z).all()
    np.testing.assert_array_equal(X, before)


@EVERY_MAP
def test_single_precision_is_double_precision_rounded(name):
    X = rows(100, dtype=np.float32)
    phi = fitted(name, X)
    single, double = phi.transform(X), phi.transform(X.astype(np.float64))
    # Steps and rectified projections jump or kink at zero: there a rounded projection may fall on the other side.
    differs = np.abs(single - double) > 40 * rounding(single)
    assert differs.mean() < 1e-3


@EVERY_MAP
def test_number_of_threads_changes_no_bit(name, monkeypatch):
    monkeypatch.setattr(numpy_ops.NumpyOps, "least_tile_rows", 16)
    monkeypatch.setattr(numpy_ops.NumpyOps, "tile_bytes", 1)
    X = rows(150)
    phi = fitted(name, X)
    one, two = (phi.set_params(n_jobs=n_jobs).transform(X) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(
        one, clone(phi).fit(X, targets(X)).transform(X), err_msg="the same seed gave another map"
    )


@EVERY_MAP
def test_tiles_and_slices_agree_to_rounding(name, monkeypatch):
    X = rows(150)
    phi = fitted(name, X)
    whole = phi.transform(X)
    np.testing.assert_allclose(phi.transform(X[37:111]), whole[37:111], atol=rounding(whole))
    np.testing.assert_allclose(phi.transform(X[5:6]), whole[5:6], atol=rounding(whole))
    np.testing.assert_allclose(np.concatenate(list(phi.transform_batches(X, 71))), whole, atol=rounding(whole))
    monkeypatch.setattr(numpy_ops.NumpyOps, "least_tile_rows", 16)
    monkeypatch.setattr(numpy_ops.NumpyOps, "tile_bytes", 1)
    np.testing.assert_allclose(phi.transform(X), whole, atol=rounding(whole))


@EVERY_MAP
def test_sparse_input_is_dense_input(name):
    X = rows(100)
    X[np.abs(X) < 0.8] = 0
    phi = fitted(name, X)
    dense = phi.transform(X)
    np.testing.assert_allclose(phi.transform(sparse.csr_matrix(X)), dense, atol=rounding(dense))
    np.testing.assert_allclose(phi.transform(sparse.csr_array(X)), dense, atol=rounding(dense))


@EVERY_MAP
def test_indices_of_64_bits_are_as_good(name):
    X = sparse.csr_array(np.where(np.abs(rows(60)) < 0.8, 0, rows(60)))
    phi = fitted(name, X)
    expected = phi.transform(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    np.testing.assert_array_equal(phi.transform(X), expected)


@EVERY_MAP
def test_tensors_give_the_same_map(name):
    torch = pytest.importorskip("torch")
    X = rows(100)
    phi = fitted(name, X)
    expected = phi.transform(X)
    Z = phi.transform(torch.tensor(X))
    assert isinstance(Z, torch.Tensor)
    assert Z.dtype == torch.float64
    np.testing.assert_allclose(Z.numpy(), expected, atol=rounding(expected))
    again = clone(phi).fit(torch.tensor(X), torch.tensor(targets(X))).transform(X)
    np.testing.assert_allclose(again, expected, atol=rounding(expected))


@EVERY_MAP
def test_saved_map_gives_the_same_bits(name, tmp_path):
    X = rows(100)
    phi = fitted(name, X)
    pm.save(phi, tmp_path / "map.phimap")
    loaded = pm.load(tmp_path / "map.phimap")
    np.testing.assert_array_equal(loaded.transform(X), phi.transform(X))
    assert repr(loaded) == repr(phi)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(phi)).transform(X), phi.transform(X))


@EVERY_MAP
def test_zero_rows_give_what_the_kernel_gives(name):
    X = rows(50)
    X[3] = 0
    phi = fitted(name, X)
    Z = phi.transform(X)
    assert np.isfinite(Z).all()
    exact = phi.kernel_(X)[3]
    if name in ZERO_ROW_VARIES:
        assert abs(Z[3] @ Z[3] - exact[3]) < 5 / np.sqrt(64)
    elif name in DATA_DEPENDENT_MAPS or (exact[3] != 0 and not isinstance(phi.kernel_, pm.kernels.ArcCosine)):
        assert np.isclose(Z[3] @ Z[3], exact[3], atol=rounding(Z) * 64)
    else:
        # Homogeneous kernels vanish there, and so must the features; steps use the convention step(0) = 0.
        assert not Z[3].any()


@EVERY_MAP
@pytest.mark.parametrize("d", [1, 2, 33])
def test_any_number_of_features(name, d):
    X = rows(70, d)
    phi = fitted(name, X)
    Z = phi.transform(X)
    assert Z.shape == (70, width(phi))
    assert np.isfinite(Z).all()


@EVERY_MAP
def test_byte_budget_is_kept(name):
    X = rows(2000)
    phi = fitted(name, X)
    with pm.config(memory=500_000):
        with pytest.raises(MemoryError, match=r"transform_batches"):
            phi.transform(X)
        assert sum(len(Z) for Z in phi.transform_batches(X)) == 2000


def estimates(name: str, seeds: range) -> tuple[np.ndarray, np.ndarray]:
    # Pairs from nearly equal to far apart, so that kernel values cover their range.
    base = rows(4)
    X = np.concatenate([base, base[:2] + 0.1, -base[:1], 0.3 * base[1:2]])
    phi = clone(MAPS[name])
    exact = phi.fit(X).kernel_(X)

    def estimate(seed: int) -> np.ndarray:
        Z = phi.set_params(random_state=seed).fit_transform(X)
        signs = getattr(phi, "signature_", None)
        return (Z if signs is None else Z * signs) @ Z.T

    return np.stack([estimate(seed) for seed in seeds]), exact


@pytest.mark.parametrize("name", [name for name in MAPS if name not in BIASED_MAPS | DATA_DEPENDENT_MAPS])
def test_kernel_estimate_is_unbiased(name):
    """False-alarm rate 1e-6 a map; mutants: the kernel of another width, and a missing factor.

    A hundred seeds must refuse the mutants by entries that vary: entries without noise, such as the diagonal of Fourier
    features, refuse them at once and say nothing of the others.
    """
    _, exact = estimates(name, range(1))

    def accepts(samples: np.ndarray) -> bool:
        varies = samples.std(axis=0) > 1e-12
        noisy, expected = samples[:, varies], exact[varies]
        return bool(varies.any()) and (is_mean(noisy, 1.1 * expected) or is_mean(noisy * 0.9, expected))

    samples = enough_samples(lambda seeds: estimates(name, seeds)[0], accepts)
    assert is_mean(samples, exact, FALSE_ALARM / 2)
    assert not is_mean(samples, 1.1 * exact)
    assert not is_mean(samples * 0.9, exact)


@pytest.mark.parametrize("name", sorted(BIASED_MAPS - {"fourier-normalized"}))
def test_biased_estimates_stay_near(name):
    """The bias of structured directions in d = 5 padded to 8, and of depth at width 64, is below a tenth.

    Fifty seeds are enough if their mean is within the tenth with no allowance for its noise, which is harder to meet.
    """
    samples, exact = estimates(name, range(50))
    tenth = 0.1 * np.abs(exact).max()
    if np.abs(samples.mean(axis=0) - exact).max() < tenth:
        return
    samples = np.concatenate([samples, estimates(name, range(50, 200))[0]])
    bias = np.abs(samples.mean(axis=0) - exact).max()
    noise = samples.std(axis=0).max() / np.sqrt(200)
    assert bias < tenth + 5 * noise


@EVERY_MAP
def test_leading_columns_are_a_narrower_map(name):
    X = rows(60)
    phi = fitted(name, X)
    found = phi.record_.truncated(32)
    if found is None:
        pytest.skip("this map has no narrower map inside")
    columns, factor = found
    assert len(set(columns.tolist())) == 32
    Z, K = phi.transform(X), phi.kernel_(X)
    whole = np.linalg.norm(K - Z @ Z.T)
    Z = Z[:, columns] * factor
    # Half the width doubles the variance; the bound leaves room for the spread of a single draw.
    assert np.linalg.norm(K - Z @ Z.T) < 3 * whole + 0.5 * np.linalg.norm(K)


def test_leading_columns_of_nystroem_features_are_the_map_of_the_leading_landmarks():
    X = rows(60)
    phi = fitted("nystroem", X)
    columns, factor = phi.record_.truncated(32)
    few = clone(phi).set_params(landmarks=phi.record_.landmarks[:32]).fit(X).transform(X)
    Z = phi.transform(X)[:, columns] * factor
    # The pivoting orders the landmarks anew, which rotates the features and leaves their products as they were.
    np.testing.assert_allclose(Z @ Z.T, few @ few.T, atol=1e4 * rounding(Z))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda X: np.where(np.arange(5) == 3, np.nan, X), r"NaN at row 0, column 3"),
        (lambda X: np.where(np.arange(5) == 2, np.inf, X), r"infinity.*row 0, column 2"),
        (lambda X: X[:, :4], r"4 features"),
        (lambda X: X[:0], r"0 sample"),
        (lambda X: X * 1j, r"[Cc]omplex"),
        (lambda X: X.astype(str), r"(?i)numeric|string|float"),
        (lambda X: X[0], r"2D"),
    ],
)
def test_bad_input_names_the_trouble(broken, message):
    X = rows(10)
    phi = pm.FourierFeatures(n_components=8, random_state=0).fit(X)
    X_bad = broken(X)
    if X_bad.dtype.kind == "U":
        X_bad[0, 0] = "text"
    with pytest.raises(ValueError, match=message):
        phi.transform(X_bad)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (pm.FourierFeatures(n_components=0), r"`n_components` must be at least 1, got 0"),
        (pm.FourierFeatures(pairing="triples"), r"`pairing` must be one of 'pairs', 'offset'"),
        (pm.FourierFeatures(projection="none"), r"`projection` must be one of.*'orthogonal'"),
        (pm.FourierFeatures(pm.kernels.Laplacian(), projection="orthogonal"), r"rotation-invariant.*gaussian"),
        (pm.FourierFeatures(pm.kernels.Gaussian(length_scale=-1.0)), r"`length_scale` must be"),
        (pm.ArcCosineFeatures(order=3), r"`order` must be 0, 1 or 2, got 3"),
        (pm.ActivationFeatures("tanh"), r"`activation` must be one of 'abs', 'cos'.*got 'tanh'"),
        (pm.NTKFeatures(depth=0), r"`depth` must be at least 1, got 0"),
        (pm.NTKFeatures(n_components=8, relu_components=9), r"`relu_components` must be at most"),
        (pm.NTKFeatures(exact_degrees=(2,), sketch="none"), r"`exact_degrees` must be \(\) where `sketch` is set"),
        (pm.NTKFeatures(sketch="srht"), r"`sketch` must be one of"),
        (pm.NystroemFeatures(landmarks=np.ones((3, 9))), r"`landmarks` must be of shape"),
        (pm.FourierFeatures(n_jobs=0), r"`n_jobs` must be a non-zero integer"),
    ],
)
def test_bad_parameters_name_the_remedy(estimator, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(rows(10))


def test_overflowing_projections_are_an_error_not_nan():
    phi = pm.FourierFeatures(n_components=8, random_state=0).fit(rows(10, dtype=np.float32))
    with pytest.raises(ValueError, match=r"too large for this length scale"):
        phi.transform(np.full((2, 5), 3e38, dtype=np.float32))


def test_large_arguments_keep_their_cosines():
    X = rows(10) * 1e9
    phi = pm.FourierFeatures(n_components=8, random_state=0).fit(X)
    projected = X @ phi.record_.projection.to_dense().T
    Z = phi.transform(X)
    # Equal to rounding of the projections themselves, which is what the cosine's argument is known to.
    slack = 64 * np.finfo(float).eps * np.abs(projected).max()
    np.testing.assert_allclose(Z[:, :4], np.cos(projected) / 2, atol=slack)


@pytest.mark.parametrize("width", [1, 3, 2049])
def test_odd_widths_of_pairs_end_in_a_cosine_with_a_phase(width):
    X = rows(6)
    # Independent directions, which are drawn in no time: the widths are what is tested.
    phi = pm.FourierFeatures(n_components=width, projection="gaussian")
    Z = phi.set_params(random_state=0).fit_transform(X)
    assert Z.shape == (6, width)
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 400)
    assert is_mean(samples, phi.kernel_(X))
    assert not is_mean(samples / 2, phi.kernel_(X))
