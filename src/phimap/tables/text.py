"""Columns of text, encoded by hashed n-grams of characters, as a few dense columns or as CSR rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from phimap.ops import single_threaded_blas
from phimap.records import of_floats
from phimap.tables.encoding import LARGEST, Encoding
from phimap.tables.tallies import TEXT_LENGTH, LevelTally

if TYPE_CHECKING:
    from phimap.tables.cells import Cells

# Numbers of buckets of n-grams, for dense columns and for CSR rows. Dense columns have fewer, because their directions
# are saved for each bucket.
_HASHED, _HASHED_SPARSE = 2**13, 2**16
_LENGTHS = (3, 4)
# Number of texts that are encoded at a time. The n-grams of a text take about 50 kB.
_TEXTS = 512


@dataclass(frozen=True)
class TextEncoding(Encoding):
    """Encodes texts by counts of hashed n-grams, weighted by inverse document frequency and projected on directions.

    Attributes
    ----------
    weights : ndarray of shape (n_hashed,)
        Inverse document frequencies of the hashed n-grams.
    directions : ndarray of shape (n_hashed, k) or None
        Leading right singular vectors of the training rows, scaled; None for CSR rows.
    centre : ndarray of shape (k,)
    variances : ndarray of shape (k,)
    """

    weights: np.ndarray = field(metadata=of_floats("h", least=-LARGEST, most=LARGEST))
    directions: np.ndarray | None = field(metadata=of_floats("h", "k", least=-LARGEST, most=LARGEST))
    centre: np.ndarray = field(metadata=of_floats("k", least=-LARGEST, most=LARGEST))
    variances: np.ndarray = field(metadata=of_floats("k"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.directions is not None or self.centre.size == self.weights.size, "a number for each n-gram"

    @property
    def is_sparse(self) -> bool:
        """Whether encoded rows are CSR."""
        return self.directions is None

    @classmethod
    def of_tally(cls, tally: LevelTally, n_components: int) -> TextEncoding | None:
        """Return an encoding by up to `n_components` dense columns; None if the training texts do not differ."""
        from sklearn.utils.extmath import randomized_svd

        weights = _weights(tally.sample, _HASHED)
        rows = _weighted(tally.sample, weights)
        rank = min(n_components, len(tally.sample) - 1)
        if rank < 1:
            return None
        with single_threaded_blas():
            # scikit-learn chooses the signs so that the largest entry of each direction is positive.
            _, values, right = randomized_svd(rows, rank, random_state=0)
            scores = rows @ right.T
        variances = scores.var(axis=0)
        if not variances.sum() > np.finfo(np.float32).eps:
            return None
        kept = values > np.finfo(np.float32).eps * values[0]
        factor = 1 / np.sqrt(variances[kept].sum())
        directions = (right[kept].T * factor).astype(np.float32)
        return cls(weights, directions, scores.mean(axis=0)[kept] * factor, variances[kept] * factor**2)

    @classmethod
    def sparse_of_tally(cls, tally: LevelTally) -> TextEncoding:
        """Return an encoding by CSR rows of n-grams, from the training texts."""
        weights = _weights(tally.sample, _HASHED_SPARSE)
        rows = _weighted(tally.sample, weights)
        mean = np.asarray(rows.mean(axis=0)).ravel()
        variances = np.maximum(np.asarray(rows.multiply(rows).mean(axis=0)).ravel() - mean**2, 0)
        return cls(weights, None, np.zeros(weights.size), variances)

    def apply(self, cells: Cells, first_row: int, folds: np.ndarray | None) -> Any:
        distinct = [text[:TEXT_LENGTH] for text in cells.texts]
        texts = [*distinct, ""]
        if self.directions is None:
            return sparse.csr_matrix(_weighted(texts, self.weights)[cells.codes])
        slices = [texts[start : start + _TEXTS] for start in range(0, len(texts), _TEXTS)]
        with single_threaded_blas():
            scores = np.concatenate([_weighted(some, self.weights) @ self.directions for some in slices])
        return (scores - self.centre)[cells.codes]

    def names(self) -> list[str]:
        what = "n-gram" if self.directions is None else "direction"
        return [f": {what} {place}" for place in range(self.variances.size)]


def _counts(texts: list[str], n_hashed: int) -> sparse.csr_matrix:
    """Counts (n, n_hashed) of hashed n-grams within words."""
    from sklearn.feature_extraction.text import HashingVectorizer

    options: dict[str, Any] = {"alternate_sign": False, "norm": None, "dtype": np.float32}
    vectorizer = HashingVectorizer(analyzer="char_wb", ngram_range=_LENGTHS, n_features=n_hashed, **options)
    return sparse.csr_matrix(vectorizer.transform(texts))


def _weights(texts: list[str], n_hashed: int) -> np.ndarray:
    """Inverse document frequencies (n_hashed,), as in scikit-learn's `TfidfTransformer`."""
    counts = _counts(texts, n_hashed)
    frequency = np.bincount(counts.indices, minlength=n_hashed)
    return (np.log((1 + len(texts)) / (1 + frequency)) + 1).astype(np.float32)


def _weighted(texts: list[str], weights: np.ndarray) -> sparse.csr_matrix:
    """Weighted counts (n, n_hashed), scaled to rows of norm 1; rows of empty texts are zero."""
    from sklearn.preprocessing import normalize

    counts = _counts(texts, weights.size)
    counts.data *= weights[counts.indices]
    return sparse.csr_matrix(normalize(counts, copy=False))
