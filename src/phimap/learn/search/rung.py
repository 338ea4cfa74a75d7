"""One rung of a search: kernels with their metrics, compared on the same rows with maps of the same width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from phimap.learn.search.families import KernelFamily, combination, median_length_scale
from phimap.learn.search.log import TrialEntry, TrialLog
from phimap.learn.search.metric import gradient_factor, mean_root, root_of, tempered_root, tied
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.trial import FIRST_ALPHA, TrialResult, rooted, run_trial
from phimap.ops import run_tasks

# Length scales are the median distance times a power of this.
_STEP = 2.0
#: Powers that are tried first.
FIRST_POWERS = (-1, 0, 1)
# The largest power, to either side.
_MOST_POWER = 6
#: A further round of the metric, or a further step of the width, follows if the error fell by this share.
GAIN = 0.01
# In a sum of two kernels the second one may be wider by this power.
_WIDER = 2
#: Exponent that takes a metric closer to the identity.
TEMPERED = 0.5
# Rows for the median distance.
_MEDIAN_ROWS = 500


@dataclass(frozen=True)
class KernelCandidate:
    """A kernel with its metric, and its held-out error.

    Attributes
    ----------
    family : KernelFamily
    metric : {"none", "diagonal", "full"}
        Kind of metric that is learned from here.
    round : int
        How often the metric has been learned anew; 0 is the identity.
    power : int
        The length scale is the median distance times 2 to this power.
    length_scale : float or None
        None for a kernel without one.
    roots : tuple of ndarray or None
        Root of the metric in each fold.
    exponent : float
        Power of every metric that is learned from here.
    alpha : int
        Index of the best regularisation in the last trial.
    result : TrialResult or None
        None before the trial.
    """

    family: KernelFamily
    metric: str
    round: int
    power: int
    length_scale: float | None
    roots: tuple[np.ndarray | None, ...]
    exponent: float = 1.0
    alpha: int = FIRST_ALPHA
    result: TrialResult | None = None

    @classmethod
    def start(cls, family: KernelFamily, rung: Rung) -> KernelCandidate:
        """The kernel of a family without a metric, before its trial."""
        return cls(family, "none", 0, 0, None, (None,) * len(rung.sample.folds()))

    @property
    def root(self) -> np.ndarray | None:
        """Root of the mean metric over folds."""
        roots = [root for root in self.roots if root is not None]
        return mean_root(roots) if roots else None

    @property
    def error(self) -> float:
        """Held-out error; infinite before the trial."""
        return np.inf if self.result is None else self.result.error

    def with_mean_metric(self) -> KernelCandidate:
        """The candidate before a trial, with its mean metric in every fold."""
        return replace(self, roots=(self.root,) * len(self.roots), result=None)

    def of_family(self, family: KernelFamily) -> KernelCandidate:
        """The candidate before a trial, with the kernel of another family."""
        return replace(self, family=family, result=None)


def least_error(candidates: Sequence[KernelCandidate]) -> KernelCandidate:
    """The candidate of least error; the first of equal ones."""
    return min(candidates, key=lambda candidate: candidate.error)


@dataclass(frozen=True)
class Rung:
    """Trials of kernels on the same rows with maps of the same width.

    Attributes
    ----------
    sample : SearchSample
    n_components, seed : int
        Width and seed of the maps.
    n_jobs : int or None
        Changes no bit.
    log : TrialLog
        Receives every trial.
    """

    sample: SearchSample
    n_components: int
    seed: int
    n_jobs: int | None
    log: TrialLog

    def evaluate(self, candidates: Sequence[KernelCandidate]) -> list[KernelCandidate]:
        """Candidates with the results of their trials, which run in parallel."""

        def run(candidate: KernelCandidate) -> KernelCandidate:
            width = min(self.n_components, self.sample.n_learned)
            family, kernel = candidate.family, candidate.family.make(candidate.length_scale)
            result = run_trial(
                lambda: family.features(kernel, width, self.seed, self.n_jobs),
                candidate.roots,
                self.sample,
                candidate.alpha,
                self.n_jobs,
            )
            return replace(candidate, result=result, alpha=result.alpha)

        done = run_tasks(run, candidates, self.n_jobs)
        for one in done:
            metric = one.metric if one.round else "none"
            scale = np.nan if one.length_scale is None else one.length_scale
            size = self.n_components, self.sample.n_rows
            self.log.entries.append(TrialEntry(one.family.name, metric, one.round, scale, *size, one.error))
        return done

    def at_widths(self, candidate: KernelCandidate, powers: Sequence[int]) -> list[KernelCandidate]:
        """Trials of a kernel at several length scales; one trial if its length scale is fixed or missing."""
        return self.evaluate(self._at_scales(candidate, powers))

    def _at_scales(self, candidate: KernelCandidate, powers: Sequence[int]) -> list[KernelCandidate]:
        unit = candidate.family.unit()
        if unit is None:
            return [candidate]
        rows = rooted(self.sample.X[:_MEDIAN_ROWS], candidate.roots[0])
        median = median_length_scale(rows, unit, self.sample.weights[:_MEDIAN_ROWS])
        powers = (0,) if candidate.family.fixed else powers
        return [replace(candidate, power=power, length_scale=median * _STEP**power) for power in powers]

    def best_width(self, candidate: KernelCandidate, powers: Sequence[int]) -> KernelCandidate:
        """The best length scale: `powers` are tried, then the neighbours of the best while the error falls."""
        return self.climb(self.at_widths(candidate, powers))

    def climb(self, candidates: Sequence[KernelCandidate]) -> KernelCandidate:
        """The best length scale: from trials at several, the neighbours of the best are tried while the error falls."""
        tried, best = {candidate.power for candidate in candidates}, least_error(candidates)
        while best.family.has_width and not best.family.fixed:
            beside = [p for p in (best.power - 1, best.power + 1) if p not in tried and abs(p) <= _MOST_POWER]
            if not beside:
                break
            tried.update(beside)
            before = best.error
            best = least_error([best, *self.at_widths(best, beside)])
            if best.error > (1 - GAIN) * before:
                break
        return best

    def learn_metrics(self, start: KernelCandidate, rounds: int) -> list[KernelCandidate]:
        """From a kernel without a metric, the best candidate with each kind of metric that its family may learn."""
        return [self.learn_metric(replace(start, metric=kind), rounds) for kind in start.family.metrics]

    def learn_metric(self, candidate: KernelCandidate, rounds: int) -> KernelCandidate:
        """Learn the metric anew, round by round while the error falls; the best of all rounds."""
        best = current = candidate
        for _ in range(rounds):
            family = current.family.next or current.family
            moved = replace(
                current.of_family(family), round=current.round + 1, roots=self._roots_from_gradients(current)
            )
            if family is not current.family:
                current = self.best_width(moved, FIRST_POWERS)
            elif current.round == 0:
                current = self.best_width(moved, (current.power - 1, current.power))
            else:
                # The width, in units of the median distance, hardly moves after the first metric.
                current = self.at_widths(moved, (current.power,))[0]
            gained = current.error <= (1 - GAIN) * best.error
            best = least_error([best, current])
            if not gained:
                break
        return best

    def _roots_from_gradients(self, candidate: KernelCandidate) -> tuple[np.ndarray, ...]:
        """Roots of the metric in each fold: the mean outer product of the gradients of that fold's fit."""
        assert candidate.result is not None

        def root(fold: tuple) -> np.ndarray:
            fit, before, (training, _) = fold
            factor = gradient_factor(fit, self.sample.X[training], before)
            if candidate.metric == "diagonal" and self.sample.parts is not None:
                factor = tied(factor, self.sample.parts)
            return root_of(factor, candidate.metric, candidate.exponent)

        folds = zip(candidate.result.fits, candidate.roots, self.sample.folds(), strict=True)
        return tuple(run_tasks(root, list(folds), self.n_jobs))

    def tempered(self, candidate: KernelCandidate, rounds: int) -> KernelCandidate:
        """The candidate, or a better one that starts from a metric closer to the identity.

        A direction of almost no weight has almost no gradient, so that further rounds do not restore it.
        """
        roots = tuple(tempered_root(root, TEMPERED) for root in candidate.roots if root is not None)
        moved = replace(candidate, roots=roots, exponent=TEMPERED, result=None)
        power = candidate.power
        moved = self.best_sibling(self.best_width(moved, (power - 1, power, power + 1)))
        return self.learn_metric(moved, rounds) if moved.error <= (1 - GAIN) * candidate.error else candidate

    def best_sibling(self, candidate: KernelCandidate) -> KernelCandidate:
        """The best of a kernel and its siblings; of each ladder the steps are tried while the error falls."""
        best = candidate
        for ladder in candidate.family.siblings:
            for family in ladder:
                sibling = self.best_width(best.of_family(family), (best.power - 1, best.power))
                if sibling.error >= best.error:
                    break
                best = sibling
            if best is not candidate:
                break
        return best

    def best_combination(self, candidate: KernelCandidate, partners: Sequence[KernelFamily]) -> KernelCandidate:
        """The best of a kernel and its sums and products with kernels of other families, all with its metric.

        The partner in a sum has the same width or a larger one, for the part of the target that varies slowly.
        """
        if candidate.family.unit() is None:
            return candidate
        kernel, combined = candidate.family.make(candidate.length_scale), []
        for partner in partners:
            if partner.name == candidate.family.name:
                continue
            powers = candidate.power, candidate.power + _WIDER
            same, wide = self._at_scales(replace(candidate, family=partner), powers)
            for sign, other in (("+", same), ("+", wide), ("*", same)):
                second = partner.make(other.length_scale)
                whole = kernel + second if sign == "+" else kernel * second
                family = combination(candidate.family, partner, sign, whole)
                combined.append(replace(candidate.of_family(family), length_scale=None))
        best = least_error(self.evaluate(combined))
        return best if best.error <= (1 - GAIN) * candidate.error else candidate
