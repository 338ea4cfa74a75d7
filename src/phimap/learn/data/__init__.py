"""What a learner takes from a stream of batches.

These are the scales of the columns, samples of the rows, blocks of features, and their sums. A pass over the rows is
a fold (`folds.py`).
"""
