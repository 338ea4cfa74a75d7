"""Random Fourier features of stationary kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap import kernels
from phimap._validation import check_choice
from phimap.features.base import FeatureMap
from phimap.features.projected import ProjectedRecord
from phimap.kernels import Gaussian, Kernel, NormalizedInput, StationaryKernel
from phimap.ops import Array, Ops
from phimap.ops.primitives.cosines import cos_shift, cos_sin
from phimap.projections import Projection, as_projection
from phimap.projections.base import ProjectionRecord
from phimap.records import of_floats, with_lengths


@dataclass(frozen=True)
class FourierRecord(ProjectedRecord):
    """Directions, phases and scales of random Fourier features.

    Attributes
    ----------
    projection : ProjectionRecord
        Directions.
    shift : ndarray of shape (n_phases,)
        Phases of the last `n_phases` directions, each of which gives one cosine. The directions before them give a
        cosine and a sine without a phase.
    scale : ndarray of shape (n_directions,)
        Factors of the cosines and sines.
    normalize_input, normalize_output : bool
        Whether rows, and feature vectors, are divided by their norms.
    """

    projection: ProjectionRecord = field(metadata=with_lengths(n_directions="s"))
    shift: np.ndarray = field(metadata=of_floats("?k"))
    scale: np.ndarray = field(metadata=of_floats("s"))
    normalize_input: bool
    normalize_output: bool

    bounded = True

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.n_pairs >= 0, "no more phases than directions"

    @property
    def n_components(self) -> int:
        return self.n_pairs + self.projection.n_directions

    @property
    def peak(self) -> float:
        """The largest possible absolute value of a feature."""
        return 1.0 if self.normalize_output else float(np.abs(self.scale).max())

    @property
    def n_pairs(self) -> int:
        """Number of directions that give a cosine and a sine."""
        return self.projection.n_directions - self.shift.shape[0]

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        if self.normalize_input:
            X = ops.scale_rows(X, ops.reciprocal(ops.row_norms(X)))
        n_pairs = self.n_pairs
        for columns, projected in self.projection.blocks(ops, X):
            start, stop = columns.start, columns.stop
            paired = min(stop, n_pairs) - start
            if paired > 0:
                values = projected if stop <= n_pairs else ops.contiguous(projected[:, :paired])
                cos_sin(ops, values, self.scale[start : start + paired], out, first + start, n_pairs)
            if stop > n_pairs:
                start = max(start, n_pairs)
                values = projected if paired <= 0 else ops.contiguous(projected[:, paired:])
                shift = self.shift[start - n_pairs : stop - n_pairs]
                cos_shift(ops, values, shift, self.scale[start:stop], out, first + n_pairs + start)
        if self.normalize_output:
            features = out[:, first : first + self.n_components]
            ops.scale_rows_in_place(features, ops.reciprocal(ops.row_norms(features)))

    @property
    def signature(self) -> np.ndarray | None:
        signs = self.projection.weight_signs
        if signs is None:
            return None
        return np.concatenate([signs[: self.n_pairs], signs])

    def truncated(self, n_components: int) -> tuple[np.ndarray, float] | None:
        if self.projection.weights is not None:
            # Quadrature weights are valid only if all nodes of the rule are used together.
            return None
        factor = (self.n_components / n_components) ** 0.5
        if not self.n_pairs:
            return np.arange(n_components), factor
        if self.shift.shape[0] or n_components % 2:
            return None
        cosines = np.arange(n_components // 2)
        return np.concatenate([cosines, self.n_pairs + cosines]), factor


def _object_of(kernel: Any) -> str:
    """Return the remedy for the error about a kernel that is not stationary, or that is given as text."""
    names = [name for name in kernels.__all__ if isinstance(kernel, str) and name.lower() == kernel.lower()]
    if names and issubclass(getattr(kernels, names[0]), StationaryKernel):
        return f"the object phimap.kernels.{names[0]}(...)."
    return "ArcCosineFeatures, NTKFeatures or NystroemFeatures for others."


class FourierFeatures(FeatureMap):
    """Random Fourier features: ``k(x, y) = E[cos(w.(x - y))]``, w drawn from the kernel's spectral density.

    Paired, ``phi(x) = [cos(w_1.x) ... cos(w_s.x), sin(w_1.x) ... sin(w_s.x)] / sqrt(s)`` with m = 2 s. With phases,
    ``phi(x) = sqrt(2 / m) [cos(w_1.x + b_1) ... cos(w_m.x + b_m)]``, b uniform on [0, 2 pi).

    Parameters
    ----------
    kernel : StationaryKernel or None, default=None
        The kernel to estimate; None is ``Gaussian(length_scale=1.0)``.
    n_components : int, default=1024
        Output width m. With pairs and odd m, the last feature is a cosine with a random phase.
    projection : str or Projection, default="auto"
        How directions are drawn: a name, an object of `phimap.projections`, or ``"auto"``, which chooses
        `MinimumEnergy`, `SphericalStructured` or `QuasiMonteCarlo` by the spectral density and the number of inputs.
    pairing : {"pairs", "offset"}, default="pairs"
        Cosine and sine of each direction, or one cosine with a random phase. At equal m, pairs never have more error.
    normalize_input : bool, default=False
        Divide each row by its norm first; zero rows stay zero.
    normalize_output : bool, default=False
        Divide each feature vector by its norm. This lowers the variance of features with phases, and does not change
        pairs.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : Kernel
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : FourierRecord
        The drawn directions, phases and scales.
    signature_ : ndarray of int8, shape (n_components,), or None
        Signs of the features if a quadrature rule has negative weights: the kernel estimate is then
        ``Z @ diag(signature_) @ Z.T``. None if all signs are positive.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased for every projection that draws each direction from the spectral density. For the Gaussian
    kernel with independent directions, and points at a distance of tau length scales, the variance is
    ``(1 - exp(-tau^2))^2 / (2 s)`` for pairs and ``(1 + exp(-2 tau^2) / 2 - exp(-tau^2)) / m`` for phases.

    **Cost.** ``transform``: 2 d s flops per row for stored directions, O(s log d) for structured ones, and one pass
    over the output. ``fit``: drawing the directions; the data are not used.

    **Differs from the source in** the use of pairs, which the published algorithm allows, and in the choice of
    projections.

    References
    ----------
    Rahimi, Recht (2007), *Random features for large-scale kernel machines*, Algorithm 1; Sutherland, Schneider
    (2015), *On the error of random Fourier features*, Section 3; Liu, Huang, Chen, Suykens (2021), *Random features
    for kernel approximation*, Section 3.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> phi = pm.FourierFeatures(pm.kernels.Matern(nu=1.5, length_scale=2.0), 4096, random_state=0)
    >>> Z = phi.fit_transform(X)
    >>> error = np.abs(Z @ Z.T - phi.kernel_(X)).max()
    >>> bool(error < 5 / np.sqrt(2048))
    True
    """

    _roles = ("directions", "phases")

    def __init__(
        self,
        kernel: StationaryKernel | None = None,
        n_components: int = 1024,
        *,
        projection: str | Projection = "auto",
        pairing: str = "pairs",
        normalize_input: bool = False,
        normalize_output: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.projection = projection
        self.pairing = pairing
        self.normalize_input = normalize_input
        self.normalize_output = normalize_output
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> FourierRecord:
        kernel = Gaussian() if self.kernel is None else self.kernel
        if not isinstance(kernel, StationaryKernel):
            raise TypeError(f"`kernel` must be a stationary kernel, got {kernel!r}. Use {_object_of(kernel)}")
        paired = check_choice("pairing", self.pairing, ("pairs", "offset")) == "pairs"
        width = self.n_components
        law = kernel.spectral_law(X.shape[1])
        n_directions = (width + 1) // 2 if paired else width
        n_phases = width % 2 if paired else width
        projection = as_projection(self.projection, law).sample(law, n_directions, streams["directions"])
        shift = streams["phases"].uniform(0, 2 * np.pi, n_phases)
        if self.normalize_output and projection.weight_signs is not None:
            raise ValueError(
                "`normalize_output` needs positive quadrature weights, which this projection did not give. "
                "Use normalize_output=False, or projection='orthogonal'."
            )
        # cos^2 + sin^2 = 1, but the square of a cosine with a random phase has mean 1/2. This explains the factor 2.
        scale = np.repeat([1.0, 2.0], [n_directions - n_phases, n_phases]) ** 0.5 * projection.weight_roots
        self.kernel_: Kernel = NormalizedInput(kernel) if self.normalize_input else kernel
        return FourierRecord(projection, shift, scale, bool(self.normalize_input), bool(self.normalize_output))
