"""The search for a kernel, its width and a metric, by held-out errors of small maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from phimap.kernels import Kernel
from phimap.learn.search.effort import Effort
from phimap.learn.search.families import Family, landmarks, random_features
from phimap.learn.search.length_scale import median_length_scale
from phimap.learn.search.metric import mean_outer_gradient, root_of
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.trial import FIRST_ALPHA, TrialResult, rooted, run_trial
from phimap.ops import run_tasks
from phimap.records import Record

# Widths of a kernel as multiples of the median distance are powers of this.
_STEP = 2.0
# Powers that are tried first, and how far the climb goes to either side.
_FIRST_POWERS = (-1, 0, 1)
_MOST_POWER = 6
# A round of the metric, or a step of the width, must lower the error by this share to be followed by another.
_GAIN = 0.01
# A path whose error is more than this multiple of the least is not followed.
_HOPELESS = 1.5
# Paths whose errors are at most this multiple of the least are compared again at the last level.
_RIVAL = 1.1
# The best points of two kinds of metric are compared at the width that decides where their errors are that near.
_NEAR = 1.25
# Random features are taken in place of landmarks where their error is at most this multiple.
_TOLERANCE = 1.01
# Rows on which the median distance is taken.
_MEDIAN_ROWS = 500
# With fewer rows than this a metric would be fitted to noise.
_LEAST_ROWS_OF_METRIC = 80


@dataclass(frozen=True)
class SearchLog(Record):
    """What was tried, in order: one entry a trial.

    Attributes
    ----------
    kernels, metrics : tuple of str
        Family, and the kind of metric: ``"none"``, ``"diagonal"`` or ``"full"``.
    rounds : ndarray of int, shape (n_trials,)
        Rounds of the metric that led there.
    length_scales : ndarray of shape (n_trials,)
        NaN where a kernel has no width.
    n_components, n_rows : ndarray of int, shape (n_trials,)
    errors : ndarray of shape (n_trials,)
        Mean squared held-out errors, in shares of the spread of the targets.
    """

    kernels: tuple[str, ...]
    metrics: tuple[str, ...]
    rounds: np.ndarray
    length_scales: np.ndarray
    n_components: np.ndarray
    n_rows: np.ndarray
    errors: np.ndarray


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes
    ----------
    kernel : Kernel
    family : Family
        Its features serve the kernel.
    root : ndarray of shape (d,) or (d, d), or None
        Root of the metric.
    log : SearchLog or None
        None where nothing was open.
    """

    kernel: Kernel
    family: Family
    root: np.ndarray | None
    log: SearchLog | None


@dataclass(frozen=True)
class _Point:
    """A kernel of a family with its metric in each fold, and what it was worth."""

    family: Family
    kind: str
    round: int
    power: int
    length_scale: float | None
    roots: tuple[np.ndarray | None, ...]
    alpha: int = FIRST_ALPHA
    result: TrialResult | None = None

    @classmethod
    def start(cls, family: Family, level: _Level) -> _Point:
        """A family without a metric."""
        return cls(family, "none", 0, 0, None, (None,) * len(level.sample.folds()))

    @property
    def error(self) -> float:
        return np.inf if self.result is None else self.result.error


@dataclass
class _Level:
    """Trials on some rows at some width."""

    sample: SearchSample
    n_components: int
    seed: int
    n_jobs: int | None
    entries: list[tuple] = field(default_factory=list)

    def evaluate(self, points: Sequence[_Point]) -> list[_Point]:
        """Points with their results; trials run side by side."""

        def run(point: _Point) -> _Point:
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
            self.entries.append(
                (point.family.name, kind, point.round, scale, self.n_components, self.sample.n_rows, point.error)
            )
        return done

    def at_widths(self, point: _Point, powers: Sequence[int]) -> list[_Point]:
        """A kernel at some of its widths, evaluated; at its one width if it has no other."""
        unit = point.family.unit()
        if unit is None:
            return self.evaluate([point])
        rows = rooted(self.sample.X[:_MEDIAN_ROWS], point.roots[0])
        median = median_length_scale(rows, unit, self.sample.weights[:_MEDIAN_ROWS])
        if point.family.fixed:
            return self.evaluate([replace(point, power=0, length_scale=median)])
        return self.evaluate([replace(point, power=p, length_scale=median * _STEP**p) for p in powers])

    def best_width(self, point: _Point, powers: Sequence[int]) -> _Point:
        """The best of a kernel's widths: those of `powers`, and on from there while the error falls."""
        return self.climb(self.at_widths(point, powers))

    def climb(self, points: Sequence[_Point]) -> _Point:
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
            if best.error > (1 - _GAIN) * before:
                break
        return best

    def next_roots(self, point: _Point) -> tuple[np.ndarray, ...]:
        """Roots of the metric that a point's gradients give, in each fold."""
        assert point.result is not None
        folds = list(zip(point.result.fits, point.roots, self.sample.folds(), strict=True))
        return tuple(
            run_tasks(
                lambda fold: root_of(mean_outer_gradient(fold[0], self.sample.X[fold[2][0]], fold[1]), point.kind),
                folds,
                self.n_jobs,
            )
        )

    def follow(self, point: _Point, rounds: int) -> _Point:
        """Learn the metric of an evaluated point round by round, while its error falls; the best point met."""
        best = current = point
        for _ in range(rounds):
            family = current.family.next or current.family
            moved = replace(
                current, family=family, round=current.round + 1, roots=self.next_roots(current), result=None
            )
            if family is not current.family:
                current = self.best_width(moved, _FIRST_POWERS)
            elif current.round == 0:
                current = self.best_width(moved, (current.power - 1, current.power))
            else:
                # In units of the median distance the width hardly moves after the first metric.
                current = self.at_widths(moved, (current.power,))[0]
            gained = current.error <= (1 - _GAIN) * best.error
            best = min(best, current, key=lambda p: p.error)
            if not gained:
                break
        return best

    def best_sibling(self, point: _Point) -> _Point:
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


def search(
    families: Sequence[Family],
    sample: SearchSample,
    effort: Effort,
    *,
    seed: int,
    n_jobs: int | None,
    most_components: int,
    entries: list[tuple],
) -> Found:
    """Choose a family, its width and a metric.

    Parameters
    ----------
    families : sequence of Family
    sample : SearchSample
        Standardised rows in random order.
    effort : Effort
    seed : int
        Of the maps, which are the same draw for all widths.
    n_jobs : int or None
        Trials side by side; changes no bit.
    most_components : int
        Features of the final map at the most.
    entries : list
        What was tried before, for the log.

    Returns
    -------
    Found

    Notes
    -----
    A path is a family with a kind of metric. At the first level every path chooses its width and follows its metric.
    The best go on to the second level, with wider maps and more rows, from where they are. The last level compares
    what is left and goes on from the best. Widths and siblings of the best are tried at both.
    Then the best of the other kinds of metric, none among them, are compared with it at twice the width, where they
    are near: what small maps cannot follow looks like noise to them.

    **Cost.** Some 6 trials a path and level, see `run_trial`.
    """
    levels = [
        _Level(sample.first(n_rows), n_components, seed, n_jobs, entries)
        for n_components, n_rows in zip(effort.n_components, effort.n_rows, strict=True)
    ]
    if sample.n_rows <= effort.n_rows[0]:
        levels = levels[:1]
    first, middle, last = levels[0], levels[len(levels) // 2], levels[-1]
    learns = first.sample.n_learned >= _LEAST_ROWS_OF_METRIC

    def followed(level: _Level, start: _Point) -> list[_Point]:
        kinds = start.family.metrics if learns else ()
        return [level.follow(replace(start, kind=kind), effort.rounds) for kind in kinds]

    # Points by the level at which they were judged last.
    early: list[_Point] = []
    paths: list[_Point] = []
    final: list[_Point] = []
    for family in families:
        if not family.next:
            start = first.best_width(_Point.start(family, first), _FIRST_POWERS)
            early += [start, *followed(first, start)]
            continue
        # An additive kernel has as many terms as pairs of columns: small maps would miss them.
        start = last.best_width(_Point.start(family, last), _FIRST_POWERS)
        final.append(start)
        if not _is_hopeless(start, early):
            paths += followed(middle, start)
    if middle is first:
        paths += early
    else:
        for path in sorted(early, key=lambda p: p.error)[: effort.survivors]:
            again = middle.at_widths(_unfolded(path), (path.power,))[0]
            hopeless = path.kind == "none" or _is_hopeless(again, paths)
            paths.append(again if hopeless else middle.follow(again, effort.rounds))
    best = min(paths, key=lambda p: p.error)
    if last is not middle:
        polished = middle.best_sibling(middle.climb([best]))
        paths += [polished] if polished is not best else []
    rivals = [path for path in paths if path.error <= _RIVAL * best.error]
    # Where targets change from row to row, small maps flatter a metric: kernels without one come to the end, too.
    plain = [] if last is middle else [p for p in early if p.kind == "none" and p.family.metrics and p not in rivals]
    final += rivals if last is middle else last.evaluate([_unfolded(path) for path in rivals + plain])
    best = min(final, key=lambda p: p.error)
    if last is not middle and best.kind != "none":
        best = last.follow(best, effort.rounds)
    best = last.best_sibling(last.climb([best]))
    if last is not middle and effort.decides is not None and last.n_components < most_components:
        best = _decided(best, final, last, effort.decides)
    family = best.family
    if family.features is landmarks:
        other = replace(best, family=replace(family, features=random_features), result=None)
        if last.evaluate([other])[0].error <= _TOLERANCE * best.error:
            family = other.family
    return Found(family.make(best.length_scale), family, _mean_root(best), _log(entries))


def _decided(best: _Point, others: Sequence[_Point], last: _Level, width: int) -> _Point:
    """The best point of a kind of metric, or that of another which is better with wider maps."""
    kinds = {point.kind: point for point in sorted(others, key=lambda p: -p.error) if not point.family.next}
    near = [point for kind, point in kinds.items() if kind != best.kind and point.error <= _NEAR * best.error]
    if not near:
        return best
    tried = replace(last, n_components=width).evaluate([replace(point, result=None) for point in (best, *near)])
    chosen = int(np.argmin([point.error for point in tried]))
    return best if chosen == 0 else last.best_sibling(last.climb([near[chosen - 1]]))


def _is_hopeless(point: _Point, others: Sequence[_Point]) -> bool:
    return any(point.error > _HOPELESS * other.error for other in others)


def _unfolded(point: _Point) -> _Point:
    """A point with the mean of its metrics in every fold, to be evaluated."""
    return replace(point, roots=(_mean_root(point),) * len(point.roots), result=None)


def best_scaling(
    families: Sequence[Family],
    samples: Sequence[SearchSample],
    effort: Effort,
    *,
    seed: int,
    n_jobs: int | None,
    entries: list[tuple],
) -> int:
    """The place of the sample, of the same rows in other scales, on which a kernel without a metric errs least.

    Parameters
    ----------
    families, effort, seed, n_jobs
        As in `search`.
    samples : sequence of SearchSample
        The first of them is taken unless another is better by the share that a step of the search must gain.
    entries : list
        Takes what was tried.
    """
    errors = []
    for sample in samples:
        level = _Level(sample.first(effort.n_rows[0]), effort.n_components[0], seed, n_jobs, entries)
        starts = [_Point.start(family, level) for family in families if not family.next]
        errors.append(min(level.best_width(start, _FIRST_POWERS).error for start in starts))
    best = int(np.argmin(errors))
    return best if errors[best] < (1 - _GAIN) * errors[0] else 0


def is_open(families: Sequence[Family]) -> bool:
    """Whether there is anything to choose."""
    first = families[0]
    return len(families) > 1 or bool(first.metrics) or (first.has_width and not first.fixed)


def _mean_root(point: _Point) -> np.ndarray | None:
    """Root of the mean metric over folds."""
    roots = [root for root in point.roots if root is not None]
    if not roots:
        return None
    if len(roots) == 1:
        return roots[0]
    if roots[0].ndim == 1:
        return np.sqrt(np.mean(np.square(roots), axis=0))
    return root_of(np.mean([root @ root.T for root in roots], axis=0), "full")


def _log(entries: list[tuple]) -> SearchLog:
    kernels, metrics, *numbers = zip(*entries, strict=True)
    rounds, scales, widths, rows, errors = map(np.array, numbers)
    return SearchLog(kernels, metrics, rounds, scales, widths, rows, errors)
