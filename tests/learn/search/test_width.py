"""The number of features: which widths are tried, and which are taken without a trial."""

from types import SimpleNamespace

import numpy as np
import pytest

from phimap.learn.search import width
from phimap.learn.search.effort import EFFORTS
from phimap.learn.search.families import radial
from phimap.learn.search.log import TrialEntry, TrialLog
from phimap.learn.search.rung import KernelCandidate
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import SearchResult
from phimap.learn.search.trial import TrialResult

CLEAR = {256: 1.2, 512: 1.0, 1024: 0.9, 2048: 0.85}
SMALL = {256: 1.1, 512: 1.0, 1024: 0.975, 2048: 0.972}
FLAT = dict.fromkeys((256, 512, 1024), 1.0)


@pytest.mark.parametrize(
    ("errors", "n_rows", "known", "expected", "tried"),
    [
        # The last doubling gained a tenth, and 2,048 features leave three rows each.
        (CLEAR, 10_000, False, 2048, [256, 512, 1024]),
        (CLEAR, 6_000, False, 2048, [256, 512, 1024, 2048]),
        (CLEAR, 10_000, True, 2048, [512]),
        # A further 0.3 % is not worth the doubling.
        (SMALL, 4_000, False, 1024, [256, 512, 1024, 2048]),
        # With more rows the doubling costs more: 2.5 % do not promise enough, a tenth is in doubt, and then too little.
        (SMALL, 10_000, False, 1024, [256, 512, 1024]),
        (CLEAR, 20_000, False, 2048, [256, 512, 1024, 2048]),
        (CLEAR, 40_000, False, 1024, [256, 512, 1024]),
        # If the first doubling gains little, no further one is tried.
        (FLAT, 10_000, False, 256, [256, 512]),
        (FLAT, 10_000, True, 256, [512, 256]),
        ({**FLAT, 512: 0.985}, 10_000, False, 512, [256, 512, 1024]),
    ],
)
def test_widths_are_tried_where_the_last_doubling_leaves_a_doubt(errors, n_rows, known, expected, tried, monkeypatch):
    asked = []

    def run_trial(make, roots, sample, alpha):
        asked.append(make.args[1])
        return SimpleNamespace(error=errors[asked[-1]])

    monkeypatch.setattr(width, "run_trial", run_trial)
    family, log = radial(1.5, ()), TrialLog()
    best = KernelCandidate(family, "none", 0, 1.0, (None,), result=TrialResult(errors[1024], 6, []))
    log.entries.append(TrialEntry(family.name, "none", 0, 1.0, 1024, 8000 if known else 5000, errors[1024]))
    sample = SearchSample(np.zeros((8000, 1)), np.zeros((8000, 1)), np.ones(8000))
    found = SearchResult(family.make(1.0), family, None, None, best=best)
    chosen = width.choose_width(found, sample, n_rows, 4096, seed=0, effort=EFFORTS["normal"], log=log)
    assert (chosen, asked) == (expected, tried)
