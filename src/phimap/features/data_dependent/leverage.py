"""Fourier features whose frequencies are drawn in proportion to their ridge leverage scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap._validation import check_choice, check_integer, check_real
from phimap.features.data_dependent.dictionaries import METHODS, STOPPING_METHODS
from phimap.features.data_dependent.pool import checked_kernel, chosen_rows, draw_pool, spectral_record
from phimap.features.data_dependent.scores import (
    inclusion_probabilities,
    leverage_scores,
    nystroem_leverage_scores,
    pool_matrix,
    surrogate_scores,
    systematic_sample,
)
from phimap.features.data_dependent.targets import TargetedFeatures
from phimap.features.fourier import FourierRecord
from phimap.kernels import Kernel, StationaryKernel
from phimap.ops import Array, single_threaded_blas
from phimap.projections import Projection


class LeverageFeatures(TargetedFeatures):
    r"""Leverage-score random features (LS-RFF): frequencies drawn in proportion to their ridge leverage scores.

    .. math:: \phi(x) = \bigl[\sqrt{p_j / q_j}\cos(\langle w_j, x\rangle),\ \sqrt{p_j / q_j}\sin(\langle w_j, x\rangle)
        \bigr]_{j \le s} / \sqrt{s}

    A pool of frequencies is drawn from the kernel's spectral density p. The score of a frequency is the sum of
    ``z^T (K + n alpha I)^{-1} z`` over two vectors z: its cosines and its sines on a subset of n rows. The kept
    frequencies are drawn from the pool with probabilities q proportional to the scores, and weighted by p / q.

    Parameters
    ----------
    kernel : StationaryKernel or None, default=None
        The kernel to estimate; None is ``Gaussian(length_scale=1.0)``.
    n_components : int, default=1024
        Output width m: a cosine and a sine for each frequency. For odd m the last is a cosine with a random phase.
    pool : int, default=8
        Number of frequencies in the pool for each frequency that is kept, at least 1.
    alpha : float or "auto", default="auto"
        Ridge parameter per row (lambda in the source): the `alpha` of a ``KernelRegressor`` divided by its number of
        rows. With a smaller alpha, high frequencies have larger scores. With ``"auto"`` the statistical dimension of
        the kernel matrix is an eighth of m, or of the number of rows in the subset if that is less than m. For
        ``scores="two-pass"`` and ``"online"`` alpha must be a number.
    scores : {"exact", "path-following", "two-pass", "online", "pool", "surrogate"}, default="exact"
        ``"path-following"``, ``"two-pass"`` and ``"online"`` replace K by its Nystroem approximation. Its landmarks are
        drawn in proportion to estimated leverage scores of the rows: at several falling ridges, in two draws at one
        ridge, or in one pass over the rows. ``"pool"`` replaces K by the estimate of the pool itself. ``"surrogate"``
        uses ``z^T (Y Y^T / n + I) z``, which needs targets in `fit` but not the kernel matrix or alpha. The surrogate
        scores of two frequencies differ by at most a factor of two.
    replace : bool, default=False
        Whether kept frequencies are independent draws from the pool, so that a frequency may occur several times.
    n_subset : int, default=1500
        Maximum number of rows, at least 2, on which scores are computed; fewer for a small byte budget.
    projection : str or Projection, default="gaussian"
        How the pool is drawn, see `FourierFeatures`.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : Kernel
        The exact kernel that ``Z @ Z.T`` estimates: the given one.
    alpha_ : float or None
        The ridge parameter of the scores; None for surrogate scores.
    record_ : FourierRecord
        Frequencies and weights.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased for any scores: the mean over draws is the pool's kernel estimate, whose mean is the kernel. For
    a relative spectral error Delta in ``K + n alpha I``, about ``s_a log(s_a) / Delta^2`` frequencies suffice, where
    s_a is the statistical dimension. With draws from p, the largest score replaces s_a. If alpha is so large that
    all scores are nearly equal, the error equals the error of draws from p. The diagonal of the estimate is 1 only on
    average.

    At equal alpha, scores with landmarks are not below the exact scores, and the maps have equal errors: the spectral
    error on 20,000 rows of two clusters of unequal width was 0.54 for both ``"exact"`` and ``"path-following"`` at m =
    2,048. On other clusters, with alpha = 1e-5, it was 1.32 to 1.34 for these two, ``"two-pass"`` and ``"online"``; the
    scores with landmarks were at most 7 % above the exact scores, for alpha from 1e-5 to 1e-2.

    **Cost.** ``fit``: eigenvalues of a kernel matrix of order n, O(n^3), and ``4 n^2`` flops for each frequency of the
    pool. With landmarks, their number r replaces n: O(n r^2), and ``4 n r`` flops for each frequency; r is at most
    about four times the statistical dimension. With 1,500 rows ``"path-following"`` took a sixth of the time at m =
    512, and two fifths at m = 2,048. ``"two-pass"`` first draws ``4 / alpha`` rows, at most n, for a kernel of value 1
    at 0. It and ``"online"`` took 0.75 to 1.1 of the time of ``"path-following"`` for alpha of 1e-5 and 1e-3. Surrogate
    scores take ``4 n (d + t)`` flops for each frequency, with d input columns and t target columns. ``transform``: as
    for stored directions of `FourierFeatures`.

    **Differs from the source in** the draws, which are without replacement and stratified by score, so that frequencies
    are distinct and their weights sum to nearly 1; in the exact kernel matrix on the subset; the source uses the pool's
    estimate. Algorithm 1 of Li et al. is ``scores="pool", replace=True``; on the clusters above its error was 0.70. Its
    matrix is of order l, the number of pool features; it gives the same scores as the matrix of order n here. The
    sources of ``"path-following"``, ``"two-pass"`` and ``"online"`` estimate scores of rows from a weighted sample of
    the rows; here the sampled rows are landmarks, without their weights. Targets for surrogate scores are centred and
    scaled to mean square 1.

    References
    ----------
    Li, Ton, Oglic, Sejdinovic (2019), *Towards a unified analysis of random Fourier features*,
    Algorithm 1; Avron et al. (2017), *Random Fourier features for kernel ridge regression*, Section 4; Liu et al.
    (2020), *Random Fourier features via fast surrogate leverage weighted sampling*, Equation 7; Rudi, Calandriello,
    Carratino, Rosasco (2018), *On fast leverage score sampling and optimal learning*, Algorithm 1
    (``"path-following"``); Alaoui, Mahoney (2015), *Fast randomized kernel ridge regression with statistical
    guarantees*, Section 3.2 (``"two-pass"``); Calandriello, Lazaric, Valko (2017), *Distributed adaptive sampling for
    kernel matrix approximation*, Algorithm 1 (``"online"``); Liu, Huang, Chen, Suykens (2021), Section 4.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> kernel = pm.kernels.Gaussian(length_scale=2.0)
    >>> leverage = pm.LeverageFeatures(kernel, 128, alpha=1e-5, random_state=0)
    >>> plain = pm.FourierFeatures(kernel, 128, projection="gaussian", random_state=0)
    >>> error, plain_error = (
    ...     pm.metrics.spectral_approximation(phi.fit(X), X, alpha=500 * 1e-5).delta for phi in (leverage, plain)
    ... )
    >>> bool(error < plain_error)
    True
    """

    alpha_: float | None
    _roles = ("directions", "rows", "choice", "phases", "landmarks")

    def __init__(
        self,
        kernel: StationaryKernel | None = None,
        n_components: int = 1024,
        *,
        pool: int = 8,
        alpha: float | str = "auto",
        scores: str = "exact",
        replace: bool = False,
        n_subset: int = 1500,
        projection: str | Projection = "gaussian",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.pool = pool
        self.alpha = alpha
        self.scores = scores
        self.replace = replace
        self.n_subset = n_subset
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def wants_targets(self) -> bool:
        """Whether `fit` uses targets; only surrogate scores do."""
        return self.scores == "surrogate"

    def fit_rows(self) -> int:
        """Number of rows that `fit` can use: `n_subset`, or the default of all maps if that is more."""
        return max(super().fit_rows(), self.n_subset)

    def _draw_for(self, X: Array, targets: np.ndarray | None, streams: dict[str, np.random.Generator]) -> FourierRecord:
        kernel = checked_kernel(self.kernel)
        how = check_choice("scores", self.scores, ("exact", *METHODS, "pool", "surrogate"))
        alpha = None if self.alpha == "auto" else check_real("alpha", self.alpha, above=0.0)
        if alpha is None and how in METHODS and how not in STOPPING_METHODS:
            raise ValueError(
                f"`alpha` must be a number for scores={how!r}, got {self.alpha!r}. Give a number, or use "
                f"scores={next(iter(STOPPING_METHODS))!r}."
            )
        size = check_integer("pool", self.pool, least=1)
        n_subset = check_integer("n_subset", self.n_subset, least=2)
        n_kept = (self.n_components + 1) // 2
        frequencies, priors = draw_pool(kernel, X.shape[1], size * n_kept, self.projection, streams["directions"])
        if not np.allclose(priors, priors[0]):
            raise ValueError(
                f"`projection` must draw frequencies of one weight, got {self.projection!r}. Use projection='gaussian'."
            )
        rows, places = chosen_rows(X, n_subset, streams["rows"])
        with single_threaded_blas():
            if targets is not None:
                scores, self.alpha_ = surrogate_scores(rows, targets[places], frequencies), None
            elif how in METHODS:
                scores, self.alpha_ = nystroem_leverage_scores(
                    how, kernel, rows, frequencies, alpha, self.n_components, streams["landmarks"]
                )
            else:
                K = pool_matrix(rows, frequencies) if how == "pool" else kernel(rows)
                scores, self.alpha_ = leverage_scores(K, rows, frequencies, alpha, self.n_components)
        if self.replace:
            probabilities = n_kept * scores / scores.sum()
            chosen = streams["choice"].choice(len(scores), n_kept, p=probabilities / n_kept)
        else:
            probabilities = inclusion_probabilities(scores, n_kept)
            chosen = systematic_sample(probabilities, n_kept, streams["choice"])
        weights = 1.0 / (len(frequencies) * probabilities[chosen])
        self.kernel_: Kernel = kernel
        return spectral_record(frequencies[chosen], weights, self.n_components, streams["phases"])
