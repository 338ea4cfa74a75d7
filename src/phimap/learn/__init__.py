"""Learners: linear models on the features of a kernel, fitted from streams of batches."""

from phimap.learn.classifier import KernelClassifier
from phimap.learn.regressor import KernelRegressor
from phimap.learn.ridge.solve import RidgeSolution
from phimap.learn.ridge.statistics import RidgeStatistics

__all__ = ["KernelClassifier", "KernelRegressor", "RidgeSolution", "RidgeStatistics"]
