"""Start-up: import, first transform after installing, and what a second process pays before its first transform.

Each figure is that of a new process, the import of NumPy alone beside it. The first transform compiles into an empty
cache; the second loads what the first left there.

    python benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

IMPORT = "import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"

# The overhead is the first transform less the same transform repeated, and the import of the package's needs.
TRANSFORM = """
import time
start = time.perf_counter()
import numpy as np
import phimap as pm
X = np.random.default_rng(0).standard_normal((2000, 20)).astype(np.float32)
phi = {make}
imported = time.perf_counter()
Z = phi.fit_transform(X)
first = time.perf_counter() - imported
start_again = time.perf_counter()
phi.fit_transform(X)
again = time.perf_counter() - start_again
print(imported - start, first, first - again)
"""

MAPS = {
    "FourierFeatures": "pm.FourierFeatures(n_components=2048, random_state=0)",
    "FourierFeatures, sorf": "pm.FourierFeatures(n_components=2048, projection='sorf', random_state=0)",
    "NTKFeatures": "pm.NTKFeatures(depth=2, n_components=2048, random_state=0)",
}


def run(code: str, cache: str | None = None) -> list[float]:
    """The numbers that a new process prints."""
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return [float(word) for word in result.stdout.split()]


def main() -> None:
    print("import, seconds (best of 3)")
    for module in ("numpy", "phimap", "sklearn.base", "numba"):
        print(f"  {module:<24} {min(run(IMPORT.format(module=module))[0] for _ in range(3)):.3f}")
    print("first fit_transform, seconds       imports   empty cache   second process   overhead of it")
    for name, make in MAPS.items():
        code = TRANSFORM.format(make=make)
        with tempfile.TemporaryDirectory() as cache:
            _, compiling, _ = run(code, cache)
            imports, cached, overhead = min((run(code, cache) for _ in range(3)), key=lambda row: row[1])
        print(f"  {name:<32} {imports:7.2f}   {compiling:11.2f}   {cached:14.2f}   {overhead:14.2f}")


if __name__ == "__main__":
    main()
