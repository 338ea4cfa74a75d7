"""Columns of text. Hashed n-grams of characters are encoded as a few dense columns or as CSR rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.preprocessing import normalize

from phimap.ops import single_threaded_blas
from phimap.records import of_floats
from phimap.tables.encoding import LARGEST, Encoding
from phimap.tables.tallies import TEXT_LENGTH, LevelTally

if TYPE_CHECKING:
    from phimap.tables.cells import Cells

# Number of buckets of n-grams for dense columns, and for CSR rows. Dense columns have fewer buckets, because their
# directions are saved for each bucket.
_HASHED, _HASHED_SPARSE = 2**13, 2**16
# Shortest and longest n-grams.
_LENGTHS = (3, 4)
# Number of texts whose distinct words are hashed together, and number of texts that are encoded at a time. They limit
# the memory: the n-grams of a text of the largest length take 16 kB, and its counts 50 kB.
_HASHED_TEXTS, _TEXTS = 2**13, 2**9


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
        Means of the training texts, which are subtracted from dense columns; zeros for CSR rows.
    variances : ndarray of shape (k,)
    """

    weights: np.ndarray = field(metadata=of_floats("h", least=0.5, most=LARGEST))
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

        counts = _Words(tally.sample, _HASHED).counts(0, len(tally.sample))
        weights = _weights(counts)
        rows = _weighted(counts, weights)
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
        """Return an encoding as CSR rows, with one column per hashed n-gram, learned from the training texts."""
        counts = _Words(tally.sample, _HASHED_SPARSE).counts(0, len(tally.sample))
        weights = _weights(counts)
        rows = _weighted(counts, weights)
        mean = np.asarray(rows.mean(axis=0)).ravel()
        variances = np.maximum(np.asarray(rows.multiply(rows).mean(axis=0)).ravel() - mean**2, 0)
        return cls(weights, None, np.zeros(weights.size), variances)

    def apply(self, cells: Cells, first_row: int, folds: np.ndarray | None) -> Any:
        distinct = [text[:TEXT_LENGTH] for text in cells.texts]
        parts = _weighted_parts([*distinct, ""], self.weights)
        if self.directions is None:
            rows: Any = sparse.vstack(list(parts), "csr")
            return rows[cells.codes]
        with single_threaded_blas():
            scores = np.concatenate([part @ self.directions for part in parts])
        return (scores - self.centre)[cells.codes]

    def names(self) -> list[str]:
        what = "n-gram" if self.directions is None else "direction"
        return [f": {what} {place}" for place in range(self.variances.size)]


class _Words:
    """Texts as words, and the hashed n-grams of each distinct word.

    Parameters
    ----------
    texts : list of str
    n_hashed : int
        Number of buckets.

    Notes
    -----
    The n-grams of a text are the n-grams of its words in lower case, with a space on both sides of each word. The
    n-grams of a word are hashed once for all texts.
    """

    def __init__(self, texts: list[str], n_hashed: int):
        places: dict[str, int] = {}
        words = [text.lower().split() for text in texts]
        self._codes = np.array([places.setdefault(word, len(places)) for some in words for word in some], np.int32)
        self._ends = np.append(0, np.cumsum([len(some) for some in words]))
        options: dict[str, Any] = {"n_features": n_hashed, "norm": None, "alternate_sign": False, "dtype": np.float32}
        hashing = HashingVectorizer(analyzer="char_wb", ngram_range=_LENGTHS, **options)
        # The vectorizer refuses an empty list. Blank texts have no words.
        self._table: Any = hashing.transform(list(places) or [""])

    def counts(self, start: int, stop: int) -> sparse.csr_matrix:
        """Counts (stop - start, n_hashed) of the hashed n-grams of the texts from `start` to `stop`."""
        ends = self._ends[start : stop + 1]
        codes = self._codes[ends[0] : ends[-1]]
        # Row i has ones for the words of text i. The counts of equal words add up in the product.
        shape = ends.size - 1, self._table.shape[0]
        words = sparse.csr_matrix((np.ones(codes.size, np.float32), codes, ends - ends[0]), shape=shape)
        counts: Any = words @ self._table
        counts.sort_indices()
        return counts


def _weights(counts: Any) -> np.ndarray:
    """Inverse document frequencies (n_hashed,) for CSR counts (n, n_hashed), as in `TfidfTransformer`."""
    frequency = np.bincount(counts.indices, minlength=counts.shape[1])
    return (np.log((1 + counts.shape[0]) / (1 + frequency)) + 1).astype(np.float32)


def _weighted_parts(texts: list[str], weights: np.ndarray) -> Iterator[sparse.csr_matrix]:
    """Yield the weighted counts of consecutive texts, a few at a time."""
    for first in range(0, len(texts), _HASHED_TEXTS):
        some = texts[first : first + _HASHED_TEXTS]
        words = _Words(some, weights.size)
        for start in range(0, len(some), _TEXTS):
            yield _weighted(words.counts(start, start + _TEXTS), weights)


def _weighted(counts: Any, weights: np.ndarray) -> Any:
    """Replace CSR counts (n, n_hashed) by weighted counts, scaled to rows of norm 1; rows of empty texts are zero."""
    counts.data *= weights[counts.indices]
    return normalize(counts, copy=False)
