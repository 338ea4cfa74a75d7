"""The search for a kernel, its width and a metric, by held-out errors of small maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from phimap.kernels import Kernel
from phimap.learn.search.effort import Effort
from phimap.learn.search.families import KernelFamily, landmarks, partners, random_features
from phimap.learn.search.log import SearchLog, TrialLog
from phimap.learn.search.rung import FIRST_POWERS, GAIN, TEMPERED, KernelCandidate, Rung, unfolded
from phimap.learn.search.sample import SearchSample

# A path whose error is more than this multiple of the least is not followed.
_HOPELESS = 1.5
# An error above this share of the spread of the targets shows that a kernel sees next to nothing.
_BLIND = 0.8
# Paths whose errors are at most this multiple of the least are compared again at the last level.
_RIVAL = 1.1
# The best points of two kinds of metric are compared at the width that decides where their errors are that near.
_NEAR = 1.25
#: Random features are taken in place of landmarks where their error is at most this multiple.
TOLERANCE = 1.01
# With fewer rows than this a metric would be fitted to noise.
_LEAST_ROWS_OF_METRIC = 80


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes
    ----------
    kernel : Kernel
    family : KernelFamily
        Its features serve the kernel.
    root : ndarray of shape (d,) or (d, k), or None
        Root of the metric.
    log : SearchLog or None
        None where nothing was open.
    """

    kernel: Kernel
    family: KernelFamily
    root: np.ndarray | None
    log: SearchLog | None


def search(
    families: Sequence[KernelFamily],
    sample: SearchSample,
    effort: Effort,
    *,
    seed: int,
    n_jobs: int | None,
    most_components: int,
    log: TrialLog,
) -> SearchResult:
    """Choose a family, its width and a metric.

    Parameters
    ----------
    families : sequence of KernelFamily
    sample : SearchSample
        Standardised rows in random order.
    effort : Effort
    seed : int
        Of the maps, which are the same draw for all widths.
    n_jobs : int or None
        Trials side by side; changes no bit.
    most_components : int
        Features of the final map at the most.
    log : TrialLog
        Receives every trial; it may hold earlier ones.

    Returns
    -------
    SearchResult

    Notes
    -----
    A path is a family with a kind of metric. At the first level every path chooses its width and follows its metric.
    The best go on to the second level, with wider maps and more rows, from where they are. The last level compares
    what is left and goes on from the best. Widths and siblings of the best are tried at both, and at the last a metric
    that hides less, see `Rung.tempered`. Then the best of the other kinds of metric, none among them, are compared
    with it at twice the width, where they are near: what small maps cannot follow looks like noise to them.

    **Cost.** Some 6 trials a path and level, see `run_trial`.
    """
    levels = [
        Rung(sample.first(n_rows), n_components, seed, n_jobs, log)
        for n_components, n_rows in zip(effort.n_components, effort.n_rows, strict=True)
    ]
    if sample.n_rows <= effort.n_rows[0]:
        levels = levels[:1]
    first, middle, last = levels[0], levels[len(levels) // 2], levels[-1]
    learns = first.sample.n_learned >= _LEAST_ROWS_OF_METRIC

    def followed(level: Rung, start: KernelCandidate) -> list[KernelCandidate]:
        kinds = start.family.metrics if learns else ()
        return [level.follow(replace(start, kind=kind), effort.rounds) for kind in kinds]

    # Points by the level at which they were judged last.
    early: list[KernelCandidate] = []
    paths: list[KernelCandidate] = []
    final: list[KernelCandidate] = []
    for family in families:
        if not family.next:
            start = first.best_width(KernelCandidate.start(family, first), FIRST_POWERS)
            early += [start, *followed(first, start)]
            continue
        if min((point.error for point in early), default=0.0) > _BLIND:
            paths += [path for start in _seeing(family, first) for path in followed(middle, start)]
            continue
        # An additive kernel has as many terms as pairs of columns: smaller maps would miss more of them.
        start = last.best_width(KernelCandidate.start(family, last), FIRST_POWERS)
        final.append(start)
        if not _is_hopeless(start, early):
            paths += followed(middle, start)
    if middle is first:
        paths += early
    else:
        for path in sorted(early, key=lambda p: p.error)[: effort.survivors]:
            again = middle.at_widths(unfolded(path), (path.power,))[0]
            hopeless = path.kind == "none" or _is_hopeless(again, paths)
            paths.append(again if hopeless else middle.follow(again, effort.rounds))
    best = min(paths, key=lambda p: p.error)
    if last is not middle:
        polished = middle.best_sibling(middle.climb([best]))
        paths += [polished] if polished is not best else []
    rivals = [path for path in paths if path.error <= _RIVAL * best.error]
    # Where targets change from row to row, small maps flatter a metric: kernels without one come to the end, too.
    plain = [] if last is middle else [p for p in early if p.kind == "none" and p.family.metrics and p not in rivals]
    final += rivals if last is middle else last.evaluate([unfolded(path) for path in rivals + plain])
    best = min(final, key=lambda p: p.error)
    if last is not middle and best.kind != "none":
        best = last.follow(best, effort.rounds)
    best = last.best_sibling(last.climb([best]))
    if best.round:
        best = last.tempered(best, effort.rounds)
    if last is not middle and effort.decides is not None and last.n_components < most_components:
        best = _decided(best, final, last, effort.decides)
    if effort.combines and len(families) > 1:
        best = last.best_combination(best, partners())
    family = best.family
    if family.features is landmarks:
        other = replace(best, family=replace(family, features=random_features), result=None)
        if last.evaluate([other])[0].error <= TOLERANCE * best.error:
            family = other.family
    return SearchResult(family.make(best.length_scale), family, best.root, log.record())


def _seeing(family: KernelFamily, level: Rung) -> list[KernelCandidate]:
    """The start of a path where no other kernel sees anything; none if this one sees nothing, too.

    Every row is a landmark, since small maps miss most pairs of columns. Metrics are tempered from the first round on:
    what a sharp metric of the columns found first hides would be hard to find again.
    """
    level = replace(level, n_components=level.sample.n_learned)
    start = level.at_widths(KernelCandidate.start(replace(family, features=landmarks), level), (0,))[0]
    if start.error > _BLIND:
        return []
    start = level.climb([start])
    assert start.result is not None
    # With so many landmarks its error says nothing beside those of smaller maps.
    return [replace(start, exponent=TEMPERED, result=replace(start.result, error=np.inf))]


def _decided(best: KernelCandidate, others: Sequence[KernelCandidate], last: Rung, width: int) -> KernelCandidate:
    """The best point of a kind of metric, or that of another which is better with wider maps."""
    kinds = {point.kind: point for point in sorted(others, key=lambda p: -p.error) if not point.family.next}
    near = [point for kind, point in kinds.items() if kind != best.kind and point.error <= _NEAR * best.error]
    if not near:
        return best
    tried = replace(last, n_components=width).evaluate([replace(point, result=None) for point in (best, *near)])
    chosen = int(np.argmin([point.error for point in tried]))
    return best if chosen == 0 else last.best_sibling(last.climb([near[chosen - 1]]))


def _is_hopeless(point: KernelCandidate, others: Sequence[KernelCandidate]) -> bool:
    return any(point.error > _HOPELESS * other.error for other in others)


def best_scaling(
    families: Sequence[KernelFamily],
    samples: Sequence[SearchSample],
    effort: Effort,
    *,
    seed: int,
    n_jobs: int | None,
    log: TrialLog,
) -> int:
    """The place of the sample, of the same rows in other scales, on which a kernel without a metric errs least.

    Parameters
    ----------
    families, effort, seed, n_jobs
        As in `search`.
    samples : sequence of SearchSample
        The first of them is taken unless another is better by the share that a step of the search must gain.
    log : TrialLog
        Receives every trial.
    """
    errors = []
    for sample in samples:
        level = Rung(sample.first(effort.n_rows[0]), effort.n_components[0], seed, n_jobs, log)
        starts = [KernelCandidate.start(family, level) for family in families if not family.next]
        errors.append(min(level.best_width(start, FIRST_POWERS).error for start in starts))
    best = int(np.argmin(errors))
    return best if errors[best] < (1 - GAIN) * errors[0] else 0


def is_open(families: Sequence[KernelFamily]) -> bool:
    """Whether there is anything to choose."""
    first = families[0]
    return len(families) > 1 or bool(first.metrics) or (first.has_width and not first.fixed)
