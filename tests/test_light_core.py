"""The core alone: what works without the extras, and what the rest then says."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.test_imports import SOURCE, imported_packages

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRA = ("jinja2", "matplotlib", "pyarrow", "rich", "typer")
# Makes Python find none of the packages that the extras bring.
HIDE = f"""
import sys
class Hiding:
    def __init__(self, finder): self.finder = finder
    def __getattr__(self, name): return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        hidden = name.partition(".")[0] in {(*EXTRA, "PIL", "torch")}
        return None if hidden else self.finder.find_spec(name, path, target)
sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]
"""
CORE = """
import json, numpy as np, phimap as pm
from phimap.io import open_table
X = np.random.default_rng(0).standard_normal((80, 3)); y = X[:, 0]
fixed = {"kernel": "gaussian", "n_components": 32, "length_scale": "median", "metric": None}
for model in (pm.KernelRegressor(random_state=0, verbose=2, **fixed), pm.KernelClassifier(**fixed)):
    model.fit(X, y if "Regressor" in type(model).__name__ else y > 0)
    pm.save(model, "model.phimap")
    assert (pm.load("model.phimap").predict(X) == model.predict(X)).all()
np.save("rows.npy", X)
assert len(next(iter(open_table("rows.npy", target=0)))[0]) == 80
found = {}
for name in ("rows.csv", "rows.parquet"):
    open(name, "w").close()
    try: open_table(name)
    except ImportError as error: found[name] = str(error)
print(json.dumps(found))
"""


def requirements(listed: list[str]) -> set[str]:
    """Names of packages without their versions."""
    return {text.partition(">")[0] for text in listed}


def run(program: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", HIDE + program, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess:
    return run(CORE, tmp_path_factory.mktemp("core"))


def test_learners_and_model_files_need_no_extra(core):
    assert core.returncode == 0, core.stderr


def test_verbose_fits_write_lines_where_no_bars_can_be_drawn(core):
    assert core.stderr
    told, *timed = sorted(core.stderr.splitlines(), key=lambda line: not line.startswith("solver: "))
    assert told.startswith("solver: cholesky, ")
    assert all(re.search(r": [\d.]+ s( \([\d,.]+ rows/s\))?$", line) for line in timed)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_tables_say_what_reads_them(core, name):
    assert json.loads(core.stdout)[name] == (
        f"{name}: files of tables are read by pyarrow. Install it: pip install pyarrow."
    )


@pytest.mark.parametrize("words", [(), ("fit", "--help")])
def test_the_command_says_in_one_line_how_to_get_it(words, tmp_path):
    done = run("from phimap.cli import main; main()", tmp_path, *words)
    assert done.returncode == 2
    assert done.stdout == ""
    needed = "jinja2, matplotlib, pyarrow, rich, typer"
    install = f"pip install {needed.replace(',', '')}"
    assert done.stderr == f"error: the command phimap needs {needed}. Install: {install}.\n"


def test_frames_of_text_say_what_encodes_them(tmp_path):
    program = "import pandas as pd, phimap as pm; pm.KernelRegressor().fit(pd.DataFrame({'a': ['x', 'y']}), [1, 2])"
    done = run(program, tmp_path)
    assert done.stderr.endswith(
        "`X` holds more than complete numbers, which pyarrow is needed to encode. Install it: pip install pyarrow.\n"
    )


def test_the_core_requires_what_transformers_and_learners_need():
    wanted = {"numba", "numpy", "safetensors", "scikit-learn", "scipy", "threadpoolctl"}
    assert requirements(PROJECT["dependencies"]) == wanted
    assert requirements(PROJECT["optional-dependencies"]["cli"]) == set(EXTRA)


def test_every_extra_does_something():
    assert PROJECT["optional-dependencies"].keys() == {
        "bench",
        "cli",
        "compare",
        "dask",
        "docs",
        "excel",
        "images",
        "onnx",
        "test",
        "torch",
    }


def test_source_files_import_what_their_rooms_may():
    core = {"numba", "numpy", "phimap", "safetensors", "scipy", "sklearn", "threadpoolctl"}
    rooms = {
        "bench": (*EXTRA, "pandas"),
        "cli": EXTRA,
        "report": EXTRA,
        "ops": ("llvmlite", "torch"),
        "_progress.py": ("rich",),
    }
    rooms |= {"_dask.py": ("dask", "distributed", "pandas")}
    peers = {"bench/tabular/methods.py": ("xrfm", "pytabkit"), "comparison/methods.py": ("lightgbm",)}
    peers |= {"comparison/categories.py": ("catboost",)}
    peers |= {"comparison/rows.py": ("pyarrow",), "advice/machine.py": ("pyarrow",)}
    io = (
        "archive",
        "arrow",
        "batching",
        "column_file",
        "csv_file",
        "excel",
        "frame",
        "ipc",
        "json_file",
        "libsvm",
        "parquet",
        "parts",
        "whole_file",
    )
    arrow = (*(f"io/{name}.py" for name in io), "tables/amounts.py", "tables/cells.py")
    peers |= {"explain/explanation.py": ("shap",), "explain/frames.py": ("pandas", "polars", "pyarrow")}
    peers |= {"exports/onnx_model.py": ("onnx", "onnxruntime"), "exports/frames.py": ("pyarrow",)}
    peers |= {"io/excel.py": ("openpyxl", "pyarrow")}
    images = dict.fromkeys(("io/images.py", "bench/images.py"), ("PIL",))
    readers = dict.fromkeys(arrow, ("pyarrow",)) | images
    others = {}
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        allowed = {*core, *rooms.get(place.partition("/")[0], ()), *readers.get(place, ()), *peers.get(place, ())}
        others[place] = (
            imported_packages(ast.parse(path.read_text(encoding="utf-8"))) - sys.stdlib_module_names - allowed
        )
    assert not {place: packages for place, packages in others.items() if packages}
