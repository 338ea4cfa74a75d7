"""Input checks for arrays of samples and scalar parameters; every error is one line and names a remedy."""

from __future__ import annotations

from math import prod
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from phimap._files import one_line
from phimap.ops import is_tensor


class MissingCellsError(ValueError):
    """NaN in rows whose cells must not be missing."""


#: Height, width and channels of an image.
Shape = tuple[int, int, int]


def check_samples(estimator: Any, X: Any, *, reset: bool, fill: np.ndarray | None = None) -> Any:
    """`X` (n, d) as a C-contiguous float32 or float64 array, CSR matrix or tensor, free of NaN and infinity.

    If `fill` (d,) is given, it replaces the missing cells (NaN) of an array.

    Sets (``reset=True``) or checks ``n_features_in_`` and the column names of a data frame on `estimator`. Integers
    become float64; duplicate CSR entries are summed. Images (n, height, width, channels) become flat rows, and
    ``image_shape_`` of the estimator is set to their shape. Images of bytes become float32 unless the estimator takes
    bytes. The input is never written to.
    """
    check_unmasked(X)
    check_indices(X)
    X = _flat(estimator, X, reset=reset)
    bytes_too = [np.uint8] if getattr(estimator, "_takes_bytes", False) else []
    if is_tensor(X):
        from phimap.ops.torch_ops import check_tensor

        X = X if bytes_too and str(X.dtype) == "torch.uint8" and X.ndim == 2 else check_tensor(X)
        if reset:
            estimator.n_features_in_ = X.shape[1]
            vars(estimator).pop("feature_names_in_", None)
        elif X.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input."
            )
    elif reset or not _is_plain(estimator, X):
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32, *bytes_too],
            order="C",
            ensure_all_finite=False,
        )
        if sparse.issparse(X) and not X.has_canonical_format:
            # The matrix is copied first, because `sum_duplicates` works in place.
            X = X.copy()
            X.sum_duplicates()
    if fill is not None and isinstance(X, np.ndarray) and X.dtype.kind == "f" and is_missing(X):
        X = np.where(np.isnan(X), fill.astype(X.dtype), X)
    check_finite(X)
    return X


def _is_plain(estimator: Any, X: Any) -> bool:
    """Whether `validate_data` would return `X` unchanged. Calling `validate_data` takes as long as predicting a row."""
    return (
        type(X) is np.ndarray
        and X.dtype in (np.float32, np.float64)
        and X.flags.c_contiguous
        and X.ndim == 2
        and len(X) > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
    )


def is_missing(X: np.ndarray) -> bool:
    """Whether an array of floats has a missing cell (NaN)."""
    # A sum that is not NaN proves that no entry is NaN. The converse is false: infinities of both signs also give NaN.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(X.sum(dtype=np.float64))) and bool(np.isnan(X).any())


def _flat(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Images `X` (n, h, w, c) as flat rows; `X` itself if it does not have four axes."""
    X, shape = flat_images(X)
    if shape is not None and X.dtype == np.uint8 and not getattr(estimator, "_takes_bytes", False):
        X = X.astype(np.float32)
    if reset:
        estimator.image_shape_ = shape
    elif shape is not None and getattr(estimator, "image_shape_", None) not in (None, shape):
        raise ValueError(
            f"`X` must hold images of the shape seen in fit, {estimator.image_shape_}, got {shape}. Resize the images."
        )
    return X


def check_unmasked(X: Any, name: str = "X") -> None:
    """Raise if `X` is a masked array with masked cells, whose hidden values would be read as numbers."""
    if isinstance(X, np.ma.MaskedArray) and (masked := np.argwhere(np.ma.getmaskarray(X))).size:
        where = ", ".join(f"{axis} {place}" for axis, place in zip(("row", "column"), masked[0].tolist(), strict=False))
        raise ValueError(
            f"`{name}` has masked cells, the first at {where}, which are missing. Drop the rows, fill the cells in, or "
            "give a data frame of X.filled(np.nan)."
        )


def check_indices(X: Any, name: str = "X") -> None:
    """Raise if row bounds or column indices of a CSR matrix are out of range. Compiled code does not check them."""
    if not sparse.issparse(X) or X.format != "csr":
        return
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"`{name}` is a damaged CSR matrix: {one_line(error)}. Build it again, for example from its COO form."
        ) from error


def check_finite(X: Any, name: str = "X") -> None:
    """Raise ValueError if `X` holds NaN or infinity, naming the first such row and column (counted from 0)."""
    found = _first_non_finite(X)
    if found is not None:
        row, column, value = found
        what = "NaN" if np.isnan(value) else "infinity (inf)"
        where = f"row {row}, column {column}" if column is not None else f"row {row}"
        kind, verb = (MissingCellsError, "impute") if np.isnan(value) else (ValueError, "correct")
        raise kind(f"Input {name} contains {what} at {where}. Drop or {verb} such rows.")


def _first_non_finite(X: Any) -> tuple[int, int | None, float] | None:
    if is_tensor(X):
        from phimap.ops.torch_ops import first_non_finite

        return first_non_finite(X)
    values = X.data if sparse.issparse(X) else X
    # If the sum is finite, every entry is finite. Otherwise the entries are searched, because the sum may only have
    # overflowed.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return None
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size == 0:
        return None
    first = int(bad[0])
    value = float(values.reshape(-1)[first])
    if sparse.issparse(X):
        return int(np.searchsorted(X.indptr, first, side="right") - 1), int(X.indices[first]), value
    if X.ndim == 1:
        return first, None, value
    return *(int(i) for i in np.unravel_index(first, X.shape)), value  # pyright: ignore[reportReturnType]


def check_integer(name: str, value: Any, *, least: int) -> int:
    """`value` as an int, checked to be at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"`{name}` must be an integer, got {value!r} of type {type(value).__name__}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}, got {value}.")
    return int(value)


def check_real(name: str, value: Any, *, above: float | None = None, least: float | None = None) -> float:
    """`value` as a float, checked to be finite, greater than `above` and at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"`{name}` must be a number, got {value!r} of type {type(value).__name__}.")
    value = float(value)
    if not np.isfinite(value):
        raise ValueError(f"`{name}` must be finite, got {value}.")
    if above is not None and not value > above:
        raise ValueError(f"`{name}` must be greater than {above}, got {value}.")
    if least is not None and not value >= least:
        raise ValueError(f"`{name}` must be at least {least}, got {value}.")
    return value


def check_outputs(what: str, values: np.ndarray) -> np.ndarray:
    """Return outputs of a model, such as ``"predictions"``; raise if some of them are not finite."""
    if not np.isfinite(values).all():
        raise ValueError(f"{what} overflow {values.dtype}: coefficients, targets or rows are too large. Scale y or X.")
    return values


def check_choice(name: str, value: Any, choices: tuple[str | None, ...]) -> Any:
    """`value`, checked to be one of `choices`."""
    if value not in choices:
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {listed}, got {value!r}.")
    return value


def is_none(value: Any) -> bool:
    """Whether a parameter is None, False or ``"none"``, which all mean the same."""
    return value is None or value is False or (isinstance(value, str) and value == "none")


def as_image_shape(image_shape: Any, n_features: int) -> Shape:
    """`image_shape` as (height, width, channels), checked against rows of `n_features` numbers.

    None stands for signals: images of height 1 with one channel, whose width is `n_features`.
    """
    if image_shape is None:
        return 1, n_features, 1
    if np.ndim(image_shape) != 1 or len(image_shape) not in (2, 3):
        raise ValueError(
            f"`image_shape` must be (height, width) or (height, width, channels), got {image_shape!r}. "
            "Name the shape of one image."
        )
    height, width, *rest = (int(size) for size in image_shape)
    shape = (height, width, rest[0] if rest else 1)
    if prod(shape) != n_features:
        raise ValueError(
            f"`image_shape` must hold as many numbers as a row of X, got {shape} with {prod(shape)} for rows of "
            f"{n_features}. Name the shape of one image."
        )
    return shape


def flat_images(X: Any, image_shape: Any = None) -> tuple[Any, Any]:
    """Images `X` (n, h, w, c) as flat rows, and their shape; both arguments unchanged if `X` does not have four axes.

    Raises
    ------
    ValueError
        If `image_shape` is given and the images have another shape.
    """
    if getattr(X, "ndim", 2) != 4:
        # Data frames are returned unchanged as well, because their column names are read later.
        return X, image_shape
    X = X if hasattr(X, "reshape") else np.asarray(X)
    shape = tuple(int(size) for size in X.shape[1:])
    if image_shape is not None and shape != as_image_shape(image_shape, prod(image_shape)):
        raise ValueError(f"`X` must hold images of shape {tuple(image_shape)}, got {shape}. Resize the images.")
    return X.reshape(X.shape[0], -1), shape
