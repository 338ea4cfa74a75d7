"""Probabilities of `KernelClassifier` on tables: calibration error and log loss, beside boosting and a linear model.

Prints, for every table, the log loss and the expected calibration error on its test rows, of `KernelClassifier` with
each loss and otherwise default settings, of scikit-learn's `HistGradientBoostingClassifier` with default settings, and
of its `LogisticRegression` on standardised columns. Beside the squared loss stand two other ways to its probabilities:
a softmax whose temperature is fitted to the same held-out scores, and the calibration to scores of training rows.
What is asked for: an error of 0.03 at the most, and the log loss of boosting, on two tables.

The expected calibration error is the mean over 15 bins of the largest probability, weighted by their rows, of
``|share that is right - mean of the largest probability|``: bins of equal width, and bins of equal numbers of rows.

    python benchmarks/calibration.py --data DIR [--tables satimage letter] [--losses squared logistic] [--features 4096]
"""

from __future__ import annotations

import argparse
import datetime
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import phimap as pm
from phimap.learn.calibration import Calibration
from phimap.learn.registry import LOSSES
from phimap.learn.solver import HeldOutScores

SEED, BINS = 0, 15
TABLES = ("adult", "magic04", "letter", "satimage")
MOST_ERROR, LEAST_TABLES = 0.03, 2
BOOSTING = "HistGradientBoosting"


def table(data: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training rows and labels, test rows and labels: the published split, or a random third for the test."""
    with np.load(data / "medium_classification.npz") as arrays:
        if f"{name}_Xtr" in arrays:
            X, y, X_test, y_test = (arrays[f"{name}_{part}"] for part in ("Xtr", "ytr", "Xte", "yte"))
        else:
            X, y = arrays[f"{name}_X"], arrays[f"{name}_y"]
            tested, kept = np.split(np.random.default_rng(SEED).permutation(len(y)), [len(y) // 3])
            X, y, X_test, y_test = X[kept], y[kept], X[tested], y[tested]
    return X.astype(np.float32), y, X_test.astype(np.float32), y_test


def calibration_error(probabilities: np.ndarray, labels: np.ndarray, *, equal_mass: bool) -> float:
    """The expected calibration error for labels (n,) as columns of the probabilities (n, n_classes)."""
    top = probabilities.max(axis=1)
    excess = (probabilities.argmax(axis=1) == labels) - top
    if equal_mass:
        parts = np.array_split(np.argsort(top, kind="stable"), BINS)
    else:
        bins = np.minimum((BINS * top).astype(int), BINS - 1)
        parts = [np.flatnonzero(bins == k) for k in range(BINS)]
    return float(sum(abs(excess[part].sum()) for part in parts) / len(labels))


def row(name: str, probabilities: np.ndarray, labels: np.ndarray, seconds: float | None) -> tuple[float, float]:
    """Print one line of the table; give calibration error and log loss."""
    errors = [calibration_error(probabilities, labels, equal_mass=equal_mass) for equal_mass in (False, True)]
    likelihoods = probabilities[np.arange(len(labels)), labels]
    loss = float(-np.log(np.maximum(likelihoods, 1e-15)).mean())
    wrong = float((probabilities.argmax(axis=1) != labels).mean())
    spent = "" if seconds is None else f"{seconds:7.1f}"
    print(f"  {name:<34}{loss:9.4f}{errors[0]:9.4f}{errors[1]:9.4f}{wrong:9.4f}{spent:>9}", flush=True)
    return errors[0], loss


def with_temperature(held_out: HeldOutScores, scores: np.ndarray) -> np.ndarray:
    """Probabilities by a softmax of scores over the temperature that suits held-out ones best."""

    def by_class(values: np.ndarray) -> np.ndarray:
        return np.hstack([-values, values]) if values.shape[1] == 1 else values

    labels = by_class(held_out.targets).argmax(axis=1)
    weights = np.ones(len(labels)) if held_out.weights is None else held_out.weights

    def loss(log_factor: float) -> float:
        found = log_softmax(np.exp(log_factor) * by_class(held_out.predictions), axis=1)
        return float(-(weights @ found[np.arange(len(labels)), labels]))

    best = minimize_scalar(loss, bounds=(-3.0, 6.0), method="bounded").x
    return np.exp(log_softmax(np.exp(best) * by_class(scores), axis=1))


def compare(data: Path, name: str, losses: list[str], features: int) -> dict[str, tuple[float, float]]:
    """Print the lines of one table; give errors and log losses by method."""
    X, y, X_test, y_test = table(data, name)
    classes = np.unique(y)
    labels = np.searchsorted(classes, y_test)
    print(f"{name}: {len(y)} rows, {X.shape[1]} columns, {classes.size} classes, {len(labels)} test rows")
    models: dict[str, Any] = {
        loss: pm.KernelClassifier(n_components=features, loss=loss, random_state=SEED) for loss in losses
    }
    models[BOOSTING] = HistGradientBoostingClassifier(random_state=SEED)
    models["LogisticRegression on columns"] = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    found = {}
    for method, model in models.items():
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        title = method if getattr(model, "corrections_", None) is None else f"{method}, with corrections"
        found[method] = row(title, model.predict_proba(X_test), labels, seconds)
        # With corrections the held-out scores are not those of the solution alone.
        if method != "squared" or model.corrections_ is not None:
            continue
        scores, held_out = model.decision_function(X_test), model.solution_.held_out
        scores = scores.reshape(len(scores), -1)
        row("... a softmax with a temperature", with_temperature(held_out, scores), labels, None)
        some = np.random.default_rng(SEED).permutation(len(y))[: len(held_out.targets)]
        seen = HeldOutScores(
            model.decision_function(X[some]).reshape(len(some), -1), model._fitted.targets.encode(y[some])
        )
        seen_only = np.exp(Calibration.of(seen).log_probabilities(scores))
        row("... calibrated on training rows", seen_only, labels, None)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=["squared", "logistic"])
    parser.add_argument("--features", type=int, default=4096)
    options = parser.parse_args()
    print(
        f"{datetime.date.today():%Y-%m}, {options.features} features; calibration error in bins of equal width and mass"
    )
    print(f"  {'':<34}{'log loss':>9}{'width':>9}{'mass':>9}{'error':>9}{'seconds':>9}")
    results = [compare(options.data, name, options.losses, options.features) for name in options.tables]
    for loss in options.losses:
        calibrated = sum(result[loss][0] <= MOST_ERROR for result in results)
        better = sum(result[loss][1] <= result[BOOSTING][1] for result in results)
        print(f"{loss}: calibration error at most {MOST_ERROR} on {calibrated} of {len(results)} tables")
        print(f"{loss}: log loss at most that of boosting on {better} (asked for: {LEAST_TABLES})")


if __name__ == "__main__":
    main()
