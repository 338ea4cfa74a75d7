"""The pages of results: written by their script from recorded runs of scripts that exist."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "benchmarks" / "results").glob("*.md"))


@pytest.fixture
def results(monkeypatch):
    """The script's module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import results

    yield results
    for module in ("results", "recorded"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("name", NAMES)
def test_page_is_the_one_that_the_script_writes(results, name):
    written = (ROOT / "docs" / "results" / f"{name}.md").read_text(encoding="utf-8")
    assert results.page(name) == written, "run: python benchmarks/results.py"
    assert "<<" not in written


def test_commands_are_recorded_and_run_what_exists(results):
    assert [one["command"] for one in results.recorded(results.RUNS)] == results.commands()
    for command in results.commands():
        program, script, *_ = shlex.split(command)
        assert program == "phimap" or (program == "python" and (ROOT / script).is_file()), command


def test_page_follows_the_runs(results, tmp_path, monkeypatch):
    (tmp_path / "one.md").write_text("# One\n\n<<python benchmarks/none.py --data DIR>>\n\nEnd.\n", encoding="utf-8")
    monkeypatch.setattr(results, "TEMPLATES", tmp_path)
    run = {
        "date": "2026-11-23",
        "version": "0.2.0",
        "machine": "a machine",
        "seconds": 1234,
        "output": ["a  1", "b  2"],
    }
    [command] = results.commands()
    assert results.page("one", [{"command": command, **run}]) == (
        "# One\n\n`python benchmarks/none.py --data DIR`\\\n2026-11-23, version 0.2.0, a machine, 1,234 s.\n\n"
        "```text\na  1\nb  2\n```\n\nEnd.\n"
    )


def test_runs_are_kept_after_each_command_and_made_again_on_request(results, tmp_path):
    path, made = tmp_path / "runs.json", []

    def run(command):
        if command == "fails":
            raise RuntimeError(command)
        made.append(command)
        return {"output": [command]}

    with pytest.raises(RuntimeError):
        results.record(path, ["one", "two", "fails", "three"], run, lambda command: False)
    results.record(path, ["two", "three", "one"], run, lambda command: command == "two")
    assert made == ["one", "two", "two", "three"]
    assert [one["command"] for one in results.recorded(path)] == ["two", "three", "one"]


def test_output_names_no_folder_of_the_machine(results, tmp_path):
    """The folder of the data is DIR in what is shown."""
    script = tmp_path / "echo.py"
    script.write_text("import sys\nprint('read  ', sys.argv[1] + '/digits.npz', ' ')\n", encoding="utf-8")
    assert results.run(f"python {script} DIR", tmp_path / "data") == {"output": ["read   DIR/digits.npz"]}
