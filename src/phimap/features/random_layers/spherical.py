"""Random features of kernels on the sphere, which may be indefinite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.features.base import FeatureMap
from phimap.features.power_series.terms import SeriesRecord, n_monomials
from phimap.features.random_layers.remainder import ActivationPlan
from phimap.kernels.indefinite import Zonal
from phimap.ops import Array, Ops
from phimap.projections import Projection
from phimap.random_map import MapRecord

# A degree is represented exactly only if it takes at most 1 / _LARGE of all features.
_LARGE = 4


@dataclass(frozen=True)
class SphericalRecord(MapRecord):
    """Features of the positive part of a kernel, followed by features of the negative part.

    Attributes
    ----------
    positive, negative : SeriesRecord or None
        Map of each part; None if it has no features. At least one is not None.
    """

    positive: SeriesRecord | None
    negative: SeriesRecord | None

    def requirements(self) -> Iterator[tuple[bool, str]]:
        parts = self._parts
        yield len(parts) > 0, "a positive or a negative part"
        yield len({part.n_features for part in parts}) == 1, "two parts of the same inputs"

    @property
    def _parts(self) -> list[SeriesRecord]:
        return [part for part in (self.positive, self.negative) if part is not None]

    @property
    def n_features(self) -> int:
        return self._parts[0].n_features

    @property
    def n_components(self) -> int:
        return sum(part.n_components for part in self._parts)

    @property
    def scratch_width(self) -> int:
        return max(part.scratch_width for part in self._parts)

    @property
    def signature(self) -> np.ndarray | None:
        if self.negative is None:
            return None
        n_positive = 0 if self.positive is None else self.positive.n_components
        return np.repeat(np.array([1, -1], dtype=np.int8), [n_positive, self.negative.n_components])

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        for part in self._parts:
            part.apply(ops, X, out, first)
            first += part.n_components


class SphericalFeatures(FeatureMap):
    r"""Random features of zonal kernels, which may be indefinite: a difference of two positive semidefinite kernels.

    For w uniform on the sphere and zonal polynomials p_k, ``E[p_k(<w, x>) p_l(<w, y>)]`` is ``P_k(cos)`` if k = l, else
    0. A kernel ``sum_k b_k P_k(cos)`` is therefore

    .. math:: k(x, y) = \mathbb{E}\, \sigma_+(\langle w, x \rangle)\, \sigma_+(\langle w, y \rangle)
              - \mathbb{E}\, \sigma_-(\langle w, x \rangle)\, \sigma_-(\langle w, y \rangle), \qquad
              \sigma_\pm = \sum_{\pm b_k > 0} \pm\sqrt{|b_k|}\, p_k

    for unit rows x and y. Other rows are divided by their norms.

    Parameters
    ----------
    kernel : Zonal or None, default=None
        The kernel to estimate; None is ``Zonal()``, the hyperbolic tangent of the cosine.
    n_components : int, default=1024
        Output width m. If only one random feature is left for two parts, one part is chosen at random.
    exact_degrees : tuple of int, default=(0, 1)
        Subset of the degrees 0 and 1 to represent exactly, by a constant and by the unit row itself. A degree is exact
        only if it takes at most a quarter of the features.
    projection : str or Projection, default="auto"
        How directions are drawn: any rotation-invariant projection with equal weights.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : Zonal
        The exact kernel that ``Z @ diag(signature_) @ Z.T`` estimates.
    record_ : SphericalRecord
        The maps of both parts.
    signature_ : ndarray of int8, shape (n_components,), or None
        1 for features of the positive part, which come first, and -1 for features of the negative part; None if there
        are no features of the negative part.
    n_features_in_ : int

    Notes
    -----
    **Learners** ignore the signs: their kernel is ``Z @ Z.T``, the sum of both parts, which is positive semidefinite
    and spans the functions of both parts. Features of a quadrature rule with negative weights are treated alike.

    **Error.** Unbiased except for degrees above 256 (above 16 for more than 64 inputs) and for coefficients below the
    rounding error of their integrals; both matter only for nearly parallel rows. For each part, with activation s and
    kernel k_s, the product of two features has a variance of ``E[s(w.x)^2 s(w.y)^2] - k_s^2``. For rows uniform on the
    sphere the first term is ``k_s(1)^2`` on average. Widths proportional to ``k_s(1)`` minimise the total variance,
    which is then at most ``(k_+(1) + k_-(1))^2 / m``. It is large compared with k if the parts cancel.

    **Cost.** As for `ActivationFeatures` with m directions; `fit` integrates one polynomial per degree at 8,192 nodes.

    **Differs from the source in** the functions, the exact degrees and the widths. The source uses Fourier features of
    a signed spectral measure, with an estimated normalisation and imaginary features for the negative part. Zonal
    polynomials need no measure on the whole space. Widths are chosen by variance. Without exact degrees, with
    independent directions and for a positive definite kernel these are random Gegenbauer features (Han et al. 2022).

    References
    ----------
    Han, Zandieh, Avron (2022), *Random Gegenbauer features for scalable kernel methods*;
    Liu, Huang, Chen, Suykens (2021), *Fast learning in reproducing kernel Krein spaces via signed measures*, Section 4;
    Pennington, Yu, Kumar (2015), *Spherical random features for polynomial kernels*; Liu, Huang, Chen, Suykens (2021),
    *Random features for kernel approximation*, Section 2.2.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> phi = pm.SphericalFeatures(pm.kernels.Zonal("tanh", gamma=2.0), 4096, random_state=0).fit(X)
    >>> Z = phi.transform(X)
    >>> bool(np.abs((Z * phi.signature_) @ Z.T - phi.kernel_(X)).max() < 0.1)
    True
    """

    _roles = ("positive", "negative", "parts")

    def __init__(
        self,
        kernel: Zonal | None = None,
        n_components: int = 1024,
        *,
        exact_degrees: tuple[int, ...] = (0, 1),
        projection: str | Projection = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.exact_degrees = exact_degrees
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> SphericalRecord:
        kernel = Zonal() if self.kernel is None else self.kernel
        if not isinstance(kernel, Zonal):
            raise TypeError(f"`kernel` must be a Zonal kernel, got {kernel!r}. Use FourierFeatures or others for it.")
        if not set(self.exact_degrees) <= {0, 1}:
            raise ValueError(f"`exact_degrees` must be some of 0 and 1, got {self.exact_degrees!r}. Use (0, 1).")
        d = X.shape[1]
        b = np.trim_zeros(kernel.zonal_coefficients(d), "b")
        plans = {}
        for role, part in (("positive", np.maximum(b, 0.0)), ("negative", np.maximum(-b, 0.0))):
            powers = {
                degree: float(part[degree])
                for degree in sorted(set(self.exact_degrees))
                if degree < len(b) and part[degree] > 0 and _LARGE * n_monomials(d, degree) <= self.n_components
            }
            part[list(powers)] = 0.0
            plans[role] = powers, part
        widths = self._widths(d, plans, streams["parts"])
        self.kernel_ = kernel
        return SphericalRecord(
            **{
                role: ActivationPlan(d, widths[role], 0, self.projection, *plans[role]).draw(
                    {"activation": streams[role]}
                )
                if widths[role]
                else None
                for role in plans
            }
        )

    def _widths(
        self, d: int, plans: dict[str, tuple[dict[int, float], np.ndarray]], rng: np.random.Generator
    ) -> dict[str, int]:
        """Number of features of each part: its exact powers, and its share of the random features."""
        exact = {role: sum(n_monomials(d, degree) for degree in powers) for role, (powers, _) in plans.items()}
        sizes = {role: float(remainder.sum()) for role, (_, remainder) in plans.items()}
        left = self.n_components - sum(exact.values())
        sampled = [role for role in plans if sizes[role] > 0]
        share = sizes["positive"] / (sum(sizes.values()) or 1.0)
        if len(sampled) == 2 and left > 1:
            n_positive = min(max(round(left * share), 1), left - 1)
            extra = {"positive": n_positive, "negative": left - n_positive}
        elif len(sampled) == 2:
            # If only one random feature is left, its part is drawn at random and the feature is divided by the root of
            # the probability. This does not change the mean.
            only, chance = ("positive", share) if rng.random() < share else ("negative", 1 - share)
            plans[only] = plans[only][0], plans[only][1] / chance
            extra = {only: left}
        else:
            # At most one part needs random features. If none does, the unused features are zeros in the larger part.
            only = sampled[0] if sampled else max(exact, key=lambda role: exact[role])
            extra = {only: left}
        return {role: exact[role] + extra.get(role, 0) for role in plans}
