"""Mutants of model files under right checksums: each is refused in one line or gives finite numbers.

``python -m tests.fuzz.models --n 100000 --seed 0`` is the long run; ``--keep DIR`` keeps the files that do harm.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

import phimap as pm
from phimap._files import DataError
from phimap.packed import PackedArray
from tests.fuzz.campaign import Campaign, Writer
from tests.fuzz.mutations import mutated
from tests.fuzz.samples import frame, samples
from tests.fuzz.workers import BUDGET


def meet(path: str) -> tuple[str, str]:
    """What comes of a model file: the outcome, and what was said."""
    warnings.simplefilter("ignore")
    with pm.config(memory=BUDGET):
        try:
            model = pm.load(path)
        except DataError as error:
            if _of_memory(error):
                return "over budget", str(error)
            return ("refused" if "\n" not in str(error) else "lines", str(error))
        except BaseException:
            return "traceback", traceback.format_exc()
        try:
            return _outputs(model)
        except (ValueError, MemoryError) as error:
            # Numbers of the right kind may be too large for these rows, and a budget too small.
            expected = "\n" not in str(error) and any(
                word in str(error)
                for word in (
                    "too large",
                    "too near 0",
                    "overflow",
                    "not finite",
                    "Fit it again",
                    # Samples of rows are used by models that are solved, or give deviations, when they predict.
                    "labels among classes_",
                    "order of the first rows",
                    # Names in a file are those of other columns than the rows have.
                    "columns seen in fit",
                    # The time zone in a file is that of other times.
                    "must hold times with",
                    "exceeds the range",
                    "not positive definite",
                    "budget",
                )
            )
            return ("refused at prediction", str(error)) if expected else ("traceback", traceback.format_exc())
        except BaseException:
            return "traceback", traceback.format_exc()


def _of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _outputs(model: Any) -> tuple[str, str]:
    first = model.steps[0][1] if hasattr(model, "steps") else model
    if isinstance(first, pm.TableEncoder) or getattr(first, "encoder_", None) is not None:
        X: Any = frame().iloc[:3]
        missing = set(getattr(first, "feature_names_in_", X.columns)) - set(X.columns)
        if missing:
            return "works", "other columns"
    else:
        X = np.random.default_rng(0).standard_normal((3, first.n_features_in_))
    for result in _results(model, X):
        values = result.data if sparse.issparse(result) else result
        values = values.to_dense() if isinstance(values, PackedArray) else values
        if values.dtype.kind in "fc" and not np.isfinite(values).all():
            return "not finite", str(values.ravel()[:5])
    return "works", ""


def _results(model: Any, X: Any) -> Iterator[Any]:
    """All outputs of a model for rows."""
    if not hasattr(model, "predict"):
        yield model.transform(X)
        return
    yield model.predict(X)
    if isinstance(X, np.ndarray):
        yield model.predict(X.astype(np.float32))
    if hasattr(model, "predict_proba") and (model.loss == "logistic" or getattr(model, "calibration_", None)):
        yield model.predict_proba(X)
    if isinstance(model, pm.KernelRegressor) and hasattr(model, "_state"):
        yield model.predict(X, return_std=True)[1]


def _damaged(rng: np.random.Generator) -> tuple[str, Writer]:
    every = samples()
    mutant = mutated(every[rng.integers(len(every))], every, rng)
    return f"{mutant.name}.phimap", mutant.write


CAMPAIGN = Campaign(
    right=("refused", "refused at prediction", "works"),
    whole=lambda: {f"{sample.name}.phimap": sample.write for sample in samples()},
    damaged=_damaged,
    meet=meet,
)

if __name__ == "__main__":
    CAMPAIGN.main(__doc__)
