"""The choice of alpha in passes over the rows: each pass improves solutions at several alphas."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.blocks.centred_rows import times_root
from phimap.learn.ridge.alpha_objectives import validation_weights
from phimap.learn.ridge.conjugate_gradient_steps import ConjugateGradientState
from phimap.learn.ridge.normal_equations import NormalEquations, products
from phimap.learn.ridge.nystroem_preconditioner import NystroemPreconditioner, WoodburyPreconditioner
from phimap.learn.solver import HeldOutScores, Summand, Sums, least
from phimap.learn.weights import weighted_mean

# Grid points per decade of alpha, as many as in a search by factorisation. A spline gives the minimum between them.
_POINTS_PER_DECADE = 4
# The grid of alphas ends at `_TOP` times the largest eigenvalue, where all coefficients are shrunk. It begins where
# rounding matters: see `phimap.learn.ridge.alpha`.
_TOP = 10.0
_FLOOR = 1e-2
_MOST_DECADES = 10
# Solutions are computed at `_REACH` grid points on each side of the best one. The search ends once the solutions at
# the `_NEEDED` nearest points on each side have settled.
_REACH, _NEEDED = 2, 1
_AT_ONCE = 2 * _REACH + 1
# A solution has settled if its remaining change is at most this share of its squared error. Scores of neighbouring
# alphas near the minimum differ by more.
_SETTLED = 1e-4
# A pass beyond the first `passes` is made only if the last pass lowered the least score by at least this share.
_FALLING = 0.01

#: An alpha and its solutions (m, t): of the system without random rows and, if there are extreme rows, of the system
#: without both.
Candidate = tuple[float, Sequence[np.ndarray]]


class ValidationFeatures(NamedTuple):
    """Features of the validation rows, and of the training rows from which a sketch is made.

    Attributes
    ----------
    random : FeatureRows or None
        The rows to hold out, drawn at random; None if no validation error is wanted.
    extreme : FeatureRows or None
        The rows farthest from the centre, none of which is in `random`.
    sample : FeatureRows or None
        Random rows that are neither in `random` nor in `extreme`, for `SketchRows`.
    """

    random: FeatureRows | None
    extreme: FeatureRows | None = None
    sample: FeatureRows | None = None

    @property
    def validation(self) -> list[FeatureRows]:
        """The random rows and, if there are any, the extreme rows."""
        return [rows for rows in (self.random, self.extreme) if rows is not None]

    def systems(self, system: NormalEquations) -> list[NormalEquations]:
        """The system without the random rows and, if there are extreme rows, the system without both."""
        return [system.without(self.validation[:n]) for n in range(1, len(self.validation) + 1)]


class HeldOutErrorInPasses:
    r"""The score of `HeldOutError` for solutions of systems without the validation rows.

    Parameters
    ----------
    rows : ValidationFeatures
    systems : sequence of NormalEquations
        `ValidationFeatures.systems`.
    preconditioner : WoodburyPreconditioner or None
        Approximate inverse of the matrix of the first system, made by adding the extreme rows to the preconditioner of
        the second system; None without extreme rows.
    n_jobs : int or None

    Notes
    -----
    The errors on random rows are errors of the first system. The errors on the extreme rows F are leave-one-out errors:
    the error at a row of F is its error in a fit to the first system's rows without this row. It is computed from the
    second system, the fit without F. Let e be the errors of that fit, s the roots of the weights, :math:`G_{ij} = s_i
    s_j [1 / n + z_i^T (A + \lambda I)^{-1} z_j]` and :math:`M = I + G`. Then the leave-one-out errors are
    :math:`[M^{-1} s e]_i / [M^{-1}]_{ii}`.

    **Error.** e is as exact as the solutions. G is approximate, because the preconditioner P replaces :math:`A +
    \lambda I`. G describes how similar the extreme rows are to each other. A row that is unlike all other extreme rows
    has the error e for any G, and the scale of G cancels if G is large. The leverages of the fit with F would have to
    be exact, because their distance from 1 divides the errors. The errors of the random rows come from a separate fit,
    because an approximate G is not accurate enough for them: with G of rank m / 8, the alpha of the protein data was
    off by 4 %.

    **Cost.** ``2 (r + k) m t`` flops for each alpha, and the cost of `WoodburyPreconditioner`.

    **Differs from the source in** the direction: the source removes rows from a fit, and this class adds them.

    References
    ----------
    Golub, Heath, Wahba (1979), *Generalized cross-validation as a method for choosing a good ridge parameter*,
    Equation 2.1 (one row left out).
    """

    def __init__(
        self,
        rows: ValidationFeatures,
        systems: Sequence[NormalEquations],
        preconditioner: WoodburyPreconditioner | None,
        n_jobs: int | None,
    ):
        self._rows, self._systems, self._preconditioner, self._n_jobs = rows.validation, systems, preconditioner, n_jobs
        self._targets = np.concatenate([part.targets for part in self._rows])
        total = systems[-1].weight + sum(part.weights_or_ones.sum() for part in self._rows)
        self._weights = validation_weights(self._rows[0], rows.extreme, total)

    def scores(self, candidates: Sequence[Candidate]) -> np.ndarray:
        """Mean squared error of each of c candidates, summed over targets (c,)."""
        return np.array(
            [weighted_mean(np.square(errors).sum(axis=1), self._weights) for errors in self._errors(candidates)]
        )

    def held_out_scores(self, candidate: Candidate) -> HeldOutScores:
        """Predictions of a candidate at the validation rows, with the weights of these rows in the score."""
        (errors,) = self._errors([candidate])
        return HeldOutScores(self._targets - errors, self._targets, self._weights)

    def _errors(self, candidates: Sequence[Candidate]) -> list[np.ndarray]:
        """Errors (r + k, t) of each candidate at the r random rows and then at the k extreme rows."""
        errors = []
        # The candidates share one product, because a product may have to form the features of the rows.
        for i, (part, system) in enumerate(zip(self._rows, self._systems, strict=True)):
            solutions = [own[i] for _, own in candidates]
            fitted = np.split(part.block.times(np.hstack(solutions), self._n_jobs), len(solutions), axis=1)
            errors.append([part.targets - system.intercept(W) - F for W, F in zip(solutions, fitted, strict=True)])
        if self._preconditioner is None:
            return errors[0]
        return [
            np.concatenate([random, self._leave_one_out(extreme, alpha, self._preconditioner)])
            for random, extreme, (alpha, _) in zip(*errors, candidates, strict=True)
        ]

    def _leave_one_out(self, errors: np.ndarray, alpha: float, preconditioner: WoodburyPreconditioner) -> np.ndarray:
        """Leave-one-out errors (k, t) of the extreme rows, from their errors in the fit without them."""
        roots = np.sqrt(self._rows[1].weights_or_ones)
        inverse = np.linalg.inv(preconditioner.middle(alpha) + np.outer(roots, roots) / self._systems[1].weight)
        return inverse @ (roots[:, None] * errors) / inverse.diagonal()[:, None] / roots[:, None]


class AlphaSearch:
    """The scores of a grid of alphas, and solutions at the best of these alphas and its neighbours.

    Parameters
    ----------
    systems : sequence of NormalEquations
        `ValidationFeatures.systems`.
    preconditioner : NystroemPreconditioner
        Preconditioner of the last system.
    rows : ValidationFeatures
    eps : float
        Machine epsilon of the features.
    n_jobs : int or None
    alpha : float, optional
        If given, the grid consists of this alpha.

    Attributes
    ----------
    alphas, scores : ndarray of shape (g,)
        The grid and its scores. Before `run`, the scores are those of approximate solutions, from the preconditioner
        alone.
    best : int
        Index of the best alpha.
    """

    def __init__(
        self,
        systems: Sequence[NormalEquations],
        preconditioner: NystroemPreconditioner,
        rows: ValidationFeatures,
        eps: float,
        n_jobs: int | None,
        *,
        alpha: float | None = None,
    ):
        extended = None
        if rows.extreme is not None:
            # The extreme rows are centred by the mean of all other training rows, which differs little from the mean of
            # all rows.
            centred = rows.extreme.block.to_host().astype(np.float64) - systems[-1].sum_z / systems[-1].weight
            added = np.ascontiguousarray(times_root(centred, rows.extreme.weights).T)
            extended = WoodburyPreconditioner(preconditioner, added)
        self._systems, self._lost, self._n_jobs = systems, preconditioner.lost, n_jobs
        self._preconditioners = [preconditioner] if extended is None else [extended, preconditioner]
        self._error = HeldOutErrorInPasses(rows, systems, extended, n_jobs)
        self.alphas = _grid(systems[-1], preconditioner.largest, eps) if alpha is None else np.array([alpha])
        # Maps the index of an alpha to one state for each system.
        self._states: dict[int, list[ConjugateGradientState]] = {}
        self.scores = np.concatenate(
            [
                self._error.scores([(shift, self._approximate(shift)) for shift in shifts])
                for shifts in np.split(self.alphas, range(_AT_ONCE, self.alphas.size, _AT_ONCE))
            ]
        )
        self.best = int(self.scores.argmin())

    def run(self, passes: int, most_passes: int) -> Generator[Summand, Sums, None]:
        """Follow the scores to their minimum in `passes` passes, or `most_passes` while the least score falls."""
        before = np.inf
        for n_passes in range(most_passes):
            if n_passes >= passes and self.scores[self.best] > (1 - _FALLING) * before:
                return
            before = self.scores[self.best]
            near = [i for i in range(self.best - _REACH, self.best + _REACH + 1) if 0 <= i < len(self.alphas)]
            if all(self._is_settled(i) for i in near if abs(i - self.best) <= _NEEDED):
                return
            active = [i for i in near if not self._is_settled(i)]
            # The list is complete before any state is stored, so in the first pass all solutions begin at zero.
            self._states |= {i: self._new_states(i) for i in active if i not in self._states}
            stepping = [pair for i in active for pair in zip(self._systems, self._states[i], strict=True)]
            images = yield from products([(system, state.directions) for system, state in stepping], self._n_jobs)
            for (_, state), image in zip(stepping, images, strict=True):
                state.step(image)
            self.scores[active] = self._error.scores([self._candidate(i) for i in active])
            followed = sorted(self._states)
            self.best: int = followed[int(self.scores[followed].argmin())]

    @property
    def alpha(self) -> float:
        """The alpha with the least score on `curve`."""
        return least(*self.curve)

    @property
    def curve(self) -> tuple[np.ndarray, np.ndarray]:
        """The scored alphas and their scores: alphas with settled solutions, the best alpha and its neighbours."""
        known = [i for i in sorted(self._states) if abs(i - self.best) <= _NEEDED or self._is_settled(i)]
        return self.alphas[known], self.scores[known]

    @property
    def solution(self) -> tuple[np.ndarray, np.ndarray]:
        """The solution W of the first system at the best alpha, and the product A W with the matrix of this system."""
        state = self._states[self.best][0]
        return state.solution, state.image

    @property
    def held_out(self) -> HeldOutScores:
        """Predictions for the validation rows at the best alpha."""
        return self._error.held_out_scores(self._candidate(self.best))

    def _approximate(self, alpha: float) -> list[np.ndarray]:
        """Approximate solutions of the systems, computed with their preconditioners alone."""
        return [p.solve(system.rhs, alpha) for p, system in zip(self._preconditioners, self._systems, strict=True)]

    def _new_states(self, i: int) -> list[ConjugateGradientState]:
        """New states at an alpha. They begin at the solutions of the nearest alpha with states, otherwise at zero."""
        alpha = self.alphas[i]
        states = [
            ConjugateGradientState(system.rhs, alpha, partial(preconditioner.solve, shift=alpha))
            for system, preconditioner in zip(self._systems, self._preconditioners, strict=True)
        ]
        if self._states:
            nearest = self._states[min(self._states, key=lambda j: abs(j - i))]
            for state, other in zip(states, nearest, strict=True):
                state.restart(other.solution, other.image)
        return states

    def _candidate(self, i: int) -> Candidate:
        return self.alphas[i], [state.solution for state in self._states[i]]

    def _is_settled(self, i: int) -> bool:
        states, unknown = self._states.get(i, []), 1 + self._lost / self.alphas[i]
        return bool(states) and all(
            state.n_steps > 0 and state.energy * unknown <= _SETTLED * system.weight * self.scores[i]
            for system, state in zip(self._systems, states, strict=True)
        )


def _grid(system: NormalEquations, largest: float, eps: float) -> np.ndarray:
    """The ascending grid of alphas (g,), from the largest eigenvalue of the matrix and the machine epsilon."""
    # Rounding is relative to the largest eigenvalue of the matrix before centring.
    rounded = max(largest, float(system.sum_z @ system.sum_z) / system.weight)
    lowest, highest = max(_FLOOR * eps * rounded, 10.0**-_MOST_DECADES * largest), _TOP * largest
    return np.geomspace(lowest, highest, int(np.log10(highest / lowest) * _POINTS_PER_DECADE) + 1)
