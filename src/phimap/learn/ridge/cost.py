"""Seconds of one core that ridge regression takes, from counts of operations and a few measured constants.

The constants are those of one machine on one day, and are never measured while a fit runs: a choice that is made by
them is the same on every machine and under every load. What counts is their ratios.
"""

from __future__ import annotations

# One core of an AMD EPYC (Zen 4, AVX-512), 22 November 2026, `benchmarks/solvers.py --constants`, float32.
#: Flops a second of wide products, a symmetric one counted by half.
FLOPS = 85e9
#: Columns of a product at which it reaches half of that.
HALF_SPEED = 12
#: Seconds for the nonlinearity of one feature of one row.
NONLINEARITY = 1.5e-9
#: Seconds a feature where nobody counted the operations of the map: such maps are the dear ones.
UNCOUNTED = 1e-8
#: Seconds over the cube of the order: of choosing alpha and solving, and of one solution.
CHOOSING, SOLVING = 5e-11, 1.4e-11
#: Seconds over ``m r^2`` of making a preconditioner of rank r, over ``m r`` of applying it to one column.
MAKING, APPLYING = 6e-10, 1e-9

# What conjugate gradients are taken to need: passes that search for alpha with ten columns a target, and those that
# solve with one; solutions by the preconditioner alone.
_SEARCHING, _COLUMNS, _SOLVING = 8, 10, 12
_SOLUTIONS = 200
_RANK = 1024


def features_seconds(n: int, m: int, n_flops: int | None) -> float:
    """Of the features of n rows by a map of so many flops a row."""
    return n * (m * UNCOUNTED if n_flops is None else n_flops / FLOPS + m * NONLINEARITY)


def factorisation_seconds(n: int, m: int, n_flops: int | None, *, chosen: bool) -> float:
    """Of ridge regression by Cholesky factorisation, `chosen` if alpha is to be found: primal, or dual if n < m."""
    order = min(n, m)
    return (
        features_seconds(n, m, n_flops) + n * m * order / FLOPS + (CHOOSING if chosen else SOLVING) * float(order) ** 3
    )


def pass_seconds(n: int, m: int, columns: int, n_flops: int | None) -> float:
    """Of forming all features and multiplying so many columns by their Gram matrix."""
    return features_seconds(n, m, n_flops) + 4 * n * m * (columns + HALF_SPEED) / FLOPS


def passes_seconds(n: int, m: int, t: int, n_flops: int | None, *, chosen: bool, sketched: int) -> float:
    """Of ridge regression of t targets by conjugate gradients whose sketch takes products with `sketched` rows."""
    rank = min(m, _RANK)
    sketch = 4 * sketched * m * rank / FLOPS + (1 + chosen) * MAKING * m * rank**2
    solving = _SOLVING * pass_seconds(n, m, t, n_flops)
    if chosen:
        solving += _SEARCHING * pass_seconds(n, m, _COLUMNS * t, n_flops) + _SOLUTIONS * t * APPLYING * m * rank
    return sketch + solving
