"""Mutants of model files under right checksums: each is refused in one line or gives finite numbers.

``python -m tests.fuzz.models --n 100000 --seed 0`` is the long run; ``--keep DIR`` keeps the files that do harm.
"""

from __future__ import annotations

import traceback
import warnings
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
    result = model.predict(X) if hasattr(model, "predict") else model.transform(X)
    values = result.data if sparse.issparse(result) else result
    values = values.to_dense() if isinstance(values, PackedArray) else values
    finite = values.dtype.kind not in "fc" or bool(np.isfinite(values).all())
    return ("works", "") if finite else ("not finite", str(values.ravel()[:5]))


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
