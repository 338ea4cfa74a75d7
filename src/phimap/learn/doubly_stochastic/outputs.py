"""Outputs of a linear model on blocks of random features that are formed anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from phimap._dask import by_blocks
from phimap._validation import check_samples
from phimap.kernels import Kernel
from phimap.learn.doubly_stochastic.blocks import BlockedMap
from phimap.learn.doubly_stochastic.steps import BlockProblem
from phimap.learn.rows.scaling import Scaling
from phimap.ops import Array, ops_for

#: Rows that are gone through at a time where no step is taken.
ROWS_AT_A_TIME = 4096


class BlockedModel(BaseEstimator, ABC):
    """A linear model of which coefficients, a kernel and a seed are stored."""

    blocks_: BlockedMap
    scaling_: Scaling
    loss: str
    n_jobs: int | None
    _coef: np.ndarray
    _intercept: np.ndarray
    _sparse: bool

    @abstractmethod
    def _decode(self, scores: np.ndarray) -> np.ndarray:
        """Outputs (n, t) of the linear model as targets."""

    @by_blocks
    def predict(self, X: Any) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : array-like, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or Dask array where `X` is one, of shape (n_samples,) or, for regression, (n_samples, n_targets)
            Labels of the kind that `fit` saw, or numbers: float32 for float32 input, else float64.

        Raises
        ------
        ValueError
            If `X` has another width than in `fit`, is empty or is not finite.
        """
        return self._decode(self._scores(X))

    def _scores(self, X: Any) -> np.ndarray:
        """Outputs (n, t) of the linear model, batch by batch."""
        check_is_fitted(self, "blocks_")
        X = self._alike(check_samples(self, X, reset=False))
        problem, scores = self._problem(), np.empty((X.shape[0], self._intercept.size))
        for start in range(0, X.shape[0], ROWS_AT_A_TIME):
            part = slice(start, start + ROWS_AT_A_TIME)
            scores[part] = problem.scores(self._scaled(X[part]), self._coef, self._intercept)
        return scores.astype(ops_for(X).dtype, copy=False)

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel that the features estimate."""
        check_is_fitted(self, "blocks_")
        return self.blocks_.kernel

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients (m,), or (t, m) for several targets."""
        check_is_fitted(self, "blocks_")
        return self._coef[:, 0] if self._coef.shape[1] == 1 else self._coef.T

    @property
    def intercept_(self) -> Any:
        """Intercept, a float or (t,) for several targets."""
        check_is_fitted(self, "blocks_")
        return float(self._intercept[0]) if self._intercept.size == 1 else self._intercept

    def _alike(self, X: Array) -> Array:
        """Rows that are all dense or all CSR, as the first ones were."""
        if self._sparse == sparse.issparse(X):
            return X
        return X.toarray() if sparse.issparse(X) else sparse.csr_matrix(ops_for(X).to_host(X))

    def _scaled(self, rows: Array) -> Array:
        ops = ops_for(rows)
        return self.scaling_.bind(ops).apply(ops, rows)

    def _problem(self) -> BlockProblem:
        return BlockProblem(self.blocks_, self.loss, self.n_jobs)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "blocks_")
