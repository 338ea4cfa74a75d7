"""Time, peak memory and held-out score of three fits to data that come with scikit-learn or are made up."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.datasets import load_diabetes, load_digits, make_friedman1

import phimap as pm


def _diabetes() -> tuple:
    return pm.KernelRegressor(random_state=0), *load_diabetes(return_X_y=True)


def _digits() -> tuple:
    options = {"n_components": 1024, "standardize": "global", "random_state": 0}
    return pm.KernelClassifier("ntk", **options), *load_digits(return_X_y=True)


def _friedman() -> tuple:
    options = {"n_components": 1024, "metric": None, "length_scale": "median", "random_state": 0}
    return pm.KernelRegressor("gaussian", **options), *make_friedman1(20_000, noise=1.0, random_state=0)


_FITS = {"default on diabetes": _diabetes, "ntk on digits": _digits, "gaussian on 20,000 rows": _friedman}


class Fit:
    """A fit to four fifths of the rows; the other rows are scored."""

    params = (list(_FITS),)
    param_names = ("fit",)
    timeout = 600

    def setup(self, name: str) -> None:
        self.model, X, y = _FITS[name]()
        order = np.random.default_rng(0).permutation(len(y))
        test, train = np.split(order, [len(y) // 5])
        self.training, self.tested = (X[train], y[train]), (X[test], y[test])
        with warnings.catch_warnings():
            # The fit that loads and compiles code has few rows.
            warnings.simplefilter("ignore")
            self.model.fit(*(part[:300] for part in self.training))

    def time_fit(self, name: str) -> None:
        self.model.fit(*self.training)

    def peakmem_fit(self, name: str) -> None:
        self.model.fit(*self.training)

    def track_score(self, name: str) -> float:
        return float(self.model.fit(*self.training).score(*self.tested))
