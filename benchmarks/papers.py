"""The page of the papers: every experiment, what it found, and what the publications say.

Runs the commands below that `paper_runs.json` has no result of, keeps what they found beside the papers, and writes
`docs/papers.md` from that file and from the index in `papers_page.md`. Nothing on the page is written by hand but the
index of definitions, algorithms and theorems.

    python benchmarks/papers.py --data DIR                    # what is missing
    python benchmarks/papers.py --data DIR --again spectra    # these experiments anew
    python benchmarks/papers.py                               # the page alone
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from recorded import heading, record, recorded

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
        "approximation --sets MNIST --features 2000,20000 --projections gaussian,orthogonal,sorf,rom,fastfood,qmc,ssf "
        "--repeats 3"
    ),
    "classification --sets magic04 --kernels gaussian,arccosine1,polynomial --features 40,160 --rows 2000 --repeats 2",
    "data-dependent --rows 4000 --features 64,256,1024 --repeats 2",
    "double-descent --sets sonar,gaussian,MNIST-7-9",
    "theory",
    "active-learning",
    "spectra",
    "footprint-path",
    (
        "footprint --sets 'a8a,ijcnn1,MNIST 7-9' --methods trf,lp-rff-1,lp-rff-8,nystroem,nystroem-16,rff "
        "--features 64,256,1024 --rows 2000 --repeats 2"
    ),
    "ntk-function",
    "ntk-activations --kernels erf,gelu --methods features",
    "ntk-activations --kernels erf,gelu --methods networks --features 8192",
    "ntk-spectral",
    "ntk-error --repeats 1 --rows 10000",
    "ntk-mnist --rows 60000",
    "ntk-low-shot --sets digits --repeats 5 --features 500,4000",
    "cntk-cifar10 --methods sketch,gradient,cnn",
    "ntk-uci-classification --rows 300",
    "ntk-uci-regression --sets protein --rows 4000 --features 2048",
)


def run(command: str, data: Path) -> dict[str, Any]:
    """Run an experiment in a process of its own, and keep what it found."""
    words = shlex.split(command)
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-c", "from phimap.cli import main; main()", "bench", *words]
        subprocess.run([*call, "--data", str(data), "--output", folder], check=True)
        found = json.loads((Path(folder) / f"{words[0]}.json").read_text(encoding="utf-8"))["findings"]
    if not found:
        raise RuntimeError(f"phimap bench {command} found nothing to stand beside a paper.")
    return {"findings": found}


def page(runs: Sequence[dict[str, Any]] | None = None) -> str:
    """The page as Markdown, with what `paper_runs.json` tells or these `runs`."""
    runs = recorded(RUNS) if runs is None else runs
    sections = {f"runs {paper}": "\n".join(_sections(paper, runs)).rstrip() for paper in PAPERS}
    template = TEMPLATE.read_text(encoding="utf-8")
    return re.sub("<<(.*?)>>", lambda match: sections[match[1]], template)


def _sections(paper: str, runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One table for each run that found something of the paper."""
    for one in runs:
        lines = [found for found in one["findings"] if found["paper"] == paper]
        if not lines:
            continue
        name, *options = shlex.split(one["command"])
        words = shlex.join([name, "--data", "DIR", *options])
        yield f"`phimap bench {words}`\\"
        yield f"{heading(one)}\n"
        yield "| place | quantity | size run | ours | published |"
        yield "|---|---|---|---|---|"
        for found in lines:
            cells = (found[key] for key in ("place", "quantity", "size", "ours", "published"))
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
        yield ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the data sets; without it only the page is written")
    parser.add_argument("--again", nargs="*", default=(), help="experiments to run again")
    options = parser.parse_args()
    if options.data is not None:
        record(RUNS, COMMANDS, lambda one: run(one, options.data), lambda one: one.split()[0] in options.again)
    write_whole(PAGE, lambda file: file.write(page().encode()))


if __name__ == "__main__":
    main()
