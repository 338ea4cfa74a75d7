"""The BLAS libraries in use, and whether OpenBLAS uses AVX-512 on processors that have it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

_VARIABLE = "OPENBLAS_CORETYPE"
_CORE_TYPE = "SkylakeX"
# Core types of OpenBLAS with AVX-512, and the processor features that they need.
_WITH_AVX512 = {"skylakex", "cooperlake", "sapphirerapids"}
_NEEDED_FLAGS = {"avx512f", "avx512dq", "avx512vl", "avx512bw"}
_PROCESSOR = Path("/proc/cpuinfo")


def choose_core_type(environment: MutableMapping[str, str] = os.environ, processor: Path = _PROCESSOR) -> str | None:
    """Make OpenBLAS use its AVX-512 kernels on processors for which it chooses slower ones.

    OpenBLAS builds that are older than an AMD processor with AVX-512 treat it as a Haswell processor, at half its
    speed. OpenBLAS reads the core type once, when NumPy is first imported, so later calls do nothing.

    Parameters
    ----------
    environment : mapping, optional
        Environment variables; a setting by the user is not changed.
    processor : Path, optional
        File that describes the processor, in the format of ``/proc/cpuinfo``.

    Returns
    -------
    str or None
        The core type that was set; None if none would help, if NumPy is already imported, or if a type was set before.

    Notes
    -----
    **Error** none: every core type computes the same products, up to rounding. **Cost** one small file is read.
    **Differs from the source** Newer OpenBLAS builds choose the same type themselves; setting it is then harmless.
    """
    if _VARIABLE in environment or "numpy" in sys.modules:
        return None
    vendor, has_avx512 = _vendor_and_avx512(processor)
    if vendor != "AuthenticAMD" or not has_avx512:
        return None
    environment[_VARIABLE] = _CORE_TYPE
    return _CORE_TYPE


def blas_libraries() -> list[str]:
    """The BLAS libraries of this process, each with its version and core type."""
    names = []
    for info in _loaded():
        kernels = f"({info['architecture']} kernels)" if info.get("architecture") else None
        names.append(" ".join(filter(None, (info["internal_api"], info["version"], kernels))))
    return list(dict.fromkeys(names)) or ["not recognised by threadpoolctl"]


def faster_products(environment: Mapping[str, str] = os.environ, processor: Path = _PROCESSOR) -> str | None:
    """Advice on making OpenBLAS use AVX-512; None if it already does, or if the processor lacks AVX-512."""
    kernels = {info.get("architecture") or "" for info in _loaded() if info["internal_api"] == "openblas"}
    slower = sorted(name for name in kernels if name and name.lower() not in _WITH_AVX512)
    if not slower or not _vendor_and_avx512(processor)[1]:
        return None
    remedy = f"unset {_VARIABLE}" if _VARIABLE in environment else f"set {_VARIABLE}={_CORE_TYPE}"
    return f"{remedy}: {slower[0]} kernels leave the processor's AVX-512 unused"


def _loaded() -> list[dict[str, Any]]:
    """Descriptions of the BLAS libraries that this process has loaded."""
    import scipy.linalg  # noqa: F401 - SciPy may bring a BLAS of its own
    from threadpoolctl import threadpool_info

    return [info for info in threadpool_info() if info["user_api"] == "blas"]


def _vendor_and_avx512(processor: Path) -> tuple[str, bool]:
    """The vendor of the processor, and whether it has all features that AVX-512 kernels need."""
    try:
        text = processor.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", False
    facts = dict(line.split(":", 1) for line in text.split("\n\n", 1)[0].splitlines() if ":" in line)
    values = {key.strip(): value.strip() for key, value in facts.items()}
    return values.get("vendor_id", ""), set(values.get("flags", "").split()) >= _NEEDED_FLAGS
