"""Double descent: training, test and approximation error of nearly unregularised regression on random features.

Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Figure 5: as the number of features
passes the number of training rows, the training error vanishes and the test error peaks and then falls again, while
the error of the kernel estimate decreases throughout. Each measured error is compared with the prediction of
`phimap.theory.predicted_errors`, which draws no features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import Dataset, load
from phimap.bench.experiment import Finding, Report, ResultTable, measured
from phimap.bench.figures import finish, panels
from phimap.bench.options import BenchOptions
from phimap.learn.search.families import median_length_scale
from phimap.ops import single_threaded_blas

#: Numbers of features divided by the number of training rows. They are dense around 1, where the test error peaks.
RATIOS = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
_SETS = ("sonar", "MNIST", "MNIST-7-9", "gaussian")
#: Sizes of the sets in Figure 5 of Liu et al. (2021). The figure does not state the number of draws.
PUBLISHED = {
    "sonar": "208 rows of 60 columns, lambda = 1e-8",
    "MNIST": "200 rows of 784 columns, lambda = 1e-8",
}
_CLASSES = {"MNIST": "MNIST, class 1 versus class 2"}
# Ratios below, at and above the peak of the test error. Then the smallest alpha for which means over few draws are
# accurate.
_PHASES, _COMPARED = (0.2, 1.0, 10.0), 1e-3
_GAUSSIAN_ROWS, _GAUSSIAN_COLUMNS, _NOISE = 400, 200, 0.3


@dataclass(frozen=True)
class RidgeTask(Dataset):
    """A regression task, with rows in float64 and targets in place of labels.

    Attributes
    ----------
    alpha : float
        Regularisation, which is nearly 0 in the published curves. With 1e-8, single draws dominate the mean error at a
        ratio of 1. Tasks compared with theory use 1e-3, so that the mean height of the peak can be estimated.
    draws : int
        Default number of draws of the features.
    """

    alpha: float = 1e-8
    draws: int = 10


def task(name: str, folder: str | PathLike[str] | None, seed: int = 0) -> RidgeTask:
    """Make a task by name: ``gaussian``, ``MNIST-7-9``, or a data set, of which two classes are taken.

    The classes are 0 and 1 if the set has no others, else 1 and 2.

    Raises
    ------
    ValueError, DataError
        Under the same conditions as in `phimap.bench.datasets.load`.
    """
    if name == "gaussian":
        return _gaussian(seed)
    of_digits = name == "MNIST-7-9"
    data = load("MNIST" if of_digits else name, folder, seed)
    classes = (7, 9) if of_digits else (0, 1) if data.y.max() < 2 else (1, 2)
    X, y, X_test, y_test = (part.astype(np.float64) for part in data.of_classes(*classes, labels=(-1.0, 1.0)))
    if of_digits:
        return RidgeTask(name, X[:400], y[:400], X_test, y_test, alpha=1e-3, draws=50)
    return RidgeTask(name, X[:200], y[:200], X_test, y_test)


def _gaussian(seed: int) -> RidgeTask:
    """Make a task whose target is a linear function with noise, and whose rows have independent Gaussian entries."""
    rng = np.random.default_rng(seed)
    n, d = _GAUSSIAN_ROWS, _GAUSSIAN_COLUMNS
    X = rng.standard_normal((3 * n, d))
    y = X @ rng.standard_normal(d) / d**0.5 + _NOISE * rng.standard_normal(3 * n)
    return RidgeTask("gaussian", X[:n], y[:n], X[n:], y[n:], alpha=1e-3, draws=50)


def run(
    data: RidgeTask, *, ratios: Sequence[float] = RATIOS, draws: Sequence[int] = range(10)
) -> Iterator[dict[str, Any]]:
    """Measure one task at every ratio, for the Gaussian kernel at the median distance and independent directions.

    In a measurement, `train` and `test` are mean squared errors. `predicted_train` and `predicted_test` are the means
    over draws that theory predicts. `covariates_test` is the test error predicted from Gaussian covariates, which are
    equivalent to the features for Gaussian rows. `approximation` is the relative Frobenius error of the kernel estimate
    on the training rows.
    """
    X, y, X_test, y_test = data.X, data.y, data.X_test, data.y_test
    kernel = pm.kernels.Gaussian(length_scale=median_length_scale(X))
    exact = kernel(X)
    widths = {ratio: max(1, round(ratio * len(X))) for ratio in ratios}
    predicted, covariates = (
        {
            ratio: pm.theory.predicted_errors(moments, y, y_test, n_directions=width / 2, alpha=data.alpha)
            for ratio, width in widths.items()
        }
        for moments in (make(kernel, X, X_test) for make in (pm.theory.feature_moments, pm.theory.gaussian_covariates))
    )
    for repeat in draws:
        for ratio, width in widths.items():
            phi = pm.FourierFeatures(kernel, width, projection="gaussian", random_state=repeat).fit(X)
            Z, Z_test = phi.transform(X), phi.transform(X_test)
            coef = _ridge(Z, y, data.alpha)
            case = {"dataset": data.name, "ratio": ratio, "n_components": width, "seed": repeat}
            train, test = (float(np.square(A @ coef - b).mean()) for A, b in ((Z, y), (Z_test, y_test)))
            predictions = {"predicted_train": predicted[ratio].train, "predicted_test": predicted[ratio].test}
            predictions["covariates_test"] = covariates[ratio].test
            approximation = float(np.linalg.norm(Z @ Z.T - exact) / np.linalg.norm(exact))
            yield case | {"train": train, "test": test} | predictions | {"approximation": approximation}


def _ridge(Z: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    """Return ``argmin |y - Z w|^2 + alpha |w|^2``, by SVD. Normal equations are too ill-conditioned at a ratio of 1."""
    with single_threaded_blas():
        U, s, Vt = np.linalg.svd(Z, full_matrices=False)
        return Vt.T @ ((U.T @ y) * (s / (s**2 + alpha)))


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the chosen sets, and make a table of errors and predictions and a figure for each set."""
    # All sets are read before the first is measured, so that a missing file is reported at once.
    tasks = [task(name, options.data, options.seed) for name in options.sets or _SETS]
    by_set = {}
    for one in tasks:
        draws = options.seeds(one.draws, least=2)
        by_set[one.name] = measured(stages, one.name, run(one, draws=draws), len(RATIOS) * len(draws))
    return Report(
        pd.concat(by_set.values(), ignore_index=True),
        [_table(name, part) for name, part in by_set.items()],
        {f"double-descent_{name}.png": partial(_figure, name, part) for name, part in by_set.items()},
        [finding for one in tasks for finding in _findings(one, by_set[one.name])],
    )


def _findings(data: RidgeTask, found: pd.DataFrame) -> Iterator[Finding]:
    """Yield the test error at three ratios and, if its mean can be estimated, the ratios of prediction to mean."""
    size = f"{len(data.X)} rows of {data.X.shape[1]} columns, {found['seed'].nunique()} draws"
    size += f", lambda = {data.alpha:g}"
    by_ratio = found.groupby("ratio")
    paper, quantity = "Liu et al. (2021)", f"median test error at {', '.join(f'{x:g}' for x in _PHASES)} features a row"
    ours = ", ".join(f"{median:.3g}" for median in by_ratio["test"].median()[list(_PHASES)])
    place, published, published_size = f"like Figure 5, {data.name}", "-", "-"
    if data.name in PUBLISHED:
        place, published_size = f"Figure 5, {_CLASSES.get(data.name, data.name)}", PUBLISHED[data.name]
        published = "falls, peaks where the training error vanishes, falls again (a plot)"
    yield Finding(paper, place, quantity, size, ours, published, published_size)
    if data.alpha >= _COMPARED:
        ratios = by_ratio["predicted_test"].first() / by_ratio["test"].mean()
        place = f"Section 7.1, [139, Theorem 3] in Table 8, {data.name}"
        quantity = "predicted over measured mean test error, least and most over all numbers of features"
        ours = f"{ratios.min():.3f}, {ratios.max():.3f}"
        yield Finding(paper, place, quantity, size, ours, "1, as rows and features grow")


def _table(dataset: str, found: pd.DataFrame) -> ResultTable:
    by_ratio = found.groupby("ratio")
    frame = by_ratio[["train", "test", "approximation"]].median().set_axis(["training", "test", "kernel"], axis=1)
    frame["test, mean"] = by_ratio["test"].mean()
    frame["predicted"] = by_ratio["predicted_test"].first()
    for name in ("predicted", "covariates"):
        frame[f"{name} / mean"] = by_ratio[f"{name}_test"].first() / frame["test, mean"]
    frame = frame.rename_axis("features / rows")
    formats = {name: ".3f" if name.endswith("/ mean") else ".3g" for name in frame} | {"features / rows": "g"}
    title = f"{dataset}: errors against features over training rows, medians, and mean test error against theory"
    return ResultTable(title, frame.reset_index(), formats)


def _figure(dataset: str, found: pd.DataFrame, path: Path) -> None:
    """Plot medians, quartiles and predictions of training, test and approximation error against features over rows."""
    figure, ((axis,),) = panels(6.4, 4.2)
    by_ratio = found.groupby("ratio")
    firsts = by_ratio.first()
    for name, label in (("train", "training"), ("test", "test"), ("approximation", "kernel, relative")):
        low, middle, high = (by_ratio[name].quantile(q) for q in (0.25, 0.5, 0.75))
        points = {} if name == "approximation" else {"linestyle": "none"}
        (line,) = axis.plot(middle.index, middle, marker="o", markersize=3, label=label, **points)
        axis.fill_between(middle.index, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        thin = {"color": line.get_color(), "linewidth": 1}
        if name != "approximation":
            axis.plot(firsts.index, firsts[f"predicted_{name}"], label=f"{label}, predicted mean", **thin)
        if name == "test":
            label = "test, of Gaussian covariates"
            axis.plot(firsts.index, firsts["covariates_test"], label=label, linestyle="--", **thin)
    axis.axvline(1, color="0.5", linestyle=":")
    # Above a ratio of 1, training errors are rounding errors, and would stretch the axis over twenty decades.
    axis.set(xscale="log", yscale="log", ylim=(1e-4, None), xlabel="features over training rows", ylabel="error")
    axis.set_title(f"{dataset}: double descent")
    axis.legend(frameon=False)
    finish(figure, [axis], path)
