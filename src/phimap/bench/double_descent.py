"""Double descent: training, test and approximation error of nearly unregularised regression on random features.

Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Figure 5: as the number of features
passes the number of training rows the training error vanishes, the test error peaks, and then it falls again, while the
error of the kernel estimate falls all the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import Dataset, load
from phimap.bench.experiment import Report, Table, as_dicts, having, measured, values
from phimap.bench.figures import panels, save
from phimap.bench.options import BenchOptions
from phimap.learn.search.length_scale import median_length_scale
from phimap.ops import single_threaded_blas

#: Features over training rows; dense around 1, where the test error peaks.
RATIOS = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
ALPHA = 1e-8
_SETS = ("sonar", "MNIST")
_MOST_ROWS = 200


@dataclass(frozen=True)
class Measurement:
    """One draw at one width.

    Attributes
    ----------
    dataset : str
    ratio : float
        Features over training rows.
    n_components : int
    seed : int
    train, test : float
        Mean squared errors against targets of -1 and 1.
    approximation : float
        Relative Frobenius error of the kernel estimate on the training rows.
    """

    dataset: str
    ratio: float
    n_components: int
    seed: int
    train: float
    test: float
    approximation: float


def run(
    data: Dataset,
    *,
    ratios: Sequence[float] = RATIOS,
    draws: Sequence[int] = range(10),
) -> Iterator[Measurement]:
    """Measure one set at every ratio, Gaussian kernel at the median distance, independent directions.

    Two classes are taken from the set, labels 1 and 2 where there are more than two, and at most 200 training rows.
    """
    X, y = _two_classes(data.X, data.y)
    X_test, y_test = _two_classes(data.X_test, data.y_test)
    X, y = X[:_MOST_ROWS], y[:_MOST_ROWS]
    kernel = pm.kernels.Gaussian(length_scale=median_length_scale(X))
    exact = kernel(X)
    for repeat in draws:
        for ratio in ratios:
            width = max(1, round(ratio * len(X)))
            phi = pm.FourierFeatures(kernel, width, projection="gaussian", random_state=repeat).fit(X)
            Z, Z_test = phi.transform(X), phi.transform(X_test)
            coef = _ridge(Z, y)
            yield Measurement(
                data.name,
                ratio,
                width,
                repeat,
                float(np.square(Z @ coef - y).mean()),
                float(np.square(Z_test @ coef - y_test).mean()),
                float(np.linalg.norm(Z @ Z.T - exact) / np.linalg.norm(exact)),
            )


def _two_classes(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes in float64, and targets -1 and 1."""
    first, second = (0, 1) if y.max() < 2 else (1, 2)
    chosen = (y == first) | (y == second)
    return X[chosen].astype(np.float64), np.where(y[chosen] == first, -1.0, 1.0)


def _ridge(Z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``argmin |y - Z w|^2 + ALPHA |w|^2`` by singular values: at the threshold normal equations lose all digits."""
    with single_threaded_blas():
        U, s, Vt = np.linalg.svd(Z, full_matrices=False)
        return Vt.T @ ((U.T @ y) * (s / (s**2 + ALPHA)))


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the sets asked for: medians at every width, and a figure of each set."""
    draws = options.seeds(10, least=2)
    # Every set is read before the first is measured: a missing file shows at once.
    loaded = [load(name, options.data, options.seed) for name in options.sets or _SETS]
    found: list[Measurement] = []
    for dataset in loaded:
        found += measured(stages, dataset.name, run(dataset, draws=draws), len(RATIOS) * len(draws))
    by_set = {dataset.name: having(found, dataset=dataset.name) for dataset in loaded}
    figures = {f"double-descent_{name}.png": partial(_figure, name, part) for name, part in by_set.items()}
    return Report(as_dicts(found), [_table(name, part) for name, part in by_set.items()], figures)


def _table(dataset: str, found: Sequence[Measurement]) -> Table:
    lines = []
    for ratio in RATIOS:
        of_ratio = having(found, ratio=ratio)
        medians = (np.median(values(of_ratio, name)) for name in ("train", "test", "approximation"))
        lines.append((f"{ratio:g}", *(f"{median:.3g}" for median in medians)))
    title = f"{dataset}: median errors against features over training rows"
    return Table(title, ("features / rows", "training", "test", "kernel"), lines)


def _figure(dataset: str, found: Sequence[Measurement], path: Path) -> None:
    """Training, test and approximation error against features over rows, medians and quartiles."""
    figure, ((axis,),) = panels(6.4, 4.2)
    ratios = sorted({one.ratio for one in found})
    for name, label in (("train", "training"), ("test", "test"), ("approximation", "kernel, relative")):
        errors = [values(having(found, ratio=ratio), name) for ratio in ratios]
        low, middle, high = (np.array([np.quantile(e, q) for e in errors]) for q in (0.25, 0.5, 0.75))
        (line,) = axis.plot(ratios, middle, marker="o", markersize=3, label=label)
        axis.fill_between(ratios, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axis.axvline(1, color="0.5", linestyle=":")
    # Training errors past the threshold are rounding: they would stretch the axis over twenty decades.
    axis.set(xscale="log", yscale="log", ylim=(1e-4, None), xlabel="features over training rows", ylabel="error")
    axis.set_title(f"{dataset}: double descent")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    save(figure, path)
