"""Corrections: a model learns what the linear model leaves of the targets, region by region."""
