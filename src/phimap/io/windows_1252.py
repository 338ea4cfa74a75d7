"""The encoding Windows-1252, in which every byte is a character.

Python's ``cp1252`` has no characters for five bytes. Here, as in web browsers, they are control characters. Texts in
Latin-1 read the same, unless they have control characters from 128 to 159, which no one writes.
"""

from __future__ import annotations

import codecs

#: Name of the encoding, as an argument of `bytes.decode`.
WINDOWS_1252 = "phimap_windows_1252"
_CHARACTERS = {one: ord(bytes([one]).decode("cp1252", errors="ignore") or chr(one)) for one in range(256)}
_BYTES = {character: one for one, character in _CHARACTERS.items()}


class _Decoder(codecs.IncrementalDecoder):
    def decode(self, input: bytes, final: bool = False) -> str:  # noqa: A002
        return codecs.charmap_decode(input, self.errors, _CHARACTERS)[0]


def _found(name: str) -> codecs.CodecInfo | None:
    if name != WINDOWS_1252:
        return None
    return codecs.CodecInfo(
        encode=lambda text, errors="strict": codecs.charmap_encode(text, errors, _BYTES),
        decode=lambda data, errors="strict": codecs.charmap_decode(data, errors, _CHARACTERS),
        incrementaldecoder=_Decoder,
        name=WINDOWS_1252,
    )


codecs.register(_found)
