"""The convolutional experiments on a small set of images."""

import numpy as np
import pytest

from phimap._progress import Stages
from phimap.bench import cntk
from phimap.bench.options import BenchOptions


@pytest.fixture
def folder(tmp_path):
    """Bars across or down images of bytes: what windows tell and pixels do not."""
    rng = np.random.default_rng(0)
    parts = {}
    for part, n in (("train", 80), ("test", 40)):
        X, y = rng.integers(0, 60, size=(n, 8, 8)).astype(np.uint8), rng.integers(2, size=n)
        for image, label, place in zip(X, y, rng.integers(8, size=n), strict=True):
            image[(place, slice(None)) if label else (slice(None), place)] += 150
        parts |= {f"X_{part}": X, f"y_{part}": y}
    np.savez(tmp_path / "mnist.npz", **parts)
    return tmp_path


def test_every_method_is_fitted_and_tabled(folder):
    options = BenchOptions("cntk-mnist", data=folder, widths=[256], rows=80, quiet=True)
    found = cntk.report(options, Stages())
    accuracies = {row["method"]: row["accuracy"] for row in found.measurements}
    assert set(accuracies) == {"sketch", "gradient", "exact"}
    assert accuracies["sketch"] > 80
    assert accuracies["exact"] > 80
    (table,) = found.tables
    assert [line[0] for line in table.lines] == ["exact", "sketch", "gradient"]
    assert table.columns[-1] == "unlike exact (%)"
    apart = {row["method"]: row["disagreement"] for row in found.measurements}
    assert apart["exact"] is None
    # Labels that differ are at least as many as those that one of both misses more.
    assert accuracies["exact"] - apart["sketch"] <= accuracies["sketch"] <= accuracies["exact"] + apart["sketch"]


def test_gradient_features_are_about_as_many():
    for width in (1024, 4096, 16384):
        assert abs(cntk.feature_map("gradient", 3, width, 0).output_width(0) / width - 1) < 0.15
