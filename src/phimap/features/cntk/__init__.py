"""Features of the neural tangent kernels of convolutional networks.

`sketch.py` has the transformer, `network.py` its record, and `layers.py` what one layer does to the features of
pixels.
"""
