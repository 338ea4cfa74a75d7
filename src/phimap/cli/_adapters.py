"""Until the learners have `new_summary` and take a summary in `fit_batches`: both by their present first pass."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from phimap.learn.base import KernelModel
from phimap.learn.rows.batches import CheckedBatches, require_reiterable

_MOST_LABELS = 1000
_plain_fit = KernelModel.fit_batches


class _Summary:
    def __init__(self, learner: Any):
        self._look = learner._first_look(_MOST_LABELS)
        self.targets_are_numbers = True

    def update(self, X: Any, y: np.ndarray, weights: Any = None) -> None:
        self.targets_are_numbers &= y.dtype.kind in "fiu"
        self._look.update(X, y)

    @property
    def labels(self) -> Any:
        return self._look._labels

    def __getattr__(self, name: str) -> Any:
        return getattr(self._look._pass, name)


def _fit_batches(self: Any, batches: Any, encoder: Any = None, *, checkpoint: Any = None, summary: Any = None) -> Any:
    first_pass = None if summary is None else summary._look.told(labels=self._has_labels)
    if first_pass is None:
        return _plain_fit(self, batches, encoder, checkpoint=checkpoint)
    require_reiterable(batches)
    self._start_encoder((), labels=self._has_labels)
    if encoder is not None:
        self._use_encoder(copy(encoder))
    self._first_pass_start(labels=self._has_labels)
    self._check_training(*next(iter(batches)), reset=True)
    return self._fit_noted(CheckedBatches(self._check_training, batches), checkpoint, first_pass)._settled()


KernelModel.new_summary = lambda self, labels=None: _Summary(self)  # pyright: ignore
KernelModel.fit_batches = _fit_batches  # pyright: ignore
