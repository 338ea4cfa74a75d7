"""What a learner chooses from the data before it fits: the kernel, its width, its metric and its map.

`search.py` has the steps, and `trial.py` the small fit that judges a candidate.
"""
