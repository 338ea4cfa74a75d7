"""Operations and bytes that projections declare: counted where a count is exact, and growing as the structure says."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.kernels import GaussianLaw
from phimap.projections import REGISTRY, SparseSign

DENSE = ["gaussian", "orthogonal", "moment-matching", "qmc", "simplex", "gauss-quadrature"]
FAST = ["rom", "sorf", "fastfood", "circulant", "p-model", "ssf"]


def draw(projection, d, s):
    return projection.sample(GaussianLaw(d), s, np.random.default_rng(0))


@pytest.mark.parametrize("name", DENSE)
def test_stored_directions_take_a_product(name):
    record = draw(REGISTRY[name](), 20, 33)
    assert record.n_flops == 2 * 20 * 33
    assert record.n_bytes == 20 * 33 * 8


def test_signs_take_one_addition_each():
    record = draw(SparseSign(0.9), 50, 40)
    assert record.n_flops == 50 + np.count_nonzero(record.to_dense())
    assert record.n_bytes == 8 * 50 + 4 * (record.n_flops - 50) + 8 * (2 * 40 + 1)


def test_four_coded_signs_take_one_addition():
    record = draw(SparseSign(0.75), 50, 40)
    assert record.n_flops == 50 + 14 * 40
    assert record.n_bytes == 8 * 50 + 14 * 40


def test_a_hadamard_chain_takes_its_additions():
    # Two blocks of three factors, each 16 signs and 4 rounds of 16 additions, then 20 factors of directions.
    assert draw(REGISTRY["sorf"](), 10, 20).n_flops == 10 + 2 * 3 * (16 + 4 * 16) + 20


@pytest.mark.parametrize("name", FAST)
def test_structure_is_cheap_in_operations_and_bytes(name):
    small, large = draw(REGISTRY[name](), 512, 1024), draw(REGISTRY[name](), 2048, 4096)
    assert large.n_flops < 2 * 2048 * 4096 / 10
    # O(s log d) where the product takes O(s d), sixteen times as much.
    assert 3.5 * small.n_flops < large.n_flops < 6 * small.n_flops
    assert large.n_bytes <= 40 * (2048 + 4096)
