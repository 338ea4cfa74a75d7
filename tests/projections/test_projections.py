"""Projections: exact structure, laws of the rows, and how they are chosen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg, stats

import phimap as pm
from phimap.kernels import Gaussian, GaussianLaw, Laplacian, Matern, StandardGaussianLaw, StudentLaw
from phimap.ops import host
from phimap.projections import ROM, SORF, as_projection
from phimap.projections.dense import haar_orthogonal
from tests.support.statistics import follows, is_at_most, is_mean

EPS = np.finfo(np.float64).eps
NAMES = ["gaussian", "orthogonal", "rom", "sorf"]
ROTATED = ["orthogonal", "rom", "sorf"]


def draw(projection, law, n_directions, seed=0):
    return as_projection(projection, law).sample(law, n_directions, np.random.default_rng(seed))


def apply(record, X):
    ops = host(X.dtype)
    return record.bind(ops).apply(ops, X)


def radius_law(law):
    """Distribution function of the norm of a direction of unit scale."""
    if isinstance(law, StudentLaw):
        return lambda r: stats.f(law.n_features, 2 * law.nu).cdf(np.square(r) / law.n_features)
    return stats.chi(law.n_features).cdf


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("d", "s"), [(1, 1), (1, 7), (2, 3), (5, 4), (5, 23), (64, 64), (1000, 1100)])
def test_the_fast_path_is_the_matrix(name, d, s, rng):
    record = draw(name, GaussianLaw(d, 0.7), s)
    W = record.to_dense()
    assert (record.n_directions, record.n_features) == W.shape == (s, d)
    X = rng.standard_normal((6, d))
    # A sum of d products, or 3 log2(2 d) additions of values of the size of the result.
    atol = 4 * d * EPS * np.linalg.norm(W, axis=1).max() * np.linalg.norm(X, axis=1).max()
    np.testing.assert_allclose(apply(record, X), X @ W.T, atol=atol)
    single = apply(record, X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, X @ W.T, atol=atol * np.finfo(np.float32).eps / EPS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("s", [3, 40])
def test_blocks_cover_the_directions_in_order(name, s, rng):
    record = draw(name, GaussianLaw(5), s).bind(host())
    X = rng.standard_normal((4, 5))
    ends = [(columns.start, columns.stop) for columns, _ in record.blocks(host(X.dtype), X)]
    assert [start for start, _ in ends] == [0, *(stop for _, stop in ends[:-1])]
    assert ends[-1][1] == s


@pytest.mark.parametrize("law", [GaussianLaw(8), StudentLaw(8, nu=1.5)], ids=repr)
def test_orthogonal_blocks_are_orthogonal(law):
    W = draw("orthogonal", law, 20).to_dense()
    for block in (W[:8], W[8:16], W[16:]):
        directions = block / np.linalg.norm(block, axis=1, keepdims=True)
        np.testing.assert_allclose(directions @ directions.T, np.eye(len(block)), atol=8 * 8 * EPS)
    # Blocks are independent of each other: no direction of one repeats in the next.
    assert np.abs(W[:8] @ W[8:16].T).max() < 0.999 * np.abs(W[:8] @ W[:8].T).max()


@pytest.mark.parametrize("law", [GaussianLaw(8), StudentLaw(8, nu=1.5), StudentLaw(5, nu=0.5)], ids=repr)
@pytest.mark.parametrize("projection", ["gaussian", "orthogonal", ROM(2, radii="law"), SORF(radii="law")], ids=str)
def test_norms_follow_the_radial_law(law, projection, seed):
    """False-alarm rate 1e-6; mutants: radii a third too long, and all equal to the root of d."""
    norms = np.linalg.norm(draw(projection, law, 4000, seed).to_dense(), axis=1)
    # In five of eight padded dimensions a product of Hadamard matrices can vanish on a direction; such stay zero.
    vanished = norms == 0
    assert vanished.mean() < 0.05
    assert law.n_features == 5 or not vanished.any()
    assert follows(norms[~vanished], radius_law(law))
    assert not follows(1.33 * norms[~vanished], radius_law(law))
    assert not follows(np.full(4000, law.n_features**0.5), radius_law(law))


def test_haar_matrices_are_invariant_under_signs(seed):
    """False-alarm rate 1e-6; mutant: Q without the signs of R's diagonal."""
    rng = np.random.default_rng(seed)
    fixed = np.stack([haar_orthogonal(3, rng) for _ in range(3000)])
    np.testing.assert_allclose(fixed @ fixed.transpose(0, 2, 1), np.broadcast_to(np.eye(3), fixed.shape), atol=32 * EPS)
    assert is_mean(fixed, 0.0)
    assert is_mean(fixed**2, 1 / 3)
    # An entry squared follows Beta(1/2, (d - 1)/2).
    assert follows(fixed[:, 1, 2] ** 2, stats.beta(0.5, 1).cdf)
    raw = np.stack([np.linalg.qr(rng.standard_normal((3, 3)))[0] for _ in range(3000)])
    assert not is_mean(raw, 0.0)


def test_orthogonal_directions_have_less_variance(seed):
    """False-alarm rate 1e-6; mutant: the two exchanged. One block of 8 directions to an estimate."""
    x = np.zeros((1, 8))
    x[0, :2] = 0.8, -0.9
    exact = Gaussian()(x, np.zeros((1, 8)))[0, 0]
    gaussian, orthogonal = (
        (np.cos(apply(draw(name, GaussianLaw(8), 8 * 4000, seed), x)).reshape(4000, 8).mean(axis=1) - exact) ** 2
        for name in ("gaussian", "orthogonal")
    )
    assert is_at_most(orthogonal - gaussian, 0)
    assert not is_at_most(gaussian - orthogonal, 0)


@pytest.mark.parametrize("factors", [1, 2, 3, 4])
@pytest.mark.parametrize(("d", "s"), [(1, 3), (8, 8), (5, 21), (64, 100)])
def test_blocks_are_products_of_hadamard_matrices_and_signs(factors, d, s):
    length_scale = 2.0
    record = draw(ROM(factors), Gaussian(length_scale=length_scale).spectral_law(d), s)
    p = 1 << (d - 1).bit_length()
    H = linalg.hadamard(p) / np.sqrt(p)
    assert set(np.unique(record.signs)) <= {-1, 1}
    blocks = []
    for signs in record.signs:
        block = np.sqrt(p) * np.eye(p)
        for diagonal in signs:
            block = block @ H @ np.diag(diagonal.astype(float))
        blocks.append(block)
    expected = np.concatenate(blocks)[:s, :d] / length_scale
    np.testing.assert_allclose(record.to_dense(), expected, atol=4 * factors * p * EPS * np.sqrt(p))


@pytest.mark.parametrize("d", [1, 2, 16, 64])
def test_published_radii_are_the_root_of_the_dimension(d):
    W = draw(SORF(radii="fixed"), StandardGaussianLaw(d), 2 * d + 1).to_dense()
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), np.sqrt(d), rtol=8 * d * EPS)
    np.testing.assert_allclose(W[:d] @ W[:d].T, d * np.eye(d), atol=8 * d * d * EPS)


def test_bias_of_structured_directions_is_within_its_bound(seed):
    """False-alarm rate 1e-6; mutant: the Hadamard matrices left unnormalised once."""
    d, n_maps = 64, 2000
    x = np.random.default_rng(seed).standard_normal((3, d))
    tau = np.array([0.1, 0.2, 0.3])
    x *= (tau / np.linalg.norm(x, axis=1))[:, None]
    projected = apply(draw("sorf", GaussianLaw(d), d * n_maps, seed), x)

    def within(projected: np.ndarray) -> bool:
        errors = np.cos(projected).reshape(3, n_maps, d).mean(axis=2).T - np.exp(-(tau**2) / 2)
        bound = 6 * tau / np.sqrt(d)
        return is_at_most(errors, bound) and is_at_most(-errors, bound)

    assert within(projected)
    assert not within(projected * np.sqrt(d))


@pytest.mark.parametrize("name", ["rom", "sorf"])
@pytest.mark.parametrize("kernel", [Gaussian(), Matern(nu=1.5)], ids=repr)
def test_structured_directions_store_no_matrix(name, kernel):
    d, s = 1000, 4096
    record = draw(name, kernel.spectral_law(d), s)
    n_bytes = sum(value.nbytes for value in vars(record).values() if isinstance(value, np.ndarray))
    # 8 bytes of scale and 3 signs for each direction, and 8 bytes of length scale for each feature.
    assert n_bytes == (8 + {"rom": 2, "sorf": 3}[name]) * s + 8 * d


@pytest.mark.parametrize("name", ROTATED)
def test_laws_without_rotation_invariance_are_refused(name):
    with pytest.raises(ValueError, match=rf"`projection`='{name}' needs a rotation-invariant.*Laplacian.*'gaussian'"):
        draw(name, Laplacian().spectral_law(4), 8)


def test_fixed_radii_are_refused_for_other_laws():
    with pytest.raises(ValueError, match=r"`radii`='fixed' is for Gaussian laws.*Matern.*radii='law'"):
        draw(SORF(radii="fixed"), Matern(nu=1.5).spectral_law(4), 8)


@pytest.mark.parametrize(
    ("projection", "error", "message"),
    [
        ("fast", ValueError, r"`projection` must be one of 'auto',.* 'gaussian',.* 'orthogonal',.* 'sorf'.*got 'fast'"),
        (3, TypeError, r"`projection` must be a name or a Projection, got int"),
        (SORF, TypeError, r"`projection` must be a name or a Projection"),
        (ROM(0), ValueError, r"`factors` must be at least 1, got 0"),
        (ROM(radii="chi"), ValueError, r"`radii` must be one of 'auto', 'fixed', 'law', got 'chi'"),
    ],
)
def test_bad_projections_name_the_choices(projection, error, message):
    with pytest.raises(error, match=message):
        pm.FourierFeatures(n_components=8, projection=projection).fit(np.eye(4))
