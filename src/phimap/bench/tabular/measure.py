"""Fits of methods to tables, one by one, and the file that keeps them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import DataError, write_whole
from phimap.bench.tabular.methods import METHODS
from phimap.bench.tabular.tables import TabularSet
from phimap.comparison.measure import attempt, machine, software
from phimap.comparison.methods import Method


@dataclass(frozen=True)
class Measurement:
    """One fit.

    Attributes
    ----------
    dataset, task, method : str
    split : int
        Seed of the permutation.
    width : int
        Number of features that was asked for.
    most_rows : int or None
        Rows that the table was cut to.
    n_rows, n_test, n_columns : int
        Of the training rows, the test rows, the columns.
    error : float
        Root mean squared error over the standard deviation of the test targets, or the share of wrong labels.
    seconds, processor_seconds, predict_seconds : float
        Of the fit, by the clock and added up over cores, and of the prediction of the test rows by the clock.
    memory : float or None
        Bytes by which resident memory rose above what it was before the fit; None where the system does not tell.
    date, machine, software : str
    """

    dataset: str
    task: str
    method: str
    split: int
    width: int
    most_rows: int | None
    n_rows: int
    n_test: int
    n_columns: int
    error: float
    seconds: float
    processor_seconds: float
    predict_seconds: float
    memory: float | None
    date: str
    machine: str
    software: str

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells this fit from the others of a file."""
        return self.dataset, self.method, self.split, self.width, self.most_rows


@dataclass(frozen=True)
class Failure:
    """A fit that was not made, and why."""

    dataset: str
    method: str
    why: str


class Store:
    """Measurements, and a file with a line for each (JSON) that is whole at any moment.

    One run writes a file at a time; several runs take a file each.

    Parameters
    ----------
    path : path-like or None
        None keeps them in memory alone.

    Raises
    ------
    DataError
        If the file is there and holds something else.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None):
        self.path = None if path is None else Path(path)
        self.found: dict[tuple[Any, ...], Measurement] = {}
        if self.path is not None and self.path.exists():
            for one in read(self.path):
                self.found[one.key] = one

    def add(self, measurement: Measurement) -> None:
        """Keep one more, in the file, too."""
        self.found[measurement.key] = measurement
        if self.path is not None:
            lines = "".join(json.dumps(asdict(one)) + "\n" for one in self.found.values())
            write_whole(self.path, lambda file: file.write(lines.encode()))


def read(path: str | os.PathLike[str]) -> list[Measurement]:
    """Measurements of a file."""
    found, names = [], {field.name for field in fields(Measurement)}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            entry = None
        if not isinstance(entry, dict) or set(entry) != names:
            raise DataError(f"line {number} of {path} is not a fit to a table. Name another file, or remove the line.")
        found.append(Measurement(**entry))
    return found


def run(
    table: TabularSet,
    methods: Sequence[str],
    splits: Sequence[int],
    store: Store,
    *,
    width: int = 4096,
    most_rows: int | None = None,
    failures: list[Failure] | None = None,
    known: Mapping[str, Method] = METHODS,
) -> Iterator[Measurement]:
    """Fit the methods to every split of a table; fits in the store are not repeated.

    Parameters
    ----------
    table : TabularSet
    methods : sequence of str
        Keys of `known`.
    splits : sequence of int
    store : Store
        Takes each measurement when it is made.
    width : int
        Number of features.
    most_rows : int or None
        Rows of the table that are used.
    failures : list of Failure or None
        Takes what was not fitted: a package that is missing, too many rows, an error. Such fits are in no file, so
        that the next run tries them again.
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
                failures.append(Failure(table.name, name, one))
                continue
            measurement = Measurement(
                table.name,
                table.task,
                name,
                split,
                width,
                most_rows,
                len(train),
                len(test),
                X.shape[1],
                error_of(table.task, table.y[test], one.predicted),
                one.seconds,
                one.processor_seconds,
                one.predict_seconds,
                one.memory,
                f"{date.today():%Y-%m-%d}",
                machine(),
                software(method),
            )
            store.add(measurement)
            yield measurement


def error_of(task: str, y: np.ndarray, predicted: np.ndarray) -> float:
    """Root mean squared error over the standard deviation of `y`, or the share of labels that differ from `y`."""
    if predicted.shape != y.shape:
        raise ValueError(f"predictions must have shape {y.shape}, got {predicted.shape}.")
    if task == "classification":
        return float(np.mean(predicted != y))
    return float(np.sqrt(np.mean(np.square(predicted - y))) / y.std())
