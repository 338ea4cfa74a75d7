"""``phimap info`` without a model, and the choice of BLAS kernels."""

from __future__ import annotations

import subprocess
import sys

import pytest

from phimap.advice.speed import product_speed
from phimap.cli.blas import blas_libraries, choose_core_type, faster_products

FLAGS = "fpu sse2 avx avx2 avx512f avx512dq avx512cd avx512bw avx512vl"


@pytest.fixture
def processor(tmp_path, monkeypatch):
    """A description of one processor, in a process that has not loaded NumPy."""

    def describe(vendor: str, flags: str):
        path = tmp_path / "cpuinfo"
        path.write_text(f"processor\t: 0\nvendor_id\t: {vendor}\nflags\t\t: {flags}\n\nprocessor\t: 1\n")
        return path

    monkeypatch.delitem(sys.modules, "numpy")
    return describe


def test_core_type_is_set_on_amd_with_avx512(processor):
    environment: dict[str, str] = {}
    assert choose_core_type(environment, processor("AuthenticAMD", FLAGS)) == "SkylakeX"
    assert environment == {"OPENBLAS_CORETYPE": "SkylakeX"}


@pytest.mark.parametrize(
    ("vendor", "flags"),
    [("GenuineIntel", FLAGS), ("AuthenticAMD", FLAGS.replace("avx512bw", "")), ("AuthenticAMD", "")],
)
def test_core_type_is_left_alone_elsewhere(processor, vendor, flags):
    environment: dict[str, str] = {}
    assert choose_core_type(environment, processor(vendor, flags)) is None
    assert environment == {}


def test_core_type_of_the_user_stays(processor):
    environment = {"OPENBLAS_CORETYPE": "Haswell"}
    assert choose_core_type(environment, processor("AuthenticAMD", FLAGS)) is None
    assert environment == {"OPENBLAS_CORETYPE": "Haswell"}


def test_core_type_without_description(processor, tmp_path):
    assert choose_core_type({}, tmp_path / "none") is None


def test_core_type_is_too_late_once_numpy_is_loaded(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text(f"vendor_id\t: AuthenticAMD\nflags\t\t: {FLAGS}\n")
    assert choose_core_type({}, path) is None


@pytest.fixture
def openblas(monkeypatch):
    """OpenBLAS with kernels of this name."""

    def load(architecture: str):
        info = {"user_api": "blas", "internal_api": "openblas", "version": "0.3", "architecture": architecture}
        monkeypatch.setattr("threadpoolctl.threadpool_info", lambda: [info])

    return load


def test_kernels_without_avx512_have_a_remedy_where_the_processor_has_it(openblas, processor):
    openblas("Haswell")
    able = processor("GenuineIntel", FLAGS)
    unset = "unset OPENBLAS_CORETYPE: Haswell kernels leave the processor's AVX-512 unused"
    assert faster_products({"OPENBLAS_CORETYPE": "Haswell"}, able) == unset
    assert str(faster_products({}, able)).startswith("set OPENBLAS_CORETYPE=SkylakeX: ")
    assert faster_products({}, processor("GenuineIntel", "avx avx2")) is None
    openblas("SkylakeX")
    assert faster_products({}, processor("AuthenticAMD", FLAGS)) is None


@pytest.fixture
def quick(monkeypatch):
    """Measurements of small products."""
    monkeypatch.setattr("phimap.advice.speed._ORDER", 64)


@pytest.mark.usefixtures("quick")
def test_libraries_and_speed_are_those_of_this_process():
    assert all(blas_libraries())
    assert product_speed("float32", 1) > 0
    assert product_speed("float64", 1) > 0


@pytest.mark.usefixtures("quick")
def test_info_describes_the_installation(phimap):
    result = phimap("info")
    assert result.exit_code == 0
    for fact in ("phimap", "numpy", "blas", "threads", "sgemm", "dgemm", "memory budget", "torch", "cuda"):
        assert fact in result.stdout


def test_compilation_is_of_no_model(phimap, tmp_path):
    (tmp_path / "model.phimap").touch()
    result = phimap("info", tmp_path / "model.phimap", "--compile")
    assert result.exit_code == 2
    assert "--compile" in result.stderr
    assert "model.phimap" in result.stderr


COMPILATION = """
import importlib, pkgutil
import phimap.ops.compiled
from phimap.cli.compilation import compile_loops
from phimap.ops.compiled.checked_cache import CheckedCache

def names(code):
    # Those that the code of a loop mentions, code within it included.
    within = (names(one) for one in code.co_consts if hasattr(one, "co_names"))
    return set(code.co_names).union(*within)

def contained(loop):
    function = loop.py_func
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [*cells, *(function.__globals__.get(name) for name in names(function.__code__))]

compile_loops()
loops = {}
for module in pkgutil.iter_modules(phimap.ops.compiled.__path__):
    for name, loop in vars(importlib.import_module(f"phimap.ops.compiled.{module.name}")).items():
        if isinstance(getattr(loop, "_cache", None), CheckedCache):
            loops[f"{module.name}.{name}"] = loop
# What a first run would find: the loops that were called, and those that they contain, whose code is part of theirs.
# Code that an earlier run has kept is read, and that of a contained loop is not read on its own.
found, left = set(), [loop for loop in loops.values() if loop.signatures]
while left:
    loop = left.pop()
    if id(loop) not in found:
        found.add(id(loop))
        left += [one for one in contained(loop) if hasattr(one, "py_func")]
missed = [name for name, loop in loops.items() if id(loop) not in found]
assert not missed, f"{missed} are compiled by their first users: see cli/compilation.py"
print(len(loops))
"""


@pytest.mark.slow
def test_every_loop_is_compiled_ahead():
    done = subprocess.run([sys.executable, "-c", COMPILATION], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) > 50
