"""Arrays of numbers of a few bits each, stored as bit planes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from phimap._files import DataError, one_line, write_whole
from phimap.ops import host, run_tasks
from phimap.ops.primitives.bit_planes import count_ones, transpose_bits, unpack
from phimap.ops.primitives.bit_products import PRODUCT_ROWS, coded, write_products
from phimap.records import of_entries, of_number

_FORMAT = "phimap-packed-1"
# Number of rows, and number of columns, that are unpacked at a time: 1 MB in float32, about the size of an L2 cache.
_ROWS, _COLUMNS = 128, 2048
# Number of rows, and number of columns, of a tile of the Gram matrix, if rows are unpacked to compute it.
_GRAM_ROWS = 512
# Number of rows of the second factor that a task multiplies with `PRODUCT_ROWS` rows of the first factor. The task
# makes a lookup table for the rows of the first factor, and uses it for all these products.
_PARTNERS = 2048
#: Weights of the two planes of an array of signs and zeros: plane 0 marks nonzero entries, plane 1 negative ones.
SIGNS = (1.0, -2.0)


@dataclass(frozen=True, eq=False)
class PackedArray:
    """A matrix of numbers of a few bits, 64 columns to a word: ``scale * (offset + sum_q weights[q] * bit_q)``.

    `TernaryFeatures` and `QuantizedFeatures` return this type with ``packed=True``. It replaces the dense matrix in
    products and in training; only one tile at a time is unpacked.

    Attributes
    ----------
    planes : ndarray of uint64, shape (n_planes, n, ceil(m / 64))
        Bit planes: plane q holds ``bit_q`` of every entry. Bits beyond the last column are 0.
    weights : tuple of float
        One for each plane: (1,) for bits; (1, -2) for signs and zeros, where a bit of the second plane is set only if
        the same bit of the first plane is set; (1, 2, 4, ...) for integer codes.
    offset, scale : float
        Constants of the formula above.
    n_columns : int
        Number m of columns.
    dtype : numpy.dtype
        float32 or float64, for the dense array and for products.

    Notes
    -----
    **Error.** Inner products are exact integer counts, rounded only when multiplied by the scale. **Cost.** n m / 8
    bytes per plane. For one plane, or for signs and zeros, `gram` uses lookup tables for groups of 96 rows of the first
    factor. One lookup takes 8 columns (bits) or 4 columns (signs and zeros) of a row of the second factor, and gives
    the inner products over these columns with all 96 rows. For the lookups, `gram` makes a copy of the second factor in
    another format, which takes about as much memory as the planes. For other arrays `gram` unpacks tiles.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((50, 40))
    >>> Z = pm.TernaryFeatures(n_components=256, packed=True, random_state=0).fit_transform(X)
    >>> Z.shape, Z.nbytes
    ((50, 256), 3200)
    >>> dense = Z.to_dense()
    >>> bool(np.allclose(Z.gram(), dense @ dense.T)), bool(np.allclose(Z @ np.ones(256), dense.sum(axis=1)))
    (True, True)
    """

    planes: np.ndarray = field(metadata=of_entries("word", "q", "?n", "w"))
    weights: tuple[float, ...]
    offset: float
    scale: float
    n_columns: int = field(metadata=of_number(least=1))
    dtype: np.dtype

    def requirements(self) -> Iterator[tuple[bool, str]]:
        """Conditions that an array read from a file must satisfy, see `Record.requirements`."""
        n_planes, _, n_words = self.planes.shape
        yield len(self.weights) == n_planes, "a weight for each plane"
        yield n_words == -(-self.n_columns // 64), "words for all columns"
        unused = -self.n_columns % 64
        yield (
            not (self.planes[:, :, -1] >> np.uint64(63 - unused) >> np.uint64(1)).any() or not unused,
            "unused bits of 0",
        )
        yield self.dtype in (np.float32, np.float64), "a dtype of 32 or 64 bits"

    @classmethod
    def zeros(
        cls, n_rows: int, n_columns: int, weights: tuple[float, ...], offset: float, scale: float, dtype: Any
    ) -> PackedArray:
        """Return an array with all bits 0, for the caller to fill."""
        planes = np.zeros((len(weights), n_rows, -(-n_columns // 64)), np.uint64)
        return cls(planes, weights, float(offset), float(scale), n_columns, np.dtype(dtype))

    @property
    def shape(self) -> tuple[int, int]:
        return self.planes.shape[1], self.n_columns

    @property
    def nbytes(self) -> int:
        return self.planes.nbytes

    def __len__(self) -> int:
        return self.planes.shape[1]

    def __getitem__(self, rows: Any) -> PackedArray:
        """Rows selected by a slice, indices or a mask: (n', m). A slice is a view of the same memory."""
        if isinstance(rows, int | np.integer):
            rows = [rows]
        elif isinstance(rows, tuple):
            raise IndexError("a packed array is indexed by rows alone. Take columns of `to_dense()`.")
        return replace(self, planes=self.planes[:, rows])

    def to_dense(self) -> np.ndarray:
        """The matrix as a dense array (n, m)."""
        out = np.empty(self.shape, self.dtype)
        self._unpack(out, 0, *self._values(self.dtype))
        return out

    def to_integers(self) -> np.ndarray:
        """The matrix divided by `scale`, as int8 (n, m), or int16 if the codes do not fit into int8."""
        peak = sum(abs(weight) for weight in self.weights) + abs(self.offset)
        out = np.empty(self.shape, np.int8 if peak <= 127 or self.weights == SIGNS else np.int16)
        self._unpack(out, 0, np.array(self.weights, dtype=out.dtype), out.dtype.type(self.offset))
        return out

    def __matmul__(self, W: Any) -> np.ndarray:
        """The product with dense weights (m,) or (m, t)."""
        return self.dot(W)

    def dot(self, W: Any, n_jobs: int | None = None) -> np.ndarray:
        """The product with dense weights (m,) or (m, t), unpacked tile by tile; `n_jobs` does not change the result."""
        W = np.asarray(W, dtype=self.dtype)
        if W.ndim not in (1, 2) or W.shape[0] != self.n_columns:
            raise ValueError(f"`W` must have {self.n_columns} rows, one for each column, got shape {W.shape}.")
        out = np.zeros((len(self), *W.shape[1:]), self.dtype)
        values = self._values(self.dtype)

        def multiply(start: int) -> None:
            rows = self[start : start + _ROWS]
            buffer = np.empty((len(rows), min(_COLUMNS, self.n_columns)), self.dtype)
            for first in range(0, self.n_columns, _COLUMNS):
                tile = buffer[:, : self.n_columns - first]
                rows._unpack(tile, first, *values)
                out[start : start + _ROWS] += tile @ W[first : first + _COLUMNS]

        run_tasks(multiply, range(0, len(self), _ROWS), n_jobs)
        return out

    def gram(self, other: PackedArray | None = None, n_jobs: int | None = None) -> np.ndarray:
        """Inner products (n, n') of the rows with the rows of `other` (None: with each other), in `dtype`.

        Raises
        ------
        ValueError
            If the number of columns, the weights or the offset of `other` differ.
        """
        right = self if other is None else other
        if (self.n_columns, self.weights, self.offset) != (right.n_columns, right.weights, right.offset):
            raise ValueError(
                "`other` must be packed like this array, got other columns or weights. Use one feature map."
            )
        out = np.empty((len(self), len(right)), self.dtype)
        (self._write_counts if self.is_countable else self._write_products)(right, other is None, out, n_jobs)
        return out

    @property
    def is_countable(self) -> bool:
        """Whether inner products can be counted from the bits: with one plane, or for signs and zeros."""
        return len(self.weights) == 1 or self.weights == SIGNS

    def transposed(self, n_jobs: int | None = None) -> PackedArray:
        """The transposed matrix (m, n), packed."""
        planes = np.empty((len(self.weights), self.n_columns, -(-len(self) // 64)), np.uint64)
        tasks = [(k, word) for k in range(len(self.weights)) for word in range(0, self.planes.shape[2], 8)]

        def turn(task: tuple[int, int]) -> None:
            k, word = task
            transpose_bits(host(), self.planes[k, :, word : word + 8], planes[k, 64 * word : 64 * (word + 8)])

        run_tasks(turn, tasks, n_jobs)
        return replace(self, planes=planes, n_columns=len(self))

    @classmethod
    def concatenate(cls, parts: list[PackedArray]) -> PackedArray:
        """The rows of all `parts` in order; the parts must have the same columns, weights, offset and scale."""
        return replace(parts[0], planes=np.concatenate([part.planes for part in parts], axis=1))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the array to one file in safetensors format; `path` is replaced only once the file is complete."""
        from safetensors.numpy import save

        facts = {
            "format": _FORMAT,
            "weights": self.weights,
            "offset": self.offset,
            "scale": self.scale,
            "n_columns": self.n_columns,
            "dtype": self.dtype.name,
        }
        data = save({"planes": np.ascontiguousarray(self.planes)}, {"phimap": json.dumps(facts)})
        write_whole(path, lambda file: file.write(data))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PackedArray:
        """Read an array written by `save`.

        Raises
        ------
        DataError
            If the file was not written by `save`.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                facts = json.loads((file.metadata() or {})["phimap"])
                if file.get_slice("planes").get_dtype() != "U64":
                    raise ValueError("planes of another dtype")
                planes = file.get_tensor("planes")
            if facts["format"] != _FORMAT or planes.ndim != 3:
                raise ValueError("another format")
            if (planes.shape[0], planes.shape[2]) != (len(facts["weights"]), -(-facts["n_columns"] // 64)):
                raise ValueError("planes of another shape than described")
            dtype = {"float32": np.float32, "float64": np.float64}[facts["dtype"]]
        except (SafetensorError, KeyError, ValueError, TypeError) as error:
            raise DataError(
                f"`{path}` is no packed array: {one_line(error)}. Give a file written by PackedArray.save."
            ) from error
        weights = tuple(float(weight) for weight in facts["weights"])
        return cls(planes, weights, facts["offset"], facts["scale"], facts["n_columns"], np.dtype(dtype))

    def _values(self, dtype: np.dtype) -> tuple[np.ndarray, Any]:
        """Weights and offset, each times the scale."""
        return (np.array(self.weights) * self.scale).astype(dtype), dtype.type(self.offset * self.scale)

    def _unpack(self, out: np.ndarray, first: int, weights: np.ndarray, offset: Any) -> None:
        unpack(host(), self.planes, weights, offset, first, out)

    def _write_counts(self, other: PackedArray, same: bool, out: np.ndarray, n_jobs: int | None) -> None:
        """Write inner products by table lookup; if both arrays are the same, compute each pair of rows only once."""
        # For one plane with offset o and weight w, rows of bits a and b have, over m columns, the inner product
        # sum (o + w a)(o + w b) = w^2 (a.b) + o w (sum a + sum b) + o^2 m. For signs and zeros o = 0.
        weight = self.weights[0] ** 2 if len(self.weights) == 1 else 1.0
        left, right = (self.offset * self.weights[0] * part._ones() for part in (self, other))
        left += self.offset**2 * self.n_columns
        scale, codes = self.scale * other.scale, coded(host(), list(other.planes))

        def multiply(task: tuple[int, int]) -> None:
            top, first = task
            rows, columns = slice(top, top + PRODUCT_ROWS), slice(max(first, top) if same else first, first + _PARTNERS)
            planes = [plane[rows] for plane in self.planes]
            affine = weight, left[rows], right[columns], scale
            write_products(
                host(), planes, codes, columns.start, affine, out[rows, columns], out[columns, rows] if same else None
            )

        tops, firsts = range(0, len(self), PRODUCT_ROWS), range(0, len(other), _PARTNERS)
        # Tiles below the diagonal of a symmetric product are copied from the tiles above it.
        run_tasks(
            multiply, [(top, first) for top in tops for first in firsts if not same or first + _PARTNERS > top], n_jobs
        )

    def _write_products(self, other: PackedArray, same: bool, out: np.ndarray, n_jobs: int | None) -> None:
        """Write inner products of unpacked tiles; if both arrays are the same, compute each pair of tiles only once."""

        def multiply(task: tuple[int, int]) -> None:
            rows, columns = (slice(start, start + _GRAM_ROWS) for start in task)
            np.matmul(self[rows].to_dense(), other[columns].to_dense().T, out=out[rows, columns])
            if same:
                out[columns, rows] = out[rows, columns].T

        starts = [range(0, len(part), _GRAM_ROWS) for part in (self, other)]
        run_tasks(multiply, [(i, j) for i in starts[0] for j in starts[1] if not same or i <= j], n_jobs)

    def _ones(self) -> np.ndarray:
        """Number of ones in each row of the first plane (n,)."""
        return count_ones(host(), self.planes[0])
