"""Products and factorisations of float64 blocks within larger arrays, in place and without the interpreter lock.

NumPy cannot add a product to an existing array, and SciPy's wrappers copy blocks of larger arrays and keep the lock.
These functions call the BLAS and LAPACK routines that SciPy exports for C programs (`scipy.linalg.cython_blas`).

Blocks are in C order with any row stride. BLAS and LAPACK, which expect Fortran order, read them as their transposes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np


def subtract_products(target: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """Subtract ``left^T right`` from `target` (h, w) in place; `left` is (k, h), `right` is (k, w)."""
    (h, w), k = target.shape, left.shape[0]
    _call("blas", "dgemm", b"N", b"T", w, h, k, -1.0, *_block(right), *_block(left), 1.0, *_block(target))


def subtract_gram(target: np.ndarray, factor: np.ndarray) -> None:
    """Subtract ``factor^T factor`` from the upper triangle of `target` (h, h) in place; `factor` is (k, h)."""
    h, k = target.shape[0], factor.shape[0]
    _call("blas", "dsyrk", b"L", b"N", h, k, -1.0, *_block(factor), 1.0, *_block(target))


def solve_transposed(upper: np.ndarray, target: np.ndarray) -> None:
    """Replace `target` (k, w) by ``U^-T target``, where U is the upper triangle of `upper` (k, k)."""
    k, w = target.shape
    _call("blas", "dtrsm", b"R", b"L", b"T", b"N", w, k, 1.0, *_block(upper), *_block(target))


def factorise(matrix: np.ndarray) -> bool:
    """Replace the upper triangle of `matrix` by its Cholesky factor U, ``U^T U = matrix``.

    Only the upper triangle is read. Returns whether all pivots are positive.
    """
    return _call("lapack", "dpotrf", b"L", matrix.shape[0], *_block(matrix), _Info()) == 0


def invert_upper(upper: np.ndarray) -> None:
    """Replace the upper triangle of `upper` by its inverse."""
    _call("lapack", "dtrtri", b"L", b"N", upper.shape[0], *_block(upper), _Info())


class _Info:
    """Placeholder for the output argument `info` of a LAPACK routine, its error code."""


def _block(array: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a block and its row stride, in entries; a single row may have any stride."""
    (h, w), item = array.shape, array.itemsize
    far = array.strides[0] // item if h > 1 else max(w, 1)
    assert array.dtype == np.float64
    assert w <= 1 or array.strides[1] == item
    assert far >= max(w, 1)
    return array, far


def _call(library: str, name: str, *arguments: bytes | int | float | np.ndarray | _Info) -> int:
    """Call a routine with all arguments passed by address, and return the value of `info` (0 without one)."""
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
    """Return a routine of SciPy's BLAS or LAPACK; ctypes releases the interpreter lock while the routine runs."""
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
