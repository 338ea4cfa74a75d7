"""Explanations of fitted models: Shapley values, pairwise interactions and first and second order effects.

`shapley_values` is exact for models that are sums of products over columns; `phimap.explain.forms` lists them. Other
models are explained by sampling, with a standard error.
"""

from phimap.explain.effects import Effects, effects
from phimap.explain.explanation import Explanation, Interactions
from phimap.explain.shapley import interactions, shapley_values

__all__ = ["Effects", "Explanation", "Interactions", "effects", "interactions", "shapley_values"]
