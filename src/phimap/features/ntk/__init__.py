"""Features of the neural tangent kernels of fully connected networks.

`random_features.py` has the transformer. `exact.py` plans the maps with exact degrees, and `layers.py` the published
recursion.
"""
