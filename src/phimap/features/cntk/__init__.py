"""Features of the neural tangent kernels of convolutional networks.

`sketch.py` defines the transformer `CNTKSketch`, `network.py` its record, and `layers.py` a single layer of it.
"""
