"""Theory as numbers: how many random features the published bounds ask for."""

from phimap.theory.bounds import Bound, RequiredFeatures
from phimap.theory.required import bounds, required_features

__all__ = ["Bound", "RequiredFeatures", "bounds", "required_features"]
