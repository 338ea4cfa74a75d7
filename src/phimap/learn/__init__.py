"""Learners: linear models on the features of a kernel, fitted from streams of batches.

The rooms in their order, each importing from those above it in this list alone:

- ``data``: what is taken from a stream of batches: scales, samples of the rows, blocks of features and their sums.
- ``solver``: what a solver is, passes over blocks of features and targets as numbers, and what it gives.
- ``ridge``, ``margin``: solvers of the squared loss, and of losses of classification.
- ``registry``: the losses and what solves each.
- ``search``: what is chosen before the fit: kernel, width, map. What is judged by held-out error fits with ``ridge``.
- ``linear``, ``streamed``, ``base``: outputs, training in two passes, and the estimator over both.
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
