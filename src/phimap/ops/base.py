"""The vocabulary of array operations in which every feature map is written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from phimap.ops.activations import RECTIFIED

# An array of the backend: numpy.ndarray, scipy.sparse CSR (inputs only) or torch.Tensor.
Array = Any
#: Places of four ternary digits in a byte: see `Ops.ternary_product`.
TERNARY_PLACES = (1, 3, 9, 27)


class Ops(ABC):
    """A backend: one array library, one floating dtype, one device.

    A map's program calls these methods and plain indexing, nothing else, so that one definition serves every
    backend. Rows are samples. Methods with `out` write there (a C-contiguous block of rows, as wide as the map)
    from column `first` on, so that a wide map is built block by block while its projections are in cache.

    Attributes
    ----------
    dtype : numpy.dtype
        float32 or float64: of the inputs, of the results and of bound constants.
    """

    dtype: np.dtype
    # Rows a tile should have at least: enough work for one call of this backend.
    least_tile_rows: int
    # Bytes of scratch that a tile should stay within.
    tile_bytes: int
    # Functions of the activations that have a name and are no rectified powers.
    activations: Mapping[str, Callable[[Array], Array]]
    # Whether tiles are worth running on several host threads.
    threaded: bool

    @abstractmethod
    def constant(self, host: np.ndarray) -> Array:
        """`host` as an array of this backend; floats in its dtype, integers as they are."""

    @abstractmethod
    def to_host(self, X: Array) -> np.ndarray:
        """`X` as a NumPy array."""

    @abstractmethod
    def empty(self, shape: tuple[int, ...]) -> Array:
        """An uninitialised array."""

    @abstractmethod
    def dense(self, X: Array) -> Array:
        """`X` (r, d) as a dense array: itself, or CSR written out."""

    @abstractmethod
    def is_sparse(self, X: Array) -> bool:
        """Whether `X` is CSR."""

    def rows(self, X: Array, start: int, stop: int) -> Array:
        """Rows `start` to `stop` of `X`, dense or CSR, without a copy."""
        return X[start:stop]

    @abstractmethod
    def contiguous(self, X: Array) -> Array:
        """`X`, copied if its rows do not follow each other in memory."""

    @abstractmethod
    def is_finite(self, X: Array) -> bool:
        """Whether no entry of `X` is NaN or infinite."""

    @abstractmethod
    def copy(self, X: Array, out: Array, first: int = 0) -> None:
        """Write `X` (r, k), dense or CSR, into columns `first` to `first + k` of `out`."""

    @abstractmethod
    def zero(self, out: Array, first: int, last: int) -> None:
        """Set columns `first` to `last` of `out` to zero."""

    @abstractmethod
    def matmul(self, X: Array, W: Array) -> Array:
        """`X` (r, d), dense or CSR, times `W` (d, s): (r, s)."""

    @abstractmethod
    def matmul_rows(self, Z: Array, W: Array, n_jobs: int | None) -> Array:
        """`Z` (n, m) times a narrow `W` (m, t), on `n_jobs` threads where the backend does not thread by itself."""

    @abstractmethod
    def scale_columns(self, X: Array, factors: Array) -> Array:
        """`X` (r, d), dense or CSR, with column j times ``factors[j]``."""

    @abstractmethod
    def scale_rows(self, X: Array, factors: Array) -> Array:
        """`X` (r, d), dense or CSR, with row i times ``factors[i]``."""

    @abstractmethod
    def scale_rows_in_place(self, out: Array, factors: Array) -> None:
        """Multiply row i of `out` by ``factors[i]``."""

    @abstractmethod
    def row_norms(self, X: Array) -> Array:
        """Euclidean norms (r,) of the rows of `X`, dense or CSR, without overflow of the squares."""

    @abstractmethod
    def reciprocal(self, x: Array) -> Array:
        """``1 / x`` where x is not zero, 0 where it is."""

    @abstractmethod
    def exp(self, X: Array) -> Array:
        """Exponentials, entry by entry."""

    @abstractmethod
    def cos_sin(self, projected: Array, scale: Array, out: Array, first: int, half: int) -> None:
        """``scale * cos(projected)`` (r, k) to columns from `first`, ``scale * sin`` to those from ``first + half``."""

    @abstractmethod
    def cos_shift(self, projected: Array, shift: Array, scale: Array, out: Array, first: int) -> None:
        """``scale * cos(projected + shift)``; `shift` and `scale` have one entry a column."""

    @abstractmethod
    def rectify(self, projected: Array, order: int, scale: Array, out: Array, first: int) -> None:
        """``scale * (projected > 0) * projected**order`` for order 0, 1, 2; `scale` has one entry a column."""

    @abstractmethod
    def interpolate(self, projected: Array, table: Array, reach: float, scale: Array, out: Array, first: int) -> None:
        """``scale * f(projected)`` for f given by a table over ``[-reach, reach]``, linear between and constant beyond.

        `scale` has one entry a column.
        """

    def activate(
        self, projected: Array, activation: str | Callable[[Array], Array], scale: Array, out: Array, first: int
    ) -> None:
        """``scale * activation(projected)`` for a name of `phimap.ops.activations` or for a function of arrays.

        `scale` has one entry a column.
        """
        if isinstance(activation, str) and activation in RECTIFIED:
            self.rectify(projected, RECTIFIED[activation], scale, out, first)
            return
        function = self.activations[activation] if isinstance(activation, str) else activation
        # An overflow is found in the features, and reported there.
        with np.errstate(over="ignore", invalid="ignore"):
            values = function(projected)
            if getattr(values, "shape", None) != projected.shape:
                raise ValueError(
                    "`activation` must give one real number for each it gets, got shape "
                    f"{tuple(np.shape(values))} for shape {tuple(projected.shape)}. Write it with array operations."
                )
            out[:, first : first + projected.shape[1]] = values * scale

    @abstractmethod
    def fwht(self, X: Array) -> Array:
        """Unnormalised Walsh-Hadamard transform of the rows; the width is a power of two. May overwrite `X`."""

    @abstractmethod
    def pad_signed(self, X: Array, signs: Array) -> Array:
        """A new array (r, p) holding `X` (r, d) times ``signs[:d]``, zero beyond d; `signs` is int8 (p,)."""

    @abstractmethod
    def hadamard_blocks(self, X: Array, signs: Array, scale: Array) -> Array:
        """Chains of signs and Walsh-Hadamard transforms.

        `X` (r, d) dense, `signs` int8 (B, t, p), `scale` (s,) with s <= B p. Block b maps x, padded to p, by
        ``H D_{b,0} ... H D_{b,t-1}`` (H unnormalised, the last factor first); the first s of the B p results are
        scaled and returned as (r, s).
        """

    @abstractmethod
    def fastfood_blocks(self, X: Array, signs: Array, permutations: Array, gains: Array, scale: Array) -> Array:
        """Pairs of Walsh-Hadamard transforms.

        `X` (r, d) dense, `signs` int8, `permutations` intp and `gains` (B, p), `scale` (s,) with s <= B p. Block b
        maps x, padded to p, by ``H diag(gains[b]) P_b H diag(signs[b])``, H unnormalised and ``(P_b y)[j] =
        y[permutations[b, j]]``; the first s of the B p results are scaled and returned as (r, s).
        """

    @abstractmethod
    def fourier_blocks(
        self, X: Array, factors: Array, phases: Array, frequencies: Array, n_points: int, scale: Array
    ) -> Array:
        """Pairs of complex Fourier transforms.

        `X` (r, d) dense times `factors` (d,), padded to 2 h, holds h complex numbers a row, real and imaginary parts
        in turn, and so do `phases` (B, 2, h, 2); `frequencies` intp (B, h) lie below n = `n_points`, `scale` is (s,)
        with s <= 2 B n; h and n are products of 2, 3 and 5. Block b maps z to ``F_n^* P_b diag(phases[b, 0]) F_h
        diag(phases[b, 1]) z``, F unnormalised, where P_b adds entry l to zeros at ``frequencies[b, l]``; the first s
        of the real and imaginary parts, in turn, are scaled and returned as (r, s).
        """

    @abstractmethod
    def signed_sums(self, X: Array, indices: Array, bounds: Array) -> Array:
        """Add and subtract columns of `X` (r, d) dense: (r, s).

        Result c is the sum of the columns ``indices[bounds[2 c]:bounds[2 c + 1]]`` less that of those from there to
        ``bounds[2 c + 2]``; `indices` is int32 (nnz,), `bounds` intp (2 s + 1,).
        """

    @abstractmethod
    def ternary_product(self, X: Array, codes: Array) -> Array:
        """Multiply `X` (r, d) dense with the transpose of a matrix of ones, minus ones and zeros: (r, s).

        Entry ``[c, p]`` of `codes`, uint8 (s, 2 k), has the entries of row c from column 4 p on as digits of base 3,
        the lowest first: 1 is 1, 2 is -1. Columns from d on are 0.
        """

    @abstractmethod
    def countsketch(self, X: Array, buckets: Array, signs: Array, width: int, out: Array, first: int = 0) -> None:
        """Add coordinates into `width` buckets: column ``buckets[j, l]`` gets ``signs[j, l] X[:, j]`` for all j and l.

        `X` is dense or CSR, `buckets` (d, k) and `signs` (d, k).
        """

    @abstractmethod
    def gather_product(
        self, A: Array, columns_a: Array, B: Array, columns_b: Array, scale: float, out: Array, first: int = 0
    ) -> None:
        """``scale * A[:, columns_a] * B[:, columns_b]``; of A and B one may have a single row, which serves all."""

    @abstractmethod
    def outer(self, A: Array, B: Array, out: Array, first: int = 0) -> None:
        """Products of every column of `A` (r, k) with every column of `B` (r, l): k l columns, those of B fastest."""

    @abstractmethod
    def convolution_spectra(self, X: Array, factors: Array, length: int) -> Array:
        """Spectra for `convolutions` of the rows of `X` (r, d) times `factors` (d,), padded with zeros to `length`.

        `X` is dense, `length` an even product of 2, 3 and 5. The result is the backend's own.
        """

    @abstractmethod
    def convolutions(self, spectra: Array, rows: int, generators: Array, offset: int, scale: Array) -> Array:
        """Cyclic convolutions of rows with generators (B, length), side by side and scaled: (`rows`, s).

        `spectra` is what `convolution_spectra` made of as many rows; of each convolution the entries from `offset` on
        are used, `scale` is (s,) with s <= B (length - offset).
        """

    @abstractmethod
    def rfft(self, X: Array) -> Array:
        """Fourier transform of real rows (r, n): complex (r, n // 2 + 1)."""

    @abstractmethod
    def irfft(self, X: Array, width: int) -> Array:
        """Inverse of `rfft` for rows of length `width`."""

    @abstractmethod
    def product_factor(self, X: Array, signs: Array) -> Array:
        """Fourier transforms of the rows of `X` (r, d), dense or CSR, times ``signs[:d]``, padded to the signs' length.

        `signs` is int8 (L,), L a product of 2, 3 and 5. The result is the backend's own, of shape (r, L // 2 + 1):
        what `fourier_product` and `next_product_factor` multiply.
        """

    @abstractmethod
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
        """Products of entries of Fourier transforms from `product_factor`, as real numbers.

        ``scale * A[:, columns_a] * B[:, columns_b]`` (r, k), where entries of A and B are conjugated first if their
        orientation, int8 (k,), is -1 and not if it is 1; written to 2 k columns: the real and imaginary part of
        the first product, then of the second. Of A and B one may have a single row, which serves all.
        """

    @abstractmethod
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
        """The `product_factor` of what `fourier_product` writes, which need not be written."""

    @abstractmethod
    def signed_spectra(self, X: Array, signs: Array) -> Array:
        """Fourier transforms of `X` (r, d) dense under several sign patterns: complex (r, J, L // 2 + 1).

        `signs` is int8 (J, L): pattern j transforms x times ``signs[j, :d]``, padded with zeros to L.
        """

    @abstractmethod
    def fourier_chain(
        self, spectra: Array, rows: Array, orientations: Array, scale: float, out: Array, first: int
    ) -> None:
        """Write products of entries of the first j spectra of each row, as real numbers.

        ``scale * prod_l spectra[:, l, rows[l]]`` (r, k) for `spectra` complex (r, J, p), `rows` intp and
        `orientations` int8 (j, k), which is -1 where the entry is conjugated first: the real parts to columns `first`
        to ``first + k``, the imaginary parts to the next k.
        """

    @abstractmethod
    def kernel_matrix(self, kernel: Callable[..., np.ndarray], X: Array, landmarks: Array) -> Array:
        """Exact kernel values (r, l) between the rows of `X`, dense or CSR, and `landmarks` (l, d)."""

    @abstractmethod
    def floating(self, X: Array) -> Array:
        """Dense `X` in the dtype of the backend; bytes become numbers."""

    @abstractmethod
    def reversed(self, X: Array) -> Array:
        """`X` with its first axis from last to first."""

    @abstractmethod
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
        """Direct sums of features over q x q windows, with zeros outside: (r, q^2 exact + folded).

        `F` (n h w, d) holds the features of the pixels of n images of `shape` (h, w), `part` names r pixels. The first
        `exact` features of a window's pixels stand side by side; feature j of the rest of the s-th pixel is added to
        column ``j mod folded`` behind them, times ``signs[s, j]``, (q^2, d - exact).
        """

    @abstractmethod
    def pixel_pairs(
        self, X: Array, Y: Array, inverse_x: Array, inverse_y: Array, filter_size: int, flat: bool, pairs: np.ndarray
    ) -> np.ndarray:
        """Sums over pixel pairs of the convolutional tangent kernel, float64 (r,) on the host.

        `X` (n, c, h, w) and `Y` (m, c, h, w) are images, `pairs` intp (r, 2) names one of each. `inverse_x` (n, L, h,
        w) and `inverse_y` hold the reciprocal roots of N_1, ..., N_L, 0 where N is 0. Only pairs of equal pixels count
        where `flat`.
        """

    @abstractmethod
    def cross_products(self, Z: Array, Y: Array) -> np.ndarray:
        """``Z^T Y`` (m, t) on the host in float64, formed in the dtype of `Z` where it lives."""

    @abstractmethod
    def column_sums(self, Z: Array) -> np.ndarray:
        """Sums (m,) of the columns of `Z` on the host, summed in float64."""
