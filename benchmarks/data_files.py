"""Make a set of the experiments' data files from a table of yours, or from OpenML where there is a network.

Reads any table that ``phimap fit`` reads (CSV as UCI has them, Parquet as OpenML has them, libsvm text); columns of
text become indicators, missing numbers the median. docs/guide/data_files.md has the layout of every file and where its
sets come from.

    python benchmarks/data_files.py letter DIR/medium_classification.npz --table letter.libsvm --target label
    python benchmarks/data_files.py letter DIR/medium_classification.npz --table train.csv --test test.csv --target y
    python benchmarks/data_files.py kin8nm DIR/regression_extra.npz --openml kin8nm --target y
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import write_whole
from phimap.io import open_frame
from phimap.tables import TableEncoder

# Folds of the files whose rows are tested once each.
FOLDS = 10


def columns_of(path: Path, target: str) -> tuple[Any, np.ndarray]:
    """Columns of a table and its targets."""
    import pyarrow as pa

    batches: list[tuple[Any, Any]] = list(open_frame(path, target).batches())
    return pa.concat_tables([columns for columns, _ in batches]), np.concatenate([y for _, y in batches])


def from_openml(name: str, target: str | None) -> tuple[Any, np.ndarray]:
    """Columns and targets of a set of OpenML, ``name`` or ``name:version``, which is downloaded."""
    from sklearn.datasets import fetch_openml

    name, _, version = name.partition(":")
    found: Any = fetch_openml(
        name, version=int(version) if version else "active", as_frame=True, target_column=target or "default-target"
    )
    return found.data, found.target.to_numpy()


def encoded(train: Any, others: list[Any]) -> list[np.ndarray]:
    """Numbers of the columns of `train` and of tables with the same columns, encoded as `train` asks for."""
    encoder = TableEncoder().fit(train)
    return [np.asarray(encoder.transform(table), dtype=np.float32) for table in (train, *others)]


def numbered(y: np.ndarray, classes: np.ndarray | None) -> np.ndarray:
    """Labels as positions among the classes; numbers stay."""
    return y.astype(np.float32) if classes is None else np.searchsorted(classes, y).astype(np.int32)


def add(file: Path, name: str, arrays: dict[str, np.ndarray]) -> None:
    """Put arrays called ``name_key`` into an .npz file beside those that are there; older ones of the set go."""
    kept: dict[str, np.ndarray] = {}
    if file.exists():
        with np.load(file, allow_pickle=False) as there:
            keys = ("X", "y", "Xtr", "ytr", "Xte", "yte", "fold")
            kept = {key: there[key] for key in there.files if key not in {f"{name}_{one}" for one in keys}}
    kept |= {f"{name}_{key}": array for key, array in arrays.items()}
    arguments: dict[str, Any] = dict(kept)
    write_whole(file, lambda stream: np.savez_compressed(stream, **arguments))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the set, as the experiments call it")
    parser.add_argument("file", type=Path, help=".npz file that gets it; it is made if there is none")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--table", type=Path)
    source.add_argument("--openml", help="name, or name:version")
    parser.add_argument("--test", type=Path, help="table of the published test rows")
    parser.add_argument("--target", help="column to be predicted; of OpenML its own by default")
    parser.add_argument("--task", choices=("classification", "regression"), default=None)
    parser.add_argument("--folds", action="store_true", help=f"draw {FOLDS} folds, as uci_regression.npz has them")
    arguments = parser.parse_args()
    if arguments.table is not None and arguments.target is None:
        parser.error("--target must name a column of --table")
    if arguments.table is not None:
        train, y = columns_of(arguments.table, arguments.target)
    else:
        train, y = from_openml(arguments.openml, arguments.target)
    test, y_test = columns_of(arguments.test, arguments.target) if arguments.test else (None, None)
    task = arguments.task or ("regression" if np.asarray(y).dtype.kind == "f" else "classification")
    classes = np.unique(y) if task == "classification" else None
    X, *others = encoded(train, [] if test is None else [test])
    if y_test is not None:
        labels = {"ytr": numbered(y, classes), "yte": numbered(y_test, classes)}
        arrays = {"Xtr": X, "Xte": others[0], **labels}
    else:
        arrays = {"X": X, "y": numbered(y, classes)}
    if arguments.folds:
        arrays["fold"] = (np.random.default_rng(0).permutation(len(X)) % FOLDS).astype(np.uint8)
    add(arguments.file, arguments.name, arrays)
    kinds = "numbers" if classes is None else f"{len(classes)} classes"
    print(f"{arguments.file}: {arguments.name}, {len(X)} rows of {X.shape[1]} columns, {kinds}")


if __name__ == "__main__":
    main()
