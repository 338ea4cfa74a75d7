"""Features rounded to a few bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from phimap._validation import check_choice
from phimap.features.fourier import FourierFeatures, FourierRecord
from phimap.features.low_precision.cosine_grid import cosine_grid
from phimap.features.low_precision.packable import PackableFeatures, PackableRecord
from phimap.kernels import Kernel
from phimap.ops import Array, Ops
from phimap.ops.primitives.rounding import pack_nearest, pack_rounded, row_keys
from phimap.packed import PackedArray
from phimap.random_map import MapRecord, RandomMap
from phimap.records import of_entries, of_floats, of_number, with_lengths


@dataclass(frozen=True)
class QuantizedRecord(PackableRecord):
    """The features of another map, rounded to a grid.

    Attributes
    ----------
    inner : MapRecord
        The map whose features are rounded.
    peak : float
        The grid extends from -peak to peak.
    bits : int
        Bits per feature.
    dither : ndarray of uint64, shape (n_components,), or None
        Keys of the columns for stochastic rounding. They are hashed with the keys of the rows. None rounds to the
        nearest point.
    packed : bool
        Whether learners should store the features packed.
    gain : float
        Factor by which the grid points are multiplied.
    turn : ndarray of shape (2, n_pairs), or None
        Cosines and sines of the angles by which (cosine, sine) pairs are rotated before rounding.
    """

    inner: MapRecord = field(metadata=with_lengths(n_components="m"))
    peak: float = field(metadata=of_number(above=0))
    bits: int = field(metadata=of_number(least=1, most=8))
    dither: np.ndarray | None = field(metadata=of_entries("word", "m"))
    packed: bool
    gain: float = field(default=1.0, metadata=of_number(above=0))
    turn: np.ndarray | None = field(default=None, metadata=of_floats(2, "?k", least=-1, most=1))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.turn is None or self.turn.shape[1] == getattr(self.inner, "n_pairs", None), "an angle for each pair"

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
        # In units of half a grid step, the grid points are the odd integers from -last to last.
        return tuple(2.0 ** (k + 1) for k in range(self.bits)), -last, self.gain * self.peak / last

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        packed = PackedArray.zeros(X.shape[0], self.n_components, *self.code, ops.dtype)
        self.pack(ops, X, packed)
        ops.copy(ops.constant(packed.to_dense()), out, first)

    def pack(self, ops: Ops, X: Array, out: PackedArray) -> None:
        Z = ops.empty((X.shape[0], self.n_components))
        self.inner.apply(ops, X, Z)
        if self.turn is not None:
            n, (cosine, sine) = self.turn.shape[1], self.turn
            first, second = Z[:, :n], Z[:, n : 2 * n]
            turned = first * cosine - second * sine
            Z[:, n : 2 * n] = first * sine + second * cosine
            Z[:, :n] = turned
        if self.dither is None:
            pack_nearest(ops, Z, self.peak, out.planes)
            return
        dither = np.ascontiguousarray(ops.to_host(self.dither)).view(np.uint64)
        pack_rounded(ops, Z, row_keys(ops, X), dither, self.peak, out.planes)


class QuantizedFeatures(PackableFeatures):
    r"""Low-precision features: the features of a bounded map, rounded to 1, 2, 4 or 8 bits (LP-RFF, LM-RFF).

    Every feature lies between two grid points and is rounded to one of them. Either the point is drawn with the
    probabilities that preserve the mean, or it is the nearest point of a grid optimised for cosines.

    Parameters
    ----------
    feature_map : FourierFeatures or another bounded map, or None, default=None
        The map whose features are rounded, unfitted; None is ``FourierFeatures()``.
    bits : {1, 2, 4, 8}, default=8
        Bits per feature.
    rounding : {"stochastic", "nearest"}, default="stochastic"
        ``"stochastic"`` adds variance but no bias. ``"nearest"`` adds a small bias but no variance; it requires cosines
        and sines of equal amplitude, such as the features of `FourierFeatures`.
    packed : bool, default=False
        Whether `transform` returns a `PackedArray`, and learners train on one.
    output : {"float", "integer"}, default="float"
        Type of the dense result: features, or int8 or int16 integers to be multiplied by ``scale_``.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of the rounding, and of the inner map if its own `random_state` is None; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    feature_map_ : RandomMap
        The fitted inner map.
    kernel_ : Kernel
        The kernel of the inner map.
    scale_ : float
        Half of the grid spacing, times the gain of ``rounding="nearest"``.
    record_ : QuantizedRecord
        The rounded map.
    n_features_in_ : int

    Notes
    -----
    **Error.** With stochastic rounding, ``<q(x), q(y)>`` has the mean ``<phi(x), phi(y)>`` for different rows. Each
    feature gets an additional variance of up to ``peak^2 / (2^bits - 1)^2``. Equal rows are rounded alike, so the mean
    of ``<q(x), q(x)>`` is larger by the sum of these variances. This raises the diagonal of the Gram matrix and acts as
    regularisation.

    With rounding to the nearest point, a feature of phase t is ``q(cos t) / a_1`` with
    ``q(cos t) = sum_k a_k cos(k t)`` over odd k. Rows that differ by D have phases that differ by w.D for a frequency
    w, so that over uniform phases

    .. math:: \mathbb{E} \langle q(x), q(y) \rangle = \sum_{k \text{ odd}} (a_k / a_1)^2\, \kappa(k D)

    for ``kernel_(x, y)`` = kappa(D). This is the kernel plus narrower copies of it, whose total weight is .234, .0437,
    .00247 and 9.9e-6 for 1, 2, 4 and 8 bits. Each (cosine, sine) pair is first rotated by a random angle, which makes
    its phase uniform and preserves inner products.

    **Cost.** The cost of the inner map, plus one hash and one rounding per feature. Packed, a row takes ``bits m / 8``
    bytes.

    **Differs from the source in** the random numbers, the grid and the pairs. The random numbers of stochastic rounding
    are a hash of the row's content, the column and the seed, so `transform` is deterministic. A fixed dither for each
    column would leave the kernel estimate biased. All columns use the same grid. For rounding to the nearest point, the
    grid is evenly spaced, so that features are integers times a scale; a Lloyd-Max grid would have 0.2 to 9 % less
    distortion. Values are multiplied by ``1 / a_1``, which removes the bias for distant rows. Pairs are rotated, where
    the source uses one cosine with a phase for each direction.

    References
    ----------
    Li, Li (2021), *Quantization algorithms for random Fourier features*, Section 3 (the nearest points). Zhang, May,
    Dao, Re (2019), *Low-precision random Fourier features for memory-constrained kernel approximation*, Section 3.

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
        rounding: str = "stochastic",
        packed: bool = False,
        output: str = "float",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.feature_map = feature_map
        self.bits = bits
        self.rounding = rounding
        self.packed = packed
        self.output = output
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def n_components(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Output width, which equals the width of the inner map."""
        return FourierFeatures().n_components if self.feature_map is None else self.feature_map.n_components

    @n_components.setter
    def n_components(self, value: int) -> None:
        inner: Any = FourierFeatures() if self.feature_map is None else clone(self.feature_map)
        self.feature_map = inner.set_params(n_components=value)

    def fit_rows(self) -> int:
        """Number of rows that `fit` can use: as many as the inner map can use."""
        return self.feature_map.fit_rows() if isinstance(self.feature_map, RandomMap) else super().fit_rows()

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> QuantizedRecord:
        self._check_output()
        check_choice("rounding", self.rounding, ("stochastic", "nearest"))
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
        if self.rounding == "nearest":
            _check_cosines(inner)
            reach, gain = cosine_grid(self.bits)
            angles = streams["rounding"].uniform(0, 2 * np.pi, inner.record_.n_pairs)
            turn = np.stack([np.cos(angles), np.sin(angles)])
            return QuantizedRecord(inner.record_, reach * peak, int(self.bits), None, bool(self.packed), gain, turn)
        # The keys are signed, because some backends have no unsigned 64-bit integers.
        dither = streams["rounding"].integers(-(2**63), 2**63, self.n_components)
        return QuantizedRecord(inner.record_, float(peak), int(self.bits), dither, bool(self.packed))


def _check_cosines(feature_map: RandomMap) -> None:
    """Raise ValueError unless the features of a fitted map are cosines and sines of equal amplitude."""
    record: Any = feature_map.record_
    heights = np.abs(record.scale) if isinstance(record, FourierRecord) and not record.normalize_output else np.empty(0)
    if not heights.size or np.ptp(heights) > 1e-9 * heights[0]:
        raise ValueError(
            f"`feature_map` must give cosines of one height for rounding='nearest', got {feature_map!r}. Use "
            "FourierFeatures of even width without weights and normalize_output, or rounding='stochastic'."
        )
