"""phimap as a model of AutoGluon, which TabArena compares with others on the same splits.

`fitted` and `predictions` do the work without AutoGluon. `PhimapModel` wraps them; it needs `autogluon.tabular`.

    python benchmarks/tabarena/phimap_model.py
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import phimap as pm

#: Hyperparameters that a search may try, beside the default, which is an empty dictionary.
SEARCH_SPACE: dict[str, tuple[Any, ...]] = {
    "effort": ("normal", "thorough"),
    "kernel": ("auto", "gaussian", "laplacian", "matern"),
    "metric": ("auto", "diagonal", "full"),
}
# Problem types of AutoGluon.
_REGRESSION, _BINARY, _MULTICLASS = "regression", "binary", "multiclass"


def fitted(
    X: pd.DataFrame,
    y: pd.Series,
    problem_type: str,
    *,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    **hyperparameters: Any,
) -> Any:
    """Return a learner of phimap that is fitted to a frame with text, categories, dates and missing cells.

    Parameters
    ----------
    X : DataFrame of shape (n, d)
    y : Series of shape (n,)
        Numbers, or codes of classes as AutoGluon makes them.
    problem_type : {"regression", "binary", "multiclass"}
    time_limit : float, optional
        Seconds of the search, after which the best kernel so far is taken. The fit takes longer than its search.
    n_jobs, random_state : int
    **hyperparameters
        Parameters of the learner.

    Raises
    ------
    ValueError
        If `problem_type` is of another kind.
    """
    if problem_type not in (_REGRESSION, _BINARY, _MULTICLASS):
        raise ValueError(f"`problem_type` must be regression, binary or multiclass, got {problem_type!r}.")
    kind = pm.KernelRegressor if problem_type == _REGRESSION else pm.KernelClassifier
    options = {"time_limit": time_limit, "n_jobs": n_jobs, "random_state": random_state} | hyperparameters
    return kind(**options).fit(X, y.to_numpy())


def predictions(model: Any, X: pd.DataFrame, problem_type: str) -> np.ndarray:
    """Return what AutoGluon expects: numbers (n,), probabilities (n,) of the second class, or those (n, c) of all."""
    if problem_type == _REGRESSION:
        return model.predict(X)
    probabilities = model.predict_proba(X)
    return probabilities[:, 1] if problem_type == _BINARY else probabilities


@cache
def model_class() -> type:
    """Return the class `PhimapModel`, a subclass of AutoGluon's `AbstractModel`; always the same, as pickle needs."""
    from autogluon.core.models import AbstractModel

    class PhimapModel(AbstractModel):
        """A learner of phimap. It encodes frames itself, so that AutoGluon's columns are taken as they are."""

        ag_key = "PHIMAP"
        ag_name = "phimap"

        def _fit(self, X: Any, y: Any, time_limit: Any = None, num_cpus: Any = 1, **more: Any) -> None:
            X = self.preprocess(X, is_train=True)
            options = {"time_limit": time_limit, "n_jobs": None if num_cpus == "auto" else num_cpus}
            self.model = fitted(X, y, self.problem_type, **(options | self._get_model_params()))

        def _predict_proba(self, X: Any, **more: Any) -> np.ndarray:
            return predictions(self.model, self.preprocess(X, **more), self.problem_type)

        @classmethod
        def supported_problem_types(cls) -> list[str]:
            return [_REGRESSION, _BINARY, _MULTICLASS]

        def _get_default_auxiliary_params(self) -> dict[str, Any]:
            types = {"valid_raw_types": ["int", "float", "bool", "category", "object", "datetime"]}
            return super()._get_default_auxiliary_params() | types

    # AutoGluon pickles models by the name of their class in this module, where `__getattr__` finds it.
    PhimapModel.__qualname__ = PhimapModel.__name__
    return PhimapModel


def __getattr__(name: str) -> Any:
    """Return `PhimapModel` when it is asked for, because AutoGluon is imported for it."""
    if name == "PhimapModel":
        return model_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def main() -> None:
    """Fit the wrapped model to the diabetes data, and print its score."""
    from sklearn.datasets import load_diabetes
    from sklearn.metrics import r2_score

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = model_class()(problem_type=_REGRESSION, path="build/tabarena")
    model.fit(X=X[:350], y=y[:350])
    print(f"R2 {r2_score(y[350:], model.predict(X[350:])):.3f} on 92 rows of diabetes")


if __name__ == "__main__":
    main()
