"""Double descent: training, test and approximation error of nearly unregularised regression on random features.

Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Figure 5: as the number of features
passes the number of training rows the training error vanishes, the test error peaks, and then it falls again, while the
error of the kernel estimate falls all the way. Beside each measured error stands the one that
`phimap.theory.predicted_errors` gives without drawing a feature.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import load
from phimap.bench.experiment import Finding, Report, Table, as_dicts, grouped, having, measured, values
from phimap.bench.figures import panels, save
from phimap.bench.options import BenchOptions
from phimap.learn.search.length_scale import median_length_scale
from phimap.ops import single_threaded_blas

#: Features over training rows; dense around 1, where the test error peaks.
RATIOS = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0)
_SETS = ("sonar", "MNIST", "MNIST-7-9", "gaussian")
# Features over rows before, at and past the peak; and from this regularisation on means are known from some draws.
_PHASES, _COMPARED = (0.2, 1.0, 10.0), 1e-3
_GAUSSIAN_ROWS, _GAUSSIAN_COLUMNS, _NOISE = 400, 200, 0.3


@dataclass(frozen=True)
class Task:
    """A regression task: rows in float64, targets, and how it is fitted.

    Attributes
    ----------
    name : str
    X, y, X_test, y_test : ndarray
    alpha : float
        The published curves have nearly none. With 1e-8 single draws decide the error where features are as many as
        rows; where theory is compared the peak is rounded by 1e-3, so that its height has a mean worth the name.
    draws : int
        So many draws of the features unless others are asked for.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    alpha: float = 1e-8
    draws: int = 10


def task(name: str, folder: str | PathLike[str] | None, seed: int = 0) -> Task:
    """A task by name: ``gaussian``, ``MNIST-7-9``, or a data set, of which labels 1 and 2 (0 and 1) are told apart.

    Raises
    ------
    ValueError, DataError
        As `phimap.bench.datasets.load`.
    """
    if name == "gaussian":
        return _gaussian(seed)
    if name == "MNIST-7-9":
        data = load("MNIST", folder, seed)
        X, y = _two_classes(data.X, data.y, 7, 9)
        return Task(name, X[:400], y[:400], *_two_classes(data.X_test, data.y_test, 7, 9), alpha=1e-3, draws=50)
    data = load(name, folder, seed)
    classes = (0, 1) if data.y.max() < 2 else (1, 2)
    X, y = _two_classes(data.X, data.y, *classes)
    return Task(name, X[:200], y[:200], *_two_classes(data.X_test, data.y_test, *classes))


def _gaussian(seed: int) -> Task:
    """A linear function and noise on rows of independent Gaussian entries."""
    rng = np.random.default_rng(seed)
    n, d = _GAUSSIAN_ROWS, _GAUSSIAN_COLUMNS
    X = rng.standard_normal((3 * n, d))
    y = X @ rng.standard_normal(d) / d**0.5 + _NOISE * rng.standard_normal(3 * n)
    return Task("gaussian", X[:n], y[:n], X[n:], y[n:], alpha=1e-3, draws=50)


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
        Mean squared errors.
    predicted_train, predicted_test : float
        Their means over draws as theory predicts them.
    covariates_test : float
        That of the Gaussian covariates that stand in for the features in the theory of Gaussian rows.
    approximation : float
        Relative Frobenius error of the kernel estimate on the training rows.
    """

    dataset: str
    ratio: float
    n_components: int
    seed: int
    train: float
    test: float
    predicted_train: float
    predicted_test: float
    covariates_test: float
    approximation: float


def run(
    data: Task,
    *,
    ratios: Sequence[float] = RATIOS,
    draws: Sequence[int] = range(10),
) -> Iterator[Measurement]:
    """Measure one task at every ratio, Gaussian kernel at the median distance, independent directions."""
    X, y, X_test, y_test = data.X, data.y, data.X_test, data.y_test
    kernel = pm.kernels.Gaussian(length_scale=median_length_scale(X))
    exact = kernel(X)
    widths = {ratio: max(1, round(ratio * len(X))) for ratio in ratios}
    predicted, covariates = (
        {
            ratio: pm.theory.predicted_errors(moments, y, y_test, n_directions=width / 2, alpha=data.alpha)
            for ratio, width in widths.items()
        }
        for moments in (
            pm.theory.feature_moments(kernel, X, X_test),
            pm.theory.gaussian_covariates(kernel, X, X_test),
        )
    )
    for repeat in draws:
        for ratio, width in widths.items():
            phi = pm.FourierFeatures(kernel, width, projection="gaussian", random_state=repeat).fit(X)
            Z, Z_test = phi.transform(X), phi.transform(X_test)
            coef = _ridge(Z, y, data.alpha)
            yield Measurement(
                data.name,
                ratio,
                width,
                repeat,
                float(np.square(Z @ coef - y).mean()),
                float(np.square(Z_test @ coef - y_test).mean()),
                predicted[ratio].train,
                predicted[ratio].test,
                covariates[ratio].test,
                float(np.linalg.norm(Z @ Z.T - exact) / np.linalg.norm(exact)),
            )


def _two_classes(X: np.ndarray, y: np.ndarray, first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes in float64, and targets -1 and 1."""
    chosen = (y == first) | (y == second)
    return X[chosen].astype(np.float64), np.where(y[chosen] == first, -1.0, 1.0)


def _ridge(Z: np.ndarray, y: np.ndarray, alpha: float) -> np.ndarray:
    """``argmin |y - Z w|^2 + alpha |w|^2`` by singular values: at the threshold normal equations lose all digits."""
    with single_threaded_blas():
        U, s, Vt = np.linalg.svd(Z, full_matrices=False)
        return Vt.T @ ((U.T @ y) * (s / (s**2 + alpha)))


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the sets asked for: medians and means at every width beside the predictions, and a figure of each set."""
    # Every set is read before the first is measured: a missing file shows at once.
    tasks = [task(name, options.data, options.seed) for name in options.sets or _SETS]
    found: list[Measurement] = []
    for one in tasks:
        draws = options.seeds(one.draws, least=2)
        found += measured(stages, one.name, run(one, draws=draws), len(RATIOS) * len(draws))
    by_set = {one.name: having(found, dataset=one.name) for one in tasks}
    figures = {f"double-descent_{name}.png": partial(_figure, name, part) for name, part in by_set.items()}
    findings = [one for each in tasks for one in _findings(each, by_set[each.name])]
    return Report(as_dicts(found), [_table(name, part) for name, part in by_set.items()], figures, findings)


def _findings(data: Task, found: Sequence[Measurement]) -> list[Finding]:
    """The three phases of the test error; where it has a mean worth the name, the theory's beside it."""
    draws = len({one.seed for one in found})
    size = f"{len(data.X)} rows of {data.X.shape[1]} columns, {draws} draws, regularisation {data.alpha:g}"
    medians = (np.median(values(having(found, ratio=ratio), "test")) for ratio in _PHASES)
    at = ", ".join(f"{ratio:g}" for ratio in _PHASES)
    findings = [
        Finding(
            "Liu et al. (2021)",
            f"Figure 5, {data.name}",
            f"median test error at {at} features a row",
            size,
            ", ".join(f"{median:.3g}" for median in medians),
            "falls, peaks at 1, falls again (a plot)",
        )
    ]
    if data.alpha >= _COMPARED:
        ratios = [
            of_ratio[0].predicted_test / values(of_ratio, "test").mean()
            for (_,), of_ratio in grouped(found, "ratio").items()
        ]
        findings.append(
            Finding(
                "Liu et al. (2021)",
                f"Section 7 and Table 8, {data.name}",
                "predicted over measured mean test error, least and most over all numbers of features",
                size,
                f"{min(ratios):.3f}, {max(ratios):.3f}",
                "1, as rows and features grow",
            )
        )
    return findings


def _table(dataset: str, found: Sequence[Measurement]) -> Table:
    lines = []
    for ratio in RATIOS:
        of_ratio = having(found, ratio=ratio)
        medians = [np.median(values(of_ratio, name)) for name in ("train", "test", "approximation")]
        mean, predicted = values(of_ratio, "test").mean(), of_ratio[0].predicted_test
        numbers = (f"{number:.3g}" for number in (*medians, mean, predicted))
        ratios = (f"{prediction / mean:.3f}" for prediction in (predicted, of_ratio[0].covariates_test))
        lines.append((f"{ratio:g}", *numbers, *ratios))
    title = f"{dataset}: errors against features over training rows, medians, and mean test error against theory"
    columns = (
        "features / rows",
        "training",
        "test",
        "kernel",
        "test, mean",
        "predicted",
        "predicted / mean",
        "covariates / mean",
    )
    return Table(title, columns, lines)


def _figure(dataset: str, found: Sequence[Measurement], path: Path) -> None:
    """Training, test and approximation error against features over rows, medians and quartiles, and predictions."""
    figure, ((axis,),) = panels(6.4, 4.2)
    ratios = sorted({one.ratio for one in found})
    for name, label in (("train", "training"), ("test", "test"), ("approximation", "kernel, relative")):
        errors = [values(having(found, ratio=ratio), name) for ratio in ratios]
        low, middle, high = (np.array([np.quantile(e, q) for e in errors]) for q in (0.25, 0.5, 0.75))
        points = {} if name == "approximation" else {"linestyle": "none"}
        (line,) = axis.plot(ratios, middle, marker="o", markersize=3, label=label, **points)
        axis.fill_between(ratios, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        if name != "approximation":
            predicted = [having(found, ratio=ratio)[0] for ratio in ratios]
            label = f"{label}, predicted mean"
            axis.plot(ratios, values(predicted, f"predicted_{name}"), color=line.get_color(), linewidth=1, label=label)
        if name == "test":
            style = {"color": line.get_color(), "linewidth": 1, "linestyle": "--"}
            axis.plot(ratios, values(predicted, "covariates_test"), label="test, of Gaussian covariates", **style)
    axis.axvline(1, color="0.5", linestyle=":")
    # Training errors past the threshold are rounding: they would stretch the axis over twenty decades.
    axis.set(xscale="log", yscale="log", ylim=(1e-4, None), xlabel="features over training rows", ylabel="error")
    axis.set_title(f"{dataset}: double descent")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    save(figure, path)
