"""Kernel classification: ridge regression on labels, or the logistic or squared hinge loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin

from phimap._dask import is_dask
from phimap.learn.base import KernelModel
from phimap.learn.calibration import Calibration
from phimap.learn.conformal import check_coverage
from phimap.learn.fitted import Fitted, of_fitted
from phimap.learn.registry import LOSSES
from phimap.learn.targets.classes import Classes


@dataclass(eq=False, repr=False, kw_only=True)
class KernelClassifier(ClassifierMixin, KernelModel):
    """Kernel classification on random features, streamed: ridge regression of one-hot labels, or another loss.

    Two classes are encoded as one target of -1 and 1, more classes as one target each; the intercept centres every
    target. The class with the largest output is predicted.

    Parameters
    ----------
    kernel, n_components, length_scale, metric, effort, time_limit, corrections, trees, validation, standardize, \
encode, device, memory, n_jobs, random_state, verbose : optional
        As in `KernelRegressor`, with the same defaults.
    loss : {"auto", "squared", "logistic", "squared_hinge"}, default="auto"
        ``"auto"`` takes the loss whose probabilities have the least held-out log loss if `fit` also searches the kernel
        (``kernel="auto"``), else the squared loss; rows can be added with `partial_fit` to models with the squared
        loss. ``"squared"`` is ridge regression, ``"logistic"`` the negative binomial or multinomial log-likelihood, and
        ``"squared_hinge"`` the loss of a support vector machine, for each class against the others. Models with any of
        these losses give probabilities.
    scoring : str or None, default=None
        Name of a scorer of scikit-learn, such as ``"roc_auc"`` or ``"accuracy"``. ``loss="auto"`` and the share of the
        trees then have the best score on validation rows; None takes the log loss. All other choices are as with None;
        what corrections and trees gain counts by the log loss.
    alpha : float or "auto", default="auto"
        Regularisation. With the squared loss, alpha is as in `KernelRegressor`; ``"auto"`` uses the squared error,
        summed over classes. With the other losses, alpha is ``1 / C`` of `sklearn.linear_model.LogisticRegression` and
        `sklearn.svm.LinearSVC`, and ``"auto"`` minimises the held-out loss on a sample of at most 16,384 rows.
    class_weight : dict, "balanced" or None, default=None
        Factors for the weights of the rows of each class, in the fit and in the choice of alpha, by the conventions of
        scikit-learn: ``"balanced"`` takes n / (n_classes n_c) with n_c the (weighted) number of rows of a class; a
        class missing from a dict has factor 1. These factors affect neither the scales of the columns nor the length
        scale.
    solver : {"auto", "cholesky", "cg"}, default="auto"
        As in `KernelRegressor`, for the squared loss. The other losses always use a quasi-Newton solver, which makes
        several passes over the rows.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted.
    calibration_ : Calibration or None
        Map from scores to probabilities; None with the logistic loss, and if no rows were held out.
    loss_, feature_map_, kernel_, metric_, relevances_, search_, alpha_, coef_, constant_, solution_, trees_, \
scaling_, encoder_, solver_, statistics_, n_features_in_, n_samples_seen_
        As in `KernelRegressor`.

    Notes
    -----
    **Error.** The error of the random features, plus the error of kernel ridge regression.

    **Cost.** As `KernelRegressor`; further classes cost n m flops each. The fit also computes the held-out scores that
    calibrate probabilities. If alpha is chosen, they cost almost nothing. If alpha is given, they cost m^2 flops for
    each of 256 to 1,024 rows or, with a solver in passes, a few passes (over a sample only, for the squared hinge).

    With the logistic or the squared hinge loss: one pass for the Gram matrix of the preconditioner (of a sketch, if its
    triangle does not fit the byte budget), then passes of 4 n m flops a class until the tolerance is met.

    **Differs from the source in** choosing alpha from a continuous curve, whereas the source takes the best of a few
    values.

    References
    ----------
    Zandieh et al. (2021), *Scaling neural tangent kernels via sketching and random features*, Section 5.1 (ridge
    regression on zero-mean one-hot labels).

    Examples
    --------
    >>> import phimap as pm
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = pm.KernelClassifier("ntk", n_components=512, standardize="global", random_state=0)
    >>> bool(model.fit(X[:1200], y[:1200]).score(X[1200:], y[1200:]) > 0.93)
    True
    """

    _targets_type = Classes
    _losses = ("auto", *LOSSES)

    loss: str = "auto"
    class_weight: dict[Any, float] | str | None = None

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add rows to the training data.

        Parameters
        ----------
        X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
            The first call fixes the scaling, the kernel and the feature map, so its rows should be typical. A model
            that learns rows in parts has larger errors than a fit to all rows, such as `fit_batches`.
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
            If a label is not among the classes of the first call, `classes` changes, or `class_weight` is
            ``"balanced"``, which needs all rows.
        """
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"`class_weight` {self.class_weight!r} is not known before all rows are, so partial_fit cannot use it. "
                "Give a dict, for example from sklearn.utils.class_weight.compute_class_weight."
            )
        if hasattr(self, "_fitted"):
            self._fitted.targets.check_announced(classes)
        return self._add_rows(X, y, sample_weight, classes)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows whose label is predicted correctly.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            A Dask collection if `X` is one; likewise `sample_weight`.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
        """
        return self._score_collection(X, y, sample_weight) if is_dask(X) else super().score(X, y, sample_weight)

    def predict(self, X: Any, **others: Any) -> np.ndarray:
        """Predict the class of each row.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)
        **others
            Other arguments raise an error. For ``return_std=True``, which regressors accept, the message suggests
            `predict_proba`.

        Returns
        -------
        ndarray, or Dask array if `X` is one, of shape (n_samples,)
            Labels like those given to `fit`.

        Raises
        ------
        TypeError
            If anything but `X` is given.
        ValueError
            If `X` has a different number of columns than in `fit`, is empty or is not finite.

        Warns
        -----
        OutsideWarning
            If rows lie far outside of the training rows. One warning gives the share of such rows.
        """
        if others:
            named = ", ".join(f"{name}={value!r}" for name, value in others.items())
            raise TypeError(
                f"KernelClassifier.predict takes `X` alone, got {named}. Use predict_proba for probabilities of the "
                "classes, or predict_set for sets that hold the class."
            )
        return super().predict(X)

    @property
    def predict_interval(self) -> Any:
        """Raise an error that names the methods of a classifier. Intervals exist only for numbers."""
        raise AttributeError(
            "`predict_interval` is a method of KernelRegressor, got it on KernelClassifier. Use predict_set for sets "
            "of classes with a given coverage, or predict_proba for probabilities."
        )

    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of the linear model.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or Dask array if `X` is one, of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Positive outputs stand for ``classes_[1]`` if there are two classes.
        """
        return self._apply(Fitted.decisions, X)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities of the classes. All are finite.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or Dask array if `X` is one, of shape (n_samples, n_classes)
            In the order of `classes_`.

        Raises
        ------
        ValueError
            As `predict_proba`.
        """
        return self._apply(Fitted.log_probabilities, X, loss=self.loss)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes.

        With ``loss="logistic"`` they are the probabilities of the logistic model. With the other losses they are
        computed from the scores by a function that was fitted on validation rows, see `Calibration`. `predict` gives
        the most probable class.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or Dask array if `X` is one, of shape (n_samples, n_classes)
            In the order of `classes_`; every row sums to 1. Weights of rows and classes count as in the fit.

        Raises
        ------
        ValueError
            If the loss is not the logistic loss and the model has no calibration, because the model file is of an
            earlier version, or because a sample of validation rows did not fit the byte budget.
        """
        return self._apply(Fitted.probabilities, X, loss=self.loss)

    def predict_set(self, X: Any, coverage: float = 0.9) -> Any:
        """Sets of classes that contain the right class with a given probability.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)
        coverage : float, default=0.9
            Share of new rows whose class is in their set, between 0 and 1.

        Returns
        -------
        ndarray of bool, or Dask array if `X` is one, of shape (n_samples, n_classes)
            Whether a class is in the set of the row, in the order of `classes_`. No set is empty.

        Raises
        ------
        ValueError
            As `predict_proba`, and as `KernelRegressor.predict_interval`.

        Warns
        -----
        CoverageWarning
            If there are too few conformal rows for `coverage`, so that each set holds all classes.

        Notes
        -----
        A class is in the set if the cumulated probability of all more probable classes is at most a threshold: the
        quantile of this sum for the right classes of the conformal rows, see `KernelRegressor.predict_interval`. So
        classes are taken in the order of their probabilities until their sum exceeds the threshold. These are the sets
        of the source without randomisation. The most probable class is always in the set, so the coverage is at least
        the accuracy of the model. The coverage is marginal, over all rows and classes. Rows count with the weights of
        the fit, including the weights of `class_weight`.

        References
        ----------
        Romano, Sesia, Candes (2020), *Classification with valid and adaptive coverage*, Section 2.
        """
        coverage = check_coverage(coverage, self._solved().conformal, "sets that leave out a class")
        return self._apply(Fitted.class_sets, X, coverage=coverage, loss=self.loss)

    classes_: ClassVar[np.ndarray] = of_fitted("targets.known", "Labels (n_classes,), sorted.")
    calibration_: ClassVar[Calibration | None] = of_fitted(
        "calibration", "Map from scores to probabilities; None with the logistic loss, and if no rows were held out."
    )
