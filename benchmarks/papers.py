"""The page of the papers: every experiment, what it found, and what the publications say.

Runs the commands below that `paper_runs.json` has no result of, keeps what they found beside the papers, and writes
`docs/papers.md` from that file, from the index in `papers_page.md`, from the remarks in `paper_remarks.py` and from the
list in `paper_not_run.py`. Of the page only the index, and the reasons why something was not run, are written by hand.

    python benchmarks/papers.py --data DIR                    # what is missing
    python benchmarks/papers.py --data DIR --again spectra    # these experiments anew
    python benchmarks/papers.py --data DIR --again changed    # experiments whose source has changed since their run
    python benchmarks/papers.py                               # the page alone

A run that is stopped is continued by the same command: each result is kept when its command ends.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from paper_not_run import not_run
from paper_remarks import agreement, shown
from recorded import heading, record, recorded

from phimap import bench
from phimap._files import write_whole

TEMPLATE = Path(__file__).with_name("papers_page.md")
RUNS = Path(__file__).with_name("paper_runs.json")
PAGE = Path(__file__).parents[1] / "docs" / "papers.md"
PAPERS = {
    "Zandieh et al. (2021)": "Scaling neural tangent kernels via sketching and random features",
    "Han et al. (2021)": "Random features for the neural tangent kernel",
    "Liu et al. (2021)": "Random features for kernel approximation: a survey",
    "Ali et al. (2022)": "Random matrices in service of ML footprint: ternary random features",
}
#: What is run for the page: the words after ``phimap bench``, ``--data DIR`` aside.
COMMANDS = (
    "approximation --sets ijcnn1,EEG,magic04,letter,skin,a8a --repeats 10",
    "approximation --sets letter,magic04 --kernels arccosine0,arccosine1,polynomial --repeats 10",
    (
        "approximation --sets MNIST --features 2000,10000,20000 "
        "--projections gaussian,orthogonal,sorf,rom,fastfood,qmc,ssf --repeats 10"
    ),
    "classification --sets EEG,magic04 --projections gaussian,orthogonal,ssf,leverage --features 128 --rows 200000",
    "classification --sets a8a --projections gaussian,orthogonal,ssf,leverage --features 128 --rows 200000",
    "classification --sets ijcnn1 --projections gaussian,orthogonal,ssf,leverage --features 128 --rows 200000",
    "classification --sets skin --projections gaussian,orthogonal,ssf,leverage --features 128 --rows 200000",
    "classification --sets letter --projections gaussian,orthogonal,ssf,leverage --features 128 --rows 200000",
    "classification --sets magic04 --kernels arccosine1,polynomial --features 40,160 --rows 2000 --repeats 2",
    "data-dependent --rows 4000 --features 64,256,1024 --repeats 2",
    "double-descent --sets sonar,MNIST,gaussian,MNIST-7-9",
    "theory",
    "active-learning --features 10000 --repeats 2",
    "spectra",
    "footprint-path",
    (
        "footprint --sets 'a8a,ijcnn1,MNIST 7-9' --methods trf,lp-rff-1,lp-rff-8,nystroem,nystroem-16 "
        "--features 32,64,128,512,1024 --rows 100000 --repeats 2"
    ),
    "footprint --sets a8a,ijcnn1 --methods trf,rff,orf,ssf --features 128,512 --rows 100000 --repeats 2",
    "ntk-function",
    "ntk-activations --kernels erf,gelu --methods features",
    "ntk-activations --sets gaussian --kernels erf,gelu --methods features --rows 300 --features 4096",
    "ntk-activations --kernels erf,gelu --methods networks --features 8192",
    "ntk-spectral",
    "ntk-error --features 4096 --repeats 1 --rows 10000",
    "ntk-mnist --rows 60000",
    "ntk-low-shot --sets digits --repeats 5 --features 500,4000",
    "cntk-cifar10 --methods gradient --rows 50000 --features 4096,9328",
    "cntk-cifar10 --methods sketch,gradient --features 4096",
    "cntk-cifar10 --methods gradient,cnn --features 4096",
    "ntk-uci-classification --rows 300",
    "ntk-uci-classification --methods network --features 64,128,256 --rows 300",
    (
        "ntk-uci-regression --sets protein "
        "--methods rff,published,published-countsketch,published-gibbs,sketch,features --rows 50000"
    ),
    "ntk-uci-regression --sets protein --methods rbf,ntk --rows 5000",
)


#: Modules that print results and measure nothing.
_PRESENTATION = {"phimap.bench.experiment", "phimap.bench.figures", "phimap.bench.options"}


def source(experiment: str) -> str:
    """Hash the modules that an experiment runs: its own module, and those of `phimap.bench` that they import.

    Docstrings, comments and blank lines do not count, nor do modules in `_PRESENTATION`. The maps and learners that are
    measured do not count either: the version and the date of a run stand above its table.
    """
    digest, seen = hashlib.sha256(), set()
    queue = [f"phimap.bench.{bench.EXPERIMENTS[experiment][0]}"]
    for module in queue:
        path = Path(bench.__file__).parent.joinpath(*module.split(".")[2:]).with_suffix(".py")
        if module in seen | _PRESENTATION or not path.is_file():
            continue
        seen.add(module)
        text = path.read_text(encoding="utf-8")
        digest.update(code_of(text).encode())
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("phimap.bench"):
                queue += [str(node.module), *sorted(f"{node.module}.{name.name}" for name in node.names)]
    return digest.hexdigest()[:16]


def code_of(text: str) -> str:
    """Return the lines of a module without docstrings, comments on lines of their own, and blank lines."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            first = node.body[0]
            lines[first.lineno - 1 : first.end_lineno] = [""] * (int(first.end_lineno or 0) - first.lineno + 1)
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def changed(run: dict[str, Any]) -> bool:
    """Whether the experiment's source differs from the source that made this run. A test fails then."""
    return run.get("source") != source(run["command"].split()[0])


def run(command: str, data: Path) -> dict[str, Any]:
    """Run an experiment in a process of its own, and keep what it found."""
    words = shlex.split(command)
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-c", "from phimap.cli import main; main()", "bench", *words]
        subprocess.run([*call, "--data", str(data), "--output", folder], check=True)
        found = json.loads((Path(folder) / f"{words[0]}.json").read_text(encoding="utf-8"))["findings"]
    if not found:
        raise RuntimeError(f"phimap bench {command} found nothing to stand beside a paper.")
    return {"source": source(words[0]), "findings": found}


def page(runs: Sequence[dict[str, Any]] | None = None) -> str:
    """The page as Markdown, with what `paper_runs.json` tells or these `runs`."""
    runs = recorded(RUNS) if runs is None else runs
    sections = {f"runs {paper}": "\n".join([*_sections(paper, runs), *_left_out(paper)]) for paper in PAPERS}
    template = TEMPLATE.read_text(encoding="utf-8")
    return re.sub("<<(.*?)>>", lambda match: sections[match[1]], template)


def _sections(paper: str, runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One table for each run that found something of the paper."""
    for one in runs:
        lines = [shown(found) for found in one["findings"] if found["paper"] == paper]
        if not lines:
            continue
        name, *options = shlex.split(one["command"])
        words = shlex.join([name, "--data", "DIR", *options])
        yield f"`phimap bench {words}`\\"
        yield f"{heading(one)}{' The experiment has changed since this run.' * changed(one)}\n"
        yield "| place | quantity | size run | size published | ours | published |"
        yield "|---|---|---|---|---|---|"
        for found in lines:
            cells = (found[key] for key in ("place", "quantity", "size", "published_size", "ours", "published"))
            yield _line(cells)
        yield ""
        remark = agreement(name, paper, lines)
        if remark:
            yield f"{remark}\n"


def _left_out(paper: str) -> Iterator[str]:
    """Yield the table of what a paper measures and the runs do not."""
    yield "Not run:\n"
    yield "| place | published | why, and the command for it |"
    yield "|---|---|---|"
    yield from map(_line, not_run(paper))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the data sets; without it only the page is written")
    parser.add_argument("--again", nargs="*", default=(), help="experiments to run again, or changed")
    options = parser.parse_args()
    if options.data is not None:
        old = {one["command"] for one in recorded(RUNS) if changed(one)} if "changed" in options.again else set()
        again = set(options.again)
        record(RUNS, COMMANDS, lambda one: run(one, options.data), lambda one: one in old or one.split()[0] in again)
    write_whole(PAGE, lambda file: file.write(page().encode()))


if __name__ == "__main__":
    main()
