"""Features rounded to a few bits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from phimap.features.fourier import FourierFeatures
from phimap.features.low_precision.packable import PackableFeatures, PackableRecord
from phimap.kernels import Kernel
from phimap.ops import Array, Ops
from phimap.ops.primitives.rounding import pack_rounded, row_keys
from phimap.packed import PackedArray
from phimap.random_map import MapRecord, RandomMap
from phimap.records import of_entries, of_number, with_lengths


@dataclass(frozen=True)
class QuantizedRecord(PackableRecord):
    """Another map's features, rounded by chance.

    Attributes
    ----------
    inner : MapRecord
        The map that is rounded.
    peak : float
        The grid reaches from -peak to peak.
    bits : int
    dither : ndarray of uint64, shape (n_components,)
        Keys of the columns, which are hashed with those of the rows.
    packed : bool
    """

    inner: MapRecord = field(metadata=with_lengths(n_components="m"))
    peak: float = field(metadata=of_number(above=0))
    bits: int = field(metadata=of_number(least=1, most=8))
    dither: np.ndarray = field(metadata=of_entries("word", "m"))
    packed: bool

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    @property
    def n_components(self) -> int:
        return self.inner.n_components

    @property
    def scratch_width(self) -> int:
        return self.inner.scratch_width + self.n_components

    @property
    def code(self) -> tuple[tuple[float, ...], float, float]:
        last = 2**self.bits - 1
        # In half steps the grid has whole numbers, of which every second is used.
        return tuple(2.0 ** (k + 1) for k in range(self.bits)), -last, self.peak / last

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        packed = PackedArray.zeros(X.shape[0], self.n_components, *self.code, ops.dtype)
        self.pack(ops, X, packed)
        ops.copy(ops.constant(packed.to_dense()), out, first)

    def pack(self, ops: Ops, X: Array, out: PackedArray) -> None:
        Z = ops.empty((X.shape[0], self.n_components))
        self.inner.apply(ops, X, Z)
        dither = np.ascontiguousarray(ops.to_host(self.dither)).view(np.uint64)
        pack_rounded(ops, Z, row_keys(ops, X), dither, self.peak, out.planes)


class QuantizedFeatures(PackableFeatures):
    r"""Low-precision features: those of a bounded map, rounded to 1, 2, 4 or 8 bits without bias (LP-RFF).

    Every feature lies between two points of a grid over ``[-peak, peak]`` and is rounded to one of them, up with the
    probability that keeps its mean.

    Parameters
    ----------
    feature_map : FourierFeatures or another bounded map, or None, default=None
        The map that is rounded, unfitted; None is ``FourierFeatures()``.
    bits : {1, 2, 4, 8}, default=8
    packed : bool, default=False
        Whether `transform` returns a `PackedArray`, and learners train on one.
    output : {"float", "integer"}, default="float"
        Of the dense result: features, or int8 and int16 to be multiplied by ``scale_``.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of the rounding, and of the map if it has none of its own; None is fresh entropy.
    n_jobs : int or None, default=None
        Threads; None is the configured number. Changes no bit of the result.

    Attributes
    ----------
    feature_map_ : RandomMap
        The fitted map.
    kernel_ : Kernel
        That of the map.
    scale_ : float
        Half a step of the grid.
    record_ : QuantizedRecord
    n_features_in_ : int

    Notes
    -----
    **Error.** ``<q(x), q(y)>`` has the mean ``<phi(x), phi(y)>`` for different rows; an entry adds a variance of up to
    ``peak^2 / (2^bits - 1)^2``. Between equal rows, which are rounded alike, the mean is larger by the sum of these
    variances: the diagonal of the Gram matrix is raised, which acts as regularisation.

    **Cost.** That of the map, and a hash and a rounding an entry. Packed, a row takes ``bits m / 8`` bytes.

    **Differs from the source in** the chance: it is a hash of the row's content, of the column and of the seed, so that
    `transform` is a function. Drawn once for each column, as a fixed dither, it would leave the kernel estimate biased.
    The grid is one for all columns.

    References
    ----------
    Zhang, May, Dao, Re (2019), *Low-precision random Fourier features for memory-constrained kernel approximation*,
    Section 3.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> phi = pm.QuantizedFeatures(pm.FourierFeatures(n_components=4096), bits=4, packed=True, random_state=0)
    >>> Z = phi.fit_transform(X)
    >>> Z.nbytes == 100 * 4096 // 2
    True
    >>> gap = Z.gram() - phi.kernel_(X)
    >>> bool(np.abs(gap[np.triu_indices(100, 1)]).max() < 5 / np.sqrt(2048))
    True
    """

    feature_map_: RandomMap
    _roles = ("map", "rounding")

    def __init__(
        self,
        feature_map: Any = None,
        bits: int = 8,
        *,
        packed: bool = False,
        output: str = "float",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.feature_map = feature_map
        self.bits = bits
        self.packed = packed
        self.output = output
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def n_components(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Output width: that of the map."""
        return FourierFeatures().n_components if self.feature_map is None else self.feature_map.n_components

    @n_components.setter
    def n_components(self, value: int) -> None:
        inner: Any = FourierFeatures() if self.feature_map is None else clone(self.feature_map)
        self.feature_map = inner.set_params(n_components=value)

    def fit_rows(self) -> int:
        """Rows that `fit` can use: those of the map."""
        return self.feature_map.fit_rows() if isinstance(self.feature_map, RandomMap) else super().fit_rows()

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> QuantizedRecord:
        self._check_output()
        if self.bits not in (1, 2, 4, 8) or isinstance(self.bits, bool):
            raise ValueError(f"`bits` must be 1, 2, 4 or 8, got {self.bits!r}.")
        inner = FourierFeatures() if self.feature_map is None else self.feature_map
        if not isinstance(inner, RandomMap):
            raise TypeError(f"`feature_map` must be a feature map, got {type(inner).__name__}.")
        inner: Any = clone(inner)
        if inner.random_state is None:
            inner.set_params(random_state=streams["map"])
        inner.fit(X)
        peak = getattr(inner.record_, "peak", None)
        if peak is None:
            raise ValueError(
                f"`feature_map` must be bounded whatever the data, got {inner!r}. Use FourierFeatures or "
                "TernaryFeatures."
            )
        self.feature_map_ = inner
        self.kernel_: Kernel = inner.kernel_
        # Signed, since 64-bit keys without a sign have no counterpart on every backend.
        dither = streams["rounding"].integers(-(2**63), 2**63, self.n_components)
        return QuantizedRecord(inner.record_, float(peak), int(self.bits), dither, bool(self.packed))
