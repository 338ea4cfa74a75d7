"""Error of every neural tangent map against its width, depth by depth.

Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Section 5.1 and Figure 2: mean
squared error of the entries of the kernel matrix of MNIST rows, for gradient features, explicit tensor features and
sketched ones. The relative Frobenius error stands beside it, on rows of norm 1 and on centred rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from phimap._progress import Stages
from phimap.bench.datasets import load
from phimap.bench.experiment import Report, Request, Table, mean_and_deviation
from phimap.bench.ntk_methods import METHODS
from phimap.kernels import NTK

DEPTHS = (1, 2, 3, 4, 5)
WIDTHS = (1024, 4096, 8192)
ERROR_ROWS = 1000
#: Relative errors of the authors' code at 8,192 features on rows of MNIST of norm 1, by depth, measured by us.
AUTHORS = {1: "0.033 to 0.048", 3: "0.058 to 0.062"}
# Rows that data-dependent maps may choose their landmarks among.
_FIT_ROWS = 20_000


@dataclass(frozen=True)
class Row:
    """One draw of one method.

    Attributes
    ----------
    dataset : str
    centred : bool
        Whether the mean of the rows was taken from them before they were scaled to norm 1.
    depth : int
    method : str
    width, n_components : int
        Features asked for, and those that the method made of it.
    seed : int
    error, mse : float
        Relative Frobenius error, mean squared error of the entries.
    fit_seconds, seconds : float
        Drawing the map, mapping the rows of the error.
    """

    dataset: str
    centred: bool
    depth: int
    method: str
    width: int
    n_components: int
    seed: int
    error: float
    mse: float
    fit_seconds: float
    seconds: float


def normalised(X: np.ndarray, centre: bool) -> np.ndarray:
    """Rows of norm 1 in float32, after their mean was taken from them if `centre`; zero rows stay."""
    X = X.astype(np.float64)
    X = X - X.mean(axis=0) if centre else X
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return (X / np.where(norms > 0, norms, 1.0)).astype(np.float32)


def run(
    name: str,
    X: np.ndarray,
    methods: Sequence[str],
    *,
    centred: bool = False,
    depths: Sequence[int] = DEPTHS,
    widths: Sequence[int] = WIDTHS,
    n_rows: int = ERROR_ROWS,
    repeats: int = 5,
    seed: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> Iterator[Row]:
    """Measure the methods on one set of rows.

    Parameters
    ----------
    name : str
        For the rows of the result.
    X : ndarray of shape (n, d)
    methods : sequence of str
        Keys of `METHODS`.
    centred : bool
        Take the mean from the rows first.
    depths, widths : sequence of int
    n_rows : int
        Rows of the error; the same for all draws.
    repeats : int
        Draws, with seeds ``seed, seed + 1, ...``.
    advance : callable
        Called after each draw.

    Yields
    ------
    Row
        Widths that a method cannot have are left out.
    """
    X = normalised(X[np.random.default_rng(seed).permutation(len(X))], centred)
    rows = X[:n_rows]
    others = X[n_rows : n_rows + _FIT_ROWS] if len(X) > 2 * n_rows else X
    for depth in depths:
        exact = NTK(depth)(rows.astype(np.float64))
        size = np.linalg.norm(exact)
        for method in methods:
            for width in widths:
                for draw in range(seed, seed + repeats):
                    phi = METHODS[method](depth, width, X.shape[1], draw)
                    start = time.perf_counter()
                    try:
                        phi.fit(others)
                    except ValueError:
                        # Explicit products need a width of their own at least.
                        continue
                    finally:
                        advance()
                    fitted = time.perf_counter()
                    Z = phi.transform(rows)
                    seconds = time.perf_counter() - fitted
                    distance = np.linalg.norm(Z.astype(np.float64) @ Z.T.astype(np.float64) - exact)
                    made = phi.output_width(X.shape[1])
                    figures = float(distance / size), float(distance**2 / exact.size), fitted - start, seconds
                    yield Row(name, centred, depth, method, width, made, draw, *figures)


def report(request: Request, stages: Stages) -> Report:
    """Measure the sets asked for, plain and centred: tables of the relative and of the mean squared error."""
    repeats, methods = request.draws(5), request.chosen(METHODS)
    depths, widths = request.depths or DEPTHS, request.widths or WIDTHS
    loaded = [load(name, request.data, request.seed) for name in request.sets or ("MNIST",)]
    options = {"depths": depths, "widths": widths, "repeats": repeats, "seed": request.seed}
    options["n_rows"] = request.rows or ERROR_ROWS
    rows: list[Row] = []
    for data in loaded:
        for centred in (False, True):
            total = len(methods) * len(depths) * len(widths) * repeats
            with stages.stage(f"{data.name}{', centred' if centred else ''}", total) as advance:
                step = partial(advance, 1)
                rows += run(data.name, data.X, methods, centred=centred, advance=step, **options)
    tables = [
        _table(rows, data.name, centred, depth, widths)
        for data in loaded
        for centred in (False, True)
        for depth in depths
    ]
    return Report([asdict(row) for row in rows], tables)


def _table(rows: Sequence[Row], dataset: str, centred: bool, depth: int, widths: Sequence[int]) -> Table:
    chosen = [row for row in rows if (row.dataset, row.centred, row.depth) == (dataset, centred, depth)]
    lines = []
    for method in dict.fromkeys(row.method for row in chosen):
        cells = []
        for width in widths:
            found = [row for row in chosen if (row.method, row.width) == (method, width)]
            cells.append(mean_and_deviation([row.error for row in found]) if found else "-")
        widest = [row for row in chosen if row.method == method and row.width == max(row.width for row in chosen)]
        cells.append(f"{np.mean([row.mse for row in widest]):.2g}" if widest else "-")
        cells.append(f"{min(row.seconds for row in widest):.2g}" if widest else "-")
        lines.append((method, *cells))
    if dataset == "MNIST" and not centred and depth in AUTHORS:
        known = [AUTHORS[depth] if width == 8192 else "" for width in widths]
        lines.append(("authors' code", *known, "", ""))
    title = f"{dataset}{', centred' if centred else ''}, depth {depth}: relative error"
    return Table(title, ("method", *(f"{width:,}" for width in widths), "MSE, widest", "seconds, widest"), lines)
