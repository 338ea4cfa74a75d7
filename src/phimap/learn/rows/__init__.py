"""Training rows: batches, passes over them, samples, validation rows and scaling.

`batches.py` has the batches and `accumulator.py` the passes over them. The first pass computes the summary of
`summary.py`; later passes compute the features of `feature_stream.py`. `checkpoint.py` stores passes.
"""
