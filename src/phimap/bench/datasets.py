"""The data sets of the experiments, read from a folder that the user specifies."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from phimap._files import DataError

_FOLDER = "PHIMAP_DATA"
#: Name of the file with the classification sets of medium size.
MEDIUM = "medium_classification.npz"


@dataclass(frozen=True)
class Source:
    """The file of a data set, and how its columns are scaled.

    Attributes
    ----------
    file : str
        File in the folder, or "" for the set that ships with scikit-learn.
    key : str
        Prefix of the names of the set's arrays in the file.
    scaling : str
        ``"none"``; ``"minmax"``, each column to [0, 1]; ``"pixels"``, all columns to [0, 1] with one common factor; or
        ``"mapstd"``, each column to mean 0 and variance 1.
    clip : float
        Share of the values in each tail of each column that are clipped to the quantile, to limit gross outliers.
    """

    file: str
    key: str
    scaling: str
    clip: float = 0.0


#: Sets by name. Sets from Table 6 of Liu et al. (2021) are scaled as that table states.
SETS = {
    "ijcnn1": Source(MEDIUM, "ijcnn1", "none"),
    "EEG": Source(MEDIUM, "eeg_eye", "mapstd", clip=0.001),
    "magic04": Source(MEDIUM, "magic04", "minmax"),
    "letter": Source(MEDIUM, "letter", "minmax"),
    "skin": Source(MEDIUM, "skin", "minmax"),
    "a8a": Source(MEDIUM, "a8a", "none"),
    "adult": Source(MEDIUM, "adult", "minmax"),
    "Cov-Type": Source("covtype.npz", "covtype", "minmax"),
    "Census": Source("census.npz", "census", "mapstd"),
    "Fashion-MNIST": Source("fashion_mnist.npz", "", "pixels"),
    "sonar": Source("uci_classification.npz", "sonar", "mapstd"),
    "MNIST": Source("mnist.npz", "", "pixels"),
    "digits": Source("", "", "pixels"),
}


@dataclass(frozen=True)
class Dataset:
    """Training and test set, with scaled rows in float32 and labels 0, 1, ..."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def of_classes(self, first: int, second: int, labels: tuple[float, float]) -> tuple[np.ndarray, ...]:
        """Return X, y, X_test and y_test of the rows of two classes, with new labels for both classes."""
        found = []
        for X, y in ((self.X, self.y), (self.X_test, self.y_test)):
            kept = np.isin(y, (first, second))
            found += [X[kept], np.where(y[kept] == first, *labels)]
        return tuple(found)


def load(name: str, folder: str | os.PathLike[str] | None, seed: int = 0) -> Dataset:
    """Read, split and scale a set.

    Parameters
    ----------
    name : str
        A key of `SETS`.
    folder : path-like or None
        Folder of the files; None means the folder in the environment variable ``PHIMAP_DATA``.
    seed : int, default=0
        Seed of the random split into halves, for sets without a published split.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If there is no set of this name.
    DataError
        If the file of the set does not exist.
    """
    if name not in SETS:
        raise ValueError(f"the data set must be one of {', '.join(SETS)}, got {name!r}.")
    source = SETS[name]
    X, y, X_test, y_test = _digits(seed) if not source.file else _read(source, locate(source.file, folder), seed)
    scale = _scaling(source, X)
    return Dataset(name, scale(X), y, scale(X_test), y_test)


def locate(file: str, folder: str | os.PathLike[str] | None) -> Path:
    """Return the path of a file in `folder`, or in the folder that the environment variable ``PHIMAP_DATA`` names.

    Raises
    ------
    DataError
        If no folder is named, or the file does not exist.
    """
    folder = folder if folder is not None else os.environ.get(_FOLDER)
    if folder is None:
        raise DataError(
            f"this data set is read from {file} in a folder of yours. Name it with --data or {_FOLDER}; the set "
            "digits needs none."
        )
    path = Path(folder) / file
    if not path.is_file():
        raise DataError(
            f"there is no file {path}. Name the folder that holds {file} with --data, or make it as the "
            "guide, Data files of the experiments, tells."
        )
    return path


def locate_first(files: Sequence[str], folder: str | os.PathLike[str] | None) -> Path:
    """Return the path of the first of `files` that exists in the folder. If none exists, raise `DataError`."""
    for file in files:
        try:
            return locate(file, folder)
        except DataError:
            continue
    return locate(" or ".join(files), folder)


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Scale rows to norm 1, in float32. Zero rows stay zero."""
    X = X.astype(np.float64)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return (X / np.where(norms > 0, norms, 1.0)).astype(np.float32)


def standardised(rows: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Standardise `rows`, in float32, by the means and deviations of the columns of `X`.

    Columns that are constant in `X` are only shifted by their mean.
    """
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    return ((rows - mean) / np.where(deviation > 0, deviation, 1.0)).astype(np.float32)


def _read(source: Source, path: Path, seed: int) -> tuple[np.ndarray, ...]:
    with np.load(path, allow_pickle=False) as file:
        if not source.key:
            arrays = tuple(file[key] for key in ("X_train", "y_train", "X_test", "y_test"))
            return tuple(a.reshape(len(a), -1) if a.ndim > 2 else a for a in arrays)
        if f"{source.key}_X" in file:
            return _halves(file[f"{source.key}_X"], file[f"{source.key}_y"], seed)
        X, X_test = _matrices(file, (f"{source.key}_Xtr", f"{source.key}_Xte"))
        return X, file[f"{source.key}_ytr"], X_test, file[f"{source.key}_yte"]


def _matrices(file: np.lib.npyio.NpzFile, keys: tuple[str, ...]) -> list[np.ndarray]:
    """Read arrays. Arrays stored as CSR parts become dense, all with the same number of columns."""
    if keys[0] in file:
        return [file[key] for key in keys]
    parts = [tuple(file[f"{key}_{part}"] for part in ("data", "indices", "indptr")) for key in keys]
    n_columns = 1 + max(int(indices.max(initial=-1)) for _, indices, _ in parts)
    return [sparse.csr_array(part, shape=(len(part[2]) - 1, n_columns)).toarray() for part in parts]


def _digits(seed: int) -> tuple[np.ndarray, ...]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return _halves(np.asarray(X), np.asarray(y), seed)


def _halves(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = np.array_split(order, 2)
    return X[train], y[train], X[test], y[test]


def _scaling(source: Source, X: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that scales rows, with parameters determined from the training rows `X`."""
    X = X.astype(np.float64)
    lowest, highest = np.quantile(X, [source.clip, 1 - source.clip], axis=0)
    X = np.clip(X, lowest, highest)
    if source.scaling == "none":
        shift, width = np.zeros(X.shape[1]), np.ones(X.shape[1])
    elif source.scaling == "minmax":
        shift, width = X.min(axis=0), np.ptp(X, axis=0)
    elif source.scaling == "pixels":
        shift, width = np.full(X.shape[1], X.min()), np.full(X.shape[1], np.ptp(X))
    else:
        shift, width = X.mean(axis=0), X.std(axis=0)
    width = np.where(width > 0, width, 1.0)

    def scale(rows: np.ndarray) -> np.ndarray:
        rows = np.clip(rows, lowest, highest) if source.clip else rows
        return ((rows - shift) / width).astype(np.float32)

    return scale
