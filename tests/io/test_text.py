"""CSV: types settled across blocks, headers, and every way a text file can be wrong."""

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from phimap.io import DataError, open_frame, open_table


def write(tmp_path, text, name="t.csv"):
    path = tmp_path / name
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def collect(table, rows=10_000):
    batches = list(table.batches(rows))
    X = np.concatenate([X for X, _ in batches])
    return X, None if batches[0][1] is None else np.concatenate([y for _, y in batches])


# Rows of 8 bytes: enough for several of the parser's 1 MB blocks.
MANY = 400_000


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    """Write a file whose columns a, b look like integers over many blocks and end with `last`."""

    def make(last, name="late.csv", top="a,b\n", row="1,2\n"):
        path = tmp_path_factory.mktemp("late") / name
        path.write_text(top + row * MANY + last)
        return path

    return make


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_equals_pandas_on_a_real_shape(tmp_path, suffix):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.lognormal(3, 4, size=(20_000, 10)), columns=list("abcdefghij"))
    frame["k"] = rng.integers(0, 500, len(frame))
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False)
    X, y = collect(open_table(path, target="a", dtype=np.float64), 3000)
    expected = pd.read_csv(path, converters=dict.fromkeys(frame.columns, float))
    np.testing.assert_array_equal(y, expected.pop("a"))
    np.testing.assert_array_equal(X, expected.to_numpy(dtype=np.float64))


@pytest.mark.data
def test_protein_table():
    path = Path(os.environ.get("PHIMAP_DATA", "")) / "protein.csv.gz"
    if not path.is_file():
        pytest.skip("PHIMAP_DATA does not name a folder with protein.csv.gz")
    X, y = collect(open_table(path, target="rmsd", dtype=np.float64))
    with gzip.open(path) as lines:
        expected = np.loadtxt(lines, delimiter=",", skiprows=1)
    np.testing.assert_array_equal(np.column_stack([y, X]), expected)


def test_integers_that_become_fractions_blocks_later(late):
    path = late("0.5,2.5\n")
    X, y = collect(open_table(path, target="b"), MANY)
    assert X[-1] == np.float32(0.5)
    assert y[-1] == 2.5
    first, last = (y for _, y in open_table(path, target="b").batches(MANY))
    assert (first.dtype, last.dtype) == (np.int64, np.float64)


def test_numbers_that_become_text_blocks_later_are_located(late):
    path = late("3,oops\n")
    for options in ({}, {"target": "b"}, {"columns": ["b"]}):
        with pytest.raises(DataError, match=f"data row {MANY + 1}, column 'b' holds 'oops', not a number. Correct"):
            collect(open_table(path, **options))
    X, _ = collect(open_table(path, columns=["a"]))
    assert X.shape == (MANY + 1, 1)


def test_a_ragged_row_blocks_later_is_located(late):
    with pytest.raises(DataError, match=f"data row {MANY + 1} has 3 values, 2 expected. Correct the row."):
        collect(open_table(late("1,2,3\n")))


def test_rows_are_counted_without_a_header_too(late):
    with pytest.raises(DataError, match=f"data row {MANY + 1}, column 'c1' holds 'oops'"):
        collect(open_table(late("3,oops\n", top="")))
    with pytest.raises(DataError, match=f"data row {MANY + 1} has 1 values"):
        collect(open_table(late("3\n", top="")))


@pytest.mark.parametrize(
    ("labels", "expected", "kind"),
    [
        (["cat", "dog", "NA"], ["cat", "dog", "NA"], "U"),
        (["3", "1", "2"], [3, 1, 2], "i"),
        (["true", "false", "true"], [True, False, True], "b"),
        (["1", "b", "3"], ["1", "b", "3"], "U"),
        (["0.5", "1", "2"], [0.5, 1, 2], "f"),
    ],
)
def test_kinds_of_target(tmp_path, labels, expected, kind):
    path = write(tmp_path, "x,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    _, y = collect(open_table(path, target="y"), 2)
    assert y.dtype.kind == kind
    np.testing.assert_array_equal(y, expected)


def test_boolean_features_are_numbers(tmp_path):
    X, _ = collect(open_table(write(tmp_path, "a,b\ntrue,1\nfalse,2\n")))
    np.testing.assert_array_equal(X, [[1, 1], [0, 2]])


def test_a_first_line_of_numbers_is_data(tmp_path):
    table = open_table(write(tmp_path, "1,2.5,-3e2\n4,5,6\n"), target="-1")
    X, y = collect(table)
    assert table.feature_names == ("c0", "c1")
    np.testing.assert_array_equal(X, [[1, 2.5], [4, 5]])
    np.testing.assert_array_equal(y, [-300, 6])


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffa,b\n1,2\n3,4\n",
        "a,b\r\n1,2\r\n3,4\r\n",
        '"a","b"\n"1",2\n3,"4"\n',
        "\na,b\n\n1,2\n\n3,4",
        "a,b\n 1, 2\n3 ,4 \n",
    ],
)
def test_harmless_variants(tmp_path, text):
    table = open_table(write(tmp_path, text))
    assert table.feature_names == ("a", "b")
    np.testing.assert_array_equal(collect(table)[0], [[1, 2], [3, 4]])


def test_gzip_members_in_a_row_and_capital_suffix(tmp_path):
    path = tmp_path / "T.CSV.GZ"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n"))
    np.testing.assert_array_equal(collect(open_table(path))[0], [[1, 2], [3, 4]])


def test_rows_wider_than_the_parsers_default_block(tmp_path):
    values = np.random.default_rng(2).random((4, 15_000))
    path = write(tmp_path, "".join(",".join(repr(x).zfill(80) for x in row) + "\n" for row in values.tolist()))
    assert path.stat().st_size > 4 * 2**20
    np.testing.assert_array_equal(collect(open_table(path, dtype=np.float64))[0], values)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, "the file is empty"),
        ("\n\n", {}, "the file is empty"),
        ("a,b\n", {}, "has a header but no rows"),
        ("a,b", {}, "has a header but no rows"),
        ("a,b,a\n1,2,3\n", {}, "column name 'a' occurs more than once"),
        ("a,b\n1,2\n3\n", {}, "data row 2 has 1 values, 2 expected"),
        ("a,b\n1,2\n3,4,5\n", {}, "data row 2 has 3 values, 2 expected"),
        (",a\n0,1\n", {}, r"column 1 has no name \(a saved row index\?\)"),
        (
            "a,b\n1,red\n",
            {},
            r"column 'b' holds text \('red' in data row 1\), not numbers. Leave it out with drop=",
        ),
        ("a,b\n1,2\n2,?\n", {}, "data row 2, column 'b' is missing or not a number"),
        ("a,b\n1,2020-01-31\n", {}, "column 'b' holds dates .*encode it as numbers"),
        ("a,b\n1,2020-01-31 10:00:00\n", {}, "column 'b' holds dates and times"),
        ("a,b\n1,12:30:00\n", {}, "column 'b' holds times of day"),
        ("a,b\n1,2\n,3\n", {}, "data row 2, column 'a' is missing"),
        ("a,b\n1,2\nNA,3\n", {}, "data row 2, column 'a' is missing"),
        ("a,b\n1,2\n4,\n", {"target": "b"}, "data row 2, column 'b' is missing"),
        ("a,b\n1,x\n4,\n", {"target": "b"}, "data row 2, column 'b' is missing. Fill"),
        ("a,b\n1,\n4,\n", {"target": "b"}, "data row 1, column 'b' is missing"),
        ("a,b\n1,true\n4,\n", {"target": "b"}, "data row 2, column 'b' is missing"),
        ("a,b\n,1\n,2\n", {}, "data row 1, column 'a' is missing"),
        (
            "a,b,c\n1,x,2\n",
            {"target": ["b", "c"]},
            "target column 'b' holds text, not numbers, as several targets must",
        ),
        ("a,b\n1,2020-01-01\n", {"target": "b"}, "target column 'b' holds dates, not numbers or labels"),
        ("a,b\n1,2\n", {"target": "c"}, "no target column 'c'. Choose from 'a', 'b'"),
        ("a,b\n1,2\n", {"target": "2"}, "no target column '2'. Choose from 'a', 'b'"),
        (b"a,b\n" + b"1,red\n" * 200_000 + b"1,gr\xfcn\n", {"target": "b"}, "is not UTF-8 text throughout. Save it"),
        ('a,b\n1,"2\n' + "3,4\n" * 600_000, {}, "a row is longer than .* bytes"),
    ],
)
@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_errors(tmp_path, text, options, message, name):
    path = write(tmp_path, text, name)
    with pytest.raises(DataError, match=message) as error:
        collect(open_table(path, **options))
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_quoted_line_breaks_in_columns_left_out(late):
    X, _ = collect(open_table(late('3,"4\n4"\n', row='1,"2\n2"\n'), columns=["a"]))
    assert X.shape == (MANY + 1, 1)


def test_unnamed_columns_may_be_left_out(tmp_path):
    X, _ = collect(open_table(write(tmp_path, ",a\n7,1\n"), columns=["a"]))
    np.testing.assert_array_equal(X, [[1]])


def test_truncated_and_false_gzip(tmp_path):
    path = tmp_path / "t.csv.gz"
    rows = "".join(f"{x},{x * x}\n" for x in np.random.default_rng(3).random(100_000))
    packed = gzip.compress(b"a,b\n" + rows.encode(), compresslevel=1)
    for content in (packed[: len(packed) // 2], packed[:-9], packed[:15], b"a,b\n1,2\n"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"damaged or truncated gzip file .*Fetch or compress it again"):
            collect(open_table(path))


@pytest.mark.parametrize("bad_rows", ["error", "skip"])
@pytest.mark.parametrize(("row", "column", "named"), [(1, 0, "data row 1 "), (30, 1, "data row 30 "), (30, 2, "'w30'")])
def test_a_quote_that_is_never_closed_loses_no_rows(tmp_path, bad_rows, row, column, named):
    cells = [[str(i), str(i % 7), f"w{i}"] for i in range(1, 61)]
    cells[row - 1][column] = '"' + cells[row - 1][column]
    path = write(tmp_path, "\n".join(["a,b,c", *map(",".join, cells)]) + "\n")
    with pytest.raises(DataError, match=f"{named}.*opens a quote that is not closed.*[^\n]"):
        list(open_frame(path, "a", bad_rows=bad_rows))


def test_closed_quotes_may_hold_line_breaks_and_separators(tmp_path):
    path = write(tmp_path, "a,b,c\n" + '1,2,"x\n1,2,3\n4,5,6"\n' * 3)
    assert sum(len(X) for X, _ in open_frame(path, "a")) == 3
