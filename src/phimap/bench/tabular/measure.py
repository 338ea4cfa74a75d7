"""Fit methods to tables one by one, and store the results in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from phimap._files import DataError, write_whole
from phimap.bench.tabular.methods import METHODS
from phimap.bench.tabular.tables import TabularSet
from phimap.comparison.measure import attempt, machine, software
from phimap.comparison.methods import Method

#: Names of the values that are stored for each fit, in this order. `split` is the seed of the permutation. `most_rows`
#: is the number of rows to which the table was cut, or None. `error` is the root mean squared error divided by the
#: standard deviation of the test targets, or the share of wrong labels. `log_loss` is the mean negative logarithm of
#: the probability of the true label, or None without probabilities. `seconds` is the elapsed time of the fit, and
#: `processor_seconds` the sum over cores. `memory` is the increase of resident memory during the fit in bytes, or None
#: if the system does not measure it.
COLUMNS = (
    *("dataset", "task", "method", "split", "width", "most_rows", "n_rows", "n_test", "n_columns"),
    *("error", "log_loss", "seconds", "processor_seconds", "predict_seconds", "memory", "date", "machine", "software"),
)
_KEY = ("dataset", "method", "split", "width", "most_rows")

Fit = Mapping[str, Any]


class Store:
    """Results of fits, stored in a file with one line of JSON each. Every change replaces the whole file.

    Only one run may write to a file at a time; concurrent runs need separate files.

    Parameters
    ----------
    path : path-like or None
        None keeps the fits in memory only.

    Raises
    ------
    DataError
        If the file exists and its contents are not fits.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None):
        self.path = None if path is None else Path(path)
        known = read(self.path) if self.path is not None and self.path.exists() else []
        self.found: dict[tuple[Any, ...], Fit] = {tuple(one[name] for name in _KEY): one for one in known}

    def add(self, fit: Fit) -> None:
        """Add a fit to the store and to its file."""
        self.found[tuple(fit[name] for name in _KEY)] = fit
        if self.path is not None:
            lines = "".join(json.dumps(one) + "\n" for one in self.found.values())
            write_whole(self.path, lambda file: file.write(lines.encode()))


def read(path: str | os.PathLike[str]) -> list[Fit]:
    """Read the fits stored in a file."""
    found = []
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            entry = None
        if not isinstance(entry, dict) or {"log_loss", *entry} != set(COLUMNS):
            raise DataError(f"line {number} of {path} is not a fit to a table. Name another file, or remove the line.")
        # Files of earlier versions have no log loss.
        found.append({"log_loss": None} | entry)
    return found


def run(
    table: TabularSet,
    methods: Sequence[str],
    splits: Sequence[int],
    store: Store,
    *,
    width: int | None = None,
    most_rows: int | None = None,
    failures: list[tuple[str, str, str]] | None = None,
    known: Mapping[str, Method] = METHODS,
) -> Iterator[Fit]:
    """Fit the methods to every split of a table, except for fits that are in the store.

    Parameters
    ----------
    table : TabularSet
    methods : sequence of str
        Keys of `known`.
    splits : sequence of int
    store : Store
        Receives each new fit.
    width : int or None
        Number of features; None leaves it to the methods.
    most_rows : int or None
        Maximum number of rows of the table that are used.
    failures : list or None
        Receives method, reason and table of each fit that failed. Reasons are a missing package, too many rows, or an
        error. Failed fits are not stored, so that the next run tries them again.
    known : mapping of str to Method
    """
    failures = [] if failures is None else failures
    for split in splits:
        train, test = table.split(split, most_rows)
        for name in methods:
            method, key = known[name], (table.name, name, split, width, most_rows)
            if key in store.found:
                yield store.found[key]
                continue
            X, y, X_test = table.X[train], table.y[train], table.X[test]
            one = attempt(method, table.task, width, split, X, y, X_test)
            if isinstance(one, str):
                failures.append((name, one, table.name))
                continue
            facts = (table.name, table.task, name, split, width, most_rows, len(train), len(test), X.shape[1])
            error = error_of(table.task, table.y[test], one.predicted)
            loss = log_loss_of(one.model, X_test, table.y[test]) if table.task == "classification" else None
            spent = (one.seconds, one.processor_seconds, one.predict_seconds, one.memory)
            origin = (f"{date.today():%Y-%m-%d}", machine(), software(method))
            store.add(dict(zip(COLUMNS, (*facts, error, loss, *spent, *origin), strict=True)))
            yield store.found[key]


def error_of(task: str, y: np.ndarray, predicted: np.ndarray) -> float:
    """Root mean squared error divided by the standard deviation of `y`, or the share of labels that differ from `y`."""
    if predicted.shape != y.shape:
        raise ValueError(f"predictions must have shape {y.shape}, got {predicted.shape}.")
    if task == "classification":
        return float(np.mean(predicted != y))
    return float(np.sqrt(np.mean(np.square(predicted - y))) / y.std())


def log_loss_of(model: Any, X: np.ndarray, y: np.ndarray) -> float | None:
    """Log loss of the probabilities of a fitted classifier; None if the classifier gives no probabilities.

    A label that the classifier has not seen has the probability 0. Scikit-learn raises a probability of 0 to the
    spacing of floating-point numbers at 1.
    """
    if not hasattr(model, "predict_proba"):
        return None
    labels = np.union1d(model.classes_, y)
    probabilities = np.zeros((len(y), len(labels)))
    probabilities[:, np.searchsorted(labels, model.classes_)] = model.predict_proba(X)
    # Probabilities in float32 add up to one only to their rounding.
    return float(log_loss(y, probabilities / probabilities.sum(axis=1, keepdims=True), labels=labels))
