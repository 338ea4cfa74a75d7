"""PolySketch: sketches of tensor powers of any degree, by a binary tree of sampled products."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from phimap._validation import check_choice, check_integer
from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.sketches.base import PowerSketch, Sketch
from phimap.sketches.countsketch import OSNAP, CountSketch
from phimap.sketches.product_samples import FORMS, ProductSamples
from phimap.sketches.srht import SRHT
from phimap.sketches.tree import Evaluation, ProductTree, TreeBuilder

# Sketch of a single vector, by the value of `leaf`. Leaves of a tree use it, unless `leaf` is "none". For degree 1, it
# is the whole sketch.
_SINGLE: dict[str, Callable[[int], Sketch]] = {
    "none": SRHT,
    "srht": SRHT,
    "osnap": OSNAP,
    "countsketch": CountSketch,
}
# With leaf="auto", vectors wider than this multiple of the inner width are sketched at the leaves.
_WIDE = 8


class TreeRecord(MapRecord):
    """Common base of maps whose features are nodes of a `ProductTree`."""

    tree: ProductTree

    @property
    def n_features(self) -> int:
        return self.tree.n_features

    @property
    def scratch_width(self) -> int:
        return self.tree.scratch_width


@dataclass(frozen=True)
class PolySketchRecord(TreeRecord):
    """A tree with one leaf per factor of the tensor product; the last node is the sketch."""

    tree: ProductTree

    def requirements(self) -> Iterator[tuple[bool, str]]:
        nodes, n_leaves = self.tree.nodes, self.tree.n_leaves
        yield len(nodes) == n_leaves - 1, "one node less than leaves"
        used = sorted(factor for node in nodes for factor in (node.left, node.right))
        every = sorted([*range(-n_leaves, 0), *range(len(nodes) - 1)]) if nodes else []
        yield used == every, "every vector but the last in one product"

    @property
    def n_components(self) -> int:
        return self.tree.width(self._root)

    @property
    def degree(self) -> int:
        """Number of factors of the tensor product."""
        return self.tree.n_leaves

    @property
    def _root(self) -> int:
        return len(self.tree.nodes) - 1

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        ops.copy(self.apply_product(ops, [X] * self.degree), out, first)

    def apply_product(self, ops: Ops, vectors: Sequence[Array]) -> Array:
        """The sketch (r, n_components) of the tensor products of corresponding rows of `vectors`.

        `vectors` holds one array (r, n_features) per factor. An array with one row is used for all r rows. An array
        that occurs several times is transformed once.
        """
        return Evaluation(self.tree, ops, vectors).vector(self._root)

    def unit_factors(self, n_units: int) -> np.ndarray:
        """Mask (degree,), true for the factors that are the unit vector e1 in entry `n_units` of `apply_all`."""
        held = np.zeros(self.degree, dtype=bool)

        def place(index: int, units: int) -> None:
            if index < 0:
                held[-1 - index] = units == 1
                return
            node = self.tree.nodes[index]
            left, right = self._degree(node.left), self._degree(node.right)
            left_units = left if units > right else 0
            place(node.left, left_units)
            place(node.right, units - left_units)

        place(self._root, n_units)
        return held

    def apply_all(self, ops: Ops, X: Array) -> list[Array]:
        """The sketches of ``x^(x (p - j)) (x) e1^(x j)`` for j = 0, ..., p: p + 1 arrays (r, n_components).

        p is the degree, x a row of `X`, and e1 the first unit vector. The last array does not depend on x and has one
        row. See `cases`.
        """
        return [features for _, features in sorted(self.cases(ops, X), key=itemgetter(0))]

    def cases(self, ops: Ops, X: Array) -> Iterator[tuple[int, Array]]:
        """Yield the results of `apply_all` as pairs of j and the features, in no particular order.

        Entry j equals `apply_product` with e1 as the factors `unit_factors(j)` and x as the others. The inner product
        of entries j for x and y estimates ``<x, y>^(p - j)``.

        In every node, the factors of the left branch are all x or all e1, while the right branch goes through all of
        its cases. Each of the two transforms of the left branch therefore serves many cases. This takes O(p) transforms
        and products, compared with O(p log p) if factors are replaced one by one. A node stores one case at a time.
        """
        unit = ops.constant(np.eye(1, self.n_features))
        whole = Evaluation(self.tree, ops, [X] * self.degree)
        units = Evaluation(self.tree, ops, [unit] * self.degree)

        def vectors(index: int) -> Iterator[tuple[int, Array]]:
            if index < 0:
                yield 0, whole.vector(index)
                yield 1, units.vector(index)
                return
            node = self.tree.nodes[index]
            left, left_units = whole.transformed(node.left), units.transformed(node.left)
            n_left, n_right = self._degree(node.left), self._degree(node.right)
            for n_units, right in transforms(node.right):
                yield n_units, node.samples.product(ops, left, right)
                if n_units + n_left > n_right:
                    yield n_units + n_left, node.samples.product(ops, left_units, right)

        def transforms(index: int) -> Iterator[tuple[int, Array]]:
            if index < 0:
                yield 0, whole.transformed(index)
                yield 1, units.transformed(index)
                return
            for n_units, vector in vectors(index):
                yield n_units, whole.transform(index, vector)

        return vectors(self._root)

    def _degree(self, index: int) -> int:
        if index < 0:
            return 1
        node = self.tree.nodes[index]
        return self._degree(node.left) + self._degree(node.right)


@dataclass(frozen=True)
class PowerSketchesRecord(TreeRecord):
    """Concatenated sketches of several tensor powers of one vector, from one tree.

    Attributes
    ----------
    tree : ProductTree
    outputs : tuple of int
        The nodes whose values are the features, in order of `degrees`.
    degrees : tuple of int
        Degree of the power that each output sketches.
    """

    tree: ProductTree
    outputs: tuple[int, ...]
    degrees: tuple[int, ...]

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.outputs) == len(self.degrees) > 0, "an output for each degree"
        yield all(0 <= index < len(self.tree.nodes) for index in self.outputs), "outputs among the nodes"

    @property
    def n_components(self) -> int:
        return sum(self.widths)

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of components of each degree."""
        return tuple(map(self.tree.width, self.outputs))

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        evaluation = Evaluation(self.tree, ops, [X] * self.tree.n_leaves)
        for index in self.outputs:
            evaluation.write(index, out, first)
            first += self.tree.width(index)


class PolySketch(PowerSketch):
    """Sketch the tensor power ``x^(x p)`` by a binary tree with an independent `TensorSRHT` at every inner node.

    A node sketches the tensor product of the sketches of its two branches. The branches of a node with q leaves have
    ``floor(q / 2)`` and ``ceil(q / 2)`` leaves; the root has p.

    Parameters
    ----------
    n_components : int, default=1024
        Output width m.
    degree : int, default=2
        The power p, at least 1.
    inner_components : int or None, default=None
        Width w of the nodes below the root; None means `n_components`.
    leaf : {"auto", "none", "srht", "osnap", "countsketch"}, default="auto"
        Sketch of the vectors at the leaves: none, or an `SRHT`, `OSNAP` or `CountSketch` with w components, independent
        for each leaf. "auto" is "none" up to ``n_features = 8 w`` and "osnap" beyond. "countsketch" takes a quarter of
        the time and memory of "osnap". For these two, the time for sparse input is proportional to the number of
        nonzeros. The map is the same for sparse and dense input of the same width.
    form : {"fourier", "hadamard"}, default="fourier"
        The transform in the nodes.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
    n_jobs : int or None, default=None
        Number of threads; None uses the configured number. It does not change the result.

    Attributes
    ----------
    kernel_ : Polynomial
        The kernel that the sketch estimates: ``<x, y>^degree``.
    record_ : PolySketchRecord
        The tree. Its method `apply_product` sketches tensor products of different vectors. Its method `apply_all`
        sketches the products of p - j factors x and j factors e1, the first unit vector, for all j.

    Notes
    -----
    **Error.** Unbiased. For unit vectors and independent signs at every leaf, each node adds at most 6 / w to the
    relative variance (8 / w in the Hadamard form). Hence ``Var <Sx, Sy> <= (1 + 6 / w)^(p - 2) (1 + 6 / m) - 1`` for
    even widths, which grows linearly with the degree; for `TensorSketch` the variance grows like 3^p. Narrower inner
    nodes take less time and increase the error only a little.

    **Cost.** p - 1 transforms of width w and one of the input, O(p w log w + d log d) flops per row; with OSNAP leaves
    O(p (nnz + w log w)). The Hadamard form is faster and somewhat less accurate. All p + 1 cases of `apply_all` take
    O(p) transforms.

    **Differs from the source in** the Fourier form of the nodes, in sampling without replacement, and in the option of
    dense leaf sketches ("srht"), which "auto" does not use. Branches have ``floor(p / 2)`` and ``ceil(p / 2)`` leaves;
    the source adds unit vectors up to a power of two, which needs more nodes and increases the error. All leaves share
    one set of signs and need a single transform; this leaves the mean and the first-order variance unchanged (see
    `ProductTree`). Complex inner nodes (Wacker et al., 2022) are not offered, because the real and imaginary parts of
    the Fourier form already have the same advantage.

    References
    ----------
    Ahle, Kapralov, Knudsen, Pagh, Velingker, Woodruff, Zandieh (2020), *Oblivious sketching of high-degree polynomial
    kernels*, Theorem 1.2; Zandieh et al. (2021), *Scaling neural tangent kernels via sketching and random features*,
    Lemma 1 and Figure 3.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> x = np.array([[0.6, 0.8]])
    >>> Z = pm.sketches.PolySketch(4096, degree=8, random_state=0).fit_transform(x)
    >>> round(float(Z[0] @ Z[0]), 1)
    1.0
    """

    def __init__(
        self,
        n_components: int = 1024,
        *,
        degree: int = 2,
        inner_components: int | None = None,
        leaf: str = "auto",
        form: str = "fourier",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        super().__init__(n_components, degree=degree, random_state=random_state, n_jobs=n_jobs)
        self.inner_components = inner_components
        self.leaf = leaf
        self.form = form

    def sample(self, n_features: int, rng: np.random.Generator) -> PolySketchRecord:
        degree = check_integer("degree", self.degree, least=1)
        if degree == 1:
            # For degree 1, the map is the sketch of a single leaf.
            single = _SINGLE[self._leaf(n_features, self.n_components)](self.n_components)
            leaves = (single.sample(n_features, rng.spawn(1)[0]),)
            return PolySketchRecord(ProductTree(n_features, 1, leaves, np.empty(0, np.int8), ()))
        builder = self._builder(n_features, self.n_components, rng)
        left = builder.power(degree // 2)
        builder.output(left, builder.power(degree - degree // 2), self.n_components)
        return PolySketchRecord(builder.tree())

    def sample_powers(
        self,
        n_features: int,
        widths: Mapping[int, int],
        rng: np.random.Generator,
        weights: Mapping[int, float] | None = None,
    ) -> PowerSketchesRecord:
        """Draw sketches of several powers from one tree; `degree` and `n_components` are not used.

        Parameters
        ----------
        n_features : int
        widths : mapping of int to int
            Number of components for every degree p; degrees are at least 2.
        rng : Generator
        weights : mapping of int to float, optional
            Weights a_p of the degrees, 1 by default: the inner product of all features estimates
            ``sum_p a_p <x, y>^p``.

        Returns
        -------
        record : PowerSketchesRecord
            Features of the degrees in ascending order. The estimate of every degree is unbiased. Errors of different
            degrees are correlated, because the degrees share branches.
        """
        if not widths or min(widths) < 2:
            raise ValueError(f"`widths` must name degrees from 2 on, got {sorted(widths)}. Sketch degree 1 by SRHT.")
        builder = self._builder(n_features, max(widths.values()), rng)
        products = _shared_products(builder, set(widths))
        outputs = {
            p: builder.output(*products[p], widths[p], 1.0 if weights is None else weights[p]) for p in sorted(widths)
        }
        return PowerSketchesRecord(builder.tree(), tuple(outputs.values()), tuple(outputs))

    def _builder(self, n_features: int, width: int, rng: np.random.Generator) -> TreeBuilder:
        form: type[ProductSamples] = FORMS[check_choice("form", self.form, tuple(FORMS))]
        inner = width
        if self.inner_components is not None:
            inner = check_integer("inner_components", self.inner_components, least=1)
        leaf = self._leaf(n_features, inner)
        if leaf == "none":
            return TreeBuilder(n_features, form, inner, rng, None)
        sketch = _SINGLE[leaf](inner)
        return TreeBuilder(n_features, form, inner, rng, lambda stream: sketch.sample(n_features, stream))

    def _leaf(self, n_features: int, width: int) -> str:
        leaf = check_choice("leaf", self.leaf, ("auto", *_SINGLE))
        if leaf == "auto":
            return "osnap" if is_wide(n_features, width) else "none"
        return leaf


def is_wide(n_features: int, width: int) -> bool:
    """Whether vectors of length `n_features` should be sketched at the leaves, for inner nodes of width `width`."""
    return n_features > _WIDE * width


def _shared_products(builder: TreeBuilder, degrees: set[int]) -> dict[int, tuple[int, int]]:
    """For each of `degrees`, which are at least 2, the two vectors of the tree whose product has this degree.

    Let p be the largest degree. The first branch of the tree is the power ``floor(p / 2)``; the second branch provides
    powers up to ``ceil(p / 2)``. Degrees up to ``ceil(p / 2)`` use the second branch only; higher degrees are products
    of both branches.
    """
    most = max(degrees)
    first = most // 2
    second = most - first
    others = {q if q <= second else q - first for q in degrees}
    left = builder.power(first)
    inner = _shared_products(builder, others - {1}) if others - {1} else {}
    vectors: dict[int, int] = {}

    def vector(degree: int) -> int:
        if degree not in vectors:
            vectors[degree] = builder.leaf() if degree == 1 else builder.factor(*inner[degree])
        return vectors[degree]

    return {q: inner[q] if q <= second else (left, vector(q - first)) for q in degrees}
