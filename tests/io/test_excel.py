"""Excel workbooks: what cells become, and files that are damaged, hostile or not one sheet."""

from __future__ import annotations

import sys
import zipfile
from datetime import datetime

import openpyxl
import pandas as pd
import pytest

import phimap as pm
from phimap.io import DataError, open_frame


def write(path, rows, *, sheets=1):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for _ in range(sheets - 1):
        book.create_sheet()
    book.save(path)
    return path


def test_cells_become_numbers_text_and_missing_cells(tmp_path):
    rows = [
        ["when", "much", "word", "y"],
        [datetime(2020, 1, 31), 1, "a", 1.5],
        [datetime(2020, 2, 1, 12, 30), 2.5, 7, 2],
        [None, None, None, None],
        [None, "#DIV/0!", " ", 3],
    ]
    (columns, y), *_ = open_frame(write(tmp_path / "t.xlsx", rows), "y").batches(10)
    assert columns["when"].to_pylist() == ["2020-01-31", "2020-02-01 12:30:00", None]
    assert columns["much"].to_pylist() == [1.0, 2.5, None]
    assert columns["word"].to_pylist() == ["a", "7", None]
    assert y.tolist() == [1.5, 2.0, 3.0]


def test_workbooks_of_several_sheets_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"holds 2 sheets \('Sheet', 'Sheet1'\), not one"):
        open_frame(write(tmp_path / "t.xlsx", [["a", "y"], [1, 2]], sheets=2), "y")


@pytest.mark.parametrize("rows", [[], [["a", "y"]]], ids=["empty", "names"])
def test_sheets_without_rows(tmp_path, rows):
    with pytest.raises(DataError, match="there are no rows"):
        open_frame(write(tmp_path / "t.xlsx", rows), "y")


def test_damaged_files_are_one_line(tmp_path):
    whole = write(tmp_path / "whole.xlsx", [["a", "y"], *([k, k] for k in range(500))]).read_bytes()
    for content in (b"", b"a,y\n1,2\n", whole[: len(whole) // 2]):
        (tmp_path / "t.xlsx").write_bytes(content)
        with pytest.raises(DataError, match="Excel") as raised:
            open_frame(tmp_path / "t.xlsx", "y")
        assert "\n" not in str(raised.value)


def test_what_does_not_fit_is_refused_before_it_is_read(tmp_path):
    """Mutant: no count of cells. One cell far below and far to the right takes a thousand times its file."""
    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD300000"] = "a", 1
    book.save(tmp_path / "far.xlsx")
    with pm.config(memory="64MB"), pytest.raises(DataError, match="has more than 1048576 cells"):
        open_frame(tmp_path / "far.xlsx")
    with zipfile.ZipFile(tmp_path / "bomb.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b" " * 10**7)
    with pm.config(memory="64MB"), pytest.raises(DataError, match="unpacks to 10000000 bytes"):
        open_frame(tmp_path / "bomb.xlsx")


def test_without_openpyxl_the_package_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "t.xlsx", [["a", "y"], [1, 2]])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match="pip install openpyxl"):
        open_frame(path, "y")


def test_a_learner_takes_a_workbook(tmp_path):
    a = [k * 7 % 20 + 0.5 for k in range(60)]
    frame = pd.DataFrame({"a": a, "b": ["u", "v", "w"] * 20, "y": [0.5 * one for one in a]})
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    rows = open_frame(tmp_path / "t.xlsx", "y")
    model = pm.KernelRegressor("gaussian", 32, random_state=0).fit_batches(rows)
    assert model.score(frame[["a", "b"]], frame["y"]) > 0.9
