"""phimap: kernel methods made linear, by random features and sketches.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

# `config` is imported at once, because a lazy import of the module `phimap.config` would hide the class of the same
# name.
from phimap.config import config as config

# The only list of public names. Type checkers execute these imports; `_LINE` below parses them into a table from
# which `__getattr__` loads names on first use.
if TYPE_CHECKING:
    from phimap import explain as explain
    from phimap import features as features
    from phimap import kernels as kernels
    from phimap import learn as learn
    from phimap import metrics as metrics
    from phimap import projections as projections
    from phimap import sketches as sketches
    from phimap import tables as tables
    from phimap import theory as theory
    from phimap.advice import measure_machine as measure_machine
    from phimap.advice import suggest as suggest
    from phimap.comparison import compare as compare
    from phimap.exports import compress as compress
    from phimap.exports import export as export
    from phimap.features import ActivationFeatures as ActivationFeatures
    from phimap.features import ArcCosineFeatures as ArcCosineFeatures
    from phimap.features import BinningFeatures as BinningFeatures
    from phimap.features import CNTKGradientFeatures as CNTKGradientFeatures
    from phimap.features import CNTKSketch as CNTKSketch
    from phimap.features import CompressedFeatures as CompressedFeatures
    from phimap.features import DotProductFeatures as DotProductFeatures
    from phimap.features import FourierFeatures as FourierFeatures
    from phimap.features import LeverageFeatures as LeverageFeatures
    from phimap.features import MondrianFeatures as MondrianFeatures
    from phimap.features import NTKFeatures as NTKFeatures
    from phimap.features import NTKGradientFeatures as NTKGradientFeatures
    from phimap.features import NTKSketch as NTKSketch
    from phimap.features import NTKTensorFeatures as NTKTensorFeatures
    from phimap.features import NystroemFeatures as NystroemFeatures
    from phimap.features import PositiveFeatures as PositiveFeatures
    from phimap.features import QuantizedFeatures as QuantizedFeatures
    from phimap.features import ReweightedFeatures as ReweightedFeatures
    from phimap.features import SphericalFeatures as SphericalFeatures
    from phimap.features import SumFeatures as SumFeatures
    from phimap.features import TernaryFeatures as TernaryFeatures
    from phimap.io.checkpoint import Checkpoint as Checkpoint
    from phimap.io.model import load as load
    from phimap.io.model import save as save
    from phimap.learn import DoublyStochasticClassifier as DoublyStochasticClassifier
    from phimap.learn import DoublyStochasticPCA as DoublyStochasticPCA
    from phimap.learn import DoublyStochasticRegressor as DoublyStochasticRegressor
    from phimap.learn import GreedyDesign as GreedyDesign
    from phimap.learn import KernelClassifier as KernelClassifier
    from phimap.learn import KernelRegressor as KernelRegressor
    from phimap.packed import PackedArray as PackedArray
    from phimap.tables import TableEncoder as TableEncoder

__version__ = version("phimap")

_LINE = re.compile(r"^ *from (phimap[\w.]*) import (\w+) as \2$", re.MULTILINE)
_HOMES: dict[str, str] = {name: home for home, name in _LINE.findall(__loader__.get_source(__name__))}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'phimap' has no attribute {name!r}")
    home = _HOMES[name]
    value = import_module(f"{home}.{name}") if home == "phimap" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
