"""Bounds for arc-cosine and neural tangent kernels: Han et al. 2021 and Zandieh et al. 2021."""

from __future__ import annotations

from math import log

from phimap.theory.bounds import SPECTRAL, Printed, Registry, Widths, require, require_half, sampled_features
from phimap.theory.lemmas import dimension_by_trace, product_sketch

BOUNDS = Registry()

_HAN = "Han, Avron, Shoham, Kim, Shin 2021"
_ZANDIEH = "Zandieh, Han, Avron, Shoham, Kim, Shin 2021"
_LEVERAGE = "directions from the modified distribution |w|^2 N(0, I), features sqrt(2 d / m) ReLU(w.x / |w|)"
_UNIT = "rows of norm 1"
_OUTPUT = "components, those of the rectified features and of the sketch"
# The source states K_L >= (L + 1) / 9 for the neural tangent kernel K_L of depth L, as a function of the cosine of two
# rows. At depth 2 this fails, because K_2(-1) = 1 / pi is 0.955 times the stated 1/3. Only constants are affected.
_DEPTH_FREE = "depth at least 2"


def _arccosine0_printed(epsilon: float, delta: float, n: int, alpha: float, statistical_dimension: float) -> float:
    return sampled_features(n / alpha, epsilon, delta, statistical_dimension)


@BOUNDS.add(
    "arccosine0-spectral",
    guarantee=SPECTRAL,
    formula="m = 16/3 n / (alpha epsilon^2) log(16 statistical_dimension / delta)",
    source=f"{_HAN}, Theorem 2; {_ZANDIEH}, Theorem 6",
    counts="features",
    assumptions=(
        "the arc-cosine kernel of order 0",
        "i.i.d. Gaussian directions",
        "alpha in (0, |K|)",
        "epsilon <= 1/2",
    ),
    printed=Printed(
        "8/3 n / (alpha epsilon^2) log(16 statistical_dimension / delta)",
        "its proof bounds the leverage function by 2 n / alpha, features being sqrt(2) Step(w.x)",
        _arccosine0_printed,
    ),
)
def _arccosine0(epsilon: float, delta: float, n: int, alpha: float, statistical_dimension: float) -> float:
    return sampled_features(2 * n / alpha, epsilon, delta, statistical_dimension)


def _arccosine1_printed(
    epsilon: float, delta: float, d: int, alpha: float, operator_norm: float, statistical_dimension: float
) -> float:
    return sampled_features(d * operator_norm**2 / alpha, epsilon, delta, statistical_dimension)


@BOUNDS.add(
    "arccosine1-spectral",
    guarantee=SPECTRAL,
    formula="m = 16/3 d operator_norm^2 / (alpha epsilon^2) log(16 statistical_dimension / delta)",
    source=f"{_HAN}, Theorem 3; {_ZANDIEH}, Theorem 7 without its branch of rank^2",
    counts="features",
    assumptions=("the arc-cosine kernel of order 1", _LEVERAGE, "alpha in (0, |K|)", "epsilon <= 1/2"),
    printed=Printed(
        "8/3 d operator_norm^2 / (alpha epsilon^2) log(16 statistical_dimension / delta)",
        "its proof integrates the leverage function to 2 d operator_norm^2 / alpha; Theorem 7 has rank^2 in place of "
        "operator_norm^2 / alpha where that is less, which is false for small alpha",
        _arccosine1_printed,
    ),
)
def _arccosine1(
    epsilon: float, delta: float, d: int, alpha: float, operator_norm: float, statistical_dimension: float
) -> float:
    return sampled_features(2 * d * operator_norm**2 / alpha, epsilon, delta, statistical_dimension)


def _ntk_countsketch_printed(epsilon: float, delta: float, depth: int) -> Widths:
    return {**_entrywise_layers(epsilon, delta, depth), "sketch": depth**3 / (epsilon**2 * delta)}


@BOUNDS.add(
    "ntk-countsketch-entrywise",
    guarantee="|k - k_Z| <= L epsilon (1 + epsilon / 2)^2 + epsilon at a pair of points",
    formula="step = 128 L^2 / epsilon^2 log(18 L / delta), relu ~ L^6 / epsilon^4 log(L / delta), "
    "sketch = 99 L (8 L + 3 epsilon)^2 / (epsilon^2 delta), L = depth",
    source=f"{_HAN}, Theorem 1, Claims 2 and 3",
    counts=_OUTPUT,
    assumptions=(_UNIT, "epsilon < 1 / depth", "Algorithm 1 with CountSketch"),
    printed=Printed(
        "step ~ L^2 / epsilon^2 log(L / delta), relu ~ L^6 / epsilon^4 log(L / delta), "
        "sketch ~ L^3 / (epsilon^2 delta)",
        "the constants are in its proofs, but for that of relu; Claim 3 has 33 L, enough for one of its three pairs",
        _ntk_countsketch_printed,
    ),
)
def _ntk_countsketch(epsilon: float, delta: float, depth: int) -> Widths:
    require(epsilon < 1 / depth, f"`epsilon` must be below 1 / depth = {1 / depth:.4g} for this bound, got {epsilon}.")
    return {
        "step": 128 * depth**2 / epsilon**2 * log(18 * depth / delta),
        "relu": _entrywise_layers(epsilon, delta, depth)["relu"],
        # Lemma 3 is applied to three pairs of points in each of L layers, each time with failure probability delta / (9
        # L).
        "sketch": product_sketch(epsilon / (8 * depth + 3 * epsilon), delta / (9 * depth)),
    }


def _ntk_countsketch_spectral_printed(
    epsilon: float, delta: float, n: int, d: int, alpha: float, operator_norm: float, statistical_dimension: float
) -> Widths:
    size = log(48 * statistical_dimension / delta) / (epsilon**2 * alpha)
    return {
        "step": 48 * n * size,
        "relu": 16 / 3 * d * operator_norm**2 * size,
        "sketch": 297 / (epsilon**2 * delta) * (n / (alpha + 1)) ** 2,
    }


@BOUNDS.add(
    "ntk-countsketch-spectral",
    guarantee=SPECTRAL,
    formula="step = 96 n / (epsilon^2 alpha) log(96 s / delta), "
    "relu = 32/3 d operator_norm^2 / (epsilon^2 alpha) log(96 s / delta), "
    "sketch = 297 / (epsilon^2 delta) (n / (1 + alpha / 4))^2, s = statistical_dimension",
    source=f"{_HAN}, Theorem 4",
    counts=_OUTPUT,
    assumptions=(
        _UNIT,
        "the NTK of depth 1",
        "s bounds the statistical dimensions of both arc-cosine kernels",
        "alpha at most twice the smaller of their norms",
        _LEVERAGE,
        "epsilon <= 1/2",
    ),
    printed=Printed(
        "step = 48 n / (epsilon^2 alpha) log(48 s / delta), relu = 16/3 d operator_norm^2 / (epsilon^2 alpha) "
        "log(48 s / delta), sketch = 297 / (epsilon^2 delta) (n / (1 + alpha))^2",
        "it takes half the constants from Theorems 2 and 3, s at alpha where they need it at alpha / 2 (at most twice "
        "as much), Lemma 4 at alpha where Equation 79 needs it at alpha / 2, and 1 for the mean squared norm of the "
        "step features, which is at most 2",
        _ntk_countsketch_spectral_printed,
    ),
)
def _ntk_countsketch_spectral(
    epsilon: float, delta: float, n: int, d: int, alpha: float, operator_norm: float, statistical_dimension: float
) -> Widths:
    require_half(epsilon)
    half, third, dimension = alpha / 2, delta / 3, 2 * statistical_dimension
    return {
        "step": sampled_features(2 * n / half, epsilon / 3, third, dimension),
        "relu": sampled_features(2 * d * operator_norm**2 / half, epsilon, third, dimension),
        "sketch": product_sketch(epsilon / 3, third) * dimension_by_trace(n, half, 2.0 * n) ** 2,
    }


@BOUNDS.add(
    "ntk-sketch",
    guarantee="|k - k_Z| <= epsilon k at a pair of points",
    formula="m ~ epsilon^-2 log(1 / delta)",
    source=f"{_ZANDIEH}, Theorem 1",
    counts="components of the output; the dimensions inside grow with the depth",
    assumptions=("NTKSketch, Algorithm 1", _DEPTH_FREE),
)
def _ntk_sketch(epsilon: float, delta: float) -> float:
    return log(1 / delta) / epsilon**2


@BOUNDS.add(
    "ntk-tensorsrht-entrywise",
    guarantee="|k - k_Z| <= epsilon k at a pair of points",
    formula="step ~ L^2 / epsilon^2 log(L / delta), relu ~ L^6 / epsilon^4 log(L / delta), "
    "sketch ~ L^2 / epsilon^2 log(L / (epsilon delta))^3, L = depth",
    source=f"{_ZANDIEH}, Theorem 2",
    counts=_OUTPUT,
    assumptions=("Algorithm 2 with PolySketch of degree 2", _DEPTH_FREE),
)
def _ntk_tensorsrht(epsilon: float, delta: float, depth: int) -> Widths:
    require(depth >= 2, f"`depth` must be at least 2 for this bound, got {depth}.")
    sketch = depth**2 / epsilon**2 * max(log(depth / (epsilon * delta)), 0.0) ** 3
    return {**_entrywise_layers(epsilon, delta, depth), "sketch": sketch}


@BOUNDS.add(
    "ntk-tensorsrht-spectral",
    guarantee=SPECTRAL,
    formula="step ~ n / (epsilon^2 alpha) log(s / delta), "
    "relu ~ d operator_norm^2 / (epsilon^2 alpha) log(s / delta), "
    "sketch ~ epsilon^-2 n / (1 + alpha) log(n / (epsilon delta))^3, s = statistical_dimension",
    source=f"{_ZANDIEH}, Theorem 3",
    counts=_OUTPUT,
    assumptions=("rows of norm at most 1", "the NTK of depth 1", _LEVERAGE),
    printed=Printed(
        "relu ~ d / epsilon^2 min(rank^2, operator_norm^2 / alpha) log(s / delta)",
        "its branch of rank^2 is that of Theorem 7, which is false for small alpha",
    ),
)
def _ntk_tensorsrht_spectral(
    epsilon: float, delta: float, n: int, d: int, alpha: float, operator_norm: float, statistical_dimension: float
) -> Widths:
    size = log(statistical_dimension / delta) / epsilon**2
    return {
        "step": n / alpha * size,
        "relu": d * operator_norm**2 / alpha * size,
        "sketch": n / (1 + alpha) / epsilon**2 * max(log(n / (epsilon * delta)), 0.0) ** 3,
    }


@BOUNDS.add(
    "cntk-sketch",
    guarantee="|k - k_Z| <= epsilon k at a pair of images",
    formula="m ~ epsilon^-2 log(1 / delta)",
    source=f"{_ZANDIEH}, Theorem 4",
    counts="components of the output; the dimensions inside grow with the depth",
    assumptions=("CNTKSketch with global average pooling", _DEPTH_FREE),
)
def _cntk_sketch(epsilon: float, delta: float) -> float:
    return log(1 / delta) / epsilon**2


def _entrywise_layers(epsilon: float, delta: float, depth: int) -> dict[str, float]:
    """Return the widths of step and ReLU features that both entrywise bounds require."""
    size = log(depth / delta)
    return {"step": depth**2 / epsilon**2 * size, "relu": depth**6 / epsilon**4 * size}
