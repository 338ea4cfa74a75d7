"""Pixels of images, their regions and parts."""

import numpy as np
import pytest

from phimap.features.cntk.pixels import Pixels, Region
from phimap.ops import ops_for


def pixels(rng, n=3, shape=(4, 5), d=2):
    return Pixels(shape, rng.standard_normal((n * shape[0] * shape[1], d)))


def test_a_region_is_the_same_rectangle_of_every_image(rng):
    whole = pixels(rng)
    part = whole.within(ops_for(whole.rows), Region(slice(1, 3), slice(0, 4)))
    assert (part.shape, part.n_images, part.per_image) == ((2, 4), 3, 8)
    np.testing.assert_array_equal(part.rows.reshape(3, 2, 4, 2), whole.rows.reshape(3, 4, 5, 2)[:, 1:3, :4])


def test_a_region_is_widened_up_to_the_edges():
    region = Region(slice(1, 3), slice(4, 5))
    wide = region.widened(2, (9, 6))
    assert wide == Region(slice(0, 5), slice(2, 6))
    held = wide.places()[region.holds(wide.places())]
    np.testing.assert_array_equal(held, region.places())
    np.testing.assert_array_equal(held, [[1, 4], [2, 4]])


@pytest.mark.parametrize("most", [1, 3, 8, 19, 20, 21, 40, 59, 60, 1000])
def test_parts_hold_every_pixel_once(most, rng):
    """Of whole images, or of one image alone; `rows` are the pixels of the images."""
    whole = pixels(rng)
    numbers = np.arange(60).reshape(3, 20)
    parts = list(whole.parts(most))
    rows = np.concatenate([np.arange(60)[part.rows] for part in parts])
    np.testing.assert_array_equal(rows, np.arange(60))
    for part in parts:
        held = numbers[part.images, part.pixels]
        assert held.size <= most
        assert held.shape[0] == 1 or held.shape[1] == 20
        np.testing.assert_array_equal(held.ravel(), np.arange(60)[part.rows])
        by_image = part.by_image(whole.rows[part.rows])
        np.testing.assert_array_equal(by_image, whole.rows.reshape(3, 20, 2)[part.images, part.pixels])


def test_windows_without_signs_stand_side_by_side(rng):
    whole = pixels(rng, n=1)
    found = whole.windows(ops_for(whole.rows), 3)
    padded = np.pad(whole.rows.reshape(4, 5, 2), ((1, 1), (1, 1), (0, 0)))
    places = [(a, b) for a in range(3) for b in range(3)]
    expected = np.concatenate([padded[a : a + 4, b : b + 5] for a, b in places], axis=2)
    np.testing.assert_array_equal(found, expected.reshape(20, -1))
    np.testing.assert_array_equal(whole.windows(ops_for(whole.rows), 3, slice(7, 11)), found[7:11])
