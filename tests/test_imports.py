"""What the package imports, what it exports, and that its documentation has the agreed sections."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import phimap as pm
from tests.support import imports

SOURCE = Path(pm.__file__).parent
#: The order of the rooms and of the modules beside them, from top to bottom: imports run downward, or within a level.
ORDER = (
    ("__main__",),
    ("cli", "bench", "report"),
    ("phimap",),
    ("comparison", "explain", "exports"),
    ("learn", "advice", "io"),
    ("tables",),
    ("features", "metrics", "theory"),
    ("sketches", "projections"),
    ("random_map",),
    ("kernels",),
    ("packed",),
    ("records", "_validation", "_progress", "_dask"),
    ("ops",),
    ("config", "_random", "_files", "_missing", "_number_text", "_printable", "_options", "_warnings"),
    ("_free_memory",),
)
BACKENDS = {"numba", "torch"}
UNSAFE = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
FAMILIES = ("features", "kernels", "learn", "projections", "sketches", "tables")
SECTION = re.compile(r"^(?P<title>[A-Z][A-Za-z ]+)\n-{3,}$", re.MULTILINE)
NOTES = ("**Error", "**Cost", "**Differs from the source")


@pytest.fixture(scope="module", autouse=True)
def _no_tree_is_left() -> Iterator[None]:
    """Let go of half a million objects, at which the garbage collector would look in all later tests."""
    yield
    imports.tree_of.cache_clear()


@pytest.fixture(scope="module")
def picture() -> imports.Graph:
    """The imports of the package. A fixture, so that a process of tests that runs none of these does not parse it."""
    return imports.graph(SOURCE)


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
    slow = {"matplotlib", "numba", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "torch", "typer"}
    assert not loaded & slow


LAZY = ("kernels", "projections", "sketches", "metrics", "features", "tables", "learn")


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """Modules that are new in one process after scikit-learn's base, and then after each family."""
    program = f"""
import sys, json, sklearn.base, sklearn.utils.validation, phimap
seen, new = set(), {{}}
for family in ("scikit-learn", *{LAZY}):
    if family != "scikit-learn": getattr(phimap, family)
    new[family] = sorted(set(sys.modules) - seen)
    seen |= set(sys.modules)
print(json.dumps(new))"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {family: set(names) for family, names in json.loads(done.stdout).items()}


@pytest.mark.parametrize("family", LAZY)
def test_families_load_no_slow_library(family, loaded):
    # What scikit-learn loads by itself no choice of ours avoids.
    assert f"phimap.{family}" in set.union(*loaded.values())
    assert not loaded[family] & {"torch", "numba", "scipy.stats", "pyarrow", "matplotlib"}


def test_modules_import_without_the_extras():
    missing = {}
    for module in imports.modules(SOURCE):
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                missing[module] = error.name
    assert not missing


def test_public_names_resolve():
    assert not [name for name in pm.__all__ if getattr(pm, name, None) is None or name not in dir(pm)]


def test_public_names_are_those_that_type_checkers_see():
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "phimap" in str(node.module)]
    seen = {alias.asname: (node.module, alias.name) for node in imported for alias in node.names}
    assert sorted(seen) == pm.__all__
    for name, (home, original) in seen.items():
        assert original == name
        assert getattr(importlib.import_module(str(home)), name) is getattr(pm, name)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'FourierFeature'"):
        _ = pm.FourierFeature


def broken_rules(path: Path, name: str) -> list[str]:
    """The import rules that a file of the package breaks."""
    tree = imports.tree_of(path.read_text(encoding="utf-8"))
    forbidden = UNSAFE if name.startswith("ops/") else UNSAFE | BACKENDS
    found = [f"{name} imports {package}" for package in sorted(imported_packages(tree) & forbidden)]
    for node in ast.walk(tree):
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            allows = not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
            if keyword.arg == "allow_pickle" and allows:
                found.append(f"{name}, line {keyword.lineno}: allow_pickle")
    return found


def test_source_files_keep_the_import_rules():
    files = imports.modules(SOURCE).values()
    assert not [rule for path in files for rule in broken_rules(path, path.relative_to(SOURCE).as_posix())]


def test_every_broken_rule_is_named(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("import torch\nfrom pickle import load\nload(f, allow_pickle=True)\nload(f, allow_pickle=False)\n")
    assert broken_rules(path, "io/a.py") == [
        "io/a.py imports pickle",
        "io/a.py imports torch",
        "io/a.py, line 3: allow_pickle",
    ]
    assert broken_rules(path, "ops/a.py") == ["ops/a.py imports pickle", "ops/a.py, line 3: allow_pickle"]


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


def test_no_import_runs_upward(picture):
    assert not imports.upward(picture, ORDER)


def test_no_modules_import_each_other(picture):
    assert not imports.circles(picture)


def test_few_files_import_what_the_picture_cannot_show():
    # The public names, whose homes are also written as imports; the families of model files, which stand beside or
    # below `io`; the experiments, in a room beside the command's; names of `theory` made in `advice`, above it; and two
    # tables of modules of one room: of commands, and of file formats.
    files = {"__init__.py", "io/encoding.py", "cli/bench.py", "theory/__init__.py", "cli/commands.py", "io/formats.py"}
    assert set(imports.unnamed(SOURCE)) == files


def test_experiments_are_imported_by_the_command_alone(picture):
    importing = {module for module, others in picture.items() for other in others if other.startswith("phimap.bench")}
    outside = {module for module in importing if not module.startswith("phimap.bench")}
    assert outside == {"phimap.cli.commands", "phimap.cli.bench"}


@pytest.mark.parametrize("room", ["features", "learn", "ops"])
def test_no_folders_of_a_room_import_each_other(room, picture):
    assert not imports.circles(imports.between_folders(picture, f"phimap.{room}"))


def test_a_backend_has_few_operations_to_write():
    assert len(imports.abstract_methods(SOURCE / "ops" / "base.py")) <= 30


def test_top_of_features_holds_what_all_families_share():
    shared = {"__init__", "base", "projected", "fourier", "defaults"}
    assert {path.stem for path in (SOURCE / "features").glob("*.py")} == shared


def test_no_module_is_long():
    assert not imports.long_files(SOURCE, 350)


HOUSE = {
    "__init__.py": "",
    "cli.py": "from house.learn import Learner\n",
    "learn/__init__.py": "from house.learn.ridge.solve import Learner\n",
    "learn/data/stream.py": "import numpy\n",
    "learn/ridge/solve.py": "from ..data import stream\nfrom house.ops import matmul\nclass Learner: ...\n",
    "ops.py": "def matmul(): ...\n",
}
HOUSE_ORDER = (("cli",), ("house",), ("learn",), ("ops",))


@pytest.fixture
def house(tmp_path) -> Callable:
    """Write a small package that keeps the rules, but for the files given; the answer is its folder."""

    def build(**changed: str) -> Path:
        for name, text in (
            HOUSE | {"/".join(name.split("__")) + ".py": text for name, text in changed.items()}
        ).items():
            path = tmp_path / "house" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path / "house"

    return build


def test_the_rules_hold_in_a_house_that_keeps_them(house):
    root = house()
    picture = imports.graph(root)
    assert picture["house.learn.ridge.solve"] == {"house.learn.data.stream", "house.ops"}
    assert not imports.upward(picture, HOUSE_ORDER)
    assert not imports.circles(picture)
    assert not imports.circles(imports.between_folders(picture, "house.learn"))
    assert not imports.long_files(root, 4)
    assert imports.abstract_methods(root / "ops.py") == []


@pytest.mark.parametrize(
    "program",
    [
        "import house.cli",
        "from house import cli",
        "from house.cli import main",
        "from . import cli",
        "from .cli import main",
        "def f():\n    from house.cli import main",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.cli import main",
        "from importlib import import_module\nimport_module('house.cli')",
    ],
)
def test_an_import_upward_is_seen_however_it_is_written(house, program):
    assert imports.upward(imports.graph(house(ops=program)), HOUSE_ORDER) == ["house.ops imports house.cli"]


def test_a_room_without_a_place_is_seen(house):
    assert imports.upward(imports.graph(house(attic="")), HOUSE_ORDER) == ["attic has no place in the order"]


def test_a_circle_is_seen(house):
    picture = imports.graph(house(learn__data__stream="def f():\n    from house.learn import Learner\n"))
    assert imports.circles(picture) == [["house.learn", "house.learn.data.stream", "house.learn.ridge.solve"]]


def test_a_circle_of_folders_whose_modules_have_none_is_seen(house):
    picture = imports.graph(house(learn__data__batches="from house.learn.ridge import rows", learn__ridge__rows=""))
    assert not imports.circles(picture)
    folders = imports.between_folders(picture, "house.learn")
    assert imports.circles(folders) == [["house.learn.data", "house.learn.ridge"]]


def test_imports_of_names_made_on_the_way_are_seen(house):
    root = house(ops="import importlib\ndef f(name):\n    importlib.import_module(f'house.{name}')\n")
    assert imports.unnamed(root) == ["ops.py"]
    assert imports.unnamed(house(ops="import_module('house.cli')")) == []


def test_long_files_and_abstract_methods_are_seen(house):
    lines = [
        "import abc",
        "class Ops:",
        " @property",
        " @abc.abstractmethod",
        " def size(self): ...",
        " def rows(self): ...",
    ]
    root = house(ops="\n".join(lines))
    assert imports.long_files(root, 6) == ["ops.py: 6 lines"]
    assert imports.long_files(root, 7) == []
    assert imports.abstract_methods(root / "ops.py") == ["size"]


def test_reference_lists_every_public_class_and_name():
    page = Path(__file__).parents[1] / "docs" / "reference.rst"
    listed = set(re.findall(r"^   ([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
    modules = {name for name in pm.__all__ if inspect.ismodule(getattr(pm, name))}
    assert not set(pm.__all__) - modules - listed
    assert not {name for name in CLASSES if not {name, name.partition(".")[2]} & listed}


def described(docstring: str) -> set[str]:
    """The names that the section of parameters describes."""
    lines = sections(docstring).get("Parameters", "").splitlines()
    return {name for line in lines if (match := re.match(r"(\w+(?:, \w+)*) : ", line)) for name in match[1].split(", ")}


def test_docstrings_have_the_agreed_sections():
    faults = []
    for name, member in CLASSES.items():
        docstring = inspect.getdoc(member) or ""
        found = sections(docstring)
        faults += [f"{name}: Notes lack {note}" for note in NOTES if note not in found.get("Notes", "")]
        faults += [f"{name}: no References"] if not found.get("References", "").strip() else []
        undescribed = described(docstring) ^ set(inspect.signature(member).parameters)
        faults += [f"{name}: parameter {one} of the docstring or the signature alone" for one in sorted(undescribed)]
    assert not faults


def test_a_docstring_without_its_parts_is_seen():
    docstring = "A map.\n\nParameters\n----------\na, b : int\nc : str, optional\n\nNotes\n-----\n**Error.** None.\n"
    assert described(docstring) == {"a", "b", "c"}
    assert sections(docstring)["Notes"].strip() == "**Error.** None."


def test_no_module_defines_a_name_twice():
    """A second definition would replace the first without a word."""
    twice = []
    for name, path in imports.modules(SOURCE).items():
        names: list[str] = []
        for node in imports.tree_of(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.append(node.name)
            elif isinstance(node, ast.Assign):
                names += [leaf.id for target in node.targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)]
        # The bodies of overrides of primitives are all called `_`.
        twice += [f"{name}.{one}" for one in set(names) - {"_"} if names.count(one) > 1]
    assert not twice
