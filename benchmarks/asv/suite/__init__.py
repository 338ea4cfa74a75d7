"""Benchmarks for asv: ``cd benchmarks/asv; asv run``."""
