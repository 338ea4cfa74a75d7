"""Several files as one table: folders, patterns, what must agree, and how messages name rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import feather, parquet

from phimap.io import DataError, open_frame, open_table

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.integers(0, 99, 60) / 8, "b": RNG.integers(0, 9, 60), "y": RNG.integers(0, 99, 60) / 4})


def write(frame, path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    suffix = path.name.split(".", 1)[1]
    if suffix == "parquet":
        parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    elif suffix == "feather":
        feather.write_feather(frame, str(path))
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    elif suffix == "xlsx":
        frame.to_excel(path, index=False)
    else:
        frame.to_csv(path, index=False)


def split(tmp_path, suffix, cuts=(0, 7, 30, 31, 60)):
    """The rows of FRAME in files whose sorted names are in this order, written in another one."""
    for k in reversed(range(len(cuts) - 1)):
        write(FRAME.iloc[cuts[k] : cuts[k + 1]], tmp_path / f"part-{k}.{suffix}")
    return tmp_path


def rows_of(table, rows=11):
    batches = list(table.batches(rows))
    return np.concatenate([X for X, _ in batches]), np.concatenate([y for _, y in batches])


@pytest.mark.parametrize("suffix", ["parquet", "feather", "jsonl", "xlsx", "csv", "csv.gz"])
@pytest.mark.parametrize("by", ["folder", "pattern"])
def test_equals_one_file(tmp_path, suffix, by):
    folder = split(tmp_path / "parts", suffix)
    path = folder if by == "folder" else f"{folder}/*.{suffix}"
    table = open_table(path, "y", dtype=np.float64)
    write(FRAME, tmp_path / f"whole.{suffix}")
    whole = open_table(tmp_path / f"whole.{suffix}", "y", dtype=np.float64)
    assert table.feature_names == whole.feature_names
    assert table.n_rows == whole.n_rows
    for one, other in zip(rows_of(table), rows_of(whole), strict=True):
        np.testing.assert_array_equal(one, other)
    assert table.n_rows == 60
    # As often as wanted, and batches do not end where files do.
    assert [len(X) for X, _ in table.batches(25)] == [25, 25, 10]
    assert table.notes[0] == "4 files in the order of their names"
    frame = open_frame(path, "y")
    cells = pd.concat([columns.to_pandas() for columns, _ in frame.batches(13)], ignore_index=True)
    pd.testing.assert_frame_equal(cells, FRAME.drop(columns="y"), check_dtype=False)


def column(frame, name):
    return [cell for columns, _ in frame for cell in columns.column(name).to_pylist()]


def test_order_is_that_of_sorted_paths(tmp_path):
    # A mutant that reads in the order of writing, or of the numbers in names, differs.
    for name, value in (("b/0", 3.0), ("a/9", 2.0), ("a/10", 1.0)):
        write(pd.DataFrame({"x": [value]}), tmp_path / f"{name}.parquet")
    assert column(open_frame(tmp_path), "x") == [1.0, 2.0, 3.0]
    assert column(open_frame(tmp_path / "**" / "*.parquet"), "x") == [1.0, 2.0, 3.0]


def test_what_other_programs_leave_is_passed_over(tmp_path):
    split(tmp_path, "parquet")
    for name in ("_SUCCESS", "_metadata", "_common_metadata.parquet", ".part-0.parquet.crc", ".hidden.parquet"):
        (tmp_path / name).write_bytes(b"no table")
    for name in ("_temporary/0.parquet", ".ipynb_checkpoints/0.parquet", "README.txt", "schema.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"no table")
    assert rows_of(open_table(tmp_path, "y"))[1].tolist() == FRAME["y"].tolist()


def test_columns_told_by_folders(tmp_path):
    for year, town in ((2019, "Ulm"), (2020, "Bad%20Ems"), (2020, "__HIVE_DEFAULT_PARTITION__")):
        write(FRAME[:2], tmp_path / f"year={year}/town={town}/0.parquet")
    frame = open_frame(tmp_path, "y")
    assert frame.feature_names == ("a", "b", "year", "town")
    assert column(frame, "year") == [2019, 2019, 2020, 2020, 2020, 2020]
    assert column(frame, "town") == ["Ulm", "Ulm", "Bad Ems", "Bad Ems", None, None]
    # One that lies above the wildcards tells nothing: it is the same for all.
    assert open_frame(tmp_path / "year=2020" / "*" / "*.parquet").feature_names == ("a", "b", "y", "town")
    table = open_table(tmp_path, "y", columns=["year", "a"])
    assert rows_of(table)[0][:, 0].tolist() == [2019, 2019, 2020, 2020, 2020, 2020]
    assert [X.ravel().tolist() for X, _ in open_table(tmp_path, columns=["year"]).batches(4)][1] == [2020, 2020]
    write(FRAME[:2], tmp_path / "year=2021/1.parquet")
    with pytest.raises(DataError, match=r"year=2021/1.parquet lies in folders that tell \['year'\].*same levels"):
        open_frame(tmp_path)


def test_columns_told_by_folders_of_text(tmp_path):
    for town in ("Ulm", "Ems"):
        write(FRAME[:3], tmp_path / f"town={town}/0.csv")
    with pytest.raises(match="column 'town' holds text"):
        open_table(tmp_path, "y")
    assert column(open_frame(tmp_path, "y"), "town") == ["Ems"] * 3 + ["Ulm"] * 3


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda frame: frame.drop(columns="b"), r"part-2\.\w+: lacks the column 'b' of .*part-0\.\w+\. Write"),
        (lambda frame: frame.assign(extra=1), r"part-2\.\w+: has a column 'extra', which .*part-0\.\w+ lacks"),
        (lambda frame: frame.rename(columns={"a": "A"}), r"part-2\.\w+: lacks the column 'a'"),
    ],
)
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_other_columns_are_refused(tmp_path, suffix, spoil, message):
    split(tmp_path, suffix)
    write(spoil(FRAME[:5]), tmp_path / f"part-2.{suffix}")
    for door in (open_table, open_frame):
        with pytest.raises(DataError, match=message) as error:
            door(tmp_path, "y")
        assert "\n" not in str(error.value)


def test_columns_in_another_order_go_by_name(tmp_path):
    for suffix in ("parquet", "csv"):
        folder = split(tmp_path / suffix, suffix)
        write(FRAME.iloc[7:30][["y", "b", "a"]], folder / f"part-1.{suffix}")
        X, y = rows_of(open_table(folder, "y", dtype=np.float64))
        np.testing.assert_array_equal(np.column_stack([X, y]), FRAME.to_numpy())


def test_other_types_are_refused_in_typed_files(tmp_path):
    split(tmp_path, "parquet")
    write(FRAME[:5].astype({"b": str}), tmp_path / "part-2.parquet")
    message = r"part-2.parquet: column 'b' holds text .*in .*part-0.parquet int64 \(int64\). Write the column with one"
    for door in (open_table, open_frame):
        with pytest.raises(DataError, match=message):
            door(tmp_path, "y")


def test_numbers_of_several_types_are_joined(tmp_path):
    write(pd.DataFrame({"x": np.array([1, 2], np.int8), "z": [None, None]}), tmp_path / "0.parquet")
    write(pd.DataFrame({"x": [0.5, np.nan], "z": ["u", "v"]}), tmp_path / "1.parquet")
    write(pd.DataFrame({"x": np.array([7], np.float32), "z": [None]}), tmp_path / "2.parquet")
    frame = open_frame(tmp_path)
    assert frame.schema.types == [pa.float64(), pa.large_string()]
    assert {columns.schema for columns, _ in frame.batches(1)} == {frame.schema}
    assert column(frame, "x") == [1.0, 2.0, 0.5, None, 7.0]
    assert column(frame, "z") == [None, None, "u", "v", None]


def test_text_files_have_one_type_throughout(tmp_path):
    (tmp_path / "0.csv").write_text("x,z,y\n1,007,1\n2,008,2\n")
    (tmp_path / "1.csv").write_text("x,z,y\n2.5,red,1\n")
    frame = open_frame(tmp_path, "y")
    # The zeros are there: cells are read again as text, not turned into it.
    assert column(frame, "z") == ["007", "008", "red"]
    assert column(frame, "x") == [1.0, 2.0, 2.5]
    # The second file alone tells that there is more than numbers.
    with pytest.raises(match=r"1.csv: column 'z' holds text \('red' in data row 1\)"):
        open_table(tmp_path, "y")
    said = open_frame(tmp_path, "y", types={"z": "number"}, bad_rows="skip")
    assert column(said, "z") == [7.0, 8.0, None]


def test_messages_name_the_file_of_a_row(tmp_path):
    (tmp_path / "0.csv").write_text("x,y\n1,1\n2,2\n3\n")
    (tmp_path / "1.csv").write_text("x,y\n4,4\n5,5,5\n6,\n7,7\n")
    (tmp_path / "2.csv").write_text("x,y\n,8\n9,9\n")
    table = open_frame(tmp_path, "y", bad_rows="skip")
    assert column(table, "x") == [1, 2, 4, 7, None, 9]
    assert table.skipped.notes == [
        "2 rows left out for another number of values than columns: data rows 3 of 0.csv, 2 of 1.csv",
        "1 row left out for a missing target 'y': data row 3 of 1.csv",
    ]
    assert [number for _, _, numbers in table.numbered_batches(2) for number in numbers] == [1, 2, 4, 7, 8, 9]
    assert [table.row_name(number) for number in (3, 4, 9)] == ["3 of 0.csv", "1 of 1.csv", "2 of 2.csv"]
    with pytest.raises(DataError, match=r"0.csv: data row 3 has 1 values"):
        list(open_table(tmp_path, "y"))
    (tmp_path / "0.csv").write_text("x,y\n1,1\n")
    (tmp_path / "1.csv").write_text("x,y\n4,4\n5,5\n")
    with pytest.raises(DataError, match=r"data row 1 of 2.csv, column 'x' is missing"):
        list(open_table(tmp_path, "y"))
    (tmp_path / "1.csv").write_text("x,y\n4,4\ninf,5\n")
    with pytest.raises(DataError, match=r"data row 2 of 1.csv, column 'x' is infinite"):
        list(open_table(tmp_path, "y"))


def test_damage_names_the_file(tmp_path):
    split(tmp_path, "parquet")
    (tmp_path / "part-1.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match=r"part-1.parquet: damaged or no Parquet file"):
        open_table(tmp_path, "y")


def test_files_without_rows_are_passed_over(tmp_path):
    split(tmp_path / "a", "parquet")
    write(FRAME[:0], tmp_path / "a" / "part-00.parquet")
    table = open_table(tmp_path / "a", "y")
    assert table.notes[:2] == ("4 files in the order of their names", "1 without rows passed over")
    assert rows_of(table)[1].tolist() == FRAME["y"].tolist()
    for name in ("0.csv", "1.csv"):
        (tmp_path / name).write_text("x,y\n" if name == "0.csv" else "")
    with pytest.raises(DataError, match="there are no rows in 2 files"):
        open_table(tmp_path / "*.csv", "y")


def test_what_is_no_table_in_parts(tmp_path):
    split(tmp_path, "parquet")
    with pytest.raises(FileNotFoundError, match=r"no file is named like this. Check the pattern"):
        open_table(tmp_path / "*.csv")
    write(FRAME, tmp_path / "more.csv")
    with pytest.raises(DataError, match=r"text tables \(.*more.csv\) and Parquet files .*pattern, such as '\*.csv'"):
        open_frame(tmp_path)
    (tmp_path / "more.csv").unlink()
    (tmp_path / "notes.md").write_text("")
    with pytest.raises(DataError, match=r"names .*notes.md, which is no table"):
        open_frame(tmp_path / "*")
    Image.new("L", (2, 2)).save(tmp_path / "0.png")
    for door in (open_table, open_frame):
        with pytest.raises(DataError, match=r"holds images \(0.png\) and tables \(part-0.parquet\)"):
            door(tmp_path)
    for k in range(2):
        np.save(tmp_path / f"{k}.npy", np.ones((2, 2)))
    with pytest.raises(DataError, match="holds 2 arrays, which are not joined"):
        open_table(tmp_path / "*.npy")
    (tmp_path / "empty.parquet").mkdir()
    with pytest.raises(DataError, match="is a folder without tables"):
        open_table(tmp_path / "empty.parquet")


def test_a_name_with_brackets_is_a_file(tmp_path):
    write(FRAME, tmp_path / "[1].csv")
    assert rows_of(open_table(tmp_path / "[1].csv", "y"))[1].tolist() == FRAME["y"].tolist()


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_dictionary_columns_across_files_and_row_groups(tmp_path, suffix):
    drawn: dict[str, list] = {"k": [], "n": []}
    for number, kinds in enumerate((["u", "v"], ["w", "u", "x"])):
        cells, values = RNG.choice(kinds, 50), RNG.choice([1.5, 2.5], 50)
        categories = pa.Array.from_pandas(pd.Series(cells, dtype=pd.CategoricalDtype(kinds)))
        table = pa.table({"k": categories, "n": pa.array(values).dictionary_encode(), "y": np.arange(50.0)})
        drawn["k"] += cells.tolist()
        drawn["n"] += values.tolist()
        path = tmp_path / f"{number}.{suffix}"
        if suffix == "parquet":
            parquet.write_table(table, path, row_group_size=7)
        else:
            feather.write_feather(table, str(path), chunksize=50)
    frame = open_frame(tmp_path, "y")
    assert pa.types.is_dictionary(frame.schema.field("k").type)
    assert {columns.schema for columns, _ in frame.batches(9)} == {frame.schema}
    assert column(frame, "k") == drawn["k"]
    assert column(frame, "n") == drawn["n"]
    with pytest.raises(match="'k' holds categories"):
        open_table(tmp_path, "y")
    # Numbers that a dictionary numbers are numbers.
    X, _ = rows_of(open_table(tmp_path, "y", drop=["k"], dtype=np.float64))
    assert X[:, 0].tolist() == drawn["n"]


def test_json_parts_are_not_kept(tmp_path):
    (tmp_path / "0.json").write_text(json.dumps([{"a": 1, "y": 2}]))
    (tmp_path / "1.json").write_text(json.dumps([{"a": "x", "y": 3}]))
    frame = open_frame(tmp_path, "y")
    assert column(frame, "a") == ["1", "x"]
    (tmp_path / "1.json").write_text(json.dumps([{"a": "z", "y": 3}]))
    assert column(frame, "a") == ["1", "z"]
