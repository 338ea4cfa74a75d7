"""Convolutional tangent features on images: accuracy and time of the full-size table, on a GPU if asked for.

python benchmarks/cntk.py --data DIR [--device cuda] [--file cifar10.npz] [--widths 4096 8192] [--output cntk.json]
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from phimap._progress import peak_memory
from phimap.bench.cntk import DEPTH, run
from phimap.bench.images import load_images


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--file", default="cifar10.npz")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--widths", type=int, nargs="+", default=[4096, 8192])
    parser.add_argument("--methods", nargs="+", default=["sketch", "gradient"])
    parser.add_argument("--depth", type=int, default=DEPTH)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    images = load_images(str(arguments.data / arguments.file), arguments.rows, arguments.rows)
    rows = []
    options = {"depth": arguments.depth, "widths": arguments.widths, "device": arguments.device}
    for row in run(images, arguments.methods, **options):
        rows.append(row)
        print(
            f"{row['method']:<10} m {row['n_components']:>6}   {row['n_rows']} + {row['n_test']} images   "
            f"test accuracy {row['accuracy']:.2f} %   {row['seconds']:.1f} s   peak {peak_memory() / 1e9:.2f} GB",
            flush=True,
        )
        if arguments.output is not None:
            arguments.output.write_text(json.dumps({"device": arguments.device, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
