"""Streams of features: what is kept and what is formed anew give the same blocks."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.blocks.blocks import feature_block
from phimap.learn.rows.accumulator import Accumulator
from phimap.learn.rows.feature_stream import FeatureStream
from phimap.learn.rows.samples import ExtremeRows

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
        FeatureStream(batches, lambda: mapped, memory, ExtremeRows(0, centre=np.zeros(2), factor=np.ones(2))),
        [X @ W for X, _, _ in batches],
        formed,
    )


class Collected(Accumulator):
    """The features of a pass."""

    def __init__(self):
        self.blocks = []

    def update(self, rows, targets, weights):
        self.blocks.append((rows, rows.to_host().copy()))

    def merge(self, later):
        self.blocks += later.blocks

    @property
    def state(self):
        raise NotImplementedError

    resume = None


def features(stream):
    return [features for _, features in stream.accumulate(lambda first_row: Collected()).blocks]


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
    mutant = [block for block, _ in stream_of(0)[0].accumulate(lambda first_row: Collected()).blocks]
    assert np.abs(mutant[0].to_host() - expected[0]).max() > 0.1


def test_a_pass_that_breaks_off_is_no_pass():
    class Stopped(Collected):
        def update(self, rows, targets, weights):
            raise KeyboardInterrupt

    stream, expected, _ = stream_of(4 * ROWS * WIDTH * 8)
    with pytest.raises(KeyboardInterrupt):
        stream.accumulate(lambda first_row: Stopped())
    np.testing.assert_allclose(features(stream), expected)
    np.testing.assert_allclose(features(stream), expected)
