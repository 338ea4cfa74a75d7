"""One rung of a search. It compares kernels and their metrics on the same rows, with maps of the same width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from phimap.kernels import StationaryKernel
from phimap.learn.search.families import KernelFamily, combination, median_length_scale
from phimap.learn.search.log import TrialEntry, TrialLog
from phimap.learn.search.metric import gradient_factor, mean_root, power_of_root, root_of, tied
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.trial import FIRST_ALPHA, TrialResult, rooted, run_trial
from phimap.ops import run_tasks

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Base of the length scales: each length scale is the median distance times a power of this base.
STEP = 2.0
#: Exponents of the length scales that are tried first.
FIRST_POWERS = (-1, 0, 1)
# Largest absolute value of the exponent of a length scale.
_MOST_POWER = 6
#: A further step to a larger or smaller length scale follows only if the last step lowered the error by this share.
GAIN = 0.01
# No further length scales are tried for a kernel if its least error at the first length scales exceeds this multiple of
# the error of a rival.
_FAR = 1.25
# In a sum of kernels, the length scale of the second kernel is tried with the exponent of the first kernel, and with
# this number added to the exponent.
_WIDER = 2
# Power to which a metric is raised to bring it closer to the identity.
_TEMPERED = 0.5
# Number of rows from which the median distance is computed.
_MEDIAN_ROWS = 500


@dataclass(frozen=True)
class KernelCandidate:
    """A kernel, its metric, and its held-out error.

    Attributes
    ----------
    family : KernelFamily
    metric : {"none", "diagonal", "full"}
        Kind of the metric.
    power : int
        Exponent p of the length scale, which is the median distance times 2^p.
    length_scale : float or None
        The length scale; None for a kernel that has none.
    roots : tuple of ndarray or None
        Root of the metric in each fold.
    alpha : int
        Index in `ALPHAS` of the best regularisation in the last trial.
    result : TrialResult or None
        The result of the trial; None before the trial.
    """

    family: KernelFamily
    metric: str
    power: int
    length_scale: float | None
    roots: tuple[np.ndarray | None, ...]
    alpha: int = FIRST_ALPHA
    result: TrialResult | None = None

    @classmethod
    def start(cls, family: KernelFamily, rung: Rung) -> KernelCandidate:
        """Create the candidate of a family without a metric, before its trial."""
        return cls(family, "none", 0, None, (None,) * len(rung.sample.folds()))

    @property
    def root(self) -> np.ndarray | None:
        """Root of the mean over the folds of their metrics."""
        roots = [root for root in self.roots if root is not None]
        return mean_root(roots) if roots else None

    @property
    def error(self) -> float:
        """Held-out error; infinite before the trial."""
        return np.inf if self.result is None else self.result.error

    def of_family(self, family: KernelFamily) -> KernelCandidate:
        """Return the candidate before a trial, with the kernel of another family."""
        return replace(self, family=family, result=None)


def least_error(candidates: Sequence[KernelCandidate]) -> KernelCandidate:
    """The candidate of least error; if several have the same error, the first of them."""
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
        Threads; the results do not depend on them.
    log : TrialLog
        Receives every trial.
    medians : dict
        Cache of median distances, by kernel and metric. Rungs of the same rows share it.
    """

    sample: SearchSample
    n_components: int
    seed: int
    n_jobs: int | None
    log: TrialLog
    medians: dict[tuple[str, bytes], float] = field(default_factory=dict)

    def evaluate(self, candidates: Sequence[KernelCandidate]) -> list[KernelCandidate]:
        """Run the trials of candidates in parallel, and return the candidates with their results.

        After the time limit, candidates are returned unchanged.
        """
        if self.log.is_over():
            return list(candidates)

        def run(candidate: KernelCandidate) -> KernelCandidate:
            width = min(self.n_components, self.sample.n_learned)
            family, kernel = candidate.family, candidate.family.make(candidate.length_scale)
            result = run_trial(
                lambda: family.trial_features(kernel, width, self.seed, self.n_jobs),
                candidate.roots,
                self.sample,
                candidate.alpha,
                self.n_jobs,
            )
            return replace(candidate, result=result, alpha=result.alpha)

        done = run_tasks(run, candidates, self.n_jobs)
        for one in done:
            scale = np.nan if one.length_scale is None else one.length_scale
            size = self.n_components, self.sample.n_rows
            self.log.entries.append(
                TrialEntry(one.family.name, one.metric, int(one.metric != "none"), scale, *size, one.error)
            )
        return done

    def at_once(self, task: Callable[[Rung, Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return ``task(rung, item)`` for each item. The tasks run in parallel; each has a log of its own."""
        logs = self.log.branches(len(items))
        rungs = [replace(self, log=log) for log in logs]
        done = run_tasks(lambda index: task(rungs[index], items[index]), range(len(items)), self.n_jobs)
        self.log.join(logs)
        return done

    def at_widths(self, candidate: KernelCandidate, powers: Sequence[int]) -> list[KernelCandidate]:
        """Run trials of a kernel at several length scales, or one trial if its length scale is fixed or missing."""
        return self.evaluate(self._at_scales(candidate, powers))

    def _at_scales(self, candidate: KernelCandidate, powers: Sequence[int]) -> list[KernelCandidate]:
        unit = candidate.family.unit()
        if unit is None:
            return [candidate]
        median = self.median_distance(unit, candidate.roots[0])
        powers = (0,) if candidate.family.fixed else powers
        scales = [(power, median * STEP**power) for power in powers]
        return [replace(candidate, power=power, length_scale=scale, result=None) for power, scale in scales]

    def median_distance(self, unit: StationaryKernel, root: np.ndarray | None) -> float:
        """The median of the kernel's distance between rows that are multiplied by `root`."""
        key = repr(unit), b"" if root is None else root.tobytes()
        if key not in self.medians:
            rows = rooted(self.sample.X[:_MEDIAN_ROWS], root)
            self.medians[key] = median_length_scale(rows, unit, self.sample.weights[:_MEDIAN_ROWS])
        return self.medians[key]

    def best_width(self, candidate: KernelCandidate, powers: Sequence[int]) -> KernelCandidate:
        """Find the best length scale: try `powers`, then neighbours of the best one while the error falls."""
        return self.climb(self.at_widths(candidate, powers))

    def rival_width(
        self, candidate: KernelCandidate, powers: Sequence[int], error: float, far: float = _FAR
    ) -> KernelCandidate:
        """As `best_width`, but try only `powers` if their least error is over `far` times `error`, a rival's error."""
        tried = self.at_widths(candidate, powers)
        best = least_error(tried)
        return best if best.error > far * error else self.climb(tried)

    def climb(self, candidates: Sequence[KernelCandidate], steps: Sequence[int] = (-1, 1)) -> KernelCandidate:
        """Find the best length scale, given trials at several: try neighbours of the best while the error falls.

        `steps` leads from an exponent to its neighbours.
        """
        tried, best = {candidate.power for candidate in candidates}, least_error(candidates)
        while best.family.has_width and not best.family.fixed:
            beside = [best.power + step for step in steps]
            beside = [power for power in beside if power not in tried and abs(power) <= _MOST_POWER]
            if not beside:
                break
            tried.update(beside)
            before = best.error
            best = least_error([best, *self.at_widths(best, beside)])
            if best.error > (1 - GAIN) * before:
                break
        return best

    def tempered(self, candidate: KernelCandidate, rounds: int) -> KernelCandidate:
        """Return the candidate, or a better candidate whose metric was refined from a metric closer to the identity.

        A direction of almost zero weight has an almost zero gradient, so gradients cannot restore its weight.
        """
        roots = tuple(power_of_root(root, _TEMPERED) for root in candidate.roots if root is not None)
        moved = replace(candidate, roots=roots, result=None)
        moved = self.best_width(moved, (candidate.power - 1, candidate.power))
        refined = self.refine_metric(moved, rounds, _TEMPERED) if moved.error < candidate.error else moved
        return least_error([candidate, refined])

    def refine_metric(self, candidate: KernelCandidate, rounds: int, exponent: float = 1.0) -> KernelCandidate:
        """Refine the metric by the gradients of the fits, at most `rounds` times, while the error falls.

        The metric of the gradients, raised to the power `exponent`, replaces the old metric.
        """
        best = candidate
        for _ in range(rounds):
            if best.result is None:
                break
            current = self.evaluate([replace(best, roots=self._roots_from_gradients(best, exponent), result=None)])[0]
            gained = current.error <= (1 - GAIN) * best.error
            best = least_error([best, current])
            if not gained:
                break
        return best

    def _roots_from_gradients(self, candidate: KernelCandidate, exponent: float) -> tuple[np.ndarray, ...]:
        """Return the root of each fold's metric.

        The metric is the mean outer product of the gradients of the fold's fit.
        """
        assert candidate.result is not None

        def root(fold: tuple) -> np.ndarray:
            fit, before, (training, _) = fold
            factor = gradient_factor(fit, self.sample.X[training], before, self.n_jobs)
            if candidate.metric == "diagonal" and self.sample.parts is not None:
                factor = tied(factor, self.sample.parts)
            return root_of(factor, candidate.metric, exponent)

        folds = zip(candidate.result.fits, candidate.roots, self.sample.folds(), strict=True)
        return tuple(run_tasks(root, list(folds), self.n_jobs))

    def with_siblings(self, candidate: KernelCandidate) -> list[KernelCandidate]:
        """Return a kernel and the siblings that were tried, each at its best length scale.

        The families of a ladder are tried in order while the error falls. Ladders are tried until one has lowered the
        error.
        """
        tried, best = [candidate], candidate
        for ladder in candidate.family.siblings:
            for family in ladder.families:
                sibling = self.rival_width(best.of_family(family), (best.power, best.power + ladder.step), best.error)
                tried.append(sibling)
                if sibling.error >= best.error:
                    break
                best = sibling
            if best is not candidate:
                break
        return tried

    def best_combination(self, candidate: KernelCandidate, partners: Sequence[KernelFamily]) -> KernelCandidate:
        """Return the best of a kernel and its sums and products with kernels of other families.

        All of them use the metric of the candidate. The second kernel of a sum has the length scale of the candidate,
        or a larger one to fit the slowly varying part of the target.
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
