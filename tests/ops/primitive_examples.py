"""Examples of the arguments of every primitive, with shapes that are awkward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import sparse

import phimap as pm
from phimap.kernels.images import inverse_roots
from phimap.ops import Ops
from phimap.ops.activations import NAMES
from phimap.ops.primitive import PRIMITIVES, Primitive
from phimap.ops.primitives.boosting import BinnedRows, TreeLimits


class Draw:
    """Random arrays of one dtype for an example with so many rows."""

    def __init__(self, rows: int, dtype: type, seed: int = 0):
        self.rows = rows
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)

    def floats(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(self.dtype)

    def signs(self, *shape: int) -> np.ndarray:
        return (2 * self.rng.integers(2, size=shape) - 1).astype(np.int8)

    def places(self, below: int, *shape: int) -> np.ndarray:
        return self.rng.integers(below, size=shape, dtype=np.intp)

    def out(self, width: int) -> np.ndarray:
        """Columns that stay NaN where nothing is written."""
        return np.full((self.rows, width), np.nan, self.dtype)

    def planes(self, n_planes: int, n_rows: int, n_words: int) -> np.ndarray:
        """Random bit planes; the second is part of the first."""
        planes = self.rng.integers(0, 2**64, (n_planes, n_rows, n_words), dtype=np.uint64)
        planes[1:] &= planes[0]
        return planes


class Run:
    """Calls of primitives on one backend: of what the backend has, or of the generic bodies alone."""

    def __init__(self, ops: Ops, generic: bool, replaced: dict[str, Primitive[Any, Any]] | None = None):
        self.ops = ops
        self.generic = generic
        self.known = {**PRIMITIVES, **(replaced or {})}

    def __call__(self, name: str, *arguments: Any) -> Any:
        one = self.known[name]
        return (one.generic if self.generic else one)(self.ops, *arguments)

    def constant(self, *arrays: Any) -> list[Any]:
        return [self.ops.constant(array) for array in arrays]


# Primitives that hand each other values of the backend's own.
OWN = [
    ("convolution_transforms", "convolutions"),
    ("product_factor", "fourier_product", "next_product_factor"),
    ("coded", "write_products"),
]
# Fourier transforms of no rows are an error of NumPy and of torch.
TRANSFORMED = [*OWN[:2], ("fourier_blocks",), ("signed_transforms", "fourier_chain")]

Example = Callable[[Run, Draw], Iterable[Any]]
EXAMPLES: dict[tuple[str, ...], Example] = {}


def example(*names: str) -> Callable[[Example], Example]:
    """Let a function give arrays that these primitives make."""

    def register(function: Example) -> Example:
        EXAMPLES[names] = function
        return function

    return register


@example("hadamard_blocks")
def hadamard_blocks(run, draw):
    for d, n_blocks, factors, width, s in [(1, 3, 1, 1, 2), (5, 3, 3, 8, 19), (60, 2, 2, 64, 128)]:
        X, signs = draw.floats(draw.rows, d), draw.signs(n_blocks, factors, width)
        yield run("hadamard_blocks", *run.constant(X, signs, draw.floats(s)))


@example("fastfood_blocks")
def fastfood_blocks(run, draw):
    for d, n_blocks, width, s in [(1, 3, 1, 2), (5, 3, 8, 19), (60, 2, 64, 128)]:
        permutations = np.stack([draw.rng.permutation(width) for _ in range(n_blocks)])
        X, signs, gains = draw.floats(draw.rows, d), draw.signs(n_blocks, width), draw.floats(n_blocks, width)
        yield run("fastfood_blocks", *run.constant(X, signs, permutations, gains, draw.floats(s)))


@example("fourier_blocks")
def fourier_blocks(run, draw):
    for d, n_blocks, half, n_points, s in [(1, 1, 1, 2, 3), (7, 3, 4, 9, 41), (30, 2, 15, 15, 60)]:
        X, factors, phases = draw.floats(draw.rows, d), draw.floats(d), draw.floats(n_blocks, 2, half, 2)
        # Frequencies may repeat; those add up.
        constants = run.constant(X, factors, phases, draw.places(n_points, n_blocks, half))
        yield run("fourier_blocks", *constants, n_points, *run.constant(draw.floats(s)))


@example("signed_sums")
def signed_sums(run, draw):
    for d, s in [(1, 1), (7, 5), (20, 33)]:
        bounds = np.concatenate([[0], np.cumsum(draw.places(4, 2 * s))]).astype(np.intp)
        indices = draw.places(d, int(bounds[-1])).astype(np.int32)
        yield run("signed_sums", *run.constant(draw.floats(draw.rows, d), indices, bounds))


@example("sparse_product")
def sparse_product(run, draw):
    for d, s, q in [(1, 1, 1), (7, 5, 2), (20, 33, 3), (9, 13, 5)]:
        columns, entries = draw.places(d, q, s), draw.floats(q, s)
        yield run("sparse_product", *run.constant(draw.floats(draw.rows, d), columns, entries))


@example("ternary_product")
def ternary_product(run, draw):
    for d, s, pairs in [(1, 1, 1), (7, 5, 1), (21, 33, 3)]:
        codes = draw.places(81, s, 2 * pairs).astype(np.uint8)
        yield run("ternary_product", *run.constant(draw.floats(draw.rows, d), codes))


@example("countsketch")
def countsketch(run, draw):
    for d, copies, width in [(1, 1, 3), (9, 3, 5), (40, 2, 7)]:
        X = draw.floats(draw.rows, d) * (draw.floats(draw.rows, d) > 0)
        buckets, signs = run.constant(draw.places(width, d, copies), draw.signs(d, copies).astype(draw.dtype))
        for rows in [X] if run.ops.backend == "torch" else [X, sparse.csr_array(X)]:
            [out] = run.constant(draw.out(width + 3))
            run("countsketch", rows if sparse.issparse(rows) else run.constant(rows)[0], buckets, signs, width, out, 2)
            yield out


@example("gather_product")
def gather_product(run, draw):
    for rows_a, rows_b in [(draw.rows, draw.rows), (1, draw.rows), (draw.rows, 1)]:
        A, B, out = run.constant(draw.floats(rows_a, 6), draw.floats(rows_b, 9), draw.out(14))
        columns = run.constant(draw.places(6, 11), draw.places(9, 11))
        run("gather_product", A, columns[0], B, columns[1], 0.3, out, 2)
        yield out


@example("outer")
def outer(run, draw):
    A, B, out = run.constant(draw.floats(draw.rows, 3), draw.floats(draw.rows, 5), draw.out(18))
    run("outer", A, B, out, 2)
    yield out


@example("convolution_transforms", "convolutions")
def convolutions(run, draw):
    for d, length, offset, s in [(1, 2, 0, 5), (7, 10, 3, 20), (30, 30, 29, 3)]:
        X, factors, generators, scale = run.constant(
            draw.floats(draw.rows, d), draw.floats(d), draw.floats(3, length), draw.floats(s)
        )
        transformed = run("convolution_transforms", X, factors, length)
        yield run("convolutions", transformed, draw.rows, generators, offset, scale)


@example("product_factor", "fourier_product", "next_product_factor")
def fourier_products(run, draw):
    for rows_b in (draw.rows, 1):
        for d, length, k, following in [(1, 1, 1, 2), (7, 9, 5, 10), (12, 12, 11, 27)]:
            X, Y, signs = run.constant(draw.floats(draw.rows, d), draw.floats(rows_b, d), draw.signs(length))
            A, B = run("product_factor", X, signs), run("product_factor", Y, signs)
            columns = run.constant(draw.places(length // 2 + 1, k), draw.places(length // 2 + 1, k))
            turns = run.constant(draw.signs(k), draw.signs(k))
            samples = A, columns[0], turns[0], B, columns[1], turns[1], 0.3
            [out] = run.constant(draw.out(2 * k + 3))
            run("fourier_product", samples, out, 2)
            yield out
            C = run("next_product_factor", samples, *run.constant(draw.signs(following)))
            again, orientations = run.constant(draw.places(following // 2 + 1, 8), draw.signs(8))
            [out] = run.constant(draw.out(16))
            run("fourier_product", (C, again, orientations, C, again, orientations, 1.0), out)
            yield out


@example("signed_transforms", "fourier_chain")
def fourier_chain(run, draw):
    for d, length, degree, k in [(1, 1, 1, 1), (7, 9, 3, 5), (12, 12, 4, 9)]:
        X, signs = run.constant(draw.floats(draw.rows, d), draw.signs(4, length))
        transformed = run("signed_transforms", X, signs)
        rows, turns = run.constant(draw.places(length // 2 + 1, degree, k), draw.signs(degree, k))
        [out] = run.constant(draw.out(2 * k + 3))
        run("fourier_chain", transformed, rows, turns, 0.3, out, 2)
        yield out


@example("kernel_matrix")
def kernel_matrix(run, draw):
    X, landmarks = run.constant(draw.floats(max(draw.rows, 1), 3), draw.floats(4, 3))
    yield run("kernel_matrix", pm.kernels.Gaussian(), X, landmarks)


@example("sums_of_differences")
def sums_of_differences(run, draw):
    for d in (1, 4, 7):
        X, landmarks = run.constant(draw.floats(max(draw.rows, 1), d), draw.floats(5, d))
        for power in (1, 2):
            yield run("sums_of_differences", X, landmarks, power)


@example("piecewise_linear")
def piecewise_linear(run, draw):
    knots = np.array([[-1.0, 0.0, 0.5], [2.0, 2.0, 2.0]])
    inverses, levels = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 3.0, 3.0], [5.0] * 4])
    constants = run.constant(*(part.astype(draw.dtype) for part in (knots, inverses, levels)))
    [X] = run.constant(
        np.concatenate([draw.floats(max(draw.rows, 1), 2), [[-1e30, 2], [0.5, 1e30]]]).astype(draw.dtype)
    )
    yield run("piecewise_linear", X, *constants)


@example("windows")
def windows(run, draw):
    for height, width, size, d, exact, folded in [(1, 1, 3, 4, 1, 2), (3, 5, 3, 7, 2, 3), (4, 2, 5, 3, 3, 0)]:
        F, signs = draw.floats(2 * height * width, d), draw.signs(size**2, d - exact).astype(draw.dtype)
        for part in (slice(None), slice(1, 1 + min(draw.rows, len(F) - 1))):
            F_here, signs_here = run.constant(F, signs)
            yield run("windows", F_here, (height, width), part, size, exact, signs_here, folded)


@example("pixel_pairs")
def pixel_pairs(run, draw):
    for height, width, size, flat, fold in [(1, 1, 1, False, 0.5), (3, 5, 3, False, 0.2), (4, 3, 5, True, 1.0)]:
        X, Y = (draw.floats(n, 2, height, width) for n in (2, 3))
        X[0, :, :2] = 0
        inverse = [inverse_roots(images, 3, size) for images in (X, Y)]
        pairs = draw.rng.integers((2, 3), size=(draw.rows, 2))
        yield run("pixel_pairs", *run.constant(X, Y, *inverse), size, flat, fold, pairs)


@example("folded_layers")
def folded_layers(run, draw):
    angles = np.pi * draw.rng.uniform(size=(draw.rows, 3))
    # Equal, opposite, nearly equal and nearly opposite rows.
    for column, near in enumerate([(0.0, np.pi, 1e-5), (1e-9, np.pi - 1e-5)]):
        angles[: len(near), column] = near[: draw.rows]
    for fold, depth, is_tangent in [(0.5, 3, True), (0.4, 2, False), (1.0, 2, True)]:
        yield run("folded_layers", *run.constant(angles.astype(draw.dtype)), fold, depth, is_tangent)


@example("product_shapley", "product_pairs", "phase_shapley", "phase_pairs")
def shapley_sums(run, draw):
    width = 64 // np.dtype(draw.dtype).itemsize
    for groups, n_background, p, n_nodes in [(1, 1, 1, 1), (2, 3, 4, 2), (1, 2, 7, 3)]:
        rule = tuple(run.constant(draw.rng.uniform(size=n_nodes), draw.rng.uniform(size=n_nodes)))
        angles = [draw.floats(groups, n, p, width) for n in (draw.rows, n_background)]
        sums = [part.sum(axis=2) for part in angles]
        factors = run.constant(*(abs(part) for part in angles))
        yield run("product_shapley", *factors, rule)
        yield run("product_pairs", *factors, rule)
        halves = [
            tuple(run.constant(np.cos(part), np.sin(part), np.cos(whole), np.sin(whole)))
            for part, whole in zip(angles, sums, strict=True)
        ]
        # The compiled loop visits the nodes 0 and 1 apart.
        for ends in [(), (0.0, 1.0)]:
            nodes = np.append(draw.rng.uniform(size=n_nodes), ends)
            yield from run("phase_shapley", *halves, tuple(run.constant(nodes, draw.rng.uniform(size=nodes.size))))
        yield from run("phase_pairs", *halves, rule)


@example("power_sums")
def power_sums(run, draw):
    for k in (1, 2, 7, 12):
        left, right, cosine = run.constant(
            *(draw.floats(draw.rows, 2, 3, k) for _ in range(2)), draw.floats(draw.rows, 2, 3)
        )
        yield run("power_sums", left, right, cosine.clip(-1, 1))
        # Parts of planes, as displacements have them.
        yield run("power_sums", left[:, 1:, :2], right[:, :1, 1:], 0.3 * abs(left[:, 1:, :2, 0]).clip(0, 1))


@example("cos_sin", "cos_shift")
def cosines(run, draw):
    for k in (1, 13):
        # Some projections are beyond what compiled code reduces.
        for size in (3.0, 1e5 if draw.dtype is np.float32 else 1e9):
            values = (size * draw.floats(draw.rows, k)).astype(draw.dtype)
            projected, shift, scale, out = run.constant(values, draw.floats(k), draw.floats(k), draw.out(2 * k + 5))
            run("cos_sin", projected, scale, out, 1, k + 1)
            yield out
            # A large sum rounds by much of a turn.
            shift = shift if size < 10 else 0 * shift
            [out] = run.constant(draw.out(k + 3))
            run("cos_shift", projected, shift, scale, out, 1)
            yield out


@example("cos_sin_slopes")
def slopes_of_cosines(run, draw):
    for k in (1, 13):
        features, slopes, out = run.constant(draw.floats(draw.rows, 2 * k), draw.floats(draw.rows, 2 * k), draw.out(k))
        run("cos_sin_slopes", features, slopes, out)
        yield out


@example("rectify", "interpolate", "activate")
def activations(run, draw):
    for k in (1, 13):
        projected, scale, table = run.constant(draw.floats(draw.rows, k), draw.floats(k), draw.floats(8))
        calls = [("rectify", (order,)) for order in (0, 1, 2)]
        calls += [("activate", (name,)) for name in (*NAMES, lambda x: x * x)]
        # Beyond the table, projections meet its ends.
        calls.append(("interpolate", (table, 1.5)))
        for name, arguments in calls:
            [out] = run.constant(draw.out(k + 3))
            run(name, projected, *arguments, scale, out, 2)
            yield out


@example("write_ternary")
def write_ternary(run, draw):
    projected, lower, upper = run.constant(*np.split(draw.floats(draw.rows + 2, 13), [draw.rows, draw.rows + 1]))
    for below, closed in [(None, False), (lower[0] - 1, False), (projected[0] if draw.rows else lower[0], True)]:
        [out] = run.constant(draw.out(16))
        run("write_ternary", projected, below, upper[0] + 1, closed, 0.3, out, 2)
        yield out


@example("pack_ternary")
def pack_ternary(run, draw):
    for n_planes, first, k in [(1, 0, 130), (2, 60, 9), (2, 3, 70)]:
        values, thresholds = draw.floats(draw.rows, k), draw.floats(2, k)
        values[:1] = thresholds[0]
        for closed in (False, True):
            planes = np.zeros((n_planes, draw.rows, 3), np.uint64)
            constants = run.constant(values, thresholds[0], thresholds[0] + abs(thresholds[1]))
            run("pack_ternary", *constants, closed, planes, first)
            yield planes


@example("row_keys", "pack_rounded", "pack_nearest")
def rounding(run, draw):
    X = draw.floats(draw.rows, 9) * (draw.floats(draw.rows, 9) > 0)
    [rows] = run.constant(X)
    keys = run("row_keys", rows)
    yield keys
    if run.ops.backend == "numpy":
        yield run("row_keys", sparse.csr_array(X)) - keys
    dither = draw.rng.integers(0, 2**64, 70, dtype=np.uint64)
    [Z] = run.constant(draw.rng.uniform(-0.5, 0.5, (draw.rows, 70)).astype(draw.dtype))
    for n_bits in (1, 2, 8):
        planes = np.full((n_bits, draw.rows, 2), 7, np.uint64)
        run("pack_rounded", Z, keys, dither, 0.5, planes)
        yield planes.copy()
        run("pack_nearest", Z, 0.4, planes)
        yield planes


@example("add_tree_values")
def trees(run, draw):
    for d, n_splits, t in [(1, 0, 1), (3, 4, 1), (5, 7, 2)]:
        # Tree by tree a chain of splits, of which one side is a leaf; the last tree is a leaf.
        splits = np.arange(n_splits)
        children = np.stack([-1 - splits, np.append(splits[1:], -1 - n_splits)[:n_splits]], axis=1)
        roots = np.array([*splits[:3], -1])
        rows, out = draw.floats(draw.rows, d).astype(float), draw.rng.standard_normal((draw.rows, t))
        thresholds = np.append(rows[:1, :1], draw.floats(n_splits)).astype(draw.dtype)[:n_splits]
        places = draw.places(d, n_splits).astype(np.int32), thresholds, children.astype(np.int32)
        run("add_tree_values", rows, *places, draw.floats(n_splits + 1, t), roots.astype(np.int32), out)
        yield out


@example("grow_tree")
def grown_trees(run, draw):
    n = 20 * draw.rows
    for d, n_leaves, t in [(1, 2, 1), (3, 5, 3), (6, 64, 2)]:
        # Counts with a common bin, a constant column, and numbers.
        n_bins = np.resize([3, 1, 40], d)
        codes = np.minimum(draw.rng.poisson(0.3 * n_bins[:, None] ** 1.2, (d, n)), n_bins[:, None] - 1)
        rows = BinnedRows.of(codes.astype(np.uint8), n_bins)
        limits, sums = TreeLimits(n_leaves, 4, 0.5, 0.1, 0.3), draw.rng.standard_normal((n, t))
        along = draw.rng.standard_normal(n), draw.rng.random(n)
        by_target = draw.rng.standard_normal((n, t)), draw.rng.random((n, t))
        yield from run("grow_tree", rows, *along, *by_target, limits, sums)
        yield sums


@example("class_derivatives")
def log_loss_derivatives(run, draw):
    for t in (2, 3, 20):
        exponentials, labels = (
            np.exp(3 * draw.floats(draw.rows, t)),
            draw.rng.integers(t, size=draw.rows, dtype=np.int32),
        )
        gradients, hessians = np.empty_like(exponentials), np.empty_like(exponentials)
        run("class_derivatives", exponentials, exponentials.sum(axis=1), labels, gradients, hessians)
        yield from (gradients, hessians)


@example("mondrian_leaves", "grid_cells", "write_cells")
def partitions(run, draw):
    for d, n in [(1, 1), (3, 5), (9, 4)]:
        # Rows, boxes and grids are float64 on the host. One side of the box has no length, some rows are corners.
        upper, keys = 4 * abs(draw.floats(d)).astype(float), draw.rng.integers(0, 2**64, n, dtype=np.uint64)
        upper[1:2] = 0.0
        rows = draw.rng.uniform(-upper, upper, (draw.rows, d))
        rows[:1], rows[1:2] = upper, -upper
        yield run("mondrian_leaves", rows, -upper, upper, keys)
        # Neighbouring numbers are many units apart.
        yield run("mondrian_leaves", 1e17 + 1e4 * rows, 1e17 - 1e4 * upper, 1e17 + 1e4 * upper, keys)
        factors, offsets = draw.rng.exponential(size=(2, n, d))
        for scale in (1.0, 1e25):
            yield run("grid_cells", scale * rows, factors, offsets, keys)
        cells = draw.rng.integers(0, 2**64, (draw.rows, n), dtype=np.uint64)
        for each, width in ((1, n), (8, 8 * n - 3)):
            [out] = run.constant(draw.out(width + 3))
            run("write_cells", cells, each, width, 0.3, out, 2)
            yield out


@example("coded", "write_products")
def bit_products(run, draw):
    for n_planes in (1, 2):
        left, right = draw.planes(n_planes, draw.rows, 3), draw.planes(n_planes, 35, 3)
        codes = run("coded", list(right))
        affine = 2.0, draw.floats(draw.rows).astype(float), draw.floats(33).astype(float), 0.5
        out, image = np.empty((draw.rows, 33), draw.dtype), np.empty((33, draw.rows), draw.dtype)
        run("write_products", list(left), codes, 2, affine, out)
        yield out
        run("write_products", list(left), codes, 2, affine, out, image)
        yield from (out, image)


@example("unpack", "transpose_bits", "count_ones")
def bit_planes(run, draw):
    planes = draw.planes(2, draw.rows, 3)
    out = np.empty((draw.rows, 70), draw.dtype)
    run("unpack", planes, np.array([0.5, -2], draw.dtype), draw.dtype(0.25), 64, out)
    yield out
    transposed = np.empty((130, -(-draw.rows // 64)), np.uint64)
    run("transpose_bits", planes[0], transposed)
    yield transposed
    yield run("count_ones", planes[0])
