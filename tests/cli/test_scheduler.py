"""``phimap fit --scheduler``: the file is read by workers, and the model is that of one process."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

import phimap as pm

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")


@pytest.fixture
def here(monkeypatch):
    """Tasks in this process; the answer is the list of schedulers that were asked for."""
    asked = []

    @contextmanager
    def on_cluster(address):
        asked.append(address)
        with dask.config.set(scheduler="synchronous"):
            yield

    monkeypatch.setattr("phimap.cli.fit.on_cluster", on_cluster)
    return asked


@pytest.fixture
def frame(rng):
    X = rng.standard_normal((9000, 3))
    frame = pd.DataFrame(X, columns=list("abc"))
    return frame.assign(t=np.sin(X[:, 0]) + 0.1 * rng.standard_normal(9000))


WORDS = ("--kernel", "gaussian", "--length-scale", "median", "--metric", "none", "--features", "64", "--alpha", "1")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy", "mixed.csv"])
def test_parts_of_a_file_make_the_model_of_the_whole(phimap, here, frame, tmp_path, suffix):
    path = tmp_path / f"table.{suffix}"
    target = "t"
    if suffix == "npy":
        np.save(path, frame.to_numpy())
        target = "3"
    elif suffix == "parquet":
        frame.to_parquet(path, index=False)
    else:
        frame = frame.assign(kind=np.where(frame["a"] > 0, "x", "y")) if suffix == "mixed.csv" else frame
        frame.to_csv(path, index=False)
    models = {}
    for scheduler in (None, "tcp://there:1"):
        words = (
            "fit",
            path,
            "--target",
            target,
            *WORDS,
            "--dtype",
            "float64",
            "--model",
            tmp_path / "m.phimap",
            "--quiet",
        )
        done = phimap(*words, *(() if scheduler is None else ("--scheduler", scheduler)))
        assert done.exit_code == 0, done.output
        models[scheduler] = pm.load(tmp_path / "m.phimap")
    assert here == ["tcp://there:1"]
    one, other = models.values()
    # The columns of an encoder are float32.
    bound = 1e-4 if suffix == "mixed.csv" else 1e-9
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=0, atol=bound * np.abs(one.coef_).max())
    assert other.n_samples_seen_ == one.n_samples_seen_


def test_what_workers_cannot_read_is_told(phimap, frame, tmp_path):
    done = phimap("fit", "-", "--target", "t", "--scheduler", "local")
    assert done.exit_code != 0
    assert "--scheduler needs a file that the workers can read" in done.output
    frame.to_csv(tmp_path / "t.csv", index=False)
    done = phimap(
        "fit", tmp_path / "t.csv", "--target", "t", "--scheduler", "local", "--checkpoint", tmp_path / "passes"
    )
    assert done.exit_code != 0
    assert "--checkpoint works without --scheduler, got both" in done.output
    done = phimap("fit", tmp_path / "t.csv", "--target", "t", "--scheduler", "nowhere:/x", *WORDS)
    assert done.exit_code != 0
    assert "no scheduler answers at 'nowhere:/x'" in done.output
    # A client that is left behind would be the default one, for which later tasks would wait for ever.
    with pytest.raises(ValueError, match="No clients found"):
        distributed.default_client()
