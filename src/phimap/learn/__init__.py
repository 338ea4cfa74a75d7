"""Learners: linear models on the features of a kernel, fitted from streams of batches.

Start with `fit.py`, which has the way of a fit on one page. Rooms and modules in their order: each imports from those
above it in this list alone.

- ``weights``, ``blocks``: weights of rows; blocks of features and their products.
- ``rows``: batches, passes over them, their summary, validation rows, scaling, checkpoints.
- ``solver``: the interface of solvers, and the solution that they give.
- ``targets``: what regression and classification make of targets.
- ``ridge``, ``losses``: solvers of the squared loss, and of all others. ``registry`` names a solver for each loss.
- ``search``: the choice of kernel, width and metric before the fit. Its trials are fits by ``ridge``.
- ``corrections``: kernel models of the residuals, region by region.
- ``inputs``, ``training_rows``, ``settings``: rows and parameters, checked when a fit begins.
- ``scaled_map``, ``state``, ``fitted``: the values of a fit: its map, its sums, and the model. ``calibration`` and
  ``extrapolation`` serve predictions.
- ``choose_map``, ``correct``, ``fit``: the steps of a fit. ``collections`` fits on rows of other machines.
- ``deviations``, ``html``, ``base``, ``regressor``, ``classifier``: the estimators.
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
