"""Make a set of the experiments' data files from a table of yours, or from OpenML where there is a network.

Reads any table that ``phimap fit`` reads (CSV as UCI has them, Parquet as OpenML has them, libsvm text); columns of
text become indicators, missing numbers the median. docs/howto/data_files.md has the layout of every file and where its
sets come from.

    python benchmarks/data_files.py letter DIR/medium_classification.npz --table letter.libsvm --target label
    python benchmarks/data_files.py letter DIR/medium_classification.npz --table train.csv --test test.csv --target y
    python benchmarks/data_files.py kin8nm DIR/regression_extra.npz --openml kin8nm --target y
    python benchmarks/data_files.py WorkLoads DIR/uci_large.npz --table Range-Queries-Aggregates.csv --target avg \
        --leave-out 0 --distinct
    python benchmarks/data_files.py covtype DIR/covtype.npz --table covtype.csv --target Cover_Type
    python benchmarks/data_files.py cifar10 DIR/cifar10_full.npz --archive cifar-10-binary.tar.gz
    python benchmarks/data_files.py cifar10 DIR/cifar10_full.npz --archive https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz
    python benchmarks/data_files.py fashion DIR/fashion_mnist.npz --idx FOLDER
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import shutil
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import write_whole
from phimap.io import open_frame
from phimap.tables import TableEncoder

# Folds of the files whose rows are tested once each.
FOLDS = 10
# CIFAR-10, binary version, https://www.cs.toronto.edu/~kriz/cifar.html: its published MD5, the files of images, and the
# bytes of an image: a label, then planes of red, green and blue.
CIFAR10_MD5 = "c32a1d4ab5d03f1284b67883e8d87530"
CIFAR10_FILES = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}
CIFAR10_PLANES = (3, 32, 32)
IDX_FILES = {"train": "train", "test": "t10k"}


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


def local(archive: str, folder: Path) -> Path:
    """The path of an archive; one that is given by its address is downloaded into `folder`."""
    if "://" not in archive:
        return Path(archive)
    path = folder / archive.rpartition("/")[2]
    with urllib.request.urlopen(archive) as stream:
        write_whole(path, lambda file: shutil.copyfileobj(stream, file))
    return path


def from_cifar10(archive: Path, md5: str = CIFAR10_MD5) -> dict[str, np.ndarray]:
    """Images (n, 32, 32, 3) and labels of the official archive in its binary version, once its checksum is right."""
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        raise ValueError(
            f"{archive} must be the official binary version, of MD5 {md5}, got {found}. Download it again."
        )
    arrays = {}
    with tarfile.open(archive) as files:
        by_name = {Path(member.name).name: member for member in files if member.isfile()}
        for part, names in CIFAR10_FILES.items():
            streams: list[Any] = [files.extractfile(by_name[name]) for name in names]
            rows = np.concatenate([np.frombuffer(stream.read(), np.uint8) for stream in streams])
            rows = rows.reshape(-1, 1 + int(np.prod(CIFAR10_PLANES)))
            arrays[f"y_{part}"] = rows[:, 0].copy()
            arrays[f"X_{part}"] = np.moveaxis(rows[:, 1:].reshape(-1, *CIFAR10_PLANES), 1, -1).copy()
    return arrays


def from_idx(folder: Path) -> dict[str, np.ndarray]:
    """Images (n, h, w) in bytes and labels of the four IDX files of MNIST and Fashion-MNIST, packed by gzip or not."""
    arrays = {}
    for part, prefix in IDX_FILES.items():
        for key, kind in (("X", "images-idx3"), ("y", "labels-idx1")):
            path = next((one for one in sorted(folder.glob(f"{prefix}-{kind}-ubyte*"))), None)
            if path is None:
                raise ValueError(f"{folder} must hold {prefix}-{kind}-ubyte or its .gz. Download it from its authors.")
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            # Two zeros, 8 for bytes, the number of axes, and their lengths as big-endian words.
            shape = np.frombuffer(data, ">i4", count=data[3], offset=4)
            arrays[f"{key}_{part}"] = np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape).copy()
    return arrays


def without(columns: Any, y: np.ndarray, positions: list[int], distinct: bool) -> tuple[Any, np.ndarray]:
    """The table without those columns, and, if `distinct`, sorted, once each, without rows that lack a number."""
    columns = columns.select([name for i, name in enumerate(columns.column_names) if i not in positions])
    if not distinct:
        return columns, y
    numbers = np.column_stack([*(columns[name].to_numpy() for name in columns.column_names), y]).astype(float)
    numbers = np.unique(numbers[~np.isnan(numbers).any(axis=1)], axis=0)
    import pyarrow as pa

    return pa.table(dict(zip(columns.column_names, numbers.T, strict=False))), numbers[:, -1]


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
    source.add_argument("--archive", help="cifar-10-binary.tar.gz, a file or its address; its checksum is verified")
    source.add_argument("--idx", type=Path, help="folder of the four IDX files of MNIST or Fashion-MNIST")
    parser.add_argument("--test", type=Path, help="table of the published test rows")
    parser.add_argument("--target", help="column to be predicted; of OpenML its own by default")
    parser.add_argument("--task", choices=("classification", "regression"), default=None)
    parser.add_argument("--folds", action="store_true", help=f"draw {FOLDS} folds, as uci_regression.npz has them")
    parser.add_argument("--leave-out", type=int, nargs="+", default=[], help="columns, by position among the inputs")
    parser.add_argument("--distinct", action="store_true", help="rows of numbers once each, sorted; none with a gap")
    arguments = parser.parse_args()
    if arguments.archive is not None or arguments.idx is not None:
        folder = arguments.file.parent
        images = (
            from_idx(arguments.idx) if arguments.idx is not None else from_cifar10(local(arguments.archive, folder))
        )
        arrays: dict[str, Any] = dict(images)
        write_whole(arguments.file, lambda stream: np.savez_compressed(stream, **arrays))
        print(f"{arguments.file}: {len(arrays['X_train'])} and {len(arrays['X_test'])} images")
        return
    if arguments.table is not None and arguments.target is None:
        parser.error("--target must name a column of --table")
    if arguments.table is not None:
        train, y = columns_of(arguments.table, arguments.target)
        train, y = without(train, y, arguments.leave_out, arguments.distinct)
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
