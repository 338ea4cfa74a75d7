"""What the scripts in `benchmarks/` import from the package exists: most of them run rarely."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import phimap as pm

SCRIPTS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_names_exist(script):
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("phimap"):
            module = import_module(node.module)
            for one in node.names:
                assert hasattr(module, one.name) or find_spec(f"{node.module}.{one.name}"), (node.module, one.name)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_private_attributes_of_models_exist(script):
    known = {name for learner in (pm.KernelRegressor, pm.KernelClassifier) for name in dir(learner)}
    known |= set(pm.KernelRegressor.__dataclass_fields__)
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "model" and node.attr.startswith("_"):
            assert node.attr in known
