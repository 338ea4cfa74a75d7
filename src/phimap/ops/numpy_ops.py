"""NumPy, SciPy sparse and numba: the CPU backend."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from phimap.ops.activations import FUNCTIONS
from phimap.ops.base import Array, Ops
from phimap.ops.threads import run_tasks


class NumpyOps(Ops):
    """The vocabulary on NumPy arrays and CSR inputs, one thread a tile.

    The compiled kernels are imported where they are used, so that importing phimap compiles and loads nothing.
    """

    activations = FUNCTIONS
    least_tile_rows = 256
    # Half of a large L2 cache and its neighbour's share of L3: projections, not outputs, live in a tile's scratch.
    tile_bytes = 4 * 2**20
    threaded = True

    def __init__(self, dtype: np.dtype):
        self.dtype = np.dtype(dtype)

    def constant(self, host: np.ndarray) -> Array:
        if host.dtype.kind == "f":
            return np.ascontiguousarray(host, dtype=self.dtype)
        return host

    def to_host(self, X: Array) -> np.ndarray:
        return X

    def empty(self, shape: tuple[int, ...]) -> Array:
        return np.empty(shape, self.dtype)

    def dense(self, X: Array) -> Array:
        return X.toarray() if sparse.issparse(X) else X

    def is_sparse(self, X: Array) -> bool:
        return sparse.issparse(X)

    def rows(self, X: Array, start: int, stop: int) -> Array:
        if not sparse.issparse(X):
            return X[start:stop]
        # Slicing would copy the entries.
        bounds = X.indptr[start : stop + 1]
        entries = slice(bounds[0], bounds[-1])
        return type(X)((X.data[entries], X.indices[entries], bounds - bounds[0]), shape=(len(bounds) - 1, X.shape[1]))

    def contiguous(self, X: Array) -> Array:
        return np.ascontiguousarray(X)

    def is_finite(self, X: Array) -> bool:
        # A finite sum clears all entries at once; a sum that overflows says nothing.
        with np.errstate(over="ignore", invalid="ignore"):
            return bool(np.isfinite(X.sum()) or np.isfinite(X).all())

    def copy(self, X: Array, out: Array, first: int = 0) -> None:
        out[:, first : first + X.shape[1]] = self.dense(X)

    def zero(self, out: Array, first: int, last: int) -> None:
        out[:, first:last] = 0

    def matmul(self, X: Array, W: Array) -> Array:
        # An overflow is found in what becomes of the product, and reported there.
        with np.errstate(over="ignore", invalid="ignore"):
            return X @ W

    def matmul_rows(self, Z: Array, W: Array, n_jobs: int | None) -> Array:
        out = np.empty((Z.shape[0], W.shape[1]), self.dtype)

        def multiply(start: int) -> None:
            rows = slice(start, start + self.least_tile_rows)
            np.matmul(Z[rows], W, out=out[rows])

        run_tasks(multiply, range(0, Z.shape[0], self.least_tile_rows), n_jobs)
        return out

    def scale_columns(self, X: Array, factors: Array) -> Array:
        return X.multiply(factors[None, :]).tocsr() if sparse.issparse(X) else X * factors

    def scale_rows(self, X: Array, factors: Array) -> Array:
        return X.multiply(factors[:, None]).tocsr() if sparse.issparse(X) else X * factors[:, None]

    def scale_rows_in_place(self, out: Array, factors: Array) -> None:
        out *= factors[:, None]

    def row_norms(self, X: Array) -> Array:
        # The largest entry is divided out first: squares of float32 overflow from 1.8e19 on and vanish below 1e-19.
        if sparse.issparse(X):
            peak = np.asarray(abs(X).max(axis=1).todense()).ravel()
            scaled = self.scale_rows(X, self.reciprocal(peak))
            return peak * np.sqrt(np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel())
        peak = np.maximum(X.max(axis=1), -X.min(axis=1))
        scaled = X * self.reciprocal(peak)[:, None]
        return peak * np.sqrt(np.einsum("ij,ij->i", scaled, scaled))

    def reciprocal(self, x: Array) -> Array:
        return np.divide(1, x, out=np.zeros_like(x), where=x != 0)

    def exp(self, X: Array) -> Array:
        return np.exp(X)

    def cos_sin(self, projected: Array, scale: Array, out: Array, first: int, half: int) -> None:
        from phimap.ops.compiled import trigonometry

        peak = trigonometry.cos_sin(projected, scale, out, first, half)
        if not peak <= trigonometry.limit(self.dtype):
            _check_peak(peak)
            columns = np.arange(first, first + projected.shape[1])
            out[:, columns] = scale * np.cos(projected)
            out[:, half + columns] = scale * np.sin(projected)

    def cos_shift(self, projected: Array, shift: Array, scale: Array, out: Array, first: int) -> None:
        from phimap.ops.compiled import trigonometry

        peak = trigonometry.cos_shift(projected, shift, scale, out, first)
        if not peak <= trigonometry.limit(self.dtype):
            _check_peak(peak)
            out[:, first : first + projected.shape[1]] = scale * np.cos(projected + shift)

    def rectify(self, projected: Array, order: int, scale: Array, out: Array, first: int) -> None:
        from phimap.ops.compiled.activation import rectify

        rectify(projected, order, scale, out, first)

    def interpolate(self, projected: Array, table: Array, reach: float, scale: Array, out: Array, first: int) -> None:
        from phimap.ops.compiled.activation import interpolate

        interpolate(projected, table, self.dtype.type(reach), scale, out, first)

    def fwht(self, X: Array) -> Array:
        from phimap.ops.compiled.hadamard import fwht

        fwht(X)
        return X

    def pad_signed(self, X: Array, signs: Array) -> Array:
        dense = self.dense(X)
        padded = np.zeros((dense.shape[0], signs.shape[0]), self.dtype)
        np.multiply(dense, signs[: dense.shape[1]], out=padded[:, : dense.shape[1]])
        return padded

    def hadamard_blocks(self, X: Array, signs: Array, scale: Array) -> Array:
        from phimap.ops.compiled.hadamard import hadamard_blocks

        out = self.empty((X.shape[0], scale.shape[0]))
        hadamard_blocks(X, signs, scale, out)
        return out

    def fastfood_blocks(self, X: Array, signs: Array, permutations: Array, gains: Array, scale: Array) -> Array:
        from phimap.ops.compiled.fastfood import fastfood_blocks

        # The compiled loop reads where it is told to; a damaged model file may name any place.
        if permutations.min() < 0 or permutations.max() >= permutations.shape[1]:
            raise ValueError("`permutations` must hold columns of the padded rows. Fit the map again.")
        out = self.empty((X.shape[0], scale.shape[0]))
        fastfood_blocks(X, signs, permutations, gains, scale, out)
        return out

    def fourier_blocks(
        self, X: Array, factors: Array, phases: Array, frequencies: Array, n_points: int, scale: Array
    ) -> Array:
        from phimap.ops.compiled.fourier_points import fourier_points

        out = self.empty((X.shape[0], scale.shape[0]))
        fourier_points(self.contiguous(X), factors, phases, frequencies, n_points, scale, out)
        return out

    def signed_sums(self, X: Array, indices: Array, bounds: Array) -> Array:
        from phimap.ops.compiled.signed_sums import signed_sums

        # The compiled loop reads where it is told to; a damaged model file may name any place.
        inside = not indices.size or (indices.min() >= 0 and indices.max() < X.shape[1])
        if not inside or bounds[0] != 0 or bounds[-1] != indices.size or (np.diff(bounds) < 0).any():
            raise ValueError("`indices` and `bounds` must hold columns of `X`, piece by piece. Fit the map again.")
        out = self.empty((X.shape[0], bounds.shape[0] // 2))
        signed_sums(X, indices, bounds, out)
        return out

    def ternary_product(self, X: Array, codes: Array) -> Array:
        from phimap.ops.compiled.signed_sums import CODED, N_CODES, ternary_products

        # The compiled loop reads where it is told to; a damaged model file may name any place.
        if codes.shape[1] % 2 or X.shape[1] > CODED * codes.shape[1] or (codes.size and codes.max() >= N_CODES):
            raise ValueError(f"`codes` must be below {N_CODES}, two for every eight columns of `X`. Fit the map again.")
        out = self.empty((X.shape[0], codes.shape[0]))
        ternary_products(X, codes, out)
        return out

    def countsketch(self, X: Array, buckets: Array, signs: Array, width: int, out: Array, first: int = 0) -> None:
        from phimap.ops.compiled.countsketch import countsketch_csr, countsketch_dense

        # The compiled loop writes where it is told to; a damaged model file may name any place.
        inside = buckets.shape == signs.shape and buckets.shape[0] == X.shape[1]
        columns = out[:, first : first + width]
        if inside and sparse.issparse(X):
            # It looks for itself: entries may be few, and buckets a million.
            inside = countsketch_csr(X.data, X.indices, X.indptr, buckets, signs, columns)
        elif inside:
            inside = buckets.min() >= 0 and buckets.max() < width
            if inside:
                countsketch_dense(X, buckets, signs, columns)
        if not inside:
            raise ValueError("`buckets` must hold columns of the sketch, for each of `X`. Fit the map again.")

    def gather_product(
        self, A: Array, columns_a: Array, B: Array, columns_b: Array, scale: float, out: Array, first: int = 0
    ) -> None:
        from phimap.ops.compiled.countsketch import gather_product

        gather_product(A, columns_a, B, columns_b, self.dtype.type(scale), out, first)

    def outer(self, A: Array, B: Array, out: Array, first: int = 0) -> None:
        A, B = self.dense(A), self.dense(B)
        columns = out[:, first : first + A.shape[1] * B.shape[1]]
        # Splitting the last axis gives a view, so that this writes into `out`.
        np.multiply(A[:, :, None], B[:, None, :], out=columns.reshape(A.shape[0], A.shape[1], B.shape[1]))

    def convolution_spectra(self, X: Array, factors: Array, length: int) -> Array:
        from phimap.ops.compiled.convolution import lane_spectra

        return lane_spectra(np.ascontiguousarray(X), factors, length)

    def convolutions(self, spectra: Array, rows: int, generators: Array, offset: int, scale: Array) -> Array:
        from phimap.ops.compiled.convolution import convolutions

        out = self.empty((rows, scale.shape[0]))
        convolutions(spectra, generators, offset, scale, out)
        return out

    def rfft(self, X: Array) -> Array:
        from scipy import fft

        return fft.rfft(X, axis=1)

    def irfft(self, X: Array, width: int) -> Array:
        from scipy import fft

        return fft.irfft(X, n=width, axis=1)

    def product_factor(self, X: Array, signs: Array) -> Array:
        from phimap.ops.compiled.spectral_products import spectra

        return spectra(X, signs)

    def fourier_product(
        self,
        A: Array,
        columns_a: Array,
        orientations_a: Array,
        B: Array,
        columns_b: Array,
        orientations_b: Array,
        scale: float,
        out: Array,
        first: int = 0,
    ) -> None:
        from phimap.ops.compiled.spectral_products import write_product

        write_product(A, columns_a, orientations_a, B, columns_b, orientations_b, scale, out, first)

    def next_product_factor(
        self,
        A: Array,
        columns_a: Array,
        orientations_a: Array,
        B: Array,
        columns_b: Array,
        orientations_b: Array,
        scale: float,
        signs: Array,
    ) -> Array:
        from phimap.ops.compiled.spectral_products import product_spectra

        return product_spectra(A, columns_a, orientations_a, B, columns_b, orientations_b, scale, signs)

    def signed_spectra(self, X: Array, signs: Array) -> Array:
        from scipy import fft

        padded = np.zeros((X.shape[0], *signs.shape), self.dtype)
        np.multiply(X[:, None, :], signs[:, : X.shape[1]], out=padded[:, :, : X.shape[1]])
        # An overflow is found in the features, and reported there.
        with np.errstate(over="ignore", invalid="ignore"):
            return fft.rfft(padded, axis=2)

    def fourier_chain(
        self, spectra: Array, rows: Array, orientations: Array, scale: float, out: Array, first: int
    ) -> None:
        from phimap.ops.compiled.fourier_chain import fourier_chain

        # The compiled loop reads and writes where it is told to; a damaged model file may name any place.
        inside = rows.min(initial=0) >= 0 and rows.max(initial=0) < spectra.shape[2]
        if not inside or rows.shape[0] > spectra.shape[1] or rows.shape != orientations.shape:
            raise ValueError("`rows` must hold frequencies of the spectra. Fit the map again.")
        if first + 2 * rows.shape[1] > out.shape[1]:
            raise ValueError("`out` must have a column for each part of a product. Fit the map again.")
        fourier_chain(spectra, rows, orientations, self.dtype.type(scale), out, first)

    def kernel_matrix(self, kernel: Callable[..., np.ndarray], X: Array, landmarks: Array) -> Array:
        return kernel(X, landmarks)

    def floating(self, X: Array) -> Array:
        return X.astype(self.dtype, copy=False)

    def reversed(self, X: Array) -> Array:
        return X[::-1]

    def windows(
        self,
        F: Array,
        shape: tuple[int, int],
        part: slice,
        filter_size: int,
        exact: int,
        signs: Array,
        folded: int,
    ) -> Array:
        from phimap.ops.compiled.windows import windows

        # The compiled loop reads where it is told to; a damaged model file may name any place.
        n_rest = F.shape[1] - exact
        if exact < 0 or signs.shape != (filter_size**2, n_rest) or (n_rest and folded < 1):
            raise ValueError("`signs` must have one entry for each folded feature and pixel of a window. Fit again.")
        first, last, _ = part.indices(F.shape[0])
        out = self.empty((last - first, filter_size**2 * exact + folded))
        windows(F, *shape, first, filter_size, exact, signs, folded, out)
        return out

    def pixel_pairs(
        self, X: Array, Y: Array, inverse_x: Array, inverse_y: Array, filter_size: int, flat: bool, pairs: np.ndarray
    ) -> np.ndarray:
        from phimap.ops.compiled.pixel_pairs import pixel_pairs

        out = np.empty(pairs.shape[0])
        pixel_pairs(X, Y, inverse_x, inverse_y, filter_size, flat, pairs, out)
        return out

    def cross_products(self, Z: Array, Y: Array) -> np.ndarray:
        return (Z.T @ Y).astype(np.float64, copy=False)

    def column_sums(self, Z: Array) -> np.ndarray:
        return Z.sum(axis=0, dtype=np.float64)


def _check_peak(peak: float) -> None:
    if not np.isfinite(peak):
        raise ValueError(
            "`X` is too large for this length scale: a projection overflowed. "
            "Standardise the columns of X, or raise `length_scale`."
        )
