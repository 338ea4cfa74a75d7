"""Numbers or columns by the schema, a pass that begins again where a row does not fit it, and a format in one line."""

from __future__ import annotations

import sys
import types

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from phimap.io import BadRows, DataError, Table, formats, open_rows, open_table, read_through
from phimap.io.column_file import TypedFile
from phimap.io.frame import Frame
from tests.io.test_text import MANY


def columns_of(rows):
    """All rows of a table or a frame, column by column, and the targets."""
    parts = list(rows.batches(100_000))
    y = np.concatenate([y for _, y in parts])
    if isinstance(rows, Table):
        X = np.concatenate([X for X, _ in parts])
        return {name: X[:, j].tolist() for j, name in enumerate(rows.feature_names)}, y
    return pa.concat_tables([X for X, _ in parts]).to_pydict(), y


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json", "feather"])
@pytest.mark.parametrize(
    ("column", "kind"),
    [([1.5, 2.5], Table), ([True, False], Table), (["u", "v"], Frame), (["2020-01-31"] * 2, Frame)],
)
def test_the_schema_says_whether_a_table_holds_numbers(tmp_path, suffix, column, kind):
    path, frame = tmp_path / f"t.{suffix}", pd.DataFrame({"a": [1, 2], "b": column, "y": [3, 4]})
    writers = {"json": lambda: frame.to_json(path, orient="records"), "csv": lambda: frame.to_csv(path, index=False)}
    writers.get(suffix, lambda: getattr(frame, f"to_{suffix}")(path))()
    assert isinstance(open_rows(path, "y"), kind)
    assert isinstance(open_rows(path, "y", drop=["b"]), Table)
    # Whoever says what a column is wants columns.
    assert isinstance(open_rows(path, "y", types={"a": "category"}), Frame)


def test_columns_without_a_name_make_columns(tmp_path):
    (tmp_path / "t.csv").write_text(",a,y\n1,2,3\n4,5,6\n")
    assert open_rows(tmp_path / "t.csv", "y").feature_names == ("a",)
    assert isinstance(open_rows(tmp_path / "t.csv", "y"), Frame)
    assert isinstance(open_rows(tmp_path / "t.csv", "y", drop=[0]), Table)


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ("2.5", 2.5),
        ("oops", "oops"),
        ("", None),
        ("gr\xfcn", "grün"),
    ],
)
def test_a_pass_over_text_begins_again(tmp_path, last, found):
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,y\n" + b"1,2\n" * MANY + f"{last},2\n".encode("latin-1"))
    begun = []

    def read(rows):
        begun.append(type(rows).__name__)
        return columns_of(rows)

    rows, (columns, y) = read_through(open_rows(path, "y", bad_rows="skip"), read)
    again = ["ColumnTable"] if last == "2.5" else ["ColumnTable", "ColumnFrame"]
    assert begun == again
    assert type(rows).__name__ == again[-1]
    assert len(columns["a"]) == len(y) == MANY + 1
    assert columns["a"][-1] == found
    assert columns["a"][0] == ("1" if isinstance(found, str) else 1)


@pytest.mark.parametrize("suffix", ["parquet", "npy"])
def test_a_pass_over_stored_numbers_begins_again_at_a_missing_one(tmp_path, suffix):
    values = np.arange(40.0).reshape(20, 2)
    values[11, 0] = np.nan
    path = tmp_path / f"t.{suffix}"
    np.save(path, values) if suffix == "npy" else pd.DataFrame(values, columns=["c0", "c1"]).to_parquet(path)
    rows, (columns, _) = read_through(open_rows(path, "c1", bad_rows="skip"), columns_of)
    assert isinstance(rows, Frame)
    assert columns["c0"][10:13] == [20.0, None, 24.0]
    # `open_table` is for those who want numbers alone.
    with pytest.raises(DataError, match="data row 12, column 'c0' is missing"):
        list(open_table(path, "c1"))


def test_errors_that_no_other_reading_mends_are_raised_once(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,2\ninf,3\n")
    begun = []
    with pytest.raises(DataError, match="data row 2, column 'a' is infinite"):
        read_through(open_rows(tmp_path / "t.csv", "y"), lambda rows: begun.append(rows) or list(rows))
    assert len(begun) == 1


def test_cells_that_are_not_numbers_may_count_as_missing(tmp_path):
    path = tmp_path / "t.csv"
    # A row of another width comes before the cell, so that the parser reports it twice.
    path.write_text("a,y\n" + "1,2\n" * 10 + "1,2,3\n" + "1,2\n" * MANY + "oops,2\n5,2\n")
    table = open_table(path, "y", types={"a": "number"}, bad_rows="skip")
    with pytest.raises(DataError, match=f"data row {MANY + 12}, column 'a' is missing"):
        list(table.batches())
    table = open_table(path, "y", types={"a": "number"}, bad_rows=BadRows("skip", "skip", "skip"))
    for _ in range(2):
        parts = list(table.numbered_batches(70_000))
        assert sum(X.sum() for X, _, _ in parts) == MANY + 15
        assert np.concatenate([numbers for _, _, numbers in parts]).tolist() == [
            number for number in range(1, MANY + 14) if number not in (11, MANY + 12)
        ]
        assert table.skipped.notes == [
            "1 row left out for another number of values than columns: data row 11",
            f"1 row left out for a missing feature: data row {MANY + 12}",
        ]
    assert table.notes == ("what is no number in column 'a', such as 'oops', counts as missing",)
    path.write_text("a,y\n" + "1,2\n" * (MANY + 11) + "oops,2\n")
    with pytest.raises(DataError, match=f"data row {MANY + 12}, column 'a' holds 'oops', not a number"):
        list(open_table(path, "y", types={"a": "number"}).batches())


def test_a_format_is_a_class_and_a_line(tmp_path, monkeypatch):
    class Pairs(TypedFile):
        kind = "pairs"

        def __init__(self, source):
            self._pairs = [tuple(map(int, line.split("->"))) for line in source.path.read_text().splitlines()]
            super().__init__(source.where, pa.schema([("x", pa.int64()), ("y", pa.int64())]), len(self._pairs))

        def _read(self, columns, rows):
            whole = pa.table(dict(zip("xy", zip(*self._pairs, strict=True), strict=True)), schema=self.schema)
            yield from whole.select(list(columns)).to_batches(max_chunksize=rows)

    module = types.ModuleType("phimap.io.pairs")
    module.Pairs = Pairs  # pyright: ignore
    monkeypatch.setitem(sys.modules, "phimap.io.pairs", module)
    monkeypatch.setattr(
        formats, "FORMATS", (*formats.FORMATS, formats.Format("files of pairs", (".pairs",), "pairs:Pairs"))
    )
    for name, text in (("0.pairs", "1->2\n3->4\n"), ("1.pairs", "5->6\n")):
        (tmp_path / name).write_text(text)
    assert columns_of(open_rows(tmp_path / "0.pairs", "y"))[0] == {"x": [1.0, 3.0]}
    assert columns_of(open_rows(tmp_path / "*.pairs", "y"))[0] == {"x": [1.0, 3.0, 5.0]}
