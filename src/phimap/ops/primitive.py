"""Primitives: fused operations. Each has a generic body in core operations, and faster overrides for some backends.

A file of `phimap.ops.primitives` defines one primitive, or a few that are only used together. It has the contract, the
generic body, which every backend without an override uses, and the overrides. `tests/ops/test_primitives.py` compares
all overrides and backends with the generic bodies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from phimap.ops import host, to_host
from phimap.ops.base import Ops

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Body = Callable[Concatenate[Ops, Parameters], Result]

#: All primitives that have been imported, by name.
PRIMITIVES: dict[str, Primitive[Any, Any]] = {}


class Primitive(Generic[Parameters, Result]):
    """A function of a backend and its arrays. It calls the backend's override or, without one, the generic body.

    Attributes
    ----------
    generic : callable
        The body in core operations. Some primitives pass on a value whose format depends on the backend, such as a
        transform from which a product is computed. The primitives that share such a value are in one file; a backend
        overrides all of them or none; and their generic bodies call each other's generic bodies.
    overrides : dict
        Backend-specific bodies, by the name of the backend.
    """

    def __init__(self, generic: Body[Parameters, Result]):
        self.generic = generic
        self.overrides: dict[str, Body[Parameters, Result]] = {}
        update_wrapper(self, generic)

    def __call__(self, ops: Ops, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return self.overrides.get(ops.backend, self.generic)(ops, *args, **kwargs)

    def override(self, backend: str) -> Callable[[Body[Parameters, Result]], Body[Parameters, Result]]:
        """Return a decorator that registers a function with the same contract as the body for `backend`."""

        def register(body: Body[Parameters, Result]) -> Body[Parameters, Result]:
            self.overrides[backend] = body
            return body

        return register


class HostPrimitive(Primitive[Parameters, Result]):
    """A primitive whose results are on the host: arrays of other backends are copied to the host first."""

    def __call__(self, ops: Ops, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if ops.backend != "numpy":
            ops, args = host(ops.dtype), tuple(to_host(value) for value in args)  # pyright: ignore
        return super().__call__(ops, *args, **kwargs)


def primitive(generic: Body[Parameters, Result]) -> Primitive[Parameters, Result]:
    """Turn a generic body into a primitive."""
    return _registered(Primitive(generic))


def host_primitive(generic: Body[Parameters, Result]) -> Primitive[Parameters, Result]:
    """Turn a generic body into a primitive whose results are on the host."""
    return _registered(HostPrimitive(generic))


def _registered(one: Primitive[Parameters, Result]) -> Primitive[Parameters, Result]:
    name = one.generic.__name__
    if name in PRIMITIVES:
        raise ValueError(f"`{name}` must be the name of one primitive, got a second. Give it another.")
    PRIMITIVES[name] = one
    return one
