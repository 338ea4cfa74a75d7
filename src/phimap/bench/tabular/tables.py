"""The tables, and how their rows are split."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phimap.bench.datasets import MEDIUM, locate
from phimap.bench.uci import load_collection, load_regression

# Names of the regression sets, and of the classification sets in the file `MEDIUM` and in the UCI collection.
_NAMES = (
    """elevators keggdirected kin40k parkinsons pol pumadyn32nm sml bike skillcraft cal_housing house_8L cpu_act kin8nm
    bank8FM bank32nh puma8NH ailerons delta_elevators abalone house_16H wind protein""",
    "ijcnn1 adult shuttle satimage pendigits optdigits letter magic04 htru2 musk2 texture skin connect4",
    "chess-krvk nursery spambase waveform-noise wine-quality-white wall-following bank thyroid",
)
REGRESSION, _MEDIUM_SETS, _COLLECTION_SETS = (tuple(names.split()) for names in _NAMES)
CLASSIFICATION = (*_MEDIUM_SETS, *_COLLECTION_SETS)
#: Small sets that ship with scikit-learn, for a trial without files. The default run does not include them.
SHIPPED = {"diabetes": "regression", "digits": "classification"}
#: Names that stand for several sets.
GROUPS = {"regression": REGRESSION, "classification": CLASSIFICATION}
# Number of codes per column, for tables whose columns hold unordered codes.
_ONE_HOT = {"connect4": 3}


@dataclass(frozen=True)
class TabularSet:
    """All rows of a table.

    Attributes
    ----------
    name : str
    task : str
        ``"regression"`` or ``"classification"``.
    X : ndarray of shape (n, d)
        Rows in float32, in the units of the source.
    y : ndarray of shape (n,)
        Targets in float64, or labels 0, 1, ...
    """

    name: str
    task: str
    X: np.ndarray
    y: np.ndarray

    def split(self, number: int, most_rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return training and test rows. The test rows are the first fifth of the permutation with seed `number`."""
        order = np.random.default_rng(number).permutation(len(self.y))[:most_rows]
        return order[len(order) // 5 :], order[: len(order) // 5]


def expand(names: Sequence[str] | None) -> list[str]:
    """Replace the names of groups by the names of their sets. None means all groups."""
    known = (*GROUPS, *REGRESSION, *CLASSIFICATION, *SHIPPED)
    chosen: list[str] = []
    for name in GROUPS if names is None else names:
        if name not in known:
            raise ValueError(f"--sets must be among {', '.join(known)}, got {name!r}.")
        chosen += GROUPS.get(name, (name,))
    return list(dict.fromkeys(chosen))


def load(name: str, folder: str | os.PathLike[str] | None) -> TabularSet:
    """Read a set, and join the training and test parts if the source separates them.

    Parameters
    ----------
    name : str
        A member of `REGRESSION`, `CLASSIFICATION` or `SHIPPED`.
    folder : path-like or None
        Folder of the files; None means the folder in the environment variable ``PHIMAP_DATA``.

    Notes
    -----
    Rows of thyroid that are in its separate test file are left out, as in `phimap.bench.uci.load_collection`. The codes
    of connect4 become indicators. The two columns of bike that add up to the target are left out.
    """
    if name in REGRESSION or SHIPPED.get(name) == "regression":
        X, y = load_regression(name, folder)
        return TabularSet(name, "regression", X.astype(np.float32), y)
    X, y = _classified(name, folder)
    labels = np.unique(y, return_inverse=True)[1]
    return TabularSet(name, "classification", X.astype(np.float32), labels)


def _classified(name: str, folder: str | os.PathLike[str] | None) -> tuple[np.ndarray, np.ndarray]:
    if name in _COLLECTION_SETS:
        (found,) = load_collection(folder, [name])
        return found.X, found.y
    if name in SHIPPED:
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
        return np.asarray(X), np.asarray(y)
    with np.load(locate(MEDIUM, folder), allow_pickle=False) as arrays:
        ends = ("tr", "te") if f"{name}_Xtr" in arrays else ("",)
        X, y = (np.concatenate([arrays[f"{name}_{part}{end}"] for end in ends]) for part in ("X", "y"))
    if name in _ONE_HOT:
        X = (X[:, :, None] == np.arange(_ONE_HOT[name])).reshape(len(X), -1)
    return X, y
