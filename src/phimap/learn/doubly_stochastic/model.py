"""A fitted doubly stochastic model: coefficients, and the kernel and seed from which its features are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap.learn.doubly_stochastic.blocks import BlockedMap
from phimap.learn.doubly_stochastic.steps import BlockProblem, SamplePreconditioner
from phimap.learn.inputs import InputEncoding
from phimap.learn.losses.losses import log_probabilities
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.scaling import Scaling
from phimap.learn.scaled_map import scaled
from phimap.learn.targets.base import Targets
from phimap.learn.targets.classes import Classes
from phimap.ops import Array, ops_for
from phimap.records import Record, of_floats, of_number

#: Number of rows of a batch in the first pass and in prediction.
ROWS_AT_A_TIME = 4096


@dataclass
class StochasticModel(Record):
    """A linear model on random features of which only the coefficients are stored; steps change it in place.

    Attributes
    ----------
    inputs : InputEncoding
    targets : Targets
    scaling : Scaling
        Scaling of the columns.
    blocks : BlockedMap
        Kernel and seed of the features.
    coef : ndarray of shape (m, t)
    intercept : ndarray of shape (t,)
    seed : SeedSequence
        Seed of the named random streams.
    n_samples_seen, n_steps : int
    weight_seen : float
        Sum of the weights of the rows seen.
    """

    inputs: InputEncoding
    targets: Targets
    scaling: Scaling
    blocks: BlockedMap
    coef: np.ndarray = field(metadata=of_floats("m", "t"))
    intercept: np.ndarray = field(metadata=of_floats("t"))
    seed: np.random.SeedSequence
    n_samples_seen: int = field(default=0, metadata=of_number(least=0))
    weight_seen: float = field(default=0.0, metadata=of_number(least=0))
    n_steps: int = field(default=0, metadata=of_number(least=0))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        width = self.inputs.n_features
        yield self.blocks.n_features == width == self.scaling.shift.size, "blocks and a scaling of its rows"
        yield self.scaling.root is None and self.scaling.squash is None, "a scaling by columns alone"
        yield self.coef.shape[0] == self.blocks.n_components, "a coefficient for each feature"
        yield self.intercept.size == self.targets.n_outputs, "an output for each target or class"

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Return checked targets as numbers, or labels as signs (r, t)."""
        return self.targets.signs(y) if isinstance(self.targets, Classes) else y.reshape(len(y), -1)

    def scaled(self, rows: Array) -> Array:
        """Return the scaled rows (r, d)."""
        return scaled(self.scaling, rows)

    def step(
        self,
        batch: Batch,
        preconditioner: SamplePreconditioner,
        problem: BlockProblem,
        *,
        penalty: float,
        damping: float,
    ) -> float:
        """Take one step for a batch; return its mean loss before the step.

        Weights are divided by the mean weight of all rows seen.
        """
        X, y, weights = batch
        mean_weight = self.weight_seen / self.n_samples_seen
        counted = np.ones(X.shape[0]) if weights is None else weights / mean_weight
        self.n_steps += 1
        return problem.step(
            self.scaled(X),
            self.encode(y),
            counted,
            self.coef,
            self.intercept,
            preconditioner,
            penalty=penalty,
            damping=damping,
        )

    def scores(self, X: Any, *, loss: str, n_jobs: int | None) -> np.ndarray:
        """Return outputs (n, t), computed batch by batch; `X` are rows as users pass them."""
        X = self.inputs.training_rows(X)
        problem, scores = BlockProblem(self.blocks, loss, n_jobs), np.empty((X.shape[0], self.intercept.size))
        for start in range(0, X.shape[0], ROWS_AT_A_TIME):
            part = slice(start, start + ROWS_AT_A_TIME)
            scores[part] = problem.scores(self.scaled(X[part]), self.coef, self.intercept)
        return scores.astype(ops_for(X).dtype, copy=False)

    def predictions(self, X: Any, *, loss: str, n_jobs: int | None) -> np.ndarray:
        """Return predicted targets (n,) or (n, t) at rows `X`."""
        return self.targets.decode(self.scores(X, loss=loss, n_jobs=n_jobs))

    def decisions(self, X: Any, *, loss: str, n_jobs: int | None) -> np.ndarray:
        """Return outputs of a classifier: (n,) for two classes, else (n, n_classes)."""
        scores = self.scores(X, loss=loss, n_jobs=n_jobs)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def log_probabilities(self, X: Any, *, loss: str, n_jobs: int | None) -> np.ndarray:
        """Logarithms of the probabilities of the classes (n, n_classes), for the logistic loss."""
        return log_probabilities(self.scores(X, loss=loss, n_jobs=n_jobs))

    def probabilities(self, X: Any, *, loss: str, n_jobs: int | None) -> np.ndarray:
        """Probabilities of the classes (n, n_classes), for the logistic loss."""
        return np.exp(self.log_probabilities(X, loss=loss, n_jobs=n_jobs))
