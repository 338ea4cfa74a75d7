"""Fused operations, one in each file.

A file has the contract, a generic body in core operations, and what a backend does better.
"""
