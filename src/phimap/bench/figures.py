"""Figures of the experiments, written as PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from phimap._files import write_whole
from phimap.bench.double_descent import Point

_PANELS = {
    "error": "relative error",
    "seconds": "seconds",
    "ridge": "accuracy, ridge (%)",
    "liblinear": "accuracy, liblinear (%)",
}


_LOGARITHMIC = ("error", "seconds")


def double_descent(points: Sequence[Point], dataset: str, path: Path) -> None:
    """Training, test and approximation error of one set against features over rows, medians and quartiles.

    Parameters
    ----------
    points : sequence of Point
    dataset : str
    path : Path
        PNG file, replaced only once it is complete.
    """
    chosen = [point for point in points if point.dataset == dataset]
    ratios = sorted({point.ratio for point in chosen})
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axis = figure.subplots()
    for name, label in (("train", "training"), ("test", "test"), ("approximation", "kernel, relative")):
        values = [[getattr(point, name) for point in chosen if point.ratio == ratio] for ratio in ratios]
        low, middle, high = (np.array([np.quantile(v, q) for v in values]) for q in (0.25, 0.5, 0.75))
        (line,) = axis.plot(ratios, middle, marker="o", markersize=3, label=label)
        axis.fill_between(ratios, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axis.axvline(1, color="0.5", linestyle=":")
    # Training errors past the threshold are rounding: they would stretch the axis over twenty decades.
    axis.set(xscale="log", yscale="log", ylim=(1e-4, None), xlabel="features over training rows", ylabel="error")
    axis.set_title(f"{dataset}: double descent")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=130))


def curves(entries: Sequence[dict[str, Any]], dataset: str, path: Path) -> None:
    """Error, time and accuracy of one set against the number of directions, with bands of one standard deviation.

    Parameters
    ----------
    entries : sequence of dict
        As given by `phimap.bench.approximation.summary`.
    dataset : str
    path : Path
        PNG file, replaced only once it is complete.
    """
    chosen = [entry for entry in entries if entry["dataset"] == dataset]
    panels = {name: label for name, label in _PANELS.items() if np.isfinite([entry[name] for entry in chosen]).any()}
    styles = _styles(list(dict.fromkeys(entry["projection"] for entry in chosen)))
    figure = Figure(figsize=(4.6 * len(panels), 4.8), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(panels)))
    for axis, (name, label) in zip(axes, panels.items(), strict=True):
        for projection, style in styles.items():
            points = sorted((e for e in chosen if e["projection"] == projection), key=lambda e: e["n_directions"])
            x = [point["n_directions"] for point in points]
            mean, spread = (np.array([point[key] for point in points]) for key in (name, f"{name}_deviation"))
            # Of the same width below the mean as above it on a logarithmic axis, where a difference could be negative.
            low = mean**2 / (mean + spread) if name in _LOGARITHMIC else mean - spread
            axis.plot(x, mean, marker="o", markersize=3, label=projection, **style)
            axis.fill_between(x, low, mean + spread, color=style["color"], alpha=0.6 / (4 + len(styles)), linewidth=0)
        axis.set(xscale="log", xlabel="directions s", ylabel=label)
        if name in _LOGARITHMIC:
            axis.set_yscale("log")
        widths = sorted({entry["n_directions"] for entry in chosen})
        axis.set_xticks(widths, [f"{width:,}" for width in widths])
        axis.xaxis.set_minor_locator(NullLocator())
        axis.grid(alpha=0.3)
    figure.suptitle(f"{dataset}, Gaussian kernel at the median distance")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(6, len(labels)), frameon=False, fontsize=8)
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=130))


def footprint(entries: Sequence[dict[str, Any]], dataset: str, path: Path) -> None:
    """Test accuracy against bytes a row and against seconds, a line for each method.

    Parameters
    ----------
    entries : sequence of dict
        As given by `phimap.bench.footprint.summary`, of one set.
    dataset : str
    path : Path
        PNG file, replaced only once it is complete.
    """
    figure = Figure(figsize=(9.2, 4.8), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, (name, label) in zip(axes, (("bytes", "bytes a row"), ("seconds", "seconds")), strict=True):
        for method, style in _styles(list(dict.fromkeys(entry["method"] for entry in entries))).items():
            points = sorted((e for e in entries if e["method"] == method), key=lambda e: e["n_components"])
            x, y = ([point[key] for point in points] for key in (name, "accuracy"))
            axis.plot(x, y, marker="o", markersize=3, label=method, **style)
        axis.set(xscale="log", xlabel=label)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("test accuracy (%)")
    figure.suptitle(dataset)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=130))


def regularisation_path(values: Sequence[float], errors: dict[str, list[float]], path: Path) -> None:
    """Squared test error along the regularisation, a line for each method.

    Parameters
    ----------
    values : sequence of float
        The regularisation; 0 is drawn left of the smallest other.
    errors : dict
        Errors by method, in the order of `values`.
    path : Path
        PNG file, replaced only once it is complete.
    """
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axis = figure.subplots()
    positive = min(value for value in values if value > 0)
    for number, (method, error) in enumerate(errors.items()):
        style: dict[str, Any] = {"color": "k", "linewidth": 2} if number == 0 else {"color": f"C{number - 1}"}
        axis.plot(values, error, marker="o", markersize=3, label=method, **style)
    axis.set_xscale("symlog", linthresh=positive)
    axis.set(yscale="log", xlabel="added to the diagonal of the Gram matrix", ylabel="squared test error")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=8)
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=130))


def spectra(exact: np.ndarray, equivalent: np.ndarray, name: str, path: Path) -> None:
    """Histograms of two spectra; eigenvalues beyond the bulk are seen on the logarithmic axis.

    Parameters
    ----------
    exact, equivalent : ndarray of shape (n,)
        Eigenvalues.
    name : str
        Of the kernel.
    path : Path
        PNG file, replaced only once it is complete.
    """
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axis = figure.subplots()
    bins = np.linspace(min(exact.min(), equivalent.min()), max(exact.max(), equivalent.max()), 120).tolist()
    axis.hist(exact, bins, label="kernel matrix", alpha=0.6)
    axis.hist(equivalent, bins, label="equivalent", histtype="step", color="k")
    axis.set(yscale="log", xlabel="eigenvalue", ylabel="eigenvalues", title=name)
    axis.legend(frameon=False)
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=130))


def _styles(projections: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Lines of the projections: the baseline black, ten colours for the others, then the same ones dashed."""
    others = [name for name in projections if name != "gaussian"]
    styles: dict[str, dict[str, Any]] = {"gaussian": {"color": "k", "linewidth": 2}} if others != projections else {}
    for number, name in enumerate(others):
        styles[name] = {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--"}
    return styles
