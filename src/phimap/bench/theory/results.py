"""What the experiment on variances and bounds shows: tables, and findings beside the papers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.experiment import Finding, Report, Table, as_dicts, having, measured
from phimap.bench.options import BenchOptions
from phimap.bench.theory.measure import (
    ALPHA,
    BOUNDS,
    COLUMNS,
    DELTA,
    DIRECTIONS,
    DRAWS,
    EPSILON,
    ROWS,
    SKETCH_ALPHA,
    SORF_COLUMNS,
    SORF_TAUS,
    TAUS,
    VARIANCES,
    Measurement,
    biases,
    bounds,
    hard_rows,
    lemmas,
    variances,
)


def report(options: BenchOptions, stages: Stages) -> Report:
    """Variances, biases and bounds: a table of each, and the findings."""
    n_draws = options.repeats or DRAWS
    of_variances = measured(stages, "variances", variances(n_draws, options.seed), len(VARIANCES) * len(TAUS))
    of_biases = measured(stages, "biases", biases(options.seed), len(TAUS[:2]) + len(SORF_TAUS))
    of_bounds = measured(stages, "bounds", bounds(), len(BOUNDS) * len(hard_rows()))
    of_lemmas = measured(stages, "lemmas", lemmas())
    return Report(
        as_dicts([*of_variances, *of_biases, *of_bounds, *of_lemmas]),
        [
            _formula_table(f"variances of estimates of the Gaussian kernel, {_SIZE}", of_variances),
            _formula_table("mean errors: of normalised features, and of SORF beside its bound", of_biases),
            _bound_table(of_bounds, of_lemmas),
        ],
        findings=[
            *_variance_findings(of_variances),
            *_bias_findings(of_biases),
            *_bound_findings(of_bounds),
            *_lemma_findings(of_lemmas),
        ],
    )


_SIZE = f"{DIRECTIONS} directions, {COLUMNS} columns"


def _formula_table(title: str, found: Sequence[Measurement]) -> Table:
    lines = [
        (one.name, one.setting, f"{one.predicted:.3g}", f"{one.measured:.3g}", f"{one.measured / one.predicted:.3f}")
        for one in found
    ]
    return Table(title, ("method", "distance", "formula", "simulated", "simulated / formula"), lines)


def _bound_table(of_bounds: Sequence[Measurement], of_lemmas: Sequence[Measurement]) -> Table:
    lines = [
        (
            one.name,
            one.setting,
            f"{one.n_components:,}",
            "" if one.printed is None else f"{one.printed:,}",
            f"{one.measured:.3g}",
            f"{one.failures} of {one.draws}",
        )
        for one in (*of_bounds, *of_lemmas)
    ]
    title = f"bounds at epsilon = {EPSILON:g}, delta = {DELTA:g}, alpha = {ALPHA:g} (of sketches {SKETCH_ALPHA:g})"
    return Table(title, ("bound", "rows or epsilon", "promised", "printed", "epsilon, mean of draws", "missed"), lines)


_SURVEY, _HAN, _ZANDIEH = "Liu et al. (2021)", "Han et al. (2021)", "Zandieh et al. (2021)"


def _ratios(found: Sequence[float]) -> str:
    return f"{min(found):.2g} to {max(found):.2g}"


def _distances(found: Sequence[Measurement]) -> str:
    return f"distances {', '.join(one.setting for one in found)}"


def _printed_normalized(tau: float) -> float:
    """The survey's variance of NRFF, which subtracts from that of pairs what belongs to that of offsets."""
    E = np.exp(-(tau**2))
    return float(pm.theory.estimator_variance("gaussian", tau, DIRECTIONS) - E * (3 - E**2) / (4 * DIRECTIONS))


def _variance_findings(found: Sequence[Measurement]) -> Iterator[Finding]:
    for method, (name, _) in VARIANCES.items():
        part = having(found, name=method)
        ours = _ratios([one.measured / one.predicted for one in part])
        published = "at most 1" if method == "fastfood" else "1"
        if method == "gaussian-normalized":
            ours = f"{ours}; over the printed formula " + ", ".join(
                f"{one.measured / _printed_normalized(float(one.setting)):.2f}" for one in part
            )
            published = "1; the printed formula is negative for small distances"
        yield Finding(
            _SURVEY,
            f"Section 3.1, variance of {name}",
            "simulated over the formula",
            f"{_SIZE}, {_distances(part)}, {part[0].draws:,} draws",
            ours,
            published,
        )


def _bias_findings(found: Sequence[Measurement]) -> Iterator[Finding]:
    for method, name, what, published, size in (
        ("gaussian-normalized", "NRFF", "leading order", "-", _SIZE),
        ("sorf", "SORF", "bound 6 tau / sqrt(d)", "at most 1", f"{SORF_COLUMNS} directions, {SORF_COLUMNS} columns"),
    ):
        part = having(found, name=method)
        yield Finding(
            _SURVEY,
            f"Section 3.1, bias of {name}",
            f"simulated over the {what}",
            f"{size}, {_distances(part)}, {part[0].draws:,} draws",
            _ratios([one.measured / one.predicted for one in part]),
            published,
        )


def _bound_finding(paper: str, place: str, part: Sequence[Measurement], rows: int) -> Finding:
    sizes = ", ".join(f"{one.setting} ({one.n_components:,} features)" for one in part)
    printed = [one.printed for one in part if one.printed is not None]
    limit = f"at most {EPSILON:g}, missed with probability {DELTA:g}"
    if printed:
        limit += f"; the printed constant asks for {', '.join(f'{number:,}' for number in printed)} features"
    return Finding(
        paper,
        place,
        f"epsilon with the promised number, and draws that miss {EPSILON:g}",
        f"{'1 row' if rows == 1 else f'{rows} rows'}: {sizes}",
        ", ".join(f"{one.measured:.2g} ({one.failures} of {one.draws})" for one in part),
        limit,
    )


def _bound_findings(found: Sequence[Measurement]) -> Iterator[Finding]:
    for name, (places, _, _) in BOUNDS.items():
        for paper, place in places:
            yield _bound_finding(paper, place, having(found, name=name), ROWS)


def _lemma_findings(found: Sequence[Measurement]) -> Iterator[Finding]:
    yield _bound_finding(_HAN, "Lemma 3", having(found, name="tensor-countsketch"), 1)
    yield _bound_finding(_HAN, "Lemma 4", having(found, name="tensor-countsketch-spectral"), ROWS)
    for name, kernel in (("taylor-arccosine1", "kappa1"), ("taylor-arccosine0", "kappa0")):
        part = having(found, name=name)
        yield Finding(
            _ZANDIEH,
            f"Lemma 3, {kernel}",
            "largest error of the Taylor polynomial over epsilon",
            ", ".join(f"epsilon {one.setting} ({one.n_components:,} terms)" for one in part),
            ", ".join(f"{one.measured / one.predicted:.2f}" for one in part),
            "at most 1",
        )
