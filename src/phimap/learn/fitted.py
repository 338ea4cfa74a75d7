"""A fitted model, which model files store and workers receive, its table in notebooks, and its training state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from operator import attrgetter
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from phimap.learn.calibration import Calibration
from phimap.learn.corrections.corrections import Corrections
from phimap.learn.extrapolation import ExtrapolationGuard
from phimap.learn.inputs import InputEncoding
from phimap.learn.losses.losses import log_probabilities
from phimap.learn.ridge.solver import GramAccumulator, RidgeSolver
from phimap.learn.rows.accumulator import CountingAccumulator, RowSource, accumulate
from phimap.learn.rows.batches import Batch, RowShape, batch_rows
from phimap.learn.rows.feature_stream import MappedRows, Mapping
from phimap.learn.rows.samples import ExtremeRows, Reservoir, fingerprint
from phimap.learn.rows.summary import RowSummary
from phimap.learn.scaled_map import ScaledMap
from phimap.learn.search.log import SearchLog
from phimap.learn.settings import Compute
from phimap.learn.solver import LinearSolution
from phimap.learn.targets.base import Targets
from phimap.ops import Array, ops_for
from phimap.records import Record, of_number


@dataclass(frozen=True)
class Fitted(Record):
    """A fitted learner as an immutable record.

    Attributes
    ----------
    inputs : InputEncoding
    targets : Targets
    map : ScaledMap
    seed : SeedSequence
        Seed of the named random streams.
    n_samples_seen : int
    search : SearchLog or None
        Trials of the search for a kernel; None without a search.
    solution : LinearSolution or None
        Solution in the units of the targets. None before the sums over the rows are solved.
    corrections : Corrections or None
        Corrections that are added to the linear outputs, region by region.
    calibration : Calibration or None
        Map from the outputs of a classifier to probabilities. None if the loss itself gives probabilities, or if no
        rows were held out.
    """

    inputs: InputEncoding
    targets: Targets
    map: ScaledMap
    seed: np.random.SeedSequence
    n_samples_seen: int = field(metadata=of_number(least=0))
    search: SearchLog | None = None
    solution: LinearSolution | None = None
    corrections: Corrections | None = None
    calibration: Calibration | None = None

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.map.scaling.shift.size == self.inputs.width, "a scaling of its rows"
        solution, corrections, units = self.solution, self.corrections, self.targets.units
        if solution is None:
            return
        n_outputs = solution.coef.shape[1]
        yield n_outputs == self.targets.n_outputs, "an output for each target or class"
        yield solution.coef.shape[0] == self.map.width, "a coefficient for each feature"
        yield units is None or units.shift.size in (1, n_outputs), "units for its targets"
        yield corrections is None or corrections.coefs.shape[1] == n_outputs, "corrections of its targets"

    @property
    def solved(self) -> LinearSolution:
        """The solution; the model must be solved."""
        assert self.solution is not None
        return self.solution

    def scores(self, X: Any, compute: Compute) -> np.ndarray:
        """Return outputs (n, t) of the model, computed batch by batch; `X` are rows as users pass them."""
        return self.scores_of_rows(self.inputs.rows(X), compute)

    def scores_of_rows(self, X: Array, compute: Compute) -> np.ndarray:
        """As `scores`, for checked rows of numbers (n, d)."""
        solution, units = self.solved, self.targets.units
        n_outputs, dtype = solution.coef.shape[1], ops_for(X).dtype
        height = batch_rows(self.map.width, X.dtype.itemsize, compute.memory, 0, RowShape.of(X, n_outputs))
        features, guard = self.map.features(compute), ExtrapolationGuard(self.map)
        scores = np.empty((X.shape[0], n_outputs), dtype if units is None else np.float64)
        # In the units of the solver, the coefficients fit float32 for targets of any size.
        coef = (solution.coef if units is None else np.ldexp(solution.coef, -units.exponent)).astype(dtype)
        for start in range(0, X.shape[0], height):
            part = slice(start, start + height)
            scores[part] = features(X[part]).times(coef, compute.n_jobs)
            if self.corrections is not None:
                scores[part] += self.corrections.outputs(self.map.on_host(X[part]), compute.n_jobs)
            guard.inspect(X[part], start)
        if units is not None:
            scores = np.ldexp(scores, units.exponent)
        scores += solution.intercept.astype(scores.dtype)
        if solution.centre is not None:
            guard.shrink(scores, solution.centre.astype(scores.dtype))
        guard.warn(self.inputs.column_names, len(scores))
        if not np.isfinite(scores).all():
            raise ValueError(
                f"predictions overflow {scores.dtype}: coefficients or targets were too large. Scale y down."
            )
        return scores

    def predictions(self, X: Any, compute: Compute) -> np.ndarray:
        """Return predicted targets (n,) or (n, t) at rows `X`."""
        return self.targets.decode(self.scores(X, compute))

    def decisions(self, X: Any, compute: Compute) -> np.ndarray:
        """Return outputs of a classifier: (n,) for two classes, else (n, n_classes)."""
        scores = self.scores(X, compute)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def log_probabilities(self, X: Any, compute: Compute, *, loss: str) -> np.ndarray:
        """Log-probabilities of the classes (n, n_classes) at rows `X`; `loss` is the loss of the fit."""
        scores = self.scores(X, compute)
        if loss == "logistic":
            return log_probabilities(scores)
        if self.calibration is None:
            raise ValueError(
                "probabilities need scores of rows that the solution has not seen, which this model has not kept. "
                "Fit it again with this version; a loss that is minimised on a sample needs memory for one."
            )
        return self.calibration.log_probabilities(scores)

    def probabilities(self, X: Any, compute: Compute, *, loss: str) -> np.ndarray:
        """Probabilities of the classes (n, n_classes) at rows `X`."""
        return np.exp(self.log_probabilities(X, compute, loss=loss))

    @property
    def relevances(self) -> np.ndarray:
        """Shares (n_features,) of the columns in the metric; an encoded column sums the shares of its numbers."""
        metric, encoder = self.map.metric, self.inputs.encoder
        diagonal = metric if metric.ndim == 1 else np.diag(metric)
        if encoder is not None:
            diagonal = np.bincount(encoder.groups_, diagonal * encoder.variances_, minlength=self.inputs.n_features)
        return diagonal / diagonal.sum()


def of_fitted(path: str, doc: str) -> Any:
    """Return a property of a learner that reads an attribute of its fitted model; `path` is the dotted name."""
    read = attrgetter(f"_fitted.{path}")

    def value(learner: Any) -> Any:
        check_is_fitted(learner)
        return read(learner)

    return property(value, doc=doc)


# Number of sample rows that are hashed to identify the origin of a state.
_ORIGIN_ROWS = 1000


@dataclass
class TrainingState(Record):
    """Sums over the rows seen (in dual form, the features of these rows), and samples of the rows.

    Attributes
    ----------
    sums : RidgeSolver
    sample : Reservoir
        Random rows; those with the smallest keys are validation rows.
    extreme : ExtremeRows
        The rows farthest from the mean.
    origin : str
        A hash of sample rows, which shows whether two states began with the same rows.
    """

    sums: RidgeSolver
    sample: Reservoir
    extreme: ExtremeRows
    origin: str

    def requirements(self) -> Iterator[tuple[bool, str]]:
        width = self.extreme.centre.size
        yield self.sums.n_rows > 0 and self.sample.keys.size > 0, "rows in its statistics and in its sample"
        numbers = all(rows.are_numbers(width) for rows in (self.sample, self.extreme))
        yield numbers, "rows of numbers, as wide as its scaling, in its sample"

    @classmethod
    def start(cls, summary: RowSummary, extreme: ExtremeRows, sums: RidgeSolver) -> Self:
        """Return the state for the rows of a summary; `sums` may still be empty."""
        rows, targets, _ = summary.sample.first(_ORIGIN_ROWS)
        return cls(sums, summary.sample, extreme, fingerprint(rows, targets))

    def accumulate(
        self, rows: Iterable[Batch] | RowSource, mapping: Mapping, n_jobs: int | None, advance: Callable[[int], None]
    ) -> None:
        """Add the features of rows to the sums; ``advance(n_rows)`` is called for every batch."""
        mapped = MappedRows(mapping, GramAccumulator(self.sums, n_jobs), self.extreme)
        accumulate(rows, lambda first_row: CountingAccumulator(mapped, advance))

    def merge(self, other: Self, shared: Self | None, n_jobs: int | None) -> None:
        """Add the rows of another state, without the rows of `shared`, the state with which both began."""
        self.sums.merge(other.sums, n_jobs)
        if shared is not None:
            self.sums.merge(shared.sums, n_jobs, sign=-1)
        self.sample.merge(other.sample, without=() if shared is None else shared.sample.keys)
        self.extreme.merge(other.extreme, without=() if shared is None else shared.extreme.keys)


# Largest number of columns listed, the most relevant first.
_LEADING = 5


def fitted_html(fitted: Fitted | None) -> str:
    """Return a small table of the fitted kernel, regularisation and most relevant columns; nothing is fitted for it."""
    if fitted is None:
        return ""
    facts = [("kernel", repr(fitted.map.kernel)), ("features", f"{fitted.map.width:,}")]
    if fitted.solution is not None:
        facts.append(("alpha", f"{fitted.solution.alpha:.3g} ({fitted.solution.criterion})"))
    if leading := _leading_columns(fitted):
        facts.append(("relevances", leading))
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts)
    return f'<table class="phimap-fitted"><caption>Fitted</caption><tbody>{rows}</tbody></table>'


def _leading_columns(fitted: Fitted) -> str:
    """Return the columns with the largest shares in the metric, as text; empty if no metric was learned."""
    metric, names = fitted.map.metric, fitted.inputs.names
    if metric.ndim == 1 and (metric == metric[0]).all():
        return ""
    shares = fitted.relevances
    named = [f"column {place}" for place in range(shares.size)] if names is None else names
    places = np.argsort(-shares, kind="stable")[:_LEADING]
    more = f", {shares.size - len(places)} more" if shares.size > len(places) else ""
    return ", ".join(f"{named[place]} {100 * shares[place]:.3g} %" for place in places) + more
