"""The compared methods, which are estimators with `fit` and `predict`: methods of phimap and common alternatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from phimap.comparison.categories import CatBoost, NativeCategories
from phimap.features import NystroemFeatures
from phimap.kernels import Gaussian
from phimap.learn import KernelClassifier, KernelRegressor
from phimap.learn.search.families import median_length_scale
from phimap.tables import TableEncoder

# Numbers of neighbours that are tried. Cross-validation chooses one of them, on at most `_NEIGHBOUR_ROWS` rows and with
# `_FOLDS` folds.
_NEIGHBOURS, _NEIGHBOUR_ROWS, _FOLDS = (1, 3, 5, 10, 20, 40), 5000, 3
# Candidate regularisations of ridge regression; logistic regression uses scikit-learn's default.
_ALPHAS = tuple(10.0**k for k in range(-3, 5))
_ITERATIONS = 200
# Default number of features for fixed kernels, and number of rows from which the median distance is computed.
_WIDTH, _MEDIAN_ROWS = 2048, 1000


@dataclass(frozen=True)
class Method:
    """A method of the comparison.

    Attributes
    ----------
    make : callable
        Returns the unfitted estimator, given the task, the number of features (None for the method's default) and the
        seed.
    says : str
        Description of the method in reports and in the documentation.
    most_rows : int or None
        Largest number of training rows for which the method is fitted; None for no limit.
    package : str
        Optional package that the method needs, or "".
    takes_frames : bool
        Whether the estimator of `make` accepts data frames with columns that are not numeric. Other methods get the
        output of `TableEncoder`.
    make_for_frames : callable or None
        Like `make`, for methods that use another estimator for data frames with columns that are not numeric.
    """

    make: Callable[[str, int | None, int], Any]
    says: str
    most_rows: int | None = None
    package: str = ""
    takes_frames: bool = False
    make_for_frames: Callable[[str, int | None, int], Any] | None = None

    def missing(self) -> bool:
        """Whether the package that the method needs is not installed."""
        return bool(self.package) and find_spec(self.package) is None


def encoding(method: Method) -> Method:
    """Return a version of the method that accepts data frames with any columns.

    A method that takes such frames is returned unchanged. A method with `make_for_frames` uses that function. Any other
    method is preceded by a `TableEncoder`.
    """
    if method.takes_frames:
        return method
    if method.make_for_frames is not None:
        return replace(method, make=method.make_for_frames)

    def make(task: str, width: int | None, seed: int) -> Any:
        encoder = TableEncoder(sparse_output=False, target_type="continuous" if task == "regression" else "classes")
        return Pipeline([("encode", encoder), ("learn", method.make(task, width, seed))])

    return replace(method, make=make)


def _learner(task: str) -> type[KernelRegressor] | type[KernelClassifier]:
    return KernelRegressor if task == "regression" else KernelClassifier


def _ours(task: str, width: int | None, seed: int) -> Any:
    return _learner(task)(n_components="auto" if width is None else width, random_state=seed)


def _gaussian(task: str, width: int | None, seed: int) -> Any:
    return _learner(task)(
        "gaussian", n_components=width or _WIDTH, length_scale="median", metric=None, random_state=seed
    )


def _ntk(task: str, width: int | None, seed: int) -> Any:
    return _learner(task)("ntk", n_components=width or _WIDTH, metric=None, random_state=seed)


def _nystroem(task: str, width: int | None, seed: int) -> Any:
    return Landmarks(task, width or _WIDTH, seed)


def _linear(task: str, width: int | None, seed: int) -> Any:
    if task == "regression":
        return make_pipeline(StandardScaler(), RidgeCV(_ALPHAS))
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=_ITERATIONS))


def _neighbours(task: str, width: int | None, seed: int) -> Any:
    return Neighbours(task, seed)


def _boosting(task: str, width: int | None, seed: int) -> Any:
    model = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    return model(random_state=seed)


def _lightgbm(task: str, width: int | None, seed: int) -> Any:
    import lightgbm

    model = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
    return model(n_estimators=500, learning_rate=0.05, random_state=seed, verbose=-1)


def _lightgbm_for_frames(task: str, width: int | None, seed: int) -> Any:
    return NativeCategories(_lightgbm(task, width, seed))


def _catboost(task: str, width: int | None, seed: int) -> Any:
    return CatBoost(task, seed)


#: A linear model, as the reference that other methods should beat.
LINEAR = Method(_linear, "ridge regression by its leave-one-out error, or logistic regression, on standardised columns")
#: Methods by name.
METHODS: dict[str, Method] = {
    "linear": LINEAR,
    "neighbours": Method(_neighbours, "nearest neighbours on standardised columns, their number by three folds"),
    "hgb": Method(_boosting, "scikit-learn's `HistGradientBoosting`, default settings"),
    "lightgbm": Method(
        _lightgbm, "LightGBM, 500 trees at rate 0.05", package="lightgbm", make_for_frames=_lightgbm_for_frames
    ),
    "catboost": Method(_catboost, "CatBoost, default settings", package="catboost", takes_frames=True),
    "phimap": Method(_ours, "`KernelRegressor` and `KernelClassifier` with default settings", takes_frames=True),
    "gaussian": Method(
        _gaussian, "the same with a Gaussian kernel at the median distance, `metric=None`", takes_frames=True
    ),
    "ntk": Method(
        _ntk, "the same with the neural tangent kernel of one hidden layer, `metric=None`", takes_frames=True
    ),
    "nystroem": Method(_nystroem, "the same with a Gaussian kernel at the median distance on random landmarks"),
}


class Neighbours(BaseEstimator):
    """Nearest neighbours on standardised columns; their number is chosen by cross-validation on a sample of rows."""

    def __init__(self, task: str, seed: int):
        self.task = task
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        some = np.random.default_rng(self.seed).permutation(len(y))[:_NEIGHBOUR_ROWS]
        fits = [count for count in _NEIGHBOURS if count <= len(some) // 2]
        model = KNeighborsRegressor() if self.task == "regression" else KNeighborsClassifier()
        pipeline = Pipeline([("scale", StandardScaler()), ("neighbours", model)])
        search = GridSearchCV(pipeline, {"neighbours__n_neighbors": fits}, cv=_FOLDS, refit=False).fit(X[some], y[some])
        self.model_ = pipeline.set_params(**search.best_params_).fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)


class Landmarks(BaseEstimator):
    """Nystroem features of a Gaussian kernel whose length scale is the median distance between standardised rows."""

    def __init__(self, task: str, width: int, seed: int):
        self.task = task
        self.width = width
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        some = np.random.default_rng(self.seed).permutation(len(X))[:_MEDIAN_ROWS]
        kernel = Gaussian(median_length_scale(StandardScaler().fit(X).transform(X[some])))
        # There are at most half as many landmarks as rows, because rows may be duplicates.
        landmarks = NystroemFeatures(kernel, max(2, min(self.width, len(X) // 2)), random_state=self.seed)
        self.model_ = _learner(self.task)(landmarks, random_state=self.seed).fit(X, y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.model_.predict(X)
