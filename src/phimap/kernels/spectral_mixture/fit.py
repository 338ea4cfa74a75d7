"""Fit spectral mixtures to targets: gradient methods optimise a likelihood that uses random features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, optimize, sparse, special

from phimap._random import named_streams
from phimap._validation import check_finite
from phimap.config import size_text, stated_budget
from phimap.kernels.rows import checked_rows
from phimap.kernels.spectral_mixture.components import Components
from phimap.kernels.spectral_mixture.likelihood import Likelihood, Shape, start_vector
from phimap.kernels.spectral_mixture.starts import EmpiricalSpectrum, at_random, from_spectrum, wide
from phimap.ops import run_tasks, single_threaded_blas

# One in this many rows is a validation row.
_SHARE = 4
# Minimum number of rows of a fit, validation rows included.
_LEAST_ROWS = 8
# Start value and bounds of the noise variance, relative to the variance of the targets.
_NOISE, _NOISES = 0.1, (1e-6, 10.0)
# Bounds of the component weights, relative to the variance of the targets.
_WEIGHTS = (1e-6, 100.0)
# Maximum length scale relative to the extent of the rows.
_FARTHEST = 100.0
# The first fits, one from each start, have this many times fewer features and steps than the last fit.
_FIRST_SHARE = 2
# Multiples of the fitted noise variance that are compared on the validation rows.
_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
# During a fit, number of matrices in memory with an entry for each row and feature, and number of matrices with an
# entry for each pair of rows.
_FEATURE_MATRICES, _ROW_MATRICES = 10, 4
# The fit stops after a step that reduces the loss by less than this fraction.
_GAIN = 1e-6
_ROLES = ("rows", "draws", "starts")


@dataclass(frozen=True)
class MixtureOptions:
    """Checked options of a fit, see `SpectralMixture.fitted`."""

    n_mixtures: int
    held_out: bool
    n_components: int
    n_steps: int
    n_restarts: int
    n_rows: int
    n_jobs: int | None


def checked_targets(X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (n, d), targets (n, t) and weights (n,) in float64, without rows of weight 0."""
    rows = checked_rows(X, "X")
    if sparse.issparse(rows):
        raise ValueError("`X` must be dense for a spectral mixture, got a sparse matrix. Use X.toarray().")
    rows = rows.astype(np.float64, copy=False)
    numbers = {"y": y, "sample_weight": np.ones(len(rows)) if sample_weight is None else sample_weight}
    for name, values in numbers.items():
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"`{name}` must hold numbers, got {array.dtype}. Give one number for each row.")
        dimensions = (1, 2) if name == "y" else (1,)
        if array.ndim not in dimensions or len(array) != len(rows):
            raise ValueError(f"`{name}` must have {len(rows)} rows, as `X`, got shape {array.shape}.")
        numbers[name] = array.astype(np.float64)
        check_finite(numbers[name], name)
    targets, weights = numbers["y"].reshape(len(rows), -1), numbers["sample_weight"]
    if (weights < 0).any():
        raise ValueError(f"`sample_weight` must not be negative, got {weights.min()}. Use 0 to leave a row out.")
    kept = weights > 0
    return rows[kept], targets[kept], weights[kept]


def fit_mixture(
    X: np.ndarray, Y: np.ndarray, weights: np.ndarray, options: MixtureOptions, seed: np.random.SeedSequence
) -> Components:
    """Fit from every start and return the components with the smallest error on the validation rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, t)
    weights : ndarray of shape (n,)
        Positive row weights.
    options : MixtureOptions
    seed : SeedSequence

    Returns
    -------
    Components
    """
    streams = named_streams(seed, *_ROLES)
    rows = streams["rows"].permutation(len(X))[: _affordable(len(X), options)]
    X, Y, weights = X[rows], Y[rows], weights[rows]
    X = X - X.mean(axis=0)
    n_held_out = len(X) // _SHARE
    held_out, learned = (slice(0, n_held_out), slice(n_held_out, None))
    centre = np.average(Y[learned], axis=0, weights=weights[learned])
    spread = float(np.average(np.square(Y[learned] - centre).mean(axis=1), weights=weights[learned])) or 1.0
    Y = (Y - centre) / np.sqrt(spread)
    spectrum = EmpiricalSpectrum.of_rows(X[learned])
    few, many = (_draws(options, share, X.shape[1], streams["draws"]) for share in (_FIRST_SHARE, 1))
    first = Likelihood(X[learned], Y[learned], weights[learned], few, options.held_out)

    def run(start: Components) -> tuple[float, np.ndarray]:
        vector = _climbed(first, start_vector(start, _NOISE), spectrum, -(-options.n_steps // _FIRST_SHARE))
        return _error(first.shape, vector, (X, Y, weights), learned, held_out), vector

    # BLAS uses one thread everywhere, so that the result does not depend on the number of threads.
    with single_threaded_blas():
        starts = list(_starts((X[learned], Y[learned], weights[learned]), spectrum, options, streams["starts"]))
        best = min(run_tasks(run, starts, options.n_jobs), key=lambda pair: pair[0])[1]
        whole = Likelihood(X, Y, weights, many, options.held_out)
        found = whole.shape.components(_climbed(whole, best, spectrum, options.n_steps))
    # The data do not determine frequencies along a constant column.
    varies = spectrum.resolution > 0
    return Components(found.shares, np.where(varies, found.means, 0.0), np.where(varies, found.scales, 0.0))


def _affordable(n: int, options: MixtureOptions) -> int:
    """Number of rows that the byte budget allows.

    All starts are assumed to run at the same time, so that the number does not depend on the number of threads.
    """
    budget = stated_budget() // (4 * options.n_restarts)
    rows = min(n, options.n_rows)
    while rows >= _LEAST_ROWS:
        needed = 8 * rows * max(_FEATURE_MATRICES * options.n_components, _ROW_MATRICES * rows)
        if needed <= budget:
            return rows
        rows = rows * 3 // 4
    if n >= _LEAST_ROWS:
        raise MemoryError(
            f"a mixture with `n_components`={options.n_components} and `n_restarts`={options.n_restarts} fits no rows "
            f"in the byte budget of {size_text(stated_budget())}. Use fewer, or raise phimap.config(memory=...)."
        )
    raise ValueError(f"a spectral mixture needs at least {_LEAST_ROWS} rows, got {n}. Give more rows.")


def _starts(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    spectrum: EmpiricalSpectrum,
    options: MixtureOptions,
    rng: np.random.Generator,
) -> Iterator[Components]:
    """Yield the starts: from the spectrum, wide, from the spectrum with other draws, then random components."""
    for number, stream in enumerate(rng.spawn(options.n_restarts)):
        if number in (0, 2):
            yield from_spectrum(*rows, spectrum, options.n_mixtures, stream)
        elif number == 1:
            yield wide(rows[0], spectrum, options.n_mixtures)
        else:
            yield at_random(spectrum, options.n_mixtures, stream)


def _draws(options: MixtureOptions, share: int, n_features: int, rng: np.random.Generator) -> np.ndarray:
    """Standard normal draws (q, s, d), by Latin hypercube sampling for each of q components; `share` divides s."""
    from scipy.stats import qmc

    size = max(1, options.n_components // (2 * options.n_mixtures * share))
    points = [qmc.LatinHypercube(n_features, seed=rng).random(size) for _ in range(options.n_mixtures)]  # pyright: ignore
    return special.ndtri(np.clip(np.stack(points), np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg))


def _climbed(likelihood: Likelihood, vector: np.ndarray, spectrum: EmpiricalSpectrum, n_steps: int) -> np.ndarray:
    """Minimise the loss from the start `vector` with at most `n_steps` steps of L-BFGS-B."""
    q = likelihood.shape.n_mixtures
    narrow, widest = spectrum.resolution / (2 * np.pi * _FARTHEST), spectrum.nyquist
    # The bounds for a constant column are arbitrary, but must not be 0, whose logarithm is infinite.
    narrow, widest = (np.where(bound > 0, bound, 1.0) for bound in (narrow, widest))
    least, most = (
        np.concatenate([np.full(q, np.log(weight)), np.tile(mean, q), np.tile(np.log(scale), q), [np.log(noise)]])
        for weight, mean, scale, noise in zip(_WEIGHTS, (-widest, widest), (narrow, widest), _NOISES, strict=True)
    )
    found = optimize.minimize(
        likelihood,
        np.clip(vector, least, most),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(least, most, strict=True)),
        options={"maxiter": n_steps, "ftol": _GAIN},
    )
    return found.x


def _error(
    shape: Shape,
    vector: np.ndarray,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    learned: slice,
    held_out: slice,
) -> float:
    """Mean squared error of ridge regression with the exact kernel on the validation rows.

    A few multiples of the noise in `vector` are tried as the ridge penalty; the smallest error is returned.
    """
    X, Y, weights = rows
    components, (logs, *_, log_noise) = shape.components(vector), shape.split(vector)
    noise = float(np.exp(log_noise - np.logaddexp.reduce(logs)))
    gram, others = components.values(X[learned], X[learned]), components.values(X[held_out], X[learned])
    errors = []
    for factor in _FACTORS:
        shifted = gram + np.diag(noise * factor / weights[learned])
        try:
            coefs = linalg.solve(shifted, Y[learned], assume_a="pos", check_finite=False)
        except linalg.LinAlgError:
            # For a small ridge penalty, the matrix may be numerically singular.
            continue
        squares = np.square(others @ coefs - Y[held_out]).mean(axis=1)
        errors.append(float(np.average(squares, weights=weights[held_out])))
    return min(errors, default=np.inf)
