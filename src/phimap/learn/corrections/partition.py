"""A binary tree of planes that divides rows into regions with about equal numbers of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from phimap.ops import run_tasks
from phimap.records import Record, of_floats

# A principal component is computed from every row of a part, or from evenly spaced rows if the part has at least twice
# this number.
_DIRECTION_ROWS = 4096


@dataclass(frozen=True)
class Partition(Record):
    """A complete binary tree of planes.

    Attributes
    ----------
    directions : ndarray of shape (n_regions - 1, d)
        Normal vector of the plane of each node, the root first, then depth by depth.
    thresholds : ndarray of shape (n_regions - 1,)
        Threshold of each node. A row belongs to the right child if its product with the normal vector is larger.
    """

    directions: np.ndarray = field(metadata=of_floats("?n", "?d"))
    thresholds: np.ndarray = field(metadata=of_floats("?n"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.n_regions & (self.n_regions - 1) == 0, "a complete tree: regions that are a power of two"

    @property
    def n_regions(self) -> int:
        """Number of regions, a power of two."""
        return len(self.thresholds) + 1

    @classmethod
    def of_rows(
        cls, X: np.ndarray, n_regions: int, n_jobs: int | None = None, rng: np.random.Generator | None = None
    ) -> Self:
        """Divide the rows of `X` (n, d) at the median of their products with a direction.

        Each part is divided in the same way, until there are `n_regions` parts. The direction is the first principal
        component of the part, computed from at most 8,192 of its rows. With `rng`, it is drawn from the normal
        distribution with the covariance of these rows.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows in coordinates in which all directions matter equally, for example after a learned metric.
        n_regions : int
            A power of two.
        n_jobs : int or None
            Threads; the result does not depend on them.
        rng : Generator, optional

        Notes
        -----
        **Cost.** n d flops for each level of the tree, and at most 8,192 d^2 flops for each part.
        """
        directions, thresholds = [], []

        def divide(task: tuple[np.ndarray, np.ndarray | None]) -> tuple[np.ndarray, float, np.ndarray]:
            """Return direction, threshold and the mask of the right child of a part."""
            rows, normals = task
            step = max(1, rows.size // _DIRECTION_ROWS)
            direction = _direction(X[rows[::step]].astype(np.float64), normals)
            heights = _heights(X[rows], direction)
            threshold = float(np.median(heights)) if rows.size else 0.0
            return direction, threshold, heights > threshold

        parts = [np.arange(X.shape[0])]
        while len(parts) < n_regions:
            normals = [None if rng is None else rng.standard_normal(X.shape[1]) for _ in parts]
            divided, children = run_tasks(divide, list(zip(parts, normals, strict=True)), n_jobs), []
            for rows, (direction, threshold, right) in zip(parts, divided, strict=True):
                directions.append(direction)
                thresholds.append(threshold)
                children += [rows[~right], rows[right]]
            parts = children
        return cls(np.reshape(directions, (-1, X.shape[1])), np.array(thresholds))

    def assign(self, X: np.ndarray) -> np.ndarray:
        """Regions (n,) of the rows of `X` (n, d), dense."""
        nodes = np.zeros(X.shape[0], np.intp)
        for first in (2**depth - 1 for depth in range(self.n_regions.bit_length() - 1)):
            for node in range(first, 2 * first + 1):
                rows = np.flatnonzero(nodes == node)
                right = _heights(X[rows], self.directions[node]) > self.thresholds[node]
                nodes[rows] = 2 * node + 1 + right
        return nodes - (self.n_regions - 1)


def _direction(X: np.ndarray, normals: np.ndarray | None) -> np.ndarray:
    """The unit vector (d,) along which the rows of `X` (n, d) vary most.

    Standard normal numbers `normals` (d,) give a random direction instead, with the covariance of the rows.
    """
    if X.shape[0] < 2:
        return np.eye(X.shape[1])[0]
    centred = X - X.mean(axis=0)
    variances, vectors = np.linalg.eigh(centred.T @ centred)
    direction = vectors[:, -1]
    if normals is not None:
        # The symmetric root of the covariance does not depend on the signs of the eigenvectors.
        drawn = vectors @ (np.sqrt(np.maximum(variances, 0)) * (normals @ vectors))
        size = np.linalg.norm(drawn)
        direction = drawn / size if size > 0 else direction
    # `_heights` rounds products with strided vectors in another way, and regions must not depend on that.
    return np.ascontiguousarray(direction)


def _heights(X: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Products (n,) of rows with a direction, in float64. A product does not depend on other rows."""
    return np.einsum("ij,j->i", X.astype(np.float64), direction)
