"""Small inventories of other projects' documentation, so that builds link to it without a network.

    python docs/inventories/make.py python=PATH scikit-learn=PATH scipy=PATH

PATH is a full ``objects.inv`` of the project, as its documentation or a package of it brings. The entries below are
kept. NumPy's are written out, since they are few.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

from sphinx.util.inventory import InventoryFile

HERE = Path(__file__).parent
KEPT = {
    "python": (
        "bool",
        "bytes",
        "dict",
        "float",
        "int",
        "list",
        "None",
        "object",
        "str",
        "tuple",
        "MemoryError",
        "ValueError",
    ),
    "scikit-learn": (
        "sklearn.base.clone",
        "sklearn.calibration.CalibratedClassifierCV",
        "sklearn.ensemble.HistGradientBoostingRegressor",
        "sklearn.gaussian_process.GaussianProcessRegressor",
        "sklearn.kernel_approximation.Nystroem",
        "sklearn.kernel_approximation.PolynomialCountSketch",
        "sklearn.kernel_approximation.RBFSampler",
        "sklearn.kernel_ridge.KernelRidge",
        "sklearn.linear_model.HuberRegressor",
        "sklearn.linear_model.LogisticRegression",
        "sklearn.linear_model.Ridge",
        "sklearn.linear_model.RidgeCV",
        "sklearn.pipeline.make_pipeline",
        "sklearn.preprocessing.Normalizer",
        "sklearn.preprocessing.StandardScaler",
        "sklearn.random_projection.SparseRandomProjection",
        "sklearn.svm.LinearSVC",
        "sklearn.svm.SVC",
        "sklearn.svm.SVR",
    ),
    "scipy": ("scipy.sparse.csr_matrix", "scipy.optimize.nnls"),
}
NUMPY = {
    "numpy.ndarray": "class reference/generated/numpy.ndarray.html#$",
    "numpy.random.Generator": "class reference/random/generator.html#$",
    "numpy.random.RandomState": "class reference/random/legacy.html#$",
    "numpy.random.SeedSequence": "class reference/random/bit_generators/generated/numpy.random.SeedSequence.html#$",
}


def write(project: str, lines: list[str]) -> None:
    """One inventory of version 2; its version is left empty, as links go to the stable documentation."""
    head = (
        f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n# The remainder is compressed using zlib.\n"
    )
    body = "".join(f"{line}\n" for line in sorted(lines)).encode()
    (HERE / f"{project}.inv").write_bytes(head.encode() + zlib.compress(body, 9))


def entries(path: Path, wanted: tuple[str, ...]) -> list[str]:
    """The lines of a full inventory for some names."""
    with path.open("rb") as file:
        found = InventoryFile.load(file, "", lambda base, location: location)
    lines = []
    for name in wanted:
        kinds = {kind: found[kind][name] for kind in found if kind.startswith("py:") and name in found[kind]}
        if not kinds:
            raise KeyError(f"{name}: is not in {path}. Take another inventory, or leave it out.")
        lines += [f"{name} {kind} 1 {item.uri} -" for kind, item in kinds.items()]
    return lines


def main() -> None:
    for word in sys.argv[1:]:
        project, _, path = word.partition("=")
        write(project, entries(Path(path), KEPT[project]))
    write("numpy", [f"{name} py:{what.split()[0]} 1 {what.split()[1]} -" for name, what in NUMPY.items()])


if __name__ == "__main__":
    main()
