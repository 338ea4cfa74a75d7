"""``phimap compare``: the same as in Python, as a table, as JSON and as a page."""

from __future__ import annotations

import json

import numpy as np
import pytest

import phimap as pm
from phimap.io import open_table
from tests.cli.test_bad_input import assert_refused
from tests.cli.test_report import Tags

QUICK = ("--models", "linear,gaussian", "--features", "32", "--splits", "2")


@pytest.mark.parametrize(("name", "target"), [("numbers.csv", "y"), ("labels.csv", "kind")])
def test_it_is_the_comparison_in_python(phimap, tables, name, target):
    found = json.loads(phimap("compare", tables / name, "--target", target, *QUICK, "--json", "-q").stdout)
    X, y = next(open_table(tables / name, target).batches(600))
    expected = pm.compare(X, y, models=["linear", "gaussian"], n_components=32, splits=2).to_dict()
    assert [(one["name"], one["errors"]) for one in found["models"]] == [
        (one["name"], list(one["errors"])) for one in expected["models"]
    ]
    assert found["verdict"] == expected["verdict"]


def test_table_and_page(phimap, tables, tmp_path):
    words = ("compare", tables / "numbers.csv", "--target", "y", *QUICK, "--report", tmp_path / "r.html")
    result = phimap(*words)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0].split()[:2] == ["model", "RMSE"]
    assert "gaussian errs least" in result.stdout
    page = (tmp_path / "r.html").read_text()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.links == [link for link in tags.links if link.startswith("#")]
    assert 'aria-label="Error against processor seconds of the fit: gaussian, linear.' in page
    assert "gaussian errs least" in page
    assert str(tables) not in page


def test_long_tables_are_sampled_without_being_held(phimap, tmp_path):
    rng = np.random.default_rng(0)
    lines = "\n".join(f"{a:.4f},{a + b:.4f}" for a, b in rng.standard_normal((3000, 2)))
    (tmp_path / "long.csv").write_text("a,y\n" + lines)
    words = ("compare", tmp_path / "long.csv", "--target", "y", "--models", "linear", "--splits", "1", "--json", "-q")
    found = json.loads(phimap(*words, "--rows", "200").stdout)
    assert (found["rows"], found["rows_in_all"]) == (200, 3000)
    assert json.loads(phimap(*words, "--rows", "all").stdout)["rows"] == 3000


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--models", "forest"), ("--models", "lightgbm", "'forest'")),
        (("--splits", "0"), ("--splits", "at least 1")),
        (("--rows", "some"), ("--rows", "'some'", "all")),
    ],
)
def test_bad_words_are_one_line(phimap, tables, words, told):
    assert_refused(phimap("compare", tables / "numbers.csv", "--target", "y", *words, "-q"), *told)


def test_help_lists_every_method_and_no_missing_option(phimap):
    told = " ".join(phimap("compare", "--help").stdout.split())
    assert "catboost" in told
    assert "--output" not in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the file is empty. Check the path."),
        ("a,y\n", "has a header but no rows. Check the file."),
        ("a,y\n1,2\n", "has 1 row, a comparison needs at least 20. Give more rows."),
    ],
)
def test_too_few_rows_are_one_sentence(phimap, tmp_path, text, told):
    (tmp_path / "t.csv").write_text(text)
    assert_refused(phimap("compare", tmp_path / "t.csv", "--target", "y", "-q"), f"t.csv: {told}")


@pytest.mark.filterwarnings("always::phimap.learn.rows.grouped.GroupedRowsWarning")
def test_columns_that_look_grouped_have_the_names_of_the_table(phimap, tmp_path, rng):
    X = np.c_[rng.standard_normal((50, 4))[np.repeat(np.arange(50), 4)], rng.standard_normal((200, 2))]
    np.save(tmp_path / "t.npy", X)
    words = ("--models", "linear", "--splits", 1)
    assert "such as 'c0', are" in phimap("compare", tmp_path / "t.npy", "--target", 5, *words).stderr
    np.savetxt(tmp_path / "t.csv", X, delimiter=",", header="p,q,r,s,t,u", comments="")
    assert "such as 'p', are" in phimap("compare", tmp_path / "t.csv", "--target", "u", *words).stderr


@pytest.mark.filterwarnings("always::phimap.learn.rows.grouped.GroupedRowsWarning")
def test_rows_that_look_grouped_are_told_with_the_option(phimap, tmp_path, rng):
    X = np.c_[rng.standard_normal((50, 4))[np.repeat(np.arange(50), 4)], rng.standard_normal((200, 2))]
    np.savetxt(tmp_path / "t.csv", X, delimiter=",", header="p,q,r,s,t,u", comments="")
    words = (tmp_path / "t.csv", "--target", "u", "--features", 16)
    fixed = ("--kernel", "gaussian", "--metric", "none", "--length-scale", 2, "--trees", "none")
    for command, more in (("fit", fixed), ("compare", ("--models", "linear", "--splits", 1))):
        (told,) = [one for one in phimap(command, *words, *more).stderr.splitlines() if "look grouped" in one]
        assert "--groups" in told
        assert "`groups`" not in told
