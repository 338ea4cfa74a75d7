"""The number of features that a published bound requires."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, isfinite
from typing import Any

from phimap._validation import check_choice, check_integer, check_real
from phimap.theory import approximation, learning, lemmas, neural
from phimap.theory.bounds import Bound, Registry, RequiredFeatures, Widths

_FAMILIES: tuple[Registry, ...] = (approximation.BOUNDS, learning.BOUNDS, neural.BOUNDS, lemmas.BOUNDS)
# Parts of a map whose widths add up to the output width. Step features are not among them, because they are only
# factors of products.
_OUTPUT_PARTS = ("relu", "sketch")


def _positive(name: str, value: Any) -> float:
    return check_real(name, value, above=0.0)


def _count(name: str, value: Any) -> int:
    return check_integer(name, value, least=1)


def _probability(name: str, value: Any) -> float:
    value = check_real(name, value, above=0.0)
    if value >= 1:
        raise ValueError(f"`{name}` must be below 1, got {value}.")
    return value


# Checks of arguments by name; other arguments must be positive numbers.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("n", "d", "depth", "degree"), _count),
    **dict.fromkeys(("capacity", "compatibility"), lambda name, value: check_real(name, value, least=0.0)),
    "delta": _probability,
    "decay": lambda name, value: check_choice(name, value, learning.DECAYS),
}


def bounds() -> tuple[Bound, ...]:
    """All bounds that `required_features` evaluates.

    Returns
    -------
    tuple of Bound
        Bounds for kernel approximation, then for learning, then for arc-cosine and neural tangent kernels, and finally
        the lemmas that bounds for neural tangent kernels use.

    Examples
    --------
    >>> import phimap as pm
    >>> [bound.name for bound in pm.theory.bounds() if "length_scale" in bound.needs and bound.exact_constants]
    ['fourier-uniform', 'fourier-uniform-logarithmic']
    """
    return tuple(bound for family in _FAMILIES for bound in family.values())


def required_features(
    bound: str,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    n: int | None = None,
    d: int | None = None,
    length_scale: float | None = None,
    diameter: float | None = None,
    alpha: float | None = None,
    statistical_dimension: float | None = None,
    largest_leverage: float | None = None,
    operator_norm: float | None = None,
    trace: float | None = None,
    depth: int | None = None,
    degree: int | None = None,
    r: float | None = None,
    feature_bound: float | None = None,
    source: float | None = None,
    capacity: float | None = None,
    compatibility: float | None = None,
    decay: str | None = None,
    decay_rate: float | None = None,
) -> RequiredFeatures:
    """Evaluate a published bound, and return the number of features for which it guarantees an error.

    A bound takes only some of the arguments: see ``needs`` and ``accepts`` of the bounds in ``pm.theory.bounds()``.

    Parameters
    ----------
    bound : str
        Name of a bound, see `bounds`.
    epsilon : float, optional
        Error that the bound guarantees, in the sense of the bound's ``guarantee``.
    delta : float, optional
        Probability of failure, in (0, 1).
    n, d : int, optional
        Number of rows and columns of the data.
    length_scale : float, optional
        Length scale of the Gaussian kernel, in the unit of `diameter`.
    diameter : float, optional
        Largest distance between points of the set on which the error is bounded.
    alpha : float, optional
        Ridge parameter added to the diagonal of K, not divided by n.
    statistical_dimension : float, optional
        ``tr K (K + alpha I)^{-1}``, see `phimap.metrics.statistical_dimension`.
    largest_leverage : float, optional
        Largest value of ``z^T (K + alpha I)^{-1} z`` over all features z (n,): the survey's F_inf(alpha / n).
    operator_norm : float, optional
        Largest singular value of the data matrix.
    trace : float, optional
        Trace of the kernel matrix.
    depth : int, optional
        Number L of hidden layers of the network that defines a neural tangent kernel.
    degree : int, optional
        Number of factors of a tensor product.
    r : float, optional
        Exponent of the Lr norm.
    feature_bound : float, optional
        Largest absolute value of a feature before division by the square root of the number of features. The default 1
        holds for pairs of cosine and sine, read as a complex exponential.
    source, capacity, compatibility : float, optional
        Exponents r, gamma and rho of the survey's Assumptions 8, 5 and 6.
    decay : {"exponential", "polynomial", "harmonic"}, optional
        Decay of the eigenvalues of K, as in the survey's Assumption 4.
    decay_rate : float, optional
        Parameter c (exponential) or t (polynomial) of the decay, by default 1.

    Returns
    -------
    RequiredFeatures
        The number ``value``, with its formula, source and assumptions; ``str`` gives a readable description.

    Raises
    ------
    TypeError
        If an argument that the bound needs is missing, or an argument that it does not accept is given.
    ValueError
        If the bound is unknown, an argument is out of range, or the number overflows.

    Notes
    -----
    **Error.** Bounds hold for every data set and are far above what typical data need: expect the measured error at
    ``value`` to be several times smaller than epsilon. With ``exact_constants=False`` the source gives only an order of
    magnitude. The constant is then taken as 1, and the number can be used to compare settings but is not a guarantee.

    **Cost.** None.

    **Differs from the source.** The constants are those that the proofs give. If a source prints other constants,
    ``bound.printed`` holds the printed formula and the reason for the difference, and ``printed`` holds the number of
    features by the printed formula. Theorems 2 to 4 of Han et al. and Theorems 6 and 7 of Zandieh et al. print half of
    the number that their proofs need. The alternative ``rank(X)^2`` in Theorems 3 and 7 of Zandieh et al. is not
    offered because it is false for small alpha. The survey's regularisation ``n lambda`` is alpha here. The survey's
    Theorem 2 prints ``lambda = n^(1/(2r+gamma))``; the exponent must be negative. Table 4 omits the exponents of n for
    Theorems 2 and 3 of Rudi and Rosasco; they are taken from the survey's Theorem 2, of which both are special cases.

    References
    ----------
    Liu, Huang, Chen, Suykens, "Random Features for Kernel Approximation: A Survey on Algorithms, Theory, and
    Beyond", TPAMI 2021, Theorems 1-3 and Tables 3-5.

    Han, Avron, Shoham, Kim, Shin, "Random Features for the Neural Tangent Kernel", 2021, Theorems 1-4, Lemmas 3, 4, 6.

    Zandieh, Han, Avron, Shoham, Kim, Shin, "Scaling Neural Tangent Kernels via Sketching and Random Features",
    NeurIPS 2021, Theorems 1-4, 6, 7, Lemmas 1-3.

    Sutherland, Schneider, "On the Error of Random Fourier Features", UAI 2015, Proposition 1.

    Sriperumbudur, Szabo, "Optimal Rates for Random Fourier Features", NeurIPS 2015, Theorems 1 and 3.

    Examples
    --------
    >>> import phimap as pm
    >>> found = pm.theory.required_features("fourier-entrywise", epsilon=0.1, delta=0.01, n=1000)
    >>> found.value, found.exact_constants
    (3684, True)
    """
    given = {name: value for name, value in locals().items() if name != "bound"}
    known = {one.name: one for one in bounds()}
    if bound not in known:
        raise ValueError(f"`bound` must be one of {', '.join(map(repr, known))}, got {bound!r}.")
    chosen = known[bound]
    arguments = {name: _CHECKS.get(name, _positive)(name, value) for name, value in given.items() if value is not None}
    missing = [name for name in chosen.needs if name not in arguments]
    if missing:
        raise TypeError(f"`{missing[0]}` must be given for {bound!r}, which needs {', '.join(chosen.needs)}.")
    unused = [name for name in arguments if name not in chosen.accepts]
    if unused:
        raise TypeError(f"`{unused[0]}` is not taken by {bound!r}, which takes {', '.join(chosen.accepts)}.")
    value, widths = _counted(chosen.evaluate(**arguments))
    printed = None
    if chosen.printed is not None and chosen.printed.evaluate is not None:
        printed, _ = _counted(chosen.printed.evaluate(**arguments))
    regularization = None if chosen.regularization is None else chosen.regularization(**arguments)
    return RequiredFeatures(value, widths, chosen, arguments, printed, regularization)


def _counted(found: Widths) -> tuple[int, dict[str, int]]:
    """Return the number of features, rounded up, and the widths of the parts if the map has several parts."""
    if not isinstance(found, dict):
        return _whole(found), {}
    widths = {name: _whole(width) for name, width in found.items()}
    return sum(widths[part] for part in _OUTPUT_PARTS), widths


def _whole(number: float) -> int:
    if not isfinite(number):
        raise ValueError("`bound` must give a finite number, got an overflow. Use a smaller diameter or d.")
    return max(1, ceil(number))
