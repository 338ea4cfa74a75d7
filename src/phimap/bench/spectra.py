"""Spectra of centred kernel matrices of mixture data, beside those of their equivalents in high dimension.

Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no performance
loss*, Figure 2: eigenvalues, and the eigenvector of the largest, for ReLU features of two Gaussian classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.experiment import Report, Table, as_dicts, measured
from phimap.bench.figures import panels, save
from phimap.bench.options import BenchOptions

DIMENSION, ROWS = 512, 2048
#: Kernels, and what their Gaussian moments are those of.
KERNELS: Mapping[str, tuple[Any, Any]] = {
    "relu": (pm.kernels.ActivationKernel("relu"), "relu"),
    "gaussian": (pm.kernels.Gaussian(), pm.kernels.Gaussian()),
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


def run(name: str, *, n: int = ROWS, p: int = DIMENSION, seed: int = 0) -> tuple[Measurement, np.ndarray, np.ndarray]:
    """Compare a kernel with its equivalent on classes a = 1, 2: means ``4 e_a``, ``C_a = (1 + 4 (a - 1) / sqrt(p)) I``.

    Returns
    -------
    measurement : Measurement
    exact, equivalent : ndarray of shape (n,)
        Eigenvalues in ascending order.
    """
    kernel, activation = KERNELS[name]
    mixture = pm.theory.GaussianMixture(4 * np.eye(2, p), 1 + 4 * np.arange(2) / p**0.5)
    X, labels = mixture.sample(n, random_state=seed)
    K = kernel(X)
    K += K.mean() - K.mean(axis=0) - K.mean(axis=1, keepdims=True)
    equivalent = pm.theory.equivalent_kernel(activation, X, labels, mixture=mixture)
    (values, vectors), (other, other_vectors) = np.linalg.eigh(K), np.linalg.eigh(equivalent)
    gap = np.abs(np.linalg.eigvalsh(K - equivalent)).max() / values[-1]
    return Measurement(name, n, p, seed, float(gap), float(abs(vectors[:, -1] @ other_vectors[:, -1]))), values, other


def report(options: BenchOptions, stages: Stages) -> Report:
    """Every kernel on as many draws as are asked for, and a figure of the first draw's eigenvalues."""
    names, seeds, n = options.chosen(KERNELS), options.seeds(1), options.rows or ROWS
    p = (options.widths or (max(8, n // 4),))[0]
    draws = [(name, seed) for name in names for seed in seeds]
    found = measured(stages, "spectra", (run(name, n=n, p=p, seed=seed) for name, seed in draws), len(draws))
    lines = [(one.kernel, str(one.seed), f"{one.gap:.4f}", f"{one.overlap:.5f}") for one, *_ in found]
    title = f"kernel matrix and equivalent, p = {p}, n = {n}"
    table = Table(title, ("kernel", "draw", "relative gap", "overlap of leading eigenvectors"), lines)
    firsts = {one.kernel: eigenvalues for one, *eigenvalues in reversed(found)}
    figures = {f"spectra_{name}.png": partial(_figure, name, *firsts[name]) for name in names}
    return Report(as_dicts(one for one, *_ in found), [table], figures)


def _figure(name: str, exact: np.ndarray, equivalent: np.ndarray, path: Path) -> None:
    """Histograms of two spectra (n,); eigenvalues beyond the bulk are seen on the logarithmic axis."""
    figure, ((axis,),) = panels(6.4, 4.0)
    bins = np.linspace(min(exact.min(), equivalent.min()), max(exact.max(), equivalent.max()), 120).tolist()
    axis.hist(exact, bins, label="kernel matrix", alpha=0.6)
    axis.hist(equivalent, bins, label="equivalent", histtype="step", color="k")
    axis.set(yscale="log", xlabel="eigenvalue", ylabel="eigenvalues", title=name)
    axis.legend(frameon=False)
    save(figure, path)
