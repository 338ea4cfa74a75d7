"""Corrections: kernel models of the residuals of the linear model, one in each region of the input."""
