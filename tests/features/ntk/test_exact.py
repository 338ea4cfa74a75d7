"""Neural tangent features with exact degrees: how the remainder is sampled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phimap as pm
from phimap.features.random_layers.remainder import TabulatedRecord


@pytest.mark.parametrize("depth", [1, 3])
def test_the_remainder_is_sampled_by_what_errs_less(depth, rng):
    X = rng.standard_normal((400, 6))

    def map_of(remainder, rows) -> tuple[float, Any]:
        phi = pm.NTKFeatures(depth, 512, remainder=remainder, random_state=0).fit(rows)
        return pm.metrics.relative_error(phi, rows[:200]), phi.record_

    errors = {remainder: map_of(remainder, X)[0] for remainder in ("sketch", "activation", "auto")}
    assert errors["auto"] == min(errors.values())
    assert isinstance(map_of("auto", X)[1].terms[-1].orthogonal, TabulatedRecord)
    # Many inputs with a mean: sketches split it off.
    X = rng.standard_normal((400, 100)) + 1
    assert not isinstance(map_of("auto", X)[1].terms[-1].orthogonal, TabulatedRecord)
    assert map_of("auto", X)[0] < map_of("activation", X)[0]


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (pm.NTKFeatures(remainder="both"), "`remainder` must be"),
        (pm.NTKFeatures(remainder="activation", sampling="leverage"), "`remainder` must be 'auto' where `sampling`"),
        (pm.NTKFeatures(remainder="sketch", projection="sorf"), "`remainder` must be 'auto' where `projection`"),
        (pm.NTKFeatures(remainder="activation", exact_degrees=(-1,)), "`exact_degrees` must be at least 0"),
    ],
    ids=str,
)
def test_what_cannot_be(phi, message):
    with pytest.raises(ValueError, match=message):
        phi.fit(np.eye(4))
