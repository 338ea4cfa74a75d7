"""Fourier features whose frequencies are chosen and weighted on the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._validation import check_choice, check_integer, check_real
from phimap.features.data_dependent.alignment import aligned_weights
from phimap.features.data_dependent.bounded import bounded_coefficients
from phimap.features.data_dependent.kernel_weights import least_squares_weights, shrunk_weights
from phimap.features.data_dependent.pool import checked_kernel, chosen_rows, draw_pool, spectral_record
from phimap.features.data_dependent.scores import target_energies
from phimap.features.data_dependent.targets import TargetedFeatures
from phimap.features.fourier import FourierRecord
from phimap.kernels import FiniteSpectrum, Kernel, StationaryKernel
from phimap.ops import Array, single_threaded_blas
from phimap.projections import Projection

# Ridge penalties for "kitchen-sinks". The one with the least leave-one-out error is used.
_PENALTIES = 10.0 ** np.arange(-4, 5)


@dataclass(frozen=True)
class Seen:
    """The data from which a method computes the weights of frequencies.

    Attributes
    ----------
    kernel : StationaryKernel
        The given kernel.
    rows : ndarray of shape (n, d)
        The row sample.
    targets : ndarray of shape (n, t) or None
        Centred targets of the row sample.
    n_kept : int
        Number of frequencies to keep.
    radius : float or None
        Radius of ``"alignment"`` and ``"kitchen-sinks"``; None is ``"auto"``.
    rng : numpy.random.Generator
        Draws the cross-validation folds of ``"stein"``.
    """

    kernel: StationaryKernel
    rows: np.ndarray
    targets: np.ndarray | None
    n_kept: int
    radius: float | None
    rng: np.random.Generator

    def energies(self, frequencies: np.ndarray) -> np.ndarray:
        """Energies (l,) of the targets at frequencies (l, d), see `target_energies`."""
        assert self.targets is not None
        return target_energies(self.rows, self.targets, frequencies)


def _least_squares(seen: Seen, frequencies: np.ndarray) -> np.ndarray:
    return least_squares_weights(seen.kernel, seen.rows, frequencies)


def _stein(seen: Seen, frequencies: np.ndarray) -> np.ndarray:
    return shrunk_weights(seen.kernel, seen.rows, frequencies, seen.rng)


def _alignment(seen: Seen, frequencies: np.ndarray) -> np.ndarray:
    # Equal weights on `n_kept` of the frequencies lie on the boundary of this ball.
    radius = len(frequencies) / seen.n_kept - 1 if seen.radius is None else seen.radius
    return aligned_weights(seen.energies(frequencies), radius)


def _kitchen_sinks(seen: Seen, frequencies: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import RidgeCV

    projected = seen.rows @ frequencies.T
    columns = np.hstack([np.cos(projected), np.sin(projected)])
    if seen.radius is None:
        coefs = RidgeCV(_PENALTIES).fit(columns / len(frequencies) ** 0.5, seen.targets).coef_
        coefs = np.asarray(coefs).reshape(-1, columns.shape[1])
    else:
        assert seen.targets is not None
        coefs = bounded_coefficients(columns, seen.targets, seen.radius / len(frequencies)).T
    squares = np.square(coefs).sum(axis=0)
    return np.sqrt(squares.reshape(2, -1).sum(axis=0))


def _polarization(seen: Seen, frequencies: np.ndarray) -> np.ndarray:
    return seen.energies(frequencies)


@dataclass(frozen=True)
class WeightMethod:
    """A method for weighting frequencies.

    Attributes
    ----------
    weigh : callable
        Function that takes a `Seen` and frequencies (l, d), and returns nonnegative weights (l,).
    estimates : bool
        Whether the features estimate the given kernel. If so, targets are not used; if not, weights sum to 1.
    equal : bool
        Whether the weights only select frequencies, so that all selected frequencies get equal weights.
    """

    weigh: Callable[[Seen, np.ndarray], np.ndarray]
    estimates: bool = False
    equal: bool = False


METHODS: dict[str, WeightMethod] = {
    "kitchen-sinks": WeightMethod(_kitchen_sinks),
    "stein": WeightMethod(_stein, estimates=True),
    "least-squares": WeightMethod(_least_squares, estimates=True),
    "alignment": WeightMethod(_alignment),
    "polarization": WeightMethod(_polarization, equal=True),
}
#: Default number of frequencies in the pool for each frequency that is kept, for methods with targets.
_CHOICE = 8


class ReweightedFeatures(TargetedFeatures):
    r"""Random Fourier features with weights learned from the data.

    .. math:: \phi(x) = \bigl[\sqrt{a_j}\cos(\langle w_j, x\rangle),\ \sqrt{a_j}\sin(\langle w_j, x\rangle)
        \bigr]_{j \le s}

    The s frequencies with the largest weights in a pool are kept. The weights either reduce the sampling error of the
    given kernel (``"stein"``, ``"least-squares"``) or define another kernel that fits the targets (other methods).

    Parameters
    ----------
    kernel : StationaryKernel or None, default=None
        The kernel from whose spectral density the pool is drawn; None is ``Gaussian(length_scale=1.0)``.
    n_components : int, default=1024
        Output width m: a cosine and a sine for each frequency. For odd m the last is a cosine with a random phase.
    method : {"kitchen-sinks", "polarization", "alignment", "stein", "least-squares"}, default="polarization"
        Method that computes the weights. Three methods need targets in `fit`. ``"kitchen-sinks"``: the norm of a
        frequency's coefficients in ridge regression on the pool. ``"polarization"`` and ``"alignment"`` use the energy
        of the targets at a frequency, ``e = |mean_i y_i exp(i <w, x_i>)|^2``. ``"polarization"``: equal weights for the
        frequencies with the largest energies. ``"alignment"``: the weights that maximise ``sum_j a_j e_j`` in a ball
        around equal weights. Two methods need no targets. ``"least-squares"``: the nonnegative weights that approximate
        the kernel matrix best. ``"stein"``: the same with a ridge penalty, chosen by cross-validation.
    pool : int or "auto", default="auto"
        Number of frequencies in the pool for each frequency that is kept, at least 1; ``"auto"`` is 8 for methods with
        targets and 1 for the others.
    radius : float or "auto", default="auto"
        Radius of the ball of ``"alignment"``, at least 0: the bound on ``l |a|^2 - 1`` for the l weights of the pool.
        ``"auto"`` is l / s - 1, at which equal weights on s of the l frequencies are on the boundary. For
        ``"kitchen-sinks"`` a number C bounds the coefficients of the fit by C / l, and ``"auto"`` is ridge regression.
    n_subset : int, default=2000
        Maximum number of rows, at least 2, from which weights are learned; fewer for a small byte budget.
    projection : str or Projection, default="auto"
        How the pool is drawn, see `FourierFeatures`. Learned weights replace the weights of a quadrature rule.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : Kernel
        The exact kernel that ``Z @ Z.T`` estimates: the given one for ``"stein"`` and ``"least-squares"``, else the
        `FiniteSpectrum` of the frequencies and weights, which features of even width reproduce exactly.
    record_ : FourierRecord
        Frequencies and weights.
    n_features_in_ : int

    Notes
    -----
    **Error.** On the rows of the fit, ``"least-squares"`` never has more error than equal weights. On other rows this
    holds if s is small compared with the number of pairs of rows. Its estimate is biased. Energies from n rows have
    noise of about ``1 / n``. If they hardly exceed this noise, the selection is random.

    **Cost.** `fit`, for l frequencies in the pool and t targets: ``4 n l (d + t)`` flops for energies;
    O(n^2 l) for ``"kitchen-sinks"``; for ``"least-squares"`` and ``"stein"`` ``6 n l^2`` flops and nonnegative least
    squares of order l, which takes a second for l = 1,000 and grows with l^3. ``transform``: as for stored directions
    of `FourierFeatures`.

    **Differs from the source in** the following. Each frequency gives a pair, where sources use phases or one column
    per frequency. The largest weights are kept, where Sinha and Duchi draw frequencies in proportion to the weights. In
    ``"kitchen-sinks"`` the coefficients become weights of a kernel; in the source, the coefficients are the predictor.
    The source bounds the largest coefficient, as a number for `radius` does; ``"auto"`` penalises the squared norm.
    Targets are centred, each label is an indicator column, and energies are summed over columns.

    References
    ----------
    Shahrampour, Beirami, Tarokh (2018), *On data-dependent random features for improved generalization in supervised
    learning*, Algorithm 1; Sinha, Duchi (2016), *Learning kernels with random features*, Algorithm 1; Rahimi, Recht
    (2008), *Weighted sums of random kitchen sinks*, Algorithm 1; Chang, Li, Yang, Poczos (2017), *Data-driven random
    Fourier features using Stein effect*, Section 3; Dao, De Sa, Re (2017), *Gaussian quadrature for kernel features*,
    Section 3.2; Liu, Huang, Chen, Suykens (2021), Section 2.4.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((500, 5))
    >>> kernel = pm.kernels.Gaussian(length_scale=3.0)
    >>> fixed = {"n_components": 200, "projection": "gaussian", "random_state": 0}
    >>> weighted = pm.ReweightedFeatures(kernel, method="least-squares", **fixed)
    >>> plain = pm.FourierFeatures(kernel, **fixed)
    >>> error, plain_error = (pm.metrics.relative_error(phi.fit(X), X) for phi in (weighted, plain))
    >>> bool(error < 0.5 * plain_error)
    True
    """

    _roles = ("directions", "rows", "folds", "phases")

    def __init__(
        self,
        kernel: StationaryKernel | None = None,
        n_components: int = 1024,
        *,
        method: str = "polarization",
        pool: int | str = "auto",
        radius: float | str = "auto",
        n_subset: int = 2000,
        projection: str | Projection = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.method = method
        self.pool = pool
        self.radius = radius
        self.n_subset = n_subset
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def wants_targets(self) -> bool:
        """Whether the method uses targets."""
        return self.method in METHODS and not METHODS[self.method].estimates

    def fit_rows(self) -> int:
        """Number of rows that `fit` can use: `n_subset`, or the default of all maps if that is more."""
        return max(super().fit_rows(), self.n_subset)

    def _draw_for(self, X: Array, targets: np.ndarray | None, streams: dict[str, np.random.Generator]) -> FourierRecord:
        kernel = checked_kernel(self.kernel)
        method = METHODS[check_choice("method", self.method, tuple(METHODS))]
        size = 1 if method.estimates else _CHOICE
        size = size if self.pool == "auto" else check_integer("pool", self.pool, least=1)
        radius = None if self.radius == "auto" else check_real("radius", self.radius, least=0.0)
        n_subset = check_integer("n_subset", self.n_subset, least=2)
        n_kept = (self.n_components + 1) // 2
        frequencies, _ = draw_pool(kernel, X.shape[1], size * n_kept, self.projection, streams["directions"])
        rows, places = chosen_rows(X, n_subset, streams["rows"])
        seen = Seen(kernel, rows, None if targets is None else targets[places], n_kept, radius, streams["folds"])
        with single_threaded_blas():
            weights = method.weigh(seen, frequencies)
            kept = np.argsort(-weights, kind="stable")[:n_kept]
            frequencies, weights = frequencies[kept], weights[kept]
            if method.estimates and size > 1:
                weights = method.weigh(seen, frequencies)
        if not method.estimates:
            # If all weights are 0, as for constant targets, the frequencies get equal weights.
            equal = method.equal or not weights.sum() > 0
            weights = np.full(n_kept, 1.0 / n_kept) if equal else weights / weights.sum()
        self.kernel_: Kernel = kernel if method.estimates else FiniteSpectrum(frequencies, weights)
        return spectral_record(frequencies, weights, self.n_components, streams["phases"])
