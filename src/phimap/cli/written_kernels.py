"""Kernels as Python text: printed so that they can be pasted into a program, and read from ``--kernel``."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from phimap import kernels


def kernel_text(kernel: Any) -> str:
    """The call that makes a kernel, with numbers rounded to four digits; names are as in `phimap.kernels`."""
    given = {name: value for name, value in kernel.get_params(deep=False).items() if value is not None}
    return f"{type(kernel).__name__}({', '.join(f'{name}={_value_text(value)}' for name, value in given.items())})"


def _value_text(value: Any) -> str:
    if hasattr(value, "get_params"):
        return kernel_text(value)
    if isinstance(value, np.ndarray | list | tuple):
        return f"[{', '.join(map(_value_text, value))}]"
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, float):
        return repr(value)
    return f"{float(f'{value:.4g}')!r}" if np.isfinite(value) else f"float('{value}')"


def is_written(text: str) -> bool:
    """Whether a text is a call, as written by `kernel_text`, and not the name of a kernel."""
    return "(" in text


def read_kernel(text: str) -> kernels.Kernel:
    """Return the kernel that a text such as ``"Matern(length_scale=2.0, nu=1.5)"`` makes; other code is refused."""
    try:
        kernel = _made(ast.parse(text, mode="eval").body)
        if not isinstance(kernel, kernels.Kernel):
            raise ValueError("this is no kernel")
    except (SyntaxError, TypeError, ValueError) as error:
        raise ValueError(
            f"--kernel must be a name or a kernel such as 'Matern(length_scale=2.0, nu=1.5)', got {text!r}: {error}. "
            "Write it as the command prints it, in quotes."
        ) from None
    return kernel


def _made(node: ast.expr) -> Any:
    """The value of a number, a text, a list or a tuple, or of a call of a kernel with such values."""
    if isinstance(node, ast.List | ast.Tuple):
        return [_made(one) for one in node.elts]
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return ast.literal_eval(node)
    kind = {"float": float, "LeakyReLU": kernels.LeakyReLU}.get(node.func.id) or getattr(kernels, node.func.id, None)
    if kind not in (float, kernels.LeakyReLU) and not (isinstance(kind, type) and issubclass(kind, kernels.Kernel)):
        raise ValueError(f"there is no kernel {node.func.id!r}")
    return kind(*map(_made, node.args), **{str(one.arg): _made(one.value) for one in node.keywords})
