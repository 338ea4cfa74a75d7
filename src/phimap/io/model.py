"""Model files: safetensors with a JSON description, without pickle. They are written atomically and checked on load."""

from __future__ import annotations

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from phimap._files import DataError, OverBudgetError, check_model_exists, one_line, write_whole
from phimap.config import memory_budget, size_text
from phimap.io.decoding import Decoder
from phimap.io.encoding import Encoder, check_steps, public_classes
from phimap.io.tensors import checksum, read_tensors, write_tensors
from phimap.io.trial import check_model

_FORMAT = "phimap-model-1"
# Bytes of memory for each character of the description while it is parsed. The worst case is an empty list, which three
# characters make.
_EXPANSION = 32
# Number of bytes that are read to distinguish a model file from text. A model file begins with the length of its
# header, and the upper bytes of this length are zero.
_FIRST_BYTES = 64
# Largest header in bytes. A file that is not a model may seem to declare a header of any length.
_LONGEST_HEADER = 2**26


def save(model: BaseEstimator, path: str | os.PathLike[str], *, statistics: bool = False) -> None:
    """Write a fitted model or feature map to one file.

    Parameters
    ----------
    model : estimator
        A fitted learner, encoder, feature map or sketch of this package; or scikit-learn's `Pipeline` of these and of
        its `StandardScaler`, `MinMaxScaler`, `MaxAbsScaler`, `RobustScaler`, `Normalizer` and `PCA`.
    path : path-like
        Replaced only once the new file is complete.
    statistics : bool, default=False
        Also keep data that predictions do not need: a learner's ridge statistics (4 m^2 bytes), and the whitening of
        landmarks (8 m^2 bytes). Without the statistics, a loaded model cannot continue with `partial_fit` and `merge`,
        and `predict` gives no standard deviations. Without the whitening, `feature_map_` gives no features, and `coef_`
        are coefficients of the kernel values. Predictions, probabilities, intervals, explanations, `export` and
        `compress` need neither statistics nor whitening.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model is not fitted.
    TypeError
        If the model is not of this package, or a step is of a class not listed above; the message names the step.
    OSError
        If the file cannot be written; an existing file is then unchanged, and no partial file is left.

    Notes
    -----
    The file is in safetensors format: arrays as in memory, and a JSON text with classes, parameters and records. Arrays
    of float64 numbers that float32 holds exactly are stored as float32. The file contains a SHA-256 of its content.
    Equal models have equal files. A random generator given as `random_state` is stored as None.

    Examples
    --------
    >>> import numpy as np, phimap as pm, tempfile, pathlib
    >>> X = np.eye(3)
    >>> phi = pm.FourierFeatures(n_components=8, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "map.phimap"
    ...     pm.save(phi, file)
    ...     bool((pm.load(file).transform(X) == phi.transform(X)).all())
    True
    """
    known = tuple(public_classes().values())
    if isinstance(model, Pipeline):
        check_steps(model, known)
    elif type(model) not in known:
        raise TypeError(
            f"`model` must be a learner, a feature map or a sketch of phimap, or a pipeline of such, got "
            f"{type(model).__name__}. Use joblib."
        )
    check_is_fitted(model)
    arrays: dict[str, np.ndarray] = {}
    # Three attributes are never written: the factor for standard deviations, which follows from the statistics; the
    # statistics of an encoder, which are large; and times and memory, so that equal models have equal files.
    skipped = ("_deviations", "_pass", "stages_", *(() if statistics else ("_state", "_preconditioner")))
    tree = Encoder(arrays, skipped, whole=statistics).encode(model, "model")
    text = json.dumps(tree, separators=(",", ":"))
    metadata = {
        "format": _FORMAT,
        "version": version("phimap"),
        "model": text,
        "sha256": checksum(text, arrays),
    }
    write_whole(path, lambda file: write_tensors(file, arrays, metadata))


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model file written by `save`.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator
        The fitted model, which predicts and transforms to the same bits as the saved one.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DataError
        If the file is not a model file, is truncated or damaged, has a later version of the format, or is larger than
        the byte budget.

    Notes
    -----
    Files from untrusted sources may be loaded: only classes of this package are created, with values that their
    declarations allow, and the model is tried on a few rows. The page on files states the limits of these checks.
    """
    text, arrays, metadata = _read(Path(path))
    if checksum(text, arrays) != metadata.get("sha256"):
        raise DataError(f"`{path}` is damaged: its checksum does not match its content. Save the model again.")
    try:
        model = Decoder(arrays, len(text)).decode(json.loads(text))
        check_model(model)
    except Exception as error:
        # The classes and fields come from the file, so any exception here means that the file is not valid.
        what = one_line(error) or type(error).__name__
        raise DataError(
            f"`{path}` was written by phimap {one_line(metadata.get('version'))}, is damaged, and cannot be read by "
            f"{version('phimap')}: {what}. Save the model again with this version."
        ) from error
    return model


def is_model_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file declares that it is a model of any version, even if it is damaged."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(min(length, _LONGEST_HEADER))
    return header.startswith(b"{") and b'"phimap-model-' in header


def _check_budget(path: Path, n_bytes: int, what: str) -> None:
    """Raise if `n_bytes` exceed the byte budget. In the message, `what` stands before this number of bytes."""
    if n_bytes > memory_budget():
        raise OverBudgetError(
            f"`{path}` cannot be read: {what} {size_text(n_bytes)}, over the budget of {size_text(memory_budget())}. "
            "Raise it with phimap.config(memory=...)."
        )


def _is_text(first: bytes) -> bool:
    """Whether the first bytes of a file are text."""
    # A character may be cut at the end.
    text = first.decode("utf-8", "replace").rstrip("\ufffd")
    return bool(text) and "\ufffd" not in text and min(text) >= "\t"


def _read(path: Path) -> tuple[str, dict[str, np.ndarray], dict[str, str]]:
    """The JSON text, the arrays and the metadata of a model file."""
    from safetensors import SafetensorError, safe_open

    check_model_exists(path)
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise DataError(f"`{path}` is {kind}. Give a model file, as written by save or by phimap fit --model.")
    _check_budget(path, path.stat().st_size, "it takes")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if not metadata.get("format", "").startswith("phimap-model-"):
                raise DataError(f"`{path}` is a safetensors file but no phimap model. Give a file written by save.")
            if metadata["format"] != _FORMAT:
                raise DataError(f"`{path}` has format {metadata['format']}, newer than this phimap. Update phimap.")
            if "model" not in metadata:
                raise DataError(f"`{path}` is damaged: it describes no model. Save the model again.")
            _check_budget(path, path.stat().st_size + _EXPANSION * len(metadata["model"]), "its parts take")
            return metadata["model"], read_tensors(file), metadata
    except DataError:
        raise
    except (SafetensorError, ValueError) as error:
        with open(path, "rb") as file:
            if _is_text(file.read(_FIRST_BYTES)):
                raise DataError(
                    f"`{path}` is a text file and no phimap model. Give a file written by phimap fit --model."
                ) from None
        raise DataError(
            f"`{path}` is not a phimap model, or it is truncated: {one_line(error)}. Give a file written by save."
        ) from error
