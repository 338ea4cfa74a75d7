"""The survey's experiment: error, time and accuracy of every projection against the number of directions.

Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Section 6.1: relative Frobenius error on
1,000 random rows, seconds to make the features, and test accuracy of linear classifiers on them, for s = 2d, ..., 32d
directions, repeated with new draws.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.svm import LinearSVC

import phimap as pm
from phimap.bench.datasets import Dataset
from phimap.learn.search.length_scale import median_length_scale

ERROR_ROWS = 1000
MULTIPLES = (2, 4, 8, 16, 32)
# Rows to train the linear classifiers on; more change no ranking and take hours at s = 32 d.
MOST_ROWS = 20_000


@dataclass(frozen=True)
class Measurement:
    """One draw of one method.

    Attributes
    ----------
    dataset, projection : str
    n_directions : int
    seed : int
    error : float
        Relative Frobenius error.
    seconds : float
        Drawing the map and mapping the rows of the error.
    ridge, liblinear : float
        Test accuracy in percent; NaN where it was not asked for.
    """

    dataset: str
    projection: str
    n_directions: int
    seed: int
    error: float
    seconds: float
    ridge: float = float("nan")
    liblinear: float = float("nan")


def run(
    data: Dataset,
    projections: Sequence[str],
    *,
    widths: Sequence[int] | None = None,
    draws: Sequence[int] = range(10),
    classify: bool = False,
    most_rows: int = MOST_ROWS,
) -> Iterator[Measurement]:
    """Measure every projection at every width on one set, Gaussian kernel at the median distance.

    Parameters
    ----------
    data : Dataset
    projections : sequence of str
        Names in `phimap.projections.REGISTRY`.
    widths : sequence of int or None
        Numbers of directions; None is 2, 4, ..., 32 times the number of inputs. Those that a deterministic rule cannot
        have are left out.
    draws : sequence of int
        Seeds; each also draws its rows for the error.
    classify : bool
        Train ridge regression and liblinear on the features, too.
    most_rows : int
        Rows that they are trained on, and as many to test them.

    Yields
    ------
    Measurement
    """
    n, d = data.X.shape
    widths = [multiple * d for multiple in MULTIPLES] if widths is None else widths
    _warm_up(projections)
    for repeat in draws:
        rng = np.random.default_rng(repeat)
        rows = data.X[rng.permutation(n)[:ERROR_ROWS]]
        kernel = pm.kernels.Gaussian(length_scale=median_length_scale(rows))
        exact = kernel(rows)
        for projection in projections:
            for width in widths:
                phi = pm.FourierFeatures(kernel, 2 * width, projection=projection, random_state=repeat)
                start = time.perf_counter()
                try:
                    Z = phi.fit_transform(rows)
                except ValueError:
                    # A rule with a width of its own, or one that needs more directions than dimensions.
                    continue
                seconds = time.perf_counter() - start
                signature = getattr(phi, "signature_", None)
                signed = Z if signature is None else Z * signature
                error = float(np.linalg.norm(exact - signed @ Z.T) / np.linalg.norm(exact))
                accuracies = _accuracies(phi, data, most_rows, rng) if classify else {}
                yield Measurement(data.name, projection, width, repeat, error, seconds, **accuracies)


def _warm_up(projections: Sequence[str]) -> None:
    """Load what the first call of each projection compiles, so that no draw's time holds it."""
    rows = np.zeros((2, 3), np.float32)
    for projection in projections:
        with suppress(ValueError):
            pm.FourierFeatures(n_components=32, projection=projection, random_state=0).fit_transform(rows)


def _accuracies(phi: pm.FourierFeatures, data: Dataset, rows: int, rng: np.random.Generator) -> dict[str, float]:
    """Test accuracies in percent."""
    chosen, tested = (rng.permutation(len(X))[:rows] for X in (data.X, data.X_test))
    Z, Z_test = phi.transform(data.X[chosen]), phi.transform(data.X_test[tested])
    classifiers = {
        "ridge": RidgeClassifier(alpha=1e-3 * len(chosen), solver="cholesky"),
        "liblinear": LinearSVC(C=1.0, dual="auto", max_iter=200, tol=1e-3, random_state=0),
    }
    return {
        name: 100.0 * float(classifier.fit(Z, data.y[chosen]).score(Z_test, data.y_test[tested]))
        for name, classifier in classifiers.items()
    }
