"""Messages of maps that name the mistake and what to give."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm


@pytest.mark.parametrize("name", ["matern", "Gaussian", "laplacian"])
def test_a_kernel_by_name_is_answered_with_its_class(rng, name):
    with pytest.raises(TypeError, match=rf"got '{name}'. Use the object phimap.kernels.{name.capitalize()}\(...\)\.$"):
        pm.FourierFeatures(name).fit(rng.random((5, 2)))
    for other in ("ntk", "arccosine", pm.kernels.NTK(1)):
        with pytest.raises(TypeError, match="Use ArcCosineFeatures, NTKFeatures or NystroemFeatures for others"):
            pm.FourierFeatures(other).fit(rng.random((5, 2)))


def test_images_without_an_axis_of_channels_are_told(rng):
    message = r"`X` must hold images \(n, h, w, c\), got shape \(5, 8, 8\)\. Give X\[\.\.\., None\]"
    with pytest.raises(ValueError, match=message):
        pm.CNTKSketch(2, 3, 64).fit(rng.random((5, 8, 8)))


@pytest.mark.parametrize("kind", [pm.CNTKSketch, pm.CNTKGradientFeatures])
@pytest.mark.parametrize("shape", [(3, 3, 8, 8), (3, 1, 8, 8), (4, 3, 8, 6), (2, 16, 8, 8), (2, 24, 8, 6)])
def test_channels_that_come_first_are_told(rng, kind, shape, recwarn):
    X = rng.random(shape)
    options = {"n_components": 64} if kind is pm.CNTKSketch else {"width": 4}
    phi = kind(2, 3, random_state=0, **options)
    with pytest.warns(UserWarning, match=r"whose channels seem to come first\. Give X\.transpose\(0, 2, 3, 1\)"):
        phi.fit(X)
    recwarn.clear()
    phi.fit(np.transpose(X, (0, 2, 3, 1)))
    assert not recwarn.list


@pytest.mark.parametrize("shape", [(8, 8, 64), (3, 3, 16), (1, 40, 8), (3, 40, 8), (12, 9, 3), (8, 6, 6)])
def test_many_channels_in_the_last_place_are_not_doubted(rng, shape, recwarn):
    pm.CNTKSketch(2, 3, 64, random_state=0).fit(rng.random((3, *shape)))
    assert not recwarn.list
