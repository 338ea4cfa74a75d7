"""The pages of results: what the benchmarks print, word for word, with its date and machine.

A template `results/NAME.md` has a line `<<COMMAND>>` wherever the page `docs/results/NAME.md` shows the output of a
command. This script runs the commands that `results/runs.json` has no output of, and writes all pages.

    python benchmarks/results.py --data DIR                   # what is missing
    python benchmarks/results.py --data DIR --only alpha      # of that, the commands that hold this text
    python benchmarks/results.py --data DIR --again alpha     # these commands anew
    python benchmarks/results.py                              # the pages alone
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recorded import heading, record, recorded

from phimap._files import write_whole

TEMPLATES = Path(__file__).with_name("results")
RUNS = TEMPLATES / "runs.json"
ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "results"
PLACE = re.compile(r"^<<(.*)>>$", re.MULTILINE)


def commands() -> list[str]:
    """All commands of the templates, each once, in the order of the pages."""
    found = (match[1] for path in sorted(TEMPLATES.glob("*.md")) for match in PLACE.finditer(path.read_text("utf-8")))
    return list(dict.fromkeys(found))


def run(command: str, data: Path) -> dict[str, Any]:
    """Run a command in a process of its own, and keep what it prints."""
    program, *words = (str(data) if word == "DIR" else word for word in shlex.split(command))
    call = {
        "python": [sys.executable],
        "phimap": [sys.executable, "-c", "from phimap.cli import main; main()"],
    }[program]
    # Some scripts share cases with the tests.
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    ended = subprocess.run([*call, *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    lines = ended.stdout.replace(str(data), "DIR").strip("\n").splitlines()
    return {"output": [line.rstrip() for line in lines]}


def page(name: str, runs: Sequence[dict[str, Any]] | None = None) -> str:
    """The page of a template as Markdown, with what `runs.json` tells or these `runs`."""
    kept = {one["command"]: one for one in (recorded(RUNS) if runs is None else runs)}

    def shown(match: re.Match[str]) -> str:
        one = kept[match[1]]
        return "\n".join([f"`{match[1]}`\\", heading(one), "", "```text", *one["output"], "```"])

    return PLACE.sub(shown, (TEMPLATES / f"{name}.md").read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the data sets; without it only the pages are written")
    parser.add_argument("--only", default="", help="run the commands that hold this text, and no others")
    parser.add_argument("--again", help="run the commands that hold this text again")
    options = parser.parse_args()
    if options.data is not None:
        kept = {one["command"] for one in recorded(RUNS)}
        asked = [one for one in commands() if one in kept or options.only in one]
        again = options.again
        record(RUNS, asked, lambda one: run(one, options.data), lambda one: again is not None and again in one)
    known = {one["command"] for one in recorded(RUNS)}
    for path in sorted(TEMPLATES.glob("*.md")):
        missing = [match[1] for match in PLACE.finditer(path.read_text("utf-8")) if match[1] not in known]
        if missing:
            print(f"{path.name}: not written, since nothing is known of: {'; '.join(missing)}")
            continue
        text = page(path.stem)
        write_whole(PAGES / path.name, lambda file, text=text: file.write(text.encode()))


if __name__ == "__main__":
    main()
