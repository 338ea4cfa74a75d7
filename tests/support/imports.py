"""The picture of imports of a package, read from its source without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

#: Modules, and the modules of the same package that each imports.
Graph = Mapping[str, frozenset[str]]


@cache
def tree_of(program: str) -> ast.Module:
    """The tree of a program, which several questions are asked of. Clear the cache after the last: it is large."""
    return ast.parse(program)


def modules(root: Path) -> dict[str, Path]:
    """Files of the package in the folder `root`, by the names of their modules."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def graph(root: Path) -> Graph:
    """Every import at any place of a file counts: in functions and for type checkers, too."""
    files = modules(root)
    return {name: frozenset(_imports(name, path, files)) for name, path in files.items()}


def _imports(name: str, path: Path, files: Mapping[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree_of(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            # Two dots stand for the parent of the module's package.
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            members = {f"{origin}.{alias.name}" for alias in node.names}
            yield from members & files.keys()
            # A name that is no module of its own is defined in the file it is taken from.
            if origin in files and not members <= files.keys():
                yield origin
        elif isinstance(node, ast.Call) and _is_import_call(node):
            yield from (
                str(word.value) for word in node.args[:1] if isinstance(word, ast.Constant) and word.value in files
            )


def unnamed(root: Path) -> list[str]:
    """Files that import modules by names made while they run, which no picture shows."""
    return [
        path.relative_to(root).as_posix()
        for path in modules(root).values()
        if any(
            _is_import_call(node) and not (node.args and isinstance(node.args[0], ast.Constant))
            for node in ast.walk(tree_of(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call)
        )
    ]


def _is_import_call(node: ast.Call) -> bool:
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return called in ("import_module", "__import__")


def room(module: str) -> str:
    """The folder or the file that a module belongs to, right below the package; the package itself is its own."""
    return module.split(".")[1] if "." in module else module


def upward(picture: Graph, levels: Iterable[Iterable[str]]) -> list[str]:
    """Imports of a room by one further down, `levels` going from top to bottom; rooms of no level are told of, too."""
    heights = {name: -height for height, names in enumerate(levels) for name in names}
    strange = sorted({room(module) for module in picture} - heights.keys())
    if strange:
        return [f"{name} has no place in the order" for name in strange]
    return [
        f"{module} imports {other}"
        for module, others in picture.items()
        for other in sorted(others)
        if heights[room(module)] < heights[room(other)]
    ]


def circles(picture: Graph) -> list[list[str]]:
    """Sets of modules that import each other, directly or through others."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = lowest[module] = len(index)
        stack.append(module)
        for other in sorted(picture.get(module, ())):
            if other not in index:
                visit(other)
                lowest[module] = min(lowest[module], lowest[other])
            elif other in stack:
                lowest[module] = min(lowest[module], index[other])
        if lowest[module] == index[module]:
            start = stack.index(module)
            members = stack[start:]
            del stack[start:]
            if len(members) > 1 or module in picture.get(module, ()):
                found.append(sorted(members))

    for module in picture:
        if module not in index:
            visit(module)
    return found


def between_folders(picture: Graph, parent: str) -> Graph:
    """The picture of what lies in the package `parent`: folders as one each, files by themselves, itself left out."""
    depth = parent.count(".") + 2

    def member(module: str) -> str | None:
        return ".".join(module.split(".")[:depth]) if module.startswith(f"{parent}.") else None

    joined: dict[str, set[str]] = {}
    for module, others in picture.items():
        name = member(module)
        if name is not None:
            joined.setdefault(name, set()).update({m for m in map(member, others) if m is not None and m != name})
    return {name: frozenset(others) for name, others in joined.items()}


def long_files(root: Path, limit: int) -> list[str]:
    """Files of `limit` lines of code or more: blank lines, comments and docstrings do not count."""
    counts = {path: lines_of_code(path.read_text(encoding="utf-8")) for path in modules(root).values()}
    return [f"{path.relative_to(root)}: {count} lines" for path, count in counts.items() if count >= limit]


def lines_of_code(program: str) -> int:
    """Lines of a program that are neither blank nor a comment nor part of a docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        line
        for node in ast.walk(tree_of(program))
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    lines = enumerate(program.splitlines(), 1)
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") and i not in docstrings for i, line in lines)


def abstract_methods(path: Path) -> list[str]:
    """Methods of a file that its classes leave to others."""
    return [
        node.name
        for node in ast.walk(tree_of(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and any("abstractmethod" in ast.dump(decorator) for decorator in node.decorator_list)
    ]
