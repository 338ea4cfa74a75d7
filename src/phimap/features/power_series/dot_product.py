"""Features of dot-product kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap.features.base import FeatureMap
from phimap.features.power_series.random_degrees import RANDOM_DEGREES, draw_random_degrees
from phimap.features.power_series.row_sample import RowSample
from phimap.features.power_series.series import SeriesOptions, SeriesPlan
from phimap.features.power_series.terms import SeriesRecord
from phimap.kernels import Kernel, Polynomial
from phimap.ops import Array


class DotProductFeatures(FeatureMap):
    r"""Features of a kernel with a power series in the inner product. Low degrees are exact, and others are sketched.

    .. math:: k(x, y) = \sum_j c_j \langle x, y \rangle^j, \qquad c_j \ge 0

    or ``|x| |y| f(cos(x, y))``. The constant is one feature and the linear term is x itself; the other degrees are
    sketched, with widths that minimise the variance.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        A dot-product kernel; the Gaussian kernel, as ``exp(-|x|^2 / 2) exp(<x, y>) exp(-|y|^2 / 2)`` with rows divided
        by the length scale; or a kernel ``|x| |y| kappa(cos)`` such as NTK or NNGP, to which a polynomial with
        nonnegative coefficients is fitted. None is ``Polynomial()``.
    n_components : int, default=1024
        Output width m.
    method : str, default="polysketch"
        Method that sketches the powers. ``"polysketch"``: all powers from one tree. ``"complex-to-real"``: products of
        entries of independent randomised Fourier transforms. ``"tensorsketch"``: convolved count sketches.
        ``"maclaurin"``: products of projections onto random signs. ``"compact-maclaurin"``: four times as many
        Maclaurin features, reduced by SRHT. ``"random-maclaurin"``: the published algorithm with random degrees, see
        Notes.
    degree : int or None, default=None
        Last degree of the series. None chooses it. A polynomial kernel gets its own degree. A fitted polynomial gets
        the power of two, up to 64, with the least predicted error of fit and sketches together. Other kernels get the
        degree, at most 32, at which the remainder of the series is a thousandth of the largest ``k(x, x)``.
    exact_degrees : tuple of int, default=(0, 1)
        Degrees to represent exactly. A degree is fully exact if its monomials take at most a quarter of `n_components`.
        Otherwise it is exact only as far as this lowers the predicted error and the monomials fit (d + 2 features for
        the linear term). Degree 0 has its own feature unless the width is too small for all terms.
    adaptive : bool, default=True
        Use moments of the data in `fit`, see Notes. If False, rows are assumed to be orthogonal unit vectors, and the
        map depends only on the number of inputs.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : Kernel
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : SeriesRecord
        The terms of the map.
    n_features_in_ : int

    Notes
    -----
    **Adaptive maps.** From at most 1,024 evenly spaced rows `fit` computes the unit vector e of their mean and the
    leading principal directions of the parts orthogonal to it. With ``x = a e + u`` and ``y = b e + v``,

    .. math:: f(\langle x, y \rangle) = \sum_j g_j(a b) \langle u, v \rangle^j, \qquad
              g_j(t) = \sum_{p \ge j} c_p \binom{p}{j} t^{p - j}.

    Every ``g_j`` is a sum of products of a polynomial of a and a polynomial of b; the first product has nearly all of
    its size. Degree ``j = 0`` therefore takes a few exact features. Sketches are applied to u, which is short and
    nearly orthogonal to v. For ``j = 1`` and 2 the monomials of the leading principal coordinates are exact. With r the
    part of u outside these directions, and s the part of v, the remainders are ``<r, s>`` and ``<r, s> <u', v'>`` with
    ``u' = u + (sqrt(2) - 1) (u - r)``. The predicted mean square error is ``(sum_i s_i)^2 / m``, for s_i the standard
    deviation of sketch i with one feature over pairs of rows, and widths proportional to s_i. `fit` chooses the split,
    the number of directions and the widths to minimise it. The map is unbiased for the series at any rows and for any
    data in `fit`.

    **Random degrees.** With ``method="random-maclaurin"`` each feature is a product of N projections onto independent
    random signs, with weight ``sqrt(c_N / (q_N m))``. N is random with probabilities q_n proportional to
    ``2^-(n + 1)`` among the degrees with a positive coefficient and without exact features. Rows are not split, and a
    degree of `exact_degrees` is exact if its monomials take at most a quarter of the features. The variance is
    ``(sum_n c_n^2 v^n / q_n - f(<x, y>)^2) / m`` with ``v = |x|^2 |y|^2 + 2 <x, y>^2 - 2 sum_i x_i^2 y_i^2``. With
    fixed widths m_n it would be the sum of ``c_n^2 (v^n - <x, y>^(2 n)) / m_n``: random degrees add variance.

    **Error.** Unbiased for polynomials; otherwise the bias is the sum of the terms beyond `degree`, or the error of the
    fitted polynomial. For the Gaussian kernel it has less error than `FourierFeatures` only for large length scales
    and in high dimension. It fails, with a warning, if ``|x| / length_scale`` exceeds about 4. Measurements are on the
    guide's page on dot-product kernels.

    **Cost.** ``fit``: two subspace iterations on the sample and about 100 means over 256 x 256 pairs of rows.
    ``transform``, per row: O(d k) for k directions, and for ``"polysketch"`` a transform of length d and a few of
    length at most 1024, plus O(m). Sparse rows are never made dense if ``method="polysketch"``, d exceeds 8 m and at
    most one entry in 16 of the sample is nonzero: rows are then not split, and every leaf of the tree hashes them by
    its own `CountSketch`, in O(nnz) per leaf and with 16 d bytes of memory each. Otherwise sparse rows are made dense
    tile by tile, in O(d) per row. Dense and CSR input with the same values gives the same map.

    **Differs from the source in** the exact terms and the split. The maclaurin methods have widths by predicted
    variance instead of random degrees, and signs from Hadamard transforms instead of independent ones. In
    random-maclaurin, degrees with a zero coefficient or with exact features have probability 0.

    References
    ----------
    Kar, Karnick (2012), *Random feature maps for dot product kernels*; Hamid, Xiao, Gittens, DeCoste (2014), *Compact
    random feature maps*; Pham, Pagh (2013), *Fast and scalable polynomial kernels via explicit feature maps*; Ahle et
    al. (2020), *Oblivious sketching of high-degree polynomial kernels*; Wacker, Kanagawa, Filippone (2022), *Improved
    random features for dot product kernels*; Cotter, Keshet, Srebro (2011), *Explicit approximations of the Gaussian
    kernel*.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((200, 50))
    >>> phi = pm.DotProductFeatures(pm.kernels.Polynomial(degree=3), n_components=2048, random_state=0).fit(X)
    >>> bool(pm.metrics.relative_error(phi, X) < 0.05)
    True
    """

    _roles = ("series",)

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 1024,
        *,
        method: str = "polysketch",
        degree: int | None = None,
        exact_degrees: tuple[int, ...] = (0, 1),
        adaptive: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.method = method
        self.degree = degree
        self.exact_degrees = exact_degrees
        self.adaptive = adaptive
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> SeriesRecord:
        self.kernel_ = Polynomial() if self.kernel is None else self.kernel
        options = SeriesOptions(self.method, self.degree, self.exact_degrees)
        sample = RowSample.of(X, self.n_components) if self.adaptive else None
        if self.method == RANDOM_DEGREES:
            rng, d = streams["series"], X.shape[1]
            exact = options.exact_degrees
            return draw_random_degrees(self.kernel_, self.n_components, d, self.degree, exact, sample, rng)
        return SeriesPlan.of(self.kernel_, X.shape[1], self.n_components, options, sample).draw(streams)
