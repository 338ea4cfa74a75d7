"""Boosted trees. Their outputs are averaged with the kernel model if this lowers the validation error.

A kernel model is a smooth function of the columns; trees have jumps at thresholds. On most tables, the average of both
has a smaller error than either.

- ``ensemble``: the record of the trees, and their outputs.
- ``bins``: the bins of numbers between which trees split.
- ``growth``: histogram gradient boosting.

`phimap.learn.average` chooses the number of trees and their share in the outputs, by the errors of rows left out.
"""
