"""What users call kernels."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

#: Names that other libraries use.
ALIASES = {
    "arc-cosine": "arccosine",
    "arc_cosine": "arccosine",
    "laplace": "laplacian",
    "matern32": "matern",
    "poly": "polynomial",
    "rbf": "gaussian",
    "squared_exponential": "gaussian",
}


def kernel_name(text: str, known: Iterable[str], parameter: str = "`kernel`") -> str:
    """The name of a kernel that `text` stands for: its own, or that of an alias.

    Raises
    ------
    ValueError
        If there is none; the message names the nearest one.
    """
    names = sorted(known)
    name = ALIASES.get(text, text)
    if name in names:
        return name
    near = get_close_matches(text.lower(), [*names, *ALIASES], n=1)
    guess = f" Did you mean {ALIASES.get(near[0], near[0])!r}?" if near else ""
    listed = ", ".join(repr(name) for name in names)
    more = ", a Kernel or a feature map" if parameter == "`kernel`" else ""
    raise ValueError(f"{parameter} must be one of {listed}{more}, got {text!r}.{guess}")
