"""Kernel classification whose memory depends only on the number of coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from phimap.learn.doubly_stochastic.base import DoublyStochasticModel
from phimap.learn.doubly_stochastic.model import StochasticModel
from phimap.learn.fitted import of_fitted
from phimap.learn.targets.classes import Classes


@dataclass(eq=False, repr=False, kw_only=True)
class DoublyStochasticClassifier(ClassifierMixin, DoublyStochasticModel):
    """Kernel classification by stochastic gradients, with random directions that are drawn again whenever needed.

    Minimises ``sum_i loss(phi(x_i)^T W + c, y_i) + alpha |W|^2 / 2``, and stores only the coefficients, see
    `DoublyStochasticRegressor`. Two classes are one target of -1 and 1, more classes one target each.

    Parameters
    ----------
    kernel, n_components, alpha, length_scale, projection, standardize, n_epochs, n_jobs, random_state, \
verbose : optional
        As in `DoublyStochasticRegressor`, with the same defaults.
    loss : {"logistic", "hinge", "squared_hinge", "squared"}, default="logistic"
        ``"logistic"`` is the negative binomial or multinomial log-likelihood. ``"hinge"`` is the loss of a support
        vector machine, its corner smoothed over an interval of length a half, and ``"squared_hinge"`` the squared
        hinge loss. ``"squared"`` is half of the squared error of labels as numbers. All but ``"logistic"`` treat each
        class against the others.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    coef_, intercept_, kernel_, losses_, scaling_, blocks_, solver_, n_features_in_, n_samples_seen_, n_steps_, \
weight_seen_
        As in `DoublyStochasticRegressor`.

    Notes
    -----
    **Error.** As `DoublyStochasticRegressor`. The length of a step comes from a bound of the second derivative of the
    loss. Confident predictions, at which the second derivative is small, therefore improve slowly.

    **Cost.** As `DoublyStochasticRegressor`, with one target for two classes, else one for each class.

    **Differs from the source in** the points listed in `DoublyStochasticRegressor`, and in the smoothed hinge.

    References
    ----------
    Dai, Xie, He, Liang, Raj, Balcan, Song (2014), *Scalable kernel methods via doubly stochastic gradients*, Algorithms
    1 and 2.

    Examples
    --------
    >>> import phimap as pm
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = pm.DoublyStochasticClassifier(n_components=1024, standardize="global", random_state=0)
    >>> bool(model.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.93)
    True
    """

    _targets_type = Classes
    _losses = ("logistic", "hinge", "squared_hinge", "squared")

    loss: str = "logistic"

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Make one pass over further rows.

        Parameters
        ----------
        X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
            The first call fixes the scaling, the length scale and the preconditioner, so its rows should be typical.
        y : array-like of shape (n_samples,)
        classes : array-like, optional
            All labels that will occur; required in the first call unless its rows contain all of them.
        sample_weight : array-like of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a label is not among the classes of the first call, or `classes` changes.
        """
        if hasattr(self, "_fitted"):
            self._fitted.targets.check_announced(classes)
        return self._add_rows(X, y, sample_weight, classes)

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of the linear model.

        Parameters
        ----------
        X : array-like, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or Dask array if `X` is one, of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Positive outputs stand for ``classes_[1]`` if there are two classes.
        """
        return self._apply(StochasticModel.decisions, X)

    def _has_probabilities(self) -> bool:
        return self.loss == "logistic"

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities of the classes, with the logistic loss.

        Parameters
        ----------
        X : array-like, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or Dask array if `X` is one, of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        return self._apply(StochasticModel.log_probabilities, X)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, with the logistic loss.

        Parameters
        ----------
        X : array-like, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or Dask array if `X` is one, of shape (n_samples, n_classes)
            In the order of `classes_`; every row sums to 1.
        """
        return self._apply(StochasticModel.probabilities, X)

    classes_: ClassVar[np.ndarray] = of_fitted("targets.known", "Labels (n_classes,), sorted.")
