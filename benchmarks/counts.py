"""Poisson regression of counts with `KernelRegressor`, beside HistGradientBoosting with the same loss.

Prints for each table, from one split: the mean Poisson deviance on the test rows of both models and of the mean, their
ratio, alpha, passes and seconds of the processor. bike (hourly rentals) and abalone (rings) are counts as they were
observed, those of bike from their logarithms in the file. For the other tables counts are drawn from a Poisson law
whose mean is a rescaled target of the table: rank r of n gives the mean ``exp(4 r / n - 1)``, from 0.37 to 20.

    python benchmarks/counts.py --data DIR [--sets bike abalone kin8nm wind] [--rows 10000] [--figure FILE]

With --figure mean counts are drawn against mean predictions of the last table.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_poisson_deviance

import phimap as pm
from phimap.bench.tabular.tables import load
from phimap.report.certainty_figures import Groups, agreement

SETS = ("bike", "abalone", "kin8nm", "wind")
#: Tables whose targets are counts.
OBSERVED = ("bike", "abalone")


def counts_of(name: str, y: np.ndarray) -> np.ndarray:
    """The counts of a table, observed or drawn."""
    if name == "bike":
        # The targets are logarithms of hourly rentals less a constant, and the fewest rentals are one.
        y = np.exp(y - y.min())
        counts = np.round(y)
        if np.abs(counts / y - 1).max() > 1e-3:
            raise SystemExit("the targets of bike are no logarithms of counts")
        return counts
    if name in OBSERVED:
        if not ((y >= 0) & (y == np.round(y))).all():
            raise SystemExit(f"the targets of {name} are no counts")
        return y
    means = np.exp(4 * rankdata(y) / len(y) - 1)
    return np.random.default_rng(0).poisson(means).astype(float)


def compare(name: str, arguments: argparse.Namespace) -> None:
    """One split of one table."""
    table = load(name, arguments.data)
    counts = counts_of(name, table.y)
    train, test = table.split(0, arguments.rows)
    X, y, new, true = table.X[train], counts[train], table.X[test], counts[test]
    start = time.process_time()
    model = pm.KernelRegressor(loss="poisson", effort=arguments.effort, random_state=0).fit(X, y)
    fitted = time.process_time()
    ours = mean_poisson_deviance(true, model.predict(new))
    start_peer = time.process_time()
    peer = HistGradientBoostingRegressor(loss="poisson", random_state=0).fit(X, y)
    peer_seconds = time.process_time() - start_peer
    theirs = mean_poisson_deviance(true, peer.predict(new))
    constant = mean_poisson_deviance(true, np.full(len(true), y.mean()))
    print(
        f"  {name:10s} {ours:8.4f} {theirs:8.4f} {constant:8.4f}   {ours / theirs:.3f}   alpha {model.alpha_:.2g}, "
        f"{model.solution_.n_passes} passes, {fitted - start:.0f} s, boosting {peer_seconds:.0f} s",
        flush=True,
    )
    if arguments.figure is not None:
        groups = Groups.of_rows(model.predict(new), true)
        words = f"mean prediction, {name}", f"mean count, {name}"
        agreement(groups, "mean-calibration", words).write(arguments.figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--effort", choices=("fast", "normal", "thorough"), default="normal")
    parser.add_argument("--figure", type=Path)
    arguments = parser.parse_args()
    print("mean Poisson deviance on test rows: ours, boosting's, the mean's; ours over boosting's")
    for name in arguments.sets:
        compare(name, arguments)


if __name__ == "__main__":
    main()
