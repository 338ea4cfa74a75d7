"""Write two real data sets that ship with scikit-learn as CSV files, for ``make demo``."""

from __future__ import annotations

import sys
from pathlib import Path

from sklearn.datasets import load_diabetes, load_digits


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    diabetes = load_diabetes(as_frame=True, scaled=False).frame
    diabetes.rename(columns={"target": "progression"}).to_csv(folder / "diabetes.csv", index=False)
    digits = load_digits(as_frame=True).frame
    digits.rename(columns={"target": "digit"}).to_csv(folder / "digits.csv", index=False)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
