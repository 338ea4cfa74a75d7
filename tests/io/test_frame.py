"""Frames: columns of any kind, of one type throughout, with the rows that cannot be used left out and counted."""

import gzip
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from phimap.io import DataError, open_frame, open_table

MIXED = pd.DataFrame(
    {
        "size": [1.5, None, 2.5, 4.0] * 25,
        "floor": ["ground", "first", "ground", "attic"] * 25,
        "rooms": [1, 2, 3, 4] * 25,
        "price": [10, 20, 30, 40] * 25,
    }
)


def write(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture(params=["csv", "tsv", "csv.gz", "zip", "parquet", "feather", "arrow", "json", "jsonl", "xlsx"])
def file(request, tmp_path):
    kind = request.param
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        MIXED.to_parquet(path)
    elif kind == "feather":
        MIXED.to_feather(path)
    elif kind == "xlsx":
        MIXED.to_excel(path, index=False)
    elif kind == "arrow":
        table = pa.Table.from_pandas(MIXED)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table, max_chunksize=30)
    elif kind.startswith("json"):
        MIXED.to_json(path, orient="records", lines=kind == "jsonl")
    else:
        text = MIXED.to_csv(index=False, sep="\t" if kind == "tsv" else ",").encode()
        if kind == "zip":
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("folder/data.csv", text)
        else:
            path.write_bytes(gzip.compress(text) if kind == "csv.gz" else text)
    return path


def collect(frame, rows=7):
    parts = list(frame.numbered_batches(rows))
    y = None if parts[0][1] is None else np.concatenate([y for _, y, _ in parts])
    return pa.concat_tables([columns for columns, _, _ in parts]), y, np.concatenate([n for _, _, n in parts])


@pytest.mark.parametrize("rows", [7, 1000])
def test_every_kind_of_file_gives_the_same_rows(file, rows):
    frame = open_frame(file, "price", batch_rows=30)
    for _ in range(2):
        columns, y, numbers = collect(frame, rows)
        assert columns.schema.names == ["size", "floor", "rooms"] == list(frame.feature_names)
        assert columns["size"].to_pylist() == [1.5, None, 2.5, 4] * 25
        assert columns["floor"].to_pylist() == MIXED["floor"].tolist()
        assert columns["rooms"].to_pylist() == MIXED["rooms"].tolist()
        np.testing.assert_array_equal(y, MIXED["price"])
        np.testing.assert_array_equal(numbers, np.arange(1, 101))
    assert [len(columns) for columns, _ in frame] == [30, 30, 30, 10]
    assert frame.n_rows == 100
    assert frame.schema == columns.schema


def test_numbers_of_every_kind_of_file_are_a_table(file):
    table = open_table(file, "price", columns=["rooms"])
    X, y = next(table.batches(100))
    np.testing.assert_array_equal(X[:, 0], MIXED["rooms"])
    np.testing.assert_array_equal(y, MIXED["price"])
    with pytest.raises(match="column 'floor' holds text"):
        open_table(file, "price", columns=["floor"])


def test_text_targets_and_no_target(file):
    _, y, _ = collect(open_frame(file, "floor"))
    np.testing.assert_array_equal(y, MIXED["floor"])
    assert collect(open_frame(file, columns=["rooms", "size"]))[0].schema.names == ["rooms", "size"]
    assert open_frame(file, "price", drop=["floor", 0]).feature_names == ("rooms",)
    assert open_frame(file, "price", types={"rooms": "drop"}).feature_names == ("size", "floor")


# Rows of 10 bytes: enough for several of the parser's blocks of 1 MB.
MANY = 250_000


@pytest.mark.parametrize(
    ("top", "last", "kind", "values"),
    [
        ("1", "2.5", pa.float64(), [1.0, 2.5]),
        ("1", "oops", pa.string(), ["1", "oops"]),
        ("1.5", "oops", pa.string(), ["1.5", "oops"]),
        ("1", "?", pa.int64(), [1, None]),
        ("", "7", pa.float64(), [None, 7.0]),
        ("", "seven", pa.string(), ["", "seven"]),
        ("2020-01-31", "soon", pa.string(), ["2020-01-31", "soon"]),
        ("true", "perhaps", pa.string(), ["true", "perhaps"]),
        ("red", "grün", pa.string(), ["red", "grün"]),
    ],
)
def test_a_column_has_one_type_throughout(tmp_path, top, last, kind, values):
    content = "k,a,y\n" + f"b,{top},3\n" * MANY + f"c,{last},4\n"
    # In Latin-1, of which the first block does not tell.
    frame = open_frame(write(tmp_path, content.encode("latin-1")), "y")
    assert frame.schema.field("a").type == kind
    assert all(columns.schema == frame.schema for columns, _ in frame)
    columns, y, _ = collect(frame, MANY)
    assert columns["a"].to_pylist()[-2:] == values
    assert y[-2:].tolist() == [3, 4]


def test_words_stay_as_they_are_written(tmp_path):
    path = write(tmp_path, "code,y\n007,1\n008,2\n")
    assert collect(open_frame(path, "y", types={"code": "category"}))[0]["code"].to_pylist() == ["007", "008"]
    assert collect(open_frame(path, "y"))[0]["code"].to_pylist() == ["007", "008"]
    assert collect(open_frame(path, "y", types={"code": "number"}))[0]["code"].to_pylist() == [7, 8]


def test_columns_without_names_are_left_out_and_said_so(tmp_path):
    frame = open_frame(write(tmp_path, ",a,y,\n1,x,1,\n2,z,2,\n"), "y")
    assert frame.feature_names == ("a",)
    assert frame.notes == ("column 1 has no name and is left out",)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize(
    "target", [[1, 2, None, 4], [1.5, None, 2, 3], ["a", "b", None, "c"], [True, None, False, True]]
)
def test_rows_without_a_target_are_left_out_and_counted(tmp_path, suffix, target):
    path = tmp_path / f"t.{suffix}"
    pa_table = pa.table({"x": ["p", "q", "r", "s"], "y": target})
    if suffix == "csv":
        csv.write_csv(pa_table, path)
    else:
        parquet.write_table(pa_table, path)
    with pytest.raises(DataError, match=f"data row {target.index(None) + 1}, column 'y' is missing"):
        collect(open_frame(path, "y"))
    frame = open_frame(path, "y", bad_rows="skip")
    _, y, numbers = collect(frame, 2)
    kept = [value for value in target if value is not None]
    assert y.tolist() == kept
    assert y.dtype.kind == np.array(kept).dtype.kind
    assert numbers.tolist() == [n for n, value in enumerate(target, start=1) if value is not None]
    assert frame.skipped.count == 1
    assert frame.skipped.notes == [f"1 row left out for a missing target 'y': data row {target.index(None) + 1}"]


def test_rows_of_another_width_are_left_out_and_counted(tmp_path):
    rows = [f"{i},{i % 3}\n" for i in range(1, 101)]
    rows[4], rows[90] = "5\n", "91,2,3\n"
    path = write(tmp_path, "a,y\n" + "".join(rows[:50]) + "# half of it\n" + "".join(rows[50:]))
    for opened in (open_table(path, "y", bad_rows="skip"), open_frame(path, "y", bad_rows="skip")):
        parts = list(opened.numbered_batches(30))
        numbers = np.concatenate([n for _, _, n in parts])
        np.testing.assert_array_equal(numbers, np.delete(np.arange(1, 101), [4, 90]))
        values = [np.asarray(X["a"] if isinstance(X, pa.Table) else X[:, 0]) for X, _, _ in parts]
        np.testing.assert_array_equal(np.concatenate(values), numbers)
        assert opened.n_rows == 100
        assert opened.skipped.notes == ["2 rows left out for another number of values than columns: data rows 5, 91"]
    with pytest.raises(DataError, match="data row 5 has 1 values, 2 expected"):
        collect(open_frame(path, "y"))


def test_a_file_that_is_cut_wrongly_is_refused(tmp_path):
    path = write(tmp_path, "a,y\n" + "1,2\n" * 60 + "1,2,3\n" * 40)
    with pytest.raises(DataError, match=r"40 of 100 rows have another number of values .* the first is data row 61"):
        collect(open_frame(path, "y", bad_rows="skip"))


def test_a_file_of_which_nothing_is_left_is_refused(tmp_path):
    path = write(tmp_path, "a,y\nx,\nz,\n")
    with pytest.raises(DataError, match="target column 'y' has no values"):
        open_frame(path, "y", bad_rows="skip")
    with pytest.raises(DataError, match=r"no rows left \(2 rows left out for a missing target 'y': data rows 1, 2\)"):
        collect(open_frame(path, "y", types={"y": "category"}, bad_rows="skip"))


@pytest.mark.parametrize("opened", [open_table, open_frame])
@pytest.mark.parametrize("bad_rows", ["error", "skip"])
def test_a_few_bad_cells_make_no_labels_of_numbers(tmp_path, opened, bad_rows):
    path = write(tmp_path, "a,y\n" + "1,2\n" * 50 + "1,oops\n" + "1,3\n" * 50 + "1,n.n.\n1,x\n1,!\n1,w\n")
    message = "'y' holds numbers but for 'oops' in data row 51, 'n.n.' in data row 102, 'x' in data row 103 and 2 more"
    with pytest.raises(DataError, match=message.replace(".", r"\.")) as error:
        list(opened(path, "y", bad_rows=bad_rows))
    assert "y=category" in str(error.value)
    labels = np.concatenate([y for _, y in opened(path, "y", types={"y": "category"})])
    assert set(labels) == {"2", "3", "oops", "n.n.", "x", "!", "w"}


@pytest.mark.parametrize("opened", [open_table, open_frame])
def test_marks_of_missing_values_are_no_labels(tmp_path, opened):
    path = write(tmp_path, "a,y\n1,2.5\n1,?\n1,NA\n1,-\n1,\n1,null\n1,3.5\n")
    table = opened(path, "y", bad_rows="skip")
    assert np.concatenate([y for _, y in table]).tolist() == [2.5, 3.5]
    assert table.skipped.notes == ["5 rows left out for a missing target 'y': data rows 2, 3, 4, 5, 6"]


@pytest.mark.parametrize("opened", [open_table, open_frame])
def test_numbers_with_marks_between_thousands_are_no_labels(tmp_path, opened):
    path = write(tmp_path, 'a,y\n1,"1,234"\n2,"2,345"\n3,"much"\n')
    with pytest.raises(DataError, match=r"'y' holds numbers that are .* as text.* \(y=number\), or .* \(y=category\)"):
        list(opened(write(tmp_path, 'a,y\n1,"1,234"\n2,"2,345"\n'), "y"))
    write(tmp_path, 'a,y\n1,"1,234"\n2,"2,345"\n3,"much"\n')
    table = opened(path, "y", types={"y": "number"}, bad_rows="skip")
    assert np.concatenate([y for _, y in table]).tolist() == [1234, 2345]
    assert "target 'y' read from text ('1,234' as 1234)" in table.notes
    assert "what is no number in the target 'y', such as 'much', counts as missing" in table.notes
    assert table.skipped.notes == ["1 row left out for a missing target 'y': data row 3"]


AMOUNTS = np.arange(30) * 1250 + 1000


def amounts_file(tmp_path, suffix, form, n=30):
    frame = pd.DataFrame({"a": np.arange(n) % 7, "y": [form.format(value) for value in AMOUNTS[:n]]})
    path = tmp_path / f"t{suffix}"
    write_as = {".csv": frame.to_csv, ".parquet": frame.to_parquet}
    if suffix == ".jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        write_as[suffix](path, index=False)
    return path


@pytest.mark.parametrize("opened", [open_table, open_frame])
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize(
    ("form", "told"), [("${:,}", "without '$' ('$1,000' as 1000)"), ("{:,} EUR", "without 'EUR' ('1,000 EUR' as 1000)")]
)
def test_targets_with_a_currency_are_amounts(tmp_path, opened, suffix, form, told):
    table = opened(amounts_file(tmp_path, suffix, form), "y")
    for _ in range(2):
        np.testing.assert_array_equal(np.concatenate([y for _, y in table.batches(8)]), AMOUNTS)
    assert f"target 'y' read from text {told}" in table.notes


def test_a_few_targets_with_a_unit_are_labels_unless_amounts_are_asked_for(tmp_path):
    path = amounts_file(tmp_path, ".csv", "{} months", 20)
    assert next(iter(open_frame(path, "y")))[1][0] == "1000 months"
    for table in (open_frame(path, "y", types={"y": "number"}), open_frame(path, "y")):
        table.expect_amounts()
        np.testing.assert_array_equal(next(iter(table))[1], AMOUNTS[:20])
    labels = open_frame(amounts_file(tmp_path, ".csv", "{} EUR"), "y", types={"y": "category"})
    assert next(iter(labels))[1][0] == "1000 EUR"


@pytest.mark.parametrize("opened", [open_table, open_frame])
def test_other_cells_among_amounts_are_refused_or_missing(tmp_path, opened):
    path = amounts_file(tmp_path, ".csv", "${}")
    path.write_text(path.read_text() + "3,free\n")
    with pytest.raises(DataError, match=r"'y' holds numbers but for 'free' in data row 31.*types=... \(y=number\)"):
        list(opened(path, "y", bad_rows="skip"))
    table = opened(path, "y", types={"y": "number"}, bad_rows="skip")
    assert sum(len(y) for _, y in table) == 30


def test_a_decimal_comma_of_the_file_is_one_of_the_target(tmp_path):
    path = write(tmp_path, "a;y\n0,5;1.250 EUR\n1,5;2.500 EUR\n")
    assert next(iter(open_frame(path, "y", types={"y": "number"})))[1].tolist() == [1250, 2500]


def test_thousands_and_decimals_tell_the_mark_of_a_target(tmp_path):
    """Without cells that hold both marks, texts such as 1,250 may be lists of codes."""
    cells = [f"{k},5" for k in range(30)]
    table = "a,y\n" + "".join(f'{k}.5,"{cell}"\n' for k, cell in enumerate(cells))
    with pytest.raises(DataError, match="written as text"):
        list(open_frame(write(tmp_path, table), "y"))
    path = write(tmp_path, table + '1.5,"9.250,25"\n')
    assert next(iter(open_frame(path, "y")))[1].tolist() == [*np.arange(30) + 0.5, 9250.25]


def test_arrays_with_missing_values(tmp_path):
    values = np.array([[1, np.nan, 3], [4, 5, 6], [7, 8, np.nan]])
    np.save(tmp_path / "t.npy", values)
    with pytest.raises(match="data row 1, column 'c1' is missing"):
        list(open_table(tmp_path / "t.npy", "0"))
    frame = open_frame(tmp_path / "t.npy", "-1", bad_rows="skip")
    columns, y, numbers = collect(frame)
    assert columns.to_pydict() == {"c0": [1, 4], "c1": [None, 5]}
    assert (y.tolist(), numbers.tolist()) == ([3, 6], [1, 2])


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,y\nx,2020-01-01\n", {"target": "y"}, "target column 'y' holds dates, not numbers or labels"),
        ("a,a,y\nx,1,1\n", {"target": "y"}, "column name 'a' occurs more than once"),
        ("a,y\nx,1\n", {"target": "z"}, "no target column 'z'. Choose from 'y', 'a'|no target column 'z'"),
        ("a,y\nx,1\n", {"types": {"b": "text"}}, "`types` names a column 'b'"),
        ("a,y\nx,1\n", {"types": {"a": "txt"}}, "`types` must say one of number, .*of column 'a', got 'txt'"),
        ("a,y\nx,1\n", {"target": "y", "types": {"a": "drop"}}, "no feature columns are left"),
        ("a,y\nx,1\n", {"bad_rows": "keep"}, "`bad_rows` must be 'error' or 'skip', got 'keep'"),
        ("a,y\n", {}, "has a header but no rows"),
    ],
)
def test_errors(tmp_path, text, options, message):
    with pytest.raises(ValueError, match=message) as error:
        open_frame(write(tmp_path, text), **options)
    assert "\n" not in str(error.value)


def test_archives_hold_one_readable_file(tmp_path):
    path = tmp_path / "t.zip"
    for members, message in (
        ({}, "holds 0 files"),
        ({"a.csv": "a\n", "b.csv": "b\n"}, "holds 2 files .*'a.csv', 'b.csv'"),
        ({"a.parquet": "x"}, "holds a packed .parquet file. Unpack it first"),
        ({"a.doc": "x"}, "unknown kind of file '.doc' in '.zip'"),
    ):
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in members.items():
                archive.writestr(name, text)
        with pytest.raises(DataError, match=message):
            open_frame(path)
    pd.DataFrame({"a": [1.5, 2.5], "y": [0.5, 1.5]}).to_csv(path, index=False)
    assert zipfile.ZipFile(path).namelist() == ["t"]
    assert open_frame(path, "y").feature_names == ("a",)
    path.write_bytes(b"PK nothing")
    with pytest.raises(DataError, match="damaged or locked zip archive"):
        open_frame(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"a": 1}, 2]', "record 2 is no object"),
        ('{"a": 1}\n{"a": \n', "is not JSON at line 2"),
        ("[]", "there are no rows"),
        (b'[{"a": "\xff"}]', "is not UTF-8 text"),
    ],
)
def test_bad_records(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        open_frame(write(tmp_path, text, "t.json"))


def test_records_of_any_keys(tmp_path):
    records = '[{"a": 1, "b": true}, {"a": 2.5, "c": [1, 2]}, {"b": null, "c": "x"}]'
    columns, _, _ = collect(open_frame(write(tmp_path, records, "t.json")))
    assert columns.to_pydict() == {"a": [1, 2.5, None], "b": [True, None, None], "c": [None, "[1, 2]", "x"]}


def test_damaged_feather(tmp_path):
    with pytest.raises(DataError, match="damaged or no Feather"):
        open_frame(write(tmp_path, b"ARROW1 and nothing", "t.feather"))


def test_digits_that_begin_with_a_zero_are_text_as_in_an_encoder(tmp_path):
    file = tmp_path / "zip.csv"
    file.write_text("zip,hour,share,level,y\n" + "75001,00,0.5,0,01\n01234,09,-0.5,10,02\n,23,00.5,-01,10\n" * 9)
    frame = open_frame(file, "y")
    assert [str(kind) for kind in frame.schema.types] == ["string", "string", "double", "int64"]
    columns, y = next(iter(frame))
    assert columns.column("zip").to_pylist()[:2] == ["75001", "01234"]
    assert y[:2].tolist() == [1, 2]
    notes = " ".join(frame.notes)
    assert "'zip' read as text, for digits that begin with a zero ('01234'); if they are numbers, use types=" in notes
    frame = open_frame(file, "y", types={"zip": "number", "hour": "category"})
    assert [str(frame.schema.field(name).type) for name in ("zip", "hour")] == ["int64", "string"]
    assert frame.notes == ()
    # Numbers alone are read as numbers where the reader has no columns of text.
    assert open_table(file, "y", columns=["zip"], bad_rows="skip").feature_names == ("zip",)


def test_codes_of_one_part_make_the_column_text_in_all_parts(tmp_path):
    for name, code in (("a", "75001"), ("b", "01234")):
        (tmp_path / f"{name}.csv").write_text(f"zip,y\n{code},1\n{code},2\n")
    frame = open_frame(f"{tmp_path}/*.csv", "y")
    assert [cell for columns, _ in frame for cell in columns.column("zip").to_pylist()] == ["75001"] * 2 + ["01234"] * 2
