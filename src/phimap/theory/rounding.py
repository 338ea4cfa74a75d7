"""How far rounding moves the sums of a fit."""

from __future__ import annotations

from phimap._validation import check_integer, check_real


def sums_rounding(n_rows: float, batch_rows: int = 4096) -> tuple[float, float]:
    """Predict how far rounding moves a sum over rows of numbers that do not change sign.

    Parameters
    ----------
    n_rows : float
    batch_rows : int, default=4096
        Rows whose products are summed in float32 by themselves.

    Returns
    -------
    products, sums : float
        Relative standard deviations: what products in float32 leave, and what their sum in float64 adds.

    Notes
    -----
    With u the unit roundoff and B batches. A product of a batch of r rows is a sum of r terms in float32. Its
    roundings are as good as independent, each is at most ``u`` of the sum so far, and has a variance of a third of
    that squared; the sum grows evenly, so the squares of the sums so far add up to ``r / 3`` times the last one. The
    relative standard deviation is ``u r^(1/2) / 3``. Errors of B batches are independent, too, and their mean has
    ``u32 r^(1/2) / (3 B^(1/2))``. The sum in float64 over batches adds ``u64 B^(1/2) / 3``; its bound is ``u64 B / 2``.

    **Error.** Products in float32 err less than this where a library sums in several registers at a time.

    **Cost** none. **Differs from the source in** the factor 1 / 3, which the rule of thumb ``u n^(1/2)`` leaves out.

    References
    ----------
    Higham, Mary (2019), *A new approach to probabilistic rounding error analysis*, Theorem 2.4.

    Examples
    --------
    >>> products, sums = sums_rounding(1e12)
    >>> bool(products < 1e-10 and sums < 1e-12)
    True
    """
    check_integer("batch_rows", batch_rows, least=1)
    batches = check_real("n_rows", n_rows, above=0.0) / batch_rows
    products = 2.0**-24 * batch_rows**0.5 / 3 / max(batches, 1.0) ** 0.5
    return products, 2.0**-53 * batches**0.5 / 3
