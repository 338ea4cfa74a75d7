"""The members of each family: one entry here gives a new member every test of its family."""

from __future__ import annotations

import numpy as np

from phimap import kernels

KERNELS = [
    kernels.Gaussian(length_scale=1.5),
    kernels.Gaussian(length_scale=np.array([0.5, 1.0, 1.5, 2.0, 2.5])),
    kernels.Laplacian(length_scale=3.0),
    kernels.Matern(nu=0.5, length_scale=2.0),
    kernels.Matern(nu=1.2, length_scale=np.array([0.5, 1.0, 1.5, 2.0, 2.5])),
    kernels.Matern(nu=2.5, length_scale=2.0),
    kernels.ArcCosine(order=0),
    kernels.ArcCosine(order=0, depth=2),
    kernels.ArcCosine(order=1),
    kernels.ArcCosine(order=2),
    kernels.ArcCosine(order=2, depth=2),
    kernels.Polynomial(degree=3),
    kernels.Polynomial(degree=2, gamma=0.5, coef0=0.0),
    kernels.NNGP(depth=2),
    kernels.NTK(depth=1),
    kernels.NTK(depth=3),
]
"""Exact kernels on rows of five features."""

STATIONARY_KERNELS = [kernel for kernel in KERNELS if isinstance(kernel, kernels.StationaryKernel)]
