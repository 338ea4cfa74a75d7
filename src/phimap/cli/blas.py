"""Which BLAS does the heavy products, and whether it uses the processor well."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path

_VARIABLE = "OPENBLAS_CORETYPE"
_CORE_TYPE = "SkylakeX"
# OpenBLAS's core types that use AVX-512, and the features of the processor that these are compiled for.
_WITH_AVX512 = {"skylakex", "cooperlake", "sapphirerapids"}
_NEEDED_FLAGS = {"avx512f", "avx512dq", "avx512vl", "avx512bw"}
_PROCESSOR = Path("/proc/cpuinfo")


def choose_core_type(environment: MutableMapping[str, str] = os.environ, processor: Path = _PROCESSOR) -> str | None:
    """Tell OpenBLAS to use its AVX-512 kernels where it would pick slower ones by itself.

    Older OpenBLAS builds know some AMD processors with AVX-512 as Haswell, at half their speed. The choice is read
    once, when NumPy is first imported, so this must be called before; later calls do nothing.

    Parameters
    ----------
    environment : mapping, optional
        Environment variables, which a setting by the user is left in.
    processor : Path, optional
        Description of the processor in Linux's form.

    Returns
    -------
    str or None
        The core type set; None where it would not help, would come too late, or is set already.

    Notes
    -----
    **Error** none: every core type computes the same products, to rounding. **Cost** one small file is read.
    **Differs from the source** Newer OpenBLAS builds choose the same by themselves; setting it is then harmless.
    """
    if _VARIABLE in environment or "numpy" in sys.modules:
        return None
    vendor, has_avx512 = _vendor_and_avx512(processor)
    if vendor != "AuthenticAMD" or not has_avx512:
        return None
    environment[_VARIABLE] = _CORE_TYPE
    return _CORE_TYPE


def blas_libraries() -> list[str]:
    """The BLAS libraries loaded in this process, each with version and core type as it reports them."""
    import scipy.linalg  # noqa: F401 - SciPy may bring a BLAS of its own
    from threadpoolctl import threadpool_info

    names = []
    for info in threadpool_info():
        if info["user_api"] == "blas":
            kernels = f"({info['architecture']} kernels)" if info.get("architecture") else None
            names.append(" ".join(filter(None, (info["internal_api"], info["version"], kernels))))
    return list(dict.fromkeys(names)) or ["not recognised by threadpoolctl"]


def faster_products(environment: Mapping[str, str] = os.environ, processor: Path = _PROCESSOR) -> str | None:
    """How OpenBLAS would use AVX-512, where the processor has it and OpenBLAS does not; else None."""
    import scipy.linalg  # noqa: F401 - SciPy may bring a BLAS of its own
    from threadpoolctl import threadpool_info

    kernels = {info.get("architecture") or "" for info in threadpool_info() if info["internal_api"] == "openblas"}
    slower = sorted(name for name in kernels if name and name.lower() not in _WITH_AVX512)
    if not slower or not _vendor_and_avx512(processor)[1]:
        return None
    remedy = f"unset {_VARIABLE}" if _VARIABLE in environment else f"set {_VARIABLE}={_CORE_TYPE}"
    return f"{remedy}: {slower[0]} kernels leave the processor's AVX-512 unused"


def _vendor_and_avx512(processor: Path) -> tuple[str, bool]:
    """The maker of the processor and whether it has what kernels with AVX-512 need, from its description."""
    try:
        text = processor.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", False
    facts = dict(line.split(":", 1) for line in text.split("\n\n", 1)[0].splitlines() if ":" in line)
    values = {key.strip(): value.strip() for key, value in facts.items()}
    return values.get("vendor_id", ""), set(values.get("flags", "").split()) >= _NEEDED_FLAGS
