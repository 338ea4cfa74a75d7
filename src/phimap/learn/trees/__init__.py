"""Boosted trees, whose outputs are averaged with those of the kernel model where that lowers the validation error.

A kernel model is smooth in its columns; trees follow thresholds. The average of both errs less than either on most
tables.

- ``ensemble``: the record of the trees, and their outputs.
- ``growth``: scikit-learn's boosting, converted to the record.

`phimap.learn.average` chooses the number of trees and their share in the outputs, by the errors of rows left out.
"""
