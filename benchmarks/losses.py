"""Logistic and squared hinge loss with a chosen alpha, against scikit-learn on the same features and a bare pass.

Prints, from one run on one split of each set: alpha, status, passes and processor seconds of the whole fit, map and
choice of alpha included; the loss and the error on the test rows. Beside them the peer on the same features, at five
values of C around the chosen one: ``LogisticRegression`` (lbfgs, tolerance 1e-6) or ``LinearSVC``, its seconds at the
middle one, and the best of its five test losses (hindsight). Before these, what a pass costs at the least: both matrix
products on features that are kept, and the forming of the features beside them.

    python benchmarks/losses.py --data DIR [--features 1024] [--sets digits satimage] [--losses logistic] [--no-peer]

Seconds are those of the processor with one thread. Asked for are losses within 3 % of hindsight, in 15 passes.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from fitted_features import features_of
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

import phimap as pm
from phimap.learn.losses.losses import Logistic, SquaredHinge

SEED = 0
MOST_PASSES, MOST_EXCESS = 15, 1.03
# Around the chosen alpha: as far as hindsight was seen to lie.
FACTORS = 10.0 ** np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
LOSSES = {"logistic": Logistic(), "squared_hinge": SquaredHinge()}


def load(name: str, data: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training rows and labels, test rows and labels: the split of the source, or a random fifth for the test."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        with np.load(data / "medium_classification.npz", allow_pickle=False) as sets:
            if f"{name}_Xtr" in sets.files:
                X, y, Xt, yt = (sets[f"{name}_{part}"] for part in ("Xtr", "ytr", "Xte", "yte"))
                return X.astype(np.float32), y, Xt.astype(np.float32), yt
            X, y = sets[f"{name}_X"], sets[f"{name}_y"]
    order = np.random.default_rng(SEED).permutation(len(y))
    X, y, n = X[order].astype(np.float32), y[order], int(0.8 * len(y))
    return X[:n], y[:n], X[n:], y[n:]


def seconds_of(work) -> tuple[float, object]:
    """Processor seconds of ``work()``, and what it gives."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def peer_at(loss: str, C: float):
    if loss == "logistic":
        # At its default tolerance the peer stops at a loss a third above that of its minimum.
        return LogisticRegression(C=C, tol=1e-6, max_iter=2000)
    # A large constant input, whose coefficient is hardly penalised.
    return LinearSVC(C=C, dual=False, intercept_scaling=100.0)


def line(name: str, loss: str, features: int, data: Path, hindsight: bool) -> str:
    X, y, Xt, yt = load(name, data)
    model = pm.KernelClassifier(
        "gaussian", features, length_scale="median", metric=None, loss=loss, n_jobs=1, random_state=SEED
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours, _ = seconds_of(lambda: model.fit(X, y))
    mapped, Z = seconds_of(lambda: features_of(model)(X).to_host().copy())
    Zt, signs = features_of(model)(Xt).to_host().copy(), np.where(model._fitted.targets.encode(yt) > 0, 1.0, -1.0)
    W = np.ones((features, signs.shape[1]), np.float32)
    bare, _ = seconds_of(lambda: Z.T @ (Z @ W))

    def test_loss(scores: np.ndarray) -> float:
        return float(LOSSES[loss].values(scores.reshape(len(yt), -1), signs).mean())

    solution, found = model.solution_, test_loss(model.decision_function(Xt))
    text = (
        f"{name:<9} {loss:<13} m {features:>5}  {solution.status} in {solution.n_passes:>3} passes "
        f"(asked {MOST_PASSES})  alpha {solution.alpha:.2g}  loss {found:.4f}  error {1 - model.score(Xt, yt):.4f}  "
        f"{ours:.1f} s   bare pass {bare:.3f} s, features {mapped:.3f} s, ours / bare {ours / bare:.0f}"
    )
    if hindsight:
        losses, peer = [], 0.0
        for factor in FACTORS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                seconds, fitted = seconds_of(
                    lambda factor=factor: peer_at(loss, 1 / (factor * solution.alpha)).fit(Z, y)
                )
            losses.append(test_loss(fitted.decision_function(Zt)))
            peer = seconds if factor == 1 else peer
        best = int(np.argmin(losses))
        text += (
            f"   peer {peer:.1f} s at this alpha, ours / peer {ours / peer:.2f}   loss / hindsight "
            f"{found / losses[best]:.3f} (asked {MOST_EXCESS}, best at {FACTORS[best]:.2g} alpha)"
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--features", type=int, nargs="+", default=[1024])
    parser.add_argument("--sets", nargs="+", default=["digits", "satimage", "magic04", "adult", "letter"])
    parser.add_argument("--losses", nargs="+", choices=sorted(LOSSES), default=list(LOSSES))
    parser.add_argument("--no-peer", action="store_true", help="leave out scikit-learn, which takes most of the time")
    options = parser.parse_args()
    with threadpool_limits(1):
        for features in options.features:
            for name in options.sets:
                for loss in options.losses:
                    print(line(name, loss, features, options.data, not options.no_peer), flush=True)


if __name__ == "__main__":
    main()
