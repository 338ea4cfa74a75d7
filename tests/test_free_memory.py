"""The memory that a process may take: the machine's, its control groups' and its own limits, whichever is least."""

from __future__ import annotations

import subprocess
import sys

import pytest

from phimap._free_memory import free_memory

GB = 2**30


def system(tmp_path, files):
    """A machine with 8 GB to spare whose files of state are `files`."""
    files = {"proc/meminfo": f"MemTotal: 99 kB\nMemAvailable: {8 * GB // 1024} kB\n", **files}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return free_memory(tmp_path / "proc", tmp_path / "groups")


def test_without_limits_it_is_what_the_machine_has_left(tmp_path):
    assert system(tmp_path, {}) == 8 * GB


def test_a_group_of_version_2_limits_it(tmp_path):
    """Its cache of files counts as free. Mutant: the limit alone, of which 1 GB is taken already."""
    files = {
        "proc/self/cgroup": "0::/user/job\n",
        "groups/user/job/memory.max": f"{int(1.5 * GB)}\n",
        "groups/user/job/memory.current": f"{GB}\n",
        "groups/user/job/memory.stat": f"anon 5\nfile 7\ninactive_file {GB // 4}\nactive_file 9\n",
    }
    assert system(tmp_path, files) == int(0.75 * GB) != int(1.5 * GB)


def test_groups_around_it_limit_it_too(tmp_path):
    files = {
        "proc/self/cgroup": "0::/user/job\n",
        "groups/user/job/memory.max": "max\n",
        "groups/user/job/memory.current": f"{GB}\n",
        "groups/user/memory.max": f"{3 * GB}\n",
        "groups/user/memory.current": f"{GB}\n",
    }
    assert system(tmp_path, files) == 2 * GB


def test_a_group_of_version_1_limits_it(tmp_path):
    files = {
        "proc/self/cgroup": "5:cpuset:/\n4:memory,hugetlb:/docker/ab\n0::/\n",
        "groups/memory/docker/ab/memory.limit_in_bytes": f"{2 * GB}\n",
        "groups/memory/docker/ab/memory.usage_in_bytes": f"{GB}\n",
        "groups/memory/docker/ab/memory.stat": f"inactive_file 3\ntotal_inactive_file {GB // 2}\n",
        "groups/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "groups/memory/memory.usage_in_bytes": "5\n",
    }
    assert system(tmp_path, files) == int(1.5 * GB)


def test_a_path_of_the_machine_outside_falls_back_to_the_root(tmp_path):
    files = {
        "proc/self/cgroup": "0::/kubepods/pod1/ab\n",
        "groups/memory.max": f"{GB}\n",
        "groups/memory.current": f"{GB // 4}\n",
    }
    assert system(tmp_path, files) == 3 * GB // 4


def test_a_group_beyond_its_limit_leaves_nothing(tmp_path):
    files = {"proc/self/cgroup": "0::/\n", "groups/memory.max": "100\n", "groups/memory.current": "200\n"}
    assert system(tmp_path, files) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="limits on the address space are Linux's")
def test_a_limit_on_the_address_space_counts():
    code = (
        "import resource, phimap._free_memory as m\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**31, resource.RLIM_INFINITY))\n"
        "print(m.free_memory())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(found.stdout) < 2**31
