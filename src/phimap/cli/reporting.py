"""The facts of a finished fit that its report shows."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from phimap._number_text import label_text, number_text
from phimap._progress import Stage, Stages
from phimap.cli.describe import (
    form_text,
    inputs_text,
    leading_columns,
    length_scale_of,
    loss_of,
    loss_text,
    search_facts,
    solver_text,
    some,
    trees_alone,
)
from phimap.cli.encoded import HEAD, columns_of
from phimap.cli.first_pass import mean_and_deviation
from phimap.cli.loss_scores import LossScores
from phimap.cli.options import FitOptions
from phimap.cli.result import Result
from phimap.cli.rows import SplitRows
from phimap.cli.scoring import Scores
from phimap.cli.written_kernels import kernel_text
from phimap.config import size_text
from phimap.explain.importance import mean_absolute_values
from phimap.learn.rows.batches import feature_rows
from phimap.report import (
    Axis,
    Dependences,
    Facts,
    HeldOutIntervals,
    HeldOutProbabilities,
    Permutations,
    axis_of_encoded,
    axis_of_numbers,
    certainty,
    dependences,
    error_curves,
    permutation_importances,
    render,
)
from phimap.tables import TableEncoder
from phimap.tables.frames import cells_of

# The report describes columns if the table has at most `_MOST_DESCRIBED` columns. It describes at most `_LISTED`
# columns.
_MOST_DESCRIBED, _LISTED = 200, 40
# Maximum number of columns with a relevance bar, of columns with a plot of partial dependence, and of rows over which
# such a plot averages.
_BARS = 15
_DRAWN = 3
_DRAWN_ROWS = 200
# Number of rows in which categories are counted if no row was held out.
_COUNTED_ROWS = 4096
_VERSIONS = ("phimap", "numpy", "scipy", "scikit-learn", "numba")
_CHOSEN_BY = {
    "given": "as given",
    "gcv": "by generalised cross-validation",
    "held-out": "by validation rows",
    "leave-one-out": "by leave-one-out error",
}
_HEAD = ("column", "mean", "deviation", "lowest", "highest")


def page(result: Result) -> str:
    """Return the report of `result` as HTML; computes the error curves and partial dependences."""
    options, overview, model = result.options, result.overview, result.model
    stages = list(result.stages)
    curves = None
    # Error curves describe the kernel model, which is not used if boosted trees alone predict.
    if result.scores is not None and not trees_alone(model):
        curves = _timed(stages, "error curves", lambda: error_curves(model, _held_out(result)))
    permutations = _timed(stages, "columns", lambda: _permutations(result))
    name = "held-out intervals" if result.task == "regression" else "held-out probabilities"
    sure = _timed(stages, name, lambda: _certainty(result))
    found = _timed(stages, "partial dependence", lambda: _dependences(result, permutations))
    solution, names, left_out = model.solution_, _names(result), set(overview.names_left_out)
    kept = [place for place, name in enumerate(names) if name not in left_out]
    true, predicted = result.scores.pairs() if result.scores else (None, None)
    return render(
        Facts(
            data=_file_name(options.data),
            target=str(result.table.target_name),
            task=result.task,
            headline=" ".join(filter(None, (_headline(result, true), _who_predicts(result)))),
            tiles=_tiles(result, stages),
            true=true,
            predicted=predicted,
            measure=_measure(result),
            levels=np.ravel(model.quantile).tolist() if model.loss == "quantile" else None,
            alphas=solution.alphas,
            estimate=np.sqrt(solution.scores) if loss_of(model) == "squared" else solution.scores,
            criterion=solution.criterion,
            alpha=model.alpha_,
            certainty=sure,
            curves=curves,
            leading=[] if result.table.is_image else leading_columns(model, _BARS),
            importances=_importances(result),
            names=[names[place] for place in kept],
            permutations=None if permutations is None else replace(permutations, rises=permutations.rises[kept]),
            dependences=found,
            search=model.search_,
            stages=stages,
            tables=[("Data", _data(result)), ("Model", _model(result)), ("Reproducibility", _reproducibility(result))],
            columns=_described(result) if overview.encoder is None else [HEAD, *columns_of(overview.encoder)[:_LISTED]],
            inputs=inputs_text(result.table, overview.names_left_out),
            n_columns=result.table.n_features,
            command=_command(options),
            held_out_by="" if result.scores is None else _held_out_by(result)[1],
        )
    )


def _timed(stages: list[Stage], name: str, compute: Callable[[], Any]) -> Any:
    """Return a part of the report, and add its stage to `stages` unless there is no such part."""
    timer = Stages()
    with timer.stage(name):
        found = compute()
    stages += [] if found is None else timer.finished
    return found


def _measure(result: Result) -> str:
    """The name of the error in the figures."""
    if isinstance(result.scores, LossScores):
        return result.scores.name
    if (loss := loss_of(result.model)) != "squared":
        return f"{loss} loss".replace("_", " ")
    return "RMSE" if result.task == "regression" else "error"


def _names(result: Result) -> list[str]:
    """Names of the columns that the user gives."""
    names = getattr(result.model, "feature_names_in_", None)
    return [f"column {j}" for j in range(result.model.n_features_in_)] if names is None else [str(one) for one in names]


def _permutations(result: Result) -> Permutations | None:
    """Increase of the held-out error if the values of a column are shuffled, for each column.

    None for images, without held-out rows, and for the losses of quantiles and deviances, which have other errors.
    """
    if result.scores is None or result.table.is_image or isinstance(result.scores, LossScores):
        return None
    model = result.model
    columns = np.arange(model.n_features_in_) if model.encoder_ is None else model.encoder_.groups_
    found = permutation_importances(model, _held_out(result), columns)
    missing = 0 if found is None else model.n_features_in_ - found.rises.size
    # The encoder may leave out the last columns.
    return found if not missing or found is None else replace(found, rises=np.append(found.rises, np.zeros(missing)))


def _held_out(result: Result) -> SplitRows:
    """Return the held-out rows, beginning with the rows that the first pass kept."""
    options, overview = result.options, result.overview
    rows = feature_rows(result.n_components, np.dtype(options.dtype).itemsize)
    split = result.table, options.holdout, options.seed, options.by_class, rows
    return SplitRows(*split, True, overview.encoder, kept=overview.held_out, groups=overview.groups)


def _certainty(result: Result) -> HeldOutIntervals | HeldOutProbabilities | None:
    """Intervals or probabilities of held-out rows.

    None without held-out rows, and for quantiles, which are drawn as a band.
    """
    if result.scores is None or loss_of(result.model) == "quantile":
        return None
    return certainty(result.model, _held_out(result))


def _importances(result: Result) -> list[tuple[str, float]]:
    """Names and mean absolute Shapley values of the columns; empty for images, and if they take too long."""
    if result.table.is_image:
        return []
    sizes = mean_absolute_values(result.model, result.overview.summary.sample.first(_DRAWN_ROWS)[0])
    if sizes is None:
        return []
    left_out = set(result.overview.names_left_out)
    found = zip(_names(result), sizes, strict=True)
    return [(name, float(size)) for name, size in found if name not in left_out]


def _dependences(result: Result, permutations: Permutations | None) -> Dependences | None:
    """Partial dependences on the most important columns; None for images, and for classifiers without probabilities.

    The permutation importance ranks the columns. Without it, the metric ranks them; without a metric, the result is
    None.
    """
    model, names = result.model, _names(result)
    if result.table.is_image or (result.task == "classification" and model.calibration_ is None):
        return None
    if permutations is None:
        ranked = [name for name, _ in leading_columns(model, len(names))]
    else:
        ranked = [names[place] for place in np.argsort(-permutations.rises, kind="stable")]
    rows, encoder = result.overview.summary.sample.first(_DRAWN_ROWS)[0], model.encoder_
    if encoder is None:
        axes = [axis_of_numbers(rows, names.index(name), name) for name in ranked[:_DRAWN]]
    else:
        axes = encoded_axes(encoder, rows, _some_cells(result), ranked)
    return dependences(model, rows, axes) if axes else None


def _some_cells(result: Result) -> Any:
    """Rows of the table before they were encoded: the first held-out rows, or the first rows of all."""
    return (result.overview.held_out or [next(iter(result.table.numbered_batches(_COUNTED_ROWS)))])[0][0]


def encoded_axes(encoder: TableEncoder, X: Any, table: Any, ranked: Sequence[str]) -> list[Axis]:
    """Axes of the first columns of the list `ranked`, without columns that have no axis.

    `X` (n, d) holds encoded rows. Categories are ordered by their number in the rows `table`, which are not encoded.
    """
    places, cells, found = {column.name: place for place, column in enumerate(encoder.columns_)}, cells_of(table), []
    for name in ranked if isinstance(X, np.ndarray) else ():
        columns = np.flatnonzero(encoder.groups_ == places[name])
        axis = axis_of_encoded(X, columns, encoder.columns_[places[name]], cells[name].places_in)
        found += [] if axis is None else [axis]
    return found[:_DRAWN]


def _headline(result: Result, true: np.ndarray | None) -> str:
    """A sentence that compares the score with the score of a constant prediction."""
    scores, target = result.scores, result.table.target_name
    if scores is None or true is None:
        return f"Trained on all {result.overview.n_train:,} rows. Nothing was held out, so there is no score."
    rows = f"On {scores.n:,} rows that took no part in training,"
    if isinstance(scores, LossScores):
        loss, constant = number_text(scores.error, 3), number_text(scores.baseline, 3)
        better = f"{100 * scores.d2:.1f} % less than" if scores.d2 > 0 else "no less than"
        return (
            f"{rows} the {scores.name} of the model's {scores.predicted} of {target} is {loss}, {better} that of the "
            f"best {scores.of_constant}, {constant}."
        )
    if result.task == "regression" and result.overview.target is not None:
        by_mean = number_text(scores.baseline, 3)
        typical = f"its error is typically {number_text(scores.rmse, 3)}"
        if np.isnan(scores.r2):
            spread = number_text(result.overview.target["deviation"], 3)
            return f"{rows} which all have the same {target}, {typical}; the spread of the training rows is {spread}."
        if scores.rmse >= scores.baseline:
            return f"{rows} the model predicts {target} no better than its mean does: {typical}, the mean's {by_mean}."
        share = f"{100 * scores.r2:.1f} %" if scores.r2 > 0 else "nothing"
        return (
            f"{rows} the model explains {share} of the variance of {target}: {typical}, where always predicting the "
            f"mean would err by {by_mean}."
        )
    unseen = scores.unseen()
    return (
        f"{rows} the model finds the right one of {len(result.model.classes_)} classes of {target} in "
        f"{100 * scores.accuracy:.2f} % of cases, where always naming the commonest would be right in "
        f"{100 * scores.baseline:.1f} %." + (f" {unseen}" if unseen else "")
    )


def _who_predicts(result: Result) -> str:
    """A sentence for models whose trees alone predict, because the rest of the page describes the kernel model."""
    if not trees_alone(result.model):
        return ""
    return "Boosted trees alone predict: the kernel model has no share in the predictions and is not used."


def _tiles(result: Result, stages: list[Stage]) -> list[tuple[str, str, str]]:
    scores = result.scores
    tiles = [] if scores is None else _score_tiles(scores, str(result.table.target_name))
    peak = max(stage.peak_bytes for stage in stages)
    return [
        *tiles,
        ("Training rows", f"{result.overview.n_train:,}", f"{result.overview.n_held_out:,} held out"),
        ("Features", f"{result.n_components:,}", f"from {inputs_text(result.table, result.overview.names_left_out)}"),
        ("Time", f"{result.seconds:.1f} s", "reading, fitting, scoring"),
        ("Memory", size_text(peak), "at most, whole process"),
    ]


def _score_tiles(scores: Scores, target: str) -> list[tuple[str, str, str]]:
    """The score, and the scores of a constant prediction and of a linear model."""
    linear = scores.linear
    if isinstance(scores, LossScores):
        return [
            ("D²", f"{scores.d2:.3f}", "on held-out rows"),
            (scores.name.capitalize(), number_text(scores.error, 3), scores.note),
            ("Baseline", number_text(scores.baseline, 3), f"{scores.name} of the best {scores.of_constant}"),
        ]
    if scores.task == "regression":
        beside = "" if linear is None else f"a linear model: {number_text(linear.rmse, 3)}"
        return [
            ("R²", "undefined" if np.isnan(scores.r2) else f"{scores.r2:.3f}", "on held-out rows"),
            ("RMSE", number_text(scores.rmse, 3), f"in units of {target}"),
            (
                "Baseline",
                number_text(scores.baseline, 3),
                "; ".join(filter(None, ("RMSE of the training mean", beside))),
            ),
        ]
    wrong = round(scores.n * (1 - scores.accuracy))
    beside = "" if linear is None else f"a linear model: {100 * linear.accuracy:.2f} %"
    tiles = [
        ("Accuracy", f"{100 * scores.accuracy:.2f} %", f"{wrong:,} mistakes in {scores.n:,} held-out rows"),
        ("Baseline", f"{100 * scores.baseline:.2f} %", "; ".join(filter(None, ("the commonest class", beside)))),
    ]
    balance = scores.rarer_class()
    if balance is None:
        return [*tiles, ("Balanced", f"{100 * scores.balanced_accuracy:.2f} %", "mean share found of each class")]
    note = f"chance that a row of {label_text(balance.label)} ranks above another; 0.5 is guessing"
    return [*tiles, ("AUC", f"{balance.auc:.3f}", note)]


def _data(result: Result) -> list[tuple[str, str]]:
    overview, table = result.overview, result.table
    rows = [
        ("file", _file_name(result.options.data)),
        ("rows", f"{overview.n_rows:,}"),
        ("inputs", inputs_text(table, overview.names_left_out)),
        ("target", str(table.target_name)),
        ("task", f"{result.task} ({result.why})"),
    ]
    if result.options.weights is not None:
        rows.append(("weights", result.options.weights))
    target = overview.target
    if result.task == "classification":
        rows.append(("classes", f"{len(result.model.classes_)}: {some(list(map(label_text, result.model.classes_)))}"))
    elif target is not None:
        shown = {name: number_text(value, 4) for name, value in target.items()}
        rows += [
            ("target mean", shown["mean"]),
            ("target deviation", shown["deviation"]),
            ("target range", f"{shown['low']} to {shown['high']}"),
        ]
    return rows


def _model(result: Result) -> list[tuple[str, str]]:
    model, options = result.model, result.options
    columns = "each column to mean 0, variance 1"
    scaling = {"auto": columns, "columns": columns, "global": "one factor for all columns"}
    chosen_by = _CHOSEN_BY.get(model.solution_.criterion, model.solution_.criterion)
    form = "" if model.scaling_.form is None else f", seen as {form_text(model.scaling_)}"
    rows = [
        *([] if model.loss == "squared" else [("loss", loss_text(model))]),
        ("kernel", kernel_text(model.kernel_)),
        ("feature map", f"{type(model.feature_map_).__name__}, {result.n_components:,} features"),
        *search_facts(model, result.stages),
        ("scaling", scaling.get(str(model.standardize), "none") + form),
        ("solver", solver_text(model.solution_)),
        ("regularisation", f"alpha = {number_text(model.alpha_, 4)}, {chosen_by}"),
    ]
    length_scale = length_scale_of(model.kernel_)
    if length_scale is not None:
        chosen = {"auto": "by held-out error", "median": "median distance"}.get(str(options.length_scale), "as given")
        rows.append(("length scale", f"{number_text(length_scale, 4)}, {chosen}"))
    return [*rows, ("precision", f"{options.dtype} features, float64 sums")]


def _reproducibility(result: Result) -> list[tuple[str, str]]:
    return [
        ("seed", str(result.options.seed)),
        ("held out", f"{result.options.holdout:g} of the rows, {_held_out_by(result)[0]}"),
        ("Python", platform.python_version()),
        *((name, version(name)) for name in _VERSIONS),
    ]


def _held_out_by(result: Result) -> tuple[str, str]:
    """How the held-out rows were chosen, in a few words, and a sentence on what the choice depends on."""
    options = result.options
    if options.groups is not None:
        return "as whole groups", f"Which groups are held out depends on the seed and the column {options.groups!r}."
    if options.time is not None:
        return "the latest ones", f"The rows that are latest by the column {options.time!r} are held out."
    depends = "Which rows are held out depends on the seed"
    if result.task == "classification":
        return "of each class in proportion", f"{depends}, on their place in the file, and on the labels alone."
    return "by place in the file", f"{depends} and on their place in the file."


def _described(result: Result) -> list[tuple[str, ...]]:
    """A table with the mean, deviation and range of each feature column; empty if there are too many columns."""
    if result.table.n_features > _MOST_DESCRIBED:
        return []
    summary, names = result.overview.summary, result.table.feature_names
    facts = (*mean_and_deviation(summary.moments), summary.columns.low, summary.columns.high)
    return [_HEAD, *((name, *(number_text(fact[j], 4) for fact in facts)) for j, name in enumerate(names[:_LISTED]))]


def _command(options: FitOptions) -> str:
    """The command line, in which paths are replaced by file names."""
    files = {Path(file) for file in (options.data, options.model, options.report) if file is not None}
    words = []
    for word in sys.argv[1:]:
        option, separator, value = word.partition("=") if word.startswith("--") else ("", "", word)
        words.append(option + separator + (_file_name(value) if value and Path(value) in files else value))
    return shlex.join(["phimap", *words])


def _file_name(data: str) -> str:
    return Path(data).resolve().name
