"""The command as a process of its own: start-up, full disk, interrupts, closed pipes."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys

import pytest
from typer.core import TyperGroup

from tests.cli.test_bad_input import FIXED

RUN = "from phimap.cli import main; main()"


def phimap_process(*words: object, **options) -> subprocess.Popen:
    """Start ``phimap`` on these arguments."""
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen) -> tuple[int, str, str]:
    """Exit code and output."""
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nsys.argv = ['phimap', 'fit', '--help']\nfrom phimap.cli import main\n"
        "try:\n    main()\nexcept SystemExit as leaving:\n    assert leaving.code == 0\n"
        "assert not {'numpy', 'sklearn', 'numba', 'matplotlib', 'pyarrow'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "--target" in done.stdout


@pytest.fixture(scope="module")
def fitted(phimap, tables) -> tuple:
    """The words of a fit that was run once: it has filled the caches of compiled kernels and fonts."""
    fit = ("fit", tables / "numbers.csv", "--target", "y", "--features", "64", "-q", *FIXED)
    assert phimap(*fit, "--report", tables / "unlimited.html", "--model", tables / "unlimited.phimap").exit_code == 0
    return fit


@pytest.mark.parametrize("option", ["--model", "--report"])
def test_full_disk_leaves_nothing(fitted, tmp_path, option):
    # A limit on the size of files raises where a full disk would, at a write. The model takes 30 kB, the report 60.
    limit = {"--model": 4_000, "--report": 45_000}[option]
    words = ("--model", tmp_path / "m.phimap", "--report", tmp_path / "r.html")
    before = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # noqa: E731
    code, out, err = finish(phimap_process(*fitted, *words, preexec_fn=before))
    assert code == 2, err
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("error: could not write")
    left = {file.name for file in tmp_path.iterdir()}
    if option == "--model":
        assert left == set()
    else:
        assert left == {"m.phimap"}
        assert "m.phimap was written before and is complete" in err


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder in which nobody may make files")
def test_unwritable_folder_is_refused_before_the_work(phimap, tables):
    result = phimap("fit", tables / "numbers.csv", "--target", "y", "--model", "/proc/m.phimap")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --model /proc/m.phimap: cannot write into the folder /proc")
    assert len(result.stderr.splitlines()) == 1


def test_interrupt_leaves_nothing(tmp_path):
    # The process reads a pipe that stands for a long file, and is interrupted there.
    pipe = tmp_path / "data.csv"
    os.mkfifo(pipe)
    process = phimap_process("fit", pipe, "--target", "y", "--model", tmp_path / "m.phimap", "-q")
    # The pipe breaks when the process has seen the signal: its reader looks for one between blocks of the file.
    with contextlib.suppress(BrokenPipeError), pipe.open("w") as feed:
        # More than a pipe holds, so the process is reading when this has been written.
        feed.write("a,y\n" + "1,2\n" * 2**18)
        feed.flush()
        process.send_signal(signal.SIGINT)
        for _ in range(2000):
            feed.write("1,2\n" * 2**14)
            feed.flush()
    code, out, err = finish(process)
    assert (code, out) == (130, "")
    assert err == "error: interrupted. No half-written file is left.\n"
    assert [file.name for file in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize("step", ["make_context", "invoke"])
def test_interrupt_while_arguments_are_read_is_reported(phimap, tables, monkeypatch, step):
    def interrupted(*args, **extra):
        raise KeyboardInterrupt

    monkeypatch.setattr(TyperGroup, step, interrupted)
    result = phimap("info", tables / "numbers.csv")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "error: interrupted. No half-written file is left.\n"


@pytest.mark.usefixtures("fitted")
def test_closed_pipe_is_no_error(tables):
    process = phimap_process("predict", tables / "unlimited.phimap", tables / "numbers.csv")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(60) == 0


def test_core_type_is_set_before_numpy_loads():
    code = (
        "import sys, os\nsys.argv = ['phimap', '--version']\nfrom phimap.cli import main\n"
        "import phimap.cli.blas as blas\nseen = []\n"
        "blas.choose_core_type = lambda: seen.append('numpy' in sys.modules)\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nassert seen == [False], seen"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
