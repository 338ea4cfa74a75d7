"""Blocks of features, whose products the solvers use: dense, on a device, packed, or formed when needed."""
