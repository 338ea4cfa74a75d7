"""Compiled code kept between processes: damaged files are made again, and no folder to write costs time alone."""

from __future__ import annotations

import os
import subprocess
import sys

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


def run(cache, *, before="", after=""):
    program = PROGRAM.format(before=before, after=after)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-500:]
    return done


def files(cache, suffix):
    return sorted(cache.rglob(f"*rectify*{suffix}"))


def test_damaged_files_are_made_again(tmp_path):
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


def test_without_a_folder_code_is_compiled_in_memory(tmp_path):
    before = "from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []"
    done = run(tmp_path, before=before, after="interpolate(out, np.zeros(3), 1.0, np.ones(3), out.copy(), 0)")
    assert done.stdout == FRESH
    assert done.stderr.count("compiled code is not kept for the next process") == 1
    assert "Set NUMBA_CACHE_DIR" in done.stderr
    assert not files(tmp_path, "")


def test_a_full_disk_is_told_once(tmp_path):
    before = (
        "from numba.core.caching import IndexDataCacheFile as Files\n"
        "def full(*args): raise OSError(28, 'No space left on device')\n"
        "Files.save = full"
    )
    done = run(tmp_path, before=before, after="interpolate(out, np.zeros(3), 1.0, np.ones(3), out.copy(), 0)")
    assert done.stdout == FRESH
    assert done.stderr.count("(No space left on device") == 1
