"""Variances of effects of a function that is an exact form plus a function without one, from random choices of levels.

Players have independent random levels. Let F be the sum of the exact forms and R the function without a form, with the
effects F_j and R_j of player j, and F_jk and R_jk of a pair. The variance of the effect of player j on F + R is

``E (F_j + R_j)^2 = E F_j^2 + 2 E F_j R + E R_j^2``.

The first term is exact. The second is estimated by a mean over the choices, because F_j is uncorrelated with other
effects of R. For the third term, two independent choices r and s in which player j has the same level give
``E R_r R_s = (E R)^2 + E R_j^2``, and the mean of ``R_r R_s`` over all pairs of choices gives ``(E R)^2``. All three
estimates are unbiased. The same holds for pairs of players, where
``E R_r R_s = (E R)^2 + E R_j^2 + E R_k^2 + E R_jk^2``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.explain.forms.base import FormEffects

# Number of groups into which the random choices are divided. Standard errors follow from leaving out each group in
# turn.
_GROUPS = 16


@dataclass(frozen=True)
class SampledShares:
    """Shares of the variance and their standard errors; the pairs j < k of `second` (p, p) are filled."""

    first: np.ndarray
    second: np.ndarray
    first_errors: np.ndarray
    second_errors: np.ndarray


def sampled_shares(forms: FormEffects | None, chosen: np.ndarray, rest: np.ndarray, n_levels: int) -> SampledShares:
    """Estimate shares of the variance from the random choices `chosen` (r, p) of levels.

    `rest` (r, t) holds the values of the function without a form at the choices. If a constant was subtracted from
    `rest`, it must not depend on the choices. Standard errors come from the jackknife, which leaves out groups of
    choices.
    """
    p, choices = chosen.shape[1], _Choices(rest, np.arange(len(chosen)) * _GROUPS // len(chosen))
    total = choices.variance(rest if forms is None else forms.sampled + rest)
    constant = choices.same_level(np.zeros(len(chosen), np.intp), 1)
    single = [choices.same_level(chosen[:, j], n_levels) - constant for j in range(p)]
    first, second = np.zeros((_GROUPS + 1, p)), np.zeros((_GROUPS + 1, p, p))
    for j in range(p):
        exact = 0.0 if forms is None else choices.with_form(forms.first[j], chosen[:, j])
        first[:, j] = (exact + single[j]) / total
        for k in range(j + 1, p):
            cells = chosen[:, j] * n_levels + chosen[:, k]
            both = choices.same_level(cells, n_levels**2) - constant - single[j] - single[k]
            if forms is not None:
                both = both + choices.with_form(forms.second[j, k].reshape(-1, rest.shape[1]), cells)
            second[:, j, k] = both / total
    return SampledShares(first[0], second[0], _jackknife(first[1:]), _jackknife(second[1:]))


class _Choices:
    """Estimates from r choices. Each is an array (groups + 1,): from all choices, then without each group in turn.

    Parameters
    ----------
    rest : ndarray of shape (r, t)
        Values of the function without a form.
    group : ndarray of int, shape (r,)
        Group of each choice.
    """

    def __init__(self, rest: np.ndarray, group: np.ndarray):
        self._rest, self._group = rest, group
        self._counts = self._left(np.bincount(group).astype(np.float64))
        self._squares = self._sums(np.square(rest).sum(axis=1))

    def variance(self, outputs: np.ndarray) -> np.ndarray:
        """The variance of outputs (r, t), summed over the outputs."""
        centred = outputs - outputs.mean(axis=0)
        sums = np.stack([self._sums(column) for column in centred.T], axis=1)
        squares = self._sums(np.square(centred).sum(axis=1))
        found = (squares - np.square(sums).sum(axis=1) / self._counts) / (self._counts - 1.0)
        return np.where(found > 0.0, found, 1.0)

    def same_level(self, cells: np.ndarray, n_cells: int) -> np.ndarray:
        """Mean product of the values of the rest at two choices in the same cell, summed over the outputs.

        A cell is a level of a player, or two levels of a pair of players; `cells` (r,) holds the cell of each choice.
        """
        places, size = self._group * n_cells + cells, _GROUPS * n_cells
        counts = self._left(np.bincount(places, minlength=size).reshape(_GROUPS, n_cells).astype(np.float64))
        products = -self._squares
        for column in self._rest.T:
            sums = self._left(np.bincount(places, column, size).reshape(_GROUPS, n_cells))
            products = products + np.square(sums).sum(axis=1)
        return products / np.maximum(np.square(counts).sum(axis=1) - self._counts, 1.0)

    def with_form(self, effect: np.ndarray, cells: np.ndarray) -> np.ndarray:
        """The variance of an effect (cells, t) of the forms, plus twice its mean product with the rest."""
        products = (effect[cells] * self._rest).sum(axis=1)
        return np.square(effect).mean(axis=0).sum() + 2.0 * self._sums(products) / self._counts

    def _sums(self, values: np.ndarray) -> np.ndarray:
        return self._left(np.bincount(self._group, values))

    @staticmethod
    def _left(of_groups: np.ndarray) -> np.ndarray:
        """The sum over all groups, followed by the sums that leave out one group."""
        whole = of_groups.sum(axis=0, keepdims=True)
        return np.concatenate([whole, whole - of_groups])


def _jackknife(found: np.ndarray) -> np.ndarray:
    """Standard errors of an estimate, from the estimates (groups, ...) that leave out one group."""
    return np.sqrt((_GROUPS - 1) * found.var(axis=0))
