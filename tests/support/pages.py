"""Blocks of code of the documentation, as they stand in its Markdown pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Made by the build.
_MADE = ("_build", "api", "gallery")
_MARK = re.compile(r"<!--\s*not run:(.*?)-->")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, the line of its first line of code, and why it is not run, if so."""

    language: str
    text: str
    line: int
    not_run: str | None = None


def pages() -> list[Path]:
    """Every Markdown page that a reader may paste from."""
    documents = (path for path in (ROOT / "docs").rglob("*.md") if path.relative_to(ROOT).parts[1] not in _MADE)
    return [*sorted(ROOT.glob("*.md")), *sorted(documents), *sorted(ROOT.glob("benchmarks/*/README.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page that hold code, in order; directives of MyST are none."""
    above, opened = "", None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if opened is not None:
            if line.startswith("```"):
                if not opened[0].startswith("{"):
                    yield Block(opened[0], "".join(opened[1]), opened[2], opened[3])
                opened, above = None, ""
            else:
                opened[1].append(f"{line}\n")
        elif line.startswith("```"):
            mark = _MARK.fullmatch(above.strip())
            opened = (line[3:].strip(), [], number + 1, mark[1].strip() if mark else None)
        elif line.strip():
            above = line
    assert opened is None, f"{page} ends within a block."


def commands(block: Block) -> Iterator[list[str]]:
    """What a shell would run, as words: lines of `sh`, lines after a prompt of `console`."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if block.language == "console":
            if not line.startswith("$ "):
                continue
            line = line[2:]
        words = shlex.split(line, comments=True)
        # The first program of a pipe is ours.
        if words:
            yield words[: words.index("|")] if "|" in words else words
