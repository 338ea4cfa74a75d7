"""Texts read as numbers: decimal marks, thousands, currencies, units, and parentheses of negative numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute

# The type is Any because the functions are created at import, so type checkers cannot see them.
pc: Any = pyarrow.compute
# Spaces that do not break a line. They are written as characters, because patterns of Arrow and of the module ``re``
# have different escapes.
_SPACES = "\xa0\u202f"
# Digits without separators, or in groups of three with a separator that is not the decimal mark.
_WHOLE = r"\d+|[1-9]\d{{0,2}}([{thousands} '" + _SPACES + r"]\d{{3}})+"
_NUMBER = rf"^[+-]?(({_WHOLE})({{decimal}}\d*)?|{{decimal}}\d+)([eE][+-]?\d+)?$"
_PATTERNS = {".": _NUMBER.format(thousands=",", decimal=r"\."), ",": _NUMBER.format(thousands=".", decimal=",")}
_SEPARATORS = {".": ",", ",": "."}
# A negative number in parentheses, as accountants write it. There may be a currency or a unit within the parentheses.
_NEGATIVE = rf"^\([\s{_SPACES}]*([^()]*?)[\s{_SPACES}]*\)$"
_HAS_NEGATIVE = r"^[^()]{0,5}\([^()]*\d[^()]*\)"
# The parts of a number with a unit: a sign, a currency before the number (a symbol, or a code of three letters and a
# space), the number, and a unit after it (a symbol or words, such as kg, m2, l/100km or sq ft). Cells with a word
# before a number are names of levels, such as k12 or Route 66. Cells with a mark after a number are names of levels,
# too, such as 12-34.
_SYMBOL = "[$€£¥₹₩₽₺]"
_CURRENCY = rf"{_SYMBOL}|[A-Z]{{3}} "
_AMOUNT = r"[\d.,][\d.,' \xa0\u202f]*?"
_UNIT = r"(?:(?:[$€£¥₹₩₽₺%‰°/]|[^\W\d_])(?: ?[^\d\s]){0,30}(?:/\d{1,4}[^\d\s]{1,10})?[\d²³]?)?"
_MEASURED = re.compile(rf"([+-]?)({_CURRENCY})? ?([+-]?{_AMOUNT}|\({_AMOUNT}\))[ \xa0]?({_UNIT})")
# A currency without the space after its code.
_IS_CURRENCY = re.compile(rf"{_SYMBOL}|[A-Z]{{3}}")
# A word that may have the s of a plural.
_COUNTED = re.compile(r".*[^\W\d_]{3}", re.DOTALL)
# A unit is looked for in at most this number of distinct cells. Cells may have a currency and a unit if at least this
# share of them agree on both.
_LOOKED_AT, _SHARE_WITH_UNIT = 1000, 0.9
# Largest number of units that cells of one quantity are taken to have.
_MOST_UNITS = 3


def numbers_in(texts: pa.Array, decimal: str) -> np.ndarray:
    """Convert texts (n,) to float64; texts that are not numbers become NaN.

    Parameters
    ----------
    texts : pyarrow.Array of strings
    decimal : str
        The decimal mark, ``"."`` or ``","``; the other mark, spaces and apostrophes may separate thousands. A currency,
        a tab and a unit may follow the mark. Cells may then have the currency before, and the unit after, a number.
        Lines separate several currencies. Numbers in parentheses are negative.
    """
    steps = number_steps(decimal)
    for pattern, new in steps.before:
        texts = pc.replace_substring_regex(texts, pattern, new)
    texts = pc.if_else(pc.match_substring_regex(texts, steps.number), texts, None)
    for pattern, new in steps.after:
        texts = pc.replace_substring_regex(texts, pattern, new)
    return texts.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)


class NumberSteps(NamedTuple):
    """The steps from a text to a number: replacements by regular expressions, a check, and more replacements.

    A text is a number if it matches `number` after the replacements `before`. The replacements `after` then put it into
    the form that ``float`` reads.
    """

    before: list[tuple[str, str]]
    number: str
    after: list[tuple[str, str]]


def number_steps(decimal: str) -> NumberSteps:
    """Return the steps of `numbers_in`; for the module ``re``, the patterns need its flag ``ASCII``."""
    mark, (before, after) = decimal[:1], _affixes(decimal)
    negative = (_NEGATIVE, r"-\1")
    steps: list[tuple[str, str]] = [negative]
    if before:
        steps.append((rf"^([+-]?)(?:{'|'.join(map(re.escape, before))})\s*", r"\1"))
    if after:
        steps.append((rf"[\s{_SPACES}]*(?:{'|'.join(map(_unit_pattern, after))})$", ""))
    # Only the number may be in parentheses, as in $(12).
    steps += [negative] * bool(before or after)
    last = [(rf"[{_SEPARATORS[mark]} '{_SPACES}+]", "")]
    return NumberSteps(steps, _PATTERNS[mark], [*last, (",", ".")] if mark == "," else last)


def _affixes(reading: str) -> tuple[list[str], list[str]]:
    """The currencies before and the units after the numbers of a reading."""
    before, _, after = reading[1:].partition("\t")
    return [one for one in before.split("\n") if one], [one for one in after.split("\n") if one]


def _unit_pattern(unit: str) -> str:
    singular = _singular(unit)
    return re.escape(singular) + ("s?" if _COUNTED.fullmatch(singular) else "")


def how_read(reading: str, *, negatives: bool) -> str:
    """Return what a reading leaves out of the cells, and whether it has `negatives`, as the end of a note."""
    before, after = _affixes(reading)
    without = f" without {', '.join(map(repr, [*before, *after]))}" if before or after else ""
    several = ", of several currencies as if of one" if len(before) > 1 or len(after) > 1 else ""
    return without + several + ", with numbers in parentheses as negative" * negatives


def negatives_in(texts: pa.Array) -> bool:
    """Whether some texts are in parentheses, alone or after a sign and a currency."""
    return bool(pc.any(pc.match_substring_regex(texts, _HAS_NEGATIVE)).as_py())


def readings_of(texts: Sequence[str], decimal: str = ".", *, any_currency: bool = False) -> list[str]:
    """Return the ways in which distinct texts may be read as numbers, as arguments of `numbers_in`.

    The decimal mark `decimal` comes first, because callers break ties by the order. With `any_currency`, texts may have
    different currencies, before or after the numbers.
    """
    affixes = affixes_of(texts)
    if any_currency and (found := currencies_of(texts)):
        before, after = _affixes(f".{affixes}")
        before = dict.fromkeys([*before, *(one for one, is_before in found if is_before)])
        after = dict.fromkeys([*after, *(one for one, is_before in found if not is_before)])
        affixes = "\n".join(before) + "\t" + "\n".join(after)
    return [mark + affixes for mark in (decimal, _SEPARATORS[decimal])]


def affixes_of(texts: Sequence[str]) -> str:
    """Return the currency before and the unit after the numbers in texts, joined by a tab.

    The result is empty if there is neither, or if too few of the texts agree on both.
    """
    pairs = _pairs_in(texts)
    if not pairs:
        return ""
    alike = Counter()
    for (before, after), count in pairs.items():
        alike[before, _singular(after)] += count
    (before, singular), count = alike.most_common(1)[0]
    after = max(
        (two for one, two in pairs if (one, _singular(two)) == (before, singular)), key=lambda two: pairs[before, two]
    )
    enough = _SHARE_WITH_UNIT * len(texts[:_LOOKED_AT])
    return f"{before}\t{after}" if count >= enough and (before or after) else ""


def currencies_of(texts: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the currencies in texts, in the order of their appearance, each with whether it is before a number."""
    found = dict.fromkeys(
        (affix, is_before)
        for pair in _pairs_in(texts)
        for affix, is_before in zip(pair, (True, False), strict=True)
        if _IS_CURRENCY.fullmatch(affix)
    )
    return list(found)


def mixed_currencies(texts: Sequence[str]) -> list[str]:
    """Return the currencies of amounts in several currencies; empty if too few of the texts are such amounts."""
    found: Counter[str] = Counter()
    for pair, count in _pairs_in(texts).items():
        if _IS_CURRENCY.fullmatch("".join(pair)):
            found["".join(pair)] += count
    enough = _SHARE_WITH_UNIT * len(texts[:_LOOKED_AT])
    return list(found) if len(found) > 1 and found.total() >= enough else []


def mixed_units(texts: Sequence[str]) -> list[str]:
    """Return the units, "" for none, of numbers in a few units that are not all currencies.

    The result is empty if too few of the texts are such numbers, or if they have more than `_MOST_UNITS` units, which
    are words such as names of streets then.
    """
    found: Counter[str] = Counter()
    for (before, after), count in _pairs_in(texts).items():
        found[before or _singular(after)] += count
    enough = _SHARE_WITH_UNIT * len(texts[:_LOOKED_AT])
    is_mixed = 1 < len(found) <= _MOST_UNITS and not all(map(_IS_CURRENCY.fullmatch, found))
    return list(found) if is_mixed and found.total() >= enough else []


def _pairs_in(texts: Sequence[str]) -> Counter[tuple[str, str]]:
    """Count the pairs of a currency before, and a unit after, a number in the first of the texts."""
    found = (_MEASURED.fullmatch(re.sub(_NEGATIVE, r"-\1", text)) for text in texts[:_LOOKED_AT])
    return Counter(((one[2] or "").strip(), one[4]) for one in found if one and any(mark.isdigit() for mark in one[3]))


def _singular(unit: str) -> str:
    """Return a unit without the s of its plural: ``1 room`` has the unit of ``2 rooms``."""
    return unit[:-1] if unit.endswith("s") and _COUNTED.fullmatch(unit[:-1]) else unit
