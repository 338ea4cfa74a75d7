"""Losses other than squared errors, and their minimisation over streams by preconditioned quasi-Newton steps.

`losses.py` defines the losses. `solver.py` contains the solvers in the registry, which choose alpha. These prepare a
sample and a preconditioner (`preparation.py`) and minimise (`quasi_newton.py`).
"""
