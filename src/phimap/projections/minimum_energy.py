"""Directions of least expected error, found by minimising the energy of the points."""

from __future__ import annotations

import numpy as np

from phimap._validation import check_integer
from phimap.kernels.spectral import SpectralLaw
from phimap.ops import run_tasks
from phimap.projections.dense import SpreadProjection, haar_orthogonal
from phimap.projections.quasi_monte_carlo import low_discrepancy
from phimap.projections.radii import stratified_radii

# Mean square of the distances, in length scales, at which the error is made small. The median is 1 at the usual choice
# of the length scale; from 1.5 to 2.5 the errors on real data differ little.
_SQUARE_DISTANCE = 2.0
# Most points that are designed together: the work of each grows with their number, the gain hardly.
_MOST_POINTS = 512
# Fewest directions of a subset of columns that are designed: fewer have next to nothing to spread, and Sobol points err
# less, since those of one subset fit to those of the next.
_FEWEST_POINTS = 3
# Most designs: blocks beyond repeat them, rotated, which bounds the time of a fit. Up to this width, that is: beyond, a
# rotation costs as much as a design.
_MOST_DESIGNS = 8
_WIDEST_ROTATED = 1024
# Longer points, in units in which the energy falls by exp(-1/2) a unit, interact as if they were of this length: they
# meet no others, and float32 has the digits of its square.
_LONGEST = 30.0
# Rows of the matrix of pairs that are computed at once: a quarter of a MB with the most points.
_ROWS = 128


class MinimumEnergy(SpreadProjection):
    """Minimum-energy points: directions of least expected squared error, with stratified radii.

    For a difference delta of two rows that is Gaussian with variance c / d a coordinate, c = 2, the squared error of
    ``mean_i cos(w_i.delta)`` is expected to be, but for a term that depends on the radii alone,
    ``1 / (2 s^2) sum_ij (exp(-c |w_i - w_j|^2 / (2 d)) + exp(-c |w_i + w_j|^2 / (2 d)))``. Radii are stratified
    quantiles of the law; the directions minimise this energy, by descent from a random start. For activations, which
    are not even, the second term is left out.

    Parameters
    ----------
    iterations : int, default=30
        Steps of the descent (L-BFGS), at least 0; each costs O(min(s, 512) min(s, 4096) d) flops.

    Notes
    -----
    **Error.** Unbiased: each direction is uniform on the sphere, since the start is, and rotating the start rotates all
    steps of the descent; each radius follows the law. The least of all
    projections where s is several times d, for small d by far: a few times below that of `Orthogonal`.

    **Cost.** The descent in `fit`; O(s d) numbers stored and O(s d) flops a row,
    as for independent draws.

    **Differs from the source in** the expectation over Gaussian differences, where the source takes a box; in the
    radii, which keep to the law; in the random start, without which the points are biased; in blocks of at most 512,
    which beyond 4,096 points repeat the directions of others with a random rotation.

    References
    ----------
    Avron, Sindhwani, Yang, Mahoney (2016), *Quasi-Monte Carlo feature maps for shift-invariant kernels*, Section 5
    (adaptive sequences); Lyu (2017), *Spherical structured feature maps for kernel approximation*, Section 4.
    """

    name = "minimum-energy"
    needs_rotation_invariance = True

    def __init__(self, iterations: int = 30):
        self.iterations = iterations

    def _directions(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> np.ndarray:
        n_blocks = -(-n_directions // _MOST_POINTS)
        points = self._designs(law, n_blocks, -(-n_directions // n_blocks), rng)
        return points.reshape(-1, law.n_features)[:n_directions] * law.scale

    def _in_turn(self, law: SpectralLaw, n_directions: int, n_groups: int, rng: np.random.Generator) -> np.ndarray:
        if n_directions < _FEWEST_POINTS * n_groups:
            return low_discrepancy(law, n_directions, "sobol", rng, n_groups)
        size = -(-n_directions // n_groups)
        n_blocks = -(-size // _MOST_POINTS)
        points = self._designs(law, n_groups * n_blocks, -(-size // n_blocks), rng)
        points = points.reshape(n_groups, -1, law.n_features).transpose(1, 0, 2)
        return points.reshape(-1, law.n_features)[:n_directions] * law.scale

    def _designs(self, law: SpectralLaw, n_blocks: int, size: int, rng: np.random.Generator) -> np.ndarray:
        """Blocks (n_blocks, size, d) of directions of a law of unit scale, designed each by itself."""
        iterations = check_integer("iterations", self.iterations, least=0)
        d = law.n_features
        radius_rng, design_rng, rotation_rng = rng.spawn(3)
        radii = stratified_radii(law, n_blocks, size, radius_rng)

        def design(task: tuple[np.ndarray, np.random.Generator]) -> np.ndarray:
            lengths, child = task
            start = child.standard_normal((lengths.size, d))
            start /= np.linalg.norm(start, axis=1, keepdims=True)
            scaled = np.minimum(lengths * (_SQUARE_DISTANCE / d) ** 0.5, _LONGEST)
            return spread_directions(start, scaled, law.is_for_even_functions, iterations)

        n_designs = min(n_blocks, _MOST_DESIGNS) if d <= _WIDEST_ROTATED else n_blocks
        designs = run_tasks(design, zip(radii[:n_designs], design_rng.spawn(n_designs), strict=True))

        def block(task: tuple[int, np.random.Generator]) -> np.ndarray:
            number, child = task
            # The radii rise, and maps are cut, so the order is random.
            points = child.permutation(designs[number % n_designs] * radii[number, :, None])
            return points if number < n_designs else points @ haar_orthogonal(d, child)

        return np.stack(run_tasks(block, enumerate(rotation_rng.spawn(n_blocks))))


def spread_directions(directions: np.ndarray, lengths: np.ndarray, even: bool, iterations: int) -> np.ndarray:
    """Unit vectors (k, d) of low energy at given `lengths` (k,), by descent from `directions`."""
    from scipy.optimize import minimize

    lengths = lengths[:, None]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        free = flat.reshape(directions.shape)
        norms = np.linalg.norm(free, axis=1, keepdims=True)
        units = free / norms
        value, slope = energy(units * lengths, even)
        slope *= lengths
        slope -= (slope * units).sum(axis=1, keepdims=True) * units
        # L-BFGS takes a first step of the length of the gradient: means over points keep it in proportion.
        return value / len(free), (slope / norms).ravel() / len(free)

    options = {"maxiter": iterations, "ftol": 0.0, "gtol": 0.0}
    found = minimize(objective, directions.ravel(), jac=True, method="L-BFGS-B", options=options)
    found = found.x.reshape(directions.shape)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def energy(points: np.ndarray, even: bool) -> tuple[float, np.ndarray]:
    """Sum over pairs of ``exp(-|p_i - p_j|^2 / 2)``, for even integrands also of ``exp(-|p_i + p_j|^2 / 2)``.

    Returned with its derivative by directions at fixed lengths: radial parts of the gradient (k, d) are left out.
    """
    # Single precision halves the time, and only a descent reads these numbers.
    points = points.astype(np.float32)
    halves = 0.5 * np.einsum("ij,ij->i", points, points)
    total, slope = 0.0, np.empty_like(points)
    for first in range(0, len(points), _ROWS):
        rows = slice(first, first + _ROWS)
        inner = points[rows] @ points.T
        lengths = halves[rows, None] + halves
        near = np.exp(inner - lengths)
        total += float(near.sum(dtype=np.float64))
        if even:
            opposite = np.exp(-inner - lengths)
            total += float(opposite.sum(dtype=np.float64))
            near -= opposite
        np.matmul(near, points, out=slope[rows])
    return total, 2.0 * slope.astype(np.float64)
