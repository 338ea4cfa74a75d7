"""The convolutional tangent kernel against plain loops over its definition, and its known facts."""

import itertools

import numpy as np
import pytest

import phimap as pm
from phimap.kernels import CNTK, NTK, kappa0, kappa1
from phimap.kernels.images import window_sums

# Two cosines that agree to rounding may differ by a few eps, of which kappa_0 takes the root.
ROOT = 64 * np.sqrt(np.finfo(np.float64).eps)


def loops(y, z, depth, q, pooling):
    """Definition 2, pixel pair by pixel pair."""
    *_, (_, _, P) = states(y, z, depth, q)
    chosen = [P[k] for k in P if pooling == "gap" or k[0] == k[1]]
    return sum(chosen) / len(chosen)


def states(y, z, depth, q):
    """N_h of y and z, G_h and P_h of all layers."""
    height, width, _ = y.shape
    pixels = list(itertools.product(range(height), range(width)))
    shifts = list(itertools.product(range(-(q // 2), q // 2 + 1), repeat=2))

    def inside(i, j):
        return 0 <= i < height and 0 <= j < width

    def norms(x):
        found = [{p: q * q * float(x[p] @ x[p]) for p in pixels}]
        for _ in range(depth):
            last = found[-1]
            moved = {p: [(p[0] + a, p[1] + b) for a, b in shifts] for p in pixels}
            found.append({p: sum(last[s] for s in moved[p] if inside(*s)) / q**2 for p in pixels})
        return found

    def windows(G):
        return {
            (p, s): sum(
                G[(p[0] + a, p[1] + b), (s[0] + a, s[1] + b)]
                for a, b in shifts
                if inside(p[0] + a, p[1] + b) and inside(s[0] + a, s[1] + b)
            )
            for p, s in G
        }

    Ny, Nz = norms(y), norms(z)
    G = {(p, s): float(y[p] @ z[s]) for p in pixels for s in pixels}
    P = dict.fromkeys(G, 0.0)
    for h in range(1, depth + 1):
        sums = windows(G)
        roots = {(p, s): np.sqrt(Ny[h][p] * Nz[h][s]) for p, s in G}
        r = {k: sums[k] / roots[k] if roots[k] > 0 else 0.0 for k in G}
        G = {k: roots[k] / q**2 * kappa1(r[k]) for k in G}
        slopes = {k: kappa0(r[k]) / q**2 for k in G}
        P = {k: P[k] * slopes[k] + (G[k] if h < depth else 0.0) for k in G}
        P = windows(P) if h < depth else P
        yield (Ny, Nz), G, P


def images(n=3, shape=(5, 6, 2), seed=0):
    draws = np.random.default_rng(seed).normal(size=(n, *shape))
    if n > 1:
        # A corner of zeros so large that windows of it are zero.
        draws[1, :4, :4] = 0.0
    return draws


@pytest.mark.parametrize("pooling", ["gap", "flatten"])
@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("q", [1, 3, 5])
def test_plain_loops_over_the_definition(q, depth, pooling):
    X = images(2)
    K = CNTK(depth, q, pooling)(X)
    # Two images, and every second time one with itself.
    i, j = (0, 1) if depth % 2 else (1, 1)
    assert K[i, j] == pytest.approx(loops(X[i], X[j], depth, q, pooling), rel=ROOT)
    assert K[i, j] != pytest.approx(CNTK(depth + 1, q, pooling)(X)[i, j], rel=0.01)


@pytest.mark.parametrize("pooling", ["gap", "flatten"])
@pytest.mark.parametrize("q", [1, 3, 5])
def test_tensors_give_the_same_kernel(q, pooling):
    torch = pytest.importorskip("torch")
    X = images(4, (4, 3, 2))
    kernel = CNTK(3, q, pooling)
    K = kernel(torch.tensor(X), torch.tensor(X[:2]))
    assert isinstance(K, torch.Tensor)
    np.testing.assert_allclose(K.numpy(), kernel(X, X[:2]), rtol=ROOT)
    single = kernel(torch.tensor(X, dtype=torch.float32))
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single.numpy(), kernel(X), rtol=64 * np.sqrt(np.finfo(np.float32).eps))


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_one_pixel_is_a_shifted_ntk(depth):
    """With q = 1 on one pixel P_h is the NTK of depth h, less what K_0 adds to it; there is no G at h = L."""
    X = np.random.default_rng(1).normal(size=(4, 1, 1, 5))
    K = CNTK(depth, 1)(X)
    norms = np.linalg.norm(X[:, 0, 0], axis=1)
    cosine = np.clip(X[:, 0, 0] @ X[:, 0, 0].T / np.outer(norms, norms), -1, 1)
    sigma, slopes = cosine, []
    for _ in range(depth):
        slopes.append(kappa0(sigma))
        sigma = kappa1(sigma)
    tangent = NTK(depth - 1).kappa(cosine) - cosine * np.prod(slopes[:-1], axis=0)
    np.testing.assert_allclose(K, np.outer(norms, norms) * tangent * slopes[-1], rtol=ROOT)


@pytest.mark.parametrize("q", [1, 3, 5])
def test_equal_pixels_of_one_image_are_known(q):
    """G_h = N_h / q^2, and P_h = h N_{h+1} up to the last layer, (L - 1) N_L / q^2 there."""
    depth, y = 4, images(2, (4, 5, 2))[1]
    for h, ((N, _), G, P) in enumerate(states(y, y, depth, q), start=1):
        for p in N[h]:
            assert G[p, p] == pytest.approx(N[h][p] / q**2)
            known = h * N[h + 1][p] if h < depth else (depth - 1) * N[h][p] / q**2
            assert P[p, p] == pytest.approx(known, rel=ROOT)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_diagonal_without_pooling_is_known(depth):
    q = 3
    X = images()
    N = q**2 * np.square(X).sum(axis=-1)
    for _ in range(depth):
        N = window_sums(N, q) / q**2
    expected = (depth - 1) * N.mean(axis=(1, 2)) / q**2
    np.testing.assert_allclose(CNTK(depth, q, "flatten").diag(X), expected, rtol=ROOT)


@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_homogeneous_and_zero_at_zero(pooling):
    X = images()
    X[2] = 0
    kernel = CNTK(3, 3, pooling)
    K = kernel(X)
    assert np.isfinite(K).all()
    assert not K[2].any()
    np.testing.assert_allclose(kernel(1e200 * X, 1e-200 * X), K, rtol=ROOT)
    np.testing.assert_array_equal(np.diag(K), kernel.diag(X))


def test_images_and_flat_rows_are_one_kernel():
    X = images(4, (4, 5, 2))
    rows = X.reshape(4, -1)
    expected = CNTK(2)(X)
    np.testing.assert_array_equal(CNTK(2, image_shape=(4, 5, 2))(rows), expected)
    np.testing.assert_array_equal(CNTK(2)(X[:, :, :, :1]), CNTK(2, image_shape=(4, 5))(rows[:, ::2]))
    signals = CNTK(2)(rows)
    np.testing.assert_array_equal(signals, CNTK(2)(rows[:, None, :, None]))


def test_bytes_are_numbers():
    X = np.random.default_rng(0).integers(0, 256, size=(3, 4, 4, 3)).astype(np.uint8)
    K = CNTK(2)(X)
    assert K.dtype == np.float32
    np.testing.assert_array_equal(K, CNTK(2)(X.astype(np.float32)))


def test_tiles_and_threads_change_no_bit():
    X = images(19, (3, 3, 1))
    with pm.config(n_jobs=1):
        K = CNTK(2)(X)
    with pm.config(n_jobs=2):
        np.testing.assert_array_equal(CNTK(2)(X), K)
    np.testing.assert_array_equal(CNTK(2)(X[3:5], X[7:]), K[3:5, 7:])
    np.testing.assert_array_equal(K, K.T)


def test_cost_is_told_beforehand(monkeypatch):
    X = images(60, (20, 20, 1))
    kernel = CNTK(2)
    cost = kernel.cost(X)
    assert cost.n_pairs == 60 * 61 // 2
    assert cost.bytes == 8 * 60 * 60
    assert cost.seconds > 0
    assert "1830 pairs" in str(cost)
    monkeypatch.setattr("phimap.kernels.convolutional._LONG_SECONDS", 0.0)
    with pytest.warns(UserWarning, match=r"1830 pairs.*CNTKSketch"):
        kernel(X)
    with pm.config(memory=1000), pytest.raises(MemoryError, match=r"byte budget"):
        kernel(X)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (CNTK(1), r"`depth` must be at least 2.*gives 0"),
        (CNTK(2, 4), r"`filter_size` must be odd, got 4.*Use 3 or 5"),
        (CNTK(2, 3, "max"), r"`pooling`"),
        (CNTK(2, image_shape=(5, 5)), r"`X` must hold images of shape"),
    ],
)
def test_bad_parameters_are_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel(images())


def test_bad_images_are_refused():
    X = images()
    with pytest.raises(ValueError, match=r"as many features"):
        CNTK(2)(X, X[:, :4])
    with pytest.raises(ValueError, match=r"image_shape.*30 for rows of 60"):
        CNTK(2, image_shape=(5, 6))(X.reshape(3, -1))
    X[0, 1, 1, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN"):
        CNTK(2)(X)
