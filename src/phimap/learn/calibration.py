"""Probabilities of classes from scores, calibrated on rows that the model has not seen."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from phimap.learn.losses.losses import Logistic
from phimap.learn.solver import HeldOutScores
from phimap.learn.targets.base import Targets
from phimap.learn.weights import weighted_mean
from phimap.ops import single_threaded_blas
from phimap.records import Record, of_number

# Gaussian prior of the logarithms of power and width: mean values over nine tables, and about twice the standard
# deviation between these tables. The prior keeps probabilities finite if there are few rows, or if the classes are
# separated without error.
_CENTRE = np.array([1.2, -2.0])
_SPREAD = 1.0
# The logarithms are searched up to this distance from their prior means. On real data they were always closer.
_FARTHEST = 6.0
# For x below this, log(softplus(x)) equals x in float64.
_LINEAR = -36.0


@dataclass(frozen=True)
class Calibration(Record):
    r"""Probabilities of classes as a function of scores from a least-squares or maximum-margin fit to the labels.

    Attributes
    ----------
    low : float
        Encoded target of the wrong class, -1 or 0; the right class has 1.
    power, width : float
        The power a and the width :math:`\tau` in the formula below.
    log_loss : float
        Mean negative log-likelihood of the rows from which power and width were computed; infinite in files of earlier
        versions.

    Notes
    -----
    Let :math:`u_c = (s_c - low) / (1 - low)`, and for two classes, which have one score, :math:`u_0 = 1 - u_1`. Then

    .. math:: p_c \propto \operatorname{softplus}(u_c / \tau)^a, \qquad \operatorname{softplus}(x) = \log(1 + e^x),

    with the power a and the width :math:`\tau`. The scores of a least-squares fit of labels estimate probabilities, but
    may leave the interval from 0 to 1. If u is large compared with the width, the probability is a power of u. If u is
    negative, the probability falls as :math:`e^{a u / \tau}`. For large :math:`\tau` and a, the formula is a softmax
    with a temperature.

    Power and width maximise the likelihood of validation rows, times a Gaussian prior of the logarithms of power and
    width. The weights of the rows are divided by their mean. The probabilities of a row have the order of its scores.

    **Error.** Validation rows are used because scores of training rows are overconfident and would give a width far too
    small. **Cost.** A few dozen evaluations of r n_classes values for r validation rows.

    **Differs from the source in** the prior, and in the softplus, which replaces the exponential: it has one more
    parameter and lowers the log loss. There is no offset for each class. Offsets lower the log loss by only 1 % (median
    of nine tables), and the most probable class would no longer be the class with the largest score.

    References
    ----------
    Platt (1999), *Probabilistic outputs for support vector machines*; Guo, Pleiss, Sun, Weinberger (2017), *On
    calibration of modern neural networks*, Section 4.2 (temperature).
    """

    low: float = field(metadata=of_number(least=-1, most=0))
    power: float = field(metadata=of_number(above=0))
    width: float = field(metadata=of_number(above=0))
    log_loss: float = field(default=np.inf, metadata=of_number(least=0, finite=False))

    @classmethod
    def of(cls, held_out: HeldOutScores) -> Calibration:
        """Return the calibration of maximum posterior density, given the scores and classes of validation rows."""
        low = -1.0 if held_out.targets.shape[1] == 1 else float(held_out.targets.min())
        shares = _shares(held_out.predictions.astype(np.float64), low)
        labels = _shares(held_out.targets, low).argmax(axis=1)
        weights = np.ones(len(labels)) if held_out.weights is None else held_out.weights / held_out.weights.mean()
        with single_threaded_blas():
            found = minimize(
                _objective,
                _CENTRE,
                args=(shares, labels, weights),
                jac=True,
                method="L-BFGS-B",
                bounds=np.stack([_CENTRE - _FARTHEST, _CENTRE + _FARTHEST], axis=1),
                options={"ftol": 1e-12, "gtol": 1e-8},
            ).x
        power, width = (float(value) for value in np.exp(found))
        return cls(low, power, width, _mean_log_loss(found, shares, labels, weights))

    def log_probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return log-probabilities (n, n_classes) for scores (n, 1) or (n, n_classes), in the dtype of the scores."""
        return log_softmax(self.power * _log_softplus(_shares(scores, self.low) / self.width), axis=1)


def calibration_of(targets: Targets, held_out: HeldOutScores | None, loss: str) -> Calibration | None:
    """Return the calibration of a classifier; None for regressors, the logistic loss, and without held-out scores."""
    if not targets.has_labels or loss == "logistic" or held_out is None:
        return None
    return Calibration.of(held_out)


def held_out_log_loss(held_out: HeldOutScores, loss: str) -> float:
    """Return the mean log loss of the probabilities of a classifier; `loss` is the loss of its scores."""
    if loss != "logistic":
        return Calibration.of(held_out).log_loss
    return float(weighted_mean(Logistic().values(held_out.predictions, held_out.targets), held_out.weights))


def _shares(scores: np.ndarray, low: float) -> np.ndarray:
    """Rescale scores (n, t) to (n, n_classes), so that encoded targets `low` and 1 become 0 and 1."""
    shares = (scores - low) / (1 - low)
    return np.hstack([1 - shares, shares]) if shares.shape[1] == 1 else shares


def _log_softplus(x: np.ndarray) -> np.ndarray:
    return np.where(x < _LINEAR, x, np.log(np.logaddexp(0, np.maximum(x, _LINEAR))))


def _mean_log_loss(point: np.ndarray, shares: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Return the mean negative log-likelihood at `point`, the logarithms of power and width."""
    power, width = np.exp(point)
    logarithms = log_softmax(power * _log_softplus(shares / width), axis=1)
    return -float(weights @ logarithms[np.arange(len(labels)), labels]) / len(labels)


def _objective(
    point: np.ndarray, shares: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the negative log posterior density, divided by the number of rows r, and its gradient (2,).

    `point` (2,) holds the logarithms of power and width, `shares` (r, n_classes) the rescaled scores, and `labels` (r,)
    the index of each row's class.
    """
    power, x, rows = np.exp(point[0]), shares / np.exp(point[1]), np.arange(len(labels))
    values = power * _log_softplus(x)
    logarithms = log_softmax(values, axis=1)
    slopes = weights[:, None] * np.exp(logarithms)
    slopes[rows, labels] -= weights
    bounded = np.maximum(x, _LINEAR)
    of_softplus = np.where(x < _LINEAR, 1.0, expit(bounded) / np.logaddexp(0, bounded))
    gradient = np.array([(slopes * values).sum(), -power * (slopes * of_softplus * x).sum()])
    away = (point - _CENTRE) / _SPREAD
    value = 0.5 * float(np.square(away).sum()) - float(weights @ logarithms[rows, labels])
    return value / len(labels), (gradient + away / _SPREAD) / len(labels)
