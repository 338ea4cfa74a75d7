"""Shapley values and interactions of the outputs of a fitted model."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from phimap._progress import Stages
from phimap._random import named_streams
from phimap._validation import check_integer
from phimap.explain.background import check_own_background, drawn_places
from phimap.explain.explanation import Explanation, Interactions
from phimap.explain.forms.base import Form
from phimap.explain.frames import cells
from phimap.explain.sampling import Function, Sampled, sampled_interactions, sampled_values, with_diagonal
from phimap.explain.subject import Subject, subject_of

# Progress is shown each time this many rows have been explained.
_ROWS = 64


def shapley_values(
    model: Any, X: Any, background: Any = 100, *, random_state: Any = 0, verbose: bool = False
) -> Explanation:
    r"""Explain outputs of a model by interventional Shapley values of the columns.

    Parameters
    ----------
    model : estimator
        Fitted learner of phimap, or any fitted estimator with `predict`.
    X : array-like, data frame, CSR matrix or torch.Tensor of shape (n, d)
        Rows to explain.
    background : int, array-like or data frame, default=100
        Rows with which the rows of `X` are compared, such as some hundred random training rows: columns outside of a
        coalition have the values of these rows. A number draws this many rows from `X`, or all rows if `X` has fewer.
    random_state : int, Generator, RandomState or SeedSequence, default=0
        Seed of the background and of sampled permutations.
    verbose : bool, default=False
        Whether to show progress.

    Returns
    -------
    Explanation
        `exact` says whether values are exact; otherwise `standard_errors` has their errors.

    Raises
    ------
    ValueError
        If `X` or `background` does not suit the model, or if `X` is one row and `background` is a number.

    Warns
    -----
    FewRowsWarning
        If `background` is a number and `X` has fewer than 30 rows.

    Notes
    -----
    A classifier is explained on its scores (`decision_function`). A column of a data frame is one player, even if it is
    encoded as several numbers.

    With f a sum of products, ``f(x) = sum_i b_i prod_j v_ij(x_j)``, the value of column j against a background row u is

    .. math:: \phi_j = \sum_i b_i \bigl(v_{ij}(x_j) - v_{ij}(u_j)\bigr)
              \int_0^1 \prod_{l \ne j} \bigl(t\, v_{il}(x_l) + (1 - t)\, v_{il}(u_l)\bigr)\, dt,

    and the integrand is a polynomial of degree d - 1, for which ceil(d / 2) Gauss-Legendre nodes are exact. Such sums
    are linear models on Fourier features with any metric. They are also linear models on landmarks, with no metric or a
    diagonal metric, for Gaussian, Laplacian, Cauchy, Matern and additive kernels, and for sums, multiples and products
    of these kernels. Corrections without regions are exact, too, and so are regression trees: a leaf is a product of
    indicators of intervals. The probabilities of classification trees are not sums over leaves, so these trees are
    sampled. Corrections in regions have no closed form, because the region of a row depends on all columns. Only these
    corrections are sampled, `exact` is False, and the standard errors belong to the corrections.

    **Error.** Exact forms: rounding of float64; with more than 40 columns, for which fewer nodes are used, 1e-12 times
    the largest mean change of the outputs by a column; with Matern landmarks, 1e-10 times the sum of the absolute
    weights of the landmarks. Other models, other parts of a model, and rows so far outside of the training rows that
    the model shrinks their outputs: permutation sampling. Sums over the columns are exact in either case.

    **Cost.** For m terms and B background rows, ``m B d^2`` multiplications and half as many additions a row for
    landmarks; the same for 2 m Fourier features. Sampling takes 4 B d outputs of the model a row. Classes share this
    work: a further class adds only ``m d`` multiplications a row, independent of B.

    **Differs from the source in** the quadrature rule in place of the elementary symmetric polynomials.

    References
    ----------
    Lundberg, Lee (2017), *A unified approach to interpreting model predictions*; Mohammadi, Chau, Muandet (2025),
    *Computing exact Shapley values in polynomial time for product-kernel methods*.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> model = pm.KernelRegressor("gaussian", 64, metric=None, random_state=0).fit(X, X[:, 0] + X[:, 1] * X[:, 2])
    >>> found = pm.explain.shapley_values(model, X[:5], background=X)
    >>> found.values.shape, found.exact
    ((5, 3), True)
    >>> bool(np.allclose(found.values.sum(axis=1) + found.base_values, model.predict(X[:5])))
    True
    """
    stages = Stages(verbose)
    return Explanation(*_explained(model, X, background, random_state, stages, _exact_values, sampled_values))


def interactions(
    model: Any, X: Any, background: Any = 100, *, random_state: Any = 0, verbose: bool = False
) -> Interactions:
    """Explain outputs of a model by pairwise Shapley interaction values.

    Parameters
    ----------
    model, X, background, random_state, verbose
        As for `shapley_values`.

    Returns
    -------
    Interactions
        `exact` says whether values are exact; otherwise `standard_errors` has their errors.

    Raises
    ------
    ValueError
        As for `shapley_values`.

    Warns
    -----
    FewRowsWarning
        As for `shapley_values`.

    Notes
    -----
    The index of a pair is the integral of `shapley_values` with two factors taken out. The parts of a model without an
    exact form are sampled: players that follow each other in a permutation give a difference of four outputs.

    **Error.** As for `shapley_values`. A sum over the second columns is the Shapley value of the first, exact or
    sampled; the sum over all pairs is exact.

    **Cost.** Exact forms: d / 2 times the cost of `shapley_values`. Sampling: 4 d^2 B outputs of the model a row.
    """
    stages = Stages(verbose)
    found = _explained(model, X, background, random_state, stages, _exact_interactions, sampled_interactions)
    return Interactions(*found)


def _exact_values(subject: Subject, form: Form, rows: np.ndarray, background: np.ndarray) -> np.ndarray:
    return form.shapley(rows, background, subject.players, subject.n_jobs)


def _exact_interactions(subject: Subject, form: Form, rows: np.ndarray, background: np.ndarray) -> np.ndarray:
    halves = 0.5 * form.pairs(rows, background, subject.players, subject.n_jobs)
    return with_diagonal(halves, _exact_values(subject, form, rows, background))


def _explained(
    model: Any,
    X: Any,
    background: Any,
    random_state: Any,
    stages: Stages,
    exact: Callable[[Subject, Form, np.ndarray, np.ndarray], np.ndarray],
    sampled: Callable[..., Sampled],
) -> tuple[np.ndarray, Any, np.ndarray, list[str], bool, np.ndarray | None, list[str] | None]:
    """Return the fields of an explanation: exact values of the forms, and sampled estimates of all other parts."""
    subject = subject_of(model, X)
    streams = named_streams(random_state, "background", "permutations")
    rows, others = _rows(subject, X, background, streams["background"])
    far = subject.is_far(rows, others) if subject.forms else np.ones(len(rows), bool)
    seed = int(streams["permutations"].integers(2**63))
    values, errors, base = _values(subject, rows, others, far, seed, stages, exact, sampled)
    is_exact = not far.any() and subject.rest is None
    if subject.is_single:
        values, errors, base = values[..., 0], errors[..., 0], float(base[0])
    found = None if is_exact else errors
    return values, base, cells(X, subject.names), subject.names, is_exact, found, subject.output_names


def _values(
    subject: Subject,
    rows: np.ndarray,
    background: np.ndarray,
    far: np.ndarray,
    seed: int,
    stages: Stages,
    exact: Callable[[Subject, Form, np.ndarray, np.ndarray], np.ndarray],
    sampled: Callable[..., Sampled],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values (n, ..., t), their standard errors, and the base values (t,).

    `far` (n,) marks the rows for which all parts of the model are sampled.
    """

    def estimate(function: Function, chosen: np.ndarray) -> Sampled:
        with stages.stage("sampled values", len(chosen), "rows") as advance:
            return sampled(function, chosen, background, subject.players, seed, advance)

    if far.all():
        return *estimate(subject.outputs, rows), _mean(subject.outputs(background))
    near = np.flatnonzero(~far)
    parts = []
    with stages.stage("exact values", len(near), "rows") as advance:
        for start in range(0, len(near), _ROWS):
            part = rows[near[start : start + _ROWS]]
            parts.append(reduce(add, (exact(subject, form, part, background) for form in subject.forms)))
            advance(len(part))
    found = np.concatenate(parts)
    base = np.asarray(subject.intercept) + sum(_mean(form.outputs(background)) for form in subject.forms)
    values = np.zeros((len(rows), *found.shape[1:]))
    errors = np.zeros_like(values)
    values[near] = found
    if subject.rest is not None:
        estimates, errors[near] = estimate(subject.rest, rows[near])
        values[near] += estimates
        base = base + _mean(subject.rest(background))
    if far.any():
        values[far], errors[far] = estimate(subject.outputs, rows[far])
    return values, errors, np.asarray(base)


def _mean(outputs: np.ndarray) -> np.ndarray:
    return outputs.mean(axis=0, dtype=np.float64)


def _rows(subject: Subject, X: Any, background: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of numbers to explain, and of the background."""
    rows = subject.rows_of(X)
    if background is not None and not np.isscalar(background):
        return rows, subject.rows_of(background)
    count = check_integer("background", background, least=1)
    check_own_background(len(rows), count)
    places = drawn_places(len(rows), count, rng, lambda places: subject.is_far(rows[places], rows[:0]))
    return rows, rows[places]
