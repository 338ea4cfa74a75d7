"""Primitives: fused operations with a generic body in core operations and an override where a backend has a better one.

A file of `phimap.ops.primitives` holds one of them, or those that only make sense together: the contract, the generic
body, which every backend inherits, and the overrides. `tests/ops/test_primitives.py` holds all overrides and backends
against the generic bodies.
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

#: All primitives whose files were imported, by name.
PRIMITIVES: dict[str, Primitive[Any, Any]] = {}


class Primitive(Generic[Parameters, Result]):
    """A function of a backend and its arrays, which calls the override of the backend or else the generic body.

    Attributes
    ----------
    generic : callable
        The body in core operations. Where a value is the backend's own, as a transform that a product reads, its
        primitives stand in one file, a backend overrides all of them or none, and generic bodies call generic bodies.
    overrides : dict
        Other bodies, by the name of the backend.
    """

    def __init__(self, generic: Body[Parameters, Result]):
        self.generic = generic
        self.overrides: dict[str, Body[Parameters, Result]] = {}
        update_wrapper(self, generic)

    def __call__(self, ops: Ops, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return self.overrides.get(ops.backend, self.generic)(ops, *args, **kwargs)

    def override(self, backend: str) -> Callable[[Body[Parameters, Result]], Body[Parameters, Result]]:
        """Let a decorated function of the same contract serve a backend."""

        def register(body: Body[Parameters, Result]) -> Body[Parameters, Result]:
            self.overrides[backend] = body
            return body

        return register


class HostPrimitive(Primitive[Parameters, Result]):
    """A primitive whose results live on the host: arrays of other backends are brought there first."""

    def __call__(self, ops: Ops, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if ops.backend != "numpy":
            ops, args = host(ops.dtype), tuple(to_host(value) for value in args)  # pyright: ignore
        return super().__call__(ops, *args, **kwargs)


def primitive(generic: Body[Parameters, Result]) -> Primitive[Parameters, Result]:
    """Make a primitive of its generic body."""
    return PRIMITIVES.setdefault(generic.__name__, Primitive(generic))


def host_primitive(generic: Body[Parameters, Result]) -> Primitive[Parameters, Result]:
    """Make a primitive whose results live on the host of its generic body."""
    return PRIMITIVES.setdefault(generic.__name__, HostPrimitive(generic))
