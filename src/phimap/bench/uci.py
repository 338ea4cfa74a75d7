"""UCI regression sets and the partitioned UCI classification collection, from a folder that the user names."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from phimap._files import DataError
from phimap.bench.datasets import locate

_PROTEIN, _COLLECTION = "protein.csv.gz", "uci121.npz"
# Regression sets by file. The set diabetes ships with scikit-learn and has no file.
_FILES = {
    _PROTEIN: "protein",
    "uci_regression.npz": "kin40k elevators pol bike parkinsons keggdirected pumadyn32nm sml skillcraft",
    "regression_extra.npz": "cal_housing house_16H cpu_act ailerons house_8L kin8nm bank8FM bank32nh puma8NH "
    "delta_elevators abalone wind",
    "uci_large.npz": "MillionSongs WorkLoads CT SuperConduct",
    "": "diabetes",
}
#: Files of the regression sets by name.
REGRESSION = {name: file for file, names in _FILES.items() for name in names.split()}
# Columns that are kept. The last two columns of bike count casual and registered users and add up to the target.
_KEPT = {"bike": slice(15)}
# Sets that are left out, because no classifier beats the majority class. Their labels were probably misread.
_UNUSABLE = ("congressional-voting", "statlog-australian-credit")


def load_regression(name: str, folder: str | os.PathLike[str] | None) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (n, d) and targets (n,) of a set, in raw units. Raise for unknown names and missing files."""
    if name not in REGRESSION:
        raise ValueError(f"the regression set must be one of {', '.join(REGRESSION)}, got {name!r}.")
    file = REGRESSION[name]
    if not file:
        from sklearn.datasets import load_diabetes

        X, y = load_diabetes(return_X_y=True)
        return np.asarray(X), np.asarray(y)
    path = locate(file, folder)
    if file == _PROTEIN:
        # The first column, rmsd, is the target.
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        return table[:, 1:], table[:, 0]
    with np.load(path, allow_pickle=False) as arrays:
        if f"{name}_X" not in arrays:
            raise DataError(f"there is no set {name} in {path}. benchmarks/data_files.py {name} puts it there.")
        X, y = arrays[f"{name}_X"], arrays[f"{name}_y"]
    return X[:, _KEPT.get(name, slice(None))].astype(np.float64), y.astype(np.float64)


@dataclass(frozen=True)
class Partitioned:
    """A classification set, with the partitions that the collection defines.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n, d)
        Rows, standardised as in the source.
    y : ndarray of shape (n,)
    validation : ndarray of bool, shape (n,)
        Mask of the validation rows on which hyper-parameters are chosen; the other rows are used for the fit.
    tests : ndarray of bool, shape (4, n)
        Masks of the test rows of the four splits.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    validation: np.ndarray
    tests: np.ndarray


def load_collection(
    folder: str | os.PathLike[str] | None, names: list[str] | None = None, most_rows: int = 5000
) -> list[Partitioned]:
    """Load the sets with at most `most_rows` rows, in the order of the collection.

    Rows of separate test files are left out, because they are not in any split, and in many sets their scale differs.
    Two sets whose labels were probably misread are left out as well, unless `names` contains them.

    Parameters
    ----------
    folder : path-like or None
        Folder of the file; None means the folder in the environment variable ``PHIMAP_DATA``.
    names : list of str or None
        If given, load only these sets, of any size.
    most_rows : int

    Raises
    ------
    ValueError
        If a name is not in the collection.
    DataError
        If the file does not exist.
    """
    found = []
    with np.load(locate(_COLLECTION, folder), allow_pickle=False) as arrays:
        known = [key.removesuffix("_test4") for key in arrays.files if key.endswith("_test4")]
        for name in names or ():
            if name not in known:
                raise ValueError(f"--sets must be among {', '.join(known)}, got {name!r}.")
        for name in names or [name for name in known if name not in _UNUSABLE]:
            partition, bits = arrays[f"{name}_val"], arrays[f"{name}_test4"]
            kept = partition < 2
            if names is None and kept.sum() > most_rows:
                continue
            X, y = arrays[f"{name}_X"][kept].astype(np.float64), arrays[f"{name}_y"][kept]
            tests = np.array([bits[kept] >> k & 1 for k in range(4)]).astype(bool)
            found.append(Partitioned(name, X, y, partition[kept] == 1, tests))
    return found
