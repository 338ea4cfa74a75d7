"""Mutants of model files under right checksums: each is refused in one line or gives finite numbers.

``python -m tests.fuzz.models --n 100000 --seed 0`` is the long run; ``--keep DIR`` keeps the files that do harm.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import phimap as pm
from phimap._files import DataError
from phimap.packed import PackedArray
from tests.fuzz.mutations import mutated
from tests.fuzz.samples import frame, samples
from tests.fuzz.workers import BUDGET, Worker

#: Outcomes that are right; all others are faults.
RIGHT = ("refused", "refused at prediction", "works")


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
                for word in ("too large", "overflow", "exceeds the range", "not positive definite", "budget")
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


def run(n: int, seed: int, *, first: int = 0, keep: Path | None = None, seconds: float = np.inf) -> Counter[str]:
    """Meet mutants `first` to ``first + n``, fewer where the seconds are spent; counts of outcomes."""
    every = samples()
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mutant"
        for sample in every:
            # What is compiled before the worker starts is compiled once.
            sample.write(path)
            if (outcome := meet(str(path)))[0] != "works":
                raise RuntimeError(f"{sample.name} as it was saved: {outcome}")
        worker = Worker(meet)
        for i in range(first, first + n):
            rng = np.random.default_rng([seed, i])
            mutant = mutated(every[rng.integers(len(every))], every, rng)
            mutant.write(path)
            outcome, words = worker(str(path))
            counts[outcome] += 1
            if outcome not in RIGHT:
                sys.stderr.write(f"{outcome}: mutant {i} of {mutant.name}: {words}\n")
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{seed}-{i}-{outcome.replace(' ', '-')}.phimap").write_bytes(path.read_bytes())
            if time.monotonic() > end:
                break
        worker.stop()
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    found = run(given.n, given.seed, first=given.first, keep=given.keep)
    sys.stdout.write(", ".join(f"{outcome} {count:,}" for outcome, count in found.most_common()) + "\n")
    sys.exit(any(outcome not in RIGHT for outcome in found))
