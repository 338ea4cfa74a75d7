"""The members of each family, each of which has every test of its family.

A public class that is named nowhere here is tested as its defaults make it; an entry gives it the parameters that say
more, or takes it into the lists of what is biased or depends on the data.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType

import numpy as np

import phimap as pm
from phimap import kernels, projections
from phimap.random_map import RandomMap


def unnamed(family: ModuleType, base: type, named: Iterable[object]) -> Iterator[type]:
    """The public classes of a family, concrete ones below `base`, that are not among the types of `named`."""
    seen = {type(member) for member in named}
    for name in family.__all__:
        member = getattr(family, name)
        is_concrete = inspect.isclass(member) and issubclass(member, base) and not inspect.isabstract(member)
        if is_concrete and member not in seen:
            yield member


KERNELS = [
    kernels.Gaussian(length_scale=1.5),
    kernels.Gaussian(length_scale=np.array([0.5, 1.0, 1.5, 2.0, 2.5])),
    kernels.Laplacian(length_scale=3.0),
    kernels.Cauchy(length_scale=3.0),
    kernels.Cauchy(length_scale=np.array([2.5, 2.0, 1.5, 3.0, 3.5])),
    kernels.Matern(nu=0.5, length_scale=2.0),
    kernels.ExponentialPower(0.8, length_scale=2.0),
    kernels.ExponentialPower(1.4, length_scale=np.array([0.5, 1.0, 1.5, 2.0, 2.5])),
    kernels.ExponentialPower(2.0, length_scale=3.0),
    kernels.SpectralMixture(),
    kernels.SpectralMixture(
        weights=[2.0, 1.0, 0.5],
        means=np.array([[0.0] * 5, [1.5, 0.0, -1.0, 0.0, 0.5], [0.0, 3.0, 0.0, 0.0, 0.0]]),
        scales=np.array([[0.5] * 5, [0.4, 0.3, 0.2, 0.1, 0.6], [0.0, 0.1, 0.0, 0.5, 0.0]]),
    ),
    kernels.SpectralMixture([1.0, 1.0], 1.0, 0.5) * kernels.SpectralMixture([1.0], 0.5, 0.5),
    kernels.Matern(nu=1.2, length_scale=np.array([0.5, 1.0, 1.5, 2.0, 2.5])),
    kernels.Matern(nu=2.5, length_scale=2.0),
    kernels.ArcCosine(order=0),
    kernels.ArcCosine(order=0, depth=2),
    kernels.ArcCosine(order=1),
    kernels.ArcCosine(order=2),
    kernels.ArcCosine(order=2, depth=2),
    kernels.Polynomial(degree=3),
    kernels.Polynomial(degree=2, gamma=0.5, coef0=0.0),
    kernels.Exponential(length_scale=2.0),
    kernels.Taylor([1.0, 0.5, 0.0, 0.25]),
    kernels.Taylor([0.0, 0.5, 0.25], homogeneous=True),
    *(kernels.ActivationKernel(name) for name in ("abs", "cos", "erf", "gelu", "relu", "sign", "sin", "step")),
    kernels.ActivationKernel("softplus"),
    kernels.ActivationKernel(np.tanh),
    kernels.TernaryKernel(-0.5, 1.2, 1.3),
    kernels.TernaryKernel(0.4, 0.4, length_scale=2.0),
    kernels.TernaryKernel([-0.5, 0.4], [1.2, 0.4], shares=[0.3, 0.7]),
    kernels.FiniteSpectrum(np.arange(-20.0, 20.0).reshape(8, 5) / 10, np.arange(8.0)),
    kernels.Zonal("tanh", gamma=2.0, coef0=0.3),
    kernels.NormalizedInput(kernels.Gaussian(length_scale=1.5)),
    kernels.NNGP(depth=2),
    kernels.NTK(depth=1),
    kernels.NTK(depth=3),
    *(kernels.NTK(depth=2, activation=name) for name in ("abs", "cos", "erf", "gelu", "sin", "softplus")),
    kernels.NTK(depth=2, activation=kernels.LeakyReLU(0.2)),
    kernels.NTK(depth=1, activation=np.tanh),
    kernels.NNGP(depth=2, activation="gelu"),
    kernels.NNGP(depth=1, activation="sign"),
    kernels.CNTK(depth=2),
    kernels.CNTK(depth=3, pooling="flatten"),
    *(kernels.CNTK(depth=2, activation=name) for name in ("abs", "erf", "gelu")),
    kernels.Gaussian(length_scale=1.5) * kernels.Laplacian(length_scale=np.array([6.0, 5.0, 4.0, 3.0, 3.5])),
    kernels.Matern(nu=1.5, length_scale=3.0) * kernels.Gaussian(length_scale=3.0),
    kernels.Gaussian(length_scale=1.5) + 0.5 * kernels.Polynomial(degree=2),
    3.0 * kernels.Laplacian(length_scale=3.0),
    kernels.NTK(depth=1) * kernels.Gaussian(length_scale=2.0),
    kernels.Additive(kernels.Gaussian(length_scale=1.5), order=2),
    kernels.Additive(kernels.Laplacian(length_scale=np.array([2.5, 2.0, 1.5, 3.0, 3.5])), order=1),
    kernels.Additive(kernels.Cauchy(length_scale=2.0), order=4),
    kernels.Additive(kernels.Matern(nu=1.2, length_scale=2.0), order=3),
    kernels.Additive(kernels.Matern(nu=1.5), order=1),
    kernels.Additive(kernels.Gaussian(length_scale=2.0) * kernels.Matern(nu=0.5, length_scale=9.0), order=2),
    kernels.Additive(kernels.Gaussian(length_scale=1.5), order=1) * kernels.Gaussian(length_scale=3.0),
    kernels.Additive(kernels.Gaussian(), order=1) + 2.0 * kernels.Additive(kernels.Laplacian(length_scale=2.0), 2),
]
"""Exact kernels on rows of five features."""
KERNELS += [kernel() for kernel in unnamed(kernels, kernels.Kernel, KERNELS)]

STATIONARY_KERNELS = [kernel for kernel in KERNELS if isinstance(kernel, kernels.StationaryKernel)]


def feature_maps() -> dict[str, RandomMap]:
    """Feature maps and sketches with small widths, by a name for the test report."""
    fixed = {"n_components": 64, "random_state": 0}
    return {
        "fourier": pm.FourierFeatures(**fixed),
        "fourier-offset": pm.FourierFeatures(pairing="offset", **fixed),
        "fourier-gaussian": pm.FourierFeatures(projection="gaussian", **fixed),
        "fourier-sorf": pm.FourierFeatures(projection="sorf", **fixed),
        "fourier-rom": pm.FourierFeatures(projection="rom", **fixed),
        "fourier-fastfood": pm.FourierFeatures(projection="fastfood", **fixed),
        "fourier-matern-fastfood": pm.FourierFeatures(kernels.Matern(nu=1.5), projection="fastfood", **fixed),
        "fourier-circulant": pm.FourierFeatures(projection="circulant", **fixed),
        "fourier-laplacian-circulant": pm.FourierFeatures(
            kernels.Laplacian(length_scale=3.0), projection="circulant", **fixed
        ),
        "fourier-p-model": pm.FourierFeatures(projection="p-model", **fixed),
        "fourier-matern-p-model": pm.FourierFeatures(
            kernels.Matern(nu=1.5), projection=projections.PModel("hankel"), **fixed
        ),
        "fourier-sparse-sign": pm.FourierFeatures(projection="sparse-sign", **fixed),
        "fourier-laplacian": pm.FourierFeatures(kernels.Laplacian(length_scale=3.0), **fixed),
        "fourier-cauchy": pm.FourierFeatures(kernels.Cauchy(length_scale=2.0), **fixed),
        "fourier-mixture": pm.FourierFeatures(kernels.SpectralMixture([1.0, 2.0], 1.5, 0.3), **fixed),
        "fourier-matern": pm.FourierFeatures(kernels.Matern(nu=1.5, length_scale=2.0), **fixed),
        "fourier-matern-sorf": pm.FourierFeatures(kernels.Matern(nu=1.5), projection="sorf", **fixed),
        "fourier-qmc": pm.FourierFeatures(projection="qmc", **fixed),
        "fourier-halton": pm.FourierFeatures(projection=pm.projections.QuasiMonteCarlo("halton"), **fixed),
        "fourier-leaped-halton": pm.FourierFeatures(
            projection=pm.projections.QuasiMonteCarlo("leaped-halton"), **fixed
        ),
        "fourier-lattice": pm.FourierFeatures(
            kernels.Matern(nu=1.5, length_scale=2.0), projection=pm.projections.QuasiMonteCarlo("lattice"), **fixed
        ),
        "fourier-laplacian-qmc": pm.FourierFeatures(kernels.Laplacian(length_scale=3.0), projection="qmc", **fixed),
        "fourier-matern-qmc": pm.FourierFeatures(kernels.Matern(nu=1.5, length_scale=2.0), projection="qmc", **fixed),
        "fourier-ssf": pm.FourierFeatures(projection="ssf", **fixed),
        "fourier-matern-ssf": pm.FourierFeatures(kernels.Matern(nu=1.5, length_scale=2.0), projection="ssf", **fixed),
        "fourier-simplex": pm.FourierFeatures(projection="simplex", **fixed),
        "fourier-gauss-quadrature": pm.FourierFeatures(
            kernels.Gaussian(length_scale=2.0), projection="gauss-quadrature", **fixed
        ),
        "fourier-normalized": pm.FourierFeatures(
            pairing="offset", normalize_input=True, normalize_output=True, **fixed
        ),
        "arccosine-0": pm.ArcCosineFeatures(0, **fixed),
        "arccosine-1": pm.ArcCosineFeatures(1, **fixed),
        "arccosine-1-deep": pm.ArcCosineFeatures(1, depth=3, **fixed),
        "arccosine-0-exact": pm.ArcCosineFeatures(0, exact_degrees=(0, 1), **fixed),
        "arccosine-1-exact": pm.ArcCosineFeatures(1, exact_degrees=(0, 1), **fixed),
        "arccosine-1-exact-deep": pm.ArcCosineFeatures(1, depth=2, exact_degrees=(0, 1), projection="ssf", **fixed),
        "arccosine-2-exact": pm.ArcCosineFeatures(2, exact_degrees=(0, 1, 2), projection="orthogonal", **fixed),
        "arccosine-2": pm.ArcCosineFeatures(2, 128, random_state=0),
        "arccosine-1-qmc": pm.ArcCosineFeatures(1, projection="qmc", **fixed),
        "arccosine-0-ssf": pm.ArcCosineFeatures(0, projection="ssf", **fixed),
        "arccosine-1-simplex": pm.ArcCosineFeatures(1, projection="simplex", **fixed),
        **{f"activation-{name}": pm.ActivationFeatures(name, **fixed) for name in ("cos", "erf", "gelu", "sign")},
        "activation-softplus-sorf": pm.ActivationFeatures("softplus", projection="sorf", **fixed),
        "dot-product": pm.DotProductFeatures(kernels.Polynomial(degree=6, gamma=0.2), **fixed),
        **{
            f"dot-product-{method}": pm.DotProductFeatures(
                kernels.Polynomial(degree=3, gamma=0.5), method=method, exact_degrees=(), adaptive=False, **fixed
            )
            for method in (
                "polysketch",
                "complex-to-real",
                "tensorsketch",
                "maclaurin",
                "compact-maclaurin",
                "random-maclaurin",
            )
        },
        "dot-product-gaussian": pm.DotProductFeatures(kernels.Gaussian(length_scale=4.0), **fixed),
        "dot-product-taylor": pm.DotProductFeatures(
            kernels.Taylor([0.3, 1.0, 0.5, 0.2], homogeneous=True), adaptive=False, **fixed
        ),
        "dot-product-ntk": pm.DotProductFeatures(kernels.NTK(depth=2), **fixed),
        "ntk": pm.NTKFeatures(2, **fixed),
        "ntk-activation": pm.NTKFeatures(2, remainder="activation", **fixed),
        "ntk-sketched": pm.NTKFeatures(2, remainder="sketch", **fixed),
        "ntk-fixed": pm.NTKFeatures(2, adaptive=False, **fixed),
        "ntk-1": pm.NTKFeatures(1, exact_degrees=(), **fixed),
        "ntk-3": pm.NTKFeatures(3, projection="sorf", **fixed),
        "ntk-countsketch": pm.NTKFeatures(2, sketch="countsketch", **fixed),
        "ntk-leverage": pm.NTKFeatures(1, sampling="leverage", projection="fastfood", **fixed),
        "ntk-gibbs": pm.NTKFeatures(1, sampling="gibbs", **fixed),
        "ntk-gelu": pm.NTKFeatures(1, activation="gelu", **fixed),
        "ntk-leaky": pm.NTKFeatures(2, activation=kernels.LeakyReLU(0.2), **fixed),
        "ntk-abs-activation": pm.NTKFeatures(2, activation="abs", remainder="activation", **fixed),
        "ntk-sketch-erf": pm.NTKSketch(2, activation="erf", **fixed),
        "ntk-sketch-abs-layered": pm.NTKSketch(2, activation="abs", method="layered", **fixed),
        "ntk-tensor": pm.NTKTensorFeatures(1, 8, random_state=0),
        "ntk-gradient-1": pm.NTKGradientFeatures(1, 64, random_state=0),
        "ntk-gradient-3": pm.NTKGradientFeatures(3, 12, random_state=0),
        "nngp": pm.NTKFeatures(2, relu_components=64, **fixed),
        "ntk-sketch": pm.NTKSketch(3, **fixed),
        "ntk-sketch-fixed": pm.NTKSketch(1, exact_degrees=(), adaptive=False, **fixed),
        "ntk-sketch-layered": pm.NTKSketch(2, method="layered", **fixed),
        "cntk-gradient": pm.CNTKGradientFeatures(2, width=16, random_state=0),
        "cntk-gradient-flatten": pm.CNTKGradientFeatures(3, width=16, pooling="flatten", random_state=0),
        "cntk": pm.CNTKSketch(2, **fixed),
        "cntk-flatten": pm.CNTKSketch(3, pooling="flatten", **fixed),
        "cntk-published": pm.CNTKSketch(3, construction="published", degree=4, **fixed),
        "cntk-degree": pm.CNTKSketch(3, degree=6, **fixed),
        "cntk-gelu": pm.CNTKSketch(3, activation="gelu", **fixed),
        "positive": pm.PositiveFeatures(kernels.Exponential(length_scale=4.0), **fixed),
        "positive-single": pm.PositiveFeatures(
            kernels.Exponential(length_scale=4.0), pairing="single", projection="orthogonal", **fixed
        ),
        "positive-directions": pm.PositiveFeatures(
            kernels.Exponential(length_scale=4.0), damping="directions", **fixed
        ),
        "spherical": pm.SphericalFeatures(kernels.Zonal("tanh", gamma=2.0, coef0=0.3), **fixed),
        "spherical-inexact": pm.SphericalFeatures(
            kernels.Zonal("tanh", coef0=-0.5), exact_degrees=(), projection="orthogonal", **fixed
        ),
        "mondrian": pm.MondrianFeatures(3.0, **fixed),
        "mondrian-signs": pm.MondrianFeatures(2.0, columns_per_partition=1, **fixed),
        "binning": pm.BinningFeatures(kernels.Laplacian(length_scale=3.0), **fixed),
        "binning-cells": pm.BinningFeatures(kernels.Laplacian(length_scale=3.0), columns_per_partition=8, **fixed),
        "nystroem": pm.NystroemFeatures(kernels.Matern(nu=1.5), **fixed),
        "nystroem-ntk": pm.NystroemFeatures(kernels.NTK(depth=2), **fixed),
        "ternary": pm.TernaryFeatures(kernels.Gaussian(length_scale=2.0), sparsity=0.5, **fixed),
        "ternary-mixture": pm.TernaryFeatures(kernels.Gaussian(length_scale=2.0), sparsity=0.5, degrees=3, **fixed),
        "ternary-relu": pm.TernaryFeatures("relu", sparsity=0.0, **fixed),
        "ternary-binary": pm.TernaryFeatures(kernels.Gaussian(length_scale=2.0), levels=2, **fixed),
        "quantized-nearest": pm.QuantizedFeatures(
            pm.FourierFeatures(**fixed), bits=2, rounding="nearest", random_state=0
        ),
        "quantized": pm.QuantizedFeatures(pm.FourierFeatures(**fixed), bits=4, random_state=0),
        "leverage": pm.LeverageFeatures(kernels.Gaussian(length_scale=2.0), **fixed),
        "leverage-online": pm.LeverageFeatures(scores="online", alpha=1e-3, **fixed),
        "leverage-surrogate": pm.LeverageFeatures(scores="surrogate", **fixed),
        **{
            f"reweighted-{method}": pm.ReweightedFeatures(kernels.Gaussian(length_scale=2.0), method=method, **fixed)
            for method in ("polarization", "alignment", "kitchen-sinks", "stein", "least-squares")
        },
        "compressed": pm.CompressedFeatures(random_state=0, n_components=64),
        "compressed-frank-wolfe": pm.CompressedFeatures(
            pm.ArcCosineFeatures(n_components=128), method="frank-wolfe", **fixed
        ),
        "countsketch": pm.sketches.CountSketch(**fixed),
        "osnap": pm.sketches.OSNAP(**fixed),
        "srht": pm.sketches.SRHT(**fixed),
        "srht-replace": pm.sketches.SRHT(replace=True, **fixed),
        "tensorsketch": pm.sketches.TensorSketch(degree=3, **fixed),
        "tensorsrht": pm.sketches.TensorSRHT(**fixed),
        "tensorsrht-hadamard": pm.sketches.TensorSRHT(form="hadamard", **fixed),
        "polysketch": pm.sketches.PolySketch(degree=3, **fixed),
        "polysketch-osnap": pm.sketches.PolySketch(degree=2, leaf="osnap", **fixed),
        "fourier-exponential-power": pm.FourierFeatures(kernels.ExponentialPower(1.3, length_scale=2.0), **fixed),
        "fourier-product": pm.FourierFeatures(
            kernels.Gaussian(length_scale=3.0) * kernels.Laplacian(length_scale=6.0), **fixed
        ),
        "fourier-additive": pm.FourierFeatures(kernels.Additive(kernels.Gaussian(length_scale=1.5), order=1), **fixed),
        "fourier-additive-gaussian": pm.FourierFeatures(
            kernels.Additive(kernels.Matern(nu=1.5), order=1), projection="gaussian", **fixed
        ),
        "fourier-additive-laplacian": pm.FourierFeatures(
            kernels.Additive(kernels.Laplacian(length_scale=2.0), order=1), **fixed
        ),
        "fourier-sum": pm.SumFeatures(
            kernels.Gaussian(length_scale=2.0) + 0.5 * kernels.Laplacian(length_scale=5.0), **fixed
        ),
    }


MAPS = feature_maps()
"""Every kind of map, unfitted."""
for family in (pm.features, pm.sketches):
    for phi in unnamed(family, RandomMap, MAPS.values()):
        MAPS[phi.__name__] = phi(n_components=64, random_state=0)

BIASED_MAPS = {
    "cntk-gradient",
    "cntk-gradient-flatten",
    "cntk",
    "cntk-flatten",
    "cntk-published",
    "cntk-degree",
    "cntk-gelu",
    "ntk-abs-activation",
    "ntk-gelu",
    "ntk-leaky",
    "ntk-sketch",
    "ntk-sketch-abs-layered",
    "ntk-sketch-erf",
    "ntk-sketch-fixed",
    "ntk-sketch-layered",
    "dot-product-gaussian",
    "dot-product-ntk",
    "fourier-sparse-sign",
    "fourier-sorf",
    "fourier-rom",
    "fourier-matern-sorf",
    "fourier-normalized",
    "fourier-gauss-quadrature",
    "activation-softplus-sorf",
    "arccosine-1-deep",
    "ntk",
    "ntk-activation",
    "ntk-sketched",
    "ntk-fixed",
    "ntk-3",
    "ntk-countsketch",
    "ntk-gibbs",
    "ntk-gradient-3",
    "nngp",
}
"""Maps whose kernel estimate is biased at finite width: structured directions, rules of a finite degree, normalised
outputs, depth."""

DATA_DEPENDENT_MAPS = {
    "nystroem",
    "nystroem-ntk",
    "ternary",
    "ternary-mixture",
    "ternary-relu",
    "ternary-binary",
    "quantized",
    "quantized-nearest",
    "leverage",
    "leverage-online",
    "leverage-surrogate",
    "reweighted-polarization",
    "reweighted-alignment",
    "reweighted-kitchen-sinks",
    "reweighted-stein",
    "reweighted-least-squares",
    "compressed",
    "compressed-frank-wolfe",
}
"""Maps whose randomness is in the choice among the data, so that averages over seeds say nothing."""

ZERO_ROW_VARIES = {
    "fourier-offset",
    "quantized",
    "quantized-nearest",
    "dot-product-gaussian",
    "dot-product-random-maclaurin",
    "positive-directions",
    "ternary-mixture",
    "leverage",
    "leverage-online",
    "leverage-surrogate",
    "reweighted-stein",
    "reweighted-least-squares",
    "compressed",
}
"""Maps whose features of a zero row are random, so that their norm is the kernel's in the mean alone."""
