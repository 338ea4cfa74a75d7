"""``phimap fit --checkpoint``: killed, stopped and begun again, it ends with the model of one run."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from phimap.cli import fit as fit_command
from phimap.cli.signals import STOPPED
from tests.cli.test_bad_input import FIXED
from tests.cli.test_process import finish, phimap_process

SETTINGS = ("--features", "64", "--n-jobs", "1", *FIXED)


@pytest.fixture(scope="module")
def tall(tmp_path_factory):
    """A table of many batches, in which a fit of some seconds can be met."""
    file = tmp_path_factory.mktemp("tall") / "rows.npy"
    X = np.random.default_rng(0).standard_normal((200_000, 6)).astype(np.float32)
    X[:, 5] += X[:, 0] ** 2
    np.save(file, X)
    return file


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A table of numbers and words."""
    file = tmp_path_factory.mktemp("mixed") / "mixed.csv"
    rng = np.random.default_rng(0)
    a, kind = rng.standard_normal(3000), rng.choice(["red", "green", "blue"], 3000)
    y = np.sin(2 * a) + (kind == "red") + 0.1 * rng.standard_normal(3000)
    lines = ["a,kind,y", *(f"{u:.6f},{k},{v:.6f}" for u, k, v in zip(a, kind, y, strict=True))]
    file.write_text("\n".join(lines) + "\n")
    return file


def wait_for(process, ready) -> None:
    while not ready():
        assert process.poll() is None, finish(process)
        time.sleep(0.001)


def test_a_fit_that_is_killed_stopped_and_interrupted_ends_with_the_same_bits(phimap, tall, tmp_path):
    words = (
        "fit",
        tall,
        "--target",
        "5",
        "--features",
        "256",
        "--n-jobs",
        "1",
        *FIXED,
        "--model",
        tmp_path / "m.phimap",
    )
    assert phimap(*words).exit_code == 0
    whole = (tmp_path / "m.phimap").read_bytes()
    (tmp_path / "m.phimap").unlink()
    run = tmp_path / "run"
    noted = (*words, "--checkpoint", run, "--every", "0s")
    current = run / "current.safetensors"

    # Killed in the midst of a write.
    process = phimap_process(*noted)
    wait_for(process, lambda: current.exists() and any(run.glob(".phimap.*.part")))
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    for number, code, word in ((signal.SIGTERM, STOPPED, "stopped"), (signal.SIGINT, 130, "interrupted")):
        seen = {file.name: file.stat().st_mtime_ns for file in run.iterdir()}
        process = phimap_process(*noted)
        wait_for(process, lambda: current.exists() and current.stat().st_mtime_ns != seen.get(current.name))  # noqa: B023
        process.send_signal(number)
        found, out, err = finish(process)
        assert (found, out) == (code, ""), err
        assert "resumes at row" in err
        assert err.splitlines()[-1] == f"error: {word}. The same command goes on from {run}."
        assert not list(run.glob(".phimap.*.part"))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run"]
    done = phimap(*noted)
    assert done.exit_code == 0, done.stderr
    # On a busy machine the last signal can come after the last row.
    assert f"note: {run}: resumes " in done.stderr
    assert (tmp_path / "m.phimap").read_bytes() == whole
    assert not run.exists()


@pytest.fixture
def left(phimap, monkeypatch, tmp_path):
    """Make the checkpoint of a fit that was stopped when its rows were summed; the answer is its folder."""

    def make(*words):
        def stop(*anything):
            raise KeyboardInterrupt

        monkeypatch.setattr(fit_command, "score", stop)
        stopped = phimap("fit", *words, "--checkpoint", tmp_path / "run", "--every", "0s")
        assert (stopped.exit_code, stopped.stdout) == (130, "")
        monkeypatch.undo()
        return tmp_path / "run"

    return make


@pytest.mark.parametrize("name", ["numbers.csv", "labels.csv", "mixed"])
def test_known_passes_make_the_same_model(phimap, tables, mixed, tmp_path, left, name):
    data, target = (mixed, "y") if name == "mixed" else (tables / name, "y" if name == "numbers.csv" else "kind")
    words = ("--target", target, *SETTINGS)
    once = phimap("fit", data, *words, "-q", "--model", tmp_path / "once.phimap")
    run = left(data, *words)
    # The name of the table is none of its content.
    copy = shutil.copy(data, tmp_path / f"copy{data.suffix}")
    again = phimap("fit", copy, *words, "--model", tmp_path / "again.phimap", "--checkpoint", run)
    assert (once.exit_code, again.exit_code) == (0, 0)
    assert f"note: {run}: resumes after the last row: every pass was complete" in again.stderr
    assert (tmp_path / "once.phimap").read_bytes() == (tmp_path / "again.phimap").read_bytes()
    assert not run.exists()


def test_another_fit_is_refused_in_a_line(phimap, tables, mixed, tmp_path, left):
    words = ("--target", "y", *SETTINGS, "-q")
    run = left(tables / "numbers.csv", *words)
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    lines = (tables / "numbers.csv").read_text().splitlines()
    (tmp_path / "short.csv").write_text("\n".join(lines[:-1]) + "\n")
    (tmp_path / "other.csv").write_text("\n".join([*lines[:-1], lines[-1] + "1"]) + "\n")
    for data, more, told in (
        (tables / "numbers.csv", ("--features", "65"), "--features was 64, is 65"),
        (tables / "numbers.csv", ("--holdout", "0.2"), "--holdout was 0.1, is 0.2"),
        (tables / "numbers.csv", ("--memory", "1GB"), "the byte budget was "),
        (tables / "numbers.csv", ("--drop", "a"), "--drop differs"),
        (tmp_path / "short.csv", (), "the number of rows was 600, is 599"),
        (tmp_path / "other.csv", (), "what the target holds differs"),
        (mixed, (), "the number of rows was 600, is 3000"),
    ):
        result = phimap("fit", data, *words, *more, "--checkpoint", run)
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"error: `{run}` is the checkpoint of another fit: ")
        assert told in line
        assert line.endswith("Give the same again, delete the folder, or name another.")
    assert {file.name: file.read_bytes() for file in run.iterdir()} == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--every", "1min"), "--every applies with --checkpoint, got it alone. Name a folder, or leave it out."),
        (("--checkpoint", "{}/run", "--every", "soon"), "--every must be a time such as 30s, 5min or 1h, got 'soon'."),
        (("--checkpoint", "{}"), "`{}` holds 'mine.txt', which is no part of a checkpoint. Give an empty folder."),
        (("--checkpoint", "{}/mine.txt"), "`{}/mine.txt` is a file. Give a folder for checkpoints."),
        (("--checkpoint", "{}/a/b"), "there is no folder `{}/a`. Make it first."),
    ],
)
def test_bad_options_are_refused_in_a_line(phimap, tables, tmp_path, words, told):
    (tmp_path / "mine.txt").write_text("mine")
    words = [word.format(tmp_path) for word in words]
    result = phimap("fit", tables / "numbers.csv", "--target", "y", *SETTINGS, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: {told.format(tmp_path)}\n"
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_termination_leaves_no_part_of_a_file(tmp_path):
    """Mutant: without the handler the temporary file stays."""
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom phimap._files import write_whole\n"
        "from phimap.cli.errors import one_line_errors\nfrom contextlib import nullcontext\n"
        "def write(file):\n    print('writing', flush=True)\n    time.sleep(60)\n"
        "with one_line_errors() if sys.argv[2] == 'ours' else nullcontext():\n"
        "    write_whole(Path(sys.argv[1]) / 'model', write)\n"
    )
    for kind, n_left in (("ours", 0), ("mutant", 1)):
        process = subprocess.Popen(
            [sys.executable, "-c", code, tmp_path, kind], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.terminate()
        # As the system ends a process that does not listen.
        assert finish(process) == (-signal.SIGTERM, "", "")
        assert len(list(tmp_path.glob(".phimap.*.part"))) == n_left
