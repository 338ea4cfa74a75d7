"""Parquet: column types, pandas' index, damage."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from phimap.io import DataError, open_table


def collect(table, rows=1000):
    batches = list(table.batches(rows))
    return np.concatenate([X for X, _ in batches]), np.concatenate([y for _, y in batches])


def write(tmp_path, **columns):
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table(columns), path)
    return path


def test_numeric_types_mix(tmp_path):
    path = write(
        tmp_path,
        i=pa.array([1, -2], pa.int8()),
        u=pa.array([3, 2**40], pa.uint64()),
        h=pa.array(np.array([0.5, 2], np.float16)),
        b=pa.array([True, False]),
        d=pa.array([1, 2]).cast(pa.decimal128(22, 2)),
        f=pa.array([0.1, 0.2], pa.float64()),
    )
    X = next(open_table(path, dtype=np.float64).batches())[0]
    np.testing.assert_array_equal(X, [[1, 3, 0.5, 1, 1, 0.1], [-2, 2**40, 2, 0, 2, 0.2]])


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (pa.array(["x", "y", "x"]), "U"),
        (pa.array(["x", "y", "x"], pa.large_string()), "U"),
        (pa.array(["x", "y", "x"]).dictionary_encode(), "U"),
        (pa.array([1, 2, 1], pa.int16()), "i"),
        (pa.array([True, False, True]), "b"),
        (pa.array([1, 2, 3], pa.float32()), "f"),
    ],
)
def test_kinds_of_target(tmp_path, target, kind):
    _, y = collect(open_table(write(tmp_path, x=[1, 2, 3], y=target), target="y"), 2)
    assert y.dtype.kind == kind
    assert y.tolist() == target.to_pylist()


def test_equals_pandas_and_leaves_out_its_index(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(5000, 8)), columns=list("abcdefgh"))
    frame = frame[frame["a"] > 0]
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=700)
    table = open_table(tmp_path / "t.parquet", target="h", dtype=np.float64)
    assert table.feature_names == tuple("abcdefg")
    assert table.n_rows == len(frame)
    X, y = collect(table, 333)
    np.testing.assert_array_equal(np.column_stack([X, y]), frame.to_numpy())


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["red", "blue"]), "column 'z' holds text, not numbers. Leave it out with drop="),
        (pa.array(["red", "blue"]).dictionary_encode(), "column 'z' holds categories"),
        (pa.array([datetime.date(2020, 1, 1)] * 2), "column 'z' holds dates"),
        (pa.array([datetime.datetime(2020, 1, 1)] * 2), "column 'z' holds dates and times"),
        (pa.array([[1.0], [2.0]]), "column 'z' holds lists or records"),
        (pa.array([{"a": 1}, {"a": 2}]), "column 'z' holds lists or records"),
        (pa.nulls(2), "column 'z' holds no values"),
    ],
)
def test_features_that_are_not_numeric(tmp_path, column, message):
    path = write(tmp_path, x=[1.0, 2.0], z=column)
    with pytest.raises(DataError, match=message) as error:
        open_table(path)
    assert "\n" not in str(error.value)
    assert open_table(path, columns=["x"]).n_features == 1


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (pa.array([[1.0], [2.0]]), "target column 'y' holds lists or records, not numbers or labels"),
        (pa.array([1, None]), "data row 2, column 'y' is missing"),
        (pa.array([True, None]), "data row 2, column 'y' is missing"),
        (pa.array(["a", None]), "data row 2, column 'y' is missing"),
        (pa.array([None, "a"]).dictionary_encode(), "data row 1, column 'y' is missing"),
    ],
)
def test_bad_targets(tmp_path, target, message):
    with pytest.raises(DataError, match=message):
        list(open_table(write(tmp_path, x=[1, 2], y=target), target="y"))


@pytest.mark.parametrize("column", [pa.array([1, None]), pa.array([1.5, None]), pa.array([True, None])])
def test_missing_features(tmp_path, column):
    with pytest.raises(DataError, match="data row 2, column 'x' is missing"):
        list(open_table(write(tmp_path, x=column)))


def test_several_targets_must_be_numbers(tmp_path):
    path = write(tmp_path, x=[1, 2], y=[1, 2], z=["a", "b"])
    with pytest.raises(DataError, match="target column 'z' holds text, not numbers, as several targets must"):
        open_table(path, target=["y", "z"])


def test_no_rows_duplicates_and_damage(tmp_path):
    path = write(tmp_path, x=pa.array([], pa.float64()))
    with pytest.raises(DataError, match="there are no rows"):
        open_table(path)
    parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]), path)
    with pytest.raises(DataError, match="column name 'x' occurs more than once"):
        open_table(path)
    parquet.write_table(pa.table({"x": np.random.default_rng(1).random(100_000)}), path, use_dictionary=False)
    intact = path.read_bytes()
    for content in (b"", b"x,y\n1,2\n", intact[: len(intact) // 2]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"damaged or no Parquet file .*Write it again") as error:
            open_table(path)
        assert "\n" not in str(error.value)
    # Damage inside a page shows only when the page is read.
    path.write_bytes(intact[:4] + bytes(60) + intact[64:])
    table = open_table(path)
    with pytest.raises(DataError, match="damaged or no Parquet file"):
        list(table)
