"""The choice between regression and classification of a target."""

from __future__ import annotations

import numpy as np

from phimap.cli.errors import complain
from phimap.cli.first_pass import Overview
from phimap.io import DataError
from phimap.io.target import TextTarget
from phimap.learn.targets.classes import name_rows
from phimap.tables.targets import MOST_CODES

# Largest number of labels that the summary of the training rows collects.
_MOST_LABELS = 1000
# Whole numbers are classes only if a class has at least this number of training rows on average.
_LEAST_ROWS_EACH = 2
# Whole numbers may be codes of classes under three conditions: there are at most this many distinct values, they cover
# more than half of their range, and a value has at least 5 training rows on average. In this case a warning is given.
_MOST_DOUBTFUL = 100
_ROWS_EACH = 5
# Labels may be amounts if more than this share of them can be read as numbers.
_MOSTLY = 0.5
# Advice for a target of amounts: without and with a loss for classes.
_OTHER_TASK = {False: "Use --task regression", True: "Choose another --loss, such as squared"}


def choose_task(asked: str, where: str, overview: Overview, *, by_loss: bool = False) -> tuple[str, str]:
    """Return ``"classification"`` or ``"regression"``, and the reason for this choice.

    `asked` is the task that the user asks for, or ``"auto"``. `by_loss` is true if the task follows from a loss. Text
    and booleans are classes. Whole numbers are classes if they have at most 20 distinct values and enough rows.
    """
    text = not overview.summary.targets_are_numbers
    labels = overview.labels
    if labels is not None and len(labels) == 1:
        raise DataError(f"{where}: the target is constant ({labels[0]}) in the training rows. Choose another --target.")
    if asked == "classification" and not overview.whole:
        raise DataError(f"{where}: the target holds fractions, which are no classes. {_OTHER_TASK[by_loss]}.")
    if asked == "classification" and not text and labels and name_rows(len(labels), overview.n_train):
        raise DataError(
            f"{where}: the target has {len(labels)} distinct values in {overview.n_train} training rows, too many for "
            f"classes. {_OTHER_TASK[by_loss]}."
        )
    few = overview.whole and labels is not None and (text or len(labels) <= _most_codes(overview))
    if text and (labels is None or name_rows(len(labels), overview.n_train)):
        found = f"more than {_MOST_LABELS}" if labels is None else f"{len(labels)}"
        remedies = "Choose another --target, or group them."
        if _are_amounts(overview):
            remedies = "Choose another --target, group them, or read them as amounts with --types COL=number."
        raise DataError(f"{where}: the target has {found} distinct labels, which look like names of rows. {remedies}")
    if asked == "classification" and labels is None:
        raise DataError(
            f"{where}: the target has more than {_MOST_LABELS} distinct values, too many for classes. "
            f"{_OTHER_TASK[by_loss]}."
        )
    if asked != "auto":
        return asked, "as asked"
    if few:
        kind = "labels" if text else "whole numbers"
        other = "" if text else "; --task regression overrides"
        return "classification", f"{len(labels or ())} distinct {kind}{other}"
    if _look_like_codes(overview):
        complain(
            f"{where}: the target has {len(labels or ())} distinct whole numbers, taken for amounts. If they are codes "
            "of classes, use --task classification.",
            "warning",
        )
    return "regression", "numbers; --task classification overrides" if overview.whole else "numbers"


def _are_amounts(overview: Overview) -> bool:
    """Whether most labels of text can be read as amounts if the user says so."""
    texts = np.asarray(overview.summary.sample.y)
    amounts = TextTarget("", wanted=True, decimal=".").amounts(texts) if texts.dtype.kind == "U" else None
    return amounts is not None and bool(np.isfinite(amounts).mean() > _MOSTLY)


def _most_codes(overview: Overview) -> int:
    """Largest number of distinct whole numbers that are treated as classes."""
    return min(MOST_CODES, overview.n_train // _LEAST_ROWS_EACH)


def _look_like_codes(overview: Overview) -> bool:
    """Whether the targets may be codes of classes although they have too many values to be treated as classes."""
    labels = overview.labels
    if not overview.whole or labels is None or len(labels) > _MOST_DOUBTFUL:
        return False
    return labels[-1] - labels[0] < 2 * len(labels) and overview.n_train >= _ROWS_EACH * len(labels)
