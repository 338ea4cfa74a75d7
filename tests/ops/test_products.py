"""Products of backends that know more of a factor than its shape."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.ops import ops_for


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (300, 40)])
def test_an_upper_triangle_is_multiplied_like_any_matrix(dtype, tensor, shape, rng):
    X, W = rng.standard_normal(shape).astype(dtype), np.triu(rng.standard_normal((shape[1],) * 2)).astype(dtype)
    expected = X @ W
    if tensor:
        torch = pytest.importorskip("torch")
        X, W = torch.tensor(X), torch.tensor(W)
    ops = ops_for(X)
    found = ops.to_host(ops.matmul_upper(X, W))
    assert found.dtype == dtype
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=8 * shape[1] * np.finfo(dtype).eps * scale)
