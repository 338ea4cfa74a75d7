"""Products and factorisations of blocks within larger arrays, in place and without the interpreter lock.

NumPy cannot add a product to an existing array, and SciPy's wrappers copy blocks of larger arrays and keep the lock, so
that threads wait for each other. These functions call the BLAS and LAPACK routines that SciPy exports for C programs
(`scipy.linalg.cython_blas`).

Blocks are in C order with any row stride. BLAS and LAPACK, which expect Fortran order, read them as their transposes.
All blocks of a call have the same dtype, float32 or float64.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np


def subtract_products(target: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """Subtract ``left^T right`` from `target` (h, w) in place; `left` is (k, h), `right` is (k, w)."""
    (h, w), k = target.shape, left.shape[0]
    _call("blas", "gemm", b"N", b"T", w, h, k, -1.0, *_block(right), *_block(left), 1.0, *_block(target))


def subtract_gram(target: np.ndarray, factor: np.ndarray) -> None:
    """Subtract ``factor^T factor`` from the upper triangle of `target` (h, h) in place; `factor` is (k, h)."""
    h, k = target.shape[0], factor.shape[0]
    _call("blas", "syrk", b"L", b"N", h, k, -1.0, *_block(factor), 1.0, *_block(target))


def gram(rows: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return ``rows^T rows`` (m, m) for `rows` (n, m), in `out` if it is given.

    Only the upper triangle is set. The rest of a new array is 0.
    """
    n, m = rows.shape
    out = np.zeros((m, m), rows.dtype) if out is None else out
    _call("blas", "syrk", b"L", b"N", m, n, 1.0, *_block(rows), 0.0, *_block(out))
    return out


def multiply_upper(rows: np.ndarray, upper: np.ndarray) -> None:
    """Replace `rows` (n, m) by ``rows U``, where U is the upper triangle of `upper` (m, m)."""
    n, m = rows.shape
    _call("blas", "trmm", b"L", b"L", b"N", b"N", m, n, 1.0, *_block(upper), *_block(rows))


def solve_transposed(upper: np.ndarray, target: np.ndarray) -> None:
    """Replace `target` (k, w) by ``U^-T target``, where U is the upper triangle of `upper` (k, k)."""
    k, w = target.shape
    _call("blas", "trsm", b"R", b"L", b"T", b"N", w, k, 1.0, *_block(upper), *_block(target))


def solve_upper(upper: np.ndarray, target: np.ndarray) -> None:
    """Replace `target` (k, w) by ``U^-1 target``, where U is the upper triangle of `upper` (k, k)."""
    k, w = target.shape
    _call("blas", "trsm", b"R", b"L", b"N", b"N", w, k, 1.0, *_block(upper), *_block(target))


def solve_factored(upper: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the solution X (k, w) of ``U^T U X = right``, where U is the upper triangle of `upper` (k, k)."""
    # LAPACK wants the columns of `right` one after the other.
    solution = np.array(right.T, upper.dtype, order="C")
    w, k = solution.shape
    _call("lapack", "potrs", b"L", k, w, *_block(upper), *_block(solution), _Info())
    return solution.T


def factorise(matrix: np.ndarray) -> bool:
    """Replace the upper triangle of `matrix` by its Cholesky factor U, ``U^T U = matrix``.

    Only the upper triangle is read. Returns whether all pivots are positive.
    """
    return _call("lapack", "potrf", b"L", matrix.shape[0], *_block(matrix), _Info()) == 0


def invert_upper(upper: np.ndarray) -> None:
    """Replace the upper triangle of `upper` by its inverse."""
    _call("lapack", "trtri", b"L", b"N", upper.shape[0], *_block(upper), _Info())


class _Info:
    """Placeholder for the output argument `info` of a LAPACK routine, its error code."""


def _block(array: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a block and its row stride, in entries; a single row may have any stride."""
    (h, w), item = array.shape, array.itemsize
    far = array.strides[0] // item if h > 1 else max(w, 1)
    assert array.dtype in (np.float32, np.float64)
    assert w <= 1 or array.strides[1] == item
    assert far >= max(w, 1)
    return array, far


def _call(library: str, name: str, *arguments: bytes | int | float | np.ndarray | _Info) -> int:
    """Call a routine with all arguments passed by address, and return the value of `info` (0 without one).

    `name` is without the first letter, which is that of the arrays' dtype.
    """
    said, dtypes = ctypes.c_int(0), {value.dtype for value in arguments if isinstance(value, np.ndarray)}
    assert len(dtypes) == 1
    letter, real = ("s", ctypes.c_float) if dtypes.pop() == np.float32 else ("d", ctypes.c_double)
    places = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            places.append(ctypes.c_void_p(value.ctypes.data))
        elif isinstance(value, bytes):
            places.append(ctypes.c_char_p(value))
        elif isinstance(value, _Info):
            places.append(ctypes.byref(said))
        else:
            places.append(ctypes.byref(ctypes.c_int(value) if isinstance(value, int) else real(value)))
    _routine(library, letter + name)(*places)
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
