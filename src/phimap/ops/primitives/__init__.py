"""Fused operations, one a file: contract, generic body in core operations, and what a backend does better."""
