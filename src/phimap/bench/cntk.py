"""Accuracy of convolutional tangent maps on images against their width and their time.

Zandieh, Han, Avron, Shoham, Kim, Shin (2021), *Scaling neural tangent kernels via sketching and random features*,
Section 5.2, Table 1 and Figure 2b: depth 3, global average pooling, ridge regression on one-hot targets; gradient
features and, on a subset, the exact kernel beside them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import locate
from phimap.bench.exact_ridge import ALPHAS, kernel_predictions
from phimap.bench.experiment import Report, Table, as_dicts, grouped, having, measured, values
from phimap.bench.options import BenchOptions
from phimap.features import FeatureMap

DEPTH, FILTER_SIZE = 3, 3
WIDTHS = (1024, 2048, 4096)
METHODS = ("sketch", "gradient", "exact")
_FILES = {"cntk-cifar10": "cifar10.npz", "cntk-mnist": "mnist.npz"}
#: Table 1 of Zandieh et al. (2021), all 50,000 lossless training images of CIFAR-10, one RTX 2080: features, accuracy
#: in percent, seconds.
PUBLISHED = {
    "cntk-cifar10": (
        ("sketch", "4,096", "67.58", "780"),
        ("sketch", "8,192", "70.46", "1870"),
        ("sketch", "16,384", "72.06", "5160"),
        ("gradient", "9,328", "62.49", "300"),
        ("gradient", "17,040", "62.57", "360"),
        ("gradient", "42,816", "65.21", "580"),
        ("exact", "-", "70.47", "> 1,000,000"),
        ("CNN", "-", "63.81", ""),
    )
}
# Training and test images of the exact kernel: 375,000 pairs, some hours of a core at 32 x 32 pixels.
EXACT_ROWS = 500
# Training images where none are named: larger sets take hours on a CPU.
_MOST_ROWS = 5000


@dataclass(frozen=True)
class Images:
    """Images (n, h, w, c) in float32, of mean 0 and standard deviation 1 a channel, and labels."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Measurement:
    """One fit.

    Attributes
    ----------
    method : str
    n_rows, n_test, n_components, seed : int
        `n_components` is 0 for the exact kernel.
    accuracy : float
        On the test images, in percent.
    seconds : float
        Fit and prediction.
    disagreement : float or None
        Test images whose label is not the exact kernel's, in percent; None where that was not fitted to the same
        images.
    """

    method: str
    n_rows: int
    n_test: int
    n_components: int
    seed: int
    accuracy: float
    seconds: float
    disagreement: float | None = None


def load_images(path: str, n_rows: int, n_test: int) -> Images:
    """The first images of a file with X_train, y_train, X_test and y_test."""
    with np.load(path) as file:
        X, X_test = (file[name][:n].astype(np.float32) for name, n in (("X_train", n_rows), ("X_test", n_test)))
        y, y_test = file["y_train"][:n_rows], file["y_test"][:n_test]
    X, X_test = (part[..., None] if part.ndim == 3 else part for part in (X, X_test))
    mean, standard_deviation = X.mean(axis=(0, 1, 2)), X.std(axis=(0, 1, 2))
    return Images((X - mean) / standard_deviation, y, (X_test - mean) / standard_deviation, y_test)


def run(
    images: Images,
    methods: Sequence[str],
    *,
    depth: int = DEPTH,
    widths: Sequence[int] = WIDTHS,
    draws: Sequence[int] = (0,),
    device: str = "auto",
    exact_rows: int = EXACT_ROWS,
) -> Iterator[Measurement]:
    """Fit every method at every width, with the seeds `draws`.

    The exact kernel takes at most `exact_rows` training and test images; where it is asked for, the others are fitted
    to those as well. The device is that of `phimap.KernelClassifier`.
    """
    sizes = {(len(images.X), len(images.X_test))}
    few, exact = images, None
    if "exact" in methods:
        few = Images(*(part[:exact_rows] for part in (images.X, images.y, images.X_test, images.y_test)))
        start = time.perf_counter()
        exact = _exact_labels(few, depth)
        yield _measurement("exact", few, 0, 0, exact, start)
        sizes.add((len(few.X), len(few.X_test)))
    for n, t in sorted(sizes):
        part = Images(images.X[:n], images.y[:n], images.X_test[:t], images.y_test[:t])
        same = exact if (n, t) == (len(few.X), len(few.X_test)) else None
        for method in methods:
            for width in widths if method != "exact" else ():
                for draw in draws:
                    phi = feature_map(method, depth, width, draw)
                    start = time.perf_counter()
                    model = pm.KernelClassifier(phi, standardize=False, device=device, random_state=draw)
                    labels = model.fit(part.X, part.y).predict(part.X_test)
                    yield _measurement(method, part, model.feature_map_.record_.n_components, draw, labels, start, same)


def feature_map(method: str, depth: int, width: int, seed: int) -> FeatureMap:
    """The map of a method, with about that many features."""
    if method == "sketch":
        return pm.CNTKSketch(depth, FILTER_SIZE, width, random_state=seed)
    channels = max(1, round((width / (depth - 1)) ** 0.5 / FILTER_SIZE))
    return pm.CNTKGradientFeatures(depth, FILTER_SIZE, channels, random_state=seed)


def _exact_labels(images: Images, depth: int) -> np.ndarray:
    """Labels of ridge regression with the exact kernel, regularised by the error on a tenth held out."""
    kernel = pm.kernels.CNTK(depth, FILTER_SIZE, verbose=True)
    n, t = len(images.X), len(images.X_test)
    K = np.zeros((n + t, n + t))
    K[:n, :n] = kernel(images.X)
    K[n:, :n] = kernel(images.X_test, images.X)
    classes = np.unique(images.y)
    Y = np.zeros((n + t, len(classes)))
    Y[:n] = images.y[:, None] == classes
    rows = np.arange(n + t)
    held, kept, test = rows < n // 10, (rows >= n // 10) & (rows < n), rows >= n
    errors = [np.square(P - Y[held]).mean() for P in kernel_predictions(K, Y, kept, held)]
    alpha = ALPHAS[int(np.argmin(errors))]
    return classes[kernel_predictions(K, Y, rows < n, test, (alpha,))[0].argmax(axis=1)]


def _measurement(
    method: str,
    images: Images,
    width: int,
    seed: int,
    labels: np.ndarray,
    start: float,
    exact: np.ndarray | None = None,
) -> Measurement:
    seconds = time.perf_counter() - start
    accuracy = 100.0 * float((labels == images.y_test).mean())
    disagreement = None if exact is None else 100.0 * float((labels != exact).mean())
    return Measurement(method, len(images.X), len(images.X_test), width, seed, accuracy, seconds, disagreement)


def report(options: BenchOptions, stages: Stages) -> Report:
    """Fit the methods asked for: tables of accuracies and seconds, ours and the published one."""
    draws, methods = options.seeds(1), options.chosen(METHODS)
    path = locate(_FILES[options.name], options.data)
    images = load_images(str(path), options.rows or _MOST_ROWS, options.rows or _MOST_ROWS)
    depth, widths = (options.depths or (DEPTH,))[0], options.widths or WIDTHS
    fits = run(images, methods, depth=depth, widths=widths, draws=draws)
    found = measured(stages, options.name, fits)
    tables = [_table(having(found, n_rows=n), depth) for n in sorted({one.n_rows for one in found})]
    if options.name in PUBLISHED:
        title = "published: Zandieh et al. 2021, Table 1, 50,000 training images, depth 3"
        tables.append(Table(title, _COLUMNS, PUBLISHED[options.name]))
    return Report(as_dicts(found), tables)


_COLUMNS = ("method", "features", "accuracy (%)", "seconds")


def _table(found: Sequence[Measurement], depth: int) -> Table:
    lines, compared = [], any(one.disagreement is not None for one in found)
    for (method, width), fits in grouped(found, "method", "n_components").items():
        accuracy, seconds = values(fits, "accuracy").mean(), values(fits, "seconds").min()
        line = [method, f"{width:,}" if width else "-", f"{accuracy:.2f}", f"{seconds:.1f}"]
        if compared:
            apart = [one.disagreement for one in fits if one.disagreement is not None]
            line.append(f"{np.mean(apart):.1f}" if apart else "-")
        lines.append(tuple(line))
    title = f"depth {depth}, {found[0].n_rows:,} training and {found[0].n_test:,} test images"
    return Table(title, (*_COLUMNS, "unlike exact (%)") if compared else _COLUMNS, lines)
