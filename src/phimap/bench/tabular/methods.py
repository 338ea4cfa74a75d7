"""The methods that are compared on tables, each as an estimator with `fit` and `predict`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import phimap as pm

#: Most training rows of the exact kernel methods, whose time grows with their cube.
EXACT_ROWS = 5000
# Numbers of neighbours among which three folds of at most so many rows choose.
_NEIGHBOURS, _NEIGHBOUR_ROWS = (1, 3, 5, 10, 20, 40), 5000
# Grid of the support vector machine; gamma is in units of 1 / d on standardised columns.
_PENALTIES, _GAMMAS = (1.0, 10.0, 100.0), (0.25, 1.0, 4.0)
_FOLDS = 3
# Share of the training rows that xRFM stops and chooses by.
_HELD_OUT = 0.2


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes
    ----------
    make : callable
        Makes the unfitted estimator of the task, the number of features and the seed.
    says : str
        What it is, for the page.
    most_rows : int or None
        Training rows beyond which it is not tried.
    package : str
        An optional package that it needs, or "".
    """

    make: Callable[[str, int, int], Any]
    says: str
    most_rows: int | None = None
    package: str = ""

    def missing(self) -> bool:
        """Whether its package is not installed."""
        return bool(self.package) and find_spec(self.package) is None


def _ours(task: str, width: int, seed: int) -> Any:
    model = pm.KernelRegressor if task == "regression" else pm.KernelClassifier
    return model(n_components=width, random_state=seed)


def _gaussian(task: str, width: int, seed: int) -> Any:
    model = pm.KernelRegressor if task == "regression" else pm.KernelClassifier
    return model("gaussian", n_components=width, length_scale="median", metric=None, random_state=seed)


def _boosting(task: str, width: int, seed: int) -> Any:
    model = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    return model(random_state=seed)


def _lightgbm(task: str, width: int, seed: int) -> Any:
    import lightgbm

    model = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    return model(n_estimators=500, learning_rate=0.05, random_state=seed, verbose=-1)


def _xrfm(task: str, width: int, seed: int) -> Any:
    return make_pipeline(StandardScaler(), RecursiveFeatureMachine(task, seed))


def _neighbours(task: str, width: int, seed: int) -> Any:
    return Neighbours(task, seed)


def _exact(task: str, width: int, seed: int) -> Any:
    if task == "regression":
        return _gaussian_process(seed)
    svm = Pipeline([("scale", StandardScaler()), ("svm", _ScaledSVC())])
    return GridSearchCV(svm, {"svm__C": _PENALTIES, "svm__factor": _GAMMAS}, cv=_FOLDS)


def _gaussian_process(seed: int) -> Any:
    # Standardised columns lie at distances of about the root of twice their number; a width of 3 is near this for
    # most tables, and the likelihood finds the rest.
    kernel = ConstantKernel() * RBF(3.0, (0.01, 1000.0)) + WhiteKernel(0.1, (1e-6, 10.0))
    return make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed))


#: Methods by name.
METHODS: dict[str, Method] = {
    "phimap": Method(_ours, "`KernelRegressor` and `KernelClassifier` with default settings"),
    "gaussian": Method(_gaussian, "the same with a Gaussian kernel at the median distance, `metric=None`"),
    "hgb": Method(_boosting, "scikit-learn's `HistGradientBoosting`, default settings"),
    "lightgbm": Method(_lightgbm, "LightGBM, 500 trees at rate 0.05", package="lightgbm"),
    "xrfm": Method(_xrfm, "xRFM, default settings, standardised columns, a fifth held out", package="xrfm"),
    "neighbours": Method(_neighbours, "nearest neighbours on standardised columns, their number by three folds"),
    "exact": Method(
        _exact,
        "an exact kernel method: Gaussian process by its likelihood, or support vector machine by three folds",
        most_rows=EXACT_ROWS,
    ),
}


class _ScaledSVC(ClassifierMixin, BaseEstimator):
    """Support vector machine of the Gaussian kernel ``exp(-factor |x - y|^2 / d)``."""

    def __init__(self, C: float = 1.0, factor: float = 1.0):
        self.C = C
        self.factor = factor

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.model_ = SVC(C=self.C, gamma=self.factor / X.shape[1], cache_size=500).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)


class Neighbours:
    """Nearest neighbours on standardised columns; some of the rows choose how many."""

    def __init__(self, task: str, seed: int):
        self.model = KNeighborsRegressor if task == "regression" else KNeighborsClassifier
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        some = np.random.default_rng(self.seed).permutation(len(y))[:_NEIGHBOUR_ROWS]
        fits = [count for count in _NEIGHBOURS if count <= len(some) // 2]
        pipeline = Pipeline([("scale", StandardScaler()), ("neighbours", self.model())])
        search = GridSearchCV(pipeline, {"neighbours__n_neighbors": fits}, cv=_FOLDS, refit=False).fit(X[some], y[some])
        self.model_ = pipeline.set_params(**search.best_params_).fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)


class RecursiveFeatureMachine(BaseEstimator):
    """xRFM on the processor, with the rows it holds out taken from the training rows and targets of variance 1."""

    def __init__(self, task: str, seed: int):
        self.task = task
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        from xrfm import xRFM

        # The package tells tasks by the type of the targets.
        self.shift_, self.scale_ = (float(y.mean()), float(y.std()) or 1.0) if self.task == "regression" else (0, 1)
        targets = ((y - self.shift_) / self.scale_).astype(np.float32) if self.task == "regression" else y
        held, kept = np.split(np.random.default_rng(self.seed).permutation(len(y)), [int(_HELD_OUT * len(y))])
        self.model_ = xRFM(device="cpu", random_state=self.seed, verbose=False)
        self.model_.fit(X[kept], targets[kept], X[held], targets[held])
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.ravel(self.model_.predict(X)) * self.scale_ + self.shift_
