"""Recognise Dask collections and process their blocks of rows. No other module imports Dask.

Dask is imported only if a collection was given (Dask is then already loaded) or a scheduler was named.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial, wraps
from importlib.metadata import version as version_of
from importlib.util import find_spec
from inspect import unwrap
from platform import node
from typing import Any

import numpy as np
from scipy import sparse

from phimap.config import Settings, settings, settings_of, thread_count
from phimap.ops import one_thread

_VERSION = version_of("phimap")
# Maximum number of blocks from which a sample of rows is taken.
_SAMPLED_BLOCKS = 32
# Timeout of the connection to a scheduler.
_PATIENCE = "10s"


def is_dask(X: Any) -> bool:
    """Whether `X` is a Dask collection."""
    return _comes_from("dask.", X)


def is_dask_frame(X: Any) -> bool:
    """Whether `X` is a Dask data frame, or one of its columns."""
    return _comes_from("dask.dataframe", X)


def _comes_from(module: str, X: Any) -> bool:
    """Whether the class of `X`, or one of its bases, is defined in a module whose name starts with `module`."""
    return any(kind.__module__.startswith(module) for kind in type(X).__mro__)


def blocks_of(X: Any, name: str = "X") -> list[Any]:
    """The blocks of rows of a collection, as delayed tasks.

    Raises
    ------
    ValueError
        If columns are split into several chunks, or `X` is neither an array nor a data frame.
    """
    if is_dask_frame(X):
        # `simplify` drops unused columns. Dask's further optimisation is not used: it merges Parquet files depending on
        # the columns that are read, so rows and targets of one table would be split into different blocks.
        return X.simplify().to_delayed(optimize_graph=False)
    if not _comes_from("dask.array", X):
        raise ValueError(
            f"`{name}` must be a Dask array or data frame, got a Dask {type(X).__name__}. Use one of these."
        )
    if any(count != 1 for count in X.numblocks[1:]):
        raise ValueError(
            f"`{name}` must have all columns in one chunk, got {X.numblocks[1]} chunks of columns. "
            f"Use {name}.rechunk({{1: -1}})."
        )
    return list(X.to_delayed().ravel())


def lengths_of(X: Any) -> tuple[int, ...] | None:
    """Number of rows of each block; None if Dask does not know these numbers."""
    if is_dask_frame(X) or any(rows != rows for rows in X.chunks[0]):
        return None
    return tuple(int(rows) for rows in X.chunks[0])


def shared(value: Any) -> Any:
    """Wrap `value` as a task, so that each worker receives the value only once for all its tasks."""
    from dask.delayed import delayed

    return delayed(value, traverse=False, pure=False)


def task(work: Callable[..., Any], *arguments: Any) -> Any:
    """The task ``work(*arguments)``, run in one thread with this process's settings; arguments may be tasks."""
    from dask.delayed import delayed

    return delayed(_worked, pure=False)(work, _VERSION, settings(), *arguments)


def _worked(work: Callable[..., Any], version: str, of_caller: Settings, *arguments: Any) -> Any:
    if version != _VERSION:
        # Sums from two versions of phimap would combine to a model that neither version would fit.
        raise RuntimeError(
            f"the worker on {node()} has phimap {_VERSION}, but its client has phimap {version}. "
            f"Install phimap {version} on the worker."
        )
    with settings_of(of_caller), one_thread():
        return work(*arguments)


def computed(tasks: Any) -> Any:
    """Results of the tasks, computed on the caller's cluster if there is one, else on threads of this process."""
    import dask

    with warnings.catch_warnings():
        # Dask warns about large feature maps in the task graph, but each map is sent only once.
        warnings.filterwarnings("ignore", message="Sending large graph")
        try:
            return dask.compute(tasks)[0]  # pyright: ignore[reportPrivateImportUsage]
        except CancelledError as error:
            raise ConnectionError(
                f"the Dask cluster gave up its tasks, {' '.join(str(error).split())} Start a scheduler, and repeat the "
                "call with a new client."
            ) from None


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Run the tasks of a ``with`` block on the cluster of the scheduler at `address`, if an address is given.

    ``"local"`` starts a cluster for the block, with one single-threaded worker for each configured thread.
    """
    if address is None:
        yield
        return
    if find_spec("distributed") is None:
        raise ImportError("Dask is needed to reach a scheduler. Install it: pip install 'dask[complete]'.")
    from distributed import Client, LocalCluster

    if address == "local":
        workers = {"n_workers": thread_count(), "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
        # `silence_logs` hides the warnings of workers that are slow to shut down.
        with LocalCluster(**workers, silence_logs=logging.ERROR) as cluster, Client(cluster):
            yield
        return
    try:
        # A client that reaches no scheduler would stay the default client, for which all later tasks would wait.
        Client(address, timeout=_PATIENCE, set_as_default=False).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no scheduler answers at {address!r} ({type(error).__name__}). Start one, or use local."
        ) from None
    with Client(address, timeout=_PATIENCE):
        yield


def chained(step: Callable[..., Any], start: Any, parts: Sequence[tuple[Any, ...]]) -> Any:
    """``step(... step(step(start, *parts[0]), *parts[1]) ...)``, computed as a chain of tasks."""
    step, state = shared(step), shared(start)
    for part in parts:
        state = task(step, state, *part)
    return computed(state)


def sampled_rows(X: Any, n_rows: int) -> Any:
    """About `n_rows` rows of a collection, in order, spread over up to 32 blocks.

    All rows are taken if their number is known and at most `n_rows`.
    """
    blocks, lengths = blocks_of(X), lengths_of(X)
    each = n_rows
    if lengths is None or sum(lengths) > n_rows:
        places = np.unique(np.linspace(0, len(blocks) - 1, min(len(blocks), _SAMPLED_BLOCKS)).astype(int))
        blocks, each = [blocks[place] for place in places], -(-n_rows // len(places))
    parts = [part for part in computed([task(_spread_rows, block, each) for block in blocks]) if len_of(part)]
    if not parts:
        raise ValueError("Found array with 0 sample(s) in the blocks of `X`, while a fit needs at least 1. Give rows.")
    if hasattr(parts[0], "iloc"):
        import pandas as pd

        return pd.concat(parts)
    return sparse.vstack(parts, "csr") if sparse.issparse(parts[0]) else np.concatenate(parts)


def sampled_targets(X: Any, y: Any, n_rows: int) -> Any:
    """The targets of the rows that `sampled_rows` takes from `X`.

    Raises
    ------
    ValueError
        If `y` is not a Dask collection with the same blocks of rows as `X`.
    """
    if y is None:
        return None
    if not is_dask(y) or len(blocks_of(y, "y")) != len(blocks_of(X)) or lengths_of(y) != lengths_of(X):
        raise ValueError(
            "`y` must be a Dask collection in the blocks of `X`, got another. Use y.rechunk, or one frame."
        )
    return sampled_rows(y, n_rows)


def len_of(block: Any) -> int:
    """Number of rows of a block."""
    return block.shape[0]


def _spread_rows(block: Any, n_rows: int) -> Any:
    """At most `n_rows` evenly spaced rows of a block."""
    places = np.arange(min(len_of(block), n_rows)) * len_of(block) // max(min(len_of(block), n_rows), 1)
    return block.iloc[places] if hasattr(block, "iloc") else block[places]


def by_blocks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method that takes rows `X`, so that `X` may also be a Dask collection.

    For a Dask collection the method returns a lazy Dask array, computed block by block, and accepts no other arguments,
    see `refuse_more`. For any other `X` the method is unchanged.
    """

    @wraps(method)
    def apply(self: Any, X: Any, *arguments: Any, **named: Any) -> Any:
        if not is_dask(X):
            return method(self, X, *arguments, **named)
        refuse_more(method.__name__, *arguments, **named)
        if getattr(self, "_sklearn_output_config", {}).get("transform", "default") != "default":
            raise ValueError("`set_output` must be 'default' for Dask collections, whose features are Dask arrays.")
        return map_rows(partial(_undecorated, self, method.__name__), X)

    return apply


def refuse_more(method: str, *arguments: Any, **named: Any) -> None:
    """Raise if a method called with a Dask collection was given any other argument, unless it is None or False."""
    if any(arguments) or any(named.values()):
        raise ValueError(
            f"`{method}` makes one array of a Dask collection, got more arguments, "
            f"{[*arguments, *named.items()]}. Compute the rows first, or leave them out."
        )


def map_rows(work: Callable[[Any], Any], X: Any, typical: Any = None) -> Any:
    """The lazy results of ``work(block)`` for the blocks of rows of `X`, as a Dask array.

    Parameters
    ----------
    work : callable
        Returns an array with one row for each row of a block. The function is sent to each worker once.
    X : Dask array or data frame
    typical : array, optional
        Made-up rows. The result of `work` for these rows has the dtype and width of all results. None makes up rows
        with the columns and dtype of `X`.
    """
    if not is_dask_frame(X):
        blocks_of(X)
    with warnings.catch_warnings():
        # Warnings about these made-up rows are of no interest to the user.
        warnings.simplefilter("ignore")
        meta = work(typical_rows(X) if typical is None else typical)[:0]
    if not (isinstance(meta, np.ndarray) or sparse.issparse(meta)):
        raise ValueError(f"{type(meta).__name__} has no place in a Dask array. Use packed=False.")
    sent, known = shared(work), {"version": _VERSION, "of_caller": settings(), "empty": meta}
    if is_dask_frame(X):
        return X.map_partitions(_applied, sent, meta=meta, **known)
    axes = list(range(1, X.ndim))
    return X.map_blocks(
        _applied,
        sent,
        **known,
        dtype=meta.dtype,
        meta=meta,
        drop_axis=axes,
        new_axis=[1] if meta.ndim == 2 else None,
        chunks=(X.chunks[0], *((size,) for size in meta.shape[1:])),
    )


def _applied(block: Any, work: Callable[[Any], Any], *, version: str, of_caller: Settings, empty: Any) -> Any:
    """Return ``work(block)`` under the caller's settings, or `empty` for a block without rows."""
    if not len_of(block):
        return empty
    return _worked(work, version, of_caller, block)


def _undecorated(estimator: Any, method: str, block: Any) -> Any:
    """The result of a method on one block, called without `by_blocks` and scikit-learn's wrapper of outputs."""
    return unwrap(getattr(type(estimator), method))(estimator, block)


def typical_rows(X: Any) -> Any:
    """One or a few made-up rows with the columns and dtype of a collection."""
    if is_dask_frame(X):
        return X._meta_nonempty
    if sparse.issparse(X._meta):
        return sparse.csr_matrix((1, X.shape[1]), dtype=X.dtype)
    return np.zeros((1, *X.shape[1:]), dtype=X.dtype)
