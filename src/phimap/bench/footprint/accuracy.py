"""Test accuracy against bytes and seconds, for ternary, low-precision, Nystroem and Fourier features.

Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no performance
loss*: a linear model on the features of each method, for increasing numbers of features. Figures 1 and 4 compare
ternary with low-precision and Nystroem features by their bytes, on Cov-Type and Census. Figures 10 to 12 compare
ternary with Fourier, orthogonal and spherical structured features by their number, on a8a, ijcnn1 and Cov-Type with a
support vector machine. Figure 14 has the features of the rectified unit, on 1,024 rows of Fashion-MNIST. Figures 3 and
5 to 9, on the regularisation, are in `phimap.bench.footprint.regularisation`. Figures 13 and 15 need embeddings by
trained networks, which are not available.

Differences from the source: linear support vector machines are fitted by stochastic gradients instead of libsvm. The
publication counts one bit for a ternary feature; two bits are counted here.

The publication has all rows and up to 50,000 features: ``--rows 1000000 --features 500,1000,5000,10000,50000``. The
default is at most 20,000 rows and up to 4,096 features. Cov-Type, Census and Fashion-MNIST are read from files that
users convert (`covtype.npz`, `census.npz`, `fashion_mnist.npz`); sets without a file are skipped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import Dataset, load
from phimap.bench.exact_ridge import fit_predict
from phimap.bench.experiment import Finding, Report, ResultTable, measured, read_sets
from phimap.bench.figures import curves, finish, panels, plot_curves, styles
from phimap.bench.options import BenchOptions
from phimap.learn.search.families import median_length_scale

WIDTHS = (128, 256, 512, 1024, 2048, 4096)
_LENGTH_SCALE_ROWS = 1000
_DIGITS = "MNIST 7-9"
#: Sets whose files users make themselves.
CONVERTED = ("Cov-Type", "Census", "Fashion-MNIST")
#: For a set and a model, the figure of the source that shows accuracy by bytes, and the size of its experiment. Figure
#: 4 shows the squared error on Census instead.
BY_BYTES = {("Cov-Type", "logistic"): ("Figure 1", "418,000 training and 116,000 test rows, m = 100 to 50,000")}
#: For a set, the figure of the source that shows accuracy by the number of features, and the size of its experiment.
#: The caption of Figure 12 repeats the numbers of rows of Figure 11.
BY_NUMBER = {
    "a8a": ("Figure 10", "22,696 training and 9,865 test rows, libsvm"),
    "ijcnn1": ("Figure 11", "49,990 training and 91,701 test rows, libsvm"),
    "Cov-Type": ("Figure 12", "49,990 training and 91,701 test rows (as in Figure 11), libsvm"),
}
_SETS = ("a8a", "ijcnn1", "adult", "magic04", "skin", _DIGITS)
#: Linear models: our ridge regression, and two models that scikit-learn fits by stochastic gradients.
MODELS = ("ridge", "logistic", "svm")
_LOSSES = {"logistic": "log_loss", "svm": "hinge"}
# Methods in the source's figures on accuracy by bytes, and in its figures on accuracy by the number of features.
_OF_BYTES = ("trf", "lp-rff-1", "lp-rff-8", "nystroem", "nystroem-16")
_OF_NUMBER = ("trf", "rff", "orf", "ssf")
# Penalties that the gradient methods try. The penalty with the best accuracy on a fifth of the training rows is used.
_PENALTIES = (1e-6, 1e-5, 1e-4)
# Maximum number of training rows. With more rows the ranking is the same.
_MOST_ROWS = 20_000


def _quantized(kernel: Any, width: int, seed: int, bits: int, rounding: str = "stochastic") -> Any:
    inner = pm.FourierFeatures(kernel, width, projection="gaussian", random_state=seed)
    return pm.QuantizedFeatures(inner, bits, rounding=rounding, packed=True, random_state=seed)


class HalfPrecision:
    """Features of another map rounded to float16 and converted back to float32, as if stored in two bytes each."""

    def __init__(self, feature_map: Any):
        self._feature_map = feature_map

    def fit(self, X: np.ndarray) -> HalfPrecision:
        self._feature_map.fit(X)
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        return self._feature_map.transform(X).astype(np.float16).astype(np.float32)

    def fit_transform(self, X: np.ndarray) -> np.ndarray:
        return self.fit(X).transform(X)


def _fourier(kernel: Any, width: int, seed: int, projection: str) -> Any:
    return pm.FourierFeatures(kernel, width, projection=projection, random_state=seed)


def _ternary(kernel: Any, width: int, seed: int, levels: int = 3) -> Any:
    return pm.TernaryFeatures(kernel, width, sparsity=0.5, levels=levels, packed=True, random_state=seed)


def _nystroem(kernel: Any, width: int, seed: int, landmarks: str = "uniform") -> Any:
    return pm.NystroemFeatures(kernel, width, landmarks=landmarks, random_state=seed)


#: Methods by name: bits per feature, and a function that makes the map from kernel, width and seed.
METHODS: dict[str, tuple[int, Callable[[Any, int, int], Any]]] = {
    "trf": (2, _ternary),
    "trf-binary": (1, partial(_ternary, levels=2)),
    "trf-relu": (2, lambda kernel, width, seed: _ternary("relu", width, seed)),
    "lp-rff-1": (1, partial(_quantized, bits=1)),
    "lp-rff-4": (4, partial(_quantized, bits=4)),
    "lp-rff-8": (8, partial(_quantized, bits=8)),
    "lm-rff-1": (1, partial(_quantized, bits=1, rounding="nearest")),
    "lm-rff-2": (2, partial(_quantized, bits=2, rounding="nearest")),
    "nystroem": (32, _nystroem),
    "nystroem-16": (16, lambda kernel, width, seed: HalfPrecision(_nystroem(kernel, width, seed))),
    "nystroem-rpcholesky": (32, partial(_nystroem, landmarks="rpcholesky")),
    "rff": (32, partial(_fourier, projection="gaussian")),
    "orf": (32, partial(_fourier, projection="orthogonal")),
    "ssf": (32, partial(_fourier, projection="ssf")),
    "arccosine": (32, lambda kernel, width, seed: pm.ArcCosineFeatures(1, width, random_state=seed)),
}


def run(
    data: Dataset,
    methods: Sequence[str] = tuple(METHODS),
    *,
    widths: Sequence[int] = WIDTHS,
    draws: Sequence[int] = range(3),
    most_rows: int = _MOST_ROWS,
    models: Sequence[str] = MODELS,
) -> Iterator[dict[str, Any]]:
    """Train linear classifiers on every method's features, for the Gaussian kernel at the median distance.

    `methods` are keys of `METHODS`, `models` are members of `MODELS`. Each seed in `draws` draws the map, at most
    `most_rows` training rows and as many test rows.

    In a measurement, `bytes` is the size of the features of one row. `seconds` is the time of drawing the map, mapping
    the training rows and fitting. `accuracy` is the accuracy on the test rows in percent. `error` is the mean squared
    error of ridge on the test rows, for targets of -1 and 1 (one-hot for more classes); NaN for other models.
    """
    _warm_up(methods)
    for draw in draws:
        rng = np.random.default_rng(draw)
        chosen, tested = (rng.permutation(len(rows))[:most_rows] for rows in (data.X, data.X_test))
        X, X_test = data.X[chosen], data.X_test[tested]
        kernel = pm.kernels.Gaussian(length_scale=median_length_scale(X[:_LENGTH_SCALE_ROWS]))
        for method, width, model in product(methods, widths, models):
            bits, make = METHODS[method]
            phi = make(kernel, width, draw)
            fit = _fit_ridge if model == "ridge" else partial(_fit_gradients, _LOSSES[model])
            seconds, accuracy, error = fit(phi, draw, X, data.y[chosen], X_test, data.y_test[tested])
            case = {"dataset": data.name, "method": method, "model": model, "n_components": width, "seed": draw}
            yield case | {"bytes": width * bits / 8, "seconds": seconds, "accuracy": accuracy, "error": error}


def _warm_up(methods: Sequence[str]) -> None:
    """Fit each method once, so that no measured time includes compilation."""
    rows, labels = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32), np.arange(200) % 2
    for method in methods:
        phi = METHODS[method][1](pm.kernels.Gaussian(), 16, 0)
        _fit_ridge(phi, 0, rows, labels, rows, labels)


def _fit_ridge(
    phi: Any, seed: int, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> tuple[float, float, float]:
    """Return seconds, accuracy and error of a `KernelClassifier`, or of plain ridge regression for `HalfPrecision`."""
    start = time.perf_counter()
    if isinstance(phi, HalfPrecision):
        classes = np.unique(y)
        one_hot = (y[:, None] == classes).astype(np.float64)
        outputs = fit_predict(phi, X, one_hot, X_test, seed)
        seconds = time.perf_counter() - start
        error = np.square(outputs - (y_test[:, None] == classes)).mean()
        # For two classes, the squared error for one-hot targets is a quarter of the squared error for targets -1 and 1.
        error *= 4.0 if len(classes) == 2 else 1.0
        return seconds, 100.0 * float(np.mean(classes[outputs.argmax(axis=1)] == y_test)), float(error)
    model = pm.KernelClassifier(phi, standardize=False, random_state=seed).fit(X, y)
    seconds = time.perf_counter() - start
    outputs = model.decision_function(X_test)
    wanted = model._fitted.targets.encode(y_test).reshape(outputs.shape)
    accuracy = 100.0 * float(np.mean(model.predict(X_test) == y_test))
    return seconds, accuracy, float(np.mean(np.square(outputs - wanted)))


def _fit_gradients(
    loss: str, phi: Any, seed: int, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> tuple[float, float, float]:
    """Return seconds and accuracy of scikit-learn's `SGDClassifier`, and NaN for the error."""
    from sklearn.linear_model import SGDClassifier

    start = time.perf_counter()
    Z = _dense(phi.fit_transform(X))
    # For every method, the rows are scaled to a root mean square norm of 1.
    scale = 1.0 / float(np.sqrt(np.mean(np.square(Z).sum(axis=1))))
    Z *= scale
    held = len(y) // 5
    options: dict[str, Any] = {"loss": loss, "max_iter": 20, "tol": None, "average": True, "random_state": seed}

    def score(penalty: float) -> float:
        return SGDClassifier(alpha=penalty, **options).fit(Z[held:], y[held:]).score(Z[:held], y[:held])

    model = SGDClassifier(alpha=max(_PENALTIES, key=score), **options).fit(Z, y)
    seconds = time.perf_counter() - start
    return seconds, 100.0 * float(model.score(_dense(phi.transform(X_test)) * scale, y_test)), float("nan")


def _dense(Z: Any) -> np.ndarray:
    return Z.to_dense() if isinstance(Z, pm.PackedArray) else Z


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Return means over draws, one row for each set, method, model and width."""
    groups = found.groupby(["dataset", "method", "model", "n_components"], sort=False, as_index=False)
    return groups[["bytes", "seconds", "accuracy", "error"]].mean()


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the chosen sets, and make tables of means, a figure for each set and model, and findings."""
    methods, draws = options.chosen(METHODS), options.seeds(3)
    widths, names = options.widths or WIDTHS, options.sets or (*_SETS, *CONVERTED)
    asked: dict[str, Any] = {"widths": widths, "draws": draws, "most_rows": options.rows or _MOST_ROWS}
    # All sets are read before the first is measured, so that a missing file is reported at once.
    loaded, missing = read_sets(lambda name: _read(name, options), names, () if options.sets else CONVERTED)
    parts, tables, figures, findings = [], [], {}, []
    for data in loaded:
        total = len(methods) * len(widths) * len(draws) * len(MODELS)
        parts.append(measured(stages, data.name, run(data, methods, **asked), total))
        for model, means in summary(parts[-1]).groupby("model", sort=False):
            tables.append(_table(means, data.name, model))
            name = f"footprint_{data.name}_{model}.png".replace(" ", "-")
            figures[name] = partial(_figure, means, f"{data.name}, {model}")
            trained, tested = (f"{min(len(rows), asked['most_rows']):,}" for rows in (data.X, data.X_test))
            size = f"{trained} training and {tested} test rows, {len(draws)} draws"
            findings += [*_findings_by_bytes(means, data.name, model, size)]
            findings += [*_findings_by_number(means, data, size)] if model == "svm" else []
    return Report(pd.concat(parts, ignore_index=True), [*tables, *missing], figures, findings)


def _findings_by_bytes(means: pd.DataFrame, dataset: str, model: str, size: str) -> Iterator[Finding]:
    """Yield accuracies of methods in `_OF_BYTES`, at or just below the largest byte count that all of them reach."""
    compared = means[means["method"].isin(_OF_BYTES)]
    if not {"trf"} < set(compared["method"]):
        return
    budget = compared.groupby("method")["bytes"].max().min()
    within = compared[compared["bytes"] <= budget].sort_values("bytes").groupby("method").last()
    within = within.loc[[method for method in _OF_BYTES if method in within.index]]
    figure, published_size = BY_BYTES.get((dataset, model), ("like Figures 1 and 4", "-"))
    # The page of the papers shows the result and the size of the model's own figure instead: `shown` in
    # benchmarks/paper_remarks.py.
    yield Finding(
        "Ali et al. (2022)",
        f"{figure}, {dataset}, {model}",
        f"accuracy in at most {budget:.0f} bytes a row (%)",
        f"{size}, m = {'; '.join(f'{width:,}' for width in within['n_components'])}",
        "; ".join(f"{method} {accuracy:.1f}" for method, accuracy in within["accuracy"].items()),
        "ternary best for given bytes on Cov-Type and Census (plots)",
        published_size,
    )


def _findings_by_number(means: pd.DataFrame, data: Dataset, size: str) -> Iterator[Finding]:
    """Yield the accuracies of the support vector machine at each number of features, if all methods were measured."""
    compared = means[means["method"].isin(_OF_NUMBER)]
    if data.name not in BY_NUMBER or set(compared["method"]) < set(_OF_NUMBER):
        return
    figure, published_size = BY_NUMBER[data.name]
    for width, part in compared.groupby("n_components"):
        accuracies = part.set_index("method")["accuracy"]
        yield Finding(
            "Ali et al. (2022)",
            f"{figure}, {data.name}, m = {width:,}, log(m / p) = {np.log(width / data.X.shape[1]):.2f}",
            "test accuracy of a linear SVM (%)",
            size,
            "; ".join(f"{method} {accuracies[method]:.1f}" for method in _OF_NUMBER),
            "ternary above the others (a plot)",
            published_size,
        )


def _read(name: str, options: BenchOptions) -> Dataset:
    if name != _DIGITS:
        return load(name, options.data, options.seed)
    data = load("MNIST", options.data, options.seed)
    return Dataset(name, *data.of_classes(7, 9, labels=(0, 1)))


def _table(means: pd.DataFrame, dataset: str, model: str) -> ResultTable:
    frame = means.sort_values(["bytes", "accuracy"], ascending=[True, False], kind="stable")
    columns = {"method": ("method", ""), "n_components": ("features", ""), "bytes": ("bytes", ".0f")}
    columns |= {"seconds": ("seconds", ".2f"), "accuracy": ("accuracy (%)", ".2f"), "error": ("test error", ".4f")}
    return ResultTable.of(f"{dataset}: {model}, by bytes a row", frame, columns)


def _figure(means: pd.DataFrame, title: str, path: Path) -> None:
    """Plot the test accuracy against bytes per row and against seconds, one line per method."""
    figure, (axes,) = panels(9.2, 4.8, 1, 2, sharey=True)
    lines = curves(means, "n_components", bytes="first", seconds="first", accuracy="first")
    for axis, (name, label) in zip(axes, (("bytes", "bytes a row"), ("seconds", "seconds")), strict=True):
        plot_curves(axis, lines, name, "accuracy", styles(means["method"]))
        axis.set(xscale="log", xlabel=label)
    axes[0].set_ylabel("test accuracy (%)")
    finish(figure, axes, path, title=title, columns=6)
