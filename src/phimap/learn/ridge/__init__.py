"""Ridge regression: training state, choice of the regularisation, and solution.

`solver.py` holds sums over rows, or the rows. `solve.py` computes a solution from them by a factorisation. `alpha.py`
minimises an objective of `alpha_objectives.py` over alpha. `conjugate_gradients.py` solves in passes over the rows,
with an alpha that `alpha_in_passes.py` chooses.
"""
