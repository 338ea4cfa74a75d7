"""A stream of text without repeated blanks, for tables whose columns are separated by any number of blanks."""

from __future__ import annotations

import io
import re
from typing import Any

_BLANKS = re.compile(rb" {2,}")
_EDGES = re.compile(rb"(?:^|(?<=\n)) +| +(?=\r?\n|$)")


class SqueezedText(io.RawIOBase):
    """The text of `source` with single blanks between words, and none at the ends of lines.

    Parameters
    ----------
    source : file object
        Opened for reading bytes.
    block_bytes : int
        Number of bytes that are read from `source` at once.
    """

    def __init__(self, source: Any, block_bytes: int) -> None:
        self._source, self._block_bytes = source, block_bytes
        self._rest = self._ready = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes; empty at the end of the stream."""
        while not self._ready:
            piece = self._source.read(self._block_bytes)
            lines, newline, rest = (self._rest + piece).rpartition(b"\n")
            self._ready, self._rest = (lines + newline, rest) if piece else (self._rest, b"")
            self._ready = _BLANKS.sub(b" ", _EDGES.sub(b"", self._ready))
            if not piece:
                break
        size = len(self._ready) if size < 0 else size
        out, self._ready = self._ready[:size], self._ready[size:]
        return out
