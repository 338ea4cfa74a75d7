"""The papers' variances and bounds beside what draws of features give.

Liu et al. (2021), Section 3.1: the variance of an estimate at one pair of points. Han et al. (2021), Theorems 2 and 3
(Zandieh et al. (2021), Theorems 6 and 7), and the survey's Table 3: the number of features with which
``K + alpha I`` is known to a factor of 1 +- epsilon, on rows that are meant to break it: on half a circle, in three
tight clusters, and equal.

What differs: the sources state bounds and test none of them. 12 rows, since the promised numbers grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.experiment import Finding, Report, Table, as_dicts, having, measured
from phimap.bench.options import BenchOptions

EPSILON, DELTA, ALPHA = 0.5, 0.1, 0.2
_ROWS, _LENGTH_SCALE = 12, 0.5
# Of a variance: columns, directions, distances in length scales, and draws, which know it to 4 %.
_COLUMNS, _DIRECTIONS, _TAUS, _DRAWS = 16, 32, (0.5, 1.0, 2.0), 2000
# Draws of each promised number of features, and features of a piece.
_BOUND_DRAWS, _PIECE = 15, 100_000

#: Methods of `phimap.theory.estimator_variance`: the name in the survey, and the options of the map.
VARIANCES: dict[str, tuple[str, dict[str, Any]]] = {
    "gaussian": ("RFF", {"projection": "gaussian"}),
    "gaussian-offset": ("RFF with offsets", {"projection": "gaussian", "pairing": "offset"}),
    "gaussian-normalized": (
        "NRFF",
        {"projection": "gaussian", "pairing": "offset", "normalize_output": True},
    ),
    "orthogonal": ("ORF", {"projection": "orthogonal"}),
    "orthogonal-offset": ("ORF with offsets", {"projection": "orthogonal", "pairing": "offset"}),
    "fastfood": ("Fastfood (an upper bound)", {"projection": "fastfood"}),
}


@dataclass(frozen=True)
class Measurement:
    """One figure of theory, and its simulation.

    Attributes
    ----------
    name : str
        Of the variance's method or of the bound.
    setting : str
        The distance in length scales, or the rows.
    predicted, measured : float
        Variances; of a bound epsilon, and the mean over draws of what it bounds.
    n_components : int
        Directions of a variance, or the number that a bound promises to be enough.
    failures : int
        Draws that missed epsilon.
    draws : int
    """

    name: str
    setting: str
    predicted: float
    measured: float
    n_components: int
    failures: int
    draws: int


def variances(draws: int = _DRAWS, seed: int = 0) -> Iterator[Measurement]:
    """Every variance at every distance, by the library's features."""
    for method, (_, options) in VARIANCES.items():
        for tau in _TAUS:
            # In no direction that a structured projection prefers.
            difference = np.random.default_rng(seed).standard_normal(_COLUMNS)
            rows = np.stack([np.zeros(_COLUMNS), tau * difference / np.linalg.norm(difference)]) + 0.3
            width = _DIRECTIONS if "pairing" in options else 2 * _DIRECTIONS
            found = np.empty(draws)
            for draw in range(draws):
                stream = np.random.SeedSequence([seed, draw])
                phi = pm.FourierFeatures(pm.kernels.Gaussian(), width, random_state=stream, **options)
                first, second = phi.fit_transform(rows)
                found[draw] = first @ second
            predicted = pm.theory.estimator_variance(method, tau, _DIRECTIONS, _COLUMNS)
            yield Measurement(method, f"{tau:g}", predicted, float(found.var(ddof=1)), _DIRECTIONS, 0, draws)


def _unit(X: np.ndarray) -> np.ndarray:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def hard_rows(n: int = _ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows of norm 1 on which bounds are tight or break."""
    angle = np.linspace(0, np.pi, n)
    centres = np.eye(4)[np.minimum(np.arange(n) // (n // 2 - 1), 2)]
    return {
        "half a circle": np.stack([np.cos(angle), np.sin(angle)], axis=1),
        "three clusters": _unit(centres + 0.01 * np.random.default_rng(seed).standard_normal((n, 4))),
        "equal rows": np.tile([0.6, 0.8], (n, 1)),
    }


def _steps(X: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    return np.sqrt(2 / m) * (X @ rng.standard_normal((X.shape[1], m)) > 0)


def _modified_relu(X: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Rectified features for directions by the modified law, whose lengths do not count."""
    W = rng.standard_normal((X.shape[1], m))
    return np.sqrt(2 * X.shape[1] / m) * np.maximum(X @ (W / np.linalg.norm(W, axis=0)), 0)


def _pairs(X: np.ndarray, s: int, rng: np.random.Generator) -> np.ndarray:
    projected = X @ rng.standard_normal((X.shape[1], s)) / _LENGTH_SCALE
    return np.concatenate([np.cos(projected), np.sin(projected)], axis=1) / np.sqrt(s)


#: Bounds: papers and places, features (rows, number, generator), and the kernel.
BOUNDS: dict[str, tuple[Sequence[tuple[str, str]], Callable[..., np.ndarray], Any]] = {
    "arccosine0-spectral": (
        (("Han et al. (2021)", "Theorem 2"), ("Zandieh et al. (2021)", "Theorem 6")),
        _steps,
        pm.kernels.ArcCosine(order=0),
    ),
    "arccosine1-spectral": (
        (("Han et al. (2021)", "Theorem 3"), ("Zandieh et al. (2021)", "Theorem 7")),
        _modified_relu,
        pm.kernels.ArcCosine(order=1),
    ),
    "fourier-spectral": (
        (("Liu et al. (2021)", "Table 3, spectral approximation"),),
        _pairs,
        pm.kernels.Gaussian(_LENGTH_SCALE),
    ),
}


def bounds(draws: int = _BOUND_DRAWS) -> Iterator[Measurement]:
    """The promised number of features of every bound, on every hard set."""
    for name, (_, features, kernel) in BOUNDS.items():
        for rows, X in hard_rows().items():
            K = kernel(X)
            given: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "alpha": ALPHA}
            given["statistical_dimension"] = pm.metrics.statistical_dimension(K, ALPHA)
            if name == "arccosine1-spectral":
                given |= {"d": X.shape[1], "operator_norm": float(np.linalg.norm(X, 2))}
            else:
                given["n"] = len(X)
            m = int(pm.theory.required_features(name, **given).value)
            found = [_deviation(_estimate(features, X, m, seed), K) for seed in range(draws)]
            failures = sum(one > EPSILON for one in found)
            yield Measurement(name, rows, EPSILON, float(np.mean(found)), m, failures, draws)


def _estimate(features: Callable[..., np.ndarray], X: np.ndarray, m: int, seed: int) -> np.ndarray:
    """``Z Z^T`` in pieces of bounded size."""
    rng, total = np.random.default_rng(seed), np.zeros((len(X), len(X)))
    for start in range(0, m, _PIECE):
        piece = min(m - start, _PIECE)
        Z = features(X, piece, rng)
        total += Z @ Z.T * (piece / m)
    return total


def _deviation(A: np.ndarray, K: np.ndarray) -> float:
    """The least epsilon of the guarantee: the largest ``|eigenvalue - 1|`` of A + alpha against K + alpha."""
    eigenvalues, vectors = np.linalg.eigh(K)
    root = vectors / np.sqrt(np.maximum(eigenvalues, 0) + ALPHA)
    return float(np.abs(np.linalg.eigvalsh(root.T @ (A - K) @ root)).max())


def report(options: BenchOptions, stages: Stages) -> Report:
    """Variances and bounds: a table of each, and the findings."""
    n_draws = options.repeats or _DRAWS
    of_variances = measured(stages, "variances", variances(n_draws, options.seed), len(VARIANCES) * len(_TAUS))
    of_bounds = measured(stages, "bounds", bounds(), len(BOUNDS) * len(hard_rows()))
    return Report(
        as_dicts([*of_variances, *of_bounds]),
        [_variance_table(of_variances), _bound_table(of_bounds)],
        findings=[*_variance_findings(of_variances), *_bound_findings(of_bounds)],
    )


def _variance_table(found: Sequence[Measurement]) -> Table:
    lines = [
        (one.name, one.setting, f"{one.predicted:.3g}", f"{one.measured:.3g}", f"{one.measured / one.predicted:.3f}")
        for one in found
    ]
    title = f"variances of estimates of the Gaussian kernel, {_DIRECTIONS} directions in {_COLUMNS} columns"
    return Table(title, ("method", "distance", "formula", "simulated", "simulated / formula"), lines)


def _bound_table(found: Sequence[Measurement]) -> Table:
    lines = [
        (one.name, one.setting, f"{one.n_components:,}", f"{one.measured:.3f}", f"{one.failures} of {one.draws}")
        for one in found
    ]
    title = f"spectral bounds at epsilon = {EPSILON:g}, delta = {DELTA:g}, alpha = {ALPHA:g}"
    return Table(title, ("bound", "rows", "features promised", "epsilon, mean of draws", "missed"), lines)


def _variance_findings(found: Sequence[Measurement]) -> Iterator[Finding]:
    for method, (name, _) in VARIANCES.items():
        part = having(found, name=method)
        ratios = [one.measured / one.predicted for one in part]
        distances = ", ".join(one.setting for one in part)
        yield Finding(
            "Liu et al. (2021)",
            f"Section 3.1, variance of {name}",
            "simulated over the formula",
            f"{_DIRECTIONS} directions, {_COLUMNS} columns, distances {distances}, {part[0].draws:,} draws",
            f"{min(ratios):.2f} to {max(ratios):.2f}",
            "at most 1" if method == "fastfood" else "1 (printed with another term)" if name == "NRFF" else "1",
        )


def _bound_findings(found: Sequence[Measurement]) -> Iterator[Finding]:
    for name, (places, _, _) in BOUNDS.items():
        part = having(found, name=name)
        for paper, place in places:
            yield Finding(
                paper,
                place,
                f"epsilon with the promised number, and draws that miss {EPSILON:g}",
                f"{_ROWS} rows: {', '.join(f'{one.setting} ({one.n_components:,} features)' for one in part)}",
                ", ".join(f"{one.measured:.2f} ({one.failures} of {one.draws})" for one in part),
                f"at most {EPSILON:g}, missed with probability {DELTA:g}",
            )
