"""Models of every kind that is explained, and Shapley values and interactions by their definition."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np

import phimap as pm
from phimap.kernels import Additive, Cauchy, Gaussian, Laplacian, Matern


def brute_force(function, rows, background, groups):
    """Shapley values (n, p, t) by the definition: mean marginal contributions over all subsets of players."""
    p, n = len(groups), len(rows)
    masks = (np.arange(2**p)[:, None] >> np.arange(p)) & 1 == 1
    owners = np.zeros(rows.shape[1], int)
    for player, columns in enumerate(groups):
        owners[columns] = player
    values = []
    for row in rows:
        mixed = np.where(masks[:, None, owners], row, background[None])
        outputs = function(mixed.reshape(-1, rows.shape[1])).reshape(2**p, len(background), -1)
        values.append(outputs.mean(axis=1))
    sizes = masks.sum(axis=1)
    found = np.zeros((n, p, values[0].shape[1]))
    for j in range(p):
        without = np.flatnonzero(~masks[:, j])
        weights = np.array([factorial(s) * factorial(p - s - 1) / factorial(p) for s in sizes[without]])
        for i in range(n):
            found[i, j] = weights @ (values[i][without | (1 << j)] - values[i][without])
    return found


def brute_force_pairs(function, row, background, j, k):
    """The Shapley interaction index (t,) of a pair of columns, by the definition."""
    p = row.size
    others = [one for one in range(p) if one not in (j, k)]
    total = 0.0
    for size in range(len(others) + 1):
        weight = factorial(size) * factorial(p - size - 2) / factorial(p - 1)
        for subset in combinations(others, size):
            means = []
            for extra in ((j, k), (j,), (k,), ()):
                mixed = background.copy()
                mixed[:, list(subset) + list(extra)] = row[list(subset) + list(extra)]
                means.append(function(mixed).reshape(len(background), -1).mean(axis=0))
            total = total + weight * (means[0] - means[1] - means[2] + means[3])
    return total


def data(d, n=120, seed=0, targets=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.stack([np.sin(X[:, 0] + t) + X[:, 1] * X[:, 2 % d] + 0.3 * X.sum(axis=1) for t in range(targets)], axis=1)
    return X, y[:, 0] if targets == 1 else y


def landmarks(kernel):
    return pm.NystroemFeatures(kernel, 40, random_state=0)


MAPS = {
    "gaussian landmarks": lambda: landmarks(Gaussian(2.0)),
    "laplacian landmarks": lambda: landmarks(Laplacian(5.0)),
    "cauchy landmarks": lambda: landmarks(Cauchy(3.0)),
    "matern 3/2 landmarks": lambda: landmarks(Matern(1.5, 3.0)),
    "matern 1/2 landmarks": lambda: landmarks(Matern(0.5, 3.0)),
    "additive 1 landmarks": lambda: landmarks(Additive(Matern(1.5, 2.0), 1)),
    "additive 2 landmarks": lambda: landmarks(Additive(Gaussian(2.0), 2)),
    "additive 3 landmarks": lambda: landmarks(Additive(Laplacian(4.0), 3)),
    "sum landmarks": lambda: landmarks(Gaussian(2.0) + 0.5 * Laplacian(5.0) + Additive(Gaussian(1.0), 2)),
    "product landmarks": lambda: landmarks(Gaussian(3.0) * Cauchy(4.0)),
    "additive product landmarks": lambda: landmarks(Additive(Gaussian(2.0), 2) * Laplacian(9.0)),
    "two additive landmarks": lambda: landmarks(
        Additive(Gaussian(1.5), 1) * Additive(Laplacian(4.0), 2) * Gaussian(5.0)
    ),
    "sum times product landmarks": lambda: landmarks((Additive(Gaussian(1.0), 1) + Gaussian(3.0)) * Laplacian(8.0)),
    "additive squared landmarks": lambda: landmarks(Additive(Matern(1.5, 2.0), 1) * Additive(Gaussian(1.0), 1)),
    "gaussian phases": lambda: pm.FourierFeatures(Gaussian(2.0), 63, random_state=0),
    "matern offset": lambda: pm.FourierFeatures(Matern(1.5, 2.0), 64, pairing="offset", random_state=0),
    "additive phases": lambda: pm.FourierFeatures(Additive(Gaussian(1.0), 2), 64, random_state=0),
    "normalised phases": lambda: pm.FourierFeatures(Laplacian(3.0), 64, normalize_output=True, random_state=0),
    "structured phases": lambda: pm.FourierFeatures(Gaussian(2.0), 64, projection="sorf", random_state=0),
    "sum phases": lambda: pm.SumFeatures(Gaussian(2.0) + 0.5 * Laplacian(5.0), 64, random_state=0),
    "compressed phases": lambda: pm.CompressedFeatures(pm.FourierFeatures(Gaussian(2.0), 128), 32, random_state=0),
}


def fitted(name, X, y, **named):
    named = {"metric": None, "corrections": None, "alpha": 1e-3, **named}
    return pm.KernelRegressor(MAPS[name](), random_state=0, **named).fit(X, y)


def function_of(model):
    """Outputs in float64, without the shrinking of far rows, which random mixtures of training rows never meet."""
    return lambda rows: np.asarray(model.predict(rows), dtype=np.float64).reshape(len(rows), -1)
