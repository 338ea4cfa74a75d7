"""Predicted seconds of ridge regression on one core, from counts of operations and a few measured constants.

The constants were measured once, on one machine, and choices depend only on their ratios. So every machine makes the
same choice, under every load.
"""

from __future__ import annotations

# Measured on one core of an AMD EPYC (Zen 4, AVX-512), 22 November 2026, `benchmarks/solvers.py --constants`, float32.
#: Flops per second of matrix products with many columns; a symmetric product counts half its flops.
FLOPS = 85e9
#: Number of columns at which a matrix product runs at half of `FLOPS`.
HALF_SPEED = 12
#: Seconds for the nonlinearity of one feature of one row.
NONLINEARITY = 1.5e-9
#: Seconds for one feature of one row, by a map whose operations are not counted. Such maps are expensive.
UNCOUNTED = 1e-8
#: Seconds divided by the cube of the order: for choosing alpha and solving, and for solving alone.
CHOOSING, SOLVING = 5e-11, 1.4e-11
#: Seconds divided by ``m r^2`` to make a preconditioner of rank r, and seconds divided by ``m r`` to apply it to one
#: column.
MAKING, APPLYING = 6e-10, 1e-9

# Typical counts for conjugate gradients: passes that search for alpha, columns per target in these passes, and passes
# that solve with one column per target. `_SOLUTIONS` counts approximate solutions per target, which need the
# preconditioner but no pass. `_RANK` is the rank of the preconditioner.
_SEARCHING, _COLUMNS, _SOLVING = 8, 10, 12
_SOLUTIONS = 200
_RANK = 1024


def features_seconds(n: int, m: int, n_flops: int | None) -> float:
    """Seconds to form the features of n rows, by a map that takes `n_flops` flops for a row."""
    return n * (m * UNCOUNTED if n_flops is None else n_flops / FLOPS + m * NONLINEARITY)


def factorisation_seconds(n: int, m: int, n_flops: int | None, *, chosen: bool) -> float:
    """Seconds of ridge regression by factorisation, in dual form if n < m; `chosen` adds the choice of alpha."""
    order = min(n, m)
    return (
        features_seconds(n, m, n_flops) + n * m * order / FLOPS + (CHOOSING if chosen else SOLVING) * float(order) ** 3
    )


def pass_seconds(n: int, m: int, columns: int, n_flops: int | None) -> float:
    """Seconds to form all features and multiply `columns` columns by their Gram matrix."""
    return features_seconds(n, m, n_flops) + 4 * n * m * (columns + HALF_SPEED) / FLOPS


def passes_seconds(n: int, m: int, t: int, n_flops: int | None, *, chosen: bool, sketched: int) -> float:
    """Seconds of ridge regression on t targets by conjugate gradients, with a sketch of `sketched` rows."""
    rank = min(m, _RANK)
    sketch = 4 * sketched * m * rank / FLOPS + (1 + chosen) * MAKING * m * rank**2
    solving = _SOLVING * pass_seconds(n, m, t, n_flops)
    if chosen:
        solving += _SEARCHING * pass_seconds(n, m, _COLUMNS * t, n_flops) + _SOLUTIONS * t * APPLYING * m * rank
    return sketch + solving
