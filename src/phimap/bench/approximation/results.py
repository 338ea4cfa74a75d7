"""Results of the survey's experiment: means over draws, best projections, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from scipy import stats

from phimap._progress import Stages
from phimap.bench.approximation.families import FAMILIES
from phimap.bench.approximation.measure import ERROR_ROWS, MOST_ROWS, MULTIPLES, run
from phimap.bench.datasets import Dataset, load
from phimap.bench.experiment import Finding, Report, ResultTable, measured, spread
from phimap.bench.figures import finish, mark_widths, panels, styles
from phimap.bench.options import BenchOptions

_LEVEL = 0.05
#: Projections in the survey's experiment. LS-RFF is left out because it depends on the data.
SURVEY = ("gaussian", "orthogonal", "sorf", "rom", "fastfood", "qmc", "ssf", "gauss-quadrature")
#: Best methods in Table 7 by data set, for small and for large widths. An empty list means no significant difference.
PUBLISHED = {
    "ijcnn1": (["ssf"], ["sorf", "qmc", "orthogonal"]),
    "EEG": (["ssf"], ["orthogonal"]),
    "magic04": (["ssf"], ["ssf", "orthogonal", "qmc", "rom"]),
    "letter": (["ssf"], ["ssf", "orthogonal"]),
    "skin": (["ssf", "rom"], ["qmc"]),
    "a8a": ([], []),
}
# Names of the measured quantities, in tables and figures.
_TITLES = {
    "error": "relative error",
    "ridge": "test accuracy, ridge (%)",
    "liblinear": "test accuracy, liblinear (%)",
}
_AXES = {
    "error": "relative error",
    "seconds": "seconds",
    "ridge": "accuracy, ridge (%)",
    "liblinear": "accuracy, liblinear (%)",
}
_LOGARITHMIC = ("error", "seconds")


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
    names = options.sets or [*PUBLISHED, "MNIST"]
    loaded = [load(name, options.data, options.seed) for name in names]
    classify = options.name == "classification"
    asked: dict[str, Any] = {"widths": widths, "draws": draws, "classify": classify}
    measures = ("error", "ridge", "liblinear") if classify else ("error",)
    parts, tables, figures, findings = [], [], {}, []
    for kernel in kernels:
        by_set = {}
        for data in loaded:
            total = len(methods[kernel]) * len(widths or MULTIPLES) * len(draws)
            fits = run(data, methods[kernel], most_rows=options.rows or MOST_ROWS, family=kernel, **asked)
            by_set[data.name] = measured(stages, f"{data.name}, {kernel}", fits, total)
        tables += [_table(by_set[data.name], data, kernel, measure) for data in loaded for measure in measures]
        tables.append(_best_table(by_set, loaded, kernel))
        for name, part in by_set.items():
            figures[f"{options.name}_{name}_{kernel}.png"] = partial(_figure, part, name, kernel)
        findings += _accuracy_findings(by_set, kernel) if classify else _error_findings(by_set, loaded, kernel)
        parts += by_set.values()
    return Report(pd.concat(parts, ignore_index=True), tables, figures, findings)


def _methods(kernel: str, asked: Sequence[str] | None) -> list[str]:
    known = FAMILIES[kernel].methods
    for method in asked or ():
        if method not in known:
            raise ValueError(f"--projections must be among {', '.join(known)} for {kernel}, got {method!r}.")
    return list(asked or known)


_PAPER = "Liu et al. (2021)"


def _place(dataset: str, kernel: str) -> str:
    """Return the place in the survey: for the Gaussian kernel, Figure 4 (MNIST) or Table 7; else Section 6.1."""
    if kernel != "gaussian":
        return f"Section 6.1, {kernel}, {dataset}"
    return f"Figure 4, {dataset}" if dataset == "MNIST" else f"Table 7, {dataset}"


def _error_findings(by_set: dict[str, pd.DataFrame], loaded: Sequence[Dataset], kernel: str) -> list[Finding]:
    """Return the best projections and the published ones, for each set and for small and large widths."""
    findings, gaussian = [], kernel == "gaussian"
    for data in loaded:
        found = by_set[data.name]
        draws = found["seed"].nunique() if len(found) else 0
        of_survey = found[found["projection"].isin(SURVEY)] if draws else found
        for part, chosen, published in _regimes(found, data, kernel) if draws else ():
            size = f"{ERROR_ROWS:,} rows, {draws} draws"
            findings.append(
                Finding(
                    _PAPER,
                    f"{_place(data.name, kernel)}, s = {' and '.join(_width(width, data) for width in chosen)}",
                    "least error, its ratio to independent draws" if kernel != "polynomial" else "least error",
                    size if draws == 10 else f"{size} (paper: 10)",
                    f"{_best_of(of_survey if gaussian else found, chosen)}"
                    + (f"; of all {_best_of(found, chosen)}" if gaussian else ""),
                    "-" if published is None else ", ".join(published[part]) or "no difference",
                )
            )
    return findings


def _accuracy_findings(by_set: dict[str, pd.DataFrame], kernel: str) -> list[Finding]:
    """Return the accuracies of the worst and the best method at the largest width."""
    findings = []
    for dataset, found in by_set.items():
        width, draws = found["n_directions"].max(), found["seed"].nunique()
        means = found[found["n_directions"] == width].groupby("projection", sort=False)[["ridge", "liblinear"]].mean()
        for measure in means:
            least, most = means[measure].idxmin(), means[measure].idxmax()
            findings.append(
                Finding(
                    _PAPER,
                    f"Section 6.2 and Figure 4, {dataset}, {kernel}, {_TITLES[measure].removesuffix(' (%)')}",
                    "least to best of the methods (%)",
                    f"{width:,} directions, {draws} draws (paper: 10)",
                    f"{means[measure].min():.1f} ({least}) to {means[measure].max():.1f} ({most})",
                    "no difference between most",
                )
            )
    return findings


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
    return ResultTable(f"{data.name}, {kernel}: {_TITLES[measure]}", frame)


def _width(width: int, data: Dataset) -> str:
    """Format a number of directions, as a multiple of d if it is one."""
    multiple, over = divmod(width, data.X.shape[1])
    return f"{width:,}" if over else f"{multiple}d"


def _regimes(
    found: pd.DataFrame, data: Dataset, kernel: str
) -> Iterator[tuple[int, list[int], tuple[list[str], list[str]] | None]]:
    """Yield the two smallest (index 0) and two largest (1) widths: index, widths, entry of `PUBLISHED` or None."""
    widths = sorted(set(found["n_directions"])) if len(found) else []
    for part, chosen in enumerate((widths[:2], widths[-2:])):
        multiples = MULTIPLES[-2:] if part else MULTIPLES[:2]
        as_published = chosen == [multiple * data.X.shape[1] for multiple in multiples]
        yield part, chosen, PUBLISHED.get(data.name) if as_published and kernel == "gaussian" else None


def _best_table(by_set: dict[str, pd.DataFrame], loaded: Sequence[Dataset], kernel: str) -> ResultTable:
    """Return the table of the best methods by error, ours and the published ones, as in the survey's Table 7."""
    lines = []
    for data in loaded:
        found = by_set[data.name]
        for part, chosen, published in _regimes(found, data, kernel):
            lines.append(
                {
                    "data set": "" if part else data.name,
                    "directions": ", ".join(_width(width, data) for width in chosen),
                    "published": "" if published is None else ", ".join(published[part]) or "-",
                    "the survey's projections": _best_of(found[found["projection"].isin(SURVEY)], chosen),
                    "all": _best_of(found, chosen),
                }
            )
    return ResultTable(
        f"{kernel}: least error (over that of gaussian), with ties within the noise", pd.DataFrame(lines)
    )


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
        for projection, style in lines.items():
            over = found[found["projection"] == projection].groupby("n_directions")[name].agg(["mean", "std"]).fillna(0)
            mean, deviation = over["mean"], over["std"]
            # On a logarithmic axis, both edges of the band are equally far from the mean. The lower edge is not mean -
            # deviation, which could be negative.
            low = mean**2 / (mean + deviation) if name in _LOGARITHMIC else mean - deviation
            axis.plot(over.index, mean, marker="o", markersize=3, label=projection, **style)
            band = {"color": style["color"], "alpha": 0.6 / (4 + len(lines)), "linewidth": 0}
            axis.fill_between(over.index, low, mean + deviation, **band)
        axis.set(xscale="log", xlabel="directions s", ylabel=_AXES[name])
        if name in _LOGARITHMIC:
            axis.set_yscale("log")
        mark_widths(axis, sorted(set(found["n_directions"])))
    title = f"{dataset}, {kernel}" + (" kernel at the median distance" if kernel == "gaussian" else "")
    finish(figure, axes, path, title=title, columns=min(6, len(lines)))
