"""Conversion of a kernel to a power series in the inner products of prepared rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.features.power_series.row_sample import RowSample
from phimap.kernels import DotProductKernel, Exponential, Gaussian, Kernel, Polynomial, RotationInvariantKernel, Taylor
from phimap.kernels.expansion import checked_coefficients
from phimap.kernels.geometry import squared_norms

# An infinite series is cut off where its remainder is below this share of the largest ``k(x, x)``, or at this degree.
_TRUNCATION, _MOST_DEGREE = 1e-3, 32


@dataclass(frozen=True)
class SeriesPreparation:
    """A kernel, and a preparation of rows after which the kernel is a power series in their inner products.

    Attributes
    ----------
    kernel : Kernel
        The kernel that is expanded.
    weight, shift, scale : see SeriesRecord
    """

    kernel: Kernel
    weight: str
    shift: np.ndarray | None
    scale: np.ndarray | None

    @classmethod
    def of(cls, kernel: Kernel, n_features: int, sample: RowSample | None) -> SeriesPreparation:
        """The preparation for a kernel; `sample` is None if the map must not depend on the data."""
        if isinstance(kernel, Gaussian):
            shift = None if sample is None or sample.is_sparse else sample.rows.mean(axis=0)
            return cls(kernel, "gaussian", shift, np.ones(n_features) * kernel._inverse_length_scale(n_features))
        if isinstance(kernel, RotationInvariantKernel) and kernel.homogeneity == 1:
            return cls(kernel, "norm", None, None)
        if isinstance(kernel, RotationInvariantKernel) and not kernel.is_homogeneous and kernel.norm_power is not None:
            return cls(kernel, "norm" if kernel.norm_power else "unit", None, None)
        if isinstance(kernel, DotProductKernel):
            return cls(kernel, "norm" if kernel.homogeneous else "one", None, None)
        raise TypeError(
            "`kernel` must be a dot-product kernel, Gaussian, homogeneous of degree 1 in each row, or the dual of "
            "activations that do not jump, got "
            f"{kernel!r}. Use FourierFeatures or NystroemFeatures for others."
        )

    def rows(self, sample: RowSample) -> Any:
        """The prepared rows (r, d) of a sample; CSR if the sample is."""
        if self.weight in ("norm", "unit"):
            return sample.unit_rows
        rows = sample.rows
        if self.shift is not None:
            rows = rows - self.shift
        if self.scale is not None:
            rows = rows.multiply(self.scale).tocsr() if sample.is_sparse else rows * self.scale
        return rows

    def coefficients(self, degree: int | None, rows: Any, n_features: int) -> np.ndarray:
        """Coefficients (J + 1,) of the series up to `degree`; None chooses a sufficient degree for prepared `rows`."""
        kernel = Exponential() if isinstance(self.kernel, Gaussian) else self.kernel
        assert isinstance(kernel, DotProductKernel)  # other kernels are fitted instead
        if degree is not None:
            return checked_coefficients(kernel, degree, n_features)
        if isinstance(kernel, Polynomial):
            return checked_coefficients(kernel, kernel.degree, n_features)
        if isinstance(kernel, Taylor):
            return checked_coefficients(kernel, np.size(kernel.coefficients) - 1, n_features)
        # Twice as many degrees are computed, to estimate the remainder beyond the last degree.
        coefficients = checked_coefficients(kernel, 2 * _MOST_DEGREE, n_features)
        radius = 1.0 if rows is None else float(squared_norms(rows).max())
        with np.errstate(divide="ignore"):
            logarithms = np.log(coefficients) + np.arange(len(coefficients)) * np.log(radius or 1.0)
        sizes = np.exp(logarithms - logarithms.max())
        remainders = 1 - np.cumsum(sizes) / sizes.sum()
        last = int(np.argmax(remainders <= _TRUNCATION))
        if last > _MOST_DEGREE:
            warnings.warn(
                f"the power series of {self.kernel!r} leaves {remainders[_MOST_DEGREE]:.0%} of the largest row's "
                f"kernel with itself beyond degree {_MOST_DEGREE}. Raise its length scale, or use FourierFeatures.",
                stacklevel=5,
            )
        return coefficients[: min(last, _MOST_DEGREE) + 1]
