"""A kernel applied to rows of norm 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap.kernels.base import Kernel
from phimap.kernels.geometry import Rows, unit_rows


class NormalizedInput(Kernel):
    """The kernel of rows divided by their norms, ``k(x / |x|, y / |y|)``; zero rows stay zero.

    Parameters
    ----------
    kernel : Kernel
        The kernel that is applied to the normalised rows.

    Notes
    -----
    **Error.** As for `kernel`. The division by the norm is in float64 and neither overflows nor underflows.

    **Cost.** As for `kernel`, plus one pass over the rows for their norms.

    **Differs from the source in** nothing.

    References
    ----------
    Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation: a survey on algorithms, theory, and
    beyond*, Section 3.1.

    Examples
    --------
    >>> import phimap as pm
    >>> k = pm.kernels.NormalizedInput(pm.kernels.Polynomial(degree=1, gamma=1.0, coef0=0.0))
    >>> k([[3.0, 4.0]], [[0.0, 2.0]])
    array([[0.8]])
    """

    def __init__(self, kernel: Any):
        self.kernel = kernel

    def _check_parameters(self, n_features: int) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"`kernel` must be a Kernel, got {type(self.kernel).__name__}.")
        self.kernel._check_parameters(n_features)

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        return self.kernel._evaluate(unit_rows(X), unit_rows(Y))

    def _diagonal(self, X: Rows) -> np.ndarray:
        return self.kernel._diagonal(unit_rows(X))
