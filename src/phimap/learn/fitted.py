"""A fitted model, which model files store and workers receive, its table in notebooks, and its training state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from operator import attrgetter
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from phimap._validation import check_outputs
from phimap.learn.calibration import Calibration
from phimap.learn.conformal import Conformal, class_scores
from phimap.learn.corrections.corrections import Corrections
from phimap.learn.extrapolation import ExtrapolationGuard
from phimap.learn.inputs import InputEncoding
from phimap.learn.losses.losses import log_probabilities
from phimap.learn.ridge.solver import GramAccumulator, RidgeSolver
from phimap.learn.rows.accumulator import CountingAccumulator, RowSource, accumulate
from phimap.learn.rows.batches import Batch, RowShape, rows_to_predict
from phimap.learn.rows.feature_stream import MappedRows, Mapping
from phimap.learn.rows.samples import ExtremeRows, Reservoir, fingerprint
from phimap.learn.rows.summary import RowSummary
from phimap.learn.scaled_map import LinearOutputs, ScaledMap
from phimap.learn.search.log import SearchLog
from phimap.learn.settings import Compute
from phimap.learn.solver import LinearSolution
from phimap.learn.targets.base import Targets
from phimap.learn.trees.ensemble import BoostedTrees, trees_text
from phimap.ops import Array, ops_for
from phimap.records import Record, equal_records, of_number


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
    trees : BoostedTrees or None
        Trees that are averaged with the kernel model.
    calibration : Calibration or None
        Map from the outputs of a classifier to probabilities. None if the loss itself gives probabilities, or if no
        rows were held out.
    loss : str or None
        Loss of the solution; None in files of earlier versions, which have the parameter `loss` of the learner.
    conformal : Conformal or None
        Scores of rows that were not used in any choice, for intervals and sets of classes. None in files of earlier
        versions, and if there are no such rows.
    has_units : bool
        Whether groups or moments in time were held out in the fit, so that further rows cannot be added.
    untried : tuple of str
        Parts that were not tried because the time limit had passed: ``"corrections"``, ``"trees"``.
    """

    inputs: InputEncoding
    targets: Targets
    map: ScaledMap
    seed: np.random.SeedSequence
    n_samples_seen: int = field(metadata=of_number(least=0))
    search: SearchLog | None = None
    solution: LinearSolution | None = None
    corrections: Corrections | None = None
    trees: BoostedTrees | None = None
    calibration: Calibration | None = None
    loss: str | None = None
    conformal: Conformal | None = None
    has_units: bool = False
    untried: tuple[str, ...] = ()

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.map.scaling.shift.size == self.inputs.width, "a scaling of its rows"
        solution, corrections, units = self.solution, self.corrections, self.targets.units
        if solution is None:
            return
        n_outputs = solution.coef.shape[1]
        yield n_outputs == self.targets.n_outputs, "an output for each target or class"
        yield solution.coef.shape[0] == self.map.width, "a coefficient for each feature"
        yield units is None or units.shift.size in (1, n_outputs), "units for its targets"
        yield corrections is None or corrections.errors.shape[1] == n_outputs, "corrections of its targets"
        if self.trees is not None:
            yield self.trees.n_outputs == n_outputs, "trees of its targets"
            yield self.trees.has_labels == self.targets.has_labels, "trees of labels for labels"
            yield bool((self.trees.columns < self.inputs.width).all()), "trees of its columns"
        if self.conformal is not None:
            n_scores, scale = self.conformal.scores.shape[1], self.conformal.scale
            yield n_scores == getattr(self.targets, "n_targets", 1), "scores of its targets"
            yield scale is None or scale.coef.shape == solution.coef.shape, "a scale of the errors of its targets"
        yield (
            corrections is None or corrections.n_inputs == self.map.record.n_features,
            "corrections of its scaled rows",
        )

    @property
    def solved(self) -> LinearSolution:
        """The solution; the model must be solved."""
        assert self.solution is not None
        return self.solution

    @cached_property
    def _linear(self) -> LinearOutputs:
        """The products of features with `_coefs`, in the units of the solver, in which they fit float32."""
        return LinearOutputs(self.map, self._coefs)

    @property
    def _coefs(self) -> np.ndarray:
        """Coefficients (m, t) of the outputs, in the units of the solver, then the coefficients of the error scale."""
        coef, units = self.solved.coef, self.targets.units
        coef = coef if units is None else np.ldexp(coef, -units.exponent)
        of_errors = None if self.conformal is None else self.conformal.scale
        return coef if of_errors is None else np.concatenate([coef, of_errors.coef], axis=1)

    def unsolved(self) -> Fitted:
        """Return the model without its solution and all parts that were fitted after it."""
        return replace(self, solution=None, corrections=None, trees=None, calibration=None, conformal=None, untried=())

    def encodes_like(self, other: Fitted) -> bool:
        """Whether both models turn rows into the same features and targets into the same numbers."""
        parts = (
            (self.map.scaling, other.map.scaling),
            (self.map.record, other.map.record),
            (self.inputs.encodings, other.inputs.encodings),
        )
        return all(equal_records(own, its) for own, its in parts) and self.targets.same(other.targets)

    def for_prediction(self) -> Fitted:
        if self.solution is None:
            return self
        # All coefficients are converted in one product, as in `_linear`, so that predictions keep their bits.
        record, coefs = self.map.record.for_outputs(self._coefs)
        if record is self.map.record:
            return self
        n_outputs, units, conformal = self.solution.coef.shape[1], self.targets.units, self.conformal
        coef = coefs[:, :n_outputs] if units is None else np.ldexp(coefs[:, :n_outputs], units.exponent)
        if conformal is not None and conformal.scale is not None:
            conformal = replace(conformal, scale=replace(conformal.scale, coef=coefs[:, n_outputs:]))
        return replace(
            self,
            map=self.map.with_record(record),
            solution=replace(self.solution, coef=coef),
            conformal=conformal,
        )

    def warm(self, X: Any, compute: Compute) -> None:
        """Predict one row in float64 and in float32. Also encode `X`, a row of cells, unless it is None."""
        columns = self.map.range
        # Rows within the training ranges cause no warning.
        row = self.map.scaling.shift if columns is None or columns.low is None else columns.low
        rows: Any = sparse.csr_matrix(row[None]) if self.inputs.sparse else row[None]
        self.scores_of_rows(rows.astype(np.float64), compute)
        # Rows and targets of unusual size overflow in float32, which raises an error.
        with suppress(ValueError):
            self.scores_of_rows(rows.astype(np.float32), compute)
        if X is not None:
            self.inputs.rows(X)

    def __getstate__(self) -> dict[str, Any]:
        # Copies and workers compute `_linear` again.
        return {name: value for name, value in vars(self).items() if name != "_linear"}

    def scores(self, X: Any, compute: Compute) -> np.ndarray:
        """Return outputs (n, t) of the model, computed batch by batch; `X` are rows as users pass them."""
        return self.scores_of_rows(self.inputs.rows(X), compute)

    def scores_of_rows(self, X: Array, compute: Compute) -> np.ndarray:
        """As `scores`, for checked rows of numbers (n, d)."""
        return self._outputs(X, compute, None)

    def _outputs(self, X: Array, compute: Compute, scale: np.ndarray | None) -> np.ndarray:
        """Return the outputs (n, t) of checked rows; fill `scale` (n, t), if given, with the scale of their errors."""
        solution, units = self.solved, self.targets.units
        n_outputs, dtype = solution.coef.shape[1], ops_for(X).dtype
        height = rows_to_predict(X.shape[0], self.map.width, X.dtype.itemsize, RowShape.of(X, n_outputs))
        linear, guard = self._linear.outputs(compute), ExtrapolationGuard(self.map)
        scores = np.empty((X.shape[0], n_outputs), dtype if units is None else np.float64)
        of_errors = None if self.conformal is None else self.conformal.scale
        for start in range(0, X.shape[0], height):
            part = slice(start, start + height)
            outputs = linear(X[part])
            scores[part] = outputs[:, :n_outputs]
            if scale is not None and of_errors is not None:
                scale[part] = of_errors.of_outputs(outputs[:, n_outputs:])
            if self.corrections is not None:
                scores[part] += self.corrections.outputs(self.map.on_host(X[part]), compute.n_jobs)
            guard.inspect(X[part], start)
        if units is not None:
            scores = np.ldexp(scores, units.exponent)
        scores += solution.intercept.astype(scores.dtype)
        if solution.centre is not None:
            guard.shrink(scores, solution.centre.astype(scores.dtype))
        scores = self.averaged(scores, X, compute.n_jobs)
        guard.warn(lambda column: self.inputs.column_names[column], len(scores), self.inputs.in_units)
        return check_outputs("predictions", scores)

    def averaged(self, scores: np.ndarray, X: Array, n_jobs: int | None) -> np.ndarray:
        """Return the average (n, t) of `scores`, the outputs of the kernel model, and the outputs of the trees.

        Without trees, return `scores`. `X` are the checked rows.
        """
        if (trees := self.trees) is None:
            return scores
        found, units = trees.outputs(ops_for(X).to_host(X), n_jobs), self.targets.units
        return scores + (trees.share * ((found if units is None else units.undo(found)) - scores)).astype(scores.dtype)

    def predictions(self, X: Any, compute: Compute) -> np.ndarray:
        """Return predicted targets (n,) or (n, t) at rows `X`."""
        return self.targets.decode(self.scores(X, compute))

    def decisions(self, X: Any, compute: Compute) -> np.ndarray:
        """Return outputs of a classifier: (n,) for two classes, else (n, n_classes)."""
        scores = self.scores(X, compute)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def log_probabilities(self, X: Any, compute: Compute, *, loss: str) -> np.ndarray:
        """Log-probabilities of the classes (n, n_classes) at rows `X`; `loss` is the parameter of the learner."""
        return self.log_probabilities_of(self.scores(X, compute), loss=loss)

    def log_probabilities_of(self, scores: np.ndarray, *, loss: str) -> np.ndarray:
        """As `log_probabilities`, for the outputs (n, t) of the model at the rows."""
        found = self._log_probabilities(scores, loss)
        if found is None:
            raise ValueError(
                "probabilities need scores of rows that the solution has not seen, which this model has not kept. "
                "Fit it again with this version; a loss that is minimised on a sample needs memory for one."
            )
        return check_outputs("probabilities", found)

    def _log_probabilities(self, scores: np.ndarray, loss: str) -> np.ndarray | None:
        if (self.loss or loss) == "logistic":
            return log_probabilities(scores)
        return None if self.calibration is None else self.calibration.log_probabilities(scores)

    def probabilities_of(self, scores: np.ndarray, loss: str) -> np.ndarray | None:
        """Return the probabilities of the classes (n, n_classes) for outputs (n, t); None without a calibration."""
        found = self._log_probabilities(scores, loss)
        return None if found is None else np.exp(found)

    def probabilities(self, X: Any, compute: Compute, *, loss: str) -> np.ndarray:
        """Probabilities of the classes (n, n_classes) at rows `X`."""
        return np.exp(self.log_probabilities(X, compute, loss=loss))

    def intervals(self, X: Any, compute: Compute, *, coverage: float) -> np.ndarray:
        """Lower and upper bounds of targets at rows `X`: (n, 2), or (n, t, 2) for several targets."""
        conformal, rows = self._known_conformal(), self.inputs.rows(X)
        threshold = conformal.threshold(coverage)
        scale = None if conformal.scale is None else np.empty((rows.shape[0], threshold.size))
        outputs = self._outputs(rows, compute, scale)
        centre, unit = self.targets.interval_centre(outputs)
        reach = np.broadcast_to(threshold, centre.shape)
        if scale is not None:
            units = self.targets.units
            reach = threshold * (scale if units is None else np.ldexp(scale, units.exponent))
        elif unit is not None:
            reach = threshold * unit
        lower = np.maximum(centre - reach, self.targets.least)
        bounds = np.stack([lower, centre + reach], axis=2).astype(outputs.dtype)
        return bounds[:, 0] if threshold.size == 1 else bounds

    def class_sets(self, X: Any, compute: Compute, *, coverage: float, loss: str) -> np.ndarray:
        """Return a mask (n, n_classes) of the classes in the prediction set of each row of `X`, at a coverage."""
        threshold = self._known_conformal().threshold(coverage)[0]
        probabilities = self.probabilities(X, compute, loss=loss)
        return class_scores(probabilities) <= threshold

    def _known_conformal(self) -> Conformal:
        if self.conformal is None:
            raise ValueError(
                "intervals and sets need errors of rows that took part in no choice, which this model has not kept. "
                "Fit it again with this version; with given groups, with more of them."
            )
        return self.conformal

    @property
    def relevances(self) -> np.ndarray:
        """Shares (n_features,) of the columns in the metric; an encoded column sums the shares of its numbers."""
        metric, encoder = self.map.metric, self.inputs.encoder
        diagonal = metric if metric.ndim == 1 else np.diag(metric)
        if encoder is not None:
            diagonal = np.bincount(encoder.groups_, diagonal * encoder.variances_, minlength=self.inputs.n_features)
        return diagonal / diagonal.sum()


def of_fitted(path: str, doc: str) -> Any:
    """Return a property of a learner that reads an attribute of its fitted model, given the dotted name `path`."""
    read = attrgetter(f"_fitted.{path}")

    def value(learner: Any) -> Any:
        check_is_fitted(learner)
        return read(learner)

    return property(value, doc=doc)


# Number of sample rows whose hash is the `origin` of a state.
_ORIGIN_ROWS = 1000


@dataclass
class TrainingState(Record):
    """Sums over the rows seen (in dual form, the features of these rows), and samples of the rows.

    Attributes
    ----------
    sums : RidgeSolver
    sample : Reservoir
        Random rows; the rows with the smallest keys are validation rows.
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


# Largest number of columns that the table of a fitted model lists, the most relevant first.
_LEADING = 5


def fitted_html(fitted: Fitted | None) -> str:
    """Return an HTML table of the fitted kernel, regularisation and most relevant columns; empty before a fit."""
    if fitted is None:
        return ""
    facts = [("kernel", repr(fitted.map.kernel)), ("features", f"{fitted.map.width:,}")]
    if fitted.solution is not None:
        facts.append(("alpha", f"{fitted.solution.alpha:.3g} ({fitted.solution.criterion})"))
    if fitted.trees is not None:
        facts.append(("trees", trees_text(fitted.trees)))
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
