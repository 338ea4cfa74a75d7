"""Named results, printed as plain lines or as one JSON object."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phimap._number_text import label_text, number_text
from phimap._printable import printable


@dataclass(frozen=True)
class Fact:
    """A named result.

    Attributes
    ----------
    name : str
    value : object
        The value in JSON: a number, text, or a list of these.
    form : str
        Format of a number on a plain line.
    """

    name: str
    value: Any
    form: str = ""

    @property
    def text(self) -> str:
        """The value on a plain line, without thousands separators, so that programs can read it."""
        if self.form.endswith("g"):
            return number_text(self.value, int(self.form[1:-1])).replace(",", "")
        return format(self.value, self.form) if self.form else label_text(self.value)


def write(facts: Sequence[Fact], *, as_json: bool, stream: Any = None) -> None:
    """Write to `stream` one line for each fact, or one JSON object for all facts; None is standard output."""
    stream = sys.stdout if stream is None else stream
    if as_json:
        write_json({fact.name: fact.value for fact in facts}, stream)
    else:
        stream.writelines(f"{fact.name} {printable(fact.text)}\n" for fact in facts)


def write_json(values: Mapping[str, Any], stream: Any = None) -> None:
    """Write values as one JSON object on a line, to `stream`; None is standard output."""
    # JSON has no NaN, so `_plain` replaces it by None.
    text = json.dumps(_plain(values), allow_nan=False, ensure_ascii=False)
    (sys.stdout if stream is None else stream).write(printable(text) + "\n")


def _plain(value: Any) -> Any:
    """Convert a value for JSON. Numbers of NumPy become Python numbers, and NaN and infinity become None."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float) else str(value)
