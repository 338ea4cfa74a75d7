"""Which BLAS does the heavy products, and whether it uses the processor well."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path

_VARIABLE = "OPENBLAS_CORETYPE"
_CORE_TYPE = "SkylakeX"
# OpenBLAS's SkylakeX kernels are compiled for these features of the processor.
_NEEDED_FLAGS = {"avx512f", "avx512dq", "avx512vl", "avx512bw"}


def choose_core_type(
    environment: MutableMapping[str, str] = os.environ, processor: Path = Path("/proc/cpuinfo")
) -> str | None:
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
    try:
        text = processor.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    facts = dict(line.split(":", 1) for line in text.split("\n\n", 1)[0].splitlines() if ":" in line)
    values = {key.strip(): value.strip() for key, value in facts.items()}
    flags = set(values.get("flags", "").split())
    if values.get("vendor_id") != "AuthenticAMD" or not flags >= _NEEDED_FLAGS:
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
