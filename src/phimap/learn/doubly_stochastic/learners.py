"""Kernel regression and classification whose memory depends only on the number of coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from phimap.learn.doubly_stochastic.base import DoublyStochasticModel, takes_batches
from phimap.learn.doubly_stochastic.model import StochasticModel
from phimap.learn.fitted import of_fitted
from phimap.learn.targets.classes import Classes
from phimap.learn.targets.numbers import Numbers


class DoublyStochasticRegressor(MultiOutputMixin, RegressorMixin, DoublyStochasticModel):
    """Kernel regression by stochastic gradients, with random directions that are drawn again whenever needed.

    Minimises ``|Y - phi(X) W - c|^2 + alpha |W|^2`` over m random Fourier features phi, as `KernelRegressor` does. It
    stores only the m x t coefficients, and neither the directions (m x d), nor a Gram matrix (m x m), nor the features
    (n x m).

    Parameters
    ----------
    kernel : {"gaussian", "laplacian", "matern"} or StationaryKernel, default="gaussian"
        A name, for a kernel of width `length_scale` (``"matern"`` has smoothness 3/2), or a kernel.
    n_components : int, default=8192
        Number m of features.
    loss : {"squared"}, default="squared"
    alpha : float, default=1e-4
        Regularisation, at least 0, in the units of `KernelRegressor`. It is not chosen automatically. If it is small,
        the number of epochs acts as the regularisation.
    length_scale : float or "median", default="median"
        Width of a kernel named by text; ``"median"`` is the median distance between random rows.
    projection : str, default="auto"
        How the directions of a block are drawn, see `FourierFeatures`. ``"auto"`` is ``"orthogonal"`` if the spectral
        density of the kernel is rotation-invariant, else ``"gaussian"``.
    standardize : {"auto", "columns", "global"} or None, default="auto"
        As in `KernelRegressor`.
    n_epochs : int, default=10
        Passes over all rows. For ``construction="published"`` the batches of all steps together have as many rows.
    construction : {"preconditioned", "published"}, default="preconditioned"
        The algorithm. ``"preconditioned"`` changes all coefficients in every step, see Notes. ``"published"`` is the
        algorithm of the source: every step adds a new block of features, and step t has the length `step_size` / t. It
        needs all rows in `fit`.
    step_size : float, default=4.0
        Length theta of the first published step. The source proves that the squared error of f_t falls like 1 / t if
        theta times alpha / n is above 1. With a squared loss, step t overshoots if theta / t times the largest
        eigenvalue of the kernel matrix over n (at most 1) exceeds 2.
    block_components : int, default=64
        Number of features that a published step adds; there are `n_components` / `block_components` steps.
    n_jobs : int or None, default=None
        Threads; None takes the configured number. Does not change the result.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of the named streams; None draws fresh entropy.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    coef_ : ndarray of shape (n_components,) or (n_targets, n_components)
    constant_ : float or ndarray of shape (n_targets,)
    kernel_ : StationaryKernel
        The exact kernel that the features estimate.
    losses_ : ndarray of shape (n_epochs,)
        Mean loss over the rows of each epoch. The loss of a row is computed before the step that uses the row, so the
        rows of the first epoch are unseen. Absent if only `partial_fit` was called. For the published construction, the
        mean loss of each step's batch (n_steps,).
    scaling_ : Scaling
        Shift and factor of each column.
    blocks_ : BlockedMap
        Kernel and seed from which every block of features is drawn.
    solver_ : SamplePreconditioner
        The sample of rows that preconditions the steps; model files keep it with ``statistics=True``. Absent for the
        published construction.
    n_features_in_, n_samples_seen_, n_steps_ : int
    weight_seen_ : float
        Sum of the weights of the rows seen.

    Notes
    -----
    **Error.** The error of the closed form on the same features, up to incomplete convergence. On protein, elevators
    and kin40k the test errors of both are within 1 %. A tiny alpha takes more epochs, see the guide. Steps depend on
    the order of rows, so a weighted row is equivalent to repeated rows only approximately.

    **Cost.** An epoch forms the features of all rows three times, forms the features of 2,048 sample rows twice in each
    step, and takes ``O(n m t)`` multiply-adds. The preconditioner takes ``3,072^2 m / 2`` multiply-adds at the start.
    Memory: 16 bytes a coefficient, 1,024 features of 4,096 rows, and at the start about 200 MB for the products of
    3,072 sample rows. Only the memory of the coefficients depends on m; none depends on n. The published construction
    forms the features of all rows once, and holds 8 bytes a row and target.

    **Differs from the source in** the following. The source adds one block of features in each step, so that their
    number grows with the steps, and takes steps of length theta / t. Here m is fixed, and every step changes all
    coefficients, because the predictions need all features anyway. A step is preconditioned by
    ``(Z_S^T Z_S / s + level)^-1`` of a sample S of rows, whereas the source's experiments use the Gram matrix of the
    block. The length of a step minimises an upper bound of the loss of the batch, so that there is no step size to
    choose. In the second half of the steps, this length is multiplied by a factor that falls linearly to 0.

    With ``construction="published"`` these differences remain. Targets are centred at their mean. A step has a batch of
    rows and a block of features, as in the source's experiments, instead of one of each. The scores of all rows are
    kept, so that every block is drawn only once. The iterates are the same as in the source.

    References
    ----------
    Dai, Xie, He, Liang, Raj, Balcan, Song (2014), *Scalable kernel methods via doubly stochastic gradients*, Algorithms
    1 and 2; Ma, Belkin (2019), *Kernel machines that adapt to GPUs for effective large batch training* (the
    preconditioner of a sample).

    Examples
    --------
    >>> import phimap as pm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = pm.DoublyStochasticRegressor(n_components=512, alpha=3.0, random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.45)
    True
    """

    n_targets_: ClassVar[int] = of_fitted("targets.n_outputs", "Number t of targets.")
    _targets_type = Numbers
    _losses = ("squared",)

    @available_if(takes_batches)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Make one pass over further rows.

        The first call fixes the scaling, the length scale and the preconditioner from its rows, so it should have some
        thousands of typical rows, in random order.

        Parameters
        ----------
        X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            As in `fit`.

        Returns
        -------
        self : object
        """
        return self._add_rows(X, y, sample_weight)


@dataclass(eq=False, repr=False, kw_only=True)
class DoublyStochasticClassifier(ClassifierMixin, DoublyStochasticModel):
    """Kernel classification by stochastic gradients, with random directions that are drawn again whenever needed.

    Minimises ``sum_i loss(phi(x_i)^T W + c, y_i) + alpha |W|^2 / 2``, and stores only the coefficients, see
    `DoublyStochasticRegressor`. Two classes are one target of -1 and 1, more classes one target each.

    Parameters
    ----------
    kernel, n_components, alpha, length_scale, projection, standardize, n_epochs, construction, step_size, \
block_components, n_jobs, random_state, verbose : optional
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
    coef_, constant_, kernel_, losses_, scaling_, blocks_, solver_, n_features_in_, n_samples_seen_, n_steps_, \
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

    @available_if(takes_batches)
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
