"""Accuracy of neural tangent kernels, of their features and of other classifiers on the UCI collection.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 5.2 and Table 1: on each
set, hyper-parameters are chosen on the collection's tuning partition, and the accuracy is the mean over its four test
splits. Kernels and features are used by support vector machines; the number of features is tuned as well, 10 to 100 for
at most 600 rows and 20 to 200 for more. P90 and P95 are the shares of sets on which a method reaches 90 and 95 % of the
best method's accuracy. PMA is a method's accuracy divided by the best accuracy, averaged over sets. ``"default"`` is
`phimap.KernelClassifier` with default settings, which chooses hyper-parameters on the training rows of each split.
``"network"`` is scikit-learn's perceptron with the publication's depths and widths.

The publication has 90 sets of at most 5,000 rows (``--rows 5000``). The default is all sets of at most 300 rows.
``--features`` names the widths of features and of networks; ``--methods network --features 64,128,256`` leaves out the
wide networks, which take most of the time.

Differences from the source: only every third power of two in the publication's grid of costs is tried. The length scale
of the Gaussian kernel is chosen among multiples of the median distance, and the degree of the polynomial kernel among 1
to 3; the publication does not state its choices. The network has a fixed initial step size instead of a cosine
schedule, and is fitted only if ``--methods`` names it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

import phimap as pm
from phimap._progress import Stages
from phimap.bench.experiment import Finding, Report, ResultTable, measured
from phimap.bench.ntk.methods import METHODS as MAPS
from phimap.bench.ntk.methods import ensembles
from phimap.bench.options import BenchOptions
from phimap.bench.uci import Partitioned, load_collection
from phimap.kernels import NTK, Gaussian, Polynomial
from phimap.learn.search.families import median_length_scale

DEPTHS = (1, 2, 3, 4, 5)
#: Costs of support vector machines; the publication uses every power of two from 2^-19 to 2^20.
COSTS = tuple(2.0**power for power in range(-19, 21, 3))
#: Length scales of the Gaussian kernel, in multiples of the median distance.
LENGTH_SCALES = (0.5, 1.0, 2.0)
DEGREES = (1, 2, 3)
NETWORK_WIDTHS = (64, 128, 256, 512, 1024, 2048)
CLASSIFIERS = ("adaboost", "forest", "neighbours", "network")
KERNELS = ("polynomial", "rbf", "rff", "ntk")
CHOSEN = ("adaboost", "forest", "neighbours", *KERNELS, "published-countsketch", "published-gibbs", "features")
#: Published results on 90 sets by method, in percent: mean accuracy, half of its 95 % interval, P90, P95, PMA.
PUBLISHED = {
    "adaboost": (76.32, 3.56, 66.67, 37.78, 89.44),
    "forest": (77.46, 3.75, 79.31, 57.47, 90.84),
    "neighbours": (76.95, 3.42, 72.22, 43.33, 90.31),
    "network": (81.10, 3.11, 85.56, 78.89, 95.33),
    "polynomial": (79.54, 3.41, 79.31, 66.67, 93.31),
    "rbf": (81.79, 2.95, 91.11, 75.56, 95.97),
    "rff": (81.61, 2.98, 88.89, 71.11, 95.74),
    "ntk": (82.24, 2.94, 92.22, 80.00, 96.53),
    "published-countsketch": (81.84, 2.89, 92.22, 75.56, 96.16),
    "published-gibbs": (81.85, 2.98, 92.22, 75.56, 96.05),
}
_NAMES = {
    "adaboost": "AdaBoost",
    "forest": "random forest",
    "neighbours": "k-nearest neighbours",
    "network": "ReLU network",
    "polynomial": "polynomial kernel",
    "rbf": "RBF kernel",
    "rff": "random Fourier features",
    "ntk": "NTK",
    "published-countsketch": "NTK random features",
    "published-gibbs": "NTK random features with Gibbs sampling",
    "features": "our NTKFeatures",
    "default": "our KernelClassifier with defaults",
}
_SCALE_ROWS = 1000
# Default maximum number of rows of a set, because tuned fits to larger sets take minutes.
_MOST_ROWS = 300
# For sets of at most this many rows, 10, 20, ..., 100 features are tried. For larger sets these numbers are doubled.
_FEW_ROWS = 600
# Maximum number of iterations of a support vector machine. If ten iterations per row are more, they are the maximum.
# Without a maximum, a machine with a large cost may not converge on overlapping classes.
_MOST_STEPS = 10_000


def run(
    data: Partitioned,
    methods: Sequence[str],
    *,
    depths: Sequence[int] = DEPTHS,
    widths: Sequence[int] | None = None,
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Tune and test every method on one set.

    Methods are ``"default"``, members of `CLASSIFIERS` and `KERNELS`, and keys of `phimap.bench.ntk.methods.METHODS`.
    Networks and tangent kernels are tuned over `depths`, and networks and features also over `widths`; None means the
    widths of the publication.

    In a measurement, `choice` describes the chosen hyper-parameters; it is empty for the default classifier.
    `validation` is the accuracy on the tuning partition and `accuracy` the mean over the four test splits, both in
    percent.
    """
    step = 10 if len(data.X) <= _FEW_ROWS else 20
    for method in methods:
        if method == "default":
            yield {"dataset": data.name, "method": method, "choice": ""} | _default(data, seed)
            continue
        best, chosen = -1.0, None
        settled: np.ndarray | None = None
        known = NETWORK_WIDTHS if method == "network" else [part * step for part in range(1, 11)]
        for choice, model, inputs in _candidates(method, data, depths, widths or known, seed):
            if inputs is settled:
                continue
            accuracy = _accuracy(model, inputs, data.y, ~data.validation, data.validation)
            # If no multiplier is at its bound, the solution is the same for all larger costs, so these costs are
            # skipped.
            if isinstance(model, SVC) and np.abs(np.asarray(model.dual_coef_)).max() < model.C:
                settled = inputs
            # Among equally accurate candidates the first is kept, because it is the most regularised.
            if accuracy > best:
                best, chosen = accuracy, (choice, model, inputs)
        if chosen is None:
            raise ValueError(
                f"{method} must have one of the widths {widths or known} at least. Give larger --features."
            )
        choice, model, inputs = chosen
        tested = float(np.mean([_accuracy(model, inputs, data.y, ~test, test) for test in data.tests]))
        case = {"dataset": data.name, "method": method, "choice": choice}
        yield case | {"validation": best, "accuracy": tested}


def _default(data: Partitioned, seed: int) -> dict[str, float]:
    """Return the accuracies of the classifier with default settings, which is fitted anew for every split."""

    def accuracy(held: np.ndarray) -> float:
        model = pm.KernelClassifier(random_state=seed).fit(data.X[~held], data.y[~held])
        return 100.0 * model.score(data.X[held], data.y[held])

    tested = float(np.mean([accuracy(test) for test in data.tests]))
    return {"validation": accuracy(data.validation), "accuracy": tested}


def _candidates(
    method: str, data: Partitioned, depths: Sequence[int], widths: Sequence[int], seed: int
) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Yield the candidates of a method: description, classifier, and inputs (rows, or a kernel matrix (n, n))."""
    if method in CLASSIFIERS:
        yield from (
            (choice, model, data.X) for choice, model in _classifiers(method, len(data.X), depths, widths, seed)
        )
        return
    for choice, K in _matrices(method, data.X, depths, widths, seed):
        for cost in COSTS:
            model = SVC(C=cost, kernel="precomputed", max_iter=max(_MOST_STEPS, 10 * len(K)))
            yield f"{choice}, C = {cost:g}", model, K


def _classifiers(
    method: str, n_rows: int, depths: Sequence[int], widths: Sequence[int], seed: int
) -> Iterator[tuple[str, Any]]:
    if method == "neighbours":
        # The tuning partition trains on half of the rows; k is at most half of these training rows.
        yield from ((f"k = {k}", KNeighborsClassifier(k)) for k in range(1, min(20, n_rows // 4) + 1))
    elif method == "network":
        for depth, width in product(depths, widths):
            yield f"depth {depth}, width {width}", MLPClassifier((width,) * depth, max_iter=100, random_state=seed)
    else:
        yield from ensembles(method, seed)


def _matrices(
    method: str, X: np.ndarray, depths: Sequence[int], widths: Sequence[int], seed: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield kernel matrices (n, n) of all rows, exact or from features. They do not depend on labels."""
    scales = [multiple * median_length_scale(X[:_SCALE_ROWS]) for multiple in LENGTH_SCALES]
    if method == "rbf":
        yield from ((f"length scale {scale:.3g}", Gaussian(scale)(X)) for scale in scales)
    elif method == "polynomial":
        gamma = 1.0 / X.shape[1]
        yield from ((f"degree {degree}", Polynomial(degree, gamma=gamma, coef0=1.0)(X)) for degree in DEGREES)
    elif method == "ntk":
        yield from ((f"depth {depth}", NTK(depth)(X)) for depth in depths)
    else:
        for choice, width in product(scales if method == "rff" else depths, widths):
            if method == "rff":
                words, phi = "length scale", pm.FourierFeatures(Gaussian(choice), width, random_state=seed)
            else:
                words, phi = "depth", MAPS[method](int(choice), width, X.shape[1], seed)
            try:
                Z = phi.fit(X).transform(X)
            except ValueError:
                # Some maps have a minimum number of features.
                continue
            yield f"{words} {choice:.3g}, m = {width}", Z @ Z.T


def _accuracy(model: Any, inputs: np.ndarray, y: np.ndarray, train: np.ndarray, held: np.ndarray) -> float:
    """Return the accuracy in percent on the rows `held` after a fit to the rows `train`."""
    pairwise = isinstance(model, SVC)
    columns = train if pairwise else slice(None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(inputs[train][:, columns], y[train])
    return 100.0 * float((model.predict(inputs[held][:, columns]) == y[held]).mean())


def report(options: BenchOptions, stages: Stages) -> Report:
    """Tune and test the chosen methods, and make the table of the paper, ours and the published one."""
    methods = options.chosen(("default", *CLASSIFIERS, *KERNELS, *MAPS)) if options.methods else list(CHOSEN)
    names, most = list(options.sets) if options.sets else None, options.rows or _MOST_ROWS
    loaded = load_collection(options.data, names, most)
    if not loaded:
        raise ValueError(f"--rows must leave at least one set, got {options.rows}. Raise it.")
    asked: dict[str, Any] = {"depths": options.depths or DEPTHS, "widths": options.widths, "seed": options.seed}
    tuned = (one for data in loaded for one in run(data, methods, **asked))
    found = measured(stages, "UCI collection", tuned, len(loaded) * len(methods))
    shares = figures(found)
    sets = f"{len(loaded)} UCI sets of at most {max(len(data.X) for data in loaded):,} rows"
    published = pd.DataFrame.from_dict(PUBLISHED, orient="index", columns=_FIGURES)
    tables = [
        _table(f"{sets}: test accuracy (%)", shares),
        _table("published: Han et al. 2021, Table 1, 90 sets of at most 5,000 rows", published),
    ]
    tried = options.widths if "network" in methods else None
    return Report(found, tables, findings=list(_findings(shares, published, sets, tried)))


def _findings(
    shares: pd.DataFrame, published: pd.DataFrame, sets: str, tried: Sequence[int] | None
) -> Iterator[Finding]:
    """Yield the figures of each method.

    With a single method, P90, P95 and PMA are always 100 % and are omitted.
    """
    kept = list(_cells(published))[: None if len(shares) > 1 else 1]
    known, theirs = _cells(published)[kept], "90 sets of at most 5,000 rows"
    for method, cells in _cells(shares)[kept].iterrows():
        name, size = _NAMES.get(str(method), method), sets
        if method == "network" and tried:
            size += f", widths {', '.join(map(str, tried))}"
        yield Finding(
            "Han et al. (2021)",
            f"Table 1, {name}",
            f"{', '.join(kept)} (%)",
            size,
            ", ".join(cells),
            ", ".join(known.loc[method]) if method in PUBLISHED else "-",
            theirs + (f", widths {', '.join(map(str, NETWORK_WIDTHS))}" if method == "network" else ""),
        )


_FIGURES = ["accuracy", "half", "P90", "P95", "PMA"]


def figures(found: pd.DataFrame) -> pd.DataFrame:
    """Return mean accuracy, half of its 95 % interval, P90, P95 and PMA in percent, one row for each method."""
    table = found.pivot_table(index="dataset", columns="method", values="accuracy", sort=False)
    shares = table.div(table.max(axis=1), axis=0)
    half = 1.96 * table.sem() if len(table) > 1 else 0.0 * table.mean()
    parts = (100 * (shares >= least).mean() for least in (0.9, 0.95))
    return pd.concat([table.mean(), half, *parts, 100 * shares.mean()], axis=1).set_axis(_FIGURES, axis=1)


def _cells(shares: pd.DataFrame) -> pd.DataFrame:
    """Format the values as text, and join the interval to the mean."""
    cells = shares.map("{:.2f}".format)
    return cells.assign(accuracy=cells["accuracy"] + " ± " + cells["half"]).drop(columns="half")


def _table(title: str, shares: pd.DataFrame) -> ResultTable:
    return ResultTable(title, _cells(shares).rename(index=_NAMES).rename_axis("method").reset_index())
