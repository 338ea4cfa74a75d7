"""The search for a kernel, its width and its metric, by held-out errors of small maps."""

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

# Except at the first rung, the metric of a candidate is learned only if its error is at most this multiple of the least
# error so far.
_HOPELESS = 1.5
# Error, as a share of the variance of the targets, above which a kernel explains next to nothing.
_BLIND = 0.8
# A candidate is compared again at the last rung if its error is at most this multiple of the least error.
_RIVAL = 1.1
# The best candidate of another kind of metric is compared at the deciding width if its error is at most this multiple
# of the least error.
_NEAR = 1.25
#: Random features replace landmarks if their error is at most this multiple of the error of landmarks.
TOLERANCE = 1.01
# Least number of rows on which a metric is learned. On fewer rows it would be fitted to noise.
_LEAST_ROWS_OF_METRIC = 80


@dataclass(frozen=True)
class SearchResult:
    """The outcome of a search.

    Attributes
    ----------
    kernel : Kernel
    family : KernelFamily
        The family; its `features` make the map of the kernel.
    root : ndarray of shape (d,) or (d, k), or None
        Root of the metric.
    log : SearchLog or None
        The trials; None if nothing was searched.
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
    At the first rung every family chooses its width and learns each kind of metric. The best candidates go on to the
    second rung, with wider maps and more rows. The last rung compares the rivals of the best again. It also compares
    kernels without a metric, because small maps flatter a metric if targets change from row to row. The best candidate
    is then improved by further rounds of its metric, other widths, siblings, and a metric closer to the identity, see
    `Rung.tempered`. At the deciding width its error is compared with those of the other kinds of metric, because small
    maps cannot follow a fast change and take it for noise. If the rows are few, the first rung is also the last.

    **Cost.** About 6 trials for each candidate and rung, see `run_trial`.
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
    """Return a candidate before its trial, with random features of its kernel."""
    return candidate.of_family(replace(candidate.family, features=random_features))


def _first_rung(family: KernelFamily, rung: Rung, rounds: int) -> list[KernelCandidate]:
    """Return the candidates of a family at its best width: without a metric, and with each kind of metric."""
    start = rung.best_width(KernelCandidate.start(family, rung), FIRST_POWERS)
    return [start, *rung.learn_metrics(start, rounds)]


def _detour(
    family: KernelFamily, others: Sequence[KernelCandidate], rungs: Sequence[Rung], rounds: int
) -> tuple[list[KernelCandidate], list[KernelCandidate]]:
    """Return the start of a family that learns a metric for another family, and the candidates with this metric.

    An additive kernel has as many terms as there are pairs of columns. Small maps miss most of these terms, so its
    family starts at the last rung. If the kernels of the `others` explain next to nothing, the family starts with every
    row as a landmark. The error of this start is not comparable with those of smaller maps, so it is not a finalist.
    """
    first, middle, last = rungs[0], rungs[len(rungs) // 2], rungs[-1]
    if min((other.error for other in others), default=0.0) > _BLIND:
        start = _start_with_every_landmark(family, first)
        return [], [] if start is None else middle.learn_metrics(start, rounds)
    start = last.best_width(KernelCandidate.start(family, last), FIRST_POWERS)
    return [start], [] if _is_hopeless(start, others) else middle.learn_metrics(start, rounds)


def _start_with_every_landmark(family: KernelFamily, rung: Rung) -> KernelCandidate | None:
    """Return the start of a family with every row as a landmark; None if its kernel explains next to nothing.

    The start has the best width. Its metrics are tempered from the first round on, because a sharp metric of the
    columns found first would hide the other columns.
    """
    rung = replace(rung, n_components=rung.sample.n_learned)
    start = rung.at_widths(KernelCandidate.start(replace(family, features=landmarks), rung), (0,))[0]
    if start.error > _BLIND:
        return None
    start = rung.climb([start])
    assert start.result is not None
    # Errors with so many landmarks are not comparable. The error is set to infinity, so that the first learned metric
    # replaces the start.
    return replace(start, exponent=TEMPERED, result=replace(start.result, error=np.inf))


def _second_rung(
    candidates: Sequence[KernelCandidate], others: Sequence[KernelCandidate], rung: Rung, effort: Effort
) -> list[KernelCandidate]:
    """Let the best `candidates` learn their metric anew; return the rivals of the best among these and `others`.

    If another width or a sibling improves the best candidate, the result includes this improvement.
    """
    tried = list(others)
    for candidate in sorted(candidates, key=lambda one: one.error)[: effort.survivors]:
        again = rung.at_widths(candidate.with_mean_metric(), (candidate.power,))[0]
        fixed = candidate.metric == "none" or _is_hopeless(again, tried)
        tried.append(again if fixed else rung.learn_metric(again, effort.rounds))
    best = least_error(tried)
    improved = rung.best_sibling(rung.climb([best]))
    return [*_rivals(tried), *([improved] if improved is not best else [])]


def _rivals(candidates: Sequence[KernelCandidate]) -> list[KernelCandidate]:
    """Return the candidates whose errors are near the least error."""
    least = least_error(candidates).error
    return [one for one in candidates if one.error <= _RIVAL * least]


def _best_at_deciding_width(
    best: KernelCandidate, finalists: Sequence[KernelCandidate], rung: Rung, n_components: int
) -> KernelCandidate:
    """Return the best candidate, or one with another kind of metric if its error is less with wider maps."""
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
    """Choose among samples of the same rows in other scales; return the index of the sample with the least error.

    Parameters
    ----------
    families, effort, seed, n_jobs
        As in `search`.
    samples : sequence of SearchSample
        Samples of the same rows. The first is chosen unless another sample lowers the error by the share that a step of
        the search must gain. The errors are those of kernels without a metric.
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
    """Whether anything is left to choose: a family, a metric or a width."""
    first = families[0]
    return len(families) > 1 or bool(first.metrics) or (first.has_width and not first.fixed)
