"""Mean ranks of methods over tables, the critical difference of mean ranks, and a diagram of both.

Demsar (2006), *Statistical comparisons of classifiers over multiple data sets*, JMLR 7, Section 3.2.2 and Figure 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from phimap.bench.figures import panels, save

LEVEL = 0.05


def mean_ranks(errors: pd.DataFrame) -> pd.Series:
    """Return the mean rank of each column of `errors`. Rank 1 is the least error of a row; ties share the mean rank."""
    return errors.rank(axis=1).mean()


def critical_difference(n_methods: int, n_sets: int, level: float = LEVEL) -> float:
    """Return the least significant difference of two mean ranks by Nemenyi's test: ``q sqrt(k (k + 1) / (6 N))``.

    k is the number of methods and N the number of sets. q is the quantile of the studentised range of k variables with
    infinite degrees of freedom, divided by the square root of 2.
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - level, n_methods, np.inf)) / 2**0.5
    return q * (n_methods * (n_methods + 1) / (6 * n_sets)) ** 0.5


def friedman(errors: np.ndarray) -> float:
    """Return the p-value of Friedman's test that all methods have equal ranks, for errors (N, k) with k >= 3."""
    from scipy.stats import friedmanchisquare

    return float(friedmanchisquare(*errors.T).pvalue)


def alike(ranks: Mapping[str, float] | pd.Series, difference: float) -> list[tuple[str, ...]]:
    """Maximal groups of two or more methods whose mean ranks differ by less than `difference`, the best group first."""
    names = sorted(ranks.keys(), key=lambda name: ranks[name])
    groups: list[tuple[str, ...]] = []
    for first, name in enumerate(names):
        group = tuple(other for other in names[first:] if ranks[other] - ranks[name] < difference)
        if len(group) > 1 and not (groups and set(group) <= set(groups[-1])):
            groups.append(group)
    return groups


def figure(ranks: Mapping[str, float] | pd.Series, n_sets: int, title: str, path: Path) -> None:
    """Draw the critical-difference diagram: mean ranks, and a bar for each group without significant differences."""
    names = sorted(ranks.keys(), key=lambda name: ranks[name])
    difference = critical_difference(len(names), n_sets)
    groups = alike(ranks, difference)
    left = (len(names) + 1) // 2
    drawn, ((axis,),) = panels(7.0, 1.6 + 0.22 * (left + len(groups)))
    highest = float(len(names))
    axis.set(xlim=(0.2, max(highest, 1 + difference) + 0.8), ylim=(-(0.6 + 0.3 * len(groups) + 0.4 * left), 1.0))
    axis.axis("off")
    axis.plot([1, highest], [0, 0], "k", linewidth=1)
    for rank in range(1, len(names) + 1):
        axis.plot([rank, rank], [0, 0.1], "k", linewidth=1)
        axis.text(rank, 0.15, str(rank), ha="center", va="bottom", fontsize=8)
    axis.plot([1, 1 + difference], [0.65, 0.65], "k", linewidth=2)
    axis.text(1, 0.7, f"critical difference {difference:.2f}, {n_sets} tables", va="bottom", fontsize=8)
    for level, group in enumerate(groups):
        height = -0.2 - 0.3 * level
        axis.plot([ranks[group[0]] - 0.04, ranks[group[-1]] + 0.04], [height, height], "k", linewidth=3)
    for place, name in enumerate(names):
        # The labels of the better half of the methods are on the left and the others on the right, so that lines do not
        # cross.
        on_left = place < left
        height = -(0.4 + 0.3 * len(groups) + 0.4 * (place if on_left else len(names) - 1 - place))
        end = 0.9 if on_left else highest + 0.1
        axis.plot([ranks[name], ranks[name], end], [0, height, height], "k", linewidth=0.8)
        text = f"{name} {ranks[name]:.2f}"
        axis.text(end + (-0.04 if on_left else 0.04), height, text, ha="right" if on_left else "left", va="center")
    drawn.suptitle(title, fontsize=10)
    save(drawn, path)
