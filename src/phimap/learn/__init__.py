"""Learners: linear models on the features of a kernel, fitted from streams of batches."""

from phimap.learn.classifier import KernelClassifier
from phimap.learn.regressor import KernelRegressor
from phimap.learn.ridge import RidgeSolution
from phimap.learn.statistics import RidgeStatistics

__all__ = ["KernelClassifier", "KernelRegressor", "RidgeSolution", "RidgeStatistics"]
