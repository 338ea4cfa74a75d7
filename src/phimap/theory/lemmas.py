"""Lemmas used by the bounds for neural tangent kernels: sketches of products, and Taylor polynomials."""

from __future__ import annotations

from math import log

from phimap.theory.bounds import SPECTRAL, Registry

BOUNDS = Registry()

_HAN = "Han, Avron, Shoham, Kim, Shin 2021"
_ZANDIEH = "Zandieh, Han, Avron, Shoham, Kim, Shin 2021"
_PRODUCTS = "Z holds the CountSketches of x (x) y, convolutions of independent CountSketches of x and of y"
_TERMS = "terms p of the Taylor polynomial"
_UNSPECIFIED = "the source leaves the constant open"


@BOUNDS.add(
    "polysketch",
    guarantee="| |Q y|^2 - |y|^2 | <= epsilon |y|^2 for a vector of a tensor power of that degree",
    formula="m ~ degree / epsilon^2 log(1 / (epsilon delta))^3",
    source=f"{_ZANDIEH}, Lemma 1, first statement; Ahle et al. 2020, Theorem 1.2",
    counts="components",
    assumptions=("PolySketch", "epsilon delta well below 1", _UNSPECIFIED),
)
def _polysketch(epsilon: float, delta: float, degree: int) -> float:
    return degree / epsilon**2 * max(log(1 / (epsilon * delta)), 0.0) ** 3


@BOUNDS.add(
    "polysketch-spectral",
    guarantee=SPECTRAL,
    formula="m ~ degree^4 statistical_dimension / epsilon^2 log(n / (epsilon delta))^3",
    source=f"{_ZANDIEH}, Lemma 1, fourth statement; Ahle et al. 2020, Theorem 1.3",
    counts="components",
    assumptions=("PolySketch of vectors whose Gram matrix is K", _UNSPECIFIED),
)
def _polysketch_spectral(epsilon: float, delta: float, n: int, degree: int, statistical_dimension: float) -> float:
    return degree**4 * statistical_dimension / epsilon**2 * max(log(n / (epsilon * delta)), 0.0) ** 3


@BOUNDS.add(
    "srht",
    guarantee="| |S x|^2 - |x|^2 | <= epsilon |x|^2 for a vector",
    formula="m ~ epsilon^-2 log(1 / (epsilon delta))^2",
    source=f"{_ZANDIEH}, Lemma 2",
    counts="components",
    assumptions=("SRHT", "epsilon delta well below 1", _UNSPECIFIED),
)
def _srht(epsilon: float, delta: float) -> float:
    return max(log(1 / (epsilon * delta)), 0.0) ** 2 / epsilon**2


@BOUNDS.add(
    "taylor-arccosine1",
    guarantee="|P - kappa1| <= epsilon on [-1, 1], P the Taylor polynomial of degree 2 p + 2",
    formula="p = 1 / (9 epsilon^(2/3))",
    source=f"{_ZANDIEH}, Lemma 3",
    counts=_TERMS,
)
def _taylor_arccosine1(epsilon: float) -> float:
    # The proof needs (e / (6 sqrt(2) pi^2 epsilon))^(2/3) = 0.1018 epsilon^(-2/3), and 0.1018 < 1/9.
    return epsilon ** (-2 / 3) / 9


@BOUNDS.add(
    "taylor-arccosine0",
    guarantee="|P - kappa0| <= epsilon on [-1, 1], P the Taylor polynomial of degree 2 p + 1",
    formula="p = 1 / (26 epsilon^2)",
    source=f"{_ZANDIEH}, Lemma 3",
    counts=_TERMS,
)
def _taylor_arccosine0(epsilon: float) -> float:
    # The proof needs (e / (sqrt(2) pi^2 epsilon))^2 = 0.0379 epsilon^-2, and 0.0379 < 1/26.
    return 1 / (26 * epsilon**2)


@BOUNDS.add(
    "tensor-countsketch",
    guarantee="|<Z, Z'> - <x, x'> <y, y'>| <= epsilon |x| |x'| |y| |y'| at a pair of products",
    formula="m = 11 / (epsilon^2 delta)",
    source=f"{_HAN}, Lemma 3",
    counts="components",
    assumptions=(_PRODUCTS,),
)
def product_sketch(epsilon: float, delta: float) -> float:
    """Return the sketch width m at which the inner product of sketched tensor products has an error of at most epsilon.

    For the products of x with y and of x' with y', the error is relative to ``|x| |y| |x'| |y'|``. It holds with
    probability 1 - delta. The variance is at most 11 / m times the product of the squared norms (``2 + 3^2``, Avron,
    Nguyen, Woodruff 2014); Chebyshev's inequality then gives m.
    """
    return 11 / (epsilon**2 * delta)


@BOUNDS.add(
    "tensor-countsketch-spectral",
    guarantee=SPECTRAL,
    formula="m = 11 / (epsilon^2 delta) statistical_dimension^2",
    source=f"{_HAN}, Lemma 4, its proof before Lemma 6 enters",
    counts="components",
    assumptions=(_PRODUCTS, "K = X X^T * Y Y^T entry by entry"),
)
def _tensor_countsketch_spectral(epsilon: float, delta: float, statistical_dimension: float) -> float:
    return product_sketch(epsilon, delta) * statistical_dimension**2


@BOUNDS.add(
    "tensor-countsketch-trace",
    guarantee=SPECTRAL,
    formula="m = 11 / (epsilon^2 delta) (trace / (trace / n + alpha))^2",
    source=f"{_HAN}, Lemma 4",
    counts="components",
    assumptions=(_PRODUCTS, "K = X X^T * Y Y^T entry by entry"),
)
def _tensor_countsketch_trace(epsilon: float, delta: float, n: int, alpha: float, trace: float) -> float:
    return product_sketch(epsilon, delta) * dimension_by_trace(n, alpha, trace) ** 2


@BOUNDS.add(
    "dimension-by-trace",
    guarantee="the statistical dimension of K at alpha is at most the value",
    formula="trace / (trace / n + alpha)",
    source=f"{_HAN}, Lemma 6; it holds for every positive semidefinite K, not for products of two alone",
    counts="effective dimensions",
)
def dimension_by_trace(n: int, alpha: float, trace: float) -> float:
    """Return an upper bound on the statistical dimension of an n x n matrix of given trace.

    The bound follows from Jensen's inequality. Matrices with equal eigenvalues attain it.
    """
    return trace / (trace / n + alpha)
