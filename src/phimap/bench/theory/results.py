"""Tables and findings of the experiment on variances and bounds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

import phimap as pm
from phimap._progress import Stages
from phimap.bench.experiment import Finding, Report, ResultTable, measured
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
    biases,
    bounds,
    hard_rows,
    lemmas,
    variances,
)


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure variances, biases and bounds, and return a table of each and the findings."""
    n_draws = options.repeats or DRAWS
    of_variances = measured(stages, "variances", variances(n_draws, options.seed), len(VARIANCES) * len(TAUS))
    of_biases = measured(stages, "biases", biases(options.seed), len(TAUS[:2]) + len(SORF_TAUS))
    of_bounds = measured(stages, "bounds", bounds(), len(BOUNDS) * len(hard_rows()))
    of_lemmas = measured(stages, "lemmas", lemmas())
    found = pd.concat([of_variances, of_biases, of_bounds, of_lemmas], ignore_index=True).astype({"printed": "Int64"})
    of_theorems = found[len(of_variances) + len(of_biases) :]
    return Report(
        found,
        [
            _formula_table(f"variances of estimates of the Gaussian kernel, {_SIZE}", of_variances),
            _formula_table("mean errors: of normalised features, and of SORF beside its bound", of_biases),
            _bound_table(of_theorems),
        ],
        findings=[*_variance_findings(of_variances), *_bias_findings(of_biases), *_theorem_findings(of_theorems)],
    )


_SIZE = f"{DIRECTIONS} directions, {COLUMNS} columns"


def _formula_table(title: str, found: pd.DataFrame) -> ResultTable:
    frame = found[["name", "setting", "predicted", "measured"]].assign(ratio=found["measured"] / found["predicted"])
    columns = ["method", "distance", "formula", "simulated", "simulated / formula"]
    formats = {"formula": ".3g", "simulated": ".3g", "simulated / formula": ".3f"}
    return ResultTable(title, frame.set_axis(columns, axis=1), formats)


def _bound_table(found: pd.DataFrame) -> ResultTable:
    frame = pd.DataFrame(
        {
            "bound": found["name"],
            "rows or epsilon": found["setting"],
            "promised": found["n_components"],
            "printed": ["" if pd.isna(printed) else f"{printed:,}" for printed in found["printed"]],
            "epsilon, mean of draws": found["measured"],
            "missed": found["failures"].astype(str) + " of " + found["draws"].astype(str),
        }
    )
    title = f"bounds at epsilon = {EPSILON:g}, delta = {DELTA:g}, alpha = {ALPHA:g} (of sketches {SKETCH_ALPHA:g})"
    return ResultTable(title, frame, {"promised": ",", "epsilon, mean of draws": ".3g"})


_SURVEY, _HAN, _ZANDIEH = "Liu et al. (2021)", "Han et al. (2021)", "Zandieh et al. (2021)"


def _ratios(found: pd.DataFrame) -> str:
    ratios = found["measured"] / found["predicted"]
    return f"{ratios.min():.2g} to {ratios.max():.2g}"


def _drawn(found: pd.DataFrame) -> str:
    return f"distances {', '.join(found['setting'])}, {found['draws'].iloc[0]:,} draws"


def _printed_normalized(tau: float) -> float:
    """Return the survey's printed variance of NRFF. It starts from the variance of pairs instead of offsets."""
    E = np.exp(-(tau**2))
    return float(pm.theory.estimator_variance("gaussian", tau, DIRECTIONS) - E * (3 - E**2) / (4 * DIRECTIONS))


def _variance_findings(found: pd.DataFrame) -> Iterator[Finding]:
    for method, part in found.groupby("name", sort=False):
        ours, published = _ratios(part), "at most 1" if method == "fastfood" else "1"
        if method == "gaussian-normalized":
            printed = part["measured"] / [_printed_normalized(float(tau)) for tau in part["setting"]]
            ours = f"{ours}; over the printed formula " + ", ".join(f"{ratio:.2f}" for ratio in printed)
            published = "1; the printed formula is negative for small distances"
        place, size = f"Section 3.1, variance of {VARIANCES[method][0]}", f"{_SIZE}, {_drawn(part)}"
        yield Finding(_SURVEY, place, "simulated over the formula", size, ours, published)


def _bias_findings(found: pd.DataFrame) -> Iterator[Finding]:
    for method, name, what, published, size in (
        ("gaussian-normalized", "NRFF", "leading order", "-", _SIZE),
        ("sorf", "SORF", "bound 6 tau / sqrt(d)", "at most 1", f"{SORF_COLUMNS} directions, {SORF_COLUMNS} columns"),
    ):
        part = found[found["name"] == method]
        place, quantity = f"Section 3.1, bias of {name}", f"simulated over the {what}"
        yield Finding(_SURVEY, place, quantity, f"{size}, {_drawn(part)}", _ratios(part), published)


def _bound_finding(paper: str, place: str, part: pd.DataFrame, rows: int) -> Finding:
    limit, printed = f"at most {EPSILON:g}, missed with probability {DELTA:g}", part["printed"].dropna()
    if len(printed):
        limit += f"; the printed constant asks for {', '.join(f'{number:,}' for number in printed)} features"
    sizes = ", ".join(f"{one.setting} ({one.n_components:,} features)" for one in part.itertuples())
    return Finding(
        paper,
        place,
        f"epsilon with the promised number, and draws that miss {EPSILON:g}",
        f"{'1 row' if rows == 1 else f'{rows} rows'}: {sizes}",
        ", ".join(f"{one.measured:.2g} ({one.failures} of {one.draws})" for one in part.itertuples()),
        limit,
    )


def _theorem_findings(found: pd.DataFrame) -> Iterator[Finding]:
    by_name = dict(list(found.groupby("name")))
    for name, (places, _, _) in BOUNDS.items():
        for paper, place in places:
            yield _bound_finding(paper, place, by_name[name], ROWS)
    yield _bound_finding(_HAN, "Lemma 3", by_name["tensor-countsketch"], 1)
    yield _bound_finding(_HAN, "Lemma 4", by_name["tensor-countsketch-spectral"], ROWS)
    for name, kernel in (("taylor-arccosine1", "kappa1"), ("taylor-arccosine0", "kappa0")):
        part = by_name[name]
        yield Finding(
            _ZANDIEH,
            f"Lemma 3, {kernel}",
            "largest error of the Taylor polynomial over epsilon",
            ", ".join(f"epsilon {one.setting} ({one.n_components:,} terms)" for one in part.itertuples()),
            ", ".join(f"{ratio:.2f}" for ratio in part["measured"] / part["predicted"]),
            "at most 1",
        )
