"""The search for a kernel, its width and its metric, by held-out errors of small maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from phimap.kernels import Kernel
from phimap.learn.search.effort import Effort
from phimap.learn.search.families import LEAST_COLUMNS_OF_ADDITIVE, KernelFamily, landmarks, partners, random_features
from phimap.learn.search.gradient import MetricLearner, learn_together
from phimap.learn.search.log import SearchLog, TrialLog
from phimap.learn.search.metric import MOST_COLUMNS_OF_FULL, gradient_factor, power_of_root, root_of, tied
from phimap.learn.search.rung import FIRST_POWERS, GAIN, STEP, KernelCandidate, Rung, least_error
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.trial import ALPHAS, FIRST_ALPHA
from phimap.ops import run_tasks

# Exponents of the length scales of a kernel with a learned metric. Under such a metric, few columns dominate the
# distances, so the best length scale is larger than without a metric.
_POWERS_WITH_METRIC = (0, 1)
# Largest exponent of the length scale with which the learning of metrics starts.
_MOST_POWER = 1
# A kernel explains next to nothing if its error exceeds this share of the variance of the targets.
_BLIND = 0.8
# Candidates with any kind of metric reach the second rung if their error is at most this multiple of the least error.
_RIVAL = 1.03
# The best candidates with each kind of metric also reach the second rung, but only if their error is at most this
# multiple of the least error.
_HOPELESS = 1.5
# Candidates reach the third rung if their error is at most this multiple of the least error.
_CLOSE = 1.02
# At the last rung, the next smaller length scale is taken if the error of the trial rises by at most this share.
_LOSS = 0.005
#: Random features replace landmarks if their error is at most this multiple of the error of landmarks.
TOLERANCE = 1.01
# Random features are tried only if the error is at least this share of the variance of the targets. Landmarks
# approximate a kernel better, which shows where there is little noise.
_NOISY = 0.2
# The width and the metric of a candidate are improved at the second rung if its error is at most this multiple of the
# least error.
_NEAR = 1.05
# Least number of rows on which a metric is learned. On fewer rows it would be fitted to noise.
_LEAST_ROWS_OF_METRIC = 80
# Largest number of rows for which a metric closer to the identity is tried. On more rows, the stages of learning have
# enough new rows: such a metric lowered the error of none of twelve larger tables, which are not among the reported.
_MOST_TEMPERED_ROWS = 1000
# At the last rung, a metric is refined in one more round with twice as many features, if its refinement lowered the
# error by the share `_REFINED`, and the features lower it by `_STEEP`. On kin40k, the first round has most of the gain.
_REFINED, _STEEP = 0.03, 0.1
# Power to which the first metric of an additive model is raised. The result is closer to the identity, so that columns
# that the additive model has missed keep some weight.
_TEMPERED = 0.5
# Number of landmarks of the additive model. Its kernel has a term for each pair of columns, and fewer landmarks would
# represent only few of these terms.
_ADDITIVE_LANDMARKS = 1280


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
    scaling : int
        Index of the chosen sample among the samples of the search.
    alpha : int
        Index of the best regularisation in the last trial.
    errors : dict of int to float
        Held-out errors of the kernel by number of features, at the rows of the last rung; empty if nothing was
        searched.
    """

    kernel: Kernel
    family: KernelFamily
    root: np.ndarray | None
    log: SearchLog | None
    scaling: int = 0
    alpha: int = FIRST_ALPHA
    errors: dict[int, float] = field(default_factory=dict)


def search(
    families: Sequence[KernelFamily],
    samples: Sequence[SearchSample],
    effort: Effort,
    *,
    seed: int,
    n_jobs: int | None,
    log: TrialLog,
) -> SearchResult:
    """Choose a family, its width, a metric and one of several scalings of the rows.

    Parameters
    ----------
    families : sequence of KernelFamily
    samples : sequence of SearchSample
        Standardised rows in random order. There is one sample for each scaling, with all or some of the columns. The
        first sample is chosen unless another one lowers the error by 1 %.
    effort : Effort
    seed : int
        Seed of the maps. All length scales are tried with the same draw.
    n_jobs : int or None
        Number of parallel trials; the result does not depend on it.
    log : TrialLog
        Receives every trial.

    Returns
    -------
    SearchResult

    Notes
    -----
    At the first rung, which may be the only one, every family chooses its width. Then metrics are learned by gradients,
    one of each kind, and every family is tried with them. The best candidates of each kind of metric reach the second
    rung, which has wider maps and more rows. There the best candidate may change its width, or a sibling may replace
    it. The third rung compares the best candidate with candidates of similar error, unless the error hardly fell from
    the first rung to the second. If there are few rows, there is no third rung, and the second rung has the same rows
    as the first. The second rung is then omitted if every training row is already a landmark at the first. At the last
    rung, a smaller length scale is taken if the error hardly rises. At the third rung the metric is refined, and where
    that lowers the error clearly, once more with twice as many features.

    **Cost.** See `run_trial` and `FourierLoss`.
    """
    sizes = list(zip(effort.n_components, effort.n_rows, strict=True))
    if samples[0].n_rows <= effort.n_rows[0]:
        # The second rung has wider maps on the same rows. It is omitted if every training row was a landmark at
        # the first rung.
        sizes = sizes[: 1 + (samples[0].n_learned > effort.n_components[0])]
    of_scalings = []
    for sample in samples:
        start = Rung(sample, 0, seed, n_jobs, log)
        of_scalings.append([replace(start, sample=sample.first(n_rows), n_components=width) for width, n_rows in sizes])
    if of_scalings[0][-1].sample.n_learned < _LEAST_ROWS_OF_METRIC:
        families = [replace(family, metrics=()) for family in families]
    scaling, starts = _first_widths(families, [rungs[0] for rungs in of_scalings])
    rungs = of_scalings[scaling]
    if rungs[0].sample.X.shape[1] < LEAST_COLUMNS_OF_ADDITIVE:
        families = [family for family in families if not family.is_additive]
    first, second = rungs[0], rungs[min(1, len(rungs) - 1)]
    candidates = [*starts, *_with_metrics(families, starts, first, rungs[-1], effort)]
    before = least_error(candidates).error
    if second is not first:
        candidates = second.evaluate(_survivors(candidates, effort.survivors))
    rival = least_error(candidates).error
    additive = [
        second.rival_width(KernelCandidate.start(one, second), (0,), rival, _NEAR)
        for one in families
        if one.is_additive
    ]
    everyone = [*candidates, *additive]
    # Additive kernels are not improved: their widths have just been chosen at this rung, and they learn no metric.
    candidates = [*second.at_once(lambda rung, one: _improved(one, everyone, rung, effort), candidates), *additive]
    siblings = second.with_siblings(least_error(candidates))
    best = least_error(siblings)
    rivals = [one for one in (*candidates, *siblings[1:]) if one.family is not best.family or one.metric != best.metric]
    if best.metric != "none" and rungs[-1].sample.n_rows <= _MOST_TEMPERED_ROWS:
        best = second.tempered(best, effort.rounds)
    if samples[0].n_rows > second.sample.n_rows:
        best = _with_fewest_flops(best, second)
    last = second
    if len(rungs) > 2 and best.error <= (1 - effort.least_fall) * before:
        last = rungs[2]
        close = [one for one in rivals if one.error <= _CLOSE * best.error]
        best = least_error(last.evaluate([best, *close]))
    best = _narrower(best, last)
    errors = {last.n_components: best.error}
    if last is not second and best.metric != "none":
        best, errors = _refined(best, last, effort)
    if effort.combines and len(families) > 1:
        best = rungs[-1].best_combination(best, partners())
        errors = {rungs[-1].n_components: best.error}
    kernel = best.family.make(best.length_scale)
    return SearchResult(kernel, best.family, best.root, log.record(), scaling, best.alpha, errors)


def _with_fewest_flops(candidate: KernelCandidate, rung: Rung) -> KernelCandidate:
    """Replace the landmarks of a candidate by random features, if its error is then at most 1 % larger."""
    if candidate.family.features is not landmarks or candidate.error < _NOISY:
        return candidate
    other = rung.evaluate([with_random_features(candidate)])[0]
    return other if other.error <= TOLERANCE * candidate.error else candidate


def with_random_features(candidate: KernelCandidate) -> KernelCandidate:
    """Return a new candidate with random features of the same kernel, before its trial."""
    return candidate.of_family(replace(candidate.family, features=random_features))


def _first_widths(families: Sequence[KernelFamily], rungs: Sequence[Rung]) -> tuple[int, list[KernelCandidate]]:
    """Return the index of the best scaling, and the families at their best widths in it, without a metric.

    Additive families are omitted, because small maps miss most of their terms. The first scaling is tried with all
    widths, and other scalings only with the best widths of the first.
    """
    others = [family for family in families if not family.is_additive] or families
    starts = rungs[0].at_once(
        lambda rung, family: rung.best_width(KernelCandidate.start(family, rung), FIRST_POWERS), others
    )
    chosen, best = 0, starts
    for index, rung in enumerate(rungs[1:], 1):
        scaled = rung.at_once(lambda rung, one: rung.at_widths(one, (one.power,))[0], starts)
        if least_error(scaled).error < (1 - GAIN) * least_error(best).error:
            chosen, best = index, scaled
    return chosen, best if chosen == 0 else rungs[chosen].at_once(lambda rung, one: rung.climb([one]), best)


def _with_metrics(
    families: Sequence[KernelFamily], starts: Sequence[KernelCandidate], first: Rung, last: Rung, effort: Effort
) -> list[KernelCandidate]:
    """Return new candidates: `starts` with each kind of metric of their families, at the best length scales."""
    kinds = list(dict.fromkeys(kind for one in starts for kind in one.family.metrics))
    if not kinds or not first.sample.learns_metric or first.log.is_over():
        return []
    roots = _first_roots(families, starts, first)
    able = [
        replace(one, metric=kind, roots=learned, result=None)
        for kind, learned in zip(kinds, _learned_roots(kinds, roots, starts, last, effort), strict=True)
        for one in starts
        if kind in one.family.metrics
    ]
    return first.at_once(lambda rung, one: rung.best_width(one, _POWERS_WITH_METRIC), able)


def _first_roots(
    families: Sequence[KernelFamily], starts: Sequence[KernelCandidate], rung: Rung
) -> Sequence[np.ndarray | None]:
    """Return for each fold the root of the diagonal metric at which the learning of metrics starts.

    None is the identity, the usual start. If the kernels of `starts` explain next to nothing, their gradients are
    noise. In this case an additive model with many landmarks is fitted, if `families` has an additive family. If this
    model explains more, its gradients give the start. Their metric is moved towards the identity: it would otherwise
    give almost no weight to columns that the additive model has missed, so that learning would hardly find them.
    """
    identity = starts[0].roots
    additive = next((family for family in families if family.is_additive), None)
    if additive is None or least_error(starts).error <= _BLIND:
        return identity
    rung = replace(rung, n_components=_ADDITIVE_LANDMARKS)
    start = KernelCandidate.start(replace(additive, features=landmarks), rung)
    start = rung.at_widths(start, (0,))[0]
    if start.error > _BLIND:
        return identity
    assert start.result is not None
    roots = []
    for fit, (training, _) in zip(start.result.fits, rung.sample.folds(), strict=True):
        factor = gradient_factor(fit, rung.sample.X[training], None, rung.n_jobs)
        factor = factor if rung.sample.parts is None else tied(factor, rung.sample.parts)
        roots.append(root_of(factor, "diagonal", _TEMPERED))
    return roots


def _learned_roots(
    kinds: Sequence[str],
    first_roots: Sequence[np.ndarray | None],
    starts: Sequence[KernelCandidate],
    rung: Rung,
    effort: Effort,
) -> list[tuple[np.ndarray, ...]]:
    """Return for each kind of metric the roots of all folds, learned on the training rows of the folds."""
    learners = [one for one in starts if one.family.metrics]
    leader = next((one for one in learners if one.family.is_isotropic), learners[0])
    # A wide kernel is nearly linear and has small gradients, so learning starts with a narrower kernel. The first steps
    # widen it.
    power = min(leader.power, _MOST_POWER) if leader.family.is_isotropic and first_roots[0] is None else 0
    assert leader.result is not None
    kernel, sample = leader.family.metric_kernel(), rung.sample
    fits = leader.result.fits

    def learner(kind: str, fold: int) -> MetricLearner:
        rows, d = sample.folds()[fold][0], sample.X.shape[1]
        root = first_roots[fold]
        if kind == "full":
            if d > MOST_COLUMNS_OF_FULL:
                root = root_of(gradient_factor(fits[fold], sample.X[rows], None, rung.n_jobs), kind)
            else:
                root = np.eye(d) if root is None else np.diag(root)
        root = np.ones(d) if root is None else root
        width = rung.median_distance(kernel, root) * STEP**power
        alpha = float(ALPHAS[leader.alpha])
        return MetricLearner(sample, rows, root / width, alpha, kernel, effort, seed=rung.seed, n_jobs=rung.n_jobs)

    def learn(fold: int) -> list[np.ndarray]:
        learners = [learner(kind, fold) for kind in kinds]
        learn_together(learners, effort.stages, rung.log.is_over, rung.n_jobs)
        return [power_of_root(one.root, 1.0) for one in learners]

    roots = run_tasks(learn, range(len(first_roots)), rung.n_jobs)
    return list(zip(*roots, strict=True))


def _improved(
    candidate: KernelCandidate, others: Sequence[KernelCandidate], rung: Rung, effort: Effort
) -> KernelCandidate:
    """Return the candidate with its best length scale and, if it has a metric, a refined metric.

    A candidate whose error exceeds the least error of `others` by more than 5 % is returned unchanged. Larger length
    scales are tried only for the best candidate, because they rarely lower the error of maps with more features.
    """
    leader = least_error(others)
    if candidate.error > _NEAR * leader.error:
        return candidate
    candidate = rung.climb([candidate], (-1, 1) if candidate is leader else (-1,))
    return candidate if candidate.metric == "none" else rung.refine_metric(candidate, effort.rounds)


def _refined(candidate: KernelCandidate, rung: Rung, effort: Effort) -> tuple[KernelCandidate, dict[int, float]]:
    """Return the candidate with a refined metric, and its error by number of features.

    The refinement may go on with twice as many features as the rung has. The errors are those before.
    """
    refined = rung.refine_metric(candidate, effort.rounds)
    errors, wide = {rung.n_components: refined.error}, replace(rung, n_components=2 * rung.n_components)
    if refined.error > (1 - _REFINED) * candidate.error or wide.n_components > effort.widest:
        return refined, errors
    (widened,) = wide.evaluate([refined])
    errors[wide.n_components] = widened.error
    if widened.error > (1 - _STEEP) * refined.error:
        return widened, errors
    # A metric that gains less may err more on other rows.
    further = wide.refine_metric(widened, 1)
    return further if further.error <= (1 - GAIN) * widened.error else widened, errors


def _narrower(candidate: KernelCandidate, rung: Rung) -> KernelCandidate:
    """Return the candidate with the next smaller length scale if its error is at most 0.5 % larger, else the candidate.

    The model has more rows and often more features than the trials, so it can fit faster changes. Besides, a model with
    a larger length scale continues its slopes farther, and may predict targets of any size for rows outside of the
    training rows.
    """
    if not candidate.family.has_width or candidate.family.fixed:
        return candidate
    narrower = rung.at_widths(candidate, (candidate.power - 1,))[0]
    return narrower if narrower.error <= (1 + _LOSS) * candidate.error else candidate


def _survivors(candidates: Sequence[KernelCandidate], of_each_kind: int) -> list[KernelCandidate]:
    """Return the candidates for the second rung: the best of each kind of metric, and others near the least error.

    The first rung can mislead about metrics. If the targets differ much between close rows, a metric lowers the error
    of small maps more than the error of wide maps. Therefore a kind of metric is dropped only if its error is far above
    the least error.
    """
    by_error = sorted(candidates, key=lambda one: one.error)
    by_error = [one for one in by_error if one.error <= _HOPELESS * by_error[0].error]
    seen = dict.fromkeys((one.metric for one in by_error), 0)
    chosen = []
    for one in by_error:
        seen[one.metric] += 1
        if seen[one.metric] <= of_each_kind or one.error <= _RIVAL * by_error[0].error:
            chosen.append(one)
    return chosen


def is_open(families: Sequence[KernelFamily]) -> bool:
    """Return whether a family, a metric or a length scale remains to be chosen."""
    first = families[0]
    return len(families) > 1 or bool(first.metrics) or (first.has_width and not first.fixed)
