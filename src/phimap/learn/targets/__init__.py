"""Targets of regression and classification: checks, encoding and units."""
