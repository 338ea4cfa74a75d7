"""Spectral mixtures that fit targets, by gradients of a likelihood over random features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, optimize, sparse, special

from phimap._random import named_streams
from phimap._validation import check_finite
from phimap.config import memory_budget, size_text
from phimap.kernels.rows import checked_rows
from phimap.kernels.spectral_mixture.components import Components
from phimap.kernels.spectral_mixture.likelihood import Likelihood, Shape, start_vector
from phimap.kernels.spectral_mixture.starts import EmpiricalSpectrum, at_random, from_spectrum, wide
from phimap.ops import run_tasks, single_threaded_blas

# A quarter of the rows judges the fits.
_SHARE = 4
# Fewer rows than this leave nothing to fit and to judge.
_LEAST_ROWS = 8
# Shares of the targets' variance: the noise at the start, and its bounds.
_NOISE, _NOISES = 0.1, (1e-6, 10.0)
# Weights of the targets' variance lie between these.
_WEIGHTS = (1e-6, 100.0)
# Correlations reach at most this many times as far as the rows.
_FARTHEST = 100.0
# The first steps from each start take one of so many features, and one of so many steps.
_FIRST_SHARE = 2
# Multiples of the noise at which a fit is judged.
_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)
# Matrices of rows by features, and of rows by rows, that a fit holds at a time.
_FEATURE_MATRICES, _ROW_MATRICES = 10, 4
# A step that gains less than this share of the loss is the last.
_GAIN = 1e-6
_ROLES = ("rows", "draws", "starts")


@dataclass(frozen=True)
class MixtureOptions:
    """How a mixture is fitted, see `SpectralMixture.fitted`; the values are checked."""

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
    """The components whose kernel errs least on rows left out, of all starts.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, t)
    weights : ndarray of shape (n,)
        Positive.
    options : Options
    seed : SeedSequence

    Returns
    -------
    Components
    """
    streams = named_streams(seed, *_ROLES)
    rows = streams["rows"].permutation(len(X))[: _affordable(len(X), options)]
    X, Y, weights = X[rows], Y[rows], weights[rows]
    X = X - X.mean(axis=0)
    n_judged = len(X) // _SHARE
    judged, learned = (slice(0, n_judged), slice(n_judged, None))
    centre = np.average(Y[learned], axis=0, weights=weights[learned])
    spread = float(np.average(np.square(Y[learned] - centre).mean(axis=1), weights=weights[learned])) or 1.0
    Y = (Y - centre) / np.sqrt(spread)
    spectrum = EmpiricalSpectrum.of_rows(X[learned])
    few, many = (_draws(options, share, X.shape[1], streams["draws"]) for share in (_FIRST_SHARE, 1))
    first = Likelihood(X[learned], Y[learned], weights[learned], few, options.held_out)

    def run(start: Components) -> tuple[float, np.ndarray]:
        vector = _climbed(first, start_vector(start, _NOISE), spectrum, -(-options.n_steps // _FIRST_SHARE))
        return _error(first.shape, vector, (X, Y, weights), learned, judged), vector

    # Products outside of tasks have one thread, too: what is found does not depend on their number.
    with single_threaded_blas():
        starts = list(_starts((X[learned], Y[learned], weights[learned]), spectrum, options, streams["starts"]))
        best = min(run_tasks(run, starts, options.n_jobs), key=lambda pair: pair[0])[1]
        whole = Likelihood(X, Y, weights, many, options.held_out)
        found = whole.shape.components(_climbed(whole, best, spectrum, options.n_steps))
    # Nothing is known along a column that does not vary.
    varies = spectrum.resolution > 0
    return Components(found.shares, np.where(varies, found.means, 0.0), np.where(varies, found.scales, 0.0))


def _affordable(n: int, options: MixtureOptions) -> int:
    """Rows that may be used; as if all starts were fitted at a time, so that threads change no bit."""
    budget = memory_budget() // (4 * options.n_restarts)
    rows = min(n, options.n_rows)
    while rows > _LEAST_ROWS:
        needed = 8 * rows * max(_FEATURE_MATRICES * options.n_components, _ROW_MATRICES * rows)
        if needed <= budget:
            return rows
        rows = rows * 3 // 4
    if n >= _LEAST_ROWS:
        raise MemoryError(
            f"a mixture with `n_components`={options.n_components} and `n_restarts`={options.n_restarts} fits no rows "
            f"in the byte budget of {size_text(memory_budget())}. Use fewer, or raise phimap.config(memory=...)."
        )
    raise ValueError(f"a spectral mixture needs at least {_LEAST_ROWS} rows, got {n}. Give more rows.")


def _starts(
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    spectrum: EmpiricalSpectrum,
    options: MixtureOptions,
    rng: np.random.Generator,
) -> Iterator[Components]:
    """Where the fits start: the spectrum, wide components, the spectrum drawn anew, and from then on random ones."""
    for number, stream in enumerate(rng.spawn(options.n_restarts)):
        if number in (0, 2):
            yield from_spectrum(*rows, spectrum, options.n_mixtures, stream)
        elif number == 1:
            yield wide(rows[0], spectrum, options.n_mixtures)
        else:
            yield at_random(spectrum, options.n_mixtures, stream)


def _draws(options: MixtureOptions, share: int, n_features: int, rng: np.random.Generator) -> np.ndarray:
    """Standard normal numbers (q, s, d), even along each column in each component; `share` divides their number."""
    from scipy.stats import qmc

    size = max(1, options.n_components // (2 * options.n_mixtures * share))
    points = [qmc.LatinHypercube(n_features, seed=rng).random(size) for _ in range(options.n_mixtures)]  # pyright: ignore
    return special.ndtri(np.clip(np.stack(points), np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).epsneg))


def _climbed(likelihood: Likelihood, vector: np.ndarray, spectrum: EmpiricalSpectrum, n_steps: int) -> np.ndarray:
    """The vector of greatest likelihood near a given one, after so many steps of a quasi-Newton method at the most."""
    q = likelihood.shape.n_mixtures
    narrow, widest = spectrum.resolution / (2 * np.pi * _FARTHEST), spectrum.nyquist
    # No frequency of a constant column counts. Its bounds need not be 0, which has no logarithm.
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
    judged: slice,
) -> float:
    """Mean squared error of the exact kernel on rows left out, at the noise near that of `vector` that is best."""
    X, Y, weights = rows
    components, (logs, *_, log_noise) = shape.components(vector), shape.split(vector)
    noise = float(np.exp(log_noise - np.logaddexp.reduce(logs)))
    gram, others = components.values(X[learned], X[learned]), components.values(X[judged], X[learned])
    errors = []
    for factor in _FACTORS:
        shifted = gram + np.diag(noise * factor / weights[learned])
        try:
            coefs = linalg.solve(shifted, Y[learned], assume_a="pos", check_finite=False)
        except linalg.LinAlgError:
            # Without noise the matrix may be singular to rounding.
            continue
        squares = np.square(others @ coefs - Y[judged]).mean(axis=1)
        errors.append(float(np.average(squares, weights=weights[judged])))
    return min(errors, default=np.inf)
