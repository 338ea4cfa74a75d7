"""``phimap info``: the installed versions and the speed of this machine, or the content of a model file."""

from __future__ import annotations

import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from phimap._number_text import label_text, number_text
from phimap._printable import printable
from phimap.advice.speed import product_speed
from phimap.cli.blas import blas_libraries, faster_products
from phimap.cli.compilation import compile_loops
from phimap.cli.describe import loss_of, loss_text, search_facts, some, task_of
from phimap.cli.encoded import column_texts
from phimap.cli.options import InfoOptions
from phimap.cli.output import Fact, write
from phimap.cli.written_kernels import kernel_text
from phimap.config import memory_budget, size_text, thread_count
from phimap.io.images import times
from phimap.io.model import load
from phimap.ops.compiled.jit import Kept, kept

# A name, the text to print, and the value for JSON if it is not the text.
Row = tuple[str, str] | tuple[str, str, Any]

# Fewer cached compiled loops than this mean that only one or two maps have been used so far.
_FEW_LOOPS = 20
_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow")


def run(options: InfoOptions) -> None:
    """Run the command."""
    if options.compile:
        if options.model is not None:
            raise ValueError(
                f"--compile compiles for all models, got {str(options.model)!r} too. Leave one of them out."
            )
        compile_loops()
    rows = describe_installation() if options.model is None else describe_model(options.model)
    if options.json:
        write([Fact(re.sub(r"\W+", "_", name), rest[-1]) for name, *rest in rows], as_json=True)
    else:
        width = max(len(name) for name, *_ in rows) + 2
        sys.stdout.writelines(f"{printable(f'{name:<{width}}{text}')}\n" for name, text, *_ in rows)


def describe_installation() -> list[Row]:
    """Rows on the installation: versions, BLAS, threads, speed, compiled loops, memory budget, devices and advice."""
    threads, code = thread_count(), kept()
    rows: list[Row] = [
        ("phimap", version("phimap")),
        ("python", platform.python_version()),
        *((name, _version(name)) for name in _PACKAGES),
        ("blas", "; ".join(blas_libraries()), blas_libraries()),
        ("OPENBLAS_CORETYPE", os.environ.get("OPENBLAS_CORETYPE", "not set")),
        ("threads", str(threads), threads),
    ]
    for count in sorted({1, threads}):
        label = f"GFLOP/s, {count} thread{'s' if count > 1 else ''}"
        single, double = (product_speed(dtype, count) for dtype in ("float32", "float64"))
        rows.append((label, f"sgemm {single:.0f}, dgemm {double:.0f}"))
    rows += [
        ("compiled kernels", f"{code.n_loops} in {code.folder}" if code.folder else "not kept", code.n_loops),
        ("memory budget", size_text(memory_budget()), memory_budget()),
        ("torch", _version("torch")),
        ("cuda", _cuda()),
    ]
    remedies = (("faster products", faster_products()), ("faster start", _faster_start(code)))
    rows += [(name, text) for name, text in remedies if text]
    return rows


def describe_model(path: Path) -> list[Row]:
    """Rows on the contents of a model file. Loading the file verifies its checksum."""
    model = load(path)
    size = path.stat().st_size
    rows: list[Row] = [("file", f"{path}, {size_text(size)}, checksum OK", str(path)), ("kind", type(model).__name__)]
    if hasattr(model, "feature_map_"):
        rows += _learner(model)
    elif hasattr(model, "record_"):
        width, columns = model.record_.n_components, model.n_features_in_
        rows += [("width", str(width), width), ("columns", str(columns), columns)]
        if hasattr(model, "kernel_"):
            rows.insert(2, ("kernel", kernel_text(model.kernel_)))
    return rows


def _learner(model: Any) -> list[Row]:
    width, classes = model.feature_map_.record_.n_components, getattr(model, "classes_", None)
    rows: list[Row] = [
        ("task", task_of(model)),
        ("kernel", kernel_text(model.kernel_)),
        ("map", type(model.feature_map_).__name__),
        ("width", f"{width} features", width),
        *search_facts(model),
        ("alpha", number_text(model.alpha_, 4), model.alpha_),
        ("rows seen", str(model.n_samples_seen_), model.n_samples_seen_),
    ]
    if getattr(model, "loss", "squared") != "squared":
        rows.append(("loss", loss_text(model), loss_of(model)))
    if hasattr(model, "target_name_"):
        rows.append(("target", str(model.target_name_)))
    if classes is not None:
        rows.append(("classes", some(list(map(label_text, classes))), classes.tolist()))
    known = getattr(model, "feature_names_in_", None)
    names = "without names" if known is None else some(known)
    columns = model.n_features_in_ if known is None else known.tolist()
    rows.append(("columns", f"{model.n_features_in_}: {names}", columns))
    if model.encoder_ is not None:
        rows += [(f"  {name}", text) for name, text in column_texts(model.encoder_)]
    if len(getattr(model, "sample_shape_", ())) > 1:
        rows.append(("images", times(model.sample_shape_)))
    kept = hasattr(model, "solver_")
    rows.append(("statistics", "kept, training can go on" if kept else "not kept (fit --statistics keeps them)", kept))
    return rows


def _faster_start(code: Kept) -> str | None:
    """Advice that makes later processes start faster; None if there is nothing to advise."""
    if code.n_loops >= _FEW_LOOPS:
        return None
    if not code.can_grow:
        return "set NUMBA_CACHE_DIR to a folder that can be written, so that processes need not compile anew"
    return "phimap info --compile, so that no first run compiles"


def _cuda() -> str:
    """The name of the CUDA device that torch finds, or the reason why there is none."""
    if find_spec("torch") is None:
        return "needs torch"
    from phimap.ops import torch_ops

    return torch_ops.torch.cuda.get_device_name(0) if torch_ops.torch.cuda.is_available() else "no device"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
