"""What the survey's experiment shows: means over draws, the best projections, tables and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from phimap._progress import Stages
from phimap.bench.approximation.families import FAMILIES
from phimap.bench.approximation.measure import ERROR_ROWS, MOST_ROWS, MULTIPLES, Measurement, run
from phimap.bench.datasets import Dataset, load
from phimap.bench.experiment import Finding, Report, Table, as_dicts, grouped, having, measured, values
from phimap.bench.figures import legend_below, mark_widths, panels, save, styles
from phimap.bench.options import BenchOptions

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
# The names of what is measured, in tables and figures.
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
    """Measure the sets, kernels and projections asked for: a table and a figure of each set, and the best of each."""
    draws = options.seeds(10, least=2)
    kernels = list(options.kernels or ("gaussian",))
    for kernel in kernels:
        if kernel not in FAMILIES:
            raise ValueError(f"--kernels must be among {', '.join(FAMILIES)}, got {kernel!r}.")
    methods = {kernel: _methods(kernel, options.projections) for kernel in kernels}
    widths = None if options.widths is None else [max(1, width // 2) for width in sorted(options.widths)]
    # Every set is read before the first is measured: a missing file shows at once.
    names = options.sets or [*PUBLISHED, "MNIST"]
    loaded = [load(name, options.data, options.seed) for name in names]
    classify = options.name == "classification"
    asked: dict[str, Any] = {"widths": widths, "draws": draws, "classify": classify}
    measures = ("error", "ridge", "liblinear") if classify else ("error",)
    found: list[Measurement] = []
    tables, figures, findings = [], {}, []
    for kernel in kernels:
        of_kernel: list[Measurement] = []
        for dataset in loaded:
            total = len(methods[kernel]) * len(widths or MULTIPLES) * len(draws)
            fits = run(dataset, methods[kernel], most_rows=options.rows or MOST_ROWS, family=kernel, **asked)
            of_kernel += measured(stages, f"{dataset.name}, {kernel}", fits, total)
        by_set = {dataset.name: summary(having(of_kernel, dataset=dataset.name)) for dataset in loaded}
        tables += [_table(by_set[dataset.name], dataset, kernel, measure) for dataset in loaded for measure in measures]
        tables.append(_best_table(of_kernel, loaded, kernel))
        for name, entries in by_set.items():
            figures[f"{options.name}_{name}_{kernel}.png"] = partial(_figure, entries, name, kernel)
        findings += _accuracy_findings(of_kernel) if classify else _error_findings(of_kernel, loaded)
        found += of_kernel
    return Report(as_dicts(found), tables, figures, findings)


def _methods(kernel: str, asked: Sequence[str] | None) -> list[str]:
    known = FAMILIES[kernel].methods
    for method in asked or ():
        if method not in known:
            raise ValueError(f"--projections must be among {', '.join(known)} for {kernel}, got {method!r}.")
    return list(asked or known)


_PAPER = "Liu et al. (2021)"


def _place(dataset: str, kernel: str) -> str:
    """Where the survey has the errors of a set: the images are in a figure, other kernels in its appendix."""
    if kernel != "gaussian":
        return f"Section 6.1, {kernel}, {dataset}"
    return f"Figure 4, {dataset}" if dataset == "MNIST" else f"Table 7, {dataset}"


def _error_findings(found: Sequence[Measurement], loaded: Sequence[Dataset]) -> list[Finding]:
    """Table 7, a line for each set and regime; for other kernels, whose figures are not printed, the least error."""
    findings = []
    for dataset in loaded:
        of_set = having(found, dataset=dataset.name)
        if not of_set:
            continue
        kernel, draws = of_set[0].kernel, len({one.seed for one in of_set})
        gaussian = kernel == "gaussian"
        of_survey = [one for one in of_set if one.projection in SURVEY]
        for part, chosen, published in _regimes(of_set, dataset):
            regime = f"s = {' and '.join(_width(width, dataset) for width in chosen)}"
            quantity = "least error, its ratio to independent draws" if kernel != "polynomial" else "least error"
            size = f"{ERROR_ROWS:,} rows, {draws} draws"
            findings.append(
                Finding(
                    _PAPER,
                    f"{_place(dataset.name, kernel)}, {regime}",
                    quantity,
                    size if draws == 10 else f"{size} (paper: 10)",
                    f"{_best_of(of_survey if gaussian else of_set, chosen)}"
                    + (f"; of all {_best_of(of_set, chosen)}" if gaussian else ""),
                    "-" if published is None else ", ".join(published[part]) or "no difference",
                )
            )
    return findings


def _accuracy_findings(found: Sequence[Measurement]) -> list[Finding]:
    """Accuracies of the least and the best method at the largest width: the survey finds hardly a difference."""
    findings = []
    for (dataset, kernel), of_set in grouped(found, "dataset", "kernel").items():
        width = max(one.n_directions for one in of_set)
        for measure in ("ridge", "liblinear"):
            means = {
                method: float(values(part, measure).mean())
                for (method,), part in grouped(having(of_set, n_directions=width), "projection").items()
            }
            least, most = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
            findings.append(
                Finding(
                    _PAPER,
                    f"Section 6.2 and Figure 4, {dataset}, {kernel}, {_TITLES[measure].removesuffix(' (%)')}",
                    "least to best of the methods (%)",
                    f"{width:,} directions, {len({one.seed for one in of_set})} draws (paper: 10)",
                    f"{means[least]:.1f} ({least}) to {means[most]:.1f} ({most})",
                    "no difference between most",
                )
            )
    return findings


def summary(found: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Means and standard deviations over draws, one entry for each set, projection and width."""
    names = ("dataset", "projection", "n_directions")
    entries = []
    for key, draws in grouped(found, *names).items():
        entry: dict[str, Any] = dict(zip(names, key, strict=True)) | {"draws": len(draws)}
        for name in _AXES:
            measures = values(draws, name)
            entry[name] = float(measures.mean())
            entry[f"{name}_standard_deviation"] = float(measures.std(ddof=1)) if len(measures) > 1 else 0.0
        entries.append(entry)
    return entries


def best(found: Sequence[Measurement], widths: Sequence[int]) -> list[str]:
    """Projections whose error, averaged over these widths, is not significantly above the least (Welch, 5 %).

    Empty where that holds for more than half of them: no significant difference among most, as in Table 7.
    """
    averages = _averages(found, widths)
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


def _averages(found: Sequence[Measurement], widths: Sequence[int]) -> dict[str, np.ndarray]:
    """Error of each draw averaged over the widths, of the projections that were measured at every one of them."""
    chosen = [one for one in found if one.n_directions in widths]
    averages = {}
    for (projection,), of_projection in grouped(chosen, "projection").items():
        by_seed = [values(draws, "error") for draws in grouped(of_projection, "seed").values()]
        if all(len(errors) == len(widths) for errors in by_seed):
            averages[projection] = np.array([errors.mean() for errors in by_seed])
    return averages


def _table(entries: Sequence[dict[str, Any]], dataset: Dataset, kernel: str, measure: str) -> Table:
    by_key = {(entry["projection"], entry["n_directions"]): entry for entry in entries}
    widths = sorted({width for _, width in by_key})
    lines = []
    for projection in dict.fromkeys(name for name, _ in by_key):
        cells = []
        for width in widths:
            entry = by_key.get((projection, width))
            cells.append(f"{entry[measure]:.4g} ± {entry[f'{measure}_standard_deviation']:.1g}" if entry else "-")
        lines.append((projection, *cells))
    columns = ("projection", *(f"s = {_width(width, dataset)}" for width in widths))
    return Table(f"{dataset.name}, {kernel}: {_TITLES[measure]}", columns, lines)


def _width(width: int, dataset: Dataset) -> str:
    """A number of directions, as a multiple of d where it is one."""
    multiple, over = divmod(width, dataset.X.shape[1])
    return f"{width:,}" if over else f"{multiple}d"


def _regimes(
    found: Sequence[Measurement], dataset: Dataset
) -> Iterator[tuple[int, list[int], tuple[list[str], list[str]] | None]]:
    """The small and the large widths of a set: which of the two, the widths, and the published entry for them."""
    widths = sorted({one.n_directions for one in found})
    for part, chosen in enumerate((widths[:2], widths[-2:])):
        multiples = MULTIPLES[-2:] if part else MULTIPLES[:2]
        as_published = chosen == [multiple * dataset.X.shape[1] for multiple in multiples]
        gaussian = bool(found) and found[0].kernel == "gaussian"
        yield part, chosen, PUBLISHED.get(dataset.name) if as_published and gaussian else None


def _best_table(found: Sequence[Measurement], loaded: Sequence[Dataset], kernel: str) -> Table:
    """Table 7 of the survey: best methods by error, ours beside the published."""
    lines = []
    for dataset in loaded:
        of_set = having(found, dataset=dataset.name)
        of_survey = [one for one in of_set if one.projection in SURVEY]
        for part, chosen, published in _regimes(of_set, dataset):
            lines.append(
                (
                    "" if part else dataset.name,
                    ", ".join(_width(width, dataset) for width in chosen),
                    "" if published is None else ", ".join(published[part]) or "-",
                    _best_of(of_survey, chosen) if of_survey else "",
                    _best_of(of_set, chosen),
                )
            )
    columns = ("data set", "directions", "published", "the survey's projections", "all")
    title = f"{kernel}: least error (over that of gaussian), with ties within the noise"
    return Table(title, columns, lines)


def _best_of(found: Sequence[Measurement], widths: Sequence[int]) -> str:
    """The best methods, and their error over that of independent directions where these were measured."""
    averages = _averages(found, widths)
    if not averages:
        return ""
    named = ", ".join(best(found, widths)) or "most tie"
    least = min(errors.mean() for errors in averages.values())
    if "gaussian" not in averages:
        return f"{named} (error {least:.2g})"
    return f"{named} ({least / averages['gaussian'].mean():.2f})"


def _figure(entries: Sequence[dict[str, Any]], dataset: str, kernel: str, path: Path) -> None:
    """Error, time and accuracy against the number of directions, with bands of one standard deviation."""
    measures = [name for name in _AXES if np.isfinite([entry[name] for entry in entries]).any()]
    lines = styles(list(dict.fromkeys(entry["projection"] for entry in entries)))
    figure, (axes,) = panels(4.6 * len(measures), 4.8, 1, len(measures))
    for axis, name in zip(axes, measures, strict=True):
        for projection, style in lines.items():
            points = sorted((e for e in entries if e["projection"] == projection), key=lambda e: e["n_directions"])
            x, mean, standard_deviation = (
                np.array([point[key] for point in points])
                for key in ("n_directions", name, f"{name}_standard_deviation")
            )
            # The band is as wide below the mean as above it on a logarithmic axis, where a difference could be
            # negative.
            low = mean**2 / (mean + standard_deviation) if name in _LOGARITHMIC else mean - standard_deviation
            axis.plot(x, mean, marker="o", markersize=3, label=projection, **style)
            band = {"color": style["color"], "alpha": 0.6 / (4 + len(lines)), "linewidth": 0}
            axis.fill_between(x, low, mean + standard_deviation, **band)
        axis.set(xscale="log", xlabel="directions s", ylabel=_AXES[name])
        if name in _LOGARITHMIC:
            axis.set_yscale("log")
        mark_widths(axis, sorted({entry["n_directions"] for entry in entries}))
        axis.grid(alpha=0.3)
    figure.suptitle(f"{dataset}, {kernel}" + (" kernel at the median distance" if kernel == "gaussian" else ""))
    legend_below(figure, axes[0], min(6, len(lines)))
    save(figure, path)
