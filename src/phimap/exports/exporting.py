"""Export of fitted learners to ONNX, and to a folder that NumPy alone can run."""

from __future__ import annotations

import os
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from phimap._files import write_whole
from phimap._validation import check_choice
from phimap.config import size_text
from phimap.exports.frames import cells_as_inputs, example_frame
from phimap.exports.graph import FLOAT, ExportError, Graph
from phimap.exports.numpy_source import evaluated
from phimap.exports.onnx_model import needs_onnx, onnx_model, run_onnx
from phimap.exports.program import program
from phimap.exports.runtime import plain_labels, runtime
from phimap.learn.base import KernelModel
from phimap.learn.extrapolation import OutsideWarning
from phimap.learn.fitted import Fitted
from phimap.learn.settings import Compute

# Number of rows on which an export is compared with the model.
_CHECK_ROWS = 256
# For each format, the largest accepted difference between outputs of the export and of the model, as a share of the
# range of the outputs.
_TOLERANCES = {"onnx": 1e-4, "numpy": 1e-5}
# Two classes count as tied if their scores differ by less than this share of the range of the scores.
_TIE = 1e-4
# Largest size of an ONNX file, the limit of its format.
_MOST_BYTES = 2**31 - 1


def export(model: Any, path: str | os.PathLike[str], *, format: str = "onnx", X: Any = None) -> None:  # noqa: A002
    """Write a fitted learner in a form that predicts without this package.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        A fitted learner.
    path : path-like
        ONNX file; or with ``format="numpy"`` a folder, which is made if it does not exist. Files are replaced only once
        the new ones are complete.
    format : {"onnx", "numpy"}, default="onnx"
        ``"onnx"`` needs the extra ``phimap[onnx]``. ``"numpy"`` writes ``model.safetensors`` and ``predict.py``, which
        needs NumPy only.
    X : array-like or data frame of shape (n_samples, n_features), optional
        Rows on which the export is compared with the model, at most 256 of them. By default these are rows that the
        model has kept, or random rows within the ranges of its columns.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model is not fitted.
    TypeError
        If `model` is not one of the learners above.
    ValueError
        If a part of the model has no exported form; the message names the part. Also if the export differs from the
        model by more than 1e-4 (ONNX) or 1e-5 (NumPy) of the range of the outputs. Nothing is written then.
    ImportError
        If onnx or onnxruntime is not installed.

    Notes
    -----
    The program of the model (scaling, features, linear outputs, corrections, return of far rows to the mean,
    probabilities) is recorded as a graph, from which both forms are written. An ONNX model takes ``"X"`` (n, d) in
    float32, or for a model of data frames one input (n, 1) for each column: float32 numbers with NaN for missing cells,
    texts, empty for missing cells, and times as float64 seconds since 1970. It gives ``"variable"`` (n, t) for a
    regressor, and ``"label"`` (n,) and ``"probabilities"`` (n, n_classes) for a classifier, the names of skl2onnx. The
    number n of rows is free. The operators belong to opset 18.

    **Error.** Maps of random features are computed in float32, landmarks and corrections in float64. The comparison is
    with the model in float64. For float32 rows, such as encoded data frames, the rounding errors of ``predict`` may be
    larger. ``predict`` warns of far rows; an exported model does not.

    **Cost.** A projection with at most two million entries is written as a matrix. Whitened coefficients replace the
    whitening of landmarks, so that a row costs one kernel value for each landmark.

    **Not exported.** Convolutional maps, quantized features, additive kernels and Matern kernels without closed form,
    CSR rows, and columns of free text. `DoublyStochasticRegressor` and `DoublyStochasticClassifier` are not exported.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import phimap as pm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = pm.KernelRegressor("gaussian", 256, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pm.export(model, folder, format="numpy")
    ...     sorted(file.name for file in pathlib.Path(folder).iterdir())
    ['model.safetensors', 'predict.py']
    """
    check_choice("format", format, tuple(_TOLERANCES))
    if not isinstance(model, KernelModel):
        raise TypeError(
            f"`model` must be a KernelRegressor or a KernelClassifier, got {type(model).__name__}. Export its learner."
        )
    check_is_fitted(model)
    fitted = model._solved()
    if fitted.inputs.sparse:
        raise ExportError("a model of CSR rows has no exported form. Fit it on dense rows.")
    target = Path(path)
    if format == "onnx":
        needs_onnx()
    graph = program(fitted, model.loss)
    rows = check_rows(model, fitted, X)
    given = cells_as_inputs(fitted.inputs.encoder, rows) if fitted.inputs.encoder is not None else {"X": rows}
    labels = plain_labels(fitted.targets.known) if fitted.targets.has_labels else None  # pyright: ignore
    if format == "onnx":
        _refuse_names(graph)
        proto = onnx_model(graph, labels)
        if proto.ByteSize() > _MOST_BYTES:
            raise ExportError(
                f"an ONNX file holds at most 2 GiB, and this model takes {size_text(proto.ByteSize())}. Use fewer "
                "components."
            )
        data = proto.SerializeToString()
        found = run_onnx(data, given)
        compare(model, fitted, rows, found, labels, _TOLERANCES[format])
        write_whole(target, lambda file: file.write(data))
        return
    text, arrays, facts = runtime(fitted, graph, version("phimap"))
    found = evaluated(graph, given)
    if labels is not None:
        found["label"] = labels[found["label"]]
    compare(model, fitted, rows, found, labels, _TOLERANCES[format])
    from safetensors.numpy import save

    data = save(arrays, {"phimap": facts})
    target.mkdir(exist_ok=True)
    write_whole(target / "model.safetensors", lambda file: file.write(data))
    write_whole(target / "predict.py", lambda file: file.write(text.encode()))


def _refuse_names(graph: Graph) -> None:
    """Raise if a column of a frame has a name that an input of an ONNX model cannot have."""
    for name in graph.inputs:
        if not name or name in graph.outputs:
            raise ExportError(
                f"column {name!r} has a name that an ONNX model needs itself or cannot hold. Rename the column, and "
                "fit again."
            )


def check_rows(model: KernelModel, fitted: Fitted, X: Any) -> Any:
    """Return rows for the comparison: float32 rows (n, d), or a data frame for a model of frames."""
    encoder, rng = fitted.inputs.encoder, np.random.default_rng(0)
    if X is not None:
        X = X[:_CHECK_ROWS]
        return X if encoder is not None else np.asarray(fitted.inputs.rows(X), dtype=FLOAT)
    if encoder is not None:
        return example_frame(encoder, _CHECK_ROWS, rng)
    state, columns, scaling = vars(model).get("_state"), fitted.map.range, fitted.map.scaling
    if state is not None:
        return np.asarray(state.sample.first(_CHECK_ROWS)[0], dtype=FLOAT)
    if columns is not None and columns.low is not None and columns.high is not None:
        return rng.uniform(columns.low, columns.high, (_CHECK_ROWS, columns.low.size)).astype(FLOAT)
    unit = np.divide(1, scaling.factor, out=np.zeros_like(scaling.factor), where=scaling.factor != 0)
    return (scaling.shift + unit * rng.standard_normal((_CHECK_ROWS, unit.size))).astype(FLOAT)


def compare(
    model: KernelModel,
    fitted: Fitted,
    rows: Any,
    found: dict[str, np.ndarray],
    labels: np.ndarray | None,
    tolerance: float,
) -> None:
    """Raise unless the outputs of an export agree with the model on the rows.

    Raises
    ------
    ExportError
        If outputs differ by more than `tolerance` of their range, or if classes differ and are not tied.
    """
    compute, encoder = Compute("cpu", model.n_jobs), fitted.inputs.encoder
    # The model predicts in float64, because the rounding of float32 rows would add to the difference.
    numbers = np.asarray(rows if encoder is None else encoder.transform(rows), dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideWarning)
        scores = fitted.scores_of_rows(numbers, compute)
    expected: dict[str, np.ndarray] = {}
    if labels is None:
        expected["variable"] = scores
    else:
        if "probabilities" in found:
            expected["probabilities"] = np.exp(fitted.log_probabilities_of(scores, loss=model.loss))
        both = np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
        two = np.sort(both, axis=1)[:, -2:]
        clear = two[:, 1] - two[:, 0] > _TIE * max(float(np.ptp(scores)), np.finfo(FLOAT).tiny)
        differ = clear & (found["label"] != plain_labels(fitted.targets.decode(scores)))
        if differ.any():
            raise ExportError(
                f"the export gives another class at {differ.sum()} of {len(differ)} rows. Nothing was written."
            )
    for name, values in expected.items():
        extent = max(float(np.ptp(values)), float(np.abs(values).max()) * 1e-6, np.finfo(FLOAT).tiny)
        share = float(np.abs(found[name] - values).max()) / extent
        if not share <= tolerance:
            raise ExportError(
                f"the export differs from the model by {share:.2g} of the range of its outputs, over {tolerance:g}. "
                "Nothing was written; raise alpha, which makes coefficients smaller."
            )
