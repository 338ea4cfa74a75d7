"""Variances and bounds beside draws: what the experiment reports."""

from __future__ import annotations

import numpy as np

from phimap._progress import Stages
from phimap.bench.experiment import having
from phimap.bench.options import BenchOptions
from phimap.bench.theory import BOUNDS, DELTA, EPSILON, VARIANCES, bounds, hard_rows, report, variances


def test_every_variance_is_near_its_formula_or_below_its_bound():
    found = list(variances(draws=400))
    assert {one.name for one in found} == set(VARIANCES)
    for one in found:
        # The deviation of a variance of 400 draws is 7 % where they are normal: five of them.
        if one.name == "fastfood":
            assert one.measured < one.predicted
        else:
            assert abs(one.measured / one.predicted - 1) < 0.4


def test_bounds_hold_on_hard_rows():
    found = list(bounds(draws=3))
    assert {one.name for one in found} == set(BOUNDS)
    for one in found:
        assert one.measured < EPSILON
        assert one.failures <= one.draws * DELTA
    assert np.linalg.matrix_rank(hard_rows()["equal rows"]) == 1
    assert np.linalg.matrix_rank(hard_rows()["half a circle"], tol=1e-9) == 2


def test_report_names_papers_and_places():
    found = report(BenchOptions("theory", repeats=50, quiet=True), Stages(verbose=False))
    places = {(one.paper, one.place) for one in found.findings}
    assert ("Zandieh et al. (2021)", "Theorem 7") in places
    assert ("Liu et al. (2021)", "Section 3.1, variance of ORF") in places
    assert len(having(found.findings, paper="Han et al. (2021)")) == 2
