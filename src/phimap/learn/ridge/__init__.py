"""Ridge regression: what it keeps of the rows, how it chooses the regularisation, and how it solves.

`solver.py` keeps sums or rows. `alpha.py` chooses the regularisation, by the criteria of `criteria.py`. `solve.py`
has the mathematics, and `conjugate_gradients.py` the solution in passes.
"""
