"""Training rows: batches, passes over them, samples, validation rows and scaling.

`batches.py` has the batches and `accumulator.py` the passes over them. The first pass gives the summary of
`summary.py`, later ones the features of `feature_stream.py`. `checkpoint.py` stores passes.
"""
