"""The neural tangent kernel as a function of the cosine, at several depths, and an approximation by a polynomial.

Zandieh, Han, Avron, Shoham, Kim, Shin (2021), *Scaling neural tangent kernels via sketching and random features*,
Section 2, Figure 1 and Remark 1: the tangent kernel of rectified units is ``|x||y| K_L(a)``, where ``a`` is the cosine
between x and y. The left panel shows ``K_L(a) / (L + 1)`` for L = 2, 4, 8, 16, 32, the right panel ``K_3`` and a
polynomial of degree 8 that approximates it. The experiment has no randomness, and all sizes are the sizes of the
publication.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from phimap._progress import Stages
from phimap.bench.experiment import Finding, Report, ResultTable
from phimap.bench.figures import finish, panels
from phimap.bench.options import BenchOptions
from phimap.kernels import NTK
from phimap.kernels.expansion import fitted_coefficients

DEPTHS = (2, 4, 8, 16, 32)
FITTED_DEPTH, DEGREE = 3, 8
COSINES = np.linspace(-1.0, 1.0, 2001)
#: Level of the function divided by L + 1, for depth L. Section 2 states "a nearly constant value of roughly 0.3 (L + 1)
#: on the interval [-1, 1 - O(1 / L)]".
KNEE = 0.3


def measure(depth: int) -> dict[str, Any]:
    """Median, minimum and maximum of ``K_L(a) / (L + 1)`` on [-1, 1 - 1 / L], where the function is nearly constant."""
    flat = NTK(depth).kappa(np.linspace(-1.0, 1.0 - 1.0 / depth, len(COSINES))) / (depth + 1)
    return {"depth": depth, "level": float(np.median(flat)), "least": float(flat.min()), "most": float(flat.max())}


def fit_errors() -> tuple[float, float]:
    """Root mean square and largest error of the polynomial of `phimap.NTKSketch` over [-1, 1].

    Errors are in units of the function's value at 1. The polynomial has nonnegative coefficients and is fitted by least
    squares at Chebyshev nodes.
    """
    kappa = NTK(FITTED_DEPTH).kappa
    polynomial = np.polynomial.polynomial.polyval(COSINES, fitted_coefficients(kappa, DEGREE))
    errors = np.abs(polynomial - kappa(COSINES)) / (FITTED_DEPTH + 1)
    return float(np.sqrt(np.square(errors).mean())), float(errors.max())


def report(options: BenchOptions, stages: Stages) -> Report:
    """Return tables of both panels of the figure, and the figure."""
    depths = options.depths or DEPTHS
    found = pd.DataFrame([measure(depth) for depth in depths])
    rms, largest = fit_errors()
    errors = pd.DataFrame({"": ["root mean square", "largest"], "error": [rms, largest]})
    formats = {"median": ".3f", "least": ".3f", "most": ".3f"}
    fit = f"degree {DEGREE}, L = {FITTED_DEPTH}: error in units of K(1)"
    tables = [
        ResultTable("K_L(a) / (L + 1) on [-1, 1 - 1 / L]", found.rename(columns={"level": "median"}), formats),
        ResultTable(f"polynomial of {fit}", errors, {"error": ".4f"}),
    ]
    paper = "Zandieh et al. (2021)"
    findings = [
        Finding(
            paper,
            f"Section 2 and Figure 1, left, L = {one.depth}",
            "median of K_L(a) / (L + 1) on [-1, 1 - 1/L], and its range",
            f"L = {one.depth}",
            f"{one.level:.2f} ({one.least:.2f} to {one.most:.2f})",
            f"about {KNEE:g}, for large L",
            f"L = {one.depth}",
        )
        for one in found.itertuples()
    ]
    words, size = f"{rms:.4f}; {largest:.4f}", f"degree {DEGREE}, L = {FITTED_DEPTH}"
    place, quantity = "Figure 1, right, and Remark 1", "error in units of K(1), root mean square; largest"
    findings.append(Finding(paper, place, quantity, size, words, "tight (a plot)", size))
    return Report(found, tables, {"ntk-function.png": partial(_figure, depths)}, findings)


def _figure(depths: Sequence[int], path: Path) -> None:
    figure, (axes,) = panels(9.6, 4.2, 1, 2)
    for depth in depths:
        axes[0].plot(COSINES, NTK(depth).kappa(COSINES) / (depth + 1), label=f"L = {depth}")
    axes[0].set(xlabel="cosine a", ylabel="K_L(a) / (L + 1)", title="the function of the tangent kernel")
    kappa = NTK(FITTED_DEPTH).kappa
    polynomial = np.polynomial.polynomial.polyval(COSINES, fitted_coefficients(kappa, DEGREE))
    axes[1].plot(COSINES, kappa(COSINES), label=f"K_{FITTED_DEPTH}(a)")
    axes[1].plot(COSINES, polynomial, linestyle="--", label=f"polynomial of degree {DEGREE}")
    axes[1].set(xlabel="cosine a", title=f"L = {FITTED_DEPTH}")
    for axis in axes:
        axis.legend(frameon=False)
    finish(figure, axes, path)
