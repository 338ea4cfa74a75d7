"""What the package imports, what it exports, and that its documentation has the agreed sections."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import phimap as pm

SOURCE = Path(pm.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
BACKENDS = {"numba", "torch"}
UNSAFE = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
FAMILIES = ("features", "learn", "projections", "sketches")
SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
NOTES = ("**Error", "**Cost", "**Differs from the source")


def imported_packages(tree: ast.AST) -> set[str]:
    """Top-level packages that a file imports anywhere, those for type checkers included."""
    packages = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            packages.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("import_module", "__import__"):
                packages.add(str(node.args[0].value).partition(".")[0])
    return packages


def sections(docstring: str) -> dict[str, str]:
    """Title to text of the sections of a numpydoc docstring."""
    matches = list(SECTION.finditer(docstring))
    ends = [match.start() for match in matches[1:]] + [len(docstring)]
    return {match["title"]: docstring[match.end() : end] for match, end in zip(matches, ends, strict=True)}


def public_classes() -> dict[str, type]:
    """Concrete classes that the families export, by their full names."""
    classes = {}
    for family in FAMILIES:
        module = importlib.import_module(f"phimap.{family}")
        for name in module.__all__:
            member = getattr(module, name)
            if inspect.isclass(member) and not inspect.isabstract(member) and hasattr(member, "get_params"):
                classes[f"{family}.{name}"] = member
    return classes


CLASSES = public_classes()


def test_import_loads_nothing_else():
    program = (
        "import sys; before = set(sys.modules); import phimap; import json;"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout))
    assert {name for name in loaded if name.startswith("phimap")} == {"phimap", "phimap.config"}
    slow = {"dask", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "torch", "typer"}
    assert not loaded & slow


@pytest.mark.parametrize("module", ["kernels", "projections", "sketches", "features", "learn", "metrics"])
def test_families_load_no_slow_library(module):
    program = (
        f"import sys, phimap; phimap.{module}; import json;"
        "print(json.dumps([name for name in ('torch', 'numba', 'scipy.stats', 'pyarrow', 'matplotlib', 'dask')"
        " if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    allowed = sklearn_loads()
    assert set(json.loads(done.stdout)) <= allowed


def sklearn_loads() -> set[str]:
    """The slow libraries that scikit-learn's own base module loads, which no choice of ours avoids."""
    program = "import sys, json, sklearn.base, sklearn.utils.validation; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_module_imports_without_the_extras(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in {"torch", "dask", "distributed"}:
            raise


@pytest.mark.parametrize("name", pm.__all__)
def test_public_name_resolves(name):
    assert getattr(pm, name) is not None
    assert name in dir(pm)


def test_public_names_are_sorted_and_unique():
    assert sorted(set(pm.__all__)) == pm.__all__


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'FourierFeature'"):
        _ = pm.FourierFeature


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_source_file_keeps_the_import_rules(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    packages = imported_packages(tree)
    if path.relative_to(SOURCE).parts[0] != "ops":
        assert not packages & BACKENDS
    assert not packages & UNSAFE
    allowed = [
        keyword.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "allow_pickle"
    ]
    assert all(isinstance(value, ast.Constant) and value.value is False for value in allowed)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("import torch.nn as nn", {"torch"}),
        ("def f():\n    from numba import njit", {"numba"}),
        ("import_module('pickle')", {"pickle"}),
        ("from . import numba", set()),
    ],
)
def test_scan_sees_every_way_to_import(program, expected):
    assert imported_packages(ast.parse(program)) == expected


@pytest.mark.parametrize("name", CLASSES)
def test_docstring_has_the_agreed_sections(name):
    found = sections(inspect.getdoc(CLASSES[name]) or "")
    missing = [note for note in NOTES if note not in found.get("Notes", "")]
    assert not missing, f"Notes lack {missing}"
    assert found.get("References", "").strip()


@pytest.mark.parametrize("name", CLASSES)
def test_docstring_describes_every_parameter(name):
    documented = set()
    for line in sections(inspect.getdoc(CLASSES[name]) or "").get("Parameters", "").splitlines():
        if match := re.match(r"(\w+(?:, \w+)*) : ", line):
            documented |= set(match[1].split(", "))
    signature = inspect.signature(CLASSES[name])
    assert documented == set(signature.parameters)
