"""Features of the neural tangent kernels of fully connected networks.

`random_features.py` defines the transformer `NTKFeatures`, `exact.py` plans its maps with exact degrees, and
`layers.py` implements the published recursion.
"""
