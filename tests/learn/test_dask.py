"""Learners on Dask collections: what they fit, predict and score is what they do in memory, and wrong input is told."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import phimap as pm
from phimap._dask import computed, shared, task
from phimap._progress import Advance
from phimap.config import memory_budget
from phimap.learn.rows import accumulator
from phimap.learn.rows.accumulator import Accumulator, PartedRows
from phimap.ops import run_tasks
from tests.support.learners import GAUSSIAN

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
cloudpickle = pytest.importorskip("cloudpickle")

N, D, ROWS = 5000, 4, 1100


@pytest.fixture(autouse=True)
def _synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    """Everything that goes to workers is pickled, as between processes; the answer lists the bytes of each."""
    sizes = []

    def pickled(value):
        text = cloudpickle.dumps(value)
        sizes.append(len(text))
        return shared(cloudpickle.loads(text))

    monkeypatch.setattr(accumulator, "shared", pickled)
    return sizes


@pytest.fixture
def rows(rng):
    X = rng.standard_normal((N, D)) * [1, 2, 1, 1] + [0, 5, 0, 0]
    return X, np.sin(X[:, 0]) + X[:, 1] / 5 + 0.1 * rng.standard_normal(N)


def lazy(array, rows=ROWS):
    return da.from_array(array, chunks=(rows, *array.shape[1:]))


def of_unknown_lengths(array):
    """The same rows in blocks whose lengths Dask does not know, one of them empty."""
    more = np.concatenate([array[:2000], array[:500], array[2000:]])
    kept = np.ones(len(more), dtype=bool)
    kept[len(array[:2000]) :][: len(array[:500])] = False
    chunks = tuple(len(part) for part in (array[:2000], array[:500], array[2000:]))
    return da.from_array(more, chunks=(chunks, *array.shape[1:]))[da.from_array(kept, chunks=(chunks,))]


def regressor(**settings):
    return pm.KernelRegressor(n_components=64, random_state=0, n_jobs=1, **{**GAUSSIAN, "alpha": 5.0, **settings})


def classifier(**settings):
    return pm.KernelClassifier(n_components=64, random_state=0, n_jobs=1, **{**GAUSSIAN, "alpha": 5.0, **settings})


def assert_same_models(one, other, tolerance=1e-9):
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=0, atol=tolerance * np.abs(other.coef_).max())
    # Solvers in passes keep no state for further rows.
    assert hasattr(one, "_state") == hasattr(other, "_state")
    if hasattr(one, "_state"):
        np.testing.assert_array_equal(one._state.sample.keys, other._state.sample.keys)
    assert one.n_samples_seen_ == other.n_samples_seen_


@pytest.mark.parametrize("kind", [lazy, of_unknown_lengths])
@pytest.mark.parametrize(
    "settings", [{}, {"alpha": "auto"}, {"solver": "cg"}, {"loss": "huber"}], ids=lambda settings: str(settings)
)
def test_a_regressor_is_that_of_the_rows_in_memory(rows, kind, settings):
    X, y = rows
    model, memory = regressor(**settings).fit(kind(X), kind(y)), regressor(**settings).fit(X, y)
    # What alpha = "auto" minimises is flat, and conjugate gradients end at a tolerance.
    assert_same_models(model, memory, 1e-5 if settings else 1e-10)
    predicted = model.predict(kind(X))
    assert predicted.dtype == np.float64
    assert predicted.chunks == kind(y).chunks or np.isnan(predicted.chunks[0]).all()
    np.testing.assert_allclose(predicted.compute(), model.predict(X), rtol=1e-12, atol=1e-12)
    assert model.score(kind(X), kind(y)) == pytest.approx(model.score(X, y), rel=1e-12)


@pytest.mark.parametrize("kind", [lazy, of_unknown_lengths])
@pytest.mark.parametrize("settings", [{"loss": "quantile", "quantile": (0.1, 0.5, 0.9)}, {"loss": "gamma"}], ids=str)
def test_quantiles_and_means_are_those_of_the_rows_in_memory(rows, kind, settings):
    X, y = rows[0], np.exp(rows[1])
    model, memory = regressor(**settings).fit(kind(X), kind(y)), regressor(**settings).fit(X, y)
    predicted = model.predict(kind(X))
    assert predicted.dtype == np.float64
    np.testing.assert_allclose(predicted.compute(), model.predict(X), rtol=1e-12, atol=1e-12)
    # Where the pinball loss has corners, rounding may lead to another solution of the same loss.
    np.testing.assert_allclose(model.predict(X), memory.predict(X), atol=0.02 * y.std())
    weights = np.random.default_rng(0).uniform(0.5, 2, N)
    found = model.score(kind(X), kind(y), kind(weights))
    assert found == pytest.approx(model.score(X, y, weights), rel=1e-9)
    assert found > 0.2


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_classifier_is_that_of_the_rows_in_memory(rows, loss):
    X, y = rows
    labels = np.array(["low", "mid", "high"])[np.digitize(y, [0, 1])]
    model, memory = classifier(loss=loss).fit(lazy(X), lazy(labels)), classifier(loss=loss).fit(X, labels)
    assert_same_models(model, memory)
    assert model.score(lazy(X), lazy(labels)) == memory.score(X, labels)
    for method, shape in (("predict", (N,)), ("predict_proba", (N, 3)), ("decision_function", (N, 3))):
        found, wanted = getattr(model, method)(lazy(X)), getattr(model, method)(X)
        assert (found.shape, found.dtype) == (shape, wanted.dtype)
        if method == "predict":
            np.testing.assert_array_equal(found.compute(), wanted)
        else:
            np.testing.assert_allclose(found.compute(), wanted, rtol=1e-9, atol=1e-12)


def test_weights_count_and_rows_of_weight_zero_are_not_there(rows, rng):
    X, y = rows
    weights = rng.integers(0, 3, N).astype(float)
    model, memory = regressor().fit(lazy(X), lazy(y), lazy(weights)), regressor().fit(X, y, weights)
    assert_same_models(model, memory, 1e-10)
    assert model.score(lazy(X), lazy(y), lazy(weights)) == pytest.approx(memory.score(X, y, weights), rel=1e-9)
    # Mutant: first rows that count rows of weight zero draw other samples.
    unweighted = regressor().fit(lazy(X), lazy(y))
    assert not np.array_equal(unweighted._state.sample.keys, model._state.sample.keys)


def test_targets_of_several_columns_and_sparse_rows(rows):
    X, y = rows
    Y = np.column_stack([y, -y, y**2])
    many = regressor().fit(lazy(X), lazy(Y))
    assert many.predict(lazy(X)).shape == (N, 3)
    assert many.score(lazy(X), lazy(Y)) == pytest.approx(many.score(X, Y), rel=1e-12)
    blocks = lazy(X).map_blocks(sparse.csr_matrix)
    model, memory = regressor().fit(blocks, lazy(y)), regressor().fit(sparse.csr_matrix(X), y)
    assert_same_models(model, memory, 1e-10)
    np.testing.assert_allclose(model.predict(blocks).compute(), memory.predict(sparse.csr_matrix(X)), rtol=1e-9)


def test_images_stay_images(rng):
    X = rng.integers(0, 256, (60, 4, 4, 1)).astype(np.uint8)
    y = X.reshape(60, -1).mean(axis=1)
    settings = {"n_components": 32, "random_state": 0, "alpha": 1.0, "metric": None}
    model = pm.KernelRegressor("cntk", **settings).fit(lazy(X, 20), lazy(y, 20))
    memory = pm.KernelRegressor("cntk", **settings).fit(X, y)
    assert model.image_shape_ == (4, 4, 1)
    np.testing.assert_allclose(model.predict(lazy(X, 20)).compute(), memory.predict(X), rtol=1e-4)


@pytest.mark.parametrize(
    "settings", [{}, {"solver": "cg"}, {"loss": "huber"}, {"loss": "quantile"}, {"loss": "logistic"}], ids=str
)
def test_no_training_rows_are_sent(rows, sent, settings):
    """The sample alone has 130 kB. Mutant: the model as it is, which has it."""
    X, y = rows
    kind = classifier if settings.get("loss") == "logistic" else regressor
    model = kind(**settings).fit(lazy(X), lazy(y > 0 if kind is classifier else y))
    assert max(sent) < 60_000
    if not settings:
        assert len(cloudpickle.dumps(model)) > 130_000 > len(cloudpickle.dumps(model._fitted))


# Data frames ---------------------------------------------------------------------------------------------------


@pytest.fixture
def table(rows, rng):
    X, y = rows
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["colour"] = rng.choice(["red", "green", "blue"], N)
    frame["code"] = [f"k{i}" for i in rng.integers(0, 60, N)]
    frame.loc[7, "a"] = np.nan
    return frame, pd.Series(y + (frame["colour"] == "red"), name="target")


def test_a_frame_is_encoded_as_in_memory(table):
    """Codes of 60 levels are means of the target, so that the folds of the rows matter."""
    frame, y = table
    X = dd.from_pandas(frame, npartitions=4)
    model, memory = regressor().fit(X, dd.from_pandas(y, npartitions=4)), regressor().fit(frame, y)
    assert model.encoder_.summary_ == memory.encoder_.summary_
    np.testing.assert_array_equal(model.encoder_.transform(frame), memory.encoder_.transform(frame))
    # float32: the encoder gives no more.
    assert_same_models(model, memory, 1e-3)
    predicted = model.predict(X)
    assert predicted.dtype == np.float32
    np.testing.assert_allclose(predicted.compute(), model.predict(frame), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("missing", [False, True])
def test_cells_decide_whether_numbers_are_encoded(table, missing):
    frame, y = table
    frame = frame[list("abcd")] if missing else frame[list("abcd")].fillna(0)
    model = regressor().fit(dd.from_pandas(frame, npartitions=3), dd.from_pandas(y, npartitions=3))
    memory = regressor().fit(frame, y)
    assert (model.encoder_ is None) == (memory.encoder_ is None) == (not missing)
    np.testing.assert_array_equal(model.feature_names_in_, memory.feature_names_in_)
    assert_same_models(model, memory, 1e-3 if missing else 1e-10)


def test_an_encoder_of_a_collection_is_that_of_the_frame(table):
    frame, y = table
    X, targets = dd.from_pandas(frame, npartitions=5), dd.from_pandas(y, npartitions=5)
    encoder, memory = pm.TableEncoder().fit(X, targets), pm.TableEncoder().fit(frame, y)
    assert encoder.summary_ == memory.summary_
    found = encoder.transform(X)
    assert (found.shape[1], found.dtype) == (memory.n_columns_out_, np.float32)
    np.testing.assert_array_equal(found.compute(), memory.transform(frame))
    with pytest.raises(ValueError, match=r"fit_transform.* Use fit"):
        pm.TableEncoder().fit_transform(X, targets)


# Wrong input ---------------------------------------------------------------------------------------------------


def test_wrong_collections_are_told_in_one_line(rows):
    X, y = rows
    for arguments, message in (
        ((da.from_array(X, chunks=(ROWS, 2)), lazy(y)), "all columns in one chunk, got 2 .* Use X.rechunk"),
        ((lazy(X), y), "`y` must be a Dask collection.*ndarray"),
        ((lazy(X), lazy(y, 700)), "the same blocks of rows.*rechunk"),
        ((lazy(X), lazy(y), np.ones(N)), "`sample_weight` must be a Dask collection"),
        ((dask.delayed(X), lazy(y)), "`X` must be a Dask array or data frame, got a Dask Delayed"),
        ((lazy(X[:1]), lazy(y[:1])), "1 sample"),
        ((lazy(X), lazy(np.full(N, np.nan))), r"Input y contains NaN at row 0\..* from row \d+ of the collection"),
    ):
        with pytest.raises((ValueError, TypeError), match=message) as caught:
            regressor().fit(*arguments)
        assert "\n" not in str(caught.value)


def test_a_bad_cell_is_told_with_the_place_of_its_block(rows):
    X, y = rows
    X[2 * ROWS + 3, 1] = np.inf
    with pytest.raises(ValueError, match=f"at row 3, column 1.* from row {2 * ROWS} of the collection"):
        regressor().fit(lazy(X), lazy(y))


def test_wrong_rows_are_refused_before_anything_is_computed(rows):
    X, y = rows
    model = regressor().fit(X, y)
    with pytest.raises(ValueError, match=r"X has 3 features.*expecting 4"):
        model.predict(lazy(X[:, :3]))
    with pytest.raises(ValueError, match=r"return_std.*Compute the rows first"):
        model.predict(lazy(X), return_std=True)
    with pytest.raises(NotFittedError):
        regressor().predict(lazy(X))


def test_empty_collections_are_refused(rows):
    X, y = (lazy(array) for array in rows)
    with pytest.raises(ValueError, match="training data are empty"):
        regressor().fit(X[X[:, 0] > 99], y[X[:, 0] > 99])


# The tree ------------------------------------------------------------------------------------------------------


class Order(Accumulator):
    """Keeps in which order parts were merged."""

    def __init__(self, first_row):
        self.seen = [first_row]

    def update(self, rows, targets, weights):
        self.seen.append(rows)

    def merge(self, later):
        self.seen.append(later.seen)

    @property
    def state(self):
        return self.seen

    def resume(self, state):
        self.seen = state


def test_parts_are_merged_in_a_tree_of_eight():
    """Mutant: a chain of merges would hold as many sums as parts at its end, one after the other."""
    parts = [(f"part {i}",) for i in range(20)]
    found = PartedRows(parts, list(range(20)), lambda first_row, name: [(name, None, None)]).accumulate(Order)
    leaves = [[i, f"part {i}"] for i in range(20)]
    groups = [[*group[0], *group[1:]] for group in (leaves[:8], leaves[8:16], leaves[16:])]
    assert found.seen == [*groups[0], *groups[1:]]


def test_a_merge_changes_no_state_that_others_may_ask_for_again(monkeypatch):
    states = [[0, "a"], [1, "b"]]
    first, again = (accumulator._merged(Order, states) for _ in range(2))
    assert first == again == [0, "a", [1, "b"]]
    assert states == [[0, "a"], [1, "b"]]
    # Mutant: merging in place.
    monkeypatch.setattr(accumulator, "deepcopy", lambda state: state)
    in_place = [str(accumulator._merged(Order, states)) for _ in range(2)]
    assert in_place[0] != in_place[1]


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_the_budget_of_the_caller_holds_in_tasks(scheduler):
    with dask.config.set(scheduler=scheduler), pm.config(memory="123MB"):
        assert computed(task(memory_budget)) == 123 * 2**20
    assert computed(shared({"a": 1})) == {"a": 1}


def threads_of_tasks() -> int:
    return len(set(run_tasks(lambda _: threading.get_ident(), range(8), n_jobs=4)))


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_a_task_has_one_thread(scheduler):
    with dask.config.set(scheduler=scheduler):
        assert computed([task(threads_of_tasks) for _ in range(3)]) == [1, 1, 1]


def test_a_bar_stays_here():
    told = []
    advance = Advance(told.append)
    advance(3)
    pickle.loads(pickle.dumps(advance))(4)
    assert told == [3]


def test_files_of_parquet_are_cut_alike_for_rows_and_targets(rows, tmp_path):
    X, y = rows
    frame = pd.DataFrame(X, columns=list("abcd")).assign(target=y)
    for part in range(3):
        frame[part * 1700 : (part + 1) * 1700].to_parquet(tmp_path / f"part-{part}.parquet")
    table = dd.read_parquet(tmp_path)
    features, targets = table.drop(columns="target"), table["target"]
    # Dask itself would read the one column of targets in fewer parts.
    assert targets.optimize().npartitions < features.optimize().npartitions == 3
    model = regressor().fit(features, targets)
    memory = regressor().fit(frame.drop(columns="target"), frame["target"])
    np.testing.assert_allclose(model.coef_, memory.coef_, rtol=1e-9)
    assert model.score(features, targets) == pytest.approx(memory.score(frame.drop(columns="target"), y), rel=1e-9)
