"""The survey's experiment: error, time and accuracy of every projection against the number of directions.

Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Section 6.1: relative Frobenius error on
1,000 random rows, seconds to make the features, and test accuracy of linear classifiers on the features. They are
measured for s = 2d, ..., 32d directions and several draws. Ridge is tuned by its leave-one-out error, liblinear by
cross-validation.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any
from warnings import catch_warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from phimap.bench.approximation.families import FAMILIES, Family
from phimap.bench.datasets import Dataset
from phimap.features import FeatureMap

ERROR_ROWS = 1000
MULTIPLES = (2, 4, 8, 16, 32)
# Maximum number of training rows of the linear classifiers: more rows do not change the ranking and take hours at s =
# 32 d.
MOST_ROWS = 20_000
# Parameters tried: alpha of ridge, divided by the number of rows, and C of liblinear. C is chosen by cross-validation
# with `_FOLDS` folds on at most `_TUNING_ROWS` rows.
_ALPHAS = tuple(10.0**k for k in range(-6, 1))
_COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
_FOLDS, _TUNING_ROWS = 5, 4000
_NOT_MEASURED = {"ridge": float("nan"), "liblinear": float("nan")}


def run(
    data: Dataset,
    projections: Sequence[str],
    *,
    widths: Sequence[int] | None = None,
    draws: Sequence[int] = range(10),
    classify: bool = False,
    most_rows: int = MOST_ROWS,
    family: str = "gaussian",
) -> Iterator[dict[str, Any]]:
    """Measure every projection at every width on one set, by default for the Gaussian kernel at the median distance.

    Parameters
    ----------
    data : Dataset
    projections : sequence of str
        Methods of the family. For all kernels except the polynomial kernel they are names in
        `phimap.projections.REGISTRY`.
    widths : sequence of int or None
        Numbers of directions; None means 2, 4, ..., 32 times the number of columns. Widths that a method does not
        support are left out.
    draws : sequence of int
        Seeds of the map and of the rows on which the error is measured.
    classify : bool
        Also train ridge regression and liblinear on the features.
    most_rows : int
        Maximum number of training rows of the classifiers, and maximum number of their test rows.
    family : str, default="gaussian"
        A key of `phimap.bench.approximation.families.FAMILIES`.

    Yields
    ------
    dict
        One measurement. `seconds` is the time of drawing the map and of mapping the rows on which the error is
        measured. `ridge` and `liblinear` are test accuracies in percent, NaN unless `classify`.
    """
    n, d = data.X.shape
    widths = [multiple * d for multiple in MULTIPLES] if widths is None else widths
    of_kernel = FAMILIES[family]
    _warm_up(of_kernel, projections)
    for repeat in draws:
        rng = np.random.default_rng(repeat)
        rows = data.X[rng.permutation(n)[:ERROR_ROWS]]
        kernel = of_kernel.kernel(rows)
        exact = kernel(rows)
        for projection in projections:
            for width in widths:
                start = time.perf_counter()
                try:
                    phi = of_kernel.make(kernel, projection, width, repeat)
                    Z = phi.fit_transform(rows)
                except ValueError:
                    # The projection does not support this width, or there is no such map for the kernel.
                    continue
                seconds = time.perf_counter() - start
                signature = getattr(phi, "signature_", None)
                signed = Z if signature is None else Z * signature
                error = float(np.linalg.norm(exact - signed @ Z.T) / np.linalg.norm(exact))
                accuracies = _accuracies(phi, data, most_rows, rng) if classify else _NOT_MEASURED
                row = {"dataset": data.name, "projection": projection, "n_directions": width, "seed": repeat}
                yield row | {"error": error, "seconds": seconds} | accuracies | {"kernel": family}


def _warm_up(family: Family, projections: Sequence[str]) -> None:
    """Call each method once, so that no measured time includes compilation."""
    rows = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    kernel = family.kernel(rows)
    for projection in projections:
        with suppress(ValueError):
            family.make(kernel, projection, 16, 0).fit_transform(rows)


def _accuracies(phi: FeatureMap, data: Dataset, rows: int, rng: np.random.Generator) -> dict[str, float]:
    """Return the test accuracies of ridge and liblinear in percent."""
    chosen, tested = (rng.permutation(len(X))[:rows] for X in (data.X, data.X_test))
    Z, Z_test, y = phi.transform(data.X[chosen]), phi.transform(data.X_test[tested]), data.y[chosen]
    linear = LinearSVC(dual="auto", max_iter=200, tol=1e-3, random_state=0)
    with catch_warnings(action="ignore", category=ConvergenceWarning):
        tuned = GridSearchCV(linear, {"C": _COSTS}, cv=_FOLDS).fit(Z[:_TUNING_ROWS], y[:_TUNING_ROWS])
        classifiers = {
            "ridge": RidgeClassifierCV([alpha * len(chosen) for alpha in _ALPHAS]).fit(Z, y),
            "liblinear": linear.set_params(**tuned.best_params_).fit(Z, y),
        }
    return {
        name: 100.0 * float(classifier.score(Z_test, data.y_test[tested])) for name, classifier in classifiers.items()
    }
