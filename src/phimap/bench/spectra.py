"""Spectra of centred kernel matrices of mixture data, beside those of their equivalents in high dimension.

Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no performance
loss*, Figure 2: eigenvalues, and the eigenvector of the largest, for ReLU features of two Gaussian classes. The mean
over directions is exact for Gaussian ones. That of entries by Student's law is taken over many draws, and beside it
stands the same number of Gaussian draws, which shows what is left of chance. By Theorem 1 the law makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.experiment import Finding, Report, Table, as_dicts, measured, values
from phimap.bench.figures import panels, save
from phimap.bench.options import BenchOptions

DIMENSION, ROWS = 512, 2048
# Directions of a mean over draws, for each row of data, and those that are drawn at a time.
_DRAWS, _BLOCK = 32, 2048
# Degrees of freedom of the source's second law.
_FREEDOM = 7

Directions = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
Matrix = Callable[[np.ndarray, int], np.ndarray]


def _student(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Entries of variance 1 by Student's law."""
    return rng.standard_t(_FREEDOM, shape) * (1 - 2 / _FREEDOM) ** 0.5


def _mean_of_relu(draw: Directions) -> Matrix:
    """The kernel matrix of ReLU features as a mean over draws of their directions."""

    def matrix(X: np.ndarray, seed: int) -> np.ndarray:
        rng, n_draws = np.random.default_rng(seed), _DRAWS * len(X)
        K = np.zeros((len(X), len(X)))
        for start in range(0, n_draws, _BLOCK):
            Z = np.maximum(X @ draw(rng, (X.shape[1], min(_BLOCK, n_draws - start))), 0)
            K += Z @ Z.T
        return K / n_draws

    return matrix


#: Kernel matrices of rows, and what their Gaussian moments are those of.
KERNELS: Mapping[str, tuple[Matrix, Any]] = {
    "relu": (lambda X, seed: pm.kernels.ActivationKernel("relu")(X), "relu"),
    "relu-gaussian-draws": (_mean_of_relu(lambda rng, shape: rng.standard_normal(shape)), "relu"),
    "relu-student-draws": (_mean_of_relu(_student), "relu"),
    "gaussian": (lambda X, seed: pm.kernels.Gaussian()(X), pm.kernels.Gaussian()),
}


@dataclass(frozen=True)
class Measurement:
    """One draw of the data.

    Attributes
    ----------
    kernel : str
    n, p, seed : int
    gap : float
        Spectral norm of the difference over that of the kernel matrix.
    overlap : float
        Of the eigenvectors of the largest eigenvalues.
    """

    kernel: str
    n: int
    p: int
    seed: int
    gap: float
    overlap: float


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues (n,) in ascending order, and the eigenvector (n,) of the largest."""

    values: np.ndarray
    leading: np.ndarray


def run(name: str, *, n: int = ROWS, p: int = DIMENSION, seed: int = 0) -> tuple[Measurement, Spectrum, Spectrum]:
    """Compare a kernel with its equivalent on classes a = 1, 2: means ``4 e_a``, ``C_a = (1 + 4 (a - 1) / sqrt(p)) I``.

    Returns
    -------
    measurement : Measurement
    exact, equivalent : Spectrum
        Of the rows in the order of their classes; the second eigenvector has the sign of the first.
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
    return Measurement(name, n, p, seed, float(gap), abs(overlap)), *spectra


def report(options: BenchOptions, stages: Stages) -> Report:
    """Every kernel on as many draws as are asked for, and a figure of the first draw's eigenvalues."""
    names, seeds, n = options.chosen(KERNELS), options.seeds(1), options.rows or ROWS
    p = (options.widths or (max(8, n // 4),))[0]
    draws = [(name, seed) for name in names for seed in seeds]
    found = measured(stages, "spectra", (run(name, n=n, p=p, seed=seed) for name, seed in draws), len(draws))
    lines = [(one.kernel, str(one.seed), f"{one.gap:.4f}", f"{one.overlap:.5f}") for one, *_ in found]
    title = f"kernel matrix and equivalent, p = {p}, n = {n}"
    table = Table(title, ("kernel", "draw", "relative gap", "overlap of leading eigenvectors"), lines)
    firsts = {one.kernel: spectra for one, *spectra in reversed(found)}
    figures = {f"spectra_{name}.png": partial(_figure, name, *firsts[name]) for name in names}
    findings = [_finding(name, [one for one, *_ in found if one.kernel == name]) for name in names]
    return Report(as_dicts(one for one, *_ in found), [table], figures, findings)


def _finding(name: str, found: Sequence[Measurement]) -> Finding:
    """Mean gap and overlap over the draws; Theorem 1 has them tend to 0 and 1."""
    gap, overlap = values(found, "gap").mean(), values(found, "overlap").mean()
    size = f"p = {found[0].p}, n = {found[0].n:,}, {len(found)} draw{'s' * (len(found) > 1)}"
    if found[0].p != DIMENSION:
        size += f" (paper: p = {DIMENSION}, n = {ROWS:,})"
    return Finding(
        "Ali et al. (2022)",
        f"Theorem 1 and Figure 2, {name}",
        "relative spectral norm of kernel matrix less equivalent; overlap of leading eigenvectors",
        size,
        f"{gap:.3f}; {overlap:.4f}",
        "0; 1, as p and n grow",
    )


def _figure(name: str, exact: Spectrum, equivalent: Spectrum, path: Path) -> None:
    """Histograms of two spectra, on a logarithmic axis for the few beyond the bulk, and leading eigenvectors."""
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
