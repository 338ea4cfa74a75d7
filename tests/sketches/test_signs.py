"""Fair signs: fair, independent, and the same for a seed whatever their dtype."""

import numpy as np
import pytest

from phimap.sketches.signs import fair_factors, fair_signs, fair_word_factors


@pytest.mark.parametrize(
    ("draw", "dtype"), [(fair_signs, np.int8), (fair_factors, np.float64), (fair_word_factors, np.float64)]
)
def test_signs_are_fair_and_independent(draw, dtype, rng):
    """Five standard deviations, a false-alarm rate below 1e-5 in all; mutant: signs of which 51 % are positive."""
    signs = draw(rng, (1000, 500))
    assert signs.dtype == dtype
    assert set(np.unique(signs)) == {-1, 1}
    signs, standard_deviation = signs.astype(np.float64), 500_000**-0.5
    assert abs(signs.mean()) < 5 * standard_deviation
    assert abs((signs[:, 1:] * signs[:, :-1]).mean()) < 5.1 * standard_deviation
    assert abs((signs[1:] * signs[:-1]).mean()) < 5.1 * standard_deviation
    assert np.where(rng.random(signs.shape) < 0.51, 1, -1).mean() > 5 * standard_deviation


def test_factors_are_the_signs_of_the_same_seed():
    signs, factors = (draw(np.random.default_rng(3), (40,)) for draw in (fair_signs, fair_factors))
    np.testing.assert_array_equal(signs, factors)


def test_a_seed_keeps_its_signs():
    """Maps and sketches of a seed must not change: the first signs of seed 0, by bytes and by words."""
    by_bytes, by_words = (draw(np.random.default_rng(0), (16,)) > 0 for draw in (fair_signs, fair_word_factors))
    assert np.flatnonzero(by_bytes).tolist() == [1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13]
    assert np.flatnonzero(by_words).tolist() == [0, 1, 2, 9, 10, 11, 12, 13, 14, 15]
