"""Named streams and the uniforms of rows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

from phimap._random import named_streams, row_uniforms
from tests.support.statistics import follows


def first(random_state, *roles, role="a"):
    return named_streams(random_state, *roles)[role].random(4).tolist()


def test_a_stream_depends_on_its_name_and_not_on_the_others():
    alone = first(7, "a")
    assert first(7, "a", "b") == first(7, "b", "a") == first(7, "c", "b", "a") == alone
    assert first(7, "b", role="b") != alone
    assert first(8, "a") != alone
    # Names that begin alike are different names.
    assert first(7, "ab", role="ab") != alone


def test_equal_seeds_of_all_kinds_repeat():
    kinds = [
        lambda: 5,
        lambda: np.int64(5),
        lambda: np.random.default_rng(5),
        lambda: np.random.RandomState(5),
        lambda: np.random.SeedSequence(5),
        lambda: np.random.SeedSequence(5, spawn_key=(1, 2)),
    ]
    for kind in kinds:
        assert first(kind(), "a") == first(kind(), "a")
    assert first(5, "a") == first(np.int64(5), "a") == first(np.random.SeedSequence(5), "a")
    assert first(kinds[5](), "a") != first(5, "a")


def test_generators_are_advanced_once_whatever_the_roles():
    for make in (np.random.default_rng, np.random.RandomState):
        one, two = make(5), make(5)
        before = first(one, "a")
        named_streams(two, "a", "b", "c")
        assert first(one, "a") == first(two, "a") != before


def test_seed_sequences_are_not_spent():
    root = np.random.SeedSequence(5)
    assert first(root, "a") == first(root, "a")
    assert root.n_children_spawned == 0


def test_none_is_fresh_entropy_and_not_the_global_state():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    one = first(None, "a")
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    assert first(None, "a") != one


@pytest.mark.parametrize("bad", ["5", 5.0, True, [1, 2], np.random])
def test_other_kinds_of_seeds_are_refused(bad):
    with pytest.raises(TypeError, match="`random_state` must be an int, Generator"):
        named_streams(bad, "a")


def test_negative_seeds_are_refused():
    with pytest.raises(ValueError, match="`random_state` must not be negative, got -1"):
        named_streams(-1, "a")


def test_large_seeds_are_seeds():
    assert first(2**70, "a") != first(2**70 + 1, "a")


def test_row_uniforms_do_not_depend_on_the_cut():
    whole = row_uniforms(0, 100, seed=3)
    assert whole.dtype == np.float64
    parts = [row_uniforms(0, 1, 3), row_uniforms(1, 59, 3), row_uniforms(60, 40, 3), row_uniforms(100, 0, 3)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def is_uniform(u):
    """KS on the values, on neighbours and on ten times them: three tests of 1e-6."""
    if np.unique(u).size < 0.99 * u.size:
        return False
    spread = (u + np.roll(u, 1)) % 1
    return all(follows(v, stats.uniform.cdf) for v in (u, spread, (10 * u) % 1))


@pytest.mark.parametrize("offset", [0, 10**9, 2**63])
def test_row_uniforms_are_uniform(offset, seed):
    """False-alarm rate 3e-6; mutants: a ramp, squares, and values that come in pairs."""
    u = row_uniforms(offset, 20_000, seed)
    assert ((u >= 0) & (u < 1)).all()
    assert is_uniform(u)
    assert not is_uniform(np.linspace(0, 1, 20_000, endpoint=False) / 1.05)
    assert not is_uniform(u**2)
    assert not is_uniform(np.repeat(u[::2], 2))


def test_seeds_give_streams_that_are_not_shifts_of_each_other():
    """False-alarm rate 2e-6: the correlation of two streams, lined up or shifted by a row."""
    one, two = row_uniforms(0, 20_000, 1), row_uniforms(0, 20_000, 2)
    assert stats.pearsonr(one, two).pvalue > 1e-6
    assert stats.pearsonr(one[1:], two[:-1]).pvalue > 1e-6
    assert np.intersect1d(one, two).size == 0
    # Mutant: a stream that is the other one, shifted.
    assert stats.pearsonr(one[1:], np.roll(one, -1)[:-1]).pvalue < 1e-6


def test_wrapping_seeds_and_rows_warn_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        row_uniforms(2**64 - 5, 3, seed=2**64 - 1)
        np.testing.assert_array_equal(row_uniforms(0, 3, -1), row_uniforms(0, 3, 2**64 - 1))
