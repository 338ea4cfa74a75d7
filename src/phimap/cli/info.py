"""``phimap info``: what is installed and how fast it is, or what a model file holds."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from phimap.cli.blas import blas_libraries, measure_speed
from phimap.cli.describe import kernel_text, search_facts, some, task_of, times
from phimap.cli.encoded import column_texts
from phimap.config import memory_budget, thread_count
from phimap.io.model import load

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow")


def describe_installation() -> None:
    """Print versions, BLAS, threads, speed, compiled kernels, budget and devices."""
    threads = thread_count()
    rows = [
        ("phimap", version("phimap")),
        ("python", platform.python_version()),
        *((name, _version(name)) for name in _PACKAGES),
        *(("blas", text) for text in blas_libraries()),
        ("OPENBLAS_CORETYPE", os.environ.get("OPENBLAS_CORETYPE", "not set")),
        ("threads", str(threads)),
    ]
    for count in sorted({1, threads}):
        speed = measure_speed(count)
        label = f"GFLOP/s, {count} thread{'s' if count > 1 else ''}"
        rows.append((label, f"sgemm {speed.single:.0f}, dgemm {speed.double:.0f}"))
    rows += [
        ("compiled kernels", _compiled_kernels()),
        ("memory budget", f"{memory_budget() / 2**30:.2f} GB"),
        ("torch", _version("torch")),
        ("cuda", _cuda()),
    ]
    _print(rows)


def describe_model(path: Path) -> None:
    """Print what a model file holds; reading it verifies its checksum."""
    model = load(path)
    rows = [("file", f"{path}, {path.stat().st_size / 2**20:.2f} MB, checksum OK"), ("kind", type(model).__name__)]
    if hasattr(model, "feature_map_"):
        rows += _learner(model)
    elif hasattr(model, "record_"):
        rows += [("width", str(model.record_.n_components)), ("columns", str(model.n_features_in_))]
        if hasattr(model, "kernel_"):
            rows.insert(2, ("kernel", kernel_text(model.kernel_)))
    _print(rows)


def _learner(model: Any) -> list[tuple[str, str]]:
    rows = [
        ("task", task_of(model)),
        ("kernel", kernel_text(model.kernel_)),
        ("map", type(model.feature_map_).__name__),
        ("width", f"{model.feature_map_.record_.n_components} features"),
        *search_facts(model),
        ("alpha", f"{model.alpha_:.4g}"),
        ("rows seen", str(model.n_samples_seen_)),
    ]
    if hasattr(model, "target_name_"):
        rows.append(("target", str(model.target_name_)))
    if hasattr(model, "classes_"):
        rows.append(("classes", some(model.classes_)))
    names = some(model.feature_names_in_) if hasattr(model, "feature_names_in_") else "without names"
    rows.append(("columns", f"{model.n_features_in_}: {names}"))
    if model.encoder_ is not None:
        rows += [(f"  {name}", text) for name, text in column_texts(model.encoder_)]
    if len(getattr(model, "sample_shape_", ())) > 1:
        rows.append(("images", times(model.sample_shape_)))
    kept = hasattr(model, "solver_")
    rows.append(("statistics", "kept, training can go on" if kept else "not kept (fit --statistics keeps them)"))
    return rows


def _compiled_kernels() -> str:
    """How many compiled functions numba has kept for the next process."""
    spec = find_spec("phimap.ops.compiled")
    folders = [Path(place) / "__pycache__" for place in (spec.submodule_search_locations or ())] if spec else []
    cached = [file for folder in folders for file in folder.glob("*.nbi")]
    return f"{len(cached)} cached" if cached else "none cached yet; the first run compiles them"


def _cuda() -> str:
    """Which CUDA device torch sees."""
    if find_spec("torch") is None:
        return "needs torch"
    from phimap.ops import torch_ops

    return torch_ops.torch.cuda.get_device_name(0) if torch_ops.torch.cuda.is_available() else "no device"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _print(rows: Sequence[tuple[str, str]]) -> None:
    """Write names and values, one a line, aligned."""
    width = max(len(name) for name, _ in rows) + 2
    sys.stdout.writelines(f"{name:<{width}}{value}\n" for name, value in rows)
