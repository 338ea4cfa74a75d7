"""Feature maps: transformers whose features have inner products that estimate a kernel.

`fit` takes constants from the kernel (such as its spectral density) and draws directions from a projection or a sketch.
It stores both in a record. Each subfolder holds one family of maps. `defaults.py` chooses the map for a kernel. Start
with `fourier.py`, the simplest map.
"""

from phimap.features.base import FeatureMap
from phimap.features.cntk.gradient import CNTKGradientFeatures
from phimap.features.cntk.sketch import CNTKSketch
from phimap.features.data_dependent.compressed import CompressedFeatures
from phimap.features.data_dependent.leverage import LeverageFeatures
from phimap.features.data_dependent.reweighted import ReweightedFeatures
from phimap.features.defaults import SumFeatures
from phimap.features.fourier import FourierFeatures
from phimap.features.low_precision.quantized import QuantizedFeatures
from phimap.features.low_precision.ternary import TernaryFeatures
from phimap.features.ntk.gradient import NTKGradientFeatures
from phimap.features.ntk.random_features import NTKFeatures
from phimap.features.ntk.sketch import NTKSketch
from phimap.features.ntk.tensor import NTKTensorFeatures
from phimap.features.nystroem.nystroem import NystroemFeatures
from phimap.features.partitions.binning import BinningFeatures
from phimap.features.partitions.mondrian import MondrianFeatures
from phimap.features.power_series.dot_product import DotProductFeatures
from phimap.features.random_layers.activation import ActivationFeatures
from phimap.features.random_layers.arccosine import ArcCosineFeatures
from phimap.features.random_layers.positive import PositiveFeatures
from phimap.features.random_layers.spherical import SphericalFeatures

__all__ = [
    "ActivationFeatures",
    "ArcCosineFeatures",
    "BinningFeatures",
    "CNTKGradientFeatures",
    "CNTKSketch",
    "CompressedFeatures",
    "DotProductFeatures",
    "FeatureMap",
    "FourierFeatures",
    "LeverageFeatures",
    "MondrianFeatures",
    "NTKFeatures",
    "NTKGradientFeatures",
    "NTKSketch",
    "NTKTensorFeatures",
    "NystroemFeatures",
    "PositiveFeatures",
    "QuantizedFeatures",
    "ReweightedFeatures",
    "SphericalFeatures",
    "SumFeatures",
    "TernaryFeatures",
]
