"""Kernel ridge regression at linear cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from sklearn.base import MultiOutputMixin, RegressorMixin

from phimap._dask import is_dask, refuse_more
from phimap.learn.base import KernelModel
from phimap.learn.conformal import check_coverage
from phimap.learn.deviations import Deviations
from phimap.learn.fitted import Fitted, of_fitted
from phimap.learn.registry import REGRESSION_LOSSES
from phimap.learn.targets.base import TargetsKind
from phimap.learn.targets.kinds import targets_kind
from phimap.learn.targets.numbers import Numbers


@dataclass(eq=False, repr=False, kw_only=True)
class KernelRegressor(MultiOutputMixin, RegressorMixin, KernelModel):
    """Kernel ridge regression on random features, streamed, with automatic regularisation.

    Minimises ``|Y - phi(X) W - c|^2 + alpha |W|^2`` with an unpenalised intercept c, for features phi whose inner
    products estimate the kernel.

    Parameters
    ----------
    kernel : str, Kernel or feature map, default="auto"
        ``"auto"`` chooses by held-out error among Laplacian, Matern, additive and neural tangent kernels.
        By name: ``"gaussian"`` (or ``"rbf"``), ``"laplacian"``, ``"matern"`` (nu = 3/2), ``"arccosine"``,
        ``"polynomial"`` (degree 3), ``"nngp"`` or ``"ntk"`` (depth 1), ``"cntk"`` (depth 2, for images);
        ``"spectral-mixture"``, fitted to a sample of dense rows, without a metric. Otherwise a kernel, for which a map
        is chosen, or an unfitted map, which is used unchanged and fixes the number of features.
    n_components : int or "auto", default="auto"
        Number m of features. ``"auto"`` doubles m while the held-out error falls by 1 % or more, up to 8,192, to the
        byte budget, and to a cost that `effort` sets. For kernels with Nystroem features and up to 2,048 rows, it takes
        as many landmarks as rows.
    loss : {"squared", "huber", "quantile", "poisson", "gamma", "tweedie"}, default="squared"
        ``"squared"`` is ridge regression. ``"huber"`` penalises errors beyond 1.35 times their scale linearly, so that
        a few outliers have little influence. The scale is estimated, see the notes. ``"quantile"`` predicts quantiles
        of the targets. ``"poisson"``, ``"gamma"`` and ``"tweedie"`` predict the mean of targets that are at least 0
        (for gamma: positive) as the exponential of a linear model, by the deviance of the law.
    quantile : float or sequence of float, default=0.5
        Level of the quantile for ``loss="quantile"``, between 0 and 1; or several levels that ascend, whose predictions
        never cross.
    power : float, default=1.5
        Power of the mean to which the variance is proportional, for ``loss="tweedie"``: from 1 (Poisson) to 2 (gamma).
        Powers between allow zeros among positive targets.
    monotonic_cst : array-like of int of shape (n_features,), dict of str to int, or None, default=None
        1 if the predictions must not decrease in a column, -1 if they must not increase, 0 without a constraint; a dict
        names columns. Only for the squared loss and numeric columns, without corrections and trees. The automatic
        kernel is then additive, and columns become ranks if ``standardize="auto"``. The constraints hold on a grid. A
        `MonotonicityWarning` states violations on another grid that exceed a thousandth of the range; see
        `phimap.learn.monotone`.
    alpha : float or "auto", default="auto"
        Regularisation, in the units of ``sklearn.linear_model.Ridge`` on the features. ``"auto"`` minimises the exact
        leave-one-out error for up to 2,048 rows. With more rows it minimises the squared error on up to 3,072 held-out
        rows (a tenth at most) and, if there are more rows than features, the leave-one-out errors of the 128 rows
        farthest from the mean in scaled inputs. The model is then fitted on all rows. With other losses, alpha
        minimises the held-out loss on a sample of at most 16,384 rows, in the units of the notes.
    length_scale : float, "auto" or "median", default="auto"
        Width of a stationary kernel named by text, in the units of the metric. ``"auto"`` chooses it by held-out error.
        ``"median"`` is the median distance between random rows, measured as in the kernel (city-block distance for
        ``"laplacian"``). Other kernels ignore a number with a warning, so that a parameter grid can be used for several
        kernels.
    metric : {"auto", "diagonal", "full"} or None, default="auto"
        Learned metric of the rows, to which the kernel is applied: a weight for each column or a matrix. ``"auto"``
        takes the metric that lowers the held-out error, for kernels named by text (or ``"auto"``) and up to 2,000
        columns. For CSR rows it takes only a diagonal metric, for up to 1,000 columns. None learns no metric. With more
        than 500 columns, a full metric keeps the leading 100 directions. Here and below, None, False and ``"none"``
        mean the same.
    effort : {"fast", "normal", "thorough"}, default="normal"
        Level of the search: it sets how many kernels, widths and metrics are tried, see the notes.
    scoring : str or None, default=None
        Name of a scorer of scikit-learn, such as ``"neg_mean_absolute_error"`` or
        ``"neg_root_mean_squared_log_error"``. The share of the trees then has the best score on validation rows; None
        minimises the squared error. All other choices keep the squared error. Only with ``loss="squared"``.
    time_limit : float or None, default=None
        Seconds after which no further trial of the search begins, and corrections and trees are not tried. The best
        kernel so far is then fitted to all rows; the limit does not shorten this fit. The result depends on the speed
        of the machine. None sets no limit.
    corrections : {"auto", None}, default="auto"
        ``"auto"`` adds to the linear model, region by region, an exact kernel model of its residuals, if that lowers
        the squared error on held-out rows by 2 %. The corrections are the mean over up to four partitions into regions,
        if each further partition lowers the error by 2 %. Corrections are tried only with the squared loss, and if
        ``kernel="auto"`` chooses a stationary kernel. There must be at least 8,000 dense rows, at least twice as many
        rows as features, and the rows must fit a quarter of the byte budget. None adds nothing.
    trees : {"auto", None}, default="auto"
        ``"auto"`` grows boosted trees in addition to the kernel model. Trees can represent steps; the kernel model is
        smooth. The output is a weighted average of both. The weight of the trees minimises the squared error on
        validation rows. Trees are kept if they lower this error by 0.5 % and by the standard error of the gain. Trees
        are tried only with the squared loss and ``kernel="auto"``, from 1,000 dense rows on, and if the rows fit a
        quarter of the byte budget. None grows none.
    validation : {"random", "last"}, default="random"
        Rows that validate every choice of the fit. ``"random"`` takes random rows, or whole groups if groups are given
        to `fit`. ``"last"`` is for rows that depend on time: it takes the last rows, in the order of the rows or of the
        moments given as groups.
    standardize : {"auto", "columns", "global"} or None, default="auto"
        Scale every column to mean 0 and variance 1 (``"columns"``); or all columns by one factor (``"global"``), for
        inputs in one unit such as pixels; or not at all (None). ``"auto"`` scales the columns of dense rows. It scales
        neither the columns of an encoded frame nor CSR rows, whose entries (such as counts and tf-idf weights) have
        meaningful sizes. CSR input is never shifted. With ``kernel="auto"``, ``"auto"`` also squashes heavy tails by
        arcsinh if that lowers the held-out error.
    encode : {"auto", None} or TableEncoder, default="auto"
        ``"auto"`` encodes data frames with missing cells, text, categories or dates by a `TableEncoder`. None raises an
        error for such frames. Arrays and frames of complete numbers are used unchanged. A given encoder is cloned and
        encodes all frames.
    device : str, default="auto"
        ``"auto"`` computes features on the device of the input; ``"cuda"`` or ``"cpu"`` moves batches there as tensors.
    memory : int, str or None, default=None
        Byte budget such as ``"2GB"``, on which the choices of samples, width, solver and batches are based. None takes
        the configured budget (`phimap.config`), else 4 GB. The choices do not depend on the free memory.
    n_jobs : int or None, default=None
        Threads; None takes the configured number. Does not change the result.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of the named streams; None draws fresh entropy.
    solver : {"auto", "cholesky", "cg"}, default="auto"
        ``"cholesky"`` factorises the m x m Gram matrix, or the Gram matrix of the rows in dual form, see the notes.
        ``"cg"`` makes several passes over the rows, by preconditioned conjugate gradients, and never holds such a
        matrix. Both choose alpha by the same criterion. ``"auto"`` factorises if the byte budget allows it, unless
        ``"cg"`` is predicted to take at most 0.4 of the time, usually from about 11,000 features on.
        `solution_.choice` gives the reason. The other losses always use a quasi-Newton solver. Solvers in passes keep
        no sums for `partial_fit`, `merge` or standard deviations.
    verbose : bool or int, default=False
        Show progress on standard error, and name the columns that are left out because they are constant; 2 also states
        which solver is chosen, and why.

    Attributes
    ----------
    feature_map_ : RandomMap
        The fitted map, on scaled inputs.
    kernel_ : Kernel
        The exact kernel that `feature_map_` estimates.
    loss_ : str
        The loss of the solution.
    alpha_ : float
        The regularisation used.
    coef_ : ndarray of shape (n_components,) or (n_targets, n_components)
        Coefficients of the features. Several quantiles of a target have a row each.
    constant_ : float or ndarray of shape (n_targets,)
        Constant of the linear model. The name is not `intercept_`, because tools such as shap then assume a model that
        is linear in the columns.
    solution_ : LinearSolution
        Coefficients, the alphas that were tried with their scores, `status`, `n_passes` and `residual`; with
        ``loss="huber"`` and ``"quantile"`` also `scale`, the scale of the errors.
    corrections_ : Corrections or None
        Corrections added to the linear model; `partial_fit` and `merge` drop them.
    trees_ : BoostedTrees or None
        Trees that are averaged with the kernel model, and their share; `partial_fit` and `merge` drop them. `coef_`,
        `constant_`, `solution_` and `corrections_` belong to the kernel model.
    metric_ : ndarray of shape (d,) or (d, d)
        The metric of the d standardised columns, with mean eigenvalue 1: weights, or a matrix. All weights are one if
        no metric was learned.
    relevances_ : ndarray of shape (n_features,)
        Shares of the columns in the metric; an encoded column sums the shares of its numbers.
    encoder_ : TableEncoder or None
        The encoder that makes the d columns from a data frame; None if the training rows were numbers. A diagonal
        metric has one weight for all columns of a category, a text, or a cycle of a date.
    search_ : SearchLog or None
        All trials; None if nothing was to be chosen.
    scaling_ : Scaling
        Shift and factor of each column, and the root of the metric.
    solver_ : RidgeSolver
        Sums over the rows, or in dual form the features of the rows, to which `partial_fit` and `merge` add. Absent
        after solvers in passes, which keep no sums.
    statistics_ : RidgeStatistics or None
        Sums over all rows seen, to which `partial_fit` and `merge` add; None after a fit in dual form or by a solver
        in passes.
    target_units_ : TargetUnits or None
        Units in which the solver receives targets that are far from 0 relative to their range, or outside 2^-64 to
        2^64; None for other targets.
    n_features_in_ : int
        Columns of the rows in `fit`.
    n_samples_seen_ : int
        Training rows of positive weight.

    Notes
    -----
    **Error.** The error of the random features, plus the error of kernel ridge regression.

    A row of weight w counts like w equal rows; in the choice of alpha, it is left out with its whole weight. The map is
    fitted on rows without their weights.

    The search fits small maps on random rows and validates them on other rows: on a quarter of the sample, or by
    three-fold cross-validation below 1,500 rows. It chooses the width of every kernel, then learns metrics by
    the gradient of a held-out error. The best candidates continue with more rows and more features. ``effort="fast"``
    takes 256 features on 2,500 rows and 512 on 5,000. ``"normal"`` continues with 1,024 on 8,000 if the error falls.
    ``"thorough"`` takes 512 on 5,000, 1,024 on 8,000 and 2,048 on 16,000.

    With ``loss="huber"`` the problem is to minimise ``sum_i 2 s^2 l(e_i / s) + alpha |W|^2``, where l is half the
    square up to 1.35 and its tangent beyond. The scale s makes the mean of ``min(e^2, (1.35 s)^2)`` equal to ``s^2``,
    as in `sklearn.linear_model.HuberRegressor`, whose alpha is this alpha over s. The scale is estimated from the
    errors of the fit if alpha is given, and from errors of held-out rows if alpha is chosen. Targets are clipped at
    1,000 robust standard deviations from their median; for the search, at 5 robust standard deviations.

    With ``loss="quantile"`` the problem is to minimise ``sum_i r_q(e_i) / s + alpha / 2 |W / s|^2`` for each level q,
    where ``r_q(e) = max(q e, (q - 1) e)`` and s is the robust standard deviation of the targets. The loss is smoothed
    near zero, with decreasing width, until the objective is within a thousandth of its minimum. Targets are clipped as
    for Huber's loss. With ``"poisson"``, ``"gamma"`` and ``"tweedie"`` the objective is
    ``sum_i d(y_i, mu_i) / 2 + alpha / 2 |W|^2`` with d the deviance and ``log mu`` linear; in scikit-learn's
    generalised linear models, alpha is this alpha over n. The search minimises the squared errors of
    ``y^(1 - power / 2)``, or of ``log y`` for gamma.

    **Cost.** n m^2 flops for the Gram matrix, O(m^3) for the solution, and the features. The exact n x n kernel matrix
    is never formed. Of the factorisations, only the dual form, for n < m or n up to 2,048, holds the n x m feature
    matrix and an n x n Gram matrix. float32 input is mapped in float32 and summed in float64.

    **Differs from the source in** the choice of alpha, kernel and metric, which the source leaves to the user.

    References
    ----------
    Koenker, Bassett (1978), *Regression quantiles*, Equation 3.2; Jorgensen (1987), *Exponential dispersion models*,
    Section 4;
    Rahimi, Recht (2007), *Random features for large-scale kernel machines*, Section 2; Zandieh et al. (2021),
    *Scaling neural tangent kernels via sketching and random features*, Section 5.1 (alpha from held-out rows);
    Radhakrishnan, Beaglehole, Pandit, Belkin (2024), *Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models*, Algorithm 1 (the metric).

    Examples
    --------
    >>> import phimap as pm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = pm.KernelRegressor("gaussian", 256, random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.45)
    True
    """

    n_targets_: ClassVar[int] = of_fitted("targets.n_targets", "Number t of targets.")
    _targets_type = Numbers
    _losses = REGRESSION_LOSSES

    quantile: float | Sequence[float] = 0.5
    power: float = 1.5
    monotonic_cst: Any = None

    @property
    def _targets_kind(self) -> TargetsKind:
        return targets_kind(self.loss, self.quantile, self.power)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        r"""Predict targets and, optionally, their standard deviations.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)
        return_std : bool, default=False
            Also return the standard deviation of a new target at each row, including noise; not for Dask collections.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_targets)
            float32 for float32 input, else float64. Targets that are far from 0 relative to their range, such as times
            in seconds, or of extreme size are predicted in float64. With ``loss="quantile"`` and several levels,
            (..., n_quantiles); the quantiles of a row ascend.
        y_std : ndarray, of the shape and dtype of `y_mean`
            Only with `return_std`.

        Raises
        ------
        ValueError
            If `X` has another width than in `fit`, is empty or is not finite; with `return_std`, if the model was
            solved by conjugate gradients or saved without statistics.
        MemoryError
            If `return_std` needs more than the byte budget.

        Warns
        -----
        OutsideWarning
            If rows lie far outside of the training rows. One warning gives the share of such rows.

        Notes
        -----
        With A the Gram matrix of the n centred feature vectors of the training rows, and phi_c the features of x minus
        the mean feature vector, the variance is

        .. math:: \sigma^2 \Bigl[ \tfrac{1}{\tau}\, \phi_c^\top (A + \alpha I)^{-1} \phi_c + \tfrac{1}{n}
                  + \rho(x) \Bigr],

        the variance of a Gaussian process with the prior covariance ``sigma^2 / alpha`` times the kernel, a flat prior
        of the intercept, and noise of variance ``sigma^2 rho(x)``. The noise is included, as in scikit-learn's
        ``GaussianProcessRegressor`` with a ``WhiteKernel``.

        sigma^2 and rho are estimated from the leave-one-out errors at up to 4,096 rows (landmarks of Nystroem features
        excluded). sigma^2 makes the mean square of the standardised errors 1. Usually, rho is 1. If there are at least
        2,000 rows with at most 100 columns, and the size of the errors clearly varies with x, rho is the mean of the
        squared errors at the 100 nearest rows, in units of sigma^2.

        For random features of stationary kernels ``tau = 1 - (degrees of freedom) / m``, else 1. Without tau, the
        variance far from the data would be too small: it must return to the prior variance there, but the data
        determine nearly all directions of the m features. Nystroem features vanish far from the data: the part of
        ``k(x, x)`` that they omit is added as prior variance, times ``sigma^2 / alpha``. For kernels that are not
        stationary, the kernel and the variance grow with x; if the degrees of freedom approach m, the variance far from
        the data is too small.

        **Error.** The variance of the function equals the variance of the exact process up to the error of the
        features. A kernel that does not suit the data affects only sigma^2 and rho.

        **Cost.** The first call makes a factorisation (``m^3 / 3`` multiply-adds and ``4 m^2`` bytes; in dual form, the
        order is the number of rows) and a solve for each row left out. The factor is kept until rows are added, and is
        neither copied nor saved. Every call takes ``m^2 / 2`` multiply-adds a row, on the host, and forms the features
        a second time.

        **Differs from the source in** tau, the intercept, the noise that varies with x, and the choice of sigma^2.

        References
        ----------
        Rasmussen, Williams (2006), *Gaussian processes for machine learning*, Equations 2.11 and 2.26.
        """
        if is_dask(X):
            refuse_more("predict", return_std=return_std)
        mean = super().predict(X)
        if not return_std:
            return mean
        fitted = self._solved()
        with self._settings(seed=fitted.seed) as settings:
            if not hasattr(self, "_deviations"):
                self._deviations = Deviations.of(fitted, vars(self).get("_state"), settings)
            deviations = self._deviations.at(X, settings.compute)
        return mean, fitted.targets.decode(deviations).astype(mean.dtype, copy=False)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Intervals that contain a given share of new targets, for any distribution of the noise.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)
        coverage : float, default=0.9
            Share of new targets within their intervals, between 0 and 1.

        Returns
        -------
        ndarray, or Dask array if `X` is one, of shape (n_samples, 2), or (n_samples, n_targets, 2) for several targets
            Lower and upper bounds, in the dtype of the predictions. Infinite if there are too few conformal rows for
            `coverage`, see the notes.

        Raises
        ------
        ValueError
            If `coverage` is not between 0 and 1, or the model has no conformal scores: its file is of an earlier
            version, or there were too few groups.

        Warns
        -----
        CoverageWarning
            If there are too few conformal rows for `coverage`; the message names the largest coverage with finite
            bounds.

        Notes
        -----
        A bound is ``f(x) -+ q s(x)``. s is the scale of the errors, a ridge regression of their logarithms at up to 768
        other rows on the features of the model. q is a quantile of ``|y - f(x)| / s(x)`` at the conformal rows: a tenth
        of the rows, at most 1,024, drawn at random. These rows are not used to choose kernel, metric, alpha,
        corrections or trees, and not to learn s. After these choices, the model is fitted to all rows. The error of a
        conformal row is its error in a fit without the row, see `phimap.learn.left_out`.

        **Coverage.** The coverage is marginal: it holds on average over new rows like the training rows, not for each
        x. If the conformal rows had been left out of the model, the coverage would be exact on average over draws of
        the data. Its standard deviation over the draws of c conformal rows would be ``(p (1 - p) / c)^{1/2}``, 0.9 %
        for p = 0.9 and c = 1,024. With the rows in the model, the guarantee holds if leaving out a row hardly changes
        the fit. Below 1,000 rows, all rows are conformal rows, although they choose kernel, metric and alpha, and s is
        1; the coverage may then be some percentage points too small. With c conformal rows of equal weight, a coverage
        above ``c / (c + 1)`` gives infinite bounds: above 0.997 for 4,000 rows, of which 400 are conformal, and above
        0.999 for 1,024 of them.

        With groups, whole groups are conformal, and the error of a row is its error in a fit without its group. The
        coverage then holds on average over new groups, if there are many groups. With ``validation="last"``, the
        validation rows are the last rows, and the conformal rows are the rows before them. Their errors are errors of a
        fit without conformal and validation rows. The coverage is not guaranteed if the future differs from the past.

        After solvers in passes (conjugate gradients, and losses other than the squared loss) the errors come from the
        rows that also chose alpha, and s is 1, with two exceptions. For deviances, s(x) is ``f(x)^(power / 2)``, and
        bounds are at least 0. For several quantiles, f(x) is the middle between the lowest and the highest quantile,
        and s(x) is half of the distance between them.

        **Cost.** As `predict`, with another column of outputs for each target.

        **Differs from the source in** the scale, and in the fit to all rows.

        References
        ----------
        Lei, G'Sell, Rinaldo, Tibshirani, Wasserman (2018), *Distribution-free predictive inference for regression*,
        Sections 2.2 and 5.2; Barber, Candes, Ramdas, Tibshirani (2021), *Predictive inference with the jackknife+*.
        """
        coverage = check_coverage(coverage, self._solved().conformal, "finite bounds")
        return self._apply(Fitted.intervals, X, coverage=coverage)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R2 of the predictions, averaged over targets, or D2 with a loss of quantiles, counts or positive numbers.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            A Dask collection if `X` is one; likewise `sample_weight`.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        float
            As `sklearn.metrics.r2_score`, `d2_pinball_score` (averaged over levels) or `d2_tweedie_score`. For Dask
            collections, D2 gathers targets and predictions.
        """
        if is_dask(X):
            return self._score_collection(X, y, sample_weight)
        predicted: Any = self.predict(X)
        return self._fitted.targets.score(y, predicted, sample_weight)  # pyright: ignore[reportAttributeAccessIssue]

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Add rows to the training data.

        The rows of the first call fix the scaling, the kernel, its metric, the number of features and the map, so these
        rows should be typical; with `verbose` a line says so. Later rows, and rows after `fit`, change the coefficients
        alone, which are computed when they are next needed.

        A model that learns rows in parts therefore has larger errors than a fit to all rows. If all rows can be read
        again, use `fit_batches`.

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
