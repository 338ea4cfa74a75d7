"""Products and factors of float64 blocks that lie within larger arrays, in place and without the interpreter lock.

NumPy has no product that is added to what is there, and SciPy's wrappers copy blocks of larger arrays and keep the
lock. SciPy exports the library itself for programs in C (`scipy.linalg.cython_blas`); these functions call it.

Blocks are in C order with rows of any stride. Fortran's libraries see their transposes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np


def subtract_products(target: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """Take ``left^T right`` from `target` (h, w); the others are (k, h) and (k, w)."""
    (h, w), k = target.shape, left.shape[0]
    _call("blas", "dgemm", b"N", b"T", w, h, k, -1.0, *_block(right), *_block(left), 1.0, *_block(target))


def subtract_gram(target: np.ndarray, factor: np.ndarray) -> None:
    """Take ``factor^T factor`` from the upper triangle of `target` (h, h); `factor` is (k, h)."""
    h, k = target.shape[0], factor.shape[0]
    _call("blas", "dsyrk", b"L", b"N", h, k, -1.0, *_block(factor), 1.0, *_block(target))


def solve_transposed(upper: np.ndarray, target: np.ndarray) -> None:
    """Put ``U^-T target`` into `target` (k, w), for the triangle U above the diagonal of `upper` (k, k)."""
    k, w = target.shape
    _call("blas", "dtrsm", b"R", b"L", b"T", b"N", w, k, 1.0, *_block(upper), *_block(target))


def factorise(matrix: np.ndarray) -> bool:
    """Put U with ``U^T U = matrix`` above the diagonal; whether all pivots are positive. Only that part is read."""
    return _call("lapack", "dpotrf", b"L", matrix.shape[0], *_block(matrix), _Info()) == 0


def invert_upper(upper: np.ndarray) -> None:
    """Put the inverse of the upper triangle in its place."""
    _call("lapack", "dtrtri", b"L", b"N", upper.shape[0], *_block(upper), _Info())


class _Info:
    """Where a routine of LAPACK says what went wrong."""


def _block(array: np.ndarray) -> tuple[np.ndarray, int]:
    """A block, and how far its rows are from each other; a single row may have any stride."""
    (h, w), item = array.shape, array.itemsize
    far = array.strides[0] // item if h > 1 else max(w, 1)
    assert array.dtype == np.float64
    assert w <= 1 or array.strides[1] == item
    assert far >= max(w, 1)
    return array, far


def _call(library: str, name: str, *arguments: bytes | int | float | np.ndarray | _Info) -> int:
    """Call a routine, whose arguments all go by address; what it says in its last one."""
    said = ctypes.c_int(0)
    places = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            places.append(ctypes.c_void_p(value.ctypes.data))
        elif isinstance(value, bytes):
            places.append(ctypes.c_char_p(value))
        elif isinstance(value, _Info):
            places.append(ctypes.byref(said))
        else:
            places.append(ctypes.byref(ctypes.c_int(value) if isinstance(value, int) else ctypes.c_double(value)))
    _routine(library, name)(*places)
    return said.value


@cache
def _routine(library: str, name: str) -> Callable[..., None]:
    """A routine of SciPy's library; ctypes lets other threads run while it works."""
    from scipy.linalg import (
        cython_blas,  # pyright: ignore[reportAttributeAccessIssue]
        cython_lapack,  # pyright: ignore[reportAttributeAccessIssue]
    )

    capsule = {"blas": cython_blas, "lapack": cython_lapack}[library].__pyx_capi__[name]
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None)(address(capsule, signature(capsule)))
