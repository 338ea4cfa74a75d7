"""Directions with small expected error, found by minimising an energy of the points."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from phimap._validation import check_integer
from phimap.kernels.spectral import SpectralLaw
from phimap.ops import run_tasks
from phimap.projections.dense import SpreadProjection, haar_orthogonal
from phimap.projections.quasi_monte_carlo import low_discrepancy
from phimap.projections.radii import stratified_radii

# Mean squared distance, in length scales, for which the expected error is minimised. With the usual choice of the
# length scale the median distance is 1. Values from 1.5 to 2.5 give similar errors on real data.
_SQUARE_DISTANCE = 2.0
# Maximum number of points that are optimised jointly. With more points, the work per point grows and the accuracy
# hardly improves.
_MOST_POINTS = 512
# Minimum number of directions per subset of columns for an optimised design. With fewer, Sobol points are more
# accurate, because their points in different subsets complement each other.
_FEWEST_POINTS = 3
# Maximum number of optimised designs. Further blocks are rotated copies of them, which limits the time of a fit. With
# more than _WIDEST_ROTATED columns, all blocks are optimised, because a rotation costs as much as a design.
_MOST_DESIGNS = 8
_WIDEST_ROTATED = 1024
# Maximum length of a scaled point in the energy. Longer points are shortened to it. Points of this length hardly affect
# other points, and their squared length is still accurate in float32.
_LONGEST = 30.0
# Number of rows of the pair matrix that are computed at a time; they take at most a quarter of a MB.
_ROWS = 128
# Number of optimised designs that are kept. Maps of one seed that differ in their length scale have the same designs,
# and a search of a kernel draws many of them. Designs of more than `_KEPT_BYTES` bytes are not kept.
_KEPT, _KEPT_BYTES = 32, 2**17


class MinimumEnergy(SpreadProjection):
    """Minimum-energy points: directions with minimal expected squared error, and stratified radii.

    Let the difference delta of two rows be Gaussian with variance c / d per coordinate, where c = 2. Up to a term that
    depends only on the radii, the expected squared error of ``mean_i cos(<w_i, delta>)`` is ``1 / (2 s^2) sum_ij
    (exp(-c |w_i - w_j|^2 / (2 d)) + exp(-c |w_i + w_j|^2 / (2 d)))``. Radii are stratified quantiles of the law. The
    directions minimise this energy, by L-BFGS from a random start. For activations, which are not even functions, the
    second term is omitted.

    Parameters
    ----------
    iterations : int, default=30
        Number of L-BFGS steps, at least 0; each costs O(min(s, 512) min(s, 4096) d) flops.

    Notes
    -----
    **Error.** Unbiased. Each direction is uniform on the sphere, because the start is uniform and a rotation of the
    start rotates all steps. Each radius follows the law. The error is the smallest of all projections if s is several
    times d. For small d it is a few times smaller than for `Orthogonal`.

    **Cost.** The minimisation in `fit`; O(s d) numbers stored and O(s d) flops per row, as for independent draws.

    **Differs from the source in** the expectation, which is over Gaussian differences and not over a box; in radii that
    follow the law; in the random start, without which the points are biased; and in blocks of at most 512 points.
    Beyond 4,096 points, blocks are randomly rotated copies of earlier blocks if there are at most 1,024 columns.

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
        """Blocks (n_blocks, size, d) of directions with unit scale.

        Blocks are optimised separately. Up to `_WIDEST_ROTATED` columns, blocks after the first `_MOST_DESIGNS` are
        rotated copies of these with radii of their own.
        """
        iterations = check_integer("iterations", self.iterations, least=0)
        d = law.n_features
        radius_rng, design_rng, rotation_rng = rng.spawn(3)
        radii = stratified_radii(law, n_blocks, size, radius_rng)

        def design(task: tuple[np.ndarray, np.random.Generator]) -> np.ndarray:
            lengths, child = task
            start = child.standard_normal((lengths.size, d))
            start /= np.linalg.norm(start, axis=1, keepdims=True)
            scaled = np.minimum(lengths * (_SQUARE_DISTANCE / d) ** 0.5, _LONGEST)
            if start.nbytes > _KEPT_BYTES:
                return spread_directions(start, scaled, law.is_for_even_functions, iterations)
            found = _spread(start.tobytes(), scaled.tobytes(), law.is_for_even_functions, iterations)
            return np.frombuffer(found).reshape(start.shape)

        n_designs = min(n_blocks, _MOST_DESIGNS) if d <= _WIDEST_ROTATED else n_blocks
        designs = run_tasks(design, zip(radii[:n_designs], design_rng.spawn(n_designs), strict=True))

        def block(task: tuple[int, np.random.Generator]) -> np.ndarray:
            number, child = task
            # Radii are ascending, so a random order makes the first directions of a truncated map representative.
            points = child.permutation(designs[number % n_designs] * radii[number, :, None])
            return points if number < n_designs else points @ haar_orthogonal(d, child)

        return np.stack(run_tasks(block, enumerate(rotation_rng.spawn(n_blocks))))


@lru_cache(maxsize=_KEPT)
def _spread(directions: bytes, lengths: bytes, even: bool, iterations: int) -> bytes:
    """Return the bytes of `spread_directions`, given those of its arrays."""
    sizes = np.frombuffer(lengths)
    start = np.frombuffer(directions).reshape(sizes.size, -1)
    return spread_directions(start, sizes, even, iterations).tobytes()


def spread_directions(directions: np.ndarray, lengths: np.ndarray, even: bool, iterations: int) -> np.ndarray:
    """Unit vectors (k, d) for which the points of given `lengths` (k,) have low energy, by L-BFGS from `directions`."""
    from scipy.optimize import minimize

    lengths = lengths[:, None]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        free = flat.reshape(directions.shape)
        norms = np.linalg.norm(free, axis=1, keepdims=True)
        units = free / norms
        value, slope = energy(units * lengths, even)
        slope *= lengths
        slope -= (slope * units).sum(axis=1, keepdims=True) * units
        # The first step of L-BFGS has the length of the gradient. Division by the number of points keeps it moderate.
        return value / len(free), (slope / norms).ravel() / len(free)

    options = {"maxiter": iterations, "ftol": 0.0, "gtol": 0.0}
    found = minimize(objective, directions.ravel(), jac=True, method="L-BFGS-B", options=options)
    found = found.x.reshape(directions.shape)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def energy(points: np.ndarray, even: bool) -> tuple[float, np.ndarray]:
    """Sum over pairs of ``exp(-|p_i - p_j|^2 / 2)``, plus ``exp(-|p_i + p_j|^2 / 2)`` if `even`, and its gradient.

    The gradient (k, d) omits radial components, because the lengths of the points are fixed.
    """
    # Single precision halves the time, and is accurate enough for a minimisation.
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
