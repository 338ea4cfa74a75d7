"""The number of features: which widths are tried, and which are predicted."""

from types import SimpleNamespace

import numpy as np
import pytest

from phimap.learn.search import width
from phimap.learn.search.effort import EFFORTS
from phimap.learn.search.families import radial
from phimap.learn.search.log import TrialEntry, TrialLog
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import SearchResult

STEEP = {256: 2.0, 512: 1.0, 1024: 0.4}
CLEAR = {256: 1.2, 512: 1.0, 1024: 0.9}
SMALL = {256: 1.1, 512: 1.0, 1024: 0.971}
FLAT = dict.fromkeys((256, 512, 1024), 1.0)


@pytest.mark.parametrize(
    ("errors", "n_rows", "known", "expected", "tried"),
    [
        # The last doubling gained a tenth, so the next one is expected to gain 6.7 %.
        (CLEAR, 6_000, None, 2048, [256, 512, 1024]),
        (CLEAR, 10_000, 1024, 2048, [512]),
        (CLEAR, 10_000, 512, 2048, [256, 1024]),
        # An expected gain of 1.9 % is too little; the last doubling itself gained enough.
        (SMALL, 4_000, None, 1024, [256, 512, 1024]),
        # With more rows the doubling costs more. It must gain 6.3 %, and then 8.4 %.
        (CLEAR, 15_000, None, 2048, [256, 512, 1024]),
        (CLEAR, 20_000, None, 1024, [256, 512, 1024]),
        # If the first doubling gains little, no further one is tried.
        (FLAT, 10_000, None, 256, [256, 512]),
        (FLAT, 10_000, 512, 256, [256]),
        (FLAT, 10_000, 1024, 256, [512, 256]),
        ({**FLAT, 512: 0.985}, 10_000, None, 512, [256, 512, 1024]),
    ],
)
def test_more_than_1024_features_follow_from_the_last_doubling(errors, n_rows, known, expected, tried, monkeypatch):
    """`known` is the number of features of the last trial of the search, if it had the same rows."""
    assert choice(errors, n_rows, known, "normal", monkeypatch) == (expected, tried)


def test_a_gain_that_the_search_has_measured_is_not_predicted(monkeypatch):
    errors = {**STEEP, 2048: 0.398}
    assert choice(errors, 5_000, 2048, "thorough", monkeypatch) == (1024, [256, 512, 1024])


@pytest.mark.parametrize(("n_rows", "expected"), [(5_000, 2048), (100_000, 256)])
def test_of_two_widths_that_the_search_has_tried_the_affordable_ones_count(n_rows, expected, monkeypatch):
    """Mutant: a width that is not affordable is returned, because its error is least."""
    errors = {**FLAT, 2048: 0.5 * FLAT[1024]}
    assert choice(errors, n_rows, (1024, 2048), "normal", monkeypatch)[0] == expected


@pytest.mark.parametrize(("n_rows", "expected"), [(12_000, 2048), (12_300, 4096)])
def test_more_than_2048_features_leave_three_rows_each(n_rows, expected, monkeypatch):
    assert choice(STEEP, n_rows, None, "thorough", monkeypatch) == (expected, [256, 512, 1024])


@pytest.mark.parametrize(("least", "expected"), [(256, 256), (512, 512), (1024, 1024), (8192, 1024)])
def test_no_width_is_below_the_least(least, expected, monkeypatch):
    """All widths err alike; the widest trial has 1,024 features."""
    flat = dict.fromkeys((128, 256, 512, 1024), 0.5)
    assert choice(flat, 100_000, None, "normal", monkeypatch, least=least)[0] == expected


def choice(errors, n_rows, known, effort, monkeypatch, **settings):
    """The width that is chosen, and the widths of the trials, which have the given errors."""
    asked = []

    def run_trial(make, roots, sample, alpha):
        asked.append(make.args[1])
        return SimpleNamespace(error=errors[asked[-1]])

    monkeypatch.setattr(width, "run_trial", run_trial)
    family, log = radial(1.5, ()), TrialLog()
    widths, rows = (known, 8000) if isinstance(known, tuple) else ((known or 1024,), 8000 if known else 5000)
    log.entries.append(TrialEntry(family.name, "none", 0, 1.0, widths[-1], rows, errors[widths[-1]]))
    sample = SearchSample(np.zeros((8000, 1)), np.zeros((8000, 1)), np.ones(8000))
    found = SearchResult(family.make(1.0), family, None, None, errors={one: errors[one] for one in widths})
    chosen = width.choose_width(found, sample, n_rows, 4096, seed=0, effort=EFFORTS[effort], log=log, **settings)
    return chosen, asked
