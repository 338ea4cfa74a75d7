"""Trees of sampled products: sketches of tensor products of many vectors, built from products of two vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.records import Record, of_number, of_signs
from phimap.sketches.product_samples import ProductSamples
from phimap.sketches.signs import fair_signs


@dataclass(frozen=True)
class ProductNode(Record):
    """A node of a tree: the sketch of the tensor product of two vectors.

    Attributes
    ----------
    left, right : int
        The two vectors: i means node i, ``-1 - i`` means leaf i.
    samples : ProductSamples
        Rows of the transforms of `left` and `right` whose products are the features.
    signs : ndarray of int8 or None
        Signs that multiply the product before its own transform; None if the product is an output and not a factor.
    """

    left: int
    right: int
    samples: ProductSamples
    signs: np.ndarray | None = field(metadata=of_signs("p"))


@dataclass(frozen=True)
class ProductTree(Record):
    """A tree of leaves and products. The two factors of a product depend on disjoint sets of samples.

    Attributes
    ----------
    n_features : int
        Width of the vectors at the leaves.
    n_leaves : int
    leaves : tuple of MapRecord
        Sketches at the leaves: one per leaf, or an empty tuple.
    leaf_signs : ndarray of int8
        Signs that multiply a leaf before its transform, shared by all leaves. Products with different samples are
        uncorrelated in spite of the shared signs: for any signs, the average over all pairs of transform rows is the
        exact inner product (see `TensorSRHT`).
    nodes : tuple of ProductNode
        The products; each comes after its factors.
    """

    n_features: int = field(metadata=of_number(length="d"))
    n_leaves: int = field(metadata=of_number(least=1))
    leaves: tuple[MapRecord, ...]
    leaf_signs: np.ndarray = field(metadata=of_signs("?p"))
    nodes: tuple[ProductNode, ...]

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.n_leaves <= max(1, 2 * len(self.nodes)), "a place in a product for each leaf"
        yield len(self.leaves) in (0, self.n_leaves), "a sketch for each leaf, or none"
        yield all(leaf.n_features == self.n_features for leaf in self.leaves), "leaves of its inputs"
        yield len({leaf.n_components for leaf in self.leaves}) <= 1, "leaves of one width"
        yield len({type(node.samples) for node in self.nodes}) <= 1, "nodes of one form"
        for index, node in enumerate(self.nodes):
            factors = (node.left, node.right)
            yield all(-self.n_leaves <= factor < index for factor in factors), "every node after its factors"
            signs = [self.leaf_signs if factor < 0 else self.nodes[factor].signs for factor in factors]
            yield all(one is not None for one in signs), "signs for every factor"
            lengths = [one.shape[0] for one in signs if one is not None]
            widths = map(self.width, factors)
            yield all(width <= length for width, length in zip(widths, lengths, strict=True)), "room for its factors"
            yield node.samples.serves(lengths), "samples of the transforms of the factors"

    def width(self, index: int) -> int:
        """Width of the vector `index` (a node, or a leaf if negative)."""
        if index >= 0:
            return self.nodes[index].samples.n_components
        return self.leaves[-1 - index].n_components if self.leaves else self.n_features

    @property
    def scratch_width(self) -> int:
        """Approximate number of floats per row that an evaluation needs."""
        # Each vector on a path from the root to a leaf needs a padded copy and a transform. Transforms that several
        # products use are stored.
        factors = [node.signs.shape[0] for node in self.nodes if node.signs is not None]
        uses = self.uses()
        kept = sum(node.signs.shape[0] for i, node in enumerate(self.nodes) if node.signs is not None and uses[i] > 1)
        path = 3 * max(factors, default=0) * (1 + self.n_leaves.bit_length()) + kept
        return (
            self.n_features
            + 3 * self.leaf_signs.shape[0]
            + path
            + max(map(self.width, range(len(self.nodes))), default=0)
        )

    def uses(self) -> Counter[int]:
        """The number of products of which each vector is a factor."""
        return Counter(index for node in self.nodes for index in (node.left, node.right))


class Evaluation:
    """Lazy evaluation of the vectors of a tree, and of their transforms, for one tile of rows.

    Parameters
    ----------
    tree : ProductTree
        A tree whose arrays are bound to `ops`.
    ops : Ops
    vectors : sequence of arrays of shape (r, n_features) or (1, n_features), dense or CSR
        One array per leaf.
    """

    def __init__(self, tree: ProductTree, ops: Ops, vectors: Sequence[Array]):
        self._tree = tree
        self._ops = ops
        self._vectors = vectors
        self._uses = tree.uses()
        self._transforms: dict[int, Array] = {}

    def vector(self, index: int) -> Array:
        """The value of the vector `index`: a product, or a leaf after its sketch."""
        tree, ops = self._tree, self._ops
        if index >= 0:
            node = tree.nodes[index]
            return node.samples.product(ops, self.transformed(node.left), self.transformed(node.right))
        X = self._vectors[-1 - index]
        return sketched(tree.leaves[-1 - index], ops, X) if tree.leaves else X

    def write(self, index: int, out: Array, first: int = 0) -> None:
        """Write the product `index` to the columns of `out` from `first` on."""
        node = self._tree.nodes[index]
        node.samples.write(self._ops, self.transformed(node.left), self.transformed(node.right), out, first)

    def transformed(self, index: int) -> Array:
        """The transform of the vector `index`; stored if it is used more than once."""
        shared = self._uses[index] > 1
        if index < 0 and not self._tree.leaves:
            # Leaves that hold the same array have the same transform.
            X = self._vectors[-1 - index]
            index = -1 - next(i for i, vector in enumerate(self._vectors) if vector is X)
            shared = True
        if index in self._transforms:
            return self._transforms[index]
        if index < 0:
            transform = self.transform(index, self.vector(index))
        else:
            node = self._tree.nodes[index]
            factors = self.transformed(node.left), self.transformed(node.right)
            transform = node.samples.next_transform(self._ops, *factors, node.signs)
        if shared:
            self._transforms[index] = transform
        return transform

    def transform(self, index: int, vector: Array) -> Array:
        """The transform of `vector` with the signs of the tree's vector `index`."""
        tree = self._tree
        signs = tree.nodes[index].signs if index >= 0 else tree.leaf_signs
        return tree.nodes[0].samples.transform(self._ops, vector, signs)


def sketched(record: MapRecord, ops: Ops, X: Array) -> Array:
    """Apply a bound record to the rows of `X`; returns a new array."""
    out = ops.empty((X.shape[0], record.n_components))
    record.apply(ops, X, out)
    return out


class TreeBuilder:
    """Builds a tree step by step; every leaf and product is drawn from its own random stream.

    Parameters
    ----------
    n_features : int
        Width of the vectors at the leaves.
    form : type of ProductSamples
        Transform of the products: `FourierSamples` or `HadamardSamples`.
    inner_width : int
        Number of components of products that are factors of other products.
    rng : Generator
    draw_leaf : callable or None
        Draws the sketch of a leaf; None for leaves without a sketch.
    """

    def __init__(
        self,
        n_features: int,
        form: type[ProductSamples],
        inner_width: int,
        rng: np.random.Generator,
        draw_leaf: Callable[[np.random.Generator], MapRecord] | None,
    ):
        self._n_features = n_features
        self._form = form
        self._inner_width = inner_width
        self._rng = rng
        self._draw_leaf = draw_leaf
        self._n_leaves = 0
        self._leaves: list[MapRecord] = []
        self._nodes: list[ProductNode] = []

    def leaf(self) -> int:
        """Add a leaf and return its index."""
        if self._draw_leaf is not None:
            self._leaves.append(self._draw_leaf(self._child()))
        self._n_leaves += 1
        return -self._n_leaves

    def factor(self, left: int, right: int) -> int:
        """Add a product that is a factor of another product, and return its index."""
        return self._product(left, right, self._inner_width, 1.0, is_factor=True)

    def output(self, left: int, right: int, width: int, weight: float = 1.0) -> int:
        """Add a product with `width` features, multiplied by ``sqrt(weight)``, as an output, and return its index."""
        return self._product(left, right, width, weight, is_factor=False)

    def power(self, degree: int) -> int:
        """Add a balanced tree with `degree` leaves, whose root is a factor, and return the index of the root."""
        if degree == 1:
            return self.leaf()
        left = self.power(degree // 2)
        return self.factor(left, self.power(degree - degree // 2))

    def tree(self) -> ProductTree:
        """The tree of all leaves and products that have been added."""
        signs = fair_signs(self._child(), (self._form.length(self._width(-1)),))
        return ProductTree(self._n_features, self._n_leaves, tuple(self._leaves), signs, tuple(self._nodes))

    def _product(self, left: int, right: int, width: int, weight: float, *, is_factor: bool) -> int:
        sign_rng, sample_rng = self._child().spawn(2)
        lengths = (self._form.length(self._width(left)), self._form.length(self._width(right)))
        samples = self._form.draw(lengths, width, sample_rng, weight=weight)
        signs = fair_signs(sign_rng, (self._form.length(width),)) if is_factor else None
        self._nodes.append(ProductNode(left, right, samples, signs))
        return len(self._nodes) - 1

    def _width(self, index: int) -> int:
        if index >= 0:
            return self._nodes[index].samples.n_components
        return self._leaves[-1 - index].n_components if self._leaves else self._n_features

    def _child(self) -> np.random.Generator:
        return self._rng.spawn(1)[0]
