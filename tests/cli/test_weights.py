"""``phimap fit --weights``: a row of weight w counts like w equal rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from phimap.io import holdout_mask
from tests.cli.test_bad_input import assert_refused
from tests.cli.test_fit import values

WORDS = ("--kernel", "gaussian", "--features", "64", "--metric", "none", "--length-scale", "2", "--alpha", "0.1")
OPTIONS = (*WORDS, "--corrections", "none", "--trees", "none", "--holdout", "0", "--standardize", "none", "-q")


@pytest.fixture
def frame(rng) -> pd.DataFrame:
    X = rng.standard_normal((200, 2))
    y = X[:, 0] + 0.5 * rng.standard_normal(200)
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "w": rng.integers(0, 4, 200), "y": y})


def predictions(phimap, folder, frame, *options) -> np.ndarray:
    frame.to_csv(folder / "t.csv", index=False)
    done = phimap("fit", folder / "t.csv", "--target", "y", *options, *OPTIONS, "--model", folder / "m.phimap")
    assert done.exit_code == 0, done.stderr
    (folder / "new.csv").write_text("a,b,town\n0.5,0,x\n-1,1,z\n1,-1,x\n")
    found = phimap("predict", folder / "m.phimap", folder / "new.csv").stdout
    return np.array([float(line) for line in found.split()[1:]])


@pytest.mark.parametrize("town", [None, ["x", "z"]])
def test_weights_count_like_equal_rows(phimap, tmp_path, frame, town):
    if town is not None:
        frame["town"] = np.where(np.arange(200) % 2, *town)
    repeated = frame.loc[np.repeat(np.arange(200), frame["w"])].drop(columns="w")
    weighted = predictions(phimap, tmp_path, frame, "--weights", "w")
    plain = predictions(phimap, tmp_path, frame.drop(columns="w"))
    if town is None:
        np.testing.assert_allclose(weighted, predictions(phimap, tmp_path, repeated), rtol=1e-3)
    assert np.abs(weighted - plain).max() > 0.01


def test_bad_weights_are_refused_by_their_row(phimap, tmp_path, frame):
    words = ("fit", tmp_path / "t.csv", "--target", "y", "--weights", "w", *OPTIONS)
    for value, told in ((-1, "got -1 in data row 4"), (None, "got none in data row 4")):
        frame.assign(w=frame["w"].where(frame.index != 3, value)).to_csv(tmp_path / "t.csv", index=False)
        assert_refused(phimap(*words), f"column 'w' must hold a weight of at least 0 in every row, {told}")
    assert_refused(phimap(*words, "--scheduler", "local"), "--weights works without --scheduler")


def test_a_weight_of_text_is_quoted(phimap, tmp_path, frame):
    frame.assign(town="Ulm").to_csv(tmp_path / "t.csv", index=False)
    done = phimap("fit", tmp_path / "t.csv", "--target", "y", "--weights", "town", *OPTIONS)
    assert_refused(done, "got 'Ulm' in data row 1. Correct it, or name another column.")


@pytest.mark.parametrize("weights", [(), ("--weights", "w")])
def test_the_error_of_the_mean_is_that_of_the_training_rows(phimap, tmp_path, frame, weights):
    """It was that of the mean of the scored rows, which is 0 for a single one."""
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = (*OPTIONS, *weights, "--holdout", "0.02", "--model", tmp_path / "m.phimap")
    columns = () if weights else ("--drop", "w")
    done = phimap("fit", tmp_path / "t.csv", "--target", "y", *words, *columns)
    held_out = holdout_mask(0, 200, 0.02)
    trained, scored = frame[~held_out], frame["y"][held_out]
    mean = np.average(trained["y"], weights=trained["w"] if weights else None)
    assert float(values(done.stdout)["RMSE_of_the_mean"]) == pytest.approx(
        np.sqrt(np.mean((scored - mean) ** 2)), rel=1e-3
    )
    (tmp_path / "new.csv").write_text("a,b,w,y\n0,0,1,5\n")
    done = phimap("predict", tmp_path / "m.phimap", tmp_path / "new.csv", "--target", "y", "-o", tmp_path / "out.csv")
    assert float(values(done.stdout)["RMSE_of_the_mean"]) == pytest.approx(5 - mean, rel=1e-3)
