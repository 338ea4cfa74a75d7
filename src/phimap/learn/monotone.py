"""Monotone effects: linear models whose outputs rise, or fall, with given columns."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import optimize

from phimap._warnings import caller_level
from phimap.learn.fitted import Fitted, TrainingState
from phimap.learn.inputs import InputEncoding
from phimap.learn.ridge.predictive import Leverages
from phimap.learn.settings import FitSettings
from phimap.learn.solver import LinearSolution
from phimap.ops import single_threaded_blas

# Number of values of a column on the grid of the fit, and on the finer grid of the check.
_VALUES, _CHECKED_VALUES = 17, 40
# Largest number of violated steps of the grid that a round adds to the constraints, and largest number of rounds.
_MORE, _ROUNDS = 200, 48
# The search for violated constraints ends after this number of successive rounds without a violation.
_CLEAN = 2
# Number of training rows on a grid. The grid has the same number of artificial rows, which take each column from a
# different training row.
_ROWS = 200
#: The fit warns if a violation exceeds this share of the range of the outputs.
TOLERANCE = 1e-3
# A step becomes a constraint if its violation exceeds this share of `TOLERANCE`.
_STRICT = 0.1
# Largest number of iterations that compute the multipliers of the constraints. They also end if the gradient is below
# the second number times the largest absolute value of ``D c_0``.
_STEPS, _ACCURACY = 3000, 1e-6


class MonotonicityWarning(UserWarning):
    """The outputs of a model violate its monotone constraints somewhere."""


def signs_of(constraints: Any, inputs: InputEncoding) -> np.ndarray | None:
    """Return 1 (rising), -1 (falling) or 0 (free) for each column of the kernel's rows; None if all are 0.

    Parameters
    ----------
    constraints : array-like of int of shape (n_features,), dict of str to int, or None
        In the order of the columns, or by name.
    inputs : InputEncoding

    Raises
    ------
    ValueError
        If a sign is not among -1, 0 and 1, a name or the number of columns is wrong, or a column holds no numbers.
    """
    if constraints is None:
        return None
    if inputs.sparse or inputs.image_shape is not None:
        raise ValueError("`monotonic_cst` applies to dense rows that are no images, got others. Leave it out.")
    signs = _given_signs(constraints, inputs)
    if inputs.encoder is None or not signs.any():
        return signs if signs.any() else None
    groups, amounts = inputs.encoder.groups_, inputs.encoder.amounts_
    for column in np.flatnonzero(signs):
        if not amounts[groups == column].any():
            name = inputs.encoder.columns_[column].name
            raise ValueError(f"`monotonic_cst` applies to columns of numbers, got one for {name!r}. Leave it out.")
    return np.where(amounts, signs[groups], 0)


def _given_signs(constraints: Any, inputs: InputEncoding) -> np.ndarray:
    """Return the signs (n_features,) of the columns that the user gives."""
    names = [] if inputs.names is None else [str(name) for name in inputs.names]
    if isinstance(constraints, Mapping):
        unknown = [name for name in constraints if name not in names]
        if unknown:
            raise ValueError(f"`monotonic_cst` must name columns of X, got {unknown[0]!r}. Give names, or an array.")
        constraints = [constraints.get(name, 0) for name in names]
    signs = np.asarray(constraints)
    if signs.shape != (inputs.n_features,) or not np.isin(signs, (-1, 0, 1)).all():
        raise ValueError(
            f"`monotonic_cst` must hold -1, 0 or 1 for each of the {inputs.n_features} columns, got {constraints!r}."
        )
    return signs.astype(np.int64)


def with_monotone_effects(fitted: Fitted, state: TrainingState, signs: np.ndarray, settings: FitSettings) -> Fitted:
    r"""Return the least-squares model whose outputs satisfy the constraints on a grid.

    Parameters
    ----------
    fitted : Fitted
        Model without constraints.
    state : TrainingState
    signs : ndarray of int, shape (d,)
        1, -1 or 0 for each column of the kernel's rows.
    settings : FitSettings

    Warns
    -----
    MonotonicityWarning
        If a step on a grid of other rows still violates a constraint by more than a thousandth of the range of the
        outputs.

    Notes
    -----
    A step of the grid is a row together with two neighbouring quantiles of a column. Half of the rows are training
    rows; the others take each column from a different training row. Let the rows of D be the differences of the
    features along the steps, times the signs. The constraints are ``D c >= 0``. Ridge regression minimises
    :math:`\tfrac12 c^\top H c - b^\top c` with :math:`H = A + \alpha I`, the centred Gram matrix A, and b the products
    of centred features and targets. The dual problem is

    .. math:: \min_{\lambda \ge 0}\; \tfrac12 \lambda^\top D H^{-1} D^\top \lambda + \lambda^\top D c_0,
              \qquad c = c_0 + H^{-1} D^\top \lambda

    with :math:`c_0` the solution without constraints. L-BFGS-B solves it for a few steps of the grid at a time. Every
    round keeps the active constraints, and adds the 200 steps with the largest violations on a grid of other rows.

    **Error.** The rounds end if no step of two successive grids violates the constraints by more than a tenth of the
    tolerance, and after 48 rounds. The remaining violation is measured on a finer grid of other rows. **Cost.** A
    factorisation, ``m^2`` flops for each constraint, and in each round the outputs on the grid.
    """
    targets, stream = fitted.targets, settings.stream("monotone")
    solution = targets.in_units(fitted.solved)
    leverages = state.sums.leverages(solution.alpha, settings.n_jobs)
    form = fitted.map.features(settings.compute)

    def new_grid(n_values: int) -> _Grid:
        chosen = stream.choice(len(state.sample.X), min(_ROWS, len(state.sample.X)), replace=False)
        rows = np.asarray(state.sample.X[chosen], dtype=np.float64)
        mixed = np.stack([stream.permutation(column) for column in rows.T], axis=1)
        return _Grid(np.concatenate([rows, mixed]), signs, n_values, lambda X: np.asarray(form(X).to_host()))

    found, n_clean = solution, 0
    D, multipliers = np.empty((0, fitted.map.width)), np.empty((0, targets.n_outputs))
    with single_threaded_blas():
        for _ in range(_ROUNDS):
            grid = new_grid(_VALUES)
            against = grid.against(found)
            n_clean = 0 if against.size else n_clean + 1
            if n_clean == _CLEAN:
                break
            if against.size:
                D = np.concatenate([D, grid.steps(against[:_MORE])])
                start = np.concatenate([multipliers, np.zeros((len(D) - len(multipliers), targets.n_outputs))])
                found, multipliers = _constrained(solution, leverages, D, start)
                binds = multipliers.any(axis=1)
                D, multipliers = D[binds], multipliers[binds]
    worst = new_grid(_CHECKED_VALUES).worst_share(found)
    if worst > TOLERANCE:
        warnings.warn(
            f"the outputs go against `monotonic_cst` by up to {100 * worst:.2g} % of their range on a grid. Use fewer "
            "components, or a larger alpha.",
            MonotonicityWarning,
            stacklevel=caller_level(),
        )
    return replace(fitted, solution=targets.restore(found))


def _constrained(
    solution: LinearSolution, leverages: Leverages, D: np.ndarray, start: np.ndarray
) -> tuple[LinearSolution, np.ndarray]:
    """Return the solution with ``D c >= 0`` for the coefficients c of each target, and the multipliers of D's k rows.

    The multipliers are (k, t). The search for them starts at `start` (k, t).
    """
    half = leverages.half_forms(D)
    # L-BFGS-B takes fewer steps if every row of D has length 1 in the metric H^-1.
    lengths = np.sqrt(np.maximum(np.square(half).sum(axis=0), np.finfo(np.float64).tiny))
    half /= lengths

    def multipliers_of(coef: np.ndarray, start: np.ndarray) -> np.ndarray:
        slack = D @ coef / lengths

        def objective(values: np.ndarray) -> tuple[float, np.ndarray]:
            image = half @ values
            return 0.5 * image @ image + values @ slack, half.T @ image + slack

        options = {"maxiter": _STEPS, "maxfun": 2 * _STEPS, "ftol": 0.0, "gtol": _ACCURACY * np.abs(slack).max()}
        bounds: Any = optimize.Bounds(0.0, np.inf)
        return optimize.minimize(
            objective, start * lengths, jac=True, method="L-BFGS-B", bounds=bounds, options=options
        ).x

    multipliers = np.stack(
        [multipliers_of(*parts) / lengths for parts in zip(solution.coef.T, start.T, strict=True)], axis=1
    )
    moved = leverages.solutions(D) @ multipliers
    intercept = solution.intercept - leverages.mean @ moved
    return replace(solution, coef=solution.coef + moved, intercept=intercept), multipliers


class _Grid:
    """Steps between neighbouring quantiles of the constrained columns, at given rows.

    Parameters
    ----------
    rows : ndarray of shape (r, d)
    signs : ndarray of int, shape (d,)
    n_values : int
        Number of quantiles.
    features : callable
        Features (n, m) of rows; the next call overwrites them.
    """

    def __init__(
        self, rows: np.ndarray, signs: np.ndarray, n_values: int, features: Callable[[np.ndarray], np.ndarray]
    ):
        self._rows, self._features = rows, features
        self._columns = [
            (column, int(signs[column]), np.unique(np.quantile(rows[:, column], np.linspace(0, 1, n_values))))
            for column in np.flatnonzero(signs)
        ]

    @property
    def n_steps(self) -> int:
        """Number of steps. A step is a row together with two neighbouring values of a column."""
        return len(self._rows) * sum(len(values) - 1 for _, _, values in self._columns)

    def steps(self, chosen: np.ndarray) -> np.ndarray:
        """Return the change (k, m) of the features along each chosen step, signed so that the output should rise.

        The steps are not in the order of `chosen`.
        """
        found, first = [], 0
        for column, sign, values in self._columns:
            here = chosen[(chosen >= first) & (chosen < first + len(self._rows) * (len(values) - 1))] - first
            row, value = np.divmod(here, len(values) - 1)
            ends = np.repeat(self._rows[row][None], 2, axis=0)
            ends[0, :, column], ends[1, :, column] = values[value], values[value + 1]
            if len(here):
                features = self._features(ends.reshape(-1, ends.shape[2])).astype(np.float64)
                found.append(sign * (features[len(here) :] - features[: len(here)]))
            first += len(self._rows) * (len(values) - 1)
        return np.concatenate(found)

    def against(self, solution: LinearSolution) -> np.ndarray:
        """Return the indices of steps that violate by over a tenth of the tolerance, the largest violation first."""
        falls = -self._rises(solution).min(axis=1)
        found = np.flatnonzero(falls > _STRICT * TOLERANCE)
        return found[np.argsort(-falls[found], kind="stable")]

    def worst_share(self, solution: LinearSolution) -> float:
        """Return the largest violation, as a share of the range of the outputs."""
        return max(0.0, -float(self._rises(solution).min(initial=0.0)))

    def _rises(self, solution: LinearSolution) -> np.ndarray:
        """Return the rises (n_steps, t) of the outputs, divided by the ranges of the outputs at the rows."""
        extent = np.ptp(self._features(self._rows) @ solution.coef, axis=0)
        rises = []
        for column, sign, values in self._columns:
            outputs = []
            for value in values:
                moved = self._rows.copy()
                moved[:, column] = value
                outputs.append(self._features(moved) @ solution.coef)
            steps = np.diff(np.stack(outputs, axis=1), axis=1).reshape(-1, solution.coef.shape[1])
            rises.append(np.multiply(sign, steps))
        return np.concatenate(rises) / np.where(extent > 0, extent, 1.0)
