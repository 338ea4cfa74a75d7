"""Damaged tables: each is refused in one line or read within the budget.

``python -m tests.fuzz.tables --n 20000 --seed 0`` is the long run; ``--keep DIR`` keeps the files that do harm.
"""

from __future__ import annotations

import gzip
import io
import traceback
import warnings
import zipfile
from functools import cache, partial
from pathlib import Path

import numpy as np

import phimap as pm
from phimap._files import DataError
from phimap.io import open_frame, open_table
from tests.fuzz.campaign import Campaign, Writer
from tests.fuzz.samples import frame
from tests.fuzz.workers import BUDGET

# Sizes that headers declare.
_SIZES = (0, 1, 2**16, 2**31 - 1, 2**40, 2**63 - 1)


@cache
def tables() -> dict[str, bytes]:
    """Whole files by suffix."""
    data = frame().drop(columns=["date"])
    numbers = np.random.default_rng(0).standard_normal((60, 5))
    text = data.to_csv(index=False).encode()
    found = {".csv": text, ".csv.gz": gzip.compress(text), ".json": data.to_json(orient="records").encode()}
    found[".jsonl"] = data.to_json(orient="records", lines=True).encode()
    found[".libsvm"] = "".join(
        f"{i % 2} " + " ".join(f"{j + 1}:{value:.3g}" for j, value in enumerate(row) if value > 0) + "\n"
        for i, row in enumerate(numbers)
    ).encode()
    for suffix, write in {
        ".parquet": data.to_parquet,
        ".feather": data.to_feather,
        ".npy": lambda file: np.save(file, numbers),
        ".npz": lambda file: np.savez_compressed(file, X=numbers, y=numbers[:, 0]),
    }.items():
        buffer = io.BytesIO()
        write(buffer)
        found[suffix] = buffer.getvalue()
    for suffix, kind in ((".csv.zip", zipfile.ZIP_DEFLATED), (".lzma.npz", zipfile.ZIP_LZMA)):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", kind) as archive:
            name, content = ("t.csv", text) if suffix == ".csv.zip" else ("X.npy", found[".npy"])
            archive.writestr(name, content)
        found[suffix] = buffer.getvalue()
    return found


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Bytes with some flipped, cut out, repeated, set to a size, or the end cut off."""
    change = rng.integers(6)
    data = bytearray(content)
    # Half of the damage in the first or the last hundred bytes, where headers are.
    near = rng.integers(min(100, len(data)))
    place = int(rng.choice([rng.integers(len(data)), near, len(data) - 1 - near]))
    if change <= 1:
        for _ in range(rng.choice((1, 1, 3, 20))):
            data[min(len(data) - 1, place + int(rng.integers(30)))] = rng.integers(256)
    elif change == 2:
        del data[place:]
    elif change == 3:
        del data[place : place + int(rng.choice((1, 4, 100)))]
    elif change == 4:
        data[place:place] = data[place : place + int(rng.choice((1, 8, 1000)))] * int(rng.choice((1, 2, 50)))
    else:
        width = int(rng.choice((4, 8)))
        size = int(_SIZES[rng.integers(len(_SIZES))]) % 2 ** (8 * width)
        data[place : place + width] = size.to_bytes(width, "little")
    return bytes(data)


def meet(path: str) -> tuple[str, str]:
    """What comes of a table: the outcome, and what was said."""
    warnings.simplefilter("ignore")
    with pm.config(memory=BUDGET):
        try:
            opened = (open_table if path.endswith((".npy", ".npz")) else open_frame)(path)
            for _ in opened:
                pass
        except (DataError, MemoryError) as error:
            return ("refused" if "\n" not in str(error) else "lines", str(error))
        except BaseException:
            return "traceback", traceback.format_exc()
    return "works", ""


def _damaged(rng: np.random.Generator) -> tuple[str, Writer]:
    found = tables()
    suffix = sorted(found)[rng.integers(len(found))]
    return f"damaged{suffix}", partial(Path.write_bytes, data=damaged(found[suffix], rng))


CAMPAIGN = Campaign(
    right=("refused", "works"),
    whole=lambda: {f"whole{suffix}": partial(Path.write_bytes, data=content) for suffix, content in tables().items()},
    damaged=_damaged,
    meet=meet,
)

if __name__ == "__main__":
    CAMPAIGN.main(__doc__)
