"""Streams of features: what is kept and what is formed anew give the same blocks."""

from __future__ import annotations

import numpy as np

from phimap.learn.data.blocks import feature_block
from phimap.learn.data.feature_stream import FeatureStream
from phimap.learn.data.outlying import OutlyingRows

ROWS, WIDTH = 10, 6


def stream_of(memory, n_batches=4):
    rng = np.random.default_rng(0)
    batches = [(rng.standard_normal((ROWS, 2)), rng.standard_normal(ROWS), None) for _ in range(n_batches)]
    W, buffer, formed = rng.standard_normal((2, WIDTH)), np.empty((ROWS, WIDTH)), []

    def mapped(X, y, weights):
        # One buffer for all, as learners have it.
        formed.append(len(X))
        np.matmul(X, W, out=buffer)
        return feature_block(buffer), y[:, None], np.ones(len(y))

    return (
        FeatureStream(batches, lambda: mapped, memory, OutlyingRows(0, centre=np.zeros(2), factor=np.ones(2))),
        [X @ W for X, _, _ in batches],
        formed,
    )


def features(stream):
    return [block.to_host().copy() for block, _, _ in stream]


def test_kept_features_are_those_formed_anew():
    """Mutant: blocks kept without a copy, which the next batch overwrites."""
    size = ROWS * WIDTH * 8
    for kept in (0, 1, 2, 4):
        stream, expected, formed = stream_of(kept * size + size // 2)
        for _ in range(3):
            np.testing.assert_allclose(features(stream), expected)
        # The first pass forms all, each further one those that are not kept.
        assert len(formed) == 4 + 2 * (4 - kept)
    stream, expected, _ = stream_of(4 * size)
    mutant = [block for block, _, _ in stream_of(0)[0]]
    assert np.abs(mutant[0].to_host() - expected[0]).max() > 0.1


def test_a_pass_that_breaks_off_is_no_pass():
    stream, expected, _ = stream_of(4 * ROWS * WIDTH * 8)
    next(iter(stream))
    np.testing.assert_allclose(features(stream), expected)
    np.testing.assert_allclose(features(stream), expected)
