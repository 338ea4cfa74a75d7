"""Default settings on 43 tables, beside boosting, nearest neighbours and exact kernel methods; what was asked for.

Runs `phimap bench tabular` and prints whether the figures that were asked for are reached, as far as the tables fitted
tell. With --page nothing is fitted: the page of the guide is written from the fits of the files.

    python benchmarks/tabular.py --data DIR --json fits.jsonl [--sets regression letter] [--methods phimap lightgbm]
    python benchmarks/tabular.py --json fits.jsonl [more.jsonl ...] --page docs/results/tabular.md --readme README.md
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tabular_page import markdown, overview

from phimap._files import write_whole
from phimap.bench.options import BenchOptions
from phimap.bench.tabular.measure import Fit, read
from phimap.bench.tabular.methods import METHODS
from phimap.bench.tabular.results import OURS, PEERS, SPLITS, WIDTH, Summary, summaries
from phimap.cli.bench import run

#: Fewest tables with a smaller error than that of the method, by task.
LEAST_WINS = {
    ("regression", "lightgbm"): 20,
    ("regression", "catboost"): 15,
    ("classification", "hgb"): 17,
    ("classification", "lightgbm"): 15,
    ("classification", "catboost"): 12,
}
#: Fewest tables with a smaller log loss than that of the method.
LEAST_LOSS_WINS = {"lightgbm": 15}
#: Largest geometric means of the ratios of errors.
MOST_RATIO = {("regression", "lightgbm"): 0.90, ("classification", "hgb"): 0.95}
#: Largest ratio to LightGBM on any table, by task.
MOST_WORST = {"regression": 1.03, "classification": 1.35}
#: Largest geometric means of the ratios of processor seconds, on one thread.
MOST_SECONDS = {("regression", "lightgbm"): 8, ("classification", "lightgbm"): 4}
#: Largest errors.
MOST_ERROR = {
    "parkinsons": 0.04,
    "pumadyn32nm": 0.22,
    "pol": 0.072,
    "kin8nm": 0.25,
    "kin40k": 0.05,
    "protein": 0.60,
    "bike": 0.23,
    "cal_housing": 0.378,
    "house_16H": 0.575,
    "ijcnn1": 0.015,
    "letter": 0.026,
    "pendigits": 0.008,
    "satimage": 0.085,
    "adult": 0.13,
    "magic04": 0.117,
    "thyroid": 0.006,
    "wall-following": 0.006,
    "connect4": 0.152,
    "chess-krvk": 0.11,
}
#: Share of the time of xRFM, on tables of more training rows than this.
MOST_TIME, LARGE = 0.2, 8000


def check(found: Sequence[Fit]) -> Iterator[tuple[str, float, float, bool]]:
    """What was asked for: the words, the figure, the limit, and whether it is kept."""
    for task, summary in summaries(found).items():
        for one in summary.beside(OURS, (*PEERS, "xrfm")).itertuples():
            yield from _beside(task, one, summary)
        if OURS in summary.errors:
            for name, error in summary.errors[OURS].dropna().items():
                if name in MOST_ERROR:
                    yield f"{name}: error", error, MOST_ERROR[name], error <= MOST_ERROR[name]


def _beside(task: str, one: Any, summary: Summary) -> Iterator[tuple[str, float, float, bool]]:
    """The figures of a row of `Summary.beside`."""
    peer = one.Index
    if (task, peer) in LEAST_WINS:
        least = LEAST_WINS[task, peer]
        yield f"{task}: smaller error than {peer}, of {one.n_sets} tables", one.wins, least, one.wins >= least
    if (task, peer) in MOST_RATIO:
        most = MOST_RATIO[task, peer]
        yield f"{task}: ratio to {peer}, geometric mean", one.ratio, most, one.ratio <= most
    if (task, peer) in MOST_SECONDS:
        most = MOST_SECONDS[task, peer]
        yield f"{task}: processor seconds over {peer}'s, geometric mean", one.time, most, one.time <= most
    if peer == "lightgbm":
        most = MOST_WORST[task]
        yield f"{task}: largest ratio to {peer}, {one.worst_set}", one.worst, most, one.worst <= most
    if peer in LEAST_LOSS_WINS and one.loss_wins + one.loss_losses:
        least = LEAST_LOSS_WINS[peer]
        yield f"{task}: smaller log loss than {peer}", one.loss_wins, least, one.loss_wins >= least
    if peer == "xrfm":
        yield f"{task}: mean rank beside {peer}'s", one.rank, 3 - one.rank, one.rank <= 1.5
        large = Summary(summary.found[summary.found["n_rows"] > LARGE]).beside(OURS, [peer])
        for time in large["time"] if len(large) else ():
            yield f"{task}: time over {peer}'s, more than {LARGE} rows", time, MOST_TIME, time <= MOST_TIME


#: What stands around the overview in the front page.
MARKS = "<!-- tables -->\n", "<!-- end of tables -->\n"


def write_overview(path: Path, text: str) -> None:
    """Put the text between the marks of a file."""
    before, mark, rest = path.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (mark and end):
        raise SystemExit(f"--readme must have the lines {MARKS[0].strip()} and {MARKS[1].strip()}, got {path}.")
    write_whole(path, lambda file: file.write((before + mark + text + end + after).encode()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("PHIMAP_DATA"))
    parser.add_argument("--json", type=Path, nargs="+", required=True)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--methods", nargs="+", choices=METHODS)
    parser.add_argument("--splits", nargs="+", type=int, default=list(SPLITS))
    parser.add_argument("--features", type=int, default=WIDTH)
    parser.add_argument("--output", type=Path, help="folder for the critical-difference pictures")
    parser.add_argument("--page", type=Path, help="write the page of the guide there, and fit nothing")
    parser.add_argument("--readme", type=Path, help="put the overview between the marks of this file; with --page")
    options = parser.parse_args()
    if options.readme is not None and options.page is None:
        parser.error("--readme needs --page: both are written from the same fits")
    if options.page is None:
        if len(options.json) > 1:
            parser.error("--json takes one file where fits are made")
        asked = BenchOptions(
            "tabular",
            data=options.data,
            sets=options.sets,
            methods=options.methods,
            widths=None if options.features is None else [options.features],
            splits=options.splits,
            json=options.json[0],
            output=options.output,
        )
        run(asked)
    found = [one for path in options.json for one in read(path)]
    if options.page is not None:
        text = markdown(found)
        write_whole(options.page, lambda file: file.write(text.encode()))
        if options.readme is not None:
            write_overview(options.readme, overview(found))
    for words, figure, limit, kept in check(found):
        print(f"{'kept  ' if kept else 'missed'}  {words}: {figure:.4g} (asked for: {limit:.4g})")


if __name__ == "__main__":
    main()
