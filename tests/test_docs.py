"""The code of the documentation: Python runs as a reader pastes it, commands are parsed as a shell gives them."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import phimap as pm
from phimap.cli.commands import app
from tests.support import fastapi_stub
from tests.support.pages import ROOT, Block, blocks, commands, pages

PAGES = {str(path.relative_to(ROOT)): list(blocks(path)) for path in pages()}
# Words of all pages but those of results and of papers.
_MOST_WORDS = 45_000
#: `tests/test_readme.py` runs the README, and looks at what it gives.
SLOW = {"docs/explanation/doubly_stochastic.md", "docs/howto/comparing.md", "docs/howto/learners.md"}
#: "Three pages of one screen" of the front page.
SHORT = ["docs/what_the_default_does.md", "docs/make_it_faster.md", "docs/put_it_to_work.md"]
RUN = [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
    for name, found in PAGES.items()
    if name != "README.md" and any(block.language == "python" and block.not_run is None for block in found)
]
SHELL = [(name, block) for name, found in PAGES.items() for block in found if block.language in {"sh", "console"}]


@pytest.mark.parametrize("name", RUN)
@pytest.mark.usefixtures("brief_search")
# Clusters of threads leave sockets to the collector of garbage.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_python_of_a_page_runs(name, tmp_path, monkeypatch):
    """All blocks of a page in one namespace, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    fastapi_stub.install(monkeypatch)
    names: dict = {"__name__": "__main__"}
    # What a page sets for good, it sets for its own blocks.
    with pm.config():
        for block in PAGES[name]:
            if block.language == "python" and block.not_run is None:
                # Empty lines before the code give tracebacks the line numbers of the page.
                exec(compile("\n" * (block.line - 1) + block.text, ROOT / name, "exec"), names)


def test_a_model_in_skops_predicts_the_same(tmp_path, monkeypatch):
    pytest.importorskip("skops")
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(60, 2))
    fitted = pm.KernelRegressor("gaussian", 16, metric=None, random_state=0).fit(X, X[:, 0])
    names = {"model": fitted}
    (text,) = (block.text for block in PAGES["docs/howto/serving.md"] if "sio.load" in block.text)
    exec(text, names)
    assert names["model"] is not fitted
    np.testing.assert_array_equal(names["model"].predict(X), fitted.predict(X))
    assert all(name.startswith(("phimap.", "numpy.random.bit_generator.SeedSequence")) for name in names["types"])


def test_the_documentation_stays_short():
    """A reader pays for each word. Tables of results, and the list of papers, are looked up and not read."""
    counted = {
        name: len((ROOT / name).read_text(encoding="utf-8").split())
        for name in PAGES
        if name.startswith("docs/") and not name.startswith(("docs/results/", "docs/papers.md"))
    }
    assert sum(counted.values()) <= _MOST_WORDS, sorted(counted.items(), key=lambda one: -one[1])[:5]


@pytest.mark.parametrize("name", PAGES)
def test_every_block_has_a_language_and_a_reason(name):
    for block in PAGES[name]:
        where = f"{name}:{block.line}"
        assert block.language in {"python", "sh", "console", "text"}, f"{where}: {block.language!r} is no language."
        if block.not_run is not None:
            assert len(block.not_run.split()) >= 3, f"{where}: a block that is not run needs a reason."


@pytest.mark.parametrize("name", SHORT)
def test_pages_of_one_screen_are_short(name):
    """Words beside the code; marks of tables and lists are none."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\(\S+?\)", "]", text)
    n_words = sum(any(letter.isalnum() for letter in word) for word in text.split())
    assert n_words <= 300, f"{n_words} words. Move what few readers need to the page it links to."


@pytest.mark.parametrize(("name", "block"), SHELL, ids=[f"{name}:{block.line}" for name, block in SHELL])
def test_commands_parse(name, block, monkeypatch, tmp_path):
    if block.not_run is None:
        for words in commands(block):
            assert refusal(words, monkeypatch) is None, f"{name}:{block.line}: {' '.join(words)}"


@pytest.mark.parametrize(
    "line",
    [
        "phimap fit",
        "phimap fit a.csv --goal y",
        "phimap bench none --rows x",
        "make coffee",
        "curl a",
        "pip install 'phimap[cli]'",
        "pip install .[none] numpy",
    ],
)
def test_wrong_commands_are_refused(line, monkeypatch):
    assert refusal(shlex.split(line), monkeypatch)


def test_blocks_know_languages_lines_and_reasons(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n1\n```\n<!-- not run: needs a cluster -->\n```sh\na\nb | c\n```\n```{toctree}\nx\n```\n"
        "```console\n$ d 'e f'  # g\nh\n```\n"
    )
    first, second, third = blocks(page)
    assert first == Block("python", "1\n", 2)
    assert second == Block("sh", "a\nb | c\n", 6, "needs a cluster")
    assert list(commands(second)) == [["a"], ["b"]]
    assert list(commands(third)) == [["d", "e f"]]


def refusal(words: list[str], monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Why a command is no command of this repository, or None."""
    program, *arguments = words
    if program == "phimap":
        return refusal_of_phimap(arguments, monkeypatch)
    if program == "pip":
        return refusal_of_pip(arguments)
    if program == "make":
        targets = [word for word in arguments if "=" not in word]
        known = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        return None if set(targets) <= set(known) else f"no such target among {targets}"
    if program == "python":
        script = (
            ROOT / arguments[0] if arguments[0] != "-m" else ROOT / Path(*arguments[1].split(".")).with_suffix(".py")
        )
        return None if script.exists() else f"no such file: {script}"
    return f"no program of this repository: {program}"


def refusal_of_phimap(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> str | None:
    """All of a command is run but its work: words are parsed, options are read and checked by their own rules."""
    began = []
    for name in ("fit", "predict", "explain", "export", "info", "compare", "plan", "bench"):
        monkeypatch.setattr(f"phimap.cli.{name}.run", began.append)
    # The files of examples are the reader's.
    for name in ("check_data_exists", "check_model_exists"):
        monkeypatch.setattr(f"phimap.cli.option_values.{name}", lambda path: None)
    done = CliRunner().invoke(app, arguments)
    if done.exit_code != 0:
        return done.stderr or done.output
    return None if began or "--help" in arguments or "--version" in arguments else "nothing began"


def refusal_of_pip(arguments: list[str]) -> str | None:
    """An installation of this checkout, with extras that it has; packages of others may follow."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    found = re.fullmatch(r"(?:-e )?\.(?:\[([a-z,]+)\])?((?: [a-z][\w.-]*)*)", " ".join(arguments[1:]))
    # phimap itself is not published.
    if arguments[:1] != ["install"] or found is None or "phimap" in found[2].split():
        return f"no installation: {arguments}"
    unknown = set((found[1] or "").split(",")) - {"", *extras}
    return f"no such extras: {unknown}" if unknown else None
