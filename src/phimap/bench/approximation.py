"""The survey's experiment: error, time and accuracy of every projection against the number of directions.

Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Section 6.1: relative Frobenius error on
1,000 random rows, seconds to make the features, and test accuracy of linear classifiers on the features. They are
measured for s = 2d, ..., 32d directions and several draws, for the Gaussian kernel, the arc-cosine kernels of order 0
and 1, and a polynomial kernel. Ridge is tuned by its leave-one-out error, liblinear by cross-validation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import Dataset, load
from phimap.bench.experiment import Finding, Report, ResultTable, measured, spread
from phimap.bench.figures import curves, finish, mark_widths, panels, plot_curves, styles
from phimap.bench.options import BenchOptions
from phimap.features import FeatureMap
from phimap.features.power_series.powers import METHODS as POWERS
from phimap.kernels import Kernel
from phimap.learn.search.families import median_length_scale
from phimap.projections import REGISTRY

ERROR_ROWS = 1000
MULTIPLES = (2, 4, 8, 16, 32)
# Maximum number of training rows of the linear classifiers. With more rows the ranking is the same, and a fit takes
# hours at s = 32 d.
MOST_ROWS = 20_000
# Parameters that are tried: alpha of ridge regression divided by the number of rows, and C of liblinear. C is chosen by
# cross-validation with `_FOLDS` folds on at most `_TUNING_ROWS` rows.
_ALPHAS = tuple(10.0**k for k in range(-6, 1))
_COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
_FOLDS, _TUNING_ROWS = 5, 4000
# Significance level of the differences between projections.
_LEVEL = 0.05
_PAPER = "Liu et al. (2021)"
#: Name of LS-RFF, which is measured only on request. Its map depends on the data, and is fitted to the rows on which
#: the error is measured.
LEVERAGE = "leverage"
#: Projections in the survey's experiment, without LS-RFF.
SURVEY = ("gaussian", "orthogonal", "sorf", "rom", "fastfood", "qmc", "ssf", "gauss-quadrature")
#: Best methods in Table 7 of the survey by data set, first for small widths, then for large ones. An empty list means
#: that no method is significantly better.
PUBLISHED = {
    "ijcnn1": (["ssf"], ["sorf", "qmc", "orthogonal"]),
    "EEG": (["ssf"], ["orthogonal"]),
    "magic04": (["ssf"], ["ssf", "orthogonal", "qmc", "rom"]),
    "letter": (["ssf"], ["ssf", "orthogonal"]),
    "skin": (["ssf", "rom"], ["qmc"]),
    "a8a": ([], []),
}
#: Best methods on MNIST in Figure 4(a), according to Section 6.2.2, over all widths.
PUBLISHED_IMAGES = {"MNIST": ["orthogonal", "ssf"]}
#: Published numbers of training rows, from Table 6.
PUBLISHED_ROWS = {
    "ijcnn1": 49_990,
    "EEG": 7490,
    "magic04": 9510,
    "letter": 12_000,
    "skin": 122_529,
    "a8a": 22_696,
    "MNIST": 60_000,
}
# Names of the measured quantities in figures. In tables a prefix is added.
_AXES = {
    "error": "relative error",
    "seconds": "seconds",
    "ridge": "accuracy, ridge (%)",
    "liblinear": "accuracy, liblinear (%)",
}
_PREFIX = {"ridge": "test ", "liblinear": "test "}
_LOGARITHMIC = ("error", "seconds")


@dataclass(frozen=True)
class Family:
    """A kernel, its methods, and a function that makes a feature map.

    Attributes
    ----------
    kernel : callable
        ``kernel(rows)`` gives the kernel, whose scale is determined by the rows.
    methods : sequence of str
    make : callable
        ``make(kernel, method, n_directions, seed)`` gives an unfitted map.
    """

    kernel: Callable[[np.ndarray], Kernel]
    methods: Sequence[str]
    make: Callable[[Any, str, int, int], FeatureMap]


def _fourier(kernel: Any, method: str, n_directions: int, seed: int) -> FeatureMap:
    if method == LEVERAGE:
        return pm.LeverageFeatures(kernel, 2 * n_directions, random_state=seed)
    return pm.FourierFeatures(kernel, 2 * n_directions, projection=method, random_state=seed)


def _arc_cosine(kernel: Any, method: str, n_directions: int, seed: int) -> FeatureMap:
    return pm.ArcCosineFeatures(kernel.order, n_directions, projection=method, random_state=seed)


def _polynomial(kernel: Any, method: str, n_directions: int, seed: int) -> FeatureMap:
    return pm.DotProductFeatures(kernel, 2 * n_directions, method=method, random_state=seed)


#: Families by the name of the kernel. The polynomial kernel is ``(1 + <x, y> / d)^2``.
FAMILIES = {
    "gaussian": Family(lambda rows: pm.kernels.Gaussian(median_length_scale(rows)), sorted(REGISTRY), _fourier),
    "arccosine0": Family(lambda rows: pm.kernels.ArcCosine(0), sorted(REGISTRY), _arc_cosine),
    "arccosine1": Family(lambda rows: pm.kernels.ArcCosine(1), sorted(REGISTRY), _arc_cosine),
    "polynomial": Family(lambda rows: pm.kernels.Polynomial(2, 1 / rows.shape[1]), sorted(POWERS), _polynomial),
}


def run(
    data: Dataset,
    projections: Sequence[str],
    *,
    widths: Sequence[int] | None = None,
    draws: Sequence[int] = range(10),
    classify: bool = False,
    most_rows: int = MOST_ROWS,
    family: str = "gaussian",
) -> Iterator[dict[str, Any]]:
    """Measure every projection at every width on one set, by default for the Gaussian kernel at the median distance.

    Parameters
    ----------
    data : Dataset
    projections : sequence of str
        Methods of the family. For all kernels except the polynomial kernel they are names in
        `phimap.projections.REGISTRY`.
    widths : sequence of int or None
        Numbers of directions; None means 2, 4, ..., 32 times the number of columns. Widths that a method does not
        support are left out.
    draws : sequence of int
        Seeds of the map and of the rows on which the error is measured.
    classify : bool
        Also train ridge regression and liblinear on the features.
    most_rows : int
        Maximum number of training rows of the classifiers, and maximum number of their test rows.
    family : str, default="gaussian"
        A key of `FAMILIES`.

    Yields
    ------
    dict
        One measurement. `seconds` is the time of drawing the map and of mapping the rows on which the error is
        measured. `ridge` and `liblinear` are test accuracies in percent, NaN unless `classify`.
    """
    n, d = data.X.shape
    widths = [multiple * d for multiple in MULTIPLES] if widths is None else widths
    of_kernel = FAMILIES[family]
    _warm_up(of_kernel, projections)
    for repeat in draws:
        rng = np.random.default_rng(repeat)
        rows = data.X[rng.permutation(n)[:ERROR_ROWS]]
        kernel = of_kernel.kernel(rows)
        exact = kernel(rows)
        for projection, width in product(projections, widths):
            start = time.perf_counter()
            try:
                phi = of_kernel.make(kernel, projection, width, repeat)
                Z = phi.fit_transform(rows)
            except ValueError:
                # Either the projection does not support this width, or the kernel has no such map.
                continue
            seconds = time.perf_counter() - start
            signature = getattr(phi, "signature_", None)
            signed = Z if signature is None else Z * signature
            error = float(np.linalg.norm(exact - signed @ Z.T) / np.linalg.norm(exact))
            accuracies = _accuracies(phi, data, most_rows, rng) if classify else dict.fromkeys(_PREFIX, float("nan"))
            row = {"dataset": data.name, "projection": projection, "n_directions": width, "seed": repeat}
            yield row | {"error": error, "seconds": seconds} | accuracies | {"kernel": family}


def _warm_up(family: Family, projections: Sequence[str]) -> None:
    """Call each method once, so that no measured time includes compilation."""
    rows = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    kernel = family.kernel(rows)
    for projection in projections:
        with suppress(ValueError):
            family.make(kernel, projection, 16, 0).fit_transform(rows)


def _accuracies(phi: FeatureMap, data: Dataset, rows: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the test accuracies of ridge and liblinear in percent."""
    chosen, tested = (rng.permutation(len(X))[:rows] for X in (data.X, data.X_test))
    Z, Z_test, y = phi.transform(data.X[chosen]), phi.transform(data.X_test[tested]), data.y[chosen]
    linear = LinearSVC(dual="auto", max_iter=200, tol=1e-3, random_state=0)
    with catch_warnings(action="ignore", category=ConvergenceWarning):
        tuned = GridSearchCV(linear, {"C": _COSTS}, cv=_FOLDS).fit(Z[:_TUNING_ROWS], y[:_TUNING_ROWS])
        classifiers = {
            "ridge": RidgeClassifierCV([alpha * len(chosen) for alpha in _ALPHAS]).fit(Z, y),
            "liblinear": linear.set_params(**tuned.best_params_).fit(Z, y),
        }
    return {
        name: 100.0 * float(classifier.score(Z_test, data.y_test[tested])) for name, classifier in classifiers.items()
    }


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the chosen sets, kernels and projections; return tables, figures and the best projections of each set."""
    draws = options.seeds(10, least=2)
    kernels = list(options.kernels or ("gaussian",))
    for kernel in kernels:
        if kernel not in FAMILIES:
            raise ValueError(f"--kernels must be among {', '.join(FAMILIES)}, got {kernel!r}.")
    methods = {kernel: _methods(kernel, options.projections) for kernel in kernels}
    widths = None if options.widths is None else [max(1, width // 2) for width in sorted(options.widths)]
    # All sets are read before the first is measured, so that a missing file is reported at once.
    loaded = [load(name, options.data, options.seed) for name in options.sets or [*PUBLISHED, "MNIST"]]
    classify = options.name == "classification"
    asked: dict[str, Any] = {"widths": widths, "draws": draws, "classify": classify}
    measures = ("error", "ridge", "liblinear") if classify else ("error",)
    parts, tables, figures, findings = [], [], {}, []
    for kernel in kernels:
        total = len(methods[kernel]) * len(widths or MULTIPLES) * len(draws)
        by_set = []
        for data in loaded:
            fits = run(data, methods[kernel], most_rows=options.rows or MOST_ROWS, family=kernel, **asked)
            found = measured(stages, f"{data.name}, {kernel}", fits, total)
            by_set.append((data, found))
            tables += [_table(found, data, kernel, measure) for measure in measures]
            figures[f"{options.name}_{data.name}_{kernel}.png"] = partial(_figure, found, data.name, kernel)
            if classify:
                findings += _accuracy_findings(found, data, kernel, min(len(data.X), options.rows or MOST_ROWS))
            else:
                findings += _error_findings(found, data, kernel)
            parts.append(found)
        tables.append(_best_table(by_set, kernel))
    return Report(pd.concat(parts, ignore_index=True), tables, figures, findings)


def _methods(kernel: str, asked: Sequence[str] | None) -> list[str]:
    methods = FAMILIES[kernel].methods
    known = [*methods, LEVERAGE] if kernel == "gaussian" else methods
    for method in asked or ():
        if method not in known:
            raise ValueError(f"--projections must be among {', '.join(known)} for {kernel}, got {method!r}.")
    return list(asked or methods)


def _place(dataset: str, kernel: str) -> str:
    """Return the section, figure or table of the survey that reports an error.

    For kernels other than the Gaussian, Section 6.1 refers to the survey's appendix.
    """
    if kernel != "gaussian":
        return f"Section 6.1, {kernel}, {dataset}"
    if dataset in PUBLISHED_IMAGES:
        return f"Figure 4(a), {dataset}"
    return f"Table 7, {dataset}" if dataset in PUBLISHED else f"like Table 7, {dataset}"


def _error_findings(found: pd.DataFrame, data: Dataset, kernel: str) -> Iterator[Finding]:
    """Yield the best projections of a set and the published ones, for small and for large widths."""
    if found.empty:
        return
    size = f"{min(ERROR_ROWS, len(data.X)):,} rows, {found['seed'].nunique()} draws"
    quantity = "least error, its ratio to independent draws" if kernel != "polynomial" else "least error"
    for chosen, published in _regimes(found, data, kernel):
        place = f"{_place(data.name, kernel)}, s = {', '.join(_width(width, data) for width in chosen)}"
        ours = _best_of(found, chosen)
        if kernel == "gaussian":
            ours = f"{_best_of(found[found['projection'].isin(SURVEY)], chosen)}; of all {ours}"
        known, theirs = "-", "-"
        if published is not None:
            known, theirs = ", ".join(published) or "no significant difference of most", "1,000 rows, 10 draws"
        if data.name in PUBLISHED_IMAGES and published is not None:
            theirs += ", s = 1,000 to 10,000, length scale by cross-validation"
        yield Finding(_PAPER, place, quantity, size, ours, known, theirs)


def _accuracy_findings(found: pd.DataFrame, data: Dataset, kernel: str, n_rows: int) -> Iterator[Finding]:
    """Yield the accuracies of the worst and the best method at the largest width."""
    width, draws = found["n_directions"].max(), found["seed"].nunique()
    means = found[found["n_directions"] == width].groupby("projection", sort=False)[["ridge", "liblinear"]].mean()
    # Section 6.2 is about the Gaussian kernel. The results for the other kernels are in the survey's appendix.
    place, published = f"Section 6.1, {kernel}, {data.name}", ()
    if kernel == "gaussian" and data.name in PUBLISHED_ROWS:
        place = f"Section 6.2{' and Figure 4(a)' * (data.name in PUBLISHED_IMAGES)}, {data.name}"
        published = "most methods alike", f"{PUBLISHED_ROWS[data.name]:,} training rows, 10 draws"
    for measure, values in means.items():
        yield Finding(
            _PAPER,
            f"{place}, {measure}",
            "test accuracy, least to best of the methods (%)",
            f"{n_rows:,} training rows, {width:,} directions, {draws} draws",
            f"{values.min():.1f} ({values.idxmin()}) to {values.max():.1f} ({values.idxmax()})",
            *published,
        )


def best(found: pd.DataFrame, widths: Sequence[int]) -> list[str]:
    """Return projections whose mean error over these widths is not significantly above the least (Welch's test, 5 %).

    As in Table 7, the result is empty if more than half of the projections qualify.
    """
    averages = _averages(found, widths)
    if averages.empty:
        return []
    means = averages.mean().sort_values(kind="stable")

    def ties(name: str) -> bool:
        if name == means.index[0] or len(averages) < 2:
            return name == means.index[0]
        test = stats.ttest_ind(averages[name], averages[means.index[0]], equal_var=False, alternative="greater")
        return bool(test.pvalue > _LEVEL)  # pyright: ignore[reportAttributeAccessIssue]

    tied = list(filter(ties, means.index))
    return [] if len(tied) > len(means) / 2 else tied


def _averages(found: pd.DataFrame, widths: Sequence[int]) -> pd.DataFrame:
    """Errors averaged over the widths: one row per draw, and one column per projection with results at all widths."""
    if found.empty:
        return pd.DataFrame()
    errors = found[found["n_directions"].isin(widths)].groupby(["seed", "projection"])["error"]
    return errors.mean().where(errors.size() == len(widths)).unstack().dropna(axis=1)


def _table(found: pd.DataFrame, data: Dataset, kernel: str, measure: str) -> ResultTable:
    def cell(values: pd.Series) -> str:
        return f"{values.mean():.4g} ± {values.std() if len(values) > 1 else 0:.1g}"

    frame = spread(found, "projection", "n_directions", measure, cell)
    frame.columns = ["projection", *(f"s = {_width(int(width), data)}" for width in frame.columns[1:])]
    return ResultTable(f"{data.name}, {kernel}: {_PREFIX.get(measure, '')}{_AXES[measure]}", frame)


def _width(width: int, data: Dataset) -> str:
    """Format a number of directions, as a multiple of d if possible."""
    multiple, over = divmod(width, data.X.shape[1])
    return f"{width:,}" if over else f"{multiple}d"


def _regimes(found: pd.DataFrame, data: Dataset, kernel: str) -> Iterator[tuple[list[int], list[str] | None]]:
    """Yield the two smallest and the two largest widths, or all of fewer than four, each with the published methods.

    The published methods are None if the paper does not state them for these widths.
    """
    widths = sorted(set(found["n_directions"])) if len(found) else []
    if len(widths) < 4:
        yield widths, PUBLISHED_IMAGES.get(data.name) if kernel == "gaussian" else None
        return
    for place, ends in enumerate((slice(2), slice(-2, None))):
        as_published = widths[ends] == [multiple * data.X.shape[1] for multiple in MULTIPLES[ends]]
        known = PUBLISHED.get(data.name) if as_published and kernel == "gaussian" else None
        yield widths[ends], None if known is None else known[place]


def _best_table(by_set: Sequence[tuple[Dataset, pd.DataFrame]], kernel: str) -> ResultTable:
    """Return the table of the best methods by error, ours and the published ones, as in the survey's Table 7."""
    lines = [
        {
            "data set": "" if place else data.name,
            "directions": ", ".join(_width(width, data) for width in chosen),
            "published": "" if published is None else ", ".join(published) or "-",
            "the survey's projections": _best_of(found[found["projection"].isin(SURVEY)], chosen),
            "all": _best_of(found, chosen),
        }
        for data, found in by_set
        for place, (chosen, published) in enumerate(_regimes(found, data, kernel))
    ]
    title = f"{kernel}: least error (over that of gaussian), with ties within the noise"
    return ResultTable(title, pd.DataFrame(lines))


def _best_of(found: pd.DataFrame, widths: Sequence[int]) -> str:
    """Format the best methods and the least error, relative to independent directions if these were measured."""
    means = _averages(found, widths).mean()
    if means.empty:
        return ""
    named = ", ".join(best(found, widths)) or "most tie"
    if "gaussian" not in means:
        return f"{named} (error {means.min():.2g})"
    return f"{named} ({means.min() / means['gaussian']:.2f})"


def _figure(found: pd.DataFrame, dataset: str, kernel: str, path: Path) -> None:
    """Plot error, time and accuracy against the number of directions, with bands of one standard deviation."""
    measures = [name for name in _AXES if found[name].notna().any()]
    lines = styles(found["projection"])
    figure, (axes,) = panels(4.6 * len(measures), 4.8, 1, len(measures))
    for axis, name in zip(axes, measures, strict=True):
        over = curves(found.rename(columns={"projection": "method"}), "n_directions", **{name: ["mean", "std"]})
        over = {projection: over[projection][name].fillna(0) for projection in lines}
        plot_curves(axis, over, None, "mean", lines)
        for projection, curve in over.items():
            # On a logarithmic axis, both edges of the band are equally far from the mean. The lower edge is not mean -
            # deviation, because that could be negative.
            high = curve["mean"] + curve["std"]
            low = curve["mean"] ** 2 / high if name in _LOGARITHMIC else curve["mean"] - curve["std"]
            band = {"color": lines[projection]["color"], "alpha": 0.6 / (4 + len(lines)), "linewidth": 0}
            axis.fill_between(curve.index, low, high, **band)
        axis.set(xlabel="directions s", ylabel=_AXES[name], yscale="log" if name in _LOGARITHMIC else "linear")
        mark_widths(axis, found["n_directions"])
    title = f"{dataset}, {kernel}" + (" kernel at the median distance" if kernel == "gaussian" else "")
    finish(figure, axes, path, title=title, columns=min(6, len(lines)))
