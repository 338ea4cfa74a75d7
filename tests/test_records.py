"""Records: registered by name, frozen, bound to backends, compared."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest

import phimap as pm
from phimap.ops import host
from phimap.records import Record, equal_records
from tests.support.families import MAPS


@dataclass(frozen=True)
class Leaf(Record):
    values: np.ndarray
    indices: np.ndarray
    signs: np.ndarray


@dataclass(frozen=True)
class Tree(Record):
    leaf: Leaf
    pair: tuple[np.ndarray, Leaf]
    name: str
    width: int
    nothing: None = None


def leaf(value: float = 0.1) -> Leaf:
    return Leaf(np.array([value, 2.0]), np.arange(3, dtype=np.intp), np.array([1, -1], dtype=np.int8))


def tree(value: float = 0.1) -> Tree:
    return Tree(leaf(), (np.array([value]), leaf(value)), "t", 3)


@pytest.fixture
def registry(monkeypatch):
    """A copy of the registry, so that classes made in a test are forgotten."""
    monkeypatch.setattr(Record, "registry", dict(Record.registry))
    return Record.registry


def test_records_are_registered_by_their_name():
    assert Record.registry["Leaf"] is Leaf
    for phi in MAPS.values():
        record = phi.fit(np.eye(5), np.arange(5.0)).record_
        assert Record.registry[type(record).__name__] is type(record)


def test_two_records_of_one_name_are_refused(registry):
    with pytest.raises(TypeError, match="a record named FourierRecord exists already"):
        type("FourierRecord", (Record,), {})
    assert registry["FourierRecord"].__module__ == "phimap.features.fourier"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_binding_turns_values_into_the_dtype_of_the_backend(dtype):
    original = tree()
    bound = original.bind(host(dtype))
    assert type(bound) is Tree
    assert (bound.name, bound.width, bound.nothing) == ("t", 3, None)
    for part in (bound.leaf, bound.pair[1]):
        assert (part.values.dtype, part.indices.dtype, part.signs.dtype) == (dtype, np.intp, np.int8)
    assert bound.pair[0].dtype == dtype
    assert original.leaf.values.dtype == np.float64
    np.testing.assert_array_equal(bound.leaf.values, original.leaf.values.astype(dtype))


def test_binding_to_tensors():
    torch = pytest.importorskip("torch")
    from phimap.ops import ops_for

    bound = tree().bind(ops_for(torch.zeros(1, 1, dtype=torch.float32)))
    assert bound.leaf.values.dtype == torch.float32
    assert bound.pair[1].signs.dtype == torch.int8


def test_what_is_no_dataclass_cannot_be_bound(registry):
    plain = type("PlainRecord", (Record,), {})()
    with pytest.raises(TypeError, match="PlainRecord must be a frozen dataclass"):
        plain.bind(host())


@pytest.mark.parametrize("name", MAPS)
def test_maps_are_frozen(name):
    record = MAPS[name].fit(np.eye(5), np.arange(5.0)).record_
    with pytest.raises(FrozenInstanceError):
        record.n_extra = 1


def test_equality_is_that_of_all_values():
    assert equal_records(tree(), tree())
    assert not equal_records(tree(), tree(0.2))
    assert not equal_records(tree(), leaf())
    assert not equal_records(leaf().values, 0.1)
    assert not equal_records((1, 2), (1, 2, 3))
    assert equal_records(pm.kernels.Gaussian(), pm.kernels.Gaussian())
    assert not equal_records(pm.kernels.Gaussian(), pm.kernels.Gaussian(length_scale=2.0))


def test_equal_seeds_draw_equal_records():
    for phi in MAPS.values():
        one, two = (phi.fit(np.eye(5), np.arange(5.0)).record_ for _ in range(2))
        assert equal_records(one, two)
