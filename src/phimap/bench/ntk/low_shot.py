"""Accuracy with five labels per class, on embeddings from a network that was trained on other data.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Appendix D, Table 3 and Figure 4:
rows are embeddings of images, of dimension 512, from the last layer but one of a pretrained ResNet18. Five random
training rows of each class have labels; the accuracy is measured on all test rows. Random features of depth 2 with
4,000 components are divided by their norms and used by a linear classifier; kernels are used by support vector
machines; five other classifiers are compared. As in the source, each method uses the setting with the best mean test
accuracy over all draws.

Embeddings are read from `embeddings.npz`. Users make this file with their own network, because the library does not
contain one. Without the file, the pixels of digits are used (with ``--sets MNIST``, the pixels of MNIST), for which the
publication does not state accuracies.

Differences from the source: the training rows are drawn ten times for every set, while the publication has 50 draws for
CIFAR-10 and VOC07 (``--repeats 50``). Only the first 10,000 test rows are used (``--rows`` changes this). Linear
classifiers are logistic regressions with a penalty from a grid, fitted to convergence, instead of 500 epochs of
stochastic gradients at 12 settings. The sketch has half of the width, while the publication tunes its share.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC

import phimap as pm
from phimap._files import DataError
from phimap._progress import Stages
from phimap.bench.datasets import SETS, Dataset, load, locate, unit_rows
from phimap.bench.experiment import Finding, Report, ResultTable, measured
from phimap.bench.figures import finish, mark_widths, panels, styles
from phimap.bench.ntk.methods import METHODS as MAPS
from phimap.bench.ntk.methods import ensembles
from phimap.bench.options import BenchOptions
from phimap.features import FeatureMap
from phimap.kernels import NTK, Gaussian

FILE = "embeddings.npz"
DEPTH, SHOTS, WIDTH, MOST_ROWS = 2, 5, 4000, 10_000
#: Values of C for logistic regression and support vector machines, for features of norm 1 and kernels whose diagonal is
#: of order 1.
COSTS = tuple(10.0**power for power in range(-2, 5))
NEIGHBOURS = (1, 2, 3, 5, 10)
RANDOM = ("rff", "published-countsketch", "published-gibbs", "features")
METHODS = ("linear", "neighbours", "adaboost", "forest", "linear-svm", "rbf", "ntk", *RANDOM)
#: Sets of Table 3, and mean accuracies in percent by method, in the order of the sets.
PUBLISHED_SETS = ("CIFAR-10", "CIFAR-100", "VOC07", "Caltech-101", "CUB-200", "Dog-120", "Flower-102", "Food-101")
PUBLISHED = {
    "linear": (59.97, 37.61, 59.91, 82.41, 37.92, 66.09, 73.56, 29.04),
    "neighbours": (47.64, 26.09, 50.32, 73.37, 24.78, 54.33, 56.36, 18.59),
    "adaboost": (32.09, 9.56, 31.56, 26.41, 7.01, 22.72, 20.87, 6.20),
    "forest": (56.79, 30.09, 56.16, 75.70, 29.71, 61.31, 64.49, 22.47),
    "linear-svm": (58.59, 35.74, 60.63, 81.39, 36.68, 66.32, 70.94, 28.44),
    "rbf": (59.16, 36.42, 60.79, 82.14, 36.67, 66.49, 71.41, 29.03),
    "rff": (59.63, 37.74, 60.95, 82.17, 37.50, 67.38, 72.83, 30.02),
    "ntk": (60.48, 37.53, 61.19, 82.83, 37.95, 67.72, 72.32, 29.63),
    "published-countsketch": (60.63, 38.53, 61.44, 82.65, 38.11, 68.06, 73.62, 30.49),
    "published-gibbs": (60.66, 38.49, 61.48, 82.67, 38.22, 68.07, 73.67, 30.50),
}


def load_embeddings(folder: Any, names: Sequence[str] | None, seed: int) -> list[Dataset]:
    """Load the named sets, from `SETS` or the file of embeddings; by default all sets in the file, or else digits.

    Raises
    ------
    DataError
        If a named set is not in `SETS`, and the file does not exist or does not hold the set.
    """
    known = [name for name in names or () if name not in SETS]
    found = [load(name, folder, seed) for name in names or () if name in SETS]
    try:
        path = locate(FILE, folder)
    except DataError:
        if known:
            raise
        return found or [load("digits", folder, seed)]
    with np.load(path, allow_pickle=False) as arrays:
        there = [key.removesuffix("_Xtr") for key in arrays.files if key.endswith("_Xtr")]
        for name in known or (there if not names else ()):
            if name not in there:
                raise DataError(f"there is no set {name} in {path}, which has {', '.join(there)}.")
            X, y, X_test, y_test = (arrays[f"{name}_{key}"] for key in ("Xtr", "ytr", "Xte", "yte"))
            found.append(Dataset(name, X.astype(np.float32), y, X_test.astype(np.float32), y_test))
    return found


def run(
    data: Dataset,
    methods: Sequence[str],
    *,
    widths: Sequence[int] = (WIDTH,),
    depth: int = DEPTH,
    draws: Sequence[int] = range(10),
    most_rows: int = MOST_ROWS,
) -> Iterator[dict[str, Any]]:
    """Fit every setting of every method to `SHOTS` rows of each class, which are drawn with the seeds `draws`.

    Methods are members of `METHODS`. Random features are made with each of the `widths`. In a measurement, `width` is 0
    for methods without random features, `n_rows` is the number of labelled rows, and `accuracy` is the accuracy on the
    test rows in percent.
    """
    X_test, y_test = data.X_test[:most_rows], data.y_test[:most_rows]
    for draw in draws:
        rng = np.random.default_rng(draw)
        rows = [rng.permutation(np.flatnonzero(data.y == label))[:SHOTS] for label in np.unique(data.y)]
        chosen = np.concatenate(rows)
        X, y = data.X[chosen], data.y[chosen]
        for method in methods:
            for width in widths if method in RANDOM else (0,):
                inputs, settings = _prepared(method, X, X_test, depth, width, draw)
                for setting, model in settings:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", ConvergenceWarning)
                        model.fit(inputs[0], y)
                    accuracy = 100.0 * float((model.predict(inputs[1]) == y_test).mean())
                    case = {"dataset": data.name, "method": method, "setting": setting, "width": width, "seed": draw}
                    yield case | {"n_rows": len(X), "accuracy": accuracy}


def _prepared(
    method: str, X: np.ndarray, X_test: np.ndarray, depth: int, width: int, seed: int
) -> tuple[tuple[np.ndarray, np.ndarray], Iterator[tuple[str, Any]]]:
    """Return the training and test inputs of a method, and its settings, each with a classifier."""
    if method in RANDOM:
        phi = make_pipeline(_feature_map(method, X, depth, width, seed), Normalizer())
        inputs = np.asarray(phi.fit_transform(X)), np.asarray(phi.transform(X_test))
        return inputs, _each(LogisticRegression, max_iter=1000)
    if method in ("rbf", "ntk"):
        # The Gaussian kernel has the publication's first length scale: gamma = 1 / (d v), for d columns and the
        # variance v of all entries.
        kernel = NTK(depth) if method == "ntk" else Gaussian(_scale(X))
        K, K_test = kernel(X.astype(np.float64)), kernel(X_test.astype(np.float64), X.astype(np.float64))
        unit = float(K.trace()) / len(K) or 1.0
        return (K / unit, K_test / unit), _each(SVC, kernel="precomputed")
    if method in ("linear", "linear-svm"):
        settings = _each(SVC, kernel="linear") if method == "linear-svm" else _each(LogisticRegression, max_iter=1000)
        return (unit_rows(X), unit_rows(X_test)), settings
    if method == "neighbours":
        models = ((f"k = {k}", KNeighborsClassifier(k)) for k in NEIGHBOURS if k <= len(X) // 2)
        return (X, X_test), models
    return (X, X_test), ensembles(method, seed)


def _each(make: Callable[..., Any], **options: Any) -> Iterator[tuple[str, Any]]:
    return ((f"C = {cost:g}", make(C=cost, **options)) for cost in COSTS)


def _scale(X: np.ndarray) -> float:
    return float(np.sqrt(X.shape[1] * X.var(dtype=np.float64) / 2)) or 1.0


def _feature_map(method: str, X: np.ndarray, depth: int, width: int, seed: int) -> FeatureMap:
    if method == "rff":
        return pm.FourierFeatures(Gaussian(_scale(X)), width, random_state=seed)
    return MAPS[method](depth, width, X.shape[1], seed)


def best(found: pd.DataFrame) -> pd.DataFrame:
    """Select the results of the setting with the best mean accuracy, for one method at one width on one set."""
    return found[found["setting"] == found.groupby("setting", sort=False)["accuracy"].mean().idxmax()]


def report(options: BenchOptions, stages: Stages) -> Report:
    """Fit the chosen methods, and make a table for each set and, with several widths, a figure."""
    draws, methods = options.seeds(10), options.chosen(METHODS)
    depth, widths = (options.depths or (DEPTH,))[0], sorted(options.widths or (WIDTH,))
    asked: dict[str, Any] = {"depth": depth, "widths": widths, "draws": draws, "most_rows": options.rows or MOST_ROWS}
    loaded = load_embeddings(options.data, options.sets, options.seed)
    found = {data.name: measured(stages, data.name, run(data, methods, **asked)) for data in loaded}
    chosen = {name: _chosen(part) for name, part in found.items()}
    tables = [_table(name, part, depth) for name, part in chosen.items()]
    if not set(found) & set(PUBLISHED_SETS):
        why = {"set": ", ".join(PUBLISHED_SETS), "why": f"not among the sets of {FILE}"}
        tables.append(ResultTable("embeddings", pd.DataFrame([why])))
    figures = {}
    if len(widths) > 1:
        figures = {f"low-shot_{name}.png": partial(_figure, name, part) for name, part in chosen.items()}
    findings = [one for name, part in chosen.items() for one in _findings(name, part, depth)]
    return Report(pd.concat(found.values(), ignore_index=True), tables, figures, findings)


def _chosen(found: pd.DataFrame) -> pd.DataFrame:
    """Return mean accuracy, standard error and draws of the best setting, for each method and width."""
    fits = pd.concat([best(part) for _, part in found.groupby(["method", "width"], sort=False)])
    groups = fits.groupby(["method", "width", "setting", "n_rows"], sort=False)["accuracy"]
    return groups.agg(["mean", "sem", "size"]).fillna(0.0).reset_index().assign(accuracy=_interval)


def _interval(chosen: pd.DataFrame) -> list[str]:
    return [f"{mean:.2f} ± {1.96 * error:.2f}" for mean, error in zip(chosen["mean"], chosen["sem"], strict=True)]


def _table(dataset: str, chosen: pd.DataFrame, depth: int) -> ResultTable:
    n_rows = chosen["n_rows"].iloc[0]
    frame = chosen[["method", "width", "accuracy", "setting"]].rename(columns={"width": "features"})
    title = f"{dataset}, {n_rows:,} labels, tangent kernels of depth {depth}: test accuracy (%), 95 % interval"
    return ResultTable(title, frame.replace({"features": 0}, pd.NA), {"features": ","})


def _findings(dataset: str, chosen: pd.DataFrame, depth: int) -> Iterator[Finding]:
    """Yield our accuracies and the accuracies of Table 3, at the width nearest to the publication's width."""
    nearest = min(set(chosen["width"]) - {0} or {0}, key=lambda width: abs(width - WIDTH))
    for one in chosen[chosen["width"].isin([0, nearest])].itertuples():
        compared = dataset in PUBLISHED_SETS and one.method in PUBLISHED
        known = f"{PUBLISHED[one.method][PUBLISHED_SETS.index(dataset)]:.2f}" if compared else "-"
        size = f"{one.n_rows:,} labels, {one.size} draws"
        size += f", m = {one.width:,}" if one.width else ""
        size += f", depth {depth}" if one.method in ("ntk", *MAPS) else ""
        place, theirs = f"Table 3, {dataset}, {one.method}", "50" if dataset in ("CIFAR-10", "VOC07") else "10"
        if dataset not in PUBLISHED_SETS:
            place = f"like {place}"
        theirs = f"embeddings by a ResNet-18, five labels a class, {theirs} draws" if compared else "-"
        yield Finding("Han et al. (2021)", place, "accuracy (%)", size, one.accuracy, known, theirs)


def _figure(dataset: str, chosen: pd.DataFrame, path: Path) -> None:
    """Plot accuracy against the number of features, as in Figure 4; methods without features are horizontal lines."""
    figure, ((axis,),) = panels(6.4, 4.4)
    for method, style in styles(chosen["method"]).items():
        points = chosen[chosen["method"] == method]
        if 0 in points["width"].values:
            axis.axhline(points["mean"].iloc[0], linestyle=":", color=style["color"], label=method)
        else:
            axis.plot(points["width"], points["mean"], marker="o", markersize=3, label=method, **style)
    axis.set(xlabel="features", ylabel="test accuracy (%)", title=f"{dataset}: five labels a class")
    mark_widths(axis, set(chosen["width"]) - {0})
    finish(figure, [axis], path, columns=4)
