"""Write two real data sets that ship with scikit-learn as CSV files, for ``make demo``."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from sklearn.datasets import load_diabetes, load_digits


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    diabetes, digits = load_diabetes(scaled=False), load_digits()
    write(folder / "diabetes.csv", [*diabetes.feature_names, "progression"], diabetes)
    write(folder / "digits.csv", [*digits.feature_names, "digit"], digits)


def write(path: Path, header: list[str], data) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(header)
        rows.writerows([*row, target] for row, target in zip(data.data.tolist(), data.target.tolist(), strict=True))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
