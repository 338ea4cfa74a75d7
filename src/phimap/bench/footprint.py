"""Test accuracy against the bytes and the seconds that features take: ternary, low-precision, Nystroem, Fourier.

Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no performance
loss*, Figures 1, 4 and 10 to 15: a linear model on the features of each method, of more and more components (Figures 3
and 9, along the regularisation, are in `phimap.bench.footprint_path`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench import footprint_path
from phimap.bench.datasets import Dataset, load
from phimap.bench.experiment import Report, Request, Table
from phimap.learn.search.length_scale import median_length_scale

WIDTHS = (128, 256, 512, 1024, 2048, 4096)
_LENGTH_SCALE_ROWS = 1000
# Not a set, but a second experiment on the digits.
_DIGITS, _PATH = "MNIST 7-9", "regularisation path"
_SETS = ("a8a", "ijcnn1", "adult", "magic04", "skin", _DIGITS, _PATH)
#: Linear models: ours, and scikit-learn's by stochastic gradients.
MODELS = ("ridge", "logistic", "svm")
_LOSSES = {"logistic": "log_loss", "svm": "hinge"}
# Penalties among which a fifth of the training rows choose.
_PENALTIES = (1e-6, 1e-5, 1e-4)
# Rows to train on; more change no ranking.
_MOST_ROWS = 20_000

Make = Callable[[Any, int, int], Any]


def _quantized(bits: int) -> Make:
    def make(kernel: Any, width: int, seed: int) -> Any:
        inner = pm.FourierFeatures(kernel, width, projection="gaussian", random_state=seed)
        return pm.QuantizedFeatures(inner, bits, packed=True, random_state=seed)

    return make


def _fourier(projection: str) -> Make:
    return lambda kernel, width, seed: pm.FourierFeatures(kernel, width, projection=projection, random_state=seed)


def _ternary(**options: Any) -> Make:
    return lambda kernel, width, seed: pm.TernaryFeatures(kernel, width, packed=True, random_state=seed, **options)


#: Methods by name: bits a feature, and how the map is made from kernel, width and seed.
METHODS: dict[str, tuple[int, Make]] = {
    "trf": (2, _ternary(sparsity=0.5)),
    "trf-binary": (1, _ternary(sparsity=0.5, levels=2)),
    "trf-relu": (2, lambda kernel, width, seed: _ternary(sparsity=0.5)("relu", width, seed)),
    "lp-rff-1": (1, _quantized(1)),
    "lp-rff-4": (4, _quantized(4)),
    "lp-rff-8": (8, _quantized(8)),
    "nystroem": (32, lambda kernel, width, seed: pm.NystroemFeatures(kernel, width, random_state=seed)),
    "nystroem-rpcholesky": (
        32,
        lambda kernel, width, seed: pm.NystroemFeatures(kernel, width, landmarks="rpcholesky", random_state=seed),
    ),
    "rff": (32, _fourier("gaussian")),
    "orf": (32, _fourier("orthogonal")),
    "ssf": (32, _fourier("ssf")),
    "arccosine": (32, lambda kernel, width, seed: pm.ArcCosineFeatures(1, width, random_state=seed)),
}


@dataclass(frozen=True)
class Row:
    """One draw of one method.

    Attributes
    ----------
    dataset, method, model : str
    n_components, seed : int
    bytes : float
        Of the features of one row.
    seconds : float
        Drawing the map, mapping the training rows and fitting.
    accuracy : float
        On the test rows, in percent.
    error : float
        Mean squared error of the outputs of ridge against targets of -1 and 1 (one-hot for more classes), on the test
        rows; NaN for other models.
    """

    dataset: str
    method: str
    model: str
    n_components: int
    seed: int
    bytes: float
    seconds: float
    accuracy: float
    error: float


def run(
    data: Dataset,
    methods: Sequence[str] = tuple(METHODS),
    *,
    widths: Sequence[int] = WIDTHS,
    repeats: int = 3,
    seed: int = 0,
    most_rows: int = _MOST_ROWS,
    models: Sequence[str] = MODELS,
    advance: Callable[[], object] = lambda: None,
) -> Iterator[Row]:
    """Train linear classifiers on every method's features, Gaussian kernel at the median distance.

    Parameters
    ----------
    data : Dataset
    methods : sequence of str
        Keys of `METHODS`.
    widths : sequence of int
        Numbers of features; Nystroem features are left out where there are fewer training rows.
    repeats : int
        Draws, with seeds ``seed, seed + 1, ...``; each also draws its training rows.
    most_rows : int
        Training and test rows at most.
    models : sequence of str
        Of `MODELS`.
    advance : callable
        Called after each draw of a map.

    Yields
    ------
    Row
    """
    _warm_up(methods)
    for draw in range(seed, seed + repeats):
        rng = np.random.default_rng(draw)
        chosen, tested = (rng.permutation(len(rows))[:most_rows] for rows in (data.X, data.X_test))
        X, X_test = data.X[chosen], data.X_test[tested]
        kernel = pm.kernels.Gaussian(length_scale=median_length_scale(X[:_LENGTH_SCALE_ROWS]))
        for method in methods:
            bits, make = METHODS[method]
            for width in widths:
                for model in models:
                    phi = make(kernel, width, draw)
                    fit = _fit_ridge if model == "ridge" else partial(_fit_gradients, _LOSSES[model])
                    seconds, accuracy, error = fit(phi, draw, X, data.y[chosen], X_test, data.y_test[tested])
                    yield Row(data.name, method, model, width, draw, width * bits / 8, seconds, accuracy, error)
                advance()


def _warm_up(methods: Sequence[str]) -> None:
    """Load what the first fit of each method compiles, so that no draw's time holds it."""
    rows, labels = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32), np.arange(200) % 2
    for method in methods:
        phi = METHODS[method][1](pm.kernels.Gaussian(), 16, 0)
        _fit_ridge(phi, 0, rows, labels, rows, labels)


def _fit_ridge(
    phi: Any, seed: int, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> tuple[float, float, float]:
    """Seconds, accuracy and error of a `KernelClassifier`."""
    start = time.perf_counter()
    model = pm.KernelClassifier(phi, standardize=False, random_state=seed).fit(X, y)
    seconds = time.perf_counter() - start
    outputs = model.decision_function(X_test)
    wanted = model._encode(y_test).reshape(outputs.shape)
    accuracy = 100.0 * float(np.mean(model.predict(X_test) == y_test))
    return seconds, accuracy, float(np.mean(np.square(outputs - wanted)))


def _fit_gradients(
    loss: str, phi: Any, seed: int, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> tuple[float, float, float]:
    """Seconds, accuracy and NaN of scikit-learn's `SGDClassifier`."""
    from sklearn.linear_model import SGDClassifier

    start = time.perf_counter()
    Z = _dense(phi.fit_transform(X))
    # Rows of norm about 1, whatever the method.
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


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Means over draws, one entry for each set, method, model and width."""
    groups: dict[tuple[str, str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.dataset, row.method, row.model, row.n_components), []).append(row)
    return [
        {"dataset": dataset, "method": method, "model": model, "n_components": width, "draws": len(members)}
        | {
            name: float(np.mean([getattr(row, name) for row in members]))
            for name in ("bytes", "seconds", "accuracy", "error")
        }
        for (dataset, method, model, width), members in groups.items()
    ]


def report(request: Request, stages: Stages) -> Report:
    """Measure the sets asked for: means at every width, and a figure of each set and model."""
    methods, repeats = request.chosen(METHODS), request.draws(3)
    widths, names = request.widths or WIDTHS, request.sets or _SETS
    rows: list[Row] = []
    for dataset in [_read(name, request) for name in names if name != _PATH]:
        with stages.stage(dataset.name, len(methods) * len(widths) * repeats) as advance:
            options: dict[str, Any] = {"widths": widths, "repeats": repeats, "seed": request.seed}
            most = request.rows or _MOST_ROWS
            rows += run(dataset, methods, most_rows=most, advance=partial(advance, 1), **options)
    entries = summary(rows)
    groups = list(dict.fromkeys((row.dataset, row.model) for row in rows))
    tables = [_table(entries, *group) for group in groups]
    figures: dict[str, Callable[[Path], None]] = {
        f"footprint_{dataset}_{model}.png".replace(" ", "-"): partial(_figure, entries, dataset, model)
        for dataset, model in groups
    }
    results: list[dict[str, Any]] = [asdict(row) for row in rows]
    if _PATH in names:
        width = max(request.widths) if request.widths else footprint_path.N_COMPONENTS
        repeats = request.draws(5)
        with stages.stage(_PATH, repeats * (1 + 2 * len(footprint_path.SPARSITIES))) as advance:
            found = footprint_path.run(
                _read(_DIGITS, request),
                n_components=width,
                repeats=repeats,
                seed=request.seed,
                advance=partial(advance, 1),
            )
            path = list(found)
        tables.append(footprint_path.table(path, _DIGITS))
        figures["footprint_path.png"] = partial(footprint_path.figure, path)
        results += [asdict(row) for row in path]
    return Report(results, tables, figures)


def _read(name: str, request: Request) -> Dataset:
    if name != _DIGITS:
        return load(name, request.data, request.seed)
    data = load("MNIST", request.data, request.seed)
    kept, kept_test = (np.isin(labels, (7, 9)) for labels in (data.y, data.y_test))
    return replace(
        data,
        name=name,
        X=data.X[kept],
        y=(data.y[kept] == 9).astype(np.intp),
        X_test=data.X_test[kept_test],
        y_test=(data.y_test[kept_test] == 9).astype(np.intp),
    )


def _table(entries: Sequence[dict[str, Any]], dataset: str, model: str) -> Table:
    rows = [
        (
            entry["method"],
            str(entry["n_components"]),
            f"{entry['bytes']:.0f}",
            f"{entry['seconds']:.2f}",
            f"{entry['accuracy']:.2f}",
            f"{entry['error']:.4f}",
        )
        for entry in sorted(entries, key=lambda entry: (entry["bytes"], -entry["accuracy"]))
        if (entry["dataset"], entry["model"]) == (dataset, model)
    ]
    return Table(
        f"{dataset}: {model}, by bytes a row",
        ("method", "features", "bytes", "seconds", "accuracy (%)", "test error"),
        rows,
    )


def _figure(entries: Sequence[dict[str, Any]], dataset: str, model: str, path: Path) -> None:
    from phimap.bench.figures import footprint

    chosen = [entry for entry in entries if (entry["dataset"], entry["model"]) == (dataset, model)]
    footprint(chosen, f"{dataset}, {model}", path)
