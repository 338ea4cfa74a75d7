"""Files in safetensors format. Equal content gives equal bytes, and arrays are not copied."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

# Names of dtypes in the format. In a file, arrays with longer items come first, so that all arrays are aligned.
_NAMES = {
    np.dtype(name): text
    for name, text in {
        "float64": "F64",
        "int64": "I64",
        "uint64": "U64",
        "float32": "F32",
        "int32": "I32",
        "uint32": "U32",
        "float16": "F16",
        "int16": "I16",
        "uint16": "U16",
        "int8": "I8",
        "uint8": "U8",
        "bool": "BOOL",
    }.items()
}
_ALIGNMENT = 8


def write_tensors(file: IO[bytes], arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write contiguous arrays and texts to an open file in safetensors format.

    Parameters
    ----------
    file : binary file
    arrays : mapping of str to ndarray
        Arrays in C order.
    metadata : mapping of str to str

    Raises
    ------
    TypeError
        If the format does not support a dtype.

    Notes
    -----
    **Error** none. **Cost** Arrays are not copied, so that arrays that fill the memory can be written.
    **Differs from the source** The library ``safetensors`` copies all arrays. It orders the metadata differently in
    every process, so that equal models would give different files.

    References
    ----------
    The format: https://huggingface.co/docs/safetensors.
    """
    little = {key: array.astype(array.dtype.newbyteorder("<"), copy=False) for key, array in arrays.items()}
    order = list(_NAMES)
    for key, array in little.items():
        if array.dtype not in _NAMES:
            raise TypeError(f"a file cannot hold {key}, an array of {array.dtype}.")
    keys = sorted(little, key=lambda key: (order.index(little[key].dtype), key))
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    start = 0
    for key in keys:
        stop = start + little[key].nbytes
        header[key] = {
            "dtype": _NAMES[little[key].dtype],
            "shape": list(little[key].shape),
            "data_offsets": [start, stop],
        }
        start = stop
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for key in keys:
        file.write(bytes_of(little[key]))


def read_tensors(file: Any) -> dict[str, np.ndarray]:
    """Return all arrays of an open file in safetensors format.

    Raises
    ------
    ValueError
        If an array has a dtype that files of this package do not hold. The format names dtypes that NumPy lacks.
    """
    keys, known = list(file.keys()), set(_NAMES.values())
    for key in keys:
        if (dtype := file.get_slice(key).get_dtype()) not in known:
            raise ValueError(f"the array {key[:60]!r} has the dtype {dtype}, which no file of phimap has")
    return {key: file.get_tensor(key) for key in keys}


def bytes_of(array: np.ndarray) -> memoryview:
    """The bytes of an array in C order; an array in another order is copied."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def checksum(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of a text and of arrays with their names, dtypes and shapes."""
    digest = hashlib.sha256(text.encode())
    for key in sorted(arrays):
        array = arrays[key]
        digest.update(f"{key} {array.dtype.str} {array.shape}".encode())
        digest.update(bytes_of(array))
    return digest.hexdigest()
