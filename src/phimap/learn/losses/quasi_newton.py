"""Minimisation of losses over streams by limited-memory quasi-Newton steps, preconditioned by a Gram matrix."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from phimap.learn.blocks.blocks import FeatureBlock
from phimap.learn.losses.losses import Loss
from phimap.learn.ridge.alpha import ChosenAlpha
from phimap.learn.solver import LinearSolution, Passes, Solver, Sums

#: Coefficients (m, t) and intercept (t,).
Model = tuple[np.ndarray, np.ndarray]

#: Number of past steps that are kept. The paths on satimage take a fourth more passes with 12 steps than with 40.
N_STEPS = 24
#: Largest number of passes.
PASSES = 300
#: Default tolerance, at which probabilities and decision values are accurate to a thousandth.
TOLERANCE = 1e-4
# Least mean curvature of the loss by which the preconditioner is scaled. If all margins are wide, the loss has no
# curvature, and only the penalty has one.
_LEAST_CURVATURE = 1e-6
# Least decrease of the objective by an accepted step, as a share of the decrease that the slope predicts.
_DECREASE = 1e-4
# Largest number of halvings of a step in a line search. Halvings are rarely needed, and each takes a pass.
_MOST_HALVINGS = 20


class Steps:
    r"""Steps :math:`s` of a minimisation, and the changes :math:`y` of the gradient by these steps.

    A point (m + 1, t) consists of the coefficients and, in the last row, the intercept, which is not penalised. A
    change of the gradient has a part from the losses, proportional to the weight of the rows, and a part from the
    penalty, proportional to alpha. So steps that were taken on a sample with one alpha can be converted to all rows and
    another alpha.

    Notes
    -----
    **Cost.** ``8 m t`` flops to apply a step; ``16 m t`` bytes a step.
    """

    def __init__(self):
        self._pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=N_STEPS)
        self._alpha = self._weight = 1.0

    def move_to(self, alpha: float, weight: float) -> None:
        """Convert the changes of the gradient to another alpha and to rows of another total weight."""
        pairs = list(self._pairs)
        self._pairs.clear()
        for moved, changed, _ in pairs:
            changed[:-1] -= self._alpha * moved[:-1]
            changed *= weight / self._weight
            changed[:-1] += alpha * moved[:-1]
            self.add(moved, changed)
        self._alpha, self._weight = alpha, weight

    def add(self, moved: np.ndarray, changed: np.ndarray) -> None:
        """Keep a step and its change of the gradient, both (m + 1, t), unless rounding made the curvature negative."""
        curvature = float((moved * changed).sum())
        if curvature > 0:
            self._pairs.append((moved, changed, curvature))

    @property
    def is_empty(self) -> bool:
        """Whether there are no steps."""
        return not self._pairs

    def forget(self) -> None:
        """Remove all steps."""
        self._pairs.clear()

    def solve(self, gradient: np.ndarray, precondition: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Multiply `gradient` by the inverse quasi-Newton matrix: a two-loop recursion around `precondition`."""
        rest, shares = gradient.copy(), []
        for moved, changed, curvature in reversed(self._pairs):
            share = float((moved * rest).sum()) / curvature
            rest -= share * changed
            shares.append(share)
        if self._pairs:
            # The newest step gives the scale of the matrix. Both products come from one call of the preconditioner.
            _, changed, curvature = self._pairs[-1]
            result, image = np.hsplit(precondition(np.hstack([rest, changed])), 2)
            result = result * (curvature / float((changed * image).sum()))
        else:
            result = precondition(rest)
        for (moved, changed, curvature), share in zip(self._pairs, reversed(shares), strict=True):
            result += (share - float((changed * result).sum()) / curvature) * moved
        return result


class QuasiNewton(Solver):
    r"""Minimise :math:`\sum_i w_i \ell(W^T z_i + c, y_i) + \tfrac{\alpha}{2} |W|^2` over W and c.

    Parameters
    ----------
    loss : Loss
    alpha : float
        ``1 / C`` of scikit-learn's linear classifiers.
    precondition : callable
        ``precondition(R, shift)`` applies an approximate inverse of ``A + shift I`` to `R` (m, t), with A the centred
        Gram matrix of the rows.
    mean : ndarray of shape (m,)
        Weighted mean of the features of the rows.
    start : tuple of ndarrays (m, t) and (t,) or None, default=None
        Start of the minimisation; None starts at zero.
    steps : Steps or None, default=None
        Steps of an earlier minimisation with the same mean; the new steps are added to them.
    tolerance : float, default=1e-4
        Tolerance for the norm of the gradient in the quasi-Newton metric, divided by the root of the objective.
    passes : int or None, default=None
        Largest number of passes; None is 300.
    n_jobs : int, optional

    Notes
    -----
    The Hessian is ``Z_c^T D Z_c + alpha I`` with D the curvature of the loss at each row. The quasi-Newton matrix
    starts from the Gram matrix times the mean curvature at the first point, and past changes of the gradient correct
    it. With a small alpha few rows have curvature at the solution, so the curvature at zero would give the penalty too
    little weight. One pass forms value and gradient at a new point; the line search ends if the value has decreased
    enough. The intercept is not penalised.

    **Error.** At the tolerance the relative excess of the objective is about half the square of the tolerance if the
    quasi-Newton matrix is accurate; twenty times that was observed.

    **Cost.** A pass forms the features of all rows and takes ``4 n m t`` flops; ``8 m t (2 steps + 6)`` bytes.

    **Differs from the source in** the matrix that the recursion starts from.

    References
    ----------
    Nocedal (1980), *Updating quasi-Newton matrices with limited storage*.
    """

    def __init__(
        self,
        loss: Loss,
        alpha: float,
        precondition: Callable[[np.ndarray, float], np.ndarray],
        mean: np.ndarray,
        *,
        start: Model | None = None,
        steps: Steps | None = None,
        tolerance: float = TOLERANCE,
        passes: int | None = None,
        n_jobs: int | None = None,
    ):
        self._loss, self._alpha, self._precondition, self._mean = loss, alpha, precondition, mean
        self._steps = Steps() if steps is None else steps
        self._start, self._tolerance, self.passes, self._n_jobs = start, tolerance, passes or PASSES, n_jobs

    @staticmethod
    def memory_of(m: int, t: int) -> int:
        """Bytes held for m features and t targets."""
        return 8 * m * t * (2 * N_STEPS + 6)

    def _passes(self, m: int, t: int, eps: float) -> Passes:
        point = np.zeros((m + 1, t))
        if self._start is not None:
            # The last row of a point is the intercept for centred rows.
            point[:-1], point[-1] = self._start[0], self._start[1] + self._mean @ self._start[0]
        value, gradient, n, scale = yield from self._evaluate(point)

        def precondition(R: np.ndarray) -> np.ndarray:
            scaled = self._precondition(R[:-1], self._alpha / scale) / scale
            return np.vstack([scaled, R[-1:] / (scale * n)])

        steps = self._steps
        steps.move_to(self._alpha, n)
        direction = -steps.solve(gradient, precondition)
        # The squared norm of the gradient in the quasi-Newton metric is about twice the excess of the objective.
        size = float(-(gradient * direction).sum())
        while size > self._tolerance**2 * self._unit(value, n) and self.n_passes < self.passes - 1:
            slope, step = float((gradient * direction).sum()), 1.0
            for _ in range(_MOST_HALVINGS):
                there = point + step * direction
                found, new, *_ = yield from self._evaluate(there)
                # A rise within the rounding error of the sum of losses is accepted.
                if found <= value + _DECREASE * step * slope + 8 * eps * abs(value) or self.n_passes >= self.passes:
                    break
                step *= 0.5
            else:
                if steps.is_empty:
                    break
                # Steps from other rows or from another alpha may point in a wrong direction.
                steps.forget()
                direction = -precondition(gradient)
                continue
            steps.add(there - point, new - gradient)
            point, value, gradient = there, found, new
            direction = -steps.solve(gradient, precondition)
            if not (gradient * direction).sum() < 0:
                steps.forget()
                direction = -precondition(gradient)
            size = float(-(gradient * direction).sum())
        value = self._unit(value, n)
        residual = float(np.sqrt(max(size, 0.0) / value)) if value > 0 else 0.0
        status = "solved" if residual <= self._tolerance else "stopped"
        W = point[:-1]
        chosen = ChosenAlpha(float(self._alpha))._asdict()
        how = {"residual": residual, "form": "quasi-newton", "status": status, "n_passes": self.n_passes}
        return LinearSolution(W.copy(), point[-1] - self._mean @ W, centre=point[-1].copy(), **how, **chosen)

    def _unit(self, value: float, n: float) -> float:
        """The value to which the accuracy is relative, given the objective `value` and the total weight n."""
        return max(min(value, self._loss.typical * n), self._loss.negligible * n)

    def _evaluate(self, point: np.ndarray):
        """Return objective, gradient (m + 1, t), sum of weights and mean curvature at a point, from one pass."""
        W, offset = point[:-1], point[-1] - self._mean @ point[:-1]
        # Local names keep this large solver out of the summand, which may be sent to other processes.
        loss, n_jobs = self._loss, self._n_jobs

        def summand(block: FeatureBlock, signs: np.ndarray, weights: np.ndarray) -> Sums:
            scores = block.times(W, n_jobs) + offset
            slopes = loss.slopes(scores, signs)
            curvature = weights @ loss.curvatures(scores, signs, slopes).mean(axis=1)
            slopes *= weights[:, None]
            cross, _ = block.cross_products(slopes, n_jobs)
            value = weights @ loss.values(scores, signs)
            return np.array([value, weights.sum(), curvature]), slopes.sum(axis=0), cross

        (value, n, curvature), sums, cross = yield summand
        gradient = np.vstack([cross - np.outer(self._mean, sums) + self._alpha * W, sums])
        value += 0.5 * self._alpha * float(np.square(W).sum())
        return value, gradient, n, max(curvature / n, _LEAST_CURVATURE)
