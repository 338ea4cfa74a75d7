"""The command line in this process, and small tables to run it on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from phimap.cli.commands import app


@pytest.fixture(scope="session")
def phimap() -> Callable:
    """Run ``phimap`` with these arguments; the result has ``exit_code``, ``stdout`` and ``stderr``."""
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``numbers.csv`` (a, b, c -> y), its rows in other forms, and ``labels.csv`` (-> kind)."""
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(600)
    kind = np.where(X[:, 0] + X[:, 1] > 0, "warm, dry", np.where(X[:, 2] > 0, "cold", "mild"))
    lines = ["a,b,c,y", *(",".join(f"{value:.6f}" for value in row) for row in np.column_stack([X, y]))]
    (folder / "numbers.csv").write_text("\n".join(lines) + "\n")
    lines = ["a,b,c,kind", *(",".join(f"{v:.6f}" for v in row) + f',"{k}"' for row, k in zip(X, kind, strict=True))]
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    np.save(folder / "rows.npy", X)
    np.savez(folder / "images.npz", X=rng.integers(0, 255, (80, 5, 5), dtype=np.uint8), y=np.arange(80) % 3)
    return folder
