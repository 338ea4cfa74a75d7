"""Active learning: test accuracy after training on the rows of a greedy design, and on random rows.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 5.4 and Figure 3. Rows of
MNIST are picked by the greedy minimisation of the source's Appendix C. The features estimate the neural tangent kernel
of a network with four layers.

Differences from the source: ridge regression on the same features is fitted to the labels, while the source trains the
network, of width 1,000. There are 10,000 rows to pick from (``--rows``) and 2,048 features (``--features``). The source
has 10,000 features and does not state the number of rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import solve

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import Dataset, load
from phimap.bench.experiment import Finding, Report, ResultTable, mean_and_standard_deviation, measured, spread
from phimap.bench.figures import finish, panels
from phimap.bench.options import BenchOptions

SIZES = (10, 20, 50, 100, 200, 500, 1000)
ROWS, WIDTH, DEPTH = 10_000, 2048, 3
#: Regularisation of the design and of the regression, in units of the mean of the kernel's diagonal.
ALPHA = 1e-3
#: Published result, in words, because Figure 3 is a plot without numbers.
PUBLISHED = (
    "Han et al., Figure 3: greedy above random at every size (a plot without numbers; m = 10,000, a trained network)"
)
_RANDOM_DESIGNS = 10


def run(
    data: Dataset,
    *,
    depth: int = DEPTH,
    width: int = WIDTH,
    n_rows: int = ROWS,
    sizes: Sequence[int] = SIZES,
    draws: Sequence[int] = (0,),
) -> Iterator[dict[str, Any]]:
    """Pick rows greedily and at random, and train on the labels of the first rows picked.

    One greedy design of the largest size is made. Its first rows are the smaller designs. Sizes above the number of
    rows are left out. Each measurement has a `seed` from `draws`, which draws the map and the rows from which the
    design picks. Its `accuracy` is the accuracy on the test rows in percent; for random designs it is the mean of ten
    designs. Its `seconds` is the time of the whole greedy design, including the features, and 0 for random designs.
    """
    for draw in draws:
        rng = np.random.default_rng(draw)
        pool = rng.permutation(len(data.X))[:n_rows]
        X, y = data.X[pool], data.y[pool]
        fitting = [size for size in sizes if size <= len(X)]
        start = time.perf_counter()
        phi = pm.NTKFeatures(depth, width, random_state=draw).fit(X)
        Z, Z_test = phi.transform(X), phi.transform(data.X_test)
        alpha = ALPHA * float(np.square(Z).sum(axis=1).mean())
        greedy = pm.GreedyDesign(None, max(fitting), alpha).select(Z)
        seconds = time.perf_counter() - start
        random = [rng.permutation(len(X)) for _ in range(_RANDOM_DESIGNS)]
        for size in fitting:
            for design, picks, spent in (("greedy", [greedy], seconds), ("random", random, 0.0)):
                found = [_accuracy(Z[rows[:size]], y[rows[:size]], Z_test, data.y_test) for rows in picks]
                case = {"dataset": data.name, "design": design, "n_labels": size, "n_rows": len(X)}
                case |= {"n_components": width, "depth": depth, "seed": draw}
                yield case | {"accuracy": 100.0 * float(np.mean(found)), "seconds": spent}


def _accuracy(Z: np.ndarray, y: np.ndarray, Z_test: np.ndarray, y_test: np.ndarray) -> float:
    classes = np.unique(y)
    one_hot = (y[:, None] == classes).astype(np.float64)
    mean = one_hot.mean(axis=0)
    K = (Z @ Z.T).astype(np.float64)
    K.flat[:: len(K) + 1] += ALPHA * float(K.trace()) / len(K)
    # There are fewer labels than features, so K is the smaller system. Test rows are multiplied by weights of the
    # features, because their inner products with all labelled rows take far longer.
    weights = Z.T @ solve(K, one_hot - mean, assume_a="pos").astype(Z.dtype)
    scores = Z_test @ weights + mean
    return float((classes[scores.argmax(axis=1)] == y_test).mean())


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure both designs at every size, and make a table and a figure for each data set."""
    draws = options.seeds(3)
    depth, width = (options.depths or (DEPTH,))[0], (options.widths or (WIDTH,))[0]
    loaded = [load(name, options.data, options.seed) for name in options.sets or ("MNIST",)]
    asked = {"depth": depth, "width": width, "n_rows": options.rows or ROWS, "draws": draws}
    found = pd.concat([measured(stages, data.name, run(data, **asked)) for data in loaded], ignore_index=True)
    by_set = dict(list(found.groupby("dataset", sort=False)))
    return Report(
        found,
        [_table(name, part) for name, part in by_set.items()],
        {f"active-learning_{name}.png": partial(_figure, name, part) for name, part in by_set.items()},
        _findings(by_set["MNIST"]) if "MNIST" in by_set else (),
    )


def _findings(found: pd.DataFrame) -> list[Finding]:
    """Return the accuracy of both designs on MNIST at every size."""
    one, draws = found.iloc[0], found["seed"].nunique()
    size = f"{one.n_rows:,} rows to pick from, m = {one.n_components:,}, depth {one.depth}, {draws} draws, ridge"
    asked = "rows not stated, m = 10,000, four layers, a trained network of width 1,000"
    quantity, published = "accuracy on MNIST (%), greedy; random", "greedy above random (a plot)"
    return [
        Finding(
            "Han et al. (2021)",
            f"Figure 3, {labels:,} labels",
            quantity,
            size,
            f"{ours:.1f}; {rand:.1f}",
            published,
            asked,
        )
        for labels, ours, rand in spread(found, "n_labels", "design", "accuracy").itertuples(index=False)
    ]


def _table(dataset: str, found: pd.DataFrame) -> ResultTable:
    means = spread(found, "n_labels", "design", "accuracy")
    frame = spread(found, "n_labels", "design", "accuracy", mean_and_standard_deviation, "{} (%)")
    frame = frame.rename(columns={"n_labels": "labels"}).assign(gain=means["greedy"] - means["random"])
    one, seconds = found.iloc[0], found.loc[found["design"] == "greedy", "seconds"].median()
    title = f"{dataset}: {one.n_rows:,} rows to pick from, NTK of depth {one.depth}, {one.n_components:,} features"
    title += f"; a greedy design takes {seconds:.1f} s"
    title += f"\n{PUBLISHED}" if dataset == "MNIST" else ""
    return ResultTable(title, frame, {"labels": ",", "gain": "+.2f"})


def _figure(dataset: str, found: pd.DataFrame, path: Path) -> None:
    """Plot the accuracy against the number of labels: means and ranges over the draws."""
    figure, ((axis,),) = panels(6.4, 4.2)
    for design, part in found.groupby("design"):
        over = part.groupby("n_labels")["accuracy"].agg(["mean", "min", "max"])
        (line,) = axis.plot(over.index, over["mean"], marker="o", markersize=3, label=design)
        axis.fill_between(over.index, over["min"], over["max"], color=line.get_color(), alpha=0.15, linewidth=0)
    axis.set(xscale="log", xlabel="labels", ylabel="test accuracy (%)", title=f"{dataset}: active learning")
    axis.legend(frameon=False)
    finish(figure, [axis], path)
