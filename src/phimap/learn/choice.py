"""The choice of kernel, metric and scales on a sample of the training rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from phimap.kernels import Kernel
from phimap.learn.linear import LinearOutputs
from phimap.learn.rows.first_pass import FirstPass
from phimap.learn.rows.scaling import Scaling, Squash
from phimap.learn.search.effort import EFFORTS
from phimap.learn.search.families import KernelFamily
from phimap.learn.search.kernel import KernelSpec, median_kernel
from phimap.learn.search.log import SearchLog, TrialLog
from phimap.learn.search.metric import metric_of
from phimap.learn.search.mixture import fitted_mixture
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import SearchResult, best_scaling, is_open, search
from phimap.ops import Array
from phimap.random_map import RandomMap


class KernelChoice(LinearOutputs):
    """The part of training that chooses the kernel, with the parameters of `KernelModel`."""

    kernel: str | Kernel | RandomMap
    length_scale: float | str
    metric: str | None
    effort: str
    search_: SearchLog | None

    @abstractmethod
    def _encode(self, y: np.ndarray) -> np.ndarray:
        """Checked targets as numbers (r, t)."""

    @abstractmethod
    def _row_weights(self, y: np.ndarray, weights: np.ndarray | None) -> np.ndarray | None:
        """What rows with these targets count in the fit, for their own weights (r,); None where all count one."""

    @abstractmethod
    def _new_width(self) -> int:
        """Width of the features of a fit that is to come."""

    @abstractmethod
    def _streams(self) -> dict[str, np.random.Generator]:
        """Named random streams of the fit."""

    def _choose_kernel(self, first_pass: FirstPass, rows: Array, weights: np.ndarray | None) -> SearchResult:
        """The kernel of the model; a metric that is found becomes part of the scaling."""
        d, is_sparse = rows.shape[1], sparse.issparse(rows)
        wish = self._wish()
        metrics = wish.metrics(d, sparse=is_sparse, image=getattr(self, "image_shape_", None) is not None)
        families = wish.families(metrics, d, sparse=is_sparse)
        seed = int(self._streams()["search"].integers(2**31))
        if wish.fits_mixture:
            sample = self._search_sample(first_pass)
            found = fitted_mixture(sample, EFFORTS[self.effort], seed=seed, n_jobs=self.n_jobs)
        elif is_open(families):
            log = TrialLog()
            sample = self._squashed(first_pass, families, seed, log)
            found = search(
                families,
                sample,
                EFFORTS[self.effort],
                seed=seed,
                n_jobs=self.n_jobs,
                most_components=self._new_width(),
                log=log,
            )
        else:
            found = SearchResult(median_kernel(families[0], rows, weights), families[0], None, None)
        self.search_, self.metric_ = found.log, metric_of(found.root, d)
        self.scaling_ = self.scaling_.rooted(found.root)
        return found

    def _squashed(
        self, first_pass: FirstPass, families: Sequence[KernelFamily], seed: int, log: TrialLog
    ) -> SearchSample:
        """The sample to search on; heavy tails are squashed, then and ever after, where that lowers the error."""
        plain, X = self._search_sample(first_pass), first_pass.map_sample.X
        free = self.standardize == "auto" and isinstance(self.kernel, str) and self.kernel == "auto"
        if not free or sparse.issparse(X) or not any(family.metrics for family in families):
            return plain
        squash = Squash.of_sample(X, None if self.encoder_ is None else self.encoder_.amounts_)
        if squash is None:
            return plain
        before, self.scaling_ = self.scaling_, Scaling.squashed(squash, X)
        other = self._search_sample(first_pass)
        effort = EFFORTS[self.effort]
        if best_scaling(families, [plain, other], effort, seed=seed, n_jobs=self.n_jobs, log=log):
            return other
        self.scaling_ = before
        return plain

    def _search_sample(self, first_pass: FirstPass) -> SearchSample:
        """What a search sees of the training rows, in the scales that are known so far."""
        X, y, weights = first_pass.map_sample.first(EFFORTS[self.effort].n_rows[-1])
        targets, counted = self._encode(y), self._row_weights(y, weights)
        counted = np.ones(len(targets)) if counted is None else counted
        return SearchSample(self._scaled(X), targets, counted, None if self.encoder_ is None else self.encoder_.parts_)

    def _wish(self) -> KernelSpec:
        return KernelSpec.of(self.kernel, self.length_scale, self.metric)
