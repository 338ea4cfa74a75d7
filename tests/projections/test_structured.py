"""Fast structured projections: equal to their definition in explicit matrices, exact laws, O(s) memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import fft, linalg, stats

from phimap.kernels import CauchyLaw, Gaussian, GaussianLaw, Laplacian, Matern, StandardGaussianLaw, StudentLaw
from phimap.ops import host
from phimap.projections import Circulant, PModel, SparseSign, as_projection, sparse_sign
from tests.support.statistics import follows, is_at_most, is_mean

EPS = np.finfo(np.float64).eps
FAST = ["fastfood", "circulant", *(PModel(structure) for structure in ("circulant", "toeplitz", "hankel"))]
EVERY = [*FAST, "sparse-sign", SparseSign(0.9)]
SHAPES = [(1, 1), (1, 7), (2, 3), (5, 4), (5, 23), (64, 64), (1000, 1100)]
SCALES = np.array([0.5, 1.0, 1.5, 2.0, 2.5])


def draw(projection, law, n_directions, seed=0):
    return as_projection(projection, law).sample(law, n_directions, np.random.default_rng(seed))


def independent_directions(projection, law, n_directions, seed):
    """Directions (n, d) of a hundred draws, every eighth of a draw: all they share is signs of columns.

    With at most eight columns, a block of a circulant matrix or of fastfood has at most eight directions, and windows
    that begin eight entries apart do not overlap.
    """
    drawn = [
        as_projection(projection, law).sample(law, 8 * n_directions // 100, rng).to_dense()[5::8]
        for rng in np.random.default_rng(seed).spawn(100)
    ]
    return np.concatenate(drawn)


def apply(record, X):
    ops = host(X.dtype)
    return record.bind(ops).apply(ops, X)


def stored_bytes(record):
    return sum(value.nbytes for value in vars(record).values() if isinstance(value, np.ndarray))


@pytest.mark.parametrize("projection", EVERY, ids=str)
@pytest.mark.parametrize(("d", "s"), SHAPES)
def test_the_fast_path_is_the_matrix(projection, d, s, rng):
    record = draw(projection, GaussianLaw(d, 0.7), s)
    W = record.to_dense()
    assert (record.n_directions, record.n_features) == W.shape == (s, d)
    X = rng.standard_normal((6, d))
    # A sum of d products, or the passes of two transforms of width below 8 d, of the norm of the result.
    atol = 8 * max(d, 8) * EPS * np.linalg.norm(W, axis=1).max() * np.linalg.norm(X, axis=1).max()
    np.testing.assert_allclose(apply(record, X), X @ W.T, atol=atol)
    single = apply(record, X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, X @ W.T, atol=atol * np.finfo(np.float32).eps / EPS)


@pytest.mark.parametrize("projection", EVERY, ids=str)
@pytest.mark.parametrize(("d", "s"), SHAPES)
def test_tensors_are_projected_alike(projection, d, s, rng):
    torch = pytest.importorskip("torch")
    from phimap.ops.torch_ops import TorchOps

    record = draw(projection, GaussianLaw(d), s)
    X = rng.standard_normal((6, d))
    tensor = torch.tensor(X)
    ops = TorchOps.of(tensor)
    expected = apply(record, X)
    atol = 8 * max(d, 8) * EPS * np.sqrt(d) * np.linalg.norm(X, axis=1).max() * max(1, np.abs(expected).max())
    np.testing.assert_allclose(record.bind(ops).apply(ops, tensor).numpy(), expected, atol=atol)


@pytest.mark.parametrize("projection", EVERY, ids=str)
@pytest.mark.parametrize("s", [3, 40, 3000])
def test_blocks_cover_the_directions_in_order(projection, s, rng):
    record = draw(projection, GaussianLaw(5), s).bind(host())
    X = rng.standard_normal((4, 5))
    ends = []
    for columns, values in record.blocks(host(X.dtype), X):
        assert values.shape == (4, columns.stop - columns.start)
        assert values.flags.c_contiguous
        assert values.flags.writeable
        ends.append((columns.start, columns.stop))
    assert [start for start, _ in ends] == [0, *(stop for _, stop in ends[:-1])]
    assert ends[-1][1] == s


@pytest.mark.parametrize("projection", FAST, ids=str)
@pytest.mark.parametrize("law", [GaussianLaw(5, SCALES), Matern(length_scale=1 / SCALES).spectral_law(5)], ids=repr)
def test_length_scales_multiply_the_columns(projection, law):
    scaled, unit = (draw(projection, chosen, 12).to_dense() for chosen in (law, law.unit(5)))
    np.testing.assert_allclose(scaled, unit * SCALES, atol=64 * EPS * np.linalg.norm(scaled))


@pytest.mark.parametrize("projection", FAST, ids=str)
@pytest.mark.parametrize("kernel", [Gaussian(), Matern(nu=1.5)], ids=repr)
def test_no_matrix_is_stored(projection, kernel):
    d, s = 1000, 8192
    # At most 40 bytes for each direction, with padding and the length scales; the matrix has 8,000.
    assert stored_bytes(draw(projection, kernel.spectral_law(d), s)) <= 40 * s + 8 * d


@pytest.mark.parametrize("law", [GaussianLaw(5), StandardGaussianLaw(8), StudentLaw(5, nu=1.5)], ids=repr)
@pytest.mark.parametrize("projection", FAST, ids=str)
def test_every_direction_follows_the_law(projection, law, seed):
    """False-alarm rate 1e-6; mutants: directions a fifth too long, and all along their first coordinate."""
    # Heavy tails hide a fifth longer directions unless there are many draws.
    W = independent_directions(projection, law, 3000 if isinstance(law, StudentLaw) else 1000, seed)
    d = law.n_features
    marginal = stats.t(2 * law.nu) if isinstance(law, StudentLaw) else stats.norm
    radius = stats.f(d, 2 * law.nu) if isinstance(law, StudentLaw) else stats.chi(d)
    norms = np.linalg.norm(W, axis=1)
    norms = norms**2 / d if isinstance(law, StudentLaw) else norms
    assert follows(norms, radius.cdf)
    assert not follows(1.2 * norms, radius.cdf)
    for coordinate in W.T:
        assert follows(coordinate, marginal.cdf)
    directions = W / np.linalg.norm(W, axis=1, keepdims=True)
    assert is_mean(directions[:, :, None] * directions[:, None, :], np.eye(d) / d)
    # Coordinates of a uniform direction, squared, have this product as a mean.
    assert is_mean(directions[:, 0] ** 2 * directions[:, 1] ** 2, 1 / (d * (d + 2)))
    assert not is_mean(np.eye(d)[:1] * norms[:, None], 1 / d)


@pytest.mark.parametrize(("d", "s"), [(1, 3), (2, 5), (8, 8), (5, 21), (64, 100), (100, 300)])
def test_fastfood_is_the_product_of_its_matrices(d, s):
    record = draw("fastfood", GaussianLaw(d, 0.5), s)
    p = 1 << (d - 1).bit_length()
    H = linalg.hadamard(p) / np.sqrt(p)
    radii = GaussianLaw(p).sample_radii(np.random.default_rng(0).spawn(4)[3], s)
    assert set(np.unique(record.signs)) <= {-1, 1}
    blocks = []
    for signs, permutation, g in zip(record.signs, record.permutations, record.gains, strict=True):
        P = np.eye(p)[permutation]
        np.testing.assert_array_equal(P.sum(axis=0), 1)
        blocks.append(np.sqrt(p) / np.linalg.norm(g) * H @ np.diag(g) @ P @ H @ np.diag(signs.astype(float)))
    expected = radii[:, None] * np.concatenate(blocks)[:s, :d] * 0.5
    np.testing.assert_allclose(record.to_dense(), expected, atol=8 * p * EPS * np.abs(radii).max())


@pytest.mark.parametrize("law", [GaussianLaw(8), StudentLaw(16, nu=1.5)], ids=repr)
def test_norms_of_fastfood_follow_the_radial_law(law, seed):
    """False-alarm rate 1e-6; mutant: the survey's Eq. 9, without the root of the dimension."""
    d = law.n_features
    norms = np.linalg.norm(draw("fastfood", law, 4000, seed).to_dense(), axis=1)

    def radial(r):
        return stats.f(d, 2 * law.nu).cdf(r**2 / d) if isinstance(law, StudentLaw) else stats.chi(d).cdf(r)

    assert follows(norms, radial)
    assert not follows(norms / np.sqrt(d), radial)


@pytest.mark.parametrize("law", [GaussianLaw(5, SCALES), StudentLaw(5), CauchyLaw(5), GaussianLaw(127)], ids=repr)
@pytest.mark.parametrize("s", [1, 4, 300])
def test_circulant_is_made_of_circulant_matrices(law, s):
    record = draw("circulant", law, s)
    d = law.n_features
    order = 2 * fft.next_fast_len(-(-d // 2), real=True)
    C = np.concatenate([linalg.circulant(w)[:, :d] for w in record.generators])[:s]
    assert record.generators.shape == (-(-s // order), order)
    if isinstance(law, StudentLaw):
        radii = law.sample_radii(np.random.default_rng(0).spawn(4)[3], s)
        np.testing.assert_allclose(np.linalg.norm(C * record.scale[:, None], axis=1), radii, rtol=16 * EPS)
    else:
        np.testing.assert_array_equal(np.abs(record.scale), 1)
    np.testing.assert_array_equal(np.abs(record.input_scale), np.abs(law.scale * np.ones(d)))
    expected = record.scale[:, None] * C * record.input_scale
    np.testing.assert_allclose(record.to_dense(), expected, atol=8 * order * EPS * np.abs(expected).max())


@pytest.mark.parametrize("structure", ["circulant", "toeplitz", "hankel"])
@pytest.mark.parametrize(("d", "s"), [(1, 1), (1, 5), (2, 3), (7, 3), (5, 40), (5, 1700), (300, 20), (300, 2500)])
def test_p_model_is_its_matrix(structure, d, s):
    record = draw(PModel(structure), GaussianLaw(d, 2.0), s)
    budget = max(s, d) if structure == "circulant" else s + d - 1
    g = np.random.default_rng(0).spawn(3)[0].standard_normal(budget)
    T = {
        "circulant": lambda: linalg.circulant(g)[:s, :d],
        "toeplitz": lambda: linalg.toeplitz(g[d - 1 :], g[d - 1 :: -1]),
        "hankel": lambda: linalg.hankel(g[:s], g[s - 1 :]),
    }[structure]()
    np.testing.assert_array_equal(np.abs(record.input_scale), 2.0)
    length = record.generators.shape[1]
    np.testing.assert_allclose(record.to_dense(), T * record.input_scale, atol=16 * length * EPS * np.abs(T).max())


@pytest.mark.parametrize("projection", [Circulant(), PModel(), PModel("hankel")], ids=str)
def test_independent_coordinates_follow_their_law(projection, seed):
    """False-alarm rate 1e-6; mutant: Gaussian coordinates."""
    W = independent_directions(projection, CauchyLaw(3), 3000, seed)
    for coordinate in W.T:
        assert follows(coordinate, stats.cauchy.cdf)
        assert not follows(coordinate, stats.norm.cdf)
    assert is_mean(np.sign(W)[:, :, None] * np.sign(W)[:, None, :], np.eye(3))


@pytest.mark.parametrize("projection", [Circulant(), *map(PModel, ("circulant", "toeplitz", "hankel"))], ids=str)
def test_variance_of_shifts_is_the_stated_one(projection, seed):
    """False-alarm rate 1e-6; mutant: without the signs of the columns, on a difference that is smooth."""
    d, s = 64, 128
    difference = np.sin(np.pi * np.arange(1, d + 1)[None] / d)
    difference /= np.linalg.norm(difference)
    exact = np.exp(-0.5)
    # For shifts that are orthogonal on average; a tenth more for the terms of higher order.
    bound = 1.1 * ((1 - np.exp(-1)) ** 2 + np.exp(-1)) / (2 * s)

    records = [projection.sample(GaussianLaw(d), s, rng) for rng in np.random.default_rng(seed).spawn(1000)]
    unsigned = [replace(record, input_scale=np.abs(record.input_scale)) for record in records]
    squared, of_unsigned = (
        np.array([(np.cos(apply(record, difference)).mean() - exact) ** 2 for record in some])
        for some in (records, unsigned)
    )
    assert is_at_most(squared, bound)
    assert not is_at_most(of_unsigned, bound)


def test_unknown_structures_are_refused():
    with pytest.raises(ValueError, match=r"`structure` must be one of 'circulant', 'toeplitz', 'hankel', got 'cross'"):
        draw(PModel("cross"), GaussianLaw(4), 8)


@pytest.mark.parametrize("name", ["circulant", "p-model"])
def test_laws_that_are_neither_are_refused(name):
    class Other(GaussianLaw):
        has_independent_coordinates = is_rotation_invariant = False
        kernel_name = "Other"

    with pytest.raises(ValueError, match=rf"`projection`='{name}' needs.*independent coordinates.*Other.*'gaussian'"):
        draw(name, Other(4), 8)


@pytest.mark.parametrize("sparsity", [0.0, 0.5, 2 / 3, 0.95])
@pytest.mark.parametrize(("d", "s"), [(1, 3), (5, 40), (300, 7), (3, 2100)])
def test_sparse_signs_are_their_matrix(sparsity, d, s):
    scales = np.linspace(1, 2, d)
    record = draw(SparseSign(sparsity), GaussianLaw(d, scales), s)
    u = np.random.default_rng(0).random((s, d))
    expected = np.where(u < sparsity, 0.0, np.where(u < (1 + sparsity) / 2, -1.0, 1.0)) / np.sqrt(1 - sparsity) * scales
    np.testing.assert_allclose(record.to_dense(), expected, rtol=4 * EPS)
    # Of few signs 4 bytes for each and 16 for a direction and its last bound; else a byte for four. 8 for an input.
    lists = 4 * np.count_nonzero(expected) + 16 * s + 8 * len(record.signs)
    stored = sum(stored_bytes(block) for block in record.signs) + stored_bytes(record)
    assert stored == 8 * d + (lists if sparsity > 0.9 else 2 * -(-d // 8) * s)


@pytest.mark.parametrize("sparsity", [2 / 3, 0.9])
def test_sparse_signs_are_drawn_alike_in_any_pieces(sparsity, monkeypatch):
    projection = SparseSign(sparsity)
    whole = draw(projection, GaussianLaw(7), 50).to_dense()
    monkeypatch.setattr(sparse_sign, "_DRAWN", 20)
    monkeypatch.setattr(sparse_sign, "_BLOCK", 16)
    np.testing.assert_array_equal(draw(projection, GaussianLaw(7), 50).to_dense(), whole)
    np.testing.assert_array_equal(draw(projection, GaussianLaw(7), 20).to_dense(), whole[:20])


@pytest.mark.parametrize(("n", "d", "s"), [(1, 1, 1), (33, 13, 70), (16, 200, 1025)])
def test_lists_and_codes_of_one_matrix_give_one_product(n, d, s, rng, monkeypatch):
    """Random rows, and more of them than fill vectors; any number of inputs."""
    X, products = rng.standard_normal((n, d)), []
    for least in (0.0, 1.0):
        monkeypatch.setattr(sparse_sign, "_SPARSE", least)
        products.append(apply(draw(SparseSign(0.5), GaussianLaw(d), s), X))
    np.testing.assert_allclose(*products, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sparsity", [0.0, 2 / 3, 0.9])
def test_sparse_signs_have_the_stated_moments_and_mean_kernel(sparsity, seed):
    """False-alarm rate 1e-6; mutants: entries that are not scaled, and the Gaussian kernel itself."""
    W = draw(SparseSign(sparsity), GaussianLaw(4), 100_000, seed).to_dense()
    assert is_mean(W == 0, sparsity)
    assert is_mean(W, 0.0)
    assert is_mean(W[:, :, None] * W[:, None, :], np.eye(4))
    assert sparsity == 0 or not is_mean(W**2 * (1 - sparsity), 1.0)
    difference = np.array([1.6, -0.4, 0.1, 0.0])
    factors = sparsity + (1 - sparsity) * np.cos(difference / np.sqrt(1 - sparsity))
    assert is_mean(np.cos(W @ difference), np.prod(factors))
    assert not is_mean(np.cos(W @ difference), np.exp(-difference @ difference / 2))


@pytest.mark.parametrize(
    ("projection", "law", "message"),
    [
        (SparseSign(1.0), GaussianLaw(4), r"`sparsity` must be below 1, got 1\.0"),
        (SparseSign(-0.1), GaussianLaw(4), r"`sparsity` must be at least 0"),
        (SparseSign(), CauchyLaw(4), r"'sparse-sign' needs.*mixture of Gaussian ones, which Laplacian.*'gaussian'"),
    ],
)
def test_impossible_sparse_signs_are_refused(projection, law, message):
    with pytest.raises(ValueError, match=message):
        draw(projection, law, 8)


@pytest.mark.parametrize(("array", "value"), [("indices", 5), ("indices", -1), ("bounds", 1), ("bounds", -1)])
def test_damaged_signs_are_refused(array, value):
    record = draw(SparseSign(0.9), GaussianLaw(5), 8)
    getattr(record.signs[0], array)[0] = value
    with pytest.raises(ValueError, match=r"`indices` and `bounds` must hold columns"):
        apply(record, np.eye(5))


@pytest.mark.parametrize(
    "damage", [lambda codes: codes + np.uint8(81), lambda codes: codes[:, :1], lambda codes: codes[:, :0]]
)
def test_damaged_codes_are_refused(damage):
    record = draw(SparseSign(0.5), GaussianLaw(5), 8)
    damaged = replace(record, signs=tuple(replace(block, codes=damage(block.codes)) for block in record.signs))
    with pytest.raises(ValueError, match=r"`codes` must be below 81, two for every eight columns"):
        apply(damaged, np.eye(5))


def test_damaged_permutations_are_refused():
    record = draw("fastfood", GaussianLaw(5), 8)
    record.permutations[0, 0] = 8
    with pytest.raises(ValueError, match=r"`permutations` must hold columns"):
        apply(record, np.eye(5))


@pytest.mark.parametrize("name", ["fastfood"])
def test_laws_without_rotation_invariance_are_refused(name):
    with pytest.raises(ValueError, match=rf"`projection`='{name}' needs a rotation-invariant.*Laplacian.*'gaussian'"):
        draw(name, Laplacian().spectral_law(4), 8)
