"""The mixture of Gaussian kernels that stands for a Matern kernel."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.explain.forms.components import matern_mixture
from phimap.kernels.profiles import matern


@pytest.mark.parametrize("nu", [0.5, 1.0, 1.5, 2.5, 5.0, 20.0])
def test_mixture_equals_the_kernel_at_every_distance(nu):
    weights, precisions = matern_mixture(nu)
    r = np.append(0.0, np.logspace(-12, 2, 2000))
    error = np.abs(np.exp(-0.5 * np.outer(r**2, precisions)) @ weights - matern(nu, 2 * nu * r**2))
    assert error.max() < 1e-10
    assert (weights > 0).all()
