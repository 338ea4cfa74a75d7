"""Tables in several files, and reading ahead, from the command line: the bits of one file read plainly."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from phimap.cli import first_pass, predict, rows

SMALL = ("--kernel", "gaussian", "--metric", "none", "--length-scale", "median", "--features", "32", "-q")


def content(model):
    """What a model file holds; safetensors shuffles the order of its header."""
    stored = model.read_bytes()
    stop = 8 + int.from_bytes(stored[:8], "little")
    return json.loads(stored[8:stop]), stored[stop:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table in one file, and in three."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "k": rng.choice(list("uvw"), 300), "b": rng.normal(size=300)})
    frame["y"] = frame["a"] + (frame["k"] == "u") + 0.1 * rng.normal(size=300)
    place = tmp_path_factory.mktemp("tables")
    frame.to_parquet(place / "whole.parquet", index=False)
    (place / "parts").mkdir()
    for k, part in enumerate((slice(0, 70), slice(70, 71), slice(71, 300))):
        frame[part].to_parquet(place / "parts" / f"{k}.parquet", index=False)
    return place


@pytest.mark.parametrize("extra", [(), ("--drop", "k")])
def test_parts_make_the_model_of_one_file(phimap, folder, tmp_path, extra):
    models = []
    for name in ("whole.parquet", "parts", "parts/*.parquet"):
        model = tmp_path / "m.phimap"
        result = phimap("fit", folder / name, "--target", "y", *SMALL, *extra, "--model", model)
        assert result.exit_code == 0, result.stderr
        models.append(content(model))
    assert models[0] == models[1] == models[2]
    written = []
    for name in ("whole.parquet", "parts"):
        out = tmp_path / "out.csv"
        result = phimap("predict", tmp_path / "m.phimap", folder / name, "--id", "k", "-o", out)
        assert result.exit_code == 0, result.stderr
        written.append(out.read_bytes())
    assert written[0] == written[1]
    assert written[0].count(b"\n") == 301


def test_reading_ahead_changes_no_bit(phimap, folder, tmp_path, monkeypatch):
    found = []
    for plain in (False, True):
        if plain:
            for module in (first_pass, predict, rows):
                monkeypatch.setattr(module, "read_ahead", iter)
        model, out = tmp_path / f"{plain}.phimap", tmp_path / f"{plain}.csv"
        assert phimap("fit", folder / "parts", "--target", "y", *SMALL, "--model", model).exit_code == 0
        assert phimap("predict", model, folder / "parts", "-o", out).exit_code == 0
        found.append((content(model), out.read_bytes()))
    assert found[0] == found[1]


def test_bad_parts_are_one_line(phimap, folder, tmp_path):
    result = phimap("fit", folder / "parts" / "*.csv", "--target", "y")
    assert result.exit_code == 2
    assert result.stderr.endswith("*.csv: no file is named like this. Check the pattern.\n")
    result = phimap("fit", folder / "parts")
    assert result.exit_code == 2
    assert "which column is to be predicted? Name it with --target." in result.stderr
    for k, values in enumerate(([1.0, 2.0], ["x", "y"])):
        pd.DataFrame({"a": values, "y": [0.0, 1.0]}).to_parquet(tmp_path / f"{k}.parquet")
    result = phimap("fit", tmp_path, "--target", "y")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "1.parquet: column 'a' holds text" in result.stderr
