"""The choice of kernel, length scale, metric and map from the data, before a learner fits.

`search.py` has the steps, `rung.py` the trials of one step, and `trial.py` the small fit that gives the held-out error.
"""
