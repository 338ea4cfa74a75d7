"""PolySketch: trees of products, equal to their own definition node by node; unbiased in every form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import phimap as pm
from phimap.ops import host, ops_for
from phimap.ops.numpy_ops import NumpyOps
from phimap.ops.primitives.fourier_products import next_product_factor, product_factor
from phimap.sketches import OSNAP, PolySketch, TensorSketch
from phimap.sketches.countsketch import CountSketchRecord
from phimap.sketches.polysketch import PolySketchRecord
from tests.support.statistics import FALSE_ALARM, enough_samples, is_at_most, is_mean

OPS = host()
FORMS = ["fourier", "hadamard"]
LEAVES = ["none", "srht", "osnap", "countsketch"]


def unit_rows(rng, n, d):
    X = rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def by_definition(record, vectors):
    """The root of the tree, every node from its two factors alone."""

    def vector(index):
        if index < 0:
            X = vectors[-1 - index]
            if not record.tree.leaves:
                return X
            out = np.empty((X.shape[0], record.tree.leaves[-1 - index].n_components))
            record.tree.leaves[-1 - index].apply(OPS, X, out)
            return out
        node = record.tree.nodes[index]
        transforms = []
        for factor in (node.left, node.right):
            signs = record.tree.leaf_signs if factor < 0 else record.tree.nodes[factor].signs
            transforms.append(node.samples.transform(OPS, vector(factor), signs))
        return node.samples.product(OPS, *transforms)

    return vector(len(record.tree.nodes) - 1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("degree", [1, 2, 3, 4, 7, 11])
def test_all_cases_equal_the_product_one_at_a_time(degree, leaf, form, rng):
    X = unit_rows(rng, 4, 6)
    record = PolySketch(21, degree=degree, inner_components=16, leaf=leaf, form=form).sample(6, rng)
    cases = record.apply_all(OPS, X)
    assert len(cases) == degree + 1
    unit = np.eye(1, 6)
    for n_units, features in enumerate(cases):
        held = record.unit_factors(n_units)
        assert held.shape == (degree,)
        assert held.sum() == n_units
        alone = record.apply_product(OPS, [unit if has_unit else X for has_unit in held])
        assert alone.shape == (1 if held.all() else 4, 21)
        np.testing.assert_array_equal(features, alone)
        # A unit vector in every row is the same as one that serves all.
        full = [np.repeat(unit, 4, axis=0) if has_unit else X for has_unit in held]
        np.testing.assert_array_equal(np.broadcast_to(features, (4, 21)), by_definition(record, full))


@pytest.mark.parametrize("form", FORMS)
def test_all_cases_take_few_transforms(form, rng):
    """A single power takes p - 1 transforms, p - 2 of them of inner nodes; all cases at most twice as many."""
    X = unit_rows(rng, 4, 6)
    for degree in (2, 3, 5, 8, 20, 32):
        record = PolySketch(8, degree=degree, form=form).sample(6, rng)
        counts = []
        with pytest.MonkeyPatch.context() as patch:

            def counted(original, counts=counts):
                def count(*arguments):
                    result = original(*arguments)
                    counts.append(result.shape[0])
                    return result

                return count

            if form == "hadamard":
                patch.setattr(NumpyOps, "fwht", counted(NumpyOps.fwht))
            else:
                for one in (product_factor, next_product_factor):
                    patch.setitem(one.overrides, "numpy", counted(one.overrides["numpy"]))
            record.apply_product(OPS, [X] * degree)
            single = len(counts)
            counts.clear()
            record.apply_all(OPS, X)
            every = sum(rows == 4 for rows in counts)
        assert single == degree - 1
        assert single <= every <= 2 * single
        # Replacing one leaf after the other transforms a path for each.
        if degree >= 8:
            assert every < degree * np.log2(degree) / 2 + single


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_products_of_different_vectors(leaf, form, rng):
    """Exact by definition; unbiased at false-alarm rate 1e-6, the mutant being two factors exchanged."""
    first, second = unit_rows(rng, 2, 5), unit_rows(rng, 2, 5)
    third = unit_rows(rng, 2, 5) + 1
    sketch = PolySketch(12, degree=3, leaf=leaf, form=form)
    samples = []
    for seed in range(1000):
        record = sketch.sample(5, np.random.default_rng(seed))
        Z = record.apply_product(OPS, [first, second, third])
        if seed < 3:
            np.testing.assert_array_equal(Z, by_definition(record, [first, second, third]))
        samples.append([Z[0] @ Z[1], Z[0] @ Z[0]])
    exact = [np.prod([V[0] @ V[i] for V in (first, second, third)]) for i in (1, 0)]
    assert is_mean(np.array(samples), np.array(exact))
    assert not is_mean(np.array(samples), np.array([exact[0], (first[0] @ first[0]) ** 2 * (second[0] @ second[0])]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("leaf", ["none", "osnap", "countsketch"])
@pytest.mark.parametrize("widths", [{2: 40, 4: 30, 8: 21}, {2: 9, 3: 20, 5: 11, 6: 7}, {7: 30}])
def test_every_power_of_a_shared_tree_is_unbiased(widths, leaf, form):
    """False-alarm rate 1e-6; mutants: the next power, and a weight left out."""
    X = 1 + 0.4 * np.random.default_rng(5).standard_normal((3, 6))
    X[2] *= -1
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    weights = {degree: 1 / degree for degree in widths}

    def products(seed):
        sketch = PolySketch(inner_components=32, leaf=leaf, form=form)
        record = sketch.sample_powers(6, widths, np.random.default_rng(seed), weights)
        assert record.degrees == tuple(sorted(widths))
        assert dict(zip(record.degrees, record.widths, strict=True)) == widths
        out = np.empty((3, 1 + record.n_components))
        record.apply(OPS, X, out, 1)
        parts = np.split(out[:, 1:], np.cumsum(record.widths)[:-1], axis=1)
        return [part @ part.T for part in parts]

    exact = np.array([weights[degree] * (X @ X.T) ** degree for degree in sorted(widths)])
    mutants = exact * (X @ X.T), exact * np.array(sorted(widths))[:, None, None]
    samples = enough_samples(
        lambda seeds: np.array([products(seed) for seed in seeds]),
        lambda few: any(is_mean(few, mutant) for mutant in mutants),
    )
    assert is_mean(samples, exact, FALSE_ALARM / 2)
    assert not any(is_mean(samples, mutant) for mutant in mutants)


def test_factors_of_a_product_share_no_sample():
    """Where they would, the power of an estimate would take the place of a product of independent ones."""
    for widths in ({2: 4, 4: 4, 8: 4}, dict.fromkeys(range(2, 12), 4), {2: 3, 9: 4}):
        tree = PolySketch(leaf="none").sample_powers(6, widths, np.random.default_rng(0)).tree
        below: list[set[int]] = []
        for number, node in enumerate(tree.nodes):
            left, right = (below[i] if i >= 0 else set() for i in (node.left, node.right))
            assert not left & right
            below.append(left | right | {number})


@pytest.mark.parametrize("leaf", LEAVES)
def test_sparse_rows_and_tensors_get_the_same_map(leaf, rng):
    torch = pytest.importorskip("torch")
    X = rng.standard_normal((7, 40)) * (rng.random((7, 40)) < 0.2)
    dense = PolySketch(16, degree=5, leaf=leaf, random_state=1).fit(X)
    rows = PolySketch(16, degree=5, leaf=leaf, random_state=1).fit(sparse.csr_matrix(X))
    expected = dense.transform(X)
    atol = 1e-12 * np.abs(expected).max()
    np.testing.assert_allclose(rows.transform(sparse.csr_matrix(X)), expected, atol=atol)
    np.testing.assert_allclose(dense.transform(torch.tensor(X)).numpy(), expected, atol=atol)
    ops, record = ops_for(torch.tensor(X)), dense.record_
    assert isinstance(record, PolySketchRecord)
    for case, tensor in zip(record.apply_all(OPS, X), record.bind(ops).apply_all(ops, torch.tensor(X)), strict=True):
        np.testing.assert_allclose(tensor.numpy(), case, atol=1e-10 * max(1, np.abs(case).max()))


def test_leaves_are_chosen_by_width_alone(rng):
    narrow, wide = (PolySketch(16, degree=2).sample(d, rng).tree for d in (128, 129))
    assert narrow.leaves == ()
    assert [leaf.n_components for leaf in wide.leaves] == [16, 16]
    assert PolySketch(16, degree=1).sample(200, rng).n_components == 16


def test_degree_one_is_a_sketch_of_the_vector(rng):
    X = rng.standard_normal((5, 8))
    Z = PolySketch(8, degree=1, random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, atol=1e-12 * np.abs(X @ X.T).max())
    osnap = PolySketch(8, degree=1, leaf="osnap", random_state=0).fit(X)
    assert isinstance(osnap.record_, PolySketchRecord)
    leaf = osnap.record_.tree.leaves[0]
    assert isinstance(leaf, CountSketchRecord)
    assert leaf.buckets.shape == OSNAP(8).sample(8, rng).buckets.shape


@pytest.mark.parametrize("form", FORMS)
def test_variance_grows_linearly_with_the_degree(form, rng, seed):
    """Bound ``(1 + c / m)^(p - 1) - 1`` at equal vectors, c = 6 or 8.

    False-alarm rate 1e-6; mutant: nodes thirty times as wide.
    """
    x = 1 + 0.2 * rng.standard_normal((1, 64))
    x /= np.linalg.norm(x)
    m, c = 64, {"fourier": 6, "hadamard": 8}[form]
    streams = np.random.default_rng(seed)
    for degree in (2, 9):
        sketch = PolySketch(m, degree=degree, form=form)
        norms = [np.sum(sketch.sample(64, streams).apply_product(OPS, [x] * degree) ** 2) for _ in range(500)]
        squares = (np.array(norms) - 1) ** 2
        assert is_at_most(squares, (1 + c / m) ** (degree - 1) - 1)
        assert not is_at_most(squares, (1 + c / (30 * m)) ** (degree - 1) - 1)


def test_high_degrees_err_far_less_than_tensorsketch(rng, seed):
    """Degree 20, rows near each other: the variance of TensorSketch grows like 3^p, that of the tree like p.

    The root mean square of the relative errors is measured to be a tenth; asked for is a third.
    """
    X = 1 + 0.2 * rng.standard_normal((20, 50))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    K = (X @ X.T) ** 20
    errors = {}
    for sketch in (PolySketch(1024, degree=20), TensorSketch(1024, degree=20)):
        draws = [sketch.set_params(random_state=seed + i).fit_transform(X) for i in range(12)]
        errors[type(sketch)] = np.sqrt(np.mean([np.sum((Z @ Z.T - K) ** 2) for Z in draws])) / np.linalg.norm(K)
    assert errors[PolySketch] < errors[TensorSketch] / 3
    # And about what the bound of its variance says, sqrt(6 * 19 / 1024).
    assert errors[PolySketch] < 1.2 * np.sqrt(6 * 19 / 1024)


def test_parameters_are_checked():
    X = np.ones((2, 3))
    with pytest.raises(ValueError, match=r"`degree` must be at least 1, got 0"):
        PolySketch(4, degree=0).fit(X)
    with pytest.raises(
        ValueError, match=r"`leaf` must be one of 'auto', 'none', 'srht', 'osnap', 'countsketch', got 'fft'"
    ):
        PolySketch(4, leaf="fft").fit(X)
    with pytest.raises(ValueError, match=r"`form` must be one of 'fourier', 'hadamard', got 'dct'"):
        PolySketch(4, form="dct").fit(X)
    with pytest.raises(ValueError, match=r"`inner_components` must be at least 1, got 0"):
        PolySketch(4, inner_components=0).fit(X)
    with pytest.raises(ValueError, match=r"`widths` must name degrees from 2 on, got \[1, 2\]"):
        PolySketch().sample_powers(3, {1: 4, 2: 4}, np.random.default_rng(0))


def test_zero_stays_zero():
    X = np.zeros((3, 5))
    for leaf in LEAVES:
        assert not PolySketch(8, degree=3, leaf=leaf, random_state=0).fit_transform(X).any()
    assert isinstance(PolySketch(8, degree=3).fit(X).kernel_, pm.kernels.Polynomial)
