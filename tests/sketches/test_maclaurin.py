"""Random Maclaurin sketches: equal to products of projections onto their signs, and unbiased."""

import numpy as np
import pytest
from scipy import linalg

from phimap.ops import ops_for
from phimap.sketches.maclaurin import MaclaurinRecord
from phimap.sketches.tree import sketched
from tests.support.statistics import is_mean


def evaluated(record, X):
    ops = ops_for(X)
    return sketched(record.bind(ops), ops, X)


@pytest.mark.parametrize("d", [1, 4, 5])
@pytest.mark.parametrize("degree", [1, 3])
@pytest.mark.parametrize("width", [1, 9])
def test_features_are_products_of_projections_onto_signs(d, degree, width, rng):
    X = rng.standard_normal((3, d))
    record = MaclaurinRecord.draw(d, degree, width, rng)
    padded = record.signs.shape[-1]
    expected = np.full((3, width), width**-0.5)
    for factor in record.signs:
        rows = np.concatenate([linalg.hadamard(padded) * signs for signs in factor[:, 0]])[:width, :d]
        assert set(np.unique(rows)) <= {-1, 1}
        expected *= X @ rows.T
    # Rounding of a transform for each factor, relative to the norm it keeps.
    slack = 8 * degree * padded * np.finfo(np.float64).eps * np.linalg.norm(X, axis=1) ** degree
    assert np.all(np.abs(evaluated(record, X) - expected) <= slack[:, None] * padded ** (degree / 2))


def test_unbiased():
    """False-alarm rate 1e-6; mutants: another degree, and factors that share their signs."""
    X = np.random.default_rng(0).standard_normal((3, 5)) / 2
    records = [MaclaurinRecord.draw(5, 3, 8, np.random.default_rng(seed)) for seed in range(600)]
    estimates = [Z @ Z.T for Z in (evaluated(record, X) for record in records)]
    assert is_mean(estimates, (X @ X.T) ** 3)
    assert not is_mean(estimates, (X @ X.T) ** 2)
    shared = [MaclaurinRecord(5, np.stack([r.signs[0]] * 3), r.scale) for r in records]
    assert not is_mean([Z @ Z.T for Z in (evaluated(record, X) for record in shared)], (X @ X.T) ** 3)
