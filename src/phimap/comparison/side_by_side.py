"""Comparison of methods on a user's table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, TimeSeriesSplit

from phimap._progress import Stages
from phimap._validation import check_choice, check_integer
from phimap.comparison.measure import attempt, one_thread_seconds, refusal
from phimap.comparison.methods import METHODS, Method, encoding
from phimap.comparison.noise import differences
from phimap.comparison.result import Comparison, ModelResult
from phimap.comparison.rows import as_numbers, as_rows, as_targets, mask_of, note_groups, thinned
from phimap.comparison.size import model_bytes
from phimap.io.batching import chosen
from phimap.learn.rows.grouped import GroupedRowsWarning
from phimap.learn.rows.units import check_groups
from phimap.tables.targets import are_classes

# Minimum number of parts into which the rows are divided. Each split tests one part. With up to five splits a part is a
# fifth of the rows, and with more splits it is smaller.
_LEAST_PARTS = 5
#: Least number of rows of a comparison.
LEAST_ROWS = 20


def compare(
    X: Any,
    y: Any,
    *,
    models: Sequence[str] | None = None,
    splits: int = 3,
    task: str = "auto",
    n_components: int | None = None,
    most_rows: int | None = 10_000,
    random_state: int = 0,
    groups: Any = None,
    validation: str = "random",
    feature_names: Sequence[str] | None = None,
    verbose: bool = False,
    known: Mapping[str, Method] = METHODS,
) -> Comparison:
    """Fit several methods to the same rows and compare errors, times, memory and sizes.

    Parameters
    ----------
    X : array-like or data frame of shape (n_samples, n_features)
        Feature columns. A frame with columns that are not numeric is encoded by `TableEncoder`, which is fitted on the
        training rows of each split.
    y : array-like of shape (n_samples,)
        Targets: numbers or labels.
    models : sequence of str, optional
        Names of methods: ``"linear"`` (ridge or logistic regression), ``"neighbours"``, ``"hgb"``
        (HistGradientBoosting), ``"lightgbm"``, ``"catboost"``, ``"phimap"`` (default settings), and with a fixed kernel
        ``"gaussian"``, ``"ntk"`` and ``"nystroem"``. Default: all methods whose package is installed.
    splits : int, default=3
        Number of splits. Each tests another part of the rows with models fitted to all other rows.
    task : {"auto", "regression", "classification"}, default="auto"
        ``"auto"``: text, booleans and whole numbers with at most 20 distinct values are classes.
    n_components : int, optional
        Number of features of phimap's methods. Default: chosen by held-out error for ``"phimap"``, and 2,048 for fixed
        kernels.
    most_rows : int or None, default=10000
        Maximum number of rows: from longer tables this many are drawn at random. None uses all rows.
    random_state : int, default=0
        Seed for rows, splits and methods.
    groups : array-like of shape (n_samples,), optional
        Group of each row: the rows of a group are tested together, and held out together by the choices of phimap's
        learners. With ``validation="last"``, moments in time.
    validation : {"random", "last"}, default="random"
        ``"last"`` tests the last rows with models fitted to earlier rows, and phimap's learners hold out the last of
        these earlier rows.
    feature_names : sequence of str, optional
        Names of the columns. By default those of a frame, and ``c0, c1, ...`` for an array.
    verbose : bool, default=False
        Show progress on standard error.
    known : mapping of str to Method, optional
        The available methods by name; pass a mapping to add your own.

    Returns
    -------
    Comparison
        The result, which prints as a table.

    Raises
    ------
    ValueError
        If a model is unknown, there are fewer than 20 rows, the target is constant, an array has an entry that is not a
        finite number, a label is missing, or no model can be fitted.

    Notes
    -----
    The splits are the first `splits` of scikit-learn's
    ``KFold(max(5, splits), shuffle=True, random_state=random_state)``, and of its ``StratifiedKFold`` for classes. With
    groups they are the splits of ``GroupKFold``. With ``validation="last"`` they are the splits of ``TimeSeriesSplit``,
    whose training rows are all rows before the tested rows. In split k the methods have the seed ``random_state + k``.
    No row is tested twice. A method that fails is left out with a note. The verdict names classes with fewer rows than
    parts, which some splits do not test. The rows of a group depend on each other, so the p-values of the verdict are
    then too small.

    **Error.** See `phimap.comparison.noise.differences` for what counts as noise.

    **Cost.** The cost of all fits, one after another, times `splits`, and of one more fit of every method with one
    thread. Processor seconds are measured in this last fit, which uses the training rows of the first split: with
    several threads, they would also count waiting threads. Wall-clock times are measured in the other fits. All times
    cover only fit and prediction, after a small fit that loads and compiles code. Reported memory is the increase of
    the process's memory during a fit; it is available only on Linux.

    **Differs from the source.** There is no source.

    References
    ----------
    Nadeau, Bengio (2003), *Inference for the generalization error* (why splits that share training rows contain less
    information than their number suggests).

    Examples
    --------
    >>> import phimap as pm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> found = pm.compare(X, y, models=["linear", "gaussian"], splits=2, n_components=64)
    >>> sorted(one.name for one in found.results)
    ['gaussian', 'linear']
    """
    names_of_methods = chosen_methods(models, known)
    splits = check_integer("splits", splits, least=1)
    X, columns = as_rows(X)
    columns = columns if feature_names is None else list(feature_names)
    if len(columns) != X.shape[1]:
        raise ValueError(f"`feature_names` must name {X.shape[1]} columns, got {len(columns)}. Name each column of X.")
    y = as_targets(y, len(X))
    n_all = len(X)
    if n_all < LEAST_ROWS:
        raise ValueError(f"`X` must have at least {LEAST_ROWS} rows to be compared on, got {n_all}. Give more rows.")
    rows = thinned(n_all, most_rows, random_state)
    last = check_choice("validation", validation, ("random", "last")) == "last"
    groups = check_groups(groups, n_all, in_time=last)
    X, y, groups = chosen(X, mask_of(rows, n_all)), y[rows], None if groups is None else groups[rows]
    task = check_choice("task", task, ("auto", "regression", "classification"))
    if task == "auto":
        task = "classification" if are_classes(y) else "regression"
    if np.unique(y).size < 2:
        raise ValueError(f"`y` must not be constant, got {y[0]} in all rows. Choose another target.")
    targets = as_numbers(y) if task == "regression" else np.unique(y, return_inverse=True)[1]
    folds = _folds(task, targets, groups, splits, random_state, last=last)
    # A mask selects rows in their original order. The indices of the folds are sorted, so the targets match.
    parts = [[(chosen(X, mask_of(places, len(y))), targets[places]) for places in fold] for fold in folds]
    of_ours = [
        {"validation": validation, "groups": None if groups is None else groups[trained]} for trained, _ in folds
    ]
    known = known if isinstance(X, np.ndarray) else {name: encoding(known[name]) for name in names_of_methods}
    stages = Stages(verbose)
    results, losses, notes = [], {}, {}
    if groups is None:
        note_groups(X, columns, random_state)
    with warnings.catch_warnings():
        # `note_groups` names columns of the table. Warnings of the methods would name columns of an encoder.
        warnings.simplefilter("ignore", GroupedRowsWarning)
        for name in names_of_methods:
            if (why := refusal(known[name], len(parts[0][0][1]))) is not None:
                notes[name] = why
                continue
            fits, sizes = [], []
            with stages.stage(name, splits) as advance:
                for k, ((rows_k, targets_k), (tested_k, _)) in enumerate(parts):
                    seed, fitted = random_state + k, of_ours[k]
                    one = attempt(known[name], task, n_components, seed, rows_k, targets_k, tested_k, **fitted)
                    if isinstance(one, str):
                        notes[name] = one
                        break
                    fits.append(one)
                    sizes.append(model_bytes(one.model))
                    advance(1)
            if name not in notes:
                spent = one_thread_seconds(known[name].make(task, n_components, random_state), *parts[0][0])
                losses[name] = [
                    _losses(task, true, one.predicted) for (_, (_, true)), one in zip(parts, fits, strict=True)
                ]
                results.append(ModelResult.of(name, known[name].says, task, losses[name], fits, sizes, spent))
    if not results:
        why = "; ".join(f"{name}: {note}" for name, note in notes.items())
        raise ValueError(f"`models` must have one that can be fitted, got none ({why}). Correct X, or choose others.")
    results.sort(key=lambda one: one.error)
    baselines = [_baseline(task, trained, true) for (_, trained), (_, true) in parts]
    return Comparison(
        task=task,
        n_rows=len(X),
        n_all=n_all,
        n_columns=X.shape[1],
        columns=columns,
        n_splits=splits,
        baseline=float(np.mean(baselines)),
        results=tuple(results),
        differences=tuple(differences({one.name: losses[one.name] for one in results})),
        left_out=notes,
        rare_classes=_rare_classes(task, y, max(_LEAST_PARTS, splits)),
    )


def _folds(
    task: str, targets: np.ndarray, groups: np.ndarray | None, splits: int, seed: int, *, last: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the sorted indices of the training rows and of the tested rows of each split.

    Classes are divided in proportion, unless groups or moments are held out.
    """
    n_parts, rows = max(_LEAST_PARTS, splits), np.arange(len(targets))
    if not last and groups is None:
        # If no class has as many rows as there are parts, proportions cannot be kept.
        in_proportion = task == "classification" and np.bincount(targets).max() >= n_parts
        kind = StratifiedKFold if in_proportion else KFold
        with warnings.catch_warnings():
            # The comparison names the classes with fewer rows than parts.
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            return list(kind(n_parts, shuffle=True, random_state=seed).split(targets, targets))[:splits]
    units = rows if groups is None else np.unique(groups, return_inverse=True)[1]
    n_units = int(units.max()) + 1
    if n_units < n_parts + last:
        raise ValueError(
            f"`groups` must hold at least {n_parts + last} groups for {splits} splits, got {n_units}. Use fewer splits."
        )
    if not last:
        return list(GroupKFold(n_parts, shuffle=True, random_state=seed).split(rows, groups=units))[:splits]
    in_order = TimeSeriesSplit(splits, test_size=n_units // (n_parts + 1)).split(np.arange(n_units))
    return [(np.flatnonzero(np.isin(units, one)), np.flatnonzero(np.isin(units, two))) for one, two in in_order]


def chosen_methods(models: Sequence[str] | None, known: Mapping[str, Method] = METHODS) -> list[str]:
    """Return the names of the requested methods without repetitions, or of all for None; raise if a name is unknown."""
    if models is None:
        return list(known)
    for name in models:
        if name not in known:
            raise ValueError(f"`models` must be among {', '.join(known)}, got {name!r}.")
    if not models:
        raise ValueError("`models` must name at least one method, got none. Leave it out to compare all.")
    return list(dict.fromkeys(models))


def _rare_classes(task: str, y: np.ndarray, n_parts: int) -> dict[str, int]:
    """Return the number of rows of each class with fewer rows than parts."""
    if task == "regression":
        return {}
    labels, counts = np.unique(y, return_counts=True)
    return {str(labels[k]): int(counts[k]) for k in np.flatnonzero(counts < n_parts)}


def _losses(task: str, true: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the losses (r,) of the rows: squared errors, or 1 for a wrong label and 0 for a correct one."""
    if task == "regression":
        return np.square(predicted.astype(np.float64) - true)
    return (predicted != true).astype(np.float64)


def _baseline(task: str, trained: np.ndarray, tested: np.ndarray) -> float:
    """Return the test error of a constant prediction: the mean, or the most frequent class, of the training rows."""
    if task == "regression":
        return float(np.sqrt(np.mean(np.square(tested - trained.mean()))))
    labels, counts = np.unique(trained, return_counts=True)
    return float(np.mean(tested != labels[counts.argmax()]))
