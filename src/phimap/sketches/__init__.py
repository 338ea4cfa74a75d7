"""Oblivious sketches: random linear reductions of vectors and of their tensor products."""

from phimap.sketches.base import Sketch
from phimap.sketches.countsketch import CountSketch
from phimap.sketches.srht import SRHT, TensorSRHT
from phimap.sketches.tensorsketch import TensorSketch

__all__ = ["SRHT", "CountSketch", "Sketch", "TensorSRHT", "TensorSketch"]
