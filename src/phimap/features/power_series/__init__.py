"""Kernels with a power series: some powers carried exactly, the others by sketches."""
