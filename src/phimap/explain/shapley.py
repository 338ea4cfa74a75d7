"""Shapley values and interactions of the outputs of a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap._random import named_streams
from phimap._validation import check_integer
from phimap.explain.explanation import Explanation, Interactions
from phimap.explain.frames import cells
from phimap.explain.sampling import sampled_values
from phimap.explain.subject import Subject, subject_of


def shapley_values(model: Any, X: Any, background: Any = 100, *, random_state: Any = 0) -> Explanation:
    r"""Explain outputs of a model by interventional Shapley values of the columns.

    Parameters
    ----------
    model : estimator
        Fitted learner of phimap, or any fitted estimator with `predict`.
    X : array-like, data frame, CSR matrix or torch.Tensor of shape (n, d)
        Rows to explain.
    background : int, array-like or data frame, default=100
        Rows that give the columns outside of a coalition their values; or a number of rows that are drawn from `X`,
        all of them if `X` has fewer.
    random_state : int, Generator, RandomState or SeedSequence, default=0
        Seed of the background and of sampled permutations.

    Returns
    -------
    Explanation
        `exact` says whether values are exact; otherwise `standard_errors` has their errors.

    Raises
    ------
    ValueError
        If `X` or `background` does not suit the model.

    Notes
    -----
    A classifier is explained on its scores (`decision_function`). An encoded column of a data frame is one player,
    however many numbers it becomes.

    With f a sum of products, ``f(x) = sum_i b_i prod_j v_ij(x_j)``, the value of column j against a background row u is

    .. math:: \phi_j = \sum_i b_i \bigl(v_{ij}(x_j) - v_{ij}(u_j)\bigr)
              \int_0^1 \prod_{l \ne j} \bigl(t\, v_{il}(x_l) + (1 - t)\, v_{il}(u_l)\bigr)\, dt,

    and the integrand is a polynomial of degree d - 1, for which ceil(d / 2) Gauss-Legendre nodes are exact. Such sums
    are Fourier features with any metric, and landmarks of Gaussian, Laplacian, Cauchy, Matern and additive kernels, of
    their sums, multiples and products, with no metric or a diagonal one. Corrections without regions are exact, too.

    **Error.** Exact forms: rounding of float64; with Matern landmarks, 1e-10 times the sum of the absolute weights of
    the landmarks. Other models, other parts of a model, and rows so far outside of the training rows that the model
    shrinks their outputs: permutation sampling. Sums over the columns are exact in either case.

    **Cost.** For m terms and B background rows, ``m B d^2`` multiplications and half as many additions a row for
    landmarks; the same for 2 m Fourier features. Sampling takes 4 B d outputs of the model a row.

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
    >>> found = pm.explain.shapley_values(model, X[:5])
    >>> found.values.shape, found.exact
    ((5, 3), True)
    >>> bool(np.allclose(found.values.sum(axis=1) + found.base_values, model.predict(X[:5])))
    True
    """
    subject = subject_of(model, X)
    streams = named_streams(random_state, "background", "permutations")
    rows, others = _rows(subject, X, background, streams["background"])
    far = subject.is_far(rows, others) if subject.forms else np.ones(len(rows), bool)
    seed = int(streams["permutations"].integers(2**63))
    values, errors, base = _values(subject, rows, others, far, seed)
    exact = not far.any() and subject.rest is None
    return Explanation(
        values[..., 0] if subject.is_single else values,
        float(base[0]) if subject.is_single else base,
        cells(X, subject.names),
        subject.names,
        exact,
        None if exact else (errors[..., 0] if subject.is_single else errors),
        subject.output_names,
    )


def interactions(model: Any, X: Any, background: Any = 100, *, random_state: Any = 0) -> Interactions:
    """Explain outputs of a model by pairwise Shapley interaction values, for models with an exact form.

    Parameters
    ----------
    model : estimator
        Fitted learner of phimap.
    X, background, random_state
        As for `shapley_values`.

    Returns
    -------
    Interactions

    Raises
    ------
    ValueError
        If the model, or a part of it, has no exact form.

    Notes
    -----
    The index of a pair is the integral of `shapley_values` with two factors taken out.

    **Error.** As for exact `shapley_values`. Outputs are those before rows far outside of the training rows are shrunk.

    **Cost.** d times that of `shapley_values`, halved.
    """
    subject = subject_of(model, X)
    require_forms(subject)
    rows, others = _rows(subject, X, background, named_streams(random_state, "background")["background"])
    z, v = subject.scale(rows), subject.scale(others)
    halves = 0.5 * sum(form.pairs(z, v, subject.players, subject.n_jobs) for form in subject.forms)
    near = np.zeros(len(rows), bool)
    values, _, base = _values(subject, rows, others, near, 0)
    whole = np.asarray(halves)
    places = np.arange(len(subject.players))
    whole[:, places, places] = values - whole.sum(axis=2)
    return Interactions(
        whole[..., 0] if subject.is_single else whole,
        float(base[0]) if subject.is_single else base,
        cells(X, subject.names),
        subject.names,
        subject.output_names,
    )


def require_forms(subject: Subject) -> None:
    """Raise if the model is not a sum of exact forms."""
    if not subject.forms or subject.rest is not None:
        raise ValueError(
            "`model` must be a sum of products over columns, and a part of it is not. Use shapley_values, which "
            "samples, or fit with metric='diagonal' and corrections=None."
        )


def _values(
    subject: Subject, rows: np.ndarray, background: np.ndarray, far: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values (n, p, t), their standard errors, and the base values (t,)."""
    if far.all():
        return *sampled_values(subject.outputs, rows, background, subject.players, seed), _mean(
            subject.outputs(background)
        )
    near = np.flatnonzero(~far)
    z, v = subject.scale(rows[near]), subject.scale(background)
    found = sum(form.shapley(z, v, subject.players, subject.n_jobs) for form in subject.forms)
    base = np.asarray(subject.intercept) + sum(_mean(form.outputs(v)) for form in subject.forms)
    values = np.zeros((len(rows), len(subject.players), np.size(base)))
    errors = np.zeros_like(values)
    values[near] = found
    if subject.rest is not None:
        estimates, errors[near] = sampled_values(subject.rest, rows[near], background, subject.players, seed)
        values[near] += estimates
        base = base + _mean(subject.rest(background))
    if far.any():
        values[far], errors[far] = sampled_values(subject.outputs, rows[far], background, subject.players, seed)
    return values, errors, np.asarray(base)


def _mean(outputs: np.ndarray) -> np.ndarray:
    return outputs.mean(axis=0, dtype=np.float64)


def _rows(subject: Subject, X: Any, background: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows of numbers to explain, and of the background."""
    rows = subject.rows_of(X)
    if np.ndim(background) or not np.isscalar(background):
        return rows, subject.rows_of(background)
    count = check_integer("background", background, least=1)
    order = rng.permutation(len(rows))
    # Rows whose outputs the model would shrink are drawn only if there are not enough others.
    far = subject.is_far(rows[order], rows[:0])
    return rows, rows[order[np.argsort(far, kind="stable")][:count]]
