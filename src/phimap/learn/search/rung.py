"""Kernels with their metrics, and what each is worth on some rows at some width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from phimap.learn.search.families import KernelFamily, combination
from phimap.learn.search.length_scale import median_length_scale
from phimap.learn.search.log import TrialEntry, TrialLog
from phimap.learn.search.metric import gradient_factor, mean_root, root_of, tempered_root, tied
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.trial import FIRST_ALPHA, TrialResult, rooted, run_trial
from phimap.ops import run_tasks

# Widths of a kernel as multiples of the median distance are powers of this.
_STEP = 2.0
#: Powers that are tried first.
FIRST_POWERS = (-1, 0, 1)
# How far the climb of the width goes to either side.
_MOST_POWER = 6
#: A round of the metric, or a step of the width, must lower the error by this share to be followed by another.
GAIN = 0.01
# Powers by which the partner in a sum may be wider.
_WIDER = 2
#: Exponent of a metric that is to hide less.
TEMPERED = 0.5
# Rows on which the median distance is taken.
_MEDIAN_ROWS = 500


@dataclass(frozen=True)
class KernelCandidate:
    """A kernel of a family with its metric in each fold, and what it was worth."""

    family: KernelFamily
    kind: str
    round: int
    power: int
    length_scale: float | None
    roots: tuple[np.ndarray | None, ...]
    exponent: float = 1.0
    alpha: int = FIRST_ALPHA
    result: TrialResult | None = None

    @classmethod
    def start(cls, family: KernelFamily, level: Rung) -> KernelCandidate:
        """A family without a metric."""
        return cls(family, "none", 0, 0, None, (None,) * len(level.sample.folds()))

    @property
    def root(self) -> np.ndarray | None:
        """Root of the mean metric over folds."""
        roots = [root for root in self.roots if root is not None]
        return mean_root(roots) if roots else None

    @property
    def error(self) -> float:
        return np.inf if self.result is None else self.result.error


@dataclass
class Rung:
    """Trials on some rows at some width."""

    sample: SearchSample
    n_components: int
    seed: int
    n_jobs: int | None
    log: TrialLog

    def evaluate(self, points: Sequence[KernelCandidate]) -> list[KernelCandidate]:
        """Points with their results; trials run side by side."""

        def run(point: KernelCandidate) -> KernelCandidate:
            width = min(self.n_components, self.sample.n_learned)
            kernel = point.family.make(point.length_scale)
            result = run_trial(
                lambda: point.family.features(kernel, width, self.seed, self.n_jobs),
                point.roots,
                self.sample,
                point.alpha,
                self.n_jobs,
            )
            return replace(point, result=result, alpha=result.alpha)

        done = run_tasks(run, points, self.n_jobs)
        for point in done:
            scale = np.nan if point.length_scale is None else point.length_scale
            kind = "none" if point.round == 0 else point.kind
            self.log.entries.append(
                TrialEntry(
                    point.family.name, kind, point.round, scale, self.n_components, self.sample.n_rows, point.error
                )
            )
        return done

    def at_widths(self, point: KernelCandidate, powers: Sequence[int]) -> list[KernelCandidate]:
        """A kernel at some of its widths, evaluated; at its one width if it has no other."""
        return self.evaluate(self._widened(point, powers))

    def _widened(self, point: KernelCandidate, powers: Sequence[int]) -> list[KernelCandidate]:
        """A kernel at some of its widths."""
        unit = point.family.unit()
        if unit is None:
            return [point]
        rows = rooted(self.sample.X[:_MEDIAN_ROWS], point.roots[0])
        median = median_length_scale(rows, unit, self.sample.weights[:_MEDIAN_ROWS])
        if point.family.fixed:
            return [replace(point, power=0, length_scale=median)]
        return [replace(point, power=p, length_scale=median * _STEP**p) for p in powers]

    def best_width(self, point: KernelCandidate, powers: Sequence[int]) -> KernelCandidate:
        """The best of a kernel's widths: those of `powers`, and on from there while the error falls."""
        return self.climb(self.at_widths(point, powers))

    def climb(self, points: Sequence[KernelCandidate]) -> KernelCandidate:
        """The best of a kernel's evaluated widths, and of those beside it, while the error falls by a share."""
        tried = {point.power for point in points}
        best = min(points, key=lambda p: p.error)
        while best.family.has_width and not best.family.fixed:
            beside = [p for p in (best.power - 1, best.power + 1) if p not in tried and abs(p) <= _MOST_POWER]
            if not beside:
                break
            tried.update(beside)
            before = best.error
            best = min([best, *self.at_widths(best, beside)], key=lambda p: p.error)
            if best.error > (1 - GAIN) * before:
                break
        return best

    def next_roots(self, point: KernelCandidate) -> tuple[np.ndarray, ...]:
        """Roots of the metric that a point's gradients give, in each fold."""
        assert point.result is not None
        folds = list(zip(point.result.fits, point.roots, self.sample.folds(), strict=True))

        def root(fold: tuple) -> np.ndarray:
            factor = gradient_factor(fold[0], self.sample.X[fold[2][0]], fold[1])
            if point.kind == "diagonal" and self.sample.parts is not None:
                factor = tied(factor, self.sample.parts)
            return root_of(factor, point.kind, point.exponent)

        return tuple(run_tasks(root, folds, self.n_jobs))

    def follow(self, point: KernelCandidate, rounds: int) -> KernelCandidate:
        """Learn the metric of an evaluated point round by round, while its error falls; the best point met."""
        best = current = point
        for _ in range(rounds):
            family = current.family.next or current.family
            moved = replace(
                current, family=family, round=current.round + 1, roots=self.next_roots(current), result=None
            )
            if family is not current.family:
                current = self.best_width(moved, FIRST_POWERS)
            elif current.round == 0:
                current = self.best_width(moved, (current.power - 1, current.power))
            else:
                # The width, in units of the median distance, hardly moves after the first metric.
                current = self.at_widths(moved, (current.power,))[0]
            gained = current.error <= (1 - GAIN) * best.error
            best = min(best, current, key=lambda p: p.error)
            if not gained:
                break
        return best

    def tempered(self, point: KernelCandidate, rounds: int) -> KernelCandidate:
        """A point, or a better one whose metric is nearer to the identity, and the rounds that follow from there.

        What a sharp metric hides has no gradients, so that no round brings it back.
        """
        roots = tuple(tempered_root(root, TEMPERED) for root in point.roots if root is not None)
        moved = replace(point, roots=roots, exponent=TEMPERED, result=None)
        moved = self.best_sibling(self.best_width(moved, (point.power - 1, point.power, point.power + 1)))
        return self.follow(moved, rounds) if moved.error <= (1 - GAIN) * point.error else point

    def best_sibling(self, point: KernelCandidate) -> KernelCandidate:
        """The best of a point and of its kernel's siblings, along each ladder of them while the error falls."""
        best = point
        for ladder in point.family.siblings:
            for family in ladder:
                sibling = self.best_width(replace(best, family=family, result=None), (best.power - 1, best.power))
                if sibling.error >= best.error:
                    break
                best = sibling
            if best is not point:
                break
        return best

    def best_combination(self, point: KernelCandidate, partners: Sequence[KernelFamily]) -> KernelCandidate:
        """The best of a point, and of its kernel's sums and products with kernels of other families, in its metric.

        The partner of a sum is as wide as the kernel, or wider: it takes what varies slowly.
        """
        if point.family.unit() is None:
            return point
        kernel, found = point.family.make(point.length_scale), []
        for partner in partners:
            if partner.name == point.family.name:
                continue
            same, wide = self._widened(replace(point, family=partner), (point.power, point.power + _WIDER))
            for sign, other in (("+", same), ("+", wide), ("*", same)):
                second = partner.make(other.length_scale)
                family = combination(point.family, partner, sign, kernel + second if sign == "+" else kernel * second)
                found.append(replace(point, family=family, length_scale=None, result=None))
        best = min(self.evaluate(found), key=lambda p: p.error)
        return best if best.error <= (1 - GAIN) * point.error else point


def unfolded(point: KernelCandidate) -> KernelCandidate:
    """A point with the mean of its metrics in every fold, to be evaluated."""
    return replace(point, roots=(point.root,) * len(point.roots), result=None)
