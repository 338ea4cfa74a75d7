"""What a feature map is: a transformer whose features' inner products estimate a kernel."""

from __future__ import annotations

import numpy as np

from phimap.random_map import RandomMap


class FeatureMap(RandomMap):
    """Base of the feature maps: `fit` also sets ``kernel_``, the exact kernel that the features estimate."""

    @property
    def signature_(self) -> np.ndarray | None:
        """Signs (n_components,) of the features in the estimate ``Z @ diag(signature_) @ Z.T``; None if all are 1."""
        return self.record_.signature


def leading_pairs(n_directions: int, wanted: int) -> np.ndarray:
    """Columns of the first `wanted` cosines and of their sines in a map of `n_directions` pairs."""
    cosines = np.arange(wanted)
    return np.concatenate([cosines, n_directions + cosines])
