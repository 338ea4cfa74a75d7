"""What others need to adopt the package: a recipe, benchmarks and a wrapper that hold what pyproject.toml says."""

from __future__ import annotations

import ast
import importlib
import json
import pickle
import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

from tests.support.pages import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
# Names of packages that differ on conda-forge.
_ON_CONDA = {"matplotlib": "matplotlib-base"}


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def requirement(text: str) -> tuple[str, str]:
    """Name and least version of a requirement such as ``numpy>=2.0``."""
    name, _, version = text.replace(" ", "").partition(">=")
    return _ON_CONDA.get(name, name), version


def test_the_conda_recipe_needs_what_the_project_needs():
    recipe = read(ROOT / "conda" / "recipe.yaml")
    run = recipe.partition("  run:\n")[2].partition("\ntests:")[0]
    found = [line.strip()[2:] for line in run.splitlines() if line.strip().startswith("- ")]
    assert found[0] == "python >=${{ python_min }}"
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["cli"]]
    assert dict(map(requirement, found[1:])) == dict(map(requirement, wanted))
    assert f'version: "{PROJECT["version"]}"' in recipe
    assert f'python_min: "{PROJECT["requires-python"].removeprefix(">=")}"' in recipe
    assert f'summary: "{PROJECT["description"]}"' in recipe
    assert f"license: {PROJECT['license']}" in recipe
    assert "noarch: python" in recipe
    build = PYPROJECT["build-system"]["requires"][0]
    assert f"- {build.replace('>=', ' >=')}" in recipe
    (script,) = PROJECT["scripts"].items()
    assert f"- {script[0]} = {script[1]}" in recipe


@pytest.mark.parametrize("module", ["maps", "fits"])
def test_benchmarks_for_asv_run(module, monkeypatch):
    """Every case is set up and tracked. Rows are few, and only the smallest fit is run here."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "asv"))
    suite = importlib.import_module(f"suite.{module}")
    if module == "maps":
        monkeypatch.setattr(suite, "_ROWS", 600)
        monkeypatch.setattr(suite, "_WIDTH", 128)
        for name in suite.Transform.params[0]:
            case = suite.Transform()
            case.setup(name)
            case.time_transform(name)
            assert 0 < case.track_relative_error(name) < 1
    else:
        case = suite.Fit()
        assert len(case.params[0]) == 3
        case.setup("gaussian on 20,000 rows")
        case.training = tuple(part[:2000] for part in case.training)
        assert 0.5 < case.track_score("gaussian on 20,000 rows") < 1
    for name in [name for name in sys.modules if name.partition(".")[0] == "suite"]:
        sys.modules.pop(name)


def test_asv_is_set_up_for_this_project():
    found = json.loads(read(ROOT / "benchmarks" / "asv" / "asv.conf.json"))
    assert found["project"] == PROJECT["name"]
    assert (ROOT / "benchmarks" / "asv" / found["benchmark_dir"]).is_dir()
    names = {requirement(one)[0] for one in PROJECT["dependencies"]}
    assert set(found["matrix"]["req"]) == names


@pytest.fixture
def wrapper(monkeypatch):
    """The module that wraps the learners for AutoGluon."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "tabarena"))
    yield importlib.import_module("phimap_model")
    sys.modules.pop("phimap_model")


QUICK = {"n_components": 64, "effort": "fast"}


@pytest.mark.parametrize(
    ("load", "problem_type", "shape"),
    [(load_diabetes, "regression", ()), (load_breast_cancer, "binary", ()), (load_iris, "multiclass", (3,))],
)
def test_the_wrapper_gives_what_autogluon_expects(wrapper, load, problem_type, shape):
    X, y = load(return_X_y=True, as_frame=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X.iloc[order], y.iloc[order]
    # A category and missing cells, as the tables of TabArena have them.
    X = X.assign(kind=pd.Categorical(np.where(X.iloc[:, 0] > X.iloc[:, 0].median(), "a", "b")))
    X.iloc[::9, 1] = np.nan
    model = wrapper.fitted(X[:100], y[:100], problem_type, time_limit=60.0, n_jobs=1, **QUICK)
    found = wrapper.predictions(model, X[100:140], problem_type)
    assert found.shape == (40, *shape)
    true = y[100:140].to_numpy()
    if problem_type == "regression":
        assert np.corrcoef(found, true)[0, 1] > 0.4
    elif problem_type == "binary":
        assert np.mean((found > 0.5) == true) > 0.8
    else:
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)
        assert np.mean(found.argmax(axis=1) == true) > 0.8


class StandIn:
    """What the wrapper uses of AutoGluon's `AbstractModel`."""

    def __init__(self, problem_type, params):
        self.problem_type, self.params = problem_type, params

    def preprocess(self, X, **options):
        return X

    def _get_model_params(self):
        return dict(self.params)


def test_the_model_class_fits_predicts_and_is_pickled(wrapper, monkeypatch):
    models = ModuleType("autogluon.core.models")
    models.AbstractModel = StandIn
    for name, module in (("autogluon", models), ("autogluon.core", models), ("autogluon.core.models", models)):
        monkeypatch.setitem(sys.modules, name, module)
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = wrapper.PhimapModel("regression", QUICK | {"random_state": 3})
    model._fit(X[:200], y[:200], time_limit=60.0, num_cpus=1)
    assert model.model.random_state == 3
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again._predict_proba(X[200:]), model._predict_proba(X[200:]))
    assert set(wrapper.PhimapModel.supported_problem_types()) == {"regression", "binary", "multiclass"}


def test_the_wrapper_refuses_other_problems(wrapper):
    with pytest.raises(ValueError, match="`problem_type` must be regression, binary or multiclass, got 'quantile'"):
        wrapper.fitted(pd.DataFrame({"a": [1.0]}), pd.Series([1.0]), "quantile")


def test_the_search_space_names_parameters_of_the_learners(wrapper):
    import phimap as pm

    for name, values in wrapper.SEARCH_SPACE.items():
        assert name in pm.KernelRegressor().get_params()
        assert len(values) > 1


def test_one_target_tests_the_oldest_and_the_newest_dependencies():
    makefile = read(ROOT / "Makefile")
    assert re.search(r"^test-sets: test-oldest test-newest$", makefile, re.MULTILINE)
    assert "lowest-direct" in makefile
    assert "make test-sets" in read(ROOT / "CONTRIBUTING.md")


def test_templates_ask_for_what_an_answer_needs():
    bug = read(ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml")
    assert "phimap info" in bug
    assert "SECURITY.md" in read(ROOT / "CODE_OF_CONDUCT.md")
    assert "package-ecosystem: github-actions" in read(ROOT / ".github" / "dependabot.yml")


def named_in_the_root(path: Path) -> Iterator[str]:
    """Files and folders of the root that a test names: what `ROOT` or ``Path(__file__).parents[k]`` is divided by."""
    for node in ast.walk(ast.parse(read(path))):
        match node:
            case ast.BinOp(left, ast.Div(), ast.Constant(str() as name)):
                match left:
                    case ast.Name("ROOT"):
                        yield name.partition("/")[0]
                    case ast.Subscript(ast.Attribute(attr="parents"), ast.Constant(int() as k)):
                        if path.parents[k] == ROOT:
                            yield name.partition("/")[0]


def test_the_source_distribution_has_what_the_tests_read():
    included = [*PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"], "pyproject.toml"]
    named = {name for path in (ROOT / "tests").rglob("*.py") for name in named_in_the_root(path)}
    # The test sees the three ways of naming a file.
    assert {"conda", ".github", "paper", "docs", "Makefile", "benchmarks"} <= named
    assert [name for name in sorted(named) if not any(fnmatch(name, one) for one in included)] == []
