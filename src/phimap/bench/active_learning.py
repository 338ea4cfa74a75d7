"""Active learning: labels of a greedy design against labels of random rows.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 5.4 and Figure 3: rows of
MNIST are picked by the greedy minimisation of their Appendix C on features of the neural tangent kernel of a network of
four layers.

What differs: the labels teach ridge regression on the same features, where the source trains the network; 10,000 rows
to pick from and 2,048 features, where the source has 10,000 features and does not state the rows (``--rows`` and
``--features`` change both).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import Dataset, load
from phimap.bench.exact_ridge import feature_predictions
from phimap.bench.experiment import (
    Finding,
    Report,
    Table,
    as_dicts,
    having,
    mean_and_standard_deviation,
    measured,
    values,
)
from phimap.bench.figures import panels, save
from phimap.bench.options import BenchOptions

SIZES = (10, 20, 50, 100, 200, 500, 1000)
ROWS, WIDTH, DEPTH = 10_000, 2048, 3
#: Regularisation of the design and of the regression, in units of the mean of the kernel's diagonal.
ALPHA = 1e-3
#: Figure 3 is a plot, and the text states no number of it.
PUBLISHED = (
    "Han et al., Figure 3: greedy above random at every size (a plot without numbers; m = 10,000, a trained network)"
)
_RANDOM_DESIGNS = 10


@dataclass(frozen=True)
class Measurement:
    """One design of one size.

    Attributes
    ----------
    dataset : str
    design : str
        ``"greedy"`` or ``"random"``.
    n_labels, n_rows, n_components, depth, seed : int
        `seed` draws the rows to pick from and the map.
    accuracy : float
        On the test rows, in percent; for random designs the mean of ten.
    seconds : float
        Of the whole greedy design, features included; 0 for random ones.
    """

    dataset: str
    design: str
    n_labels: int
    n_rows: int
    n_components: int
    depth: int
    seed: int
    accuracy: float
    seconds: float


def run(
    data: Dataset,
    *,
    depth: int = DEPTH,
    width: int = WIDTH,
    n_rows: int = ROWS,
    sizes: Sequence[int] = SIZES,
    draws: Sequence[int] = (0,),
) -> Iterator[Measurement]:
    """Pick rows greedily and at random, and learn from the labels of the first picks.

    A greedy design of fewer rows is the beginning of a larger one. Sizes beyond the rows are left out.
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
                accuracy = 100.0 * float(np.mean(found))
                yield Measurement(data.name, design, size, len(X), width, depth, draw, accuracy, spent)


def _accuracy(Z: np.ndarray, y: np.ndarray, Z_test: np.ndarray, y_test: np.ndarray) -> float:
    classes = np.unique(y)
    one_hot = (y[:, None] == classes).astype(np.float64)
    (scores,) = feature_predictions(Z, one_hot, Z_test, (ALPHA,))
    return float((classes[scores.argmax(axis=1)] == y_test).mean())


def report(options: BenchOptions, stages: Stages) -> Report:
    """Both designs at every size: a table and a figure of each set."""
    draws = options.seeds(3)
    depth, width = (options.depths or (DEPTH,))[0], (options.widths or (WIDTH,))[0]
    loaded = [load(name, options.data, options.seed) for name in options.sets or ("MNIST",)]
    found: list[Measurement] = []
    for data in loaded:
        designs = run(data, depth=depth, width=width, n_rows=options.rows or ROWS, draws=draws)
        found += measured(stages, data.name, designs)
    by_set = {data.name: having(found, dataset=data.name) for data in loaded}
    figures = {f"active-learning_{name}.png": partial(_figure, name, part) for name, part in by_set.items()}
    tables = [_table(name, part) for name, part in by_set.items()]
    return Report(as_dicts(found), tables, figures, _findings(by_set.get("MNIST", ())))


def _findings(found: Sequence[Measurement]) -> list[Finding]:
    """Accuracy of both designs on MNIST at every size."""
    findings = []
    for size in sorted({one.n_labels for one in found}):
        part = having(found, n_labels=size)
        greedy, random = (values(having(part, design=design), "accuracy").mean() for design in ("greedy", "random"))
        run = f"{part[0].n_rows:,} rows to pick from, m = {part[0].n_components:,}, depth {part[0].depth}"
        run += f", {len({one.seed for one in part})} draws (paper: rows not stated, m = 10,000)"
        place = f"Figure 3, {size:,} labels"
        words = f"{greedy:.1f}; {random:.1f}"
        quantity = "accuracy on MNIST (%), greedy; random"
        findings.append(Finding("Han et al. (2021)", place, quantity, run, words, "greedy above random (a plot)"))
    return findings


def _table(dataset: str, found: Sequence[Measurement]) -> Table:
    lines = []
    for size in sorted({one.n_labels for one in found}):
        greedy, random = (
            values(having(found, n_labels=size, design=design), "accuracy") for design in ("greedy", "random")
        )
        gap = f"{greedy.mean() - random.mean():+.2f}"
        lines.append(
            (f"{size:,}", mean_and_standard_deviation(greedy), mean_and_standard_deviation(random), gap),
        )
    one = found[0]
    seconds = np.median(values(having(found, design="greedy"), "seconds"))
    title = f"{dataset}: {one.n_rows:,} rows to pick from, NTK of depth {one.depth}, {one.n_components:,} features"
    title += f"; a greedy design takes {seconds:.1f} s"
    if dataset == "MNIST":
        title += f"\n{PUBLISHED}"
    return Table(title, ("labels", "greedy (%)", "random (%)", "gain"), lines)


def _figure(dataset: str, found: Sequence[Measurement], path: Path) -> None:
    """Accuracy against labels, means and ranges over the draws."""
    figure, ((axis,),) = panels(6.4, 4.2)
    sizes = sorted({one.n_labels for one in found})
    for design in ("greedy", "random"):
        accuracies = [values(having(found, design=design, n_labels=size), "accuracy") for size in sizes]
        (line,) = axis.plot(sizes, [part.mean() for part in accuracies], marker="o", markersize=3, label=design)
        low, high = [part.min() for part in accuracies], [part.max() for part in accuracies]
        axis.fill_between(sizes, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axis.set(xscale="log", xlabel="labels", ylabel="test accuracy (%)", title=f"{dataset}: active learning")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False)
    save(figure, path)
