"""The front page's figure: error beside that of phimap against seconds of the fit, on 43 tables.

Errors and seconds are those of the page docs/results/tabular.md, which `benchmarks/tabular.py --page` writes. It lacks
scikit-learn's `RBFSampler` with ridge regression: with --data it is fitted to eight of the tables, by the same splits,
and the fits are kept in benchmarks/overview_fits.jsonl. The figure is drawn from both files, and the sentence beneath
it is printed. --table prints the fits of that file beside those of phimap instead; docs/results/learning.md shows them.

    OMP_NUM_THREADS=1 python benchmarks/overview_figure.py --data DIR
    python benchmarks/overview_figure.py
    python benchmarks/overview_figure.py --figure paper/overview.png
    python benchmarks/overview_figure.py --table
"""

from __future__ import annotations

import argparse
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from phimap.bench.tabular.measure import Store, read, run
from phimap.bench.tabular.results import SPLITS
from phimap.bench.tabular.tables import load
from phimap.comparison.methods import Method

ROOT = Path(__file__).parents[1]
PAGE, FIGURE = ROOT / "docs/results/tabular.md", ROOT / "docs/_static/overview.svg"
FITS = ROOT / "benchmarks/overview_fits.jsonl"
#: Tables of 4,000 to 8,200 rows, four of each task; boosting is ahead on three of them.
SAMPLED = ("kin8nm", "cpu_act", "wind", "sml", "satimage", "optdigits", "spambase", "wall-following")
WIDTH = 2048
#: Larger ratios are drawn there: four marks.
MOST = 40
#: Names in the figure, colours (of Okabe and Ito) and marks.
METHODS = {
    "lightgbm": ("LightGBM", "#D55E00", "o"),
    "hgb": ("HistGradientBoosting", "#E69F00", "s"),
    "catboost": ("CatBoost", "#56B4E9", "^"),
    "neighbours": ("nearest neighbours", "#999999", "v"),
    "sampler": ("RBFSampler + ridge", "#009E73", "D"),
    "xrfm": ("xRFM", "#CC79A7", "P"),
}
OURS, OUR_COLOUR = "phimap", "#0072B2"
#: Error and seconds of a method on a table, and those of phimap there.
Pair = tuple[float, float, float, float]


def sampler(task: str, width: int | None, seed: int) -> Any:
    """Random Fourier features of scikit-learn, and the best of seven regularisations when rows are left out."""
    alphas = np.logspace(-3, 3, 7)
    ridge = RidgeCV(alphas) if task == "regression" else RidgeClassifierCV(alphas)
    return make_pipeline(StandardScaler(), RBFSampler(gamma="scale", n_components=width, random_state=seed), ridge)


def fit(data: Path) -> None:
    """Fit what the page lacks, and keep it."""
    store = Store(FITS)
    known = {"sampler": Method(sampler, "RBFSampler and ridge regression")}
    for name in SAMPLED:
        for one in run(load(name, data), ["sampler"], SPLITS, store, width=WIDTH, known=known):
            spent = f"{one['processor_seconds']:.1f} s"
            print(f"{one['dataset']}, split {one['split']}: error {one['error']:.4f} in {spent}", flush=True)


def tables_of(text: str) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Head and rows of the tables of a page in Markdown."""
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        head, _, *rows = ([cell.strip(" *`") for cell in line.strip("|").split("|")] for line in block.splitlines())
        yield head, rows


def pairs_of(text: str) -> dict[str, dict[str, Pair]]:
    """By method and table: its error and seconds, and those of phimap on the same splits."""
    errors: dict[str, dict[str, float]] = defaultdict(dict)
    seconds: dict[str, dict[str, float]] = defaultdict(dict)
    found: dict[str, dict[str, Pair]] = defaultdict(dict)
    for head, rows in tables_of(text):
        if head[:3] == ["table", "rows", "columns"]:
            _keep(errors, head[3:], {row[0]: row[3:] for row in rows})
        elif head[:2] == ["table", OURS] and "seconds" not in head[-2]:
            _keep(seconds, head[1:], {row[0]: row[1:] for row in rows})
        elif head[0] == "table" and head[1] == OURS:
            for row in rows:
                ours, error, our_seconds, its_seconds = map(float, row[1:])
                found[head[2]][row[0]] = error, its_seconds, ours, our_seconds
    for method in errors:
        for table, error in errors[method].items():
            found[method][table] = error, seconds[method][table], errors[OURS][table], seconds[OURS][table]
    return found


def _keep(kept: dict[str, dict[str, float]], names: list[str], rows: dict[str, list[str]]) -> None:
    for table, cells in rows.items():
        for name, cell in zip(names, cells, strict=True):
            if cell != "-":
                kept[name][table] = float(cell)


def measured(text: str) -> tuple[str, set[int]]:
    """When and where the fits of the page were made, and their splits."""
    line = re.search(r"^Measured (.*?); [^;\n]*\bphimap [^;\n]*; .*; splits ([\d, ]+)\.", text, re.MULTILINE)
    assert line is not None, "The page says when it was measured."
    return line[1], set(map(int, line[2].split(", ")))


def fits_of_sampler(text: str) -> pd.DataFrame:
    """The fits that are kept beside the page, of the splits of the page."""
    fits = pd.DataFrame(read(FITS))
    return fits[fits["split"].isin(measured(text)[1])]


def with_sampler(found: dict[str, dict[str, Pair]], text: str) -> None:
    """Add the fits that are kept beside the page."""
    means = fits_of_sampler(text).groupby("dataset", sort=False)[["error", "processor_seconds"]].mean()
    for table, error, spent in means.itertuples():
        found["sampler"][table] = error, spent, *found[OURS][table][2:]


def sampler_table(found: dict[str, dict[str, Pair]], text: str) -> list[str]:
    """Lines: errors and seconds of the fits that are kept beside the page, and those of phimap."""
    fits = fits_of_sampler(text)
    dates, machines = (" and ".join(sorted(set(fits[name]))) for name in ("date", "machine"))
    splits = ", ".join(map(str, sorted(set(fits["split"]))))
    lines = [
        f"RBFSampler with {WIDTH:,} features and ridge regression: {dates}: {machines}; splits {splits}",
        f"phimap: {measured(text)[0]}",
        f"{'table':<16}{'RBFSampler':>12}{'phimap':>9}{'its seconds':>14}{'of phimap':>12}",
    ]
    for table, (error, spent, ours, our_seconds) in found["sampler"].items():
        lines.append(f"{table:<16}{error:>12.4f}{ours:>9.4f}{spent:>14.1f}{our_seconds:>12.1f}")
    return [*lines, f"RBFSampler has a smaller error on {_losses(found)}."]


def _losses(found: dict[str, dict[str, Pair]]) -> str:
    """On how many tables the error of `RBFSampler` is smaller, and of how many."""
    pairs = found["sampler"].values()
    return f"{sum(pair[0] < pair[2] for pair in pairs)} of {len(pairs)}"


def ratio(pair: Pair) -> float:
    """Error over that of phimap; errors that the page rounds to less than 0.0003 count as that."""
    return max(pair[0], 3e-4) / max(pair[2], 3e-4)


def draw(found: dict[str, dict[str, Pair]], date: str, path: Path) -> None:
    """Write the figure, in the format that the name of `path` says."""
    matplotlib.rcParams["svg.hashsalt"] = "overview"
    figure = Figure(figsize=(8, 4.6), layout="constrained", facecolor="white")
    ax = figure.subplots()
    ax.axhspan(0.1, 1, color=OUR_COLOUR, alpha=0.07, linewidth=0)
    ax.axhline(1, color=OUR_COLOUR, linewidth=2)
    ours = np.array([pair[3] for pair in found[OURS].values()])
    ax.plot(ours, np.ones(len(ours)), "|", color=OUR_COLOUR, markersize=10)
    ax.plot(_mean(ours), 1, "*", color=OUR_COLOUR, markersize=22, markeredgecolor="white", zorder=5)
    ax.annotate(
        f"phimap, {len(ours)} tables",
        (_mean(ours), 1),
        (0, -28),
        textcoords="offset points",
        color=OUR_COLOUR,
        ha="center",
        weight="bold",
    )
    for method, (name, colour, mark) in METHODS.items():
        if not (pairs := found[method].values()):
            continue
        x, y = np.array([pair[1] for pair in pairs]), np.array([ratio(pair) for pair in pairs])
        ax.plot(x, np.minimum(y, MOST), mark, color=colour, alpha=0.35, markersize=4, markeredgewidth=0)
        ax.plot(
            _mean(x),
            _mean(y),
            mark,
            color=colour,
            markersize=13,
            markeredgecolor="white",
            markeredgewidth=1.5,
            label=f"{name}, {len(x)} tables",
            linestyle="none",
            zorder=4,
        )
    ax.text(0.012, 0.02, "below the line: phimap errs more", transform=ax.transAxes, color=OUR_COLOUR)
    ax.set(xscale="log", yscale="log", ylim=(0.18, MOST))
    for axis, ticks in ((ax.xaxis, (0.1, 1, 10, 100)), (ax.yaxis, (0.25, 0.5, 1, 2, 5, 10, 20))):
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_xlabel("processor seconds of a fit")
    ax.set_ylabel(f"error, as a multiple of that of phimap, {MOST} at most")
    ax.set_title("Default settings on real tables: small marks are tables, large ones geometric means", fontsize=11)
    ax.legend(frameon=False, loc="upper right", fontsize=9, labelspacing=0.8)
    metadata = {"Date": date, "Creator": None} if path.suffix == ".svg" else None
    figure.savefig(path, metadata=metadata, dpi=200)


def _mean(values: np.ndarray) -> float:
    """The geometric mean."""
    return float(np.exp(np.log(values).mean()))


def caption(found: dict[str, dict[str, Pair]], text: str) -> str:
    """What stands beneath the figure: losses as the page counts them, before its errors are rounded."""
    larger, tables, times = defaultdict(int), defaultdict(int), defaultdict(list)
    for head, rows in tables_of(text):
        if head[0] == "beside":
            for row in rows:
                tables[row[0]] += int(row[1])
                larger[row[0]] += int(row[3])
                # Geometric means, of regression and then of classification.
                times[row[0]].append(row[-1])
    others = {"catboost": "CatBoost", "xrfm": "xRFM"}
    more = "".join(f"{name} on {larger[key]} of {tables[key]}, " for key, name in others.items() if tables[key])
    return (
        f"LightGBM has a smaller error than phimap on {larger['lightgbm']} of {tables['lightgbm']} tables, "
        f"HistGradientBoosting on {larger['hgb']} of {tables['hgb']}, {more}and RBFSampler with ridge regression on "
        f"{_losses(found)}. A default fit of phimap takes "
        f"{' and '.join(times['lightgbm'])} times as long as one of LightGBM, in regression and classification, and "
        f"{' and '.join(times['hgb'])} times as long as one of HistGradientBoosting."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("PHIMAP_DATA"), help="fit what the page lacks")
    parser.add_argument("--figure", type=Path, default=FIGURE, help="file to write: .svg, .png or .pdf")
    parser.add_argument("--table", action="store_true", help="print the fits beside the page, and draw nothing")
    options = parser.parse_args()
    if options.data is not None:
        fit(Path(options.data))
    text = PAGE.read_text(encoding="utf-8")
    found = pairs_of(text)
    with_sampler(found, text)
    if options.table:
        print("\n".join(sampler_table(found, text)))
        return
    draw(found, measured(text)[0][: len("2026-11-27")], options.figure)
    print(caption(found, text))


if __name__ == "__main__":
    main()
