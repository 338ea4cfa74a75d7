"""The choice of kernel, metric, width and feature map, on a sample of the training rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from phimap.features.defaults import with_image_shape
from phimap.learn.inputs import InputEncoding
from phimap.learn.rows.samples import CAPACITY
from phimap.learn.rows.scaling import Scaling, Squash
from phimap.learn.rows.summary import RowSummary
from phimap.learn.scaled_map import ScaledMap, scaled
from phimap.learn.search.kernel import map_of_family, median_kernel
from phimap.learn.search.log import SearchLog, TrialLog
from phimap.learn.search.metric import metric_of
from phimap.learn.search.mixture import fitted_mixture
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import SearchResult, is_open, search
from phimap.learn.search.width import choose_width
from phimap.learn.settings import FitSettings
from phimap.learn.targets.base import Targets
from phimap.ops import single_threaded_blas
from phimap.random_map import RandomMap

#: Number of rows from which the length scale is estimated. The half a million distances between them give the median
#: distance to a fraction of a percent, which is accurate enough.
LENGTH_SCALE_ROWS = 1000


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
        None if there was no choice to make.
    """
    assert summary.moments is not None
    source = _SearchSource(summary, inputs, targets, settings)
    n_rows = summary.n_rows if complete else None
    first_rows, _, weights = summary.sample.first(LENGTH_SCALE_ROWS)
    # Products outside of tasks use one thread, so that the number of threads does not affect the choice.
    seed = int(settings.stream("search").integers(2**31))
    with single_threaded_blas():
        log = TrialLog(settings.deadline)
        found, scaling = _choose_kernel(source, scaling, scaled(scaling, first_rows), weights, seed, log)
        metric, scaling = metric_of(found.root, inputs.width), scaling.rooted(found.root)
        feature_map = settings.kernel.kernel
        if not isinstance(feature_map, RandomMap):
            width = settings.most_width
            if settings.n_components == "auto":
                width = choose_width(
                    found, source.sample(scaling), n_rows, width, seed=seed, effort=settings.effort, log=log
                )
            feature_map = map_of_family(
                found.family,
                found.kernel,
                width,
                n_rows,
                random_state=settings.stream("map"),
                n_jobs=settings.n_jobs,
            )
    columns = summary.columns.settled(summary.moments, scaled(scaling, first_rows))
    # Validation rows must not be landmarks: the features are exact at landmarks.
    sample = summary.map_sample.skipping(CAPACITY, max(feature_map.fit_rows(), LENGTH_SCALE_ROWS))
    encoded = targets.encode(sample.y) if feature_map.wants_targets else None
    fitted = with_image_shape(feature_map, inputs.image_shape).fit(scaled(scaling, sample.X), encoded)
    return ScaledMap(scaling, fitted, metric, columns), found.log


@dataclass(frozen=True)
class _SearchSource:
    """Makes the samples of rows on which the search tries kernels."""

    summary: RowSummary
    inputs: InputEncoding
    targets: Targets
    settings: FitSettings

    def sample(self, scaling: Scaling) -> SearchSample:
        """Return the sample of the search, scaled by `scaling`."""
        X, y, weights = self.summary.map_sample.first(self.settings.effort.n_rows[-1])
        Y, counted = self.targets.encode(y), self.targets.weights(y, weights)
        counted = np.ones(len(Y)) if counted is None else counted
        encoder = self.inputs.encoder
        Y = self.targets.for_search(Y, counted)
        return SearchSample(scaled(scaling, X), Y, counted, None if encoder is None else encoder.parts_)


def _choose_kernel(
    source: _SearchSource, scaling: Scaling, rows: np.ndarray, weights: np.ndarray | None, seed: int, log: TrialLog
) -> tuple[SearchResult, Scaling]:
    """Choose the kernel and the scaling, which may squash heavy tails; the metric is not yet part of the scaling.

    If the search has nothing to choose, the median distance of scaled `rows` (r, d), with `weights` (r,), is the length
    scale.
    """
    settings, inputs = source.settings, source.inputs
    spec, is_sparse = settings.kernel, sparse.issparse(rows)
    metrics = spec.metrics(rows.shape[1], sparse=is_sparse, image=inputs.image_shape is not None)
    families = spec.families(metrics, rows.shape[1], sparse=is_sparse)
    if spec.fits_mixture:
        sample = source.sample(scaling)
        return fitted_mixture(sample, settings.effort, seed=seed, n_jobs=settings.n_jobs, log=log), scaling
    if not is_open(families):
        return SearchResult(median_kernel(families[0], rows, weights), families[0], None, None), scaling
    scalings = [scaling, *_squashed(source)]
    found = search(
        families,
        [source.sample(one) for one in scalings],
        settings.effort,
        seed=seed,
        n_jobs=settings.n_jobs,
        log=log,
    )
    return found, scalings[found.scaling]


def _squashed(source: _SearchSource) -> list[Scaling]:
    """Return the scaling that squashes heavy tails, if the search may choose it and a column has heavy tails."""
    settings, X = source.settings, source.summary.map_sample.X
    if settings.standardize != "auto" or not settings.searches_kernel or sparse.issparse(X):
        return []
    squash = Squash.of_sample(X, None if source.inputs.encoder is None else source.inputs.encoder.amounts_)
    return [] if squash is None else [Scaling.squashed(squash, X)]
