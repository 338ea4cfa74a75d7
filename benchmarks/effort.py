"""What each effort of the search costs, and what it gives, on the 43 tables beside LightGBM.

Prints, for each task and each effort, the geometric means over the tables of the ratios to `effort="normal"` in error
and in log loss, the table with the largest ratio, and the processor seconds over those of LightGBM. All fits are of
one run, on one thread.

What was asked for: "fast" takes at most three times LightGBM's seconds and errs at most 4 % more than "normal".

    OMP_NUM_THREADS=1 python benchmarks/effort.py --data DIR [--sets regression letter] [--splits 0] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import pandas as pd

from phimap import KernelClassifier, KernelRegressor
from phimap.bench.tabular.measure import Store, run
from phimap.bench.tabular.methods import METHODS
from phimap.bench.tabular.results import TASKS, Summary
from phimap.bench.tabular.tables import GROUPS, expand, load
from phimap.comparison.methods import Method
from phimap.learn.search.effort import EFFORTS

MOST_SECONDS, MOST_ERROR = 3.0, 1.04
_PEER = "lightgbm"


def of_effort(effort: str) -> Method:
    def make(task: str, width: int | None, seed: int) -> Any:
        learner = KernelRegressor if task == "regression" else KernelClassifier
        return learner(effort=effort, random_state=seed)

    return Method(make, f'default settings with effort="{effort}"')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("PHIMAP_DATA"))
    parser.add_argument("--sets", nargs="+", default=list(GROUPS))
    parser.add_argument("--splits", nargs="+", type=int, default=[0])
    parser.add_argument("--efforts", nargs="+", choices=EFFORTS, default=list(EFFORTS))
    parser.add_argument("--json", type=Path, help="file of the fits; those that it holds are not repeated")
    options = parser.parse_args()
    methods = {name: of_effort(name) for name in options.efforts} | {_PEER: METHODS[_PEER]}
    store = Store(options.json)
    tables = (load(name, options.data) for name in expand(options.sets))
    found = pd.DataFrame(
        [fit for table in tables for fit in run(table, list(methods), options.splits, store, known=methods)]
    )
    for task in TASKS:
        if not (found["task"] == task).any():
            continue
        summary = Summary(found[found["task"] == task])
        beside = summary.beside
        for effort in options.efforts:
            seconds = beside(effort, [_PEER])["time"].iloc[0]
            words = f"{task:15}{effort:10}{seconds:6.2f} times LightGBM's seconds"
            if effort != "normal" and "normal" in options.efforts:
                one = beside(effort, ["normal"]).iloc[0]
                words += f"   error {one['ratio']:.3f} of normal's, at most {one['worst']:.2f} ({one['worst_set']})"
                if task == "classification":
                    words += f", log loss {one['loss_ratio']:.3f}"
                if effort == "fast":
                    kept = seconds <= MOST_SECONDS and one["ratio"] <= MOST_ERROR
                    words += f"   {'kept' if kept else 'missed'}"
            print(words)


if __name__ == "__main__":
    main()
