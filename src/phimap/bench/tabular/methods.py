"""The methods that are compared on tables: methods of `phimap.comparison`, and methods that take hours."""

from __future__ import annotations

import logging
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from phimap.comparison.methods import METHODS as COMMON
from phimap.comparison.methods import Method

#: Maximum number of training rows of the exact kernel methods. Their time grows with the cube of this number.
EXACT_ROWS = 5000
# Grid of C and gamma for the support vector machine; gamma is in units of 1 / d, for d standardised columns.
_PENALTIES, _GAMMAS = (1.0, 10.0, 100.0), (0.25, 1.0, 4.0)
_FOLDS = 3
# Share of the training rows that are held out for xRFM. On these rows it stops early and chooses hyper-parameters.
_HELD_OUT = 0.2


def _xrfm(task: str, width: int | None, seed: int) -> Any:
    return make_pipeline(StandardScaler(), RecursiveFeatureMachine(task, seed))


def _realmlp(task: str, width: int | None, seed: int) -> Any:
    from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

    # The package writes a line for each epoch by this logger.
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    kind = RealMLP_TD_Regressor if task == "regression" else RealMLP_TD_Classifier
    return kind(device="cpu", random_state=seed, verbosity=0)


def _exact(task: str, width: int | None, seed: int) -> Any:
    if task == "regression":
        return _gaussian_process(seed)
    svm = Pipeline([("scale", StandardScaler()), ("svm", _ScaledSVC())])
    return GridSearchCV(svm, {"svm__C": _PENALTIES, "svm__factor": _GAMMAS}, cv=_FOLDS)


def _gaussian_process(seed: int) -> Any:
    # Typical distances between rows with d standardised columns are sqrt(2 d). The initial length scale 3 is of this
    # order for most tables. The likelihood then optimises it.
    kernel = ConstantKernel() * RBF(3.0, (0.01, 1000.0)) + WhiteKernel(0.1, (1e-6, 10.0))
    return make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed))


#: Methods by name.
METHODS: dict[str, Method] = {
    **{name: COMMON[name] for name in ("phimap", "gaussian", "hgb", "lightgbm", "catboost")},
    "xrfm": Method(_xrfm, "xRFM, default settings, standardised columns, a fifth held out", package="xrfm"),
    "realmlp": Method(_realmlp, "RealMLP-TD, default settings, a fifth held out", package="pytabkit"),
    "neighbours": COMMON["neighbours"],
    "exact": Method(
        _exact,
        "an exact kernel method: Gaussian process by its likelihood, or support vector machine by three folds",
        most_rows=EXACT_ROWS,
    ),
}


class _ScaledSVC(ClassifierMixin, BaseEstimator):
    """Support vector machine with the Gaussian kernel ``exp(-factor |x - y|^2 / d)``."""

    def __init__(self, C: float = 1.0, factor: float = 1.0):
        self.C = C
        self.factor = factor

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.model_ = SVC(C=self.C, gamma=self.factor / X.shape[1], cache_size=500).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)


class RecursiveFeatureMachine(BaseEstimator):
    """xRFM on the CPU. Some training rows are held out, and regression targets are scaled to variance 1."""

    def __init__(self, task: str, seed: int):
        self.task = task
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        from xrfm import xRFM

        # The package infers the task from the dtype of the targets.
        self.shift_, self.scale_ = (float(y.mean()), float(y.std()) or 1.0) if self.task == "regression" else (0, 1)
        targets = ((y - self.shift_) / self.scale_).astype(np.float32) if self.task == "regression" else y
        held, kept = np.split(np.random.default_rng(self.seed).permutation(len(y)), [int(_HELD_OUT * len(y))])
        self.model_ = xRFM(device="cpu", random_state=self.seed, verbose=False)
        self.model_.fit(X[kept], targets[kept], X[held], targets[held])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.ravel(self.model_.predict(X)) * self.scale_ + self.shift_
