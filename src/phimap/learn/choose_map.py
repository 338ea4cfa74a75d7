"""The choice of kernel, metric, width and feature map, on a sample of the training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from phimap.features.defaults import with_image_shape
from phimap.learn.criterion import Criterion
from phimap.learn.inputs import InputEncoding
from phimap.learn.rows.column_forms import Ranks, Squash
from phimap.learn.rows.samples import CAPACITY
from phimap.learn.rows.scaling import Scaling
from phimap.learn.rows.summary import RowSummary
from phimap.learn.rows.validation import HeldOutKeys
from phimap.learn.scaled_map import ScaledMap, scaled
from phimap.learn.search.families import additive
from phimap.learn.search.kernel import map_of_family, median_kernel
from phimap.learn.search.log import SearchLog, TrialLog
from phimap.learn.search.losses import losses_tried
from phimap.learn.search.metric import metric_of, with_all_columns
from phimap.learn.search.mixture import fitted_mixture
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.screening import screened
from phimap.learn.search.search import SearchResult, is_open, search
from phimap.learn.search.width import LEAST_COMPONENTS, choose_width
from phimap.learn.settings import FitSettings
from phimap.learn.targets.base import Targets
from phimap.ops import single_threaded_blas
from phimap.random_map import RandomMap

#: Number of rows from which the length scale is estimated. The half a million distances between them give the median
#: distance to a fraction of a percent, which is accurate enough.
LENGTH_SCALE_ROWS = 1000
# Largest number of columns for which the search also tries compressed tails and ranks of the columns.
_MOST_COLUMNS = 500
# Least number of features if effects must be monotone. The search has chosen the length scale for one draw of random
# features, and the model has another draw. With 256 features its errors were up to 14 % larger than with 1,024, and no
# corrections or trees make up for that.
_LEAST_OF_MONOTONE = 1024


def choose_map(
    summary: RowSummary,
    scaling: Scaling,
    inputs: InputEncoding,
    targets: Targets,
    settings: FitSettings,
    *,
    complete: bool,
) -> tuple[ScaledMap, SearchLog | None]:
    """Choose kernel, metric and width, and fit the feature map.

    Parameters
    ----------
    summary : RowSummary
    scaling : Scaling
        The standardisation of the columns.
    inputs : InputEncoding
    targets : Targets
        Targets learned from the summary.
    settings : FitSettings
    complete : bool
        Whether the summary covers all training rows.

    Returns
    -------
    mapped : ScaledMap
    search : SearchLog or None
        None if nothing was to be chosen.
    """
    assert summary.moments is not None
    source = _SearchSource(summary, inputs, targets, settings)
    scaling = _form_of_monotone_effects(source) or scaling
    n_rows = summary.n_rows if complete else None
    first_rows, _, weights = summary.random_sample.first(LENGTH_SCALE_ROWS)
    # Products outside of tasks use one thread, so that the number of threads does not affect the choice.
    seed = int(settings.stream("search").integers(2**31))
    with single_threaded_blas():
        log = TrialLog(settings.deadline)
        found, scaling = _choose_kernel(source, scaling, scaled(scaling, first_rows), weights, seed, log)
        metric, scaling = metric_of(found.root, inputs.width), scaling.rooted(found.root)
        feature_map = settings.kernel.kernel
        trials = found.log
        if not isinstance(feature_map, RandomMap):
            width, chooses_width, effort = settings.most_width, settings.n_components == "auto", settings.effort
            chooses_loss = settings.loss == "auto" and trials is not None and not log.is_over()
            rows = source.sample(scaling) if chooses_width or chooses_loss else None
            if rows is not None and chooses_width:
                least = LEAST_COMPONENTS if settings.monotonic_cst is None else _LEAST_OF_MONOTONE
                width = choose_width(found, rows, n_rows, width, least=least, seed=seed, effort=effort, log=log)
            if rows is not None and trials is not None and chooses_loss and not log.is_over():
                criterion = Criterion.of(settings.scoring, targets)
                tried = losses_tried(found, rows, effort, criterion, seed=seed, n_jobs=settings.n_jobs, log=log)
                trials = replace(trials, losses=tuple(tried), log_losses=np.array(list(tried.values())))
            feature_map = map_of_family(
                found.family,
                found.kernel,
                width,
                n_rows,
                random_state=settings.stream("map"),
                n_jobs=settings.n_jobs,
            )
    columns = summary.columns.settled(summary.moments, scaled(scaling, first_rows))
    # Validation rows must not be landmarks, because the kernel estimate is exact at landmarks.
    n_wanted, conformal = max(feature_map.fit_rows(), LENGTH_SCALE_ROWS), source.held_out.conformal
    sample = summary.map_sample.skipping(CAPACITY, n_wanted, without=conformal)
    encoded = targets.encode(sample.y) if feature_map.wants_targets else None
    fitted = with_image_shape(feature_map, inputs.image_shape).fit(scaled(scaling, sample.X), encoded)
    return ScaledMap(scaling, fitted, metric, columns), trials


@dataclass(frozen=True)
class _SearchSource:
    """The source of the samples of training rows on which the search tries kernels."""

    summary: RowSummary
    inputs: InputEncoding
    targets: Targets
    settings: FitSettings

    @property
    def held_out(self) -> HeldOutKeys:
        """Keys of the validation and the conformal rows. The samples of the search contain no conformal rows."""
        return HeldOutKeys.of_sample(self.summary.sample, self.summary.n_rows, by_class=self.targets.has_labels)

    def sample(self, scaling: Scaling) -> SearchSample:
        """Return the sample of the search, scaled by `scaling`."""
        by_class, rows, units = self.targets.has_labels, self.summary.map_sample, self.summary.sample.units
        chosen = rows.others(self.settings.effort.n_rows[-1], self.held_out.conformal, by_class=by_class)
        X, y, weights = rows.rows(chosen)
        Y, counted = self.targets.encode(y), self.targets.weights(y, weights)
        counted = np.ones(len(Y)) if counted is None else counted
        encoder = self.inputs.encoder
        Y = self.targets.for_search(Y, counted)
        parts, labels = None if encoder is None else encoder.parts_, y if by_class else None
        found = SearchSample(scaled(scaling, X), Y, counted, parts, labels)
        if units is None:
            return found
        return replace(found, places=units.places_of(rows.keys[chosen]), in_time=units.in_time)


def _choose_kernel(
    source: _SearchSource, scaling: Scaling, rows: np.ndarray, weights: np.ndarray | None, seed: int, log: TrialLog
) -> tuple[SearchResult, Scaling]:
    """Return the chosen kernel and the chosen scaling of the columns.

    The scaling may compress heavy tails of columns or replace columns by ranks. It does not yet include the metric.

    If the search has nothing to choose, the median distance of scaled `rows` (r, d), with `weights` (r,), is the length
    scale.
    """
    settings, inputs = source.settings, source.inputs
    spec, is_sparse = settings.kernel, sparse.issparse(rows)
    metrics = spec.metrics(rows.shape[1], sparse=is_sparse, image=inputs.image_shape is not None)
    families = spec.families(metrics, rows.shape[1], sparse=is_sparse)
    if settings.monotonic_cst is not None and settings.searches_kernel:
        # A kernel that is a product over all columns is nearly zero between the training rows. Its models return to the
        # mean there, so they cannot be monotone.
        families = [additive()]
    if spec.fits_mixture:
        sample = source.sample(scaling)
        return fitted_mixture(sample, settings.effort, seed=seed, n_jobs=settings.n_jobs, log=log), scaling
    if not is_open(families):
        return SearchResult(median_kernel(families[0], rows, weights), families[0], None, None), scaling
    scalings = [scaling, *_other_forms(source)]
    samples = [source.sample(one) for one in scalings]
    screens = settings.searches_kernel and spec.metric == "auto" and not is_sparse and inputs.image_shape is None
    if (columns := screened(samples[0]) if screens else None) is not None:
        few = spec.metrics(columns.size, sparse=False, image=False)
        families = spec.families(few, rows.shape[1], sparse=False)
        samples = [replace(one, learns_metric=bool(metrics)) for one in samples]
        samples += [one.of_columns(columns) for one in samples]
    n_threads = settings.effort.threads(settings.memory, settings.n_jobs)
    found = search(families, samples, settings.effort, seed=seed, n_jobs=n_threads, log=log)
    form = found.scaling % len(scalings)
    if columns is not None and found.scaling >= len(scalings):
        found = replace(found, root=with_all_columns(found.root, columns, rows.shape[1]))
    return replace(found, scaling=form), scalings[form]


def _other_forms(source: _SearchSource) -> list[Scaling]:
    """Return the other scalings that the search may choose: compressed tails of columns, and ranks of columns."""
    settings, X = source.settings, source.summary.map_sample.X
    if settings.standardize != "auto" or not settings.searches_kernel or sparse.issparse(X):
        return []
    if source.inputs.image_shape is not None or X.shape[1] > _MOST_COLUMNS or settings.monotonic_cst is not None:
        return []
    amounts = _amounts(source)
    squash = Squash.of_sample(X, amounts)
    forms = [form for form in (squash, Ranks.of_sample(X, amounts)) if form is not None]
    return [Scaling.of_form(form, X) for form in forms]


def _form_of_monotone_effects(source: _SearchSource) -> Scaling | None:
    """Return the scaling to ranks if effects must be monotone and the user has not fixed the form, else None.

    In a heavy tail, the model has a bump at each isolated row, and the grid of the constraints misses some of the
    bumps. Ranks have no isolated values.
    """
    settings, X = source.settings, source.summary.map_sample.X
    if settings.monotonic_cst is None or settings.standardize != "auto":
        return None
    return Scaling.of_form(Ranks.of_sample(X, _amounts(source)), X)


def _amounts(source: _SearchSource) -> np.ndarray | None:
    """Return 1 for columns of amounts, 0 for columns such as codes of categories (d,); None if all hold amounts."""
    return None if source.inputs.encoder is None else source.inputs.encoder.amounts_
