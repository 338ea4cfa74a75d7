"""Text in the format of libsvm: columns by index, labels, ranges, damage."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from phimap.config import config
from phimap.io import DataError, libsvm, open_frame, open_table


def problem(n=500, d=40, seed=0):
    X = sparse.random_array((n, d), density=0.2, random_state=np.random.default_rng(seed), format="csr")
    return X, np.random.default_rng(seed).integers(0, 2, n) * 2 - 1


def written(path, X, y, **options):
    dump_svmlight_file(X, y, str(path), **options)
    return path


def collect(table, rows=64):
    batches = list(table.batches(rows))
    return np.concatenate([X for X, _ in batches]), np.concatenate([y for _, y in batches])


@pytest.mark.parametrize("zero_based", [False, True])
@pytest.mark.parametrize("range_bytes", [700, 2**22])
def test_rows_come_back_whatever_the_ranges(tmp_path, monkeypatch, zero_based, range_bytes):
    monkeypatch.setattr(libsvm, "_RANGE", range_bytes)
    X, y = problem()
    table = open_table(written(tmp_path / "t.libsvm", X, y, zero_based=zero_based), "label", dtype=np.float64)
    assert table.n_rows == 500
    assert table.feature_names[0] == ("f0" if zero_based else "f1")
    assert len(table.feature_names) == 40
    for _ in range(2):
        found, labels = collect(table)
        np.testing.assert_allclose(found, X.toarray(), rtol=1e-14)
        np.testing.assert_array_equal(labels, y)
        assert labels.dtype.kind == "i"


def test_comments_queries_and_numbers_as_labels(tmp_path):
    path = tmp_path / "t.svm"
    path.write_text("# a comment\n1.5 qid:3 1:2 4:-1e3 # the first\n\n-2 2:0.5\n")
    table = open_table(path, "label", dtype=np.float64)
    X, y = collect(table)
    np.testing.assert_array_equal(X, [[2, 0, 0, -1000], [0, 0.5, 0, 0]])
    assert y.tolist() == [1.5, -2.0]


def test_the_columns_of_a_model_are_there(tmp_path):
    path = tmp_path / "t.svmlight"
    path.write_text("1 2:5\n0 1:7\n")
    X, _ = collect(open_table(path, "label", columns=["f2", "f5"]))
    np.testing.assert_array_equal(X, [[5, 0], [0, 0]])
    # The label is no feature that nobody asked for.
    assert open_table(path).feature_names == ("f1", "f2")
    assert open_frame(path, "label").feature_names == ("f1", "f2")


def test_parts_are_one_table(tmp_path):
    X, y = problem()
    for part in range(2):
        rows = slice(250 * part, 250 * (part + 1))
        written(tmp_path / f"{part}.libsvm", X[rows], y[rows], zero_based=False)
    found, _ = collect(open_table(tmp_path, "label", dtype=np.float64))
    np.testing.assert_allclose(found, X.toarray(), rtol=1e-14)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("1\n0\n", "no feature columns"),
        ("1 a:2\n", "damaged or no libsvm file"),
        ("1 1:2 x\n", "damaged or no libsvm file"),
        ("1,2 1:2\n", "damaged or no libsvm file"),
        ("1 3:1 2:1\n", "damaged or no libsvm file"),
        ("1 900000000:1\n", "over the budget"),
        ("1 99999999999999999999:1\n", "damaged or no libsvm file|over the budget"),
        ("1 1:nan\n", "not a number"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path, text, message):
    path = tmp_path / "t.libsvm"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        collect(open_table(path, "label"))
    assert "\n" not in str(caught.value)


def test_a_line_that_the_budget_does_not_hold_is_refused(tmp_path):
    path = tmp_path / "t.libsvm"
    path.write_text("1 1:2\n" + "1 " + " ".join(f"{j}:1" for j in range(1, 1_500_000)) + "\n")
    with config(memory="64MB"), pytest.raises(DataError, match="has a line of more than"):
        open_table(path, "label")
