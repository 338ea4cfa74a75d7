"""Hashed n-grams of texts against those of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer

from phimap.tables.text import _Words

TEXTS = [
    "",
    "a",
    "Ab",
    "  Straße ÉCOLE\u2003x",
    "İstanbul ΣΑΣ",
    "\x1fab\x1c c",
    "日本語 テキスト",
    "e\u0301 😀😀",
    "aa aa aaaa",
]


@pytest.mark.parametrize("n_hashed", [2**13, 2**16])
def test_counts_are_those_of_scikit_learn(n_hashed):
    rng = np.random.default_rng(0)
    letters = np.r_[32:128, 160:700, 0x4E00:0x4E20]
    texts = TEXTS + ["".join(map(chr, rng.choice(letters, rng.integers(60)))) for _ in range(200)]
    vectorizer = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 4), n_features=n_hashed, alternate_sign=False, norm=None, dtype=np.float32
    )
    expected, words = vectorizer.transform(texts), _Words(texts, n_hashed)
    for start, stop in ((0, len(texts)), (3, 9), (len(texts) - 1, len(texts) + 5)):
        found, wanted = words.counts(start, stop), expected[start:stop]
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
