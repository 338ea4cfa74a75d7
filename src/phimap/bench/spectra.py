"""Spectra of centred kernel matrices of mixture data, compared with the spectra of high-dimensional equivalents.

Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no performance
loss*, Figure 2: eigenvalues, and the eigenvector of the largest eigenvalue, for ReLU features of two Gaussian classes.
For Gaussian directions the kernel matrix is exact. For Student-t directions it is a mean over many drawn directions;
the mean over as many Gaussian directions shows the sampling error. By Theorem 1 the distribution of the directions does
not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import phimap as pm
from phimap._progress import Stages
from phimap.bench.experiment import Finding, Report, ResultTable, measured
from phimap.bench.figures import panels, save
from phimap.bench.options import BenchOptions

DIMENSION, ROWS = 512, 2048
# Number of directions that are drawn per row of the data, and number of directions that are drawn at a time.
_DRAWS, _BLOCK = 32, 2048
# Degrees of freedom of the source's Student-t distribution.
_FREEDOM = 7

Directions = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
Matrix = Callable[[np.ndarray, int], np.ndarray]


def _student(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Draw Student-t entries of variance 1."""
    return rng.standard_t(_FREEDOM, shape) * (1 - 2 / _FREEDOM) ** 0.5


def _mean_of_relu(X: np.ndarray, seed: int, draw: Directions) -> np.ndarray:
    """Estimate the kernel matrix of ReLU features by the mean over drawn directions."""
    rng, n_draws = np.random.default_rng(seed), _DRAWS * len(X)
    K = np.zeros((len(X), len(X)))
    for start in range(0, n_draws, _BLOCK):
        Z = np.maximum(X @ draw(rng, (X.shape[1], min(_BLOCK, n_draws - start))), 0)
        K += Z @ Z.T
    return K / n_draws


#: Kernel matrices by name: a function of rows and seed, and the activation or kernel that defines the equivalent.
KERNELS: Mapping[str, tuple[Matrix, Any]] = {
    "relu": (lambda X, seed: pm.kernels.ActivationKernel("relu")(X), "relu"),
    "relu-gaussian-draws": (partial(_mean_of_relu, draw=np.random.Generator.standard_normal), "relu"),
    "relu-student-draws": (partial(_mean_of_relu, draw=_student), "relu"),
    "gaussian": (lambda X, seed: pm.kernels.Gaussian()(X), pm.kernels.Gaussian()),
}
_PUBLISHED_SIZE = f"p = {DIMENSION}, n = {ROWS:,}"
#: For a kernel, its place in the source, and the published size. Figure 2 shows ReLU features, on the left with
#: Gaussian directions and on the right with Student-t directions. It shows neither the mean over Gaussian draws nor the
#: Gaussian kernel.
PLACES = {
    "relu": ("Theorem 1 and Figure 2, left", _PUBLISHED_SIZE),
    "relu-gaussian-draws": ("Theorem 1", "-"),
    "relu-student-draws": ("Theorem 1 and Figure 2, right", _PUBLISHED_SIZE),
    "gaussian": ("Theorem 1", "-"),
}


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues (n,) in ascending order, and the eigenvector (n,) of the largest eigenvalue."""

    values: np.ndarray
    leading: np.ndarray


def run(name: str, *, n: int = ROWS, p: int = DIMENSION, seed: int = 0) -> tuple[dict[str, Any], Spectrum, Spectrum]:
    """Compare the centred kernel matrix of n rows of a Gaussian mixture in p dimensions with its equivalent.

    The classes a = 1, 2 have means ``4 e_a`` and covariances ``(1 + 4 (a - 1) / sqrt(p)) I``.

    Returns
    -------
    measurement : dict
        `gap` is the spectral norm of the difference, divided by the spectral norm of the kernel matrix, `overlap` the
        absolute inner product of the leading eigenvectors.
    exact, equivalent : Spectrum
        Spectra with rows in the order of their classes; the second eigenvector has the sign of the first.
    """
    kernel, activation = KERNELS[name]
    mixture = pm.theory.GaussianMixture(4 * np.eye(2, p), 1 + 4 * np.arange(2) / p**0.5)
    X, labels = mixture.sample(n, random_state=seed)
    order = np.argsort(labels, kind="stable")
    X, labels = X[order], labels[order]
    K = kernel(X, seed)
    K += K.mean() - K.mean(axis=0) - K.mean(axis=1, keepdims=True)
    equivalent = pm.theory.equivalent_kernel(activation, X, labels, mixture=mixture)
    (values, vectors), (other, other_vectors) = np.linalg.eigh(K), np.linalg.eigh(equivalent)
    gap = np.abs(np.linalg.eigvalsh(K - equivalent)).max() / values[-1]
    overlap = float(vectors[:, -1] @ other_vectors[:, -1])
    spectra = Spectrum(values, vectors[:, -1]), Spectrum(other, other_vectors[:, -1] * np.sign(overlap))
    facts = {"kernel": name, "n": n, "p": p, "seed": seed, "gap": float(gap), "overlap": abs(overlap)}
    return facts, *spectra


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure every kernel on the requested number of draws, and make a figure of the first draw for each kernel."""
    names, seeds, n = options.chosen(KERNELS), options.seeds(1), options.rows or ROWS
    p = (options.widths or (max(8, n // 4),))[0]
    firsts: dict[str, tuple[Spectrum, ...]] = {}

    def draws() -> Iterator[dict[str, Any]]:
        for name, seed in product(names, seeds):
            facts, *spectra = run(name, n=n, p=p, seed=seed)
            firsts.setdefault(name, tuple(spectra))
            yield facts

    found = measured(stages, "spectra", draws(), len(names) * len(seeds))
    columns = {"kernel": ("kernel", ""), "seed": ("draw", ""), "gap": ("relative gap", ".4f")}
    columns["overlap"] = ("overlap of leading eigenvectors", ".5f")
    table = ResultTable.of(f"kernel matrix and equivalent, p = {p}, n = {n}", found, columns)
    figures = {f"spectra_{name}.png": partial(_figure, name, *firsts[name]) for name in names}
    findings = [_finding(name, part) for name, part in found.groupby("kernel", sort=False)]
    return Report(found, [table], figures, findings)


def _finding(name: str, found: pd.DataFrame) -> Finding:
    """Return the gap and the overlap, averaged over the draws. By Theorem 1, gap tends to 0 and overlap to 1."""
    one = found.iloc[0]
    place, published_size = PLACES[name]
    return Finding(
        "Ali et al. (2022)",
        f"{place}, {name}",
        "relative spectral norm of kernel matrix less equivalent; overlap of leading eigenvectors",
        f"p = {one.p}, n = {one.n:,}, {len(found)} draw{'s' * (len(found) > 1)}",
        f"{found['gap'].mean():.3f}; {found['overlap'].mean():.4f}",
        "0; 1, as p and n grow",
        published_size,
    )


def _figure(name: str, exact: Spectrum, equivalent: Spectrum, path: Path) -> None:
    """Plot the leading eigenvectors, and logarithmic histograms that show the few eigenvalues outside the bulk."""
    figure, ((above,), (below,)) = panels(6.4, 4.0, rows=2)
    ends = [end for spectrum in (exact, equivalent) for end in spectrum.values[[0, -1]]]
    bins = np.linspace(min(ends), max(ends), 120).tolist()
    above.hist(exact.values, bins, label="kernel matrix", alpha=0.6)
    above.hist(equivalent.values, bins, label="equivalent", histtype="step", color="k")
    above.set(yscale="log", xlabel="eigenvalue", ylabel="eigenvalues", title=name)
    above.legend(frameon=False)
    below.plot(exact.leading, ".", markersize=2, label="kernel matrix", alpha=0.6)
    below.plot(equivalent.leading, "k.", markersize=1, label="equivalent")
    below.set(xlabel="row, by classes", ylabel="leading eigenvector")
    save(figure, path)
