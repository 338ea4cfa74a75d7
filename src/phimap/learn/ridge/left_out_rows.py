"""Errors on rows that a fit in passes has left out: held-out ones, and outlying ones left out one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.blocks.centred_rows import times_root
from phimap.learn.ridge.added_rows import AddedRows
from phimap.learn.ridge.normal_equations import NormalEquations, counts
from phimap.learn.ridge.nystroem_preconditioner import NystroemPreconditioner
from phimap.learn.rows.weights import weighted_mean
from phimap.learn.solver import HeldOutScores


@dataclass(frozen=True)
class LeftOutRows:
    """The rows by whose errors alpha is chosen.

    Attributes
    ----------
    held_out : Rows
    outlying : Rows or None
        Other rows, those that lie farthest out.
    sample : Rows or None
        Further rows at random, which stay in the fit; those that `SketchRows` are made of.
    """

    held_out: FeatureRows
    outlying: FeatureRows | None = None
    sample: FeatureRows | None = None

    @property
    def parts(self) -> list[FeatureRows]:
        """Those that there are."""
        return [self.held_out] if self.outlying is None else [self.held_out, self.outlying]

    def systems(self, system: NormalEquations) -> list[NormalEquations]:
        """Those of all rows but the held-out ones, and of all but these and the outlying ones, if there are any."""
        return [system.without(self.parts[:n]) for n in range(1, len(self.parts) + 1)]

    def added_to(self, preconditioner: NystroemPreconditioner, without: NormalEquations) -> AddedRows | None:
        """The preconditioner of the first system, from that of the system without outlying rows; None without them."""
        if self.outlying is None:
            return None
        # About the mean without them, which theirs moves little.
        far = self.outlying.block.to_host().astype(np.float64) - without.sum_z / without.weight
        return AddedRows(preconditioner, np.ascontiguousarray(times_root(far, self.outlying.weights).T))


class LeftOutErrors:
    r"""The criterion of `solve_ridge` for coefficients that were found without the rows they are judged by.

    Parameters
    ----------
    rows : LeftOutRows
    systems : sequence of NormalEquations
        `LeftOutRows.systems`.
    added : AddedRows or None
        The preconditioner of the first system, made of that of the second; None where that is the only one.
    n_jobs : int or None

    Notes
    -----
    The criterion wants held-out rows judged by a fit with the outlying rows F, which is that of the first system, and
    each row of F by a fit with all of F but itself, which follows from the fit without F. With e its errors, s the
    roots of the weights, :math:`G_{ij} = s_i s_j [1 / n + z_i^T (A + \lambda I)^{-1} z_j]` and :math:`M = I + G`, the
    errors are :math:`[M^{-1} s e]_i / [M^{-1}]_{ii}`.

    **Error.** e is as exact as the coefficients. G takes P, the preconditioner, for :math:`A + \lambda I`. It says
    what outlying rows tell about each other. A row that no other resembles has the error e whatever G is, and as G
    grows its scale drops out, so that G need not be exact. A leverage of the fit with F would have to be: its distance
    from 1 divides the errors. What F tells about the held-out rows has no such excuse, and has a fit of its own: by G,
    with a rank of an eighth of the features, the alpha of protein was off by 4 %.

    **Cost.** ``2 (r + k) m t`` flops for each alpha, and what `AddedRows` takes.

    **Differs from the source in** the order: rows are added to a fit where the source takes them away.

    References
    ----------
    Golub, Heath, Wahba (1979), *Generalized cross-validation as a method for choosing a good ridge parameter*,
    Equation 2.1 (one row left out).
    """

    def __init__(
        self, rows: LeftOutRows, systems: Sequence[NormalEquations], added: AddedRows | None, n_jobs: int | None
    ):
        self._parts, self._systems, self._added, self._n_jobs = rows.parts, systems, added, n_jobs
        self._targets = np.concatenate([part.targets for part in self._parts])
        # Held-out rows stand for all but the outlying ones.
        near = counts(rows.held_out)
        near = near * (1 + systems[-1].weight / near.sum())
        self._counts = np.concatenate([near, *(counts(part) for part in self._parts[1:])])

    def of(self, candidates: Sequence[tuple[Sequence[np.ndarray], float]]) -> np.ndarray:
        """Mean squared errors (c,), summed over targets, of the systems' solutions (m, t) with each of some alphas."""
        return np.array(
            [weighted_mean(np.square(errors).sum(axis=1), self._counts) for errors in self._errors(candidates)]
        )

    def scores(self, solutions: Sequence[np.ndarray], alpha: float) -> HeldOutScores:
        """Predictions for the rows; their weights are those of the mean that `of` takes."""
        (errors,) = self._errors([(solutions, alpha)])
        return HeldOutScores(self._targets - errors, self._targets, self._counts)

    def _errors(self, candidates: Sequence[tuple[Sequence[np.ndarray], float]]) -> list[np.ndarray]:
        """Errors (r + k, t) of each candidate, held-out rows first."""
        found = []
        # One product for all candidates: features of the rows may have to be formed for it.
        for i, (part, system) in enumerate(zip(self._parts, self._systems, strict=True)):
            own = [solutions[i] for solutions, _ in candidates]
            fitted = np.split(part.block.times(np.hstack(own), self._n_jobs), len(own), axis=1)
            found.append([part.targets - system.intercept(W) - F for W, F in zip(own, fitted, strict=True)])
        return [self._left_out_errors(errors, alpha) for *errors, (_, alpha) in zip(*found, candidates, strict=True)]

    def _left_out_errors(self, errors: list[np.ndarray], alpha: float) -> np.ndarray:
        """Errors (r + k, t) for those of the systems' solutions."""
        if self._added is None:
            return errors[0]
        near, far = errors
        roots = np.sqrt(counts(self._parts[1]))
        inverse = np.linalg.inv(self._added.middle(alpha) + np.outer(roots, roots) / self._systems[1].weight)
        alone = inverse @ (roots[:, None] * far) / inverse.diagonal()[:, None] / roots[:, None]
        return np.concatenate([near, alone])
