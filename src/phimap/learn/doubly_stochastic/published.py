"""The steps of Dai et al. (2014): each adds a new block of random features to the function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap._progress import Stages
from phimap.learn.blocks.blocks import feature_block
from phimap.learn.doubly_stochastic.model import LOSSES, ROWS_AT_A_TIME, StochasticModel
from phimap.learn.rows.batches import Batch
from phimap.learn.scaled_map import scaled
from phimap.ops import ops_for


@dataclass(frozen=True)
class PublishedSteps:
    r"""Functional gradient steps on ``E loss(f(x), y) + penalty |f|^2 / 2`` with the lengths ``step_size / t``.

    Step t draws a batch B of rows and a block of features ``phi_t`` with ``E <phi_t(x), phi_t(z)> = k(x, z)``. With
    ``g = step_size / t`` the iterate becomes

    .. math:: f_{t+1} = (1 - g\, \mathrm{penalty})\, f_t - g\, \langle a_t, \phi_t(\cdot) \rangle, \quad
              a_t = \frac{1}{|B|} \sum_{i \in B} \mathrm{loss}'(f_t(x_i), y_i)\, \phi_t(x_i)

    The scores ``f_t(x_i)`` of all training rows are kept, and each new block is added to them. So every block is drawn
    once, where the source draws it again in each later step; the iterates are the same.

    Attributes
    ----------
    loss : str
    step_size : float
        The length theta of the first step.
    penalty : float
        Alpha, divided by the total weight of the rows.
    n_epochs : int
        Number of passes over the rows, which the batches of all steps share equally.
    """

    loss: str
    step_size: float
    penalty: float
    n_epochs: int

    def take(
        self, model: StochasticModel, rows: Batch, rng: np.random.Generator, n_jobs: int | None, verbose: bool
    ) -> np.ndarray:
        """Take one step for each block of a model whose coefficients are zero.

        Return the mean loss of each batch before its step.

        Batches are drawn with replacement. The stored coefficients belong to the features of the whole map, which are
        the features of a block as a map of its own, times a constant.
        """
        X, y, weights = rows
        X, n, loss, blocks = scaled(model.scaling, X), X.shape[0], LOSSES[self.loss][0], model.blocks
        ops, columns = ops_for(X), blocks.columns
        counted = np.ones(n) if weights is None else weights * (n / model.weight_seen)
        targets = np.ldexp(model.encode(y), -model.exponent)
        intercept = np.ldexp(model.intercept, -model.exponent)
        scores, coef, losses = np.tile(intercept, (n, 1)), np.zeros_like(model.coef), []
        height = max(1, round(self.n_epochs * n / len(columns)))
        tiles = [slice(first, first + ROWS_AT_A_TIME) for first in range(0, n, ROWS_AT_A_TIME)]
        with Stages(verbose).stage("steps", len(columns)) as advance:
            for number, own in enumerate(columns):
                length = self.step_size / (number + 1)
                batch = rng.integers(n, size=height)
                shares = counted[batch][:, None] / height
                losses.append(float(shares[:, 0] @ loss.values(scores[batch], targets[batch])))
                slopes = loss.slopes(scores[batch], targets[batch]) * shares
                features = blocks.block_features(number, ops, (X[part] for part in (batch, *tiles)), n_jobs)
                kept = 1.0 - length * self.penalty
                coef[: own.start] *= kept
                # Alone, the block would have features that are larger, and coefficients that are smaller, by the root
                # of this ratio.
                ratio = blocks.n_components / (own.stop - own.start)
                products = feature_block(next(features)).cross_products(slopes, n_jobs)[0]
                coef[own] = -length * ratio * products
                for part, Z in zip(tiles, features, strict=True):
                    scores[part] = intercept + kept * (scores[part] - intercept)
                    scores[part] += feature_block(Z).times(coef[own], n_jobs)
                advance(1)
        model.coef, model.n_steps = np.ldexp(coef, model.exponent), len(columns)
        return np.array(losses)
