"""Compiled code kept between processes: damaged files are made again, and no folder to write costs time alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# A small one of the compiled loops; it prints whether it was read from the files.
PROGRAM = """
import warnings
import numpy as np
warnings.simplefilter("always")
{before}
from phimap.ops.compiled.activation import interpolate, rectify
out = np.empty((1, 3))
rectify(np.array([[-1.0, 1.0, 2.0]]), 1, np.ones(3), out, 0)
{after}
print(out.tolist(), sum(rectify.stats.cache_hits.values()))
"""
FRESH, KEPT = "[[0.0, 1.0, 2.0]] 0\n", "[[0.0, 1.0, 2.0]] 1\n"


# Runs each program of its input in a fork of its own. Every fork has numba and its compiler, whose imports would take
# most of the time, and nothing of phimap.
FORKS = """
import json, os, sys
import numba, numpy
numba.njit(lambda x: x + 1.0)(1.0)
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitpid(child, 0)[1], flush=True)
        continue
    for number, name in enumerate(job["outputs"], start=1):
        os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), number)
    os.environ.update(job["environment"])
    numba.config.reload_config()
    exec(job["program"])
    sys.stdout.flush()
    os._exit(0)
"""


@pytest.fixture(scope="module")
def forks():
    """Where programs run: a process that forks, or None where processes do not."""
    if sys.platform != "linux":
        yield None
        return
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", FORKS], **pipes) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def run(forks, tmp_path_factory):
    def run(cache, *, before="", after="", **environment):
        program = PROGRAM.format(before=before, after=after)
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **environment}
        if forks is None:
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        else:
            folder = tmp_path_factory.mktemp("run")
            outputs = [folder / name for name in ("stdout", "stderr")]
            job = {"program": program, "environment": environment, "outputs": list(map(str, outputs))}
            forks.stdin.write(json.dumps(job) + "\n")
            forks.stdin.flush()
            code = int(forks.stdout.readline())
            done = subprocess.CompletedProcess((), code, *(file.read_text(encoding="utf-8") for file in outputs))
        assert done.returncode == 0, done.stderr[-500:]
        return done

    return run


def files(cache, suffix):
    return sorted(cache.rglob(f"*rectify*{suffix}"))


def test_damaged_files_are_made_again(tmp_path, run):
    """numba alone runs what such a file holds, or ends with what the reader of its format raises."""
    assert run(tmp_path).stdout == FRESH
    for suffix, damaged in ((".nbi", flipped), (".nbc", flipped), (".nbc", cut)):
        (file,) = files(tmp_path, suffix)
        file.write_bytes(damaged(file.read_bytes()))
        done = run(tmp_path)
        assert (done.stdout, done.stderr) == (FRESH, "")
    assert run(tmp_path).stdout == KEPT


def flipped(content):
    """A file with one bit changed in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]


def cut(content):
    """The first half of a file."""
    return content[: len(content) // 2]


def test_a_change_of_any_file_of_the_folder_compiles_anew(tmp_path, run):
    """Loops contain functions of other files, of which numba alone sees no change."""
    assert run(tmp_path).stdout == FRESH
    changed = "from phimap.ops.compiled import checked_cache; checked_cache._source_stamp = lambda: b'another'"
    assert run(tmp_path, before=changed).stdout == FRESH
    assert run(tmp_path, before=changed).stdout == KEPT


def test_without_a_folder_code_is_compiled_in_memory(tmp_path, run):
    before = "from phimap.ops.compiled import checked_cache; checked_cache.Places._locator_classes = ()"
    done = run(tmp_path, before=before, after="interpolate(out, np.zeros(3), 1.0, np.ones(3), out.copy(), 0)")
    assert done.stdout == FRESH
    assert done.stderr.count("compiled code is not kept for the next process") == 1
    assert "Set NUMBA_CACHE_DIR" in done.stderr
    assert not files(tmp_path, "")


PACKAGE_OF_ANOTHER_USER = """
from numba.core import caching
def refused(locator): raise PermissionError(13, "Permission denied")
caching.InTreeCacheLocator.ensure_cache_path = refused
"""
NO_FOLDER_OF_THE_USER = "caching.UserWideCacheLocator.ensure_cache_path = refused\n"


def test_code_beside_the_package_serves_users_who_cannot_write_there(tmp_path, run):
    """As in the image of a container that is built by one user and run by another."""
    run("")
    owned = {"XDG_CACHE_HOME": str(tmp_path)}
    assert run("", before=PACKAGE_OF_ANOTHER_USER, **owned).stdout == KEPT
    assert not files(tmp_path, "")
    assert run("", before=PACKAGE_OF_ANOTHER_USER + NO_FOLDER_OF_THE_USER).stdout == KEPT
    # What is not there yet goes to the user's folder, or nowhere.
    another = "from phimap.ops.compiled import checked_cache; checked_cache._source_stamp = lambda: b'another'\n"
    assert run("", before=PACKAGE_OF_ANOTHER_USER + another, **owned).stdout == FRESH
    assert files(tmp_path, "nbi")
    nowhere = run("", before=PACKAGE_OF_ANOTHER_USER + NO_FOLDER_OF_THE_USER + another)
    assert nowhere.stdout == FRESH
    assert nowhere.stderr.count("(Permission denied: ") == 1


def test_a_full_disk_is_told_once(tmp_path, run):
    before = (
        "from numba.core.caching import IndexDataCacheFile as Files\n"
        "def full(*args): raise OSError(28, 'No space left on device')\n"
        "Files.save = full"
    )
    done = run(tmp_path, before=before, after="interpolate(out, np.zeros(3), 1.0, np.ones(3), out.copy(), 0)")
    assert done.stdout == FRESH
    assert done.stderr.count("(No space left on device") == 1


def test_without_the_private_classes_of_numba_its_own_cache_serves(tmp_path, run):
    before = "import sys\nsys.modules['phimap.ops.compiled.checked_cache'] = None"
    assert run(tmp_path, before=before).stdout == FRESH
    assert run(tmp_path, before=before).stdout == KEPT
    assert run(tmp_path, before=before, after="from phimap.ops.compiled import jit; assert jit.cache_of is None")
