"""The search for a kernel, its width and a metric, by held-out errors of small maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from phimap.kernels import Kernel
from phimap.learn.search.effort import Effort
from phimap.learn.search.families import KernelFamily, landmarks, partners, random_features
from phimap.learn.search.log import SearchLog, TrialLog
from phimap.learn.search.rung import FIRST_POWERS, GAIN, TEMPERED, KernelCandidate, Rung, least_error
from phimap.learn.search.sample import SearchSample

# A candidate whose error is more than this multiple of the least gets no metric.
_HOPELESS = 1.5
# A larger error, as a share of the variance of the targets, means that a kernel explains next to nothing.
_BLIND = 0.8
# Candidates whose errors are at most this multiple of the least are compared again at the last rung.
_RIVAL = 1.1
# The same for the best candidates of two kinds of metric and the comparison at the deciding width.
_NEAR = 1.25
#: Random features replace landmarks if their error is at most this multiple.
TOLERANCE = 1.01
# On fewer rows a metric would be fitted to noise.
_LEAST_ROWS_OF_METRIC = 80


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search.

    Attributes
    ----------
    kernel : Kernel
    family : KernelFamily
        Its `features` make the map of the kernel.
    root : ndarray of shape (d,) or (d, k), or None
        Root of the metric.
    log : SearchLog or None
        None where nothing was searched.
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
        Seed of the maps, which are the same draw for all widths.
    n_jobs : int or None
        Trials in parallel; changes no bit.
    most_components : int
        Largest width of the final map.
    log : TrialLog
        Receives every trial; it may hold earlier ones.

    Returns
    -------
    SearchResult

    Notes
    -----
    At the first rung every family chooses its width and learns each kind of metric. The best go on to the second rung,
    with wider maps and more rows. The last rung compares the rivals of the best again, and kernels without a metric,
    since small maps flatter a metric where targets change from row to row. The best is then improved: further rounds
    of its metric, other widths, siblings, and a metric closer to the identity, see `Rung.tempered`. Its error is
    compared with those of the other kinds of metric at the deciding width, because small maps cannot follow a fast
    change and take it for noise. If the rows are few, the first rung is also the last.

    **Cost.** About 6 trials a candidate and rung, see `run_trial`.
    """
    sizes = list(zip(effort.n_components, effort.n_rows, strict=True))
    sizes = sizes[:1] if sample.n_rows <= effort.n_rows[0] else sizes
    rungs = [Rung(sample.first(n_rows), width, seed, n_jobs, log) for width, n_rows in sizes]
    first, middle, last, rounds = rungs[0], rungs[len(rungs) // 2], rungs[-1], effort.rounds
    if first.sample.n_learned < _LEAST_ROWS_OF_METRIC:
        families = [replace(family, metrics=()) for family in families]

    candidates = [one for family in families if not family.next for one in _first_rung(family, first, rounds)]
    detours = [_detour(family, candidates, rungs, rounds) for family in families if family.next]
    finalists = [start for starts, _ in detours for start in starts]
    detoured = [one for _, learned in detours for one in learned]
    if last is first:
        finalists += _rivals([*detoured, *candidates])
    else:
        rivals = _second_rung(candidates, detoured, middle, effort)
        plain = [one for one in candidates if one.metric == "none" and one.family.metrics]
        finalists += last.evaluate([one.with_mean_metric() for one in [*rivals, *plain]])

    best = least_error(finalists)
    if last is not first and best.metric != "none":
        best = last.learn_metric(best, rounds)
    best = last.best_sibling(last.climb([best]))
    if best.round:
        best = last.tempered(best, rounds)
    if last is not first and effort.deciding_width is not None and last.n_components < most_components:
        best = _best_at_deciding_width(best, finalists, last, effort.deciding_width)
    if effort.combines and len(families) > 1:
        best = last.best_combination(best, partners())
    family = best.family
    if family.features is landmarks:
        other = with_random_features(best)
        family = other.family if last.evaluate([other])[0].error <= TOLERANCE * best.error else family
    return SearchResult(family.make(best.length_scale), family, best.root, log.record())


def with_random_features(candidate: KernelCandidate) -> KernelCandidate:
    """A candidate before its trial, with random features of its kernel."""
    return candidate.of_family(replace(candidate.family, features=random_features))


def _first_rung(family: KernelFamily, rung: Rung, rounds: int) -> list[KernelCandidate]:
    """The kernel of a family at its best width without a metric, and with each kind of metric."""
    start = rung.best_width(KernelCandidate.start(family, rung), FIRST_POWERS)
    return [start, *rung.learn_metrics(start, rounds)]


def _detour(
    family: KernelFamily, others: Sequence[KernelCandidate], rungs: Sequence[Rung], rounds: int
) -> tuple[list[KernelCandidate], list[KernelCandidate]]:
    """The start of a family that learns a metric for another one, and the candidates with that metric.

    An additive kernel has as many terms as pairs of columns, of which small maps miss most: it starts at the last rung.
    If the kernels of the `others` explain next to nothing, it starts with every row as a landmark; that error is not
    comparable with those of smaller maps, so that the start is not a finalist.
    """
    first, middle, last = rungs[0], rungs[len(rungs) // 2], rungs[-1]
    if min((other.error for other in others), default=0.0) > _BLIND:
        start = _start_with_every_landmark(family, first)
        return [], [] if start is None else middle.learn_metrics(start, rounds)
    start = last.best_width(KernelCandidate.start(family, last), FIRST_POWERS)
    return [start], [] if _is_hopeless(start, others) else middle.learn_metrics(start, rounds)


def _start_with_every_landmark(family: KernelFamily, rung: Rung) -> KernelCandidate | None:
    """The kernel of a family at its best width with every row as a landmark; None if it explains next to nothing.

    Its metrics are tempered from the first round on: a sharp metric of the columns found first would hide the others.
    """
    rung = replace(rung, n_components=rung.sample.n_learned)
    start = rung.at_widths(KernelCandidate.start(replace(family, features=landmarks), rung), (0,))[0]
    if start.error > _BLIND:
        return None
    start = rung.climb([start])
    assert start.result is not None
    # Errors with so many landmarks are not comparable: infinite, so that the first learned metric replaces the start.
    return replace(start, exponent=TEMPERED, result=replace(start.result, error=np.inf))


def _second_rung(
    candidates: Sequence[KernelCandidate], others: Sequence[KernelCandidate], rung: Rung, effort: Effort
) -> list[KernelCandidate]:
    """The best `candidates` learn their metric anew; the best of these and of `others`, with its rivals."""
    tried = list(others)
    for candidate in sorted(candidates, key=lambda one: one.error)[: effort.survivors]:
        again = rung.at_widths(candidate.with_mean_metric(), (candidate.power,))[0]
        fixed = candidate.metric == "none" or _is_hopeless(again, tried)
        tried.append(again if fixed else rung.learn_metric(again, effort.rounds))
    best = least_error(tried)
    improved = rung.best_sibling(rung.climb([best]))
    return [*_rivals(tried), *([improved] if improved is not best else [])]


def _rivals(candidates: Sequence[KernelCandidate]) -> list[KernelCandidate]:
    """Candidates whose errors are near the least."""
    least = least_error(candidates).error
    return [one for one in candidates if one.error <= _RIVAL * least]


def _best_at_deciding_width(
    best: KernelCandidate, finalists: Sequence[KernelCandidate], rung: Rung, n_components: int
) -> KernelCandidate:
    """The best candidate, or that with another kind of metric if its error is less with wider maps."""
    worst_first = sorted(finalists, key=lambda one: -one.error)
    of_kind = {one.metric: one for one in worst_first if not one.family.next and one.metric != best.metric}
    near = [one for one in of_kind.values() if one.error <= _NEAR * best.error]
    if not near:
        return best
    wider = replace(rung, n_components=n_components).evaluate([replace(one, result=None) for one in (best, *near)])
    chosen = int(np.argmin([one.error for one in wider]))
    return best if chosen == 0 else rung.best_sibling(rung.climb([near[chosen - 1]]))


def _is_hopeless(candidate: KernelCandidate, others: Sequence[KernelCandidate]) -> bool:
    return any(candidate.error > _HOPELESS * other.error for other in others)


def best_scaling(
    families: Sequence[KernelFamily],
    samples: Sequence[SearchSample],
    effort: Effort,
    *,
    seed: int,
    n_jobs: int | None,
    log: TrialLog,
) -> int:
    """Index of the sample, of the same rows in other scales, on which kernels without a metric have the least error.

    Parameters
    ----------
    families, effort, seed, n_jobs
        As in `search`.
    samples : sequence of SearchSample
        The first is chosen unless another lowers the error by the share that a step of the search must gain.
    log : TrialLog
        Receives every trial.
    """
    errors = []
    for sample in samples:
        rung = Rung(sample.first(effort.n_rows[0]), effort.n_components[0], seed, n_jobs, log)
        starts = [KernelCandidate.start(family, rung) for family in families if not family.next]
        errors.append(min(rung.best_width(start, FIRST_POWERS).error for start in starts))
    best = int(np.argmin(errors))
    return best if errors[best] < (1 - GAIN) * errors[0] else 0


def is_open(families: Sequence[KernelFamily]) -> bool:
    """Whether anything remains to be chosen: a family, a metric or a width."""
    first = families[0]
    return len(families) > 1 or bool(first.metrics) or (first.has_width and not first.fixed)
