"""Blocks of features, whose products solvers use: dense, on a device, packed, or computed when needed."""
