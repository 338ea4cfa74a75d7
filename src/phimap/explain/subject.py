"""The subject of an explanation: a model as a function of rows, its players, its exact forms and the rest."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from phimap.explain.forms.base import Form
from phimap.explain.forms.registry import Split, constant_of, scaled_forms, split_fitted, split_map
from phimap.explain.frames import FrameRows, names_of
from phimap.explain.sampling import Function
from phimap.kernels import FiniteSpectrum, SpectralMixture
from phimap.learn.base import KernelModel
from phimap.learn.doubly_stochastic.base import DoublyStochasticModel
from phimap.learn.doubly_stochastic.model import StochasticModel
from phimap.learn.extrapolation import NEAR, OutsideWarning
from phimap.learn.fitted import Fitted
from phimap.learn.inputs import InputEncoding
from phimap.learn.rows.scaling import Scaling
from phimap.learn.scaled_map import scaled
from phimap.learn.settings import Compute
from phimap.ops import ops_for
from phimap.tables.frames import is_frame


@dataclass(frozen=True)
class Subject:
    """A fitted model as a function of rows of numbers (n, w).

    Attributes
    ----------
    rows_of : callable
        Converts rows as users pass them to rows of numbers (n, w), float64.
    players : tuple of ndarray
        Columns of the rows of numbers that belong to each column of the users' rows.
    names : list of str
        Names of the players.
    outputs : callable
        The outputs (n, t) of the model at rows of numbers.
    is_single : bool
        Whether users see outputs as (n,).
    output_names : list of str or None
        Names of the t outputs, such as classes; None if there are none or one.
    forms : tuple of Form
        Exact forms; empty if the model has none.
    rest : callable or None
        The outputs minus the forms and the intercept; None if this is zero.
    intercept : ndarray of shape (t,) or None
        The constant of the outputs; None for models other than learners of phimap.
    is_far : callable
        ``is_far(rows, background)`` is the mask of rows that the model may shrink after mixing with a background row,
        because the mixture lies far from the training rows; see `predict`.
    n_jobs : int or None
    """

    rows_of: Callable[[Any], np.ndarray]
    players: tuple[np.ndarray, ...]
    names: list[str]
    outputs: Function
    is_single: bool
    output_names: list[str] | None
    forms: tuple[Form, ...] = ()
    rest: Function | None = None
    intercept: np.ndarray | None = None
    is_far: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda rows, _: np.zeros(len(rows), bool)
    n_jobs: int | None = None


def subject_of(model: Any, X: Any, *, by_column: bool = False) -> Subject:
    """Return a fitted model as a `Subject`; `X` are rows as users pass them.

    If `X` is a frame, the players are its columns. With `by_column` this also holds for rows that are already encoded.
    """
    by_column = by_column or is_frame(X)
    check_is_fitted(model)
    if isinstance(model, KernelModel):
        return _of_fitted(model, model._solved(), by_column=by_column)
    if isinstance(model, DoublyStochasticModel):
        return _of_stochastic(model, model._fitted, by_column=by_column)
    return _of_any(model, X)


def _of_fitted(model: KernelModel, fitted: Fitted, *, by_column: bool) -> Subject:
    solution, split = fitted.solved, split_fitted(fitted, model.n_jobs)

    def outputs(rows: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OutsideWarning)
            return fitted.scores_of_rows(rows, Compute("cpu", model.n_jobs))

    subject = _of_encoding(fitted.inputs, outputs, by_column=by_column)
    classes = getattr(model, "classes_", None)
    names = fitted.targets.output_names
    single = solution.coef.shape[1] == 1 if classes is not None else fitted.targets.single_column and names is None  # pyright: ignore
    return replace(
        subject,
        is_single=single,
        output_names=names if classes is None else None if single else [str(label) for label in classes],
        forms=split.forms,
        rest=(lambda rows: reduce(add, (part(rows) for part in split.rest))) if split.rest else None,
        intercept=constant_of(fitted),
        is_far=lambda rows, background: _far_rows(fitted, rows, background),
        n_jobs=model.n_jobs,
    )


def _of_stochastic(model: DoublyStochasticModel, fitted: StochasticModel, *, by_column: bool) -> Subject:
    split, blocks = Split(), fitted.blocks
    for number, columns in enumerate(blocks.columns):
        split += split_map(blocks.record(number), fitted.coef[columns], None)

    def outputs(rows: np.ndarray) -> np.ndarray:
        features = np.broadcast_to(fitted.intercept, (len(rows), fitted.intercept.size)).copy()
        z = scaled(fitted.scaling, rows)
        return features + sum(form.outputs(z) for form in split.forms)

    subject = _of_encoding(fitted.inputs, outputs, by_column=by_column)
    classes = getattr(model, "classes_", None)
    single = fitted.intercept.size == 1 if classes is not None else fitted.targets.single_column  # pyright: ignore
    return replace(
        subject,
        is_single=single,
        output_names=None if single or classes is None else [str(label) for label in classes],
        forms=scaled_forms(split.forms, fitted.scaling),
        intercept=np.asarray(fitted.intercept, dtype=np.float64),
        n_jobs=model.n_jobs,
    )


def _of_encoding(inputs: InputEncoding, outputs: Function, *, by_column: bool) -> Subject:
    """A learner of phimap as a subject without forms.

    With `by_column`, all encoded columns that come from one column of a frame are one player.
    """

    def rows_of(X: Any) -> np.ndarray:
        rows = inputs.rows(X)
        ops = ops_for(rows)
        return np.asarray(ops.to_host(ops.dense(rows)), dtype=np.float64)

    encoder = inputs.encoder
    owners = np.arange(inputs.width) if encoder is None else encoder.groups_
    if encoder is not None and not by_column:
        owners = np.arange(inputs.width)
    n_players = inputs.n_features if encoder is not None and by_column else inputs.width
    players = tuple(np.flatnonzero(owners == player) for player in range(n_players))
    given = inputs.names if encoder is None or by_column else inputs.column_names
    names = [f"column {j}" for j in range(len(players))] if given is None else [str(name) for name in given]
    return Subject(rows_of, players, names, outputs, is_single=True, output_names=None)


def _of_any(model: Any, X: Any) -> Subject:
    """Any other estimator as a subject. Its outputs are its decision function, probabilities or predictions."""
    method = next(
        name
        for name in ("decision_function", "predict_proba", "predict")
        if hasattr(model, name) and (name == "predict" or is_classifier(model))
    )
    frame = FrameRows(X)
    single = np.ndim(getattr(model, method)(frame.first())) == 1
    several = is_classifier(model) and not single

    def outputs(rows: np.ndarray) -> np.ndarray:
        found = np.asarray(getattr(model, method)(frame.mixed(rows)), dtype=np.float64)
        return found.reshape(len(rows), -1)

    names = names_of(X)
    players = tuple(np.array([column]) for column in range(len(names)))
    labels = [str(label) for label in model.classes_] if several else None
    return Subject(frame.rows_of, players, names, outputs, single, labels)


def scale_of(scaling: Scaling) -> Function:
    """The scaling of the columns, without the root of a full metric, in float64."""
    return lambda rows: scaled(replace(scaling, root=None), rows)


def _far_rows(fitted: Fitted, rows: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Mask (n,) of rows whose mixtures with background rows the model may shrink, see `ExtrapolationGuard`.

    A stationary kernel that decreases in every column is smallest where each column has the larger deviation of the two
    rows. With a full metric, the deviations of the columns are added in absolute value.
    """
    columns, kernel, scaling = fitted.map.range, fitted.map.kernel, fitted.map.scaling
    nobody = np.zeros(len(rows), bool)
    if columns is None or columns.margin is None or not kernel.is_stationary or fitted.solved.centre is None:
        return nobody
    both = np.concatenate([rows, background])
    if not columns.out_of_range(both).size:
        return nobody
    scale = scale_of(scaling)
    steps = np.abs(scale(both) - scale(columns.nearest(both)))
    worst = np.maximum(steps[: len(rows)], steps[len(rows) :].max(axis=0, initial=0.0))
    if any(isinstance(term, FiniteSpectrum | SpectralMixture) for _, term in kernel.terms()):
        return np.asarray(worst.any(axis=1))
    worst = worst if scaling.root is None else worst @ np.abs(scaling.root)
    origin = np.zeros((1, worst.shape[1]))
    return np.less(kernel(worst, origin)[:, 0], NEAR * kernel.diag(origin))
