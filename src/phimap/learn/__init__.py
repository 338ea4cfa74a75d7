"""Learners: linear models on the features of a kernel, fitted from streams of batches.

Rooms in their order. Each imports from those above it in this list alone:

- ``data``: scales, samples of the rows, blocks of features and their sums, as a stream of batches gives them.
- ``solver``: what a solver is, what it goes through, and what it gives.
- ``ridge``, ``margin``: solvers of the squared loss, and of the losses of classification.
- ``registry``: the losses, and what solves each.
- ``search``: the choice of kernel, width and map before the fit. Its trials are fits by ``ridge``.
- ``linear``, ``gathered``, ``streamed``, ``base``: outputs, the pass of the solver, training in passes, the estimator.
- ``regressor``, ``classifier``: what a target is, and what an output means.
- ``doubly_stochastic``: learners that store coefficients alone, by stochastic gradients.
- ``active``: which rows to label, from the features alone.
"""

from phimap.learn.active.design import GreedyDesign
from phimap.learn.classifier import KernelClassifier
from phimap.learn.doubly_stochastic.classifier import DoublyStochasticClassifier
from phimap.learn.doubly_stochastic.regressor import DoublyStochasticRegressor
from phimap.learn.regressor import KernelRegressor
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.solver import LinearSolution

__all__ = [
    "DoublyStochasticClassifier",
    "DoublyStochasticRegressor",
    "GreedyDesign",
    "KernelClassifier",
    "KernelRegressor",
    "LinearSolution",
    "RidgeStatistics",
]
