"""Names of kernels, and the aliases that users know from other libraries."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

#: Names in other libraries.
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
    """The name of the kernel that `text` names, directly or by an alias.

    Raises
    ------
    ValueError
        If the name is unknown; the message suggests the nearest one.
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
