"""Stochastic gradient steps over blocks of features that are drawn anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.learn.blocks.blocks import feature_block
from phimap.learn.doubly_stochastic.blocks import BlockedMap
from phimap.learn.doubly_stochastic.preconditioner import SamplePreconditioner
from phimap.learn.losses.base import Loss
from phimap.learn.losses.hinge import CORNER, Hinge
from phimap.learn.losses.logistic import Logistic
from phimap.learn.losses.squared import Squared
from phimap.learn.losses.squared_hinge import SquaredHinge
from phimap.ops import Array, ops_for

#: The losses by name, and bounds of their second derivatives by one of t scores.
LOSSES: dict[str, tuple[Loss, float]] = {
    "squared": (Squared(), 1.0),
    # This is the bound of the multinomial likelihood; the binomial one has half of it.
    "logistic": (Logistic(), 0.5),
    "hinge": (Hinge(), 1 / CORNER),
    "squared_hinge": (SquaredHinge(), 2.0),
}


@dataclass(frozen=True)
class BlockProblem:
    """What is minimised: the mean of ``loss(phi(x)^T W + c, y)`` plus ``penalty |W|^2 / 2``.

    Attributes
    ----------
    blocks : BlockedMap
    loss : str
    n_jobs : int or None
    """

    blocks: BlockedMap
    loss: str
    n_jobs: int | None

    def scores(self, X: Array, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """``phi(x)^T W + c`` (r, t), float64, of scaled rows."""
        scores = np.tile(intercept, (X.shape[0], 1))
        for columns, (Z,) in self.blocks.features(ops_for(X), (X,), self.n_jobs):
            scores += feature_block(Z).times(coef[columns], self.n_jobs)
        return scores

    def step(
        self,
        X: Array,
        targets: np.ndarray,
        weights: np.ndarray,
        coef: np.ndarray,
        intercept: np.ndarray,
        preconditioner: SamplePreconditioner,
        *,
        penalty: float,
        damping: float,
    ) -> float:
        """One step for a batch of scaled rows, in place; the mean loss before it.

        The gradient of the batch is preconditioned, and the step goes to the least of a parabola above the loss of the
        batch along it, times `damping`.

        Parameters
        ----------
        X : array or CSR matrix of shape (r, n_features)
        targets : ndarray of shape (r, t)
        weights : ndarray of shape (r,)
            With mean 1 over all rows.
        coef : ndarray of shape (m, t)
        intercept : ndarray of shape (t,)
        preconditioner : Preconditioner
        penalty, damping : float
        """
        loss, bound = LOSSES[self.loss]
        ops = ops_for(X)
        shares = weights[:, None] / len(weights)
        scores = self.scores(X, coef, intercept)
        slopes = loss.slopes(scores, targets) * shares
        sample = ops.constant(preconditioner.rows) if not ops.is_sparse(preconditioner.rows) else preconditioner.rows
        # The gradient, and its products with the sample's features, the constant one of the intercept among them.
        gradient, at_intercept = np.empty_like(coef), slopes.sum(axis=0)
        products = np.tile(at_intercept, (sample.shape[0], 1))
        for columns, (Z, Z_sample) in self.blocks.features(ops, (X, sample), self.n_jobs):
            part = feature_block(Z).cross_products(slopes, self.n_jobs)[0] + penalty * coef[columns]
            gradient[columns] = part
            products += feature_block(Z_sample).times(part, self.n_jobs)
        solved = preconditioner.solve(products)
        # Along the preconditioned gradient, which takes the place of the gradient block by block.
        direction_at_intercept = at_intercept - solved.sum(axis=0)
        slope, curvature = at_intercept * direction_at_intercept, np.zeros(coef.shape[1])
        change = np.tile(direction_at_intercept, (X.shape[0], 1))
        for columns, (Z, Z_sample) in self.blocks.features(ops, (X, sample), self.n_jobs):
            part = gradient[columns] - feature_block(Z_sample).cross_products(solved, self.n_jobs)[0]
            slope += (gradient[columns] * part).sum(axis=0)
            curvature += penalty * np.square(part).sum(axis=0)
            change += feature_block(Z).times(part, self.n_jobs)
            gradient[columns] = part
        curvature += bound * (shares * np.square(change)).sum(axis=0)
        length = damping * np.divide(np.maximum(slope, 0), curvature, out=np.zeros_like(slope), where=curvature > 0)
        coef -= length * gradient
        intercept -= length * direction_at_intercept
        return float((shares[:, 0] * loss.values(scores, targets)).sum())
