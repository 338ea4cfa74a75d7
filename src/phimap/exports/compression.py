"""Smaller models: fewer features or landmarks, refitted to the outputs of the model, and shorter numbers."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import linalg
from sklearn.utils.validation import check_is_fitted

from phimap._validation import check_real
from phimap.config import size_text
from phimap.features.data_dependent.compressed import SelectedRecord, selected
from phimap.features.fourier import FourierRecord
from phimap.features.nystroem.nystroem import NystroemRecord, SimilarityRecord, pivoted_whitening
from phimap.io.model import save
from phimap.learn.base import KernelModel
from phimap.learn.corrections.corrections import Corrections, moved_rows
from phimap.learn.extrapolation import OutsideWarning
from phimap.learn.fitted import Fitted
from phimap.learn.settings import Compute
from phimap.learn.solver import LinearSolution
from phimap.ops import host, single_threaded_blas
from phimap.projections.dense import DenseRecord
from phimap.random_map import MapRecord, evaluate
from phimap.records import Record

# Largest number of rows on which outputs are compared; a quarter of them are validation rows.
_MOST_ROWS = 4096
# Least number of rows. A refit to fewer rows could be far from the model at other rows.
_FEWEST_ROWS = 64
# Least number of rows of the refit for each feature. If fewer rows are given, points between them are added as rows.
_ROWS_A_FEATURE = 2
# Regularisation of the refit, as a share of the mean diagonal of the Gram matrix. It is small because the outputs to
# which a model is refitted have no noise.
_RIDGE = 1e-9
# Share of the tolerance that is left for the errors of shorter numbers and of dropped corrections.
_LEFT = 0.25
# A structured projection becomes a matrix, from which the directions of the chosen features are taken, if the matrix
# has at most this many entries.
_MOST_ENTRIES = 2**27


def compress(model: Any, tolerance: float = 0.01, *, X: Any = None, verbose: bool = True) -> Any:
    """Make a smaller model with nearly the same outputs.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        A fitted learner, which is not changed.
    tolerance : float, default=0.01
        Largest root mean square change of the outputs, as a share of their standard deviation, between 0 and 1. The
        outputs of a classifier are its scores.
    X : array-like or data frame of shape (n_samples, n_features), optional
        Rows on which outputs are compared, at most 4,096 of them, without targets. By default the sample of training
        rows that a model has after a fit by factorisation; a loaded model has none.
    verbose : bool, default=True
        Write the numbers of features, the sizes of the model files, and the change to standard error.

    Returns
    -------
    KernelRegressor or KernelClassifier
        A fitted learner of the class of `model`. It keeps no sums, so that `partial_fit`, `merge` and standard
        deviations are not possible. It is `model` with shorter numbers if fewer features change the outputs too much.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model is not fitted.
    TypeError
        If `model` is not one of the learners above.
    ValueError
        If `tolerance` is out of range, or there are fewer than 64 rows.

    Notes
    -----
    Fourier features are ordered by a pivoted Cholesky factorisation of the Gram matrix of the features, each times the
    norm of its coefficients: the order is a greedy choice of the features that represent the terms of the outputs best.
    Landmarks are in the order of the pivots of their kernel matrix. Bisection finds the least m for which a
    least-squares fit of the outputs by the first m features stays within three quarters of the tolerance, on rows that
    the fit has not seen. If there are fewer than two rows for each feature, the fit also uses random points between
    pairs of rows, with the outputs of the model at these points. Corrections are dropped in regions in which they
    change the outputs least. Frequencies, landmarks and whitening are stored in float32, coefficients in float16 if the
    outputs allow it, else in float32.

    **Error.** At most `tolerance` on the validation rows, which are a quarter of the rows.

    **Cost.** ``n m^2`` flops for n rows and m features, and a least-squares fit for each of about ten steps. Maps other
    than landmarks and Fourier features keep all features, because a subset costs as much as all features.

    **Differs from the source in** the rule that chooses features, which the source solves by sparse regression to
    labels; here the outputs of the model are the targets.

    References
    ----------
    Agrawal, Campbell, Huggins, Broderick (2019), *Data-dependent compression of random features for large-scale
    kernel approximation*, Section 3.

    Examples
    --------
    >>> import phimap as pm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = pm.KernelRegressor("gaussian", 512, random_state=0).fit(X, y)
    >>> small = pm.compress(model, tolerance=0.02, verbose=False)
    >>> bool(small.coef_.size < 256 and abs(small.predict(X) - model.predict(X)).std() < 0.03 * model.predict(X).std())
    True
    """
    if not isinstance(model, KernelModel):
        raise TypeError(f"`model` must be a KernelRegressor or a KernelClassifier, got {type(model).__name__}.")
    if not 0 < check_real("tolerance", tolerance, above=0.0) < 1:
        raise ValueError(f"`tolerance` must be between 0 and 1, got {tolerance}. Use 0.01.")
    check_is_fitted(model)
    fitted = model._solved()
    rows = _rows(model, fitted, X)
    before = _Outputs(fitted, rows, Compute("cpu", model.n_jobs))
    small = _with_fewer_features(before, (1 - _LEFT) * tolerance)
    small = _with_fewer_corrections(before, small, tolerance)
    small = _with_short_numbers(before, small, tolerance)
    result = copy(model)
    for name in ("_state", "_deviations"):
        vars(result).pop(name, None)
    result._fitted = small
    if verbose:
        counts = [f"{one.map.width:,}" for one in (fitted, small)]
        sizes = [size_text(_file_size(one)) for one in (model, result)]
        sys.stderr.write(
            f"note: {counts[0]} features became {counts[1]}, {sizes[0]} became {sizes[1]}; outputs change by "
            f"{before.change(small):.2g} of their standard deviation.\n"
        )
    return result


def _rows(model: KernelModel, fitted: Fitted, X: Any) -> np.ndarray:
    """Return rows of numbers (n, d) for comparisons."""
    state = vars(model).get("_state")
    if X is None and state is None:
        raise ValueError(
            "`X` must be given for a model that keeps no sample, as a loaded one. Pass rows without targets."
        )
    rows: Any = state.sample.first(_MOST_ROWS)[0] if X is None else fitted.inputs.rows(X)  # pyright: ignore
    if rows.shape[0] > _MOST_ROWS:
        rows = rows[np.sort(np.random.default_rng(0).permutation(rows.shape[0])[:_MOST_ROWS])]
    if rows.shape[0] < _FEWEST_ROWS:
        raise ValueError(f"`X` must hold at least {_FEWEST_ROWS} rows, got {rows.shape[0]}. Give more.")
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)


class _Outputs:
    """The outputs of a model on rows. The outputs of smaller models are compared with them.

    Attributes
    ----------
    scaled : ndarray of shape (n, k)
        Scaled rows.
    validates : ndarray of shape (n,)
        Whether a row is a validation row.
    """

    def __init__(self, fitted: Fitted, rows: np.ndarray, compute: Compute):
        self.fitted, self._rows, self._compute = fitted, rows, compute
        self.scaled = fitted.map.on_host(rows).astype(np.float64)
        self.validates = np.arange(len(rows)) % 4 == 0
        self._scores = self._scores_of(fitted)[self.validates]
        self.deviation = self._scores.std(axis=0)
        self.deviation = np.where(self.deviation > 0, self.deviation, 1.0)

    def change(self, other: Fitted) -> float:
        """The largest root mean square change of an output, over its standard deviation, on the validation rows."""
        return self.share(self._scores_of(other)[self.validates] - self._scores)

    def share(self, differences: np.ndarray) -> float:
        """The largest root mean square of differences (n, t) of an output, over the output's standard deviation."""
        return float((np.sqrt(np.square(differences).mean(axis=0)) / self.deviation).max())

    def _scores_of(self, fitted: Fitted) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideWarning)
            return fitted.scores_of_rows(self._rows, self._compute)


def _with_fewer_features(before: _Outputs, tolerance: float) -> Fitted:
    """Return the model with the fewest features for which its linear outputs change by at most `tolerance`."""
    fitted, solution, validates = before.fitted, before.fitted.solved, before.validates
    # Landmarks are compared without their whitening, because a loaded model has no whitening.
    record, coef = fitted.map.record.unwhitened(solution.coef)
    # The model gives outputs at any point, so points between the given rows can be added if there are few rows.
    n_between = max(0, min(_MOST_ROWS, _ROWS_A_FEATURE * fitted.map.width - int((~validates).sum())))
    X = np.concatenate([before.scaled, _between(before.scaled[~validates], n_between)])
    is_held_out = np.arange(len(X)) < len(validates)
    is_held_out[: len(validates)] = validates
    Z = _features(record, X)
    outputs = Z @ coef
    choice = _choice(record, Z, np.linalg.norm(coef / before.deviation, axis=1))
    if choice is None:
        return fitted
    order, reduced = choice
    found: dict[int, tuple[MapRecord, np.ndarray, np.ndarray]] = {}

    def error(m: int) -> float:
        smaller = reduced(order[:m])
        part = _features(smaller, X)
        coefs, shift = _least_squares(part[~is_held_out], outputs[~is_held_out])
        found[m] = smaller, coefs, shift
        return before.share(part[is_held_out] @ coefs + shift - outputs[is_held_out])

    # Bisection: `low` features are too few, or zero, and `high` features are enough.
    low, high = 0, len(order)
    if error(high) > tolerance:
        return fitted
    while high - low > max(1, high // 64):
        middle = (low + high) // 2
        low, high = (low, middle) if error(middle) <= tolerance else (middle, high)
    smaller, coefs, shift = found[high]
    conformal = fitted.conformal
    if conformal is not None and conformal.scale is not None:
        scale = conformal.scale
        of_errors, moved = _least_squares(_features(smaller, X), Z @ fitted.map.record.unwhitened(scale.coef)[1])
        conformal = replace(conformal, scale=replace(scale, coef=of_errors, intercept=scale.intercept + moved))
    if smaller.unwhitened(coefs)[0].n_bytes >= record.n_bytes:
        return fitted
    return replace(
        fitted,
        map=fitted.map.with_record(smaller),
        solution=replace(solution, coef=coefs, intercept=solution.intercept + shift, held_out=None),
        conformal=conformal,
    )


def _between(X: np.ndarray, n_rows: int) -> np.ndarray:
    """Return rows (n_rows, k) at random places between two random rows of `X` (n, k)."""
    rng = np.random.default_rng(0)
    left, right = rng.integers(len(X), size=(2, n_rows))
    return X[left] + rng.random((n_rows, 1)) * (X[right] - X[left])


def _features(record: MapRecord, X: np.ndarray) -> np.ndarray:
    """Return float64 features (n, m) of scaled rows."""
    Z = host().empty((len(X), record.n_components))
    evaluate(record.bind(host()), host(), X, Z)
    return Z


def _choice(
    record: MapRecord, Z: np.ndarray, sizes: np.ndarray
) -> tuple[np.ndarray, Callable[[np.ndarray], MapRecord]] | None:
    """Return the indices of features, the first to be kept first, and a function from indices to a map of these alone.

    `Z` (n, m) holds features of rows, `sizes` (m,) the norms of the coefficients of each feature. The result is None
    for maps that must compute all features to give some of them.
    """
    if isinstance(record, SimilarityRecord):

        def landmarks(places: np.ndarray) -> MapRecord:
            # The smaller map is stored in float32. Landmarks that float32 does not distinguish are dropped.
            chosen, whitening = pivoted_whitening(record.kernel, record.landmarks[places], np.dtype(np.float32))
            return NystroemRecord(record.kernel, chosen, whitening, len(chosen))

        # Landmarks are in the order of pivots of their kernel matrix.
        return np.arange(len(record.landmarks)), landmarks
    stored: MapRecord = record
    if isinstance(record, FourierRecord) and record.n_features * record.projection.n_directions <= _MOST_ENTRIES:
        stored = replace(record, projection=DenseRecord(np.ascontiguousarray(record.projection.to_dense().T)))

    def columns(places: np.ndarray) -> MapRecord:
        return selected(stored, places, np.ones(len(places)))

    return None if isinstance(columns(np.arange(1)), SelectedRecord) else (_pivots(Z * sizes), columns)


def _pivots(Z: np.ndarray) -> np.ndarray:
    """Return the columns of `Z` (n, m) in the order of pivots, as many as are numerically independent."""
    with single_threaded_blas():
        G = Z.T @ Z
        _, pivots, rank, _ = linalg.lapack.dpstrf(G, tol=_RIDGE * G.diagonal().max())  # pyright: ignore
    return pivots[: max(int(rank), 1)] - 1


def _least_squares(Z: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (m, t) and shifts (t,) of a fit of `Y` (n, t) by `Z` (n, m)."""
    means, targets = Z.mean(axis=0), Y.mean(axis=0)
    A = Z - means
    with single_threaded_blas():
        G = A.T @ A
        G[np.diag_indices_from(G)] += _RIDGE * np.trace(G) / len(G)
        coefs = linalg.solve(G, A.T @ (Y - targets), assume_a="pos")
    return coefs, targets - means @ coefs


def _with_fewer_corrections(before: _Outputs, fitted: Fitted, tolerance: float) -> Fitted:
    """Drop corrections as far as `tolerance` allows, first in regions whose outputs they change least."""
    record = fitted.corrections
    if record is None:
        return fitted
    moved, totals = moved_rows(before.scaled, record.root), list[np.ndarray]()
    for model in record.models:
        sizes = np.square(record.outputs_of(model, moved, None) / before.deviation).sum(axis=1)
        totals.append(np.bincount(model.partition.assign(moved), sizes, minlength=record.n_regions))
    order, n_models = np.argsort(np.concatenate(totals), kind="stable"), len(record.models)
    for n_dropped in range(len(order), 0, -1):
        dropped = np.isin(np.arange(len(order)), order[:n_dropped]).reshape(n_models, -1)
        # An upper bound of the change of the outputs.
        changes = (np.sqrt(total[some].sum() / len(moved)) for total, some in zip(totals, dropped, strict=True))
        if sum(changes) > tolerance:
            continue
        small = replace(fitted, corrections=_without_regions(record, dropped))
        if before.change(small) <= tolerance:
            return small
    return fitted


def _without_regions(record: Corrections, dropped: np.ndarray) -> Corrections | None:
    """Return the corrections without some regions of their models; None if no region is left.

    `dropped` (number of models, number of regions) is true for these regions.
    """
    models = []
    for model, some in zip(record.models, dropped, strict=True):
        lengths = np.diff(model.ends, prepend=0)
        kept = ~np.repeat(some, lengths)
        if kept.any():
            ends = np.cumsum(np.where(some, 0, lengths))
            models.append(replace(model, order=model.order[kept], ends=ends, coefs=model.coefs[kept]))
    if not models:
        return None
    # Rows that no model needs any more are left out.
    used, places = np.unique(np.concatenate([model.order for model in models]), return_inverse=True)
    orders = np.split(places, np.cumsum([model.order.size for model in models])[:-1])
    models = [replace(model, order=order) for model, order in zip(models, orders, strict=True)]
    return replace(record, rows=record.rows[used], models=tuple(models))


def _with_short_numbers(before: _Outputs, fitted: Fitted, tolerance: float) -> Fitted:
    """Return the model with arrays of the map in float32 and coefficients in float16, or as short as outputs allow."""
    single = replace(fitted, map=fitted.map.with_record(_in_float32(fitted.map.record)))
    single = single if before.change(single) <= tolerance else fitted
    for dtype in (np.float16, np.float32):
        solution: LinearSolution = single.solved
        with np.errstate(over="ignore"):
            short = replace(single, solution=replace(solution, coef=solution.coef.astype(dtype)))
        if np.isfinite(short.solved.coef).all() and before.change(short) <= tolerance:
            return short
    return single


def _in_float32(value: Any) -> Any:
    """Return a record with its float arrays in float32."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return value.astype(np.float32)
    if isinstance(value, tuple):
        return tuple(map(_in_float32, value))
    if isinstance(value, Record) and is_dataclass(value):
        return replace(value, **{one.name: _in_float32(getattr(value, one.name)) for one in fields(value)})
    return value


def _file_size(model: KernelModel) -> int:
    """Size of a model file."""
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder) / "model")
        return (Path(folder) / "model").stat().st_size
