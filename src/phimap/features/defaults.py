"""The choice of the feature map for a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from phimap.features.base import FeatureMap
from phimap.features.cntk.sketch import CNTKSketch
from phimap.features.fourier import FourierFeatures
from phimap.features.ntk.random_features import NTKFeatures
from phimap.features.nystroem.nystroem import NystroemFeatures
from phimap.features.power_series.dot_product import DotProductFeatures
from phimap.features.power_series.powers import StackedRecord
from phimap.features.random_layers.activation import ActivationFeatures
from phimap.features.random_layers.arccosine import ArcCosineFeatures
from phimap.features.random_layers.spherical import SphericalFeatures
from phimap.kernels import (
    CNTK,
    NNGP,
    NTK,
    ActivationKernel,
    ArcCosine,
    DotProductKernel,
    Gaussian,
    Kernel,
    NormalizedInput,
    Product,
    Scaled,
    StationaryKernel,
    StationaryProduct,
    Sum,
    Zonal,
)
from phimap.ops import Array, Ops, ops_for
from phimap.random_map import MapRecord

# Maximum number of rows from which the mean of ``k(x, x)`` is estimated for each term of a sum.
_SIZE_ROWS = 64


@dataclass(frozen=True)
class ScaledRecord(MapRecord):
    """The features of another map, multiplied by a factor.

    Attributes
    ----------
    record : MapRecord
        The map.
    factor : float
        Factor of all features: the square root of the kernel's weight in the sum.
    """

    record: MapRecord
    factor: float

    @property
    def n_features(self) -> int:
        return self.record.n_features

    @property
    def n_components(self) -> int:
        return self.record.n_components

    @property
    def signature(self) -> np.ndarray | None:
        return self.record.signature

    @property
    def n_flops(self) -> int | None:
        return self.record.n_flops

    @property
    def least_tile_rows(self) -> int | None:
        return self.record.least_tile_rows

    @property
    def scratch_width(self) -> int:
        return self.record.scratch_width

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        self.record.apply(ops, X, out, first)
        out[:, first : first + self.n_components] *= self.factor


class SumFeatures(FeatureMap):
    """Features of a weighted sum of kernels: the maps of the terms side by side, times the roots of the weights.

    Each term gets the default map of its kernel: random features if the kernel has any, else Nystroem features.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        A sum of kernels and of their multiples; any other kernel is a sum of one term. None is
        ``Gaussian(length_scale=1.0)``.
    n_components : int, default=1024
        Output width m. If m is less than the number of terms, the features are Nystroem features of the whole sum.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : Kernel
        The exact kernel that ``Z @ Z.T`` estimates.
    widths_ : tuple of int
        Number of features of each term; one number, m, for Nystroem features of the whole sum.
    record_ : StackedRecord or NystroemRecord
        The maps of the terms, or the Nystroem map of the whole sum.
    signature_ : ndarray of int8, shape (n_components,), or None
        Signs of the features, see `FourierFeatures`.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased if the maps of the terms are. The estimate of term i, with weight w, kernel k and m_i features,
    has a variance of about ``(w k(x, x))^2 / m_i``. For a given total width, the summed variance is least for m_i
    proportional to ``w k(x, x)``; `fit` uses the mean of ``k(x, x)`` over at most 64 evenly spaced rows. If all kernels
    have ``k(x, x) = 1``, the widths are proportional to the weights and do not depend on the data.

    **Cost.** The sum of the costs of the maps.

    **Differs from the source in** the widths of the terms; the source has one kernel.

    References
    ----------
    Rahimi, Recht (2007), *Random features for large-scale kernel machines*, Section 2.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> kernel = pm.kernels.Gaussian(3.0) + 0.5 * pm.kernels.Laplacian(9.0)
    >>> phi = pm.SumFeatures(kernel, 3000, random_state=0).fit(X)
    >>> phi.widths_
    (2000, 1000)
    >>> bool(pm.metrics.relative_error(phi, X) < 0.05)
    True
    """

    widths_: tuple[int, ...]
    _roles = ("parts",)

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 1024,
        *,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit_rows(self) -> int:
        """Number of rows that `fit` can use: the maximum over the maps of the terms."""
        terms = self.kernel.terms() if isinstance(self.kernel, Kernel) else []
        maps = (map_of_kernel(part, self.n_components, random_state=None, n_jobs=None) for _, part in terms)
        return max((one.fit_rows() for one in maps), default=super().fit_rows())

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> MapRecord:
        kernel = Gaussian() if self.kernel is None else self.kernel
        if not isinstance(kernel, Kernel):
            raise TypeError(f"`kernel` must be a Kernel, got {type(kernel).__name__}.")
        kernel._check_parameters(X.shape[1])
        self.kernel_ = with_image_shape(kernel, getattr(self, "image_shape_", None))
        terms = self.kernel_.terms()
        if self.n_components < len(terms):
            self.widths_ = (self.n_components,)
            whole = NystroemFeatures(self.kernel_, self.n_components, random_state=streams["parts"], n_jobs=self.n_jobs)
            return whole.fit(X).record_
        ops = ops_for(X)
        chosen = np.linspace(0, X.shape[0] - 1, min(X.shape[0], _SIZE_ROWS)).astype(np.intp)
        sample = np.asarray(ops.to_host(ops.dense(X[chosen])), dtype=np.float64)
        sizes = np.array([weight * float(part.diag(sample).mean()) for weight, part in terms])
        self.widths_ = _shares(self.n_components, sizes)
        parts: list[MapRecord] = []
        for (weight, part), width, rng in zip(terms, self.widths_, streams["parts"].spawn(len(terms)), strict=True):
            record = map_of_kernel(part, width, random_state=rng, n_jobs=self.n_jobs).fit(X).record_
            parts.append(record if weight == 1.0 else ScaledRecord(record, weight**0.5))
        return StackedRecord(tuple(parts))


def _shares(n_components: int, sizes: np.ndarray) -> tuple[int, ...]:
    """Divide `n_components` in proportion to `sizes`, with at least 1 for each; equal shares if all sizes are 0."""
    sizes = sizes if sizes.sum() > 0 else np.ones(sizes.size)
    exact = (n_components - sizes.size) * sizes / sizes.sum()
    # Largest remainder method: shares are rounded down, and the remaining features go to the terms that lost most by
    # rounding.
    shares = np.floor(exact).astype(int)
    order = np.argsort(shares - exact, kind="stable")
    shares[order[: n_components - sizes.size - shares.sum()]] += 1
    return tuple(int(share) + 1 for share in shares)


def _fourier(kernel: StationaryKernel, **common: Any) -> FeatureMap:
    return FourierFeatures(kernel, **common)


def _arccosine(kernel: ArcCosine, **common: Any) -> FeatureMap:
    # With exact degrees 0 and 1, the map has one layer for the composed kernel. One layer has less error than several
    # layers, and no bias.
    exact_degrees = (0, 1) if kernel.depth > 1 else ()
    return ArcCosineFeatures(kernel.order, depth=kernel.depth, exact_degrees=exact_degrees, **common)


def _activation(kernel: ActivationKernel, **common: Any) -> FeatureMap:
    return ActivationFeatures(kernel.activation, **common)


def _ntk(kernel: NTK, **common: Any) -> FeatureMap:
    if not kernel.is_homogeneous:
        # For bounded or oscillating activations, the series has large errors at rows of large norm, whatever its width.
        return _nystroem(kernel, **common)
    return NTKFeatures(kernel.depth, activation=kernel.activation, **common)


def _series(kernel: Kernel, **common: Any) -> FeatureMap:
    return DotProductFeatures(kernel, **common)


def _nngp(kernel: NNGP, **common: Any) -> FeatureMap:
    return _series(kernel, **common) if kernel.is_homogeneous else _nystroem(kernel, **common)


def _cntk(kernel: CNTK, **common: Any) -> FeatureMap:
    shape = {"pooling": kernel.pooling, "image_shape": kernel.image_shape}
    return CNTKSketch(kernel.depth, kernel.filter_size, **shape, **common)


def _sum(kernel: Sum | Scaled, **common: Any) -> FeatureMap:
    return SumFeatures(kernel, **common)


def _product(kernel: Product, **common: Any) -> FeatureMap:
    whole = [part for _, part in kernel.terms()] == [kernel]
    return NystroemFeatures(kernel, **common) if whole else SumFeatures(kernel, **common)


def _spherical(kernel: Zonal, **common: Any) -> FeatureMap:
    return SphericalFeatures(kernel, **common)


def _normalized(kernel: NormalizedInput, **common: Any) -> FeatureMap:
    if isinstance(kernel.kernel, StationaryKernel):
        return FourierFeatures(kernel.kernel, normalize_input=True, **common)
    return NystroemFeatures(kernel, **common)


def _nystroem(kernel: Kernel, **common: Any) -> FeatureMap:
    return NystroemFeatures(kernel, **common)


#: Constructor of the map by class of kernel; the first match in the kernel's method resolution order is used. Kernels
#: without random features get Nystroem features: products without a spectral density, and `TernaryKernel`, because
#: `TernaryFeatures` start from another kernel and choose their thresholds from the data.
MAPS: dict[type[Kernel], Callable[..., FeatureMap]] = {
    StationaryKernel: _fourier,
    DotProductKernel: _series,
    ArcCosine: _arccosine,
    ActivationKernel: _activation,
    NTK: _ntk,
    NNGP: _nngp,
    CNTK: _cntk,
    Sum: _sum,
    Scaled: _sum,
    Product: _product,
    StationaryProduct: _fourier,
    NormalizedInput: _normalized,
    Zonal: _spherical,
    Kernel: _nystroem,
}


def map_of_kernel(kernel: Kernel, n_components: int, *, random_state: Any, n_jobs: int | None) -> FeatureMap:
    """The default feature map of a kernel: its random features, or Nystroem features if it has none."""
    family = next(one for one in type(kernel).__mro__ if one in MAPS)
    return MAPS[family](kernel, n_components=n_components, random_state=random_state, n_jobs=n_jobs)


def with_image_shape(whole: Any, image_shape: tuple[int, int, int] | None) -> Any:
    """An unfitted copy of a map or kernel with every ``image_shape`` parameter that is None set to `image_shape`."""
    open_places = [
        name
        for name, value in whole.get_params().items()
        if name.rpartition("__")[2] == "image_shape" and value is None
    ]
    chosen: Any = clone(whole)
    return chosen.set_params(**dict.fromkeys(open_places, image_shape))
