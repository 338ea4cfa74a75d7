"""Losses other than squared errors, and their minimisation over streams by preconditioned quasi-Newton steps.

`losses.py` and `huber.py` define the losses. `solver.py` and `huber_solver.py` contain the solvers in the registry.
These prepare a sample and a preconditioner (`preparation.py`), choose alpha (`alpha.py`) and minimise
(`quasi_newton.py`).
"""
