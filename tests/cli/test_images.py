"""Folders of images from the shell: fit, predict, info, report, and what is refused."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import phimap as pm
from phimap.cli.commands import app
from phimap.io import open_table
from tests.cli.test_bad_input import assert_refused
from tests.cli.test_fit import values
from tests.support.learners import FIXED

SMALL = ("--features", "128", "--quiet")


@pytest.fixture(scope="module")
def bars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images with a bar ``across`` or ``down``, 7 x 6 in grey, and a model of them."""
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    for i in range(80):
        image = rng.integers(0, 60, (7, 6), dtype=np.uint8)
        kind, place = ("across", (i % 7, slice(None))) if i % 2 else ("down", (slice(None), i % 6))
        image[place] += 150
        (folder / "bars" / kind).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / "bars" / kind / f"{i:02}.png")
    words = ["fit", str(folder / "bars"), "--kernel", "cntk", "--model", str(folder / "bars.phimap"), *SMALL]
    assert CliRunner().invoke(app, words).exit_code == 0
    return folder


def test_fit_scores_held_out_images(phimap, bars):
    result = phimap("fit", bars / "bars", "--kernel", "cntk", "--holdout", "0.3", *SMALL)
    assert result.exit_code == 0, result.stderr
    found = values(result.stdout)
    assert float(found["accuracy"]) >= 0.9
    assert int(found["rows_trained"]) + int(found["rows_held_out"]) == 80
    assert found["task"] == "classification"


def test_the_model_is_that_of_the_library(phimap, bars):
    table = open_table(bars / "bars", "class")
    kept = pm.load(bars / "bars.phimap")
    X, y = next(table.batches(80))
    model = pm.KernelClassifier("cntk", 128, standardize="global", random_state=0, **FIXED)
    phimap("fit", bars / "bars", "--kernel", "cntk", "--holdout", "0", "--model", bars / "all.phimap", *SMALL)
    whole = pm.load(bars / "all.phimap")
    np.testing.assert_array_equal(whole.decision_function(X), model.fit_batches(table).decision_function(X))
    assert (kept.predict(X) == y).mean() > 0.9


def test_the_shape_of_the_network_is_chosen_by_options(phimap, bars, tmp_path):
    model, report = tmp_path / "m.phimap", tmp_path / "r.html"
    shape = ("--depth", "3", "--filter-size", "5", "--pooling", "flatten")
    outputs = ("--model", model, "--report", report)
    result = phimap("fit", bars / "bars", "--kernel", "cntk", *shape, *outputs, *SMALL)
    assert result.exit_code == 0, result.stderr
    kernel = pm.load(model).kernel_
    assert (kernel.depth, kernel.filter_size, kernel.pooling, kernel.image_shape) == (3, 5, "flatten", (7, 6, 1))
    text = phimap("info", model).stdout
    for fact in ("7 x 6 x 1", "across, down", "filter_size=5"):
        assert fact in text
    assert "images of 7 x 6 x 1" in report.read_text()


def test_predictions_name_their_files(phimap, bars, tmp_path):
    model, out = bars / "bars.phimap", tmp_path / "p.csv"
    result = phimap("predict", model, bars / "bars", "--target", "class", "-o", out)
    assert result.exit_code == 0, result.stderr
    assert float(values(result.stdout)["accuracy"]) > 0.9
    rows = list(csv.reader(io.StringIO(out.read_text())))
    assert rows[0] == ["file", "prediction"]
    assert [row[0] for row in rows[1:]] == list(open_table(bars / "bars").row_names)
    # Without class folders the same images are predicted alike.
    loose = list(csv.reader(io.StringIO(phimap("predict", model, bars / "bars" / "down").stdout)))
    assert [row[0] for row in loose[1:3]] == ["00.png", "02.png"]
    assert [row[1] for row in loose[1:]] == [row[1] for row in rows[1:] if row[0].startswith("down")]


def test_images_of_another_kind_become_the_models(phimap, bars, tmp_path):
    model = tmp_path / "m.phimap"
    options = ("--kernel", "cntk", "--size", "5x4", "--channels", "3", "--model", model)
    assert phimap("fit", bars / "bars", *options, *SMALL).exit_code == 0
    assert pm.load(model).sample_shape_ == (5, 4, 3)
    one = phimap("predict", model, bars / "bars" / "down").stdout
    for file in sorted((bars / "bars" / "down").iterdir()):
        (tmp_path / "down").mkdir(exist_ok=True)
        Image.open(file).convert("RGB").save(tmp_path / "down" / file.name)
    assert phimap("predict", model, tmp_path / "down").stdout == one


def test_arrays_of_images_serve_as_well(phimap, bars, tmp_path):
    X, y = next(open_table(bars / "bars", "class").batches(80))
    np.savez(tmp_path / "bars.npz", X=X[..., 0], y=y)
    report = tmp_path / "r.html"
    words = ("--target", "y", "--kernel", "cntk", "--model", tmp_path / "m.phimap", "--report", report)
    assert phimap("fit", tmp_path / "bars.npz", *words, *SMALL).exit_code == 0
    assert "<svg" in report.read_text()
    one, other = (pm.load(file) for file in (tmp_path / "m.phimap", bars / "bars.phimap"))
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    predicted = phimap("predict", bars / "bars.phimap", tmp_path / "bars.npz").stdout.splitlines()[1:]
    named = phimap("predict", bars / "bars.phimap", bars / "bars").stdout.splitlines()[1:]
    assert predicted == [line.rpartition(",")[2] for line in named]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", "kind"), ("'class'", "'kind'")),
        (("--drop", "c0"), ("no columns", "--drop")),
        (("--columns", "c0"), ("no columns", "--columns")),
        (("--size", "32"), ("--size", "32x32", "'32'")),
        (("--size", "0x4"), ("--size", "'0x4'")),
        (("--channels", "4"), ("--channels", "got 4")),
        (("--kernel", "cntk", "--depth", "1"), ("--depth", "at least 2")),
        (("--kernel", "cntk", "--filter-size", "2"), ("--filter-size", "odd")),
        (("--kernel", "ntk", "--pooling", "gap"), ("--pooling", "cntk", "ntk")),
        (("--filter-size", "3"), ("--filter-size", "cntk", "auto")),
        (("--task", "regression"), ("numbers for regression", "--task classification")),
    ],
)
def test_fit_refuses(phimap, bars, options, words):
    assert_refused(phimap("fit", bars / "bars", *SMALL, *options), *words)


def pixels(height: int, width: int, *more: int) -> Image.Image:
    return Image.fromarray(np.zeros((height, width, *more), np.uint8))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda root: pixels(9, 6).save(root / "down" / "x.png"), ("x.png", "9 x 6", "7 x 6", "--size")),
        (lambda root: pixels(7, 6, 3).save(root / "down" / "x.png"), ("x.png", "colour", "--channels 3")),
        (lambda root: (root / "down" / "x.png").write_bytes(b""), ("x.png", "damaged")),
        (lambda root: (root / "flat").mkdir(), ("flat", "without images")),
        (lambda root: pixels(7, 6).save(root / "x.png"), ("x.png", "no class folder")),
    ],
)
def test_fit_refuses_folders(phimap, tmp_path, spoil: Callable[[Path], object], words):
    root = tmp_path / "images"
    for name in ("across", "down"):
        (root / name).mkdir(parents=True)
        for i in range(4):
            pixels(7, 6).save(root / name / f"{i}.png")
    spoil(root)
    # Without --strict damaged and coloured files are left out.
    assert_refused(phimap("fit", root, "--strict", "--model", tmp_path / "m.phimap", *SMALL), *words)
    assert not list(tmp_path.glob("*.phimap"))


def test_folders_of_one_class_and_of_none(phimap, bars, tmp_path):
    assert_refused(phimap("fit", bars / "bars" / "down", *SMALL), "00.png", "no class folder")
    # The advice was to leave out the target.
    for target in ((), ("--target", "y")):
        assert_refused(phimap("fit", tmp_path, *target, *SMALL), "holds no images")
    (tmp_path / "only").mkdir()
    for i in range(9):
        pixels(7, 6).save(tmp_path / "only" / f"{i}.png")
    assert_refused(phimap("fit", tmp_path, *SMALL), "target is constant (only)")


def test_predict_refuses_other_sizes(phimap, bars, tmp_path):
    pixels(6, 7).save(tmp_path / "1.png")
    result = phimap("predict", bars / "bars.phimap", tmp_path)
    assert_refused(result, "images of 6 x 7 x 1", "trained on images of 7 x 6 x 1", "--size")
    np.save(tmp_path / "x.npy", np.zeros((3, 6, 7)))
    assert_refused(phimap("predict", bars / "bars.phimap", tmp_path / "x.npy"), "6 x 7 x 1", "7 x 6 x 1")


def test_tables_need_a_target(phimap, tables):
    assert_refused(phimap("fit", tables / "numbers.csv", *SMALL), "numbers.csv", "--target")
    assert_refused(phimap("fit", tables / "none.csv", *SMALL), "none.csv", "no such file")


def test_images_that_cannot_be_read_are_left_out_with_a_count(phimap, bars, tmp_path):
    folder = tmp_path / "bars"
    shutil.copytree(bars / "bars", folder)
    (folder / "across" / "01.png").write_bytes(b"no image")
    coloured = np.zeros((7, 6, 4), dtype=np.uint8)
    Image.fromarray(coloured).save(folder / "down" / "02.png")
    words = ("fit", folder, "--kernel", "cntk", "--features", "64")
    result = phimap(*words, "--holdout", "0")
    assert result.exit_code == 0, result.stderr
    assert values(result.stdout)["rows_trained"] == "78"
    assert "2 rows left out for being damaged or of another kind: data rows 1, 42" in " ".join(result.stderr.split())
    refused = phimap(*words, "--strict")
    assert refused.exit_code == 2
    assert "01.png: damaged or no image" in refused.stderr
    found = phimap("predict", bars / "bars.phimap", folder)
    assert found.exit_code == 0
    rows = dict(line.split(",") for line in found.stdout.splitlines()[1:] if line.split(",")[0])
    # The model knows that images are grey, and makes the coloured one so.
    assert len(rows) == 79
    assert all(name.replace('"', "").startswith(label.replace('"', "")) for name, label in rows.items())
