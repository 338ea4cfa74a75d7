"""Fused operations, one in each file.

A file has the contract, a generic body in core operations, and the faster overrides of backends.
"""
