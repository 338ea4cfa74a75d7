"""The constants of this machine, measured in a few seconds."""

from __future__ import annotations

import datetime
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from phimap.advice.speed import best_seconds, product_speed
from phimap.config import thread_count
from phimap.features import FourierFeatures, NTKFeatures
from phimap.io import open_table
from phimap.kernels import Gaussian
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.random_map import RandomMap
from phimap.theory import REFERENCE, Machine

# Number of rows and width of a typical batch of features in a learner; number of columns of the table that `Machine`
# assumes.
_ROWS, _WIDTH, _COLUMNS = 4096, 2048, 28
_MAP_WIDTH = 1024
# Number of rows of the files whose reading is timed. They have some 10 MB of text.
_FILE_ROWS = 30_000


def measure_machine(base: Machine = REFERENCE) -> Machine:
    """Measure the constants of this machine, for `theory.cost`.

    Parameters
    ----------
    base : Machine, optional
        Supplies the constants that are not measured: the network, the memory of a process, and, if pyarrow is not
        installed, the speed of reading CSV and Parquet files.

    Returns
    -------
    Machine

    Notes
    -----
    Every constant is the best of three timings of processor time on one thread; files are read from the system's cache.
    The float32 speed is measured with a Gram matrix of 2,048 features, as learners compute it, without the time for
    adding the products to the running sums.

    **Error.** About 5 % on an idle machine. On a busy machine the constants are worse, because cores share caches and
    memory.

    **Cost.** About five seconds, mostly for loading compiled functions.

    **Differs from the source.** There is no source: these are measurements.

    References
    ----------
    None.

    Examples
    --------
    >>> import phimap as pm
    >>> machine = pm.measure_machine()  # doctest: +SKIP
    >>> pm.theory.cost(10**9, 28, 4096, machine=machine).seconds  # doctest: +SKIP
    """
    rng = np.random.default_rng(0)
    bandwidth = _bandwidth()
    rows = rng.standard_normal((_ROWS, _COLUMNS)).astype(np.float32)
    maps = {
        "dense": FourierFeatures(Gaussian(5.0), _MAP_WIDTH, projection="gaussian", random_state=0, n_jobs=1),
        "structured": FourierFeatures(Gaussian(5.0), _MAP_WIDTH, projection="sorf", random_state=0, n_jobs=1),
        "ntk": NTKFeatures(1, _MAP_WIDTH, random_state=0, n_jobs=1),
    }
    return replace(
        base,
        name=f"{platform.processor() or platform.machine()}, one of {thread_count(-1)} cores, {datetime.date.today()}",
        single=_gram_speed(bandwidth),
        double=product_speed("float64", 1, time.process_time),
        bandwidth=bandwidth,
        **{name: _feature_seconds(one, rows) for name, one in maps.items()},
        **_decoding(rng),
    )


def _seconds(work: Callable[[], Any]) -> float:
    """Shortest processor time of `work` in several runs. The time of other processes is not counted."""
    return best_seconds(work, time.process_time)


def _bandwidth() -> float:
    """Memory bandwidth in bytes per second, from adding a float32 to a float64 array, both larger than caches."""
    target, values = np.zeros((_ROWS, _WIDTH)), np.ones((_ROWS, _WIDTH), dtype=np.float32)
    n_bytes = 2 * target.nbytes + values.nbytes
    return n_bytes / _seconds(lambda: np.add(target, values, out=target))


def _gram_speed(bandwidth: float) -> float:
    """Speed of the float32 products of a Gram matrix on one thread, in 10^9 operations per second."""
    Z = np.random.default_rng(0).random((_ROWS, _WIDTH), dtype=np.float32)
    triangle = BlockTriangle.zeros(_WIDTH)
    seconds = _seconds(lambda: triangle.add_products(Z, n_jobs=1))
    # Memory traffic of the addition: the float64 sums are read and written, and so are the float32 products, which have
    # half the size.
    adding = 3 * triangle.data.nbytes / bandwidth
    return float(_ROWS) * _WIDTH**2 / max(seconds - adding, seconds / 2) / 1e9


def _feature_seconds(feature_map: RandomMap, rows: np.ndarray) -> float:
    """Seconds that a map takes for one feature of one row."""
    drawn = feature_map.fit(rows[:1000])
    return _seconds(lambda: drawn.transform(rows)) / (len(rows) * _MAP_WIDTH)


def _decoding(rng: np.random.Generator) -> dict[str, float]:
    """Seconds to read one number, for each file format."""
    numbers = rng.standard_normal((_FILE_ROWS, _COLUMNS + 1)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        files = {"npy": Path(folder) / "rows.npy"}
        np.save(files["npy"], numbers)
        if find_spec("pyarrow") is not None:
            files |= {"csv": Path(folder) / "rows.csv", "parquet": Path(folder) / "rows.parquet"}
            _write_tables(numbers, files["csv"], files["parquet"])
        return {name: _reading_seconds(file) / numbers.size for name, file in files.items()}


def _write_tables(numbers: np.ndarray, text: Path, parquet: Path) -> None:
    """Write the numbers as a CSV file and as a Parquet file."""
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as arrow_parquet

    table = pa.table({f"c{place}": column for place, column in enumerate(numbers.T)})
    csv.write_csv(table, text)
    arrow_parquet.write_table(table, parquet)


def _reading_seconds(file: Path) -> float:
    """Seconds to read a file in batches, as `fit` does."""
    table = open_table(file, _COLUMNS, dtype=np.float32)

    def read() -> None:
        for _ in table.batches(_ROWS):
            pass

    return _seconds(read)
