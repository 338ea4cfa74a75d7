"""A linear model on random features whose directions are drawn again whenever they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from phimap._validation import check_outputs
from phimap.features.fourier import FourierFeatures, FourierRecord
from phimap.kernels import StationaryKernel
from phimap.learn.blocks.blocks import feature_block
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.inputs import InputEncoding
from phimap.learn.losses.losses import CORNER, Hinge, Logistic, Loss, Squared, SquaredHinge, log_probabilities
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.scaling import Scaling
from phimap.learn.scaled_map import scaled
from phimap.learn.targets.base import Targets
from phimap.learn.targets.classes import Classes
from phimap.learn.weights import joined_weights
from phimap.ops import Array, Ops, ops_for, single_threaded_blas
from phimap.random_map import evaluate
from phimap.records import Record, of_floats, of_number

#: Number of features of a block. The directions of a block and its features of a batch take only megabytes, and matrix
#: products run at full speed.
WIDTH = 1024


@dataclass(frozen=True)
class BlockedMap(Record):
    """Random Fourier features, divided into blocks. Each block can be drawn again from the seed.

    Attributes
    ----------
    kernel : StationaryKernel
    n_features, n_components : int
        Number of columns of the rows, and number m of features of all blocks together.
    projection : str
        How the directions of a block are drawn, see `FourierFeatures`.
    seed : SeedSequence
        Block b is a `FourierFeatures` whose seed has b appended to its spawn key.
    width : int or None
        Number of features of a block; None is `WIDTH`.
    """

    kernel: StationaryKernel
    n_features: int = field(metadata=of_number(least=1))
    n_components: int = field(metadata=of_number(least=1))
    projection: str
    seed: np.random.SeedSequence
    width: int | None = field(default=None, metadata=of_number(least=1))

    @classmethod
    def of(
        cls,
        kernel: StationaryKernel,
        n_features: int,
        n_components: int,
        projection: str,
        seed: np.random.SeedSequence,
        width: int | None = None,
    ) -> BlockedMap:
        """Return a map; choose the projection if it is ``"auto"``."""
        if projection == "auto":
            invariant = kernel.spectral_law(n_features).is_rotation_invariant
            projection = "orthogonal" if invariant else "gaussian"
        return cls(kernel, n_features, n_components, projection, seed, width)

    @property
    def columns(self) -> list[slice]:
        """Slice of the columns of each block in the features (r, m) of all blocks."""
        return [self._columns(number) for number in range(-(-self.n_components // (self.width or WIDTH)))]

    def _columns(self, number: int) -> slice:
        """Slice of the columns of one block in the features (r, m) of all blocks."""
        width = self.width or WIDTH
        return slice(number * width, min((number + 1) * width, self.n_components))

    def record(self, number: int) -> FourierRecord:
        """Draw the features of one block. The features of all blocks together estimate the kernel."""
        columns = self._columns(number)
        width = columns.stop - columns.start
        seed = np.random.SeedSequence(self.seed.entropy, spawn_key=(*self.seed.spawn_key, number))
        block = FourierFeatures(self.kernel, width, projection=self.projection, random_state=seed)
        record = block.fit(np.zeros((1, self.n_features))).record_
        assert isinstance(record, FourierRecord)
        return replace(record, scale=record.scale * (width / self.n_components) ** 0.5)

    def features(self, ops: Ops, parts: Sequence[Array], n_jobs: int | None) -> Iterator[tuple[slice, list[Array]]]:
        """Yield, for each block, its columns and the list of its features of each of the `parts`.

        A part is an array of rows (r, d); all parts are of one backend.
        """
        for number, columns in enumerate(self.columns):
            yield columns, list(self.block_features(number, ops, parts, n_jobs))

    def block_features(self, number: int, ops: Ops, parts: Iterable[Array], n_jobs: int | None) -> Iterator[Array]:
        """Yield the features of each of the `parts` for one block, which is drawn once."""
        record = self.record(number).bind(ops)
        for rows in parts:
            out = ops.empty((rows.shape[0], record.n_components))
            evaluate(record, ops, rows, out, n_jobs)
            yield out

    def scores(self, X: Array, coef: np.ndarray, intercept: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Return ``phi(x)^T W + c`` (r, t), in float64, for scaled rows `X`."""
        scores = np.tile(intercept, (X.shape[0], 1))
        for columns, (Z,) in self.features(ops_for(X), (X,), n_jobs):
            scores += feature_block(Z).times(coef[columns], n_jobs)
        return scores


#: Number of sample rows of a preconditioner, and number of validation rows on which its level is checked.
SAMPLE_ROWS, VALIDATION_ROWS = 2048, 1024
#: Largest number of random rows that a preconditioner uses.
ROWS = SAMPLE_ROWS + VALIDATION_ROWS
# Ratio of two successive levels that `SamplePreconditioner.of_sample` tries: half a decade.
_STEP = 10**-0.5
# Largest accepted norm of the Gram matrix of the validation rows, preconditioned and divided by the level. A larger
# norm shows that the sample does not represent directions whose curvature is above the level.
_MOST_NORM = 30.0
# Number of steps of the power iteration, which give the norm to a few percent.
_POWERS = 15
# A batch has one row in `_STEPS` of all rows, but at most `_MOST_ROWS` and at least `_LEAST_ROWS` rows. With so many
# rows, matrix products run at full speed, and a step costs little compared with the features.
_MOST_ROWS, _LEAST_ROWS, _STEPS = 4096, 512, 8
#: Losses by name, each with a bound of its second derivative with respect to one of the t scores of a row.
LOSSES: dict[str, tuple[Loss, float]] = {
    "squared": (Squared(), 1.0),
    # This is the bound for the multinomial likelihood. The bound for the binomial likelihood is half as large.
    "logistic": (Logistic(), 0.5),
    "hinge": (Hinge(), 1 / CORNER),
    "squared_hinge": (SquaredHinge(), 2.0),
}


@dataclass(frozen=True)
class SamplePreconditioner(Record):
    r"""``P = level (Z_S^T Z_S / s + level I)^-1 = I - Z_S^T (Z_S Z_S^T + s level I)^-1 Z_S`` of s sample rows.

    Z_S holds the features of these rows, and a column of ones for the intercept. Only the sample rows and an s x s
    matrix are needed to apply P, for any number of features.

    Attributes
    ----------
    rows : array or CSR matrix of shape (s, n_features)
        Scaled rows of the sample.
    factor : ndarray of shape (s, s)
        Lower Cholesky factor of ``Z_S Z_S^T + s level I``.
    level : float
        P reduces curvatures that are above the level to about the level.
    """

    rows: Array = field(metadata=of_floats("s", None))
    factor: np.ndarray = field(metadata=of_floats("s", "s"))
    level: float = field(metadata=of_number(least=0))

    @classmethod
    def of_sample(
        cls, blocks: BlockedMap, rows: Array, penalty: float, rng: np.random.Generator, n_jobs: int | None
    ) -> SamplePreconditioner:
        """Return the preconditioner of random scaled rows (r, n_features); a third of them are validation rows.

        `penalty` is the penalty in `BlockProblem`. The level is lowered from 1 in half decades, at most to the penalty.
        Each level is tested on the Gram matrix of the validation rows, preconditioned and divided by the level: its
        norm must be at most 30. The last level that passes is taken.
        """
        size = min(SAMPLE_ROWS, -(-2 * rows.shape[0] // 3))
        others = slice(size, size + VALIDATION_ROWS) if rows.shape[0] > size else slice(0, size)
        sample, validation = rows[:size], rows[others]
        ops = ops_for(rows)
        gram = BlockTriangle.zeros(size + validation.shape[0])
        for _, parts in blocks.features(ops, (sample, validation), n_jobs):
            gram.add_products(np.concatenate([ops.to_host(part) for part in parts]).T, 1, n_jobs)
        products = gram.to_dense() + 1.0
        own, cross, own_validation = products[:size, :size], products[:size, size:], products[size:, size:]
        start = rng.standard_normal(own_validation.shape[0])
        least = max(penalty, float(np.finfo(ops.dtype).eps))
        factor, level = None, 1.0
        with single_threaded_blas():
            while (found := _shifted_factor(own, size * level)) is not None:
                if factor is not None and _norm(found, cross, own_validation, level, start) > _MOST_NORM:
                    break
                factor, chosen = found, level
                if level <= least:
                    break
                level = max(level * _STEP, least)
        assert factor is not None
        return cls(sample, factor, chosen)

    def solve(self, h: np.ndarray) -> np.ndarray:
        """``(Z_S Z_S^T + s level I)^-1 h`` for `h` (s, t)."""
        with single_threaded_blas():
            return cho_solve((self.factor, True), h)


def _shifted_factor(gram: np.ndarray, shift: float) -> np.ndarray | None:
    """Return the lower Cholesky factor of ``gram + shift I``; None if rounding makes this matrix indefinite."""
    shifted = gram.copy()
    shifted.flat[:: len(gram) + 1] += shift
    try:
        return cho_factor(shifted, lower=True, overwrite_a=True)[0]
    except LinAlgError:
        return None


def _norm(factor: np.ndarray, cross: np.ndarray, own_validation: np.ndarray, level: float, start: np.ndarray) -> float:
    """Return the norm of ``Z_J P Z_J^T / (j level)`` for j validation rows J, by power iteration."""
    vector, norm = start, 0.0
    for _ in range(_POWERS):
        vector = vector / np.linalg.norm(vector)
        vector = own_validation @ vector - cross.T @ cho_solve((factor, True), cross @ vector)
        norm = float(np.linalg.norm(vector))
        if norm == 0:
            break
    return norm / (len(own_validation) * level)


def rows_of_batch(n_rows: int) -> int:
    """Return the number of rows of a batch for a training set of `n_rows` rows."""
    return int(np.clip(n_rows // _STEPS, _LEAST_ROWS, _MOST_ROWS))


def in_random_order(
    X: Array, y: np.ndarray, weights: np.ndarray | None, rows: int, rng: np.random.Generator
) -> Iterator[Batch]:
    """Yield all rows once, in batches of about `rows` rows. The batches are copies.

    The indices are an arithmetic progression modulo n with a random start and step. The progression needs no memory,
    and separates neighbouring rows, which are similar in sorted tables.
    """
    n = X.shape[0]
    step = int(rng.integers(1, n)) if n > 1 else 1
    while gcd(step, n) > 1:
        step = int(rng.integers(1, n))
    start = int(rng.integers(n))
    bounds = np.linspace(0, n, -(-n // rows) + 1).astype(np.int64)
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        chosen = (start + step * np.arange(first, last)) % n
        yield X[chosen], y[chosen], None if weights is None else weights[chosen]


def in_order_of_stream(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """Yield batches of at most `rows` rows; any two consecutive batches together have more than `rows` rows."""
    pieces: list[Batch] = []
    held = 0
    for X, y, weights in batches:
        for first in range(0, X.shape[0], rows):
            part = slice(first, first + rows)
            piece = (X[part], y[part], None if weights is None else weights[part])
            size = piece[0].shape[0]
            if held and held + size > rows:
                yield _joined(pieces)
                pieces, held = [], 0
            pieces.append(piece)
            held += size
    if pieces:
        yield _joined(pieces)


def _joined(pieces: list[Batch]) -> Batch:
    """Join consecutive batches into one, on the host if there are several."""
    if len(pieces) == 1:
        return pieces[0]
    parts = [X for X, _, _ in pieces]
    X = (
        sparse.vstack(parts).tocsr()
        if sparse.issparse(parts[0])
        else np.concatenate([ops_for(p).to_host(p) for p in parts])
    )
    targets = np.concatenate([y for _, y, _ in pieces])
    return X, targets, joined_weights([w for _, _, w in pieces], [part.shape[0] for part in parts])


@dataclass(frozen=True)
class BlockProblem:
    """The objective: the mean of ``loss(phi(x)^T W + c, y)`` plus ``penalty |W|^2 / 2``.

    Attributes
    ----------
    blocks : BlockedMap
    loss : str
        Name of the loss in `LOSSES`.
    n_jobs : int or None
    penalty : float
        Alpha, divided by the total weight of the rows.
    preconditioner : SamplePreconditioner
    """

    blocks: BlockedMap
    loss: str
    n_jobs: int | None
    penalty: float
    preconditioner: SamplePreconditioner

    def step(
        self,
        X: Array,
        targets: np.ndarray,
        weights: np.ndarray,
        coef: np.ndarray,
        intercept: np.ndarray,
        damping: float,
    ) -> float:
        """Take one step for a batch of scaled rows, in place; return the mean loss before the step.

        The direction is the preconditioned gradient of the objective on the batch. Along the direction, a quadratic
        function bounds this objective from above. For each target, the length of the step is the distance to the
        minimum of the bound, times `damping`.

        Parameters
        ----------
        X : array or CSR matrix of shape (r, n_features)
        targets : ndarray of shape (r, t)
        weights : ndarray of shape (r,)
            Weights with mean 1 over all rows.
        coef : ndarray of shape (m, t)
        intercept : ndarray of shape (t,)
        damping : float
            Factor of the step length, from 0 to 1.
        """
        (loss, bound), penalty, preconditioner = LOSSES[self.loss], self.penalty, self.preconditioner
        ops = ops_for(X)
        shares = weights[:, None] / len(weights)
        scores = self.blocks.scores(X, coef, intercept, self.n_jobs)
        slopes = loss.slopes(scores, targets) * shares
        sample = ops.constant(preconditioner.rows) if not ops.is_sparse(preconditioner.rows) else preconditioner.rows
        # Compute the gradient, and its products with the features of the sample. The intercept counts as a constant
        # feature.
        gradient, at_intercept = np.empty_like(coef), slopes.sum(axis=0)
        products = np.tile(at_intercept, (sample.shape[0], 1))
        for columns, (Z, Z_sample) in self.blocks.features(ops, (X, sample), self.n_jobs):
            part = feature_block(Z).cross_products(slopes, self.n_jobs)[0] + penalty * coef[columns]
            gradient[columns] = part
            products += feature_block(Z_sample).times(part, self.n_jobs)
        solved = preconditioner.solve(products)
        # Compute the change of the scores along the preconditioned gradient, which overwrites the gradient block by
        # block.
        direction_at_intercept = at_intercept - solved.sum(axis=0)
        slope, curvature = at_intercept * direction_at_intercept, np.zeros(coef.shape[1])
        change = np.tile(direction_at_intercept, (X.shape[0], 1))
        for columns, (Z, Z_sample) in self.blocks.features(ops, (X, sample), self.n_jobs):
            part = gradient[columns] - feature_block(Z_sample).cross_products(solved, self.n_jobs)[0]
            slope += (gradient[columns] * part).sum(axis=0)
            curvature += penalty * np.square(part).sum(axis=0)
            change += feature_block(Z).times(part, self.n_jobs)
            gradient[columns] = part
        curvature += bound * (shares * np.square(change)).sum(axis=0)
        length = damping * np.divide(np.maximum(slope, 0), curvature, out=np.zeros_like(slope), where=curvature > 0)
        coef -= length * gradient
        intercept -= length * direction_at_intercept
        return float((shares[:, 0] * loss.values(scores, targets)).sum())


#: Number of rows of a batch in the first pass and in prediction.
ROWS_AT_A_TIME = 4096


@dataclass
class StochasticModel(Record):
    """A linear model on random features, which stores only its coefficients; steps change it in place.

    Attributes
    ----------
    inputs : InputEncoding
    targets : Targets
    scaling : Scaling
        Scaling of the columns.
    blocks : BlockedMap
        Kernel and seed of the features.
    coef : ndarray of shape (m, t)
    intercept : ndarray of shape (t,)
    seed : SeedSequence
        Seed of the named random streams.
    n_samples_seen, n_steps : int
        Number of rows seen, each counted once, and number of steps taken.
    weight_seen : float
        Sum of the weights of the rows seen.
    exponent : int
        Steps and outputs are computed for targets divided by ``2^exponent``, so that float32 can represent them. It is
        0 for most targets.
    """

    inputs: InputEncoding
    targets: Targets
    scaling: Scaling
    blocks: BlockedMap
    coef: np.ndarray = field(metadata=of_floats("m", "t"))
    intercept: np.ndarray = field(metadata=of_floats("t"))
    seed: np.random.SeedSequence
    n_samples_seen: int = field(default=0, metadata=of_number(least=0))
    weight_seen: float = field(default=0.0, metadata=of_number(least=0))
    n_steps: int = field(default=0, metadata=of_number(least=0))
    exponent: int = field(default=0, metadata=of_number(least=-2048, most=2048))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        width = self.inputs.n_features
        yield self.blocks.n_features == width == self.scaling.shift.size, "blocks and a scaling of its rows"
        yield self.scaling.root is None and self.scaling.form is None, "a scaling by columns alone"
        yield self.coef.shape[0] == self.blocks.n_components, "a coefficient for each feature"
        yield self.intercept.size == self.targets.n_outputs, "an output for each target or class"

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Return checked targets as numbers, or labels as signs (r, t)."""
        return self.targets.signs(y) if isinstance(self.targets, Classes) else y.reshape(len(y), -1)

    def step(self, batch: Batch, problem: BlockProblem, damping: float) -> float:
        """Take one step for a batch; return its mean loss before the step.

        Weights are divided by the mean weight of all rows seen.
        """
        X, y, weights = batch
        mean_weight = self.weight_seen / self.n_samples_seen
        counted = np.ones(X.shape[0]) if weights is None else weights / mean_weight
        self.n_steps += 1
        coef, intercept = (np.ldexp(part, -self.exponent) for part in (self.coef, self.intercept))
        targets = np.ldexp(self.encode(y), -self.exponent)
        loss = problem.step(scaled(self.scaling, X), targets, counted, coef, intercept, damping)
        self.coef, self.intercept = (np.ldexp(part, self.exponent) for part in (coef, intercept))
        return loss

    def scores(self, X: Any, n_jobs: int | None) -> np.ndarray:
        """Return outputs (n, t), computed batch by batch; `X` are rows as users pass them."""
        X = self.inputs.training_rows(X)
        scores = np.empty((X.shape[0], self.intercept.size))
        coef, intercept = (np.ldexp(part, -self.exponent) for part in (self.coef, self.intercept))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, X.shape[0], ROWS_AT_A_TIME):
                part = slice(start, start + ROWS_AT_A_TIME)
                scores[part] = self.blocks.scores(scaled(self.scaling, X[part]), coef, intercept, n_jobs)
            dtype = np.float64 if self.exponent else ops_for(X).dtype
            return check_outputs("predictions", np.ldexp(scores, self.exponent).astype(dtype, copy=False))

    def predictions(self, X: Any, n_jobs: int | None) -> np.ndarray:
        """Return predicted targets (n,) or (n, t) at rows `X`."""
        return self.targets.decode(self.scores(X, n_jobs))

    def decisions(self, X: Any, n_jobs: int | None) -> np.ndarray:
        """Return outputs of a classifier: (n,) for two classes, else (n, n_classes)."""
        scores = self.scores(X, n_jobs)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def log_probabilities(self, X: Any, n_jobs: int | None) -> np.ndarray:
        """Logarithms of the probabilities of the classes (n, n_classes), for the logistic loss."""
        return check_outputs("probabilities", log_probabilities(self.scores(X, n_jobs)))

    def probabilities(self, X: Any, n_jobs: int | None) -> np.ndarray:
        """Probabilities of the classes (n, n_classes), for the logistic loss."""
        return np.exp(self.log_probabilities(X, n_jobs))
