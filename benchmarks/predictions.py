"""Predictions and files of models of 4,096 features and of their exports, beside boosting and scikit-learn.

Prints two tables: for rows of 20 numbers, and for data frames of nine columns (numbers, categories, dates, missing
cells). Columns are the least processor time of a call on one thread in milliseconds for 1, 100 and 100,000 rows, the
rows in a second of the last, and the size of the file. Every model gets what it takes in place of a frame, made before
the clock starts: dates as seconds, texts as categories, columns as the inputs of ONNX. The row "copy of the features"
is the time of copying features of this size, which a model that forms its features needs at least.

    python benchmarks/predictions.py [--rows 1 100 100000] [--rounds 6 6 1]

LightGBM, CatBoost and ONNX Runtime are needed (pip install lightgbm catboost phimap[onnx]).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import onnxruntime
import pandas as pd
from catboost import CatBoostRegressor
from lightgbm import LGBMRegressor
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits
from timing import least_seconds

import phimap as pm
from phimap.exports.frames import cells_as_inputs

FEATURES, TRAINING = 4096, 8000
# Rows that the exports predict at a time; more would hold gigabytes of features.
BATCH = 4096


class Way(NamedTuple):
    """A function from rows to predictions, what makes its rows of a table, and its file or folder."""

    predict: Callable[[Any], Any]
    prepare: Callable[[Any], Any]
    file: Path


def numbers(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, 20) and a smooth target."""
    X = rng.standard_normal((n, 20)).astype(np.float32)
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)


def flats(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """A frame of nine columns, three of which lack cells, and the logarithm of a rent."""
    table = pd.DataFrame(
        {
            "area": rng.gamma(2.0, 50.0, n),
            "rooms": rng.integers(1, 9, n),
            "built": rng.integers(1900, 2020, n).astype(float),
            "floor": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 9, n)),
            "town": rng.choice(np.array(["Bern", "Basel", "Zug", "Chur", None], dtype=object), n),
            "street": rng.choice([f"street {place}" for place in range(300)], n),
            "heating": rng.choice(["gas", "oil", "heat pump"], n),
            "let": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 48000, n), unit="h"),
            "lift": rng.random(n) < 0.5,
        }
    )
    of_town = table["town"].map({"Bern": 0.2, "Zug": 0.6}).fillna(0.0)
    y = np.log(table["area"]) + of_town + 0.3 * (table["heating"] == "oil") + 0.1 * rng.standard_normal(n)
    return table, y.to_numpy()


def plain(X: Any) -> Any:
    """Rows with dates as seconds and missing texts as a text of their own; arrays stay."""
    if isinstance(X, np.ndarray):
        return X
    return X.assign(let=(X["let"] - pd.Timestamp(0)).dt.total_seconds(), town=X["town"].fillna("none"))


def categorical(X: Any) -> Any:
    """The same, with texts as categories."""
    X = plain(X)
    return X if isinstance(X, np.ndarray) else X.astype(dict.fromkeys(texts(X), "category"))


def texts(X: Any) -> list[str]:
    return [] if isinstance(X, np.ndarray) else ["town", "street", "heating"]


def our_models(length_scale: float) -> dict[str, Any]:
    """Unfitted models, by name."""
    kernel = pm.kernels.Gaussian(length_scale=length_scale)
    fixed: dict[str, Any] = {"alpha": 1e-2, "metric": None, "random_state": 0}
    return {
        "phimap, default fit": pm.KernelRegressor(random_state=0),
        "phimap, landmarks": pm.KernelRegressor(pm.NystroemFeatures(kernel, FEATURES, random_state=0), **fixed),
        "phimap, Fourier features": pm.KernelRegressor(pm.FourierFeatures(kernel, FEATURES, random_state=0), **fixed),
    }


def exports(model: Any, folder: Path) -> Iterator[tuple[str, Way]]:
    """A model and what `export` and `compress` make of it."""
    encoder = model.encoder_

    def as_is(X: Any) -> Any:
        return X

    def as_inputs(X: Any) -> dict[str, np.ndarray]:
        return {"X": X} if encoder is None else cells_as_inputs(encoder, X)

    pm.export(model, folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])

    def run(inputs: dict[str, np.ndarray]) -> list[Any]:
        n = len(next(iter(inputs.values())))
        parts = (slice(start, start + BATCH) for start in range(0, n, BATCH))
        return [session.run(None, {name: cells[part] for name, cells in inputs.items()}) for part in parts]

    yield "  in ONNX Runtime", Way(run, as_inputs, folder / "model.onnx")
    pm.export(model, folder / "numpy", format="numpy")
    spec: Any = spec_from_file_location("predict", folder / "numpy" / "predict.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield "  with NumPy alone", Way(module.load(folder / "numpy").predict, as_is, folder / "numpy")
    small = pm.compress(model, verbose=False)
    pm.save(small, folder / "small.phimap")
    yield "  compressed, 1 % of the outputs", Way(small.predict, as_is, folder / "small.phimap")


def ways(X: Any, y: np.ndarray, length_scale: float, folder: Path) -> Iterator[tuple[str, Way]]:
    """All models, fitted, by name."""
    for name, model in our_models(length_scale).items():
        pm.save(model.fit(X, y), folder / f"{name}.phimap")
        yield name, Way(model.predict, lambda X: X, folder / f"{name}.phimap")
    yield from exports(model, folder)
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), texts(X)), remainder=SimpleImputer()
    )
    sampler = RBFSampler(gamma=1 / (2 * length_scale**2), n_components=FEATURES, random_state=0)
    pipeline = make_pipeline(*[encode] * bool(texts(X)), StandardScaler(), sampler, Ridge()).fit(plain(X), y)
    joblib.dump(pipeline, folder / "pipeline.joblib")
    yield "StandardScaler, RBFSampler, Ridge", Way(pipeline.predict, plain, folder / "pipeline.joblib")
    light = LGBMRegressor(n_jobs=1, verbose=-1).fit(categorical(X), y)
    light.booster_.save_model(folder / "light.txt")
    yield "LightGBM, 100 trees", Way(light.predict, categorical, folder / "light.txt")
    cat = CatBoostRegressor(thread_count=1, verbose=0, allow_writing_files=False, cat_features=texts(X))
    cat.fit(plain(X), y).save_model(str(folder / "cat.cbm"))
    yield "CatBoost, 1,000 trees", Way(partial(cat.predict, thread_count=1), plain, folder / "cat.cbm")


def copied(n: int) -> Callable[[], None]:
    """A function that copies float32 features of n rows, in blocks that fit the memory."""
    block = np.ones((min(n, BATCH), FEATURES), np.float32)
    out = np.empty_like(block)

    def copy() -> None:
        for start in range(0, n, BATCH):
            np.copyto(out[: n - start], block[: n - start])

    return copy


def size(path: Path) -> int:
    """Bytes of a file, or of the files of a folder."""
    return sum(one.stat().st_size for one in (path.iterdir() if path.is_dir() else [path]) if one.is_file())


def show(title: str, found: dict[str, Way], X: Any, counts: list[int], rounds: list[int]) -> None:
    """Print the table of some models."""
    times = []
    for n, number in zip(counts, rounds, strict=True):
        tasks: dict[str, Callable[[], Any]] = {
            name: partial(way.predict, way.prepare(X[:n])) for name, way in found.items()
        }
        least = least_seconds({**tasks, "copy of the features": copied(n)}, number)
        times.append({name: one.cpu for name, one in least.items()})
    print(
        f"{title:34}"
        + "".join(f"{f'{n:,} ' + ('row' if n == 1 else 'rows'):>14}" for n in counts)
        + f"{'rows/s':>12}{'file':>12}"
    )
    for name in times[0]:
        shown = "".join(f"{1e3 * one[name]:11.2f} ms" for one in times)
        file = f"{size(found[name].file) / 1e6:9.2f} MB" if name in found else ""
        print(f"{name:34}{shown}{counts[-1] / times[-1][name]:12,.0f}{file}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 100, 100_000])
    parser.add_argument("--rounds", nargs="+", type=int, default=[6, 6, 1], help="rounds for each number of rows")
    options = parser.parse_args()
    sys.dont_write_bytecode = True
    for title, make, length_scale in (("20 numbers", numbers, 4.5), ("nine mixed columns", flats, 2.5)):
        X, y = make(max(TRAINING, *options.rows), np.random.default_rng(0))
        with pm.config(n_jobs=1), threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
            found = dict(ways(X[:TRAINING], y[:TRAINING], length_scale, Path(folder)))
            show(title, found, X, options.rows, options.rounds)


if __name__ == "__main__":
    main()
