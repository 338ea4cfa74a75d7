"""The survey's experiment: error, time and accuracy of every projection against the number of directions.

Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Section 6.1: relative Frobenius error on
1,000 random rows, seconds to make the features, and test accuracy of linear classifiers on them, for s = 2d, ..., 32d
directions, repeated with new draws.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.linear_model import RidgeClassifier
from sklearn.svm import LinearSVC

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import SETS, Dataset, load
from phimap.bench.experiment import Report, Request, Table
from phimap.learn.search.length_scale import median_length_scale
from phimap.projections import REGISTRY

ERROR_ROWS = 1000
MULTIPLES = (2, 4, 8, 16, 32)
# Rows to train the linear classifiers on; more change no ranking and take hours at s = 32 d.
MOST_ROWS = 20_000
_LEVEL = 0.05
#: The projections of the survey's experiment, without LS-RFF, which looks at the data.
SURVEY = ("gaussian", "orthogonal", "sorf", "rom", "fastfood", "qmc", "ssf", "gauss-quadrature")
#: Best methods as published in Table 7; an empty list where no difference was significant.
PUBLISHED = {
    "ijcnn1": (["ssf"], ["sorf", "qmc", "orthogonal"]),
    "EEG": (["ssf"], ["orthogonal"]),
    "magic04": (["ssf"], ["ssf", "orthogonal", "qmc", "rom"]),
    "letter": (["ssf"], ["ssf", "orthogonal"]),
    "skin": (["ssf", "rom"], ["qmc"]),
    "a8a": ([], []),
}


@dataclass(frozen=True)
class Row:
    """One draw of one method.

    Attributes
    ----------
    dataset, projection : str
    n_directions : int
    seed : int
    error : float
        Relative Frobenius error.
    seconds : float
        Drawing the map and mapping the rows of the error.
    ridge, liblinear : float
        Test accuracy in percent; NaN where it was not asked for.
    """

    dataset: str
    projection: str
    n_directions: int
    seed: int
    error: float
    seconds: float
    ridge: float = float("nan")
    liblinear: float = float("nan")


def run(
    data: Dataset,
    projections: Sequence[str],
    *,
    widths: Sequence[int] | None = None,
    repeats: int = 10,
    classify: bool = False,
    most_rows: int = MOST_ROWS,
    seed: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> Iterator[Row]:
    """Measure every projection at every width on one set, Gaussian kernel at the median distance.

    Parameters
    ----------
    data : Dataset
    projections : sequence of str
        Names in `phimap.projections.REGISTRY`.
    widths : sequence of int or None
        Numbers of directions; None is 2, 4, ..., 32 times the number of inputs.
    repeats : int
        Draws, with seeds ``seed, seed + 1, ...``; each also draws its rows for the error.
    classify : bool
        Train ridge regression and liblinear on the features, too.
    most_rows : int
        Rows that they are trained on, and as many to test them.
    advance : callable
        Called after each draw.

    Yields
    ------
    Row
        Widths that a deterministic rule cannot have are left out.
    """
    n, d = data.X.shape
    widths = [multiple * d for multiple in MULTIPLES] if widths is None else widths
    _warm_up(projections)
    for repeat in range(seed, seed + repeats):
        rng = np.random.default_rng(repeat)
        rows = data.X[rng.permutation(n)[:ERROR_ROWS]]
        kernel = pm.kernels.Gaussian(length_scale=median_length_scale(rows))
        exact = kernel(rows)
        for projection in projections:
            for width in widths:
                phi = pm.FourierFeatures(kernel, 2 * width, projection=projection, random_state=repeat)
                start = time.perf_counter()
                try:
                    Z = phi.fit_transform(rows)
                except ValueError:
                    # A rule with a width of its own, or one that needs more directions than dimensions.
                    continue
                finally:
                    advance()
                seconds = time.perf_counter() - start
                signature = getattr(phi, "signature_", None)
                signed = Z if signature is None else Z * signature
                error = float(np.linalg.norm(exact - signed @ Z.T) / np.linalg.norm(exact))
                accuracies = _accuracies(phi, data, most_rows, rng) if classify else {}
                yield Row(data.name, projection, width, repeat, error, seconds, **accuracies)


def _warm_up(projections: Sequence[str]) -> None:
    """Load what the first call of each projection compiles, so that no draw's time holds it."""
    rows = np.zeros((2, 3), np.float32)
    for projection in projections:
        with suppress(ValueError):
            pm.FourierFeatures(n_components=32, projection=projection, random_state=0).fit_transform(rows)


def _accuracies(phi: pm.FourierFeatures, data: Dataset, rows: int, rng: np.random.Generator) -> dict[str, float]:
    """Test accuracies in percent."""
    chosen, tested = (rng.permutation(len(X))[:rows] for X in (data.X, data.X_test))
    Z, Z_test = phi.transform(data.X[chosen]), phi.transform(data.X_test[tested])
    classifiers = {
        "ridge": RidgeClassifier(alpha=1e-3 * len(chosen), solver="cholesky"),
        "liblinear": LinearSVC(C=1.0, dual="auto", max_iter=200, tol=1e-3, random_state=0),
    }
    return {
        name: 100.0 * float(classifier.fit(Z, data.y[chosen]).score(Z_test, data.y_test[tested]))
        for name, classifier in classifiers.items()
    }


def summary(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Means and standard deviations over draws, one entry for each set, projection and width."""
    groups: dict[tuple[str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.dataset, row.projection, row.n_directions), []).append(row)
    entries: list[dict[str, object]] = []
    for (dataset, projection, width), members in groups.items():
        entry: dict[str, object] = {
            "dataset": dataset,
            "projection": projection,
            "n_directions": width,
            "draws": len(members),
        }
        for name in ("error", "seconds", "ridge", "liblinear"):
            values = np.array([asdict(member)[name] for member in members])
            entry[name] = float(values.mean())
            entry[f"{name}_deviation"] = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        entries.append(entry)
    return entries


def best(rows: Sequence[Row], widths: Sequence[int]) -> list[str]:
    """Projections whose error, averaged over these widths, is not significantly above the least (Welch, 5 %).

    Empty where that holds for more than half of them: no significant difference among most, as in Table 7.
    """
    averages = _averages(rows, widths)
    if not averages:
        return []
    first = min(averages, key=lambda name: averages[name].mean())

    def level(name: str) -> bool:
        if name == first or averages[name].size < 2:
            return name == first
        test = stats.ttest_ind(averages[name], averages[first], equal_var=False, alternative="greater")
        return bool(test.pvalue > _LEVEL)  # pyright: ignore[reportAttributeAccessIssue]

    tied = sorted(filter(level, averages), key=lambda name: averages[name].mean())
    return [] if len(tied) > len(averages) / 2 else tied


def _averages(rows: Sequence[Row], widths: Sequence[int]) -> dict[str, np.ndarray]:
    """Error of each draw averaged over the widths, of the projections that were measured at every one of them."""
    errors: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if row.n_directions in widths:
            errors.setdefault(row.projection, {}).setdefault(row.seed, []).append(row.error)
    return {
        name: np.array([np.mean(values) for values in by_seed.values()])
        for name, by_seed in errors.items()
        if all(len(values) == len(widths) for values in by_seed.values())
    }


def report(request: Request, stages: Stages) -> Report:
    """Measure the sets and projections asked for: a table and a figure of each set, and the best of each."""
    repeats = request.draws(10, least=2)
    chosen = list(request.projections or sorted(REGISTRY))
    for projection in chosen:
        if projection not in REGISTRY:
            raise ValueError(f"--projections must be among {', '.join(sorted(REGISTRY))}, got {projection!r}.")
    widths = None if request.widths is None else [max(1, width // 2) for width in sorted(request.widths)]
    # Every set is read before the first is measured: a missing file shows at once.
    names = request.sets or [name for name in SETS if name not in ("adult", "sonar", "digits")]
    loaded = [load(name, request.data, request.seed) for name in names]
    classify = request.name == "classification"
    rows: list[Row] = []
    for dataset in loaded:
        with stages.stage(dataset.name, len(chosen) * len(widths or MULTIPLES) * repeats) as advance:
            rows += run(
                dataset,
                chosen,
                widths=widths,
                repeats=repeats,
                classify=classify,
                most_rows=request.rows or MOST_ROWS,
                seed=request.seed,
                advance=partial(advance, 1),
            )
    entries = summary(rows)
    measures = ("error", "ridge", "liblinear") if classify else ("error",)
    tables = [_table(entries, dataset, measure) for dataset in loaded for measure in measures]
    tables.append(_best_table(rows, loaded))
    figures = {f"{request.name}_{d.name}.png": partial(_figure, entries, d.name) for d in loaded}
    return Report([asdict(row) for row in rows], tables, figures)


_TITLES = {
    "error": "relative error",
    "ridge": "test accuracy, ridge (%)",
    "liblinear": "test accuracy, liblinear (%)",
}


def _table(entries: Sequence[dict[str, Any]], dataset: Dataset, measure: str) -> Table:
    by_key = {(e["projection"], e["n_directions"]): e for e in entries if e["dataset"] == dataset.name}
    widths = sorted({width for _, width in by_key})
    rows = []
    for projection in dict.fromkeys(name for name, _ in by_key):
        cells = []
        for width in widths:
            entry = by_key.get((projection, width))
            cells.append(f"{entry[measure]:.4g} ± {entry[f'{measure}_deviation']:.1g}" if entry else "-")
        rows.append((projection, *cells))
    columns = ("projection", *(f"s = {_width(width, dataset)}" for width in widths))
    return Table(f"{dataset.name}: {_TITLES[measure]}", columns, rows)


def _width(width: int, dataset: Dataset) -> str:
    """A number of directions, as a multiple of d where it is one."""
    multiple, rest = divmod(width, dataset.X.shape[1])
    return f"{width:,}" if rest else f"{multiple}d"


def _best_table(rows: Sequence[Row], loaded: Sequence[Dataset]) -> Table:
    """Table 7 of the survey: best methods by error, ours beside the published."""
    lines = []
    for dataset in loaded:
        of_set = [row for row in rows if row.dataset == dataset.name]
        widths = sorted({row.n_directions for row in of_set})
        for part, chosen in enumerate((widths[:2], widths[-2:])):
            multiples = MULTIPLES[-2:] if part else MULTIPLES[:2]
            as_published = chosen == [multiple * dataset.X.shape[1] for multiple in multiples]
            published = PUBLISHED.get(dataset.name) if as_published else None
            of_survey = [row for row in of_set if row.projection in SURVEY]
            lines.append(
                (
                    "" if part else dataset.name,
                    ", ".join(_width(width, dataset) for width in chosen),
                    "" if published is None else ", ".join(published[part]) or "-",
                    _best_of(of_survey, chosen),
                    _best_of(of_set, chosen),
                )
            )
    columns = ("data set", "directions", "published", "the survey's projections", "all")
    return Table("least error (over that of gaussian), with ties within the noise; - where most tie", columns, lines)


def _best_of(rows: Sequence[Row], widths: Sequence[int]) -> str:
    averages = _averages(rows, widths)
    named = ", ".join(best(rows, widths)) or "-"
    if "gaussian" not in averages:
        return named
    least = min(values.mean() for values in averages.values())
    return f"{named} ({least / averages['gaussian'].mean():.2f})"


def _figure(entries: Sequence[dict[str, Any]], dataset: str, path: Path) -> None:
    from phimap.bench.figures import curves

    curves(entries, dataset, path)
