"""Complex-to-real sketches of tensor powers: products of entries of independent randomised Fourier transforms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from phimap.ops import Array, Ops
from phimap.ops.primitives.fourier_chain import fourier_chain, signed_transforms
from phimap.random_map import MapRecord
from phimap.records import of_indices, of_number, of_signs
from phimap.sketches.signs import fair_signs
from phimap.sketches.transform_rows import balanced_rows, fast_fourier_width, lower_half


@dataclass(frozen=True)
class ComplexToRealRecord(MapRecord):
    """Products of entries of independent randomised Fourier transforms, with j factors for a power of degree j.

    Attributes
    ----------
    n_features : int
    signs : ndarray of int8, shape (largest degree, L)
        Signs that multiply a row before the transform of each factor; all degrees share them. L is the length of a
        transform: `n_features`, rounded up to a product of powers of 2, 3 and 5.
    rows : tuple of ndarrays of intp, shapes (j, ceil(width / 2))
        Sampled frequencies, mapped to at most L / 2: for each degree j, one row per factor.
    orientations : tuple of ndarrays of int8, shapes as of `rows`
        -1 if the sampled frequency was in the upper half, so that the entry is conjugated; else 1.
    widths : tuple of int
        Number of features of each degree.
    last_signs : tuple of int
        For odd widths, the sign with which the imaginary part of the last sample is added to its real part.
    """

    n_features: int = field(metadata=of_number(length="d"))
    signs: np.ndarray = field(metadata=of_signs("j", "L"))
    rows: tuple[np.ndarray, ...] = field(metadata=of_indices(None, None))
    orientations: tuple[np.ndarray, ...] = field(metadata=of_signs(None, None))
    widths: tuple[int, ...] = field(metadata=of_number(least=1))
    last_signs: tuple[int, ...] = field(metadata=of_number(least=-1, most=1))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        most, length = self.signs.shape
        yield length >= self.n_features, "transforms that hold a row"
        yield length == fast_fourier_width(length), "transforms of a product of 2, 3 and 5"
        counts = {len(part) for part in (self.rows, self.orientations, self.widths, self.last_signs)}
        yield len(counts) == 1 and len(self.widths) > 0, "rows, orientations, widths and signs for each degree"
        for rows, orientations, width in zip(self.rows, self.orientations, self.widths, strict=True):
            yield rows.shape == orientations.shape, "an orientation for each row"
            yield rows.shape[0] <= most and rows.shape[1] == -(-width // 2), "a transform for each factor"
            yield int(rows.max()) <= length // 2, "rows of its transforms"

    @property
    def n_components(self) -> int:
        return sum(self.widths)

    @property
    def scratch_width(self) -> int:
        return self.n_features + 2 * self.signs.shape[0] * self.signs.shape[1] + 2 * max(self.widths)

    @classmethod
    def draw(
        cls, n_features: int, degrees: Sequence[int], widths: Sequence[int], rng: np.random.Generator
    ) -> ComplexToRealRecord:
        length = fast_fourier_width(n_features)
        sign_rng, row_rng, last_rng = rng.spawn(3)
        signs = fair_signs(sign_rng, (max(degrees), length))
        rows, orientations = [], []
        for degree, width in zip(degrees, widths, strict=True):
            # Each factor uses all frequencies once before it repeats one. By Parseval's theorem, this removes the part
            # of the error that depends on the frequency of a single factor.
            frequencies = np.stack([balanced_rows(row_rng, length, -(-width // 2)) for _ in range(degree)])
            lower, orientation = lower_half(frequencies, length)
            rows.append(lower)
            orientations.append(orientation)
        last = fair_signs(last_rng, (len(widths),))
        return cls(
            n_features,
            signs,
            tuple(rows),
            tuple(orientations),
            tuple(int(width) for width in widths),
            tuple(int(sign) for sign in last),
        )

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        transforms = signed_transforms(ops, ops.dense(X), self.signs)
        for rows, orientations, width, last in zip(
            self.rows, self.orientations, self.widths, self.last_signs, strict=True
        ):
            scale = (2 / width) ** 0.5
            if width % 2 == 0:
                fourier_chain(ops, transforms, rows, orientations, scale, out, first)
            else:
                features = ops.empty((X.shape[0], width + 1))
                fourier_chain(ops, transforms, rows, orientations, scale, features, 0)
                # The last feature combines the real and imaginary parts of the last sample. The factor 0.5^(1/2) gives
                # it the same weight as any other feature.
                middle = width // 2
                features[:, middle] = 0.5**0.5 * (features[:, middle] + last * features[:, width])
                ops.copy(features[:, :width], out, first)
            first += width
