"""Checkpoints: a fit that was stopped anywhere goes on and ends with the same bits; nothing else is taken up."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save as serialise

import phimap as pm
from phimap import _files as files
from phimap._files import DataError
from phimap.config import parse_seconds
from phimap.io import checkpoint as checkpoints
from phimap.io import checkpoint_files
from phimap.io.checkpoint import Checkpoint
from phimap.io.checkpoint_files import PassState
from phimap.io.encoding import Encoder
from phimap.learn.rows.checkpoint import CheckpointedRows, DataFingerprint
from tests.support.learners import GAUSSIAN
from tests.support.memory import traced

# More rows than the dual form keeps of few features.
N, ROWS = 2100, 300
LEARNERS = {
    "cholesky": ("KernelRegressor", {"n_components": 40, **GAUSSIAN}),
    "dual": ("KernelRegressor", {"n_components": 40, "alpha": 1.0, **GAUSSIAN}),
    "cg": ("KernelRegressor", {"n_components": 40, "solver": "cg", **GAUSSIAN}),
    "huber": ("KernelRegressor", {"n_components": 40, "loss": "huber", "alpha": 1.0, **GAUSSIAN}),
    "quantile": ("KernelRegressor", {"n_components": 40, "loss": "quantile", "alpha": 1.0, **GAUSSIAN}),
    "labels": ("KernelClassifier", {"n_components": 40, **GAUSSIAN}),
    "logistic": ("KernelClassifier", {"n_components": 40, "loss": "logistic", "alpha": 1.0, **GAUSSIAN}),
    "frames": ("KernelRegressor", {"n_components": 40, **GAUSSIAN}),
}


class Killed(BaseException):
    """Stands for SIGKILL: what is on disk stays as it is."""


class Stream:
    """Batches that stop the process after so many, over all passes; None never does."""

    def __init__(self, batches, left=None):
        self.batches, self.left, self.n_given = list(batches), left, 0

    def __iter__(self):
        for batch in self.batches:
            if self.left is not None and self.n_given >= self.left:
                raise Killed
            self.n_given += 1
            yield batch


@pytest.fixture(scope="module")
def batches():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, 3)) * [1, 2, 3]
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 / 10 + 0.1 * rng.standard_normal(N)

    def of(name):
        targets = np.where(y > 0, "warm", "cold") if LEARNERS[name][0] == "KernelClassifier" else y
        rows = X
        if name == "frames":
            rows = pd.DataFrame({"a": X[:, 0], "kind": np.where(X[:, 1] > 0, "x", "y"), "c": X[:, 2]})
        cuts = [slice(i, i + ROWS) for i in range(0, 3 * ROWS if name == "dual" else N, ROWS)]
        return [(rows[cut] if name != "frames" else rows.iloc[cut], targets[cut]) for cut in cuts]

    return of


def learner(name, **settings):
    kind, own = LEARNERS[name]
    return getattr(pm, kind)(**{"random_state": 0, "n_jobs": 1, **own, **settings})


def saved(model, folder) -> bytes:
    path = folder / "m.phimap"
    # Timings are those of one run.
    vars(model).pop("stages_")
    pm.save(model, path)
    return path.read_bytes()


@pytest.mark.parametrize("name", LEARNERS)
def test_a_killed_fit_ends_with_the_same_bits(name, batches, tmp_path):
    """Mutant: a checkpoint that is taken up a batch too late."""
    rows = batches(name)
    stream = Stream(rows)
    whole = saved(learner(name).fit_batches(stream), tmp_path)
    moments = np.random.default_rng(1).integers(1, stream.n_given, 2)
    for moment in moments:
        with pytest.raises(Killed):
            learner(name).fit_batches(Stream(rows, moment), checkpoint=Checkpoint(tmp_path / "run", 0))
        with Checkpoint(tmp_path / "run", 0) as checkpoint:
            model = learner(name).fit_batches(Stream(rows), checkpoint=checkpoint)
        assert saved(model, tmp_path) == whole
        assert not (tmp_path / "run").exists()


def test_a_killed_fit_that_skips_a_batch_is_seen(batches, tmp_path):
    """The mutant of the test above."""

    class Late(Checkpoint):
        def recall(self, index):
            known = super().recall(index)
            return known if known is None or known.complete else replace(known, n_batches=known.n_batches + 1)

    rows = batches("cholesky")
    whole = saved(learner("cholesky").fit_batches(rows), tmp_path)
    with pytest.raises(Killed):
        learner("cholesky").fit_batches(Stream(rows, 14), checkpoint=Checkpoint(tmp_path / "run", 0))
    model = learner("cholesky").fit_batches(rows, checkpoint=Late(tmp_path / "run", 0))
    assert saved(model, tmp_path) != whole


def test_a_fit_killed_while_it_writes_ends_with_the_same_bits(batches, tmp_path, monkeypatch):
    """Mutant: a file written in place, half of which a killed process leaves."""
    rows, moments = batches("cholesky"), []
    exchange = files.os.replace

    def observed(temporary, path):
        for when in ("before", "after"):
            if when == "after":
                exchange(temporary, path)
            if Path(path).parent.name == "run":
                moments.append(shutil.copytree(tmp_path / "run", tmp_path / f"moment{len(moments)}"))
                for part in moments[-1].glob(".phimap.*.part"):
                    part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])

    monkeypatch.setattr(files.os, "replace", observed)
    with Checkpoint(tmp_path / "run", 0) as checkpoint:
        whole = saved(learner("cholesky").fit_batches(rows, checkpoint=checkpoint), tmp_path)
    monkeypatch.undo()
    # Two passes, after each batch and at the end of each.
    assert len(moments) == 2 * 2 * (N // ROWS + 1)
    for moment in np.random.default_rng(2).choice(len(moments), 6, replace=False):
        with Checkpoint(moments[moment], 0) as checkpoint:
            model = learner("cholesky").fit_batches(rows, checkpoint=checkpoint)
        assert saved(model, tmp_path) == whole
    mutant = moments[-3]
    content = (mutant / "current.safetensors").read_bytes()
    (mutant / "current.safetensors").write_bytes(content[: len(content) // 2])
    with pytest.warns(UserWarning, match="is damaged"), Checkpoint(mutant):
        pass


def stopped(rows, folder, moment=9, **settings):
    """A folder that a fit left in its second pass."""
    with pytest.raises(Killed):
        learner("cholesky", **settings).fit_batches(Stream(rows, moment), checkpoint=Checkpoint(folder, 0))
    return folder


@pytest.mark.parametrize(
    ("name", "goes_on"),
    [
        ("current.safetensors", "goes on with pass 2, from its first row"),
        ("passes-000000.safetensors", "begins anew"),
    ],
)
@pytest.mark.parametrize("flipped", [True, False])
def test_damage_is_told_and_costs_time_alone(batches, tmp_path, name, goes_on, flipped):
    """Mutant: files without a checksum, of which a flipped bit in a sum is taken for what was written."""
    rows = batches("cholesky")
    whole = saved(learner("cholesky").fit_batches(rows), tmp_path)
    file = stopped(rows, tmp_path / "run") / name
    content = bytearray(file.read_bytes())
    if flipped:
        content[-9] ^= 16
    file.write_bytes(content if flipped else content[:-9])
    with pytest.warns(UserWarning, match=goes_on) as told:
        model = learner("cholesky").fit_batches(rows, checkpoint=Checkpoint(tmp_path / "run", 0))
    assert len(told) == 1
    assert "\n" not in str(told[0].message)
    assert saved(model, tmp_path) == whole
    if flipped:
        file.write_bytes(content)
        with safe_open(file, framework="numpy") as mutant:
            assert len(list(mutant.keys())) > 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 41}, "another fit: `n_components` was 40, is 41. Give the same again, delete the folder"),
        ({"alpha": 1.0}, '`alpha` was "auto", is 1.0'),
        ({"kernel": pm.kernels.Laplacian(3.0)}, "`kernel` differs"),
        ({"random_state": 1}, "`random_state` was 0, is 1"),
        ({"memory": "1GB"}, "the byte budget was [0-9]+, is 1073741824"),
    ],
)
def test_other_parameters_are_refused(batches, tmp_path, settings, message):
    rows = batches("cholesky")
    run = stopped(rows, tmp_path / "run")
    with pytest.raises(DataError, match=message):
        learner("cholesky", **settings).fit_batches(rows, checkpoint=Checkpoint(run, 0))
    # The folder is as it was.
    learner("cholesky", n_jobs=2).fit_batches(rows, checkpoint=Checkpoint(run, 0))


def test_another_version_or_processor_is_refused(batches, tmp_path, monkeypatch):
    run = stopped(batches("cholesky"), tmp_path / "run")
    monkeypatch.setattr(checkpoints, "version", lambda name: "9.9")
    with pytest.raises(DataError, match=r'the version of phimap was "[0-9.a-z]+", is "9.9"'):
        Checkpoint(run).open()
    monkeypatch.undo()
    monkeypatch.setattr(checkpoints.platform, "machine", lambda: "abacus")
    with pytest.raises(DataError, match="the processor differs"):
        Checkpoint(run).open()


def test_another_format_is_refused_and_left(batches, tmp_path, monkeypatch):
    """Mutant: what cannot be read is damaged, and removed."""
    run = stopped(batches("cholesky"), tmp_path / "run")
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    monkeypatch.setattr(checkpoint_files, "_FORMAT", "phimap-checkpoint-2")
    with pytest.raises(DataError, match="has the format phimap-checkpoint-1, of another phimap"):
        Checkpoint(run).open()
    assert {file.name: file.read_bytes() for file in run.iterdir()} == before
    monkeypatch.setattr(checkpoint_files, "_FORMATS", "nothing is told from damage")
    with pytest.warns(UserWarning, match="is damaged"):
        Checkpoint(run).open().close()
    assert [file.name for file in run.iterdir()] == ["lock"]


@pytest.mark.parametrize(
    ("change", "moment"),
    [("first", 4), ("late", 4), ("first", 12), ("late", 12), ("weights", 12), ("shorter", 12), ("longer", 12)],
)
def test_other_rows_are_refused(batches, tmp_path, monkeypatch, change, moment):
    """Mutant: only the first batch is compared."""
    rows = batches("cholesky")
    run = stopped(rows, tmp_path / "run", moment)
    others = list(rows)
    if change == "shorter":
        others = others[:-1]
    elif change == "longer":
        others = [*others, others[0]]
    else:
        place = 0 if change == "first" else -1 if moment > 7 else 1
        X, y = others[place]
        others[place] = (X, np.nextafter(y, 9)) if change != "weights" else (X, y, np.full(len(y), 2.0))
    with pytest.raises(DataError, match=r"th(an|at) the checkpoint was"):
        learner("cholesky").fit_batches(others, checkpoint=Checkpoint(run, 0))
    if change in ("late", "weights"):
        compare = DataFingerprint.check
        monkeypatch.setattr(DataFingerprint, "check", lambda own, i, batch: compare(own, i, batch) if i == 0 else None)
        monkeypatch.setattr(DataFingerprint, "finish", lambda own, n: None)
        learner("cholesky").fit_batches(others, checkpoint=Checkpoint(run, 0))


def test_a_known_fit_reads_all_rows_once_more(batches, tmp_path, monkeypatch):
    """Mutant: a fit of which all passes are known looks at one batch alone."""
    rows = batches("cholesky")
    learner("cholesky").fit_batches(rows, checkpoint=Checkpoint(tmp_path / "run", 0))
    stream = Stream(rows)
    learner("cholesky").fit_batches(stream, checkpoint=Checkpoint(tmp_path / "run", 0))
    # One batch for its kind, one when the fit is begun, and all of them at its end.
    assert stream.n_given == 2 + len(rows)
    X, y = rows[-1]
    others = [*rows[:-1], (X, -y)]
    with pytest.raises(DataError, match="rows 1,800 to 2,100 are not those"):
        learner("cholesky").fit_batches(others, checkpoint=Checkpoint(tmp_path / "run", 0))
    monkeypatch.setattr(CheckpointedRows, "check_rest", lambda own: None)
    learner("cholesky").fit_batches(others, checkpoint=Checkpoint(tmp_path / "run", 0))


def test_folders_of_other_things_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match=r"holds 'notes.txt', which is no part of a checkpoint. Give an empty"):
        Checkpoint(tmp_path).open()
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(NotADirectoryError, match="is a file"):
        Checkpoint(tmp_path / "notes.txt").open()
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        Checkpoint(tmp_path / "no" / "run").open()


def test_a_folder_serves_one_fit_at_a_time(tmp_path):
    with Checkpoint(tmp_path / "run"):
        part = tmp_path / "run" / ".phimap.abc.part"
        part.write_bytes(b"")
        with pytest.raises(DataError, match="is in use by another fit"):
            Checkpoint(tmp_path / "run").open()
        # It is the other's, who may be writing it.
        assert part.exists()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("random_state", [None, True, np.random.default_rng(0)])
def test_draws_have_to_be_repeatable(batches, tmp_path, random_state):
    with pytest.raises(ValueError, match="`random_state` must be an integer where a checkpoint is written"):
        learner("cholesky", random_state=random_state).fit_batches(
            batches("cholesky"), checkpoint=Checkpoint(tmp_path / "run")
        )


def test_a_map_that_is_drawn_anew_is_refused(batches, tmp_path):
    rows = batches("cholesky")
    settings = {"kernel": pm.FourierFeatures(n_components=40)}
    stopped(rows, tmp_path / "run", **settings)
    with pytest.raises(DataError, match="the feature map differs"):
        learner("cholesky", **settings).fit_batches(rows, checkpoint=Checkpoint(tmp_path / "run", 0))


def test_short_passes_make_few_files(batches, tmp_path):
    """With an interval of nothing every pass has a file of its own."""
    rows = batches("cg")
    written = []
    for every in (0, 3600):
        folder = tmp_path / f"every{every}"
        model = learner("cg").fit_batches(rows, checkpoint=Checkpoint(folder, every))
        written.append(len(list(folder.glob("passes-*"))))
    assert written == [model.solution_.n_passes + 1, 1]
    stream = Stream(rows)
    learner("cg").fit_batches(stream, checkpoint=Checkpoint(folder, every))
    assert stream.n_given == 2 + len(rows)


def test_a_stop_waits_for_the_batch(batches, tmp_path):
    rows, checkpoint = batches("cholesky"), Checkpoint(tmp_path / "run", 3600)
    stop = KeyboardInterrupt("now")

    class Stopping(Stream):
        def __iter__(self):
            for batch in super().__iter__():
                if self.n_given == 10:
                    checkpoint.stop(stop)
                yield batch

    with pytest.raises(KeyboardInterrupt, match="now"):
        learner("cholesky").fit_batches(Stopping(rows), checkpoint=checkpoint)
    told = []
    model = learner("cholesky").fit_batches(rows, checkpoint=Checkpoint(tmp_path / "run", 3600, told.append))
    assert told == [f"{tmp_path / 'run'}: resumes at row 300 of 2,100 (pass 2)"]
    assert saved(model, tmp_path) == saved(learner("cholesky").fit_batches(rows), tmp_path)
    reached = []
    with Checkpoint(tmp_path / "other") as busy, pytest.raises(KeyboardInterrupt):
        _stop_within(busy, stop, reached)
    assert reached


def _stop_within(checkpoint, stop, reached):
    with checkpoint.uninterrupted():
        checkpoint.stop(stop)
        reached.append(True)


def test_arrays_keep_their_order():
    """Mutant: all arrays in C order, whose products with others may be rounded in another way."""
    rng = np.random.default_rng(0)
    arrays = (rng.random((3, 4)), rng.random((3, 4)).T, np.float32(2), rng.random((2, 3, 4)).T, np.zeros((0, 3)).T)
    state = PassState.of(0, 1, arrays).state()
    for one, other in zip(arrays, state, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
        assert np.asarray(one).flags.f_contiguous == np.asarray(other).flags.f_contiguous
    mutant: dict = {}
    Encoder(mutant, ()).encode(arrays, "state")
    assert not mutant["state.1"].flags.f_contiguous


def test_a_large_state_is_written_from_where_it_is(batches, tmp_path):
    """Mutant: sums that are copied to be written need their memory twice."""
    state = PassState.of(1, 1, (np.zeros((1000, 500)),))
    (array,) = state.arrays.values()
    size = array.nbytes
    written = traced(lambda: checkpoint_files.write_states(tmp_path / "one", [state], {}))
    mutant = traced(lambda: serialise({"a": array}))
    assert written.peak < size / 10 < size <= mutant.peak


@pytest.mark.parametrize(("text", "seconds"), [("0s", 0), ("30s", 30), ("5min", 300), ("1.5h", 5400), (7, 7), ("8", 8)])
def test_times_are_read(text, seconds):
    assert parse_seconds("every", text) == seconds


@pytest.mark.parametrize("text", ["soon", "-1s", "5 minutes", "", "nan"])
def test_other_times_are_refused(text, tmp_path):
    with pytest.raises(ValueError, match="`every` must be a time such as 30s, 5min or 1h, got"):
        Checkpoint(tmp_path / "run", text)
