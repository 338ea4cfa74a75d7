"""Trials of the losses of classification, which compare the held-out log losses of the predicted probabilities."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import optimize

from phimap.learn.calibration import held_out_log_loss
from phimap.learn.criterion import Criterion
from phimap.learn.losses.losses import Logistic, Loss, SquaredHinge
from phimap.learn.search.effort import Effort
from phimap.learn.search.log import TrialLog
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import SearchResult
from phimap.learn.search.trial import ALPHAS, TrialResult, centred_gram, features_of, run_trial
from phimap.learn.solver import HeldOutScores
from phimap.learn.weights import weighted_mean
from phimap.ops import run_tasks
from phimap.ops.blas import factorise, solve_transposed, solve_upper

#: Losses that may take the place of the squared loss.
RIVALS: dict[str, Loss] = {"logistic": Logistic(), "squared_hinge": SquaredHinge()}
# Ratio of successive alphas, largest number of alphas, and largest number of steps for each alpha. Few steps suffice,
# because the factorisation at the alpha of ridge regression preconditions them.
_FACTOR, _MOST_ALPHAS, _STEPS = 0.1, 4, 12


def losses_tried(
    found: SearchResult,
    sample: SearchSample,
    effort: Effort,
    criterion: Criterion | None,
    *,
    seed: int,
    n_jobs: int | None,
    log: TrialLog,
) -> dict[str, float]:
    """Return the held-out log losses of classifiers with each loss, or their errors by a criterion.

    The maps have the width of the second rung.

    Parameters
    ----------
    found : SearchResult
        The chosen kernel.
    sample : SearchSample
        Rows multiplied by the root of the chosen metric, with encoded labels.
    effort : Effort
    criterion : Criterion or None
        None for the log loss.
    seed : int
        Seed of the map; the search used the same seed.
    n_jobs : int or None
        Threads; the result does not depend on them.
    log : TrialLog
        After its deadline, no further loss is tried.

    Returns
    -------
    dict of str to float
        Log loss, or error, by name of the loss; the squared loss comes first. Empty if ridge regression fails at the
        alpha of the search.

    Notes
    -----
    The logistic loss predicts probabilities itself; for other losses, the scores are calibrated on the held-out rows,
    see `Calibration`. Alphas descend until the log loss rises. The minimiser is L-BFGS in coordinates in which the Gram
    matrix plus the alpha of ridge regression is the identity.

    **Cost.** ``4 n m t`` flops for each of at most 50 evaluations of a loss with n training rows and t outputs.
    """
    rung = min(1, len(effort.n_rows) - 1)
    sample = sample.first(effort.n_rows[rung])
    width, roots = min(effort.n_components[rung], sample.n_learned), (None,) * len(sample.folds())
    make = partial(found.family.trial_features, found.kernel, width, seed, n_jobs)
    trial = run_trial(make, roots, sample, found.alpha, n_jobs)
    if not np.isfinite(trial.error):
        return {}
    folds = run_tasks(lambda fold: _FoldOfLosses(trial, sample, fold), range(len(trial.fits)), n_jobs)
    error = partial(_log_loss, criterion=criterion)
    tried = {"squared": error("squared", [fold.ridge_scores() for fold in folds], folds)}
    for name, loss in RIVALS.items():
        if log.is_over():
            break
        paths = [fold.path(loss) for fold in folds]
        best = np.inf
        for _ in range(_MOST_ALPHAS):
            at_alpha = error(name, run_tasks(lambda path: path(), paths, n_jobs), folds)
            if at_alpha >= best:
                break
            best = at_alpha
        tried[name] = best
    return tried


def _log_loss(name: str, scores: list[np.ndarray], folds: list[_FoldOfLosses], *, criterion: Criterion | None) -> float:
    """The log loss of the held-out scores (r, t) of each fold, over all folds together; `name` is the loss.

    With a `criterion`, the result is the error by this criterion.
    """
    targets, weights = (np.concatenate(parts) for parts in zip(*((f.held_out[1:]) for f in folds), strict=True))
    pooled = np.concatenate(scores)
    if criterion is not None:
        return criterion.error(HeldOutScores(pooled, targets, weights), loss=name)
    targets = targets if name == "squared" else _signs(targets)
    return held_out_log_loss(HeldOutScores(pooled, targets, weights), name)


class _FoldOfLosses:
    """The features of the rows of a fold, and minimisers of losses on its training rows."""

    def __init__(self, trial: TrialResult, sample: SearchSample, fold: int):
        record = trial.fits[fold].record
        training, held_out = sample.folds()[fold]
        self._Z, Z = (features_of(record, sample.X[part]) for part in (training, held_out))
        self._Y, self._weights = sample.Y[training], sample.weights[training]
        self.held_out = Z, sample.Y[held_out], sample.weights[held_out]
        self._coefs = trial.fits[fold].coefs
        self._mean_z, gram, _ = centred_gram(self._Z, self._weights, None)
        trace = max(float(np.trace(gram)), np.finfo(np.float64).tiny)
        # The trial factorised this matrix with this alpha, so the factorisation below succeeds.
        self._alpha = max(ALPHAS[trial.alpha], float(np.finfo(self._Z.dtype).eps)) * trace
        gram[np.diag_indices_from(gram)] += self._alpha
        factorise(gram)
        self._factor = gram

    def ridge_scores(self) -> np.ndarray:
        """Scores of ridge regression for the held-out rows."""
        mean_y = weighted_mean(self._Y, self._weights)
        return (self.held_out[0] - self._mean_z) @ self._coefs + mean_y

    def path(self, loss: Loss) -> Callable[[], np.ndarray]:
        """Return a function.

        Each call minimises `loss` at the next smaller alpha and returns scores of the held-out rows.
        """
        m, t = self._Z.shape[1], self._Y.shape[1]
        factor = self._factor
        targets, weights, dtype = _signs(self._Y), self._weights[:, None], self._Z.dtype
        values, alpha = np.zeros((m + 1, t)), self._alpha / _FACTOR

        def coefs_of(values: np.ndarray) -> np.ndarray:
            coefs = values[:m].copy()
            solve_upper(factor, coefs)
            return coefs

        def scores(Z: np.ndarray, values: np.ndarray, coefs: np.ndarray) -> np.ndarray:
            return Z @ coefs.astype(dtype) + (values[m] - self._mean_z @ coefs)

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            now = flat.reshape(m + 1, t)
            coefs = coefs_of(now)
            outputs = scores(self._Z, now, coefs)
            slopes = loss.slopes(outputs, targets) * weights
            of_intercept = slopes.sum(axis=0)
            of_coefs = self._Z.T @ slopes.astype(dtype) - np.outer(self._mean_z, of_intercept) + alpha * coefs
            solve_transposed(factor, of_coefs)
            value = float(self._weights @ loss.values(outputs, targets)) + 0.5 * alpha * float(np.square(coefs).sum())
            return value, np.concatenate([of_coefs, of_intercept[None]]).ravel()

        def next_scores() -> np.ndarray:
            nonlocal values, alpha
            alpha *= _FACTOR
            options = {"maxiter": _STEPS, "maxfun": 2 * _STEPS}
            found = optimize.minimize(objective, values.ravel(), jac=True, method="L-BFGS-B", options=options).x
            values = found.reshape(m + 1, t)
            return scores(self.held_out[0], values, coefs_of(values))

        return next_scores


def _signs(targets: np.ndarray) -> np.ndarray:
    return np.where(targets > 0, 1.0, -1.0)
