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
    r"""Features of a kernel with a power series in the inner product, the low degrees carried exactly.

    .. math:: k(x, y) = \sum_j c_j \langle x, y \rangle^j, \qquad c_j \ge 0

    or ``|x| |y| f(cos(x, y))``. The constant is one feature and the linear term is x itself; the other degrees are
    sketched, with widths that give the least variance.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        A dot-product kernel; the Gaussian kernel, as ``exp(-|x|^2 / 2) exp(<x, y>) exp(-|y|^2 / 2)`` with rows divided
        by the length scale; or a kernel ``|x| |y| kappa(cos)`` such as NTK or NNGP, to which a polynomial with
        coefficients that are not negative is fitted. None is ``Polynomial()``.
    n_components : int, default=1024
        Output width m.
    method : str, default="polysketch"
        How powers are sketched. ``"polysketch"``: all from one tree. ``"complex-to-real"``: products of entries of
        independent randomised Fourier transforms. ``"tensorsketch"``: convolved count sketches. ``"maclaurin"``:
        products of projections onto random signs. ``"compact-maclaurin"``: four times as many of these, reduced by
        SRHT. ``"random-maclaurin"``: the published one, see Notes.
    degree : int or None, default=None
        Last degree of the series. None is that of a polynomial; for a fitted one the power of two, up to 64, with the
        least predicted error of fit and sketches together; else where the remainder of the series falls below a
        thousandth of the largest row's kernel with itself, at most 32.
    exact_degrees : tuple of int, default=(0, 1)
        Degrees carried exactly. One of them is carried as a whole where its monomials take at most a quarter of
        `n_components`; beyond that, as far as it pays by the predicted error, and not at all where `n_components` has
        no room for it (below d + 2 for the linear term). Degree 0 always has its feature if there are features enough.
    adaptive : bool, default=True
        Use moments of the data in `fit`, see Notes. Without them rows are taken for orthogonal unit vectors, and the
        map depends on the data's width alone.
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

    Every ``g_j`` is a sum of products of polynomials of a and of b, and its first such product has nearly all of it.
    So ``j = 0`` takes a few exact features, and the sketches see u, which is short and nearly orthogonal to v. Of
    ``j = 1`` and 2 the monomials of the leading principal coordinates are exact; with r what they leave of u, the
    remainder is ``<r, s>``, and ``<r, s> <u', v'>`` with ``u' = u + (sqrt(2) - 1) (u - r)``. Whether to split, how many
    directions to take and how wide each sketch is follow from the least predicted error
    ``(sum_i s_i)^2 / m``, s_i the standard deviation of piece i with one feature over pairs of rows, at widths in
    proportion to s_i. All of this only chooses: the map is unbiased for the series at any rows, whatever `fit` saw.

    **Random degrees.** With ``method="random-maclaurin"`` each feature is a product of N projections onto independent
    random signs, N drawn with a chance q_n in proportion to ``2^-(n + 1)`` among the degrees that have a coefficient
    and no exact features; its weight is ``sqrt(c_N / (q_N m))``. Rows are not split, and a degree of `exact_degrees` is
    exact where its monomials take at most a quarter of the features. The variance is ``(sum_n c_n^2 v^n / q_n - f(<x,
    y>)^2) / m`` with ``v = |x|^2 |y|^2 + 2 <x, y>^2 - 2 sum_i x_i^2 y_i^2``, where shares of fixed widths have the
    ``c_n^2 (v^n - <x, y>^(2 n)) / m_n`` alone: the draw of the degree adds to it.

    **Error.** Unbiased for polynomials; else up to the terms beyond `degree`, or the error of the fitted polynomial.
    For the Gaussian kernel it gains over `FourierFeatures` at wide length scales and in high dimension only, and fails
    where ``|x| / length_scale`` exceeds about 4, of which it warns. The guide's page on dot-product kernels has what
    was measured.

    **Cost.** ``fit``: two subspace iterations on the sample and some 100 means over 256 x 256 pairs of rows.
    ``transform``: per row O(d k) for k directions, and for ``"polysketch"`` a transform of length d and a few of length
    1024 at most, plus O(m). Sparse rows: with ``method="polysketch"``, where d is above 8 m and at most one entry in 16
    of the sample is not zero, nothing is split, and every leaf of the tree hashes the rows by a `CountSketch` of its
    own: O(nnz) a leaf, and 16 d bytes of memory for each. Narrower rows are written out tile by tile, at O(d) a row.
    The same values get the same map, dense or CSR.

    **Differs from the source in** the exact terms and the split; in widths by predicted variance in place of random
    degrees (maclaurin); in signs from Hadamard transforms in place of independent ones (maclaurin); in a law of the
    degrees that leaves out those without a feature (random-maclaurin).

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
