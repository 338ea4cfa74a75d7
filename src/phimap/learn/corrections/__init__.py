"""Corrections: kernel models of the residuals of a linear model, one in each region of the input.

`fit.py` learns them from the residuals of `residuals.py`, in the regions of `partition.py`. `corrections.py` adds them
to predictions.
"""
