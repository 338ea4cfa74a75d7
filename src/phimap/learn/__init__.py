"""Learners: linear models on the features of a kernel, fitted from streams of batches.

Start with `fit.py`: it shows the steps of a fit on one page. Each package or module in this list imports only from
packages and modules above it:

- ``weights``, ``blocks``: weights of rows, and blocks of features.
- ``rows``: batches of training rows and passes over them, samples of rows, and the scaling of columns.
- ``solver``: the interface of solvers, their problem and their solution.
- ``targets``: encodings of numbers and labels.
- ``ridge``, ``losses``: solvers of the squared loss, and of the other losses in passes.
- ``registry``: the solvers of each loss, and the choice among them.
- ``search``: the choice of kernel, width and map before the fit. Its trials are fits by ``ridge``.
- ``corrections``: exact kernel models of the residuals.
- ``inputs``, ``settings``, ``scaled_map``: checked rows, parameters, and the map on scaled rows.
- ``choose_map``, ``fitted``, ``correct``, ``fit``, ``collections``: the steps of a fit, and its results.
- ``deviations``, ``base``: standard deviations of predictions, and the code that the estimators share.
- ``regressor``, ``classifier``: the estimators.
- ``doubly_stochastic``: learners that store only coefficients, fitted by stochastic gradients.
- ``active``: the choice of rows to label, from the features alone.
"""

from phimap.learn.active.design import GreedyDesign
from phimap.learn.classifier import KernelClassifier
from phimap.learn.doubly_stochastic.learners import DoublyStochasticClassifier, DoublyStochasticRegressor
from phimap.learn.doubly_stochastic.pca import DoublyStochasticPCA
from phimap.learn.regressor import KernelRegressor
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.solver import LinearSolution

__all__ = [
    "DoublyStochasticClassifier",
    "DoublyStochasticPCA",
    "DoublyStochasticRegressor",
    "GreedyDesign",
    "KernelClassifier",
    "KernelRegressor",
    "LinearSolution",
    "RidgeStatistics",
]
