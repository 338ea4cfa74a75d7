"""Quantiles of `KernelRegressor` on the regression tables, beside LightGBM's with its default settings.

Prints for each table, from one split: the pinball losses at .05, .5 and .95 on the test rows over those of LightGBM
(``objective="quantile"``, a model for each level) and their mean ratio; the share of test rows between the outer
quantiles, which is meant to be 90 %, for both; alpha, passes and seconds of the processor. The rows of the table are a
random sample if there are more than --rows.

    python benchmarks/quantiles.py --data DIR [--sets regression] [--rows 10000] [--effort normal] [--figure FILE]

With --figure the band of the last table is drawn.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import mean_pinball_loss

import phimap as pm
from phimap.bench.tabular.tables import expand, load
from phimap.report.certainty_figures import band

LEVELS = (0.05, 0.5, 0.95)


def losses(y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Pinball losses at the levels."""
    return np.array([mean_pinball_loss(y, predicted[:, k], alpha=level) for k, level in enumerate(LEVELS)])


def coverage(y: np.ndarray, predicted: np.ndarray) -> float:
    """Share of the rows between the outer quantiles."""
    return float(np.mean((predicted[:, 0] <= y) & (y <= predicted[:, -1])))


def compare(name: str, arguments: argparse.Namespace) -> float:
    """One split of one table. Returns the mean ratio of the losses."""
    from lightgbm import LGBMRegressor

    table = load(name, arguments.data)
    train, test = table.split(0, arguments.rows)
    X, y, new, true = table.X[train], table.y[train], table.X[test], table.y[test]
    start = time.process_time()
    model = pm.KernelRegressor(loss="quantile", quantile=LEVELS, effort=arguments.effort, random_state=0).fit(X, y)
    fitted = time.process_time()
    ours = model.predict(new)
    peers = [
        LGBMRegressor(objective="quantile", alpha=level, n_jobs=1, random_state=0, verbose=-1).fit(X, y)
        for level in LEVELS
    ]
    peer_seconds = time.process_time() - fitted
    theirs = np.column_stack([peer.predict(new) for peer in peers])
    ratios = losses(true, ours) / losses(true, theirs)
    print(
        f"  {name:16s} {' '.join(f'{ratio:.3f}' for ratio in ratios)}   {ratios.mean():.3f}   "
        f"{coverage(true, ours):.3f} {coverage(true, theirs):.3f}   alpha {model.alpha_:.2g}, "
        f"{model.solution_.n_passes} passes, {fitted - start:.0f} s, LightGBM {peer_seconds:.0f} s",
        flush=True,
    )
    if arguments.figure is not None:
        band(true, ours, ("5 % to 95 %", "50 %"), f"target of {name}").write(arguments.figure)
    return float(ratios.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="+", default=["regression"])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--effort", choices=("fast", "normal", "thorough"), default="normal")
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    print("losses over LightGBM's at .05, .5, .95; their mean; coverage of the band (0.9), ours and LightGBM's")
    ratios = [compare(name, arguments) for name in expand(arguments.sets)]
    print(f"mean ratio at most 1 on {sum(ratio <= 1 for ratio in ratios)} of {len(ratios)} tables (15 of 22 asked for)")


if __name__ == "__main__":
    main()
