"""Speed and size of small features beside dense float32 ones, as ratios from interleaved rounds of one run.

python benchmarks/footprint.py [--rounds 5]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from timing import least_seconds

import phimap as pm
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.ops import ops_for, run_tasks


def compare(name: str, cases: dict[str, Callable[[], object]], rounds: int, limit: str) -> None:
    """Print the least wall and processor times of each case, the first being the reference."""
    best = least_seconds(cases, rounds)
    reference = next(iter(best.values()))
    print(f"\n{name} (limit {limit})")
    print(f"{'':<28}{'seconds':>10}{'cpu':>10}{'ratio':>10}{'cpu ratio':>10}")
    for case, (wall, processor) in best.items():
        print(f"{case:<28}{wall:10.3f}{processor:10.3f}{reference[0] / wall:10.2f}{reference[1] / processor:10.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 784)).astype(np.float32) / 28
    W = rng.standard_normal((784, 8192)).astype(np.float32)
    ops = ops_for(X)

    def projection(sparsity: float) -> Callable[[], object]:
        record = pm.projections.SparseSign(sparsity).sample(pm.kernels.Gaussian().spectral_law(784), 8192, rng)
        bound = record.bind(ops)

        def project(start: int) -> None:
            for _columns, _values in bound.blocks(ops, X[start : start + 512]):
                pass

        return lambda: run_tasks(project, range(0, len(X), 512))

    compare(
        "projection 784 -> 8192 of 20,000 rows",
        {
            "float32 product": lambda: X @ W,
            **{f"sparse signs, eps = {eps}": projection(eps) for eps in (0.1, 0.5, 0.9)},
        },
        rounds,
        "2, aim 3",
    )
    few = X[:4000]
    maps = {
        "ternary": pm.TernaryFeatures(n_components=8192, packed=True, random_state=0).fit(few),
        "binary": pm.TernaryFeatures(n_components=8192, packed=True, levels=2, random_state=0).fit(few),
    }
    packed = {name: phi.transform(few) for name, phi in maps.items()}
    dense = packed["ternary"].to_dense()
    print("\nbytes, float32 over packed:", {name: dense.nbytes / Z.nbytes for name, Z in packed.items()}, "(limit 16)")
    compare(
        "Gram matrix of 4,000 rows of 8192",
        {"float32": lambda: dense @ dense.T, **{name: Z.gram for name, Z in packed.items()}},
        rounds,
        "8",
    )
    y = rng.standard_normal((len(few), 1))

    def train(Z: object) -> None:
        RidgeStatistics.empty(8192, 1).update(Z, y)

    compare(
        "ridge statistics of 4,000 rows of 8192",
        {"float32": lambda: train(dense), **{name: lambda Z=Z: train(Z) for name, Z in packed.items()}},
        max(1, rounds // 2),
        "1",
    )

    def learner(levels: int, packed: bool) -> Callable[[], object]:
        phi = pm.TernaryFeatures(n_components=2048, packed=packed, levels=levels, random_state=0)
        return lambda: pm.KernelRegressor(phi, alpha=1.0).fit(few, y[:, 0])

    compare(
        "KernelRegressor, 4,000 rows, 2048 features, drawing them included",
        {"float32": learner(3, False), "ternary": learner(3, True), "binary": learner(2, True)},
        max(1, rounds // 2),
        "1",
    )


if __name__ == "__main__":
    main()
