"""Numbers in words to people."""

import numpy as np
import pytest

from phimap._number_text import number_text


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (4012.3, 3, "4,010"),
        (-3990.4, 3, "-3,990"),
        (999.6, 3, "1,000"),
        (754.3, 2, "750"),
        (96.0, 1, "100"),
        (999.4, 3, "999"),
        (12345.678, 7, "12,345.68"),
        (9_994_000, 3, "9,990,000"),
        (9_999_000, 3, "1e+07"),
        (np.float32(0.125), 2, "0.12"),
        (0, 3, "0"),
        (4.9e-6, 2, "4.9e-06"),
        (float("nan"), 3, "nan"),
        (float("-inf"), 3, "-inf"),
    ],
)
def test_numbers_below_ten_million_have_no_power_of_ten(value, digits, text):
    assert number_text(value, digits) == text
