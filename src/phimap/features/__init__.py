"""Feature maps: scikit-learn transformers whose features' inner products estimate a kernel."""

from phimap.features.activation import ActivationFeatures
from phimap.features.arccosine import ArcCosineFeatures
from phimap.features.base import FeatureMap
from phimap.features.cntk import CNTKSketch
from phimap.features.cntk_gradient import CNTKGradientFeatures
from phimap.features.dot_product import DotProductFeatures
from phimap.features.fourier import FourierFeatures
from phimap.features.ntk import NTKFeatures
from phimap.features.ntk_gradient import NTKGradientFeatures
from phimap.features.ntk_sketch import NTKSketch
from phimap.features.ntk_tensor import NTKTensorFeatures
from phimap.features.nystroem import NystroemFeatures
from phimap.features.quantized import QuantizedFeatures
from phimap.features.ternary import TernaryFeatures

__all__ = [
    "ActivationFeatures",
    "ArcCosineFeatures",
    "CNTKGradientFeatures",
    "CNTKSketch",
    "DotProductFeatures",
    "FeatureMap",
    "FourierFeatures",
    "NTKFeatures",
    "NTKGradientFeatures",
    "NTKSketch",
    "NTKTensorFeatures",
    "NystroemFeatures",
    "QuantizedFeatures",
    "TernaryFeatures",
]
