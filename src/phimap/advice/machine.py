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

from phimap.advice.speed import best_seconds, measure_speed
from phimap.config import thread_count
from phimap.features import FourierFeatures, NTKFeatures
from phimap.io import open_table
from phimap.kernels import Gaussian
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.random_map import RandomMap
from phimap.theory import REFERENCE, Machine

# A batch of features as learners hold it, and columns of a table as `Machine` describes them.
_ROWS, _WIDTH, _COLUMNS = 4096, 2048, 28
_MAP_WIDTH = 1024
# Rows of the files that are read, some 10 MB of text.
_FILE_ROWS = 30_000


def measure_machine(base: Machine = REFERENCE) -> Machine:
    """Measure the constants of this machine, for `theory.cost`.

    Parameters
    ----------
    base : Machine, optional
        Gives what cannot be measured here: the network, the memory of a process, and the speed of files where
        pyarrow is not installed.

    Returns
    -------
    Machine

    Notes
    -----
    Every constant is the best of three timings on one thread, in seconds of the processor, files being in the system's
    cache. Products in float32 are those of a Gram matrix of 2,048
    features, as learners form it, less what adding them to the sums takes.

    **Error.** Some 5 % on a quiet machine. On a busy one cores share caches and memory, and constants are worse.

    **Cost.** Some five seconds, the most of it for compiled functions that are loaded.

    **Differs from the source in** nothing: these are measurements.

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
        double=measure_speed(1, time.process_time).double,
        bandwidth=bandwidth,
        **{name: _feature_seconds(one, rows) for name, one in maps.items()},
        **_decoding(rng),
    )


def _seconds(work: Callable[[], Any]) -> float:
    """Seconds of a processor: what runs beside this takes none of them."""
    return best_seconds(work, time.process_time)


def _bandwidth() -> float:
    """Bytes a second of adding a float32 array to a float64 one, both larger than caches."""
    target, values = np.zeros((_ROWS, _WIDTH)), np.ones((_ROWS, _WIDTH), dtype=np.float32)
    n_bytes = 2 * target.nbytes + values.nbytes
    return n_bytes / _seconds(lambda: np.add(target, values, out=target))


def _gram_speed(bandwidth: float) -> float:
    """Products of the Gram matrix in 10^9 operations a second, on one thread."""
    Z = np.random.default_rng(0).random((_ROWS, _WIDTH), dtype=np.float32)
    triangle = BlockTriangle.zeros(_WIDTH)
    seconds = _seconds(lambda: triangle.add_products(Z, n_jobs=1))
    # The sums are read and written, and the products in float32 twice.
    adding = 3 * triangle.data.nbytes / bandwidth
    return float(_ROWS) * _WIDTH**2 / max(seconds - adding, seconds / 2) / 1e9


def _feature_seconds(feature_map: RandomMap, rows: np.ndarray) -> float:
    """Seconds of one feature of one row."""
    drawn = feature_map.fit(rows[:1000])
    return _seconds(lambda: drawn.transform(rows)) / (len(rows) * _MAP_WIDTH)


def _decoding(rng: np.random.Generator) -> dict[str, float]:
    """Seconds of one number of each format that can be read."""
    numbers = rng.standard_normal((_FILE_ROWS, _COLUMNS + 1)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        files = {"npy": Path(folder) / "rows.npy"}
        np.save(files["npy"], numbers)
        if find_spec("pyarrow") is not None:
            files |= {"csv": Path(folder) / "rows.csv", "parquet": Path(folder) / "rows.parquet"}
            _write_tables(numbers, files["csv"], files["parquet"])
        return {name: _reading_seconds(file) / numbers.size for name, file in files.items()}


def _write_tables(numbers: np.ndarray, text: Path, parquet: Path) -> None:
    """The same numbers as text and as a Parquet file."""
    import pyarrow as pa
    from pyarrow import csv
    from pyarrow import parquet as arrow_parquet

    table = pa.table({f"c{place}": column for place, column in enumerate(numbers.T)})
    csv.write_csv(table, text)
    arrow_parquet.write_table(table, parquet)


def _reading_seconds(file: Path) -> float:
    """Seconds of all batches of a file, as a fit takes them."""
    table = open_table(file, _COLUMNS, dtype=np.float32)

    def read() -> None:
        for _ in table.batches(_ROWS):
            pass

    return _seconds(read)
