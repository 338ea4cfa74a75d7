"""Rounding errors of the sums of a fit."""

from __future__ import annotations

from phimap._validation import check_integer, check_real


def sums_rounding(n_rows: float, batch_rows: int = 4096) -> tuple[float, float]:
    """Predict the relative rounding error of a sum over rows, for terms of the same sign.

    Parameters
    ----------
    n_rows : float
    batch_rows : int, default=4096
        Number of rows in a batch; the products within a batch are summed in float32.

    Returns
    -------
    products, sums : float
        Relative standard deviations of the error of products in float32, and of the error of summing the products in
        float64.

    Notes
    -----
    Let u32 and u64 be the unit roundoffs of float32 and float64, and B the number of batches. A product over a batch of
    r rows is a sum of r terms in float32. Its rounding errors are nearly independent. Each is at most ``u32`` times the
    partial sum, with a variance of a third of the square of this limit. The sum grows evenly, so the squares of the
    partial sums add up to ``r / 3`` times the square of the final sum. The relative standard deviation is therefore
    ``u32 r^(1/2) / 3``. The errors of B batches are also independent, so the error of their mean is
    ``u32 r^(1/2) / (3 B^(1/2))``. The sum in float64 over batches adds an error of ``u64 B^(1/2) / 3``, which is
    bounded by ``u64 B / 2``.

    **Error.** Products in float32 have smaller errors if a library sums in several registers at a time.

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
