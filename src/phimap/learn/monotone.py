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
_MORE, _ROUNDS = 200, 96
# The search for violated constraints ends after this number of successive rounds without a violation.
_CLEAN = 3
# Number of training rows on a grid. The grid has the same number of artificial rows, which take each column from a
# different training row.
_ROWS = 200
#: The fit warns if a violation exceeds this share of the range of the outputs.
TOLERANCE = 1e-3
# A step becomes a constraint if its violation exceeds this share of `TOLERANCE`.
_STRICT = 0.1
# Largest number of steps of the nonnegative least squares. A step adds or removes a constraint.
_STEPS = 10_000


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
    A step of the grid is a row together with two neighbouring values of a column. The values lie at random ranks among
    the distinct numbers of the column, most of them between two numbers. Half of the rows are training rows; the others
    take each column from a different training row. Let the rows of D be the differences of the features along the
    steps, times the signs. The constraints are ``D c >= 0``. Ridge regression minimises
    :math:`\tfrac12 c^\top H c - b^\top c` with :math:`H = A + \alpha I`, the centred Gram matrix A, and b the products
    of centred features and targets. The dual problem is

    .. math:: \min_{\lambda \ge 0}\; \tfrac12 \lambda^\top D H^{-1} D^\top \lambda + \lambda^\top D c_0,
              \qquad c = c_0 + H^{-1} D^\top \lambda

    with :math:`c_0` the solution without constraints. It is solved for some steps of the grid at a time. Every
    round keeps the active constraints, and adds the 200 steps with the largest violations on a grid of other rows.

    **Error.** The rounds end if no step of three successive grids violates the constraints by more than a tenth of the
    tolerance, and after 96 rounds. The remaining violation is measured on a finer grid of other rows. **Cost.** A
    factorisation, ``m^2`` flops for each constraint, and in each round the outputs on the grid and the nonnegative
    least squares of `_constrained`.
    """
    targets, stream = fitted.targets, settings.stream("monotone")
    solution = targets.in_units(fitted.solved)
    leverages = state.sums.leverages(solution.alpha, settings.n_jobs)
    form = fitted.map.features(settings.compute)

    def new_grid(n_values: int, *, is_random: bool) -> _Grid:
        chosen = stream.choice(len(state.sample.X), min(_ROWS, len(state.sample.X)), replace=False)
        rows = np.asarray(state.sample.X[chosen], dtype=np.float64)
        mixed = np.stack([stream.permutation(column) for column in rows.T], axis=1)
        shares = np.linspace(0, 1, n_values)
        if is_random:
            shares[1:-1] = np.sort(stream.random(n_values - 2))
        return _Grid(np.concatenate([rows, mixed]), signs, shares, lambda X: np.asarray(form(X).to_host()))

    found, n_clean = solution, 0
    D = np.empty((0, fitted.map.width))
    half = leverages.half_forms(D)
    with single_threaded_blas():
        for _ in range(_ROUNDS):
            grid = new_grid(_VALUES, is_random=True)
            against = grid.against(found)
            n_clean = 0 if against.size else n_clean + 1
            if n_clean == _CLEAN:
                break
            if against.size:
                steps = grid.steps(against[:_MORE])
                D, half = np.concatenate([D, steps]), np.concatenate([half, leverages.half_forms(steps)], axis=1)
                found, multipliers = _constrained(solution, leverages, D, half)
                binds = multipliers.any(axis=1)
                D, half = D[binds], half[:, binds]
    worst = new_grid(_CHECKED_VALUES, is_random=False).worst_share(found)
    if worst > TOLERANCE:
        warnings.warn(
            f"the outputs go against `monotonic_cst` by up to {100 * worst:.2g} % of their range on a grid. Use a "
            "larger `length_scale`, or more components.",
            MonotonicityWarning,
            stacklevel=caller_level(),
        )
    return replace(fitted, solution=targets.restore(found))


def _constrained(
    solution: LinearSolution, leverages: Leverages, D: np.ndarray, half: np.ndarray
) -> tuple[LinearSolution, np.ndarray]:
    r"""Return the solution with ``D c >= 0`` for the coefficients c of each target, and the multipliers of D's k rows.

    The multipliers are (k, t), and `half` are the half forms of D.

    Notes
    -----
    With ``S^T S = D H^{-1} D^T``, the dual problem of `with_monotone_effects` has the solution ``y / (1 + y^T D c_0)``
    for the nonnegative y that minimises :math:`|S y|^2 + (1 + y^T D c_0)^2`. An active-set method finds it exactly.

    References
    ----------
    Lawson, Hanson (1974), *Solving least squares problems*, Chapter 23, Section 4, problem LDP.
    """
    # The columns of S get length 1, and D c_0 entries of at most 1.
    lengths = np.sqrt(np.maximum(np.square(half).sum(axis=0), np.finfo(np.float64).tiny))
    S = np.linalg.qr(half / lengths, mode="r")

    def multipliers_of(coef: np.ndarray) -> np.ndarray:
        slack = D @ coef / lengths
        # A constant target has no coefficients, so that all its entries are 0.
        size = max(np.abs(slack).max(), np.finfo(np.float64).tiny)
        system = np.concatenate([S, -slack[None] / size])
        y = _nonnegative_solution(system, np.append(np.zeros(len(S)), 1.0))
        return size * y / (1 + y @ slack / size) / lengths

    multipliers = np.stack([multipliers_of(coef) for coef in solution.coef.T], axis=1)
    moved = leverages.solutions(multipliers.T @ D)
    intercept = solution.intercept - leverages.mean @ moved
    return replace(solution, coef=solution.coef + moved, intercept=intercept), multipliers


def _nonnegative_solution(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the x >= 0 that minimises ``|A x - b|``."""
    try:
        return optimize.nnls(A, b, maxiter=_STEPS)[0]
    except RuntimeError:
        # Rounding can make the active set return to an earlier one. This method is slower, but ends in any case.
        return optimize.lsq_linear(A, b, bounds=(0.0, np.inf), method="bvls").x


class _Grid:
    """Steps between neighbouring values of the constrained columns, at given rows.

    Parameters
    ----------
    rows : ndarray of shape (r, d)
    signs : ndarray of int, shape (d,)
    shares : ndarray of shape (v,)
        Ascending numbers from 0 to 1: where the values of a column lie among the distinct numbers of the column in the
        rows, from the least to the largest. Values between two numbers are interpolated.
    features : callable
        Features (n, m) of rows; the next call overwrites them.
    """

    def __init__(
        self, rows: np.ndarray, signs: np.ndarray, shares: np.ndarray, features: Callable[[np.ndarray], np.ndarray]
    ):
        self._rows, self._features = rows, features
        self._columns = [
            (column, int(signs[column]), np.unique(np.quantile(np.unique(rows[:, column]), shares)))
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
