"""What every reader gives: the same rows, in exact batches, as often as wanted."""

import numpy as np
import pandas as pd
import pytest

from phimap.io import DataError, Table, open_table
from phimap.io.columns import closest_first

KINDS = ("csv", "csv.gz", "parquet", "npy", "npz")
N_ROWS, N_COLUMNS = 1013, 6


@pytest.fixture(scope="module")
def values():
    """Rows (n, d) that float32 holds exactly, so that every file kind can be compared to the bit."""
    return np.random.default_rng(0).normal(size=(N_ROWS, N_COLUMNS)).astype(np.float32).astype(np.float64)


@pytest.fixture(params=KINDS)
def file(request, values, tmp_path):
    path = tmp_path / f"table.{request.param}"
    frame = pd.DataFrame(values, columns=[f"c{j}" for j in range(N_COLUMNS)])
    if request.param.startswith("csv"):
        frame.to_csv(path, index=False)
    elif request.param == "parquet":
        frame.to_parquet(path, row_group_size=100)
    elif request.param == "npy":
        np.save(path, values)
    else:
        np.savez_compressed(path, table=values)
    return path


def collect(table, rows=None):
    batches = list(table.batches(rows))
    X = np.concatenate([X for X, _ in batches])
    return X, None if batches[0][1] is None else np.concatenate([y for _, y in batches])


@pytest.mark.parametrize("rows", [1, 7, 100, 1013, 5000])
def test_batches_are_exact_and_independent_of_their_size(file, values, rows):
    table = open_table(file, target="c2")
    batches = list(table.batches(rows))
    assert [len(X) for X, _ in batches] == [rows] * (N_ROWS // rows) + [N_ROWS % rows] * (N_ROWS % rows > 0)
    assert all(X.dtype == np.float32 and X.flags.c_contiguous and X.flags.writeable for X, _ in batches)
    assert all(y.dtype == np.float64 for _, y in batches)
    np.testing.assert_array_equal(np.concatenate([X for X, _ in batches]), np.delete(values, 2, axis=1))
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), values[:, 2])


def test_description(file):
    table = open_table(file, target="-1", batch_rows=100)
    assert isinstance(table, Table)
    assert table.feature_names == ("c0", "c1", "c2", "c3", "c4")
    assert (table.target_name, table.n_features, table.sample_shape, table.is_image) == ("c5", 5, (5,), False)
    assert table.n_rows == (None if ".csv" in file.name else N_ROWS)
    assert [len(X) for X, _ in table] == [100] * 10 + [13]
    assert table.n_rows == N_ROWS


def test_reads_again_and_from_the_start_after_an_abandoned_pass(file, values):
    table = open_table(file, dtype=np.float64)
    first, _ = next(table.batches(10))
    np.testing.assert_array_equal(first, values[:10])
    for _ in range(2):
        X, y = collect(table, 64)
        assert X.dtype == np.float64
        assert y is None
        np.testing.assert_array_equal(X, values)


def test_two_passes_at_once_do_not_disturb_each_other(file):
    table = open_table(file)
    for (X, _), (again, _) in zip(table.batches(50), table.batches(50), strict=True):
        np.testing.assert_array_equal(X, again)


def test_columns_select_reorder_and_ignore(file, values):
    table = open_table(file, columns=("c4", "c0"))
    assert table.feature_names == ("c4", "c0")
    np.testing.assert_array_equal(collect(table)[0], values[:, [4, 0]])


def test_several_targets(file, values):
    table = open_table(file, target=["c3", "c1"])
    X, y = collect(table, 100)
    assert table.target_name == ("c3", "c1")
    assert y.dtype == np.float64
    np.testing.assert_array_equal(y, values[:, [3, 1]])
    np.testing.assert_array_equal(X, values[:, [0, 2, 4, 5]])


def test_one_target_in_a_list_stays_two_dimensional(file, values):
    np.testing.assert_array_equal(collect(open_table(file, target=["c0"]))[1], values[:, :1])


def test_a_batch_is_the_readers_to_overwrite(file, values):
    table = open_table(file)
    for X, _ in table.batches(100):
        X[:] = 0
    np.testing.assert_array_equal(collect(table)[0], values)


def test_columns_can_be_dropped_by_name_and_place(file, values):
    table = open_table(file, target="c2", drop=["c0", -1])
    kept = range(1, N_COLUMNS - 1)
    assert table.feature_names == tuple(f"c{j}" for j in kept if j != 2)
    np.testing.assert_array_equal(collect(table)[0], np.delete(values, [0, 2, N_COLUMNS - 1], axis=1))
    assert open_table(file, drop=None).n_features == N_COLUMNS
    assert open_table(file, columns=["c1", "c0"], drop=["c0", "c3"]).feature_names == ("c1",)


def test_messages_list_like_names_first_and_the_others_in_order():
    assert closest_first("prise", ["zone", "rise", "a", "price", "prism"]) == "'rise', 'price', 'prism', 'zone', 'a'"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": ["c0", "wings"]}, "no column to drop 'wings'. Choose from "),
        ({"target": "c1", "drop": ["c1"]}, "column 'c1' is the target. Leave it out of drop="),
        ({"columns": ["c0", "wings"]}, "no feature column 'wings'. Choose from "),
        ({"target": "c1", "columns": ["c9"]}, r"no feature column 'c9'. Choose from 'c0', 'c2'"),
        ({"columns": ["c0", "c0"]}, "`columns` names 'c0' more than once"),
        ({"target": ["c1", "c1"]}, "`target` names 'c1' more than once"),
        ({"target": "c1", "columns": ["c0", "c1"]}, "column 'c1' is both target and feature"),
        ({"target": [f"c{j}" for j in range(N_COLUMNS)]}, "no feature columns are left"),
        ({"columns": []}, "no feature columns are left"),
    ],
)
def test_column_errors(file, options, message):
    with pytest.raises(DataError, match=message) as error:
        open_table(file, **options)
    assert "\n" not in str(error.value)
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"dtype": np.int32}, ValueError, "`dtype` must be float32 or float64, got int32"),
        ({"batch_rows": 0}, ValueError, "`batch_rows` must be a positive integer, got 0"),
        ({"columns": "c0"}, TypeError, "`columns` must be a sequence of column names, got 'c0'"),
        ({"drop": "c0"}, TypeError, "`drop` must be a sequence of column names, got 'c0'"),
        ({"target": 1.0}, TypeError, "`target` must be a column's name or position, or several, got 1.0"),
        ({"target": []}, ValueError, "`target` must name at least one column"),
    ],
)
def test_malformed_arguments(file, options, kind, message):
    with pytest.raises(kind, match=message):
        open_table(file, **options)


@pytest.mark.parametrize("rows", [0, -1, 2.5, True])
def test_batches_rejects_a_bad_size_at_once(file, rows):
    with pytest.raises(ValueError, match="`rows` must be a positive integer"):
        open_table(file).batches(rows)


@pytest.mark.parametrize("where", ["feature", "target"])
@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "is missing or not a number"), (-np.inf, r"is infinite \(-inf\)")]
)
def test_missing_and_infinite_values_are_located(tmp_path, values, where, value, message):
    broken = values.copy()
    broken[700, 3] = value
    frame = pd.DataFrame(broken, columns=[f"c{j}" for j in range(N_COLUMNS)])
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    np.save(tmp_path / "t.npy", broken)
    np.savez(tmp_path / "t.npz", X=broken)
    for name in ("t.csv", "t.parquet", "t.npy", "t.npz"):
        table = open_table(tmp_path / name, target="c3" if where == "target" else "c0")
        for rows in (64, 2000):
            with pytest.raises(DataError, match=f"{name}.*data row 701, column 'c3' {message}"):
                list(table.batches(rows))


def test_overflow_of_float32_is_an_error_that_names_the_remedy(tmp_path):
    np.save(tmp_path / "t.npy", np.array([[1.0], [1e300]]))
    with pytest.raises(
        DataError, match=r"data row 2, column 'c0' is 1e\+300, too large for float32. Use dtype=float64"
    ):
        list(open_table(tmp_path / "t.npy"))
    np.testing.assert_array_equal(collect(open_table(tmp_path / "t.npy", dtype=np.float64))[0], [[1.0], [1e300]])


def test_a_file_that_changes_between_passes_is_noticed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    table = open_table(path)
    list(table)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="had 2 rows before, now 1"):
        list(table)


def test_no_such_file_a_directory_an_unknown_suffix(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none.csv: no such file. Check the path."):
        open_table(tmp_path / "none.csv")
    with pytest.raises(FileNotFoundError, match=r"none.npz: no such file"):
        open_table(f"{tmp_path / 'none.npz'}:X")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder.csv: is a folder without tables. Give the path of a file"):
        open_table(tmp_path / "folder.csv")
    (tmp_path / "t.ods").write_text("")
    with pytest.raises(DataError, match=r"unknown kind of file '.ods'. Convert it to one of .csv, .tsv, "):
        open_table(tmp_path / "t.ods")


def test_the_closest_column_comes_first(tmp_path):
    (tmp_path / "t.csv").write_text("alpha,price_eur,beta\n1,2,3\n")
    with pytest.raises(DataError, match=r"no target column 'price'. Choose from 'price_eur', "):
        open_table(tmp_path / "t.csv", target="price")


def test_long_lists_of_columns_are_cut(tmp_path):
    np.save(tmp_path / "t.npy", np.ones((2, 784)))
    with pytest.raises(DataError, match="and 764 more"):
        open_table(tmp_path / "t.npy", columns=["wings"])
