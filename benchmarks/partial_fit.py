"""What it costs to learn a table in parts: R2 of one fit, and of ``partial_fit`` of two halves in random order.

The first call of ``partial_fit`` fixes the kernel, its metric, the width and the map; later rows move the coefficients
alone. Such a model has random features, and neither corrections nor trees.

    python benchmarks/partial_fit.py --data DIR [--sets kin8nm cal_housing]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

import phimap as pm
from phimap.bench.tabular.tables import load

SETS = ("kin8nm", "cal_housing", "bike", "abalone")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="+", default=SETS)
    arguments = parser.parse_args()
    print(f"{'table':12s} {'rows':>7s} {'one fit':>8s} {'two halves':>11s}")
    for name in arguments.sets:
        table = load(name, arguments.data)
        train, test = table.split(0)
        whole = pm.KernelRegressor(random_state=0).fit(table.X[train], table.y[train])
        halves = pm.KernelRegressor(random_state=0)
        for part in np.array_split(train, 2):
            halves.partial_fit(table.X[part], table.y[part])
        scores = [model.score(table.X[test], table.y[test]) for model in (whole, halves)]
        print(f"{name:12s} {len(train):7d} {scores[0]:8.3f} {scores[1]:11.3f}", flush=True)


if __name__ == "__main__":
    main()
