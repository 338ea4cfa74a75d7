"""Accuracy of convolutional tangent maps on images against their number of features and their time.

Zandieh, Han, Avron, Shoham, Kim, Shin (2021), *Scaling neural tangent kernels via sketching and random features*,
Section 5.2, Table 1 and Figure 2b: depth 3, global average pooling, ridge regression on one-hot targets. The maps are
compared with gradient features, a trained network and, on a subset, the exact kernel.

The publication has all 50,000 training images and up to 16,384 features: ``--rows 50000 --features 4096,8192,16384``.
The default is 2,000 images and up to 4,096 features. Images are read from `cifar10_full.npz`, which
`benchmarks/data_files.py` makes from the official archive. Without this file, lossy JPEG copies are read, and the
results state so.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import locate
from phimap.bench.exact_ridge import ALPHAS, kernel_predictions
from phimap.bench.experiment import Finding, Report, ResultTable, accuracy_table, measured
from phimap.bench.figures import accuracies
from phimap.bench.images import Images, load_cifar10, load_images
from phimap.bench.network import CHANNELS, network_labels
from phimap.bench.options import BenchOptions
from phimap.features import FeatureMap

DEPTH, FILTER_SIZE = 3, 3
WIDTHS = (1024, 4096)
METHODS = ("sketch", "gradient", "cnn", "exact")
#: Methods that are fitted by default. The exact kernel is not included, because it takes one core an hour for 500
#: images.
CHOSEN = ("sketch", "gradient")
#: Table 1 of Zandieh et al. (2021): method, number of features, accuracy in percent, and seconds on one RTX 2080, for
#: all 50,000 lossless training images of CIFAR-10. The values of the exact kernel and of the network are from Arora et
#: al. (2019).
PUBLISHED = (
    ("sketch", 4096, 67.58, "780"),
    ("sketch", 8192, 70.46, "1,870"),
    ("sketch", 16384, 72.06, "5,160"),
    ("gradient", 9328, 62.49, "300"),
    ("gradient", 17040, 62.57, "360"),
    ("gradient", 42816, 65.21, "580"),
    ("cnn", 0, 63.81, ""),
    ("exact", 0, 70.47, "> 1,000,000"),
)
_NAMES = {"sketch": "CNTKSketch", "gradient": "GradRF", "cnn": "CNN", "exact": "exact CNTK"}
_PAPER = "Zandieh et al. (2021)"
# Maximum number of training images, and of test images, of the exact kernel. Its values at the resulting 375,000 pairs
# take one core an hour at 32 x 32 pixels.
EXACT_ROWS = 500
# Default number of training images. Larger sets take hours on a CPU.
_MOST_ROWS = 2000


def run(
    images: Images,
    methods: Sequence[str],
    *,
    depth: int = DEPTH,
    widths: Sequence[int] = WIDTHS,
    draws: Sequence[int] = (0,),
    device: str = "auto",
    exact_rows: int = EXACT_ROWS,
) -> Iterator[dict[str, Any]]:
    """Fit every method for every number of features in `widths` and every seed in `draws`.

    The exact kernel gets at most `exact_rows` training images and as many test images. If the exact kernel is among the
    methods, the other methods are fitted to these images as well. `device` is a parameter of `phimap.KernelClassifier`.

    In a measurement, `disagreement` is the percentage of test images whose predicted label differs from the prediction
    of the exact kernel; None if the exact kernel was not fitted to the same images. `n_components` is 0 for the exact
    kernel and for the network.
    """
    sizes = {(len(images.X), len(images.X_test))}
    few, exact = images, None
    if "exact" in methods:
        few = images.first(exact_rows)
        start = time.perf_counter()
        exact = _exact_labels(few, depth)
        yield _measurement("exact", few, 0, 0, exact, start, None)
        sizes.add((len(few.X), len(few.X_test)))
    for n, t in sorted(sizes):
        part = images.first(n, t)
        same = exact if (n, t) == (len(few.X), len(few.X_test)) else None
        for draw in draws if "cnn" in methods else ():
            start = time.perf_counter()
            labels = network_labels(part.X, part.y, part.X_test, depth=depth, filter_size=FILTER_SIZE, seed=draw)
            yield _measurement("cnn", part, 0, draw, labels, start, same)
        maps = [method for method in methods if method in ("sketch", "gradient")]
        for method, width, draw in product(maps, widths, draws):
            phi = feature_map(method, depth, width, draw)
            start = time.perf_counter()
            model = pm.KernelClassifier(phi, standardize=False, device=device, random_state=draw)
            labels = model.fit(part.X, part.y).predict(part.X_test)
            yield _measurement(method, part, model.feature_map_.record_.n_components, draw, labels, start, same)


def feature_map(method: str, depth: int, width: int, seed: int) -> FeatureMap:
    """Make the map of a method, with about `width` features."""
    if method == "sketch":
        return pm.CNTKSketch(depth, FILTER_SIZE, width, random_state=seed)
    channels = max(1, round((width / (depth - 1)) ** 0.5 / FILTER_SIZE))
    return pm.CNTKGradientFeatures(depth, FILTER_SIZE, channels, random_state=seed)


def _exact_labels(images: Images, depth: int) -> np.ndarray:
    """Labels predicted by exact kernel ridge regression; alpha minimises the error on a held-out tenth."""
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
    method: str, images: Images, width: int, seed: int, labels: np.ndarray, start: float, exact: np.ndarray | None
) -> dict[str, Any]:
    seconds = time.perf_counter() - start
    case = {
        "method": method,
        "n_rows": len(images.X),
        "n_test": len(images.X_test),
        "n_components": width,
        "seed": seed,
    }
    accuracy = 100.0 * float((labels == images.y_test).mean())
    disagreement = None if exact is None else 100.0 * float((labels != exact).mean())
    return case | {"accuracy": accuracy, "seconds": seconds, "disagreement": disagreement}


def report(options: BenchOptions, stages: Stages) -> Report:
    """Fit the chosen methods, and make tables of our and the published accuracies and seconds."""
    draws, methods = options.seeds(1), options.chosen(METHODS) if options.methods else list(CHOSEN)
    n = options.rows or _MOST_ROWS
    if options.name == "cntk-cifar10":
        images = load_cifar10(options.data, n, n, options.seed)
    else:
        images = load_images(locate("mnist.npz", options.data), n, n, "MNIST")
    depth, widths = (options.depths or (DEPTH,))[0], options.widths or WIDTHS
    found = measured(stages, options.name, run(images, methods, depth=depth, widths=widths, draws=draws))
    tables = []
    for (n_rows, n_test), part in found.groupby(["n_rows", "n_test"]):
        title = f"{images.origin}, depth {depth}, {n_rows:,} training and {n_test:,} test images"
        tables.append(accuracy_table(title, part, seconds=".1f"))
    findings: list[Finding] = []
    if options.name == "cntk-cifar10":
        title = "published: Zandieh et al. 2021, Table 1, 50,000 training images, depth 3"
        frame = pd.DataFrame(PUBLISHED, columns=["method", "features", "accuracy (%)", "seconds"])
        frame = frame.replace({"features": 0}, pd.NA)
        tables.append(ResultTable(title, frame, {"features": ",", "accuracy (%)": ".2f"}))
        findings = _findings(found, images.origin) if depth == DEPTH else []
    most = found["n_rows"].max()
    title = f"{images.origin}: {most:,} training images, depth {depth}"
    figures = {f"{options.name}.png": partial(accuracies, title, found[found["n_rows"] == most])}
    return Report(found, tables, figures, findings)


def _findings(found: pd.DataFrame, origin: str) -> list[Finding]:
    """Return our accuracies and Table 1's at the same width; for gradient features, at the nearest width."""
    findings = []
    for (method, width, n_rows), fits in found.groupby(["method", "n_components", "n_rows"], sort=False):
        known = {
            one: f"{accuracy:.2f}, {seconds or '-'}" for name, one, accuracy, seconds in PUBLISHED if name == method
        }
        published = known.get(width, "-")
        if method == "gradient":
            nearest = min(known, key=lambda one: abs(np.log(one / width)))
            published = known[nearest] if nearest == width else f"{known[nearest]} ({nearest:,} features)"
        features = {"sketch": f", m = {width:,}", "gradient": f", m = {width:,}", "cnn": f", {CHANNELS} channels"}
        size = f"{n_rows:,} training and {fits['n_test'].iloc[0]:,} test images, {origin}"
        copied = method in ("cnn", "exact")
        place = f"Table 1{'' if copied else ' and Figure 2b'}, {_NAMES[method]}{features.get(method, '')}"
        theirs = "50,000 training and 10,000 test images" + (", copied from Arora et al. (2019)" if copied else "")
        ours = f"{fits['accuracy'].mean():.2f}, {fits['seconds'].min():,.0f}"
        findings.append(Finding(_PAPER, place, "accuracy (%), seconds", size, ours, published, theirs))
    return findings
