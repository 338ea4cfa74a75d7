"""Accuracy of neural tangent kernels and of their features on the UCI collection.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 5.2 and Table 1: on each
set hyper-parameters are chosen on the collection's tuning partition, and the accuracy is the mean over its four
test splits. P90 and P95 are the shares of sets where a method reaches 90 and 95 % of the best one's accuracy, PMA is
the mean of its share of the best accuracy. ``"default"`` is `phimap.KernelClassifier` with default settings: what it
chooses, it chooses on the training rows of each split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.exact_ridge import ALPHAS, feature_predictions, kernel_predictions
from phimap.bench.experiment import Report, Table, as_dicts, measured
from phimap.bench.ntk.methods import METHODS as MAPS
from phimap.bench.options import BenchOptions
from phimap.bench.uci import Partitioned, load_collection
from phimap.features import FeatureMap
from phimap.kernels import NTK, Gaussian, Kernel
from phimap.learn.search.length_scale import median_length_scale

DEPTHS = (1, 2, 3, 4, 5)
WIDTH = 1024
CHOSEN = ("rbf", "rff", "ntk", "published", "published-gibbs", "features")
#: Multiples of the median distance that the Gaussian kernel is tried with.
LENGTH_SCALES = (0.5, 1.0, 2.0)
#: Published accuracies on 90 sets, in percent: mean, its 95 % interval, P90, P95, PMA.
PUBLISHED = {
    "AdaBoost": (76.32, 3.56, 66.67, 37.78, 89.44),
    "random forest": (77.46, 3.75, 79.31, 57.47, 90.84),
    "k-nearest neighbours": (76.95, 3.42, 72.22, 43.33, 90.31),
    "ReLU network": (81.10, 3.11, 85.56, 78.89, 95.33),
    "polynomial kernel": (79.54, 3.41, 79.31, 66.67, 93.31),
    "rbf": (81.79, 2.95, 91.11, 75.56, 95.97),
    "rff": (81.61, 2.98, 88.89, 71.11, 95.74),
    "ntk": (82.24, 2.94, 92.22, 80.00, 96.53),
    "NTK features": (81.84, 2.89, 92.22, 75.56, 96.16),
    "NTK features, Gibbs": (81.85, 2.98, 92.22, 75.56, 96.05),
}
_SCALE_ROWS = 1000
# Rows of a set; the tuned fits of larger ones take minutes.
_MOST_ROWS = 5000


@dataclass(frozen=True)
class Measurement:
    """One method on one set.

    Attributes
    ----------
    dataset, method : str
    choice : float or None
        The depth chosen, or the multiple of the median distance; None for the default classifier.
    alpha : float or None
        The regularisation chosen, in units of the kernel's mean diagonal; None for the default classifier.
    validation, accuracy : float
        On the tuning partition and over the four test splits, in percent.
    """

    dataset: str
    method: str
    choice: float | None
    alpha: float | None
    validation: float
    accuracy: float


def run(
    data: Partitioned,
    methods: Sequence[str],
    *,
    depths: Sequence[int] = DEPTHS,
    width: int = WIDTH,
    seed: int = 0,
) -> Iterator[Measurement]:
    """Tune and test every method on one set, choosing among the depths or the length scales and the regularisations.

    Methods are ``"default"``, ``"rbf"``, ``"rff"``, ``"ntk"`` or keys of `phimap.bench.ntk.methods.METHODS`, these of
    `width` features.
    """
    for method in methods:
        if method == "default":
            yield _default(data, seed)
            continue
        best, chosen = (-1.0, 0.0, 0.0), np.empty((0, 0))
        for choice in LENGTH_SCALES if method in ("rbf", "rff") else depths:
            evaluated = _evaluate(_similarity(method, choice, width, data.X, seed), data.X)
            accuracies = _accuracies(evaluated, data.y, data.validation, ALPHAS)
            # Of equals the strongest regularisation.
            for accuracy, alpha in zip(accuracies[::-1], ALPHAS[::-1], strict=True):
                if accuracy > best[0]:
                    best, chosen = (accuracy, choice, alpha), evaluated
        validation, choice, alpha = best
        accuracy = float(np.mean([_accuracies(chosen, data.y, test, (alpha,))[0] for test in data.tests]))
        yield Measurement(data.name, method, choice, alpha, validation, accuracy)


def _default(data: Partitioned, seed: int) -> Measurement:
    """The classifier with default settings, fitted anew for every split."""

    def accuracy(held: np.ndarray) -> float:
        model = pm.KernelClassifier(random_state=seed).fit(data.X[~held], data.y[~held])
        return 100.0 * model.score(data.X[held], data.y[held])

    tested = float(np.mean([accuracy(test) for test in data.tests]))
    return Measurement(data.name, "default", None, None, accuracy(data.validation), tested)


def _similarity(method: str, choice: float, width: int, X: np.ndarray, seed: int) -> Kernel | FeatureMap:
    if method == "ntk":
        return NTK(int(choice))
    if method in ("rbf", "rff"):
        kernel = Gaussian(choice * median_length_scale(X[:_SCALE_ROWS]))
        return kernel if method == "rbf" else pm.FourierFeatures(kernel, width, random_state=seed)
    return MAPS[method](int(choice), width, X.shape[1], seed)


def _evaluate(similarity: Kernel | FeatureMap, X: np.ndarray) -> np.ndarray:
    """The kernel matrix (n, n) of all rows, or their features (n, m) where these are fewer than the rows."""
    if isinstance(similarity, Kernel):
        return similarity(X)
    Z = similarity.fit(X).transform(X)
    return Z if Z.shape[1] < len(Z) else Z @ Z.T


def _accuracies(evaluated: np.ndarray, y: np.ndarray, held: np.ndarray, alphas: tuple[float, ...]) -> list[float]:
    """Accuracies in percent on the rows `held` of ridge regression on one-hot labels of the others."""
    classes = np.unique(y)
    one_hot = (y[:, None] == classes).astype(np.float64)
    if evaluated.shape[0] == evaluated.shape[1]:
        found = kernel_predictions(evaluated, one_hot, ~held, held, alphas)
    else:
        found = feature_predictions(evaluated[~held], one_hot[~held], evaluated[held], alphas)
    return [100.0 * float((classes[scores.argmax(axis=1)] == y[held]).mean()) for scores in found]


def report(options: BenchOptions, stages: Stages) -> Report:
    """Tune and test the methods asked for: the table of the paper, ours and the published one."""
    methods = options.chosen(("default", "rbf", "rff", "ntk", *MAPS)) if options.methods else list(CHOSEN)
    names, width = list(options.sets) if options.sets else None, (options.widths or [WIDTH])[0]
    loaded = load_collection(options.data, names, options.rows or _MOST_ROWS)
    if not loaded:
        raise ValueError(f"--rows must leave at least one set, got {options.rows}. Raise it.")
    asked: dict[str, Any] = {"depths": options.depths or DEPTHS, "width": width, "seed": options.seed}
    tuned = (one for data in loaded for one in run(data, methods, **asked))
    found = measured(stages, "UCI collection", tuned, len(loaded) * len(methods))
    return Report(as_dicts(found), [_table(found, methods, len(loaded), width), _published()])


def figures(found: Sequence[Measurement], methods: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Mean accuracy, its 95 % interval, P90, P95 and PMA of each method, in percent."""
    by_set: dict[str, dict[str, float]] = {}
    for one in found:
        by_set.setdefault(one.dataset, {})[one.method] = one.accuracy
    table = np.array([[accuracies[method] for method in methods] for accuracies in by_set.values()])
    shares = table / table.max(axis=1, keepdims=True)
    half = 1.96 * table.std(axis=0, ddof=1) / len(table) ** 0.5 if len(table) > 1 else np.zeros(len(methods))
    parts = table.mean(axis=0), half, *(100 * (shares >= least).mean(axis=0) for least in (0.9, 0.95))
    columns = np.array([*parts, 100 * shares.mean(axis=0)])
    return {method: tuple(columns[:, j].tolist()) for j, method in enumerate(methods)}


def _lines(by_method: dict[str, tuple[float, ...]]) -> list[tuple[str, ...]]:
    return [
        (method, f"{mean:.2f} ± {half:.2f}", *(f"{share:.2f}" for share in shares))
        for method, (mean, half, *shares) in by_method.items()
    ]


def _table(found: Sequence[Measurement], methods: Sequence[str], n_sets: int, width: int) -> Table:
    title = f"{n_sets} UCI sets, {width:,} features: test accuracy (%)"
    return Table(title, ("method", "accuracy", "P90", "P95", "PMA"), _lines(figures(found, methods)))


def _published() -> Table:
    title = "published: Han et al. 2021, Table 1, 90 sets, support vector machines, at most 200 features"
    return Table(title, ("method", "accuracy", "P90", "P95", "PMA"), _lines(PUBLISHED))
