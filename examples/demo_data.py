"""Write two real data sets that ship with scikit-learn as CSV files, for ``make demo``."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

from sklearn.datasets import load_breast_cancer, load_digits


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    cancer, digits = load_breast_cancer(), load_digits()
    # A target on which a straight line errs twice as much as a kernel: the spread of the areas of a tumour's cells.
    write(folder / "cancer.csv", [*(name.replace(" ", "_") for name in cancer.feature_names), "benign"], cancer)
    write(folder / "digits.csv", [*digits.feature_names, "digit"], digits)


def write(path: Path, header: list[str], data) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(header)
        rows.writerows([*row, target] for row, target in zip(data.data.tolist(), data.target.tolist(), strict=True))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
