"""The experiment on variances and bounds: formulas of the papers compared with simulations."""
