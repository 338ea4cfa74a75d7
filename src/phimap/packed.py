"""Arrays of numbers of a few bits, kept in bit planes."""

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
# Rows and columns that are unpacked at a time: 1 MB in float32, which stays in an L2 cache or near it.
_ROWS, _COLUMNS = 128, 2048
# Rows of a tile of the Gram matrix that is multiplied unpacked.
_GRAM_ROWS = 512
# Rows by which a few are multiplied at a time: many, so that the tables of the few serve many products.
_PARTNERS = 2048
#: Weights of the planes of an array of signs and zeros: what is not zero, and what is negative.
SIGNS = (1.0, -2.0)


@dataclass(frozen=True, eq=False)
class PackedArray:
    """A matrix of numbers of a few bits, 64 columns to a word: ``scale * (offset + sum_q weights[q] * bit_q)``.

    Features of `TernaryFeatures` and `QuantizedFeatures` come in this form with ``packed=True``. It serves where
    the dense matrix does, in products and in training, and is unpacked tile by tile only.

    Attributes
    ----------
    planes : ndarray of uint64, shape (n_planes, n, ceil(m / 64))
        Bit planes; bits beyond the last column are 0.
    weights : tuple of float
        One for each plane: (1,) are bits; (1, -2) signs and zeros, the second plane being part of the first;
        (1, 2, 4, ...) codes.
    offset, scale : float
    n_columns : int
        Columns m.
    dtype : numpy.dtype
        float32 or float64: of the dense array and of products.

    Notes
    -----
    **Error** none beside the rounding of the scale: inner products are counts. **Cost.** n m / 8 bytes a plane. Of one
    plane, or of signs and zeros, `gram` takes products of 8 bits or of 4 signs with 96 rows from a table at once, and
    as many bytes again as the planes; with more planes it unpacks tiles.

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
        """What must be true of an array from a file, in words: see `Record.requirements`."""
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
        """Return an array with all bits 0, to be filled in."""
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
        """Rows by a slice, indices or a mask: (n', m). A slice shares memory."""
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
        """The matrix divided by `scale`, as int8 (n, m), or int16 where codes need it."""
        peak = sum(abs(weight) for weight in self.weights) + abs(self.offset)
        out = np.empty(self.shape, np.int8 if peak <= 127 or self.weights == SIGNS else np.int16)
        self._unpack(out, 0, np.array(self.weights, dtype=out.dtype), out.dtype.type(self.offset))
        return out

    def __matmul__(self, W: Any) -> np.ndarray:
        """The product with dense weights (m,) or (m, t)."""
        return self.dot(W)

    def dot(self, W: Any, n_jobs: int | None = None) -> np.ndarray:
        """The product with dense weights (m,) or (m, t), unpacked tile by tile; `n_jobs` changes no bit."""
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
        """Inner products (n, n'), in `dtype`, of the rows with those of `other`, or with each other.

        Raises
        ------
        ValueError
            If `other` has other columns or another code.
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
        """Whether inner products are counts of bits: for bits, and for signs and zeros."""
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
        """Rows of arrays packed alike, one after the other."""
        return replace(parts[0], planes=np.concatenate([part.planes for part in parts], axis=1))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the array to one file in safetensors format; `path` is replaced once that is complete."""
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
            If the file holds something else.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                facts = json.loads((file.metadata() or {})["phimap"])
                planes = file.get_tensor("planes")
            if facts["format"] != _FORMAT or planes.dtype != np.uint64 or planes.ndim != 3:
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
        """Weights and offset times the scale."""
        return (np.array(self.weights) * self.scale).astype(dtype), dtype.type(self.offset * self.scale)

    def _unpack(self, out: np.ndarray, first: int, weights: np.ndarray, offset: Any) -> None:
        unpack(host(), self.planes, weights, offset, first, out)

    def _write_counts(self, other: PackedArray, same: bool, out: np.ndarray, n_jobs: int | None) -> None:
        """Write inner products by tables of sums, each pair once where both arrays are the same."""
        # Over m columns the product of (o + w a) and (o + w b) is w^2 (a b) + o w (a + b) + o^2 m.
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
        # Pairs of one row and those before it are images.
        run_tasks(
            multiply, [(top, first) for top in tops for first in firsts if not same or first + _PARTNERS > top], n_jobs
        )

    def _write_products(self, other: PackedArray, same: bool, out: np.ndarray, n_jobs: int | None) -> None:
        """Write inner products of unpacked tiles, each pair once where both arrays are the same."""

        def multiply(task: tuple[int, int]) -> None:
            rows, columns = (slice(start, start + _GRAM_ROWS) for start in task)
            np.matmul(self[rows].to_dense(), other[columns].to_dense().T, out=out[rows, columns])
            if same:
                out[columns, rows] = out[rows, columns].T

        starts = [range(0, len(part), _GRAM_ROWS) for part in (self, other)]
        run_tasks(multiply, [(i, j) for i in starts[0] for j in starts[1] if not same or i <= j], n_jobs)

    def _ones(self) -> np.ndarray:
        """Ones of the first plane in each row (n,)."""
        return count_ones(host(), self.planes[0])
